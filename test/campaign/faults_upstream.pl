# Every way in which a provider, a network or a name server fails, 200 calls in flight at a time, each kind at
# least once a form and transport.  Each call ends in an answer to its own prompt or in an error of the fixed list, by its
# deadline; what the ledger says of it is what invariant 5 wants; and the same backend's next call works.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use IPC::Run;
use JSON::PP;
use MIME::Base64;
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwTls;
use MwUpstream;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $ca = MwTls->new("$dir/ca");
my $here = 'IP:127.0.0.1,DNS:localhost';
my %cert = map { $_->[0] => [ $ca->certificate(@$_) ] }
  [ 'good', names => $here ], [ 'expired', names => $here, from => -3, to => -1 ], [ 'other', names => 'DNS:api.example.com' ];
my %wrong = map { $_ => MwUpstream->start('--echo', '--cert', $cert{$_}[0], '--certkey', $cert{$_}[1]) } qw(expired other);
$wrong{self} = MwUpstream->start('--echo', '--tls');
my $elsewhere = MwUpstream->start('--echo');
my ($out, $err) = ('', '');
IPC::Run::run([ 'cc', '-shared', '-fPIC', '-o', "$dir/names.so", "$FindBin::RealBin/../lib/names.c", '-ldl' ], '<', \'', '>', \$out, '2>', \$err) or BAIL_OUT($err);

# ---------- the kinds ----------

# name, steps of the provider (then it echoes), how it ends, what the ledger says; on: servers to choose from;
# timeout in seconds.  A step is a hash, or a sub of the nonce that makes one.
my @kinds;
sub kind { my ($name, $steps, $ends, $ledger, %o) = @_; push @kinds, { name => $name, steps => $steps, ends => $ends, ledger => $ledger, on => [qw(plain llm)], timeout => 30, %o }; return; }

my $unknown = qr/^unknown:(-|200):reserved$/;
my $nothing = qr/^failed:-:0( failed:-:0){0,2}$/;
# on a connection that was used before, nothing was sent: it is tried again
my $either = qr/^(failed:-:0 ){0,2}(unknown:-:reserved|ok:200:\d+)$/;

for my $s (408, 409, 429, 500, 502, 503, 504, 520, 529)
{
	kind("status $s, then an answer", [ { status => $s } ], qr/^answer$/, qr/^failed:$s:0 ok:200:\d+$/);
}
kind("status $_ again and again", [ ({ status => $_ }) x 3 ], qr/^MW402$/, qr/^failed:$_:0( failed:$_:0){0,2}$/) for 429, 500;
kind("status $_", [ { status => $_ } ], qr/^MW401$/, qr/^failed:$_:0$/) for 400, 401, 403, 404, 413, 418, 422;
kind('429, Retry-After ' . (ref $_ ? 'a date' : "\"$_\""), [ { status => 429, retry_after => $_ } ], qr/^answer$/, qr/^failed:429:0 ok:200:\d+$/)
  for 0, 1, { in => 1 }, 'soon', '-1', '1e308', 'Sun, 06 Nov 99999 08:49:37 GMT';
kind("429, Retry-After $_", [ { status => 429, retry_after => $_ } ], qr/^MW402$/, qr/^failed:429:0$/) for 3600, '99999999999999999999';
kind('a page of HTML with 502', [ { status => 502, body => '<html><h1>Bad gateway</h1>' . 'x' x 30_000, content_type => 'text/html' } ], qr/^answer$/, qr/^failed:502:0 ok:200:\d+$/);
kind('an error inside a 200: ' . $_->[0], [ { error_in_200 => { message => 'no', code => $_->[1] } } ], $_->[2], $_->[3])
  for [ 429, 429, qr/^answer$/, qr/^failed:429:0 ok:200:\d+$/ ], [ 401, 401, qr/^MW401$/, qr/^failed:401:0$/ ], [ 'an account without credit', 'insufficient_quota', qr/^MW402$/, qr/^failed:429:0$/ ];
for my $to ($elsewhere->base_url . '/chat/completions', 'http://other.invalid/', 'https://127.0.0.1:1/', 'file:///etc/passwd')
{
	my $s = (301, 302, 307, 308)[ @kinds % 4 ];
	kind("redirect $s to " . ($to =~ /^(\w+:..[a-z]*)/)[0], [ { redirect => $to, status => $s } ], qr/^MW401$/, qr/^failed:$s:0$/);
}

