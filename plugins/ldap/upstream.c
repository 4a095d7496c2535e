/* upstream.c - the directories behind ours: their servers, which are well, and who is asked
 *
 * Shape:    see proxy.h. A request takes the first server, in the order of the URLs, that is well and
 *           has a link with room. A server that is known to be down is passed over at once; an attempt
 *           in the background, later each time, finds out when it is back. One that was never tried is
 *           tried when it is needed, and requests wait for that. So nobody waits for dead servers one
 *           after the other, and each request has one deadline for all attempts.
 *
 * Health is what happens: connections refused or lost, notices of disconnection, a link on which
 * nothing comes while something is under way (then it is asked for something small), and the mean time
 * to an answer, for "slower than the others by far".
 */
#include "plugins/ldap/dn.h"
#include "plugins/ldap/proxy.h"

#include "posthouse/log.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SPARE_FORWARDS = 256,
    FIRST_RETRY_MS = 1000,
    LAST_RETRY_MS = 30 * 1000,
    RESOLVE_AGAIN_MS = 60 * 1000,
    MORE_LINKS_AT = 4, /* requests under way on the least busy link */
    LEAST_BIND_LINKS = 2,
    LEAST_TICK_MS = 100,
    SLOW_FACTOR = 4,
    SLOW_LEAST_US = 20 * 1000,
    SLOW_SAMPLES = 16,
    CANARY_US = 1000 * 1000,
    TRIES_MAX = 6,
};

struct LdapResolve {
    PhTask task;
    LdapUpstream *upstream; /* counted */
    LdapServer *server;
};

typedef struct ResolveJob {
    LdapResolve *resolve;
    char *host;
    GPtrArray *found;
    char *error;
} ResolveJob;

static PH_ON_REACTOR bool open_link(LdapServer *server, LdapLinkKind kind, LdapPin *pin);
static PH_ON_REACTOR void server_failed(LdapServer *server, const char *why);

/* -- forwards ---------------------------------------------------------------------------------- */

LdapForward *
ldap_forward_new(LdapUpstream *upstream)
{
    LdapPool *pool = upstream->pool;
    LdapForward *forward = pool->spare;
    if (forward != NULL) {
        pool->spare = forward->next_spare;
        pool->n_spare--;
        memset(forward, 0, sizeof(*forward));
    } else {
        forward = g_new0(LdapForward, 1);
    }
    forward->upstream = ldap_upstream_ref(upstream);
    forward->queued.data = forward->aged.data = forward->fill_link.data = forward;
    forward->began_us = ph_monotonic_us();
    return forward;
}

void
ldap_forward_queue(LdapForward *forward, GQueue *queue)
{
    forward->queue = queue;
    g_queue_push_tail_link(queue, &forward->queued);
}

void
ldap_forward_unqueue(LdapForward *forward)
{
    if (forward->queue == NULL)
        return;
    g_queue_unlink(g_steal_pointer(&forward->queue), &forward->queued);
}

static void
leave_age(LdapForward *forward)
{
    if (forward->is_aged)
        g_queue_unlink(&forward->upstream->by_age, &forward->aged);
    forward->is_aged = false;
}

void
ldap_forward_free(LdapForward *forward)
{
    LdapPool *pool = forward->upstream->pool;
    g_assert(forward->link == NULL && forward->queue == NULL);
    leave_age(forward);
    if (forward->bytes != NULL)
        g_bytes_unref(forward->bytes);
    g_free(forward->authorize);
    g_free(forward->dn);
    ph_secret_free(forward->password);
    ldap_upstream_unref(forward->upstream);
    if (pool->n_spare >= SPARE_FORWARDS) {
        g_free(forward);
        return;
    }
    forward->next_spare = pool->spare;
    pool->spare = forward;
    pool->n_spare++;
}

void
ldap_forward_drop(LdapForward *forward)
{
    ldap_forward_unqueue(forward);
    if (forward->link != NULL)
        ldap_link_abandon(forward);
    ldap_forward_free(forward);
}

static int64_t
timeout_us(const LdapUpstream *upstream)
{
    return upstream->config->timeout_ms * 1000;
}

/* All of an upstream have the same time, so the queue is sorted by appending. */
static PH_ON_REACTOR void
age_from(LdapForward *forward, int64_t now_us)
{
    LdapUpstream *upstream = forward->upstream;
    leave_age(forward);
    forward->deadline_us = now_us + timeout_us(upstream);
    forward->is_aged = true;
    g_queue_push_tail_link(&upstream->by_age, &forward->aged);
    if (!ph_timer_is_armed(&upstream->age_timer))
        ph_timer_arm_ms(&upstream->age_timer, upstream->pool->reactor, upstream->config->timeout_ms);
}

void
ldap_forward_age(LdapForward *forward)
{
    if (!forward->is_endless && !forward->is_aged)
        age_from(forward, forward->began_us);
}

