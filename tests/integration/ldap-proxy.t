#!/usr/bin/perl
# ldap-proxy.t - directories elsewhere, asked through ours: real slapd behind, ldap-utils in front
# suite: core
use strict;
use warnings;
use IO::Socket::INET ();
use JSON::PP ();
use POSIX ();
use Test::More;
use Posthouse;
use Posthouse::Console;
use Posthouse::Ldap;
BEGIN { Posthouse::Client::Ldap->import(qw(ber integer text present equal message search_op)) }
use Posthouse::Proxy;
use Posthouse::Slapd;
use Time::HiRes qw(sleep time);

plan skip_all => 'slapd is not installed' unless Posthouse::Slapd::is_there();

my $suffix = 'dc=corp,dc=test';
my $jane = "uid=jane,ou=people,$suffix";
my $joe = "uid=joe,ou=people,$suffix";
my @jane = ($jane, 'jane-secret');
my @joe = ($joe, 'joe-secret');
my @alice = ('mail=alice@example.test,ou=people,dc=example,dc=test', $Posthouse::password);

my $entries = <<"LDIF";
dn: $suffix
objectClass: top
objectClass: domain
dc: corp

dn: ou=people,$suffix
objectClass: organizationalUnit
ou: people

dn: ou=private,$suffix
objectClass: organizationalUnit
ou: private

dn: cn=plan,ou=private,$suffix
objectClass: device
cn: plan

dn: cn=service,$suffix
objectClass: simpleSecurityObject
objectClass: organizationalRole
cn: service
userPassword: service
authzTo: dn.regex:^uid=[^,]+,ou=people,$suffix\$

LDIF
for my $name (qw(jane joe), map { "u$_" } 0 .. 299) {
    $entries .= <<"LDIF";
dn: uid=$name,ou=people,$suffix
objectClass: inetOrgPerson
uid: $name
cn: \u$name Example
sn: Example
mail: $name\@corp.test
description: @{[ 'so that answers have some size ' x 60 ]}
userPassword: $name-secret

LDIF
}

my $rules = <<"RULES";
access to attrs=userPassword by self write by anonymous auth by * none
access to dn.subtree="ou=private,$suffix" by dn.exact="$jane" read by dn.exact="cn=service,$suffix" read by * none
access to dn.base="$suffix" by * read
access to * by self write by users read by anonymous auth
RULES

sub slapd {
    return Posthouse::Slapd->start(suffix => $suffix, entries => $entries, config => $rules,
        global => "authz-policy to\n", @_);
}

# Two servers, each behind a wire that can be cut.
my $a = slapd(tls => 1);
my $b = slapd();
my $wire_a = Posthouse::Proxy->start(to => '127.0.0.1:' . $a->port);
my $wire_b = Posthouse::Proxy->start(to => '127.0.0.1:' . $b->port);
my ($url_a, $url_b) = map { 'ldap://127.0.0.1:' . $_->port } $wire_a, $wire_b;

my $server = Posthouse->start(settings => { 'identity.plaintext.allow_loopback' => 'true' });
my $url = 'ldap://127.0.0.1:' . $server->port('ldap');

# One of the ldap-utils; as whom: nobody, or DN and password. Its status, and what it says.
sub ldap {
    my ($program, $who, @arguments) = @_;
    my @bind = $who ? ('-D', $who->[0], '-w', $who->[1]) : ();
    my @form = $program eq 'ldapsearch' ? ('-LLL', '-o', 'ldif-wrap=no') : ();
    return Posthouse::run(['timeout', 30, $program, @form, '-x', '-H', $url, @bind, @arguments]);
}
sub status_of { (ldap(@_))[0] }
sub text_of { (ldap(@_))[1] }
sub dns { scalar(() = $_[0] =~ /^dn: /mg) }

sub modify {
    my ($who, $dn, $title) = @_;
    my ($status) = Posthouse::run(['ldapmodify', '-x', '-H', $url, '-D', $who->[0], '-w', $who->[1]],
        "dn: $dn\nchangetype: modify\nreplace: title\ntitle: $title\n\n");
    return $status;
}

sub upstream {
    my ($verb, @arguments) = @_;
    return $server->cli_ok('upstream', $verb, 'corp', @arguments);
}

# What `ldap status` says: of each server by its URL, and of all.
sub health {
    my $answer = JSON::PP::decode_json($server->cli_ok(qw(--json ldap status)))->{answer};
    return { all => $answer, map { $_->{url} => $_ } @{ $answer->{items} } };
}

