#!/usr/bin/perl
# console.t - the API over HTTP: who may call, what is answered, the database away
# suite: core
use strict;
use warnings;
use IO::Socket::SSL;
use JSON::PP qw(decode_json);
use Posthouse;
use Posthouse::Console;
use Test::More;

my $server = Posthouse->start;
$server->cli_ok([qw(operator add admin --password-stdin)], "$Posthouse::password\n");
my $admin = Posthouse::Console->new($server);

# The answer's status and code.
sub is_answer {
    my ($answer, $status, $code, $name) = @_;
    is($answer->{status}, $status, "$name: $status") or diag($answer->{content});
    is($answer->{body}{code}, $code, "$name: $code") if defined $code;
    return $answer->{body};
}

subtest 'sessions' => sub {
    my $nobody = Posthouse::Console->new($server);
    is_answer($nobody->call(GET => '/domains'), 401, 'denied', 'nobody');
    is_answer($nobody->call(POST => '/session', {login => 'admin', password => 'wrong-horse-7'}), 401, 'denied', 'a wrong password');
    is_answer($nobody->call(POST => '/session', {login => 'nobody@example.test', password => 'wrong-horse-7'}), 401, 'denied', 'no such login');
    my $login = $admin->login('admin');
    is_answer($login, 200, undef, 'a login');
    like($login->{headers}{'set-cookie'}, qr/; Secure; HttpOnly; SameSite=Strict$/, 'its cookie is for this site only');
    is($login->{body}{role}, 'operator', 'its role');
    is($admin->call(GET => '/session')->{body}{login}, 'admin', 'who am I');
    is_answer($admin->raw(POST => '/api/v1/domains', headers => {'Content-Type' => 'application/json'}, content => '{"name":"x.example"}'),
        403, undef, 'a change without the token against forgery');
    is_answer($admin->raw(POST => '/api/v1/session', headers => {'Content-Type' => 'text/plain'},
        content => '{"login":"admin","password":"x"}'), 415, undef, 'a form of another site');
    my $other = Posthouse::Console->new($server);
    $other->login('admin');
    is_answer($other->call(DELETE => '/session'), 200, undef, 'logging out');
    is_answer($other->call(GET => '/domains'), 401, undef, 'and it is over');
    is_answer($admin->call(GET => '/domains'), 200, undef, 'the other session goes on');
};

subtest 'what is asked, what is answered' => sub {
    my $domains = is_answer($admin->call(GET => '/domains'), 200, undef, 'a list');
    is($domains->{items}[0]{name}, 'example.test', 'its item');
    is_answer($admin->call(POST => '/domains', {name => 'example.org'}), 200, undef, 'adding');
    my $again = is_answer($admin->call(POST => '/domains', {name => 'example.org'}), 409, 'conflict', 'adding twice');
    is($again->{argument}, 'name', 'the field is named');
    my $missing = is_answer($admin->call(POST => '/domains', {}), 400, 'syntax', 'without what it needs');
    is($missing->{argument}, 'name', 'the field is named');
    is_answer($admin->call(POST => '/domains', {name => 'example.net', colour => 'red'}), 400, 'syntax', 'with what it does not take');
    is_answer($admin->call(POST => '/domains', {name => 7}), 400, 'syntax', 'with another type');
    is_answer($admin->call(GET => '/accounts?limit=0'), 400, 'syntax', 'out of range');
    is_answer($admin->call(GET => '/nothing'), 404, 'not-found', 'no such path');
    is($admin->call(PUT => '/domains', {})->{headers}{allow}, 'GET, POST', 'what a path takes');
    is_answer($admin->raw(POST => '/api/v1/domains', headers => {'X-CSRF-Token' => $admin->{csrf}, 'Content-Type' => 'application/json'},
        content => '[' x 100_000), 400, undef, 'a body of brackets');
    is_answer($admin->raw(POST => '/api/v1/domains', headers => {'X-CSRF-Token' => $admin->{csrf}, 'Content-Type' => 'application/json'},
        content => '{"name":"' . ('x' x 3_000_000) . '"}'), 413, undef, 'a body that is too large');
    my $page = is_answer($admin->call(GET => '/accounts?limit=1&domain=example.test'), 200, undef, 'a page');
    is(@{ $page->{items} }, 1, 'of one item');
    is($admin->call(GET => "/accounts?limit=1&after=$page->{next}")->{body}{items}[0]{address}, 'bob@example.test', 'and the next');
    is($admin->call(GET => '/accounts/bob%40example.test')->{body}{address}, 'bob@example.test', 'an escaped path');
    is_answer($admin->call(DELETE => '/domains/example.org'), 200, undef, 'removing');
};

