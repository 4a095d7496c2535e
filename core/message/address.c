/* address.c - address lists of header fields
 *
 * What is hard here: what is sent is not what the grammar says. One pass keeps two readings of what
 * it has seen since the last separator, as a phrase ("words") and as an address ("local",
 * "domain"); the character that ends the entry tells which one was meant.
 */
#include <posthouse/message-address.h>

#include "ascii.h"

typedef struct Parser {
    const char *at;
    const char *end;
    PhAddressList *list;
    GArray *items;
    size_t max;
    bool in_group;

    GString *words; /* the entry as a phrase, one space between words */
    GString *local;
    GString *domain;
    GString *route;
    GString *comment;    /* the last comment */
    size_t words_before; /* length of `words` before the word that `local` began with */
    bool seen_at;        /* an "@" outside of angle brackets */
    bool seen_angle;
    bool space; /* white space since the last token */
    bool has_words;
    bool has_comment;
    bool domain_done; /* words behind the domain are no part of it */
} Parser;

static void
append_char(GString *out, char c)
{
    g_string_append_c(out, c == '\0' ? '?' : c);
}

static void
parser_reset(Parser *parser)
{
    g_string_truncate(parser->words, 0);
    g_string_truncate(parser->local, 0);
    g_string_truncate(parser->domain, 0);
    g_string_truncate(parser->route, 0);
    g_string_truncate(parser->comment, 0);
    parser->words_before = 0;
    parser->seen_at = false;
    parser->seen_angle = false;
    parser->space = false;
    parser->has_words = false;
    parser->has_comment = false;
    parser->domain_done = false;
}

static const char *
intern(Parser *parser, const char *text, size_t length)
{
    return g_string_chunk_insert_len(parser->list->text, text, (gssize)length);
}

/* False when the list is full. */
static bool
add(Parser *parser, PhAddress address)
{
    if (parser->items->len >= parser->max) {
        parser->list->truncated = true;
        return false;
    }
    g_array_append_val(parser->items, address);
    return true;
}

/* -- tokens ------------------------------------------------------------------------------------ */

static void
take_comment(Parser *parser)
{
    unsigned depth = 0;
    g_string_truncate(parser->comment, 0);
    while (parser->at < parser->end) {
        char c = *parser->at++;
        if (c == '(' && depth++ == 0)
            continue;
        if (c == ')' && --depth == 0)
            break;
        if (c == '\\' && parser->at < parser->end)
            c = *parser->at++;
        if (c != '\r' && c != '\n')
            append_char(parser->comment, c);
    }
    parser->has_comment = true;
}

/* The text of a quoted string, quotes resolved, appended to `out`. */
static void
take_quoted(Parser *parser, GString *out)
{
    parser->at++;
    while (parser->at < parser->end) {
        char c = *parser->at++;
        if (c == '"')
            return;
        if (c == '\\' && parser->at < parser->end)
            c = *parser->at++;
        if (c != '\r' && c != '\n')
            append_char(out, c);
    }
}

static void
take_domain_literal(Parser *parser, GString *out)
{
    while (parser->at < parser->end) {
        char c = *parser->at++;
        if (!ascii_is_fws(c))
            append_char(out, c);
        if (c == ']')
            return;
    }
}

/* Characters that end a run of an atom, within and outside of angle brackets. */
static bool
is_special(char c)
{
    return ascii_is_fws(c) || (c != '\0' && strchr("()<>@,;:\\\"[", c) != NULL);
}

static void
take_run(Parser *parser, GString *out)
{
    if (*parser->at == '\\') {
        parser->at++;
        if (parser->at < parser->end)
            append_char(out, *parser->at++);
        return;
    }
    append_char(out, *parser->at++);
    while (parser->at < parser->end && !is_special(*parser->at))
        append_char(out, *parser->at++);
}

/* -- the entry outside of angle brackets ------------------------------------------------------- */

static bool
ends_with_dot(const GString *text)
{
    return text->len > 0 && text->str[text->len - 1] == '.';
}

/* A word (atom, quoted string or domain literal) is coming: sees to the spaces before it. */
static void
word_begin(Parser *parser)
{
    bool joined = !parser->space || *parser->at == '.';
    if (parser->space && parser->has_words)
        g_string_append_c(parser->words, ' ');
    if (parser->seen_at) {
        if (!joined && parser->domain->len > 0 && !ends_with_dot(parser->domain))
            parser->domain_done = true;
    } else if (!joined && parser->has_words && !ends_with_dot(parser->local)) {
        g_string_truncate(parser->local, 0);
        parser->words_before = parser->words->len;
    }
    parser->space = false;
    parser->has_words = true;
}

