# C3: many clients do anything at all - calls with and without request_id, the same request_id twice at once, rollbacks,
# cancels, another provider - while administrators purge caches, change limits and settings, grant and revoke.  What each
# saw is written down and judged afterwards: every answer is its prompt's, every answer of a request_id is the same to the
# byte, and a budget refused nobody whom it had room for and let nobody pass for whom it had none.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('mixed history', rounds => [ 4, 40 ], every => 2);
my $clients = $c->size(16, 32);
my $seconds = 15;
my $limit = 25;
my $node = $c->node;
$node->server(alt => $c->up->base_url, key => 'sk-campaign');
$c->admin('CREATE ROLE passer_by');
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.01, "max": 0.05}}') FROM mw.tenant});
my @all = map { $c->client('r' . (1 + $_ % 3)) } 1 .. $clients;
my @admins = map { $c->client } 1 .. 2;

$c->rounds(sub {
	my ($round) = @_;
	$c->admin("SELECT mw_set_budget('t$_', 'requests', $limit, session => 'limited$round')") for 1 .. 3;
	$c->script([ (map { { match => { regex => "c\\d+$_\\]" }, step => { status => $_ eq '77' ? 500 : 429 }, times => 30 } } '77', '55'),
		{ step => { echo => \1, delay_ms => 4 } } ]);
	my $until = time + $seconds;
	my (@history, @next, @recent);
	my $audited = time;

	my $job = sub {
		my ($i, $t, $session, $id, $sql, $want) = @_;
		my $from = time;
		return [ $sql, sub {
			my ($r) = @_;
			push @history, [ $from, time, "t$t", $session, $id, $r->{error} ? $r->{error}{C} : $r->{closed} ? 'closed' : $r->{rows}[0][0], $want ];
		} ];
	};
	my $quiet = sub {
		my ($sql, $may) = @_;
		return [ $sql, sub {
			my ($r) = @_;
			my $code = MwClient::code_of($r);
			$c->fault("$sql: $code " . ($r->{error} ? $r->{error}{M} : '')) if $code ne '' && $code !~ ($may // qr/^(57014|40001|40P01)$/);
		} ];
	};

	$c->drive([ @all, @admins ],
		sub {
			my ($i) = @_;
			return shift @{ $next[$i] } if $next[$i] && @{ $next[$i] };
			return if time > $until;
			if ($i >= $clients)
			{
				my $t = $c->pick(1 .. 3);
				my $minutes = 1 + int rand 60;
				$c->count('acts of administrators' => 1);
				return $quiet->($c->pick(
					"SELECT mw_purge_cache('t$t')", "SELECT mw_purge_cache('*')",
					"SELECT mw_set_budget('t$t', 'tokens', " . (10_000_000 + int rand 1000) . ')',
					"SELECT mw_set_budget('t$t', 'requests', 1000000, session => 's" . int(rand 5) . "')",
					qq(SELECT mw_alter_tenant('t$t', '{"cache": {"ttl": "$minutes minutes"}}')),
					"SELECT mw_grant_tenant('t$t', 'passer_by')", "SELECT mw_revoke_tenant('t$t', 'passer_by')",
					'SELECT pg_sleep(0.01)', 'SELECT count(*) FROM mw_doctor()'), qr/^(57014|MW001|42704|23505|42710|MW101|02000)$/);
			}
			my $t = 1 + ($i + 1) % 3;
			my $kind = int rand 100;
			my %o = (model => $c->pick('llm:m', 'alt:m'));
			$c->count('calls' => 1);
			if ($kind < 15)
			{
				my $id = $c->unnamed;
				return $job->($i, $t, "limited$round", undef, $c->ask("t$t", "limited$round", $id, options => { cache => 'off' }), $c->prompt("t$t", $id));
			}
			my $session = $c->pick(undef, 's' . int rand 5);
			if ($kind < 30)
			{
				my $id = sprintf 'u%06dr%05dc00%d0%d', $c->{seed}, $round, $t, rand 8;
				return $job->($i, $t, $session, undef, $c->ask("t$t", $session, $id, %o), $c->prompt("t$t", $id));
			}
			if ($kind < 60 && @recent)
			{
				# what somebody asks just now, or asked a while ago
				my $old = $c->pick(0, 1) ? $c->pick(@recent) : $recent[ -1 - int rand(@recent < 10 ? @recent : 10) ];
				my ($id, $sql, $of, $s) = @$old;
				return $job->($i, $of, $s, $id, $sql, $c->prompt("t$of", $id)) if $of == $t;
			}
			my $id = $c->nonce;
			my $sql = $c->invoke("t$t", $session, $id, %o);
			if ($kind < 75)
			{
				my $call = sub { return $job->($i, $t, $session, $id, $sql, $c->prompt("t$t", $id)); };
				$next[$i] = [ $call->(), $quiet->($c->pick('ROLLBACK', 'COMMIT'), qr/^(57014|40001)$/), $call->() ];
				return $quiet->('BEGIN ISOLATION LEVEL ' . $c->pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
			}
			push @recent, [ $id, $sql, $t, $session ];
			return $job->($i, $t, $session, $id, $sql, $c->prompt("t$t", $id));
		},
		tick => sub {
			if (rand() < 0.3) { $c->pick(@all)->cancel; $c->count(cancels => 1); }
			if (time - $audited > 3) { $audited = time; $c->audit; }
		});
	# a cancel may have hit the end of a transaction
	$_->query('ROLLBACK') for @all;

	# ---------- the history ----------
	my (%answer, %started);
	push @{ $started{"$_->[2]"} }, $_->[0] for grep { ($_->[3] // '') eq "limited$round" } @history;
	for my $h (@history)
	{
		my ($from, $to, $t, $session, $id, $word, $want) = @$h;
		if ($word =~ /^[0-9A-Z]{5}$/)
		{
			$c->count("ended with $word" => 1);
			$c->fault("$t: a call ends with $word") if $word !~ /^(57014|MW301|MW402|MW403|25P02|40P01|40001)$/;
			$c->must(($session // '') eq "limited$round", "V1: $t/" . ($session // '-') . ' is refused by a budget that has room') if $word eq 'MW301';
			my $before = grep { $_ < $to } @{ $started{$t} };
			$c->must($before > $limit, "V1: refused when only $before calls had begun, of a budget of $limit") if $word eq 'MW301';
			next;
		}
		if (!defined $id || $word !~ /^\{/)
		{
			$c->must(MwClient::plain($word) eq $want, "V4: $word");
			next;
		}
		$c->must(index($word, $want) >= 0, "V4: $word is no answer to $want");
		# stored results are equal; a transaction that was rolled back had one of its own
		(my $output = $word) =~ s/.*"output": ("(?:[^"\\]|\\.)*").*/$1/;
		$answer{"$t $id"} //= $output;
		$c->must($answer{"$t $id"} eq $output, "V4: two answers to $id: $answer{\"$t $id\"} and $output");
	}
	for my $t (1 .. 3)
	{
		my $used = $c->admin("SELECT coalesce(max(requests), 0) FROM mw.spent WHERE tenant = 't$t' AND session = 'limited$round'");
		$c->must($used <= $limit, "V1: $used requests of a budget of $limit");
	}
	return;
});
my $deadlocks = $c->admin('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
$c->{state}{counts}{'deadlocks that PostgreSQL ended'} = $deadlocks;
$c->finish;
