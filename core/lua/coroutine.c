/* coroutine.c - coroutines that the watchdog knows of
 *
 * A late call is ended by a hook on the Lua thread that runs. Resuming and closing therefore tell
 * which thread that is, and raise the time limit again when the coroutine has ended with it.
 */
#include "lua/sandbox.h"
#include "lua/watch.h"

#include <lualib.h>

enum { CLOSE_STACK_BYTES = 1024 * 1024 }; /* a thread's 200 calls in C need up to twice as much */

static lua_State *
check_thread(lua_State *lua, int argument)
{
    lua_State *thread = lua_tothread(lua, argument);
    luaL_argexpected(lua, thread != NULL, argument, "coroutine");
    return thread;
}

/* The number of results (on the stack of `lua`), or -1 with the error there. */
static int
resume(lua_State *lua, lua_State *thread, int n_arguments)
{
    int n_results = 0;
    if (!lua_checkstack(thread, n_arguments)) {
        lua_pushliteral(lua, "too many arguments to resume");
        return -1;
    }
    lua_xmove(lua, thread, n_arguments);
    lua_State *before = ph_lua_watch_switch(thread);
    int status = lua_resume(thread, lua, n_arguments, &n_results);
    ph_lua_watch_switch(before);
    ph_lua_tick(lua);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(thread, lua, 1);
        return -1;
    }
    if (!lua_checkstack(lua, n_results + 1)) {
        lua_settop(thread, -n_results - 1);
        lua_pushliteral(lua, "too many results to resume");
        return -1;
    }
    lua_xmove(thread, lua, n_results);
    return n_results;
}

static int
coroutine_resume(lua_State *lua)
{
    lua_State *thread = check_thread(lua, 1);
    int n = resume(lua, thread, lua_gettop(lua) - 1);
    lua_pushboolean(lua, n >= 0);
    if (n < 0)
        n = 1;
    lua_insert(lua, -(n + 1));
    return n + 1;
}

/* Lua counts the calls in C of each of its threads by itself, and closing one within another begins
 * anew: a chain of coroutines that close each other would leave the C stack. */
static void
check_stack(lua_State *lua)
{
    const char *here = __builtin_frame_address(0);
    if (ph_lua_state_of(lua)->stack_start - here > CLOSE_STACK_BYTES)
        luaL_error(lua, "C stack overflow");
}

/* The status of the thread's end: LUA_OK or an error, which is on the stack of `thread`. */
static int
close_thread(lua_State *lua, lua_State *thread)
{
    check_stack(lua);
    lua_State *before = ph_lua_watch_switch(thread);
    int status = lua_resetthread(thread);
    ph_lua_watch_switch(before);
    ph_lua_tick(lua);
    return status;
}

static int
wrapped(lua_State *lua)
{
    lua_State *thread = lua_tothread(lua, lua_upvalueindex(1));
    int n = resume(lua, thread, lua_gettop(lua));
    if (n >= 0)
        return n;
    /* What it still had to close is closed; the error that ended it is the one to tell. */
    int status = lua_status(thread);
    if (status != LUA_OK && status != LUA_YIELD) {
        close_thread(lua, thread);
        lua_settop(thread, 0);
    }
    return lua_error(lua);
}

static int
coroutine_create(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TFUNCTION);
    lua_State *thread = lua_newthread(lua);
    lua_pushvalue(lua, 1);
    lua_xmove(lua, thread, 1);
    return 1;
}

static int
coroutine_wrap(lua_State *lua)
{
    coroutine_create(lua);
    lua_pushcclosure(lua, wrapped, 1);
    return 1;
}

static bool
is_suspended(lua_State *lua, lua_State *thread)
{
    lua_Debug where;
    if (lua == thread)
        return false;
    if (lua_status(thread) == LUA_YIELD)
        return true;
    return lua_status(thread) == LUA_OK && lua_getstack(thread, 0, &where) == 0;
}

static int
coroutine_close(lua_State *lua)
{
    lua_State *thread = check_thread(lua, 1);
    int status = lua_status(thread);
    bool is_dead = status != LUA_OK && status != LUA_YIELD;
    if (!is_dead && !is_suspended(lua, thread))
        return luaL_error(lua, "cannot close a coroutine that runs");
    if (close_thread(lua, thread) == LUA_OK) {
        lua_pushboolean(lua, 1);
        return 1;
    }
    lua_pushboolean(lua, 0);
    lua_xmove(thread, lua, 1);
    return 2;
}

void
ph_lua_push_coroutine_library(lua_State *lua)
{
    lua_pushcfunction(lua, luaopen_coroutine);
    lua_call(lua, 0, 1);
    lua_createtable(lua, 0, 8);
    static const char *const kept[] = { "isyieldable", "running", "status", "yield" };
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++) {
        lua_getfield(lua, -2, kept[i]);
        lua_setfield(lua, -2, kept[i]);
    }
    lua_remove(lua, -2);
    ph_lua_set_function(lua, "create", coroutine_create);
    ph_lua_set_function(lua, "wrap", coroutine_wrap);
    ph_lua_set_function(lua, "resume", coroutine_resume);
    ph_lua_set_function(lua, "close", coroutine_close);
}
