
=head1 NAME

MwClock - the wall clock of a server, for a test to set

=head1 SYNOPSIS

  my $clock = MwClock->new;
  { local %ENV = (%ENV, $clock->env); $node->start; }
  $clock->jump(86400);                # a day ahead of the true one, and going on
  $clock->stand(1774745999.5);        # it stands still at that moment (seconds since 1970)
  $clock->jump(0);

Every process of the server follows at once.  How: test/lib/clock.c.

=cut

package MwClock;

use strict;
use warnings;
use Carp;
use Fcntl qw(O_RDWR O_CREAT O_TRUNC SEEK_SET);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils ();

sub new
{
	my ($class) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { file => "$dir/clock", so => "$dir/clock.so" }, $class;
	my $log = `cc -O1 -Wall -Werror -shared -fPIC -o $self->{so} ${\dirname(__FILE__)}/../clock.c 2>&1`;
	$? == 0 or croak "the clock does not compile: $log";
	sysopen $self->{fh}, $self->{file}, O_RDWR | O_CREAT | O_TRUNC, 0644 or croak "$self->{file}: $!";
	syswrite $self->{fh}, "\0" x 4096;
	return $self;
}

sub env { my ($self) = @_; return (LD_PRELOAD => $self->{so}, MW_CLOCK => $self->{file}); }

sub _set
{
	my ($self, @words) = @_;
	sysseek $self->{fh}, 0, SEEK_SET;
	syswrite $self->{fh}, pack 'q2', @words;
	return;
}
sub jump { my ($self, $seconds) = @_; return $self->_set(0, sprintf '%.0f', $seconds * 1e6); }
sub stand { my ($self, $at) = @_; return $self->_set(sprintf('%.0f', $at * 1e6), 0); }

1;
