# Half-open connections: the packets of a connection are dropped, in both directions and without a word, while it is kept
# or carries a call.  The provider stands behind a cable of its own (a veth pair into a second network name space), whose
# far end is taken down.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;

# Cables need root, in a user name space of our own; servers do not run as root, so back again in a second one.  Who stays
# behind with the rights does what a pipe tells him.
# The far side: answers each request alike and keeps its connections
sub provider
{
	require IO::Select;
	require IO::Socket::INET;
	my $listen = IO::Socket::INET->new(Listen => 50, LocalAddr => '0.0.0.0:8080', ReuseAddr => 1) or die "listen: $!";
	my $select = IO::Select->new($listen);
	my %got;
	my $body = '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"fine"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}';
	while (my @ready = $select->can_read)
	{
		for my $s (@ready)
		{
			if ($s == $listen) { $select->add($listen->accept); next; }
			my $n = sysread $s, $got{$s}, 65536, length($got{$s} // '');
			if (!$n) { $select->remove($s); delete $got{$s}; close $s; next; }
			my ($head, $sent) = split /\r\n\r\n/, $got{$s}, 2;
			next if !defined $sent || $head !~ /content-length: (\d+)/i || length $sent < $1;
			$got{$s} = '';
			syswrite $s, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " . length($body) . "\r\n\r\n$body";
		}
	}
	return;
}
BEGIN
{
	if (@ARGV)
	{
		provider();
		exit 0;
	}
	if (!$ENV{MW_CABLE})
	{
		my ($uid, $gid) = ($>, (split ' ', $))[0]);
		my $pipe = "$ENV{TESTDATADIR}/cable";
		my $back = "unshare --user --map-user=$uid --map-group=$gid";
		my @unshare = ('unshare', '--user', '--map-root-user', '--net', 'sh', '-c');
		my $far = "$^X $0 provider";
		my $cable = 'ip link set lo up && ip link add near type veth peer name far netns $far && ip addr add 10.99.9.1/30 dev near && ip link set near up'
		  . ' && nsenter -t $far -n ip addr add 10.99.9.2/30 dev far && nsenter -t $far -n ip link set far up';
		my $start = "unshare --net sleep 600 & far=\$!; sleep 0.2; trap 'kill \$far' EXIT; $cable";
		plan skip_all => 'no network can be made here, not even in a name space of its own' if system(@unshare, "{ $start; } >/dev/null 2>&1 && $back true") != 0;
		unlink $pipe;
		system('mkfifo', $pipe) == 0 or die 'mkfifo';
		$ENV{MW_CABLE} = $pipe;
		exec @unshare, "$start || exit 1; nsenter -t \$far -n $far & provider=\$!
			while read -r word; do nsenter -t \$far -n ip link set far \$word; done <$pipe & hand=\$!
			exec 9>$pipe; $back $^X -w $0 9>&-; rc=\$?; exec 9>&-; kill \$provider \$hand; exit \$rc" or die "unshare: $!";
	}
}
use MwCheck;
use MwClient;
use MwNode;

my $node = MwNode->new('half', conf => "mw.gateway_idle = '300s'");
$node->server(far => 'http://10.99.9.2:8080/v1', key => 'sk-half', allow_private => 'true', connect_timeout => 1, breaker => 'off', retry_reserve => 9999);
$node->tenant('acme', 'app');
$node->safe_psql('postgres', q{SELECT mw_alter_tenant('acme', '{"model": "far:m", "cache": false, "retry": {"max_attempts": 3, "base": 0.05, "max": 0.1}}')});
my $c = MwClient->new($node, user => 'app');

sub cable
{
	my ($word) = @_;
	open my $f, '>', $ENV{MW_CABLE} or die "$ENV{MW_CABLE}: $!";
	print $f "$word\n";
	close $f;
	# whoever pulls it has to be reached first
	select undef, undef, undef, 0.5;
	return;
}
sub attempts
{
	my ($id) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(concat_ws(':', outcome, billed_tokens = reserved_tokens), ' ' ORDER BY attempt) FROM mw.attempt WHERE request_id = '$id'");
}
sub call
{
	my ($id, %o) = @_;
	return $c->query(ask('acme', 's', "call $id", model => 'far:m', request_id => $id, options => { max_tokens => 64, timeout => $o{timeout} // 20, $o{options} ? %{ $o{options} } : () }), 60);
}

is(MwClient::word_of(call('first')), 'fine', 'a call, whose connection is kept');
cable('down');
is_error(call('kept', timeout => 2), 'MW404', 'on a kept connection whose packets are dropped: its deadline ends it', detail => qr/outcome unknown/);
is(attempts('kept'), 'unknown:t', '... its request was written, as far as anybody here can know: charged at its reservation');
is_error(call('kept'), 'MW502', '... and not sent again by itself');
is_error(call('new', timeout => 20), 'MW402', 'a new connection cannot be made');
is(attempts('new'), 'failed:f failed:f failed:f', '... which is tried three times and costs nothing');
cable('up');
is(MwClient::word_of(call('again')), 'fine', 'when packets pass again so do calls');
is(MwClient::word_of(call('kept', options => { resend_unknown => \1 })), 'fine', '... and the lost one, since its caller says so');

# a cancel, and a whole server that stops, wait for no packet
cable('down');
$c->send(ask('acme', 's', 'call cancelled', model => 'far:m', request_id => 'cancelled', options => { max_tokens => 64, timeout => 4 }));
ok(eventually(sub { return $node->safe_psql('postgres', "SELECT count(*) FROM mw.queue WHERE state = 'in flight'") eq '1'; }), 'a call on its way into nowhere');
$c->cancel;
is(MwClient::word_of($c->result), '57014', '... can be cancelled');
ok(eventually(sub { return attempts('cancelled') eq 'unknown:t'; }), '... and is unknown at its deadline');
money_holds($node, 'over half-open connections');
$node->stop('fast');
log_is_clean($node);
done_testing();
