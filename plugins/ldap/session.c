/* session.c - from bytes to operations, and the operations' ends
 *
 * Several requests are under way at once, each an operation of its own; what they have to wait for never
 * holds up the others. Only a bind and StartTLS run alone (RFC 4511 4.2.1, 4.14.1). Input waits while a
 * session has all the operations that it may have, and while its client does not read: so whatever a
 * client does, it holds a bounded number of bytes here.
 */
#include "ldap.h"
#include "local.h"

#include "posthouse/log.h"

#include <string.h>

enum {
    OPERATIONS_MAX = 64,
    OPERATIONS_MAX_BYTES = 512 * 1024, /* of their requests */
};

#define OID_NOTICE_OF_DISCONNECTION "1.3.6.1.4.1.1466.20036"

/* -- farewells --------------------------------------------------------------------------------- */

/* RFC 4511 4.4.1. */
static void
leave(LdapSession *session, LdapResult result, const char *text)
{
    ph_assert_on_reactor();
    BerElement *notice = ldap_writer_new();
    ber_printf(notice, "{it{essts}}", 0, (ber_tag_t)LDAP_RES_EXTENDED, (int)result, "", text,
        (ber_tag_t)LDAP_TAG_RESPONSE_NAME, OID_NOTICE_OF_DISCONNECTION);
    LdapSpan bytes = ldap_writer_bytes(notice);
    ph_connection_write(session->base.connection, bytes.bytes, bytes.length);
    ldap_writer_free(notice);
    ph_connection_close(session->base.connection);
}

static void
refuse(LdapSession *session, LdapResult result, const char *text)
{
    ph_assert_on_reactor();
    ph_log(PH_LOG_INFO, "ldap.refused", "peer=%s reason=\"%s\"",
        ph_connection_peer_address(session->base.connection), text);
    leave(session, result, text);
}

static bool
may_read(const LdapSession *session)
{
    ph_assert_on_reactor();
    return !session->is_leaving && session->binding == NULL &&
           session->operations.length < OPERATIONS_MAX &&
           session->held_bytes < OPERATIONS_MAX_BYTES &&
           !ph_connection_is_closing(session->base.connection) &&
           !ph_connection_output_is_full(session->base.connection);
}

static void
restart_timeout(LdapSession *session)
{
    ph_assert_on_reactor();
    bool idle = session->operations.length == 0 && !session->is_leaving;
    int64_t timeout_ms = idle ? ph_setting_int("ldap.session.idle_s") * 1000 : 0;
    ph_connection_set_timeout_ms(session->base.connection, timeout_ms);
}

/* -- operations -------------------------------------------------------------------------------- */

static LdapOperation *
begin(LdapSession *session, const uint8_t *bytes, const LdapPdu *pdu)
{
    ph_assert_on_reactor();
    LdapOperation *operation = g_new0(LdapOperation, 1);
    operation->session = session;
    operation->link.data = operation;
    operation->id = pdu->id;
    operation->tag = pdu->tag;
    /* With a byte behind it, for liblber's steps. */
    uint8_t *copy = g_malloc(pdu->length + 1);
    memcpy(copy, bytes, pdu->length);
    copy[pdu->length] = 0;
    operation->bytes = g_bytes_new_take(copy, pdu->length);
    session->held_bytes += pdu->length;
    ldap_pdu_parse(g_bytes_get_data(operation->bytes, NULL), pdu->length, &operation->pdu);
    ph_task_init(&operation->task, ph_connection_reactor(session->base.connection));
    g_queue_push_tail_link(&session->operations, &operation->link);
    return operation;
}

/* A bind and an extended request may hold a password. */
static void
free_bytes(LdapOperation *operation)
{
    size_t length;
    const void *bytes = g_bytes_get_data(operation->bytes, &length);
    if (operation->tag == LDAP_REQ_BIND || operation->tag == LDAP_REQ_EXTENDED)
        ph_wipe((void *)(uintptr_t)bytes, length);
    g_bytes_unref(operation->bytes);
}

