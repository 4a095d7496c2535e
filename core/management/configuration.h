/* configuration.h - what this node serves by: from the store into the runtime's snapshots
 *
 * Shape:    settings, sites, certificates and upstreams, loaded together whenever the version of one of them
 *           changed; policy scripts after them. A sealed copy in STATE/settings.cache lets a daemon
 *           come up while the database is away.
 * Threads:  in a job; calls are serialised inside.
 * Errors:   of the store. Failing to write the sealed copy is logged.
 */
#pragma once

#include "store/web.h"

/* Remembers the state folder and this node's name. Reads the key of the seal, or makes it. */
bool ph_configuration_init(const char *state, const char *node_name, GError **error);
const char *ph_configuration_state_folder(void);
/* Since ph_configuration_init(). */
int64_t ph_configuration_age_us(void);
/* Rows for one node name it: its number may be another after a restart. In snapshots this node is
 * PH_SETTINGS_THIS_NODE. */
const char *ph_configuration_node_name(void);
/* This node is drained: set for a node by its name. */
#define PH_SETTING_DRAIN "server.drain"
enum { PH_SETTINGS_THIS_NODE = 1 };
/* Loads everything and publishes it. */
PH_IN_JOB bool ph_configuration_load_blocking(int64_t deadline_us, GError **error);
/* With the database away at start: publishes the sealed copy. NOT_FOUND when there is none. */
bool ph_configuration_load_sealed(GError **error);

/* The folder of a site's files. Free it. */
char *ph_configuration_site_root(const PhStoredSite *site);

/* Secrets that are kept in the database are sealed with STATE/secret.key. */
GBytes *ph_configuration_seal(const void *plain, size_t length);
/* SYNTAX when it was changed, or sealed with another key. */
PhSecret *ph_configuration_unseal(GBytes *sealed, GError **error);
