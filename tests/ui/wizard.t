#!/usr/bin/perl
# wizard.t - from an empty installation to a domain, an account and a site, in the browser
use strict;
use warnings;
use Posthouse::Browser;

Posthouse::Browser->run('wizard', accounts => 0);