static void
free_operation(LdapOperation *operation)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    g_queue_unlink(&session->operations, &operation->link);
    session->held_bytes -= operation->pdu.length;
    if (session->binding == operation)
        session->binding = NULL;
    ph_task_clear(&operation->task);
    if (operation->free_data != NULL)
        operation->free_data(operation->data);
    free_bytes(operation);
    g_free(operation);
}

void
ldap_operation_end(LdapOperation *operation)
{
    LdapSession *session = operation->session;
    free_operation(operation);
    if (ph_connection_is_closing(session->base.connection))
        return;
    if (session->is_leaving && session->operations.length == 0) {
        leave(session, LDAP_UNAVAILABLE, "the service is ending");
        return;
    }
    restart_timeout(session);
    if (may_read(session))
        ph_connection_resume(session->base.connection);
}

void
ldap_operation_write(LdapOperation *operation, const void *pdu, size_t length)
{
    if (!operation->is_abandoned)
        ph_connection_write(operation->session->base.connection, pdu, length);
}

void
ldap_operation_answer(LdapOperation *operation, BerElement *answer)
{
    LdapSpan bytes = ldap_writer_bytes(answer);
    ldap_operation_write(operation, bytes.bytes, bytes.length);
    /* It may have a new password in it. */
    if (operation->tag == LDAP_REQ_EXTENDED)
        ph_wipe((void *)(uintptr_t)bytes.bytes, bytes.length);
    ldap_writer_free(answer);
}

static void
write_result(LdapOperation *operation, LdapResult result, const char *matched_dn, const char *text)
{
    ph_assert_on_reactor();
    BerElement *answer = ldap_writer_new();
    ber_printf(answer, "{it{ess}}", (int)operation->id,
        (ber_tag_t)ldap_response_tag(operation->tag), (int)result,
        matched_dn != NULL ? matched_dn : "", text != NULL ? text : "");
    ldap_operation_answer(operation, answer);
}

void
ldap_operation_finish(
    LdapOperation *operation, LdapResult result, const char *matched_dn, const char *text)
{
    write_result(operation, result, matched_dn, text);
    ldap_operation_end(operation);
}

void
ldap_operation_fail(LdapOperation *operation, const GError *error)
{
    static const LdapResult results[] = {
        [PH_ERROR_SYNTAX] = LDAP_PROTOCOL_ERROR,
        [PH_ERROR_DENIED] = LDAP_INSUFFICIENT_ACCESS,
        [PH_ERROR_NOT_FOUND] = LDAP_NO_SUCH_OBJECT,
        [PH_ERROR_CONFLICT] = LDAP_ENTRY_ALREADY_EXISTS,
        [PH_ERROR_TOO_LARGE] = LDAP_ADMIN_LIMIT_EXCEEDED,
        [PH_ERROR_LIMIT] = LDAP_ADMIN_LIMIT_EXCEEDED,
        [PH_ERROR_TEMPORARY] = LDAP_UNAVAILABLE,
        [PH_ERROR_UNAVAILABLE] = LDAP_UNAVAILABLE,
        [PH_ERROR_ABI] = LDAP_OTHER,
        [PH_ERROR_INTERNAL] = LDAP_OTHER,
    };
    PhError code = ph_error_code(error);
    ph_log(PH_LOG_INFO, "ldap.failed", "op=0x%02x error=\"%s\"", operation->tag, error->message);
    g_autofree char *text = NULL;
    if (results[code] == LDAP_OTHER)
        text = g_strdup_printf("an internal error; session %s", operation->session->base.id);
    else if (results[code] == LDAP_UNAVAILABLE)
        text = g_strdup("the directory cannot be asked now, try again later");
    ldap_operation_finish(operation, results[code], NULL, text != NULL ? text : error->message);
}

LdapOperation *
ldap_operation_of(PhTask *task)
{
    return PH_CONTAINER_OF(task, LdapOperation, task);
}

/* Ends an operation for which nobody waits. One at an upstream is ended by the proxy. */
static void
drop(LdapOperation *operation)
{
    ph_assert_on_reactor();
    operation->is_abandoned = true;
    if (operation->forward != NULL)
        ldap_proxy_abandon(operation);
    else
        ldap_operation_end(operation);
}

