# A tenant's retention: old rows of the ledger leave it in batches with the answers that they paid for and with stored
# results; what they add up to stays, to the token, whoever is killed meanwhile; no other tenant loses a row.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCheck;
use MwClient;
use MwClock;
use MwNode;
use MwUpstream;

my $DAY = 86400;
my $up = MwUpstream->start;
my $clock = MwClock->new;
my $node = MwNode->new('retention', start => 0, conf => "mw.gateway_idle = '300s'\nrestart_after_crash = on\ninclude_if_exists = 'fault.conf'");
{
	local %ENV = (%ENV, $clock->env);
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION mw');
$node->server(llm => $up->base_url);
$node->tenant($_, 'app') for qw(acme other);
$node->safe_psql('postgres', q{
	SELECT mw_set_budget(tenant, 'tokens', 'Infinity', session => '*'), mw_set_budget(tenant, 'requests', 1000, per => 'month'),
		mw_alter_tenant(tenant, '{"retry": 2}') FROM mw.tenant;
	SELECT mw_set_price('llm:m', 1, 2, valid_from => '-infinity')});
my $app = MwClient->new($node, user => 'app');
my $admin = MwClient->new($node);

sub sweep
{
	# a purge has the gateway sweep at once, and does nothing else here
	$admin->value("SELECT mw_purge_cache('other')");
	return;
}
sub rows { my ($tenant) = @_; return $admin->value("SELECT count(*) FROM mw.ledger WHERE tenant = '$tenant'"); }
sub sums
{
	return $admin->value(q{SELECT string_agg(concat_ws(' ', tenant, session, requests, tokens, trim_scale(cost), excess_tokens, month_requests), '; ' ORDER BY tenant, session) FROM mw.spent});
}
sub findings { return $admin->value('SELECT coalesce(string_agg(c::text, chr(10)), \'\') FROM mw_check() AS c'); }

# ---------- forty days ago, and now ----------

sub traffic
{
	my ($when, $offset) = @_;
	$clock->jump($offset);
	for my $tenant (qw(acme other))
	{
		$up->reset({ m => [ { text => 'kept', usage => { prompt_tokens => 50, completion_tokens => 3000 } }, { status => 503 }, { text => 'second', usage => { prompt_tokens => 50, completion_tokens => 10 } }, { hold => \1 } ] });
		is($app->word(ask($tenant, 's1', "$when named", request_id => "$when named", options => { max_tokens => 100 })), 'kept', "$when: $tenant: a named call, whose bill is above its reservation");
		is($app->word(ask($tenant, "s $when", "$when hit", options => { max_tokens => 100 })), 'second', "$when: $tenant: a call of two attempts");
		is($app->word(ask($tenant, "s $when", "$when hit", options => { max_tokens => 100 })), 'second', "$when: $tenant: a hit");
		is($app->word(ask($tenant, undef, "$when lost", request_id => "$when lost", options => { max_tokens => 100, timeout => 1 })), 'MW404', "$when: $tenant: an unknown outcome");
		$up->release;
	}
	return;
}
traffic('then', -40 * $DAY);
traffic('now', 0);
my ($acme, $other) = (rows('acme'), rows('other'));
my $sums = sums();
is($acme, $other, 'two tenants with the same history');
sweep();
is(rows('acme'), $acme, 'without the setting everything stays');

# ---------- what may be set ----------

for my $wrong ('30', '"1 hour"', '-5', '"soon"', 'true')
{
	is_error($admin->query(qq{SELECT mw_alter_tenant('acme', '{"retention": $wrong}')}), $wrong eq '"soon"' ? '22007' : 'MW001', "retention: $wrong");
}

# ---------- the ledger lets them go ----------

my $left = $admin->value(q{
	SELECT string_agg(concat_ws(' ', session, n, requests, excess), '; ' ORDER BY session) FROM (
		SELECT s.session, count(*) AS n, sum(billed_requests) AS requests, sum(CASE outcome WHEN 'unknown' THEN 0 ELSE greatest(billed_tokens - reserved_tokens, 0) END) AS excess
		FROM mw.attempt AS a CROSS JOIN LATERAL (SELECT '' AS session UNION ALL SELECT a.session WHERE a.session IS NOT NULL) AS s
		WHERE tenant = 'acme' AND started_at < now() - interval '30 days' GROUP BY s.session) AS old});
like($left, qr/^ 5 4 2\d{3}; s then 2 1 0; s1 1 1 2\d{3}$/, 'what is old: attempts, requests, excess');
$admin->value(q{SELECT mw_alter_tenant('acme', '{"retention": "30 days"}')});
my $budget = $admin->value(q{SELECT string_agg(b::text, ' ' ORDER BY b::text) FROM (SELECT tenant, session, unit, per, amount, settled, excess FROM mw.budget_status) AS b});
sweep();
ok(eventually(sub { return rows('acme') == $acme / 2; }), 'what is older than thirty days goes');
is($admin->value(q{SELECT min(started_at) > now() - interval '1 day' FROM mw.ledger WHERE tenant = 'acme'}), 't', '... and nothing else');
is(rows('other'), $other, '... and of no other tenant');
is(sums(), $sums, 'all sums stay');
is($admin->value(q{SELECT string_agg(b::text, ' ' ORDER BY b::text) FROM (SELECT tenant, session, unit, per, amount, settled, excess FROM mw.budget_status) AS b}), $budget, '... and so do budgets');
is(findings(), '', 'ledger, what left it and sums agree');
is($admin->value(q{SELECT string_agg(concat_ws(' ', session, attempts, requests, excess_tokens), '; ' ORDER BY session) FROM mw.pruned WHERE tenant = 'acme'}),
	$left, 'what left it, by scope');
is($admin->value(q{SELECT string_agg(request_id, ' ' ORDER BY request_id) FROM mw.answer WHERE tenant = 'acme'}), 'now named', 'recorded answers go with the attempts that paid for them');
ok(eventually(sub { return $admin->value(q{SELECT string_agg(request_id, ' ' ORDER BY request_id) FROM mw.result WHERE tenant = 'acme'}) eq 'now named'; }), 'stored results go by their age');
is($app->value(q{SELECT sum(attempts) FROM mw.pruned}), '8', 'a role sees its tenants there');
is($node->safe_psql('postgres', 'CREATE ROLE stranger; SET ROLE stranger; SELECT count(*) FROM mw.pruned'), '0', '... and nobody else does');

$up->reset({ m => [ { text => 'anew', repeat => 9 } ] });
is($app->word(ask('acme', 's1', 'now named', request_id => 'now named', options => { max_tokens => 100 })), 'kept', 'a request_id within it gets its stored result');
is($app->word(ask('acme', undef, 'now lost', request_id => 'now lost', options => { max_tokens => 100 })), 'MW502', '... or is known to be unknown');
is($app->word(ask('acme', undef, 'then lost', request_id => 'then lost', options => { max_tokens => 100 })), 'anew', 'an older one is a new request');

# ---------- many, and a gateway that is killed between ----------

# a hand's own rows, as a restored dump would bring them: 3000 attempts of a year ago that cost nothing
$admin->value(q{
	INSERT INTO mw.attempt (tenant, run_id, call, attempt, request_id, request_named, turn, purpose, model, started_at, finished_at, outcome, reserved_tokens, reserved_requests, admitted_at)
	SELECT 'acme', overlay(overlay(gen_random_uuid()::text PLACING left(h, 8) FROM 1 FOR 8) PLACING right(h, 4) FROM 10 FOR 4)::uuid, 1, 1, 'old ' || i, false, 1, 'answer', 'llm:m', t, t, 'failed', 10, 1, t
	FROM (SELECT i, now() - interval '1 year' + i * interval '1 s' AS t FROM generate_series(1, 3000) AS i) AS o
	CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM o.t) * 1000)::bigint), 12, '0') AS h) AS x});