static PH_ON_REACTOR void
expire(LdapForward *forward, int64_t now_us)
{
    /* Answers come, or wait for a client: that is not silence. */
    if (ldap_forward_is_held_up(forward) ||
        (forward->is_started && forward->link != NULL &&
            now_us - forward->sent_us < timeout_us(forward->upstream) / 2)) {
        age_from(forward, now_us);
        return;
    }
    leave_age(forward);
    ldap_forward_unqueue(forward);
    if (forward->link != NULL) {
        forward->link->server->failed++;
        ldap_link_abandon(forward);
    }
    ldap_forward_failed(forward, LDAP_UNAVAILABLE, "the directory behind this one is too slow");
}

static void
age_due(void *data)
{
    ph_assert_on_reactor();
    LdapUpstream *upstream = ldap_upstream_ref(data);
    int64_t now_us = ph_monotonic_us();
    for (GList *head = upstream->by_age.head; head != NULL; head = upstream->by_age.head) {
        LdapForward *forward = head->data;
        if (forward->deadline_us > now_us) {
            if (!ph_timer_is_armed(&upstream->age_timer))
                ph_timer_arm_ms(&upstream->age_timer, upstream->pool->reactor,
                    (forward->deadline_us - now_us) / 1000 + 1);
            break;
        }
        expire(forward, now_us);
    }
    ldap_upstream_unref(upstream);
}

/* -- servers: which one -------------------------------------------------------------------------- */

static void
set_state(LdapServer *server, LdapServerState state)
{
    if (server->state == state)
        return;
    server->state = state;
    server->since_us = ph_time_now_us();
}

/* Known to be down, but so long ago that nobody knows. */
static bool
is_forgotten(const LdapServer *server, int64_t now_us)
{
    return server->state == LDAP_SERVER_DOWN && !ph_timer_is_armed(&server->retry_timer) &&
           now_us >= server->retry_us && server->links[LDAP_LINK_SHARED]->len == 0;
}

static bool
is_promising(const LdapServer *server)
{
    return server->state != LDAP_SERVER_DOWN;
}

/* Used when nothing else is there. */
static bool
is_second(LdapServer *server, const LdapServer *avoid, int64_t now_us)
{
    if (server == avoid)
        return true;
    if (!server->is_degraded)
        return false;
    if (now_us - server->canary_us < CANARY_US)
        return true;
    server->canary_us = now_us; /* is it as slow as ever? */
    return false;
}

static unsigned
most_links(const LdapServer *server, LdapLinkKind kind)
{
    unsigned most = (unsigned)MAX(1, server->upstream->config->connections);
    if (kind == LDAP_LINK_BINDING)
        return MAX(LEAST_BIND_LINKS, most);
    return kind == LDAP_LINK_PINNED ? server->upstream->pool->config.pinned : most;
}

/* The least busy link of the server. When all are busy, and it may, opens one more; `coming_out` says
 * that one is on its way. */
static PH_ON_REACTOR LdapLink *
server_link(LdapServer *server, LdapLinkKind kind, bool may_open, bool *coming_out)
{
    GPtrArray *links = server->links[kind];
    LdapLink *best = NULL;
    bool coming = server->resolving != NULL && server->addresses == NULL;
    unsigned most_room = 0;
    for (guint i = 0; i < links->len; i++) {
        LdapLink *link = links->pdata[i];
        unsigned room = ldap_link_room(link);
        if (room > most_room) {
            most_room = room;
            best = link;
        }
        coming = coming || link->state < LDAP_LINK_READY;
    }
    bool busy = best == NULL || (kind == LDAP_LINK_SHARED && best->in_flight >= MORE_LINKS_AT);
    if (busy && !coming && may_open && links->len < most_links(server, kind))
        coming = open_link(server, kind, NULL);
    *coming_out = coming;
    return best;
}

/* A link for one more request; null: none now. While one to a preferred server is on its way, those
 * behind it are not tried, but used where they have a link. */
static PH_ON_REACTOR LdapLink *
pick_link(LdapUpstream *upstream, LdapLinkKind kind, const LdapServer *avoid)
{
    int64_t now_us = upstream->n_servers > 1 ? ph_monotonic_us() : 0;
    bool may_open = true;
    for (int second = 0; second <= (upstream->n_servers > 1); second++) {
        for (size_t i = 0; i < upstream->n_servers; i++) {
            LdapServer *server = &upstream->servers[i];
            bool coming;
            if (!is_promising(server) ||
                (upstream->n_servers > 1 && is_second(server, avoid, now_us) != (second == 1)))
                continue;
            LdapLink *link = server_link(server, kind, may_open, &coming);
            if (link != NULL)
                return link;
            may_open = may_open && !coming;
        }
    }
    return NULL;
}

/* The server for a connection of its own; null: none is well. */
static PH_ON_REACTOR LdapServer *
pick_server(LdapUpstream *upstream, const LdapServer *avoid)
{
    int64_t now_us = ph_monotonic_us();
    for (int second = 0; second <= 1; second++)
        for (size_t i = 0; i < upstream->n_servers; i++) {
            LdapServer *server = &upstream->servers[i];
            if (is_promising(server) && is_second(server, avoid, now_us) == (second == 1))
                return server;
        }
    for (size_t i = 0; i < upstream->n_servers; i++)
        if (is_forgotten(&upstream->servers[i], now_us))
            return &upstream->servers[i];
    return NULL;
}

