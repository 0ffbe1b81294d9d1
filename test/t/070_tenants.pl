# Tenants never meet (invariant 3): what tenant B can see of tenant A through every table, view,
# function, plan, statistic, error text and notification is nothing; and no setting, pooler, role
# change or cached plan makes a role wider than its grants.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep);
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('tenants', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url, key => 'sk-tenants');
# markers that stand in nothing else
my ($A, $B) = ('alpha-MARKER', 'beta');
$node->tenant($A, 'a');
$node->tenant($B, 'b');
my $admin = MwClient->new($node);
my $a = MwClient->new($node, user => 'a');
my $b = MwClient->new($node, user => 'b');

# A has something in everything
$admin->value("SELECT mw_set_budget('$A', 'requests', 100, session => 'session-MARKER')");
$admin->value("SELECT mw_create_guard('guard-MARKER', 'pattern-MARKER', tenant => '$A')");
$admin->value("SELECT mw_create_recognizer('MARKER', 'MARKER-[0-9]+', tenant => '$A')");
is($a->word(ask($A, 'session-MARKER', 'prompt-MARKER to ana@example.com', request_id => 'request-MARKER')), 'prompt-MARKER to ana@example.com', 'A calls');
is($a->word(ask($A, 'session-MARKER', 'cached-MARKER')), 'cached-MARKER', 'A caches');
$admin->value("SELECT mw_purge_cache('$B')");
$admin->query('ANALYZE');
# and one call of it is in flight all the time
$up->reset([ { match => 'flight', step => { text => 'flight-MARKER', hold => \1 } } ], mode => 'echo');
my $flying = MwClient->new($node, user => 'a');
$flying->send(ask($A, 'session-MARKER', 'flight-MARKER', request_id => 'flight-MARKER', options => { timeout => 600 }));
$up->wait(requests => 1);

