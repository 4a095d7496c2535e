/* pool.c - database connections: leases by lane, reconnecting, back-off
 *
 * Hard here: while the database is away nobody may queue up behind connection attempts. One thread
 * tries, when the back-off allows it; all others are told UNAVAILABLE at once. A connection that
 * died while idle is found by looking at its socket, without a round trip.
 */
#include "runtime/pool.h"
#include "store/connect.h"
#include "store/internal.h"

#include <poll.h>
#include <string.h>

enum {
    CONNECT_TIMEOUT_US = 5000000,
    BACKOFF_FIRST_US = 100000,
    BACKOFF_MOST_US = 1000000,
    SLOT_SHARED = -1,
    SLOT_PRIVATE = -2,
};

static struct {
    PhMutex lock;
    GCond freed;
    bool is_open;
    const PhStoreSettings *settings;
    unsigned lane_free[PH_N_LANES];
    unsigned shared_free;
    unsigned n_waiting;
    unsigned n_leases;
    unsigned n_connections;
    GQueue idle; /* PhLease, the latest used first */
    bool away;
    bool trying;
    int64_t next_try_us;
    int64_t backoff_us;
    int server_version;
    char last_error[200];
} pool;

void
ph_store_set_lane(PhLane lane)
{
    ph_lane_set_current(lane);
}

PhLane
ph_store_lane(void)
{
    return ph_lane_current();
}

void
ph_leases_open(const PhStoreSettings *settings)
{
    memset(&pool, 0, sizeof pool);
    ph_mutex_init(&pool.lock, PH_LOCK_LEASE);
    g_cond_init(&pool.freed);
    g_queue_init(&pool.idle);
    pool.settings = settings;
    for (int i = 0; i < PH_N_LANES; i++)
        pool.lane_free[i] = settings->reserved[i];
    pool.shared_free = settings->shared;
    pool.backoff_us = BACKOFF_FIRST_US;
    pool.is_open = true;
}

static void
destroy(PhLease *lease)
{
    if (lease->conn != NULL) {
        PQfinish(lease->conn);
        if (pool.is_open) {
            ph_mutex_lock(&pool.lock);
            pool.n_connections--;
            ph_mutex_unlock(&pool.lock);
        }
    }
    g_clear_pointer(&lease->prepared, g_hash_table_unref);
    g_free(lease);
}

static void
destroy_all(GQueue *leases)
{
    PhLease *lease;
    while ((lease = g_queue_pop_head(leases)) != NULL)
        destroy(lease);
}

void
ph_leases_close(void)
{
    destroy_all(&pool.idle);
    pool.is_open = false;
    ph_mutex_clear(&pool.lock);
    g_cond_clear(&pool.freed);
}

void
ph_leases_note_error(const char *message)
{
    if (!pool.is_open)
        return;
    ph_mutex_lock(&pool.lock);
    g_strlcpy(pool.last_error, message, sizeof pool.last_error);
    ph_mutex_unlock(&pool.lock);
}

void
ph_leases_note_lost(void)
{
    if (!pool.is_open)
        return;
    GQueue dead = G_QUEUE_INIT;
    ph_mutex_lock(&pool.lock);
    dead = pool.idle;
    g_queue_init(&pool.idle);
    ph_mutex_unlock(&pool.lock);
    destroy_all(&dead);
}

void
ph_leases_note_back(void)
{
    if (!pool.is_open)
        return;
    ph_mutex_lock(&pool.lock);
    pool.away = false;
    pool.backoff_us = BACKOFF_FIRST_US;
    ph_mutex_unlock(&pool.lock);
}

void
ph_leases_status(PhStoreStatus *status)
{
    if (!pool.is_open)
        return;
    ph_mutex_lock(&pool.lock);
    status->available = !pool.away && pool.server_version != 0;
    status->server_version = pool.server_version;
    status->n_connections = pool.n_connections;
    status->n_leases = pool.n_leases;
    status->n_waiting = pool.n_waiting;
    g_strlcpy(status->last_error, pool.last_error, sizeof status->last_error);
    ph_mutex_unlock(&pool.lock);
}

/* -- connecting -------------------------------------------------------------------------------- */

