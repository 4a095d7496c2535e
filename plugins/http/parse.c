/* parse.c - heads of requests, and chunks
 *
 * Two things keep "one reading" true. Lines end with CR LF and nothing else, and everything that other
 * programs are known to read in two ways (folded lines, blanks before the colon, two lengths) is
 * refused, not mended. A head is parsed as a whole from its own copy, so a text that was checked
 * cannot change between check and use.
 */
#include "parse.h"

#include <string.h>

static const struct {
    int status;
    const char *text;
} problem_rows[] = {
    [HTTP_PROBLEM_NONE] = { 200, "" },
#define HTTP_PROBLEM(name, status, text) [HTTP_PROBLEM_##name] = { status, text },
#include "problems.def"
#undef HTTP_PROBLEM
};

static const struct {
    const char *name;
    size_t length;
    bool once;
} field_rows[] = {
#define HTTP_FIELD(name, text, once) [HTTP_FIELD_##name] = { text, sizeof(text) - 1, once },
#include "fields.def"
#undef HTTP_FIELD
};

static const struct {
    const char *name;
    size_t length;
    HttpMethod method; /* NONE: known and never taken */
} method_rows[] = {
    { "GET", 3, HTTP_METHOD_GET },
    { "HEAD", 4, HTTP_METHOD_HEAD },
    { "POST", 4, HTTP_METHOD_POST },
    { "PUT", 3, HTTP_METHOD_PUT },
    { "DELETE", 6, HTTP_METHOD_DELETE },
    { "PATCH", 5, HTTP_METHOD_PATCH },
    { "OPTIONS", 7, HTTP_METHOD_OPTIONS },
    { "CONNECT", 7, HTTP_METHOD_NONE },
    { "TRACE", 5, HTTP_METHOD_NONE },
};

int
http_problem_status(HttpProblem problem)
{
    return problem_rows[problem].status;
}

const char *
http_problem_text(HttpProblem problem)
{
    return problem_rows[problem].text;
}

/* -- characters -------------------------------------------------------------------------------- */

enum {
    IS_TOKEN = 1 << 0,
    IS_VALUE = 1 << 1, /* in a field value: no control characters but HTAB */
    IS_PATH = 1 << 2,  /* unescaped in a path */
    IS_QUERY = 1 << 3,
    IS_HOST = 1 << 4,
};

// clang-format off
#define TVPQ (IS_TOKEN | IS_VALUE | IS_PATH | IS_QUERY)
#define VPQ (IS_VALUE | IS_PATH | IS_QUERY)
/* Targets: RFC 3986, and what browsers leave as it is ([ ] ^ ` { } |). */
static const uint8_t classes[256] = {
    ['\t'] = IS_VALUE, [' '] = IS_VALUE, ['"'] = IS_VALUE, ['<'] = IS_VALUE, ['>'] = IS_VALUE,
    ['#'] = IS_TOKEN | IS_VALUE, ['?'] = IS_VALUE | IS_QUERY, ['\\'] = IS_VALUE | IS_QUERY,
    ['!'] = TVPQ, ['$'] = TVPQ, ['%'] = TVPQ, ['&'] = TVPQ, ['\''] = TVPQ, ['*'] = TVPQ, ['+'] = TVPQ,
    ['-'] = TVPQ | IS_HOST, ['.'] = TVPQ | IS_HOST, ['_'] = TVPQ | IS_HOST,
    ['^'] = TVPQ, ['`'] = TVPQ, ['|'] = TVPQ, ['~'] = TVPQ,
    ['('] = VPQ, [')'] = VPQ, [','] = VPQ, ['/'] = VPQ, [':'] = VPQ, [';'] = VPQ, ['='] = VPQ,
    ['@'] = VPQ, ['['] = VPQ, [']'] = VPQ, ['{'] = VPQ, ['}'] = VPQ,
    ['0' ... '9'] = TVPQ | IS_HOST, ['A' ... 'Z'] = TVPQ | IS_HOST, ['a' ... 'z'] = TVPQ | IS_HOST,
    [0x80 ... 0xff] = IS_VALUE,
};
// clang-format on

static bool
is_class(char c, unsigned class)
{
    return (classes[(uint8_t)c] & class) != 0;
}

static char
lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* -- the end of a head ------------------------------------------------------------------------- */

