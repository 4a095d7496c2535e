/* parse.h - HTTP/1.1 as bytes: heads, targets, chunks
 *
 * Shape:    pure functions: a span in, values and the length used out; no I/O, no log. A head is
 *           parsed only when it is complete; its end is found incrementally.
 * Units:    bytes.
 * Errors:   an HttpProblem, see problems.def.
 * Sources:  RFC 9112 2 to 7, RFC 9110 5 and 6, RFC 3986 3.
 */
#pragma once

#include "posthouse/lua-page.h"

typedef enum HttpProblem {
    HTTP_PROBLEM_NONE,
#define HTTP_PROBLEM(name, status, text) HTTP_PROBLEM_##name,
#include "problems.def"
#undef HTTP_PROBLEM
    HTTP_N_PROBLEMS,
} HttpProblem;

int http_problem_status(HttpProblem problem);
const char *http_problem_text(HttpProblem problem);

typedef enum HttpField {
#define HTTP_FIELD(name, text, once) HTTP_FIELD_##name,
#include "fields.def"
#undef HTTP_FIELD
    HTTP_N_FIELDS,
} HttpField;

typedef enum HttpMethod {
    HTTP_METHOD_NONE,
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_OPTIONS,
} HttpMethod;

typedef struct HttpLimits {
    size_t request_line_bytes;
    size_t head_bytes;
    size_t fields;
} HttpLimits;

typedef enum HttpParse { HTTP_PARSE_DONE, HTTP_PARSE_MORE, HTTP_PARSE_BAD } HttpParse;

/* -- the end of a head ------------------------------------------------------------------------- */

/* Where the search stands; zeroed for each head. */
typedef struct HttpScan {
    size_t at;         /* looked at so far */
    size_t line_start; /* of the line that is not complete */
    size_t start;      /* of the request line: behind an empty line that is passed over */
    size_t lines;      /* the request line and fields */
} HttpScan;

/* DONE: the head is bytes[scan->start, *length_out), its empty line included. Each call looks only at
 * what is new. */
HttpParse http_scan_head(HttpScan *scan, const uint8_t *bytes, size_t length,
    const HttpLimits *limits, size_t *length_out, HttpProblem *problem_out);

/* -- a head ------------------------------------------------------------------------------------ */

enum { HTTP_FIELD_NOT_THERE = 0xffff };

/* All text lies in one piece of memory that the caller gives. */
typedef struct HttpHead {
    HttpMethod method;
    int minor_version; /* 0 or 1 */
    bool is_absolute;
    bool is_asterisk; /* OPTIONS * */
    bool keep_alive;  /* what the client wants */
    bool expects_continue;
    bool is_chunked;
    int port;               /* in Host or the absolute target; 0: none */
    int64_t content_length; /* -1: none said */
    const char *method_name;
    const char *target; /* as it came */
    const char *scheme; /* of an absolute target, else null */
    const char *host;   /* lower case, no port, no final dot; "" where none was said */
    const char *path;   /* normalised; "*" for OPTIONS * */
    size_t path_length;
    const char *query;    /* as it came, null: none */
    PhPageHeader *fields; /* names in lower case, in order */
    size_t n_fields;
    uint16_t known[HTTP_N_FIELDS]; /* the first field of that name */
} HttpHead;

/* How much memory http_parse_head() wants for a head of this length with so many lines, the empty one
 * included. */
size_t http_head_memory(size_t length, size_t lines);
/* `memory` is aligned as malloc does. */
HttpParse http_parse_head(const uint8_t *bytes, size_t length, void *memory, HttpHead *head_out,
    HttpProblem *problem_out);
/* The value of a field, or null. */
static inline const char *
http_head_field(const HttpHead *head, HttpField field)
{
    return head->known[field] == HTTP_FIELD_NOT_THERE ? NULL
                                                      : head->fields[head->known[field]].value;
}

/* Is `token` in the comma-divided lists of all fields of that name, without regard to case? */
bool http_head_has_token(const HttpHead *head, HttpField field, const char *token);

/* -- paths and hosts --------------------------------------------------------------------------- */

/* The one place where escapes, "..", slashes and backslashes of a path are decided: unescapes once,
 * takes out "." and empty segments, resolves "..". `out` holds length + 2 bytes. */
HttpProblem http_normalise_path(const char *path, size_t length, char *out, size_t *out_length);
/* "Example.TEST.:8080" to "example.test" and 8080. `out` holds length + 1 bytes. False: malformed. */
bool http_parse_host(const char *text, size_t length, char *out, int *port_out);

/* -- chunks ------------------------------------------------------------------------------------ */

typedef enum HttpChunkState {
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_END,
    HTTP_CHUNK_TRAILER,
    HTTP_CHUNK_FINISHED,
} HttpChunkState;

/* Zeroed at the start of a body. */
typedef struct HttpChunks {
    HttpChunkState state;
    uint64_t left; /* of the data of this chunk */
    size_t extension_bytes;
    size_t trailer_bytes;
} HttpChunks;

/* Reads what is not data. MORE with `used_out` bytes used: with *data_out > 0, so many bytes of data
 * follow there (fewer may be here), take them and call http_chunks_taken(); with 0, more input is
 * needed. DONE: the body is complete. */
HttpParse http_chunks_next(HttpChunks *chunks, const uint8_t *bytes, size_t length,
    size_t *used_out, size_t *data_out, HttpProblem *problem_out);
void http_chunks_taken(HttpChunks *chunks, size_t length);
