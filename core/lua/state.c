/* state.c - making states, counting their memory, running calls in them */
#include "lua/state.h"

#include "lua/sandbox.h"
#include "lua/watch.h"

#include <stdlib.h>
#include <string.h>

/* -- memory ------------------------------------------------------------------------------------ */

/* A state takes from the budget by the chunk, so that most allocations touch only its own count. */
enum { CHUNK_BYTES = 64 * 1024 };

static bool
reserve(PhLuaState *state, size_t wanted)
{
    size_t more = (wanted - state->reserved + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    size_t before = __atomic_fetch_add(&state->budget->taken, more, __ATOMIC_RELAXED);
    if (before + more > ph_lua_budget_limit(state->budget)) {
        __atomic_fetch_sub(&state->budget->taken, more, __ATOMIC_RELAXED);
        return false;
    }
    state->reserved += more;
    return true;
}

static void
give_back(PhLuaState *state)
{
    size_t keep = (state->used + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES + CHUNK_BYTES;
    if (keep >= state->reserved)
        return;
    __atomic_fetch_sub(&state->budget->taken, state->reserved - keep, __ATOMIC_RELAXED);
    state->reserved = keep;
}

static void *
allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    PhLuaState *state = data;
    if (block == NULL)
        old_size = 0; /* then it is a type, not a size */
    if (new_size == 0) {
        free(block);
        state->used -= old_size;
        if (state->reserved - state->used > 4 * (size_t)CHUNK_BYTES)
            give_back(state);
        return NULL;
    }
    size_t used = state->used - old_size + new_size;
    if (used > state->reserved && !reserve(state, used))
        return NULL;
    void *moved = realloc(block, new_size);
    if (moved != NULL)
        state->used = used;
    return moved;
}

/* -- states ------------------------------------------------------------------------------------ */

static int
open_sandbox(lua_State *lua)
{
    ph_lua_sandbox_open(lua);
    return 0;
}

PhLuaState *
ph_lua_state_new(PhLuaBudget *budget, GError **error)
{
    g_autoptr(PhLuaState) state = g_new0(PhLuaState, 1);
    state->budget = budget;
    state->made_us = ph_monotonic_us();
    state->lua = lua_newstate(allocate, state);
    if (state->lua == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "no memory is left for scripts");
        return NULL;
    }
    *(PhLuaState **)lua_getextraspace(state->lua) = state;
    lua_pushcfunction(state->lua, open_sandbox);
    if (lua_pcall(state->lua, 0, 0, 0) != LUA_OK) {
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "no memory is left for scripts");
        return NULL;
    }
    return g_steal_pointer(&state);
}

void
ph_lua_state_free(PhLuaState *state)
{
    if (state == NULL)
        return;
    if (state->lua != NULL)
        lua_close(state->lua);
    g_clear_pointer(&state->scripts, g_hash_table_unref);
    g_clear_pointer(&state->pages, g_hash_table_unref);
    __atomic_fetch_sub(&state->budget->taken, state->reserved, __ATOMIC_RELAXED);
    g_free(state);
}

PhLuaCall *
ph_lua_call_of(lua_State *lua)
{
    PhLuaCall *call = ph_lua_state_of(lua)->call;
    if (call == NULL)
        luaL_error(lua, "there is no call under way");
    return call;
}

PhLuaCall *
ph_lua_call_outside(lua_State *lua, const char *what)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    if (call->is_loading)
        luaL_error(lua, "%s is not there while a script is loaded: use it in a handler", what);
    return call;
}

/* -- errors ------------------------------------------------------------------------------------ */

/* "name:12: text": the number. */
static int
line_of_message(const char *name, const char *message)
{
    size_t length = strlen(name);
    if (strncmp(message, name, length) != 0 || message[length] != ':')
        return 0;
    return (int)MIN(g_ascii_strtoull(message + length + 1, NULL, 10), INT32_MAX);
}

/* The line of the innermost function of a script. */
static int
line_of_stack(lua_State *lua)
{
    lua_Debug where;
    for (int level = 1; level < 50 && lua_getstack(lua, level, &where) == 1; level++)
        if (lua_getinfo(lua, "Sl", &where) != 0 && where.what[0] != 'C' && where.currentline > 0)
            return where.currentline;
    return 0;
}

/* Keeps the place, and makes text of what was raised, before the stack is gone. */
static int
on_error(lua_State *lua)
{
    PhLuaCall *call = ph_lua_state_of(lua)->call;
    const char *text = lua_tostring(lua, 1);
    if (call != NULL) {
        call->line = text != NULL ? line_of_message(call->script, text) : 0;
        if (call->line == 0)
            call->line = line_of_stack(lua);
    }
    if (text == NULL)
        lua_pushfstring(lua, "an error that is no text (a %s)", luaL_typename(lua, 1));
    return 1;
}

/* Takes the error from the stack. */
static void
set_error(lua_State *lua, const PhLuaCall *call, int status, bool is_over, GError **error)
{
    PhError code = PH_ERROR_INTERNAL;
    if (call->is_wrong_words)
        code = PH_ERROR_SYNTAX;
    else if (call->is_too_large)
        code = PH_ERROR_TOO_LARGE;
    size_t length = 0;
    const char *text = status != LUA_ERRMEM ? lua_tolstring(lua, -1, &length) : NULL;
    g_autofree char *shown =
        text != NULL ? g_utf8_make_valid(text, (gssize)MIN(length, 2000)) : NULL;
    if (status == LUA_ERRMEM) {
        code = PH_ERROR_LIMIT;
        shown = g_strdup_printf("%s: the memory limit is reached", call->script);
    } else if (is_over) {
        code = PH_ERROR_TEMPORARY;
    }
    g_set_error_literal(
        error, PH_ERROR, (int)code, shown != NULL ? shown : "an error without a text");
}

/* -- calls ------------------------------------------------------------------------------------- */

void
ph_lua_push_chunk(lua_State *lua, const char *name, const char *text, size_t length)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    char chunk[256];
    g_snprintf(chunk, sizeof(chunk), "=%s", name);
    if (luaL_loadbufferx(lua, text, length, chunk, "t") != LUA_OK) {
        call->is_wrong_words = true;
        lua_error(lua);
    }
    ph_lua_push_globals(lua);
    lua_setupvalue(lua, -2, 1);
}

bool
ph_lua_state_run(PhLuaState *state, PhLuaCall *call, lua_CFunction func, void *data, GError **error)
{
    /* On an empty stack there is room for these (LUA_MINSTACK), and pushing them allocates
     * nothing. */
    lua_State *lua = state->lua;
    g_assert(lua_gettop(lua) == 0);
    lua_pushcfunction(lua, on_error);
    lua_pushcfunction(lua, func);
    lua_pushlightuserdata(lua, data);
    call->line = 0;
    state->call = call;
    state->stack_start = __builtin_frame_address(0);
    state->uses++;
    ph_lua_watch_begin(lua, call->deadline_us, call->cpu_us);
    int status = lua_pcall(lua, 1, 0, 1);
    bool is_over = ph_lua_watch_end();
    ph_lua_db_end(call);
    if (call->scratch != NULL)
        g_string_free(g_steal_pointer(&call->scratch), TRUE);
    state->call = NULL;
    /* A script that hides the error of its time limit has not made it in time. */
    if (is_over || status == LUA_ERRMEM)
        state->is_spoiled = true;
    if (status != LUA_OK)
        set_error(lua, call, status, is_over, error);
    else if (is_over)
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "%s: " PH_LUA_OVER_TEXT, call->script);
    lua_settop(lua, 0);
    return status == LUA_OK && !is_over;
}
