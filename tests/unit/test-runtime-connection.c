/* test-runtime-connection.c - the byte stream under sessions, on loopback sockets: limits,
 * back-pressure, order, ends, TLS, PROXY headers, outgoing connections, listeners */
#include "identity/local-ca.h"
#include "runtime/connection.h"
#include "runtime/listener.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/settings.h"
#include "runtime/tls.h"

#include "posthouse/timer.h"
#include "tests/support/test-client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- a session that does what its client says -------------------------------------------------- */

typedef struct Seen {
    int opened;
    int closed;
    int reason; /* of the last that closed */
    int drained;
    int secured;
    int ended;
    int jobs_freed;
    int most_input;
    int most_pending;
} Seen;

static Seen seen;

static int
value(int *count)
{
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static void
add(int *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
}

static void
raise_to(int *most, int number)
{
    if (number > value(most))
        __atomic_store_n(most, number, __ATOMIC_RELEASE);
}

typedef struct ToldSession {
    PhSession base;
    PhTimer resume;
    bool holds; /* consumes nothing more */
} ToldSession;

static void
resume_due(void *data)
{
    ph_assert_on_reactor();
    ph_connection_resume(((ToldSession *)data)->base.connection);
}

static void
job(void *data)
{
    (void)data;
    g_usleep(20000);
}

static void
job_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)data;
    ToldSession *session = PH_CONTAINER_OF(task, ToldSession, base.task);
    ph_connection_puts(session->base.connection, "job\n");
    ph_connection_resume(session->base.connection);
}

static void
job_free(void *data)
{
    (void)data;
    add(&seen.jobs_freed);
}

static void
say_who(PhConnection *connection)
{
    ph_assert_on_reactor();
    g_autofree char *peer = g_strdup(ph_connection_peer_address(connection));
    ph_connection_printf(connection, "%s %d %s %d%s\n", peer, ph_connection_peer_port(connection),
        ph_connection_local_address(connection), ph_connection_local_port(connection),
        ph_connection_peer_is_loopback(connection) ? " loopback" : "");
}

static void
say_tls(PhConnection *connection)
{
    ph_assert_on_reactor();
    int bits;
    const char *cipher = ph_connection_tls_cipher(connection, &bits);
    const char *name = ph_connection_tls_server_name(connection);
    ph_connection_printf(connection, "%s %s %d %s\n",
        ph_connection_is_secure(connection) ? ph_connection_tls_version(connection) : "plain",
        cipher != NULL ? "cipher" : "-", bits, name != NULL ? name : "-");
}

static void
run_word(ToldSession *session, const char *word, const char *rest)
{
    ph_assert_on_reactor();
    PhConnection *connection = session->base.connection;
    size_t number = (size_t)g_ascii_strtoull(rest, NULL, 10);
    if (strcmp(word, "echo") == 0) {
        ph_connection_printf(connection, "%s\n", rest);
    } else if (strcmp(word, "big") == 0) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        g_byte_array_set_size(bytes, (guint)number);
        memset(bytes->data, 'x', number);
        ph_connection_write(connection, bytes->data, bytes->len);
    } else if (strcmp(word, "shared") == 0) {
        g_autoptr(GBytes) bytes = g_bytes_new_take(g_strnfill(number, 'y'), number);
        ph_connection_write_bytes(connection, bytes);
    } else if (strcmp(word, "pause") == 0) {
        ph_connection_pause(connection);
        ph_connection_pause(connection); /* is one pause */
        ph_timer_arm_ms(&session->resume, ph_connection_reactor(connection), (int64_t)number);
    } else if (strcmp(word, "job") == 0) {
        ph_connection_pause(connection);
        ph_task_run(&session->base.task, PH_LANE_MAIL, job, job_done, NULL, job_free);
    } else if (strcmp(word, "timeout") == 0) {
        ph_connection_set_timeout_ms(connection, (int64_t)number);
        ph_connection_puts(connection, "set\n");
    } else if (strcmp(word, "limit") == 0) {
        ph_connection_set_input_limit(connection, number);
        ph_connection_puts(connection, "set\n");
    } else if (strcmp(word, "hold") == 0) {
        session->holds = true;
        ph_connection_puts(connection, "held\n");
    } else if (strcmp(word, "close") == 0) {
        ph_connection_puts(connection, "bye\n");
        ph_connection_close(connection);
        ph_connection_close(connection);
        ph_connection_puts(connection, "never seen\n");
    } else if (strcmp(word, "abort") == 0) {
        ph_connection_puts(connection, "never seen\n");
        ph_connection_abort(connection);
    } else if (strcmp(word, "starttls") == 0) {
        ph_connection_puts(connection, "go\n");
        if (!ph_connection_start_tls(connection)) {
            ph_connection_puts(connection, "refused\n");
            ph_connection_close(connection);
        }
    } else if (strcmp(word, "who") == 0) {
        say_who(connection);
    } else if (strcmp(word, "tls") == 0) {
        say_tls(connection);
    } else if (strcmp(word, "id") == 0) {
        ph_session_set_activity(&session->base, rest);
        ph_connection_printf(connection, "%s\n", session->base.id);
    } else if (strcmp(word, "role") == 0) {
        ph_connection_printf(connection, "%s\n", (const char *)session->base.service->role);
    } else {
        ph_connection_puts(connection, "?\n");
    }
}

