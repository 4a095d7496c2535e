#!/usr/bin/perl
# keyboard.t - logging in and finding one's way by keyboard alone
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('keyboard');
