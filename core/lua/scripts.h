/* scripts.h - active scripts, as the files of core/lua see them
 *
 * Threads:  a set and its scripts are counted and shared; counts are atomic.
 */
#pragma once

#include "lua/engine.h"
#include "lua/hooks.h"

/* Settings as of the last sync: looking them up would cost as much as a short call. Atomic. */
typedef struct PhLuaLimits {
    int64_t core_memory_bytes;
    int64_t tenant_memory_bytes;
    int64_t tenant_calls;
    int64_t cpu_us;
    int64_t output_bytes;
} PhLuaLimits;

extern PhLuaLimits ph_lua_limits;

static inline int64_t
ph_lua_limit(const int64_t *limit)
{
    return __atomic_load_n(limit, __ATOMIC_RELAXED);
}

typedef struct PhLuaScript PhLuaScript;
typedef struct PhLuaScripts PhLuaScripts;

PhLuaScripts *ph_lua_scripts_current(void); /* null before the first */
void ph_lua_scripts_unref(PhLuaScripts *scripts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhLuaScripts, ph_lua_scripts_unref)
/* Lives as long as the set; null when it is not active here. */
PhLuaScript *ph_lua_scripts_find(const PhLuaScripts *scripts, const char *name);

int64_t ph_lua_script_zone(const PhLuaScript *script);
const char *ph_lua_script_name(const PhLuaScript *script);
bool ph_lua_script_takes(const PhLuaScript *script, PhLuaHook hook);
/* May a page of this tenant and site be answered by it? */
bool ph_lua_script_is_for_site(const PhLuaScript *script, int64_t tenant_id, int64_t site_id);
/* TEMPORARY while it is set aside; INTERNAL when it cannot be loaded here. */
bool ph_lua_script_may_run(PhLuaScript *script, GError **error);
/* In a call: its handler is pushed, with fresh globals; it is loaded when it was not. */
void ph_lua_script_push_handler(lua_State *lua, const PhLuaScript *script, PhLuaHook hook);
/* Counts; after a failure also logs, keeps the input, and may set the script aside. */
PH_IN_JOB void ph_lua_script_ran_blocking(PhLuaScript *script, PhLuaHook hook,
    const PhLuaCall *call, const char *input, const GError *failure);

/* -- what a script's text makes (load.c) ------------------------------------------------------- */

/* Pushes, of a ".lp", a table with the template as "http.content"; else the table that the top
 * level gives, checked. The chunk, whose first upvalue is the globals, is pushed below it. */
void ph_lua_load_script(lua_State *lua, const char *name, const char *text, size_t length);
/* What a text made in a state: in its registry, by number. */
typedef struct PhLuaLoaded {
    int version;
    int chunk;
    int metatable; /* of fresh globals: they read through to those of the script */
    int globals;   /* the fresh ones of the last call */
    int handlers[PH_LUA_N_HOOKS];
} PhLuaLoaded;

/* Takes what ph_lua_load_script() pushed. */
void ph_lua_loaded_keep(lua_State *lua, PhLuaLoaded *loaded);
void ph_lua_loaded_forget(lua_State *lua, const PhLuaLoaded *loaded);
/* Fresh globals for a call. */
void ph_lua_loaded_refresh(lua_State *lua, const PhLuaLoaded *loaded);

/* A version of a script that a state may keep loaded. */
typedef struct PhLuaKept {
    int64_t id;
    int version;
    const char *name;
    const char *text;
    size_t length;
} PhLuaKept;

/* As ph_lua_check_blocking(), without the tests. */
PH_IN_JOB void ph_lua_probe_blocking(const char *name, const char *text, int64_t zone_tenant,
    int64_t deadline_us, PhLuaReport *report_out);
void ph_lua_push_handler(lua_State *lua, const PhLuaKept *kept, PhLuaHook hook);
bool ph_lua_is_template(const char *name);

/* -- pages (template.c, page.c, request.c, response.c) ------------------------------------------ */

/* From a template to Lua with the same lines. False: line and reason are set. Pure. */
bool ph_template_compile(
    const char *text, size_t length, GString *out, int *line_out, const char **reason_out);
/* The chunk of a template is pushed. It is called as every page: (req, res, data, write, show,
 * include, raw). */
void ph_lua_push_template(lua_State *lua, const char *name, const char *text, size_t length);

/* The function of a page is on the top of the stack and is taken: calls it with request and response
 * of the call. */
void ph_lua_call_page(lua_State *lua);
/* Runs a template of the site, below its root. */
void ph_lua_run_template(lua_State *lua, const char *path, int data);
/* A page function is on the top of the stack and is taken: runs it with a request made of the table
 * at `input`, and pushes a table of the response. For tests. */
void ph_lua_try_page(lua_State *lua, int input);

/* The objects of a state, made at the first use; the request forgets what it held. */
void ph_lua_push_request(lua_State *lua);
void ph_lua_push_response(lua_State *lua);
/* Raises an error when the page has written too much. */
void ph_lua_page_write(lua_State *lua, const char *text, size_t length);
void ph_lua_page_header(lua_State *lua, const char *name, const char *value);
/* Null: there is no such header. */
const char *ph_page_request_header(const PhPageRequest *request, const char *name);