# A client with several requests at once.
package Many {
    use parent -norequire, 'Posthouse::Client::Ldap';
    BEGIN { Posthouse::Client::Ldap->import(qw(integer message present search_op)) }

    # Options: base, scope, filter, limit, attributes.
    sub put {
        my ($self, $id, %option) = @_;
        return $self->send(message($id, search_op($option{base} // $suffix, $option{scope} // 2,
            $option{filter} // present('objectClass'), $option{limit}, @{ $option{attributes} // [] })));
    }

    sub drop { $_[0]->send(message($_[1], integer($_[2], 0x50))) }

    # All messages of one request; those of others are kept for their turn. An empty list: it did not end.
    sub get {
        my ($self, $id, $seconds) = @_;
        local $self->{seconds} = $seconds // 10;
        $self->{kept} //= [];
        my @found = grep { $_->{id} == $id } @{ $self->{kept} };
        $self->{kept} = [grep { $_->{id} != $id } @{ $self->{kept} }];
        until (@found && defined $found[-1]{code}) {
            my $answer = $self->answer // return;
            push @{ $answer->{id} == $id ? \@found : $self->{kept} }, $answer;
        }
        return @found;
    }
}

sub client {
    my ($who) = @_;
    my $client = Many->connect(port => $server->port('ldap'));
    $client->{id} = 1000;
    is($client->bind(@$who), 0, 'a client logs in') if $who;
    return $client;
}

# Asks for uNUMBER; true when the answer is whole.
sub ask {
    my ($client, $id, $number) = @_;
    $number //= $id;
    $client->put($id, filter => equal('uid', "u$number"), attributes => ['mail']);
    return is_whole($number, $client->get($id, 8));
}

sub is_whole {
    my ($number, @answer) = @_;
    return 0 unless @answer == 2 && $answer[1]{code} == 0;
    my (undef, $dn) = Posthouse::Client::Ldap::element($answer[0]{op});
    return $dn eq "uid=u$number,ou=people,$suffix" ? 1 : 0;
}

subtest 'upstreams are managed' => sub {
    my @add = qw(upstream add corp);
    isnt(($server->cli(@add, 'not a name', 'ldap://127.0.0.1'))[0], 0, 'the suffix is a name');
    like(($server->cli(@add, $suffix, 'http://127.0.0.1'))[1], qr/ldap:\/\/HOST/, 'servers have URLs');
    like(($server->cli(@add, $suffix, 'ldap://127.0.0.1', '--identity', 'for-client'))[1], qr/bind_dn/,
        'who asks for others is somebody');
    upstream('add', $suffix, $url_a, '--timeout-ms', 2000);
    like($server->cli_ok(qw(upstream list)), qr/corp.*\Q$suffix\E/, 'it is listed');
    like(($server->cli(qw(upstream add again), 'DC=Corp, DC=test', 'ldap://127.0.0.1'))[1],
        qr/upstream "corp" answers/, 'one upstream for a name');
    is(health()->{$url_a}{state}, 'idle', 'nobody asked it yet');
    like($server->cli_ok(qw(audit list)), qr/upstream\.add/, 'the audit log knows it');
};

subtest 'upstreams in the API' => sub {
    $server->cli_ok([qw(operator add admin --password-stdin)], "$Posthouse::password\n");
    my $admin = Posthouse::Console->new($server);
    $admin->login('admin');
    my $list = $admin->call(GET => '/directory/upstreams');
    is($list->{status}, 200, 'the list');
    is_deeply([map { $_->{suffix} } @{ $list->{body}{items} }], [$suffix], 'has what there is');
    my $made = $admin->call(POST => '/directory/upstreams', { name => 'other', suffix => 'dc=other', identity => 'for-client',
        urls => 'ldaps://a.example,ldap://[2001:db8::1]:3389', bind_dn => 'cn=x,dc=other', password => 'hidden-7', cache_s => 60 });
    is($made->{status}, 200, 'made') or diag $made->{content};
    my $one = $admin->call(GET => '/directory/upstreams/other')->{body};
    is_deeply([@$one{qw(urls identity cache_s read_only connections timeout_ms)}],
        ['ldaps://a.example ldap://[2001:db8::1]:3389', 'for-client', 60, JSON::PP::true, 4, 5000], 'as it was said, and defaults');
    unlike($admin->call(GET => '/directory/upstreams/other')->{content}, qr/hidden-7/, 'its password is not shown');
    is($admin->call(PATCH => '/directory/upstreams/other', { cache_s => 5, if_version => $one->{version} })->{status}, 200, 'changed');
    is($admin->call(PATCH => '/directory/upstreams/other', { cache_s => 6, if_version => $one->{version} })->{status}, 409,
        'not when it is another version');
    my $wrong = $admin->call(PATCH => '/directory/upstreams/other', { suffix => 'nonsense' });
    is("$wrong->{status} $wrong->{body}{argument}", '400 suffix', 'the field that is wrong is named');
    $wrong = $admin->call(PATCH => '/directory/upstreams/other', { timeout_ms => 1 });
    is("$wrong->{status} $wrong->{body}{argument}", '400 timeout_ms', 'limits hold');
    my $status = $admin->call(GET => '/directory/status')->{body};
    is(scalar @{ $status->{items} }, 3, 'the status knows all servers');
    is($admin->call(POST => '/directory/flush', {})->{status}, 200, 'the caches are emptied');
    is($admin->call(DELETE => '/directory/upstreams/other')->{status}, 200, 'removed');
    is($admin->call(GET => '/directory/upstreams/other')->{status}, 404, 'and gone');
    like($admin->call(GET => '/openapi.json')->{content}, qr{"/directory/upstreams/\{name\}"}, 'all of it is described');
    my $user = Posthouse::Console->new($server);
    $user->login('alice@example.test');
    is($user->call(GET => '/directory/upstreams')->{status}, 403, 'for operators only');
    unlike($server->log, qr/hidden-7/, 'the password is in no log');
};

subtest 'as the client' => sub {
    my ($status, $text) = ldap('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)', 'mail');
    is($status, 0, 'a search') or diag $text;
    is($text, "dn: uid=u7,ou=people,$suffix\nmail: u7\@corp.test\n\n", 'gives what the directory gives');
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=*)')), 302, 'large answers are whole');
    is(dns(text_of('ldapsearch', \@jane, '-b', "ou=private,$suffix")), 2, 'she sees what is hers to see');
    is(status_of('ldapsearch', \@joe, '-b', "ou=private,$suffix"), 32, 'and he does not');
    is(status_of('ldapsearch', [$jane, 'wrong'], '-b', $suffix), 49, 'a wrong password');
    is(status_of('ldapsearch', ["uid=nobody,ou=people,$suffix", 'x'], '-b', $suffix), 49, 'a name that is nobody');
    is(status_of('ldapsearch', undef, '-b', $suffix), 50, 'nothing without a login');
    is(status_of('ldapsearch', \@alice, '-b', $suffix), 50, 'an account of ours is nobody there');
    like(text_of('ldapwhoami', \@jane), qr/^dn:\Q$jane\E$/m, 'who am I');
    is(status_of('ldapcompare', \@jane, "uid=u7,ou=people,$suffix", 'sn:Example'), 6, 'compare: true');
    is(status_of('ldapcompare', \@jane, "uid=u7,ou=people,$suffix", 'sn:Other'), 5, 'compare: false');
    ($status, $text) = ldap('ldapsearch', \@jane, '-b', "ou=none,$suffix");
    is($status, 32, 'not there');
    like($text, qr/Matched DN: \Q$suffix\E/, 'with how far there is something');
    ($status, $text) = ldap('ldapsearch', \@jane, '-b', $suffix, '-z', 5, '(uid=u*)');
    is("$status " . dns($text), '4 5', 'limits are the directory\'s');
    is(health()->{$url_a}{state}, 'up', 'the server is up');
};

subtest 'changes' => sub {
    is(modify(\@jane, $jane, 'Dr.'), 53, 'refused where it is read only');
    upstream('change', '--read-only=no');
    is(modify(\@jane, $jane, 'Dr.'), 0, 'she may change herself');
    like(($a->search('-b', $jane))[1], qr/title: Dr\./, 'it arrived');
    is(modify(\@joe, $jane, 'Mrs.'), 50, 'he may not');
    my ($status, $text) = ldap('ldappasswd', \@joe, '-s', 'joe-new');
    is($status, 0, 'a password is changed') or diag $text;
    is(status_of('ldapwhoami', [$joe, 'joe-new']), 0, 'and counts');
    is(status_of('ldapwhoami', \@joe), 49, 'the old one does not');
    is(status_of('ldappasswd', [$joe, 'joe-new'], '-s', 'joe-secret'), 0, 'and changed back');
    ($status) = Posthouse::run(['ldapadd', '-x', '-H', $url, '-D', $jane, '-w', 'jane-secret'],
        "dn: cn=x,$suffix\nobjectClass: device\ncn: x\n\n");
    is($status, 50, 'add: as the directory decides');
    is(status_of('ldapdelete', \@jane, "uid=u299,ou=people,$suffix"), 50, 'delete');
    is(status_of('ldapmodrdn', \@jane, "uid=u298,ou=people,$suffix", 'uid=v'), 50, 'rename');
};

subtest 'anonymous' => sub {
    upstream('change', '--anonymous');
    is(dns(text_of('ldapsearch', undef, '-b', $suffix, '-s', 'base')), 1, 'what the directory shows to everybody');
    is(dns(text_of('ldapsearch', undef, '-b', $suffix, '(uid=u7)')), 0, 'and what it does not');
    upstream('change', '--anonymous=no');
};

subtest 'as the service' => sub {
    $server->cli_ok([qw(upstream change corp --identity service --bind-dn), "cn=service,$suffix", '--password-stdin'],
        "service\n");
    is(dns(text_of('ldapsearch', \@joe, '-b', "ou=private,$suffix")), 2, 'everybody sees what the service sees');
    is(dns(text_of('ldapsearch', \@alice, '-b', $suffix, '(uid=u7)')), 1, 'accounts of ours, too');
    is(modify(\@joe, $joe, 'Mr.'), 0, 'changes are made as oneself');
    is(modify(\@jane, $joe, 'Mister'), 50, 'not as the service');
    is(modify(\@alice, $joe, 'Mister'), 50, 'nor by accounts of ours');
    is(status_of('ldapsearch', \@joe, '-e', "!authzid=dn:$jane", '-b', $suffix), 50, 'nobody asks as somebody else');
    is(status_of('ldapsearch', \@joe, '-e', '!1.2.3.4', '-b', $suffix), 12, 'a critical control that nobody knows');
    is(dns(text_of('ldapsearch', \@joe, '-e', '1.2.3.4', '-b', $suffix, '(uid=u7)')), 1, 'another one is left out');
    is(dns(text_of('ldapsearch', \@joe, '-e', '1.2.3.4', '-M', '-b', $suffix, '(uid=u7)')), 1, 'and those beside it are not');
    is(status_of('ldapsearch', \@joe, '-MM', '-b', $suffix, '(uid=u7)'), 0, 'one that is known may be critical');
    my $bad = ber(0x30, text('1.3.6.1.1.12') . ber(0x01, "\xff") . text("\xa0\x84\xff\xff\xff\xff"));
    my $hostile = client(\@joe);
    $hostile->request(search_op($suffix, 2, present('uid')), ber(0xa0, $bad));
    is($hostile->answer->{code}, 2, 'a value for which the directory would end the connection of all');
    is(status_of('ldapsearch', \@joe, '-e', '!assert=(uid=u7)', '-b', "uid=u7,ou=people,$suffix", '-s', 'base'), 0, 'a good one');
};

subtest 'for the client' => sub {
    upstream('change', '--identity', 'for-client');
    is(dns(text_of('ldapsearch', \@jane, '-b', "ou=private,$suffix")), 2, 'she sees what is hers to see');
    is(status_of('ldapsearch', \@joe, '-b', "ou=private,$suffix"), 32, 'and he does not');
    is(dns(text_of('ldapsearch', \@joe, '-E', 'pr=100/noprompt', '-b', $suffix, '(uid=u*)')), 300,
        'controls of theirs stand beside ours');
    is(modify(\@joe, $joe, 'Prof.'), 0, 'changes are his');
    is(modify(\@jane, $joe, 'Mister'), 50, 'not hers');
    is(status_of('ldapsearch', \@joe, '-e', "!authzid=dn:$jane", '-b', $suffix), 50, 'nobody asks as somebody else');
    is(dns(text_of('ldapsearch', \@joe, '-e', '1.2.3.4', '-b', $suffix, '(uid=u7)')), 1, 'an unknown control is left out');
    upstream('change', '--identity', 'service');
};

subtest 'pages' => sub {
    is(dns(text_of('ldapsearch', \@joe, '-E', 'pr=50/noprompt', '-b', $suffix, '(uid=u*)')), 300, 'all of them');
    like($a->log, qr/nentries=50\b/, 'page by page');
    my ($status, $sorted) = ldap('ldapsearch', \@joe, '-E', 'sss=-uid:caseIgnoreOrderingMatch', '-b', $suffix, '(uid=u29*)', 'uid');
    my @uids = $sorted =~ /^uid: (.*)$/mg;
    is("@uids", join(' ', reverse sort @uids), 'sorted by the directory');
    is(scalar @uids, 11, 'all of them') or diag "$status $sorted";
};

subtest 'a search that waits for changes' => sub {
    # Longer than a request may take; ended by the client.
    my $pid = open my $waiting, '-|', 'timeout', 6, 'ldapsearch', '-LLL', '-x', '-H', $url, '-D', $jane, '-w', 'jane-secret',
        '-E', 'sync=rp', '-b', $joe, '-s', 'base' or die "ldapsearch: $!";
    sleep 3;
    is(modify(\@joe, $joe, 'Changed meanwhile'), 0, 'a change');
    my $text = do { local $/; <$waiting> };
    close $waiting;
    is(dns($text), 2, 'the entry comes, and comes again');
    like($text, qr/title: Changed meanwhile/, 'as it is now');
    ok(Posthouse::wait_until(5, sub { health()->{$url_a}{in_flight} == 0 }), 'it ends with its client');
};

subtest 'several at once, abandoned, and broken' => sub {
    my $ldap = client(\@jane);
    $ldap->put($_, filter => equal('uid', "u$_"), attributes => ['mail']) for 1 .. 50;
    is(scalar(grep { is_whole($_, $ldap->get($_)) } 1 .. 50), 50, 'fifty at once, each has its own answer');

    my $other = client(\@joe);
    my $head = text($suffix) . integer(2, 0x0a) . integer(0, 0x0a) . integer(0) . integer(0) . "\x01\x01\x00";
    my $deep = present('cn');
    $deep = ber(0xa2, $deep) for 1 .. 5000;
    my @broken = (
        'a filter that is none' => [ber(0x63, $head . ber(0xaf, '') . ber(0x30))],
        'a filter cut short' => [ber(0x63, $head . "\xa3\x20\x04\x01c" . ber(0x30))],
        'a search without attributes' => [ber(0x63, $head . present('cn'))],
        'a control that is none' =>
            [ber(0x63, $head . present('cn') . ber(0x30)), ber(0xa0, ber(0x30, integer(1)))],
        'a filter 5,000 deep' => [ber(0x63, $head . $deep . ber(0x30))],
        'a modify without values' => [ber(0x66, text($jane) . ber(0x30, ber(0x30, integer(0, 0x0a))))],
        'a request that is none' => [ber(0x70, '')],
    );
    my $cut = sub { scalar(() = $a->log =~ / closed \((?!unbind|connection lost)/g) };
    my $before = $cut->();
    while (my ($name, $parts) = splice @broken, 0, 2) {
        my $client = client();
        $client->bind(@jane) == 0 or fail "login before $name";
        $client->send(ber(0x30, integer(1), @$parts));
        my $answer = $client->answer;
        ok(defined $answer && $answer->{code}, "$name is refused");
        ok(ask($other, 7), 'and nobody else notices');
    }
    is($cut->(), $before, 'the directory cut no connection for it');

    $wire_a->delay(0.3);
    $ldap->put(60, filter => equal('uid', 'u60'));
    sleep 0.1;
    $ldap->drop(61, 60);
    $ldap->put(62, filter => equal('uid', 'u62'));
    ok(is_whole(62, $ldap->get(62)), 'behind an abandoned request');
    is(scalar(() = $ldap->get(60, 1)), 0, 'which has no answer');
    ok(Posthouse::wait_until(5, sub { $a->log =~ /ABANDON/ }), 'the directory was told');
    $ldap->put(70);
    $ldap->close;
    sleep 0.5;
    $wire_a->mend;
    ok(ask($other, 8), 'a client that went away takes nobody along');
    is(health()->{$url_a}{in_flight}, 0, 'and leaves nothing under way');
};

subtest 'the cache of answers' => sub {
    upstream('change', '--cache-s', 30);
    my $find = sub { my ($who, $uid, @names) = @_; text_of('ldapsearch', $who, '-b', $suffix, "(uid=$uid)", @names) };
    # Each reactor has its own: one connection keeps to one.
    my $ldap = client(\@jane);
    my $asked = sub { $a->count('(uid=u100)') };
    my $before = $asked->();
    my $search = sub {
        my ($id, %option) = @_;
        $ldap->put($id, filter => equal('uid', 'u100'), %option);
        return join '', map { $_->{op} } $ldap->get($id);
    };
    my $first = $search->(1, attributes => ['mail', 'cn']);
    is($search->(2, attributes => ['mail', 'cn']), $first, 'the same answer');
    is($search->(3, attributes => ['CN', 'mail']), $first, 'whatever the order of attributes');
    is($search->(4, base => uc $suffix, filter => equal('UID', 'u100'), attributes => ['mail', 'cn']), $first,
        'and the case of names');
    is($asked->() - $before, 1, 'the directory was asked once');
    isnt($search->(5, attributes => ['sn']), $first, 'another question has another answer');
    $search->(6, attributes => ['sn'], scope => 1);
    is($asked->() - $before, 3, 'and is asked');
    is(modify(\@jane, $jane, 'Dr.'), 0, 'a change through us');
    is($search->(7, attributes => ['mail', 'cn']), $first, 'and the question again');
    is($asked->() - $before, 4, 'it is asked, and not remembered');
    ok(ask($ldap, 8, 'none-such') == 0 && ask($ldap, 9, 'none-such') == 0, 'what is not there');
    is($a->count('(uid=unone-such)'), 1, 'is kept, too');
    ok(health()->{all}{cached_answers} >= 2, 'they are counted');
    $server->cli_ok(qw(ldap flush));
    $search->(10, attributes => ['mail', 'cn']);
    is($asked->() - $before, 5, 'and forgotten on demand');

    upstream('change', '--cache-s', 1);
    $before = $asked->();
    ok(Posthouse::wait_until(12, sub { sleep 0.2; $search->(11, attributes => ['mail']); $asked->() - $before >= 3 }),
        'after their time they are asked for again');

    upstream('change', '--identity', 'for-client', '--cache-s', 60);
    for my $round (1 .. 4) {
        is(dns(text_of('ldapsearch', \@jane, '-b', "ou=private,$suffix")), 2, 'what she sees');
        is(status_of('ldapsearch', \@joe, '-b', "ou=private,$suffix"), 32, 'is not given to him');
    }
    upstream('change', '--identity', 'service', '--cache-s', 0);
};

subtest 'one question of many' => sub {
    upstream('change', '--cache-s', 60);
    my @clients = map { client() } 1 .. 20;
    $_->bind(@jane) == 0 or fail 'login' for @clients;
    $wire_a->delay(0.3);
    my $before = $a->count('(uid=u200)');
    $_->put(1, filter => equal('uid', 'u200')) for @clients;
    is(scalar(grep { is_whole(200, $_->get(1)) } @clients), 20, 'each has its answer');
    my $asked = $a->count('(uid=u200)') - $before;
    cmp_ok($asked, '<=', 4, 'the directory was asked once for each reactor at most');
    cmp_ok($asked, '>=', 1, 'and at least once');
    $wire_a->mend;
    upstream('change', '--cache-s', 0);
};

subtest 'the cache of binds' => sub {
    upstream('change', '--cache-s', 60);
    my $ldap = client();
    my $binds = sub { scalar(() = $a->log =~ /BIND dn="\Q$joe\E" method/g) };
    my $before = $binds->();
    is($ldap->bind(@joe), 0, 'a bind') for 1 .. 5;
    is($binds->() - $before, 1, 'asked once');
    is($ldap->bind($joe, 'wrong'), 49, 'a wrong password is no');
    is($ldap->bind(@joe), 0, 'and does no harm');
    is($binds->() - $before, 2, 'to what is kept');
    $wire_a->cut;
    is($ldap->bind(@joe), 0, 'with the directory away: from the cache');
    is($ldap->bind($joe, 'wrong'), 52, 'a wrong password: could not ask, never no');
    is($ldap->bind(@jane), 52, 'one that is not kept: could not ask');
    is($ldap->bind(@joe), 0, '"could not ask" changes nothing');
    $wire_a->mend;
    ok(Posthouse::wait_until(15, sub { $ldap->bind(@jane) == 0 }), 'and back');
    is(status_of('ldappasswd', \@joe, '-s', 'joe-new'), 0, 'a password is changed through us');
    is($ldap->bind(@joe), 49, 'the old one counts no more');
    is(status_of('ldappasswd', [$joe, 'joe-new'], '-s', 'joe-secret'), 0, 'and back');
    upstream('change', '--cache-s', 0);
};

subtest 'guessing' => sub {
    my $ldap = client();
    my $before = time;
    is($ldap->bind($joe, "guess $_"), 49, 'no') for 1 .. 4;
    cmp_ok(time - $before, '>', 2, 'each guess takes longer');
    like($server->log, qr/login\.no: login="\Q$joe\E" peer=127\.0\.0\.1 service=ldap/, 'and is in the log');
    $server->set('identity.throttle.login_failures', 3);
    my $asked = () = $a->log =~ /BIND dn="\Q$joe\E" method/g;
    is($ldap->bind(@joe), 49, 'then that name is refused from this address');
    is(scalar(() = $a->log =~ /BIND dn="\Q$joe\E" method/g), $asked, 'without asking');
    is($ldap->bind(@jane), 0, 'others are not');
    $server->set('identity.throttle.login_failures', 1000);
    is($ldap->bind(@joe), 0, 'a good password');
};

subtest 'fail-over' => sub {
    upstream('change', '--urls', "$url_a $url_b");
    my $ldap = client(\@jane);
    ok(ask($ldap, 1), 'the first server answers');
    is(health()->{$url_b}{state}, 'idle', 'the second one was not needed');

    $wire_a->delay(0.5);
    $ldap->put($_, filter => equal('uid', "u$_")) for 10 .. 29;
    sleep 0.2;
    $wire_a->cut;
    is(scalar(grep { is_whole($_, $ldap->get($_, 8)) } 10 .. 29), 20, 'cut: what was under way is answered by the second');
    my $start = time;
    is(scalar(grep { ask($ldap, $_) } 30 .. 49), 20, 'and the next ones');
    cmp_ok(time - $start, '<', 2, 'without waiting for the dead one');
    ok(Posthouse::wait_until(5, sub { health()->{$url_a}{state} eq 'down' }), 'which is known to be down');
    like(health()->{$url_a}{error}, qr/\w/, 'and why');
    is($ldap->bind(@joe), 0, 'binds go there, too');
    like($server->log, qr/ldap\.upstream-down.*\Q$url_a\E/, 'it is logged');
    $wire_a->mend;
    ok(Posthouse::wait_until(20, sub { ask($ldap, 50); health()->{$url_a}{state} eq 'up' }), 'it is found to be back');
    like($server->log, qr/ldap\.upstream-up.*\Q$url_a\E/, 'which is logged');

    $a->halt;
    $start = time;
    ok(ask($ldap, 60), 'a server that takes connections and is silent: the other one answers');
    cmp_ok(time - $start, '<', 2.2, 'within the time of one request');
    $start = time;
    is(scalar(grep { ask($ldap, $_) } 61 .. 80), 20, 'and the next ones');
    cmp_ok(time - $start, '<', 2, 'without waiting');
    $a->go_on;
    ok(Posthouse::wait_until(20, sub { ask($ldap, 81); health()->{$url_a}{state} eq 'up' }), 'it is found to be back');

    $wire_a->delay(0.1);
    ask($ldap, $_) for 101 .. 110;
    ok(Posthouse::wait_until(10, sub { ask($ldap, 111); health()->{$url_a}{state} eq 'degraded' }), 'a slow server is seen to be slow');
    $start = time;
    is(scalar(grep { ask($ldap, $_) } 112 .. 131), 20, 'the quick one is asked');
    cmp_ok(time - $start, '<', 2, 'and answers quickly');
    $wire_a->mend;
    ok(Posthouse::wait_until(30, sub { ask($ldap, 132); health()->{$url_a}{state} eq 'up' }), 'it is found to be quick again');

    $wire_a->cut;
    $wire_b->cut;
    ask($ldap, 90);
    $start = time;
    $ldap->put(91);
    my ($answer) = $ldap->get(91);
    is($answer->{code}, 52, 'with none of them: unavailable');
    cmp_ok(time - $start, '<', 1, 'at once');
    is(status_of('ldapsearch', \@alice, '-b', 'dc=example,dc=test', '(mail=alice*)'), 0, 'what is ours goes on');
    is($ldap->bind(@jane), 52, 'a bind: could not ask');
    $wire_a->mend;
    $wire_b->mend;
    ok(Posthouse::wait_until(20, sub { $ldap->bind(@jane) == 0 && ask($ldap, 92) }), 'and back');
};

subtest 'servers that are stopped, killed and started' => sub {
    upstream('change', '--urls', $a->url . ' ' . $b->url);
    my $ldap = client(\@jane);
    my $good = 0;
    $good += ask($ldap, $_) for 1 .. 20;
    $a->stop;
    $good += ask($ldap, $_) for 21 .. 60;
    $a->serve;
    $good += ask($ldap, $_) for 61 .. 80;
    $a->kill;
    $good += ask($ldap, $_) for 81 .. 90;
    $a->serve;
    is($good, 90, 'no read fails while one of them is up');
};

# Answers all but binds with a name: for these it ends the connection.
sub serve_oddly {
    my ($listener) = @_;
    while (my $client = $listener->accept) {
        next if fork;
        $client->blocking(0);
        my $peer = bless { socket => $client, seconds => 60, buffer => '' }, 'Posthouse::Client::Ldap';
        while (my $asked = $peer->answer) {
            my $is_bind = $asked->{tag} == 0x60;
            my (undef, $name) = Posthouse::Client::Ldap::element((Posthouse::Client::Ldap::element($asked->{op}))[2]);
            last if $is_bind && $name ne '';
            $peer->send(message($asked->{id}, ber($is_bind ? 0x61 : 0x65, integer(0, 0x0a), text(''), text(''))));
        }
        POSIX::_exit(0);
    }
}

subtest 'a server that ends the connections of binds' => sub {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 50) or die "listen: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        $SIG{CHLD} = 'IGNORE';
        serve_oddly($listener);
        POSIX::_exit(0);
    }
    my $odd = 'dc=odd,dc=test';
    $server->cli_ok(qw(upstream add odd), $odd, 'ldap://127.0.0.1:' . $listener->sockport, '--anonymous');
    my @search = ('ldapsearch', undef, '-b', $odd);
    is(status_of(@search), 0, 'it answers') for 1 .. 4;
    is(status_of('ldapwhoami', ["cn=x,$odd", 'x']), 52, 'a bind is not answered') for 1 .. 4;
    my $start = time;
    my ($tried, $good) = (0, 0);
    while (time - $start < 4) {
        $tried++;
        $good++ if status_of(@search) == 0;
        sleep 0.1;
    }
    cmp_ok($good, '>', $tried / 2, 'the rest goes on');
    is(status_of(@search), 0, 'and does not end');
    $server->cli_ok(qw(upstream remove odd));
    kill 9, $pid;
    waitpid $pid, 0;
};

subtest 'a client that does not read' => sub {
    $server->set('ldap.upstream.slow_client_bytes', 1024 * 1024);
    my $slow = client(\@jane);
    $slow->put($_) for 1 .. 60;
    my $other = client(\@joe);
    my $start = time;
    is(scalar(grep { ask($other, $_) } 1 .. 30), 30, 'others are served');
    cmp_ok(time - $start, '<', 5, 'and not held up');
    my ($whole, $ended) = (0, 0);
    for my $id (1 .. 60) {
        my @answer = $slow->get($id, 20);
        $whole++ if @answer == 308 && $answer[-1]{code} == 0;
        $ended++ if @answer && $answer[-1]{code} == 11;
    }
    is($whole + $ended, 60, 'its answers are whole, or it is told that they were ended');
    cmp_ok($ended, '>', 0, 'some were');
    note "$whole whole, $ended ended";
    # The answer comes when all have asked, and is there for all of them at once.
    upstream('change', '--cache-s', 60, '--urls', $url_a);
    $slow = client(\@jane);
    $wire_a->delay(0.3);
    $slow->put($_, filter => present('uid')) for 1 .. 60;
    my @codes = map { ($slow->get($_, 20))[-1]{code} // '?' } 1 .. 60;
    is(scalar(grep { $_ eq '0' || $_ eq '11' } @codes), 60, 'from the cache it is the same');
    cmp_ok(scalar(grep { $_ eq '11' } @codes), '>', 0, 'some were ended');
    $wire_a->mend;
    upstream('change', '--cache-s', 0, '--urls', $a->url . ' ' . $b->url);
    is(dns(text_of('ldapsearch', \@joe, '-E', 'pr=100/noprompt', '-b', $suffix, '(uid=u*)')), 300, 'pages help');
    ok(ask($other, 31), 'and nothing is broken by it');
};

subtest 'TLS to the directory' => sub {
    $server->set('ldap.upstream.idle_s', 5); # for the next test
    my $ca = "$server->{state}.ca";
    Posthouse::spew($ca, $a->ca);
    upstream('change', '--urls', $a->tls_url, '--ca', $ca);
    unlink $ca;
    is(status_of('ldapwhoami', \@jane), 0, 'ldaps, with its own authority');
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)')), 1, 'a search');
    upstream('change', '--urls', $a->url, '--start-tls');
    is(status_of('ldapwhoami', \@jane), 0, 'StartTLS');
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)')), 1, 'a search');
    like($a->log, qr/TLS established/, 'the directory saw it');
    upstream('change', '--urls', $b->url);
    is(status_of('ldapwhoami', \@jane), 52, 'a directory without StartTLS is not asked in plain text');
    like(health()->{ $b->url }{error}, qr/StartTLS/, 'and the status says why');
    $server->cli_ok(['upstream', 'change', 'corp', '--urls', $a->tls_url, '--start-tls=no', '--ca', '-'],
        Posthouse::slurp($server->ca_file));
    is(status_of('ldapwhoami', \@jane), 52, 'one whose certificate is of another authority is not trusted');
    upstream('change', '--urls', $a->url, '--ca', '/dev/null');
    is(status_of('ldapwhoami', \@jane), 0, 'and without TLS again');
};

