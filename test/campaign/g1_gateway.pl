# The gateway, in every way in which it can be harmed: killed (as the kernel does when memory is short), terminated,
# stopped for seconds, made to raise an error in each phase of its loop, given a request that crashes it twice; and
# administrators and a superuser who sit on rows for as long.  Whoever can have an answer has it; whoever leaves, leaves
# at once; what nobody can know is charged and said.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('the gateway killed, stopped, locked out, failing, poisoned', rounds => [ 9, 90 ], every => 9);
if (!$c->faulty)
{
	fail('mw was built with fault points (FAULTS=1)');
	done_testing();
	exit 1;
}
my $node = $c->node;
my $patience = $c->size(3, 10);
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 2, "base": 0.01, "max": 0.05}}') FROM mw.tenant});

# some calls in flight of three tenants, a third of them held
sub in_flight
{
	my ($n) = @_;
	$c->script([ { match => { regex => 'c\d+[036]\]' }, step => { echo => \1, hold => \1 } }, { step => { echo => \1, delay_ms => 20 } } ]);
	my @calls = map { { t => 1 + $_ % 3, id => $c->nonce } } 1 .. $n;
	for my $call (@calls)
	{
		$call->{client} = $c->client("r$call->{t}");
		$call->{client}->send($c->ask("t$call->{t}", 's', $call->{id}));
	}
	$c->up->wait(requests => $n);
	return @calls;
}

sub ask_all_again
{
	my ($name, @calls) = @_;
	$c->script({});
	$_->{client}{closed} or $_->{client}->result for grep { !$_->{done}++ } @calls;
	for my $call (@calls)
	{
		$c->count("sent again after $name" => $c->persist("r$call->{t}", "t$call->{t}", 's', $call->{id}));
		my $requests = $c->requests($call->{id});
		$c->must($requests <= 2, "V3: $requests requests after $name");
	}
	return;
}