/* Will a link come for what waits? Servers of which nothing is known any more are tried. */
static PH_ON_REACTOR bool
has_hope(LdapUpstream *upstream, LdapLinkKind kind)
{
    bool hope = false;
    if (upstream->pool->is_leaving)
        return false;
    for (size_t i = 0; i < upstream->n_servers; i++)
        hope = hope || is_promising(&upstream->servers[i]);
    int64_t now_us = ph_monotonic_us();
    for (size_t i = 0; i < upstream->n_servers && !hope; i++) {
        LdapServer *server = &upstream->servers[i];
        if (!is_forgotten(server, now_us))
            continue;
        set_state(server, LDAP_SERVER_TRYING);
        hope = open_link(server, kind, NULL);
    }
    return hope;
}

/* -- what waits ---------------------------------------------------------------------------------- */

static PH_ON_REACTOR void
fail_queue(GQueue *queue, const char *text)
{
    while (queue->head != NULL) {
        LdapForward *forward = queue->head->data;
        ldap_forward_unqueue(forward);
        leave_age(forward);
        ldap_forward_failed(forward, LDAP_UNAVAILABLE, text);
    }
}

static const char no_server[] = "no server of the directory behind this one answers";

static PH_ON_REACTOR void
pump_queue(LdapUpstream *upstream, GQueue *queue, LdapLinkKind kind)
{
    while (queue->head != NULL) {
        LdapForward *forward = queue->head->data;
        LdapLink *link = pick_link(upstream, kind, forward->avoid);
        if (link == NULL) {
            if (queue->head != NULL && !has_hope(upstream, kind))
                fail_queue(queue, no_server);
            return;
        }
        ldap_forward_unqueue(forward);
        ldap_link_send(link, forward);
    }
}

void
ldap_upstream_pump(LdapUpstream *upstream)
{
    if (upstream->waiting.head == NULL && upstream->waiting_binds.head == NULL)
        return;
    upstream->pump_again = true;
    if (upstream->is_pumping)
        return;
    upstream->is_pumping = true;
    ldap_upstream_ref(upstream);
    while (upstream->pump_again) {
        upstream->pump_again = false;
        pump_queue(upstream, &upstream->waiting, LDAP_LINK_SHARED);
        pump_queue(upstream, &upstream->waiting_binds, LDAP_LINK_BINDING);
    }
    upstream->is_pumping = false;
    ldap_upstream_unref(upstream);
}

void
ldap_upstream_submit(LdapForward *forward)
{
    LdapUpstream *upstream = forward->upstream;
    ldap_forward_age(forward);
    if (forward->pin != NULL) {
        ldap_forward_queue(forward, &forward->pin->waiting);
        ldap_pin_pump(forward->pin);
        return;
    }
    bool is_bind = forward->kind == LDAP_FORWARD_BIND;
    GQueue *queue = is_bind ? &upstream->waiting_binds : &upstream->waiting;
    if (queue->head == NULL && !upstream->pool->is_leaving) {
        LdapLinkKind kind = is_bind ? LDAP_LINK_BINDING : LDAP_LINK_SHARED;
        LdapLink *link = pick_link(upstream, kind, forward->avoid);
        if (link != NULL) {
            ldap_link_send(link, forward);
            return;
        }
    }
    ldap_forward_queue(forward, queue);
    ldap_upstream_pump(upstream);
}

void
ldap_forward_lost(LdapForward *forward, LdapServer *server)
{
    LdapUpstream *upstream = forward->upstream;
    bool is_wanted = forward->operation != NULL || forward->fill != NULL;
    if (is_wanted && forward->is_read && !forward->is_started && forward->tries < TRIES_MAX &&
        !upstream->pool->is_leaving) {
        forward->avoid = server;
        ldap_upstream_submit(forward);
        return;
    }
    leave_age(forward);
    ldap_forward_failed(forward, LDAP_UNAVAILABLE, "the directory behind this one went away");
}

/* -- pins -------------------------------------------------------------------------------------- */

LdapPin *
ldap_pin_get(LdapSession *session, LdapUpstream *upstream, bool as_client)
{
    LdapPinned *pinned = session->pinned;
    if (pinned == NULL) {
        pinned = session->pinned = g_new0(LdapPinned, 1);
        pinned->session = session;
    }
    for (unsigned i = 0; i < pinned->n_pins; i++)
        if (pinned->pins[i].upstream == upstream && pinned->pins[i].as_client == as_client)
            return &pinned->pins[i];
    if (pinned->n_pins == LDAP_PINS_MAX)
        return NULL;
    LdapPin *pin = &pinned->pins[pinned->n_pins++];
    *pin = (LdapPin){ .owner = pinned, .as_client = as_client };
    pin->upstream = ldap_upstream_ref(upstream);
    pin->link_in_upstream.data = pin;
    g_queue_init(&pin->waiting);
    g_queue_push_tail_link(&upstream->pins, &pin->link_in_upstream);
    return pin;
}

