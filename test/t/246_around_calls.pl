# What is done to a server around calls in flight: tables that are rewritten, settings of PostgreSQL that would stop any other
# process, tables that are published, statements that come through rules and foreign tables, a standby that is promoted, a
# recovery that is killed again and again.  Calls end as they would have, each is paid once, and the money adds up.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('around', start => 0, init => [ allows_streaming => 1 ]);
# what allows_streaming lowers
$node->append_conf('postgresql.conf', "mw.gateway_idle = '300s'\nmax_connections = 100\nmax_worker_processes = 8\nwal_level = logical");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mw');
$node->server(llm => $up->base_url, breaker => 'off', retry_reserve => 9999);
$node->tenant($_, 'app') for qw(acme beta);
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": 1, "cache": false}'), mw_set_budget(tenant, 'tokens', 'Infinity', session => '*') FROM mw.tenant; SELECT mw_set_price('llm:m', 1, 2)});
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');
my %o = (options => { max_tokens => 16, timeout => 30 });

sub echo { $up->reset({}, mode => 'echo'); return; }
# holds the answer of what is said first
sub hold { $up->reset([ { match => 'held', step => { text => 'held', hold => \1, repeat => 50 } } ], mode => 'echo'); return; }
sub named { my ($id, %more) = @_; return ask('acme', 's', $id, request_id => $id, %o, %more); }
sub new_gateway
{
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mw gateway'");
	return eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'") eq '0'; });
}

# ---------- tables of mw that are rewritten ----------

for my $what ('VACUUM FULL mw.attempt', 'VACUUM FULL mw.spent', 'VACUUM FULL mw.result', 'CLUSTER mw.attempt USING attempt_pkey', 'REINDEX TABLE mw.spent',
	'REINDEX TABLE CONCURRENTLY mw.attempt', 'REINDEX TABLE CONCURRENTLY mw.answer', 'VACUUM FREEZE mw.attempt', 'ALTER TABLE mw.spent SET (fillfactor = 50)')
{
	hold();
	my ($first, $next, $it) = (MwClient->new($node, user => 'app'), MwClient->new($node, user => 'app'), MwClient->new($node));
	$first->send(named("held $what"));
	$up->wait(requests => 1);
	$it->send($what);
	eventually(sub { return $admin->value("SELECT state = 'idle' OR wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = " . $it->pid) eq 't'; });
	# one that comes while it waits, perhaps behind it
	$next->send(ask('beta', 's', "next $what", %o));
	sleep 0.1;
	$up->release;
	is(join(' ', map { MwClient::word_of($_->result(30)) } $first, $it, $next), "held no row next $what", "$what beside a call in flight");
	is($app->word(named("held $what")), 'held', '... which is found again');
	is($up->count->{requests}, 2, '... and was sent once');
	$_->close for $first, $next, $it;
}
money_holds($node, 'tables that were rewritten');

# ---------- settings of PostgreSQL for the whole database ----------

{
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_" } qw(statement_timeout=0 default_transaction_read_only=off lock_timeout=0 idle_session_timeout=0 row_security=on exit_on_error=off);
	echo();
	my $n = 0;
	for my $set ('default_transaction_read_only = on', "default_transaction_isolation = 'serializable'", "statement_timeout = '1ms'", "lock_timeout = '1ms'", "idle_session_timeout = '20ms'",
		"session_replication_role = 'replica'", 'row_security = off', "default_tablespace = 'nowhere'", "DateStyle = 'German, DMY'", "IntervalStyle = 'iso_8601'", "TimeZone = 'Pacific/Apia'",
		'standard_conforming_strings = off', 'extra_float_digits = -15', 'enable_indexscan = off', 'transform_null_equals = on', "bytea_output = 'escape'", 'exit_on_error = on')
	{
		my ($name) = split / /, $set;
		$node->safe_psql('postgres', "ALTER DATABASE postgres SET $set");
		new_gateway();
		$n++;
		# those that are the caller's own to bear are the gateway's alone here
		my $c = MwClient->new($node, user => 'app', settings => { $name =~ /timeout$/ ? ($name => 0) : $name =~ /read_only|exit_on/ ? ($name => 'off') : () });
		is(join(' ', map { $c->word(named("set $n")) } 1, 2), "set $n set $n", "ALTER DATABASE SET $set");
		$c->close;
		$node->safe_psql('postgres', "ALTER DATABASE postgres RESET $name");
	}
	is($up->count->{requests}, $n, 'each was sent once');
	money_holds($node, 'settings of the database');
}
new_gateway();
$admin = MwClient->new($node);

# ---------- tables that are published ----------

echo();
$admin->query('CREATE PUBLICATION everything FOR ALL TABLES');
is(join(' ', map { $app->word(named('published')) } 1, 2), 'published published', 'all tables are published: a call and its repeat');
for my $sql (q{mw_alter_tenant('acme', '{"cache": true}')}, q{mw_set_budget('acme', 'requests', 100000)}, q{mw_set_budget('acme', 'requests', NULL)}, q{mw_purge_cache('acme')},
	q{mw_revoke_tenant('beta', 'app')}, q{mw_grant_tenant('beta', 'app')}, q{mw_erase('acme', 's')}, q{mw_set_price('llm:m', 1, 3)}, q{mw_drop_tenant('beta')})
{
	my $r = $admin->query("SELECT $sql");
	ok(!$r->{error}, "... $sql") or diag $r->{error}{M};
}
is(join(' ', map { $app->word(ask('acme', 's', 'kept', %o)) } 1, 2), 'kept kept', '... a hit');
money_holds($node, 'published tables');
$admin->query('DROP PUBLICATION everything');
$admin->query(q{SELECT mw_alter_tenant('acme', '{"cache": false}')});

