# A provider that is down or dying: its circuit breaker is one for all backends and tenants, lets exactly one try, is given
# back by whoever leaves, hears nothing that is a caller's own fault, and costs nobody money.
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
my $node = MwNode->new('server_down', conf => "mw.gateway_idle = '300s'\nclient_connection_check_interval = '100ms'");
# open for longer than this file takes, but where a test wants to see the end of it
my %patient = (breaker_cooldown => 3000, retry_reserve => 9999);
$node->server(llm => $up->base_url, %patient);
$node->server(quick => $up->session('quick')->base_url, breaker_cooldown => 1, retry_reserve => 9999);
$node->server(stall => $up->session('stall')->base_url, %patient, stall_timeout => 0.2, breaker_failures => 2);
$node->tenant(a => 'app_a');
$node->tenant(b => 'app_b');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 1}}') FROM mw.tenant});
my $admin = MwClient->new($node);
my $quick = $up->session('quick');
my $serial = 0;
my %off = (options => { cache => 'off' });

sub caller_of { my ($tenant) = @_; return MwClient->new($node, user => "app_$tenant"); }
sub call { my ($tenant, %o) = @_; return ask($tenant, undef, 'down ' . ++$serial, %off, %o); }
sub state_of { my ($server) = @_; return $admin->value("SELECT state || ' ' || failures FROM mw.breaker WHERE server = " . quote($server)); }
sub reset_breaker { $admin->value("SELECT mw_reset_breaker('$_')") for @_; return; }

# opens the breaker of a server with as many failures as it takes
sub open_breaker
{
	my ($server, $mock, $n) = @_;
	$mock->reset({ '*' => [ { status => 503, repeat => 1000 } ] });
	my $c = caller_of('a');
	is($c->word(call('a', model => "$server:m")), 'MW402', "$server fails") for 1 .. $n;
	is(state_of($server), "open $n", "... and its breaker is open");
	return;
}

# ---------- one breaker for all ----------

my $a = caller_of('a');
$up->reset({ '*' => [ { text => 'cached' }, { status => 503, repeat => 1000 } ] });
is($a->word(ask('a', undef, 'kept')), 'cached', 'an answer that the cache keeps');
is(caller_of($_ % 2 ? 'a' : 'b')->word(call($_ % 2 ? 'a' : 'b')), 'MW402', "failure $_ of five, each a backend of its own") for 1 .. 5;
is(state_of('llm'), 'open 5', 'their breaker is open');
my $sent = $up->count->{requests};
for my $tenant (qw(a b))
{
	my $c = caller_of($tenant);
	my $from = time;
	is_error($c->query(call($tenant)), 'MW403', "no backend of tenant $tenant sends now", detail => qr/^Nothing was sent\. It opened at .* after 5 failures in a row; the next attempt is let through at /,
		hint => qr/SELECT mw_reset_breaker\('llm'\)/);
	cmp_ok(time - $from, '<', 5, '... and it is told at once');
}
is($up->count->{requests}, $sent, 'nothing was sent');
is($a->word(ask('a', undef, 'kept')), 'cached', 'what is cached is answered all the same');
is($admin->value(q{SELECT count(*) FROM mw.attempt WHERE outcome = 'running'}), '0', 'no attempt was written for it');
$admin->value(q{SELECT mw_set_budget('b', 'requests', (SELECT requests + 1 FROM mw.spent WHERE tenant = 'b' AND session = ''))});
is(caller_of('b')->word(call('b')), 'MW403', "refused with one request left $_") for 1 .. 2;
is($admin->value(q{SELECT count(*) FROM mw.budget_status WHERE reserved <> 0}), '0', 'it keeps nothing reserved');