subtest 'two people change one thing' => sub {
    my $seen = $admin->call(GET => '/accounts/bob@example.test')->{body};
    my $bob = Posthouse::Console->new($server);
    $bob->login('bob@example.test');
    is_answer($admin->call(PATCH => '/accounts/bob@example.test', {name => 'Bob', if_version => $seen->{version}}), 200, undef, 'the first');
    is_answer($bob->call(GET => '/session'), 200, undef, 'which logs nobody out');
    my $second = is_answer($admin->call(PATCH => '/accounts/bob@example.test', {name => 'Robert', if_version => $seen->{version}}),
        409, 'conflict', 'the second');
    is($second->{current}{name}, 'Bob', 'is shown what is there now');
    my $key = '/settings/http.limits.head_bytes';
    my $setting = $admin->call(GET => $key)->{body};
    is_answer($admin->call(PUT => $key, {value => '40000', if_version => $setting->{version}}), 200, undef, 'a setting');
    is_answer($admin->call(PUT => $key, {value => '50000', if_version => $setting->{version}}), 409, 'conflict', 'the second');
    is_answer($admin->call(DELETE => $key), 200, undef, 'and back');
};

subtest 'roles' => sub {
    $server->cli_ok(qw(tenant add customer));
    $server->cli_ok(qw(domain add customer.example --tenant customer));
    $server->user_add('carol@customer.example');
    $server->cli_ok([qw(operator add customer-admin --tenant customer --password-stdin)], "$Posthouse::password\n");
    my $tenant = Posthouse::Console->new($server);
    is($tenant->login('customer-admin')->{body}{role}, 'tenant', 'an administrator of a tenant');
    is_deeply([map { $_->{name} } @{ $tenant->call(GET => '/domains')->{body}{items} }], ['customer.example'], 'sees the own domains');
    is_deeply([map { $_->{address} } @{ $tenant->call(GET => '/accounts')->{body}{items} }], ['carol@customer.example'], 'and accounts');
    is_answer($tenant->call(GET => '/accounts/alice@example.test'), 404, 'not-found', 'others are not there');
    is_answer($tenant->call(POST => '/accounts', {address => 'eve@example.test', password => 'longer-horse-8'}), 404, 'not-found', 'nor can be made');
    is_answer($tenant->call(POST => '/aliases', {address => 'x@example.test', target => 'carol@customer.example'}), 404, 'not-found', 'nor aliases');
    is_answer($tenant->call(GET => '/settings'), 403, 'denied', 'settings');
    is_answer($tenant->call(POST => '/accounts', {address => 'dave@customer.example', password => 'longer-horse-8'}), 200, undef, 'an own account');
    is_answer($tenant->call(POST => '/sites', {name => 'www.customer.example', root => '/etc'}), 403, 'denied', 'a folder of the host');
    is_answer($tenant->call(POST => '/sites', {name => '*'}), 403, 'denied', 'all other names');
    is_answer($tenant->call(POST => '/sites', {name => 'www.customer.example'}), 200, undef, 'an own site');
    my $audit = $tenant->call(GET => '/audit')->{body}{items};
    ok((grep { $_->{action} eq 'user.add' && $_->{target} eq 'dave@customer.example' } @$audit), 'the own part of the audit log');
    ok(!(grep { $_->{target} =~ /example\.test/ && $_->{outcome} eq 'done' } @$audit), 'and no other');

    my $user = Posthouse::Console->new($server);
    is($user->login('alice@example.test')->{body}{role}, 'user', 'a user');
    is_answer($user->call(GET => '/accounts/alice@example.test'), 200, undef, 'sees the own account');
    is_answer($user->call(GET => '/accounts/bob@example.test'), 404, 'not-found', 'and no other');
    is_answer($user->call(GET => '/accounts'), 403, 'denied', 'no list');
    is_deeply([sort keys %{ $user->call(GET => '/status')->{body} }], [qw(database host_name state version)], 'and little of the host');
    is_answer($user->call(GET => '/accounts/alice@example.test/mailboxes'), 200, undef, 'the own mailboxes');
    is_answer($user->call(PUT => '/accounts/alice@example.test/password', {password => 'longer-horse-8'}), 400, 'syntax', 'a new password needs the old');
    my $app = is_answer($user->call(POST => '/accounts/alice@example.test/app-passwords', {label => 'phone'}), 200, undef, 'an app password');
    is_answer(Posthouse::Console->new($server)->login('alice@example.test', $app->{password}), 401, 'denied', 'does not open the console');
};

