/* plugin.h - what a plugin is to the host
 *
 * Shape:    a plugin is a shared object with one exported symbol, the constant `posthouse_plugin`.
 *           It is data: abi and size are checked before any code of the plugin runs. Tables end
 *           with a row whose first member is null.
 * Threads:  start and stop in a job, one at a time; session callbacks on reactors.
 * Rules:    no writable statics (state is made in start and freed in stop), no quarks, GTypes,
 *           atexit: a plugin can be replaced while its old generation still serves, and is unmapped
 *           at the end.
 * Errors:   start fails with any PhError; the text is shown in the log and in `posthouse status`.
 */
#pragma once

#include "posthouse/connection.h"
#include "posthouse/settings.h"

#define PH_PLUGIN_ABI_MAJOR 1
#define PH_PLUGIN_ABI_MINOR 0
#define PH_PLUGIN_ABI ((PH_PLUGIN_ABI_MAJOR << 16) | PH_PLUGIN_ABI_MINOR)

typedef enum PhTlsMode {
    PH_TLS_NONE,
    PH_TLS_START,    /* plain, STARTTLS where a certificate is there */
    PH_TLS_IMPLICIT, /* TLS from the first byte; the service is not offered without a certificate */
} PhTlsMode;

struct PhServiceRow {
    const char *name; /* "submission": unique in the server; in ports.json and in lists */
    int port;         /* the well-known one; posthouse.conf's port_base is added */
    PhTlsMode tls;
    const PhSessionClass *session_class;
    const void *role; /* the plugin's own: what differs between its services */
    const char *alpn; /* the protocol to agree on in TLS, or null */
    bool apart; /* served by the reactor that is apart, so that it answers while others are busy */
};

typedef struct PhActionRow PhActionRow; /* action.h */
typedef struct PhHookRow PhHookRow;     /* hook.h */

typedef struct PhPlugin {
    uint32_t abi;
    uint32_t size;
    const char *name;
    const char *summary;
    const PhSettingRow *settings;
    const PhServiceRow *services;
    const PhActionRow *actions;
    const PhHookRow *hooks;
    /* Called once, before any session. What it returns in `state_out` is given to each session of
     * this generation. */
    bool (*start)(void **state_out, GError **error);
    /* Called once, when no session, task or job of this generation is left. */
    void (*stop)(void *state);
} PhPlugin;

/* Put before the definition of `posthouse_plugin`. */
#define PH_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Is this member inside what the plugin was compiled with? */
#define PH_HAS(plugin, member) \
    ((plugin)->size >= offsetof(PhPlugin, member) + sizeof((plugin)->member))
