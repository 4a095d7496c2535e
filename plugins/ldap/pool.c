/* pool.c - the upstreams of a moment, for one reactor
 *
 * When the snapshot changes, an upstream that did not keeps its connections and what is known of its
 * servers. One that changed is retired: it takes nothing new, ends what is under way, and goes with the
 * last that counts it (sessions with connections of their own keep those).
 */
#include "plugins/ldap/dn.h"
#include "plugins/ldap/proxy.h"

#include "posthouse/log.h"

#include <string.h>

/* -- upstreams --------------------------------------------------------------------------------- */

LdapUpstream *
ldap_upstream_ref(LdapUpstream *upstream)
{
    upstream->references++;
    return upstream;
}

void
ldap_upstream_unref(LdapUpstream *upstream)
{
    if (--upstream->references > 0)
        return;
    ph_timer_disarm(&upstream->age_timer);
    for (size_t i = 0; i < upstream->n_servers; i++)
        ldap_server_clear(&upstream->servers[i]);
    g_free(upstream->servers);
    g_free(upstream->suffix);
    ph_upstreams_unref(upstream->snapshot);
    g_free(upstream);
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
    ph_timer_init(&upstream->age_timer, ldap_upstream_age_due, upstream);
    g_auto(GStrv) urls = g_strsplit(config->urls, " ", -1);
    upstream->servers = g_new0(LdapServer, g_strv_length(urls) + 1);
    for (char **url = urls; *url != NULL; url++) {
        LdapServer *server = &upstream->servers[upstream->n_servers];
        g_autoptr(GError) error = NULL;
        if ((*url)[0] == '\0')
            continue;
        if (!ldap_url_parse(*url, &server->host, &server->port, &server->tls, &error)) {
            ph_log(
                PH_LOG_ERROR, "ldap.upstream", "upstream=\"%s\" %s", config->name, error->message);
            continue;
        }
        ldap_server_init(server, upstream, *url);
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
    config->cache_bytes =
        (size_t)ph_settings_int(values, "ldap.cache.max_bytes", NULL) / g_get_num_processors();
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
    pool->fills =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
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
