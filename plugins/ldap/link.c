/* link.c - one connection to an upstream directory
 *
 * A link is made ready in steps:
 *
 *   CONNECTING --> (STARTING_TLS) --> (INTRODUCING) --> READY --> DRAINING --> ENDED
 *
 * INTRODUCING is a bind, an anonymous one too: a server that is stopped still takes connections, so only
 * an answer says that it lives. Ids only grow and are never used twice; a link that has used them up
 * drains. So an answer to an abandoned request finds nothing in its slot, and is swallowed.
 *
 * What comes from an upstream is not trusted: PDUs are bounded, an answer that does not fit its request
 * breaks the link, and what was under way is asked again elsewhere where it may be.
 */
#include "plugins/ldap/proxy.h"

#include "posthouse/log.h"

#include <string.h>

enum {
    FIRST_SLOTS = 64,    /* a power of two */
    ANONYMOUS_ROOM = 90, /* servers cut anonymous connections with more (slapd: 100) ... */
    BOUND_ROOM = 900,    /* ... and others later (slapd: 1,000) */
    LAST_ID = INT32_MAX - 1024,
    LEAST_SETUP_MS = 300,
    MOST_SETUP_MS = 5000,
    TAG_CONTEXT_SIMPLE = 0x80, /* [0] primitive: simple authentication; an extended name */
    TAG_RESPONSE_NAME = 0x8a,  /* [10] of an extended answer */
    TAG_CONTROLS = 0xa0,
    LDAP_VERSION = 3,
};

#define OID_START_TLS "1.3.6.1.4.1.1466.20037"
#define OID_DISCONNECTION "1.3.6.1.4.1.1466.20036"
#define OID_PROXIED_AUTHORIZATION "2.16.840.1.113730.3.4.18"

static LdapLink *
link_of(PhSession *session)
{
    return (LdapLink *)session;
}

static const PhUpstream *
config_of(const LdapLink *link)
{
    return link->server->upstream->config;
}

/* From the connect to an answer: several servers can be tried within one request's time. */
static int64_t
setup_ms(const LdapLink *link)
{
    return CLAMP(config_of(link)->timeout_ms / 3, LEAST_SETUP_MS, MOST_SETUP_MS);
}

static bool
is_live(const LdapLink *link)
{
    return link->state == LDAP_LINK_READY || link->state == LDAP_LINK_DRAINING;
}

/* -- the end ----------------------------------------------------------------------------------- */

void
ldap_link_break(LdapLink *link, const char *why)
{
    if (link->state == LDAP_LINK_ENDED)
        return;
    if (link->failure == NULL && why != NULL)
        link->failure = g_strdup(why);
    link->state = LDAP_LINK_ENDED;
    ph_connection_abort(link->base.connection);
}

/* Says goodbye and closes. */
static PH_ON_REACTOR void
end_link(LdapLink *link)
{
    static const uint8_t unbind[] = { 0x30, 0x05, 0x02, 0x01, 0x7f, LDAP_REQ_UNBIND, 0x00 };
    if (link->state == LDAP_LINK_ENDED)
        return;
    if (is_live(link))
        ph_connection_write(link->base.connection, unbind, sizeof(unbind));
    link->state = LDAP_LINK_ENDED;
    ph_connection_close(link->base.connection);
}

void
ldap_link_drain(LdapLink *link)
{
    if (link->state == LDAP_LINK_ENDED)
        return;
    if (link->state == LDAP_LINK_READY && link->in_flight > 0)
        link->state = LDAP_LINK_DRAINING;
    else
        end_link(link);
}

/* -- slots ------------------------------------------------------------------------------------- */

static void
grow_slots(LdapLink *link)
{
    unsigned size = link->slots != NULL ? 2 * (link->mask + 1) : FIRST_SLOTS;
    LdapForward **slots = g_new0(LdapForward *, size);
    for (unsigned i = 0; link->slots != NULL && i <= link->mask; i++) {
        LdapForward *forward = link->slots[i];
        if (forward != NULL)
            slots[(unsigned)forward->id & (size - 1)] = forward;
    }
    g_free(link->slots);
    link->slots = slots;
    link->mask = size - 1;
}

