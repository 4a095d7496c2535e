#!/usr/bin/perl
# valgrind.t - a session of each protocol, and then an exit without an error or a leak
use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Posthouse;

plan skip_all => 'valgrind is not here' unless -x '/usr/bin/valgrind';
plan skip_all => 'a sanitizer watches already' if `nm -D "$ENV{PH_PREFIX}/bin/posthouse" 2>&1` =~ /__(asan|tsan)_/;

my $suppressions = abs_path(dirname(__FILE__) . '/../support/valgrind.supp');
my $server = Posthouse->start(serve => 0);
my $report = $server->state . '/valgrind.%p';
Posthouse::run(['cp', $suppressions, $server->state . '/supp']);
chmod 0644, $server->state . '/supp';
chmod 0777, $server->state;
$server->{environment}{POSTHOUSE_DAEMON_WRAPPER} = join ' ', '/usr/bin/valgrind', '--quiet', '--leak-check=full',
    '--show-leak-kinds=definite,indirect', '--errors-for-leak-kinds=definite,indirect', '--error-exitcode=0',
    '--num-callers=25', '--suppressions=' . $server->state . '/supp', "--log-file=$report";
ok($server->serve(seconds => 120), 'it serves under valgrind');
$server->cli_ok([qw(domain add example.test)]);
$server->user_add("$_\@example.test") for qw(alice bob);
$server->cli_ok(qw(alias add team@example.test bob@example.test));

for my $service (qw(smtp lmtp)) {
    my $client = $server->smtp($service, seconds => 60);
    $client->cmd($service eq 'lmtp' ? 'LHLO client.example.org' : 'EHLO client.example.org');
    like($client->mail('a@example.org', ['alice@example.test', 'team@example.test'], "Subject: x\n\nhello\n"), qr/^250 /, $service);
    $client->reply if $service eq 'lmtp';
    $client->cmd('FOO');
    $client->cmd('QUIT');
}
for my $service (qw(submission submissions)) {
    my $client = $server->smtp($service, seconds => 60);
    $client->cmd('EHLO client.example.org');
    $client->starttls if $service eq 'submission';
    $client->cmd('EHLO client.example.org');
    $client->login('alice@example.test', 'wrong-password');
    like($client->login('alice@example.test', $Posthouse::password), qr/^235 /, $service);
    like($client->mail('alice@example.test', 'bob@example.test', "Subject: x\n\nhello\n"), qr/^250 /, 'mail');
}
my $other = $server->imap(login => 'alice', seconds => 60);
$other->cmd('SELECT INBOX');
my $tag = $other->begin('IDLE');
$other->response;
my $imap = $server->imap(login => 'alice', seconds => 60);
for my $command ('CAPABILITY', 'ID NIL', 'NAMESPACE', 'LIST "" "*"', 'LSUB "" "*"', 'CREATE a/b', 'RENAME a c', 'STATUS INBOX (MESSAGES)',
    'SUBSCRIBE c', 'SELECT INBOX', 'FETCH 1:* (FLAGS ENVELOPE BODYSTRUCTURE BODY[] BODY[HEADER.FIELDS (Subject)])',
    'STORE 1 +FLAGS (\\Flagged $Work)', 'SEARCH OR TEXT hello SUBJECT y', 'COPY 1 c', 'MOVE 1 Trash', 'STORE 1 +FLAGS (\\Deleted)',
    'EXPUNGE', 'CLOSE', 'DELETE c', 'LOGOUT') {
    like($imap->cmd($command), qr/^OK/, $command);
}
like($imap = $server->imap(login => 'bob', seconds => 60), qr/./, 'another');
like($imap->append('INBOX', "Subject: appended\r\n\r\n" . "body\r\n" x 60000, '\\Seen'), qr/^OK/, 'APPEND');
$imap->cmd('FROBNICATE');
$imap->abort;
$server->cli_ok(qw(plugin replace smtp));
$server->cli_ok('status');
$server->cli_ok(qw(config set log.level debug));

is($server->stop(120), 0, 'it stops, with sessions open');
my @reports = map { Posthouse::slurp($_) } glob($server->state . '/valgrind.*');
is(scalar @reports, 1, 'one daemon was watched');
is($reports[0], '', 'and valgrind has nothing to say');
done_testing;
