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
# What the annotations promise is there, and nothing is there without an annotation.
my $stubs = Posthouse::slurp("$folder/../docs/lua/posthouse.lua");
my @named = $stubs =~ /^function (posthouse\.\w+\.\w+|\w+)\(/mg;
push @named, 'posthouse.json.null';
my $names = join ', ', map { qq(["$_"] = true) } @named;
Posthouse::spew("$server->{state}/stubs.lua", <<"LUA");
local named = { $names }
for name in pairs(named) do
  if name ~= "include" and name ~= "raw" then assert(load("return " .. name)() ~= nil, name) end
end
for module, fields in pairs(posthouse) do
  for field in pairs(fields) do assert(named["posthouse." .. module .. "." .. field], module .. "." .. field) end
end
return {}
LUA
my ($status, $said) = $server->cli('lua', 'check', "$server->{state}/stubs.lua");
like($said, qr/^ok\s+true$/m, 'annotations and modules are the same') or diag($said);
is($server->stop, 0, 'it stops cleanly');
done_testing;