void
ldap_pin_pump(LdapPin *pin)
{
    LdapUpstream *upstream = pin->upstream;
    while (pin->waiting.head != NULL) {
        LdapForward *forward = pin->waiting.head->data;
        if (pin->link == NULL) {
            LdapServer *server =
                upstream->pool->is_leaving ? NULL : pick_server(upstream, forward->avoid);
            if (server != NULL && server->resolving != NULL && server->addresses == NULL)
                return; /* goes on when the name is resolved */
            bool room = server != NULL &&
                        server->links[LDAP_LINK_PINNED]->len < most_links(server, LDAP_LINK_PINNED);
            if (room && open_link(server, LDAP_LINK_PINNED, pin))
                return;
            ldap_forward_unqueue(forward);
            leave_age(forward);
            /* It may take the pin along: whoever is left is failed by their own pump or session. */
            bool more = pin->waiting.head != NULL;
            ldap_forward_failed(forward, server != NULL && !room ? LDAP_BUSY : LDAP_UNAVAILABLE,
                server != NULL && !room ? "too many clients with connections of their own"
                                        : no_server);
            if (!more)
                return;
            continue;
        }
        if (ldap_link_room(pin->link) == 0)
            return;
        ldap_forward_unqueue(forward);
        ldap_link_send(pin->link, forward);
    }
}

void
ldap_pin_refused(LdapPin *pin)
{
    GQueue refused = G_QUEUE_INIT;
    while (pin->waiting.head != NULL) {
        LdapForward *forward = pin->waiting.head->data;
        ldap_forward_unqueue(forward);
        leave_age(forward);
        ldap_forward_queue(forward, &refused);
    }
    while (refused.head != NULL) {
        LdapForward *forward = refused.head->data;
        ldap_forward_unqueue(forward);
        ldap_forward_failed(forward, LDAP_INVALID_CREDENTIALS,
            "the directory behind this one does not know this password any more");
    }
}

void
ldap_pinned_free(LdapPinned *pinned)
{
    if (pinned == NULL)
        return;
    for (unsigned i = 0; i < pinned->n_pins; i++) {
        LdapPin *pin = &pinned->pins[i];
        LdapLink *link = pin->link;
        if (link != NULL) {
            link->pin = NULL;
            ldap_link_set_paused(link, false);
            ldap_link_drain(link);
        }
        g_assert(pin->waiting.head == NULL);
        g_queue_unlink(&pin->upstream->pins, &pin->link_in_upstream);
        ldap_upstream_unref(pin->upstream);
    }
    ph_secret_free(pinned->password);
    g_free(pinned);
}

/* -- names to addresses ------------------------------------------------------------------------ */

static void
resolve_job_free(void *data)
{
    ResolveJob *job = data;
    g_free(job->host);
    g_ptr_array_unref(job->found);
    g_free(job->error);
    g_free(job);
}

static void
resolve_job(void *data)
{
    ph_assert_in_job();
    ResolveJob *job = data;
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int result = getaddrinfo(job->host, NULL, &hints, &found);
    if (result != 0) {
        job->error = g_strdup_printf("\"%s\": %s", job->host, gai_strerror(result));
        return;
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        char text[INET6_ADDRSTRLEN];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) ==
            0)
            g_ptr_array_add(job->found, g_strdup(text));
    }
    freeaddrinfo(found);
    if (job->found->len == 0)
        job->error = g_strdup_printf("\"%s\" has no address", job->host);
}

static PH_ON_REACTOR void
pump_pins(LdapUpstream *upstream)
{
    g_autoptr(GPtrArray) pins = g_ptr_array_new();
    for (GList *at = upstream->pins.head; at != NULL; at = at->next)
        if (((LdapPin *)at->data)->waiting.head != NULL)
            g_ptr_array_add(pins, at->data);
    for (guint i = 0; i < pins->len; i++)
        if (g_queue_find(&upstream->pins, pins->pdata[i]) != NULL)
            ldap_pin_pump(pins->pdata[i]);
}

static void
resolved(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ResolveJob *job = data;
    LdapResolve *resolve = job->resolve;
    LdapServer *server = resolve->server;
    LdapUpstream *upstream = resolve->upstream;
    LdapPool *pool = upstream->pool;
    server->resolving = NULL;
    server->resolved_us = ph_monotonic_us();
    if (job->error == NULL) {
        g_ptr_array_add(job->found, NULL);
        g_strfreev(server->addresses);
        server->addresses = (GStrv)g_ptr_array_free(g_steal_pointer(&job->found), FALSE);
        job->found = g_ptr_array_new();
        server->address = server->refused = 0;
    } else if (server->addresses == NULL) {
        server_failed(server, job->error);
    } else {
        ph_log(PH_LOG_WARNING, "ldap.resolve", "%s, using what was known", job->error);
    }
    ph_task_clear(task);
    g_free(resolve);
    pool->n_resolving--;
    if (server->addresses != NULL && server->state == LDAP_SERVER_DOWN && !upstream->is_retired &&
        server->links[LDAP_LINK_SHARED]->len == 0)
        open_link(server, LDAP_LINK_SHARED, NULL);
    ldap_upstream_pump(upstream);
    pump_pins(upstream);
    ldap_upstream_unref(upstream);
}

