/* select.h - which representation, and whether it is sent: conditions, ranges, encodings, types
 *
 * Shape:    pure functions over a head and what is known of a file.
 * Units:    bytes; seconds since 1970 UTC.
 * Sources:  RFC 9110 5.6.7 (dates), 8.8 (validators), 12.5.3 (Accept-Encoding), 13 (conditions), 14
 *           (ranges).
 */
#pragma once

#include "parse.h"

enum { HTTP_DATE_BYTES = 30, HTTP_RANGES_MAX = 16 };

/* "Sun, 06 Nov 1994 08:49:37 GMT" and its NUL. */
void http_format_date(int64_t seconds, char *out);
/* The three forms of RFC 9110 5.6.7. False: none of them. */
bool http_parse_date(const char *text, int64_t *seconds_out);

typedef enum HttpCondition {
    HTTP_CONDITION_PROCEED,
    HTTP_CONDITION_NOT_MODIFIED,
    HTTP_CONDITION_FAILED,
} HttpCondition;

/* RFC 9110 13.2.2, steps 1 to 4. `etag` is strong, with its quotes. */
HttpCondition http_check_conditions(const HttpHead *head, const char *etag, int64_t modified_s);
/* Step 5: Range counts. */
bool http_check_if_range(const HttpHead *head, const char *etag, int64_t modified_s);

typedef struct HttpRange {
    int64_t first;
    int64_t last; /* included */
} HttpRange;

typedef enum HttpRangeResult {
    HTTP_RANGE_NONE, /* no Range, or one that is passed over: malformed, too many, overlapping */
    HTTP_RANGE_SOME,
    HTTP_RANGE_OUTSIDE, /* 416 */
} HttpRangeResult;

HttpRangeResult http_parse_ranges(
    const char *text, int64_t size, HttpRange *ranges_out, size_t *n_ranges_out);

typedef enum HttpEncoding {
    HTTP_ENCODING_IDENTITY,
    HTTP_ENCODING_GZIP,
    HTTP_ENCODING_BR,
    HTTP_N_ENCODINGS,
} HttpEncoding;

const char *http_encoding_name(HttpEncoding encoding);
/* ".gz", ".br", "". */
const char *http_encoding_suffix(HttpEncoding encoding);
/* The best of those in `offered` (1 << HttpEncoding, or-ed; identity is always there) that the client
 * takes: by its weights, then br before gzip before identity. */
HttpEncoding http_select_encoding(const HttpHead *head, unsigned offered);

/* By the name's end; never null. */
const char *http_content_type(const char *path);
/* A type that gains from compression: those are looked for as .gz and .br. */
bool http_is_compressible(const char *content_type);