static void
told_opened(PhSession *base)
{
    ph_assert_on_reactor();
    ToldSession *session = (ToldSession *)base;
    g_assert_false(session->holds);
    ph_timer_init(&session->resume, resume_due, session);
    add(&seen.opened);
}

static void
told_input(PhSession *base)
{
    ph_assert_on_reactor();
    ToldSession *session = (ToldSession *)base;
    PhConnection *connection = base->connection;
    size_t length;
    const uint8_t *bytes = ph_connection_input(connection, &length);
    g_assert_cmpuint(length, >, 0);
    raise_to(&seen.most_input, (int)length);
    const uint8_t *end;
    while (!session->holds && (end = memchr(bytes, '\n', length)) != NULL) {
        g_autofree char *line = g_strndup((const char *)bytes, (size_t)(end - bytes));
        ph_connection_consume(connection, (size_t)(end - bytes) + 1);
        char *rest = strchr(line, ' ');
        if (rest != NULL)
            *rest++ = '\0';
        run_word(session, line, rest != NULL ? rest : "");
        raise_to(&seen.most_pending, (int)ph_connection_output_pending(connection));
        bytes = ph_connection_input(connection, &length);
        if (ph_task_is_busy(&base->task) || ph_timer_is_armed(&session->resume) ||
            ph_connection_output_is_full(connection) || ph_connection_is_closing(connection))
            return;
    }
}

static void
told_drained(PhSession *base)
{
    ph_assert_on_reactor();
    g_assert_cmpuint(ph_connection_output_pending(base->connection), <, PH_OUTPUT_LOW_BYTES);
    add(&seen.drained);
}

static void
told_timed_out(PhSession *base)
{
    ph_assert_on_reactor();
    ph_connection_puts(base->connection, "late\n");
    ph_connection_close(base->connection);
}

static void
told_secured(PhSession *base)
{
    ph_assert_on_reactor();
    g_assert_true(ph_connection_is_secure(base->connection));
    add(&seen.secured);
}

static void
told_ended(PhSession *base)
{
    ph_assert_on_reactor();
    add(&seen.ended);
    ph_connection_puts(base->connection, "ended\n");
    ph_connection_close(base->connection);
}

static void
told_farewell(PhSession *base, PhFarewell why)
{
    ph_assert_on_reactor();
    ph_connection_puts(base->connection, why == PH_FAREWELL_CUT ? "cut\n" : "stopping\n");
    ph_connection_close(base->connection);
}

static void
told_closed(PhSession *base, PhCloseReason reason)
{
    ph_assert_on_reactor();
    ph_timer_disarm(&((ToldSession *)base)->resume);
    /* Nothing that is written now reaches anybody. */
    ph_connection_puts(base->connection, "from the grave\n");
    __atomic_store_n(&seen.reason, (int)reason, __ATOMIC_RELEASE);
    add(&seen.closed);
}

static const PhSessionClass told_class = {
    .name = "told",
    .size = sizeof(ToldSession),
    .opened = told_opened,
    .input = told_input,
    .drained = told_drained,
    .timed_out = told_timed_out,
    .secured = told_secured,
    .farewell = told_farewell,
    .closed = told_closed,
};

static const PhSessionClass ended_class = {
    .name = "ended",
    .size = sizeof(ToldSession),
    .opened = told_opened,
    .input = told_input,
    .ended = told_ended,
    .closed = told_closed,
};

static const PhServiceRow plain_row = { "plain", 0, PH_TLS_START, &told_class, "first", NULL,
    false };
static const PhServiceRow other_row = { "plain", 0, PH_TLS_START, &told_class, "second", NULL,
    false };
static const PhServiceRow ended_row = { "ended", 0, PH_TLS_NONE, &ended_class, "ended", NULL,
    false };
static const PhServiceRow secure_row = { "secure", 0, PH_TLS_IMPLICIT, &told_class, "secure",
    "imap", false };

static PhOwner owner = { .name = "test" };
static PhListeners *plain;
static PhListeners *ended;
static PhListeners *secure;
static char *ca_path;

static void
set(const char *key, const char *text)
{
    GPtrArray *values = ph_settings_values();
    for (guint i = values->len; i > 0; i--)
        if (strcmp(((PhSettingValue *)values->pdata[i - 1])->key, key) == 0)
            g_ptr_array_remove_index(values, i - 1);
    PhSettingValue *new_value = g_new(PhSettingValue, 1);
    *new_value =
        (PhSettingValue){ .key = g_strdup(key), .scope = PH_SCOPE_GLOBAL, .value = g_strdup(text) };
    g_ptr_array_add(values, new_value);
    ph_settings_publish(values, 1);
}

/* All sessions before are over; counting starts again. */
static void
begin(void)
{
    test_wait_for(ph_connection_count() == 0);
    test_wait_for(ph_owner_uses(&owner) == 0);
    memset(&seen, 0, sizeof(seen));
}

static TestClient *
plain_client(void)
{
    begin();
    return test_client_new(ph_listeners_port(plain));
}

static void
expect_closed(PhCloseReason reason)
{
    test_wait_for(value(&seen.closed) == value(&seen.opened) && value(&seen.closed) > 0);
    g_assert_cmpint(value(&seen.reason), ==, (int)reason);
}

static void
abort_all(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_abort_all(reactor, data);
}

/* -- input ------------------------------------------------------------------------------------- */

