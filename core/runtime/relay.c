/* relay.c - watches, and connections as sockets
 *
 * Our end of the pair is edge-triggered for both directions: what could not be done at an edge is
 * done when the other side moves (drained, or a later edge).
 */
#include "posthouse/relay.h"

#include "posthouse/log.h"
#include "runtime/owner.h"
#include "runtime/reactor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- watches ----------------------------------------------------------------------------------- */

struct PhWatch {
    PhSource source;
    PhReactor *reactor;
    PhOwner *owner;
    void (*func)(void *data);
    void *data;
};

static void
watch_ready(PhSource *source, uint32_t events)
{
    (void)events;
    const PhWatch *watch = (const PhWatch *)source;
    PhOwner *previous = ph_owner_enter(watch->owner);
    watch->func(watch->data);
    ph_owner_leave(previous);
}

PhWatch *
ph_watch_new(PhReactor *reactor, int fd, void (*func)(void *data), void *data, GError **error)
{
    PhWatch *watch = g_new(PhWatch, 1);
    *watch = (PhWatch){
        .source = { .fd = fd, .ready = watch_ready },
        .reactor = reactor,
        .owner = ph_owner_current(),
        .func = func,
        .data = data,
    };
    ph_handover_give(watch);
    if (ph_reactor_add(reactor, &watch->source, EPOLLIN, error))
        return watch;
    g_free(watch);
    return NULL;
}

static void
end_watch(PhReactor *reactor, void *data)
{
    PhWatch *watch = data;
    ph_reactor_remove(reactor, &watch->source);
    watch->source.fd = -1; /* an event of this turn may still name it */
    ph_reactor_free_later(reactor, watch, g_free);
}

void
ph_watch_free(PhWatch *watch)
{
    if (watch == NULL)
        return;
    if (ph_reactor_self() == watch->reactor)
        end_watch(watch->reactor, watch);
    else
        ph_reactor_call_blocking(watch->reactor, end_watch, watch);
}

/* -- relays ------------------------------------------------------------------------------------ */

struct PhRelay {
    PhSource source; /* our end */
    PhSession *session;
    PhReactor *reactor;
    bool paused; /* the library reads too slowly */
    bool ended;  /* the client sent its last byte */
};

/* From the client to the library. */
void
ph_relay_input(PhRelay *relay)
{
    ph_assert_on_reactor();
    PhConnection *connection = relay->session->connection;
    size_t length;
    const uint8_t *bytes;
    while ((bytes = ph_connection_input(connection, &length)), length > 0) {
        ssize_t n = send(relay->source.fd, bytes, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            relay->paused = true;
            ph_connection_pause(connection);
            return;
        }
        if (n < 0) {
            ph_connection_close(connection);
            return;
        }
        ph_connection_consume(connection, (size_t)n);
    }
    if (relay->ended)
        shutdown(relay->source.fd, SHUT_WR);
}

/* From the library to the client. */
static void
move_output(PhRelay *relay)
{
    ph_assert_on_reactor();
    PhConnection *connection = relay->session->connection;
    uint8_t *scratch = ph_reactor_scratch(relay->reactor);
    while (!ph_connection_is_closing(connection) && !ph_connection_output_is_full(connection)) {
        ssize_t n = recv(relay->source.fd, scratch, PH_SCRATCH_BYTES, 0);
        if (n > 0)
            ph_connection_write(connection, scratch, (size_t)n);
        else if (n < 0 && errno == EINTR)
            continue;
        else if (n < 0 && errno == EAGAIN)
            return;
        else
            ph_connection_close(connection);
    }
}

static void
relay_ready(PhSource *source, uint32_t events)
{
    ph_assert_on_reactor();
    PhRelay *relay = (PhRelay *)source;
    PhConnection *connection = relay->session->connection;
    if ((events & EPOLLOUT) != 0 && relay->paused) {
        relay->paused = false;
        ph_connection_resume(connection);
    }
    move_output(relay);
}

PhRelay *
ph_relay_new(PhSession *session, int *fd_out, GError **error)
{
    ph_assert_on_reactor();
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "socketpair: %s", g_strerror(errno));
        return NULL;
    }
    PhRelay *relay = g_new(PhRelay, 1);
    *relay = (PhRelay){
        .source = { .fd = pair[0], .ready = relay_ready },
        .session = session,
        .reactor = ph_connection_reactor(session->connection),
    };
    if (!ph_reactor_add(relay->reactor, &relay->source, EPOLLIN | EPOLLOUT | EPOLLET, error)) {
        close(pair[0]);
        close(pair[1]);
        g_free(relay);
        return NULL;
    }
    *fd_out = pair[1];
    return relay;
}

void
ph_relay_drained(PhRelay *relay)
{
    ph_assert_on_reactor();
    move_output(relay);
}

void
ph_relay_ended(PhRelay *relay)
{
    ph_assert_on_reactor();
    relay->ended = true;
    ph_relay_input(relay);
}

void
ph_relay_free(PhRelay *relay)
{
    ph_assert_on_reactor();
    if (relay == NULL)
        return;
    ph_reactor_remove(relay->reactor, &relay->source);
    close(relay->source.fd);
    relay->source.fd = -1;
    ph_reactor_free_later(relay->reactor, relay, g_free);
}
