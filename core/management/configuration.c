/* configuration.c - rows in, snapshots out */
#include "management/configuration.h"

#include "management/upstream.h"
#include "posthouse/log.h"
#include "runtime/seal.h"
#include "runtime/settings.h"
#include "runtime/site.h"
#include "runtime/tls.h"
#include "store/script.h"
#include "store/store.h"
#include "store/web.h"

#include <string.h>

static struct {
    GMutex mutex;
    char *state;
    char *cache_path;
    PhSecret *key;
    char *node_name;
    int64_t since_us;
} configuration;

const char *
ph_configuration_state_folder(void)
{
    return configuration.state;
}

const char *
ph_configuration_node_name(void)
{
    return configuration.node_name;
}

int64_t
ph_configuration_age_us(void)
{
    return ph_monotonic_us() - configuration.since_us;
}

bool
ph_configuration_init(const char *state, const char *node_name, GError **error)
{
    g_autofree char *key_path = g_build_filename(state, "secret.key", NULL);
    configuration.key = ph_seal_key_load(key_path, error);
    configuration.state = g_strdup(state);
    configuration.node_name = g_strdup(node_name);
    configuration.cache_path = g_build_filename(state, "settings.cache", NULL);
    configuration.since_us = ph_monotonic_us();
    if (configuration.key != NULL)
        ph_script_db_configure(configuration.key);
    return configuration.key != NULL;
}

GBytes *
ph_configuration_seal(const void *plain, size_t length)
{
    return ph_seal(configuration.key, plain, length);
}

PhSecret *
ph_configuration_unseal(GBytes *sealed, GError **error)
{
    return ph_unseal(configuration.key, sealed, error);
}

/* -- settings ---------------------------------------------------------------------------------- */

/* 0 for another node: a scope that is nobody's here. */
static int64_t
scope_id_of(const PhStoredSetting *row)
{
    if (row->scope_kind == PH_SCOPE_NODE)
        return strcmp(row->scope_id, configuration.node_name) == 0 ? PH_SETTINGS_THIS_NODE : 0;
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
load_settings(int64_t deadline_us, GError **error)
{
    int64_t version;
    g_autoptr(GPtrArray) rows = ph_stored_settings_blocking(deadline_us, &version, error);
    if (rows == NULL)
        return false;
    GPtrArray *values = g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
    for (guint i = 0; i < rows->len; i++)
        g_ptr_array_add(values, value_of(rows->pdata[i]));
    ph_settings_publish(values, PH_SETTINGS_THIS_NODE);
    return true;
}

/* -- sites ------------------------------------------------------------------------------------- */

char *
ph_configuration_site_root(const PhStoredSite *site)
{
    if (site->root[0] != '\0')
        return g_strdup(site->root);
    /* No host name has an underscore. */
    return g_build_filename(
        configuration.state, "sites", strcmp(site->name, "*") == 0 ? "_others" : site->name, NULL);
}

static PhSite *
site_of(const PhStoredSite *row, const GPtrArray *routes)
{
    g_autofree char *root = ph_configuration_site_root(row);
    PhSite *site = ph_site_new(row->name, root);
    site->id = row->id;
    site->tenant_id = row->tenant_id;
    site->https_only = row->https_only;
    site->pages = row->pages;
    g_auto(GStrv) names = g_strsplit(row->names, ",", -1);
    for (char **name = names; *name != NULL; name++)
        if ((*name)[0] != '\0')
            g_ptr_array_add(site->names, g_strdup(*name));
    for (guint i = 0; i < routes->len; i++) {
        const PhStoredRoute *route = routes->pdata[i];
        if (route->site_id == row->id)
            ph_site_add_route(site, route->id, route->prefix, route->handler, route->target);
    }
    return site;
}

PH_IN_JOB static bool
load_sites(int64_t deadline_us, GError **error)
{
    g_autoptr(PhPage) page =
        ph_stored_site_list_blocking(0, NULL, NULL, G_MAXINT32, deadline_us, error);
    g_autoptr(GPtrArray) routes =
        page != NULL ? ph_stored_routes_blocking(0, deadline_us, error) : NULL;
    if (routes == NULL)
        return false;
    GPtrArray *sites = g_ptr_array_new_with_free_func((GDestroyNotify)ph_site_free);
    for (guint i = 0; i < page->items->len; i++)
        g_ptr_array_add(sites, site_of(page->items->pdata[i], routes));
    ph_sites_publish(sites);
    return true;
}

/* -- certificates ------------------------------------------------------------------------------ */

PH_IN_JOB static bool
load_certificates(int64_t deadline_us, GError **error)
{
    g_autoptr(GPtrArray) rows = ph_stored_certificates_blocking(deadline_us, error);
    if (rows == NULL)
        return false;
    g_autoptr(GPtrArray) certificates =
        g_ptr_array_new_with_free_func((GDestroyNotify)ph_tls_certificate_free);
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredCertificate *row = rows->pdata[i];
        g_autoptr(GError) cause = NULL;
        g_autoptr(PhSecret) key = ph_configuration_unseal(row->sealed_key, &cause);
        if (key != NULL)
            g_ptr_array_add(certificates, ph_tls_certificate_new(row->chain, key));
        else
            ph_log(
                PH_LOG_ERROR, "tls.unusable", "certificate=\"%s\" %s", row->name, cause->message);
    }
    ph_tls_publish(certificates);
    return true;
}

