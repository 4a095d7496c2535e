/* lua-actions.c - scripts: kept with their versions, checked before they count
 *
 * A tenant's administrator sees and changes the scripts of his tenant; global ones are the operators'.
 * A text that does not compile, or whose tests fail, is not kept.
 */
#include "lua/engine.h"
#include "management/actions.h"
#include "store/script.h"

#include <string.h>

enum { NAME_MAX_BYTES = 100, TEXT_MAX_BYTES = 256 * 1024, CHECK_US = 5 * 1000 * 1000 };

// clang-format off
#define DOCUMENT(name, flags, help) { name, PH_ARGUMENT_DOCUMENT, flags, help, NULL, 0, TEXT_MAX_BYTES }
#define POSITIONAL(name, type, help) { name, PH_ARGUMENT_##type, PH_ARGUMENT_POSITIONAL, help, NULL, 0, 0 }
#define NEEDED_DOCUMENT PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL

static const PhArgumentRow list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };
static const PhArgumentRow name_arguments[] = { PH_NEEDED("name", "the script"), { 0 } };

static const PhArgumentRow show_arguments[] = {
    PH_NEEDED("name", "the script"),
    PH_NUMBER("version", "which of its texts (the active one)"),
    { 0 },
};

static const PhArgumentRow versions_arguments[] = {
    PH_NEEDED("name", "the script"),
    PH_ARGUMENT_AFTER,
    PH_ARGUMENT_LIMIT,
    { 0 },
};

static const PhArgumentRow check_arguments[] = {
    DOCUMENT("text", NEEDED_DOCUMENT, "the script's text"),
    POSITIONAL("name", TEXT, "its name, as messages say it (script)"),
    { 0 },
};

static const PhArgumentRow install_arguments[] = {
    PH_NEEDED("name", "the script"),
    DOCUMENT("text", NEEDED_DOCUMENT, "its text"),
    PH_OPTION("note", "what this version is about"),
    PH_CHOICE("scope", "global|tenant|domain|site", "whom it is asked for (as it was; a new one of an operator: global)"),
    PH_OPTION("scope_name", "the tenant, domain or site"),
    { "order", PH_ARGUMENT_INT, 0, "turn among scripts of the same scope (100); global ones from 1000 are asked last", NULL, 0, 100000 },
    PH_ARGUMENT_IF_VERSION,
    PH_SWITCH("activate", "use this version at once"),
    { 0 },
};

static const PhArgumentRow activate_arguments[] = {
    PH_NEEDED("name", "the script"),
    POSITIONAL("version", INT, "which (the newest)"),
    { 0 },
};

static const PhArgumentRow test_arguments[] = {
    PH_NEEDED("name", "the script; it need not be installed where a text is given"),
    DOCUMENT("text", PH_ARGUMENT_POSITIONAL, "a text to try in its place"),
    PH_OPTION("hook", "run this hook (its tests)"),
    DOCUMENT("input", 0, "fields of the hook's context, as a JSON object"),
    { 0 },
};

#define SCRIPT_ANSWERS(KIND) \
    PH_##KIND("name", TEXT, "the script"), \
    PH_##KIND("scope", TEXT, "global, tenant, domain or site"), \
    PH_##KIND("scope_name", TEXT, "which one"), \
    PH_##KIND("hooks", TEXT, "the hooks that it takes"), \
    PH_##KIND("state", TEXT, "active, inactive, set aside (after too many errors) or broken (it cannot be loaded on this node)"), \
    PH_##KIND("active_version", INT, "the version that is used; 0: none"), \
    PH_##KIND("newest_version", INT, "the last version that was installed"), \
    PH_##KIND("order", INT, "its turn among scripts of the same scope"), \
    PH_##KIND("calls", INT, "how often this node called it"), \
    PH_##KIND("errors", INT, "how often it failed"), \
    PH_##KIND("changed", TIME, "when it was changed"), \
    PH_##KIND("changed_by", TEXT, "by whom")

static const PhAnswerRow list_answers[] = { SCRIPT_ANSWERS(ITEM), { 0 } };

static const PhAnswerRow show_answers[] = {
    SCRIPT_ANSWERS(FIELD),
    PH_FIELD("version", INT, "of the script as a whole, for if_version"),
    PH_FIELD("text_version", INT, "which text this is"),
    PH_FIELD("text", TEXT, "the text"),
    PH_FIELD("broken", TEXT, "why this node cannot load it"),
    PH_FIELD("last_error", TEXT, "the last error since the activation"),
    PH_FIELD("last_error_line", INT, "its line; 0: not known"),
    PH_FIELD("last_error_at", TIME, "when it was"),
    PH_FIELD("last_error_hook", TEXT, "the hook that failed"),
    PH_FIELD("last_error_input", TEXT, "the fields of its context, as JSON, without what is private"),
    { 0 },
};

