/* test-ldap-pdu.c - framing, the envelope, elements, controls, the reader; liblber is the referee of what
 * is read by hand */
#include "plugins/ldap/reader.h"

#include <string.h>

static LdapSpan
span(const void *bytes, size_t length)
{
    return (LdapSpan){ .bytes = bytes, .length = length };
}

/* -- framing ----------------------------------------------------------------------------------- */

static void
test_frame(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        LdapParse parse;
        size_t whole;
    } rows[] = {
        { "", 0, LDAP_PARSE_MORE, 0 },
        { "\x30", 1, LDAP_PARSE_MORE, 0 },
        { "\x31", 1, LDAP_PARSE_BAD, 0 },
        { "G", 1, LDAP_PARSE_BAD, 0 },
        { "\x30\x00", 2, LDAP_PARSE_DONE, 2 },
        { "\x30\x05", 2, LDAP_PARSE_MORE, 7 },
        { "\x30\x02\x01\x02", 4, LDAP_PARSE_DONE, 4 },
        { "\x30\x02\x01\x02\x03", 5, LDAP_PARSE_DONE, 4 },
        { "\x30\x80", 2, LDAP_PARSE_BAD, 0 },
        { "\x30\x81", 2, LDAP_PARSE_MORE, 0 },
        { "\x30\x81\x01\x00", 4, LDAP_PARSE_DONE, 4 },
        { "\x30\x84\x00\x00\x00", 5, LDAP_PARSE_MORE, 0 },
        { "\x30\x84\x00\x00\x00\x02", 6, LDAP_PARSE_MORE, 8 },
        { "\x30\x84\x80\x00\x00\x00", 6, LDAP_PARSE_TOO_LARGE, 0 },
        { "\x30\x84\xff\xff\xff\xff", 6, LDAP_PARSE_TOO_LARGE, 0 },
        { "\x30\x85\x00\x00\x00\x00\x01", 7, LDAP_PARSE_BAD, 0 },
        { "\x30\xff", 2, LDAP_PARSE_BAD, 0 },
        { "\x30\x82\x03\xfc", 4, LDAP_PARSE_MORE, 1024 },
        { "\x30\x82\x03\xfd", 4, LDAP_PARSE_TOO_LARGE, 0 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        size_t whole = 99;
        LdapParse parse =
            ldap_pdu_frame((const uint8_t *)rows[i].bytes, rows[i].length, 1024, &whole);
        g_assert_cmpint(parse, ==, rows[i].parse);
        g_assert_cmpuint(whole, ==, rows[i].whole);
    }
}

/* -- elements ---------------------------------------------------------------------------------- */

/* What liblber says of the same bytes. */
static bool
referee_next(LdapSpan at, uint8_t *tag_out, LdapSpan *contents_out)
{
    struct berval whole = { .bv_len = at.length, .bv_val = (char *)(uintptr_t)at.bytes };
    BerElement *element = ber_alloc_t(0);
    ber_init2(element, &whole, 0);
    struct berval contents;
    ber_tag_t tag = ber_peek_element(element, &contents);
    /* ber_free would free the bytes. */
    ber_init2(element, NULL, 0);
    ber_free(element, 1);
    if (tag == LBER_DEFAULT || tag > 0xff)
        return false;
    *tag_out = (uint8_t)tag;
    *contents_out = span(contents.bv_val, contents.bv_len);
    return true;
}

static void
compare_with_referee(const uint8_t *bytes, size_t length)
{
    LdapSpan at = span(bytes, length);
    LdapSpan contents;
    LdapSpan referee;
    uint8_t tag;
    uint8_t referee_tag;
    bool good = ldap_element_next(&at, &tag, &contents);
    bool referee_good = referee_next(span(bytes, length), &referee_tag, &referee);
    if (good != referee_good)
        g_error("%02x %02x %02x: %d, liblber %d", bytes[0], bytes[1], bytes[2], good, referee_good);
    if (!good)
        return;
    g_assert_cmpint(tag, ==, referee_tag);
    g_assert_true(contents.bytes == referee.bytes);
    g_assert_cmpuint(contents.length, ==, referee.length);
    g_assert_true(at.bytes == contents.bytes + contents.length);
    g_assert_cmpuint(at.length, ==, length - (size_t)(at.bytes - bytes));
}

