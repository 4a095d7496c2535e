# Posthouse.pm - a fresh server for an integration test, and clients that speak line by line
#
#   use Posthouse;
#   my $server = Posthouse->start;                    # example.test with alice and bob
#   my $smtp = $server->smtp('lmtp');
#   like($smtp->cmd('LHLO client.example.org'), qr/^250/m, 'greeted');
#   my $imap = $server->imap(login => 'alice');
#   like($imap->cmd('SELECT INBOX'), qr/^OK/, 'selected');
#
# Where things are: PH_PREFIX is where the server is installed (./dev test sets it; by hand: configure
# --prefix=DIR, make install). PH_TEST_PG, PH_TEST_DIR and PH_TEST_USER come from
# tests/support/with-postgres, which ./dev test runs around prove; a test that is run alone runs itself
# again through it. Each server has a state folder of its own, ports chosen by the kernel, and a database
# made from a template that the first test of the run migrates. `database => 'managed'` gives it a
# PostgreSQL of its own instead, which syncs: for tests of durability and of the keeper.
#
# What is relied on: `posthouse init` writes STATE/posthouse.conf and may find one there; `posthouse
# serve` stays in the foreground, is the keeper, and writes STATE/run/ports.json ({"smtp": 40123, ...})
# once all listeners are up; the daemon is its child; TERM stops all of it.
#
# At the end of the test everything that it started is stopped, by process id. Where a test failed, the
# servers' logs are printed as diagnostics. A sanitizer's report or a crash in a log makes the test fail.
package Posthouse;
use strict;
use warnings;
use Carp qw(croak);
use Cwd qw(abs_path);
use Fcntl qw(:flock);
use File::Basename qw(dirname);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IPC::Open3 qw(open3);
use JSON::PP qw(decode_json);
use POSIX qw(:sys_wait_h);
use Test::More;
use Time::HiRes qw(sleep time);
use Posthouse::Client;

our $password = 'correct-horse-7';

# A test that is run alone brings its own PostgreSQL.
BEGIN {
    if (!$ENV{PH_TEST_PG}) {
        my $here = abs_path(dirname(__FILE__));
        $ENV{PERL5LIB} = join ':', $here, grep { defined } $ENV{PERL5LIB};
        exec "$here/with-postgres", $^X, $0, @ARGV or die "with-postgres: $!";
    }
}

my $prefix = $ENV{PH_PREFIX} or die('PH_PREFIX names no installed server');
my $program = "$prefix/bin/posthouse";
my $run_user = $> == 0 ? $ENV{PH_TEST_USER} : undef;
my $test_process = $$;
my @servers;
# So that END runs when the run is interrupted.
$SIG{$_} //= sub { exit 130 } for qw(INT TERM HUP);
my $databases = 0;

# -- small helpers ----------------------------------------------------------------------------------

sub slurp {
    my ($file) = @_;
    open my $in, '<:raw', $file or return;
    local $/;
    return scalar <$in>;
}

sub spew {
    my ($file, $text) = @_;
    open my $out, '>:raw', $file or croak "$file: $!";
    print $out $text;
    close $out or croak "$file: $!";
}

# Waits until the code gives something true, and gives that; false after `seconds`.
sub wait_until {
    my ($seconds, $code) = @_;
    my $end = time + $seconds;
    while (1) {
        my $value = $code->();
        return $value if $value;
        return $value if time > $end;
        sleep 0.05;
    }
}

# Runs a command with `input`; gives its exit status and what it printed, both streams.
sub run {
    my ($command, $input) = @_;
    my $pid = open3(my $to, my $from, undef, @$command);
    local $SIG{PIPE} = 'IGNORE';
    print $to $input if defined $input;
    close $to;
    my $text = do { local $/; <$from> } // '';
    waitpid $pid, 0;
    return ($? >> 8 || $? & 127, $text);
}

sub psql {
    my ($database, $sql) = @_;
    my @command = (($ENV{PH_TEST_PG_BIN} // '/usr/bin') . '/psql', '-XqAt', '-v', 'ON_ERROR_STOP=1',
        '-d', "$ENV{PH_TEST_PG} dbname=$database", '-c', $sql);
    my ($status, $text) = run(\@command);
    croak "psql: $sql: $text" if $status;
    chomp $text;
    return $text;
}

sub is_alive {
    my ($pid) = @_;
    my $stat = slurp("/proc/$pid/stat") or return 0;
    return $stat !~ /\) Z /;
}

