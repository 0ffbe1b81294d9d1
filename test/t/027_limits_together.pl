# Limits of tenant, session and each session, in requests, tokens and cost, for ever and a minute, an hour, a day, a month,
# set and changed at random, all at once: a second bookkeeping, in this file, says of each call whether it passes, how long
# its answer may be, and what every limit has used afterwards, over boundaries and the days on which clocks change.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use List::Util qw(min max);
use POSIX ();
use Test::More;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $seed = $ENV{MW_SEED} // int rand 1_000_000;
srand($seed);
diag("seed $seed (MW_SEED=$seed replays it)");

my $up = MwUpstream->start;
my $node = MwNode->new('together', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url, breaker => 'off', retry_reserve => 9999);
$node->server(dead => 'http://127.0.0.1:1/v1', breaker => 'off', retry_reserve => 9999);
my %price = ('llm:m' => [ 1.5, 0.25, 7 ], 'llm:dear' => [ 1.5, 3, 7 ], 'dead:m' => [ 1.5, 0.25, 7 ]);    # input, cached input, output per million: a hundred times that, 10^-8 a token
my %zone = (paulo => 'America/Sao_Paulo', howe => 'Australia/Lord_Howe', utc => 'UTC', hits => 'UTC');
for my $t (sort keys %zone)
{
	$node->tenant($t, 'app');
	my $cache = $t eq 'hits' ? 'true' : 'false';
	$node->safe_psql('postgres', qq{SELECT mw_alter_tenant('$t', '{"retry": 1, "cache": $cache, "timezone": "$zone{$t}"}')});
}
$node->safe_psql('postgres', "SELECT mw_set_price('$_', $price{$_}[0], $price{$_}[2], cached_input => $price{$_}[1], valid_from => '2000-01-01')") for sort keys %price;
my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');

sub clock
{
	my ($now) = @_;
	$admin->value("ALTER SYSTEM SET mw.fault_clock = '$now'");
	$admin->value('SELECT pg_reload_conf()');
	for my $c ($app, $admin)
	{
		eventually(sub { return $c->value('SHOW mw.fault_clock') eq $now; }) or die 'the clock was not set';
	}
	select undef, undef, undef, 0.1;    # the gateway has its own
	return;
}

# ---------- the second bookkeeping ----------

my @pers = qw(forever minute hour day month);
my %limit;    # tenant => scope ('', '*' or a session) => "unit per" => amount
my %used;     # tenant => scope ('' or a session) => "unit per label" => amount
my $now;

# What the present window of a tenant is called: none that ends at a change of half an hour is asked for
sub label
{
	my ($t, $per) = @_;
	return '' if $per eq 'forever';
	local $ENV{TZ} = $zone{$t};
	POSIX::tzset();
	return POSIX::strftime({ minute => '%Y-%m-%d %H:%M %z', hour => '%Y-%m-%d %H %z', day => '%Y-%m-%d', month => '%Y-%m' }->{$per}, localtime $now);
}

