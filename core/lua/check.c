/* check.c - a script is tried in a state of its own before it counts
 *
 * Its tests are functions in the table "tests", by what they show. Each is given run(hook, fields),
 * which asks the script's own handler and gives the answer as a table; assert() does the rest. What
 * a test changes in the script's tables is rolled back.
 */
#include "lua/scripts.h"

#include "lua/sandbox.h"
#include "lua/watch.h"

#include <string.h>

enum { TESTS_MAX = 200 };

typedef struct Check {
    const char *name;
    const char *text;
    PhLuaReport *report;
    bool with_tests;
    const char *hook; /* one hook to run; or null */
    const char *input;
    PhLuaFields fields; /* of the hook under way */
    PhDecision decision;
    unsigned n_tests;
    unsigned n_failed;
} Check;

void
ph_lua_report_clear(PhLuaReport *report)
{
    g_free(report->message);
    g_free(report->hooks);
    g_free(report->result);
    if (report->output != NULL)
        g_string_free(report->output, TRUE);
    *report = (PhLuaReport){ .good = false };
}

/* -- running a handler ------------------------------------------------------------------------- */

static Check *
check_of(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "posthouse.check");
    Check *check = lua_touserdata(lua, -1);
    lua_settop(lua, -2);
    return check;
}

/* The table of hooks is in the registry; the fields' table is at `input`. Pushes the answer. */
static void
run_hook(lua_State *lua, Check *check, const char *name, int input)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    int hook = ph_lua_hook_find(name);
    if (hook < 0)
        luaL_error(lua, "there is no hook \"%s\"", name);
    lua_getfield(lua, LUA_REGISTRYINDEX, "posthouse.checked");
    lua_getfield(lua, -1, name);
    lua_remove(lua, -2);
    if (!lua_isfunction(lua, -1))
        luaL_error(lua, "%s: takes no \"%s\"", check->name, name);
    if (hook == PH_LUA_HOOK_CONTENT) {
        ph_lua_try_page(lua, input);
        return;
    }
    g_array_set_size(check->fields.fields, 0);
    ph_decision_clear(&check->decision);
    lua_pushvalue(lua, input);
    ph_lua_fields_read(lua, &check->fields);
    lua_settop(lua, -2);
    call->fields = (const PhHookField *)(void *)check->fields.fields->data;
    call->n_fields = check->fields.fields->len;
    ph_lua_push_context(lua);
    lua_call(lua, 1, 1);
    ph_lua_read_answer(lua, (PhLuaHook)hook, &check->decision);
    lua_settop(lua, -2);
    ph_lua_push_decision(lua, &check->decision);
    call->n_fields = 0;
}

/* run(hook, fields), in tests. */
static int
test_run(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 1);
    lua_settop(lua, 2);
    if (lua_isnil(lua, 2)) {
        lua_newtable(lua);
        lua_replace(lua, 2);
    }
    luaL_checktype(lua, 2, LUA_TTABLE);
    run_hook(lua, check_of(lua), name, 2);
    return 1;
}

/* -- the tests --------------------------------------------------------------------------------- */

/* Of "name:12: text" the text. */
static const char *
without_place(const char *name, const char *message)
{
    size_t length = strlen(name);
    if (strncmp(message, name, length) != 0 || message[length] != ':')
        return message;
    const char *at = message + length + 1;
    at += strspn(at, "0123456789");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : at + strspn(at, " ");
}

static void
set_failure(PhLuaReport *report, const char *name, int line, const char *message)
{
    if (report->message != NULL)
        return; /* the first counts */
    report->line = line;
    report->message = g_strdup(without_place(name, message));
}

static int
keep_line(lua_State *lua)
{
    lua_Debug where;
    PhLuaCall *call = ph_lua_call_of(lua);
    call->line = 0;
    for (int level = 1; level < 50 && lua_getstack(lua, level, &where) == 1; level++)
        if (lua_getinfo(lua, "Sl", &where) != 0 && where.currentline > 0) {
            call->line = where.currentline;
            break;
        }
    return 1;
}

/* A test's name and function are on the top of the stack; both stay. */
static void
run_test(lua_State *lua, Check *check)
{
    ph_assert_in_job();
    PhLuaCall *call = ph_lua_call_of(lua);
    PhLuaReport *report = check->report;
    int top = lua_gettop(lua);
    if (lua_type(lua, -2) != LUA_TSTRING || !lua_isfunction(lua, -1))
        luaL_error(lua, "%s: tests are functions by what they show", check->name);
    if (check->n_tests >= TESTS_MAX)
        luaL_error(lua, "%s: more than %d tests", check->name, TESTS_MAX);
    const char *title = lua_tostring(lua, -2);
    lua_pushcfunction(lua, keep_line);
    lua_pushvalue(lua, -2);
    lua_pushcfunction(lua, test_run);
    int status = lua_pcall(lua, 1, 0, top + 1);
    ph_lua_db_end(call);
    ph_lua_tick(lua);
    check->n_tests++;
    if (status == LUA_OK) {
        g_string_append_printf(report->output, "ok %u - %s\n", check->n_tests, title);
    } else {
        const char *text =
            lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "an error without a text";
        check->n_failed++;
        g_string_append_printf(
            report->output, "not ok %u - %s\n# %s\n", check->n_tests, title, text);
        g_autofree char *whole =
            g_strdup_printf("test \"%s\": %s", title, without_place(check->name, text));
        set_failure(report, check->name, call->line, whole);
    }
    lua_settop(lua, top);
}

