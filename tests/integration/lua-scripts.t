#!/usr/bin/perl
# lua-scripts.t - each shipped script is good, passes its own tests, and can be installed
use strict;
use warnings;
use Test::More;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use Posthouse;

my $server = Posthouse->start(accounts => 0);
my $folder = abs_path(dirname(__FILE__) . '/../../lua-scripts');
my @files = sort glob "$folder/*.lua";
cmp_ok(scalar @files, '>=', 5, 'there are scripts');
for my $file (@files) {
    my $name = basename($file, '.lua');
    my ($status, $said) = $server->cli('lua', 'test', $name, $file);
    like($said, qr/^ok\s+true$/m, "$name passes its tests") or diag($said);
    cmp_ok(scalar(() = $said =~ /^(?:output\s+)?ok \d+ - /mg), '>=', 2, 'of which there are some');
    unlike($said, qr/not ok/, 'none fails');
    ($status, $said) = $server->cli('lua', 'install', $name, $file, '--activate');
    is($status, 0, 'it is installed') or diag($said);
}
is($server->stop, 0, 'it stops cleanly');
done_testing;
