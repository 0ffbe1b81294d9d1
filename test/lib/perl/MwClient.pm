
=head1 NAME

MwClient - connections to PostgreSQL of which a test can have many at once

=head1 SYNOPSIS

  my $c = MwClient->new($node, user => 'app');
  is($c->value('SELECT 1'), '1');                 # dies on an error
  my $r = $c->query('SELECT 1/0');                # does not
  is($r->{error}{C}, '22012');
  $c->bound('SELECT $1::text', 'secret');         # extended protocol, a bound parameter
  $c->send('SELECT pg_sleep(9)'); $c->cancel; is($c->result->{error}{C}, '57014');

  my @all = map { MwClient->new($node) } 1 .. 64;
  my @r = MwClient->race(\@all, sub { "SELECT mw_ask(... $_[0] ...)" });

A test of races needs dozens of clients that begin at one moment, cancel requests that leave
at a known one, connections that vanish without a word, parameters that are bound, and
every field of an error.  psql has none of that, so this speaks the protocol (version 3)
itself, over the cluster's own socket, with trust.  No process is started and nothing is
left behind.

A result is { rows => [[...]], tag, error => { C, M, D, H, ... } or undef, notices => [...],
closed => the server hung up }.

=cut

package MwClient;

use strict;
use warnings;
use Carp;
use IO::Select;
use IO::Socket::UNIX;
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

our %LOST;    # processes whose connections ended without a word; see MwCheck::wait_recovered
our $TIMEOUT = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 120;

sub _socket
{
	my ($node) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	return IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path);
}

