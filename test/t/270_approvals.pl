# Approvals over connections, with values of personal data behind placeholders: who sees them, and that
# each look is put down; what a reviewer types is kept like everything else; a call whose value is not to
# be had does not run; pauses that outlast a restart and a dump; a resume that waits; expiry is told once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use MwClient;
use MwNode;

my $node = MwNode->new('approvals', conf => "mw.gateway_idle = '1s'\nlog_min_messages = log");
my $file = $node->basedir . '/pii.key';

MwNode::write_keys($file, '1 ' . 'a' x 64);
$node->safe_psql('postgres', "ALTER SYSTEM SET mw.pii_key_file = '$file'");
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", $file) or die 'no reload';

$node->tenant('acme', 'app', 'other');
$node->server('fake', undef, api => 'fake');
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE reader LOGIN;
CREATE ROLE seer LOGIN;
SELECT mw_grant_reviewer('acme', 'reader');
SELECT mw_grant_reviewer('acme', 'seer', reveal => true);
SELECT mw_alter_tenant('acme', '{"model": "fake:m", "cache": false, "retry": {"max_attempts": 1}, "guardrail": false}');
CREATE TABLE mailed (rcpt text, body text);
GRANT SELECT, INSERT ON mailed TO app;
CREATE FUNCTION mail(rcpt text, body text) RETURNS text LANGUAGE sql AS $$ INSERT INTO mailed VALUES (rcpt, body); SELECT 'mailed ' || rcpt $$;
SELECT mw_create_tool('mail', 'mail(text, text)', options => '{"writes": true}', tenant => 'acme');
SELECT mw_create_agent('mailer', '{"tools": ["mail"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"mail": true}}]}', 'acme');
SELECT mw_create_agent('each', '{"tools": ["mail"], "middleware": [{"type": "human_in_the_loop", "interrupt_mode": "per_call", "interrupt_on": {"mail": true}}]}', 'acme');
SQL

my $admin = MwClient->new($node);
my $app = MwClient->new($node, user => 'app');
my $reader = MwClient->new($node, user => 'reader');
my $seer = MwClient->new($node, user => 'seer');

