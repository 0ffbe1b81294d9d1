# Risk: a run that was rolled back and is asked for again goes another way than it did, since something that a middleware, a
# limit or a hook sees of an answer is gone when the answer comes out of the record: then requests differ, and are paid again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use JSON::PP;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('replayed');
$node->server(llm => $up->base_url, key => 'sk', breaker => 'off', retry_reserve => 9999);
$node->tenant(acme => 'app');
$node->safe_psql('postgres', q{
	SELECT mw_alter_tenant('acme', '{"cache": false, "guardrail": false, "retry": {"max_attempts": 1}}');
	SELECT mw_set_price('llm:m', 1, 1);
	CREATE TABLE tried (n int);
	GRANT INSERT, SELECT ON tried TO app;
	CREATE FUNCTION find(q text) RETURNS text LANGUAGE sql AS $$ SELECT 'found ' || q || repeat(' and more', 20) $$;
	CREATE FUNCTION flaky(q text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'no luck with %', q; END $$;
	SELECT mw_create_tool('find', 'find(text)');
	SELECT mw_create_tool('flaky', 'flaky(text)');
	CREATE FUNCTION prompt(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
		$$ SELECT to_jsonb('Turn ' || (runtime ->> 'turn') || ', last ' || (request -> 'messages' -> -1 ->> 'id')) $$;
	CREATE FUNCTION tells_all(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
		$$ SELECT mw_next(jsonb_set(request, '{system_prompt}', to_jsonb('You know ' || md5((request -> 'messages')::text)))) $$;
	CREATE FUNCTION stops(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
		DECLARE answer jsonb := mw_next(request);
		BEGIN
			IF (runtime ->> 'call')::int + 1 = nullif(current_setting('app.stop_after', true), '')::int THEN RAISE 'stopped'; END IF;
			RETURN answer;
		END $$});
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');

sub uses { my ($in, $out) = @_; return (usage => { prompt_tokens => $in, completion_tokens => $out, total_tokens => $in + $out }); }
my $ids = 0;
sub calls { my ($name, $q, @more) = @_; return { tool_calls => [ map { { id => 'c' . ++$ids, name => $name, arguments => { q => $_ } } } split / /, $q ], @more }; }
my $n = 0;

# What a run's thread says, with ids and metadata, as whoever asks sees it
sub thread { my ($session) = @_; return $app->word("SELECT jsonb_agg(message ORDER BY position)::text FROM mw.thread WHERE removed_step IS NULL AND session = '$session'"); }
sub paid { my ($id) = @_; return $admin->value("SELECT count(*) || ' calls of ' || coalesce(sum(billed_tokens), 0) FROM mw.ledger WHERE request_id = '$id' AND outcome = 'ok'"); }

# One agent: its run is stopped after each of its calls in turn, then ends and is rolled back, then stays.
# Whatever was answered once is never sent again, and the run that stays is the one that was rolled back.
sub replays
{
	my ($name, $middleware, $script, %o) = @_;
	my $agent = 'a' . ++$n;
	my @last = $o{stops} // 1 ? { type => 'custom', name => 'stops', hooks => { wrap_model_call => 'stops' } } : ();
	my $config = JSON::PP->new->canonical->encode({
		model => 'llm:m', tools => [ 'find', 'flaky' ], %{ $o{config} // {} },
		middleware => [ @$middleware, { type => 'custom', name => 'tells', hooks => { wrap_model_call => 'tells_all' } }, @last ] });
	$admin->value('SELECT mw_create_agent(' . quote($agent) . ', ' . quote($config) . ')');
	$up->reset($script);
	my $call = invoke('acme', "s$n", $o{prompt} // 'Find tea', agent => $agent, request_id => "r$n", model => undef, ($o{options} ? (options => $o{options}) : ()));
	$call =~ s/, model => NULL//;
	my $word = $o{result} // '->> \'output\'';
	$call =~ s/^SELECT (.*)$/SELECT ($1) $word/s;

	for my $k (@last ? 1 .. $o{calls} - 1 : ())
	{
		$app->query("BEGIN; SET LOCAL app.stop_after = $k");
		my $r = $app->query($call);
		$app->query('ROLLBACK');
	}
	$app->query('BEGIN');
	my $first = $app->word($call);
	my $thread = thread("s$n");
	my $sent = $up->count->{requests};
	my $paid = paid("r$n");
	$app->query('ROLLBACK');
	is($sent, $o{requests} // $o{calls}, "$name: requests of a run that was stopped after each of its calls");
	is($app->word($call), $first, "... the repeat ends as the run that was rolled back: " . substr($first, 0, 40));
	is(thread("s$n"), $thread, '... with the same thread');
	is($up->count->{requests}, $sent, '... and nothing was sent again');
	is(paid("r$n"), $paid, "... or paid again: $paid");
	return;
}

my $end = { text => 'done', uses(10, 2) };
my $answer = calls(find => 'tea', uses(30, 5));

# ---------- what middlewares go by ----------

replays('no middleware', [], { m => [ $answer, $end ] }, calls => 2);
replays('a summary at what the provider reported', [ { type => 'summarization', model => 'llm:sum', trigger => { tokens => 5000 }, keep => { messages => 1 } } ],
	{ m => [ $answer, calls(find => 'milk', uses(5000, 10)), calls(find => 'salt', uses(40, 5)), $end ], sum => [ { text => 'S', uses(100, 3) } ] }, calls => 5);
replays('a summary at a count that goes by it', [ { type => 'summarization', model => 'llm:sum', trigger => { tokens => 230 }, keep => { messages => 2 } } ],
	{ m => [ $answer, calls(find => 'milk', uses(190, 10)), calls(find => 'salt', uses(40, 5)), $end ], sum => [ map { +{ text => 'S', uses(100, 3) } } 1 .. 3 ] }, calls => 5);
replays('no summary where a provider reports nothing', [ { type => 'summarization', model => 'llm:sum', trigger => { tokens => 3000 }, keep => { messages => 1 } } ],
	{ m => [ calls(find => 'tea', usage => undef), { text => 'x ' x 4000, usage => undef } ], sum => [] }, calls => 2);
replays('context_editing', [ { type => 'context_editing', edits => [ { type => 'clear_tool_uses', trigger => 20, keep => 1, clear_tool_inputs => \1 } ] } ],
	{ m => [ $answer, calls(find => 'milk'), calls(find => 'salt'), $end ] }, calls => 4);
replays('model_call_limit', [ { type => 'model_call_limit', run_limit => 2 } ], { m => [ $answer, calls(find => 'milk'), $end ] }, calls => 2);
replays('tool_call_limit', [ { type => 'tool_call_limit', run_limit => 1 } ], { m => [ calls(find => 'tea milk'), calls(find => 'salt'), $end ] }, calls => 3);
replays('model_retry', [ { type => 'model_retry', initial_delay => 0.001 } ], { m => [ { status => 503 }, $answer, $end ] }, calls => 2, requests => 3);
replays('model_retry after an answer that cannot be used', [ { type => 'model_retry', initial_delay => 0.001 } ],
	{ m => [ { raw => '<html>' }, $answer, { raw => '<html>' }, { raw => '<html>' }, $end ] }, calls => 2, requests => 5, stops => 0);
replays('model_retry after an unknown outcome', [ { type => 'model_retry', initial_delay => 0.001 } ],
	{ m => [ $answer, { disconnect => 'mid_body' }, $end ] }, calls => 2, requests => 3, stops => 0);
replays('tool_retry', [ { type => 'tool_retry', initial_delay => 0.001 } ], { m => [ calls(flaky => 'tea'), $end ] }, calls => 2);
replays('tool_error', [ { type => 'tool_error', on_error => { message => '{tool}: {error}' } } ], { m => [ calls(flaky => 'tea milk'), $end ] }, calls => 2);
replays('model_fallback', [ { type => 'model_fallback', models => ['llm:b'] } ],
	{ m => [ { status => 500 }, { status => 500 }, map { +{ text => 'the first model is up again' } } 1 .. 9 ], b => [ $answer, $end ] }, calls => 2, requests => 4);
replays('model_fallback after an answer that cannot be used', [ { type => 'model_fallback', models => ['llm:b'] } ],
	{ m => [ { raw => '<html>' }, { raw => '<html>' }, map { +{ text => 'the first model is up again' } } 1 .. 9 ], b => [ $answer, $end ] }, calls => 2, requests => 4, stops => 0);
replays('llm_tool_selector', [ { type => 'llm_tool_selector', model => 'llm:sel', max_tools => 1 } ],
	{ m => [ $answer, $end ], sel => [ map { +{ text => '{"tools": ["find"]}' } } 1, 2 ] }, calls => 4);
replays('llm_tool_emulator', [ { type => 'llm_tool_emulator', model => 'llm:emu' } ],
	{ m => [ calls(find => 'tea milk'), $end ], emu => [ { text => 'first' }, { text => 'second' } ] }, calls => 4);
replays('todo_list', [ { type => 'todo_list' } ],
	{ m => [ { tool_calls => [ { id => 't', name => 'write_todos', arguments => { todos => [ { content => 'one', status => 'pending' } ] } } ] }, $end ] }, calls => 2);
replays('pii', [ { type => 'pii', pii_type => 'email', strategy => 'hash', apply_to_output => \1 } ],
	{ m => [ calls(find => 'a@example.com'), { text => 'mail b@example.com' } ] }, calls => 2, prompt => 'Find c@example.com and c@example.com');
replays('dynamic_prompt', [ { type => 'dynamic_prompt', function => 'prompt' } ], { m => [ $answer, calls(find => 'milk'), $end ] }, calls => 3);
replays('progress_guard', [ { type => 'progress_guard', exit_behavior => 'end', failure_only => \0 } ],
	{ m => [ (map { calls(find => 'tea') } 1 .. 3), $end ] }, calls => 3);
replays('structured output', [], { m => [ { text => '{"a": "no number"}' }, { text => '{"a": 1}' } ] }, calls => 1, result => q{->> 'status'},
	config => { response_format => { type => 'object', properties => { a => { type => 'string' } }, required => ['a'] } });
replays('a model that gives its calls no ids', [], { m => [ (map { +{ tool_calls => [ { id => '', name => 'find', arguments => { q => $_ } } ] } } 'tea', 'milk'), $end ] }, calls => 3);

# ---------- what limits of a run go by ----------

replays('a limit of tokens that ends the run', [], { m => [ calls(find => 'tea', uses(30, 500)), calls(find => 'milk', uses(30, 500)), $end, $end ] }, calls => 2,
	config => { limits => { tokens => 1300 }, on_budget => { end => 'enough' } });
replays('... where the provider reports none', [], { m => [ calls(find => 'tea', text => 'long ' x 600, usage => undef), calls(find => 'milk', text => 'long ' x 600, usage => undef), $end, $end ] }, calls => 1,
	config => { limits => { tokens => 2600 }, on_budget => { end => 'enough' } });
replays('a limit of cost that ends the run', [], { m => [ calls(find => 'tea', uses(30, 500)), calls(find => 'milk', uses(30, 500)), $end, $end ] }, calls => 2,
	config => { limits => { cost => 0.0013 }, on_budget => { end => 'enough' } });
replays('a limit of calls', [], { m => [ $answer, calls(find => 'milk'), $end ] }, calls => 2, config => { limits => { calls => 2, exit_behavior => 'end' } });

# ---------- an answer out of the cache ----------

# it says what it used when it was paid for, and costs nothing
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": true}');
	SELECT mw_create_agent('cached', '{"model": "llm:m", "tools": ["find"]}')});
$up->reset({ m => [ { text => 'kept', uses(70, 7) } ] });
my $cached = q{SELECT mw_invoke('acme', '%s', 'Say it', agent => 'cached')};
my %hit = map { $_ => decode_json($app->value(sprintf $cached, $_)) } qw(h1 h2);
is($hit{h2}{cache}, 'hit', 'an answer out of the cache');
is($hit{h2}{usage}{total_tokens}, 0, '... costs no tokens');
is($app->value(q{SELECT count(DISTINCT message -> 'metadata' -> 'usage') FROM mw.thread WHERE session IN ('h1', 'h2') AND message ->> 'role' = 'assistant'}), 1, '... and says what it used');
is($app->value(q{SELECT message #>> '{metadata,usage,total_tokens}' FROM mw.thread WHERE session = 'h2' AND message ->> 'role' = 'assistant'}), 77, '... as its provider did');

money_holds($node, 'after runs that were rolled back');
log_is_clean($node);

# ---------- calls that tools and hooks make themselves, under no request_id of their own ----------

$admin->value(q{SELECT mw_alter_tenant('acme', '{"cache": false}')});
$admin->value(q{
	CREATE FUNCTION asks(q text) RETURNS text LANGUAGE sql AS $$ SELECT mw_ask('acme', NULL, 'What is ' || q, model => 'llm:n') $$;
	CREATE FUNCTION asks_twice(q text) RETURNS text LANGUAGE sql AS $$ SELECT asks(q) || ' and ' || asks(q) || ' and ' || asks(q || ' too') $$;
	CREATE FUNCTION asks_and_fails(q text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'no luck with %', asks(q); END $$;
	CREATE FUNCTION asks_in_vain(q text) RETURNS text LANGUAGE plpgsql AS $$
		DECLARE said text;
		BEGIN
			BEGIN
				said := asks(q);
				RAISE division_by_zero;
			EXCEPTION WHEN division_by_zero THEN
				RETURN asks(q) || ' after all';
			END;
		END $$;
	CREATE FUNCTION has_asked(q text) RETURNS text LANGUAGE sql AS $$ SELECT mw_invoke('acme', 'in ' || q, 'Ask about ' || q, agent => 'inner') ->> 'output' $$;
	CREATE FUNCTION adds(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS
		$$ SELECT jsonb_build_object('messages', jsonb_build_array(jsonb_build_object('role', 'user', 'content', asks('turn ' || (runtime ->> 'turn'))))) $$;
	SELECT count(mw_create_tool(f, f || '(text)', options => '{"writes": true}')) FROM unnest('{asks,asks_twice,asks_and_fails,asks_in_vain,has_asked}'::text[]) AS f;
	SELECT mw_create_agent('inner', '{"model": "llm:i", "tools": ["asks"]}')});
my @said = map { +{ text => "said $_", uses(7, 3) } } 1 .. 40;
sub asking { my ($tool, $q) = @_; return { tool_calls => [ { id => 'c' . ++$ids, name => $tool, arguments => { q => $q } } ], uses(30, 5) }; }
my $all = { tools => [qw(asks asks_twice asks_and_fails asks_in_vain has_asked)] };

replays('a tool that asks', [], { m => [ asking(asks => 'tea'), asking(asks => 'milk'), $end ], n => \@said }, calls => 3, requests => 5, config => $all);
replays('a tool that asks the same twice', [], { m => [ asking(asks_twice => 'tea'), $end ], n => \@said }, calls => 2, requests => 5, config => $all);
replays('tools that ask the same beside each other', [],
	{ m => [ { tool_calls => [ map { +{ id => "p$_", name => 'asks', arguments => { q => 'tea' } } } 1 .. 3 ], uses(30, 5) }, $end ], n => \@said }, calls => 2, requests => 5, config => $all);
replays('a tool that asks, fails and is tried again', [ { type => 'tool_retry', initial_delay => 0.001, max_retries => 2 } ],
	{ m => [ asking(asks_and_fails => 'tea'), $end ], n => \@said }, calls => 2, requests => 5, config => $all);
replays('a tool that undoes its asking', [], { m => [ asking(asks_in_vain => 'tea'), $end ], n => \@said }, calls => 2, requests => 4, config => $all);
replays('a tool that is an agent, whose tool asks', [],
	{ m => [ asking(has_asked => 'tea'), asking(has_asked => 'milk'), $end ], i => [ asking(asks => 'tea'), { text => 'inner 1' }, asking(asks => 'milk'), { text => 'inner 2' } ], n => \@said },
	calls => 3, requests => 9, config => $all);
replays('a hook that asks', [ { type => 'custom', name => 'adds', hooks => { before_model => 'adds' } } ],
	{ m => [ asking(asks => 'tea'), $end ], n => \@said }, calls => 2, requests => 5, config => $all);
is($admin->value('SELECT count(*) FROM mw_check()'), 0, 'ledger, records and sums agree');
is($admin->value(q{SELECT count(*) FROM (SELECT 1 FROM mw.ledger WHERE outcome = 'ok' GROUP BY request_id, call, model HAVING count(*) > 1) AS twice}), 0, 'no call was paid twice');

# An id that was made for such a call is nobody's to name
my $inner = $admin->value(q{SELECT request_id FROM mw.ledger WHERE model = 'llm:n' LIMIT 1});
is_error($app->query("SELECT mw_ask('acme', NULL, 'What is tea', model => 'llm:n', request_id => '$inner')"), 'MW501', 'its id cannot be named from outside');

# What nobody knows the end of is sent again where the outer caller says so
$up->reset({ m => [ asking(asks => 'tea'), $end ], n => [ { disconnect => 'mid_body' }, { text => 'known', uses(7, 3) } ] });
$admin->value(q{SELECT mw_create_agent('unknown', '{"model": "llm:m", "tools": ["asks"]}')});
my $unknown = q{SELECT mw_invoke('acme', 'unknown', 'Go', agent => 'unknown', request_id => 'unknown-1', options => '{"resend_unknown": %s}') ->> 'output'};
is_error($app->query(sprintf $unknown, 'false'), 'MW402', 'an answer inside that was lost');
my $lost = $app->query(sprintf $unknown, 'false');
is_error($lost, 'MW502', '... is not asked for again');
is($up->count->{requests}, 2, '... nor the request before it');
is($app->query(sprintf $unknown, 'true')->{rows}[0][0], 'done', '... but where the outer call says so');
is($up->count->{requests}, 4, '... which sends it and goes on');

# Without a request_id around it, or with another one, it is asked anew
$up->reset({ m => [ asking(asks => 'tea'), $end, asking(asks => 'tea'), $end, asking(asks => 'tea'), $end ], n => \@said });
my $fresh = sub { my ($more) = @_; return $app->query("BEGIN; SELECT mw_invoke('acme', 'fresh', 'Go', agent => 'a' || $n$more); ROLLBACK"); };
$fresh->($_) for '', ", request_id => 'fresh-1'", ", request_id => 'fresh-2'";
is($up->count->{requests}, 3 * 5, 'another request_id is another request, inside too');

done_testing();
