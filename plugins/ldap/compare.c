/* compare.c - has this entry that value? (RFC 4511 4.10) */
#include "directory.h"
#include "dn.h"
#include "local.h"

typedef struct Compare {
    PhRef ref;
    GBytes *bytes; /* spans point into it */
    char *dn;
    LdapBase base;
    LdapView view;
    LdapAttribute attribute;
    LdapSpan value;
    bool may_forward;
    bool is_elsewhere;
    LdapResult result;
    char *matched;
    GError *error;
} Compare;

static void
unref_compare(void *data)
{
    Compare *compare = data;
    if (!ph_ref_drop(&compare->ref))
        return;
    g_bytes_unref(compare->bytes);
    g_free(compare->dn);
    ldap_base_clear(&compare->base);
    g_free(compare->matched);
    g_clear_error(&compare->error);
    g_free(compare);
}

static LdapResult
compare_value(const Compare *compare, const LdapEntry *entry)
{
    if (compare->attribute == LDAP_ATTR_NONE)
        return LDAP_UNDEFINED_ATTRIBUTE_TYPE;
    bool has_it = false;
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++)
        has_it |= entry->values[i] != NULL && ldap_attribute_is_a(i, compare->attribute);
    if (!has_it)
        return LDAP_NO_SUCH_ATTRIBUTE;
    switch (ldap_value_match(entry, compare->attribute, compare->value)) {
    case LDAP_TRUE:
        return LDAP_COMPARE_TRUE;
    case LDAP_FALSE:
        return LDAP_COMPARE_FALSE;
    case LDAP_UNDEFINED:
        break;
    }
    return LDAP_INAPPROPRIATE_MATCHING;
}

static void
run_compare(void *data)
{
    ph_assert_in_job();
    Compare *compare = data;
    g_autoptr(LdapEntry) entry =
        ldap_find_blocking(&compare->view, &compare->base, &compare->error);
    if (entry != NULL) {
        compare->result = compare_value(compare, entry);
        return;
    }
    if (compare->error != NULL)
        return;
    compare->is_elsewhere = compare->may_forward;
    compare->result = LDAP_NO_SUCH_OBJECT;
    if (!compare->is_elsewhere)
        compare->matched = ldap_matched_blocking(&compare->view, &compare->base, &compare->error);
}

static void
compare_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    const Compare *compare = data;
    LdapOperation *operation = ldap_operation_of(task);
    if (compare->error != NULL)
        ldap_operation_fail(operation, compare->error);
    else if (compare->is_elsewhere)
        ldap_forward_elsewhere(operation, compare->dn);
    else
        ldap_operation_finish(operation, compare->result, compare->matched, NULL);
}

static bool
read_request(LdapSpan op, LdapSpan *dn_out, LdapSpan *attribute_out, LdapSpan *value_out)
{
    LdapSpan assertion;
    g_autoptr(LdapReader) reader = ldap_reader_new(op);
    if (!ldap_read(reader, LDAP_TAG_OCTETS, dn_out) ||
        !ldap_read(reader, LDAP_TAG_SEQUENCE, &assertion))
        return false;
    ldap_reader_set(reader, assertion);
    return ldap_read(reader, LDAP_TAG_OCTETS, attribute_out) &&
           ldap_read(reader, LDAP_TAG_OCTETS, value_out);
}

void
ldap_compare(LdapOperation *operation)
{
    LdapSession *session = operation->session;
    LdapSpan name;
    LdapSpan attribute;
    LdapSpan value;
    if (!read_request(operation->pdu.op, &name, &attribute, &value)) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed request");
        return;
    }
    g_autofree char *dn = ldap_dn_normalize(name.bytes, name.length);
    if (dn == NULL) {
        ldap_operation_finish(operation, LDAP_INVALID_DN_SYNTAX, NULL, "a malformed name");
        return;
    }
    LdapRoute route = ldap_route(operation, dn);
    if (route == LDAP_ROUTE_TAKEN)
        return;
    if (!ldap_may_read(session)) {
        ldap_operation_finish(operation, LDAP_INSUFFICIENT_ACCESS, NULL, "log in first");
        return;
    }
    if (ldap_has_unknown_critical(operation->pdu.controls)) {
        ldap_operation_finish(operation, LDAP_UNAVAILABLE_CRITICAL_EXTENSION, NULL,
            "a critical control is not known");
        return;
    }
    Compare *compare = g_new0(Compare, 1);
    ph_ref_init(&compare->ref);
    compare->bytes = g_bytes_ref(operation->bytes);
    ldap_base_init(&compare->base, dn);
    compare->dn = g_steal_pointer(&dn);
    compare->view.tenant_id = ldap_visible_tenant(session);
    compare->view.deadline_us =
        ph_monotonic_us() + ph_setting_int("ldap.search.max_seconds") * G_USEC_PER_SEC;
    compare->attribute = ldap_attribute_find(attribute);
    compare->value = value;
    compare->may_forward = route == LDAP_ROUTE_LOCAL_FIRST;
    ph_task_run(&operation->task, PH_LANE_WEB, run_compare, compare_done, compare, unref_compare);
}