sub quoted { my ($s) = @_; $s =~ s/'/''/g; return "'$s'"; }
sub script { my ($c, @steps) = @_; return $c->query('SELECT mw_fake(\'fake\', ' . quoted(encode_json({ m => \@steps })) . ')'); }
sub call { my ($id, $rcpt, $body) = @_; return { id => $id, name => 'mail', arguments => { rcpt => $rcpt, body => $body } }; }
# a run of the application's that pauses before it mails to the first address of its prompt
sub pause
{
	my ($session, $prompt, %o) = @_;
	script($app, { tool_calls => $o{calls} // [ call('c1', '<EMAIL_0>', $o{body} // 'hello') ] }, { text => 'done' });
	return $app->word("SELECT mw_invoke('acme', '$session', " . quoted($prompt) . ", agent => '" . ($o{agent} // 'mailer') . "') ->> 'status'");
}
sub decide { my ($c, $session, $decision) = @_; return $c->word("SELECT status FROM mw_decide('acme', '$session', " . quoted(encode_json({ decisions => [$decision] })) . ')'); }
sub resume { my ($session, %o) = @_; script($app, { text => 'done' }) if $o{afresh}; return $app->word("SELECT mw_resume('acme', '$session') ->> 'status'"); }
sub mailed { return $admin->value("WITH gone AS (DELETE FROM mailed RETURNING rcpt, body) SELECT coalesce(string_agg(rcpt || ' ' || body, ', ' ORDER BY rcpt, body), '') FROM gone"); }
sub inbox { my ($c, $session) = @_; return $c->value("SELECT string_agg(args ->> 'rcpt' || ' ' || (description ~ 'ana\@example.com')::text, ', ') FROM mw.inbox WHERE session = '$session'"); }
sub story { my ($session) = @_; return $admin->value("SELECT string_agg(event || ' ' || role, ', ' ORDER BY seq) FROM mw.approval_log WHERE session = '$session'"); }
sub whole { return $admin->value("SELECT count(*) FROM mw_check() WHERE finding = 'the log of approvals was altered'"); }

# ---------- who sees values ----------

is(pause('r', 'mail ana@example.com'), 'interrupted', 'a run waits');
is(inbox($reader, 'r'), '<EMAIL_0> false', 'a reviewer sees placeholders');
is(inbox($seer, 'r'), 'ana@example.com true', '... one whose grant says reveal the values, in the description, too');
like($seer->value("SELECT mw_inbox_html('acme')"), qr/ana\@example\.com/, '... on the page as well');
unlike($reader->value("SELECT mw_inbox_html('acme')"), qr/ana\@example\.com/, '... and there nobody else');
is($app->value("SELECT count(*) FROM mw.inbox"), '0', 'who asked decides nothing, and sees nothing');
is(story('r'), 'asked app, revealed seer, revealed seer', 'each look is in the log, once');
is($seer->value('SELECT count(*) FROM mw.inbox'), '1', 'to count is no look');
is(story('r'), 'asked app, revealed seer, revealed seer', '... and not in the log');
$seer->query('BEGIN READ ONLY');
is(inbox($seer, 'r'), '<EMAIL_0> false', 'where it cannot be put down it is not shown');
$seer->query('ROLLBACK');
$app->query('BEGIN');
is($app->word("SELECT mw_resume('acme', 'r', '{\"decisions\": [{\"type\": \"reject\"}]}')"), 'MW604', 'a requester does not decide');
$app->query('ROLLBACK');
my $looks = () = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /role "seer" was shown the values of interrupt/g;
$seer->query('BEGIN');
is(inbox($seer, 'r'), 'ana@example.com true', 'a look in a transaction');
$seer->query('ROLLBACK');
is(story('r'), 'asked app, revealed seer, revealed seer', '... that is rolled back takes its row back');
is(scalar(() = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /role "seer" was shown the values of interrupt/g), $looks + 1, '... and leaves a line in the log of the server');
$seer->query('BEGIN');
is(inbox($seer, 'r'), 'ana@example.com true', 'two at once: one looks');
my $seer2 = MwClient->new($node, user => 'seer');
is(inbox($seer2, 'r'), '<EMAIL_0> false', '... the other does not wait, and sees placeholders');
$reader->send('SELECT status FROM mw_decide(\'acme\', \'r\', \'{"decisions": [{"type": "approve"}]}\')');
ok($node->until("SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'reader' AND wait_event_type = 'Lock'", 't'), '... a decision does');
$seer->query('COMMIT');
is(MwClient::word_of($reader->result), 'decided', '... until the look is put down');
is(resume('r'), 'completed', 'the run goes on');
is(mailed(), 'ana@example.com hello', '... with the value');
is(story('r'), 'asked app, revealed seer, revealed seer, revealed seer, decided reader, done app', 'the whole story');
is(whole(), '0', '... holds together');

# looked at and decided in one transaction, beside another one
is(pause($_, 'mail ana@example.com'), 'interrupted', "$_ waits") for 'l1', 'l2';
$seer->query('BEGIN');
is(inbox($seer, 'l1'), 'ana@example.com true', 'who looks');
$seer2->query('BEGIN');
is(inbox($seer2, $_), '<EMAIL_0> false', "... has others see placeholders ($_), who would have what it decides") for 'l1', 'l2';
$reader->send('SELECT status FROM mw_decide(\'acme\', \'l1\', \'{"decisions": [{"type": "approve"}]}\')');
ok($node->until("SELECT count(*) > 0 FROM pg_stat_activity WHERE usename = 'reader' AND wait_event_type = 'Lock'", 't'), '... and decide after it');
is(decide($seer, 'l1', { type => 'reject', message => 'not ana@example.com' }), 'decided', '... itself it decides, waiting for nobody');
is(decide($seer, 'l2', { type => 'reject' }), 'decided', '... also what it has not looked at');
$seer->query('COMMIT');
is(MwClient::word_of($reader->result), 'MW603', '... and that stands');
$seer2->query('COMMIT');
is(whole(), '0', 'the log holds together');

# a decision notifies, and PostgreSQL prepares no transaction that does
is(pause('2pc', 'mail ana@example.com'), 'interrupted', 'a call waits');
$reader->query('BEGIN');
is(decide($reader, '2pc', { type => 'approve' }), 'decided', '... its decision');
is($reader->word("PREPARE TRANSACTION 'decided'"), '0A000', '... cannot be prepared');
is($admin->value("SELECT status FROM mw.interrupt WHERE session = '2pc'"), 'open', '... and is undone');
is(decide($reader, '2pc', { type => 'reject' }), 'decided', '... then it is decided otherwise');

# ---------- what a reviewer types ----------

sub edit { my ($rcpt, $body) = @_; return { type => 'edit', edited_action => { name => 'mail', args => { rcpt => $rcpt, body => $body } } }; }
sub kept_of { my ($session) = @_; return $admin->value("SELECT i.decisions -> -1 #>> '{decision,edited_action,args,rcpt}' || ' ' || (i.decisions -> -1 #>> '{decision,edited_action,args,body}') FROM mw.interrupt AS i WHERE session = '$session'"); }
# in what is stored of a session there is no address and no card
sub clear { my ($session) = @_; return $admin->value("SELECT count(*) FROM (SELECT i::text FROM mw.interrupt AS i WHERE session = '$session' UNION ALL SELECT l::text FROM mw.approval_log AS l WHERE session = '$session'
	UNION ALL SELECT t::text FROM mw.thread AS t WHERE session = '$session') AS x(t) WHERE t ~ '\@|4111'"); }

pause('e', 'mail ana@example.com');
is($reader->word(q{SELECT status FROM mw_decide('acme', 'e', '} . encode_json({ decisions => [ edit('bob@example.com', 'for <EMAIL_0>, card 4111 1111 1111 1111') ] }) . q{', comment => 'as dan@example.com says')}), 'decided', 'an edit with values');
is(kept_of('e'), '<EMAIL_2> for <EMAIL_0>, card <CC_0>', '... is kept as placeholders, the same ones for the same values');
is($admin->value("SELECT decisions -> -1 ->> 'comment' FROM mw.interrupt WHERE session = 'e'"), 'as <EMAIL_1> says', '... the comment, too');
is(clear('e'), '0', '... and nothing is stored in clear');
is(resume('e'), 'completed', 'the run goes on');
is(mailed(), 'bob@example.com for ana@example.com, card 4111 1111 1111 1111', '... with what was typed');
like($app->value("SELECT string_agg(m::text, ' ') FROM mw_messages('acme', 'e') AS m"), qr/Executed instead: mail .*bob\@example\.com/, '... and who asked reads it');
is(clear('e'), '0', '... which is not stored in clear either');

pause('j', 'mail ana@example.com');
is(decide($reader, 'j', { type => 'reject', message => 'ask eve@example.com' }), 'decided', 'a reason with a value');
is(resume('j'), 'completed', '... the run goes on');
is(clear('j'), '0', '... it is not stored');
like($app->value("SELECT string_agg(m::text, ' ') FROM mw_messages('acme', 'j') AS m"), qr/with reason: ask eve\@example\.com/, '... and who asked reads it');

pause('n', 'mail ana@example.com, not bob@example.com');
is(decide($reader, 'n', edit('<EMAIL_1>', 'x')), 'MW602', 'a reviewer cannot name what was not shown');
is(decide($reader, 'n', edit('<EMAIL_0>', 'x <EMAIL_7>')), 'decided', '... what was, and what stands for nothing, it can');
is(resume('n'), 'completed', 'the run goes on');
is(mailed(), 'ana@example.com x <EMAIL_7>', '... each as it was meant');

# an edit beside a value that the tool's schema is strict about: what counts is the value, as at the tool
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION mail(args jsonb) RETURNS text LANGUAGE sql AS $$ SELECT public.mail(args ->> 'rcpt', args ->> 'body') $$;
SELECT mw_create_tool('strict', 'mail(jsonb)', 'Mail.', '{"type": "object", "properties": {"rcpt": {"type": "string", "pattern": "^[^@<]+@[^@]+$"}, "body": {"type": "string"}}, "required": ["rcpt", "body"]}',
	'{"writes": true, "approval": true}', 'acme');
SELECT mw_create_agent('strict', '{"tools": ["strict"]}', 'acme');
SQL
sub strict { my ($rcpt) = @_; return encode_json({ c1 => { type => 'edit', edited_action => { name => 'strict', args => { rcpt => $rcpt, body => 'edited' } } } }); }
is(pause('p', 'mail ana@example.com, copy bob@example.com', agent => 'strict', calls => [ { id => 'c1', name => 'strict', arguments => { rcpt => '<EMAIL_0>', body => 'x' } } ]), 'interrupted', 'a call with a strict argument waits');
is($reader->word("SELECT mw_decide('acme', 'p', " . quoted(strict('nobody')) . ')'), 'MW602', 'an edit that breaks the schema');
is($reader->word("SELECT mw_decide('acme', 'p', " . quoted(strict('<EMAIL_7>')) . ')'), 'MW602', '... or whose value would');
is($reader->word("SELECT mw_decide('acme', 'p', " . quoted(strict('<EMAIL_1>')) . ')'), 'MW602', '... or that names what was not shown');
is($reader->word("SELECT status FROM mw_decide('acme', 'p', " . quoted(strict('<EMAIL_0>')) . ')'), 'decided', 'one whose value fits');
is(resume('p'), 'completed', '... is taken');
is(mailed(), 'ana@example.com edited', '... and runs with it');

# ---------- values that are not to be had ----------

pause('x', 'mail ana@example.com');
decide($reader, 'x', { type => 'approve' });
$admin->value("SELECT mw_erase('acme', 'x', 'ana\@example.com')");
my $r = $app->query("SELECT mw_resume('acme', 'x')");
is($r->{error}{C}, 'MW605', 'a value that was erased after the decision');
like($r->{error}{D}, qr/the value of <EMAIL_0> was erased/, '... is told of');
pause('y', 'mail ana@example.com and bob@example.com');
decide($reader, 'y', { type => 'approve' });
$admin->query("UPDATE mw.pii SET number = 9 - number WHERE session = 'y'");
is($app->word("SELECT mw_resume('acme', 'y')"), 'XX001', 'placeholders that were exchanged');
pause('z', 'mail ana@example.com');
decide($reader, 'z', edit('bob@example.com', 'x'));
$admin->value("SELECT mw_erase('acme', 'z', 'bob\@example.com')");
is($app->word("SELECT mw_resume('acme', 'z')"), 'MW605', 'a value of an edit that was erased');
is(mailed(), '', 'nothing of that has run');
is($app->word("SELECT mw_ask('acme', 'z', 'else', agent => 'mailer')"), 'done', 'a new prompt abandons it');

pause('k', 'mail ana@example.com');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET mw.pii_key_file');
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", '') or die 'no reload';
script($app, { tool_calls => [ call('c1', '<EMAIL_0>', 'x') ] }, { text => 'done' });
$r = $app->query("SELECT mw_invoke('acme', 'nokey', 'mail ana\@example.com', agent => 'mailer')");
is($r->{error}{C}, 'MW001', 'without a key no call waits whose value would be lost');
like($r->{error}{H}, qr/ALTER SYSTEM SET mw\.pii_key_file/, '... and the hint is what to type');
script($app, { tool_calls => [ call('c1', '<EMAIL_0>', 'x') ] }, { text => 'done' });
is($app->value("SELECT mw_invoke('acme', 'nokey', 'mail ana\@example.com', agent => 'mailer', options => '{\"on_error\": \"return\"}') #>> '{error,sqlstate}'"), 'MW001', '... as a result, where that is asked for');
is($app->word("SELECT mw_resume('acme', 'k', '{\"decisions\": [{\"type\": \"reject\"}]}')"), 'MW604', 'one that waits');
is(decide($reader, 'k', edit('bob@example.com', 'x')), 'MW001', '... takes no edit that would be lost');
is(decide($reader, 'k', edit('<EMAIL_0>', 'x')), 'MW001', '... nor one with a value that cannot be opened');
is(decide($reader, 'k', { type => 'approve' }), 'decided', '... an approval');
is($app->word("SELECT mw_resume('acme', 'k')"), 'MW605', '... lets nothing run without its value');
$node->safe_psql('postgres', "ALTER SYSTEM SET mw.pii_key_file = '$file'");
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", $file) or die 'no reload';
is(resume('k', afresh => 1), 'completed', 'with the key it runs');
is(mailed(), 'ana@example.com hello', '... with its value');

# ---------- options that a run was begun with ----------

$node->tenant('loose', 'app');
$node->safe_psql('postgres', <<'SQL');
SELECT mw_alter_tenant('loose', '{"model": "fake:m", "cache": false, "guardrail": false, "redact": false}');
SELECT mw_create_tool('mail', 'mail(text, text)', options => '{"writes": true}', tenant => 'loose');
SELECT mw_create_agent('mailer', '{"tools": ["mail"], "middleware": [{"type": "human_in_the_loop", "interrupt_on": {"mail": true}}]}', 'loose');
SQL
script($app, { tool_calls => [ call('c1', '<EMAIL_0>', 'x') ] }, { text => 'done' });
is($app->word(q{SELECT mw_invoke('loose', 'o', 'mail ana@example.com', agent => 'mailer', options => '{"redact": true}') ->> 'status'}), 'interrupted', 'a run that asked for redaction itself');
is($app->word(q{SELECT mw_resume('loose', 'o', '} . encode_json({ decisions => [ edit('bob@example.com', 'for <EMAIL_0>') ] }) . q{') ->> 'status'}), 'completed', '... goes on with it');
is(mailed(), 'bob@example.com for ana@example.com', '... and its values');
is(clear('o'), '0', '... of which none is stored');

# ---------- a resume that waits ----------

my $asker = MwClient->new($node, user => 'app');
sub waits { my ($session, $wait) = @_; script($asker, { text => 'done' }); $asker->send("SELECT mw_resume('acme', '$session', wait => '$wait') ->> 'status'"); return $node->until("SELECT count(*) FROM pg_stat_activity WHERE query ~ 'mw_resume.*$session.*wait' AND usename = 'app' AND wait_event_type = 'Extension'", '1'); }
pause('w', 'mail ana@example.com');
ok(waits('w', '1 hour'), 'a resume waits');
is(decide($reader, 'w', edit('bob@example.com', 'while it waits')), 'decided', '... and keeps no reviewer from deciding, with texts too');
is(MwClient::word_of($asker->result), 'completed', '... then it goes on');
is(mailed(), 'bob@example.com while it waits', '... with that');
pause('w2', 'mail ana@example.com');
is($app->word("SELECT mw_resume('acme', 'w2', wait => '10 milliseconds') ->> 'status'"), 'interrupted', 'when the time is over it says what waits');
is($app->word("SELECT mw_resume('acme', 'w2', wait => '0') ->> 'status'"), 'interrupted', '... at once for no time');
is($app->word("SELECT mw_resume('acme', 'w2', wait => '-1 second')"), 'MW001', 'a negative one');
is($app->word("SELECT mw_resume('acme', 'w2', wait => '2 days')"), 'MW001', '... and one of days are refused');
ok(waits('w2', '1 hour'), 'another waits');
script($app, { text => 'else' });
is($app->word("SELECT mw_ask('acme', 'w2', 'something else', agent => 'mailer')"), 'else', '... and keeps nobody from saying something new');
is(MwClient::word_of($asker->result), 'MW603', '... which ends the wait');
is(mailed(), '', 'and nothing has run');

# ---------- expiry ----------

$node->safe_psql('postgres', q{SELECT mw_create_agent('late', '{"tools": ["mail"], "middleware": [{"type": "human_in_the_loop", "interrupt_mode": "per_call", "expires_in": 3, "interrupt_on": {"mail": true}}]}', 'acme')});
sub gateways { return $admin->value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'"); }
ok($node->until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'", '0'), 'no gateway runs, since nothing calls a model server');
my $listener = MwClient->new($node, user => 'reader');
$listener->query('LISTEN ' . $listener->value("SELECT mw_channel('acme')"));
sub told { $listener->query('SELECT 1'); return join ' ', map { decode_json($_->[1])->{kind} } splice @{ $listener->{notifications} // [] }; }
pause('late', 'mail ana@example.com', agent => 'late');
is(told(), 'interrupt', 'who listens is told of an interrupt');
ok($node->until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'", '1'), 'a gateway comes');
ok($node->until("SELECT expiry_told FROM mw.interrupt WHERE session = 'late'", 't'), '... and stays until the interrupt has expired, longer than without work');
is(told(), 'expiry', '... which it tells');
is($reader->word(q{SELECT mw_decide('acme', 'late', '{"c1": {"type": "approve"}}')}), 'MW603', 'too late');
is(resume('late'), 'completed', 'the run goes on without the call');
is(told(), '', '... and nobody is told again');
ok($node->until("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway'", '0'), 'the gateway leaves');
is(mailed(), '', 'nothing has run');
pause('late2', 'mail ana@example.com', agent => 'late');
ok(waits('late2', '1 hour'), 'a resume that waits');
is(MwClient::word_of($asker->result), 'completed', '... waits no longer than the interrupt');
told();

# ---------- restart, dump and restore ----------

pause('over', 'mail ana@example.com');
pause('over2', 'mail ana@example.com');
is(decide($reader, 'over2', edit('bob@example.com', 'decided before')), 'decided', 'one is decided, one is not');
my $dump = $node->basedir . '/pending.dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump with approvals that wait');
$_->close for $admin, $app, $reader, $seer, $seer2, $asker, $listener;
$node->restart;
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), $dump ], '... restored');
for my $db ('postgres', 'copy')
{
	$admin = MwClient->new($node, dbname => $db);
	$app = MwClient->new($node, user => 'app', dbname => $db);
	$reader = MwClient->new($node, user => 'reader', dbname => $db);
	is($reader->value("SELECT count(*) FROM mw.inbox WHERE session LIKE 'over%'"), '1', "$db: the inbox is as it was");
	is(decide($reader, 'over', { type => 'approve' }), 'decided', "$db: what waited is decided");
	is(resume($_, afresh => 1), 'completed', "$db: $_ goes on") for 'over', 'over2';
	is(mailed(), 'ana@example.com hello, bob@example.com decided before', "$db: as it was shown and decided");
	is(whole(), '0', "$db: and the log holds together");
}

# what expires while the server is down, or when nobody has called a model since: whoever listens is told
for my $db ('postgres', 'copy')
{
	$_->close for $admin, $app, $reader;
	$admin = MwClient->new($node, dbname => $db);
	$app = MwClient->new($node, user => 'app', dbname => $db);
	$admin->query(q{SELECT mw_create_agent('later', '{"tools": ["mail"], "middleware": [{"type": "human_in_the_loop", "expires_in": 8, "interrupt_on": {"mail": true}}]}', 'acme')});
	pause("down_$db", 'mail ana\@example.com', agent => 'later');
}
$_->close for $admin, $app;
$node->restart;
for my $db ('postgres', 'copy')
{
	$admin = MwClient->new($node, dbname => $db);
	is($admin->value("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mw gateway' AND datname = current_database()"), '0', "$db: after a restart nothing has started a gateway");
	$listener = MwClient->new($node, user => 'reader', dbname => $db);
	$listener->query('BEGIN');
	$listener->query('LISTEN ' . $listener->value("SELECT mw_channel('acme')"));
	$listener->query('COMMIT');
	ok($node->until("SELECT expiry_told FROM mw.interrupt WHERE session = 'down_$db'", 't', dbname => $db), "$db: whoever listens does");
	is(told(), 'expiry', '... and is told of what has expired meanwhile');
	$_->close for $admin, $listener;
}
$admin = MwClient->new($node, dbname => 'copy');
$app = MwClient->new($node, user => 'app', dbname => 'copy');
$reader = MwClient->new($node, user => 'reader', dbname => 'copy');

# ---------- one pause after another ----------

# a session of five approvals, each resumed by another backend, one of them after a restart (H10)
script($app, { tool_calls => [ call('c1', 'x', '1') ] });
is($app->word("SELECT mw_invoke('acme', 'five', 'go', agent => 'mailer') ->> 'status'"), 'interrupted', 'five approvals one after another: the first waits');
for my $n (2 .. 6)
{
	my $c = MwClient->new($node, user => 'app', dbname => 'copy');
	script($c, $n < 6 ? { tool_calls => [ call("c$n", 'x', "$n") ] } : { text => 'done' });
	is(decide($reader, 'five', { type => 'approve' }), 'decided', '... is decided');
	is($c->word("SELECT mw_resume('acme', 'five') ->> 'status'"), $n < 6 ? 'interrupted' : 'completed', $n < 6 ? "... the run goes on to number $n" : '... and to its end');
	next if $n != 3;
	$_->close for $admin, $app, $reader, $c;
	$node->restart;
	$admin = MwClient->new($node, dbname => 'copy');
	$reader = MwClient->new($node, user => 'reader', dbname => 'copy');
}
is(mailed(), 'x 1, x 2, x 3, x 4, x 5', '... each ran once');

$node->stop;
done_testing();
