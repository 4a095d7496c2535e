/* smtp-data.c - fuzz target: where a message ends. The first byte says how the rest is cut; the end
 * must be CR LF "." CR LF, wherever it is cut, and nothing of the mark may be in the message */
#include "plugins/smtp/smtp.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Decoded {
    GByteArray *out;
    bool finished;
    bool lone;
    size_t used;
} Decoded;

static Decoded
decode(const uint8_t *bytes, size_t length, size_t piece)
{
    Decoded decoded = { .out = g_byte_array_new() };
    SmtpDot dot = DOT_LINE_START;
    while (decoded.used < length && !decoded.finished) {
        size_t n = MIN(piece, length - decoded.used);
        g_autofree uint8_t *copy = g_memdup2(bytes + decoded.used, n);
        size_t used = 0;
        decoded.finished = smtp_data_decode(&dot, copy, n, &used, &decoded.lone, decoded.out);
        g_assert_true(used <= n && (decoded.finished || used == n));
        decoded.used += used;
    }
    return decoded;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t piece = (size_t)data[0] + 1;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_byte_array_append(bytes, (const uint8_t *)"\r\n", 2); /* DATA begins at the start of a line */
    g_byte_array_append(bytes, data + 1, (guint)size - 1);
    const uint8_t *end = memmem(bytes->data, bytes->len, "\r\n.\r\n", 5);

    Decoded whole = decode(data + 1, size - 1, size);
    Decoded parts = decode(data + 1, size - 1, piece);
    g_assert_cmpint(whole.finished, ==, end != NULL);
    if (end != NULL)
        g_assert_cmpuint(whole.used, ==, (size_t)(end - bytes->data) + 3);
    g_assert_cmpint(parts.finished, ==, whole.finished);
    g_assert_cmpuint(parts.used, ==, whole.used);
    g_assert_cmpint(parts.lone, ==, whole.lone);
    g_assert_cmpmem(parts.out->data, (int)parts.out->len, whole.out->data, (int)whole.out->len);
    g_assert_cmpuint(whole.out->len, <=, 2 * size);
    g_byte_array_unref(whole.out);
    g_byte_array_unref(parts.out);
    return 0;
}
