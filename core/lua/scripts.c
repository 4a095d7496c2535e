/* scripts.c - the active scripts of this node, and asking them
 *
 * Order: global scripts, the tenant's, then the domain's or site's, each by order and name; global
 * scripts whose order is LAST_ORDER or more come last. The first opinion ends it.
 *
 * Failing is never an opinion: the error goes to the hook point, whose row says what it means. That
 * holds too for a script that is set aside after too many errors, for one that cannot be loaded on
 * this node, and while nothing is known about scripts at all.
 */
#include "lua/scripts.h"

#include "lua/zone.h"
#include "posthouse/log.h"
#include "posthouse/metrics.h"
#include "runtime/pool.h"

#include <string.h>

enum {
    LAST_ORDER = 1000,
    ERRORS_KEPT = 100,
    ERROR_WINDOW_US = 60 * 1000 * 1000,
    NOTE_EVERY_US = 1000 * 1000,
    NOTE_DEADLINE_US = 2 * 1000 * 1000,
    PROBE_US = 5 * 1000 * 1000, /* as long as the check before an installation */
};

const PhSettingRow ph_lua_settings[] = {
    { "lua.core.memory_bytes", PH_SETTING_SIZE, "67108864", 1048576, 4294967296, NULL,
        PH_SCOPE_GLOBAL, "Memory of all global scripts of a node together." },
    { "lua.tenant.memory_bytes", PH_SETTING_SIZE, "8388608", 1048576, 4294967296, NULL,
        PH_SCOPE_GLOBAL, "Memory of one tenant's scripts on a node together." },
    { "lua.tenant.calls", PH_SETTING_INT, "16", 1, 1000, NULL, PH_SCOPE_GLOBAL,
        "Calls of one tenant's scripts that may be under way on a node; fewer where the pool is small." },
    { "lua.call.cpu_ms", PH_SETTING_TIME, "2000", 10, 60000, NULL, PH_SCOPE_GLOBAL,
        "CPU time of one call; its wall time is limited by what it is called for." },
    { "lua.page.output_bytes", PH_SETTING_SIZE, "8388608", 1024, 1073741824, NULL, PH_SCOPE_GLOBAL,
        "What a page may write; larger answers are sent from files." },
    { "lua.breaker.errors", PH_SETTING_INT, "10", 1, ERRORS_KEPT, NULL, PH_SCOPE_GLOBAL,
        "A script that fails so often within a minute is set aside: then its hooks fail at once." },
    { "lua.breaker.pause_s", PH_SETTING_TIME, "300", 1, 86400, NULL, PH_SCOPE_GLOBAL,
        "How long a script stays aside, unless it is activated anew." },
    { 0 },
};

PhLuaLimits ph_lua_limits;

static PhMetric metrics[] = {
    { "lua_calls_total", "Calls of scripts.", PH_METRIC_COUNTER, 0 },
    { "lua_errors_total", "Calls of scripts that failed.", PH_METRIC_COUNTER, 0 },
    { "lua_timeouts_total", "Calls of scripts that were stopped.", PH_METRIC_COUNTER, 0 },
    { 0 },
};

struct PhLuaScript {
    PhRef ref;
    PhLuaKept kept;
    char *name; /* those of `kept` */
    char *text;
    int64_t tenant_id;
    PhScriptScope scope;
    int64_t scope_id;
    char *scope_name; /* or null */
    int order;
    unsigned hooks; /* 1 << PhLuaHook, or-ed */
    char *broken;   /* why it cannot be loaded here; or null */
    int64_t calls;
    int64_t errors;
    /* Under the engine's lock. */
    int64_t error_times_us[ERRORS_KEPT]; /* a ring */
    unsigned n_errors;
    int64_t aside_until_us; /* 0: it is not */
    int64_t noted_us;
};

struct PhLuaScripts {
    PhRef ref;
    int64_t counter;
    GPtrArray *scripts; /* in the order of asking */
    GHashTable *by_name;
    unsigned hooks; /* that some script takes */
};

static struct {
    PhMutex mutex;
    PhLuaScripts *current;
    GMutex sync; /* one load at a time, so that an older never follows a newer */
    char *cache_path;
    unsigned deciders[PH_LUA_N_HOOKS]; /* 0: none */
} engine = { .mutex = { .rank = PH_LOCK_LUA } };

/* -- scripts and sets -------------------------------------------------------------------------- */

