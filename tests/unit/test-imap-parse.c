/* test-imap-parse.c - the words of IMAP commands: atoms, strings, sets, flags, dates, literals,
 * names, patterns */
#include "plugins/imap/imap.h"

#include <string.h>
#include <time.h>

/* A parser over a copy of exactly these bytes. */
typedef struct Span {
    ImapParser parser;
    char *copy;
} Span;

static Span
span_new(const char *bytes, size_t length)
{
    Span span = { .copy = g_malloc(MAX(length, 1)) };
    memcpy(span.copy, bytes, length);
    span.parser = (ImapParser){ .at = span.copy, .end = span.copy + length };
    return span;
}

static Span
span_of(const char *text)
{
    return span_new(text, strlen(text));
}

/* What is left. */
static char *
rest(const Span *span)
{
    return g_strndup(span->parser.at, (size_t)(span->parser.end - span->parser.at));
}

static void
span_clear(Span *span)
{
    g_free(span->copy);
}

/* -- words ------------------------------------------------------------------------------------- */

static void
test_word(void)
{
    static const struct {
        const char *text;
        const char *word;
        bool good;
    } rows[] = {
        { "FETCH 1", "FETCH", true },
        { "fetch", "FETCH", true },
        { "fetchx", "FETCH", false },
        { "fetc", "FETCH", false },
        { "BODY[", "BODY", true },
        { "BODY.PEEK[", "BODY", false },
        { "BODY]", "BODY", true },
        { "BODY(", "BODY", true },
        { "BODY\xc3\xbc", "BODY", true },
        { "", "BODY", false },
        { "NIL)", "NIL", true },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        g_test_message("%zu", i);
        g_assert_cmpint(imap_parse_word(&span.parser, rows[i].word), ==, rows[i].good);
        g_assert_cmpint(
            span.parser.at - span.copy, ==, rows[i].good ? (int)strlen(rows[i].word) : 0);
        span_clear(&span);
    }
}

