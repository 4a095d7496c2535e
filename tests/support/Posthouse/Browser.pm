# Browser.pm - runs a browser test: tests/ui/NAME.mjs, driven by playwright-core, against a server
#
#   use Posthouse::Browser;
#   Posthouse::Browser->run('wizard', accounts => 0);   # the options of Posthouse->start, and
#                                                       # base => '/posthouse/', prepare => sub { my ($server) = @_; ... }
#
# The script gets by its environment where the console and the other services are, and prints TAP, which is
# the test's own. Where there is no Chromium, the test is skipped and says so. The modules are those of
# `make ui-test-modules` (PH_BUILD/admin-ui/check).
package Posthouse::Browser;
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP qw(encode_json);
use Posthouse;
use Test::More;

our $operator_password = 'lamp-post-orchard-9';

my $tests = abs_path(dirname(__FILE__) . '/../../ui');

# The folder above node_modules.
sub modules {
    my $folder = ($ENV{PH_BUILD} // die("PH_BUILD names no build folder\n")) . '/admin-ui/check';
    -d "$folder/node_modules" or die("no modules in $folder: run `make ui-test-modules`\n");
    return $folder;
}

sub chromium {
    for my $file (grep { defined } $ENV{PH_CHROMIUM}, '/usr/bin/chromium', '/usr/bin/chromium-browser') {
        return $file if -x $file;
    }
    return;
}

# The server, with the operator "admin".
sub server {
    my ($class, %option) = @_;
    my $server = Posthouse->start(%option);
    $server->cli_ok([qw(operator add admin --password-stdin)], "$operator_password\n");
    return $server;
}

sub environment {
    my ($class, $server) = @_;
    return (
        PH_UI_MODULES => modules(),
        PH_UI_CHROMIUM => chromium(),
        PH_UI_URL => 'https://localhost:' . $server->port('console') . ($server->{console_base} // '/'),
        PH_UI_PASSWORD => $operator_password,
        PH_UI_USER_PASSWORD => $Posthouse::password,
        PH_UI_PORTS => Posthouse::slurp($server->ports_file),
        PH_UI_PROGRAM => "$ENV{PH_PREFIX}/bin/posthouse",
        PH_UI_STATE => $server->state,
    );
}

sub run {
    my ($class, $name, %option) = @_;
    plan(skip_all => 'no Chromium: install Debian\'s package chromium, or name one in PH_CHROMIUM') unless chromium();
    my $prepare = delete $option{prepare};
    my $base = delete $option{base};
    my $server = $class->server(%option, $base ? (settings => { 'admin.base_path' => $base }) : ());
    $server->{console_base} = $base;
    $prepare->($server) if $prepare;
    local %ENV = (%ENV, $class->environment($server));
    my $pid = open(my $out, '-|', 'node', "$tests/$name.mjs") // die("node: $!");
    my $planned;
    while (my $line = <$out>) {
        if ($line =~ /^(not )?ok\b[ \d]*(?:- )?(.*)/) {
            ok(!$1, $2);
        } elsif ($line =~ /^1\.\.\d+/) {
            $planned = 1;
        } else {
            chomp $line;
            diag($line =~ s/^# ?//r);
        }
    }
    close $out;
    is($?, 0, 'the script ended well');
    ok($planned, 'and came to its end');
    done_testing();
}

1;
