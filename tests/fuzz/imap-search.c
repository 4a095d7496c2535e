/* imap-search.c - fuzz target: SEARCH programs, parsed and answered. No mailbox is selected, so
 * sequence sets are cut out: they need its view */
#include "plugins/imap/search.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A set is asked for by a digit, "*" or "UID" where a key may stand. */
static bool
may_hold_set(const char *text, const char *end)
{
    for (const char *at = text; at < end; at++) {
        bool begins = at == text || at[-1] == ' ' || at[-1] == '(' || at[-1] == '\n';
        if (begins && (g_ascii_isdigit(*at) || *at == '*' ||
                          (end - at >= 3 && g_ascii_strncasecmp(at, "UID", 3) == 0)))
            return true;
    }
    return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ph_assert_on_reactor();
    static const ImapSession session;
    const PhViewRow row = {
        .uid = 5, .flags = PH_FLAG_SEEN, .size_bytes = 1000, .internal_date_us = 1
    };
    const PhMessageMeta meta = { .sent_us = 1 };
    ImapSearchSubject bare = { .row = &row, .first_recent = 5 };
    ImapSearchSubject whole = {
        .row = &row, .first_recent = 5, .meta = &meta, .headers = "subject: x\n", .body = "y"
    };
    const char *text = (const char *)data;
    /* LARGER, SMALLER and dates bring digits; such programs are passed over with the sets. */
    if (may_hold_set(text, text + size))
        return 0;
    ImapParser parser = { .at = text, .end = text + size };
    ImapSearchNode *root = NULL;
    if (imap_search_parse(&session, &parser, &root) != IMAP_SEARCH_OK) {
        g_assert_null(root);
        return 0;
    }
    ImapAnswer first = imap_search_evaluate(root, &bare);
    ImapAnswer second = imap_search_evaluate(root, &whole);
    /* What was known stays so. */
    g_assert_true(first == IMAP_UNKNOWN || first == second);
    g_assert_cmpint(second, !=, IMAP_UNKNOWN);
    imap_search_node_free(root);
    return 0;
}