static void
test_input_pieces(void)
{
    g_autoptr(TestClient) client = plain_client();
    for (const char *at = "echo byte by byte\n"; *at != '\0'; at++) {
        test_client_send(client, at, 1);
        g_usleep(500);
    }
    test_client_expect(client, "byte by byte");
    test_client_puts(client, "echo 1\necho 2\necho 3\nec");
    test_client_expect(client, "1");
    test_client_expect(client, "2");
    test_client_expect(client, "3");
    test_client_puts(client, "ho 4\n");
    test_client_expect(client, "4");
}

/* A session that takes nothing: reading stops at the limit, and TCP stops the client. */
static void
test_input_limit(void)
{
    enum { FLOOD = 48 * 1024 * 1024, LIMIT = 5000 };
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "limit 5000\n");
    test_client_expect(client, "set");
    test_client_puts(client, "hold\n");
    test_client_expect(client, "held");
    g_autofree char *flood = g_strnfill(FLOOD, 'f');
    size_t sent = test_client_send_some(client, flood, FLOOD);
    g_assert_cmpuint(sent, <, FLOOD);
    g_assert_cmpint(value(&seen.most_input), <=, LIMIT);
    g_assert_cmpint(value(&seen.most_input), >, LIMIT / 2);
    /* Nothing is read any more, so nobody sees the client go: a session has a timeout for that. */
    ph_reactors_call_blocking(abort_all, &owner);
}

/* A line as long as the limit fits; it grows in the connection's own buffer. */
static void
test_input_long_line(void)
{
    static const size_t sizes[] = { 1000, 4090, 16384 - 6, 60000, 200000 };
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "limit 200010\n");
    test_client_expect(client, "set");
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *word = g_strnfill(sizes[i], (char)('a' + i));
        test_client_puts(client, "echo ");
        test_client_send(client, word, sizes[i] / 2);
        g_usleep(2000);
        test_client_send(client, word, sizes[i] - sizes[i] / 2);
        test_client_puts(client, "\n");
        test_client_expect(client, word);
    }
}

static void
test_input_pause(void)
{
    g_autoptr(TestClient) client = plain_client();
    int64_t begin_us = g_get_monotonic_time();
    test_client_puts(client, "pause 60\necho after\npause 1\necho last\n");
    test_client_expect(client, "after");
    g_assert_cmpint(g_get_monotonic_time() - begin_us, >=, 60 * 1000);
    test_client_expect(client, "last");
}

/* What came while it was paused is shown after the resume, without a new event. */
static void
test_input_pause_job(void)
{
    g_autoptr(TestClient) client = plain_client();
    for (int i = 0; i < 5; i++) {
        test_client_puts(client, "job\n");
        g_usleep(5000);
        test_client_puts(client, "echo waited\n");
        test_client_expect(client, "job");
        test_client_expect(client, "waited");
    }
    g_assert_cmpint(value(&seen.jobs_freed), ==, 5);
}

/* -- output ------------------------------------------------------------------------------------ */

static void
check_back_pressure(TestClient *client)
{
    enum { TIMES = 150, SIZE = 100000 };
    g_autoptr(GString) commands = g_string_new(NULL);
    for (int i = 0; i < TIMES; i++)
        g_string_append(commands, i % 3 == 0 ? "shared 100000\n" : "big 100000\n");
    g_string_append(commands, "echo end\n");
    test_client_send(client, commands->str, commands->len);
    g_usleep(100000); /* the client reads nothing */
    g_assert_cmpint(value(&seen.most_pending), <=, PH_OUTPUT_HIGH_BYTES + SIZE);
    for (int i = 0; i < TIMES; i++) {
        g_autofree char *bytes = test_client_bytes(client, SIZE);
        char letter = i % 3 == 0 ? 'y' : 'x';
        for (size_t k = 0; k < SIZE; k++)
            g_assert_cmpint(bytes[k], ==, letter);
    }
    test_client_expect(client, "end");
    g_assert_cmpint(value(&seen.most_pending), <=, PH_OUTPUT_HIGH_BYTES + SIZE);
    g_assert_cmpint(value(&seen.drained), >, 0);
}

/* A client that asks and does not read: what is produced stays bounded, and all of it comes in the
 * end. */
static void
test_output_back_pressure(void)
{
    begin();
    g_autoptr(TestClient) client = test_client_new_small(ph_listeners_port(plain), 8192);
    check_back_pressure(client);
}

static void
test_output_back_pressure_tls(void)
{
    begin();
    g_autoptr(TestClient) client = test_client_new_small(ph_listeners_port(secure), 8192);
    g_assert_true(test_client_start_tls(client, ca_path, NULL));
    check_back_pressure(client);
}

/* More than the high mark at once, taken by the kernel at once or not: `drained` comes, and input
 * goes on. */
static void
test_output_once(void)
{
    g_autoptr(TestClient) client = plain_client();
    for (int i = 1; i <= 5; i++) {
        test_client_puts(client, "big 600000\necho next\n");
        g_free(test_client_bytes(client, 600000));
        test_client_expect(client, "next");
        g_assert_cmpint(value(&seen.drained), ==, i);
    }
}

/* -- ends -------------------------------------------------------------------------------------- */

static void
test_end_close(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "echo a\nclose\necho never\n");
    test_client_expect(client, "a");
    test_client_expect(client, "bye");
    g_assert_true(test_client_is_closed(client));
    g_assert_false(client->is_reset);
    expect_closed(PH_CLOSE_LOCAL);
}

/* The client still sends while we close: its bytes must not turn into a reset that takes the reply
 * with it. */
