/* frames.h - the body of a message as a run of zstd frames
 *
 * Shape:    each frame holds 128 KiB raw (the last one less) and can be read alone; `ends` says
 *           where each one ends.
 * Units:    bytes.
 * Threads:  a writer belongs to one thread; reading is pure.
 * Errors:   INTERNAL: what is stored is no such run.
 */
#pragma once

#include "posthouse/base.h"

enum { PH_FRAME_RAW_BYTES = 128 * 1024, PH_CODEC_ZSTD = 1 };

typedef struct PhFrameWriter PhFrameWriter;

PhFrameWriter *ph_frame_writer_new(void);
void ph_frame_writer_free(PhFrameWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhFrameWriter, ph_frame_writer_free)
bool ph_frame_writer_feed(PhFrameWriter *writer, const void *bytes, size_t length, GError **error);
/* Ends the run. `ends_out` is a GArray of int32_t. */
bool ph_frame_writer_finish(
    PhFrameWriter *writer, GBytes **data_out, GArray **ends_out, GError **error);

/* Decodes frames that stand one after the other, of which the first one begins at raw offset `skip`
 * before what is wanted; gives at most `length` bytes. */
GBytes *ph_frames_decode(
    const void *data, size_t data_length, size_t skip, size_t length, GError **error);
