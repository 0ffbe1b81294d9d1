# C7: C3 with agents - many clients run agents on a few sessions, which tools write for, some after a person's yes.  They cancel,
# roll back, ask again under the same request_id, approve, reject, edit and resume, while administrators purge caches, move
# limits and give the agents another model.  Afterwards each session must read as if one run after another had been made in
# it: no run between the messages of another, every call answered at once and in order, nothing lost, nothing twice, in an
# order that the clients could have seen; and what tools wrote is what the threads say.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('mixed history of agents', rounds => [ 3, 30 ], every => 1);
my $clients = $c->size(16, 32);
my $seconds = $c->size(15, 20);
my $runs = 240;    # each has rules of its own in the mock, which looks at them one after another
my $sessions = 4;    # of a tenant
my $node = $c->node;
$node->server(alt => $c->up->base_url, key => 'sk-campaign');
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"retry": {"max_attempts": 3, "base": 0.01, "max": 0.05}}') FROM mw.tenant});
$c->admin(q{SELECT mw_set_budget(tenant, 'requests', 1000000000) FROM mw.tenant});
$c->agents;
my @all = map { $c->client('r' . (1 + $_ % 3)) } 1 .. $clients;
my @admins = map { $c->client } 1 .. 2;

# What a client may see instead of an answer: a cancel, a session that somebody else has, what waits or does not wait any more
my $may = qr/^(57014|55P03|25P02|40P01|40001|MW60[2345])$/;

# One of the tenant's paused sessions, and what has to be known of it
my $paused = q{SELECT s.session, i.interrupt_id, split_part(r.request_id, '.', 1), i.args ->> 'what'
	FROM mw.session AS s JOIN mw.run AS r USING (tenant, run_id) JOIN mw.interrupt AS i USING (tenant, run_id)
	WHERE s.tenant = '%s' AND s.status = 'interrupted' AND i.status = 'open' ORDER BY random() LIMIT 1};

