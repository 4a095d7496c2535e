#!/usr/bin/perl
# processes.t - the processes start, are started again when they are killed, and stop cleanly
# suite: core
use strict;
use warnings;
use Test::More;
use Posthouse;

# On an external database: keeper and daemon only.
my $server = Posthouse->start;
my $status = $server->cli_ok('status');
like($status, qr/^database +available/m, 'the status says that the database is there');
like($server->cli_ok('user', 'list'), qr/^alice\@example\.test +active/m, 'alice is there');

my $daemon = $server->kill9('daemon');
ok($server->wait_for_new('daemon', $daemon), 'a killed daemon is started again');
ok($server->wait_ready, 'and serves');
my ($code, $text) = $server->cli('domain', 'add', 'example.test');
isnt($code, 0, 'a domain cannot be made twice');
like($text, qr/example\.test/, 'and the answer names it');
is($server->stop, 0, 'it stops cleanly');
ok(!-e $server->ports_file, 'and says that nothing listens any more');
ok($server->serve, 'it starts again on its state');
like($server->cli_ok('user', 'list'), qr/^bob\@example\.test +active/m, 'and knows what it knew');
my ($again) = Posthouse::run(["$ENV{PH_PREFIX}/bin/posthouse", 'serve', '--state', $server->state]);
isnt($again, 0, 'a second keeper on the same state is refused');
is($server->stop, 0, 'it stops cleanly');

# With a PostgreSQL of its own.
my $managed = Posthouse->start(database => 'managed', accounts => 0);
$managed->cli_ok(qw(domain add example.org));
my $postmaster = $managed->kill9('postmaster');
ok($managed->wait_for_new('postmaster', $postmaster), 'a killed database is started again');
ok($managed->wait_ready, 'and the daemon finds it');
like($managed->cli_ok('domain', 'list'), qr/example\.org/, 'nothing was lost');

my @orphans = $managed->family;
my $keeper = $managed->kill9('keeper');
ok($managed->serve, 'after a killed keeper a new one takes over');
ok(!(grep { Posthouse::is_alive($_) } grep { $_ != $keeper } @orphans), 'and nothing of the old is left');
ok($managed->wait_ready, 'it serves');
like($managed->cli_ok('domain', 'list'), qr/example\.org/, 'nothing was lost');
is($managed->stop, 0, 'it stops cleanly');
is($managed->postmaster, undef, 'and the database with it');
done_testing;
