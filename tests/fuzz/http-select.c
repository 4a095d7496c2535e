/* http-select.c - fuzzes dates, entity tags, ranges, encodings and paths by themselves; the input's
 * first byte chooses */
#include "plugins/http/select.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_date(const char *text)
{
    int64_t seconds;
    char out[HTTP_DATE_BYTES];
    if (!http_parse_date(text, &seconds))
        return;
    http_format_date(seconds, out);
    int64_t back;
    g_assert(http_parse_date(out, &back) && (seconds < 0 || back == seconds));
}

static void
try_path(const char *text)
{
    size_t length = strlen(text);
    size_t out_length;
    g_autofree char *out = g_malloc(length + 2);
    if (http_normalise_path(text, length, out, &out_length) != HTTP_PROBLEM_NONE)
        return;
    g_assert(out[0] == '/' && out_length == strlen(out) && out_length <= length + 1);
    g_assert(strstr(out, "//") == NULL && strstr(out, "/../") == NULL);
    g_assert(!g_str_has_suffix(out, "/..") && !g_str_has_suffix(out, "/."));
}

static void
try_host(const char *text)
{
    g_autofree char *out = g_malloc(strlen(text) + 1);
    int port;
    if (http_parse_host(text, strlen(text), out, &port))
        g_assert(out[0] != '\0' && port >= 0 && port <= 65535);
}

static void
try_fields(const char *text)
{
    PhPageHeader fields[] = { { "accept-encoding", text }, { "if-match", text },
        { "if-none-match", text } };
    HttpHead head = { .method = HTTP_METHOD_GET, .fields = fields, .n_fields = 3 };
    memset(head.known, 0xff, sizeof(head.known));
    head.known[HTTP_FIELD_ACCEPT_ENCODING] = 0;
    head.known[HTTP_FIELD_IF_MATCH] = 1;
    head.known[HTTP_FIELD_IF_NONE_MATCH] = 2;
    g_assert(http_select_encoding(&head, 7) < HTTP_N_ENCODINGS);
    http_check_conditions(&head, "\"e\"", 0);
}

static void
try_ranges(const char *text)
{
    HttpRange ranges[HTTP_RANGES_MAX];
    size_t n = 0;
    if (http_parse_ranges(text, 12345, ranges, &n) == HTTP_RANGE_SOME)
        g_assert(n > 0 && n <= HTTP_RANGES_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(
        const char *text) = { try_date, try_path, try_host, try_fields, try_ranges };
    if (size == 0 || size > 4096)
        return 0;
    g_autofree char *text = g_strndup((const char *)data + 1, size - 1);
    tries[data[0] % G_N_ELEMENTS(tries)](text);
    return 0;
}
