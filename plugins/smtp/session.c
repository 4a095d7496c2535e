/* session.c - the life of a session
 *
 * Input is lines, except in DATA. A handler that needs a job pauses the input; whatever the client
 * pipelined waits in the connection, so replies keep the order of commands (RFC 2920).
 */
#include "smtp.h"

#include "posthouse/log.h"

#include <string.h>

enum { JOB_DEADLINE_S = 30 };

static const char *const state_names[] = {
    [SMTP_STATE_START] = "start",
    [SMTP_STATE_GREETED] = "greeted",
    [SMTP_STATE_AUTH] = "auth",
    [SMTP_STATE_MAIL] = "mail",
    [SMTP_STATE_RCPT] = "rcpt",
    [SMTP_STATE_DATA] = "data",
};

/* From each state to which others. */
static const unsigned successors[] = {
    [SMTP_STATE_START] = IN_START | IN_GREETED,
    [SMTP_STATE_GREETED] = IN_START | IN_GREETED | IN_MAIL | 1 << SMTP_STATE_AUTH,
    [SMTP_STATE_AUTH] = IN_GREETED,
    [SMTP_STATE_MAIL] = IN_START | IN_GREETED | IN_RCPT,
    [SMTP_STATE_RCPT] = IN_START | IN_GREETED | IN_RCPT | 1 << SMTP_STATE_DATA,
    [SMTP_STATE_DATA] = IN_GREETED,
};

static void
restart_timeout(SmtpSession *session)
{
    ph_assert_on_reactor();
    ph_connection_set_timeout_ms(
        session->base.connection, ph_setting_int("smtp.receive.timeout_s") * 1000);
}

void
smtp_session_set_state(SmtpSession *session, SmtpState state)
{
    g_assert((successors[session->state] & (1U << state)) != 0);
    session->state = state;
    const char *login = session->identity != NULL ? session->identity->login : session->helo;
    g_autofree char *activity =
        g_strdup_printf("%s, %s", login != NULL ? login : "not greeted", state_names[state]);
    ph_session_set_activity(&session->base, activity);
}

void
smtp_session_reset(SmtpSession *session)
{
    g_clear_pointer(&session->envelope, smtp_envelope_free);
    g_clear_pointer(&session->data, smtp_data_free);
    if (session->state != SMTP_STATE_START)
        smtp_session_set_state(session, SMTP_STATE_GREETED);
}

int64_t
smtp_deadline_us(void)
{
    return ph_monotonic_us() + JOB_DEADLINE_S * G_USEC_PER_SEC;
}

void
smtp_session_pause(SmtpSession *session)
{
    ph_connection_pause(session->base.connection);
    ph_connection_set_timeout_ms(session->base.connection, 0);
}

void
smtp_session_run(
    SmtpSession *session, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data)
{
    smtp_session_pause(session);
    ph_task_run(&session->base.task, PH_LANE_MAIL, job, done, data, free_data);
}

static void
leave(SmtpSession *session)
{
    ph_assert_on_reactor();
    smtp_reply(session, "421 4.3.2 Service is ending");
    ph_connection_close(session->base.connection);
}

void
smtp_session_go_on(SmtpSession *session)
{
    if (session->is_leaving) {
        leave(session);
        return;
    }
    restart_timeout(session);
    ph_connection_resume(session->base.connection);
}

/* -- lines ------------------------------------------------------------------------------------- */

static bool
is_for_role(const SmtpVerb *verb, const SmtpRole *role)
{
    if ((verb->flags & VERB_LMTP) != 0 && !role->is_lmtp)
        return false;
    if ((verb->flags & VERB_NOT_LMTP) != 0 && role->is_lmtp)
        return false;
    return (verb->flags & VERB_SUBMISSION) == 0 || role->is_submission;
}

static const SmtpVerb *
find_verb(const SmtpSession *session, const char *line, size_t length)
{
    for (const SmtpVerb *verb = smtp_verbs; verb->name != NULL; verb++)
        if (strlen(verb->name) == length && g_ascii_strncasecmp(verb->name, line, length) == 0 &&
            is_for_role(verb, session->role))
            return verb;
    return NULL;
}