static HttpParse
bad(HttpProblem *problem_out, HttpProblem problem)
{
    *problem_out = problem;
    return HTTP_PARSE_BAD;
}

/* Said at once to who speaks something else, such as TLS on the plain port. */
static bool
cannot_be_a_method(uint8_t first)
{
    return first != '\r' && first != '\n' && !is_class((char)first, IS_TOKEN);
}

/* A line that is not complete is already too long, or cannot become a request. */
static HttpProblem
check_unfinished(
    const HttpScan *scan, const uint8_t *bytes, size_t length, const HttpLimits *limits)
{
    if (scan->lines == 0) {
        if (length > scan->line_start && cannot_be_a_method(bytes[scan->line_start]))
            return HTTP_PROBLEM_REQUEST_LINE;
        if (length - scan->line_start > limits->request_line_bytes + 1) /* its CR */
            return HTTP_PROBLEM_TARGET_LONG;
    }
    return length - scan->start > limits->head_bytes ? HTTP_PROBLEM_HEAD_LARGE : HTTP_PROBLEM_NONE;
}

/* One complete line: its length without CR LF. */
static HttpProblem
check_line(HttpScan *scan, size_t line_length, size_t end, const HttpLimits *limits)
{
    if (scan->lines == 0 && line_length == 0) {
        if (scan->start > 0)
            return HTTP_PROBLEM_EMPTY_LINES;
        scan->start = end; /* RFC 9112 2.2: one may be there */
        return HTTP_PROBLEM_NONE;
    }
    if (scan->lines == 0 && line_length > limits->request_line_bytes)
        return HTTP_PROBLEM_TARGET_LONG;
    if (end - scan->start > limits->head_bytes)
        return HTTP_PROBLEM_HEAD_LARGE;
    if (line_length > 0 && scan->lines++ > limits->fields)
        return HTTP_PROBLEM_FIELDS_MANY;
    return HTTP_PROBLEM_NONE;
}

HttpParse
http_scan_head(HttpScan *scan, const uint8_t *bytes, size_t length, const HttpLimits *limits,
    size_t *length_out, HttpProblem *problem_out)
{
    while (scan->at < length) {
        const uint8_t *end = memchr(bytes + scan->at, '\n', length - scan->at);
        if (end == NULL) {
            scan->at = length;
            break;
        }
        size_t at = (size_t)(end - bytes);
        if (scan->lines == 0 && cannot_be_a_method(bytes[scan->line_start]))
            return bad(problem_out, HTTP_PROBLEM_REQUEST_LINE);
        if (at == scan->line_start || bytes[at - 1] != '\r')
            return bad(problem_out, HTTP_PROBLEM_BARE_LF);
        size_t line_length = at - 1 - scan->line_start;
        HttpProblem problem = check_line(scan, line_length, at + 1, limits);
        if (problem != HTTP_PROBLEM_NONE)
            return bad(problem_out, problem);
        scan->at = scan->line_start = at + 1;
        if (line_length == 0 && scan->lines > 0) {
            *length_out = at + 1;
            return HTTP_PARSE_DONE;
        }
    }
    HttpProblem problem = check_unfinished(scan, bytes, length, limits);
    return problem == HTTP_PROBLEM_NONE ? HTTP_PARSE_MORE : bad(problem_out, problem);
}

/* -- paths ------------------------------------------------------------------------------------- */

/* The character at *at, unescaped; *at moves behind it. */
static HttpProblem
take_path_character(const char **at, const char *end, char *c_out)
{
    char c = *(*at)++;
    if (c == '\\')
        return HTTP_PROBLEM_TARGET_SLASH;
    if (!is_class(c, IS_PATH))
        return HTTP_PROBLEM_TARGET_CHARACTER;
    if (c == '%') {
        if (end - *at < 2 || !g_ascii_isxdigit((*at)[0]) || !g_ascii_isxdigit((*at)[1]))
            return HTTP_PROBLEM_TARGET_ESCAPE;
        c = (char)(g_ascii_xdigit_value((*at)[0]) << 4 | g_ascii_xdigit_value((*at)[1]));
        *at += 2;
        if (c == '/' || c == '\\')
            return HTTP_PROBLEM_TARGET_SLASH;
        if ((uint8_t)c < 0x20 || c == 0x7f)
            return HTTP_PROBLEM_TARGET_CONTROL;
    }
    *c_out = c;
    return HTTP_PROBLEM_NONE;
}