subtest 'nobody gets more than was meant' => sub {
    for my $words (['operator add wide --tenant installation --password-stdin'], ['api-key add wide --tenant installation']) {
        my ($status, $text) = $server->cli([split / /, $words->[0]], "$Posthouse::password\n");
        isnt($status, 0, $words->[0]);
        like($text, qr/is the installation itself/, 'is refused');
    }
    my $tenant = Posthouse::Console->new($server);
    $tenant->login('customer-admin');
    is_answer($tenant->call(POST => '/domains', {name => 'gmail.example'}), 403, 'denied', 'a tenant takes no domain');
    is_answer($tenant->call(POST => '/sites', {name => 'www.example.test'}), 403, 'denied', 'nor a name of others');
    is_answer($tenant->call(PATCH => '/sites/www.customer.example', {names => '*.example.test'}), 403, 'denied', 'nor as a second name');
    is_answer($tenant->call(PATCH => '/sites/www.customer.example', {names => 'shop.customer.example'}), 200, undef, 'but one of its own');
    is_answer($admin->call(POST => '/actions/console.link', {}), 403, 'denied', 'a link is made on the server only');
    $server->cli_ok([qw(operator add twin --password-stdin)], "$Posthouse::password\n");
    my $twin = Posthouse::Console->new($server);
    $twin->login('twin');
    $server->cli_ok(qw(operator remove twin));
    $server->cli_ok([qw(operator add twin --password-stdin)], "another-horse-9\n");
    is_answer($twin->call(GET => '/session'), 401, undef, 'another of the same name does not find the session');
    $server->cli_ok(qw(operator remove twin));
    my $big = 'x' x 100_000;
    $admin->call(PUT => '/scripts/long', {text => "return {} -- $big"});
    my $log = $admin->call(GET => '/audit?action=lua.install')->{content};
    cmp_ok(length $log, '<', 20_000, 'a long text is in the audit log by its hash');
    my $nobody = Posthouse::Console->new($server);
    is_answer($nobody->raw(GET => '/api/v1/events?topics=status'), 401, undef, 'a stream needs a login');
    is($admin->raw(POST => '/')->{status}, 405, 'pages are read only');
};

subtest 'sessions end with their reason' => sub {
    my $user = Posthouse::Console->new($server);
    $user->login('bob@example.test');
    is_answer($user->call(GET => '/session'), 200, undef, 'before');
    $server->cli_ok(qw(user suspend bob@example.test));
    is_answer($user->call(GET => '/session'), 401, undef, 'suspended');
    $server->cli_ok(qw(user activate bob@example.test));
    is_answer($user->call(GET => '/session'), 401, undef, 'a session does not come back');
    $user->login('bob@example.test');
    $server->cli_ok([qw(user passwd bob@example.test --password-stdin)], "another-horse-9\n");
    is_answer($user->call(GET => '/session'), 401, undef, 'a new password');
    $server->cli_ok([qw(operator add second --password-stdin)], "$Posthouse::password\n");
    my $second = Posthouse::Console->new($server);
    $second->login('second');
    $server->cli_ok(qw(operator remove second));
    is_answer($second->call(GET => '/session'), 401, undef, 'an operator who is no more');
};

subtest 'API keys' => sub {
    my $made = is_answer($admin->call(POST => '/api-keys', {label => 'script'}), 200, undef, 'a key');
    my $program = Posthouse::Console->new($server, key => $made->{key});
    is_answer($program->call(GET => '/domains'), 200, undef, 'reads');
    is_answer($program->call(POST => '/domains', {name => 'by-key.example'}), 200, undef, 'and changes, without a cookie');
    like($server->cli_ok(qw(audit list --action domain.add)), qr/key:script +127\.0\.0\.1 +domain\.add +by-key\.example/, 'and is in the audit log');
    unlike($server->cli_ok(qw(audit list --limit 1000)), qr/\Q$made->{key}\E/, 'but not its text');
    is_answer($admin->call(DELETE => "/api-keys/$made->{id}"), 200, undef, 'ending it');
    is_answer($program->call(GET => '/domains'), 401, undef, 'and it is over');
    is_answer(Posthouse::Console->new($server, key => 'nonsense')->call(GET => '/domains'), 401, undef, 'no key at all');
};

subtest 'before and after' => sub {
    $admin->call(PATCH => '/accounts/bob@example.test', {quota_bytes => 5_000_000});
    my ($entry) = grep { $_->{action} eq 'user.change' } @{ $admin->call(GET => '/audit?limit=5')->{body}{items} };
    is($entry->{actor}, 'admin', 'by whom');
    is(decode_json($entry->{before})->{quota_bytes}, 0, 'before');
    is(decode_json($entry->{after})->{quota_bytes}, 5_000_000, 'after');
};

