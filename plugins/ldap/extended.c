/* extended.c - extended requests (RFC 4511 4.12): StartTLS, Who am I, password modify, cancel */
#include "directory.h"
#include "dn.h"
#include "local.h"

#include "posthouse/log.h"

#include <string.h>

/* `value` may be null: none. */
static void
finish(LdapOperation *operation, LdapResult result, const char *text, const char *oid,
    const LdapSpan *value)
{
    ph_assert_on_reactor();
    BerElement *answer = ldap_writer_new();
    ber_printf(answer, "{it{ess", (int)operation->id, (ber_tag_t)LDAP_RES_EXTENDED, (int)result, "",
        text != NULL ? text : "");
    if (oid != NULL)
        ber_printf(answer, "ts", (ber_tag_t)LDAP_TAG_RESPONSE_NAME, oid);
    if (value != NULL)
        ber_printf(answer, "to", (ber_tag_t)LDAP_TAG_RESPONSE_VALUE, (const char *)value->bytes,
            (ber_len_t)value->length);
    ber_printf(answer, "}}");
    ldap_operation_answer(operation, answer);
    ldap_operation_end(operation);
}

/* -- StartTLS (RFC 4511 4.14) ------------------------------------------------------------------ */

static void
start_tls(LdapOperation *operation, LdapSpan value)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    PhConnection *connection = session->base.connection;
    LdapResult result = LDAP_SUCCESS;
    const char *text = NULL;
    size_t behind;
    ph_connection_input(connection, &behind);
    if (value.bytes != NULL)
        result = LDAP_PROTOCOL_ERROR, text = "StartTLS has no value";
    else if (ph_connection_is_secure(connection) || session->base.service->tls != PH_TLS_START)
        result = LDAP_OPERATIONS_ERROR, text = "TLS is on already";
    else if (session->operations.length > 1)
        result = LDAP_OPERATIONS_ERROR, text = "other requests are under way";
    else if (!ph_tls_is_available())
        result = LDAP_UNAVAILABLE, text = "TLS is not available now";
    if (result != LDAP_SUCCESS) {
        finish(operation, result, text, LDAP_OID_START_TLS, NULL);
        return;
    }
    if (behind > 0) {
        /* Plain bytes behind the request would be read as if they had come through TLS. */
        finish(operation, LDAP_OPERATIONS_ERROR, "plain bytes behind StartTLS", LDAP_OID_START_TLS,
            NULL);
        ph_connection_close(connection);
        return;
    }
    finish(operation, LDAP_SUCCESS, NULL, LDAP_OID_START_TLS, NULL);
    if (!ph_connection_start_tls(connection))
        ph_connection_close(connection);
}

/* -- Who am I (RFC 4532) ----------------------------------------------------------------------- */

static void
who_am_i(LdapOperation *operation, LdapSpan value)
{
    ph_assert_on_reactor();
    const LdapSession *session = operation->session;
    if (value.bytes != NULL) {
        finish(operation, LDAP_PROTOCOL_ERROR, "Who am I has no value", NULL, NULL);
        return;
    }
    g_autofree char *dn = NULL;
    switch (session->who) {
    case LDAP_WHO_NOBODY:
        break;
    case LDAP_WHO_ACCOUNT:
        dn = ldap_account_dn(session->identity->login);
        break;
    case LDAP_WHO_CLIENT:
        dn = g_strdup(session->client_dn);
        break;
    }
    g_autofree char *authzid = dn != NULL ? g_strconcat("dn:", dn, NULL) : g_strdup("");
    LdapSpan out = { .bytes = (const uint8_t *)authzid, .length = strlen(authzid) };
    finish(operation, LDAP_SUCCESS, NULL, NULL, &out);
}

/* -- password modify (RFC 3062) ---------------------------------------------------------------- */

/* Of the request's value, and of its answer's. */
enum { TAG_USER = 0x80, TAG_OLD = 0x81, TAG_NEW = 0x82, TAG_MADE = 0x80 };

typedef struct Change {
    char *login;
    char *peer;
    int64_t account_id;
    PhSecret *old;
    PhSecret *fresh; /* the new one */
    bool is_made;    /* by us: it is told */
    PhLoginAnswer answer;
    GError *error;
} Change;

static void
free_change(void *data)
{
    Change *change = data;
    g_free(change->login);
    g_free(change->peer);
    ph_secret_free(change->old);
    ph_secret_free(change->fresh);
    g_clear_error(&change->error);
    g_free(change);
}

