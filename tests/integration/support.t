#!/usr/bin/perl
# support.t - the clients and the wire that the other tests rely on notice what they should
use strict;
use warnings;
use Test::More;
use IO::Socket::INET;
use Posthouse::Client;
use Posthouse::Proxy;
use Time::HiRes qw(time);

# A server that answers each line with itself.
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "listen: $!";
my $server = fork // die "fork: $!";
if ($server == 0) {
    local $SIG{CHLD} = 'IGNORE';
    while (my $client = $listener->accept) {
        next if fork;
        $client->autoflush(1);
        print $client "220-two\r\n220 lines\r\n";
        print $client "250 $_" while <$client>;
        exit 0;
    }
}

my $proxy = Posthouse::Proxy->start(to => '127.0.0.1:' . $listener->sockport);
my $connect = sub { Posthouse::Client::Smtp->connect(port => $proxy->port, seconds => 1) };

my $client = $connect->();
is($client->{greeting}, "220-two\n220 lines", 'a reply of two lines is read whole');
is($client->cmd('one'), '250 one', 'a line goes there and back');

$proxy->delay(0.2);
my $before = time;
is($client->cmd('two'), '250 two', 'a slow wire still carries');
cmp_ok(time - $before, '>=', 0.4, 'and takes its time, both ways');

$proxy->mend;
$proxy->hold;
ok(!eval { $client->cmd('three') }, 'a wire that swallows ends in a deadline');
like($@, qr/nothing came in 1 s/, 'which says so');
$proxy->mend;
is($client->reply, '250 three', 'and nothing was lost');

$proxy->garble(4);
isnt(eval { $client->cmd('x' x 400) } // '', '250 ' . 'x' x 400, 'a garbling wire changes what comes back');

$proxy->mend;
$client = $connect->();
$proxy->cut;
ok($client->is_closed, 'a cut ends the connection');
ok(!eval { $connect->() }, 'and no new one is taken');

$proxy->mend;
$client = $connect->();
$proxy->cut_after(10);
is($client->cmd('short'), '250 short', 'a wire that breaks later carries until then');
ok(!eval { $client->cmd('longer than that') }, 'then it breaks');

kill TERM => $server;
waitpid $server, 0;
done_testing;
