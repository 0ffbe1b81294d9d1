
=head1 NAME

MwTls - a certificate authority of a test's own

=head1 SYNOPSIS

  my $ca = MwTls->new($folder);
  my ($cert, $key) = $ca->certificate('good', names => 'IP:127.0.0.1,DNS:localhost');
  ... ca_file => $ca->file ...

Made anew by each test with the openssl command; nothing of it is worth keeping.

=cut

package MwTls;

use strict;
use warnings;
use Carp;
use IPC::Run;
use POSIX qw(strftime);

sub _openssl
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'openssl', @_ ], '<', \'', '>', \$out, '2>', \$err) or croak "openssl @_: $err";
	return;
}

my @new = qw(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes);

sub new
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir, serial => 0 }, $class;
	mkdir $dir or croak "$dir: $!";
	open my $f, '>', "$dir/ca.conf" or croak "$dir/ca.conf: $!";
	print $f <<"CONF";
[ca]
default_ca = own
[own]
database = $dir/index.txt
new_certs_dir = $dir
serial = $dir/serial
certificate = $dir/ca.pem
private_key = $dir/ca.key
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
CONF
	close $f;
	for my $made ([ 'index.txt', '' ], [ 'serial', "01\n" ])
	{
		open $f, '>', "$dir/$made->[0]" or croak "$dir: $!";
		print $f $made->[1];
		close $f;
	}
	_openssl('req', '-x509', @new, '-keyout', "$dir/ca.key", '-out', "$dir/ca.pem", '-days', '2', '-subj', '/CN=CA of a test',
		'-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign');
	return $self;
}

sub file { return $_[0]{dir} . '/ca.pem' }

# Paths of a certificate and its key; names as in subjectAltName, from and to in days from now
sub certificate
{
	my ($self, $name, %o) = @_;
	my $at = "$self->{dir}/$name";
	my @validity = map { strftime('%Y%m%d%H%M%SZ', gmtime(time + 86400 * $_)) } $o{from} // -1, $o{to} // 2;
	_openssl('req', @new, '-keyout', "$at.key", '-out', "$at.csr", '-subj', "/CN=$name", '-addext', 'subjectAltName=' . ($o{names} // "DNS:$name"));
	_openssl('ca', '-batch', '-notext', '-config', "$self->{dir}/ca.conf", '-in', "$at.csr", '-out', "$at.pem",
		'-startdate', $validity[0], '-enddate', $validity[1]);
	return ("$at.pem", "$at.key");
}

1;