/* All but `except`, which may be null. Ending one may end others. */
static void
drop_all(LdapSession *session, const LdapOperation *except)
{
    ph_assert_on_reactor();
    for (;;) {
        GList *link = session->operations.head;
        if (link != NULL && link->data == except)
            link = link->next;
        if (link == NULL)
            return;
        drop(link->data);
    }
}

static LdapOperation *
find(const LdapSession *session, int32_t id, const LdapOperation *except)
{
    for (GList *link = session->operations.head; link != NULL; link = link->next) {
        LdapOperation *operation = link->data;
        if (operation->id == id && operation != except)
            return operation;
    }
    return NULL;
}

/* RFC 4511 4.11: no answer, whatever comes of it. Binds, StartTLS and the like are not abandoned. */
void
ldap_abandon(LdapOperation *operation)
{
    LdapSession *session = operation->session;
    int32_t id;
    LdapOperation *target = NULL;
    if (ldap_span_int(operation->pdu.op, &id))
        target = find(session, id, operation);
    if (target != NULL && target != session->binding)
        drop(target);
    ldap_operation_end(operation);
}

LdapResult
ldap_operation_cancel(LdapOperation *operation, int32_t id)
{
    LdapOperation *target = find(operation->session, id, operation);
    if (target == NULL)
        return LDAP_NO_SUCH_OPERATION;
    if (target->tag != LDAP_REQ_SEARCH && target->tag != LDAP_REQ_COMPARE)
        return LDAP_CANNOT_CANCEL;
    write_result(target, LDAP_CANCELED, NULL, NULL);
    drop(target);
    return LDAP_SUCCESS;
}

bool
ldap_session_is_full(const LdapSession *session)
{
    return ph_connection_output_is_full(session->base.connection);
}

void
ldap_session_become(
    LdapSession *session, LdapWho who, PhIdentity *identity, char *client_dn, int64_t upstream_id)
{
    g_clear_pointer(&session->identity, ph_identity_free);
    g_free(session->client_dn);
    session->who = who;
    session->identity = identity;
    session->client_dn = client_dn;
    session->client_upstream = upstream_id;
    if (who != LDAP_WHO_NOBODY)
        ph_connection_set_input_limit(session->base.connection, LDAP_PDU_CLIENT_MAX);
    ph_session_set_account(&session->base, identity != NULL ? identity->account_id : 0,
        identity != NULL ? identity->login : NULL);
    ph_session_set_activity(&session->base, identity != NULL    ? identity->login
                                            : client_dn != NULL ? client_dn
                                                                : "not logged in");
}

/* -- input ------------------------------------------------------------------------------------- */

static const struct {
    uint8_t tag;
    void (*run)(LdapOperation *operation);
    bool alone; /* what is under way is dropped before it */
} requests[] = {
    { LDAP_REQ_BIND, ldap_bind, true },
    { LDAP_REQ_SEARCH, ldap_search, false },
    { LDAP_REQ_COMPARE, ldap_compare, false },
    { LDAP_REQ_MODIFY, ldap_change, false },
    { LDAP_REQ_ADD, ldap_change, false },
    { LDAP_REQ_DELETE, ldap_change, false },
    { LDAP_REQ_RENAME, ldap_change, false },
    { LDAP_REQ_EXTENDED, ldap_extended, false },
    { LDAP_REQ_ABANDON, ldap_abandon, false },
};

static void
run(LdapSession *session, const uint8_t *bytes, const LdapPdu *pdu)
{
    ph_assert_on_reactor();
    if (pdu->tag == LDAP_REQ_UNBIND) {
        ph_connection_close(session->base.connection);
        return;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(requests); i++) {
        if (requests[i].tag != pdu->tag)
            continue;
        /* RFC 4511 4.1.1.1: an id of a request under way must not be used again. */
        if (find(session, pdu->id, NULL) != NULL) {
            refuse(session, LDAP_PROTOCOL_ERROR, "that message id is in use");
            return;
        }
        ph_metric_add(&ldap_state(session)->counters.operations, 1);
        LdapOperation *operation = begin(session, bytes, pdu);
        ph_connection_consume(session->base.connection, pdu->length);
        if (requests[i].alone) {
            drop_all(session, operation);
            session->binding = operation;
        }
        requests[i].run(operation);
        return;
    }
    refuse(session, LDAP_PROTOCOL_ERROR, "that is no request of LDAP");
}

