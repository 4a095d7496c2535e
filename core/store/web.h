/* web.h - rows of sites, certificates and upstreams, of console sessions and API keys
 *
 * Shape:    what the tables of schema/0002-web.sql and 0004-directory.sql hold. A change of a site,
 *           certificate or upstream raises the version of the settings and is told to the other nodes as PH_NEWS_SETTINGS.
 * Units:    microseconds since 1970 UTC.
 * Threads:  in a job.
 * Errors:   SYNTAX, NOT_FOUND, CONFLICT (a name in use; another version than `if_version`, below 0:
 *           whatever it is), UNAVAILABLE.
 */
#pragma once

#include "posthouse/directory.h"
#include "store/store.h"

/* -- sites ------------------------------------------------------------------------------------- */

typedef struct PhStoredSite {
    int64_t id;
    int64_t tenant_id;
    char *tenant;
    char *name;
    char *names; /* the others, divided by "," */
    char *root;  /* "": the folder of its name below STATE/sites */
    bool https_only;
    bool pages;
    int64_t n_routes;
    int64_t version;
    int64_t created_us;
} PhStoredSite;

void ph_stored_site_free(PhStoredSite *site);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredSite, ph_stored_site_free)

typedef struct PhStoredRoute {
    int64_t site_id;
    int64_t id;
    char *prefix;
    char *handler;
    char *target;
} PhStoredRoute;

void ph_stored_route_free(PhStoredRoute *route);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredRoute, ph_stored_route_free)

/* `tenant_id` 0: of all tenants. Items are PhStoredSite, by name. */
PH_IN_JOB PhPage *ph_stored_site_list_blocking(int64_t tenant_id, const char *filter,
    const char *after, unsigned limit, int64_t deadline_us, GError **error);
PH_IN_JOB PhStoredSite *ph_stored_site_find_blocking(
    const char *name, int64_t deadline_us, GError **error);
/* `site_id` 0: of all sites. GPtrArray of PhStoredRoute, by site and prefix. */
PH_IN_JOB GPtrArray *ph_stored_routes_blocking(
    int64_t site_id, int64_t deadline_us, GError **error);

/* The site's id 0: a new one. Names are checked by the caller; its own name is not in `names`. */
PH_IN_JOB bool ph_stored_site_put_blocking(const PhStoredSite *site, int64_t if_version,
    int64_t deadline_us, int64_t *id_out, GError **error);
PH_IN_JOB bool ph_stored_site_remove_blocking(int64_t site_id, int64_t deadline_us, GError **error);
/* The route's id 0: a new one. */
PH_IN_JOB bool ph_stored_route_put_blocking(
    const PhStoredRoute *route, int64_t deadline_us, int64_t *id_out, GError **error);
PH_IN_JOB bool ph_stored_route_remove_blocking(
    int64_t site_id, int64_t route_id, int64_t deadline_us, GError **error);

/* -- certificates ------------------------------------------------------------------------------ */

typedef struct PhStoredCertificate {
    char *name;
    char *chain; /* PEM, leaf first */
    GBytes *sealed_key;
    int64_t version;
    int64_t created_us;
} PhStoredCertificate;

void ph_stored_certificate_free(PhStoredCertificate *certificate);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredCertificate, ph_stored_certificate_free)

/* GPtrArray of PhStoredCertificate, by name. */
PH_IN_JOB GPtrArray *ph_stored_certificates_blocking(int64_t deadline_us, GError **error);
/* Another of the same name is replaced. */
PH_IN_JOB bool ph_stored_certificate_put_blocking(
    const PhStoredCertificate *certificate, int64_t deadline_us, GError **error);
PH_IN_JOB bool ph_stored_certificate_remove_blocking(
    const char *name, int64_t deadline_us, GError **error);

/* -- upstreams --------------------------------------------------------------------------------- */

typedef struct PhStoredUpstream {
    PhUpstream *upstream;    /* without its password */
    GBytes *sealed_password; /* null: none */
} PhStoredUpstream;

void ph_stored_upstream_free(PhStoredUpstream *stored);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredUpstream, ph_stored_upstream_free)

/* Items are PhStoredUpstream, by name. */
PH_IN_JOB PhPage *ph_stored_upstream_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error);
PH_IN_JOB PhStoredUpstream *ph_stored_upstream_find_blocking(
    const char *name, int64_t deadline_us, GError **error);
/* The upstream's id 0: a new one; else that of its name. */
PH_IN_JOB bool ph_stored_upstream_put_blocking(const PhStoredUpstream *stored, int64_t if_version,
    int64_t deadline_us, int64_t *id_out, GError **error);
PH_IN_JOB bool ph_stored_upstream_remove_blocking(
    const char *name, int64_t deadline_us, GError **error);

/* -- console sessions and API keys ------------------------------------------------------------- */

enum { PH_TOKEN_HASH_BYTES = 32 };

typedef struct PhStoredLogin {
    char *login;
    int role; /* PhRole */
    int64_t tenant_id;
    int64_t account_id;
    char *csrf; /* null for an API key */
    char *peer;
    int64_t version; /* of the account or operator when it logged in */
    int64_t expires_us;
} PhStoredLogin;

void ph_stored_login_free(PhStoredLogin *login);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredLogin, ph_stored_login_free)

PH_IN_JOB bool ph_console_session_add_blocking(const uint8_t hash[PH_TOKEN_HASH_BYTES],
    const PhStoredLogin *login, int64_t deadline_us, GError **error);
/* NOT_FOUND when it is over: by time, by a new password, by suspension, by removal. */
PH_IN_JOB PhStoredLogin *ph_console_session_find_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error);
PH_IN_JOB bool ph_console_session_remove_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error);
/* Those whose time is over. */
PH_IN_JOB bool ph_console_session_purge_blocking(int64_t deadline_us, GError **error);

typedef struct PhApiKey {
    int64_t id;
    char *label;
    int role;
    int64_t tenant_id;
    char *created_by;
    int64_t created_us;
    int64_t used_us; /* INT64_MIN: never */
    int64_t expires_us;
} PhApiKey;

void ph_api_key_free(PhApiKey *key);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhApiKey, ph_api_key_free)

PH_IN_JOB bool ph_api_key_add_blocking(const uint8_t hash[PH_TOKEN_HASH_BYTES], const PhApiKey *key,
    int64_t deadline_us, int64_t *id_out, GError **error);
/* Notes the use, at most once a minute. */
PH_IN_JOB PhApiKey *ph_api_key_find_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error);
PH_IN_JOB PhPage *ph_api_key_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error);
PH_IN_JOB bool ph_api_key_remove_blocking(int64_t id, int64_t deadline_us, GError **error);

/* -- operators and tenants --------------------------------------------------------------------- */

typedef struct PhOperator {
    char *name;
    int64_t tenant_id; /* 0: the whole installation */
    char *tenant;
    int64_t created_us;
} PhOperator;

void ph_operator_free(PhOperator *operator);

PH_IN_JOB PhPage *ph_operator_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error);

typedef struct PhTenant {
    int64_t id;
    char *name;
    int64_t n_domains;
    int64_t created_us;
} PhTenant;

void ph_tenant_free(PhTenant *tenant);

PH_IN_JOB PhPage *ph_tenant_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error);
/* NOT_FOUND. The installation's own is 0. */
PH_IN_JOB bool ph_tenant_find_blocking(
    const char *name, int64_t deadline_us, int64_t *id_out, GError **error);
/* CONFLICT while it has domains, sites, operators or scripts; the installation's own stays. */
PH_IN_JOB bool ph_tenant_remove_blocking(const char *name, int64_t deadline_us, GError **error);
