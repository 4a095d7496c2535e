#!/usr/bin/perl
# lua.t - scripts decide about real mail: refuse, deliver elsewhere, fail safely, and are rolled back
# suite: core
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use Posthouse;
use Time::HiRes qw(time);

my $server = Posthouse->start;
my $folder = tempdir(CLEANUP => 1);

sub file {
    my ($name, $text) = @_;
    Posthouse::spew("$folder/$name", $text);
    return "$folder/$name";
}

# Installs and activates, or fails.
sub use_script {
    my ($on, $name, $text, @options) = @_;
    my ($status, $said) = $on->cli('lua', 'install', $name, file("$name.lua", $text), '--activate', @options);
    is($status, 0, "script $name is used") or diag($said);
}

sub show {
    my ($on, $name) = @_;
    my ($status, $said) = $on->cli('--json', 'lua', 'show', $name);
    return eval { decode_json($said)->{answer} } // {};
}

# What RCPT (or MAIL) is told.
sub rcpt {
    my ($on, $sender, $recipient) = @_;
    my $smtp = $on->smtp;
    $smtp->cmd('EHLO client.example.org');
    $smtp->cmd("MAIL FROM:<$sender>");
    return $smtp->cmd("RCPT TO:<$recipient>");
}

sub mail {
    my ($on, $sender, $recipients, $subject) = @_;
    my $smtp = $on->smtp;
    $smtp->cmd('EHLO client.example.org');
    return $smtp->mail($sender, $recipients, "From: <$sender>\r\nSubject: $subject\r\n\r\nbody\r\n");
}

# How many messages a mailbox has.
sub count {
    my ($on, $login, $mailbox) = @_;
    my $imap = $on->imap(login => $login);
    return -1 unless $imap->cmd("SELECT \"$mailbox\"") =~ /^OK/;
    my ($n) = map { /^\* (\d+) EXISTS/ ? $1 : () } $imap->untagged;
    return $n;
}

# -- installing --------------------------------------------------------------------------------------

my $good = file('good.lua', <<'LUA');
return {
  ["smtp.rcpt"] = function(ctx)
    if ctx.sender == "spam@example.org" then return reject(554, "no mail from you, " .. ctx.peer.ip) end
  end,
  tests = {
    ["spam is refused"] = function(run)
      assert(run("smtp.rcpt", { sender = "spam@example.org", peer = { ip = "x" } }).code == 554)
      assert(run("smtp.rcpt", { sender = "carol@example.org" }) == nil)
    end,
  },
}
LUA
my $broken = file('broken.lua', "return {\n  [\"smtp.rcpt\"] = function(ctx)\n    if then end\n  end,\n}\n");

my ($status, $said) = $server->cli('lua', 'check', $good);
like($said, qr/^ok\s+true$/m, 'a good text is found good');
is($status, 0, 'with status 0');
($status, $said) = $server->cli('lua', 'check', $broken);
is($status, 1, 'a broken one is told by the exit status');
like($said, qr/^line\s+3$/m, 'the line is named');
like($said, qr/^message\s+unexpected symbol/m, 'and the reason');
($status, $said) = $server->cli('lua', 'install', 'policy', $broken);
isnt($status, 0, 'it is not installed');
like($said, qr/line 3: unexpected symbol/, 'with line and reason');
($status, $said) = $server->cli('lua', 'install', 'policy', $good, '--note', 'first');
is($status, 0, 'a good one is installed') or diag($said);
like(rcpt($server, 'spam@example.org', 'alice@example.test'), qr/^250/, 'and does nothing yet');
($status, $said) = $server->cli('lua', 'test', 'policy');
like($said, qr/ok 1 - spam is refused\n.*1\.\.1/s, 'its tests run');
is(($server->cli('lua', 'activate', 'policy'))[0], 0, 'it is activated');
like(rcpt($server, 'spam@example.org', 'alice@example.test'), qr/^554 5\.7\.1 no mail from you, 127\.0\.0\.1/,
    'the sender is refused');
like(rcpt($server, 'carol@example.org', 'alice@example.test'), qr/^250/, 'others are not');

SKIP: {
    skip 'swaks is not here', 1 unless grep { -x "$_/swaks" } split /:/, $ENV{PATH};
    my ($swaks, $text) = Posthouse::run(['swaks', '--server', '127.0.0.1', '--port', $server->port('smtp'),
        '--from', 'spam@example.org', '--to', 'alice@example.test', '--ehlo', 'client.example.org']);
    like($text, qr/^<\*\* 554 5\.7\.1 no mail from you/m, 'as swaks sees it');
}

($status, $said) = $server->cli('lua', 'test', 'policy', '--hook', 'smtp.rcpt', '--input',
    file('input.json', '{"sender": "spam@example.org", "peer": {"ip": "192.0.2.1"}}'));