static void
test_end_linger(void)
{
    enum { MORE = 300 * 1024 };
    g_autofree char *more = g_strnfill(MORE, 'm');
    for (int i = 0; i < 10; i++) {
        g_autoptr(TestClient) client = plain_client();
        test_client_puts(client, "big 1000\nclose\n");
        test_client_send(client, more, MORE);
        g_usleep(20000);
        size_t length;
        g_autofree char *all = test_client_rest(client, &length);
        g_assert_cmpuint(length, ==, 1004);
        g_assert_true(g_str_has_suffix(all, "bye\n"));
        g_assert_false(client->is_reset);
        expect_closed(PH_CLOSE_LOCAL);
    }
}

/* A client that neither reads nor ends: the connection is gone soon after. */
static void
test_end_linger_ends(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "close\n");
    expect_closed(PH_CLOSE_LOCAL);
    test_wait_for(ph_connection_count() == 0);
}

/* All that was written goes out before the end, also when it is much. */
static void
test_end_flush(void)
{
    begin();
    g_autoptr(TestClient) client = test_client_new_small(ph_listeners_port(plain), 8192);
    test_client_puts(client, "big 200000\nclose\n");
    g_usleep(20000);
    size_t length;
    g_free(test_client_rest(client, &length));
    g_assert_cmpuint(length, ==, 200004);
    g_assert_false(client->is_reset);
}

static void
test_end_abort(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "abort\n");
    g_assert_true(test_client_is_closed(client));
    expect_closed(PH_CLOSE_LOCAL);
}

static void
test_end_half_close(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "echo a\npause 20\necho b\njob\necho c\n");
    test_client_shutdown(client);
    test_client_expect(client, "a");
    test_client_expect(client, "b");
    test_client_expect(client, "job");
    test_client_expect(client, "c");
    g_assert_true(test_client_is_closed(client));
    g_assert_false(client->is_reset);
    expect_closed(PH_CLOSE_PEER);
}

/* The last bytes and the end come in one event: both are seen. */
static void
test_end_at_once(void)
{
    for (int i = 0; i < 50; i++) {
        g_autoptr(TestClient) client = plain_client();
        test_client_puts(client, "echo a\n");
        test_client_shutdown(client);
        test_client_expect(client, "a");
        g_assert_true(test_client_is_closed(client));
        expect_closed(PH_CLOSE_PEER);
    }
}

static void
test_end_ended(void)
{
    begin();
    g_autoptr(TestClient) client = test_client_new(ph_listeners_port(ended));
    test_client_puts(client, "echo a\n");
    test_client_shutdown(client);
    test_client_expect(client, "a");
    test_client_expect(client, "ended");
    g_assert_true(test_client_is_closed(client));
    expect_closed(PH_CLOSE_LOCAL);
    g_assert_cmpint(value(&seen.ended), ==, 1);
}

static void
test_end_reset(void)
{
    TestClient *client = plain_client();
    test_client_puts(client, "echo a\n");
    test_client_expect(client, "a");
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };
    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    test_client_free(client);
    expect_closed(PH_CLOSE_ERROR);
}

/* The client is gone while its job runs: the job ends, nobody is told, nothing leaks. */
static void
test_end_in_job(void)
{
    for (int i = 0; i < 5; i++) {
        TestClient *client = plain_client();
        test_client_puts(client, "job\n");
        test_wait_for(value(&seen.opened) == 1);
        g_usleep(3000);
        test_client_free(client);
        test_wait_for(value(&seen.closed) == 1);
        test_wait_for(value(&seen.jobs_freed) == 1);
    }
    begin();
}

static void
test_end_timeout(void)
{
    g_autoptr(TestClient) client = plain_client();
    int64_t begin_us = g_get_monotonic_time();
    test_client_puts(client, "timeout 60\n");
    test_client_expect(client, "set");
    test_client_expect(client, "late");
    g_assert_cmpint(g_get_monotonic_time() - begin_us, >=, 60 * 1000);
    g_assert_true(test_client_is_closed(client));

    g_autoptr(TestClient) patient = plain_client();
    test_client_puts(patient, "timeout 40\ntimeout 0\n");
    test_client_expect(patient, "set");
    test_client_expect(patient, "set");
    g_assert_true(test_client_is_quiet(patient, 100));
}

/* A class without timed_out is closed. */
static void
test_end_timeout_plain(void)
{
    begin();
    g_autoptr(TestClient) client = test_client_new(ph_listeners_port(ended));
    test_client_puts(client, "timeout 30\n");
    test_client_expect(client, "set");
    g_assert_true(test_client_is_closed(client));
    expect_closed(PH_CLOSE_TIMEOUT);
}

/* -- lists and farewells ----------------------------------------------------------------------- */

typedef struct Farewell {
    const PhOwner *owner;
    const char *id;
    PhFarewell why;
    unsigned count;
} Farewell;

static void
say_farewell(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    Farewell *farewell = data;
    farewell->count +=
        ph_connection_farewell(reactor, farewell->owner, farewell->id, farewell->why);
}

static void
collect(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_list(reactor, data);
}