static PH_ON_REACTOR void
resolve(LdapServer *server)
{
    if (server->resolving != NULL)
        return;
    LdapResolve *work = g_new0(LdapResolve, 1);
    work->server = server;
    work->upstream = ldap_upstream_ref(server->upstream);
    server->resolving = work;
    server->upstream->pool->n_resolving++;
    ResolveJob *job = g_new0(ResolveJob, 1);
    job->resolve = work;
    job->host = g_strdup(server->host);
    job->found = g_ptr_array_new_with_free_func(g_free);
    ph_task_init(&work->task, server->upstream->pool->reactor);
    ph_task_run(&work->task, PH_LANE_SLOW, resolve_job, resolved, job, resolve_job_free);
}

/* -- servers: their health --------------------------------------------------------------------- */

/* False: no attempt is under way, and none will be by itself. */
static bool
open_link(LdapServer *server, LdapLinkKind kind, LdapPin *pin)
{
    LdapPool *pool = server->upstream->pool;
    if (pool->is_leaving)
        return false;
    if (server->state == LDAP_SERVER_IDLE)
        set_state(server, LDAP_SERVER_TRYING);
    if (!server->is_address && (server->addresses == NULL ||
                                   ph_monotonic_us() - server->resolved_us >
                                       INT64_C(1000) * RESOLVE_AGAIN_MS))
        resolve(server);
    if (server->addresses == NULL)
        return true;
    unsigned n = g_strv_length(server->addresses);
    g_autoptr(GError) error = NULL;
    if (ldap_link_open(server, kind, pin, server->addresses[server->address % n], &error) != NULL)
        return true;
    server_failed(server, error->message);
    return false;
}

static PH_ON_REACTOR void
note_failure(LdapServer *server, const char *why)
{
    LdapCounters *counters = &server->upstream->pool->proxy->state->counters;
    ph_metric_add(&counters->upstream_failures, 1);
    server->failed++;
    g_free(server->error);
    server->error = g_strdup(why);
    server->error_us = ph_time_now_us();
}

static void
server_failed(LdapServer *server, const char *why)
{
    LdapUpstream *upstream = server->upstream;
    note_failure(server, why);
    /* Its other links end in the same moment: that is one failure. */
    if (server->state == LDAP_SERVER_DOWN && ph_timer_is_armed(&server->retry_timer))
        return;
    if (server->state != LDAP_SERVER_DOWN)
        ph_log(PH_LOG_WARNING, "ldap.upstream-down", "upstream=\"%s\" url=%s %s",
            upstream->config->name, server->url, why);
    set_state(server, LDAP_SERVER_DOWN);
    unsigned doublings = MIN(server->failures, 5);
    int64_t delay_ms = MIN((int64_t)FIRST_RETRY_MS << doublings, LAST_RETRY_MS);
    server->failures++;
    server->retry_us = ph_monotonic_us() + delay_ms * 1000;
    if (!upstream->pool->is_leaving && !upstream->is_retired)
        ph_timer_arm_ms(&server->retry_timer, upstream->pool->reactor, delay_ms);
}

/* Tried again in the background while it is one of several, or somebody still asks; the attempts of a
 * plugin that nobody uses would keep its code in memory. */
static void
retry_due(void *data)
{
    ph_assert_on_reactor();
    enum { ATTEMPTS = 20 };
    LdapServer *server = data;
    LdapUpstream *upstream = server->upstream;
    if (upstream->pool->is_leaving || upstream->is_retired || server->failures > ATTEMPTS ||
        server->state != LDAP_SERVER_DOWN)
        return;
    if (server->links[LDAP_LINK_SHARED]->len == 0)
        open_link(server, LDAP_LINK_SHARED, NULL);
}

static PH_ON_REACTOR void
server_is_well(LdapServer *server)
{
    if (server->state == LDAP_SERVER_DOWN)
        ph_log(PH_LOG_NOTICE, "ldap.upstream-up", "upstream=\"%s\" url=%s",
            server->upstream->config->name, server->url);
    server->failures = 0;
    server->refused = 0;
    ph_timer_disarm(&server->retry_timer);
    set_state(server, LDAP_SERVER_UP);
}

void
ldap_server_ready(LdapLink *link)
{
    LdapServer *server = link->server;
    if (link->kind != LDAP_LINK_BINDING) /* that one was not asked anything yet */
        server_is_well(server);
    if (server->upstream->is_retired && link->kind == LDAP_LINK_SHARED &&
        server->upstream->waiting.head == NULL)
        ldap_link_drain(link);
    ldap_upstream_pump(server->upstream);
    if (link->pin != NULL)
        ldap_pin_pump(link->pin);
}