static void
script_unref(gpointer data)
{
    PhLuaScript *script = data;
    if (!ph_ref_drop(&script->ref))
        return;
    g_free(script->name);
    g_free(script->text);
    g_free(script->scope_name);
    g_free(script->broken);
    g_free(script);
}

void
ph_lua_scripts_unref(PhLuaScripts *scripts)
{
    if (scripts == NULL || !ph_ref_drop(&scripts->ref))
        return;
    g_hash_table_unref(scripts->by_name);
    g_ptr_array_unref(scripts->scripts);
    g_free(scripts);
}

PhLuaScripts *
ph_lua_scripts_current(void)
{
    ph_mutex_lock(&engine.mutex);
    PhLuaScripts *scripts = engine.current;
    if (scripts != NULL)
        ph_ref_take(&scripts->ref);
    ph_mutex_unlock(&engine.mutex);
    return scripts;
}

PhLuaScript *
ph_lua_scripts_find(const PhLuaScripts *scripts, const char *name)
{
    return g_hash_table_lookup(scripts->by_name, name);
}

int64_t
ph_lua_script_zone(const PhLuaScript *script)
{
    return script->scope == PH_SCRIPT_GLOBAL ? PH_SCRIPT_CORE : script->tenant_id;
}

const char *
ph_lua_script_name(const PhLuaScript *script)
{
    return script->kept.name;
}

bool
ph_lua_script_takes(const PhLuaScript *script, PhLuaHook hook)
{
    return (script->hooks & (1U << hook)) != 0;
}

bool
ph_lua_script_is_for_site(const PhLuaScript *script, int64_t tenant_id, int64_t site_id)
{
    switch (script->scope) {
    case PH_SCRIPT_GLOBAL:
        return true;
    case PH_SCRIPT_TENANT:
    case PH_SCRIPT_DOMAIN:
        return script->tenant_id == tenant_id;
    case PH_SCRIPT_SITE:
        return script->scope_id == site_id;
    }
    return false;
}

void
ph_lua_script_push_handler(lua_State *lua, const PhLuaScript *script, PhLuaHook hook)
{
    ph_lua_push_handler(lua, &script->kept, hook);
}

static unsigned
hooks_from_words(const char *words)
{
    unsigned hooks = 0;
    g_auto(GStrv) names = g_strsplit(words, " ", -1);
    for (char **name = names; *name != NULL; name++) {
        int hook = ph_lua_hook_find(*name);
        if (hook >= 0)
            hooks |= 1U << hook;
    }
    return hooks;
}

static PhLuaScript *
script_new(const PhStoredScript *stored)
{
    PhLuaScript *script = g_new0(PhLuaScript, 1);
    ph_ref_init(&script->ref);
    script->name = g_strdup(stored->name);
    script->text = g_strdup(stored->text);
    script->kept = (PhLuaKept){
        .id = stored->id,
        .version = stored->text_version,
        .name = script->name,
        .text = script->text,
        .length = strlen(stored->text),
    };
    script->tenant_id = stored->tenant_id;
    script->scope = stored->scope;
    script->scope_id = stored->scope_id;
    script->scope_name = g_strdup(stored->scope_name);
    script->order = stored->order;
    script->hooks = hooks_from_words(stored->hooks);
    return script;
}

static int
rank_of(const PhLuaScript *script)
{
    if (script->scope == PH_SCRIPT_GLOBAL)
        return script->order >= LAST_ORDER ? 3 : 0;
    return script->scope == PH_SCRIPT_TENANT ? 1 : 2;
}

static int
by_turn(gconstpointer left, gconstpointer right)
{
    const PhLuaScript *a = *(PhLuaScript *const *)left;
    const PhLuaScript *b = *(PhLuaScript *const *)right;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return strcmp(a->kept.name, b->kept.name);
}

/* Takes the scripts. */
static PhLuaScripts *
set_new(GPtrArray *scripts, int64_t counter)
{
    PhLuaScripts *set = g_new0(PhLuaScripts, 1);
    ph_ref_init(&set->ref);
    set->counter = counter;
    set->scripts = scripts;
    set->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    g_ptr_array_sort(scripts, by_turn);
    for (guint i = 0; i < scripts->len; i++) {
        PhLuaScript *script = scripts->pdata[i];
        g_hash_table_insert(set->by_name, script->name, script);
        set->hooks |= script->hooks;
    }
    return set;
}

/* -- failures ---------------------------------------------------------------------------------- */

static bool
is_aside_locked(PhLuaScript *script, int64_t now_us)
{
    if (script->aside_until_us == 0)
        return false;
    if (now_us < script->aside_until_us)
        return true;
    script->aside_until_us = 0;
    script->n_errors = 0;
    return false;
}