subtest 'the description' => sub {
    my $document = is_answer($admin->call(GET => '/openapi.json'), 200, undef, 'OpenAPI');
    is($document->{openapi}, '3.1.0', 'its version');
    my %seen;
    for my $path (keys %{ $document->{paths} }) {
        for my $method (keys %{ $document->{paths}{$path} }) {
            my $operation = $document->{paths}{$path}{$method};
            ok(!$seen{ $operation->{operationId} }++, "$operation->{operationId} once");
            my %in_path = map { $_->{name} => 1 } grep { $_->{in} eq 'path' } @{ $operation->{parameters} };
            is(join(' ', sort keys %in_path), join(' ', sort $path =~ /\{(\w+)\}/g), "$method $path: its parameters");
        }
    }
    cmp_ok(scalar keys %seen, '>', 50, 'all actions');
};

subtest 'pages' => sub {
    my $entry = $admin->raw(GET => '/');
    is($entry->{status}, 200, 'the entry');
    like($entry->{headers}{'content-security-policy'}, qr/^default-src 'none'; script-src 'self'/, 'a strict policy');
    is($entry->{headers}{'cache-control'}, 'no-cache', 'is asked for each time');
    my ($script) = $entry->{content} =~ m{src="(/assets/app-\w+\.js)"};
    my $asset = $admin->raw(GET => $script, headers => {'Accept-Encoding' => 'gzip, br'});
    is($asset->{headers}{'content-encoding'}, 'br', 'its script is compressed');
    like($asset->{headers}{'cache-control'}, qr/immutable/, 'and kept');
    is($admin->raw(GET => $script)->{headers}{'content-encoding'}, undef, 'or not, as the client likes');
    for my $path ('/assets/nothing.js', '/assets/../index.html', '/assets/%2e%2e/index.html', '/nothing', '/assets/') {
        is($admin->raw(GET => $path)->{status}, 404, "$path is not there");
    }
};

subtest 'events' => sub {
    my $socket = IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $server->port('console'),
        SSL_verifycn_name => 'localhost', SSL_ca_file => $server->ca_file) or die "connect: $SSL_ERROR";
    print $socket "GET /api/v1/events?topics=status,log HTTP/1.1\r\nHost: localhost\r\nCookie: __Host-posthouse=$admin->{token}\r\n\r\n";
    my $text = '';
    $socket->timeout(15);
    while ($text !~ /event: log/) {
        sysread $socket, $text, 65536, length $text or last;
    }
    like($text, qr{^Content-Type: text/event-stream\r$}m, 'a stream');
    like($text, qr/^event: status\r?\ndata: \{"state":"available"/m, 'the status');
    like($text, qr/^event: log\r?\ndata: \{"items":\[/m, 'and the log');
    close $socket;
};

subtest 'hostile requests' => sub {
    for my $query ('', '?topics=', '?topics=nothing', '?topics=status') {
        is(Posthouse::Console->new($server)->raw(GET => "/api/v1/events$query")->{status}, 401, "no stream$query for strangers");
    }
    is($admin->raw(GET => '/api/v1/events')->{content}, "retry: 3000\n\n:\n\n", 'a stream of nothing ends at once');
    for my $bytes ("\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", 'A' x 100_000, "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /api/v1/domains HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{") {
        my $socket = IO::Socket::SSL->new(PeerAddr => '127.0.0.1', PeerPort => $server->port('console'),
            SSL_verify_mode => SSL_VERIFY_NONE) or die "connect: $SSL_ERROR";
        local $SIG{PIPE} = 'IGNORE';
        syswrite $socket, $bytes;
        close $socket;
    }
    for my $body ('{"login":1,"password":"x"}', '{"login":"admin","password":2.5}', '{"login":true,"password":[]}', '{"login":{}}', '[]', '{}') {
        my $answer = Posthouse::Console->new($server)->raw(POST => '/api/v1/session',
            headers => { 'Content-Type' => 'application/json' }, content => $body);
        like($answer->{status}, qr/^40[01]$/, "a login of $body");
    }
    is(Posthouse::Console->new($server)->call(POST => '/session/link', { token => 1 })->{status}, 401, 'a link that is a number');
    is_answer($admin->call(GET => '/status'), 200, undef, 'it goes on');
};

subtest 'replacing the console itself' => sub {
    is_answer($admin->call(POST => '/plugins/admin/stop', {}), 409, 'conflict', 'it cannot stop itself');
    is_answer($admin->call(POST => '/plugins/admin/replace', {}), 200, undef, 'but be replaced');
    my $fresh = Posthouse::Console->new($server, token => $admin->{token}, csrf => $admin->{csrf});
    is_answer($fresh->call(GET => '/domains'), 200, undef, 'the session goes on in the new one');
    is_answer($admin->call(GET => '/domains'), 200, undef, 'and on the old connection');
};

done_testing;
