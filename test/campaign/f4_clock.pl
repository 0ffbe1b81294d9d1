# F4: the wall clock of all processes of the server stands at the moments that calendars are about: the days on which clocks
# change, ends of months, a leap second, and it is set back and forth between them, with calls in flight.  In each window of a
# session exactly as many calls are admitted as it has room for, by a calendar that is not mw's: the C library's, asked minute
# by minute.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use POSIX ();
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;
use MwClock;

my $clock = MwClock->new;

# ---------- a calendar ----------

# a midnight that does not exist, a change of half an hour, no change at all, a zone of three quarters of an hour
my @zones = qw(Europe/Berlin America/New_York America/Santiago Australia/Lord_Howe Asia/Kolkata Asia/Kathmandu UTC);

# What a moment is called in a zone: the same for all moments of a window, and another for the next
sub label
{
	my ($zone, $per, $t) = @_;
	local $ENV{TZ} = $zone;
	POSIX::tzset();
	my @l = localtime int $t;
	my $label = $per eq 'month' ? POSIX::strftime('%Y-%m', @l) : $per eq 'day' ? POSIX::strftime('%Y-%m-%d', @l) : POSIX::strftime('%Y-%m-%d %H %z', @l);
	return $per eq 'minute' ? POSIX::strftime('%Y-%m-%d %H:%M %z', @l) : $label;
}

# When the window that holds a moment began: back by days and minutes as long as it is called the same
sub began
{
	my ($zone, $per, $t) = @_;
	my $at = int($t) - int($t) % 60;
	if ($per eq 'hour')
	{
		# by the clock's own face: an hour that a change of half an hour cuts in two is named by what it would have been
		local $ENV{TZ} = $zone;
		POSIX::tzset();
		return $at - 60 * (localtime $at)[1];
	}
	my $label = label($zone, $per, $t);
	for my $step ($per eq 'month' ? 86400 : (), $per eq 'day' || $per eq 'month' ? 1800 : (), 60)
	{
		$at -= $step while label($zone, $per, $at - $step) eq $label;
	}
	return $at;
}

# The moments of three years at which a zone's clocks change
my %changes;
sub changes
{
	my ($zone) = @_;
	return @{ $changes{$zone} //= do
		{
			local $ENV{TZ} = $zone;
			POSIX::tzset();
			my $offset = sub { return POSIX::strftime('%z', localtime $_[0]); };
			my ($at, $end, @found) = (1_767_225_600, 1_767_225_600 + 3 * 366 * 86400);
			for (; $at < $end; $at += 3600)
			{
				next if $offset->($at) eq $offset->($at + 3600);
				my $t = $at;
				$t += 60 while $offset->($t) eq $offset->($at);
				push @found, $t;
			}
			\@found;
		} };
}

# ---------- the campaign ----------

my $c = MwCampaign->new('the clock jumps, clocks change, a second leaps', rounds => [ 8, 40 ], every => 4, tenants => scalar @zones,
	env => { $clock->env });
