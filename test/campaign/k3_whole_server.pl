# K3: the whole server goes, with fifty calls in flight: an immediate stop, kill -9 of the postmaster, SIGQUIT to a
# process.  No process of it keeps a connection to the provider; it starts, recovers, and its first call works.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('stop -m immediate, kill -9 of the postmaster, SIGQUIT, 50 calls in flight', rounds => [ 10, 200 ], every => 5);
my $node = $c->node;
$c->rounds(sub {
	my ($round) = @_;
	my $way = (qw(immediate postmaster quit))[ $round % 3 ];
	my @id = map { $c->nonce } 0 .. 49;
	# some are held for ever, some are answered about now, some are only just sent
	$c->script([ { match => { regex => 'c000[0-3]\d\]' }, step => { echo => \1, hold => \1 } }, { step => { echo => \1, delay_ms => $c->pick(1, 20, 50) } } ]);
	my @busy = map { $c->client('r' . (1 + $_ % 3)) } 0 .. 49;
	$busy[$_]->send($c->ask('t' . (1 + $_ % 3), 's' . $_ % 5, $id[$_])) for 0 .. 49;
	$c->up->wait(requests => $c->pick(1, 20, 40, 50));
	my @pids = ((map { $_->pid } @busy), $c->gateway);
	$c->crashed;
	my $t = time;
	if ($way eq 'immediate') { $node->stop('immediate'); }
	elsif ($way eq 'postmaster')
	{
		kill 'KILL', (PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/)[0];
		$c->must(eventually(sub { return !grep { $_ && kill 0, $_ } @pids; }, 20), 'children of a killed postmaster stay');
		$node->{_pid} = undef;
		unlink $node->data_dir . '/postmaster.pid';
	}
	else { kill 'QUIT', $c->pick(@pids); }
	$c->must($c->up->wait(open => 0, timeout => 20), "$way: somebody keeps a connection to the provider");
	$c->took('until no connection to the provider is open', time - $t);
	$_->result for @busy;
	$t = time;
	if ($way eq 'quit') { wait_recovered($node); }
	else { $node->start; }
	$c->script({});
	my $first = $c->nonce;
	my $word = $c->client('r2')->word($c->ask('t2', undef, $first));
	$c->took('start and first call', time - $t);
	$c->must($word eq $c->prompt('t2', $first), "V12: the first call after $way: $word");
	for my $i (0 .. 49)
	{
		next if $i % 5 != $round % 5;
		$c->count('sent again after resend_unknown' => $c->persist('r' . (1 + $i % 3), 't' . (1 + $i % 3), 's' . $i % 5, $id[$i]));
		my $requests = $c->requests($id[$i]);
		$c->must($requests <= 2, "V3: $requests requests after $way");
	}
	$c->count("$way" => 1);
	$c->sound("after $way");
	return;
});
$c->finish;
