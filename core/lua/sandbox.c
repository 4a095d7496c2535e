/* sandbox.c - globals of scripts
 *
 * A library is shown as a userdata whose fields are read through a metatable that nobody can get
 * at: rawset and table.insert have no hold on it, and "for k in pairs(string)" works without giving
 * out the table behind. Functions of Lua's own library are taken where nothing is known against
 * them; the others are written anew:
 *
 *   xpcall        its handler would run where no hook reaches: here after the unwinding
 *   setmetatable  __gc would run outside of any call, __mode 'k' makes collecting slow
 *   load          text only, and not much of it
 *   tostring      would tell where things are in memory
 *   collectgarbage  only "count"
 *   coroutine.*   must tell the watchdog which thread runs (coroutine.c)
 *   string.*      matching with a budget (pattern.c), rep that does not spin (string.c)
 *   table.*       loops that end, never through metamethods (table.c)
 */
#include "lua/sandbox.h"

#include "lua/watch.h"

#include <lualib.h>
#include <string.h>

enum { LOAD_MAX_BYTES = 64 * 1024 };

static const char globals_key = 'g';

/* -- helpers ----------------------------------------------------------------------------------- */

void
ph_lua_set_function(lua_State *lua, const char *name, lua_CFunction func)
{
    lua_pushcfunction(lua, func);
    lua_setfield(lua, -2, name);
}

const char *
ph_lua_check_text(lua_State *lua, int argument)
{
    size_t length;
    const char *text = luaL_checklstring(lua, argument, &length);
    luaL_argcheck(lua, memchr(text, '\0', length) == NULL, argument, "text without NUL expected");
    return text;
}

int
ph_lua_raise_error(lua_State *lua, GError *error)
{
    luaL_where(lua, 1);
    lua_pushstring(lua, error->message);
    g_error_free(error);
    lua_concat(lua, 2);
    return lua_error(lua);
}

/* -- read-only views --------------------------------------------------------------------------- */

static int
refuse_write(lua_State *lua)
{
    return luaL_error(lua, "\"%s\" is read-only", lua_tostring(lua, lua_upvalueindex(1)));
}

static int
next_field(lua_State *lua)
{
    lua_settop(lua, 2);
    if (lua_next(lua, lua_upvalueindex(1)) != 0)
        return 2;
    lua_pushnil(lua);
    return 1;
}

static int
view_pairs(lua_State *lua)
{
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushcclosure(lua, next_field, 1);
    lua_pushvalue(lua, 1);
    lua_pushnil(lua);
    return 3;
}

void
ph_lua_make_readonly(lua_State *lua, const char *name)
{
    lua_newuserdatauv(lua, 0, 0);
    lua_createtable(lua, 0, 5);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushstring(lua, name);
    lua_pushcclosure(lua, refuse_write, 1);
    lua_setfield(lua, -2, "__newindex");
    lua_pushvalue(lua, -3);
    lua_pushcclosure(lua, view_pairs, 1);
    lua_setfield(lua, -2, "__pairs");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_pushstring(lua, name);
    lua_setfield(lua, -2, "__name");
    lua_setmetatable(lua, -2);
    lua_remove(lua, -2);
}

/* -- base functions ---------------------------------------------------------------------------- */

/* The handler runs when the stack of the error is gone, where it can be stopped like all else. */
static int
base_xpcall(lua_State *lua)
{
    luaL_checkany(lua, 1);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    int n = lua_gettop(lua);
    lua_pushboolean(lua, 1);
    lua_pushvalue(lua, 1);
    for (int i = 3; i <= n; i++)
        lua_pushvalue(lua, i);
    if (lua_pcall(lua, n - 2, LUA_MULTRET, 0) == LUA_OK)
        return lua_gettop(lua) - n;
    ph_lua_tick(lua);
    lua_pushvalue(lua, 2);
    lua_insert(lua, -2);
    bool good = lua_pcall(lua, 1, 1, 0) == LUA_OK;
    (void)good;
    ph_lua_tick(lua);
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

static int
base_setmetatable(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_argexpected(lua, lua_istable(lua, 2) || lua_isnil(lua, 2), 2, "nil or table");
    if (luaL_getmetafield(lua, 1, "__metatable") != LUA_TNIL)
        return luaL_error(lua, "cannot change a protected metatable");
    if (lua_istable(lua, 2)) {
        lua_pushliteral(lua, "__gc");
        if (lua_rawget(lua, 2) != LUA_TNIL)
            return luaL_error(lua, "\"__gc\" is not offered");
        lua_pushliteral(lua, "__mode");
        if (lua_rawget(lua, 2) != LUA_TNIL)
            return luaL_error(lua, "\"__mode\" is not offered");
    }
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

/* load(text [, name [, mode [, env]]]) */
static int
base_load(lua_State *lua)
{
    size_t length;
    const char *text = luaL_checklstring(lua, 1, &length);
    const char *name = luaL_optstring(lua, 2, "load");
    const char *mode = luaL_optstring(lua, 3, "t");
    bool has_env = !lua_isnone(lua, 4);
    luaL_argcheck(lua, strchr(mode, 't') != NULL, 3, "only text is loaded");
    luaL_argcheck(lua, length <= LOAD_MAX_BYTES, 1, "more than 64 KiB are not loaded");
    if (has_env)
        luaL_checktype(lua, 4, LUA_TTABLE);
    char chunk[PH_LUA_NAME_BYTES];
    g_snprintf(chunk, sizeof(chunk), "=%s", name);
    if (luaL_loadbufferx(lua, text, length, chunk, "t") != LUA_OK) {
        lua_pushnil(lua);
        lua_insert(lua, -2);
        return 2;
    }
    if (has_env)
        lua_pushvalue(lua, 4);
    else
        ph_lua_push_globals(lua);
    lua_setupvalue(lua, -2, 1);
    return 1;
}

/* What has no text of its own is only named: an address would tell where things are. */
int
ph_lua_tostring(lua_State *lua)
{
    luaL_checkany(lua, 1);
    int type = lua_type(lua, 1);
    bool has_text =
        type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
    if (!has_text && luaL_getmetafield(lua, 1, "__tostring") == LUA_TNIL) {
        if (luaL_getmetafield(lua, 1, "__name") != LUA_TSTRING)
            lua_pushstring(lua, luaL_typename(lua, 1));
        return 1;
    }
    lua_settop(lua, 1);
    luaL_tolstring(lua, 1, NULL);
    return 1;
}

static int
base_print(lua_State *lua)
{
    int n = lua_gettop(lua);
    luaL_Buffer text;
    luaL_buffinit(lua, &text);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&text, '\t');
        lua_pushcfunction(lua, ph_lua_tostring);
        lua_pushvalue(lua, i);
        lua_call(lua, 1, 1);
        luaL_addvalue(&text);
    }
    luaL_pushresult(&text);
    size_t length;
    const char *bytes = lua_tolstring(lua, -1, &length);
    ph_lua_print(lua, bytes, length);
    return 0;
}

