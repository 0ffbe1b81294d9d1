# What embedding in PostgreSQL brings: a caller whose call is refused leaves nothing behind, a process that dies takes no
# record with it, and a backlog after a crash does not grow into the next one.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('embedding', conf => "restart_after_crash = on\nmw.gateway_idle = '300s'");
$node->server(llm => $up->base_url, max_response => 100_000_000);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_set_budget('acme', 'tokens', 'Infinity', session => '*'); SELECT mw_set_budget('acme', 'requests', 1000000)});
my %off = (options => { cache => 'off' });

sub client { return MwClient->new($node, user => 'app', @_); }
sub gateway { return $node->safe_psql('postgres', q{SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE backend_type = 'mw gateway'}); }
sub reserved { return $node->safe_psql('postgres', q{SELECT coalesce(sum(reserved), 0) FROM mw.budget_status}); }

# ---------- a call that the gateway refuses ----------

$node->safe_psql('postgres', q{
	CREATE SERVER keyless FOREIGN DATA WRAPPER mw OPTIONS (api 'openai', base_url 'http://127.0.0.1:9/v1');
	CREATE USER MAPPING FOR PUBLIC SERVER keyless OPTIONS (api_key_file '/nowhere/at/all');
	GRANT USAGE ON FOREIGN SERVER keyless TO PUBLIC});
my $c = client();
$c->query(ask('acme', 's1', 'refused', model => 'keyless:m', %off)) for 1 .. 3;
is_error($c->query(ask('acme', 's1', 'refused', model => 'keyless:m', %off)), 'MW001', 'a call that the gateway refuses');
is(reserved(), '0', '... keeps nothing reserved');
$c->query('BEGIN');
$c->query('SAVEPOINT s');
$c->query(ask('acme', 's1', 'refused', model => 'keyless:m', %off));
$c->query('ROLLBACK TO s');
is(reserved(), '0', '... nor in a subtransaction');
$c->query('COMMIT');
money_holds($node, 'after refusals');

# ---------- a latch that is set all the time ----------

# the server looks after its client so often that no wait of half a second ever times out
$node->safe_psql('postgres', q{ALTER SYSTEM SET client_connection_check_interval = '20ms'; SELECT pg_reload_conf()});
$up->reset({ m => [ { text => 'here', repeat => 99 } ] });
my $looked = client();
is($looked->word(ask('acme', 's1', 'a gateway runs', %off)), 'here', 'with client_connection_check_interval a call works');
my $stopped = gateway();
kill 'STOP', $stopped;
my $from = time;
is_error($looked->query(ask('acme', 's1', 'a gateway that is stopped', options => { cache => 'off', timeout => 2 }), 40), 'MW404',
	'... and a deadline comes while the gateway is stopped');
cmp_ok(time - $from, '<', 20, '... in time');
kill 'CONT', $stopped;
$node->safe_psql('postgres', q{ALTER SYSTEM RESET client_connection_check_interval; SELECT pg_reload_conf()});
eventually(sub { return reserved() eq '0'; });
money_holds($node, 'after a gateway that was stopped');

# ---------- a process dies in the middle of calls ----------

$up->reset({ m => [ { text => 'slow', hold => \1, repeat => 99 } ] });
my @all = map { client() } 1 .. 20;
$all[$_]->send(ask('acme', "s$_", "call $_", request_id => "segv-$_", %off)) for 0 .. $#all;
$up->wait(requests => 20);
kill 'SEGV', $all[7]->pid;
$_->result for @all;
$up->release;		# only now: an answer that came before the postmaster saw the death would be one
ok(wait_recovered($node), 'after a backend died by SIGSEGV the server is back by itself');
$up->reset({ m => [ { text => 'fresh', repeat => 99 } ] });
is(client()->word(ask('acme', 's1', 'fresh', %off)), 'fresh', '... and the next call works');
is(ledger($node, q{request_id LIKE 'segv-%'}), join(' ', ('unknown') x 20), '... each call in flight is unknown');
is(client()->word(ask('acme', 's7', 'call 7', request_id => 'segv-7', %off)), 'MW502', '... and is not sent again unasked');
money_holds($node, 'after SIGSEGV');

# ---------- a backlog after a crash ----------

$node->safe_psql('postgres', q{
	INSERT INTO mw.attempt (tenant, run_id, call, attempt, session, request_id, request_named, turn, purpose, model,
		call_key, nth, started_at, outcome, reserved_tokens, reserved_requests)
	SELECT 'acme', gen_random_uuid(), 1, 1, 's' || g % 500, 'backlog-' || g, true, 1, 'model', 'llm:m',
		decode(md5(g::text), 'hex'), 1, now(), 'running', 3, 1 FROM generate_series(1, 50000) g});
$node->stop('immediate');
$node->start;
my $t = time;
is(client()->word(ask('acme', 's1', 'after the backlog', %off)), 'fresh', 'the first call after 50,000 lost ones works');
cmp_ok(time - $t, '<', 60, '... and does not wait for ever');
is($node->safe_psql('postgres', q{SELECT count(*) FROM mw.attempt WHERE outcome = 'running'}), '0', '... they are all unknown');
is($node->safe_psql('postgres', q{SELECT sum(billed_tokens) FROM mw.attempt WHERE request_id LIKE 'backlog-%'}), '150000', '... and charged at what they had reserved');
money_holds($node, 'after the backlog');
$node->stop('immediate');
$node->start;
is(client()->word(ask('acme', 's1', 'nothing left to do', %off)), 'fresh', 'with nothing to recover it works too');

# ---------- memory of a statement of a million calls ----------

my $m = client();
sub rss { my ($pid) = @_; open my $f, '<', "/proc/$pid/status" or return 0; return (join('', <$f>) =~ /^RssAnon:\s+(\d+)/m)[0]; }
$m->value(q{SELECT count(mw_redact('write to ' || g || '@example.com')) FROM generate_series(1, 20000) g});
my $before = rss($m->pid);
$m->value(q{SELECT count(mw_redact('write to ' || g || '@example.com or call 415-555-0132')) + count(mw_guard('text ' || g)) FROM generate_series(1, 200000) g});
cmp_ok(rss($m->pid) - $before, '<', 8192, 'redacting and judging in one statement keeps no memory a row');

# ---------- NULLs, JSON that was never text ----------

is($m->word(q{SELECT mw_redact(NULL)}), 'NULL', 'NULL gives NULL');
$up->reset({ m => [ { text => 'yes', repeat => 9 } ] });
is($m->word(q{SELECT mw_ask('acme', NULL, NULL, model => 'llm:m', messages => jsonb_build_array(jsonb_build_object('role', 'user',
	'content', jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'in parts, ada@example.com')))))}), 'yes', 'messages with arrays in them');

like(log_since($node), qr/was terminated by signal 11/, 'the log says what this test killed');
unlike(log_since($node), qr/PANIC|TRAP:|invalid memory alloc|still referenced|terminated by signal (?!11:)/, '... and nothing else');
$node->stop;
done_testing();
