/* state.h - a Lua state with its limits, and one protected call into it
 *
 * Shape:    a state is made with the sandbox in it, counts its memory on a budget that it shares
 *           with the other states of its zone, and runs one call at a time.
 * Units:    bytes, microseconds; deadlines of the monotonic clock.
 * Threads:  a state belongs to one thread at a time; a budget is shared.
 * Errors:   SYNTAX (it does not compile), INTERNAL (the script failed), TEMPORARY (its time is over),
 *           LIMIT (out of memory). The text begins with "NAME:LINE: " where the place is known.
 */
#pragma once

#include "posthouse/hook.h"
#include "posthouse/lua-page.h"
#include "store/script.h"

#include <lauxlib.h>
#include <lua.h>

/* Memory of a zone. */
typedef struct PhLuaBudget {
    size_t limit;
    size_t taken;
} PhLuaBudget;

/* The setting may change it at any time. */
static inline size_t
ph_lua_budget_limit(const PhLuaBudget *budget)
{
    return __atomic_load_n(&budget->limit, __ATOMIC_RELAXED);
}

enum {
    PH_LUA_NAME_BYTES = 100,
    PH_LUA_TEXT_MAX_BYTES = 256 * 1024, /* of a script */
    PH_LUA_JSON_DEPTH = 64,
};

typedef struct PhLuaState PhLuaState;

/* What a script may see and do in one call. */
typedef struct PhLuaCall {
    const char *script; /* its name, for logs */
    int64_t tenant_id;  /* PH_SCRIPT_CORE: the core's own scripts */
    int64_t deadline_us;
    int64_t cpu_us;   /* 0: no limit of its own */
    bool is_loading;  /* the top level runs: nothing outside can be reached */
    bool is_test;     /* what it does to its tables is taken back */
    GString *printed; /* print() and log go here; null: to the log */
    unsigned n_logged;
    const PhHookField *fields; /* of a hook */
    size_t n_fields;
    const PhPageRequest *request; /* of a page */
    PhPageResponse *response;
    GByteArray *out;
    size_t out_max_bytes;
    unsigned n_included; /* templates within templates, now */
    bool is_too_large;   /* what it wrote */
    GString *scratch;    /* of C functions that may be left by an error; or null */
    int line;            /* where it failed; 0: not known */
    bool is_wrong_words; /* it could not be compiled */
    /* posthouse.db: the connection of this call, taken at its first use. */
    PhScriptDb *db;
    unsigned db_depth; /* of transactions within transactions */
} PhLuaCall;

struct PhLuaState {
    lua_State *lua;
    PhLuaBudget *budget;
    size_t used;
    size_t reserved;         /* on the budget */
    PhLuaCall *call;         /* under way, or null */
    const char *stack_start; /* where on the C stack the call began */
    bool is_spoiled;         /* a limit was hit: close it */
    int64_t made_us;
    int64_t used_us; /* when it was given back */
    unsigned uses;
    GHashTable *scripts; /* int64_t id -> what scripts.c keeps of a loaded script */
    GHashTable *pages;   /* what page.c keeps of a compiled file */
};

/* Null with LIMIT: the budget is used up. `budget` must outlive it. */
PhLuaState *ph_lua_state_new(PhLuaBudget *budget, GError **error);
void ph_lua_state_free(PhLuaState *state);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhLuaState, ph_lua_state_free)

/* The state that a Lua thread belongs to. */
static inline PhLuaState *
ph_lua_state_of(lua_State *lua)
{
    return *(PhLuaState **)lua_getextraspace(lua);
}

/* The call under way; raises an error when there is none. */
PhLuaCall *ph_lua_call_of(lua_State *lua);
/* The same for functions that reach outside: an error while a script is loaded. */
PhLuaCall *ph_lua_call_outside(lua_State *lua, const char *what);

/* Compiles text (never bytecode) with new globals and leaves the function on the stack; raises an
 * error, and marks the call as one with wrong words, when it cannot. */
void ph_lua_push_chunk(lua_State *lua, const char *name, const char *text, size_t length);
/* Runs `func`, with `data` as its light userdata, within the limits of the call: all that it does
 * with the state may fail. What it returns on the stack is dropped. The call's line is set. */
PH_IN_JOB bool ph_lua_state_run(
    PhLuaState *state, PhLuaCall *call, lua_CFunction func, void *data, GError **error);