static const PhAnswerRow versions_answers[] = {
    PH_ITEM("version", INT, "its number"),
    PH_ITEM("at", TIME, "when it was installed"),
    PH_ITEM("by", TEXT, "by whom"),
    PH_ITEM("note", TEXT, "what it is about"),
    PH_ITEM("active", BOOL, "is it the one that is used?"),
    PH_ITEM("bytes", INT, "the length of its text"),
    { 0 },
};

static const PhAnswerRow check_answers[] = {
    PH_FIELD("ok", BOOL, "is it good?"),
    PH_FIELD("line", INT, "where it is not; left out when that is not known"),
    PH_FIELD("message", TEXT, "what is wrong"),
    PH_FIELD("hooks", TEXT, "the hooks that it takes"),
    { 0 },
};

static const PhAnswerRow install_answers[] = {
    PH_FIELD("version", INT, "the number of this text"),
    PH_FIELD("hooks", TEXT, "the hooks that it takes"),
    { 0 },
};

static const PhAnswerRow version_answers[] = {
    PH_FIELD("version", INT, "the version that is used now"),
    { 0 },
};

static const PhAnswerRow test_answers[] = {
    PH_FIELD("ok", BOOL, "did all go well?"),
    PH_FIELD("output", TEXT, "what the tests, print() and the log wrote"),
    PH_FIELD("result", TEXT, "the hook's answer, as JSON"),
    PH_FIELD("line", INT, "where it failed"),
    PH_FIELD("message", TEXT, "why"),
    { 0 },
};
// clang-format on

/* -- helpers ----------------------------------------------------------------------------------- */

static bool
check_name(const char *name, GError **error)
{
    size_t length = strlen(name);
    bool good = length > 0 && length <= NAME_MAX_BYTES && g_ascii_isalnum(name[0]);
    for (const char *at = name; *at != '\0'; at++)
        good = good && (g_ascii_islower(*at) || g_ascii_isdigit(*at) || strchr("._-", *at) != NULL);
    if (!good)
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "a script's name has up to %d of the letters a to z, digits, \".\", \"_\" and \"-\"",
            NAME_MAX_BYTES);
    return good;
}

/* Global scripts are the operators'. */
static bool
may_touch(const PhActionCall *call, const PhStoredScript *script)
{
    if (script->scope == PH_SCRIPT_GLOBAL)
        return ph_action_role(call) == PH_ROLE_OPERATOR;
    return ph_action_may_tenant(call, script->tenant_id);
}

PH_IN_JOB static PhStoredScript *
find_script(PhActionCall *call, int version, GError **error)
{
    const char *name = ph_action_text(call, "name");
    PhStoredScript *script =
        ph_script_find_blocking(name, version, ph_action_deadline_us(call), error);
    if (script == NULL)
        return NULL;
    if (may_touch(call, script)) {
        ph_action_about_tenant(call, script->tenant_id);
        return script;
    }
    ph_stored_script_free(script);
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no script \"%s\"", name);
    return NULL;
}

static int64_t
zone_of(PhScriptScope scope, int64_t tenant_id)
{
    return scope == PH_SCRIPT_GLOBAL ? PH_SCRIPT_CORE : tenant_id;
}

/* The rights with which a text is tried that belongs to no script yet. */
static int64_t
zone_of_caller(const PhActionCall *call)
{
    return ph_action_role(call) == PH_ROLE_OPERATOR ? PH_SCRIPT_CORE : ph_action_tenant(call);
}

static int64_t
check_deadline_us(const PhActionCall *call)
{
    return MIN(ph_action_deadline_us(call), ph_monotonic_us() + CHECK_US);
}

/* What changed counts on this node before the answer is given. */
PH_IN_JOB static bool
changed(const PhActionCall *call, GError **error)
{
    return ph_lua_sync_blocking(ph_action_deadline_us(call), error);
}

static void
set_refusal(const char *name, const PhLuaReport *report, GError **error)
{
    if (report->line > 0)
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "script \"%s\", line %d: %s", name,
            report->line, report->message);
    else
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "script \"%s\": %s", name, report->message);
}

