# TLS and proxies: who is believed to be the provider, who we say we are, what a connection that
# breaks under TLS or HTTP/2 means for the money, and that nothing in the environment steers it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwTls;
use MwUpstream;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $ca = MwTls->new("$dir/ca");
my $other_ca = MwTls->new("$dir/other-ca");
my $here = 'IP:127.0.0.1,DNS:localhost';
my %cert = (
	good => [ $ca->certificate('good', names => $here) ],
	expired => [ $ca->certificate('expired', names => $here, from => -3, to => -1) ],
	early => [ $ca->certificate('early', names => $here, from => 1, to => 2) ],
	other => [ $ca->certificate('other', names => 'DNS:api.example.com,IP:127.0.0.2') ],
	stranger => [ $other_ca->certificate('stranger', names => $here) ],
	client => [ $ca->certificate('client', names => 'DNS:client') ],
	wrong_client => [ $other_ca->certificate('wrong_client', names => 'DNS:client') ]);
my %up;
sub upstream { my ($kind, @more) = @_; return MwUpstream->start('--echo', '--cert', $cert{$kind}[0], '--certkey', $cert{$kind}[1], @more); }
$up{$_} = upstream($_) for qw(good expired early other stranger);
$up{self} = MwUpstream->start('--echo', '--tls');
$up{old} = upstream('good', '--tls-max', '1.1');
$up{two} = upstream('good', '--tls-max', '1.2');
$up{asks} = upstream('good', '--client-ca', $ca->file);
$up{asks12} = upstream('good', '--client-ca', $ca->file, '--tls-max', '1.2');
$up{h2} = upstream('good', '--h2');
my $proxy = MwUpstream->start('--echo');
my $plain = MwUpstream->start('--echo');

# none of these may steer us; the last lets OpenSSL itself speak what is out of date
{
	open my $f, '>', "$dir/openssl.cnf" or die $!;
	print $f "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\nCipherString = DEFAULT:\@SECLEVEL=0\n";
	close $f;
}
local $ENV{http_proxy} = 'http://127.0.0.1:' . $proxy->port;
local $ENV{HTTPS_PROXY} = $ENV{http_proxy};
local $ENV{ALL_PROXY} = $ENV{http_proxy};
local $ENV{NO_PROXY} = ',,*[';
local $ENV{SSL_CERT_FILE} = $up{self}->ca;
local $ENV{CURL_CA_BUNDLE} = $up{self}->ca;
local $ENV{SSLKEYLOGFILE} = "$dir/session-secrets";
local $ENV{OPENSSL_CONF} = "$dir/openssl.cnf";
my $node = MwNode->new('tls', conf => "mw.gateway_idle = '300s'");
delete $ENV{$_} for qw(http_proxy HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE CURL_CA_BUNDLE SSLKEYLOGFILE OPENSSL_CONF);

# failures by the dozen are what this file is about
my %patient = (breaker => 'off', retry_reserve => 9999);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": false, "retry": {"max_attempts": 2, "base": 0.02, "max": 0.05}}')});
$node->safe_psql('postgres', q{SELECT mw_set_budget('acme', 'tokens', 100000000)});
for my $s (keys %up)
{
	$node->server($s => $up{$s}->base_url, %patient, key => 'sk-tls-marker', $s eq 'self' ? () : (ca_file => $ca->file));
}
my $c = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my $serial = 0;

sub attempts
{
	my ($id) = @_;
	return $admin->value("SELECT string_agg(outcome || ':' || coalesce(http_status::text, '-') || ':' || CASE WHEN outcome = 'unknown'
		AND billed_tokens = reserved_tokens THEN 'reserved' WHEN billed_tokens = 0 THEN '0' ELSE 'billed' END, ' ' ORDER BY attempt)
		FROM mw.attempt WHERE request_id = " . quote($id));
}

