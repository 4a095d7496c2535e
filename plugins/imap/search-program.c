/* search-program.c - parsing and evaluating SEARCH (RFC 3501 6.4.4)
 *
 * Evaluation is three-valued, so that everything that can be decided from the row in memory is, and
 * only messages that hang on more are loaded.
 */
#include "search.h"

#include <string.h>

enum { DEPTH_MAX = 32, NODES_MAX = 2000, DAY_S = 86400 };

typedef struct Reader {
    const ImapSession *session;
    ImapParser *parser;
    unsigned nodes;
    ImapSearchError error;
} Reader;

static void
node_free(gpointer data)
{
    imap_search_node_free(data);
}

static ImapSearchNode *
node_new(Reader *reader, ImapKey key)
{
    ImapSearchNode *node = g_new0(ImapSearchNode, 1);
    node->key = key;
    node->children = g_ptr_array_new_with_free_func(node_free);
    reader->nodes++;
    return node;
}

void
imap_search_node_free(ImapSearchNode *node)
{
    if (node == NULL)
        return;
    g_ptr_array_unref(node->children);
    g_free(node->name);
    g_free(node->text);
    ph_uid_set_free(node->uids);
    g_free(node);
}

char *
imap_search_fold(const char *utf8)
{
    g_autofree char *normal = g_utf8_normalize(utf8, -1, G_NORMALIZE_DEFAULT_COMPOSE);
    return g_utf8_casefold(normal != NULL ? normal : "", -1);
}

/* -- the rows of keys -------------------------------------------------------------------------- */

typedef enum Argument {
    ARGUMENT_NONE,
    ARGUMENT_TEXT,
    ARGUMENT_ATOM,
    ARGUMENT_DATE,
    ARGUMENT_NUMBER,
    ARGUMENT_HEADER
} Argument;

static const struct {
    const char *name;
    ImapKey key;
    bool negated;
    Argument argument;
    uint32_t flag;
    const char *header;
} key_rows[] = {
    { "ALL", IMAP_KEY_AND, false, ARGUMENT_NONE, 0, NULL },
    { "ANSWERED", IMAP_KEY_FLAG, false, ARGUMENT_NONE, PH_FLAG_ANSWERED, NULL },
    { "BCC", IMAP_KEY_HEADER, false, ARGUMENT_TEXT, 0, "bcc" },
    { "BEFORE", IMAP_KEY_BEFORE, false, ARGUMENT_DATE, 0, NULL },
    { "BODY", IMAP_KEY_BODY, false, ARGUMENT_TEXT, 0, NULL },
    { "CC", IMAP_KEY_HEADER, false, ARGUMENT_TEXT, 0, "cc" },
    { "DELETED", IMAP_KEY_FLAG, false, ARGUMENT_NONE, PH_FLAG_DELETED, NULL },
    { "DRAFT", IMAP_KEY_FLAG, false, ARGUMENT_NONE, PH_FLAG_DRAFT, NULL },
    { "FLAGGED", IMAP_KEY_FLAG, false, ARGUMENT_NONE, PH_FLAG_FLAGGED, NULL },
    { "FROM", IMAP_KEY_HEADER, false, ARGUMENT_TEXT, 0, "from" },
    { "HEADER", IMAP_KEY_HEADER, false, ARGUMENT_HEADER, 0, NULL },
    { "KEYWORD", IMAP_KEY_KEYWORD, false, ARGUMENT_ATOM, 0, NULL },
    { "LARGER", IMAP_KEY_LARGER, false, ARGUMENT_NUMBER, 0, NULL },
    { "OLD", IMAP_KEY_RECENT, true, ARGUMENT_NONE, 0, NULL },
    { "ON", IMAP_KEY_ON, false, ARGUMENT_DATE, 0, NULL },
    { "RECENT", IMAP_KEY_RECENT, false, ARGUMENT_NONE, 0, NULL },
    { "SEEN", IMAP_KEY_FLAG, false, ARGUMENT_NONE, PH_FLAG_SEEN, NULL },
    { "SENTBEFORE", IMAP_KEY_SENT_BEFORE, false, ARGUMENT_DATE, 0, NULL },
    { "SENTON", IMAP_KEY_SENT_ON, false, ARGUMENT_DATE, 0, NULL },
    { "SENTSINCE", IMAP_KEY_SENT_SINCE, false, ARGUMENT_DATE, 0, NULL },
    { "SINCE", IMAP_KEY_SINCE, false, ARGUMENT_DATE, 0, NULL },
    { "SMALLER", IMAP_KEY_SMALLER, false, ARGUMENT_NUMBER, 0, NULL },
    { "SUBJECT", IMAP_KEY_HEADER, false, ARGUMENT_TEXT, 0, "subject" },
    { "TEXT", IMAP_KEY_TEXT, false, ARGUMENT_TEXT, 0, NULL },
    { "TO", IMAP_KEY_HEADER, false, ARGUMENT_TEXT, 0, "to" },
    { "UNANSWERED", IMAP_KEY_FLAG, true, ARGUMENT_NONE, PH_FLAG_ANSWERED, NULL },
    { "UNDELETED", IMAP_KEY_FLAG, true, ARGUMENT_NONE, PH_FLAG_DELETED, NULL },
    { "UNDRAFT", IMAP_KEY_FLAG, true, ARGUMENT_NONE, PH_FLAG_DRAFT, NULL },
    { "UNFLAGGED", IMAP_KEY_FLAG, true, ARGUMENT_NONE, PH_FLAG_FLAGGED, NULL },
    { "UNKEYWORD", IMAP_KEY_KEYWORD, true, ARGUMENT_ATOM, 0, NULL },
    { "UNSEEN", IMAP_KEY_FLAG, true, ARGUMENT_NONE, PH_FLAG_SEEN, NULL },
};

