/* directory.h - the tree of our own entries
 *
 * Shape:    for each domain "dc=example,dc=test", below it ou=people, ou=groups and ou=contacts, below
 *           those the entries. What lies above domains ("dc=test") is there, too, so that a search may
 *           begin there or at the root.
 * Threads:  *_blocking in a job; the rest anywhere.
 */
#pragma once

#include "filter.h"

typedef enum LdapBaseKind {
    LDAP_BASE_ROOT,
    LDAP_BASE_DOMAIN, /* or above some */
    LDAP_BASE_UNIT,
    LDAP_BASE_ENTRY,
    LDAP_BASE_OTHER, /* nothing of ours is called so */
} LdapBaseKind;

/* What a name can be, by its form. */
typedef struct LdapBase {
    LdapBaseKind kind;
    char *domain; /* of its dc= parts; "" without any */
    bool has_unit;
    PhEntryKind unit; /* also of LDAP_BASE_OTHER, when it is below one */
    char *key;        /* LDAP_BASE_ENTRY */
} LdapBase;

/* `dn` is normalised. Always gives something, to be cleared. */
void ldap_base_init(LdapBase *base, const char *dn);
void ldap_base_clear(LdapBase *base);

/* Who sees what: a tenant's number; below 0: all. */
typedef struct LdapView {
    int64_t tenant_id;
    int64_t deadline_us;
} LdapView;

/* The entry of that name. Null without an error: there is none. */
PH_IN_JOB LdapEntry *ldap_find_blocking(const LdapView *view, const LdapBase *base, GError **error);
/* The nearest name above one that is not there; "" for none. Free it. */
PH_IN_JOB char *ldap_matched_blocking(const LdapView *view, const LdapBase *base, GError **error);
/* Visible domains (PhDomain) that are the given one or below it, by name; "": all. */
PH_IN_JOB GPtrArray *ldap_domains_blocking(
    const LdapView *view, const char *domain, GError **error);
