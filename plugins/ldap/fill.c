/* fill.c - answers for the cache: for whom they are, and who waits for them
 *
 * An answer is found by who asks, too: what one may see is never given to another. While an answer is
 * fetched for the cache, others who ask the same wait for it: they are followers of the one forward that
 * is under way (the leader), and are answered at its end; when it turns out to be too large to be kept,
 * each asks on its own.
 */
#include "plugins/ldap/dn.h"
#include "plugins/ldap/filter.h"
#include "plugins/ldap/proxy.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_ATTRIBUTES_MAX = 64,
    NEGATIVE_SHARE = 4, /* "not there" is believed for this part of the cache time */
};

/* -- keys of the cache ------------------------------------------------------------------------- */

/* Whom the answer is for, so that it is given to nobody else. */
static void
append_whose(GByteArray *key, char form, const LdapPlan *plan, const LdapSession *session)
{
    const PhUpstream *config = plan->upstream->config;
    bool as_service = config->identity == PH_UPSTREAM_AS_SERVICE;
    char whose = plan->who == LDAP_PROXY_NOBODY ? 'a' : as_service ? 's' : 'c';
    g_byte_array_set_size(key, 0);
    g_byte_array_append(key, (const guint8 *)&config->id, sizeof(config->id));
    g_byte_array_append(key, (const guint8 *)&config->version, sizeof(config->version));
    g_byte_array_append(key, (const guint8 *)&form, 1);
    g_byte_array_append(key, (const guint8 *)&whose, 1);
    if (whose == 'c')
        g_byte_array_append(
            key, (const guint8 *)session->client_dn, (guint)strlen(session->client_dn) + 1);
}

static int
compare_names(const void *a, const void *b)
{
    const LdapSpan *one = a;
    const LdapSpan *other = b;
    int by_text = g_ascii_strncasecmp(
        (const char *)one->bytes, (const char *)other->bytes, MIN(one->length, other->length));
    return by_text != 0 ? by_text : (one->length > other->length) - (one->length < other->length);
}

/* The same for the same set of attributes. False: too many. */
static bool
append_attributes(GByteArray *key, LdapSpan list)
{
    LdapSpan names[KEY_ATTRIBUTES_MAX];
    size_t n = 0;
    LdapSpan name;
    while (ldap_element_take(&list, LDAP_TAG_OCTETS, &name)) {
        if (n == KEY_ATTRIBUTES_MAX)
            return false;
        names[n++] = name;
    }
    if (n > 1)
        qsort(names, n, sizeof(names[0]), compare_names);
    for (size_t i = 0; i < n; i++) {
        uint32_t length = (uint32_t)names[i].length;
        g_byte_array_append(key, (const guint8 *)&length, sizeof(length));
        guint at = key->len;
        g_byte_array_append(key, names[i].bytes, length);
        for (; at < key->len; at++)
            key->data[at] = (guint8)g_ascii_tolower((char)key->data[at]);
    }
    return true;
}

/* The key of the search, in which equal searches are equal bytes. False: it has none. */
static bool
append_search(GByteArray *key, const LdapSearchParts *search)
{
    g_autofree char *base = ldap_dn_normalize(search->base.bytes, search->base.length);
    g_autofree char *filter = ldap_filter_key(search->filter);
    if (base == NULL || filter == NULL)
        return false;
    int32_t numbers[] = { search->scope, search->deref, search->size_limit, search->time_limit,
        search->types_only };
    g_byte_array_append(key, (const guint8 *)numbers, sizeof(numbers));
    g_byte_array_append(key, (const guint8 *)base, (guint)strlen(base) + 1);
    g_byte_array_append(key, (const guint8 *)filter, (guint)strlen(filter) + 1);
    return append_attributes(key, search->attributes);
}

static LdapSpan
span_of(const GByteArray *array)
{
    return (LdapSpan){ .bytes = array->data, .length = array->len };
}

