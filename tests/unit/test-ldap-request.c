/* test-ldap-request.c - what may be passed on to an upstream directory, and what may not */
#include "plugins/ldap/request-check.h"
#include "plugins/ldap/url.h"

#include <string.h>

/* Bytes in hexadecimal digits; what is between them is passed over. */
static GByteArray *
from_hex(const char *text)
{
    GByteArray *bytes = g_byte_array_new();
    int high = -1;
    for (; *text != '\0'; text++) {
        int digit = g_ascii_xdigit_value(*text);
        if (digit < 0)
            continue;
        if (high < 0) {
            high = digit;
            continue;
        }
        guint8 byte = (guint8)(high * 16 + digit);
        g_byte_array_append(bytes, &byte, 1);
        high = -1;
    }
    return bytes;
}

/* The bytes in memory of exactly their size, so that a sanitizer sees each step beyond. */
static bool
check_op(uint8_t tag, const GByteArray *op, const GByteArray *controls)
{
    g_autofree uint8_t *copy = g_memdup2(op->data, MAX(op->len, 1));
    g_autofree uint8_t *more = controls != NULL ? g_memdup2(controls->data, controls->len) : NULL;
    LdapPdu pdu = { .id = 1, .tag = tag, .op = { .bytes = copy, .length = op->len } };
    if (controls != NULL)
        pdu.controls = (LdapSpan){ .bytes = more, .length = controls->len };
    return ldap_request_check(&pdu, NULL);
}

#define SEARCH_HEAD "04 04 64633d61 0a0102 0a0100 020100 020100 010100 "

