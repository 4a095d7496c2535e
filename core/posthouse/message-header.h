/* message-header.h - fields of a header block
 *
 * Shape:    a header block is the raw bytes up to and including the blank line (which may be
 *           missing). Nothing is copied by the iterator: spans point into the block.
 * Units:    bytes; microseconds since 1970 UTC; zones in minutes east.
 * Threads:  anywhere; pure.
 * Errors:   none for broken input: a line that is no field is given with an empty name.
 * Sources:  RFC 5322 2.2, 3.3, 4.3; RFC 2045 5.1; RFC 2047; RFC 2183; RFC 2231; RFC 3501 6.4.5.
 */
#pragma once

#include <posthouse/base.h>
#include <posthouse/message-text.h>

/* As much of a header block as is ever looked at; what follows is passed over. */
#define PH_HEADER_MAX_BYTES ((size_t)10 * 1024 * 1024)
/* Parameters of one Content-Type or Content-Disposition that are kept. */
#define PH_MIME_PARAMS_MAX 64

typedef struct PhHeaderField {
    const char *start; /* the whole field: name, colon, value, line ends */
    size_t length;
    const char *name;   /* without the white space before the colon */
    size_t name_length; /* 0: a line that is no field (an mbox "From " line, junk) */
    const char *value;  /* after the colon, folding kept, without the last line end */
    size_t value_length;
} PhHeaderField;

typedef struct PhHeaderIter {
    const char *at;
    const char *end;
} PhHeaderIter;

PH_API void ph_header_iter_init(PhHeaderIter *iter, const void *block, size_t length);
/* False at the blank line or the end of the block. */
PH_API bool ph_header_iter_next(PhHeaderIter *iter, PhHeaderField *field_out);
PH_API bool ph_header_field_is(const PhHeaderField *field, const char *name);
/* The first field of that name, in any case. False when there is none. */
PH_API bool ph_header_find(
    const void *block, size_t length, const char *name, PhHeaderField *field_out);

/* The value on one line: line ends removed, white space trimmed at both ends, NUL shown as '?'.
 * Bytes over 127 stay as they are, so the result is not always UTF-8. */
PH_API char *ph_header_unfold(const char *value, size_t length);
/* The value for people: unfolded, encoded words (RFC 2047) decoded, clean UTF-8 on one line. */
PH_API char *ph_header_decode(const char *value, size_t length);

/* HEADER.FIELDS (`invert` false) and HEADER.FIELDS.NOT (true): appends the matching fields byte for
 * byte in their order, then the blank line. One pass, whatever the number of names. */
PH_API void ph_header_subset(const void *block, size_t length, const char *const *names,
    size_t name_count, bool invert, GString *out);

/* -- values with parameters -------------------------------------------------------------------- */

typedef struct PhMimeParam {
    char *name;  /* lower case, as written: "filename", "filename*0*" */
    char *value; /* without quotes, not decoded; NUL shown as '?' */
} PhMimeParam;

/* Content-Type (type and subtype) or Content-Disposition (type only), lower case. */
typedef struct PhMimeValue {
    char *type;
    char *subtype; /* NULL for a disposition */
    PhMimeParam *params;
    size_t param_count;
} PhMimeValue;

/* NULL when there is no "type/subtype"; "text" alone is taken as text/plain. */
PH_API PhMimeValue *ph_content_type_parse(const char *value, size_t length);
/* NULL when there is no disposition word. */
PH_API PhMimeValue *ph_content_disposition_parse(const char *value, size_t length);
PH_API void ph_mime_value_free(PhMimeValue *value);
/* The raw value of exactly that name, or NULL; owned by `value`. */
PH_API const char *ph_mime_value_param(const PhMimeValue *value, const char *name);
/* The decoded value: RFC 2231 continuations and character sets, else RFC 2047 words (which senders
 * put there although they may not), clean UTF-8. NULL when absent. Use this one wherever a name is
 * judged or shown, so that all see the same name. */
PH_API char *ph_mime_value_param_decoded(const PhMimeValue *value, const char *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhMimeValue, ph_mime_value_free)

/* -- dates ------------------------------------------------------------------------------------- */

/* A date of RFC 5322 with its obsolete forms (two-digit years, named zones, comments, no seconds,
 * no weekday, no zone), also the order of asctime(). False, and nothing written, when it is none.
 * `zone_minutes_out` may be NULL. */
PH_API bool ph_date_parse(
    const char *text, size_t length, int64_t *time_us_out, int *zone_minutes_out);
