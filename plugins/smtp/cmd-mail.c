/* cmd-mail.c - MAIL and RCPT: the envelope, checked before a byte of the message comes */
#include "smtp.h"

#include "posthouse/account.h"
#include "posthouse/log.h"

#include <string.h>

/* -- the envelope ------------------------------------------------------------------------------ */

static void
recipient_free(gpointer data)
{
    SmtpRecipient *recipient = data;
    g_free(recipient->address);
    g_free(recipient->refusal);
    g_array_unref(recipient->accounts);
    g_free(recipient);
}

SmtpEnvelope *
smtp_envelope_new(PhPath *sender)
{
    SmtpEnvelope *envelope = g_new0(SmtpEnvelope, 1);
    envelope->sender = sender;
    envelope->recipients = g_ptr_array_new_with_free_func(recipient_free);
    return envelope;
}

void
smtp_envelope_free(SmtpEnvelope *envelope)
{
    if (envelope == NULL)
        return;
    ph_path_free(envelope->sender);
    g_ptr_array_unref(envelope->recipients);
    g_free(envelope->id);
    g_free(envelope);
}

/* -- where an address leads -------------------------------------------------------------------- */

typedef struct RouteJob {
    char *address;
    PhPath *path; /* of a sender */
    bool is_utf8;
    int64_t account_id;   /* whose address it must be; 0: anybody's */
    SmtpContext *context; /* policy is to be asked; or null */
    PhDecision decision;
    PhRoute *route; /* null: it was not looked for */
    GError *error;
} RouteJob;

static void
route_job_free(void *data)
{
    RouteJob *job = data;
    g_free(job->address);
    ph_path_free(job->path);
    smtp_context_free(job->context);
    ph_decision_clear(&job->decision);
    ph_route_free(job->route);
    g_clear_error(&job->error);
    g_free(job);
}

/* -- MAIL: whose is it, and what does policy say? ------------------------------------------------ */

static bool
leads_to(const PhRoute *route, int64_t account_id)
{
    for (guint i = 0; i < route->accounts->len; i++)
        if (g_array_index(route->accounts, int64_t, i) == account_id)
            return true;
    return false;
}

static void
sender_job(void *data)
{
    ph_assert_in_job();
    RouteJob *job = data;
    if (job->account_id != 0) {
        job->route = ph_route_resolve_blocking(job->address, smtp_deadline_us(), &job->error);
        if (job->route == NULL || !leads_to(job->route, job->account_id))
            return;
    }
    if (job->context != NULL)
        smtp_policy_ask_blocking(smtp_hook_mail, job->context, NULL, &job->decision);
}

/* -- RCPT: where does it lead, and what does policy say? ----------------------------------------- */

/* Somewhere else, if that is a local place; if not, the client is to try again. */
PH_IN_JOB static void
redirect(RouteJob *job)
{
    PhRoute *route = smtp_policy_redirect_blocking(&job->decision);
    if (route == NULL) {
        ph_decision_clear(&job->decision);
        job->decision.kind = PH_DECISION_DEFER;
        return;
    }
    route->tenant_id = job->route->tenant_id;
    ph_route_free(job->route);
    job->route = route;
}

static void
recipient_job(void *data)
{
    ph_assert_in_job();
    RouteJob *job = data;
    job->route = ph_route_resolve_blocking(job->address, smtp_deadline_us(), &job->error);
    if (job->context == NULL || job->route == NULL || job->route->kind != PH_ROUTE_LOCAL)
        return;
    SmtpCopy copy = { .recipient = job->address, .tenant_id = job->route->tenant_id };
    smtp_policy_ask_blocking(smtp_hook_rcpt, job->context, &copy, &job->decision);
    if (job->decision.kind == PH_DECISION_REDIRECT)
        redirect(job);
}

/* True: the client was told no. */
static bool
refuse_by_policy(SmtpSession *session, const PhDecision *decision)
{
    ph_assert_on_reactor();
    if (decision->kind != PH_DECISION_REJECT && decision->kind != PH_DECISION_DEFER)
        return false;
    g_autofree char *line = smtp_policy_reply(decision);
    smtp_refuse(session, line);
    return true;
}

