# An answer that is cut off after every one of its bytes, head included: over HTTP and TLS, with a length, in chunks and
# up to the end of the connection, by a close, a reset, an alert or silence.  What was read of it decides what the
# ledger says; nothing that was cut off is ever an answer, is kept or is sent again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use IO::Socket::INET;
use JSON::PP;
use Test::More;
use PostgreSQL::Test::Utils;
use MwCampaign;
use MwCheck;
use MwTls;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $ca = MwTls->new("$dir/ca");
my ($cert, $key) = $ca->certificate('good', names => 'IP:127.0.0.1');
my $at_once = 200;
my $full = ($ENV{MW_CAMPAIGN} // 'smoke') eq 'full';

# ways to cut: server, framing, end; the smoke form has a part of them
my @ways = map { my $server = $_; map { my $framing = $_; map { [ $server, $framing, $_ ] } qw(fin reset stay), $server eq 'llm' ? 'alert' : () } qw(length chunked close) } qw(plain llm);
@ways = ([ 'plain', 'length', 'fin' ], [ 'plain', 'chunked', 'reset' ], [ 'llm', 'length', 'fin' ], [ 'llm', 'chunked', 'alert' ]) if !$full;

# an upper bound of the answer's bytes: what is over it arrives whole, and says so
my $most = 1000;
my $rounds = @ways * $most / $at_once;
my $c = MwCampaign->new('an answer cut off after each of its bytes, ' . @ways . ' ways', rounds => [ $rounds, $rounds ], every => $full ? 5 : 10,
	upstream => [ '--echo', '--cert', $cert, '--certkey', $key ], server => { ca_file => $ca->file });
my ($node, $up) = ($c->node, $c->up);
$node->server(plain => $up->plain_base_url, key => 'sk-campaign', breaker => 'off', retry_reserve => 9999);
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.1}}') FROM mw.tenant});

# the answer as it stands on the wire, for a nonce of this length
sub wire
{
	my ($step, $nonce) = @_;
	my $s = $up->session('measure');
	$s->reset({ m => [$step] });
	my ($port) = $up->plain_base_url =~ /:(\d+)/;
	my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die "connect: $!";
	my $body = encode_json({ model => 'm', messages => [ { role => 'user', content => 'x' } ] });
	print $sock "POST /s/measure/v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: " . length($body) . "\r\n\r\n$body";
	my $all = '';
	my $until = time + 10;
	while (time < $until && $all !~ /\r\n\r\n.*(\}\z|\n0\r\n\r\n)/s)
	{
		last if !sysread $sock, $all, 65536, length $all;
	}
	return $all;
}