# The processes whose parent is `pid`: id and name.
sub children {
    my ($pid) = @_;
    my @found;
    for my $file (glob '/proc/[0-9]*/stat') {
        my $stat = slurp($file) or next;
        my ($id, $name, $state, $parent) = $stat =~ /^(\d+) \((.*)\) (\S) (\d+)/s or next;
        push @found, [$id, $name] if $parent == $pid && $state ne 'Z';
    }
    return @found;
}

# -- databases --------------------------------------------------------------------------------------

# The name of a database with the current schema, made once per run.
sub template_database {
    my $name = 'ph_template';
    open my $lock, '>>', "$ENV{PH_TEST_DIR}/template.lock" or croak "template.lock: $!";
    flock $lock, LOCK_EX;
    if (!-e "$ENV{PH_TEST_DIR}/template.done") {
        psql('postgres', "DROP DATABASE IF EXISTS $name");
        psql('postgres', "CREATE DATABASE $name");
        my $server = Posthouse->start(database_name => $name, accounts => 0);
        $server->stop;
        $server->forget;
        wait_until(10, sub {
            psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = '$name'") == 0;
        });
        # What a start leaves behind belongs to that node.
        psql($name, 'DELETE FROM node');
        spew("$ENV{PH_TEST_DIR}/template.done", '');
    }
    close $lock;
    return $name;
}

sub fresh_database {
    my $template = template_database();
    my $name = sprintf 'ph_%d_%d', $$, ++$databases;
    psql('postgres', "CREATE DATABASE $name TEMPLATE $template STRATEGY file_copy");
    return $name;
}

# -- the server -------------------------------------------------------------------------------------

# start(OPTION => VALUE...): a server that serves.
#   accounts => 0             do not make example.test, alice and bob
#   settings => { KEY => VALUE }
#                             set through the CLI once it serves
#   conf => { KEY => VALUE }  lines of posthouse.conf
#   database => 'managed'     a PostgreSQL of its own
#   database_name => NAME     this database of the shared cluster (two nodes on one database)
#   environment => { NAME => VALUE }
#   serve => 0                prepare only; ->serve starts it
sub start {
    my ($class, %option) = @_;
    my $base = $ENV{PH_TEST_DIR} // '/tmp';
    my $state = tempdir('state-XXXXXX', DIR => $base);
    chmod 0711, $state;
    my $self = bless {
        state => $state,
        log => "$state.log",
        environment => $option{environment} // {},
    }, $class;
    push @servers, $self;

    my $database = $option{database} // do {
        $self->{database_name} = $option{database_name} // fresh_database();
        "$ENV{PH_TEST_PG} dbname=$self->{database_name}";
    };
    my @init = ($program, 'init', '--state', $state, '--port-base', 'ephemeral', '--database', $database);
    push @init, '--run-as', $run_user if defined $run_user;
    my ($status, $text) = run(\@init);
    die("posthouse init: $text") if $status;
    $self->conf($_, $option{conf}{$_}) for sort keys %{ $option{conf} // {} };
    return $self if defined $option{serve} && !$option{serve};

    $self->serve;
    $self->set($_, $option{settings}{$_}) for sort keys %{ $option{settings} // {} };
    if (!exists $option{accounts} || $option{accounts}) {
        $self->cli_ok([qw(domain add example.test)]);
        $self->user_add("$_\@example.test") for qw(alice bob);
    }
    return $self;
}

# Sets one line of posthouse.conf, for the next start.
sub conf {
    my ($self, $key, $value) = @_;
    my $file = "$self->{state}/posthouse.conf";
    my $text = slurp($file) // '';
    $text =~ s/^\s*\Q$key\E\s*=.*\n//mg;
    spew($file, "$text$key = $value\n");
}

# Starts `posthouse serve` and waits until its listeners are up.
sub serve {
    my ($self, %option) = @_;
    my $seconds = $option{seconds} // 60;
    unlink $self->ports_file;
    my $pid = fork // croak "fork: $!";
    if ($pid == 0) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', $self->{log};
        open STDERR, '>&', \*STDOUT;
        @ENV{ keys %{ $self->{environment} } } = values %{ $self->{environment} };
        exec $program, 'serve', '--state', $self->{state} or POSIX::_exit(127);
    }
    $self->{keeper} = $pid;
    return 1 if $option{no_wait};
    return 1 if $self->wait_for_ports($seconds);
    die("the server did not start:\n" . $self->log) unless $option{may_fail};
    return 0;
}

sub ports_file { "$_[0]{state}/run/ports.json" }

