/* settings-sync.c - rows in, snapshot out */
#include "management/settings-sync.h"

#include "posthouse/log.h"
#include "runtime/settings.h"
#include "store/store.h"

#include <string.h>

static struct {
    GMutex mutex;
    char *cache_path;
    PhSecret *key;
    char *node_name;
} sync_state;

const char *
ph_settings_node_name(void)
{
    return sync_state.node_name;
}

bool
ph_settings_sync_init(const char *state, const char *node_name, GError **error)
{
    g_autofree char *key_path = g_build_filename(state, "secret.key", NULL);
    sync_state.key = ph_secret_key_load(key_path, error);
    sync_state.node_name = g_strdup(node_name);
    sync_state.cache_path = g_build_filename(state, "settings.cache", NULL);
    return sync_state.key != NULL;
}

/* 0 for another node: a scope that is nobody's here. */
static int64_t
scope_id_of(const PhStoredSetting *row)
{
    if (row->scope_kind == PH_SCOPE_NODE)
        return strcmp(row->scope_id, sync_state.node_name) == 0 ? PH_SETTINGS_THIS_NODE : 0;
    return g_ascii_strtoll(row->scope_id, NULL, 10);
}

static PhSettingValue *
value_of(const PhStoredSetting *row)
{
    PhSettingValue *value = g_new(PhSettingValue, 1);
    *value = (PhSettingValue){
        .key = g_strdup(row->key),
        .scope = (PhScope)row->scope_kind,
        .scope_id = scope_id_of(row),
        .value = g_strdup(row->value),
    };
    return value;
}

PH_IN_JOB static bool
load_and_publish(int64_t deadline_us, GError **error)
{
    int64_t version;
    g_autoptr(GPtrArray) rows = ph_stored_settings_blocking(deadline_us, &version, error);
    if (rows == NULL)
        return false;
    GPtrArray *values = g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
    for (guint i = 0; i < rows->len; i++)
        g_ptr_array_add(values, value_of(rows->pdata[i]));
    ph_settings_publish(values, PH_SETTINGS_THIS_NODE);
    g_autoptr(GError) cause = NULL;
    if (!ph_settings_cache_write(sync_state.cache_path, sync_state.key, &cause))
        ph_log(PH_LOG_WARNING, "settings.not-cached", "%s", cause->message);
    return true;
}

bool
ph_settings_sync_blocking(int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    /* One at a time, so that an older load never follows a newer one. */
    g_mutex_lock(&sync_state.mutex);
    bool good = load_and_publish(deadline_us, error);
    g_mutex_unlock(&sync_state.mutex);
    return good;
}

bool
ph_settings_sync_from_cache(GError **error)
{
    GPtrArray *values = ph_settings_cache_read(sync_state.cache_path, sync_state.key, error);
    if (values == NULL)
        return false;
    ph_settings_publish(values, PH_SETTINGS_THIS_NODE);
    return true;
}
