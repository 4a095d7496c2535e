#!/usr/bin/perl
# imap.t - reading mail: IMAP4rev1
# suite: core
use strict;
use warnings;
use Test::More;
use Posthouse;

my $server = Posthouse->start;
my $imap = $server->imap(login => 'alice');

sub untagged { join "\n", $imap->untagged }

sub ok_cmd {
    my ($command, $name) = @_;
    like($imap->cmd($command), qr/^OK/, $name // $command);
    return untagged();
}

# The flags and keywords of a message, sorted.
sub flags_of {
    my ($n, $client) = @_;
    $client //= $imap;
    $client->cmd("FETCH $n FLAGS");
    my ($flags) = map { /FLAGS \(([^)]*)\)/ ? $1 : () } $client->untagged;
    return join ' ', sort grep { $_ ne '\\Recent' } split ' ', $flags // 'none';
}

my $multipart = <<'END' =~ s/\n/\r\n/gr;
From: Alice Example <alice@example.test>
To: "Bob, the Second" <bob@example.test>, carol@example.org
Cc: friends: dan@example.org, eve@example.org;
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Date: Mon, 30 Nov 2026 12:00:00 +0100
Message-ID: <1@example.org>
In-Reply-To: <0@example.org>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="outer"

preamble
--outer
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Sch=C3=B6ne Gr=C3=BC=C3=9Fe
--outer
Content-Type: message/rfc822

Subject: inner
From: inner@example.org

the inner body
--outer
Content-Type: application/pdf; name="report.pdf"
Content-Disposition: attachment; filename="report.pdf"
Content-Transfer-Encoding: base64

JVBERi0xLjQK
--outer--
END

