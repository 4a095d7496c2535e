/* test-message-summary.c - all that is kept about a message */
#include <posthouse/message-header.h>
#include <posthouse/message-summary.h>

#include <string.h>

static PhSummary *
summary_of(const char *message, size_t length)
{
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    ph_outline_builder_feed(builder, message, length);
    return ph_summary_new(builder);
}

static void
test_whole(void)
{
    static const char message[] =
        "From: Alice <alice@example.org>\r\nSubject: Re: [x] =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
        "Date: Mon, 30 Nov 2026 12:00:00 +0100\r\nMessage-ID: <abc@example.org>\r\n\r\nHello\r\n";
    g_autoptr(PhSummary) summary = summary_of(message, sizeof(message) - 1);
    g_assert_cmpuint(summary->size, ==, sizeof(message) - 1);
    g_assert_cmpuint(summary->header_size, ==, sizeof(message) - 1 - 7);
    g_assert_cmpuint(summary->line_count, ==, 1);
    g_assert_cmpint(summary->sent_us, ==, INT64_C(1796036400000000));
    g_assert_cmpint(summary->sent_zone_minutes, ==, 60);
    g_assert_cmpstr(summary->message_id, ==, "abc@example.org");
    g_assert_true(summary->has_message_id);
    g_assert_cmpstr(summary->subject, ==, "Re: [x] Grüße");
    g_assert_true(summary->subject_is_reply);
    g_assert_cmpstr(summary->preview, ==, "Hello");
    g_assert_false(summary->has_attachment);
    g_assert_false(summary->has_nul);
    g_assert_false(summary->has_8bit);

    /* SHA-256 of "abc@example.org", as sha256sum gives it. */
    static const uint8_t expected[] = { 0x1f, 0x9d, 0x98, 0x5c, 0x0d, 0x8d, 0x9e, 0xf9, 0x60, 0xed,
        0xed, 0x84, 0x64, 0x87, 0x9c, 0x86 };
    g_assert_cmpmem(summary->message_id_hash, 16, expected, 16);
    uint8_t hash[PH_SUMMARY_HASH_BYTES];
    ph_message_id_hash("abc@example.org", 15, hash);
    g_assert_cmpmem(hash, 16, expected, 16);
    ph_message_id_hash(" <abc@example.org> (c)", 22, hash);
    g_assert_cmpmem(hash, 16, expected, 16);

    gsize length = 0;
    const void *bytes = g_bytes_get_data(summary->outline, &length);
    g_autoptr(PhOutline) outline = ph_outline_read(bytes, length);
    g_assert_nonnull(outline);
    g_assert_cmpuint(ph_outline_size(outline), ==, summary->size);
    bytes = g_bytes_get_data(summary->header_cache, &length);
    g_assert_true(ph_header_cache_covers(bytes, length, "From"));
}

static void
test_empty(void)
{
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    g_autoptr(PhSummary) summary = ph_summary_new(builder);
    g_assert_cmpuint(summary->size, ==, 0);
    g_assert_cmpint(summary->sent_us, ==, INT64_MIN);
    g_assert_false(summary->has_message_id);
    g_assert_null(summary->message_id);
    g_assert_cmpstr(summary->subject, ==, "");
    g_assert_cmpstr(summary->preview, ==, "");
    g_assert_cmpuint(g_bytes_get_size(summary->envelope), >, 0);
    g_assert_cmpuint(g_bytes_get_size(summary->body_structure), >, 0);
}

static void
test_same_thread(void)
{
    static const char *const subjects[] = { "Gr\xc3\xbc\xc3\x9f\x65", "Re: GR\xc3\x9cSSE",
        "[l] fwd: =?utf-8?b?R3LDvMOfZQ==?= (fwd)" };
    uint8_t first[PH_SUMMARY_HASH_BYTES];
    for (size_t i = 0; i < G_N_ELEMENTS(subjects); i++) {
        g_autofree char *message = g_strdup_printf("Subject: %s\r\n\r\n", subjects[i]);
        g_autoptr(PhSummary) summary = summary_of(message, strlen(message));
        if (i == 0)
            memcpy(first, summary->subject_base_hash, sizeof(first));
        g_assert_cmpmem(summary->subject_base_hash, 16, first, 16);
    }
    g_autoptr(PhSummary) other = summary_of("Subject: x\r\n\r\n", 14);
    g_assert_cmpint(memcmp(other->subject_base_hash, first, 16), !=, 0);
}

#define MIXED "Content-Type: multipart/mixed; boundary=b\r\n\r\n"

static void
test_preview(void)
{
    static const struct {
        const char *message;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "\r\n  Hello\r\n\r\n  world \r\n", "Hello world", "2" },
        { "\r\n> quoted\r\n> more\r\nanswer\r\n-- \r\nsignature\r\n", "answer", "2" },
        { "\r\n> only quoted\r\n", "> only quoted", "2" },
        { "Content-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\r\n", "Hello", "2" },
        { "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: "
          "quoted-printable\r\n\r\nGr=FC=\r\n=DFe\r\n",
            "Grüße", "2" },
        { "Content-Type: text/html\r\n\r\n<style>x</style><p>Hi &amp; bye</p>", "Hi & bye", "2" },
        { MIXED
            "--b\r\nContent-Type: text/html\r\n\r\n<p>html</p>\r\n--b\r\n\r\nplain\r\n--b--\r\n",
            "plain", "2" },
        { MIXED "--b\r\n\r\n \r\n--b\r\nContent-Type: text/html\r\n\r\nhtml\r\n--b--\r\n", "html",
            "2" },
        { MIXED
            "--b\r\nContent-Disposition: attachment\r\n\r\nfile\r\n--b\r\n\r\ntext\r\n--b--\r\n",
            "text", "2" },
        { "Content-Type: application/pdf\r\n\r\nbytes", "", "2" },
        /* A part that is only made up takes nothing from the one that is there. */
        { MIXED "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--b\r\n\r\ntext\r\n--b--",
            "text", "2" },
        { "\r\na\x01\x02"
          "b",
            "a b", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhSummary) summary = summary_of(rows[i].message, strlen(rows[i].message));
        g_assert_cmpstr(summary->preview, ==, rows[i].expected);
    }
    g_autoptr(GString) message = g_string_new("\r\n");
    for (int i = 0; i < 10000; i++)
        g_string_append(message, "\xc3\xbc");
    g_autoptr(PhSummary) summary = summary_of(message->str, message->len);
    g_assert_cmpint(g_utf8_strlen(summary->preview, -1), ==, PH_SUMMARY_PREVIEW_CHARS);
    g_assert_true(summary->has_8bit);
}

