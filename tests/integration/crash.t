#!/usr/bin/perl
# crash.t - each fault of tests/crash once, while clients work: what was acknowledged is there, once, as it was left
use strict;
use warnings;
use FindBin;
use Posthouse;
use Test::More;

my $run = "$FindBin::Bin/../crash/run";
for my $world (qw(one two)) {
    my ($status, $text) = Posthouse::run([$^X, $run, '--once', '--verbose', '--workers', 2, '--seed', 1 + $$ % 1000, '--world', $world]);
    my ($faults) = $text =~ /^(\d+) faults$/m;
    my ($mail) = $text =~ /acknowledged .*?(\d+) mail/;
    cmp_ok($faults // 0, '>=', $world eq 'one' ? 18 : 8, "world $world: the faults came");
    cmp_ok($mail // 0, '>', 30, 'there was something to lose');
    ok($status == 0, 'nothing was lost, nothing was there twice, nothing was wrong') or diag(substr $text, -30_000);
}
done_testing;