static char *
parse_text(ImapParser *parser)
{
    size_t length;
    g_autofree char *raw = imap_parse_astring(parser, &length);
    if (raw == NULL || !g_utf8_validate(raw, (gssize)length, NULL))
        return NULL;
    return imap_search_fold(raw);
}

static bool
parse_argument(ImapParser *parser, Argument argument, ImapSearchNode *node)
{
    uint32_t number;
    size_t length;
    if (argument == ARGUMENT_NONE)
        return true;
    if (!imap_parse_space(parser))
        return false;
    switch (argument) {
    case ARGUMENT_NONE:
        return true;
    case ARGUMENT_TEXT:
        node->text = parse_text(parser);
        return node->text != NULL;
    case ARGUMENT_ATOM:
        node->text = imap_parse_atom(parser);
        return node->text != NULL;
    case ARGUMENT_DATE:
        return imap_parse_date(parser, &node->number);
    case ARGUMENT_NUMBER:
        if (!imap_parse_number(parser, &number))
            return false;
        node->number = number;
        return true;
    case ARGUMENT_HEADER: {
        g_autofree char *name = imap_parse_astring(parser, &length);
        if (name == NULL || !imap_parse_space(parser))
            return false;
        node->name = g_ascii_strdown(name, -1);
        node->text = parse_text(parser);
        return node->text != NULL;
    }
    }
    return false;
}

static PH_ON_REACTOR ImapSearchNode *parse_key(Reader *reader, unsigned depth);

static ImapSearchNode *
negate(Reader *reader, ImapSearchNode *node)
{
    ImapSearchNode *not_node = node_new(reader, IMAP_KEY_NOT);
    g_ptr_array_add(not_node->children, node);
    return not_node;
}

static ImapSearchNode *
parse_row(Reader *reader)
{
    for (size_t i = 0; i < G_N_ELEMENTS(key_rows); i++) {
        if (!imap_parse_word(reader->parser, key_rows[i].name))
            continue;
        ImapSearchNode *node = node_new(reader, key_rows[i].key);
        node->flag = key_rows[i].flag;
        node->name = g_strdup(key_rows[i].header);
        if (!parse_argument(reader->parser, key_rows[i].argument, node)) {
            imap_search_node_free(node);
            return NULL;
        }
        return key_rows[i].negated ? negate(reader, node) : node;
    }
    return NULL;
}

static PH_ON_REACTOR ImapSearchNode *
parse_set(Reader *reader, bool is_uid)
{
    g_autoptr(GArray) set = imap_parse_set(reader->parser);
    PhUidSet *uids = NULL;
    if (set == NULL)
        return NULL;
    if (!imap_resolve_set(reader->session, set, is_uid, &uids)) {
        reader->error = IMAP_SEARCH_NO_MESSAGE;
        return NULL;
    }
    ImapSearchNode *node = node_new(reader, IMAP_KEY_SET);
    node->uids = uids;
    return node;
}

/* Keys divided by spaces, up to ")" or the end. */
static PH_ON_REACTOR ImapSearchNode *
parse_keys(Reader *reader, unsigned depth)
{
    ImapSearchNode *node = node_new(reader, IMAP_KEY_AND);
    do {
        ImapSearchNode *child = parse_key(reader, depth);
        if (child == NULL) {
            imap_search_node_free(node);
            return NULL;
        }
        g_ptr_array_add(node->children, child);
    } while (imap_parse_space(reader->parser));
    return node;
}

