/* ldap-load.c - LDAP clients that search or bind again and again
 *
 * Usage: ldap-load --port N --dn PATTERN [--entries N] [--operation search|bind] [--clients N]
 *        [--password-file FILE] [OPTION...]
 *
 * In PATTERN, %d is the number of an entry, 0 to N - 1, which each request draws. "search" reads that
 * entry (scope base, a filter by mail as programs send it); with a password each client first binds
 * as an entry. "bind" is a simple bind as the entry. Each client sends the next request when the last
 * is answered, rightly: one entry, result 0. When all have had an answer and --warm-up is over, it
 * prints "measuring", then "measured" when the time is over, and then one line of figures.
 */
#include "figures.h"
#include "loop.h"
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TAG_INTEGER = 0x02,
    TAG_OCTETS = 0x04,
    TAG_BOOLEAN = 0x01,
    TAG_ENUMERATED = 0x0a,
    TAG_SEQUENCE = 0x30,
    TAG_BIND = 0x60,
    TAG_BIND_DONE = 0x61,
    TAG_SEARCH = 0x63,
    TAG_ENTRY = 0x64,
    TAG_SEARCH_DONE = 0x65,
    TAG_SIMPLE = 0x80,
    TAG_EQUALITY = 0xa3,
    FIRST_ID = 0x01000000, /* so that all of them have four bytes */
    PDU_MAX_BYTES = 1024 * 1024,
    CLIENTS_PER_ADDRESS = 10000,
    AT_ONCE = 100, /* on their way: more would overflow the queue of a server's listener */
};
static const double no_reply_s = 60;

typedef struct Client {
    Wire wire;
    Timer timer;
    bool served;
    bool bound; /* or need not be */
    uint32_t id;
    uint32_t entry; /* that was asked for */
    unsigned entries_got;
    double begun_s;
    GString *in;
} Client;

static struct {
    int port;
    int clients;
    int entries;
    int seed;
    char *dn;
    char *mail;
    char *operation;
    char *password_file;
    double seconds;
    double warm_up_s;
} option = {
    .clients = 32,
    .entries = 1000,
    .seed = 1,
    .seconds = 5,
    .warm_up_s = 1,
};

static struct {
    GRand *random;
    char *password;
    bool binds;
    unsigned n_served; /* clients that had an answer */
    double measure_s;
    double end_s;
    Samples times;
    unsigned errors;
} load;

/* -- requests ---------------------------------------------------------------------------------- */

static void
append_head(GString *out, int tag, size_t length)
{
    g_string_append_c(out, (char)tag);
    if (length < 0x80) {
        g_string_append_c(out, (char)length);
    } else {
        g_string_append_c(out, (char)0x82);
        g_string_append_c(out, (char)(length >> 8));
        g_string_append_c(out, (char)(length & 0xff));
    }
}

static void
append_bytes(GString *out, int tag, const char *bytes, size_t length)
{
    append_head(out, tag, length);
    g_string_append_len(out, bytes, (gssize)length);
}

static void
append_text(GString *out, int tag, const char *text)
{
    append_bytes(out, tag, text, strlen(text));
}

static void
append_small(GString *out, int tag, int value)
{
    char byte = (char)value;
    append_bytes(out, tag, &byte, 1);
}

/* The pattern with an entry's number in it. */
static char *
with_number(const char *pattern, unsigned n)
{
    g_autofree char *number = g_strdup_printf("%u", n);
    g_auto(GStrv) parts = g_strsplit(pattern, "%d", -1);
    return g_strjoinv(number, parts);
}

static void
send_operation(Client *client, int tag, const GString *content)
{
    g_autoptr(GString) operation = g_string_new(NULL);
    append_bytes(operation, tag, content->str, content->len);
    client->id = client->id + 1;
    char id[4];
    for (int i = 0; i < 4; i++)
        id[i] = (char)(client->id >> (8 * (3 - i)) & 0xff);
    g_autoptr(GString) message = g_string_new(NULL);
    append_bytes(message, TAG_INTEGER, id, sizeof(id));
    g_string_append_len(message, operation->str, (gssize)operation->len);
    g_autoptr(GString) pdu = g_string_new(NULL);
    append_bytes(pdu, TAG_SEQUENCE, message->str, message->len);
    client->begun_s = load_now_s();
    client->entries_got = 0;
    timer_set(&client->timer, client->begun_s + no_reply_s);
    wire_send(&client->wire, pdu->str, pdu->len);
}

static void
send_bind(Client *client)
{
    g_autofree char *dn = with_number(option.dn, client->entry);
    g_autoptr(GString) content = g_string_new(NULL);
    append_small(content, TAG_INTEGER, 3);
    append_text(content, TAG_OCTETS, dn);
    append_text(content, TAG_SIMPLE, load.password);
    send_operation(client, TAG_BIND, content);
}

