# C2: many callers of one budget at one moment, in each unit and scope, with and without a limit of the session's own:
# exactly as many are admitted as fit.
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
my $each = $prompt_tokens + 100;

sub used { my ($session, $column) = @_; return $c->admin("SELECT coalesce(max($column), 0) FROM mw.spent WHERE tenant = 't1' AND session = " . quote($session // '')); }

$c->rounds(sub {
	my ($round) = @_;
	my $unit = $c->pick('requests', 'tokens');
	my $scope = $c->pick('each session', 'the session', 'the tenant', 'both');
	my $session = $c->pick(0, 1) && $scope eq 'the tenant' ? undef : "s$round";
	my $of = $unit eq 'requests' ? 1 : $each;
	my $room = $c->pick(0, 1, 10, 10, 10, 63, 64);
	my $left_over = $unit eq 'tokens' ? int(rand($prompt_tokens)) : 0;    # too little for another
	my $amount = $room * $of + $left_over;
	my $column = $unit;
	$c->admin('SELECT ' . join ', ', map { "mw_set_budget('t1', '$_', 'Infinity', session => '*'), mw_set_budget('t1', '$_', 'Infinity')" } 'requests', 'tokens');
	my $tenant_amount = used(undef, $column) + $amount;
	$c->admin("SELECT mw_set_budget('t1', '$unit', $amount, session => '*')") if $scope eq 'each session';
	$c->admin("SELECT mw_set_budget('t1', '$unit', $amount, session => '$session')") if $scope eq 'the session';
	$c->admin("SELECT mw_set_budget('t1', '$unit', $tenant_amount)") if $scope eq 'the tenant';
	if ($scope eq 'both')
	{
		# now the one, now the other is the narrower
		$c->admin("SELECT mw_set_budget('t1', '$unit', " . ($amount + $c->pick(0, $of)) . ", session => '$session')");
		$c->admin("SELECT mw_set_budget('t1', '$unit', $tenant_amount)");
	}
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
	my $what = "$unit, $scope, room for $room, answers after $delay ms";
	$c->must($passed == $room, "V1: $passed of $n were admitted: $what");
	$c->count('calls admitted' => $passed);
	$c->count('calls refused' => $n - $passed);
	my $seen = $c->up->count->{requests};
	$c->must($seen == $room, "V2: $seen requests reached the provider: $what");
	# what shared memory holds is told by a refusal
	my $one = $all[0]->query($c->ask('t1', $session, $c->nonce, options => { cache => 'off', max_tokens => 100 }));
	$c->must(MwClient::code_of($one) eq 'MW301' && $one->{error}{D} =~ /reserved 0\b/, "one more: " . MwClient::word_of($one) . ' ' . ($one->{error} ? $one->{error}{D} : ''));
	$c->admin('SELECT ' . join ', ', map { "mw_set_budget('t1', '$_', NULL" . ($session ? ", session => '$session')" : ')') } 'requests', 'tokens');
	$c->admin('SELECT ' . join ', ', map { "mw_set_budget('t1', '$_', 'Infinity', session => '*'), mw_set_budget('t1', '$_', 'Infinity')" } 'requests', 'tokens');
	return;
});
$c->finish;
