/* sandbox.h - what a script finds in its globals, and what it does not
 *
 * Shape:    the base functions without those that reach outside; string, table, math, utf8,
 *           coroutine, os (only date and time) and posthouse, all read-only; answers of hooks
 *           (accept, reject ...). Loops in C end with the call; see watch.h.
 * Threads:  as the state.
 * Limits:   patterns have a budget of steps, load takes text up to 64 KiB.
 */
#pragma once

#include "lua/state.h"

/* Fills a new state. Raises Lua errors (out of memory). */
void ph_lua_sandbox_open(lua_State *lua);
/* A new table whose fields are read through to the sandbox's globals; pushed. */
void ph_lua_push_globals(lua_State *lua);
/* Takes the table on the top of the stack, leaves a read-only view of it. */
void ph_lua_make_readonly(lua_State *lua, const char *name);

/* -- parts, each pushing its table (string.c, table.c, coroutine.c, modules) -------------------- */

void ph_lua_push_string_library(lua_State *lua);
void ph_lua_push_table_library(lua_State *lua);
void ph_lua_push_coroutine_library(lua_State *lua);
void ph_lua_push_posthouse(lua_State *lua);
void ph_lua_push_json(lua_State *lua);
void ph_lua_push_time(lua_State *lua);
void ph_lua_push_log(lua_State *lua);
void ph_lua_push_db(lua_State *lua);
void ph_lua_push_user(lua_State *lua);
void ph_lua_push_site(lua_State *lua);
/* May a page read and send this file of its site? No page, no name that begins with a dot. */
bool ph_lua_is_site_file(const char *path);
/* accept, reject ... into the table on the top. */
void ph_lua_add_answers(lua_State *lua);
/* What print() writes. */
void ph_lua_print(lua_State *lua, const char *text, size_t length);

/* -- helpers ------------------------------------------------------------------------------------ */

/* A string argument as text without NUL, or an error that says so. */
const char *ph_lua_check_text(lua_State *lua, int argument);
/* Sets the table's field at the top of the stack to a function. */
void ph_lua_set_function(lua_State *lua, const char *name, lua_CFunction func);
/* tostring() without addresses. */
int ph_lua_tostring(lua_State *lua);
/* posthouse.json's */
int ph_lua_json_encode(lua_State *lua);
int ph_lua_json_decode(lua_State *lua);
/* table.sort() */
int ph_lua_sort(lua_State *lua);
/* What a call holds of its database goes back; what a test changed is rolled back. */
PH_IN_JOB void ph_lua_db_end(PhLuaCall *call);
/* Raises the error's message and frees it. */
int ph_lua_raise_error(lua_State *lua, GError *error);