static void
test_list(void)
{
    g_autoptr(TestClient) one = plain_client();
    g_autoptr(TestClient) two = test_client_new(ph_listeners_port(plain));
    test_client_puts(one, "id doing this\n");
    test_client_puts(two, "id doing that\n");
    g_autofree char *id_one = test_client_line(one);
    g_autofree char *id_two = test_client_line(two);
    g_assert_cmpstr(id_one, !=, id_two);

    g_autoptr(GPtrArray) infos =
        g_ptr_array_new_with_free_func((GDestroyNotify)ph_session_info_free);
    ph_reactors_call_blocking(collect, infos);
    g_assert_cmpuint(infos->len, ==, 2);
    for (guint i = 0; i < infos->len; i++) {
        const PhSessionInfo *info = infos->pdata[i];
        bool first = strcmp(info->id, id_one) == 0;
        g_assert_true(first || strcmp(info->id, id_two) == 0);
        g_assert_cmpstr(info->activity, ==, first ? "doing this" : "doing that");
        g_assert_cmpstr(info->service, ==, "plain");
        g_assert_cmpstr(info->peer, ==, "127.0.0.1");
        g_assert_false(info->secure);
        g_assert_cmpint(info->bytes_in, ==, 14);
        g_assert_cmpint(info->bytes_out, ==, 14);
    }

    Farewell cut = { .id = id_one, .why = PH_FAREWELL_CUT };
    ph_reactors_call_blocking(say_farewell, &cut);
    g_assert_cmpuint(cut.count, ==, 1);
    test_client_expect(one, "cut");
    g_assert_true(test_client_is_closed(one));
    PhOwner stranger = { .name = "stranger" };
    Farewell none = { .owner = &stranger, .why = PH_FAREWELL_STOPPING };
    ph_reactors_call_blocking(say_farewell, &none);
    g_assert_cmpuint(none.count, ==, 0);
    Farewell rest = { .owner = &owner, .why = PH_FAREWELL_STOPPING };
    ph_reactors_call_blocking(say_farewell, &rest);
    g_assert_cmpuint(rest.count, ==, 1);
    test_client_expect(two, "stopping");
    g_assert_true(test_client_is_closed(two));
}

static void
test_abort_all(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "echo a\n");
    test_client_expect(client, "a");
    ph_reactors_call_blocking(abort_all, &owner);
    g_assert_true(test_client_is_closed(client));
    expect_closed(PH_CLOSE_STOPPING);
}

/* -- TLS --------------------------------------------------------------------------------------- */

static TestClient *
secure_client(void)
{
    begin();
    return test_client_new(ph_listeners_port(secure));
}

static void
test_tls_implicit(void)
{
    g_autoptr(TestClient) client = secure_client();
    g_assert_true(test_client_start_tls(client, ca_path, "imap"));
    test_client_puts(client, "tls\n");
    test_client_expect(client, "TLSv1.3 cipher 256 localhost");
    test_client_puts(client, "big 500000\necho after\n");
    g_free(test_client_bytes(client, 500000));
    test_client_expect(client, "after");
    test_client_puts(client, "close\n");
    test_client_expect(client, "bye");
    g_assert_true(test_client_is_closed(client));
    g_assert_false(client->is_reset); /* close_notify came */
    expect_closed(PH_CLOSE_LOCAL);
}

static void
test_tls_half_close(void)
{
    g_autoptr(TestClient) client = secure_client();
    g_assert_true(test_client_start_tls(client, ca_path, NULL));
    test_client_puts(client, "echo a\n");
    test_client_shutdown(client);
    test_client_expect(client, "a");
    g_assert_true(test_client_is_closed(client));
    expect_closed(PH_CLOSE_PEER);
}

/* A client that offers protocols and not ours is refused (ALPACA). */
static void
test_tls_alpn(void)
{
    g_autoptr(TestClient) client = secure_client();
    g_assert_false(test_client_start_tls(client, ca_path, "http/1.1"));
    test_wait_for(ph_connection_count() == 0);
    g_assert_cmpint(value(&seen.opened), ==, 0);
    g_assert_cmpint(value(&seen.closed), ==, 0);
}

static void
test_tls_plain_bytes(void)
{
    g_autoptr(TestClient) client = secure_client();
    test_client_puts(client, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
    size_t length;
    g_free(test_client_rest(client, &length)); /* an alert */
    test_wait_for(ph_connection_count() == 0);
    g_assert_cmpint(value(&seen.opened), ==, 0);
}

static void
test_starttls(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "tls\n");
    test_client_expect(client, "plain - 0 -");
    test_client_puts(client, "starttls\n");
    test_client_expect(client, "go");
    g_assert_true(test_client_start_tls(client, ca_path, NULL));
    test_client_puts(client, "tls\n");
    test_client_expect(client, "TLSv1.3 cipher 256 localhost");
    g_assert_cmpint(value(&seen.secured), ==, 1);
    g_assert_cmpint(value(&seen.opened), ==, 1);
    test_client_puts(client, "starttls\n"); /* twice is refused */
    test_client_expect(client, "go");
    test_client_expect(client, "refused");
    g_assert_true(test_client_is_closed(client));
}

/* Plain bytes in the same packet as the command. */
static void
test_starttls_behind(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "starttls\necho injected\n");
    test_client_expect(client, "go");
    test_client_expect(client, "refused");
    g_assert_true(test_client_is_closed(client));
    g_assert_cmpint(value(&seen.secured), ==, 0);
    expect_closed(PH_CLOSE_LOCAL);
}

/* Plain bytes in a packet of their own: they are no handshake, and never reach the session. */
static void
test_starttls_later(void)
{
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "starttls\n");
    test_client_expect(client, "go");
    test_client_puts(client, "echo injected\n");
    size_t length;
    g_autofree char *rest = test_client_rest(client, &length);
    g_assert_null(strstr(rest, "injected"));
    g_assert_cmpint(value(&seen.secured), ==, 0);
    expect_closed(PH_CLOSE_ERROR);
}

