# A crash at any point (invariants 4 to 6, 8): no request is lost, none is paid for twice; what
# was in flight becomes unknown and is charged at its reservation; the next call works without
# anybody's help; what ran in two crashes is refused.  Needs a build with fault points.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('crash', conf => "restart_after_crash = on\ninclude_if_exists = 'fault.conf'\nmw.gateway_idle = '300s'", start => 0);
reload_fault($node, '');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mw');
my ($rc) = $node->psql('postgres', q{SELECT mw_count_tokens('x'); SET mw.fault = 'nowhere:error'});
if ($rc != 0)
{
	$node->stop;
	plan skip_all => 'mw was built without fault points (FAULTS=1)';
}
$node->server(llm => $up->base_url, key => 'sk-crash');
$node->tenant('acme', 'app');
$node->tenant('other', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 1}}')});
$node->safe_psql('postgres', q{SELECT mw_set_budget('acme', 'requests', 5, session => '*')});

my $serial = 0;
sub client { return MwClient->new($node, user => 'app', @_); }
sub admin { return MwClient->new($node)->value(@_); }
sub gateway { return $node->safe_psql('postgres', "SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE backend_type = 'mw gateway'"); }
sub kill_gateway
{
	my $pid = gateway();
	return $pid > 1 ? kill('KILL', $pid) : fail('there is a gateway to kill');
}

sub status
{
	my ($session) = @_;
	return admin("SELECT settled || ' reserved ' || reserved FROM mw.budget_status WHERE tenant = 'acme' AND session = '$session' AND unit = 'requests'") // '0 reserved 0';
}

# how the attempts of an id stand after the crash and what a repeat of it gets
sub after_crash
{
	my ($name, $id, %e) = @_;
	ok(wait_recovered($node), "$name: the server is back by itself");
	reload_fault($node, '');
	my $sql = ask('acme', $id, "hello $id", request_id => $id);
	my $resend = ask('acme', $id, "hello $id", request_id => $id, options => { resend_unknown => \1 });
	my $c = client();
	# the repeat is the first to call after the crash, in some cases; in the others somebody else
	my $other = sub { is($c->word(ask('acme', undef, "someone else after $id")), "someone else after $id", "$name: the next call works"); };
	is($up->count->{requests}, $e{sent}, "$name: $e{sent} HTTP request(s) before the repeat");
	my $first = ++$serial % 2;
	$other->() if !$first;
	my $early = $first && $e{ledger} =~ /unknown/ ? $c->query($sql) : undef;
	is_error($early, 'MW502', "$name: a repeat is refused, be it the first call after the crash") if $early;
	$other->() if $first;
	is(ledger($node, "request_id = '$id'"), $e{ledger}, "$name: the ledger says '$e{ledger}'");
	if ($e{ledger} =~ /unknown/)
	{
		is(admin("SELECT bool_and(billed_tokens = reserved_tokens AND billed_requests = reserved_requests AND estimated) FROM mw.attempt WHERE request_id = '$id' AND outcome = 'unknown'"),
			't', "$name: charged at its reservation");
		is_error($c->query($sql), 'MW502', "$name: a repeat is refused");
		if ($e{refused})
		{
			is_error($c->query($resend), 'MW502', "$name: with resend_unknown too", detail => qr/crash/);
			is($up->count->{requests}, $e{sent} + 1, "$name: nothing more was sent for it");
		}
		else { is($c->word($resend), "hello $id", "$name: resend_unknown sends it"); }
	}
	else { is($c->word($sql), "hello $id", "$name: a repeat has the answer"); }
	my $expected = $e{sent} + 1 + ($e{refused} || $e{ledger} eq 'ok' ? 0 : 1);
	is($up->count->{requests}, $expected, "$name: $expected HTTP requests in all, one of them someone else's");
	like(status($id), qr/ reserved 0$/, "$name: nothing stays reserved");
	money_holds($node, $name);
	return;
}

sub crash_call
{
	my ($name, $id, %o) = @_;
	my $c = $o{client} // client();
	$c->send(ask('acme', $id, "hello $id", request_id => $id, $o{options} ? (options => $o{options}) : ()));
	$o{then}->($c) if $o{then};
	my $r = $c->result(60);
	ok($r->{closed} || ($r->{error} && $r->{error}{C} =~ /^57/), "$name: the caller loses its connection") or diag explain $r;
	return;
}

# a new gateway, so that fault points are counted from its first pass, with the call's scopes loaded
sub fresh_gateway
{
	my $pid = gateway();
	if ($pid)
	{
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		eventually(sub { return gateway() eq '0'; });
	}
	return;
}

# ---------- the gateway at its fault points ----------

