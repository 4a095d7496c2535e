/* postgres.h - the managed PostgreSQL: a private server on a Unix socket, run by the keeper
 *
 * Threads:  the keeper's.
 * Errors:   NOT_FOUND (PostgreSQL 15 or later is not installed), INTERNAL (initdb failed).
 */
#pragma once

#include "runtime/config.h"

#include <sys/types.h>

/* Makes the data folder when missing, and stops a server that an earlier keeper left running in
 * it. */
bool ph_postgres_prepare(const PhConfig *config, GError **error);
pid_t ph_postgres_spawn(const PhConfig *config, GError **error);
/* It takes connections. */
bool ph_postgres_is_ready(const PhConfig *config, pid_t pid);
/* The libpq connection string of the managed server. */
char *ph_postgres_conninfo(const PhConfig *config, GError **error);