/* A segment out[start, length) is complete: gives the new length, or 0 for "..", above the root. */
static size_t
end_segment(const char *out, size_t start, size_t length)
{
    size_t n = length - start;
    if (n == 1 && out[start] == '.')
        return start;
    if (n != 2 || out[start] != '.' || out[start + 1] != '.')
        return length;
    if (start == 1)
        return 0;
    size_t at = start - 1; /* the slash before; back to the one before that */
    while (out[at - 1] != '/')
        at--;
    return at;
}

HttpProblem
http_normalise_path(const char *path, size_t length, char *out, size_t *out_length)
{
    const char *end = path + length;
    const char *at = path;
    size_t o = 0;
    size_t start = 1;
    bool plain = true; /* ASCII so far */
    if (length == 0 || *at != '/')
        return HTTP_PROBLEM_TARGET_FORM;
    out[o++] = *at++;
    while (at < end) {
        if (*at == '/') {
            size_t settled = end_segment(out, start, o);
            if (settled == 0)
                return HTTP_PROBLEM_TARGET_CLIMBS;
            o = settled;
            if (out[o - 1] != '/')
                out[o++] = '/';
            start = o;
            at++;
            continue;
        }
        HttpProblem problem = take_path_character(&at, end, &out[o]);
        if (problem != HTTP_PROBLEM_NONE)
            return problem;
        plain = plain && (uint8_t)out[o] < 0x80;
        o++;
    }
    o = end_segment(out, start, o);
    if (o == 0)
        return HTTP_PROBLEM_TARGET_CLIMBS;
    out[o] = '\0';
    if (!plain && !g_utf8_validate(out, (gssize)o, NULL))
        return HTTP_PROBLEM_TARGET_UTF8;
    *out_length = o;
    return HTTP_PROBLEM_NONE;
}

static bool
is_ipv6_literal(const char *text, size_t length)
{
    size_t digits = 0;
    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isxdigit(text[i]) && text[i] != ':' && text[i] != '.')
            return false;
        digits += text[i] != ':';
    }
    return length >= 2 && length <= 45 && memchr(text, ':', length) != NULL &&
           (digits > 0 || length == 2);
}

static bool
parse_port(const char *text, size_t length, int *port_out)
{
    int port = 0;
    if (length > 5)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isdigit(text[i]))
            return false;
        port = port * 10 + (text[i] - '0');
    }
    *port_out = port;
    return port <= 65535;
}

bool
http_parse_host(const char *text, size_t length, char *out, int *port_out)
{
    size_t name = 0;
    *port_out = 0;
    if (length > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', length);
        if (end == NULL || !is_ipv6_literal(text + 1, (size_t)(end - text) - 1))
            return false;
        name = (size_t)(end - text) + 1;
    } else {
        while (name < length && is_class(text[name], IS_HOST))
            name++;
    }
    if (name == 0 || name > 255)
        return false;
    if (name < length &&
        (text[name] != ':' || !parse_port(text + name + 1, length - name - 1, port_out)))
        return false;
    for (size_t i = 0; i < name; i++)
        out[i] = lower(text[i]);
    if (name > 1 && out[name - 1] == '.')
        name--;
    out[name] = '\0';
    return out[0] != '.' && strstr(out, "..") == NULL;
}

/* -- the request line -------------------------------------------------------------------------- */

/* Where the next text goes that is made, not taken as it is. */
typedef struct Parser {
    HttpHead *head;
    char *spare;
    HttpProblem problem;
} Parser;

static bool
fail(Parser *parser, HttpProblem problem)
{
    parser->problem = problem;
    return false;
}

static bool
parse_method(Parser *parser, char *text, size_t length)
{
    HttpHead *head = parser->head;
    if (length == 0)
        return fail(parser, HTTP_PROBLEM_REQUEST_LINE);
    for (size_t i = 0; i < length; i++)
        if (!is_class(text[i], IS_TOKEN))
            return fail(parser, HTTP_PROBLEM_REQUEST_LINE);
    text[length] = '\0';
    head->method_name = text;
    for (size_t i = 0; i < G_N_ELEMENTS(method_rows); i++) {
        if (method_rows[i].length != length || memcmp(method_rows[i].name, text, length) != 0)
            continue;
        head->method = method_rows[i].method;
        return head->method != HTTP_METHOD_NONE || fail(parser, HTTP_PROBLEM_METHOD_REFUSED);
    }
    return fail(parser, HTTP_PROBLEM_METHOD_UNKNOWN);
}

