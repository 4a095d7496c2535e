#!/usr/bin/perl
# lua-reference.t - docs/lua/reference.md is what its script makes of the annotations
use strict;
use warnings;
use Test::More;

my $made = `$^X docs/lua/make-reference --print`;
open my $in, '<', 'docs/lua/reference.md' or die "reference.md: $!";
my $kept = do { local $/; <$in> };
cmp_ok(length $made, '>', 5000, 'the script makes a page');
ok($made eq $kept, 'docs/lua/reference.md is up to date (docs/lua/make-reference)');
like($kept, qr/^\*\*`posthouse\.db\.query\(sql, \.\.\.\)`\*\* -> table\[\]$/m, 'with functions');
like($kept, qr/^- `null` \(userdata\): JSON's null/m, 'and fields');
done_testing;
