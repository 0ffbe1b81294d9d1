# A peer that nobody here wrote: llama.cpp's own HTTP server with a small real model.  The mock
# accepts what we believe the protocol to be; this one knows better.  Facts of the protocol
# only, never what the model says.  Skipped, visibly, where the package registry refuses.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Cwd qw(abs_path);
use JSON::PP;
use Test::More;
use MwCheck;
use MwClient;
use MwNode;

my $scripts = abs_path("$FindBin::RealBin/../../demo/model");
my $key = 'sk-llama-0123456789';

# as scripts/lib.sh: what is kept between checkouts
my ($cache) = grep { -r "$_/model/.installed" } grep { defined } $ENV{MW_CACHE}, '/var/cache/mw';
$cache //= $ENV{MW_CACHE} // ($ENV{XDG_CACHE_HOME} // "$ENV{HOME}/.cache") . '/mw';
PostgreSQL::Test::Utils::system_log('mkdir', '-p', $cache);

sub run_script
{
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ 'bash', @_ ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	return ($ok, $out, $err);
}

my ($ok, $out, $err) = run_script("$scripts/setup.sh", "$cache/model");
plan skip_all => 'no model server: ' . join(' ', (split /\n/, $err)[-1] // 'setup.sh failed') if !$ok;

my $node = MwNode->new('llama', conf => "mw.gateway_idle = '300s'");
my $run = $node->basedir . '/model';
mkdir $run;
{
	# its output goes to a file: what serves keeps the descriptors that it was given
	local $ENV{MODEL_API_KEY} = $key;
	my $rc = system("bash '$scripts/serve.sh' '$cache/model' '$run' > '$run/url' 2> '$run/err' < /dev/null");
	if ($rc != 0)
	{
		my $why = PostgreSQL::Test::Utils::slurp_file("$run/err");
		$node->stop;
		plan skip_all => "no model server: $why";
	}
}
END { local $?; run_script("$scripts/stop.sh", $run) if $run && -d $run; }
chomp(my $url = PostgreSQL::Test::Utils::slurp_file("$run/url"));

$node->server(llama => $url, key => $key);
$node->server(nokey => $url);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"model": "llama:any"}'), mw_set_budget('acme', 'tokens', 'Infinity', session => 's')});
my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my %small = (model => 'llama:any', options => { temperature => 0, max_tokens => 16 });

