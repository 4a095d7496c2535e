/* web99.c - many simultaneous web clients with a mix of small and large files and pages
 *
 * Usage: web99 --make DIR --directories N            make the file set
 *        web99 --port N --connections L [OPTION...]  play the load
 *
 * L clients ask one thing after another, without a pause (a closed loop). Where --rate is not 0, each
 * reads at that many bits a second as a token bucket has it, and conforms when its own measured rate
 * is high enough and its errors are few; with 0 they read as fast as they can. Files, pages and how
 * connections are kept are drawn as model.h and README.md say. With pages in the mix the
 * application's tables are reset first, each advertisement that a page chose is worked out here as
 * well, and its log of posts is compared with what was posted. It prints "measuring" and "measured"
 * around what counts, so that another program can read the server's CPU at both ends.
 *
 * Exit status: 0 when all answers were right, all posts are in the log, and, with a rate, enough
 * connections conformed.
 */
#include "figures.h"
#include "loop.h"
#include "model.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    HEAD_MAX_BYTES = 16 * 1024,
    BODY_KEPT_MAX_BYTES = 64 * 1024 * 1024,
    CHECK_EVERY = 50, /* answers of which one is looked at byte by byte */
    PACE_BYTES = 1460,
    PACE_BURST_BYTES = 2 * PACE_BYTES,
    PACE_RECEIVE_BUFFER = 16 * 1024,
    CLIENTS_PER_ADDRESS = 50,
    USER_OFFSET = 10000,
    ADS = 360,
    AD_WEIGHTS = 5,
    POST_RECORD_BYTES = 139,
    POSTS_A_FETCH = 5000,
    TROUBLES_TOLD = 10,
    WRAPPER_MIN_BYTES = 100, /* of a page around its file */
    WRAPPER_MAX_BYTES = 1200,
};
static const double no_reply_s = 60;

typedef enum Kind {
    KIND_STATIC,
    KIND_PAGE,
    KIND_AD,
    KIND_POST,
    KIND_CGI,
    KINDS,
    KIND_COMMAND = KINDS
} Kind;

static const char *const kind_names[KINDS] = { "static", "page", "ad", "post", "cgi" };

typedef struct Ad {
    uint32_t mask;
    uint32_t weights; /* five of 4 bits, gender in the highest */
    uint32_t minimum;
    int64_t expiry_s;
} Ad;

/* What a client's timer is for. */
typedef enum Waiting { TIMER_PACE, TIMER_NEXT, TIMER_PATIENCE } Waiting;

typedef struct Client {
    Wire wire;
    Timer timer; /* pacing, the earliest end of an operation, or the end of patience */
    Waiting waits_for;
    unsigned n;
    bool open;
    bool keep_alive;
    bool greeted;  /* the handshake was counted */
    unsigned left; /* requests on this connection, the one under way included */
    SSL_SESSION *session;
    /* the request under way */
    bool busy;
    Kind kind;
    ModelFile file;
    unsigned user;
    unsigned last_ad;
    bool checks;
    double begun_s;
    double first_s;
    uint64_t bytes; /* head and body */
    GString *head;
    bool in_body;
    bool has_length;
    bool closes; /* the server will close */
    uint64_t length;
    uint64_t got;
    uint32_t sum;
    GString *body;
    /* pacing */
    double tokens;
    double tokens_s;
    /* what was measured */
    uint64_t measured_bytes;
    unsigned operations;
    unsigned errors;
} Client;

static struct {
    int port;
    int tls;
    int connections;
    int directories;
    int seed;
    int from_connections;
    int requests_min;
    int requests_max;
    int describe;
    char *make;
    char *json;
    char *mix;
    char *classes;
    char *prefix;
    char *host;
    char *page;
    char *cgi;
    char *ciphers;
    double seconds;
    double warm_up_s;
    double ramp_s;
    double rate;
    double rate_min;
    double keep_share;
    double resume_share;
    double conform_share;
    double error_limit;
} option = {
    .connections = 50,
    .seed = 1,
    .requests_min = 5,
    .requests_max = 15,
    .seconds = 60,
    .warm_up_s = 10,
    .ramp_s = 0,
    .rate = 400000,
    .rate_min = 320000,
    .keep_share = 0.7,
    .resume_share = 0.75,
    .conform_share = 0.95,
    .error_limit = 0.01,
};

static struct {
    GRand *random;
    SSL_CTX *tls;
    ModelFiles *files;
    ModelTable *mix;
    double new_kept_share; /* of new connections, those that are kept */
    Client *clients;
    unsigned n_users;
    uint32_t *user_masks;
    unsigned *user_ads; /* the last one each saw */
    Ad ads[ADS];
    int64_t reset_s;
    Timer progress;
    double begun_s;
    double measure_s;
    double end_s;
    bool running;
    unsigned troubles_told;
    uint64_t answers;
    /* of one command */
    GString *command_body;
    bool command_done;
    /* posts, all of the run */
    GHashTable *posts; /* record without what the server adds -> count */
    unsigned n_posts;
    bool uses_pages;
} load;

static struct {
    Samples response[KINDS];
    Samples all;
    Samples first;
    unsigned classes[MODEL_CLASSES];
    unsigned errors;
    uint64_t bytes;
    unsigned connects;
    unsigned full_handshakes;
    unsigned resumed_handshakes;
    unsigned bodies_checked;
    unsigned ads_checked;
    uint64_t ads_examined;
    unsigned posts_found;
    unsigned posts_missing;
    unsigned posts_strange;
} figures;

/* -- the application's tables, as the server's pages make them too ----------------------------- */

/* The same steps as in web99-site/tables.lua. */
typedef struct Steps {
    uint32_t state;
} Steps;

static unsigned
steps_below(Steps *steps, unsigned n)
{
    steps->state = (steps->state * 1103515245u + 12345u) & 0x7fffffffu;
    return (steps->state >> 8) % n;
}

