#!/usr/bin/perl
# plugins.t - plugins are replaced from the console while pages load; the console itself too
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('plugins', conf => { allowed_ports => '7,24,25,80,143,443,465,587,993,8443' });
