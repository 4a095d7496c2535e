#!/usr/bin/perl
# whole.t - from nothing to mail, a page out of the database and a policy, by the command line alone
#
# tests/ui/ does the same in a browser.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use Posthouse;
use Test::More;

my $server = Posthouse->start(accounts => 0);
my $folder = tempdir(CLEANUP => 1);

sub file {
    my ($name, $text) = @_;
    Posthouse::spew("$folder/$name", $text);
    return "$folder/$name";
}

sub items { decode_json($server->cli_ok('--json', @_))->{answer}{items} }

sub send_mail {
    my ($sender) = @_;
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    return $smtp->mail($sender, 'alice@example.test', "From: <$sender>\r\nSubject: =?utf-8?q?gr=C3=BC=C3=9Fe?=\r\n\r\nhello\r\n");
}

subtest 'nothing yet' => sub {
    is_deeply(items(qw(domain list)), [], 'no domain');
    like($server->cli_ok('checks'), qr/^domains .*warn .*Add the domain/m, 'the checks say what to do first');
};

subtest 'a domain, an account, a mail' => sub {
    $server->cli_ok(qw(domain add example.test));
    $server->user_add('alice@example.test');
    like(send_mail('ann@example.org'), qr/^250 /, 'a mail is taken');
    my ($message) = @{ items(qw(message list alice@example.test)) };
    is_deeply([@$message{qw(subject from)}], ["gr\x{fc}\x{df}e", '<ann@example.org>'], 'and seen');
    my ($inbox) = grep { $_->{name} eq 'INBOX' } @{ items(qw(mailbox list alice@example.test)) };
    is($inbox->{unseen}, 1, 'and counted');
    like($server->imap(login => 'alice')->cmd('SELECT INBOX'), qr/^OK/, 'its owner reads it');
};

subtest 'a site with a page out of the database' => sub {
    $server->cli_ok(qw(site add www.example.test));
    my $page = sub { scalar `curl -s --max-time 10 -H 'Host: www.example.test' 'http://localhost:@{[$server->port('http')]}/book'` };
    my $install = sub { $server->cli_ok(qw(lua install book), file('book.lua', $_[0]), '--activate') };
    $install->(<<'LUA');
return {
  ["http.content"] = function(req, res)
    posthouse.db.exec("CREATE TABLE IF NOT EXISTS book (title text)")
    if posthouse.db.query("SELECT count(*) AS n FROM book")[1].n == 0 then
      posthouse.db.exec("INSERT INTO book VALUES ($1)", "Stories")
    end
    res:write("the book is called ", posthouse.db.query("SELECT title FROM book")[1].title, "\n")
  end,
}
LUA
    $server->cli_ok(qw(route add www.example.test /book lua book));
    is($page->(), "the book is called Stories\n", 'a row is shown');
    $install->('return { ["http.content"] = function(req, res) res:write("another text\n") end }');
    is($page->(), "another text\n", 'the page is edited');
    my ($status, $text) = $server->cli(qw(lua install book), file('broken.lua', "return {\n  oops oops\n}\n"), '--activate');
    isnt($status, 0, 'a broken text is refused');
    like($text, qr/2.*oops/, 'with its line and why');
    is($page->(), "another text\n", 'and the old one stays');
    $server->cli_ok(qw(lua rollback book));
    is($page->(), "the book is called Stories\n", 'back');
};

subtest 'a policy' => sub {
    $server->cli_ok(qw(lua install policy),
        file('policy.lua', 'return { ["smtp.rcpt"] = function(ctx) if ctx.sender == "ann@example.org" then return reject(550, "not you") end end }'),
        '--activate');
    like(send_mail('ann@example.org'), qr/^550 .*not you/, 'a sender is refused');
    like(send_mail('bob@example.org'), qr/^250 /, 'others are not');
    $server->cli_ok(qw(lua install policy),
        file('policy.lua', 'return { ["smtp.rcpt"] = function(ctx) return reject(550, "nobody") end }'), '--activate');
    like(send_mail('bob@example.org'), qr/^550 .*nobody/, 'too much is refused');
    $server->cli_ok(qw(lua rollback policy));
    like(send_mail('bob@example.org'), qr/^250 /, 'rolled back');
    like(send_mail('ann@example.org'), qr/^550 .*not you/, 'to what was');
    $server->cli_ok(qw(lua deactivate policy));
    like(send_mail('ann@example.org'), qr/^250 /, 'and asked no more');
};

like($server->cli_ok(qw(audit list --limit 100)), qr/lua\.rollback +policy +done.*route\.add.*domain\.add +example\.test +done/s, 'all of it is in the audit log');
done_testing;