sub limits_of
{
	my ($t, $scope) = @_;
	return %{ $limit{$t}{''} // {} } if $scope eq '';
	return ('tokens forever' => 50_000, %{ $limit{$t}{'*'} // {} }, %{ $limit{$t}{$scope} // {} });
}

sub used_of { my ($t, $scope, $unit, $per) = @_; return $used{$t}{$scope}{ join ' ', $unit, $per, label($t, $per) } // 0; }

# The longest answer that all limits leave, in tokens; -1: none
sub fits
{
	my ($t, $session, $prompt, $answer, $in, $out) = @_;
	my $least = min(16, $answer);
	for my $scope ('', $session // ())
	{
		my %l = limits_of($t, $scope);
		for my $k (sort keys %l)
		{
			my ($unit, $per) = split / /, $k;
			next if $l{$k} =~ /inf/i;
			my $left = $l{$k} - used_of($t, $scope, $unit, $per);
			my $n = $unit eq 'requests' ? ($left >= 1 ? $answer : -1) : $unit eq 'tokens' ? $left - $prompt : POSIX::floor(($left - $prompt * $in * 100) / ($out * 100));
			$answer = $n if $n < $answer;
		}
	}
	$answer = min($answer, 50_000 - $prompt) if !defined $session;
	return $answer < $least ? -1 : $answer;
}

sub counts_requests
{
	my ($t, $scope) = @_;
	my %l = limits_of($t, $scope);
	return scalar grep { /^requests/ && $l{$_} !~ /inf/i } keys %l;
}

sub book
{
	my ($t, $session, %amount) = @_;
	for my $scope ('', $session // ())
	{
		for my $unit (keys %amount)
		{
			$used{$t}{$scope}{ join ' ', $unit, $_, label($t, $_) } += $amount{$unit} for @pers;
		}
	}
	return;
}

# ---------- one limit more, or another one ----------

sub set_limit
{
	my ($t) = @_;
	my $scope = ('', '*', 's1', 's2')[ rand 4 ];
	my ($unit, $per) = ((qw(requests tokens cost))[ rand 3 ], $pers[ rand @pers ]);
	return if $t eq 'hits' && "$unit $per" eq 'requests forever';    # then hits are booked in blocks: test/t/020_budget_race.pl
	my $so_far = used_of($t, $scope eq '*' ? 's1' : $scope, $unit, $per);
	my $amount = rand() < 0.5 ? undef : rand() < 0.15 ? 'Infinity'
	  : max(0, $so_far + { requests => int(rand 30) - 2, tokens => int(rand 9000) - 200, cost => int(rand 3_000_000) - 50_000 }->{$unit});
	my $sql = !defined $amount ? 'NULL' : $amount eq 'Infinity' ? "'Infinity'" : $unit eq 'cost' ? sprintf('%.8f', $amount / 1e8) : $amount;
	$admin->value("SELECT mw_set_budget('$t', '$unit', $sql, per => '$per'" . ($scope eq '' ? '' : ", session => '$scope'") . ')');
	if (defined $amount) { $limit{$t}{$scope}{"$unit $per"} = $amount; }
	else { delete $limit{$t}{$scope}{"$unit $per"}; }
	return;
}

# ---------- calls ----------

my @prompts = ('Name a river.', 'Tell me, please, at some length of the rivers of the north: ' . 'water and stone and ' x 12, 'x');
my %prompt_tokens = map { $_ => $app->value("SELECT detail ->> 'prompt_tokens' FROM mw_explain('utc', NULL, " . quote($_) . ", model => 'llm:m') WHERE stage = 'budget'") } @prompts;
my ($serial, %seen, %kept) = (0);

sub call
{
	my ($t) = @_;
	my $session = (undef, 's1', 's2', 's3')[ rand 4 ];
	my $prompt = $prompts[ rand @prompts ];
	my $n = $prompt_tokens{$prompt};
	my $most = (1, 16, 40, 200, 900)[ rand 5 ];
	my $how = (qw(ok ok ok ok over failed unknown dead))[ rand 8 ];
	my $model = $how eq 'dead' ? 'dead:m' : ('llm:m', 'llm:dear')[ rand 2 ];
	my ($in, $cached, $out) = @{ $price{$model} };
	my $bound = max($in, $cached);    # nobody knows before what of a prompt will have been cached
	my $fits = fits($t, $session, $n, $most, $bound, $out);
	my $key = "$model $most $prompt";
	$how = 'hit' if $t eq 'hits' && $how ne 'dead' && $kept{$key};
	my ($p, $c, $k) = (max($n - int rand 5, 1), 1 + int rand max($fits, 0), 0);    # a usage of no token is none
	($p, $c) = ($n + int rand 90, max($fits, 0) + int rand 90) if $how eq 'over';
	$k = int rand($p + 1);
	my %usage = (prompt_tokens => $p, completion_tokens => $c, prompt_tokens_details => { cached_tokens => $k });
	$up->rules({ times => 1, step => $how eq 'failed' ? { status => 400 } : { text => 'fine', usage => \%usage, $how eq 'unknown' ? (disconnect => 'mid_body') : () } }) if $how ne 'dead' && $how ne 'hit' && $fits >= 0;
	my $r = $app->query(ask($t, $session, $prompt, model => $model, request_id => 'call ' . ++$serial, options => { max_tokens => $most }));
	my $word = MwClient::word_of($r);
	my $expected = $fits < 0 ? 'MW301' : { ok => 'fine', over => 'fine', hit => 'fine', failed => 'MW401', unknown => 'MW402', dead => 'MW402' }->{$how};
	my $name = "call $serial of $t/" . ($session // 'none') . ", $how, $most tokens of which $fits fit: $word";
	$seen{ $word eq 'fine' ? $how : $word }++;
	if ($word ne $expected)
	{
		fail("$name, expected $expected");
		diag("$r->{error}{M}\n$r->{error}{D}") if $r->{error};
		return 0;
	}
	if ($fits < 0)
	{
		# the limit that is named is one that is there, with what it has used
		my ($who, $unit, $per, $of, $settled) = $r->{error}{D} =~ /^scope (\w+), unit (\w+),(?: per (\w+),)? limit ([\d.]+), settled ([\d.]+), reserved 0/;
		return 1 if ($who // '') eq '' && $r->{error}{D} =~ /^scope run/ || $who && do
		{
			my $scope = $who eq 'tenant' ? '' : $session;
			my %l = limits_of($t, $scope);
			my $by = $unit eq 'cost' ? 1e8 : 1;
			abs(($l{"$unit " . ($per // 'forever')} // -1) - $of * $by) < 0.5 && abs(used_of($t, $scope, $unit, $per // 'forever') - $settled * $by) < 0.5;
		};
		fail("$name: its detail is of another limit: $r->{error}{D}");
		return 0;
	}
	$kept{$key} = 1 if $t eq 'hits' && $how =~ /^(ok|over)$/;
	my $cost = ($p - $k) * $in * 100 + $k * $cached * 100 + $c * $out * 100;
	# hits are counted where requests are limited, and what the tenant alone limits belongs to no session
	return 1 if $how eq 'hit' && !grep { counts_requests($t, $_) } '', $session // ();
	$session = undef if $how eq 'hit' && defined $session && !counts_requests($t, $session);
	book($t, $session, $how eq 'ok' || $how eq 'over' ? (requests => 1, tokens => $p + $c, cost => $cost)
		: $how eq 'failed' || $how eq 'hit' ? (requests => 1)
		: $how eq 'unknown' ? (requests => 1, tokens => $n + $fits, cost => $n * $bound * 100 + $fits * $out * 100) : ());
	return 1;
}

# Every limit that mw shows has used what the second bookkeeping says
sub compare
{
	my ($name) = @_;
	my @wrong;
	for my $row (@{ $admin->query(q{SELECT tenant, coalesce(session, ''), unit, per, amount, settled FROM mw.budget_status})->{rows} })
	{
		my ($t, $scope, $unit, $per, $amount, $settled) = @$row;
		my $by = $unit eq 'cost' ? 1e8 : 1;
		my $mine = used_of($t, $scope, $unit, $per);
		push @wrong, "$t/$scope $unit a $per: $settled, should be " . $mine / $by if abs($settled * $by - $mine) > 0.5;
		my %l = limits_of($t, $scope);
		my $l = $l{"$unit $per"} // 'none';
		push @wrong, "$t/$scope $unit a $per: limit $amount, should be $l" if $l =~ /inf/i ? $amount !~ /inf/i : $l eq 'none' || abs($amount * $by - $l) > 0.5;
	}
	for my $row (@{ $admin->query(q{SELECT tenant, coalesce(sum(cost), 0), coalesce(sum(billed_cost), 0), coalesce(sum(billed_tokens), 0) FROM mw.ledger GROUP BY 1})->{rows} })
	{
		my ($t, @sums) = @$row;
		my %mine = map { my ($unit) = split / /; $unit => $used{$t}{''}{$_} } grep { / $/ } keys %{ $used{$t}{''} };
		push @wrong, "the ledger of $t: @sums" if abs($sums[0] * 1e8 - ($mine{cost} // 0)) > 0.5 || $sums[0] != $sums[1] || $sums[2] != ($mine{tokens} // 0);
	}
	is(join("\n", @wrong), '', "every limit has used what it should: $name");
	# what was lowered under what is used refuses, and is no finding
	return is($admin->value(q{SELECT coalesce(string_agg(concat_ws(' ', tenant, session, request_id, finding, expected, found), '; '), '') FROM mw_check()}), '', "mw_check(): $name");
}

$up->reset({});
my $right = 1;
# in São Paulo days begin at one o'clock where clocks go forward, and have 25 hours where they go back at midnight
for my $at ('2018-02-16 10:00:20', '2018-02-16 10:00:59', '2018-02-16 10:01:00', '2018-02-17 23:59:00', '2018-02-18 01:59:59', '2018-02-18 02:30:00', '2018-02-18 03:00:00',
	'2018-02-28 23:59:58', '2018-03-01 03:00:00', '2018-04-01 15:10:00', '2018-11-03 14:00:00', '2018-11-04 02:59:59', '2018-11-04 03:00:00', '2018-11-05 01:59:59', '2018-11-05 02:00:00', '2018-12-31 13:00:00')
{
	my ($y, $mo, $d, $h, $mi, $s) = split /[- :]/, $at;
	{
		local $ENV{TZ} = 'UTC';
		POSIX::tzset();
		$now = POSIX::mktime($s, $mi, $h, $d, $mo - 1, $y - 1900);
	}
	clock("$at+00");
	for my $n (1 .. rounds(40))
	{
		my $t = (sort keys %zone)[ rand 4 ];
		set_limit($t) if rand() < 0.2;
		$right &&= call($t);
	}
	$right &&= compare("$at UTC");
	last if !$right;
}
ok($right, 'all calls went as the second bookkeeping says: ' . join ', ', map { "$_ $seen{$_}" } sort keys %seen);
$node->stop;
done_testing();
