/* settings-sync.h - settings between the store and the runtime's snapshot
 *
 * Threads:  in a job; calls are serialised inside.
 * Errors:   of the store. The sealed copy is written after each load; failing to write it is
 *           logged.
 */
#pragma once

#include "posthouse/base.h"

/* Remembers where the sealed copy and its key are, and this node's name. Makes the key when it is
 * missing. */
bool ph_settings_sync_init(const char *state, const char *node_name, GError **error);
/* Rows for one node name it: its number may be another after a restart. In snapshots this node is
 * PH_SETTINGS_THIS_NODE. */
const char *ph_settings_node_name(void);
enum { PH_SETTINGS_THIS_NODE = 1 };
/* Loads the rows and publishes them. */
PH_IN_JOB bool ph_settings_sync_blocking(int64_t deadline_us, GError **error);
/* With the database away at start: publishes the sealed copy. NOT_FOUND when there is none. */
bool ph_settings_sync_from_cache(GError **error);