$c->rounds(sub {
	my ($round) = @_;
	my (@history, @next, @plans, @rules, @recent);
	for (1 .. $runs)
	{
		my $id = $c->nonce;
		my $t = 1 + int rand 3;
		my @calls = map { ($c->pick('note', 'act'), $id . 'w' . chr(96 + $_)) } 1 .. $c->pick(0, 1, 1, 2, 2, 3);
		push @plans, { id => $id, t => $t, session => "s$round" . $c->pick(1 .. $sessions), agent => grep({ $_ eq 'act' } @calls) ? 'careful' : $c->pick('worker', 'careful'), calls => \@calls };
		# its answer is no echo: one would repeat the tags around what a user says, which the guardrail refuses in the next turn
		my @steps = @calls ? $c->steps_for($id, \@calls, delay_ms => 1 + int rand 8) : { match => { last => \1, role => 'user', contains => $id } };
		$steps[0]{step} = { text => "[n:$id] is answered", delay_ms => 1 + int rand 8 };
		push @rules, @steps;
	}
	$c->script(\@rules);
	my %plan = map { $_->{id} => $_ } @plans;
	my $until = time + $seconds;

	my $run = sub {
		my ($p, %o) = @_;
		my $from = time;
		return [ $c->invoke("t$p->{t}", $p->{session}, $p->{id}, agent => $p->{agent}, model => undef, options => { $c->pick(0, 0, 1) ? (session_busy => 'error') : (), %o }), sub {
			my ($r) = @_;
			push @history, { p => $p, from => $from, to => time, word => $r->{error} ? $r->{error}{C} : $r->{closed} ? 'closed' : $r->{rows}[0][0], said => $r->{error} ? $r->{error}{M} : '' };
			$c->count('ended with ' . ($r->{error} ? $r->{error}{C} : 'a result') => 1);
			$c->fault("t$p->{t}/$p->{session}: a run ends with $r->{error}{C}: $r->{error}{M} " . ($r->{error}{D} // '')) if $r->{error} && $r->{error}{C} !~ $may;
		} ];
	};
	my $quiet = sub {
		my ($sql, $codes) = @_;
		return [ $sql, sub {
			my ($r) = @_;
			my $code = MwClient::code_of($r);
			$c->fault("$sql: $code " . ($r->{error} ? $r->{error}{M} : '')) if $code ne '' && $code !~ ($codes // $may);
		} ];
	};
	# looks for a paused session, and does something about it
	my $attend = sub {
		my ($i, $t) = @_;
		return [ sprintf($paused, "t$t"), sub {
			my ($r) = @_;
			my ($session, $interrupt, $id, $what) = @{ ($r->{rows} // [])->[0] // return };
			my $decision = $c->pick(q(jsonb '{"type": "approve"}'), q(jsonb '{"type": "approve"}'), qq(jsonb '{"type": "reject", "message": "no to $what"}'),
				q(jsonb_build_object('type', 'edit', 'edited_action', jsonb_build_object('name', 'act', 'args', jsonb_build_object('what', (args ->> 'what') || 'e')))));
			my $decisions = qq((SELECT jsonb_build_object('decisions', jsonb_agg($decision ORDER BY place)) FROM mw.interrupt
				WHERE tenant = 't$t' AND interrupt_id = '$interrupt'));
			$c->count(decisions => 1);
			# whoever resumes names the interrupt: the session may wait for another one by then
			push @{ $next[$i] }, $quiet->("SELECT mw_resume('t$t', '$session', $decisions, '$interrupt', request_id => '$id." . $c->nonce . "') ->> 'status'");
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
				my $server = $c->pick('llm', 'alt');
				$c->count('acts of administrators' => 1);
				return $quiet->($c->pick(
					"SELECT mw_purge_cache('t$t')",
					"SELECT mw_set_budget('t$t', 'tokens', " . (1_000_000_000 + int rand 1000) . ')',
					"SELECT mw_set_budget('t$t', 'requests', 1000000, session => 's$round" . $c->pick(1 .. $sessions) . "')",
					qq(SELECT mw_alter_agent('worker', '{"model": "$server:m"}')),
					qq(SELECT mw_alter_agent('careful', '{"model": "$server:m"}')),
					'SELECT pg_sleep(0.02)', 'SELECT pg_sleep(0.02)', 'SELECT count(*) FROM mw_doctor()'), qr/^(57014|23505|40P01)$/);
			}
			my $t = 1 + ($i + 1) % 3;
			my $kind = int rand 100;
			return $attend->($i, $t) if $kind < 35;
			if ($kind < 50)
			{
				# what somebody asks just now, or asked a while ago
				my @mine = grep { $_->{t} == $t } @recent;
				if (@mine) { $c->count(repeats => 1); return $run->($mine[ rand @mine ]); }
			}
			my ($n) = grep { $plans[$_]{t} == $t } 0 .. $#plans;
			return $attend->($i, $t) if !defined $n;
			my $p = splice @plans, $n, 1;
			$c->count(runs => 1);
			if ($kind < 65)
			{
				$next[$i] = [ $run->($p), $quiet->('ROLLBACK') ];
				return $quiet->('BEGIN');
			}
			push @recent, $p;
			if ($kind < 75)
			{
				$next[$i] = [ $run->($p), $quiet->('COMMIT') ];
				return $quiet->('BEGIN');
			}
			return $run->($p);
		},
		tick => sub {
			if (rand() < 0.3) { $c->pick(@all)->cancel; $c->count(cancels => 1); }
		});
	# a cancel may have hit the end of a transaction
	$_->query('ROLLBACK') for @all;

	# ---------- what is there now ----------

	for my $t (1 .. 3)
	{
		for my $s (1 .. $sessions)
		{
			my $session = "s$round$s";
			my @rows = map { JSON::PP::decode_json($_) } $c->admin(qq{SELECT jsonb_build_object('run', run_id, 'm', message) FROM mw.thread
				WHERE tenant = 't$t' AND session = '$session' AND removed_step IS NULL ORDER BY position, seq});
			my ($status) = $c->admin("SELECT coalesce(max(status), '') FROM mw.session WHERE tenant = 't$t' AND session = '$session'");
			my %abandoned = map { $_ => 1 } $c->admin("SELECT tool_call_id FROM mw.interrupt WHERE tenant = 't$t' AND session = '$session' AND status = 'abandoned'");
			my (%ended, @order, @open, $at);
			for my $row (@rows)
			{
				my $m = $row->{m};
				if (!defined $at || $row->{run} ne $at)
				{
					$c->must(!$ended{ $row->{run} }++, "t$t/$session: messages of a run stand among those of another");
					$at = $row->{run};
				}
				if ($m->{role} eq 'tool')
				{
					# in any order: what a person has answered comes before what then ran, as in LangChain
					my @left = grep { $_ ne $m->{tool_call_id} } @open;
					$c->must(@left == @open - 1, "t$t/$session: the answer to $m->{tool_call_id} stands where '@open' is open");
					@open = @left;
					next;
				}
				$c->must(!@open || grep({ $abandoned{$_} } @open), "t$t/$session: no answer to @open");
				@open = $m->{role} eq 'assistant' ? map { $_->{id} } @{ $m->{tool_calls} // [] } : ();
				push @order, $m->{content} =~ /\[n:(\w+)\]/ if $m->{role} eq 'user';
			}
			$c->must(!@open || $status eq 'interrupted', "t$t/$session: @open has no answer at the end, and the session is $status");
			my %times;
			$times{$_}++ for @order;
			$c->must($times{$_} == 1, "t$t/$session: $_ was asked $times{$_} times") for keys %times;

			# an order that its clients could have seen: nothing stands behind what began after it had ended
			my (%began, %over);
			for my $h (grep { $_->{p}{t} == $t && $_->{p}{session} eq $session && $_->{word} =~ /^\{/ } @history)
			{
				my $id = $h->{p}{id};
				next if $over{$id} && $over{$id} < $h->{to};
				@began{$id} = $h->{from};
				$over{$id} = $h->{to};
			}
			my $latest = 0;
			for my $id (grep { $over{$_} } @order)
			{
				$c->must($over{$id} >= $latest, "t$t/$session: $id stands behind a run that began after it had ended");
				$latest = max($latest, $began{$id});
			}
		}
	}

	# every answer is its prompt's, and of one request_id there is one
	my %answer;
	for my $h (grep { $_->{word} =~ /^\{/ } @history)
	{
		my $result = JSON::PP::decode_json($h->{word});
		my $id = $h->{p}{id};
		$c->fault("$id: status $result->{status}") if $result->{status} !~ /^(completed|interrupted)$/;
		next if $result->{status} ne 'completed';
		$c->must(index($result->{output}, "[n:$id]") >= 0, "V4: $result->{output} is no answer to $id");
	}
	# what tools have done: once, and where the thread says so
	for ($c->admin(q{SELECT format('%s %s %s was done %s times', tenant, session, what, count(*)) FROM campaign.acted GROUP BY tenant, session, what HAVING count(*) > 1}))
	{
		$c->fault("V3: $_");
	}
	for ($c->admin(q{SELECT format('%s %s: %s %s is %s', coalesce(a.tenant, m.tenant), coalesce(a.session, m.session), coalesce(a.tool, m.tool), coalesce(a.what, m.what),
			CASE WHEN m.what IS NULL THEN 'done, and not in the thread' ELSE 'in the thread, and not done' END)
		FROM campaign.acted AS a
		FULL JOIN (SELECT tenant, session, message ->> 'name' AS tool, substring(message ->> 'content' FROM 'done: (\w+)') AS what FROM mw.thread
			WHERE message ->> 'role' = 'tool' AND message ->> 'content' ~ 'done: ') AS m
			ON m.tenant = a.tenant AND m.session = a.session AND m.tool = a.tool AND m.what = a.what
		WHERE a.what IS NULL OR m.what IS NULL}))
	{
		$c->fault($_);
	}
	for ($c->admin(q{SELECT format('%s %s: %s', a.tenant, a.session, a.what) FROM campaign.acted AS a WHERE a.tool = 'act' AND NOT EXISTS (
			SELECT FROM mw.interrupt AS i WHERE i.tenant = a.tenant AND i.session = a.session AND i.outcome = 'ran'
				AND coalesce(i.decisions -> -1 #>> '{decision,edited_action,args,what}', i.args ->> 'what') = a.what
				AND i.decisions -> -1 #>> '{decision,type}' IN ('approve', 'edit'))}))
	{
		$c->fault("V7: nobody said yes to $_");
	}
	$c->count('messages of threads', $c->admin("SELECT count(*) FROM mw.thread WHERE session LIKE 's$round%'"));
	$c->count('calls of tools', $c->admin("SELECT count(*) FROM campaign.acted WHERE session LIKE 's$round%'"));
	return;
});
$c->{state}{counts}{'deadlocks that PostgreSQL ended'} = $c->admin('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()');
$c->finish;
