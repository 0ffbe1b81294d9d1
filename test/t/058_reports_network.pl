# What others have met with providers and networks (test/REPORTS.md, N and P), where no other file has it: over a real exchange.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Encode qw(decode);
use JSON::PP;
use MIME::Base64;
use Test::More;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('reports', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url, key => 'sk-reports', breaker => 'off', retry_reserve => 9999);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": false, "retry": {"max_attempts": 3, "base": 0.02, "max": 0.05}}')});
my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my $serial = 0;
my @tool = ({ type => 'function', function => { name => 'f', parameters => { type => 'object' } } });
my $mark = "\xef\xbf\xbd";

sub call
{
	my ($how, $script, %o) = @_;
	$up->reset({ m => $script }) if $script;
	return $c->query($how->('acme', undef, delete $o{prompt} // 'prompt ' . ++$serial, options => { max_tokens => 64 }, %o));
}
sub completion
{
	my ($message, $finish) = @_;
	return qq({"choices":[{"index":0,"finish_reason":") . ($finish // 'stop') . qq(","message":$message}],"usage":{"prompt_tokens":5,"completion_tokens":2}});
}
sub tool_calls
{
	my ($function) = @_;
	my $r = call(\&invoke, [ { raw_base64 => encode_base64(completion(qq({"content":null,"tool_calls":[{"id":"c1","type":"function","function":$function}]}), 'tool_calls'), '') } ], tools => \@tool);
	return $r->{error} ? $r->{error}{C} : decode_json($r->{rows}[0][0]);
}

# ---------- P13, P15, P16: bytes that PostgreSQL does not take ----------

# what a JSON inside the JSON spells is the caller's to judge: it is marked as no arguments, and is what was sent
for my $t (
	[ 'a NUL in an argument', q({"name":"f","arguments":"{\"q\":\"a\u0000b\"}"}), 'q' ],
	[ 'a NUL in an argument, escaped twice', q({"name":"f","arguments":"{\"q\":\"a\\\\u0000b\"}"}), 'q', 1 ],
	[ 'half a pair in an argument', q({"name":"f","arguments":"{\"q\":\"a\\\\ud800b\"}"}), 'q', 1 ],
	[ 'bytes that are no text in an argument', qq({"name":"f","arguments":"{\\"q\\":\\"a\xe2\x80b\\"}"}), 'q' ],
	[ 'a NUL in a key', q({"name":"f","arguments":"{\"q\\\\u0000\":\"a\"}"}), "q\x{fffd}", 1 ])
{
	my ($name, $function, $key, $twice) = @$t;
	my $r = tool_calls($function);
	is(ref $r ? $r->{status} : $r, 'tool_calls', "$name is no reason to lose what was paid for");
	my $call = ref $r ? ($r->{tool_calls}[0] // $r->{messages}[0]{invalid_tool_calls}[0] // {}) : {};
	my $text = JSON::PP->new->canonical->encode($call);
	unlike($text, qr/\\u0000|\x00|\\ud800/i, "... $name: nothing of it is left") if ref $call->{args};
	is(ref $call->{args}, $twice ? '' : 'HASH', "... $name: " . ($twice ? 'marked as it came' : 'arguments'));
	ok(!ref $call->{args} || exists $call->{args}{$key}, "... $name: its keys are there") or diag($text);
}
{
	# a line break inside a string of the arguments: no JSON, and the caller gets what was sent
	my $r = tool_calls(qq({"name":"f","arguments":"{\\"q\\":\\"a\\nb\\"}"}));
	is(ref $r ? $r->{status} : $r, 'tool_calls', 'a line break in an argument');
	is($r->{messages}[0]{invalid_tool_calls}[0]{args}, qq({"q":"a\nb"}), '... is no JSON: it is handed on as it came, and marked so') or diag(explain($r));
}
for my $b ([ 'cut inside a character', "\xe2\x80" ], [ 'overlong', "\xc0\x80" ], [ 'a surrogate as bytes', "\xed\xa0\x80" ], [ 'a stray byte', "\xff" ])
{
	my $r = call(\&ask, [ { raw_base64 => encode_base64(completion(qq({"content":"a$b->[1]z"})), '') } ], request_id => "bytes $b->[0]");
	like(MwClient::word_of($r), qr/^a($mark)+z$/, "text that is $b->[0]");
	is($admin->value("SELECT octet_length(body) > 50 FROM mw.answer WHERE request_id = " . quote("bytes $b->[0]")), 't', '... is stored so that it can be read');
}

# ---------- P11, P17, P01: what an error says, and how often it is asked again ----------

for my $s (520, 521, 522, 524)
{
	my $page = "<!DOCTYPE html><html><head><style>b{}</style></head><body><h1>Error $s</h1>\x{7}\x{1b}[31m" . 'x' x 30_000 . '</body></html>';
	my $r = call(\&ask, [ { status => $s, body => $page, content_type => 'text/html', repeat => 3 } ]);
	is(MwClient::word_of($r), 'MW402', "a page of HTML with $s");
	is($up->count->{requests}, 3, '... is tried again');
	my $said = join ' ', map { $_ // '' } @{ $r->{error} }{qw(M D H)};
	unlike($said, qr/[<>]|[^\x20-\x7e\n]/, '... without markup and control characters');
	cmp_ok(length $said, '<', 1000, '... in short');
}
for my $e ([ 400, 'context_length_exceeded', 'This model has a context of 8192 tokens; you asked for 9000.' ], [ 400, 'max_tokens_per_request', 'Requested 629204 tokens, max 600000 tokens per request' ], [ 413, 'too_large', 'Request too large: 12 MB of 10 MB' ])
{
	my $r = call(\&ask, [ { status => $e->[0], body => { error => { message => $e->[2], code => $e->[1] } }, repeat => 3 } ]);
	is_error($r, 'MW401', $e->[1], detail => qr/\Q$e->[2]\E/);
	is($up->count->{requests}, 1, '... is not asked again unchanged');
}

# ---------- N13, P08: what goes out ----------

{
	my $evil = "m\r\nX-Evil: 1\r\n\r\n";
	for my $o ([ 'the model', model => "llm:$evil" ], [ 'the request_id', request_id => $evil ], [ 'the prompt', prompt => "hello $evil" ], [ 'the session', session => $evil ])
	{
		my ($name, %o) = @$o;
		$up->reset({}, mode => 'echo');
		my $session = delete $o{session};
		my $r = $c->query(ask('acme', $session, delete $o{prompt} // 'hello', %o));
		for my $q (@{ $up->journal })
		{
			is(scalar(grep { $_->[0] =~ /evil/i } @{ $q->{headers} }), 0, "a line break in $name adds no header");
			is($q->{path}, '/v1/chat/completions', "... $name: nor to the path");
			is_deeply($q->{problems}, [], "... $name: and the request is sound");
		}
		ok(!$r->{error} || $r->{error}{C} =~ /^MW/, "... $name: an answer, or an error of ours");
	}
	# a turn that had tool calls alone
	$up->reset({}, mode => 'echo');
	my $r = call(\&ask, undef, prompt => 'and now?', messages => [ { role => 'user', content => 'do it' },
		{ role => 'assistant', content => '', tool_calls => [ { id => 'c1', name => 'f', args => {} } ] }, { role => 'tool', tool_call_id => 'c1', content => 'done' } ], tools => \@tool);
	my $q = $up->journal->[0];
	is_deeply([ $q ? @{ $q->{problems} } : 'no request' ], [], 'empty texts are sent as providers want them') or diag(explain($q->{body}{messages}));
}

money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
