# Paid once (invariants 4 and 5): what a caller does after its request has left, and who asks
# again under the same request_id, never sends it a second time.  Judged by the provider's
# journal, not by what mw says of itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use JSON::PP;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('paid', conf => "deadlock_timeout = '100ms'\nmax_connections = 150");
$node->server(llm => $up->base_url, key => 'sk-paid');
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.1}}')});

my %off = (options => { cache => 'off' });
my $serial = 0;

sub client { return MwClient->new($node, user => 'app', @_); }
sub fresh { return 'r' . ++$serial; }
sub requests { return $up->count->{requests}; }

# One case: a first caller that is interfered with while its request is at the provider
sub interrupted
{
	my ($name, $interfere, %o) = @_;
	my $id = fresh();
	my $sql = ask('acme', 's1', "case $id", request_id => $id, %off);
	$up->reset({ m => [ { text => "answer $id", hold => \1 } ] });
	my $c = client();
	$c->query($o{setup}) if $o{setup};
	$c->send($sql);
	$up->wait(requests => 1, timeout => 20) or return fail("$name: the request arrives");
	is(ledger($node, "request_id = '$id'"), 'running', "$name: the attempt is on record before the answer");
	$interfere->($c);

	# a second caller that comes while the call is in flight waits for its answer
	my $second = client();
	$second->send($sql);
	sleep 0.2;
	$up->release;
	is(MwClient::word_of($second->result), "answer $id", "$name: a repeat while it is in flight gets its answer");
	ledger_is($node, "request_id = '$id'", 'ok', "$name: the ledger has it");
	is(client()->word($sql), "answer $id", "$name: and a later repeat too");
	is(requests(), 1, "$name: one HTTP request");
	return;
}

# ---------- the caller leaves after its request did ----------

interrupted('cancel', sub {
	my ($c) = @_;
	my $t = time;
	$c->cancel;
	is_error($c->result, '57014', 'cancel: 57014');
	cmp_ok(time - $t, '<', 1, 'cancel: promptly');
	is($c->value('SELECT 1'), '1', 'cancel: the connection goes on');
});
interrupted('statement_timeout', sub { is_error($_[0]->result, '57014', 'statement_timeout: 57014'); },
	setup => "SET statement_timeout = '500ms'");
interrupted('terminate', sub {
	my ($c) = @_;
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $c->pid . ')');
	is_error($c->result, '57P01', 'terminate: 57P01');
	ok(backend_gone($node, $c->pid), 'terminate: the backend has gone');
});
$node->append_conf('postgresql.conf', "client_connection_check_interval = '50ms'");
$node->reload;
interrupted('disconnect', sub {
	my ($c) = @_;
	$c->drop;
	ok(backend_gone($node, $c->pid), 'disconnect: the backend notices');
});
interrupted('cancel in a transaction block', sub {
	my ($c) = @_;
	$c->cancel;
	$c->result;
	$c->close;
}, setup => 'BEGIN');

# ---------- the caller's transaction is undone ----------

