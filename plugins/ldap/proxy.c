/* proxy.c - who may ask an upstream what, and as whom; caches; answers to clients
 *
 * As whom is the hard part, because connections are shared. Reads go as the upstream's `identity` says.
 * Changes are always made as the client itself: with AS_SERVICE too they take a connection that is bound
 * as the client, because what the service may change is not what each client may. Controls with which a
 * client would name another identity are refused on shared connections, and only those extended
 * requests are passed on of which we know that they leave a shared connection as it was.
 *
 * Cached answers are found by who asks, too. While an answer is fetched for the cache, others who ask
 * the same wait for it (a "fill"): they are followers of the one forward that is under way.
 */
#include "plugins/ldap/dn.h"
#include "plugins/ldap/filter.h"
#include "plugins/ldap/proxy.h"

#include "posthouse/log.h"
#include "posthouse/service.h"

#include <string.h>

enum {
    KEY_ATTRIBUTES_MAX = 64,
    NEGATIVE_SHARE = 4, /* "not there" is believed for this part of the cache time */
    SLOW_CLIENTS = 8,   /* may have all that one may have, on one reactor */
    BIND_KEY_BYTES = 32,
};

#define OID_PASSWORD_MODIFY "1.3.6.1.4.1.4203.1.11.1"

/* Who the session is to this upstream. */
typedef enum Who { WHO_NOBODY, WHO_ACCOUNT, WHO_CLIENT } Who;

/* How a request goes. */
typedef struct Plan {
    LdapUpstream *upstream;
    Who who;
    bool is_read;
    bool is_pinned;
    bool as_client; /* on a connection that is bound as the client */
    bool is_endless;
    bool has_controls;
    LdapSearchParts search;
} Plan;

struct LdapFill {
    LdapPool *pool;
    GBytes *key;
    GBytes *alias;
    GByteArray *answer;
    uint64_t epoch;
    unsigned n_parts;
    LdapForward *leader;
    GQueue followers;
};

static PH_ON_REACTOR LdapPool *
pool_of(const LdapSession *session)
{
    return ldap_pool_get(
        ldap_state(session)->proxy, ph_connection_reactor(session->base.connection));
}

/* -- routing ----------------------------------------------------------------------------------- */

const PhUpstream *
ldap_proxy_route(LdapState *state, PhReactor *reactor, const char *dn)
{
    ph_assert_on_reactor();
    LdapPool *pool = ldap_pool_get(state->proxy, reactor);
    const LdapUpstream *best = NULL;
    for (guint i = 0; i < pool->upstreams->len; i++) {
        const LdapUpstream *upstream = pool->upstreams->pdata[i];
        if (upstream->suffix != NULL && ldap_dn_is_below(dn, upstream->suffix) &&
            (best == NULL || strlen(upstream->suffix) > strlen(best->suffix)))
            best = upstream;
    }
    return best != NULL ? best->config : NULL;
}

const PhUpstream *
ldap_proxy_by_id(LdapState *state, PhReactor *reactor, int64_t upstream_id)
{
    ph_assert_on_reactor();
    LdapPool *pool = ldap_pool_get(state->proxy, reactor);
    for (guint i = 0; i < pool->upstreams->len; i++) {
        const LdapUpstream *upstream = pool->upstreams->pdata[i];
        if (upstream->config->id == upstream_id)
            return upstream->config;
    }
    return NULL;
}

/* -- who may what ------------------------------------------------------------------------------ */

static Who
who_is(const LdapSession *session, const PhUpstream *config)
{
    if (session->who == LDAP_WHO_CLIENT && session->client_upstream == config->id)
        return WHO_CLIENT;
    if (session->who == LDAP_WHO_ACCOUNT && config->identity == PH_UPSTREAM_AS_SERVICE)
        return WHO_ACCOUNT;
    return WHO_NOBODY;
}

/* What a control does to how its request goes. */
typedef enum ControlKind {
    CONTROL_PLAIN,
    CONTROL_PINS,     /* the server remembers something of the connection */
    CONTROL_ENDLESS,  /* and answers when something changes */
    CONTROL_IDENTITY, /* asks as somebody else */
} ControlKind;

