/* smtp-load.c - sends messages by SMTP or LMTP, as fast as the server takes them
 *
 * Usage: smtp-load --port N [--lmtp] [--connections N] [--messages N] [--size BYTES] [--recipient
 *        PATTERN] [--accounts N] [--seconds N]
 *
 * Each connection sends its share of the messages, one after the other, and is closed after the
 * last. Where the server offers PIPELINING, the envelope goes out whole, and that of the next
 * message with the body of this one (RFC 2920 3.1). In PATTERN, %d is the number of the account, 0
 * to N - 1: message after message goes to the next one. Prints one line of figures; the time is
 * from the first connect to the last 250. Exit status: 0 when all messages were taken.
 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REPLY_MAX_BYTES = 16 * 1024, EVENTS = 256 };

/* What the next reply answers. A connection waits for these in order. */
typedef enum Step {
    STEP_GREETING,
    STEP_HELLO,
    STEP_MAIL,
    STEP_RCPT,
    STEP_DATA,
    STEP_BODY,
    STEP_QUIT,
    STEP_END,
} Step;

typedef struct Client {
    int fd;
    Step step;
    bool pipelining;
    bool begun;    /* the envelope of the message under way was sent */
    unsigned left; /* messages to send, the one under way included */
    GString *in;
    GString *out;
    size_t sent;
} Client;

static struct {
    int port;
    bool lmtp;
    int connections;
    int messages;
    int size_bytes;
    char *recipient;
    int accounts;
    int seconds;
} option = {
    .connections = 1,
    .messages = 1,
    .size_bytes = 8192,
    .accounts = 1,
    .seconds = 300,
};

static struct {
    int epoll;
    GString *body;
    unsigned next_account;
    unsigned taken;
    unsigned open;
    GHashTable *errors; /* reply code -> count */
    double last_taken_s;
} load;

static void
count_error(int code)
{
    void *key = GINT_TO_POINTER(code);
    int so_far = GPOINTER_TO_INT(g_hash_table_lookup(load.errors, key));
    g_hash_table_insert(load.errors, key, GINT_TO_POINTER(so_far + 1));
}

/* -- sending ----------------------------------------------------------------------------------- */

static void
make_body(void)
{
    load.body = g_string_new("From: Load <load@example.org>\r\nTo: undisclosed-recipients:;\r\n"
                             "Subject: load\r\nDate: Thu, 01 Jan 2026 00:00:00 +0000\r\n\r\n");
    /* Text that compresses about as well as text does. */
    unsigned seed = 1;
    while (load.body->len < (size_t)option.size_bytes) {
        for (int i = 0; i < 12; i++) {
            seed = seed * 1103515245 + 12345;
            g_string_append_printf(load.body, "%05x ", (seed >> 12) & 0xfffff);
        }
        g_string_append(load.body, "\r\n");
    }
}

static void
say_recipient(Client *client)
{
    g_autofree char *number = g_strdup_printf("%u", load.next_account);
    load.next_account = (load.next_account + 1) % (unsigned)option.accounts;
    g_auto(GStrv) parts = g_strsplit(option.recipient, "%d", -1);
    g_autofree char *address = g_strjoinv(number, parts);
    g_string_append_printf(client->out, "RCPT TO:<%s>\r\n", address);
}

static void
say_mail(Client *client)
{
    g_string_append(client->out, "MAIL FROM:<load@example.org>\r\n");
    if (client->pipelining) {
        say_recipient(client);
        g_string_append(client->out, "DATA\r\n");
    }
    client->begun = true;
}

static void
say_body(Client *client)
{
    g_string_append_len(client->out, load.body->str, (gssize)load.body->len);
    g_string_append(client->out, ".\r\n");
}

/* The next message, or goodbye. */
static Step
go_on(Client *client)
{
    if (client->left == 0) {
        g_string_append(client->out, "QUIT\r\n");
        return STEP_QUIT;
    }
    if (!client->begun)
        say_mail(client);
    return STEP_MAIL;
}

/* -- receiving --------------------------------------------------------------------------------- */

/* A whole reply came: its code, and all of its lines. */
static Step
answer(Client *client, int code, const char *text)
{
    bool good = code >= 200 && code < 400;
    if (!good)
        count_error(code);
    switch (client->step) {
    case STEP_GREETING:
        if (!good)
            return STEP_END;
        g_string_append_printf(
            client->out, "%s load.example.org\r\n", option.lmtp ? "LHLO" : "EHLO");
        return STEP_HELLO;
    case STEP_HELLO:
        client->pipelining = strstr(text, "PIPELINING") != NULL;
        return good ? go_on(client) : STEP_END;
    case STEP_MAIL:
        if (!client->pipelining)
            say_recipient(client);
        return STEP_RCPT;
    case STEP_RCPT:
        if (!client->pipelining)
            g_string_append(client->out, "DATA\r\n");
        return STEP_DATA;
    case STEP_DATA:
        client->begun = false;
        client->left--;
        if (!good)
            return go_on(client);
        say_body(client);
        if (client->pipelining && client->left > 0)
            say_mail(client);
        return STEP_BODY;
    case STEP_BODY:
        if (good) {
            load.taken++;
            load.last_taken_s = load_now_s();
        }
        return go_on(client);
    case STEP_QUIT:
    case STEP_END:
        return STEP_END;
    }
    return STEP_END;
}