/* A higher minor version is read as 1.1 (RFC 9110 2.5). */
static bool
parse_version(Parser *parser, const char *text, size_t length)
{
    if (length != 8 || memcmp(text, "HTTP/", 5) != 0 || !g_ascii_isdigit(text[5]) ||
        text[6] != '.' || !g_ascii_isdigit(text[7]))
        return fail(parser, HTTP_PROBLEM_VERSION_FORM);
    if (text[5] != '1')
        return fail(parser, HTTP_PROBLEM_VERSION);
    parser->head->minor_version = text[7] == '0' ? 0 : 1;
    return true;
}

static bool
take_host(Parser *parser, const char *text, size_t length)
{
    if (!http_parse_host(text, length, parser->spare, &parser->head->port))
        return fail(parser, HTTP_PROBLEM_HOST_FORM);
    parser->head->host = parser->spare;
    parser->spare += length + 1;
    return true;
}

/* Everything behind "http://host". */
static bool
parse_path_and_query(Parser *parser, const char *text, size_t length)
{
    HttpHead *head = parser->head;
    const char *question = memchr(text, '?', length);
    size_t path_length = question != NULL ? (size_t)(question - text) : length;
    HttpProblem problem = http_normalise_path(text, path_length, parser->spare, &head->path_length);
    if (problem != HTTP_PROBLEM_NONE)
        return fail(parser, problem);
    head->path = parser->spare;
    parser->spare += path_length + 2;
    if (question == NULL)
        return true;
    head->query = question + 1;
    for (const char *at = head->query; at < text + length; at++)
        if (!is_class(*at, IS_QUERY))
            return fail(parser, HTTP_PROBLEM_TARGET_CHARACTER);
    return true;
}

static bool
parse_absolute(Parser *parser, const char *text, size_t length)
{
    static const char *const schemes[] = { "http", "https" };
    HttpHead *head = parser->head;
    size_t skip = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (length > n + 3 && g_ascii_strncasecmp(text, schemes[i], n) == 0 &&
            memcmp(text + n, "://", 3) == 0) {
            head->scheme = schemes[i];
            skip = n + 3;
        }
    }
    if (head->scheme == NULL)
        return fail(parser, HTTP_PROBLEM_TARGET_FORM);
    const char *authority = text + skip;
    size_t rest = length - skip;
    size_t n = 0;
    while (n < rest && authority[n] != '/' && authority[n] != '?')
        n++;
    if (memchr(authority, '@', n) != NULL)
        return fail(parser, HTTP_PROBLEM_TARGET_FORM);
    head->is_absolute = true;
    if (!take_host(parser, authority, n))
        return false;
    if (n == rest || authority[n] == '?') {
        /* "http://host?x" has the path "/"; what is left is the query. */
        if (!parse_path_and_query(parser, "/", 1))
            return false;
        if (n == rest)
            return true;
        head->query = authority + n + 1;
        for (const char *at = head->query; at < text + length; at++)
            if (!is_class(*at, IS_QUERY))
                return fail(parser, HTTP_PROBLEM_TARGET_CHARACTER);
        return true;
    }
    return parse_path_and_query(parser, authority + n, rest - n);
}

/* `text` ends with a NUL in the place of the blank behind it. */
static bool
parse_target(Parser *parser, const char *text, size_t length)
{
    HttpHead *head = parser->head;
    head->target = text;
    if (length == 0)
        return fail(parser, HTTP_PROBLEM_REQUEST_LINE);
    if (text[0] == '/')
        return parse_path_and_query(parser, text, length);
    if (length == 1 && text[0] == '*') {
        if (head->method != HTTP_METHOD_OPTIONS)
            return fail(parser, HTTP_PROBLEM_TARGET_FORM);
        head->is_asterisk = true;
        head->path = text;
        head->path_length = 1;
        return true;
    }
    return parse_absolute(parser, text, length);
}

