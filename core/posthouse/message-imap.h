/* message-imap.h - ENVELOPE, BODY, BODYSTRUCTURE and the header cache, as they are sent
 *
 * Shape:    bytes that go into a FETCH answer as they are: quoted strings, or literals
 *           ("{5}" CR LF and the bytes) for what a quoted string cannot hold (bytes over 127,
 *           more than 1000 bytes). Strings of IMAP cannot hold NUL: it is sent as '?'; CR and LF
 *           within a value are sent as spaces; one string is cut at PH_IMAP_STRING_MAX.
 *           Bodies are not touched here: whoever sends a body with NUL in it needs literal8
 *           (BINARY) or must replace it.
 * Units:    bytes.
 * Threads:  anywhere; pure.
 * Errors:   making has none; reading stored bytes refuses what is not valid.
 * Sources:  RFC 3501 7.4.2 and 9; RFC 9051 7.5.2 and 9; RFC 2045; RFC 1864; RFC 3282; RFC 2557.
 */
#pragma once

#include <posthouse/base.h>
#include <posthouse/message-outline.h>

#define PH_IMAP_STRING_MAX ((size_t)32 * 1024)
/* Nested structure and envelopes of one message; parts beyond it get type and size only. */
#define PH_IMAP_STRUCTURE_MAX ((size_t)8 * 1024 * 1024)
#define PH_HEADER_CACHE_MAX ((size_t)32 * 1024)
#define PH_HEADER_CACHE_FIELD_MAX ((size_t)8 * 1024)

/* Appends a string (never NIL) or, when `bytes` is NULL, NIL. */
PH_API void ph_imap_append_string(GString *out, const char *bytes, size_t length);

/* Appends a date-time with its quotes, as in INTERNALDATE: "\"30-Nov-2026 12:00:00 +0100\"".
 * Reading one is ph_date_parse(), which takes more than IMAP allows. */
PH_API void ph_imap_append_date_time(GString *out, int64_t time_us, int zone_minutes);

/* Appends the ENVELOPE of a header block, parentheses included. Fields that are there twice:
 * address fields are joined, of others the first counts. A missing domain or local part is "". */
PH_API void ph_imap_envelope(const void *header, size_t length, GString *out);

/* Appends the BODYSTRUCTURE (with extension data) of a finished builder. */
PH_API void ph_imap_body_structure(PhOutlineBuilder *builder, GString *out);

/* Appends BODY (no extension data) made from what ph_imap_body_structure() made. False when those
 * bytes are no body structure; then nothing is appended. */
PH_API bool ph_imap_body_from_structure(const char *structure, size_t length, GString *out);

/* -- header cache ------------------------------------------------------------------------------ */

/* The fields that clients ask for in lists (mutt, Thunderbird, Apple Mail, K-9, Outlook, mbsync,
 * Roundcube and others), raw and in order. A name whose fields are together longer than
 * PH_HEADER_CACHE_FIELD_MAX is not covered, nor is what no longer fits in PH_HEADER_CACHE_MAX. */
PH_API GBytes *ph_header_cache_new(const void *header, size_t length);
/* Whether this cache tells all about `name` (also that there is no such field). */
PH_API bool ph_header_cache_covers(const void *cache, size_t length, const char *name);
/* Answers HEADER.FIELDS from the cache, as ph_header_subset() would from the header. False, and
 * nothing appended, when a name is not covered: then read the header. */
PH_API bool ph_header_cache_fields(
    const void *cache, size_t length, const char *const *names, size_t name_count, GString *out);
/* The raw fields within, for iterating; NULL when the cache is not valid. */
PH_API const char *ph_header_cache_block(
    const void *cache, size_t length, size_t *block_length_out);
