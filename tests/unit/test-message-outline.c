/* test-message-outline.c - the outline of whole, odd and broken mail */
#include <posthouse/message-outline.h>

#include <string.h>

/* One line per part: depth, type, its header and (of a leaf) its body with escapes, lines. */
static char *
dump(const PhOutline *outline, const char *message)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < ph_outline_count(outline); i++) {
        const PhOutlinePart *part = ph_outline_part(outline, i);
        g_autofree char *body =
            g_strndup(message + part->body_start, part->body_end - part->body_start);
        g_autofree char *escaped = g_strescape(body, NULL);
        g_string_append_printf(out, "%u %s/%s %" G_GUINT64_FORMAT, part->depth, part->type,
            part->subtype, part->body_lines);
        if (part->kind == PH_PART_LEAF)
            g_string_append_printf(out, " %s", escaped);
        g_string_append_c(out, '\n');
    }
    return g_string_free(out, FALSE);
}

/* What every outline keeps, whatever the mail was. */
static void
check_invariants(const PhOutline *outline)
{
    g_assert_cmpuint(ph_outline_count(outline), >=, 1);
    for (size_t i = 0; i < ph_outline_count(outline); i++) {
        const PhOutlinePart *part = ph_outline_part(outline, i);
        g_assert_cmpuint(part->header_start, <=, part->body_start);
        g_assert_cmpuint(part->body_start, <=, part->body_end);
        g_assert_cmpuint(part->body_end, <=, ph_outline_size(outline));
        g_assert_cmpuint(part->depth, <, PH_OUTLINE_DEPTH_MAX);
        if (part->parent != PH_OUTLINE_NONE) {
            const PhOutlinePart *parent = ph_outline_part(outline, part->parent);
            g_assert_cmpuint(part->header_start, >=, parent->body_start);
            g_assert_cmpuint(part->body_end, <=, parent->body_end);
            g_assert_cmpint(parent->kind, !=, PH_PART_LEAF);
        }
        if (part->next_sibling != PH_OUTLINE_NONE)
            g_assert_cmpuint(
                ph_outline_part(outline, part->next_sibling)->header_start, >=, part->body_end);
        g_assert_true((part->kind == PH_PART_LEAF) == (part->first_child == PH_OUTLINE_NONE));
    }
}

static void
assert_same(const PhOutline *a, const PhOutline *b)
{
    g_autoptr(GBytes) a_form = ph_outline_serialize(a);
    g_autoptr(GBytes) b_form = ph_outline_serialize(b);
    g_assert_true(g_bytes_equal(a_form, b_form));
}

#define MIXED "Content-Type: multipart/mixed; boundary=b\r\n\r\n"