static bool
parse_request_line(Parser *parser, char *line, size_t length)
{
    char *first = memchr(line, ' ', length);
    char *last = first != NULL ? memrchr(line, ' ', length) : NULL;
    if (first == NULL || first == last)
        return fail(parser, HTTP_PROBLEM_REQUEST_LINE);
    if (memchr(first + 1, ' ', (size_t)(last - first) - 1) != NULL)
        return fail(parser, HTTP_PROBLEM_REQUEST_LINE);
    /* The version first: what another version means by the rest is not known. */
    if (!parse_version(parser, last + 1, (size_t)(line + length - last) - 1) ||
        !parse_method(parser, line, (size_t)(first - line)))
        return false;
    *last = '\0';
    return parse_target(parser, first + 1, (size_t)(last - first) - 1);
}

/* -- fields ------------------------------------------------------------------------------------ */

static int
find_field(const char *name, size_t length)
{
    for (int i = 0; i < HTTP_N_FIELDS; i++)
        if (field_rows[i].length == length && field_rows[i].name[0] == name[0] &&
            memcmp(field_rows[i].name, name, length) == 0)
            return i;
    return -1;
}

static bool
parse_field(Parser *parser, char *line, size_t length)
{
    HttpHead *head = parser->head;
    if (line[0] == ' ' || line[0] == '\t')
        return fail(parser, HTTP_PROBLEM_FOLD);
    size_t name = 0;
    for (; name < length && is_class(line[name], IS_TOKEN); name++)
        line[name] = lower(line[name]);
    if (name == 0 || name == length || line[name] != ':')
        return fail(parser, HTTP_PROBLEM_FIELD_NAME);
    line[name] = '\0';
    char *value = line + name + 1;
    char *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *at = value; at < end; at++)
        if (!is_class(*at, IS_VALUE))
            return fail(parser, *at == '\r' ? HTTP_PROBLEM_BARE_CR : HTTP_PROBLEM_FIELD_VALUE);
    *end = '\0';

    int known = find_field(line, name);
    if (known >= 0) {
        if (head->known[known] == HTTP_FIELD_NOT_THERE)
            head->known[known] = (uint16_t)head->n_fields;
        else if (field_rows[known].once)
            return fail(parser, HTTP_PROBLEM_FIELD_TWICE);
    }
    head->fields[head->n_fields++] = (PhPageHeader){ .name = line, .value = value };
    return true;
}

bool
http_head_has_token(const HttpHead *head, HttpField field, const char *token)
{
    if (head->known[field] == HTTP_FIELD_NOT_THERE)
        return false;
    size_t wanted = strlen(token);
    for (size_t i = head->known[field]; i < head->n_fields; i++) {
        if (strcmp(head->fields[i].name, field_rows[field].name) != 0)
            continue;
        const char *at = head->fields[i].value;
        while (*at != '\0') {
            at += strspn(at, " \t,");
            size_t length = strcspn(at, " \t,;");
            if (length == wanted && g_ascii_strncasecmp(at, token, length) == 0)
                return true;
            at += strcspn(at, ",");
        }
    }
    return false;
}

/* -- what the fields mean for the framing ------------------------------------------------------ */

static bool
read_host(Parser *parser)
{
    HttpHead *head = parser->head;
    const char *host = http_head_field(head, HTTP_FIELD_HOST);
    if (host == NULL)
        return head->minor_version == 0 || fail(parser, HTTP_PROBLEM_HOST_MISSING);
    /* RFC 9112 3.2.2: an absolute target wins; Host must be one all the same. */
    if (head->is_absolute) {
        int port;
        return http_parse_host(host, strlen(host), parser->spare, &port) ||
               fail(parser, HTTP_PROBLEM_HOST_FORM);
    }
    return take_host(parser, host, strlen(host));
}

static bool
read_length(Parser *parser)
{
    HttpHead *head = parser->head;
    const char *text = http_head_field(head, HTTP_FIELD_CONTENT_LENGTH);
    head->content_length = -1;
    if (text == NULL)
        return true;
    int64_t length = 0;
    if (*text == '\0' || strlen(text) > 18)
        return fail(parser, HTTP_PROBLEM_LENGTH_FORM);
    for (; *text != '\0'; text++) {
        if (!g_ascii_isdigit(*text))
            return fail(parser, HTTP_PROBLEM_LENGTH_FORM);
        length = length * 10 + (*text - '0');
    }
    head->content_length = length;
    return true;
}

