/* hooks.h - the points that scripts can take, and what goes in and out
 *
 * Shape:    a row for each hook with the fields of its context; one place for engine, tests,
 *           checks and the reference.
 * Threads:  anywhere.
 */
#pragma once

#include "lua/state.h"

typedef enum PhLuaHook {
    PH_LUA_HOOK_MAIL,
    PH_LUA_HOOK_RCPT,
    PH_LUA_HOOK_DELIVER,
    PH_LUA_HOOK_ACCESS,
    PH_LUA_HOOK_CONTENT,
    PH_LUA_N_HOOKS,
} PhLuaHook;

typedef struct PhLuaHookRow {
    const char *name;
    unsigned answers; /* 1 << PhDecisionKind, or-ed */
    int reject_min;   /* codes of reject() */
    int reject_max;
} PhLuaHookRow;

extern const PhLuaHookRow ph_lua_hooks[PH_LUA_N_HOOKS];

/* -1: there is none. */
int ph_lua_hook_find(const char *name);

/* The context of the hook under way: pushed; one a state. */
void ph_lua_push_context(lua_State *lua);
/* What the handler answered, at the top of the stack. Raises an error for what is no answer of that
 * hook. */
void ph_lua_read_answer(lua_State *lua, PhLuaHook hook, PhDecision *decision_out);
/* A plain table that says the same, for tests; nil for no opinion. */
void ph_lua_push_decision(lua_State *lua, const PhDecision *decision);

/* Fields from the table on the top of the stack, "peer.ip" for a table in a table. Free with
 * ph_lua_fields_free(). Errors of Lua may pass through: `fields` is to be freed by who called. */
typedef struct PhLuaFields {
    GArray *fields; /* PhHookField */
    GPtrArray *texts;
} PhLuaFields;

void ph_lua_fields_init(PhLuaFields *fields);
void ph_lua_fields_clear(PhLuaFields *fields);
void ph_lua_fields_read(lua_State *lua, PhLuaFields *fields);
/* One line of JSON, without what is nobody's business: headers and bodies are left out. Free it. */
char *ph_lua_fields_describe(const PhHookField *fields, size_t n_fields);
const char *ph_lua_field(const PhHookField *fields, size_t n_fields, const char *name);
