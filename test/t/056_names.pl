# Name servers and machines that are not there: a name that does not resolve, a server that never
# answers, addresses of which most are dead, and those that are never called.  One such provider must
# not hold up the others, a caller can leave at any moment, and what the process has left of
# descriptors decides nothing but who has to try again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use IO::Socket::INET;
use IPC::Run;
use Socket;
use Test::More;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $preload = "$dir/names.so";
my ($out, $err) = ('', '');
ok(IPC::Run::run([ 'cc', '-shared', '-fPIC', '-O1', '-o', $preload, "$FindBin::RealBin/../lib/names.c", '-ldl' ], '<', \'', '>', \$out, '2>', \$err),
	'the name server of this test compiles') or BAIL_OUT($err);

my $up = MwUpstream->start('--echo');
my $port = $up->port;
my $node;
{
	local $ENV{LD_PRELOAD} = $preload;
	$node = MwNode->new('names', conf => "mw.gateway_idle = '300s'\nmax_connections = 300");
}
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": false, "retry": {"max_attempts": 2, "base": 0.02, "max": 0.05}}')});
# failures by the dozen are what this file is about
my %patient = (breaker => 'off', retry_reserve => 9999);
$node->server(good => $up->base_url, %patient);
for my $name (qw(nothere servfail silent slow refusing dropping metadata mixed))
{
	$node->server($name => "http://$name.mwtest:$port/v1", key => 'sk-names-marker', allow_private => 'true', %patient, connect_timeout => $name eq 'dropping' ? '20' : '0.7');
}
$node->server(patient => "http://silent.mwtest:$port/v1", allow_private => 'true', %patient);

# addresses that swallow connections: their queue is full and nobody accepts
my @full;
for my $n (1 .. 29)
{
	my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.2.$n", LocalPort => $port, Proto => 'tcp') or die "listen on 127.0.2.$n: $!";
	push @full, $l;
	for (1 .. 4)
	{
		my $s = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0) or last;
		connect $s, pack_sockaddr_in($port, inet_aton("127.0.2.$n"));
		push @full, $s;
	}
}

my $c = MwClient->new($node, user => 'app');
my $other = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);
my $serial = 0;

sub attempts
{
	my ($id) = @_;
	return $admin->value("SELECT string_agg(outcome || ':' || coalesce(http_status::text, '-') || ':' || billed_tokens, ' ' ORDER BY attempt) FROM mw.attempt WHERE request_id = " . quote($id));
}