is($a->value(q{SELECT string_agg(server || ' ' || state, ', ' ORDER BY server) FROM mw.breaker}), 'llm open, quick closed, stall closed', 'callers see the breakers of the servers that they may use');
is_error($a->query(q{SELECT mw_reset_breaker('llm')}), '42501', 'closing one is for administrators');
$node->server(secret => $up->base_url);
$node->safe_psql('postgres', 'REVOKE USAGE ON FOREIGN SERVER secret FROM PUBLIC');
is($a->value(q{SELECT count(*) FROM mw.breaker WHERE server = 'secret'}), '0', 'and of no other');
is($admin->value(q{SELECT status || ' ' || detail FROM mw_doctor() WHERE name = 'breakers'}), 'warning The circuit breakers of these servers are open, and calls to them are refused: llm.', 'mw_doctor warns');
reset_breaker('llm');
$up->reset({ '*' => [ { text => 'up again', repeat => 1000 } ] });
is(caller_of('b')->word(call('b')), 'up again', 'an administrator closes it for all, and the one request was left');
$admin->value(q{SELECT mw_set_budget('b', 'requests', NULL)});

open_breaker('llm', $up, 5);
$node->safe_psql('postgres', q{ALTER SERVER llm OPTIONS (SET breaker_cooldown '3001')});
is(state_of('llm'), 'closed 0', 'a server that is altered begins afresh');

# ---------- exactly one tries ----------