static int
base_collectgarbage(lua_State *lua)
{
    const char *what = luaL_optstring(lua, 1, "count");
    if (strcmp(what, "count") != 0)
        return luaL_error(lua, "collectgarbage offers \"count\" only");
    lua_pushnumber(lua, (lua_Number)ph_lua_state_of(lua)->used / 1024);
    return 1;
}

static int
base_require(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 1);
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &globals_key);
    lua_getfield(lua, -1, "posthouse");
    if (strcmp(name, "posthouse") == 0)
        return 1;
    if (g_str_has_prefix(name, "posthouse.")) {
        lua_getfield(lua, -1, name + strlen("posthouse."));
        if (!lua_isnil(lua, -1))
            return 1;
    }
    return luaL_error(lua, "there is no module \"%s\"", name);
}

/* -- the tables -------------------------------------------------------------------------------- */

/* Copies the named functions from the library on the top of the stack into a new table, which takes
 * its place. */
static void
keep_only(lua_State *lua, const char *const *names)
{
    lua_newtable(lua);
    for (; *names != NULL; names++) {
        lua_getfield(lua, -2, *names);
        lua_setfield(lua, -2, *names);
    }
    lua_remove(lua, -2);
}

static void
push_library(lua_State *lua, lua_CFunction open, const char *const *names)
{
    lua_pushcfunction(lua, open);
    lua_call(lua, 0, 1);
    keep_only(lua, names);
}

static void
add_base(lua_State *lua)
{
    static const char *const kept[] = { "assert", "error", "getmetatable", "ipairs", "next",
        "pairs", "pcall", "rawequal", "rawget", "rawlen", "rawset", "select", "tonumber", "type",
        "_VERSION", NULL };
    lua_pushcfunction(lua, luaopen_base);
    lua_call(lua, 0, 1);
    keep_only(lua, kept);
    ph_lua_set_function(lua, "xpcall", base_xpcall);
    ph_lua_set_function(lua, "setmetatable", base_setmetatable);
    ph_lua_set_function(lua, "load", base_load);
    ph_lua_set_function(lua, "tostring", ph_lua_tostring);
    ph_lua_set_function(lua, "print", base_print);
    ph_lua_set_function(lua, "collectgarbage", base_collectgarbage);
    ph_lua_set_function(lua, "require", base_require);
}

static void
add_readonly(lua_State *lua, const char *name)
{
    ph_lua_make_readonly(lua, name);
    lua_setfield(lua, -2, name);
}

void
ph_lua_sandbox_open(lua_State *lua)
{
    static const char *const math[] = { "abs", "acos", "asin", "atan", "ceil", "cos", "deg", "exp",
        "floor", "fmod", "huge", "log", "max", "maxinteger", "min", "mininteger", "modf", "pi",
        "rad", "random", "randomseed", "sin", "sqrt", "tan", "tointeger", "type", "ult", NULL };
    static const char *const utf8[] = { "char", "charpattern", "codepoint", "codes", "len",
        "offset", NULL };
    static const char *const os[] = { "date", "difftime", "time", NULL };
    add_base(lua);
    push_library(lua, luaopen_math, math);
    add_readonly(lua, "math");
    push_library(lua, luaopen_utf8, utf8);
    add_readonly(lua, "utf8");
    push_library(lua, luaopen_os, os);
    add_readonly(lua, "os");
    ph_lua_push_string_library(lua);
    add_readonly(lua, "string");
    ph_lua_push_table_library(lua);
    add_readonly(lua, "table");
    ph_lua_push_coroutine_library(lua);
    add_readonly(lua, "coroutine");
    ph_lua_push_posthouse(lua);
    add_readonly(lua, "posthouse");
    ph_lua_add_answers(lua);

    /* The metatable of all tables of globals. */
    lua_createtable(lua, 0, 2);
    lua_pushvalue(lua, -2);
    lua_setfield(lua, -2, "__index");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_setfield(lua, LUA_REGISTRYINDEX, "posthouse.globals");
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &globals_key);
    /* What luaopen_base left in the state's own globals is not reached by anyone; drop it. */
    lua_newtable(lua);
    lua_rawseti(lua, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}

void
ph_lua_push_globals(lua_State *lua)
{
    lua_newtable(lua);
    lua_getfield(lua, LUA_REGISTRYINDEX, "posthouse.globals");
    lua_setmetatable(lua, -2);
}
