
=head1 NAME

MwModel - the real small model of demo/model, for a TAP test

=head1 SYNOPSIS

  my $model = MwModel->start or plan skip_all => MwModel->why_not;
  ... base_url => $model->base_url ...        # any model name; key => set MODEL_API_KEY before

For protocol facts only: what it says is not to be tested.  MW_MODEL is the folder that
demo/model/setup.sh filled; test/run sets it.

=cut

package MwModel;

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);

my $scripts = abs_path(dirname(abs_path(__FILE__)) . '/../../../demo/model');
my %running;
my $main = $$;

sub why_not { return $ENV{MW_MODEL} ? 'the model did not start' : 'no model is installed (demo/model/setup.sh)' }

sub start
{
	my ($class) = @_;
	return unless $ENV{MW_MODEL};
	my $run = tempdir(CLEANUP => 1);
	my $url = `'$scripts/serve.sh' '$ENV{MW_MODEL}' '$run' 2>&1`;
	if ($? || $url !~ m{^(http://\S+)$}m)
	{
		print "# $_\n" for split /\n/, $url;
		return;
	}
	$running{$run} = 1;
	return bless { url => $1, run => $run }, $class;
}

sub base_url { return $_[0]{url} }

sub stop
{
	my ($self) = @_;
	local $?;
	system("$scripts/stop.sh", $self->{run}) if delete $running{ $self->{run} };
	return;
}

END
{
	if ($$ == $main)
	{
		local $?;
		system("$scripts/stop.sh", $_) for keys %running;
	}
}

1;