static PH_ON_REACTOR ImapSearchNode *
parse_or(Reader *reader, unsigned depth)
{
    ImapSearchNode *node = node_new(reader, IMAP_KEY_OR);
    for (int i = 0; i < 2; i++) {
        ImapSearchNode *child = imap_parse_space(reader->parser) ? parse_key(reader, depth) : NULL;
        if (child == NULL) {
            imap_search_node_free(node);
            return NULL;
        }
        g_ptr_array_add(node->children, child);
    }
    return node;
}

/* NEW is RECENT UNSEEN. */
static ImapSearchNode *
new_node(Reader *reader)
{
    ImapSearchNode *node = node_new(reader, IMAP_KEY_AND);
    ImapSearchNode *seen = node_new(reader, IMAP_KEY_FLAG);
    seen->flag = PH_FLAG_SEEN;
    g_ptr_array_add(node->children, node_new(reader, IMAP_KEY_RECENT));
    g_ptr_array_add(node->children, negate(reader, seen));
    return node;
}

static PH_ON_REACTOR ImapSearchNode *
parse_key(Reader *reader, unsigned depth)
{
    ImapParser *parser = reader->parser;
    if (depth >= DEPTH_MAX || reader->nodes >= NODES_MAX || parser->at == parser->end)
        return NULL;
    if (imap_parse_char(parser, '(')) {
        ImapSearchNode *node = parse_keys(reader, depth + 1);
        if (node != NULL && imap_parse_char(parser, ')'))
            return node;
        imap_search_node_free(node);
        return NULL;
    }
    if (g_ascii_isdigit(*parser->at) || *parser->at == '*')
        return parse_set(reader, false);
    if (imap_parse_word(parser, "UID"))
        return imap_parse_space(parser) ? parse_set(reader, true) : NULL;
    if (imap_parse_word(parser, "NEW"))
        return new_node(reader);
    if (imap_parse_word(parser, "OR"))
        return parse_or(reader, depth + 1);
    if (imap_parse_word(parser, "NOT")) {
        ImapSearchNode *child = imap_parse_space(parser) ? parse_key(reader, depth + 1) : NULL;
        return child != NULL ? negate(reader, child) : NULL;
    }
    return parse_row(reader);
}

ImapSearchError
imap_search_parse(const ImapSession *session, ImapParser *parser, ImapSearchNode **root_out)
{
    Reader reader = { .session = session, .parser = parser };
    if (imap_parse_word(parser, "CHARSET")) {
        size_t length;
        g_autofree char *charset =
            imap_parse_space(parser) ? imap_parse_astring(parser, &length) : NULL;
        if (charset == NULL || !imap_parse_space(parser))
            return IMAP_SEARCH_SYNTAX;
        if (g_ascii_strcasecmp(charset, "UTF-8") != 0 &&
            g_ascii_strcasecmp(charset, "US-ASCII") != 0)
            return IMAP_SEARCH_CHARSET;
    }
    ImapSearchNode *root = parse_keys(&reader, 0);
    if (root == NULL || !imap_parse_end(parser)) {
        imap_search_node_free(root);
        return reader.error != IMAP_SEARCH_OK ? reader.error : IMAP_SEARCH_SYNTAX;
    }
    *root_out = root;
    return IMAP_SEARCH_OK;
}

/* -- evaluating -------------------------------------------------------------------------------- */

static ImapAnswer
answer(bool yes)
{
    return yes ? IMAP_YES : IMAP_NO;
}

static ImapAnswer
evaluate_and(const ImapSearchNode *node, const ImapSearchSubject *subject)
{
    ImapAnswer whole = IMAP_YES;
    for (guint i = 0; i < node->children->len; i++) {
        ImapAnswer one = imap_search_evaluate(node->children->pdata[i], subject);
        if (one == IMAP_NO)
            return IMAP_NO;
        if (one == IMAP_UNKNOWN)
            whole = IMAP_UNKNOWN;
    }
    return whole;
}

static ImapAnswer
evaluate_or(const ImapSearchNode *node, const ImapSearchSubject *subject)
{
    ImapAnswer whole = IMAP_NO;
    for (guint i = 0; i < node->children->len; i++) {
        ImapAnswer one = imap_search_evaluate(node->children->pdata[i], subject);
        if (one == IMAP_YES)
            return IMAP_YES;
        if (one == IMAP_UNKNOWN)
            whole = IMAP_UNKNOWN;
    }
    return whole;
}

