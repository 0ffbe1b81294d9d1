
=head1 NAME

MwCampaign - the frame of a reliability campaign (test/campaign/*.pl)

=head1 SYNOPSIS

  use MwCampaign;
  my $c = MwCampaign->new('one request_id, 64 callers', rounds => [ 20, 200 ]);
  $c->rounds(sub {
      my ($round) = @_;
      $c->script({ '*' => [ { status => 500 } ] });
      my $id = $c->nonce;
      my $got = $c->client('r1')->word($c->ask('t1', 's1', $id));
      $c->must($got eq $c->prompt('t1', $id), "the answer is $got");
  });
  $c->finish;

new() starts a mock provider and a server with the tenants t1 … tN, each with a role r1 … rN of
its own that may set fault points, and a model llm:m whose answer is the prompt (mode echo).

A campaign is a number of rounds, few in its smoke form, many in its full one (MW_CAMPAIGN=full), or as many as there is
time for.
Each round has random numbers of its own, drawn from the campaign's seed and its number, so that
round 117 is the same whether 116 rounds ran before it or none: a seed that was printed replays
(MW_SEED), and a full form that was interrupted goes on where it was.  At every checkpoint, and at
the end of every campaign, the invariants are judged (see "invariants"); figures are kept with the state.

What the provider saw is matched with the ledger by a nonce: every prompt carries [n:NONCE], and a
request_id, where one is named, is that nonce.  So a campaign sends what prompt() makes, and asks for a
new script with script(), which counts the journal before it is emptied.

=cut

package MwCampaign;

use strict;
use warnings;
use Carp;
use FindBin;
use IO::Select;
use JSON::PP;
use List::Util qw(max sum0);
use Test::More;
use Time::HiRes qw(time sleep);
use MwCheck qw(eventually wait_recovered log_since log_end);
use MwClient;
use MwNode;
use MwUpstream;

my $json = JSON::PP->new->canonical->pretty;

# new(TITLE, rounds => [SMOKE, FULL] or seconds => [SMOKE, FULL], every => rounds between checkpoints, tenants => 3, conf => "lines",
#     upstream => [arguments of the mock], server => {options of the model server}, env => {of the server's processes},
#     init => [of the node], alone => 1 for one that needs neither server nor provider,
#     seed => of a smoke form that is the same each time)
sub new
{
	my ($class, $title, %o) = @_;
	(my $id = $FindBin::Script) =~ s/\.pl$//;
	my $full = ($ENV{MW_CAMPAIGN} // 'smoke') eq 'full';
	my $dir = $ENV{MW_CAMPAIGN_DIR} // '.';
	my $self = bless {
		id => $id, title => $title, full => $full, total => $o{rounds} && $o{rounds}[ $full ? 1 : 0 ], every => $o{every},
		for => $o{seconds} && $o{seconds}[ $full ? 1 : 0 ],
		file => "$dir/$id-" . ($full ? 'full' : 'smoke') . '.json',
		kills => 0, faults => 0, shown => time, tenants => $o{tenants} // 3, serial => 0,
	}, $class;
	$self->{state} = $self->_old_state // { seed => $ENV{MW_SEED} // ($full ? undef : $o{seed}) // 1 + int(rand 1_000_000), done => 0, counts => {}, times => {}, seconds => 0 };
	$self->{seed} = $self->{state}{seed};
	$| = 1;
	if ($self->_enough($self->{state}{done}))
	{
		# a series that was interrupted in a later campaign
		ok(!$self->{state}{faults}, "$id: has run already, see its figures (MW_FRESH=1 runs it again)");
		done_testing();
		exit 0;
	}
	diag(sprintf "%s: %s; %s form, %d %s%s, seed %d (MW_SEED=%d replays it)", $id, $title, $full ? 'full' : 'smoke',
		$self->{total} // $self->{for}, $self->{total} ? 'rounds' : 'seconds', $self->{state}{done} ? " of which $self->{state}{done} have run" : '', $self->{seed}, $self->{seed});
	$self->{from} = time;
	srand($self->{seed});
	return $self if $o{alone};

	my $up = $self->{up} = MwUpstream->start(@{ $o{upstream} // [] });
	$up->reset({}, mode => 'echo');
	my $node = $self->{node} = MwNode->new($id, start => 0, $o{init} ? (init => $o{init}) : (),
		conf => join "\n", 'restart_after_crash = on', "include_if_exists = 'fault.conf'", "mw.gateway_idle = '300s'",
		"mw.pii_key_file = '" . _key_file() . "'", 'max_connections = 260', "deadlock_timeout = '200ms'", "client_connection_check_interval = '100ms'", $o{conf} // '');
	{
		local %ENV = (%ENV, %{ $o{env} // {} });
		$node->start;
	}
	$node->safe_psql('postgres', 'CREATE EXTENSION mw');
	# prompts here are nonces and random words, by the thousand: what these two make of such texts is another test's subject
	$node->safe_psql('postgres', qq{SELECT mw_alter_guard('$_', '{"mode": "off"}')}) for qw(learned context_flood);
	# what fails here is meant to: a breaker would keep the faults away from what they are to try
	$node->server(llm => $up->base_url, key => 'sk-campaign', breaker => 'off', retry_reserve => 9999, %{ $o{server} // {} });
	$self->{faulty} = !($node->psql('postgres', q{SELECT mw_count_tokens('x'); SET mw.fault = 'nowhere:error'}))[0];
	for my $n (1 .. $self->{tenants})
	{
		$node->tenant("t$n", "r$n");
		# letters alone: what looks like a number might be taken for personal data
		$self->{secret}{"t$n"} = "secretof" . "t$n" . 'x' . join '', map { chr(97 + int rand 26) } 1 .. 10;
	}
	$node->safe_psql('postgres', q{SELECT mw_set_budget(tenant, 'tokens', 'Infinity', session => '*') FROM mw.tenant});
	$node->safe_psql('postgres', "SELECT mw_count_tokens('x'); GRANT SET ON PARAMETER mw.fault TO r$_") for $self->{faulty} ? 1 .. $self->{tenants} : ();
	$node->safe_psql('postgres', q{
		CREATE SCHEMA campaign;
		CREATE TABLE campaign.seen (nonce text PRIMARY KEY, n bigint NOT NULL);
		CREATE TABLE campaign.acted (tool text, tenant text, session text, what text)});
	$self->{log_from} = 0;
	return $self;
}

# What seals the values that placeholders of sessions stand for
sub _key_file
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/pii.key';
	MwNode::write_keys($file, '1 ' . 'a1' x 32);
	return $file;
}

sub up { return $_[0]{up} }
sub node { return $_[0]{node} }
sub full { return $_[0]{full} }
sub faulty { return $_[0]{faulty} }    # whether the build has fault points
sub size { my ($self, $smoke, $full) = @_; return $self->{full} ? $full : $smoke; }
sub pick { my ($self, @of) = @_; return $of[ rand @of ]; }

sub _old_state
{
	my ($self) = @_;
	return if !$self->{full} || $ENV{MW_FRESH} || !-e $self->{file};
	return $json->decode(PostgreSQL::Test::Utils::slurp_file($self->{file}));
}

# ---------- callers ----------

sub client { my ($self, $role, %o) = @_; return MwClient->new($self->{node}, defined $role ? (user => $role) : (), %o); }

# One connection for the frame's own looking, made anew where a crash took it
sub admin
{
	my ($self, $sql) = @_;
	for (1 .. 3)
	{
		if (!$self->{admin} || $self->{admin}{closed})
		{
			wait_recovered($self->{node}) or croak 'the server does not come back';
			$self->{admin} = $self->client;
		}
		my $r = $self->{admin}->query($sql);
		next if $r->{closed} || $r->{error} && $r->{error}{C} =~ /^57P/;
		croak "$r->{error}{C}: $r->{error}{M} in: $sql" if $r->{error};
		return wantarray ? map { $_->[0] } @{ $r->{rows} } : $r->{rows}[0] && $r->{rows}[0][0];
	}
	croak "the server hung up three times in: $sql";
}

sub gateway { return $_[0]->admin(q{SELECT coalesce(min(pid), 0) FROM pg_stat_activity WHERE backend_type = 'mw gateway' AND datname = current_database()}); }

# kill -9, remembered: the log will show it, and the tables must be sound afterwards
sub kill
{
	my ($self, $pid, $signal) = @_;
	$self->{kills}++;
	$MwClient::LOST{$pid} = 1;
	return kill $signal // 'KILL', $pid;
}
sub crashed { $_[0]{kills}++; return; }

# Names of requests, all of one length; letters in between, so that nothing takes them for a number of somebody's
sub nonce { my ($self) = @_; return sprintf 'n%06dr%05dc%05d', $self->{seed}, $self->{round} // 0, ++$self->{serial}; }
sub unnamed { my ($self) = @_; return sprintf 'u%06dr%05dc%05d', $self->{seed}, $self->{round} // 0, ++$self->{serial}; }

# A prompt with a nonce, a secret of its tenant and a personal datum; the echo of it must come back equal
sub prompt
{
	my ($self, $tenant, $nonce, $more) = @_;
	return "[n:$nonce] $self->{secret}{$tenant} asks for $nonce\@pii.example" . ($more // '');
}

# A call under the nonce as its request_id; a nonce of unnamed() is none
sub ask { my ($self, $tenant, $session, $nonce, %o) = @_; return $self->_call(\&MwCheck::ask, $tenant, $session, $nonce, %o); }
sub invoke { my ($self, $tenant, $session, $nonce, %o) = @_; return $self->_call(\&MwCheck::invoke, $tenant, $session, $nonce, %o); }
sub _call
{
	my ($self, $how, $tenant, $session, $nonce, %o) = @_;
	$o{request_id} = $nonce if $nonce !~ /^u/;
	return $how->($tenant, $session, delete $o{prompt} // $self->prompt($tenant, $nonce, delete $o{more}), %o);
}

# Keep clients busy: next->($i) gives [SQL, sub ($result, $seconds, $i)], or nothing when client $i has done.
# lost->($i): the client whose connection was lost; a new one of the same role, unless told otherwise.
# tick: called some twenty times a second.
sub drive
{
	my ($self, $clients, $next, %o) = @_;
	my ($select, $ticked, %at) = (IO::Select->new, 0);
	my $start = sub {
		my ($i) = @_;
		my $job = $next->($i) or return;
		my $c = $clients->[$i];
		$c->send($job->[0]);
		$at{ fileno $c->{sock} } = [ $i, $job, time ];
		$select->add($c->{sock});
	};
	$start->($_) for 0 .. $#$clients;
	my $until = time + ($o{timeout} // 600);
	while ($select->count)
	{
		croak 'clients hang: ' . join(' ', map { $_->[0] } values %at) if time > $until;
		for my $sock ($select->can_read(0.05))
		{
			my ($i, $job, $from) = @{ delete $at{ fileno $sock } };
			$select->remove($sock);
			my $r = $clients->[$i]->result;
			$job->[1]->($r, time - $from, $i);
			if ($clients->[$i]{closed})
			{
				wait_recovered($self->{node}) or croak 'the server does not come back';
				$clients->[$i] = $o{lost} ? $o{lost}->($i) : $self->client($clients->[$i]{user});
			}
			$start->($i) if $clients->[$i];
		}
		if ($o{tick} && time - $ticked > 0.05)
		{
			$o{tick}->();
			$ticked = time;
		}
		$self->progress;
	}
	return;
}

# ---------- agents ----------

# Two tools and two agents.  Both tools write a row of campaign.acted: "note", and "act", which agent "careful" asks a
# person for; agent "worker" has "note" alone.  "what" must be another for every call that a model asks for: V3 and V7 know
# a call by it.  The answer of a tool holds it, so that the mock's rules can tell the second turn: steps_for() makes them.
sub agents
{
	my ($self, %o) = @_;
	$self->{node}->safe_psql('postgres', q{
		GRANT USAGE ON SCHEMA campaign TO PUBLIC;
		GRANT INSERT ON campaign.acted TO PUBLIC;
		CREATE FUNCTION campaign.write(tool text, what text) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO campaign.acted SELECT tool, mw_runtime() ->> 'tenant', mw_runtime() ->> 'session', what;
			RETURN 'done: ' || what;
		END $$;
		CREATE FUNCTION campaign.note(what text) RETURNS text LANGUAGE sql AS $$ SELECT campaign.write('note', what) $$;
		CREATE FUNCTION campaign.act(what text) RETURNS text LANGUAGE sql AS $$ SELECT campaign.write('act', what) $$;
		SELECT mw_create_tool('note', 'campaign.note(text)', 'takes a note', options => '{"writes": true}');
		SELECT mw_create_tool('act', 'campaign.act(text)', 'acts', options => '{"writes": true}')});
	my %config = (
		worker => { model => $o{model} // 'llm:m', tools => ['note'] },
		careful => { model => $o{model} // 'llm:m', tools => [ 'note', 'act' ],
			middleware => [ { type => 'human_in_the_loop', interrupt_on => { act => \1 } } ] });
	$self->{node}->safe_psql('postgres', "SELECT mw_create_agent('$_', " . MwCheck::quote(JSON::PP->new->canonical->encode($config{$_})) . ')') for sort keys %config;
	return;
}

# Rules for a run whose prompt has this nonce: it asks for these calls ("note" => what, …), and says the prompt when their
# results are there, whatever earlier runs of its session have left.  more: of the steps, such as delay_ms.
sub steps_for
{
	my ($self, $nonce, $calls, %more) = @_;
	my @calls = @$calls;
	my ($n, @ask) = (0);
	while (my ($tool, $what) = splice @calls, 0, 2)
	{
		push @ask, { id => sprintf('%s-%d', $nonce, ++$n), name => $tool, arguments => { what => $what } };
	}
	return (
		{ match => { last => \1, role => 'tool', contains => $nonce }, step => { echo => \1, %more } },
		{ match => { last => \1, role => 'user', contains => $nonce }, step => { tool_calls => \@ask, %more } });
}

# ---------- the provider ----------

# A new script for the mock.  Its journal is counted afterwards, so that a request which comes just now is not lost between
# the two
sub script
{
	my ($self, $script, %o) = @_;
	$self->{up}->reset($script // {}, mode => 'echo', keep_journal => \1, %o);
	$self->audit;
	return;
}

# What the provider saw since the last time, judged there (V6, V8) and kept for V2
sub audit
{
	my ($self) = @_;
	my $a = $self->{up}->audit(nonce => '\[n:([A-Za-z0-9_-]+)\]', forbidden => '@pii\.example');
	$self->must(!@{ $a->{problems} }, "V8: the provider refused requests: @{ $a->{problems} }");
	$self->must(!$a->{forbidden}, "V6: raw personal data reached the provider in $a->{forbidden} request(s)");
	$self->must(!$a->{without}, "V2: $a->{without} request(s) without a nonce: this campaign sends what nobody can judge");
	my @rows = map { "('$_', $a->{nonces}{$_})" } sort keys %{ $a->{nonces} };
	while (my @some = splice @rows, 0, 5000)
	{
		$self->admin('INSERT INTO campaign.seen AS s VALUES ' . join(', ', @some) . ' ON CONFLICT (nonce) DO UPDATE SET n = s.n + excluded.n');
	}
	return $a->{requests};
}

# How many requests the provider has had with this nonce
sub requests { my ($self, $nonce) = @_; $self->audit; return $self->admin("SELECT coalesce(max(n), 0) FROM campaign.seen WHERE nonce = '$nonce'"); }

# ---------- rounds ----------

sub rounds
{
	my ($self, $code) = @_;
	my $every = $self->{every} // max(1, int($self->{total} / ($self->{full} ? 20 : 2)));
	for (my $round = $self->{state}{done} + 1; !$self->_enough($round - 1); $round++)
	{
		$self->{round} = $round;
		$self->{serial} = 0;
		srand($self->{seed} * 100_003 + $round);
		if (!eval { $code->($round); 1 })
		{
			$self->fault("a round died: $@");
			last;
		}
		if ($round % $every == 0 || $self->_enough($round))
		{
			$self->invariants("after round $round");
			$self->{state}{done} = $round;
			$self->_save;
		}
		$self->progress;
	}
	return;
}

# Whether so many rounds, or so much time, are all of it
sub _enough
{
	my ($self, $done) = @_;
	return $done >= $self->{total} if $self->{total};
	return $self->{state}{seconds} + ($self->{from} ? time - $self->{from} : 0) >= $self->{for};
}

sub _of { my ($self) = @_; return $self->{total} // "$self->{for} s"; }

sub progress
{
	my ($self) = @_;
	return if time - $self->{shown} < 10;
	$self->{shown} = time;
	diag(sprintf '%s: round %d of %s, %d s, %d faults; %s', $self->{id}, $self->{round} // 0, $self->_of, time - $self->{from}, $self->{faults}, $self->figures);
	return;
}

# ---------- what must hold ----------

sub fault
{
	my ($self, $what) = @_;
	# a broken round has many words for one fault
	fail("$self->{id}: $what (seed $self->{seed}, round " . ($self->{round} // 0) . ')') if $self->{faults}++ < 40;
	return 0;
}
# Whether what is to be done at once was done so: within so many seconds, or, where this machine is too busy for that, within
# some times what PostgreSQL alone takes now for the like
sub at_once
{
	my ($self, $took, $bound) = @_;
	return 1 if $took < $bound;
	my $alone = 0;
	for (1 .. 3)
	{
		my $c = $self->client;
		$c->send('SELECT pg_sleep(60)');
		sleep 0.05;
		my $t = time;
		$c->cancel;
		$c->result;
		$alone = max($alone, time - $t);
		$c->close;
	}
	return $took < $bound + 50 * $alone;
}
# A match that fails is, as an argument, none at all
sub must
{
	my ($self, @true) = @_;
	my $what = pop @true;
	return $true[0] ? 1 : $self->fault($what);
}

# One row a violation.  V1 and V9 hold when nothing is in flight.
my $violations = q{
	WITH sent AS (
		-- rows for what certainly reached the provider, and for all that may have
		-- a run that goes on after a pause has another request_id: its prompt's nonce, a dot and more
		SELECT split_part(request_id, '.', 1) AS request_id, request_named, count(*) AS may,
			-- on a kept connection the rest of an earlier answer may be what came, and then nothing: who knows
			count(*) FILTER (WHERE outcome = 'ok' OR http_status IS NOT NULL
				OR (outcome = 'unknown' AND error IS DISTINCT FROM 'lost in a crash'
					AND error NOT LIKE '% broke off inside its first line'
					-- written, but a provider that had no time before the deadline has not read it
					AND error NOT LIKE 'no complete answer from % within %')) AS must
		FROM mw.attempt WHERE purpose <> 'hits' GROUP BY 1, 2
	), named AS (
		SELECT coalesce(s.request_id, j.nonce) AS id, coalesce(s.may, 0) AS may, coalesce(s.must, 0) AS must, coalesce(j.n, 0) AS n
		FROM (SELECT * FROM sent WHERE request_named) AS s
		FULL JOIN (SELECT * FROM campaign.seen WHERE nonce !~ '^u') AS j ON j.nonce = s.request_id
	), unnamed AS (
		SELECT coalesce(sum(may), 0) AS may, coalesce(sum(must), 0) AS must,
			(SELECT coalesce(sum(n), 0) FROM campaign.seen WHERE nonce ~ '^u') AS n
		FROM sent WHERE NOT request_named
	), gate AS (
		-- what was decided last, and the call that this lets run
		SELECT i.tenant, i.session, i.interrupt_id, i.place, i.status, i.outcome, i.approvals, v.verdict ->> 'type' AS verdict, i.decisions,
			(SELECT count(DISTINCT d ->> 'by') FROM jsonb_array_elements(i.decisions) AS d WHERE d #>> '{decision,type}' IN ('approve', 'edit')) AS approvers,
			coalesce(e.edited ->> 'name', i.tool) AS tool, coalesce(e.edited -> 'args', i.args) ->> 'what' AS what
		FROM mw.interrupt AS i
		CROSS JOIN LATERAL (SELECT i.decisions -> -1 -> 'decision' AS verdict) AS v
		CROSS JOIN LATERAL (SELECT CASE WHEN v.verdict ->> 'type' = 'edit'
			THEN coalesce(v.verdict -> 'edited_action', v.verdict -> 'editedAction') END AS edited) AS e
	)
	SELECT 'V1: ' || concat_ws(' ', tenant, session, request_id, finding, expected, found) FROM mw_check()
	UNION ALL
	SELECT format('V1: %s/%s %s: reserved %s while nothing runs', tenant, session, unit, reserved) FROM mw.budget_status WHERE reserved <> 0
	UNION ALL
	SELECT format('V1: %s/%s %s: settled %s of %s, excess %s', tenant, session, unit, settled, amount, excess)
	FROM mw.budget_status WHERE settled > amount + excess
	UNION ALL
	SELECT format('V2: %s: %s request(s) reached the provider, the ledger has %s to %s', id, n, must, may)
	FROM named WHERE n > may OR n < must
	UNION ALL
	SELECT format('V2: %s request(s) without a request_id reached the provider, the ledger has %s to %s', n, must, may)
	FROM unnamed WHERE n > may OR n < must
	UNION ALL
	SELECT format('V2: %s %s: an unknown outcome is not charged at its reservation', tenant, request_id) FROM mw.attempt
	WHERE outcome = 'unknown' AND NOT (billed_tokens >= reserved_tokens AND billed_requests >= reserved_requests AND estimated)
	UNION ALL
	SELECT format('V3: %s %s: %s attempts succeeded for the same bytes', tenant, request_id, count(*))
	FROM mw.attempt WHERE outcome = 'ok' AND request_named GROUP BY tenant, request_id, call_key, nth HAVING count(*) > 1
	UNION ALL
	SELECT format('V7: %s %s: %s has run and was not approved (%s)', a.tenant, a.session, a.what,
		coalesce(string_agg(concat_ws(' ', g.status, g.verdict, g.outcome), ', '), 'nobody was asked'))
	FROM campaign.acted AS a LEFT JOIN gate AS g USING (tenant, session, tool, what)
	WHERE a.tool <> 'note' GROUP BY a.tenant, a.session, a.tool, a.what
	HAVING NOT coalesce(bool_or(g.status = 'done' AND g.outcome = 'ran' AND g.verdict IN ('approve', 'edit') AND g.approvers >= g.approvals), false)
	UNION ALL
	SELECT format('V7: %s %s: %s has run %s times', tenant, session, what, count(*)) FROM campaign.acted GROUP BY tenant, session, tool, what HAVING count(*) > 1
	UNION ALL
	SELECT format('V7: %s %s: %s is said to have run and has not', tenant, session, what) FROM gate AS g
	WHERE outcome = 'ran' AND NOT EXISTS (SELECT FROM campaign.acted AS a WHERE (a.tenant, a.session, a.tool, a.what) = (g.tenant, g.session, g.tool, g.what))
	UNION ALL
	SELECT format('V7: %s %s: %s was decided again after %s', i.tenant, i.session, i.interrupt_id, d.one #>> '{decision,type}')
	FROM mw.interrupt AS i, jsonb_array_elements(i.decisions) WITH ORDINALITY AS d(one, n)
	WHERE d.n < jsonb_array_length(i.decisions) AND d.one #>> '{decision,type}' IN ('reject', 'respond', 'edit')
	UNION ALL
	SELECT format('V7: %s %s: the log has %s asked, %s decided or expired and %s done of a call that is %s, %s', g.tenant, g.session, l.asked, l.decided, l.done, g.status, g.outcome)
	FROM gate AS g CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE event = 'asked') AS asked, count(*) FILTER (WHERE event IN ('decided', 'expired')) AS decided,
			count(*) FILTER (WHERE event = 'done' AND detail ->> 'outcome' = g.outcome) AS done
		FROM mw.approval_log AS l WHERE (l.tenant, l.session, l.interrupt_id, l.place) = (g.tenant, g.session, g.interrupt_id, g.place)) AS l
	WHERE l.asked <> 1 OR l.decided <> jsonb_array_length(g.decisions) OR l.done <> (g.outcome IS NOT NULL)::integer
	UNION ALL
	SELECT format('V9: %s %s: outcome %s, finished at %s, error %s', tenant, request_id, outcome, finished_at, error) FROM mw.attempt
	WHERE outcome NOT IN ('ok', 'failed', 'unknown') OR finished_at IS NULL OR (outcome IN ('failed', 'unknown') AND error IS NULL AND http_status IS NULL)
	UNION ALL
	SELECT format('V9: %s %s: state %s in mw.queue while nothing runs', tenant, request_id, state) FROM mw.queue
	UNION ALL
	SELECT format('V9: %s %s: a stored result that is %s', tenant, request_id, result->>'status') FROM mw.result
	WHERE result->>'status' NOT IN ('completed', 'tool_calls', 'interrupted')
};

# V1 to V3 and V9 alone, for the end of a round
sub sound
{
	my ($self, $when) = @_;
	my @wrong;
	eventually(sub { $self->audit; @wrong = $self->admin($violations); return !@wrong; }, 30);
	$self->fault("$_ $when") for splice @wrong, 0, 10;
	return;
}

# After a crash, or whatever else: a call until it has its answer, sent again only where its caller must say so.
# How many times it said so.  sql => sub (%o): another statement than ask()'s; answer: what it must give.
sub persist
{
	my ($self, $role, $tenant, $session, $id, %o) = @_;
	my $sql = delete $o{sql} // sub { return $self->ask($tenant, $session, $id, @_); };
	my $answer = delete $o{answer} // $o{prompt} // $self->prompt($tenant, $id);
	my %resend = (%o, options => { %{ $o{options} // {} }, resend_unknown => \1 });
	my $resent = 0;
	for (1 .. 20)
	{
		wait_recovered($self->{node});
		my $c = $self->client($role, try => 1);
		next if !$c || !$c->ok;
		my $word = $c->word($sql->($resent ? %resend : %o));
		$c->close;
		next if $word =~ /^(closed|57P..)$/;
		next if $word eq 'MW502' && !$resent++;
		$self->must($word eq $answer, "V4: the answer to $id is $word");
		return $resent;
	}
	return $self->fault("$id has no answer after twenty times");
}

# Everything that must hold whatever the campaign did (V1 to V3, V5, V6, V8 to V10, V12; V4 and V11 are judged by
# the callers of a campaign).  A call that outlived its caller is waited for, not forgiven.
sub invariants
{
	my ($self, $when) = @_;
	my $before = $self->{faults};
	my $node = $self->{node} or return ok(!$before, "$self->{id}: nothing was found $when");

	# V12, V10: a call works, without anybody's help; after a crash it is what starts the gateway
	my $id = $self->nonce;
	my $probe = $self->_probe($id);
	$self->must($probe eq $self->prompt('t1', $id), "V10: a call $when gives $probe");

	$self->sound($when);

	# V5 as two tenants see it, V6 as nobody should
	my @tables = $self->admin(q{SELECT c.oid::regclass::text FROM pg_class c WHERE relnamespace = 'mw'::regnamespace AND relkind IN ('r', 'v', 'p')});
	my $n = 1 + int rand $self->{tenants};
	my $tenant = $self->client("r$n");
	for my $t (@tables)
	{
		my $r = $tenant->query("SELECT count(*) FROM $t AS x WHERE x::text ~ 'secretof(?!t${n}x)'");
		next if $r->{error} && $r->{error}{C} eq '42501';
		$self->must(!$r->{error} && $r->{rows}[0][0] eq '0', "V5: r$n sees another tenant's secret in $t: " . MwClient::word_of($r));
		my $raw = $self->admin("SELECT count(*) FROM $t AS x WHERE x::text LIKE '%\@pii.example%'");
		$self->must($raw eq '0', "V6: $raw row(s) of $t hold raw personal data");
	}
	$tenant->close;
	my $log = log_since($node, $self->{log_from});
	$self->{log_from} = log_end($node);
	$self->must($log !~ /\@pii\.example/, 'V6: the log of the server holds raw personal data');
	$self->must($log !~ /sk-campaign/, 'V6: the log of the server holds a key');
	my @bad = grep { /TRAP:|PANIC|floating-point exception|invalid memory alloc|leaked|still referenced|AddressSanitizer|terminated by signal (\d+)/ && ($self->{kills} == 0 || ($1 // '') !~ /^(9|3|)$/ || !defined $1) } split /\n/, $log;
	$self->must(!@bad, "V10: the log says: $bad[0]") if @bad;

	if ($self->{kills} && -e $node->config_data('--sharedir') . '/extension/amcheck.control')
	{
		$self->admin('CREATE EXTENSION IF NOT EXISTS amcheck');
		my ($out, $err) = PostgreSQL::Test::Utils::run_command([ 'pg_amcheck', '-h', $node->host, '-p', $node->port, '--heapallindexed', '-s', 'mw', 'postgres' ]);
		$self->must($out . $err eq '', "V12: pg_amcheck: $out$err");
	}
	my $ok = $self->{faults} == $before;
	ok($ok, "$self->{id}: the invariants hold $when");
	return $ok;
}

sub _probe
{
	my ($self, $id) = @_;
	wait_recovered($self->{node});
	my $c = $self->client('r1');
	my $word = $c->word($self->ask('t1', undef, $id));
	$c->close;
	return $word;
}

# V10: memory and descriptors of processes over many calls.  grown(NAME => PID, calls so far) judges each look by the
# first one, at most 10 bytes a call beyond what a process takes to warm up; where load comes and goes a process is warm
# after so many calls (the third argument), and the most that it had until then is what it is judged by.
sub grown
{
	my ($self, $name, $pid, $calls, $warm) = @_;
	open my $f, '<', "/proc/$pid/status" or return;
	my ($rss) = join('', <$f>) =~ /^RssAnon:\s+(\d+)/m;
	# files of tables and of the WAL are PostgreSQL's, which opens each relation's forks once and closes them as it needs to
	my $fds = grep { (readlink // '') !~ m{/pgdata/(?:base|global|pg_wal)/} } glob "/proc/$pid/fd/*";
	my $first = $self->{first}{$name} //= { pid => $pid, rss => $rss, fds => $fds, calls => $calls, from => $calls };
	return if $first->{pid} != $pid;
	if ($calls - $first->{from} < ($warm // 0))
	{
		@$first{qw(rss fds calls)} = (max($first->{rss}, $rss), max($first->{fds}, $fds), $calls);
		return;
	}
	my $done = $calls - $first->{calls};
	$self->{state}{memory}{$name} = sprintf '%+d kB, %+d descriptors over %d calls', $rss - $first->{rss}, $fds - $first->{fds}, $done;
	$self->must($fds - $first->{fds} <= 8, "V10: $name has $fds descriptors, $first->{fds} at first");
	$self->must(($rss - $first->{rss}) * 1024 <= 10 * $done + 2 * 1024 * 1024, "V10: $name has grown by " . ($rss - $first->{rss}) . " kB in $done calls");
	return;
}

# ---------- figures ----------

sub count { my ($self, $name, $n) = @_; $self->{state}{counts}{$name} += $n // 1; return; }

# A word beside the counts, the last one said
sub figure { my ($self, $name, $value) = @_; $self->{state}{memory}{$name} = $value; return; }

# A duration, kept to three digits
sub took { my ($self, $name, $seconds) = @_; $self->{state}{times}{$name}{ sprintf '%.2e', $seconds }++; return; }

sub percentile
{
	my ($self, $name, $p) = @_;
	my $h = $self->{state}{times}{$name} or return;
	my $left = $p / 100 * sum0(values %$h);
	for my $t (sort { $a <=> $b } keys %$h)
	{
		$left -= $h->{$t};
		return $t if $left <= 0;
	}
	return max(keys %$h);
}

sub figures
{
	my ($self) = @_;
	my $s = $self->{state};
	return join '; ', (map { "$_ $s->{counts}{$_}" } sort keys %{ $s->{counts} }),
	  (map { my $n = $_; sprintf '%s p50 %.1f p99 %.1f max %.1f ms', $n, map { 1000 * $self->percentile($n, $_) } 50, 99, 100 } sort keys %{ $s->{times} }),
	  (map { "$_ $s->{memory}{$_}" } sort keys %{ $s->{memory} // {} });
}

sub _save
{
	my ($self) = @_;
	my $s = $self->{state};
	$s->{seconds} += time - $self->{from};
	$self->{from} = time;
	$s->{faults} += $self->{faults} - ($self->{saved_faults} // 0);
	$self->{saved_faults} = $self->{faults};
	$s->{row} = sprintf '| %s | %s | %d of %s | %d | %s | %d | %d |', $self->{id}, $self->{title}, $s->{done}, $self->{total} || !$self->_enough($s->{done}) ? $self->_of : $s->{done}, $s->{seed},
	  $self->figures, $s->{faults}, $s->{seconds};
	open my $f, '>', "$self->{file}.new" or croak "$self->{file}: $!";
	print $f $json->encode($s);
	close $f;
	rename "$self->{file}.new", $self->{file} or croak "$self->{file}: $!";
	return;
}

sub finish
{
	my ($self) = @_;
	$self->_save;
	diag("$self->{id}: " . $self->figures . sprintf ' (%d s)', $self->{state}{seconds});
	is($self->{faults}, 0, "$self->{id}: no fault in $self->{state}{done} rounds");
	$self->{node}->stop($self->{faults} ? 'immediate' : 'fast') if $self->{node};
	done_testing();
	return;
}

1;