static const struct {
    const char *oid;
    ControlKind kind;
} control_rows[] = {
    { "1.2.840.113556.1.4.319", CONTROL_PINS },       /* paged results, RFC 2696 */
    { "2.16.840.1.113730.3.4.9", CONTROL_PINS },      /* virtual list view */
    { "1.2.840.113556.1.4.473", CONTROL_PINS },       /* sorting, RFC 2891 */
    { "1.2.840.113556.1.4.841", CONTROL_PINS },       /* directory synchronisation */
    { "1.3.6.1.1.21.2", CONTROL_PINS },               /* transactions, RFC 5805 */
    { "2.16.840.1.113730.3.4.3", CONTROL_ENDLESS },   /* persistent search */
    { "1.2.840.113556.1.4.528", CONTROL_ENDLESS },    /* notification of changes */
    { "1.3.6.1.4.1.4203.1.9.1.1", CONTROL_ENDLESS },  /* content synchronisation, RFC 4533 */
    { "2.16.840.1.113730.3.4.18", CONTROL_IDENTITY }, /* proxied authorization, RFC 4370 */
    { "2.16.840.1.113730.3.4.12", CONTROL_IDENTITY }, /* and its first version */
};

static ControlKind
control_kind(LdapSpan oid)
{
    for (size_t i = 0; i < G_N_ELEMENTS(control_rows); i++)
        if (ldap_span_is(oid, control_rows[i].oid))
            return control_rows[i].kind;
    return CONTROL_PLAIN;
}

static bool
may_not(LdapResult *result, LdapResult is, const char **text, const char *says)
{
    *result = is;
    *text = says;
    return false;
}

static bool
plan_controls(LdapSpan controls, Plan *plan, LdapResult *result, const char **text)
{
    LdapControl control;
    plan->has_controls = controls.length > 0;
    while (ldap_control_next(&controls, &control) == LDAP_PARSE_DONE) {
        switch (control_kind(control.oid)) {
        case CONTROL_PLAIN:
            break;
        case CONTROL_ENDLESS:
            plan->is_endless = true;
            plan->is_pinned = true;
            break;
        case CONTROL_PINS:
            plan->is_pinned = true;
            break;
        case CONTROL_IDENTITY:
            if (!plan->as_client)
                return may_not(result, LDAP_INSUFFICIENT_ACCESS, text,
                    "nobody asks as somebody else here");
            break;
        }
    }
    return true;
}

static bool
is_password_modify(const LdapPdu *pdu)
{
    LdapSpan name;
    return ldap_request_extended_name(pdu, &name) && ldap_span_is(name, OID_PASSWORD_MODIFY);
}

static bool
plan_change(const LdapOperation *operation, Plan *plan, LdapResult *result, const char **text)
{
    const PhUpstream *config = plan->upstream->config;
    const LdapPinned *pinned = operation->session->pinned;
    if (operation->tag == LDAP_REQ_EXTENDED && !is_password_modify(&operation->pdu))
        return may_not(result, LDAP_PROTOCOL_ERROR, text, "this extended request is not offered");
    if (plan->who == WHO_NOBODY)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text, "log in first");
    if (config->read_only)
        return may_not(result, LDAP_UNWILLING_TO_PERFORM, text, "this part of the tree is not changed here");
    if (config->identity == PH_UPSTREAM_FOR_CLIENT)
        return true;
    if (plan->who != WHO_CLIENT || pinned == NULL || pinned->password == NULL)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text,
            "only who logged in with a name of this part of the tree may change it");
    plan->as_client = plan->is_pinned = true;
    return true;
}

static bool
make_plan(const LdapOperation *operation, Plan *plan, LdapResult *result, const char **text)
{
    const PhUpstream *config = plan->upstream->config;
    plan->who = who_is(operation->session, config);
    plan->is_read = operation->tag == LDAP_REQ_SEARCH || operation->tag == LDAP_REQ_COMPARE;
    if (!ldap_request_check(&operation->pdu, &plan->search))
        return may_not(result, LDAP_PROTOCOL_ERROR, text, "malformed request");
    if (!plan->is_read && !plan_change(operation, plan, result, text))
        return false;
    if (plan->is_read && plan->who == WHO_NOBODY && !config->anonymous)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text, "log in first");
    if (config->identity == PH_UPSTREAM_AS_CLIENT && plan->who == WHO_CLIENT)
        plan->as_client = plan->is_pinned = true;
    return plan_controls(operation->pdu.controls, plan, result, text);
}

/* -- keys of the cache ------------------------------------------------------------------------- */

