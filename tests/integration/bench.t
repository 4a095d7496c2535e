#!/usr/bin/perl
# bench.t - the load generators draw what they should, and find what is wrong
use strict;
use warnings;
use lib 'tests/support';
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use JSON::PP qw(decode_json);
use Posthouse;
use Test::More;
use Time::HiRes qw(sleep);

my $build = $ENV{PH_BUILD} or plan skip_all => 'PH_BUILD names no build folder';
my @programs = map { "bench/$_" } qw(mailent web99 ldap-load imap-ops);
my ($made, $output) = Posthouse::run(['make', '-s', '-C', $build, @programs]);
$made == 0 or BAIL_OUT("the generators cannot be built: $output");

# Runs a generator; gives exit status, output, and the JSON report where one was written.
sub generator {
    my ($name, @arguments) = @_;
    my ($status, $text) = Posthouse::run(["$build/bench/$name", @arguments]);
    return ($status, $text);
}

sub described {
    my (@command) = @_;
    my ($status, $text) = generator(@command);
    is($status, 0, "$command[0] describes what it draws") or diag($text);
    return decode_json($text);
}

sub near {
    my ($got, $want, $relative, $what) = @_;
    ok(abs($got - $want) <= $relative * $want, "$what: $got is near $want");
}

my $folder = tempdir('bench-XXXXXX', DIR => $ENV{PH_TEST_DIR}, CLEANUP => 1);
chmod 0755, $folder;

subtest 'web: what is drawn' => sub {
    my $drawn = described('web99', '--describe', 200_000, '--directories', 90, '--connections', 100);
    is($drawn->{directory_bytes}, 5_119_484, 'bytes of a directory');
    is($drawn->{directory_files}, 36, 'files of a directory');
    near($drawn->{mean_bytes}, 14_726, 0.03, 'mean size');
    near($drawn->{class0}, 0.35, 0.02, 'share of class 0');
    near($drawn->{class1}, 0.50, 0.02, 'share of class 1');
    near($drawn->{class2}, 0.14, 0.02, 'share of class 2');
    near($drawn->{class3}, 0.01, 0.10, 'share of class 3');
    near($drawn->{file_4}, 0.353, 0.02, 'share of the most popular file of a class');
    # 1 / H(90)
    near($drawn->{first_directory}, 0.1967, 0.03, 'share of the most popular directory');
    near($drawn->{static}, 0.70, 0.01, 'share of files');
    near($drawn->{page}, 0.1245, 0.03, 'share of pages');
    near($drawn->{ad}, 0.126, 0.03, 'share of pages with an advertisement');
    near($drawn->{post}, 0.048, 0.05, 'share of posts');
    near($drawn->{cgi}, 0.0015, 0.25, 'share of programs');
    near($drawn->{kept_requests}, 0.70, 0.02, 'share of requests on kept connections');
    near($drawn->{requests_a_connection}, 2.70, 0.02, 'requests of a connection');
    near($drawn->{ads_examined}, 10, 0.25, 'advertisements looked at');
    is($drawn->{directories_100}, 90, 'directories for 100 connections');
    is($drawn->{directories_8832}, 5816, 'directories for 8,832 connections');
    my $other = described('web99', '--describe', 100_000, '--directories', 90, '--of-connections');
    near($other->{kept_connections}, 0.70, 0.02, 'with --of-connections: share of kept connections');
    near($other->{requests_a_connection}, 7.3, 0.02, 'requests of one');
};

subtest 'mail: what is drawn' => sub {
    my $drawn = described('mailent', '--describe', 20_000);
    near($drawn->{recipients}, 2.00, 0.03, 'recipients, mean');
    near($drawn->{one_recipient}, 0.8573, 0.01, 'messages with one recipient');
    # 24.53 KB of 1,024 bytes.
    near($drawn->{message_bytes}, 25_120, 0.08, 'bytes of a message, mean');
    is($drawn->{whole}, 200, 'messages prove whole');
    my %share = (check => 0.45, reader => 0.20, sync => 0.20, filing => 0.10, long => 0.05);
    near($drawn->{$_}, $share{$_}, 0.06, "share of \"$_\"") for sort keys %share;
    near($drawn->{inbox}, 34, 0.03, 'messages of an inbox, mean');
    near($drawn->{folders}, 12, 0.03, 'folders of a user, mean');
};