/* In the order of their names, so that each run looks the same. */
static void
run_tests(lua_State *lua, Check *check)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, "posthouse.checked");
    if (lua_getfield(lua, -1, "tests") != LUA_TTABLE) {
        lua_settop(lua, -3);
        return;
    }
    int tests = lua_gettop(lua);
    lua_newtable(lua);
    int names = lua_gettop(lua);
    lua_Integer n = 0;
    for (lua_pushnil(lua); lua_next(lua, tests) != 0; lua_settop(lua, -2)) {
        if (lua_type(lua, -2) != LUA_TSTRING)
            luaL_error(lua, "%s: tests are functions by what they show", check->name);
        lua_pushvalue(lua, -2);
        lua_rawseti(lua, names, ++n);
    }
    lua_pushcfunction(lua, ph_lua_sort);
    lua_pushvalue(lua, names);
    lua_call(lua, 1, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(lua, names, i);
        lua_pushvalue(lua, -1);
        lua_rawget(lua, tests);
        run_test(lua, check);
        lua_settop(lua, names);
    }
    lua_settop(lua, tests - 2);
}

/* -- the whole --------------------------------------------------------------------------------- */

static void
describe_hooks(lua_State *lua, PhLuaReport *report)
{
    g_autoptr(GString) words = g_string_new(NULL);
    for (int i = 0; i < PH_LUA_N_HOOKS; i++) {
        lua_getfield(lua, -1, ph_lua_hooks[i].name);
        if (lua_isfunction(lua, -1))
            g_string_append_printf(words, "%s%s", words->len > 0 ? " " : "", ph_lua_hooks[i].name);
        lua_settop(lua, -2);
    }
    report->hooks = g_string_free(g_steal_pointer(&words), FALSE);
}

static void
run_one(lua_State *lua, Check *check)
{
    /* Through posthouse.json, as it is bounded. */
    ph_lua_push_json(lua);
    int json = lua_gettop(lua);
    lua_getfield(lua, json, "decode");
    lua_pushstring(lua, check->input != NULL && check->input[0] != '\0' ? check->input : "{}");
    lua_call(lua, 1, 1);
    if (!lua_istable(lua, -1))
        luaL_error(lua, "the input of a hook is a JSON object");
    int input = lua_gettop(lua);
    lua_getfield(lua, json, "encode");
    run_hook(lua, check, check->hook, input);
    lua_call(lua, 1, 1);
    check->report->result = g_strdup(lua_tostring(lua, -1));
    lua_settop(lua, json - 1);
}

static int
run_check(lua_State *lua)
{
    Check *check = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    lua_pushlightuserdata(lua, check);
    lua_setfield(lua, LUA_REGISTRYINDEX, "posthouse.check");
    ph_lua_load_script(lua, check->name, check->text, strlen(check->text));
    describe_hooks(lua, check->report);
    lua_setfield(lua, LUA_REGISTRYINDEX, "posthouse.checked");
    if (check->hook != NULL)
        run_one(lua, check);
    else if (check->with_tests)
        run_tests(lua, check);
    return 0;
}

PH_IN_JOB static void
run(Check *check, int64_t zone_tenant, int64_t deadline_us)
{
    PhLuaReport *report = check->report;
    *report = (PhLuaReport){ .output = g_string_new(NULL) };
    PhLuaBudget budget = {
        .limit = (size_t)ph_lua_limit(zone_tenant == PH_SCRIPT_CORE
                                          ? &ph_lua_limits.core_memory_bytes
                                          : &ph_lua_limits.tenant_memory_bytes),
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = ph_lua_state_new(&budget, &error);
    PhLuaCall call = {
        .script = check->name,
        .tenant_id = zone_tenant,
        .deadline_us = deadline_us,
        .is_test = true,
        .printed = report->output,
        .out_max_bytes = (size_t)ph_lua_limit(&ph_lua_limits.output_bytes),
    };
    ph_lua_fields_init(&check->fields);
    bool good = state != NULL && ph_lua_state_run(state, &call, run_check, check, &error);
    ph_lua_db_end(&call);
    ph_lua_fields_clear(&check->fields);
    ph_decision_clear(&check->decision);
    if (!good)
        set_failure(report, check->name, call.line, error->message);
    if (check->with_tests && check->n_tests > 0)
        g_string_append_printf(report->output, "1..%u\n", check->n_tests);
    report->good = good && check->n_failed == 0;
}

void
ph_lua_probe_blocking(const char *name, const char *text, int64_t zone_tenant, int64_t deadline_us,
    PhLuaReport *report_out)
{
    Check check = { .name = name, .text = text, .report = report_out };
    run(&check, zone_tenant, deadline_us);
}

void
ph_lua_check_blocking(const char *name, const char *text, int64_t zone_tenant, int64_t deadline_us,
    PhLuaReport *report_out)
{
    Check check = { .name = name, .text = text, .report = report_out, .with_tests = true };
    run(&check, zone_tenant, deadline_us);
}

void
ph_lua_try_blocking(const char *name, const char *text, int64_t zone_tenant, const char *hook,
    const char *input, int64_t deadline_us, PhLuaReport *report_out)
{
    Check check = {
        .name = name,
        .text = text,
        .report = report_out,
        .hook = hook,
        .input = input,
    };
    run(&check, zone_tenant, deadline_us);
}
