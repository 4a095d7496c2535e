/* process.h - children of the keeper, and locks that say who is alive
 *
 * Threads:  the keeper's only thread; ph_process_lock anywhere.
 */
#pragma once

#include "posthouse/base.h"

#include <sys/types.h>

typedef struct PhSpawn {
    const char *const *argv; /* argv[0] is a path */
    unsigned uid;
    unsigned gid;
    int channel_fd;         /* becomes descriptor 3; -1: none */
    const char *input_path; /* standard input; null: nothing */
    const char *log_path;   /* standard output and error are appended there; null: inherited */
    const char *folder;     /* working folder; null: "/" */
} PhSpawn;

/* The child has a session of its own (Ctrl-C reaches only us), default signals, limits as we found
 * them, no new rights. -1 with TEMPORARY. */
pid_t ph_process_spawn(const PhSpawn *spawn, GError **error);
/* Runs it to its end; false with INTERNAL when it fails. */
bool ph_process_run(const PhSpawn *spawn, GError **error);
/* Remembers the limits that children get back, then raises our own number of descriptors to what is
 * allowed. */
void ph_process_raise_limits(void);
/* A lock file that is held as long as we live. CONFLICT when another process held it for
 * `wait_ms`. */
bool ph_process_lock(const char *path, int64_t wait_ms, GError **error);
/* Nobody holds it now (or there is no such file). */
bool ph_process_is_unlocked(const char *path);
