/* parse.c - the words of commands (RFC 3501 section 9)
 *
 * A command is one buffer, its literals included: "{5}" CR LF and then five bytes. Every function
 * looks at [at, end) only.
 */
#include "imap.h"

#include "posthouse/message-header.h"

#include <string.h>

enum { SET_RANGES_MAX = 20000, FLAGS_MAX = 200 };

/* atom-specials: "(" / ")" / "{" / SP / CTL / list-wildcards / quoted-specials / resp-specials */
static bool
is_atom_char(unsigned char byte)
{
    return byte > ' ' && byte < 0x7f && strchr("(){%*\"\\]", byte) == NULL;
}

/* ASTRING-CHAR: ATOM-CHAR / resp-specials. Bytes over 127 are against the grammar, and sent for
 * mailbox names. */
static bool
is_astring_char(unsigned char byte)
{
    return is_atom_char(byte) || byte == ']' || byte >= 0x80;
}

static bool
is_list_char(unsigned char byte)
{
    return is_astring_char(byte) || byte == '%' || byte == '*';
}

bool
imap_parse_char(ImapParser *parser, char wanted)
{
    if (parser->at == parser->end || *parser->at != wanted)
        return false;
    parser->at++;
    return true;
}

bool
imap_parse_space(ImapParser *parser)
{
    return imap_parse_char(parser, ' ');
}

bool
imap_parse_end(const ImapParser *parser)
{
    return parser->at == parser->end;
}

bool
imap_parse_word(ImapParser *parser, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(parser->end - parser->at) < length ||
        g_ascii_strncasecmp(parser->at, word, length) != 0)
        return false;
    const char *behind = parser->at + length;
    if (behind < parser->end && is_atom_char((unsigned char)*behind) && *behind != '[')
        return false;
    parser->at = behind;
    return true;
}

static char *
parse_run(ImapParser *parser, bool (*is_part)(unsigned char byte))
{
    const char *start = parser->at;
    while (parser->at < parser->end && is_part((unsigned char)*parser->at))
        parser->at++;
    return parser->at > start ? g_strndup(start, (size_t)(parser->at - start)) : NULL;
}

char *
imap_parse_atom(ImapParser *parser)
{
    return parse_run(parser, is_atom_char);
}

static char *
parse_quoted(ImapParser *parser, size_t *length_out)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (const char *at = parser->at + 1; at < parser->end; at++) {
        if (*at == '"') {
            parser->at = at + 1;
            *length_out = text->len;
            return g_string_free(g_steal_pointer(&text), FALSE);
        }
        if (*at == '\\') {
            at++;
            if (at == parser->end || (*at != '"' && *at != '\\'))
                return NULL;
        }
        if (*at == '\r' || *at == '\n' || *at == '\0')
            return NULL;
        g_string_append_c(text, *at);
    }
    return NULL;
}

/* The bytes of a literal; NULs are refused, as no string here may hold one. */
static char *
parse_literal(ImapParser *parser, size_t *length_out)
{
    const char *line_end = memchr(parser->at, '\n', (size_t)(parser->end - parser->at));
    uint64_t size;
    bool synchronising;
    if (line_end == NULL || !imap_line_ends_with_literal(parser->at,
                                (size_t)(line_end - parser->at) + 1, &size, &synchronising))
        return NULL;
    const char *bytes = line_end + 1;
    if (size > (uint64_t)(parser->end - bytes) || memchr(bytes, '\0', (size_t)size) != NULL)
        return NULL;
    parser->at = bytes + size;
    *length_out = (size_t)size;
    return g_strndup(bytes, (size_t)size);
}

char *
imap_parse_string(ImapParser *parser, size_t *length_out)
{
    if (parser->at == parser->end)
        return NULL;
    if (*parser->at == '"')
        return parse_quoted(parser, length_out);
    if (*parser->at == '{')
        return parse_literal(parser, length_out);
    return NULL;
}

char *
imap_parse_astring(ImapParser *parser, size_t *length_out)
{
    char *text = imap_parse_string(parser, length_out);
    if (text != NULL || (parser->at < parser->end && (*parser->at == '"' || *parser->at == '{')))
        return text;
    text = parse_run(parser, is_astring_char);
    *length_out = text != NULL ? strlen(text) : 0;
    return text;
}

char *
imap_parse_list_mailbox(ImapParser *parser)
{
    size_t length;
    char *text = imap_parse_string(parser, &length);
    if (text != NULL || (parser->at < parser->end && (*parser->at == '"' || *parser->at == '{')))
        return text;
    return parse_run(parser, is_list_char);
}

