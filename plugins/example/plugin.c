/* plugin.c - the smallest plugin: it sends back what it is sent (RFC 862), line by line, and as a handler
 * for the web server body by body; a new plugin starts from a copy of this file; docs/plugin-guide.md
 * walks through it */
#include "posthouse/plugin.h"
#include "posthouse/log.h"
#include "posthouse/web.h"
#include <string.h>

static const PhSettingRow settings[] = {
    { "example.echo.timeout_ms", PH_SETTING_TIME, "60000", 1000, 3600000, NULL, PH_SCOPE_GLOBAL,
        "A client that sends nothing for so long is let go." },
    { 0 },
};

typedef struct EchoSession { /* zeroed when it is made, freed after `closed` */
    PhSession base;
    uint64_t lines;
} EchoSession;

static void
restart_timeout(PhSession *session)
{
    ph_assert_on_reactor();
    ph_connection_set_timeout_ms(session->connection, ph_setting_int("example.echo.timeout_ms"));
}

static void
input(PhSession *session)
{
    ph_assert_on_reactor();
    EchoSession *echo = (EchoSession *)session;
    size_t length;
    const uint8_t *end, *bytes = ph_connection_input(session->connection, &length);
    while ((end = memchr(bytes, '\n', length)) != NULL) {
        size_t line_length = (size_t)(end - bytes) + 1;
        ph_connection_write(session->connection, bytes, line_length);
        ph_connection_consume(session->connection, line_length);
        bytes = ph_connection_input(session->connection, &length);
        echo->lines++;
    }
    restart_timeout(session);
}

static void
farewell(PhSession *session, PhFarewell why)
{
    ph_assert_on_reactor();
    ph_connection_puts(session->connection, why == PH_FAREWELL_CUT ? "cut\n" : "stopping\n");
    ph_connection_close(session->connection);
}

static void
closed(PhSession *session, PhCloseReason reason)
{
    const EchoSession *echo = (EchoSession *)session;
    ph_log(PH_LOG_INFO, "example.closed", "lines=%" G_GUINT64_FORMAT " reason=%d", echo->lines,
        reason);
}

static const PhSessionClass session_class = {
    .name = "example",
    .size = sizeof(EchoSession),
    .opened = restart_timeout,
    .input = input,
    .farewell = farewell,
    .closed = closed,
};

static const PhServiceRow services[] = {
    { "echo", 7, PH_TLS_NONE, &session_class, NULL, NULL, false },
    { 0 },
};

/* -- the handler "example" of the web server --------------------------------------------------- */

static void
web_begin(PhExchange *exchange)
{
    ph_assert_on_reactor();
    ph_exchange_header(exchange, "Content-Type", "application/octet-stream");
    ph_exchange_header(exchange, "X-Example-Path", exchange->request->path);
}

/* What the client does not read back, it cannot send more of. */
static size_t
web_body(PhExchange *exchange, const uint8_t *bytes, size_t length)
{
    ph_assert_on_reactor();
    if (ph_exchange_is_full(exchange))
        return 0;
    ph_exchange_write(exchange, bytes, length);
    return length;
}

static const PhWebHandler web_handler = {
    .methods = "GET, HEAD, POST",
    .begin = web_begin,
    .body = web_body,
    .complete = ph_exchange_finish,
    .drained = ph_exchange_want_body,
};

static bool
start(void **state_out, GError **error)
{
    *state_out = NULL;
    return ph_web_offer("example", &web_handler, error);
}

static void
stop(void *state)
{
    (void)state;
    ph_web_withdraw("example", &web_handler);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "example",
    .summary = "echo service, where a new plugin starts",
    .settings = settings,
    .services = services,
    .start = start,
    .stop = stop,
};
