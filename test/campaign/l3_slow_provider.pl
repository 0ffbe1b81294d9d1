# L3: many callers at once wait for a slow provider.  All end; nobody waits for a lock; a table beside them can be vacuumed
# as far as the callers' snapshots allow, which is measured; and so is the memory that each takes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('callers of a slow provider, all at once', rounds => [ 1, 1 ], tenants => 5);
my $n = $c->size(50, 200);
my $seconds = $c->size(5, 20);

sub memory
{
	my ($pid) = @_;
	open my $f, '<', "/proc/$pid/status" or return 0;
	return join('', <$f>) =~ /^RssAnon:\s+(\d+)/m ? $1 : 0;
}

$c->rounds(sub {
	$c->admin('CREATE TABLE campaign.beside AS SELECT g FROM generate_series(1, 1000) AS g');
	$c->admin('DELETE FROM campaign.beside WHERE g <= 100');
	$c->script([ { step => { echo => \1, delay_ms => 1000 * $seconds } } ]);
	my @all = map { $c->client('r' . (1 + $_ % 5)) } 1 .. $n;
	$_->value('SELECT 1') for @all;
	my @idle = map { memory($_->pid) } @all;
	my @id = map { $c->nonce } @all;
	my $from = time;
	$all[$_]->send($c->ask('t' . (1 + ($_ + 1) % 5), 's', $id[$_], options => { timeout => 100 })) for 0 .. $#all;
	$c->must($c->up->wait(requests => $n, timeout => $seconds), "all $n are at the provider at once");
	$c->took('until all are at the provider', time - $from);

	my @grown = sort { $a <=> $b } map { memory($all[$_]->pid) - $idle[$_] } 0 .. $#all;
	$c->{state}{counts}{'kB a waiting backend has more than an idle one, median'} = $grown[ $#grown / 2 ];
	$c->{state}{counts}{'kB, the most'} = $grown[-1];
	$c->must($grown[-1] <= 10 * 1024, "V10: a waiting backend has grown by $grown[-1] kB");
	my $locks = $c->admin('SELECT count(*) FROM pg_locks WHERE NOT granted');
	$c->must($locks == 0, "$locks lock(s) are waited for");
	my $waits = $c->admin(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%mw_ask%' AND pid <> pg_backend_pid() AND wait_event_type IS DISTINCT FROM 'Extension'});
	$c->must($waits == 0, "$waits caller(s) wait for something else than mw");

	# vacuum: what died before the callers began goes, what dies after stays until they end
	my $held = $c->admin(q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%mw_ask%' AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL});
	$c->{state}{counts}{'waiting callers that hold back vacuum'} = $held;
	my $t = time;
	$c->admin('DELETE FROM campaign.beside WHERE g > 500');
	my $said = join "\n", map { "$_->{M} $_->{D}" } @{ $c->{admin}->query('VACUUM (VERBOSE) campaign.beside')->{notices} };
	my ($kept) = $said =~ /(\d+) are dead but not yet removable/;
	$c->{state}{counts}{'of 500 rows deleted meanwhile vacuum keeps'} = $kept;
	$c->admin(q{SELECT mw_set_budget('t1', 'requests', 5000)});
	$c->must($c->at_once(time - $t, 2), 'an administrator does not wait');

	for my $i (0 .. $#all)
	{
		my $word = MwClient::word_of($all[$i]->result(60 + $seconds));
		$c->must($word eq $c->prompt('t' . (1 + ($i + 1) % 5), $id[$i]), "V4: $word");
	}
	$c->took('from the first call to the last answer', time - $from);
	$c->count(callers => $n);
	return;
});
$c->finish;