char *
imap_parse_mailbox(ImapParser *parser)
{
    size_t length;
    g_autofree char *text = imap_parse_astring(parser, &length);
    return text != NULL ? imap_utf7_decode(text, length) : NULL;
}

bool
imap_parse_number(ImapParser *parser, uint32_t *number_out)
{
    uint64_t number = 0;
    const char *at = parser->at;
    for (; at < parser->end && g_ascii_isdigit(*at); at++) {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > UINT32_MAX)
            return false;
    }
    if (at == parser->at)
        return false;
    parser->at = at;
    *number_out = (uint32_t)number;
    return true;
}

/* nz-number or "*" */
static bool
parse_set_number(ImapParser *parser, uint32_t *number_out)
{
    if (imap_parse_char(parser, '*')) {
        *number_out = IMAP_SET_STAR;
        return true;
    }
    return imap_parse_number(parser, number_out) && *number_out != 0;
}

GArray *
imap_parse_set(ImapParser *parser)
{
    g_autoptr(GArray) set = g_array_new(FALSE, FALSE, sizeof(PhUidRange));
    const char *start = parser->at;
    do {
        PhUidRange range;
        if (set->len >= SET_RANGES_MAX || !parse_set_number(parser, &range.first))
            break;
        range.last = range.first;
        if (imap_parse_char(parser, ':') && !parse_set_number(parser, &range.last))
            break;
        g_array_append_val(set, range);
        if (imap_parse_char(parser, ','))
            continue;
        return g_steal_pointer(&set);
    } while (true);
    parser->at = start;
    return NULL;
}

/* -- flags ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint32_t flag;
} flag_rows[] = {
    { "Seen", PH_FLAG_SEEN }, { "Answered", PH_FLAG_ANSWERED }, { "Flagged", PH_FLAG_FLAGGED },
    { "Deleted", PH_FLAG_DELETED }, { "Draft", PH_FLAG_DRAFT },
    { "Recent", 0 }, /* clients copy it from FETCH; it cannot be set */
};

static bool
parse_flag(ImapParser *parser, uint32_t *flags, GPtrArray *keywords)
{
    bool system = imap_parse_char(parser, '\\');
    g_autofree char *name = imap_parse_atom(parser);
    if (name == NULL)
        return false;
    if (!system) {
        if (keywords->len >= FLAGS_MAX || strlen(name) > PH_KEYWORD_MAX_BYTES)
            return false;
        g_ptr_array_add(keywords, g_steal_pointer(&name));
        return true;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(flag_rows); i++)
        if (g_ascii_strcasecmp(name, flag_rows[i].name) == 0) {
            *flags |= flag_rows[i].flag;
            return true;
        }
    return false;
}

bool
imap_parse_flags(ImapParser *parser, bool parentheses, uint32_t *flags_out, char ***keywords_out)
{
    g_autoptr(GPtrArray) keywords = g_ptr_array_new_with_free_func(g_free);
    uint32_t flags = 0;
    bool open = imap_parse_char(parser, '(');
    if (parentheses && !open)
        return false;
    if (!(open && imap_parse_char(parser, ')'))) {
        do {
            if (!parse_flag(parser, &flags, keywords))
                return false;
        } while (imap_parse_space(parser));
        if (open && !imap_parse_char(parser, ')'))
            return false;
    }
    g_ptr_array_add(keywords, NULL);
    g_ptr_array_set_free_func(keywords, NULL);
    *keywords_out = (char **)g_ptr_array_free(g_steal_pointer(&keywords), FALSE);
    *flags_out = flags;
    return true;
}

/* -- dates ------------------------------------------------------------------------------------- */

static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";

static bool
parse_digits(ImapParser *parser, int least, int most, int *number_out)
{
    int number = 0;
    int n = 0;
    while (n < most && parser->at < parser->end && g_ascii_isdigit(*parser->at)) {
        number = number * 10 + (*parser->at++ - '0');
        n++;
    }
    *number_out = number;
    return n >= least;
}

