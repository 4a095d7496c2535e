/* frames.c - compressing and reading bodies */
#include "store/frames.h"

#include <string.h>
#include <zstd.h>

enum { LEVEL = 3 };

struct PhFrameWriter {
    ZSTD_CCtx *context;
    char *raw; /* of the frame under way */
    size_t raw_length;
    GByteArray *data;
    GArray *ends;
};

PhFrameWriter *
ph_frame_writer_new(void)
{
    PhFrameWriter *writer = g_new0(PhFrameWriter, 1);
    writer->context = ZSTD_createCCtx();
    writer->data = g_byte_array_new();
    writer->ends = g_array_new(FALSE, FALSE, sizeof(int32_t));
    return writer;
}

void
ph_frame_writer_free(PhFrameWriter *writer)
{
    if (writer == NULL)
        return;
    ZSTD_freeCCtx(writer->context);
    g_free(writer->raw);
    g_clear_pointer(&writer->data, g_byte_array_unref);
    g_clear_pointer(&writer->ends, g_array_unref);
    g_free(writer);
}

static bool
end_frame(PhFrameWriter *writer, const void *raw, size_t length, GError **error)
{
    size_t before = writer->data->len;
    size_t bound = ZSTD_compressBound(length);
    g_byte_array_set_size(writer->data, (guint)(before + bound));
    size_t n =
        ZSTD_compressCCtx(writer->context, writer->data->data + before, bound, raw, length, LEVEL);
    if (ZSTD_isError(n)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_INTERNAL, "compress a message: %s", ZSTD_getErrorName(n));
        return false;
    }
    g_byte_array_set_size(writer->data, (guint)(before + n));
    int32_t end = (int32_t)writer->data->len;
    g_array_append_val(writer->ends, end);
    return true;
}

bool
ph_frame_writer_feed(PhFrameWriter *writer, const void *bytes, size_t length, GError **error)
{
    const char *at = bytes;
    while (length > 0) {
        if (writer->raw_length == 0 && length >= PH_FRAME_RAW_BYTES) {
            if (!end_frame(writer, at, PH_FRAME_RAW_BYTES, error))
                return false;
            at += PH_FRAME_RAW_BYTES;
            length -= PH_FRAME_RAW_BYTES;
            continue;
        }
        if (writer->raw == NULL)
            writer->raw = g_malloc(PH_FRAME_RAW_BYTES);
        size_t n = MIN(length, PH_FRAME_RAW_BYTES - writer->raw_length);
        memcpy(writer->raw + writer->raw_length, at, n);
        writer->raw_length += n;
        at += n;
        length -= n;
        if (writer->raw_length == PH_FRAME_RAW_BYTES) {
            writer->raw_length = 0;
            if (!end_frame(writer, writer->raw, PH_FRAME_RAW_BYTES, error))
                return false;
        }
    }
    return true;
}

bool
ph_frame_writer_finish(PhFrameWriter *writer, GBytes **data_out, GArray **ends_out, GError **error)
{
    if (writer->raw_length > 0 && !end_frame(writer, writer->raw, writer->raw_length, error))
        return false;
    writer->raw_length = 0;
    *data_out = g_byte_array_free_to_bytes(g_steal_pointer(&writer->data));
    *ends_out = g_steal_pointer(&writer->ends);
    return true;
}

static GBytes *
broken(GError **error)
{
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "the stored body is damaged");
    return NULL;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* What a thread decodes with: making it anew for each message costs as much as a small message. */
typedef struct Decoder {
    ZSTD_DCtx *context;
    char frame[PH_FRAME_RAW_BYTES];
} Decoder;

static void
decoder_free(void *data)
{
    Decoder *decoder = data;
    ZSTD_freeDCtx(decoder->context);
    g_free(decoder);
}

static Decoder *
decoder_of_thread(void)
{
    static GPrivate key = G_PRIVATE_INIT(decoder_free);
    Decoder *decoder = g_private_get(&key);
    if (decoder == NULL) {
        decoder = g_new(Decoder, 1);
        decoder->context = ZSTD_createDCtx();
        g_private_set(&key, decoder);
    }
    return decoder;
}

GBytes *
ph_frames_decode(const void *data, size_t data_length, size_t skip, size_t length, GError **error)
{
    Decoder *decoder = decoder_of_thread();
    g_autofree char *out = g_malloc(length + 1);
    const char *at = data;
    size_t done = 0;
    while (data_length > 0 && done < length) {
        size_t packed = ZSTD_findFrameCompressedSize(at, data_length);
        if (ZSTD_isError(packed))
            return broken(error);
        /* A frame that is wanted whole is decoded where it belongs. */
        bool whole = skip == 0 && ZSTD_getFrameContentSize(at, packed) <= length - done;
        char *to = whole ? out + done : decoder->frame;
        size_t room = whole ? length - done : PH_FRAME_RAW_BYTES;
        size_t n = ZSTD_decompressDCtx(decoder->context, to, room, at, packed);
        if (ZSTD_isError(n))
            return broken(error);
        at += packed;
        data_length -= packed;
        size_t from = MIN(skip, n);
        size_t take = MIN(n - from, length - done);
        if (!whole)
            memcpy(out + done, decoder->frame + from, take);
        skip -= from;
        done += take;
    }
    return g_bytes_new_take(g_steal_pointer(&out), done);
}
