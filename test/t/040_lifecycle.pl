# The gateway is never in the way: databases are dropped, copied and renamed, the extension
# goes, the server stops and starts, and open transactions of administrators stall nobody.
# Where no gateway can be had, the error says what to set.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('life', conf => "mw.gateway_idle = '300s'", init => [ allows_streaming => 1 ], start => 0);
# what allows_streaming lowers
$node->append_conf('postgresql.conf', "max_connections = 100\nmax_worker_processes = 8");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mw');
$node->server(llm => $up->base_url, key => 'sk-life');
$node->tenant('acme', 'app');
$node->tenant('other', 'app');

my $serial = 0;
sub client { return MwClient->new($node, user => 'app', @_); }
sub admin { return MwClient->new($node); }
sub gateways
{
	my ($db) = @_;
	return $node->safe_psql('postgres', "SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE backend_type = 'mw gateway'"
		. ($db ? " AND datname = '$db'" : ''));
}
sub works
{
	my ($name, %o) = @_;
	my $text = 'works ' . ++$serial;
	return is(client(%o)->word(ask('acme', undef, $text)), $text, $name);
}

# a second database, made like the first
sub make_db
{
	my ($db) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION mw');
	$node->server(llm => $up->base_url, dbname => $db);
	$node->safe_psql($db, "SELECT mw_create_tenant('acme'), mw_grant_tenant('acme', 'app')");
	return;
}

# ---------- coming and going ----------

is(gateways(), '', 'no gateway before the first call');
works('the first call starts one');
my $first = gateways('postgres');
like($first, qr/^\d+$/, 'one gateway');
works('the second call uses it');
is(gateways('postgres'), $first, 'the same one');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($first)");
works('after pg_terminate_backend of the gateway');
isnt(gateways('postgres'), $first, '... it is another one');
{
	# it keeps its tables from being dropped while calls are in flight, and a moment longer
	works('a call just before');
	my $pid = gateways('postgres');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	ok(eventually(sub { return gateways('postgres') ne $pid; }), 'a gateway that ends');
	is($node->psql('postgres', 'BEGIN; LOCK TABLE mw.attempt, mw.spent, mw.answer, mw.cache IN ACCESS EXCLUSIVE MODE NOWAIT'), 0, '... leaves no lock behind');
}

{
	$up->reset({ m => [ { text => 'held', hold => \1, repeat => 9 } ] });
	my $c = client();
	$c->send(ask('acme', 's', 'in flight', request_id => 'terminated'));
	$up->wait(requests => 1);
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . gateways('postgres') . ')');
	is_error($c->result, 'MW402', 'a gateway terminated with a call in flight: the caller is told', detail => qr/outcome unknown/);
	is(ledger($node, "request_id = 'terminated'"), 'unknown', '... on record before it left');
	$up->reset({}, mode => 'echo');
	is_error(client()->query(ask('acme', 's', 'in flight', request_id => 'terminated')), 'MW502', '... and nobody sends it again');
	money_holds($node, 'a terminated gateway');
}

# who cancels all that pg_stat_activity shows takes nothing from calls in flight
{
	works('a call just before');
	my $gateway = gateways('postgres');
	my ($holder, $c) = (admin(), client());
	$holder->query('BEGIN');
	is($holder->word('LOCK TABLE mw.attempt IN SHARE MODE'), 'no row', 'a lock that the gateway will wait for');
	$c->send(ask('acme', 's', 'not cancelled'));
	ok(eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $gateway AND wait_event_type = 'Lock'") eq '1'; }), '... and waits for');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($gateway)");
	$holder->query('ROLLBACK');
	is(MwClient::word_of($c->result), 'not cancelled', 'pg_cancel_backend of a gateway that waits changes nothing');
	is(gateways('postgres'), $gateway, '... and it goes on');
	my @busy = map { client() } 1 .. 4;
	my $storm = admin();
	$storm->send("DO \$\$BEGIN FOR i IN 1 .. 100000000 LOOP PERFORM pg_cancel_backend($gateway); END LOOP; END\$\$");
	my %w;
	for my $round (1 .. rounds(50))
	{
		$busy[$_]->send(ask('acme', undef, "storm $round", options => { cache => 'off' })) for 0 .. $#busy;
		$w{ MwClient::word_of($_->result(30)) eq "storm $round" ? 'answered' : 'lost' }++ for @busy;
	}
	$storm->cancel;
	is(MwClient::word_of($storm->result), '57014', 'cancels that came all the time');
	is(join(' ', keys %w), 'answered', '... nor do they where they do not stop');
	is(gateways('postgres'), $gateway, '... and it goes on');
	$holder->query('BEGIN');
	sleep 0.5;
	is($holder->word('LOCK TABLE mw.attempt IN SHARE MODE'), 'no row', 'a lock that stays');
	is(client()->word(ask('acme', 's', 'waits too long')), '55P03', '... is not waited for longer than for half a second');
	$holder->query('ROLLBACK');
	money_holds($node, 'a gateway that is cancelled');
}

