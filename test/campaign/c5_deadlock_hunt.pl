# C5: transactions that use the same budgets, sessions and request_ids in opposite orders, while an administrator
# changes the limits: none waits for another for ever, and none is the victim of a deadlock.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('budgets in opposite orders', rounds => [ 500, 10_000 ], every => 500);
my @pair = map { $c->client('r1') } 0, 1;
my $admin = $c->client;
my @limits = map { ("SELECT mw_set_budget('t1', 'requests', 1000000$_)", "SELECT mw_set_budget('t1', 'tokens', 1000000000$_)") } '', ", session => '*'", ", session => 'a'", ", session => 'b'";
$c->admin($_) for @limits;

$c->rounds(sub {
	my ($round) = @_;
	my @session = $round % 2 ? ('a', 'b') : ('a', undef);
	my %o = $c->pick(0, 1) ? (options => { cache => 'off' }) : ();
	# a hit, now and then: it books in the same scopes
	my @prompt = map { my $id = $c->pick(0, 0, 1) ? "u000000r00000c0000$_" : $c->unnamed; $id } 0 .. 3;
	my $level = $c->pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
	$_->send("BEGIN ISOLATION LEVEL $level") for @pair;
	$_->result for @pair;
	my $limit = $c->pick(@limits);
	for my $step (0, 1)
	{
		$pair[0]->send($c->ask('t1', $session[$step], $prompt[$step], %o));
		$pair[1]->send($c->ask('t1', $session[ 1 - $step ], $prompt[ 2 + $step ], %o));
		$admin->send($limit) if $step;
		for my $i (0, 1)
		{
			my $word = MwClient::word_of($pair[$i]->result(20));
			$c->must($word eq $c->prompt('t1', $prompt[ 2 * $i + $step ]), "a caller gets $word");
		}
		if ($step) { my $r = $admin->result(20); $c->must(!$r->{error}, 'an administrator gets ' . MwClient::word_of($r)); }
	}
	$_->send($c->pick('COMMIT', 'ROLLBACK')) for @pair;
	for my $one (@pair) { my $r = $one->result; $c->must(!$r->{error}, 'an end gets ' . MwClient::word_of($r)); }
	$c->count(transactions => 2);
	$c->audit if $round % 50 == 0;
	return;
});
my $deadlocks = $c->admin('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
$c->must($deadlocks == 0, "$deadlocks deadlocks");
$c->finish;
