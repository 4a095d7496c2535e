/* root-dse.c - what this server can do, as it is just now: nothing that does not work is listed */
#include "local.h"

#include <string.h>

/* Would StartTLS be taken now? */
static bool
may_start_tls(const LdapSession *session)
{
    ph_assert_on_reactor();
    return !ph_connection_is_secure(session->base.connection) &&
           session->base.service->tls == PH_TLS_START && ph_tls_is_available();
}

LdapEntry *
ldap_root_dse(LdapSession *session)
{
    static const char *const classes[] = { "top", "extensibleObject", NULL };
    static const char *const controls[] = { LDAP_OID_PAGES, LDAP_OID_MANAGE_DSA_IT, NULL };
    static const char *const extensions[] = { LDAP_OID_WHO_AM_I, LDAP_OID_PASSWORD_MODIFY,
        LDAP_OID_CANCEL, NULL };
    /* "+" for operational attributes (RFC 3673), "(&)" and "(|)" (RFC 4526). */
    static const char *const features[] = { "1.3.6.1.4.1.4203.1.5.1", "1.3.6.1.4.1.4203.1.5.3",
        NULL };
    LdapEntry *entry = ldap_entry_new(g_strdup(""));
    ldap_entry_add_all(entry, LDAP_ATTR_OBJECT_CLASS, classes);
    ldap_entry_add(entry, LDAP_ATTR_SUPPORTED_LDAP_VERSION, "3");
    ldap_entry_add_all(entry, LDAP_ATTR_SUPPORTED_CONTROL, controls);
    ldap_entry_add_all(entry, LDAP_ATTR_SUPPORTED_EXTENSION, extensions);
    if (may_start_tls(session))
        ldap_entry_add(entry, LDAP_ATTR_SUPPORTED_EXTENSION, LDAP_OID_START_TLS);
    ldap_entry_add_all(entry, LDAP_ATTR_SUPPORTED_FEATURES, features);
    if (ph_login_may_send_password(session->base.connection))
        ldap_entry_add(entry, LDAP_ATTR_SUPPORTED_SASL_MECHANISMS, "PLAIN");
    ldap_entry_add(entry, LDAP_ATTR_VENDOR_NAME, "Posthouse");
    g_autoptr(PhUpstreams) upstreams = ph_upstreams_current();
    for (size_t i = 0; i < ph_upstreams_count(upstreams); i++)
        ldap_entry_add(entry, LDAP_ATTR_NAMING_CONTEXTS, ph_upstreams_at(upstreams, i)->suffix);
    return entry;
}
