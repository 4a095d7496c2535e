#!/usr/bin/perl
# bundle.t - what the console's bundle weighs, and what its sources may not do
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Find qw(find);
use JSON::PP qw(decode_json);
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $build = $ENV{PH_BUILD} or die("PH_BUILD names no build folder\n");
my ($bundle) = grep { -e "$_/sizes.json" } "$build/admin-ui/made", "$top/admin-ui/bundle";

sub slurp {
    my ($file) = @_;
    open my $in, '<:raw', $file or die("$file: $!\n");
    local $/;
    return scalar <$in>;
}

# -- what it weighs ---------------------------------------------------------------------------------

my $sizes = decode_json(slurp("$bundle/sizes.json"));
my ($first, $all) = (0, 0);
for my $name (keys %$sizes) {
    my $bytes = -s "$bundle/assets/$name.gz";
    $all += $bytes;
    $first += $bytes if $sizes->{$name}{first};
}
cmp_ok($first, '>', 10_000, 'the first screen is there');
cmp_ok($first, '<=', 100 * 1024, sprintf('and weighs at most 100 KiB compressed (%.1f)', $first / 1024));
cmp_ok($all, '<=', 400 * 1024, sprintf('all of it weighs at most 400 KiB compressed (%.1f)', $all / 1024));
is(scalar(grep { !-e "$bundle/assets/$_.br" } keys %$sizes), 0, 'each asset is there compressed');
my @named = slurp("$bundle/index.html") =~ m{__BASE__assets/([\w.-]+)}g;
is(scalar(grep { !-e "$bundle/assets/$_" } @named), 0, 'the entry page names only what is there');
unlike(slurp("$bundle/index.html"), qr{<script(?![^>]*\bsrc=)|\bstyle=|\bon\w+=|https?://},
    'and has nothing inline, and nothing of other hosts');

# -- what its sources may not do --------------------------------------------------------------------

my %forbidden = (
    'makes elements of text' => qr/dangerouslySetInnerHTML|\binnerHTML\b|\bouterHTML\b|insertAdjacentHTML|document\.write/,
    'runs text' => qr/\beval\s*\(|new Function\b/,
    'has inline style' => qr/\bstyle=\{|setAttribute\(\s*["']style/,
    'asks another host' => qr/["'`]https?:\/\/(?!\$)/,
);
my @sources;
find(sub { push @sources, $File::Find::name if /\.tsx?$/ }, "$top/admin-ui/src");
cmp_ok(scalar(@sources), '>', 30, 'the sources are found');
for my $what (sort keys %forbidden) {
    my @bad = grep { slurp($_) =~ $forbidden{$what} } @sources;
    is("@bad", '', "no source $what");
}

# -- the lock file names no registry ----------------------------------------------------------------

unlike(slurp("$top/admin-ui/package-lock.json"), qr/"resolved"/, 'the lock file names no registry');

# -- types ------------------------------------------------------------------------------------------

my $modules = "$build/admin-ui/check";
SKIP: {
    skip('no modules: run `make ui-test-modules`', 2) unless -d "$modules/node_modules";
    my $types = `node $top/admin-ui/generate-types.mjs --check 2>&1`;
    is($?, 0, 'the types are those of openapi.json') or diag($types);
    my $work = "$modules/types";
    system('rm', '-rf', $work);
    mkdir $work or die("$work: $!\n");
    system('cp', '-R', "$top/admin-ui/src", "$top/admin-ui/tsconfig.json", $work);
    my $said = `cd $work && node ../node_modules/typescript/bin/tsc --noEmit 2>&1`;
    is($?, 0, 'the sources are well typed') or diag($said);
}

done_testing;