static void
run_change(void *data)
{
    ph_assert_in_job();
    enum { DEADLINE_S = 30 };
    Change *change = data;
    int64_t deadline_us = ph_monotonic_us() + DEADLINE_S * G_USEC_PER_SEC;
    g_autoptr(PhIdentity) identity = NULL;
    /* Whoever has a device with an app password must not get the account by it. */
    PhLoginRequest request = {
        .login = change->login,
        .password = change->old,
        .peer_address = change->peer,
        .service = "password",
        .deadline_us = deadline_us,
    };
    change->answer = ph_login_blocking(&request, &identity, NULL);
    if (change->answer == PH_LOGIN_YES && identity->account_id != change->account_id)
        change->answer = PH_LOGIN_NO;
    if (change->answer == PH_LOGIN_YES)
        ph_password_change_blocking(
            identity, change->peer, change->fresh, deadline_us, &change->error);
}

static void
change_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    const Change *change = data;
    LdapOperation *operation = ldap_operation_of(task);
    if (change->answer == PH_LOGIN_UNAVAILABLE) {
        finish(operation, LDAP_UNAVAILABLE, "passwords cannot be checked now, try again later",
            NULL, NULL);
        return;
    }
    if (change->answer == PH_LOGIN_NO) {
        finish(operation, LDAP_INVALID_CREDENTIALS, "the old password is wrong", NULL, NULL);
        return;
    }
    if (change->error != NULL && ph_error_code(change->error) == PH_ERROR_SYNTAX) {
        finish(operation, LDAP_CONSTRAINT_VIOLATION, change->error->message, NULL, NULL);
        return;
    }
    if (change->error != NULL) {
        ldap_operation_fail(operation, change->error);
        return;
    }
    ph_log(PH_LOG_NOTICE, "ldap.password-changed", "login=%s", change->login);
    if (!change->is_made) {
        finish(operation, LDAP_SUCCESS, NULL, NULL, NULL);
        return;
    }
    BerElement *list = ldap_writer_new();
    ber_printf(list, "{to}", (ber_tag_t)TAG_MADE, (const char *)ph_secret_bytes(change->fresh),
        (ber_len_t)ph_secret_length(change->fresh));
    LdapSpan value = ldap_writer_bytes(list);
    finish(operation, LDAP_SUCCESS, NULL, NULL, &value);
    ph_wipe((void *)(uintptr_t)value.bytes, value.length);
    ldap_writer_free(list);
}

/* 20 letters and digits that are not taken for one another: about 98 bits. */
static PhSecret *
make_password(void)
{
    static const char letters[] = "abcdefghjkmnpqrstuvwxyz23456789";
    enum { LENGTH = 20, N = sizeof(letters) - 1, FAIR = 256 / N * N };
    char text[LENGTH];
    size_t n = 0;
    while (n < LENGTH) {
        g_autoptr(PhSecret) random = ph_secret_new_random(LENGTH * 2);
        const uint8_t *bytes = ph_secret_bytes(random);
        for (size_t i = 0; i < LENGTH * 2 && n < LENGTH; i++)
            if (bytes[i] < FAIR)
                text[n++] = letters[bytes[i] % N];
    }
    PhSecret *secret = ph_secret_new(text, LENGTH);
    ph_wipe(text, sizeof(text));
    return secret;
}

/* Is it the session's own account: its entry's name, "u:ADDRESS", or the address? */
static bool
is_oneself(const LdapSession *session, LdapSpan user)
{
    g_autofree char *text = ldap_span_text(user);
    if (text == NULL || !g_utf8_validate(text, -1, NULL))
        return false;
    const char *name = g_str_has_prefix(text, "u:")    ? text + 2
                       : g_str_has_prefix(text, "dn:") ? text + 3
                                                       : text;
    if (g_ascii_strcasecmp(name, session->identity->login) == 0)
        return true;
    g_autofree char *own = ldap_account_dn(session->identity->login);
    g_autofree char *own_normal = ldap_dn_normalize((const uint8_t *)own, strlen(own));
    g_autofree char *normal = ldap_dn_normalize((const uint8_t *)name, strlen(name));
    return normal != NULL && g_strcmp0(normal, own_normal) == 0;
}

static bool
read_change(LdapSpan value, LdapSpan *user_out, LdapSpan *old_out, LdapSpan *fresh_out)
{
    if (value.bytes == NULL)
        return true;
    size_t length;
    g_autoptr(LdapReader) reader = ldap_reader_new(value);
    if (!ldap_read_into(reader, LDAP_TAG_SEQUENCE, &length) || length != ldap_reader_left(reader))
        return false;
    (void)ldap_read(reader, TAG_USER, user_out);
    (void)ldap_read(reader, TAG_OLD, old_out);
    (void)ldap_read(reader, TAG_NEW, fresh_out);
    return ldap_reader_left(reader) == 0;
}