static const struct {
    unsigned shift;
    unsigned bits;
} fields[AD_WEIGHTS] = { { 28, 2 }, { 24, 4 }, { 20, 4 }, { 10, 10 }, { 0, 10 } };

static void
make_tables(void)
{
    Steps steps = { .state = 1 };
    for (unsigned i = 0; i < load.n_users; i++) {
        uint32_t mask = 0;
        for (unsigned f = 0; f < AD_WEIGHTS; f++)
            mask |= 1u << (fields[f].shift + steps_below(&steps, fields[f].bits));
        load.user_masks[i] = mask;
    }
    for (unsigned i = 0; i < ADS; i++) {
        Ad *ad = &load.ads[i];
        *ad = (Ad){ .mask = 0 };
        for (unsigned f = 0; f < AD_WEIGHTS; f++) {
            for (unsigned n = 1 + steps_below(&steps, 3); n > 0; n--)
                ad->mask |= 1u << (fields[f].shift + steps_below(&steps, fields[f].bits));
        }
        for (unsigned f = 0; f < AD_WEIGHTS; f++)
            ad->weights = ad->weights << 4 | steps_below(&steps, 16);
        ad->minimum = 20 + steps_below(&steps, 20);
        bool expired = steps_below(&steps, 20) == 0;
        ad->expiry_s =
            expired ? load.reset_s - 600 : load.reset_s + 600 + steps_below(&steps, 86400 - 600);
    }
}

static unsigned
ad_weight(const Ad *ad, uint32_t user_mask)
{
    unsigned sum = 0;
    for (unsigned f = 0; f < AD_WEIGHTS; f++) {
        uint32_t bits = ((1u << fields[f].bits) - 1) << fields[f].shift;
        if ((ad->mask & user_mask & bits) != 0)
            sum += ad->weights >> (4 * (AD_WEIGHTS - 1 - f)) & 15;
    }
    return sum;
}

/* The ad that comes next after `last`, its weight, and how many were looked at. */
static unsigned
choose_ad(uint32_t user_mask, unsigned last, unsigned *weight_out, unsigned *examined_out)
{
    unsigned n = last;
    unsigned weight = 0;
    unsigned examined = 0;
    do {
        n = (n + 1) % ADS;
        weight = ad_weight(&load.ads[n], user_mask);
        examined++;
    } while (weight < load.ads[n].minimum && n != last);
    *weight_out = weight;
    *examined_out = examined;
    return n;
}

/* -- the file set ------------------------------------------------------------------------------ */

static int
make_files(void)
{
    uint64_t bytes = 0;
    for (unsigned d = 0; d < (unsigned)option.directories; d++) {
        g_autofree char *folder = g_strdup_printf("%s/dir%05u", option.make, d);
        if (g_mkdir_with_parents(folder, 0755) != 0)
            load_die("%s: %s", folder, g_strerror(errno));
        for (unsigned i = 0; i < MODEL_DIRECTORY_FILES; i++) {
            ModelFile file = { .directory = d, .class = i / MODEL_FILES, .file = i % MODEL_FILES };
            char path[MODEL_PATH_LENGTH + 1];
            model_file_path(file, path);
            g_autofree char *name = g_strdup_printf("%s/%s", option.make, path);
            g_autoptr(GString) text = model_file_make(file);
            g_autoptr(GError) error = NULL;
            if (!g_file_set_contents_full(
                    name, text->str, (gssize)text->len, G_FILE_SET_CONTENTS_NONE, 0644, &error))
                load_die("%s", error->message);
            bytes += text->len;
        }
    }
    printf("directories=%d files=%d bytes=%" G_GUINT64_FORMAT "\n", option.directories,
        option.directories * MODEL_DIRECTORY_FILES, bytes);
    return 0;
}

/* FNV-1a, on and on. */
static uint32_t
add_to_sum(uint32_t sum, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ (uint8_t)bytes[i]) * 16777619u;
    return sum;
}
static const uint32_t empty_sum = 2166136261u;

static uint32_t
sum_of_file(ModelFile file)
{
    g_autoptr(GString) text = model_file_make(file);
    return add_to_sum(empty_sum, text->str, text->len);
}

/* -- measuring --------------------------------------------------------------------------------- */

static bool
is_measured(double at_s)
{
    return at_s >= load.measure_s && at_s < load.end_s;
}

static void
count_error(Client *client, const char *text)
{
    char path[MODEL_PATH_LENGTH + 1];
    model_file_path(client->file, path);
    if (load.troubles_told++ < TROUBLES_TOLD)
        fprintf(stderr, "web99: %s %s: %.200s\n",
            client->kind < KINDS ? kind_names[client->kind] : "command", path, text);
    if (is_measured(load_now_s())) {
        client->errors++;
        figures.errors++;
    }
}

/* -- requests ---------------------------------------------------------------------------------- */

static void client_next(Client *client);
static void client_pump(Client *client);

static void
wait_for(Client *client, Waiting what, double at_s)
{
    client->waits_for = what;
    timer_set(&client->timer, at_s);
}

static void
open_connection(Client *client)
{
    client->keep_alive = g_rand_double(load.random) < load.new_kept_share;
    client->left = client->keep_alive ? model_uniform(load.random, (unsigned)option.requests_min,
                                            (unsigned)option.requests_max)
                                      : 1;
    client->greeted = false;
    client->open = true;
    bool resumes = client->session != NULL && g_rand_double(load.random) < option.resume_share;
    if (is_measured(load_now_s()))
        figures.connects++;
    wire_open(&client->wire, option.port, 0x20000 + client->n / CLIENTS_PER_ADDRESS, load.tls,
        resumes ? client->session : NULL);
    if (option.rate > 0) {
        int mss = PACE_BYTES;
        setsockopt(client->wire.fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss));
    }
}

static void
close_connection(Client *client)
{
    wire_close(&client->wire);
    client->open = false;
}

static void
append_common(Client *client, GString *text)
{
    g_string_append_printf(text, "Host: %s\r\n", option.host);
    if (client->keep_alive && client->left == 1)
        g_string_append(text, "Connection: close\r\n");
}