sub all_text
{
	my ($r) = @_;
	return join "\n", (map { join ' | ', map { $_ // '' } @$_ } @{ $r->{rows} }),
	  (map { join ' ', %$_ } @{ $r->{notices} }), $r->{error} ? join(' ', map { $_ // '' } @{ $r->{error} }{qw(M D H W q)}) : ();
}

# What comes back, the statement's own words aside
sub sees_nothing
{
	my ($sql, $name) = @_;
	my $r = $b->query($sql);
	return unlike(all_text($r), qr/MARKER/, $name // substr($sql, 0, 120));
}

# ---------- everything that can be read ----------

my @relations = map { $_->[0] } @{ $admin->query("SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'mw'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1")->{rows} };
cmp_ok(scalar @relations, '>=', 20, scalar(@relations) . ' relations');
my %full = map { $_ => $admin->value("SELECT count(*) FROM $_ AS t WHERE t::text ~ 'MARKER'") } @relations;
cmp_ok($full{"mw.$_"} // 0, '>', 0, "mw.$_ holds something of A") for qw(tenant tenant_grant budget guard recognizer attempt spent answer cache result ledger usage budget_status queue cache_entries);
for my $t (@relations)
{
	sees_nothing("SELECT t::text FROM $t AS t", "B reads $t");
	sees_nothing("SELECT count(*) FILTER (WHERE t::text ~ 'MARK' || 'ER') || ' rows of MARK' || 'ER' FROM $t AS t HAVING count(*) FILTER (WHERE t::text ~ 'MARK' || 'ER') > 0", "B counts $t");
	sees_nothing("SELECT row_to_json(t) FROM ONLY $t AS t FOR SHARE", "B locks rows of $t");
	sees_nothing("EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM $t", "B explains $t");
}
# a condition of B's own runs before the policy only where it leaks nothing
$b->query(q{CREATE FUNCTION pg_temp.spy(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$BEGIN RAISE NOTICE 'spied %', t; RETURN true; END$$});
for my $t (grep { $full{$_} } @relations)
{
	my $col = $admin->value("SELECT attname FROM pg_attribute WHERE attrelid = '$t'::regclass AND attname IN ('tenant') LIMIT 1") or next;
	sees_nothing("SELECT * FROM $t WHERE pg_temp.spy($col)", "B's leaky function on $t");
	sees_nothing("SELECT * FROM $t WHERE ($col || '/0')::int > 0", "B's casting error on $t");
	my $plan = join "\n", map { $_->[0] } @{ $b->query("EXPLAIN SELECT * FROM $t WHERE $col = '$A'")->{rows} };
	unlike($plan, qr/rows=(?!0|1|2|3|4|5\b)\d{2,}/, "an estimate for A's name in $t tells nothing");
}
for my $catalog (qw(pg_stats pg_stats_ext pg_stat_user_tables pg_policies pg_locks pg_foreign_server pg_user_mappings pg_stat_activity pg_prepared_statements pg_cursors pg_settings pg_shdescription pg_listening_channels()))
{
	my $r = $b->query("SELECT t::text FROM $catalog AS t");
	unlike(all_text($r), qr/MARKER/, "B reads $catalog");
}
sees_nothing('SELECT srvname, srvoptions, umoptions FROM pg_user_mappings', 'user mappings');
unlike(all_text($b->query('SELECT umoptions FROM pg_user_mappings')), qr/sk-tenants/, 'the key is not shown to B');
is($b->word('SELECT * FROM pg_statistic'), '42501', 'the raw statistics are closed');
is($b->word('SELECT * FROM mw.secret'), '42501', "the database's key is closed");
is($admin->value(q{SELECT count(*) FROM pg_statistic AS s JOIN pg_class AS c ON c.oid = s.starelid WHERE c.relnamespace = 'mw'::regnamespace AND (stavalues1::text ~ 'MARKER' OR stavalues2::text ~ 'MARKER' OR stavalues3::text ~ 'MARKER')}),
	'0', 'ANALYZE keeps no names and texts');

# ---------- everything that can be called ----------

my @probes = (
	ask($A, undef, 'x'), ask($A, 'session-MARKER' =~ s/MARKER/\$/r, 'x'), invoke($A, undef, 'x'),
	"SELECT * FROM mw_explain('$A', NULL, 'x', model => 'llm:m')", "SELECT mw_redact('x', '$A')", "SELECT mw_guard('x', '$A')",
	"SELECT mw_cache_key('$A', '[{\"role\": \"user\", \"content\": \"x\"}]')", "SELECT mw_channel('$A')");
for my $sql (@probes)
{
	my $r = $b->query($sql);
	is_error($r, 'MW101', substr $sql, 0, 60);
	# a tenant that does not exist looks the same but for the name that was asked for
	(my $none = $sql) =~ s/alpha-MARKER/absent-MARK/g;
	my $n = $b->query($none);
	my ($x, $y) = map { join "\n", map { my $s = $_ // ''; $s =~ s/alpha-MARKER|absent-MARK/NAME/g; $s =~ s/request_id: \S+//g; $s } @{ $_->{error} }{qw(C M D H)} } $r, $n;
	is($x, $y, '... as for a tenant that does not exist');
}
is($up->count->{requests}, 1, 'none of that left');
for my $f (map { $_->[0] } @{ $admin->query(q{SELECT p.oid::regprocedure FROM pg_proc AS p JOIN pg_depend AS d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension AS e ON e.oid = d.refobjid
	WHERE e.extname = 'mw' AND p.prorettype <> 'trigger'::regtype AND d.classid = 'pg_proc'::regclass ORDER BY 1})->{rows} })
{
	my $public = $admin->value("SELECT has_function_privilege('b', '$f', 'EXECUTE')");
	next if $public eq 't';
	(my $call = $f) =~ s/\((.*)\)$/'(' . join(', ', map { "NULL::$_" } split m{,}, $1) . ')'/e;
	# a strict one of NULLs is not called at all
	like($b->word("SELECT $call"), qr/^(42501|NULL)$/, "B may not call $f");
}
is($b->value("SELECT mw.may_act('$A')"), 'f', 'may_act(A)');
is($b->value("SELECT mw.may_act('$B')"), 't', 'may_act(B)');
is($b->value("SELECT mw.may_act('*')") . $b->value("SELECT mw.may_act('')"), 'ff', "may_act of '*' and of nothing");

# B's own under A's names: apart, and not told that they are taken
is($b->word(ask($B, 'session-MARKER', 'prompt-MARKER to ana@example.com', request_id => 'request-MARKER')), 'prompt-MARKER to ana@example.com', "B under A's request_id and prompt is served");
is($up->count->{requests}, 2, '... by a request of its own: no cache, no recorded answer, no stored result of A');
is($b->word(ask($B, 'other', 'cached-MARKER')), 'cached-MARKER', "B asks what A's cache holds");
is($up->count->{requests}, 3, '... and pays for it');
is($b->word(ask($B, 'session-MARKER', 'flight-MARKER', request_id => 'flight-MARKER', options => { timeout => 1 })), 'MW404', "B asks what A has in flight");
is($up->count->{requests}, 4, '... with a request of its own');
$b->query('BEGIN');
$b->query(ask($B, undef, 'claims', request_id => 'claimed'));
{
	my $other = MwClient->new($node, user => 'a');
	$other->query("SET statement_timeout = '5s'");
	is($other->word(ask($A, undef, 'claims', request_id => 'claimed')), 'claims', "A does not wait for B's claim of the same name");
}
$b->query('COMMIT');
is($b->value("SELECT string_agg(DISTINCT tenant, ' ') FROM mw.ledger"), $B, "B's ledger is B's");

# ---------- writing ----------

for my $t (map { "mw.$_" } qw(tenant tenant_grant budget model recognizer guard purge result attempt spent answer cache fake_attempt fake_spent fake_answer fake_cache))
{
	is($b->word("DELETE FROM $t"), '42501', "B may not delete from $t");
	is($b->word("INSERT INTO $t DEFAULT VALUES"), '42501', "... nor insert");
	is($b->word("UPDATE $t SET tenant = '$B'"), '42501', "... nor update");
	is($b->word("TRUNCATE $t"), '42501', "... nor truncate");
}
is($b->word('CREATE TABLE mw.planted (x int)'), '42501', 'B may not create in schema mw');
is($b->word("ALTER SERVER llm OPTIONS (SET base_url 'http://127.0.0.1:9/v1')"), '42501', "B may not point A's requests elsewhere");
is($b->word("CREATE USER MAPPING FOR PUBLIC SERVER llm OPTIONS (api_key 'x')"), '42501', 'B may not map a key for everybody');

# ---------- settings, pools and roles ----------

my $pool_role = "CREATE ROLE pool LOGIN NOINHERIT; GRANT a, b TO pool; CREATE ROLE heir LOGIN IN ROLE a; CREATE ROLE distant LOGIN IN ROLE pool; CREATE ROLE all_of_them LOGIN; SELECT mw_grant_tenant('*', 'all_of_them')";
$admin->query($_) for split /; /, $pool_role;
sub visible { my ($c) = @_; my $r = $c->query("SELECT string_agg(tenant, ' ' ORDER BY tenant) FROM mw.tenant"); return $r->{error} ? $r->{error}{C} : $r->{rows}[0][0] // 'none'; }

is(visible(MwClient->new($node, user => 'heir')), $A, 'a role that inherits from a granted one');
is(visible(MwClient->new($node, user => 'pool')), 'none', 'a NOINHERIT login has nothing of its own');
is(visible(MwClient->new($node, user => 'distant')), 'none', '... nor what inherits from it');
is(visible(MwClient->new($node, user => 'all_of_them')), "$A $B", "a role that was granted '*'");
is(visible($admin), "$A $B", 'a superuser sees all');
{
	# a pooler: one connection, many roles, prepared statements that outlive them
	my $pool = MwClient->new($node, user => 'pool');
	$pool->query('PREPARE seen AS SELECT coalesce(string_agg(DISTINCT tenant, \' \'), \'none\') FROM mw.ledger');
	$pool->query("PREPARE one (text) AS SELECT count(*) FROM mw.ledger WHERE tenant = \$1");
	for my $mode ('auto', 'force_generic_plan', 'force_custom_plan')
	{
		$pool->query("SET plan_cache_mode = $mode");
		for my $round (1 .. 7)
		{
			for my $case ([ a => $A, $B ], [ b => $B, $A ], [ none => 'none', $A ])
			{
				my ($role, $sees, $not) = @$case;
				$pool->query("SET ROLE $role") if $role ne 'none';
				is($pool->word('EXECUTE seen'), $sees, "pool as $role, $mode, round $round") if $round > 5 || $pool->word('EXECUTE seen') ne $sees;
				is($pool->word("EXECUTE one ('$not')"), '0', "... not the other's") if $round > 5 || $pool->word("EXECUTE one ('$not')") ne '0';
				$pool->query('RESET ROLE');
			}
		}
	}
	$pool->query('SET ROLE a');
	is($pool->word(ask($A, undef, 'pooled')), 'pooled', 'a call as one role');
	$pool->query('SET ROLE b');
	is_error($pool->query(ask($A, undef, 'pooled')), 'MW101', '... and as the next');
	is($pool->word(ask($B, undef, 'pooled')), 'pooled', '... its own');
	$pool->query('BEGIN; SET LOCAL ROLE a');
	is(visible($pool), $A, 'SET LOCAL ROLE');
	$pool->query('ROLLBACK');
	is(visible($pool), $B, '... ends with its transaction');
	$pool->query('RESET ROLE');
	# a cursor opened as one role and read as another
	$pool->query('SET ROLE a');
	$pool->query('BEGIN; DECLARE cur CURSOR FOR SELECT tenant FROM mw.tenant');
	$pool->query('SET ROLE b');
	unlike($pool->word('FETCH cur'), qr/MARKER/, "a cursor that A opened shows B nothing of A's");
	$pool->query('ROLLBACK; RESET ROLE');
}
{
	my $s = MwClient->new($node, user => 'b');
	for my $sql ("SET ROLE a", "SET SESSION AUTHORIZATION a", "SET row_security = off", "SET mw.tenant = '$A'", "SET mw.tenant = '*'", "SET search_path = pg_temp, public",
		"SET mw.max_prompt = 262144", "SET session_replication_role = replica", "SET mw.allowed_hosts = ''", "SET mw.synchronous_commit = off", "SET mw.anything = '$A'")
	{
		$s->query('RESET ALL');
		$s->query($sql);
		my $r = $s->query("SELECT coalesce(string_agg(tenant, ' '), 'none') FROM mw.tenant");
		unlike(all_text($r), qr/MARKER/, "$sql widens nothing");
		is_error($s->query(ask($A, undef, 'x')), 'MW101', "... nor for a call");
	}
	$s->query('RESET ALL');
	$s->query("SET row_security = off");
	is($s->word('SELECT count(*) FROM mw.ledger'), '42501', 'row_security = off raises, as PostgreSQL has it');
	is($s->word(ask($B, undef, 'row security off')), 'row security off', '... and a call does not mind');
	$s->query('RESET ALL');
	# shadows in the search path
	$s->query("CREATE TEMP TABLE tenant_grant (tenant text, grantee regrole)");
	$s->query("CREATE FUNCTION pg_temp.may_act(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'");
	$s->query("CREATE TEMP TABLE pg_class AS SELECT * FROM pg_catalog.pg_class LIMIT 0");
	$s->query("SET search_path = pg_temp, mw, public, pg_catalog");
	is(visible($s), $B, 'shadowed names change nothing');
	is($s->word(ask($B, undef, 'shadow')), 'shadow', '... nor for a call');
	is_error($s->query(ask($A, undef, 'shadow')), 'MW101', '... nor for a foreign one');
}
{
	my $s = MwClient->new($node, user => 'all_of_them');
	$s->query("SET mw.tenant = '$B'");
	is(visible($s), $B, 'mw.tenant narrows');
	is_error($s->query(ask($A, undef, 'x')), 'MW101', '... calls too', hint => qr/mw\.tenant/);
	is($s->word(ask($B, undef, 'narrow')), 'narrow', '... and lets its own through');
	$admin->query("SET mw.tenant = '$B'");
	is_error($admin->query(ask($A, undef, 'x')), 'MW101', 'a superuser too');
	$admin->query('RESET mw.tenant');
}

# ---------- while a call runs, may_act holds for its tenant alone ----------
{
	# a function of the caller's in the row that the call reads: the session's policy is asked inside a call
	my $s = MwClient->new($node, user => 'all_of_them');
	$admin->query('CREATE TABLE public.seen (what text); GRANT ALL ON public.seen TO PUBLIC');
	# an own adapter for the moment of a call: a trigger on a table that mw writes within it
	$admin->query(q{CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO public.seen SELECT current_user || ' sees ' || coalesce(string_agg(DISTINCT tenant, ' '), 'none') FROM mw.tenant WHERE mw.may_act(tenant);
			INSERT INTO public.seen SELECT 'attempts of ' || coalesce(string_agg(DISTINCT tenant, ' '), 'none') FROM mw.attempt WHERE mw.may_act(tenant);
			RETURN NEW;
		END$$});
	$admin->query('CREATE TRIGGER look BEFORE INSERT ON mw.result FOR EACH ROW EXECUTE FUNCTION public.look()');
	is($s->word(ask($B, undef, 'looks', request_id => 'looks')), 'looks', 'a call by a role that may act for all tenants');
	my $seen = $admin->value("SELECT string_agg(what, '; ') FROM public.seen");
	like($seen, qr/sees $B; attempts of $B$/, "inside it an internal query without its WHERE sees one tenant: $seen");
	$admin->value('ALTER TABLE mw.result DISABLE TRIGGER look');
	is(visible($s), "$A $B", 'after it, all again');
	# an error inside a call does not leave it narrowed, nor a caught one
	$up->rules({ match => 'broken', step => { status => 400 } });
	is_error($s->query(ask($B, undef, 'broken')), 'MW401', 'a call that fails');
	is(visible($s), "$A $B", '... leaves nothing behind');
	(my $perform = ask($B, undef, 'broken')) =~ s/^SELECT/PERFORM/;
	$s->query("DO \$\$BEGIN $perform; EXCEPTION WHEN SQLSTATE 'MW401' THEN NULL; END\$\$");
	is(visible($s), "$A $B", '... nor where it was caught');
}

# ---------- changed grants hold at once ----------
{
	my $s = MwClient->new($node, user => 'b');
	is($s->value("SELECT mw.may_act('$A')"), 'f', 'before the grant');
	$admin->value("SELECT mw_grant_tenant('$A', 'b')");
	is($s->value("SELECT mw.may_act('$A')"), 't', 'after the grant');
	$admin->value("SELECT mw_revoke_tenant('$A', 'b')");
	is($s->value("SELECT mw.may_act('$A')"), 'f', 'after the revoke');
	$admin->query('GRANT a TO b');
	is($s->value("SELECT mw.may_act('$A')"), 't', 'after a membership');
	$admin->query('REVOKE a FROM b');
	is($s->value("SELECT mw.may_act('$A')"), 'f', 'after its end');
	$admin->query("BEGIN");
	$admin->query("SELECT mw_grant_tenant('$A', 'b')");
	is($s->value("SELECT mw.may_act('$A')"), 'f', 'a grant that is not committed');
	$admin->query("PREPARE TRANSACTION 'grant'");
	is($s->value("SELECT mw.may_act('$A')"), 'f', '... only prepared');
	$admin->query("COMMIT PREPARED 'grant'");
	is($s->value("SELECT mw.may_act('$A')"), 't', '... committed by two-phase commit');
	$admin->value("SELECT mw_revoke_tenant('$A', 'b')");
	$s->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$s->value('SELECT count(*) FROM mw.ledger');
	$admin->value("SELECT mw_grant_tenant('$A', 'b')");
	$admin->value("SELECT mw_revoke_tenant('$A', 'b')");
	is_error($s->query(ask($A, undef, 'x')), 'MW101', 'a revoke holds in an old snapshot');
	$s->query('ROLLBACK');
}

# ---------- notifications ----------
{
	my $channel = $a->value("SELECT mw_channel('$A')");
	unlike($channel, qr/MARKER/, "the name of A's channel tells nothing");
	isnt($channel, $b->value("SELECT mw_channel('$B')"), "and is not B's");
	like($channel, qr/^[a-z_0-9]+$/, '... and can be listened to');
	$b->query("LISTEN $_") for qw(mw mw_alpha);
	$a->value(ask($A, undef, 'notifies', options => { cache => 'off' }));
	$b->value('SELECT 1');
	is(scalar @{ $b->{notifications} // [] }, 0, 'B hears nothing');
}

# ---------- the doctor tells superusers and BYPASSRLS roles apart ----------
{
	$admin->query('CREATE ROLE sees_all LOGIN BYPASSRLS');
	$admin->value("SELECT mw_grant_tenant('$B', 'sees_all')");
	my $doctor = all_text($admin->query('SELECT * FROM mw_doctor()'));
	like($doctor, qr/sees_all|BYPASSRLS/i, 'mw_doctor names a granted role that bypasses row-level security');
}

$up->release;
is(MwClient::word_of($flying->result), 'flight-MARKER', "A's call was there all the time");
money_holds($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