my @clients;
$c->rounds(sub {
	my ($round) = @_;
	my $way = $ways[ ($round - 1) / ($most / $at_once) ];
	my ($server, $framing, $end) = @$way;
	my $first = ($round - 1) % ($most / $at_once) * $at_once;
	my $text = sub { return { text => "[n:$_[0]] fine", usage => { prompt_tokens => 5, completion_tokens => 2 }, extra => { id => 'always of one length' }, $framing eq 'chunked' ? (chunk_bytes => 64) : (framing => $framing) } };
	my (@todo, @rules, %wire);
	for my $at ($first .. $first + $at_once - 1)
	{
		my $id = $c->nonce;
		my $whole = $wire{ length $id } //= wire($text->('m' x length $id));
		$c->must($whole =~ /\r\n\r\n.*fine/s && length($whole) < $most, 'the answer has ' . length($whole) . ' bytes');
		last if $at > length($whole) + 4;
		push @todo, { at => $at, id => $id, whole => $whole, tenant => 't' . (1 + @todo % 3) };
		push @rules, { match => "[n:$id]", times => 1, step => { %{ $text->($id) }, cut => $at, cut_end => $end } };
	}
	return if !@todo;
	$c->script(\@rules);
	@clients = map { $clients[$_] && !$clients[$_]{closed} ? $clients[$_] : $c->client('r' . (1 + $_ % 3)) } 0 .. $#todo;
	my @turn = (0) x @todo;
	my $timeout = $end eq 'stay' ? 3 : 30;
	$c->drive([ @clients[ 0 .. $#todo ] ], sub {
		my ($i) = @_;
		my $t = $todo[$i];
		return if $turn[$i]++;
		return [ $c->ask($t->{tenant}, undef, $t->{id}, model => "$server:m", options => { max_tokens => 64, timeout => $timeout }), sub {
			my ($r) = @_;
			$t->{word} = MwClient::word_of($r);
			$t->{word} = 'answer' if $t->{word} eq "[n:$t->{id}] fine";
			$t->{word} = 'echo' if $t->{word} eq $c->prompt($t->{tenant}, $t->{id});
			$t->{said} = $r->{error} ? "$r->{error}{M}: $r->{error}{D}" : '';
			$c->count('cuts');
			$c->count($t->{word});
		} ];
	});
	my %ledger = map { split / /, $_, 2 } $c->admin("SELECT request_id || ' ' || string_agg(outcome || ':' || coalesce(http_status::text, '-') || ':' || CASE
			WHEN outcome = 'unknown' AND billed_tokens = reserved_tokens AND estimated AND billed_requests = 1 THEN 'reserved'
			WHEN estimated AND billed_tokens > 0 THEN 'counted' ELSE billed_tokens::text END, ' ' ORDER BY attempt)
		FROM mw.attempt WHERE request_id IN (" . join(', ', map { "'$_->{id}'" } @todo) . ') GROUP BY request_id');
	for my $t (@todo)
	{
		my $l = $ledger{ $t->{id} } // 'nothing';
		(my $rest = $l) =~ s/\bfailed:-:0 (?=.)//g;
		my $whole = $t->{whole};
		my $head = index($whole, "\r\n\r\n") + 4;
		my $status = index($whole, "\r\n") + 2;
		my $late = $end eq 'stay' ? 'MW404' : 'MW402';
		my $is = "$t->{word} $rest";
		my $ok;
		if ($t->{at} >= length $whole)
		{
			# all of it; silence behind a body that only the end of the connection ends is none of it
			$ok = $framing eq 'close' && $end eq 'stay' ? qr/^MW404 unknown:200:reserved$/
			  : $end eq 'fin' || $end eq 'stay' ? qr/^answer ok:200:7$/ : qr/^(answer ok:200:7|MW402 unknown:200:reserved)$/;
		}
		elsif ($t->{at} < $status)
		{
			# no whole status line: nothing is known; on a kept connection nothing was sent, if nothing at all came back
			$ok = $t->{at} == 0 || $server eq 'llm' ? qr/^($late unknown:-:reserved|echo ok:200:\d+)$/ : qr/^$late unknown:-:reserved$/;
		}
		elsif ($framing eq 'chunked' && $t->{at} == length($whole) - 1)
		{
			# its last line lacks its last byte
			$ok = qr/^(answer ok:200:7|$late unknown:200:reserved)$/;
		}
		elsif ($t->{at} < $head) { $ok = qr/^$late unknown:200:reserved$/; }
		elsif ($framing eq 'close' && $end eq 'fin')
		{
			# the end of the connection ends such a body; then the JSON tells that something is missing
			$ok = $t->{at} == $head ? qr/^MW40[25] (unknown:200:reserved|failed:200:\w+)$/ : qr/^MW405 failed:200:(counted|7)$/;
		}
		else { $ok = qr/^$late unknown:200:reserved$/; }
		# two hundred handshakes of TLS at once: a short deadline may end in one
		next if $end eq 'stay' && $server eq 'llm' && $is =~ /^MW404 failed:-:0$/;
		$c->must(scalar($is =~ $ok), "cut after $t->{at} of " . length($whole) . " bytes (head $head), $server, $framing, $end: $is, wanted $ok ($t->{said})");
	}
	my $kept = $c->admin(q{SELECT count(*) FROM mw.cache AS k WHERE NOT EXISTS (
		SELECT FROM mw.attempt AS a WHERE a.tenant = k.tenant AND a.outcome = 'ok' AND a.request_id = substring(k.body FROM '\[n:([^]]+)\]'))});
	$c->must($kept eq '0', "$kept cached answers were cut off");
	return;
});
$c->finish;