my $root = "$folder/www";
mkdir $root or die "$root: $!";
chmod 0755, $root;
subtest 'web: the file set' => sub {
    my ($status, $text) = generator('web99', '--make', $root, '--directories', 2);
    is($status, 0, 'it is made') or diag($text);
    my @files = glob "$root/dir00001/*";
    is(scalar @files, 36, 'files of a directory');
    my $bytes = 0;
    $bytes += -s $_ for @files;
    is($bytes, 5_119_484, 'their bytes');
    is(-s "$root/dir00000/class1_4", 5120, 'a size');
    my $text_of = Posthouse::slurp("$root/dir00001/class2_0");
    like($text_of, qr{^10240 dir00001/class2_0 }, 'its beginning');
    is(() = $text_of =~ m{\@ad:dir00001/class2_0\@}g, 1, 'it has a marker');
    unlike(Posthouse::slurp("$root/dir00001/class0_0"), qr/\@ad:/, 'a file of class 0 has none');
};

my @files_only = ('--mix', '100,0,0,0,0');
# Pages of nearly a megabyte, many at a time, need more than the memory that a tenant has at first.
my $server = Posthouse->start(accounts => 0,
    settings => { 'identity.plaintext.allow_loopback' => 'true', 'lua.tenant.memory_bytes' => '256M' });
copy('bench/web99-site/page.lua', "$root/page.lua") or die "page.lua: $!";
$server->cli_ok(qw(site add localhost --pages=yes --root), $root);
$server->cli_ok(qw(domain add example.test));
$server->user_add("u$_\@example.test") for 0 .. 5;
Posthouse::spew("$folder/password", "$Posthouse::password\n");

# A run of web99 against the server; exit status and report.
sub web99 {
    my ($service, @arguments) = @_;
    my ($status, $text) = generator('web99', '--port', $server->port($service), '--directories', 2, '--warm-up', 0.3,
        '--json', "$folder/web.json", $service eq 'https' ? '--tls' : (), @arguments);
    note($text);
    return ($status, decode_json(Posthouse::slurp("$folder/web.json")), $text);
}

subtest 'web: everything of the mix' => sub {
    my ($status, $report, $text) = web99('http', qw(--connections 20 --rate 0 --seconds 3));
    is($status, 0, 'all answers are right') or diag($text);
    is($report->{errors}, 0, 'no errors');
    cmp_ok($report->{bodies_checked}, '>', 10, 'answers were looked at byte by byte');
    cmp_ok($report->{ads_checked}, '>', 10, 'advertisements were worked out');
    cmp_ok($report->{posts}, '>', 5, 'there were posts');
    is($report->{posts_found}, $report->{posts}, 'each is in the log');
    is($report->{posts_strange} + $report->{posts_missing}, 0, 'and nothing else');
};

subtest 'web: at the rate of the line' => sub {
    my (undef, $report) = web99('http', qw(--connections 50 --seconds 2 --warm-up 2), @files_only,
        # The largest would take longer than this test.
        '--classes', '35,50,15,0');
    is($report->{errors}, 0, 'no errors');
    # How many conform says something about the machine, too; that they are counted is looked at here.
    cmp_ok($report->{conforming}, '<=', 50, 'connections that conform are counted');
    near($report->{operations_a_second_of_connection} * $report->{response}{mean_ms} / 1000, 1, 0.3,
        'operations a second of a connection times the mean response');
    cmp_ok($report->{kbit_a_second_of_connection}, '<=', 405, 'none gets more than its line has');
};

subtest 'web: TLS' => sub {
    my ($status, $report) = web99('https', qw(--connections 10 --rate 0 --seconds 1), @files_only);
    is($status, 0, 'all answers are right');
    my $resumed = $report->{resumed_handshakes} / ($report->{resumed_handshakes} + $report->{full_handshakes} || 1);
    near($resumed, 0.75, 0.25, 'share of resumed sessions');
};