static void
test_strings(void)
{
    static const struct {
        const char *text;
        const char *astring; /* null: refused */
        const char *rest;
    } rows[] = {
        { "abc def", "abc", " def" },
        { "a]b", "a]b", "" },
        { "a[b", "a[b", "" },
        { "(", NULL, "(" },
        { "", NULL, "" },
        { " a", NULL, " a" },
        { "a%b", "a", "%b" },
        { "a*b", "a", "*b" },
        { "a\\b", "a", "\\b" },
        { "a{5}", "a", "{5}" },
        { "gr\xc3\xbcn", "gr\xc3\xbcn", "" },
        { "a\x7f", "a", "\x7f" },
        { "a\x01", "a", "\x01" },
        { "\"\" x", "", " x" },
        { "\"a b\"c", "a b", "c" },
        { "\"a\\\"b\\\\c\"", "a\"b\\c", "" },
        { "\"a\\nb\"", NULL, "\"a\\nb\"" },
        { "\"abc", NULL, "\"abc" },
        { "\"abc\\", NULL, "\"abc\\" },
        { "\"a\rb\"", NULL, "\"a\rb\"" },
        { "\"a\nb\"", NULL, "\"a\nb\"" },
        { "{0}\r\n", "", "" },
        { "{3}\r\nabcdef", "abc", "def" },
        { "{3+}\r\nab\r", "ab\r", "" },
        { "{3}\nabc", "abc", "" },
        { "{4}\r\nabc", NULL, "{4}\r\nabc" },
        { "{3}", NULL, "{3}" },
        { "{3}\r", NULL, "{3}\r" },
        { "{}\r\n", NULL, "{}\r\n" },
        { "{+}\r\n", NULL, "{+}\r\n" },
        { "{-1}\r\na", NULL, "{-1}\r\na" },
        { "{3 }\r\nabc", NULL, "{3 }\r\nabc" },
        { "{18446744073709551616}\r\na", NULL, "{18446744073709551616}\r\na" },
        { "{99999999999}\r\na", NULL, "{99999999999}\r\na" },
        { "{4294967296}\r\na", NULL, "{4294967296}\r\na" },
        { "{3++}\r\nabc", NULL, "{3++}\r\nabc" },
        { "{03}\r\nabc", "abc", "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        size_t length = 0;
        g_autofree char *text = imap_parse_astring(&span.parser, &length);
        g_autofree char *left = rest(&span);
        g_test_message("%zu", i);
        g_assert_cmpstr(text, ==, rows[i].astring);
        g_assert_cmpstr(left, ==, rows[i].rest);
        if (text != NULL)
            g_assert_cmpuint(length, ==, strlen(text));
        span_clear(&span);
    }
}

/* A NUL is in no string. */
static void
test_strings_nul(void)
{
    static const char quoted[] = "\"a\0b\"";
    static const char literal[] = "{3}\r\na\0b";
    static const char atom[] = "a\0b";
    size_t length;
    Span span = span_new(quoted, sizeof(quoted) - 1);
    g_assert_null(imap_parse_astring(&span.parser, &length));
    span_clear(&span);
    span = span_new(literal, sizeof(literal) - 1);
    g_assert_null(imap_parse_astring(&span.parser, &length));
    span_clear(&span);
    span = span_new(atom, sizeof(atom) - 1);
    g_autofree char *text = imap_parse_astring(&span.parser, &length);
    g_assert_cmpstr(text, ==, "a");
    g_assert_cmpint(span.parser.end - span.parser.at, ==, 2);
    span_clear(&span);
}

/* Any beginning of a string is either refused without moving, or a shorter string. */
static void
test_strings_bytes(void)
{
    static const char *const rows[] = { "\"a\\\"b\\\\c\"", "{12}\r\nabcdefghijkl", "{3+}\r\nabc",
        "atom", "\"\"" };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        for (size_t length = 0; length < strlen(rows[i]); length++) {
            Span span = span_new(rows[i], length);
            size_t text_length = 0;
            g_autofree char *text = imap_parse_astring(&span.parser, &text_length);
            if (text == NULL)
                g_assert_true(span.parser.at == span.copy);
            else
                g_assert_cmpstr(rows[i], ==, "atom");
            span_clear(&span);
        }
}

static void
test_atom(void)
{
    Span span = span_of("tag1 x");
    g_autofree char *atom = imap_parse_atom(&span.parser);
    g_assert_cmpstr(atom, ==, "tag1");
    g_assert_true(imap_parse_space(&span.parser));
    g_assert_false(imap_parse_space(&span.parser));
    g_assert_true(imap_parse_char(&span.parser, 'x'));
    g_assert_true(imap_parse_end(&span.parser));
    g_assert_false(imap_parse_char(&span.parser, 'x'));
    g_assert_null(imap_parse_atom(&span.parser));
    span_clear(&span);
    span = span_of("a]b");
    g_autofree char *short_atom = imap_parse_atom(&span.parser);
    g_assert_cmpstr(short_atom, ==, "a");
    span_clear(&span);
    span = span_of("a%b*c]d/e(");
    g_autofree char *pattern = imap_parse_list_mailbox(&span.parser);
    g_assert_cmpstr(pattern, ==, "a%b*c]d/e");
    span_clear(&span);
}

static void
test_number(void)
{
    static const struct {
        const char *text;
        bool good;
        uint32_t number;
    } rows[] = {
        { "0", true, 0 },
        { "4294967295", true, UINT32_MAX },
        { "4294967296", false, 0 },
        { "99999999999999999999999", false, 0 },
        { "", false, 0 },
        { "-1", false, 0 },
        { "+1", false, 0 },
        { "12x", true, 12 },
        { "007", true, 7 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        uint32_t number = 0;
        g_assert_cmpint(imap_parse_number(&span.parser, &number), ==, rows[i].good);
        g_assert_cmpuint(number, ==, rows[i].number);
        span_clear(&span);
    }
}

/* -- sets -------------------------------------------------------------------------------------- */

static void
test_set(void)
{
    static const struct {
        const char *text;
        const char *expected; /* null: refused */
        const char *rest;
    } rows[] = {
        { "1", "1:1", "" },
        { "1,2", "1:1 2:2", "" },
        { "1:3,5 x", "1:3 5:5", " x" },
        { "*", "0:0", "" } /* IMAP_SET_LAST */,
        { "5:*", "5:0", "" },
        { "*:5", "0:5", "" },
        { "3:1", "3:1", "" },
        { "4294967295", "4294967295:4294967295", "" },
        { "1:2:3", "1:2", ":3" },
        { "", NULL, "" },
        { "0", NULL, "0" },
        { "1:0", NULL, "1:0" },
        { "1,", NULL, "1," },
        { "1,,2", NULL, "1,,2" },
        { ",1", NULL, ",1" },
        { "1:", NULL, "1:" },
        { ":1", NULL, ":1" },
        { "a", NULL, "a" },
        { "1:a", NULL, "1:a" },
        { "4294967296", NULL, "4294967296" },
        { "1, 2", NULL, "1, 2" },
        { "**", "0:0", "*" },
        { "-1", NULL, "-1" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        g_autoptr(GArray) set = imap_parse_set(&span.parser);
        g_autoptr(GString) text = g_string_new(NULL);
        for (guint k = 0; set != NULL && k < set->len; k++) {
            const PhUidRange *range = &g_array_index(set, PhUidRange, k);
            g_string_append_printf(text, "%s%u:%u", k > 0 ? " " : "", range->first, range->last);
        }
        g_autofree char *left = rest(&span);
        g_test_message("%s", rows[i].text);
        g_assert_cmpstr(set != NULL ? text->str : NULL, ==, rows[i].expected);
        g_assert_cmpstr(left, ==, rows[i].rest);
        span_clear(&span);
    }
}

static void
test_set_limit(void)
{
    g_autoptr(GString) text = g_string_new("1");
    for (int i = 1; i < 20000; i++)
        g_string_append(text, ",1");
    Span span = span_of(text->str);
    g_autoptr(GArray) most = imap_parse_set(&span.parser);
    g_assert_nonnull(most);
    g_assert_cmpuint(most->len, ==, 20000);
    span_clear(&span);
    g_string_append(text, ",1");
    span = span_of(text->str);
    g_assert_null(imap_parse_set(&span.parser));
    span_clear(&span);
}

/* -- flags ------------------------------------------------------------------------------------- */

static void
test_flags(void)
{
    static const struct {
        const char *text;
        bool parentheses;
        bool good;
        uint32_t flags;
        const char *keywords;
    } rows[] = {
        { "(\\Seen)", true, true, PH_FLAG_SEEN, "" },
        { "(\\seen \\ANSWERED \\Flagged \\Deleted \\Draft)", true, true,
            PH_FLAG_SEEN | PH_FLAG_ANSWERED | PH_FLAG_FLAGGED | PH_FLAG_DELETED | PH_FLAG_DRAFT,
            "" },
        { "()", true, true, 0, "" },
        { "()", false, true, 0, "" },
        { "(\\Recent)", true, true, 0, "" },
        { "\\Seen $Junk", false, true, PH_FLAG_SEEN, "$Junk" },
        { "\\Seen", true, false, 0, NULL },
        { "(a b c)", true, true, 0, "a b c" },
        { "(\\Unknown)", true, false, 0, NULL },
        { "(\\)", true, false, 0, NULL },
        { "(\\ Seen)", true, false, 0, NULL },
        { "(\\Seen", true, false, 0, NULL },
        { "(\\Seen )", true, false, 0, NULL },
        { "( \\Seen)", true, false, 0, NULL },
        { "(\\Seen\\Draft)", true, false, 0, NULL },
        { "", false, false, 0, NULL },
        { "(a\"b\")", true, false, 0, NULL },
        { "(\\*)", true, false, 0, NULL },
        { "(\xc3\xbc)", true, false, 0, NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        uint32_t flags = 0;
        g_auto(GStrv) keywords = NULL;
        g_test_message("%zu", i);
        g_assert_cmpint(imap_parse_flags(&span.parser, rows[i].parentheses, &flags, &keywords), ==,
            rows[i].good);
        g_assert_cmpuint(flags, ==, rows[i].flags);
        g_autofree char *joined = keywords != NULL ? g_strjoinv(" ", keywords) : NULL;
        g_assert_cmpstr(joined, ==, rows[i].keywords);
        span_clear(&span);
    }
}

static void
test_flags_limit(void)
{
    g_autoptr(GString) text = g_string_new("(a");
    for (int i = 0; i < 300; i++)
        g_string_append(text, " a");
    g_string_append_c(text, ')');
    Span span = span_of(text->str);
    uint32_t flags;
    char **keywords = NULL;
    g_assert_false(imap_parse_flags(&span.parser, true, &flags, &keywords));
    g_assert_null(keywords);
    span_clear(&span);
    g_autofree char *endless = g_strnfill(PH_KEYWORD_MAX_BYTES + 1, 'k');
    span = span_of(endless);
    g_assert_false(imap_parse_flags(&span.parser, false, &flags, &keywords));
    span_clear(&span);
}

/* -- dates ------------------------------------------------------------------------------------- */

static void
test_date(void)
{
    static const struct {
        const char *text;
        bool good;
        int64_t day;
    } rows[] = {
        { "1-Jan-1970", true, 0 },
        { "\"1-Jan-1970\"", true, 0 },
        { "2-jan-1970", true, 1 },
        { "31-DEC-1969", true, -1 },
        { "01-Feb-1994", true, 8797 },
        { "29-Feb-2000", true, 11016 },
        { "29-Feb-1900", false, 0 },
        { "30-Feb-2000", false, 0 },
        { "0-Jan-1970", false, 0 },
        { "32-Jan-1970", false, 0 },
        { "1-Jax-1970", false, 0 },
        { "1-anf-1970", false, 0 },
        { "1-Jan-70", false, 0 },
        { "1-Jan-0000", false, 0 },
        { "1-Jan-9999", true, 2932532 },
        { "1-Ja", false, 0 },
        { "", false, 0 },
        { "\"1-Jan-1970", false, 0 },
        { "1 Jan 1970", false, 0 },
        { "-1-Jan-1970", false, 0 },
        { "001-Jan-1970", false, 0 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        int64_t day = 0;
        g_test_message("%s", rows[i].text);
        g_assert_cmpint(imap_parse_date(&span.parser, &day), ==, rows[i].good);
        g_assert_cmpint(day, ==, rows[i].day);
        if (!rows[i].good)
            g_assert_true(span.parser.at == span.copy);
        span_clear(&span);
    }
}

static void
test_date_time(void)
{
    static const struct {
        const char *text;
        bool good;
        int64_t seconds;
    } rows[] = {
        { "\" 1-Jan-1970 00:00:00 +0000\"", true, 0 },
        { "\"01-Jan-1970 01:00:00 +0100\"", true, 0 },
        { "\"17-Jul-1996 02:44:25 -0700\"", true, 837596665 },
        { "\"31-Dec-1969 23:59:59 +0000\"", true, -1 },
        { "\"01-Jan-1970 23:59:60 +0000\"", true, 86400 },
        { "\"01-Jan-1970 24:00:00 +0000\"", false, 0 },
        { "\"01-Jan-1970 00:60:00 +0000\"", false, 0 },
        { "\"01-Jan-1970 00:00:61 +0000\"", false, 0 },
        { "\"01-Jan-1970 0:00:00 +0000\"", false, 0 },
        { "\"01-Jan-1970 00:00:00 0000\"", false, 0 },
        { "\"01-Jan-1970 00:00:00 +000\"", false, 0 },
        { "\"01-Jan-1970 00:00:00 GMT\"", false, 0 },
        { "\"01-Jan-1970 00:00:00\"", false, 0 },
        { "01-Jan-1970 00:00:00 +0000", false, 0 },
        { "\"01-Jan-1970 00:00:00 +0000", false, 0 },
        { "\"\"", false, 0 },
        { "", false, 0 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Span span = span_of(rows[i].text);
        int64_t time_us = 0;
        g_test_message("%s", rows[i].text);
        g_assert_cmpint(imap_parse_date_time(&span.parser, &time_us), ==, rows[i].good);
        g_assert_cmpint(time_us, ==, rows[i].seconds * G_USEC_PER_SEC);
        span_clear(&span);
    }
}

/* -- literals ---------------------------------------------------------------------------------- */

static void
test_literal_end(void)
{
    static const struct {
        const char *line;
        bool good;
        uint64_t size;
        bool synchronising;
    } rows[] = {
        { "a LOGIN {5}\r\n", true, 5, true },
        { "a LOGIN {5+}\r\n", true, 5, false },
        { "{0}\n", true, 0, true },
        { "x{9999999999}\r\n", true, UINT64_C(9999999999), true },
        { "x{99999999999}\r\n", false, 0, false },
        { "{}\r\n", false, 0, false },
        { "{+}\r\n", false, 0, false },
        { "5}\r\n", false, 0, false },
        { "{5} \r\n", false, 0, false },
        { "{5}x\r\n", false, 0, false },
        { "{a}\r\n", false, 0, false },
        { "{5-}\r\n", false, 0, false },
        { "}\r\n", false, 0, false },
        { "\r\n", false, 0, false },
        { "\n", false, 0, false },
        { "", false, 0, false },
        { "{5}", true, 5, true },
        { "{5}\r", true, 5, true },
        { "+}\n", false, 0, false },
        { "5+}\n", false, 0, false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        size_t length = strlen(rows[i].line);
        g_autofree char *copy = g_memdup2(rows[i].line, MAX(length, 1));
        uint64_t size = 0;
        bool synchronising = false;
        g_test_message("%zu", i);
        g_assert_cmpint(
            imap_line_ends_with_literal(copy, length, &size, &synchronising), ==, rows[i].good);
        if (rows[i].good) {
            g_assert_cmpuint(size, ==, rows[i].size);
            g_assert_cmpint(synchronising, ==, rows[i].synchronising);
        }
    }
}

static void
test_append_message(void)
{
    static const struct {
        const char *buffer;
        bool is_message;
    } rows[] = {
        { "a APPEND INBOX {310}\r\n", true },
        { "a append \"in box\" {310+}\r\n", true },
        { "a APPEND INBOX (\\Seen) {310}\r\n", true },
        { "a APPEND INBOX (\\Seen) \"17-Jul-1996 02:44:25 -0700\" {310}\r\n", true },
        { "a APPEND INBOX \"17-Jul-1996 02:44:25 -0700\" {310}\r\n", true },
        { "a APPEND {5}\r\nINBOX {310}\r\n", true },
        { "a APPEND {5}\r\n", false }, /* the name */
        { "a APPEND {5}\r\nINBO", false },
        { "a APPEND INBOX (\\Seen {310}\r\n", false },
        { "a APPEND INBOX() {3}\r\n", false },
        { "a LOGIN x {310}\r\n", false },
        { "APPEND INBOX {310}\r\n", false },
        { "a UID APPEND INBOX {3}\r\n", false },
        { "", false },
        { "a APPEND INBOX \"yesterday\" {3}\r\n", false },
        { "a APPENDX INBOX {3}\r\n", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        size_t length = strlen(rows[i].buffer);
        g_autofree char *copy = g_memdup2(rows[i].buffer, MAX(length, 1));
        g_test_message("%s", rows[i].buffer);
        g_assert_cmpint(imap_is_append_message(copy, length), ==, rows[i].is_message);
    }
}

/* -- names ------------------------------------------------------------------------------------- */

static void
test_utf7_table(void)
{
    static const struct {
        const char *wire;
        const char *utf8; /* null: malformed */
        bool canonical;   /* is what we would send */
    } rows[] = {
        { "INBOX", "INBOX", true },
        { "", "", true },
        { "a&-b", "a&b", true },
        { "&-", "&", true },
        { "&-&-", "&&", true },
        { "~peter/mail/&U,BTFw-/&ZeVnLIqe-",
            "~peter/mail/\xe5\x8f\xb0\xe5\x8c\x97/\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", true },
        { "Entw&APw-rfe", "Entw\xc3\xbcrfe", true },
        { "&2D3eCg-", "\xf0\x9f\x98\x8a", true },
        { "&AOkA6Q-", "\xc3\xa9\xc3\xa9", true },
        { "&AOk-&AOk-", "\xc3\xa9\xc3\xa9", false },
        { "Entw\xc3\xbcrfe", "Entw\xc3\xbcrfe", false },
        { "&", NULL, false },
        { "&U", NULL, false },
        { "a&b", NULL, false },
        { "&U,BTFw", NULL, false },
        { "&!-", NULL, false },
        { "&/-", NULL, false },
        { "&AAA-", NULL, false }, /* U+0000 */
        { "&2D0-", NULL, false },
        { "&3go-", NULL, false },
        { "&3goo-", NULL, false }, /* lone surrogates */
        { "&A-", NULL, false },
        { "&AO-", NULL, false },
        { "&AOl-", NULL, false }, /* bits left over */
        { "&AOkA-", NULL, false },
        { "&=-", NULL, false },
        { "&AOk=-", NULL, false },
        { "\xff", NULL, false },
        { "\xc3", NULL, false },
        { "&AEE-", "A", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        size_t length = strlen(rows[i].wire);
        g_autofree char *copy = g_memdup2(rows[i].wire, MAX(length, 1));
        g_autofree char *decoded = imap_utf7_decode(copy, length);
        g_test_message("%zu", i);
        g_assert_cmpstr(decoded, ==, rows[i].utf8);
        if (decoded == NULL)
            continue;
        g_autoptr(GString) encoded = g_string_new(NULL);
        imap_utf7_encode(encoded, decoded);
        if (rows[i].canonical)
            g_assert_cmpstr(encoded->str, ==, rows[i].wire);
        g_autofree char *again = imap_utf7_decode(encoded->str, encoded->len);
        g_assert_cmpstr(again, ==, decoded);
    }
}

/* Every character there is, alone and beside others. */
static void
test_utf7_round_trip(void)
{
    for (gunichar c = 1; c <= 0x10ffff; c += c < 0x3000 ? 1 : 97) {
        if (!g_unichar_validate(c))
            continue;
        char text[32];
        int n = g_unichar_to_utf8(c, text);
        text[n] = '\0';
        g_autofree char *name = g_strdup_printf("a%s&%s%sz", text, text, text);
        g_autoptr(GString) encoded = g_string_new(NULL);
        imap_utf7_encode(encoded, name);
        for (gsize i = 0; i < encoded->len; i++)
            g_assert_true(encoded->str[i] >= ' ' && encoded->str[i] < 0x7f);
        g_autofree char *decoded = imap_utf7_decode(encoded->str, encoded->len);
        g_assert_cmpstr(decoded, ==, name);
    }
}

/* -- patterns ---------------------------------------------------------------------------------- */

/* The definition itself, slowly. */
static bool
matches(const char *pattern, const char *name, int position, bool inbox)
{
    if (*pattern == '\0')
        return *name == '\0';
    if (*pattern == '*' || *pattern == '%')
        return matches(pattern + 1, name, position, inbox) ||
               (*name != '\0' && (*pattern == '*' || *name != '/') &&
                   matches(pattern, name + 1, position + 1, inbox));
    bool same = inbox && position < 5 ? g_ascii_toupper(*pattern) == g_ascii_toupper(*name)
                                      : *pattern == *name;
    return *name != '\0' && same && matches(pattern + 1, name + 1, position + 1, inbox);
}

static void
test_match_table(void)
{
    static const struct {
        const char *pattern;
        const char *name;
        bool good;
    } rows[] = {
        { "*", "a/b/c", true },
        { "%", "a", true },
        { "%", "a/b", false },
        { "%/%", "a/b", true },
        { "%/%", "a/b/c", false },
        { "a*", "abc/d", true },
        { "*c", "a/b/c", true },
        { "a%c", "a/c", false },
        { "", "", true },
        { "", "a", false },
        { "*", "", true },
        { "inbox", "INBOX", true },
        { "InBoX/%", "INBOX/sub", true },
        { "inbox/SUB", "INBOX/sub", false },
        { "inboxes", "INBOXES", false },
        { "inbox*", "INBOX/sub", true },
        { "%nbox", "INBOX", true },
        { "*x*", "INBOX", true },
        { "a", "A", false },
        { "gr\xc3\xbc%", "gr\xc3\xbcn", true },
        { "%/*/%", "a/b/c/d", true },
        { "*%*%*", "a/b", true },
        { "%*", "a/b", true },
        { "*%", "a/b", true },
        { "%%", "ab", true },
        { "**", "a/b", true },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_test_message("%s %s", rows[i].pattern, rows[i].name);
        g_assert_cmpint(imap_list_match(rows[i].pattern, rows[i].name), ==, rows[i].good);
    }
}

static void
test_match_random(void)
{
    static const char pattern_letters[] = "aab/%*";
    static const char name_letters[] = "aab/";
    for (int i = 0; i < 200000; i++) {
        char pattern[10];
        char name[12];
        int pattern_length = g_test_rand_int_range(0, 9);
        int name_length = g_test_rand_int_range(0, 11);
        for (int k = 0; k < pattern_length; k++)
            pattern[k] = pattern_letters[g_test_rand_int_range(0, 6)];
        for (int k = 0; k < name_length; k++)
            name[k] = name_letters[g_test_rand_int_range(0, 4)];
        pattern[pattern_length] = name[name_length] = '\0';
        if (imap_list_match(pattern, name) != matches(pattern, name, 0, false))
            g_error("pattern \"%s\", name \"%s\"", pattern, name);
    }
}

/* That this thread has used: others may use the machine, too. */
static int64_t
cpu_us(void)
{
    struct timespec used;
    g_assert_no_errno(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used));
    return (int64_t)used.tv_sec * G_USEC_PER_SEC + used.tv_nsec / 1000;
}

/* Patterns made to be slow: trying all ways would take years. */
static void
test_match_hostile(void)
{
    enum { NAME = 5000 };
    g_autofree char *name = g_strnfill(NAME, 'a');
    g_autoptr(GString) stars = g_string_new(NULL);
    for (int i = 0; i < 1000; i++)
        g_string_append(stars, "*a");
    g_string_append_c(stars, 'b');
    g_autoptr(GString) percents = g_string_new("*");
    for (int i = 0; i < 1000; i++)
        g_string_append(percents, "%a");
    g_string_append_c(percents, 'b');
    g_autofree char *run = g_strnfill(NAME / 2, 'a');
    g_autofree char *both = g_strdup_printf("*a%%%%%sb", run);
    g_autofree char *wild = g_strnfill(100000, '%');
    const char *const patterns[] = { stars->str, percents->str, both, wild };
    for (size_t i = 0; i < G_N_ELEMENTS(patterns); i++) {
        int64_t begin_us = cpu_us();
        g_assert_cmpint(imap_list_match(patterns[i], name), ==, patterns[i] == wild);
        int64_t spent_us = cpu_us() - begin_us;
        g_test_message("pattern %zu: %" G_GINT64_FORMAT " us", i, spent_us);
        g_assert_cmpint(spent_us, <, 10 * G_USEC_PER_SEC);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/imap-parse/word/table", test_word);
    g_test_add_func("/imap-parse/string/table", test_strings);
    g_test_add_func("/imap-parse/string/nul", test_strings_nul);
    g_test_add_func("/imap-parse/string/bytes", test_strings_bytes);
    g_test_add_func("/imap-parse/atom/steps", test_atom);
    g_test_add_func("/imap-parse/number/table", test_number);
    g_test_add_func("/imap-parse/set/table", test_set);
    g_test_add_func("/imap-parse/set/limit", test_set_limit);
    g_test_add_func("/imap-parse/flags/table", test_flags);
    g_test_add_func("/imap-parse/flags/limit", test_flags_limit);
    g_test_add_func("/imap-parse/date/table", test_date);
    g_test_add_func("/imap-parse/date-time/table", test_date_time);
    g_test_add_func("/imap-parse/literal/end", test_literal_end);
    g_test_add_func("/imap-parse/append/message", test_append_message);
    g_test_add_func("/imap-utf7/decode/table", test_utf7_table);
    g_test_add_func("/imap-utf7/round-trip/all", test_utf7_round_trip);
    g_test_add_func("/imap-match/list/table", test_match_table);
    g_test_add_func("/imap-match/list/random", test_match_random);
    g_test_add_func("/imap-match/list/hostile", test_match_hostile);
    return g_test_run();
}
