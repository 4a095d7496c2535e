/* zone.c - pools of states */
#include "lua/zone.h"

#include "lua/scripts.h"

enum {
    IDLE_US = 60 * 1000 * 1000,
    AGE_US = 10 * 60 * 1000 * 1000,
    USES_MAX = 1000 * 1000,
    PATIENCE_US = 250 * 1000, /* for a call of the same tenant to end */
};

struct PhLuaZone {
    int64_t tenant_id;
    PhLuaBudget budget;
    GPtrArray *idle; /* PhLuaState, the last used at the end */
    unsigned n_running;
    unsigned n_waiting; /* a signal costs a system call, so it is only sent where one waits */
    GCond freed;
};

static struct {
    PhMutex mutex;
    GHashTable *zones; /* int64_t tenant -> PhLuaZone, never taken out */
} zones = { .mutex = { .rank = PH_LOCK_LUA } };

static PhLuaZone *
find_zone_locked(int64_t tenant_id)
{
    if (zones.zones == NULL)
        zones.zones = g_hash_table_new(g_int64_hash, g_int64_equal);
    PhLuaZone *zone = g_hash_table_lookup(zones.zones, &tenant_id);
    if (zone != NULL)
        return zone;
    zone = g_new0(PhLuaZone, 1);
    zone->tenant_id = tenant_id;
    zone->idle = g_ptr_array_new();
    g_cond_init(&zone->freed);
    g_hash_table_insert(zones.zones, &zone->tenant_id, zone);
    return zone;
}

/* The core's calls are as many as there are workers. */
static unsigned
calls_max(int64_t tenant_id)
{
    return tenant_id == PH_SCRIPT_CORE ? G_MAXUINT
                                       : (unsigned)ph_lua_limit(&ph_lua_limits.tenant_calls);
}

static size_t
memory_max(int64_t tenant_id)
{
    return (size_t)ph_lua_limit(tenant_id == PH_SCRIPT_CORE ? &ph_lua_limits.core_memory_bytes
                                                            : &ph_lua_limits.tenant_memory_bytes);
}

PhLuaState *
ph_lua_zone_take_blocking(
    int64_t tenant_id, int64_t deadline_us, PhLuaZone **zone_out, GError **error)
{
    ph_assert_in_job();
    unsigned most = calls_max(tenant_id);
    int64_t until_us = 0;
    ph_mutex_lock(&zones.mutex);
    PhLuaZone *zone = find_zone_locked(tenant_id);
    while (zone->n_running >= most) {
        if (until_us == 0)
            until_us = MIN(deadline_us, ph_monotonic_us() + PATIENCE_US);
        zone->n_waiting++;
        bool in_time = ph_mutex_wait_until(&zones.mutex, &zone->freed, until_us);
        zone->n_waiting--;
        if (!in_time)
            break;
    }
    if (zone->n_running >= most) {
        ph_mutex_unlock(&zones.mutex);
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY,
            "%u calls of this tenant's scripts are under way, which is the limit", most);
        return NULL;
    }
    zone->n_running++;
    PhLuaState *state =
        zone->idle->len > 0 ? g_ptr_array_steal_index(zone->idle, zone->idle->len - 1) : NULL;
    ph_mutex_unlock(&zones.mutex);
    *zone_out = zone;
    if (state != NULL) {
        ph_handover_take(state);
        return state;
    }
    __atomic_store_n(&zone->budget.limit, memory_max(tenant_id), __ATOMIC_RELAXED);
    state = ph_lua_state_new(&zone->budget, error);
    if (state == NULL)
        ph_lua_zone_give(zone, NULL);
    return state;
}

static bool
is_worn(const PhLuaState *state, int64_t now_us)
{
    return state->is_spoiled || state->uses > USES_MAX || now_us - state->made_us > AGE_US;
}

void
ph_lua_zone_give(PhLuaZone *zone, PhLuaState *state)
{
    if (state != NULL) {
        state->used_us = ph_monotonic_us();
        if (is_worn(state, state->used_us))
            g_clear_pointer(&state, ph_lua_state_free);
        else
            ph_handover_give(state);
    }
    ph_mutex_lock(&zones.mutex);
    if (state != NULL)
        g_ptr_array_add(zone->idle, state);
    zone->n_running--;
    if (zone->n_waiting > 0)
        g_cond_signal(&zone->freed);
    ph_mutex_unlock(&zones.mutex);
}

static void
take_idle_locked(PhLuaZone *zone, int64_t before_us, GPtrArray *taken)
{
    /* The longest unused are at the front. */
    while (zone->idle->len > 0 && ((PhLuaState *)zone->idle->pdata[0])->used_us < before_us)
        g_ptr_array_add(taken, g_ptr_array_steal_index(zone->idle, 0));
}

static void
close_idle(int64_t before_us)
{
    g_autoptr(GPtrArray) taken = g_ptr_array_new();
    GHashTableIter iter;
    gpointer zone;
    ph_mutex_lock(&zones.mutex);
    if (zones.zones != NULL) {
        g_hash_table_iter_init(&iter, zones.zones);
        while (g_hash_table_iter_next(&iter, NULL, &zone))
            take_idle_locked(zone, before_us, taken);
    }
    ph_mutex_unlock(&zones.mutex);
    for (guint i = 0; i < taken->len; i++) {
        ph_handover_take(taken->pdata[i]);
        ph_lua_state_free(taken->pdata[i]);
    }
}

void
ph_lua_zones_tend(void)
{
    close_idle(ph_monotonic_us() - IDLE_US);
}

void
ph_lua_zones_close(void)
{
    close_idle(INT64_MAX);
}