/* Ends the operation. Many answers may be there for one client at once. */
static PH_ON_REACTOR void
answer_from_cache(LdapPool *pool, LdapOperation *operation, LdapSpan answer)
{
    LdapSpan rest;
    if (ldap_proxy_is_too_slow(pool, operation->session)) {
        ldap_proxy_refuse_slow(operation);
        return;
    }
    while (ldap_answer_next(&answer, &rest))
        ldap_proxy_write(operation, rest);
    (void)ldap_proxy_is_too_slow(pool, operation->session); /* what waits now is counted */
    ldap_operation_end(operation);
}

/* -- fills ------------------------------------------------------------------------------------- */

LdapFill *
ldap_fill_new(LdapPool *pool, LdapUpstream *upstream, LdapForward *leader, LdapSpan alias)
{
    LdapFill *fill = g_new0(LdapFill, 1);
    fill->pool = pool;
    fill->key = g_bytes_new(pool->key->data, pool->key->len);
    fill->alias = alias.bytes != NULL ? g_bytes_new(alias.bytes, alias.length) : NULL;
    fill->answer = g_byte_array_new();
    fill->epoch = ldap_epoch(pool->proxy, upstream->config->id);
    fill->leader = leader;
    leader->fill = fill;
    g_queue_init(&fill->followers);
    g_hash_table_insert(pool->fills, g_bytes_ref(fill->key), fill);
    return fill;
}

static LdapFill *
fill_find(LdapPool *pool)
{
    g_autoptr(GBytes) key = g_bytes_new_static(pool->key->data, pool->key->len);
    return g_hash_table_lookup(pool->fills, key);
}

LdapForward *
ldap_fill_take_follower(GQueue *followers)
{
    LdapForward *follower = followers->head != NULL ? followers->head->data : NULL;
    if (follower != NULL)
        ldap_forward_unqueue(follower);
    return follower;
}

/* What is done for one follower may end another: each knows where it waits. */
void
ldap_fill_free(LdapFill *fill, GQueue *followers_out)
{
    LdapForward *follower;
    g_queue_init(followers_out);
    while ((follower = ldap_fill_take_follower(&fill->followers)) != NULL)
        ldap_forward_queue(follower, followers_out);
    fill->leader->fill = NULL;
    fill->pool->filling -= fill->answer->len;
    g_hash_table_remove(fill->pool->fills, fill->key);
    g_bytes_unref(fill->key);
    if (fill->alias != NULL)
        g_bytes_unref(fill->alias);
    g_byte_array_unref(fill->answer);
    g_free(fill);
}

/* The answer is too large for the cache: each asks on its own. */
static PH_ON_REACTOR void
give_up_fill(LdapFill *fill)
{
    GQueue followers;
    LdapForward *forward;
    ldap_fill_free(fill, &followers);
    while ((forward = ldap_fill_take_follower(&followers)) != NULL)
        ldap_upstream_submit(forward);
}

static PH_ON_REACTOR void
answer_follower(LdapForward *forward, LdapSpan answer)
{
    LdapOperation *operation = forward->operation;
    LdapPool *pool = forward->upstream->pool;
    operation->forward = NULL;
    ldap_forward_free(forward);
    answer_from_cache(pool, operation, answer);
}

/* Its answer is complete. */
void
ldap_fill_end(LdapFill *fill, int result)
{
    LdapPool *pool = fill->pool;
    const LdapUpstream *upstream = fill->leader->upstream;
    int64_t cache_us = upstream->config->cache_s * G_USEC_PER_SEC;
    bool is_there = result == LDAP_SUCCESS && fill->n_parts > 1;
    bool is_not = result == LDAP_NO_SUCH_OBJECT || (result == LDAP_SUCCESS && !is_there);
    int64_t now_us = ph_monotonic_us();
    g_autoptr(GByteArray) answer = g_byte_array_ref(fill->answer);
    LdapSpan whole = span_of(answer);
    if (is_there || is_not) {
        gsize length;
        LdapSpan key = { .bytes = g_bytes_get_data(fill->key, &length) };
        key.length = length;
        int64_t fresh_us = is_there ? cache_us : MAX(cache_us / NEGATIVE_SHARE, 1);
        ldap_search_cache_put(pool->answers, key, whole, fill->epoch, now_us + fresh_us,
            now_us + (is_there ? 2 * fresh_us : fresh_us));
        if (fill->alias != NULL) {
            LdapSpan alias = { .bytes = g_bytes_get_data(fill->alias, &length) };
            alias.length = length;
            ldap_search_cache_add_alias(pool->answers, key, alias);
        }
    }
    GQueue followers;
    LdapForward *forward;
    ldap_fill_free(fill, &followers);
    while ((forward = ldap_fill_take_follower(&followers)) != NULL)
        answer_follower(forward, whole);
}

