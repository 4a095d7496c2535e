#!/usr/bin/perl
# policy.t - a policy script refuses a sender, is seen to fail, and is rolled back, in the browser
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('policy');
