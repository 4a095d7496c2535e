/* console.h - the management API, for whoever carries it over HTTP
 *
 * Shape:    a request below /api/v1 goes in as its parts, an answer comes out as its parts: finding
 *           the action, who calls, checks, audit and JSON are done here. The carrier does HTTP, TLS
 *           and files.
 * Threads:  in a job, in the lane console.
 * Errors:   none: each request has an answer, RFC 9457 problems included.
 * Rights:   a cookie from POST /session, whose changes need the header X-CSRF-Token as well; or
 *           "Authorization: Bearer KEY" with an API key.
 * Sources:  RFC 9110; RFC 9457 (problem+json); RFC 6750 2.1; RFC 6265bis (__Host-, SameSite).
 */
#pragma once

#include "posthouse/base.h"

#define PH_CONSOLE_COOKIE "__Host-posthouse"

typedef struct PhApiRequest {
    const char *method;
    const char *path;          /* below /api/v1, still percent-encoded: "/domains/example.org" */
    const char *query;         /* without "?"; null: none */
    const char *content_type;  /* null: none */
    const char *authorization; /* null: none */
    const char *token;         /* the cookie's value; null: none */
    const char *csrf;          /* X-CSRF-Token; null: none */
    const char *peer_address;
    const void *body;
    size_t length;
} PhApiRequest;

typedef struct PhApiResponse {
    int status;
    char *content_type;
    char *body;       /* text */
    char *allow;      /* with 405 */
    char *set_cookie; /* null: as it is */
    int64_t retry_after_s;
} PhApiResponse;

PH_API void ph_api_response_clear(PhApiResponse *response);
PH_API PH_IN_JOB void ph_api_handle_blocking(
    const PhApiRequest *request, PhApiResponse *response_out);