static void
change_own(LdapOperation *operation, LdapSpan user, LdapSpan old, LdapSpan fresh)
{
    ph_assert_on_reactor();
    const LdapSession *session = operation->session;
    if (user.bytes != NULL && !is_oneself(session, user)) {
        finish(operation, LDAP_INSUFFICIENT_ACCESS, "only one's own password is changed here", NULL,
            NULL);
        return;
    }
    if (old.bytes == NULL) {
        finish(
            operation, LDAP_UNWILLING_TO_PERFORM, "the present password is asked for", NULL, NULL);
        return;
    }
    Change *change = g_new0(Change, 1);
    change->login = g_strdup(session->identity->login);
    change->account_id = session->identity->account_id;
    change->peer = g_strdup(ph_connection_peer_address(session->base.connection));
    change->old = ph_secret_new(old.bytes, old.length);
    change->is_made = fresh.bytes == NULL;
    change->fresh = change->is_made ? make_password() : ph_secret_new(fresh.bytes, fresh.length);
    ph_task_run(&operation->task, PH_LANE_SLOW, run_change, change_done, change, free_change);
}

static void
modify_password(LdapOperation *operation, LdapSpan value)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    LdapSpan user = { 0 };
    LdapSpan old = { 0 };
    LdapSpan fresh = { 0 };
    if (!read_change(value, &user, &old, &fresh)) {
        finish(operation, LDAP_PROTOCOL_ERROR, "a malformed request", NULL, NULL);
        return;
    }
    if (!ph_login_may_send_password(session->base.connection)) {
        finish(operation, LDAP_CONFIDENTIALITY_REQUIRED, "passwords are taken with TLS only", NULL,
            NULL);
        return;
    }
    if (session->who == LDAP_WHO_ACCOUNT) {
        change_own(operation, user, old, fresh);
        return;
    }
    const PhUpstream *upstream = NULL;
    if (session->who == LDAP_WHO_CLIENT)
        upstream = ldap_proxy_by_id(ldap_state(session),
            ph_connection_reactor(session->base.connection), session->client_upstream);
    if (upstream != NULL)
        ldap_proxy_forward(operation, upstream);
    else
        finish(operation, LDAP_INSUFFICIENT_ACCESS, "log in first", NULL, NULL);
}

/* -- cancel (RFC 3909) ------------------------------------------------------------------------- */

static void
cancel(LdapOperation *operation, LdapSpan value)
{
    ph_assert_on_reactor();
    size_t length;
    int32_t id;
    g_autoptr(LdapReader) reader = ldap_reader_new(value);
    if (!ldap_read_into(reader, LDAP_TAG_SEQUENCE, &length) || length != ldap_reader_left(reader) ||
        !ldap_read_int(reader, LDAP_TAG_INTEGER, &id) || ldap_reader_left(reader) > 0)
        finish(operation, LDAP_PROTOCOL_ERROR, "a malformed request", NULL, NULL);
    else
        finish(operation, ldap_operation_cancel(operation, id), NULL, NULL, NULL);
}

/* -- all of them ------------------------------------------------------------------------------- */

static const struct {
    const char *oid;
    void (*run)(LdapOperation *operation, LdapSpan value);
} rows[] = {
    { LDAP_OID_START_TLS, start_tls },
    { LDAP_OID_WHO_AM_I, who_am_i },
    { LDAP_OID_PASSWORD_MODIFY, modify_password },
    { LDAP_OID_CANCEL, cancel },
};

void
ldap_extended(LdapOperation *operation)
{
    LdapSpan oid;
    LdapSpan value = { 0 };
    g_autoptr(LdapReader) reader = ldap_reader_new(operation->pdu.op);
    if (!ldap_read(reader, LDAP_TAG_REQUEST_NAME, &oid) ||
        (ldap_reader_left(reader) > 0 && !ldap_read(reader, LDAP_TAG_REQUEST_VALUE, &value))) {
        finish(operation, LDAP_PROTOCOL_ERROR, "a malformed request", NULL, NULL);
        return;
    }
    if (ldap_has_unknown_critical(operation->pdu.controls) &&
        operation->session->who != LDAP_WHO_CLIENT) {
        finish(operation, LDAP_UNAVAILABLE_CRITICAL_EXTENSION, "a critical control is not known",
            NULL, NULL);
        return;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (ldap_span_is(oid, rows[i].oid)) {
            rows[i].run(operation, value);
            return;
        }
    finish(operation, LDAP_PROTOCOL_ERROR, "that extended request is not known", NULL, NULL);
}