static const struct {
    const char *name;
    const char *message;
    const char *expected;
    const char *issue;
} cases[] = {
    { "empty", "", "0 text/plain 0 \n", "2" },
    { "header-only", "Subject: x\r\n", "0 text/plain 0 \n", "2" },
    { "header-unterminated", "Subject: x", "0 text/plain 0 \n", "2" },
    { "body-only", "\r\nHello\r\n", "0 text/plain 1 Hello\\r\\n\n", "2" },
    { "no-trailing-newline", "A: b\r\n\r\nHello", "0 text/plain 1 Hello\n", "2" },
    { "bare-lf", "A: b\n\nHello\nWorld\n", "0 text/plain 2 Hello\\nWorld\\n\n", "2" },
    { "simple", MIXED "pre\r\n--b\r\nA: 1\r\n\r\none\r\n--b\r\n\r\ntwo\r\n\r\n--b--\r\npost\r\n",
        "0 multipart/mixed 11\n1 text/plain 1 one\n1 text/plain 1 two\\r\\n\n", "2" },
    { "lf-only", "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n--b--\n",
        "0 multipart/mixed 7\n1 text/plain 1 one\n1 text/plain 1 two\n", "2" },
    { "no-end-boundary", MIXED "--b\r\n\r\none\r\n",
        "0 multipart/mixed 3\n1 text/plain 1 one\\r\\n\n", "2" },
    { "end-boundary-at-eof", MIXED "--b\r\n\r\none\r\n--b--",
        "0 multipart/mixed 4\n1 text/plain 1 one\n", "2" },
    { "boundary-never-seen", MIXED "just text\r\n",
        "0 multipart/mixed 1\n1 text/plain 1 just text\\r\\n\n", "2" },
    { "only-end-boundary", MIXED "--b--\r\n", "0 multipart/mixed 1\n1 text/plain 1 --b--\\r\\n\n",
        "2" },
    { "no-boundary-parameter", "Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\nx\r\n",
        "0 text/plain 3 --b\\r\\n\\r\\nx\\r\\n\n", "2" },
    { "empty-boundary", "Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\nx\r\n",
        "0 text/plain 2 --\\r\\nx\\r\\n\n", "2" },
    { "empty-parts", MIXED "--b\r\n--b\r\n\r\n--b\r\n\r\n\r\n--b\r\nA: b\r\n--b--\r\n",
        "0 multipart/mixed 9\n1 text/plain 0 \n1 text/plain 0 \n1 text/plain 0 \n1 text/plain 0 \n",
        "2" },
    { "boundary-in-header", MIXED "--b\r\nA: b\r\n--b\r\n\r\ntwo\r\n--b--\r\n",
        "0 multipart/mixed 6\n1 text/plain 0 \n1 text/plain 1 two\n", "2" },
    { "prefix-of-another",
        MIXED
        "--b\r\nContent-Type: multipart/mixed; boundary=bb\r\n\r\n--bb\r\n\r\nin\r\n--bb--\r\n"
        "--b\r\n\r\nout\r\n--b--\r\n",
        "0 multipart/mixed 11\n1 multipart/mixed 4\n2 text/plain 1 in\n1 text/plain 1 out\n", "2" },
    { "longer-line-is-no-boundary", MIXED "--b\r\n\r\nx\r\n--bad\r\n--b--bad\r\ny\r\n--b--\r\n",
        "0 multipart/mixed 7\n1 text/plain 4 x\\r\\n--bad\\r\\n--b--bad\\r\\ny\n", "2" },
    { "padding-after-boundary", MIXED "--b \t \r\n\r\nx\r\n--b--\t\r\n",
        "0 multipart/mixed 4\n1 text/plain 1 x\n", "2" },
    { "boundary-in-preamble",
        "Content-Type: multipart/mixed; boundary=b\r\n\r\nsay --b\r\n --b\r\n"
        "--b\r\n\r\nx\r\n--b--\r\n",
        "0 multipart/mixed 6\n1 text/plain 1 x\n", "2" },
    { "boundary-after-end", MIXED "--b\r\n\r\nx\r\n--b--\r\n--b\r\n\r\ny\r\n",
        "0 multipart/mixed 7\n1 text/plain 1 x\n", "2" },
    { "same-boundary-nested",
        MIXED "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n"
              "--b\r\n\r\ny\r\n--b--\r\n",
        "0 multipart/mixed 11\n1 multipart/mixed 4\n2 text/plain 1 x\n1 text/plain 1 y\n", "2" },
    { "outer-ends-inner",
        MIXED
        "--b\r\nContent-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\nx\r\n--b\r\n\r\ny\r\n"
        "--b--\r\n",
        "0 multipart/mixed 10\n1 multipart/mixed 3\n2 text/plain 1 x\n1 text/plain 1 y\n", "2" },
    { "boundary-ends-with-dashes",
        "Content-Type: multipart/mixed; boundary=\"b--\"\r\n\r\n--b--\r\n\r\nx\r\n--b----\r\n",
        "0 multipart/mixed 4\n1 text/plain 1 x\n", "2" },
    { "rfc822",
        MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nx\r\n--b--\r\n",
        "0 multipart/mixed 7\n1 message/rfc822 3\n2 text/plain 1 x\n", "2" },
    { "rfc822-header-only",
        MIXED "--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n--b--\r\n",
        "0 multipart/mixed 5\n1 message/rfc822 1\n2 text/plain 0 \n", "2" },
    { "rfc822-empty", MIXED "--b\r\nContent-Type: message/rfc822\r\n--b--\r\n",
        "0 multipart/mixed 3\n1 message/rfc822 0\n2 text/plain 0 \n", "2" },
    { "rfc822-base64",
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nQTogYg==\r\n",
        "0 message/rfc822 1\n1 text/plain 0 \n", "2" },
    { "rfc822-of-rfc822",
        "Content-Type: message/rfc822\r\n\r\nContent-Type: message/rfc822\r\n\r\nA: b\r\n\r\nx",
        "0 message/rfc822 5\n1 message/rfc822 3\n2 text/plain 1 x\n", "2" },
    { "digest",
        "Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nA: b\r\n\r\nx\r\n--b\r\n"
        "Content-Type: text/html\r\n\r\ny\r\n--b--\r\n",
        "0 multipart/digest 10\n1 message/rfc822 3\n2 text/plain 1 x\n1 text/html 1 y\n", "2" },
    { "digest-empty", "Content-Type: multipart/digest; boundary=b\r\n\r\n",
        "0 multipart/digest 0\n1 text/plain 0 \n", "2" },
    { "type-case-and-folding",
        "content-TYPE:\r\n\tMultiPart/Mixed;\r\n BOUNDARY=\"b\" (comment)\r\n\r\n--b\r\n\r\nx\r\n--b--",
        "0 multipart/mixed 4\n1 text/plain 1 x\n", "2" },
    { "type-junk", "Content-Type: junk\r\n\r\nx", "0 text/plain 1 x\n", "2" },
    { "mbox-from-line", "From x Mon Nov 30\r\nContent-Type: text/html\r\n\r\nx",
        "0 text/html 1 x\n", "2" },
    { "boundary-quoted-special",
        "Content-Type: multipart/mixed; boundary=\"a b'()+_,-./:=?\"\r\n\r\n--a b'()+_,-./:=?\r\n\r\nx"
        "\r\n--a b'()+_,-./:=?--\r\n",
        "0 multipart/mixed 4\n1 text/plain 1 x\n", "2" },
    { "cr-only", "A: b\r\rbody\r", "0 text/plain 0 \n", "2" },
};