/* The words for its hooks, or null when the text is not good. */
PH_IN_JOB static char *
check_text(PhActionCall *call, const char *name, const char *text, int64_t zone, GError **error)
{
    PhLuaReport report;
    ph_action_blame(call, "text");
    ph_lua_check_blocking(name, text, zone, check_deadline_us(call), &report);
    char *hooks = NULL;
    if (report.good)
        hooks = g_steal_pointer(&report.hooks);
    else
        set_refusal(name, &report, error);
    ph_lua_report_clear(&report);
    return hooks;
}

/* -- looking ----------------------------------------------------------------------------------- */

static const char *
state_name(const PhStoredScript *script, const PhLuaScriptState *state)
{
    if (script->active_version == 0)
        return "inactive";
    if (state->broken != NULL)
        return "broken";
    return state->is_aside ? "set aside" : "active";
}

static void
answer_script(PhActionCall *call, const PhStoredScript *script, const PhLuaScriptState *state)
{
    ph_answer_text(call, "name", script->name);
    ph_answer_text(call, "scope", ph_script_scope_name(script->scope));
    ph_answer_text(call, "scope_name", script->scope_name);
    ph_answer_text(call, "hooks", script->hooks);
    ph_answer_text(call, "state", state_name(script, state));
    ph_answer_int(call, "active_version", script->active_version);
    ph_answer_int(call, "newest_version", script->newest_version);
    ph_answer_int(call, "order", script->order);
    ph_answer_int(call, "calls", state->calls);
    ph_answer_int(call, "errors", state->errors);
    ph_answer_time(call, "changed", script->changed_us);
    ph_answer_text(call, "changed_by", script->changed_by);
}

static bool
lua_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int64_t tenant_id = ph_action_role(call) == PH_ROLE_OPERATOR ? -1 : ph_action_tenant(call);
    g_autoptr(PhPage) page = ph_script_list_blocking(tenant_id, ph_action_text(call, "filter"),
        ph_action_text(call, "after"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhStoredScript *script = page->items->pdata[i];
        PhLuaScriptState state;
        ph_lua_script_state(script->name, &state);
        ph_answer_item(call);
        answer_script(call, script, &state);
        g_free(state.broken);
    }
    ph_answer_next(call, page->next);
    return true;
}

static void
answer_error(PhActionCall *call, const PhStoredScript *script)
{
    if (script->error_text == NULL)
        return;
    ph_answer_text(call, "last_error", script->error_text);
    ph_answer_int(call, "last_error_line", script->error_line);
    ph_answer_time(call, "last_error_at", script->error_us);
    ph_answer_text(call, "last_error_hook", script->error_hook);
    ph_answer_text(call, "last_error_input", script->error_input);
}

static bool
lua_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredScript) script =
        find_script(call, (int)MIN(ph_action_int(call, "version", 0), INT32_MAX), error);
    if (script == NULL)
        return false;
    PhLuaScriptState state;
    ph_lua_script_state(script->name, &state);
    answer_script(call, script, &state);
    ph_answer_int(call, "version", script->version);
    ph_answer_int(call, "text_version", script->text_version);
    ph_answer_text(call, "text", script->text);
    ph_answer_text(call, "broken", state.broken);
    answer_error(call, script);
    g_free(state.broken);
    return true;
}

static bool
lua_versions(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredScript) script = find_script(call, 0, error);
    g_autoptr(PhPage) page =
        script != NULL ? ph_script_versions_blocking(script->id, ph_action_text(call, "after"),
                             ph_action_limit(call), ph_action_deadline_us(call), error)
                       : NULL;
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhScriptVersion *version = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "version", version->version);
        ph_answer_time(call, "at", version->at_us);
        ph_answer_text(call, "by", version->by);
        ph_answer_text(call, "note", version->note);
        ph_answer_bool(call, "active", version->is_active);
        ph_answer_int(call, "bytes", version->bytes);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* -- trying ------------------------------------------------------------------------------------ */

static bool
lua_check(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *name = ph_action_text(call, "name");
    if (name == NULL)
        name = "script";
    if (!check_name(name, error))
        return false;
    PhLuaReport report;
    ph_lua_check_blocking(
        name, ph_action_text(call, "text"), zone_of_caller(call), check_deadline_us(call), &report);
    ph_answer_bool(call, "ok", report.good);
    if (report.line > 0)
        ph_answer_int(call, "line", report.line);
    ph_answer_text(call, "message", report.message);
    ph_answer_text(call, "hooks", report.hooks);
    ph_lua_report_clear(&report);
    return true;
}

