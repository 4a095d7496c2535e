/* loop.c - connections and timers of a load generator
 *
 * Descriptors are watched edge-triggered for both directions all the time. What a callback may do to
 * its wire is anything, freeing included, so nothing is read from a wire after one was called. An event
 * finds its wire by the descriptor: one for a wire that was closed in the same turn finds none, or a new
 * wire that had the descriptor next and is only asked once too often.
 */
#include "loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256 };

static struct {
    int epoll;
    bool stopped;
    int receive_buffer;
    GPtrArray *timers; /* a heap; element 0 is unused */
    GPtrArray *wires;  /* by descriptor */
} loop;

void
loop_init(void)
{
    loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    loop.timers = g_ptr_array_new();
    g_ptr_array_add(loop.timers, NULL);
    loop.wires = g_ptr_array_new();
}

void
loop_stop(void)
{
    loop.stopped = true;
}

/* -- timers ------------------------------------------------------------------------------------ */

static Timer *
timer_at(size_t place)
{
    return g_ptr_array_index(loop.timers, place);
}

static void
put_timer(size_t place, Timer *timer)
{
    g_ptr_array_index(loop.timers, place) = timer;
    timer->place = place;
}

static void
sift_up(Timer *timer)
{
    size_t place = timer->place;
    while (place > 1 && timer_at(place / 2)->at_s > timer->at_s) {
        put_timer(place, timer_at(place / 2));
        place /= 2;
    }
    put_timer(place, timer);
}

static void
sift_down(Timer *timer)
{
    size_t place = timer->place;
    for (;;) {
        size_t child = place * 2;
        if (child >= loop.timers->len)
            break;
        if (child + 1 < loop.timers->len && timer_at(child + 1)->at_s < timer_at(child)->at_s)
            child++;
        if (timer_at(child)->at_s >= timer->at_s)
            break;
        put_timer(place, timer_at(child));
        place = child;
    }
    put_timer(place, timer);
}

void
timer_set(Timer *timer, double at_s)
{
    timer->at_s = at_s;
    if (timer->place == 0) {
        g_ptr_array_add(loop.timers, timer);
        timer->place = loop.timers->len - 1;
    }
    sift_up(timer);
    sift_down(timer);
}

void
timer_clear(Timer *timer)
{
    size_t place = timer->place;
    if (place == 0)
        return;
    timer->place = 0;
    Timer *last = timer_at(loop.timers->len - 1);
    g_ptr_array_set_size(loop.timers, (int)loop.timers->len - 1);
    if (last == timer)
        return;
    put_timer(place, last);
    sift_up(last);
    sift_down(last);
}

/* Fires what is due; gives the milliseconds until the next. */
static int
fire_timers(double until_s)
{
    for (;;) {
        double now_s = load_now_s();
        Timer *first = loop.timers->len > 1 ? timer_at(1) : NULL;
        if (first == NULL || first->at_s > now_s || loop.stopped) {
            double next_s = first != NULL ? MIN(first->at_s, until_s) : until_s;
            return (int)ceil(CLAMP(next_s - now_s, 0, 1) * 1000);
        }
        timer_clear(first);
        first->fire(first);
    }
}

/* -- wires ------------------------------------------------------------------------------------- */

SSL_CTX *
wire_tls_new(const char *ciphers)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (tls == NULL || (ciphers != NULL && SSL_CTX_set_ciphersuites(tls, ciphers) != 1))
        load_die("TLS cannot be set up");
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    return tls;
}

void
wire_receive_buffer(int bytes)
{
    loop.receive_buffer = bytes;
}

static int
connect_from(int port, uint32_t from)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        load_die("make a socket: %s", g_strerror(errno));
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    if (loop.receive_buffer > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &loop.receive_buffer, sizeof(loop.receive_buffer));
    struct sockaddr_in address = { .sin_family = AF_INET };
    if (from != 0) {
        address.sin_addr.s_addr = htonl(0x7f000000 + from);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
            load_die("bind to an address of this host: %s", g_strerror(errno));
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 && errno != EINPROGRESS)
        load_die("connect to port %d: %s", port, g_strerror(errno));
    return fd;
}

