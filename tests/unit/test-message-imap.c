/* test-message-imap.c - ENVELOPE, BODYSTRUCTURE, BODY and the header cache, as sent */
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include <string.h>

static void
test_string(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *expected;
        const char *issue;
    } rows[] = {
        { NULL, 0, "NIL", "2" },
        { "", 0, "\"\"", "2" },
        { "NIL", 3, "\"NIL\"", "2" },
        { "a\"b\\c", 5, "\"a\\\"b\\\\c\"", "2" },
        { "a\0b", 3, "\"a?b\"", "2" },
        { "a\r\nb", 4, "\"a  b\"", "2" },
        { "\xc3\xbc", 2, "{2}\r\n\xc3\xbc", "2" },
        { "\xfc\0\r", 3, "{3}\r\n\xfc? ", "2" },
        { "\x01\x7f\t", 3, "\"\x01\x7f\t\"", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) out = g_string_new(NULL);
        ph_imap_append_string(out, rows[i].bytes, rows[i].length);
        g_assert_cmpstr(out->str, ==, rows[i].expected);
    }
    g_autofree char *x = g_strnfill(1001, 'x');
    g_autofree char *expected = g_strdup_printf("{1001}\r\n%s", x);
    g_autoptr(GString) out = g_string_new(NULL);
    ph_imap_append_string(out, x, 1001);
    g_assert_cmpstr(out->str, ==, expected);

    /* Cut at the limit, before the character that crosses it. */
    g_autoptr(GString) longest = g_string_new("x");
    while (longest->len < PH_IMAP_STRING_MAX + 100)
        g_string_append(longest, "\xc3\xbc");
    g_string_truncate(out, 0);
    ph_imap_append_string(out, longest->str, longest->len);
    g_assert_true(g_str_has_prefix(out->str, "{32767}\r\n"));
    g_assert_true(g_utf8_validate(out->str, -1, NULL));
}

#define NILS8 "NIL NIL NIL NIL NIL NIL NIL NIL"

static void
test_envelope(void)
{
    static const struct {
        const char *header;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "", "(" NILS8 " NIL NIL)", "2" },
        { "Subject:\r\n\r\n", "(NIL \"\" " NILS8 ")", "2" },
        { "Date: d\r\nSubject: s\r\n t\r\nFrom: A <a@b>\r\nMessage-ID: <m@x>\r\nIn-Reply-To: <i@x>\r\n\r\n",
            "(\"d\" \"s t\" ((\"A\" NIL \"a\" \"b\")) ((\"A\" NIL \"a\" \"b\")) ((\"A\" NIL \"a\" \"b\")) "
            "NIL NIL NIL \"<i@x>\" \"<m@x>\")",
            "2" },
        /* An empty Sender counts as none (RFC 3501 7.4.2). */
        { "From: a@b\r\nSender:\r\nReply-To: c@d\r\n",
            "(NIL NIL ((NIL NIL \"a\" \"b\")) ((NIL NIL \"a\" \"b\")) ((NIL NIL \"c\" \"d\")) "
            "NIL NIL NIL NIL NIL)",
            "2" },
        { "To: a@b\r\nTo: c@d\r\n",
            "(NIL NIL NIL NIL NIL ((NIL NIL \"a\" \"b\")(NIL NIL \"c\" \"d\")) NIL NIL NIL NIL)",
            "2" },
        { "Subject: one\r\nSubject: two\r\n", "(NIL \"one\" " NILS8 ")", "2" },
        { "To: G: a@b;\r\n",
            "(NIL NIL NIL NIL NIL ((NIL NIL \"G\" NIL)(NIL NIL \"a\" \"b\")(NIL NIL NIL NIL)) NIL NIL NIL "
            "NIL)",
            "2" },
        { "To: \"Q \\\"q\\\"\" <a@b>\r\n",
            "(NIL NIL NIL NIL NIL ((\"Q \\\"q\\\"\" NIL \"a\" \"b\")) NIL NIL NIL NIL)", "2" },
        { "To: J\xc3\xb6 <a@b>\r\n",
            "(NIL NIL NIL NIL NIL (({3}\r\nJ\xc3\xb6 NIL \"a\" \"b\")) NIL NIL NIL NIL)", "2" },
        { "To: alice\r\n", "(NIL NIL NIL NIL NIL ((NIL NIL \"alice\" \"\")) NIL NIL NIL NIL)",
            "2" },
        { "To: ,\r\n", "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)", "2" },
        { "Cc: <@r:a@b>\r\n", "(NIL NIL NIL NIL NIL NIL ((NIL \"@r\" \"a\" \"b\")) NIL NIL NIL)",
            "2" },
        { "SUBJECT : x\ty\r\n", "(NIL \"x\ty\" " NILS8 ")", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) out = g_string_new(NULL);
        ph_imap_envelope(rows[i].header, strlen(rows[i].header), out);
        g_assert_cmpstr(out->str, ==, rows[i].expected);
    }
}

