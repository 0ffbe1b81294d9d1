# The wall clock is set while calls are under way (F4): an hour back, a day ahead, a month's end.
# Waits and deadlines go by the monotonic clock, so that none ends early, late or never; only
# what a calendar is about (lifetimes of cached answers, times in the ledger) follows the wall.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCheck;
use MwClient;
use MwClock;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
my $clock = MwClock->new;
my $node = MwNode->new('clock', start => 0, conf => "mw.gateway_idle = '2s'");
sub jump { my ($seconds) = @_; return $clock->jump($seconds); }
my ($HOUR, $DAY) = (3600, 86400);
{
	local %ENV = (%ENV, $clock->env);
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION mw');
$node->server(llm => $up->base_url);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"cache": {"ttl": "2 hours"}, "retry": {"max_attempts": 3, "base": 0.02, "max": 0.1}}')});
my %off = (cache => 'off', timeout => 30);
my $serial = 0;

sub client { return MwClient->new($node, user => 'app', @_); }
sub wall { return $node->safe_psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())::bigint'); }

jump($DAY);
cmp_ok(wall() - time, '>', $DAY - 60, 'the server sees the clock that a test sets');
jump(0);

# Seconds from the first day of next month, so that the jump crosses a month's end
my @now = gmtime;
my $month_end = (32 - $now[3]) * $DAY;

for my $case ([ 'an hour back', -$HOUR ], [ 'a day ahead', $DAY ], [ 'over the end of the month', $month_end ])
{
	my ($name, $by) = @$case;
	my ($t, $r, $j);

	# between two attempts
	jump(0);
	$up->reset({ m => [ { status => 429, retry_after => 2 }, { text => 'second' } ] });
	my $c = client();
	$c->send(ask('acme', 's1', 'wait ' . ++$serial, options => \%off));
	$up->wait(answered => 1, timeout => 20) or fail("$name: the first attempt");
	sleep 0.3;
	$t = time;
	jump($by);
	is(MwClient::word_of($c->result(25)), 'second', "$name: a pause before a retry ends");
	cmp_ok(time - $t, '<', 15, "$name: ... in its own time");
	$j = $up->journal;
	is(scalar @$j, 2, "$name: ... with two requests");
	cmp_ok($j->[1]{t_ms} - $j->[0]{t_ms}, '>=', 1990, "$name: ... never earlier than the provider asked for");

	# while the provider works
	jump(0);
	$up->reset({ m => [ { text => 'slow', hold => \1 } ] });
	$c->send(ask('acme', 's1', 'hold ' . ++$serial, options => \%off));
	$up->wait(requests => 1, timeout => 20) or fail("$name: the request arrives");
	jump($by);
	sleep 0.5;
	$up->release;
	is(MwClient::word_of($c->result(25)), 'slow', "$name: a call in flight is answered");

	# a deadline
	jump(0);
	$up->reset({ m => [ { text => 'never', hold => \1 } ] });
	$t = time;
	$c->send(ask('acme', 's1', 'late ' . ++$serial, options => { %off, timeout => 2 }));
	$up->wait(requests => 1, timeout => 20) or fail("$name: the request arrives");
	jump($by);
	is_error($c->result(25), 'MW404', "$name: a deadline comes");
	cmp_ok(time - $t, '>=', 1.9, "$name: ... not early");
	cmp_ok(time - $t, '<', 15, "$name: ... and not late");
	$up->release;

	# callers that joined an equal miss whose leader was told to wait
	jump(0);
	$up->reset({ m => [ { status => 429, retry_after => 2, hold => \1 }, { text => 'for both' } ] });
	my $prompt = 'equal ' . ++$serial;
	my @pair = (client(), client());
	$pair[0]->send(ask('acme', 's1', $prompt, options => { timeout => 30 }));
	$up->wait(requests => 1, timeout => 20) or fail("$name: the request arrives");
	$pair[1]->send(ask('acme', 's1', $prompt, options => { timeout => 30 }));
	eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM mw.queue WHERE state = 'in flight'") eq '2'; });
	$up->release;
	sleep 0.3;
	jump($by);
	is(join('|', map { MwClient::word_of($_->result(25)) } @pair), 'for both|for both', "$name: who joined a call is answered with it");

	# an idle gateway leaves, and the next call starts another
	jump(0);
	$up->reset({ m => [ { text => 'again' } ] });
	jump($by);
	ok(eventually(sub { return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'") eq '0'; }, 20), "$name: an idle gateway leaves");
	jump(0);
	is(MwClient::word_of($c->query(ask('acme', 's1', 'again ' . ++$serial, options => \%off), 25)), 'again', "$name: the next call starts one");
}

# What a calendar is about
jump(0);
$up->reset({ m => [ { text => 'first' }, { text => 'second' } ] });
my $c = client();
is($c->word(ask('acme', 's1', 'kept')), 'first', 'an answer is cached for two hours');
jump($HOUR);
is($c->word(ask('acme', 's1', 'kept')), 'first', 'an hour later it is given');
jump($DAY);
is($c->word(ask('acme', 's1', 'kept')), 'second', 'a day later it is not');
jump(-$HOUR);
is($c->word(ask('acme', 's1', 'kept')), 'second', 'a clock that was put back keeps it longer, and loses nothing');

# the test double sleeps by the same clock
$node->safe_psql('postgres', q{CREATE SERVER double FOREIGN DATA WRAPPER mw OPTIONS (api 'fake'); GRANT USAGE ON FOREIGN SERVER double TO PUBLIC});
jump(0);
$c->query('BEGIN');
$c->value(q{SELECT mw_fake('double', '{"m": [{"text": "slept", "delay_ms": 1500}]}')});
my $t = time;
$c->send(ask('acme', undef, 'sleep', model => 'double:m', options => \%off));
sleep 0.3;
jump(-$HOUR);
is(MwClient::word_of($c->result(25)), 'slept', 'the test double wakes up after the clock was put back');
cmp_ok(time - $t, '>=', 1.4, '... in its own time');
cmp_ok(time - $t, '<', 15, '... and no later');
$c->query('ROLLBACK');

jump(0);
money_holds($node, 'after every jump of the clock');
log_is_clean($node);
$node->stop;
done_testing();
