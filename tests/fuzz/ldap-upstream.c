/* ldap-upstream.c - fuzzes what an upstream directory may send: whatever it is, each request ends once,
 * and with an answer that fits it
 *
 * The link itself is here, on a connection that is a buffer. The first byte chooses the kind of link and
 * how many requests are under way, the second how the bytes are cut; what follows comes from the server.
 */
#include "plugins/ldap/link.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REQUESTS_MAX = 8 };

struct PhConnection {
    uint8_t *input;
    size_t length;
    bool is_ending; /* closed or aborted */
    bool is_paused;
    bool is_secure;
    int64_t written;
};

typedef struct Request {
    LdapForward forward;
    unsigned parts;
    unsigned ends; /* by an answer, or lost */
} Request;

typedef struct World {
    PhConnection connection;
    LdapPool pool;
    LdapProxy proxy;
    LdapUpstream upstream;
    LdapServer server;
    PhUpstream config;
    Request requests[REQUESTS_MAX];
    unsigned n_requests;
    unsigned lost_links;
} World;

static World world;

/* -- the connection ---------------------------------------------------------------------------- */

const uint8_t *
ph_connection_input(PhConnection *connection, size_t *length_out)
{
    *length_out = connection->length;
    return connection->input;
}

void
ph_connection_consume(PhConnection *connection, size_t length)
{
    g_assert(length <= connection->length);
    connection->length -= length;
    memmove(connection->input, connection->input + length, connection->length);
}

void
ph_connection_write(PhConnection *connection, const void *bytes, size_t length)
{
    g_assert(bytes != NULL && !connection->is_ending);
    connection->written += (int64_t)length;
}

void
ph_connection_close(PhConnection *connection)
{
    connection->is_ending = true;
}

void
ph_connection_abort(PhConnection *connection)
{
    connection->is_ending = true;
}

void
ph_connection_pause(PhConnection *connection)
{
    connection->is_paused = true;
}

void
ph_connection_resume(PhConnection *connection)
{
    connection->is_paused = false;
}

bool
ph_connection_start_tls(PhConnection *connection)
{
    connection->is_secure = connection->length == 0;
    return connection->is_secure;
}

void
ph_connection_set_timeout_ms(PhConnection *connection, int64_t timeout_ms)
{
    (void)connection;
    g_assert(timeout_ms > 0);
}

void
ph_connection_set_input_limit(PhConnection *connection, size_t bytes)
{
    (void)connection;
    g_assert(bytes >= LDAP_PDU_UPSTREAM_MAX);
}

PhSession *
ph_connection_connect(PhReactor *reactor, const PhConnectSpec *spec,
    const PhSessionClass *session_class, void *plugin_state, GError **error)
{
    (void)reactor;
    (void)spec;
    (void)error;
    PhSession *session = g_malloc0(session_class->size);
    session->connection = &world.connection;
    session->session_class = session_class;
    session->plugin_state = plugin_state;
    return session;
}

/* -- the rest of the proxy --------------------------------------------------------------------- */

static Request *
request_of(LdapForward *forward)
{
    return PH_CONTAINER_OF(forward, Request, forward);
}

void
ldap_forward_answered(LdapForward *forward, const LdapPdu *pdu, bool is_last)
{
    Request *request = request_of(forward);
    g_assert(request->ends == 0 && pdu->id == forward->id);
    g_assert(is_last == (pdu->tag == forward->final_tag));
    g_assert(!is_last || (forward->link == NULL && ldap_pdu_result(pdu->op) >= 0));
    g_assert(pdu->tag != LDAP_RES_BIND || forward->kind == LDAP_FORWARD_BIND);
    request->parts++;
    request->ends += is_last;
    /* A client that has had enough. */
    if (!is_last && request->parts == 3) {
        ldap_link_abandon(forward);
        request->ends++;
    }
}

void
ldap_forward_lost(LdapForward *forward, LdapServer *server)
{
    g_assert(server == &world.server && forward->link == NULL && forward->queue == NULL);
    request_of(forward)->ends++;
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
    g_queue_unlink(g_steal_pointer(&forward->queue), &forward->queued);
}

void
ldap_server_ready(LdapLink *link)
{
    for (unsigned i = 0; i < world.n_requests && ldap_link_room(link) > 0; i++)
        ldap_link_send(link, &world.requests[i].forward);
}

void
ldap_server_lives(LdapServer *server)
{
    (void)server;
}

void
ldap_server_answered(LdapServer *server, int64_t took_us)
{
    g_assert(server == &world.server && took_us >= 0);
}

void
ldap_server_lost(LdapLink *link, const char *failure)
{
    (void)failure;
    g_assert(link->server == &world.server);
    world.lost_links++;
}

void
ldap_pin_refused(LdapPin *pin)
{
    g_assert(pin->link == NULL);
}

void
ldap_pin_pump(LdapPin *pin)
{
    (void)pin;
}

void
ldap_upstream_pump(LdapUpstream *upstream)
{
    (void)upstream;
}

void
ldap_server_watch(LdapServer *server)
{
    (void)server;
}

