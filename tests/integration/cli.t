#!/usr/bin/perl
# cli.t - what the program says of itself: help, manual, completion, plugins' actions, words that are wrong
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Posthouse;
use Test::More;

my $server = Posthouse->start(accounts => 0);
my $prefix = $ENV{PH_PREFIX};

subtest 'help' => sub {
    my $help = $server->cli_ok('help');
    my @rows = @{ decode_json($server->cli_ok(qw(--json server actions)))->{answer}{items} };
    my @missing = grep { my $words = $_->{name} =~ s/\./ /r; $_->{plugin} eq 'core' && $help !~ /^  \Q$words\E\b/m } @rows;
    is(join(' ', map { $_->{name} } @missing), '', 'each action');
    like($server->cli_ok(qw(help user add)), qr/^  user add ADDRESS .*^  --password-stdin +without one/ms, 'of one action');
    like($server->cli_ok(qw(user add --help)), qr/^  --quota_bytes NUMBER/m, 'asked for the other way');
    like($server->cli_ok('user'), qr/^  user suspend ADDRESS/m, 'of a word alone');
    like($server->cli_ok('help', $_), qr/^  \w/, "of $_") for qw(init serve status checks console-link);
    like($server->cli_ok(qw(help init)), qr/^      --database CONNECTION +a PostgreSQL of yours/m, 'with its options');
    my ($status, $text) = $server->cli(qw(user frobnicate));
    is($status, 2, 'an unknown word');
    like($text, qr/"user frobnicate" is not known/, 'is named');
};

subtest 'the manual' => sub {
    my $page = "$prefix/share/man/man1/posthouse.1";
    ok(-s $page, 'is installed');
    is(scalar `man --warnings -l -P cat -E UTF-8 $page 2>&1 >/dev/null`, '', 'without complaints of man');
    like(scalar `MANWIDTH=100 man -l -P cat $page 2>/dev/null`, qr/user\s+suspend\s+ADDRESS\s+let an account receive/, 'says what the rows say');
};

subtest 'completion' => sub {
    my $complete = sub {
        my @words = @_;
        my $script = join ' ', map { "'$_'" } @words;
        my $last = $#words;
        return scalar `bash -c 'source $prefix/share/bash-completion/completions/posthouse; COMP_WORDS=($script); COMP_CWORD=$last; _posthouse; echo "\${COMPREPLY[*]}"'`;
    };
    is($complete->('posthouse', 'ali'), "alias\n", 'the first word');
    is($complete->('posthouse', 'user', 'sus'), "suspend\n", 'the second');
    is($complete->('posthouse', '--state', '/tmp/x', 'user', 'add', 'a@example.test', '--pass'), "--password-stdin\n", 'an option');
    is($complete->('posthouse', 'init', '--no'), "--node-name\n", 'of a command that needs no server');
};

subtest 'a plugin that failed' => sub {
    isnt(($server->cli(qw(plugin start nothing)))[0], 0, 'one that is not there');
    like($server->cli_ok(qw(plugin list)), qr/^nothing +failed /m, 'is remembered with its reason');
    $server->cli_ok(qw(plugin stop nothing));
    unlike($server->cli_ok(qw(plugin list)), qr/^nothing /m, 'until it is put away');
    isnt(($server->cli(qw(plugin stop nothing)))[0], 0, 'once');
};

subtest 'by another user' => sub {
    plan skip_all => "only root can be another user" if $> != 0;
    my ($status, $text) = Posthouse::run(['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups',
        "$prefix/bin/posthouse", '--state', $server->state, 'status']);
    is($status, 1, 'is refused');
    like($text, qr/posthouse\.conf" cannot be read by user "nobody": it is for root and for the server's user/, 'and told why');
};

subtest 'words' => sub {
    $server->cli_ok(qw(domain add example.test));
    $server->cli_ok(qw(user add alice@example.test --quota-bytes 2M));
    is(decode_json($server->cli_ok(qw(--json user show alice@example.test)))->{answer}{quota_bytes}, 2097152, 'bytes with a unit, dashes for underscores');
    for my $wrong ([qw(user add)], [qw(user add a@example.test --quota_bytes many)], [qw(user add a@example.test --colour red)],
        [qw(user list --limit 0)], [qw(user list --state sleepy)], [qw(user add a@example.test b c)], [qw(site change x --pages=perhaps)]) {
        my ($status, $text) = $server->cli(@$wrong);
        isnt($status, 0, "@$wrong");
        like($text, qr/^posthouse: /, 'says why');
    }
    my ($status, $text) = $server->cli(qw(user passwd alice@example.test --password=secret-words));
    like($text, qr/seen by others/, 'a password on the command line is refused');
    is($server->cli_ok(qw(user list --filter nobody-at-all)), '', 'an empty list is empty');
    is_deeply(decode_json($server->cli_ok(qw(--json user list --filter nobody-at-all)))->{answer}{items}, [], 'and a list');
};

done_testing;
