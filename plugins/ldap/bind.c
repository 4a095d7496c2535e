/* bind.c - who is it? Three answers: yes, no, and "could not ask"
 *
 * A session is anonymous from the moment a bind begins (RFC 4511 4.2.1). A name is an account's entry
 * ("mail=ADDRESS,ou=people,dc=..."; "uid=" is taken, too), a bare address, or somebody below an
 * upstream's suffix, whom the proxy asks. What cannot be asked is `unavailable`, never
 * `invalidCredentials`: clients would throw away a good password.
 */
#include "directory.h"
#include "dn.h"
#include "local.h"
#include "proxy.h"

#include "posthouse/log.h"
#include "posthouse/message-address.h"

#include <string.h>

typedef struct Bind {
    LdapOperation *operation;
    PhTimer delay;   /* before a refusal is told */
    GBytes *refusal; /* an upstream's; null: ours */
    char *login;
    /* for an upstream, should the name be no account of ours */
    char *dn;
    PhSecret *password;
    bool is_local;
    GError *error;
    PhRef ref;
} Bind;

static void
unref_bind(void *data)
{
    Bind *bind = data;
    if (!ph_ref_drop(&bind->ref))
        return;
    g_free(bind->login);
    g_free(bind->dn);
    ph_secret_free(bind->password);
    g_clear_pointer(&bind->refusal, g_bytes_unref);
    g_clear_error(&bind->error);
    g_free(bind);
}

/* The operation is over: the timer must not fire, whoever else holds the rest. */
static void
clear_bind(void *data)
{
    ph_assert_on_reactor();
    Bind *bind = data;
    ph_timer_disarm(&bind->delay);
    unref_bind(bind);
}

static void
refuse_now(void *data)
{
    ph_assert_on_reactor();
    Bind *bind = data;
    LdapOperation *operation = bind->operation;
    if (bind->refusal == NULL) {
        ldap_operation_finish(operation, LDAP_INVALID_CREDENTIALS, NULL, "wrong name or password");
        return;
    }
    LdapSpan rest;
    rest.bytes = g_bytes_get_data(bind->refusal, &rest.length);
    ldap_proxy_write(operation, rest);
    ldap_operation_end(operation);
}

static PH_ON_REACTOR void
refuse_after(Bind *bind, int64_t delay_ms)
{
    LdapSession *session = bind->operation->session;
    ph_metric_add(&ldap_state(session)->counters.bind_failures, 1);
    ph_timer_arm_ms(&bind->delay, ph_connection_reactor(session->base.connection), delay_ms);
}

static void
login_done(PhTask *task, PhLoginAnswer answer, PhIdentity *identity, int64_t delay_ms)
{
    ph_assert_on_reactor();
    LdapOperation *operation = ldap_operation_of(task);
    LdapSession *session = operation->session;
    Bind *bind = operation->data;
    switch (answer) {
    case PH_LOGIN_YES:
        ldap_session_become(session, LDAP_WHO_ACCOUNT, identity, NULL, 0);
        ldap_operation_finish(operation, LDAP_SUCCESS, NULL, NULL);
        return;
    case PH_LOGIN_NO:
        refuse_after(bind, delay_ms);
        return;
    case PH_LOGIN_UNAVAILABLE:
        ldap_operation_finish(
            operation, LDAP_UNAVAILABLE, NULL, "logins cannot be checked now, try again later");
        return;
    }
}

static Bind *
begin(LdapOperation *operation, const char *login)
{
    ph_assert_on_reactor();
    Bind *bind = g_new0(Bind, 1);
    ph_ref_init(&bind->ref);
    bind->operation = operation;
    bind->login = g_strdup(login);
    ph_timer_init(&bind->delay, refuse_now, bind);
    operation->data = bind;
    operation->free_data = clear_bind;
    return bind;
}

void
ldap_bind_refuse(LdapOperation *operation, const char *login, GBytes *rest)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    Bind *bind = begin(operation, login);
    bind->refusal = rest != NULL ? g_bytes_ref(rest) : NULL;
    ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
    refuse_after(
        bind, ph_login_delay_ms(ph_connection_peer_address(session->base.connection), login));
}

static void
log_in(LdapOperation *operation, const char *login, const PhSecret *password)
{
    ph_assert_on_reactor();
    begin(operation, login);
    ph_login_run(&operation->task, login, password,
        ph_connection_peer_address(operation->session->base.connection), "ldap", login_done);
}

/* -- a name that may be ours or an upstream's -------------------------------------------------- */

static void
look_for_domain(void *data)
{
    ph_assert_in_job();
    Bind *bind = data;
    enum { DEADLINE_S = 10 };
    LdapView view = {
        .tenant_id = -1,
        .deadline_us = ph_monotonic_us() + DEADLINE_S * G_USEC_PER_SEC,
    };
    LdapBase base;
    g_autofree char *normal = ldap_dn_normalize((const uint8_t *)bind->dn, strlen(bind->dn));
    ldap_base_init(&base, normal != NULL ? normal : "");
    base.kind = base.domain[0] != '\0' ? LDAP_BASE_UNIT : LDAP_BASE_OTHER;
    g_autoptr(LdapEntry) unit = ldap_find_blocking(&view, &base, &bind->error);
    bind->is_local = unit != NULL;
    ldap_base_clear(&base);
}

