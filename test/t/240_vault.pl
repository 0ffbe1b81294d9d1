# What a session's placeholders stand for, with a key: sealed, restored in later turns, never in
# clear; keys that are rotated, lost, wrong; rows that were moved; values that were erased stay
# erased; two callers who issue in one session; a copy of the database without its key.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use MwClient;
use MwNode;

my $node = MwNode->new('vault');
my $file = $node->basedir . '/pii.key';
my @key = map { $_ x 64 } 'a' .. 'c';

sub keys_are { return MwNode::write_keys($file, @_); }

sub doctor
{
	my ($name) = @_;
	return $node->safe_psql('postgres', "SELECT status FROM mw_doctor() WHERE name = '$name'");
}

$node->tenant('acme', 'app');
$node->tenant('beta', 'other');
my $admin = MwClient->new($node);
my $c = MwClient->new($node, user => 'app');
my $d = MwClient->new($node, user => 'app');

sub turn { my ($text, %o) = @_; return "SELECT mw_redact('$text', '" . ($o{tenant} // 'acme') . "', '{}', '" . ($o{session} // 's') . "')->>'text'"; }
sub restore { my ($text, %o) = @_; return "SELECT mw_restore('$text', '" . ($o{tenant} // 'acme') . "', '" . ($o{session} // 's') . "')"; }

# ---------- a session that began before there was a key ----------

is($c->value(turn('early@example.com', session => 'old')), '<EMAIL_0>', 'no key: a number');
is($c->value(restore('<EMAIL_0>', session => 'old')), '<EMAIL_0>', '... and nothing to restore');
is(doctor('pii key'), 'warning', 'the doctor says so');

keys_are("# the first", "1 $key[0]");
$node->safe_psql('postgres', "ALTER SYSTEM SET mw.pii_key_file = '$file'");
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", $file) or die 'no reload';
is(doctor('pii key'), 'ok', 'with a key it is content');
is($c->value(turn('late@example.com early@example.com', session => 'old')), '<EMAIL_1> <EMAIL_0>', 'a value that was only hashed has its number again');
is($c->value(restore('<EMAIL_0> <EMAIL_1>', session => 'old')), 'early@example.com late@example.com', '... and is sealed from then on');

# ---------- turns ----------

is($c->value(turn('ana@example.com and 4111 1111 1111 1111')), '<EMAIL_0> and <CC_0>', 'a first turn');
is($d->value(turn('bob@example.com, ana@example.com')), '<EMAIL_1>, <EMAIL_0>', 'a second, in another connection');
is($d->value(restore('<EMAIL_0> <EMAIL_1> <CC_0> <EMAIL_2> <email_1>')),
	'ana@example.com bob@example.com 4111 1111 1111 1111 <EMAIL_2> bob@example.com', 'values of all turns are restored, and no others');
is($d->value(turn('tell me <EMAIL_0>')), 'tell me <LITERAL_0>', 'a typed placeholder is a text');
is($d->value(restore('<LITERAL_0> is not <EMAIL_0>')), '<EMAIL_0> is not ana@example.com', '... and restored as one');
is($d->value(restore('<EMAIL_0>', session => 'other')), '<EMAIL_0>', 'another session has none of them');
is($d->word("SELECT mw_restore('<EMAIL_0>', 'beta', 's')"), 'MW101', 'those of another tenant belong to nobody here');
is($d->word("SELECT mw_redact('x', 'beta', '{}', 's')"), 'MW101', '... to issue, too');
is($d->word('SELECT sealed FROM mw.pii'), '42501', 'nobody reads what is sealed');
is($d->word('SELECT lookup FROM mw.pii'), '42501', '... nor the hashes');
is($d->value("SELECT count(*) FROM (SELECT pii_type, number FROM mw.pii WHERE session = 's') AS x"), '4', 'placeholders of its own tenant a role can list');
is(MwClient->new($node, user => 'other')->value('SELECT count(*) FROM (SELECT number FROM mw.pii) AS x'), '0', '... and those of no other');
is($admin->value(q{SELECT count(*) FROM mw.pii AS p WHERE p::text ~ 'example|4111'}), '0', 'nothing in clear');
$d->query('BEGIN READ ONLY');
is($d->word(turn('bob@example.com')), '<EMAIL_1>', 'a read-only transaction may see what is there');
is($d->word(turn('new@example.com')), '25006', '... and issues nothing');
$d->query('ROLLBACK');
$c->query('BEGIN');
is($c->value(turn('undone@example.com')), '<EMAIL_2>', 'issued in a transaction');
$d->send(turn('beside@example.com'));
ok($node->until("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'", '1'), '... another one waits, ');
$c->query('ROLLBACK');
is(MwClient::word_of($d->result), '<EMAIL_2>', '... and has the number that was rolled back');

# ---------- a row in another place ----------

$admin->query(q{INSERT INTO mw.pii SELECT 'acme', 'moved', pii_type, number, key_version, lookup, sealed FROM mw.pii WHERE session = 's' AND pii_type = 'CC'});
is($d->word(restore('<CC_0>', session => 'moved')), 'XX001', 'a row that was moved does not open');
$admin->query(q{UPDATE mw.pii SET session = 'moved2', sealed = set_byte(sealed, 30, get_byte(sealed, 30) # 1) WHERE session = 'moved'});
is($d->word(turn('x', session => 'moved2')), 'XX001', '... nor one that was changed');
is($admin->value("SELECT mw_erase('acme', 'moved2')"), '1', '... but it can be erased');

# ---------- rotating ----------

keys_are("1 $key[0]", "2 $key[1]");
is(doctor('pii key versions'), 'warning', 'an older key is in use');
is($d->value(turn('cat@example.com ana@example.com')), '<EMAIL_3> <EMAIL_0>', 'a new value under the new key, an old one known');
is($admin->value('SELECT mw_rotate_pii_key()'), '7', 'what the old key sealed is sealed anew');
is($admin->value('SELECT mw_rotate_pii_key()'), '0', '... once');
keys_are("2 $key[1]");
is(doctor('pii key versions'), 'ok', 'the old key can go');
is($d->value(restore('<EMAIL_0> <EMAIL_3> <CC_0>')), 'ana@example.com cat@example.com 4111 1111 1111 1111', '... and nothing is lost');

# ---------- keys that are not there ----------

keys_are("3 $key[2]");
is(doctor('pii key versions'), 'error', 'a key is missing');
is($d->value(restore('<EMAIL_0>')), '<EMAIL_0>', 'without its key a value is not restored');
is($d->value(turn('ana@example.com')), '<EMAIL_4>', '... and has another number, so that none stands for two');
is($d->word('SELECT mw_rotate_pii_key()'), '42501', 'rotating is for administrators');
is($admin->word('SELECT mw_rotate_pii_key()'), 'MW001', '... and needs the keys');
is($admin->word("SELECT mw_erase('acme', value => 'ana\@example.com')"), 'MW001', 'erasing a value, too');
keys_are("3 $key[2]", "2 $key[1]");
is($d->value(restore('<EMAIL_0> <EMAIL_4>')), 'ana@example.com ana@example.com', 'with the key both are restored');
keys_are("2 $key[0]");
is($d->word(restore('<EMAIL_0>')), 'XX001', 'another key under its number opens nothing');
for my $bad ([ 'no key at all' => '#' ], [ 'a short one' => '2 abcd' ], [ 'no version' => $key[0] ], [ 'one version twice' => "1 $key[0]", "1 $key[1]" ])
{
	my ($what, @lines) = @$bad;
	keys_are(@lines);
	is($d->word(restore('<EMAIL_0>')), 'MW001', "a file with $what");
	is(doctor('pii key'), 'error', '... which the doctor finds');
}
unlink $file;
is($d->word(turn('ana@example.com')), 'MW001', 'a file that is gone');
is($d->value("SELECT mw_redact('ana\@example.com', 'acme')->>'text'"), '<EMAIL_0>', '... is not missed without a session');
keys_are("2 $key[1]", "3 $key[2]");
chmod 0644, $file;
is(doctor('pii key'), 'warning', 'a file that others can read');
chmod 0600, $file;
$admin->value('SELECT mw_rotate_pii_key()');

# ---------- erasing ----------

is($c->value(turn('ana@example.com', session => 'third')), '<EMAIL_0>', 'the value in another session');
is($admin->value("SELECT mw_erase('acme', value => 'ana\@example.com')"), '3', 'erased in all sessions');
is($d->value(restore('<EMAIL_0> <EMAIL_4> <EMAIL_1>')), '<EMAIL_0> <EMAIL_4> bob@example.com', '... its placeholders stand for nothing');
is($c->value(restore('<EMAIL_0>', session => 'third')), '<EMAIL_0>', '... in the other one, too');
is($d->value(turn('ana@example.com')), '<EMAIL_5>', 'and if it comes again it is a new one');
is($admin->value(q{SELECT count(*) FROM mw.pii WHERE sealed IS NULL AND lookup IS NULL AND pii_type = 'EMAIL'}), '3', 'nothing of it is left but its numbers');

# a caller who has stored something and not committed is waited for
$c->query('BEGIN');
$c->value(turn('slow@example.com', session => 'slow'));
$admin->send("SELECT mw_erase('acme', value => 'slow\@example.com')");
ok($node->until(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT mw_erase%'}, '1'), 'erasing waits for callers');
$c->query('COMMIT');
is(MwClient::word_of($admin->result), '1', '... and erases what they stored');

# ---------- a copy without the key ----------

my $dump = $node->basedir . '/vault.dump';
$node->command_ok([ 'pg_dump', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
unlike(PostgreSQL::Test::Utils::slurp_file($dump), qr/bob\@example/, '... has no value in clear');
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $node->connstr('copy') ], '... restored');
is(MwClient->new($node, user => 'app', dbname => 'copy')->value(restore('<EMAIL_1>')), 'bob@example.com', 'with the key file sessions go on');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET mw.pii_key_file');
$node->reload;
$node->until("SELECT setting FROM pg_settings WHERE name = 'mw.pii_key_file'", '') or die 'no reload';
is(MwClient->new($node, user => 'app', dbname => 'copy')->value(restore('<EMAIL_1>')), '<EMAIL_1>', '... and without it nothing comes back');

is($admin->value("SELECT mw_drop_tenant('acme')"), '', 'a dropped tenant');
is($admin->value("SELECT count(*) FROM mw.pii WHERE tenant = 'acme'"), '0', '... leaves nothing');
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
unlike($log, qr/ana\@example|$key[0]|$key[1]/, 'neither value nor key is in the log');
$node->stop;
done_testing();
