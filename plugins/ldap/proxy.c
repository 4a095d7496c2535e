/* proxy.c - who may ask an upstream what, and as whom; caches; answers to clients
 *
 * As whom is the hard part, because connections are shared. Reads go as the upstream's `identity` says.
 * Changes are always made as the client itself: with AS_SERVICE too they take a connection that is bound
 * as the client, because what the service may change is not what each client may. Controls with which a
 * client would name another identity are refused on shared connections, and only those extended
 * requests are passed on of which we know that they leave a shared connection as it was.
 */
#include "plugins/ldap/proxy.h"
#include "plugins/ldap/dn.h"

#include "posthouse/log.h"
#include "posthouse/service.h"

#include <string.h>

enum {
    SLOW_CLIENTS = 8, /* may have all that one may have, on one reactor */
    BIND_KEY_BYTES = 32,
};

#define OID_PASSWORD_MODIFY "1.3.6.1.4.1.4203.1.11.1"

static PH_ON_REACTOR LdapPool *
pool_of(const LdapSession *session)
{
    return ldap_pool_get(
        ldap_state(session)->proxy, ph_connection_reactor(session->base.connection));
}

/* After a farewell nothing new is asked for those that leave; but a node that was drained can come back,
 * and then somebody asks again. */
static PH_ON_REACTOR LdapPool *
pool_for_request(const LdapSession *session)
{
    LdapPool *pool = pool_of(session);
    if (!pool->is_leaving)
        return pool;
    pool->is_leaving = false;
    for (guint i = 0; i < pool->upstreams->len; i++) {
        LdapUpstream *upstream = pool->upstreams->pdata[i];
        for (size_t k = 0; k < upstream->n_servers; k++)
            ldap_server_come_back(&upstream->servers[k]);
    }
    return pool;
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

static LdapProxyWho
who_is(const LdapSession *session, const PhUpstream *config)
{
    if (session->who == LDAP_WHO_CLIENT && session->client_upstream == config->id)
        return LDAP_PROXY_CLIENT;
    if (session->who == LDAP_WHO_ACCOUNT && config->identity == PH_UPSTREAM_AS_SERVICE)
        return LDAP_PROXY_ACCOUNT;
    return LDAP_PROXY_NOBODY;
}

/* What a control does to how its request goes. On a connection that is not bound as the client only
 * known ones are passed on: what others would do with the rights of the service nobody can say. */
typedef enum ControlKind {
    CONTROL_UNKNOWN,
    CONTROL_PLAIN,
    CONTROL_PINS,     /* the server remembers something of the connection */
    CONTROL_ENDLESS,  /* and answers when something changes */
    CONTROL_IDENTITY, /* asks as somebody else */
} ControlKind;

/* The form counts for PLAIN ones: a server may end the connection, which others share, when it is another.
 * What pins goes over a connection of the client's own. */
// clang-format off
static const struct ControlRow {
    const char *oid;
    ControlKind kind;
    LdapValueForm form;
} control_rows[] = {
    { "2.16.840.1.113730.3.4.2", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* ManageDsaIT, RFC 3296 */
    { "1.3.6.1.4.1.4203.1.10.1", CONTROL_PLAIN, LDAP_VALUE_BOOL }, /* subentries, RFC 3672 */
    { "1.2.826.0.1.3344810.2.3", CONTROL_PLAIN, LDAP_VALUE_TERMS }, /* matched values, RFC 3876 */
    { "1.3.6.1.1.13.1", CONTROL_PLAIN, LDAP_VALUE_NAMES }, /* pre-read, RFC 4527 */
    { "1.3.6.1.1.13.2", CONTROL_PLAIN, LDAP_VALUE_NAMES }, /* post-read */
    { "1.3.6.1.1.12", CONTROL_PLAIN, LDAP_VALUE_FILTER }, /* assertion, RFC 4528 */
    { "1.3.6.1.1.22", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* do not use a copy, RFC 6171 */
    { "1.3.6.1.4.1.4203.666.5.16", CONTROL_PLAIN, LDAP_VALUE_DEREFERENCE }, /* dereference, OpenLDAP's */
    { "1.3.6.1.4.1.42.2.27.8.5.1", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* password policy, a draft */
    { "1.2.840.113556.1.4.417", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* Active Directory's: what was deleted, ... */
    { "1.2.840.113556.1.4.529", CONTROL_PLAIN, LDAP_VALUE_PLAIN }, /* ... extended names, */
    { "1.2.840.113556.1.4.801", CONTROL_PLAIN, LDAP_VALUE_PLAIN }, /* ... parts of security descriptors, */
    { "1.2.840.113556.1.4.805", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* ... a whole tree deleted, */
    { "1.2.840.113556.1.4.1339", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* ... no referrals, */
    { "1.2.840.113556.1.4.1340", CONTROL_PLAIN, LDAP_VALUE_PLAIN }, /* ... how to search, */
    { "1.2.840.113556.1.4.1413", CONTROL_PLAIN, LDAP_VALUE_NONE }, /* ... changes that are there already, */
    { "1.2.840.113556.1.4.1504", CONTROL_PLAIN, LDAP_VALUE_NAMES }, /* ... a search among values */
    { "1.2.840.113556.1.4.319", CONTROL_PINS, LDAP_VALUE_ANY }, /* paged results, RFC 2696 */
    { "2.16.840.1.113730.3.4.9", CONTROL_PINS, LDAP_VALUE_ANY }, /* virtual list view */
    { "1.2.840.113556.1.4.473", CONTROL_PINS, LDAP_VALUE_ANY }, /* sorting, RFC 2891 */
    { "1.2.840.113556.1.4.841", CONTROL_PINS, LDAP_VALUE_ANY }, /* directory synchronisation */
    { "1.3.6.1.1.21.2", CONTROL_PINS, LDAP_VALUE_ANY }, /* transactions, RFC 5805 */
    { "2.16.840.1.113730.3.4.3", CONTROL_ENDLESS, LDAP_VALUE_ANY }, /* persistent search */
    { "1.2.840.113556.1.4.528", CONTROL_ENDLESS, LDAP_VALUE_ANY }, /* notification of changes */
    { "1.3.6.1.4.1.4203.1.9.1.1", CONTROL_ENDLESS, LDAP_VALUE_ANY }, /* content synchronisation, RFC 4533 */
    { "2.16.840.1.113730.3.4.18", CONTROL_IDENTITY, LDAP_VALUE_ANY }, /* proxied authorization, RFC 4370 */
    { "2.16.840.1.113730.3.4.12", CONTROL_IDENTITY, LDAP_VALUE_ANY }, /* and its first version */
};

// clang-format on

static const struct ControlRow *
control_row(LdapSpan oid)
{
    static const struct ControlRow unknown = { NULL, CONTROL_UNKNOWN, LDAP_VALUE_NONE };
    for (size_t i = 0; i < G_N_ELEMENTS(control_rows); i++)
        if (ldap_span_is(oid, control_rows[i].oid))
            return &control_rows[i];
    return &unknown;
}

static bool
may_not(LdapResult *result, LdapResult is, const char **text, const char *says)
{
    *result = is;
    *text = says;
    return false;
}

static bool
plan_controls(LdapSpan controls, LdapPlan *plan, LdapResult *result, const char **text)
{
    LdapControl control;
    plan->has_controls = controls.length > 0;
    while (ldap_control_next(&controls, &control) == LDAP_PARSE_DONE) {
        const struct ControlRow *row = control_row(control.oid);
        switch (row->kind) {
        case CONTROL_PLAIN:
            if (!plan->as_client && !ldap_request_check_value(control.value, row->form))
                return may_not(result, LDAP_PROTOCOL_ERROR, text, "a malformed control");
            break;
        case CONTROL_UNKNOWN:
            if (!plan->as_client && control.is_critical)
                return may_not(result, LDAP_UNAVAILABLE_CRITICAL_EXTENSION, text,
                    "a critical control is not known here");
            plan->leaves_out = plan->leaves_out || !plan->as_client;
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
                return may_not(
                    result, LDAP_INSUFFICIENT_ACCESS, text, "nobody asks as somebody else here");
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
plan_change(const LdapOperation *operation, LdapPlan *plan, LdapResult *result, const char **text)
{
    const PhUpstream *config = plan->upstream->config;
    const LdapPinned *pinned = operation->session->pinned;
    if (operation->tag == LDAP_REQ_EXTENDED && !is_password_modify(&operation->pdu))
        return may_not(result, LDAP_PROTOCOL_ERROR, text, "this extended request is not offered");
    if (plan->who == LDAP_PROXY_NOBODY)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text, "log in first");
    if (config->read_only)
        return may_not(
            result, LDAP_UNWILLING_TO_PERFORM, text, "this part of the tree is not changed here");
    if (config->identity == PH_UPSTREAM_FOR_CLIENT)
        return true;
    if (plan->who != LDAP_PROXY_CLIENT || pinned == NULL || pinned->password == NULL)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text,
            "only who logged in with a name of this part of the tree may change it");
    plan->as_client = plan->is_pinned = true;
    return true;
}

static bool
make_plan(const LdapOperation *operation, LdapPlan *plan, LdapResult *result, const char **text)
{
    const PhUpstream *config = plan->upstream->config;
    plan->who = who_is(operation->session, config);
    plan->is_read = operation->tag == LDAP_REQ_SEARCH || operation->tag == LDAP_REQ_COMPARE;
    if (!ldap_request_check(&operation->pdu, &plan->search))
        return may_not(result, LDAP_PROTOCOL_ERROR, text, "malformed request");
    if (!plan->is_read && !plan_change(operation, plan, result, text))
        return false;
    if (plan->is_read && plan->who == LDAP_PROXY_NOBODY && !config->anonymous)
        return may_not(result, LDAP_INSUFFICIENT_ACCESS, text, "log in first");
    if (config->identity == PH_UPSTREAM_AS_CLIENT && plan->who == LDAP_PROXY_CLIENT)
        plan->as_client = plan->is_pinned = true;
    return plan_controls(operation->pdu.controls, plan, result, text);
}

/* -- answers to the client --------------------------------------------------------------------- */

void
ldap_proxy_write(LdapOperation *operation, LdapSpan rest)
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

bool
ldap_proxy_is_too_slow(LdapPool *pool, LdapSession *session)
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

void
ldap_proxy_refuse_slow(LdapOperation *operation)
{
    ldap_operation_finish(operation, LDAP_ADMIN_LIMIT_EXCEEDED, NULL,
        "the client reads too slowly for so large an answer: ask for pages");
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

/* RFC 4511 4.1.11: a control that is not critical and not known is ignored. */
static void
leave_out_unknown(LdapForward *forward)
{
    GByteArray *kept = g_byte_array_new();
    g_byte_array_append(kept, forward->op.bytes, (guint)forward->op.length);
    LdapSpan at = forward->controls;
    size_t opened = ldap_append_open(kept, LDAP_TAG_CONTROLS);
    size_t begin = kept->len;
    LdapControl control;
    for (LdapSpan whole = at; ldap_control_next(&at, &control) == LDAP_PARSE_DONE; whole = at)
        if (control_row(control.oid)->kind != CONTROL_UNKNOWN)
            g_byte_array_append(kept, whole.bytes, (guint)(whole.length - at.length));
    ldap_append_close(kept, opened);
    if (kept->len == begin) /* none is left */
        g_byte_array_set_size(kept, (guint)forward->op.length);
    size_t op_length = forward->op.length;
    size_t length = kept->len;
    g_bytes_unref(forward->bytes);
    forward->bytes = g_byte_array_free_to_bytes(kept);
    const uint8_t *bytes = g_bytes_get_data(forward->bytes, NULL);
    forward->request = (LdapSpan){ .bytes = bytes, .length = length };
    forward->op = (LdapSpan){ .bytes = bytes, .length = op_length };
    forward->controls = length == op_length
                            ? (LdapSpan){ 0 }
                            : (LdapSpan){ .bytes = bytes + begin, .length = length - begin };
}

LdapForward *
ldap_proxy_forward_new(LdapOperation *operation, const LdapPlan *plan)
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
    if (plan->leaves_out)
        leave_out_unknown(forward);
    if (plan->upstream->config->identity == PH_UPSTREAM_FOR_CLIENT)
        forward->authorize = plan->who == LDAP_PROXY_CLIENT
                                 ? g_strconcat("dn:", session->client_dn, NULL)
                                 : g_strdup("");
    return forward;
}

void
ldap_proxy_belong(LdapForward *forward, LdapOperation *operation)
{
    forward->operation = operation;
    operation->forward = forward;
}

void
ldap_proxy_forward(LdapOperation *operation, const PhUpstream *config)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    LdapPool *pool = pool_for_request(session);
    LdapPlan plan = { .upstream = ldap_pool_upstream(pool, config) };
    LdapResult result = LDAP_UNAVAILABLE;
    const char *text = "the directory behind this one was changed";
    if (plan.upstream == NULL || !make_plan(operation, &plan, &result, &text)) {
        ldap_operation_finish(operation, result, NULL, text);
        return;
    }
    bool cacheable = false;
    if (ldap_cache_answer(pool, operation, &plan, &cacheable))
        return;
    LdapForward *forward = ldap_proxy_forward_new(operation, &plan);
    if (plan.is_pinned) {
        forward->pin = ldap_pin_get(session, plan.upstream, plan.as_client);
        if (forward->pin == NULL) {
            ldap_forward_free(forward);
            ldap_operation_finish(
                operation, LDAP_BUSY, NULL, "this client has too many connections of its own");
            return;
        }
    }
    ldap_proxy_belong(forward, operation);
    if (cacheable) {
        LdapSpan alias = { .bytes = pool->scratch->data, .length = pool->scratch->len };
        ldap_fill_new(pool, plan.upstream, forward, alias);
    }
    ph_metric_add(&pool->proxy->state->counters.forwarded, 1);
    ldap_upstream_submit(forward);
}

/* -- binds ------------------------------------------------------------------------------------- */

/* The client is who it says. */
static PH_ON_REACTOR void
accept_bind(
    LdapOperation *operation, const PhUpstream *config, const char *dn, const PhSecret *password)
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
    LdapPool *pool = pool_for_request(session);
    LdapUpstream *upstream = ldap_pool_upstream(pool, config);
    g_autofree char *name = ldap_dn_normalize((const uint8_t *)dn, strlen(dn));
    if (upstream == NULL || name == NULL) {
        ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
        ldap_operation_finish(operation, name == NULL ? LDAP_INVALID_DN_SYNTAX : LDAP_UNAVAILABLE,
            NULL,
            name == NULL ? "the name is malformed" : "the directory behind this one was changed");
        return;
    }
    const char *peer = ph_connection_peer_address(session->base.connection);
    if (!ph_login_may_try(peer, name, "ldap")) {
        ldap_bind_refuse(operation, name, NULL);
        return;
    }
    uint8_t digest[LDAP_BIND_DIGEST_BYTES];
    /* By the name as it was given: which spellings are one name only the upstream knows. */
    ldap_bind_cache_digest(pool->binds, config->id, config->version, dn, password, digest);
    if (pool->config.cache_binds && config->cache_s > 0 &&
        ldap_bind_cache_find(
            pool->binds, digest, ldap_epoch(pool->proxy, config->id), ph_monotonic_us())) {
        ph_metric_add(&pool->proxy->state->counters.cache_hits, 1);
        ph_login_note(peer, name, "ldap", PH_LOGIN_YES, "the upstream directory said so");
        accept_bind(operation, config, dn, password);
        return;
    }
    LdapForward *forward = ldap_forward_new(upstream);
    forward->kind = LDAP_FORWARD_BIND;
    forward->tag = LDAP_REQ_BIND;
    forward->final_tag = LDAP_RES_BIND;
    forward->is_read = true; /* asking twice changes nothing */
    forward->dn = g_strdup(dn);
    forward->name = g_steal_pointer(&name);
    forward->peer = g_strdup(peer);
    forward->password = ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    memcpy(forward->digest, digest, sizeof(digest));
    forward->epoch = ldap_epoch(pool->proxy, config->id);
    ldap_proxy_belong(forward, operation);
    ph_metric_add(&pool->proxy->state->counters.forwarded, 1);
    ldap_upstream_submit(forward);
}

static PH_ON_REACTOR void
note_bind(const LdapForward *forward, PhLoginAnswer answer)
{
    ph_login_note(forward->peer, forward->name, "ldap", answer, "the upstream directory says so");
}

static PH_ON_REACTOR void
bind_answered(LdapForward *forward, const LdapPdu *pdu)
{
    LdapPool *pool = forward->upstream->pool;
    const PhUpstream *config = forward->upstream->config;
    LdapOperation *operation = g_steal_pointer(&forward->operation);
    int result = ldap_pdu_result(pdu->op);
    if (result == LDAP_SUCCESS && pool->config.cache_binds && config->cache_s > 0)
        ldap_bind_cache_put(pool->binds, forward->digest, forward->epoch,
            ph_monotonic_us() + config->cache_s * G_USEC_PER_SEC);
    else if (ldap_result_is_no(result))
        ldap_bind_cache_remove(pool->binds, forward->digest);
    /* What else it may refuse for (a rule, a form) says nothing of the password. */
    bool is_guess = result == LDAP_INVALID_CREDENTIALS || result == LDAP_NO_SUCH_OBJECT;
    if (result == LDAP_SUCCESS || is_guess)
        note_bind(forward, is_guess ? PH_LOGIN_NO : PH_LOGIN_YES);
    if (operation == NULL) {
        ldap_forward_free(forward);
        return;
    }
    operation->forward = NULL;
    if (result == LDAP_SUCCESS) {
        accept_bind(operation, config, forward->dn, forward->password);
    } else if (is_guess) {
        LdapSpan rest = request_of(pdu);
        g_autoptr(GBytes) refusal = g_bytes_new(rest.bytes, rest.length);
        ldap_bind_refuse(operation, forward->name, refusal);
    } else {
        if (ldap_result_is_no(result))
            ph_metric_add(&pool->proxy->state->counters.bind_failures, 1);
        ldap_session_become(operation->session, LDAP_WHO_NOBODY, NULL, NULL, 0);
        ldap_proxy_write(operation, request_of(pdu));
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
    GQueue none;
    if (forward->fill == NULL || forward->fill->followers.head == NULL) {
        if (forward->fill != NULL)
            ldap_fill_free(forward->fill, &none);
        ldap_forward_drop(forward);
    }
    ldap_proxy_refuse_slow(operation);
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
    if (forward->fill != NULL)
        ldap_fill_add(forward->fill, rest);
    if (forward->fill == NULL && forward->operation == NULL && !is_last) { /* nobody wants it */
        ldap_forward_drop(forward);
        return;
    }
    LdapOperation *operation = forward->operation;
    forward->is_started = true;
    if (operation != NULL) {
        LdapSession *session = operation->session;
        ldap_proxy_write(operation, rest);
        bool slow = ldap_proxy_is_too_slow(pool, session);
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
    if (forward->fill != NULL)
        ldap_fill_end(forward->fill, ldap_pdu_result(pdu->op));
    ldap_forward_free(forward);
    if (operation != NULL)
        ldap_operation_end(operation);
}

void
ldap_forward_failed(LdapForward *forward, LdapResult result, const char *text)
{
    LdapOperation *operation = g_steal_pointer(&forward->operation);
    bool is_bind = forward->kind == LDAP_FORWARD_BIND;
    GQueue followers = G_QUEUE_INIT;
    if (forward->fill != NULL)
        ldap_fill_free(forward->fill, &followers);
    ldap_forward_unqueue(forward);
    after_change(forward);
    ldap_forward_free(forward);
    while ((forward = ldap_fill_take_follower(&followers)) != NULL)
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
    if (forward->fill != NULL) {
        if (forward->fill->followers.head != NULL && forward->pin == NULL)
            return;
        GQueue followers;
        LdapForward *follower;
        ldap_fill_free(forward->fill, &followers);
        after_change(forward);
        ldap_forward_drop(forward);
        while ((follower = ldap_fill_take_follower(&followers)) != NULL)
            ldap_forward_failed(follower, LDAP_UNAVAILABLE, "the request is to be sent again");
        return;
    }
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

/* -- start and stop ---------------------------------------------------------------------------- */

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
