/* listener.c - accepting
 *
 * Listening sockets are level-triggered: a turn accepts a bounded number, the rest wakes the
 * reactor again. Without descriptors (EMFILE) accepting pauses for a moment instead of spinning.
 */
#include "runtime/listener.h"

#include "posthouse/log.h"
#include "runtime/connection.h"
#include "runtime/keeper-channel.h"
#include "runtime/reactor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ACCEPTS_PER_TURN = 64, PAUSE_MS = 100 };

const PhSettingRow ph_listener_settings[] = {
    { "net.listen.addresses", PH_SETTING_LIST, "*", 0, 1024, NULL, PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Addresses to listen on, divided by commas; \"*\" is all of them. Read when a service "
        "starts to listen." },
    { "net.listen.max_connections", PH_SETTING_INT, "100000", 10, 10000000, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Connections of this node at a time; further ones are closed at once." },
    { "net.proxy.trusted_networks", PH_SETTING_LIST, "", 0, 4096, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Networks (\"192.0.2.0/24\", \"2001:db8::/32\") whose connections begin with a PROXY "
        "header, version 1 or 2." },
    { 0 },
};

typedef struct Socket {
    PhSource source;
    PhListeners *listeners;
    PhReactor *reactor;
    const PhServiceRow *service; /* these two change together, on the reactor */
    PhOwner *owner;
    PhTimer pause;
} Socket;

struct PhListeners {
    char *name;
    int port;
    GPtrArray *sockets;
};

/* -- trusted proxies --------------------------------------------------------------------------- */

static bool
bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    if (memcmp(a, b, bits / 8) != 0)
        return false;
    unsigned rest = bits % 8;
    return rest == 0 || ((a[bits / 8] ^ b[bits / 8]) >> (8 - rest)) == 0;
}

static bool
network_contains(const char *network, const struct sockaddr_storage *peer)
{
    g_auto(GStrv) parts = g_strsplit(network, "/", 2);
    if (parts[0] == NULL)
        return false;
    const struct sockaddr_in *in = (const struct sockaddr_in *)peer;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)peer;
    uint8_t base[16];
    const uint8_t *address;
    unsigned width;
    if (inet_pton(AF_INET, parts[0], base) == 1 && peer->ss_family == AF_INET) {
        address = (const uint8_t *)&in->sin_addr;
        width = 32;
    } else if (inet_pton(AF_INET6, parts[0], base) == 1 && peer->ss_family == AF_INET6) {
        address = in6->sin6_addr.s6_addr;
        width = 128;
    } else {
        return false;
    }
    guint64 bits = width;
    if (parts[1] != NULL && !g_ascii_string_to_unsigned(parts[1], 10, 0, width, &bits, NULL))
        return false;
    return bits_equal(base, address, (unsigned)bits);
}

static bool
is_trusted_proxy(const struct sockaddr_storage *peer)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *networks = ph_settings_text(settings, "net.proxy.trusted_networks", NULL);
    if (networks[0] == '\0')
        return false;
    g_auto(GStrv) words = g_strsplit(networks, ",", -1);
    for (char **word = words; *word != NULL; word++)
        if (network_contains(g_strstrip(*word), peer))
            return true;
    return false;
}

/* -- accepting --------------------------------------------------------------------------------- */

static void
resume_accepting(void *data)
{
    Socket *socket_ = data;
    g_autoptr(GError) error = NULL;
    if (!ph_reactor_add(socket_->reactor, &socket_->source, EPOLLIN, &error))
        ph_log(PH_LOG_ERROR, "listener.broken", "service=%s %s", socket_->listeners->name,
            error->message);
}

static void
pause_accepting(Socket *socket_)
{
    ph_assert_on_reactor();
    ph_log(PH_LOG_ERROR, "listener.no-descriptors",
        "service=%s connections wait: %s; raise the limit of open files", socket_->listeners->name,
        g_strerror(errno));
    ph_reactor_remove(socket_->reactor, &socket_->source);
    ph_timer_arm_ms(&socket_->pause, socket_->reactor, PAUSE_MS);
}

static void
socket_ready(PhSource *source, uint32_t events)
{
    (void)events;
    Socket *socket_ = (Socket *)source;
    PhListeners *listeners = socket_->listeners;
    int64_t most = ph_setting_int("net.listen.max_connections");
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof(peer);
        int fd = accept4(source->fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_accepting(socket_);
            if (errno == ECONNABORTED || errno == EINTR)
                continue;
            return;
        }
        if (ph_connection_count() >= most) {
            close(fd);
            ph_log(PH_LOG_WARNING, "listener.full", "service=%s connections=%" G_GINT64_FORMAT,
                listeners->name, most);
            continue;
        }
        ph_connection_accept(
            socket_->reactor, fd, &peer, socket_->service, socket_->owner, is_trusted_proxy(&peer));
    }
}

