# A pool between applications and server, in transaction mode: two connections of the server for fifty clients of ten
# tenants.  Nothing of a call lives in the session that the next client of the same connection could meet.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use PostgreSQL::Test::Utils ();
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my ($bouncer) = grep { -x } '/usr/sbin/pgbouncer', '/usr/bin/pgbouncer';
plan skip_all => 'pgbouncer is not installed' if !$bouncer;

my $up = MwUpstream->start('--echo');
my $node = MwNode->new('pooling', conf => "max_connections = 100\nmw.gateway_idle = '300s'");
$node->server(llm => $up->base_url);
$node->tenant("t$_", 'app') for 1 .. 10;
$node->tenant('own', 'only_own');
$node->safe_psql('postgres', q{GRANT only_own TO app; SELECT mw_set_budget(tenant, 'tokens', 'Infinity', session => '*') FROM mw.tenant});
# what a member may do counts for the application too, unless it asks for that role
$node->safe_psql('postgres', 'ALTER ROLE app NOINHERIT');

# ---------- the pool ----------

my $dir = PostgreSQL::Test::Utils::tempdir();
my $sockets = PostgreSQL::Test::Utils::tempdir_short();
my $port = $node->port;
my $host = $node->host;
open my $users, '>', "$dir/users" or die $!;
print $users qq{"app" ""\n};
close $users;
open my $ini, '>', "$dir/pool.ini" or die $!;
print $ini <<"INI";
[databases]
postgres = host=$host port=$port
[pgbouncer]
unix_socket_dir = $sockets
listen_port = $port
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
logfile = $dir/log
pidfile = $dir/pid
INI
close $ini;
my $pool_pid = fork // die "fork: $!";
if ($pool_pid == 0)
{
	open STDOUT, '>', '/dev/null';
	open STDERR, '>', '/dev/null';
	exec $bouncer, '-q', "$dir/pool.ini" or POSIX::_exit(1);
}
# QUIT is ignored by what was started in the background, and TERM waits for clients in later versions
END
{
	if ($pool_pid)
	{
		local $?;
		kill 'KILL', $pool_pid;
		waitpid $pool_pid, 0;
	}
}
{

	package Pool;    # what MwClient asks of a node
	sub host { return $sockets; }
	sub port { return $port; }
	sub name { return 'the pool'; }
}
my $pool = bless {}, 'Pool';
ok(eventually(sub { return -S "$sockets/.s.PGSQL.$port"; }), 'the pool listens') or BAIL_OUT(PostgreSQL::Test::Utils::slurp_file("$dir/log"));
sub client { return MwClient->new($pool, user => 'app'); }

# ---------- many clients, two connections ----------

my @all = map { client() } 1 .. 50;
$up->reset({}, mode => 'echo');
for my $round (1 .. 4)
{
	my @r = MwClient->race(\@all, sub { ask('t' . (1 + $_[0] % 10), "s$_[0]", "round $round of client $_[0]", request_id => "r$round c$_[0]", options => { max_tokens => 16 }) });
	my @wrong = grep { MwClient::word_of($r[$_]) ne "round $round of client $_" } 0 .. $#r;
	is(join(', ', map { MwClient::word_of($r[$_]) } @wrong), '', "round $round: everybody has the answer to his own prompt");
}
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'"), '<=', 2, 'two connections carried them');
is($up->count->{requests}, 200, 'each call was one request');
is($node->safe_psql('postgres', q{SELECT count(*) FROM mw.attempt WHERE request_id !~ (' c' || substr(session, 2) || '$') OR tenant <> 't' || (1 + substr(session, 2)::int % 10)}), '0', 'each is in the ledger of its own tenant and session');

my ($c, $d, @others) = @all[ 0 .. 9 ];

# ---------- request ids ----------

