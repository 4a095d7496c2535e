/* cmd-auth.c - AUTH (RFC 4954) */
#include "smtp.h"

#include <string.h>

static void
login_done(PhTask *task, PhLoginAnswer answer, PhIdentity *identity, int64_t delay_ms)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    smtp_session_set_state(session, SMTP_STATE_GREETED);
    switch (answer) {
    case PH_LOGIN_YES:
        session->identity = identity;
        ph_session_set_account(&session->base, identity->account_id, identity->login);
        session->errors = 0;
        smtp_session_set_state(session, SMTP_STATE_GREETED);
        smtp_reply(session, "235 2.7.0 Welcome");
        smtp_session_go_on(session);
        return;
    case PH_LOGIN_NO:
        smtp_refuse_after(session, "535 5.7.8 Wrong login or password", delay_ms);
        return;
    case PH_LOGIN_UNAVAILABLE:
        smtp_refuse(session, "454 4.7.0 Logins cannot be checked now, try again later");
        return;
    }
}

static void
log_in(SmtpSession *session)
{
    ph_assert_on_reactor();
    g_autoptr(PhSasl) sasl = g_steal_pointer(&session->sasl);
    smtp_session_pause(session);
    ph_login_run(&session->base.task, ph_sasl_login(sasl), ph_sasl_password(sasl),
        ph_connection_peer_address(session->base.connection), "smtp", login_done);
}

void
smtp_auth_end(SmtpSession *session, const char *line)
{
    ph_assert_on_reactor();
    g_clear_pointer(&session->sasl, ph_sasl_free);
    smtp_session_set_state(session, SMTP_STATE_GREETED);
    smtp_refuse(session, line);
}

/* `text` null: there is no initial response. */
static void
step(SmtpSession *session, const char *text)
{
    ph_assert_on_reactor();
    g_autofree char *challenge = NULL;
    size_t length = text != NULL ? strlen(text) : 0;
    /* A response of no bytes is an empty line; only an initial one is "=". */
    if (text != NULL && length == 0)
        text = "=", length = 1;
    switch (ph_sasl_step_base64(session->sasl, text, length, &challenge)) {
    case PH_SASL_CHALLENGE:
        smtp_replyf(session, "334 %s", challenge);
        return;
    case PH_SASL_READY:
        log_in(session);
        return;
    case PH_SASL_BAD:
        smtp_auth_end(session, "501 5.5.2 Malformed authentication");
        return;
    }
}

void
smtp_cmd_auth(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    size_t length = strcspn(rest, " ");
    g_autofree char *mechanism = g_strndup(rest, length);
    const char *response = rest + length;
    while (*response == ' ')
        response++;
    if (session->identity != NULL) {
        smtp_refuse(session, "503 5.5.1 You are logged in already");
        return;
    }
    if (!ph_login_may_send_password(session->base.connection)) {
        smtp_refuse(session, "538 5.7.11 Passwords are taken with TLS only");
        return;
    }
    session->sasl = ph_sasl_new(mechanism);
    if (session->sasl == NULL) {
        smtp_refuse(session, "504 5.5.4 That mechanism is not offered");
        return;
    }
    smtp_session_set_state(session, SMTP_STATE_AUTH);
    step(session, *response != '\0' ? response : NULL);
}

void
smtp_auth_response(SmtpSession *session, const char *line)
{
    if (strcmp(line, "*") == 0)
        smtp_auth_end(session, "501 5.7.0 Authentication given up");
    else
        step(session, line);
}
