/* upstream.c - what is under way at the directories behind ours
 *
 * Shape:    see proxy.h. A request takes the first server, in the order of the URLs, that is well and
 *           has a link with room (server.c), or waits for one that is on its way. All attempts together
 *           have one deadline, so nobody waits for dead servers one after the other.
 *
 * What is hard here is that an end may lead to anything: the next request of the same session, the end
 * of others, a new connection. So what is walked are queues, which whoever ends leaves by itself.
 */
#include "plugins/ldap/proxy.h"

#include <string.h>

enum {
    SPARE_FORWARDS = 256,
    TRIES_MAX = 6,
};

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
    forward->queued.data = forward->aged.data = forward;
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
    g_free(forward->name);
    g_free(forward->peer);
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

/* All of an upstream have the same time, so the queue is sorted by appending. */
static PH_ON_REACTOR void
age_from(LdapForward *forward, int64_t now_us)
{
    LdapUpstream *upstream = forward->upstream;
    leave_age(forward);
    forward->deadline_us = now_us + ldap_upstream_timeout_us(upstream);
    forward->is_aged = true;
    g_queue_push_tail_link(&upstream->by_age, &forward->aged);
    if (!ph_timer_is_armed(&upstream->age_timer))
        ph_timer_arm_ms(
            &upstream->age_timer, upstream->pool->reactor, upstream->config->timeout_ms);
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
            now_us - forward->sent_us < ldap_upstream_timeout_us(forward->upstream) / 2)) {
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

void
ldap_upstream_age_due(void *data)
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
        LdapLink *link = ldap_server_pick_link(upstream, kind, forward->avoid);
        if (link == NULL) {
            if (queue->head != NULL && !ldap_server_has_hope(upstream, kind))
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
        LdapLink *link = ldap_server_pick_link(upstream, kind, forward->avoid);
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
                upstream->pool->is_leaving ? NULL : ldap_server_pick(upstream, forward->avoid);
            if (server != NULL && server->resolving != NULL && server->addresses == NULL)
                return; /* goes on when the name is resolved */
            bool room = server != NULL && server->links[LDAP_LINK_PINNED]->len <
                                              ldap_server_most_links(server, LDAP_LINK_PINNED);
            if (room && ldap_server_open_link(server, LDAP_LINK_PINNED, pin))
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

void
ldap_upstream_pump_pins(LdapUpstream *upstream)
{
    g_autoptr(GPtrArray) pins = g_ptr_array_new();
    for (GList *at = upstream->pins.head; at != NULL; at = at->next)
        if (((LdapPin *)at->data)->waiting.head != NULL)
            g_ptr_array_add(pins, at->data);
    for (guint i = 0; i < pins->len; i++)
        if (g_queue_find(&upstream->pins, pins->pdata[i]) != NULL)
            ldap_pin_pump(pins->pdata[i]);
}