/* An id whose slot is free. */
static int32_t
take_slot(LdapLink *link, LdapForward *forward)
{
    if (link->slots == NULL || link->in_flight > link->mask / 2)
        grow_slots(link);
    int32_t id;
    do
        id = ++link->last_id;
    while (link->slots[(unsigned)id & link->mask] != NULL);
    link->slots[(unsigned)id & link->mask] = forward;
    if (link->last_id >= LAST_ID)
        link->state = LDAP_LINK_DRAINING;
    return id;
}

static LdapForward *
find_slot(const LdapLink *link, int32_t id)
{
    LdapForward *forward = link->slots != NULL ? link->slots[(unsigned)id & link->mask] : NULL;
    return forward != NULL && forward->id == id ? forward : NULL;
}

/* Off the link. */
static void
leave_slot(LdapForward *forward)
{
    LdapLink *link = forward->link;
    link->slots[(unsigned)forward->id & link->mask] = NULL;
    link->in_flight--;
    link->server->in_flight--;
    forward->link = NULL;
}

/* -- sending ----------------------------------------------------------------------------------- */

static PH_ON_REACTOR void
write_pdu(LdapLink *link, int32_t id, const void *rest, size_t length)
{
    uint8_t head[LDAP_HEAD_BYTES];
    size_t head_length = ldap_pdu_head(head, id, length);
    ph_connection_write(link->base.connection, head, head_length);
    ph_connection_write(link->base.connection, rest, length);
}

/* The rest of a simple bind. Wiped by the caller when a password is in it. */
static GByteArray *
bind_rest(const char *dn, const PhSecret *password)
{
    GByteArray *rest = g_byte_array_new();
    size_t bind = ldap_append_open(rest, LDAP_REQ_BIND);
    ldap_append_int(rest, LDAP_TAG_INTEGER, LDAP_VERSION);
    ldap_append_text(rest, LDAP_TAG_OCTETS, dn);
    ldap_append(rest, TAG_CONTEXT_SIMPLE, password != NULL ? ph_secret_bytes(password) : "",
        password != NULL ? ph_secret_length(password) : 0);
    ldap_append_close(rest, bind);
    return rest;
}

static PH_ON_REACTOR void
write_bind(LdapLink *link, int32_t id, const char *dn, const PhSecret *password)
{
    g_autoptr(GByteArray) rest = bind_rest(dn, password);
    write_pdu(link, id, rest->data, rest->len);
    ph_wipe(rest->data, rest->len);
}

/* The request as the client wrote it, with a control behind the others that says for whom it is. */
static PH_ON_REACTOR void
write_authorized(LdapLink *link, const LdapForward *forward)
{
    GByteArray *rest = link->server->upstream->pool->scratch;
    g_byte_array_set_size(rest, 0);
    g_byte_array_append(rest, forward->op.bytes, (guint)forward->op.length);
    size_t controls = ldap_append_open(rest, TAG_CONTROLS);
    if (forward->controls.length > 0)
        g_byte_array_append(rest, forward->controls.bytes, (guint)forward->controls.length);
    size_t control = ldap_append_open(rest, LDAP_TAG_SEQUENCE);
    ldap_append_text(rest, LDAP_TAG_OCTETS, OID_PROXIED_AUTHORIZATION);
    ldap_append(rest, LDAP_TAG_BOOLEAN, "\xff", 1);
    ldap_append_text(rest, LDAP_TAG_OCTETS, forward->authorize);
    ldap_append_close(rest, control);
    ldap_append_close(rest, controls);
    write_pdu(link, forward->id, rest->data, rest->len);
}

unsigned
ldap_link_room(const LdapLink *link)
{
    if (link->state != LDAP_LINK_READY)
        return 0;
    unsigned most =
        link->kind == LDAP_LINK_BINDING ? 1
        : config_of(link)->bind_dn[0] == '\0' || config_of(link)->identity == PH_UPSTREAM_AS_CLIENT
            ? ANONYMOUS_ROOM
            : BOUND_ROOM;
    return link->in_flight < most ? most - link->in_flight : 0;
}

void
ldap_link_send(LdapLink *link, LdapForward *forward)
{
    int64_t now_us = ph_monotonic_us();
    forward->id = take_slot(link, forward);
    forward->link = link;
    forward->sent_us = now_us;
    forward->has_answer = false;
    forward->tries++;
    if (link->in_flight++ == 0)
        link->input_us = now_us;
    link->used_us = now_us;
    link->server->in_flight++;
    if (forward->kind == LDAP_FORWARD_BIND)
        write_bind(link, forward->id, forward->dn, forward->password);
    else if (forward->authorize != NULL)
        write_authorized(link, forward);
    else
        write_pdu(link, forward->id, forward->request.bytes, forward->request.length);
    ldap_server_watch(link->server);
}

