/* test-message-header.c - fields, encoded words, parameters, dates, text */
#include <posthouse/message-header.h>

#include <string.h>

/* -- fields ------------------------------------------------------------------------------------ */

static char *
dump_fields(const char *block, size_t length)
{
    GString *out = g_string_new(NULL);
    PhHeaderIter iter;
    PhHeaderField field;
    size_t covered = 0;
    ph_header_iter_init(&iter, block, length);
    while (ph_header_iter_next(&iter, &field)) {
        g_assert_true(field.start == block + covered);
        covered += field.length;
        g_string_append_len(out, field.name, (gssize)field.name_length);
        g_autofree char *value = g_strndup(field.value, field.value_length);
        g_autofree char *escaped = g_strescape(value, NULL);
        g_string_append_printf(out, "=[%s]", escaped);
    }
    return g_string_free(out, FALSE);
}

static void
test_iterate(void)
{
    static const struct {
        const char *block;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "", "", "2" },
        { "\r\n", "", "2" },
        { "A: b", "A=[ b]", "2" },
        { "A: b\r\n\r\nC: d\r\n", "A=[ b]", "2" },
        { "A: b\n\nC: d\n", "A=[ b]", "2" },
        { "A:\r\n b\r\n\tc\r\nD:e\r\n\r\n", "A=[\\r\\n b\\r\\n\\tc]D=[e]", "2" },
        { "A \t: b\r\n", "A=[ b]", "2" },
        { "From x at y\r\nA: b\r\n", "=[From x at y]A=[ b]", "2" },
        { ": x\r\n", "=[ x]", "2" },
        { " folded first\r\nA: b\r\n", "=[ folded first]A=[ b]", "2" },
        { "junk\r\n more: junk\r\nA: b\r\n", "=[junk\\r\\n more: junk]A=[ b]", "2" },
        { "A: b\r\n \r\nC: d\r\n", "A=[ b\\r\\n ]C=[ d]", "2" },
        { "A: b\rC: d\r\n", "A=[ b\\rC: d]", "2" },
        { "A:", "A=[]", "2" },
        { "A:\r", "A=[\\r]", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = dump_fields(rows[i].block, strlen(rows[i].block));
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
}

static void
test_subset(void)
{
    static const char block[] =
        "From: a\r\nTo: b\r\n c\r\nX-Y: 1\r\nfrom: d\r\njunk\r\nLast: e\r\n\r\n";
    static const char *const names[] = { "FROM", "to", "absent", "" };
    g_autoptr(GString) out = g_string_new(NULL);
    ph_header_subset(block, sizeof(block) - 1, names, 4, false, out);
    g_assert_cmpstr(out->str, ==, "From: a\r\nTo: b\r\n c\r\nfrom: d\r\n\r\n");
    g_string_truncate(out, 0);
    ph_header_subset(block, sizeof(block) - 1, names, 4, true, out);
    g_assert_cmpstr(out->str, ==, "X-Y: 1\r\njunk\r\nLast: e\r\n\r\n");
    g_string_truncate(out, 0);
    ph_header_subset(block, sizeof(block) - 1, NULL, 0, false, out);
    g_assert_cmpstr(out->str, ==, "\r\n");
    g_string_truncate(out, 0);
    ph_header_subset("A: b", 4, names, 4, true, out);
    g_assert_cmpstr(out->str, ==, "A: b\r\n\r\n");
}

static void
test_unfold(void)
{
    static const struct {
        const char *value;
        size_t length;
        const char *expected;
    } rows[] = {
        { " a\r\n b\r\n\tc ", 11, "a b\tc" },
        { "\r\n \r\n x", 7, "x" },
        { " a\rb\n c", 7, "a b c" },
        { " a\0b", 4, "a?b" },
        { "   ", 3, "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = ph_header_unfold(rows[i].value, rows[i].length);
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
}

/* -- encoded words ----------------------------------------------------------------------------- */

static void
test_decode(void)
{
    static const struct {
        const char *value;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "plain text", "plain text", "2" },
        { "=?utf-8?Q?Gr=C3=BC=C3=9Fe?=", "Grüße", "2" },
        { "=?UTF-8?b?R3LDvMOfZQ==?=", "Grüße", "2" },
        { "=?iso-8859-1?q?a_b=20c?=", "a b c", "2" },
        { "=?iso-8859-1*de?q?Gr=FC=DFe?=", "Grüße", "2" },
        { "x =?utf-8?q?a?= =?utf-8?q?b?= y", "x ab y", "2" },
        { "=?utf-8?q?a?=\r\n =?utf-8?q?b?=", "ab", "2" },
        { "=?utf-8?q?a?= b =?utf-8?q?c?=", "a b c", "2" },
        { "=?utf-8?q?a?==?utf-8?q?b?=", "ab", "2" },
        /* A character split between two words. */
        { "=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "ü", "2" },
        { "=?iso-2022-jp?B?GyRCJUYlOSVIGyhC?=", "テスト", "2" },
        { "=?unknown-set?q?abc=FF?=", "abc\xef\xbf\xbd", "2" },
        { "=?/etc/passwd?q?abc?=", "=?/etc/passwd?q?abc?=", "2" },
        { "=?utf-8//TRANSLIT?q?abc?=", "=?utf-8//TRANSLIT?q?abc?=", "2" },
        { "=?utf-8?x?abc?=", "=?utf-8?x?abc?=", "2" },
        { "=?utf-8?q?abc", "=?utf-8?q?abc", "2" },
        { "=?utf-8?q?"
          "?=",
            "", "2" },
        { "=?utf-8?q?spaces are sent?=", "spaces are sent", "2" },
        { "=?utf-8?q?a=00b=0D=0Ac?=",
            "a\xef\xbf\xbd"
            "b  c",
            "2" },
        { "=?", "=?", "2" },
        { "=?=?=?=?", "=?=?=?=?", "2" },
        { "raw \xc3\xbc", "raw ü", "2" },
        { "raw \xfc", "raw \xef\xbf\xbd", "2" },
        { "=?utf-8?q?=ZZ=?=", "=ZZ=", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = ph_header_decode(rows[i].value, strlen(rows[i].value));
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
}

static void
test_decode_is_linear(void)
{
    g_autoptr(GString) value = g_string_new(NULL);
    for (int i = 0; i < 200000; i++)
        g_string_append(value, "=?a?q?");
    for (int i = 0; i < 20000; i++)
        g_string_append_printf(value, "=?x-%d?q?a?= ", i);
    g_autofree char *text = ph_header_decode(value->str, value->len);
    g_assert_true(g_utf8_validate(text, -1, NULL));

    /* Many words of one set are all decoded; of one that is unknown, no time is lost. */
    g_string_truncate(value, 0);
    for (int i = 0; i < 1000; i++)
        g_string_append(value, "=?iso-8859-1?q?=FC?=, ");
    g_autofree char *same = ph_header_decode(value->str, value->len);
    g_assert_true(g_str_has_suffix(same, "ü, ü,"));
    g_assert_cmpint(g_utf8_strlen(same, -1), ==, 3 * 1000 - 1);
    for (int i = 0; i < 300000; i++)
        g_string_append(value, "=?x-unknown?q?a?=, ");
    g_autofree char *unknown = ph_header_decode(value->str, value->len);
    g_assert_true(g_str_has_suffix(unknown, "a, a,"));
}

/* -- parameters -------------------------------------------------------------------------------- */

static void
test_content_type(void)
{
    static const struct {
        const char *value;
        const char *type; /* NULL: none */
        const char *subtype;
        const char *name; /* of the parameter */
        const char *raw;
        const char *decoded;
        const char *issue;
    } rows[] = {
        { " text/plain", "text", "plain", "charset", NULL, NULL, "2" },
        { " Text / HTML ; Charset = UTF-8", "text", "html", "charset", "UTF-8", "UTF-8", "2" },
        { "text/plain;charset=\"a\\\"b\"", "text", "plain", "charset", "a\"b", "a\"b", "2" },
        { "text/plain; (c;=) charset=x (y)", "text", "plain", "charset", "x", "x", "2" },
        { "text/plain; junk; charset=x", "text", "plain", "charset", "x", "x", "2" },
        { "text/plain;;; charset=x;", "text", "plain", "charset", "x", "x", "2" },
        { "text/plain; name=my report.pdf", "text", "plain", "name", "my report.pdf",
            "my report.pdf", "2" },
        { "text/plain; name=\"unclosed", "text", "plain", "name", "unclosed", "unclosed", "2" },
        { "text/plain; name=", "text", "plain", "name", "", "", "2" },
        { "text", "text", "plain", "x", NULL, NULL, "2" },
        { "junk", NULL, NULL, NULL, NULL, NULL, "2" },
        { "/plain", NULL, NULL, NULL, NULL, NULL, "2" },
        { "", NULL, NULL, NULL, NULL, NULL, "2" },
        { "a/b; name=\"=?utf-8?q?=C3=BC.txt?=\"", "a", "b", "name",
            "=?utf-8?q?=C3=BC.txt?=", "ü.txt", "2" },
        { "a/b; name*=utf-8'de'%C3%BC.txt", "a", "b", "name", NULL, "ü.txt", "2" },
        { "a/b; name*=iso-8859-1''%FC.txt; name=wrong", "a", "b", "name", "wrong", "ü.txt", "2" },
        { "a/b; name*0=a; name*1=b; name*2=c", "a", "b", "name", NULL, "abc", "2" },
        { "a/b; name*1=b; name*0=a; name*3=d", "a", "b", "name", NULL, "ab", "2" },
        { "a/b; name*0*=utf-8''%C3; name*1*=%BC; name*2=\"%25\"", "a", "b", "name", NULL, "ü%25",
            "2" },
        { "a/b; name*=%zz%4", "a", "b", "name", NULL, "%zz%4", "2" },
        { "a/b; name*999=x; name*x=y", "a", "b", "name", NULL, NULL, "2" },
        { "a/b; name*=utf-8''a%0D%0Ab%00c", "a", "b", "name", NULL,
            "a  b\xef\xbf\xbd"
            "c",
            "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhMimeValue) value = ph_content_type_parse(rows[i].value, strlen(rows[i].value));
        g_assert_true((value != NULL) == (rows[i].type != NULL));
        if (value == NULL)
            continue;
        g_assert_cmpstr(value->type, ==, rows[i].type);
        g_assert_cmpstr(value->subtype, ==, rows[i].subtype);
        g_assert_cmpstr(ph_mime_value_param(value, rows[i].name), ==, rows[i].raw);
        g_autofree char *decoded = ph_mime_value_param_decoded(value, rows[i].name);
        g_assert_cmpstr(decoded, ==, rows[i].decoded);
    }
}

static void
test_disposition(void)
{
    static const char text[] = " Attachment;\r\n\tfilename=\"a b.txt\"; size=12";
    g_autoptr(PhMimeValue) value = ph_content_disposition_parse(text, sizeof(text) - 1);
    g_assert_cmpstr(value->type, ==, "attachment");
    g_assert_null(value->subtype);
    g_assert_cmpuint(value->param_count, ==, 2);
    g_assert_cmpstr(ph_mime_value_param(value, "filename"), ==, "a b.txt");
    g_assert_null(ph_content_disposition_parse("; x=y", 5));
}

static void
test_many_params(void)
{
    g_autoptr(GString) text = g_string_new("a/b");
    for (int i = 0; i < 100000; i++)
        g_string_append_printf(text, ";p%d=v", i);
    g_autoptr(PhMimeValue) value = ph_content_type_parse(text->str, text->len);
    g_assert_cmpuint(value->param_count, ==, PH_MIME_PARAMS_MAX);
    g_autofree char *deep = g_strnfill(1000000, '(');
    g_assert_null(ph_content_type_parse(deep, 1000000));
}

/* -- dates ------------------------------------------------------------------------------------- */

static void
test_date(void)
{
    static const struct {
        const char *text;
        int64_t seconds; /* INT64_MIN: none */
        int zone;
        const char *issue;
    } rows[] = {
        { "Mon, 30 Nov 2026 12:00:00 +0100", 1796036400, 60, "2" },
        { " Thu, 01 Jan 1970 00:00:00 +0000", 0, 0, "2" },
        { "1 Jan 1970 00:00 GMT", 0, 0, "2" },
        { "Thu, 1 Jan 1970 00:00:00 (UTC) -0000 (no (nested) zone)", 0, 0, "2" },
        { "Wed, 31 Dec 1969 23:59:59 +0000", -1, 0, "2" },
        { "Fri, 21 Nov 97 09:55:06 -0600", 880127706, -360, "2" },
        { "21 Nov 1997 09(comment):   55  :  06 -0600", 880127706, -360, "2" },
        { "Sat, 1 Jan 00 00:00:00 EST", 946702800, -300, "2" },
        { "Sat, 1 Jan 100 00:00:00 +0000", 946684800, 0, "2" },
        { "Thu Jan  1 00:00:01 1970", 1, 0, "2" },
        { "Thu Jan  1 00:00:01 CET 1970", -3599, 60, "2" },
        { "01-Jan-1970 00:00:02 +0000", 2, 0, "2" },
        { "29 Feb 2024 00:00:00 Z", 1709164800, 0, "2" },
        { "29 Feb 2023 00:00:00 Z", INT64_MIN, 0, "2" },
        { "31 Jun 2023 00:00:00 Z", INT64_MIN, 0, "2" },
        { "1 Jan 1970 24:00:00 +0000", INT64_MIN, 0, "2" },
        { "1 Jan 1970 23:59:60 +0000", 86399, 0, "2" },
        { "1 Jan 1970 00:00:00 +0530", -19800, 330, "2" },
        { "1 Jan 1970 00:00:00 +05:30", -19800, 330, "2" },
        { "1 Jan 1970 00:00:00 +9999", 0, 0, "2" },
        { "1 January 1970", 0, 0, "2" },
        { "1 Jan 99999 00:00:00 +0000", INT64_MIN, 0, "2" },
        { "0 Jan 1970", INT64_MIN, 0, "2" },
        { "Jan 1970", INT64_MIN, 0, "2" },
        { "", INT64_MIN, 0, "2" },
        { "yesterday", INT64_MIN, 0, "2" },
        { "((((((((((((", INT64_MIN, 0, "2" },
        { "1 Jan 1970 00:", INT64_MIN, 0, "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        int64_t time_us = INT64_MIN;
        int zone = 0;
        bool good = ph_date_parse(rows[i].text, strlen(rows[i].text), &time_us, &zone);
        g_test_message("row %zu", i);
        g_assert_true(good == (rows[i].seconds != INT64_MIN));
        if (!good) {
            g_assert_cmpint(time_us, ==, INT64_MIN);
            continue;
        }
        g_assert_cmpint(time_us, ==, rows[i].seconds * 1000000);
        g_assert_cmpint(zone, ==, rows[i].zone);
    }
}

/* -- text -------------------------------------------------------------------------------------- */

static void
test_utf8_clean(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "abc", 3, "abc", "2" },
        { "a\0b", 3,
            "a\xef\xbf\xbd"
            "b",
            "2" },
        { "\xc3\xbc", 2, "ü", "2" },
        { "\xc3", 1, "\xef\xbf\xbd", "2" },
        { "\xc3x", 2, "\xef\xbf\xbdx", "2" },
        { "\xff\xfe", 2, "\xef\xbf\xbd\xef\xbf\xbd", "2" },
        /* Overlong, surrogate, beyond U+10FFFF. */
        { "\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd", "2" },
        { "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "2" },
        { "\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", "2" },
        { "", 0, "", "2" },
        { "\0", 1, "\xef\xbf\xbd", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        size_t length = 0;
        g_autofree char *text = ph_utf8_clean(rows[i].bytes, rows[i].length, &length);
        g_assert_cmpstr(text, ==, rows[i].expected);
        g_assert_cmpuint(length, ==, strlen(rows[i].expected));
        g_assert_true(g_utf8_validate(text, (gssize)length, NULL));
    }
}

static void
test_transfer(void)
{
    static const struct {
        PhTransferEncoding encoding;
        const char *text;
        const char *expected;
        const char *issue;
    } rows[] = {
        { PH_ENCODING_BASE64, "SGVsbG8=", "Hello", "2" },
        { PH_ENCODING_BASE64, "SGVs\r\nbG8=\r\n", "Hello", "2" },
        { PH_ENCODING_BASE64, "SGVsbG8", "Hello", "2" },
        { PH_ENCODING_BASE64, "SGVsbG8=SGVsbG8=", "HelloHello", "2" },
        { PH_ENCODING_BASE64, "S!G*V s b.G8", "Hello", "2" },
        { PH_ENCODING_BASE64, "S", "", "2" },
        { PH_ENCODING_BASE64, "====", "", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=3Db", "a=b", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=\r\nb", "ab", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a= \t\r\nb", "ab", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=\nb", "ab", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a  \r\nb\t\n", "a\r\nb\n", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=20\r\nb", "a \r\nb", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a =\r\nb", "a b", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=ZZb=4", "a=ZZb=4", "2" },
        { PH_ENCODING_QUOTED_PRINTABLE, "a=", "a", "2" },
        { PH_ENCODING_7BIT, "a=3D", "a=3D", "2" },
        { PH_ENCODING_OTHER, "x", "x", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GString) out = g_string_new(NULL);
        ph_transfer_decode(rows[i].encoding, rows[i].text, strlen(rows[i].text), out);
        g_assert_cmpstr(out->str, ==, rows[i].expected);
    }
    g_assert_cmpint(ph_transfer_encoding_parse("BASE64", 6), ==, PH_ENCODING_BASE64);
    g_assert_cmpint(ph_transfer_encoding_parse("x-uuencode", 10), ==, PH_ENCODING_OTHER);
}

static void
test_html(void)
{
    static const struct {
        const char *html;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "<p>Hello <b>world</b></p>", "Hello world", "2" },
        { "<style>p{}</style><script>x<y</script>text", "text", "2" },
        { "<HEAD><title>t</title></HEAD>body", "body", "2" },
        { "a&amp;b &lt;c&gt; &#252;&#xFC; &nbsp; &bogus; &", "a&b <c> üü &bogus; &", "2" },
        { "a<!-- b --> c", "a c", "2" },
        { "a<!-- b", "a", "2" },
        { "1 < 2 and 3 > 2", "1 < 2 and 3 > 2", "2" },
        { "<unclosed", "", "2" },
        { "&#0;&#1114112;&#99999999999;x", "&#99999999999;x", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = ph_html_to_text(rows[i].html, strlen(rows[i].html));
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
}

static void
test_subject(void)
{
    static const struct {
        const char *subject;
        const char *base;
        bool is_reply;
        const char *issue;
    } rows[] = {
        { "hello", "hello", false, "2" },
        { "Re: hello", "hello", true, "2" },
        { "RE : Fwd: fw[3]: hello", "hello", true, "2" },
        { "[list] hello", "hello", false, "2" },
        { "Re: [list] Re: hello", "hello", true, "2" },
        { "[a] [b] Re: hello", "hello", true, "2" },
        { "hello (fwd) (FWD) ", "hello", true, "2" },
        { "[fwd: hello]", "hello", true, "2" },
        { "[Fwd: Re: hello (fwd)]", "hello", true, "2" },
        { "[only]", "[only]", false, "2" },
        { "Re:", "", true, "2" },
        { "", "", false, "2" },
        { "[fwd:]", "", true, "2" },
        { "regarding: x", "regarding: x", false, "2" },
        { "a \t b", "a b", false, "2" },
        { "[[a] b", "[[a] b", false, "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        bool is_reply = false;
        g_autofree char *base = ph_subject_base(rows[i].subject, &is_reply);
        g_assert_cmpstr(base, ==, rows[i].base);
        g_assert_true(is_reply == rows[i].is_reply);
    }
}

static void
test_charset(void)
{
    static const struct {
        const char *charset;
        const char *bytes;
        const char *expected;
    } rows[] = {
        { NULL, "\xc3\xbc", "ü" },
        { "iso-8859-1", "\xfc", "ü" },
        { "windows-1252", "\x80", "€" },
        { "utf-8", "\xfc", "\xef\xbf\xbd" },
        { "us-ascii", "\xc3\xbc", "ü" },
        { "no-such-set", "abc", "abc" },
        { "iso-2022-jp", "\x1b$B%F%9%H\x1b(B", "テスト" },
        { "utf-16be", "", "" },
        { "shift_jis", "\x83\x65\x83", "テ\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text =
            ph_text_to_utf8(rows[i].charset, rows[i].bytes, strlen(rows[i].bytes), NULL);
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
    /* More than one buffer of output, and a broken byte in each. */
    g_autoptr(GString) long_text = g_string_new(NULL);
    for (int i = 0; i < 5000; i++)
        g_string_append(long_text, "\x83\x65\xff");
    size_t length = 0;
    g_autofree char *text = ph_text_to_utf8("shift_jis", long_text->str, long_text->len, &length);
    g_assert_cmpuint(length, ==, 5000 * 6);
    g_assert_true(g_utf8_validate(text, (gssize)length, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message-header/iterate/rows", test_iterate);
    g_test_add_func("/message-header/subset/rows", test_subset);
    g_test_add_func("/message-header/unfold/rows", test_unfold);
    g_test_add_func("/message-header/decode/rows", test_decode);
    g_test_add_func("/message-header/decode/linear", test_decode_is_linear);
    g_test_add_func("/message-header/content-type/rows", test_content_type);
    g_test_add_func("/message-header/disposition/rows", test_disposition);
    g_test_add_func("/message-header/content-type/many", test_many_params);
    g_test_add_func("/message-header/date/rows", test_date);
    g_test_add_func("/message-header/utf8-clean/rows", test_utf8_clean);
    g_test_add_func("/message-header/transfer/rows", test_transfer);
    g_test_add_func("/message-header/html/rows", test_html);
    g_test_add_func("/message-header/subject/rows", test_subject);
    g_test_add_func("/message-header/charset/rows", test_charset);
    return g_test_run();
}
