/* test-http-parse.c - heads, targets and chunks of HTTP/1.1: what is taken, and the one answer to what
 * is not */
#include "plugins/http/parse.h"

#include <string.h>

static const HttpLimits limits = { .request_line_bytes = 200, .head_bytes = 1000, .fields = 10 };

typedef struct Head {
    HttpHead head;
    char *memory;
    HttpProblem problem;
    HttpParse parsed;
    size_t length;
} Head;

static void
head_clear(Head *head)
{
    g_free(head->memory);
}

/* Scans and parses as a session does, `step` bytes at a time. */
static Head
read_head(const char *text, size_t length, size_t step)
{
    Head head = { .parsed = HTTP_PARSE_MORE };
    HttpScan scan = { 0 };
    g_autofree uint8_t *copy = NULL;
    for (size_t n = MIN(step, length);; n = MIN(n + step, length)) {
        /* Exactly so many bytes, so that a sanitizer sees a read behind them. */
        g_free(copy);
        copy = g_memdup2(text, n);
        head.parsed = http_scan_head(&scan, copy, n, &limits, &head.length, &head.problem);
        if (head.parsed != HTTP_PARSE_MORE || n == length)
            break;
    }
    if (head.parsed != HTTP_PARSE_DONE)
        return head;
    size_t size = head.length - scan.start;
    head.memory = g_malloc(http_head_memory(size, scan.lines + 1));
    head.parsed = http_parse_head(copy + scan.start, size, head.memory, &head.head, &head.problem);
    return head;
}

/* -- what is refused --------------------------------------------------------------------------- */

typedef struct BadRow {
    const char *text;
    HttpProblem problem;
} BadRow;

