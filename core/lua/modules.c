/* modules.c - posthouse.log, posthouse.time, posthouse.user, and the table they are in */
#include "lua/sandbox.h"
#include "posthouse/account.h"
#include "posthouse/log.h"

#include <math.h>
#include <string.h>

enum { LOG_LINES_MAX = 100, LOG_LINE_BYTES = 1024, PRINTED_MAX_BYTES = 64 * 1024 };

/* -- log --------------------------------------------------------------------------------------- */

/* In a test what is written is part of its output. */
static void
write_line(lua_State *lua, PhLogLevel level, const char *text, size_t length)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    if (call->printed != NULL) {
        if (call->printed->len + length < PRINTED_MAX_BYTES) {
            g_string_append_len(call->printed, text, (gssize)length);
            g_string_append_c(call->printed, '\n');
        }
        return;
    }
    if (++call->n_logged > LOG_LINES_MAX)
        return;
    char line[LOG_LINE_BYTES];
    g_snprintf(line, sizeof(line), "%.*s", (int)MIN(length, sizeof(line) - 1), text);
    g_autofree char *quoted = ph_log_quote(line);
    ph_log(level, "lua.log", "script=\"%s\" text=\"%s\"", call->script, quoted);
}

void
ph_lua_print(lua_State *lua, const char *text, size_t length)
{
    write_line(lua, PH_LOG_INFO, text, length);
}

static int
log_at(lua_State *lua, PhLogLevel level)
{
    size_t length;
    luaL_checkany(lua, 1);
    lua_settop(lua, 1);
    ph_lua_tostring(lua);
    const char *text = lua_tolstring(lua, -1, &length);
    write_line(lua, level, text, length);
    return 0;
}

static int
log_error(lua_State *lua)
{
    return log_at(lua, PH_LOG_ERROR);
}

static int
log_warning(lua_State *lua)
{
    return log_at(lua, PH_LOG_WARNING);
}

static int
log_info(lua_State *lua)
{
    return log_at(lua, PH_LOG_INFO);
}

static int
log_debug(lua_State *lua)
{
    return log_at(lua, PH_LOG_DEBUG);
}

void
ph_lua_push_log(lua_State *lua)
{
    lua_createtable(lua, 0, 4);
    ph_lua_set_function(lua, "error", log_error);
    ph_lua_set_function(lua, "warning", log_warning);
    ph_lua_set_function(lua, "info", log_info);
    ph_lua_set_function(lua, "debug", log_debug);
}

/* -- time -------------------------------------------------------------------------------------- */

static int
time_now(lua_State *lua)
{
    lua_pushnumber(lua, (lua_Number)ph_time_now_us() / G_USEC_PER_SEC);
    return 1;
}

static int
time_format(lua_State *lua)
{
    lua_Number seconds = luaL_checknumber(lua, 1);
    g_autoptr(GDateTime) time = NULL;
    if (isfinite(seconds) && fabs(seconds) < 1e12)
        time = g_date_time_new_from_unix_utc((gint64)floor(seconds));
    g_autofree char *text = time != NULL ? g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ") : NULL;
    char copy[40] = "";
    if (text != NULL)
        g_strlcpy(copy, text, sizeof(copy));
    g_clear_pointer(&text, g_free);
    g_clear_pointer(&time, g_date_time_unref);
    luaL_argcheck(lua, copy[0] != '\0', 1, "a time in the years 1 to 9999 expected");
    lua_pushstring(lua, copy);
    return 1;
}

static int
time_parse(lua_State *lua)
{
    const char *text = ph_lua_check_text(lua, 1);
    GTimeZone *utc = g_time_zone_new_utc();
    GDateTime *time = strlen(text) < 64 ? g_date_time_new_from_iso8601(text, utc) : NULL;
    g_time_zone_unref(utc);
    if (time == NULL) {
        lua_pushnil(lua);
        return 1;
    }
    gint64 seconds = g_date_time_to_unix(time);
    int microsecond = g_date_time_get_microsecond(time);
    g_date_time_unref(time);
    if (microsecond == 0)
        lua_pushinteger(lua, seconds);
    else
        lua_pushnumber(lua, (lua_Number)seconds + (lua_Number)microsecond / G_USEC_PER_SEC);
    return 1;
}

