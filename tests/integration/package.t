#!/usr/bin/perl
# package.t - packaging/debian fits the tree: versions, what is built from, what is installed, scripts that parse
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Test::More;

my $top = abs_path(dirname(__FILE__) . '/../..');
my $prefix = $ENV{PH_PREFIX} or plan skip_all => 'PH_PREFIX names no installed server';
my $debian = "$top/packaging/debian";

sub slurp {
    open my $in, '<', $_[0] or die "$_[0]: $!";
    local $/;
    return scalar <$in>;
}

sub lines { grep { /\S/ && !/^#/ } split /\n/, slurp($_[0]) }

my ($version) = slurp("$top/configure.ac") =~ /^AC_INIT\(\[Posthouse\], \[([\d.]+)\]/m;
like(slurp("$debian/changelog"), qr/\Aposthouse \(\Q$version\E-\d+\) /, 'the version of the tree');

my ($needed) = slurp("$debian/control") =~ /^Build-Depends:\n((?: .*\n)+)/m;
my ($list) = slurp("$top/dev") =~ /^packages_build=\((.*?)^\)/ms;
for my $package (grep { /^lib.*-dev/ && $_ ne 'libc6-dev' } split ' ', $list) {
    like($needed, qr/^ \Q$package\E[ ,]/m, "built from $package");
}

for my $file (map { glob "$debian/*.$_" } qw(docs examples)) {
    ok(-e "$top/$_", "$_ is there") for lines($file);
}
for my $file (glob "$debian/*.install") {
    for my $path (lines($file)) {
        my $here = "$prefix/" . $path =~ s{^usr/}{}r =~ s{^lib/\*/}{lib/}r;
        my @found = glob $here;
        ok(@found && -e $found[0], "$path is installed");
    }
}

for my $script ("$debian/posthouse.postinst", "$debian/posthouse.postrm", "$top/packaging/make-deb") {
    is(system('sh', '-n', $script), 0, "$script parses");
}
my $text = `$top/packaging/make-deb $top/README.md 2>&1`;
isnt($?, 0, 'what is no archive');
like($text, qr/tar|no release archive|are missing/, 'is refused');
done_testing;