sub result
{
	my ($prompt, %o) = @_;
	my $r = $c->query(invoke('acme', $o{session} // 's', $prompt, %small, %{ $o{args} // {} }));
	if ($r->{error}) { diag(join "\n", map { $_ // '' } @{ $r->{error} }{qw(C M D)}); return { status => $r->{error}{C} }; }
	return decode_json($r->{rows}[0][0]);
}

# ---------- an answer and its bill ----------

my $a = result('What is the capital of France?', args => { request_id => 'one' });
is($a->{status}, 'completed', 'an answer');
cmp_ok(length($a->{output} // ''), '>', 0, '... with a text');
cmp_ok($a->{usage}{input_tokens} // 0, '>', 0, '... and its usage: input tokens');
cmp_ok($a->{usage}{output_tokens} // 0, '>', 0, '... and output tokens');
my $row = $admin->query("SELECT outcome, http_status, estimated, billed_tokens = input_tokens + output_tokens, reserved_tokens >= billed_tokens FROM mw.attempt WHERE request_id = 'one'")->{rows}[0];
is("@$row", 'ok 200 f t t', 'the ledger has what the provider says, within the reservation');
my $b = result('What is the capital of France?');
is($b->{cache}, 'hit', 'the same again is a hit');
is($b->{output}, $a->{output}, '... with the same answer');

$a = result('Count from one to one hundred, in words.');
cmp_ok($a->{usage}{output_tokens} // 99, '<=', 16, 'max_tokens is obeyed');
ok(scalar(grep { /max_tokens/ } @{ $a->{notices} // [] }), '... and an answer that it cut off says so');
is($admin->value("SELECT count(*) FROM mw.cache_entries"), '1', '... and is not cached') or diag $a->{output};

# these prompts are for counting; what a guard makes of them is another test's subject
$admin->value(qq{SELECT mw_alter_guard('$_', '{"mode": "log"}')}) for qw(learned context_flood);

# our own count of a prompt is an upper bound of theirs
for my $prompt ('x', 'a b c d e f g h i j k l m n o p q r s t u v w x y z', '1234567890' x 30, "\x{1F600}" x 40, 'antidisestablishmentarianism ' x 40, '{"a": [1, 2, {"b": null}]}' x 20, "\n\n\t" x 30, "\x{4f60}\x{597d}" x 40)
{
	my $o = { options => { temperature => 0, max_tokens => 1, cache => 'off' } };
	my $r = result($prompt, args => $o);
	my $counted = $admin->value(q{SELECT reserved_tokens - 1 FROM mw.attempt ORDER BY started_at DESC LIMIT 1});
	my $shown = join '', map { ord($_) > 32 && ord($_) < 127 ? $_ : sprintf('\\x{%x}', ord($_)) } split //, substr $prompt, 0, 4;
	cmp_ok($counted, '>=', $r->{usage}{input_tokens} // 1e9, "we count no fewer tokens than they: $shown ($counted, $r->{usage}{input_tokens})");
}
is($admin->value("SELECT sum(excess_tokens) FROM mw.spent"), '0', 'nothing was billed above its reservation');

# ---------- what it refuses ----------

my $big = 'tell me more about it ' x 1200;
my $r = $c->query(ask('acme', 's', $big, model => 'llama:any', request_id => 'big', options => { max_tokens => 16 }));
is_error($r, 'MW401', 'a prompt over its context', detail => qr/context/i);
is(ledger($node, "request_id = 'big'"), 'failed', '... one attempt, failed');
is($admin->value("SELECT http_status || ' ' || billed_tokens FROM mw.attempt WHERE request_id = 'big'"), '400 0', '... with its status, and no bill');
$r = $c->query(ask('acme', 's', 'without a key', model => 'nokey:any'));
is_error($r, 'MW401', 'without a key', hint => qr/CREATE USER MAPPING FOR .* SERVER nokey/);
unlike(join(' ', map { $_ // '' } @{ $r->{error} }{qw(M D H)}), qr/sk-llama/, '... and no key in the error');

# ---------- tools, schemas, history ----------

my $tools = [ { type => 'function', function => { name => 'lookup_order', description => 'Status of an order', parameters => { type => 'object', properties => { order_id => { type => 'integer' } }, required => ['order_id'] } } } ];
$a = result('Where is order 4711?', args => { tools => $tools, options => { temperature => 0, max_tokens => 200, tool_choice => 'required' } });
like($a->{status}, qr/^(tool_calls|completed)$/, "tools: the run ends with $a->{status}");
SKIP:
{
	skip 'the model wrote text first', 4 if $a->{status} ne 'tool_calls';
	my $call = $a->{tool_calls}[0];
	is($call->{name}, 'lookup_order', 'tools: a call of the tool that was offered');
	is(ref $call->{args}, 'HASH', '... its arguments are an object');
	ok($call->{id}, '... and it has an id');
	my $history = [ { role => 'user', content => 'Where is order 4711?' }, $a->{messages}[0], { role => 'tool', tool_call_id => $call->{id}, content => '{"status": "shipped"}' } ];
	my $next = result(undef, args => { tools => $tools, messages => $history });
	like($next->{status}, qr/^(completed|tool_calls)$/, '... which can be answered');
}
$a = result('Is this good or bad: I love it.', args => { options => { temperature => 0, max_tokens => 60,
	response_format => { type => 'json_schema', json_schema => { name => 'verdict', schema => { type => 'object', properties => { verdict => { type => 'string', enum => [ 'good', 'bad' ] } }, required => ['verdict'] } } } } });
is($a->{status}, 'completed', 'response_format: an answer');
like(eval { decode_json($a->{output})->{verdict} } // '', qr/^(good|bad)$/, '... in the form that was asked for');
$a = result('And of Italy?', args => { messages => [ { role => 'system', content => 'Be brief.' }, { role => 'user', content => 'What is the capital of France?' }, { role => 'assistant', content => 'Paris.' } ] });
is($a->{status}, 'completed', 'a history with a system message');
$a = result('Mail bob@example.com that his order is late.');
is($a->{status}, 'completed', 'a prompt with placeholders');

# ---------- leaving, and many at once ----------
{
	my $o = { request_id => 'left', options => { temperature => 0, max_tokens => 150, cache => 'off' } };
	$c->send(ask('acme', 's', 'Write a long story about a ship.', model => 'llama:any', %$o));
	ok(eventually(sub { return ledger($node, "request_id = 'left'") eq 'running'; }, 20), 'a long answer is on its way');
	$c->cancel;
	is_error($c->result, '57014', '... its caller leaves');
	ledger_is($node, "request_id = 'left'", 'ok', '... it ends without him', timeout => 60);
	cmp_ok(length($c->value(ask('acme', 's', 'Write a long story about a ship.', model => 'llama:any', %$o))), '>', 0, '... and he gets it later, paid for once');
	is(ledger($node, "request_id = 'left'"), 'ok', '... with one request');

	my @c = map { MwClient->new($node, user => 'app') } 1 .. 6;
	my @r = MwClient->race(\@c, sub { ask('acme', 's', "Name a colour, number $_[0].", model => 'llama:any', options => { max_tokens => 8, cache => 'off' }) });
	is(scalar(grep { !$_->{error} } @r), 6, 'six at once, more than it has slots');
}
money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
