#!/usr/bin/perl
# crash.t - kill -9 of each part, alone and together, while twenty clients send: every acknowledged message is there
# exactly once, an unacknowledged one at most once for each attempt
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use Posthouse;

# A PostgreSQL of its own: it syncs, and it is killed.
my $server = Posthouse->start(database => 'managed');
my $senders = 20;
my $dir = $server->state . '.journal';
mkdir $dir or die "$dir: $!";
my $stop_file = "$dir/stop";

# One sender: numbered messages, each tried until it is acknowledged; every attempt and every 250 is written down before
# the next step. Its own process and journal.
sub send_until_stopped {
    my ($n) = @_;
    open my $journal, '>>', "$dir/sender-$n" or POSIX::_exit(1);
    $journal->autoflush(1);
    my ($number, $smtp) = (0);
    while (!-e $stop_file) {
        my $id = sprintf '%d-%d', $n, ++$number;
        my $acknowledged = 0;
        until ($acknowledged) {
            if (-e $stop_file) { print $journal "given-up $id\n"; POSIX::_exit(0) }
            $smtp //= eval {
                my $client = $server->smtp('smtp', seconds => 40);
                $client->cmd('EHLO client.example.org');
                $client;
            };
            if (!$smtp) { delete $server->{ports}; sleep 0.05; next }
            my $answer = eval {
                $smtp->cmd('RSET');
                my $reply = $smtp->cmd('MAIL FROM:<a@example.org>');
                $reply = $smtp->cmd('RCPT TO:<' . ($n % 2 ? 'alice' : 'bob') . '@example.test>') if $reply =~ /^250/;
                if ($reply =~ /^250/) {
                    print $journal "attempt $id\n";
                    $reply = $smtp->data("Subject: $id\n\n" . "line of the body\n" x 20);
                }
                $reply;
            };
            if (!defined $answer || $answer =~ /^421/) { undef $smtp; next }
            if ($answer =~ /^250/) { print $journal "acknowledged $id\n"; $acknowledged = 1 }
            else { print $journal "answer $answer\n"; sleep 0.05 }
        }
    }
    POSIX::_exit(0);
}

my @pids;
for my $n (1 .. $senders) {
    my $pid = fork // die "fork: $!";
    send_until_stopped($n) if $pid == 0;
    push @pids, $pid;
}

sub acknowledged { scalar map { /^acknowledged / ? 1 : () } map { split /\n/, Posthouse::slurp($_) // '' } glob "$dir/sender-*" }

# Work goes on: more is acknowledged than before.
sub goes_on {
    my ($what) = @_;
    my $before = acknowledged();
    ok(Posthouse::wait_until(60, sub { acknowledged() > $before + $senders }), "$what: mail goes on");
}

goes_on('before');
for my $part (qw(daemon backend postmaster)) {
    my $pid = $server->kill9($part);
    ok($server->wait_for_new($part, $pid, 40), "$part: killed, and started again");
    goes_on($part);
}
$server->kill9('keeper');
ok($server->serve(seconds => 60), 'keeper: killed, and started again');
goes_on('keeper');
my @all = $server->family;
my $postmaster = $server->postmaster;
kill KILL => @all, $postmaster;
waitpid $server->{keeper}, 0;
$server->{keeper} = undef;
ok($server->serve(seconds => 60), 'all at once: killed, and started again');
goes_on('all at once');

Posthouse::spew($stop_file, '');
waitpid $_, 0 for @pids;

my (%attempts, %acknowledged);
for my $file (glob "$dir/sender-*") {
    for (split /\n/, Posthouse::slurp($file)) {
        $attempts{$1}++ if /^attempt (\S+)/;
        $acknowledged{$1}++ if /^acknowledged (\S+)/;
    }
}
my %stored;
for my $login (qw(alice bob)) {
    my $imap = $server->imap(login => $login, seconds => 60);
    $imap->cmd('SELECT INBOX');
    $imap->cmd('FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])');
    my %uid;
    for ($imap->untagged) {
        $stored{$1}++ if /Subject: (\S+)/;
        $uid{$1}++ if /UID (\d+)/;
    }
    is((scalar grep { $_ > 1 } values %uid), 0, "$login: no UID twice");
}
my @lost = grep { !$stored{$_} } keys %acknowledged;
my @extra = grep { $stored{$_} > ($attempts{$_} // 0) } keys %stored;
# A message may be there more often than acknowledged only for attempts whose answer never came.
my @twice = grep { $stored{$_} > 1 && $stored{$_} > ($attempts{$_} // 0) } keys %acknowledged;
my @single = grep { ($attempts{$_} // 0) == 1 && $stored{$_} != 1 } keys %acknowledged;
note(sprintf '%d acknowledged, %d stored, %d attempts', scalar keys %acknowledged, scalar keys %stored,
    eval { my $sum = 0; $sum += $_ for values %attempts; $sum });
cmp_ok(scalar(keys %acknowledged), '>', 200, 'there was something to lose');
is("@lost", '', 'every acknowledged message is there');
is("@single", '', 'one that was sent once is there exactly once');
is("@extra@twice", '', 'nothing is there more often than it was sent');

is($server->stop, 0, 'it stops cleanly');
Posthouse::run(['rm', '-rf', $dir]);
done_testing;