#define START "GET / HTTP/1.1\r\n"
#define HOST "Host: a.test\r\n"
#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static const BadRow bad_rows[] = {
    { "\r\n\r\nGET / HTTP/1.1\r\n\r\n", HTTP_PROBLEM_EMPTY_LINES },
    { "\x16\x03\x01", HTTP_PROBLEM_REQUEST_LINE },
    { " GET / HTTP/1.1\r\n\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "GET  / HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "GET / x HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "GET /\r\n\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "GET\t/ HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "GET / HTTP/1.1 \r\n" HOST "\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "G@T / HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_REQUEST_LINE },
    { "get / HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_METHOD_UNKNOWN },
    { "BREW / HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_METHOD_UNKNOWN },
    { "CONNECT a.test:443 HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_METHOD_REFUSED },
    { "TRACE / HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_METHOD_REFUSED },
    { "GET / HTTP/11\r\n" HOST "\r\n", HTTP_PROBLEM_VERSION_FORM },
    { "GET / http/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_VERSION_FORM },
    { "GET / HTTP/1.10\r\n" HOST "\r\n", HTTP_PROBLEM_VERSION_FORM },
    { "PRI * HTTP/2.0\r\n\r\n", HTTP_PROBLEM_VERSION },
    { "GET / HTTP/0.9\r\n\r\n", HTTP_PROBLEM_VERSION },
    { "GET /" HUNDRED HUNDRED " HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_LONG },
    { "GET /" HUNDRED HUNDRED, HTTP_PROBLEM_TARGET_LONG },
    { "GET a.html HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_FORM },
    { "GET * HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_FORM },
    { "GET ftp://a.test/ HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_FORM },
    { "GET http://u@a.test/ HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_FORM },
    { "GET http:///x HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_HOST_FORM },
    { "GET /a\"b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CHARACTER },
    { "GET /a#b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CHARACTER },
    { "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CHARACTER },
    { "GET /?a#b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CHARACTER },
    { "GET http://a.test?a#b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CHARACTER },
    { "GET /a%zz HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_ESCAPE },
    { "GET /a%4 HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_ESCAPE },
    { "GET /a% HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_ESCAPE },
    { "GET /a%00 HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CONTROL },
    { "GET /a%0a HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CONTROL },
    { "GET /a%7F HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CONTROL },
    { "GET /a%2fb HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_SLASH },
    { "GET /a%5Cb HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_SLASH },
    { "GET /a\\b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_SLASH },
    { "GET /.. HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CLIMBS },
    { "GET /a/../../b HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CLIMBS },
    { "GET /%2e%2e/etc HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_CLIMBS },
    { "GET /%ff HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_UTF8 },
    { "GET /%c0%af HTTP/1.1\r\n" HOST "\r\n", HTTP_PROBLEM_TARGET_UTF8 },
    { START HOST
        "A: " HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED
        "\r\n\r\n",
        HTTP_PROBLEM_HEAD_LARGE },
    { START HOST "a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n",
        HTTP_PROBLEM_FIELDS_MANY },
    { "GET / HTTP/1.1\n" HOST "\r\n", HTTP_PROBLEM_BARE_LF },
    { START "Host: a.test\n\r\n", HTTP_PROBLEM_BARE_LF },
    { START HOST "\n", HTTP_PROBLEM_BARE_LF },
    { START HOST "a: b\rc\r\n\r\n", HTTP_PROBLEM_BARE_CR },
    { START HOST "a: b\r\n c\r\n\r\n", HTTP_PROBLEM_FOLD },
    { START " a: b\r\n" HOST "\r\n", HTTP_PROBLEM_FOLD },
    { START HOST "a : b\r\n\r\n", HTTP_PROBLEM_FIELD_NAME },
    { START HOST "a\r\n\r\n", HTTP_PROBLEM_FIELD_NAME },
    { START HOST ": b\r\n\r\n", HTTP_PROBLEM_FIELD_NAME },
    { START HOST "a(b): c\r\n\r\n", HTTP_PROBLEM_FIELD_NAME },
    { START HOST "a: b\x01\r\n\r\n", HTTP_PROBLEM_FIELD_VALUE },
    { START HOST "a: \x7f\r\n\r\n", HTTP_PROBLEM_FIELD_VALUE },
    { START HOST "Host: b.test\r\n\r\n", HTTP_PROBLEM_FIELD_TWICE },
    { START HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", HTTP_PROBLEM_FIELD_TWICE },
    { START HOST "Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        HTTP_PROBLEM_FIELD_TWICE },
    { START "\r\n", HTTP_PROBLEM_HOST_MISSING },
    { START "Host:\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a b\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a.test:x\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a.test:99999\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a.test, b.test\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a..test\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: .test\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: [::1\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: [x]\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { START "Host: a/b\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { "GET http://a.test/ HTTP/1.1\r\nHost: b b\r\n\r\n", HTTP_PROBLEM_HOST_FORM },
    { "GET http://a.test/ HTTP/1.1\r\n\r\n", HTTP_PROBLEM_HOST_MISSING },
    { START HOST "Content-Length: x\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length:\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: +1\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: -1\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: 0x1\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: 1, 1\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: 9999999999999999999\r\n\r\n", HTTP_PROBLEM_LENGTH_FORM },
    { START HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HTTP_PROBLEM_LENGTH_AND_CODING },
    { "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_PROBLEM_CODING_IN_1_0 },
    { START HOST "Transfer-Encoding: gzip\r\n\r\n", HTTP_PROBLEM_CODING_UNKNOWN },
    { START HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", HTTP_PROBLEM_CODING_UNKNOWN },
    { START HOST "Transfer-Encoding: chunked, identity\r\n\r\n", HTTP_PROBLEM_CODING_UNKNOWN },
    { START HOST "Transfer-Encoding: xchunked\r\n\r\n", HTTP_PROBLEM_CODING_UNKNOWN },
    { START HOST "Transfer-Encoding:\r\n\r\n", HTTP_PROBLEM_CODING_UNKNOWN },
    { START HOST "Expect: more\r\n\r\n", HTTP_PROBLEM_EXPECTATION },
};

static void
test_bad(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(bad_rows); i++) {
        const BadRow *row = &bad_rows[i];
        size_t length = strlen(row->text);
        for (size_t step = 1; step <= length; step = step == 1 ? length : length + 1) {
            Head head = read_head(row->text, length, step);
            if (head.parsed != HTTP_PARSE_BAD || head.problem != row->problem)
                g_test_message("row %zu, step %zu: %s", i, step, row->text);
            g_assert_cmpint(head.parsed, ==, HTTP_PARSE_BAD);
            g_assert_cmpint(head.problem, ==, row->problem);
            head_clear(&head);
        }
    }
}

/* A NUL cannot be written in the table above. */
static void
test_bad_nul(void)
{
    static const char value[] = START HOST "a: b\0c\r\n\r\n";
    static const char name[] = START HOST "a\0: b\r\n\r\n";
    static const char target[] = "GET /a\0b HTTP/1.1\r\n" HOST "\r\n";
    Head head = read_head(value, sizeof(value) - 1, 1);
    g_assert_cmpint(head.problem, ==, HTTP_PROBLEM_FIELD_VALUE);
    head_clear(&head);
    head = read_head(name, sizeof(name) - 1, 1);
    g_assert_cmpint(head.problem, ==, HTTP_PROBLEM_FIELD_NAME);
    head_clear(&head);
    head = read_head(target, sizeof(target) - 1, 1);
    g_assert_cmpint(head.problem, ==, HTTP_PROBLEM_TARGET_CHARACTER);
    head_clear(&head);
}

/* Each problem of heads is brought about by a row above, those of bodies by the rows of chunks. */
static void
test_every_problem(void)
{
    bool seen[HTTP_N_PROBLEMS] = { true };
    for (size_t i = 0; i < G_N_ELEMENTS(bad_rows); i++)
        seen[bad_rows[i].problem] = true;
    for (int i = 0; i < HTTP_PROBLEM_BODY_LARGE; i++) {
        if (!seen[i])
            g_test_message("no row for: %s", http_problem_text((HttpProblem)i));
        g_assert_true(seen[i]);
    }
}

/* What is promised to administrators. */
static void
test_documented(void)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(PH_TEST_SOURCE "/docs/admin/web.md", &text, NULL, NULL));
    for (int i = 1; i < HTTP_N_PROBLEMS; i++) {
        HttpProblem problem = (HttpProblem)i;
        g_autofree char *row = g_strdup_printf(
            "| %s | %d |", http_problem_text(problem), http_problem_status(problem));
        if (strstr(text, row) == NULL)
            g_test_message("docs/admin/web.md has no row \"%s\"", row);
        g_assert_nonnull(strstr(text, row));
    }
}

/* -- what is taken ----------------------------------------------------------------------------- */

static void
test_whole(void)
{
    static const char text[] = "\r\nPOST /a/./b/../c?x=%2f&y HTTP/1.1\r\n"
                               "HOST:\t Example.TEST.:8080 \r\n"
                               "Content-Length: 12\r\n"
                               "X-Empty:\r\n"
                               "Expect: 100-Continue\r\n"
                               "Connection: foo, Close\r\n\r\nbody";
    for (size_t step = 1; step < sizeof(text); step++) {
        Head head = read_head(text, sizeof(text) - 1, step);
        const HttpHead *h = &head.head;
        g_assert_cmpint(head.parsed, ==, HTTP_PARSE_DONE);
        g_assert_cmpuint(head.length, ==, sizeof(text) - 1 - 4);
        g_assert_cmpint(h->method, ==, HTTP_METHOD_POST);
        g_assert_cmpint(h->minor_version, ==, 1);
        g_assert_cmpstr(h->target, ==, "/a/./b/../c?x=%2f&y");
        g_assert_cmpstr(h->path, ==, "/a/c");
        g_assert_cmpuint(h->path_length, ==, 4);
        g_assert_cmpstr(h->query, ==, "x=%2f&y");
        g_assert_cmpstr(h->host, ==, "example.test");
        g_assert_cmpint(h->port, ==, 8080);
        g_assert_cmpint(h->content_length, ==, 12);
        g_assert_true(h->expects_continue);
        g_assert_false(h->keep_alive);
        g_assert_cmpuint(h->n_fields, ==, 5);
        g_assert_cmpstr(h->fields[0].name, ==, "host");
        g_assert_cmpstr(h->fields[0].value, ==, "Example.TEST.:8080");
        g_assert_cmpstr(h->fields[2].value, ==, "");
        head_clear(&head);
    }
}

static void
test_forms(void)
{
    Head head = read_head("GET HTTP://B.test:81/x?y HTTP/1.1\r\nHost: a.test\r\n\r\n", 51, 51);
    g_assert_cmpint(head.parsed, ==, HTTP_PARSE_DONE);
    g_assert_true(head.head.is_absolute);
    g_assert_cmpstr(head.head.scheme, ==, "http");
    g_assert_cmpstr(head.head.host, ==, "b.test"); /* the target wins */
    g_assert_cmpint(head.head.port, ==, 81);
    g_assert_cmpstr(head.head.path, ==, "/x");
    head_clear(&head);

    const char *query_only = "GET https://b.test?y HTTP/1.1\r\nHost: a.test\r\n\r\n";
    head = read_head(query_only, strlen(query_only), 100);
    g_assert_cmpstr(head.head.scheme, ==, "https");
    g_assert_cmpstr(head.head.path, ==, "/");
    g_assert_cmpstr(head.head.query, ==, "y");
    head_clear(&head);

    const char *nothing = "GET http://b.test HTTP/1.1\r\nHost: a.test\r\n\r\n";
    head = read_head(nothing, strlen(nothing), 100);
    g_assert_cmpstr(head.head.path, ==, "/");
    g_assert_null(head.head.query);
    head_clear(&head);

    const char *asterisk = "OPTIONS * HTTP/1.1\r\nHost: [2001:DB8::1]:80\r\n\r\n";
    head = read_head(asterisk, strlen(asterisk), 100);
    g_assert_true(head.head.is_asterisk);
    g_assert_cmpstr(head.head.host, ==, "[2001:db8::1]");
    g_assert_cmpint(head.head.port, ==, 80);
    head_clear(&head);

    const char *old = "GET / HTTP/1.0\r\nExpect: x\r\nConnection: keep-alive\r\n\r\n";
    head = read_head(old, strlen(old), 100);
    g_assert_cmpint(head.parsed, ==, HTTP_PARSE_DONE);
    g_assert_cmpint(head.head.minor_version, ==, 0);
    g_assert_cmpstr(head.head.host, ==, "");
    g_assert_true(head.head.keep_alive);
    head_clear(&head);

    const char *newer = "GET / HTTP/1.7\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n";
    head = read_head(newer, strlen(newer), 100);
    g_assert_cmpint(head.head.minor_version, ==, 1);
    g_assert_true(head.head.is_chunked);
    g_assert_true(head.head.keep_alive);
    head_clear(&head);
}

static void
test_path(void)
{
    static const struct {
        const char *path;
        const char *normal;
    } rows[] = {
        { "/", "/" },
        { "//", "/" },
        { "/a", "/a" },
        { "/a/", "/a/" },
        { "/a//b", "/a/b" },
        { "/./a", "/a" },
        { "/a/.", "/a/" },
        { "/a/..", "/" },
        { "/a/../", "/" },
        { "/a/b/../c", "/a/c" },
        { "/a/b/../../c", "/c" },
        { "/a/..b", "/a/..b" },
        { "/a/.../b", "/a/.../b" },
        { "/%61", "/a" },
        { "/a/%2e%2e/b", "/b" },
        { "/%252e%252e/b", "/%2e%2e/b" },
        { "/a%20b", "/a b" },
        { "/%C3%A4", "/\xc3\xa4" },
        { "/a;p=1/b", "/a;p=1/b" },
        { "/a//../b", "/b" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        char out[64];
        size_t length = 0;
        g_assert_cmpint(http_normalise_path(rows[i].path, strlen(rows[i].path), out, &length), ==,
            HTTP_PROBLEM_NONE);
        g_assert_cmpstr(out, ==, rows[i].normal);
        g_assert_cmpuint(length, ==, strlen(out));
    }
}

static void
test_tokens(void)
{
    const char *text = START HOST "Connection: a\r\nConnection: b , Upgrade;q=1,c\r\n\r\n";
    Head head = read_head(text, strlen(text), 100);
    g_assert_true(http_head_has_token(&head.head, HTTP_FIELD_CONNECTION, "a"));
    g_assert_true(http_head_has_token(&head.head, HTTP_FIELD_CONNECTION, "upgrade"));
    g_assert_true(http_head_has_token(&head.head, HTTP_FIELD_CONNECTION, "C"));
    g_assert_false(http_head_has_token(&head.head, HTTP_FIELD_CONNECTION, "close"));
    g_assert_false(http_head_has_token(&head.head, HTTP_FIELD_ACCEPT_ENCODING, "a"));
    head_clear(&head);
}

/* -- chunks ------------------------------------------------------------------------------------ */

typedef struct Body {
    GString *data;
    size_t used;
    HttpParse parsed;
    HttpProblem problem;
} Body;

/* As a session does, with at most `step` new bytes at a time. */
static Body
read_chunks(const char *text, size_t step)
{
    Body body = { .data = g_string_new(NULL), .parsed = HTTP_PARSE_MORE };
    HttpChunks chunks = { 0 };
    size_t length = strlen(text);
    size_t end = 0;
    while (body.parsed == HTTP_PARSE_MORE && end < length) {
        end = MIN(end + step, length);
        for (;;) {
            size_t used = 0;
            size_t data = 0;
            g_autofree uint8_t *rest = g_memdup2(text + body.used, end - body.used);
            body.parsed =
                http_chunks_next(&chunks, rest, end - body.used, &used, &data, &body.problem);
            body.used += used;
            size_t take = MIN(data, end - body.used);
            if (body.parsed != HTTP_PARSE_MORE || take == 0)
                break;
            g_string_append_len(body.data, text + body.used, (gssize)take);
            body.used += take;
            http_chunks_taken(&chunks, take);
        }
    }
    return body;
}

static void
test_chunks(void)
{
    static const char text[] = "5\r\nhello\r\n00A;x=\"y\"\r\n, world!!!\r\n0;last\r\n"
                               "Trailer: x\r\nOther:\r\n\r\nGET";
    for (size_t step = 1; step < sizeof(text); step++) {
        Body body = read_chunks(text, step);
        g_assert_cmpint(body.parsed, ==, HTTP_PARSE_DONE);
        g_assert_cmpstr(body.data->str, ==, "hello, world!!!");
        g_assert_cmpuint(body.used, ==, sizeof(text) - 1 - 3);
        g_string_free(body.data, TRUE);
    }
}

static void
test_chunks_bad(void)
{
    g_autoptr(GString) long_line = g_string_new("1;");
    g_autoptr(GString) extensions = g_string_new(NULL);
    g_autoptr(GString) trailer = g_string_new("0\r\n");
    for (int i = 0; i < 300; i++)
        g_string_append(long_line, "x");
    for (int i = 0; i < 40; i++)
        g_string_append(extensions, "1;" HUNDRED TEN "\r\nx\r\n");
    for (int i = 0; i < 100; i++)
        g_string_append(trailer, "A: " HUNDRED "\r\n");
    const struct {
        const char *text;
        HttpProblem problem;
    } rows[] = {
        { "\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "x\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "0x5\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { " 5\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "5 \r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "-5\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "fffffffffffffffff\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "5;a\x01\r\n", HTTP_PROBLEM_CHUNK_SIZE },
        { "5;a\rb\r\n", HTTP_PROBLEM_BARE_CR },
        { "5\nhello", HTTP_PROBLEM_BARE_LF },
        { long_line->str, HTTP_PROBLEM_CHUNK_LINE },
        { extensions->str, HTTP_PROBLEM_CHUNK_LINE },
        { "1\r\nxy\r\n", HTTP_PROBLEM_CHUNK_END },
        { "1\r\nx\n", HTTP_PROBLEM_CHUNK_END },
        { "1\r\nx\rz", HTTP_PROBLEM_CHUNK_END },
        { "0\r\nA : b\r\n\r\n", HTTP_PROBLEM_TRAILER },
        { "0\r\n a: b\r\n\r\n", HTTP_PROBLEM_TRAILER },
        { "0\r\na: \x02\r\n\r\n", HTTP_PROBLEM_TRAILER },
        { trailer->str, HTTP_PROBLEM_TRAILER_LARGE },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        for (size_t step = 1; step < 100000; step *= 1000) {
            Body body = read_chunks(rows[i].text, step);
            if (body.problem != rows[i].problem)
                g_test_message("row %zu: %.40s", i, rows[i].text);
            g_assert_cmpint(body.parsed, ==, HTTP_PARSE_BAD);
            g_assert_cmpint(body.problem, ==, rows[i].problem);
            g_string_free(body.data, TRUE);
        }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http-parse/head/bad", test_bad);
    g_test_add_func("/http-parse/head/bad-nul", test_bad_nul);
    g_test_add_func("/http-parse/head/every-problem", test_every_problem);
    g_test_add_func("/http-parse/head/documented", test_documented);
    g_test_add_func("/http-parse/head/whole", test_whole);
    g_test_add_func("/http-parse/head/forms", test_forms);
    g_test_add_func("/http-parse/head/tokens", test_tokens);
    g_test_add_func("/http-parse/path/normal", test_path);
    g_test_add_func("/http-parse/chunks/whole", test_chunks);
    g_test_add_func("/http-parse/chunks/bad", test_chunks_bad);
    return g_test_run();
}
