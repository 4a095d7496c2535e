/* node.c - this process's node number and the message ids made with it
 *
 * Hard here: two processes must never share a number. A number is leased to a process (`holder`),
 * not to a node name: a process that restarts before its old lease has run out takes another
 * number. `last_ms` in the row is a ceiling: ids of that number were made with times below it, so
 * the next holder starts there even when the clock went back.
 */
#include "runtime/connection.h"
#include "store/internal.h"

enum {
    LEASE_MS = 120000,
    TIME_SHIFT = 22,
    NODE_SHIFT = 12,
    COUNTER_MAX = 4095,
};

/* 2020-01-01: 41 bits of milliseconds last until 2089. */
static const int64_t ID_EPOCH_MS = INT64_C(1577836800000);

static PhMutex id_lock;
static int node_id = -1;
static int64_t id_ms;
static int id_counter;

static const PhStatement renew = {
    "node-renew",
    "UPDATE node\n"
    "SET lease_until = now() + $3::bigint * interval '1 ms', last_ms = greatest(last_ms, $4::bigint), name = $5::text,\n"
    "    sessions = $6::bigint, seen_at = now()\n"
    "WHERE node_id = $1::smallint AND holder = $2::text",
};

/* A free number: an expired lease, oldest first, or else one that was never used. */
static const PhStatement take = {
    "node-take",
    "INSERT INTO node (node_id, name, holder, last_ms, lease_until, version, sessions, started_at, seen_at)\n"
    "SELECT free.node_id, $1::text, $2::text, $4::bigint, now() + $3::bigint * interval '1 ms', $5::text, 0, now(), now()\n"
    "FROM (\n"
    "    SELECT id.n::smallint AS node_id, old.lease_until\n"
    "    FROM generate_series(0, 1023) AS id (n)\n"
    "    LEFT JOIN node old ON old.node_id = id.n\n"
    "    WHERE old.node_id IS NULL OR old.lease_until < now()\n"
    "    ORDER BY old.node_id IS NULL, old.name <> $1::text, old.lease_until, id.n\n"
    "    LIMIT 1\n"
    ") AS free\n"
    "ON CONFLICT (node_id) DO UPDATE\n"
    "SET name = excluded.name, holder = excluded.holder, lease_until = excluded.lease_until,\n"
    "    last_ms = greatest(node.last_ms, excluded.last_ms), version = excluded.version, sessions = 0,\n"
    "    started_at = excluded.started_at, seen_at = excluded.seen_at\n"
    "WHERE node.lease_until < now()\n"
    "RETURNING node_id, last_ms",
};

static const PhStatement release = {
    "node-release",
    "UPDATE node SET lease_until = now() - interval '1 ms', last_ms = $3::bigint\n"
    "WHERE node_id = $1::smallint AND holder = $2::text",
};

static void
forget_number(void)
{
    ph_mutex_lock(&id_lock);
    node_id = -1;
    ph_mutex_unlock(&id_lock);
}

void
ph_node_open(void)
{
    static gsize once;
    if (g_once_init_enter(&once)) {
        ph_mutex_init(&id_lock, PH_LOCK_STORE);
        g_once_init_leave(&once, 1);
    }
    forget_number();
}

int
ph_node_id(void)
{
    ph_mutex_lock(&id_lock);
    int id = node_id;
    ph_mutex_unlock(&id_lock);
    return id;
}

static int64_t
now_ms(void)
{
    return ph_time_now_us() / 1000;
}

static int64_t
highest_ms(void)
{
    ph_mutex_lock(&id_lock);
    int64_t ms = id_ms;
    ph_mutex_unlock(&id_lock);
    return MAX(ms, now_ms());
}

int64_t
ph_message_id_draw(void)
{
    ph_mutex_lock(&id_lock);
    int64_t id = 0;
    if (node_id >= 0) {
        int64_t ms = now_ms();
        if (ms > id_ms) {
            id_ms = ms;
            id_counter = 0;
        } else if (++id_counter > COUNTER_MAX) {
            id_ms++;
            id_counter = 0;
        }
        id = (id_ms - ID_EPOCH_MS) << TIME_SHIFT | (int64_t)node_id << NODE_SHIFT | id_counter;
    }
    ph_mutex_unlock(&id_lock);
    return id;
}

