#!/usr/bin/perl
# tree.t - what no file may contain, and that the map in docs/architecture.md matches the folders
use strict;
use warnings;
use Test::More;
use File::Find;

# Folders that are made, not kept.
my $made = qr{^\./(\.git|build|build-\w+|autom4te\.cache|var|var-\w+|node_modules)$};

my (@files, %folders);
find({
    no_chdir => 1,
    wanted => sub {
        my $name = $File::Find::name;
        if (-d $name && !-l $name) {
            $File::Find::prune = 1 if $name =~ $made;
            $folders{ $name =~ s{^\./}{}r } = 1 unless $name =~ $made || $name eq '.';
            return;
        }
        push @files, $name =~ s{^\./}{}r if -f $name && !-l $name;
    },
}, '.');

# Made at the top level by autoreconf.
my $generated = qr{^(aclocal\.m4|configure~?|config\.h\.in~?|Makefile\.in|m4/(libtool|lt.*)\.m4)$};
# Kept out of the search: the licence, and what tests feed to parsers.
my $foreign = qr{^LICENSE$|^tests/fuzz/corpus/|^tests/[^/]+/data/};

my @rules = (
    [qr{\b(TO[D]O|FIX[M]E|X[X]X)\b}, 'no unfinished work'],
    [qr{(?<![\w.\$\}])/(work|root|home/\w+)/}, 'no path of one machine'],
    [qr{\b(registry\.npmjs\.org|pypi\.org|crates\.io|proxy\.golang\.org|[dD]eb\.debian\.org)\b}, 'no registry host'],
    [qr{[ \t]+$}, 'no blanks at the end of a line'],
);
my %bad = map { $_->[1] => [] } @rules;
for my $file (sort @files) {
    next if $file =~ $generated || $file =~ $foreign || -B $file;
    open my $in, '<', $file or die "$file: $!";
    while (my $line = <$in>) {
        chomp $line;
        for my $rule (@rules) {
            push @{ $bad{ $rule->[1] } }, "$file:$.: $line" if $line =~ $rule->[0];
        }
    }
}
cmp_ok(scalar @files, '>', 20, 'the tree was searched');
for my $rule (@rules) {
    my @found = @{ $bad{ $rule->[1] } };
    ok(!@found, $rule->[1]) or diag(join "\n", @found);
}

my @not_executable = grep { /\.t$/ && !-x $_ } @files;
is("@not_executable", '', 'prove can run each test');

SKIP: {
    skip 'no docs/architecture.md', 2 unless open my $in, '<', 'docs/architecture.md';
    # The map: lines indented by four or more, "name/" then what it is; two more for a folder inside.
    my (%named, @path);
    while (<$in>) {
        next unless m{^    ((?:  )*)([a-z][a-z-]*)/(?:\s|$)};
        my $depth = length($1) / 2;
        @path = (@path[0 .. $depth - 1], $2);
        $named{ join '/', @path } = 1;
    }
    my @missing = grep { !$folders{$_} } sort keys %named;
    is("@missing", '', 'each folder on the map exists');
    my @unnamed = grep { m{^[a-z][a-z-]*$|^(core|plugins)/[^/]+$} && !$named{$_} && !m{^(build-aux|m4)$} }
        sort keys %folders;
    is("@unnamed", '', 'each folder is on the map');
}
done_testing;