subtest 'the node is drained, and serves again' => sub {
    my $node = JSON::PP::decode_json($server->cli_ok(qw(--json node list)))->{answer}{items}[0]{name};
    my $ldap = client(\@jane);
    ok(ask($ldap, 1), 'a session');
    $server->cli_ok(qw(node drain), $node);
    ok(Posthouse::wait_until(5, sub { ask($ldap, 2) == 0 }), 'ends when the node is drained');
    $server->cli_ok(qw(node resume), $node);
    ok(Posthouse::wait_until(10, sub {
        my ($port) = $server->cli_ok('status') =~ /^port\.ldap +(\d+)/m;
        $url = "ldap://127.0.0.1:$port" if $port;
        $port;
    }), 'it listens again');
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)')), 1, 'and asks the directory again');
    $server->wait_for_ports(5);
};

subtest 'the plugin is replaced' => sub {
    my $ldap = client(\@jane);
    ok(ask($ldap, 1), 'a session');
    $server->cli_ok(qw(plugin replace ldap));
    ok(ask($ldap, 2), 'an old session goes on');
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)')), 1, 'a new one is served');
    is(health()->{ $a->url }{state}, 'up', 'the status is the new one\'s');
    $ldap->close;
    $server->cli_ok(qw(plugin stop ldap));
    SKIP: {
        skip 'sanitized images stay mapped', 1 if `nm -D "$ENV{PH_PREFIX}/bin/posthouse" 2>&1` =~ /__(asan|tsan)_/;
        ok(Posthouse::wait_until(30, sub {
            Posthouse::slurp('/proc/' . $server->pid('daemon') . '/maps') !~ m{plugins/ldap-[0-9a-f]+};
        }), 'both generations are unmapped, with their connections to the directory');
    }
    $server->cli_ok(qw(plugin start ldap));
    my ($port) = $server->cli_ok('status') =~ /^port\.ldap +(\d+)/m;
    $url = "ldap://127.0.0.1:$port";
    is(dns(text_of('ldapsearch', \@jane, '-b', $suffix, '(uid=u7)')), 1, 'stopped and started');
    upstream('remove');
    is(status_of('ldapsearch', \@alice, '-b', $suffix), 32, 'removed: nobody answers for it');
};

done_testing;
