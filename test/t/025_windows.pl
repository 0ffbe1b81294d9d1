# Limits a minute, an hour, a day and a month, and limits on cost, over a real gateway: exact at
# the boundary and under races, whatever the clock does, after a crash in the middle of a window,
# and told once where a soft one is crossed.  The clock that budgets see is set by a fault point.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use JSON::PP;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $node = MwNode->new('windows', conf => "max_connections = 150\nmw.gateway_idle = '300s'");
$node->server(llm => $up->base_url);
$node->tenant($_, 'app') for qw(acme back berlin york azores cairo race soft sessions);
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": 1, "cache": false}'), mw_set_budget(tenant, 'tokens', 'Infinity', session => '*') FROM mw.tenant});
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('berlin', '{"timezone": "Europe/Berlin"}'), mw_alter_tenant('york', '{"timezone": "America/New_York"}'),
	mw_alter_tenant('azores', '{"timezone": "Atlantic/Azores"}'), mw_alter_tenant('cairo', '{"timezone": "Africa/Cairo"}')});
my $n = 64;
my @clients = map { MwClient->new($node, user => 'app') } 1 .. $n;
my $one = $clients[0];
my $admin = MwClient->new($node);
my %opts = (options => { max_tokens => 16 });

# Every process takes this moment for now
sub clock
{
	my ($now) = @_;
	$admin->value("ALTER SYSTEM SET mw.fault_clock = '$now'");
	$admin->value('SELECT pg_reload_conf()');
	for my $c (@clients, $admin)
	{
		eventually(sub { return $c->value('SHOW mw.fault_clock') eq $now; }) or die 'the clock was not set';
	}
	# the gateway has its own
	eventually(sub { return $admin->value("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type LIKE 'mw%'") >= 0; });
	select undef, undef, undef, 0.1;
	return;
}

sub counted { my %c; $c{ MwClient::word_of($_) }++ for @_; return join ' ', map { "$_=$c{$_}" } sort keys %c; }
sub status
{
	my ($tenant, $unit, $per, $session) = @_;
	return $admin->value("SELECT concat_ws(' ', trim_scale(settled), 'of', trim_scale(amount), 'until', resets_at AT TIME ZONE 'UTC') FROM mw.budget_status WHERE tenant = '$tenant' AND unit = '$unit' AND per = '$per' AND session IS NOT DISTINCT FROM " . quote($session));
}

# ---------- a boundary ----------

clock('2026-06-30 23:59:30+00');
$admin->value("SELECT mw_set_budget('acme', 'requests', $_->[1], per => '$_->[0]')") for [ minute => 5 ], [ hour => 7 ], [ day => 11 ], [ month => 13 ];
$up->reset({ m => [ { text => 'passes', repeat => 1000, delay_ms => 20 } ] });
is(counted(MwClient->race(\@clients, sub { ask('acme', "s$_[0]", 'one', %opts) })), 'MW301=59 passes=5', "$n connections race for 5 a minute");
is(status(qw(acme requests minute)), '5 of 5 until 2026-07-01 00:00:00', '... all of them used');
is_error($one->query(ask('acme', 's', 'more', %opts)), 'MW301', 'and no more', detail => qr/^scope tenant, unit requests, per minute, limit 5, settled 5, reserved 0, resets at /);
is(status(qw(acme requests month)), '5 of 13 until 2026-07-01 00:00:00', 'a refused call counts nowhere');
clock('2026-07-01 00:00:00+00');
is(status(qw(acme requests minute)), '0 of 5 until 2026-07-01 00:01:00', 'at the boundary it is another minute');
is(counted(MwClient->race(\@clients, sub { ask('acme', "s$_[0]", 'two', %opts) })), 'MW301=59 passes=5', 'with a budget of its own');
is(status(qw(acme requests month)), '5 of 13 until 2026-08-01 00:00:00', 'and another month');
clock('2026-07-01 00:01:00+00');
is(counted(MwClient->race(\@clients, sub { ask('acme', "s$_[0]", 'three', %opts) })), 'MW301=62 passes=2', 'the hour ends it: 7 of 7');
is_error($one->query(ask('acme', 's', 'more', %opts)), 'MW301', '... and says so', detail => qr/per hour, limit 7, settled 7/);
money_holds($node, 'over a boundary');