open_breaker('quick', $quick, 5);
$quick->reset({ '*' => [ { text => 'back', hold => \1 }, { text => 'back', repeat => 1000 } ] });
$node->safe_psql('postgres', 'SELECT pg_sleep(extract(epoch FROM retry_at - clock_timestamp()) + 0.01) FROM mw.breaker WHERE server = ' . quote('quick'));
my @all = map { caller_of($_ % 2 ? 'a' : 'b') } 1 .. 24;
my $i = 1;
$_->send(call($i++ % 2 ? 'a' : 'b', model => 'quick:m')) for @all;
ok($quick->wait(requests => 1), 'one of many callers is the probe');
ok(eventually(sub { return $admin->value(q{SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename LIKE 'app%'}) eq '1' }), 'all others are refused while it waits');
is($quick->count->{requests}, 1, '... and have sent nothing');
is(state_of('quick'), 'half-open 5', '... the view says why');
$quick->release;
my %words;
$words{ $_->result->{error}{C} // 'answered' }++ for @all;
is_deeply(\%words, { MW403 => 23, answered => 1 }, 'one was answered');
is(state_of('quick'), 'closed 0', '... and closed it');
is(caller_of('a')->word(call('a', model => 'quick:m')), 'back', 'so that all are let through');

# ---------- whoever leaves gives the probe back ----------

for my $how (qw(cancel terminate drop timeout deadline))
{
	open_breaker('quick', $quick, 5);
	$quick->reset({ '*' => [ { text => 'late', hold => \1 }, { text => 'back', repeat => 1000 } ] });
	$node->safe_psql('postgres', 'SELECT pg_sleep(extract(epoch FROM retry_at - clock_timestamp()) + 0.01) FROM mw.breaker WHERE server = ' . quote('quick'));
	my $probe = caller_of('a');
	my $pid = $probe->pid;
	$probe->query(q{SET statement_timeout = '300ms'}) if $how eq 'timeout';
	$probe->send(call('a', model => 'quick:m', $how eq 'deadline' ? (options => { cache => 'off', timeout => 0.3 }) : ()));
	ok($quick->wait(requests => 1), "$how: a probe is under way");
	$probe->cancel if $how eq 'cancel';
	$admin->value("SELECT pg_terminate_backend($pid)") if $how eq 'terminate';
	$probe->drop if $how eq 'drop';
	is(MwClient::word_of($probe->result), 'MW404', "$how: it ends by its own deadline") if $how eq 'deadline';
	ok(eventually(sub { return state_of('quick') eq 'open 5' }), "$how: it is given back");
	is(caller_of('b')->word(call('b', model => 'quick:m')), 'back', "$how: the next caller tries at once, without a cool-down");
	is(state_of('quick'), 'closed 0', "$how: ... and closes it");
	$quick->release;
	ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0' }), "$how: what the first had sent comes to its end");
	is(state_of('quick'), 'closed 0', "$how: ... and changes nothing any more");
}

# ---------- what opens it ----------

for my $case ([ 'cut before any byte', { disconnect => \1 } ], [ 'cut inside the body', { text => 'x', disconnect => 'mid_body' } ], [ 'an error inside a 200', { error_in_200 => { message => 'x', code => 503 } } ])
{
	my ($name, $step) = @$case;
	# a kept connection that dies unused was not sent, and says nothing: none is kept
	$up->reset({ '*' => [ { text => 'x', close => \1 }, { %$step, close => \1, repeat => 1000 } ] });
	reset_breaker('llm');
	is($a->word(call('a')), 'x', 'an answer that ends its connection');
	is($a->word(call('a')), 'MW402', $name) for 1 .. 5;
	is(state_of('llm'), 'open 5', "... $name: opens it");
}
$up->session('stall')->reset({ '*' => [ { text => 'x' x 1000, drip_ms => 1000, drip_bytes => 1, repeat => 1000 } ] });
is($a->word(call('a', model => 'stall:m')), 'MW402', 'an answer that stalls') for 1 .. 2;
is(state_of('stall'), 'open 2', '... opens it');
my $gone = MwUpstream->start;
$node->server(gone => $gone->base_url, %patient);
$gone->stop;
is($a->word(call('a', model => 'gone:m')), 'MW402', 'a connection that is refused') for 1 .. 5;
is($a->word(call('a', model => 'gone:m')), 'MW403', '... opens it');

# ---------- and what does not ----------

for my $case (
	[ 'a 401', { status => 401 }, 'MW401' ], [ 'a 403', { status => 403 }, 'MW401' ], [ 'a 429', { status => 429 }, 'MW402' ], [ 'a 400', { status => 400 }, 'MW401' ],
	[ 'an answer that is none', { raw => 'no json' }, 'MW405' ], [ 'an answer over the limit', { text => 'x', infinite => \1 }, 'MW402' ])
{
	my ($name, $step, $code) = @$case;
	reset_breaker('llm');
	$up->reset({ '*' => [ { %$step, repeat => 1000 } ] });
	$node->safe_psql('postgres', q{ALTER SERVER llm OPTIONS (ADD max_response '20000')}) if $name =~ /limit/;
	is($a->word(call('a')), $code, $name) for 1 .. 6;
	is(state_of('llm'), 'closed 0', "... $name: is no failure of the server");
}
$up->reset({ '*' => [ { text => 'slow', delay_ms => 400, repeat => 1000 } ] });
is($a->word(call('a', options => { cache => 'off', timeout => 0.15 })), 'MW404', "a caller's short deadline") for 1 .. 6;
$a->query(q{SET statement_timeout = '100ms'});
is($a->word(call('a')), '57014', 'a caller that is cancelled') for 1 .. 6;
$a->query('RESET statement_timeout');
ok(eventually(sub { return $admin->value('SELECT count(*) FROM mw.queue') eq '0' }), 'all of these come to their end');
is(state_of('llm'), 'closed 0', '... and none is a failure of the server');
is(caller_of('b')->word(call('b')), 'slow', 'nobody else is shut off');

# ---------- equal misses that wait for one another ----------

# they passed the breaker while it was closed, and wait for the first of them: that is no way round it
$node->server(shared => $up->session('shared')->base_url, breaker_cooldown => 3000, breaker_failures => 2);
my $shared = $up->session('shared');
$shared->reset({ '*' => [ { status => 503, delay_ms => 300, repeat => 1000 } ] });
@all = map { caller_of('a') } 1 .. 12;
my %ends;
$ends{ MwClient::word_of($_) }++ for MwClient->race(\@all, sub { return ask('a', undef, 'all ask the same', model => 'shared:m'); });
is($shared->count->{requests}, 2, 'of twelve equal misses two are sent: the breaker opens, and the others learn of it');
is_deeply(\%ends, { MW402 => 2, MW403 => 10 }, '... without waiting for their turn');

# ---------- a crash forgets it ----------

open_breaker('llm', $up, 5);
$node->stop('immediate');
$node->start;
$admin = MwClient->new($node);
is(state_of('llm'), 'closed 0', 'a restart begins closed');
money_holds($node, 'after all that');

done_testing();