$node->append_conf('postgresql.conf', "mw.gateway_idle = '1s'");
$node->reload;
works('before it is idle');
ok(eventually(sub { return gateways() eq ''; }, 20), 'an idle gateway leaves');
works('and is back at the next call');
$node->append_conf('postgresql.conf', "mw.gateway_idle = '300s'");
$node->reload;
{
	# calls that arrive while it leaves
	my @c = map { client() } 1 .. 8;
	for my $round (1 .. rounds(8))
	{
		my ($pid) = gateways('postgres');
		$_->send(ask('acme', undef, "leaving $round", options => { cache => 'off' })) for @c[ 0 .. 3 ];
		kill 'TERM', $pid if $pid;
		$_->send(ask('acme', undef, "leaving $round", options => { cache => 'off' })) for @c[ 4 .. 7 ];
		my %w;
		$w{ MwClient::word_of($_->result(30)) }++ for @c;
		delete $w{"leaving $round"};
		is(join(' ', grep { !/^(MW402|57P01)$/ } keys %w), '', "round $round: callers of a gateway that leaves are served or told");
	}
	works('and the next is served');
	money_holds($node, 'a gateway that leaves');
}

# ---------- two databases ----------

make_db('second');
works('another database has its own gateway', dbname => 'second');
works('and the first still works');
is(scalar(split / /, gateways()), 2, 'two gateways side by side');
is($node->safe_psql('second', "SELECT count(*) FROM mw.ledger"), '1', 'each with its own ledger');
{
	# the same names in two databases are different budgets and request_ids
	$node->safe_psql($_, "SELECT mw_set_budget('acme', 'requests', 2, session => 'b')") for qw(postgres second);
	for my $db (qw(postgres second))
	{
		my $c = client(dbname => $db);
		is(join(' ', map { $c->word(ask('acme', 'b', "budget $db $_", request_id => "same $_")) } 1 .. 3), "budget $db 1 budget $db 2 MW301", "the same names in $db");
	}
}

# ---------- what wants a database to itself ----------

works('a gateway runs in it', dbname => 'second');
my $t = time;
is($node->psql('postgres', 'CREATE DATABASE copy TEMPLATE second'), 0, 'CREATE DATABASE … TEMPLATE of a database whose gateway runs');
works('the copy works', dbname => 'copy');
works('so does the original', dbname => 'second');
is($node->safe_psql('copy', 'SELECT count(*) > 1 FROM mw.ledger'), 't', 'the copy has the ledger of the original');
is($node->psql('postgres', 'ALTER DATABASE copy RENAME TO renamed'), 0, 'ALTER DATABASE … RENAME');
works('the renamed one works', dbname => 'renamed');
is($node->psql('postgres', 'DROP DATABASE renamed'), 0, 'DROP DATABASE');
cmp_ok(time - $t, '<', 20, 'none of them waited for the gateway to be idle');
{
	$up->reset({ m => [ { text => 'held', hold => \1, repeat => 9 } ] });
	my $c = client(dbname => 'second');
	$c->send(ask('acme', undef, 'dropped'));
	$up->wait(requests => 1);
	$c->drop;
	is($node->psql('postgres', 'DROP DATABASE second WITH (FORCE)'), 0, 'DROP DATABASE … FORCE with a call in flight');
	$up->reset({}, mode => 'echo');
	works('and the other database does not notice');
}
# the name again: nothing of the old database is left in shared memory
make_db('second');
is(client(dbname => 'second')->word(ask('acme', 'b', 'budget again')), 'budget again', 'a new database of the same name starts afresh');

