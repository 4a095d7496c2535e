/* site.c - the snapshot of sites and its look-ups */
#include "runtime/site.h"

#include <string.h>

struct PhSites {
    gatomicrefcount references;
    GPtrArray *sites;
    GHashTable *by_name;   /* name -> PhSite; "*.example.org" is a name */
    const PhSite *any;     /* the site "*" */
    GVariant *description; /* to tell whether something changed */
};

static struct {
    PhMutex mutex;
    PhSites *current;
    uint64_t generation;
} published = { .mutex = { .rank = PH_LOCK_SNAPSHOT } };

/* -- one site ---------------------------------------------------------------------------------- */

static void
free_route(gpointer data)
{
    PhSiteRoute *route = data;
    g_free(route->prefix);
    g_free(route->handler);
    g_free(route->target);
    g_free(route);
}

PhSite *
ph_site_new(const char *name, const char *root)
{
    PhSite *site = g_new0(PhSite, 1);
    site->name = g_strdup(name);
    site->root = g_strdup(root);
    site->names = g_ptr_array_new_with_free_func(g_free);
    site->routes = g_ptr_array_new_with_free_func(free_route);
    return site;
}

void
ph_site_free(PhSite *site)
{
    if (site == NULL)
        return;
    g_ptr_array_unref(site->names);
    g_ptr_array_unref(site->routes);
    g_free(site->name);
    g_free(site->root);
    g_free(site);
}

void
ph_site_add_route(
    PhSite *site, int64_t id, const char *prefix, const char *handler, const char *target)
{
    guint at = 0;
    while (at < site->routes->len &&
           strlen(((PhSiteRoute *)site->routes->pdata[at])->prefix) >= strlen(prefix))
        at++;
    PhSiteRoute *route = g_new(PhSiteRoute, 1);
    *route = (PhSiteRoute){
        .id = id,
        .prefix = g_strdup(prefix),
        .handler = g_strdup(handler),
        .target = g_strdup(target),
    };
    g_ptr_array_insert(site->routes, (gint)at, route);
}

const PhSiteRoute *
ph_site_route(const PhSite *site, const char *path, size_t length)
{
    for (guint i = 0; i < site->routes->len; i++) {
        const PhSiteRoute *route = site->routes->pdata[i];
        size_t prefix = strlen(route->prefix);
        while (prefix > 0 && route->prefix[prefix - 1] == '/')
            prefix--; /* "/api/" is "/api" */
        if (prefix <= length && memcmp(route->prefix, path, prefix) == 0 &&
            (prefix == length || path[prefix] == '/'))
            return route;
    }
    return NULL;
}

/* -- snapshots --------------------------------------------------------------------------------- */

static GVariant *
describe(const GPtrArray *sites)
{
    GVariantBuilder all;
    g_variant_builder_init(&all, G_VARIANT_TYPE(PH_SITES_VARIANT));
    for (guint i = 0; i < sites->len; i++) {
        const PhSite *site = sites->pdata[i];
        GVariantBuilder names;
        GVariantBuilder routes;
        g_variant_builder_init(&names, G_VARIANT_TYPE("as"));
        g_variant_builder_init(&routes, G_VARIANT_TYPE("a(xsss)"));
        for (guint n = 0; n < site->names->len; n++)
            g_variant_builder_add(&names, "s", site->names->pdata[n]);
        for (guint r = 0; r < site->routes->len; r++) {
            const PhSiteRoute *route = site->routes->pdata[r];
            g_variant_builder_add(
                &routes, "(xsss)", (gint64)route->id, route->prefix, route->handler, route->target);
        }
        g_variant_builder_add(&all, "(xxssbbasa(xsss))", (gint64)site->id, (gint64)site->tenant_id,
            site->name, site->root, (gboolean)site->https_only, (gboolean)site->pages, &names,
            &routes);
    }
    return g_variant_ref_sink(g_variant_builder_end(&all));
}

static PhSites *
sites_new(GPtrArray *list, GVariant *description)
{
    PhSites *sites = g_new0(PhSites, 1);
    g_atomic_ref_count_init(&sites->references);
    sites->sites = list;
    sites->description = description;
    sites->by_name = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < list->len; i++) {
        PhSite *site = list->pdata[i];
        g_hash_table_insert(sites->by_name, site->name, site);
        if (strcmp(site->name, "*") == 0)
            sites->any = site;
        for (guint n = 0; n < site->names->len; n++)
            g_hash_table_insert(sites->by_name, site->names->pdata[n], site);
    }
    return sites;
}