static void
answer_report(PhActionCall *call, const PhLuaReport *report)
{
    ph_answer_bool(call, "ok", report->good);
    ph_answer_text(call, "output", report->output->str);
    ph_answer_text(call, "result", report->result);
    if (report->line > 0)
        ph_answer_int(call, "line", report->line);
    ph_answer_text(call, "message", report->message);
}

static bool
lua_test(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *name = ph_action_text(call, "name");
    const char *text = ph_action_text(call, "text");
    const char *hook = ph_action_text(call, "hook");
    g_autoptr(GError) cause = NULL;
    g_autoptr(PhStoredScript) script = find_script(call, 0, &cause);
    bool is_new = script == NULL && text != NULL && ph_error_code(cause) == PH_ERROR_NOT_FOUND;
    if (script == NULL && !is_new) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    if (!check_name(name, error))
        return false;
    int64_t zone = is_new ? zone_of_caller(call) : zone_of(script->scope, script->tenant_id);
    if (text == NULL)
        text = script->text;
    PhLuaReport report;
    if (hook != NULL)
        ph_lua_try_blocking(name, text, zone, hook, ph_action_text(call, "input"),
            check_deadline_us(call), &report);
    else
        ph_lua_check_blocking(name, text, zone, check_deadline_us(call), &report);
    answer_report(call, &report);
    ph_lua_report_clear(&report);
    return true;
}

/* -- changing ---------------------------------------------------------------------------------- */

static PhScriptScope
scope_from_name(const char *name)
{
    for (int scope = PH_SCRIPT_TENANT; scope <= PH_SCRIPT_SITE; scope++)
        if (strcmp(ph_script_scope_name((PhScriptScope)scope), name) == 0)
            return (PhScriptScope)scope;
    return PH_SCRIPT_GLOBAL;
}

static bool
refuse_scope(PhActionCall *call, const char *why, GError **error)
{
    ph_action_blame(call, "scope");
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "%s", why);
    return false;
}

/* Where a script is for, from the arguments, else as it was. */
PH_IN_JOB static bool
find_scope(PhActionCall *call, const PhStoredScript *script, PhScriptPut *put, GError **error)
{
    const char *scope = ph_action_text(call, "scope");
    const char *name = ph_action_text(call, "scope_name");
    bool is_operator = ph_action_role(call) == PH_ROLE_OPERATOR;
    if (name != NULL && scope == NULL) {
        ph_action_blame(call, "scope");
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "\"scope_name\" needs \"scope\": tenant, domain or site");
        return false;
    }
    if (scope == NULL && script != NULL) {
        put->scope = script->scope;
        put->scope_id = script->scope_id;
        put->tenant_id = script->tenant_id;
        return true;
    }
    put->scope = scope != NULL ? scope_from_name(scope)
                               : (is_operator ? PH_SCRIPT_GLOBAL : PH_SCRIPT_TENANT);
    if (put->scope == PH_SCRIPT_GLOBAL)
        return is_operator || refuse_scope(call, "global scripts are the operators'", error);
    if (put->scope == PH_SCRIPT_TENANT && name == NULL) {
        put->scope_id = put->tenant_id = ph_action_tenant(call);
        return true;
    }
    if (name == NULL) {
        ph_action_blame(call, "scope_name");
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"scope_name\" says which %s", scope);
        return false;
    }
    ph_action_blame(call, "scope_name");
    if (!ph_script_scope_find_blocking(
            put->scope, name, ph_action_deadline_us(call), &put->scope_id, &put->tenant_id, error))
        return false;
    if (ph_action_may_tenant(call, put->tenant_id))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no %s \"%s\"", scope, name);
    return false;
}

