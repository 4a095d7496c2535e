/* imap-ops.c - repeats one IMAP command in sessions that are logged in and have a mailbox selected
 *
 * Usage: imap-ops --port N --login LOGIN --password-file FILE [--mailbox NAME] [--clients N]
 *
 * When all sessions are up it prints "up N". Then each line of its input is an order:
 *     once COMMAND          the first session runs the command
 *     run SECONDS COMMAND   every session runs it again and again, the next when the last is answered
 * Each order is answered by one line of figures when it is done; n is how many commands were
 * answered, lines and bytes are of the responses of all of them. A command that is not answered by
 * OK ends the program.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 256 * 1024, EVENTS = 256, SHOWN_BYTES = 200 };

typedef struct Client {
    int fd;
    bool greeted;
    bool busy;
    size_t literal; /* bytes of a literal that are still to come */
    GString *line;  /* the beginning of a line */
} Client;

static struct {
    int port;
    char *login;
    char *password_file;
    char *mailbox;
    int clients;
} option = {
    .clients = 1,
};

static struct {
    int epoll;
    Client *clients;
    unsigned busy;
    GString *command; /* what the sessions repeat, with its tag and line end */
    double until_s;   /* no command begins later */
    double order_until_s;
    uint64_t n;
    uint64_t lines;
    uint64_t bytes;
} load;

/* -- one session ------------------------------------------------------------------------------- */

static void
say(Client *client, const char *text, size_t length)
{
    ssize_t n = send(client->fd, text, length, MSG_NOSIGNAL);
    /* Short lines into an empty socket: all or nothing. */
    if (n != (ssize_t)length)
        load_die("a command could not be sent");
    client->busy = true;
    load.busy++;
}

static void
tagged(Client *client, const char *line)
{
    if (strncmp(line, "a OK", 4) != 0)
        load_die("refused: %.*s", SHOWN_BYTES, line);
    client->busy = false;
    load.busy--;
    load.n++;
    if (load_now_s() < load.until_s)
        say(client, load.command->str, load.command->len);
}

/* The length of the literal that a line announces at its end, 0 without one. */
static size_t
announced(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '}')
        return 0;
    const char *open = g_strrstr_len(line, (gssize)length, "{");
    return open != NULL ? strtoul(open + 1, NULL, 10) : 0;
}

static void
take_line(Client *client, char *line, size_t length)
{
    if (length > 0 && line[length - 1] == '\r')
        line[--length] = '\0';
    load.lines++;
    client->literal = announced(line, length);
    if (!client->greeted) {
        if (strncmp(line, "* OK", 4) != 0)
            load_die("refused: %.*s", SHOWN_BYTES, line);
        client->greeted = true;
        load.busy--;
        client->busy = false;
    } else if (line[0] == 'a' && line[1] == ' ') {
        tagged(client, line);
    } else if (strncmp(line, "* BYE", 5) == 0) {
        load_die("the server ends the session: %.*s", SHOWN_BYTES, line);
    }
}

static void
take_bytes(Client *client, char *bytes, size_t length)
{
    load.bytes += length;
    while (length > 0) {
        if (client->literal > 0) {
            size_t n = MIN(client->literal, length);
            client->literal -= n;
            bytes += n;
            length -= n;
            continue;
        }
        char *end = memchr(bytes, '\n', length);
        size_t n = end != NULL ? (size_t)(end - bytes) : length;
        if (end == NULL || client->line->len > 0)
            g_string_append_len(client->line, bytes, (gssize)n);
        if (client->line->len > LINE_MAX_BYTES)
            load_die("a line has no end");
        if (end == NULL)
            return;
        *end = '\0';
        if (client->line->len > 0) {
            /* The callee answers with the line's own bytes only; it is empty again afterwards. */
            take_line(client, client->line->str, client->line->len);
            g_string_truncate(client->line, 0);
        } else {
            take_line(client, bytes, n);
        }
        bytes += n + 1;
        length -= n + 1;
    }
}

static void
receive(Client *client)
{
    char bytes[64 * 1024];
    ssize_t n;
    while ((n = recv(client->fd, bytes, sizeof(bytes), 0)) > 0)
        take_bytes(client, bytes, (size_t)n);
    if (n == 0 || errno != EAGAIN)
        load_die("a session ended: %s", n == 0 ? "closed" : g_strerror(errno));
}

