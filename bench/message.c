/* message.c - messages of an exact size and structure
 *
 * Bodies come from a stock, a few for each size and structure, so that making messages costs the
 * machine less than taking them; headers differ from message to message and are filled up to one
 * length.
 */
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANTS = 4, LINE = 76, BOUNDARIES = 2 };

typedef struct Body {
    GString *text;
    uint32_t sum;
} Body;

struct MessageMaker {
    GRand *random;
    ModelTable *sizes;
    ModelTable *mimes;
    GHashTable *stock; /* size, structure and variant -> Body */
    uint64_t made;
};

static const char *const content_types[MODEL_MIMES] = {
    [MODEL_MIME_TEXT] = "text/plain; charset=utf-8",
    [MODEL_MIME_ALTERNATIVE] = "multipart/alternative; boundary=\"b0\"",
    [MODEL_MIME_MIXED] = "multipart/mixed; boundary=\"b0\"",
    [MODEL_MIME_NESTED] = "multipart/mixed; boundary=\"b0\"",
};

static const char text_part[] = "Content-Type: text/plain; charset=utf-8\r\n\r\n";
static const char html_part[] = "Content-Type: text/html; charset=utf-8\r\n\r\n";
static const char file_part[] = "Content-Type: application/pdf; name=f.pdf\r\n"
                                "Content-Transfer-Encoding: base64\r\n\r\n";
static const char picture_part[] = "Content-Type: image/png\r\nContent-ID: <p>\r\n"
                                   "Content-Transfer-Encoding: base64\r\n\r\n";

/* What stands in the structure where a leaf's bytes go. */
enum { LEAF_TEXT = '\1', LEAF_DATA = '\2' };

/* FNV-1a. */
static uint32_t
sum_of(const char *bytes, size_t length)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (uint8_t)bytes[i]) * 16777619u;
    return sum;
}

static void
free_body(void *data)
{
    Body *body = data;
    g_string_free(body->text, TRUE);
    g_free(body);
}

MessageMaker *
message_maker_new(unsigned seed)
{
    MessageMaker *maker = g_new0(MessageMaker, 1);
    maker->random = g_rand_new_with_seed(seed);
    maker->sizes = model_sizes_new();
    maker->mimes = model_table_new(model_mime_shares, MODEL_MIMES);
    maker->stock = g_hash_table_new_full(NULL, NULL, NULL, free_body);
    return maker;
}

void
message_maker_free(MessageMaker *maker)
{
    if (maker == NULL)
        return;
    g_rand_free(maker->random);
    model_table_free(maker->sizes);
    model_table_free(maker->mimes);
    g_hash_table_unref(maker->stock);
    g_free(maker);
}

/* Exactly so many bytes of lines, the last one ended too; at least 2. */
static void
append_leaf(GString *out, GRand *random, char kind, size_t size)
{
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char *const words[] = { "the ", "meeting ", "of ", "Tuesday ", "is ", "moved ",
        "to ", "room ", "plan ", "budget ", "please ", "find ", "figures ", "below ", "and ",
        "thank ", "you ", "again ", "report ", "customer " };
    size_t end = out->len + size;
    size_t line = out->len;
    while (out->len < end - 2) {
        if (out->len - line >= LINE && end - out->len > 4) {
            g_string_append(out, "\r\n");
            line = out->len;
        } else if (kind == LEAF_TEXT) {
            const char *word = words[g_rand_int_range(random, 0, G_N_ELEMENTS(words))];
            size_t room = MIN(end - 2 - out->len, LINE - MIN(LINE, out->len - line));
            if (room == 0)
                room = end - 2 - out->len;
            g_string_append_len(out, word, (gssize)MIN(strlen(word), room));
        } else {
            uint32_t bits = g_rand_int(random);
            for (int i = 0; i < 4 && out->len < end - 2 && (i == 0 || out->len - line < LINE); i++)
                g_string_append_c(out, base64[bits >> (8 * i) & 63]);
        }
    }
    g_string_append(out, "\r\n");
}

