# K4: the provider dies and comes back, with calls waiting for it, in the middle of its answers, between calls and for a
# while; its machine freezes; its connections are reset.  Callers are told by their deadline, what was written and
# not answered is unknown and charged, what was not written is free and tried again, and nobody has to do anything for
# the next call to work.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('the provider dies, freezes, and is back', rounds => [ 20, 500 ], every => 10, upstream => ['--echo']);
my ($node, $up) = ($c->node, $c->up);
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"cache": false, "retry": {"max_attempts": 3, "base": 0.05, "max": 0.2}}') FROM mw.tenant});
my $n = 12;
my @all = map { $c->client('r' . (1 + $_ % 3)) } 0 .. $n - 1;

# all callers' words at once, and what the ledger says of each; more statements in between
sub everybody
{
	my ($what, $meanwhile, %o) = @_;
	my @id = map { $c->nonce } @all;
	my $from = time;
	$all[$_]->send($c->ask('t' . (1 + $_ % 3), undef, $id[$_], options => { max_tokens => 64, timeout => $o{timeout} // 30 })) for 0 .. $n - 1;
	$meanwhile->();
	my (@words, @r);
	for my $i (0 .. $n - 1)
	{
		my $r = $all[$i]->result;
		push @words, MwClient::word_of($r) eq $c->prompt('t' . (1 + $i % 3), $id[$i]) ? 'answer' : MwClient::word_of($r);
		push @r, $r;
		$c->count("$what: $words[-1]");
	}
	my $took = time - $from;
	my %ledger = map { split / /, $_, 2 } $c->admin("SELECT request_id || ' ' || string_agg(outcome || ':' || CASE WHEN billed_tokens = 0 THEN 'free'
		WHEN outcome = 'unknown' AND billed_tokens = reserved_tokens THEN 'reserved' ELSE 'billed' END, ' ' ORDER BY attempt)
		FROM mw.attempt WHERE request_id IN (" . join(', ', map { "'$_'" } @id) . ') GROUP BY request_id');
	for my $i (0 .. $n - 1)
	{
		my $is = "$words[$i] " . ($ledger{ $id[$i] } // 'nothing');
		$c->must(scalar($is =~ $o{ends}), "$what: $is, wanted $o{ends} (" . ($r[$i]{error} ? "$r[$i]{error}{M}: $r[$i]{error}{D}" : '') . ')');
	}
	return $took;
}
# A new connection that dies leaves the outcome open.  One that was used before and dies without a byte counts as one that
# had died already: nothing was sent, and it is tried again.
my ($fresh, $warm) = (qr/^MW402 unknown:reserved$/, qr/^(MW402 unknown:reserved|MW402 (failed:free ?){3}|answer (failed:free )+ok:billed)$/);
sub connections
{
	return $warm if rand() < 0.5;
	$c->script({ m => [ { echo => \1, close => \1, repeat => $n } ] });
	well('on connections that close');
	return $fresh;
}
sub well { my ($when) = @_; return everybody("well $when", sub { }, ends => qr/^answer (failed:free )*ok:billed$/); }

my %how = (
	'dies with calls waiting' => sub {
		my $ends = connections();
		$c->script({ m => [ { text => 'never', hold => \1, repeat => $n } ] });
		everybody('waiting', sub {
			$up->wait(requests => $n);
			$c->audit;
			$up->die_hard;
			$up->again;
		}, ends => $ends);
		return;
	},
	'dies in its answers' => sub {
		$c->script({ m => [ { text => 'x' x 5000, drip_ms => 20, drip_bytes => 16, repeat => $n } ] });
		everybody('answering', sub {
			$up->wait(requests => $n);
			sleep 0.2 + rand 0.3;
			$c->audit;
			$up->die_hard;
		}, ends => $fresh);
		$up->again;
		return;
	},
	'dies between calls' => sub {
		$c->script({});
		well('warm');
		$c->audit;
		$up->die_hard;
		sleep rand 0.2;
		$up->again;
		return;
	},
	'is away for a while' => sub {
		$c->audit;
		$up->die_hard;
		# some may see it come back before their attempts are used up
		everybody('away', sub { sleep rand 0.4; $up->again; }, ends => qr/^(MW402 (failed:free ?){3}|answer (failed:free )*ok:billed)$/);
		return;
	},
	'is away' => sub {
		$c->audit;
		$up->die_hard;
		everybody('away for long', sub { }, ends => qr/^MW402 (failed:free ?){3}$/);
		$up->again;
		return;
	},
	'freezes' => sub {
		$c->script({ m => [ { text => 'never', hold => \1, repeat => 99 } ] });
		my $took = everybody('frozen', sub {
			$up->wait(requests => $n);
			kill 'STOP', $up->pid;
		}, ends => qr/^MW404 unknown:reserved$/, timeout => 1.5);
		# connections are accepted by its kernel, and nobody reads
		everybody('still frozen', sub { }, ends => qr/^MW404 (failed:free )?(unknown:reserved|failed:free)$/, timeout => 1);
		kill 'CONT', $up->pid;
		# what it reads now was given up long ago, and counts
		$up->wait(in_flight => $n);
		$up->release;
		eventually(sub { return $up->count->{in_flight} == 0 }, 20);
		$c->must($took < 30, 'a frozen provider holds its callers');
		return;
	},
	'resets its connections' => sub {
		my $ends = connections();
		$c->script({ m => [ { text => 'never', hold => \1, repeat => $n } ] });
		everybody('reset', sub {
			$up->wait(requests => $n);
			$c->audit;
			$up->down(100);
		}, ends => $ends);
		eventually(sub { return eval { $up->count; 1 } }, 20);
		return;
	});
my @names = sort keys %how;
$c->rounds(sub {
	my ($round) = @_;
	my $name = $names[ ($round + $c->{seed}) % @names ];
	$how{$name}->();

	$c->script({});
	well("after it $name");
	$c->count($name);
	$c->grown(gateway => $c->gateway, $round * $n * 2) if $round > 10;
	return;
});
$c->finish;
