/* events.c - what changes, told to the page that shows it (server-sent events)
 *
 * A stream looks every two seconds, in a job, at the same paths that the page would ask for, with the
 * page's own rights, and sends what is another than the last time. After ten minutes it ends; the
 * browser begins another, and so finds a new generation of this plugin.
 */
#include "admin.h"

#include <string.h>

enum {
    EVERY_MS = 2000,
    STREAM_S = 600,
    QUEUED_MAX = 1024 * 1024, /* a client that does not read is left behind */
};

typedef enum Topic {
    TOPIC_STATUS,
    TOPIC_SESSIONS,
    TOPIC_LOG,
    N_TOPICS,
} Topic;

static const struct {
    const char *name;
    const char *path;
} topics[] = {
    [TOPIC_STATUS] = { "status", "/status" },
    [TOPIC_SESSIONS] = { "sessions", "/sessions" },
    [TOPIC_LOG] = { "log", "/log" },
};

struct EventStream {
    Request *request;
    bool wanted[N_TOPICS];
    char *last[N_TOPICS]; /* what was sent */
    int64_t log_after;
    int64_t until_us;
    GString *out;
    bool suspended;
    bool over;
    PhTimer timer;
};

/* -- looking, in a job ------------------------------------------------------------------------- */

typedef struct Look {
    PhApiRequest asked; /* with texts of its own: the request may end before the job */
    char *authorization;
    char *token;
    char *peer;
    bool wanted[N_TOPICS];
    int64_t log_after;
    int status;
    char *found[N_TOPICS];
} Look;

static void
look_free(void *data)
{
    Look *look = data;
    for (Topic topic = 0; topic < N_TOPICS; topic++)
        g_free(look->found[topic]);
    g_free(look->authorization);
    g_free(look->token);
    g_free(look->peer);
    g_free(look);
}

static void
look_job(void *data)
{
    ph_assert_in_job();
    Look *look = data;
    for (Topic topic = 0; topic < N_TOPICS; topic++) {
        if (!look->wanted[topic])
            continue;
        g_autofree char *query =
            topic == TOPIC_LOG
                ? g_strdup_printf("after=%" G_GINT64_FORMAT "&limit=1000", look->log_after)
                : g_strdup("limit=200");
        PhApiRequest asked = look->asked;
        asked.path = topics[topic].path;
        asked.query = topic != TOPIC_STATUS ? query : NULL;
        PhApiResponse answer;
        ph_api_handle_blocking(&asked, &answer);
        look->status = answer.status;
        if (answer.status == MHD_HTTP_OK)
            look->found[topic] = g_steal_pointer(&answer.body);
        ph_api_response_clear(&answer);
    }
}

/* -- sending ----------------------------------------------------------------------------------- */

static void
wake(EventStream *events)
{
    ph_assert_on_reactor();
    if (!events->suspended)
        return;
    events->suspended = false;
    MHD_resume_connection(events->request->connection);
    admin_http_run(events->request->admin);
}

/* The greatest "number" of the lines; they come in ascending order. */
static int64_t
last_number(const char *text, int64_t fallback)
{
    static const char key[] = "\"number\":";
    const char *at = g_strrstr(text, key);
    return at != NULL ? g_ascii_strtoll(at + strlen(key), NULL, 10) : fallback;
}

static void
take_topic(EventStream *events, Topic topic, char *found)
{
    bool is_log = topic == TOPIC_LOG;
    int64_t after = is_log ? last_number(found, 0) : 0;
    bool is_new = is_log ? after > events->log_after
                         : events->last[topic] == NULL || strcmp(events->last[topic], found) != 0;
    if (!is_new || events->out->len > QUEUED_MAX)
        return;
    g_string_append_printf(events->out, "event: %s\ndata: %s\n\n", topics[topic].name, found);
    if (is_log) {
        events->log_after = after;
        return;
    }
    g_free(events->last[topic]);
    events->last[topic] = g_strdup(found);
}

