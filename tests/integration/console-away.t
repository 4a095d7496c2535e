#!/usr/bin/perl
# console-away.t - the console while the database is away: it answers, says so, and lets operators in
use strict;
use warnings;
use Posthouse;
use Posthouse::Console;
use Test::More;

my $server = Posthouse->start(database => 'managed');
$server->cli_ok([qw(operator add admin --password-stdin)], "$Posthouse::password\n");
$server->cli_ok(qw(site add www.example.test));
my $before = Posthouse::Console->new($server);
$before->login('admin');
is($before->call(GET => '/domains')->{status}, 200, 'before');

# Killed, and kept from starting again by moving its data.
my $data = $server->state . '/postgres/data';
my $postmaster = $server->postmaster;
rename $data, "$data.away" or die "rename: $!";
kill KILL => $postmaster;
ok(Posthouse::wait_until(10, sub { !Posthouse::is_alive($postmaster) }), 'the database is away');

subtest 'the database is away' => sub {
    my $status = $before->call(GET => '/status');
    is($status->{status}, 200, 'who was logged in still is');
    is($before->call(GET => '/log')->{status}, 200, 'the log is there');
    is($before->call(GET => '/settings')->{status}, 200, 'and the settings');
    my $domains = $before->call(GET => '/domains');
    is($domains->{status}, 503, 'what needs the database says so') or diag($domains->{content});
    like($domains->{body}{code}, qr/^(unavailable|temporary)$/, 'and does not say no');
    my $login = Posthouse::Console->new($server)->login('admin');
    is($login->{status}, 503, 'a password cannot be checked');
    my ($token) = $server->cli_ok('console-link') =~ m{#/link/([\w-]+)};
    my $linked = Posthouse::Console->new($server);
    my $entered = $linked->call(POST => '/session/link', {token => $token});
    is($entered->{status}, 200, 'a link lets an operator in');
    $linked->enter($entered);
    is($linked->call(GET => '/checks')->{status}, 200, 'who can look at the checks');
    my ($database) = grep { $_->{name} eq 'database' } @{ $linked->call(GET => '/checks')->{body}{items} };
    is($database->{state}, 'bad', 'which say it');
    is(Posthouse::Console->new($server)->call(POST => '/session/link', {token => $token})->{status}, 401, 'a link works once');
    my $site = `curl -s --max-time 5 -H 'Host: www.example.test' http://localhost:@{[$server->port('http')]}/`;
    like($site, qr/This site is ready/, 'static sites are served');
};

rename "$data.away", $data or die "rename: $!";
ok($server->wait_ready(60), 'the database is back');
subtest 'and back' => sub {
    is($before->call(GET => '/domains')->{status}, 200, 'the session goes on');
    is(Posthouse::Console->new($server)->login('admin')->{status}, 200, 'and others log in');
};

is($server->stop, 0, 'it stops cleanly');
rename $data, "$data.away" or die "rename: $!";
mkdir $data;
Posthouse::spew("$data/PG_VERSION", "15\n");
Posthouse::run(['chown', '-R', (stat "$data.away")[4] . ':' . (stat _)[5], $data]);
subtest 'a start without the database' => sub {
    ok($server->serve(seconds => 90), 'it starts');
    my ($token) = $server->cli_ok('console-link') =~ m{#/link/([\w-]+)};
    my $linked = Posthouse::Console->new($server);
    is($linked->call(POST => '/session/link', {token => $token})->{status}, 200, 'the console answers');
    my $site = `curl -s --max-time 5 -H 'Host: www.example.test' http://localhost:@{[$server->port('http')]}/`;
    like($site, qr/This site is ready/, 'static sites are served from the sealed copy');
};

done_testing;