# ---------- DROP EXTENSION ----------
{
	$up->reset({ m => [ { text => 'before the drop', hold => \1 } ] });
	my $c = client(dbname => 'second');
	$c->send(ask('acme', undef, 'dropping'));
	$up->wait(requests => 1);
	my $drop = MwClient->new($node, dbname => 'second');
	$drop->send('DROP EXTENSION mw CASCADE');
	sleep 0.5;
	is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_activity WHERE pid = ' . $drop->pid), 'active', 'DROP EXTENSION waits for a call in flight');
	$up->release;
	is(MwClient::word_of($c->result), 'before the drop', '... which ends');
	is(MwClient::word_of($drop->result(30)), 'no row', '... and then it drops');
	$up->reset({}, mode => 'echo');
	is(client(dbname => 'second')->word(ask('acme', undef, 'gone')), '42883', 'the functions are gone');
	$node->safe_psql('second', 'CREATE EXTENSION mw');
	$node->server(llm => $up->base_url, dbname => 'second');
	$node->safe_psql('second', "SELECT mw_create_tenant('acme'), mw_grant_tenant('acme', 'app')");
	works('created again, it works', dbname => 'second');
	is($node->safe_psql('second', 'SELECT count(*) FROM mw.ledger'), '1', '... with an empty ledger');
	# an idle gateway does not keep it waiting, nor does a cached plan of it break the next round
	is($node->psql('second', 'DROP EXTENSION mw CASCADE; CREATE EXTENSION mw;'), 0, 'DROP and CREATE in one go beside an idle gateway');
	$node->server(llm => $up->base_url, dbname => 'second');
	$node->safe_psql('second', "SELECT mw_create_tenant('acme'), mw_grant_tenant('acme', 'app')");
	works('... works too', dbname => 'second');
	money_holds($node, 'after DROP EXTENSION', dbname => 'second');
}

