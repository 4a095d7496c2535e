#!/usr/bin/perl
# http.t - the web server as clients meet it: sites, files, pages, TLS, logs, plugins' handlers, hostile clients
# suite: core
use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use File::Path qw(make_path);
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;
use Time::HiRes qw(sleep time);
use Posthouse;

my $server = Posthouse->start(accounts => 0,
    conf => { allowed_ports => '7,24,25,80,143,443,465,587,993,8443' }, settings => { 'server.plugins' => 'smtp,imap,http' });
my $state = $server->state;
my $root = "$state/sites/www";
make_path($root);
chmod 0755, "$state/sites", $root;
my $access_log = "$state/log/access.log";

sub file {
    my ($path, $text) = @_;
    my ($folder) = "$root/$path" =~ m{(.*)/};
    make_path($folder);
    Posthouse::spew("$root/$path.new", $text);
    chmod 0644, "$root/$path.new";
    rename "$root/$path.new", "$root/$path" or die "$path: $!";
}

# Runs curl; gives its exit status and what it printed.
sub curl {
    my ($url, @options) = @_;
    my $port = $server->port($url =~ /^https/ ? 'https' : 'http');
    $url =~ s{^(https?)://([^/:]+)}{$1://$2:$port};
    return Posthouse::run(['curl', '-sS', '--max-time', 20, '--noproxy', '*', '--cacert', $server->ca_file,
        '--connect-to', '::127.0.0.1:', @options, $url]);
}

# Head and body of an answer.
sub get {
    my ($url, @options) = @_;
    my ($status, $text) = curl($url, '-i', @options);
    return "curl: $status: $text" if $status;
    my @parts = split /\r\n\r\n/, $text, 2;
    @parts = split /\r\n\r\n/, $parts[1], 2 if $parts[0] =~ m{^HTTP/1.1 100};
    return wantarray ? @parts : $parts[0];
}

sub connection {
    my ($service, $buffer) = @_;
    my $socket = IO::Socket::INET->new(Proto => 'tcp') or die "socket: $!";
    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, $buffer if $buffer;
    $socket->connect(pack_sockaddr($server->port($service // 'http'))) or die "connect: $!";
    return $socket;
}

sub pack_sockaddr { Socket::pack_sockaddr_in($_[0], Socket::inet_aton('127.0.0.1')) }

sub log_lines { split /\n/, Posthouse::slurp($access_log) // '' }

sub daemon_rss_kb {
    my ($kb) = (Posthouse::slurp('/proc/' . $server->pid('daemon') . '/status') // '') =~ /^VmRSS:\s+(\d+)/m;
    return $kb;
}

file('index.html', "<p>welcome</p>\n");
file('small.txt', 'x' x 1000);
my $large = join '', map { sha1_hex($_) } 1 .. 50_000; # 2 MB
file('large.bin', $large);
$server->cli_ok(qw(site add www.example.test --names localhost --root), $root);

subtest 'files' => sub {
    my ($head, $body) = get('http://www.example.test/');
    like($head, qr{^HTTP/1.1 200 OK\r\n}, 'an index');
    is($body, "<p>welcome</p>\n", 'with its text');
    unlike($head, qr/^server:|posthouse/im, 'and no word about the server');
    ($head, $body) = get('http://www.example.test/large.bin');
    is(sha1_hex($body), sha1_hex($large), 'a large file, plain');
    ($head, $body) = get('https://localhost/large.bin');
    is(sha1_hex($body // ''), sha1_hex($large), 'and with TLS');
    like(scalar get('http://other.example.test/'), qr{^HTTP/1.1 404 }, 'a name that nobody has');
    symlink '/etc/passwd', "$root/passwd";
    like(scalar get('http://www.example.test/passwd'), qr{^HTTP/1.1 404 }, 'a link out of the root');
    symlink 'small.txt', "$root/link.txt";
    like(scalar get('http://www.example.test/link.txt'), qr{^HTTP/1.1 200 }, 'a link inside');
    Posthouse::run(['mkfifo', "$root/pipe"]);
    like(scalar get('http://www.example.test/pipe'), qr{^HTTP/1.1 404 }, 'a pipe');
    like(scalar get('http://www.example.test/../../secret.key', '--path-as-is'), qr{^HTTP/1.1 400 }, 'above the root');
    file('closed.txt', 'x');
    chmod 0, "$root/closed.txt";
    SKIP: {
        skip 'the daemon may read everything', 1 if $> == 0 && !$ENV{PH_TEST_USER};
        like(scalar get('http://www.example.test/closed.txt'), qr{^HTTP/1.1 403 }, 'what may not be read');
    }
};

subtest 'what is asked for in parts' => sub {
    for my $scheme (qw(http https)) {
        my ($head, $body) = get("$scheme://localhost/large.bin", '-r', '1000000-1000999');
        like($head, qr{^HTTP/1.1 206 .*^Content-Range: bytes 1000000-1000999/2000000\r?$}ms, "$scheme: a range");
        is($body, substr($large, 1000000, 1000), 'is the right one');
        ($head, $body) = get("$scheme://localhost/large.bin", '-r', '0-9,1999990-');
        my ($boundary) = $head =~ /boundary=(\S+)/;
        my @parts = split /\r?\n?--\Q$boundary\E(?:--)?\r\n/, $body;
        is(scalar(@parts), 3, 'two ranges');
        like($parts[1], qr/\r\n\r\n\Q${\ substr($large, 0, 10)}\E$/, 'the first');
        like($parts[2], qr/\r\n\r\n\Q${\ substr($large, -10)}\E$/, 'the last');
    }
    my ($status, $text) = curl('http://localhost/large.bin', '-o', "$state/part", '-r', '0-999');
    ($status, $text) = curl('http://localhost/large.bin', '-o', "$state/part", '-C', '-');
    is(sha1_hex(Posthouse::slurp("$state/part")), sha1_hex($large), 'a download that is continued');
};

subtest 'cold files' => sub {
    # The kernel forgets what it has of these files, where the file system lets it.
    for my $scheme (qw(http https)) {
        Posthouse::run(['dd', "of=$root/$_", 'oflag=nocache', 'conv=notrunc,fdatasync', 'count=0', 'status=none'])
            for 'large.bin', 'small.txt';
        is(sha1_hex((get("$scheme://localhost/large.bin"))[1]), sha1_hex($large), "$scheme: a large one");
        is((get("$scheme://localhost/small.txt"))[1], 'x' x 1000, 'a small one');
    }
};

subtest 'conditions' => sub {
    my ($etag) = scalar(get('http://localhost/small.txt')) =~ /^ETag: (\S+)\r?$/m;
    like(scalar get('http://localhost/small.txt', '-H', "If-None-Match: $etag"), qr{^HTTP/1.1 304 }, 'known already');
    my ($date) = scalar(get('http://localhost/small.txt')) =~ /^Last-Modified: (.*?)\r?$/m;
    like(scalar get('http://localhost/small.txt', '-H', "If-Modified-Since: $date"), qr{^HTTP/1.1 304 }, 'by its date');
    file('small.txt', 'y' x 1000);
    sleep 1.1;
    my ($head, $body) = get('http://localhost/small.txt', '-H', "If-None-Match: $etag");
    like($head, qr{^HTTP/1.1 200 }, 'changed');
    is($body, 'y' x 1000, 'the new text');
    unlink "$root/small.txt";
    sleep 1.1;
    like(scalar get('http://localhost/small.txt'), qr{^HTTP/1.1 404 }, 'removed');
    file('small.txt', 'x' x 1000);
    sleep 1.1;
    like(scalar get('http://localhost/small.txt'), qr{^HTTP/1.1 200 }, 'and there again');
};

subtest 'a root that is swapped' => sub {
    make_path("$state/sites/v1", "$state/sites/v2");
    Posthouse::spew("$state/sites/v$_/index.html", "version $_") for 1, 2;
    symlink 'v1', "$state/sites/current";
    $server->cli_ok(qw(site add swap.example.test --root), "$state/sites/current");
    is((get('http://swap.example.test/'))[1], 'version 1', 'before');
    symlink 'v2', "$state/sites/next";
    rename "$state/sites/next", "$state/sites/current";
    sleep 1.1;
    is((get('http://swap.example.test/'))[1], 'version 2', 'after');
};

subtest 'TLS' => sub {
    my ($status, $text) = curl('https://localhost/', '--tlsv1.3', '-o', '/dev/null', '-w', '%{http_version} %{ssl_verify_result}');
    is($text, '1.1 0', 'verified');
    my $port = $server->port('https');
    my $s_client = sub { Posthouse::run(['openssl', 's_client', '-connect', "127.0.0.1:$port", '-servername', 'localhost', @_], "Q\n") };
    ($status, $text) = $s_client->('-alpn', 'h2,http/1.1');
    like($text, qr{ALPN protocol: http/1.1}, 'the protocol is agreed on');
    ($status, $text) = $s_client->('-alpn', 'imap');
    like($text, qr/no application protocol|alert number 120/, 'another protocol is refused');
    like(scalar get('https://localhost/', '-H', 'Host: nobody.example.test'), qr{^HTTP/1.1 421 }, 'a name that nobody has');
    like(scalar get('http://localhost/', '-d', 'x', '-H', 'Host: localhost'), qr{^HTTP/1.1 405 }, 'plain');
    $server->cli_ok(qw(site change www.example.test --https_only=yes));
    $server->set('http.https.port', $port);
    ok(Posthouse::wait_until(3, sub { scalar(get('http://localhost/a?b')) =~ m{^HTTP/1.1 301 .*^Location: https://localhost:$port/a\?b\r?$}ms }),
        'https_only sends there');
    is((curl('http://localhost/', '-L'))[1], "<p>welcome</p>\n", 'where it is');
    $server->cli_ok(qw(site change www.example.test --https_only=no));
    ok(Posthouse::wait_until(3, sub { scalar(get('http://localhost/')) =~ m{^HTTP/1.1 200 } }), 'and back');
};

subtest 'routes' => sub {
    make_path("$root/manual");
    file('manual/one.txt', 'one');
    $server->cli_ok(qw(route add www.example.test /docs static manual));
    $server->cli_ok(qw(route add www.example.test /old redirect), '301 /docs/');
    $server->cli_ok(qw(route add www.example.test /echo example));
    ok(Posthouse::wait_until(3, sub { (get('http://localhost/docs/one.txt'))[1] eq 'one' }), 'a folder under another name');
    like(scalar get('http://localhost/docs/../index.html', '--path-as-is'), qr{^HTTP/1.1 200 }, 'whose prefix can be left');
    like(scalar get('http://localhost/docsx'), qr{^HTTP/1.1 404 }, 'a prefix ends at a slash');
    like(scalar get('http://localhost/old/one.txt?x'), qr{^HTTP/1.1 301 .*^Location: /docs/one\.txt\?x\r?$}ms, 'a redirection');
    like(scalar get('http://localhost/echo'), qr{^HTTP/1.1 503 }, 'a handler that does not run');
};

subtest 'a handler of another plugin' => sub {
    $server->cli_ok(qw(plugin start example));
    my ($head, $body) = get('http://localhost/echo/x%20y', '-d', 'hello');
    like($head, qr{^HTTP/1.1 200 .*^X-Example-Path: /echo/x y\r?$}ms, 'answers');
    is($body, 'hello', 'with what it was sent');
    Posthouse::spew("$state/upload", $large x 4);
    ($head, $body) = get('http://localhost/echo', '--data-binary', "\@$state/upload");
    is(sha1_hex($body), sha1_hex($large x 4), '8 MB through it and back');
    ($head, $body) = get('https://localhost/echo', '--data-binary', "\@$state/upload", '-H', 'Transfer-Encoding: chunked');
    is(sha1_hex($body), sha1_hex($large x 4), 'and in chunks, with TLS');
    like(scalar get('http://localhost/echo', '-X', 'PUT'), qr{^HTTP/1.1 405 .*^Allow: GET, HEAD, POST, OPTIONS\r?$}ms, 'its methods only');

    # A client that sends and does not read holds neither memory nor others.
    my $stuck = connection('http', 4096);
    my $before = daemon_rss_kb();
    print $stuck "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n\r\n";
    $stuck->blocking(0);
    my ($sent, $chunk) = (0, 'z' x 65536);
    my $end = time + 2;
    while (time < $end) {
        my $n = syswrite $stuck, $chunk;
        if ($n) { $sent += $n } else { sleep 0.02 }
    }
    cmp_ok($sent, '<', 20_000_000, 'is not read from for ever');
    cmp_ok(daemon_rss_kb() - $before, '<', 8192, 'and costs little');

    # Replaced and stopped under load.
    my $stop = "$state/stop-load";
    my @pids;
    for (1 .. 2) {
        my $pid = fork // die "fork: $!";
        if ($pid == 0) {
            my $n = 0;
            until (-e $stop) {
                my (undef, $text) = get('http://localhost/echo', '-d', "ping $n");
                POSIX::_exit(1) unless ($text // '') eq "ping $n";
                $n++;
            }
            POSIX::_exit($n > 5 ? 0 : 2);
        }
        push @pids, $pid;
    }
    for (1 .. 5) {
        $server->cli_ok(qw(plugin replace example));
        sleep 0.2;
    }
    Posthouse::spew($stop, '');
    my @status = map { waitpid $_, 0; $? >> 8 } @pids;
    is("@status", '0 0', 'five replacements, and every request was answered');
    close $stuck;
    $server->cli_ok(qw(plugin stop example --deadline_s 5));
    like(scalar get('http://localhost/echo'), qr{^HTTP/1.1 503 }, 'stopped: its routes say so');
    ok(Posthouse::wait_until(5, sub { $server->cli_ok(qw(plugin list)) !~ /^example/m }), 'and it is unloaded');
};

subtest 'clients that leave, files that change' => sub {
    for my $service (qw(http https)) {
        my @sockets;
        for (1 .. 20) {
            if ($service eq 'http') {
                my $socket = connection('http', 4096);
                print $socket "GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
                sysread $socket, my $some, 1000;
                push @sockets, $socket;
            } else {
                my $client = Posthouse::Client->connect(port => $server->port('https'), ca_file => $server->ca_file, tls => 1);
                $client->send_line("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n");
                $client->line(5);
                push @sockets, $client;
            }
        }
        $_->close for @sockets;
    }
    ok(Posthouse::wait_until(10, sub { $server->cli_ok(qw(session list)) !~ /^\S*https?\b/m }), 'left in the middle: none stays')
        or diag($server->cli_ok(qw(session list)));

    file('shrinks.bin', $large x 10);
    my $reader = connection('http', 4096);
    print $reader "GET /shrinks.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";
    sysread $reader, my $got, 1000;
    truncate "$root/shrinks.bin", 1000;
    my $total = length $got;
    local $SIG{ALRM} = sub { die "hangs\n" };
    alarm 20;
    while (sysread $reader, my $some, 65536) { $total += length $some }
    alarm 0;
    cmp_ok($total, '<', 20_000_000, 'a file that shrinks ends the connection');

    file('replaced.bin', $large x 10);
    $reader = connection('http', 4096);
    print $reader "GET /replaced.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    sysread $reader, $got, 1000;
    file('replaced.bin', 'new');
    alarm 20;
    while (sysread $reader, my $some, 65536) { $got .= $some }
    alarm 0;
    my (undef, $body) = split /\r\n\r\n/, $got, 2;
    is(sha1_hex($body), sha1_hex($large x 10), 'a file that is replaced is sent as it was');
};

subtest 'pages' => sub {
    file('hello.lua', "return function(request)\n  return 'hello ' .. request.path\nend\n");
    my ($head, $body) = get('http://localhost/hello.lua');
    like($head, qr{^HTTP/1.1 200 }, 'run');
    is($body, 'hello /hello.lua', 'and say what they say');
    file('lua/index.lp', "<p><%= 1 + 1 %></p>\n");
    is((get('http://localhost/lua/'))[1], "<p>2</p>\n", 'a template, as an index');
    file('broken.lua', "return function() error('inside') end\n");
    ($head, $body) = get('http://localhost/broken.lua');
    like($head, qr{^HTTP/1.1 500 }, 'one that fails');
    unlike($body, qr/inside|broken\.lua:/, 'does not tell visitors why');
    my ($id) = $body =~ /failed \((\S+)\)/;
    like($server->log, qr/http\.page: page="broken\.lua" id=\Q$id\E .*inside/, 'but the log, under the id that they see');
    file('echo.lua', "return function(request)\n  return #(request.body or '') .. ' ' .. request.method\nend\n");
    is((get('http://localhost/echo.lua', '-d', 'x' x 5000))[1], '5000 POST', 'with a body');
    is((get('http://localhost/echo.lua', '-d', 'x' x 5000, '-H', 'Transfer-Encoding: chunked'))[1], '5000 POST', 'in chunks');
    Posthouse::spew("$state/upload", 'x' x 2_000_000);
    is((get('http://localhost/echo.lua', '--data-binary', "\@$state/upload", '-X', 'PUT'))[1], '2000000 PUT', 'a large one');
    $server->set('http.page.body_bytes', '1M');
    like(scalar get('http://localhost/echo.lua', '--data-binary', "\@$state/upload"), qr{^HTTP/1.1 413 }, 'up to a limit');
    file('data.txt', "some\0bytes\n");
    file('reads.lua', <<'LUA');
return function(request, response)
  local ok, why = pcall(posthouse.site.read, "reads.lua")
  local missing = posthouse.site.read("missing.txt")
  local folder = posthouse.site.read("sub")
  local _, hidden = pcall(posthouse.site.read, "../posthouse.conf")
  return string.format("%s|%s|%s|%s|%s", posthouse.site.read("/data.txt"), missing, folder, ok, hidden)
end
LUA
    like((get('http://localhost/reads.lua'))[1], qr/^some\0bytes\n\|nil\|nil\|false\|.*may be sent/, 'they read files of their site, and nothing else');
    $server->cli_ok(qw(site change www.example.test --pages=no));
    ok(Posthouse::wait_until(5, sub { scalar(get('http://localhost/hello.lua')) =~ m{^HTTP/1.1 404 } }),
        'where pages are off, they are not there');
};

subtest 'http.access' => sub {
    Posthouse::spew("$state/access.lua", <<'END');
return {
    ["http.access"] = function(ctx)
        if ctx.path:sub(1, 9) == "/private/" then return reject(401, 'the "house"') end
        if ctx.path == "/closed" then return reject(410, "gone for good") end
        if ctx.path == "/away" then return redirect("https://www.example.org/") end
        if ctx.path == "/fails" then error("broken") end
    end,
}
END
    my ($status, $text) = $server->cli(qw(lua install access), "$state/access.lua", '--scope', 'global', '--activate');
    is($status, 0, 'a script is installed') or diag($text);
    my $head;
    ok(Posthouse::wait_until(5, sub { $head = get('http://localhost/private/x'); $head =~ m{^HTTP/1.1 401 } }), 'a login is asked for');
    like($head, qr{^WWW-Authenticate: Basic realm="the house", charset="UTF-8"\r?$}m, 'with its realm');
    like(scalar get('http://localhost/closed'), qr{^HTTP/1.1 410 }, 'a refusal with its code');
    like(scalar get('http://localhost/away'), qr{^HTTP/1.1 302 .*^Location: https://www\.example\.org/\r?$}ms, 'a redirection');
    like(scalar get('http://localhost/fails'), qr{^HTTP/1.1 503 }, 'a script that fails lets nobody in');
    like(scalar get('http://localhost/'), qr{^HTTP/1.1 200 }, 'everything else goes on');
    my $raw = connection();
    print $raw "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" x 50, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    local $/;
    is(scalar(() = <$raw> =~ m{^HTTP/1.1 200 OK}mg), 51, 'sent ahead, answered in order');
    $server->cli_ok(qw(lua remove access));
};

subtest 'access log' => sub {
    get('http://localhost/small.txt', '-A', qq(a"b\\c\xffd), '-e', 'http://referer.example.org/');
    ok(Posthouse::wait_until(5, sub { grep { /referer\.example\.org/ } log_lines() }), 'a line');
    my ($line) = grep { /referer\.example\.org/ } log_lines();
    like($line, qr{^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "GET /small\.txt HTTP/1\.1" 200 1000 "http://referer\.example\.org/" "a\\x22b\\x5Cc\\xFFd"$},
        'in the combined form, escaped');
    my $raw = connection();
    print $raw "GET /\x01 HTTP/1.1\r\n\r\n";
    local $/;
    like(scalar <$raw>, qr{^HTTP/1.1 400 }, 'a malformed request');
    ok(Posthouse::wait_until(5, sub { grep { m{"GET /\\x01 HTTP/1\.1" 400 } } log_lines() }), 'is in it too');

    rename $access_log, "$access_log.1";
    sleep 1.1;
    get('http://localhost/small.txt?rotated');
    ok(Posthouse::wait_until(5, sub { grep { /rotated/ } log_lines() }), 'the file is made anew when it was renamed');

    $server->set('http.log.format', 'json');
    get('http://localhost/small.txt?json', '-A', qq(x"y));
    ok(Posthouse::wait_until(5, sub { grep { /\?json/ } log_lines() }), 'JSON');
    my ($object) = map { decode_json($_) } grep { /\?json/ } log_lines();
    is_deeply([@$object{qw(method target status bytes site host user_agent)}],
        ['GET', '/small.txt?json', 200, 1000, 'www.example.test', 'localhost', 'x"y'], 'with its fields');
    $server->cli_ok(qw(config unset http.log.format));
};

subtest 'settings change under load' => sub {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $socket = connection();
        my $n = 0;
        my $buffer = '';
        my $end = time + 60;
        until (-e "$state/stop-settings" || time > $end) {
            print $socket "GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
            until ($buffer =~ /\r\n\r\nx{1000}/) {
                sysread($socket, $buffer, 65536, length $buffer) or POSIX::_exit(1);
            }
            POSIX::_exit(2) unless $buffer =~ m{^HTTP/1.1 200 };
            $buffer = '';
            $n++;
            if ($n % 900 == 0) { close $socket; $socket = connection() }
        }
        POSIX::_exit($n > 100 ? 0 : 3);
    }
    $server->set('http.timeout.idle_s', 50 + $_) for 1 .. 100;
    Posthouse::spew("$state/stop-settings", '');
    waitpid $pid, 0;
    is($? >> 8, 0, 'a hundred changes, and no request failed');
};

my $text = $server->cli_ok('status');
is($server->stop, 0, 'it stops cleanly');
done_testing;