{
	my $id = fresh();
	my $sql = invoke('acme', 's1', "mail bob\@example.com about $id", request_id => $id, %off);
	$up->reset({ m => [ { text => "sent to <EMAIL_0>" } ] });
	my $c = client();
	$c->query('BEGIN');
	my $first = decode_json($c->value($sql));
	is($first->{output}, 'sent to bob@example.com', 'rollback: the answer, restored');
	$c->query('ROLLBACK');
	is(ledger($node, "request_id = '$id'"), 'ok', 'rollback: the ledger keeps the attempt');
	is($node->safe_psql('postgres', "SELECT count(*) FROM mw.result WHERE request_id = '$id'"), '0', 'rollback: the result is undone');
	my $again = $c->value($sql);
	is(decode_json($again)->{output}, 'sent to bob@example.com', 'rollback: a repeat gets the recorded answer');
	is($c->value($sql), $again, 'after the commit a replay is byte-equal');
	is(client()->value($sql), $again, '... for another connection too');
	is(decode_json($again)->{usage}{total_tokens}, 0, 'the repeat says that it has used nothing');
	is(requests(), 1, 'rollback: one HTTP request');
	is_error($c->query(ask('acme', 's1', 'another prompt', request_id => $id, %off)), 'MW501', 'another prompt under the id', detail => qr/request_id: $id/, hint => qr/\S/);
	is_error($c->query(ask('acme', 's2', "mail bob\@example.com about $id", request_id => $id, %off)), 'MW501', 'another session under the id');
	is_error($c->query(ask('acme', 's1', "mail bob\@example.com about $id", request_id => $id, options => { temperature => 1 })), 'MW501', 'another option that reaches the provider');
	is_error($c->query(ask('acme', 's1', "mail eve\@example.com about $id", request_id => $id, %off)), 'MW501', 'another value behind the same placeholder');
	is(MwClient::word_of($c->query(ask('acme', 's1', "mail bob\@example.com about $id", request_id => $id, options => { timeout => 9 }))),
		'sent to bob@example.com', 'an option that only steers mw may differ');
	is(requests(), 1, '... and none of that was sent');
	my $postgres = MwClient->new($node);
	is_error($postgres->query($sql), 'MW501', 'another role under the id');
}
{
	my $id = fresh();
	$up->reset({ m => [ { text => 'first' }, { text => 'second' } ] });
	my $c = client();
	$c->query('BEGIN');
	$c->value(ask('acme', undef, "one $id", request_id => $id, %off));
	$c->query('ROLLBACK');
	is($c->value(ask('acme', undef, "two $id", request_id => $id, %off)), 'second', 'after a rollback the first request that differs is sent');
	is(requests(), 2, '... and paid for');
}
{
	my $id = fresh();
	my $sql = ask('acme', undef, "savepoint $id", request_id => $id, %off);
	$up->reset({ m => [ { text => 'once' } ] });
	my $c = client();
	$c->query('BEGIN');
	$c->query('SAVEPOINT a');
	is($c->value($sql), 'once', 'savepoint: first');
	$c->query('ROLLBACK TO a');
	is($c->value($sql), 'once', 'savepoint: again after ROLLBACK TO');
	is($c->value($sql), 'once', 'twice inside one transaction');
	$c->query('COMMIT');
	is($c->value($sql), 'once', 'savepoint: after the commit');
	is(requests(), 1, 'savepoint: one HTTP request');
}
{
	# an exception block that undoes its own call
	my $id = fresh();
	$up->reset({ m => [ { text => 'block' } ] });
	my $sql = ask('acme', undef, "block $id", request_id => $id, %off);
	(my $perform = $sql) =~ s/^SELECT/PERFORM/;
	my $c = client();
	$c->value("DO \$\$BEGIN BEGIN $perform; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; $perform; END\$\$");
	is($c->value($sql), 'block', 'an exception block that undid the call');
	is(requests(), 1, '... does not pay twice');
}

# ---------- isolation levels ----------

for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my $id = fresh();
		my $sql = ask('acme', 's1', "snapshot $id", request_id => $id, %off);
		$up->reset({ m => [ { text => "at $id" } ] });
		my ($old, $new) = (client(), client());
		$old->query("BEGIN ISOLATION LEVEL $level");
		$old->value('SELECT count(*) FROM mw.ledger');    # the snapshot is taken
		$new->query('BEGIN');
		$new->value($sql);
		$old->send($sql);                                # waits for that transaction
		sleep 0.2;
		$new->query($end);
		is(MwClient::word_of($old->result), "at $id", "$level: a snapshot older than the answer ($end)");
		is(MwClient::word_of($old->query('COMMIT')), 'no row', "$level: and it commits ($end)");
		is(client()->word($sql), "at $id", "$level: replayed ($end)");
		is(requests(), 1, "$level: one HTTP request ($end)");
	}
}

# ---------- two-phase commit ----------