# ---------- what a counter knew is void with the sums it came from, however these go ----------
{
	my $afresh = sub {
		my ($how) = @_;
		$node->server(llm => $up->base_url, dbname => 'second') if $node->safe_psql('second', 'SELECT count(*) FROM pg_foreign_server') eq '0';
		$node->safe_psql('second', "SELECT mw_create_tenant('acme'), mw_grant_tenant('acme', 'app')") if $node->safe_psql('second', 'SELECT count(*) FROM mw.tenant') eq '0';
		$node->safe_psql('second', "SELECT mw_set_budget('acme', 'requests', 2)");
		my $c = client(dbname => 'second');
		is(join(' ', map { $c->word(ask('acme', 's', "$how $_")) } 1 .. 3), "$how 1 $how 2 MW301", "$how: two requests of two pass");
		money_holds($node, $how, dbname => 'second');
	};
	for my $how ([ 'DROP SCHEMA', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC' ],
		[ 'DROP OWNED', 'DROP OWNED BY installer CASCADE' ], [ 'a rollback of either', 'BEGIN; DROP EXTENSION mw CASCADE; ROLLBACK; DROP EXTENSION mw CASCADE' ])
	{
		$node->safe_psql('second', "DO \$\$BEGIN CREATE ROLE installer SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END\$\$");
		$node->psql('second', 'DROP EXTENSION IF EXISTS mw CASCADE; SET ROLE installer; CREATE EXTENSION mw');
		$afresh->("before $how->[0]");
		$node->safe_psql('second', $how->[1]);
		$node->safe_psql('second', 'CREATE EXTENSION mw');
		$afresh->("after $how->[0]");
	}
	# a database with the number of one that was dropped
	$node->psql('second', 'DROP EXTENSION mw CASCADE; CREATE EXTENSION mw');
	my $oid = 99_999;
	$node->safe_psql('postgres', 'CREATE DATABASE kept TEMPLATE second');
	for my $n (1, 2)
	{
		$node->safe_psql('postgres', 'DROP DATABASE second');
		$node->safe_psql('postgres', "CREATE DATABASE second TEMPLATE kept OID $oid");
		$afresh->("copy $n of that number");
	}
	$node->safe_psql('postgres', 'DROP DATABASE kept');
	$node->safe_psql('second', 'DROP OWNED BY installer CASCADE; DROP ROLE installer');
}

# ---------- DROP EXTENSION beside calls that do not stop coming ----------
{
	$up->reset({}, mode => 'echo');
	my $again = sub {
		$node->safe_psql('second', 'CREATE SCHEMA IF NOT EXISTS held AUTHORIZATION keeper; GRANT USAGE ON SCHEMA held TO PUBLIC; SET ROLE keeper; CREATE EXTENSION mw SCHEMA held');
		$node->server(llm => $up->base_url, dbname => 'second');
		$node->safe_psql('second', "SELECT mw_create_tenant('acme'), mw_grant_tenant('acme', 'app'), mw_set_budget('acme', 'tokens', 'Infinity', session => '*')");
	};
	$node->safe_psql('second', q{CREATE ROLE keeper SUPERUSER; ALTER DATABASE second SET search_path = public, held});
	$node->safe_psql('second', 'DROP EXTENSION IF EXISTS mw CASCADE; CREATE TABLE public.ended (code text, message text, n bigserial); GRANT INSERT ON public.ended TO app; GRANT USAGE ON SEQUENCE public.ended_n_seq TO app');
	$again->();
	my @busy = map { client(dbname => 'second') } 1 .. 8;
	$_->send(q{DO $$DECLARE until timestamptz = clock_timestamp() + interval '8 s';
		BEGIN
			WHILE clock_timestamp() < until LOOP
				BEGIN
					EXECUTE format('SELECT mw_ask(%L, %L, %L, model => %L, request_id => %L)', 'acme', 's' || (random() * 3)::int, 'x' || random(), 'llm:m', 'busy-' || random());
				EXCEPTION WHEN OTHERS THEN
					INSERT INTO public.ended VALUES (SQLSTATE, SQLERRM);
				END;
				COMMIT;
			END LOOP;
		END$$}) for @busy;
	my @drops;
	for my $drop (('DROP EXTENSION mw CASCADE') x 2, ('DROP SCHEMA held CASCADE; CREATE SCHEMA held AUTHORIZATION keeper; GRANT USAGE ON SCHEMA held TO PUBLIC') x 2, ('DROP OWNED BY keeper CASCADE') x 2)
	{
		sleep 0.7;
		my (undef, undef, $err) = $node->psql('second', $drop, stderr => \my $said);
		push @drops, $said =~ /ERROR/ ? $said : 'dropped';
		$again->() if $drops[-1] eq 'dropped';
	}
	is("@drops", join(' ', ('dropped') x 6), 'DROP EXTENSION, of its schema and of its owner find their turn beside callers');
	is(join(' ', map { MwClient::word_of($_->result(60)) } @busy), join(' ', ('no row') x @busy), '... who all end');
	is($node->safe_psql('second', q{SELECT string_agg(DISTINCT code || ' ' || message, '; ') FROM public.ended WHERE code NOT IN ('42883', '42704', 'MW001', 'MW101', '42501') }), '', '... and who get a clear error, or an answer');
	money_holds($node, 'after all this', dbname => 'second');
}

# ---------- a gateway that is stopped keeps nobody beyond his deadline ----------
{
	works('there is a gateway');
	my $pid = gateways('postgres');
	$up->reset({ m => [ { text => 'late', hold => \1 }, { text => 'x', repeat => 9 } ] });
	my ($sent, $queued) = map { client() } 1, 2;
	$sent->send(ask('acme', 'stopped', 'sent', request_id => 'stopped-sent', options => { timeout => 2 }));
	$up->wait(requests => 1);
	kill 'STOP', $pid;
	$queued->send(ask('acme', 'stopped', 'queued', request_id => 'stopped-queued', options => { timeout => 1 }));
	is_error($queued->result(30), 'MW404', 'a call that a stopped gateway has not seen', detail => qr/Nothing was sent/, hint => qr/pg_terminate_backend/);
	is_error($sent->result(30), 'MW404', 'a call that it has sent', detail => qr/outcome unknown/);
	kill 'CONT', $pid;
	$up->release;
	is($queued->word(ask('acme', 'stopped', 'queued', request_id => 'stopped-queued')), 'x', 'the first is asked again');
	ledger_is($node, "request_id = 'stopped-queued'", 'ok', '... and was not sent before');
	ok(eventually(sub { return ledger($node, "request_id = 'stopped-sent'") =~ /^(ok|unknown)$/ }), '... the other comes to its end');
	money_holds($node, 'a stopped gateway');
	$up->reset({}, mode => 'echo');
}

# ---------- open transactions of administrators stall nobody ----------
for my $act (
	[ 'a purge', "SELECT mw_purge_cache('acme')" ],
	[ 'a dropped tenant', "SELECT mw_drop_tenant('acme')" ],
	[ 'a changed limit', "SELECT mw_set_budget('acme', 'tokens', 1000000)" ],
	[ 'a changed setting', q{SELECT mw_alter_tenant('acme', '{"cache": false}')} ],
	[ 'a grant', "SELECT mw_grant_tenant('acme', 'pg_monitor')" ],
	[ 'a new tenant', "SELECT mw_create_tenant('new')" ],
	[ 'a guard', "SELECT mw_create_guard('g', 'xyzzy')" ])
{
	my ($name, $sql) = @$act;
	my $open = admin();
	$open->query('BEGIN');
	$open->value($sql);
	my $text = 'beside ' . ++$serial;
	my $c = client();
	$c->query("SET statement_timeout = '5s'");
	is($c->word(ask('other', 's', $text, options => { cache => 'off' })), $text, "$name in an open transaction: other tenants' calls go on");
	is($c->word(ask('acme', 's', $text, options => { cache => 'off' })), $text, "... and the tenant's own, which it has not reached yet");
	is($open->word('ROLLBACK'), 'no row', "... ROLLBACK");
	is($c->word(ask('acme', 's', "$text again")), "$text again", '... after which all is as it was');
}
{
	# a caller's transaction that stays open after its call
	my $open = client();
	$open->query('BEGIN');
	$open->value(ask('acme', 's', 'open', request_id => 'open'));
	my $c = client();
	$c->query("SET statement_timeout = '5s'");
	is($c->word(ask('acme', 's', 'beside an open caller')), 'beside an open caller', 'a caller whose transaction stays open stalls nobody');
	# nor one that locks the rows and tables it can see
	my $lock = admin();
	$lock->query('BEGIN');
	$lock->query('SELECT * FROM mw.spent FOR UPDATE');
	my $t0 = time;
	my $word = $c->word(ask('other', 's', 'beside a row lock', options => { cache => 'off', timeout => 4 }));
	like($word, qr/^(beside a row lock|55P03|MW\d+)$/, "a superuser who locks the gateway's rows: $word, not for ever");
	cmp_ok(time - $t0, '<', 4, '... the gateway waits for a short lock_timeout');
	$lock->query('ROLLBACK');
	is($c->word(ask('other', 's', 'after the lock', options => { cache => 'off' })), 'after the lock', '... and it goes on');
	$open->query('COMMIT');
	money_holds($node, 'open transactions');
}
{
	# dropped while its call is in flight: nothing of it stays
	$node->safe_psql('postgres', "SELECT mw_create_tenant('brief'), mw_grant_tenant('brief', 'app')");
	$up->reset({ m => [ { text => 'late', hold => \1 } ] });
	my $c = client();
	$c->send(ask('brief', 's', 'in flight', request_id => 'brief'));
	$up->wait(requests => 1);
	$node->safe_psql('postgres', "SELECT mw_drop_tenant('brief')");
	$up->release;
	$c->result;
	# what was still in flight at the drop is swept every minute, and when a gateway starts
	my $old = gateways('postgres');
	$up->reset({}, mode => 'echo');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($old)");
	eventually(sub { return gateways('postgres') ne $old; });
	works('another gateway');
	ok(eventually(
			sub {
				return $node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM mw.attempt WHERE tenant = 'brief') + (SELECT count(*) FROM mw.spent WHERE tenant = 'brief')
					+ (SELECT count(*) FROM mw.answer WHERE tenant = 'brief') + (SELECT count(*) FROM mw.cache WHERE tenant = 'brief') + (SELECT count(*) FROM mw.result WHERE tenant = 'brief')}) eq '0';
			}, 30), 'a tenant dropped while its call was in flight leaves no row');
	$node->safe_psql('postgres', "SELECT mw_create_tenant('brief'), mw_grant_tenant('brief', 'app')");
	is(client()->word(ask('brief', 's', 'another', request_id => 'brief')), 'another', 'a new tenant of that name has nothing of it');
}

