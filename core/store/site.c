/* site.c - rows of sites, their names and routes, and of certificates
 *
 * All of them are part of the node's configuration, so a change takes the lock that orders changes of
 * settings and raises their version: one counter tells a node that it must read again.
 */
#include "store/internal.h"
#include "store/web.h"

#include <string.h>

void
ph_stored_site_free(PhStoredSite *site)
{
    if (site == NULL)
        return;
    g_free(site->tenant);
    g_free(site->name);
    g_free(site->names);
    g_free(site->root);
    g_free(site);
}

void
ph_stored_route_free(PhStoredRoute *route)
{
    if (route == NULL)
        return;
    g_free(route->prefix);
    g_free(route->handler);
    g_free(route->target);
    g_free(route);
}

void
ph_stored_certificate_free(PhStoredCertificate *certificate)
{
    if (certificate == NULL)
        return;
    g_free(certificate->name);
    g_free(certificate->chain);
    g_clear_pointer(&certificate->sealed_key, g_bytes_unref);
    g_free(certificate);
}

/* -- changing the configuration ---------------------------------------------------------------- */

static const PhStatement raise_version = {
    "configuration-raise",
    "UPDATE setting_version SET version = version + 1 RETURNING version",
};

bool
ph_configuration_commit_blocking(PhLease *lease, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &raise_version);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    ph_notifier_tell(PH_NEWS_SETTINGS, ph_cell_int64(ph_batch_result(&batch, 0), 0, 0));
    return true;
}

/* -- reading ----------------------------------------------------------------------------------- */

#define SITE_COLUMNS \
    "s.site_id, s.tenant_id, t.name, s.name, s.root, s.https_only, s.pages, s.version, s.created_at,\n" \
    "       coalesce((SELECT string_agg(n.name, ',' ORDER BY n.name) FROM site_name n\n" \
    "                 WHERE n.site_id = s.site_id AND n.name <> s.name), ''),\n" \
    "       (SELECT count(*) FROM site_route r WHERE r.site_id = s.site_id)\n" \
    "FROM site s JOIN tenant t ON t.tenant_id = s.tenant_id\n"

static const PhStatement list_sites = {
    "site-list",
    "SELECT " SITE_COLUMNS "WHERE s.name > $1::text COLLATE \"C\"\n"
    "  AND ($2::bigint = 0 OR s.tenant_id = $2::bigint)\n"
    "  AND ($3::text IS NULL OR EXISTS (SELECT FROM site_name n WHERE n.site_id = s.site_id AND n.name LIKE $3::text))\n"
    "ORDER BY s.name\n"
    "LIMIT $4::bigint",
};

static const PhStatement find_site = {
    "site-find",
    "SELECT " SITE_COLUMNS "WHERE s.name = $1::text",
};

static void *
site_from_row(const PGresult *rows, int i)
{
    PhStoredSite *site = g_new0(PhStoredSite, 1);
    site->id = ph_cell_int64(rows, i, 0);
    site->tenant_id = ph_cell_int64(rows, i, 1);
    site->tenant = ph_cell_dup(rows, i, 2);
    site->name = ph_cell_dup(rows, i, 3);
    site->root = ph_cell_dup(rows, i, 4);
    site->https_only = ph_cell_bool(rows, i, 5);
    site->pages = ph_cell_bool(rows, i, 6);
    site->version = ph_cell_int64(rows, i, 7);
    site->created_us = ph_cell_timestamp_us(rows, i, 8);
    site->names = ph_cell_dup(rows, i, 9);
    site->n_routes = ph_cell_int64(rows, i, 10);
    return site;
}

static const PhListing site_listing = {
    .read_item = site_from_row,
    .free_item = (GDestroyNotify)ph_stored_site_free,
    .place = 3,
};

PhPage *
ph_stored_site_list_blocking(int64_t tenant_id, const char *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_sites);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_int64(params, tenant_id);
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &site_listing, limit, error);
}

PhStoredSite *
ph_stored_site_find_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &find_site), name);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        g_autofree char *shown = g_strndup(name, 100);
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no site \"%s\"", shown);
        return NULL;
    }
    return site_from_row(ph_batch_result(&batch, 0), 0);
}

