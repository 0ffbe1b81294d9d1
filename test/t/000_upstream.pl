# The mock itself: a test that passes since the mock looked away proves nothing.  Raw sockets,
# so that no HTTP client smooths over what is sent.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);
use MwUpstream;

my $up = MwUpstream->start;
my @user = ({ role => 'user', content => 'hi' });

sub sock { return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $up->port, Timeout => 10) // die "connect: $!" }

sub request
{
	my ($body, %o) = @_;
	$body = encode_json($body) if ref $body;
	return join("\r\n", 'POST ' . ($o{path} // '/v1/chat/completions') . ' HTTP/1.1', 'host: x', 'content-type: application/json',
		'content-length: ' . length($body), @{ $o{headers} // [] }, '', $body);
}

# all bytes until the other side closes (the request asks for that), and how it ended
sub talk
{
	my ($body, %o) = @_;
	my $s = sock();
	print $s request($body, %o, headers => [ @{ $o{headers} // [] }, 'connection: close' ]);
	my $all = '';
	my $end = 'close';
	while (1)
	{
		my $n = sysread $s, my $buf, 65536;
		if (!defined $n) { $end = 'reset'; last; }
		last if $n == 0;
		$all .= $buf;
		if ($o{stop_at} && length $all > $o{stop_at}) { $end = 'enough'; last; }
	}
	return ($all, $end);
}

sub status { return $_[0] =~ m{^HTTP/1\.1 (\d+)} ? $1 : "no status in '$_[0]'" }
sub body { return (split /\r\n\r\n/, $_[0], 2)[1] }
sub one { my ($step) = @_; $up->reset({ m => [$step] }); return; }

# ---------- what it refuses ----------
{
	my $call = { id => 'c1', type => 'function', function => { name => 'f', arguments => '{}' } };
	my $asks = { role => 'assistant', content => undef, tool_calls => [$call] };
	my $answer = { role => 'tool', tool_call_id => 'c1', content => 'x' };
	my $tool = { type => 'function', function => { name => 'f', parameters => { type => 'object' } } };
	my %bad = (
		'no messages' => { model => 'm' },
		'empty messages' => { model => 'm', messages => [] },
		'no model' => { messages => \@user },
		'an unknown parameter' => { model => 'm', messages => \@user, frobnicate => 1 },
		'an unknown role' => { model => 'm', messages => [ { role => 'boss', content => 'x' } ] },
		'an empty text' => { model => 'm', messages => [ { role => 'user', content => '' } ] },
		'a null content' => { model => 'm', messages => [ { role => 'user', content => undef } ] },
		'an empty part' => { model => 'm', messages => [ { role => 'user', content => [ { type => 'text', text => '' } ] } ] },
		'a call without its answer' => { model => 'm', messages => [ @user, $asks ] },
		'a call answered too late' => { model => 'm', messages => [ @user, $asks, @user, $answer ] },
		'an answer without a call' => { model => 'm', messages => [ @user, $answer ] },
		'two answers to one call' => { model => 'm', messages => [ @user, $asks, $answer, $answer ] },
		'max_tokens 0' => { model => 'm', messages => \@user, max_tokens => 0 },
		'max_tokens a text' => { model => 'm', messages => \@user, max_tokens => '5' },
		'max_tokens in both spellings' => { model => 'm', messages => \@user, max_tokens => 5, max_completion_tokens => 5 },
		'temperature 3' => { model => 'm', messages => \@user, temperature => 3 },
		'no tools in tools' => { model => 'm', messages => \@user, tools => [] },
		'two tools of one name' => { model => 'm', messages => \@user, tools => [ $tool, $tool ] },
		'a choice without tools' => { model => 'm', messages => \@user, tool_choice => 'auto' },
		'not JSON' => '{"model": "m",',
		'a key twice' => '{"model":"m","model":"m","messages":[{"role":"user","content":"x"}]}',
		'NaN' => '{"model":"m","temperature":NaN,"messages":[{"role":"user","content":"x"}]}',
		'half a surrogate pair' => '{"model":"m","messages":[{"role":"user","content":"\ud800"}]}',
		'invalid UTF-8' => "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}");
	$up->reset({ '*' => [ map { { text => 'yes' } } 1 .. 100 ] });
	for my $why (sort keys %bad)
	{
		my ($all) = talk($bad{$why});
		is(status($all), 400, "refused: $why");
	}
	is(scalar(grep { @{ $_->{problems} } == 1 } @{ $up->journal }), scalar keys %bad, 'the journal names each problem');
	my ($all) = talk({ model => 'm', messages => [ @user, $asks, $answer, @user ], tools => [$tool], tool_choice => 'auto', max_tokens => 9 });
	is(status($all), 200, 'a correct conversation with tools is accepted');

	$up->reset({ m => [ { text => 'yes' } ] }, key => 'sk-1');
	is(status((talk({ model => 'm', messages => \@user }))[0]), 401, 'without the key');
	is(status((talk({ model => 'm', messages => \@user }, headers => [ 'authorization: Bearer sk-1', 'authorization: Bearer sk-1' ]))[0]), 401, 'with two of it');
	is(status((talk({ model => 'm', messages => \@user }, headers => ['authorization: Bearer sk-1']))[0]), 200, 'with it');
}

# ---------- scripts and sessions ----------
{
	my $ask = { model => 'm', messages => \@user };
	$up->reset({ m => [ { text => 'one' }, { text => 'two', repeat => 2 } ] });
	my @texts = map { decode_json(body((talk($ask))[0]))->{choices}[0]{message}{content} } 1 .. 3;
	is("@texts", 'one two two', 'steps in order, repeated');
	my ($all) = talk($ask);
	is(status($all), 500, 'a script that has run out is an error');
	is($up->report->{exhausted}, 1, '... and counted');

	my $s = $up->session('a b');
	$s->reset([ { match => 'secret', step => { status => 400 } }, { match => { regex => '^h' }, step => { text => 'rule' }, times => 1 } ], mode => 'echo');
	@texts = map { decode_json(body((talk($ask, path => '/s/a%20b/v1/chat/completions'))[0]))->{choices}[0]{message}{content} } 1, 2;
	is("@texts", 'rule hi', 'rules by match, then the echo');
	is($up->count->{requests}, 4, 'sessions do not see each other');
	is_deeply(decode_json($s->journal->[0]{raw_body}), $ask, 'every byte is in the journal');

	my $answer = decode_json(body((talk({ %$ask, messages => [ { role => 'user', content => 'x' x 41 } ] }, path => '/s/a%20b/v1/chat/completions'))[0]));
	is_deeply($answer->{usage}, { prompt_tokens => 15, completion_tokens => 11, total_tokens => 26 }, 'derived usage');
}

# ---------- failures ----------
{
	my $ask = { model => 'm', messages => \@user };
	my ($all, $end);

	one({ status => 429, retry_after => 7, retry_after_ms => 1500, should_retry => \0 });
	($all) = talk($ask);
	like($all, qr/^HTTP\/1\.1 429 .*retry-after: 7\r\n.*retry-after-ms: 1500\r\n.*x-should-retry: false\r\n/si, '429 with its headers');
	one({ status => 503, retry_after => { in => 60 } });
	($all) = talk($ask);
	like($all, qr/retry-after: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/i, 'Retry-After as a date');

	one({ disconnect => \1 });
	($all, $end) = talk($ask);
	is("$all$end", 'reset', 'cut before any byte');
	one({ text => 'x', disconnect => 'after_headers' });
	($all, $end) = talk($ask);
	like("$all$end", qr/\r\n\r\nreset$/, 'cut after the headers');
	one({ text => 'x', disconnect => 'mid_body' });
	($all, $end) = talk($ask);
	like("$all$end", qr/\r\n\r\n\{"id".*reset$/, 'cut in the body');
	like($all, qr/content-length: (\d+)/, '... which was announced whole');

	one({ garbage => "\x01not http" });
	($all) = talk($ask);
	is($all, "\x01not http", 'garbage');
	one({ text => 'x', content_length => 5000 });
	($all) = talk($ask);
	like($all, qr/content-length: 5000/, 'a length that is not true');
	one({ infinite => \1 });
	($all, $end) = talk($ask, stop_at => 1_000_000);
	is($end, 'enough', 'a body without an end');
	one({ text => 'x', header_bytes => 60000 });
	($all) = talk($ask);
	like($all, qr/x-long: x{60000}\r\n/, 'a huge header');
	one({ text => 'x', interim => 50 });
	($all) = talk($ask);
	like($all, qr/^(HTTP\/1\.1 100 Continue\r\n\r\n){50}HTTP\/1\.1 200/, 'a flood of interim answers');
	one({ redirect => 'http://127.0.0.1:1/' });
	($all) = talk($ask);
	like($all, qr/^HTTP\/1\.1 302.*location: http:\/\/127\.0\.0\.1:1\/\r\n/s, 'a redirect');
	one({ text => 'x', chunk_bytes => 1 });
	($all) = talk($ask);
	like($all, qr/\r\n\r\n1\r\n\{\r\n1\r\n"\r\n.*0\r\n\r\n$/s, 'chunks of one byte');
	one({ text => 'x', gzip => \1 });
	($all) = talk($ask);
	like($all, qr/content-encoding: gzip\r\n.*\r\n\r\n\x1f\x8b/s, 'gzip');
	one({ raw_base64 => 'AP8=' });
	($all) = talk($ask);
	like($all, qr/\r\n\r\n\x00\xff$/, 'bytes that are no text');

	my $t = time;
	one({ text => 'x', delay_ms => 150, delay_body_ms => 150 });
	talk($ask);
	cmp_ok(time - $t, '>=', 0.3, 'delays before the headers and in the body');
	$t = time;
	one({ raw => 'x' x 20, drip_bytes => 2, drip_ms => 20 });
	talk($ask);
	cmp_ok(time - $t, '>=', 0.2, 'a body that drips');

	# kept connections
	$up->reset({ m => [ { text => 'a' }, { disconnect => 'reused' }, { text => 'b' } ] });
	my $s = sock();
	print $s request($ask);
	sysread $s, my $first, 65536;
	print $s request($ask);
	my $n = sysread $s, my $second, 65536;
	is(defined $n ? "read $n" : 'reset', 'reset', 'a connection that is cut when it is used again');
	($all) = talk($ask);
	like($all, qr/"content":"b"/, '... and a new one is served');
	is($up->journal->[1]{nth_on_connection}, 2, '... the journal tells which is which');

	$up->reset({ m => [ { text => 'a' } ] }, idle_ms => 50);
	$s = sock();
	print $s request($ask);
	sysread $s, $first, 65536;
	is(sysread($s, $second, 10), 0, 'an idle connection is closed without a word');

	# the head alone
	$up->reset({}, on_head => 'abort');
	($all, $end) = talk({ model => 'm', messages => [ { role => 'user', content => 'x' x 1000 } ] });
	is("$all$end", 'reset', 'cut when the head had come');
	$up->reset({});

	# hold, wait, the client that leaves
	one({ text => 'late', hold => \1 });
	$s = sock();
	print $s request($ask);
	ok($up->wait(in_flight => 1, requests => 1), 'a request in flight is seen');
	$up->release;
	sysread $s, $first, 65536;
	like($first, qr/late/, 'a held answer is let go');
	one({ text => 'late', hold => \1 });
	$s = sock();
	print $s request($ask);
	$up->wait(requests => 1);
	close $s;
	ok($up->wait(answered => 1, timeout => 10), 'a client that hangs up ends its request');
	ok($up->journal->[0]{client_gone}, '... which the journal says');

	$up->down(300);
	ok(!IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $up->port, Timeout => 1), 'down: refuses connections');
	my $again;
	for (1 .. 50) { last if $again = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $up->port); select undef, undef, undef, 0.1; }
	ok($again, '... and comes back');
}

my $pid = $up->pid;
$up->stop;
ok(!kill(0, $pid), 'stopped by its number');
done_testing();