void
ldap_link_abandon(LdapForward *forward)
{
    LdapLink *link = forward->link;
    int32_t id = forward->id;
    leave_slot(forward);
    if (link->kind == LDAP_LINK_BINDING) {
        /* A bind cannot be abandoned (RFC 4511 4.11), and another would not know its answer. */
        end_link(link);
        return;
    }
    if (!is_live(link))
        return;
    uint8_t number[4];
    size_t n = 4;
    for (size_t i = 0; i < 4; i++)
        number[i] = (uint8_t)((uint32_t)id >> (8 * (3 - i)));
    size_t skip = 0;
    while (skip < 3 && number[skip] == 0 && (number[skip + 1] & 0x80) == 0)
        skip++;
    uint8_t rest[6] = { LDAP_REQ_ABANDON, (uint8_t)(n - skip) };
    memcpy(rest + 2, number + skip, n - skip);
    write_pdu(link, ++link->last_id, rest, 2 + n - skip);
    if (link->state == LDAP_LINK_DRAINING && link->in_flight == 0)
        end_link(link);
}

/* The root DSE without attributes: a base search that every server answers, somehow. */
void
ldap_link_ping(LdapLink *link)
{
    // clang-format off
    static const uint8_t search[] = { LDAP_REQ_SEARCH, 0x25,
        0x04, 0x00, 0x0a, 0x01, 0x00, 0x0a, 0x01, 0x00, 0x02, 0x01, 0x01, 0x02, 0x01, 0x00, 0x01, 0x01, 0x00,
        0x87, 0x0b, 'o', 'b', 'j', 'e', 'c', 't', 'C', 'l', 'a', 's', 's',
        0x30, 0x05, 0x04, 0x03, '1', '.', '1' };
    // clang-format on
    link->ping_id = ++link->last_id;
    link->ping_us = ph_monotonic_us();
    write_pdu(link, link->ping_id, search, sizeof(search));
}

void
ldap_link_set_paused(LdapLink *link, bool paused)
{
    if (link->is_paused == paused)
        return;
    link->is_paused = paused;
    if (paused) {
        ph_connection_pause(link->base.connection);
    } else {
        link->input_us = ph_monotonic_us();
        ph_connection_resume(link->base.connection);
    }
}

/* -- getting ready ----------------------------------------------------------------------------- */

static PH_ON_REACTOR void
become_ready(LdapLink *link)
{
    link->state = LDAP_LINK_READY;
    link->was_ready = true;
    link->setup_id = 0;
    link->used_us = ph_monotonic_us();
    ph_connection_set_timeout_ms(
        link->base.connection, link->server->upstream->pool->config.idle_ms);
    ldap_server_ready(link);
}

static bool
is_for_client(const LdapLink *link)
{
    return link->kind == LDAP_LINK_PINNED && link->pin != NULL && link->pin->as_client;
}

/* Tells the server whose the link is. */
static PH_ON_REACTOR void
introduce(LdapLink *link)
{
    const PhUpstream *config = config_of(link);
    if (link->kind == LDAP_LINK_BINDING) {
        become_ready(link);
        return;
    }
    if (link->kind == LDAP_LINK_PINNED && link->pin == NULL) { /* its session is gone */
        end_link(link);
        return;
    }
    bool as_service = config->identity != PH_UPSTREAM_AS_CLIENT && config->bind_dn[0] != '\0';
    if (as_service && !is_for_client(link) && config->password == NULL) {
        /* A name without a password binds as nobody (RFC 4513 5.1.2). */
        link->failure = g_strdup("the service's password is not there, or cannot be unsealed");
        ldap_link_break(link, NULL);
        return;
    }
    link->state = LDAP_LINK_INTRODUCING;
    link->setup_id = ++link->last_id;
    if (is_for_client(link))
        write_bind(
            link, link->setup_id, link->pin->owner->session->client_dn, link->pin->owner->password);
    else if (as_service)
        write_bind(link, link->setup_id, config->bind_dn, config->password);
    else
        write_bind(link, link->setup_id, "", NULL);
}

