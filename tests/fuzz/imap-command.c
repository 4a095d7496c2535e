/* imap-command.c - fuzz target: the parsers of IMAP's words, each over the whole buffer and one
 * after the other */
#include "plugins/imap/imap.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_inside(const ImapParser *parser, const char *start, const char *end)
{
    g_assert_true(parser->at >= start && parser->at <= end && parser->end == end);
}

/* Runs one of the parsers; false: it did not take anything. */
static bool
take(ImapParser *parser, unsigned which)
{
    const char *start = parser->at;
    size_t length = 0;
    uint32_t number;
    int64_t time;
    g_autofree char *text = NULL;
    switch (which % 10) {
    case 0:
        text = imap_parse_atom(parser);
        break;
    case 1:
        text = imap_parse_astring(parser, &length);
        g_assert_true(text == NULL || length == strlen(text));
        break;
    case 2:
        text = imap_parse_list_mailbox(parser);
        if (text != NULL) {
            imap_list_match(text, "INBOX/a/b");
            g_assert_true(imap_list_match("*", text));
        }
        break;
    case 3:
        text = imap_parse_mailbox(parser);
        if (text != NULL) {
            g_assert_true(g_utf8_validate(text, -1, NULL));
            g_autoptr(GString) wire = g_string_new(NULL);
            imap_utf7_encode(wire, text);
            g_autofree char *again = imap_utf7_decode(wire->str, wire->len);
            g_assert_cmpstr(again, ==, text);
        }
        break;
    case 4:
        return imap_parse_number(parser, &number);
    case 5: {
        g_autoptr(GArray) set = imap_parse_set(parser);
        return set != NULL;
    }
    case 6: {
        uint32_t flags;
        g_auto(GStrv) keywords = NULL;
        return imap_parse_flags(parser, *start == '(', &flags, &keywords);
    }
    case 7:
        return imap_parse_date_time(parser, &time);
    case 8:
        return imap_parse_date(parser, &time);
    default:
        return imap_parse_word(parser, "FETCH");
    }
    g_assert_true((text != NULL) == (parser->at > start) || text == NULL);
    return text != NULL;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data;
    const char *end = text + size;
    for (unsigned which = 0; which < 10; which++) {
        ImapParser parser = { .at = text, .end = end };
        take(&parser, which);
        check_inside(&parser, text, end);
    }
    /* As a command: word, space, word ... */
    ImapParser parser = { .at = text, .end = end };
    for (unsigned which = data[size - 1]; parser.at < end; which++) {
        const char *before = parser.at;
        for (unsigned k = 0; k < 10 && parser.at == before; k++)
            take(&parser, which + k);
        check_inside(&parser, before, end);
        if (parser.at == before)
            parser.at++;
    }
    uint64_t literal;
    bool synchronising;
    imap_line_ends_with_literal(text, size, &literal, &synchronising);
    imap_is_append_message(text, size);
    g_free(imap_utf7_decode(text, size));
    return 0;
}
