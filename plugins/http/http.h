/* http.h - what the files of this plugin share
 *
 * Shape:    a connection (HttpSession) reads heads and carries one exchange (HttpExchange) at a time;
 *           an exchange has a request, which is counted and immutable, and the response under way.
 *           Everything that requests share (cache, configuration, dates) belongs to a reactor
 *           (HttpLocal), so nothing here is locked.
 * Threads:  on the reactor, except what says "in a job".
 */
#pragma once

#include "posthouse/hook.h"
#include "posthouse/log-file.h"
#include "posthouse/metrics.h"
#include "posthouse/plugin.h"
#include "posthouse/spool.h"
#include "posthouse/web.h"

#include "parse.h"
#include "select.h"

#include <sys/stat.h>

enum {
    HTTP_INLINE_MAX_BYTES = 96 * 1024, /* larger bodies are sent from their file */
    HTTP_INPUT_LIMIT_BYTES = 64 * 1024,
    HTTP_DISCARD_MAX_BYTES =
        64 * 1024,                   /* of a body that nobody wants, before the connection ends */
    HTTP_REQUESTS_PER_RUN = 16,      /* of one connection, before others have their turn */
    HTTP_BODY_PROGRESS_BYTES = 1024, /* within each http.timeout.body_s */
    HTTP_REQUEST_ID_BYTES = 32,
};

typedef struct HttpState HttpState;
typedef struct HttpLocal HttpLocal;
typedef struct HttpSession HttpSession;
typedef struct HttpExchange HttpExchange;
typedef struct HttpCache HttpCache;

typedef enum HttpLogFormat { HTTP_LOG_COMBINED, HTTP_LOG_JSON, HTTP_LOG_OFF } HttpLogFormat;

/* The settings of one moment, read once. */
typedef struct HttpConfig {
    HttpLimits limits;
    int64_t body_max_bytes;
    int64_t page_body_max_bytes;
    int64_t head_timeout_ms;
    int64_t body_timeout_ms;
    int64_t idle_timeout_ms;
    int64_t write_timeout_ms;
    int64_t page_timeout_ms;
    unsigned requests_per_connection;
    int64_t cache_bytes;
    int64_t revalidate_us;
    int https_port; /* 0: by the rule of ports */
    bool server_token;
    HttpLogFormat log_format;
} HttpConfig;

/* -- counters ---------------------------------------------------------------------------------- */

typedef struct HttpCounters {
    PhMetric connections;
    PhMetric requests;
    PhMetric responses[6]; /* by class; [0]: the client went away before one */
    PhMetric bad_requests;
    PhMetric bytes_sent;
    PhMetric cache_hits;
    PhMetric cache_misses;
    PhMetric log_dropped;
    PhMetric end; /* null name */
} HttpCounters;

/* What start() makes: one for each generation of the plugin. */
struct HttpState {
    GMutex mutex; /* of `locals` */
    GPtrArray *locals;
    PhLogFile *log; /* null: none could be opened */
    HttpCounters counters;
};

/* -- what belongs to a reactor ----------------------------------------------------------------- */

struct HttpLocal {
    HttpState *state;
    PhReactor *reactor;
    uint64_t settings_generation;
    HttpConfig config;
    uint64_t sites_generation;
    PhSites *sites;
    HttpCache *cache;
    int64_t date_s;     /* of the two texts */
    char date_line[48]; /* "Date: ...\r\n" */
    size_t date_line_length;
    char log_time[40]; /* "06/Nov/1994:08:49:37 +0000" */
    GString *log_line;
    GString *spare; /* for the fields of the next response */
};

PH_ON_REACTOR HttpLocal *http_local_get(HttpState *state, PhReactor *reactor);
/* Takes up new settings and sites, and the date. The present, in microseconds since 1970. */
PH_ON_REACTOR int64_t http_local_refresh(HttpLocal *local);
void http_local_free(HttpLocal *local);
/* An empty text to fill, and back (null is nothing). */
PH_ON_REACTOR GString *http_local_take_text(HttpLocal *local);
PH_ON_REACTOR void http_local_give_text(HttpLocal *local, GString *text);
/* Digits, without the cost of printf. */
void http_append_number(GString *text, int64_t number);

/* -- requests ---------------------------------------------------------------------------------- */

/* Immutable once dispatched, counted: jobs may hold it. */
typedef struct HttpRequest {
    PhRef ref;
    HttpHead head;
    PhPageRequest page; /* what handlers and pages see; filled by http_exchange_page_request() */
    char id[HTTP_REQUEST_ID_BYTES];
    char peer[48];
    PhSites *sites; /* what site and route are of */
    bool is_page_ready;
    max_align_t memory[]; /* of the head's text */
} HttpRequest;

