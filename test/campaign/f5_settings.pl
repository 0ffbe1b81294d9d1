# F5: every setting of mw with values from both ends of its range and beyond, of wrong units and kinds, set for a
# session, a role, a database, at connection and for the server, by a superuser and by a role without rights.
# A value is refused when it is set, or works; a setting that is not everybody's is nobody's else.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('settings', rounds => [ 1, 20 ]);
my %off = (options => { cache => 'off' });
my $node = $c->node;
my @settings = map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', q{
	SELECT name, context, vartype, coalesce(min_val, ''), coalesce(max_val, ''), coalesce(unit, ''), coalesce(array_to_string(enumvals, ','), '')
	FROM pg_settings WHERE name LIKE 'mw.%' AND name NOT LIKE 'mw.fault%' ORDER BY name});
cmp_ok(scalar @settings, '>=', 8, 'the settings of mw');

sub values_of
{
	my ($name, $context, $type, $min, $max, $unit, $enum) = @_;
	my @v = ('', ' ', '-1', '0', '1', 'NULL', 'on', '5 parsecs', '10GB', '3d', '1e999', 'NaN', '99999999999999999999', "a\x{1}b", 'x' x 3000,
		"'; DROP TABLE mw.attempt; --", '*', 'ä', $c->nonce);
	push @v, $min, $max, $min - 1, $max + 1, $unit ? ("$min$unit", "$max$unit") : () if $min ne '';
	push @v, split /,/, $enum if $enum ne '';
	push @v, 't1', 'llm:m', 'no-such:m', '127.0.0.1', '.example.com,127.0.0.1' if $type eq 'string';
	return @v;
}

# Its SQLSTATE, or undef
sub code { my ($r) = @_; return $r->{error} ? $r->{error}{C} : $r->{closed} ? 'closed' : undef; }

# Refused by PostgreSQL's own words for it, or taken
my %REFUSED = map { $_ => 1 } qw(22023 42501 55P02 22021 22P02 42601);
# what a call may say under a setting that was taken: another tenant, no such model, a host that is not allowed, too long
my %SAID = map { $_ => 1 } qw(MW101 MW001 MW401 MW402 MW404 54000 42704 MW003 28000);

sub works
{
	my ($what) = @_;
	my $client = $c->client('r1', try => 1);
	return $c->must($client->{connect_error}{C} =~ /^(22023|42501)$/, "$what: a connection says $client->{connect_error}{C}") if !$client->ok;
	my $end = $client->word($c->ask('t1', undef, $c->unnamed, %off, model => undef));
	my $named = $client->word($c->ask('t1', undef, $c->unnamed, %off));
	$c->must($named =~ /\[n:/ || $SAID{$named}, "$what: a call ends with $named");
	$c->must($end =~ /\[n:/ || $SAID{$end}, "$what: a call without a model ends with $end");
	$c->count($named =~ /\[n:/ ? 'works' : 'says why not');
	$client->close;
	return;
}

$c->rounds(sub {
	my ($admin, $app) = ($c->client, $c->client('r1'));
	for my $s (@settings)
	{
		my ($name, $context) = @$s;
		for my $value (values_of(@$s))
		{
			my $v = MwCheck::quote($value);
			for my $how ("SET $name = $v", "ALTER ROLE r1 SET $name = $v", "ALTER DATABASE postgres SET $name = $v")
			{
				my $r = $admin->query($how);
				my $end = code($r);
				$c->must(!defined $end || $REFUSED{$end}, "$how: " . ($end // ''));
				$c->count(defined $end ? 'refused' : 'taken');
				next if defined $end;
				$c->must($context =~ /^(user|superuser)$/, "$how: a setting of the server was taken");
				works($how) if $how =~ /^ALTER/;
				$admin->value($_) for 'RESET ALL', 'ALTER ROLE r1 RESET ALL', 'ALTER DATABASE postgres RESET ALL';
			}

			# a role without rights: what is not everybody's is refused, whatever the value
			my $r = $app->query("SET $name = $v");
			my $end = code($r) // 'taken';
			$c->must($context eq 'user' ? $end eq 'taken' || $REFUSED{$end} : $end =~ /^(42501|55P02|22023)$/, "SET $name = $v as r1: $end");
			$app->query('RESET ALL');
			next if $value =~ /[\x00-\x1f]/;
			my $client = $c->client('r1', try => 1, settings => { $name => $value });
			$c->must($client->ok || ($client->{connect_error}{C} // '') =~ /^(42501|55P02|22023)$/,
				"$name = $v at connection: " . ($client->{connect_error}{C} // ''));
			$c->must(!$client->ok || $context eq 'user', "$name = $v at connection as r1: taken");
			$client->close if $client->ok;
		}
	}

	# for the server: read again, or at a restart
	for my $s (grep { $_->[1] eq 'sighup' } @settings)
	{
		my ($name) = @$s;
		for my $value (values_of(@$s))
		{
			next if $value =~ /[\x00-\x1f]/;
			my $v = MwCheck::quote($value);
			my $r = $admin->query("ALTER SYSTEM SET $name = $v");
			my $end = code($r);
			$c->must(!defined $end || $REFUSED{$end}, "ALTER SYSTEM SET $name = $v: " . ($end // ''));
			$c->count(defined $end ? 'refused' : 'taken');
			next if defined $end;
			$admin->value('SELECT pg_reload_conf()');
			works("ALTER SYSTEM SET $name = $v");
			$admin->value("ALTER SYSTEM RESET $name");
		}
		$admin->value('SELECT pg_reload_conf()');
	}
	$_->close for $admin, $app;
	for my $s (grep { $_->[1] eq 'postmaster' } @settings)
	{
		my ($name, undef, undef, $min, $max) = @$s;
		# the highest needs as much memory as it says; a server that has less says so when it starts
		for my $value ($min, $min + 1, $c->full ? $max : ())
		{
			$c->admin("ALTER SYSTEM SET $name = '$value'");
			$c->{admin}->close;
			delete $c->{admin};
			$c->must(eval { $node->restart; 1 }, "$name = $value: the server does not start");
			works("$name = $value");
			$c->admin("ALTER SYSTEM RESET $name");
		}
		delete $c->{admin};
		$node->restart;
	}
	return;
});
$c->finish;