/* -- PROXY headers ----------------------------------------------------------------------------- */

static const uint8_t proxy_v2[] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49,
    0x54, 0x0a, 0x21, 0x21, 0x00, 41, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1,                                                          /* 2001:db8::1 */
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, /* 2001:db8::2 */
    0x00, 0x05, 0x00, 0x19, 0xea, 0x00, 0x02, 'h', 'i' };

static void
test_proxy_accepted(void)
{
    set("net.proxy.trusted_networks", "192.0.2.0/24, 127.0.0.0/8");
    g_autoptr(TestClient) one = plain_client();
    for (const char *at = "PROXY TCP4 192.0.2.1 198.51.100.2 5 25\r\nwho\n"; *at != '\0'; at++) {
        test_client_send(one, at, 1);
        g_usleep(300);
    }
    test_client_expect(one, "192.0.2.1 5 198.51.100.2 25");

    g_autoptr(TestClient) two = test_client_new(ph_listeners_port(plain));
    test_client_send(two, proxy_v2, sizeof(proxy_v2));
    test_client_puts(two, "who\n");
    test_client_expect(two, "2001:db8::1 5 2001:db8::2 25");

    g_autoptr(TestClient) health = test_client_new(ph_listeners_port(plain));
    test_client_puts(health, "PROXY UNKNOWN\r\nwho\n");
    g_autofree char *line = test_client_line(health);
    g_assert_true(g_str_has_prefix(line, "127.0.0.1 ") && g_str_has_suffix(line, " loopback"));

    g_autoptr(TestClient) hidden = test_client_new(ph_listeners_port(secure));
    test_client_puts(hidden, "PROXY TCP4 192.0.2.9 198.51.100.2 5 25\r\n");
    g_assert_true(test_client_start_tls(hidden, ca_path, NULL));
    test_client_puts(hidden, "who\n");
    test_client_expect(hidden, "192.0.2.9 5 198.51.100.2 25");
    set("net.proxy.trusted_networks", "");
}

static void
test_proxy_bad(void)
{
    static const char *const rows[] = {
        "who\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5\r\nwho\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 5 25\nwho\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 5 25\r\nwho\n",
        "\r\n\r\n\r\n",
    };
    set("net.proxy.trusted_networks", "127.0.0.1");
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(TestClient) client = plain_client();
        test_client_puts(client, rows[i]);
        g_assert_true(test_client_is_closed(client));
        test_wait_for(ph_connection_count() == 0);
        g_assert_cmpint(value(&seen.opened), ==, 0);
    }
    set("net.proxy.trusted_networks", "");
}

/* Anybody else's header is only a line. */
static void
test_proxy_untrusted(void)
{
    set("net.proxy.trusted_networks", "192.0.2.0/24,10.0.0.0/33,rubbish,::1");
    g_autoptr(TestClient) client = plain_client();
    test_client_puts(client, "PROXY TCP4 192.0.2.1 198.51.100.2 5 25\r\nwho\n");
    test_client_expect(client, "?");
    g_autofree char *line = test_client_line(client);
    g_assert_true(g_str_has_prefix(line, "127.0.0.1 "));
    set("net.proxy.trusted_networks", "");
}

/* -- outgoing ---------------------------------------------------------------------------------- */

typedef struct Out {
    PhConnectSpec spec;
    const char *say;
    GString *heard;
    int opened;
    int closed;
    PhCloseReason reason;
    PhError error;
    bool is_null;
} Out;

static void
out_opened(PhSession *base)
{
    ph_assert_on_reactor();
    Out *out = base->plugin_state;
    g_assert_null(base->service);
    add(&out->opened);
    ph_connection_puts(base->connection, out->say);
}

static void
out_input(PhSession *base)
{
    ph_assert_on_reactor();
    Out *out = base->plugin_state;
    size_t length;
    const uint8_t *bytes = ph_connection_input(base->connection, &length);
    g_string_append_len(out->heard, (const char *)bytes, (gssize)length);
    ph_connection_consume(base->connection, length);
}

static void
out_closed(PhSession *base, PhCloseReason reason)
{
    Out *out = base->plugin_state;
    out->reason = reason;
    add(&out->closed);
}

static const PhSessionClass out_class = {
    .name = "out",
    .size = sizeof(PhSession),
    .opened = out_opened,
    .input = out_input,
    .closed = out_closed,
};

static void
out_connect(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    Out *out = data;
    g_autoptr(GError) error = NULL;
    PhOwner *previous = ph_owner_enter(&owner);
    PhSession *session = ph_connection_connect(reactor, &out->spec, &out_class, out, &error);
    ph_owner_leave(previous);
    out->is_null = session == NULL;
    out->error = session == NULL ? ph_error_code(error) : PH_ERROR_INTERNAL;
}

static void
check_out(Out *out, const char *heard)
{
    begin();
    out->heard = g_string_new(NULL);
    if (out->say == NULL)
        out->say = "echo hello\nclose\n";
    if (out->spec.timeout_ms == 0)
        out->spec.timeout_ms = 5000;
    if (out->spec.address == NULL)
        out->spec.address = "127.0.0.1";
    ph_reactor_call_blocking(ph_reactor_at(0), out_connect, out);
    g_assert_false(out->is_null);
    test_wait_for(value(&out->closed) == 1);
    test_wait_for(ph_connection_count() == 0);
    if (heard != NULL) {
        g_assert_cmpstr(out->heard->str, ==, heard);
        g_assert_cmpint(value(&out->opened), ==, 1);
        g_assert_cmpint(out->reason, ==, PH_CLOSE_PEER);
    } else {
        g_assert_cmpint(value(&out->opened), ==, 0);
        g_assert_cmpint(out->reason, ==, PH_CLOSE_REFUSED);
    }
    g_string_free(out->heard, TRUE);
}