HttpRequest *http_request_new(size_t head_length, size_t lines);
HttpRequest *http_request_ref(HttpRequest *request);
void http_request_unref(HttpRequest *request);

/* -- exchanges --------------------------------------------------------------------------------- */

/* How the body of a response is told to end. */
typedef enum HttpFraming {
    HTTP_FRAMING_LENGTH,
    HTTP_FRAMING_CHUNKED,
    HTTP_FRAMING_CLOSE,
    HTTP_FRAMING_NO_BODY,
} HttpFraming;

/* What an exchange has while a page is to be run. */
typedef struct HttpPage {
    struct HttpEntry *entry; /* null: a stored script */
    PhSpool *spool;          /* null: no body so far */
    bool is_running;
    bool is_failed;
} HttpPage;

struct HttpExchange {
    PhExchange base; /* first */
    HttpPage page;   /* in use when base.data is its address */
    HttpSession *session;
    HttpLocal *local;
    HttpRequest *request;
    const PhWebHandler *handler; /* null until one is found */
    PhServiceHold *hold;         /* of another plugin's handler */
    PhTask task;                 /* made when it is needed */
    int64_t began_us;            /* since 1970 */

    int status;
    int64_t length;  /* of the response's body; -1: not said */
    GString *fields; /* of the response, each with its CR LF; null: none */
    HttpFraming framing;
    int64_t body_sent;
    int64_t body_received;
    int64_t body_max;
    bool is_head_sent;
    bool is_finished;
    bool is_broken; /* the response cannot be completed: the connection ends */
    bool is_body_complete;
    bool is_body_wanted;
    bool is_body_dropped; /* nobody will take what comes of it */
    bool is_continue_due; /* 100 is to be sent before the body is read */
    bool is_dispatched;
    bool is_logged;
};

/* A response whose head is made already, but for Date, Connection and the empty line. */
typedef struct HttpReady {
    int status;
    const char *head; /* from the status line on */
    size_t head_length;
    int64_t body_length;
} HttpReady;

/* Writes the head; the body follows by http_exchange_body_*, then ph_exchange_finish(). */
PH_ON_REACTOR void http_exchange_begin_ready(HttpExchange *exchange, const HttpReady *ready);

PH_ON_REACTOR HttpExchange *http_exchange_new(HttpSession *session, HttpRequest *request);
PH_ON_REACTOR void http_exchange_free(HttpExchange *exchange);
/* Runs a job; `done` runs inside the session's care. */
PH_ON_REACTOR void http_exchange_run(HttpExchange *exchange, PhLane lane, PhJob job,
    PhExchangeDone done, void *data, GDestroyNotify free_data);
/* Fills request->page, for who shows the request to others. */
PH_ON_REACTOR const PhPageRequest *http_exchange_page_request(HttpExchange *exchange);
/* A small page, or an empty body for HEAD; ends the exchange. `field` (may be null) is a whole line
 * without its end: "Allow: GET". */
PH_ON_REACTOR void http_exchange_error(
    HttpExchange *exchange, int status, const char *text, const char *field);
PH_ON_REACTOR void http_exchange_redirect(HttpExchange *exchange, int status, const char *location);
/* 405 with the list; OPTIONS gets the list alone. */
PH_ON_REACTOR void http_exchange_refuse_method(HttpExchange *exchange, const char *methods);
const char *http_reason(int status);
static inline HttpExchange *
http_exchange_of(PhExchange *exchange)
{
    return (HttpExchange *)exchange;
}

/* -- the session ------------------------------------------------------------------------------- */

/*
 *   HEAD --head complete--> EXCHANGE --finished--> DISCARD --body read--> SENDING --sent--> HEAD
 */
typedef enum HttpSessionState {
    HTTP_STATE_HEAD,
    HTTP_STATE_EXCHANGE,
    HTTP_STATE_DISCARD, /* the rest of a body that nobody wanted */
    HTTP_STATE_SENDING, /* a large response is on its way */
} HttpSessionState;

typedef enum HttpTimer {
    HTTP_TIMER_NONE,
    HTTP_TIMER_IDLE,
    HTTP_TIMER_HEAD,
    HTTP_TIMER_BODY
} HttpTimer;

struct HttpSession {
    PhSession base;
    HttpLocal *local;
    HttpSessionState state;
    HttpTimer timer;
    HttpScan scan;
    HttpChunks chunks;
    int64_t body_left;      /* with Content-Length */
    int64_t body_mark;      /* received when the timer was set */
    HttpExchange *exchange; /* null in HEAD */
    unsigned requests;
    bool is_running;
    bool is_paused;
    bool is_peer_ended;
    bool is_leaving; /* close after this exchange */
    bool is_secure;
};

extern const PhSessionClass http_session_class;
/* Looks at the state and acts. Nothing when it is running already. The exchange may be gone after
 * it. */
