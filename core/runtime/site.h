/* site.h - publishing the snapshot of sites: for management and tests
 *
 * Threads:  anywhere.
 */
#pragma once

#include "posthouse/site.h"

PhSite *ph_site_new(const char *name, const char *root);
void ph_site_free(PhSite *site);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSite, ph_site_free)
/* Kept with the longest prefix first. */
void ph_site_add_route(
    PhSite *site, int64_t id, const char *prefix, const char *handler, const char *target);

/* Takes the array (GPtrArray of PhSite). A site without a route for "/" gets one for static files.
 * When nothing differs from the current snapshot, that one stays. */
void ph_sites_publish(GPtrArray *sites);
/* At the end of the process: nobody holds a snapshot. */
void ph_sites_forget(void);

/* For the sealed local copy. */
GVariant *ph_sites_to_variant(void);
GPtrArray *ph_sites_from_variant(GVariant *variant);
#define PH_SITES_VARIANT "a(xxssbbasa(xsss))"
