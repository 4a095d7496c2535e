/* imap-load.c - opens many IMAP sessions and holds them
 *
 * Usage: imap-load --port N [--tls] [--login LOGIN --password-file FILE [--mailbox NAME]] --steps
 *        N[,N...] [--at-once N] [--seconds N]
 *
 * Without a login a session is up when it is greeted; with one, when it has logged in, selected the
 * mailbox and is in IDLE. For each step, sessions are opened until so many are up (at most
 * --at-once on their way at a time); then it prints "up N elapsed_s=..." and waits for a line on
 * its input before the next step; after the last step it holds the sessions until its input ends. A
 * session that ends or is refused ends the program.
 */
#include "load.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, EVENTS = 256 };

typedef enum Step { STEP_GREETING, STEP_LOGIN, STEP_SELECT, STEP_IDLE, STEP_UP } Step;

typedef struct Client {
    int fd;
    Step step;
    SSL *ssl;
    size_t length; /* of the beginning of a line, in `line` until the session is up */
    char *line;
} Client;

static struct {
    int port;
    int tls;
    char *login;
    char *password_file;
    char *mailbox;
    char *steps;
    int at_once;
    int seconds;
} option = {
    .at_once = 64,
    .seconds = 300,
};

static struct {
    int epoll;
    SSL_CTX *tls;
    char *password;
    unsigned opened;
    unsigned up;
} load;

static void
say(Client *client, const char *text)
{
    size_t length = strlen(text);
    /* Short lines into an empty socket: all or nothing. */
    ssize_t n = client->ssl != NULL ? SSL_write(client->ssl, text, (int)length)
                                    : send(client->fd, text, length, MSG_NOSIGNAL);
    if (n != (ssize_t)length)
        load_die("a command could not be sent");
}

static bool
is_answer(const char *line, const char *tag)
{
    size_t length = strlen(tag);
    if (strncmp(line, tag, length) != 0)
        return false;
    if (strncmp(line + length, "OK", 2) != 0)
        load_die("refused: %s", line);
    return true;
}

static void
come_up(Client *client)
{
    client->step = STEP_UP;
    g_clear_pointer(&client->line, g_free);
    load.up++;
}

static void
take_line(Client *client, const char *line)
{
    switch (client->step) {
    case STEP_GREETING:
        is_answer(line, "* ");
        if (option.login == NULL) {
            come_up(client);
        } else {
            g_autofree char *text =
                g_strdup_printf("a LOGIN \"%s\" \"%s\"\r\n", option.login, load.password);
            say(client, text);
            client->step = STEP_LOGIN;
        }
        break;
    case STEP_LOGIN:
        if (is_answer(line, "a ")) {
            g_autofree char *text = g_strdup_printf("b SELECT \"%s\"\r\n", option.mailbox);
            say(client, text);
            client->step = STEP_SELECT;
        }
        break;
    case STEP_SELECT:
        if (is_answer(line, "b ")) {
            say(client, "c IDLE\r\n");
            client->step = STEP_IDLE;
        }
        break;
    case STEP_IDLE:
        if (line[0] == '+')
            come_up(client);
        break;
    case STEP_UP:
        break;
    }
}

static void
take_bytes(Client *client, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length && client->step != STEP_UP; i++) {
        if (client->length >= LINE_MAX_BYTES - 1)
            load_die("a line has no end");
        client->line[client->length++] = bytes[i];
        if (bytes[i] != '\n')
            continue;
        client->line[client->length - 1] = '\0';
        client->length = 0;
        take_line(client, client->line);
    }
}

static ssize_t
receive(Client *client, char *bytes, size_t size)
{
    if (client->ssl == NULL)
        return recv(client->fd, bytes, size, 0);
    ERR_clear_error();
    int n = SSL_read(client->ssl, bytes, (int)size);
    if (n > 0)
        return n;
    int error = SSL_get_error(client->ssl, n);
    errno = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
    return -1;
}

static void
run(Client *client)
{
    char bytes[16 * 1024];
    ssize_t n;
    while ((n = receive(client, bytes, sizeof(bytes))) > 0)
        take_bytes(client, bytes, (size_t)n);
    if (n == 0 || errno != EAGAIN)
        load_die("session %u ended: %s", load.up, n == 0 ? "closed" : g_strerror(errno));
}

