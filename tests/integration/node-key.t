#!/usr/bin/perl
# node-key.t - what is sealed in the database opens on every node that has the same secret.key
use strict;
use warnings;
use File::Temp qw(tempdir);
use Posthouse;
use Test::More;

my $work = tempdir(CLEANUP => 1);
my $one = Posthouse->start;
my $two = Posthouse->start(database_name => $one->database_name, accounts => 0, conf => { node_name => 'two' });
system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=mail.example.test "
    . "-addext subjectAltName=DNS:mail.example.test -keyout $work/key.pem -out $work/chain.pem 2>/dev/null") == 0 or die 'openssl';

sub subject {
    my ($server) = @_;
    my $port = $server->port('imaps');
    return scalar `openssl s_client -connect 127.0.0.1:$port -servername mail.example.test </dev/null 2>/dev/null | openssl x509 -noout -subject`;
}

$one->cli_ok(qw(certificate add), "$work/chain.pem", "$work/key.pem");
ok(Posthouse::wait_until(5, sub { subject($one) =~ /mail\.example\.test/ }), 'a certificate is used where it was added');
ok(Posthouse::wait_until(10, sub { $two->log =~ /tls\.unusable: .*belongs to another STATE\/secret\.key/ }), 'a node with another key says so');
unlike(subject($two), qr/mail\.example\.test/, 'and goes on with its own');
is($two->stop, 0, 'it stops');
(Posthouse::run(['cp', '-p', $one->state . '/secret.key', $two->state . '/secret.key']))[0] == 0 or die 'cp';
$two->serve;
ok(Posthouse::wait_until(5, sub { subject($two) =~ /mail\.example\.test/ }), 'with the same key it is served there, too');
is($_->stop, 0, 'it stops cleanly') for $one, $two;
done_testing;
