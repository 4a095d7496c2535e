/* filter.h - search filters
 *
 * Shape:    terms in one array, each before its own terms, as they stand in the request. Matching gives
 *           one of three answers (RFC 4511 4.5.1.7): a term about what we do not know is undefined,
 *           and stays so under "not".
 * Threads:  pure: anywhere. Time is linear in terms times the entry's size; nothing recurses.
 * Errors:   BAD: malformed; TOO_LARGE: deeper or longer than the limits.
 * Limits:   depth 32, 256 terms, in which parts of substrings count.
 * Sources:  RFC 4511 4.5.1.7, 4515 (text), 4518 (folding), 4526 ("(&)" is true, "(|)" false).
 */
#pragma once

#include "schema.h"

enum {
    LDAP_FILTER_MAX_DEPTH = 32,
    LDAP_FILTER_MAX_TERMS = 256,
    LDAP_FILTER_MAX_TEXTS = 16,
};

typedef enum LdapTruth {
    LDAP_FALSE,
    LDAP_UNDEFINED,
    LDAP_TRUE,
} LdapTruth;

typedef struct LdapFilter LdapFilter;

/* `filter` is the whole element; the filter points into its bytes. */
LdapParse ldap_filter_parse(LdapSpan filter, LdapFilter **filter_out);
void ldap_filter_free(LdapFilter *filter);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LdapFilter, ldap_filter_free)

LdapTruth ldap_filter_match(const LdapFilter *filter, const LdapEntry *entry);
/* Is this value of the attribute the asserted one? What a compare asks, too. */
LdapTruth ldap_value_match(const LdapEntry *entry, LdapAttribute attribute, LdapSpan value);

/* What an entry of the store has at least to have to match, for PhEntryQuery. */
typedef struct LdapNarrowing {
    unsigned kinds;   /* 1 << PhEntryKind, or-ed; 0: nothing can match */
    unsigned n_texts; /* 0: any text */
    const char *texts[LDAP_FILTER_MAX_TEXTS + 1]; /* null at the end; the filter's */
} LdapNarrowing;
void ldap_filter_narrow(const LdapFilter *filter, LdapNarrowing *narrowing_out);

/* The filter as text (RFC 4515), names of attributes in lower case: equal texts ask the same. */
char *ldap_filter_text(const LdapFilter *filter);
/* The same from a filter's element; null when it is malformed or too large. Free it. */
char *ldap_filter_key(LdapSpan filter);