/* Each tag of one byte, each first byte of a length, with few and many bytes behind. */
static void
test_referee(void)
{
    uint8_t bytes[200] = { 0 };
    for (unsigned tag = 0; tag < 256; tag++)
        for (unsigned first = 0; first < 256; first++)
            for (size_t length = 3; length < sizeof(bytes); length += 49) {
                bytes[0] = (uint8_t)tag;
                bytes[1] = (uint8_t)first;
                bytes[2] = (uint8_t)(first ^ tag);
                /* liblber reads tags of more bytes, and lengths of up to eight; we do not. */
                if ((tag & 0x1f) != 0x1f && (first < 0x85 || first > 0x88))
                    compare_with_referee(bytes, length);
            }
}

static void
test_element(void)
{
    LdapSpan contents;
    uint8_t tag;
    LdapSpan none = { 0 };
    g_assert_false(ldap_element_next(&none, &tag, &contents));
    LdapSpan long_tag = span("\x1f\x20\x01\x00", 4);
    g_assert_false(ldap_element_next(&long_tag, &tag, &contents));
    LdapSpan at = span("\x04\x01x\x02\x01\x05", 6);
    g_assert_false(ldap_element_take(&at, LDAP_TAG_INTEGER, &contents));
    g_assert_cmpuint(at.length, ==, 6);
    g_assert_true(ldap_element_take(&at, LDAP_TAG_OCTETS, &contents));
    g_assert_true(ldap_span_is(contents, "x"));
    g_assert_true(ldap_element_take(&at, LDAP_TAG_INTEGER, &contents));
    g_assert_cmpuint(at.length, ==, 0);
    g_assert_false(ldap_element_take(&at, LDAP_TAG_INTEGER, &contents));
}

static void
test_numbers(void)
{
    static const int32_t numbers[] = { 0, 1, 127, 128, 255, 256, 32767, 32768, 65535, 8388607,
        8388608, INT32_MAX, -1, -128, -129, -32768, -32769, INT32_MIN };
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        g_autoptr(GByteArray) out = g_byte_array_new();
        ldap_append_int(out, LDAP_TAG_INTEGER, numbers[i]);
        BerElement *referee = ber_alloc_t(LBER_USE_DER);
        g_assert_cmpint(ber_printf(referee, "i", numbers[i]), >=, 0);
        struct berval expected;
        ber_flatten2(referee, &expected, 0);
        g_assert_cmpmem(out->data, (int)out->len, expected.bv_val, (int)expected.bv_len);
        ber_free(referee, 1);
        LdapSpan at = span(out->data, out->len);
        LdapSpan contents;
        int32_t number;
        g_assert_true(ldap_element_take(&at, LDAP_TAG_INTEGER, &contents));
        g_assert_true(ldap_span_int(contents, &number));
        g_assert_cmpint(number, ==, numbers[i]);
    }
    int32_t number = 7;
    g_assert_false(ldap_span_int(span("", 0), &number));
    g_assert_false(ldap_span_int(span("\0\0\0\0\1", 5), &number));
    bool value = false;
    g_assert_true(ldap_span_bool(span("\x01", 1), &value));
    g_assert_true(value);
    g_assert_false(ldap_span_bool(span("", 0), &value));
    g_assert_null(ldap_span_text(span("a\0b", 3)));
    g_autofree char *text = ldap_span_text(span("ab", 2));
    g_assert_cmpstr(text, ==, "ab");
}

/* -- the envelope ------------------------------------------------------------------------------ */

