# Names and places, found by an analyzer beside the database: what it finds never reaches a model or a
# table; one request a call; a server that fails, hangs or talks nonsense lets nothing pass, unless
# an administrator said so; it costs nothing and leaves no record.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use MwAnalyzer;
use MwClient;
use MwCheck;
use MwNode;
use MwUpstream;

my $an = MwAnalyzer->start or die 'no analyzer';
my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('presidio', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url);
$node->server(ner => $an->base_url, api => 'presidio', key => 'sk-ner');
$node->tenant('acme', 'app');
$node->tenant('beta', 'app');
my $admin = MwClient->new($node);
my $c = MwClient->new($node, user => 'app');
$admin->value(q{SELECT mw_alter_tenant('acme', '{"model": "llm:m"}'), mw_alter_tenant('beta', '{"model": "llm:m"}')});

sub alter { my ($type, $json) = @_; return $admin->word("SELECT mw_alter_recognizer('$type', '$json', 'acme')"); }
sub texts { my @t = map { ref $_->{request}{text} ? @{ $_->{request}{text} } : $_->{request}{text} } @{ $an->seen }; return join '|', @t; }

# ---------- making one ----------

is($admin->word(q{SELECT mw_create_recognizer('PERSON', NULL, '{"type": "presidio", "server": "ner"}', 'acme')}), '', 'a recognizer by a server');
is($admin->word(q{SELECT mw_create_recognizer('ADDRESS', NULL, '{"type": "presidio", "server": "ner", "strategy": "redact"}', 'acme')}), '', 'another');
is($admin->word("SELECT mw_create_recognizer('X', $_->[0], '$_->[1]', 'acme')"), 'MW001', "refused: $_->[2]")
  for [ "'x'", '{"type": "presidio", "server": "ner"}', 'a pattern beside the server' ],
  [ 'NULL', '{"type": "presidio"}', 'no server' ],
  [ 'NULL', '{"server": "ner"}', 'no type' ],
  [ 'NULL', '{"type": "spacy", "server": "ner"}', 'another type' ],
  [ 'NULL', '{"type": "presidio", "server": "nobody"}', 'a server that is not there' ],
  [ 'NULL', '{"type": "presidio", "server": "llm"}', 'a server of models' ],
  [ 'NULL', '{"type": "presidio", "server": "ner", "entities": []}', 'no entity' ],
  [ 'NULL', '{"type": "presidio", "server": "ner", "score_threshold": 2}', 'a score above 1' ],
  [ 'NULL', '{"type": "presidio", "server": "ner", "on_error": "ignore"}', 'an unknown choice' ],
  [ 'NULL', '{"type": "presidio", "server": "ner", "timeout": "2 hours"}', 'a long time' ],
  [ 'NULL', '{"type": "presidio", "server": "ner", "context": ["x"]}', 'a context' ];
is($c->word("SELECT mw_ask('acme', NULL, 'x', model => 'ner:m')"), 'MW001', 'an analyzer is no model');
is($admin->word(q{SELECT mw_alter_recognizer('EMAIL', '{"server": "ner"}', 'acme')}), 'MW001', 'a pattern stays one');

# ---------- finding ----------

is($c->value("SELECT mw_redact('Zoë Müller 😀 lives in Köln, ana\@example.com', 'acme')->>'text'"), '<PERSON_0> 😀 lives in [REDACTED_ADDRESS], <EMAIL_0>', 'found, in characters');
my $seen = $an->seen;
is(scalar @$seen, 1, '... by one request for both types');
is_deeply([ sort @{ $seen->[0]{request}{entities} } ], [ 'LOCATION', 'PERSON' ], '... in its own words');
is($seen->[0]{request}{language}, 'en', '... in English');
is($seen->[0]{authorization}, 'Bearer sk-ner', '... with the key of the mapping');
is($c->value("SELECT mw_redact('Ana Meier 12', 'beta')->>'text'"), 'Ana Meier 12', 'another tenant has no such recognizer');
is(texts(), '', '... and nothing of it is sent');
is($c->value("SELECT mw_redact('4111 1111 1111 1111', 'acme')->>'text'"), '<CC_0>', 'a text without a letter');
is(texts(), '', '... is not asked about');
is($c->value("SELECT (mw_redact('Jo Rhein in Bonn; ', 'acme', '{}', 's')->>'text') || (mw_redact('in Ulm, Jo Rhein', 'acme', '{}', 's')->>'text')"), '<PERSON_0> in [REDACTED_ADDRESS]; in [REDACTED_ADDRESS], <PERSON_0>', 'in a session, too');
texts();