bool
ph_lua_script_may_run(PhLuaScript *script, GError **error)
{
    if (script->broken != NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "script \"%s\" cannot be loaded here: %s",
            script->kept.name, script->broken);
        return false;
    }
    ph_mutex_lock(&engine.mutex);
    bool is_aside = is_aside_locked(script, ph_monotonic_us());
    ph_mutex_unlock(&engine.mutex);
    if (is_aside)
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY,
            "script \"%s\" is set aside after too many errors", script->kept.name);
    return !is_aside;
}

/* True when it was set aside just now. */
static bool
count_error_locked(PhLuaScript *script, int64_t now_us)
{
    unsigned limit = (unsigned)ph_setting_int("lua.breaker.errors");
    script->error_times_us[script->n_errors++ % ERRORS_KEPT] = now_us;
    if (script->n_errors < limit || script->aside_until_us != 0)
        return false;
    int64_t first_us = script->error_times_us[(script->n_errors - limit) % ERRORS_KEPT];
    if (now_us - first_us > ERROR_WINDOW_US)
        return false;
    script->aside_until_us =
        now_us + ph_setting_int("lua.breaker.pause_s") * (int64_t)G_USEC_PER_SEC;
    return true;
}

PH_IN_JOB static void
note_failure(PhLuaScript *script, PhLuaHook hook, const PhLuaCall *call, const char *input,
    const GError *failure)
{
    const char *name = script->kept.name;
    int64_t now_us = ph_monotonic_us();
    ph_mutex_lock(&engine.mutex);
    bool is_aside = count_error_locked(script, now_us);
    bool must_note = script->noted_us == 0 || now_us - script->noted_us > NOTE_EVERY_US || is_aside;
    if (must_note)
        script->noted_us = now_us;
    ph_mutex_unlock(&engine.mutex);
    g_autofree char *quoted = ph_log_quote(failure->message);
    ph_log(PH_LOG_WARNING, "lua.failed", "script=\"%s\" version=%d hook=%s line=%d error=\"%s\"",
        name, script->kept.version, ph_lua_hooks[hook].name, call->line, quoted);
    if (is_aside)
        ph_log(PH_LOG_ERROR, "lua.set-aside", "script=\"%s\" for_s=%d", name,
            (int)ph_setting_int("lua.breaker.pause_s"));
    g_autoptr(GError) error = NULL;
    if (must_note &&
        !ph_script_note_error_blocking(script->kept.id, script->kept.version, failure->message,
            call->line, ph_lua_hooks[hook].name, input, now_us + NOTE_DEADLINE_US, &error))
        ph_log(PH_LOG_DEBUG, "lua.not-noted", "script=\"%s\" %s", name, error->message);
}

void
ph_lua_script_ran_blocking(PhLuaScript *script, PhLuaHook hook, const PhLuaCall *call,
    const char *input, const GError *failure)
{
    __atomic_fetch_add(&script->calls, 1, __ATOMIC_RELAXED);
    ph_metric_add(&metrics[0], 1);
    if (failure == NULL)
        return;
    __atomic_fetch_add(&script->errors, 1, __ATOMIC_RELAXED);
    ph_metric_add(&metrics[1], 1);
    if (ph_error_code(failure) == PH_ERROR_TEMPORARY)
        ph_metric_add(&metrics[2], 1);
    note_failure(script, hook, call, input, failure);
}

void
ph_lua_script_state(const char *name, PhLuaScriptState *state_out)
{
    *state_out = (PhLuaScriptState){ .version = 0 };
    g_autoptr(PhLuaScripts) scripts = ph_lua_scripts_current();
    PhLuaScript *script = scripts != NULL ? ph_lua_scripts_find(scripts, name) : NULL;
    if (script == NULL)
        return;
    state_out->version = script->kept.version;
    state_out->calls = __atomic_load_n(&script->calls, __ATOMIC_RELAXED);
    state_out->errors = __atomic_load_n(&script->errors, __ATOMIC_RELAXED);
    state_out->broken = g_strdup(script->broken);
    ph_mutex_lock(&engine.mutex);
    state_out->is_aside = is_aside_locked(script, ph_monotonic_us());
    ph_mutex_unlock(&engine.mutex);
}

/* -- asking ------------------------------------------------------------------------------------ */

typedef struct Question {
    const PhLuaScript *script;
    PhLuaHook hook;
    PhDecision *decision;
} Question;

