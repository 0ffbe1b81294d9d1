# What a provider sends costs the gateway at most twice max_response, whatever it is: bodies and heads without an
# end, bombs, nesting; and nothing of it stays.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use MIME::Base64;
use IO::Compress::Gzip qw(gzip);
use Test::More;
use Time::HiRes qw(sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $limit = 48 * 1024 * 1024;
my $up = MwUpstream->start;
my $node = MwNode->new('memory', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url, max_response => $limit, breaker => 'off', retry_reserve => 9999);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": false}'); SELECT mw_set_budget('acme', 'tokens', 'Infinity')});
my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);

sub status
{
	my ($pid, $what) = @_;
	open my $f, '<', "/proc/$pid/status" or return 0;
	my ($kb) = join('', <$f>) =~ /^$what:\s+(\d+) kB/m;
	return $kb / 1024;
}
sub forget_peak { my ($pid) = @_; open my $f, '>', "/proc/$pid/clear_refs" or return 0; return print $f '5'; }

$up->reset({ m => [ { text => 'warm', repeat => 3 } ] });
$c->value(ask('acme', undef, 'warm')) for 1 .. 3;
my $gateway = $admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'});
my $backend = $c->pid;

my $zeros = "\0" x (200 * 1024 * 1024);
gzip(\$zeros, \my $bomb);
undef $zeros;
my $transfer = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n" . sprintf("%x\r\n%s\r\n0\r\n\r\n", length $bomb, $bomb);
my $fit = 40 * 1024 * 1024;
my $first = '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"';

for my $f (
	[ 'an infinite body', { infinite => \1 }, 'MW402' ],
	[ 'an infinite body without chunks', { infinite => \1, framing => 'close' }, 'MW402' ],
	[ 'an infinite body that is refused as compressed', { infinite => \1, headers => { 'content-encoding' => 'gzip' } }, 'MW402' ],
	[ 'a bomb', { raw_base64 => encode_base64($bomb, ''), headers => { 'content-encoding' => 'gzip' } }, 'MW405' ],
	[ 'a bomb by the coding of the transfer', { wire => [$transfer] }, 'MW40[25]' ],
	[ 'infinite headers', { wire => [ "HTTP/1.1 200 OK\r\n", 'x: ' . 'y' x 10_000 . "\r\n" ], endless => \1 }, 'MW402' ],
	[ 'an infinite header', { wire => [ "HTTP/1.1 200 OK\r\nx: ", 'y' x 100_000 ], endless => \1 }, 'MW402' ],
	[ 'infinite trailers', { wire => [ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", 'x: ' . 'y' x 10_000 . "\r\n" ], endless => \1 }, 'MW402' ],
	[ 'a body just over the limit', { raw => '%', fill => [ 'x', $limit + 1 ] }, 'MW402' ],
	[ 'nesting of arrays', { raw => '%', fill => [ '[', $fit ] }, 'MW405' ],
	[ 'nesting of objects', { raw => '%', fill => [ '{"a":', $fit / 5 ] }, 'MW405' ],
	[ 'many keys', { raw => '{%"b":1}', fill => [ '"a":1,', int($fit / 12) ] }, 'MW405' ],
	[ 'bytes that are no text', { raw_base64 => encode_base64("\xff" x 1_000_000, '') }, 'MW405' ],
	# what is of use is copied: for its record, and for its caller
	[ 'an answer as long as it may be', { raw => $first . '%"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}', fill => [ 'x', $fit ] }, 'x+', 6 ])
{
	my ($name, $step, $word, $times) = @$f;
	$times //= 2;
	$up->reset({ m => [$step] });
	my ($rest, $own) = map { status($gateway, $_) } qw(VmRSS RssAnon);
	ok(forget_peak($gateway), "$name: the peak is measured anew");
	my $got = $c->word(ask('acme', undef, $name, request_id => $name, options => { timeout => 60, limits => { tokens => 100_000_000 } }));
	my $grown = status($gateway, 'VmHWM') - $rest;
	like(substr($got, 0, 20), qr/^$word$/, $name);
	cmp_ok($grown, '<', $times * $limit / 1048576 + 8, sprintf '... the gateway grew by %.0f MB of %d times %.0f', $grown, $times, $limit / 1048576);
	$up->reset({ m => [ { text => 'well', repeat => 2 } ] });
	is($c->word(ask('acme', undef, "after $name")), 'well', '... the same backend goes on');
	cmp_ok(status($gateway, 'RssAnon') - $own, '<', $limit / 1048576 / 2, '... and most of it was given back');
}
is($admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'}), $gateway, 'it is the same gateway');
money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