static void
test_out_plain(void)
{
    Out out = { .spec.port = ph_listeners_port(plain) };
    check_out(&out, "hello\nbye\n");
}

static void
test_out_tls(void)
{
    Out unverified = { .spec = { .port = ph_listeners_port(secure), .tls = true } };
    check_out(&unverified, "hello\nbye\n");
    Out verified = {
        .spec = { .port = ph_listeners_port(secure), .tls = true, .server_name = "localhost" }
    };
    check_out(&verified, "hello\nbye\n");
    Out wrong_name = { .spec = { .port = ph_listeners_port(secure),
                           .tls = true,
                           .server_name = "other.example.org" } };
    check_out(&wrong_name, NULL);
}

static void
test_out_refused(void)
{
    /* A port that was ours a moment ago, and listens no more. */
    g_autoptr(GError) error = NULL;
    PhListeners *gone = ph_listeners_open(&plain_row, &owner, &error);
    g_assert_no_error(error);
    int port = ph_listeners_port(gone);
    ph_listeners_close(gone);
    Out out = { .spec.port = port };
    check_out(&out, NULL);
}

/* A server that accepts and says nothing: the deadline covers the handshake too. */
static void
test_out_timeout(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    g_assert_cmpint(bind(fd, (const struct sockaddr *)&address, size), ==, 0);
    g_assert_cmpint(listen(fd, 5), ==, 0);
    g_assert_cmpint(getsockname(fd, (struct sockaddr *)&address, &size), ==, 0);
    Out out = { .spec = { .port = ntohs(address.sin_port), .tls = true, .timeout_ms = 100 } };
    check_out(&out, NULL);
    close(fd);
}

static void
test_out_address(void)
{
    Out out = { .spec = { .address = "localhost", .port = 25, .timeout_ms = 100 } };
    ph_reactor_call_blocking(ph_reactor_at(0), out_connect, &out);
    g_assert_true(out.is_null);
    g_assert_cmpint(out.error, ==, PH_ERROR_SYNTAX);
}

/* -- listeners --------------------------------------------------------------------------------- */

static void
test_listener_retarget(void)
{
    begin();
    PhOwner next = { .name = "test" };
    g_autoptr(TestClient) old = test_client_new(ph_listeners_port(plain));
    test_client_puts(old, "role\n");
    test_client_expect(old, "first");
    ph_listeners_retarget(plain, &other_row, &next);
    for (int i = 0; i < 10; i++) {
        g_autoptr(TestClient) client = test_client_new(ph_listeners_port(plain));
        test_client_puts(client, "role\n");
        test_client_expect(client, "second");
    }
    test_client_puts(old, "role\n");
    test_client_expect(old, "first");
    g_assert_cmpint(ph_owner_uses(&owner), ==, 2); /* the connection, and its session's task */
    ph_listeners_retarget(plain, &plain_row, &owner);
    test_wait_for(ph_owner_uses(&next) == 0);
}

/* While connections pour in, the target changes again and again: each is answered. */
typedef struct Pouring {
    int stop;
    int answered;
} Pouring;

static void *
pour_main(void *data)
{
    Pouring *pouring = data;
    while (value(&pouring->stop) == 0) {
        g_autoptr(TestClient) client = test_client_new(ph_listeners_port(plain));
        test_client_puts(client, "role\nclose\n");
        g_autofree char *role = test_client_line(client);
        g_assert_true(g_strcmp0(role, "first") == 0 || g_strcmp0(role, "second") == 0);
        test_client_expect(client, "bye");
        add(&pouring->answered);
    }
    return NULL;
}

static void
test_listener_retarget_load(void)
{
    begin();
    Pouring pouring = { .stop = 0 };
    PhOwner next = { .name = "test" };
    GThread *threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = g_thread_new("pour", pour_main, &pouring);
    for (int i = 0; i < 50; i++) {
        ph_listeners_retarget(plain, &other_row, &next);
        g_usleep(1000);
        ph_listeners_retarget(plain, &plain_row, &owner);
        g_usleep(1000);
    }
    test_wait_for(value(&pouring.answered) > 50);
    add(&pouring.stop);
    for (int i = 0; i < 2; i++)
        g_thread_join(threads[i]);
    test_wait_for(ph_owner_uses(&next) == 0);
}

static void
test_listener_full(void)
{
    begin();
    set("net.listen.max_connections", "10");
    GPtrArray *clients = g_ptr_array_new_with_free_func((GDestroyNotify)test_client_free);
    for (int i = 0; i < 10; i++) {
        TestClient *client = test_client_new(ph_listeners_port(plain));
        g_ptr_array_add(clients, client);
        test_client_puts(client, "echo in\n");
        test_client_expect(client, "in");
    }
    g_autoptr(TestClient) late = test_client_new(ph_listeners_port(plain));
    g_assert_true(test_client_is_closed(late));
    g_ptr_array_unref(clients);
    begin();
    g_autoptr(TestClient) next = test_client_new(ph_listeners_port(plain));
    test_client_puts(next, "echo in\n");
    test_client_expect(next, "in");
    set("net.listen.max_connections", "100000");
}