void
ldap_fill_add(LdapFill *fill, LdapSpan rest)
{
    LdapPool *pool = fill->pool;
    size_t more = rest.length + sizeof(uint32_t);
    if (fill->answer->len + more > ldap_search_cache_answer_max(pool->answers) ||
        pool->filling + more > pool->config.cache_bytes) {
        give_up_fill(fill);
        return;
    }
    pool->filling += more;
    fill->n_parts++;
    ldap_answer_append(fill->answer, rest);
}

/* -- asking the cache -------------------------------------------------------------------------- */

/* What was kept is old: it is given, and asked for again. */
static PH_ON_REACTOR void
refresh(LdapPool *pool, LdapOperation *operation, const LdapPlan *plan)
{
    if (fill_find(pool) != NULL)
        return;
    LdapForward *forward = ldap_proxy_forward_new(operation, plan);
    ldap_fill_new(pool, plan->upstream, forward, (LdapSpan){ 0 });
    ldap_upstream_submit(forward);
}

/* First in the form in which it is asked, which costs no look at the filter; then by its key. */
bool
ldap_cache_answer(
    LdapPool *pool, LdapOperation *operation, const LdapPlan *plan, bool *cacheable_out)
{
    const PhUpstream *config = plan->upstream->config;
    LdapCounters *counters = &pool->proxy->state->counters;
    if (operation->tag != LDAP_REQ_SEARCH || config->cache_s <= 0 || plan->has_controls ||
        pool->config.cache_bytes == 0)
        return false;
    uint64_t epoch = ldap_epoch(pool->proxy, config->id);
    int64_t now_us = ph_monotonic_us();
    LdapSpan answer;
    append_whose(pool->scratch, 'R', plan, operation->session);
    g_byte_array_append(pool->scratch, operation->pdu.op.bytes, (guint)operation->pdu.op.length);
    LdapSpan alias = span_of(pool->scratch);
    LdapCacheState found = ldap_search_cache_find(pool->answers, alias, epoch, now_us, &answer);
    if (found != LDAP_CACHE_FRESH) {
        append_whose(pool->key, 'N', plan, operation->session);
        if (!append_search(pool->key, &plan->search))
            return false;
        if (found == LDAP_CACHE_MISS) {
            LdapSpan key = span_of(pool->key);
            found = ldap_search_cache_find(pool->answers, key, epoch, now_us, &answer);
            if (found != LDAP_CACHE_MISS) {
                /* Which may have taken the place of the answer itself. */
                ldap_search_cache_add_alias(pool->answers, key, alias);
                found = ldap_search_cache_find(pool->answers, key, epoch, now_us, &answer);
            }
        }
    }
    /* What only this session's own connection can fetch again is not fetched behind its back. */
    if (found == LDAP_CACHE_FRESH || (found == LDAP_CACHE_STALE && !plan->is_pinned)) {
        ph_metric_add(&counters->cache_hits, 1);
        g_autoptr(GByteArray) kept = NULL;
        if (found == LDAP_CACHE_STALE) { /* which may take the place of the answer in the cache */
            kept = g_byte_array_append(g_byte_array_new(), answer.bytes, (guint)answer.length);
            answer = span_of(kept);
            refresh(pool, operation, plan);
        }
        answer_from_cache(pool, operation, answer);
        return true;
    }
    ph_metric_add(&counters->cache_misses, 1);
    LdapFill *fill = fill_find(pool);
    *cacheable_out = fill == NULL;
    if (fill == NULL || fill->epoch != epoch || plan->is_pinned)
        return false;
    LdapForward *forward = ldap_proxy_forward_new(operation, plan);
    ldap_proxy_belong(forward, operation);
    ldap_forward_queue(forward, &fill->followers);
    ldap_forward_age(forward);
    return true;
}