static ImapAnswer
evaluate_not(const ImapSearchNode *node, const ImapSearchSubject *subject)
{
    ImapAnswer one = imap_search_evaluate(node->children->pdata[0], subject);
    return one == IMAP_UNKNOWN ? IMAP_UNKNOWN : answer(one == IMAP_NO);
}

static bool
has_keyword(const ImapSearchSubject *subject, const char *name)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        const char *known =
            (subject->row->keywords >> bit & 1) != 0 ? ph_view_keyword(subject->view, bit) : NULL;
        if (known != NULL && g_ascii_strcasecmp(known, name) == 0)
            return true;
    }
    return false;
}

static int64_t
day_of(int64_t time_us)
{
    int64_t seconds = time_us / G_USEC_PER_SEC;
    return seconds >= 0 ? seconds / DAY_S : -((-seconds + DAY_S - 1) / DAY_S);
}

static ImapAnswer
compare_day(ImapKey key, int64_t day, int64_t wanted)
{
    if (key == IMAP_KEY_BEFORE || key == IMAP_KEY_SENT_BEFORE)
        return answer(day < wanted);
    if (key == IMAP_KEY_ON || key == IMAP_KEY_SENT_ON)
        return answer(day == wanted);
    return answer(day >= wanted);
}

/* A line "name: value" whose value holds the text; every line of that name is looked at. */
static bool
header_holds(const char *headers, const char *name, const char *text)
{
    size_t name_length = strlen(name);
    for (const char *line = headers; *line != '\0';) {
        const char *end = strchr(line, '\n');
        if (strncmp(line, name, name_length) == 0 && line[name_length] == ':') {
            g_autofree char *value =
                g_strndup(line + name_length + 1, (size_t)(end - line) - name_length - 1);
            if (strstr(value, text) != NULL)
                return true;
        }
        line = end + 1;
    }
    return false;
}

ImapAnswer
imap_search_evaluate(const ImapSearchNode *node, const ImapSearchSubject *subject)
{
    const PhViewRow *row = subject->row;
    switch (node->key) {
    case IMAP_KEY_AND:
        return evaluate_and(node, subject);
    case IMAP_KEY_OR:
        return evaluate_or(node, subject);
    case IMAP_KEY_NOT:
        return evaluate_not(node, subject);
    case IMAP_KEY_FLAG:
        return answer((row->flags & node->flag) != 0);
    case IMAP_KEY_KEYWORD:
        return answer(has_keyword(subject, node->text));
    case IMAP_KEY_RECENT:
        return answer(row->uid >= subject->first_recent);
    case IMAP_KEY_SET:
        return answer(ph_uid_set_contains(node->uids, row->uid));
    case IMAP_KEY_BEFORE:
    case IMAP_KEY_ON:
    case IMAP_KEY_SINCE:
        return compare_day(node->key, day_of(row->internal_date_us), node->number);
    case IMAP_KEY_SENT_BEFORE:
    case IMAP_KEY_SENT_ON:
    case IMAP_KEY_SENT_SINCE:
        if (subject->meta == NULL)
            return IMAP_UNKNOWN;
        if (subject->meta->sent_us == INT64_MIN)
            return IMAP_NO;
        return compare_day(node->key, day_of(subject->meta->sent_us), node->number);
    case IMAP_KEY_LARGER:
        return answer(row->size_bytes > node->number);
    case IMAP_KEY_SMALLER:
        return answer(row->size_bytes < node->number);
    case IMAP_KEY_HEADER:
        return subject->headers == NULL
                   ? IMAP_UNKNOWN
                   : answer(header_holds(subject->headers, node->name, node->text));
    case IMAP_KEY_BODY:
        return subject->body == NULL ? IMAP_UNKNOWN
                                     : answer(strstr(subject->body, node->text) != NULL);
    case IMAP_KEY_TEXT:
        if (subject->headers != NULL && strstr(subject->headers, node->text) != NULL)
            return IMAP_YES;
        if (subject->headers == NULL || subject->body == NULL)
            return IMAP_UNKNOWN;
        return answer(strstr(subject->body, node->text) != NULL);
    }
    return IMAP_NO;
}

bool
imap_search_needs(const ImapSearchNode *node, ImapKey key)
{
    if (node->key == key)
        return true;
    for (guint i = 0; i < node->children->len; i++)
        if (imap_search_needs(node->children->pdata[i], key))
            return true;
    return false;
}

void
imap_search_header_names(const ImapSearchNode *node, GPtrArray *names)
{
    if (node->key == IMAP_KEY_HEADER)
        g_ptr_array_add(names, node->name);
    for (guint i = 0; i < node->children->len; i++)
        imap_search_header_names(node->children->pdata[i], names);
}
