/* test-message-build.c - header fields of our own */
#include <posthouse/message-build.h>
#include <posthouse/message-header.h>

#include <string.h>

static void
test_date(void)
{
    static const struct {
        int64_t seconds;
        int zone;
        const char *expected;
    } rows[] = {
        { 0, 0, "Thu, 1 Jan 1970 00:00:00 +0000" },
        { -1, 0, "Wed, 31 Dec 1969 23:59:59 +0000" },
        { 1796036400, 60, "Mon, 30 Nov 2026 12:00:00 +0100" },
        { 1709164800, -570, "Wed, 28 Feb 2024 14:30:00 -0930" },
        { 1709164800, 0, "Thu, 29 Feb 2024 00:00:00 +0000" },
        { 951782400, 0, "Tue, 29 Feb 2000 00:00:00 +0000" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = ph_date_format(rows[i].seconds * 1000000, rows[i].zone);
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
    /* Every eleventh day of four centuries, there and back. */
    for (int64_t day = -135140; day < 146097; day += 11) {
        int64_t time_us = (day * 86400 + 4711) * 1000000;
        int64_t again = 0;
        g_autofree char *text = ph_date_format(time_us, 330);
        g_assert_true(ph_date_parse(text, strlen(text), &again, NULL));
        g_assert_cmpint(again, ==, time_us);
    }
    g_autofree char *low = ph_date_format(INT64_MIN, 0);
    g_autofree char *high = ph_date_format(INT64_MAX, 100000);
    g_assert_cmpstr(low, ==, "Mon, 1 Jan 0001 00:00:00 +0000");
    g_assert_true(g_str_has_suffix(high, "+9959"));
}

static void
test_fold(void)
{
    static const struct {
        const char *value;
        const char *expected;
    } rows[] = {
        { "b", "A: b\r\n" },
        { "", "A:\r\n" },
        { "  b  ", "A: b\r\n" },
        { "b\r\nX: y", "A: b  X: y\r\n" },
        { "aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg hhhhhhhhh iiiiiiiii",
            "A: aaaaaaaaa bbbbbbbbb ccccccccc ddddddddd eeeeeeeee fffffffff ggggggggg\r\n hhhhhhhhh "
            "iiiiiiiii\r\n" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) out = g_string_new(NULL);
        ph_header_append(out, "A", rows[i].value);
        g_assert_cmpstr(out->str, ==, rows[i].expected);
    }
}

static void
test_text(void)
{
    g_autoptr(GString) text = g_string_new("Grüße ");
    for (int i = 0; i < 60; i++)
        g_string_append(text, "üß€𝄞 x");
    g_autoptr(GString) out = g_string_new(NULL);
    ph_header_append_text(out, "Subject", text->str);
    g_auto(GStrv) lines = g_strsplit(out->str, "\r\n", -1);
    for (char **line = lines; *line != NULL; line++)
        g_assert_cmpuint(strlen(*line), <=, 90);
    PhHeaderField field;
    g_assert_true(ph_header_find(out->str, out->len, "Subject", &field));
    g_autofree char *decoded = ph_header_decode(field.value, field.value_length);
    g_assert_cmpstr(decoded, ==, text->str);

    g_string_truncate(out, 0);
    ph_header_append_text(out, "Subject", "plain");
    g_assert_cmpstr(out->str, ==, "Subject: plain\r\n");
    g_string_truncate(out, 0);
    ph_header_append_text(out, "Subject", "=?utf-8?q?not=20a=20word?=");
    g_assert_true(ph_header_find(out->str, out->len, "Subject", &field));
    g_autofree char *word = ph_header_decode(field.value, field.value_length);
    g_assert_cmpstr(word, ==, "=?utf-8?q?not=20a=20word?=");
}

static void
test_return_path(void)
{
    g_autoptr(PhPath) path = NULL;
    g_autoptr(GString) out = g_string_new(NULL);
    ph_return_path_append(out, NULL);
    g_assert_cmpint(
        ph_address_parse_path("<\"a b\"@example.org>", 19, 0, &path, NULL), ==, PH_PATH_OK);
    ph_return_path_append(out, path);
    g_assert_cmpstr(out->str, ==, "Return-Path: <>\r\nReturn-Path: <\"a b\"@example.org>\r\n");
}

static void
test_received(void)
{
    PhReceived received = {
        .helo = "client.example.org",
        .peer_name = "host.example.org",
        .peer_address = "2001:db8::1",
        .by = "mx.example.test",
        .software = "Post)house",
        .is_extended = true,
        .is_tls = true,
        .tls = "TLS1.3",
        .id = "4F2A",
        .recipient = "bob@example.test",
        .time_us = 0,
    };
    g_autoptr(GString) out = g_string_new(NULL);
    ph_received_append(out, &received);
    g_assert_cmpstr(out->str, ==,
        "Received: from client.example.org (host.example.org [IPv6:2001:db8::1]) by\r\n"
        " mx.example.test (Post\\)house) with ESMTPS (TLS1.3) id 4F2A for\r\n"
        " <bob@example.test>; Thu, 1 Jan 1970 00:00:00 +0000\r\n");
    /* Nothing that a client says makes another line, comment or clause. */
    received = (PhReceived){ .helo = "x) by evil\r\nSubject: y", .by = "mx.example.test" };
    g_string_truncate(out, 0);
    ph_received_append(out, &received);
    g_assert_cmpstr(out->str, ==,
        "Received: from unknown by mx.example.test with SMTP; Thu, 1 Jan 1970 00:00:00\r\n"
        " +0000\r\n");
}

static void
test_protocol(void)
{
    static const struct {
        PhReceived received;
        const char *expected;
    } rows[] = {
        { { .is_extended = false }, "SMTP" },
        { { .is_extended = true }, "ESMTP" },
        { { .is_extended = true, .is_tls = true }, "ESMTPS" },
        { { .is_extended = true, .is_authenticated = true }, "ESMTPA" },
        { { .is_extended = true, .is_tls = true, .is_authenticated = true }, "ESMTPSA" },
        { { .is_extended = true, .is_utf8 = true, .is_tls = true, .is_authenticated = true },
            "UTF8SMTPSA" },
        { { .is_lmtp = true }, "LMTP" },
        { { .is_lmtp = true, .is_utf8 = true, .is_tls = true }, "UTF8LMTPS" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        g_assert_cmpstr(ph_received_protocol(&rows[i].received), ==, rows[i].expected);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message-build/date/rows", test_date);
    g_test_add_func("/message-build/header/fold", test_fold);
    g_test_add_func("/message-build/header/text", test_text);
    g_test_add_func("/message-build/return-path/rows", test_return_path);
    g_test_add_func("/message-build/received/rows", test_received);
    g_test_add_func("/message-build/received/protocol", test_protocol);
    return g_test_run();
}