static void
look_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)task;
    Look *look = data;
    EventStream *events = PH_CONTAINER_OF(task, Request, task)->events;
    for (Topic topic = 0; topic < N_TOPICS; topic++)
        if (look->found[topic] != NULL)
            take_topic(events, topic, look->found[topic]);
    /* 0: no topic that there is was asked for, so nobody was asked who this is either. */
    events->over = events->over || look->status == 0 || look->status == MHD_HTTP_UNAUTHORIZED ||
                   look->status == MHD_HTTP_FORBIDDEN || ph_monotonic_us() > events->until_us;
    /* A comment keeps proxies from thinking that nobody is there, and finds clients that left. */
    if (events->out->len == 0)
        g_string_append(events->out, ":\n\n");
    if (!events->over)
        ph_timer_arm_ms(&events->timer, ph_reactor_apart(), EVERY_MS);
    wake(events);
}

static void
look_now(void *data)
{
    ph_assert_on_reactor();
    EventStream *events = data;
    Look *look = g_new0(Look, 1);
    const PhApiRequest *asked = &events->request->asked;
    look->authorization = g_strdup(asked->authorization);
    look->token = g_strdup(asked->token);
    look->peer = g_strdup(asked->peer_address);
    look->asked = (PhApiRequest){
        .method = "GET",
        .authorization = look->authorization,
        .token = look->token,
        .peer_address = look->peer,
    };
    look->log_after = events->log_after;
    memcpy(look->wanted, events->wanted, sizeof(look->wanted));
    ph_task_run(&events->request->task, PH_LANE_CONSOLE, look_job, look_done, look, look_free);
}

static ssize_t
read_some(void *data, uint64_t position, char *buffer, size_t size)
{
    ph_assert_on_reactor();
    (void)position;
    EventStream *events = data;
    size_t n = MIN(size, events->out->len);
    if (n > 0) {
        memcpy(buffer, events->out->str, n);
        g_string_erase(events->out, 0, (gssize)n);
        return (ssize_t)n;
    }
    if (events->over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    events->suspended = true;
    MHD_suspend_connection(events->request->connection);
    return 0;
}

/* -- life -------------------------------------------------------------------------------------- */

static void
choose_topics(EventStream *events, const char *query)
{
    g_auto(GStrv) pairs = g_strsplit(query != NULL ? query : "", "&", -1);
    for (char **pair = pairs; *pair != NULL; pair++) {
        if (!g_str_has_prefix(*pair, "topics="))
            continue;
        g_autofree char *value = g_uri_unescape_string(*pair + strlen("topics="), NULL);
        g_auto(GStrv) words = g_strsplit(value != NULL ? value : "", ",", -1);
        for (Topic topic = 0; topic < N_TOPICS; topic++)
            events->wanted[topic] = g_strv_contains((const char *const *)words, topics[topic].name);
    }
}

enum MHD_Result
admin_begin_events(Request *request)
{
    ph_assert_on_reactor();
    EventStream *events = g_new0(EventStream, 1);
    events->request = request;
    events->out = g_string_new("retry: 3000\n\n");
    events->until_us = ph_monotonic_us() + (int64_t)STREAM_S * G_USEC_PER_SEC;
    choose_topics(events, request->asked.query);
    ph_timer_init(&events->timer, look_now, events);
    request->events = events;
    enum { BLOCK_BYTES = 16 * 1024 };
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_some, events, NULL);
    admin_add_common_headers(response);
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    enum MHD_Result result = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    look_now(events);
    return result;
}

void
admin_end_events(EventStream *events)
{
    ph_assert_on_reactor();
    if (events == NULL)
        return;
    ph_timer_disarm(&events->timer);
    for (Topic topic = 0; topic < N_TOPICS; topic++)
        g_free(events->last[topic]);
    g_string_free(events->out, TRUE);
    g_free(events);
}
