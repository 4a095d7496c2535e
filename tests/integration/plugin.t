#!/usr/bin/perl
# plugin.t - plugins are loaded, replaced under load, stopped; broken ones are named and harm nobody
# suite: core
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(sleep time);
use Posthouse;

my $server = Posthouse->start(conf => { allowed_ports => '7,24,25,143,465,587,993' });
my $plugins = "$ENV{PH_PREFIX}/lib/posthouse/plugins";

$server->cli_ok(qw(plugin start example));
sub echo_port { $server->cli_ok('status') =~ /^port\.echo +(\d+)/m ? $1 : undef }
my $port = echo_port();
ok($port, 'the example plugin listens');

sub echo {
    my ($client, $text) = @_;
    $client->send_line($text);
    return $client->line(10);
}

my $old = Posthouse::Client->connect(port => $port);
is(echo($old, 'hello'), 'hello', 'and answers');

# Clients that come, talk and go, all the time.
my $stop = $server->state . '/stop';
my @pids;
for (1 .. 4) {
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my $n = 0;
        until (-e $stop) {
            my $client = eval { Posthouse::Client->connect(port => $port) } or POSIX::_exit(1);
            for my $word (qw(one two)) {
                POSIX::_exit(2) unless (eval { echo($client, $word) } // '') eq $word;
            }
            $client->close;
            $n++;
        }
        POSIX::_exit($n > 10 ? 0 : 3);
    }
    push @pids, $pid;
}
for my $round (1 .. 10) {
    $server->cli_ok(qw(plugin replace example));
    sleep 0.1;
}
is(echo($old, 'still'), 'still', 'a session of the first generation goes on');
Posthouse::spew($stop, '');
my @status = map { waitpid $_, 0; $? >> 8 } @pids;
is("@status", '0 0 0 0', 'ten replacements under load, and no connection was refused or cut');
unlink $stop;

ok(Posthouse::wait_until(5, sub { 1 == (() = $server->cli_ok(qw(plugin list)) =~ /^example +draining/mg) }),
    'only the generation with a session is left') or diag($server->cli_ok(qw(plugin list)));
$old->close;
ok(Posthouse::wait_until(5, sub { $server->cli_ok(qw(plugin list)) !~ /draining/ }), 'then it is unloaded');

my $last = Posthouse::Client->connect(port => $port);
is(echo($last, 'x'), 'x', 'a client of the last generation');
$server->cli_ok(qw(plugin stop example --deadline_s 5));
is($last->line(5), 'stopping', 'is told when the plugin stops');
ok($last->is_closed, 'and let go');
is(echo_port(), undef, 'nothing listens');
ok(!eval { Posthouse::Client->connect(port => $port, seconds => 2) }, 'the port is closed');
my $maps = Posthouse::slurp('/proc/' . $server->pid('daemon') . '/maps');
SKIP: {
    skip 'sanitized images stay mapped', 1 if `nm -D "$ENV{PH_PREFIX}/bin/posthouse" 2>&1` =~ /__(asan|tsan)_/;
    unlike($maps, qr/example-[0-9a-f]+/, 'the image is unmapped');
}
$server->cli_ok(qw(plugin start example));
ok(echo_port(), 'it can be started again');

# What cannot be loaded.
my ($status, $text) = $server->cli(qw(plugin start missing));
isnt($status, 0, 'a plugin that is not there');
like($text, qr/"missing"/, 'is named');
my $other = $server->state . '/other.so';
Posthouse::run(['cp', "$plugins/example.so", $other]);
chmod 0755, $other;
($status, $text) = $server->cli(qw(plugin start other --file), $other);
isnt($status, 0, 'a file that holds another plugin');
like($text, qr/holds the plugin "example"/, 'is refused');
Posthouse::spew($other, 'this is no shared object');
($status, $text) = $server->cli(qw(plugin replace example --file), $other);
isnt($status, 0, 'a file that is no plugin');
ok(echo_port(), 'does not take the place of a working one');
# Another ABI: the first word of the descriptor (behind it stands its size) is changed in the file.
my $image = Posthouse::slurp("$plugins/example.so");
is($image =~ s/\Q${\ pack('VV', 1 << 16, 72)}\E/pack('VV', 7 << 16 | 3, 72)/ge, 1, 'the descriptor is found');
Posthouse::spew("$other.abi", $image);
chmod 0755, "$other.abi";
($status, $text) = $server->cli(qw(plugin replace example --file), "$other.abi");
isnt($status, 0, 'a plugin of another ABI');
like($text, qr/speaks ABI 7\.3, this server speaks 1\.0/, 'both sides are told');
like($server->cli_ok('status'), qr/^plugin\.missing\.\d+ +failed.*missing/m, 'the status names what failed');
my $smtp = $server->smtp;
like($smtp->cmd('EHLO client.example.org'), qr/^250/, 'and everything else serves');

is($server->stop, 0, 'it stops cleanly');
done_testing;