# One call: its word, its attempts, how many requests the provider read
sub call_is
{
	my ($name, $server, $word, $ledger, %o) = @_;
	my $id = 'tls' . ++$serial;
	my $text = $o{text} // "hello $serial";
	my $r = $c->query(ask('acme', undef, $text, model => "$server:m", request_id => $id, options => { max_tokens => 64, timeout => $o{timeout} // 20 }));
	my $got = MwClient::word_of($r);
	if (ref $word) { like($got, $word, $name); }
	else { is($got, $word eq 'echo' ? $text : $word, $name); }
	diag(join "\n", map { "$_: $r->{error}{$_}" } grep { defined $r->{error}{$_} } qw(M D H)) if $r->{error} && (ref $word ? $got !~ $word : $got ne $word);
	(ref $ledger ? \&like : \&is)->(attempts($id), $ledger, "... $name: ledger") if defined $ledger;
	like($r->{error}{D} // '', $o{detail}, "... $name: detail") if $o{detail};
	unlike(join(' ', map { $_ // '' } @{ $r->{error} // {} }{qw(M D H W)}), qr/sk-tls-marker/, "... $name: no key in the error") if $r->{error};
	return $id;
}
my $nothing = 'failed:-:0 failed:-:0';

# The port of a server that wants a certificate, says so, and listens until nobody speaks any more
my $refuser;
sub refuses_clients
{
	my $port;
	my $pid = open my $out, '-|', 'python3', '-u', '-c', <<'PY', $cert{good}[0], $cert{good}[1], $ca->file or die $!;
import socket, ssl, sys
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
c.load_cert_chain(sys.argv[1], sys.argv[2])
c.load_verify_locations(sys.argv[3])
c.verify_mode = ssl.CERT_REQUIRED
l = socket.create_server(("127.0.0.1", 0))
print(l.getsockname()[1])
while True:
    s, _ = l.accept()
    s.settimeout(5)
    raw = socket.socket(fileno=socket.dup(s.fileno()))
    raw.settimeout(5)
    try:
        c.wrap_socket(s, server_side=True)
    except ssl.SSLError:
        pass
    try:
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(65536):
            pass
    except OSError:
        pass
    raw.close()
PY
	$refuser = { pid => $pid, out => $out };
	chomp($port = <$out>);
	return $port;
}
END
{
	if ($refuser) { local $?; kill 'TERM', $refuser->{pid}; waitpid $refuser->{pid}, 0; }
}

# ---------- whom we believe ----------

call_is('a certificate of the CA that the server names', good => 'echo', 'ok:200:billed');
$node->server(byname => 'https://localhost:' . $up{good}->port . '/v1', ca_file => $ca->file, allow_private => 'true', %patient);
call_is('by its name', byname => 'echo', 'ok:200:billed');
call_is('an expired certificate', expired => 'MW402', $nothing, detail => qr/certificate has expired/);
call_is('one that is not valid yet', early => 'MW402', $nothing, detail => qr/not yet valid/);
call_is('one of another host', other => 'MW402', $nothing, detail => qr/127\.0\.0\.1.*Nothing was sent|Nothing was sent.*does not match|Nothing was sent.*no alternative certificate/s);
call_is('one of an unknown CA', stranger => 'MW402', $nothing, detail => qr/Nothing was sent/);
call_is('a self-signed one, whatever SSL_CERT_FILE says', self => 'MW402', $nothing, detail => qr/self.signed certificate/);
is($up{$_}->count->{requests}, 0, "... $_ has read no request") for qw(expired early other stranger self);
call_is('a server that knows TLS 1.1 only', old => 'MW402', $nothing, detail => qr/Nothing was sent/);
call_is('a server that knows TLS 1.2', two => 'echo', 'ok:200:billed');
$node->safe_psql('postgres', q{ALTER SERVER two OPTIONS (ADD min_tls '1.3')});
call_is('... where 1.3 is asked for', two => 'MW402', $nothing);
is($up{old}->count->{requests} . $up{two}->count->{requests}, '01', '... and reads nothing');
$node->safe_psql('postgres', "ALTER SERVER good OPTIONS (SET ca_file '/nowhere/ca.pem')");
call_is('a CA file that is not there', good => 'MW402', $nothing, detail => qr/Nothing was sent/);
$node->safe_psql('postgres', "ALTER SERVER good OPTIONS (SET ca_file '" . $other_ca->file . "')");
call_is('another CA, though a connection under the first one is open', good => 'MW402', $nothing);
$node->safe_psql('postgres', "ALTER SERVER good OPTIONS (SET ca_file '" . $ca->file . "')");
call_is('the right one again', good => 'echo', 'ok:200:billed');

# ---------- who we are ----------

# With TLS 1.3 a client has sent its request when it hears that its certificate is missing.  Where
# the server's reset overtakes that word, nobody can know.
for my $s (qw(asks asks12))
{
	my $refused = $s eq 'asks' ? qr/^(?:$nothing|unknown:-:reserved|failed:-:0 unknown:-:reserved)$/ : $nothing;
	call_is("$s for a certificate, and there is none", $s => 'MW402', $refused);
	$node->safe_psql('postgres', "ALTER SERVER $s OPTIONS (ADD client_cert '$cert{wrong_client}[0]', ADD client_key '$cert{wrong_client}[1]')");
	call_is("$s for a certificate, and gets that of another CA", $s => 'MW402', $refused);
	$node->safe_psql('postgres', "ALTER SERVER $s OPTIONS (SET client_cert '$cert{client}[0]', SET client_key '/nowhere/key')");
	call_is("$s for a certificate, and its key is not there", $s => 'MW402', $nothing);
	$node->safe_psql('postgres', "ALTER SERVER $s OPTIONS (SET client_key '$cert{client}[1]')");
	call_is("$s for a certificate, and gets it", $s => 'echo', 'ok:200:billed');
	is($up{$s}->journal->[-1]{peer}, 'client', "... $s sees whose it is");
	is($up{$s}->count->{requests}, 1, "... $s has read one request");
	$node->safe_psql('postgres', "ALTER SERVER $s OPTIONS (DROP client_cert, DROP client_key)");
	call_is("$s for a certificate, and an open connection of one that was is not used", $s => 'MW402', $refused);
	is($up{$s}->count->{requests}, 1, "... $s has read no other");
}
$node->server(says => 'https://127.0.0.1:' . refuses_clients() . '/v1', ca_file => $ca->file, %patient);
call_is('a server that says so before it hangs up', says => 'MW402', $nothing, detail => qr/Nothing was sent.*certificate required/);

# ---------- connections that break ----------

my $ok = { text => 'fine', usage => { prompt_tokens => 5, completion_tokens => 2 } };
sub breaks
{
	my ($name, $server, $step, $word, $ledger, %o) = @_;
	# a connection of its own, unless an old one is what it is about
	if (!$o{reused})
	{
		$up{$server}->reset({ m => [ { text => 'x', close => \1 } ] });
		$c->query(ask('acme', undef, 'closes ' . ++$serial, model => "$server:m"));
	}
	$up{$server}->reset({ m => [ $step, $ok, $ok ] });
	my $id = call_is("$server: $name", $server => $word, $ledger, %o);
	(ref $o{sent} ? \&like : \&is)->($up{$server}->count->{requests}, $o{sent} // 1, "... $name: HTTP requests");
	return $id;
}
for my $s (qw(good two))
{
	$node->safe_psql('postgres', q{ALTER SERVER two OPTIONS (SET min_tls '1.2')}) if $s eq 'two';
	breaks('reset before any byte', $s, { disconnect => \1 }, 'MW402', 'unknown:-:reserved');
	breaks('a fatal alert before any byte', $s, { wire => [''], cut_end => 'alert' }, 'MW402', 'unknown:-:reserved');
	breaks('a fatal alert in the body', $s, { %$ok, cut => -40, cut_end => 'alert' }, 'MW402', 'unknown:200:reserved');
	breaks('a fatal alert in the body of a failure', $s, { status => 500, cut => -40, cut_end => 'alert' }, 'fine', 'failed:500:0 ok:200:billed', sent => 2);
	breaks('reset in the body', $s, { %$ok, cut => -40, cut_end => 'reset' }, 'MW402', 'unknown:200:reserved');
	breaks('the end of the connection without a goodbye, in the body', $s, { %$ok, cut => -40 }, 'MW402', 'unknown:200:reserved');
	# libcurl 7.88 takes it for the goodbye; then the JSON tells
	breaks('... where that is the end of the body', $s, { %$ok, framing => 'close', cut => -1 }, qr/^MW40[25]$/, qr/^(failed:200:billed|unknown:200:reserved)$/);
	breaks('... with a goodbye', $s, { %$ok, framing => 'close' }, 'fine', 'ok:200:billed');
	breaks('a body that stays away', $s, { %$ok, cut => -40, cut_end => 'stay' }, 'MW404', 'unknown:200:reserved', timeout => 0.7);
	my $evil = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
	  . '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"of another"}}]}    ';
	for my $later (0, 50)
	{
		breaks("another answer behind its own, $later ms later", $s, { %$ok, spill => $evil, spill_ms => $later }, 'fine', 'ok:200:billed');
		sleep 0.2;
		$up{$s}->reset({ m => [ { text => 'its own' }, { text => 'its own' } ] });
		call_is("... $s: is not the next call's", $s => 'its own', undef);
	}
	$up{$s}->reset({ m => [ $ok, { disconnect => 'reused' }, $ok ] });
	call_is("$s: warming a connection", $s => 'fine', 'ok:200:billed');
	call_is("$s: a reused connection that dies unused was not sent", $s => 'fine', 'failed:-:0 ok:200:billed');
}

# ---------- HTTP/2 ----------

$up{h2}->reset({ m => [$ok] });
call_is('HTTP/2', h2 => 'fine', 'ok:200:billed');
is($up{h2}->journal->[0]{answered}, 'h2', '... is what was spoken');
# libcurl 7.88 keeps to itself that this one was left out: it errs towards unknown; later ones tell
breaks('GOAWAY that leaves the request out', 'h2', { h2 => 'goaway' }, qr/^(MW402|fine)$/, qr/^(unknown:-:reserved|failed:-:0 ok:200:billed)$/, sent => qr/^[12]$/);
breaks('a stream that is refused', 'h2', { h2 => 'refused' }, 'fine', 'failed:-:0 ok:200:billed', sent => 2);
breaks('GOAWAY that includes it, and no answer', 'h2', { h2 => 'goaway_lost' }, 'MW402', 'unknown:-:reserved');
breaks('GOAWAY that includes it, and its answer', 'h2', { %$ok, h2 => 'goaway_answer' }, 'fine', 'ok:200:billed');
breaks('a stream that is reset', 'h2', { h2 => 'reset' }, 'MW402', 'unknown:-:reserved');
breaks('a stream that is reset in the body', 'h2', { %$ok, h2 => 'reset_body' }, 'MW402', 'unknown:200:reserved');
breaks('a connection that ends in the body', 'h2', { %$ok, h2 => 'close_body' }, 'MW402', 'unknown:200:reserved');
breaks('a stream without an end', 'h2', { %$ok, h2 => 'no_end' }, 'MW404', 'unknown:200:reserved', timeout => 0.7);
breaks('a failure', 'h2', { status => 503 }, 'fine', 'failed:503:0 ok:200:billed', sent => 2);
{
	# one connection for many at once, and a stream that breaks harms no other
	my @all = map { MwClient->new($node, user => 'app') } 1 .. 20;
	my @rules = (map { { match => "answer $_ ", step => { text => "right $_", hold => \1 } } } 1 .. 19);
	$up{h2}->reset([ @rules, { match => 'answer 20 ', step => { h2 => 'reset', hold => \1 } } ]);
	$all[$_ - 1]->send(ask('acme', undef, "answer $_ ", model => 'h2:m')) for 1 .. 20;
	ok($up{h2}->wait(requests => 20, timeout => 30), '20 requests at once');
	my %connections = map { $_->{connection} => 1 } @{ $up{h2}->journal };
	cmp_ok(scalar keys %connections, '<=', 2, '... on one connection or two');
	$up{h2}->release;
	my @words = map { MwClient::word_of($_->result) } @all;
	is(join(' ', @words), join(' ', map({ "right $_" } 1 .. 19), 'MW402'), '... each gets its own answer, one breaks');
}

# ---------- proxies ----------

is($proxy->count->{requests} . ' ' . $proxy->count->{tunnels} . ' ' . $proxy->count->{connections}, '0 0 0', 'the proxy of the environment was never spoken to');
ok(!-e "$dir/session-secrets", 'no secrets of TLS sessions were written where the environment says');
my $via = 'http://127.0.0.1:' . $proxy->port;
$node->server(direct => $plain->base_url, %patient);
$node->server(proxied => $plain->base_url, proxy => $via, %patient);
$node->server(tunnelled => $up{good}->base_url, proxy => $via, ca_file => $ca->file, %patient);
$node->server(cheated => $up{self}->base_url, proxy => $via, ca_file => $ca->file, %patient);
$node->server(noproxy => $plain->base_url, proxy => 'http://127.0.0.1:1', %patient);
call_is('a server without a proxy', direct => 'echo', 'ok:200:billed');
call_is('a server with one', proxied => 'echo', 'ok:200:billed');
is($proxy->count->{requests}, 1, '... which is asked');
ok($proxy->journal->[0]{proxied}, '... as a proxy is');
$up{good}->reset({}, mode => 'echo');
call_is('https through a proxy is a tunnel', tunnelled => 'echo', 'ok:200:billed');
is($proxy->count->{tunnels}, 1, '... which the proxy made');
is($up{good}->count->{requests}, 1, '... and the provider was reached');
call_is('a certificate counts in a tunnel, too', cheated => 'MW402', $nothing);
call_is('a proxy that is not there', noproxy => 'MW402', $nothing, detail => qr/Nothing was sent/);

# ---------- time for a connection ----------

{
	my $settled = "SELECT settled || ' ' || reserved FROM mw.budget_status WHERE tenant = 'acme' AND session IS NULL AND unit = 'tokens'";
	my $before = $admin->value($settled);
	my $id = call_is('a call with less time than a connection takes', direct => 'MW404', undef, timeout => 0.03, detail => qr/Nothing was sent or reserved: \d+ ms are left, and a connection to server "direct" takes 50\./);
	is($admin->value("SELECT count(*) FROM mw.attempt WHERE request_id = '$id'"), '0', '... is no attempt');
	is($admin->value($settled), $before, '... and costs nothing');
}

like(log_since($node), qr/mw/, 'there is a log');
unlike(log_since($node), qr/sk-tls-marker/, 'and no key in it');
money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