static const char *
wrong_state_reply(const SmtpSession *session)
{
    if (session->state == SMTP_STATE_START)
        return session->role->is_lmtp ? "503 5.5.1 Say LHLO first" : "503 5.5.1 Say EHLO first";
    return "503 5.5.1 Not now";
}

static void
run_line(SmtpSession *session, char *line)
{
    ph_assert_on_reactor();
    if (session->state == SMTP_STATE_AUTH) {
        smtp_auth_response(session, line);
        return;
    }
    size_t length = strcspn(line, " ");
    const SmtpVerb *verb = find_verb(session, line, length);
    if (verb == NULL) {
        smtp_refuse(session, "500 5.5.2 Command not recognized");
        return;
    }
    if ((verb->flags & VERB_NO_PROGRESS) != 0 && ++session->noops > SMTP_NOOPS_MAX) {
        smtp_reply(session, "421 4.7.0 Too many commands without mail");
        ph_connection_close(session->base.connection);
        return;
    }
    if ((verb->states & (1U << session->state)) == 0) {
        smtp_refuse(session, wrong_state_reply(session));
        return;
    }
    const char *rest = line + length;
    while (*rest == ' ')
        rest++;
    verb->run(session, rest);
}

static size_t
line_limit(const SmtpSession *session)
{
    return session->state == SMTP_STATE_AUTH ? SMTP_AUTH_LINE_MAX_BYTES : SMTP_LINE_MAX_BYTES;
}

/* A line that cannot be taken; in the middle of AUTH it ends that. */
static PH_ON_REACTOR void
refuse_line(SmtpSession *session, const char *reply)
{
    if (session->state == SMTP_STATE_AUTH)
        smtp_auth_end(session, reply);
    else
        smtp_refuse(session, reply);
}

/* The whole line, with its end. */
static void
take_line(SmtpSession *session, const uint8_t *bytes, size_t length)
{
    ph_assert_on_reactor();
    if (session->discarding) {
        session->discarding = false;
        refuse_line(session, "500 5.5.2 Line too long");
        return;
    }
    bool strict = length >= 2 && bytes[length - 2] == '\r';
    size_t text_length = length - (strict ? 2 : 1);
    if (text_length > line_limit(session)) {
        refuse_line(session, "500 5.5.2 Line too long");
        return;
    }
    if (memchr(bytes, '\0', text_length) != NULL || memchr(bytes, '\r', text_length) != NULL) {
        refuse_line(session, "500 5.5.2 Control characters in a command");
        return;
    }
    if (!strict) {
        g_autoptr(PhSettings) settings = ph_settings_current();
        if (strcmp(ph_settings_text(settings, "smtp.receive.line_ends", NULL), "reject") == 0) {
            refuse_line(session, "500 5.5.2 Lines end with CR LF");
            return;
        }
    }
    char *line = g_strndup((const char *)bytes, text_length);
    run_line(session, line);
    ph_wipe(line, text_length); /* it may have held a password */
    g_free(line);
}

static bool
wants_input(const SmtpSession *session)
{
    ph_assert_on_reactor();
    return !ph_task_is_busy(&session->base.task) && session->delayed == NULL &&
           !ph_connection_is_closing(session->base.connection);
}

/* False: more bytes are needed. */
static bool
take_command(SmtpSession *session)
{
    ph_assert_on_reactor();
    PhConnection *connection = session->base.connection;
    size_t length;
    const uint8_t *bytes = ph_connection_input(connection, &length);
    const uint8_t *end = length > 0 ? memchr(bytes, '\n', length) : NULL;
    if (end == NULL) {
        if (length > line_limit(session)) {
            session->discarding = true;
            ph_connection_consume(connection, length);
        }
        return false;
    }
    /* The line is copied before it is consumed: STARTTLS must find nothing behind it. */
    size_t line_length = (size_t)(end - bytes) + 1;
    g_autofree uint8_t *line = g_memdup2(bytes, line_length);
    ph_connection_consume(connection, line_length);
    take_line(session, line, line_length);
    ph_wipe(line, line_length);
    return true;
}

