#!/usr/bin/perl
# screens.t - every screen, light and dark, wide and narrow: axe, the policy, overflow, strings from strangers
use strict;
use warnings;
use Posthouse::Browser;
use Posthouse::Dns;

# A name server of nothing: each record of the domain is missing, and no network is asked.
my $dns = Posthouse::Dns->start;
Posthouse::Browser->run('screens', settings => { 'dns.servers' => $dns->address });