static const PhStatement list_routes = {
    "site-routes",
    "SELECT site_id, route_id, prefix, handler, target\n"
    "FROM site_route\n"
    "WHERE $1::bigint = 0 OR site_id = $1::bigint\n"
    "ORDER BY site_id, prefix",
};

GPtrArray *
ph_stored_routes_blocking(int64_t site_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &list_routes), site_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *routes = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_route_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhStoredRoute *route = g_new0(PhStoredRoute, 1);
        route->site_id = ph_cell_int64(rows, i, 0);
        route->id = ph_cell_int64(rows, i, 1);
        route->prefix = ph_cell_dup(rows, i, 2);
        route->handler = ph_cell_dup(rows, i, 3);
        route->target = ph_cell_dup(rows, i, 4);
        g_ptr_array_add(routes, route);
    }
    return routes;
}

/* -- changing sites ---------------------------------------------------------------------------- */

static const PhStatement add_site = {
    "site-add",
    "INSERT INTO site (tenant_id, name, root, https_only, pages)\n"
    "VALUES ($1::bigint, $2::text, $3::text, $4::boolean, $5::boolean)\n"
    "ON CONFLICT (name) DO NOTHING\n"
    "RETURNING site_id",
};

static const PhStatement change_site = {
    "site-change",
    "UPDATE site SET root = $2::text, https_only = $3::boolean, pages = $4::boolean, version = version + 1\n"
    "WHERE site_id = $1::bigint AND ($5::bigint < 0 OR version = $5::bigint)\n"
    "RETURNING site_id",
};

static const PhStatement drop_names = {
    "site-names-drop",
    "DELETE FROM site_name WHERE site_id = $1::bigint",
};

static const PhStatement add_names = {
    "site-names-add",
    "INSERT INTO site_name (name, site_id)\n"
    "SELECT DISTINCT n.name, $1::bigint\n"
    "FROM unnest(string_to_array($2::text, ',')) AS n (name)\n"
    "WHERE n.name <> ''",
};

PH_IN_JOB static bool
put_names(PhLease *lease, const PhStoredSite *site, int64_t site_id, GError **error)
{
    g_autofree char *all = g_strconcat(site->name, ",", site->names, NULL);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &drop_names), site_id);
    PhParams *params = ph_batch_add(&batch, &add_names);
    ph_param_int64(params, site_id);
    ph_param_text(params, all);
    g_autoptr(GError) cause = NULL;
    if (ph_batch_run_blocking(lease, &batch, 0, &cause))
        return true;
    if (ph_error_code(cause) == PH_ERROR_CONFLICT)
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "one of the names \"%s\" belongs to another site", all);
    else
        g_propagate_error(error, g_steal_pointer(&cause));
    return false;
}

static void
add_put(PhBatch *batch, const PhStoredSite *site, int64_t if_version)
{
    PhParams *params = ph_batch_add(batch, site->id == 0 ? &add_site : &change_site);
    if (site->id == 0) {
        ph_param_int64(params, site->tenant_id);
        ph_param_text(params, site->name);
    } else {
        ph_param_int64(params, site->id);
    }
    ph_param_text(params, site->root);
    ph_param_bool(params, site->https_only);
    ph_param_bool(params, site->pages);
    if (site->id != 0)
        ph_param_int64(params, if_version);
}

bool
ph_stored_site_put_blocking(const PhStoredSite *site, int64_t if_version, int64_t deadline_us,
    int64_t *id_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    add_put(&batch, site, if_version);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 1);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            site->id == 0 ? "site \"%s\" exists" : "site \"%s\" was changed meanwhile", site->name);
        return false;
    }
    int64_t id = ph_cell_int64(rows, 0, 0);
    if (!put_names(lease, site, id, error) || !ph_configuration_commit_blocking(lease, error))
        return false;
    if (id_out != NULL)
        *id_out = id;
    return true;
}

/* One statement, then the commit; NOT_FOUND when it changed nothing. */
PH_IN_JOB static bool
change_one(PhLease *lease, PhBatch *batch, const char *what, GError **error)
{
    if (!ph_batch_run_blocking(lease, batch, 0, error))
        return false;
    if (ph_batch_affected(batch, 1) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no such %s", what);
        return false;
    }
    return ph_configuration_commit_blocking(lease, error);
}