void
ldap_server_answered(LdapServer *server, int64_t took_us)
{
    server->answered++;
    server->mean_us = server->samples == 0 ? took_us
                                           : server->mean_us + (took_us - server->mean_us) / 8;
    server->samples++;
    if (server->state == LDAP_SERVER_TRYING || server->state == LDAP_SERVER_IDLE)
        server_is_well(server);
}

/* Another address of the same name, before the server counts as down. */
static PH_ON_REACTOR bool
try_next_address(LdapLink *link)
{
    LdapServer *server = link->server;
    unsigned n = server->addresses != NULL ? g_strv_length(server->addresses) : 0;
    if (link->was_ready || n < 2 || ++server->refused >= n)
        return false;
    server->address = (server->address + 1) % n;
    if (link->kind == LDAP_LINK_PINNED)
        return true; /* its pin's pump does */
    return open_link(server, link->kind, NULL);
}

/* Does it answer on another link? */
static bool
is_well_elsewhere(const LdapServer *server, int64_t now_us)
{
    int64_t quarter_us = timeout_us(server->upstream) / 4;
    const GPtrArray *links = server->links[LDAP_LINK_SHARED];
    for (guint i = 0; i < links->len; i++) {
        const LdapLink *other = links->pdata[i];
        if (other->state == LDAP_LINK_READY && now_us - other->input_us < quarter_us)
            return true;
    }
    return false;
}

void
ldap_server_lost(LdapLink *link, const char *failure)
{
    LdapServer *server = link->server;
    LdapUpstream *upstream = server->upstream;
    LdapPin *pin = link->pin;
    if (failure != NULL && !try_next_address(link)) {
        if (link->was_ready && is_well_elsewhere(server, ph_monotonic_us()))
            note_failure(server, failure);
        else
            server_failed(server, failure);
    }
    ldap_upstream_pump(upstream);
    if (pin != NULL)
        ldap_pin_pump(pin);
}

/* -- servers: looking at those that have something under way --------------------------------------- */

static int64_t
tick_ms(const LdapServer *server)
{
    return MAX(LEAST_TICK_MS, server->upstream->config->timeout_ms / 4);
}

void
ldap_server_watch(LdapServer *server)
{
    if (!ph_timer_is_armed(&server->tick_timer))
        ph_timer_arm_ms(&server->tick_timer, server->upstream->pool->reactor, tick_ms(server));
}

static PH_ON_REACTOR void
look_at_link(LdapLink *link, int64_t now_us)
{
    int64_t tick_us = tick_ms(link->server) * 1000;
    if (link->in_flight == 0 || link->is_paused ||
        (link->state != LDAP_LINK_READY && link->state != LDAP_LINK_DRAINING))
        return;
    int64_t silent_us = now_us - link->input_us;
    if (silent_us < tick_us)
        return;
    if (link->kind == LDAP_LINK_BINDING) {
        if (silent_us >= 2 * tick_us)
            ldap_link_break(link, "no answer to a bind");
    } else if (link->ping_id == 0) {
        ldap_link_ping(link);
    } else if (now_us - link->ping_us >= tick_us) {
        ldap_link_break(link, "no answers any more");
    }
}

/* Slower than the best of the others by far? */
static PH_ON_REACTOR void
compare_with_others(LdapServer *server)
{
    const LdapUpstream *upstream = server->upstream;
    int64_t best_us = INT64_MAX;
    for (size_t i = 0; i < upstream->n_servers; i++) {
        const LdapServer *other = &upstream->servers[i];
        if (other != server && other->state == LDAP_SERVER_UP && other->samples >= SLOW_SAMPLES)
            best_us = MIN(best_us, other->mean_us);
    }
    bool slow = best_us != INT64_MAX && server->samples >= SLOW_SAMPLES &&
                server->mean_us > SLOW_LEAST_US && server->mean_us / SLOW_FACTOR > best_us;
    if (slow != server->is_degraded)
        ph_log(PH_LOG_NOTICE, slow ? "ldap.upstream-slow" : "ldap.upstream-quick",
            "upstream=\"%s\" url=%s mean_us=%" PRId64, upstream->config->name, server->url,
            server->mean_us);
    server->is_degraded = slow;
}

static void
tick_due(void *data)
{
    ph_assert_on_reactor();
    LdapServer *server = data;
    int64_t now_us = ph_monotonic_us();
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        for (guint i = 0; i < server->links[kind]->len; i++)
            look_at_link(server->links[kind]->pdata[i], now_us);
    for (size_t i = 0; i < server->upstream->n_servers && server->upstream->n_servers > 1; i++)
        compare_with_others(&server->upstream->servers[i]);
    if (server->in_flight > 0)
        ldap_server_watch(server);
}

/* -- upstreams --------------------------------------------------------------------------------- */

LdapUpstream *
ldap_upstream_ref(LdapUpstream *upstream)
{
    upstream->references++;
    return upstream;
}

