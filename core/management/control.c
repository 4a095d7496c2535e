/* control.c - the socket */
#include "management/control.h"

#include "management/actions.h"
#include "posthouse/log.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { CALLERS_MAX = 16, REQUEST_MAX_BYTES = 1024 * 1024, IDLE_S = 120 };

static struct {
    GThread *thread;
    char *path;
    int listener;
    int wake;
    int stopping;
    int callers;
} control = { .listener = -1, .wake = -1 };

static bool
fill_address(const char *path, struct sockaddr_un *address, GError **error)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if (g_strlcpy(address->sun_path, path, sizeof(address->sun_path)) < sizeof(address->sun_path))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the socket path \"%s\" is too long", path);
    return false;
}

static bool
write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

/* A line without its end, appended to nothing else: what follows stays in `buffer`. False at the
 * end of the stream. */
static bool
read_line(int fd, GString *buffer, size_t limit, char **line_out)
{
    for (;;) {
        char *end = memchr(buffer->str, '\n', buffer->len);
        if (end != NULL) {
            *line_out = g_strndup(buffer->str, (size_t)(end - buffer->str));
            g_string_erase(buffer, 0, end - buffer->str + 1);
            return true;
        }
        if (buffer->len > limit)
            return false;
        char bytes[4096];
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        g_string_append_len(buffer, bytes, n);
    }
}

/* -- serving ----------------------------------------------------------------------------------- */

/* For the audit log: who stands behind the socket. */
static char *
peer_name(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    struct passwd entry;
    struct passwd *found = NULL;
    char text[4096];
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return g_strdup("control");
    if (getpwuid_r(peer.uid, &entry, text, sizeof(text), &found) == 0 && found != NULL)
        return g_strdup(found->pw_name);
    return g_strdup_printf("uid %u", peer.uid);
}

static void *
caller_main(void *data)
{
    int fd = GPOINTER_TO_INT(data);
    g_autofree char *actor = peer_name(fd);
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_assert_in_job();
    const PhCaller caller = { .actor = actor, .origin = "control", .role = PH_ROLE_OPERATOR };
    g_autoptr(GString) buffer = g_string_new(NULL);
    char *line = NULL;
    while (read_line(fd, buffer, REQUEST_MAX_BYTES, &line)) {
        g_autofree char *answer = ph_action_dispatch_blocking(line, strlen(line), &caller);
        ph_wipe(line, strlen(line));
        g_clear_pointer(&line, g_free);
        if (!write_all(fd, answer, strlen(answer)) || !write_all(fd, "\n", 1))
            break;
    }
    close(fd);
    __atomic_fetch_sub(&control.callers, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static bool
is_allowed(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void
take_caller(void)
{
    int fd = accept4(control.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (!is_allowed(fd) || __atomic_load_n(&control.callers, __ATOMIC_ACQUIRE) >= CALLERS_MAX) {
        close(fd);
        return;
    }
    struct timeval idle = { .tv_sec = IDLE_S };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof(idle));
    __atomic_fetch_add(&control.callers, 1, __ATOMIC_ACQ_REL);
    g_thread_unref(g_thread_new("control-caller", caller_main, GINT_TO_POINTER(fd)));
}

static void *
control_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    while (__atomic_load_n(&control.stopping, __ATOMIC_ACQUIRE) == 0) {
        struct pollfd polled[] = {
            { .fd = control.listener, .events = POLLIN },
            { .fd = control.wake, .events = POLLIN },
        };
        if (poll(polled, G_N_ELEMENTS(polled), -1) > 0 && polled[0].revents != 0)
            take_caller();
    }
    return NULL;
}

bool
ph_control_start(const char *path, GError **error)
{
    struct sockaddr_un address;
    if (!fill_address(path, &address, error))
        return false;
    /* JSON's types and their properties are made before there are threads that use them: the lock behind
     * GLib's names is one that ThreadSanitizer does not see. */
    const GType classes[] = { JSON_TYPE_PARSER, JSON_TYPE_GENERATOR, JSON_TYPE_BUILDER };
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++)
        g_type_class_unref(g_type_class_ref(classes[i]));
    const GType types[] = { JSON_TYPE_NODE, JSON_TYPE_OBJECT, JSON_TYPE_ARRAY };
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        g_type_ensure(types[i]);
    /* The daemon's lock is ours, so a socket that is there belongs to nobody. */
    unlink(path);
    control.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    control.wake = eventfd(0, EFD_CLOEXEC);
    if (control.listener < 0 || control.wake < 0 ||
        bind(control.listener, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(path, 0600) != 0 || listen(control.listener, 16) != 0) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_DENIED, "listen on \"%s\": %s", path, g_strerror(errno));
        return false;
    }
    control.path = g_strdup(path);
    control.stopping = 0;
    control.thread = g_thread_new("control", control_main, NULL);
    return true;
}

void
ph_control_stop(void)
{
    if (control.thread == NULL)
        return;
    uint64_t one = 1;
    __atomic_store_n(&control.stopping, 1, __ATOMIC_RELEASE);
    ssize_t written = write(control.wake, &one, sizeof(one));
    (void)written;
    g_thread_join(g_steal_pointer(&control.thread));
    unlink(control.path);
    close(control.listener);
    close(control.wake);
    g_clear_pointer(&control.path, g_free);
    /* Calls under way end by their own deadlines; a moment is enough for all but the slowest. */
    for (int i = 0; i < 200 && __atomic_load_n(&control.callers, __ATOMIC_ACQUIRE) > 0; i++)
        g_usleep(10000);
}

/* -- calling ----------------------------------------------------------------------------------- */

char *
ph_control_call_blocking(const char *path, const char *request, GError **error)
{
    struct sockaddr_un address;
    if (!fill_address(path, &address, error))
        return NULL;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        g_set_error(error, PH_ERROR, errno == EACCES ? PH_ERROR_DENIED : PH_ERROR_UNAVAILABLE,
            "no server answers at \"%s\": %s", path, g_strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    g_autoptr(GString) buffer = g_string_new(NULL);
    char *answer = NULL;
    if (!write_all(fd, request, strlen(request)) || !write_all(fd, "\n", 1) ||
        !read_line(fd, buffer, SIZE_MAX / 2, &answer))
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the server closed the connection");
    close(fd);
    return answer;
}
