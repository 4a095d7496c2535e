/* keeper.h - the process that stays
 *
 * Shape:    keeps the rights it was started with, parses no client byte, owns the listening
 *           sockets, and starts again what ends: the daemon and the managed PostgreSQL.
 *
 *             STARTING --database ready--> SERVING --TERM--> DRAINING --daemon gone--> STOPPING --database gone--> end
 *                                             |  ^
 *                                             +--+ a child ended: it is started again, later each time it dies young
 */
#pragma once

#include "runtime/config.h"

/* `program` is the file that the daemon is started from. Returns the exit status of the program. */
int ph_keeper_run(const PhConfig *config, const char *program);

/* The daemon ends with this when starting again cannot help (a wrong setting, a database of a later
 * version). */
enum { PH_EXIT_CONFIG = 78 };