static void
send_request(Client *client)
{
    char path[MODEL_PATH_LENGTH + 1];
    model_file_path(client->file, path);
    const char *version = client->keep_alive ? "1.1" : "1.0";
    g_autoptr(GString) text = g_string_new(NULL);
    switch (client->kind) {
    case KIND_STATIC:
        g_string_printf(text, "GET %s/%s HTTP/%s\r\n", option.prefix, path, version);
        append_common(client, text);
        break;
    case KIND_PAGE:
    case KIND_CGI:
        g_string_printf(text, "GET %s?%s/%s HTTP/%s\r\n",
            client->kind == KIND_CGI ? option.cgi : option.page, option.prefix, path, version);
        append_common(client, text);
        break;
    case KIND_AD:
        g_string_printf(
            text, "GET %s?%s/%s HTTP/%s\r\n", option.page, option.prefix, path, version);
        append_common(client, text);
        g_string_append_printf(text, "Cookie: my_cookie=user_id=%u&last_ad=%u\r\n",
            client->user + USER_OFFSET, client->last_ad);
        break;
    case KIND_POST: {
        g_autofree char *body = g_strdup_printf("urlroot=%s&dir=%05u&class=%u&num=%u&client=%u",
            option.prefix[0] != '\0' ? option.prefix : "/", client->file.directory,
            client->file.class, client->file.file, client->n + USER_OFFSET);
        g_string_printf(text, "POST %s HTTP/%s\r\n", option.page, version);
        append_common(client, text);
        g_string_append_printf(text,
            "Cookie: my_cookie=user_id=%u&last_ad=%u\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n",
            client->user + USER_OFFSET, client->last_ad, strlen(body));
        g_string_append_printf(text, "\r\n%s", body);
        break;
    }
    case KINDS:
        break;
    }
    if (client->kind != KIND_POST)
        g_string_append(text, "\r\n");
    wire_send(&client->wire, text->str, text->len);
}

static void
begin_request(Client *client)
{
    client->busy = true;
    client->in_body = false;
    client->bytes = 0;
    client->got = 0;
    client->sum = empty_sum;
    client->begun_s = load_now_s();
    client->first_s = 0;
    client->kind = model_table_draw(load.mix, load.random);
    client->file = model_files_draw(load.files, load.random);
    client->user = model_uniform(load.random, 0, load.n_users - 1);
    client->last_ad = load.user_ads[client->user];
    client->checks = load.answers++ % CHECK_EVERY == 0;
    g_string_truncate(client->head, 0);
    g_string_truncate(client->body, 0);
    wait_for(client, TIMER_PATIENCE, client->begun_s + no_reply_s);
    send_request(client);
}

/* -- answers ----------------------------------------------------------------------------------- */

/* The value of a field of the head, or null; names are compared without case. */
static char *
head_field(const GString *head, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = strchr(head->str, '\n'); line != NULL; line = strchr(line, '\n')) {
        line++;
        if (g_ascii_strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        const char *end = strchr(line, '\n');
        return g_strstrip(g_strndup(line + length + 1, (size_t)(end - line) - length - 1));
    }
    return NULL;
}

/* False: it is an error already. */
static bool
take_head(Client *client)
{
    client->in_body = true;
    if (!g_str_has_prefix(client->head->str, "HTTP/1.") ||
        strncmp(client->head->str + strlen("HTTP/1.x "), "200", 3) != 0) {
        count_error(client, client->head->str);
        return false;
    }
    g_autofree char *length = head_field(client->head, "Content-Length");
    if (length == NULL) {
        count_error(client, "an answer without a length");
        return false;
    }
    client->length = strtoull(length, NULL, 10);
    g_autofree char *connection = head_field(client->head, "Connection");
    bool says_close = connection != NULL && g_ascii_strcasecmp(connection, "close") == 0;
    client->closes = !client->keep_alive || client->left == 1 || says_close;
    return true;
}

/* The file within a page; `marked` tells where the path of a marker may be another ad's. */
static const char *
file_in_page(const Client *client, size_t *length_out)
{
    static const char begin[] = "<pre>\n";
    const char *at = strstr(client->body->str, begin);
    const char *end = g_strrstr(client->body->str, "</pre>");
    if (at == NULL || end == NULL || end < at + strlen(begin))
        return NULL;
    at += strlen(begin);
    *length_out = (size_t)(end - at);
    return at;
}

static bool
check_page_body(Client *client, unsigned ad)
{
    size_t length;
    const char *text = file_in_page(client, &length);
    g_autoptr(GString) want = model_file_make(client->file);
    if (text == NULL)
        return false;
    char *marker = client->kind == KIND_AD ? strstr(want->str, MODEL_MARKER) : NULL;
    if (marker != NULL) {
        char path[MODEL_PATH_LENGTH + 1];
        model_file_path(
            (ModelFile){ .directory = ad / 36, .class = ad % 36 / 9, .file = ad % 9 }, path);
        memcpy(marker + strlen(MODEL_MARKER), path, MODEL_PATH_LENGTH);
    }
    return length == want->len && memcmp(text, want->str, length) == 0;
}

/* The advertisement that the page chose is the one that it should have. */
static bool
check_ad(Client *client, unsigned *ad_out)
{
    g_autofree char *cookie = head_field(client->head, "Set-Cookie");
    unsigned weight;
    unsigned examined;
    unsigned ad = choose_ad(load.user_masks[client->user], client->last_ad, &weight, &examined);
    bool expired = g_get_real_time() / G_USEC_PER_SEC > load.ads[ad].expiry_s;
    g_autofree char *want = g_strdup_printf(
        "found_cookie=Ad_id=%u&Ad_weight=%u&Expired=%d", ad, weight, expired ? 1 : 0);
    *ad_out = ad;
    if (cookie == NULL || !g_str_has_prefix(cookie, want)) {
        g_autofree char *text =
            g_strdup_printf("wanted %s, got %s", want, cookie != NULL ? cookie : "no cookie");
        count_error(client, text);
        return false;
    }
    load.user_ads[client->user] = ad;
    if (is_measured(client->begun_s)) {
        figures.ads_checked++;
        figures.ads_examined += examined;
    }
    return true;
}

