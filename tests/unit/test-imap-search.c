/* test-imap-search.c - SEARCH programs: parsed, refused, and answered from what is known of a
 * message */
#include "plugins/imap/search.h"

#include <string.h>

/* No mailbox is selected here: programs without sequence sets, which need one. */
static const ImapSession session;

static ImapSearchError
parse(const char *text, ImapSearchNode **root)
{
    ph_assert_on_reactor();
    size_t length = strlen(text);
    g_autofree char *copy = g_memdup2(text, MAX(length, 1));
    ImapParser parser = { .at = copy, .end = copy + length };
    return imap_search_parse(&session, &parser, root);
}

static void
test_refused(void)
{
    static const struct {
        const char *text;
        ImapSearchError error;
    } rows[] = {
        { "", IMAP_SEARCH_SYNTAX },
        { "()", IMAP_SEARCH_SYNTAX },
        { "(ALL", IMAP_SEARCH_SYNTAX },
        { "ALL)", IMAP_SEARCH_SYNTAX },
        { "ALL ", IMAP_SEARCH_SYNTAX },
        { " ALL", IMAP_SEARCH_SYNTAX },
        { "ALL  SEEN", IMAP_SEARCH_SYNTAX },
        { "NOT", IMAP_SEARCH_SYNTAX },
        { "OR SEEN", IMAP_SEARCH_SYNTAX },
        { "OR", IMAP_SEARCH_SYNTAX },
        { "FROM", IMAP_SEARCH_SYNTAX },
        { "FROM ", IMAP_SEARCH_SYNTAX },
        { "FROM (x)", IMAP_SEARCH_SYNTAX },
        { "HEADER x", IMAP_SEARCH_SYNTAX },
        { "LARGER", IMAP_SEARCH_SYNTAX },
        { "LARGER x", IMAP_SEARCH_SYNTAX },
        { "LARGER 4294967296", IMAP_SEARCH_SYNTAX },
        { "BEFORE yesterday", IMAP_SEARCH_SYNTAX },
        { "ON 31-Feb-2000", IMAP_SEARCH_SYNTAX },
        { "KEYWORD", IMAP_SEARCH_SYNTAX },
        { "KEYWORD \"x\"", IMAP_SEARCH_SYNTAX },
        { "UID", IMAP_SEARCH_SYNTAX },
        { "UID x", IMAP_SEARCH_SYNTAX },
        { "UNKNOWN", IMAP_SEARCH_SYNTAX },
        { "SEENX", IMAP_SEARCH_SYNTAX },
        { "SUBJECT \xff", IMAP_SEARCH_SYNTAX },
        { "CHARSET", IMAP_SEARCH_SYNTAX },
        { "CHARSET UTF-8", IMAP_SEARCH_SYNTAX },
        { "CHARSET UTF-8 ", IMAP_SEARCH_SYNTAX },
        { "CHARSET KOI8-R ALL", IMAP_SEARCH_CHARSET },
        { "CHARSET \"\" ALL", IMAP_SEARCH_CHARSET },
        { "SUBJECT \"a", IMAP_SEARCH_SYNTAX },
        { "SUBJECT {5}\r\nabcd", IMAP_SEARCH_SYNTAX },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ImapSearchNode *root = NULL;
        g_test_message("%s", rows[i].text);
        g_assert_cmpint(parse(rows[i].text, &root), ==, rows[i].error);
        g_assert_null(root);
    }
}