# connections
my $own = sub { my ($n, %more) = @_; return { text => "[n:$n] fine", usage => { prompt_tokens => 5, completion_tokens => 2 }, %more } };
sub own { my %more = @_; return sub { return $own->($_[0], %more) } }
kind('reset before any byte', [ { disconnect => \1 } ], qr/^(answer|MW402)$/, $either);
kind('closed before any byte', [ { wire => [''] } ], qr/^(answer|MW402)$/, $either);
kind('reset after the headers', [ own(disconnect => 'after_headers') ], qr/^MW402$/, $unknown);
kind('reset in the body', [ own(cut => -40, cut_end => 'reset') ], qr/^MW402$/, $unknown);
kind('closed in the body', [ own(cut => -40) ], qr/^MW402$/, $unknown);
kind('closed in a chunked body', [ own(cut => -40, chunk_bytes => 50) ], qr/^MW402$/, $unknown);
kind('closed before the last chunk', [ own(cut => -5, chunk_bytes => 50) ], qr/^MW402$/, $unknown);
kind('reset behind the body', [ own(cut => 1_000_000, cut_end => 'reset') ], qr/^(answer|MW402)$/, qr/^(ok:200:7|unknown:200:reserved)$/);
kind('closed behind the body', [ own(cut => 1_000_000) ], qr/^answer$/, qr/^ok:200:7$/);
kind('a failure that is closed in its body', [ { status => 500, cut => -20 } ], qr/^answer$/, qr/^failed:500:0 ok:200:\d+$/);
kind('a fatal alert in the body', [ own(cut => -40, cut_end => 'alert') ], qr/^MW402$/, $unknown, on => ['llm']);
kind('a length that is too large', [ own(content_length => 5000, hangup => \1) ], qr/^MW402$/, $unknown);
kind('a length that is too small', [ own(content_length => 40) ], qr/^MW405$/, qr/^failed:200:counted$/);
kind('a length that is no number', [ own(content_length => 'many') ], qr/^(answer|MW40[245])$/, qr/^(unknown:(-|200):reserved|ok:200:7|failed:200:(7|counted))$/, timeout => 2);
kind('no length', [ own(framing => 'close') ], qr/^answer$/, qr/^ok:200:7$/);
kind('chunks of one byte', [ own(chunk_bytes => 1) ], qr/^answer$/, qr/^ok:200:7$/);
kind('a hundred interim answers', [ own(interim => 100) ], qr/^answer$/, qr/^ok:200:7$/);
kind('another answer behind its own', [ own(spill => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}") ], qr/^answer$/, qr/^ok:200:7$/);
kind('no HTTP', [ { garbage => "\x01\x02SSH-2.0-nonsense\r\n\r\n" } ], qr/^MW402$/, $unknown);
kind('HTTP/0.9', [ { wire => ['{"choices":[]}'] } ], qr/^MW402$/, $unknown);
kind('status 101', [ { wire => [ "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" ], cut_end => 'stay' } ], qr/^MW40[24]$/, $unknown, timeout => 2);
kind('a status of two digits', [ { wire => [ "HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\n{}" ] } ], qr/^MW40[25]$/, qr/^(unknown:-:reserved|failed:-:\w+)$/);
kind('a hostile header', [ own(headers => { 'x-a' => "a\tb" . chr(1), 'set-cookie' => 'a=b; domain=.com', 'content-type' => 'text/html; charset=utf-7', 'alt-svc' => 'h2="127.0.0.1:1"', 'strict-transport-security' => 'max-age=9' }) ], qr/^answer$/, qr/^ok:200:7$/);
kind('both lengths', [ sub { my $b = encode_json(completion($_[0])); return { wire => [ "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" . sprintf("%x\r\n%s\r\n0\r\n\r\n", length $b, $b) ] } } ], qr/^answer$/, qr/^ok:200:7$/);
kind('extensions of chunks, and trailers', [ sub { my $b = encode_json(completion($_[0])); return { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" . sprintf("%x;a=\"b\"\r\n%s\r\n0;c\r\nretry-after: 9\r\nx: y\r\n\r\n", length $b, $b) ] } } ], qr/^answer$/, qr/^ok:200:7$/);
kind('HTTP/1.0', [ sub { return { wire => [ "HTTP/1.0 200 OK\r\n\r\n" . encode_json(completion($_[0])) ] } } ], qr/^answer$/, qr/^ok:200:7$/);

