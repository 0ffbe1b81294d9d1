# Risk: a backend that runs agents for weeks grows, by what it keeps of agents, tools and hooks, or by what a run, an error
# or a rollback leaves behind.  Judged by the bytes of its memory contexts and by its descriptors: after some runs to warm
# up, many more leave it as it was (MW_TEST_ROUNDS: how many; bench/run B31 makes ten thousand).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCheck;
use MwClient;
use MwNode;

my $node = MwNode->new('agent_memory', preload => 0);
$node->safe_psql('postgres', q{
	CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
	SELECT mw_create_tenant('acme', '{"model": "double:m", "cache": false}');
	CREATE SCHEMA app;
	CREATE FUNCTION app.due(number integer) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN IF number = 13 THEN RAISE 'no such invoice'; END IF; RETURN 'on the fourth'; END $$;
	CREATE FUNCTION app.one_expression(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT public.mw_next(request) $$;
	CREATE FUNCTION app.statements(request jsonb, runtime jsonb) RETURNS jsonb LANGUAGE sql AS $$ SELECT 1; SELECT public.mw_next(request) $$;
	CREATE FUNCTION app.plpgsql(state jsonb, runtime jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RETURN jsonb_build_object('n', (state ->> 'n')::int + 1); END $$;
	SELECT mw_create_tool('due', 'app.due', tenant => 'acme');
	SELECT mw_create_agent('clerk', '{"tools": ["due"], "state": {"n": {"default": 0}}, "middleware": [
		{"type": "model_retry", "max_retries": 1}, {"type": "tool_call_limit", "run_limit": 5}, {"type": "pii", "pii_type": "email"},
		{"type": "custom", "name": "a", "hooks": {"wrap_model_call": "app.one_expression", "wrap_tool_call": "app.statements"}},
		{"type": "custom", "name": "b", "hooks": {"before_model": "app.plpgsql"}}]}', 'acme');
	CREATE PROCEDURE turns(first int, n int) LANGUAGE plpgsql AS $$
	DECLARE
		result jsonb;
	BEGIN
		FOR i IN first .. first + n - 1 LOOP
			PERFORM mw_fake('double', jsonb_build_object('m', jsonb_build_array(
				jsonb_build_object('tool_calls', jsonb_build_array(jsonb_build_object('id', 'c' || i, 'name', 'due',
					'arguments', jsonb_build_object('number', CASE WHEN i % 50 = 0 THEN 13 ELSE 17 END)))),
				jsonb_build_object('text', 'On the fourth.'))));
			result := mw_invoke('acme', 's' || i / 5, 'When is invoice 17 of maria' || i || '@northwind.example due?', agent => 'clerk',
				options => '{"on_error": "return"}');
			IF result ->> 'status' <> (CASE WHEN i % 50 = 0 THEN 'error' ELSE 'completed' END) THEN
				RAISE 'turn % ends with %', i, result;
			END IF;
			IF i % 10 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
		END LOOP;
	END $$});

my $c = MwClient->new($node);
my $pid = $c->pid;

# Bytes in use, by context; what belongs to the statement that asks is left out
sub contexts
{
	my $r = $c->query(q{SELECT name, sum(used_bytes) FROM pg_backend_memory_contexts
		WHERE name NOT IN ('ExecutorState', 'ExprContext', 'PortalContext', 'PortalHeapMemory', 'MessageContext', 'SRF multi-call context', 'Table function arguments')
		GROUP BY name});
	die $r->{error} ? $r->{error}{M} : 'the server hung up' if $r->{error} || $r->{closed};
	return { map { $_->[0] => $_->[1] } @{ $r->{rows} } };
}
sub descriptors { my $n = () = glob "/proc/$pid/fd/*"; return $n; }

my $turn = 1;
sub turns
{
	my ($n) = @_;
	for (1 .. $n / 50)
	{
		my $r = $c->query("CALL turns($turn, 50)");
		die $r->{error} ? "$r->{error}{C}: $r->{error}{M}" : 'the server hung up' if $r->{error} || $r->{closed};
		$turn += 50;
	}
	return;
}

my $many = 50 * MwCheck::rounds(40);
turns(500);
contexts();
my $warm = contexts();
my $open = descriptors();
turns($many);
my $after = contexts();
my %grown = map { my $d = $after->{$_} - ($warm->{$_} // 0); abs($d) > 8192 ? ($_ => $d) : () } keys %$after;
my ($before, $now) = (0, 0);
$before += $_ for values %$warm;
$now += $_ for values %$after;
diag("$before bytes after 500 runs, $now after $many more");
cmp_ok($now - $before, '<', 32 * 1024, "$many runs leave a backend as it was") or diag(explain(\%grown));
cmp_ok(descriptors(), '<=', $open + 4, 'with the same descriptors');
is($c->value('SELECT count(*) FROM mw.session'), (500 + $many) / 5, 'and they were made');
$node->stop;
done_testing();
