#!/usr/bin/perl
# ldap.t - the directory of our own accounts, groups and contacts, asked by OpenLDAP's tools
# suite: core
use strict;
use warnings;
use POSIX ();
use Test::More;
use Posthouse;
use Posthouse::Ldap;
BEGIN { Posthouse::Client::Ldap->import(qw(ber integer text present equal message search_op)) }

plan skip_all => 'ldapsearch is not installed' unless grep { -x "$_/ldapsearch" } split /:/, $ENV{PATH};

my $server = Posthouse->start;
my $password = $Posthouse::password;
my $base = 'dc=example,dc=test';
my $alice = "mail=alice\@example.test,ou=people,$base";
$ENV{LDAPTLS_CACERT} = $server->ca_file;
my $plain = 'ldap://127.0.0.1:' . $server->port('ldap');
my $secure = 'ldaps://127.0.0.1:' . $server->port('ldaps');
my @as_alice = ('-x', '-D', $alice, '-w', $password);

# Runs a tool; gives its exit status and what it printed.
sub tool {
    my ($name, @arguments) = @_;
    return Posthouse::run(['timeout', '30', $name, @arguments]);
}

# A search as alice: its status, and the text.
sub search { tool('ldapsearch', '-H', $secure, @as_alice, '-LLL', '-o', 'ldif-wrap=no', @_) }

# The names that a search finds, sorted.
sub names {
    my ($status, $text) = search(@_);
    return "status $status: $text" if $status;
    return join ' ', sort map { /^dn:(:?) (.*)/ ? $2 : () } split /\n/, $text;
}

sub short { join ' ', map { /^(\w+=[^,@]*)/ ? $1 : $_ } split / /, names(@_) }

# A connection by hand, with TLS.
sub ldap { Posthouse::Client::Ldap->connect(port => $server->port('ldaps'), tls => 1, ca_file => $server->ca_file) }