static void
domain_found(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    Bind *bind = data;
    LdapOperation *operation = ldap_operation_of(task);
    if (bind->error != NULL) {
        ldap_operation_fail(operation, bind->error);
        return;
    }
    if (bind->is_local) {
        ph_login_run(task, bind->login, bind->password,
            ph_connection_peer_address(operation->session->base.connection), "ldap", login_done);
        return;
    }
    LdapSession *session = operation->session;
    const PhUpstream *upstream = ldap_proxy_route(ldap_state(session), ph_task_reactor(task), "");
    g_autofree char *dn = g_steal_pointer(&bind->dn);
    g_autoptr(PhSecret) password = g_steal_pointer(&bind->password);
    clear_bind(operation->data);
    operation->data = NULL;
    operation->free_data = NULL;
    if (upstream != NULL)
        ldap_proxy_bind(operation, upstream, dn, password);
    else
        ldap_operation_finish(operation, LDAP_INVALID_CREDENTIALS, NULL, "wrong name or password");
}

static void
decide(LdapOperation *operation, const char *login, const char *dn, const PhSecret *password)
{
    ph_assert_on_reactor();
    Bind *bind = begin(operation, login);
    bind->dn = g_strdup(dn);
    bind->password = ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    ph_ref_take(&bind->ref);
    ph_task_run(&operation->task, PH_LANE_SLOW, look_for_domain, domain_found, bind, unref_bind);
}

/* -- names ------------------------------------------------------------------------------------- */

/* An account's entry stands below its own domain: below another one it is nobody's name, whoever may have
 * such an address. */
static bool
is_of_domain(const char *login, const char *domain)
{
    const char *at = strrchr(login, '@');
    g_autofree char *ascii = at != NULL ? ph_domain_to_ascii(at + 1) : NULL;
    return ascii != NULL && strcmp(ascii, domain) == 0;
}

/* The address in the name of an account's entry; null: it is none. */
static char *
find_login(const char *dn)
{
    LdapBase base;
    ldap_base_init(&base, dn);
    char *login = NULL;
    if (base.has_unit && base.unit == PH_ENTRY_ACCOUNT) {
        login = g_strdup(base.key);
        const char *parent = ldap_dn_parent(dn);
        LdapBase above;
        ldap_base_init(&above, parent);
        if (login == NULL && above.kind == LDAP_BASE_UNIT)
            login = ldap_dn_value(dn, "uid");
        ldap_base_clear(&above);
        if (login != NULL && !is_of_domain(login, base.domain))
            g_clear_pointer(&login, g_free);
    }
    ldap_base_clear(&base);
    return login;
}

static void
bind_as(LdapOperation *operation, const char *name, const PhSecret *password)
{
    ph_assert_on_reactor();
    enum { LOGIN_MAX_BYTES = 254 };
    LdapSession *session = operation->session;
    if (strchr(name, '=') == NULL && strlen(name) <= LOGIN_MAX_BYTES) {
        log_in(operation, name, password);
        return;
    }
    g_autofree char *dn = ldap_dn_normalize((const uint8_t *)name, strlen(name));
    if (dn == NULL) {
        ldap_operation_finish(operation, LDAP_INVALID_DN_SYNTAX, NULL, "a malformed name");
        return;
    }
    const PhUpstream *upstream =
        ldap_proxy_route(ldap_state(session), ph_connection_reactor(session->base.connection), dn);
    g_autofree char *login = find_login(dn);
    if (upstream != NULL && (upstream->suffix[0] != '\0' || login == NULL))
        ldap_proxy_bind(operation, upstream, name, password);
    else if (upstream != NULL)
        decide(operation, login, name, password);
    else
        /* A name that is nobody's takes as long, and counts as much, as a wrong password. */
        log_in(operation, login != NULL && strlen(login) <= LOGIN_MAX_BYTES ? login : "nobody",
            password);
}

static void
bind_simple(LdapOperation *operation, LdapSpan name_span, LdapSpan password_span)
{
    ph_assert_on_reactor();
    LdapSession *session = operation->session;
    g_autofree char *name = ldap_span_text(name_span);
    if (name == NULL || !g_utf8_validate(name, -1, NULL)) {
        ldap_operation_finish(operation, LDAP_INVALID_DN_SYNTAX, NULL, "a malformed name");
        return;
    }
    if (name[0] == '\0') {
        bool is_anonymous = password_span.length == 0;
        ldap_operation_finish(operation, is_anonymous ? LDAP_SUCCESS : LDAP_INVALID_CREDENTIALS,
            NULL, is_anonymous ? NULL : "a password without a name");
        return;
    }
    /* RFC 4513 5.1.2: a client that forgot the password would believe that it has logged in. */
    if (password_span.length == 0) {
        ldap_operation_finish(
            operation, LDAP_UNWILLING_TO_PERFORM, NULL, "a name without a password");
        return;
    }
    if (!ph_login_may_send_password(session->base.connection)) {
        ldap_operation_finish(
            operation, LDAP_CONFIDENTIALITY_REQUIRED, NULL, "passwords are taken with TLS only");
        return;
    }
    ph_metric_add(&ldap_state(session)->counters.binds, 1);
    g_autoptr(PhSecret) password = ph_secret_new(password_span.bytes, password_span.length);
    bind_as(operation, name, password);
}

