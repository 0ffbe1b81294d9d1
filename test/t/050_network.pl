# Every way in which a provider or a network can fail: the SQLSTATE, what the ledger says, what
# is billed, how often it was sent (invariant 5), that nothing faulty is cached, that a caller
# can leave at any moment (invariant 8), and that equal misses share one request.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64;
use Test::More;
use Time::HiRes qw(time sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $elsewhere = MwUpstream->start;
$elsewhere->reset({}, mode => 'echo');
my $node = MwNode->new('network', conf => "mw.gateway_idle = '300s'");
# failures by the dozen are what this file is about: 210_server_down.pl has the breaker and the limit of retries
my %patient = (breaker => 'off', retry_reserve => 9999);
$node->server(llm => $up->base_url, key => 'sk-network', max_response => 200000, %patient);
$node->server(open => $up->base_url, %patient);
$node->tenant($_, 'app') for qw(acme flight crowd);
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.05}}') FROM mw.tenant});

my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my $serial = 0;

# what the attempts of the last call look like: outcome:status:billing, oldest first
sub attempts
{
	my ($id) = @_;
	return $admin->value("SELECT coalesce(string_agg(outcome || ':' || coalesce(http_status::text, '-') || ':' || CASE
			WHEN outcome = 'unknown' AND billed_tokens = reserved_tokens AND estimated AND billed_requests = 1 THEN 'reserved'
			WHEN estimated THEN 'counted' WHEN billed_tokens = 0 THEN '0' ELSE billed_tokens::text END, ' ' ORDER BY attempt), '')
		FROM mw.attempt WHERE request_id = " . quote($id));
}

