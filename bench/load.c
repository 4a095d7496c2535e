/* load.c - what the load generators share */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_PER_ADDRESS = 20000 };

void
load_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", g_get_prgname(), text);
    exit(2);
}

void
load_parse(int argc, char **argv, const GOptionEntry *entries, const char *summary)
{
    g_autoptr(GError) error = NULL;
    GOptionContext *context = g_option_context_new("");
    g_option_context_set_summary(context, summary);
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error))
        load_die("%s", error->message);
    if (argc > 1)
        load_die("\"%s\" is not an option", argv[1]);
    g_option_context_free(context);
}

void
load_raise_limits(unsigned needed)
{
    struct rlimit files;
    rlim_t wanted = needed + 64;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        load_die("read the limit of descriptors: %s", g_strerror(errno));
    if (files.rlim_cur >= wanted)
        return;
    files.rlim_cur = wanted;
    files.rlim_max = MAX(files.rlim_max, wanted);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        load_die("%u descriptors are needed: %s", needed, g_strerror(errno));
}

int
load_connect(int port, unsigned n)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        load_die("make a socket: %s", g_strerror(errno));
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK + n / CONNECTIONS_PER_ADDRESS),
    };
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        load_die("bind to an address of this host: %s", g_strerror(errno));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 && errno != EINPROGRESS)
        load_die("connect to port %d: %s", port, g_strerror(errno));
    return fd;
}

static double
clock_s(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

double
load_now_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

double
load_cpu_s(void)
{
    return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}