static void
test_listener_addresses(void)
{
    static const char *const rows[] = { "rubbish", "127.0.0.1,300.1.1.1", "" };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        set("net.listen.addresses", rows[i]);
        PhListeners *none = ph_listeners_open(&plain_row, &owner, &error);
        g_assert_null(none);
        g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
        g_assert_nonnull(strstr(error->message, "service \"plain\""));
    }
    set("net.listen.addresses", "127.0.0.1");
    g_assert_cmpstr(ph_listeners_name(plain), ==, "plain");
}

/* -- the program ------------------------------------------------------------------------------- */

static PhListeners *
open_service(const PhServiceRow *row)
{
    g_autoptr(GError) error = NULL;
    PhListeners *listeners = ph_listeners_open(row, &owner, &error);
    g_assert_no_error(error);
    return listeners;
}

static void
make_certificate(const char *folder)
{
    g_autoptr(GError) error = NULL;
    ph_local_ca_ensure(folder, "mail.example.test", &error);
    g_assert_no_error(error);
    ca_path = g_build_filename(folder, "ca.pem", NULL);
    g_autofree char *certificate = g_build_filename(folder, "cert.pem", NULL);
    g_autofree char *key = g_build_filename(folder, "key.pem", NULL);
    /* What outgoing connections trust. */
    g_setenv("SSL_CERT_FILE", ca_path, TRUE);
    g_assert_false(ph_tls_is_available());
    g_assert_false(ph_tls_use_files("/nowhere/cert.pem", key, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_false(ph_tls_use_files(key, certificate, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
    g_clear_error(&error);
    g_assert_false(ph_tls_is_available());
    ph_tls_use_files(certificate, key, &error);
    g_assert_no_error(error);
    g_assert_true(ph_tls_is_available());
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/connection/input/pieces", test_input_pieces);
    g_test_add_func("/connection/input/limit", test_input_limit);
    g_test_add_func("/connection/input/long-line", test_input_long_line);
    g_test_add_func("/connection/input/pause", test_input_pause);
    g_test_add_func("/connection/input/pause-job", test_input_pause_job);
    g_test_add_func("/connection/output/back-pressure", test_output_back_pressure);
    g_test_add_func("/connection/output/back-pressure-tls", test_output_back_pressure_tls);
    g_test_add_func("/connection/output/once", test_output_once);
    g_test_add_func("/connection/end/close", test_end_close);
    g_test_add_func("/connection/end/linger", test_end_linger);
    g_test_add_func("/connection/end/linger-ends", test_end_linger_ends);
    g_test_add_func("/connection/end/flush", test_end_flush);
    g_test_add_func("/connection/end/abort", test_end_abort);
    g_test_add_func("/connection/end/half-close", test_end_half_close);
    g_test_add_func("/connection/end/at-once", test_end_at_once);
    g_test_add_func("/connection/end/ended", test_end_ended);
    g_test_add_func("/connection/end/reset", test_end_reset);
    g_test_add_func("/connection/end/in-job", test_end_in_job);
    g_test_add_func("/connection/end/timeout", test_end_timeout);
    g_test_add_func("/connection/end/timeout-plain", test_end_timeout_plain);
    g_test_add_func("/connection/list/farewell", test_list);
    g_test_add_func("/connection/list/abort-all", test_abort_all);
    g_test_add_func("/connection/tls/implicit", test_tls_implicit);
    g_test_add_func("/connection/tls/half-close", test_tls_half_close);
    g_test_add_func("/connection/tls/alpn", test_tls_alpn);
    g_test_add_func("/connection/tls/plain-bytes", test_tls_plain_bytes);
    g_test_add_func("/connection/starttls/good", test_starttls);
    g_test_add_func("/connection/starttls/behind", test_starttls_behind);
    g_test_add_func("/connection/starttls/later", test_starttls_later);
    g_test_add_func("/connection/proxy/accepted", test_proxy_accepted);
    g_test_add_func("/connection/proxy/bad", test_proxy_bad);
    g_test_add_func("/connection/proxy/untrusted", test_proxy_untrusted);
    g_test_add_func("/connection/out/plain", test_out_plain);
    g_test_add_func("/connection/out/tls", test_out_tls);
    g_test_add_func("/connection/out/refused", test_out_refused);
    g_test_add_func("/connection/out/timeout", test_out_timeout);
    g_test_add_func("/connection/out/address", test_out_address);
    g_test_add_func("/connection/listener/retarget", test_listener_retarget);
    g_test_add_func("/connection/listener/retarget-load", test_listener_retarget_load);
    g_test_add_func("/connection/listener/full", test_listener_full);
    g_test_add_func("/connection/listener/addresses", test_listener_addresses);

    g_autoptr(GError) error = NULL;
    char *folder = test_folder_new();
    make_certificate(folder);
    ph_settings_declare(ph_listener_settings);
    set("net.listen.addresses", "127.0.0.1");
    ph_reactors_start(2, &error);
    g_assert_no_error(error);
    ph_pool_start(0);
    plain = open_service(&plain_row);
    ended = open_service(&ended_row);
    secure = open_service(&secure_row);
    int status = g_test_run();
    ph_listeners_close(plain);
    ph_listeners_close(ended);
    ph_listeners_close(secure);
    ph_pool_stop();
    ph_reactors_stop();
    ph_tls_forget();
    g_free(ca_path);
    test_folder_free(folder);
    return status;
}