void
wire_open(Wire *wire, int port, uint32_t from, SSL_CTX *tls, SSL_SESSION *session)
{
    wire->fd = connect_from(port, from);
    wire->connected = false;
    wire->sent = 0;
    if (wire->out == NULL)
        wire->out = g_string_new(NULL);
    g_string_truncate(wire->out, 0);
    wire->ssl = NULL;
    if (tls != NULL) {
        wire->ssl = SSL_new(tls);
        if (wire->ssl == NULL || SSL_set_fd(wire->ssl, wire->fd) != 1)
            load_die("TLS cannot be set up");
        if (session != NULL)
            SSL_set_session(wire->ssl, session);
        SSL_set_connect_state(wire->ssl);
        SSL_set_app_data(wire->ssl, wire);
    }
    if ((size_t)wire->fd >= loop.wires->len)
        g_ptr_array_set_size(loop.wires, wire->fd + 1);
    g_ptr_array_index(loop.wires, (size_t)wire->fd) = wire;
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP,
        .data.fd = wire->fd };
    if (epoll_ctl(loop.epoll, EPOLL_CTL_ADD, wire->fd, &event) != 0)
        load_die("epoll: %s", g_strerror(errno));
}

void
wire_close(Wire *wire)
{
    if (wire->fd < 0)
        return;
    g_ptr_array_index(loop.wires, (size_t)wire->fd) = NULL;
    if (wire->ssl != NULL) {
        /* So that its session can be resumed. */
        SSL_set_shutdown(wire->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        g_clear_pointer(&wire->ssl, SSL_free);
    }
    close(wire->fd);
    wire->fd = -1;
    if (wire->out != NULL)
        g_string_free(g_steal_pointer(&wire->out), TRUE);
}

void
wire_end(Wire *wire, const char *why)
{
    wire_close(wire);
    wire->ended(wire, why);
}

/* What an SSL function's failure means: 0: wait; -1: over. */
static int
tls_trouble(Wire *wire, int result)
{
    int error = SSL_get_error(wire->ssl, result);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

ssize_t
wire_receive(Wire *wire, char *bytes, size_t size)
{
    if (wire->ssl != NULL) {
        ERR_clear_error();
        int n = SSL_read(wire->ssl, bytes, (int)size);
        return n > 0 ? n : tls_trouble(wire, n);
    }
    ssize_t n = recv(wire->fd, bytes, size, 0);
    if (n > 0)
        return n;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

/* False: the wire is over. */
static bool
flush_out(Wire *wire)
{
    while (wire->connected && wire->sent < wire->out->len) {
        const char *bytes = wire->out->str + wire->sent;
        size_t length = wire->out->len - wire->sent;
        ssize_t n;
        if (wire->ssl != NULL) {
            ERR_clear_error();
            n = SSL_write(wire->ssl, bytes, (int)MIN(length, 1 << 20));
            if (n <= 0)
                return tls_trouble(wire, (int)n) == 0;
        } else {
            n = send(wire->fd, bytes, length, MSG_NOSIGNAL);
            if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        }
        wire->sent += (size_t)n;
    }
    if (wire->sent == wire->out->len) {
        g_string_truncate(wire->out, 0);
        wire->sent = 0;
    }
    return true;
}

void
wire_send(Wire *wire, const char *bytes, size_t length)
{
    g_string_append_len(wire->out, bytes, (gssize)length);
    /* A failure shows again at the next event, where it can be told. */
    (void)flush_out(wire);
}

/* False: the wire is over. */
static bool
connect_on(Wire *wire)
{
    if (wire->ssl != NULL) {
        ERR_clear_error();
        int done = SSL_do_handshake(wire->ssl);
        if (done != 1)
            return tls_trouble(wire, done) == 0;
    } else {
        int error = 0;
        socklen_t size = sizeof(error);
        getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
            return false;
    }
    wire->connected = true;
    return true;
}

static void
wire_ready(Wire *wire, uint32_t events)
{
    if (!wire->connected && wire->ssl == NULL && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0)
        return;
    if (!wire->connected && !connect_on(wire)) {
        wire_end(wire, "cannot connect");
        return;
    }
    if (!wire->connected)
        return;
    if (!flush_out(wire)) {
        wire_end(wire, "cannot send");
        return;
    }
    wire->input(wire);
}

void
loop_run(double until_s)
{
    loop.stopped = false;
    while (!loop.stopped && load_now_s() < until_s) {
        int wait_ms = fire_timers(until_s);
        if (loop.stopped)
            break;
        struct epoll_event events[EVENTS];
        int n = epoll_wait(loop.epoll, events, EVENTS, wait_ms);
        for (int i = 0; i < n && !loop.stopped; i++) {
            Wire *wire = g_ptr_array_index(loop.wires, (size_t)events[i].data.fd);
            if (wire != NULL)
                wire_ready(wire, events[i].events);
        }
    }
}
