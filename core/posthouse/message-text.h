/* message-text.h - bytes of mail turned into text
 *
 * Shape:    (pointer, length) in, newly allocated UTF-8 out. NUL bytes are legal input everywhere.
 * Units:    bytes.
 * Threads:  anywhere; nothing blocks. iconv may load a table from disk the first time a character
 *           set is seen, so large texts belong in a job.
 * Errors:   none: broken input gives the readable rest, U+FFFD where a byte meant nothing.
 * Sources:  RFC 2045 6.7 and 6.8, RFC 5256 2.1, RFC 3629.
 */
#pragma once

#include <posthouse/base.h>

typedef enum PhTransferEncoding {
    PH_ENCODING_7BIT,
    PH_ENCODING_8BIT,
    PH_ENCODING_BINARY,
    PH_ENCODING_QUOTED_PRINTABLE,
    PH_ENCODING_BASE64,
    PH_ENCODING_OTHER, /* a name we do not know: the bytes are what they are */
} PhTransferEncoding;

/* The encoding of that name, in any case; `length` bytes at `name`. */
PH_API PhTransferEncoding ph_transfer_encoding_parse(const char *name, size_t length);

/* Appends the decoded bytes to `out`. Lenient: characters outside the alphabet are passed over in
 * base64, and stand for themselves in quoted-printable. */
PH_API void ph_transfer_decode(
    PhTransferEncoding encoding, const void *bytes, size_t length, GString *out);

/* Makes any bytes valid UTF-8 without NUL: each byte that is no part of a character becomes U+FFFD,
 * as does NUL. The result is NUL-terminated; `length_out` may be NULL. Whatever goes into a text
 * column passes here first. */
PH_API char *ph_utf8_clean(const void *bytes, size_t length, size_t *length_out);

/* Bytes of character set `charset` (NULL: not stated) as clean UTF-8. An unknown set, and
 * "us-ascii" with bytes over 127, are read as UTF-8 where that is valid and otherwise keep their
 * ASCII part. */
PH_API char *ph_text_to_utf8(
    const char *charset, const void *bytes, size_t length, size_t *length_out);

/* The text of an HTML document, for previews and search: tags, comments, scripts and styles left
 * out, entities resolved, white space collapsed. UTF-8 in, UTF-8 out; one pass. */
PH_API char *ph_html_to_text(const char *html, size_t length);

/* The base subject (RFC 5256 2.1) of a decoded subject: without "Re:", "Fwd:", "[list]" and
 * "(fwd)", white space collapsed. Never NULL. `is_reply_out` (may be NULL) tells whether a reply or
 * forward marker was removed. At most the first 4096 bytes count. */
PH_API char *ph_subject_base(const char *subject, bool *is_reply_out);
