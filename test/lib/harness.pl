# harness.pl KIND JOBS FILE... - run TAP files and say exactly what came of them.
#
# KIND is perl (scripts) or pgtap (SQL files, run by psql as pg_prove runs them).
# Each test is printed as its own TAP line, named FILE: description, so that whoever
# reads the log needs no knowledge of plans; a file that died, had no plan or ran another
# number of tests than planned is a failure of its own.  prove's own output has
# sums only, which hide skips.
use strict;
use warnings;
use TAP::Parser;
use TAP::Parser::Multiplexer;

my ($kind, $jobs, @files) = @ARGV;
my ($failed, @queue) = (0, @files);
my $mux = TAP::Parser::Multiplexer->new;
my %lines;

sub start
{
	my $file = shift @queue or return;
	my %how = (merge => 0);
	if ($kind eq 'pgtap')
	{
		$how{exec} = [
			'psql', '--no-psqlrc', '--no-align', '--quiet', '--pset', 'pager=off',
			'--pset', 'tuples_only=true', '--set', 'ON_ERROR_STOP=1', '--file', $file ];
	}
	else
	{
		$how{exec} = [ $^X, '-w', $file ];
	}
	my $parser = TAP::Parser->new({%how});
	$parser->{mw_started} = time;
	$mux->add($parser, $file);
	return;
}

$| = 1;
start() for 1 .. $jobs;
while (my ($parser, $file, $result) = $mux->next)
{
	if (defined $result)
	{
		if ($result->is_test)
		{
			my $ok = $result->is_ok && !$result->is_unplanned ? 'ok' : 'not ok';
			my $why = $result->has_skip ? ' # SKIP ' . $result->explanation
			  : $result->has_todo ? ' # TODO ' . $result->explanation : '';
			my $name = $result->description;
			$name =~ s/^-\s*//;
			$failed++ if $ok ne 'ok';
			print "$ok - $file: $name$why\n";
		}
		elsif (!$result->is_plan)
		{
			print '# ', $result->as_string, "\n" if $result->as_string =~ /\S/;
		}
		next;
	}
	# a file has ended
	my @wrong = $parser->parse_errors;
	push @wrong, 'exit code ' . $parser->exit if $parser->exit;
	push @wrong, 'signal ' . ($parser->wait & 127) if defined $parser->wait && ($parser->wait & 127);
	if ($parser->skip_all)
	{
		print "ok - $file # SKIP ", $parser->skip_all, "\n";
	}
	elsif (@wrong)
	{
		$failed++;
		print "not ok - $file: the file as a whole: ", join('; ', @wrong), "\n";
	}
	printf "# %s took %d s\n", $file, time - $parser->{mw_started};
	start();
}
exit($failed ? 1 : 0);