/* What of a record in the log of posts is known here. */
static char *
post_key(unsigned directory, unsigned class, unsigned file, unsigned client, const char *name,
    unsigned user)
{
    return g_strdup_printf("%u %u %u %u %s %u", directory, class, file, client, name, user);
}

static void
note_post(Client *client)
{
    char path[MODEL_PATH_LENGTH + 1];
    model_file_path(client->file, path);
    g_autofree char *name = g_strdup_printf("%s/%s", option.prefix, path);
    char *key = post_key(client->file.directory, client->file.class, client->file.file,
        client->n + USER_OFFSET, name, client->user + USER_OFFSET);
    int count = GPOINTER_TO_INT(g_hash_table_lookup(load.posts, key));
    g_hash_table_insert(load.posts, key, GINT_TO_POINTER(count + 1));
    load.n_posts++;
}

static bool
check_answer(Client *client)
{
    uint32_t size = model_file_size(client->file.class, client->file.file);
    if (client->kind == KIND_STATIC) {
        if (client->length != size) {
            count_error(client, "a file of another length");
            return false;
        }
        if (client->checks && client->sum != sum_of_file(client->file)) {
            count_error(client, "a file with other bytes");
            return false;
        }
    } else {
        if (client->length < size + WRAPPER_MIN_BYTES ||
            client->length > size + WRAPPER_MAX_BYTES) {
            count_error(client, "a page of another length");
            return false;
        }
        unsigned ad = 0;
        if (client->kind == KIND_AD && !check_ad(client, &ad))
            return false;
        if (client->checks && !check_page_body(client, ad)) {
            count_error(client, "a page with other bytes");
            return false;
        }
    }
    if (client->kind == KIND_POST) {
        g_autofree char *cookie = head_field(client->head, "Set-Cookie");
        g_autofree char *want = g_strdup_printf("my_cookie=%u", client->user + USER_OFFSET);
        if (cookie == NULL || !g_str_has_prefix(cookie, want)) {
            count_error(client, "a post without its cookie");
            return false;
        }
        note_post(client);
    }
    return true;
}

static void
count_done(Client *client)
{
    double now_s = load_now_s();
    /* What ends in time counts: else large files would be missing. */
    if (!is_measured(now_s))
        return;
    samples_add(&figures.response[client->kind], now_s - client->begun_s);
    samples_add(&figures.all, now_s - client->begun_s);
    samples_add(&figures.first, client->first_s - client->begun_s);
    figures.classes[client->file.class]++;
    figures.bodies_checked += client->checks;
    client->operations++;
}

static void
command_answered(Client *client)
{
    g_string_truncate(load.command_body, 0);
    g_string_append_len(load.command_body, client->body->str, (gssize)client->body->len);
    load.command_done = true;
    loop_stop();
}

/* The answer is whole. With a rate, the operation may not be over earlier than the line allows. */
static void
answered(Client *client)
{
    client->busy = false;
    timer_clear(&client->timer);
    if (client->kind == KIND_COMMAND) {
        close_connection(client);
        command_answered(client);
        return;
    }
    bool good = check_answer(client);
    client->left--;
    if (client->closes || !good)
        close_connection(client);
    double earliest_s =
        option.rate > 0 ? client->begun_s + 8 * (double)client->bytes / option.rate : 0;
    if (earliest_s > load_now_s()) {
        client->first_s = good ? client->first_s : -1;
        wait_for(client, TIMER_NEXT, earliest_s);
        return;
    }
    if (good)
        count_done(client);
    client_next(client);
}

static void
failed(Client *client, const char *why)
{
    count_error(client, why);
    client->busy = false;
    timer_clear(&client->timer);
    close_connection(client);
    if (client->kind == KIND_COMMAND)
        load_die("the application's command failed: %s", why);
    /* Not at once: a server that refuses is not asked in a tight loop. */
    client->first_s = -1;
    wait_for(client, TIMER_NEXT, load_now_s() + 0.1);
}

static void
take_body(Client *client, const char *bytes, size_t length)
{
    client->got += length;
    bool keeps = client->kind != KIND_STATIC && (client->checks || client->kind == KIND_COMMAND);
    if (keeps && client->body->len < BODY_KEPT_MAX_BYTES)
        g_string_append_len(client->body, bytes, (gssize)length);
    else if (client->checks)
        client->sum = add_to_sum(client->sum, bytes, length);
}

/* False: the request is over. */
static bool
take_bytes(Client *client, const char *bytes, size_t length)
{
    double now_s = load_now_s();
    if (client->first_s <= 0)
        client->first_s = now_s;
    client->bytes += length;
    if (is_measured(now_s)) {
        client->measured_bytes += length;
        figures.bytes += length;
    }
    if (!client->in_body) {
        size_t before = client->head->len;
        g_string_append_len(client->head, bytes, (gssize)MIN(length, HEAD_MAX_BYTES));
        size_t from = before > 3 ? before - 3 : 0;
        const char *end =
            g_strstr_len(client->head->str + from, (gssize)(client->head->len - from), "\r\n\r\n");
        if (end == NULL) {
            if (client->head->len < HEAD_MAX_BYTES)
                return true;
            failed(client, "a head has no end");
            return false;
        }
        size_t head_length = (size_t)(end - client->head->str) + 4;
        g_string_truncate(client->head, head_length - 2);
        size_t used = head_length - before;
        bytes += used;
        length -= used;
        if (!take_head(client)) {
            failed(client, "not asked further on this connection");
            return false;
        }
    }
    take_body(client, bytes, length);
    if (client->got > client->length) {
        failed(client, "more bytes than announced");
        return false;
    }
    if (client->got < client->length)
        return true;
    answered(client);
    return false;
}