static PH_ON_REACTOR void
opened(PhSession *session)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    if (link->state != LDAP_LINK_CONNECTING)
        return;
    ph_connection_set_timeout_ms(session->connection, setup_ms(link));
    if (link->server->tls || !config_of(link)->start_tls) {
        introduce(link);
        return;
    }
    g_autoptr(GByteArray) rest = g_byte_array_new();
    size_t request = ldap_append_open(rest, LDAP_REQ_EXTENDED);
    ldap_append_text(rest, TAG_CONTEXT_SIMPLE, OID_START_TLS);
    ldap_append_close(rest, request);
    link->state = LDAP_LINK_STARTING_TLS;
    link->setup_id = ++link->last_id;
    write_pdu(link, link->setup_id, rest->data, rest->len);
}

static PH_ON_REACTOR void
secured(PhSession *session)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    if (link->state == LDAP_LINK_STARTING_TLS)
        introduce(link);
}

static PH_ON_REACTOR void
refused_setup(LdapLink *link, const char *what, int result)
{
    if (link->failure == NULL)
        link->failure = g_strdup_printf("%s was refused (result code %d)", what, result);
    ldap_link_break(link, NULL);
}

/* An anonymous bind may be refused by rule; that it was answered is enough. */
static PH_ON_REACTOR void
introduced(LdapLink *link, int result)
{
    bool busy = result == LDAP_BUSY || result == LDAP_UNAVAILABLE;
    const PhUpstream *config = config_of(link);
    if (link->kind == LDAP_LINK_PINNED && link->pin == NULL) {
        end_link(link);
    } else if (result == LDAP_SUCCESS) {
        become_ready(link);
    } else if (is_for_client(link) && !busy) { /* which says nothing of the server */
        LdapPin *pin = link->pin;
        link->pin = NULL;
        pin->link = NULL;
        end_link(link);
        ldap_pin_refused(pin);
    } else if (!busy && !is_for_client(link) &&
               (config->identity == PH_UPSTREAM_AS_CLIENT || config->bind_dn[0] == '\0')) {
        become_ready(link);
    } else {
        refused_setup(link, is_for_client(link) ? "a bind" : "the service's bind", result);
    }
}

static PH_ON_REACTOR void
setup_answered(LdapLink *link, const LdapPdu *pdu)
{
    int result = ldap_pdu_result(pdu->op);
    bool starting = link->state == LDAP_LINK_STARTING_TLS;
    if (pdu->tag != (starting ? LDAP_RES_EXTENDED : LDAP_RES_BIND) || result < 0)
        ldap_link_break(link, "an answer that does not fit");
    else if (!starting)
        introduced(link, result);
    else if (result == LDAP_SUCCESS)
        link->wants_tls = true;
    else
        refused_setup(link, "StartTLS", result);
}

/* -- what comes -------------------------------------------------------------------------------- */

/* Message id 0: the server says something of its own. */
static PH_ON_REACTOR void
take_notice(LdapLink *link, const LdapPdu *pdu)
{
    LdapSpan at = pdu->op;
    LdapSpan part;
    uint8_t tag;
    if (pdu->tag != LDAP_RES_EXTENDED)
        return;
    while (ldap_element_next(&at, &tag, &part))
        if (tag == TAG_RESPONSE_NAME && ldap_span_is(part, OID_DISCONNECTION)) {
            if (link->failure == NULL)
                link->failure = g_strdup_printf(
                    "notice of disconnection (result code %d)", ldap_pdu_result(pdu->op));
            if (link->state == LDAP_LINK_READY)
                link->state = LDAP_LINK_DRAINING;
            if (link->in_flight == 0)
                ldap_link_break(link, NULL);
            return;
        }
}

/* May this be a part of the answer, before its end? */
static bool
is_part(const LdapForward *forward, uint8_t tag)
{
    if (tag == LDAP_RES_INTERMEDIATE)
        return forward->kind == LDAP_FORWARD_REQUEST;
    return forward->tag == LDAP_REQ_SEARCH && (tag == LDAP_RES_ENTRY || tag == LDAP_RES_REFERENCE);
}

