#!/usr/bin/perl
# first-mail.t - a mail that comes in by SMTP is there by IMAP, byte for byte
# suite: core
use strict;
use warnings;
use Test::More;
use Posthouse;

my $server = Posthouse->start;
my $message = "From: Carol <carol\@example.org>\r\nTo: alice\@example.test\r\nSubject: first\r\n\r\n"
    . ".a line that begins with a dot\r\n";

my $smtp = $server->smtp;
like($smtp->cmd('EHLO client.example.org'), qr/^250[ -]STARTTLS$/m, 'TLS is offered');
$smtp->starttls;
like($smtp->cmd('EHLO client.example.org'), qr/^250/, 'and works');
like($smtp->mail('carol@example.org', 'alice@example.test', $message), qr/^250/, 'a mail is taken');
like($smtp->cmd('MAIL FROM:<carol@example.org>'), qr/^250/, 'another one');
like($smtp->cmd('RCPT TO:<nobody@example.test>'), qr/^550/, 'has a recipient that is unknown');
like($smtp->cmd('QUIT'), qr/^221/, 'goodbye');

my $imap = $server->imap(login => 'alice');
like($imap->cmd('SELECT INBOX'), qr/^OK/, 'the mailbox opens');
ok((grep { /^\* 1 EXISTS/ } $imap->untagged), 'with one message');
like($imap->cmd('FETCH 1 BODY.PEEK[]'), qr/^OK/, 'which can be read');
my ($whole) = map { /\{\d+\}\r\n(.*)\)\z/s ? $1 : () } $imap->untagged;
is(substr($whole // '', -length $message), $message, 'byte for byte');
like($whole // '', qr/\AReturn-Path: <carol\@example\.org>\r\n/, 'below what the server added');

my $other = $server->imap(login => 'bob');
$other->cmd('SELECT INBOX');
ok((grep { /^\* 0 EXISTS/ } $other->untagged), 'bob has no mail');
like($other->cmd('LOGOUT'), qr/^OK/, 'goodbye');
is($server->stop, 0, 'it stops cleanly, with a session open');
done_testing;
