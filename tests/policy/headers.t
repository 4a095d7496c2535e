#!/usr/bin/perl
# headers.t - each public header compiles alone, says its contract, and is included once
use strict;
use warnings;
use Test::More;

my $cc = $ENV{CC} // 'gcc';
chomp(my $glib = `pkg-config --cflags glib-2.0`);
$glib =~ s/-I/-isystem /g;
my @flags = (split(' ', $glib), qw(-std=gnu17 -fsyntax-only -Wall -Wextra -Wconversion -Wsign-conversion
    -Wstrict-prototypes -Wundef -Werror -I core -x c -));

# Compiles text, gives the exit status.
sub compiles {
    my ($text) = @_;
    open my $pipe, '|-', $cc, @flags or die "$cc: $!";
    print $pipe $text;
    close $pipe;
    return $? == 0;
}

open my $saved, '>&', \*STDERR or die;
open STDERR, '>', '/dev/null' or die;
my $refused = !compiles("int f(void) { return undeclared; }\n");
open STDERR, '>&', $saved or die;
ok($refused, 'a broken text is refused');

for my $header (sort glob 'core/posthouse/*.h') {
    my ($name) = $header =~ m{core/(.*)};
    ok(compiles(qq(#include "$name"\n#include "$name"\n)), "$name compiles alone, and twice");
    open my $in, '<', $header or die "$header: $!";
    my $text = do { local $/; <$in> };
    my ($base) = $name =~ m{([^/]+)$};
    like($text, qr{\A/\* \Q$base\E - \S}, "$name says what it is");
    like($text, qr{^#pragma once$}m, "$name is included once");
}
done_testing;