static void
send_search(Client *client)
{
    static const char *const attributes[] = { "cn", "mail", "sn", "telephoneNumber" };
    g_autofree char *dn = with_number(option.dn, client->entry);
    g_autofree char *mail = with_number(option.mail, client->entry);
    g_autoptr(GString) filter = g_string_new(NULL);
    append_text(filter, TAG_OCTETS, "mail");
    append_text(filter, TAG_OCTETS, mail);
    g_autoptr(GString) names = g_string_new(NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(attributes); i++)
        append_text(names, TAG_OCTETS, attributes[i]);
    g_autoptr(GString) content = g_string_new(NULL);
    append_text(content, TAG_OCTETS, dn);
    append_small(content, TAG_ENUMERATED, 0); /* base */
    append_small(content, TAG_ENUMERATED, 0); /* aliases are not followed */
    append_small(content, TAG_INTEGER, 0);
    append_small(content, TAG_INTEGER, 0);
    append_small(content, TAG_BOOLEAN, 0);
    append_bytes(content, TAG_EQUALITY, filter->str, filter->len);
    append_bytes(content, TAG_SEQUENCE, names->str, names->len);
    send_operation(client, TAG_SEARCH, content);
}

static void
client_next(Client *client)
{
    client->entry = model_uniform(load.random, 0, (unsigned)option.entries - 1);
    if (!client->bound || load.binds)
        send_bind(client);
    else
        send_search(client);
}

/* -- answers ----------------------------------------------------------------------------------- */

typedef struct Element {
    int tag;
    const uint8_t *content;
    size_t length;
    size_t whole; /* with its head */
} Element;

/* False: not all of it is there. */
static bool
take_element(const uint8_t *bytes, size_t size, Element *element)
{
    if (size < 2)
        return false;
    size_t head = 2;
    size_t length = bytes[1];
    if (length >= 0x80) {
        size_t n = length & 0x7f;
        if (n == 0 || n > 4)
            load_die("an answer is no LDAP");
        if (size < 2 + n)
            return false;
        length = 0;
        for (size_t i = 0; i < n; i++)
            length = length << 8 | bytes[2 + i];
        head += n;
    }
    if (length > PDU_MAX_BYTES)
        load_die("an answer is too large");
    if (size < head + length)
        return false;
    *element = (Element){ bytes[0], bytes + head, length, head + length };
    return true;
}

static void
count_error(const char *text)
{
    if (load.errors++ < 10)
        fprintf(stderr, "ldap-load: %s\n", text);
}

static void
take_result(Client *client, Element operation)
{
    Element code;
    bool good = take_element(operation.content, operation.length, &code) &&
                code.tag == TAG_ENUMERATED && code.length == 1;
    if (!good || code.content[0] != 0) {
        g_autofree char *text = g_strdup_printf("a result of code %d", good ? code.content[0] : -1);
        count_error(text);
    } else if (operation.tag == TAG_SEARCH_DONE && client->entries_got != 1) {
        count_error("a search without its entry");
    }
    double now_s = load_now_s();
    bool counts = client->bound && client->begun_s >= load.measure_s && now_s < load.end_s;
    if (counts)
        samples_add(&load.times, now_s - client->begun_s);
    client->bound = true;
    load.n_served += !client->served;
    client->served = true;
    if (now_s < load.end_s)
        client_next(client);
    else
        timer_clear(&client->timer);
}

static void
take_message(Client *client, Element message)
{
    Element id;
    Element operation;
    if (message.tag != TAG_SEQUENCE || !take_element(message.content, message.length, &id) ||
        !take_element(message.content + id.whole, message.length - id.whole, &operation))
        load_die("an answer is no LDAP");
    uint32_t number = 0;
    for (size_t i = 0; i < id.length; i++)
        number = number << 8 | id.content[i];
    if (number != client->id) {
        count_error("an answer to something else");
        return;
    }
    if (operation.tag == TAG_ENTRY)
        client->entries_got++;
    else if (operation.tag == TAG_SEARCH_DONE || operation.tag == TAG_BIND_DONE)
        take_result(client, operation);
}

static Client *
client_of(Wire *wire)
{
    return LOOP_OWNER(Client, wire, wire);
}

static void
client_input(Wire *wire)
{
    Client *client = client_of(wire);
    if (client->begun_s <= 0)
        client_next(client);
    char bytes[16 * 1024];
    ssize_t n;
    while ((n = wire_receive(wire, bytes, sizeof(bytes))) > 0) {
        g_string_append_len(client->in, bytes, n);
        Element message;
        while (take_element((const uint8_t *)client->in->str, client->in->len, &message)) {
            take_message(client, message);
            g_string_erase(client->in, 0, (gssize)message.whole);
        }
    }
    if (n < 0)
        wire_end(wire, "closed by the server");
}