static void
test_build(gconstpointer data)
{
    size_t index = (size_t)GPOINTER_TO_UINT(data);
    const char *message = cases[index].message;
    size_t length = strlen(message);
    g_autoptr(PhOutline) outline = ph_outline_new(message, length);
    check_invariants(outline);
    g_autofree char *text = dump(outline, message);
    g_assert_cmpstr(text, ==, cases[index].expected);

    /* Every way to cut it in two, and byte by byte. */
    for (size_t cut = 0; cut <= length; cut++) {
        g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
        ph_outline_builder_feed(builder, message, cut);
        ph_outline_builder_feed(builder, message + cut, length - cut);
        assert_same(outline, ph_outline_builder_finish(builder));
    }
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    for (size_t i = 0; i < length; i++)
        ph_outline_builder_feed(builder, message + i, 1);
    assert_same(outline, ph_outline_builder_finish(builder));

    g_autoptr(GBytes) form = ph_outline_serialize(outline);
    gsize form_length = 0;
    const char *bytes = g_bytes_get_data(form, &form_length);
    g_autoptr(PhOutline) read = ph_outline_read(bytes, form_length);
    g_assert_nonnull(read);
    check_invariants(read);
    assert_same(outline, read);
}

/* -- sections ---------------------------------------------------------------------------------- */

#define INNER_HEADER "Subject: in\r\nContent-Type: multipart/alternative; boundary=i\r\n\r\n"
#define INNER_BODY "--i\r\nX: 1\r\n\r\nplain\r\n--i\r\n\r\nhtml\r\n--i--\r\n"
#define TWO_MIME "Content-Type: message/rfc822\r\n\r\n"
#define OUTER_BODY \
    "--b\r\nX: one\r\n\r\none\r\n--b\r\n" TWO_MIME INNER_HEADER INNER_BODY "\r\n--b\r\n" TWO_MIME \
    "Subject: s\r\n\r\nsingle\r\n--b--\r\n"

