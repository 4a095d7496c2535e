/* directory.h - what a directory shows of this installation, and the directories behind ours
 *
 * Shape:    an entry is an account, a group or a contact of one domain. A group is an alias that does
 *           not just lead to one account; an alias that does is one more address of that account.
 *           Contacts are people outside whom a domain keeps in its address book. An upstream is a
 *           directory elsewhere that answers for a suffix; all upstreams of one moment are one
 *           immutable, counted snapshot; a change makes a new one on every node.
 * Units:    microseconds since 1970 UTC; `deadline_us` is of the monotonic clock.
 * Threads:  *_blocking in a job; the rest anywhere.
 * Errors:   SYNTAX, NOT_FOUND, CONFLICT, UNAVAILABLE (the database is away: never "no").
 * Sources:  RFC 2798 (inetOrgPerson), RFC 4516 (LDAP URLs), RFC 4514 (names).
 */
#pragma once

#include "posthouse/account.h"

/* -- entries ----------------------------------------------------------------------------------- */

typedef enum PhEntryKind {
    PH_ENTRY_ACCOUNT,
    PH_ENTRY_GROUP,
    PH_ENTRY_CONTACT,
} PhEntryKind;

typedef struct PhEntry {
    PhEntryKind kind;
    int64_t id; /* of the account or contact; of a group 0 */
    int64_t domain_id;
    int64_t tenant_id;
    char *domain;        /* A-labels */
    char *key;           /* unique in its kind and domain: the address; of a contact its number */
    char *name;          /* to show; never "" */
    char *given_name;    /* contacts; else "" */
    char *surname;       /* contacts; else "" */
    char *organization;  /* contacts; else "" */
    char *telephone;     /* contacts; else "" */
    GPtrArray *mail;     /* char *, the principal address first */
    GPtrArray *accounts; /* char *, of a group: its local targets that are accounts */
    GPtrArray *others;   /* char *, of a group: its other targets */
    int64_t created_us;
    int64_t version;
    char *place; /* a list goes on behind it with this as `after` */
} PhEntry;

PH_API void ph_entry_free(PhEntry *entry);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhEntry, ph_entry_free)

typedef struct PhEntryQuery {
    int64_t tenant_id; /* whose entries; below 0: of every tenant */
    /* Only of this domain (A-labels) ... */
    const char *domain;
    /* ... or of those below it, too: "test" has "example.test". Null: false. */
    bool domains_below;
    unsigned kinds;  /* 1 << PhEntryKind, or-ed */
    const char *key; /* only the entry of this key; null: any */
    /* Null, or texts, null-terminated, of which one must be in an entry's names or addresses, without
     * regard to the case of ASCII letters. What else is asked is the caller's to check: this narrows
     * what the database gives. A text of fewer than three ASCII letters or digits narrows nothing. */
    const char *const *texts;
} PhEntryQuery;

/* Items are PhEntry, by kind, domain and key; suspended and closed accounts are not there. */
PH_API PH_IN_JOB PhPage *ph_entry_list_blocking(const PhEntryQuery *query, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);

/* -- contacts ---------------------------------------------------------------------------------- */

typedef struct PhContact {
    int64_t id;
    int64_t tenant_id;
    char *domain; /* A-labels */
    char *name;
    char *given_name;
    char *surname;
    char *organization;
    char *telephone;
    char *mail; /* addresses divided by ","; may be "" */
    int64_t version;
    int64_t created_us;
} PhContact;

PH_API void ph_contact_free(PhContact *contact);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhContact, ph_contact_free)

/* The contact's id 0: a new one. CONFLICT when it is another version than `if_version`; below 0:
 * whatever it is. */
PH_API PH_IN_JOB bool ph_contact_put_blocking(const PhContact *contact, int64_t if_version,
    int64_t deadline_us, int64_t *id_out, GError **error);
PH_API PH_IN_JOB PhContact *ph_contact_find_blocking(
    int64_t id, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_contact_remove_blocking(int64_t id, int64_t deadline_us, GError **error);
/* Items are PhContact, by name; of the filter the tenant, domain and text count. */
PH_API PH_IN_JOB PhPage *ph_contact_list_blocking(const PhListFilter *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);

/* -- upstreams --------------------------------------------------------------------------------- */

/* As whom an upstream is asked for a client that has logged in. */
typedef enum PhUpstreamIdentity {
    PH_UPSTREAM_AS_CLIENT,  /* on a connection of its own that is bound as the client */
    PH_UPSTREAM_AS_SERVICE, /* on shared connections bound as `bind_dn`, which sees for all */
    PH_UPSTREAM_FOR_CLIENT, /* on shared connections, each request with the control of RFC 4370 */
} PhUpstreamIdentity;

typedef struct PhUpstream {
    int64_t id;
    char *name;   /* unique: what administrators call it */
    char *suffix; /* a distinguished name, as it was typed; "": whatever nobody else answers for */
    char *
        urls; /* "ldap://a.example:389 ldaps://b.example": in the order of preference, divided by spaces */
    bool start_tls;     /* StartTLS on ldap:// before anything else */
    char *ca;           /* PEM to trust for it; "": the system's */
    char *bind_dn;      /* "": anonymous */
    PhSecret *password; /* of `bind_dn`; null: none */
    PhUpstreamIdentity identity;
    bool anonymous;     /* clients that have not logged in may read */
    bool read_only;     /* changes are refused here */
    int connections;    /* shared ones for each reactor and server */
    int64_t timeout_ms; /* for one request, from its first byte to its answer */
    int64_t cache_s;    /* for how long an answer may be given again; 0: never */
    int64_t version;
    int64_t created_us;
} PhUpstream;

PH_API void ph_upstream_free(PhUpstream *upstream);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhUpstream, ph_upstream_free)

typedef struct PhUpstreams PhUpstreams;

/* The current snapshot; a new reference; never null. */
PH_API PhUpstreams *ph_upstreams_current(void);
PH_API PhUpstreams *ph_upstreams_ref(PhUpstreams *upstreams);
PH_API void ph_upstreams_unref(PhUpstreams *upstreams);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhUpstreams, ph_upstreams_unref)
/* Another number when something changed: what a cache compares. One atomic load. */
PH_API uint64_t ph_upstreams_generation(void);
PH_API size_t ph_upstreams_count(const PhUpstreams *upstreams);
PH_API const PhUpstream *ph_upstreams_at(const PhUpstreams *upstreams, size_t index);

/* For the plugin's actions. By name, from the database; `password` is null in what is listed. */
PH_API PH_IN_JOB PhPage *ph_upstream_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB PhUpstream *ph_upstream_find_blocking(
    const char *name, int64_t deadline_us, GError **error);
/* The upstream's id 0: a new one. A null password keeps what is stored; an empty one takes it away.
 * The configuration of this node has it when this returns. */
PH_API PH_IN_JOB bool ph_upstream_put_blocking(const PhUpstream *upstream, int64_t if_version,
    int64_t deadline_us, int64_t *id_out, GError **error);
PH_API PH_IN_JOB bool ph_upstream_remove_blocking(
    const char *name, int64_t deadline_us, GError **error);
