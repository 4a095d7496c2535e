/* site.h - what is served under which name
 *
 * Shape:    a site has a name (its first host name), more names, a document root and routes. A route
 *           is a path prefix, a handler by name, and the handler's target. All sites of one moment
 *           are one immutable, counted snapshot; a change makes a new one on every node.
 * Threads:  anywhere. Take one snapshot for a request and use it to the request's end.
 * Errors:   none: who is not found is null.
 * Sources:  RFC 9110 7.2 (Host), RFC 6125 6.4.3 ("*." stands for one label).
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhSiteRoute {
    int64_t id;
    char *prefix;  /* "/": all paths; "/api" fits "/api" and "/api/x", not "/apix" */
    char *handler; /* "static", "lua", "redirect", or the name that a plugin registered */
    char *target;  /* static: a folder below the root, "": the root; lua: a script's name; redirect:
                      where to, a path or an absolute URL; else the plugin's own */
} PhSiteRoute;

typedef struct PhSite {
    int64_t id;
    int64_t tenant_id;
    char *name;        /* ASCII, lower case; "*" answers for names that nobody has */
    GPtrArray *names;  /* char *, the others; may begin with "*." */
    char *root;        /* absolute */
    bool https_only;   /* plain requests are sent to https */
    bool pages;        /* .lua and .lp files below the root are run */
    GPtrArray *routes; /* PhSiteRoute, longest prefix first; always one for "/" */
} PhSite;

typedef struct PhSites PhSites;

/* The current snapshot; a new reference; never null. */
PH_API PhSites *ph_sites_current(void);
PH_API PhSites *ph_sites_ref(PhSites *sites);
PH_API void ph_sites_unref(PhSites *sites);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSites, ph_sites_unref)
/* Another number when something changed: what a cache compares. One atomic load. */
PH_API uint64_t ph_sites_generation(void);

/* `host` in lower case, without port or final dot: the exact name, else "*." for its first label,
 * else the site "*", else null. */
PH_API const PhSite *ph_sites_find(const PhSites *sites, const char *host, size_t length);
/* The route with the longest prefix that fits a normalised path (which begins with "/"). */
PH_API const PhSiteRoute *ph_site_route(const PhSite *site, const char *path, size_t length);
PH_API size_t ph_sites_count(const PhSites *sites);
PH_API const PhSite *ph_sites_at(const PhSites *sites, size_t index);
