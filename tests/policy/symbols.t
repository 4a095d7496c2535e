#!/usr/bin/perl
# symbols.t - a plugin exports posthouse_plugin and nothing else; libposthouse exports ph_ names only
use strict;
use warnings;
use Test::More;

my $build = $ENV{PH_BUILD} or plan skip_all => 'PH_BUILD names no build folder';

sub exported {
    my ($file) = @_;
    return sort map { (split)[-1] } split /\n/, `nm -D --defined-only '$file'`;
}

# What a plugin is made for: a library that nothing else is linked with.
my %own = (
    'admin.so' => qr/^(libmicrohttpd|libgio-2|libgobject-2)\./,
    'ldap.so' => qr/^liblber-2\./,
);

my @plugins = glob "$build/plugins/*/.libs/*.so";
cmp_ok(scalar @plugins, '>=', 1, 'there are plugins');
for my $plugin (@plugins) {
    my ($name) = $plugin =~ m{([^/]+)$};
    is_deeply([exported($plugin)], ['posthouse_plugin'], "$name exports the descriptor only");
    my @needed = map { /NEEDED\s+(\S+)/ ? $1 : () } `objdump -p '$plugin'`;
    my @strange = grep { !/^(libposthouse\.so|libglib-2|libgmodule-2|libc\.|libm\.|libpthread\.)/ } @needed;
    @strange = grep { !/$own{$name}/ } @strange if $own{$name};
    is("@strange", '', "$name is linked with the core, GLib, the C library and its own only");
}

my ($library) = glob "$build/.libs/libposthouse.so.*.*.*";
ok(defined $library, 'there is libposthouse') or BAIL_OUT('no library');
my @symbols = exported($library);
cmp_ok(scalar @symbols, '>', 10, 'libposthouse exports the public functions');
is(join(' ', grep { !/^ph_/ } @symbols), '', 'libposthouse exports ph_ names only');
done_testing;
