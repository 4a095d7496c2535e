/* cmd-auth.c - AUTH (RFC 4954) */
#include "smtp.h"

#include "posthouse/log.h"

#include <string.h>

typedef struct LoginJob {
    char *login;
    PhSasl *sasl; /* its password stays here until the job is over */
    char *peer;
    PhLoginAnswer answer;
    PhIdentity *identity;
} LoginJob;

static void
login_job_free(void *data)
{
    LoginJob *job = data;
    ph_sasl_free(job->sasl);
    ph_identity_free(job->identity);
    g_free(job->login);
    g_free(job->peer);
    g_free(job);
}

static void
login_job(void *data)
{
    ph_assert_in_job();
    LoginJob *job = data;
    PhLoginRequest request = {
        .login = job->login,
        .password = ph_sasl_password(job->sasl),
        .peer_address = job->peer,
        .service = "smtp",
        .deadline_us = smtp_deadline_us(),
    };
    job->answer = ph_login_blocking(&request, &job->identity, NULL);
}

static void
login_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    LoginJob *job = data;
    smtp_session_set_state(session, SMTP_STATE_GREETED);
    switch (job->answer) {
    case PH_LOGIN_YES:
        session->identity = g_steal_pointer(&job->identity);
        session->errors = 0;
        smtp_session_set_state(session, SMTP_STATE_GREETED);
        smtp_reply(session, "235 2.7.0 Welcome");
        smtp_session_go_on(session);
        return;
    case PH_LOGIN_NO:
        smtp_refuse_after(session, "535 5.7.8 Wrong login or password", ph_login_delay_ms(job->peer, job->login));
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
    LoginJob *job = g_new0(LoginJob, 1);
    job->sasl = g_steal_pointer(&session->sasl);
    job->login = g_strdup(ph_sasl_login(job->sasl));
    job->peer = g_strdup(ph_connection_peer_address(session->base.connection));
    smtp_session_run(session, login_job, login_done, job, login_job_free);
}

static void
end_auth(SmtpSession *session, const char *line)
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
        end_auth(session, "501 5.5.2 Malformed authentication");
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
        end_auth(session, "501 5.7.0 Authentication given up");
    else
        step(session, line);
}
