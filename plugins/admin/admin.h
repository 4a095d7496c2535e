/* admin.h - the console's server: libmicrohttpd on a reactor of its own
 *
 * Shape:    a connection's plain side is a socket that libmicrohttpd reads; its epoll descriptor is
 *           watched by the reactor. A request to /api/v1 is suspended, handled in a job, and resumed
 *           with its answer; a file of the console is answered at once.
 * Threads:  all of it on the reactor that is apart, but the jobs.
 * Limits:   BODY_MAX bytes a body; libmicrohttpd's own for heads; CONNECTIONS_MAX connections,
 *           CONNECTIONS_OF_ONE of one address, so that nobody locks the others out.
 */
#pragma once

#include "posthouse/console.h"
#include "posthouse/relay.h"
#include "posthouse/settings.h"
#include "posthouse/timer.h"

#include <gio/gio.h>
#include <microhttpd.h>

enum {
    BODY_MAX = 2 * 1024 * 1024,
    CONNECTIONS_MAX = 1000,
    CONNECTIONS_OF_ONE = 100, /* address */
    IDLE_TIMEOUT_S = 30,
};

typedef struct Admin {
    struct MHD_Daemon *daemon;
    PhWatch *watch;
    PhTimer timer; /* libmicrohttpd's own timeouts */
    GResource *resource;
} Admin;

typedef struct EventStream EventStream;

/* A request, from its head to its end. */
typedef struct Request {
    Admin *admin;
    struct MHD_Connection *connection;
    GByteArray *body;
    bool too_large;
    bool seen;   /* the head was looked at */
    bool is_api; /* as the base path was then */
    bool is_stream;
    char *base;
    PhTask task; /* the job under way; begun with the first one */
    bool has_task;
    PhApiRequest asked; /* its texts are owned by `texts` */
    GPtrArray *texts;
    bool answered;
    PhApiResponse answer;
    EventStream *events; /* null: none */
} Request;

/* -- http.c ------------------------------------------------------------------------------------ */

bool admin_http_start(Admin *admin, GError **error);
void admin_http_stop(Admin *admin);
/* Lets libmicrohttpd look at what happened. */
PH_ON_REACTOR void admin_http_run(Admin *admin);
/* The headers that each answer has. */
void admin_add_common_headers(struct MHD_Response *response);
/* The path below the base path, or null: then it is none of ours. */
const char *admin_below_base(const char *path, const char *base);

/* -- assets.c ---------------------------------------------------------------------------------- */

/* Answers with a file of the console. */
PH_ON_REACTOR enum MHD_Result admin_serve_asset(
    Request *request, const char *method, const char *target, const char *base);

/* -- events.c ---------------------------------------------------------------------------------- */

/* Begins a stream of server-sent events, of one who has logged in; that is looked at again with each
 * look. */
PH_ON_REACTOR enum MHD_Result admin_begin_events(Request *request);
/* The request has ended. */
PH_ON_REACTOR void admin_end_events(EventStream *events);
