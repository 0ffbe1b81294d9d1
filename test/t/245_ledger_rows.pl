# What an administrator does to the tables that the gateway writes row by row, past the executor: a trigger of his fires,
# his indexes hold what the table holds, his columns get their defaults, rows that he has moved or taken away are missed by
# nobody.  While calls go on, since a gateway that remembers how its tables looked is one that may remember wrongly.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start('--echo');
my $node = MwNode->new('rows', conf => "mw.gateway_idle = '300s'\nmax_connections = 50");
$node->server(llm => $up->base_url);
$node->tenant(acme => 'app');
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');
my $serial = 0;
my $held = 0;						# calls beside those of calls_go_on

# A miss and its hit, and a call with a request_id that is rolled back and repeated
sub calls_go_on
{
	my ($name) = @_;
	my $n = ++$serial;
	my $sent = $up->count->{requests};
	my @id = (request_id => "named $n");
	my $said = $app->word(ask('acme', 's1', "number $n"));
	is($app->word(ask('acme', 's1', "number $n")), $said, "$name: a hit");
	$app->query('BEGIN');
	my $first = $app->word(ask('acme', 's1', "another $n", @id, options => { cache => 'off' }));
	$app->query('ROLLBACK');
	is($app->word(ask('acme', 's1', "another $n", @id, options => { cache => 'off' })), $first, "$name: the recorded answer");
	is($up->count->{requests} - $sent, 2, "$name: two requests");
	is($admin->value(q{SELECT count(*) || ' ' || count(DISTINCT (tenant, run_id, call, attempt)) FROM mw.attempt WHERE outcome = 'ok'}),
		(2 * $n + $held) . ' ' . (2 * $n + $held), "$name: a row each in the ledger");
	money_holds($node, $name);
	is($admin->value('SELECT string_agg(x::text, E\'\n\') FROM mw_check() AS x'), undef, "$name: mw_check finds nothing");
	return;
}

# By every index of a table the same rows as without one
sub indexes_hold
{
	my ($name) = @_;
	$admin->query('CREATE EXTENSION IF NOT EXISTS amcheck');
	cmp_ok($admin->value(q{SELECT count(bt_index_check(x.indexrelid, true)::text)
		FROM (SELECT i.indexrelid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
			WHERE i.indrelid IN ('mw.attempt'::regclass, 'mw.spent'::regclass, 'mw.answer'::regclass, 'mw.cache'::regclass) AND a.amname = 'btree' OFFSET 0) AS x}),
		'>=', 6, "$name: every row is in every index");
	return;
}

sub changed
{
	my ($name, @sql) = @_;
	for (@sql)
	{
		my $r = $admin->query($_);
		$r->{error} and fail("$name: $_: $r->{error}{M}");
	}
	calls_go_on($name);
	indexes_hold($name);
	return;
}

calls_go_on('as shipped');
indexes_hold('as shipped');

# ---------- a row that every call changes ----------

# what its updates leave behind is cleared away by those that come after, not by VACUUM alone
$app->word(ask('acme', 's1', "miss $_", options => { cache => 'off' })) for 1 .. 300;
cmp_ok($admin->value(q{SELECT pg_relation_size('mw.spent') / 8192}), '<=', 4, '600 updates of two sums take no more room than the sums');
$held = 300;
calls_go_on('after many');
indexes_hold('after many');

# ---------- indexes ----------

changed('another index', 'CREATE INDEX by_model ON mw.attempt (tenant, model, billed_tokens)');
$admin->query('SET enable_seqscan = off');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE tenant = 'acme' AND model = 'llm:m' AND billed_tokens > 0}), 2 * $serial + $held,
	'another index: it finds the rows that were written since');
changed('an index that is made while calls go on', 'CREATE INDEX CONCURRENTLY by_outcome ON mw.attempt (outcome)');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE outcome = 'ok'}), 2 * $serial + $held, 'it finds all rows');
changed('an index on an expression', 'CREATE INDEX by_day ON mw.attempt (upper(model))');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE upper(model) = 'LLM:M'}), 2 * $serial + $held, 'an index on an expression: it finds all rows');
changed('an index of another kind', 'CREATE INDEX by_time ON mw.attempt USING brin (started_at)');
changed('indexes made anew', 'REINDEX TABLE mw.attempt', 'REINDEX TABLE CONCURRENTLY mw.spent');
changed('indexes dropped', 'DROP INDEX mw.by_model, mw.by_outcome, mw.by_day, mw.by_time');
$admin->query('RESET enable_seqscan');

# ---------- rows that are elsewhere ----------

changed('rows that were moved', map { "VACUUM FULL mw.$_" } qw(attempt spent answer cache));
changed('rows that an administrator wrote', q{UPDATE mw.spent SET tokens = tokens}, q{UPDATE mw.attempt SET purpose = purpose}, 'VACUUM mw.spent, mw.attempt');
$admin->query('DELETE FROM mw.cache');
$admin->query('VACUUM mw.cache');
changed('a table that is empty');

# an attempt whose row moves between its two writes
$up->reset({ m => [ { text => 'held', hold => \1 } ] });
$app->send(ask('acme', 's1', 'held', options => { cache => 'off' }));
$up->wait(requests => 1, timeout => 20) or fail('the request arrives');
$admin->query(q{UPDATE mw.attempt SET purpose = purpose WHERE outcome = 'running'}) for 1 .. 3;
$up->release;
is(MwClient::word_of($app->result), 'held', 'a row that an administrator wrote during its call');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE outcome = 'running'}), '0', '... has its outcome');
$held++;
$up->reset({}, mode => 'echo');

# ---------- triggers and columns ----------

changed('a trigger', 'CREATE TABLE seen (what text, outcome text)',
	q{CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.seen VALUES (TG_OP, NEW.outcome); RETURN NULL; END$$},
	'CREATE TRIGGER see AFTER INSERT OR UPDATE ON mw.attempt FOR EACH ROW EXECUTE FUNCTION see()');
is($admin->value(q{SELECT string_agg(DISTINCT what || ' ' || outcome || ' ' || n, ', ' ORDER BY what || ' ' || outcome || ' ' || n)
	FROM (SELECT what, outcome, count(*) AS n FROM seen GROUP BY 1, 2) AS x}),
	'INSERT running 2, UPDATE ok 2', 'a trigger: it has seen every attempt twice');
changed('without it', 'DROP TRIGGER see ON mw.attempt');
is($admin->value('SELECT count(*) FROM seen'), '4', 'without it: it sees nothing more');
changed('another column', q{ALTER TABLE mw.cache ADD COLUMN region text NOT NULL DEFAULT 'north'});
is($admin->value(q{SELECT count(*) FILTER (WHERE region = 'north') = count(*) FROM mw.cache}), 't', 'another column: it has its default');
changed('without it', 'ALTER TABLE mw.cache DROP COLUMN region');

# ---------- answers of all sizes ----------

# one that is stored outside of its row takes the place of another, and is taken away by the next
for my $size (200_000, 300_000, 10)
{
	my $text = join ' ', map { sprintf '%x', $_ * 2654435761 } 1 .. $size / 10;
	$up->reset({ m => [ { text => $text } ] });
	is(length $app->word(ask('acme', undef, 'one of any size')), length $text, "an answer of $size bytes");
	is(length $app->word(ask('acme', undef, 'one of any size')), length $text, '... is a hit');
	$admin->query(q{UPDATE mw.cache SET expires_at = now() - interval '1 hour'});
}
money_holds($node, 'at the end');
log_is_clean($node);

$node->stop;
done_testing();
