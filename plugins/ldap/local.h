/* local.h - what the files that answer for our own entries share
 *
 * Threads:  on the session's reactor.
 */
#pragma once

#include "ldap.h"
#include "reader.h"
#include "schema.h"

#define LDAP_OID_PAGES "1.2.840.113556.1.4.319"
#define LDAP_OID_MANAGE_DSA_IT "2.16.840.1.113730.3.4.2" /* RFC 3296: we have no referrals */
#define LDAP_OID_START_TLS "1.3.6.1.4.1.1466.20037"
#define LDAP_OID_WHO_AM_I "1.3.6.1.4.1.4203.1.11.3"
#define LDAP_OID_PASSWORD_MODIFY "1.3.6.1.4.1.4203.1.11.1"
#define LDAP_OID_CANCEL "1.3.6.1.1.8"

#define LDAP_SUBSCHEMA_NORMAL_DN "cn=subschema"

enum { LDAP_COOKIE_CODE_BYTES = 32 };

/* -- session.c --------------------------------------------------------------------------------- */

/* Writes what was built, and frees it. */
PH_ON_REACTOR void ldap_operation_answer(LdapOperation *operation, BerElement *answer);

/* -- route.c: who may, and who answers --------------------------------------------------------- */

typedef enum LdapRoute {
    LDAP_ROUTE_LOCAL,
    LDAP_ROUTE_LOCAL_FIRST, /* what is not ours is asked at an upstream: ldap_forward_elsewhere */
    LDAP_ROUTE_TAKEN,       /* it was forwarded: the operation is not ours any more */
} LdapRoute;

/* `dn` is normalised. An upstream for whatever nobody else answers for (its suffix is "") comes after
 * our own entries, any other before them. */
PH_ON_REACTOR LdapRoute ldap_route(LdapOperation *operation, const char *dn);
PH_ON_REACTOR void ldap_forward_elsewhere(LdapOperation *operation, const char *dn);

PH_ON_REACTOR bool ldap_may_read(const LdapSession *session);
/* Whose entries the session sees; below 0: all. */
PH_ON_REACTOR int64_t ldap_visible_tenant(const LdapSession *session);
/* Is there a critical control that local answers do not know? Pages are the search's own. */
bool ldap_has_unknown_critical(LdapSpan controls);

/* -- root-dse.c -------------------------------------------------------------------------------- */

/* Without the naming contexts of our own. */
PH_ON_REACTOR LdapEntry *ldap_root_dse(LdapSession *session);