static const struct {
    const char *name;
    uint8_t tag;
    const char *op;
    bool is_good;
} rows[] = {
    { "search", LDAP_REQ_SEARCH, SEARCH_HEAD "8701 63 3000", true },
    { "search-attributes", LDAP_REQ_SEARCH, SEARCH_HEAD "8701 63 3006 040163 04016d", true },
    { "search-no-list", LDAP_REQ_SEARCH, SEARCH_HEAD "8701 63", false },
    { "search-more", LDAP_REQ_SEARCH, SEARCH_HEAD "8701 63 3000 0500", false },
    { "search-no-filter", LDAP_REQ_SEARCH, SEARCH_HEAD "3000", false },
    { "search-scope", LDAP_REQ_SEARCH, "0400 0a0104 0a0100 020100 020100 010100 870163 3000",
        false },
    { "search-negative", LDAP_REQ_SEARCH, "0400 0a0100 0a0100 0201ff 020100 010100 870163 3000",
        false },
    { "search-long-int", LDAP_REQ_SEARCH,
        "0400 0a0100 0a0100 02050000000001 020100 010100 870163 3000", false },
    { "search-bool", LDAP_REQ_SEARCH, "0400 0a0100 0a0100 020100 020100 01020000 870163 3000",
        false },
    { "search-list-int", LDAP_REQ_SEARCH, SEARCH_HEAD "8701 63 3003 020101", false },
    { "search-cut", LDAP_REQ_SEARCH, SEARCH_HEAD "8705 63 3000", false },
    { "and", LDAP_REQ_SEARCH, SEARCH_HEAD "a006 870163 870164 3000", true },
    { "and-of-none", LDAP_REQ_SEARCH, SEARCH_HEAD "a000 3000", true },
    { "or-in-and", LDAP_REQ_SEARCH, SEARCH_HEAD "a00b 870163 a106 870164 870165 3000", true },
    { "not", LDAP_REQ_SEARCH, SEARCH_HEAD "a203 870163 3000", true },
    { "not-of-none", LDAP_REQ_SEARCH, SEARCH_HEAD "a200 3000", false },
    { "not-of-two", LDAP_REQ_SEARCH, SEARCH_HEAD "a206 870163 870164 3000", false },
    { "equal", LDAP_REQ_SEARCH, SEARCH_HEAD "a306 040163 040161 3000", true },
    { "equal-no-value", LDAP_REQ_SEARCH, SEARCH_HEAD "a303 040163 3000", false },
    { "equal-three", LDAP_REQ_SEARCH, SEARCH_HEAD "a309 040163 040161 040161 3000", false },
    { "equal-no-type", LDAP_REQ_SEARCH, SEARCH_HEAD "a305 0400 040161 3000", false },
    { "substrings", LDAP_REQ_SEARCH, SEARCH_HEAD "a40e 040163 3009 800161 810162 820163 3000",
        true },
    { "substrings-any", LDAP_REQ_SEARCH, SEARCH_HEAD "a40b 040163 3006 810161 810162 3000", true },
    { "substrings-order", LDAP_REQ_SEARCH, SEARCH_HEAD "a40b 040163 3006 820161 810162 3000",
        false },
    { "substrings-two-initials", LDAP_REQ_SEARCH, SEARCH_HEAD "a40b 040163 3006 800161 800162 3000",
        false },
    { "substrings-none", LDAP_REQ_SEARCH, SEARCH_HEAD "a405 040163 3000 3000", false },
    { "substrings-empty", LDAP_REQ_SEARCH, SEARCH_HEAD "a407 040163 3002 8100 3000", false },
    { "present-empty", LDAP_REQ_SEARCH, SEARCH_HEAD "8700 3000", false },
    { "extensible", LDAP_REQ_SEARCH, SEARCH_HEAD "a90c 810161 820163 830162 8401ff 3000", true },
    { "extensible-rule-only", LDAP_REQ_SEARCH, SEARCH_HEAD "a906 810161 830162 3000", true },
    { "extensible-value-only", LDAP_REQ_SEARCH, SEARCH_HEAD "a903 830162 3000", false },
    { "extensible-order", LDAP_REQ_SEARCH, SEARCH_HEAD "a906 830162 820163 3000", false },
    { "unknown-filter", LDAP_REQ_SEARCH, SEARCH_HEAD "aa03 040163 3000", false },
    { "compare", LDAP_REQ_COMPARE, "040161 3006 040163 040164", true },
    { "compare-no-value", LDAP_REQ_COMPARE, "040161 3003 040163", false },
    { "add", LDAP_REQ_ADD, "040161 300a 3008 040163 3103 040164", true },
    { "add-none", LDAP_REQ_ADD, "040161 3000", true },
    { "add-int", LDAP_REQ_ADD, "040161 300a 3008 040163 3103 020164", false },
    { "add-set", LDAP_REQ_ADD, "040161 300a 3008 040163 3003 040164", false },
    { "modify", LDAP_REQ_MODIFY, "040161 300f 300d 0a0102 3008 040163 3103 040164", true },
    { "modify-delete", LDAP_REQ_MODIFY, "040161 300c 300a 0a0101 3005 040163 3100", true },
    { "modify-what", LDAP_REQ_MODIFY, "040161 300c 300a 0a0109 3005 040163 3100", false },
    { "modify-bare", LDAP_REQ_MODIFY, "040161 300a 3008 040163 3103 040164", false },
    { "delete", LDAP_REQ_DELETE, "64633d61", true },
    { "rename", LDAP_REQ_RENAME, "040161 040162 0101ff", true },
    { "rename-superior", LDAP_REQ_RENAME, "040161 040162 0101ff 800163", true },
    { "rename-more", LDAP_REQ_RENAME, "040161 040162 0101ff 800163 800163", false },
    { "rename-short", LDAP_REQ_RENAME, "040161 040162", false },
    { "extended", LDAP_REQ_EXTENDED, "8003 312e32", true },
    { "extended-value", LDAP_REQ_EXTENDED, "8003 312e32 810100", true },
    { "extended-none", LDAP_REQ_EXTENDED, "", false },
    { "extended-value-only", LDAP_REQ_EXTENDED, "810100", false },
    { "bind", LDAP_REQ_BIND, "020103 0400 8000", false },
    { "unbind", LDAP_REQ_UNBIND, "", false },
    { "abandon", LDAP_REQ_ABANDON, "01", false },
    { "answer", LDAP_RES_SEARCH_DONE, "0a0100 0400 0400", false },
};

static void
test_rows(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GByteArray) op = from_hex(rows[i].op);
        if (check_op(rows[i].tag, op, NULL) != rows[i].is_good)
            g_error("%s", rows[i].name);
        /* No beginning of it is good, but a name to be deleted. */
        while (rows[i].is_good && rows[i].tag != LDAP_REQ_DELETE && op->len > 0) {
            g_byte_array_set_size(op, op->len - 1);
            bool is_optional = (strcmp(rows[i].name, "rename-superior") == 0 && op->len == 9) ||
                               (strcmp(rows[i].name, "extended-value") == 0 && op->len == 5);
            if (check_op(rows[i].tag, op, NULL) && !is_optional)
                g_error("%s, cut to %u", rows[i].name, op->len);
        }
    }
}