/* -- MAIL -------------------------------------------------------------------------------------- */

typedef struct MailParameters {
    int64_t size;
    bool is_utf8;
    bool is_bad;
} MailParameters;

static bool
take_mail_parameter(const char *name, const char *value, void *data)
{
    MailParameters *parameters = data;
    guint64 number;
    if (g_ascii_strcasecmp(name, "SIZE") == 0) {
        if (value == NULL || !g_ascii_string_to_unsigned(value, 10, 0, INT64_MAX, &number, NULL))
            return false;
        parameters->size = (int64_t)number;
        return true;
    }
    if (g_ascii_strcasecmp(name, "BODY") == 0)
        return value != NULL && (g_ascii_strcasecmp(value, "7BIT") == 0 ||
                                    g_ascii_strcasecmp(value, "8BITMIME") == 0);
    if (g_ascii_strcasecmp(name, "SMTPUTF8") == 0) {
        parameters->is_utf8 = true;
        return value == NULL;
    }
    /* RFC 4954 5: who submitted it first. We trust nobody's word on that, and take none further. */
    return g_ascii_strcasecmp(name, "AUTH") == 0 && value != NULL;
}

static const char *
path_reply(PhPathStatus status, bool is_sender)
{
    switch (status) {
    case PH_PATH_TOO_LONG:
        return is_sender ? "501 5.1.7 Address too long" : "501 5.1.3 Address too long";
    case PH_PATH_UTF8:
        return "553 5.6.7 Ask for SMTPUTF8 with MAIL to use such an address";
    case PH_PATH_OK:
    case PH_PATH_SYNTAX:
        break;
    }
    return is_sender ? "501 5.1.7 Bad sender address" : "501 5.1.3 Bad recipient address";
}

static void
accept_sender(SmtpSession *session, PhPath *sender, bool is_utf8)
{
    ph_assert_on_reactor();
    session->envelope = smtp_envelope_new(sender);
    session->envelope->is_utf8 = is_utf8;
    session->envelope->id = g_strdup_printf("%s%u", session->base.id, ++session->transactions);
    smtp_session_set_state(session, SMTP_STATE_MAIL);
    smtp_reply(session, "250 2.1.0 Sender ok");
}

/* Our user writes in his own name: the address must lead to his account. */
static void
sender_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    RouteJob *job = data;
    if (job->error != NULL) {
        smtp_refuse_error(session, job->error);
        return;
    }
    if (job->account_id != 0 && !leads_to(job->route, job->account_id)) {
        smtp_refuse(session, "550 5.7.1 That sender address is not yours");
        return;
    }
    if (refuse_by_policy(session, &job->decision))
        return;
    accept_sender(session, g_steal_pointer(&job->path), job->is_utf8);
    smtp_session_go_on(session);
}

/* Takes the context. */
static void
check_sender(SmtpSession *session, PhPath *sender, bool is_utf8, SmtpContext *context)
{
    ph_assert_on_reactor();
    RouteJob *job = g_new0(RouteJob, 1);
    bool is_users = session->role->is_submission && !sender->is_null;
    job->context = context;
    if (context != NULL)
        smtp_context_set_sender(context, sender);
    job->address = ph_path_format(sender);
    job->path = sender;
    job->is_utf8 = is_utf8;
    job->account_id = is_users ? session->identity->account_id : 0;
    smtp_session_run(session, sender_job, sender_done, job, route_job_free);
}