subtest 'before login' => sub {
    my $plain = $server->imap;
    like($plain->{greeting}, qr/^\* OK \[CAPABILITY IMAP4rev1 .*LOGINDISABLED/, 'the greeting tells the capabilities');
    like($plain->cmd("LOGIN alice\@example.test $Posthouse::password"), qr/^NO \[PRIVACYREQUIRED\]/, 'no login in plain text');
    like($plain->cmd('SELECT INBOX'), qr/^BAD/, 'no mailbox without a login');
    $plain->starttls;
    $plain->cmd('CAPABILITY');
    like(($plain->untagged)[0], qr/AUTH=PLAIN/, 'AUTH after STARTTLS');
    unlike(($plain->untagged)[0], qr/STARTTLS|LOGINDISABLED/, 'which is gone then');
    like($plain->cmd('LOGIN alice@example.test wrong-password'), qr/^NO \[AUTHENTICATIONFAILED\]/, 'a wrong password');
    like($plain->cmd('AUTHENTICATE PLAIN AGFsaWNlQGV4YW1wbGUudGVzdABjb3JyZWN0LWhvcnNlLTc='), qr/^OK \[CAPABILITY/,
        'AUTHENTICATE PLAIN with an initial response');
    like($plain->cmd('LOGIN a b'), qr/^BAD/, 'once is enough');
    my $literal = $server->imap(service => 'imaps');
    like($literal->literal('LOGIN ', \'alice@example.test', ' ', \$Posthouse::password), qr/^OK/, 'literals');
    like($literal->cmd('LOGOUT'), qr/^OK/, 'LOGOUT');
    ok($literal->is_closed, 'closes');
};

subtest 'mailboxes' => sub {
    like(ok_cmd('NAMESPACE'), qr/NAMESPACE \(\("" "\/"\)\) NIL NIL/, 'the namespace');
    my $list = ok_cmd('LIST "" "*"');
    like($list, qr/LIST \(\\HasNoChildren \\$_\) "\/" "?$_"?/, "$_ is there, with its use")
        for qw(Drafts Sent Junk Trash Archive);
    like(ok_cmd('LIST "" ""'), qr/LIST \(\\Noselect\) "\/" ""/, 'the separator');
    ok_cmd('CREATE Work/2026/Q4');
    like(ok_cmd('LIST "" "Work*"'), qr/HasChildren\) "\/" "?Work"?\n.*Work\/2026"?\n.*Work\/2026\/Q4/s, 'its parents too');
    like(ok_cmd('LIST "" "%"'), qr/\A(?!.*Work\/)/s, '% stays in its level');
    like($imap->cmd('CREATE Work'), qr/^NO \[ALREADYEXISTS\]/, 'not twice');
    like($imap->cmd('CREATE inbox'), qr/^NO \[ALREADYEXISTS\]/, 'INBOX in any case');
    ok_cmd('RENAME Work/2026 Old', 'RENAME takes children along');
    like(ok_cmd('LIST "" "Old/*"'), qr/Old\/Q4/, 'there they are');
    ok_cmd('CREATE "&AMQ-rger"', 'a name in modified UTF-7');
    like(ok_cmd('LIST "" "&AMQ-*"'), qr/"&AMQ-rger"/, 'comes back the same');
    like($imap->cmd('CREATE "a&b"'), qr/^BAD/, 'a malformed one does not');
    ok_cmd('SUBSCRIBE Old/Q4');
    like(ok_cmd('LSUB "" "Old/*"'), qr/LSUB \([^)]*\) "\/" "?Old\/Q4/, 'LSUB');
    ok_cmd('DELETE Old/Q4');
    like(ok_cmd('LSUB "" "Old/*"'), qr/Old\/Q4/, 'a subscription outlives its mailbox');
    ok_cmd('UNSUBSCRIBE Old/Q4');
    is(ok_cmd('LSUB "" "Old/*"'), '', 'until it ends');
    like($imap->cmd('DELETE INBOX'), qr/^NO \[NOPERM\]/, 'INBOX stays');
    like($imap->cmd('DELETE Nothing'), qr/^NO \[NONEXISTENT\]/, 'what is not there cannot go');
    ok_cmd('DELETE Old');
    my $own = $server->imap(login => 'alice');
    $own->cmd($_) for 'CREATE Brief', 'SELECT Brief';
    like($own->cmd('DELETE Brief'), qr/^OK/, 'who deletes the selected mailbox is answered');
    like($own->response, qr/^\* BYE/, 'and then sent off');
};

subtest 'APPEND and FETCH' => sub {
    like($imap->append('INBOX', $multipart, '\\Seen $Work'), qr/^OK \[APPENDUID \d+ 1\]/, 'APPEND tells the UID');
    like($imap->append('Nowhere', $multipart), qr/^NO \[TRYCREATE\]/, 'into nothing');
    my $text = "Subject: second\r\n\r\nsecond\r\n";
    like($imap->cmd("APPEND INBOX \"17-Jul-1996 02:44:25 -0700\" {" . length($text) . "+}\r\n$text"),
        qr/^OK \[APPENDUID \d+ 2\]/, 'a literal without asking, with a date');
    my $select = ok_cmd('SELECT INBOX');
    like($select, qr/^\* 2 EXISTS$/m, 'EXISTS');
    like($select, qr/UIDNEXT 3\]/, 'UIDNEXT');
    like($select, qr/UNSEEN 2\]/, 'the first unseen');
    like($select, qr/PERMANENTFLAGS \(.*\\\*\)/, 'keywords can be made');
    like(ok_cmd('FETCH 2 INTERNALDATE'), qr/"17-Jul-1996 09:44:25 \+0000"/, 'the date of APPEND');

    $imap->cmd('FETCH 1 (UID RFC822.SIZE BODY.PEEK[])');
    my ($size, $got) = untagged() =~ /RFC822\.SIZE (\d+).*?BODY\[\] \{\d+\}\r\n(.*)\)\z/s;
    is($size, length $multipart, 'the size');
    is($got, $multipart, 'the message, byte for byte');
    my %section = (
        'BODY.PEEK[1]' => 'Sch=C3=B6ne Gr=C3=BC=C3=9Fe',
        'BODY.PEEK[1.MIME]' => "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
        'BODY.PEEK[2]' => "Subject: inner\r\nFrom: inner\@example.org\r\n\r\nthe inner body",
        'BODY.PEEK[2.HEADER]' => "Subject: inner\r\nFrom: inner\@example.org\r\n\r\n",
        'BODY.PEEK[2.TEXT]' => 'the inner body',
        'BODY.PEEK[2.1]' => 'the inner body',
        'BODY.PEEK[3]' => 'JVBERi0xLjQK',
        'BODY.PEEK[1]<4.5>' => 'C3=B6',
        'BODY.PEEK[1]<900.5>' => '',
        'BODY.PEEK[HEADER.FIELDS (MESSAGE-ID date)]' =>
            "Date: Mon, 30 Nov 2026 12:00:00 +0100\r\nMessage-ID: <1\@example.org>\r\n\r\n",
        'BODY.PEEK[2.HEADER.FIELDS.NOT (From)]' => "Subject: inner\r\n\r\n",
    );
    for my $item (sort keys %section) {
        $imap->cmd("FETCH 1 $item");
        my ($bytes) = untagged() =~ /\{\d+\}\r\n(.*)\)\z/s;
        is($bytes, $section{$item}, $item);
    }
    like(ok_cmd('FETCH 1 BODY.PEEK[7]'), qr/BODY\[7\] NIL/, 'a part that is not there');
    like(ok_cmd('FETCH 1 ENVELOPE'), qr/"=\?utf-8\?q\?Gr=C3=BC=C3=9Fe\?=" \(\("Alice Example" NIL "alice" "example.test"\)\)/,
        'ENVELOPE');
    like(untagged(), qr/\(\("Bob, the Second" NIL "bob" "example.test"\)\(NIL NIL "carol" "example.org"\)\)/, 'its recipients');
    like(untagged(), qr/\(\(NIL NIL "friends" NIL\)\(NIL NIL "dan" "example.org"\).*\(NIL NIL NIL NIL\)\)/, 'a group');
    like(ok_cmd('FETCH 1 BODYSTRUCTURE'), qr/"message" "rfc822" NIL NIL NIL "7bit" \d+ \(NIL "inner"/i, 'BODYSTRUCTURE');
    like(untagged(), qr/\("attachment" \("filename" "report\.pdf"\)\)/i, 'a disposition');
    like(ok_cmd('FETCH 1:* FAST'), qr/^\* 1 FETCH .*\n\* 2 FETCH/, 'a macro, a range');
    like(ok_cmd('UID FETCH 2:* FLAGS'), qr/^\* 2 FETCH \(UID 2 FLAGS/, 'UID FETCH has the UID');
    is(ok_cmd('UID FETCH 900 FLAGS'), '', 'a UID that is not there is passed over');
    like(ok_cmd('UID FETCH 900:* UID'), qr/^\* 2 FETCH \(UID 2\)$/, 'but * is the last');
    is(ok_cmd('UID FETCH 900:4294967295 UID'), '', 'the largest number is not *');
    is(ok_cmd('UID FETCH 2,*:1,' . '1:*,' x 10000 . '2 UID'), "* 1 FETCH (UID 1)\n* 2 FETCH (UID 2)", 'each once, in order');
    like($imap->cmd("FETCH $_ FLAGS"), qr/^BAD/, "$_, which is not there, is an error") for 3, 4294967295;
    my $fields = sub { $imap->literal('FETCH 2 BODY.PEEK[HEADER.FIELDS (', \$_[0], ')]'); untagged() };
    is($fields->("A\r\nB"), qq(* 2 FETCH (BODY[HEADER.FIELDS ("A  B")] {2}\r\n\r\n)), 'a line end in the name of a field');
    is($fields->("A\xe4"), qq(* 2 FETCH (BODY[HEADER.FIELDS ({2}\r\nA\xe4)] {2}\r\n\r\n)), 'eight bits in one');
    unlike(flags_of(2), qr/Seen/, 'PEEK leaves \\Seen alone');
    like(ok_cmd('FETCH 2 BODY[TEXT]'), qr/second\r\n/, 'BODY[TEXT]');
    like(flags_of(2), qr/Seen/, 'does not');
};

subtest 'messages within messages that have nothing' => sub {
    ok_cmd('CREATE Empty');
    for my $inner ('', "\r\n", "\r\n\r\n") {
        like($imap->append('Empty', "Content-Type: message/rfc822\r\n\r\n$inner"), qr/^OK/, 'one is taken');
    }
    my $client = $server->imap(login => 'alice');
    $client->cmd('EXAMINE Empty');
    for my $part ('', '1.', '1.1.') {
        like($client->cmd("FETCH 1:* (BODY.PEEK[${part}HEADER.FIELDS (X)] BODY.PEEK[${part}HEADER.FIELDS.NOT (X)]<0.1>)"),
            qr/^OK/, "${part}HEADER.FIELDS");
        is(scalar(() = $client->untagged), 3, 'of all');
    }
    like($client->cmd('SEARCH OR BODY x TEXT y'), qr/^OK/, 'SEARCH');
    like($client->cmd('FETCH 1:* (ENVELOPE BODYSTRUCTURE BODY)'), qr/^OK/, 'and what is kept of them');
};

subtest 'a search in many parts' => sub {
    my $part = sub { "--b\r\nContent-Type: text/plain\r\n\r\n$_[0]\r\n" };
    my $message = "Content-Type: multipart/mixed; boundary=b\r\n\r\n" . join '', map { $part->($_) } map({ "word$_." } 1 .. 3000),
        'x' x 200000 . ' middle.', 'y' x 300000 . ' large.', map({ "word$_." } 3001 .. 6000);
    ok_cmd('CREATE Parts');
    like($imap->append('Parts', $message), qr/^OK/, 'a message of 6002 parts');
    my $client = $server->imap(login => 'alice');
    $client->cmd('EXAMINE Parts');
    for my $word (map({ "word$_." } 1, 2, 2999, 3000, 3001, 6000), 'middle.', 'large.') {
        $client->cmd("SEARCH BODY $word");
        is(($client->untagged)[0], '* SEARCH 1', $word);
    }
    $client->cmd('SEARCH BODY word6001.');
    is(($client->untagged)[0], '* SEARCH', 'and what is in none');
};

subtest 'STORE and SEARCH' => sub {
    is(flags_of(1), '$Work \\Seen', 'flags of APPEND');
    like(ok_cmd('STORE 1 +FLAGS (\\Flagged Later)'), qr/^\* 1 FETCH \(FLAGS \(.*Later.*\)\)/m, 'STORE answers');
    is(ok_cmd('STORE 1 -FLAGS.SILENT (\\Flagged)') =~ s/^\* FLAGS.*\n?//mr, '', 'or not');
    is(flags_of(1), '$Work Later \\Seen', 'both were done');
    ok_cmd('STORE 2 FLAGS (\\Answered)');
    is(flags_of(2), '\\Answered', 'replaced');
    my %search = (
        'ALL' => '1 2', 'ANSWERED' => '2', 'NOT ANSWERED' => '1', 'KEYWORD Later' => '1', 'UNKEYWORD later' => '2',
        'SEEN' => '1', 'UNSEEN' => '2', 'OR SEEN ANSWERED' => '1 2', '(SEEN KEYWORD $Work)' => '1', '2' => '2',
        'UID 1' => '1', '1:*' => '1 2', 'BEFORE 1-Jan-2000' => '2', 'SINCE 1-Jan-2000' => '1', 'ON 17-Jul-1996' => '2',
        'SENTON 30-Nov-2026' => '1', 'SENTBEFORE 1-Dec-2026' => '1', 'SENTSINCE 1-Jan-2030' => '', 'LARGER 100' => '1',
        'SMALLER 100' => '2', 'FROM alice' => '1', 'TO "bob, the"' => '1', 'CC eve' => '1', 'BCC x' => '',
        'SUBJECT second' => '2', 'HEADER Message-ID 1@example' => '1', 'HEADER In-Reply-To ""' => '1', 'BODY inner' => '1',
        'BODY second' => '2', 'TEXT report' => '', 'TEXT second' => '1 2', 'TEXT "second mail"' => '', 'DELETED' => '', 'DRAFT' => '', 'UNDRAFT' => '1 2',
        'NEW' => '2', 'OLD' => '', 'RECENT' => '1 2', 'UNFLAGGED' => '1 2', 'NOT (OR SEEN ANSWERED)' => '',
        "CHARSET UTF-8 SUBJECT gr\x{c3}\x{bc}\x{c3}\x{9f}e" => '1', "CHARSET UTF-8 BODY \"sch\x{c3}\x{b6}ne\"" => '1',
    );
    for my $keys (sort keys %search) {
        my $command = $keys =~ /[^\x20-\x7e]/ ? undef : "SEARCH $keys";
        if (defined $command) {
            $imap->cmd($command);
        } else {
            my ($head, $text) = $keys =~ /^(.* )"?([^ "]+)"?$/;
            $imap->literal("SEARCH $head", \$text);
        }
        is((($imap->untagged)[0] // '') =~ s/^\* SEARCH ?//r, $search{$keys}, "SEARCH $keys");
    }
    like($imap->cmd('SEARCH CHARSET KOI8-R ALL'), qr/^NO \[BADCHARSET \(US-ASCII UTF-8\)\]/, 'another character set');
    like($imap->cmd('SEARCH FROBNICATE'), qr/^BAD/, 'an unknown key');
    like($imap->cmd('SEARCH ' . '(' x 100 . 'ALL' . ')' x 100), qr/^BAD/, 'too deep');
};

subtest 'COPY, MOVE, EXPUNGE, UIDPLUS' => sub {
    like($imap->cmd('COPY 1:2 Archive'), qr/^OK \[COPYUID \d+ 1:2 1:2\]/, 'COPY');
    like($imap->cmd('COPY 1 Missing'), qr/^NO \[TRYCREATE\]/, 'into nothing');
    like(ok_cmd('UID MOVE 2 Trash'), qr/OK \[COPYUID \d+ 2 1\].*\n\* 2 EXPUNGE/, 'MOVE');
    ok_cmd('STORE 1 +FLAGS.SILENT (\\Deleted)');
    is(ok_cmd('UID EXPUNGE 5:9'), '', 'UID EXPUNGE of others leaves it');
    is(ok_cmd('EXPUNGE'), '* 1 EXPUNGE', 'EXPUNGE');
    like(ok_cmd('EXAMINE Archive'), qr/^\* 2 EXISTS$/m, 'EXAMINE');
    is(flags_of(1), '$Work Later \\Seen', 'flags went along');
    like($imap->cmd('STORE 1 +FLAGS (\\Deleted)'), qr/^NO \[NOPERM\]/, 'nothing can be changed');
    ok_cmd('UNSELECT');
    ok_cmd('SELECT Archive');
    ok_cmd('STORE 1 +FLAGS (\\Deleted)');
    ok_cmd('CLOSE');
    like(ok_cmd('STATUS Archive (MESSAGES UNSEEN SIZE UIDNEXT)'), qr/MESSAGES 1 UIDNEXT 3 UNSEEN 1/, 'CLOSE expunges');
    my $messages = $server->sql(q(SELECT count(*) FROM expunged));
    cmp_ok($messages, '>=', 2, 'what went can be brought back');
};

subtest 'two sessions see each other' => sub {
    ok_cmd('SELECT INBOX');
    my $other = $server->imap(login => 'alice');
    $other->cmd('SELECT INBOX');
    my $tag = $other->begin('IDLE');
    is($other->response, '+ idling', 'IDLE');
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    $smtp->mail('a@example.org', 'alice@example.test', "Subject: new\n\nnew\n");
    is($other->response(5), '* 1 EXISTS', 'mail arrives in IDLE');
    is($other->response(5), '* 1 RECENT', 'as recent');
    like(ok_cmd('NOOP'), qr/^\* 1 EXISTS$/m, 'and at the next command of the first');
    ok_cmd('STORE 1 +FLAGS (\\Flagged)');
    like($other->response(5), qr/^\* 1 FETCH \(UID \d+ FLAGS \(\\Flagged/, 'flags arrive');
    ok_cmd('STORE 1 +FLAGS (\\Deleted)');
    $other->response(5);
    ok_cmd('EXPUNGE');
    is($other->response(5), '* 1 EXPUNGE', 'and what is gone');
    $other->send("DONE\r\nb1 NOOP\r\n");
    like($other->finish($tag), qr/^OK/, 'DONE, and a command in the same packet');
    like($other->finish('b1'), qr/^OK/, 'is answered');
    $imap->append('INBOX', "Subject: $_\r\n\r\nx\r\n") for 1 .. 3;
    $other->cmd('NOOP');
    ok_cmd('STORE 1 +FLAGS (\\Deleted)');
    ok_cmd('EXPUNGE');
    $other->cmd('FETCH 1:3 UID');
    my @numbers = map { /^\* (\d+) FETCH/ ? $1 : () } $other->untagged;
    is("@numbers", '1 2 3', 'no EXPUNGE in the course of a FETCH: numbers stay true');
    $other->cmd('NOOP');
    like(join("\n", $other->untagged), qr/^\* 1 EXPUNGE$/m, 'it comes with the next NOOP');
};

subtest 'bad input' => sub {
    my $client = $server->imap(login => 'bob');
    for my $command ('FETCH', 'SELECT', 'FROBNICATE', 'UID', 'UID NOOP', 'LIST ""', 'STATUS INBOX', 'STATUS INBOX ()',
        'APPEND INBOX', 'FETCH 1 (FLAGS', 'SELECT "INBOX', 'CREATE ""') {
        like($client->cmd($command), qr/^(BAD|NO)/, $command);
        $client->cmd('NOOP');
    }
    $client->cmd('SELECT INBOX');
    for my $command ('FETCH 0 FLAGS', 'FETCH * FLAGS,', 'FETCH 1:* BODY[', 'FETCH 1 BODY[0]', 'FETCH 1 BODY[MIME]',
        'FETCH 1 BODY[]<0.0>', 'STORE 1 FLAGS (\\Foo)', 'STORE 1 FLAGS ((', 'SEARCH BEFORE 31-Feb-2020', 'COPY x INBOX') {
        like($client->cmd($command), qr/^BAD/, $command);
        $client->cmd('NOOP');
    }
    like($client->cmd('APPEND INBOX {99999999999}'), qr/^(NO|BAD)/, 'a literal beyond all numbers');
    like($client->cmd('APPEND INBOX {52428801}'), qr/^NO \[TOOBIG\]/, 'a message beyond the limit, before it comes');
    like($client->cmd("SELECT {200000+}\r\n" . 'x' x 200000), qr/^NO \[TOOBIG\]/, 'a large literal elsewhere');
    like($client->cmd('NOOP'), qr/^OK/, 'and the session goes on');
    my $injected = $server->imap;
    $injected->send("a STARTTLS\r\nb LOGIN x y\r\n");
    like($injected->response, qr/^\* BYE/, 'plain bytes behind STARTTLS are refused');
    ok($injected->is_closed, 'and the connection ends');
    my $endless = $server->imap;
    $endless->send('a ' . 'x' x 20000);
    like($endless->response, qr/^\* BYE \[TOOBIG\]/, 'an endless line');
};

subtest 'a large message goes in slices' => sub {
    my $line = join('', map { chr(33 + $_ % 90) } 0 .. 75) . "\r\n";
    my $large = "Subject: large\r\n\r\n" . $line x 60000;
    my $client = $server->imap(login => 'bob');
    like($client->append('INBOX', $large), qr/^OK/, length($large) . ' bytes in');
    $client->cmd('SELECT INBOX');
    $client->cmd('FETCH 1 BODY.PEEK[]');
    my ($got) = ($client->untagged)[0] =~ /\{\d+\}\r\n(.*)\)\z/s;
    ok($got eq $large, 'and out, the same');
    $client->cmd('FETCH 1 BODY.PEEK[]<3000000.100>');
    ($got) = ($client->untagged)[0] =~ /\{100\}\r\n(.*)\)\z/s;
    is($got, substr($large, 3000000, 100), 'a slice of it');
};

is($server->stop, 0, 'it stops cleanly');
done_testing;