# One page of a search: result code, number of entries, cookie.
sub page {
    my ($ldap, $scope, $size, $cookie, $from) = @_;
    my $control = ber(0x30, text('1.2.840.113556.1.4.319'), text(ber(0x30, integer($size), text($cookie))));
    $ldap->request(search_op($from // $base, $scope, present('objectClass')), ber(0xa0, $control));
    my $n = 0;
    while (my $answer = $ldap->answer) {
        if ($answer->{tag} == 0x64) {
            $n++;
            next;
        }
        my ($value) = $answer->{controls} =~ /1\.2\.840\.113556\.1\.4\.319(.*)/s or return ($answer->{code}, $n, '');
        my (undef, $list) = Posthouse::Client::Ldap::element((Posthouse::Client::Ldap::element($value))[1]);
        my (undef, undef, $rest) = Posthouse::Client::Ldap::element($list);
        return ($answer->{code}, $n, (Posthouse::Client::Ldap::element($rest))[1]);
    }
    return -1;
}

$server->cli_ok(qw(user change alice@example.test --name), 'Alice Beate Example');
$server->cli_ok(qw(alias add sales@example.test), $_) for qw(alice@example.test bob@example.test carol@example.org);
$server->cli_ok(qw(alias add press@example.test paper@example.org));
$server->cli_ok(qw(alias add postmaster@example.test alice@example.test));
$server->cli_ok(qw(contact add example.test), 'Zoë Outside', '--mail', 'zoe@example.org', '--organization',
    'Example Press', '--telephone', '+1 555 0100');
$server->cli_ok(qw(tenant add others));
$server->cli_ok(qw(domain add other.test --tenant others));
$server->user_add('mallory@other.test');
$server->cli_ok(qw(domain add sub.example.test));
$server->user_add('deep@sub.example.test');

# -- who may ------------------------------------------------------------------------------------------

subtest 'binds' => sub {
    my @whoami = ('ldapwhoami', '-H', $secure, '-x');
    my ($status, $text) = tool(@whoami, '-D', $alice, '-w', $password);
    is($status, 0, 'by the name of the entry');
    is($text, "dn:$alice\n", 'who am I');
    is((tool(@whoami, '-D', 'Alice@Example.TEST', '-w', $password))[1], "dn:$alice\n", 'by the bare address');
    is((tool(@whoami, '-D', "UID=alice\@example.test, OU=People, DC=example,DC=Test", '-w', $password))[1], "dn:$alice\n",
        'by another spelling');
    is((tool('ldapwhoami', '-H', $secure, '-Y', 'PLAIN', '-U', 'alice@example.test', '-w', $password, '-Q'))[1],
        "dn:$alice\n", 'SASL PLAIN') if -e '/usr/lib/x86_64-linux-gnu/sasl2/libplain.so';
    is((tool('ldapwhoami', '-H', $secure, '-x'))[1], "anonymous\n", 'nobody');
    ($status, $text) = tool('ldapwhoami', '-H', $plain, '-ZZ', '-x', '-D', $alice, '-w', $password);
    is($text, "dn:$alice\n", 'StartTLS');
    is((tool(@whoami, '-D', $alice, '-w', 'wrong-horse-7'))[0], 49, 'a wrong password');
    is((tool(@whoami, '-D', "mail=nobody\@example.test,ou=people,$base", '-w', $password))[0], 49, 'an unknown name');
    is((tool(@whoami, '-D', "cn=admin,$base", '-w', $password))[0], 49, 'a name of another kind');
    is((tool(@whoami, '-D', "$_=alice\@example.test,ou=people,dc=other,dc=test", '-w', $password))[0], 49,
        "a $_ below another domain is nobody") for qw(mail uid);
    is((tool(@whoami, '-D', 'no name=', '-w', $password))[0], 34, 'a malformed name');
    is((tool(@whoami, '-D', $alice, '-w', ''))[0], 53, 'no password');
    $server->cli_ok([qw(operator add boss --password-stdin)], "$password\n");
    is((tool(@whoami, '-D', 'boss', '-w', $password))[0], 49, 'an operator');
    is((tool('ldapwhoami', '-H', $plain, '-x', '-D', $alice, '-w', $password))[0], 13, 'a password in clear text');
    is((tool('ldapwhoami', '-H', $secure, '-Y', 'DIGEST-MD5', '-U', 'alice', '-w', 'x', '-Q'))[0] != 0, 1, 'other mechanisms');
    my $ldap = ldap();
    $ldap->request(ber(0x60, integer(2), text($alice), ber(0x80, $password)));
    is($ldap->answer->{code}, 2, 'another version');
    $ldap->request(ber(0x60, integer(3), text($alice), ber(0x81, $password)));
    is($ldap->answer->{code}, 7, 'another kind of bind');
    $ldap->request(ber(0x60, integer(3), text(''), ber(0xa3, text('PLAIN'))));
    is($ldap->answer->{code}, 14, 'SASL PLAIN without an initial response');
    $ldap->request(ber(0x60, integer(3), text(''), ber(0xa3, text('PLAIN'), text("\0alice\@example.test\0$password"))));
    is($ldap->answer->{code}, 0, 'and the response');
    is($ldap->bind($alice, 'wrong-horse-7'), 49, 'a bind that fails');
    is(($ldap->search($base, 0, present('objectClass')))[0], 50, 'makes one nobody');
};

subtest 'root DSE and schema' => sub {
    my ($status, $text) = tool('ldapsearch', '-H', $plain, '-x', '-LLL', '-s', 'base', '-b', '', '+');
    is($status, 0, 'the root DSE is for everybody');
    like($text, qr/^supportedLDAPVersion: 3$/m, 'version');
    like($text, qr/^supportedControl: 1\.2\.840\.113556\.1\.4\.319$/m, 'pages');
    like($text, qr/^supportedExtension: 1\.3\.6\.1\.4\.1\.1466\.20037$/m, 'StartTLS');
    unlike($text, qr/^supportedSASLMechanisms/m, 'no mechanism where none would be taken');
    unlike($text, qr/^namingContexts/m, 'no names to nobody');
    ($status, $text) = search('-s', 'base', '-b', '', '+');
    like($text, qr/^namingContexts: dc=example,dc=test$/m, 'the domain');
    unlike($text, qr/dc=sub|dc=other/, 'neither what is below it nor another tenant');
    like($text, qr/^supportedSASLMechanisms: PLAIN$/m, 'PLAIN with TLS');
    unlike($text, qr/^supportedExtension: 1\.3\.6\.1\.4\.1\.1466\.20037$/m, 'no StartTLS with TLS');
    ($status, $text) = tool('ldapsearch', '-H', $plain, '-x', '-LLL', '-o', 'ldif-wrap=no', '-s', 'base', '-b', 'cn=Subschema', '+');
    is($status, 0, 'the schema is for everybody');
    like($text, qr/^objectClasses: \( 2\.16\.840\.1\.113730\.3\.2\.2 NAME 'inetOrgPerson'/m, 'a class');
    # Whatever entries have is described.
    my %described = map { $_ => 1 } $text =~ /^(?:attributeTypes|objectClasses): .*?NAME (?:\( )?'(\w+)'/mg;
    (undef, my $entries) = search('-b', $base, '*', '+');
    my %used = map { $_ => 1 } $entries =~ /^(\w+):/mg, $entries =~ /^objectClass: (\w+)/mg;
    delete $used{dn};
    is_deeply([grep { !$described{$_} } sort keys %used], [], 'all that is used is in the schema');
};

subtest 'visibility' => sub {
    is((tool('ldapsearch', '-H', $secure, '-x', '-b', $base))[0], 50, 'nobody sees nothing');
    is(short('-b', 'dc=other,dc=test'), 'status 32: No such object (32)' . "\nMatched DN: dc=test\n", 'another tenant')
        or diag(join ' ', search('-b', 'dc=other,dc=test'));
    is((search('-b', 'mail=mallory@other.test,ou=people,dc=other,dc=test'))[0], 32, 'an entry of another tenant');
    unlike((search('-b', '', '-s', 'sub'))[1], qr/mallory|other/, 'nor from the root');
    unlike((search('-b', $base, '*', '+'))[1], qr/userPassword|argon/i, 'no password anywhere');
    $server->set('ldap.anonymous.read', 'true');
    my ($status, $text) = tool('ldapsearch', '-H', $plain, '-x', '-LLL', '-b', 'dc=test', '(mail=*)', 'mail');
    is($status, 0, 'open to anybody when it is set so');
    like($text, qr/mallory/, 'of all tenants');
    $server->set('ldap.anonymous.read', 'false');
};

# -- what is found -------------------------------------------------------------------------------------

subtest 'entries' => sub {
    my ($status, $text) = search('-b', $alice, '-s', 'base', '*', '+');
    for my $line ("dn: $alice", 'objectClass: inetOrgPerson', 'cn: Alice Beate Example', 'sn: Example',
        'givenName: Alice Beate', 'displayName: Alice Beate Example', 'uid: alice@example.test', 'mail: alice@example.test',
        'mail: postmaster@example.test', 'structuralObjectClass: inetOrgPerson', "entryDN: $alice", 'hasSubordinates: FALSE',
        'subschemaSubentry: cn=Subschema') {
        like($text, qr/^\Q$line\E$/m, $line);
    }
    like($text, qr/^entryUUID: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/m, 'a UUID');
    like($text, qr/^createTimestamp: 20\d{12}Z$/m, 'a time');
    ($status, $text) = search('-b', "ou=groups,$base", '-s', 'one');
    like($text, qr/^dn: cn=sales\@example\.test,ou=groups,dc=example,dc=test$/m, 'a group');
    like($text, qr/^objectClass: groupOfNames$/m, 'with members is groupOfNames');
    like($text, qr/^member: \Q$alice\E$/m, 'an account in it');
    like($text, qr/^rfc822MailMember: carol\@example\.org$/m, 'somebody outside in it');
    like($text, qr/^dn: cn=press\@.*\n(?:(?!dn:).*\n)*?objectClass: nisMailAlias$/m, 'a group without members here');
    ($status, $text) = search('-b', "ou=contacts,$base", '-s', 'one', '(o=example press)');
    like($text, qr/^telephoneNumber: \+1 555 0100$/m, 'a contact');
    like($text, qr/^cn:: Wm/m, 'its name is UTF-8');
    is((search('-b', "mail=nobody\@example.test,ou=people,$base"))[1], "No such object (32)\nMatched DN: ou=people,$base\n",
        'what is not there, and what is above it');
};

subtest 'scopes' => sub {
    is(short('-b', $base, '-s', 'base'), 'dc=example', 'base');
    is(short('-b', $base, '-s', 'one'), 'dc=sub ou=contacts ou=groups ou=people', 'one level');
    is(short('-b', $base, '-s', 'children', '(objectClass=organizationalUnit)'),
        'ou=contacts ou=contacts ou=groups ou=groups ou=people ou=people', 'children');
    is(short('-b', 'dc=test', '-s', 'one'), 'dc=example', 'above the domains');
    is(short('-b', '', '-s', 'one'), 'dc=test', 'from the root');
    is(short('-b', "ou=people,$base", '-s', 'one'), 'mail=alice mail=bob', 'a unit');
    is(short('-b', $alice, '-s', 'one'), '', 'below an entry');
    is(short('-b', $alice, '-s', 'sub'), 'mail=alice', 'an entry and below');
    is(short('-b', $base, '(objectClass=inetOrgPerson)'), 'mail=alice mail=bob mail=deep uid=1', 'a subtree has the domains below');
};

subtest 'filters of mail programs' => sub {
    my $thunderbird = '(&(objectclass=person)(|(mail=*%s*)(cn=*%s*)(givenName=*%s*)(sn=*%s*)))';
    my $outlook = '(&(mail=*)(|(mail=%s*)(cn=%s*)(sn=%s*)(givenName=%s*)(displayName=%s*)))';
    my $fill = sub { my ($filter, $text) = @_; $filter =~ s/%s/$text/gr };
    is(short('-b', $base, $fill->($thunderbird, 'ali')), 'mail=alice', 'Thunderbird: alice');
    is(short('-b', $base, $fill->($thunderbird, 'EXAMPLE')), 'mail=alice mail=bob mail=deep uid=1', 'Thunderbird: all of a domain');
    is(short('-b', $base, $fill->($thunderbird, 'beate ex')), 'mail=alice', 'Thunderbird: two words');
    is(short('-b', $base, $fill->($thunderbird, 'Zo\c3\ab')), 'uid=1', 'Thunderbird: a contact');
    is(short('-b', $base, $fill->($thunderbird, 'ZO\c3\8b')), 'uid=1', 'Thunderbird: in capitals');
    is(short('-b', $base, $fill->($thunderbird, 'xyzzy')), '', 'Thunderbird: nobody');
    is(short('-b', $base, $fill->($outlook, 'sal')), 'cn=sales', 'Outlook: a group');
    is(short('-b', $base, $fill->($outlook, 'Example')), 'mail=alice', 'Outlook: a family name');
    is(short('-b', $base, '(|(objectClass=nothing)(uid=bob@example.test))'), 'mail=bob', 'an unknown class beside it');
    is(short('-b', $base, '(!(foo=bar))'), '', 'not of what is undefined is undefined');
    is(short('-b', "ou=people,$base", '(&(objectClass=person)(!(mail=bob*)))'), 'mail=alice', 'not');
    is(short('-b', "ou=people,$base", '(&)'), 'mail=alice mail=bob ou=people', 'absolute true');
    is(short('-b', $base, '(|)'), '', 'absolute false');
    is(short('-b', $base, "(member=MAIL=alice\@example.test , ou=people, $base)"), 'cn=sales', 'a name as value');
    is(short('-b', $base, '(telephoneNumber=+15550100)'), 'uid=1', 'a telephone number without its spaces');
    is(short('-b', $base, '(&(createTimestamp>=20200101000000Z)(mail=alice*))'), 'mail=alice', 'a time');
    is(short('-b', $base, '(cn:caseIgnoreMatch:=alice  beate example)'), 'mail=alice', 'a rule by name');
    is(short('-b', $base, '(cn:1.2.3.4:=alice)'), '', 'an unknown rule');
    is(short('-b', "ou=people,$base", '(name=bob@example.test)'), 'mail=bob', 'a supertype');
};

subtest 'attributes' => sub {
    my $attributes = sub {
        my ($status, $text) = search('-b', $alice, '-s', 'base', '(objectClass=*)', @_);
        my %found = map { $_ => 1 } $text =~ /^(\w+):/mg;
        delete $found{dn};
        return join ' ', sort keys %found;
    };
    is($attributes->('mail', 'CN'), 'cn mail', 'named');
    is($attributes->('1.1'), '', 'none');
    is($attributes->('+'), 'createTimestamp entryDN entryUUID hasSubordinates structuralObjectClass subschemaSubentry', 'operational');
    is($attributes->('2.5.4.4'), 'sn', 'by number');
    is($attributes->('name'), 'cn givenName sn', 'by their supertype');
    is($attributes->('userPassword'), '', 'what is not there');
    my ($status, $text) = search('-A', '-b', $alice, '-s', 'base', 'mail');
    is($text, "dn: $alice\nmail:\n\n", 'types only');
};

subtest 'limits and pages' => sub {
    my ($status, $text) = search('-z', '2', '-b', $base);
    is($status, 4, 'the size limit');
    is(scalar(() = $text =~ /^dn:/mg), 2, 'that many came');
    $server->set('ldap.search.max_entries', '3');
    is((search('-b', $base))[0], 4, 'the limit of the server');
    my $all = names('-b', $base, '-E', 'pr=3/noprompt');
    $server->set('ldap.search.max_entries', '1000');
    is($all, names('-b', $base), 'pages give all of it, each once');
    is(names('-b', $base, '-E', 'pr=1/noprompt'), $all, 'one by one');
    is(names('-b', $base, '-E', '!pr=500/noprompt'), $all, 'in one');
    is((search('-b', $base, '-E', '!pr=2/noprompt', '-z', '3'))[0], 4, 'the size limit counts over pages');
    is((search('-b', $base, '-e', '!1.2.3.4'))[0], 12, 'an unknown critical control');
    is((search('-b', $base, '-s', 'base', '-e', '1.2.3.4'))[0], 0, 'an unknown control');
    is((search('-b', $base, '-M', '-s', 'base'))[0], 0, 'ManageDsaIT');
    my $ldap = ldap();
    is($ldap->bind($alice, $password), 0, 'by hand');
    my ($code, $n, $cookie) = page($ldap, 2, 4, '');
    is("$code $n", '0 4', 'a page has what was asked for');
    is((page($ldap, 1, 4, $cookie))[0], 53, 'a cookie is of its search');
    is((page($ldap, 2, 4, substr($cookie, 0, -1)))[0], 53, 'and not to be changed');
    my $bob = ldap();
    $bob->bind("mail=bob\@example.test,ou=people,$base", $password);
    is((page($bob, 2, 4, $cookie))[0], 53, 'and of who asked');
    ($code, $n, my $next) = page($ldap, 2, 0, $cookie);
    is("$code $n '$next'", "0 0 ''", 'a client that has seen enough');
    ($code, $n) = page($ldap, 2, 100, $cookie);
    is($code, 0, 'the cookie is still good');
    is($n + 4, scalar(split / /, $all), 'the rest');

    # An entry that was given is gone before the next page: nobody is passed over.
    my $people = "ou=people,$base";
    $server->user_add('aaron@example.test');
    my $there = (page($ldap, 1, 100, '', $people))[1];
    ($code, $n, $cookie) = page($ldap, 1, 1, '', $people);
    is("$code $n", '0 1', 'the first one');
    $server->cli_ok(qw(user suspend aaron@example.test));
    is((page($ldap, 1, 100, $cookie, $people))[1], $there - 1, 'all the others');

    # A place behind all that is left.
    $server->cli_ok(qw(domain add), $_) for qw(paged.test z.paged.test);
    ($code, $n, $cookie) = page($ldap, 2, 7, '', 'dc=paged,dc=test');
    is("$code $n", '0 7', 'all but one');
    $server->cli_ok(qw(domain remove z.paged.test));
    is(join(' ', (page($ldap, 2, 7, $cookie, 'dc=paged,dc=test'))[0, 1]), '0 0', 'nothing more');
};

subtest 'several change one contact' => sub {
    my ($id) = $server->cli_ok(qw(contact add example.test Many)) =~ /(\d+)/;
    my %fields = ('given-name' => 'Ada', surname => 'Many', organization => 'Example', telephone => '+1 555 0111');
    my @running;
    for my $field (sort keys %fields) {
        my $pid = fork // die "fork: $!";
        POSIX::_exit(($server->cli(qw(contact change), $id, "--$field", $fields{$field}))[0]) if $pid == 0;
        push @running, $pid;
    }
    for my $pid (@running) {
        waitpid $pid, 0;
        is($?, 0, 'changed');
    }
    my $text = $server->cli_ok(qw(contact show), $id);
    like($text, qr/\Q$fields{$_}\E/, "$_ is as it was set") for sort keys %fields;
    $server->cli_ok(qw(contact remove), $id);
};

# -- compare, changes, passwords -----------------------------------------------------------------------

subtest 'compare and changes' => sub {
    my $compare = sub { (tool('ldapcompare', '-H', $secure, @as_alice, @_))[0] };
    is($compare->($alice, 'mail:POSTMASTER@example.test'), 6, 'true');
    is($compare->($alice, 'mail:x@example.test'), 5, 'false');
    is($compare->($alice, 'member:x'), 16, 'without the attribute');
    is($compare->($alice, 'foo:x'), 17, 'an unknown attribute');
    is($compare->("mail=nobody\@example.test,ou=people,$base", 'mail:x'), 32, 'an unknown entry');
    my ($status, $text) = tool('ldapdelete', '-H', $secure, @as_alice, $alice);
    is($status, 53, 'entries are not changed here') or diag($text);
};

subtest 'passwords' => sub {
    my @passwd = ('ldappasswd', '-H', $secure);
    my ($status, $text) = tool(@passwd, @as_alice, '-a', $password, '-s', 'battery-staple-9');
    is($status, 0, 'one\'s own password') or diag($text);
    is((tool('ldapwhoami', '-H', $secure, @as_alice))[0], 49, 'the old one is not taken any more');
    @as_alice = ('-x', '-D', $alice, '-w', 'battery-staple-9');
    is((tool('ldapwhoami', '-H', $secure, @as_alice))[0], 0, 'the new one is');
    like((tool(@passwd, @as_alice, '-a', 'wrong-horse-7', '-s', $password))[1], qr/\(49\)/, 'a wrong old password');
    like((tool(@passwd, @as_alice, '-a', 'battery-staple-9', '-s', 'short'))[1], qr/\(19\)/, 'too short');
    like((tool(@passwd, @as_alice, '-s', 'battery-staple-8'))[1], qr/\(53\)/, 'without the present one');
    my ($app) = $server->cli_ok(qw(app-password add alice@example.test phone --json)) =~ /"password"\s*:\s*"([^"]+)"/;
    my @as_phone = ('-x', '-D', $alice, '-w', $app);
    is((tool('ldapwhoami', '-H', $secure, @as_phone))[0], 0, 'an app password reads');
    like((tool(@passwd, @as_phone, '-a', $app, '-s', 'battery-staple-8'))[1], qr/\(49\)/, 'and does not change the account');
    like((tool(@passwd, @as_alice, '-s', 'battery-staple-8', "mail=bob\@example.test,ou=people,$base"))[1], qr/\(50\)/,
        'somebody else\'s');
    like((tool(@passwd, '-x', '-s', 'battery-staple-8'))[1], qr/\(50\)/, 'nobody\'s');
    like($server->cli_ok(qw(audit list --action user.passwd)), qr/alice\@example\.test/, 'a change is in the audit log');
    ($status, $text) = tool(@passwd, @as_alice, '-a', 'battery-staple-9', $alice);
    is($status, 0, 'one that is made up');
    my ($made) = $text =~ /^New password: (\S+)$/m;
    is(length $made, 20, 'it is told');
    @as_alice = ('-x', '-D', $alice, '-w', $made);
    is((tool('ldapwhoami', '-H', $secure, @as_alice))[0], 0, 'it is taken');
    is($server->imap(login => 'alice', password => $made)->cmd('NOOP'), 'OK Done', 'everywhere');
};

# -- what no honest client sends -------------------------------------------------------------------------

subtest 'hostile bytes' => sub {
    my $plain_client = sub { Posthouse::Client::Ldap->connect(port => $server->port('ldap')) };
    my %bad = (
        'not LDAP' => "GET / HTTP/1.1\r\n\r\n",
        'a length of 2^31' => "\x30\x84\x80\x00\x00\x00",
        'a length of five bytes' => "\x30\x85\x00\x00\x00\x00\x05",
        'no definite length' => "\x30\x80\x02\x01\x01",
        'more than is taken' => "\x30\x83\x04\x00\x01",
        'an empty message' => "\x30\x00",
        'id 0' => message(0, search_op('', 0, present('objectClass'))),
        'a negative id' => ber(0x30, ber(0x02, "\xff"), search_op('', 0, present('objectClass'))),
        'an id of five bytes' => ber(0x30, ber(0x02, "\1\0\0\0\0"), search_op('', 0, present('objectClass'))),
        'an id that is none' => ber(0x30, text('1'), search_op('', 0, present('objectClass'))),
        'no operation' => ber(0x30, integer(1)),
        'an operation that ends outside' => "\x30\x05\x02\x01\x01\x63\x7f",
        'an answer' => message(1, ber(0x65, integer(0, 0x0a), text(''), text(''))),
        'an unknown operation' => message(1, ber(0x7f, '')),
    );
    for my $name (sort keys %bad) {
        my $client = $plain_client->();
        $client->send($bad{$name});
        my $answer = $client->answer;
        is(join(' ', $answer ? @$answer{qw(id tag code)} : 'nothing'), '0 120 2', "$name: notice of disconnection");
        ok($client->is_closed, "$name: the end");
    }
    my $client = $plain_client->();
    my $filter = present('objectClass');
    $filter = ber(0xa2, $filter) for 1 .. 5_000;
    for (['deep', $filter, 11], ['long', ber(0xa1, present('cn') x 1000), 11], ['empty', ber(0xa2, ''), 2],
        ['of two', ber(0xa2, present('cn'), present('sn')), 2], ['malformed', ber(0xa4, text('cn'), ber(0x30, '')), 2],
        ['unknown', ber(0xac, ''), 2]) {
        my ($name, $bytes, $code) = @$_;
        $client->request(search_op('', 0, $bytes));
        is($client->answer->{code}, $code, "a filter that is $name");
    }
    $client->request(ber(0x63, text('')));
    is($client->answer->{code}, 2, 'half a search');
    $client->request(search_op('', 0, present('objectClass')), ber(0xa0, ber(0x30, integer(1))));
    is($client->answer->{code}, 2, 'a malformed control');
    $client->request(search_op('x' x 10_000, 0, present('objectClass')));
    is($client->answer->{code}, 34, 'an endless name');
    $client->request(ber(0x77, ber(0x80, '1.2.3.4')));
    is($client->answer->{code}, 2, 'an unknown extended request');
    is(($client->search('', 0, present('objectClass')))[0], 0, 'the connection is as good as before');
    $client->close;
    $client = $plain_client->();
    $client->send(substr message(1, search_op('', 0, present('objectClass'))), 0, -3);
    $client->abort;
    $client = $plain_client->();
    for my $byte (split //, message(7, search_op('', 0, present('objectClass')))) {
        $client->send($byte);
    }
    is($client->answer->{id}, 7, 'byte by byte');
};

subtest 'many at once' => sub {
    my $ldap = ldap();
    is($ldap->bind($alice, $as_alice[-1]), 0, 'bound');
    $ldap->send(join '', map { message(1000 + $_, search_op($base, 2, present('objectClass'))) } 1 .. 100);
    my %done;
    while (keys %done < 100) {
        my $answer = $ldap->answer or last;
        $done{ $answer->{id} } = $answer->{code} if $answer->{tag} == 0x65;
    }
    is(join(' ', sort { $a <=> $b } keys %done), join(' ', 1001 .. 1100), 'a hundred requests, each answered once');
    is(scalar(grep { $_ != 0 } values %done), 0, 'with success');
    # Two of one id, and what was abandoned.
    $ldap->send(message(1, search_op($base, 2, present('objectClass'))) . message(2, ber(0x50, "\1"))
        . message(3, search_op('', 0, present('objectClass'))));
    my @ids;
    while (my $answer = $ldap->answer) {
        push @ids, $answer->{id} if $answer->{tag} == 0x65;
        last if $answer->{id} == 3 && $answer->{tag} == 0x65;
    }
    unlike("@ids", qr/2/, 'an abandon has no answer');
    is($ids[-1], 3, 'what comes after it has');
    my $cancel = ber(0x77, ber(0x80, '1.3.6.1.1.8'), ber(0x81, ber(0x30, integer(55))));
    $ldap->request($cancel);
    is($ldap->answer->{code}, 119, 'nothing to cancel');
    $ldap->send(message(20, search_op($base, 2, present('objectClass')))
        . message(21, ber(0x77, ber(0x80, '1.3.6.1.1.8'), ber(0x81, ber(0x30, integer(20))))));
    my %codes;
    while (keys %codes < 2) {
        my $answer = $ldap->answer or last;
        $codes{ $answer->{id} } = $answer->{code} if $answer->{tag} != 0x64;
    }
    is("$codes{20} $codes{21}", '118 0', 'a search that is canceled');
    $ldap->send(message(30, search_op($base, 2, present('objectClass'))) x 2);
    my $last;
    while (my $answer = $ldap->answer) {
        $last = $answer;
    }
    is($last->{tag}, 120, 'an id that is in use ends the connection');
};

subtest 'large requests' => sub {
    my $ldap = ldap();
    is($ldap->bind($alice, $as_alice[-1]), 0, 'bound');
    my $long = 'x' x 200_000;
    $ldap->send(join '', map { message(100 + $_, search_op($base, 2, equal('cn', $long))) } 1 .. 30);
    my %done;
    while (keys %done < 30) {
        my $answer = $ldap->answer or last;
        $done{ $answer->{id} } = $answer->{code};
    }
    is(scalar(grep { $_ == 0 } values %done), 30, 'are answered, each once');
};

subtest 'a client that does not read' => sub {
    my $ldap = ldap();
    is($ldap->bind($alice, $as_alice[-1]), 0, 'bound');
    my ($pid) = $server->pid('daemon');
    my $memory = sub { (Posthouse::slurp("/proc/$pid/status") =~ /VmRSS:\s+(\d+)/)[0] };
    my $before = $memory->();
    my $sent = 0;
    eval {
        local $ldap->{seconds} = 2;
        for (1 .. 200_000) {
            $ldap->send(message(1 + $sent, search_op('cn=Subschema', 0, present('objectClass'), 0, '+')));
            $sent++;
        }
    };
    ok($sent < 200_000, "the server stopped reading after $sent requests");
    SKIP: {
        skip 'a sanitizer keeps what was freed', 1 if `nm -D "$ENV{PH_PREFIX}/bin/posthouse" 2>&1` =~ /__(asan|tsan)_/;
        cmp_ok($memory->() - $before, '<', 32 * 1024, 'and keeps little');
    }
    is((tool('ldapwhoami', '-H', $secure, @as_alice))[0], 0, 'others are served');
    $ldap->abort;
};

subtest 'the server ends' => sub {
    my $ldap = ldap();
    is($ldap->bind($alice, $as_alice[-1]), 0, 'bound');
    like($server->cli_ok(qw(session list)), qr/alice\@example\.test/, 'a session that is seen');
    $server->cli_ok(qw(user suspend alice@example.test));
    my $answer = $ldap->answer;
    is("$answer->{id} $answer->{code}", '0 52', 'an account that is suspended: notice of disconnection');
    ok($ldap->is_closed, 'and the end');
    $ldap = ldap();
    is($ldap->bind($alice, $as_alice[-1]), 49, 'no new session');
    is($ldap->bind("mail=bob\@example.test,ou=people,$base", $password), 0, 'another one');
    $server->stop;
    $answer = $ldap->answer;
    is("$answer->{id} $answer->{code}", '0 52', 'a notice at the end');
};

# Ours come first; whatever nobody else answers for is asked at the directory behind.
subtest 'a directory behind ours' => sub {
    my $behind = Posthouse->start(accounts => 0);
    $behind->cli_ok(qw(domain add far.test));
    $behind->user_add("$_\@far.test", 'far-horse-7') for qw(carol dave);
    $behind->cli_ok(qw(domain add example.test));
    $behind->user_add('shadow@example.test');
    my $front = Posthouse->start;
    my $far = 'mail=carol@far.test,ou=people,dc=far,dc=test';
    $front->cli_ok(qw(upstream add behind), '', 'ldaps://127.0.0.1:' . $behind->port('ldaps'), '--ca', $behind->ca_file);
    my $connect = sub { Posthouse::Client::Ldap->connect(port => $front->port('ldaps'), tls => 1, ca_file => $front->ca_file) };
    my $ldap = $connect->();
    is($ldap->bind($alice, $password), 0, 'an account of ours');
    my ($code, @names) = $ldap->search($base, 2, present('mail'));
    is("$code @names", "0 mail=alice\@example.test,ou=people,$base mail=bob\@example.test,ou=people,$base", 'our own domain');
    is($ldap->bind('alice@example.test', $password), 0, 'a bare address is ours');
    is($ldap->bind($alice, 'wrong-horse-7'), 49, 'a wrong password of ours');
    is($ldap->bind($far, 'far-horse-7'), 0, 'somebody of the directory behind');
    ($code, @names) = $ldap->search('ou=people,dc=far,dc=test', 1, equal('mail', 'dave@far.test'));
    is("$code @names", '0 mail=dave@far.test,ou=people,dc=far,dc=test', 'sees what is there');
    is($ldap->bind($far, 'wrong-horse-7'), 49, 'a wrong password there');
    is($ldap->bind("mail=shadow\@example.test,ou=people,$base", $password), 49, 'who is there below our names is not asked for');
    $behind->stop;
    is($ldap->bind($alice, $password), 0, 'ours log in while it is away');
    is($connect->()->bind('mail=new@far.test,ou=people,dc=far,dc=test', 'far-horse-7'), 52, 'who is there cannot be asked');
};

# "Could not ask" is not "no".
subtest 'the database is away' => sub {
    my $other = Posthouse->start(database => 'managed');
    my $connect = sub { Posthouse::Client::Ldap->connect(port => $other->port('ldaps'), tls => 1, ca_file => $other->ca_file) };
    my $ldap = $connect->();
    is($ldap->bind($alice, $password), 0, 'bound');
    is(($ldap->search($base, 2, equal('mail', 'bob@example.test')))[0], 0, 'a search');
    my $data = $other->state . '/postgres/data';
    my $postmaster = $other->postmaster;
    rename $data, "$data.away" or die "rename: $!";
    kill KILL => $postmaster;
    ok(Posthouse::wait_until(10, sub { !Posthouse::is_alive($postmaster) }), 'the database is away');
    is(($ldap->search($base, 2, equal('mail', 'bob@example.test')))[0], 52, 'a search that cannot be asked');
    is(($ldap->search('', 0, present('objectClass')))[0], 0, 'what the server can do is told');
    my $new = $connect->();
    is($new->bind($alice, $password), 52, 'a login that cannot be checked is not a wrong password');
    rename "$data.away", $data or die "rename: $!";
    ok($other->wait_ready(60), 'the database is back');
    my ($code, @names) = $ldap->search($base, 2, equal('mail', 'bob@example.test'));
    is("$code @names", "0 mail=bob\@example.test,ou=people,$base", 'the session carries on');
    is($new->bind($alice, $password), 0, 'and logins');
};

done_testing;
