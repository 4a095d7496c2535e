/* mime-value.c - Content-Type, Content-Disposition and their parameters
 *
 * What is hard here: RFC 2231 spreads one value over numbered, partly encoded parameters in any
 * order, and real senders use RFC 2047 words instead. All who look at a file name must see the same
 * one.
 */
#include <posthouse/message-header.h>

#include "ascii.h"
#include "text.h"

#define PARAM_VALUE_MAX ((size_t)32 * 1024)
#define SECTIONS_MAX 64

typedef struct Scan {
    const char *at;
    const char *end;
} Scan;

static void
skip_comment(Scan *scan)
{
    unsigned depth = 0;
    while (scan->at < scan->end) {
        char c = *scan->at++;
        if (c == '\\' && scan->at < scan->end)
            scan->at++;
        else if (c == '(')
            depth++;
        else if (c == ')' && --depth == 0)
            return;
    }
}

static void
skip_cfws(Scan *scan)
{
    while (scan->at < scan->end) {
        if (*scan->at == '(')
            skip_comment(scan);
        else if (ascii_is_fws(*scan->at) || *scan->at == '\0')
            scan->at++;
        else
            return;
    }
}

/* A token, lower case; NULL when there is none. Bytes over 127 are taken: names in the wild have
 * them. */
static char *
take_token(Scan *scan)
{
    const char *start = scan->at;
    while (scan->at < scan->end && (ascii_is_token(*scan->at) || ascii_is_high(*scan->at)))
        scan->at++;
    size_t length = (size_t)(scan->at - start);
    return length > 0 ? g_ascii_strdown(start, (gssize)length) : NULL;
}

static void
append_value_char(GString *out, char c)
{
    if (out->len < PARAM_VALUE_MAX)
        g_string_append_c(out, c == '\0' ? '?' : c);
}

static void
take_quoted(Scan *scan, GString *out)
{
    scan->at++;
    while (scan->at < scan->end) {
        char c = *scan->at++;
        if (c == '"')
            return;
        if (c == '\r' || c == '\n')
            continue;
        if (c == '\\' && scan->at < scan->end)
            c = *scan->at++;
        append_value_char(out, c);
    }
}

/* An unquoted value up to ";" or white space. Spaces within are kept where no parameter follows,
 * because senders forget the quotes: filename=my report.pdf */
static void
take_bare(Scan *scan, GString *out)
{
    size_t spaces = 0;
    while (scan->at < scan->end && *scan->at != ';' && *scan->at != '(') {
        char c = *scan->at++;
        if (c == '\r' || c == '\n')
            continue;
        if (ascii_is_space(c)) {
            spaces++;
            continue;
        }
        for (; spaces > 0 && out->len > 0; spaces--)
            append_value_char(out, ' ');
        spaces = 0;
        append_value_char(out, c);
    }
}

static void
take_params(Scan *scan, PhMimeValue *value)
{
    GArray *params = g_array_new(FALSE, FALSE, sizeof(PhMimeParam));
    while (params->len < PH_MIME_PARAMS_MAX) {
        skip_cfws(scan);
        while (scan->at < scan->end && *scan->at == ';') {
            scan->at++;
            skip_cfws(scan);
        }
        if (scan->at >= scan->end)
            break;
        g_autofree char *name = take_token(scan);
        skip_cfws(scan);
        if (name == NULL || scan->at >= scan->end || *scan->at != '=') {
            /* Junk: on to the next semicolon. */
            const char *next = memchr(scan->at, ';', (size_t)(scan->end - scan->at));
            scan->at = next != NULL ? next : scan->end;
            continue;
        }
        scan->at++;
        skip_cfws(scan);
        GString *text = g_string_new(NULL);
        if (scan->at < scan->end && *scan->at == '"')
            take_quoted(scan, text);
        else
            take_bare(scan, text);
        PhMimeParam param = { .name = g_steal_pointer(&name), .value = g_string_free(text, FALSE) };
        g_array_append_val(params, param);
    }
    value->param_count = params->len;
    value->params = (PhMimeParam *)(void *)g_array_free(params, FALSE);
}