static void
test_parse(void)
{
    static const struct {
        const char *name;
        const char *bytes;
        size_t length;
        bool good;
    } rows[] = {
        { "unbind", "\x30\x05\x02\x01\x03\x42\x00", 7, true },
        { "controls", "\x30\x07\x02\x01\x03\x42\x00\xa0\x00", 9, true },
        { "something new behind", "\x30\x0a\x02\x01\x03\x42\x00\xa0\x00\x8b\x01x", 12, true },
        { "something broken behind", "\x30\x09\x02\x01\x03\x42\x00\xa0\x00\x8b\x01", 11, false },
        { "nothing", "", 0, false },
        { "empty", "\x30\x00", 2, false },
        { "no operation", "\x30\x03\x02\x01\x03", 5, false },
        { "a negative id", "\x30\x05\x02\x01\xff\x42\x00", 7, false },
        { "a large id", "\x30\x08\x02\x04\x7f\xff\xff\xff\x42\x00", 10, true },
        { "too large an id", "\x30\x09\x02\x05\x00\xff\xff\xff\xff\x42\x00", 11, false },
        { "an empty id", "\x30\x04\x02\x00\x42\x00", 6, false },
        { "bytes behind", "\x30\x05\x02\x01\x03\x42\x00\x00", 8, false },
        { "cut", "\x30\x05\x02\x01\x03\x42", 6, false },
        { "operation too long", "\x30\x05\x02\x01\x03\x42\x01", 7, false },
        { "controls too long", "\x30\x07\x02\x01\x03\x42\x00\xa0\x01", 9, false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        LdapPdu pdu = { .id = 99 };
        bool good = ldap_pdu_parse((const uint8_t *)rows[i].bytes, rows[i].length, &pdu);
        if (good != rows[i].good)
            g_error("%s", rows[i].name);
        if (!good)
            g_assert_cmpint(pdu.id, ==, 99);
    }
    const char *bytes = "\x30\x0a\x02\x01\x03\x4a\x01x\xa0\x02\x30\x00";
    LdapPdu pdu;
    g_assert_true(ldap_pdu_parse((const uint8_t *)bytes, 12, &pdu));
    g_assert_cmpint(pdu.id, ==, 3);
    g_assert_cmpint(pdu.tag, ==, LDAP_REQ_DELETE);
    g_assert_true(ldap_span_is(pdu.op, "x"));
    g_assert_cmpmem(pdu.controls.bytes, (int)pdu.controls.length, "\x30\x00", 2);
    g_assert_cmpmem(pdu.rest.bytes, (int)pdu.rest.length, bytes + 5, 7);
    g_assert_cmpuint(pdu.length, ==, 12);
}

/* A new head before an untouched rest is what liblber would write. */
static void
test_head(void)
{
    static const int32_t ids[] = { 0, 1, 127, 128, 65535, 1 << 24, INT32_MAX };
    static const size_t lengths[] = { 2, 100, 124, 125, 126, 250, 252, 253, 300, 65530, 70000 };
    for (size_t i = 0; i < G_N_ELEMENTS(ids); i++)
        for (size_t j = 0; j < G_N_ELEMENTS(lengths); j++) {
            g_autofree char *contents = g_malloc0(lengths[j]);
            BerElement *referee = ber_alloc_t(LBER_USE_DER);
            ber_printf(referee, "{ito}", (ber_int_t)ids[i], (ber_tag_t)LDAP_REQ_DELETE, contents,
                (ber_len_t)lengths[j]);
            struct berval expected;
            ber_flatten2(referee, &expected, 0);
            LdapPdu pdu;
            g_assert_true(ldap_pdu_parse((const uint8_t *)expected.bv_val, expected.bv_len, &pdu));
            uint8_t head[LDAP_HEAD_BYTES];
            size_t length = ldap_pdu_head(head, ids[i], pdu.rest.length);
            g_assert_cmpuint(length, <=, LDAP_HEAD_BYTES);
            g_assert_cmpuint(length + pdu.rest.length, ==, expected.bv_len);
            g_assert_cmpmem(head, (int)length, expected.bv_val, (int)length);
            ber_free(referee, 1);
        }
}

static void
test_result(void)
{
    BerElement *writer = ldap_writer_new();
    ber_printf(writer, "{it{ess}}", 300, (ber_tag_t)LDAP_RES_SEARCH_DONE, LDAP_NO_SUCH_OBJECT,
        "dc=test", "not there");
    LdapSpan bytes = ldap_writer_bytes(writer);
    g_assert_cmpuint(ldap_writer_length(writer), ==, bytes.length);
    LdapPdu pdu;
    g_assert_true(ldap_pdu_parse(bytes.bytes, bytes.length, &pdu));
    g_assert_cmpint(pdu.id, ==, 300);
    g_assert_cmpint(pdu.tag, ==, LDAP_RES_SEARCH_DONE);
    g_assert_cmpint(ldap_pdu_result(pdu.op), ==, LDAP_NO_SUCH_OBJECT);
    ldap_writer_free(writer);
    g_assert_cmpint(ldap_pdu_result(span("", 0)), ==, -1);
    g_assert_cmpint(ldap_response_tag(LDAP_REQ_SEARCH), ==, LDAP_RES_SEARCH_DONE);
    g_assert_cmpint(ldap_response_tag(LDAP_REQ_ABANDON), ==, 0);
    g_assert_cmpint(ldap_response_tag(LDAP_REQ_UNBIND), ==, 0);
}

/* -- the reader: what liblber would let pass --------------------------------------------------- */

static void
test_reader(void)
{
    LdapSpan contents;
    int32_t number = 7;
    bool value = false;
    size_t length;
    uint8_t tag;
    g_autoptr(LdapReader) reader = ldap_reader_new(span("\x04\x01x\x02\x01\x05\x01\x01\xff", 9));
    g_assert_cmpint(ldap_reader_peek(reader), ==, LDAP_TAG_OCTETS);
    g_assert_false(ldap_read_int(reader, LDAP_TAG_INTEGER, &number));
    g_assert_false(ldap_read(reader, LDAP_TAG_SEQUENCE, &contents));
    g_assert_cmpuint(ldap_reader_left(reader), ==, 9);
    g_assert_true(ldap_read(reader, LDAP_TAG_OCTETS, &contents));
    g_assert_true(ldap_span_is(contents, "x"));
    g_assert_true(ldap_read_int(reader, LDAP_TAG_INTEGER, &number));
    g_assert_cmpint(number, ==, 5);
    g_assert_true(ldap_read_bool(reader, LDAP_TAG_BOOLEAN, &value));
    g_assert_true(value);
    g_assert_cmpint(ldap_reader_peek(reader), ==, 0);
    g_assert_false(ldap_read_any(reader, &tag, &contents));
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {
        { "", 0 },
        { "\x02", 1 },
        { "\x02\x00", 2 },
        { "\x02\x05\x00\x00\x00\x00\x01", 7 },
        { "\x02\x02\x01", 3 },
        { "\x02\x80\x01\x00\x00", 5 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        ldap_reader_set(reader, span(bad[i].bytes, bad[i].length));
        g_assert_false(ldap_read_int(reader, LDAP_TAG_INTEGER, &number));
        g_assert_cmpuint(ldap_reader_left(reader), ==, bad[i].length);
    }
    ldap_reader_set(reader, span("\x01\x02\xff\xff", 4));
    g_assert_false(ldap_read_bool(reader, LDAP_TAG_BOOLEAN, &value));
    ldap_reader_set(reader, span("\x30\x03\x02\x01\x09\x04\x00", 7));
    g_assert_true(ldap_read_into(reader, LDAP_TAG_SEQUENCE, &length));
    g_assert_cmpuint(length, ==, 3);
    g_assert_true(ldap_read_int(reader, LDAP_TAG_INTEGER, &number));
    g_assert_cmpint(number, ==, 9);
    g_assert_cmpuint(ldap_reader_left(reader), ==, 2);
}

/* -- controls ---------------------------------------------------------------------------------- */

static void
test_controls(void)
{
    const char *list = "\x30\x05\x04\x03"
                       "1.2"
                       "\x30\x0c\x04\x03"
                       "1.3\x01\x01\xff\x04\x02"
                       "ab";
    LdapSpan at = span(list, 7 + 14);
    LdapControl control;
    g_assert_cmpint(ldap_control_next(&at, &control), ==, LDAP_PARSE_DONE);
    g_assert_true(ldap_span_is(control.oid, "1.2"));
    g_assert_false(control.is_critical);
    g_assert_null(control.value.bytes);
    g_assert_cmpint(ldap_control_next(&at, &control), ==, LDAP_PARSE_DONE);
    g_assert_true(ldap_span_is(control.oid, "1.3"));
    g_assert_true(control.is_critical);
    g_assert_true(ldap_span_is(control.value, "ab"));
    g_assert_cmpint(ldap_control_next(&at, &control), ==, LDAP_PARSE_MORE);
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {
        { "\x30\x00", 2 },
        { "\x04\x01x", 3 },
        { "\x30\x03\x04\x03x", 5 },
        { "\x30\x05\x04\x01x\x02\x00", 7 },
        { "\x30\x05\x04\x01x\x01\x00", 7 },
        { "\x30\x07\x04\x01x\x04\x00\x04\x00", 9 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        at = span(bad[i].bytes, bad[i].length);
        g_assert_cmpint(ldap_control_next(&at, &control), ==, LDAP_PARSE_BAD);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ldap-pdu/frame/table", test_frame);
    g_test_add_func("/ldap-pdu/element/steps", test_element);
    g_test_add_func("/ldap-pdu/element/referee", test_referee);
    g_test_add_func("/ldap-pdu/element/numbers", test_numbers);
    g_test_add_func("/ldap-pdu/parse/table", test_parse);
    g_test_add_func("/ldap-pdu/head/referee", test_head);
    g_test_add_func("/ldap-pdu/result/round-trip", test_result);
    g_test_add_func("/ldap-pdu/reader/strict", test_reader);
    g_test_add_func("/ldap-pdu/controls/table", test_controls);
    return g_test_run();
}
