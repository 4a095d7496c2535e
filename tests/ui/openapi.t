#!/usr/bin/perl
# openapi.t - the description that the types are made from is the one that the server gives
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP;
use Posthouse;
use Test::More;

my $server = Posthouse->start(accounts => 0);
$server->cli_ok([qw(operator add admin --password-stdin)], "lamp-post-orchard-9\n");
my $jar = $server->state . '.jar';
my @curl = ('curl', '-sS', '--fail-with-body', '--cacert', $server->ca_file);
my $url = 'https://localhost:' . $server->port('console') . '/api/v1';
my ($status) = Posthouse::run([@curl, '-c', $jar, '-H', 'Content-Type: application/json',
    '-d', '{"login":"admin","password":"lamp-post-orchard-9"}', "$url/session"]);
is($status, 0, 'the operator logs in');
($status, my $text) = Posthouse::run([@curl, '-b', $jar, "$url/openapi.json"]);
unlink $jar;
is($status, 0, 'the description is given');

my $json = JSON::PP->new->canonical->pretty;
my $file = abs_path(dirname(__FILE__) . '/../..') . '/admin-ui/openapi.json';
my $given = decode_json($text);
my $kept = decode_json(Posthouse::slurp($file));
delete $_->{info}{version} for $given, $kept;
ok($json->encode($given) eq $json->encode($kept), 'and is the one in admin-ui/openapi.json')
    or diag("write the server's answer there, run `node admin-ui/generate-types.mjs`, and see what tsc says");
done_testing;
