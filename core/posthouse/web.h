/* web.h - answering web requests in C
 *
 * Shape:    a plugin offers a handler by a name (ph_web_offer); a site's route names it. For each
 *           request that takes the route the handler is given an exchange: the request, its body as
 *           a stream, and the response to fill. The handler's calls only say what to do; sending
 *           happens when its callback returns. Whether the client speaks HTTP/1 or another version
 *           is not seen here.
 * Units:    bytes.
 * Threads:  the handler's callbacks and all of ph_exchange_*, on the exchange's reactor. What
 *           blocks goes into a job (ph_exchange_run), which may use the request (it stays) but not
 *           the exchange.
 * Limits:   body bytes that are not taken wait, and the client with them; output is full above
 *           PH_OUTPUT_HIGH_BYTES, then wait for `drained`.
 * Life:     a handler's plugin stays mapped while exchanges or jobs of it are there; after the plugin
 *           stopped, its routes answer 503.
 * Sources:  RFC 9110, RFC 9112.
 */
#pragma once

#include "posthouse/connection.h"
#include "posthouse/lua-page.h"
#include "posthouse/service.h"
#include "posthouse/site.h"

#define PH_WEB_HANDLER_PREFIX "web.handler."
enum { PH_WEB_HANDLER_VERSION = 1 };

typedef struct PhExchange PhExchange;
typedef struct PhExchangeFunctions PhExchangeFunctions;
typedef void (*PhExchangeDone)(PhExchange *exchange, void *data);

/* Only `begin` is required. */
typedef struct PhWebHandler {
    const char
        *methods; /* "GET, HEAD, POST": others get 405 with this list; null: all that are known.
                            OPTIONS is answered without the handler when the list is there. */
    /* Once, when the head of the request is complete. */
    void (*begin)(PhExchange *exchange);
    /* Bytes of the body: gives how many it takes. What is left is shown again after
     * ph_exchange_want_body(). Null: the body is read and dropped. */
    size_t (*body)(PhExchange *exchange, const uint8_t *bytes, size_t length);
    /* The body is complete (at once when there is none). */
    void (*complete)(PhExchange *exchange);
    /* Output was full and is not any more. */
    void (*drained)(PhExchange *exchange);
    /* The last call, also when the client went away: free `data`. */
    void (*closed)(PhExchange *exchange);
} PhWebHandler;

struct PhExchange {
    const PhExchangeFunctions *functions;
    const PhPageRequest *request; /* `body` is null: see the handler's callback */
    const PhSite *site;
    const PhSiteRoute *route;
    void *data; /* the handler's */
};

/* What the server does behind the calls below. */
struct PhExchangeFunctions {
    void (*status)(PhExchange *exchange, int status);
    void (*header)(PhExchange *exchange, const char *name, const char *value);
    void (*length)(PhExchange *exchange, int64_t length);
    void (*write)(PhExchange *exchange, const void *bytes, size_t length);
    void (*write_bytes)(PhExchange *exchange, GBytes *bytes);
    void (*write_file)(PhExchange *exchange, PhFile *file, int64_t offset, int64_t length);
    bool (*is_full)(const PhExchange *exchange);
    void (*want_body)(PhExchange *exchange);
    void (*finish)(PhExchange *exchange);
    void (*fail)(PhExchange *exchange, int status, const char *text);
    void (*run)(
        PhExchange *exchange, PhJob job, PhExchangeDone done, void *data, GDestroyNotify free_data);
    PhTask *(*task)(PhExchange *exchange);
};

/* -- the response ------------------------------------------------------------------------------ */

/* 200 to 599; 200 when nothing is said. Before the first byte of the body. */
static inline PH_ON_REACTOR void
ph_exchange_status(PhExchange *exchange, int status)
{
    exchange->functions->status(exchange, status);
}

/* Those of the framing (Content-Length, Transfer-Encoding, Connection, Date ...) are the server's; a
 * name or value that is none is left out, and logged. Copied. */
