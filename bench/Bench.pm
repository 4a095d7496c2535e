# Bench.pm - what the benches share: a server with a database of its own, load, CPU of process trees
#
# Built on tests/support/Posthouse.pm. PH_PREFIX is where the server is installed and PH_BUILD is its build
# folder, as `./dev bench` sets them. Everything is below one folder, on the disk of TMPDIR (default /tmp),
# that is removed at the end.
package Bench;
use strict;
use warnings;
use Carp qw(croak);
use File::Basename qw(basename);
use File::Temp qw(tempdir);
use Getopt::Long qw(GetOptions);
use JSON::PP ();
use POSIX ();
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

# -- sides of a comparison --------------------------------------------------------------------------
#
# A side has name, port(SERVICE), and what it costs: the CPU of its pids, or, without pids, of all below its roots,
# ended processes included.

package Bench::Own {
    sub name { 'posthouse' }
    sub port { $_[0]{server}->port($_[1]) }
    sub roots { $_[0]{server}{keeper} }
    sub pids { $_[0]{daemon_only} ? $_[0]{server}->pid('daemon') : () }
    sub server { $_[0]{server} }

    # The server's log is of interest only where a run died.
    sub forget { $_[0]{server}->forget }
}

# Posthouse as a side, with accounts => N and what else Posthouse->start knows. daemon_only => 1: what it costs is
# the CPU of the daemon, which leaves the database out.
sub own_side {
    my (%option) = @_;
    my $daemon_only = delete $option{daemon_only};
    return bless { daemon_only => $daemon_only, server => server(delete $option{accounts} // 0, %option) }, 'Bench::Own';
}

sub side_cpu_s {
    my ($side) = @_;
    my @pids = $side->can('pids') ? $side->pids : ();
    my $sum = 0;
    if (@pids) {
        $sum += threads_cpu_ms($_, qr//) / 1000 for @pids;
    } else {
        $sum += tree_cpu_s($_) for $side->roots;
    }
    return $sum;
}

# Runs a generator that prints "measuring" and "measured" around what counts; gives the CPU that the side had
# between those, and the rest of what it printed. Its exit status 1
# is an answer.
sub measured {
    my ($side, @command) = @_;
    my ($program, @arguments) = @command;
    open my $out, '-|', "$build/bench/$program", @arguments or die "$program: $!";
    my ($cpu_s, $text) = (0, '');
    while (my $line = <$out>) {
        if ($line eq "measuring\n") {
            $cpu_s -= side_cpu_s($side);
        } elsif ($line eq "measured\n") {
            $cpu_s += side_cpu_s($side);
        } else {
            $text .= $line;
        }
    }
    close $out;
    die "$program ended with status $?: $text\n" if $? & 127 || $? >> 8 > 1;
    print $side->name, ": $text";
    return ($cpu_s, $text);
}

my @peers;
my $targets = 0;
my $missed = 0;

# The options of a bench: defaults by name (whole numbers), other defaults where --quick is given, and
# --against with names of `$known`. What is left of the command line stays in @ARGV.
sub options {
    my ($known, $default, $quick) = @_;
    my (%given, @against);
    GetOptions(\%given, 'against=s' => \@against, 'quick', map { "$_=i" } keys %$default) or exit 2;
    @peers = map { split /,/ } @against;
    for my $name (@peers) {
        grep { $_ eq $name } @$known
            or die sprintf "%s: no peer \"%s\"; there %s %s\n", basename($0), $name, @$known == 1 ? 'is' : 'are',
            join ' and ', @$known;
    }
    $| = 1;
    return (%$default, $given{quick} ? %{ $quick // {} } : (), %given);
}

# The names after --against.
sub peers { @peers }

# Runs `code` on each side in turn, in rounds, since the machine may be another in the next; gives what it gave
# (figures by name), by side's name and round.
sub rounds {
    my ($n, $sides, $code) = @_;
    my %results;
    for (1 .. $n) {
        push @{ $results{ $_->name } }, $code->($_) for @$sides;
    }
    return \%results;
}

# One figure of a side: the median of its rounds.
sub figure {
    my ($results, $side, $key) = @_;
    return median(map { $_->{$key} } @{ $results->{ $side->name } });
}

# How many times as large a figure is on one side as on the other: the median of the rounds' ratios.
sub ratio {
    my ($results, $key, $one, $other) = @_;
    my @pairs = map { [$results->{ $one->name }[$_]{$key}, $results->{ $other->name }[$_]{$key}] }
        0 .. $#{ $results->{ $one->name } };
    return median(map { $_->[1] > 0 ? $_->[0] / $_->[1] : 9**9**9 } @pairs);
}

# One line of the result; also a JSON object in a line of the file that PH_BENCH_ROWS names. The target is [">=" or "<=", number], or undef where
# a figure is only told.
sub row {
    my ($what, $value, $unit, $target) = @_;
    my $verdict = '';
    if ($target) {
        my ($compare, $limit) = @$target;
        my $met = $compare eq '<=' ? $value <= $limit : $value >= $limit;
        $missed++ unless $met;
        $verdict = sprintf '%s %g %s', $compare, $limit, $met ? 'met' : 'MISSED';
    }
    printf "%-70s %10s %-12s %s\n", $what, number($value), $unit, $verdict;
    $targets++ if $target;
    return unless defined $ENV{PH_BENCH_ROWS};
    # At once: a bench that dies later has told this much.
    open my $out, '>>', $ENV{PH_BENCH_ROWS} or die "$ENV{PH_BENCH_ROWS}: $!";
    print $out JSON::PP->new->canonical->encode(
        { bench => basename($0), what => $what, value => $value + 0, unit => $unit, verdict => $verdict }), "\n";
    close $out;
}

# Three digits that matter.
sub number {
    my ($value) = @_;
    return sprintf $value >= 100 ? '%.0f' : $value >= 10 ? '%.1f' : '%.2f', $value;
}

# Tells what each side's `cpu_us` (microseconds of CPU for one of `what`) is, and how many times as many we do in
# a CPU second as each peer; `want` has the targets by the peer's name.
sub compare {
    my ($title, $what, $results, $own, $peers, $want) = @_;
    for my $side ($own, @$peers) {
        row("$title: ${\ $side->name}", figure($results, $side, 'cpu_us'), "us/$what");
    }
    for my $peer (@$peers) {
        my $target = $want->{ $peer->name };
        row("$title: posthouse / ${\ $peer->name}, per CPU second", ratio($results, 'cpu_us', $peer, $own), 'times',
            defined $target ? ['>=', $target] : undef);
    }
}

# The exit status of a bench that ran to its end.
sub finish {
    if (defined $ENV{PH_BENCH_ROWS}) {
        open my $out, '>>', $ENV{PH_BENCH_ROWS} or die "$ENV{PH_BENCH_ROWS}: $!";
        print $out qq({"finished":true}\n);
        close $out;
    }
    print $missed ? "$missed of the targets missed\n" : "every target met\n" if $targets;
    return $missed ? 1 : 0;
}

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2] if @sorted % 2;
    return ($sorted[@sorted / 2 - 1] + $sorted[@sorted / 2]) / 2;
}

1;
