# Bench.pm - what the benches share: a server with a database of its own, load, CPU of process trees
#
# Built on tests/support/Posthouse.pm. PH_PREFIX is where the server is installed and PH_BUILD is its build
# folder, as `./dev bench` sets them. Everything is below one folder, on the disk of TMPDIR (default /tmp),
# that is removed at the end.
package Bench;
use strict;
use warnings;
use Carp qw(croak);
use File::Temp qw(tempdir);
use Time::HiRes qw(time);

our $folder;
our $user;

# Posthouse.pm would bring a PostgreSQL that does not sync; here each server has its own, which does.
BEGIN {
    $user = 'posthouse-dev';
    $user = 'postgres' if $> == 0 && !getpwnam $user;
    my $base = $ENV{TMPDIR} // '/tmp';
    $base = '/var/lib/posthouse-dev' if $> == 0
        && system('setpriv', "--reuid=$user", '--clear-groups', 'test', '-x', $base) != 0;
    $folder = tempdir('ph-bench-XXXXXX', DIR => $base, CLEANUP => 1);
    chmod 0711, $folder;
    @ENV{qw(PH_TEST_PG PH_TEST_DIR PH_TEST_USER)} = ('none', $folder, $user);
}
use Posthouse;

# So that what was started is stopped when nobody reads on.
$SIG{PIPE} = sub { exit 141 };

my $build = $ENV{PH_BUILD} or die "PH_BUILD names no build folder\n";
-x "$build/bench/smtp-load" or die "no programs in $build/bench: make bench-programs\n";

# A server with its own database and accounts u0 ... of example.test.
sub server {
    my ($n_accounts, %option) = @_;
    my $server = Posthouse->start(database => 'managed', accounts => 0, %option);
    $server->cli_ok(qw(config set identity.plaintext.allow_loopback true));
    $server->cli_ok(qw(domain add example.test));
    $server->user_add("u$_\@example.test") for 0 .. $n_accounts - 1;
    return $server;
}

# Can this build leave out a part that tests leave out?
sub has_test_points {
    return (Posthouse::slurp("$build/config.h") // '') =~ /^#define PH_TEST_POINTS 1/m;
}

# Runs a generator and gives its figures.
sub load {
    my ($program, @arguments) = @_;
    my ($status, $text) = Posthouse::run(["$build/bench/$program", @arguments]);
    my %figure = $text =~ /(\w+)=(\S+)/g;
    croak "$program: $text" if $status;
    return \%figure;
}

# One field of `posthouse status`.
sub status {
    my ($server, $field) = @_;
    my $text = $server->cli_ok('status');
    my ($value) = $text =~ /^\s*\Q$field\E:?\s+(\S+)/m or croak "no \"$field\" in: $text";
    return $value;
}

sub _stat {
    my ($pid) = @_;
    my ($rest) = (Posthouse::slurp("/proc/$pid/stat") // return) =~ /^\d+ \(.*\) (.*)/s;
    return split ' ', $rest;
}

# Milliseconds of CPU that the threads of one process have had whose names match.
sub threads_cpu_ms {
    my ($pid, $name) = @_;
    my ($sum, $found) = (0, 0);
    for my $thread (glob "/proc/$pid/task/*") {
        next unless (Posthouse::slurp("$thread/comm") // '') =~ $name;
        $found++;
        my ($ns) = split ' ', Posthouse::slurp("$thread/schedstat") // '0';
        $sum += $ns / 1e6;
    }
    croak "process $pid has no thread named like $name" unless $found;
    return $sum;
}

# Every process: its parent, and its ticks with those of its ended children.
sub _processes {
    my (%below, %ticks);
    for my $pid (map { m{/(\d+)$} } glob '/proc/[0-9]*') {
        my @field = _stat($pid) or next;
        push @{ $below{ $field[1] } }, $pid;
        $ticks{$pid} = $field[11] + $field[12] + $field[13] + $field[14];
    }
    return (\%below, \%ticks);
}

sub _tree {
    my ($root, $below) = @_;
    my (@found, @open);
    @open = ($root);
    while (defined(my $pid = shift @open)) {
        push @found, $pid;
        push @open, @{ $below->{$pid} // [] };
    }
    return @found;
}

# The ids of a process and everything below it.
sub tree {
    my ($root) = @_;
    return _tree($root, (_processes())[0]);
}

# CPU seconds of a process and everything below it, ended children included.
sub tree_cpu_s {
    my ($root) = @_;
    my ($below, $ticks) = _processes();
    my $sum = 0;
    $sum += $ticks->{$_} // 0 for _tree($root, $below);
    return $sum / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2] if @sorted % 2;
    return ($sorted[@sorted / 2 - 1] + $sorted[@sorted / 2]) / 2;
}

1;