$c->admin("SELECT mw_alter_tenant('t" . ($_ + 1) . qq{', '{"timezone": "$zones[$_]", "retry": 1}')}) for 0 .. $#zones;
# a zone of astronomers, whose minutes have 61 seconds now and then, is none for PostgreSQL's clock, which knows no leap second
for my $right ($c->admin(q{SELECT 'right/Europe/Berlin'}))
{
	my $r = $c->client->query(qq{SELECT mw_alter_tenant('t1', '{"timezone": "$right"}')});
	$c->must(MwClient::code_of($r) eq 'MW001', "a zone with leap seconds ends with " . MwClient::word_of($r));
}

my %LONGEST = (minute => 60, hour => 2 * 3600, day => 26 * 3600, month => 32 * 86400);
my %SHORTEST = (minute => 60, hour => 3600, day => 22 * 3600, month => 27 * 86400);
my $leap = 1_483_228_800;    # 2017-01-01 00:00:00 UTC, after the last leap second: a POSIX clock shows the second before it twice

$c->rounds(sub {
	my ($round) = @_;
	my $z = int rand @zones;
	my ($tenant, $role, $zone) = ('t' . ($z + 1), 'r' . ($z + 1), $zones[$z]);
	my $per = $c->pick(qw(minute hour hour day day day month));
	my $session = "s$round";
	my $room = 1 + int rand 5;
	my @clients = map { $c->client($role) } 1 .. $room + 3;
	$c->admin("SELECT mw_set_budget('$tenant', 'requests', $room, session => '$session', per => '$per')");

	# a moment at which something happens, and where the clock goes from there
	my @bases = (changes($zone), $leap, $leap, map { 1_767_225_600 + int rand 90_000_000 } 1 .. 2);
	my $base = $c->pick(@bases);
	$base = began($zone, $c->pick('day', 'month'), $base) if $c->pick(0, 0, 1);
	my @walk = $base == $leap ? (-1, -0.000001, -1, -0.5, 0, 0.000001, 1)
	  : (-1, -0.000001, 0, map { $c->pick(1, 59, 60, 1799, 1800, 3599, 3600, 7200, 86399, 86400, 90000, 2 * 86400, 31 * 86400, -1, -3600, -86400, -40 * 86400) } 1 .. 5);

	my ($start, $used);    # of the window that the sum is of, by the calendar above and the rules of the README
	for my $step (@walk)
	{
		my $now = $base + $step;
		my $mine = began($zone, $per, $now);
		if (!defined $start) { ($start, $used) = ($mine, 0); }
		elsif ($mine > $start) { ($start, $used) = ($mine, 0) if $mine - $start >= $SHORTEST{$per}; }
		elsif ($mine < $start) { $start = $mine if $start > $now && $start - $mine > $LONGEST{$per}; }
		my $fits = $room - $used;
		my $in_flight = $fits > 0 && $c->pick(0, 0, 1);    # one of them ends after the clock has been set elsewhere
		my $late;

		$clock->stand($now);
		my $where = sprintf '%s UTC%+g, %s a %s in %s', POSIX::strftime('%Y-%m-%d %H:%M:%S', gmtime $base), $step, $room, $per, $zone;
		my %o = (options => { cache => 'off', max_tokens => 16 });
		if ($in_flight)
		{
			my $id = $c->nonce;
			$c->script([ { match => "[n:$id]", step => { echo => \1, hold => \1 }, times => 1 } ]);
			$late = $c->client($role);
			$late->send($c->ask($tenant, $session, $id, %o));
			$c->up->wait(requests => 1, timeout => 20) or $c->fault("$where: a request does not arrive");
			$fits--;
		}
		my @id = map { $c->nonce } @clients;
		my @r = MwClient->race(\@clients, sub { $c->ask($tenant, $session, $id[ $_[0] ], %o) });
		my $passed = 0;
		for my $i (0 .. $#r)
		{
			my $word = MwClient::word_of($r[$i]);
			next if $word eq 'MW301' && $r[$i]{error}{D} =~ /per $per, limit $room/;
			$passed++ if !$r[$i]{error};
			$c->must($word eq $c->prompt($tenant, $id[$i]), "V4: $where: $word" . ($r[$i]{error} ? ": $r[$i]{error}{M} ($r[$i]{error}{D})" : ''));
		}
		$c->must($passed == $fits, "V1: $where: $passed were admitted, and $fits fit");
		$used += $passed + ($in_flight ? 1 : 0);
		$c->count('calls admitted' => $passed + ($in_flight ? 1 : 0));
		$c->count('calls refused' => @r - $passed);
		$c->count('moments');
		if ($in_flight)
		{
			$clock->stand($now + $c->pick(-1, 1, -3600, 3600));
			$c->up->release;
			my $r = $late->result(25);
			$c->must(!$r->{error}, "$where: a call in flight ends with " . MwClient::word_of($r));
			$late->close;
			$clock->stand($now);
		}
		# what the view says is what was admitted
		my $settled = $c->admin("SELECT settled FROM mw.budget_status WHERE tenant = '$tenant' AND session = '$session' AND unit = 'requests' AND per = '$per'");
		$c->must($settled == $used, "V1: $where: mw.budget_status says $settled of $used");
	}
	$_->close for @clients;
	$clock->jump(0);
	return;
});
$c->finish;