my $young = rows('acme') - 3000;
my $row = MwClient->new($node);
$row->query(q{BEGIN; SELECT FROM mw.result WHERE tenant = 'acme' FOR UPDATE});
reload_fault($node, 'sweep:crash:3');
sweep();
ok(eventually(sub { return ($admin->query('SELECT 1')->{closed} // 0) == 1; }), 'the gateway dies in a batch, and the server with it');
wait_recovered($node);
reload_fault($node, '');
($admin, $app) = (MwClient->new($node), MwClient->new($node, user => 'app'));
cmp_ok(rows('acme'), '>', $young, 'some are left');
is(findings(), '', '... and everything adds up');
is($app->word(ask('acme', 's1', 'after', options => { max_tokens => 100 })), 'anew', 'the next call starts a gateway');
ok(eventually(sub { return rows('acme') == $young + 1; }), '... which goes on where it was');
is(findings(), '', '... and everything adds up at the end');
is($admin->value(q{SELECT attempts FROM mw.pruned WHERE tenant = 'acme' AND session = ''}), '3005', '... to the last row');

# a setting that was written by hand and makes no sense stops its own tenant alone
$admin->value(q{UPDATE mw.tenant SET settings = settings || '{"retention": "soon"}' WHERE tenant = 'acme'});
$admin->value(q{SELECT mw_alter_tenant('other', '{"retention": "30 days"}')});
ok(eventually(sub { sweep(); return rows('other') == $other / 2; }), 'another tenant\'s rows go');
is(findings(), '', '... and everything adds up');

# a dropped tenant leaves nothing of it
$admin->value(q{SELECT mw_drop_tenant('other')});
ok(eventually(sub { return $admin->value(q{SELECT (SELECT count(*) FROM mw.pruned WHERE tenant = 'other') + (SELECT count(*) FROM mw.attempt WHERE tenant = 'other')}) == 0; }), 'a drop takes the sums of what is gone with it');

log_is_clean($node, undef, KILL => 1);
$node->stop;
done_testing();