static void
count_handshake(Client *client)
{
    if (client->greeted || client->wire.ssl == NULL || !client->wire.connected)
        return;
    client->greeted = true;
    if (!is_measured(load_now_s()))
        return;
    if (SSL_session_reused(client->wire.ssl))
        figures.resumed_handshakes++;
    else
        figures.full_handshakes++;
}

/* How many bytes may be read now; 0: none before the timer. */
static size_t
allowance(Client *client, size_t size)
{
    if (option.rate <= 0)
        return size;
    double now_s = load_now_s();
    double bytes_per_s = option.rate / 8;
    client->tokens =
        MIN(client->tokens + (now_s - client->tokens_s) * bytes_per_s, PACE_BURST_BYTES);
    client->tokens_s = now_s;
    if (client->tokens >= PACE_BYTES)
        return PACE_BYTES;
    wait_for(client, TIMER_PACE, now_s + (PACE_BYTES - client->tokens) / bytes_per_s);
    return 0;
}

static void
client_pump(Client *client)
{
    char bytes[64 * 1024];
    while (client->open) {
        count_handshake(client);
        size_t size =
            client->kind == KIND_COMMAND ? sizeof(bytes) : allowance(client, sizeof(bytes));
        if (size == 0)
            return;
        ssize_t n = wire_receive(&client->wire, bytes, size);
        if (n == 0) {
            /* Waits for the server again, not for the clock. */
            if (client->busy)
                wait_for(client, TIMER_PATIENCE, load_now_s() + no_reply_s);
            return;
        }
        if (n < 0) {
            if (client->busy) {
                failed(client, "closed by the server");
            } else {
                close_connection(client);
            }
            return;
        }
        client->tokens -= (double)n;
        if (!client->busy) {
            count_error(client, "bytes that nobody asked for");
            close_connection(client);
            return;
        }
        if (!take_bytes(client, bytes, (size_t)n))
            return;
    }
}

static Client *
client_of(Wire *wire)
{
    return LOOP_OWNER(Client, wire, wire);
}

static void
client_input(Wire *wire)
{
    client_pump(client_of(wire));
}

static void
client_ended(Wire *wire, const char *why)
{
    Client *client = client_of(wire);
    client->open = false;
    if (client->busy)
        failed(client, why);
}

static void
client_timer(Timer *timer)
{
    Client *client = LOOP_OWNER(Client, timer, timer);
    switch (client->waits_for) {
    case TIMER_PACE:
        client_pump(client);
        break;
    case TIMER_NEXT:
        if (client->first_s >= 0)
            count_done(client);
        client_next(client);
        break;
    case TIMER_PATIENCE:
        failed(client, "no reply");
        break;
    }
}

static void
client_next(Client *client)
{
    if (!load.running) {
        if (client->open)
            close_connection(client);
        return;
    }
    if (!client->open)
        open_connection(client);
    begin_request(client);
}

/* -- the application's commands ---------------------------------------------------------------- */

static void
new_client(Client *client, unsigned n)
{
    client->n = n;
    client->wire.fd = -1;
    client->wire.input = client_input;
    client->wire.ended = client_ended;
    client->timer.fire = client_timer;
    client->head = g_string_new(NULL);
    client->body = g_string_new(NULL);
}

/* Asks and waits; gives the answer's body, which the next command overwrites. */
static const char *
command(const char *query)
{
    Client client = { .kind = KIND_COMMAND, .busy = true, .left = 1, .sum = empty_sum };
    new_client(&client, 0);
    client.open = true;
    client.begun_s = load_now_s();
    wire_open(&client.wire, option.port, 0, load.tls, NULL);
    g_autofree char *text = g_strdup_printf(
        "GET %s?command/%s HTTP/1.0\r\nHost: %s\r\n\r\n", option.page, query, option.host);
    wire_send(&client.wire, text, strlen(text));
    wait_for(&client, TIMER_PATIENCE, client.begun_s + no_reply_s);
    load.command_done = false;
    while (!load.command_done)
        loop_run(load_now_s() + no_reply_s);
    g_string_free(client.head, TRUE);
    g_string_free(client.body, TRUE);
    return load.command_body->str;
}

static void
reset_application(void)
{
    load.reset_s = g_get_real_time() / G_USEC_PER_SEC;
    make_tables();
    g_autofree char *query = g_strdup_printf("Reset&maxload=%u&pttime=%" G_GINT64_FORMAT
                                             "&maxthread=1&exp=600,86400&urlroot=%s",
        load.n_users, load.reset_s, option.prefix);
    if (strstr(command(query), "reset") == NULL)
        load_die("the application did not say that it was reset");
    /* Its pages look for new tables once a second. */
    loop_run(load_now_s() + 1.5);
}

/* One record of the log: is it one of ours? */
static bool
take_record(const char *line)
{
    unsigned number;
    unsigned time;
    unsigned process;
    unsigned directory;
    unsigned class;
    unsigned file;
    unsigned client;
    char name[61];
    unsigned thread;
    unsigned user;
    if (strlen(line) != POST_RECORD_BYTES - 1 ||
        sscanf(line, "%10u %10u %10u %5u %2u %2u %10u %60s %10u %10u", &number, &time, &process,
            &directory, &class, &file, &client, name, &thread, &user) != 10)
        return false;
    g_autofree char *key = post_key(directory, class, file, client, name, user);
    int count = GPOINTER_TO_INT(g_hash_table_lookup(load.posts, key));
    if (count <= 0)
        return false;
    g_hash_table_insert(load.posts, g_steal_pointer(&key), GINT_TO_POINTER(count - 1));
    return true;
}

