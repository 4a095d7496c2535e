#!/usr/bin/perl
# assets.t - the console below a path of its own: its files, their headers, and that it works there
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('assets', base => '/posthouse/');