static void
test_envelope_is_bounded(void)
{
    g_autoptr(GString) header = g_string_new(NULL);
    for (int i = 0; i < 100; i++) {
        g_string_append(header, "To: Group: ");
        for (int j = 0; j < 10000; j++)
            g_string_append(header, "a,");
        g_string_append(header, ";\r\n");
    }
    g_autofree char *name = g_strnfill(30000, 'x');
    for (int i = 0; i < 100; i++)
        g_string_append_printf(header, "Cc: G%s: \"%s\" <a@b>;\r\n", name, name);
    g_autoptr(GString) out = g_string_new(NULL);
    ph_imap_envelope(header->str, header->len, out);
    g_assert_cmpuint(out->len, <, 1300 * 1024);
    g_assert_true(g_str_has_suffix(out->str, "(NIL NIL NIL NIL)) NIL NIL NIL)"));
}

/* -- structure --------------------------------------------------------------------------------- */

#define TEXT_DEFAULT "\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\""

static const struct {
    const char *name;
    const char *message;
    const char *structure;
    const char *body;
    const char *issue;
} structures[] = {
    { "empty", "", "(" TEXT_DEFAULT " 0 0 NIL NIL NIL NIL)", "(" TEXT_DEFAULT " 0 0)", "2" },
    { "text",
        "Content-Type: text/plain; charset=utf-8; format=flowed\r\nContent-ID: <i@x>\r\n"
        "Content-Description: a \"b\"\r\nContent-Transfer-Encoding: 8BIT\r\nContent-MD5: abc==\r\n"
        "Content-Disposition: inline\r\nContent-Language: de, en\r\nContent-Location: x:y\r\n\r\na\r\nb",
        "(\"text\" \"plain\" (\"charset\" \"utf-8\" \"format\" \"flowed\") \"<i@x>\" \"a \\\"b\\\"\" "
        "\"8bit\" 4 2 \"abc==\" (\"inline\" NIL) (\"de\" \"en\") \"x:y\")",
        "(\"text\" \"plain\" (\"charset\" \"utf-8\" \"format\" \"flowed\") \"<i@x>\" \"a \\\"b\\\"\" "
        "\"8bit\" 4 2)",
        "2" },
    { "one-language", "Content-Type: image/png\r\nContent-Language: de\r\n\r\n",
        "(\"image\" \"png\" NIL NIL NIL \"7bit\" 0 NIL NIL \"de\" NIL)",
        "(\"image\" \"png\" NIL NIL NIL \"7bit\" 0)", "2" },
    { "multipart",
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b\r\nContent-Type: "
        "application/pdf\r\nContent-Disposition: attachment; filename=\"a b\"\r\n\r\ny\r\n--b--\r\n",
        "((" TEXT_DEFAULT
        " 1 1 NIL NIL NIL NIL)(\"application\" \"pdf\" NIL NIL NIL \"7bit\" 1 NIL "
        "(\"attachment\" (\"filename\" \"a b\")) NIL NIL) \"mixed\" (\"boundary\" \"b\") NIL NIL NIL)",
        "((" TEXT_DEFAULT " 1 1)(\"application\" \"pdf\" NIL NIL NIL \"7bit\" 1) \"mixed\")", "2" },
    { "multipart-without-parts", "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b--\r\n",
        "((" TEXT_DEFAULT " 7 1 NIL NIL NIL NIL) \"mixed\" (\"boundary\" \"b\") NIL NIL NIL)",
        "((" TEXT_DEFAULT " 7 1) \"mixed\")", "2" },
    { "message", "Content-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nx\r\n",
        "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 18 (NIL \"in\" " NILS8 ") (" TEXT_DEFAULT
        " 3 1 NIL NIL NIL NIL) 3 NIL NIL NIL NIL)",
        "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 18 (NIL \"in\" " NILS8 ") (" TEXT_DEFAULT
        " 3 1) 3)",
        "2" },
    { "message-encoded",
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA",
        "(\"message\" \"rfc822\" NIL NIL NIL \"base64\" 4 (" NILS8 " NIL NIL) (" TEXT_DEFAULT
        " 0 0 NIL NIL NIL NIL) 1 NIL NIL NIL NIL)",
        "(\"message\" \"rfc822\" NIL NIL NIL \"base64\" 4 (" NILS8 " NIL NIL) (" TEXT_DEFAULT
        " 0 0) 1)",
        "2" },
    { "odd-strings", "Content-Type: application/x; name=\"\xc3\xbc)(\\\"\"; (c) y=\"{3}\"\r\n\r\n",
        "(\"application\" \"x\" (\"name\" {5}\r\n\xc3\xbc)(\" \"y\" \"{3}\") NIL NIL \"7bit\" 0 NIL NIL NIL "
        "NIL)",
        "(\"application\" \"x\" (\"name\" {5}\r\n\xc3\xbc)(\" \"y\" \"{3}\") NIL NIL \"7bit\" 0)",
        "2" },
    { "rfc2231-as-written", "Content-Type: a/b; name*0*=utf-8''a; name*1=b\r\n\r\n",
        "(\"a\" \"b\" (\"name*0*\" \"utf-8''a\" \"name*1\" \"b\") NIL NIL \"7bit\" 0 NIL NIL NIL NIL)",
        "(\"a\" \"b\" (\"name*0*\" \"utf-8''a\" \"name*1\" \"b\") NIL NIL \"7bit\" 0)", "2" },
};