# (The same, late, may come when the next request has been written, and is its answer then: HTTP/1 has no name for
# an answer.  On an idle connection it is noticed: test/t/055_tls.pl.)

# without an end
kind('an infinite body', [ { infinite => \1, framing => 'close' } ], qr/^MW402$/, $unknown);
kind('an infinite chunked body', [ { infinite => \1 } ], qr/^MW402$/, $unknown);
kind('an infinite body, refused since it is compressed', [ { infinite => \1, headers => { 'content-encoding' => 'gzip' } } ], qr/^MW402$/, $unknown);
kind('infinite headers', [ { wire => [ "HTTP/1.1 200 OK\r\n", "x-filler: " . 'y' x 1000 . "\r\n" ], endless => \1 } ], qr/^MW402$/, $unknown);
kind('one header without an end', [ { wire => [ "HTTP/1.1 200 OK\r\nx: ", 'y' x 10_000 ], endless => \1 } ], qr/^MW402$/, $unknown);
kind('infinite interim answers', [ { wire => [ "HTTP/1.1 100 Continue\r\n\r\n" x 10 ], endless => \1 } ], qr/^MW402$/, $unknown);
kind('infinite trailers', [ { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "x-filler: " . 'y' x 1000 . "\r\n" ], endless => \1 } ], qr/^MW402$/, $unknown);
kind('a size of a chunk without an end', [ { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", '0' x 100 ], endless => \1 } ], qr/^MW402$/, $unknown);
kind('an extension of a chunk without an end', [ { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=", 'y' ], endless => \1, pause_ms => 20 } ], qr/^MW404$/, $unknown, timeout => 2);
kind('a head that drips', [ own(head_drip_ms => 200) ], qr/^MW404$/, $unknown, timeout => 2);
kind('a body that drips', [ own(drip_ms => 200) ], qr/^MW404$/, $unknown, timeout => 2);
kind('a body that drips, and stalls', [ own(drip_ms => 200) ], qr/^MW402$/, $unknown, on => ['stalls']);
kind('no answer ever', [ { delay_ms => 60_000 } ], qr/^MW404$/, $unknown, timeout => 2);
kind('headers, and no body ever', [ own(delay_body_ms => 60_000) ], qr/^MW404$/, $unknown, timeout => 2);
kind('half a body, and no more ever', [ own(cut => -40, cut_end => 'stay') ], qr/^MW404$/, $unknown, timeout => 2);
kind('a body over the limit', [ { text => 'x' x 300_000 } ], qr/^MW402$/, $unknown);

# compressed
kind('compressed unasked', [ own(gzip => \1) ], qr/^MW405$/, qr/^failed:200:counted$/);
kind('a bomb', [ { text => 'x' x 3_000_000, gzip => \1 } ], qr/^MW405$/, qr/^failed:200:counted$/);
kind('called compressed, and is not', [ own(headers => { 'content-encoding' => 'gzip' }) ], qr/^MW405$/, qr/^failed:200:counted$/);
kind('a hundred encodings', [ own(headers => { 'content-encoding' => join(', ', ('gzip') x 100) }) ], qr/^MW405$/, qr/^failed:200:counted$/);
kind('a coding of the transfer', [ { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n4\r\n\x1f\x8b\x08\x00\r\n0\r\n\r\n" ] } ], qr/^MW40[25]$/, qr/^(unknown:200:reserved|failed:200:counted)$/);
kind('an unknown coding', [ { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: brainfuck\r\n\r\n4\r\nabcd\r\n0\r\n\r\n" ] } ], qr/^MW40[25]$/, qr/^(unknown:200:reserved|failed:200:counted)$/);

# bodies
sub completion
{
	my ($n, %o) = @_;
	return { id => 'x', object => 'chat.completion', model => 'm', choices => [ { index => 0, finish_reason => 'stop', message => { role => 'assistant', content => "[n:$n] fine" } } ],
		usage => { prompt_tokens => 5, completion_tokens => 2, total_tokens => 7 }, %o };
}
sub whole { my ($n) = @_; return JSON::PP->new->canonical->encode(completion($n)); }
sub bytes { my ($make) = @_; return sub { my $b = $make->($_[0]); return { raw_base64 => encode_base64($b, '') } } }
my $paid = qr/^failed:200:(counted|7)$/;
for my $b (
	[ 'empty' => sub { '' } ], [ 'null' => sub { 'null' } ], [ 'an array' => sub { '[]' } ], [ 'an object of nothing' => sub { '{}' } ],
	[ 'choices null' => sub { '{"choices": null}' } ], [ 'choices of nothing' => sub { '{"choices": [null]}' } ], [ 'an empty choice' => sub { '{"choices": [{}]}' } ],
	[ 'a message of nothing' => sub { '{"choices": [{"message": null}]}' } ],
	[ 'HTML' => sub { '<html>it works</html>' } ], [ 'a picture' => sub { "\x89PNG\r\n\x1a\n\0\0\0\rIHDR" . "\xff" x 100 } ],
	[ 'UTF-16' => sub { "\xff\xfe" . join '', map { "$_\0" } split //, whole($_[0]) } ],
	[ 'two documents' => sub { whole($_[0]) x 2 } ], [ 'a number out of range where it is read' => sub { '{"choices":[{"index":1e999,"message":{"content":1e999}}]}' } ],
	[ 'NaN' => sub { '{"choices":[{"message":{"content":"x"},"logprob":NaN}]}' } ], [ 'a comma too many' => sub { (my $w = whole($_[0])) =~ s/\}$/,}/; $w } ],
	[ 'nesting 100,000 deep' => sub { '[' x 50_000 . ']' x 50_000 . ' ' x 10 } ], [ 'nesting where it is not looked at' => sub { (my $w = whole($_[0])) =~ s/^\{/'{"deep":' . '[' x 50_000 . ']' x 50_000 . ','/e; $w } ],
	[ 'objects 10,000 deep' => sub { '{"a":' x 10_000 . '1' . '}' x 10_000 } ], [ 'NUL inside' => sub { (my $w = whole($_[0])) =~ s/fine/fi\0ne/; $w } ],
	[ 'NUL in front' => sub { "\0" . whole($_[0]) } ], [ 'an escape that is none' => sub { (my $w = whole($_[0])) =~ s/fine/fi\\xne/; $w } ],
	[ 'cut in the middle, and called whole' => sub { substr whole($_[0]), 0, 100 } ], [ 'a tool call that was cut off' => sub { '{"choices":[{"finish_reason":"length","message":{"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]}}]}' } ],
	[ 'a tool call without a name' => sub { '{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[{"id":"1"}]}}]}' } ])
{
	kind("a body that is $b->[0]", [ bytes($b->[1]) ], $b->[0] =~ /NUL/ ? qr/^(MW405|answer)$/ : qr/^MW405$/, $b->[0] =~ /NUL/ ? qr/^(failed:200:(counted|7)|ok:200:7)$/ : $paid);
}
for my $b (
	[ 'a byte order mark' => sub { "\xef\xbb\xbf" . whole($_[0]) } ], [ 'an escaped NUL' => sub { (my $w = whole($_[0])) =~ s/fine/fi\\u0000ne/; $w } ],
	[ 'half a surrogate pair' => sub { (my $w = whole($_[0])) =~ s/fine/\\ud800 \\udc00 \\ud800\\ud800/; $w } ], [ 'a whole pair' => sub { (my $w = whole($_[0])) =~ s/fine/\\ud83d\\ude00/; $w } ],
	[ 'invalid UTF-8' => sub { (my $w = whole($_[0])) =~ s/fine/\xe2\x80 \xc0\x80 \xed\xa0\x80 \xff/; $w } ], [ 'a line break in a string' => sub { (my $w = whole($_[0])) =~ s/fine/fi\nne/; $w }, qr/^(answer|MW405)$/, qr/^(ok:200:7|failed:200:(7|counted))$/ ],
	[ 'integers of 30 digits' => sub { (my $w = whole($_[0])) =~ s/^\{/'{"created":' . '9' x 30 . ',"x":-' . '8' x 300 . ','/e; $w } ], [ 'a number out of range where it is not read' => sub { (my $w = whole($_[0])) =~ s/^\{/{"x":1e999,/; $w } ],
	[ 'a content twice' => sub { (my $w = whole($_[0])) =~ s/"content":/"content":"of another","content":/; $w } ], [ 'parts' => sub { (my $w = whole($_[0])) =~ s/"content":"([^"]*)"/"content":[{"type":"text","text":"$1"},{"type":"text","text":"b"}]/; $w } ],
	[ 'two choices, the first one last' => sub { JSON::PP->new->canonical->encode({ %{ completion($_[0]) }, choices => [ { index => 1, message => { content => 'other' }, finish_reason => 'stop' }, @{ completion($_[0])->{choices} } ] }) } ],
	[ 'Latin-1 by its header' => sub { (my $w = whole($_[0])) =~ s/fine/f\xefne/; $w } ])
{
	kind("an answer with $b->[0]", [ bytes($b->[1]) ], $b->[2] // qr/^answer$/, $b->[3] // qr/^ok:200:7$/);
}
kind("usage: $_->[0]", [ bytes(do { my $u = $_->[1]; sub { (my $w = whole($_[0])) =~ s/,?"usage":\{[^}]*\}/$u/; $w } }) ], qr/^answer$/, qr/^ok:200:counted$/)
  for [ 'missing', '' ], [ 'null', ',"usage":null' ], [ 'an array', ',"usage":[5,2]' ], [ 'negative', ',"usage":{"prompt_tokens":-5,"completion_tokens":2}' ], [ 'beyond 64 bits', ',"usage":{"prompt_tokens":9223372036854775808,"completion_tokens":2}' ],
  [ 'the largest integer', ',"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":2}' ], [ '30 digits', ',"usage":{"prompt_tokens":5,"completion_tokens":' . '9' x 30 . '}' ], [ '1e999', ',"usage":{"prompt_tokens":1e999,"completion_tokens":2}' ],
  [ 'a text', ',"usage":"7"' ], [ 'texts', ',"usage":{"prompt_tokens":"5","completion_tokens":"2"}' ], [ 'fractions', ',"usage":{"prompt_tokens":1.5,"completion_tokens":2.5}' ], [ 'half of it', ',"usage":{"prompt_tokens":5}' ],
  [ 'twice, the last one absurd', ',"usage":{"prompt_tokens":5,"completion_tokens":2},"usage":{"prompt_tokens":-1,"completion_tokens":-1}' ];
kind('100,000 tool calls', [ bytes(sub { '{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[' . join(',', map { qq({"id":"c$_","type":"function","function":{"name":"f","arguments":"{}"}}) } 1 .. 100_000) . ']}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}' }) ],
	qr/^NULL$/, qr/^ok:200:7$/, on => ['big'], most => 4);
kind('50 MB', [ { infinite => \1, drip_ms => 0 } ], qr/^MW402$/, $unknown, on => ['big'], most => 4);

# names, addresses and certificates
kind('nobody listens', [], qr/^MW402$/, $nothing, on => ['refused']);
kind("a name that $_->[1]", [], $_->[2], $_->[3], on => [ $_->[0] ], timeout => $_->[4] // 30)
  for [ 'nothere', 'does not exist', qr/^MW402$/, $nothing ], [ 'servfail', 'its server fails to look up', qr/^MW402$/, $nothing ], [ 'silent', 'its server is silent about', qr/^MW40[24]$/, $nothing, 3 ],
  [ 'slow', 'takes time', qr/^answer$/, qr/^ok:200:\d+$/ ], [ 'refusing', 'has 29 dead addresses', qr/^answer$/, qr/^(failed:-:0 )*ok:200:\d+$/ ], [ 'metadata', 'is that of metadata', qr/^MW402$/, $nothing ];
kind("a certificate that is $_->[1]", [], qr/^MW402$/, $nothing, on => [ $_->[0] ]) for [ 'expired', 'expired' ], [ 'other', 'of another host' ], [ 'self', 'self-signed' ];
# one connection for all of them: where one ends it, what became of the others is open; and libcurl 7.88 now and
# then takes a stream's reset for its end, so that half an answer of no stated length is a complete one that makes no sense,
# or does not see it at all, so that the deadline ends it
kind("HTTP/2: $_->[0]", [ own(h2 => $_->[0]) ], $_->[1], $_->[2], on => ['h2'], timeout => $_->[3] // 30)
  for [ 'goaway_answer', qr/^(answer|MW402)$/, qr/^(failed:-:0 )*(ok:200:\d+|unknown:(-|200):reserved)$/ ], [ 'refused', qr/^(answer|MW402)$/, qr/^(failed:-:0 ?)*(ok:200:\d+|unknown:-:reserved)?$/ ],
  [ 'reset', qr/^(answer|MW402)$/, qr/^(failed:-:0 )*(ok:200:\d+|unknown:-:reserved)$/ ], [ 'reset_body', qr/^(answer|MW40[245])$/, qr/^(failed:-:0 )*(ok:200:\d+|unknown:(-|200):reserved|failed:200:counted)$/ ],
  [ 'no_end', qr/^(answer|MW40[24])$/, qr/^(failed:-:0 )*(ok:200:\d+|unknown:(-|200):reserved)$/, 2 ];

# ---------- the campaign ----------

my $at_once = 200;
my %form = map { $_ => 0 } 0 .. $#kinds;
my $runs = ($ENV{MW_CAMPAIGN} // 'smoke') eq 'full' ? 500 : 1;
my @jobs;    # kind and server, in the order in which they run: the same for a seed
for my $k (@kinds)
{
	my $times = $runs == 1 ? 1 : $k->{most} ? $k->{most} : $runs;
	push @jobs, map { my $on = $_; map { [ $k, $on ] } 1 .. $times } @{ $k->{on} };
}
my $n_rounds = int((@jobs + $at_once - 1) / $at_once);

my $c;
{
	local $ENV{LD_PRELOAD} = "$dir/names.so";
	$c = MwCampaign->new(@kinds . ' faults of providers and networks', rounds => [ $n_rounds, $n_rounds ], every => $runs == 1 ? 1 : 10,
		upstream => [ '--echo', '--cert', @{ $cert{good} }[0], '--certkey', $cert{good}[1], '--h2-too' ],
		server => { ca_file => $ca->file, max_response => 200_000 });
}
my ($node, $up) = ($c->node, $c->up);
my %o = (key => 'sk-campaign', max_response => 200_000, breaker => 'off', retry_reserve => 9999);
$node->server(plain => $up->plain_base_url, %o);
$node->server(stalls => $up->plain_base_url, %o, stall_timeout => '0.5', stall_bytes => 50);
$node->server(big => $up->plain_base_url, %o, max_response => 16 * 1024 * 1024);
$node->server(h2 => $up->h2_base_url, %o, ca_file => $ca->file);
$node->server(refused => 'http://127.0.0.1:1/v1', %o);
(my $port = $up->plain_base_url) =~ s{.*:(\d+)/.*}{$1};
$node->server($_ => "http://$_.mwtest:$port/v1", %o, allow_private => 'true', connect_timeout => 1) for qw(nothere servfail silent slow refusing metadata);
$node->server($_ => $wrong{$_}->base_url, %o, ca_file => $ca->file) for keys %wrong;
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.1}}') FROM mw.tenant});

# every job once, in an order of its own for each seed
{
	srand($c->{seed});
	for my $i (reverse 1 .. $#jobs)
	{
		my $j = int rand($i + 1);
		@jobs[ $i, $j ] = @jobs[ $j, $i ];
	}
}

my @clients;
$c->rounds(sub {
	my ($round) = @_;
	my @batch = grep { defined } @jobs[ ($round - 1) * $at_once .. $round * $at_once - 1 ];
	my (@rules, @todo);
	for my $job (@batch)
	{
		my ($k, $on) = @$job;
		my $id = $c->nonce;
		my $tenant = 't' . (1 + @todo % 3);
		push @rules, map { { match => "[n:$id]", step => ref $_ eq 'CODE' ? $_->($id) : $_, times => 1 } } @{ $k->{steps} };
		push @todo, { kind => $k, on => $on, id => $id, tenant => $tenant };
	}
	$c->script(\@rules);
	@clients = map { $clients[$_] && !$clients[$_]{closed} ? $clients[$_] : $c->client('r' . (1 + $_ % 3)) } 0 .. $#batch;
	my @turn = (0) x @clients;
	my @slow;
	$c->drive(\@clients, sub {
		my ($i) = @_;
		my $t = $todo[$i];
		my $turn = $turn[$i]++;
		return if $turn > 1;
		if ($turn == 1)
		{
			# the same backend, as if nothing had happened
			my $id = $c->nonce;
			return [ $c->ask($t->{tenant}, undef, $id, model => 'plain:m', options => { max_tokens => 64, timeout => 60 }), sub {
				my ($r) = @_;
				my $word = MwClient::word_of($r);
				my $said = $r->{error} ? " ($r->{error}{M}: $r->{error}{D})" : '';
				# HTTP/1 has no name for an answer: what another call's connection spilled late may be taken for the first line of this one's
				return $c->count('began with the rest of another answer') if $word eq 'MW402' && $said =~ /broke off inside its first line/;
				$c->must($word eq $c->prompt($t->{tenant}, $id), "V10: after $t->{kind}{name} the same backend gets $word$said");
				$c->count('calls beside them');
			} ];
		}
		return [ $c->ask($t->{tenant}, undef, $t->{id}, model => "$t->{on}:m", options => { max_tokens => 64, timeout => $t->{kind}{timeout} }), sub {
			my ($r, $seconds) = @_;
			my $word = MwClient::word_of($r);
			$word = 'answer' if !$r->{error} && $word ne 'NULL' && index($word, "[n:$t->{id}]") == 0;
			@$t{qw(word said)} = ($word, $r->{error} ? " ($r->{error}{M}: $r->{error}{D})" : '');
			$c->must(join(' ', map { $_ // '' } @{ $r->{error} // {} }{qw(M D H W)}) !~ /sk-campaign|pii\.example|secretof/, "V6: the error of $t->{kind}{name} shows what it must not");
			push @slow, [ $t, $seconds ] if $seconds > $t->{kind}{timeout} + 0.2;
			$c->count('faults');
			$c->count($word);
		} ];
	});
	# what this machine was too busy for, the mock has felt as well
	my $lag = 4 * $up->count->{lag_ms} / 1000;
	for my $s (@slow)
	{
		my ($t, $seconds) = @$s;
		$c->must($seconds <= $t->{kind}{timeout} + 0.2 + $lag, sprintf '%s on %s ends %.3f s after its deadline (the machine was busy for %.3f)', $t->{kind}{name}, $t->{on}, $seconds - $t->{kind}{timeout}, $lag);
	}
	my %ledger;
	for my $line ($c->admin("SELECT request_id || ' ' || string_agg(outcome || ':' || coalesce(http_status::text, '-') || ':' || CASE
			WHEN outcome = 'unknown' AND billed_tokens = reserved_tokens AND estimated AND billed_requests = 1 THEN 'reserved'
			WHEN estimated AND billed_tokens > 0 THEN 'counted' ELSE billed_tokens::text END, ' ' ORDER BY attempt)
		FROM mw.attempt WHERE request_id IN (" . join(', ', map { "'$_->{id}'" } @todo) . ') GROUP BY request_id'))
	{
		my ($id, $l) = split / /, $line, 2;
		$ledger{$id} = $l;
	}
	for my $t (@todo)
	{
		my $l = $ledger{ $t->{id} } // 'nothing';
		# two hundred handshakes of TLS at once take a while: a short deadline may end in one
		next if $t->{kind}{timeout} <= 3 && $t->{on} =~ /^(llm|h2)$/ && $l =~ $nothing;
		# a kept connection that its provider closed meanwhile costs an attempt which sends nothing
		(my $rest = $l) =~ s/\bfailed:-:0 //g;
		# ... where three of them are all that a call has; and one in which the rest of an earlier answer comes is in doubt
		my $kept = $l =~ /\bfailed:-:0\b/ && $l =~ /^(\S+ ){2}failed:\S+$/ || $t->{said} =~ /broke off inside its first line/ && $l =~ /unknown:-:reserved$/;
		next if $t->{on} =~ /^(plain|llm)$/ && $kept && $t->{word} eq 'MW402';
		$c->must(scalar($t->{word} =~ $t->{kind}{ends}), "V4: $t->{kind}{name} on $t->{on} ends in $t->{word}$t->{said}");
		$c->must(scalar($l =~ $t->{kind}{ledger} || $rest =~ $t->{kind}{ledger}), "V1: $t->{kind}{name} on $t->{on}: the ledger says $l");
	}
	# nothing faulty is kept, neither for the tenant nor for the request_id
	my $kept = $c->admin(q{SELECT count(*) FROM mw.cache AS k WHERE k.body !~ '\[n:' OR NOT EXISTS (
		SELECT FROM mw.attempt AS a WHERE a.tenant = k.tenant AND a.outcome = 'ok' AND a.request_id = substring(k.body FROM '\[n:([^]]+)\]'))});
	$c->must($kept eq '0', "$kept cached answers are faulty");
	for my $w (values %wrong, $elsewhere)
	{
		$c->must($w->count->{requests} == 0, 'a request went where it must not');
	}
	my $gateway = $c->gateway;
	# of 200 faults drawn by lot now more leave a connection open, now fewer
	$c->grown(gateway => $gateway, 2 * $round * $at_once, 16_000);
	return;
});
$c->finish;
