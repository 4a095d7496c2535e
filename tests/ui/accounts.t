#!/usr/bin/perl
# accounts.t - the life of an account in the browser: made, used, changed, suspended, closed, erased
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('accounts');
