/* load.c - from a script's text to its handlers, in one state */
#include "lua/sandbox.h"
#include "lua/scripts.h"

#include <string.h>

bool
ph_lua_is_template(const char *name)
{
    return g_str_has_suffix(name, ".lp");
}

/* -- what the top level gives ------------------------------------------------------------------ */

static void
check_entry(lua_State *lua, const char *name)
{
    if (lua_type(lua, -2) != LUA_TSTRING) {
        luaL_error(lua, "%s: the table at its end has names of hooks only", name);
        return;
    }
    const char *key = lua_tostring(lua, -2);
    bool is_tests = strcmp(key, "tests") == 0;
    if (!is_tests && ph_lua_hook_find(key) < 0)
        luaL_error(lua, "%s: there is no hook \"%s\"", name, key);
    int wanted = is_tests ? LUA_TTABLE : LUA_TFUNCTION;
    if (lua_type(lua, -1) != wanted)
        luaL_error(lua, "%s: \"%s\" is a %s, not a %s", name, key, luaL_typename(lua, -1),
            lua_typename(lua, wanted));
}

/* The chunk and what it gave are on the top; the latter is made a table of hooks. */
static void
check_result(lua_State *lua, const char *name)
{
    if (lua_isfunction(lua, -1)) {
        lua_createtable(lua, 0, 1);
        lua_insert(lua, -2);
        lua_setfield(lua, -2, "http.content");
        return;
    }
    if (!lua_istable(lua, -1))
        luaL_error(
            lua, "%s: gives no table of hooks at its end: return { [\"smtp.rcpt\"] = ... }", name);
    int table = lua_gettop(lua);
    for (lua_pushnil(lua); lua_next(lua, table) != 0; lua_settop(lua, table + 1))
        check_entry(lua, name);
}

void
ph_lua_load_script(lua_State *lua, const char *name, const char *text, size_t length)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    if (length > PH_LUA_TEXT_MAX_BYTES)
        luaL_error(lua, "%s: a script has at most 256 KiB", name);
    if (ph_lua_is_template(name)) {
        ph_lua_push_template(lua, name, text, length);
        lua_pushvalue(lua, -1);
        check_result(lua, name);
        return;
    }
    ph_lua_push_chunk(lua, name, text, length);
    lua_pushvalue(lua, -1);
    call->is_loading = true;
    lua_call(lua, 0, 1);
    call->is_loading = false;
    check_result(lua, name);
}

/* -- globals of a call ------------------------------------------------------------------------- */

/* Those of the last call are taken again when it left nothing in them. */
void
ph_lua_loaded_refresh(lua_State *lua, const PhLuaLoaded *loaded)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, loaded->chunk);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, loaded->globals);
    lua_pushnil(lua);
    if (lua_next(lua, -2) != 0) {
        lua_settop(lua, -4);
        lua_newtable(lua);
        lua_rawgeti(lua, LUA_REGISTRYINDEX, loaded->metatable);
        lua_setmetatable(lua, -2);
        lua_pushvalue(lua, -1);
        lua_rawseti(lua, LUA_REGISTRYINDEX, loaded->globals);
    }
    lua_setupvalue(lua, -2, 1);
    lua_settop(lua, -2);
}

/* -- scripts in a state ------------------------------------------------------------------------ */

/* The metatable for fresh globals of the chunk at the top. */
static void
push_globals_metatable(lua_State *lua)
{
    lua_createtable(lua, 0, 2);
    lua_getupvalue(lua, -2, 1);
    lua_setfield(lua, -2, "__index");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
}

void
ph_lua_loaded_keep(lua_State *lua, PhLuaLoaded *loaded)
{
    for (int i = 0; i < PH_LUA_N_HOOKS; i++) {
        lua_getfield(lua, -1, ph_lua_hooks[i].name);
        loaded->handlers[i] = luaL_ref(lua, LUA_REGISTRYINDEX); /* LUA_REFNIL for nil */
    }
    lua_settop(lua, -2);
    push_globals_metatable(lua);
    loaded->metatable = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_newtable(lua);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, loaded->metatable);
    lua_setmetatable(lua, -2);
    loaded->globals = luaL_ref(lua, LUA_REGISTRYINDEX);
    loaded->chunk = luaL_ref(lua, LUA_REGISTRYINDEX);
}

void
ph_lua_loaded_forget(lua_State *lua, const PhLuaLoaded *loaded)
{
    for (int i = 0; i < PH_LUA_N_HOOKS; i++)
        luaL_unref(lua, LUA_REGISTRYINDEX, loaded->handlers[i]);
    luaL_unref(lua, LUA_REGISTRYINDEX, loaded->metatable);
    luaL_unref(lua, LUA_REGISTRYINDEX, loaded->globals);
    luaL_unref(lua, LUA_REGISTRYINDEX, loaded->chunk);
}

/* A state in which loading failed half-way is not used again. */
static const PhLuaLoaded *
load(lua_State *lua, const PhLuaKept *kept)
{
    PhLuaState *state = ph_lua_state_of(lua);
    bool was_spoiled = state->is_spoiled;
    state->is_spoiled = true;
    PhLuaLoaded loaded = { .version = kept->version };
    ph_lua_load_script(lua, kept->name, kept->text, kept->length);
    ph_lua_loaded_keep(lua, &loaded);
    if (state->scripts == NULL)
        state->scripts = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    const PhLuaLoaded *old = g_hash_table_lookup(state->scripts, &kept->id);
    if (old != NULL)
        ph_lua_loaded_forget(lua, old);
    PhLuaLoaded *entry = g_memdup2(&loaded, sizeof(loaded));
    g_hash_table_replace(state->scripts, g_memdup2(&kept->id, sizeof(kept->id)), entry);
    state->is_spoiled = was_spoiled;
    return entry;
}

void
ph_lua_push_handler(lua_State *lua, const PhLuaKept *kept, PhLuaHook hook)
{
    PhLuaState *state = ph_lua_state_of(lua);
    const PhLuaLoaded *loaded =
        state->scripts != NULL ? g_hash_table_lookup(state->scripts, &kept->id) : NULL;
    if (loaded == NULL || loaded->version != kept->version)
        loaded = load(lua, kept);
    ph_lua_loaded_refresh(lua, loaded);
    if (lua_rawgeti(lua, LUA_REGISTRYINDEX, loaded->handlers[hook]) == LUA_TNIL)
        luaL_error(lua, "%s: takes no \"%s\"", kept->name, ph_lua_hooks[hook].name);
}