/* -- opening and closing ----------------------------------------------------------------------- */

static bool
get_sockets(const PhServiceRow *service, int *port_out, GArray *fds, GError **error)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *addresses = ph_settings_text(settings, "net.listen.addresses", NULL);
    unsigned count = service->apart ? 1 : ph_reactors_count();
    if (ph_channel_fd() >= 0)
        return ph_channel_listen(
            service->name, service->port, count, addresses, port_out, fds, error);
    return ph_bind_sockets(addresses, 0, count, port_out, fds, error);
}

static void
start_accepting(PhReactor *reactor, void *data)
{
    PhListeners *listeners = data;
    for (guint i = 0; i < listeners->sockets->len; i++) {
        Socket *socket_ = listeners->sockets->pdata[i];
        if (socket_->reactor == reactor)
            resume_accepting(socket_);
    }
}

static void
stop_accepting(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    PhListeners *listeners = data;
    for (guint i = 0; i < listeners->sockets->len; i++) {
        Socket *socket_ = listeners->sockets->pdata[i];
        if (socket_->reactor != reactor || socket_->source.fd < 0)
            continue;
        ph_timer_disarm(&socket_->pause);
        ph_reactor_remove(reactor, &socket_->source);
        close(socket_->source.fd);
        socket_->source.fd = -1;
    }
}

PhListeners *
ph_listeners_open(const PhServiceRow *service, PhOwner *owner, GError **error)
{
    g_autoptr(GArray) fds = g_array_new(FALSE, FALSE, sizeof(int));
    int port;
    if (!get_sockets(service, &port, fds, error)) {
        g_prefix_error(error, "service \"%s\": ", service->name);
        return NULL;
    }
    PhListeners *listeners = g_new0(PhListeners, 1);
    listeners->name = g_strdup(service->name);
    listeners->port = port;
    listeners->sockets = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < fds->len; i++) {
        Socket *socket_ = g_new0(Socket, 1);
        socket_->source.fd = g_array_index(fds, int, i);
        socket_->source.ready = socket_ready;
        socket_->listeners = listeners;
        socket_->service = service;
        socket_->owner = owner;
        socket_->reactor =
            service->apart ? ph_reactor_apart() : ph_reactor_at(i % ph_reactors_count());
        ph_timer_init(&socket_->pause, resume_accepting, socket_);
        g_ptr_array_add(listeners->sockets, socket_);
    }
    ph_reactors_call_blocking(start_accepting, listeners);
    return listeners;
}

typedef struct Retarget {
    PhListeners *listeners;
    const PhServiceRow *service;
    PhOwner *owner;
} Retarget;

static void
retarget(PhReactor *reactor, void *data)
{
    const Retarget *target = data;
    for (guint i = 0; i < target->listeners->sockets->len; i++) {
        Socket *socket_ = target->listeners->sockets->pdata[i];
        if (socket_->reactor != reactor)
            continue;
        socket_->service = target->service;
        socket_->owner = target->owner;
    }
}

void
ph_listeners_retarget(PhListeners *listeners, const PhServiceRow *service, PhOwner *owner)
{
    Retarget target = { .listeners = listeners, .service = service, .owner = owner };
    ph_reactors_call_blocking(retarget, &target);
}

static void
listeners_free(PhListeners *listeners)
{
    g_ptr_array_unref(listeners->sockets);
    g_free(listeners->name);
    g_free(listeners);
}

void
ph_listeners_close(PhListeners *listeners)
{
    if (listeners == NULL)
        return;
    ph_reactors_call_blocking(stop_accepting, listeners);
    listeners_free(listeners);
}

void
ph_listeners_release(PhListeners *listeners)
{
    if (listeners == NULL)
        return;
    g_autoptr(GError) error = NULL;
    if (ph_channel_fd() >= 0 && !ph_channel_release(listeners->name, &error))
        ph_log(PH_LOG_WARNING, "listener.not-released", "service=%s %s", listeners->name,
            error->message);
    ph_listeners_close(listeners);
}

int
ph_listeners_port(const PhListeners *listeners)
{
    return listeners->port;
}

const char *
ph_listeners_name(const PhListeners *listeners)
{
    return listeners->name;
}
