# P1: libFuzzer on what reads strangers' texts: redactor, restorer, normaliser, decoder, under the address and undefined
# behaviour sanitizers, without a server.  What must hold of every text is in test/c/alone/holds.c; what is found becomes a
# case of test/c/pii_test.c or views_test.c.
#
# The smoke form is a gate on a change, so it reads the same texts each time: one seed (unless MW_SEED says another), a number
# of texts for each target (some 15 seconds of an idle processor) and no texts of earlier runs.  The full form looks for what
# nobody knows yet: other seeds each time, as long as it is given, and it goes on with the texts that reached something new.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use File::Path qw(make_path remove_tree);
use MIME::Base64;
use Test::More;
use MwCampaign;

my $top = "$FindBin::RealBin/../..";
my @targets = qw(redactor restorer normaliser decoder);
my %texts = (redactor => 60_000, restorer => 150_000, normaliser => 250_000, decoder => 80_000);    # of the smoke form
my $fuzzer = "$top/test/fuzz/fuzz";
plan skip_all => 'clang with libFuzzer is not installed'
  if system('echo "int LLVMFuzzerTestOneInput(void){return 0;}" | clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - >/dev/null 2>&1') != 0;
system("make -s -C '$top' PG_CONFIG='$ENV{MW_BIN}/pg_config' test/fuzz/fuzz") == 0 or BAIL_OUT('the fuzzers do not compile');

my $c = MwCampaign->new('fuzzers of what reads texts', rounds => [ scalar @targets, 5 * @targets ], every => 1, alone => 1, seed => 20261130);
# where the machine lets us, what is read next does not hang on where memory lies
my $same = system('setarch -R true >/dev/null 2>&1') == 0 ? 'setarch -R' : '';
my $dir = ($ENV{MW_CAMPAIGN_DIR} // '.') . '/fuzz' . ($c->full ? '' : '-smoke');
remove_tree($dir) if !$c->full;
make_path($dir, map { "$dir/$_" } 'seeds', @targets);
seeds();

$c->rounds(sub {
	my ($round) = @_;
	my $target = $targets[ ($round - 1) % @targets ];
	local $ENV{MW_FUZZ} = $target;
	local $ENV{ASAN_OPTIONS} = 'detect_leaks=0:detect_stack_use_after_return=0';
	my $log = "$dir/$target.log";
	my $seed = 1 + int rand 1_000_000;
	my $effort = $c->full ? '-max_total_time=60' : "-runs=$texts{$target}";
	my $rc = system "$same '$fuzzer' $effort -max_len=4096 -timeout=20 -seed=$seed -dict='$top/test/fuzz/words.dict' -print_final_stats=1 "
	  . "-artifact_prefix='$dir/finding-$target-' '$dir/$target' '$dir/seeds' >'$log' 2>&1";
	my $said = PostgreSQL::Test::Utils::slurp_file($log);
	my ($why) = $said =~ /^((?:not so: |.*(?:ERROR: |runtime error: )).*)$/m;
	my ($text) = $said =~ /Test unit written to (.*)$/m;
	$c->must($rc == 0, "$target: " . ($why // "ended with $rc, see $log") . '; ' . (defined $text ? text_of($text) : 'no text was kept'));
	my ($texts) = $said =~ /^stat::number_of_executed_units:\s*(\d+)/m;
	$c->must(($texts // 0) > 100, "$target has read " . ($texts // 'no') . ' texts');
	$c->count("texts of the $target", $texts // 0);
	my ($edges) = $said =~ /.*\bcov: (\d+)/s;
	$c->figure("branches that the $target took", $edges // 0);
});
$c->finish;

# What was read, so that whoever has nothing but this log can read it again
sub text_of
{
	my ($file) = @_;
	my $text = PostgreSQL::Test::Utils::slurp_file($file);
	return length($text) . ' bytes, in base64: ' . encode_base64(substr($text, 0, 4096), '');
}

# A file a row of the corpora
sub seeds
{
	my $n = 0;
	for my $file (glob "$top/test/corpora/*.tsv")
	{
		open my $in, '<', $file or die "$file: $!";
		<$in>;
		while (my $line = <$in>)
		{
			(my $text = (split /\t/, $line)[0]) =~ s/\\([ntr\\])/{ n => "\n", t => "\t", r => "\r", '\\' => '\\' }->{$1}/ge;
			open my $out, '>', sprintf '%s/seeds/%04d', $dir, $n++ or die "$dir: $!";
			print $out $text;
			close $out;
		}
	}
	return;
}