/* The length of a whole reply at the start of the text; 0: more is to come. */
static size_t
reply_length(const char *text)
{
    for (const char *line = text;;) {
        const char *end = strchr(line, '\n');
        if (end == NULL)
            return 0;
        if (end - line < 4 || line[3] != '-')
            return (size_t)(end - text) + 1;
        line = end + 1;
    }
}

static void
take_replies(Client *client)
{
    size_t length;
    while (client->step != STEP_END && (length = reply_length(client->in->str)) > 0) {
        g_autofree char *text = g_strndup(client->in->str, length);
        g_string_erase(client->in, 0, (gssize)length);
        client->step = answer(client, atoi(text), text);
    }
    if (client->in->len > REPLY_MAX_BYTES)
        load_die("a reply has no end");
}

static void
finish(Client *client)
{
    /* 0 in the count of errors: the connection ended before its messages were sent. */
    if (client->step != STEP_END && client->step != STEP_QUIT)
        count_error(0);
    close(client->fd);
    g_string_free(client->in, TRUE);
    g_string_free(client->out, TRUE);
    client->fd = -1;
    load.open--;
}

/* False: the connection is over. */
static bool
receive(Client *client)
{
    char bytes[16 * 1024];
    ssize_t n;
    while ((n = recv(client->fd, bytes, sizeof(bytes), 0)) > 0) {
        g_string_append_len(client->in, bytes, n);
        take_replies(client);
        if ((size_t)n < sizeof(bytes))
            return client->step != STEP_END;
    }
    return n < 0 && errno == EAGAIN;
}

static bool
transmit(Client *client)
{
    while (client->sent < client->out->len) {
        ssize_t n = send(client->fd, client->out->str + client->sent,
            client->out->len - client->sent, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN;
        client->sent += (size_t)n;
    }
    g_string_truncate(client->out, 0);
    client->sent = 0;
    return true;
}

static void
run(Client *client)
{
    if (!receive(client) || !transmit(client))
        finish(client);
}

static void
open_client(Client *client, unsigned n, unsigned messages)
{
    client->fd = load_connect(option.port, n);
    client->left = messages;
    client->in = g_string_new(NULL);
    client->out = g_string_new(NULL);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client };
    if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
        load_die("epoll: %s", g_strerror(errno));
    load.open++;
}

static void
report(double begun_s)
{
    double elapsed_s = load.last_taken_s > 0 ? load.last_taken_s - begun_s : 0;
    printf("messages=%u elapsed_s=%.3f messages_per_s=%.1f cpu_s=%.3f", load.taken, elapsed_s,
        elapsed_s > 0 ? load.taken / elapsed_s : 0, load_cpu_s());
    GHashTableIter iter;
    void *code;
    void *count;
    g_hash_table_iter_init(&iter, load.errors);
    while (g_hash_table_iter_next(&iter, &code, &count))
        printf(" error_%d=%d", GPOINTER_TO_INT(code), GPOINTER_TO_INT(count));
    printf("\n");
}

int
main(int argc, char **argv)
{
    int lmtp = 0;
    const GOptionEntry entries[] = {
        { "port", 0, 0, G_OPTION_ARG_INT, &option.port, "of 127.0.0.1", "N" },
        { "lmtp", 0, 0, G_OPTION_ARG_NONE, &lmtp, "LMTP instead of SMTP", NULL },
        { "connections", 0, 0, G_OPTION_ARG_INT, &option.connections, "at once (1)", "N" },
        { "messages", 0, 0, G_OPTION_ARG_INT, &option.messages, "in total (1)", "N" },
        { "size", 0, 0, G_OPTION_ARG_INT, &option.size_bytes, "of a message (8192)", "BYTES" },
        { "recipient", 0, 0, G_OPTION_ARG_STRING, &option.recipient, "its address", "PATTERN" },
        { "accounts", 0, 0, G_OPTION_ARG_INT, &option.accounts, "what %d goes through (1)", "N" },
        { "seconds", 0, 0, G_OPTION_ARG_INT, &option.seconds, "at most (300)", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "Sends messages by SMTP or LMTP to this host.");
    option.lmtp = lmtp != 0;
    if (option.port <= 0 || option.recipient == NULL)
        load_die("--port and --recipient are needed");
    if (option.connections < 1 || option.messages < option.connections || option.accounts < 1)
        load_die("at least one connection, one account, and a message for each connection");
    load_raise_limits((unsigned)option.connections);
    make_body();
    load.errors = g_hash_table_new(NULL, NULL);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);

    double begun_s = load_now_s();
    unsigned n_clients = (unsigned)option.connections;
    unsigned messages = (unsigned)option.messages;
    g_autofree Client *clients = g_new0(Client, n_clients);
    for (unsigned i = 0; i < n_clients; i++)
        open_client(&clients[i], i, messages / n_clients + (i < messages % n_clients ? 1 : 0));
    while (load.open > 0 && load_now_s() - begun_s < option.seconds) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(load.epoll, events, EVENTS, 1000);
        for (int i = 0; i < n; i++)
            run(events[i].data.ptr);
    }
    report(begun_s);
    return load.taken == messages ? 0 : 1;
}
