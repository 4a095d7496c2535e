/* test-imap-fetch-items.c - the items of a FETCH: what is asked, what the answer calls it, what it
 * sets */
#include "plugins/imap/fetch.h"

#include <string.h>

/* "kind label" of each item, divided by "|"; null: malformed. */
static char *
dump(const char *text, bool is_uid, bool *seen_out)
{
    size_t length = strlen(text);
    g_autofree char *copy = g_memdup2(text, MAX(length, 1));
    ImapParser parser = { .at = copy, .end = copy + length };
    ImapFetchItems *items = imap_fetch_items_parse(&parser, is_uid);
    if (items == NULL)
        return NULL;
    GString *out = g_string_new(NULL);
    for (guint i = 0; i < items->items->len; i++) {
        const ImapFetchItem *item = items->items->pdata[i];
        g_string_append_printf(out, "%s%s", i > 0 ? "|" : "", item->label);
        if (item->is_partial)
            g_string_append_printf(out, " %u+%u", item->first, item->count);
    }
    if (seen_out != NULL)
        *seen_out = items->sets_seen;
    imap_fetch_items_free(items);
    return g_string_free(out, FALSE);
}

static void
test_table(void)
{
    static const struct {
        const char *text;
        const char *labels; /* null: malformed */
        bool seen;
    } rows[] = {
        { "FLAGS", "FLAGS", false },
        { "flags", "FLAGS", false },
        { "(FLAGS UID)", "FLAGS|UID", false },
        { "ALL", "FLAGS|INTERNALDATE|RFC822.SIZE|ENVELOPE", false },
        { "FAST", "FLAGS|INTERNALDATE|RFC822.SIZE", false },
        { "FULL", "FLAGS|INTERNALDATE|RFC822.SIZE|ENVELOPE|BODY", false },
        { "BODYSTRUCTURE", "BODYSTRUCTURE", false },
        { "BODY", "BODY", false },
        { "BODY[]", "BODY[]", true },
        { "BODY.PEEK[]", "BODY[]", false },
        { "body.peek[text]", "BODY[TEXT]", false },
        { "BODY[1]", "BODY[1]", true },
        { "BODY[1.2.3]", "BODY[1.2.3]", true },
        { "BODY[1.MIME]", "BODY[1.MIME]", true },
        { "BODY[1.HEADER]", "BODY[1.HEADER]", true },
        { "BODY[HEADER]", "BODY[HEADER]", true },
        { "BODY[HEADER.FIELDS (From TO)]", "BODY[HEADER.FIELDS (From TO)]", true },
        { "BODY.PEEK[HEADER.FIELDS.NOT (X)]", "BODY[HEADER.FIELDS.NOT (X)]", false },
        { "BODY[1.2.HEADER.FIELDS (\"Subject\")]", "BODY[1.2.HEADER.FIELDS (Subject)]", true },
        { "BODY[HEADER.FIELDS ({4}\r\nFrom)]", "BODY[HEADER.FIELDS (From)]", true },
        { "BODY[]<0.100>", "BODY[]<0> 0+100", true },
        { "BODY[1]<4294967295.4294967295>", "BODY[1]<4294967295> 4294967295+4294967295", true },
        { "RFC822", "RFC822", true },
        { "RFC822.HEADER", "RFC822.HEADER", false },
        { "RFC822.TEXT", "RFC822.TEXT", true },
        { "RFC822.SIZE", "RFC822.SIZE", false },
        { "(BODY.PEEK[] BODY[])", "BODY[]|BODY[]", true },
        { "", NULL, false },
        { "()", NULL, false },
        { "(FLAGS", NULL, false },
        { "FLAGS)", NULL, false },
        { "FLAGS UID", NULL, false },
        { "(FLAGS  UID)", NULL, false },
        { "( FLAGS)", NULL, false },
        { "(FLAGS )", NULL, false },
        { "(ALL)", NULL, false },
        { "FLAGSX", NULL, false },
        { "ENVELOPES", NULL, false },
        { "BODY[", NULL, false },
        { "BODY[]]", NULL, false },
        { "BODY[0]", NULL, false },
        { "BODY[1.0]", NULL, false },
        { "BODY[1.]", NULL, false },
        { "BODY[.1]", NULL, false },
        { "BODY[1..2]", NULL, false },
        { "BODY[-1]", NULL, false },
        { "BODY[4294967296]", NULL, false },
        { "BODY[MIME]", NULL, false },
        { "BODY[1.MIME.2]", NULL, false },
        { "BODY[HEADER.FIELDS]", NULL, false },
        { "BODY[HEADER.FIELDS ()]", NULL, false },
        { "BODY[HEADER.FIELDS (a]", NULL, false },
        { "BODY[HEADER.FIELDS(a)]", NULL, false },
        { "BODY[TEXT.1]", NULL, false },
        { "BODY[]<0.0>", NULL, false },
        { "BODY[]<0>", NULL, false },
        { "BODY[]<.1>", NULL, false },
        { "BODY[]<0.1", NULL, false },
        { "BODY[]<-1.1>", NULL, false },
        { "BODY[]<4294967296.1>", NULL, false },
        { "BODY.PEEK", NULL, false },
        { "BODYSTRUCTURE[]", NULL, false },
        { "RFC822[]", NULL, false },
        { "BINARY[1]", NULL, false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        bool seen = false;
        g_autofree char *labels = dump(rows[i].text, false, &seen);
        g_test_message("%s", rows[i].text);
        g_assert_cmpstr(labels, ==, rows[i].labels);
        g_assert_cmpint(seen, ==, rows[i].seen);
    }
}

/* UID FETCH answers with UID, once. */
static void
test_uid(void)
{
    g_autofree char *added = dump("(FLAGS BODY[])", true, NULL);
    g_assert_cmpstr(added, ==, "UID|FLAGS|BODY[]");
    g_autofree char *asked = dump("(FLAGS UID)", true, NULL);
    g_assert_cmpstr(asked, ==, "FLAGS|UID");
}

/* Every beginning and every single changed byte is an answer or a refusal, no more. */
static void
test_bytes(void)
{
    static const char text[] =
        "(FLAGS BODY.PEEK[1.2.HEADER.FIELDS (From \"To\" {2}\r\nCc)]<0.5> RFC822.SIZE)";
    for (size_t length = 0; length < sizeof(text) - 1; length++) {
        g_autofree char *part = g_strndup(text, length);
        g_autofree char *labels = dump(part, false, NULL);
        g_assert_null(labels);
    }
    for (size_t at = 0; at < sizeof(text) - 1; at++)
        for (int byte = 1; byte < 256; byte++) {
            g_autofree char *changed = g_strdup(text);
            changed[at] = (char)byte;
            g_autofree char *labels = dump(changed, true, NULL);
            g_assert_true(
                labels == NULL || strpbrk(labels, "\r\n") == NULL || strchr(labels, '{') != NULL);
        }
}

static void
test_limits(void)
{
    static const struct {
        const char *begin;
        const char *repeated;
        const char *end;
        unsigned most;
    } rows[] = {
        { "(UID", " UID", ")", 200 },
        { "BODY[HEADER.FIELDS (a", " a", ")]", 200 },
        { "BODY[1", ".1", "]", IMAP_SECTION_DEPTH_MAX },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        for (unsigned more = 0; more < 2; more++) {
            g_autoptr(GString) text = g_string_new(rows[i].begin);
            for (unsigned k = 1; k < rows[i].most + more; k++)
                g_string_append(text, rows[i].repeated);
            g_string_append(text, rows[i].end);
            g_autofree char *labels = dump(text->str, false, NULL);
            g_assert_cmpint(labels != NULL, ==, more == 0);
        }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/imap-fetch-items/parse/table", test_table);
    g_test_add_func("/imap-fetch-items/parse/uid", test_uid);
    g_test_add_func("/imap-fetch-items/parse/bytes", test_bytes);
    g_test_add_func("/imap-fetch-items/parse/limits", test_limits);
    return g_test_run();
}