static char *
structure_of(const char *message, size_t length)
{
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    ph_outline_builder_feed(builder, message, length);
    GString *out = g_string_new(NULL);
    ph_imap_body_structure(builder, out);
    return g_string_free(out, FALSE);
}

static void
test_structure(gconstpointer data)
{
    size_t i = (size_t)GPOINTER_TO_UINT(data);
    g_autofree char *structure = structure_of(structures[i].message, strlen(structures[i].message));
    g_assert_cmpstr(structure, ==, structures[i].structure);
    g_autoptr(GString) body = g_string_new("BODY ");
    g_assert_true(ph_imap_body_from_structure(structure, strlen(structure), body));
    g_assert_cmpstr(body->str + 5, ==, structures[i].body);
    /* Anything shorter is refused. */
    for (size_t cut = 0; cut < strlen(structure); cut++) {
        g_string_truncate(body, 5);
        g_assert_false(ph_imap_body_from_structure(structure, cut, body));
        g_assert_cmpstr(body->str, ==, "BODY ");
    }
}

static void
test_structure_is_bounded(void)
{
    g_autoptr(GString) message = g_string_new("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    for (int i = 0; i < 6000; i++) {
        g_string_append(message, "--b\r\nContent-Type: text/plain");
        for (int j = 0; j < 50; j++)
            g_string_append_printf(message, "; parameter%d=\"value of the parameter %d\"", j, i);
        g_string_append(message, "\r\n\r\n");
    }
    g_autofree char *structure = structure_of(message->str, message->len);
    g_assert_cmpuint(strlen(structure), <, 10 * 1024 * 1024);
    g_autoptr(GString) body = g_string_new(NULL);
    g_assert_true(ph_imap_body_from_structure(structure, strlen(structure), body));
    g_assert_true(
        g_str_has_suffix(body->str, "(\"text\" \"plain\" NIL NIL NIL \"7bit\" 0 0) \"mixed\")"));
}

static void
test_structure_deep(void)
{
    g_autoptr(GString) message = g_string_new(NULL);
    for (int i = 0; i < 5000; i++)
        g_string_append(message, "Content-Type: message/rfc822\r\n\r\n");
    g_autofree char *structure = structure_of(message->str, message->len);
    g_autoptr(GString) body = g_string_new(NULL);
    g_assert_true(ph_imap_body_from_structure(structure, strlen(structure), body));

    g_autofree char *parentheses = g_strnfill(1000000, '(');
    g_assert_false(ph_imap_body_from_structure(parentheses, 1000000, body));
}

/* -- header cache ------------------------------------------------------------------------------ */

static const char cached[] = "Received: one\r\nX-Private: p\r\nFrom: a\r\n b\r\nsubject: s\r\n"
                             "Received: two\r\nTo: t\r\n\r\nFrom: body\r\n";

static bool
cache_fields(GBytes *cache, const char *const *names, size_t count, GString *out)
{
    gsize length = 0;
    const void *bytes = g_bytes_get_data(cache, &length);
    return ph_header_cache_fields(bytes, length, names, count, out);
}

