# K1: a process killed at each fault point, of a backend and of the gateway, on each path that a call or a run of an agent
# can take, with bystanders in flight.  Each kill takes the server through crash recovery; afterwards everybody asks again and has the
# answer, sent a second time only where nobody can know whether the first was answered.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('kill -9 at 19 points on 7 paths', rounds => [ 200, 1600 ], every => 40);
if (!$c->faulty)
{
	fail('mw was built with fault points (FAULTS=1)');
	done_testing();
	exit 1;
}
my @in_backend = qw(args idem_claim redact guard reserve cache_get http_send http_wait http_body parse tool_before tool_after
	approval_write return);
my @in_gateway = qw(attempt gateway_send settle cache_put commit);
# tools: an agent that takes a note and then answers; resume: one that goes on after somebody has decided
my @paths = qw(first retry hit replay rolled_back tools resume);
my @all = map { my $path = $_; map { [ $_, $path ] } @in_backend, @in_gateway } @paths;
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.01, "max": 0.05}}') FROM mw.tenant});
$c->agents;
# hits of this one are booked
$c->admin(q{SELECT mw_set_budget('t2', 'requests', 1000000)});

$c->rounds(sub {
	my ($round) = @_;
	# the smoke form visits every combination too, in another order
	my ($point, $path) = @{ $all[ $round * ($c->full ? 1 : 11) % @all ] };
	my $t = $c->pick(1, 2);
	my ($tenant, $role) = ("t$t", "r$t");
	my $id = $c->nonce;
	my $session = $c->pick(undef, 's');
	my (%o, @rules);
	my $agent = $path eq 'tools' || $path eq 'resume';
	my $verdict = $c->pick(qw(approve approve edit reject));
	if ($agent)
	{
		$session = $id;
		my $calls = [ $path eq 'tools' ? () : (act => "$id-act"), note => "$id-note" ];
		@rules = $c->steps_for($id, $calls, delay_ms => $c->pick(0, 5));
	}
	$c->script([ { match => 'secretoft3', step => { echo => \1, hold => \1 } },
		$path eq 'retry' ? { match => $id, step => { status => $c->pick(429, 500, 503) }, times => 1 } : (),
		@rules,
		{ step => { echo => \1, delay_ms => $c->pick(0, 5, 20) } } ]);

	my $victim = $c->client($role);
	if ($path eq 'hit')
	{
		my $before = $c->unnamed;
		$o{prompt} = $c->prompt($tenant, $before);
		$victim->value($c->ask($tenant, $session, $before));
	}
	elsif ($path eq 'replay') { $victim->value($c->ask($tenant, $session, $id)); }
	elsif ($path eq 'tools') { $o{sql} = sub { return $c->ask($tenant, $session, $id, agent => 'worker', @_); }; }
	elsif ($path eq 'resume')
	{
		$victim->query($c->invoke($tenant, $session, $id, agent => 'careful'));
		my %decision = (type => $verdict, $verdict ne 'edit' ? () : (edited_action => { name => 'act', args => { what => "$id-edited" } }));
		$victim->value("SELECT status FROM mw_decide('$tenant', '$session', '" . encode_json({ decisions => [ \%decision ] }) . "')");
		$o{sql} = sub {
			my (%p) = @_;
			return "SELECT mw_resume('$tenant', '$session', request_id => '$id.2', options => '" . encode_json($p{options} // {}) . "') ->> 'output'";
		};
	}
	elsif ($path eq 'rolled_back') { $victim->query($_) for 'BEGIN', $c->ask($tenant, $session, $id), 'ROLLBACK'; }

	# bystanders that wait for the provider
	my @others = map { $c->nonce } 1 .. 3;
	my @busy = map { $c->client('r3') } @others;
	$busy[$_]->send($c->ask('t3', undef, $others[$_])) for 0 .. $#others;
	eventually(sub { return $c->admin(q{SELECT count(*) FROM mw.attempt WHERE tenant = 't3' AND outcome = 'running'}) == 3; });

	# the second pass of what an attempt goes through, the second turn of an agent
	my $skip = $path eq 'retry' && $point =~ /^(http_.*|settle)$/ ? ':1'
	  : $path eq 'tools' && $point =~ /^(redact|guard|reserve|cache_get|http_.*|parse|attempt|gateway_send|settle|cache_put)$/ ? ':' . $c->pick(0, 1, 1)
	  : $point eq 'commit' ? ':' . $c->pick(0, 1, 2) : '';
	my $gateway = grep { $_ eq $point } @in_gateway;
	if ($gateway) { reload_fault($c->node, "$point:crash$skip"); }
	else { $victim->value("SET mw.fault = '$point:crash$skip'"); }

	my $r = $victim->send($o{sql} ? $o{sql}->() : $c->ask($tenant, $session, $id, %o))->result(60);
	if (MwClient::code_of($r) =~ /^(closed|57P..)$/)
	{
		$c->crashed;
		$c->count(kills => 1);
	}
	else
	{
		$c->must(MwClient::word_of($r) eq ($o{prompt} // $c->prompt($tenant, $id)), "V4: $point on $path: " . MwClient::word_of($r));
		$c->count('points not on the path' => 1);
		$c->must($path ne 'first' || $skip || $point =~ /^tool_|^approval/, "$point was not reached by a first call");
	}
	$c->must(wait_recovered($c->node), "V12: the server is back after $point on $path");
	reload_fault($c->node, '') if $gateway;
	$c->script([ @rules ]);    # lets the bystanders go, where they are still there
	$_->result for @busy;
	my $resent = $c->persist($role, $tenant, $session, $id, %o);
	my $most = ($agent ? 2 : 1) + $resent + ($path eq 'retry' ? 1 : 0);
	my $requests = $c->requests($id);
	$c->must($requests <= $most, "V3: $point on $path: $requests requests, at most $most are right");
	if ($agent)
	{
		my $did = join ' ', $c->admin("SELECT what FROM campaign.acted WHERE session = '$id' ORDER BY what");
		my $should = join ' ', $path eq 'tools' || $verdict eq 'reject' ? () : $verdict eq 'edit' ? "$id-edited" : "$id-act", "$id-note";
		$c->must($did eq $should, "V3, V7: $point on $path, $verdict: what was done is $did, should be $should");
	}
	$c->count('sent again after resend_unknown' => $resent);
	for (@others) { $c->count('bystanders sent again' => $c->persist('r3', 't3', undef, $_)); }
	$c->sound("after $point on $path");
	return;
});
$c->finish;