static const PhStatement set_up_session = {
    "set-up-session",
    /* Every statement looks up rows by key, few or many: nested loops over indexes are right for
     * all of them. The planner, which cannot know how long an array will be, would read whole
     * mailboxes for one flag (measured: 300 times slower with 100,000 messages). So the plan is the
     * same for whatever values come, and is made once a connection (measured: else a third of the
     * server's CPU of a delivery goes into planning). */
    "SELECT set_config('jit', 'off', false),\n"
    "       set_config('enable_seqscan', 'off', false),\n"
    "       set_config('enable_hashjoin', 'off', false),\n"
    "       set_config('enable_mergejoin', 'off', false),\n"
    "       set_config('plan_cache_mode', 'force_generic_plan', false),\n"
    "       set_config('statement_timeout', '120s', false),\n"
    "       set_config('idle_in_transaction_session_timeout', '60s', false),\n"
    "       set_config('search_path', 'public', false),\n"
    "       set_config('timezone', 'UTC', false),\n"
    /* Who gives up a statement closes the connection: the server is to notice (PostgreSQL 14). */
    "       (SELECT set_config(name, '2000', false) FROM pg_settings\n"
    "        WHERE name = 'client_connection_check_interval')",
};

PH_IN_JOB static bool
connect_lease(PhLease *lease, const char *conninfo, GError **error)
{
    int64_t until_us = MIN(lease->deadline_us, ph_monotonic_us() + CONNECT_TIMEOUT_US);
    PGconn *conn = ph_connect_blocking(conninfo, NULL, until_us, error);
    if (conn == NULL) {
        g_prefix_error(error, "the database is away: ");
        return false;
    }
    if (PQsetnonblocking(conn, 1) != 0 || PQenterPipelineMode(conn) != 1) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the database cannot be talked to");
        PQfinish(conn);
        return false;
    }
    lease->conn = conn;
    lease->lost = false;
    g_hash_table_remove_all(lease->prepared);
    if (pool.is_open) {
        ph_mutex_lock(&pool.lock);
        pool.n_connections++;
        pool.server_version = PQserverVersion(conn);
        ph_mutex_unlock(&pool.lock);
    }
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &set_up_session);
    return ph_batch_run_blocking(lease, &batch, 0, error);
}

static void
drop_connection(PhLease *lease)
{
    if (lease->conn == NULL)
        return;
    g_clear_pointer(&lease->conn, PQfinish);
    if (pool.is_open) {
        ph_mutex_lock(&pool.lock);
        pool.n_connections--;
        ph_mutex_unlock(&pool.lock);
    }
}

static PhLease *
new_lease(int slot, int64_t deadline_us)
{
    PhLease *lease = g_new0(PhLease, 1);
    lease->prepared = g_hash_table_new(NULL, NULL);
    lease->slot = slot;
    lease->deadline_us = deadline_us;
    return lease;
}

PhLease *
ph_lease_new_private_blocking(const char *conninfo, int64_t deadline_us, GError **error)
{
    PhLease *lease = new_lease(SLOT_PRIVATE, deadline_us);
    if (connect_lease(lease, conninfo, error))
        return lease;
    destroy(lease);
    return NULL;
}

bool
ph_lease_reconnect_blocking(PhLease *lease, GError **error)
{
    drop_connection(lease);
    const PhStoreSettings *settings = ph_store_settings();
    if (settings != NULL && connect_lease(lease, settings->conninfo, error))
        return true;
    drop_connection(lease);
    lease->lost = true;
    if (error != NULL && *error == NULL)
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the database is away");
    return false;
}

/* -- leases ------------------------------------------------------------------------------------ */

static int
take_slot_locked(PhLane lane)
{
    if (pool.lane_free[lane] > 0) {
        pool.lane_free[lane]--;
        return (int)lane;
    }
    pool.shared_free--;
    return SLOT_SHARED;
}

static bool
wait_for_slot_locked(PhLane lane, int64_t deadline_us)
{
    pool.n_waiting++;
    bool in_time = true;
    while (in_time && pool.lane_free[lane] == 0 && pool.shared_free == 0) {
        if (deadline_us == INT64_MAX)
            ph_mutex_wait(&pool.lock, &pool.freed);
        else
            in_time = ph_mutex_wait_until(&pool.lock, &pool.freed, deadline_us);
    }
    pool.n_waiting--;
    return pool.lane_free[lane] > 0 || pool.shared_free > 0;
}

static void
give_slot_locked(int slot)
{
    if (slot == SLOT_SHARED)
        pool.shared_free++;
    else
        pool.lane_free[slot]++;
    pool.n_leases--;
    g_cond_broadcast(&pool.freed);
}

static bool
is_alive(PhLease *lease)
{
    struct pollfd poll_fd = { .fd = PQsocket(lease->conn), .events = POLLIN };
    if (poll(&poll_fd, 1, 0) <= 0)
        return true;
    return PQconsumeInput(lease->conn) == 1 && PQstatus(lease->conn) == CONNECTION_OK &&
           poll(&poll_fd, 1, 0) == 0;
}

