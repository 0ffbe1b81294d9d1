# A dump keeps what cannot be made again: tenants, grants, policies, the ledger, budgets, stored
# results and recorded answers, the database's key; not the cache.  Grants of roles that have
# gone do not stop a restore.  And in the copy everything works on, paid once over the move.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('dump', conf => "mw.gateway_idle = '300s'");
my $keyfile = $node->basedir . '/key';
PostgreSQL::Test::Utils::append_to_file($keyfile, "sk-dump-KEY\n");
$node->server(llm => $up->base_url);
$node->safe_psql('postgres', "CREATE USER MAPPING FOR PUBLIC SERVER llm OPTIONS (api_key_file '$keyfile')");
$node->tenant('acme', 'app');
$node->tenant('beta', 'other', 'leaver');
my $admin = MwClient->new($node);
my $c = MwClient->new($node, user => 'app');

$admin->value(q{SELECT mw_alter_tenant('acme', '{"model": "llm:m", "retry": {"max_attempts": 2}}')});
$admin->value("SELECT mw_set_budget('acme', 'requests', 5, session => 's')");
$admin->value("SELECT mw_create_guard('ours', 'xyzzy', tenant => 'acme')");
$admin->value("SELECT mw_create_recognizer('TICKET', 'T-[0-9]{6}', tenant => 'acme')");
$admin->value(q{SELECT mw_set_model('llm:m', '{"max_output_tokens": 900}')});
my $stored = invoke('acme', 's', 'stored T-123456', request_id => 'stored');
my $result = $c->value($stored);
$c->query('BEGIN');
$c->value(ask('acme', 's', 'undone T-123456', request_id => 'undone'));
$c->query('ROLLBACK');
$up->rules({ match => 'unknown', step => { text => 'x', disconnect => 'mid_body' } });
is($c->word(ask('acme', 's', 'unknown', request_id => 'unknown')), 'MW402', 'one with an unknown outcome');
is($c->word(ask('acme', undef, 'cached')), 'cached', 'one that is cached');
$admin->value("SELECT mw_purge_cache('beta')");
my $made = decode_json($c->value(invoke('acme', undef, 'made')))->{request_id};
my $requests = $up->count->{requests};
my $channel = $c->value("SELECT mw_channel('acme')");

my @kept = qw(mw.tenant mw.tenant_grant mw.budget mw.attempt mw.spent mw.answer mw.result mw.purge mw.model mw.guard mw.recognizer mw.secret);
sub content { my ($db, $t) = @_; return $node->safe_psql($db, "SELECT t::text FROM $t AS t ORDER BY t::text COLLATE \"C\""); }

# a role that goes away after its grant
$admin->query('DROP OWNED BY leaver');
is($admin->word('DROP ROLE leaver'), 'no row', 'a role that was granted a tenant can be dropped');
is($admin->value("SELECT count(*) FROM mw.tenant_grant WHERE tenant = 'beta'"), '2', 'its grant is still there');
my %before = map { $_ => content('postgres', $_) } @kept;

