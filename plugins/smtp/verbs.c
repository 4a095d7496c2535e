/* verbs.c - the verbs, what EHLO offers, and the small commands */
#include "smtp.h"

#include <string.h>

/* -- EHLO -------------------------------------------------------------------------------------- */

static bool
always(const SmtpSession *session)
{
    (void)session;
    return true;
}

static PH_ON_REACTOR bool
can_start_tls(const SmtpSession *session)
{
    return session->base.service->tls == PH_TLS_START && ph_tls_is_available() &&
           !ph_connection_is_secure(session->base.connection);
}

static PH_ON_REACTOR bool
can_log_in(const SmtpSession *session)
{
    return session->role->is_submission && session->identity == NULL &&
           ph_login_may_send_password(session->base.connection);
}

static char *
size_value(void)
{
    return g_strdup_printf(" %" G_GINT64_FORMAT, ph_setting_int("server.message.max_bytes"));
}

static char *
auth_value(void)
{
    return g_strdup_printf(" %s", ph_sasl_mechanisms());
}

static const struct {
    const char *keyword;
    bool (*offered)(const SmtpSession *session);
    char *(*value)(void);
    const char *source;
} keyword_rows[] = {
    { "PIPELINING", always, NULL, "RFC 2920" },
    { "SIZE", always, size_value, "RFC 1870" },
    { "STARTTLS", can_start_tls, NULL, "RFC 3207" },
    { "AUTH", can_log_in, auth_value, "RFC 4954" },
    { "ENHANCEDSTATUSCODES", always, NULL, "RFC 2034" },
    { "8BITMIME", always, NULL, "RFC 6152" },
    { "SMTPUTF8", always, NULL, "RFC 6531" },
};

static bool
greet(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    char *helo = NULL;
    if (!smtp_parse_helo(rest, &helo)) {
        smtp_refuse(session, "501 5.5.4 A domain or address is needed");
        return false;
    }
    smtp_session_reset(session);
    g_free(session->helo);
    session->helo = helo;
    smtp_session_set_state(session, SMTP_STATE_GREETED);
    return true;
}

static void
ehlo(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    if (!greet(session, rest))
        return;
    session->is_extended = true;
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_autoptr(GString) lines = g_string_new(NULL);
    g_string_append_printf(lines, "250-%s greets %s\r\n",
        ph_settings_text(settings, "server.host_name", NULL), session->helo);
    size_t last = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(keyword_rows); i++) {
        if (!keyword_rows[i].offered(session))
            continue;
        g_autofree char *value =
            keyword_rows[i].value != NULL ? keyword_rows[i].value() : g_strdup("");
        last = lines->len;
        g_string_append_printf(lines, "250-%s%s\r\n", keyword_rows[i].keyword, value);
    }
    lines->str[last + 3] = ' ';
    ph_connection_write(session->base.connection, lines->str, lines->len);
}

static void
helo(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    if (!greet(session, rest))
        return;
    session->is_extended = false;
    g_autoptr(PhSettings) settings = ph_settings_current();
    smtp_replyf(session, "250 %s", ph_settings_text(settings, "server.host_name", NULL));
}

/* -- small verbs ------------------------------------------------------------------------------- */

static void
starttls(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    PhConnection *connection = session->base.connection;
    if (*rest != '\0') {
        smtp_refuse(session, "501 5.5.4 STARTTLS takes no words");
        return;
    }
    if (!can_start_tls(session)) {
        smtp_refuse(session, ph_connection_is_secure(connection)
                                 ? "503 5.5.1 TLS is on already"
                                 : "454 4.7.0 TLS is not available now");
        return;
    }
    size_t behind;
    ph_connection_input(connection, &behind);
    if (behind > 0) {
        /* Plain bytes behind the command would be read as if they had come through TLS. */
        smtp_reply(session, "554 5.5.1 Plain bytes behind STARTTLS");
        ph_connection_close(connection);
        return;
    }
    smtp_reply(session, "220 2.0.0 Go ahead");
    if (!ph_connection_start_tls(connection))
        ph_connection_close(connection);
}

static void
noop(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    (void)rest;
    smtp_reply(session, "250 2.0.0 OK");
}

static void
rset(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    if (*rest != '\0') {
        smtp_refuse(session, "501 5.5.4 RSET takes no words");
        return;
    }
    smtp_session_reset(session);
    smtp_reply(session, "250 2.0.0 OK");
}

static void
quit(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    (void)rest;
    smtp_reply(session, "221 2.0.0 Bye");
    ph_connection_close(session->base.connection);
}

/* RFC 5321 3.5.3: neither yes nor no, so that addresses are not harvested. */
static void
vrfy(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    smtp_reply(session,
        *rest != '\0' ? "252 2.5.0 Send mail and find out" : "501 5.5.4 An address is needed");
}

static void
help(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    (void)rest;
    smtp_reply(session, "214 2.0.0 See RFC 5321");
}

// clang-format off
const SmtpVerb smtp_verbs[] = {
    {"EHLO", ehlo, IN_ANY, VERB_NOT_LMTP | VERB_NO_PROGRESS, "5321 4.1.1.1"},
    {"HELO", helo, IN_ANY, VERB_NOT_LMTP | VERB_NO_PROGRESS, "5321 4.1.1.1"},
    {"LHLO", ehlo, IN_ANY, VERB_LMTP | VERB_NO_PROGRESS, "2033 4.1"},
    {"STARTTLS", starttls, IN_GREETED, 0, "3207 4"},
    {"AUTH", smtp_cmd_auth, IN_GREETED, VERB_SUBMISSION, "4954 4"},
    {"MAIL", smtp_cmd_mail, IN_GREETED, 0, "5321 4.1.1.2"},
    {"RCPT", smtp_cmd_rcpt, IN_MAIL | IN_RCPT, 0, "5321 4.1.1.3"},
    {"DATA", smtp_cmd_data, IN_MAIL | IN_RCPT, 0, "5321 4.1.1.4"},
    {"RSET", rset, IN_ANY, VERB_NO_PROGRESS, "5321 4.1.1.5"},
    {"VRFY", vrfy, IN_ANY, VERB_NO_PROGRESS, "5321 4.1.1.6"},
    {"HELP", help, IN_ANY, VERB_NO_PROGRESS, "5321 4.1.1.8"},
    {"NOOP", noop, IN_ANY, VERB_NO_PROGRESS, "5321 4.1.1.9"},
    {"QUIT", quit, IN_ANY, 0, "5321 4.1.1.10"},
    {0},
};
// clang-format on
