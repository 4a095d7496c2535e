/* store.c - opening and closing the store, its status */
#include "store/internal.h"

#include <string.h>

static PhStoreSettings *open_settings;

const PhStoreSettings *
ph_store_settings(void)
{
    return open_settings;
}

static unsigned
or_default(unsigned value, unsigned fallback)
{
    return value != 0 ? value : fallback;
}

static PhStoreSettings *
settings_new(const PhStoreConfig *config)
{
    PhStoreSettings *settings = g_new0(PhStoreSettings, 1);
    settings->conninfo = g_strdup(config->conninfo);
    settings->node_name = g_strdup(config->node_name != NULL ? config->node_name : "node");
    settings->schema_folder = g_strdup(config->schema_folder);
    settings->spool_folder = g_strdup(config->spool_folder);
    settings->holder = g_uuid_string_random();
    for (int i = 0; i < PH_N_LANES; i++)
        settings->reserved[i] = or_default(config->reserved[i], 2);
    settings->shared = or_default(config->shared, 4);
    settings->committers = MIN(or_default(config->committers, 2), 32);
    settings->commit_patience_us = (int64_t)or_default(config->commit_patience_ms, 20000) * 1000;
    settings->poll_us = (int64_t)or_default(config->poll_ms, 30000) * 1000;
    settings->views_kept_bytes =
        config->views_kept_bytes != 0 ? config->views_kept_bytes : 64u << 20;
    settings->spool_total_bytes =
        config->spool_total_bytes != 0 ? config->spool_total_bytes : 512u << 20;
    settings->without_batching = config->without_batching;
    return settings;
}

static void
settings_free(PhStoreSettings *settings)
{
    g_free(settings->conninfo);
    g_free(settings->node_name);
    g_free(settings->schema_folder);
    g_free(settings->spool_folder);
    g_free(settings->holder);
    g_free(settings);
}

static bool
conninfo_is_well_formed(const char *conninfo, GError **error)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(conninfo, &message);
    if (options != NULL) {
        PQconninfoFree(options);
        return true;
    }
    g_autofree char *text = g_strdup(message != NULL ? message : "out of memory");
    PQfreemem(message);
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the database setting: %s", g_strstrip(text));
    return false;
}

/* The first look at the database: a node number, so that ids can be made. Being away is no
 * failure. */
PH_IN_JOB static void
look_at_database(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLease) lease =
        ph_lease_take_blocking(PH_LANE_CONSOLE, ph_monotonic_us() + 5000000, &error);
    if (lease == NULL || !ph_node_keep_blocking(lease, &error))
        ph_leases_note_error(error->message);
}

bool
ph_store_open_blocking(const PhStoreConfig *config, GError **error)
{
    ph_assert_in_job();
    g_return_val_if_fail(open_settings == NULL, false);
    if (!conninfo_is_well_formed(config->conninfo, error))
        return false;
    open_settings = settings_new(config);
    ph_node_open();
    ph_spool_configure(open_settings->spool_folder, open_settings->spool_total_bytes);
    ph_leases_open(open_settings);
    ph_view_table_open();
    look_at_database();
    ph_notifier_start();
    ph_committers_start();
    return true;
}

void
ph_store_close_blocking(void)
{
    ph_assert_in_job();
    if (open_settings == NULL)
        return;
    ph_committers_stop();
    ph_notifier_stop();
    PhLease *lease = ph_lease_take_blocking(PH_LANE_CONSOLE, ph_monotonic_us() + 1000000, NULL);
    if (lease != NULL)
        ph_node_release_blocking(lease);
    ph_lease_free(lease);
    ph_view_table_close();
    ph_leases_close();
    g_clear_pointer(&open_settings, settings_free);
}

static const PhStatement ping = {
    "ping",
    "SELECT coalesce(max(version), 0) FROM schema_version",
};

static int known_schema_version;

bool
ph_store_ping_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ping);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    __atomic_store_n(
        &known_schema_version, ph_cell_int32(ph_batch_result(&batch, 0), 0, 0), __ATOMIC_RELAXED);
    return true;
}

void
ph_store_status(PhStoreStatus *status_out)
{
    memset(status_out, 0, sizeof *status_out);
    status_out->node_id = -1;
    if (open_settings == NULL)
        return;
    ph_leases_status(status_out);
    ph_committers_status(status_out);
    ph_view_table_status(status_out);
    status_out->node_id = ph_node_id();
    status_out->schema_version = __atomic_load_n(&known_schema_version, __ATOMIC_RELAXED);
}

static const PhStatement read_durability = {
    "store-durability",
    "SELECT coalesce(string_agg(name || ' = ' || setting, ', ' ORDER BY name), '')\n"
    "FROM pg_settings\n"
    "WHERE (name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off')\n"
    "   OR (name = 'synchronous_commit' AND setting = 'local' AND current_setting('synchronous_standby_names') <> '')",
};

char *
ph_store_durability_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &read_durability);
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error)
               ? ph_cell_dup(ph_batch_result(&batch, 0), 0, 0)
               : NULL;
}