/* Whom the answer is for, so that it is given to nobody else. */
static void
append_whose(GByteArray *key, char form, const Plan *plan, const LdapSession *session)
{
    const PhUpstream *config = plan->upstream->config;
    bool as_service = config->identity == PH_UPSTREAM_AS_SERVICE;
    char whose = plan->who == WHO_NOBODY ? 'a' : as_service ? 's' : 'c';
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
    int by_text = g_ascii_strncasecmp((const char *)one->bytes, (const char *)other->bytes,
        MIN(one->length, other->length));
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

/* -- answers to the client --------------------------------------------------------------------- */

static PH_ON_REACTOR void
write_rest(LdapOperation *operation, LdapSpan rest)
{
    PhConnection *connection = operation->session->base.connection;
    uint8_t head[LDAP_HEAD_BYTES];
    if (operation->is_abandoned)
        return;
    size_t length = ldap_pdu_head(head, operation->id, rest.length);
    ph_connection_write(connection, head, length);
    ph_connection_write(connection, rest.bytes, rest.length);
}

static PH_ON_REACTOR void
note_buffered(LdapPool *pool, LdapSession *session, size_t bytes)
{
    pool->buffered -= session->buffered;
    session->buffered = bytes;
    pool->buffered += bytes;
}

/* Has the client left so much unread that it gets no more of this answer? */
static PH_ON_REACTOR bool
is_too_slow(LdapPool *pool, LdapSession *session)
{
    size_t pending = ph_connection_output_pending(session->base.connection);
    if (pending <= PH_OUTPUT_HIGH_BYTES) {
        if (session->buffered > 0)
            note_buffered(pool, session, 0);
        return false;
    }
    note_buffered(pool, session, pending);
    return pending > pool->config.slow_client_bytes ||
           pool->buffered > SLOW_CLIENTS * pool->config.slow_client_bytes;
}

static PH_ON_REACTOR void
answer_from_cache(LdapOperation *operation, LdapSpan answer)
{
    LdapSpan rest;
    while (ldap_answer_next(&answer, &rest))
        write_rest(operation, rest);
}

/* -- fills ------------------------------------------------------------------------------------- */

static LdapFill *
fill_new(LdapPool *pool, LdapUpstream *upstream, LdapForward *leader, LdapSpan alias)
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

/* Nobody can follow it any more. Its followers are the caller's. */
static void
fill_free(LdapFill *fill)
{
    if (fill->leader != NULL)
        fill->leader->fill = NULL;
    g_hash_table_remove(fill->pool->fills, fill->key);
    g_bytes_unref(fill->key);
    if (fill->alias != NULL)
        g_bytes_unref(fill->alias);
    g_byte_array_unref(fill->answer);
    g_free(fill);
}

static LdapForward *
take_follower(GQueue *followers)
{
    GList *link = g_queue_pop_head_link(followers);
    if (link == NULL)
        return NULL;
    LdapForward *forward = link->data;
    forward->fill = NULL;
    return forward;
}

static bool
is_leader(const LdapForward *forward)
{
    return forward->fill != NULL && forward->fill->leader == forward;
}

/* The answer is too large for the cache: each asks on its own. */
static PH_ON_REACTOR void
give_up_fill(LdapFill *fill)
{
    GQueue followers = fill->followers;
    LdapForward *forward;
    fill_free(fill);
    while ((forward = take_follower(&followers)) != NULL)
        ldap_upstream_submit(forward);
}

static PH_ON_REACTOR void
answer_follower(LdapForward *forward, LdapSpan answer)
{
    LdapOperation *operation = forward->operation;
    operation->forward = NULL;
    ldap_forward_free(forward);
    answer_from_cache(operation, answer);
    ldap_operation_end(operation);
}

/* Its answer is complete. */
static PH_ON_REACTOR void
end_fill(LdapFill *fill, int result)
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
    GQueue followers = fill->followers;
    LdapForward *forward;
    fill_free(fill);
    while ((forward = take_follower(&followers)) != NULL)
        answer_follower(forward, whole);
}

static PH_ON_REACTOR void
add_to_fill(LdapFill *fill, LdapSpan rest)
{
    size_t most = ldap_search_cache_answer_max(fill->pool->answers);
    if (fill->answer->len + rest.length + sizeof(uint32_t) > most) {
        give_up_fill(fill);
        return;
    }
    fill->n_parts++;
    ldap_answer_append(fill->answer, rest);
}

