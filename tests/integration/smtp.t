#!/usr/bin/perl
# smtp.t - receiving mail: SMTP, submission, LMTP
# suite: core
use strict;
use warnings;
use Test::More;
use Posthouse;

my $server = Posthouse->start;
$server->user_add('carol@example.test');
$server->cli_ok(qw(alias add team@example.test alice@example.test));
$server->cli_ok(qw(alias add team@example.test bob@example.test));
$server->cli_ok(qw(alias add away@example.test someone@example.org));
my $message = "From: a\@example.org\nTo: b\@example.test\nSubject: hello\n\nBody\n.with a dot\n";

sub messages {
    my ($login, $mailbox) = @_;
    my $imap = $server->imap(login => $login);
    $imap->cmd('STATUS ' . ($mailbox // 'INBOX') . ' (MESSAGES)');
    my ($n) = ($imap->untagged)[0] =~ /MESSAGES (\d+)/;
    return $n;
}

subtest 'EHLO offers what works' => sub {
    my $smtp = $server->smtp;
    like($smtp->{greeting}, qr/^220 \S+ ESMTP/, 'greeting');
    my $ehlo = $smtp->cmd('EHLO client.example.org');
    like($ehlo, qr/^250[- ]\Q$_\E/m, $_) for 'PIPELINING', 'SIZE 52428800', 'STARTTLS', 'ENHANCEDSTATUSCODES',
        '8BITMIME', 'SMTPUTF8';
    unlike($ehlo, qr/AUTH/, 'no AUTH on port 25');
    like($smtp->cmd('AUTH PLAIN xxxx'), qr/^500 /, 'and none is taken');
    is(ref $smtp->starttls, ref $smtp, 'STARTTLS');
    like($smtp->cmd('MAIL FROM:<a@example.org>'), qr/^503 /, 'after it the client says EHLO again');
    unlike($smtp->cmd('EHLO client.example.org'), qr/STARTTLS/, 'and STARTTLS is gone');
    like($smtp->mail('a@example.org', 'alice@example.test', $message), qr/^250 2\.0\.0 /, 'mail over TLS');
    is(messages('alice'), 1, 'is there');
};

subtest 'the message is kept byte for byte, with trace fields' => sub {
    my $imap = $server->imap(login => 'alice');
    $imap->cmd('SELECT INBOX');
    $imap->cmd('FETCH 1 BODY.PEEK[]');
    my ($text) = ($imap->untagged)[0] =~ /\{\d+\}\r\n(.*)\)\z/s;
    like($text, qr/\AReturn-Path: <a\@example\.org>\r\nReceived: from client\.example\.org \(/, 'trace fields first');
    like($text, qr/with ESMTPS\s.*\sid \S+\s+for <alice\@example\.test>;/s, 'with the protocol and the recipient');
    like($text, qr/\r\n\r\nBody\r\n\.with a dot\r\n\z/, 'and the body, its dot unstuffed');
};

subtest 'recipients' => sub {
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    like($smtp->cmd('RCPT TO:<alice@example.test>'), qr/^503 /, 'MAIL comes first');
    like($smtp->cmd('MAIL FROM:<>'), qr/^250 /, 'the null sender');
    my %answer = (
        'alice@example.test' => '250 2.1.5', 'ALICE@Example.Test' => '250 2.1.5', 'alice+list@example.test' => '250 2.1.5',
        'nobody@example.test' => '550 5.1.1', 'x@example.org' => '550 5.7.1', 'away@example.test' => '550 5.7.1',
        'team@example.test' => '250 2.1.5',
    );
    like($smtp->cmd("RCPT TO:<$_>"), qr/^\Q$answer{$_}\E /, "$_: $answer{$_}") for sort keys %answer;
    like($smtp->cmd('RCPT TO:alice@example.test'), qr/^501 5\.1\.3/, 'brackets are needed');
    like($smtp->cmd('RCPT TO:<alice@example.test> NOTIFY=NEVER'), qr/^555 /, 'no parameter that is not offered');
    like($smtp->data($message), qr/^250 /, 'one message to them all');
    is(messages('alice'), 2, 'alice has it once, however often she was named');
    is(messages('bob'), 1, 'and so has bob, by the alias');
    is(messages('carol'), 0, 'and nobody else');
};

subtest 'limits' => sub {
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    like($smtp->cmd('MAIL FROM:<a@example.org> SIZE=52428801'), qr/^552 5\.3\.4/, 'SIZE above the limit');
    like($smtp->cmd('MAIL FROM:<a@example.org> SIZE=100 BODY=8BITMIME'), qr/^250 /, 'parameters');
    like($smtp->cmd('MAIL FROM:<a@example.org>'), qr/^503 /, 'one at a time');
    like($smtp->cmd('RSET'), qr/^250 /, 'RSET');
    like($smtp->cmd('MAIL FROM:<a@example.org> FOO=BAR'), qr/^555 /, 'an unknown parameter');
    like($smtp->cmd('MAIL FROM:<' . 'a' x 65 . '@example.org>'), qr/^501 5\.1\.7/, 'a local part too long');
    $server->set('server.message.max_bytes', '20K');
    like($smtp->mail('a@example.org', 'alice@example.test', "Subject: x\n\n" . ('x' x 70 . "\n") x 400),
        qr/^552 5\.3\.4/, 'a message above the limit');
    is(messages('alice'), 2, 'is not stored');
    like($smtp->mail('a@example.org', 'alice@example.test', $message), qr/^250 /, 'and the next one goes through');
    $server->cli_ok(qw(config unset server.message.max_bytes));
};

subtest 'quota' => sub {
    $server->cli_ok(qw(user change carol@example.test --quota_bytes 2000));
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    my $big = "Subject: x\n\n" . ('x' x 70 . "\n") x 40;
    like($smtp->mail('a@example.org', ['alice@example.test', 'carol@example.test'], $big), qr/^452 4\.2\.2/,
        'one of two is full: nobody gets it');
    is(messages('alice'), 3, 'not the other either');
    is(messages('carol'), 0, 'all or none');
};

subtest 'submission' => sub {
    my $smtp = $server->smtp('submission');
    unlike($smtp->cmd('EHLO client.example.org'), qr/AUTH/, 'no AUTH without TLS');
    like($smtp->login('alice@example.test', $Posthouse::password), qr/^538 /, 'and none is taken');
    $smtp->starttls;
    like($smtp->cmd('EHLO client.example.org'), qr/^250-AUTH PLAIN LOGIN$/m, 'AUTH with TLS');
    like($smtp->cmd('MAIL FROM:<alice@example.test>'), qr/^530 /, 'a login is needed');
    like($smtp->login('alice@example.test', 'wrong password'), qr/^535 5\.7\.8/, 'a wrong password');
    like($smtp->login('nobody@example.test', 'wrong password'), qr/^535 5\.7\.8/, 'an unknown login, the same');
    like($smtp->cmd('AUTH PLAIN ==='), qr/^501 /, 'broken base64');
    like($smtp->cmd('AUTH CRAM-MD5'), qr/^504 /, 'a mechanism that is not offered');
    like($smtp->cmd('AUTH PLAIN'), qr/^334 /, 'without an initial response');
    like($smtp->cmd('x' x 20000), qr/^500 /, 'a response that is too long');
    like($smtp->cmd('NOOP'), qr/^250 /, 'ends the exchange');
    like($smtp->cmd('AUTH PLAIN'), qr/^334 /, 'again');
    like($smtp->cmd('*'), qr/^501 /, 'given up');
    like($smtp->login('alice@example.test', $Posthouse::password), qr/^235 /, 'in');
    like($smtp->cmd('MAIL FROM:<bob@example.test>'), qr/^550 5\.7\.1/, 'not in the name of another');
    like($smtp->cmd('MAIL FROM:<team@example.test>'), qr/^250 /, 'in the name of an alias of hers');
    $smtp->cmd('RSET');
    like($smtp->mail('alice@example.test', 'bob@example.test', "Subject: mine\n\nhello\n"), qr/^250 /, 'sent');
    my $imap = $server->imap(login => 'bob');
    $imap->cmd('SELECT INBOX');
    $imap->cmd('FETCH * BODY.PEEK[HEADER]');
    my $header = ($imap->untagged)[0];
    like($header, qr/^Date: /m, 'a Date is added');
    like($header, qr/^Message-ID: <\S+\@\S+>/m, 'a Message-ID');
    like($header, qr/^From: alice\@example\.test/m, 'a From');
    like($header, qr/with ESMTPSA\s/, 'and the protocol is told');
    my $implicit = $server->smtp('submissions');
    $implicit->cmd('EHLO client.example.org');
    like($implicit->login('bob@example.test', $Posthouse::password), qr/^235 /, 'implicit TLS');
};

subtest 'LMTP answers for each recipient' => sub {
    my $lmtp = $server->smtp('lmtp');
    like($lmtp->cmd('EHLO client.example.org'), qr/^500 /, 'EHLO is not LMTP');
    like($lmtp->cmd('LHLO client.example.org'), qr/^250/, 'LHLO is');
    $lmtp->cmd('MAIL FROM:<a@example.org>');
    $lmtp->cmd('RCPT TO:<alice@example.test>');
    like($lmtp->cmd('RCPT TO:<nobody@example.test>'), qr/^550 /, 'an unknown one is refused at once');
    $lmtp->cmd('RCPT TO:<carol@example.test>');
    $lmtp->cmd('RCPT TO:<bob@example.test>');
    like($lmtp->data("Subject: x\n\n" . ('x' x 70 . "\n") x 40), qr/^250 /, 'alice');
    like($lmtp->reply, qr/^452 4\.2\.2/, 'carol is full');
    like($lmtp->reply, qr/^250 /, 'bob');
    like($lmtp->cmd('NOOP'), qr/^250 /, 'and that was all');
};

subtest 'pipelining keeps the order' => sub {
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    $smtp->send("MAIL FROM:<a\@example.org>\r\nRCPT TO:<nobody\@example.test>\r\nRCPT TO:<alice\@example.test>\r\nDATA\r\n");
    like($smtp->reply, qr/^250 /, 'MAIL');
    like($smtp->reply, qr/^550 /, 'the first RCPT');
    like($smtp->reply, qr/^250 /, 'the second');
    like($smtp->reply, qr/^354 /, 'DATA');
    $smtp->send("Subject: x\r\n\r\nx\r\n.\r\nNOOP\r\nQUIT\r\n");
    like($smtp->reply, qr/^250 2\.0\.0 Ok/, 'the message');
    like($smtp->reply, qr/^250 /, 'what stood behind it');
    like($smtp->reply, qr/^221 /, 'QUIT');
    ok($smtp->is_closed, 'the end');
};

subtest 'no second message inside the first' => sub {
    my $before = messages('alice');
    for my $mark ("\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r.\r\n", "\n.\r") {
        my $smtp = $server->smtp;
        $smtp->cmd('EHLO client.example.org');
        $smtp->cmd('MAIL FROM:<a@example.org>');
        $smtp->cmd('RCPT TO:<alice@example.test>');
        $smtp->cmd('DATA');
        $smtp->send("Subject: outer\r\n\r\nx${mark}MAIL FROM:<b\@example.org>\r\nRCPT TO:<alice\@example.test>\r\n"
            . "DATA\r\nSubject: smuggled\r\n\r\ny\r\n.\r\n");
        my $shown = $mark =~ s/\r/CR /gr =~ s/\n/LF /gr;
        like($smtp->reply, qr/^250 /, "$shown does not end the message");
        like($smtp->cmd('NOOP'), qr/^250 2\.0\.0 OK/, 'one reply, then the next command');
    }
    is(messages('alice'), $before + 6, 'each was one message');
    $server->set('smtp.receive.line_ends', 'reject');
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    $smtp->cmd('MAIL FROM:<a@example.org>');
    $smtp->cmd('RCPT TO:<alice@example.test>');
    $smtp->cmd('DATA');
    $smtp->send("Subject: x\r\n\r\na lone\nline end\r\n.\r\n");
    like($smtp->reply, qr/^550 /, 'or lone line ends are refused, by a setting');
    $server->cli_ok(qw(config unset smtp.receive.line_ends));
};

subtest 'bad input' => sub {
    my $smtp = $server->smtp;
    $smtp->send('x' x 5000 . "\r\n");
    like($smtp->reply, qr/^500 5\.5\.2 Line too long/, 'a long line');
    like($smtp->cmd("NO\0OP"), qr/^500 /, 'a NUL');
    like($smtp->cmd('GET / HTTP/1.1'), qr/^500 /, 'another protocol');
    like($smtp->cmd('EHLO'), qr/^501 /, 'EHLO without a name');
    like($smtp->cmd('EHLO client.example.org'), qr/^250/, 'and the session goes on');
    my $tls = $server->smtp;
    $tls->send("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . join('', map { chr } 0 .. 255) . "\n");
    like($tls->reply, qr/^500 /, 'TLS on the plain port');
    my $injected = $server->smtp;
    $injected->cmd('EHLO client.example.org');
    $injected->send("STARTTLS\r\nMAIL FROM:<a\@example.org>\r\n");
    like($injected->reply, qr/^554 /, 'plain bytes behind STARTTLS are refused');
    ok($injected->is_closed, 'and the connection ends');
    my $noisy = $server->smtp;
    my $answer = '';
    $answer = $noisy->cmd('FOO') for 1 .. 20;
    like($noisy->reply, qr/^421 4\.7\.0 Too many errors/, 'after twenty errors the session ends');
};

subtest 'SMTPUTF8' => sub {
    $server->user_add("j\x{c3}\x{b6}rg\@example.test");
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    like($smtp->cmd("MAIL FROM:<j\x{c3}\x{b6}rg\@example.org>"), qr/^553 5\.6\.7/, 'it must be asked for');
    like($smtp->cmd("MAIL FROM:<j\x{c3}\x{b6}rg\@example.org> SMTPUTF8"), qr/^250 /, 'the sender');
    like($smtp->cmd("RCPT TO:<j\x{c3}\x{b6}rg\@example.test>"), qr/^250 /, 'the recipient');
    like($smtp->data("Subject: gr\x{c3}\x{bc}n\n\nx\n"), qr/^250 /, 'the message');
};

is($server->stop, 0, 'it stops cleanly');
done_testing;