# a call that was admitted before it and ends after it counts where it was admitted
clock('2026-07-01 02:59:59+00');
$up->reset({ m => [ { text => 'late', hold => \1 }, { text => 'passes', repeat => 9 } ] });
my $late = MwClient->new($node, user => 'app');
$late->send(ask('acme', 'late', 'late', %opts));
$up->wait(requests => 1);
is($admin->value("SELECT reserved FROM mw.budget_status WHERE tenant = 'acme' AND per = 'minute'"), '1', 'a call in flight');
clock('2026-07-01 03:00:10+00');
is($admin->value("SELECT reserved FROM mw.budget_status WHERE tenant = 'acme' AND per = 'minute'"), '0', 'is reserved in its own minute alone');
is($one->word(ask('acme', 'late', 'next', %opts)), 'passes', 'a call of the next minute');
$up->release;
is(MwClient::word_of($late->result), 'late', 'the late answer');
is(status(qw(acme requests minute)), '1 of 5 until 2026-07-01 03:01:00', '... changes nothing in the minute of its end');
is($admin->value("SELECT requests FROM mw.spent WHERE tenant = 'acme' AND session = ''"), '14', '... and counts for ever');
money_holds($node, 'over a boundary in flight');

# ---------- clocks that go back ----------

clock('2026-07-01 03:00:05+00');
is(status(qw(acme requests minute)), '1 of 5 until 2026-07-01 03:01:00', 'some seconds back it is the same minute');
$admin->value("SELECT mw_set_budget('back', 'requests', 5, per => 'minute')");
is($one->word(ask('back', 'back', 'first', %opts)), 'passes', 'a first of five a minute');
clock('2026-07-01 02:59:50+00');
is($one->word(ask('back', 'back', 'second', %opts)), 'passes', 'a little back over the boundary: the sum waits');
clock('2026-07-01 03:00:20+00');
is(status(qw(back requests minute)), '2 of 5 until 2026-07-01 03:01:00', '... and nothing of it is lost');
clock('2026-06-20 12:00:00+00');
is($one->word(ask('back', 'back', "back $_", %opts)), 'passes', "ten days back: call $_ of what is left") for 1 .. 3;
is_error($one->query(ask('back', 'back', 'back 4', %opts)), 'MW301', '... the sum went back with it', detail => qr/per minute, limit 5, settled 5/);
clock('2026-06-20 12:01:00+00');
is($one->word(ask('back', 'back', 'back 5', %opts)), 'passes', '... and the next minute is a new one: never stuck');
money_holds($node, 'clocks that go back');

# ---------- the days on which clocks change ----------

for my $day ([ 'berlin', '2026-03-28 22:59:59+00', '2026-03-28 23:00:00+00', '2026-03-29 21:59:59+00', '2026-03-29 22:00:00+00', '23 hours in spring' ],
	[ 'berlin', '2026-10-24 21:59:59+00', '2026-10-24 22:00:00+00', '2026-10-25 22:59:59+00', '2026-10-25 23:00:00+00', '25 hours in autumn' ],
	[ 'york', '2027-03-14 04:59:59+00', '2027-03-14 05:00:00+00', '2027-03-15 03:59:59+00', '2027-03-15 04:00:00+00', '23 hours in New York' ],
	[ 'york', '2027-11-07 03:59:59+00', '2027-11-07 04:00:00+00', '2027-11-08 04:59:59+00', '2027-11-08 05:00:00+00', '25 hours in New York' ],
	[ 'cairo', '2028-04-27 21:59:59+00', '2028-04-27 22:00:00+00', '2028-04-28 20:59:59+00', '2028-04-28 21:00:00+00', '23 hours that has no midnight' ],
	[ 'azores', '2028-10-28 23:59:59+00', '2028-10-29 00:00:00+00', '2028-10-30 00:59:59+00', '2028-10-30 01:00:00+00', '25 hours with two midnights' ])
{
	my ($tenant, $before, $first, $last, $after, $name) = @$day;
	$admin->value("SELECT mw_set_budget('$tenant', 'requests', 2, per => 'day')");
	$up->reset({ m => [ { text => 'passes', repeat => 100 } ] });
	my @got;
	for my $at ($before, $first, $last, $last, $after)
	{
		clock($at);
		push @got, $one->word(ask($tenant, undef, "at $at", %opts));
	}
	is("@got", 'passes passes passes MW301 passes', "a day of $name");
}
# used up days ago, and nothing since: between two midnights that is long past
clock('2029-10-25 12:00:00+00');
is($one->word(ask('azores', undef, "used up $_", %opts)), $_ < 3 ? 'passes' : 'MW301', "Thursday on the Azores, call $_ of 2") for 1 .. 3;
clock('2029-10-28 00:30:00+00');
is($one->word(ask('azores', undef, 'on Sunday', %opts)), 'passes', 'half past midnight on Sunday, for the first time');
clock('2029-10-28 01:30:00+00');
is($one->word(ask('azores', undef, "on Sunday $_", %opts)), $_ < 2 ? 'passes' : 'MW301', "... and for the second: one day, call $_") for 1 .. 2;
clock('2026-10-25 00:30:00+00');
$admin->value("SELECT mw_set_budget('berlin', 'requests', NULL, per => 'day'), mw_set_budget('berlin', 'requests', 1, per => 'hour')");
$node->safe_psql('postgres', q{SELECT mw_create_tenant('again', '{"timezone": "Europe/Berlin", "retry": 1, "cache": false}'), mw_grant_tenant('again', 'app'), mw_set_budget('again', 'requests', 1, per => 'hour')});
is($one->word(ask('again', undef, 'a', %opts)), 'passes', 'half past two in summer time');
is($one->word(ask('again', undef, 'b', %opts)), 'MW301', '... once');
clock('2026-10-25 01:30:00+00');
is($one->word(ask('again', undef, 'c', %opts)), 'passes', 'half past two again, in winter time, is another hour');
money_holds($node, 'days on which clocks change');