/* -- forwarding -------------------------------------------------------------------------------- */

/* Operation and controls as the client wrote them, without what may stand behind. */
static LdapSpan
request_of(const LdapPdu *pdu)
{
    LdapSpan last = pdu->controls.bytes != NULL ? pdu->controls : pdu->op;
    return (LdapSpan){ .bytes = pdu->rest.bytes,
        .length = (size_t)(last.bytes + last.length - pdu->rest.bytes) };
}

static PH_ON_REACTOR LdapForward *
forward_new(LdapOperation *operation, const Plan *plan)
{
    const LdapPdu *pdu = &operation->pdu;
    const LdapSession *session = operation->session;
    LdapForward *forward = ldap_forward_new(plan->upstream);
    forward->kind = LDAP_FORWARD_REQUEST;
    forward->tag = operation->tag;
    forward->final_tag = ldap_response_tag(operation->tag);
    forward->is_read = plan->is_read;
    forward->is_endless = plan->is_endless;
    forward->bytes = g_bytes_ref(operation->bytes);
    forward->request = request_of(pdu);
    forward->controls = pdu->controls;
    forward->op = (LdapSpan){ .bytes = pdu->rest.bytes,
        .length = (size_t)(pdu->op.bytes + pdu->op.length - pdu->rest.bytes) };
    if (plan->upstream->config->identity == PH_UPSTREAM_FOR_CLIENT)
        forward->authorize = plan->who == WHO_CLIENT ? g_strconcat("dn:", session->client_dn, NULL)
                                                     : g_strdup("");
    return forward;
}

static void
belong(LdapForward *forward, LdapOperation *operation)
{
    forward->operation = operation;
    operation->forward = forward;
}

/* What was kept is old: it is given, and asked for again. */
static PH_ON_REACTOR void
refresh(LdapPool *pool, LdapOperation *operation, const Plan *plan)
{
    if (fill_find(pool) != NULL)
        return;
    LdapForward *forward = forward_new(operation, plan);
    fill_new(pool, plan->upstream, forward, (LdapSpan){ 0 });
    ldap_upstream_submit(forward);
}

/* True: answered, or it waits for the answer to another's. `alias_out` is in the pool's scratch, and
 * the pool's key is the search's: where `cacheable_out` says that it may be kept. */
static PH_ON_REACTOR bool
try_cache(LdapPool *pool, LdapOperation *operation, const Plan *plan, bool *cacheable_out)
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
    g_byte_array_append(
        pool->scratch, operation->pdu.op.bytes, (guint)operation->pdu.op.length);
    LdapSpan alias = span_of(pool->scratch);
    LdapCacheState found =
        ldap_search_cache_find(pool->answers, alias, epoch, now_us, &answer);
    if (found != LDAP_CACHE_FRESH) {
        append_whose(pool->key, 'N', plan, operation->session);
        if (!append_search(pool->key, &plan->search))
            return false;
        if (found == LDAP_CACHE_MISS) {
            LdapSpan key = span_of(pool->key);
            found = ldap_search_cache_find(pool->answers, key, epoch, now_us, &answer);
            if (found != LDAP_CACHE_MISS)
                ldap_search_cache_add_alias(pool->answers, key, alias);
        }
    }
    /* What only this session's own connection can fetch again is not fetched behind its back. */
    if (found == LDAP_CACHE_FRESH || (found == LDAP_CACHE_STALE && !plan->is_pinned)) {
        ph_metric_add(&counters->cache_hits, 1);
        answer_from_cache(operation, answer);
        if (found == LDAP_CACHE_STALE)
            refresh(pool, operation, plan);
        ldap_operation_end(operation);
        return true;
    }
    ph_metric_add(&counters->cache_misses, 1);
    LdapFill *fill = fill_find(pool);
    *cacheable_out = fill == NULL;
    if (fill == NULL || fill->epoch != epoch || plan->is_pinned)
        return false;
    LdapForward *forward = forward_new(operation, plan);
    belong(forward, operation);
    forward->fill = fill;
    g_queue_push_tail_link(&fill->followers, &forward->fill_link);
    ldap_forward_age(forward);
    return true;
}

