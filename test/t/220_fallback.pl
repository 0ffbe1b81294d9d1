# Fallbacks over real servers: durable under ROLLBACK and crashes, paid once under a request_id, under one deadline, and past an
# open breaker at once.  (What follows what is test/pgtap/fallback.sql's.)
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
my ($one, $two) = map { $up->session($_) } qw(one two);
my $node = MwNode->new('fallback', conf => "mw.gateway_idle = '300s'");
$node->server(one => $one->base_url, key => 'sk-one', breaker_cooldown => 3000, retry_reserve => 9999);
$node->server(two => $two->base_url, key => 'sk-two', breaker => 'off');
$node->tenant(acme => 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"retry": {"max_attempts": 2, "base": 0.01, "max": 0.02}}')});
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');
my $serial = 0;

sub call { my ($prompt, %o) = @_; my $more = delete $o{more} // {}; return ask('acme', 's', $prompt, model => 'one:a', options => { cache => 'off', fallback => ['two:b'], %$more }, %o); }
sub ledger_of { my ($id) = @_; return $admin->value("SELECT coalesce(string_agg(model || ' ' || call || '.' || attempt || ' ' || outcome, ', ' ORDER BY started_at), '') FROM mw.ledger WHERE request_id = " . quote($id)); }
sub sent { return $one->count->{requests} . ' ' . $two->count->{requests}; }
sub close_breaker { $admin->value(q{SELECT mw_reset_breaker('one')}); return; }

# ---------- the other server, with its own key, recorded for good ----------

$one->reset({ a => [ { status => 503, repeat => 2 }, { text => 'one would answer now', repeat => 99 } ] }, key => 'sk-one');
$two->reset({ b => [ { text => 'from two', usage => { prompt_tokens => 9, completion_tokens => 4 } } ] }, key => 'sk-two');
$app->query('BEGIN');
is($app->word(call('rolled back', request_id => 'f1')), 'from two', 'a fallback answers');
$app->query('ROLLBACK');
is(ledger_of('f1'), 'one:a 1.1 failed, one:a 1.2 failed, two:b 2.1 ok', 'a rollback takes nothing off the ledger');
is($admin->value(q{SELECT string_agg(model || ' ' || coalesce(output_tokens::text, '-'), ', ' ORDER BY call) FROM mw.usage WHERE request_id = 'f1'}), 'one:a -, two:b 4', 'mw.usage has a row a call');
is($app->word(call('rolled back', request_id => 'f1')), 'from two', 'its repeat has the same answer');
is(sent(), '2 1', '... and asks nobody, though the first model would answer now');
is($app->word(call('rolled back', request_id => 'f1')), 'from two', 'the committed result is that one');
is($app->word(call('another', request_id => 'f2')), 'one would answer now', 'another request begins with the first model');
money_holds($node, 'after a fallback');

# ---------- a caller that leaves, and one that comes back ----------

$one->reset({ a => [ { status => 500, repeat => 2 }, { text => 'one would answer now', repeat => 99 } ] });
$two->reset({ b => [ { text => 'late', hold => \1 } ] });
close_breaker();
my $leaves = MwClient->new($node, user => 'app');
$leaves->send(call('cancelled in the fallback', request_id => 'f3'));
ok($two->wait(requests => 1), 'the fallback is under way');
$leaves->cancel;
is(MwClient::word_of($leaves->result), '57014', '... and its caller leaves');
$leaves->send(call('cancelled in the fallback', request_id => 'f3'));
sleep 0.2;
$two->release;
is(MwClient::word_of($leaves->result), 'late', 'a repeat waits for what is under way');
is(sent(), '2 1', '... and sends nothing');

# ---------- an unknown outcome of the fallback ----------

$one->reset({ a => [ { status => 500, repeat => 2 }, { text => 'one would answer now', repeat => 99 } ] });
$two->reset({ b => [ { disconnect => 'after_headers', text => 'x', repeat => 99 } ] });
close_breaker();
is_error($app->query(call('unknown in the fallback', request_id => 'f4')), 'MW402', 'the fallback breaks off',
	detail => qr/outcome unknown.*\none:a failed before \(MW402: server "one" failed with status 500\)\nrequest_id: f4$/s);
is_error($app->query(call('unknown in the fallback', request_id => 'f4')), 'MW502', 'its repeat is not sent to anybody');
is(sent(), '2 1', '... to nobody indeed');
is($app->word(call('unknown in the fallback', request_id => 'f4', more => { resend_unknown => \1 })), 'one would answer now', 'until its caller says so: from the beginning');
money_holds($node, 'after an unknown outcome');

# ---------- one deadline ----------

$one->reset({ a => [ { status => 503, delay_ms => 700, repeat => 99 } ] });
$two->reset({ b => [ { text => 'too late', delay_ms => 5000, repeat => 99 } ] });
close_breaker();
my $from = time;
is_error($app->query(call('one deadline', more => { timeout => 2 })), 'MW404', 'both models share the time of the call', detail => qr/one:a failed before/);
cmp_ok(time - $from, '<', 4.5, '... which is that of the first');

# ---------- an open breaker ----------

$one->reset({ a => [ { status => 503, repeat => 99 } ] });
$two->reset({ b => [ { text => 'two', repeat => 99 } ] });
close_breaker();
$app->query(call('open it ' . ++$serial)) for 1 .. 3;
is($admin->value(q{SELECT state FROM mw.breaker WHERE server = 'one'}), 'open', 'the breaker of the first server opens');
my $before = $one->count->{requests};
my $r = $app->query(invoke('acme', 's', 'past the breaker', model => 'one:a', request_id => 'f5', options => { cache => 'off', fallback => ['two:b'] }));
like($r->{rows}[0][0], qr/"one:a failed \(MW403: server \\"one\\" is not called for now: its circuit breaker is open\); the next model was asked"/, 'a fallback is asked past it');
is(ledger_of('f5'), 'two:b 2.1 ok', '... as call 2, the first having sent nothing');
is($one->count->{requests}, $before, '... nothing indeed');
is_error($app->query(ask('acme', 's', 'no other model', model => 'one:a')), 'MW403', 'who has no fallback is refused');

# ---------- many callers at once: each pays one model ----------

$two->reset({ b => [ { echo => \1, repeat => 10000 } ] });
$admin->value(q{SELECT mw_set_budget('acme', 'tokens', 'Infinity', session => '*')});
my @all = map { MwClient->new($node, user => 'app') } 1 .. 16;
my $i = 0;
my @got = MwClient->race(\@all, sub { return call('crowd ' . $i++); });
is_deeply([ map { MwClient::word_of($_) } @got ], [ map { "crowd $_" } 0 .. 15 ], 'sixteen callers, each with its own answer');
is($two->count->{requests}, 16, '... by as many requests');
@got = MwClient->race(\@all, sub { return ask('acme', undef, 'equal misses', model => 'one:a', options => { fallback => ['two:b'] }); });
is_deeply([ map { MwClient::word_of($_) } @got ], [ ('equal misses') x 16 ], 'sixteen equal misses');
is($two->count->{requests}, 17, '... share one request of the fallback');
money_holds($node, 'in the end');

done_testing();