# a zone that is changed loses nothing
clock('2027-12-05 12:00:00+00');
$node->safe_psql('postgres', q{SELECT mw_set_budget('york', 'requests', 3, per => 'day')});
is($one->word(ask('york', undef, 'a', %opts)), 'passes', 'at noon');
for my $zone (qw(Asia/Tokyo Pacific/Honolulu))
{
	$admin->value(qq{SELECT mw_alter_tenant('york', '{"timezone": "$zone"}')});
	is($one->word(ask('york', undef, $zone, %opts)), 'passes', "then in $zone");
}
is($one->word(ask('york', undef, 'd', %opts)), 'MW301', 'the same day still');

# ---------- a crash in the middle of a window ----------

clock('2028-01-10 10:20:30+00');
$node->safe_psql('postgres', q{SELECT mw_set_budget('race', 'requests', 10, per => 'hour'), mw_set_price('llm:m', 0, 6250, valid_from => '-infinity')});
$up->reset({ m => [ { text => 'passes', repeat => 6 }, { text => 'never', hold => \1, repeat => 9 } ] });
is($one->word(ask('race', 's', "before $_", %opts)), 'passes', "call $_ of 10 an hour") for 1 .. 6;
$late = MwClient->new($node, user => 'app');
$late->send(ask('race', 's', 'in flight', %opts));
$up->wait(requests => 7);
$node->stop('immediate');
$node->start;
$up->release;
$up->reset({ m => [ { text => 'passes', repeat => 100, usage => { prompt_tokens => 5, completion_tokens => 16 } } ] });
@clients = map { MwClient->new($node, user => 'app') } 1 .. $n;
$one = $clients[0];
$admin = MwClient->new($node);
is(counted(MwClient->race(\@clients, sub { ask('race', "s$_[0]", 'after', %opts) })), 'MW301=61 passes=3', 'after a crash: six answered, one unknown, three left');
is($admin->value("SELECT outcome || ' ' || billed_cost FROM mw.ledger WHERE tenant = 'race' AND outcome = 'unknown'"), 'unknown 0.1', 'the unknown one is charged at its reservation, in cost');
is($admin->value("SELECT trim_scale(hour_cost) FROM mw.spent WHERE tenant = 'race' AND session = ''"),
	$admin->value("SELECT trim_scale(sum(billed_cost)) FROM mw.ledger WHERE tenant = 'race'"), '... in its hour');
money_holds($node, 'after a crash in an hour');

# ROLLBACK keeps what was spent, in every window
$node->safe_psql('postgres', q{SELECT mw_set_budget('race', 'requests', NULL, per => 'hour'), mw_set_budget('race', 'cost', 100, per => 'day')});
my $was = $admin->value("SELECT trim_scale(day_cost) FROM mw.spent WHERE tenant = 'race' AND session = ''");
$one->query('BEGIN');
is($one->word(ask('race', 'r', 'rolled back', %opts)), 'passes', 'a call');
$one->query('ROLLBACK');
is($admin->value("SELECT trim_scale(day_cost - $was) FROM mw.spent WHERE tenant = 'race' AND session = ''"), '0.1', 'ROLLBACK takes nothing off the day');

# ---------- cost ----------

