# What a session cannot show alone: a purge that was rolled back while the gateway stored an
# answer under it; statements that fail before mw runs and hold a prompt all the same; calls
# that are cancelled at any moment by the hundred.
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
$up->reset({}, mode => 'echo');
my $node = MwNode->new('breaker', conf => "mw.gateway_idle = '300s'\nlog_min_error_statement = error\nlog_parameter_max_length_on_error = -1");
$node->server(llm => $up->base_url);
$node->tenant('acme', 'app');
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');

# ---------- a purge that was rolled back ----------

$admin->query('BEGIN');
$admin->query("SELECT mw_purge_cache('acme')");
is($admin->word(ask('acme', undef, 'stored under a purge that never was')), 'stored under a purge that never was', 'a call in the transaction of a purge');
$admin->query('ROLLBACK');
$admin->query("SELECT mw_purge_cache('acme')");
my $before = $up->count->{requests};
is($admin->word(ask('acme', undef, 'stored under a purge that never was')), 'stored under a purge that never was', 'asked again after a purge that was committed');
is($up->count->{requests}, $before + 1, '... by a request: what was stored before a purge is no answer after it');
is($admin->word(ask('acme', undef, 'stored under a purge that never was')), 'stored under a purge that never was', 'and once more');
is($up->count->{requests}, $before + 1, '... out of the cache');

# ---------- the log ----------

my $log = -s $node->logfile;
for my $sql (
	q{SELECT mw_ask('acme', NULL, 'raw-MARKER ana@example.com', modell => 'llm:m')},
	q{SELECT mw_ask('acme', NULL, 'raw-MARKER ana@example.com', model => 'llm:m'), 1/0},
	q{SELECT mw_ask('acme', NULL, 'raw-MARKER ana@example.com', model => 'llm:m') FROM no_such_table},
	q{SELECT mw_redact('raw-MARKER ana@example.com', NULL, 'no json')},
	q{DO $$ BEGIN PERFORM mw_redact('raw-MARKER ana@example.com'); RAISE 'something else'; END $$},
	q{SELECT mw_guard('raw-MARKER ana@example.com', 'acme', '{"none": 1}')},
	q{SELECT mw_restore('raw-MARKER', '{"x": "ana@example.com"}')})
{
	ok($app->query($sql)->{error}, 'fails: ' . substr $sql, 0, 60);
}
my $written = PostgreSQL::Test::Utils::slurp_file($node->logfile, $log);
like($written, qr/division by zero/, 'the errors are in the log');
unlike($written, qr/raw-MARKER|ana\@example/, '... and no prompt');
$app->query('SELECT no_such_column');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile, $log), qr/STATEMENT:  SELECT no_such_column/, 'statements that do not name mw are logged as ever');

# ---------- cancelled at any moment ----------

$up->reset([ { step => { echo => \1, delay_ms => 8, repeat => 100000 } } ]);
$admin->query("SELECT mw_set_budget('acme', 'requests', 1000000)");
$admin->query("SELECT mw_set_budget('acme', 'tokens', 'Infinity', session => '*')");
my $sent = $admin->value("SELECT count(*) FROM mw.attempt");
for my $i (1 .. 200)
{
	$app->query(sprintf "SET statement_timeout = '%dms'", 1 + $i % 20);
	my $w = $app->word(ask('acme', 's' . $i % 3, "cancel $i", $i % 2 ? (request_id => "cancel-$i") : ()));
	fail("an unexpected end: $w") if $w !~ /^(57014|cancel \d+)$/;
}
$app->query('RESET statement_timeout');
ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0' }), 'the queue is empty when all are done');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE outcome <> 'ok'}), '0', 'what was sent came to its end without its caller');
is($admin->value('SELECT count(*) FROM mw.attempt') - $sent, $up->count->{requests}, 'a row of the ledger for each request');
# one more is allowed, and exactly one: nothing is left reserved
$admin->query(q{SELECT mw_set_budget('acme', 'requests', (SELECT requests + 1 FROM mw.spent WHERE tenant = 'acme' AND session = ''))});
is($app->word(ask('acme', undef, 'one more')), 'one more', 'the last request of a budget passes');
is_error($app->query(ask('acme', undef, 'one too many')), 'MW301', 'the next does not', detail => qr/reserved 0/);
money_holds($node, 'after the cancels');

done_testing();
