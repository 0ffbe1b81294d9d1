# L2: what mw itself takes of a call to a provider that answers at once: one client, one call after another, and the
# same calls from the cache.  Redaction and guardrail alone, from small texts to a megabyte.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('overhead of a call, one client', rounds => [ 2, 50 ], every => 10);
my $client = $c->client('r1');
my $pure = $c->client('r1');    # a megabyte leaves its mark on a backend's memory
$c->rounds(sub {
	my ($round) = @_;
	for my $i (1 .. 1000)
	{
		my $id = $i % 2 ? $c->unnamed : $c->nonce;
		my $r = decode_json($client->value($c->invoke('t1', 's', $id)));
		$r->{output} = MwClient::plain($r->{output});
		$c->must($r->{output} eq $c->prompt('t1', $id), "V4: $r->{output}");
		my $own = 0;
		$own += $r->{timings}{$_} // 0 for qw(redact guardrail budget cache retry);
		$c->took('stages but the model', $own / 1e6);
		$c->took("stage $_", ($r->{timings}{$_} // 0) / 1e6) for qw(redact guardrail budget cache retry model);
		$c->count(calls => 1);
		$c->audit if $i % 250 == 0;
	}
	$c->grown('the backend', $client->pid, 1000 * $round);
	$c->grown('the gateway', $c->gateway, 1000 * $round);
	for my $kb (2, 64, 1024)
	{
		my $text = substr 'The invoice of ana@pii.example over 1,234.56 is due; call 415-555-0132 or write to Bo. ' x (12 * $kb), 0, $kb * 1024;
		my $t = time;
		$pure->value("SELECT length(mw_redact(" . quote($text) . ", 't1')->>'text') + length(mw_guard(" . quote($text) . ", 't1')::text)");
		$c->took("redact and guard $kb kB", time - $t);
	}
	return;
});
$c->finish;
