/* settings-store.c - rows of settings: values, their history, one counter that orders changes */
#include "store/internal.h"

#include <string.h>

void
ph_stored_setting_free(PhStoredSetting *row)
{
    if (row == NULL)
        return;
    g_free(row->key);
    g_free(row->scope_id);
    g_free(row->value);
    g_free(row);
}

void
ph_stored_setting_change_free(PhStoredSettingChange *row)
{
    if (row == NULL)
        return;
    g_free(row->key);
    g_free(row->scope_id);
    g_free(row->value);
    g_free(row->changed_by);
    g_free(row);
}

static const PhStatement read_version = { "setting-version",
    "SELECT version FROM setting_version" };

static const PhStatement read_all = {
    "setting-all",
    "SELECT key, scope_kind, scope_id, value, version\n"
    "FROM setting\n"
    "ORDER BY key, scope_kind, scope_id",
};

GPtrArray *
ph_stored_settings_blocking(int64_t deadline_us, int64_t *version_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin_snapshot);
    ph_batch_add(&batch, &read_version);
    ph_batch_add(&batch, &read_all);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 2);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_setting_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhStoredSetting *row = g_new0(PhStoredSetting, 1);
        row->key = ph_cell_dup(rows, i, 0);
        row->scope_kind = ph_cell_int16(rows, i, 1);
        row->scope_id = ph_cell_dup(rows, i, 2);
        row->value = ph_cell_dup(rows, i, 3);
        row->version = ph_cell_int64(rows, i, 4);
        g_ptr_array_add(list, row);
    }
    if (version_out != NULL)
        *version_out = ph_cell_int64(ph_batch_result(&batch, 1), 0, 0);
    return list;
}

/* The lock on the one row orders all changes of settings. */
static const PhStatement lock_version = { "setting-lock",
    "SELECT version FROM setting_version FOR UPDATE" };

static const PhStatement raise_version = { "setting-raise",
    "UPDATE setting_version SET version = $1::bigint" };

/* What would change nothing is not written, and is not in the result. */
static const PhStatement put_rows = {
    "setting-put",
    "WITH wanted AS (\n"
    "    SELECT * FROM unnest($1::text[], $2::smallint[], $3::text[], $4::text[]) AS w (key, scope_kind, scope_id, value)\n"
    "), put AS (\n"
    "    INSERT INTO setting (key, scope_kind, scope_id, value, version)\n"
    "    SELECT key, scope_kind, scope_id, value, $5::bigint FROM wanted WHERE value IS NOT NULL\n"
    "    ON CONFLICT (key, scope_kind, scope_id) DO UPDATE\n"
    "    SET value = excluded.value, version = excluded.version\n"
    "    WHERE setting.value <> excluded.value\n"
    "    RETURNING key, scope_kind, scope_id, value\n"
    "), gone AS (\n"
    "    DELETE FROM setting s USING wanted w\n"
    "    WHERE w.value IS NULL AND s.key = w.key AND s.scope_kind = w.scope_kind AND s.scope_id = w.scope_id\n"
    "    RETURNING s.key, s.scope_kind, s.scope_id, NULL::text AS value\n"
    ")\n"
    "INSERT INTO setting_history (version, key, scope_kind, scope_id, value, changed_by)\n"
    "SELECT $5::bigint, key, scope_kind, scope_id, value, $6::text\n"
    "FROM (SELECT * FROM put UNION ALL SELECT * FROM gone) AS changed",
};

static void
add_changes(PhParams *params, const PhSettingChange *changes, size_t n_changes)
{
    g_auto(PhSqlArray) keys;
    g_auto(PhSqlArray) kinds;
    g_auto(PhSqlArray) ids;
    g_auto(PhSqlArray) values;
    ph_sql_array_init(&keys, PH_SQL_TEXT);
    ph_sql_array_init(&kinds, PH_SQL_INT2);
    ph_sql_array_init(&ids, PH_SQL_TEXT);
    ph_sql_array_init(&values, PH_SQL_TEXT);
    for (size_t i = 0; i < n_changes; i++) {
        ph_sql_array_add_text(&keys, changes[i].key);
        ph_sql_array_add_int(&kinds, changes[i].scope_kind);
        ph_sql_array_add_text(&ids, changes[i].scope_id != NULL ? changes[i].scope_id : "");
        ph_sql_array_add_text(&values, changes[i].value);
    }
    ph_param_array(params, &keys);
    ph_param_array(params, &kinds);
    ph_param_array(params, &ids);
    ph_param_array(params, &values);
}

bool
ph_stored_settings_change_blocking(const PhSettingChange *changes, size_t n_changes,
    const char *changed_by, int64_t expected_version, int64_t deadline_us, int64_t *version_out,
    GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &lock_version);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    int64_t version = ph_cell_int64(ph_batch_result(&batch, 1), 0, 0);
    if (expected_version >= 0 && version != expected_version) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "the settings changed meanwhile: version %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT,
            version, expected_version);
        return false;
    }
    ph_batch_restart(&batch);
    PhParams *params = ph_batch_add(&batch, &put_rows);
    add_changes(params, changes, n_changes);
    ph_param_int64(params, version + 1);
    ph_param_text(params, changed_by);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    bool changed = ph_batch_affected(&batch, 0) > 0;
    ph_batch_restart(&batch);
    if (changed)
        ph_param_int64(ph_batch_add(&batch, &raise_version), version + 1);
    ph_batch_add(&batch, changed ? &ph_sql_commit : &ph_sql_rollback);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    version += changed ? 1 : 0;
    if (changed)
        ph_notifier_tell(PH_NEWS_SETTINGS, version);
    if (version_out != NULL)
        *version_out = version;
    return true;
}

static const PhStatement read_history = {
    "setting-history",
    "SELECT version, key, scope_kind, scope_id, value, changed_at, changed_by\n"
    "FROM setting_history\n"
    "WHERE $1::text IS NULL OR key = $1::text\n"
    "ORDER BY version DESC, key, scope_kind, scope_id\n"
    "LIMIT $2::bigint",
};

GPtrArray *
ph_stored_setting_history_blocking(
    const char *key, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &read_history);
    ph_param_text(params, key);
    ph_param_int64(params, limit);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_setting_change_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhStoredSettingChange *row = g_new0(PhStoredSettingChange, 1);
        row->version = ph_cell_int64(rows, i, 0);
        row->key = ph_cell_dup(rows, i, 1);
        row->scope_kind = ph_cell_int16(rows, i, 2);
        row->scope_id = ph_cell_dup(rows, i, 3);
        row->value = ph_cell_dup(rows, i, 4);
        row->changed_us = ph_cell_timestamp_us(rows, i, 5);
        row->changed_by = ph_cell_dup(rows, i, 6);
        g_ptr_array_add(list, row);
    }
    return list;
}
