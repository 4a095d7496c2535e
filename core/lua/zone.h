/* zone.h - states by zone: the core's own scripts, and each tenant's
 *
 * Shape:    a zone has a budget of memory and states that wait to be used, the last used first. States
 *           are made when they are needed, and closed when they are old, much used, idle, or hit a
 *           limit. One tenant's scripts never run in a state that another's ran in.
 * Threads:  in a job.
 * Errors:   TEMPORARY (as many calls as are allowed are under way), LIMIT (no memory).
 */
#pragma once

#include "lua/state.h"

typedef struct PhLuaZone PhLuaZone;

PH_IN_JOB PhLuaState *ph_lua_zone_take_blocking(
    int64_t tenant_id, int64_t deadline_us, PhLuaZone **zone_out, GError **error);
void ph_lua_zone_give(PhLuaZone *zone, PhLuaState *state);
/* Closes states that nobody has used for a while. */
void ph_lua_zones_tend(void);
/* Closes all; nobody may hold one. */
void ph_lua_zones_close(void);
