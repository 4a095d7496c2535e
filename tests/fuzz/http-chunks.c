/* http-chunks.c - fuzzes chunked bodies: any bytes, in any pieces, give the same body */
#include "plugins/http/parse.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Body {
    GByteArray *data;
    size_t used;
    HttpParse parsed;
    HttpProblem problem;
} Body;

static Body
read_body(const uint8_t *bytes, size_t length, size_t step)
{
    Body body = { .data = g_byte_array_new(), .parsed = HTTP_PARSE_MORE };
    HttpChunks chunks = { 0 };
    for (size_t end = MIN(step, length);; end = MIN(end + step, length)) {
        for (;;) {
            size_t used = 0;
            size_t data = 0;
            body.parsed = http_chunks_next(
                &chunks, bytes + body.used, end - body.used, &used, &data, &body.problem);
            body.used += used;
            g_assert(body.used <= end);
            size_t take = MIN(data, end - body.used);
            if (body.parsed != HTTP_PARSE_MORE || take == 0)
                break;
            g_byte_array_append(body.data, bytes + body.used, (guint)take);
            body.used += take;
            http_chunks_taken(&chunks, take);
        }
        if (body.parsed != HTTP_PARSE_MORE || end == length)
            return body;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 65536)
        return 0;
    Body whole = read_body(data, size, size + 1);
    Body pieces = read_body(data, size, size % 5 + 1);
    g_assert(whole.parsed == pieces.parsed);
    g_assert(whole.data->len == pieces.data->len);
    g_assert(
        whole.data->len == 0 || memcmp(whole.data->data, pieces.data->data, whole.data->len) == 0);
    if (whole.parsed == HTTP_PARSE_DONE)
        g_assert(whole.used == pieces.used);
    g_byte_array_unref(whole.data);
    g_byte_array_unref(pieces.data);
    return 0;
}