static PhLease *
take_idle(int slot, int64_t deadline_us)
{
    for (;;) {
        ph_mutex_lock(&pool.lock);
        PhLease *lease = g_queue_pop_head(&pool.idle);
        ph_mutex_unlock(&pool.lock);
        if (lease == NULL)
            return NULL;
        ph_handover_take(lease);
        if (!is_alive(lease)) {
            destroy(lease);
            continue;
        }
        lease->slot = slot;
        lease->deadline_us = deadline_us;
        return lease;
    }
}

/* May this thread try to connect now? */
static bool
may_try(GError **error)
{
    ph_mutex_lock(&pool.lock);
    bool may = !pool.away || (!pool.trying && ph_monotonic_us() >= pool.next_try_us);
    if (may && pool.away)
        pool.trying = true;
    if (!may)
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "%s",
            pool.last_error[0] != '\0' ? pool.last_error : "the database is away");
    ph_mutex_unlock(&pool.lock);
    return may;
}

static void
note_try(bool worked, const char *message)
{
    ph_mutex_lock(&pool.lock);
    pool.trying = false;
    if (worked) {
        pool.away = false;
        pool.backoff_us = BACKOFF_FIRST_US;
    } else {
        pool.away = true;
        pool.next_try_us = ph_monotonic_us() + pool.backoff_us;
        pool.backoff_us = MIN(pool.backoff_us * 2, BACKOFF_MOST_US);
        g_strlcpy(pool.last_error, message, sizeof pool.last_error);
    }
    ph_mutex_unlock(&pool.lock);
}

/* That somebody was in a hurry says nothing about the database. */
static void
forget_try(void)
{
    ph_mutex_lock(&pool.lock);
    pool.trying = false;
    ph_mutex_unlock(&pool.lock);
}

PH_IN_JOB static PhLease *
take_new(int slot, int64_t deadline_us, GError **error)
{
    if (!may_try(error))
        return NULL;
    g_autoptr(GError) local = NULL;
    int64_t enough_us = ph_monotonic_us() + CONNECT_TIMEOUT_US;
    PhLease *lease = ph_lease_new_private_blocking(pool.settings->conninfo, deadline_us, &local);
    if (lease == NULL && deadline_us < enough_us && ph_monotonic_us() >= deadline_us) {
        forget_try();
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "no database connection came in time");
        return NULL;
    }
    note_try(lease != NULL, local != NULL ? local->message : "");
    if (lease == NULL) {
        g_propagate_error(error, g_steal_pointer(&local));
        return NULL;
    }
    lease->slot = slot;
    return lease;
}

PhLease *
ph_lease_take_blocking(PhLane lane, int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    if (!pool.is_open) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the store is not open");
        return NULL;
    }
    ph_mutex_lock(&pool.lock);
    if (!wait_for_slot_locked(lane, deadline_us) || ph_monotonic_us() >= deadline_us) {
        ph_mutex_unlock(&pool.lock);
        g_set_error(
            error, PH_ERROR, PH_ERROR_TEMPORARY, "no database connection became free in time");
        return NULL;
    }
    int slot = take_slot_locked(lane);
    pool.n_leases++;
    ph_mutex_unlock(&pool.lock);

    PhLease *lease = take_idle(slot, deadline_us);
    if (lease == NULL)
        lease = take_new(slot, deadline_us, error);
    if (lease == NULL) {
        ph_mutex_lock(&pool.lock);
        give_slot_locked(slot);
        ph_mutex_unlock(&pool.lock);
    }
    return lease;
}

PhLease *
ph_store_lease_blocking(int64_t deadline_us, GError **error)
{
    return ph_lease_take_blocking(ph_lane_current(), deadline_us, error);
}

void
ph_lease_free(PhLease *lease)
{
    if (lease == NULL)
        return;
    if (lease->slot == SLOT_PRIVATE) {
        destroy(lease);
        return;
    }
    ph_lease_roll_back(lease);
    int slot = lease->slot;
    lease->used_us = ph_monotonic_us();
    PhLease *dead = lease->lost ? lease : NULL;
    ph_mutex_lock(&pool.lock);
    if (dead == NULL) {
        ph_handover_give(lease);
        g_queue_push_head(&pool.idle, lease);
    }
    give_slot_locked(slot);
    ph_mutex_unlock(&pool.lock);
    if (dead != NULL)
        destroy(dead);
}