static const char nested[] = MIXED OUTER_BODY;
static const char single[] = "Subject: x\r\n\r\nbody\r\n";
static const char wrapped[] = TWO_MIME "Subject: w\r\n\r\nwithin";

static const struct {
    const char *name;
    const char *message;
    uint32_t path[6];
    size_t path_length;
    PhSectionKind kind;
    const char *expected; /* NULL: no such section */
    const char *issue;
} sections[] = {
    { "all", nested, { 0 }, 0, PH_SECTION_WHOLE, nested, "2" },
    { "header", nested, { 0 }, 0, PH_SECTION_HEADER, MIXED, "2" },
    { "text", nested, { 0 }, 0, PH_SECTION_TEXT, OUTER_BODY, "2" },
    { "mime", nested, { 0 }, 0, PH_SECTION_MIME, NULL, "2" },
    { "1", nested, { 1 }, 1, PH_SECTION_WHOLE, "one", "2" },
    { "1.mime", nested, { 1 }, 1, PH_SECTION_MIME, "X: one\r\n\r\n", "2" },
    { "1.header", nested, { 1 }, 1, PH_SECTION_HEADER, NULL, "2" },
    { "1.text", nested, { 1 }, 1, PH_SECTION_TEXT, NULL, "2" },
    { "1.1", nested, { 1, 1 }, 2, PH_SECTION_WHOLE, NULL, "2" },
    { "0", nested, { 0 }, 1, PH_SECTION_WHOLE, NULL, "2" },
    { "2", nested, { 2 }, 1, PH_SECTION_WHOLE, INNER_HEADER INNER_BODY, "2" },
    { "2.mime", nested, { 2 }, 1, PH_SECTION_MIME, TWO_MIME, "2" },
    { "2.header", nested, { 2 }, 1, PH_SECTION_HEADER, INNER_HEADER, "2" },
    { "2.text", nested, { 2 }, 1, PH_SECTION_TEXT, INNER_BODY, "2" },
    { "2.1", nested, { 2, 1 }, 2, PH_SECTION_WHOLE, "plain", "2" },
    { "2.1.mime", nested, { 2, 1 }, 2, PH_SECTION_MIME, "X: 1\r\n\r\n", "2" },
    { "2.2", nested, { 2, 2 }, 2, PH_SECTION_WHOLE, "html", "2" },
    { "2.3", nested, { 2, 3 }, 2, PH_SECTION_WHOLE, NULL, "2" },
    { "2.1.1", nested, { 2, 1, 1 }, 3, PH_SECTION_WHOLE, NULL, "2" },
    { "3.1", nested, { 3, 1 }, 2, PH_SECTION_WHOLE, "single", "2" },
    { "3.1.mime", nested, { 3, 1 }, 2, PH_SECTION_MIME, "Subject: s\r\n\r\n", "2" },
    { "3.2", nested, { 3, 2 }, 2, PH_SECTION_WHOLE, NULL, "2" },
    { "4", nested, { 4 }, 1, PH_SECTION_WHOLE, NULL, "2" },
    { "huge-number", nested, { UINT32_MAX }, 1, PH_SECTION_WHOLE, NULL, "2" },
    { "single-1", single, { 1 }, 1, PH_SECTION_WHOLE, "body\r\n", "2" },
    { "single-1.mime", single, { 1 }, 1, PH_SECTION_MIME, "Subject: x\r\n\r\n", "2" },
    { "single-2", single, { 2 }, 1, PH_SECTION_WHOLE, NULL, "2" },
    { "single-1.1", single, { 1, 1 }, 2, PH_SECTION_WHOLE, NULL, "2" },
    { "single-1.header", single, { 1 }, 1, PH_SECTION_HEADER, NULL, "2" },
    { "wrapped-1", wrapped, { 1 }, 1, PH_SECTION_WHOLE, "Subject: w\r\n\r\nwithin", "2" },
    { "wrapped-1.header", wrapped, { 1 }, 1, PH_SECTION_HEADER, "Subject: w\r\n\r\n", "2" },
    { "wrapped-1.1", wrapped, { 1, 1 }, 2, PH_SECTION_WHOLE, "within", "2" },
    { "wrapped-1.1.1", wrapped, { 1, 1, 1 }, 3, PH_SECTION_WHOLE, NULL, "2" },
};