static PH_ON_REACTOR void
server_clear(LdapServer *server)
{
    ph_timer_disarm(&server->retry_timer);
    ph_timer_disarm(&server->tick_timer);
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        g_ptr_array_unref(server->links[kind]);
    g_strfreev(server->addresses);
    g_free(server->url);
    g_free(server->host);
    g_free(server->error);
}

void
ldap_upstream_unref(LdapUpstream *upstream)
{
    if (--upstream->references > 0)
        return;
    ph_timer_disarm(&upstream->age_timer);
    for (size_t i = 0; i < upstream->n_servers; i++)
        server_clear(&upstream->servers[i]);
    g_free(upstream->servers);
    g_free(upstream->suffix);
    ph_upstreams_unref(upstream->snapshot);
    g_free(upstream);
}

static void
server_init(LdapServer *server, LdapUpstream *upstream, const char *url)
{
    struct in6_addr ignored;
    server->upstream = upstream;
    server->url = g_strdup(url);
    server->since_us = ph_time_now_us();
    ph_timer_init(&server->retry_timer, retry_due, server);
    ph_timer_init(&server->tick_timer, tick_due, server);
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        server->links[kind] = g_ptr_array_new();
    server->is_address = inet_pton(AF_INET, server->host, &ignored) == 1 ||
                         inet_pton(AF_INET6, server->host, &ignored) == 1;
    if (server->is_address) {
        server->addresses = g_new0(char *, 2);
        server->addresses[0] = g_strdup(server->host);
    }
}

static LdapUpstream *
upstream_new(LdapPool *pool, const PhUpstream *config)
{
    LdapUpstream *upstream = g_new0(LdapUpstream, 1);
    upstream->references = 1;
    upstream->pool = pool;
    upstream->snapshot = ph_upstreams_ref(pool->snapshot);
    upstream->config = config;
    upstream->suffix = ldap_dn_normalize((const uint8_t *)config->suffix, strlen(config->suffix));
    ph_timer_init(&upstream->age_timer, age_due, upstream);
    g_auto(GStrv) urls = g_strsplit(config->urls, " ", -1);
    upstream->servers = g_new0(LdapServer, g_strv_length(urls) + 1);
    for (char **url = urls; *url != NULL; url++) {
        LdapServer *server = &upstream->servers[upstream->n_servers];
        g_autoptr(GError) error = NULL;
        if ((*url)[0] == '\0')
            continue;
        if (!ldap_url_parse(*url, &server->host, &server->port, &server->tls, &error)) {
            ph_log(PH_LOG_ERROR, "ldap.upstream", "upstream=\"%s\" %s", config->name,
                error->message);
            continue;
        }
        server_init(server, upstream, *url);
        upstream->n_servers++;
    }
    return upstream;
}

/* Not the current one any more: what is under way ends, sessions with connections of their own keep
 * them. */
static PH_ON_REACTOR void
retire(LdapUpstream *upstream)
{
    upstream->is_retired = true;
    for (size_t i = 0; i < upstream->n_servers; i++) {
        LdapServer *server = &upstream->servers[i];
        ph_timer_disarm(&server->retry_timer);
        for (int kind = 0; kind < LDAP_LINK_PINNED; kind++)
            for (guint k = 0; k < server->links[kind]->len; k++) {
                LdapLink *link = server->links[kind]->pdata[k];
                if (link->state >= LDAP_LINK_READY)
                    ldap_link_drain(link);
            }
    }
    ldap_upstream_unref(upstream);
}

/* -- pools ------------------------------------------------------------------------------------- */

static LdapUpstream *
find_same(LdapPool *pool, const PhUpstream *config)
{
    for (guint i = 0; i < pool->upstreams->len; i++) {
        LdapUpstream *old = pool->upstreams->pdata[i];
        if (old->config->id == config->id && old->config->version == config->version)
            return old;
    }
    return NULL;
}

/* Upstreams that did not change keep their connections and what is known of them. */
static PH_ON_REACTOR void
take_snapshot(LdapPool *pool, uint64_t generation)
{
    PhUpstreams *old_snapshot = pool->snapshot;
    GPtrArray *old = pool->upstreams;
    pool->snapshot_generation = generation;
    pool->snapshot = ph_upstreams_current();
    GPtrArray *now = g_ptr_array_new();
    for (size_t i = 0; i < ph_upstreams_count(pool->snapshot); i++) {
        const PhUpstream *config = ph_upstreams_at(pool->snapshot, i);
        LdapUpstream *same = find_same(pool, config);
        g_ptr_array_add(now, same != NULL ? ldap_upstream_ref(same) : upstream_new(pool, config));
    }
    pool->upstreams = now;
    /* Who answers for a name may be another now. */
    ldap_search_cache_clear(pool->answers);
    ldap_bind_cache_clear(pool->binds);
    for (guint i = 0; i < old->len; i++) {
        if (g_ptr_array_find(now, old->pdata[i], NULL))
            ldap_upstream_unref(old->pdata[i]);
        else
            retire(old->pdata[i]);
    }
    g_ptr_array_unref(old);
    if (old_snapshot != NULL)
        ph_upstreams_unref(old_snapshot);
}

