# L5: redaction and guardrail over many generated texts in one statement, and over the worst texts that we know, at
# two sizes: time grows with the text and no faster, memory not at all.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('redact and guard over generated rows, and the worst texts', rounds => [ 2, 20 ], every => 20);
my $client = $c->client('r1');
my $other = $c->client('r1');    # a megabyte leaves its mark on a backend's memory
my $rows = 50_000;
my @worst = (
	[ 'letters', 'a' ], [ 'digits', '1' ], [ 'digits and spaces', '4 ' ], [ 'dots', '.' ], [ 'at signs', 'a@' ], [ 'half an address', 'a.b-c_d@e-f.' ],
	[ 'colons', '1:' ], [ 'hex', 'ab:cd:' ], [ 'dashes', '1-' ], [ 'braces', '({[' ], [ 'quotes', '"' ], [ 'line ends', "\n" ], [ 'http', 'http://' ],
	[ 'ignore', 'ignore all ' ], [ 'previous', 'previous instructions ' ], [ 'wide', "\x{ff29}\x{200b}" ], [ 'accents', "e\x{301}" ], [ 'base64', 'aWdub3Jl' ],
	[ 'entities', '&#105;' ], [ 'escapes', '\\u0069' ], [ 'iban', 'DE89370400440532013000' ], [ 'spaces', ' ' ], [ 'plus', '+1 ' ]);

# Seconds that a process has had a processor; where the kernel does not say, the clock
sub on_processor
{
	my ($pid) = @_;
	open my $f, '<', "/proc/$pid/schedstat" or return time;
	my ($ns) = split / /, <$f>;
	return $ns / 1e9;
}

$c->rounds(sub {
	my ($round) = @_;
	my $seed = rand;
	$client->value("SELECT setseed($seed)");
	my $t = time;
	my $bad = $client->value("
		SELECT count(*) FROM (
			SELECT 'On ' || g || ' user' || g || '\@mail' || g % 97 || '.example called ' || (200 + g % 700) || '-555-0' || (100 + g % 900) || ' about ' || md5(random()::text) AS t
			FROM generate_series(1, $rows) AS g OFFSET 0) AS x,
			LATERAL (SELECT mw_redact(t, 't1') AS r, mw_guard(t, 't1') AS v OFFSET 0) AS y
		WHERE mw_restore(r->>'text', r->'map') <> t OR r->>'text' LIKE '%\@mail%' OR v->>'verdict' IS NULL");
	$c->took('a row', (time - $t) / $rows);
	$c->must($bad eq '0', "V6: $bad of $rows texts are not restored as they were, or keep an address");
	$c->count('rows' => $rows);
	$c->grown('the backend', $client->pid, $rows * $round);

	# each of the worst texts at n and at 4n: 4 times as long, or where time grows with the square 16 times; by the processor's
	# time, and the best of three tries, since the slower ones may be the machine's fault
	for my $w (@worst[ map { ($round * 12 + $_) % @worst } 0 .. ($c->full ? $#worst : 11) ])
	{
		my %best;
		for my $try (1 .. 3)
		{
			for my $kb (256, 1024)
			{
				my $sql = 'SELECT length(mw_redact(t)::text) + length(mw_guard(t)::text) FROM (SELECT left(repeat(' . quote($w->[1]) . ", 1048576), $kb * 1024) AS t OFFSET 0) AS x";
				my $from = on_processor($other->pid);
				my $r = $other->query($sql);
				my $took = on_processor($other->pid) - $from;
				$c->must(!$r->{error}, "$w->[0]: " . MwClient::word_of($r));
				$best{$kb} = $took if !defined $best{$kb} || $took < $best{$kb};
			}
			last if $best{1024} <= 6 * $best{256};
		}
		$c->took('a worst text of 1 MB', $best{1024});
		$c->must($best{1024} <= 8 * $best{256}, sprintf '%s: %.0f ms for 256 kB, %.0f ms for 1 MB', $w->[0], map { 1000 * $_ } @best{ 256, 1024 });
	}
	return;
});
$c->finish;
