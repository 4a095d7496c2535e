#!/usr/bin/perl
# nodes.t - two servers on one database see each other
# suite: core
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use Posthouse;

my $one = Posthouse->start;
my $two = Posthouse->start(database_name => $one->database_name, accounts => 0, conf => { node_name => 'two' });

sub message { "Subject: $_[0]\r\n\r\nbody\r\n" }

my $first = $one->imap(login => 'alice');
my $second = $two->imap(login => 'alice');
like($_->cmd('SELECT INBOX'), qr/^OK/, 'both select') for $first, $second;

my $tag = $second->begin('IDLE');
is($second->response, '+ idling', 'the second waits');
for my $n (1 .. 5) {
    my $begin = time;
    my $smtp = $one->smtp;
    $smtp->cmd('EHLO client.example.org');
    like($smtp->mail('a@example.org', 'alice@example.test', message($n)), qr/^250 /, "mail $n by the first node");
    is($second->response(5), "* $n EXISTS", 'is told on the second');
    cmp_ok(time - $begin, '<', 1.5, 'soon');
    $second->response(5); # RECENT
}
$first->cmd('NOOP');
$first->cmd('STORE 2 +FLAGS (\\Seen $Marked)');
is($second->response(5), '* FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft $Marked)', 'a keyword is named');
like($second->response(5), qr/^\* 2 FETCH \(UID 2 FLAGS \(\\Seen \$Marked( \\Recent)?\)\)/, 'flags are told');
$first->cmd('STORE 3 +FLAGS (\\Deleted)');
$second->response(5);
$first->cmd('EXPUNGE');
is($second->response(5), '* 3 EXPUNGE', 'and what is gone');
$second->send_line('DONE');
like($second->finish($tag), qr/^OK/, 'DONE');

# Writers on both at once: no UID twice, none lost.
my @pids;
for my $server ($one, $two) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $client = $server->imap(login => 'bob');
        for my $n (1 .. 40) {
            my $answer = $client->append('INBOX', message($n));
            POSIX::_exit(1) unless $answer =~ /^OK \[APPENDUID/;
        }
        POSIX::_exit(0);
    }
    push @pids, $pid;
}
my $failed = 0;
waitpid($_, 0), $failed ||= $? for @pids;
is($failed, 0, 'eighty messages by two nodes');
for my $server ($one, $two) {
    my $client = $server->imap(login => 'bob');
    $client->cmd('SELECT INBOX');
    $client->cmd('UID SEARCH ALL');
    my @uids = (join ' ', $client->untagged) =~ /\* SEARCH (.*)/ ? split ' ', $1 : ();
    is_deeply(\@uids, [1 .. 80], 'each has its UID, on both');
}

# Settings and passwords hold on both.
$one->set('server.message.max_bytes', '2M');
ok(Posthouse::wait_until(3, sub { $two->cli_ok('config', 'get', 'server.message.max_bytes') =~ /^value +2097152$/m }),
    'a setting made on one holds on the other');
$two->set('identity.plaintext.allow_loopback', 'on', '--node');
like($two->cli_ok('config', 'get', 'identity.plaintext.allow_loopback', '--node'), qr/^value +true$/m, 'a setting of one node');
like($one->cli_ok('config', 'get', 'identity.plaintext.allow_loopback', '--node'), qr/^value +false$/m, 'is not that of the other');
my $daemon = $two->kill9('daemon');
$two->wait_for_new('daemon', $daemon);
$two->wait_ready;
like($two->cli_ok('config', 'get', 'identity.plaintext.allow_loopback'), qr/^value +true$/m, 'and outlives a crash');
is(scalar(() = $one->cli_ok(qw(node list --json)) =~ /"name"\s*:\s*"two"/g), 1, 'what was killed is not listed beside what took its place');
$second = $two->imap(login => 'alice');
$one->cli_ok([qw(user passwd bob@example.test --password-stdin)], "another-horse-8\n");
ok(!eval { $two->imap(login => 'bob'); 1 }, 'an old password ends on the other at once');
ok(eval { $two->imap(login => 'bob', password => 'another-horse-8'); 1 }, 'and the new one holds');
my $here = $one->imap(login => 'bob', password => 'another-horse-8');
my $there = $two->imap(login => 'bob', password => 'another-horse-8');
$one->cli_ok(qw(user suspend bob@example.test));
like($here->response(5), qr/^\* BYE/, 'the sessions of a suspended account end');
like($there->response(5), qr/^\* BYE/, 'on the other node, too');
ok(!eval { $two->imap(login => 'bob', password => 'another-horse-8'); 1 }, 'a suspended account logs in nowhere');

# A node is drained and serves again, told on the other.
sub node_state { ($_[0]->cli_ok(qw(node list --json)) =~ /"name"\s*:\s*"\Q$_[1]\E",[^}]*?"state"\s*:\s*"(\w+)"/s)[0] // '?' }
my ($name_one) = $one->cli_ok(qw(status)) =~ /^node_name +(\S+)/m;
is(node_state($two, 'two'), 'serving', 'a node serves');
$second->cmd('SELECT INBOX');
$tag = $second->begin('IDLE');
$second->response;
$one->cli_ok(qw(node drain two));
like($second->response(5), qr/^\* BYE/, 'the sessions of a drained node are asked to go');
ok(Posthouse::wait_until(5, sub { !eval { $two->imap(login => 'alice'); 1 } }), 'no connection is taken there');
ok(Posthouse::wait_until(10, sub { node_state($one, 'two') eq 'drained' }), 'the other node says so');
like($one->cli(qw(node drain nobody)), qr/no node "nobody"/, 'a node that is not there');
$daemon = $two->kill9('daemon');
$two->wait_for_new('daemon', $daemon);
ok(Posthouse::wait_until(10, sub { eval { $two->cli_ok(qw(node list)); 1 } }), 'a drained node starts again');
ok(!eval { $two->imap(login => 'alice'); 1 }, 'and is still drained');
$two->cli_ok(qw(node resume two));
ok(Posthouse::wait_until(5, sub { $two->wait_for_ports(1); eval { $second = $two->imap(login => 'alice'); 1 } }), 'it serves again');
$second->cmd('NOOP');

is($one->stop, 0, 'the first stops');
like($second->cmd('NOOP'), qr/^OK/, 'the second serves on');
is($two->stop, 0, 'and stops');
done_testing;
