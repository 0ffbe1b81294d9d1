# K5: fast shutdown and restart under load.  It stops within seconds whatever the provider does, and nothing is lost that
# a caller had: an answer that was handed out is the answer for ever.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../lib/perl";
use Test::More;
use Time::HiRes qw(time sleep);
use MwCampaign;
use MwCheck;
use MwClient;

my $c = MwCampaign->new('fast shutdown under load', rounds => [ 5, 50 ], every => 5);
my $node = $c->node;
$c->rounds(sub {
	my ($round) = @_;
	$c->script([ { match => { regex => 'c\d+[05]\]' }, step => { echo => \1, hold => \1 } }, { step => { echo => \1, delay_ms => $c->pick(0, 5, 30) } } ]);
	my @busy = map { $c->client('r' . (1 + $_ % 3)) } 0 .. 15;
	my (@done, @lost);
	my $stop_at = time + 0.5 + rand 1;
	my $stopped;
	$c->drive(\@busy,
		sub {
			my ($i) = @_;
			return if $stopped;
			my $t = 't' . (1 + $i % 3);
			my $id = $c->nonce;
			return [ $c->ask($t, undef, $id), sub {
				my ($r) = @_;
				my $word = MwClient::word_of($r);
				if ($word eq $c->prompt($t, $id)) { push @done, [ $t, $id ]; }
				else
				{
					# the gateway may have heard of the stop before its caller has, and says what came of the call
					my $told = $word eq 'MW402' && $r->{error}{D} =~ /^outcome unknown: .* the gateway was asked to leave/;
					$c->must($word =~ /^(closed|57P0.)$/ || $told, "a caller of a server that stops gets $word: " . ($r->{error} ? $r->{error}{M} : ''));
					push @lost, [ $t, $id ];
				}
			} ];
		},
		lost => sub { return; },
		tick => sub {
			return if $stopped || time < $stop_at;
			$stopped = 1;
			my $t = time;
			$node->stop('fast');
			my $took = time - $t;
			$c->took('until stopped', $took);
			$node->start;
			$c->must($c->at_once($took, 15), sprintf 'a fast stop took %.1f s', $took);
		});
	$c->script({});
	$c->count('answers handed out' => scalar @done);
	$c->count('calls interrupted' => scalar @lost);
	my $before = $c->up->count->{requests};
	my %role = map { ("t$_" => $c->client("r$_")) } 1 .. 3;
	for my $call (@done)
	{
		my ($t, $id) = @$call;
		my $word = $role{$t}->word($c->ask($t, undef, $id));
		$c->must($word eq $c->prompt($t, $id), "an answer that was handed out is gone: $word");
	}
	$c->must($c->up->count->{requests} == $before, 'V3: an answer that was handed out is sent again');
	$c->count('sent again after resend_unknown' => $c->persist('r' . substr($_->[0], 1), $_->[0], undef, $_->[1])) for @lost;
	$c->sound('after a fast shutdown');
	return;
});
$c->finish;