for my $case (
	# point, requests that have left, what the ledger says afterwards
	[ 'attempt', 0, '' ],
	[ 'gateway_send', 0, 'unknown' ],
	[ 'settle', 1, 'unknown' ],
	[ 'cache_put', 1, 'unknown' ])
{
	my ($point, $sent, $ledger) = @$case;
	my $id = "g-$point";
	$up->reset({}, mode => 'echo');
	fresh_gateway();
	reload_fault($node, "$point:crash");
	crash_call("gateway at $point", $id);
	after_crash("gateway at $point", $id, sent => $sent, ledger => $ledger);
}

# the commits of one call are those of its counters, its attempt, its outcome
for my $case ([ 0, 0, '' ], [ 1, 0, '' ], [ 2, 1, 'unknown' ])
{
	my ($skip, $sent, $ledger) = @$case;
	my $id = "g-commit$skip";
	$up->reset({}, mode => 'echo');
	fresh_gateway();
	reload_fault($node, "commit:crash:$skip");
	crash_call("gateway before commit $skip", $id);
	after_crash("gateway before commit $skip", $id, sent => $sent, ledger => $ledger);
}

# ---------- killed from outside, with calls in flight ----------
{
	$up->reset({ '*' => [ { text => 'held', hold => \1, repeat => 50 } ] });
	my @c = map { client() } 1 .. 20;
	$c[$_]->send(ask('acme', "k$_", "call $_", request_id => "k$_")) for 0 .. $#c;
	$up->wait(requests => 20);
	kill_gateway();
	is(scalar(grep { my $r = $_->result(60); $r->{closed} || $r->{error} } @c), 20, 'kill -9 of the gateway: 20 callers are told');
	ok(wait_recovered($node), 'kill -9 of the gateway: the server is back');
	$up->reset({}, mode => 'echo');
	is(client()->word(ask('acme', undef, 'after the kill')), 'after the kill', '... the next call works');
	is(admin("SELECT count(*) FROM mw.ledger WHERE request_id ~ '^k[0-9]+\$' AND outcome = 'unknown'"), '20', '... all 20 are unknown');
	my %words;
	$words{ client()->word(ask('acme', "k$_", "call $_", request_id => "k$_")) }++ for 0 .. 19;
	is(join(' ', map { "$_=$words{$_}" } keys %words), 'MW502=20', '... none is sent again');
	is($up->count->{requests}, 1, '... really not');
	money_holds($node, 'kill -9 of the gateway');
}

# ---------- a backend at its fault points, first try and after the answer ----------

for my $case ([ 'args', 0, '' ], [ 'idem_claim', 0, '' ], [ 'redact', 0, '' ], [ 'guard', 0, '' ], [ 'reserve', 0, '' ], [ 'cache_get', 0, '' ], [ 'http_send', 0, '' ], [ 'http_body', 1, 'ok' ], [ 'parse', 1, 'ok' ], [ 'return', 1, 'ok' ])
{
	my ($point, $sent, $ledger) = @$case;
	my $id = "b-$point";
	$up->reset({}, mode => 'echo');
	my $c = MwClient->new($node);
	$c->value("SET mw.fault = '$point:crash'");
	crash_call("backend at $point", $id, client => $c);
	ok(wait_recovered($node), "backend at $point: the server is back by itself");
	is($up->count->{requests}, $sent, "backend at $point: HTTP requests");
	is(ledger($node, "request_id = '$id'"), $ledger, "backend at $point: the ledger");
	is(client()->word(ask('acme', $id, "hello $id", request_id => $id)), "hello $id", "backend at $point: a repeat has the answer");
	is($up->count->{requests}, 1, "backend at $point: one HTTP request in all");
	is(status($id), '1 reserved 0', "backend at $point: one request counted, nothing reserved");
	money_holds($node, "backend at $point");
}
{
	# the same points raising: the transaction ends, the server does not, nothing stays reserved
	for my $point (qw(args idem_claim redact guard reserve cache_get http_send http_wait http_body parse return))
	{
		for my $action (qw(error oom))
		{
			my $id = "e-$point-$action";
			$up->reset({}, mode => 'echo');
			my $c = MwClient->new($node);
			$c->value("SET mw.fault = '$point:$action'");
			is($c->word(ask('acme', $id, "hello $id", request_id => $id)), $action eq 'oom' ? '53200' : 'XX000', "backend $point:$action raises");
			$c->value('RESET mw.fault');
			is($c->word(ask('acme', $id, "hello $id", request_id => $id)), "hello $id", "backend $point:$action: the same backend goes on");
			is($up->count->{requests} . ' ' . status($id), '1 1 reserved 0', "backend $point:$action: paid once, nothing reserved");
		}
	}
	my $c = MwClient->new($node);
	$c->value("SET mw.fault = 'http_body:sleep'");
	$up->reset({}, mode => 'echo');
	$c->send(ask('acme', 'killed', 'hello', request_id => 'killed'));
	ledger_is($node, "request_id = 'killed'", 'ok', 'a backend that has its answer');
	kill 'KILL', $c->pid;
	ok($c->result(60)->{closed}, '... is killed');
	ok(wait_recovered($node), '... the server is back');
	is(client()->word(ask('acme', 'killed', 'hello', request_id => 'killed')), 'hello', '... and the repeat has the answer');
	is($up->count->{requests}, 1, '... which was paid for once');
	money_holds($node, 'errors at fault points');
}

