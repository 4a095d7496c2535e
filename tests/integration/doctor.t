#!/usr/bin/perl
# doctor.t - what is wrong, with the line to paste: the server's checks and a domain's records
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use Posthouse;
use Posthouse::Dns;

my $dns = Posthouse::Dns->start(
    'example.test MX 10 mail.example.test',
    'example.test TXT some other text',
    'example.test TXT v=spf1 mx -all',
    '_dmarc.example.test TXT v=DMARC1; p=none',
    '_imaps._tcp.example.test SRV 0 1 993 mail.example.test',
    '_submissions._tcp.example.test SRV 0 1 465 other.example.org',
    'mail.example.test A 192.0.2.25',
    'mail.example.test AAAA 2001:db8::25',
    '25.2.0.192.in-addr.arpa PTR mail.example.test',
    'twice.test TXT v=spf1 mx -all',
    'twice.test TXT v=spf1 a -all',
    'twice.test MX 5 mx.elsewhere.example',
    '5.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa PTR wrong.example.org',
);
my $server = Posthouse->start(settings => { 'dns.servers' => $dns->address, 'server.host_name' => 'mail.example.test' });

sub records {
    my ($domain) = @_;
    my $answer = decode_json($server->cli_ok('domain', 'records', $domain, '--json'));
    return map { ("$_->{type} $_->{name}" => $_) } @{ $answer->{answer}{items} };
}

my %record = records('example.test');
my %want = (
    'MX example.test' => 'ok', 'TXT example.test' => 'ok', 'TXT _dmarc.example.test' => 'ok', 'A mail.example.test' => 'ok',
    'AAAA mail.example.test' => 'ok', 'PTR 25.2.0.192.in-addr.arpa' => 'ok', 'SRV _imaps._tcp.example.test' => 'ok',
    'SRV _submissions._tcp.example.test' => 'wrong',
    'PTR 5.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa' => 'wrong',
);
is($record{$_}{state}, $want{$_}, $_) for sort keys %want;
is(scalar keys %record, scalar keys %want, 'and nothing else');
is($record{'SRV _submissions._tcp.example.test'}{line}, '_submissions._tcp.example.test. IN SRV 0 1 465 mail.example.test.', 'a line to paste');
like($record{'TXT example.test'}{found}, qr/v=spf1 mx -all/, 'what was found');

$server->cli_ok(qw(domain add twice.test));
%record = records('twice.test');
is($record{'MX twice.test'}{state}, 'wrong', 'mail that goes elsewhere');
is($record{'TXT twice.test'}{state}, 'wrong', 'SPF twice');
is($record{'TXT _dmarc.twice.test'}{state}, 'missing', 'no DMARC');
is($record{'SRV _imaps._tcp.twice.test'}{state}, 'optional', 'no SRV');

my ($status, $text) = $server->cli('doctor');
is($status, 1, 'something is wrong');
like($text, qr/^bad +What is kept over a power cut: PostgreSQL runs with fsync = off, full_page_writes = off\.$/m, 'a database that forgets');
like($text, qr/^missing +TXT _dmarc\.twice\.test\n[^\n]*\n +_dmarc\.twice\.test\. IN TXT "v=DMARC1; p=none; rua=mailto:postmaster\@twice\.test"$/m, 'the line in its text');
like($text, qr/^\d+ to mend, \d+ to look at\.$/m, 'the sum');
($status, $text) = $server->cli(qw(doctor nothere.test));
is($status, 1, 'a domain that is not ours');
like($text, qr/no domain/, 'said so');

# Nobody answers: that is not "missing".
$dns->stop;
%record = records('twice.test');
is($record{'TXT _dmarc.twice.test'}{state}, 'unknown', 'could not ask');
($status, $text) = $server->cli(qw(config set dns.servers nonsense));
isnt(($server->cli(qw(domain records twice.test)))[0], 0, 'a server that is no address');

is($server->stop, 0, 'it stops cleanly');
done_testing;
