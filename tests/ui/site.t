#!/usr/bin/perl
# site.t - a site with a Lua page that is written, edited and rolled back in the browser
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('site');
