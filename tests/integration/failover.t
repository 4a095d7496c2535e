#!/usr/bin/perl
# failover.t - PostgreSQL's primary dies under load and its synchronous replica is promoted: no acknowledged work is
# lost, and clients are served again within 30 s
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../crash";
use Test::More;
use Time::HiRes qw(sleep time);
use Posthouse;
use Work;

my $bin = $ENV{PH_TEST_PG_BIN};
my $folder = "$ENV{PH_TEST_DIR}/failover-$$";
my @as = $> == 0 ? ('setpriv', "--reuid=$ENV{PH_TEST_USER}", '--init-groups', "--regid=" . (getpwnam $ENV{PH_TEST_USER})[3]) : ();
my %postgres; # name => process id
my $this_process = $$;

mkdir $folder or die "$folder: $!";
mkdir "$folder/$_" or die "$folder/$_: $!" for qw(first second);
if ($> == 0) {
    my (undef, undef, $user, $group) = getpwnam $ENV{PH_TEST_USER};
    chown $user, $group, $folder, "$folder/first", "$folder/second";
}

sub tool {
    my ($name, @arguments) = @_;
    my ($status, $text) = Posthouse::run([@as, "$bin/$name", @arguments]);
    die "$name: $text" if $status;
}

# Sockets only; what one would lose by a power cut is not looked at here.
sub start_postgres {
    my ($name, @options) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>>', "$folder/$name.log";
        open STDERR, '>&', \*STDOUT;
        exec @as, "$bin/postgres", '-D', "$folder/$name/data", '-k', "$folder/$name", '-c', 'listen_addresses=',
            '-c', 'fsync=off', '-c', 'max_connections=100', '-c', 'cluster_name=' . $name, @options or POSIX::_exit(127);
    }
    $postgres{$name} = $pid;
    Posthouse::wait_until(30, sub { system("$bin/pg_isready -q -h $folder/$name") == 0 })
        or die Posthouse::slurp("$folder/$name.log");
}

END {
    if ($$ == $this_process) {
        my $status = $?;
        kill QUIT => $_ for values %postgres;
        waitpid $_, 0 for values %postgres;
        Posthouse::run(['rm', '-rf', $folder]);
        $? = $status;
    }
}

tool('initdb', '-D', "$folder/first/data", '-U', 'posthouse', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions');
start_postgres('first', '-c', 'synchronous_standby_names=second');
tool('pg_basebackup', '-D', "$folder/second/data", '-h', "$folder/first", '-U', 'posthouse', '-R', '-c', 'fast', '--no-sync');
start_postgres('second');
ok(Posthouse::wait_until(30, sub {
    `$bin/psql -XqAt -h $folder/first -U posthouse -d postgres -c "SELECT sync_state FROM pg_stat_replication"` =~ /^sync$/;
}), 'a primary with a synchronous replica');
tool('createdb', '-h', "$folder/first", '-U', 'posthouse', 'posthouse');

my $server = Posthouse->start(accounts => 0, environment => { POSTHOUSE_COMMIT_PATIENCE_MS => 60_000 },
    database => "host=$folder/first,$folder/second user=posthouse dbname=posthouse target_session_attrs=read-write");
$server->cli_ok(qw(domain add example.test));
my @workers = map { my $kind = $_; map { { kind => $kind, number => $_ } } 1 .. 2 } qw(sender filer);
push @workers, { kind => 'manager', number => 1 };
$server->user_add("$_\@example.test") for 'held', map { Work::accounts(%$_) } @workers;

# What waits for the replica can be read when the primary was started again; it is not acknowledged before the replica has it.
my $smtp = $server->smtp;
$smtp->cmd('EHLO client.example.org');
$smtp->cmd('MAIL FROM:<a@example.org>');
$smtp->cmd('RCPT TO:<held@example.test>');
$smtp->cmd('DATA');
kill QUIT => $postgres{second};
waitpid delete $postgres{second}, 0;
$smtp->send("Subject: held\r\n\r\nx\r\n.\r\n");
ok(Posthouse::wait_until(15, sub {
    `$bin/psql -XqAt -h $folder/first -U posthouse -d postgres -c "SELECT wait_event FROM pg_stat_activity"` =~ /^SyncRep$/m;
}), 'without the replica a COMMIT waits');
kill QUIT => $postgres{first};
waitpid delete $postgres{first}, 0;
start_postgres('first', '-c', 'synchronous_standby_names=second');
my $count = "SELECT count(*) FROM message";
ok(Posthouse::wait_until(15, sub { `$bin/psql -XqAt -h $folder/first -U posthouse -d posthouse -c "$count"` =~ /^1$/ }),
    'its mail is there after a restart of the primary');
ok(!eval { $smtp->line(5); 1 }, 'and is not acknowledged');
start_postgres('second');
like($smtp->line(60), qr/^250 /, 'until the replica has it');

my $journal = "$folder/journal";
mkdir $journal or die "$journal: $!";
my @pids = map { Work::begin(%$_, servers => [$server], folder => $journal, seed => $$) } @workers;

sub acknowledged {
    my %sum = Work::sum($journal);
    my $n = 0;
    $n += $_ for values %{ $sum{acknowledged} // {} };
    return $n;
}

ok(Posthouse::wait_until(30, sub { acknowledged() > 100 }), 'clients work');
my $begin = time;
my $primary = delete $postgres{first};
kill KILL => $primary;
waitpid $primary, 0;
tool('pg_ctl', 'promote', '-D', "$folder/second/data", '-t', '30', '-s');
my $before = acknowledged();
ok(Posthouse::wait_until(60, sub { acknowledged() > $before + 20 }), 'they work again after the replica was promoted');
my $away = time - $begin;
cmp_ok($away, '<', 30, sprintf 'after %.1f s', $away);
sleep 2;
Posthouse::spew("$journal/stop", '');
waitpid $_, 0 for @pids;
my %sum = Work::sum($journal);
is_deeply($sum{faults}, [], 'all that was acknowledged is there, once, as it was left');
note(join ', ', map { "$sum{acknowledged}{$_} $_" } sort keys %{ $sum{acknowledged} });
is($server->stop, 0, 'it stops cleanly');
done_testing;