/* The body with marks where the leaves' bytes go. */
static GString *
structure_of(ModelMime mime, GRand *random)
{
    GString *text = g_string_new(NULL);
    switch (mime) {
    case MODEL_MIME_TEXT:
        g_string_append_c(text, LEAF_TEXT);
        break;
    case MODEL_MIME_ALTERNATIVE:
        g_string_append_printf(
            text, "--b0\r\n%s%c--b0\r\n%s%c--b0--\r\n", text_part, LEAF_TEXT, html_part, LEAF_TEXT);
        break;
    case MODEL_MIME_MIXED:
        g_string_append_printf(text, "--b0\r\n%s%c", text_part, LEAF_TEXT);
        for (unsigned i = model_uniform(random, 1, 3); i > 0; i--)
            g_string_append_printf(text, "--b0\r\n%s%c", file_part, LEAF_DATA);
        g_string_append(text, "--b0--\r\n");
        break;
    case MODEL_MIME_NESTED:
        g_string_append_printf(text,
            "--b0\r\nContent-Type: multipart/alternative; boundary=b1\r\n\r\n--b1\r\n%s%c"
            "--b1\r\nContent-Type: multipart/related; boundary=b2\r\n\r\n--b2\r\n%s%c--b2\r\n%s%c"
            "--b2--\r\n--b1--\r\n--b0--\r\n",
            text_part, LEAF_TEXT, html_part, LEAF_TEXT, picture_part, LEAF_DATA);
        break;
    case MODEL_MIMES:
        break;
    }
    return text;
}

/* Texts are short and files take what is left, as in real mail. */
static GString *
make_body(ModelMime mime, size_t size, GRand *random)
{
    enum { TEXT_MAX = 4096 };
    GString *structure = structure_of(mime, random);
    size_t texts = 0;
    size_t files = 0;
    for (size_t i = 0; i < structure->len; i++) {
        texts += structure->str[i] == LEAF_TEXT;
        files += structure->str[i] == LEAF_DATA;
    }
    size_t fixed = structure->len - texts - files;
    size_t left = size - fixed;
    size_t leaves = texts + files;
    GString *out = g_string_sized_new(size);
    for (size_t i = 0; i < structure->len; i++) {
        char c = structure->str[i];
        if (c != LEAF_TEXT && c != LEAF_DATA) {
            g_string_append_c(out, c);
            continue;
        }
        size_t bytes = left / leaves;
        if (c == LEAF_TEXT && files > 0)
            bytes = MIN(bytes, TEXT_MAX);
        leaves--;
        left -= bytes;
        append_leaf(out, random, c, bytes);
    }
    g_string_free(structure, TRUE);
    return out;
}

static const Body *
body_from_stock(MessageMaker *maker, size_t size, ModelMime mime, unsigned variant)
{
    void *key = GSIZE_TO_POINTER((size * MODEL_MIMES + mime) * VARIANTS + variant);
    Body *body = g_hash_table_lookup(maker->stock, key);
    if (body == NULL) {
        body = g_new0(Body, 1);
        body->text = make_body(mime, size, maker->random);
        body->sum = sum_of(body->text->str, body->text->len);
        g_hash_table_insert(maker->stock, key, body);
    }
    return body;
}

char *
message_make(MessageMaker *maker, GRand *random, double scale, const char *from, const char *to,
    GString *text)
{
    size_t size = (size_t)(model_size_bytes(model_table_draw(maker->sizes, random)) * scale);
    size = MAX(size, 2 * MESSAGE_HEADER_BYTES);
    ModelMime mime = model_table_draw(maker->mimes, random);
    const Body *body = body_from_stock(
        maker, size - MESSAGE_HEADER_BYTES, mime, model_uniform(random, 0, VARIANTS - 1));
    char *id = g_strdup_printf("%08x.%" G_GUINT64_FORMAT ".%08x@load.example.org", body->sum,
        ++maker->made, g_rand_int(random));
    size_t begin = text->len;
    g_string_append_printf(text,
        "From: <%s>\r\nTo: <%s>\r\nSubject: Figures of week %u\r\n"
        "Date: Thu, 01 Jan 2026 00:00:00 +0000\r\nMessage-ID: <%s>\r\nMIME-Version: 1.0\r\n"
        "Content-Type: %s\r\nX-Fill: ",
        from, to, model_uniform(random, 1, 52), id, content_types[mime]);
    while (text->len - begin < MESSAGE_HEADER_BYTES - 4)
        g_string_append_c(text, '.');
    g_string_truncate(text, begin + MESSAGE_HEADER_BYTES - 4);
    g_string_append(text, "\r\n\r\n");
    g_string_append_len(text, body->text->str, (gssize)body->text->len);
    return id;
}

bool
message_is_whole(const char *text, size_t length)
{
    static const char name[] = "\r\nMessage-ID: <";
    const char *id = g_strstr_len(text, (gssize)length, name);
    const char *end = g_strstr_len(text, (gssize)length, "\r\n\r\n");
    if (id == NULL || end == NULL || id > end)
        return false;
    uint32_t sum = (uint32_t)strtoul(id + strlen(name), NULL, 16);
    const char *body = end + 4;
    return sum_of(body, length - (size_t)(body - text)) == sum;
}
