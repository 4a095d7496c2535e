/* cmd-auth.c - greeting, logging in and out */
#include "imap.h"

#include "posthouse/log.h"

#include <string.h>

void
imap_cmd_capability(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "CAPABILITY takes no arguments");
        return;
    }
    g_autofree char *capabilities = imap_capabilities(session);
    imap_untagged(session, "CAPABILITY %s", capabilities);
    imap_ok(session, "Done");
}

void
imap_cmd_noop(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "NOOP takes no arguments");
        return;
    }
    imap_ok(session, "Done");
}

void
imap_cmd_logout(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "LOGOUT takes no arguments");
        return;
    }
    imap_session_deselect(session);
    imap_session_set_state(session, IMAP_STATE_LOGOUT);
    imap_untagged(session, "BYE Until next time");
    imap_ok(session, "Done");
}

/* What a client says of itself goes to the log; it is told our name in return (RFC 2971 3.2,
 * 3.3). */
void
imap_cmd_id(ImapSession *session, ImapParser *arguments)
{
    enum { FIELDS_MAX = 30, FIELD_BYTES_MAX = 1024 };
    g_autoptr(GString) text = g_string_new(NULL);
    bool good = imap_parse_word(arguments, "NIL");
    if (!good && imap_parse_char(arguments, '(')) {
        good = imap_parse_char(arguments, ')');
        for (int i = 0; !good && i < FIELDS_MAX; i++) {
            size_t length;
            g_autofree char *name = imap_parse_string(arguments, &length);
            if (name == NULL || !imap_parse_space(arguments))
                break;
            g_autofree char *value = imap_parse_word(arguments, "NIL")
                                         ? g_strdup("")
                                         : imap_parse_string(arguments, &length);
            if (value == NULL || strlen(value) > FIELD_BYTES_MAX)
                break;
            g_autofree char *quoted_name = ph_log_quote(name);
            g_autofree char *quoted = ph_log_quote(value);
            g_string_append_printf(text, "%s\"%s\"=\"%s\"", i > 0 ? " " : "", quoted_name, quoted);
            good = imap_parse_char(arguments, ')');
            if (!good && !imap_parse_space(arguments))
                break;
        }
    }
    if (!good || !imap_parse_end(arguments)) {
        imap_bad(session, "ID takes a list of pairs, or NIL");
        return;
    }
    ph_log(PH_LOG_INFO, "imap.id", "%s", text->str);
    imap_untagged(session, "ID (\"name\" \"Posthouse\")");
    imap_ok(session, "Done");
}

void
imap_cmd_starttls(ImapSession *session, ImapParser *arguments)
{
    PhConnection *connection = session->base.connection;
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "STARTTLS takes no arguments");
        return;
    }
    if (ph_connection_is_secure(connection) || session->base.service->tls != PH_TLS_START) {
        imap_bad(session, "TLS is on already");
        return;
    }
    if (!ph_tls_is_available()) {
        imap_no(session, "UNAVAILABLE", "TLS is not available now");
        return;
    }
    size_t behind;
    ph_connection_input(connection, &behind);
    if (behind > 0) {
        /* Plain bytes behind the command would be read as if they had come through TLS. */
        imap_untagged(session, "BYE Plain bytes behind STARTTLS");
        ph_connection_close(connection);
        return;
    }
    imap_ok(session, "Begin the handshake");
    if (!ph_connection_start_tls(connection))
        ph_connection_close(connection);
}

/* -- logging in -------------------------------------------------------------------------------- */

static void
login_done(PhTask *task, PhLoginAnswer answer, PhIdentity *identity, int64_t delay_ms)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    switch (answer) {
    case PH_LOGIN_YES: {
        session->identity = identity;
        ph_session_set_account(&session->base, identity->account_id, identity->login);
        imap_session_set_state(session, IMAP_STATE_AUTHENTICATED);
        g_autofree char *capabilities = imap_capabilities(session);
        g_autofree char *code = g_strdup_printf("CAPABILITY %s", capabilities);
        imap_ok_code(session, code, "Welcome");
        return;
    }
    case PH_LOGIN_NO:
        imap_no_later(session, "AUTHENTICATIONFAILED", "Wrong login or password", delay_ms);
        return;
    case PH_LOGIN_UNAVAILABLE:
        imap_no(session, "UNAVAILABLE", "Logins cannot be checked now, try again later");
        return;
    }
}