/* Depth and size have limits; below them a program is taken, and answered without deep stacks. */
static void
test_limits(void)
{
    static const struct {
        const char *open;
        const char *core;
        const char *close;
        unsigned good;
        unsigned bad;
    } rows[] = {
        { "(", "ALL", ")", 31, 32 },
        { "NOT ", "ALL", "", 31, 32 },
        { "OR ALL ", "ALL", "", 31, 32 },
        { "ALL ", "ALL", "", 1998, 2100 },
        { "NOT ", "ALL", "", 31, 60000 },
        { "(", "ALL", ")", 31, 60000 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        for (int bad = 0; bad < 2; bad++) {
            unsigned n = bad != 0 ? rows[i].bad : rows[i].good;
            g_autoptr(GString) text = g_string_new(NULL);
            for (unsigned k = 0; k < n; k++)
                g_string_append(text, rows[i].open);
            g_string_append(text, rows[i].core);
            for (unsigned k = 0; k < n; k++)
                g_string_append(text, rows[i].close);
            ImapSearchNode *root = NULL;
            g_test_message("%zu, %u", i, n);
            g_assert_cmpint(
                parse(text->str, &root), ==, bad != 0 ? IMAP_SEARCH_SYNTAX : IMAP_SEARCH_OK);
            imap_search_node_free(root);
        }
}

/* One message, seen on 10 March 2026, and what programs say of it: without and with its texts. */
static void
test_evaluate(void)
{
    static const struct {
        const char *text;
        ImapAnswer bare; /* only the row is known */
        ImapAnswer whole;
    } rows[] = {
        { "ALL", IMAP_YES, IMAP_YES },
        { "SEEN", IMAP_YES, IMAP_YES },
        { "UNSEEN", IMAP_NO, IMAP_NO },
        { "NOT SEEN", IMAP_NO, IMAP_NO },
        { "FLAGGED", IMAP_NO, IMAP_NO },
        { "UNFLAGGED", IMAP_YES, IMAP_YES },
        { "SEEN UNFLAGGED", IMAP_YES, IMAP_YES },
        { "RECENT", IMAP_YES, IMAP_YES },
        { "OLD", IMAP_NO, IMAP_NO },
        { "NEW", IMAP_NO, IMAP_NO },
        { "OR FLAGGED SEEN", IMAP_YES, IMAP_YES },
        { "OR FLAGGED DRAFT", IMAP_NO, IMAP_NO },
        { "NOT (SEEN FLAGGED)", IMAP_YES, IMAP_YES },
        { "LARGER 999", IMAP_YES, IMAP_YES },
        { "LARGER 1000", IMAP_NO, IMAP_NO },
        { "SMALLER 1001", IMAP_YES, IMAP_YES },
        { "SMALLER 1000", IMAP_NO, IMAP_NO },
        { "ON 10-Mar-2026", IMAP_YES, IMAP_YES },
        { "BEFORE 10-Mar-2026", IMAP_NO, IMAP_NO },
        { "SINCE 10-Mar-2026", IMAP_YES, IMAP_YES },
        { "SINCE 11-Mar-2026", IMAP_NO, IMAP_NO },
        { "BEFORE 11-Mar-2026", IMAP_YES, IMAP_YES },
        { "SENTON 9-Mar-2026", IMAP_UNKNOWN, IMAP_YES },
        { "SENTBEFORE 9-Mar-2026", IMAP_UNKNOWN, IMAP_NO },
        { "SENTSINCE 9-Mar-2026", IMAP_UNKNOWN, IMAP_YES },
        { "SUBJECT h\xc3\x84llo", IMAP_UNKNOWN, IMAP_YES },
        { "SUBJECT bye", IMAP_UNKNOWN, IMAP_NO },
        { "FROM alice", IMAP_UNKNOWN, IMAP_YES },
        { "TO alice", IMAP_UNKNOWN, IMAP_NO },
        { "HEADER X-Test \"\"", IMAP_UNKNOWN, IMAP_YES },
        { "HEADER X-None \"\"", IMAP_UNKNOWN, IMAP_NO },
        { "HEADER x-TEST two", IMAP_UNKNOWN, IMAP_YES },
        { "BODY words", IMAP_UNKNOWN, IMAP_YES },
        { "BODY alice", IMAP_UNKNOWN, IMAP_NO },
        { "TEXT alice", IMAP_UNKNOWN, IMAP_YES },
        { "TEXT WORDS", IMAP_UNKNOWN, IMAP_YES },
        { "TEXT nothing", IMAP_UNKNOWN, IMAP_NO },
        { "UNSEEN SUBJECT x", IMAP_NO, IMAP_NO },
        { "OR SEEN SUBJECT x", IMAP_YES, IMAP_YES },
        { "NOT SUBJECT x", IMAP_UNKNOWN, IMAP_YES },
        { "CHARSET utf-8 SEEN", IMAP_YES, IMAP_YES },
        { "CHARSET US-ASCII SEEN", IMAP_YES, IMAP_YES },
    };
    const PhViewRow row = { .uid = 5,
        .flags = PH_FLAG_SEEN,
        .size_bytes = 1000,
        .internal_date_us = INT64_C(1773100800) * G_USEC_PER_SEC };
    const PhMessageMeta meta = { .sent_us = INT64_C(1773100799) * G_USEC_PER_SEC };
    ImapSearchSubject bare = { .row = &row, .first_recent = 5 };
    ImapSearchSubject whole = bare;
    whole.meta = &meta;
    whole.headers =
        "from: alice@example.org\nsubject: say h\xc3\xa4llo\nx-test: one\nx-test: two\n";
    whole.body = "some words";
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ImapSearchNode *root = NULL;
        g_test_message("%s", rows[i].text);
        g_assert_cmpint(parse(rows[i].text, &root), ==, IMAP_SEARCH_OK);
        g_assert_cmpint(imap_search_evaluate(root, &bare), ==, rows[i].bare);
        g_assert_cmpint(imap_search_evaluate(root, &whole), ==, rows[i].whole);
        imap_search_node_free(root);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/imap-search/parse/refused", test_refused);
    g_test_add_func("/imap-search/parse/limits", test_limits);
    g_test_add_func("/imap-search/evaluate/table", test_evaluate);
    return g_test_run();
}