# ---------- stopping and starting ----------
for my $mode ('fast', 'immediate')
{
	$up->reset({ m => [ { text => 'held', hold => \1, repeat => 50 } ] });
	my @c = map { client() } 1 .. 20;
	$c[$_]->send(ask('acme', undef, "call $_", request_id => "$mode $_")) for 0 .. $#c;
	$up->wait(requests => 20);
	my $t0 = time;
	$node->stop($mode);
	cmp_ok(time - $t0, '<', 5, "$mode shutdown with 20 calls in flight takes less than 5 s");
	is(scalar(grep { my $r = $_->result; $r->{closed} || $r->{error} } @c), 20, '... the callers are told');
	$node->start;
	$up->reset({}, mode => 'echo');
	works("... the first call after the start");
	is($node->safe_psql('postgres', "SELECT count(*) FROM mw.ledger WHERE request_id LIKE '$mode %' AND outcome = 'unknown' AND billed_tokens > 0"), '20', '... and what was in flight is unknown and charged');
	money_holds($node, "$mode shutdown");
}

# ---------- a standby ----------
{
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	$node->wait_for_catchup($standby);
	$up->reset({}, mode => 'echo');
	my $c = MwClient->new($standby, user => 'app');
	is_error($c->query(ask('acme', undef, 'on a standby')), '25006', 'a call on a hot standby');
	is_error($c->query(ask('acme', undef, 'on a standby', request_id => 'standby')), '25006', '... with a request_id');
	is($up->count->{requests}, 0, '... without an HTTP request');
	cmp_ok($c->value('SELECT count(*) FROM mw.ledger'), '>', 0, '... where the ledger can be read');
	is($c->word("SELECT mw_redact('mail bob\@example.com')->>'text'"), 'mail <EMAIL_0>', '... and the pure pieces work');
	my $explain = $c->query(q{SELECT string_agg(stage, ' ') FROM mw_explain('acme', NULL, 'on a standby', model => 'llm:m')});
	is(MwClient::word_of($explain), 'redact guardrail budget cache retry model', '... and mw_explain');
	$c->query('SELECT * FROM mw.budget_status');
	is($c->value('SELECT count(*) FROM mw.queue'), '0', '... and the views');
	$standby->promote;
	is(MwClient->new($standby, user => 'app')->word(ask('acme', undef, 'promoted')), 'promoted', 'after promotion it calls');
	$standby->stop;

	my $ro = client();
	$ro->query('BEGIN READ ONLY');
	is_error($ro->query(ask('acme', undef, 'read only')), '25006', 'a call in a read-only transaction');
	is($up->count->{requests}, 1, '... without an HTTP request');
}