# ---------- an ERROR in the gateway fails the request that caused it, and no other ----------
{
	fresh_gateway();
	$up->reset({}, mode => 'echo');
	my @c = map { client() } 1 .. 24;
	reload_fault($node, 'attempt:error:5');
	my %words;
	for my $round (1 .. 4)
	{
		my @r = MwClient->race(\@c, sub { ask('acme', undef, "error $round $_[0]", options => { cache => 'off' }) });
		for my $i (0 .. $#r)
		{
			my $w = MwClient::word_of($r[$i]);
			$words{ $w eq "error $round $i" ? 'right' : $w }++;
		}
	}
	reload_fault($node, '');
	cmp_ok($words{right} // 0, '>=', 60, 'a gateway that fails at one attempt in six: most calls pass');
	ok($words{XX000}, '... some are told of the failure');
	is(join(' ', sort grep { $_ ne 'right' } keys %words), 'XX000', '... and nothing else happens') or diag explain \%words;
	is($up->count->{requests}, $words{right}, '... each answer was paid for once');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM mw.ledger WHERE outcome = 'running'}), '0', '... and nothing hangs');
	money_holds($node, 'errors in the gateway');
}
{
	# an outcome that cannot be recorded: its caller gets no answer, and it is not sent again
	$up->reset({}, mode => 'echo');
	fresh_gateway();
	reload_fault($node, 'settle:error');
	my $id = 'unrecorded';
	my $c = client();
	my $word = $c->word(ask('acme', $id, "hello $id", request_id => $id, options => { timeout => 5 }));
	like($word, qr/^(XX000|MW402|MW502)$/, 'an outcome that cannot be recorded: no answer is handed out');
	reload_fault($node, '');
	# without anybody's help: the same gateway goes on
	my $again = $c->word(ask('acme', $id, "hello $id", request_id => $id, options => { timeout => 20 }));
	is($again, 'MW502', '... as soon as that can be done a repeat is told that it is unknown');
	is($up->count->{requests}, 1, '... one HTTP request');
	money_holds($node, 'an outcome that was not recorded');
}

# ---------- two crashes ----------
{
	my $id = 'twice';
	$up->reset({ '*' => [ { text => 'held', hold => \1, repeat => 50 } ] });
	crash_call('first crash', $id, then => sub { $up->wait(requests => 1); kill_gateway(); });
	ok(wait_recovered($node), 'first crash: the server is back');
	crash_call('second crash', $id, options => { resend_unknown => \1 }, then => sub { $up->wait(requests => 2); kill_gateway(); });
	ok(wait_recovered($node), 'second crash: the server is back');
	$up->reset({}, mode => 'echo');
	after_crash('after two crashes', $id, sent => 0, ledger => 'unknown unknown', refused => 1);
}

# ---------- the postmaster ----------

for my $how ('immediate stop', 'kill -9 of the postmaster')
{
	(my $id = $how) =~ s/\W/-/g;
	$up->reset({ '*' => [ { text => 'held', hold => \1, repeat => 50 } ] });
	my @c = map { client() } 1 .. 10;
	$c[$_]->send(ask('acme', undef, "call $_", request_id => "$id-$_")) for 0 .. $#c;
	$up->wait(requests => 10);
	if ($how =~ /immediate/) { $node->stop('immediate'); }
	else
	{
		my @pids = map { $_->pid } @c;
		push @pids, gateway();
		kill 'KILL', (PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/)[0];
		ok(eventually(sub { return !grep { kill 0, $_ } @pids; }, 20), "$how: its children leave by themselves");
		$node->{_pid} = undef;
		unlink $node->data_dir . '/postmaster.pid';
	}
	$_->result for @c;
	$node->start;
	$up->reset({}, mode => 'echo');
	is(client()->word(ask('acme', undef, "after $how")), "after $how", "$how: the next call works");
	is(admin("SELECT count(*) FROM mw.ledger WHERE request_id LIKE '$id-%' AND outcome = 'unknown'"), '10', "$how: what was in flight is unknown");
	is(client()->word(ask('acme', undef, 'call 1', request_id => "$id-1")), 'MW502', "$how: and not sent again");
	is($up->count->{requests}, 1, "$how: really not");
	money_holds($node, $how);
}

is(PostgreSQL::Test::Utils::system_log('pg_amcheck', '-h', $node->host, '-p', $node->port, '--install-missing', '--heapallindexed', '-s', 'mw', 'postgres'), 0, 'tables and indexes are sound')
  if -e $node->config_data('--sharedir') . '/extension/amcheck.control';
unlike(log_since($node), qr/hello |call [0-9]/, 'the log does not say what the crashed processes were asked');
log_is_clean($node, undef, KILL => 1);
$node->stop;
done_testing();