# A whole call against a script; then whether anything faulty was kept
#   word      SQLSTATE, or the answer
#   ledger    as attempts() says
#   sent      HTTP requests
sub try_script
{
	my ($name, $script, %e) = @_;
	my $id = 'n' . ++$serial;
	my $prompt = $e{prompt} // "prompt $serial";
	my %o = (request_id => $id, options => { max_tokens => 64, %{ $e{options} // {} } }, model => $e{model} // 'llm:m');
	$up->reset({ m => $script }, %{ $e{upstream} // {} });
	my $t = time;
	my $r = $c->query(ask('acme', undef, $prompt, %o));
	my $took = time - $t;
	my $word = MwClient::word_of($r);
	if (ref $e{word}) { like($word, $e{word}, $name); }
	else { is($word, $e{word}, $name); }
	diag(join "\n", map { "$_: $r->{error}{$_}" } grep { defined $r->{error}{$_} } qw(M D H)) if $r->{error} && (ref $e{word} ? $word !~ $e{word} : $word ne $e{word});
	(ref $e{ledger} ? \&like : \&is)->(attempts($id), $e{ledger}, "... $name: ledger") if defined $e{ledger};
	is($up->count->{requests}, $e{sent}, "... $name: HTTP requests") if defined $e{sent};
	like(($r->{error}{D} // ''), $e{detail}, "... $name: detail") if $e{detail};
	like(($r->{error}{H} // ''), $e{hint}, "... $name: hint") if $e{hint};
	cmp_ok($took, '>=', $e{at_least}, "... $name: not before " . $e{at_least}) if $e{at_least};
	cmp_ok($took, '<', $e{at_most}, "... $name: before " . $e{at_most}) if $e{at_most};
	if ($r->{error})
	{
		like($r->{error}{D} // '', qr/request_id: $id$/, "... $name: the error names the request");
		unlike(join(' ', map { $_ // '' } @{ $r->{error} }{qw(M D H W)}), qr/\Q$prompt\E|sk-network|\n.*\x00/, "... $name: and no prompt, no key");
		$up->reset({ '*' => [ { text => 'good' } ] });
		is($c->word(ask('acme', undef, $prompt, model => $o{model}, options => { %{ $o{options} }, timeout => 20 })), 'good', "... $name: nothing faulty was cached");
	}
	return $r;
}

my $ok = { text => 'fine', usage => { prompt_tokens => 5, completion_tokens => 2 } };

# ---------- status codes ----------

try_script('status 200', [$ok], word => 'fine', ledger => 'ok:200:7', sent => 1);
for my $s (400, 403, 404, 413, 422, 418)
{
	try_script("status $s", [ { status => $s } ], word => 'MW401', ledger => "failed:$s:0", sent => 1);
}
try_script('status 401 with a key', [ { status => 401 } ], word => 'MW401', ledger => 'failed:401:0', sent => 1, hint => qr/ALTER USER MAPPING FOR PUBLIC SERVER llm OPTIONS \(SET api_key /);
try_script('a key is asked for and none is mapped', [$ok], model => 'open:m', upstream => { key => 'sk-other' }, word => 'MW401', ledger => 'failed:401:0', sent => 1,
	hint => qr/CREATE USER MAPPING FOR .* SERVER open OPTIONS \(api_key_file/);
for my $s (408, 409, 429, 500, 502, 503, 504, 520, 529)
{
	try_script("status $s, then an answer", [ { status => $s }, $ok ], word => 'fine', ledger => "failed:$s:0 ok:200:7", sent => 2);
}
for my $s (429, 503)
{
	try_script("status $s, again and again", [ { status => $s, repeat => 9 } ], word => 'MW402', ledger => join(' ', ("failed:$s:0") x 3), sent => 3, detail => qr/attempts 3/);
}
try_script('a failure with usage is billed by it',
	[ { status => 500, body => { error => { message => 'half done' }, usage => { prompt_tokens => 11, completion_tokens => 4, total_tokens => 15 } } }, $ok ],
	word => 'fine', ledger => 'failed:500:15 ok:200:7', sent => 2);
try_script('the message of a provider is in the detail', [ { status => 400, body => { error => { message => 'no such thing as frob', code => 'frob' } } } ], word => 'MW401', detail => qr/no such thing as frob/);
try_script('... a page of HTML, too', [ { status => 403, body => '<html><body>Forbidden by the proxy</body></html>', content_type => 'text/html' } ], word => 'MW401', ledger => 'failed:403:0');
try_script('... a numeric code', [ { status => 400, body => { error => { message => 'context', type => 'exceed_context_size_error', code => 400 } } } ], word => 'MW401', detail => qr/context/);
try_script('... a key that it echoes is taken out', [ { status => 401, body => { error => { message => 'Incorrect API key provided: sk-network.' } } } ], word => 'MW401');
try_script('... and it is bounded', [ { status => 400, body => { error => { message => 'x' x 100_000 } } } ], word => 'MW401', detail => qr/^.{1,2000}$/s);
try_script('x-should-retry: false', [ { status => 500, should_retry => \0 }, $ok ], word => 'MW402', ledger => 'failed:500:0', sent => 1);
try_script('an account without credit', [ { status => 429, body => { error => { message => 'You exceeded your current quota.', code => 'insufficient_quota' } } }, $ok ],
	word => 'MW402', ledger => 'failed:429:0', sent => 1, detail => qr/attempts 1; You exceeded/);

# ---------- how long to wait ----------

try_script('Retry-After: 1', [ { status => 429, retry_after => 1 }, $ok ], word => 'fine', sent => 2, at_least => 1);
try_script('Retry-After: 0', [ { status => 429, retry_after => 0 }, $ok ], word => 'fine', sent => 2, at_most => 5);
try_script('Retry-After as a date', [ { status => 503, retry_after => { in => 2 } }, $ok ], word => 'fine', sent => 2, at_least => 0.9);
try_script('Retry-After as a date in the past', [ { status => 503, retry_after => 'Sun, 06 Nov 1994 08:49:37 GMT' }, $ok ], word => 'fine', sent => 2, at_most => 5);
try_script('Retry-After: nonsense', [ { status => 429, retry_after => 'soon' }, $ok ], word => 'fine', sent => 2, at_most => 5);
try_script('Retry-After: negative', [ { status => 429, retry_after => -5 }, $ok ], word => 'fine', sent => 2, at_most => 5);
try_script('Retry-After: huge', [ { status => 429, retry_after => '99999999999999999999' }, $ok ], word => 'MW402', sent => 1, at_most => 5);
try_script('Retry-After: an hour ends the call at once', [ { status => 429, retry_after => 3600 }, $ok ], word => 'MW402', ledger => 'failed:429:0', sent => 1, at_most => 5, detail => qr/3600/);
try_script('Retry-After beyond the deadline', [ { status => 429, retry_after => 10 }, $ok ], word => qr/^MW40[24]$/, options => { timeout => 2 }, sent => 1, at_most => 5);
try_script('retry-after-ms', [ { status => 429, retry_after_ms => 400 }, $ok ], word => 'fine', sent => 2, at_least => 0.4);

# ---------- connections that break ----------

# a connection of its own for each of these: a reused one that dies unused is another case
sub fresh_connection
{
	$up->reset({ m => [ { text => 'x', close => \1 } ] });
	$c->query(ask('acme', undef, 'closes ' . ++$serial, options => { cache => 'off' }));
	return;
}
fresh_connection();
try_script('cut before any byte', [ { disconnect => \1 }, $ok ], word => 'MW402', ledger => 'unknown:-:reserved', sent => 1, detail => qr/outcome unknown/);
try_script('cut after the headers', [ { text => 'x', disconnect => 'after_headers' }, $ok ], word => 'MW402', ledger => 'unknown:200:reserved', sent => 1, detail => qr/outcome unknown/);
try_script('cut inside the body', [ { text => 'x', disconnect => 'mid_body' }, $ok ], word => 'MW402', ledger => 'unknown:200:reserved', sent => 1, detail => qr/outcome unknown/);
try_script('a failure cut inside its body is a failure', [ { status => 500, disconnect => 'mid_body' }, $ok ], word => 'fine', ledger => 'failed:500:0 ok:200:7', sent => 2);
try_script('warming a connection', [$ok], word => 'fine');
{
	# as many connections as calls at once; then all of them have died, as after a restart of the provider
	my @at_once = map { MwClient->new($node, user => 'app') } 1 .. 4;
	$up->reset({ m => [ { %$ok, delay_ms => 300, repeat => 4 } ] });
	MwClient->race(\@at_once, sub { ask('acme', undef, "at once $_[0]", options => { cache => 'off' }) });
	cmp_ok($up->count->{open}, '>=', 4, 'four connections are kept');
	$up->reset([ { match => 'of all', step => { disconnect => 'reused' }, times => 4 }, { match => 'of all', step => $ok } ]);
	is($c->word(ask('acme', undef, 'of all', request_id => 'of all', options => { cache => 'off' })), 'fine', 'of many kept connections that have died a call meets one');
	is(attempts('of all'), 'failed:-:0 ok:200:7', '... says its ledger');
}
try_script('a reused connection that dies unused was not sent', [ { disconnect => 'reused' }, $ok ], word => 'fine', ledger => 'failed:-:0 ok:200:7', sent => 2);
try_script('a connection that the server closed meanwhile', [$ok], upstream => { idle_ms => 30 }, word => 'fine');
sleep 0.2;
try_script('... is replaced', [$ok], word => 'fine', ledger => qr/^(failed:-:0 )?ok:200:7$/);
try_script('an announced length that never comes, and the connection closes', [ { %$ok, content_length => 5000, hangup => \1 } ], word => 'MW402', ledger => 'unknown:200:reserved', sent => 1);
try_script('a length that is too small', [ { %$ok, content_length => 40 } ], word => 'MW405', ledger => 'failed:200:counted', sent => 1);
try_script('... does not spill into the next answer', [ { text => 'its own', usage => { prompt_tokens => 5, completion_tokens => 2 } } ], word => 'its own');
try_script('no length: the end of the connection ends the body', [ { %$ok, framing => 'close' } ], word => 'fine', ledger => 'ok:200:7', sent => 1);
try_script('chunks of one byte', [ { %$ok, chunk_bytes => 1 } ], word => 'fine', ledger => 'ok:200:7', sent => 1);
try_script('a head that drips', [ { %$ok, head_drip_ms => 2 } ], word => 'fine', ledger => 'ok:200:7', sent => 1);
try_script('a hundred interim answers', [ { %$ok, interim => 100 } ], word => 'fine', ledger => 'ok:200:7', sent => 1);
fresh_connection();
try_script('garbage instead of HTTP', [ { garbage => "\x01\x02SSH-2.0-nonsense\r\n\r\n" }, $ok ], word => 'MW402', ledger => 'unknown:-:reserved', sent => 1);
try_script('a body without an end', [ { infinite => \1 } ], word => 'MW402', ledger => 'unknown:200:reserved', sent => 1, detail => qr/outcome unknown/);
try_script('a body over max_response', [ { text => 'x' x 300_000 } ], word => 'MW402', ledger => 'unknown:200:reserved', sent => 1, detail => qr/200000 bytes/);
try_script('a huge header', [ { %$ok, header_bytes => 200_000 } ], word => 'MW402', ledger => qr/^unknown:/, sent => 1);
{
	my ($big, $other) = ('y' x 6_000_000, 'z' x 6_000_000);
	try_script('cut while the request is written', [$ok], prompt => $big, options => { timeout => 10, limits => { tokens => 9_000_000 } }, upstream => { on_head => 'abort' },
		word => 'MW402', ledger => 'failed:-:0 failed:-:0 failed:-:0', detail => qr/Nothing was sent/);
	try_script('a request that is never read', [$ok], prompt => $other, options => { timeout => 0.7, limits => { tokens => 9_000_000 } }, upstream => { on_head => 'stall' },
		word => 'MW404', ledger => 'failed:-:0', detail => qr/Nothing was sent/);
}

# ---------- nobody there ----------

$node->server(refused => 'http://127.0.0.1:1/v1');
my $tls = MwUpstream->start('--tls', '--echo');
$node->server(tls => $tls->base_url);
$node->server(tlsca => $tls->base_url, ca_file => $tls->ca);
for my $server (qw(refused tls))
{
	my $id = "none $server";
	my $r = $c->query(ask('acme', undef, 'nobody', model => "$server:m", request_id => $id));
	is_error($r, 'MW402', "server $server", detail => qr/Nothing was sent.*[^.]\. Attempts are used up\.$/m, hint => qr/ALTER SERVER $server OPTIONS \(SET base_url/);
	is(attempts($id), 'failed:-:0 failed:-:0 failed:-:0', "server $server: three attempts, nothing billed");
}
is($c->word(ask('acme', undef, 'with its CA', model => 'tlsca:m')), 'with its CA', 'with its CA it is called');

$node->server(named => 'http://localhost:1/v1');
is_error($c->query(ask('acme', undef, 'a private address', model => 'named:m')), 'MW402', 'a name of a private address', detail => qr/allow_private/,
	hint => qr/ALTER SERVER named OPTIONS \(ADD allow_private 'true'\);/);

$node->server(nokey => $up->base_url, key => 'sk-network');
for my $file ('/nowhere/key', '/', '/dev/null')
{
	$node->safe_psql('postgres', "DROP USER MAPPING FOR PUBLIC SERVER nokey; CREATE USER MAPPING FOR PUBLIC SERVER nokey OPTIONS (api_key_file '$file')");
	is_error($c->query(ask('acme', undef, 'no key', model => 'nokey:m')), 'MW001', "a key file that is none: $file", detail => qr/^The key file of the user mapping .*\.$/m,
		hint => qr/readable by the user.* ALTER USER MAPPING FOR PUBLIC SERVER nokey OPTIONS \(SET api_key_file/);
}
{
	$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 3, "base": 1.5, "max": 2}}')});
	$up->reset({}, mode => 'echo');
	my $words = '';
	# a jitter may choose no wait at all: three tries
	for (1 .. 5)
	{
		$up->down(150);
		$words = $c->word(ask('acme', undef, "down $_", model => 'llm:m'));
		sleep 0.3;
		last if $words eq "down $_";
	}
	like($words, qr/^down \d$/, 'a server that is down for a moment');
	$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.05}}')});
}

# ---------- redirects ----------

for my $s (301, 302, 303, 307, 308)
{
	try_script("redirect $s", [ { redirect => $elsewhere->base_url . '/chat/completions', status => $s }, $ok ], word => 'MW401', ledger => "failed:$s:0", sent => 1);
}
is($elsewhere->count->{requests}, 0, 'redirects are never followed');

# ---------- answers that cannot be used: paid for, not sent again ----------

my $whole = encode_json({ id => 'x', object => 'chat.completion', model => 'm',
	choices => [ { index => 0, finish_reason => 'stop', message => { role => 'assistant', content => 'fine' } } ], usage => { prompt_tokens => 5, completion_tokens => 2, total_tokens => 7 } });
for my $bad (
	[ 'an empty body', '' ],
	[ 'null', 'null' ],
	[ 'an array', '[]' ],
	[ 'an object of nothing', '{}' ],
	[ 'no choices', '{"choices": []}' ],
	[ 'choices of another kind', '{"choices": {"message": 1}}' ],
	[ 'HTML', '<html>it works</html>' ],
	[ 'a number out of range', '{"choices":[{"message":{"content":1e999}}]}' ],
	[ 'NaN', '{"choices":[{"message":{"content":"x"},"logprob":NaN}]}' ],
	[ 'two documents', "$whole$whole" ],
	[ 'deep nesting', '[' x 100_000 ],
	[ 'deep objects', '{"a":' x 30_000 ],
	[ 'content of another kind', '{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":{"a":1}}}]}' ],
	(map { [ "cut after $_ bytes", substr($whole, 0, $_) ] } 1, 17, 60, 111, length($whole) - 1))
{
	try_script("an answer that cannot be used: $bad->[0]", [ { raw => $bad->[1] }, $ok ], word => 'MW405', ledger => qr/^failed:200:(counted|7)$/, sent => 1);
}
try_script('compressed without being asked', [ { %$ok, gzip => \1 }, $ok ], word => 'MW405', ledger => qr/^failed:200:/, sent => 1);
try_script('status 204', [ { status => 204, body => '' }, $ok ], word => 'MW405', ledger => qr/^failed:204:/, sent => 1);
# ... and those that only look odd
try_script('a byte order mark', [ { raw_base64 => encode_base64("\xef\xbb\xbf$whole", '') } ], word => 'fine', ledger => 'ok:200:7', sent => 1);
{
	(my $nul = $whole) =~ s/fine/fi\\u0000ne/;
	try_script('an escaped NUL in the text', [ { raw => $nul } ], word => "fi\xef\xbf\xbdne", ledger => 'ok:200:7', sent => 1);
	(my $half = $whole) =~ s/fine/fi\\ud800ne/;
	try_script('half a surrogate pair', [ { raw => $half } ], word => "fi\xef\xbf\xbdne", ledger => 'ok:200:7', sent => 1);
	(my $latin = $whole) =~ s/fine/f\xefne/;
	try_script('a byte that is not UTF-8', [ { raw_base64 => encode_base64($latin, '') } ], word => "f\xef\xbf\xbdne", ledger => 'ok:200:7', sent => 1);
	(my $twice = $whole) =~ s/"content":"fine"/"content":"no","content":"fine"/;
	try_script('a key twice', [ { raw => $twice } ], word => 'fine', sent => 1);
}
try_script('an error inside a 200', [ { error_in_200 => { message => 'the model is overloaded', type => 'server_error', code => 503 } }, $ok ], word => qr/^(fine|MW405)$/);
for my $u ([ 'missing', undef ], [ 'negative', { prompt_tokens => -5, completion_tokens => 2 } ], [ 'a text', 'many' ], [ 'texts', { prompt_tokens => '5', completion_tokens => 'two' } ],
	[ 'beyond 64 bits', { prompt_tokens => 1e30, completion_tokens => 1 } ], [ 'fractions', { prompt_tokens => 1.5, completion_tokens => 2.5 } ])
{
	try_script("usage: $u->[0]", [ { text => 'fine', usage => $u->[1] } ], word => 'fine', ledger => 'ok:200:counted', sent => 1);
}

# ---------- deadlines ----------

for my $slow (
	[ 'before the headers', { text => 'x', delay_ms => 8000 } ],
	[ 'between headers and body', { text => 'x', delay_body_ms => 8000 } ],
	[ 'a body that drips', { text => 'x' x 500, drip_ms => 100 } ],
	[ 'a body that does not end', { %$ok, framing => 'open' } ],
	[ 'a length that never comes', { %$ok, content_length => 5000 } ])
{
	# the best of three: this machine may be busy
	my $best = 9;
	for my $n (1 .. 3)
	{
		my $id = "slow $slow->[0] $n";
		$up->reset({ m => [ $slow->[1], $slow->[1] ] });
		my $t = time;
		is_error($c->query(ask('acme', undef, $id, request_id => $id, options => { timeout => 0.5, max_tokens => 64 })), 'MW404', "deadline: $slow->[0]", detail => qr/outcome unknown/);
		my $took = time - $t - 0.5;
		$best = $took if $took < $best;
		is($up->count->{requests}, 1, "deadline: $slow->[0]: sent once");
		like(attempts($id), qr/^unknown:(200|-):reserved$/, "deadline: $slow->[0]: unknown");
		last if $best < 0.2;
	}
	cmp_ok($best, '<', 0.2, "deadline: $slow->[0]: within 200 ms after it");
}
{
	# one deadline for all attempts
	$up->reset({ m => [ { status => 503, delay_ms => 400, repeat => 9 } ] });
	my $t = time;
	my $r = $c->query(ask('acme', undef, 'one deadline', options => { timeout => 1 }));
	like(MwClient::word_of($r), qr/^MW40[24]$/, 'retries share one deadline');
	cmp_ok(time - $t, '<', 1.6, '... which holds');
}

# ---------- a caller that leaves, in each phase ----------

# connections to it hang: the queue of a listener that accepts nobody is full
my $full = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "listen: $!";
my @fill;
for (1 .. 8)
{
	my $s = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0) or last;
	connect $s, Socket::pack_sockaddr_in($full->sockport, Socket::inet_aton('127.0.0.1'));
	push @fill, $s;
}
$node->server(hangs => 'http://127.0.0.1:' . $full->sockport . '/v1');

my $blocker = MwClient->new($node, user => 'app');
for my $phase (
	[ 'connecting', 'hangs:m', undef ],
	[ 'waiting for the headers', 'llm:m', { text => 'x', hold => \1, repeat => 99 } ],
	[ 'while the body drips', 'llm:m', { text => 'x' x 500, drip_ms => 50, repeat => 99 } ],
	[ 'waiting to retry', 'llm:m', { status => 429, retry_after => 30, repeat => 99 } ],
	[ 'waiting for another transaction', 'llm:m', { text => 'x', repeat => 99 } ],
	[ 'waiting for an equal miss', 'llm:m', { text => 'x', hold => \1, repeat => 99 } ])
{
	my ($name, $model, $step) = @$phase;
	my $best = 9;
	for my $n (1 .. 5)
	{
		$up->reset({ m => [ $step // $ok ] });
		my %o = (model => $model, request_id => "leave $name $n", options => { cache => 'off' });
		if ($name =~ /another transaction/)
		{
			$blocker->query('BEGIN');
			$blocker->value(ask('acme', undef, "leave $name $n", %o));
		}
		if ($name =~ /equal miss/)
		{
			%o = (model => $model);
			$blocker->send(ask('acme', undef, "leave $name $n", %o));
			$up->wait(requests => 1);
		}
		$c->send(ask('acme', undef, "leave $name $n", %o));
		$name =~ /connecting|another|equal/ ? sleep 0.2 : $up->wait(requests => 1);
		sleep 0.1 if $name =~ /drips|retry/;
		my $t = time;
		$c->cancel;
		my $r = $c->result;
		my $took = time - $t;
		is_error($r, '57014', "cancel $name");
		$best = $took if $took < $best;
		$up->release;
		$blocker->result if $name =~ /equal miss/;
		$blocker->query('ROLLBACK') if $name =~ /another/;
		last if $best < 0.1;
	}
	cmp_ok($best, '<', 0.1, "cancel $name: within 100 ms");

	$up->reset({ m => [ $step // $ok ] });
	my %o = (model => $model, request_id => "timeout $name", options => { cache => 'off' });
	if ($name =~ /another transaction/)
	{
		$blocker->query('BEGIN');
		$blocker->value(ask('acme', undef, "timeout $name", %o));
	}
	if ($name =~ /equal miss/)
	{
		%o = (model => $model);
		$blocker->send(ask('acme', undef, "timeout $name", %o));
		$up->wait(requests => 1);
	}
	$c->query('SET statement_timeout = 300');
	my $t = time;
	is_error($c->query(ask('acme', undef, "timeout $name", %o)), '57014', "statement_timeout $name");
	cmp_ok(time - $t, '<', 1.5, "statement_timeout $name: in time");
	$c->query('RESET statement_timeout');
	$up->release;
	$blocker->result if $name =~ /equal miss/;
	$blocker->query('ROLLBACK') if $name =~ /another/;
	$up->reset({ '*' => [ { text => 'goes on' } ] });
	is($c->word(ask('acme', undef, "after $name")), 'goes on', "... and the same backend goes on");
}
$_->close for @fill;
$full->close;
ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0'; }, 70), 'what they left behind ends');

# ---------- equal misses share one request ----------

my @eight = map { MwClient->new($node, user => 'app') } 1 .. 8;
sub shared
{
	my ($name, $tenant, %e) = @_;
	my $text = 'shared ' . ++$serial;
	$up->reset({ m => $e{script}->($text) });
	# the leader first, so that there is one whatever the machine does
	$eight[0]->send(invoke($tenant, undef, $text));
	$up->wait(requests => 1);
	$eight[$_]->send(invoke($tenant, undef, $text)) for 1 .. 7;
	eventually(sub { return $admin->value("SELECT count(*) FROM mw.queue WHERE tenant = '$tenant'") eq '8'; }, 20);
	$e{meanwhile}->($eight[0]) if $e{meanwhile};
	$up->release;
	my (%words, %cache);
	for my $r (map { $_->result } @eight)
	{
		my $w = MwClient::word_of($r);
		my $j = $w =~ /^\{/ ? decode_json($w) : undef;
		$words{ $j ? $j->{output} eq $text ? 'right' : $j->{output} : $w }++;
		$cache{ $j->{cache} }++ if $j;
	}
	is(join(' ', map { "$_=$words{$_}" } sort keys %words), $e{words}, "$name: answers");
	is(join(' ', map { "$_=$cache{$_}" } sort keys %cache), $e{cache}, "$name: cache") if defined $e{cache};
	is($up->count->{requests}, $e{sent}, "$name: HTTP requests");
	return;
}
# few enough that each hit is booked alone
$admin->value("SELECT mw_set_budget('flight', 'requests', 60)");
shared('eight equal misses', 'flight', script => sub { [ { text => $_[0], hold => \1 } ] }, words => 'right=8', cache => 'miss=1 shared=7', sent => 1);
is($admin->value("SELECT count(*) FROM mw.attempt WHERE tenant = 'flight' AND purpose <> 'hits' AND billed_tokens > 0"), '1', '... one is billed');
is($admin->value("SELECT settled || ' ' || reserved FROM mw.budget_status WHERE tenant = 'flight' AND unit = 'requests'"), '8 0', '... and each counts as a request');
$admin->value("SELECT mw_set_budget('flight', 'requests', 'Infinity')");
shared('the leader leaves', 'flight', script => sub { [ { text => $_[0], hold => \1 } ] }, words => '57014=1 right=7', cache => 'shared=7', sent => 1,
	meanwhile => sub { $_[0]->cancel; sleep 0.2; });
shared('the shared request fails and is retried', 'flight', script => sub { [ { status => 500, hold => \1 }, { text => $_[0] } ] }, words => 'right=8', sent => 2);
shared('the shared request is refused', 'flight', script => sub { [ { status => 400, hold => \1 }, { text => 'late', repeat => 9 } ] }, words => 'MW401=8', sent => 1);
shared('the shared answer is cut off', 'crowd', script => sub { [ { text => 'x', hold => \1, disconnect => 'mid_body' }, { text => $_[0], repeat => 9 } ] }, words => 'MW402=1 right=7', sent => 2);
shared('an answer that is not cacheable is its own caller\'s', 'crowd', script => sub { [ { text => $_[0], hold => \1, finish_reason => 'length' }, { text => $_[0], finish_reason => 'length', repeat => 9 } ] }, words => 'right=8', sent => 8);
{
	# who left before its own request was needed sends none
	my $text = 'left ' . ++$serial;
	$up->reset({ m => [ { text => 'x', hold => \1, disconnect => 'mid_body' }, { text => $text, repeat => 9 } ] });
	$eight[0]->send(ask('crowd', undef, $text));
	$up->wait(requests => 1);
	$eight[1]->send(ask('crowd', undef, $text));
	eventually(sub { return $admin->value("SELECT count(*) FROM mw.queue WHERE tenant = 'crowd' AND state = 'in flight'") eq '2'; }, 20);
	$eight[1]->cancel;
	is(MwClient::word_of($eight[1]->result), '57014', 'a follower leaves');
	$up->release;
	is(MwClient::word_of($eight[0]->result), 'MW402', '... its leader\'s answer is cut off');
	ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0'; }, 20), '... and nothing is left');
	is($up->count->{requests}, 1, '... nothing is sent for who left');

	# a storm: the first answers come before the last have looked
	my @storm = map { MwClient->new($node, user => 'app') } 1 .. 48;
	for my $round (1 .. rounds(10))
	{
		$up->reset({ m => [ { text => "storm $round", repeat => 99 } ] });
		my %w;
		$w{ MwClient::word_of($_) }++ for MwClient->race(\@storm, sub { ask('crowd', undef, "storm $round $serial") });
		is(join(' ', %w), "storm $round 48", "round $round: 48 equal misses at once");
		is($up->count->{requests}, 1, "round $round: one HTTP request");
	}
}
{
	# another tenant, or who asked for a fresh one, is not served by it
	my $text = 'apart ' . ++$serial;
	$up->reset({ m => [ { text => $text, hold => \1, repeat => 9 } ] });
	$eight[0]->send(ask('flight', undef, $text));
	$up->wait(requests => 1);
	$eight[1]->send(ask('crowd', undef, $text));
	$eight[2]->send(ask('flight', undef, $text, options => { cache => 'refresh' }));
	$eight[3]->send(ask('flight', undef, $text, options => { cache => 'off' }));
	$eight[4]->send(ask('flight', undef, $text, options => { temperature => 1 }));
	ok($up->wait(requests => 5, timeout => 10), 'another tenant, refresh, off and another parameter send their own');
	$up->release;
	$eight[$_]->result for 0 .. 4;
}

money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
