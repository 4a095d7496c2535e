/* plugin.c - what the host is told: settings, services, counters */
#include "ldap.h"

#include "plugins/ldap/proxy.h"

#include "posthouse/settings.h"

static const PhSettingRow settings[] = {
    { "ldap.anonymous.read", PH_SETTING_BOOL, "false", 0, 0, NULL, PH_SCOPE_GLOBAL,
        "Whether who has not logged in may read the directory of all tenants." },
    { "ldap.search.max_entries", PH_SETTING_INT, "1000", 1, 1000000, NULL, PH_SCOPE_GLOBAL,
        "The most entries that one search, or one page of it, gives." },
    { "ldap.search.max_seconds", PH_SETTING_INT, "10", 1, 3600, NULL, PH_SCOPE_GLOBAL,
        "How long one search may take." },
    { "ldap.session.idle_s", PH_SETTING_TIME, "900", 1, 86400, NULL, PH_SCOPE_GLOBAL,
        "A client that asks for nothing for so long is let go." },
    LDAP_PROXY_SETTINGS{ 0 },
};

static const PhServiceRow services[] = {
    { "ldap", 389, PH_TLS_START, &ldap_session_class, NULL, "ldap", false },
    { "ldaps", 636, PH_TLS_IMPLICIT, &ldap_session_class, NULL, "ldap", false },
    { 0 },
};

static bool
start(void **state_out, GError **error)
{
    (void)error;
    LdapState *state = g_new0(LdapState, 1);
    state->counters = (LdapCounters){
        .sessions = { "ldap_sessions_total", "Sessions opened.", PH_METRIC_COUNTER, 0 },
        .operations = { "ldap_operations_total", "Requests taken.", PH_METRIC_COUNTER, 0 },
        .binds = { "ldap_binds_total", "Binds that named somebody.", PH_METRIC_COUNTER, 0 },
        .bind_failures = { "ldap_bind_failures_total", "Binds that were refused.",
            PH_METRIC_COUNTER, 0 },
        .forwarded = { "ldap_forwarded_total", "Requests sent to an upstream directory.",
            PH_METRIC_COUNTER, 0 },
        .cache_hits = { "ldap_cache_hits_total", "Answers given from the cache.", PH_METRIC_COUNTER,
            0 },
        .cache_misses = { "ldap_cache_misses_total", "Answers looked for in the cache in vain.",
            PH_METRIC_COUNTER, 0 },
        .upstream_failures = { "ldap_upstream_failures_total",
            "Connections to upstream directories that failed.", PH_METRIC_COUNTER, 0 },
    };
    enum { COOKIE_KEY_BYTES = 32 };
    state->cookie_key = ph_secret_new_random(COOKIE_KEY_BYTES);
    state->proxy = ldap_proxy_new(state);
    ph_metrics_register(&state->counters.sessions);
    *state_out = state;
    return true;
}

static void
stop(void *data)
{
    LdapState *state = data;
    ph_metrics_unregister(&state->counters.sessions);
    ldap_proxy_free(state->proxy);
    ph_secret_free(state->cookie_key);
    g_free(state);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "ldap",
    .summary = "directory: our own entries, and a proxy for directories elsewhere",
    .settings = settings,
    .services = services,
    .actions = ldap_actions,
    .start = start,
    .stop = stop,
};
