/* watch.h - the watchdog: ends a call that is late, and costs nothing before
 *
 * Shape:    each thread that runs scripts has a place where it notes its call. One thread looks at
 *           all places each 10 ms; when a call is late (by the clock, or by its own CPU time) it
 *           signals that call's thread, whose handler arms a hook on the Lua thread that runs: from
 *           then on each instruction raises an error, until the call has ended.
 * Units:    microseconds; deadlines of the monotonic clock.
 * Threads:  begin and end on the thread that runs the script; calls do not nest.
 * Sources:  Lua 5.4 manual, lua_sethook (may be called from a signal handler of the same thread).
 */
#pragma once

#include "posthouse/base.h"

#include <lua.h>
#include <signal.h>

/* The call of this thread must end: functions in C that loop look at it. */
extern __thread volatile sig_atomic_t ph_lua_is_over;

/* `cpu_us` 0: no limit but the deadline. */
void ph_lua_watch_begin(lua_State *lua, int64_t deadline_us, int64_t cpu_us);
/* True when the call was stopped: the state is then of no further use. */
bool ph_lua_watch_end(void);
/* The Lua thread that runs from now on, as the hook must be set on that one. Gives the one
 * before. */
lua_State *ph_lua_watch_switch(lua_State *lua);
/* Raises the error that ends the call. */
void ph_lua_watch_raise(lua_State *lua);

#ifdef PH_TSAN
/* The signal is held back by ThreadSanitizer: looks by itself. */
void ph_lua_watch_look(void);
#endif

/* In loops in C, each round. */
static inline void
ph_lua_tick(lua_State *lua)
{
#ifdef PH_TSAN
    ph_lua_watch_look();
#endif
    if (G_UNLIKELY(ph_lua_is_over != 0))
        ph_lua_watch_raise(lua);
}

#define PH_LUA_OVER_TEXT "the time limit is over"
