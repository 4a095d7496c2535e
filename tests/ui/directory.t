#!/usr/bin/perl
# directory.t - contacts; upstreams and how their servers are, before a real slapd; what a tenant's admin may see
use strict;
use warnings;
use Posthouse::Browser;
use Posthouse::Slapd;
use Test::More;

plan(skip_all => 'slapd is not installed') unless Posthouse::Slapd::is_there();

my $slapd = Posthouse::Slapd->start(suffix => 'dc=corp,dc=test', entries => <<'LDIF');
dn: dc=corp,dc=test
objectClass: top
objectClass: domain
dc: corp

dn: uid=jane,dc=corp,dc=test
objectClass: inetOrgPerson
uid: jane
cn: Jane Example
sn: Example
LDIF
$ENV{PH_UI_LDAP_URL} = $slapd->url;
Posthouse::Browser->run('directory', prepare => sub {
    my ($server) = @_;
    $server->cli_ok(qw(tenant add harbour));
    $server->cli_ok(qw(domain add harbour.example --tenant harbour));
    $server->cli_ok([qw(operator add pilot --tenant harbour --password-stdin)], "$Posthouse::Browser::operator_password\n");
    $server->cli_ok(qw(contact add harbour.example), 'Harbour Master', qw(--mail master@port.example));
    $server->cli_ok('contact', 'add', 'example.test', sprintf('Person %03d', $_)) for 1 .. 55;
});
