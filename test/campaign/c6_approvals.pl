# C6: many clients ask for approvals, claim, decide, resume, wait, expire, abandon, roll back and cancel at once, for five minutes or
# half an hour, while agents are altered and pages looked at; and once a round a backend is killed in a resume.  What ran was approved, ran once, and the log says what became of each call: V7, after every round; and
# what was approved in the end has run, unless its row says what stood in the way.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('approvals under 32 clients', seconds => [ 300, 1800 ], every => 1, tenants => 2);
my $seconds = 15;    # at most, in a round ...
my $runs = 400;      # ... of so many runs
my @points = qw(args idem_claim http_send http_wait tool_before tool_after approval_write return);

$c->agents;
$c->admin(q{SELECT mw_alter_tenant(tenant, '{"guardrail": false, "retry": {"max_attempts": 3, "base": 0.01, "max": 0.05}}') FROM mw.tenant});
# a gate of the tool's own, and every kind of an agent's: of a whole message, of each call, of two persons, with an end
$c->node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION campaign.strict(what text) RETURNS text LANGUAGE sql AS $$ SELECT campaign.write('strict', what) $$;
SELECT mw_create_tool('strict', 'campaign.strict(text)', 'acts, too', options => '{"writes": true, "approval": true}');
SELECT mw_create_agent(name, jsonb_build_object('model', 'llm:m', 'tools', '["note", "act", "strict"]'::jsonb,
	'middleware', jsonb_build_array('{"type": "human_in_the_loop", "interrupt_on": {"act": true}}'::jsonb || hitl)))
FROM (VALUES ('batch', '{}'::jsonb), ('each', '{"interrupt_mode": "per_call"}'), ('two', '{"interrupt_mode": "per_call", "approvals": 2}'),
	('late', '{"interrupt_mode": "per_call", "expires_in": 0.4}'), ('ends', '{"expires_in": 0.4, "on_expiry": "end"}')) AS v(name, hitl);