void
ldap_proxy_forward(LdapOperation *operation, const PhUpstream *config)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    LdapPool *pool = pool_of(session);
    Plan plan = { .upstream = ldap_pool_upstream(pool, config) };
    LdapResult result = LDAP_UNAVAILABLE;
    const char *text = "the directory behind this one was changed";
    if (plan.upstream == NULL || !make_plan(operation, &plan, &result, &text)) {
        ldap_operation_finish(operation, result, NULL, text);
        return;
    }
    bool cacheable = false;
    if (try_cache(pool, operation, &plan, &cacheable))
        return;
    LdapForward *forward = forward_new(operation, &plan);
    if (plan.is_pinned) {
        forward->pin = ldap_pin_get(session, plan.upstream, plan.as_client);
        if (forward->pin == NULL) {
            ldap_forward_free(forward);
            ldap_operation_finish(
                operation, LDAP_BUSY, NULL, "this client has too many connections of its own");
            return;
        }
    }
    belong(forward, operation);
    if (cacheable)
        fill_new(pool, plan.upstream, forward, span_of(pool->scratch));
    ph_metric_add(&pool->proxy->state->counters.forwarded, 1);
    ldap_upstream_submit(forward);
}

/* -- binds ------------------------------------------------------------------------------------- */

/* The client is who it says. */
static PH_ON_REACTOR void
accept_bind(LdapOperation *operation, const PhUpstream *config, const char *dn,
    const PhSecret *password)
{
    LdapSession *session = operation->session;
    bool keep = config->identity == PH_UPSTREAM_AS_CLIENT ||
                (config->identity == PH_UPSTREAM_AS_SERVICE && !config->read_only);
    ldap_session_become(session, LDAP_WHO_CLIENT, NULL, g_strdup(dn), config->id);
    if (keep) {
        ldap_pinned_free(g_steal_pointer(&session->pinned));
        session->pinned = g_new0(LdapPinned, 1);
        session->pinned->session = session;
        session->pinned->password =
            ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    }
    ldap_operation_finish(operation, LDAP_SUCCESS, NULL, NULL);
}

void
ldap_proxy_bind(
    LdapOperation *operation, const PhUpstream *config, const char *dn, const PhSecret *password)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    LdapPool *pool = pool_of(session);
    LdapUpstream *upstream = ldap_pool_upstream(pool, config);
    g_autofree char *name = ldap_dn_normalize((const uint8_t *)dn, strlen(dn));
    if (upstream == NULL || name == NULL) {
        ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
        ldap_operation_finish(operation, name == NULL ? LDAP_INVALID_DN_SYNTAX : LDAP_UNAVAILABLE,
            NULL, name == NULL ? "the name is malformed" : "the directory behind this one was changed");
        return;
    }
    uint8_t digest[LDAP_BIND_DIGEST_BYTES];
    ldap_bind_cache_digest(pool->binds, config->id, config->version, name, password, digest);
    if (pool->config.cache_binds && config->cache_s > 0 &&
        ldap_bind_cache_find(pool->binds, digest, ldap_epoch(pool->proxy, config->id),
            ph_monotonic_us())) {
        ph_metric_add(&pool->proxy->state->counters.cache_hits, 1);
        accept_bind(operation, config, dn, password);
        return;
    }
    LdapForward *forward = ldap_forward_new(upstream);
    forward->kind = LDAP_FORWARD_BIND;
    forward->tag = LDAP_REQ_BIND;
    forward->final_tag = LDAP_RES_BIND;
    forward->is_read = true; /* asking twice changes nothing */
    forward->dn = g_strdup(dn);
    forward->password = ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    memcpy(forward->digest, digest, sizeof(digest));
    belong(forward, operation);
    ph_metric_add(&pool->proxy->state->counters.forwarded, 1);
    ldap_upstream_submit(forward);
}

/* Does this result say something about the name or the password? */
static bool
is_no(int result)
{
    return result == LDAP_INVALID_CREDENTIALS || result == LDAP_NO_SUCH_OBJECT ||
           result == LDAP_INAPPROPRIATE_AUTH || result == LDAP_INVALID_DN_SYNTAX ||
           result == LDAP_INSUFFICIENT_ACCESS || result == LDAP_UNWILLING_TO_PERFORM;
}

