/* http-head.c - fuzzes the search for a head's end, and heads: any bytes, in any pieces, give the same */
#include "plugins/http/select.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const HttpLimits limits = { .request_line_bytes = 512, .head_bytes = 4096, .fields = 30 };

typedef struct Result {
    HttpParse parsed;
    HttpProblem problem;
    size_t length;
    HttpScan scan;
} Result;

static Result
scan_all(const uint8_t *data, size_t size, size_t step)
{
    Result result = { .parsed = HTTP_PARSE_MORE };
    for (size_t n = MIN(step, size);; n = MIN(n + step, size)) {
        result.parsed =
            http_scan_head(&result.scan, data, n, &limits, &result.length, &result.problem);
        if (result.parsed != HTTP_PARSE_MORE || n == size)
            return result;
    }
}

/* What a parsed head promises to the rest of the server. */
static void
check_head(const HttpHead *head)
{
    g_assert(head->path[0] == '/' || head->is_asterisk);
    g_assert(strlen(head->path) == head->path_length);
    g_assert(strstr(head->path, "//") == NULL && strchr(head->path, '\\') == NULL);
    g_assert(strstr(head->path, "/../") == NULL && !g_str_has_suffix(head->path, "/.."));
    g_assert(g_utf8_validate(head->path, -1, NULL));
    g_assert(strpbrk(head->host, " \t\r\n/\\@\"<>") == NULL);
    g_assert(!(head->is_chunked && head->content_length >= 0));
    for (size_t i = 0; i < head->n_fields; i++) {
        g_assert(head->fields[i].name[0] != '\0');
        g_assert(strpbrk(head->fields[i].name, " \t\r\n:") == NULL);
        g_assert(strpbrk(head->fields[i].value, "\r\n") == NULL);
    }
}

static void
use_head(const HttpHead *head)
{
    HttpRange ranges[HTTP_RANGES_MAX];
    size_t n = 0;
    http_check_conditions(head, "\"e\"", 784111777);
    http_check_if_range(head, "\"e\"", 784111777);
    http_select_encoding(head, 7);
    if (http_parse_ranges(http_head_field(head, HTTP_FIELD_RANGE), 1000, ranges, &n) ==
        HTTP_RANGE_SOME)
        for (size_t i = 0; i < n; i++)
            g_assert(
                ranges[i].first >= 0 && ranges[i].first <= ranges[i].last && ranges[i].last < 1000);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 8192)
        return 0;
    Result whole = scan_all(data, size, size + 1);
    Result pieces = scan_all(data, size, size % 7 + 1);
    if (whole.parsed == HTTP_PARSE_DONE) {
        g_assert(pieces.parsed == HTTP_PARSE_DONE && pieces.length == whole.length);
    } else if (whole.parsed == HTTP_PARSE_BAD) {
        g_assert(pieces.parsed == HTTP_PARSE_BAD);
    }
    if (whole.parsed != HTTP_PARSE_DONE)
        return 0;
    size_t length = whole.length - whole.scan.start;
    void *memory = g_malloc(http_head_memory(length, whole.scan.lines + 1));
    HttpHead head;
    HttpProblem problem;
    if (http_parse_head(data + whole.scan.start, length, memory, &head, &problem) ==
        HTTP_PARSE_DONE) {
        check_head(&head);
        use_head(&head);
    }
    g_free(memory);
    return 0;
}