my %scenario = (
	killed => sub {
		my @calls = in_flight(24);
		$c->kill($c->gateway);
		for my $call (@calls) { $call->{client}->result; $call->{done} = 1; }
		$c->must(wait_recovered($node), 'V12: the server is back');
		ask_all_again('a kill', @calls);
	},
	terminated => sub {
		my @calls = in_flight(24);
		my $pid = $c->gateway;
		$c->admin("SELECT pg_terminate_backend($pid)");
		for my $call (@calls)
		{
			my $r = $call->{client}->result;
			$call->{done} = 1;
			my $word = MwClient::word_of($r);
			$c->must($word eq $c->prompt("t$call->{t}", $call->{id}) || $word eq 'MW402', "a gateway that was terminated: $word");
		}
		ask_all_again('a terminate', @calls);
	},
	stopped => sub {
		my @calls = in_flight(12);
		my $pid = $c->gateway;
		kill 'STOP', $pid;
		# newcomers queue; those who want to leave can
		my @new = map { { t => 1 + $_ % 3, id => $c->nonce } } 1 .. 12;
		for my $call (@new) { ($call->{client} = $c->client("r$call->{t}"))->send($c->ask("t$call->{t}", 's', $call->{id})); }
		sleep 0.3;
		for my $call ((grep { $_->{id} =~ /[036]$/ } @calls)[0], $new[0])
		{
			my $t = time;
			$call->{client}->cancel;
			my $word = MwClient::word_of($call->{client}->result);
			$call->{done} = 1;
			my $took = time - $t;
			$c->took('a cancel while the gateway is stopped', $took);
			$c->must($word eq '57014' && $c->at_once($took, 1), sprintf 'V11: a cancel while the gateway is stopped: %s after %.1f s', $word, $took);
		}
		my $reading = $c->client('r1');
		$c->must($reading->value('SELECT count(*) >= 0 FROM mw.ledger') eq 't', 'reading goes on');
		sleep $patience;
		kill 'CONT', $pid;
		$c->up->release;
		for my $call (grep { !$_->{done} } @calls, @new)
		{
			# held ones of the newcomers need another release
			$c->up->release;
			my $r;
			for (1 .. 50) { last if $r = eval { $call->{client}->result(0.2) }; $c->up->release; }
			$call->{done} = 1;
			my $word = $r ? MwClient::word_of($r) : 'nothing';
			$c->must($word eq $c->prompt("t$call->{t}", $call->{id}), "after the gateway was stopped for $patience s: $word");
		}
		ask_all_again('a stop', @calls, @new);
	},
	locked => sub {
		$c->script([ { step => { echo => \1, delay_ms => 5 } } ]);
		my $first = $c->nonce;
		$c->persist('r1', 't1', 's', $first);
		my @open = map { $c->client } 1 .. 5;
		$_->query('BEGIN') for @open;
		$open[0]->value("SELECT mw_set_budget('t1', 'requests', 1000000), mw_set_budget('t1', 'tokens', 1000000000, session => 's')");
		$open[1]->value("SELECT mw_grant_tenant('t1', 'pg_monitor')");
		$open[2]->value("SELECT mw_purge_cache('t2')");
		$open[3]->value("SELECT mw_alter_tenant('t3', '{\"cache\": false}')");
		$open[4]->query("SELECT * FROM mw.$_ FOR UPDATE NOWAIT") for qw(purge budget tenant_grant result);
		my $until = time + $c->size(4, 60);
		my @clients = map { $c->client('r' . (1 + $_ % 3)) } 0 .. 8;
		$c->drive(\@clients, sub {
			my ($i) = @_;
			return if time > $until;
			my $t = 't' . (1 + $i % 3);
			my $id = $c->pick(0, 1) ? $c->nonce : $c->unnamed;
			return [ $c->ask($t, 's', $id), sub {
				my ($r, $took) = @_;
				$c->took('a call beside held rows', $took);
				$c->count('calls beside held rows' => 1);
				$c->must(MwClient::word_of($r) eq $c->prompt($t, $id), 'a call beside held rows: ' . MwClient::word_of($r));
			} ];
		});
		$_->query($c->pick('ROLLBACK', 'COMMIT')) for @open;
		$c->admin("SELECT mw_revoke_tenant('t1', 'pg_monitor')") if $c->admin("SELECT count(*) FROM mw.tenant_grant WHERE grantee = 'pg_monitor'::regrole");
		$c->admin("SELECT mw_alter_tenant('t3', '{\"cache\": null}')");
	},
	poisoned => sub {
		my $id = $c->nonce;
		$c->script({ m => [ { echo => \1, hold => \1, repeat => 9 } ] });
		for my $crash (1, 2)
		{
			my $client = $c->client('r1');
			$client->send($c->ask('t1', 's', $id, options => { resend_unknown => \1 }));
			$c->up->wait(requests => 1);
			$c->kill($c->gateway);
			$client->result;
			wait_recovered($node);
			$c->audit;
		}
		$c->script({});
		my $client = $c->client('r1');
		my $r = $client->query($c->ask('t1', 's', $id, options => { resend_unknown => \1 }));
		$c->must(MwClient::code_of($r) eq 'MW502', 'a request that ran in two crashes: ' . MwClient::word_of($r));
		$c->must($r->{error} && $r->{error}{D} =~ /two crashes/, '... and why is said');
		$c->must($c->requests($id) == 2, '... is not sent again');
		my $said = $c->admin(q{SELECT status || ' ' || detail FROM mw_doctor() WHERE name = 'crashes'}) // '';
		$c->must($said =~ /^warning .*\Q$id\E/, "mw_doctor reports it: $said");
	},
	(map {
		my $point = $_;
		("$point fails" => sub {
			$c->script([ { step => { echo => \1, delay_ms => 3 } } ]);
			my $log = log_end($node);
			reload_fault($node, "$point:error:" . $c->pick(4 .. 9));
			my @clients = map { $c->client('r' . (1 + $_ % 3)) } 0 .. 11;
			my ($right, $wrong, $todo) = (0, 0, 120);
			my @failed;
			$c->drive(\@clients, sub {
				my ($i) = @_;
				return if $todo-- <= 0;
				my $t = 1 + $i % 3;
				my $id = $c->nonce;
				return [ $c->ask("t$t", 's', $id), sub {
					my ($r) = @_;
					my $word = MwClient::word_of($r);
					if ($word eq $c->prompt("t$t", $id)) { $right++; return; }
					$wrong++;
					push @failed, { t => $t, id => $id };
					$c->must($word =~ /^(XX000|MW402)$/, "an error of the gateway at $point: $word " . ($r->{error} ? $r->{error}{M} : ''));
				} ];
			});
			reload_fault($node, '');
			$c->count('calls while the gateway fails' => $right + $wrong);
			$c->count('of which failed' => $wrong);
			# what was not sent is sent again
			$c->must($point eq 'gateway_send' ? log_since($node, $log) =~ /could not be sent: fault point/ : $wrong > 0, "$point was reached");
			# one pass in five to ten raises, and each fails alone
			$c->must($right >= 80, "$point: $wrong of 120 calls fail with it");
			$c->persist("r$_->{t}", "t$_->{t}", 's', $_->{id}) for @failed;
		}) } qw(attempt commit gateway_send settle)));

my @order = sort keys %scenario;
$c->rounds(sub {
	my ($round) = @_;
	my $name = $order[ $round % @order ];
	$scenario{$name}->();
	$c->count("$name" => 1);
	$c->sound("after: $name");
	return;
});
$c->finish;
