/* connect.c - libpq's connecting, waited for with a deadline */
#include "store/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { OPTIONS_MAX = 16 };

/* Without an answer of its kernel, a database's host is gone. */
#define CONNECT_HOST_MS "2000"
static const unsigned silent_ms = 15000;

static const PhConnectOption defaults[] = {
    { "client_encoding", "UTF8" },
    { "target_session_attrs", "read-write" },
    { "fallback_application_name", "posthouse" },
    { "keepalives_idle", "5" },
    { "keepalives_interval", "5" },
    { "keepalives_count", "3" },
    { "tcp_user_timeout", CONNECT_HOST_MS },
};

static bool
await_connection(PGconn *conn, int64_t until_us)
{
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    while (wants != PGRES_POLLING_OK) {
        int64_t left_us = until_us - ph_monotonic_us();
        if (wants == PGRES_POLLING_FAILED || left_us <= 0)
            return false;
        struct pollfd poll_fd = {
            .fd = PQsocket(conn),
            .events = wants == PGRES_POLLING_READING ? POLLIN : POLLOUT,
        };
        int ready = poll(&poll_fd, 1, (int)MIN(left_us / 1000 + 1, INT_MAX));
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0)
            wants = PQconnectPoll(conn);
    }
    return true;
}

static void
ignore_notice(void *data, const PGresult *result)
{
    (void)data;
    (void)result;
}

static PGconn *
start_connection(const char *conninfo, const PhConnectOption *overrides)
{
    const char *names[OPTIONS_MAX + 1];
    const char *values[OPTIONS_MAX + 1];
    size_t n = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(defaults); i++, n++) {
        names[n] = defaults[i].name;
        values[n] = defaults[i].value;
    }
    names[n] = "dbname";
    values[n++] = conninfo;
    for (; overrides != NULL && overrides->name != NULL; overrides++, n++) {
        g_assert(n < OPTIONS_MAX);
        names[n] = overrides->name;
        values[n] = overrides->value;
    }
    names[n] = values[n] = NULL;
    return PQconnectStartParams(names, values, 1);
}

/* A database that works may leave our bytes unread for longer than its host may take to answer. */
static void
be_patient(PGconn *conn)
{
    PQconninfoOption *options = PQconninfo(conn);
    for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++)
        if (strcmp(at->keyword, "tcp_user_timeout") == 0 &&
            g_strcmp0(at->val, CONNECT_HOST_MS) == 0)
            /* Sockets that are not TCP's refuse it. */
            (void)setsockopt(
                PQsocket(conn), IPPROTO_TCP, TCP_USER_TIMEOUT, &silent_ms, sizeof silent_ms);
    PQconninfoFree(options);
}

char *
ph_message_line(const char *message)
{
    char *line = g_strdup(message != NULL ? message : "");
    g_strdelimit(line, "\r\n\t", ' ');
    return g_strstrip(line);
}

PGconn *
ph_connect_blocking(
    const char *conninfo, const PhConnectOption *overrides, int64_t until_us, GError **error)
{
    PGconn *conn = start_connection(conninfo, overrides);
    if (conn != NULL)
        PQsetNoticeReceiver(conn, ignore_notice, NULL);
    if (conn != NULL && PQstatus(conn) != CONNECTION_BAD && await_connection(conn, until_us)) {
        be_patient(conn);
        return conn;
    }
    g_autofree char *text = ph_message_line(conn != NULL ? PQerrorMessage(conn) : "out of memory");
    g_set_error_literal(
        error, PH_ERROR, PH_ERROR_UNAVAILABLE, text[0] != '\0' ? text : "no connection in time");
    PQfinish(conn);
    return NULL;
}