/* -- SASL -------------------------------------------------------------------------------------- */

/* The mechanism's exchange goes on with the next bind (RFC 4511 4.2.1). */
static void
challenge(LdapOperation *operation, const char *text)
{
    ph_assert_on_reactor();
    BerElement *answer = ldap_writer_new();
    ber_printf(answer, "{it{essts}}", (int)operation->id, (ber_tag_t)LDAP_RES_BIND,
        (int)LDAP_SASL_BIND_IN_PROGRESS, "", "", (ber_tag_t)LDAP_TAG_SASL_CHALLENGE, text);
    ldap_operation_answer(operation, answer);
    ldap_operation_end(operation);
}

static void
step(LdapOperation *operation, PhSasl *own_sasl, LdapSpan credentials)
{
    ph_assert_on_reactor();
    g_autoptr(PhSasl) sasl = own_sasl;
    LdapSession *session = operation->session;
    const char *text = NULL;
    switch (ph_sasl_step(sasl, credentials.bytes, credentials.length, &text)) {
    case PH_SASL_CHALLENGE:
        session->sasl = g_steal_pointer(&sasl);
        challenge(operation, text);
        return;
    case PH_SASL_READY:
        ph_metric_add(&ldap_state(session)->counters.binds, 1);
        log_in(operation, ph_sasl_login(sasl), ph_sasl_password(sasl));
        return;
    case PH_SASL_BAD:
        ldap_operation_finish(operation, LDAP_INVALID_CREDENTIALS, NULL, "malformed credentials");
        return;
    }
}

static void
bind_sasl(LdapOperation *operation, PhSasl *own_going_on, LdapSpan contents)
{
    ph_assert_on_reactor();
    g_autoptr(PhSasl) sasl = own_going_on;
    LdapSession *session = operation->session;
    LdapSpan mechanism;
    LdapSpan credentials = { 0 };
    g_autoptr(LdapReader) reader = ldap_reader_new(contents);
    if (!ldap_read(reader, LDAP_TAG_OCTETS, &mechanism) ||
        (ldap_reader_left(reader) > 0 && !ldap_read(reader, LDAP_TAG_OCTETS, &credentials))) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed bind");
        return;
    }
    if (mechanism.length != strlen("PLAIN") ||
        g_ascii_strncasecmp((const char *)mechanism.bytes, "PLAIN", mechanism.length) != 0) {
        ldap_operation_finish(
            operation, LDAP_AUTH_METHOD_NOT_SUPPORTED, NULL, "that mechanism is not offered");
        return;
    }
    if (!ph_login_may_send_password(session->base.connection)) {
        ldap_operation_finish(
            operation, LDAP_CONFIDENTIALITY_REQUIRED, NULL, "passwords are taken with TLS only");
        return;
    }
    step(operation, sasl != NULL ? g_steal_pointer(&sasl) : ph_sasl_new("PLAIN"), credentials);
}

void
ldap_bind(LdapOperation *operation)
{
    LdapSession *session = operation->session;
    g_autoptr(PhSasl) going_on = g_steal_pointer(&session->sasl);
    ldap_proxy_release(session);
    ldap_session_become(session, LDAP_WHO_NOBODY, NULL, NULL, 0);
    LdapSpan name;
    LdapSpan credentials;
    uint8_t method;
    int32_t version;
    g_autoptr(LdapReader) reader = ldap_reader_new(operation->pdu.op);
    if (!ldap_read_int(reader, LDAP_TAG_INTEGER, &version) ||
        !ldap_read(reader, LDAP_TAG_OCTETS, &name) ||
        !ldap_read_any(reader, &method, &credentials)) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed bind");
        return;
    }
    if (ldap_has_unknown_critical(operation->pdu.controls)) {
        ldap_operation_finish(operation, LDAP_UNAVAILABLE_CRITICAL_EXTENSION, NULL,
            "a critical control is not known");
        return;
    }
    if (version != 3)
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "this is LDAP version 3");
    else if (method == LDAP_TAG_SIMPLE)
        bind_simple(operation, name, credentials);
    else if (method == LDAP_TAG_SASL)
        bind_sasl(operation, g_steal_pointer(&going_on), credentials);
    else
        ldap_operation_finish(
            operation, LDAP_AUTH_METHOD_NOT_SUPPORTED, NULL, "that kind of bind is not offered");
}