# Waits for ports.json; gives true when it is there.
sub wait_for_ports {
    my ($self, $seconds) = @_;
    delete $self->{ports};
    wait_until($seconds, sub { -s $self->ports_file || !$self->is_running });
    return unless -s $self->ports_file && $self->is_running;
    $self->{ports} = decode_json(slurp($self->ports_file));
    return 1;
}

sub is_running {
    my ($self) = @_;
    return 0 unless $self->{keeper};
    if (waitpid($self->{keeper}, WNOHANG) == $self->{keeper}) {
        $self->{exit_status} = $?;
        $self->{keeper} = undef;
        return 0;
    }
    return 1;
}

sub state { $_[0]{state} }
sub ca_file { "$_[0]{state}/tls/ca.pem" }
sub log { slurp($_[0]{log}) // '' }
sub database_name { $_[0]{database_name} }

# The port of a service: "smtp", "submission", "submissions", "lmtp", "imap", "imaps".
sub port {
    my ($self, $service) = @_;
    $self->{ports} //= decode_json(slurp($self->ports_file) // croak 'no ports.json');
    return $self->{ports}{$service} // croak "no service \"$service\" in ports.json";
}

# One SQL statement on this server's database; for looking, and for breaking things on purpose.
sub sql {
    my ($self, $sql) = @_;
    croak 'a managed database is asked through its own socket' unless $self->{database_name};
    return psql($self->{database_name}, $sql);
}

# -- the program's commands -------------------------------------------------------------------------

# cli(ARGUMENTS...) or cli([ARGUMENTS...], INPUT): exit status and text of `posthouse --state STATE ...`.
sub cli {
    my ($self, @arguments) = @_;
    my $input;
    ($input, @arguments) = ($arguments[1], @{ $arguments[0] }) if ref $arguments[0];
    return run([$program, '--state', $self->{state}, @arguments], $input);
}

# The same where failing ends the test; gives the text.
sub cli_ok {
    my ($self, @arguments) = @_;
    my ($status, $text) = $self->cli(@arguments);
    my $words = join ' ', ref $arguments[0] ? @{ $arguments[0] } : @arguments;
    die("posthouse $words: status $status: $text\n" . $self->log) if $status;
    return $text;
}

sub user_add {
    my ($self, $address, $secret) = @_;
    return $self->cli_ok([qw(user add), $address, '--password-stdin'], ($secret // $password) . "\n");
}

sub set {
    my ($self, $key, $value, @scope) = @_;
    return $self->cli_ok(qw(config set), $key, $value, @scope);
}

# -- clients ----------------------------------------------------------------------------------------

# A connection to a service; options of Posthouse::Client->connect.
sub client {
    my ($self, $service, %option) = @_;
    return Posthouse::Client->connect(port => $self->port($service), ca_file => $self->ca_file, %option);
}

# An SMTP or LMTP client that has read its greeting.
sub smtp {
    my ($self, $service, %option) = @_;
    $service //= 'smtp';
    return Posthouse::Client::Smtp->connect(port => $self->port($service), ca_file => $self->ca_file,
        tls => $service eq 'submissions', %option);
}

# An IMAP client that has read its greeting. login => 'alice' (or a whole address) logs in as well, over
# TLS, which is what a server asks for.
sub imap {
    my ($self, %option) = @_;
    my $service = delete $option{service} // ($option{login} ? 'imaps' : 'imap');
    my $login = delete $option{login};
    my $secret = delete $option{password} // $password;
    my $client = Posthouse::Client::Imap->connect(port => $self->port($service), ca_file => $self->ca_file,
        tls => $service eq 'imaps', %option);
    if (defined $login) {
        $login .= '@example.test' unless $login =~ /\@/;
        my $answer = $client->cmd(qq(LOGIN "$login" "$secret"));
        croak "login of $login: $answer" unless $answer =~ /^OK/;
    }
    return $client;
}

# -- stopping ---------------------------------------------------------------------------------------

# Sends TERM and waits; gives the exit status, undef where it had to be killed.
sub stop {
    my ($self, $seconds) = @_;
    return $self->{exit_status} unless $self->is_running;
    my @below = $self->family;
    kill TERM => $self->{keeper};
    my $stopped = wait_until($seconds // 30, sub { !$self->is_running });
    $self->kill_all(@below) unless $stopped;
    return $stopped ? $self->{exit_status} : undef;
}

# The process ids of the keeper and everything below it.
sub family {
    my ($self) = @_;
    my @open = grep { defined } $self->{keeper};
    my @all;
    while (defined(my $pid = shift @open)) {
        push @all, $pid;
        push @open, map { $_->[0] } children($pid);
    }
    return @all;
}

sub kill_all {
    my ($self, @pids) = @_;
    my $postmaster = $self->postmaster;
    kill KILL => $_ for grep { is_alive($_) } @pids, $postmaster ? $postmaster : ();
    if ($self->{keeper}) {
        waitpid $self->{keeper}, 0;
        $self->{keeper} = undef;
    }
}

# The managed PostgreSQL's process id; checked to be the one of this state folder.
sub postmaster {
    my ($self) = @_;
    for my $file (glob("$self->{state}/postgres/postmaster.pid $self->{state}/postgres/*/postmaster.pid")) {
        my ($pid) = (slurp($file) // '') =~ /^(\d+)/ or next;
        my $line = slurp("/proc/$pid/cmdline") // '';
        my $folder = -l "/proc/$pid/cwd" ? readlink("/proc/$pid/cwd") // '' : '';
        return $pid if index("$line $folder", $self->{state}) >= 0;
    }
    return;
}

# The process id of a part: "keeper", "daemon", "postmaster", "backend" (one of those that serve the daemon).
sub pid {
    my ($self, $part) = @_;
    return $self->{keeper} if $part eq 'keeper';
    return $self->postmaster if $part eq 'postmaster';
    if ($part eq 'daemon') {
        my $postmaster = $self->postmaster // 0;
        my ($pid) = map { $_->[0] } grep { $_->[1] =~ /^posthouse/ && $_->[0] != $postmaster }
            children($self->{keeper} // return);
        return $pid;
    }
    if ($part eq 'backend') {
        my ($pid) = map { $_->[0] } grep { (slurp("/proc/$_->[0]/cmdline") // '') =~ /^postgres: posthouse/ }
            children($self->postmaster // return);
        return $pid;
    }
    croak "no part \"$part\"";
}

# Kills a part with SIGKILL; gives its process id.
sub kill9 {
    my ($self, $part) = @_;
    my $pid = $self->pid($part) or croak "no $part is running";
    kill KILL => $pid;
    if ($part eq 'keeper') {
        waitpid $pid, 0;
        $self->{keeper} = undef;
    }
    return $pid;
}

# Waits until a part that ended runs again under another process id; gives that.
sub wait_for_new {
    my ($self, $part, $old, $seconds) = @_;
    return wait_until($seconds // 30, sub {
        my $pid = $self->pid($part);
        return $pid && $pid != $old ? $pid : 0;
    });
}

# Waits until the daemon answers on its control socket with something from its database.
sub wait_ready {
    my ($self, $seconds) = @_;
    return wait_until($seconds // 30, sub { ($self->cli('domain', 'list'))[0] == 0 });
}

# Removes the state folder.
sub forget {
    my ($self) = @_;
    $self->stop;
    @servers = grep { $_ != $self } @servers;
    remove_tree($self->{state});
    unlink $self->{log};
}

# What no server may ever say, whatever the test looked at: a sanitizer's report, a crash.
sub defects {
    my ($rows) = @_;
    return $rows =~ /^(.*(?:WARNING: ThreadSanitizer|ERROR: \w+Sanitizer|runtime error:|g_assert|assertion failed).*)$/mg,
        $rows =~ /^(.*keeper\.ended: daemon .*signal=(?:4|6|7|8|11)\b.*)$/mg;
}

END {
    if ($$ == $test_process) {
        my $status = $?;
        my $passing = Test::More->builder->is_passing && $status == 0;
        for my $server (@servers) {
            # What a killed keeper leaves is found by its folder.
            my @left = $server->family;
            $server->stop(15);
            my $postmaster = $server->postmaster;
            kill QUIT => $postmaster if $postmaster;
            my $rows = $server->log;
            my @defects = defects($rows);
            diag("log of $server->{state}:\n", substr $rows, -20000) unless $passing && !@defects;
            diag("a process of $server->{state} was found wrong: $_") for @defects;
            $status ||= 1 if @defects;
            if ($server->{database_name} && $server->{database_name} ne 'ph_template') {
                eval { psql('postgres', "DROP DATABASE IF EXISTS $server->{database_name} WITH (FORCE)") };
            }
            wait_until(5, sub { !grep { is_alive($_) } @left, $postmaster ? $postmaster : () });
            remove_tree($server->{state}, { error => \my $ignored });
            unlink $server->{log};
        }
        $? = $status;
    }
}

1;