like($said, qr/"kind":"reject"/, 'a hook can be tried with an input');

# -- a broken one does not replace it, and back ------------------------------------------------------

($status, $said) = $server->cli('lua', 'install', 'policy', $broken, '--activate');
isnt($status, 0, 'a broken text does not replace it');
like(rcpt($server, 'spam@example.org', 'alice@example.test'), qr/^554/, 'the old one still decides');
my $failing = file('failing.lua', <<'LUA');
return {
  ["smtp.rcpt"] = function(ctx) return nil end,
  tests = { ["spam is refused"] = function(run)
    assert(run("smtp.rcpt", { sender = "spam@example.org" }), "spam passes") end },
}
LUA
($status, $said) = $server->cli('lua', 'install', 'policy', $failing, '--activate');
like($said, qr/test "spam is refused": .*spam passes/, 'nor does one whose test fails');

use_script($server, 'policy', 'return { ["smtp.rcpt"] = function() return reject(550, "second") end }');
like(rcpt($server, 'carol@example.org', 'alice@example.test'), qr/^550 5\.7\.1 second/, 'a second version');
is(($server->cli('lua', 'rollback', 'policy'))[0], 0, 'is rolled back');
like(rcpt($server, 'carol@example.org', 'alice@example.test'), qr/^250/, 'the first decides again');
is(show($server, 'policy')->{active_version}, 1, 'as is shown');
($status, $said) = $server->cli('lua', 'versions', 'policy');
like($said, qr/^2 .*\n1 .*\bfirst\b/m, 'both versions are kept');
is(($server->cli('lua', 'deactivate', 'policy'))[0], 0, 'it is put out of use');
like(rcpt($server, 'spam@example.org', 'alice@example.test'), qr/^250/, 'and decides nothing');
isnt(($server->cli('lua', 'activate', 'policy', '7'))[0], 0, 'a version that is not there');
is(($server->cli('lua', 'remove', 'policy'))[0], 0, 'it is removed');

# -- errors --------------------------------------------------------------------------------------------

use_script($server, 'errors', <<'LUA');
return {
  ["smtp.mail"] = function(ctx)
    if ctx.sender_domain == "blocked.example" then return reject("not this domain") end
    if ctx.sender_domain == "broken.example" then return nil .. "x" end
  end,
  ["smtp.rcpt"] = function(ctx)
    if ctx.sender == "error@example.org" then error("oops") end
    if ctx.sender == "loop@example.org" then while true do pcall(function() while true do end end) end end
  end,
  deliver = function(ctx)
    if ctx:header("subject") == "error" then error("oops") end
  end,
}
LUA
my $smtp = $server->smtp;
$smtp->cmd('EHLO client.example.org');
like($smtp->cmd('MAIL FROM:<x@blocked.example>'), qr/^550 5\.7\.1 not this domain/, 'MAIL can be refused');
like($smtp->cmd('MAIL FROM:<x@broken.example>'), qr/^451/, 'an error at MAIL is 451');
like($smtp->cmd('MAIL FROM:<error@example.org>'), qr/^250/, 'a sender');
like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^451 4\./, 'an error at RCPT is 451');
like($smtp->cmd('RCPT TO:<nobody@example.test>'), qr/^550/, 'for that recipient only');
my $begin = time;
like(rcpt($server, 'loop@example.org', 'alice@example.test'), qr/^451/, 'a loop is ended, with 451');
cmp_ok(time - $begin, '<', 8, 'soon');
my $shown = show($server, 'errors');
is($shown->{last_error_line}, 8, 'the line is kept');
like($shown->{last_error_input}, qr/loop\@example\.org/, 'with the input');
is($shown->{last_error_hook}, 'smtp.rcpt', 'and the hook');
my $before = count($server, 'alice', 'INBOX');
like(mail($server, 'carol@example.org', 'alice@example.test', 'error'), qr/^250/, 'an error at delivery');
is(count($server, 'alice', 'INBOX'), $before + 1, 'keeps the mail, in INBOX');

# While a script loops in all that the tenant may run, others are served.
my @loops = map { my $s = $server->smtp; $s->cmd('EHLO client.example.org'); $s->cmd('MAIL FROM:<loop@example.org>'); $s } 1 .. 3;
$_->send("RCPT TO:<alice\@example.test>\r\n") for grep { $_->can('send') } @loops;
$begin = time;
like($server->imap(login => 'bob')->cmd('SELECT INBOX'), qr/^OK/, 'IMAP goes on meanwhile');
cmp_ok(time - $begin, '<', 3, 'without waiting for the loops');
is(($server->cli('lua', 'remove', 'errors'))[0], 0, 'it is removed');

# -- the circuit breaker -------------------------------------------------------------------------------