static void
compare_posts(void)
{
    unsigned from = 0;
    for (;;) {
        g_autofree char *query = g_strdup_printf("Fetch&from=%u&count=%d", from, POSTS_A_FETCH);
        g_auto(GStrv) lines = g_strsplit(command(query), "\n", -1);
        unsigned n = 0;
        for (char **line = lines; *line != NULL; line++) {
            if (strlen(*line) < POST_RECORD_BYTES - 1)
                continue;
            n++;
            if (take_record(*line))
                figures.posts_found++;
            else if (figures.posts_strange++ == 0)
                fprintf(stderr, "web99: a record of the log that was not posted: %s\n", *line);
        }
        if (n == 0)
            break;
        from += n;
    }
    figures.posts_missing = load.n_posts - MIN(load.n_posts, figures.posts_found);
}

/* -- the report -------------------------------------------------------------------------------- */

static unsigned
conforming(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < (unsigned)option.connections; i++) {
        const Client *client = &load.clients[i];
        double rate = 8 * (double)client->measured_bytes / option.seconds;
        unsigned all = client->operations + client->errors;
        bool few_errors = all > 0 && client->errors < option.error_limit * all;
        n += rate >= option.rate_min && few_errors;
    }
    return n;
}

static bool
is_good(void)
{
    bool posts = figures.posts_missing == 0 && figures.posts_strange == 0;
    bool enough = option.rate <= 0 || conforming() >= option.conform_share * option.connections;
    return posts && enough && samples_count(&figures.all) > 0 && figures.errors == 0;
}

static void
report_text(void)
{
    unsigned n = samples_count(&figures.all);
    double ops_s = n / option.seconds;
    double per_connection = ops_s / option.connections;
    printf(
        "web99-like: seed %d, %d connections, %d directories, %s, %.0f s measured, share of kept "
        "%s %.2f%s\n",
        option.seed, option.connections, option.directories,
        option.rate > 0 ? "paced" : "as fast as it goes", option.seconds,
        option.from_connections ? "connections" : "requests", option.keep_share,
        option.tls ? ", TLS" : "");
    if (option.rate > 0)
        printf("  %u of %d connections conform (%.1f %%)\n", conforming(), option.connections,
            100.0 * conforming() / option.connections);
    printf("  %.1f operations/s, %.3f of a connection, mean %.1f ms (product %.3f), p50 %.1f, p95 "
           "%.1f, p99 %.1f ms\n",
        ops_s, per_connection, samples_mean(&figures.all) * 1000,
        per_connection * samples_mean(&figures.all), samples_at(&figures.all, 0.5) * 1000,
        samples_at(&figures.all, 0.95) * 1000, samples_at(&figures.all, 0.99) * 1000);
    printf("  %.0f bytes an operation, %.1f kbit/s of a connection, %.1f connects/s",
        n > 0 ? (double)figures.bytes / n : 0,
        8 * (double)figures.bytes / 1000 / option.seconds / option.connections,
        figures.connects / option.seconds);
    if (option.tls)
        printf(", %.1f full and %.1f resumed handshakes/s",
            figures.full_handshakes / option.seconds, figures.resumed_handshakes / option.seconds);
    printf("\n  mix:");
    for (unsigned i = 0; i < KINDS; i++)
        printf(" %s %.2f %%%s", kind_names[i],
            n > 0 ? 100.0 * samples_count(&figures.response[i]) / n : 0, i + 1 < KINDS ? "," : "");
    printf("; classes:");
    for (unsigned i = 0; i < MODEL_CLASSES; i++)
        printf(" %.2f", n > 0 ? 100.0 * figures.classes[i] / n : 0);
    printf(" %%\n  %u errors, %u answers checked byte by byte", figures.errors,
        figures.bodies_checked);
    if (load.uses_pages)
        printf(
            ", %u advertisements worked out (%.1f looked at each), posts: %u of %u in the log, %u "
            "strange",
            figures.ads_checked,
            figures.ads_checked > 0 ? (double)figures.ads_examined / figures.ads_checked : 0,
            figures.posts_found, load.n_posts, figures.posts_strange);
    printf("; generator: %.2f s of CPU\n", load_cpu_s());
}

static void
report_json(void)
{
    unsigned n = samples_count(&figures.all);
    double ops_s = n / option.seconds;
    Json json = { .text = NULL };
    json_begin(&json, NULL);
    json_text(&json, "kind", option.tls ? "web99-ssl-like" : "web99-like");
    json_number(&json, "seed", option.seed);
    json_number(&json, "connections", option.connections);
    json_number(&json, "directories", option.directories);
    json_number(&json, "rate", option.rate);
    json_number(&json, "seconds", option.seconds);
    json_number(&json, "keep_share", option.keep_share);
    json_text(&json, "keep_basis", option.from_connections ? "connections" : "requests");
    json_number(&json, "conforming", option.rate > 0 ? conforming() : 0);
    json_number(&json, "operations", n);
    json_number(&json, "operations_a_second", ops_s);
    json_number(&json, "operations_a_second_of_connection", ops_s / option.connections);
    json_number(&json, "kbit_a_second_of_connection",
        8 * (double)figures.bytes / 1000 / option.seconds / option.connections);
    json_number(&json, "bytes_an_operation", n > 0 ? (double)figures.bytes / n : 0);
    json_number(&json, "connects_a_second", figures.connects / option.seconds);
    json_number(&json, "full_handshakes", figures.full_handshakes);
    json_number(&json, "resumed_handshakes", figures.resumed_handshakes);
    json_samples(&json, "response", &figures.all);
    json_samples(&json, "first_byte", &figures.first);
    json_begin(&json, "kinds");
    for (unsigned i = 0; i < KINDS; i++)
        json_samples(&json, kind_names[i], &figures.response[i]);
    json_end(&json);
    json_begin(&json, "classes");
    for (unsigned i = 0; i < MODEL_CLASSES; i++) {
        char name[] = { (char)('0' + i), '\0' };
        json_number(&json, name, n > 0 ? (double)figures.classes[i] / n : 0);
    }
    json_end(&json);
    json_number(&json, "errors", figures.errors);
    json_number(&json, "bodies_checked", figures.bodies_checked);
    json_number(&json, "ads_checked", figures.ads_checked);
    json_number(&json, "posts", load.n_posts);
    json_number(&json, "posts_found", figures.posts_found);
    json_number(&json, "posts_missing", figures.posts_missing);
    json_number(&json, "posts_strange", figures.posts_strange);
    json_number(&json, "good", is_good());
    json_number(&json, "generator_cpu_s", load_cpu_s());
    json_end(&json);
    json_write(&json, option.json);
}

