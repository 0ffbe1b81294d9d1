# C1: many callers of one request_id at one moment.  The provider sees it once, or twice where the caller that
# sent it was killed, and then only after somebody said resend_unknown; everybody gets the same bytes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('one request_id, 64 callers', rounds => [ 20, 200 ], every => 20);
my $n = 64;
$c->node->safe_psql('postgres', q{SELECT mw_alter_tenant('t1', '{"retry": {"max_attempts": 3, "base": 0.02, "max": 0.1}}')});
my @all;

sub connected { @all = map { $_ && !$_->{closed} ? $_ : $c->client('r1') } @all[ 0 .. $n - 1 ]; return; }

# every caller's result: the one answer of whoever won, to the byte
sub equal
{
	my ($round, $id, @r) = @_;
	my %words;
	$words{ $_->{error} ? $_->{error}{C} : $_->{closed} ? 'closed' : $_->{rows}[0][0] }++ for @r;
	my ($answer) = keys %words;
	$c->must(keys %words == 1, 'V4: ' . scalar(keys %words) . ' different ends of one request_id: ' . join ' / ', map { substr $_, 0, 100 } keys %words);
	$c->must(index($answer, $c->prompt('t1', $id)) >= 0, "V4: the answer is not to its own prompt: $answer");
	$c->count(calls => scalar @r);
	return;
}

$c->rounds(sub {
	my ($round) = @_;
	my $id = $c->nonce;
	my %step = (echo => \1, delay_ms => $c->pick(0, 50, 500));
	my $kill = $round % 8 == 4;
	my $level = $c->pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
	$c->script({ 'm' => [ $round % 4 == 2 ? { status => 500 } : (), { %step, $kill ? (hold => \1) : (), repeat => 99 } ] });
	connected();
	$_->value("SET default_transaction_isolation = '$level'") for @all;
	my %o = (options => { cache => 'off' });
	my $sql = $c->invoke('t1', $c->pick(undef, 's1'), $id, %o);
	if (!$kill)
	{
		equal($round, $id, MwClient->race(\@all, sub { $sql }));
		my $requests = $c->requests($id);
		$c->must($requests == ($round % 4 == 2 ? 2 : 1), "V3: $requests requests reached the provider");
		return;
	}
	$_->send($sql) for @all;
	$c->up->wait(requests => 1);
	my $pid = $c->admin('SELECT min(pid) FROM mw.queue');
	$c->kill($pid);
	my @r = map { $_->result } @all;
	$c->must(!(grep { !$_->{closed} && !$_->{error} } @r), 'a caller has an answer of a server that crashed');
	$c->must(wait_recovered($c->node), 'V12: the server is back by itself');
	$c->count(kills => 1);
	# with a request that nobody will ever answer
	$c->script({ 'm' => [ { %step, repeat => 99 } ] });
	connected();
	@r = MwClient->race(\@all, sub { $sql });
	$c->must(!(grep { MwClient::code_of($_) ne 'MW502' } @r), 'a repeat of what is unknown: ' . join ' ', map { MwClient::word_of($_) } @r);
	$c->must($c->requests($id) == 1, 'V3: it was sent again unasked');
	(my $resend = $sql) =~ s/"cache":"off"/"cache":"off","resend_unknown":true/;
	equal($round, $id, MwClient->race(\@all, sub { $resend }));
	equal($round, $id, MwClient->race(\@all, sub { $sql }));
	$c->must($c->requests($id) == 2, 'V3: a killed winner is sent ' . $c->requests($id) . ' times');
	return;
});
$c->finish;
