/* status.c - for management: how the upstreams are, and forgetting; each pool on its reactor */
#include "plugins/ldap/proxy.h"

#include <string.h>

static void
server_info_free(void *data)
{
    LdapServerInfo *info = data;
    g_free(info->upstream);
    g_free(info->url);
    g_free(info->error);
    g_free(info);
}

void
ldap_proxy_info_free(LdapProxyInfo *info)
{
    if (info == NULL)
        return;
    g_ptr_array_unref(info->servers);
    g_free(info);
}

/* All servers that there should be, before anybody asked them. */
static LdapProxyInfo *
info_new(void)
{
    LdapProxyInfo *info = g_new0(LdapProxyInfo, 1);
    info->servers = g_ptr_array_new_with_free_func(server_info_free);
    g_autoptr(PhUpstreams) upstreams = ph_upstreams_current();
    for (size_t i = 0; i < ph_upstreams_count(upstreams); i++) {
        const PhUpstream *config = ph_upstreams_at(upstreams, i);
        g_auto(GStrv) urls = g_strsplit(config->urls, " ", -1);
        for (char **url = urls; *url != NULL; url++) {
            if ((*url)[0] == '\0')
                continue;
            LdapServerInfo *server = g_new0(LdapServerInfo, 1);
            server->upstream = g_strdup(config->name);
            server->upstream_id = config->id;
            server->url = g_strdup(*url);
            server->state = LDAP_SERVER_IDLE;
            server->since_us = INT64_MIN;
            server->error_us = INT64_MIN;
            g_ptr_array_add(info->servers, server);
        }
    }
    return info;
}

/* Up somewhere is up; down somewhere is worth more than not asked. */
static int
rank(LdapServerState state)
{
    static const int ranks[] = {
        [LDAP_SERVER_IDLE] = 0,
        [LDAP_SERVER_TRYING] = 1,
        [LDAP_SERVER_DOWN] = 2,
        [LDAP_SERVER_UP] = 3,
    };
    return ranks[state];
}

static void
add_server(LdapServerInfo *info, const LdapServer *server)
{
    guint n_links = 0;
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        n_links += server->links[kind]->len;
    /* Well when it was last asked, but nobody would notice now. */
    LdapServerState state =
        server->state == LDAP_SERVER_UP && n_links == 0 ? LDAP_SERVER_IDLE : server->state;
    for (int kind = 0; kind < LDAP_N_LINK_KINDS; kind++)
        for (guint i = 0; i < server->links[kind]->len; i++) {
            const LdapLink *link = server->links[kind]->pdata[i];
            info->connections +=
                link->state == LDAP_LINK_READY || link->state == LDAP_LINK_DRAINING;
        }
    int64_t answered = info->answered + server->answered;
    if (answered > 0)
        info->mean_us =
            (info->mean_us * info->answered + server->mean_us * server->answered) / answered;
    info->answered = answered;
    info->in_flight += server->in_flight;
    info->failed += server->failed;
    if (server->error != NULL && server->error_us > info->error_us) {
        g_free(info->error);
        info->error = g_strdup(server->error);
        info->error_us = server->error_us;
    }
    if (info->since_us == INT64_MIN || rank(state) > rank(info->state)) {
        info->state = state;
        info->since_us = server->since_us;
        info->is_degraded = server->is_degraded;
    }
}

typedef struct Look {
    LdapPool *pool;
    LdapProxyInfo *info;
} Look;

static void
look(void *data)
{
    ph_assert_on_reactor();
    Look *looking = data;
    const LdapPool *pool = looking->pool;
    LdapProxyInfo *info = looking->info;
    info->cached_answers += ldap_search_cache_count(pool->answers);
    info->cached_bytes += (int64_t)ldap_search_cache_bytes(pool->answers);
    info->cached_binds += ldap_bind_cache_count(pool->binds);
    for (guint i = 0; i < pool->upstreams->len; i++) {
        const LdapUpstream *upstream = pool->upstreams->pdata[i];
        for (size_t k = 0; k < upstream->n_servers; k++)
            for (guint n = 0; n < info->servers->len; n++) {
                LdapServerInfo *server = info->servers->pdata[n];
                if (server->upstream_id == upstream->config->id &&
                    strcmp(server->url, upstream->servers[k].url) == 0)
                    add_server(server, &upstream->servers[k]);
            }
    }
}

LdapProxyInfo *
ldap_proxy_look_blocking(LdapProxy *proxy)
{
    ph_assert_in_job();
    LdapProxyInfo *info = info_new();
    for (LdapPool *pool = __atomic_load_n(&proxy->pools, __ATOMIC_ACQUIRE); pool != NULL;
         pool = pool->next) {
        Look looking = { .pool = pool, .info = info };
        ph_reactor_run_blocking(pool->reactor, look, &looking);
    }
    return info;
}

static void
forget(void *data)
{
    ph_assert_on_reactor();
    LdapPool *pool = data;
    ldap_search_cache_clear(pool->answers);
    ldap_bind_cache_clear(pool->binds);
}

void
ldap_proxy_flush_blocking(LdapProxy *proxy)
{
    ph_assert_in_job();
    /* First of all, what is being asked just now is not kept. */
    for (int64_t i = 0; i < LDAP_EPOCHS; i++)
        ldap_epoch_raise(proxy, i);
    for (LdapPool *pool = __atomic_load_n(&proxy->pools, __ATOMIC_ACQUIRE); pool != NULL;
         pool = pool->next)
        ph_reactor_run_blocking(pool->reactor, forget, pool);
}