/* -- describing, running ----------------------------------------------------------------------- */

/* Draws many times what a run draws, and tells what came. */
static int
describe(void)
{
    unsigned n = (unsigned)option.describe;
    double directory_bytes = 0;
    for (unsigned i = 0; i < MODEL_DIRECTORY_FILES; i++)
        directory_bytes += model_file_size(i / MODEL_FILES, i % MODEL_FILES);
    double classes[MODEL_CLASSES] = { 0 };
    double kinds[KINDS] = { 0 };
    double bytes = 0;
    double file_4 = 0;
    double first_directory = 0;
    double kept_connections = 0;
    double requests = 0;
    double kept_requests = 0;
    for (unsigned i = 0; i < n; i++) {
        ModelFile file = model_files_draw(load.files, load.random);
        classes[file.class]++;
        kinds[model_table_draw(load.mix, load.random)]++;
        bytes += model_file_size(file.class, file.file);
        file_4 += file.file == 4;
        first_directory += file.directory == 0;
        bool kept = g_rand_double(load.random) < load.new_kept_share;
        unsigned of_connection = kept ? model_uniform(load.random, (unsigned)option.requests_min,
                                            (unsigned)option.requests_max)
                                      : 1;
        kept_connections += kept;
        requests += of_connection;
        kept_requests += kept ? of_connection : 0;
    }
    make_tables();
    double examined = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned weight;
        unsigned looked_at;
        unsigned user = model_uniform(load.random, 0, load.n_users - 1);
        load.user_ads[user] =
            choose_ad(load.user_masks[user], load.user_ads[user], &weight, &looked_at);
        examined += looked_at;
    }
    Json json = { .text = NULL };
    json_begin(&json, NULL);
    json_number(&json, "directory_bytes", directory_bytes);
    json_number(&json, "directory_files", MODEL_DIRECTORY_FILES);
    json_number(&json, "mean_bytes", bytes / n);
    for (unsigned i = 0; i < MODEL_CLASSES; i++) {
        char name[] = { 'c', 'l', 'a', 's', 's', (char)('0' + i), '\0' };
        json_number(&json, name, classes[i] / n);
    }
    for (unsigned i = 0; i < KINDS; i++)
        json_number(&json, kind_names[i], kinds[i] / n);
    json_number(&json, "file_4", file_4 / n);
    json_number(&json, "first_directory", first_directory / n);
    json_number(&json, "kept_connections", kept_connections / n);
    json_number(&json, "kept_requests", kept_requests / requests);
    json_number(&json, "requests_a_connection", requests / n);
    json_number(&json, "ads_examined", examined / n);
    json_number(&json, "directories_100", model_directories(100));
    json_number(&json, "directories_8832", model_directories(8832));
    json_end(&json);
    json_write(&json, "-");
    return 0;
}

static void
tell_progress(Timer *timer)
{
    double now_s = load_now_s();
    fprintf(stderr, "web99: %.0f s, %s, %u operations, %u errors\n", now_s - load.begun_s,
        now_s < load.measure_s ? "warming up" : "measuring", samples_count(&figures.all),
        figures.errors);
    timer_set(timer, now_s + 5);
}

static int
new_session(SSL *ssl, SSL_SESSION *session)
{
    Client *client = client_of(SSL_get_app_data(ssl));
    if (client->kind == KIND_COMMAND)
        return 0;
    g_clear_pointer(&client->session, SSL_SESSION_free);
    client->session = session;
    return 1;
}

static void
start_clients(void)
{
    load.clients = g_new0(Client, (unsigned)option.connections);
    if (option.rate > 0)
        wire_receive_buffer(PACE_RECEIVE_BUFFER);
    double now_s = load_now_s();
    for (unsigned i = 0; i < (unsigned)option.connections; i++) {
        Client *client = &load.clients[i];
        new_client(client, i);
        client->tokens_s = now_s;
        client->first_s = -1;
        /* All at once would be one burst for ever: the line rate holds them in step. */
        double spread_s = option.ramp_s > 0 ? option.ramp_s : option.rate > 0 ? 0.5 : 0;
        wait_for(client, TIMER_NEXT, now_s + spread_s * i / option.connections);
    }
}

static int
run(void)
{
    if (load.uses_pages)
        reset_application();
    load.begun_s = load_now_s();
    load.measure_s = load.begun_s + option.ramp_s + option.warm_up_s;
    load.end_s = load.measure_s + option.seconds;
    load.progress.fire = tell_progress;
    timer_set(&load.progress, load.begun_s + 5);
    load.running = true;
    start_clients();
    loop_run(load.measure_s);
    printf("measuring\n");
    fflush(stdout);
    loop_run(load.end_s);
    printf("measured\n");
    fflush(stdout);
    /* What is under way is answered, so that each post is known to be one or none. */
    load.running = false;
    timer_clear(&load.progress);
    for (unsigned tries = 0; tries < 300; tries++) {
        unsigned busy = 0;
        for (unsigned i = 0; i < (unsigned)option.connections; i++)
            busy += load.clients[i].busy;
        if (busy == 0)
            break;
        loop_run(load_now_s() + 0.1);
    }
    if (load.uses_pages)
        compare_posts();
    report_text();
    if (option.json != NULL)
        report_json();
    return is_good() ? 0 : 1;
}

/* "70,20,10" into so many shares; null leaves them. */
static void
parse_shares(const char *text, const char *name, double *shares, unsigned n)
{
    if (text == NULL)
        return;
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    if (g_strv_length(parts) != n)
        load_die("--%s has %u numbers", name, n);
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += shares[i] = MAX(g_ascii_strtod(parts[i], NULL), 0);
    if (sum <= 0)
        load_die("--%s has no share above 0", name);
}