static void
test_section(gconstpointer data)
{
    size_t i = (size_t)GPOINTER_TO_UINT(data);
    const char *message = sections[i].message;
    g_autoptr(PhOutline) outline = ph_outline_new(message, strlen(message));
    uint64_t offset = 0;
    uint64_t length = 0;
    bool there = ph_outline_section(
        outline, sections[i].path, sections[i].path_length, sections[i].kind, &offset, &length);
    g_assert_true(there == (sections[i].expected != NULL));
    if (there)
        g_assert_cmpmem(
            message + offset, (int)length, sections[i].expected, (int)strlen(sections[i].expected));
}

static void
test_partial(void)
{
    static const struct {
        uint64_t first, count, offset, length;
        bool some;
    } rows[] = {
        { 0, 5, 100, 5, true },
        { 3, 100, 103, 7, true },
        { 10, 1, 110, 0, false },
        { 11, 5, 110, 0, false },
        { 0, 10, 100, 10, true },
        { UINT64_MAX, UINT64_MAX, 110, 0, false },
        { 1, UINT64_MAX, 101, 9, true },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint64_t offset = 100;
        uint64_t length = 10;
        g_assert_true(
            ph_section_partial(&offset, &length, rows[i].first, rows[i].count) == rows[i].some);
        g_assert_cmpuint(offset, ==, rows[i].offset);
        g_assert_cmpuint(length, ==, rows[i].length);
    }
}

/* -- limits ------------------------------------------------------------------------------------ */

static void
test_many_parts(void)
{
    g_autoptr(GString) message = g_string_new(MIXED);
    for (int i = 0; i < 3 * PH_OUTLINE_PARTS_MAX; i++)
        g_string_append(message, "--b\r\n\r\nx\r\n");
    g_string_append(message, "--b--\r\n");
    g_autoptr(PhOutline) outline = ph_outline_new(message->str, message->len);
    check_invariants(outline);
    g_assert_cmpuint(ph_outline_count(outline), ==, PH_OUTLINE_PARTS_MAX);
    const PhOutlinePart *last = ph_outline_part(outline, PH_OUTLINE_PARTS_MAX - 1);
    g_assert_cmpstr(last->type, ==, "application");
    g_assert_cmpuint(last->body_end, ==, message->len);
    g_autoptr(GBytes) form = ph_outline_serialize(outline);
    gsize length = 0;
    const char *bytes = g_bytes_get_data(form, &length);
    g_autoptr(PhOutline) read = ph_outline_read(bytes, length);
    g_assert_nonnull(read);
}

static void
test_deep_multiparts(void)
{
    g_autoptr(GString) message = g_string_new(NULL);
    for (int i = 0; i < 5000; i++)
        g_string_append_printf(
            message, "Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n", i, i);
    g_string_append(message, "\r\nend\r\n");
    g_autoptr(PhOutline) outline = ph_outline_new(message->str, message->len);
    check_invariants(outline);
    g_assert_cmpuint(ph_outline_count(outline), ==, PH_OUTLINE_DEPTH_MAX);
    const PhOutlinePart *last = ph_outline_part(outline, PH_OUTLINE_DEPTH_MAX - 1);
    g_assert_cmpint(last->kind, ==, PH_PART_LEAF);
    g_assert_cmpstr(last->subtype, ==, "octet-stream");
}

static void
test_deep_messages(void)
{
    g_autoptr(GString) message = g_string_new(NULL);
    for (int i = 0; i < 5000; i++)
        g_string_append(message, "Content-Type: message/rfc822\r\n\r\n");
    g_autoptr(PhOutline) outline = ph_outline_new(message->str, message->len);
    check_invariants(outline);
    g_assert_cmpuint(ph_outline_count(outline), ==, PH_OUTLINE_DEPTH_MAX);
}