for my $end ('COMMIT', 'ROLLBACK')
{
	my $id = fresh();
	my $sql = ask('acme', undef, "prepared $id", request_id => $id, %off);
	$up->reset({ m => [ { text => "p $id" } ] });
	my ($a, $b) = (client(), client());
	$a->query('BEGIN');
	$a->value($sql);
	is(MwClient::word_of($a->query("PREPARE TRANSACTION 'p$id'")), 'no row', "two-phase: PREPARE TRANSACTION ($end)");
	$a->close;
	backend_gone($node, $a->pid);
	$b->send($sql);
	sleep 0.3;
	is($node->safe_psql('postgres', "SELECT wait_event_type FROM pg_stat_activity WHERE pid = " . $b->pid), 'Lock', "two-phase: the next caller waits for the prepared transaction ($end)");
	my $settle = client();
	$settle->value("$end PREPARED 'p$id'");
	is(MwClient::word_of($b->result), "p $id", "two-phase: and gets the answer ($end)");
	is(requests(), 1, "two-phase: one HTTP request ($end)");
}
{
	# a prepared transaction keeps its claim through a restart
	my $id = fresh();
	my $sql = ask('acme', undef, "restart $id", request_id => $id, %off);
	$up->reset({ m => [ { text => "p $id" } ] });
	my $a = client();
	$a->query('BEGIN');
	$a->value($sql);
	$a->query("PREPARE TRANSACTION 'p$id'");
	$a->close;
	$node->restart;
	my $b = client();
	$b->send($sql);
	sleep 0.3;
	my $settle = client();
	$settle->value("COMMIT PREPARED 'p$id'");
	is(MwClient::word_of($b->result), "p $id", 'two-phase: over a restart');
	is(requests(), 1, 'two-phase: one HTTP request over a restart');
}

# ---------- waiting for each other ----------
{
	my ($x, $y) = (fresh(), fresh());
	my @sql = map { ask('acme', undef, "lock $_", request_id => $_, %off) } $x, $y;
	$up->reset({ '*' => [ { text => 'a', repeat => 9 } ] });
	my ($a, $b) = (client(), client());
	$_->query('BEGIN') for $a, $b;
	$a->value($sql[0]);
	$b->value($sql[1]);
	$a->send($sql[1]);
	sleep 0.05;
	$b->send($sql[0]);
	my @words;
	# the victim's rollback lets the other one go
	for my $c ($a, $b)
	{
		my $r = eval { $c->result(0.6) };
		if (!$r) { push @words, 'waits'; next; }
		push @words, MwClient::word_of($r);
		$c->query('ROLLBACK') if $r->{error};
	}
	@words = map { $_ eq 'waits' ? MwClient::word_of($a->result) : $_ } @words;
	is(join(' ', sort @words), '40P01 a', 'two request_ids taken crosswise are a deadlock that PostgreSQL finds');
	$_->query('COMMIT') for $a, $b;
}