is($c->value(ask('acme', undef, 'Write to Ana Meier in Bonn')), 'Write to Ana Meier in [REDACTED_ADDRESS]', 'a call: the name comes back');
unlike($up->journal->[-1]{raw_body}, qr/Meier|Bonn/, '... and has not left');
is(texts(), 'Write to Ana Meier in Bonn', '... one request');
my $many = q{SELECT mw_invoke('acme', NULL, 'ask Eva Kern', messages => '[{"role": "system", "content": "You help Jon Doe"}, {"role": "user", "content": [{"type": "text", "text": "in Rome"}]},
	{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "f", "args": {"who": "Max Frisch", "n": 12}}]}, {"role": "tool", "tool_call_id": "c", "content": "in Oslo"}]',
	tools => '[{"name": "f", "description": "of Tim Berg"}]', options => '{"stop": ["Lea Lang"]}')->>'status'};
is($c->word($many), 'completed', 'a call of many texts');
$seen = $an->seen;
is(scalar @$seen, 1, '... one request');
my %asked = map { $_ => 1 } @{ $seen->[0]{request}{text} };
ok($asked{$_}, "... with \"$_\"") for 'ask Eva Kern', 'You help Jon Doe', 'in Rome', 'Max Frisch', 'in Oslo', 'of Tim Berg', 'Lea Lang';
ok(!$asked{12}, '... and no number');
unlike($up->journal->[-1]{raw_body}, qr/Kern|Doe|Rome|Frisch|Oslo|Berg|Lang/, '... and none of them has left');
is($c->word($many), 'completed', 'a cached answer');
is(scalar @{ $an->seen }, 1, '... is asked for with redacted texts, too');

is($c->value(ask('acme', undef, 'tell Ana Meier', request_id => 'kept')), 'tell Ana Meier', 'with a request_id');
is($c->value(ask('acme', undef, 'tell Ana Meier', request_id => 'kept')), 'tell Ana Meier', '... replayed');
$up->rules({ match => 'invent', step => { text => 'Say hello to Ida Falk in Graz' } });
is($c->value(ask('acme', undef, 'invent', options => { redact => { output => JSON::PP::true } })), 'Say hello to [REDACTED_PERSON] in [REDACTED_ADDRESS]', 'what a model invents');
$up->rules();
is(alter('PERSON', '{"score_threshold": 0.9}'), '', 'a higher score');
is($c->value("SELECT mw_redact('Ana Meier in Bonn', 'acme')->>'text'"), 'Ana Meier in [REDACTED_ADDRESS]', '... leaves out what has a lower one');
is(alter('PERSON', '{"score_threshold": null, "language": "de"}'), '', 'another language');
texts();
is($c->value("SELECT mw_redact('Ana Meier in Bonn', 'acme')->>'text'"), '<PERSON_0> in [REDACTED_ADDRESS]', '... finds');
is(join(' ', sort map { "$_->{request}{language}: @{ $_->{request}{entities} }" } @{ $an->seen }), 'de: PERSON en: LOCATION', '... by a request of its own');
is(alter('PERSON', '{"language": null, "strategy": "block"}'), '', 'a name that is refused');
is($c->word(ask('acme', undef, 'Ana Meier')), 'MW201', '... is');
alter('PERSON', '{"strategy": null}');
is($admin->value("SELECT count(hit) FROM mw_test_recognizer('PERSON', 'x', 'acme')"), '0', 'mw_test_recognizer has no pattern to show');

# ---------- what fails ----------