static int
run_question(lua_State *lua)
{
    const Question *question = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    ph_lua_script_push_handler(lua, question->script, question->hook);
    ph_lua_push_context(lua);
    lua_call(lua, 1, 1);
    ph_lua_read_answer(lua, question->hook, question->decision);
    return 0;
}

PH_IN_JOB static bool
ask_script(PhLuaScript *script, PhLuaHook hook, const PhHookField *fields, size_t n_fields,
    int64_t deadline_us, PhDecision *decision, GError **error)
{
    PhLuaZone *zone;
    if (!ph_lua_script_may_run(script, error))
        return false;
    PhLuaState *state =
        ph_lua_zone_take_blocking(ph_lua_script_zone(script), deadline_us, &zone, error);
    if (state == NULL)
        return false;
    PhLuaCall call = {
        .script = script->kept.name,
        .tenant_id = ph_lua_script_zone(script),
        .deadline_us = deadline_us,
        .cpu_us = ph_lua_limit(&ph_lua_limits.cpu_us),
        .fields = fields,
        .n_fields = n_fields,
    };
    Question question = { script, hook, decision };
    GError *failure = NULL;
    bool good = ph_lua_state_run(state, &call, run_question, &question, &failure);
    ph_lua_zone_give(zone, state);
    g_autofree char *input = good ? NULL : ph_lua_fields_describe(fields, n_fields);
    ph_lua_script_ran_blocking(script, hook, &call, input, failure);
    if (!good) {
        ph_decision_clear(decision);
        g_propagate_prefixed_error(error, failure, "script \"%s\": ", script->kept.name);
    }
    return good;
}

typedef struct Asker {
    int64_t tenant_id; /* below 0: not known */
    int64_t site_id;   /* 0: none */
    const char *domain;
    const char *site;
} Asker;

static Asker
asker_from(const PhHookField *fields, size_t n_fields)
{
    const char *tenant = ph_lua_field(fields, n_fields, "tenant_id");
    const char *site_id = ph_lua_field(fields, n_fields, "site_id");
    return (Asker){
        .tenant_id = tenant != NULL ? g_ascii_strtoll(tenant, NULL, 10) : -1,
        .site_id = site_id != NULL ? g_ascii_strtoll(site_id, NULL, 10) : 0,
        .domain = ph_lua_field(fields, n_fields, "domain"),
        .site = ph_lua_field(fields, n_fields, "site"),
    };
}

static bool
is_in_scope(const PhLuaScript *script, const Asker *asker)
{
    switch (script->scope) {
    case PH_SCRIPT_GLOBAL:
        return true;
    case PH_SCRIPT_TENANT:
        return script->tenant_id == asker->tenant_id;
    case PH_SCRIPT_DOMAIN:
        return asker->domain != NULL && script->scope_name != NULL &&
               g_ascii_strcasecmp(script->scope_name, asker->domain) == 0;
    case PH_SCRIPT_SITE:
        if (asker->site_id != 0)
            return script->scope_id == asker->site_id;
        return asker->site != NULL && script->scope_name != NULL &&
               g_ascii_strcasecmp(script->scope_name, asker->site) == 0;
    }
    return false;
}

static bool
decide(const PhHookRow *row, const PhHookField *fields, size_t n_fields, int64_t deadline_us,
    PhDecision *decision, void *data, GError **error)
{
    ph_assert_in_job();
    PhLuaHook hook = (PhLuaHook)GPOINTER_TO_UINT(data);
    g_autoptr(PhLuaScripts) scripts = ph_lua_scripts_current();
    if (scripts == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE,
            "what scripts say to \"%s\" is not known: they could not be read yet", row->name);
        return false;
    }
    Asker asker = asker_from(fields, n_fields);
    for (guint i = 0; i < scripts->scripts->len; i++) {
        PhLuaScript *script = scripts->scripts->pdata[i];
        if (!ph_lua_script_takes(script, hook) || !is_in_scope(script, &asker))
            continue;
        if (!ask_script(script, hook, fields, n_fields, deadline_us, decision, error))
            return false;
        if (decision->kind != PH_DECISION_NONE)
            return true;
    }
    return true;
}

/* -- loading ----------------------------------------------------------------------------------- */