static PH_ON_REACTOR void
take_answer(LdapLink *link, LdapForward *forward, const LdapPdu *pdu, int64_t now_us)
{
    bool is_last = pdu->tag == forward->final_tag;
    if (is_last ? ldap_pdu_result(pdu->op) < 0 : !is_part(forward, pdu->tag)) {
        ldap_link_break(link, "an answer that does not fit its request");
        return;
    }
    if (!forward->has_answer) {
        forward->has_answer = true;
        /* A server that guesses answers before it was asked is quick, not quicker. */
        ldap_server_answered(link->server, MAX(0, now_us - forward->sent_us));
    }
    forward->sent_us = now_us;
    if (is_last) {
        forward->avoid = link->server; /* if it is asked again */
        leave_slot(forward);
    }
    ldap_forward_answered(forward, pdu, is_last);
}

static PH_ON_REACTOR void
answered_ping(LdapLink *link)
{
    link->ping_id = 0;
    ldap_server_lives(link->server);
}

static PH_ON_REACTOR void
take_pdu(LdapLink *link, const LdapPdu *pdu, int64_t now_us)
{
    if (pdu->id == 0) {
        take_notice(link, pdu);
        return;
    }
    if (pdu->id == link->setup_id) {
        setup_answered(link, pdu);
        return;
    }
    LdapForward *forward = find_slot(link, pdu->id);
    if (forward != NULL)
        take_answer(link, forward, pdu, now_us);
    else if (pdu->id > link->last_id)
        ldap_link_break(link, "an answer to nothing");
    else if (pdu->id == link->ping_id && pdu->tag == LDAP_RES_SEARCH_DONE)
        answered_ping(link);
}

/* Every whole PDU; gives how much was used. */
static PH_ON_REACTOR size_t
take_pdus(LdapLink *link, const uint8_t *bytes, size_t length, int64_t now_us)
{
    size_t used = 0;
    while (
        used < length && link->state != LDAP_LINK_ENDED && !link->wants_tls && !link->is_paused) {
        size_t pdu_length;
        LdapPdu pdu;
        LdapParse parsed =
            ldap_pdu_frame(bytes + used, length - used, LDAP_PDU_UPSTREAM_MAX, &pdu_length);
        if (parsed == LDAP_PARSE_MORE)
            break;
        if (parsed != LDAP_PARSE_DONE || !ldap_pdu_parse(bytes + used, pdu_length, &pdu)) {
            ldap_link_break(link, parsed == LDAP_PARSE_TOO_LARGE ? "an answer that is too large"
                                                                 : "an answer that is malformed");
            break;
        }
        used += pdu_length;
        take_pdu(link, &pdu, now_us);
    }
    return used;
}

static PH_ON_REACTOR void
input(PhSession *session)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    if (link->state == LDAP_LINK_ENDED || link->state == LDAP_LINK_CONNECTING)
        return;
    LdapUpstream *upstream = ldap_upstream_ref(link->server->upstream);
    int64_t now_us = ph_monotonic_us();
    link->input_us = link->used_us = now_us;
    size_t length;
    const uint8_t *bytes = ph_connection_input(session->connection, &length);
    size_t used = take_pdus(link, bytes, length, now_us);
    if (link->state != LDAP_LINK_ENDED)
        ph_connection_consume(session->connection, used);
    if (link->wants_tls) {
        link->wants_tls = false;
        link->setup_id = 0;
        if (link->state != LDAP_LINK_ENDED && !ph_connection_start_tls(session->connection))
            ldap_link_break(link, "plain bytes behind the answer to StartTLS");
    }
    if (link->state == LDAP_LINK_DRAINING && link->in_flight == 0)
        end_link(link);
    ldap_upstream_pump(upstream);
    if (link->kind == LDAP_LINK_PINNED && link->pin != NULL)
        ldap_pin_pump(link->pin);
    ldap_upstream_unref(upstream);
}

/* -- life -------------------------------------------------------------------------------------- */

static PH_ON_REACTOR void
timed_out(PhSession *session)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    if (!is_live(link)) {
        ldap_link_break(link, "no answer while connecting");
        return;
    }
    int64_t idle_ms = link->server->upstream->pool->config.idle_ms;
    int64_t unused_ms = (ph_monotonic_us() - link->used_us) / 1000;
    if (link->in_flight == 0 && unused_ms >= idle_ms)
        end_link(link);
    else
        ph_connection_set_timeout_ms(
            session->connection, MAX(1000, idle_ms - (link->in_flight == 0 ? unused_ms : 0)));
}

