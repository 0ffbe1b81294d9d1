# Risk: a leg of a run that was rolled back, failed or died has left attempts in the ledger, and the leg that repeats it, or a
# fallback or a guard of a later call, takes their place there: the session could never go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('legs');
$node->server(llm => $up->base_url, key => 'sk', breaker => 'off', retry_reserve => 9999);
$node->tenant(acme => 'app');
$node->safe_psql('postgres', q{
	SELECT mw_alter_tenant('acme', '{"cache": false, "retry": {"max_attempts": 2, "base": 0.01, "max": 0.02}}');
	CREATE TABLE done (what text);
	GRANT INSERT, SELECT ON done TO app;
	CREATE FUNCTION act(what text) RETURNS text LANGUAGE sql AS $$ INSERT INTO done VALUES (what); SELECT 'done: ' || what $$;
	SELECT mw_create_tool('act', 'act(text)', options => '{"writes": true}');
	CREATE FUNCTION refuse(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
		BEGIN IF runtime #>> '{context,refuse}' = 'yes' THEN RAISE 'refused'; END IF; RETURN NULL; END $$;
	SELECT mw_create_agent('careful', '{"model": "llm:m", "tools": ["act"], "middleware": [
		{"type": "human_in_the_loop", "interrupt_on": {"act": true}},
		{"type": "custom", "name": "refuser", "hooks": {"after_agent": "refuse"}}]}');
	SELECT mw_create_agent('bold', '{"model": "llm:m", "tools": ["act"]}')});
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');

my @asks = ({ tool_calls => [ { id => 'c1', name => 'act', arguments => { what => 'it' } } ] });
my $resume = q{SELECT mw_resume('acme', '%s', %s) ->> 'output'};
sub resume { my ($session, $more) = @_; return sprintf $resume, $session, $more // q{options => '{}'}; }
sub ledger_of { my ($session) = @_; return $admin->value("SELECT string_agg(call || '.' || attempt || ' ' || model || ' ' || outcome, ', ' ORDER BY started_at) FROM mw.ledger WHERE session = '$session'"); }
sub paused
{
	my ($session, @then) = @_;
	$up->reset({ m => [ @asks, @then ] });
	$app->value(invoke('acme', $session, 'go', agent => 'careful'));
	$app->value(qq{SELECT status FROM mw_decide('acme', '$session', '{"decisions": [{"type": "approve"}]}')});
	return;
}

# ---------- the same leg again ----------

paused('rolled_back', { text => 'one' }, { text => 'two' });
$app->query('BEGIN');
is($app->word(resume('rolled_back')), 'one', 'a leg that is rolled back');
$app->query('ROLLBACK');
is($app->word(resume('rolled_back')), 'two', '... is made again');
is(ledger_of('rolled_back'), '1.1 llm:m ok, 2.1 llm:m ok, 2.2 llm:m ok', '... as another attempt of the same call');

paused('retried', { status => 503 }, { text => 'one' }, { status => 503 }, { text => 'two' });
$app->query('BEGIN');
is($app->word(resume('retried')), 'one', 'one with an attempt that failed, rolled back');
$app->query('ROLLBACK');
is($app->word(resume('retried')), 'two', '... has its two attempts again');
is(ledger_of('retried'), '1.1 llm:m ok, 2.1 llm:m failed, 2.2 llm:m ok, 2.3 llm:m failed, 2.4 llm:m ok', '... behind those that were');

paused('raised', { text => 'one' }, { text => 'two' });
is($app->word(resume('raised', q{options => '{"context": {"refuse": "yes"}}'})), 'MW702', 'one that a hook ends with an error');
is($app->word(resume('raised')), 'two', '... is made again');

paused('named', { text => 'one' }, { text => 'two' });
$app->query('BEGIN');
is($app->word(resume('named', q{request_id => 'leg'})), 'one', 'one with a request_id');
$app->query('ROLLBACK');
is($app->word(resume('named', q{request_id => 'leg'})), 'one', '... has the answer that was paid for');
is($admin->value('SELECT count(*) FROM done'), 4, 'each has acted once');

$up->reset({ m => [ { tool_calls => [ { id => 'c1', name => 'due', arguments => {} } ] }, { text => 'one' }, { text => 'two' } ] });
my %memory = (options => { memory => \1 });
my $results = [ { role => 'tool', tool_call_id => 'c1', content => 'today' } ];
like($app->word(invoke('acme', 'outside', 'when?', %memory, tools => [ { type => 'function', function => { name => 'due', parameters => { type => 'object' } } } ])),
	qr/"tool_calls"/, 'a run that waits for an application');
$app->query('BEGIN');
is($app->word(ask('acme', 'outside', undef, %memory, messages => $results)), 'one', 'goes on with its results');
$app->query('ROLLBACK');
is($app->word(ask('acme', 'outside', undef, %memory, messages => $results)), 'two', '... and again after a rollback');
is(ledger_of('outside'), '1.1 llm:m ok, 2.1 llm:m ok, 2.2 llm:m ok', '... as another attempt of the same call');

# ---------- a leg whose answer was lost on its way ----------

# the result was committed and its caller died before it came: the repeat says nothing that values could be found in
my $file = $node->basedir . '/pii.key';
MwNode::write_keys($file, '1 ' . 'a' x 64);
$node->safe_psql('postgres', "ALTER SYSTEM SET mw.pii_key_file = '$file'");
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", $file) or die 'no reload';
$app = MwClient->new($node, user => 'app');
$up->reset({ m => [ @asks, { text => 'I wrote to <EMAIL_0>.' } ] });
$app->value(invoke('acme', 'lost', 'Write to ana@example.com', agent => 'careful'));
$app->value(q{SELECT status FROM mw_decide('acme', 'lost', '{"decisions": [{"type": "approve"}]}')});
my $lost = q{SELECT mw_resume('acme', 'lost', request_id => 'lost.2')};
my $first = $app->value($lost);
like($first, qr/I wrote to ana\@example\.com\./, 'a leg that ends with a value of its session');
is(MwClient->new($node, user => 'app')->value($lost), $first, '... is the same to the byte when it is asked for again');

# ---------- calls within calls ----------

$up->reset({ m => [ { status => 400 }, { status => 400 } ], other => [ @asks, { text => 'from the other' } ] });
is($app->word(ask('acme', 'fallen', 'go', agent => 'bold', options => { fallback => { models => ['llm:other'], on => [400] } })), 'from the other',
	'a run of which each turn falls back');
is(ledger_of('fallen'), '1.1 llm:m failed, 2.1 llm:other ok, 3.1 llm:m failed, 4.1 llm:other ok', '... has a number for each call');

$node->safe_psql('postgres', q{
	SELECT mw_create_guard('asked', NULL, '{"model": "llm:guard", "question": "Is it bad?", "sources": ["user", "tool", "output"]}', 'acme')});
$up->reset({ m => [ @asks, { text => 'fine' } ], guard => [ map { +{ text => 'no' } } 1 .. 9 ] });
is($app->word(ask('acme', 'guarded', 'go', agent => 'bold')), 'fine', 'a run whose texts a model judges');
unlike(ledger_of('guarded'), qr/unknown|running/, '... has a number for each call: ' . ledger_of('guarded'));

money_holds($node, 'after legs and calls within calls');
log_is_clean($node);
done_testing();