LdapUpstream *
ldap_upstream_ref(LdapUpstream *upstream)
{
    upstream->references++;
    return upstream;
}

void
ldap_upstream_unref(LdapUpstream *upstream)
{
    g_assert(upstream->references-- > 0);
}

/* -- one life of a link ------------------------------------------------------------------------ */

static void
make_requests(unsigned n, LdapLinkKind kind)
{
    static const uint8_t search[] = { LDAP_REQ_SEARCH, 0 };
    static const uint8_t tags[] = { LDAP_REQ_SEARCH, LDAP_REQ_SEARCH, LDAP_REQ_COMPARE,
        LDAP_REQ_MODIFY, LDAP_REQ_EXTENDED };
    world.n_requests = kind == LDAP_LINK_BINDING ? 1 : n;
    for (unsigned i = 0; i < world.n_requests; i++) {
        LdapForward *forward = &world.requests[i].forward;
        forward->upstream = &world.upstream;
        forward->queued.data = forward;
        forward->kind = kind == LDAP_LINK_BINDING ? LDAP_FORWARD_BIND : LDAP_FORWARD_REQUEST;
        forward->tag = kind == LDAP_LINK_BINDING ? LDAP_REQ_BIND : tags[i % G_N_ELEMENTS(tags)];
        forward->final_tag = ldap_response_tag(forward->tag);
        forward->request = forward->op = (LdapSpan){ .bytes = search, .length = sizeof(search) };
        forward->authorize = i % 2 == 1 ? (char *)(uintptr_t) "dn:cn=a" : NULL;
        forward->dn = (char *)(uintptr_t) "cn=a";
    }
}

static LdapLink *
begin(unsigned choice)
{
    ph_assert_on_reactor();
    static char url[] = "ldap://192.0.2.1";
    static char empty[] = "";
    static char service[] = "cn=service";
    LdapLinkKind kind = choice % 3 == 0   ? LDAP_LINK_SHARED
                        : choice % 3 == 1 ? LDAP_LINK_BINDING
                                          : LDAP_LINK_PINNED;
    memset(&world, 0, sizeof(world));
    world.config = (PhUpstream){ .name = url,
        .ca = empty,
        .bind_dn = (choice & 0x40) != 0 ? service : empty,
        .identity = PH_UPSTREAM_AS_SERVICE,
        .start_tls = (choice & 0x80) != 0,
        .timeout_ms = 1000 };
    world.pool.proxy = &world.proxy;
    world.pool.config.idle_ms = 1000;
    world.pool.scratch = g_byte_array_new();
    world.upstream.references = 1;
    world.upstream.pool = &world.pool;
    world.upstream.config = &world.config;
    world.server.upstream = &world.upstream;
    world.server.url = world.server.host = url;
    for (int i = 0; i < LDAP_N_LINK_KINDS; i++)
        world.server.links[i] = g_ptr_array_new();
    make_requests((choice >> 3) % REQUESTS_MAX + 1, kind);
    static LdapPin pin;
    pin = (LdapPin){ .upstream = &world.upstream };
    return ldap_link_open(
        &world.server, kind, kind == LDAP_LINK_PINNED ? &pin : NULL, "192.0.2.1", NULL);
}

static void
feed(LdapLink *link, const uint8_t *data, size_t size, size_t step)
{
    PhConnection *connection = link->base.connection;
    PhSession *session = &link->base;
    while (size > 0 && !connection->is_ending) {
        size_t n = MIN(step, size);
        bool was_secure = connection->is_secure;
        /* Exactly as long as it is, so that each step beyond is seen. */
        uint8_t *grown = g_malloc(connection->length + n);
        if (connection->length > 0)
            memcpy(grown, connection->input, connection->length);
        memcpy(grown + connection->length, data, n);
        g_free(connection->input);
        connection->input = grown;
        connection->length += n;
        session->session_class->input(session);
        if (connection->is_secure && !was_secure && !connection->is_ending)
            session->session_class->secured(session);
        data += n;
        size -= n;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    LdapLink *link = begin(data[0]);
    PhSession *session = &link->base;
    session->session_class->opened(session);
    feed(link, data + 2, size - 2, data[1] == 0 ? size : data[1]);
    if (!world.connection.is_ending && data[1] % 2 == 1)
        session->session_class->farewell(session, PH_FAREWELL_STOPPING);
    bool was_sent = link->was_ready;
    session->session_class->closed(session, PH_CLOSE_PEER);
    g_assert(world.lost_links == 1 && world.upstream.references == 1);
    g_assert(world.server.in_flight == 0 && world.pool.n_links == 0);
    for (unsigned i = 0; i < world.n_requests; i++)
        g_assert(world.requests[i].ends == (was_sent && world.requests[i].forward.tries > 0));
    for (int i = 0; i < LDAP_N_LINK_KINDS; i++) {
        g_assert(world.server.links[i]->len == 0);
        g_ptr_array_unref(world.server.links[i]);
    }
    g_byte_array_unref(world.pool.scratch);
    g_free(world.connection.input);
    g_free(session);
    return 0;
}