/* After the set is in place: there is a decider where a script is, and none where none is. */
static void
set_deciders(unsigned hooks)
{
    for (unsigned i = 0; i < PH_LUA_N_HOOKS; i++) {
        bool is_wanted = (hooks & (1U << i)) != 0 && ph_lua_hooks[i].answers != 0;
        if (is_wanted && engine.deciders[i] == 0) {
            engine.deciders[i] =
                ph_hook_add_decider(ph_lua_hooks[i].name, 0, decide, GUINT_TO_POINTER(i));
        } else if (!is_wanted && engine.deciders[i] != 0) {
            ph_hook_remove_decider(engine.deciders[i]);
            engine.deciders[i] = 0;
        }
    }
}

static void
publish(PhLuaScripts *set)
{
    ph_mutex_lock(&engine.mutex);
    PhLuaScripts *old = engine.current;
    engine.current = set;
    ph_mutex_unlock(&engine.mutex);
    ph_lua_scripts_unref(old);
    set_deciders(set != NULL ? set->hooks : UINT_MAX);
}

/* The script of the present set, when it is the same in all that matters. */
static PhLuaScript *
find_same(const PhLuaScripts *before, const PhStoredScript *stored)
{
    PhLuaScript *script = before != NULL ? ph_lua_scripts_find(before, stored->name) : NULL;
    bool same = script != NULL && script->kept.id == stored->id &&
                script->kept.version == stored->text_version &&
                script->tenant_id == stored->tenant_id && script->scope == stored->scope &&
                script->scope_id == stored->scope_id && script->order == stored->order &&
                g_strcmp0(script->scope_name, stored->scope_name) == 0 && script->broken == NULL;
    return same ? script : NULL;
}

PH_IN_JOB static void
probe(PhLuaScript *script)
{
    PhLuaReport report;
    ph_lua_probe_blocking(script->kept.name, script->kept.text, ph_lua_script_zone(script),
        ph_monotonic_us() + PROBE_US, &report);
    if (report.good) {
        script->hooks = hooks_from_words(report.hooks);
    } else {
        script->broken = report.line > 0
                             ? g_strdup_printf("line %d: %s", report.line, report.message)
                             : g_strdup(report.message);
        ph_log(PH_LOG_ERROR, "lua.broken", "script=\"%s\" version=%d %s", script->kept.name,
            script->kept.version, script->broken);
    }
    ph_lua_report_clear(&report);
}

static void
carry_over(PhLuaScript *script, const PhLuaScripts *before)
{
    PhLuaScript *old = before != NULL ? ph_lua_scripts_find(before, script->kept.name) : NULL;
    if (old == NULL || old->kept.id != script->kept.id)
        return;
    script->calls = __atomic_load_n(&old->calls, __ATOMIC_RELAXED);
    script->errors = __atomic_load_n(&old->errors, __ATOMIC_RELAXED);
}

PH_IN_JOB static PhLuaScripts *
make_set(const GPtrArray *stored, int64_t counter)
{
    g_autoptr(PhLuaScripts) before = ph_lua_scripts_current();
    GPtrArray *scripts = g_ptr_array_new_with_free_func(script_unref);
    for (guint i = 0; i < stored->len; i++) {
        const PhStoredScript *row = stored->pdata[i];
        PhLuaScript *script = find_same(before, row);
        /* A new one too when it failed since, and the store does not say so: an activation takes the
         * last error away, and the breaker closes. */
        if (script != NULL && (row->error_text != NULL || script->noted_us == 0)) {
            ph_ref_take(&script->ref);
        } else {
            script = script_new(row);
            carry_over(script, before);
            probe(script);
        }
        g_ptr_array_add(scripts, script);
    }
    return set_new(scripts, counter);
}

/* -- the copy for a start without the database ------------------------------------------------- */

#define CACHE_ROW "(xxsixsiiss)"

static void
write_cache(const PhLuaScripts *set)
{
    if (engine.cache_path == NULL)
        return;
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE("a" CACHE_ROW));
    for (guint i = 0; i < set->scripts->len; i++) {
        const PhLuaScript *script = set->scripts->pdata[i];
        g_autoptr(GString) hooks = g_string_new(NULL);
        for (int hook = 0; hook < PH_LUA_N_HOOKS; hook++)
            if (ph_lua_script_takes(script, (PhLuaHook)hook))
                g_string_append_printf(hooks, "%s ", ph_lua_hooks[hook].name);
        g_variant_builder_add(&builder, CACHE_ROW, script->kept.id, script->tenant_id,
            script->kept.name, (gint32)script->scope, script->scope_id,
            script->scope_name != NULL ? script->scope_name : "", (gint32)script->order,
            (gint32)script->kept.version, hooks->str, script->kept.text);
    }
    g_autoptr(GVariant) all = g_variant_ref_sink(g_variant_builder_end(&builder));
    g_autoptr(GError) error = NULL;
    if (!g_file_set_contents_full(engine.cache_path, g_variant_get_data(all),
            (gssize)g_variant_get_size(all), G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error))
        ph_log(PH_LOG_WARNING, "lua.not-cached", "%s", error->message);
}