static bool
lua_install(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GError) cause = NULL;
    g_autoptr(PhStoredScript) script = find_script(call, 0, &cause);
    if (script == NULL && ph_error_code(cause) != PH_ERROR_NOT_FOUND) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    int order = script != NULL ? script->order : 100;
    PhScriptPut put = {
        .id = script != NULL ? script->id : 0,
        .name = ph_action_text(call, "name"),
        .order = (int)ph_action_int(call, "order", order),
        .text = ph_action_text(call, "text"),
        .note = ph_action_text(call, "note"),
        .by = ph_action_actor(call),
        .activate = ph_action_bool(call, "activate", false),
        .if_version = ph_action_int(call, "if_version", -1),
    };
    if (!check_name(put.name, error) || !find_scope(call, script, &put, error))
        return false;
    g_autofree char *hooks =
        check_text(call, put.name, put.text, zone_of(put.scope, put.tenant_id), error);
    if (hooks == NULL)
        return false;
    put.hooks = hooks;
    ph_action_blame(call, "name");
    ph_action_about_tenant(call, put.tenant_id);
    int version;
    if (!ph_script_put_blocking(&put, ph_action_deadline_us(call), &version, error) ||
        !changed(call, error))
        return false;
    ph_answer_int(call, "version", version);
    ph_answer_text(call, "hooks", hooks);
    return true;
}

PH_IN_JOB static bool
activate(PhActionCall *call, const PhStoredScript *script, const char *hooks, int version,
    GError **error)
{
    if (!ph_script_activate_blocking(script->id, version, hooks, ph_action_actor(call),
            ph_action_deadline_us(call), error) ||
        !changed(call, error))
        return false;
    if (version > 0)
        ph_answer_int(call, "version", version);
    return true;
}

static bool
lua_activate(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int version = (int)MIN(ph_action_int(call, "version", 0), INT32_MAX);
    g_autoptr(PhStoredScript) script = find_script(call, version, error);
    if (script == NULL)
        return false;
    if (version == 0) {
        version = script->newest_version;
        g_clear_pointer(&script, ph_stored_script_free);
        script = find_script(call, version, error);
        if (script == NULL)
            return false;
    }
    g_autofree char *hooks = check_text(
        call, script->name, script->text, zone_of(script->scope, script->tenant_id), error);
    return hooks != NULL && activate(call, script, hooks, version, error);
}

/* Without its tests: what worked before is wanted back now. */
static bool
lua_rollback(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int version;
    g_autoptr(PhStoredScript) script = find_script(call, 0, error);
    if (script == NULL ||
        !ph_script_previous_blocking(script->id, ph_action_deadline_us(call), &version, error))
        return false;
    return activate(call, script, NULL, version, error);
}

static bool
lua_deactivate(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredScript) script = find_script(call, 0, error);
    return script != NULL && activate(call, script, NULL, 0, error);
}

static bool
lua_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredScript) script = find_script(call, 0, error);
    return script != NULL &&
           ph_script_remove_blocking(script->id, ph_action_deadline_us(call), error) &&
           changed(call, error);
}

// clang-format off
const PhActionRow ph_lua_actions[] = {
    { "lua.list", PH_ROLE_TENANT, 0, list_arguments, list_answers, lua_list, "GET /scripts", NULL, "the scripts" },
    { "lua.show", PH_ROLE_TENANT, 0, show_arguments, show_answers, lua_show, "GET /scripts/{name}", NULL, "one script, with its text and its last error" },
    { "lua.versions", PH_ROLE_TENANT, 0, versions_arguments, versions_answers, lua_versions, "GET /scripts/{name}/versions", NULL, "the texts that a script has had" },
    { "lua.check", PH_ROLE_TENANT, 0, check_arguments, check_answers, lua_check, "POST /scripts/check", NULL, "compile a text, run its top level and its tests; nothing is kept" },
    { "lua.install", PH_ROLE_TENANT, PH_ACTION_CHANGES, install_arguments, install_answers, lua_install, "PUT /scripts/{name}", "lua.show", "keep a new version of a script, when it is good" },
    { "lua.activate", PH_ROLE_TENANT, PH_ACTION_CHANGES, activate_arguments, version_answers, lua_activate, "POST /scripts/{name}/activate", "lua.show", "use a version from now on" },
    { "lua.rollback", PH_ROLE_TENANT, PH_ACTION_CHANGES, name_arguments, version_answers, lua_rollback, "POST /scripts/{name}/rollback", "lua.show", "use the version that was active before" },
    { "lua.deactivate", PH_ROLE_TENANT, PH_ACTION_CHANGES, name_arguments, NULL, lua_deactivate, "POST /scripts/{name}/deactivate", "lua.show", "ask a script no more; it stays installed" },
    { "lua.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, name_arguments, NULL, lua_remove, "DELETE /scripts/{name}", "lua.show", "remove a script with all its versions" },
    { "lua.test", PH_ROLE_TENANT, 0, test_arguments, test_answers, lua_test, "POST /scripts/{name}/test", NULL, "run a script's tests, or one hook with an input" },
    { 0 },
};
// clang-format on