# ---------- ids that mw made ----------
{
	$up->reset({ '*' => [ { text => 'made', repeat => 5 } ] });
	my $c = client();
	my $made = decode_json($c->value(invoke('acme', undef, 'made', %off)))->{request_id};
	ok($made, 'a call without a request_id is told the one that mw made');
	is_error($c->query(ask('acme', undef, 'made', request_id => $made, %off)), 'MW501', 'which nobody may pass as its own', hint => qr/\S/);
	is($node->safe_psql('postgres', "SELECT count(*) FROM mw.ledger WHERE request_id = '$made'"), '1', '... it names a row of the ledger');
	is($node->safe_psql('postgres', "SELECT count(*) FROM mw.answer WHERE request_id = '$made'"), '0', '... and records no answer');
	$up->reset({ '*' => [ { status => 400 } ] });
	my $r = $c->query(ask('acme', undef, 'made', %off));
	is_error($r, 'MW401', 'an error names the id too', detail => qr/request_id: (\S+)/);
	my ($in_error) = ($r->{error}{D} // '') =~ /request_id: (\S+)/;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM mw.ledger WHERE request_id = ' . quote($in_error)), '1', '... which is in the ledger');
}

# ---------- unknown outcomes ----------
{
	my $id = fresh();
	my $sql = ask('acme', 's1', "unknown $id", request_id => $id, %off);
	$up->reset({ m => [ { text => 'lost', disconnect => 'mid_body' }, { text => 'second' } ] });
	my $c = client();
	is_error($c->query($sql), 'MW402', 'an answer cut off in its body', detail => qr/outcome unknown.*request_id: $id/s);
	is(ledger($node, "request_id = '$id'"), 'unknown', '... is unknown');
	is($node->safe_psql('postgres', "SELECT billed_tokens = reserved_tokens AND billed_requests = 1 AND estimated FROM mw.attempt WHERE request_id = '$id'"),
		't', '... charged at its reservation and marked');
	is_error($c->query($sql), 'MW502', 'a repeat is not sent', hint => qr/resend_unknown/);
	is(requests(), 1, '... really not');
	my $resend = ask('acme', 's1', "unknown $id", request_id => $id, options => { cache => 'off', resend_unknown => \1 });
	is($c->word($resend), 'second', 'until its caller says resend_unknown');
	is($c->word($sql), 'second', 'from then on it has an answer');
	is(requests(), 2, '... sent twice in all');
	is(ledger($node, "request_id = '$id'"), 'unknown ok', '... both are in the ledger');
}
{
	my $id = fresh();
	my $sql = ask('acme', 's1', "late $id", request_id => $id, options => { cache => 'off', timeout => 0.5 });
	$up->reset({ m => [ { text => 'late', hold => \1 } ] });
	my $c = client();
	is_error($c->query($sql), 'MW404', 'the deadline of a request that was sent', detail => qr/outcome unknown/);
	ledger_is($node, "request_id = '$id'", 'unknown', '... is unknown');
	is_error($c->query($sql), 'MW502', '... and is not sent again');
	is(requests(), 1, '... really not');
	$up->release;
}
{
	# a complete answer that cannot be used is paid for, and is the same again
	my $id = fresh();
	my $sql = ask('acme', 's1', "bad $id", request_id => $id, %off);
	$up->reset({ m => [ { raw => '{"choices": [{' } ] });
	my $c = client();
	is_error($c->query($sql), 'MW405', 'an answer that cannot be used');
	is_error($c->query($sql), 'MW405', '... is that again for the same request_id');
	is(requests(), 1, '... without a second request');
}

# ---------- many callers of one request_id ----------

my $n = 64;
my @many = map { client() } 1 .. $n;
for my $round (1 .. rounds(8))
{
	my $id = fresh();
	my $sql = ask('acme', undef, "many $id", request_id => $id, %off);
	my ($kind, $script, $expected) = @{ [
		[ 'at once', [ { text => "one $id" } ], 1 ],
		[ 'answer after 50 ms', [ { text => "one $id", delay_ms => 50 } ], 1 ],
		[ 'first a 500', [ { status => 500 }, { text => "one $id" } ], 2 ],
		[ 'the winner is terminated', [ { text => "one $id", hold => \1 } ], 1 ] ]->[ $round % 4 ] };
	$up->reset({ m => $script });
	my @words;
	if ($kind =~ /terminated/)
	{
		$_->send($sql) for @many;
		$up->wait(requests => 1);
		my $pid = $node->safe_psql('postgres', 'SELECT pid FROM mw.queue');
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		$up->release;
		@words = map { MwClient::word_of($_->result) } @many;
		is(scalar(grep { $_ eq '57P01' } @words), 1, "round $round: one was terminated");
		@words = grep { $_ ne '57P01' } @words;
		for my $i (grep { $many[$_]->pid == $pid } 0 .. $#many) { $many[$i] = client(); }
	}
	else { @words = map { MwClient::word_of($_) } MwClient->race(\@many, sub { $sql }); }
	my %seen = map { $_ => 1 } @words;
	is(join(' / ', sort keys %seen), "one $id", "round $round: $n callers of one request_id, one answer ($kind)");
	is(requests(), $expected, "round $round: $expected HTTP request(s) ($kind)");
}

money_holds($node, 'after all');
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT 1 FROM mw.attempt WHERE request_named AND outcome = 'ok' GROUP BY tenant, request_id, call_key HAVING count(*) > 1) AS x}),
	'0', 'no request_id has two attempts that succeeded for the same bytes');
log_is_clean($node);
$node->stop;
done_testing();