for my $round (1 .. rounds(3))
{
	$admin->value("SELECT mw_set_budget('sessions', 'cost', 5, session => 'c$round')");
	$up->reset({ m => [ { text => 'passes', repeat => 100, usage => { prompt_tokens => 5, completion_tokens => 16 }, $round % 2 ? () : (delay_ms => 30) } ] });
	is(counted(MwClient->race(\@clients, sub { ask('sessions', "c$round", "unit $_[0]", %opts) })), 'MW301=14 passes=50', "round $round: $n connections race for 5.00 at 0.10 each");
	is($up->count->{requests}, 50, "round $round: HTTP requests");
	is_error($one->query(ask('sessions', "c$round", 'more', %opts)), 'MW301', "round $round: and no more", detail => qr/unit cost, limit 5, settled 5, reserved 0/);
}
# a session's day, its tenant's minute and a limit on tokens at once: the least of them, and nothing is left behind
$admin->value("SELECT mw_set_budget('sessions', 'cost', 2, session => '*', per => 'day'), mw_set_budget('sessions', 'requests', 30, per => 'minute')");
clock('2028-02-02 10:20:30+00');
$up->reset({ m => [ { text => 'passes', repeat => 100, usage => { prompt_tokens => 5, completion_tokens => 16 }, delay_ms => 20 } ] });
is(counted(MwClient->race(\@clients, sub { ask('sessions', 'd' . $_[0] % 2, "unit $_[0]", %opts) })), 'MW301=34 passes=30', 'two sessions of 20 calls a day under a tenant of 30 a minute');
clock('2028-02-02 10:21:30+00');
is(counted(MwClient->race(\@clients, sub { ask('sessions', 'd' . $_[0] % 2, "unit $_[0]", %opts) })), 'MW301=54 passes=10', '... and what was left of their day in the next minute');
money_holds($node, 'cost');

# ---------- soft limits ----------

my $listener = MwClient->new($node, user => 'app');
$listener->query('LISTEN ' . $listener->value("SELECT mw_channel('soft')"));
$admin->value("SELECT mw_set_budget('soft', 'requests', 10, per => 'hour', soft => 0.5)");
$up->reset({ m => [ { text => 'passes', repeat => 100 } ] });
sub notices { return $one->value('SELECT r->>\'notices\' FROM (' . invoke('soft', undef, $_[0], %opts) . ' AS r) AS x') }
is(notices("soft $_"), '[]', "call $_: below") for 1 .. 4;
is(notices('soft 5'), '["the tenant has used 5 of its limit of 10 requests a hour"]', 'the call that reaches it tells');
is(notices('soft 6'), '["the tenant has used 6 of its limit of 10 requests a hour"]', 'as do those after it');
eventually(sub { $listener->query('SELECT 1'); return @{ $listener->{notifications} // [] } > 0; });
clock('2028-02-02 11:00:00+00');
is(notices("soft next $_"), '[]', 'in the next hour: below') for 1 .. 4;
notices('soft next 5');
eventually(sub { $listener->query('SELECT 1'); return @{ $listener->{notifications} // [] } > 1; });
my @heard = map { ref $_ ? $_->[1] : $_ } @{ $listener->{notifications} };
is(scalar @heard, 2, 'once a crossing');
like($_, qr/^\{"kind": "budget", "id": "[0-9a-f-]{36}"\}$/, 'a kind and an opaque id') for @heard;
money_holds($node, 'soft limits');

# ---------- names that callers invent ----------

my $small = MwNode->new('small', conf => "mw.max_counters = 256\nmw.gateway_idle = '300s'");
$small->server(llm => $up->base_url);
$small->tenant('acme', 'app');
$small->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": false, "retry": 1}'), mw_set_budget('acme', 'requests', 5, session => 'real', per => 'month')});
$up->reset({ m => [ { text => 'passes', repeat => 5000 } ] });
my $c = MwClient->new($small, user => 'app');
is($c->word(ask('acme', 'real', "real $_", %opts)), 'passes', "the real session, call $_") for 1 .. 3;
is($c->value("SELECT count(*) FROM generate_series(1, 1500) AS i WHERE mw_ask('acme', 'invented ' || i, 'x', model => 'llm:m', options => '{\"max_tokens\": 16}') = 'passes'"), '1500', '1500 invented names where 256 have room');
is($c->word(ask('acme', 'real', "real $_", %opts)), $_ <= 5 ? 'passes' : 'MW301', "the real session, call $_: its sum has survived") for 4 .. 6;
is($small->safe_psql('postgres', 'SELECT count(*) FROM mw_check()'), '0', 'and everything adds up');

done_testing();
