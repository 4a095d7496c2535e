#!/usr/bin/perl
# lists.t - lists page, search and filter at the server; CSV; many at once; what a tenant's admin may see
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('lists', prepare => sub {
    my ($server) = @_;
    $server->cli_ok(qw(tenant add harbour));
    $server->cli_ok(qw(domain add harbour.example --tenant harbour));
    $server->cli_ok([qw(operator add pilot --tenant harbour --password-stdin)], "$Posthouse::Browser::operator_password\n");
    $server->cli_ok('user', 'add', sprintf('person%03d@harbour.example', $_), '--name', "Person $_") for 1 .. 60;
    $server->cli_ok('user', 'add', 'formula@example.test', '--name', '=1+1');
});