static bool
read_coding(Parser *parser)
{
    HttpHead *head = parser->head;
    const char *coding = http_head_field(head, HTTP_FIELD_TRANSFER_ENCODING);
    if (coding == NULL)
        return true;
    if (head->minor_version == 0)
        return fail(parser, HTTP_PROBLEM_CODING_IN_1_0);
    if (head->known[HTTP_FIELD_CONTENT_LENGTH] != HTTP_FIELD_NOT_THERE)
        return fail(parser, HTTP_PROBLEM_LENGTH_AND_CODING);
    if (g_ascii_strcasecmp(coding, "chunked") != 0)
        return fail(parser, HTTP_PROBLEM_CODING_UNKNOWN);
    head->is_chunked = true;
    return true;
}

static bool
read_expectation(Parser *parser)
{
    HttpHead *head = parser->head;
    const char *text = http_head_field(head, HTTP_FIELD_EXPECT);
    if (text == NULL || head->minor_version == 0)
        return true;
    if (g_ascii_strcasecmp(text, "100-continue") != 0)
        return fail(parser, HTTP_PROBLEM_EXPECTATION);
    head->expects_continue = head->is_chunked || head->content_length > 0;
    return true;
}

static void
read_connection(HttpHead *head)
{
    bool closes = http_head_has_token(head, HTTP_FIELD_CONNECTION, "close");
    head->keep_alive =
        !closes &&
        (head->minor_version > 0 || http_head_has_token(head, HTTP_FIELD_CONNECTION, "keep-alive"));
}

static bool
parse_lines(Parser *parser, char *text, size_t length)
{
    char *end = text + length - 2; /* the empty line */
    char *line = text;
    bool first = true;
    while (line < end) {
        char *line_end = memchr(line, '\n', (size_t)(end - line));
        g_assert(line_end != NULL); /* http_scan_head() saw it */
        size_t n = (size_t)(line_end - line) - 1;
        if (first ? !parse_request_line(parser, line, n) : !parse_field(parser, line, n))
            return false;
        first = false;
        line = line_end + 1;
    }
    return true;
}

/* The text, once more for host and path, and an end for each. */
size_t
http_head_memory(size_t length, size_t lines)
{
    return lines * sizeof(PhPageHeader) + 2 * length + 16;
}

HttpParse
http_parse_head(
    const uint8_t *bytes, size_t length, void *memory, HttpHead *head_out, HttpProblem *problem_out)
{
    size_t lines = 0;
    for (const uint8_t *at = bytes; (at = memchr(at, '\n', (size_t)(bytes + length - at))) != NULL;
         at++)
        lines++;
    *head_out = (HttpHead){ .content_length = -1, .host = "", .fields = memory };
    memset(head_out->known, 0xff, sizeof(head_out->known));
    char *text = (char *)memory + lines * sizeof(PhPageHeader);
    memcpy(text, bytes, length);
    Parser parser = { .head = head_out, .spare = text + length };
    if (!parse_lines(&parser, text, length) || !read_host(&parser) || !read_length(&parser) ||
        !read_coding(&parser) || !read_expectation(&parser))
        return bad(problem_out, parser.problem);
    read_connection(head_out);
    return HTTP_PARSE_DONE;
}

/* -- chunks ------------------------------------------------------------------------------------ */

enum {
    CHUNK_LINE_MAX_BYTES = 256,
    CHUNK_DIGITS_MAX = 15,
    EXTENSIONS_MAX_BYTES = 4096,
    TRAILER_MAX_BYTES = 8192,
};

/* A line that ends with CR LF: its length without them. MORE: it is not complete. */
static HttpParse
take_line(const uint8_t *bytes, size_t length, size_t max, HttpProblem too_long,
    size_t *line_length_out, HttpProblem *problem_out)
{
    const uint8_t *end = memchr(bytes, '\n', MIN(length, max + 2));
    if (end == NULL)
        return length < max + 2 ? HTTP_PARSE_MORE : bad(problem_out, too_long);
    if (end == bytes || end[-1] != '\r')
        return bad(problem_out, HTTP_PROBLEM_BARE_LF);
    *line_length_out = (size_t)(end - bytes) - 1;
    return HTTP_PARSE_DONE;
}

