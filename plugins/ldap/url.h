/* url.h - where a server of an upstream directory is
 *
 * Shape:    "ldap://HOST[:PORT]" or "ldaps://HOST[:PORT]", nothing behind it but a "/"; an IPv6 address
 *           stands in brackets.
 * Threads:  anywhere.
 * Errors:   SYNTAX.
 * Sources:  RFC 4516 section 2.
 */
#pragma once

#include "posthouse/base.h"

/* `host_out` is to be freed; it is without brackets. */
bool ldap_url_parse(const char *url, char **host_out, int *port_out, bool *tls_out, GError **error);
