# F3: the disk of the data folder, of the WAL and of temporary files fills up while calls run.  A call that cannot be
# recorded is 53100 and is not sent; one whose outcome cannot be recorded is unknown, and recovered when there is
# room again.  The disks are tmpfs of some megabytes in a mount name space of this test's own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);

# Before PostgreSQL's test modules look where they are: mounting needs root, in a user name space of our own; servers
# do not run as root, so back again in a second one.
my $disks;
BEGIN
{
	if (!$ENV{MW_F3_DISKS})
	{
		my ($uid, $gid) = ($>, (split ' ', $))[0]);
		$disks = "$ENV{TESTDATADIR}/f3_disks";
		my @unshare = ('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c');
		my $mount = join ' && ', "mkdir -p $disks/data $disks/wal $disks/temp $ENV{TESTDIR}/tmp_check/log",
		  (map { "mount -t tmpfs -o size=$$_[1],mode=0777 tmpfs $disks/$$_[0]" } [ data => '120m' ], [ wal => '64m' ], [ temp => '8m' ]),
		  'mount -t tmpfs -o size=14m,mode=1777 tmpfs /dev/shm',
		  # the log is not on a disk that fills up, and can be read afterwards
		  "mkdir -p $disks/data/tmp_check", "ln -sfn $ENV{TESTDIR}/tmp_check/log $disks/data/tmp_check/log";
		my $back = "exec unshare --user --map-user=$uid --map-group=$gid";
		plan skip_all => 'no file system can be mounted here, not even in a name space of its own'
		  if system(@unshare, "$mount && $back true") != 0;
		$ENV{MW_F3_DISKS} = $disks;
		@ENV{qw(TESTDIR TESTDATADIR)} = ("$disks/data") x 2;	# 15 looks at the first, later ones at the second
		exec @unshare, "$mount && $back $^X -w $0" or die "unshare: $!";
	}
	$disks = $ENV{MW_F3_DISKS};
}
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('the disk is full', rounds => [ 12, 400 ], every => 4, server => { max_response => 100_000_000 },
	init => [ extra => [ '--encoding=UTF8', '--locale=C.UTF-8', "--waldir=$disks/wal/pg_wal", '--wal-segsize=1' ] ],
	conf => "dynamic_shared_memory_type = posix\nmin_wal_size = '4MB'\nmax_wal_size = '16MB'\nautovacuum = off\nwal_recycle = off\ntemp_file_limit = -1");
my $node = $c->node;
mkdir "$disks/temp/space" or die "$disks/temp/space: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE temporary LOCATION '$disks/temp/space'");
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET temp_tablespaces = temporary});
$node->safe_psql('postgres', q{GRANT CREATE ON TABLESPACE temporary TO PUBLIC});
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('t1', '{"retry": {"max_attempts": 1}}'); SELECT mw_set_budget('t1', 'requests', 1000000)});