static PH_ON_REACTOR void
bind_answered(LdapForward *forward, const LdapPdu *pdu)
{
    LdapPool *pool = forward->upstream->pool;
    const PhUpstream *config = forward->upstream->config;
    LdapOperation *operation = g_steal_pointer(&forward->operation);
    int result = ldap_pdu_result(pdu->op);
    if (result == LDAP_SUCCESS && pool->config.cache_binds && config->cache_s > 0)
        ldap_bind_cache_put(pool->binds, forward->digest, ldap_epoch(pool->proxy, config->id),
            ph_monotonic_us() + config->cache_s * G_USEC_PER_SEC);
    else if (is_no(result))
        ldap_bind_cache_remove(pool->binds, forward->digest);
    if (operation == NULL) {
        ldap_forward_free(forward);
        return;
    }
    operation->forward = NULL;
    if (result == LDAP_SUCCESS) {
        accept_bind(operation, config, forward->dn, forward->password);
    } else {
        ldap_session_become(operation->session, LDAP_WHO_NOBODY, NULL, NULL, 0);
        write_rest(operation, request_of(pdu));
        ldap_operation_end(operation);
    }
    ldap_forward_free(forward);
}

/* -- what comes -------------------------------------------------------------------------------- */

/* A server that says "not now" is not the only one: asked again elsewhere. */
static PH_ON_REACTOR bool
asks_again(LdapForward *forward, const LdapPdu *pdu)
{
    int result = ldap_pdu_result(pdu->op);
    if ((result != LDAP_BUSY && result != LDAP_UNAVAILABLE) || !forward->is_read ||
        forward->is_started || forward->upstream->n_servers < 2 ||
        forward->tries >= forward->upstream->n_servers || forward->pin != NULL)
        return false;
    ldap_upstream_submit(forward);
    return true;
}

static PH_ON_REACTOR void
after_change(const LdapForward *forward)
{
    if (!forward->is_read)
        ldap_epoch_raise(forward->upstream->pool->proxy, forward->upstream->config->id);
}

static PH_ON_REACTOR void
end_slow(LdapForward *forward)
{
    LdapOperation *operation = g_steal_pointer(&forward->operation);
    operation->forward = NULL;
    if (!is_leader(forward) || forward->fill->followers.head == NULL) {
        if (forward->fill != NULL)
            fill_free(forward->fill);
        ldap_forward_drop(forward);
    }
    ldap_operation_finish(operation, LDAP_ADMIN_LIMIT_EXCEEDED, NULL,
        "the client reads too slowly for so large an answer: ask for pages");
}

void
ldap_forward_answered(LdapForward *forward, const LdapPdu *pdu, bool is_last)
{
    LdapPool *pool = forward->upstream->pool;
    if (is_last && asks_again(forward, pdu))
        return;
    if (forward->kind == LDAP_FORWARD_BIND) {
        bind_answered(forward, pdu);
        return;
    }
    LdapSpan rest = request_of(pdu);
    if (is_leader(forward))
        add_to_fill(forward->fill, rest);
    LdapOperation *operation = forward->operation;
    forward->is_started = true;
    if (operation != NULL) {
        LdapSession *session = operation->session;
        write_rest(operation, rest);
        bool slow = is_too_slow(pool, session);
        if (!is_last && forward->pin != NULL && ldap_session_is_full(session))
            ldap_link_set_paused(forward->link, true);
        else if (!is_last && forward->pin == NULL && slow) {
            end_slow(forward);
            return;
        }
    }
    if (!is_last)
        return;
    after_change(forward);
    forward->operation = NULL;
    if (operation != NULL)
        operation->forward = NULL;
    if (is_leader(forward))
        end_fill(forward->fill, ldap_pdu_result(pdu->op));
    ldap_forward_free(forward);
    if (operation != NULL)
        ldap_operation_end(operation);
}

void
ldap_forward_failed(LdapForward *forward, LdapResult result, const char *text)
{
    LdapOperation *operation = g_steal_pointer(&forward->operation);
    bool is_bind = forward->kind == LDAP_FORWARD_BIND;
    LdapFill *fill = forward->fill;
    GQueue followers = G_QUEUE_INIT;
    if (is_leader(forward)) {
        followers = fill->followers;
        fill_free(fill);
    } else if (fill != NULL) {
        g_queue_unlink(&fill->followers, &forward->fill_link);
    }
    after_change(forward);
    ldap_forward_free(forward);
    while ((forward = take_follower(&followers)) != NULL)
        ldap_forward_failed(forward, result, text);
    if (operation == NULL)
        return;
    operation->forward = NULL;
    if (is_bind)
        ldap_session_become(operation->session, LDAP_WHO_NOBODY, NULL, NULL, 0);
    ldap_operation_finish(operation, result, NULL, text);
}