static void
test_cache(void)
{
    static const char *const names[] = { "SUBJECT", "Received", "from", "Cc" };
    static const char *const private_names[] = { "Subject", "X-Private" };
    g_autoptr(GBytes) cache = ph_header_cache_new(cached, sizeof(cached) - 1);
    g_autoptr(GString) out = g_string_new(NULL);
    g_assert_true(cache_fields(cache, names, G_N_ELEMENTS(names), out));
    g_autoptr(GString) direct = g_string_new(NULL);
    ph_header_subset(cached, sizeof(cached) - 1, names, G_N_ELEMENTS(names), false, direct);
    g_assert_cmpstr(out->str, ==, direct->str);
    g_assert_cmpstr(
        out->str, ==, "Received: one\r\nFrom: a\r\n b\r\nsubject: s\r\nReceived: two\r\n\r\n");
    g_string_truncate(out, 0);
    g_assert_false(cache_fields(cache, private_names, 2, out));
    g_assert_cmpuint(out->len, ==, 0);

    gsize length = 0;
    const char *bytes = g_bytes_get_data(cache, &length);
    g_assert_true(ph_header_cache_covers(bytes, length, "message-id"));
    g_assert_false(ph_header_cache_covers(bytes, length, "X-Private"));
    g_assert_false(ph_header_cache_covers(bytes, length, ""));
    for (gsize cut = 0; cut < 10; cut++)
        g_assert_false(ph_header_cache_covers(bytes, cut, "From"));
    g_assert_false(ph_header_cache_covers("X\1\1\1", 4, "Date"));
    /* A cache made when only one name was known, and one by a later version with more. */
    g_assert_true(ph_header_cache_covers("H\1\1\1", 4, "Date"));
    g_assert_false(ph_header_cache_covers("H\1\1\1", 4, "From"));
    g_autofree char *later = g_strnfill(3 + 32, '\xff');
    memcpy(later, "H\1\xff", 3);
    g_assert_true(ph_header_cache_covers(later, 3 + 32, "From"));
    g_assert_false(ph_header_cache_covers(later, 3 + 31, "From"));
}

static void
test_cache_limits(void)
{
    g_autoptr(GString) header = g_string_new("Subject: s\r\n");
    for (int i = 0; i < 1000; i++)
        g_string_append(header, "To: someone@example.org\r\n");
    g_string_append(header, "\r\n");
    g_autoptr(GBytes) cache = ph_header_cache_new(header->str, header->len);
    gsize length = 0;
    const char *bytes = g_bytes_get_data(cache, &length);
    g_assert_cmpuint(length, <, 100);
    g_assert_false(ph_header_cache_covers(bytes, length, "To"));
    g_assert_true(ph_header_cache_covers(bytes, length, "Subject"));

    static const char *const long_names[] = { "From", "To", "Cc", "Bcc", "Sender", "Comments" };
    g_autofree char *value = g_strnfill(8000, 'x');
    g_string_truncate(header, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(long_names); i++)
        g_string_append_printf(header, "%s: %s\r\n", long_names[i], value);
    g_autoptr(GBytes) full = ph_header_cache_new(header->str, header->len);
    bytes = g_bytes_get_data(full, &length);
    g_assert_cmpuint(length, <, PH_HEADER_CACHE_MAX + 100);
    g_assert_true(ph_header_cache_covers(bytes, length, "From"));
    g_assert_false(ph_header_cache_covers(bytes, length, "Comments"));
    g_assert_true(ph_header_cache_covers(bytes, length, "Date"));
}

static void
test_date_time(void)
{
    g_autoptr(GString) out = g_string_new(NULL);
    ph_imap_append_date_time(out, 0, 0);
    ph_imap_append_date_time(out, INT64_C(1796036400000000), -90);
    g_assert_cmpstr(out->str, ==, "\" 1-Jan-1970 00:00:00 +0000\"\"30-Nov-2026 09:30:00 -0130\"");
    int64_t time_us = 0;
    int zone = 0;
    g_assert_true(ph_date_parse("30-Nov-2026 09:30:00 -0130", 26, &time_us, &zone));
    g_assert_cmpint(time_us, ==, INT64_C(1796036400000000));
    g_assert_cmpint(zone, ==, -90);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message-imap/string/rows", test_string);
    g_test_add_func("/message-imap/date-time/rows", test_date_time);
    g_test_add_func("/message-imap/envelope/rows", test_envelope);
    g_test_add_func("/message-imap/envelope/bounded", test_envelope_is_bounded);
    for (size_t i = 0; i < G_N_ELEMENTS(structures); i++) {
        g_autofree char *path = g_strdup_printf("/message-imap/structure/%s", structures[i].name);
        g_test_add_data_func(path, GUINT_TO_POINTER(i), test_structure);
    }
    g_test_add_func("/message-imap/structure/bounded", test_structure_is_bounded);
    g_test_add_func("/message-imap/structure/deep", test_structure_deep);
    g_test_add_func("/message-imap/cache/fields", test_cache);
    g_test_add_func("/message-imap/cache/limits", test_cache_limits);
    return g_test_run();
}
