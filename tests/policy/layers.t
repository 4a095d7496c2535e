#!/usr/bin/perl
# layers.t - who may include whom
#
# command -> management -> identity, mailauth, lua -> store, message -> runtime, never back; a plugin
# includes public headers and its own; a library is known to the folders that its row names.
use strict;
use warnings;
use Test::More;
use File::Basename qw(dirname);

# What each folder of core may include beside its own headers and posthouse/.
my @low = qw(runtime);
my @middle = (@low, qw(store message));
my @upper = (@middle, qw(identity mailauth lua));
my %may = (
    posthouse => [],
    runtime => [],
    message => [@low],
    store => [@low],
    identity => [@middle],
    mailauth => [@middle],
    lua => [@middle],
    management => [@upper],
    command => [@upper, 'management'],
);

# Headers of libraries, first match counts, and the folders that may include them.
my @libraries = (
    [qr{^libpq|^postgres|^pg_}, qw(core/store)],
    [qr{^openssl/(ssl|bio|tls1)}, qw(core/runtime)],
    [qr{^openssl/}, qw(core/runtime core/identity core/mailauth)],
    [qr{^sodium}, qw(core/runtime core/identity core/management core/command)],
    [qr{^zstd}, qw(core/store)],
    [qr{^unbound}, qw(core/runtime)],
    [qr{^(lua|lauxlib)}, qw(core/lua)],
    [qr{^(ldap|lber)}, qw(plugins/ldap)],
    [qr{^nghttp2}, qw(plugins/http)],
    [qr{^microhttpd}, qw(plugins/admin)],
    [qr{^gio/}, qw(plugins/admin)],
);

# The complaint about one include, or nothing.
sub complaint {
    my ($file, $form, $header) = @_;
    my $folder = dirname($file);
    if ($form eq '<') {
        for my $row (@libraries) {
            my ($pattern, @folders) = @$row;
            next unless $header =~ $pattern;
            return (grep { $_ eq $folder } @folders) ? () : "<$header> belongs to @folders";
        }
        return;
    }
    return if $header eq 'config.h' || $header =~ m{^posthouse/} && -e "core/$header";
    return if $header !~ m{/} && -e "$folder/$header";
    return if $folder eq 'plugins/admin' && $header =~ m{^admin-ui/}; # the pages, made into C
    return "plugins include posthouse/ and their own headers only: \"$header\""
        if $folder =~ m{^plugins/} && $header !~ m{^\Q$folder\E/};
    return if $folder =~ m{^plugins/} && -e $header;
    my ($own) = $folder =~ m{^core/([^/]+)};
    my ($theirs) = $header =~ m{^([^/]+)/};
    return "\"$header\" is no file" unless defined $theirs && -e "core/$header";
    return if $theirs eq $own || grep { $_ eq $theirs } @{ $may{$own} // [] };
    return "core/$own may not include \"$header\"";
}

# The rule itself, on known cases, so that a checker that sees nothing is noticed.
my @cases = (
    ['core/store/x.c', '<', 'libpq-fe.h', 1],
    ['core/runtime/x.c', '<', 'libpq-fe.h', 0],
    ['plugins/imap/x.c', '<', 'openssl/ssl.h', 0],
    ['plugins/imap/x.c', '<', 'string.h', 1],
    ['plugins/imap/x.c', '"', 'posthouse/base.h', 1],
    ['plugins/imap/x.c', '"', 'runtime/reactor.h', 0],
    ['plugins/imap/x.c', '"', 'plugins/smtp/session.h', 0],
    ['core/runtime/x.c', '"', 'store/store.h', 0],
    ['core/identity/x.c', '"', 'store/store.h', 1],
);
for my $case (@cases) {
    my ($file, $form, $header, $good) = @$case;
    my @found = complaint($file, $form, $header);
    is(@found ? 0 : 1, $good, "rule: $file includes $header: " . ($good ? 'allowed' : 'refused'));
}

for my $file (sort glob('core/*/*.[ch] plugins/*/*.[ch]')) {
    open my $in, '<', $file or die "$file: $!";
    my @found;
    while (<$in>) {
        push @found, "line $.: $_" for /^\s*#\s*include\s*([<"])([^>"]+)/ ? complaint($file, $1, $2) : ();
    }
    ok(!@found, $file) or diag(join "\n", @found);
}
done_testing;