static bool
has_root_route(const PhSite *site)
{
    return ph_site_route(site, "/", 1) != NULL;
}

void
ph_sites_publish(GPtrArray *list)
{
    for (guint i = 0; i < list->len; i++)
        if (!has_root_route(list->pdata[i]))
            ph_site_add_route(list->pdata[i], 0, "/", "static", "");
    g_autoptr(GVariant) description = describe(list);
    PhSites *old = NULL;
    ph_mutex_lock(&published.mutex);
    if (published.current != NULL && g_variant_equal(published.current->description, description)) {
        ph_mutex_unlock(&published.mutex);
        g_ptr_array_unref(list);
        return;
    }
    old = published.current;
    published.current = sites_new(list, g_steal_pointer(&description));
    __atomic_add_fetch(&published.generation, 1, __ATOMIC_RELEASE);
    ph_mutex_unlock(&published.mutex);
    ph_sites_unref(old);
}

PhSites *
ph_sites_current(void)
{
    ph_mutex_lock(&published.mutex);
    if (published.current == NULL) {
        GPtrArray *none = g_ptr_array_new_with_free_func((GDestroyNotify)ph_site_free);
        published.current = sites_new(none, describe(none));
    }
    PhSites *sites = ph_sites_ref(published.current);
    ph_mutex_unlock(&published.mutex);
    return sites;
}

PhSites *
ph_sites_ref(PhSites *sites)
{
    g_atomic_ref_count_inc(&sites->references);
    return sites;
}

void
ph_sites_unref(PhSites *sites)
{
    if (sites == NULL || !g_atomic_ref_count_dec(&sites->references))
        return;
    g_hash_table_unref(sites->by_name);
    g_variant_unref(sites->description);
    g_ptr_array_unref(sites->sites);
    g_free(sites);
}

void
ph_sites_forget(void)
{
    ph_mutex_lock(&published.mutex);
    PhSites *old = g_steal_pointer(&published.current);
    ph_mutex_unlock(&published.mutex);
    ph_sites_unref(old);
}

uint64_t
ph_sites_generation(void)
{
    return __atomic_load_n(&published.generation, __ATOMIC_ACQUIRE);
}

const PhSite *
ph_sites_find(const PhSites *sites, const char *host, size_t length)
{
    char name[256];
    if (length == 0 || length >= sizeof(name))
        return sites->any;
    memcpy(name, host, length);
    name[length] = '\0';
    const PhSite *site =
        name[0] != '*' ? g_hash_table_lookup(sites->by_name, name) : NULL; /* "*" is no host */
    const char *dot = strchr(name, '.');
    if (site == NULL && dot != NULL && dot > name) {
        g_autofree char *wildcard = g_strconcat("*", dot, NULL);
        site = g_hash_table_lookup(sites->by_name, wildcard);
    }
    return site != NULL ? site : sites->any;
}

size_t
ph_sites_count(const PhSites *sites)
{
    return sites->sites->len;
}

const PhSite *
ph_sites_at(const PhSites *sites, size_t index)
{
    return index < sites->sites->len ? sites->sites->pdata[index] : NULL;
}

/* -- the sealed copy --------------------------------------------------------------------------- */

GVariant *
ph_sites_to_variant(void)
{
    g_autoptr(PhSites) sites = ph_sites_current();
    return g_variant_ref(sites->description);
}

GPtrArray *
ph_sites_from_variant(GVariant *variant)
{
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_site_free);
    GVariantIter iter;
    GVariantIter *names;
    GVariantIter *routes;
    gint64 id;
    gint64 tenant_id;
    const char *name;
    const char *root;
    gboolean https_only;
    gboolean pages;
    g_variant_iter_init(&iter, variant);
    while (g_variant_iter_next(&iter, "(xx&s&sbbasa(xsss))", &id, &tenant_id, &name, &root,
        &https_only, &pages, &names, &routes)) {
        PhSite *site = ph_site_new(name, root);
        const char *prefix;
        const char *handler;
        const char *target;
        site->id = id;
        site->tenant_id = tenant_id;
        site->https_only = https_only != FALSE;
        site->pages = pages != FALSE;
        while (g_variant_iter_next(names, "&s", &name))
            g_ptr_array_add(site->names, g_strdup(name));
        while (g_variant_iter_next(routes, "(x&s&s&s)", &id, &prefix, &handler, &target))
            ph_site_add_route(site, id, prefix, handler, target);
        g_variant_iter_free(names);
        g_variant_iter_free(routes);
        g_ptr_array_add(list, site);
    }
    return list;
}