PH_IN_JOB static bool
renew_lease(PhLease *lease, int id, bool *kept_out, GError **error)
{
    const PhStoreSettings *settings = ph_store_settings();
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &renew);
    ph_param_int16(params, (int16_t)id);
    ph_param_text(params, settings->holder);
    ph_param_int64(params, LEASE_MS);
    ph_param_int64(params, highest_ms() + LEASE_MS);
    ph_param_text(params, settings->node_name);
    ph_param_int64(params, ph_connection_client_count());
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    *kept_out = ph_batch_affected(&batch, 0) == 1;
    return true;
}

PH_IN_JOB static bool
take_number(PhLease *lease, GError **error)
{
    const PhStoreSettings *settings = ph_store_settings();
    for (int i = 0; i < 20; i++) {
        g_auto(PhBatch) batch;
        ph_batch_init(&batch);
        PhParams *params = ph_batch_add(&batch, &take);
        ph_param_text(params, settings->node_name);
        ph_param_text(params, settings->holder);
        ph_param_int64(params, LEASE_MS);
        ph_param_int64(params, highest_ms());
        ph_param_text(params, PH_VERSION);
        if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
            return false;
        const PGresult *rows = ph_batch_result(&batch, 0);
        if (PQntuples(rows) == 0)
            continue; /* another process was faster */
        ph_mutex_lock(&id_lock);
        node_id = ph_cell_int16(rows, 0, 0);
        id_ms = MAX(id_ms + 1, ph_cell_int64(rows, 0, 1));
        id_counter = 0;
        ph_mutex_unlock(&id_lock);
        bool kept = false;
        return renew_lease(lease, ph_node_id(), &kept, error) && kept;
    }
    g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "no node number is free");
    return false;
}

bool
ph_node_keep_blocking(PhLease *lease, GError **error)
{
    int id = ph_node_id();
    if (id >= 0) {
        bool kept = false;
        if (!renew_lease(lease, id, &kept, error))
            return false;
        if (kept)
            return true;
        forget_number();
    }
    return take_number(lease, error);
}

void
ph_node_release_blocking(PhLease *lease)
{
    int id = ph_node_id();
    if (id < 0)
        return;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &release);
    ph_param_int16(params, (int16_t)id);
    ph_param_text(params, ph_store_settings()->holder);
    /* The last millisecond was used: with a clock that was set back, the next holder begins there. */
    ph_param_int64(params, highest_ms() + 1);
    ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, NULL);
    forget_number();
}

/* -- for people -------------------------------------------------------------------------------- */

void
ph_node_info_free(PhNodeInfo *node)
{
    if (node == NULL)
        return;
    g_free(node->name);
    g_free(node->version);
    g_free(node);
}

/* Without what was killed and started again, which has taken another number. */
static const PhStatement list_nodes = {
    "node-list",
    "SELECT node_id, name, is_alive, version, sessions, started_at, seen_at\n"
    "FROM (\n"
    "    SELECT *, lease_until > now() AND seen_at > now() - interval '20 s' AS is_alive\n"
    "    FROM node\n"
    "    WHERE lease_until > now() - interval '1 day'\n"
    ") AS known\n"
    "WHERE NOT EXISTS (\n"
    "    SELECT FROM node later WHERE later.name = known.name AND later.started_at > known.seen_at\n"
    ")\n"
    "ORDER BY name, node_id",
};

GPtrArray *
ph_node_list_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &list_nodes);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_node_info_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhNodeInfo *node = g_new(PhNodeInfo, 1);
        *node = (PhNodeInfo){
            .id = ph_cell_int16(rows, i, 0),
            .name = ph_cell_dup(rows, i, 1),
            .is_alive = ph_cell_bool(rows, i, 2),
            .version = ph_cell_dup(rows, i, 3),
            .sessions = ph_cell_int64(rows, i, 4),
            .started_us = ph_cell_timestamp_us(rows, i, 5),
            .seen_us = ph_cell_timestamp_us(rows, i, 6),
        };
        g_ptr_array_add(list, node);
    }
    return list;
}
