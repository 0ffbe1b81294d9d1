
=head1 NAME

MwNode - a PostgreSQL with mw preloaded, for a TAP test

=head1 SYNOPSIS

  my $up   = MwUpstream->start;
  my $node = MwNode->new('main');                    # started, CREATE EXTENSION done
  $node->server(llm => $up->base_url);               # CREATE SERVER, user mapping, USAGE for PUBLIC
  $node->tenant('acme', 'app');                      # tenant, role app may act for it
  is($node->psql_as(app => q{SELECT mw_ask('acme', NULL, 'hi', model => 'llm:m')}), 'hello');

A PostgreSQL::Test::Cluster with what nearly every test of mw begins with.  All of that
class's methods are there.

=cut

package MwNode;

use strict;
use warnings;
use Carp;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();    # its functions would hide methods of the same names
our @ISA = ('PostgreSQL::Test::Cluster');

# new(NAME, preload => 1, conf => "more lines", extension => 1, start => 1, init => [...], install_path => PREFIX)
sub new
{
	my ($class, $name, %o) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, exists $o{install_path} ? (install_path => $o{install_path}) : ());
	bless $node, $class;
	$node->init(extra => [ '--encoding=UTF8', '--locale=C.UTF-8' ], @{ $o{init} // [] });
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'mw'") if $o{preload} // 1;
	# what these tests look for in the log, they find
	$node->append_conf('postgresql.conf', "log_statement = none\nlog_min_messages = info\nmax_prepared_transactions = 5\nautovacuum_naptime = 1h");
	$node->append_conf('postgresql.conf', $o{conf}) if defined $o{conf};
	return $node if exists $o{start} && !$o{start};
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION mw') if $o{extension} // 1;
	return $node;
}

# A server for models of a mock; options are those of CREATE SERVER, "key" makes a mapping
sub server
{
	my ($node, $name, $base_url, %o) = @_;
	my $db = delete $o{dbname} // 'postgres';
	my $key = delete $o{key};
	my %all = (api => 'openai', defined $base_url ? (base_url => $base_url) : (), %o);
	my $list = join ', ', map { (my $v = $all{$_}) =~ s/'/''/g; "$_ '$v'" } sort keys %all;
	$node->safe_psql($db, "CREATE SERVER $name FOREIGN DATA WRAPPER mw OPTIONS ($list)");
	$node->safe_psql($db, "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (api_key '$key')") if defined $key;
	$node->safe_psql($db, "GRANT USAGE ON FOREIGN SERVER $name TO PUBLIC");
	return;
}

# A tenant, and roles (made where they are missing) that may act for it
sub tenant
{
	my ($node, $tenant, @roles) = @_;
	my $db = 'postgres';
	$node->safe_psql($db, "SELECT mw_create_tenant('$tenant')");
	for my $role (@roles)
	{
		$node->safe_psql($db, "CREATE ROLE $role LOGIN")
		  if $node->safe_psql($db, "SELECT count(*) FROM pg_roles WHERE rolname = '$role'") eq '0';
		$node->safe_psql($db, "SELECT mw_grant_tenant('$tenant', '$role')");
	}
	return;
}

# safe_psql as another role
sub psql_as
{
	my ($node, $role, $sql, %o) = @_;
	return $node->safe_psql($o{dbname} // 'postgres', $sql, extra_params => [ '-U', $role ]);
}

# psql as another role; (exit code, standard output, standard error), SQLSTATEs shown
sub try_as
{
	my ($node, $role, $sql, %o) = @_;
	my ($out, $err) = ('', '');
	my $rc = $node->psql($o{dbname} // 'postgres', "\\set VERBOSITY verbose\n$sql", stdout => \$out, stderr => \$err,
		extra_params => [ '-U', $role ], on_error_stop => $o{on_error_stop} // 1);
	return ($rc, $out, $err);
}

# The keys of mw.pii_key_file, a line each, in a new file that takes the old one's place at once
sub write_keys
{
	my ($file, @lines) = @_;
	open my $f, '>', "$file.new" or die "$file.new: $!";
	print $f map { "$_\n" } @lines;
	close $f or die "$file.new: $!";
	chmod 0600, "$file.new";
	rename "$file.new", $file or die "$file: $!";
	return;
}

# Poll a query until it gives what is expected ('t'); false when it never does
sub until
{
	my ($node, $sql, $expected, %o) = @_;
	return $node->poll_query_until($o{dbname} // 'postgres', $sql, $expected);
}

1;