# ---------- no worker slot ----------
{
	$node->append_conf('postgresql.conf', "max_worker_processes = 1\nmax_logical_replication_workers = 0");
	$node->restart;
	works('one worker slot: the first database');
	is_error(client(dbname => 'second')->query(ask('acme', undef, 'no slot')), 'MW003', 'one worker slot: the second database', hint => qr/max_worker_processes/);
	works('... the first goes on');
	$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
}

# ---------- single-user mode ----------
{
	$node->stop;
	my ($out, $err) = ('', '');
	my $in = "SELECT mw_ask('acme', NULL, 'single', model => 'llm:m')\n";
	IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	like("$out$err", qr/ERROR: .*single-user mode/i, 'single-user mode: a clear error');
	unlike("$out$err", qr/PANIC|TRAP|signal/, '... and nothing worse');
	$node->start;
	works('... and afterwards as before');
}

# ---------- not preloaded ----------
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
	$node->restart;
	my $c = client();
	is_error($c->query(ask('acme', undef, 'not preloaded')), 'MW003', 'not preloaded', hint => qr/shared_preload_libraries = 'mw'/);
	is_error($c->query(ask('acme', 's', 'not preloaded')), 'MW003', '... with a session', hint => qr/shared_preload_libraries/);
	is_error($c->query(ask('acme', 's', 'not preloaded', request_id => 'np')), 'MW003', '... with a session and a request_id', hint => qr/shared_preload_libraries/);
	is($c->word("SELECT mw_redact('mail bob\@example.com')->>'text'"), 'mail <EMAIL_0>', '... the pure pieces work');
	is(admin()->word("SELECT mw_create_tenant('np')"), '', '... and administration');
	is(admin()->word("SELECT mw_purge_cache('np')"), '', '... a purge too');
	is(admin()->word("SELECT mw_drop_tenant('np')"), '', '... a drop too');
	cmp_ok($c->value('SELECT count(*) FROM mw.ledger'), '>', 0, '... and reading');
	is($c->value('SELECT count(*) FROM mw.queue'), '0', '... the queue is empty');
	is_error(admin()->query("SELECT mw.bench_record('acme', 1)"), 'MW003', '... a bare record', hint => qr/shared_preload_libraries/);
	is(MwClient::word_of($c->query(q{SELECT mw_cache_key('acme', '[{"role": "user", "content": "x"}]') ~ '^[0-9a-f]{32}$'})), 't', '... and the cache key');
}

log_is_clean($node, undef, KILL => 1);
$node->stop;
done_testing();