-- a reviewer takes whatever waits, and decides it in some way
CREATE FUNCTION campaign.decide(kind text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	i record;
	d jsonb;
BEGIN
	IF kind = 'look' THEN RETURN CASE WHEN mw_inbox_html('t' || substr(current_user, 2, 1)) LIKE '<!DOCTYPE html>%' THEN kind ELSE 'no page' END; END IF;
	SELECT w.tenant, w.session, w.interrupt_id INTO i FROM mw.inbox AS w ORDER BY random() LIMIT 1;
	IF NOT FOUND THEN RETURN 'nothing waits'; END IF;
	SELECT jsonb_agg(CASE kind WHEN 'edit' THEN jsonb_build_object('type', 'edit', 'edited_action',
			jsonb_build_object('name', w.tool, 'args', jsonb_build_object('what', w.args ->> 'what' || '-edited')))
		WHEN 'respond' THEN '{"type": "respond", "message": "no need"}' ELSE jsonb_build_object('type', kind) END ORDER BY w.place)
	INTO d FROM mw.inbox AS w WHERE w.tenant = i.tenant AND w.interrupt_id = i.interrupt_id;
	IF d IS NULL THEN RETURN 'too late'; END IF;
	IF kind = 'claim' THEN PERFORM mw_claim_interrupt(i.tenant, i.interrupt_id, '50 milliseconds'); RETURN kind; END IF;
	PERFORM mw_decide(i.tenant, i.session, jsonb_build_object('decisions', d), i.interrupt_id);
	RETURN kind;
END $$;
GRANT EXECUTE ON FUNCTION campaign.decide TO PUBLIC;
SQL
my @reviewers = map { my $t = $_; map { "v$t$_" } 'a', 'b' } 1, 2;
for my $v (@reviewers)
{
	my ($t) = $v =~ /(\d)/;
	$c->admin("CREATE ROLE $v LOGIN");
	$c->admin("SELECT mw_grant_reviewer('t$t', '$v')");
}
# 22 ask and go on, 8 decide, 2 cancel and look
my @roles = ((map { 'r' . (1 + $_ % 2) } 1 .. 22), (map { $reviewers[ $_ % 4 ] } 1 .. 8), undef, undef);
my @clients = map { $c->client($_) } @roles;

# what may become of a statement here; a word that is none of these is a fault
my %may = (
	# a resume that repeats a leg's request_id may have come before the prompt that is that leg
	ask => qr/^(interrupted|completed|MW501|57014)$/,
	resume => qr/^(interrupted|completed|MW603|MW502|MW501|57014)$/,
	decide => qr/^(approve|reject|edit|respond|look|claim|nothing waits|too late|MW602|MW603|MW604|57014)$/,
	alter => qr/^no row$|^$|^40001$|^57014$/,
	cancel => qr/^[tf]$|^no row$/,
	look => qr/^0$/,
	transaction => qr/^no row$/,
);

$c->rounds(sub {
	my ($round) = @_;
	my (@open, %of, @next);
	my @ids = map { $c->nonce } 1 .. $runs;
	my @rules = ({ match => { role => 'tool', regex => '.' }, step => { echo => \1 } }, { match => { role => 'user', contains => ' again' }, step => { echo => \1 } });
	for my $id (@ids)
	{
		my @calls = $c->pick([ act => "$id-a" ], [ act => "$id-a", act => "$id-b", note => "$id-n" ], [ strict => "$id-s" ], [ act => "$id-a", strict => "$id-s" ]);
		push @rules, ($c->steps_for($id, $calls[0], delay_ms => $c->pick(0, 0, 3)))[1];
	}
	$c->script(\@rules);

	my $until = time + $seconds;
	my $kill_at = time + $seconds * (0.05 + rand 0.3);
	# then nobody has anything to do: the next round is more of a trial
	my $all_over = sub { return !@ids && !grep { !$_->{over} } @open; };
	my $job = sub {
		my ($kind, $sql, $run) = @_;
		return [ $sql, sub {
			my ($r, $took) = @_;
			my $word = MwClient::word_of($r);
			$c->count("$kind: $word" => 1);
			$run->{over} = $word =~ /^(completed|MW603)$/ if $run;
			return if $word =~ /^(closed|57P..)$/;
			$c->must(scalar($word =~ $may{$kind}), "$kind: $word " . ($r->{error} ? "$r->{error}{M} " . ($r->{error}{D} // '') : ''));
		} ];
	};
	my $resume = sub {
		my ($run, %o) = @_;
		# a name of its own, or that of the leg before, which then is a replay
		my $k = $o{again} && $run->{legs} ? $run->{legs} : ++$run->{legs};
		my $wait = $o{wait} ? ", wait => '$o{wait}'" : '';
		return "SELECT mw_resume('$run->{tenant}', '$run->{id}', request_id => '$run->{id}.$k', options => '{\"resend_unknown\": true}'$wait) ->> 'status'";
	};

	$c->drive(\@clients, sub {
		my ($i) = @_;
		return shift @{ $next[$i] } if $next[$i] && @{ $next[$i] };
		return if time > $until || $all_over->();
		my $role = $roles[$i];
		if (!defined $role)
		{
			return $job->(look => q{SELECT count(*) FROM mw_check() WHERE finding LIKE '%approvals%'}) if rand() < 0.1;
			return $job->(alter => "SELECT mw_alter_agent('" . $c->pick(qw(batch each two late ends)) . "', '{\"max_turns\": " . (10 + int rand 20) . '}\')') if rand() < 0.05;
			return $job->(cancel => q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE usename ~ '^[rv][0-9]' AND state = 'active' AND query !~ 'pg_cancel' ORDER BY random() LIMIT 1}) if rand() < 0.4;
			return $job->(cancel => 'SELECT pg_sleep(0.05) IS NULL');
		}
		return $job->(decide => "SELECT campaign.decide('" . $c->pick(qw(approve approve approve approve edit reject respond look claim)) . "')") if $role =~ /^v/;

		# now and then one that has ended
		my @mine = grep { $_->{role} eq $role && (!$_->{over} || rand() < 0.02) } @open;
		if (@ids && (rand() < 0.5 || !@mine))
		{
			my $id = shift @ids;
			my $tenant = $role =~ s/^r/t/r;
			push @open, $of{$id} = { id => $id, role => $role, tenant => $tenant, legs => 0 };
			return $job->(ask => $c->invoke($tenant, $id, $id, agent => $c->pick(qw(batch each two late ends))) =~ s/^SELECT (.*)$/SELECT $1 ->> 'status'/sr);
		}
		return $job->(look => 'SELECT 0') if !@mine;
		my $run = $c->pick(@mine);
		my $what = rand;
		if ($what < 0.1)
		{
			$next[$i] = [ $job->(resume => $resume->($run), $run), $job->(transaction => 'ROLLBACK') ];
			return $job->(transaction => 'BEGIN');
		}
		if ($what < 0.14)
		{
			my $k = ++$run->{legs};
			return $job->(ask => $c->invoke($run->{tenant}, $run->{id}, "$run->{id}.$k", prompt => $c->prompt($run->{tenant}, $run->{id}, " again $k"), agent => 'batch')
				=~ s/^SELECT (.*)$/SELECT $1 ->> 'status'/sr, $run);
		}
		return $job->(resume => $resume->($run, again => $what < 0.25, wait => $what > 0.6 ? '0.3 s' : undef), $run);
	}, lost => sub {
		my ($i) = @_;
		$next[$i] = [];
		return $c->client($roles[$i]);
	}, tick => sub {
		return if !$c->faulty || time < $kill_at;
		# K1: at a point of a resume that goes on after an approval; who has the session meanwhile is left alone
		$kill_at = time + 0.3;
		my ($session) = $c->admin(q{SELECT session FROM mw.interrupt WHERE status = 'decided' AND requested_at > now() - interval '10 s'
			AND decisions #>> '{-1,decision,type}' IN ('approve', 'edit') ORDER BY random() LIMIT 1});
		my $run = $of{ $session // '' } or return;
		my $victim = $c->client($run->{role}, try => 1);
		return if !$victim || !$victim->ok;
		my $point = $c->pick(@points);
		$victim->query("SET mw.fault = '$point:crash'; SET statement_timeout = '2s'");
		my $r = $victim->query($resume->($run));
		return $victim->close if MwClient::code_of($r) !~ /^(closed|57P..)$/;
		$kill_at = time + 1000;
		$c->crashed;
		$c->count("kills at $point" => 1);
	});

	# everything that waits is decided, everything that was begun comes to its end
	wait_recovered($c->node);
	my %asks = map { ("r$_" => $c->client("r$_")) } 1, 2;
	my @deciding = map { $c->client($_) } @reviewers;
	my @left = @open;
	for my $try (1 .. 40)
	{
		for my $v (@deciding) { 1 while $v->word("SELECT campaign.decide('approve')") =~ /^(approve|too late)$/; }
		@left = grep {
			my $word = $asks{ $_->{role} }->word($resume->($_));
			$c->must(scalar($word =~ $may{resume}), "at the end, resume: $word");
			$word !~ /^(completed|MW603)$/;
		} @left or last;
	}
	$c->must(!@left, 'V7: ' . @left . ' run(s) do not come to an end, such as ' . ($left[0]{id} // ''));
	$_->close for values %asks, @deciding;

	$c->sound("after round $round");
	my @stuck = $c->admin(q{
		SELECT format('V7: %s %s: a call that was approved has not run, and nothing stood in its way (%s)', i.tenant, i.session, concat_ws(' ', i.status, i.outcome))
		FROM mw.interrupt AS i
		WHERE i.status IN ('open', 'decided') AND NOT EXISTS (SELECT FROM mw.session AS s WHERE s.tenant = i.tenant AND s.session = i.session AND s.run_id <> i.run_id)
			OR i.status = 'done' AND i.outcome IS DISTINCT FROM 'ran' AND i.decisions #>> '{-1,decision,type}' IN ('approve', 'edit')
				AND NOT EXISTS (SELECT FROM mw.interrupt AS e WHERE e.tenant = i.tenant AND e.run_id = i.run_id AND e.status = 'expired' AND e.on_expiry = 'end')});
	$c->fault($_) for @stuck;
	$c->count('approved, and run' => $c->admin('SELECT count(*) FROM campaign.acted') - ($c->{acted} // 0));
	$c->{acted} = $c->admin('SELECT count(*) FROM campaign.acted');
	return;
});
$c->finish;
