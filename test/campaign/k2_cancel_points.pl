# K2: a caller that leaves, at each point where it can be and while it really waits: cancel, terminate,
# statement_timeout, a connection that is dropped.  It leaves at once; its reservation is back, or what was sent is
# billed when it ends; and where the backend lives, the same backend goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('callers that leave at 11 points and 4 waits', rounds => [ 80, 4000 ]);
if (!$c->faulty)
{
	fail('mw was built with fault points (FAULTS=1)');
	done_testing();
	exit 1;
}
$c->admin(q{SELECT mw_set_budget(tenant, 'requests', 1000000) FROM mw.tenant});
my @points = qw(args idem_claim redact guard reserve cache_get http_send http_wait http_body parse return provider backoff claim follow);
my @ways = qw(cancel terminate timeout drop);

# a caller at its point: what pg_stat_activity says while it sleeps, or what the provider and the queue show
sub arrived
{
	my ($client, $point) = @_;
	return eventually(sub {
		my $w = $c->admin('SELECT coalesce(wait_event_type, state) FROM pg_stat_activity WHERE pid = ' . $client->pid) // '';
		return $w eq ($point eq 'claim' ? 'Lock' : 'Extension');
	}, 10);
}

$c->rounds(sub {
	my ($round) = @_;
	my $i = $round * ($c->full ? 1 : 7);
	my $point = $points[ $i % @points ];
	my $way = $ways[ int($i / @points) % @ways ];
	my ($id, $other) = ($c->nonce, undef);
	my $session = $c->pick(undef, 's');
	my %o = (options => { timeout => 30 });
	my $sleeps = $point !~ /^(provider|backoff|claim|follow)$/;
	$c->script({ m => [ $point eq 'backoff' ? { status => 503, retry_after => 20 } : (), { echo => \1, $sleeps ? () : (hold => \1), repeat => 9 } ] });

	my $caller = $c->client('r1');
	my $pid = $caller->pid;
	# somebody before it: the holder of its request_id, or the leader of its equal call
	my $first = $c->client('r1');
	if ($point eq 'claim' || $point eq 'follow')
	{
		$other = $point eq 'claim' ? $id : $c->nonce;
		$o{prompt} = $c->prompt('t1', $other);
		$first->send($c->ask('t1', $session, $other, %o));
		$c->up->wait(requests => 1);
	}
	$caller->value("SET mw.fault = '$point:sleep'") if $sleeps;
	my $timeout = $way eq 'timeout' ? 0.2 + rand 0.2 : 0;
	$caller->value(sprintf 'SET statement_timeout = %d', 1000 * $timeout) if $timeout;
	my $from = time;
	$caller->send($c->ask('t1', $session, $id, %o));
	$c->must(arrived($caller, $point), "the caller does not get to $point") if !$timeout;
	$c->up->wait(requests => 1) if $point =~ /provider|backoff/;
	# with a caller that waits for its own reply, the end of that reply must not be missed either
	sleep rand 0.02;

	if ($way eq 'drop')
	{
		my $t = time;
		$caller->drop;
		$c->must(backend_gone($c->node, $pid), "a backend at $point does not notice that its client has gone");
		$c->took('dropped, looked after every 100 ms', time - $t);
	}
	else
	{
		my $t = time;
		if ($way eq 'cancel') { $caller->cancel; }
		elsif ($way eq 'terminate') { $c->admin("SELECT pg_terminate_backend($pid)"); }
		my $r = $caller->result(20);
		my $took = time - ($timeout ? $from + $timeout : $t);
		$c->took($way, $took);
		$c->must($c->at_once($took, 1), sprintf "V11: %s at %s took %.0f ms", $way, $point, 1000 * $took);
		my $code = MwClient::code_of($r);
		$c->must($code eq ($way eq 'terminate' ? '57P01' : '57014'), "$way at $point ends with $code");
	}
	# the reservation: back at once where nothing was sent
	if ($point =~ /^(args|idem_claim|redact|guard|reserve|cache_get|http_send|claim)$/)
	{
		my $own = $point eq 'claim' ? 1 : 0;
		my $still = $c->admin(q{SELECT reserved FROM mw.budget_status WHERE tenant = 't1' AND session IS NULL AND unit = 'requests'});
		$c->must($still == $own, "V1: $still still reserved after $way at $point");
	}
	$c->script({});
	$first->result if $other;
	if ($way eq 'cancel' || $way eq 'timeout')
	{
		$caller->query('RESET statement_timeout; RESET mw.fault');
		my $next = $c->nonce;
		my $word = $caller->word($c->ask('t1', $session, $next));
		$c->must($word eq $c->prompt('t1', $next), "V10: the backend after $way at $point: $word");
	}
	$c->script({});
	$c->persist('r1', 't1', $session, $id, %o);
	my $requests = $c->requests($other // $id);
	my $most = $point eq 'backoff' ? 2 : 1;
	$c->must($requests <= $most, "V3: $way at $point: $requests requests, at most $most are right");
	$c->count("$way" => 1);
	$c->sound("after $way at $point");
	$_->close for $caller, $first;
	return;
});
$c->must($c->at_once($c->percentile('cancel', 99), 1), 'V11: p99 of a cancel');
$c->finish;
