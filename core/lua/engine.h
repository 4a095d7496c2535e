/* engine.h - the scripts of this node, for daemon and management
 *
 * Shape:    an immutable set of the active scripts, made anew when the store's counter of changes
 *           was raised. A script that has the same version in the new set keeps its counts. A call
 *           under way keeps the set that it began with.
 * Units:    microseconds; `deadline_us` is of the monotonic clock.
 * Threads:  *_blocking in a job; the rest anywhere.
 * Errors:   of the store.
 */
#pragma once

#include "posthouse/settings.h"

extern const PhSettingRow ph_lua_settings[];

/* Declares what the engine measures. Until the first sync, or when a copy of an earlier one is
 * found at `cache_path` until that says otherwise, each hook fails, so that its failure policy
 * applies. `cache_path` may be null. */
void ph_lua_start(const char *cache_path);
PH_IN_JOB void ph_lua_stop_blocking(void);
/* Loads what changed, and the limits that are settings; cheap when nothing did. */
PH_IN_JOB bool ph_lua_sync_blocking(int64_t deadline_us, GError **error);

typedef struct PhLuaScriptState {
    int version; /* 0: it is not active here */
    int64_t calls;
    int64_t errors;
    bool is_aside; /* the circuit breaker is open */
    char *broken;  /* why it cannot be loaded here; null: it can. Free it. */
} PhLuaScriptState;

void ph_lua_script_state(const char *name, PhLuaScriptState *state_out);

/* -- checking and testing ---------------------------------------------------------------------- */

typedef struct PhLuaReport {
    bool good;
    int line;        /* of the failure; 0: not known */
    char *message;   /* of the failure, without name and line */
    char *hooks;     /* words: what the script takes */
    GString *output; /* of the tests: TAP */
    char *result;    /* of a hook that was run, as JSON */
} PhLuaReport;

void ph_lua_report_clear(PhLuaReport *report);

/* Compiles, runs the top level, looks at what it gave, runs its tests: all in a state of its own.
 * `zone_tenant`: whose rights it has, PH_SCRIPT_CORE (store/script.h) or a tenant. */
PH_IN_JOB void ph_lua_check_blocking(const char *name, const char *text, int64_t zone_tenant,
    int64_t deadline_us, PhLuaReport *report_out);
/* Runs one hook with `input`, a JSON object of its fields (null: none); what it changes in the
 * script's tables is taken back. */
PH_IN_JOB void ph_lua_try_blocking(const char *name, const char *text, int64_t zone_tenant,
    const char *hook, const char *input, int64_t deadline_us, PhLuaReport *report_out);
