#!/usr/bin/perl
# live.t - live views: who is connected, and cutting one; the log as it is written; certificates, keys, tenants
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('live', prepare => sub {
    my ($server) = @_;
    # A certificate to add: one of the server's own kind, for another name.
    my $dir = $server->state . '-certificate';
    mkdir $dir or die("$dir: $!\n");
    my ($status, $text) = Posthouse::run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
        '-nodes', '-days', '10', '-subj', '/CN=mail.example.test', '-addext', 'subjectAltName=DNS:mail.example.test',
        '-keyout', "$dir/key.pem", '-out', "$dir/cert.pem"]);
    die("openssl: $text") if $status;
});
