# D1: a provider that slows down, dies and comes back under many callers.  Counted in what the provider saw: retries of all
# callers together stay within their share, the breaker stops the storm at once, one call at a time tries, and nobody
# pays, waits or is refused longer than he has to.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $cooldown = 1;
my ($share, $reserve) = (0.2, 10);
my $c = MwCampaign->new('a provider dies and comes back', rounds => [ 4, 60 ], every => 4,
	server => { breaker => 'on', breaker_failures => 5, breaker_cooldown => $cooldown, breaker_max_cooldown => 2 * $cooldown,
		retry_share => $share, retry_reserve => $reserve });
my $n = $c->size(24, 64);
my @clients = map { $c->client('r' . (1 + $_ % 3)) } 0 .. $n - 1;
$c->node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 4, "base": 0.01, "max": 0.05}}') FROM mw.tenant});

sub breaker { return $c->admin(q{SELECT state || ' ' || failures FROM mw.breaker WHERE server = 'llm'}); }
sub fresh { $c->admin(q{SELECT mw_reset_breaker('llm')}); return; }

# So many calls of each client, one after another; their ends counted by SQLSTATE
sub calls
{
	my ($each, %o) = @_;
	my (@left, %ends, $slowest) = map { $each } 0 .. $n - 1;
	$slowest = 0;
	$c->drive(\@clients, sub {
		my ($i) = @_;
		return if $left[$i]-- <= 0 || $o{while} && !$o{while}->();
		my $t = 't' . (1 + $i % 3);
		my $id = $c->unnamed;
		return [ $c->ask($t, undef, $id, options => { cache => 'off', timeout => 60 }), sub {
			my ($r, $seconds) = @_;
			my $word = $r->{error} ? $r->{error}{C} : 'answer';
			$c->must($word ne 'answer' || MwClient::word_of($r) eq $c->prompt($t, $id), "V4: an answer to another prompt: " . MwClient::word_of($r));
			$ends{$word}++;
			$ends{limited}++ if ($r->{error}{D} // '') =~ /Retries are used up for now/;
			$slowest = $seconds if $word eq 'MW403' && $seconds > $slowest;
			$c->count(calls => 1);
		} ];
	});
	return (\%ends, $slowest);
}

# a provider that has enough of us, and answers: retries are what it gets more of
sub storm
{
	my ($status) = @_;
	my $each = $c->size(12, 30);
	fresh();
	$c->script({ 'm' => [ { status => $status, repeat => 1_000_000 } ] });
	my $from = time;
	my ($ends) = calls($each);
	my $requests = $c->audit;
	my $calls = $n * $each;
	# one more than the bucket ever held, for the call whose share came while another took it
	my $most = $calls * (1 + $share) + $reserve + (time - $from) * $reserve / 60 + 1;
	$c->must($requests <= $most, "$requests requests for $calls calls that got $status: at most $most are allowed");
	$c->must($requests >= $calls + $reserve, "$requests requests for $calls calls: the retries that are allowed were not made");
	$c->must(($ends->{MW402} // 0) == $calls, 'every call fails with the provider\'s status: ' . join ' ', %$ends);
	$c->must(($ends->{limited} // 0) > 0, 'and says that retries were used up');
	$c->count(storm_calls => $calls);
	$c->count(storm_retries => $requests - $calls);
	return;
}

# a provider that is down: what was under way when the breaker opened, and one try after each cool-down
sub outage
{
	my ($step, $code) = @_;
	fresh();
	$c->script({ 'm' => [ { %$step, repeat => 1_000_000 } ] });
	my $from = time;
	my $seconds = $c->size(3, 5);
	my ($ends, $slowest) = calls(1_000_000, while => sub { time - $from < $seconds });
	my $took = time - $from;
	my $requests = $c->audit;
	# four of the five failures, what each caller had under way at the fifth, and the tries: after one cool-down, then after two each
	my $most = 4 + $n + 1 + $took / $cooldown;
	$c->must($requests <= $most, "$requests requests in $took s of an outage: at most $most are allowed");
	$c->must($requests >= 6, "$requests requests: nobody tried");
	$c->must(($ends->{MW403} // 0) > 10 * $requests, 'most calls are refused at once: ' . join ' ', %$ends);
	$c->must(($ends->{answer} // 0) == 0, 'no call is answered');
	$c->must(breaker() =~ /^(open|half-open) /, 'the breaker is ' . breaker());
	$c->count(outage_refused => $ends->{MW403} // 0);
	$c->count(outage_requests => $requests);
	$c->must($c->at_once($slowest, 10), "a refusal took $slowest s");
	return;
}

# it comes back: one call tries while the others are refused, and then all are answered
sub recovery
{
	$c->script({ 'm' => [ { echo => \1, hold => \1 }, { echo => \1, repeat => 1_000_000 } ] });
	$c->admin(q{SELECT pg_sleep(greatest(extract(epoch FROM retry_at - clock_timestamp()) + 0.02, 0)) FROM mw.breaker WHERE server = 'llm' AND retry_at IS NOT NULL});
	my @id = map { $c->unnamed } 0 .. $n - 1;
	$clients[$_]->send($c->ask('t' . (1 + $_ % 3), undef, $id[$_], options => { cache => 'off', timeout => 60 })) for 0 .. $n - 1;
	$c->must($c->up->wait(requests => 1), 'one call tries');
	$c->must(eventually(sub { return $c->admin(q{SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename ~ '^r[0-9]'}) <= 1; }, 10), 'the others are refused while it does');
	my $tried = $c->up->count->{requests};
	$c->must($tried == 1, "$tried calls try at one time");
	# one try may be followed by another where it takes longer than a cool-down: so it is let go at once
	$c->up->release;
	my %words;
	$words{ MwClient::word_of($_->result) =~ /^(MW\d+)$/ ? $1 : 'answer' }++ for @clients;
	$c->must(($words{answer} // 0) == 1 && ($words{MW403} // 0) == $n - 1, 'one is answered and the rest refused: ' . join ' ', %words);
	$c->must(breaker() eq 'closed 0', 'it is closed: ' . breaker());
	my ($ends) = calls(2);
	$c->must($ends->{answer} == 2 * $n && keys %$ends == 1, 'then all are answered: ' . join ' ', %$ends);
	$c->count(recoveries => 1);
	return;
}

$c->rounds(sub {
	my ($round) = @_;
	my @deaths = ({ status => 503 }, { disconnect => 'mid_body', text => 'x', close => \1 }, { status => 500, delay_ms => 20 }, { status => 529 });
	storm($c->pick(429, 408, 409));
	outage($deaths[ $round % @deaths ]);
	recovery();
	return;
});
$c->finish;