PhMimeValue *
ph_content_type_parse(const char *value, size_t length)
{
    Scan scan = { .at = value, .end = value + length };
    skip_cfws(&scan);
    g_autofree char *type = take_token(&scan);
    if (type == NULL)
        return NULL;
    skip_cfws(&scan);
    g_autofree char *subtype = NULL;
    if (scan.at < scan.end && *scan.at == '/') {
        scan.at++;
        skip_cfws(&scan);
        subtype = take_token(&scan);
    }
    if (subtype == NULL && strcmp(type, "text") == 0)
        subtype = g_strdup("plain");
    if (subtype == NULL)
        return NULL;
    PhMimeValue *result = g_new0(PhMimeValue, 1);
    result->type = g_steal_pointer(&type);
    result->subtype = g_steal_pointer(&subtype);
    take_params(&scan, result);
    return result;
}

PhMimeValue *
ph_content_disposition_parse(const char *value, size_t length)
{
    Scan scan = { .at = value, .end = value + length };
    skip_cfws(&scan);
    g_autofree char *type = take_token(&scan);
    if (type == NULL)
        return NULL;
    PhMimeValue *result = g_new0(PhMimeValue, 1);
    result->type = g_steal_pointer(&type);
    take_params(&scan, result);
    return result;
}

void
ph_mime_value_free(PhMimeValue *value)
{
    if (value == NULL)
        return;
    for (size_t i = 0; i < value->param_count; i++) {
        g_free(value->params[i].name);
        g_free(value->params[i].value);
    }
    g_free(value->params);
    g_free(value->type);
    g_free(value->subtype);
    g_free(value);
}

const char *
ph_mime_value_param(const PhMimeValue *value, const char *name)
{
    for (size_t i = 0; i < value->param_count; i++) {
        if (strcmp(value->params[i].name, name) == 0)
            return value->params[i].value;
    }
    return NULL;
}

/* -- RFC 2231 ---------------------------------------------------------------------------------- */

typedef struct Section {
    const char *value;
    bool encoded;
} Section;

static void
percent_decode(const char *text, GString *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '%' && g_ascii_isxdigit(p[1]) && g_ascii_isxdigit(p[2])) {
            g_string_append_c(
                out, (char)(g_ascii_xdigit_value(p[1]) * 16 + g_ascii_xdigit_value(p[2])));
            p += 2;
        } else {
            g_string_append_c(out, *p);
        }
    }
}

/* The section that `param` is of the value `name`: "name*" and "name*0*" are section 0. False when
 * it is none. */
static bool
section_of(const PhMimeParam *param, const char *name, unsigned *number_out, bool *encoded_out)
{
    size_t length = strlen(name);
    if (strncmp(param->name, name, length) != 0 || param->name[length] != '*')
        return false;
    const char *p = param->name + length + 1;
    unsigned number = 0;
    unsigned digits = 0;
    while (ascii_is_digit(*p) && digits < 3) {
        number = number * 10 + (unsigned)(*p++ - '0');
        digits++;
    }
    *encoded_out = digits == 0 || *p == '*';
    if (*p == '*')
        p++;
    *number_out = number;
    return *p == '\0' && number < SECTIONS_MAX;
}

static char *
sections_join(const Section sections[SECTIONS_MAX])
{
    g_autoptr(GString) bytes = g_string_new(NULL);
    g_autofree char *charset = NULL;
    for (unsigned i = 0; i < SECTIONS_MAX && sections[i].value != NULL; i++) {
        const char *text = sections[i].value;
        if (!sections[i].encoded) {
            g_string_append(bytes, text);
            continue;
        }
        /* charset'language'text stands in the first section only. */
        const char *quote = i == 0 ? strchr(text, '\'') : NULL;
        const char *second = quote != NULL ? strchr(quote + 1, '\'') : NULL;
        if (second != NULL) {
            charset = g_strndup(text, (gsize)(quote - text));
            text = second + 1;
        }
        percent_decode(text, bytes);
    }
    bool stated = charset != NULL && charset[0] != '\0';
    return ph_text_to_utf8(stated ? charset : NULL, bytes->str, bytes->len, NULL);
}

char *
ph_mime_value_param_decoded(const PhMimeValue *value, const char *name)
{
    Section sections[SECTIONS_MAX] = { { .value = NULL } };
    for (size_t i = 0; i < value->param_count; i++) {
        unsigned number = 0;
        bool encoded = false;
        if (section_of(&value->params[i], name, &number, &encoded) &&
            sections[number].value == NULL)
            sections[number] = (Section){ .value = value->params[i].value, .encoded = encoded };
    }
    char *text = NULL;
    const char *raw = ph_mime_value_param(value, name);
    if (sections[0].value != NULL)
        text = sections_join(sections);
    else if (raw != NULL)
        text = ph_header_decode(raw, strlen(raw));
    for (char *p = text; p != NULL && *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
    return text;
}