/* "1-Feb-1994" */
static bool
parse_day(ImapParser *parser, GDate *date)
{
    int day;
    int year;
    if (!parse_digits(parser, 1, 2, &day) || !imap_parse_char(parser, '-') ||
        parser->end - parser->at < 3)
        return false;
    g_autofree char *name = g_ascii_strdown(parser->at, 3);
    const char *found = strstr(months, name);
    if (found == NULL || (found - months) % 3 != 0)
        return false;
    parser->at += 3;
    int month = (int)(found - months) / 3 + 1;
    if (!imap_parse_char(parser, '-') || !parse_digits(parser, 4, 4, &year) || year < 1 ||
        !g_date_valid_dmy((GDateDay)day, (GDateMonth)month, (GDateYear)year))
        return false;
    g_date_set_dmy(date, (GDateDay)day, (GDateMonth)month, (GDateYear)year);
    return true;
}

enum { JULIAN_1970 = 719163 }; /* g_date_get_julian() of 1 January 1970 */

bool
imap_parse_date(ImapParser *parser, int64_t *day_out)
{
    GDate date;
    const char *start = parser->at;
    g_date_clear(&date, 1);
    bool quoted = imap_parse_char(parser, '"');
    if (!parse_day(parser, &date) || (quoted && !imap_parse_char(parser, '"'))) {
        parser->at = start;
        return false;
    }
    *day_out = (int64_t)g_date_get_julian(&date) - JULIAN_1970;
    return true;
}

bool
imap_parse_date_time(ImapParser *parser, int64_t *time_us_out)
{
    GDate date;
    int hour;
    int minute;
    int second;
    int zone;
    g_date_clear(&date, 1);
    if (!imap_parse_char(parser, '"'))
        return false;
    imap_parse_space(parser); /* date-day-fixed: " 1-Feb-1994" */
    if (!parse_day(parser, &date) || !imap_parse_space(parser) ||
        !parse_digits(parser, 2, 2, &hour) || !imap_parse_char(parser, ':') ||
        !parse_digits(parser, 2, 2, &minute) || !imap_parse_char(parser, ':') ||
        !parse_digits(parser, 2, 2, &second) || !imap_parse_space(parser))
        return false;
    bool east = imap_parse_char(parser, '+');
    if ((!east && !imap_parse_char(parser, '-')) || !parse_digits(parser, 4, 4, &zone) ||
        !imap_parse_char(parser, '"') || hour > 23 || minute > 59 || second > 60)
        return false;
    int64_t days = (int64_t)g_date_get_julian(&date) - JULIAN_1970;
    int64_t offset_s = (int64_t)(zone / 100) * 3600 + (int64_t)(zone % 100) * 60;
    int64_t seconds =
        days * 86400 + hour * 3600 + minute * 60 + second - (east ? offset_s : -offset_s);
    *time_us_out = seconds * G_USEC_PER_SEC;
    return true;
}

/* -- literals ---------------------------------------------------------------------------------- */

bool
imap_line_ends_with_literal(
    const char *line, size_t length, uint64_t *size_out, bool *synchronising_out)
{
    enum { DIGITS_MAX = 10 };
    if (length > 0 && line[length - 1] == '\n')
        length--;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (length < 3 || line[length - 1] != '}')
        return false;
    size_t at = length - 1;
    *synchronising_out = line[at - 1] != '+';
    if (!*synchronising_out)
        at--;
    size_t digits_end = at;
    while (at > 0 && g_ascii_isdigit(line[at - 1]))
        at--;
    if (at == digits_end || digits_end - at > DIGITS_MAX || at == 0 || line[at - 1] != '{')
        return false;
    *size_out = g_ascii_strtoull(line + at, NULL, 10);
    return true;
}

bool
imap_is_append_message(const char *buffer, size_t length)
{
    ImapParser parser = { .at = buffer, .end = buffer + length };
    g_autofree char *tag = imap_parse_atom(&parser);
    if (tag == NULL || !imap_parse_space(&parser) || !imap_parse_word(&parser, "APPEND") ||
        !imap_parse_space(&parser))
        return false;
    size_t name_length;
    g_autofree char *name = imap_parse_astring(&parser, &name_length);
    if (name == NULL || !imap_parse_space(&parser))
        return false;
    uint32_t flags;
    g_auto(GStrv) keywords = NULL;
    if (parser.at < parser.end && *parser.at == '(' &&
        (!imap_parse_flags(&parser, true, &flags, &keywords) || !imap_parse_space(&parser)))
        return false;
    int64_t time_us;
    if (parser.at < parser.end && *parser.at == '"' &&
        (!imap_parse_date_time(&parser, &time_us) || !imap_parse_space(&parser)))
        return false;
    return parser.at < parser.end && *parser.at == '{';
}
