/* spool.h - bytes on their way in: in memory while few, in an unlinked file when many
 *
 * Shape:    an append-only run of bytes, read at any offset; at most the limit given at its making.
 * Units:    bytes; over 256 KiB they move to an unlinked file in STATE/spool.
 * Threads:  one owner at a time (a reactor fills it, then a job reads it).
 * Errors:   TOO_LARGE (the limit), LIMIT (bytes in flight of this node, or the disk is nearly
 *           full), TEMPORARY (the disk). After an error the spool holds what it held before the
 *           call.
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhSpool PhSpool;

PH_API PhSpool *ph_spool_new(size_t limit_bytes);
PH_API void ph_spool_free(PhSpool *spool);
PH_API bool ph_spool_append(PhSpool *spool, const void *bytes, size_t length, GError **error);
PH_API size_t ph_spool_size(const PhSpool *spool);
/* Reads up to `length` bytes at `offset`; short only at the end. False on a read error. */
PH_API bool ph_spool_read(const PhSpool *spool, size_t offset, void *buffer, size_t length,
    size_t *length_out, GError **error);
/* All bytes in flight in all spools of this process. */
PH_API size_t ph_spool_bytes_in_flight(void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSpool, ph_spool_free)
