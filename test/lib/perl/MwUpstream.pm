
=head1 NAME

MwUpstream - the mock provider (test/lib/upstream.py) for a TAP test

=head1 SYNOPSIS

  my $up = MwUpstream->start;                  # or start('--tls')
  $up->reset({ m => [ { text => 'hello' } ] });
  my $s = $up->session('a');                   # own script and journal, same process
  ... base_url => $up->base_url ...
  is($up->count->{requests}, 1);
  $up->wait(requests => 1);                    # until the request has arrived
  like($up->journal->[0]{raw_body}, qr/<EMAIL_0>/);

It is ended by its number when the object goes, at the latest when the test does.

=cut

package MwUpstream;

use strict;
use warnings;
use Carp;
use File::Basename qw(dirname);
use Cwd qw(abs_path);
use HTTP::Tiny;
use JSON::PP;

my %running;    # pid => 1, of this process

sub start
{
	my ($class, @args) = @_;
	my $script = abs_path(dirname(abs_path(__FILE__)) . '/../upstream.py');
	my $owner = $$;

	pipe(my $read, my $write) or croak "pipe: $!";
	my $pid = fork() // croak "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>&', $write;
		close $read;
		# no END block of the test may run in here
		exec('python3', $script, @args) or do { require POSIX; POSIX::_exit(127) };
	}
	close $write;
	$running{$pid} = 1;
	my $line = <$read> // croak 'the mock upstream did not start';
	$line =~ m{^LISTENING (\S+)} or croak "the mock upstream said: $line";
	my $self = bless { url => $1, pid => $pid, owner => $owner, prefix => '', out => $read, args => \@args }, $class;
	if (grep { $_ eq '--tls' } @args)
	{
		(my $ca = <$read> // '') =~ m{^CA (\S+)} or croak 'no certificate';
		$self->{ca} = $1;
	}
	# Perl's own HTTP client speaks no TLS
	if ($self->{url} =~ /^https/)
	{
		(my $line = <$read> // '') =~ m{^CONTROL (\S+)} or croak 'no port for control';
		$self->{control} = $1;
	}
	if (grep { $_ eq '--h2-too' } @args)
	{
		(my $line = <$read> // '') =~ m{^H2 (\S+)} or croak 'no port for HTTP/2';
		$self->{h2} = $1;
	}
	return $self;
}

# The same process under another name; stops nothing when it goes.
sub session
{
	my ($self, $name) = @_;
	$name =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;
	return bless { %$self, pid => undef, prefix => "/s/$name", parent => $self }, ref $self;
}

sub url { return $_[0]{url} }
sub base_url { return $_[0]{url} . $_[0]{prefix} . '/v1' }
sub plain_base_url { return ($_[0]{control} // $_[0]{url}) . $_[0]{prefix} . '/v1' }    # without TLS, whatever the first is
sub h2_base_url { return $_[0]{h2} . $_[0]{prefix} . '/v1' }
sub ca { return $_[0]{ca} }
sub pid { return $_[0]{pid} // $_[0]{parent}{pid} }
sub port { return ($_[0]{url} =~ /:(\d+)$/)[0] }

sub _http
{
	my ($self, $method, $path, $body, $timeout) = @_;
	my $http = HTTP::Tiny->new(timeout => $timeout // 60, verify_SSL => 0, proxy => undef, http_proxy => undef, https_proxy => undef);
	my $r = $http->request($method, ($self->{control} // $self->{url}) . $self->{prefix} . $path,
		{ headers => { 'content-type' => 'application/json' }, defined $body ? (content => encode_json($body)) : () });
	my $json = eval { decode_json($r->{content}) };
	croak "mock upstream: $method $path: $r->{status} $r->{content}"
	  if !defined $json || ($r->{status} >= 400 && $r->{status} != 408);
	return ($json, $r->{status});
}

# A script ({model => [steps]} or [rules]) and options of POST /_reset; empties the journal.
sub reset
{
	my ($self, $script, %options) = @_;
	$self->_http(POST => '/_reset', { script => $script // {}, %options });
	return $self;
}

sub rules { my ($self, @rules) = @_; $self->_http(POST => '/_rules', { add => \@rules }); return $self; }
sub release { $_[0]->_http(POST => '/_release', {}); return; }
sub down { my ($self, $ms) = @_; $self->_http(POST => '/_down', { ms => $ms }); return; }
sub journal { return ($_[0]->_http(GET => '/_journal'))[0]{requests} }
sub report { return ($_[0]->_http(GET => '/_journal'))[0] }
sub count { return ($_[0]->_http(GET => '/_count'))[0] }

# audit(nonce => REGEX, forbidden => REGEX): the journal's sums, see upstream.py; it is emptied
sub audit { my ($self, %what) = @_; return ($_[0]->_http(POST => '/_audit', \%what))[0]; }

# wait(requests => 2): true when the figures (see upstream.py) were reached within the time
sub wait
{
	my ($self, %goal) = @_;
	my $timeout = delete $goal{timeout} // 60;
	my $q = join '&', map { "$_=$goal{$_}" } sort keys %goal;
	my (undef, $status) = $self->_http(GET => "/_wait?$q&timeout=$timeout", undef, $timeout + 10);
	return $status == 200;
}

# Dies as if its machine had; and is back at the same place, with nothing in its memory
sub die_hard
{
	my ($self) = @_;
	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $running{ $self->{pid} };
	$self->{pid} = undef;
	return;
}
sub again
{
	my ($self) = @_;
	my $new = (ref $self)->start(@{ $self->{args} }, '--port', $self->port);
	@$self{qw(pid out)} = @$new{qw(pid out)};
	$new->{pid} = undef;
	return;
}

sub stop
{
	my ($self) = @_;
	my $pid = $self->{pid};
	return unless $pid && $running{$pid} && $$ == $self->{owner};
	local $?;
	kill 'TERM', $pid;
	waitpid $pid, 0;
	delete $running{$pid};
	return;
}

sub DESTROY { $_[0]->stop if $_[0]{pid} }

my $main = $$;
END
{
	if ($$ == $main)
	{
		local $?;
		for my $pid (keys %running) { kill 'TERM', $pid; waitpid $pid, 0; }
	}
}

1;
