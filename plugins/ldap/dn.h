/* dn.h - distinguished names
 *
 * Shape:    the normal form of a name is text in which equal names are equal bytes: types in lower
 *           case and by their usual names, values without regard to case and to the number of spaces,
 *           one way to escape, the parts of a multi-valued RDN in order. "" is the root.
 * Threads:  pure: anywhere. Linear in the length of the name.
 * Errors:   null: malformed, or beyond the limits.
 * Sources:  RFC 4514 (spaces around "," "=" "+" are taken, as in RFC 2253); RFC 4518 2.6.1 (spaces).
 */
#pragma once

#include "pdu.h"

enum {
    LDAP_DN_MAX_BYTES = 8 * 1024,
    LDAP_DN_MAX_RDNS = 64,
    LDAP_RDN_MAX_PARTS = 16,
};

/* Free it. */
char *ldap_dn_normalize(const uint8_t *bytes, size_t length);
/* Is the name the suffix, or below it? Both are normalised; by whole RDNs; below "" is everything. */
bool ldap_dn_is_below(const char *dn, const char *suffix);
/* The name without its first RDN; points into it. Null for the root. */
const char *ldap_dn_parent(const char *dn);
/* The value of the first RDN when it has only one part and this type; null otherwise. Free it. */
char *ldap_dn_value(const char *dn, const char *type);
/* Writes a value as it stands in a name. */
void ldap_dn_append_value(GString *out, const char *value, size_t length);

/* A text that is the same for texts that differ in case or in the number of spaces only. Bytes that are
 * not UTF-8 stand for themselves. */
GString *ldap_fold(const void *bytes, size_t length);
