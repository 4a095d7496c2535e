/* upstream.c - upstreams from the store to the snapshot, and changes of them
 *
 * A password is sealed wherever it is kept; only the snapshot in memory has it in clear.
 */
#include "management/upstream.h"

#include "management/configuration.h"
#include "posthouse/log.h"
#include "runtime/upstream.h"

#include <string.h>

static GVariant *
describe(const GPtrArray *rows)
{
    GVariantBuilder all;
    g_variant_builder_init(&all, G_VARIANT_TYPE(PH_UPSTREAMS_VARIANT));
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredUpstream *row = rows->pdata[i];
        const PhUpstream *u = row->upstream;
        gsize length = 0;
        const void *sealed =
            row->sealed_password != NULL ? g_bytes_get_data(row->sealed_password, &length) : NULL;
        GVariant *password = g_variant_new_fixed_array(G_VARIANT_TYPE_BYTE, sealed, length, 1);
        g_variant_builder_add(&all, "(xsssbss@ayubbixxxx)", (gint64)u->id, u->name, u->suffix,
            u->urls, (gboolean)u->start_tls, u->ca, u->bind_dn, password, (guint32)u->identity,
            (gboolean)u->anonymous, (gboolean)u->read_only, (gint32)u->connections,
            (gint64)u->timeout_ms, (gint64)u->cache_s, (gint64)u->version, (gint64)u->created_us);
    }
    return g_variant_builder_end(&all);
}

static PhUpstream *
upstream_of(GVariant *row)
{
    PhUpstream *upstream = g_new0(PhUpstream, 1);
    g_autoptr(GVariant) password = NULL;
    gint64 id;
    guint32 identity;
    gint32 connections;
    gint64 timeout_ms;
    gint64 cache_s;
    gint64 version;
    gint64 created_us;
    gboolean start_tls;
    gboolean anonymous;
    gboolean read_only;
    g_variant_get(row, "(xsssbss@ayubbixxxx)", &id, &upstream->name, &upstream->suffix,
        &upstream->urls, &start_tls, &upstream->ca, &upstream->bind_dn, &password, &identity,
        &anonymous, &read_only, &connections, &timeout_ms, &cache_s, &version, &created_us);
    upstream->id = id;
    upstream->start_tls = start_tls != FALSE;
    upstream->identity = (PhUpstreamIdentity)MIN(identity, (guint32)PH_UPSTREAM_FOR_CLIENT);
    upstream->anonymous = anonymous != FALSE;
    upstream->read_only = read_only != FALSE;
    upstream->connections = connections;
    upstream->timeout_ms = timeout_ms;
    upstream->cache_s = cache_s;
    upstream->version = version;
    upstream->created_us = created_us;
    g_autoptr(GBytes) sealed = g_variant_get_data_as_bytes(password);
    g_autoptr(GError) cause = NULL;
    if (g_bytes_get_size(sealed) > 0 &&
        (upstream->password = ph_configuration_unseal(sealed, &cause)) == NULL)
        ph_log(
            PH_LOG_ERROR, "ldap.no-password", "upstream=\"%s\" %s", upstream->name, cause->message);
    return upstream;
}

void
ph_upstreams_load_variant(GVariant *variant)
{
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_upstream_free);
    for (gsize i = 0; i < g_variant_n_children(variant); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(variant, i);
        g_ptr_array_add(list, upstream_of(row));
    }
    ph_upstreams_publish(list, variant);
}

bool
ph_upstreams_load_blocking(int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page =
        ph_stored_upstream_list_blocking(NULL, NULL, G_MAXINT32, deadline_us, error);
    if (page == NULL)
        return false;
    g_autoptr(GVariant) description = g_variant_ref_sink(describe(page->items));
    ph_upstreams_load_variant(description);
    return true;
}

GVariant *
ph_upstreams_to_variant(void)
{
    GVariant *description = ph_upstreams_description();
    if (description != NULL)
        return description;
    g_autoptr(GPtrArray) none = g_ptr_array_new();
    return g_variant_ref_sink(describe(none));
}

/* -- for the plugin's actions ------------------------------------------------------------------ */

PhPage *
ph_upstream_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    PhPage *page = ph_stored_upstream_list_blocking(filter, after, limit, deadline_us, error);
    if (page == NULL)
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_upstream_free);
    for (guint i = 0; i < page->items->len; i++)
        g_ptr_array_add(
            list, g_steal_pointer(&((PhStoredUpstream *)page->items->pdata[i])->upstream));
    g_ptr_array_unref(page->items);
    page->items = list;
    return page;
}

PhUpstream *
ph_upstream_find_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhStoredUpstream) stored = ph_stored_upstream_find_blocking(name, deadline_us, error);
    return stored != NULL ? g_steal_pointer(&stored->upstream) : NULL;
}

/* What is stored stays when no password is given. False: could not ask. */
PH_IN_JOB static bool
seal_password(const PhUpstream *upstream, int64_t deadline_us, GBytes **sealed_out, GError **error)
{
    *sealed_out = NULL;
    if (upstream->bind_dn[0] == '\0')
        return true; /* a password of nobody is kept no longer */
    if (upstream->password != NULL) {
        size_t length = ph_secret_length(upstream->password);
        if (length > 0)
            *sealed_out = ph_configuration_seal(ph_secret_bytes(upstream->password), length);
        return true;
    }
    if (upstream->id == 0)
        return true;
    g_autoptr(PhStoredUpstream) old =
        ph_stored_upstream_find_blocking(upstream->name, deadline_us, error);
    if (old == NULL)
        return false;
    *sealed_out = g_steal_pointer(&old->sealed_password);
    return true;
}

bool
ph_upstream_put_blocking(const PhUpstream *upstream, int64_t if_version, int64_t deadline_us,
    int64_t *id_out, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GBytes) sealed = NULL;
    if (!seal_password(upstream, deadline_us, &sealed, error))
        return false;
    PhUpstream copy = *upstream;
    const PhStoredUpstream stored = { .upstream = &copy, .sealed_password = sealed };
    return ph_stored_upstream_put_blocking(&stored, if_version, deadline_us, id_out, error) &&
           ph_configuration_load_blocking(deadline_us, error);
}

bool
ph_upstream_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    return ph_stored_upstream_remove_blocking(name, deadline_us, error) &&
           ph_configuration_load_blocking(deadline_us, error);
}
