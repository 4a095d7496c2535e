/* server.c - one server of an upstream directory: is it well, and has it a link with room
 *
 * Health is what happens: connections refused or lost, notices of disconnection, a link on which
 * nothing comes while something is under way (then it is asked for something small), and the mean time
 * to an answer, for "slower than the others by far". A server that is known to be down is passed over at
 * once; an attempt in the background, later each time, finds out when it is back. One that was never
 * tried is tried when it is needed, and requests wait for that.
 */
#include "plugins/ldap/proxy.h"

#include "posthouse/log.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>

enum {
    FIRST_RETRY_MS = 1000,
    LAST_RETRY_MS = 30 * 1000,
    RETRIES_MAX = 20, /* in the background; then only when somebody asks */
    RESOLVE_AGAIN_MS = 60 * 1000,
    MORE_LINKS_AT = 4, /* requests under way on the least busy link */
    LEAST_BIND_LINKS = 2,
    LEAST_TICK_MS = 100,
    SLOW_FACTOR = 4,
    SLOW_LEAST_US = 20 * 1000,
    SLOW_SAMPLES = 16,
    CANARY_US = 1000 * 1000,
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

static PH_ON_REACTOR void server_failed(LdapServer *server, const char *why);

/* -- which one --------------------------------------------------------------------------------- */

static void
set_state(LdapServer *server, LdapServerState state)
{
    if (server->state == state)
        return;
    server->state = state;
    server->since_us = ph_time_now_us();
}

/* Is there an attempt of which we shall be told what came of it? */
static bool
is_coming(const LdapServer *server)
{
    const GPtrArray *links = server->links[LDAP_LINK_SHARED];
    bool coming = server->resolving != NULL;
    for (guint i = 0; i < links->len; i++)
        coming = coming || ((LdapLink *)links->pdata[i])->state < LDAP_LINK_READY;
    return coming;
}

static LdapLink *
ready_link(const LdapServer *server)
{
    const GPtrArray *links = server->links[LDAP_LINK_SHARED];
    for (guint i = 0; i < links->len; i++)
        if (((LdapLink *)links->pdata[i])->state == LDAP_LINK_READY)
            return links->pdata[i];
    return NULL;
}

static PH_ON_REACTOR void
ask_whether_it_lives(LdapLink *link)
{
    if (link->ping_id == 0)
        ldap_link_ping(link);
    ldap_server_watch(link->server);
}

/* Known to be down, but so long ago that nobody knows. */
static bool
is_forgotten(const LdapServer *server, int64_t now_us)
{
    return server->state == LDAP_SERVER_DOWN && !ph_timer_is_armed(&server->retry_timer) &&
           now_us >= server->retry_us &&
           (server->links[LDAP_LINK_SHARED]->len == 0 || ready_link(server) != NULL);
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

unsigned
ldap_server_most_links(const LdapServer *server, LdapLinkKind kind)
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
    if (busy && !coming && may_open && links->len < ldap_server_most_links(server, kind))
        coming = ldap_server_open_link(server, kind, NULL);
    *coming_out = coming;
    return best;
}

/* A link for one more request; null: none now. While one to a preferred server is on its way, those
 * behind it are not tried, but used where they have a link. */
LdapLink *
ldap_server_pick_link(LdapUpstream *upstream, LdapLinkKind kind, const LdapServer *avoid)
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
LdapServer *
ldap_server_pick(LdapUpstream *upstream, const LdapServer *avoid)
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
bool
ldap_server_has_hope(LdapUpstream *upstream, LdapLinkKind kind)
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
        LdapLink *link = ready_link(server);
        if (link != NULL)
            ask_whether_it_lives(link);
        hope = link != NULL || ldap_server_open_link(server, kind, NULL);
    }
    return hope;
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
    /* Of this thread, and read anew with the file that they come from: name servers that are silent must
     * not hold the worker for the half minute that they have by default. */
    enum { DNS_TIMEOUT_S = 2, DNS_TRIES = 1 };
    bool is_ours = res_init() == 0;
    int retrans = _res.retrans;
    int retry = _res.retry;
    if (is_ours) {
        _res.retrans = DNS_TIMEOUT_S;
        _res.retry = DNS_TRIES;
    }
    int result = getaddrinfo(job->host, NULL, &hints, &found);
    if (is_ours) {
        _res.retrans = retrans;
        _res.retry = retry;
    }
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
        ldap_server_open_link(server, LDAP_LINK_SHARED, NULL);
    ldap_upstream_pump(upstream);
    ldap_upstream_pump_pins(upstream);
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

/* -- its health ------------------------------------------------------------------------------ */

