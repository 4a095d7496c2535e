/* plugin-loader.h - loading, starting, replacing and stopping plugins
 *
 * Shape:    a plugin by name has at most one current generation, and any number of older ones that
 *           serve their sessions to the end. A plugin that is missing, of another ABI or fails to
 *           start is remembered with its reason; the others serve.
 * Threads:  in a job; calls are serialised inside.
 * Errors:   NOT_FOUND (no file), ABI, CONFLICT (a name or service twice), and what start says.
 */
#pragma once

#include "posthouse/plugin.h"

typedef enum PhPluginState {
    PH_PLUGIN_STOPPED,
    PH_PLUGIN_SERVING,
    PH_PLUGIN_DRAINING, /* an older generation */
    PH_PLUGIN_FAILED,
} PhPluginState;

typedef struct PhPluginInfo {
    char *name;
    char *summary;
    char *file;  /* where it was installed */
    char *error; /* of a failed one */
    PhPluginState state;
    unsigned generation;
    int uses; /* sessions, tasks, jobs */
} PhPluginInfo;

void ph_plugin_info_free(PhPluginInfo *info);

/* Where plugins are installed (*.so by name) and where images are copied to be mapped from. */
void ph_plugins_init(const char *folder, const char *run_folder);
/* Loads "NAME.so" of the folder, or the file at `path`. */
bool ph_plugin_start(const char *name, const char *path, GError **error);
/* A new generation from the file as it is now; sessions of the old one go on. */
bool ph_plugin_replace(const char *name, const char *path, GError **error);
/* Ends listening, says farewell, waits at most `deadline_ms` for sessions, aborts the rest,
 * stops. */
bool ph_plugin_stop(const char *name, int64_t deadline_ms, GError **error);
/* All, in reverse order of start. */
void ph_plugins_stop_all(int64_t deadline_ms);
/* This node takes no new connections, except those of services that are apart, and asks its sessions to
 * go elsewhere; or serves again. Also before plugins are started. False: nothing changed. */
bool ph_plugins_set_drained(bool drained);
/* Stops and unmaps older generations that nothing needs any more. Called now and then. */
void ph_plugins_reap(void);
/* GPtrArray of PhPluginInfo. */
GPtrArray *ph_plugins_list(void);
/* Every service that listens now: calls `func` with name and port. */
void ph_plugins_each_service(void (*func)(const char *name, int port, void *data), void *data);
/* The action tables of the current generations, for management. A row may be kept as long as its owner,
 * which is ph_owner_current() in `func`, is held. */
void ph_plugins_each_actions(
    void (*func)(const char *plugin, const PhActionRow *rows, void *data), void *data);

const char *ph_plugin_state_name(PhPluginState state);