$up->reset({}, mode => 'echo');
$c->query('BEGIN');
is($c->word(ask('t1', 's', 'one', request_id => 'claimed')), 'one', 'a call in a transaction that stays open');
$d->send(ask('t1', 's', 'one', request_id => 'claimed'));
ok(eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'app'") eq '1'; }), 'another client of that request_id waits for it, on the other connection');
$c->query('COMMIT');
is(MwClient::word_of($d->result), 'one', '... and gets its result');
$c->query($_) for 'BEGIN', ask('t1', 's', 'two', request_id => 'undone'), 'ROLLBACK';
is($d->word(ask('t1', 's', 'two', request_id => 'undone')), 'two', 'what one client rolled back another one gets without a call');
is($up->count->{requests}, 2, '... two requests for four calls');

# ---------- cancel, and a client that vanishes ----------

$up->reset({ m => [ { echo => \1, hold => \1, repeat => 2 } ] }, mode => 'echo');
$c->send(ask('t1', 's', 'cancelled', request_id => 'cancelled'));
$up->wait(requests => 1);
$c->cancel;
is(MwClient::word_of($c->result), '57014', 'a cancel reaches the call through the pool');
my $gone = client();
$gone->send(ask('t1', 's', 'gone', request_id => 'gone'));
$up->wait(requests => 2);
$gone->drop;
$up->release;
ledger_is($node, "request_id = '$_'", 'ok', "$_: the call goes on without its caller") for qw(cancelled gone);
is($d->word(ask('t1', 's', $_, request_id => $_)), $_, "$_: and its answer is there for a repeat") for qw(cancelled gone);
is($up->count->{requests}, 2, '... and was paid for once');

# ---------- session state ----------

is($c->bound('SELECT mw_ask($1, NULL, $2)', 't1', 'bound')->{error}{C}, 'MW001', 'parameters are bound as anywhere: no model');
is(MwClient::word_of($c->bound(q{SELECT mw_ask($1, NULL, $2, model => $3)}, 't1', 'bound', 'llm:m')), 'bound', '... a call with an unnamed statement');

sub in_transaction { my ($client, @sql) = @_; my @w; push @w, $client->word($_) for 'BEGIN', @sql, 'COMMIT'; return "@w[1 .. $#w - 1]"; }
is(in_transaction($c, q{SET LOCAL mw.tenant = 't1'}, ask('t1', undef, 'narrow'), ask('t2', undef, 'wide')), 'no row narrow MW101', 'SET LOCAL mw.tenant holds for the transaction');
is($_->word(ask('t2', undef, 'free')), 'free', '... and for nobody after it') for $c, $d;
is(in_transaction($c, 'SET LOCAL ROLE only_own', ask('own', undef, 'as only_own'), ask('t1', undef, 'not t1')), 'no row as only_own MW101', 'so does SET LOCAL ROLE');
is($_->word(ask('own', undef, 'not mine')), 'MW101', '... and nobody inherits it') for $c, $d;

# SET outlives its client on the connection: whoever meets it is refused, and reads nothing of anybody's
$c->query(q{SET mw.tenant = 't1'});
my %after;
$after{ $_->word(ask('t3', undef, 'after SET')) }++ for ($d, @others) x 3;
is(join(' ', sort keys %after), join(' ', sort grep { $after{$_} } 'MW101', 'after SET'), 'SET of one client gives others an error or their own answer, nothing else');
my $seen = 0;
$seen += $_->value(q{SELECT count(*) FROM mw.ledger WHERE tenant NOT LIKE 't%'}) for $d, @others;
is($seen, 0, '... and rows of no other tenant');
$_->query('RESET mw.tenant') for map { ($_) x 3 } $c, $d;

# the test double's script is the session's: in one transaction it is one's own
$node->safe_psql('postgres', q{CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake'); GRANT USAGE ON FOREIGN SERVER double TO PUBLIC});
is(in_transaction($d, q{SELECT mw_fake('double', '{"m": [{"text": "scripted"}]}') IS NULL}, ask('t1', undef, 'x', model => 'double:m')), 'f scripted', 'a test double within a transaction');

money_holds($node, 'through a pool');
log_is_clean($node);
done_testing();