static void
word(Parser *parser)
{
    word_begin(parser);
    size_t before = parser->words->len;
    if (*parser->at == '"')
        take_quoted(parser, parser->words);
    else if (*parser->at == '[')
        take_domain_literal(parser, parser->words);
    else
        take_run(parser, parser->words);
    const char *text = parser->words->str + before;
    gssize length = (gssize)(parser->words->len - before);
    if (!parser->seen_at)
        g_string_append_len(parser->local, text, length);
    else if (!parser->domain_done)
        g_string_append_len(parser->domain, text, length);
}

static void
at_sign(Parser *parser)
{
    parser->at++;
    if (parser->seen_at && !parser->domain_done) {
        /* "a@b@c": the last one counts. */
        g_string_append_c(parser->local, '@');
        g_string_append_len(parser->local, parser->domain->str, (gssize)parser->domain->len);
        g_string_truncate(parser->domain, 0);
    }
    parser->seen_at = true;
    parser->has_words = true;
    parser->space = false;
    g_string_append_c(parser->words, '@');
}

/* Spaces and a dot at the end are no part of a name or a host. */
static size_t
trimmed_length(const char *text, size_t length)
{
    while (length > 0 && ascii_is_space(text[length - 1]))
        length--;
    return length;
}

static const char *
name_of(Parser *parser, size_t words_length)
{
    size_t length = trimmed_length(parser->words->str, words_length);
    if (length > 0)
        return intern(parser, parser->words->str, length);
    if (!parser->has_comment)
        return NULL;
    const char *text = parser->comment->str;
    length = trimmed_length(text, parser->comment->len);
    while (length > 0 && ascii_is_space(*text)) {
        text++;
        length--;
    }
    return length > 0 ? intern(parser, text, length) : NULL;
}

/* Ends the entry. False when the list is full. */
static bool
entry_end(Parser *parser)
{
    PhAddress address = { .kind = PH_ADDRESS_MAILBOX, .mailbox = "", .host = "" };
    bool is_entry = parser->seen_angle || parser->seen_at || parser->has_words;
    if (is_entry && (parser->seen_angle || parser->seen_at)) {
        address.name =
            name_of(parser, parser->seen_angle ? parser->words->len : parser->words_before);
        if (parser->route->len > 0)
            address.route = intern(parser, parser->route->str, parser->route->len);
        address.mailbox = intern(parser, parser->local->str, parser->local->len);
        address.host = intern(parser, parser->domain->str, parser->domain->len);
    } else if (is_entry && parser->words_before == 0) {
        /* One word without a domain is a local part; more are somebody's name. */
        address.name = name_of(parser, 0);
        address.mailbox = intern(parser, parser->local->str, parser->local->len);
    } else if (is_entry) {
        address.name = name_of(parser, parser->words->len);
    }
    bool more = !is_entry || add(parser, address);
    parser_reset(parser);
    return more;
}

/* -- within angle brackets --------------------------------------------------------------------- */

/* "@a,@b:" at the start of an angle address. Taken only when a colon ends it. */
static void
take_route(Parser *parser)
{
    const char *start = parser->at;
    while (parser->at < parser->end && *parser->at != '>' && *parser->at != '<') {
        char c = *parser->at++;
        if (c == ':') {
            if (parser->route->len > 0)
                return;
            break;
        }
        if (!ascii_is_fws(c))
            append_char(parser->route, c);
    }
    g_string_truncate(parser->route, 0);
    parser->at = start;
}

