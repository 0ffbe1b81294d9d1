# C4: every pair of acts on one tenant, the first in a transaction that stays open while the second begins, at each isolation
# level, with COMMIT and with ROLLBACK.  A call waits for no administrator and no administrator for a call, unless the tenant
# itself goes; what waits waits for the same row or the same request_id and no longer than its holder; no update is lost; no deadlock, no error of mw's making.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwCampaign;
use MwCheck;
use MwClient;

my @acts = qw(same other purge budget session_budget alter grant revoke drop);
my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my @all = map { my $l = $_; map { my $a = $_; map { my $b = $_; map { [ $l, $a, $b, $_ ] } 'COMMIT', 'ROLLBACK' } @acts } @acts } @levels;
my $c = MwCampaign->new('pairs of acts at each isolation level', rounds => [ 162, 2 * @all ], every => 81);
$c->admin('CREATE ROLE pairs LOGIN; CREATE ROLE passer_by');
my %caller = (same => 1, other => 1);
# what writes the same row
my %row = (budget => 'budget', session_budget => 'session_budget', alter => 'tenant', grant => 'grant', revoke => 'grant', purge => 'purge');

$c->rounds(sub {
	my ($round) = @_;
	my ($level, $first, $second, $end) = @{ $all[ $round * ($c->full ? 1 : 11) % @all ] };
	my $t = "p$round";
	$c->{secret}{$t} = "secretof${t}x";
	$c->admin("SELECT mw_create_tenant('$t'), mw_grant_tenant('$t', 'pairs'), mw_set_budget('$t', 'requests', 50), mw_set_budget('$t', 'requests', 50, session => 's')");
	my $same = $c->nonce;
	my %sql;
	my $make = sub {
		my ($act, $n) = @_;
		my $other = $c->nonce;
		return {
			same => $c->ask($t, 's', $same), other => $c->ask($t, 's', $other), purge => "SELECT mw_purge_cache('$t')",
			budget => "SELECT mw_set_budget('$t', 'requests', 10$n)", session_budget => "SELECT mw_set_budget('$t', 'requests', 10$n, session => 's')",
			alter => qq{SELECT mw_alter_tenant('$t', '{"cache": {"ttl": "$n hours"}}')},
			grant => "SELECT mw_grant_tenant('$t', 'passer_by')", revoke => "SELECT mw_revoke_tenant('$t', 'pairs')", drop => "SELECT mw_drop_tenant('$t')",
		}->{$act};
	};
	my ($one, $two) = map { $c->client($caller{$_} ? 'pairs' : undef) } $first, $second;
	my $conflict = ($row{$first} // $first) eq ($row{$second} // $second) || $first eq 'drop' || $second eq 'drop';
	$_->query("BEGIN ISOLATION LEVEL $level") for $one, $two;
	# the snapshot of the second is older than what the first does
	$two->query('SELECT count(*) FROM mw.tenant');
	my $what = "$first, $second, $end at $level";
	my $r = $one->query($make->($first, 1));
	$c->must(!$r->{error}, "$what: the first: " . MwClient::word_of($r));
	$two->send($make->($second, 2));
	my $early = eval { $two->result(0.3) };
	if (!$early)
	{
		$c->count('pairs that wait' => 1);
		# an act of a caller and one of an administrator meet nowhere but where a tenant goes
		$c->must($conflict && !($first eq "other" && $second eq "other"), "$what: the second waits");
	}
	my $done = $one->query($end);
	$c->must(!$done->{error}, "$what: $end: " . MwClient::word_of($done));
	my $late = $early // $two->result(20);
	my $code = MwClient::code_of($late);
	my $committed = $end eq 'COMMIT';
	$c->count("ended with $code" => 1) if $code;
	# PostgreSQL's own words about one row that two have changed; a tenant that is gone; rights that are gone
	my $may = $conflict && $committed ? qr/^(40001|MW101|23505|23503|42710|MW001)?$/ : $committed && $first eq 'revoke' ? qr/^(MW101|42501|40001)?$/ : qr/^$/;
	$c->must(scalar($code =~ $may), "$what: the second ends with $code: " . ($late->{error} ? $late->{error}{M} : ''));
	my $end2 = $two->query('COMMIT');
	my $code2 = MwClient::code_of($end2);
	$c->must($code2 eq '' || $code2 eq '40001' && $level eq 'SERIALIZABLE', "$what: COMMIT of the second: $code2");
	my $second_holds = !$code && !$code2 && ($end2->{tag} // '') eq 'COMMIT';

	# no lost update
	for (grep { $_->[0] eq $first || $_->[0] eq $second } [ budget => 'session IS NULL' ], [ session_budget => q{session = 's'} ])
	{
		my ($act, $where) = @$_;
		my $amount = $c->admin("SELECT max(amount) FROM mw.budget WHERE tenant = '$t' AND unit = 'requests' AND $where") // 'none';
		my $want = $second eq $act && $second_holds ? 102 : $first eq $act && $committed ? 101 : 50;
		$c->must($amount eq $want || $amount eq 'none' && ($first eq 'drop' || $second eq 'drop'), "$what: the limit is $amount, not $want");
	}
	$c->audit;
	if ($first eq 'drop' || $second eq 'drop')
	{
		# what the provider saw is nobody's any more
		$c->admin("DELETE FROM campaign.seen WHERE nonce LIKE '" . substr($same, 0, 13) . "%'") if !$c->admin("SELECT count(*) FROM mw.tenant WHERE tenant = '$t'");
	}
	$_->close for $one, $two;
	$c->count(pairs => 1);
	return;
});
my $deadlocks = $c->admin('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
$c->must($deadlocks == 0, "$deadlocks deadlocks");
$c->finish;
