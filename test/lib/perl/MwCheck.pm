
=head1 NAME

MwCheck - what must hold after every test of mw, and small words that the tests share

=head1 SYNOPSIS

  use MwCheck;
  my $sql = ask('acme', 's1', 'hi', request_id => 'r1', options => { cache => 'off' });
  money_holds($node, 'after the race');

The checks are those that hold whatever happened before: no test needs to know how many
calls another made.

=cut

package MwCheck;

use strict;
use warnings;
use Carp;
use JSON::PP;
use Test::More;
use Time::HiRes qw(time sleep);
use Exporter 'import';
our @EXPORT = qw(ask invoke quote rounds money_holds ledger ledger_is eventually backend_gone wait_recovered is_error reload_fault log_end log_since log_is_clean);

# How often a test of chances is repeated; MW_TEST_ROUNDS=200 for a long night
sub rounds { my ($default) = @_; return $ENV{MW_TEST_ROUNDS} || $default; }

sub quote
{
	my ($s) = @_;
	return 'NULL' if !defined $s;
	$s =~ s/'/''/g;
	return "'$s'";
}

# A call of mw_ask; named: model (llm:m; undef for none), request_id, options (a hash), tools, messages (JSON texts or data)
sub _call
{
	my ($function, $tenant, $session, $prompt, %o) = @_;
	$o{model} = 'llm:m' if !exists $o{model};
	my @named;
	for my $k (sort keys %o)
	{
		my $v = ref $o{$k} ? JSON::PP->new->canonical->encode($o{$k}) : $o{$k};
		push @named, ", $k => " . quote($v);
	}
	return "SELECT $function(" . quote($tenant) . ', ' . quote($session) . ', ' . quote($prompt) . join('', @named) . ')';
}
sub ask { return _call('mw_ask', @_); }
sub invoke { return _call('mw_invoke', @_); }

