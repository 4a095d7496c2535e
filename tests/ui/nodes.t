#!/usr/bin/perl
# nodes.t - two servers on one database: the overview shows both, and sends one's clients away and has them back
use strict;
use warnings;
use Posthouse::Browser;

my $second;
Posthouse::Browser->run('nodes', conf => { node_name => 'one' }, prepare => sub {
    my ($server) = @_;
    $second = Posthouse->start(database_name => $server->database_name, accounts => 0, conf => { node_name => 'two' });
    $ENV{PH_UI_SECOND_PORTS} = $second->ports_file;
});
