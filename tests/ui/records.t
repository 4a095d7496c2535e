#!/usr/bin/perl
# records.t - what the DNS says of a domain: good, missing, wrong, and "could not ask", which is none of them
use strict;
use warnings;
use Posthouse::Browser;
use Posthouse::Dns;

my $dns = Posthouse::Dns->start('example.test MX 10 mail.example.test', 'example.test TXT v=spf1 mx -all',
    'example.test TXT another text', 'mail.example.test A 192.0.2.25', '_imaps._tcp.example.test SRV 0 1 993 imap.example.org');
$ENV{PH_UI_DNS_PID} = $dns->{pid};
Posthouse::Browser->run('records', settings => { 'dns.servers' => $dns->address, 'server.host_name' => 'mail.example.test' });