sub try_name
{
	my ($name, $server, %e) = @_;
	my $id = 'names' . ++$serial;
	my $t = time;
	my $r = $c->query(ask('acme', undef, $id, model => "$server:m", request_id => $id, options => { timeout => $e{timeout} // 30 }));
	my $took = time - $t;
	is(MwClient::word_of($r), $e{word} // $id, $name);
	diag(join "\n", map { "$_: $r->{error}{$_}" } grep { defined $r->{error}{$_} } qw(M D H)) if $r->{error} && $r->{error}{C} ne ($e{word} // '');
	like(attempts($id), $e{ledger}, "... $name: ledger") if $e{ledger};
	like($r->{error}{D} // '', $e{detail}, "... $name: detail") if $e{detail};
	unlike(join(' ', map { $_ // '' } @{ $r->{error} // {} }{qw(M D H W)}), qr/sk-names-marker/, "... $name: no key in the error") if $r->{error};
	return $took;
}
my $nothing = qr/^failed:-:0 failed:-:0$/;

# ---------- names ----------

try_name('a good one', 'good', ledger => qr/^ok:200:/);
try_name('a name that does not exist', 'nothere', word => 'MW402', ledger => $nothing, detail => qr/Nothing was sent.*resolve host/);
try_name('a name server that has failed', 'servfail', word => 'MW402', ledger => $nothing, detail => qr/Nothing was sent.*resolve host/);
try_name('a name server that takes its time', 'slow', ledger => qr/^ok:200:/);
try_name('a name server that never answers', 'silent', word => 'MW402', ledger => $nothing, detail => qr/Nothing was sent/);
{
	my $best = 9;
	for (1 .. 3)
	{
		my $late = try_name('... up to the deadline', 'patient', word => 'MW404', timeout => 0.6, ledger => qr/^failed:-:0$/) - 0.6;
		$best = $late if $late < $best;
		last if $best < 0.2;
	}
	cmp_ok($best, '<', 0.2, '... which holds, within 200 ms');
}
{
	# 60 callers wait for it; everybody else goes on
	my @waiting = map { MwClient->new($node, user => 'app') } 1 .. 60;
	$_->send(ask('acme', undef, 'waits ' . ++$serial, model => 'patient:m', options => { timeout => 8 })) for @waiting;
	ok(eventually(sub { return $admin->value("SELECT count(*) FROM mw.queue WHERE state = 'in flight'") eq '60' }), '60 callers wait for a name server that never answers');
	try_name("call $_ beside them", 'good', ledger => qr/^ok:200:/) for 1 .. 5;
	is($admin->value("SELECT count(*) FROM mw.queue WHERE state = 'in flight'"), '60', '... who still wait');
	my $best = 9;
	for my $w (@waiting[ 0 .. 4 ])
	{
		my $t = time;
		$w->cancel;
		is_error($w->result, '57014', 'one of them leaves');
		my $took = time - $t;
		$best = $took if $took < $best;
	}
	cmp_ok($best, '<', 0.1, '... within 100 ms');
	my %words;
	$words{ MwClient::word_of($_->result) }++ for @waiting[ 5 .. 59 ];
	is(join(' ', %words), 'MW404 55', 'the others reach their deadline');
	ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0' }), 'and nothing is left in the queue');
}

# ---------- addresses ----------

try_name('30 addresses of which 29 refuse', 'refusing', ledger => qr/^ok:200:/);
{
	# whether the good one is reached depends on the share that each of them gets; that it ends does not
	my $id = 'dropping ' . ++$serial;
	my $t = time;
	my $word = $c->word(ask('acme', undef, $id, model => 'dropping:m', request_id => $id, options => { timeout => 3 }));
	like($word, qr/^(\Q$id\E|MW40[24])$/, '30 addresses of which 29 swallow connections');
	like(attempts($id), qr/^(failed:-:0 ?)+$|ok:200/, '... the ledger');
	cmp_ok(time - $t, '<', 3.5, '... within the deadline');
}
try_name('the address of metadata', 'metadata', word => 'MW402', ledger => $nothing, detail => qr/Nothing was sent.*never called/);
try_name('... beside a good one, which is called', 'mixed', ledger => qr/^ok:200:/);

# ---------- going away in the middle of it ----------

{
	$c->send(ask('acme', undef, 'the gateway is asked to leave', model => 'patient:m', request_id => 'leaving', options => { timeout => 30 }));
	ok(eventually(sub { return $admin->value("SELECT count(*) FROM mw.queue WHERE state = 'in flight'") eq '1' }), 'a lookup is under way');
	my $pid = $admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'});
	$admin->value("SELECT pg_terminate_backend($pid)");
	ok(eventually(sub { return !-d "/proc/$pid" }, 10), 'the gateway leaves, though a thread of it hangs');
	like(MwClient::word_of($c->result), qr/^(MW40[24]|57P01)$/, '... its caller is told');
	try_name('... and the next call starts another', 'good', ledger => qr/^ok:200:/);
}

# ---------- descriptors ----------

{
	# a gateway with few of them, which it cannot raise
	my $pid = $admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'});
	$admin->value("SELECT pg_terminate_backend($pid)");
	eventually(sub { return !-d "/proc/$pid" }, 10);
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my @all = map { MwClient->new($node, user => 'app') } 1 .. 200;
	system('prlimit', "--pid=$postmaster", '--nofile=160:160') == 0 or die 'prlimit';
	$up->reset({ m => [ { text => 'late', hold => \1, repeat => 400 } ] });
	$_->send(ask('acme', undef, 'many ' . ++$serial, model => 'good:m', request_id => "many$serial", options => { timeout => 90 })) for @all;
	ok($up->wait(requests => 30, timeout => 60), 'with 160 descriptors some of 200 calls are sent');
	# of both their attempts: who has only failed once finds room for the second as soon as the others are answered
	ok( eventually(
			sub { return $admin->value("SELECT count(*) FROM (SELECT FROM mw.attempt WHERE request_id LIKE 'many%' AND outcome = 'failed' AND http_status IS NULL GROUP BY request_id HAVING count(*) = 2) x") >= 50 },
			60),
		'... 50 of the others find no descriptor twice');
	$up->release;
	$up->reset({}, mode => 'echo');
	my %words;
	for my $r (map { $_->result } @all)
	{
		my $w = MwClient::word_of($r);
		$words{ $w =~ /^(late|many \d+)$/ ? 'answer' : $w }++;
		like($r->{error}{D}, qr/Nothing was sent.*Too many open files/s, 'who could not be sent is told why') if $r->{error} && !$words{told}++;
	}
	delete $words{told};
	cmp_ok($words{answer} // 0, '>=', 30, 'some get their answer');
	cmp_ok($words{MW402} // 0, '>=', 50, '... others hear that nothing was sent');
	is(join(' ', grep { !/^(answer|MW402)$/ } keys %words), '', '... and nobody anything else') or diag(explain(\%words));
	my $now = $admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'});
	my $soft = slurp_file("/proc/$now/limits") =~ /^Max open files\s+(\d+)/m ? $1 : '?';
	is($soft, '160', '... by a gateway that had that many');
	try_name('the same gateway goes on', 'good', ledger => qr/^ok:200:/);
	is($admin->value(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mw gateway'}), $now, '... the same');
}

unlike(log_since($node), qr/sk-names-marker/, 'no key in the log');
money_holds($node, 'in the end');
log_is_clean($node);
$_->close for @full;
my $t = time;
$node->stop;
cmp_ok(time - $t, '<', 15, 'the server stops');
done_testing();
