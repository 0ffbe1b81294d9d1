# F2: memory runs out, in the backend and in the gateway, a little later each time (the limit of address space of the
# process, set from outside), and prompts are as large as can be.  What is left is an ERROR or an answer.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

plan skip_all => 'under a sanitizer address space is its own' if ($ENV{MW_BUILD_FLAGS} // '') =~ /sanitize/;

my $c = MwCampaign->new('memory runs out', rounds => [ 24, 100 ], every => 12);
$c->node->safe_psql('postgres', q{SELECT mw_alter_tenant('t1', '{"retry": {"max_attempts": 2, "base": 0.01, "max": 0.02}}'); SELECT mw_set_budget('t1', 'requests', 1000000)});
my %off = (options => { cache => 'off', timeout => 10 });

# So many bytes of address space more than it has; undef: as much as it likes
sub limit
{
	my ($pid, $more) = @_;
	open my $f, '<', "/proc/$pid/status" or return 0;
	my ($kb) = join('', <$f>) =~ /^VmSize:\s+(\d+)/m or return 0;
	return system('prlimit', "--pid=$pid", '--as=' . (defined $more ? $kb * 1024 + $more : 'unlimited') . ':unlimited') == 0;
}

# the sizes that matter: what a block of palloc, an answer, a compiled pattern takes
sub some { return int exp(rand() * log(64 * 1024 * 1024)); }

$c->rounds(sub {
	my ($round) = @_;
	my $in_gateway = $round % 2 == 0;
	my $client = $c->client('r1');
	$client->value($c->ask('t1', 's1', $c->unnamed, %off)) if $round % 3;
	my $pid = $in_gateway ? $c->gateway : $client->pid;
	my $more = some();
	$c->must(limit($pid, $more), "process $pid cannot be limited");
	my $what = sprintf '%s with %d bytes more', $in_gateway ? 'the gateway' : 'a backend', $more;
	for my $words (0, 2000, 200_000, 2_000_000)
	{
		my $r = $client->query($c->ask('t1', 's1', $c->nonce, %off, more => ' word' x $words));
		my $end = MwClient::word_of($r);
		# a gateway that cannot go on leaves: calls that it had are unknown or refused
		$c->must($end =~ /\[n:/ || $end =~ /^(53200|53100|MW402|MW404|57P01|54000|MW301)$/, "$what, $words words: ends with $end: " . ($r->{error}{M} // ''));
		$c->count($end =~ /\[n:/ ? 'answered' : "ends $end");
		last if $r->{closed};
	}
	$c->must($client->word("SELECT mw_count_tokens('one two')") =~ /^(\d+|53200)$/, "$what: the backend goes on");
	limit($pid, undef);
	my $end = $client->word($c->ask('t1', 's1', $c->unnamed, %off));
	$c->must($end =~ /\[n:/, "$what: with memory again the same backend's call ends with $end");
	$client->close;
	my $wrong;
	eventually(sub { $wrong = $c->admin(q{SELECT string_agg(c::text, '; ') FROM mw_check() AS c}); return !defined $wrong; }, 20);
	$c->must(!defined $wrong, "$what: V1: " . ($wrong // ''));
	return;
});

# Prompts that are too large are refused before anything is done with them
my $client = $c->client('r1');
for my $size (16 * 1024 * 1024 + 1, 256 * 1024 * 1024 + 1, $c->full ? 1_000_000_000 : ())
{
	my $r = $client->query("SELECT mw_ask('t1', NULL, repeat('x', $size), model => 'llm:m')", 300);
	$c->must(($r->{error}{C} // '') eq '54000', "a prompt of $size bytes: " . MwClient::word_of($r));
	$r = $client->query("SELECT mw_ask('t1', NULL, NULL, messages => jsonb_build_array(jsonb_build_object('role', 'user', 'content', repeat('x', $size))), model => 'llm:m')", 300);
	$c->must(($r->{error}{C} // '') eq '54000', "messages of $size bytes: " . MwClient::word_of($r));
}
$c->finish;
