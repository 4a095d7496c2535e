/* load.h - what the load generators share: sockets to this host, limits, clocks
 *
 * Units:    seconds as double; ports and counts as they are.
 * Threads:  one.
 * Errors:   a generator that cannot go on says why and exits with 2.
 */
#pragma once

#include "posthouse/base.h"

#include <glib.h>

/* As many descriptors as this process is allowed; ends it when that is fewer than needed. */
void load_raise_limits(unsigned needed);
/* A non-blocking connection to 127.0.0.1 under way. The n-th of many: each 20,000 come from another
 * address of 127/8, because one address has too few ports. Ends the process when the system has no
 * more sockets. */
int load_connect(int port, unsigned n);
/* Since the epoch of the monotonic clock. */
double load_now_s(void);
/* Spent by this process. */
double load_cpu_s(void);
void load_die(const char *format, ...) PH_PRINTF(1, 2) __attribute__((noreturn));
/* Parses the options, or ends the process; nothing else may stand on the command line. */
void load_parse(int argc, char **argv, const GOptionEntry *entries, const char *summary);