for my $format ('plain', 'custom')
{
	my $file = $node->basedir . "/$format.dump";
	my $db = "copy_$format";
	$node->command_ok([ 'pg_dump', '-F' . substr($format, 0, 1), '-f', $file, '-d', $node->connstr('postgres') ], "$format: pg_dump");
	my $text = PostgreSQL::Test::Utils::slurp_file($file);
	unlike($text, qr/sk-dump-KEY/, "$format: no key in the dump");
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0");
	if ($format eq 'plain') { $node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $node->connstr($db) ], "$format: restored without an error"); }
	else { $node->command_ok([ 'pg_restore', '-e', '-j2', '-d', $node->connstr($db), $file ], "$format: restored without an error"); }

	for my $t (@kept)
	{
		my $was = $before{$t};
		# the grant of a role that is no more stays behind
		$was = join "\n", grep { !/^\(beta,\d+\)$/ } split /\n/, $was if $t eq 'mw.tenant_grant';
		my $is = content($db, $t);
		ok($is eq $was, "$format: $t is kept") or diag('rows before: ' . scalar(split /\n/, $was) . ', after: ' . scalar(split /\n/, $is));
	}
	is($node->safe_psql($db, 'SELECT count(*) FROM mw.cache'), '0', "$format: the cache is not");
	is($node->safe_psql($db, 'SELECT count(*) FROM mw.tenant_grant'), '2', "$format: the grants of roles that are there");
	is($node->safe_psql($db, 'SELECT count(*) > 0 FROM mw.guard WHERE builtin'), 't', "$format: the built-in rules are there");
	is($node->safe_psql($db, q{SELECT count(*) FROM pg_class WHERE relnamespace = 'mw'::regnamespace AND relkind = 'r' AND relname <> 'secret' AND NOT (relrowsecurity AND relforcerowsecurity)}), '0', "$format: row-level security is forced");

	my $d = MwClient->new($node, user => 'app', dbname => $db);
	$up->reset({}, mode => 'echo');
	is($d->value($stored), $result, "$format: a stored result is replayed, byte for byte");
	is($d->word(ask('acme', 's', 'undone T-123456', request_id => 'undone')), 'undone T-123456', "$format: a recorded answer too");
	is_error($d->query(ask('acme', 's', 'unknown', request_id => 'unknown')), 'MW502', "$format: an unknown outcome stays unknown");
	is_error($d->query(ask('acme', undef, 'x', request_id => $made)), 'MW501', "$format: an id that mw made is known");
	is($up->count->{requests}, 0, "$format: none of these was sent");
	is($d->value("SELECT mw_channel('acme')"), $channel, "$format: the channel has the same name");
	is(join(' ', map { $d->word(ask('acme', 's', "spend $_", options => { cache => 'off' })) } 1 .. 4), 'spend 1 spend 2 MW301 MW301', "$format: the budget goes on where it was");
	is($d->word(ask('acme', undef, 'say xyzzy')), 'MW202', "$format: the tenant's own guard");
	is($d->value("SELECT mw_redact('T-123456', 'acme')->>'text'"), '<TICKET_0>', "$format: and its recogniser");
	is($d->word(ask('beta', undef, 'x')), 'MW101', "$format: and nobody may more than before");
	is(MwClient->new($node, user => 'other', dbname => $db)->word(ask('beta', undef, 'x')), 'x', "$format: nor less");
	money_holds($node, $format, dbname => $db);
	$d->close;
	$node->safe_psql('postgres', "DROP DATABASE $db WITH (FORCE)");
}
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM mw.cache'), 't', 'the original still has its cache');

# calls in flight while it is dumped: in the copy nobody will ever answer them
{
	$up->reset({ '*' => [ { text => 'in flight', hold => \1, repeat => 9 } ] });
	$c->send(ask('acme', undef, 'in flight', request_id => 'flying'));
	$up->wait(requests => 1);
	my $file = $node->basedir . '/flying.dump';
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $file, '-d', $node->connstr('postgres') ], 'pg_dump with a call in flight');
	$up->release;
	is(MwClient::word_of($c->result), 'in flight', '... which is not disturbed');
	$node->safe_psql('postgres', 'CREATE DATABASE flying TEMPLATE template0');
	$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('flying'), $file ], '... restored');
	$up->reset({}, mode => 'echo');
	my $d = MwClient->new($node, user => 'app', dbname => 'flying');
	is($d->word(ask('acme', undef, 'first')), 'first', '... the copy works');
	is(ledger($node, "request_id = 'flying'", dbname => 'flying'), 'unknown', '... where that call is unknown');
	is_error($d->query(ask('acme', undef, 'in flight', request_id => 'flying')), 'MW502', '... and not sent again');
	money_holds($node, 'a dump with a call in flight', dbname => 'flying');
}
$node->stop;
done_testing();