/* False: no attempt is under way, and none will be by itself. */
bool
ldap_server_open_link(LdapServer *server, LdapLinkKind kind, LdapPin *pin)
{
    LdapPool *pool = server->upstream->pool;
    if (pool->is_leaving)
        return false;
    if (server->state == LDAP_SERVER_IDLE)
        set_state(server, LDAP_SERVER_TRYING);
    if (!server->is_address &&
        (server->addresses == NULL ||
            ph_monotonic_us() - server->resolved_us > INT64_C(1000) * RESOLVE_AGAIN_MS))
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
    LdapServer *server = data;
    LdapUpstream *upstream = server->upstream;
    bool gives_up = server->failures > RETRIES_MAX && upstream->n_servers == 1;
    if (upstream->pool->is_leaving || upstream->is_retired || gives_up ||
        server->state != LDAP_SERVER_DOWN)
        return;
    LdapLink *link = ready_link(server);
    if (link != NULL) {
        set_state(server, LDAP_SERVER_TRYING);
        ask_whether_it_lives(link);
    } else if (server->links[LDAP_LINK_SHARED]->len == 0) {
        ldap_server_open_link(server, LDAP_LINK_SHARED, NULL);
    }
    /* One that is only ending tells nothing. */
    if (server->state == LDAP_SERVER_DOWN && !is_coming(server) &&
        !ph_timer_is_armed(&server->retry_timer))
        ph_timer_arm_ms(&server->retry_timer, upstream->pool->reactor, FIRST_RETRY_MS);
}

void
ldap_server_come_back(LdapServer *server)
{
    if (server->state == LDAP_SERVER_DOWN && !ph_timer_is_armed(&server->retry_timer))
        ph_timer_arm_ms(&server->retry_timer, server->upstream->pool->reactor, FIRST_RETRY_MS);
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
    /* One that was slow and is not any more is seen by few requests: it falls quicker than it rises. */
    int64_t change_us = took_us - server->mean_us;
    server->mean_us += server->samples == 0 ? change_us : change_us / (change_us < 0 ? 4 : 8);
    server->samples++;
    ldap_server_lives(server);
}

void
ldap_server_lives(LdapServer *server)
{
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
    return ldap_server_open_link(server, link->kind, NULL);
}

/* A link that worked has ended. Whether its server lives is asked on another one or, where there is none, by
 * connecting anew: at once, but not again and again. False: it is down, as far as is known. */
static PH_ON_REACTOR bool
may_live(LdapServer *server, const LdapLink *ended)
{
    LdapLink *other = ready_link(server);
    if (other != NULL) {
        ask_whether_it_lives(other);
        return true;
    }
    int64_t now_us = ph_monotonic_us();
    if (ended->was_silent || server->state == LDAP_SERVER_DOWN ||
        now_us - server->renewed_us < INT64_C(1000) * FIRST_RETRY_MS)
        return false;
    server->renewed_us = now_us;
    set_state(server, LDAP_SERVER_TRYING);
    if (server->links[LDAP_LINK_SHARED]->len == 0)
        ldap_server_open_link(server, LDAP_LINK_SHARED, NULL);
    return server->state != LDAP_SERVER_DOWN;
}

void
ldap_server_lost(LdapLink *link, const char *failure)
{
    LdapServer *server = link->server;
    LdapUpstream *upstream = server->upstream;
    LdapPin *pin = link->pin;
    if (failure != NULL && !try_next_address(link)) {
        if (link->was_ready && !upstream->is_retired && !upstream->pool->is_leaving &&
            may_live(server, link))
            note_failure(server, failure);
        else
            server_failed(server, failure);
    }
    ldap_upstream_pump(upstream);
    if (pin != NULL)
        ldap_pin_pump(pin);
}

/* -- looking at what is under way -------------------------------------------------------------- */

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
give_up_silent(LdapLink *link, const char *why)
{
    link->was_silent = true;
    ldap_link_break(link, why);
}

static PH_ON_REACTOR void
look_at_link(LdapLink *link, int64_t now_us)
{
    int64_t tick_us = tick_ms(link->server) * 1000;
    if ((link->in_flight == 0 && link->ping_id == 0) || link->is_paused ||
        (link->state != LDAP_LINK_READY && link->state != LDAP_LINK_DRAINING))
        return;
    int64_t silent_us = now_us - link->input_us;
    if (silent_us < tick_us)
        return;
    if (link->kind == LDAP_LINK_BINDING) {
        if (silent_us >= 2 * tick_us)
            give_up_silent(link, "no answer to a bind");
    } else if (link->ping_id == 0) {
        ldap_link_ping(link);
    } else if (now_us - link->ping_us >= tick_us) {
        give_up_silent(link, "no answers any more");
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
    bool is_asked = false;
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        for (guint i = 0; i < server->links[kind]->len; i++) {
            LdapLink *link = server->links[kind]->pdata[i];
            look_at_link(link, now_us);
            is_asked = is_asked || link->ping_id != 0;
        }
    for (size_t i = 0; i < server->upstream->n_servers && server->upstream->n_servers > 1; i++)
        compare_with_others(&server->upstream->servers[i]);
    if (server->in_flight > 0 || is_asked)
        ldap_server_watch(server);
}

/* -- making and clearing ----------------------------------------------------------------------- */

void
ldap_server_init(LdapServer *server, LdapUpstream *upstream, const char *url)
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

void
ldap_server_clear(LdapServer *server)
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
