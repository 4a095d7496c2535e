/* ldap-request.c - fuzzes the check of what is passed on: what it lets through is whole to another reader
 * too, and no beginning of it is */
#include "plugins/ldap/filter.h"
#include "plugins/ldap/request-check.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH_MAX = 128 };

/* Does every element end inside its parent? Another way to walk than the check's: by depth, without
 * knowing what is what. */
static bool
is_nested(LdapSpan span)
{
    const uint8_t *ends[DEPTH_MAX];
    size_t depth = 0;
    if (span.length == 0)
        return true;
    ends[0] = span.bytes + span.length;
    const uint8_t *at = span.bytes;
    for (;;) {
        while (at == ends[depth]) {
            if (depth == 0)
                return true;
            depth--;
        }
        LdapSpan rest = { .bytes = at, .length = (size_t)(ends[depth] - at) };
        uint8_t tag;
        LdapSpan contents;
        if (!ldap_element_next(&rest, &tag, &contents))
            return false;
        at = contents.bytes + contents.length;
        if ((tag & 0x20) == 0)
            continue;
        if (++depth == DEPTH_MAX)
            return false;
        ends[depth] = at;
        at = contents.bytes;
    }
}

static void
check_search(const LdapPdu *pdu, const LdapSearchParts *parts)
{
    const uint8_t *end = pdu->op.bytes + pdu->op.length;
    g_assert(parts->base.bytes >= pdu->op.bytes);
    g_assert(parts->filter.bytes > parts->base.bytes);
    g_assert(parts->attributes.bytes + parts->attributes.length == end);
    g_assert(parts->filter.length >= 2);
    /* The key of the cache is made by another reader: it takes what this one takes, within its limits. */
    LdapFilter *filter = NULL;
    LdapParse parsed = ldap_filter_parse(parts->filter, &filter);
    g_assert(parsed == LDAP_PARSE_DONE || parsed == LDAP_PARSE_TOO_LARGE);
    if (parsed == LDAP_PARSE_DONE)
        ldap_filter_free(filter);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length;
    LdapPdu pdu;
    if (ldap_pdu_frame(data, size, LDAP_PDU_CLIENT_MAX, &length) != LDAP_PARSE_DONE ||
        length != size)
        return 0;
    /* With the one byte behind it that is kept in the server, too. */
    g_autofree uint8_t *copy = g_malloc0(size + 1);
    memcpy(copy, data, size);
    for (LdapValueForm form = LDAP_VALUE_NONE; form <= LDAP_VALUE_DEREFERENCE; form++)
        if (ldap_request_check_value((LdapSpan){ .bytes = copy, .length = size }, form) &&
            form != LDAP_VALUE_NONE)
            g_assert(is_nested((LdapSpan){ .bytes = copy, .length = size }));
    LdapSearchParts parts = { 0 };
    if (!ldap_pdu_parse(copy, size, &pdu) || !ldap_request_check(&pdu, &parts))
        return 0;
    if (pdu.tag != LDAP_REQ_DELETE)
        g_assert(is_nested(pdu.op));
    g_assert(is_nested(pdu.controls));
    if (pdu.tag == LDAP_REQ_SEARCH)
        check_search(&pdu, &parts);
    return 0;
}