static const PhStatement remove_site = {
    "site-remove",
    "DELETE FROM site WHERE site_id = $1::bigint",
};

bool
ph_stored_site_remove_blocking(int64_t site_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_int64(ph_batch_add(&batch, &remove_site), site_id);
    return change_one(lease, &batch, "site", error);
}

static const PhStatement add_route = {
    "site-route-add",
    "INSERT INTO site_route (site_id, prefix, handler, target)\n"
    "SELECT site_id, $2::text, $3::text, $4::text FROM site WHERE site_id = $1::bigint\n"
    "RETURNING route_id",
};

static const PhStatement change_route = {
    "site-route-change",
    "UPDATE site_route SET prefix = $2::text, handler = $3::text, target = $4::text\n"
    "WHERE site_id = $1::bigint AND route_id = $5::bigint\n"
    "RETURNING route_id",
};

bool
ph_stored_route_put_blocking(
    const PhStoredRoute *route, int64_t deadline_us, int64_t *id_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, route->id == 0 ? &add_route : &change_route);
    ph_param_int64(params, route->site_id);
    ph_param_text(params, route->prefix);
    ph_param_text(params, route->handler);
    ph_param_text(params, route->target);
    if (route->id != 0)
        ph_param_int64(params, route->id);
    g_autoptr(GError) cause = NULL;
    if (!change_one(lease, &batch, "route", &cause)) {
        if (ph_error_code(cause) == PH_ERROR_CONFLICT)
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
                "the site has a route for \"%s\" already", route->prefix);
        else
            g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    if (id_out != NULL)
        *id_out = ph_cell_int64(ph_batch_result(&batch, 1), 0, 0);
    return true;
}

static const PhStatement remove_route = {
    "site-route-remove",
    "DELETE FROM site_route WHERE site_id = $1::bigint AND route_id = $2::bigint",
};

bool
ph_stored_route_remove_blocking(
    int64_t site_id, int64_t route_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &remove_route);
    ph_param_int64(params, site_id);
    ph_param_int64(params, route_id);
    return change_one(lease, &batch, "route", error);
}

/* -- certificates ------------------------------------------------------------------------------ */

static const PhStatement list_certificates = {
    "certificate-list",
    "SELECT name, chain, sealed_key, version, created_at FROM certificate ORDER BY name",
};

GPtrArray *
ph_stored_certificates_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &list_certificates);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_certificate_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhStoredCertificate *certificate = g_new0(PhStoredCertificate, 1);
        certificate->name = ph_cell_dup(rows, i, 0);
        certificate->chain = ph_cell_dup(rows, i, 1);
        certificate->sealed_key = ph_cell_bytes(rows, i, 2);
        certificate->version = ph_cell_int64(rows, i, 3);
        certificate->created_us = ph_cell_timestamp_us(rows, i, 4);
        g_ptr_array_add(list, certificate);
    }
    return list;
}

static const PhStatement put_certificate = {
    "certificate-put",
    "INSERT INTO certificate (name, chain, sealed_key) VALUES ($1::text, $2::text, $3::bytea)\n"
    "ON CONFLICT (name) DO UPDATE\n"
    "SET chain = excluded.chain, sealed_key = excluded.sealed_key, version = certificate.version + 1, created_at = now()",
};

bool
ph_stored_certificate_put_blocking(
    const PhStoredCertificate *certificate, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    gsize length;
    const void *key = g_bytes_get_data(certificate->sealed_key, &length);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &put_certificate);
    ph_param_text(params, certificate->name);
    ph_param_text(params, certificate->chain);
    ph_param_bytes(params, key, length);
    return change_one(lease, &batch, "certificate", error);
}

static const PhStatement remove_certificate = {
    "certificate-remove",
    "DELETE FROM certificate WHERE name = $1::text",
};

bool
ph_stored_certificate_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_text(ph_batch_add(&batch, &remove_certificate), name);
    return change_one(lease, &batch, "certificate", error);
}