static void
test_giant_header(void)
{
    g_autoptr(GString) message = g_string_new("Subject: first\r\n");
    g_autofree char *line = g_strnfill(1000, 'x');
    for (int i = 0; i < 12000; i++)
        g_string_append_printf(message, "X-%d: %s\r\n", i, line);
    g_string_append(message, "\r\nbody\r\n");
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    ph_outline_builder_feed(builder, message->str, message->len);
    const PhOutline *outline = ph_outline_builder_finish(builder);
    /* The offsets are true although not all was kept. */
    const PhOutlinePart *root = ph_outline_part(outline, 0);
    g_assert_cmpstr(message->str + root->body_start, ==, "body\r\n");
    size_t length = 0;
    ph_outline_builder_header(builder, &length);
    g_assert_cmpuint(length, ==, 10 * 1024 * 1024);
}

static void
test_one_long_line(void)
{
    g_autoptr(GString) message = g_string_new(MIXED "--b\r\n\r\n");
    for (int i = 0; i < 100000; i++)
        g_string_append(message, "--b--b--b ");
    g_string_append(message, "\r\n--b--\r\n");
    g_autoptr(PhOutline) outline = ph_outline_new(message->str, message->len);
    check_invariants(outline);
    g_assert_cmpuint(ph_outline_count(outline), ==, 2);
    g_assert_cmpuint(ph_outline_part(outline, 1)->body_lines, ==, 1);
}

static void
test_nul(void)
{
    static const char message[] = MIXED "--b\r\nA\0: b\r\n\r\na\0b\r\n\0--b\r\n--b--\r\n";
    size_t length = sizeof(message) - 1;
    g_autoptr(PhOutline) outline = ph_outline_new(message, length);
    check_invariants(outline);
    g_assert_cmpuint(ph_outline_size(outline), ==, length);
    g_assert_cmpuint(ph_outline_count(outline), ==, 2);
    const PhOutlinePart *part = ph_outline_part(outline, 1);
    g_assert_cmpmem(
        message + part->body_start, (int)(part->body_end - part->body_start), "a\0b\r\n\0--b", 9);
}

static void
test_names(void)
{
    static const char message[] =
        "Content-Type: Application/PDF; name=\"other.pdf\"\r\n"
        "Content-Disposition: ATTACHMENT; filename*=iso-8859-1''Gr%FC%DFe.pdf\r\n"
        "Content-Transfer-Encoding: BASE64 (comment)\r\n\r\n";
    g_autoptr(PhOutline) outline = ph_outline_new(message, sizeof(message) - 1);
    const PhOutlinePart *part = ph_outline_part(outline, 0);
    g_assert_cmpstr(part->type, ==, "application");
    g_assert_cmpstr(part->subtype, ==, "pdf");
    g_assert_cmpstr(part->filename, ==, "Grüße.pdf");
    g_assert_cmpint(part->disposition, ==, PH_DISPOSITION_ATTACHMENT);
    g_assert_cmpint(part->encoding, ==, PH_ENCODING_BASE64);
}

/* -- hostile stored forms ---------------------------------------------------------------------- */

static void
test_read_refuses(void)
{
    g_autoptr(PhOutline) outline = ph_outline_new(nested, sizeof(nested) - 1);
    g_autoptr(GBytes) form = ph_outline_serialize(outline);
    gsize length = 0;
    const guint8 *bytes = g_bytes_get_data(form, &length);
    for (gsize cut = 0; cut < length; cut++)
        g_assert_null(ph_outline_read(bytes, cut));
    g_autofree guint8 *longer = g_malloc(length + 1);
    memcpy(longer, bytes, length);
    longer[length] = 0;
    g_assert_null(ph_outline_read(longer, length + 1));

    /* Whatever one byte is changed to: refused, or still an outline that holds what it promises. */
    size_t refused = 0;
    for (gsize i = 0; i < length; i++) {
        for (unsigned value = 0; value < 256; value++) {
            longer[i] = (guint8)value;
            g_autoptr(PhOutline) read = ph_outline_read(longer, length);
            if (read == NULL)
                refused++;
            else
                check_invariants(read);
        }
        longer[i] = bytes[i];
    }
    g_assert_cmpuint(refused, >, length * 100);
}