$admin->value(q{SELECT mw_alter_tenant('acme', '{"cache": false}')});
my $sent = $up->count->{requests};
for my $mode ('500', '400', '404', 'object', 'garbage', 'outside', 'backwards', 'words', 'drop')
{
	$an->be($mode);
	my $e = $c->query(ask('acme', undef, "Write to Ana Meier"));
	is_error($e, 'MW402', "an analyzer that answers $mode lets nothing pass");
	unlike(join(' ', map { $_ // '' } values %{ $e->{error} }), qr/Meier/, '... and its words are not shown');
}
$an->be('few');
is_error($c->query(ask('acme', undef, 'Write to Ana Meier', messages => [ { role => 'user', content => 'and to Bo Lund' } ])), 'MW402', 'one that answers for fewer texts, too');
is($up->count->{requests}, $sent, '... none of them was sent');
$an->be($_), is($c->value(ask('acme', undef, 'Write to Ana Meier')), 'Write to Ana Meier', "$_ is mended by asking again") for '500 once', 'drop once';
alter($_, '{"timeout": 0.3}') for 'PERSON', 'ADDRESS';
$an->be('hang');
is($c->word(ask('acme', undef, 'Write to Ana Meier')), 'MW402', 'one that hangs is waited for as long as the recognizer says');
alter('PERSON', '{"on_error": "skip"}');
$an->be('500');
is($c->word(ask('acme', undef, 'Write to Ana Meier')), 'MW402', 'one of two types skips: the other does not');
alter('ADDRESS', '{"on_error": "skip"}');
my $r = decode_json($c->value(invoke('acme', undef, 'Write to Ana Meier')));
like($r->{output}, qr/^Write to Ana Meier$/m, 'both skip: the call goes on');
like("@{ $r->{notices} }", qr/analyzer "ner" has not answered .*PERSON/, '... and says so');
like($up->journal->[-1]{raw_body}, qr/Ana Meier/, '... as it is');
is($c->word("SELECT mw_redact('Ana Meier', 'acme')->>'text'"), 'Ana Meier', '... mw_redact, too');
alter($_, '{"on_error": null, "timeout": null}') for 'PERSON', 'ADDRESS';

$an->be('hang');
$c->send(ask('acme', undef, 'Write to Ana Meier'));
ok($node->until(q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND wait_event_type = 'Extension'}, '1'), 'a caller that waits');
$admin->value(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'app' AND state = 'active'});
is(MwClient::word_of($c->result), '57014', '... can be cancelled');
$an->be('ok');
is($c->value(ask('acme', undef, 'Write to Ana Meier')), 'Write to Ana Meier', '... and the next one is answered');

# ---------- rights, and what is left behind ----------

$node->safe_psql('postgres', 'REVOKE USAGE ON FOREIGN SERVER ner FROM PUBLIC');
is($c->word(ask('acme', undef, 'Write to Ana Meier')), '42501', 'whoever may not use the server sends nothing past it');
$node->safe_psql('postgres', 'GRANT USAGE ON FOREIGN SERVER ner TO PUBLIC');
$admin->query('BEGIN');
$admin->query("ALTER SERVER ner OPTIONS (SET base_url 'http://127.0.0.1:9')");
is($admin->word(ask('acme', undef, 'Write to Ana Meier')), 'MW001', 'a server that was changed is to be committed first');
$admin->query('ROLLBACK');
is($admin->value("SELECT count(*) FROM mw.attempt WHERE model LIKE 'ner%' OR purpose NOT IN ('model')"), '0', 'no attempt of it is in the ledger');
is($admin->value(q{SELECT count(*) FROM (SELECT a::text AS t FROM mw.answer AS a UNION ALL SELECT r::text FROM mw.result AS r UNION ALL SELECT c::text FROM mw.cache AS c) AS x WHERE t ~ 'Meier|Kern|Frisch'}),
	'0', 'no name in a table');
money_holds($node, 'with an analyzer');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/Meier|Frisch/, 'no name in the log');
$node->stop;
done_testing();