/* "1a", "1a;name=value". */
static HttpProblem
parse_chunk_line(HttpChunks *chunks, const char *line, size_t length)
{
    size_t digits = 0;
    uint64_t size = 0;
    for (; digits < length && g_ascii_isxdigit(line[digits]); digits++)
        if (digits < CHUNK_DIGITS_MAX)
            size = size << 4 | (uint64_t)g_ascii_xdigit_value(line[digits]);
    if (digits == 0 || digits > CHUNK_DIGITS_MAX)
        return HTTP_PROBLEM_CHUNK_SIZE;
    if (digits < length && line[digits] != ';')
        return HTTP_PROBLEM_CHUNK_SIZE;
    for (size_t i = digits; i < length; i++)
        if (!is_class(line[i], IS_VALUE))
            return line[i] == '\r' ? HTTP_PROBLEM_BARE_CR : HTTP_PROBLEM_CHUNK_SIZE;
    chunks->extension_bytes += length - digits;
    if (chunks->extension_bytes > EXTENSIONS_MAX_BYTES)
        return HTTP_PROBLEM_CHUNK_LINE;
    chunks->left = size;
    chunks->state = size > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER;
    return HTTP_PROBLEM_NONE;
}

static HttpProblem
check_trailer(const char *line, size_t length)
{
    size_t name = 0;
    while (name < length && is_class(line[name], IS_TOKEN))
        name++;
    if (name == 0 || name == length || line[name] != ':')
        return HTTP_PROBLEM_TRAILER;
    for (size_t i = name; i < length; i++)
        if (!is_class(line[i], IS_VALUE))
            return HTTP_PROBLEM_TRAILER;
    return HTTP_PROBLEM_NONE;
}

/* One step; DONE: go on, MORE: bytes are missing. */
static HttpParse
chunk_step(
    HttpChunks *chunks, const uint8_t *bytes, size_t length, size_t *used, HttpProblem *problem_out)
{
    size_t left = length - *used;
    if (left == 0)
        return HTTP_PARSE_MORE;
    const uint8_t *at = bytes + *used;
    if (chunks->state == HTTP_CHUNK_END) {
        if (at[0] != '\r' || (left > 1 && at[1] != '\n'))
            return bad(problem_out, HTTP_PROBLEM_CHUNK_END);
        if (left < 2)
            return HTTP_PARSE_MORE;
        *used += 2;
        chunks->state = HTTP_CHUNK_SIZE;
        return HTTP_PARSE_DONE;
    }
    bool trailer = chunks->state == HTTP_CHUNK_TRAILER;
    size_t line = 0;
    HttpParse parsed = take_line(at, left,
        trailer ? TRAILER_MAX_BYTES - chunks->trailer_bytes : CHUNK_LINE_MAX_BYTES,
        trailer ? HTTP_PROBLEM_TRAILER_LARGE : HTTP_PROBLEM_CHUNK_LINE, &line, problem_out);
    if (parsed != HTTP_PARSE_DONE)
        return parsed;
    HttpProblem problem = HTTP_PROBLEM_NONE;
    if (!trailer)
        problem = parse_chunk_line(chunks, (const char *)at, line);
    else if (line > 0)
        problem = check_trailer((const char *)at, line);
    else
        chunks->state = HTTP_CHUNK_FINISHED;
    if (problem != HTTP_PROBLEM_NONE)
        return bad(problem_out, problem);
    if (trailer)
        chunks->trailer_bytes += MIN(line + 2, TRAILER_MAX_BYTES - chunks->trailer_bytes);
    *used += line + 2;
    return HTTP_PARSE_DONE;
}

HttpParse
http_chunks_next(HttpChunks *chunks, const uint8_t *bytes, size_t length, size_t *used_out,
    size_t *data_out, HttpProblem *problem_out)
{
    *used_out = 0;
    *data_out = 0;
    for (;;) {
        if (chunks->state == HTTP_CHUNK_FINISHED)
            return HTTP_PARSE_DONE;
        if (chunks->state == HTTP_CHUNK_DATA) {
            *data_out = (size_t)MIN(chunks->left, SIZE_MAX / 2);
            return HTTP_PARSE_MORE;
        }
        HttpParse parsed = chunk_step(chunks, bytes, length, used_out, problem_out);
        if (parsed != HTTP_PARSE_DONE)
            return parsed;
    }
}

void
http_chunks_taken(HttpChunks *chunks, size_t length)
{
    g_assert(chunks->state == HTTP_CHUNK_DATA && length <= chunks->left);
    chunks->left -= length;
    if (chunks->left == 0)
        chunks->state = HTTP_CHUNK_END;
}