# new(NODE, user => , dbname => , settings => { name => value }, try => 1: undef or the error, not death)
sub new
{
	my ($class, $node, %o) = @_;
	my $self = bless { node => $node, user => $o{user}, buf => '', notices => [] }, $class;
	$self->{sock} = _socket($node) or do
	{
		return undef if $o{try};
		croak "cannot connect to " . $node->name . ": $!";
	};
	my %start = (
		user => $o{user} // 'postgres', database => $o{dbname} // 'postgres', client_encoding => 'UTF8',
		application_name => 'mw test', %{ $o{settings} // {} });
	# the user who runs the cluster is its superuser
	$start{user} = (getpwuid $>)[0] if $start{user} eq 'postgres';
	my $body = pack('N', 196608) . join('', map { "$_\0$start{$_}\0" } sort keys %start) . "\0";
	$self->_put(pack('N', 4 + length $body) . $body);
	my $r = $self->result;
	if ($r->{error} || $r->{closed})
	{
		$self->{connect_error} = $r->{error} // { M => 'closed' };
		return $o{try} ? $self : croak "connect: $self->{connect_error}{M}";
	}
	return $self;
}

sub ok { return !$_[0]{connect_error} }
sub pid { return $_[0]{pid} }

sub _put
{
	my ($self, $bytes) = @_;
	local $SIG{PIPE} = 'IGNORE';
	while (length $bytes)
	{
		my $n = syswrite $self->{sock}, $bytes;
		if (!defined $n)
		{
			$self->{gone} = 1;
			return;
		}
		substr($bytes, 0, $n) = '';
	}
	return;
}

sub _message
{
	my ($type, $body) = @_;
	return $type . pack('N', 4 + length $body) . $body;
}

# One message of the server's; undef when the connection has ended
sub _get
{
	my ($self, $until) = @_;
	my $select = IO::Select->new($self->{sock});
	while (1)
	{
		if (length $self->{buf} >= 5)
		{
			my $len = unpack 'x N', $self->{buf};
			if (length $self->{buf} >= 1 + $len)
			{
				my $type = substr $self->{buf}, 0, 1;
				my $body = substr $self->{buf}, 5, $len - 4;
				substr($self->{buf}, 0, 1 + $len) = '';
				return ($type, $body);
			}
		}
		my $left = $until - time;
		croak 'no answer from the server within the time' if $left <= 0 || !$select->can_read($left);
		my $n = sysread $self->{sock}, $self->{buf}, 65536, length $self->{buf};
		return if !$n;
	}
}

sub _fields
{
	my ($body) = @_;
	my %f;
	for my $part (split /\0/, $body)
	{
		$f{ substr $part, 0, 1 } = substr $part, 1 if length $part;
	}
	return \%f;
}

sub _utf8 { my ($s) = @_; utf8::encode($s) if utf8::is_utf8($s); return $s; }

# ---------- statements ----------

sub send
{
	my ($self, $sql) = @_;
	$self->_put(_message('Q', _utf8($sql) . "\0"));
	return $self;
}

# A statement with bound parameters (texts; undef is NULL)
sub send_bound
{
	my ($self, $sql, @params) = @_;
	my $bind = "\0\0" . pack('n', 0) . pack('n', scalar @params);
	for my $p (map { defined $_ ? _utf8($_) : undef } @params)
	{
		$bind .= defined $p ? pack('N', length $p) . $p : pack('N', 0xffffffff);
	}
	$bind .= pack('n', 0);
	$self->_put(_message('P', "\0" . _utf8($sql) . "\0" . pack('n', 0)) . _message('B', $bind)
		. _message('D', "P\0") . _message('E', "\0" . pack('N', 0)) . _message('S', ''));
	return $self;
}

sub result
{
	my ($self, $timeout) = @_;
	my $until = time + ($timeout // $TIMEOUT);
	my $r = { rows => [], notices => [], error => undef, tag => undef, closed => 0 };
	while (1)
	{
		my ($type, $body) = $self->_get($until);
		if (!defined $type)
		{
			$r->{closed} = $self->{closed} = 1;
			$LOST{ $self->{pid} } = 1 if $self->{pid};
			return $r;
		}
		if ($type eq 'D')
		{
			my $n = unpack 'n', $body;
			my ($at, @row) = 2;
			for (1 .. $n)
			{
				my $len = unpack 'N', substr $body, $at, 4;
				$at += 4;
				if ($len == 0xffffffff) { push @row, undef; next; }
				push @row, substr $body, $at, $len;
				$at += $len;
			}
			push @{ $r->{rows} }, \@row;
		}
		elsif ($type eq 'C') { ($r->{tag} = $body) =~ s/\0$//; }
		elsif ($type eq 'E')
		{
			$r->{error} = _fields($body);
		}
		elsif ($type eq 'N') { push @{ $r->{notices} }, _fields($body); }
		elsif ($type eq 'A') { push @{ $self->{notifications} }, [ (split /\0/, substr($body, 4), 3)[0, 1] ]; }
		elsif ($type eq 'K') { ($self->{pid}, $self->{key}) = unpack 'N N', $body; }
		elsif ($type eq 'R')
		{
			croak 'the test client knows trust only' if unpack('N', $body) != 0;
		}
		elsif ($type eq 'Z') { $r->{status} = $body; return $r; }
	}
}

sub query { my ($self, $sql, $timeout) = @_; return $self->send($sql)->result($timeout); }
sub bound { my ($self, $sql, @params) = @_; return $self->send_bound($sql, @params)->result; }

# Dies on an error; the first column of the first row
sub value
{
	my ($self, $sql) = @_;
	my $r = $self->query($sql);
	croak "$r->{error}{C}: $r->{error}{M}" . ($r->{error}{D} ? " ($r->{error}{D})" : '') . " in: $sql" if $r->{error};
	croak "the server hung up in: $sql" if $r->{closed};
	return @{ $r->{rows} } ? plain($r->{rows}[0][0]) : undef;
}

# The mock's echo is the prompt as the provider saw it: in the wrapper of the guardrail, which
# is taken off here, where it is nothing else
sub plain
{
	my ($text) = @_;
	return defined $text && $text =~ /\A<user_input>\n(.*)\n<\/user_input>\z/s ? $1 : $text;
}

# What came of a statement in one word: its SQLSTATE, or its first value
sub word
{
	my ($self, $sql) = @_;
	return word_of($self->query($sql));
}

sub word_of
{
	my ($r) = @_;
	return $r->{error}{C} if $r->{error};
	return 'closed' if $r->{closed};
	return @{ $r->{rows} } ? plain($r->{rows}[0][0]) // 'NULL' : 'no row';
}

# Its SQLSTATE alone; '' without an error
sub code_of { my ($r) = @_; return $r->{error} ? $r->{error}{C} : $r->{closed} ? 'closed' : ''; }

# All clients' statements leave as near to one moment as one process can; results in their order
sub race
{
	my ($class, $clients, $sql) = @_;
	my @bytes = map { _message('Q', _utf8($sql->($_)) . "\0") } 0 .. $#$clients;
	$clients->[$_]->_put($bytes[$_]) for 0 .. $#$clients;
	return map { $_->result } @$clients;
}

# ---------- leaving ----------

# A cancel request, as psql's Ctrl-C sends it
sub cancel
{
	my ($self) = @_;
	my $s = _socket($self->{node}) or croak "cancel: $!";
	syswrite $s, pack('N N N N', 16, 80877102, $self->{pid}, $self->{key});
	sysread $s, my $nothing, 1;    # the server closes it when the signal is on its way
	return;
}

# Vanish without a word, as a client that lost its network
sub drop { my ($self) = @_; CORE::close $self->{sock}; $self->{closed} = 1; return; }

sub close
{
	my ($self) = @_;
	return if $self->{closed};
	$self->_put(_message('X', ''));
	CORE::close $self->{sock};
	$self->{closed} = 1;
	return;
}

sub DESTROY { my ($self) = @_; CORE::close $self->{sock} if $self->{sock}; return; }

1;