static void
test_parts(void)
{
    g_autoptr(GByteArray) op = from_hex(
        "0404 64633d61 0a0102 0a0103 020105 020107 0101ff a306040163040161 3006 040163 04016d");
    LdapPdu pdu = { .tag = LDAP_REQ_SEARCH, .op = { .bytes = op->data, .length = op->len } };
    LdapSearchParts parts;
    g_assert_true(ldap_request_check(&pdu, &parts));
    g_assert_true(ldap_span_is(parts.base, "dc=a"));
    g_assert_cmpint(parts.scope, ==, 2);
    g_assert_cmpint(parts.deref, ==, 3);
    g_assert_cmpint(parts.size_limit, ==, 5);
    g_assert_cmpint(parts.time_limit, ==, 7);
    g_assert_true(parts.types_only);
    g_assert_cmpuint(parts.filter.length, ==, 8);
    g_assert_cmpuint(parts.filter.bytes[0], ==, 0xa3);
    g_assert_cmpuint(parts.attributes.length, ==, 6);
}

/* A filter of so many "not", around one that asks for an attribute. */
static GByteArray *
nested(unsigned depth)
{
    GByteArray *filter = from_hex("870163");
    for (unsigned i = 0; i < depth; i++) {
        GByteArray *outer = g_byte_array_new();
        ldap_append(outer, 0xa2, filter->data, filter->len);
        g_byte_array_unref(filter);
        filter = outer;
    }
    return filter;
}

static void
test_deep(void)
{
    static const struct {
        unsigned depth;
        bool is_good;
    } depths[] = { { 0, true }, { 31, true }, { 32, true }, { 33, false }, { 10000, false } };
    for (size_t i = 0; i < G_N_ELEMENTS(depths); i++) {
        g_autoptr(GByteArray) filter = nested(depths[i].depth);
        LdapSpan span = { .bytes = filter->data, .length = filter->len };
        g_assert_true(ldap_request_check_filter(span) == depths[i].is_good);
    }
}

static void
test_wide(void)
{
    for (unsigned n = 254; n <= 257; n++) {
        g_autoptr(GByteArray) terms = g_byte_array_new();
        for (unsigned i = 0; i < n; i++)
            ldap_append_text(terms, 0x87, "cn");
        g_autoptr(GByteArray) filter = g_byte_array_new();
        ldap_append(filter, 0xa1, terms->data, terms->len);
        LdapSpan span = { .bytes = filter->data, .length = filter->len };
        g_assert_true(ldap_request_check_filter(span) == (n + 1 <= LDAP_FILTER_TERMS_MAX));
    }
}

static void
test_controls(void)
{
    static const struct {
        const char *controls;
        bool is_good;
    } controls[] = {
        { "3005 0403 312e32", true },
        { "3008 0403 312e32 0101ff", true },
        { "300b 0403 312e32 0101ff 040100", true },
        { "3008 0403 312e32 040100", true },
        { "3008 0403 312e32 040100 3005 0403 312e33", true },
        { "", true },
        { "3000", false },
        { "3002 0400", false },
        { "3005 0403 312e", false },
        { "3008 0403 312e32 020100", false },
        { "300b 0403 312e32 040100 0101ff", false },
        { "0403 312e32", false },
    };
    g_autoptr(GByteArray) op = from_hex("64633d61");
    for (size_t i = 0; i < G_N_ELEMENTS(controls); i++) {
        g_autoptr(GByteArray) bytes = from_hex(controls[i].controls);
        if (check_op(LDAP_REQ_DELETE, op, bytes) != controls[i].is_good)
            g_error("controls %s", controls[i].controls);
    }
}