# Fill a disk up to so many bytes; 0 leaves nothing
sub fill
{
	my ($disk, $leave) = @_;
	open my $f, '>', "$disks/$disk/filler" or die "filler: $!";
	my $block = 'x' x 65536;
	for (my $n = 65536; $n >= 512; $n /= 2)
	{
		1 while (syswrite($f, substr($block, 0, $n)) // 0) == $n;
	}
	truncate $f, (-s $f) - $leave if $leave;
	close $f;
	return;
}
sub free { my ($disk) = @_; unlink "$disks/$disk/filler"; return; }

# An end that a full disk may bring, and nothing else
sub bearable
{
	my ($end, $what, $r) = @_;
	my $e = $r->{error} // {};
	$c->must($end =~ /\[n:|^NULL$/ || $end eq '53100' || $end eq 'MW402' || $end eq 'MW502', "$what ends with $end: " . join ' ', map { $e->{$_} // '' } qw(M D));
	$c->count($end =~ /\[n:/ ? 'answered' : "ends $end");
	return;
}

# one call after the other until something does not fit any more
sub until_full
{
	my ($what, %o) = @_;
	my $client = $c->client('r1');
	for my $n (1 .. 400)
	{
		my $long = 'word ' x int rand $o{words};
		my $r = $client->query($c->ask('t1', 's' . int(rand 5000) . 'x' x int(rand 100), rand > 0.5 ? $c->nonce : $c->unnamed, more => $long));
		my $end = MwClient::word_of($r);
		bearable($end, $what, $r);
		last if $end !~ /\[n:/;
	}
	# V10: what needs no room still works, in the same backend
	$c->must($client->word("SELECT mw_count_tokens('one two')") =~ /^\d+$/, "$what: the backend goes on");
	$client->close;
	return;
}

# calls at the provider while the disk fills
sub in_flight
{
	my ($what, $words) = @_;
	$c->script({ m => [ { echo => \1, hold => \1, repeat => 20 } ] });
	my @all = map { $c->client('r1') } 1 .. 6;
	$_->send($c->ask('t1', 's1', rand > 0.3 ? $c->nonce : $c->unnamed, more => ' ' . join ' ', map { $c->nonce } 1 .. rand $words)) for @all;
	$c->up->wait(requests => scalar @all) or die "$what: requests do not arrive";
	fill('data', int rand 40_000);
	$c->up->release;
	for my $client (@all)
	{
		my $r = $client->result;
		bearable(MwClient::word_of($r), "$what, in flight", $r);
		$client->close;
	}
	return;
}

my @kinds = (
	[ 'many small rows', sub { fill("data", int rand 40_000); until_full('many small rows', words => 20); free('data'); } ],
	[ 'large answers', sub { fill("data", int rand 200_000); until_full('large answers', words => 20_000); free('data'); } ],
	[ 'outcomes', sub { in_flight('outcomes', 4000); free('data'); } ],
	[ 'temporary files', sub {
			fill('temp', 0);
			my $client = $c->client('r1');
			my $r = $client->query(q{SET work_mem = '64kB'; SELECT count(*) FROM (SELECT g FROM generate_series(1, 400000) g ORDER BY g DESC) x});
			$c->must(($r->{error}{C} // '') eq '53100', 'temporary files: the disk is full for PostgreSQL');
			my $n = $c->nonce;
			$r = $client->query($c->ask('t1', 's1', $n, more => ' word' x 2000));
			$c->must(MwClient::word_of($r) =~ /\[n:$n\]/, 'temporary files: mw needs none: ' . MwClient::word_of($r));
			$client->close;
			free('temp');
		} ],
	[ 'shared memory', sub {
			# a small /dev/shm, as in a container: answers that do not fit into it all at once
			my $n = $c->nonce;
			my $client = $c->client('r1');
			$client->value($c->ask('t1', 's1', $c->unnamed, options => { cache => 'off' }));
			my $gateway = $c->gateway;
			$c->script({ m => [ { text => 'x' x 6_000_000, hold => \1, repeat => 4 } ] });
			my @all = map { $c->client('r1') } 1 .. 4;
			my @id = map { $c->nonce } @all;
			$all[$_]->send($c->ask('t1', 's1', $id[$_], options => { cache => 'off' })) for 0 .. $#all;
			$c->up->wait(requests => scalar @all) or die 'shared memory: requests do not arrive';
			# nobody takes an answer before all of them are there
			kill 'STOP', map { $_->pid } @all;
			$c->up->release;
			eventually(sub { return $c->admin("SELECT count(*) FROM mw.attempt WHERE outcome = 'running'") eq '0'; }, 20);
			kill 'CONT', map { $_->pid } @all;
			for my $i (0 .. $#all)
			{
				my $r = $all[$i]->result;
				my $end = $r->{error} ? $r->{error}{C} : 'answered';
				$c->must($end =~ /^(answered|53200|53100|MW402)$/, "shared memory: ends with $end: " . ($r->{error} ? $r->{error}{M} : ''));
				$c->count("shared memory: $end");
			}
			$c->must($c->gateway == $gateway, 'shared memory: the gateway has gone');
			# what was paid for is there when there is room for it
			$c->script({});
			for my $i (0 .. $#all)
			{
				my $r = $all[$i]->query($c->ask('t1', 's1', $id[$i], options => { cache => 'off' }));
				my $end = $r->{error} ? $r->{error}{C} : length $r->{rows}[0][0];
				$c->must($end =~ /^(6000000|MW502)$/, "shared memory: a repeat ends with $end");
				$all[$i]->close;
			}
			$client->close;
		} ],
	[ 'the WAL', sub {
			# PostgreSQL itself goes down; calls in flight are unknown when it is back
			$c->script({ m => [ { echo => \1, hold => \1, repeat => 20 } ] });
			my @all = map { $c->client('r1') } 1 .. 4;
			$_->send($c->ask('t1', 's1', $c->nonce)) for @all;
			$c->up->wait(requests => scalar @all) or die 'the WAL: requests do not arrive';
			fill('wal', 0);
			$c->up->release;
			my $writer = $c->client;
			$writer->send(q{CREATE TABLE IF NOT EXISTS campaign.much (t text); INSERT INTO campaign.much SELECT repeat(md5(g::text), 30) FROM generate_series(1, 40000) g});
			for my $client (@all, $writer)
			{
				my $r = eval { $client->result } // { closed => 1 };
				$c->must($client == $writer || $r->{closed} || $r->{error} || $r->{rows}[0][0] =~ /\[n:/, 'the WAL: an answer that is none');
				$client->close;
			}
			eventually(sub { return !-e $node->data_dir . '/postmaster.pid'; }, 20);
			free('wal');
			$c->crashed;
			if (!-e $node->data_dir . '/postmaster.pid')
			{
				$node->{_pid} = undef;
				$node->start;
			}
			$c->must(wait_recovered($node), 'the WAL: the server comes back when there is room');
			$c->{log_from} = log_end($node);	# its PANIC is PostgreSQL's own
			$c->admin('DROP TABLE IF EXISTS campaign.much');
			$c->admin('CHECKPOINT');
		} ],
);

$c->rounds(sub {
	my ($round) = @_;
	$c->script({});
	my $kind = $kinds[ ($round - 1) % @kinds ];
	$kind->[1]->();
	free($_) for qw(data wal temp);
	$c->script({});
	$c->count($kind->[0]);
	# where a repeat can, it gets what was paid for
	my $wrong;
	eventually(sub { $wrong = $c->admin(q{SELECT string_agg(c::text, '; ') FROM mw_check() AS c}); return !defined $wrong; }, 20);
	$c->must(!defined $wrong, "$kind->[0]: V1 after space is back: " . ($wrong // ''));
	return;
});
free($_) for qw(data wal temp);
$c->finish;