/* Who has not logged in has little to say: the memory for it is taken by anybody. */
static size_t
pdu_max(const LdapSession *session)
{
    return session->who == LDAP_WHO_NOBODY ? LDAP_PDU_STRANGER_MAX : LDAP_PDU_CLIENT_MAX;
}

/* One request; false: none is there. */
static bool
step(LdapSession *session)
{
    ph_assert_on_reactor();
    size_t length;
    const uint8_t *bytes = ph_connection_input(session->base.connection, &length);
    size_t whole;
    LdapPdu pdu;
    switch (ldap_pdu_frame(bytes, length, pdu_max(session), &whole)) {
    case LDAP_PARSE_MORE:
        return false;
    case LDAP_PARSE_BAD:
        refuse(session, LDAP_PROTOCOL_ERROR, "that is not LDAP");
        return false;
    case LDAP_PARSE_TOO_LARGE:
        refuse(session, LDAP_PROTOCOL_ERROR, "that request is too large");
        return false;
    case LDAP_PARSE_DONE:
        break;
    }
    if (!ldap_pdu_parse(bytes, whole, &pdu) || pdu.id == 0) {
        refuse(session, LDAP_PROTOCOL_ERROR, "a malformed message");
        return false;
    }
    run(session, bytes, &pdu);
    return true;
}

/* -- callbacks --------------------------------------------------------------------------------- */

static void
opened(PhSession *base)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    ph_metric_add(&ldap_state(session)->counters.sessions, 1);
    g_queue_init(&session->operations);
    ph_connection_set_input_limit(base->connection, LDAP_PDU_STRANGER_MAX);
    ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
    restart_timeout(session);
}

static void
input(PhSession *base)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    bool has_begun = false;
    while (may_read(session) && step(session))
        has_begun = true;
    if (!may_read(session))
        ph_connection_pause(base->connection);
    /* A part of a request is no sign of life: whoever sends byte by byte has no more time. */
    if (has_begun)
        restart_timeout(session);
}

static void
drained(PhSession *base)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    ldap_directory_drained(session);
    ldap_proxy_drained(session);
    if (may_read(session))
        ph_connection_resume(base->connection);
}

/* Who one was in plain text says nothing of who one is now. */
static void
secured(PhSession *base)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    ldap_proxy_release(session);
    ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
    restart_timeout(session);
}

static void
timed_out(PhSession *base)
{
    ph_assert_on_reactor();
    leave((LdapSession *)base, LDAP_UNAVAILABLE, "you have been silent for too long");
}

/* What is under way is owed its answer first. */
static void
farewell(PhSession *base, PhFarewell why)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    session->is_leaving = true;
    ph_connection_pause(base->connection);
    if (why == PH_FAREWELL_CUT)
        leave(session, LDAP_UNAVAILABLE, "ended by an administrator");
    else if (session->operations.length == 0)
        leave(session, LDAP_UNAVAILABLE, "the service is ending");
}

static void
closed(PhSession *base, PhCloseReason reason)
{
    ph_assert_on_reactor();
    LdapSession *session = (LdapSession *)base;
    ph_log(PH_LOG_DEBUG, "ldap.closed", "reason=%d", reason);
    session->is_leaving = true;
    drop_all(session, NULL);
    ldap_proxy_release(session);
    g_clear_pointer(&session->identity, ph_identity_free);
    g_clear_pointer(&session->client_dn, g_free);
    g_clear_pointer(&session->sasl, ph_sasl_free);
}

const PhSessionClass ldap_session_class = {
    .name = "ldap",
    .size = sizeof(LdapSession),
    .opened = opened,
    .input = input,
    .drained = drained,
    .timed_out = timed_out,
    .secured = secured,
    .farewell = farewell,
    .closed = closed,
};
