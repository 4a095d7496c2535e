#!/usr/bin/perl
# sites.t - sites, their names and routes, and certificates by name, as an administrator makes them
# suite: core
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use Posthouse;
use Test::More;

my $server = Posthouse->start(accounts => 0);
my ($http, $https) = map { $server->port($_) } qw(http https);
my $work = tempdir(CLEANUP => 1);

sub fails {
    my ($command, $pattern, $name) = @_;
    my ($status, $text) = $server->cli(@$command);
    isnt($status, 0, $name);
    like($text, $pattern, 'and says why');
}

# What a name answers: status, headers and body as curl shows them.
sub get {
    my ($name, $path, @options) = @_;
    return scalar `curl -s -i --max-time 10 --resolve $name:$http:127.0.0.1 @options 'http://$name:$http$path'`;
}

# The names of the certificate that a client asking for this name is given.
sub certificate_names {
    my ($name, $port) = @_;
    my $text = `openssl s_client -connect 127.0.0.1:$port @{[defined $name ? "-servername $name" : '-noservername']} </dev/null 2>/dev/null | openssl x509 -noout -ext subjectAltName`;
    return join ' ', sort $text =~ /DNS:([^,\s]+)/g;
}

subtest 'sites' => sub {
    like(get('www.example.test', '/'), qr/^HTTP\/1\.1 404/, 'nobody has this name');
    my $made = decode_json($server->cli_ok(qw(--json site add www.example.test --names), 'example.test, *.branch.example.test'));
    my $root = $made->{answer}{root};
    like(get('www.example.test', '/'), qr/^HTTP\/1\.1 200.*This site is ready/s, 'a new site shows something');
    like(get('example.test', '/'), qr/^HTTP\/1\.1 200/, 'under its other name');
    like(get('north.branch.example.test', '/'), qr/^HTTP\/1\.1 200/, 'and under a wildcard');
    like(get('a.b.branch.example.test', '/'), qr/^HTTP\/1\.1 404/, 'which stands for one label');
    fails([qw(site add www.example.test)], qr/exists/, 'a site twice');
    fails([qw(site add other.test --names example.test)], qr/belongs to another site/, 'a name of another');
    fails([qw(site add), 'no host!'], qr/not a host name/, 'no host name');
    fails([qw(site add relative.test --root some/where)], qr/no folder/, 'a folder that is none');
    Posthouse::spew("$root/hello.txt", "hello\n");
    like(get('example.test', '/hello.txt'), qr/\n\r?\nhello\n$/, 'a file of it');
    $server->cli_ok(qw(site change www.example.test --names example.test --https-only));
    like(get('example.test', '/hello.txt?x=1'), qr{^HTTP/1\.1 30[18].*\nlocation: https://example\.test(?::\d+)?/hello\.txt\?x=1\r}si, 'https only');
    $server->cli_ok(qw(site change www.example.test --https-only=no));
    like(get('example.test', '/hello.txt'), qr/^HTTP\/1\.1 200/, 'and no more');
    like(get('north.branch.example.test', '/'), qr/^HTTP\/1\.1 404/, 'a name that was given up');
    fails([qw(site change www.example.test --if-version 1)], qr/changed meanwhile/, 'another was faster');
};

subtest 'routes' => sub {
    my ($shown) = decode_json($server->cli_ok(qw(--json site show www.example.test)))->{answer};
    mkdir "$shown->{root}/public" or die "mkdir: $!";
    Posthouse::spew("$shown->{root}/public/page.txt", "public\n");
    $server->cli_ok(qw(route add www.example.test /files static public));
    like(get('example.test', '/files/page.txt'), qr/\n\r?\npublic\n$/, 'a folder below the root');
    $server->cli_ok(qw(route add www.example.test /old redirect), 'https://new.example.org/place');
    like(get('example.test', '/old'), qr{^HTTP/1\.1 30[128].*\nlocation: https://new\.example\.org/place}si, 'a redirect');
    fails([qw(route add www.example.test /old static)], qr/has a route for/, 'a path twice');
    fails([qw(route add www.example.test old static)], qr/no path/, 'no path');
    fails([qw(route add www.example.test /.hidden static)], qr/no path/, 'a hidden one');
    fails([qw(route add www.example.test /x static ../..)], qr/below the site's root/, 'out of the root');
    fails([qw(route add www.example.test /x lua)], qr/needs a target/, 'a script without its name');
    my ($old) = grep { $_->{prefix} eq '/old' } @{ decode_json($server->cli_ok(qw(--json route list www.example.test)))->{answer}{items} };
    $server->cli_ok(qw(route change www.example.test), $old->{id}, '--target', '/files/page.txt');
    like(get('example.test', '/old', '-L'), qr/public\n$/, 'changed');
    $server->cli_ok(qw(route remove www.example.test), $old->{id});
    like(get('example.test', '/old'), qr/^HTTP\/1\.1 404/, 'removed');
};

subtest 'certificates by name' => sub {
    my $default = certificate_names(undef, $https);
    for my $name ('www.example.test', '*.cloud.test') {
        my $file = $name =~ s/\*/any/r;
        system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=$name' -addext 'subjectAltName=DNS:$name' "
            . "-keyout $work/$file.key -out $work/$file.pem 2>/dev/null") == 0 or die 'openssl req';
        $server->cli_ok(qw(certificate add), "$work/$file.pem", "$work/$file.key");
    }
    is(certificate_names('www.example.test', $https), 'www.example.test', 'its own name');
    is(certificate_names('WWW.Example.TEST', $https), 'www.example.test', 'in any case');
    is(certificate_names('a.cloud.test', $https), '*.cloud.test', 'a wildcard');
    is(certificate_names('cloud.test', $https), $default, 'which does not stand for nothing');
    is(certificate_names('unknown.test', $https), $default, 'others get the default one');
    is(certificate_names('www.example.test', $server->port('imaps')), 'www.example.test', 'mail, too');
    fails(['certificate', 'add', "$work/www.example.test.pem", "$work/any.cloud.test.key"], qr/belongs to another certificate/, 'a key of another');
    fails(['certificate', 'add', "$work/any.cloud.test.key", "$work/any.cloud.test.key"], qr/cannot be read/, 'no certificate');
    my $key = Posthouse::slurp("$work/www.example.test.key");
    my ($line) = (split /\n/, $key)[1];
    unlike($server->sql("SELECT encode(sealed_key, 'escape') FROM certificate"), qr/\Q$line\E|PRIVATE KEY/, 'the database holds no usable key');
    unlike(Posthouse::slurp($server->state . '/settings.cache'), qr/PRIVATE KEY/, 'nor does the sealed copy');
    unlike($server->cli_ok(qw(audit list --limit 1000)), qr/\Q$line\E/, 'nor the audit log');
    is($server->stop, 0, 'it stops');
    $server->serve;
    ($http, $https) = map { $server->port($_) } qw(http https);
    is(certificate_names('www.example.test', $https), 'www.example.test', 'after a restart');
    $server->cli_ok(qw(certificate remove www.example.test));
    is(certificate_names('www.example.test', $https), $default, 'removed');
};

$server->cli_ok(qw(site remove www.example.test));
like(get('example.test', '/'), qr/^HTTP\/1\.1 404/, 'a site that is no more');
done_testing;