PH_ON_REACTOR void http_session_run(HttpSession *session);

/* -- response side of HTTP/1: write.c ---------------------------------------------------------- */

extern const PhExchangeFunctions http_exchange_functions;
/* The whole answer to a request that is none. */
PH_ON_REACTOR void http_write_problem(HttpSession *session, HttpProblem problem);
/* The request's body is to be read; a client that waits to be asked for it is asked. */
PH_ON_REACTOR void http_exchange_ask_for_body(HttpExchange *exchange);
/* Will the connection go on after this response? */
PH_ON_REACTOR bool http_exchange_keeps_alive(const HttpExchange *exchange);

/* -- dispatching ------------------------------------------------------------------------------- */

extern const PhHookRow http_hooks[];
/* The head is complete: finds site, route and handler, and begins. */
PH_ON_REACTOR void http_dispatch(HttpExchange *exchange);

extern const PhWebHandler http_static_handler;
extern const PhWebHandler http_page_handler;

/* -- static files ------------------------------------------------------------------------------ */

/* A folder that is served, as it was opened. Counted: jobs hold it. */
typedef struct HttpRoot {
    PhRef ref;
    char *name; /* the site's root and the route's folder */
    int fd;     /* O_PATH */
    dev_t device;
    ino_t inode;
} HttpRoot;

HttpRoot *http_root_ref(HttpRoot *root);
void http_root_unref(HttpRoot *root);
/* `below` may be "". With PH_BENEATH_CACHED on a reactor, else where a disk may be waited for. */
HttpRoot *http_root_open(const char *folder, const char *below, unsigned flags, GError **error);

typedef enum HttpEntryKind {
    HTTP_ENTRY_MISSING,
    HTTP_ENTRY_DENIED,
    HTTP_ENTRY_FOLDER, /* asked for without its slash */
    HTTP_ENTRY_FILE,
    HTTP_ENTRY_PAGE, /* .lua or .lp */
} HttpEntryKind;

/* What a path below a root is, as it was at some moment. Belongs to its reactor's cache; counted
 * there, so that a user of it can keep it over a change. */
typedef struct HttpEntry HttpEntry;
struct HttpEntry {
    unsigned references;
    unsigned hash;
    HttpEntryKind kind;
    HttpEncoding encoding;
    unsigned offered; /* 1 << HttpEncoding, or-ed: which others are there */
    HttpRoot *root;
    char *path;      /* as asked: the key, with root and encoding */
    char *file_path; /* below the root, without "/" at its start */
    PhFile *file;    /* null with `body` */
    GBytes *body;    /* null: large */
    struct stat status;
    int64_t checked_us; /* monotonic */
    const char *content_type;
    char etag[56];
    char *head; /* of the 200 */
    size_t head_length;
    size_t cost;
    HttpEntry *newer; /* in the order of last use */
    HttpEntry *older;
    bool is_listed; /* in the cache */
};

typedef void (*HttpFound)(HttpExchange *exchange, HttpEntry *entry, const GError *error);

HttpCache *http_cache_new(HttpLocal *local);
void http_cache_free(HttpCache *cache);
/* Calls `found` at once where the answer is in memory, else after a job. `entry` is null with an
 * error: TEMPORARY. It stays for the time of the call, longer with a reference. */
PH_ON_REACTOR void http_cache_find(HttpExchange *exchange, const char *root, const char *folder,
    const char *path, HttpEncoding encoding, HttpFound found);
/* A new reference, where it is known already. */
PH_ON_REACTOR HttpRoot *http_cache_site_root(HttpCache *cache, const char *folder);
/* On the reactor of its cache, or when no reactor uses that any more. */
HttpEntry *http_entry_ref(HttpEntry *entry);
void http_entry_unref(HttpEntry *entry);
/* Is one of the names in this path not served: begins with "." (but the first may be
 * ".well-known")? */
bool http_path_is_hidden(const char *path);

/* -- pages ------------------------------------------------------------------------------------- */

/* The exchange will be answered by this page, when its body is there. */
PH_ON_REACTOR void http_page_begin_file(HttpExchange *exchange, HttpEntry *entry);
/* Parts of handlers that may run pages. */
PH_ON_REACTOR size_t http_page_body(PhExchange *base, const uint8_t *bytes, size_t length);
PH_ON_REACTOR void http_page_complete(PhExchange *base);
PH_ON_REACTOR void http_page_closed(PhExchange *base);

/* -- access log -------------------------------------------------------------------------------- */

PH_ON_REACTOR void http_log_exchange(HttpExchange *exchange, int status, int64_t bytes);
/* For a request that never became one. */
PH_ON_REACTOR void http_log_problem(HttpSession *session, HttpProblem problem);
