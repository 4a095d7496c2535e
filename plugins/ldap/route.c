/* route.c - who answers a request, and who may ask; changes, which are only forwarded */
#include "dn.h"
#include "local.h"

#include <string.h>

bool
ldap_may_read(const LdapSession *session)
{
    return session->who == LDAP_WHO_ACCOUNT || ph_setting_bool("ldap.anonymous.read");
}

int64_t
ldap_visible_tenant(const LdapSession *session)
{
    return session->who == LDAP_WHO_ACCOUNT ? session->identity->tenant_id : -1;
}

static const PhUpstream *
find_upstream(const LdapOperation *operation, const char *dn)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    return ldap_proxy_route(
        ldap_state(session), ph_connection_reactor(session->base.connection), dn);
}

LdapRoute
ldap_route(LdapOperation *operation, const char *dn)
{
    const PhUpstream *upstream = find_upstream(operation, dn);
    if (upstream == NULL)
        return LDAP_ROUTE_LOCAL;
    if (upstream->suffix[0] == '\0' && ldap_may_read(operation->session))
        return LDAP_ROUTE_LOCAL_FIRST;
    ldap_proxy_forward(operation, upstream);
    return LDAP_ROUTE_TAKEN;
}

void
ldap_forward_elsewhere(LdapOperation *operation, const char *dn)
{
    const PhUpstream *upstream = find_upstream(operation, dn);
    if (upstream == NULL) {
        ldap_operation_finish(operation, LDAP_NO_SUCH_OBJECT, NULL, NULL);
        return;
    }
    if (operation->free_data != NULL)
        operation->free_data(operation->data);
    operation->data = NULL;
    operation->free_data = NULL;
    ldap_proxy_forward(operation, upstream);
}

bool
ldap_has_unknown_critical(LdapSpan controls)
{
    LdapControl control;
    while (ldap_control_next(&controls, &control) == LDAP_PARSE_DONE)
        if (control.is_critical && !ldap_span_is(control.oid, LDAP_OID_MANAGE_DSA_IT))
            return true;
    return false;
}

/* The name that a change is about: all of a delete, the first part of the others. */
static bool
read_target(const LdapOperation *operation, LdapSpan *dn_out)
{
    if (operation->tag == LDAP_REQ_DELETE) {
        *dn_out = operation->pdu.op;
        return true;
    }
    g_autoptr(LdapReader) reader = ldap_reader_new(operation->pdu.op);
    return ldap_read(reader, LDAP_TAG_OCTETS, dn_out);
}

void
ldap_change(LdapOperation *operation)
{
    LdapSpan target;
    if (!read_target(operation, &target)) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed request");
        return;
    }
    g_autofree char *dn = ldap_dn_normalize(target.bytes, target.length);
    if (dn == NULL) {
        ldap_operation_finish(operation, LDAP_INVALID_DN_SYNTAX, NULL, "a malformed name");
        return;
    }
    const PhUpstream *upstream = find_upstream(operation, dn);
    if (upstream != NULL)
        ldap_proxy_forward(operation, upstream);
    else if (!ldap_may_read(operation->session))
        ldap_operation_finish(operation, LDAP_INSUFFICIENT_ACCESS, NULL, "log in first");
    else
        ldap_operation_finish(operation, LDAP_UNWILLING_TO_PERFORM, NULL,
            "entries of this server are changed in its console");
}