static void
log_in(ImapSession *session, const char *login, const PhSecret *password)
{
    ph_assert_on_reactor();
    imap_session_pause(session);
    ph_login_run(&session->base.task, login, password,
        ph_connection_peer_address(session->base.connection), "imap", login_done);
}

static bool
refuse_plain(ImapSession *session)
{
    ph_assert_on_reactor();
    if (ph_login_may_send_password(session->base.connection))
        return false;
    imap_no(session, "PRIVACYREQUIRED", "Passwords are taken with TLS only");
    return true;
}

void
imap_cmd_login(ImapSession *session, ImapParser *arguments)
{
    if (refuse_plain(session))
        return;
    size_t login_length;
    size_t password_length;
    g_autofree char *login = imap_parse_astring(arguments, &login_length);
    char *password = login != NULL && imap_parse_space(arguments)
                         ? imap_parse_astring(arguments, &password_length)
                         : NULL;
    if (password == NULL || !imap_parse_end(arguments)) {
        g_free(password);
        imap_bad(session, "LOGIN takes a login and a password");
        return;
    }
    g_autoptr(PhSecret) secret = ph_secret_new(password, password_length);
    ph_wipe(password, password_length);
    g_free(password);
    if (!g_utf8_validate(login, (gssize)login_length, NULL)) {
        imap_no(session, "AUTHENTICATIONFAILED", "Wrong login or password");
        return;
    }
    log_in(session, login, secret);
}

static void
step(ImapSession *session, const char *text)
{
    ph_assert_on_reactor();
    g_autofree char *challenge = NULL;
    size_t length = text != NULL ? strlen(text) : 0;
    if (text != NULL && length == 0)
        text = "=", length = 1;
    switch (ph_sasl_step_base64(session->sasl, text, length, &challenge)) {
    case PH_SASL_CHALLENGE:
        session->input = IMAP_INPUT_RESPONSE;
        ph_connection_printf(session->base.connection, "+ %s\r\n", challenge);
        return;
    case PH_SASL_READY: {
        g_autoptr(PhSasl) sasl = g_steal_pointer(&session->sasl);
        session->input = IMAP_INPUT_COMMAND;
        log_in(session, ph_sasl_login(sasl), ph_sasl_password(sasl));
        return;
    }
    case PH_SASL_BAD:
        g_clear_pointer(&session->sasl, ph_sasl_free);
        imap_bad(session, "Malformed authentication");
        return;
    }
}

void
imap_cmd_authenticate(ImapSession *session, ImapParser *arguments)
{
    if (refuse_plain(session))
        return;
    g_autofree char *mechanism = imap_parse_atom(arguments);
    g_autofree char *response = NULL;
    if (mechanism != NULL && imap_parse_space(arguments)) {
        response = g_strndup(arguments->at, (size_t)(arguments->end - arguments->at));
        arguments->at = arguments->end;
    }
    if (mechanism == NULL || !imap_parse_end(arguments)) {
        imap_bad(session, "AUTHENTICATE takes a mechanism");
        return;
    }
    session->sasl = ph_sasl_new(mechanism);
    if (session->sasl == NULL) {
        imap_no(session, "CANNOT", "That mechanism is not offered");
        return;
    }
    step(session, response);
}

void
imap_auth_response(ImapSession *session, const char *line)
{
    if (strcmp(line, "*") != 0) {
        step(session, line);
        return;
    }
    g_clear_pointer(&session->sasl, ph_sasl_free);
    imap_bad(session, "Authentication given up");
}