/* -- orders ------------------------------------------------------------------------------------ */

/* Until no session waits for an answer. */
static void
settle(void)
{
    while (load.busy > 0) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(load.epoll, events, EVENTS, 1000);
        for (int i = 0; i < n; i++)
            receive(events[i].data.ptr);
        if (load_now_s() > load.order_until_s)
            load_die("%u sessions wait for an answer", load.busy);
    }
}

static void
begin(const char *command, double seconds, unsigned n_clients)
{
    double begun_s = load_now_s();
    double begun_cpu_s = load_cpu_s();
    load.n = load.lines = load.bytes = 0;
    load.until_s = seconds > 0 ? begun_s + seconds : 0;
    load.order_until_s = begun_s + seconds + 300;
    g_string_printf(load.command, "a %s\r\n", command);
    for (unsigned i = 0; i < n_clients; i++)
        say(&load.clients[i], load.command->str, load.command->len);
    settle();
    printf("n=%" G_GUINT64_FORMAT " elapsed_s=%.4f cpu_s=%.4f lines=%" G_GUINT64_FORMAT
           " bytes=%" G_GUINT64_FORMAT "\n",
        load.n, load_now_s() - begun_s, load_cpu_s() - begun_cpu_s, load.lines, load.bytes);
    fflush(stdout);
}

static void
obey(char *order)
{
    g_strchomp(order);
    if (g_str_has_prefix(order, "once ")) {
        begin(order + strlen("once "), 0, 1);
    } else if (g_str_has_prefix(order, "run ")) {
        char *command;
        double seconds = g_ascii_strtod(order + strlen("run "), &command);
        if (seconds <= 0 || *command != ' ')
            load_die("\"%s\" is no order", order);
        begin(command + 1, seconds, (unsigned)option.clients);
    } else {
        load_die("\"%s\" is no order", order);
    }
}

static void
open_client(Client *client, unsigned n)
{
    client->fd = load_connect(option.port, n);
    client->line = g_string_new(NULL);
    client->busy = true;
    load.busy++;
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = client };
    if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        load_die("epoll: %s", g_strerror(errno));
}

static void
say_to_all(const char *text)
{
    for (int i = 0; i < option.clients; i++)
        say(&load.clients[i], text, strlen(text));
    settle();
}

int
main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        { "port", 0, 0, G_OPTION_ARG_INT, &option.port, "of 127.0.0.1", "N" },
        { "login", 0, 0, G_OPTION_ARG_STRING, &option.login, "whose mailbox", "LOGIN" },
        { "password-file", 0, 0, G_OPTION_ARG_FILENAME, &option.password_file, "its password",
            "FILE" },
        { "mailbox", 0, 0, G_OPTION_ARG_STRING, &option.mailbox, "to select (INBOX)", "NAME" },
        { "clients", 0, 0, G_OPTION_ARG_INT, &option.clients, "sessions (1)", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "Repeats an IMAP command in sessions on this host.");
    if (option.port <= 0 || option.login == NULL || option.password_file == NULL)
        load_die("--port, --login and --password-file are needed");
    if (option.clients < 1)
        load_die("at least one client");
    g_autofree char *password = NULL;
    g_autoptr(GError) error = NULL;
    if (!g_file_get_contents(option.password_file, &password, NULL, &error))
        load_die("%s", error->message);
    g_strchomp(password);
    load_raise_limits((unsigned)option.clients);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    load.command = g_string_new(NULL);
    load.clients = g_new0(Client, (unsigned)option.clients);
    load.order_until_s = load_now_s() + 300;

    for (int i = 0; i < option.clients; i++)
        open_client(&load.clients[i], (unsigned)i);
    settle();
    g_autofree char *login = g_strdup_printf("a LOGIN \"%s\" \"%s\"\r\n", option.login, password);
    say_to_all(login);
    g_autofree char *select =
        g_strdup_printf("a SELECT \"%s\"\r\n", option.mailbox != NULL ? option.mailbox : "INBOX");
    say_to_all(select);
    printf("up %d\n", option.clients);
    fflush(stdout);
    char *order = NULL;
    size_t size = 0;
    while (getline(&order, &size, stdin) >= 0)
        obey(order);
    free(order);
    return 0;
}
