#!/usr/bin/perl
# manage.t - everything that the command line can do to a running server
# suite: core
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Socket qw(AF_UNIX SOCK_STREAM pack_sockaddr_un);
use Test::More;
use Posthouse;

my $server = Posthouse->start;

sub fails {
    my ($command, $pattern, $name) = @_;
    my ($status, $text) = $server->cli(@$command);
    isnt($status, 0, $name // "@$command fails");
    like($text, $pattern, 'and says why');
}

subtest 'domains, accounts, aliases' => sub {
    $server->cli_ok(qw(domain add Example.ORG));
    like($server->cli_ok(qw(domain list)), qr/^example\.org +0/m, 'a domain in lower case');
    fails([qw(domain add example.org)], qr/example\.org/, 'a domain twice');
    fails([qw(domain add), 'not a domain'], qr/not a domain/, 'a malformed domain');
    fails([qw(user add nobody@elsewhere.test)], qr/elsewhere\.test/, 'an account of a domain that is not ours');
    fails([[qw(user add short@example.org --password-stdin)], "short\n"], qr/at least 8/, 'a short password');
    fails([qw(user add)], qr/needs "address"/, 'a missing argument');
    fails([qw(user add x@example.org --colour red)], qr/does not take "--colour"/, 'an unknown one');
    fails([qw(user frobnicate)], qr/not known/, 'an unknown action');
    $server->user_add('dave@example.org');
    fails([qw(user add dave@example.org)], qr/dave\@example\.org/, 'an account twice');
    $server->cli_ok(qw(alias add info@example.org dave@example.org));
    fails([qw(alias add info@example.org dave@example.org)], qr/info/, 'an alias twice');
    like($server->cli_ok(qw(alias list)), qr/^info\@example\.org +dave\@example\.org/m, 'the aliases');
    fails([qw(domain remove example.org)], qr/example\.org/, 'a domain that is in use');
    $server->cli_ok(qw(alias remove info@example.org dave@example.org));
    my $page = decode_json($server->cli_ok(qw(--json user list --limit 1)));
    is(scalar @{ $page->{answer}{items} }, 1, 'a page of one');
    my $next = decode_json($server->cli_ok(qw(--json user list --limit 1 --after), $page->{answer}{next}));
    isnt($next->{answer}{items}[0]{address}, $page->{answer}{items}[0]{address}, 'and the next');
    is(scalar @{ decode_json($server->cli_ok(qw(--json user list --filter dave)))->{answer}{items} }, 1, 'a filter');
};

subtest 'states of an account' => sub {
    my $smtp = $server->smtp;
    $smtp->cmd('EHLO client.example.org');
    my $can = sub { eval { $server->imap(login => 'dave@example.org'); 1 } ? 1 : 0 };
    my $receives = sub { $smtp->cmd('RSET'); $smtp->mail('a@example.com', 'dave@example.org', "Subject: x\n\nx\n") =~ /^250/ ? 1 : 0 };
    is($can->() . $receives->(), '11', 'active: logs in, receives');
    $server->cli_ok(qw(user suspend dave@example.org));
    is($can->() . $receives->(), '01', 'suspended: receives');
    $server->cli_ok(qw(user remove dave@example.org));
    is($can->() . $receives->(), '00', 'closing: neither');
    $server->cli_ok(qw(user activate dave@example.org));
    is($can->() . $receives->(), '11', 'and back, with its mail');
    fails([qw(user erase dave@example.org)], qr/not closed/, 'what is open is not erased');
    $server->cli_ok(qw(user remove dave@example.org));
    $server->cli_ok(qw(user erase dave@example.org));
    fails([qw(user activate dave@example.org)], qr/dave|erased/, 'erased is erased');
    fails([qw(user add dave@example.org)], qr/dave/, 'and its address is given to nobody');
};

subtest 'passwords' => sub {
    my $logs_in = sub { my ($secret) = @_; eval { $server->imap(login => 'bob', password => $secret); 1 } ? 1 : 0 };
    my $made = decode_json($server->cli_ok(qw(--json app-password add bob@example.test phone)))->{answer};
    like($made->{password}, qr/^[a-z2-9]{4}(-[a-z2-9]{2,4}){6}$/, 'an app password');
    is($logs_in->($made->{password}), 1, 'logs in');
    is($logs_in->($Posthouse::password), 1, 'beside the other');
    like($server->cli_ok(qw(app-password list bob@example.test)), qr/^$made->{id} +phone/m, 'is listed');
    $server->cli_ok(qw(app-password remove bob@example.test), $made->{id});
    is($logs_in->($made->{password}), 0, 'and ends');
    $server->cli_ok([qw(user passwd bob@example.test --password-stdin)], "brand-new-horse\n");
    is($logs_in->($Posthouse::password) . $logs_in->('brand-new-horse'), '01', 'a new password ends the old');
    $server->cli_ok([qw(operator add root-of-all --password-stdin)], "operator-horse\n");
    ok(!eval { $server->imap(login => 'root-of-all', password => 'operator-horse'); 1 }, 'an operator has no mailbox');
    $server->cli_ok(qw(operator remove root-of-all));
    # An address that guesses is refused after a while, the account is not.
    $server->set('identity.throttle.login_failures', 3);
    my $imap = $server->imap(service => 'imaps');
    $imap->cmd("LOGIN bob\@example.test wrong-$_") for 1 .. 3;
    like($imap->cmd('LOGIN bob@example.test brand-new-horse'), qr/^NO \[AUTHENTICATIONFAILED\]/, 'too many failures from here');
    unlike($server->log, qr/wrong-1|brand-new-horse|operator-horse/, 'no password is in the log');
};

subtest 'settings' => sub {
    fails([qw(config set no.such.key 1)], qr/no\.such\.key/, 'an unknown key');
    fails([qw(config set smtp.receive.max_recipients many)], qr/"smtp\.receive\.max_recipients" cannot be "many": it takes a number, 100 to 100000/,
        'a wrong value: its name, the value, what is allowed');
    fails([qw(config set smtp.receive.max_recipients 1)], qr/100 to 100000/, 'out of range');
    fails([qw(config set smtp.receive.line_ends maybe)], qr/normalise\|reject/, 'not a choice');
    fails([qw(config set smtp.receive.max_recipients 200 --domain example.test)], qr/cannot be set for scope "domain"/, 'a wrong scope');
    $server->set('server.message.max_bytes', '10M');
    like($server->cli_ok(qw(config get server.message.max_bytes)), qr/^value +10485760$/m, 'units are understood');
    my $smtp = $server->smtp;
    like($smtp->cmd('EHLO client.example.org'), qr/SIZE 10485760/, 'and the next session knows');
    $server->cli_ok(qw(config unset server.message.max_bytes));
    like($server->cli_ok(qw(config history server.message.max_bytes)), qr/^3 +server\.message\.max_bytes +global +\d{4}-\S+Z +root\n^2 .* global +10485760 /m, 'the history has both');
    like($server->cli_ok(qw(config list --filter message.max)), qr/server\.message\.max_bytes +52428800 +52428800/, 'the list');
};

subtest 'settings as a document' => sub {
    my $before = $server->cli_ok(qw(config export));
    $server->set('smtp.receive.max_recipients', 500);
    $server->set('log.level', 'debug', '--node');
    my $document = $server->cli_ok(qw(config export));
    like($document, qr/smtp\.receive\.max_recipients = 500\n.*\[node .+\]\nlog\.level = debug\n/s, 'everything that is set');
    is($server->cli_ok([qw(config diff -)], $document), '', 'a document differs not from itself');
    like($server->cli_ok([qw(config diff -)], $before), qr/max_recipients .*500 +\(unset\)/, 'the difference to another');
    fails([[qw(config apply -)], "smtp.receive.timeout_s = soon\n$document"], qr/line \d+: "smtp\.receive\.timeout_s" cannot be "soon"/,
        'one wrong line');
    fails([[qw(config apply -)], "smtp.receive.timeout_s = 20\nsmtp.receive.timeout_s = 30\n"], qr/line 2: .*twice/, 'a line twice');
    is($server->cli_ok(qw(config export)) =~ s/^#.*\n//r, $document =~ s/^#.*\n//r, 'and nothing is half applied');
    $server->cli_ok([qw(config apply -)], $before);
    is($server->cli_ok(qw(config export)) =~ s/^#.*\n//r, $before =~ s/^#.*\n//r, 'back to where it was');
};

subtest 'deleted mail comes back' => sub {
    my $imap = $server->imap(login => 'alice');
    $imap->append('INBOX', "Subject: precious\r\n\r\nx\r\n", '\\Flagged');
    $imap->cmd('SELECT INBOX');
    $imap->cmd('STORE 1 +FLAGS (\\Deleted)');
    $imap->cmd('EXPUNGE');
    my ($item) = @{ decode_json($server->cli_ok(qw(--json deleted list alice@example.test)))->{answer}{items} };
    is($item->{mailbox}, 'INBOX', 'it is listed');
    $server->cli_ok(qw(deleted restore alice@example.test), $item->{message});
    $imap->cmd('NOOP');
    like(join("\n", $imap->untagged), qr/^\* 1 EXISTS/m, 'and back in its mailbox, for open sessions too');
    $imap->cmd('FETCH 1 (UID FLAGS)');
    like(($imap->untagged)[0], qr/UID 2 .*\\Flagged/, 'with a new UID and its flags');
};

subtest 'sessions' => sub {
    my $imap = $server->imap(login => 'alice');
    $imap->cmd('SELECT Drafts');
    my ($row) = grep { ($_->{activity} // '') =~ /Drafts/ } @{ decode_json($server->cli_ok(qw(--json session list)))->{answer}{items} };
    is($row->{activity}, 'alice@example.test, Drafts', 'what a session does');
    is($row->{peer}, '127.0.0.1', 'from where');
    $server->cli_ok(qw(session cut), $row->{id});
    like($imap->response, qr/^\* BYE Ended by an administrator/, 'it is told when it is cut');
    for my $bytes ('EHLO client', "EHLO client.example.org\r\n", "MAIL FROM:<a\@example.org>\r\nDATA\r\nx") {
        my $client = $server->smtp;
        $client->send($bytes);
        $client->close;
    }
    ok(Posthouse::wait_until(5, sub { $server->cli_ok(qw(--json session list)) !~ /"service":"smtp"/ }),
        'a client that hangs up behind its last bytes is noticed');
    fails([qw(session cut nonsense)], qr/nonsense/, 'a session that is not there');
};

subtest 'audit, status, metrics, log' => sub {
    my $audit = $server->cli_ok(qw(audit list --action user.passwd));
    like($audit, qr/^\d+ +\S+Z +root +control +user\.passwd/m, 'by whom');
    like($audit, qr/user\.passwd +bob\@example\.test +done/, 'who did what to whom');
    unlike($server->cli_ok(qw(audit list --limit 1000)), qr/horse/, 'without secrets');
    like($server->cli_ok(qw(audit list --action domain.add)), qr/domain\.add +example\.org +.*exists/, 'failures too');
    my $status = $server->cli_ok('status');
    like($status, qr/^plugin\.(smtp|imap)\.\d+ +serving/m, 'the status of plugins');
    like($status, qr/^schema_version +[1-9]/m, 'which schema the database has');
    like($status, qr/^lane\.mail +running=/m, 'and lanes');
    like($server->cli_ok(qw(server metrics)), qr/smtp_messages_received_total \d+/, 'metrics');
    like($server->cli_ok(qw(server log --limit 5)), qr/^\d+ +\S+Z +notice +action\.done /m, 'the newest lines');
};

subtest 'the control socket' => sub {
    my $ask = sub {
        my ($bytes) = @_;
        socket my $socket, AF_UNIX, SOCK_STREAM, 0 or die "socket: $!";
        connect $socket, pack_sockaddr_un($server->state . '/run/control.sock') or die "connect: $!";
        local $SIG{PIPE} = 'IGNORE';
        syswrite $socket, $bytes;
        my $answer = <$socket>;
        return $answer // 'closed';
    };
    like($ask->("this is no JSON\n"), qr/"code":"syntax"/, 'no JSON');
    like($ask->("[1,2]\n"), qr/"code":"syntax"/, 'no object');
    like($ask->(qq({"action":7}\n)), qr/names no action/, 'no action');
    like($ask->(qq({"action":"domain.add","args":{"name":7}}\n)), qr/takes text/, 'a wrong type');
    like($ask->(qq({"action":"domain.add","args":[]}\n)), qr/takes an object/, 'no arguments');
    is($ask->('x' x 3_000_000), 'closed', 'an endless line');
    like($ask->("$_\n"), qr/"code":"syntax"/, 'endless brackets')
        for '[' x 200_000, '{"a":' x 100_000, q('"') . '[' x 200_000, q({"a":/*"*/) . '[' x 200_000;
    like($ask->(qq({"action":"domain.list"}\n)), qr/"ok":true/, 'and it still answers');
};

is($server->stop, 0, 'it stops cleanly');
done_testing;
