/* account.h - tenants, domains, accounts, aliases, and where a recipient's mail goes
 *
 * Shape:    account (id, tenant, domain, address, state, quota); addresses are normalised (see
 *           ph_address_normalize in message-address.h) and at most 254 bytes.
 * Units:    bytes; microseconds since 1970 UTC; `deadline_us` is of the monotonic clock.
 * Threads:  *_blocking in a job; the rest anywhere.
 * Errors:   SYNTAX, NOT_FOUND, CONFLICT, LIMIT, UNAVAILABLE (the database is away: never "no").
 * Sources:  RFC 5321 2.3.11, 4.5.1 (postmaster).
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhAccountState {
    PH_ACCOUNT_ACTIVE,    /* receives and logs in */
    PH_ACCOUNT_SUSPENDED, /* receives, does not log in */
    PH_ACCOUNT_CLOSING,   /* neither; its data is kept until it is erased */
    PH_ACCOUNT_ERASED,    /* only the address remains, so that it is not given to someone else */
} PhAccountState;

typedef struct PhAccount {
    int64_t id;
    int64_t domain_id;
    int64_t tenant_id;
    char *address;
    char *display_name;
    PhAccountState state;
    int64_t quota_bytes;    /* 0: none */
    int64_t quota_messages; /* 0: none */
    int64_t used_bytes;
    int64_t used_messages;
    int64_t created_us;
    int64_t version; /* raised by each change: caches compare it */
} PhAccount;

PH_API void ph_account_free(PhAccount *account);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhAccount, ph_account_free)

/* A plain list of what was asked for, with the place to go on from. */
typedef struct PhPage {
    GPtrArray *items; /* of the listed type, freed with the page */
    char *next;       /* pass as `after` for the next page; null at the end */
} PhPage;

PH_API void ph_page_free(PhPage *page);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhPage, ph_page_free)

typedef struct PhDomain {
    int64_t id;
    int64_t tenant_id;
    char *name;       /* UTF-8, lower case */
    char *name_ascii; /* the same in A-labels */
    int64_t n_accounts;
    int64_t created_us;
} PhDomain;

PH_API void ph_domain_free(PhDomain *domain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhDomain, ph_domain_free)

typedef struct PhAlias {
    char *address;
    char *target; /* one target; an address with several targets is several aliases */
} PhAlias;

PH_API void ph_alias_free(PhAlias *alias);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhAlias, ph_alias_free)

/* -- management -------------------------------------------------------------------------------- */

PH_API PH_IN_JOB bool ph_tenant_add_blocking(
    const char *name, int64_t deadline_us, int64_t *tenant_id_out, GError **error);

/* `tenant_id` 0: the installation's own tenant, which always exists. */
PH_API PH_IN_JOB bool ph_domain_add_blocking(const char *name, int64_t tenant_id,
    int64_t deadline_us, int64_t *domain_id_out, GError **error);
