/* ldap-pdu.c - fuzz target: framing, the envelope, controls and elements, compared with liblber's reading
 * of the same bytes */
#include "plugins/ldap/reader.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void
check_inside(LdapSpan span, const uint8_t *start, const uint8_t *end)
{
    if (span.bytes != NULL)
        g_assert_true(span.bytes >= start && span.bytes + span.length <= end);
}

/* liblber takes tags of more bytes and lengths of up to eight, which LDAP has no use for. */
static void
compare_with_referee(BerElement *referee, LdapSpan at)
{
    struct berval whole = { .bv_len = at.length, .bv_val = (char *)(uintptr_t)at.bytes };
    ber_init2(referee, &whole, 0);
    struct berval expected;
    ber_tag_t expected_tag = ber_peek_element(referee, &expected);
    LdapSpan contents;
    uint8_t tag;
    LdapSpan rest = at;
    bool good = ldap_element_next(&rest, &tag, &contents);
    bool is_odd = at.length < 2 || (at.bytes[0] & 0x1f) == 0x1f || at.bytes[1] > 0x84;
    if (!good) {
        g_assert_true(expected_tag == LBER_DEFAULT || is_odd);
        return;
    }
    g_assert_true(expected_tag == tag);
    g_assert_true((const uint8_t *)expected.bv_val == contents.bytes);
    g_assert_true(expected.bv_len == contents.length);
    check_inside(contents, at.bytes, at.bytes + at.length);
    g_assert_true(rest.bytes == contents.bytes + contents.length);
}

static void
walk(BerElement *referee, LdapSpan at)
{
    compare_with_referee(referee, at);
    LdapSpan contents;
    uint8_t tag;
    int32_t number;
    bool value;
    while (ldap_element_next(&at, &tag, &contents)) {
        compare_with_referee(referee, contents);
        (void)ldap_span_int(contents, &number);
        (void)ldap_span_bool(contents, &value);
        g_free(ldap_span_text(contents));
    }
}

/* What liblber gives behind our checks is the same as what is read by hand. */
static void
read_both(LdapSpan at)
{
    g_autoptr(LdapReader) reader = ldap_reader_new(at);
    LdapSpan contents;
    LdapSpan other;
    uint8_t tag;
    uint8_t other_tag;
    while (ldap_element_next(&at, &tag, &contents)) {
        int32_t number;
        int32_t other_number;
        if (tag == 0)
            return; /* nothing has this tag */
        bool is_int = ldap_span_int(contents, &number);
        if (is_int && tag == LDAP_TAG_INTEGER) {
            g_assert_true(ldap_read_int(reader, tag, &other_number));
            g_assert_cmpint(number, ==, other_number);
        } else {
            g_assert_true(ldap_read_any(reader, &other_tag, &other));
            g_assert_true(other_tag == tag && other.bytes == contents.bytes);
            g_assert_cmpuint(other.length, ==, contents.length);
        }
        g_assert_cmpuint(ldap_reader_left(reader), ==, at.length);
    }
}

static void
check_message(BerElement *referee, const uint8_t *bytes, size_t length)
{
    LdapPdu pdu;
    if (!ldap_pdu_parse(bytes, length, &pdu))
        return;
    g_assert_cmpint(pdu.id, >=, 0);
    check_inside(pdu.op, bytes, bytes + length);
    check_inside(pdu.controls, bytes, bytes + length);
    check_inside(pdu.rest, bytes, bytes + length);
    g_assert_true(pdu.rest.bytes + pdu.rest.length == bytes + length);
    LdapControl control;
    LdapSpan at = pdu.controls;
    while (ldap_control_next(&at, &control) == LDAP_PARSE_DONE)
        check_inside(control.oid, bytes, bytes + length);
    walk(referee, pdu.op);
    read_both(pdu.op);
    (void)ldap_pdu_result(pdu.op);
    /* A new head in the place of the old one: the same message again. */
    g_autoptr(GByteArray) again = g_byte_array_new();
    uint8_t head[LDAP_HEAD_BYTES];
    g_byte_array_append(again, head, (guint)ldap_pdu_head(head, pdu.id, pdu.rest.length));
    g_byte_array_append(again, pdu.rest.bytes, (guint)pdu.rest.length);
    LdapPdu second;
    g_assert_true(ldap_pdu_parse(again->data, again->len, &second));
    g_assert_cmpint(second.id, ==, pdu.id);
    g_assert_cmpint(second.tag, ==, pdu.tag);
    g_assert_cmpuint(second.op.length, ==, pdu.op.length);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    /* With a byte behind it, as reader.h wants. */
    g_autofree uint8_t *data = g_malloc0(size + 1);
    if (size > 0)
        memcpy(data, bytes, size);
    BerElement *referee = ber_alloc_t(0);
    size_t at = 0;
    while (at < size) {
        size_t whole;
        LdapParse parse = ldap_pdu_frame(data + at, size - at, LDAP_PDU_CLIENT_MAX, &whole);
        if (parse != LDAP_PARSE_DONE) {
            g_assert_true(whole == 0 || whole > size - at);
            break;
        }
        g_assert_true(whole >= 2 && whole <= size - at && whole <= LDAP_PDU_CLIENT_MAX);
        check_message(referee, data + at, whole);
        at += whole;
    }
    walk(referee, (LdapSpan){ .bytes = data, .length = size });
    ber_init2(referee, NULL, 0);
    ber_free(referee, 1);
    return 0;
}