static void
test_attachment(void)
{
    static const struct {
        const char *message;
        bool expected;
        const char *issue;
    } rows[] = {
        { "\r\ntext", false, "2" },
        { "Content-Disposition: attachment\r\n\r\ntext", true, "2" },
        { "Content-Type: application/pdf\r\n\r\n", true, "2" },
        { "Content-Type: text/html\r\nContent-Disposition: inline\r\n\r\n", false, "2" },
        { MIXED "--b\r\n\r\nx\r\n--b\r\nContent-Type: image/png\r\n\r\ny\r\n--b--", true, "2" },
        { MIXED "--b\r\n\r\nx\r\n--b\r\nContent-Type: text/x; name=f\r\n\r\ny\r\n--b--", true,
            "2" },
        { MIXED
            "--b\r\n\r\nx\r\n--b\r\nContent-Type: application/pgp-signature; name=s.asc\r\n\r\ny\r\n--b--",
            false, "2" },
        { MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\n\r\nx\r\n--b--", true, "2" },
        { "Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\nx"
          "\r\n--b\r\nContent-Type: image/png\r\n\r\ny\r\n--b--",
            false, "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhSummary) summary = summary_of(rows[i].message, strlen(rows[i].message));
        g_assert_true(summary->has_attachment == rows[i].expected);
    }
}

static void
test_nul(void)
{
    static const char message[] = "Subject: a\0b\r\nFrom: x\0 <y@z>\r\n\r\nbody\0\r\n";
    g_autoptr(PhSummary) summary = summary_of(message, sizeof(message) - 1);
    g_assert_true(summary->has_nul);
    gsize length = 0;
    const char *envelope = g_bytes_get_data(summary->envelope, &length);
    g_assert_null(memchr(envelope, '\0', length));
    g_assert_true(g_utf8_validate(summary->preview, -1, NULL));
    g_assert_cmpstr(summary->subject, ==, "a?b");
}

static void
test_message_ids(void)
{
    static const struct {
        const char *header;
        const char *expected;
    } rows[] = {
        { "Message-ID: <a@b>\r\n", "a@b" },
        { "message-id:\r\n <a@b> junk\r\n", "a@b" },
        { "Message-ID: a@b\r\n", "a@b" },
        { "Message-ID: < a@b >\r\n", "a@b" },
        { "Message-ID: <a@b\r\n", "<a@b" },
        { "Message-ID:\r\n", NULL },
        { "Message-ID: <>\r\n", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhSummary) summary = summary_of(rows[i].header, strlen(rows[i].header));
        g_assert_cmpstr(summary->message_id, ==, rows[i].expected);
        g_assert_true(summary->has_message_id == (rows[i].expected != NULL));
    }
}

static void
test_references(void)
{
    static const char message[] = "References: <a@x>\r\n <b@x> junk <c@x\r\n <d@x>\r\n"
                                  "In-Reply-To: <b@x> (b) <e@x>\r\n\r\n";
    static const char *const expected[] = { "a@x", "b@x", "d@x", "e@x" };
    g_autoptr(PhSummary) summary = summary_of(message, sizeof(message) - 1);
    g_assert_cmpuint(summary->reference_count, ==, G_N_ELEMENTS(expected));
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        uint8_t hash[PH_SUMMARY_HASH_BYTES];
        ph_message_id_hash(expected[i], strlen(expected[i]), hash);
        g_assert_cmpmem(summary->reference_hashes[i], 16, hash, 16);
    }
    /* Of a long list the end counts. */
    g_autoptr(GString) many = g_string_new("References:");
    for (int i = 0; i < 200000; i++)
        g_string_append_printf(many, " <%d@x>", i);
    g_autoptr(PhSummary) last = summary_of(many->str, many->len);
    uint8_t hash[PH_SUMMARY_HASH_BYTES];
    ph_message_id_hash("199999@x", 8, hash);
    g_assert_cmpuint(last->reference_count, ==, PH_SUMMARY_REFERENCES_MAX);
    g_assert_cmpmem(last->reference_hashes[PH_SUMMARY_REFERENCES_MAX - 1], 16, hash, 16);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message-summary/new/whole", test_whole);
    g_test_add_func("/message-summary/new/empty", test_empty);
    g_test_add_func("/message-summary/subject/same-thread", test_same_thread);
    g_test_add_func("/message-summary/preview/rows", test_preview);
    g_test_add_func("/message-summary/attachment/rows", test_attachment);
    g_test_add_func("/message-summary/new/nul", test_nul);
    g_test_add_func("/message-summary/message-id/rows", test_message_ids);
    g_test_add_func("/message-summary/references/rows", test_references);
    return g_test_run();
}
