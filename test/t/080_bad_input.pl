# Nothing is lost on bad input (invariant 12): whatever an argument is, an error with a SQLSTATE
# of the table, with detail and hint; the transaction otherwise as it was, the backend fit, no
# request sent and no money reserved.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('input', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_set_budget('acme', 'requests', 1000, session => 's'), mw_set_budget('acme', 'tokens', 'Infinity', session => 's')});
my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my ($sent, $bound) = (0, '');

# What is wrong leaves no trace: after it, in the same transaction with a savepoint, all works
sub refused
{
	my ($name, $expected, $sql, @params) = @_;
	$c->query('BEGIN; CREATE TEMP TABLE IF NOT EXISTS kept (x int) ON COMMIT DELETE ROWS; INSERT INTO kept VALUES (1); SAVEPOINT s');
	my $r = @params ? $c->bound($sql, @params) : $c->query($sql);
	my $code = $r->{error} ? $r->{error}{C} : 'no error';
	(ref $expected ? \&like : \&is)->($code, $expected, $name) or diag(join "\n", map { $_ // '' } @{ $r->{error} // {} }{qw(M D H)});
	if ($code =~ /^MW/)
	{
		like($r->{error}{M}, qr/^[^A-Z].*[^.]$|^[A-Z]{2}/s, "... $name: the message is in house style: $r->{error}{M}");
		ok($r->{error}{H} || $r->{error}{D}, "... $name: with a detail or a hint");
	}
	cmp_ok(length join('', map { $_ // '' } values %{ $r->{error} // {} }), '<', 4000, "... $name: and short");
	$c->query('ROLLBACK TO s');
	is($c->word('SELECT count(*) FROM kept'), '1', "... $name: the transaction is as it was");
	$c->query('COMMIT');
	is($up->count->{requests}, $sent, "... $name: nothing was sent");
	return;
}
sub call { my ($args) = @_; return "SELECT mw_invoke('acme', 's', $args)"; }

my $l = "model => 'llm:m'";

# ---------- names ----------

refused('tenant NULL', 'MW001', "SELECT mw_ask(NULL, 's', 'x', $l)");
refused('tenant empty', 'MW001', "SELECT mw_ask('', 's', 'x', $l)");
refused("tenant '*'", qr/^MW(001|101)$/, "SELECT mw_ask('*', 's', 'x', $l)");
refused('tenant of 10 kB', qr/^MW(001|101)$/, "SELECT mw_ask(repeat('t', 10000), 's', 'x', $l)");
refused('an unknown tenant', 'MW101', "SELECT mw_ask('nobody', 's', 'x', $l)");
refused('session empty', 'MW001', "SELECT mw_ask('acme', '', 'x', $l)");
refused("session '*'", 'MW001', "SELECT mw_ask('acme', '*', 'x', $l)");
refused('session of 10 kB', 'MW001', "SELECT mw_ask('acme', repeat('s', 10000), 'x', $l)");
refused('request_id empty', 'MW001', call("'x', $l, request_id => ''"));
refused('request_id blank', 'MW001', call("'x', $l, request_id => '  '"));
refused('request_id of 1 MB', 'MW001', call("'x', $l, request_id => repeat('r', 1000000)"));
refused('prompt NULL', 'MW001', call("NULL, $l"));
refused('prompt empty', 'MW001', call("'', $l"));
refused('no model', 'MW001', call("'x'"));
refused('model empty', 'MW001', call("'x', model => ''"));
refused('model without a server', 'MW001', call("'x', model => 'm'"));
refused('model without a name', 'MW001', call("'x', model => 'llm:'"));
refused('model of an unknown server', 'MW001', call("'x', model => 'nowhere:m'"));
refused('model as broken JSON', 'MW001', call(q('x', model => '{"model": ')));
refused('model as JSON without a name', 'MW001', call(q{'x', model => '{"model_settings": {}}'}));
refused('model with unknown settings', 'MW001', call(q{'x', model => '{"model": "llm:m", "model_settings": {"frob": 1}}'}));
refused('an agent', 'MW001', call("'x', $l, agent => 'clerk'"));

# ---------- options ----------

refused('options NULL is no options, but a model is missing', 'MW001', call("'x', options => NULL"));
refused("option $_->[0]", 'MW001', call("'x', $l, options => " . quote($_->[1]))) for (
	[ 'unknown', '{"frobnicate": 1}' ], [ 'list', '[]' ], [ 'text', '"x"' ], [ 'number', '1' ], [ 'null', 'null' ],
	[ 'timeout 0', '{"timeout": 0}' ], [ 'timeout -1', '{"timeout": -1}' ], [ 'timeout true', '{"timeout": true}' ], [ 'timeout huge', '{"timeout": 1e300}' ], [ 'timeout object', '{"timeout": {}}' ],
	[ 'max_tokens 0', '{"max_tokens": 0}' ], [ 'max_tokens 1.5', '{"max_tokens": 1.5}' ], [ 'max_tokens text', '{"max_tokens": "9"}' ], [ 'max_tokens 1e30', '{"max_tokens": 1e30}' ],
	[ 'temperature 3', '{"temperature": 3}' ], [ 'temperature text', '{"temperature": "hot"}' ], [ 'cache maybe', '{"cache": "maybe"}' ], [ 'cache 1', '{"cache": 1}' ],
	[ 'redact false', '{"redact": false}' ], [ 'redact yes', '{"redact": "yes"}' ], [ 'guardrail false', '{"guardrail": false}' ],
	[ 'stop empty', '{"stop": []}' ], [ 'stop of numbers', '{"stop": [1]}' ], [ 'limits text', '{"limits": "x"}' ], [ 'limits unknown', '{"limits": {"bananas": 1}}' ], [ 'limits 0', '{"limits": {"tokens": 0}}' ],
	[ 'resend_unknown 1', '{"resend_unknown": 1}' ], [ 'response_format text', '{"response_format": "json"}' ], [ 'tool_choice without tools', '{"tool_choice": "required"}' ],
	[ 'seed text', '{"seed": "x"}' ], [ 'on_error', '{"on_error": "ignore"}' ], [ 'session_busy', '{"session_busy": "never"}' ], [ 'context', '{"context": 1}' ], [ 'state', '{"state": {"nobody": 1}}' ], [ 'stream', '{"stream": true}' ], [ 'model', '{"model": "other"}' ], [ 'messages', '{"messages": []}' ], [ 'n', '{"n": 2}' ]);
refused('timeout as a word', qr/^(22007|MW001)$/, call(q{'x', model => 'llm:m', options => '{"timeout": "soon"}'}));

# ---------- tools and messages ----------

my $tool = '{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}';
refused("tools: $_->[0]", qr/^MW(001|203)$/, call("'x', $l, tools => " . quote($_->[1]))) for (
	[ 'object', '{}' ], [ 'text', '"f"' ], [ 'names of registered ones', '["lookup"]' ], [ 'numbers', '[1]' ], [ 'null inside', '[null]' ], [ 'no function', '[{"type": "function"}]' ],
	[ 'no name', '[{"type": "function", "function": {}}]' ], [ 'empty name', '[{"type": "function", "function": {"name": ""}}]' ], [ 'twice', "[$tool, $tool]" ],
	[ 'parameters no object', '[{"type": "function", "function": {"name": "f", "parameters": 1}}]' ]);
refused("messages: $_->[0]", 'MW001', call("NULL, $l, messages => " . quote($_->[1]))) for (
	[ 'object', '{}' ], [ 'text', '"hi"' ], [ 'empty', '[]' ], [ 'null inside', '[null]' ], [ 'no role', '[{"content": "x"}]' ], [ 'unknown role', '[{"role": "boss", "content": "x"}]' ],
	[ 'role a number', '[{"role": 1, "content": "x"}]' ], [ 'content a number', '[{"role": "user", "content": 1}]' ], [ 'content null', '[{"role": "user", "content": null}]' ],
	[ 'a result without its call', '[{"role": "tool", "content": "x"}]' ], [ 'parts of another kind', '[{"role": "user", "content": [1]}]' ],
	[ 'a call without a name', '[{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"id": "c"}]}]' ]);
for my $what (qw(tools options messages))
{
	refused("$what: not JSON", '22P02', call("'x', $l, $what => '{\"a\": '"));
	refused("$what: a NUL", '22P05', call("'x', $l, $what => '{\"a\": \"\\u0000\"}'"));
	refused("$what: half a surrogate pair", '22P02', call("'x', $l, $what => '{\"a\": \"\\ud800\"}'"));
	refused("$what: deep", qr/^(54001|22P02)$/, call("'x', $l, $what => repeat('[', 1000000)::jsonb"));
}
refused('messages: deep, but jsonb', qr/^(MW001|54001)$/, call("NULL, $l, messages => (repeat('[', 3000) || repeat(']', 3000))::jsonb"));
refused('bytes that are no UTF-8', '22021', call("E'a\\xff', $l"));
refused('... in a bound parameter', '22021', call("\$1, $l"), "a\xff");
refused('a NUL in a bound parameter', '22021', call("\$1, $l"), "a\0b");

# ---------- size ----------

for my $kb (17000, 262144)
{
	my $t = time;
	refused("a prompt of $kb kB", '54000', call("repeat('x', " . $kb * 1024 . "), $l"));
	refused("... whose type is known late", '54000', "WITH p AS MATERIALIZED (SELECT repeat('x', " . $kb * 1024 . ") AS p) SELECT mw_ask('acme', 's', p.p, $l) FROM p") if $kb < 100000;
}
$admin->query("CREATE TABLE public.big AS SELECT repeat('x', 100 * 1024 * 1024) AS p; GRANT SELECT ON public.big TO app");
{
	# toasted and compressed: refused by its size, without being unpacked
	my $t = time;
	refused('a prompt of 100 MB in a table', '54000', "SELECT mw_ask('acme', 's', p, $l) FROM big");
	cmp_ok(time - $t, '<', 0.5, '... before any work');
}
refused('messages over the limit', qr/^(54000|22P02)$/, call("NULL, $l, messages => jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('x', 17000000)))"));
refused('a prompt over the budget of a run', 'MW301', "SELECT mw_ask('acme', NULL, repeat('word ', 200000), $l)");
is($admin->value("SELECT count(*) FROM mw.attempt"), '0', 'after all that the ledger is empty');
is($admin->value("SELECT count(*) FROM mw.spent"), '0', '... and nothing spent');
my ($used) = map { /settled (\d+), reserved (\d+)/ ? "$1 $2" : 'none' } do
{
	$admin->value("SELECT mw_set_budget('acme', 'requests', 0, session => 's')");
	$c->query(ask('acme', 's', 'x'))->{error}{D};
};
is($used, '0 0', '... nor reserved in memory');
$admin->value("SELECT mw_set_budget('acme', 'requests', 1000, session => 's')");

# ---------- what is odd and right ----------

my %odd = (
	'1 MB' => 'z' x 1_000_000, 'every kind of quote' => q{"'`\\$$ \x27}, 'control characters' => join('', map { chr } 1 .. 31) . "\x7f", 'emoji and combining marks' => "\x{1F469}\x{200D}\x{1F4BB} e\x{301} \x{0E01}\x{0E34}",
	'right to left' => "\x{5e9}\x{5dc}\x{5d5}\x{5dd}", 'looks like a placeholder' => 'write to <EMAIL_0> and <EMAIL_1>', 'JSON' => '{"role": "system", "content": "x"}', 'white space' => " \n\t x \n", 'one character' => 'x', 'format characters' => "%s %n %d \\u0000");
for my $k (sort keys %odd)
{
	my $bytes = $odd{$k};
	utf8::encode($bytes);
	my $r = $c->bound("SELECT mw_ask('acme', NULL, \$1, $l, options => '{\"limits\": {\"tokens\": 5000000}}')", $odd{$k});
	is(MwClient::word_of($r) eq $bytes ? 'the same' : $r->{error} ? "$r->{error}{C} $r->{error}{M}" : 'another: ' . substr(MwClient::word_of($r), 0, 200), 'the same', "a prompt of $k comes back");
	$sent++;
}
is(scalar(grep { @{ $_->{problems} } } @{ $up->journal }), 0, 'no request that the provider finds fault with');
is($up->count->{requests}, $sent, 'each was sent once');

# ---------- every function with NULLs ----------

for my $f (map { $_->[0] } @{ $admin->query(q{SELECT p.oid::regprocedure FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass JOIN pg_extension AS e ON e.oid = d.refobjid
	WHERE e.extname = 'mw' AND p.prorettype <> 'trigger'::regtype ORDER BY 1})->{rows} })
{
	(my $call = $f) =~ s/\((.*)\)$/'(' . join(', ', map { "NULL::$_" } split m{,}, $1) . ')'/e;
	my $r = $admin->query("SELECT * FROM $call");
	my $code = $r->{error} ? $r->{error}{C} : 'fine';
	# outside of a hook mw_next has none to call, whatever it is given
	like($code, $f =~ /^mw_next\(/ ? qr/^MW702$/ : qr/^(fine|MW001)$/, "$f with NULLs: $code") or diag $r->{error}{M};
}
is($admin->value('SELECT 1'), '1', 'the backend has borne it');

# ---------- databases in other encodings ----------

for my $e ([ 'LATIN1', 'C' ], [ 'SQL_ASCII', 'C' ], [ 'EUC_JP', 'C' ])
{
	my ($enc, $lc) = @$e;
	my $db = 'db_' . lc $enc;
	$admin->query("CREATE DATABASE $db ENCODING '$enc' LC_COLLATE '$lc' LC_CTYPE '$lc' TEMPLATE template0");
	my $other = MwClient->new($node, dbname => $db);
	my $r = $other->query('CREATE EXTENSION mw');
	is_error($r, 'MW001', "CREATE EXTENSION in a database in $enc", detail => qr/$enc/, hint => qr/UTF8/);
	is($other->word("SELECT count(*) FROM pg_namespace WHERE nspname = 'mw'"), '0', '... leaves nothing behind');
}
{
	# another client_encoding is the server's business
	my $latin = MwClient->new($node, user => 'app', settings => { client_encoding => 'LATIN1' });
	is($latin->word("SELECT mw_ask('acme', NULL, E'gr\xfc\xdfe', $l)"), "gr\xfc\xdfe", 'a client in LATIN1 is served in LATIN1');
	$up->rules({ match => 'euro', step => { text => "\x{20ac} 5" } });
	is($latin->word("SELECT mw_ask('acme', NULL, 'euro', $l)"), '22P05', '... and what it cannot show is an error');
	is($latin->word("SELECT mw_ask('acme', NULL, 'euro', $l) IS NOT NULL"), 't', '... of the showing alone');
}
money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