static void
angle(Parser *parser)
{
    parser->at++;
    g_string_truncate(parser->local, 0);
    g_string_truncate(parser->domain, 0);
    g_string_truncate(parser->route, 0);
    parser->seen_angle = true;
    while (parser->at < parser->end && ascii_is_fws(*parser->at))
        parser->at++;
    if (parser->at < parser->end && *parser->at == '@')
        take_route(parser);
    bool in_domain = false;
    while (parser->at < parser->end && *parser->at != '>') {
        GString *target = in_domain ? parser->domain : parser->local;
        char c = *parser->at;
        if (ascii_is_fws(c)) {
            parser->at++;
        } else if (c == '(') {
            take_comment(parser);
        } else if (c == '"') {
            take_quoted(parser, target);
        } else if (c == '@') {
            if (in_domain) {
                g_string_append_c(parser->local, '@');
                g_string_append_len(
                    parser->local, parser->domain->str, (gssize)parser->domain->len);
                g_string_truncate(parser->domain, 0);
            }
            in_domain = true;
            parser->at++;
        } else if (c == '[' && in_domain) {
            take_domain_literal(parser, target);
        } else {
            take_run(parser, target);
        }
    }
    if (parser->at < parser->end)
        parser->at++;
}

/* Passes over what stands between ">" and the next separator; a comment there may be the name. */
static void
angle_rest(Parser *parser)
{
    while (parser->at < parser->end && *parser->at != ',' && *parser->at != ';') {
        if (*parser->at == '(') {
            take_comment(parser);
        } else if (*parser->at == '<') {
            /* "<<a@b>>", "<> <a@b>": the later one counts if the first is empty. */
            if (parser->local->len > 0 || parser->domain->len > 0)
                parser->at++;
            else
                angle(parser);
        } else if (*parser->at == '"') {
            GString *junk = g_string_new(NULL);
            take_quoted(parser, junk);
            g_string_free(junk, TRUE);
        } else {
            parser->at++;
        }
    }
}

/* -- the list ---------------------------------------------------------------------------------- */

static bool
group_begin(Parser *parser)
{
    parser->at++;
    PhAddress address = { .kind = PH_ADDRESS_GROUP_BEGIN,
        .name = name_of(parser, parser->words->len) };
    if (address.name == NULL)
        address.name = "";
    parser_reset(parser);
    parser->in_group = add(parser, address);
    return parser->in_group;
}

/* A group that was begun is always ended, over the limit too, so that what is made of it nests. */
static void
group_end(Parser *parser)
{
    PhAddress end = { .kind = PH_ADDRESS_GROUP_END };
    parser->in_group = false;
    g_array_append_val(parser->items, end);
}

/* One token. False when the list is full. */
static bool
step(Parser *parser)
{
    char c = *parser->at;
    if (ascii_is_fws(c)) {
        parser->at++;
        parser->space = true;
        return true;
    }
    switch (c) {
    case '(':
        take_comment(parser);
        parser->space = true;
        return true;
    case '@':
        at_sign(parser);
        return true;
    case '<':
        angle(parser);
        angle_rest(parser);
        return true;
    case ',':
        parser->at++;
        return entry_end(parser);
    case ';':
        parser->at++;
        if (!entry_end(parser))
            return false;
        if (parser->in_group)
            group_end(parser);
        return true;
    case ':':
        if (!parser->in_group && !parser->seen_at)
            return group_begin(parser);
        word(parser);
        return true;
    default:
        word(parser);
        return true;
    }
}

PhAddressList *
ph_address_list_parse(const char *value, size_t length, size_t max)
{
    PhAddressList *list = g_new0(PhAddressList, 1);
    list->text = g_string_chunk_new(256);
    Parser parser = {
        .at = value,
        .end = value + length,
        .list = list,
        .items = g_array_new(FALSE, FALSE, sizeof(PhAddress)),
        .max = max == 0 ? PH_ADDRESS_LIST_MAX : max,
        .words = g_string_new(NULL),
        .local = g_string_new(NULL),
        .domain = g_string_new(NULL),
        .route = g_string_new(NULL),
        .comment = g_string_new(NULL),
    };
    bool more = true;
    while (more && parser.at < parser.end)
        more = step(&parser);
    if (more)
        entry_end(&parser);
    if (parser.in_group)
        group_end(&parser);
    g_string_free(parser.words, TRUE);
    g_string_free(parser.local, TRUE);
    g_string_free(parser.domain, TRUE);
    g_string_free(parser.route, TRUE);
    g_string_free(parser.comment, TRUE);
    list->count = parser.items->len;
    list->items = (PhAddress *)(void *)g_array_free(parser.items, FALSE);
    return list;
}

void
ph_address_list_free(PhAddressList *list)
{
    if (list == NULL)
        return;
    g_string_chunk_free(list->text);
    g_free(list->items);
    g_free(list);
}
