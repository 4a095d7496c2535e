/* keeper-channel.c - packets with descriptors, and binding
 *
 * The first socket of a port is bound without SO_REUSEPORT, so that a port in use by another
 * program is an error and not a share; the option is set afterwards, so that its siblings may join.
 */
#include "runtime/keeper-channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    GMutex mutex;
    int fd;
} channel = { .fd = -1 };

/* -- packets ----------------------------------------------------------------------------------- */

bool
ph_channel_send(int fd, const char *text, const GArray *fds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(PH_CHANNEL_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fds != NULL && fds->len > 0) {
        g_assert(fds->len <= PH_CHANNEL_MAX_FDS);
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fds->len * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds->len * sizeof(int));
        memcpy(CMSG_DATA(header), fds->data, fds->len * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)part.iov_len;
}

bool
ph_channel_receive(int fd, char *text, size_t size, GArray *fds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(PH_CHANNEL_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = { .iov_base = text, .iov_len = size - 1 };
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    ssize_t n;
    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return false;
    text[n] = '\0';
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int received;
            memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (fds != NULL)
                g_array_append_val(fds, received);
            else
                close(received);
        }
    }
    return (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
}

/* -- the daemon's side ------------------------------------------------------------------------- */

void
ph_channel_open(int fd)
{
    channel.fd = fd;
}

int
ph_channel_fd(void)
{
    return channel.fd;
}

/* The text behind "ok", or null with the error. */
static char *
ask(const char *question, GArray *fds, GError **error)
{
    char answer[PH_CHANNEL_MAX_BYTES];
    g_mutex_lock(&channel.mutex);
    bool good = channel.fd >= 0 && ph_channel_send(channel.fd, question, NULL) &&
                ph_channel_receive(channel.fd, answer, sizeof(answer), fds);
    g_mutex_unlock(&channel.mutex);
    if (!good) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the keeper does not answer");
        return NULL;
    }
    if (g_str_has_prefix(answer, "ok"))
        return g_strdup(g_strchug(answer + 2));
    char *text = answer;
    int code = PH_ERROR_INTERNAL;
    if (g_str_has_prefix(answer, "error ")) {
        code = (int)strtol(answer + strlen("error "), &text, 10);
        g_strchug(text);
    }
    g_set_error(error, PH_ERROR, code, "%s", text);
    return NULL;
}

bool
ph_channel_listen(const char *name, int port, unsigned count, const char *addresses, int *port_out,
    GArray *fds_out, GError **error)
{
    g_autofree char *question = g_strdup_printf("listen %s %d %u %s", name, port, count, addresses);
    g_autofree char *answer = ask(question, fds_out, error);
    if (answer == NULL)
        return false;
    *port_out = atoi(answer);
    return true;
}

bool
ph_channel_release(const char *name, GError **error)
{
    g_autofree char *question = g_strdup_printf("release %s", name);
    g_autofree char *answer = ask(question, NULL, error);
    return answer != NULL;
}

bool
ph_channel_ready(GError **error)
{
    g_autofree char *answer = ask("ready", NULL, error);
    return answer != NULL;
}

char *
ph_channel_state(GError **error)
{
    return ask("state", NULL, error);
}

/* -- binding ----------------------------------------------------------------------------------- */

static bool
parse_listen_address(const char *text, int port, struct sockaddr_storage *out, socklen_t *size_out)
{
    memset(out, 0, sizeof(*out));
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        *size_out = sizeof(*in);
        return true;
    }
    if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *size_out = sizeof(*in6);
        return true;
    }
    return false;
}

static int
bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
                                         : ntohs(((struct sockaddr_in *)&address)->sin_port);
}

/* -1 with errno. */
static int
bind_one(const struct sockaddr_storage *address, socklen_t size, bool first)
{
    int one = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (!first)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    bool good = bind(fd, (const struct sockaddr *)address, size) == 0;
    if (good && first)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
    /* Accepted sockets have what their listener has. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    if (good && listen(fd, 1024) == 0)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

static void
close_from(GArray *fds, guint start)
{
    for (guint i = start; i < fds->len; i++)
        close(g_array_index(fds, int, i));
    g_array_set_size(fds, start);
}

/* An address family that this machine does not have is passed over when another address works. */
static bool
is_missing_family(int failure)
{
    return failure == EAFNOSUPPORT || failure == EADDRNOTAVAIL;
}

static bool
bind_all(char **words, int port, unsigned count, int *port_out, GArray *fds, GError **error)
{
    guint start = fds->len;
    int missing = 0;
    for (char **word = words; *word != NULL; word++) {
        struct sockaddr_storage address;
        socklen_t size;
        const char *text = g_strstrip(*word);
        if (!parse_listen_address(text, port, &address, &size)) {
            g_set_error(
                error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no address to listen on", text);
            close_from(fds, start);
            return false;
        }
        for (unsigned i = 0; i < count; i++) {
            int fd = bind_one(&address, size, i == 0);
            if (fd < 0 && is_missing_family(errno)) {
                missing = errno;
                break;
            }
            if (fd < 0) {
                g_set_error(error, PH_ERROR,
                    errno == EADDRINUSE ? PH_ERROR_CONFLICT : PH_ERROR_DENIED,
                    "listen on %s port %d: %s", text, port, g_strerror(errno));
                close_from(fds, start);
                return false;
            }
            g_array_append_val(fds, fd);
            if (port == 0) {
                port = bound_port(fd);
                parse_listen_address(text, port, &address, &size);
            }
        }
    }
    if (fds->len == start) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "no address to listen on: %s",
            g_strerror(missing != 0 ? missing : EINVAL));
        return false;
    }
    *port_out = port;
    return true;
}

bool
ph_bind_sockets(
    const char *addresses, int port, unsigned count, int *port_out, GArray *fds_out, GError **error)
{
    const char *list = strcmp(addresses, "*") == 0 ? "0.0.0.0,::" : addresses;
    g_auto(GStrv) words = g_strsplit(list, ",", -1);
    if (port != 0)
        return bind_all(words, port, count, port_out, fds_out, error);
    /* The kernel's choice for one address may be taken for the next: then another choice. */
    for (int attempt = 0; attempt < 20; attempt++) {
        g_autoptr(GError) cause = NULL;
        if (bind_all(words, 0, count, port_out, fds_out, &cause))
            return true;
        if (cause->code != PH_ERROR_CONFLICT) {
            g_propagate_error(error, g_steal_pointer(&cause));
            return false;
        }
    }
    g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "no port is free on all of %s", addresses);
    return false;
}
