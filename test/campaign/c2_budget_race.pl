# C2: many callers of one budget at one moment, in each unit, window and scope, with and without a limit of the session's
# own: exactly as many are admitted as fit.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('64 callers, room for 10', rounds => [ 50, 500 ]);
my $n = 64;
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 1}}') FROM mw.tenant});
my @all = map { $c->client('r1') } 1 .. $n;

# prompts of one length: what each reserves
my ($plan) = $c->admin("SELECT detail FROM mw_explain('t1', 's', " . quote($c->prompt('t1', $c->nonce)) . q{, model => 'llm:m', options => '{"cache": "off", "max_tokens": 100}') WHERE stage = 'budget'});
my $prompt_tokens = decode_json($plan)->{prompt_tokens};
# exact in millionths: a token of the prompt costs one, a token of the answer two
$c->admin(q{SELECT mw_set_price('llm:m', 1, 2)});
my %of = (requests => 1, tokens => $prompt_tokens + 100, cost => ($prompt_tokens + 200) / 1e6);

sub limit
{
	my ($unit, $per, $amount, $session) = @_;
	$amount = sprintf '%.6f', $amount if $unit eq 'cost' && $amount ne 'Infinity';
	$c->admin("SELECT mw_set_budget('t1', '$unit', '$amount', per => '$per'" . ($session ? ", session => '$session'" : '') . ')');
	return;
}
# what the tenant has used in a window
sub used
{
	my ($unit, $per) = @_;
	limit($unit, $per, 1e9);
	return $c->admin("SELECT settled FROM mw.budget_status WHERE tenant = 't1' AND session IS NULL AND unit = '$unit' AND per = '$per'");
}
limit('tokens', 'forever', 'Infinity', '*');

$c->rounds(sub {
	my ($round) = @_;
	my $unit = $c->pick('requests', 'tokens', 'cost');
	# not where a day, and perhaps a month, ends within the round
	my $per = $c->pick('forever', 'forever', (gmtime)[2] < 23 ? ('day', 'month') : ());
	my $scope = $c->pick('each session', 'the session', 'the tenant', 'both');
	my $session = $c->pick(0, 1) && $scope eq 'the tenant' ? undef : "s$round";
	my $of = $of{$unit};
	my $room = $c->pick(0, 1, 10, 10, 10, 63, 64);
	my $left_over = $unit eq 'tokens' ? int(rand($prompt_tokens)) : 0;    # too little for another
	my $amount = $room * $of + $left_over;
	my $tenant_amount = used($unit, $per) + $amount;
	limit($unit, $per, $scope eq 'the tenant' || $scope eq 'both' ? $tenant_amount : 'Infinity');
	limit($unit, $per, $amount, '*') if $scope eq 'each session';
	limit($unit, $per, $amount, $session) if $scope eq 'the session';
	# now the one, now the other is the narrower
	limit($unit, $per, $amount + $c->pick(0, $of), $session) if $scope eq 'both';
	my $delay = $c->pick(0, 0, 20, 60);
	$c->script({ m => [ { echo => \1, delay_ms => $delay, repeat => 200, usage => { prompt_tokens => $prompt_tokens, completion_tokens => 100 } } ] });
	my @id = map { $c->pick(0, 1) ? $c->nonce : $c->unnamed } 1 .. $n;
	my @sql = map { $c->ask('t1', $session, $_, options => { cache => 'off', max_tokens => 100 }) } @id;
	my @r = MwClient->race(\@all, sub { $sql[ $_[0] ] });
	my $passed = 0;
	for my $i (0 .. $#r)
	{
		my $word = MwClient::word_of($r[$i]);
		if ($word eq 'MW301') { $c->must($r[$i]{error}{D} =~ /unit $unit/, "the error names another limit: $r[$i]{error}{D}"); next; }
		$passed++;
		$c->must($word eq $c->prompt('t1', $id[$i]), "V4: $word");
	}
	my $what = "$unit per $per, $scope, room for $room, answers after $delay ms";
	$c->must($passed == $room, "V1: $passed of $n were admitted: $what");
	$c->count('calls admitted' => $passed);
	$c->count('calls refused' => $n - $passed);
	my $seen = $c->up->count->{requests};
	$c->must($seen == $room, "V2: $seen requests reached the provider: $what");
	# what shared memory holds is told by a refusal
	my $one = $all[0]->query($c->ask('t1', $session, $c->nonce, options => { cache => 'off', max_tokens => 100 }));
	$c->must(MwClient::code_of($one) eq 'MW301' && $one->{error}{D} =~ /reserved 0\b/, "one more: " . MwClient::word_of($one) . ' ' . ($one->{error} ? $one->{error}{D} : ''));
	limit($unit, $per, 'Infinity');
	limit($unit, $per, 'Infinity', '*') if $scope eq 'each session';
	limit($unit, $per, 'Infinity', $session) if $scope eq 'the session' || $scope eq 'both';
	return;
});
$c->finish;
