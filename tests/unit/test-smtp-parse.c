/* test-smtp-parse.c - the words of SMTP commands, and where a message ends */
#include "plugins/smtp/smtp.h"

#include <string.h>

/* -- words ------------------------------------------------------------------------------------- */

static void
test_keyword(void)
{
    static const struct {
        const char *text;
        const char *rest; /* null: not there */
    } rows[] = {
        { "FROM:<a@b>", "<a@b>" },
        { "from:<>", "<>" },
        { "FROM:  <a@b> X", "<a@b> X" },
        { "FROM :<a@b>", NULL },
        { "FROM", NULL },
        { "", NULL },
        { "TO:<a@b>", NULL },
        { "FROM:", "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        g_assert_cmpstr(smtp_parse_keyword(rows[i].text, "FROM:"), ==, rows[i].rest);
}

static bool
take(const char *name, const char *value, void *data)
{
    g_string_append_printf(data, "%s=%s;", name, value != NULL ? value : "-");
    return strcmp(name, "REFUSED") != 0;
}

static void
test_parameters(void)
{
    static const struct {
        const char *text;
        bool good;
        const char *taken;
    } rows[] = {
        { "", true, "" },
        { " SIZE=1000 BODY=8BITMIME", true, "SIZE=1000;BODY=8BITMIME;" },
        { "  A   B=c ", true, "A=-;B=c;" },
        { " SIZE=", false, "" },
        { " =1", false, "" },
        { " A=b=c", false, "" },
        { " A=\x01", false, "" },
        { " A=\x7f", false, "" },
        { " -A=1", false, "" },
        { " A-B=1", true, "A-B=1;" },
        { " A_B=1", false, "" },
        { " A REFUSED B", false, "A=-;REFUSED=-;" },
        { " A\tB", false, "" },
        { " X=\xc3\xbc", true, "X=\xc3\xbc;" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) taken = g_string_new(NULL);
        g_test_message("%zu", i);
        g_assert_cmpint(smtp_parse_parameters(rows[i].text, take, taken), ==, rows[i].good);
        g_assert_cmpstr(taken->str, ==, rows[i].taken);
    }
}

static void
test_helo(void)
{
    g_autofree char *longest = g_strnfill(255, 'a');
    g_autofree char *too_long = g_strnfill(256, 'a');
    const struct {
        const char *text;
        const char *helo; /* null: refused */
    } rows[] = {
        { "client.example.org", "client.example.org" },
        { "[192.0.2.1]", "[192.0.2.1]" },
        { "[IPv6:2001:db8::1]", "[IPv6:2001:db8::1]" },
        { "  a  b", "a" },
        { "", NULL },
        { "   ", NULL },
        { "a(b", NULL },
        { "a\"b", NULL },
        { "a\\b", NULL },
        { "a<b>", NULL },
        { "a\tb", NULL },
        { "a\x7f", NULL },
        { "\xff", NULL },
        { "gr\xc3\xbcn.example.org", "gr\xc3\xbcn.example.org" },
        { longest, longest },
        { too_long, NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *helo = NULL;
        g_test_message("%zu", i);
        g_assert_cmpint(smtp_parse_helo(rows[i].text, &helo), ==, rows[i].helo != NULL);
        g_assert_cmpstr(helo, ==, rows[i].helo);
    }
}

/* -- the end of a message ---------------------------------------------------------------------- */

typedef struct Decoded {
    GByteArray *out;
    bool finished;
    bool lone;
    size_t used;
} Decoded;

/* Fed in pieces of these sizes (0: all at once), each a copy of its own. */
static Decoded
decode(const char *bytes, size_t length, size_t piece)
{
    Decoded decoded = { .out = g_byte_array_new() };
    SmtpDot dot = DOT_LINE_START;
    size_t at = 0;
    while (at < length && !decoded.finished) {
        size_t n = piece > 0 ? MIN(piece, length - at) : length - at;
        g_autofree uint8_t *copy = g_memdup2(bytes + at, n);
        size_t used = 0;
        decoded.finished = smtp_data_decode(&dot, copy, n, &used, &decoded.lone, decoded.out);
        g_assert_cmpuint(used, <=, n);
        g_assert_true(decoded.finished || used == n);
        at += used;
    }
    decoded.used = at;
    return decoded;
}

typedef struct Row {
    const char *bytes;
    const char *message; /* null: the end is not there */
    const char *behind;
    bool lone;
} Row;

static const Row data_rows[] = {
    { ".\r\n", "", "", false },
    { "a\r\n.\r\n", "a\r\n", "", false },
    { "a\r\n.\r\nQUIT\r\n", "a\r\n", "QUIT\r\n", false },
    { "..\r\n.\r\n", ".\r\n", "", false },
    { "...a\r\n.\r\n", "..a\r\n", "", false },
    { ".a\r\n.\r\n", "a\r\n", "", false },
    { "\r\n.\r\n", "\r\n", "", false },
    { "\r\n\r\n.\r\n", "\r\n\r\n", "", false },
    { "a.\r\n.\r\n", "a.\r\n", "", false },
    { "a\r\n.", NULL, "", false },
    { "a\r\n.\r", NULL, "", false },
    { "a", NULL, "", false },
    { "a\r", NULL, "", false },
    /* What other servers have taken for an end, and we must not. */
    { "a\n.\nb\r\n.\r\n", "a\r\n.\r\nb\r\n", "", true },
    { "a\n.\r\nb\r\n.\r\n", "a\r\n.\r\nb\r\n", "", true },
    { "a\r\n.\nb\r\n.\r\n", "a\r\n\r\nb\r\n", "", true },
    { "a\r.\rb\r\n.\r\n", "a\r.\rb\r\n", "", true },
    { "a\r.\r\nb\r\n.\r\n", "a\r.\r\nb\r\n", "", true },
    { "a\r\n.\rb\r\n.\r\n", "a\r\n\rb\r\n", "", true },
    { "a\r\n.\r\r\nb\r\n.\r\n", "a\r\n\r\r\nb\r\n", "", true },
    { "a\r\r\n.\r\n", "a\r\r\n", "", true },
    { "a\n\n.\r\n.\r\n", "a\r\n\r\n.\r\n", "", true },
    { "a\r\n..\nb\r\n.\r\n", "a\r\n.\r\nb\r\n", "", true },
    { "a\n\r\n.\r\n", "a\r\n\r\n", "", true },
    { "a\r\n\n.\r\n.\r\n", "a\r\n\r\n.\r\n", "", true },
};

static void
test_data_table(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(data_rows); i++) {
        const Row *row = &data_rows[i];
        Decoded decoded = decode(row->bytes, strlen(row->bytes), 0);
        g_test_message("%zu", i);
        g_assert_cmpint(decoded.finished, ==, row->message != NULL);
        if (row->message != NULL) {
            g_assert_cmpmem(
                decoded.out->data, (int)decoded.out->len, row->message, (int)strlen(row->message));
            g_assert_cmpstr(row->bytes + decoded.used, ==, row->behind);
            g_assert_cmpint(decoded.lone, ==, row->lone);
        }
        g_byte_array_unref(decoded.out);
    }
}

/* However the bytes are cut, the message is the same. */
static void
test_data_splits(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(data_rows); i++) {
        const char *bytes = data_rows[i].bytes;
        size_t length = strlen(bytes);
        Decoded whole = decode(bytes, length, 0);
        for (size_t piece = 1; piece <= length; piece++) {
            Decoded parts = decode(bytes, length, piece);
            g_test_message("%zu by %zu", i, piece);
            g_assert_cmpint(parts.finished, ==, whole.finished);
            g_assert_cmpint(parts.lone, ==, whole.lone);
            g_assert_cmpuint(parts.used, ==, whole.used);
            g_assert_cmpmem(
                parts.out->data, (int)parts.out->len, whole.out->data, (int)whole.out->len);
            g_byte_array_unref(parts.out);
        }
        g_byte_array_unref(whole.out);
    }
}

/* All strings of seven bytes over the ones that matter: the end is CR LF "." CR LF and nothing
 * else. */
static void
test_data_exhaustive(void)
{
    static const char letters[] = "\r\n.a";
    enum { LENGTH = 7 };
    for (unsigned n = 0; n < 1u << (2 * LENGTH); n++) {
        char bytes[LENGTH + 2] = "\r\n"; /* DATA begins at the start of a line */
        for (unsigned k = 0; k < LENGTH; k++)
            bytes[k + 2] = letters[n >> 2 * k & 3];
        const char *end = NULL;
        for (const char *at = bytes; end == NULL && at + 5 <= bytes + sizeof(bytes); at++)
            if (memcmp(at, "\r\n.\r\n", 5) == 0)
                end = at + 5;
        Decoded decoded = decode(bytes + 2, LENGTH, 0);
        g_assert_cmpint(decoded.finished, ==, end != NULL);
        if (end != NULL)
            g_assert_cmpuint(decoded.used, ==, (size_t)(end - bytes) - 2);
        g_byte_array_unref(decoded.out);
    }
}

/* What a client that stuffs dots sends comes out as it was. */
static void
test_data_round_trip(void)
{
    for (int i = 0; i < 5000; i++) {
        g_autoptr(GString) message = g_string_new(NULL);
        int lines = g_test_rand_int_range(0, 6);
        for (int k = 0; k < lines; k++) {
            int length = g_test_rand_int_range(0, 5);
            for (int c = 0; c < length; c++)
                g_string_append_c(message, ".ab"[g_test_rand_int_range(0, 3)]);
            g_string_append(message, "\r\n");
        }
        g_autoptr(GString) wire = g_string_new(NULL);
        for (const char *at = message->str; *at != '\0'; at++) {
            if (*at == '.' && (at == message->str || at[-1] == '\n'))
                g_string_append_c(wire, '.');
            g_string_append_c(wire, *at);
        }
        g_string_append(wire, ".\r\n");
        Decoded decoded = decode(wire->str, wire->len, (size_t)g_test_rand_int_range(0, 7));
        g_assert_true(decoded.finished);
        g_assert_false(decoded.lone);
        g_assert_cmpmem(decoded.out->data, (int)decoded.out->len, message->str, (int)message->len);
        g_byte_array_unref(decoded.out);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/smtp-parse/keyword/table", test_keyword);
    g_test_add_func("/smtp-parse/parameters/table", test_parameters);
    g_test_add_func("/smtp-parse/helo/table", test_helo);
    g_test_add_func("/smtp-data/decode/table", test_data_table);
    g_test_add_func("/smtp-data/decode/splits", test_data_splits);
    g_test_add_func("/smtp-data/decode/exhaustive", test_data_exhaustive);
    g_test_add_func("/smtp-data/decode/round-trip", test_data_round_trip);
    return g_test_run();
}
