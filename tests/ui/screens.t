#!/usr/bin/perl
# screens.t - every screen, light and dark, wide and narrow: axe, the policy, overflow, strings from strangers
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('screens');