static PH_ON_REACTOR void
farewell(PhSession *session, PhFarewell why)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    if (why == PH_FAREWELL_STOPPING)
        link->server->upstream->pool->is_leaving = true;
    ldap_link_drain(link);
}

static char *
failure_text(const LdapLink *link, PhCloseReason reason)
{
    if (link->failure != NULL)
        return g_strdup(link->failure);
    switch (reason) {
    case PH_CLOSE_LOCAL:
    case PH_CLOSE_STOPPING:
        return NULL;
    case PH_CLOSE_PEER:
        /* Servers end what is not used; that is no fault. */
        return link->was_ready && link->in_flight == 0 ? NULL : g_strdup("closed by the server");
    case PH_CLOSE_ERROR:
        return g_strdup("the connection broke");
    case PH_CLOSE_TIMEOUT:
        return g_strdup("the server takes nothing");
    case PH_CLOSE_REFUSED:
        return g_strdup("no connection");
    }
    return NULL;
}

static PH_ON_REACTOR void
closed(PhSession *session, PhCloseReason reason)
{
    ph_assert_on_reactor();
    LdapLink *link = link_of(session);
    LdapServer *server = link->server;
    LdapUpstream *upstream = server->upstream;
    LdapPool *pool = upstream->pool;
    g_autofree char *failure = failure_text(link, reason);
    link->state = LDAP_LINK_ENDED;
    g_ptr_array_remove_fast(server->links[link->kind], link);
    LdapPin *pin = link->pin;
    if (pin != NULL)
        pin->link = NULL;
    /* In a queue, because the end of one may take others along, which leave it then. */
    GQueue lost = G_QUEUE_INIT;
    for (unsigned i = 0; link->slots != NULL && i <= link->mask; i++) {
        LdapForward *forward = link->slots[i];
        if (forward == NULL)
            continue;
        leave_slot(forward);
        ldap_forward_queue(forward, &lost);
    }
    ldap_server_lost(link, failure);
    while (lost.head != NULL) {
        LdapForward *forward = lost.head->data;
        ldap_forward_unqueue(forward);
        ldap_forward_lost(forward, server);
    }
    ldap_upstream_pump(upstream);
    g_free(link->slots);
    g_free(link->failure);
    pool->n_links--;
    ldap_upstream_unref(upstream);
}

static void
describe(PhSession *session, char *text, size_t size)
{
    static const char *const kinds[] = { "shared", "binds", "one client's" };
    const LdapLink *link = link_of(session);
    g_snprintf(
        text, size, "%s, %s, %u under way", link->server->url, kinds[link->kind], link->in_flight);
}

static const PhSessionClass link_class = {
    .name = "ldap-upstream",
    .size = sizeof(LdapLink),
    .opened = opened,
    .input = input,
    .timed_out = timed_out,
    .secured = secured,
    .farewell = farewell,
    .closed = closed,
    .describe = describe,
};

LdapLink *
ldap_link_open(
    LdapServer *server, LdapLinkKind kind, LdapPin *pin, const char *address, GError **error)
{
    LdapUpstream *upstream = server->upstream;
    const PhUpstream *config = upstream->config;
    PhConnectSpec spec = {
        .address = address,
        .port = server->port,
        .tls = server->tls,
        .server_name = server->tls || config->start_tls ? server->host : NULL,
        .ca = config->ca[0] != '\0' ? config->ca : NULL,
        .timeout_ms = CLAMP(config->timeout_ms / 3, LEAST_SETUP_MS, MOST_SETUP_MS),
    };
    PhSession *session = ph_connection_connect(
        upstream->pool->reactor, &spec, &link_class, upstream->pool->proxy->state, error);
    if (session == NULL)
        return NULL;
    LdapLink *link = link_of(session);
    link->server = server;
    link->kind = kind;
    link->pin = pin;
    if (pin != NULL)
        pin->link = link;
    link->input_us = link->used_us = ph_monotonic_us();
    ph_connection_set_input_limit(session->connection, LDAP_PDU_UPSTREAM_MAX + LDAP_HEAD_BYTES);
    g_ptr_array_add(server->links[kind], link);
    ldap_upstream_ref(upstream);
    upstream->pool->n_links++;
    return link;
}