/* -- the sealed copy --------------------------------------------------------------------------- */

#define SEALED_TYPE "(" PH_SETTINGS_VARIANT PH_SITES_VARIANT PH_TLS_VARIANT PH_UPSTREAMS_VARIANT ")"

static bool
write_sealed(GError **error)
{
    g_autoptr(GVariant) settings = ph_settings_to_variant();
    g_autoptr(GVariant) sites = ph_sites_to_variant();
    g_autoptr(GVariant) certificates = ph_tls_to_variant();
    g_autoptr(GVariant) upstreams = ph_upstreams_to_variant();
    GVariant *parts[] = { settings, sites, certificates, upstreams };
    g_autoptr(GVariant) all = g_variant_ref_sink(g_variant_new_tuple(parts, G_N_ELEMENTS(parts)));
    return ph_seal_write(configuration.cache_path, configuration.key, all, error);
}

bool
ph_configuration_load_sealed(GError **error)
{
    g_autoptr(GVariant) all = ph_seal_read(
        configuration.cache_path, configuration.key, G_VARIANT_TYPE(SEALED_TYPE), error);
    if (all == NULL)
        return false;
    g_autoptr(GVariant) settings = g_variant_get_child_value(all, 0);
    g_autoptr(GVariant) sites = g_variant_get_child_value(all, 1);
    g_autoptr(GVariant) certificates = g_variant_get_child_value(all, 2);
    g_autoptr(GVariant) upstreams = g_variant_get_child_value(all, 3);
    g_autoptr(GPtrArray) list = ph_tls_from_variant(certificates);
    ph_settings_publish(ph_settings_from_variant(settings), PH_SETTINGS_THIS_NODE);
    ph_sites_publish(ph_sites_from_variant(sites));
    ph_tls_publish(list);
    ph_upstreams_load_variant(upstreams);
    return true;
}

bool
ph_configuration_load_blocking(int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GError) cause = NULL;
    /* One at a time, so that an older load never follows a newer one. */
    g_mutex_lock(&configuration.mutex);
    bool good = load_settings(deadline_us, error) && load_sites(deadline_us, error) &&
                load_certificates(deadline_us, error) &&
                ph_upstreams_load_blocking(deadline_us, error);
    if (good && !write_sealed(&cause))
        ph_log(PH_LOG_WARNING, "settings.not-cached", "%s", cause->message);
    g_mutex_unlock(&configuration.mutex);
    return good;
}
