#!/usr/bin/perl
# clients.t - programs that people use: swaks, curl, mbsync, openssl
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;
use Posthouse;

my $server = Posthouse->start;
my $dir = tempdir(CLEANUP => 1);
my $password = $Posthouse::password;
my $ca = $server->ca_file;
Posthouse::run(['cp', $ca, "$dir/ca.pem"]);
$ca = "$dir/ca.pem";
my ($imap, $imaps, $smtp, $submission, $submissions, $lmtp) =
    map { $server->port($_) } qw(imap imaps smtp submission submissions lmtp);

sub succeeds {
    my ($name, $command, $input) = @_;
    my ($status, $text) = Posthouse::run($command, $input);
    is($status, 0, $name) or diag($text);
    return $text;
}

sub count {
    my ($login, $mailbox) = @_;
    my $client = $server->imap(login => $login);
    $client->cmd("STATUS $mailbox (MESSAGES)");
    return (join ' ', $client->untagged) =~ /MESSAGES (\d+)/ ? $1 : undef;
}

subtest 'swaks' => sub {
    my @common = ('swaks', '--server', '127.0.0.1', '--ehlo', 'client.example.org', '--hide-all');
    succeeds('port 25', [@common, '--port', $smtp, '--from', 'a@example.org', '--to', 'alice@example.test']);
    succeeds('port 25 with STARTTLS', [@common, '--port', $smtp, '-tls', '--tls-verify', '--tls-ca-path', $ca,
        '--server', 'localhost', '--from', 'a@example.org', '--to', 'alice@example.test']);
    my @login = ('--auth-user', 'alice@example.test', '--auth-password', $password, '--from', 'alice@example.test', '--to',
        'alice@example.test,bob@example.test');
    succeeds('submission, AUTH PLAIN', [@common, '--port', $submission, '-tls', '--auth', 'PLAIN', @login]);
    succeeds('submission, AUTH LOGIN', [@common, '--port', $submission, '-tls', '--auth', 'LOGIN', @login]);
    succeeds('submissions', [@common, '--port', $submissions, '--tls-on-connect', '--auth', 'PLAIN', @login]);
    succeeds('LMTP', [@common, '--protocol', 'LMTP', '--port', $lmtp, '--from', 'a@example.org', '--to', 'alice@example.test']);
    is(count('alice', 'INBOX'), 6, 'all of it is there');
};

subtest 'curl' => sub {
    my @common = ('curl', '--silent', '--show-error', '--cacert', $ca, '--user', "alice\@example.test:$password");
    Posthouse::spew("$dir/mail", "From: alice\@example.test\r\nSubject: by curl\r\n\r\nhello\r\n");
    succeeds('sends by SMTP', [@common, '--ssl-reqd', '--url', "smtp://localhost:$submission", '--mail-from', 'alice@example.test',
        '--mail-rcpt', 'alice@example.test', '--upload-file', "$dir/mail"]);
    like(succeeds('fetches by IMAP', [@common, "imaps://localhost:$imaps/INBOX;UID=7"]), qr/^hello\r$/m, 'the mail');
    like(succeeds('lists', [@common, "imaps://localhost:$imaps/"]), qr/Archive/, 'the mailboxes');
    like(succeeds('searches', [@common, "imaps://localhost:$imaps/INBOX?SUBJECT%20curl"]), qr/SEARCH 7/, 'by subject');
    succeeds('appends', [@common, '--ssl-reqd', '--upload-file', "$dir/mail", "imap://localhost:$imap/Drafts"]);
    is(count('alice', 'Drafts'), 1, 'into Drafts');
};

subtest 'openssl s_client' => sub {
    my @common = ('openssl', 's_client', '-CAfile', $ca, '-verify_return_error', '-verify_hostname', 'localhost', '-quiet');
    my ($status, $text) = Posthouse::run([@common, '-connect', "localhost:$imaps"], "a LOGOUT\r\n");
    like($text, qr/^\* OK .*^a OK/ms, 'IMAPS');
    ($status, $text) = Posthouse::run([@common, '-starttls', 'smtp', '-connect', "localhost:$smtp"], "QUIT\r\n");
    like($text, qr/^221 /m, 'SMTP with STARTTLS');
    ($status, $text) = Posthouse::run([@common, '-alpn', 'h2,http/1.1', '-connect', "localhost:$imaps"], '');
    unlike($text, qr/^\* OK/m, 'a client of another protocol is refused by ALPN');
    ($status, $text) = Posthouse::run([@common, '-tls1_1', '-cipher', 'ALL:@SECLEVEL=0', '-connect', "localhost:$imaps"], '');
    unlike($text, qr/^\* OK/m, 'TLS 1.1 is refused');
};

subtest 'mbsync, both ways' => sub {
    mkdir "$dir/mail-$_" for 1, 2;
    my $config = sub {
        my ($n) = @_;
        Posthouse::spew("$dir/mbsyncrc$n", <<"END");
IMAPAccount a
Host localhost
Port $imaps
User bob\@example.test
Pass $password
SSLType IMAPS
CertificateFile $ca

IMAPStore far
Account a

MaildirStore near
Path $dir/mail-$n/
Inbox $dir/mail-$n/INBOX
SubFolders Verbatim

Channel all
Far :far:
Near :near:
Patterns *
Create Both
Remove Both
Expunge Both
SyncState *
END
        return ['mbsync', '-c', "$dir/mbsyncrc$n", '-a'];
    };
    my $client = $server->imap(login => 'bob');
    my $before = count('bob', 'INBOX');
    $client->append('INBOX', "Subject: $_\r\n\r\nbody $_\r\n", $_ % 2 ? '\\Seen' : '') for 1 .. 30;
    succeeds('a first copy', $config->(1));
    is(scalar(glob_count("$dir/mail-1/INBOX")), $before + 30, 'everything came');
    succeeds('a second copy', $config->(2));

    # New mail here, flags and deletion there.
    Posthouse::spew("$dir/mail-1/INBOX/new/1.local", "Subject: from here\n\nbody\n");
    $client->cmd('SELECT INBOX');
    $client->cmd('STORE 1 +FLAGS (\\Flagged)');
    $client->cmd('STORE 2 +FLAGS (\\Deleted)');
    $client->cmd('EXPUNGE');
    mkdir "$dir/mail-1/Projects";
    mkdir "$dir/mail-1/Projects/$_" for qw(cur new tmp);
    Posthouse::spew("$dir/mail-1/Projects/new/2.local", "Subject: in a new folder\n\nbody\n");
    succeeds('the first again', $config->(1));
    succeeds('the second again', $config->(2));
    is(count('bob', 'INBOX'), $before + 30, 'one came, one went');
    is(count('bob', 'Projects'), 1, 'a new folder');
    is(scalar(glob_count("$dir/mail-2/INBOX")), $before + 30, 'the second copy has the same');
    my @flagged = glob("$dir/mail-2/INBOX/cur/*F*");
    is(scalar @flagged, 1, 'with the flag');
    my $quiet = succeeds('a third time', $config->(1));
    is(count('bob', 'INBOX'), $before + 30, 'there is nothing left to do');
};

sub glob_count {
    my ($maildir) = @_;
    my @files = (glob("$maildir/cur/*"), glob("$maildir/new/*"));
    return scalar @files;
}

is($server->stop, 0, 'it stops cleanly');
done_testing;