/* CONFLICT while it has accounts or aliases. */
PH_API PH_IN_JOB bool ph_domain_remove_blocking(
    const char *name, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB PhDomain *ph_domain_find_blocking(
    const char *name, int64_t deadline_us, GError **error);

/* What a list is of; zeroed members do not matter. */
typedef struct PhListFilter {
    int64_t tenant_id;  /* 0: of all */
    const char *domain; /* accounts and aliases of this one */
    const char *target; /* aliases that lead to this address */
    const char *text;   /* a substring */
    unsigned states;    /* accounts: 1 << PhAccountState, or-ed */
} PhListFilter;

/* Items are PhDomain, by name. */
PH_API PH_IN_JOB PhPage *ph_domain_list_blocking(const PhListFilter *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);

/* Makes the account with INBOX, Drafts, Sent, Junk, Trash and Archive (special use set,
 * subscribed). `verifier` is a password hash made by core/identity, or null for an account without
 * a password. */
PH_API PH_IN_JOB bool ph_account_add_blocking(const char *address, const char *display_name,
    const char *verifier, int64_t deadline_us, int64_t *account_id_out, GError **error);
PH_API PH_IN_JOB PhAccount *ph_account_find_blocking(
    const char *address, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_account_set_state_blocking(
    int64_t account_id, PhAccountState state, int64_t deadline_us, GError **error);

typedef struct PhAccountChange {
    const char *display_name; /* null: as it is */
    int64_t quota_bytes;      /* below 0: as it is */
    int64_t quota_messages;
    int64_t if_version; /* below 0: whatever it is */
} PhAccountChange;

/* CONFLICT when it is another version. */
PH_API PH_IN_JOB bool ph_account_change_blocking(
    int64_t account_id, const PhAccountChange *change, int64_t deadline_us, GError **error);
/* Items are PhAccount, by address. */
PH_API PH_IN_JOB PhPage *ph_account_list_blocking(const PhListFilter *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);

/* An alias of a local domain; the target may be local or outside. */
PH_API PH_IN_JOB bool ph_alias_add_blocking(
    const char *address, const char *target, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_alias_remove_blocking(
    const char *address, const char *target, int64_t deadline_us, GError **error);
/* Items are PhAlias. */
PH_API PH_IN_JOB PhPage *ph_alias_list_blocking(const PhListFilter *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);

/* -- credentials (core/identity is the caller; a verifier is text that only it understands) ---- */

typedef enum PhCredentialKind {
    PH_CREDENTIAL_PASSWORD, /* at most one an account */
    PH_CREDENTIAL_APP,      /* app passwords, with a label */
} PhCredentialKind;

typedef struct PhCredential {
    int64_t id;
    PhCredentialKind kind;
    char *verifier;
    char *label;
    int64_t created_us;
    int64_t last_used_us; /* INT64_MIN: never */
    int64_t expires_us;   /* INT64_MAX: never */
} PhCredential;

PH_API void ph_credential_free(PhCredential *credential);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhCredential, ph_credential_free)

/* What a login needs, in one round trip: the account or operator and its credentials. */
typedef struct PhLoginRecord {
    PhAccount *account;         /* null for an operator */
    char *operator_name;        /* null for an account */
    int64_t operator_tenant_id; /* 0: of the whole installation */
    GPtrArray *credentials;     /* PhCredential */
    int64_t version;
} PhLoginRecord;

PH_API void ph_login_record_free(PhLoginRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhLoginRecord, ph_login_record_free)

/* NOT_FOUND when there is no such login; an operator's login has no "@". */
PH_API PH_IN_JOB PhLoginRecord *ph_login_record_blocking(
    const char *login, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_password_set_blocking(
    const char *login, const char *verifier, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_app_password_add_blocking(int64_t account_id, const char *label,
    const char *verifier, int64_t expires_us, int64_t deadline_us, int64_t *id_out, GError **error);
PH_API PH_IN_JOB bool ph_app_password_remove_blocking(
    int64_t account_id, int64_t id, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_credential_used_blocking(
    int64_t account_id, int64_t credential_id, int64_t deadline_us, GError **error);
/* `tenant_id` 0: of the whole installation. */
PH_API PH_IN_JOB bool ph_operator_add_blocking(
    const char *name, const char *verifier, int64_t tenant_id, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_operator_remove_blocking(
    const char *name, int64_t deadline_us, GError **error);

/* -- where mail for an address goes ------------------------------------------------------------ */

typedef enum PhRouteKind {
    PH_ROUTE_LOCAL,   /* every target is a local account */
    PH_ROUTE_OUTSIDE, /* the domain is not ours, or an alias leads outside */
    PH_ROUTE_UNKNOWN, /* the domain is ours, the local part is not known, or the account is closed */
} PhRouteKind;

typedef struct PhRoute {
    PhRouteKind kind;
    bool domain_is_local;
    int64_t tenant_id;  /* of the local domain, else -1 */
    GArray *accounts;   /* int64_t account ids, each once, ascending */
    GPtrArray *outside; /* addresses outside */
    bool over_quota;    /* some account is at its quota now */
} PhRoute;

PH_API void ph_route_free(PhRoute *route);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhRoute, ph_route_free)

/* Expands aliases (to a depth of 10, each address once), cuts the plus-suffix where the whole local
 * part is unknown, and answers "postmaster" of any local domain (and bare) with its alias or,
 * without one, with UNKNOWN. Never fails for an unknown address: that is an answer. */
PH_API PH_IN_JOB PhRoute *ph_route_resolve_blocking(
    const char *address, int64_t deadline_us, GError **error);