bool
ldap_forward_is_held_up(const LdapForward *forward)
{
    return forward->link != NULL && forward->link->is_paused;
}

/* -- the end of a client's interest -------------------------------------------------------------- */

/* Nobody waits for it on behalf of this operation. */
static PH_ON_REACTOR void
let_go(LdapOperation *operation)
{
    LdapForward *forward = g_steal_pointer(&operation->forward);
    if (forward == NULL)
        return;
    forward->operation = NULL;
    if (forward->kind == LDAP_FORWARD_BIND && forward->link != NULL)
        return; /* its answer is good to know */
    if (is_leader(forward)) {
        if (forward->fill->followers.head != NULL && forward->pin == NULL)
            return;
        GQueue followers = forward->fill->followers;
        LdapForward *follower;
        fill_free(forward->fill);
        after_change(forward);
        ldap_forward_drop(forward);
        while ((follower = take_follower(&followers)) != NULL)
            ldap_forward_failed(follower, LDAP_UNAVAILABLE, "the request is to be sent again");
        return;
    }
    if (forward->fill != NULL)
        g_queue_unlink(&forward->fill->followers, &forward->fill_link);
    after_change(forward);
    ldap_forward_drop(forward);
}

void
ldap_proxy_abandon(LdapOperation *operation)
{
    ph_assert_on_reactor();
    let_go(operation);
    ldap_operation_end(operation);
}

void
ldap_proxy_release(LdapSession *session)
{
    ph_assert_on_reactor();
    if (session->buffered > 0)
        note_buffered(pool_of(session), session, 0);
    LdapPinned *pinned = g_steal_pointer(&session->pinned);
    if (pinned == NULL)
        return;
    /* Those that are still under way on connections that end now. */
    g_autoptr(GPtrArray) left = g_ptr_array_new();
    for (GList *at = session->operations.head; at != NULL; at = at->next) {
        LdapOperation *operation = at->data;
        if (operation->forward != NULL && operation->forward->pin != NULL)
            g_ptr_array_add(left, operation);
    }
    for (guint i = 0; i < left->len; i++) {
        LdapOperation *operation = left->pdata[i];
        let_go(operation);
        ldap_operation_finish(
            operation, LDAP_UNAVAILABLE, NULL, "the session is somebody else now");
    }
    ldap_pinned_free(pinned);
}

void
ldap_proxy_drained(LdapSession *session)
{
    ph_assert_on_reactor();
    if (session->buffered > 0)
        note_buffered(pool_of(session), session, 0);
    LdapPinned *pinned = session->pinned;
    for (unsigned i = 0; pinned != NULL && i < pinned->n_pins; i++)
        if (pinned->pins[i].link != NULL)
            ldap_link_set_paused(pinned->pins[i].link, false);
}

/* -- start, stop, looking at it -------------------------------------------------------------------- */

LdapProxy *
ldap_proxy_new(LdapState *state)
{
    LdapProxy *proxy = g_new0(LdapProxy, 1);
    g_autoptr(GError) error = NULL;
    proxy->state = state;
    proxy->bind_key = ph_secret_new_random(BIND_KEY_BYTES);
    if (!ph_service_publish("ldap.proxy", 1, proxy, &error))
        ph_log(PH_LOG_WARNING, "ldap.status", "%s", error->message);
    return proxy;
}

void
ldap_proxy_free(LdapProxy *proxy)
{
    if (proxy == NULL)
        return;
    ph_service_withdraw("ldap.proxy", proxy);
    LdapPool *pool = __atomic_load_n(&proxy->pools, __ATOMIC_ACQUIRE);
    while (pool != NULL) {
        LdapPool *next = pool->next;
        ldap_pool_free_blocking(pool);
        pool = next;
    }
    ph_secret_free(proxy->bind_key);
    g_free(proxy);
}

void
ldap_proxy_flush(LdapProxy *proxy)
{
    for (int64_t i = 0; i < LDAP_EPOCHS; i++)
        ldap_epoch_raise(proxy, i);
}

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
    LdapServerState state = server->state == LDAP_SERVER_UP && n_links == 0 ? LDAP_SERVER_IDLE
                                                                            : server->state;
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
