# What extensions that call out have died of: memory and descriptors left behind by errors, a backlog that floods, a
# segmentation fault that takes the tables with it, calls that hold locks while they wait, a failure that is tried for ever.
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
my $node = MwNode->new('extension', conf => "mw.gateway_idle = '300s'\nrestart_after_crash = on\nmax_connections = 100");
$node->server(llm => $up->base_url, breaker => 'off', retry_reserve => 9999);
$node->tenant(acme => 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 3, "base": 0.001, "max": 0.002}}');
	SELECT mw_set_budget('acme', 'tokens', 'Infinity', session => '*')});
my $faults = !($node->psql('postgres', q{SELECT mw_count_tokens('x'); SET mw.fault = 'nowhere:error'}))[0];
$node->safe_psql('postgres', q{SELECT mw_count_tokens('x'); GRANT SET ON PARAMETER mw.fault TO app}) if $faults;
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');
my $serial = 0;
my %off = (options => { cache => 'off' });

sub gateway { return $admin->value(q{SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'mw gateway'}); }
sub status_kb { my ($pid, $field) = @_; my ($kb) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^$field:\s+(\d+)/m; return $kb; }
sub descriptors { my ($pid) = @_; my @fds = glob "/proc/$pid/fd/*"; return scalar @fds; }

# ---------- X01, X16: errors at every step of a call, with large answers ----------