$server->set('lua.breaker.errors', 3);
use_script($server, 'breaker', 'return { ["smtp.rcpt"] = function(ctx) error("always") end }');
rcpt($server, 'carol@example.org', 'alice@example.test') for 1 .. 3;
is(show($server, 'breaker')->{state}, 'set aside', 'a script that fails too often is set aside');
like(rcpt($server, 'carol@example.org', 'alice@example.test'), qr/^451/, 'and its failure policy applies');
is(show($server, 'breaker')->{calls}, 3, 'without it being asked');
is(($server->cli('lua', 'activate', 'breaker'))[0], 0, 'it is activated anew');
is(show($server, 'breaker')->{state}, 'active', 'and comes back');
is(($server->cli('lua', 'remove', 'breaker'))[0], 0, 'it is removed');

# -- delivery ------------------------------------------------------------------------------------------

use_script($server, 'deliver', <<'LUA');
return {
  ["smtp.rcpt"] = function(ctx)
    if ctx.sender == "rewrite@example.org" then return redirect("bob@example.test") end
    if ctx.sender == "away@example.org" then return redirect("someone@elsewhere.example") end
    if ctx.sender == "junk@example.org" then return quarantine("by RCPT") end
    if ctx.sender == "hole@example.org" then return discard() end
  end,
  deliver = function(ctx)
    local subject = ctx:header("Subject")
    if subject == "archive" then return accept { mailbox = "Archive", flags = { "\\Seen", "$Filed" } } end
    if subject == "nowhere" then return accept { mailbox = "No/Such" } end
    if subject == "junk" then return quarantine("looks bad") end
    if subject == "discard" then return discard() end
    if subject == "redirect" then return redirect("bob@example.test") end
    if subject == "redirect away" then return redirect("someone@elsewhere.example") end
    if subject == "reject" and ctx.recipient:find("^bob") then return reject(554, "not for bob") end
    if subject == "later" then return tempfail("come back") end
  end,
}
LUA
my %inbox = (alice => count($server, 'alice', 'INBOX'), bob => count($server, 'bob', 'INBOX'));
my $carol = 'carol@example.org';
my $alice = 'alice@example.test';

like(mail($server, $carol, $alice, 'archive'), qr/^250/, 'a mail for another mailbox');
is(count($server, 'alice', 'Archive'), 1, 'is there');
my $imap = $server->imap(login => 'alice');
$imap->cmd('SELECT Archive');
$imap->cmd('FETCH 1 FLAGS');
like(join('', $imap->untagged), qr/FLAGS \((?=[^)]*\\Seen)(?=[^)]*\$Filed)/, 'with the flags');
like(mail($server, $carol, $alice, 'junk'), qr/^250/, 'a suspect one');
is(count($server, 'alice', 'Junk'), 1, 'is in Junk');
like(mail($server, 'junk@example.org', $alice, 'x'), qr/^250/, 'one suspected at RCPT');
is(count($server, 'alice', 'Junk'), 2, 'is there too');
like(mail($server, $carol, $alice, 'discard'), qr/^250/, 'one to be discarded is taken');
like(mail($server, 'hole@example.org', $alice, 'x'), qr/^250/, 'one discarded at RCPT, too');
is(count($server, 'alice', 'INBOX'), $inbox{alice}, 'none of them is in INBOX');

like(mail($server, $carol, $alice, 'nowhere'), qr/^250/, 'a mailbox that is not there');
is(count($server, 'alice', 'INBOX'), ++$inbox{alice}, 'is INBOX');
like(mail($server, $carol, $alice, 'redirect'), qr/^250/, 'a mail redirected at delivery');
is(count($server, 'bob', 'INBOX'), ++$inbox{bob}, 'is with bob');
like(mail($server, 'rewrite@example.org', $alice, 'x'), qr/^250/, 'one redirected at RCPT');
is(count($server, 'bob', 'INBOX'), ++$inbox{bob}, 'is with bob');
like(rcpt($server, 'away@example.org', $alice), qr/^451/, 'nobody is redirected to outside');
like(mail($server, $carol, $alice, 'redirect away'), qr/^250/, 'nor at delivery');
is(count($server, 'alice', 'INBOX'), ++$inbox{alice}, 'where the mail is kept');

like(mail($server, $carol, ['bob@example.test'], 'reject'), qr/^554 5\.7\.1 not for bob/, 'a message refused');
like(mail($server, $carol, $alice, 'later'), qr/^451 4\.7\.1 come back/, 'a message put off');
like(mail($server, $carol, [$alice, 'bob@example.test'], 'reject'), qr/^554/, 'refused for one is refused for all');
is(count($server, 'alice', 'INBOX'), $inbox{alice}, 'and stored for none');

