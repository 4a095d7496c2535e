/* connect.h - a connection to the database, made within a time
 *
 * Shape:    what the conninfo says wins over what we would have, and `overrides` win over both.
 * Threads:  in a job, or before the threads are there.
 * Errors:   UNAVAILABLE, in one line.
 * Sources:  PostgreSQL manual 34.1.2 (parameter key words).
 */
#pragma once

#include "posthouse/base.h"

#include <libpq-fe.h>

typedef struct PhConnectOption {
    const char *name; /* null ends the list */
    const char *value;
} PhConnectOption;

/* Of several hosts one may be dead, and answer nothing at all: the next one gets its turn in time. Notices
 * of the server are passed over. `overrides` may be null. */
PH_IN_JOB PGconn *ph_connect_blocking(
    const char *conninfo, const PhConnectOption *overrides, int64_t until_us, GError **error);

/* A message of libpq's in one line; null is taken as "". Free it. */
char *ph_message_line(const char *message);