void
smtp_cmd_mail(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    const char *text = smtp_parse_keyword(rest, "FROM:");
    if (text == NULL) {
        smtp_refuse(session, "501 5.5.4 MAIL FROM:<address> is needed");
        return;
    }
    if (session->role->is_submission && session->identity == NULL) {
        smtp_refuse(session, "530 5.7.0 Log in first");
        return;
    }
    /* SMTPUTF8 stands behind the address that needs it, so the address is parsed with it
     * allowed. */
    g_autoptr(PhPath) sender = NULL;
    size_t used = 0;
    PhPathStatus status = ph_address_parse_path(
        text, strlen(text), PH_PATH_NULL_OK | PH_PATH_UTF8_OK, &sender, &used);
    if (status != PH_PATH_OK || (text[used] != '\0' && text[used] != ' ')) {
        smtp_refuse(session, path_reply(status, true));
        return;
    }
    MailParameters parameters = { .size = 0 };
    if (!smtp_parse_parameters(text + used, take_mail_parameter, &parameters)) {
        smtp_refuse(session, "555 5.5.4 A parameter of MAIL is unknown or malformed");
        return;
    }
    if (sender->is_utf8 && !parameters.is_utf8) {
        smtp_refuse(session, path_reply(PH_PATH_UTF8, true));
        return;
    }
    if (parameters.size > ph_setting_int("server.message.max_bytes")) {
        smtp_refuse(session, "552 5.3.4 Message too large");
        return;
    }
    SmtpContext *context = smtp_context_new(session, smtp_hook_mail);
    if ((session->role->is_submission && !sender->is_null) || context != NULL)
        check_sender(session, g_steal_pointer(&sender), parameters.is_utf8, context);
    else
        accept_sender(session, g_steal_pointer(&sender), parameters.is_utf8);
}

/* -- RCPT -------------------------------------------------------------------------------------- */

static bool
take_rcpt_parameter(const char *name, const char *value, void *data)
{
    (void)name;
    (void)value;
    (void)data;
    return false;
}

static void
recipient_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    RouteJob *job = data;
    if (job->error != NULL) {
        smtp_refuse_error(session, job->error);
        return;
    }
    switch (job->route->kind) {
    case PH_ROUTE_OUTSIDE:
        smtp_refuse(session, "550 5.7.1 Mail to other places is not taken here");
        return;
    case PH_ROUTE_UNKNOWN:
        smtp_refuse(session, "550 5.1.1 No such mailbox");
        return;
    case PH_ROUTE_LOCAL:
        break;
    }
    if (job->route->over_quota) {
        smtp_refuse(session, "452 4.2.2 Mailbox full");
        return;
    }
    if (refuse_by_policy(session, &job->decision))
        return;
    SmtpRecipient *recipient = g_new0(SmtpRecipient, 1);
    recipient->address = g_steal_pointer(&job->address);
    recipient->accounts = g_array_ref(job->route->accounts);
    recipient->tenant_id = job->route->tenant_id;
    recipient->is_junk = job->decision.kind == PH_DECISION_QUARANTINE;
    if (job->decision.kind == PH_DECISION_DISCARD)
        g_array_set_size(recipient->accounts, 0);
    g_ptr_array_add(session->envelope->recipients, recipient);
    smtp_session_set_state(session, SMTP_STATE_RCPT);
    smtp_reply(session, "250 2.1.5 Recipient ok");
    smtp_session_go_on(session);
}

void
smtp_cmd_rcpt(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    const char *text = smtp_parse_keyword(rest, "TO:");
    if (text == NULL) {
        smtp_refuse(session, "501 5.5.4 RCPT TO:<address> is needed");
        return;
    }
    if (session->envelope->recipients->len >=
        (guint)ph_setting_int("smtp.receive.max_recipients")) {
        smtp_refuse(session, "452 4.5.3 Too many recipients");
        return;
    }
    g_autoptr(PhPath) path = NULL;
    size_t used = 0;
    PhPathFlags flags = PH_PATH_POSTMASTER_OK;
    if (session->envelope->is_utf8)
        flags |= PH_PATH_UTF8_OK;
    PhPathStatus status = ph_address_parse_path(text, strlen(text), flags, &path, &used);
    if (status != PH_PATH_OK || (text[used] != '\0' && text[used] != ' ')) {
        smtp_refuse(session, path_reply(status, false));
        return;
    }
    if (!smtp_parse_parameters(text + used, take_rcpt_parameter, NULL)) {
        smtp_refuse(session, "555 5.5.4 A parameter of RCPT is unknown or malformed");
        return;
    }
    RouteJob *job = g_new0(RouteJob, 1);
    job->address = path->domain[0] != '\0' ? ph_path_format(path) : g_strdup("postmaster");
    job->context = smtp_context_new(session, smtp_hook_rcpt);
    smtp_session_run(session, recipient_job, recipient_done, job, route_job_free);
}