my $lmtp = $server->smtp('lmtp');
$lmtp->cmd('LHLO client.example.org');
$lmtp->cmd("MAIL FROM:<$carol>");
$lmtp->cmd("RCPT TO:<$_>") for $alice, 'bob@example.test';
$lmtp->cmd('DATA');
my @answers = ($lmtp->cmd("Subject: reject\r\n\r\nbody\r\n."), $lmtp->reply);
like($answers[0], qr/^250/, 'by LMTP, one has it');
like($answers[1], qr/^554 5\.7\.1 not for bob/, 'and one is refused');
is(count($server, 'alice', 'INBOX'), ++$inbox{alice}, 'so it is');
is(($server->cli('lua', 'remove', 'deliver'))[0], 0, 'it is removed');

# -- a table of its own ------------------------------------------------------------------------------------

use_script($server, 'greylist', <<'LUA');
local db = posthouse.db
return {
  ["smtp.rcpt"] = function(ctx)
    db.exec("CREATE TABLE IF NOT EXISTS seen (who text PRIMARY KEY)")
    if db.exec("INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING", ctx.sender) == 1 then
      return tempfail("not seen before")
    end
  end,
  deliver = function(ctx) posthouse.db.query("SELECT * FROM public.account") end,
}
LUA
like(rcpt($server, 'new@example.org', $alice), qr/^451 4\.7\.1 not seen before/, 'a script remembers');
like(rcpt($server, 'new@example.org', $alice), qr/^250/, 'in a table of its own');
like(mail($server, 'new@example.org', $alice, 'x'), qr/^250/, 'that the store keeps apart');
like(show($server, 'greylist')->{last_error}, qr/permission denied for table account/, 'from its own tables');

# -- another node, and a crash ----------------------------------------------------------------------------

my $other = Posthouse->start(database_name => $server->database_name, accounts => 0,
    conf => { node_name => 'other' });
like(rcpt($other, 'new@example.org', $alice), qr/^250/, 'another node knows the script, and the table');
use_script($server, 'told', 'return { ["smtp.rcpt"] = function() return reject(550, "told") end }');
ok(Posthouse::wait_until(10, sub { rcpt($other, 'new@example.org', $alice) =~ /^550 5\.7\.1 told/ }),
    'a change is told to it');
is(($other->cli('lua', 'deactivate', 'told'))[0], 0, 'and from there back');
ok(Posthouse::wait_until(10, sub { rcpt($server, 'new@example.org', $alice) =~ /^250/ }), 'to the first');
$server->cli_ok([qw(lua activate told)]);
my $old = $server->pid('daemon');
$server->kill9('daemon');
ok($server->wait_for_new('daemon', $old), 'the daemon is killed, and comes back');
$server->wait_ready;
like(rcpt($server, 'new@example.org', $alice), qr/^550 5\.7\.1 told/, 'its scripts are there again');

# What cannot be loaded any more is not let through.
$server->sql("UPDATE script_version SET text = 'return {' FROM script s WHERE s.script_id = script_version.script_id AND s.name = 'told'");
$old = $server->pid('daemon');
$server->kill9('daemon');
$server->wait_for_new('daemon', $old);
$server->wait_ready;
like(rcpt($server, 'new@example.org', $alice), qr/^451/, 'a script that cannot be loaded fails, safely');
is(show($server, 'told')->{state}, 'broken', 'and is shown so');
# -- a database that lets us make no roles -----------------------------------------------------------------

Posthouse::psql('postgres', $_) for "DROP ROLE IF EXISTS ph_plain_$$", "CREATE ROLE ph_plain_$$ LOGIN",
    "CREATE DATABASE ph_plain_$$ OWNER ph_plain_$$";
my $plain = Posthouse->start(database => "$ENV{PH_TEST_PG} dbname=ph_plain_$$ user=ph_plain_$$");
use_script($plain, 'table', 'return { ["smtp.rcpt"] = function() posthouse.db.query("SELECT * FROM public.account") end }');
use_script($plain, 'other', 'return { ["smtp.mail"] = function(ctx) if ctx.sender == "x@example.org" then return reject("no") end end }');
like(rcpt($plain, 'new@example.org', $alice), qr/^451/, 'a script that needs a database fails');
like(show($plain, 'table')->{last_error}, qr/scripts have no database here: .* let our database user create roles/,
    'and says why, rather than have that of the store');
$smtp = $plain->smtp;
$smtp->cmd('EHLO client.example.org');
like($smtp->cmd('MAIL FROM:<x@example.org>'), qr/^550/, 'others work');
is($plain->stop, 0, 'it stops cleanly');
Posthouse::psql('postgres', $_) for "DROP DATABASE ph_plain_$$ WITH (FORCE)", "DROP ROLE ph_plain_$$";

is($_->stop, 0, 'it stops cleanly') for $other, $server;
done_testing;
