
=head1 NAME

MwAnalyzer - a Presidio analyzer (test/lib/analyzer.py) for a TAP test

=head1 SYNOPSIS

  my $analyzer = MwAnalyzer->start;                          # the stand-in
  my $analyzer = MwAnalyzer->start('/path/of/python', '--presidio') or ...;
  $analyzer->be('500 once');
  is(scalar @{ $analyzer->seen }, 1);

It is ended by its number when the object goes, at the latest when the test does.

=cut

package MwAnalyzer;

use strict;
use warnings;
use Carp;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use HTTP::Tiny;
use JSON::PP;

my %running;    # pid => 1, of this process
my $main = $$;

sub start
{
	my ($class, $python, @args) = @_;
	my $script = abs_path(dirname(abs_path(__FILE__)) . '/../analyzer.py');

	pipe(my $read, my $write) or croak "pipe: $!";
	my $pid = fork() // croak "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>&', $write;
		close $read;
		# no END block of the test may run in here
		exec($python // 'python3', $script, @args) or do { require POSIX; POSIX::_exit(127) };
	}
	close $write;
	$running{$pid} = 1;
	my $line = <$read>;
	my $self = bless { pid => $pid, out => $read }, $class;
	return unless defined $line && $line =~ m{^LISTENING (\S+)};
	$self->{url} = $1;
	return $self;
}

sub base_url { return $_[0]{url} }

sub be
{
	my ($self, $mode) = @_;
	my $r = HTTP::Tiny->new(timeout => 30)->post("$self->{url}/be", { content => encode_json({ mode => $mode }) });
	croak "the analyzer said: $r->{status} $r->{content}" unless $r->{success};
	return;
}

# What it was asked since the last look: [{ request => ..., authorization => ... }, ...]
sub seen
{
	my ($self) = @_;
	my $r = HTTP::Tiny->new(timeout => 30)->get("$self->{url}/seen");
	croak "the analyzer said: $r->{status} $r->{content}" unless $r->{success};
	return decode_json($r->{content});
}

sub stop
{
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	return unless delete $running{$pid};
	local ($?, $!);
	kill 'TERM', $pid;
	waitpid $pid, 0;
	return;
}

sub DESTROY { $_[0]->stop if $$ == $main; return }

END
{
	if ($$ == $main)
	{
		local $?;
		for my $pid (keys %running) { kill 'TERM', $pid; waitpid $pid, 0; }
	}
}

1;