static void
prepare(void)
{
    double mix[KINDS] = { 70, 12.45, 12.6, 4.8, 0.15 };
    double classes[MODEL_CLASSES];
    memcpy(classes, model_class_shares, sizeof(classes));
    parse_shares(option.mix, "mix", mix, KINDS);
    parse_shares(option.classes, "classes", classes, MODEL_CLASSES);
    for (unsigned i = KIND_STATIC + 1; i < KINDS; i++)
        load.uses_pages = load.uses_pages || mix[i] > 0;
    load.mix = model_table_new(mix, KINDS);
    load.random = g_rand_new_with_seed((uint32_t)option.seed);
    load.files = model_files_new((unsigned)option.directories, classes);
    load.n_users = CLAMP((unsigned)option.connections, 1000, 100000);
    load.user_masks = g_new0(uint32_t, load.n_users);
    load.user_ads = g_new0(unsigned, load.n_users);
    load.posts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    load.command_body = g_string_new(NULL);
    /* A share of requests is another one of connections, since kept ones carry more. */
    double mean = (option.requests_min + option.requests_max) / 2.0;
    double kept = option.keep_share / mean;
    load.new_kept_share =
        option.from_connections ? option.keep_share : kept / (kept + 1 - option.keep_share);
    loop_init();
}

static void
fill_in_texts(void)
{
    if (option.prefix == NULL)
        option.prefix = g_strdup("");
    if (option.host == NULL)
        option.host = g_strdup("localhost");
    if (option.page == NULL)
        option.page = g_strdup("/page.lua");
    if (option.cgi == NULL)
        option.cgi = g_strdup(option.page);
    if (option.directories == 0)
        option.directories = (int)model_directories((unsigned)option.connections);
}

int
main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        { "make", 0, 0, G_OPTION_ARG_FILENAME, &option.make, "make the file set there, and end",
            "DIR" },
        { "directories", 0, 0, G_OPTION_ARG_INT, &option.directories, "(by the connections)", "N" },
        { "port", 0, 0, G_OPTION_ARG_INT, &option.port, "of 127.0.0.1", "N" },
        { "connections", 0, 0, G_OPTION_ARG_INT, &option.connections, "(50)", "L" },
        { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &option.seconds, "that are measured (60)", "N" },
        { "warm-up", 0, 0, G_OPTION_ARG_DOUBLE, &option.warm_up_s, "seconds before (10)", "N" },
        { "ramp", 0, 0, G_OPTION_ARG_DOUBLE, &option.ramp_s, "seconds until all ask (0)", "N" },
        { "rate", 0, 0, G_OPTION_ARG_DOUBLE, &option.rate, "bit/s; 0: unpaced (400000)", "N" },
        { "rate-min", 0, 0, G_OPTION_ARG_DOUBLE, &option.rate_min, "bit/s to conform (320000)",
            "N" },
        { "mix", 0, 0, G_OPTION_ARG_STRING, &option.mix,
            "static,page,ad,post,cgi (70,12.45,12.6,4.8,0.15)", "N,..." },
        { "classes", 0, 0, G_OPTION_ARG_STRING, &option.classes, "of files (35,50,14,1)", "N,..." },
        { "keep", 0, 0, G_OPTION_ARG_DOUBLE, &option.keep_share, "share of kept connections (0.7)",
            "N" },
        { "of-connections", 0, 0, G_OPTION_ARG_NONE, &option.from_connections,
            "--keep is of connections, not of requests", NULL },
        { "requests-min", 0, 0, G_OPTION_ARG_INT, &option.requests_min, "of a kept connection (5)",
            "N" },
        { "requests-max", 0, 0, G_OPTION_ARG_INT, &option.requests_max, "of a kept connection (15)",
            "N" },
        { "host", 0, 0, G_OPTION_ARG_STRING, &option.host, "(localhost)", "NAME" },
        { "prefix", 0, 0, G_OPTION_ARG_STRING, &option.prefix, "of the files' paths", "PATH" },
        { "page", 0, 0, G_OPTION_ARG_STRING, &option.page, "(/page.lua)", "PATH" },
        { "cgi", 0, 0, G_OPTION_ARG_STRING, &option.cgi, "(that of --page)", "PATH" },
        { "tls", 0, 0, G_OPTION_ARG_NONE, &option.tls, "TLS", NULL },
        { "ciphers", 0, 0, G_OPTION_ARG_STRING, &option.ciphers,
            "of TLS 1.3 (TLS_AES_128_GCM_SHA256)", "LIST" },
        { "resume", 0, 0, G_OPTION_ARG_DOUBLE, &option.resume_share,
            "share of resumed sessions (0.75)", "N" },
        { "seed", 0, 0, G_OPTION_ARG_INT, &option.seed, "of all that is drawn (1)", "N" },
        { "json", 0, 0, G_OPTION_ARG_FILENAME, &option.json, "the report (-: standard output)",
            "FILE" },
        { "describe", 0, 0, G_OPTION_ARG_INT, &option.describe, "draw so often and tell", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "Many web clients with a mix of files and pages.");
    if (option.connections < 1 || option.seconds <= 0 || option.requests_min < 1 ||
        option.requests_max < option.requests_min || option.keep_share < 0 || option.keep_share > 1)
        load_die("at least one connection, one second and one request, and shares from 0 to 1");
    fill_in_texts();
    if (option.make != NULL)
        return make_files();
    prepare();
    if (option.describe > 0)
        return describe();
    if (option.port <= 0)
        load_die("--port is needed");
    if (option.tls) {
        load.tls = wire_tls_new(option.ciphers != NULL ? option.ciphers : "TLS_AES_128_GCM_SHA256");
        SSL_CTX_sess_set_new_cb(load.tls, new_session);
    }
    load_raise_limits((unsigned)option.connections);
    return run();
}
