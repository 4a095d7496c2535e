/* request-check.h - is a request sound enough to be passed on over a shared connection?
 *
 * Shape:    a directory may answer a request that it cannot decode by cutting the connection, which
 *           here is shared with others. So what a client sent is walked once, before a byte of it goes
 *           on: every length lies inside its parent, and each operation and control is made as the
 *           grammar of RFC 4511 says. What the words mean is the directory's to judge.
 * Threads:  pure: anywhere. Linear time, no memory, no recursion.
 * Limits:   as ldap.h: filters 32 deep, 256 terms.
 * Sources:  RFC 4511 4.1.11, 4.5.1, 4.6 to 4.10, 4.12.
 */
#pragma once

#include "plugins/ldap/pdu.h"

enum {
    LDAP_FILTER_DEPTH_MAX = 32,
    LDAP_FILTER_TERMS_MAX = 256,
};

typedef struct LdapSearchParts {
    LdapSpan base; /* as the client wrote it */
    int32_t scope;
    int32_t deref;
    int32_t size_limit;
    int32_t time_limit;
    bool types_only;
    LdapSpan filter;     /* the whole element */
    LdapSpan attributes; /* contents of the list */
} LdapSearchParts;

/* `search_out` (may be null) is set for a search only. False: it must not be passed on. */
bool ldap_request_check(const LdapPdu *pdu, LdapSearchParts *search_out);
/* One filter, a whole element and nothing behind it. */
bool ldap_request_check_filter(LdapSpan filter);
/* The name of an extended request. False: malformed. */
bool ldap_request_extended_name(const LdapPdu *pdu, LdapSpan *name_out);

/* What stands in the value of a control. */
typedef enum LdapValueForm {
    LDAP_VALUE_NONE,
    LDAP_VALUE_BOOL,
    LDAP_VALUE_FILTER,
    LDAP_VALUE_TERMS,
    LDAP_VALUE_NAMES,
    LDAP_VALUE_PLAIN, /* nothing, or a list of elements without parts */
    LDAP_VALUE_DEREFERENCE,
    LDAP_VALUE_ANY, /* not looked at */
} LdapValueForm;

/* `value` has null bytes when there is none. */
bool ldap_request_check_value(LdapSpan value, LdapValueForm form);