static void
open_client(Client *client)
{
    client->fd = load_connect(option.port, load.opened++);
    client->line = g_malloc(LINE_MAX_BYTES);
    if (load.tls != NULL) {
        client->ssl = SSL_new(load.tls);
        if (client->ssl == NULL || SSL_set_fd(client->ssl, client->fd) != 1)
            load_die("TLS cannot be set up");
        SSL_set_connect_state(client->ssl);
    }
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client };
    if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        load_die("epoll: %s", g_strerror(errno));
}

static void
turn(int wait_ms)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(load.epoll, events, EVENTS, wait_ms);
    for (int i = 0; i < n; i++)
        run(events[i].data.ptr);
}

/* Until a line comes, or the input ends; what the server says meanwhile is read. */
static void
hold(double until_s)
{
    struct pollfd waits[] = { { .fd = 0, .events = POLLIN },
        { .fd = load.epoll, .events = POLLIN } };
    while (load_now_s() < until_s) {
        if (poll(waits, 2, 1000) <= 0)
            continue;
        if (waits[1].revents != 0)
            turn(0);
        char byte;
        if (waits[0].revents != 0 && (read(0, &byte, 1) <= 0 || byte == '\n'))
            return;
    }
}

static void
read_password(void)
{
    g_autoptr(GError) error = NULL;
    if (!g_file_get_contents(option.password_file, &load.password, NULL, &error))
        load_die("%s", error->message);
    g_strchomp(load.password);
}

static void
start_tls(void)
{
    /* What is measured is the server; its certificate is not the question. */
    load.tls = SSL_CTX_new(TLS_client_method());
    if (load.tls == NULL)
        load_die("TLS cannot be set up");
    SSL_CTX_set_mode(load.tls, SSL_MODE_RELEASE_BUFFERS);
}

int
main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        { "port", 0, 0, G_OPTION_ARG_INT, &option.port, "of 127.0.0.1", "N" },
        { "tls", 0, 0, G_OPTION_ARG_NONE, &option.tls, "TLS from the first byte", NULL },
        { "login", 0, 0, G_OPTION_ARG_STRING, &option.login, "log in, select, idle", "LOGIN" },
        { "password-file", 0, 0, G_OPTION_ARG_FILENAME, &option.password_file, "its password",
            "FILE" },
        { "mailbox", 0, 0, G_OPTION_ARG_STRING, &option.mailbox, "to select (INBOX)", "NAME" },
        { "steps", 0, 0, G_OPTION_ARG_STRING, &option.steps, "sessions that are up", "N,..." },
        { "at-once", 0, 0, G_OPTION_ARG_INT, &option.at_once, "on their way at most (64)", "N" },
        { "seconds", 0, 0, G_OPTION_ARG_INT, &option.seconds, "at most (300)", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "Opens many IMAP sessions on this host and holds them.");
    if (option.port <= 0 || option.steps == NULL || option.at_once < 1)
        load_die("--port and --steps are needed");
    if ((option.login != NULL) != (option.password_file != NULL))
        load_die("--login and --password-file go together");
    if (option.mailbox == NULL)
        option.mailbox = g_strdup("INBOX");
    if (option.login != NULL)
        read_password();
    if (option.tls)
        start_tls();
    load.epoll = epoll_create1(EPOLL_CLOEXEC);

    double begun_s = load_now_s();
    double until_s = begun_s + option.seconds;
    g_auto(GStrv) steps = g_strsplit(option.steps, ",", -1);
    unsigned most = (unsigned)strtoul(steps[g_strv_length(steps) - 1], NULL, 10);
    load_raise_limits(most);
    g_autofree Client *clients = g_new0(Client, most);
    for (char **step = steps; *step != NULL; step++) {
        unsigned wanted = MIN((unsigned)strtoul(*step, NULL, 10), most);
        while (load.up < wanted) {
            while (load.opened < wanted && load.opened - load.up < (unsigned)option.at_once)
                open_client(&clients[load.opened]);
            turn(1000);
            if (load_now_s() > until_s)
                load_die("only %u of %u sessions were up in time", load.up, wanted);
        }
        printf("up %u elapsed_s=%.3f cpu_s=%.3f\n", load.up, load_now_s() - begun_s, load_cpu_s());
        fflush(stdout);
        hold(until_s);
    }
    return 0;
}