static void
test_read_rows(void)
{
    static const struct {
        const char *what;
        const char *bytes;
        size_t length;
        bool good;
    } rows[] = {
#define ROW(what, text, good) { what, text, sizeof(text) - 1, good }
        ROW("leaf", "O\1\5\1\0\0\0\0\0\2\3\1\2a\2b\0\0", true),
        ROW("other version", "O\2\5\1\0\0\0\0\0\2\3\1\2a\2b\0\0", false),
        ROW("no parts", "O\1\5\0", false),
        ROW("body beyond the end", "O\1\5\1\0\0\0\0\0\2\4\1\2a\2b\0\0", false),
        ROW("body short of the end", "O\1\5\1\0\0\0\0\0\2\2\1\2a\2b\0\0", false),
        ROW("more lines than bytes", "O\1\5\1\0\0\0\0\0\2\3\4\2a\2b\0\0", false),
        ROW("multipart without a part", "O\1\5\1\0\1\0\0\0\2\3\1\2a\2b\0\0", false),
        ROW("no type", "O\1\5\1\0\0\0\0\0\2\3\1\0\2b\0\0", false),
        ROW("type not utf-8", "O\1\5\1\0\0\0\0\0\2\3\1\2\xff\2b\0\0", false),
        ROW("first part not at depth 0", "O\1\5\1\1\0\0\0\0\2\3\1\2a\2b\0\0", false),
        ROW("long number", "O\1\x85\0\1\0\0\0\0\0\2\3\1\2a\2b\0\0", false),
        ROW("number without end", "O\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", false),
        ROW("child of a leaf", "O\1\5\2\0\0\0\0\0\2\3\1\2a\2b\0\0\1\0\0\0\0\0\1\1\2a\2b\0\0",
            false),
        ROW("child", "O\1\5\2\0\1\0\0\0\2\3\1\2a\2b\0\0\1\0\0\0\0\0\1\1\2a\2b\0\0", true),
        ROW("child beyond its parent",
            "O\1\5\2\0\1\0\0\0\2\3\1\2a\2b\0\0\1\0\0\0\1\1\2\1\2a\2b\0\0", false),
        ROW("second child of a message",
            "O\1\5\3\0\2\0\0\0\2\3\1\2a\2b\0\0\1\0\0\0\0\0\1\1\2a\2b\0\0"
            "\1\0\0\0\1\0\1\1\2a\2b\0\0",
            false),
        ROW("overlapping children",
            "O\1\5\3\0\1\0\0\0\2\3\1\2a\2b\0\0\1\0\0\0\0\0\2\1\2a\2b\0\0"
            "\1\0\0\0\1\0\1\1\2a\2b\0\0",
            false),
#undef ROW
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhOutline) read = ph_outline_read(rows[i].bytes, rows[i].length);
        if ((read != NULL) != rows[i].good)
            g_error("%s", rows[i].what);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_strdup_printf("/message-outline/build/%s", cases[i].name);
        g_test_add_data_func(path, GUINT_TO_POINTER(i), test_build);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(sections); i++) {
        g_autofree char *path = g_strdup_printf("/message-outline/section/%s", sections[i].name);
        g_test_add_data_func(path, GUINT_TO_POINTER(i), test_section);
    }
    g_test_add_func("/message-outline/partial/rows", test_partial);
    g_test_add_func("/message-outline/build/many-parts", test_many_parts);
    g_test_add_func("/message-outline/build/deep-multiparts", test_deep_multiparts);
    g_test_add_func("/message-outline/build/deep-messages", test_deep_messages);
    g_test_add_func("/message-outline/build/giant-header", test_giant_header);
    g_test_add_func("/message-outline/build/one-long-line", test_one_long_line);
    g_test_add_func("/message-outline/build/nul", test_nul);
    g_test_add_func("/message-outline/build/names", test_names);
    g_test_add_func("/message-outline/read/refuses", test_read_refuses);
    g_test_add_func("/message-outline/read/rows", test_read_rows);
    return g_test_run();
}