subtest 'web: what is wrong is found' => sub {
    my $file = "$root/dir00000/class1_4";
    my $right = Posthouse::slurp($file);
    Posthouse::spew("$file.new", substr($right, 0, -1));
    rename "$file.new", $file;
    my ($status, $report) = web99('http', qw(--connections 5 --rate 0 --seconds 0.5), @files_only);
    is($status, 1, 'a file with a byte less: an answer');
    cmp_ok($report->{errors}, '>', 0, 'that is counted as an error');
    Posthouse::spew("$file.new", $right =~ tr/A-Z/a-z/r);
    rename "$file.new", $file;
    # The server looks again after a second.
    sleep 1.2;
    ($status, $report, my $text) = web99('http', qw(--connections 5 --rate 0 --seconds 1.5), @files_only);
    is($status, 1, 'a file with other bytes: an answer');
    like($text, qr/a file with other bytes/, 'that is told');
    Posthouse::spew("$file.new", $right);
    rename "$file.new", $file;
};

subtest 'mail: a few seconds of it' => sub {
    my @common = ('--imap', $server->port('imap'), '--smtp', $server->port('smtp'), '--users', 6, '--password-file',
        "$folder/password");
    my ($status, $text) = generator('mailent', @common, qw(--fill --inbox 25 --folders 3 --folder-messages 4 --scale 0.2));
    is($status, 0, 'it fills the mailboxes') or diag($text);
    ($status, $text) = generator('mailent', @common, qw(--compress 3000 --warm-up 0.5 --seconds 3 --scale 0.2 --probe-share 0.9 --check-every 4),
        qw(--wrong-share 0.02), '--json', "$folder/mail.json");
    is($status, 0, 'all operations are within their limits') or diag($text);
    my $report = decode_json(Posthouse::slurp("$folder/mail.json"));
    is($report->{error_rate}, 0, 'no errors');
    my @limited = grep { $report->{operations}{$_}{limit} } sort keys %{ $report->{operations} };
    is(scalar @limited, 14, 'operations with a limit');
    cmp_ok($report->{operations}{$_}{first}{count}, '>', 0, "\"$_\" was seen") for @limited;
    near($report->{sessions}, 6 * 4.8 * 3000 / 3600 * 3, 0.5, 'sessions');
    cmp_ok($report->{checked}, '>', 0, 'bodies were looked at byte by byte');
    cmp_ok($report->{delivery}{count}, '>', 0, 'deliveries were looked for');
    is($report->{not_delivered}, 0, 'and found');
    my $stored = $server->sql('SELECT count(*) FROM message');
    cmp_ok($stored, '>', $report->{delivered}, 'the store has what was delivered');
};

subtest 'directory: reads and logins' => sub {
    my @common = ('--port', $server->port('ldap'), qw(--clients 8 --entries 6 --seconds 0.7 --warm-up 0.3), '--dn',
        'mail=u%d@example.test,ou=people,dc=example,dc=test', '--mail', 'u%d@example.test', '--password-file', "$folder/password");
    for my $operation (qw(search bind)) {
        my ($status, $text) = generator('ldap-load', @common, '--operation', $operation);
        is($status, 0, "$operation: each is answered rightly") or diag($text);
    }
    my ($status, $text) = generator('ldap-load', @common, '--mail', 'nobody%d@example.test');
    is($status, 1, 'an entry that does not come is an error');
};

subtest 'one mailbox: a command again and again' => sub {
    my ($status, $text) = Posthouse::run(["$build/bench/imap-ops", '--port', $server->port('imap'), '--login',
        'u0@example.test', '--password-file', "$folder/password", '--clients', 2], qq(once NOOP\nrun 0.3 LIST "" "*"\n));
    is($status, 0, 'it ends well') or diag($text);
    my @rows = map { { /(\w+)=(\S+)/g } } grep { /^n=/ } split /\n/, $text;
    is($rows[0]{n}, 1, 'one command');
    cmp_ok($rows[1]{n}, '>', 10, 'many commands');
    cmp_ok($rows[1]{lines}, '>', $rows[1]{n} * 4, 'each answered with its lines');
};

done_testing;