static GPtrArray *
read_cache(void)
{
    g_autofree char *bytes = NULL;
    gsize length;
    if (engine.cache_path == NULL || !g_file_get_contents(engine.cache_path, &bytes, &length, NULL))
        return NULL;
    g_autoptr(GVariant) all = g_variant_ref_sink(
        g_variant_new_from_data(G_VARIANT_TYPE("a" CACHE_ROW), bytes, length, FALSE, NULL, NULL));
    if (!g_variant_is_normal_form(all))
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_script_free);
    for (gsize i = 0; i < g_variant_n_children(all); i++) {
        PhStoredScript *script = g_new0(PhStoredScript, 1);
        gint32 scope;
        gint32 order;
        gint32 version;
        g_variant_get_child(all, i, CACHE_ROW, &script->id, &script->tenant_id, &script->name,
            &scope, &script->scope_id, &script->scope_name, &order, &version, &script->hooks,
            &script->text);
        script->scope = (PhScriptScope)CLAMP(scope, PH_SCRIPT_GLOBAL, PH_SCRIPT_SITE);
        script->order = order;
        script->text_version = version;
        g_ptr_array_add(list, script);
    }
    return list;
}

/* -- limits ------------------------------------------------------------------------------------ */

static void
set_limit(int64_t *limit, int64_t value)
{
    __atomic_store_n(limit, value, __ATOMIC_RELAXED);
}

static void
read_limits(void)
{
    set_limit(&ph_lua_limits.core_memory_bytes, ph_setting_int("lua.core.memory_bytes"));
    set_limit(&ph_lua_limits.tenant_memory_bytes, ph_setting_int("lua.tenant.memory_bytes"));
    /* However many are allowed, one tenant leaves a worker of the lane to the others. */
    PhLaneState web;
    ph_pool_lane_state(PH_LANE_WEB, &web);
    int64_t spared = web.most > 1 ? (int64_t)web.most - 1 : 1;
    set_limit(&ph_lua_limits.tenant_calls, MIN(ph_setting_int("lua.tenant.calls"), spared));
    set_limit(&ph_lua_limits.cpu_us, ph_setting_int("lua.call.cpu_ms") * 1000);
    set_limit(&ph_lua_limits.output_bytes, ph_setting_int("lua.page.output_bytes"));
}

/* -- life -------------------------------------------------------------------------------------- */

void
ph_lua_start(const char *cache_path)
{
    ph_assert_in_job();
    engine.cache_path = g_strdup(cache_path);
    read_limits();
    ph_metrics_register(metrics);
    g_autoptr(GPtrArray) stored = read_cache();
    /* No counter is below 0, so the first sync reads all. */
    publish(stored != NULL ? make_set(stored, -1) : NULL);
}

void
ph_lua_stop_blocking(void)
{
    set_deciders(0);
    ph_mutex_lock(&engine.mutex);
    PhLuaScripts *old = g_steal_pointer(&engine.current);
    ph_mutex_unlock(&engine.mutex);
    ph_lua_scripts_unref(old);
    ph_lua_zones_close();
    ph_script_db_close_all();
    ph_metrics_unregister(metrics);
    g_clear_pointer(&engine.cache_path, g_free);
}

static int64_t
known_counter(void)
{
    g_autoptr(PhLuaScripts) scripts = ph_lua_scripts_current();
    return scripts != NULL ? scripts->counter : -1;
}

PH_IN_JOB static bool
sync_now(int64_t deadline_us, GError **error)
{
    int64_t counter;
    if (!ph_script_counter_blocking(deadline_us, &counter, error))
        return false;
    if (counter == known_counter())
        return true;
    g_autoptr(GPtrArray) stored = ph_scripts_active_blocking(deadline_us, &counter, error);
    if (stored == NULL)
        return false;
    PhLuaScripts *set = make_set(stored, counter);
    write_cache(set);
    publish(set);
    return true;
}

bool
ph_lua_sync_blocking(int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    read_limits();
    g_mutex_lock(&engine.sync);
    bool good = sync_now(deadline_us, error);
    g_mutex_unlock(&engine.sync);
    ph_lua_zones_tend();
    ph_script_db_tend();
    return good;
}