void
ph_lua_push_time(lua_State *lua)
{
    lua_createtable(lua, 0, 3);
    ph_lua_set_function(lua, "now", time_now);
    ph_lua_set_function(lua, "format", time_format);
    ph_lua_set_function(lua, "parse", time_parse);
}

/* -- user -------------------------------------------------------------------------------------- */

static void
set_text(lua_State *lua, const char *name, const char *value)
{
    lua_pushstring(lua, value);
    lua_setfield(lua, -2, name);
}

static void
set_integer(lua_State *lua, const char *name, int64_t value)
{
    lua_pushinteger(lua, value);
    lua_setfield(lua, -2, name);
}

static int
push_account(lua_State *lua)
{
    static const char *const states[] = {
        [PH_ACCOUNT_ACTIVE] = "active",
        [PH_ACCOUNT_SUSPENDED] = "suspended",
        [PH_ACCOUNT_CLOSING] = "closing",
        [PH_ACCOUNT_ERASED] = "erased",
    };
    const PhAccount *account = lua_touserdata(lua, 1);
    lua_createtable(lua, 0, 8);
    set_text(lua, "address", account->address);
    set_text(lua, "name", account->display_name);
    set_text(lua, "state", states[account->state]);
    set_integer(lua, "quota_bytes", account->quota_bytes);
    set_integer(lua, "quota_messages", account->quota_messages);
    set_integer(lua, "used_bytes", account->used_bytes);
    set_integer(lua, "used_messages", account->used_messages);
    set_integer(lua, "created", account->created_us / G_USEC_PER_SEC);
    return 1;
}

/* A tenant's scripts see its own accounts only. Nil: there is none. */
static int
user_find(lua_State *lua)
{
    ph_assert_in_job();
    const PhLuaCall *call = ph_lua_call_outside(lua, "posthouse.user");
    const char *address = ph_lua_check_text(lua, 1);
    GError *error = NULL;
    PhAccount *account = ph_account_find_blocking(address, call->deadline_us, &error);
    if (account == NULL) {
        PhError code = ph_error_code(error);
        if (code != PH_ERROR_NOT_FOUND && code != PH_ERROR_SYNTAX)
            return ph_lua_raise_error(lua, error);
        g_error_free(error);
        lua_pushnil(lua);
        return 1;
    }
    if (call->tenant_id != PH_SCRIPT_CORE && account->tenant_id != call->tenant_id) {
        ph_account_free(account);
        lua_pushnil(lua);
        return 1;
    }
    lua_pushcfunction(lua, push_account);
    lua_pushlightuserdata(lua, account);
    int status = lua_pcall(lua, 1, 1, 0);
    ph_account_free(account);
    return status == LUA_OK ? 1 : lua_error(lua);
}

void
ph_lua_push_user(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    ph_lua_set_function(lua, "find", user_find);
}

/* -- posthouse --------------------------------------------------------------------------------- */

void
ph_lua_push_posthouse(lua_State *lua)
{
    static const struct {
        const char *name;
        const char *whole;
        void (*push)(lua_State *lua);
    } modules[] = {
        { "log", "posthouse.log", ph_lua_push_log },
        { "json", "posthouse.json", ph_lua_push_json },
        { "time", "posthouse.time", ph_lua_push_time },
        { "db", "posthouse.db", ph_lua_push_db },
        { "user", "posthouse.user", ph_lua_push_user },
        { "site", "posthouse.site", ph_lua_push_site },
    };
    lua_createtable(lua, 0, (int)G_N_ELEMENTS(modules));
    for (size_t i = 0; i < G_N_ELEMENTS(modules); i++) {
        modules[i].push(lua);
        ph_lua_make_readonly(lua, modules[i].whole);
        lua_setfield(lua, -2, modules[i].name);
    }
}