/* What a directory could end the connection for, which others share. */
static void
test_values(void)
{
    static const struct {
        LdapValueForm form;
        const char *value; /* null: none */
        bool is_good;
    } values[] = {
        { LDAP_VALUE_NONE, NULL, true },
        { LDAP_VALUE_NONE, "", true },
        { LDAP_VALUE_NONE, "30 00", false },
        { LDAP_VALUE_BOOL, "0101ff", true },
        { LDAP_VALUE_BOOL, NULL, false },
        { LDAP_VALUE_BOOL, "0101ff00", false },
        { LDAP_VALUE_FILTER, "8702 636e", true },
        { LDAP_VALUE_FILTER, "a084ffffffff", false },
        { LDAP_VALUE_FILTER, "", false },
        { LDAP_VALUE_TERMS, "3004 8702 636e", true },
        { LDAP_VALUE_TERMS, "3000", false },
        { LDAP_VALUE_TERMS, "3006 a204 8702 636e", false },
        { LDAP_VALUE_TERMS, "3006 a0 84 ffffffff", false },
        { LDAP_VALUE_NAMES, "3004 0402 636e", true },
        { LDAP_VALUE_NAMES, "3000", true },
        { LDAP_VALUE_NAMES, "3003 0201 01", false },
        { LDAP_VALUE_NAMES, "3004 0403 636e", false },
        { LDAP_VALUE_PLAIN, NULL, true },
        { LDAP_VALUE_PLAIN, "3003 0201 07", true },
        { LDAP_VALUE_PLAIN, "3005 3003 0201 07", false },
        { LDAP_VALUE_PLAIN, "3003 0202 07", false },
        { LDAP_VALUE_DEREFERENCE, "300b 3009 0401 61 3004 0402 636e", true },
        { LDAP_VALUE_DEREFERENCE, "3009 3007 0401 61 0402 636e", false },
        { LDAP_VALUE_DEREFERENCE, NULL, false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autoptr(GByteArray) bytes = from_hex(values[i].value != NULL ? values[i].value : "");
        static const uint8_t none;
        LdapSpan value = { .bytes = bytes->len > 0 ? bytes->data : &none, .length = bytes->len };
        if (values[i].value == NULL)
            value.bytes = NULL;
        if (ldap_request_check_value(value, values[i].form) != values[i].is_good)
            g_error("value %zu: %s", i, values[i].value);
    }
}

static void
test_urls(void)
{
    static const struct {
        const char *url;
        const char *host; /* null: malformed */
        int port;
        bool tls;
    } urls[] = {
        { "ldap://a.example", "a.example", 389, false },
        { "ldaps://a.example/", "a.example", 636, true },
        { "LDAP://a.example:10389", "a.example", 10389, false },
        { "ldap://192.0.2.1:1", "192.0.2.1", 1, false },
        { "ldap://[2001:db8::1]", "2001:db8::1", 389, false },
        { "ldaps://[2001:db8::1]:65535/", "2001:db8::1", 65535, true },
        { "ldap://", NULL, 0, false },
        { "ldap:///", NULL, 0, false },
        { "ldap://a.example:0", NULL, 0, false },
        { "ldap://a.example:65536", NULL, 0, false },
        { "ldap://a.example:x", NULL, 0, false },
        { "ldap://a.example/dc=a", NULL, 0, false },
        { "ldap://[2001:db8::1", NULL, 0, false },
        { "ldap://[a.example]", NULL, 0, false },
        { "ldap://[2001:db8::1]x", NULL, 0, false },
        { "http://a.example", NULL, 0, false },
        { "a.example", NULL, 0, false },
        { "", NULL, 0, false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(urls); i++) {
        g_autofree char *host = NULL;
        g_autoptr(GError) error = NULL;
        int port = 0;
        bool tls = false;
        bool good = ldap_url_parse(urls[i].url, &host, &port, &tls, &error);
        g_assert_true(good == (urls[i].host != NULL));
        if (!good) {
            g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
            continue;
        }
        g_assert_cmpstr(host, ==, urls[i].host);
        g_assert_cmpint(port, ==, urls[i].port);
        g_assert_true(tls == urls[i].tls);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ldap-request/rows", test_rows);
    g_test_add_func("/ldap-request/parts", test_parts);
    g_test_add_func("/ldap-request/deep", test_deep);
    g_test_add_func("/ldap-request/wide", test_wide);
    g_test_add_func("/ldap-request/controls", test_controls);
    g_test_add_func("/ldap-request/values", test_values);
    g_test_add_func("/ldap-url/rows", test_urls);
    return g_test_run();
}
