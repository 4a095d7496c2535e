#!/usr/bin/perl
# away.t - the database goes away and comes back while the console is in use; an operator gets in by a link
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('away', database => 'managed');
