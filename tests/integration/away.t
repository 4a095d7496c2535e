#!/usr/bin/perl
# away.t - the database goes away and comes back: "could not ask" is not "no", and nothing is acknowledged that is not kept
# suite: core
use strict;
use warnings;
use Test::More;
use Posthouse;

# The managed PostgreSQL is killed, and kept from starting again by moving its data.
my $server = Posthouse->start(database => 'managed', environment => { POSTHOUSE_COMMIT_PATIENCE_MS => 3000 });
# A message under way waits for the database a while (20 s; here 3).
my $smtp = $server->smtp;
$smtp->cmd('EHLO client.example.org');
like($smtp->mail('a@example.org', 'alice@example.test', "Subject: before\n\nx\n"), qr/^250 /, 'mail before');
my $imap = $server->imap(login => 'alice');
like($imap->cmd('SELECT INBOX'), qr/^OK/, 'a mailbox is open');
$smtp->cmd('MAIL FROM:<a@example.org>');
$smtp->cmd('RCPT TO:<alice@example.test>');
$smtp->cmd('DATA');

my $data = $server->state . '/postgres/data';
my $postmaster = $server->postmaster;
rename $data, "$data.away" or die "rename: $!";
kill KILL => $postmaster;
ok(Posthouse::wait_until(10, sub { !Posthouse::is_alive($postmaster) }), 'the database is away');

$smtp->send("Subject: during\r\n\r\nx\r\n.\r\n");
like($smtp->reply, qr/^451 4\.3\.0/, 'a message under way gets 451');
$smtp->cmd('RSET');
$smtp->cmd('MAIL FROM:<a@example.org>');
like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^451 4\.3\.0/, 'a recipient gets 451, not 550');
my $submission = $server->smtp('submissions');
$submission->cmd('EHLO client.example.org');
like($submission->login('alice@example.test', $Posthouse::password), qr/^454 4\.7\.0/, 'a login gets 454, not 535');
my $second = $server->imap(service => 'imaps');
like($second->cmd("LOGIN alice\@example.test $Posthouse::password"), qr/^NO \[UNAVAILABLE\]/, 'or [UNAVAILABLE]');
like($imap->cmd('FETCH 1 BODY.PEEK[]'), qr/^NO \[UNAVAILABLE\]/, 'an open mailbox says so, too');
like($imap->cmd('FETCH 1 FLAGS'), qr/^OK/, 'what is in memory is told');
like($server->cli_ok('status'), qr/^database +away$/m, 'the status says it');

rename "$data.away", $data or die "rename: $!";
ok($server->wait_ready(60), 'the database is back');
like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^250 /, 'the session carries on');
like($smtp->data("Subject: after\n\nx\n"), qr/^250 /, 'and mail is taken');
like($imap->cmd('FETCH 1 BODY.PEEK[]'), qr/^OK/, 'the open mailbox, too');
like($submission->login('alice@example.test', $Posthouse::password), qr/^235 /, 'and logins');
ok(Posthouse::wait_until(5, sub { $imap->cmd('NOOP'); $imap->cmd('FETCH 2 UID') =~ /^OK/ }), 'the new mail is seen');
$imap->cmd('SEARCH ALL');
is(($imap->untagged)[0], '* SEARCH 1 2', 'and nothing else: what got 451 was not kept');

# Started without its database, with the settings that it knows.
$server->set('smtp.receive.max_recipients', '123');
is($server->stop, 0, 'it stops cleanly');
rename $data, "$data.away" or die "rename: $!";
mkdir $data;
Posthouse::spew("$data/PG_VERSION", "15\n");
Posthouse::run(['chown', '-R', (stat "$data.away")[4] . ':' . (stat _)[5], $data]);
ok($server->serve(seconds => 90), 'it starts without its database');
$smtp = $server->smtp;
like($smtp->cmd('EHLO client.example.org'), qr/^250/, 'and greets');
$smtp->cmd('MAIL FROM:<a@example.org>');
like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^451 /, '451 again');
like($server->cli_ok('config', 'get', 'smtp.receive.max_recipients'), qr/^value +123$/m, 'the last settings hold');
Posthouse::run(['rm', '-rf', $data]);
rename "$data.away", $data or die "rename: $!";
ok($server->wait_ready(60), 'the database is back');
like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^250 /, 'and mail goes on');
is($server->stop, 0, 'it stops cleanly');
done_testing;
