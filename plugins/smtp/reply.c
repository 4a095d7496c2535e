/* reply.c - what the client is told */
#include "smtp.h"

#include "posthouse/log.h"

#include <string.h>

/* The conventions' table: an error of ours as a reply. */
static const struct {
    const char *code;
    const char *text; /* used when there is none */
} error_rows[] = {
    [PH_ERROR_SYNTAX] = { "501 5.5.4", "Syntax error" },
    [PH_ERROR_DENIED] = { "550 5.7.1", "Not allowed" },
    [PH_ERROR_NOT_FOUND] = { "550 5.1.1", "No such mailbox" },
    [PH_ERROR_CONFLICT] = { "451 4.3.0", "Try again later" },
    [PH_ERROR_TOO_LARGE] = { "552 5.3.4", "Message too large" },
    [PH_ERROR_LIMIT] = { "452 4.3.1", "Not enough room now" },
    [PH_ERROR_TEMPORARY] = { "451 4.3.0", "Try again later" },
    [PH_ERROR_UNAVAILABLE] = { "451 4.3.0", "Try again later" },
    [PH_ERROR_ABI] = { "451 4.3.0", "Try again later" },
    [PH_ERROR_INTERNAL] = { "451 4.3.0", "Internal error" },
};

void
smtp_reply(SmtpSession *session, const char *line)
{
    ph_connection_puts(session->base.connection, line);
    ph_connection_write(session->base.connection, "\r\n", 2);
}

void
smtp_replyf(SmtpSession *session, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *line = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    smtp_reply(session, line);
}

/* RFC 5321 4.2.5: no bytes over 127 unless the client asked for SMTPUTF8; control characters
 * never. */
static char *
clean_text(const char *text)
{
    char *clean = g_strndup(text, 300);
    for (char *at = clean; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    return clean;
}

char *
smtp_error_line(const SmtpSession *session, PhError code, const char *text)
{
    g_autofree char *clean = clean_text(text != NULL ? text : error_rows[code].text);
    if (code == PH_ERROR_INTERNAL)
        return g_strdup_printf(
            "%s %s (%s)", error_rows[code].code, error_rows[code].text, session->base.id);
    /* What is wrong inside is for the log, not for strangers. */
    if (code == PH_ERROR_UNAVAILABLE || code == PH_ERROR_TEMPORARY)
        return g_strdup_printf("%s %s", error_rows[code].code, error_rows[code].text);
    return g_strdup_printf("%s %s", error_rows[code].code, clean);
}

static void
send_delayed(void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = data;
    g_autofree char *line = g_steal_pointer(&session->delayed);
    smtp_reply(session, line);
    smtp_session_go_on(session);
}

void
smtp_refuse_after(SmtpSession *session, const char *line, int64_t delay_ms)
{
    ph_metric_add(
        line[0] == '4' ? &smtp_counters(session)->deferred : &smtp_counters(session)->refused, 1);
    ph_log(PH_LOG_INFO, "smtp.refused", "peer=%s helo=\"%s\" reply=\"%s\"",
        ph_connection_peer_address(session->base.connection),
        session->helo != NULL ? session->helo : "", line);
    /* What is put off is not the client's fault. */
    if (line[0] == '5' && ++session->errors >= SMTP_HARD_ERRORS) {
        smtp_reply(session, line);
        smtp_reply(session, "421 4.7.0 Too many errors");
        ph_connection_close(session->base.connection);
        return;
    }
    if (session->errors > SMTP_SOFT_ERRORS)
        delay_ms = MAX(delay_ms, 1000);
    if (delay_ms == 0) {
        smtp_reply(session, line);
        smtp_session_go_on(session);
        return;
    }
    g_free(session->delayed);
    session->delayed = g_strdup(line);
    ph_connection_pause(session->base.connection);
    ph_timer_init(&session->delay, send_delayed, session);
    ph_timer_arm_ms(&session->delay, ph_connection_reactor(session->base.connection), delay_ms);
}

void
smtp_refuse(SmtpSession *session, const char *line)
{
    smtp_refuse_after(session, line, 0);
}

void
smtp_refuse_error(SmtpSession *session, const GError *error)
{
    PhError code = ph_error_code(error);
    g_autofree char *line = smtp_error_line(session, code, error->message);
    if (code == PH_ERROR_UNAVAILABLE || code == PH_ERROR_TEMPORARY || code == PH_ERROR_INTERNAL)
        ph_log(code == PH_ERROR_INTERNAL ? PH_LOG_ERROR : PH_LOG_WARNING, "smtp.cannot", "%s",
            error->message);
    smtp_refuse(session, line);
}