# ---------- rules and foreign tables ----------

echo();
$admin->query('CREATE TABLE public.q (id text, a text); CREATE TABLE public.copy (id text, a text); GRANT ALL ON public.q, public.copy TO app');
$admin->query('CREATE RULE twice AS ON INSERT TO public.q DO ALSO INSERT INTO public.copy VALUES (NEW.id, NEW.a)');
(my $call = named('ruled')) =~ s/^SELECT //;
is($app->word("INSERT INTO public.q VALUES ('x', $call)"), 'no row', 'a rule that has the call written twice');
is($admin->value('SELECT min(q.a) = min(c.a) FROM public.q, public.copy AS c'), 't', '... which gives one answer');
$admin->query('CREATE EXTENSION postgres_fdw; CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host ' . quote($node->host) . ', port ' . quote($node->port) . q{, dbname 'postgres');
	CREATE USER MAPPING FOR PUBLIC SERVER loop OPTIONS (user 'app', password_required 'false'); GRANT USAGE ON FOREIGN SERVER loop TO app});
$admin->query('CREATE VIEW public.asks AS ' . named('foreign') . q{ AS a; GRANT SELECT ON public.asks TO app; CREATE FOREIGN TABLE public.remote (a text) SERVER loop OPTIONS (table_name 'asks');
	GRANT SELECT ON public.remote TO app});
is(join(' ', map { $app->word('SELECT a FROM public.remote') } 1, 2), 'foreign foreign', 'a foreign table whose view asks');
is($up->count->{requests}, 2, 'each was sent once');
money_holds($node, 'rules and foreign tables');

# ---------- who waits for a transaction, and how long ----------

{
	my ($open, $waits) = map { MwClient->new($node, user => 'app') } 1, 2;
	$open->query($_) for "SET idle_in_transaction_session_timeout = '1s'", 'BEGIN', named('left open');
	$waits->query("SET lock_timeout = '100ms'");
	is($waits->word(named('left open')), '55P03', 'lock_timeout ends the wait for a request_id');
	$waits->query('RESET lock_timeout');
	is($waits->word(named('left open')), 'left open', 'a caller that left its transaction open is thrown out, and the next has its answer');
	is($admin->value(q{SELECT count(*) FROM mw.ledger WHERE request_id = 'left open'}), '1', '... that was paid for once');
}

# ---------- a standby that is promoted with calls in flight ----------

{
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('heir');
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	hold();
	my @c = map { MwClient->new($node, user => 'app') } 1 .. 5;
	$c[$_]->send(named("held for the heir $_")) for 0 .. $#c;
	$up->wait(requests => 5);
	$node->wait_for_catchup($standby);
	$standby->promote;
	my $s = MwClient->new($standby, user => 'app');
	is(join(' ', map { $s->word(named("held for the heir $_")) } 0 .. $#c), 'MW502 MW502 MW502 MW502 MW502', 'what was in flight when a standby was promoted is unknown there');
	money_holds($standby, 'promoted');
	$up->release;
	is(join(' ', map { MwClient::word_of($_->result(30)) } @c), 'held held held held held', '... and ends on the old primary');
	money_holds($node, 'the old primary');
	$standby->stop;
}

# ---------- a recovery that is killed again and again ----------

{
	hold();
	my @c = map { MwClient->new($node, user => 'app') } 1 .. 5;
	$c[$_]->send(named("held in the crash $_")) for 0 .. $#c;
	$up->wait(requests => 5);
	$admin->query('CREATE TABLE public.fat AS SELECT g, repeat(md5(g::text), 20) AS t FROM generate_series(1, 40000) g; CREATE INDEX ON public.fat (t)');
	$node->kill9;
	eval { $_->result(10) } for @c;
	for my $after (0.05, 0.1, 0.2)
	{
		PostgreSQL::Test::Utils::system_log('pg_ctl', '-W', '-D', $node->data_dir, '-l', $node->logfile, 'start');
		sleep $after;
		my ($pid) = eval { PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') } =~ /^(\d+)/ or next;
		kill 'KILL', $pid;
		eventually(sub { return !kill 0, $pid; });
		sleep 0.3;    # its children see it
	}
	unlink $node->data_dir . '/postmaster.pid';
	$node->start;
	echo();
	my $c = MwClient->new($node, user => 'app');
	is($c->word(named('after it')), 'after it', 'a recovery that was killed three times: the next call needs nobody');
	is(join(' ', map { $c->word(named("held in the crash $_")) } 0 .. $#c), 'MW502 MW502 MW502 MW502 MW502', '... and what was in flight is unknown');
	is($up->count->{requests}, 1, '... not sent again');
	money_holds($node, 'a recovery that was killed');
}
log_is_clean($node, undef, KILL => 1);
$node->stop;
done_testing();