# An error of the expected SQLSTATE, with a primary message as the house style wants it
sub is_error
{
	my ($r, $code, $name, %o) = @_;
	my $e = $r->{error} // {};
	my $ok = is($e->{C} // ($r->{closed} ? 'closed' : 'no error: ' . ($r->{rows}[0][0] // 'no row')), $code, $name);
	diag(join "\n", map { "$_: $e->{$_}" } grep { defined $e->{$_} } qw(M D H)) if !$ok && $e->{M};
	like($e->{D} // '', $o{detail}, "... $name: detail") if $o{detail};
	like($e->{H} // '', $o{hint}, "... $name: hint") if $o{hint};
	like($e->{M} // '', $o{message}, "... $name: message") if $o{message};
	return $ok;
}

# ---------- the ledger ----------

# Attempts of a request_id as "outcome/http_status/billed_tokens"
sub ledger
{
	my ($node, $where, %o) = @_;
	return $node->safe_psql($o{dbname} // 'postgres',
		"SELECT coalesce(string_agg(outcome, ' ' ORDER BY started_at, attempt), '') FROM mw.ledger WHERE purpose <> 'hits' AND ($where)");
}

# Poll until the attempts are as expected; a test of its own
sub ledger_is
{
	my ($node, $where, $expected, $name, %o) = @_;
	my $got;
	eventually(sub { return ($got = ledger($node, $where, %o)) eq $expected; }, $o{timeout} // 20);
	return is($got, $expected, $name);
}

# V1 of the reliability campaigns: what budgets say is what the ledger adds up to, in every
# scope; nothing is open when nothing runs.
sub money_holds
{
	my ($node, $name, %o) = @_;
	my $db = $o{dbname} // 'postgres';
	my $wrong = $node->safe_psql($db, q{
		WITH billed AS (
			SELECT tenant, '' AS session, sum(billed_tokens) AS tokens, sum(billed_requests) AS requests FROM mw.attempt GROUP BY tenant
			UNION ALL
			SELECT tenant, session, sum(billed_tokens), sum(billed_requests) FROM mw.attempt WHERE session IS NOT NULL GROUP BY tenant, session)
		SELECT string_agg(format('%s/%s: billed %s tokens %s requests, kept sums %s and %s',
			tenant, session, b.tokens, b.requests, s.tokens, s.requests), '; ')
		FROM billed AS b FULL JOIN mw.spent AS s USING (tenant, session)
		WHERE coalesce(b.tokens, 0) <> coalesce(s.tokens, 0) OR coalesce(b.requests, 0) <> coalesce(s.requests, 0)});
	my $open = $node->safe_psql($db,
		q{SELECT string_agg(format('%s %s %s reserved %s', tenant, session, unit, reserved), '; ') FROM mw.budget_status WHERE reserved <> 0});
	my $running = $node->safe_psql($db, q{SELECT count(*) FROM mw.attempt WHERE outcome = 'running'});
	my $over = $node->safe_psql($db,
		q{SELECT string_agg(format('%s %s %s: settled %s of %s, excess %s', tenant, session, unit, settled, amount, excess), '; ')
		  FROM mw.budget_status WHERE settled > amount + excess}) || '';
	my $check = $node->safe_psql($db, q{SELECT string_agg(concat_ws(' ', tenant, session, request_id, finding, expected, found), '; ') FROM mw_check()});
	return is(join(' | ', grep { length } $check, $wrong, $open, $running ? "$running attempts still running" : '', $over), '', "money adds up: $name");
}

# ---------- waiting ----------

sub eventually
{
	my ($test, $timeout) = @_;
	my $until = time + ($timeout // 30);
	while (time < $until)
	{
		return 1 if $test->();
		sleep 0.02;
	}
	return 0;
}

sub backend_gone
{
	my ($node, $pid) = @_;
	return eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0'; });
}

# After a crash: until a connection can be made again.  Not before the postmaster has seen the crash: until it has, it
# accepts connections that it will end in a moment.
sub wait_recovered
{
	my ($node) = @_;
	require MwClient;
	eventually(sub { delete @MwClient::LOST{ grep { !kill 0, $_ } keys %MwClient::LOST }; return !%MwClient::LOST; }, 10);
	%MwClient::LOST = ();
	return eventually(
		sub {
			my $c = eval { MwClient->new($node, try => 1) } or return 0;
			return 0 if !$c->ok;
			my $r = eval { $c->query('SELECT 1') } or return 0;
			return !$r->{error} && !$r->{closed};
		}, 60);
}

# ---------- fault points ----------

# Sets mw.fault (or takes it away: '') in postgresql.conf and has every process read it
sub reload_fault
{
	my ($node, $fault) = @_;
	my $conf = $node->data_dir . '/fault.conf';
	open my $f, '>', $conf or croak "$conf: $!";
	print $f $fault ? "mw.fault = '$fault'\n" : "# none\n";
	close $f;
	return if !-e $node->data_dir . '/postmaster.pid';
	$node->reload;
	# until a new connection has it, and those that run were told before it started
	return eventually(sub { return $node->safe_psql('postgres', "SELECT current_setting('mw.fault', true)") eq $fault; });
}

# ---------- the log ----------

sub log_end { my ($node) = @_; return -s $node->logfile; }

sub log_since
{
	my ($node, $offset) = @_;
	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset // 0);
}

# No process died that no test killed; KILL => 1 where one did, signal => its number where it is another than 9
sub log_is_clean
{
	my ($node, $name, %o) = @_;
	my $killed = $o{signal} // 9;
	my $bad = $o{KILL} ? qr/terminated by signal (?!$killed:)|PANIC|TRAP:|invalid memory alloc|leaked|still referenced/
	  : qr/terminated by signal|PANIC|TRAP:|invalid memory alloc|leaked|still referenced/;
	return is(join("\n", grep { $_ =~ $bad } split /\n/, log_since($node)), '', $name // 'no process died, nothing leaked');
}

1;