my @ends = ('SELECT 1', ($faults ? map { "SET mw.fault = '$_'" } qw(args:error reserve:error cache_get:oom http_send:error http_wait:error http_body:error http_body:oom parse:error parse:oom return:error) : ()));
sub rounds_of_errors
{
	my ($n) = @_;
	my %got;
	for my $i (1 .. $n)
	{
		$app->query($ends[ $i % @ends ]);
		$got{ MwClient::word_of($app->query(ask('acme', undef, 'large ' . ++$serial, %off))) =~ /^(\w{5})$/ ? $1 : 'answer' }++;
		$app->query("SET mw.fault = ''") if $faults;
		# and one whose caller is cancelled in the middle
		next if $i % 10;
		$app->query(q{SET statement_timeout = '3ms'});
		$app->query(ask('acme', undef, 'large ' . ++$serial, %off));
		$app->query(q{RESET statement_timeout});
	}
	eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0' });
	return \%got;
}
$up->reset({ '*' => [ { text => 'x' x 200_000, repeat => 1_000_000 } ] });
rounds_of_errors(60);
my ($back, $gate) = ($app->pid, gateway());
my @before = map { [ status_kb($_, 'RssAnon'), descriptors($_) ] } $back, $gate;
my $got = rounds_of_errors(rounds(300));
my @after = map { [ status_kb($_, 'RssAnon'), descriptors($_) ] } $back, $gate;
ok(!$faults || ($got->{XX000} // 0) > 100, 'errors were raised at every step: ' . join ' ', map { "$_=$got->{$_}" } sort keys %$got);
for my $i (0, 1)
{
	my $who = $i ? 'the gateway' : 'the backend';
	cmp_ok($after[$i][0] - $before[$i][0], '<', 5 * 1024, "$who keeps no memory of them (kB)");
	cmp_ok($after[$i][1] - $before[$i][1], '<=', 4, "... and no descriptor");
}
is($app->word(ask('acme', undef, 'the next', %off)), 'x' x 200_000, 'the same backend goes on');
money_holds($node, 'after the errors');

# ---------- X03: a million patterns in one statement ----------

{
	my $c = MwClient->new($node, user => 'app');
	my $sql = q{SELECT count(mw_redact('mail ana' || i || '@example.com, call +1 202 555 0143', 'acme')) FROM generate_series(1, %d) AS i};
	$c->query(sprintf $sql, 2000);
	my $small = status_kb($c->pid, 'VmHWM');
	is($c->value(sprintf $sql, 200_000), '200000', 'two hundred thousand texts in one statement');
	cmp_ok(status_kb($c->pid, 'VmHWM') - $small, '<', 8 * 1024, '... take no more memory than two thousand (kB)');
}

# ---------- X09: a backlog ----------

$up->reset({}, mode => 'echo');
$node->safe_psql('postgres', q{INSERT INTO mw.cache (tenant, key, model, epoch, created_at, expires_at, body)
	SELECT 'acme', decode(md5(i::text), 'hex'), 'llm:m', 0, now() - '2 days'::interval, now() - '1 day'::interval, '{}' FROM generate_series(1, 20000) AS i});
$gate = gateway();
$node->safe_psql('postgres', q{SELECT mw_purge_cache('acme')});
my $answered = 0;
for (1 .. 40) { my $p = 'beside a backlog ' . ++$serial; $answered++ if $app->word(ask('acme', undef, $p, %off)) eq $p; }
is($answered, 40, 'calls are answered while a backlog of 20000 rows is cleared away');
ok(eventually(sub { return $admin->value(q{SELECT count(*) FROM mw.cache WHERE created_at < now() - '1 day'::interval}) eq '0' }, 120), '... which it is');
is(gateway(), $gate, '... by the same gateway');

# ---------- X18: what callers hold while they wait ----------

{
	$up->reset({ '*' => [ { text => 'late', hold => \1, repeat => 20 } ] });
	my @c = map { MwClient->new($node, user => 'app') } 1 .. 20;
	$_->send(ask('acme', 's' . $_->pid, 'stalled ' . ++$serial, %off, request_id => "stalled-$serial")) for @c;
	ok($up->wait(requests => 20), 'twenty callers wait');
	is($admin->value(q{SELECT string_agg(DISTINCT locktype || ' ' || mode || ' ' || coalesce(relation::regclass::text, ''), ', ')
		FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE usename = 'app' AND locktype <> 'virtualxid' AND mode <> 'AccessShareLock'}), undef, '... and hold no lock that anybody waits for');
	is($admin->value(q{SELECT count(*) FROM pg_locks WHERE NOT granted}), '0', '... nor does anybody wait');
	is($admin->value(q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active' AND wait_event_type = 'Extension'}), '20', '... and the server says what they wait for');
	$admin->query('CREATE TABLE unrelated AS SELECT generate_series(1, 1000) AS i');
	ok(!$admin->query('VACUUM unrelated')->{error}, 'a VACUUM is not held up');
	ok(!$admin->query(q{SELECT mw_set_budget('acme', 'requests', 1000000)})->{error}, 'nor a change of the tenant\'s limits');
	$up->release;
	is(join(' ', map { MwClient::word_of($_->result) } @c), join(' ', ('late') x 20), 'all are answered');
}

# ---------- X20: what fails for good fails so often and no more ----------

$up->reset({ '*' => [ { status => 500, repeat => 1_000_000 } ] });
my $from = $admin->value('SELECT count(*) FROM mw.attempt');
is($app->word(ask('acme', undef, 'the same failure', %off, request_id => "fails-$_")), 'MW402', "a call that always fails $_") for 1 .. 3;
is($admin->value('SELECT count(*) FROM mw.attempt') - $from, 9, 'as many attempts as were allowed, and none by anybody else');
sleep 1;
is($up->count->{requests}, 9, 'nor does one come later');

# ---------- X13: every end has its word ----------

$up->reset({ m => [ { text => 'ok' } ], p401 => [ { status => 401 } ], p429 => [ { status => 429, repeat => 9 } ], bad => [ { raw => 'x' } ], cut => [ { disconnect => 'mid_body', text => 'x' } ],
	late => [ { text => 'x', delay_ms => 3000 } ] });
my %end = (m => 'ok ok', p401 => 'MW401 failed', p429 => 'MW402 failed', bad => 'MW405 failed', cut => 'MW402 unknown', late => 'MW404 unknown');
for my $m (sort keys %end)
{
	my $w = $app->word(ask('acme', undef, 'ends', model => "llm:$m", request_id => "end-$m", options => { cache => 'off', timeout => 1 }));
	is($w . ' ' . $admin->value("SELECT string_agg(DISTINCT outcome, ',') FROM mw.ledger WHERE request_id = 'end-$m'"), $end{$m}, "the end of $m is on record");
}
is($admin->value(q{SELECT count(*) FROM mw.ledger WHERE outcome IS NULL OR outcome NOT IN ('ok', 'failed', 'unknown') OR finished_at IS NULL OR error IS NULL AND outcome <> 'ok'}), '0', 'every row says how it ended, and why where it did not end well');

# ---------- X10: a segmentation fault ----------

is($admin->value(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'mw'::regnamespace AND relkind IN ('r', 'i', 'p') AND relpersistence <> 'p'}), '0', 'every table of mw is logged');
{
	$up->reset({ '*' => [ { echo => \1, hold => \1, repeat => 21 }, { echo => \1, repeat => 1000 } ] });
	my $rows = $admin->value('SELECT count(*) FROM mw.ledger');
	my @c = map { MwClient->new($node, user => 'app') } 1 .. 21;
	$_->send(ask('acme', undef, 'in a crash ' . ++$serial, %off, request_id => "crash-$serial")) for @c;
	ok($up->wait(requests => 21), 'twenty-one calls are under way');
	$MwClient::LOST{ $c[0]->pid } = 1;
	kill 'SEGV', $c[0]->pid;
	is(scalar(grep { my $r = $_->result(60); $r->{closed} || $r->{error} } @c), 21, 'one backend dies of SIGSEGV, and the server takes all with it');
	ok(wait_recovered($node), 'it comes back by itself');
	$up->release;
	($admin, $app) = (MwClient->new($node), MwClient->new($node, user => 'app'));
	is($app->word(ask('acme', undef, 'after the crash', %off)), 'after the crash', 'the first call needs nobody\'s help');
	is($admin->value('SELECT count(*) FROM mw.ledger'), $rows + 22, 'no row of the ledger is lost');
	is($admin->value(q{SELECT count(*) FROM mw.ledger WHERE request_id ~ '^crash-' AND outcome = 'unknown'}), '21', '... and what was under way is unknown');
	is($app->word(ask('acme', undef, "in a crash $serial", %off, request_id => "crash-$serial")), 'MW502', '... and not sent again');
	money_holds($node, 'after the crash');
}
log_is_clean($node, undef, KILL => 1, signal => 11);

done_testing();
