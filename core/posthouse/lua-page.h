/* lua-page.h - a request answered by a script
 *
 * Shape:    a page is a .lua or .lp file of a site, or a stored script that takes "http.content".
 *           The whole request goes in, the whole response comes out, both bounded; a large answer is
 *           given as the name of a file to send.
 * Units:    bytes; `deadline_us` is of the monotonic clock.
 * Threads:  in a job, in the lane web.
 * Errors:   NOT_FOUND (no such script, or it takes no "http.content"), TEMPORARY (the zone is
 *           busy, the script is set aside, its time is over), TOO_LARGE (its output), INTERNAL (the
 *           script failed: the text has script, line and reason, for logs and administrators, never
 *           for a visitor).
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhPageHeader {
    const char *name; /* of a request: lower case */
    const char *value;
} PhPageHeader;

typedef struct PhPageRequest {
    const char *id; /* of the request, for logs */
    const char *method;
    const char *scheme; /* "http", "https" */
    const char *host;   /* without port */
    const char *path;   /* normalised, decoded */
    const char *query;  /* as it came, without "?"; null: none */
    const PhPageHeader *headers;
    size_t n_headers;
    GBytes *body; /* null: none */
    const char *peer_address;
    int peer_port;
    const char *login; /* who has logged in, or null */
    int64_t tenant_id;
    int64_t site_id;
    const char *site_name;
    int root_fd; /* the site's root: what a page may include or send */
    int64_t deadline_us;
} PhPageRequest;

typedef struct PhPageResponse {
    int status;         /* 100 to 599; 200 when the page did not say */
    GPtrArray *headers; /* char *: name, value, name, value ...; without CR, LF, NUL; without those
                           that the server makes (Content-Length, Transfer-Encoding, Connection,
                           Date) */
    GBytes *body;       /* null: empty */
    char *send_file;    /* null, or a path below the root, to be sent instead of `body` */
} PhPageResponse;

PH_API void ph_page_response_clear(PhPageResponse *response);

/* `fd` is open for reading and stays the caller's; `path` (below the root) names the page in errors
 * and tells .lua from .lp. The compiled form is kept by path, inode, size and time of change. */
PH_API PH_IN_JOB bool ph_page_run_file_blocking(const char *path, int fd,
    const PhPageRequest *request, PhPageResponse *response_out, GError **error);
PH_API PH_IN_JOB bool ph_page_run_script_blocking(
    const char *script, const PhPageRequest *request, PhPageResponse *response_out, GError **error);