static bool
take_data(SmtpSession *session)
{
    ph_assert_on_reactor();
    PhConnection *connection = session->base.connection;
    size_t length;
    const uint8_t *bytes = ph_connection_input(connection, &length);
    if (length == 0)
        return false;
    size_t used = 0;
    bool finished = smtp_data_take(session, bytes, length, &used);
    ph_connection_consume(connection, used);
    if (finished)
        smtp_data_finish(session);
    return true;
}

/* -- callbacks --------------------------------------------------------------------------------- */

static void
opened(PhSession *base)
{
    ph_assert_on_reactor();
    SmtpSession *session = (SmtpSession *)base;
    session->role = base->service->role;
    ph_metric_add(&smtp_counters(session)->sessions, 1);
    if (session->role->is_lmtp && !ph_connection_peer_is_loopback(base->connection)) {
        smtp_reply(session, "554 5.7.1 LMTP is for programs on this host");
        ph_connection_close(base->connection);
        return;
    }
    ph_connection_set_input_limit(base->connection, SMTP_INPUT_LIMIT_BYTES);
    g_autoptr(PhSettings) settings = ph_settings_current();
    smtp_replyf(session, "220 %s %s Posthouse",
        ph_settings_text(settings, "server.host_name", NULL),
        session->role->is_lmtp ? "LMTP" : "ESMTP");
    restart_timeout(session);
}

static void
input(PhSession *base)
{
    ph_assert_on_reactor();
    SmtpSession *session = (SmtpSession *)base;
    while (wants_input(session) &&
           (session->state == SMTP_STATE_DATA ? take_data(session) : take_command(session)))
        continue;
    if (wants_input(session))
        restart_timeout(session);
}

/* RFC 3207 4.2: what the client said in plain text is forgotten. */
static void
secured(PhSession *base)
{
    ph_assert_on_reactor();
    SmtpSession *session = (SmtpSession *)base;
    smtp_session_reset(session);
    g_clear_pointer(&session->helo, g_free);
    g_clear_pointer(&session->identity, ph_identity_free);
    session->is_extended = false;
    smtp_session_set_state(session, SMTP_STATE_START);
    restart_timeout(session);
}

static void
timed_out(PhSession *base)
{
    ph_assert_on_reactor();
    smtp_reply((SmtpSession *)base, "421 4.4.2 Timeout");
    ph_connection_close(base->connection);
}

/* In the middle of a delivery the client is owed its answer: it is sent, and 421 follows it. */
static void
farewell(PhSession *base, PhFarewell why)
{
    ph_assert_on_reactor();
    SmtpSession *session = (SmtpSession *)base;
    session->is_leaving = true;
    if (why == PH_FAREWELL_CUT || !ph_task_is_busy(&base->task))
        leave(session);
}

static void
closed(PhSession *base, PhCloseReason reason)
{
    ph_assert_on_reactor();
    SmtpSession *session = (SmtpSession *)base;
    ph_log(PH_LOG_DEBUG, "smtp.closed", "reason=%d", reason);
    ph_timer_disarm(&session->delay);
    g_clear_pointer(&session->envelope, smtp_envelope_free);
    g_clear_pointer(&session->data, smtp_data_free);
    g_clear_pointer(&session->delivery, smtp_delivery_free);
    g_clear_pointer(&session->identity, ph_identity_free);
    g_clear_pointer(&session->sasl, ph_sasl_free);
    g_free(session->helo);
    g_free(session->delayed);
}

const PhSessionClass smtp_session_class = {
    .name = "smtp",
    .size = sizeof(SmtpSession),
    .opened = opened,
    .input = input,
    .timed_out = timed_out,
    .secured = secured,
    .farewell = farewell,
    .closed = closed,
};