static inline PH_ON_REACTOR void
ph_exchange_header(PhExchange *exchange, const char *name, const char *value)
{
    exchange->functions->header(exchange, name, value);
}

/* Of the body, where it is known before; else it is sent in chunks. */
static inline PH_ON_REACTOR void
ph_exchange_length(PhExchange *exchange, int64_t length)
{
    exchange->functions->length(exchange, length);
}

/* To HEAD nothing of the body is sent: handlers need not know. Copied. */
static inline PH_ON_REACTOR void
ph_exchange_write(PhExchange *exchange, const void *bytes, size_t length)
{
    exchange->functions->write(exchange, bytes, length);
}

/* By reference. */
static inline PH_ON_REACTOR void
ph_exchange_write_bytes(PhExchange *exchange, GBytes *bytes)
{
    exchange->functions->write_bytes(exchange, bytes);
}

/* Part of a file, by reference. */
static inline PH_ON_REACTOR void
ph_exchange_write_file(PhExchange *exchange, PhFile *file, int64_t offset, int64_t length)
{
    exchange->functions->write_file(exchange, file, offset, length);
}

static inline PH_ON_REACTOR bool
ph_exchange_is_full(const PhExchange *exchange)
{
    return exchange->functions->is_full(exchange);
}

/* The response is complete. The exchange may be gone when this returns. */
static inline PH_ON_REACTOR void
ph_exchange_finish(PhExchange *exchange)
{
    exchange->functions->finish(exchange);
}

/* A page for this error (`text` may be null), or, when the body has begun, the end of the
 * connection. As ph_exchange_finish(). */
static inline PH_ON_REACTOR void
ph_exchange_fail(PhExchange *exchange, int status, const char *text)
{
    exchange->functions->fail(exchange, status, text);
}

/* A whole response in one call. */
static inline PH_ON_REACTOR void
ph_exchange_answer(
    PhExchange *exchange, int status, const char *content_type, const void *bytes, size_t length)
{
    ph_exchange_status(exchange, status);
    ph_exchange_header(exchange, "Content-Type", content_type);
    ph_exchange_length(exchange, (int64_t)length);
    ph_exchange_write(exchange, bytes, length);
    ph_exchange_finish(exchange);
}

/* -- the request's body, and work -------------------------------------------------------------- */

/* `body` is called again with what was not taken, and with what comes. */
static inline PH_ON_REACTOR void
ph_exchange_want_body(PhExchange *exchange)
{
    exchange->functions->want_body(exchange);
}

/* A job in the lane web, one at a time; `done` on the reactor while the exchange is there,
 * `free_data` (may be null) in any case. */
static inline PH_ON_REACTOR void
ph_exchange_run(
    PhExchange *exchange, PhJob job, PhExchangeDone done, void *data, GDestroyNotify free_data)
{
    exchange->functions->run(exchange, job, done, data, free_data);
}

/* For wake-ups and timers (ph_wake_new, ph_task_reactor); not for jobs. */
static inline PH_ON_REACTOR PhTask *
ph_exchange_task(PhExchange *exchange)
{
    return exchange->functions->task(exchange);
}

/* -- offering ---------------------------------------------------------------------------------- */

/* In the plugin's start; `handler` is a constant of the plugin. CONFLICT: another plugin offers that
 * name. */
static inline bool
ph_web_offer(const char *name, const PhWebHandler *handler, GError **error)
{
    g_autofree char *service = g_strconcat(PH_WEB_HANDLER_PREFIX, name, NULL);
    return ph_service_publish(service, PH_WEB_HANDLER_VERSION, handler, error);
}

/* In the plugin's stop. */
static inline void
ph_web_withdraw(const char *name, const PhWebHandler *handler)
{
    g_autofree char *service = g_strconcat(PH_WEB_HANDLER_PREFIX, name, NULL);
    ph_service_withdraw(service, handler);
}