static void
client_ended(Wire *wire, const char *why)
{
    Client *client = client_of(wire);
    timer_clear(&client->timer);
    count_error(why);
}

static void
client_timer(Timer *timer)
{
    Client *client = LOOP_OWNER(Client, timer, timer);
    wire_end(&client->wire, "no reply");
}

static void
open_client(Client *client, unsigned n)
{
    client->wire.input = client_input;
    client->wire.ended = client_ended;
    client->timer.fire = client_timer;
    client->id = FIRST_ID;
    client->bound = load.password == NULL;
    client->in = g_string_new(NULL);
    timer_set(&client->timer, load_now_s() + no_reply_s);
    wire_open(&client->wire, option.port, 0x30000 + n / CLIENTS_PER_ADDRESS, NULL, NULL);
}

int
main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        { "port", 0, 0, G_OPTION_ARG_INT, &option.port, "of 127.0.0.1", "N" },
        { "clients", 0, 0, G_OPTION_ARG_INT, &option.clients, "at once (32)", "N" },
        { "dn", 0, 0, G_OPTION_ARG_STRING, &option.dn, "of an entry, with %d", "PATTERN" },
        { "mail", 0, 0, G_OPTION_ARG_STRING, &option.mail, "of an entry (u%d@example.org)",
            "PATTERN" },
        { "entries", 0, 0, G_OPTION_ARG_INT, &option.entries, "what %d goes through (1000)", "N" },
        { "operation", 0, 0, G_OPTION_ARG_STRING, &option.operation, "search (or bind)", "NAME" },
        { "password-file", 0, 0, G_OPTION_ARG_FILENAME, &option.password_file, "of all entries",
            "FILE" },
        { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &option.seconds, "that are measured (5)", "N" },
        { "warm-up", 0, 0, G_OPTION_ARG_DOUBLE, &option.warm_up_s, "seconds before (1)", "N" },
        { "seed", 0, 0, G_OPTION_ARG_INT, &option.seed, "of what is drawn (1)", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "LDAP clients that search or bind again and again.");
    if (option.port <= 0 || option.dn == NULL || option.clients < 1 || option.entries < 1)
        load_die("--port and --dn are needed");
    if (option.mail == NULL)
        option.mail = g_strdup("u%d@example.org");
    load.binds = option.operation != NULL && g_str_equal(option.operation, "bind");
    if (load.binds && option.password_file == NULL)
        load_die("--password-file is needed");
    g_autoptr(GError) error = NULL;
    if (option.password_file != NULL &&
        !g_file_get_contents(option.password_file, &load.password, NULL, &error))
        load_die("%s", error->message);
    if (load.password != NULL)
        g_strchomp(load.password);
    load_raise_limits((unsigned)option.clients);
    loop_init();
    load.random = g_rand_new_with_seed((uint32_t)option.seed);
    load.measure_s = load.end_s = HUGE_VAL;
    g_autofree Client *clients = g_new0(Client, (unsigned)option.clients);
    /* Many clients take a while to be all there. */
    double patient_until_s = load_now_s() + no_reply_s;
    unsigned n_open = 0;
    unsigned n_clients = (unsigned)option.clients;
    while (load.n_served + load.errors < n_clients && load_now_s() < patient_until_s) {
        while (n_open < n_clients && n_open - MIN(n_open, load.n_served) < AT_ONCE) {
            open_client(&clients[n_open], n_open);
            n_open++;
        }
        loop_run(load_now_s() + 0.01);
    }
    load.measure_s = load_now_s() + option.warm_up_s;
    load.end_s = load.measure_s + option.seconds;
    loop_run(load.measure_s);
    double cpu_s = load_cpu_s();
    printf("measuring\n");
    fflush(stdout);
    loop_run(load.end_s);
    printf("measured\n");
    printf(
        "n=%u elapsed_s=%.3f operations_per_s=%.1f p50_ms=%.3f p95_ms=%.3f p99_ms=%.3f errors=%u cpu_s=%.3f\n",
        samples_count(&load.times), option.seconds, samples_count(&load.times) / option.seconds,
        samples_at(&load.times, 0.5) * 1000, samples_at(&load.times, 0.95) * 1000,
        samples_at(&load.times, 0.99) * 1000, load.errors, load_cpu_s() - cpu_s);
    return load.errors > 0 || samples_count(&load.times) == 0 ? 1 : 0;
}