static void
read_config(LdapPool *pool, uint64_t generation)
{
    g_autoptr(PhSettings) values = ph_settings_current();
    LdapProxyConfig *config = &pool->config;
    pool->settings_generation = generation;
    config->cache_bytes = (size_t)ph_settings_int(values, "ldap.cache.max_bytes", NULL) /
                          g_get_num_processors();
    config->cache_binds = ph_settings_bool(values, "ldap.cache.binds", NULL);
    config->idle_ms = ph_settings_int(values, "ldap.upstream.idle_s", NULL) * 1000;
    config->pinned = (unsigned)ph_settings_int(values, "ldap.upstream.pinned", NULL);
    config->slow_client_bytes =
        (size_t)ph_settings_int(values, "ldap.upstream.slow_client_bytes", NULL);
    ldap_search_cache_set_max(pool->answers, config->cache_bytes);
}

static LdapPool *
pool_new(LdapProxy *proxy, PhReactor *reactor)
{
    LdapPool *pool = g_new0(LdapPool, 1);
    pool->proxy = proxy;
    pool->reactor = reactor;
    pool->upstreams = g_ptr_array_new();
    pool->answers = ldap_search_cache_new(0);
    pool->binds = ldap_bind_cache_new(proxy->bind_key);
    pool->fills = g_hash_table_new_full(
        g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    pool->scratch = g_byte_array_new();
    pool->key = g_byte_array_new();
    pool->settings_generation = UINT64_MAX;
    pool->next = __atomic_load_n(&proxy->pools, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(
        &proxy->pools, &pool->next, pool, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        continue;
    return pool;
}

LdapPool *
ldap_pool_get(LdapProxy *proxy, PhReactor *reactor)
{
    LdapPool *pool = __atomic_load_n(&proxy->pools, __ATOMIC_ACQUIRE);
    while (pool != NULL && pool->reactor != reactor)
        pool = pool->next;
    if (pool == NULL)
        pool = pool_new(proxy, reactor);
    uint64_t generation = ph_settings_generation();
    if (generation != pool->settings_generation)
        read_config(pool, generation);
    generation = ph_upstreams_generation();
    if (pool->snapshot == NULL || generation != pool->snapshot_generation)
        take_snapshot(pool, generation);
    return pool;
}

LdapUpstream *
ldap_pool_upstream(LdapPool *pool, const PhUpstream *config)
{
    for (guint i = 0; i < pool->upstreams->len; i++) {
        LdapUpstream *upstream = pool->upstreams->pdata[i];
        if (upstream->config == config)
            return upstream;
    }
    return NULL;
}

/* On its reactor: nothing new, and the end of what is there. */
static void
pool_leave(void *data)
{
    ph_assert_on_reactor();
    LdapPool *pool = data;
    pool->is_leaving = true;
    for (guint i = 0; i < pool->upstreams->len; i++) {
        LdapUpstream *upstream = pool->upstreams->pdata[i];
        for (size_t k = 0; k < upstream->n_servers; k++) {
            LdapServer *server = &upstream->servers[k];
            ph_timer_disarm(&server->retry_timer);
            for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
                for (guint n = 0; n < server->links[kind]->len; n++)
                    ldap_link_break(server->links[kind]->pdata[n], NULL);
        }
    }
}

typedef struct PoolState {
    LdapPool *pool;
    bool is_done;
} PoolState;

static void
pool_look(void *data)
{
    ph_assert_on_reactor();
    PoolState *state = data;
    state->is_done = state->pool->n_links == 0 && state->pool->n_resolving == 0;
}

static void
pool_clear(void *data)
{
    ph_assert_on_reactor();
    LdapPool *pool = data;
    for (guint i = 0; i < pool->upstreams->len; i++)
        ldap_upstream_unref(pool->upstreams->pdata[i]);
    while (pool->spare != NULL) {
        LdapForward *forward = pool->spare;
        pool->spare = forward->next_spare;
        g_free(forward);
    }
}

void
ldap_pool_free_blocking(LdapPool *pool)
{
    enum { WAIT_US = 2000 };
    ph_reactor_run_blocking(pool->reactor, pool_leave, pool);
    PoolState state = { .pool = pool };
    for (;;) {
        ph_reactor_run_blocking(pool->reactor, pool_look, &state);
        if (state.is_done)
            break;
        g_usleep(WAIT_US);
    }
    ph_reactor_run_blocking(pool->reactor, pool_clear, pool);
    g_ptr_array_unref(pool->upstreams);
    ldap_search_cache_free(pool->answers);
    ldap_bind_cache_free(pool->binds);
    g_hash_table_unref(pool->fills);
    g_byte_array_unref(pool->scratch);
    g_byte_array_unref(pool->key);
    if (pool->snapshot != NULL)
        ph_upstreams_unref(pool->snapshot);
    g_free(pool);
}
