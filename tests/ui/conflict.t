#!/usr/bin/perl
# conflict.t - two people change one thing: the second is shown both; a session that ends loses nothing typed
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('conflict');
