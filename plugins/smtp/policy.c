/* policy.c - hooks: what is asked, and what the answers mean here
 *
 * At RCPT a refusal is for that recipient only. After DATA, SMTP has one reply for all recipients:
 * when policy refuses one of them the message is refused, so that its sender knows; LMTP answers for
 * each.
 */
#include "smtp.h"

#include "posthouse/log.h"

#include <string.h>

// clang-format off
#define DECISION(kind) (1U << PH_DECISION_##kind)
#define MAIL_ANSWERS \
    (DECISION(ACCEPT) | DECISION(REJECT) | DECISION(DEFER) | DECISION(DISCARD) | \
        DECISION(QUARANTINE) | DECISION(REDIRECT))

const PhHookRow smtp_hooks[] = {
    { "smtp.mail", DECISION(ACCEPT) | DECISION(REJECT) | DECISION(DEFER), PH_HOOK_FAIL_DEFER, 3000,
        "MAIL FROM: may this client send for this sender? On an error: 451." },
    { "smtp.rcpt", MAIL_ANSWERS, PH_HOOK_FAIL_DEFER, 3000,
        "RCPT TO of a local recipient. On an error: 451 for this recipient." },
    { "deliver", MAIL_ANSWERS, PH_HOOK_FAIL_OPEN, 5000,
        "A message for one account, before it is stored. On an error it goes to INBOX." },
    { 0 },
};
// clang-format on

const PhHookRow *const smtp_hook_mail = &smtp_hooks[0];
const PhHookRow *const smtp_hook_rcpt = &smtp_hooks[1];
const PhHookRow *const smtp_hook_deliver = &smtp_hooks[2];

enum { POLICY_DEADLINE_S = 10 };

struct SmtpContext {
    char *id;
    const char *listener; /* of a constant role */
    char *peer;
    char *helo;
    char *login; /* or null */
    char *tls;   /* or null */
    char *sender;
    char *sender_domain;
    int peer_port;
    guint recipients;
};

/* -- context ----------------------------------------------------------------------------------- */

SmtpContext *
smtp_context_new(const SmtpSession *session, const PhHookRow *hook)
{
    if (!ph_hook_has_deciders(hook->name))
        return NULL;
    PhConnection *connection = session->base.connection;
    SmtpContext *context = g_new0(SmtpContext, 1);
    context->id = g_strdup(session->envelope != NULL ? session->envelope->id : session->base.id);
    context->listener = session->role->name;
    context->peer = g_strdup(ph_connection_peer_address(connection));
    context->peer_port = ph_connection_peer_port(connection);
    context->helo = g_strdup(session->helo);
    context->tls = g_strdup(ph_connection_tls_version(connection));
    if (session->identity != NULL)
        context->login = g_strdup(session->identity->login);
    if (session->envelope != NULL) {
        smtp_context_set_sender(context, session->envelope->sender);
        context->recipients = session->envelope->recipients->len;
    }
    return context;
}

void
smtp_context_set_sender(SmtpContext *context, const PhPath *sender)
{
    g_free(context->sender);
    g_free(context->sender_domain);
    context->sender = ph_path_format(sender);
    context->sender_domain = g_ascii_strdown(sender->domain, -1);
}

void
smtp_context_free(SmtpContext *context)
{
    if (context == NULL)
        return;
    g_free(context->id);
    g_free(context->peer);
    g_free(context->helo);
    g_free(context->login);
    g_free(context->tls);
    g_free(context->sender);
    g_free(context->sender_domain);
    g_free(context);
}

/* -- asking ------------------------------------------------------------------------------------ */

typedef struct Fields {
    PhHookField list[24];
    size_t count;
    char numbers[24][24];
} Fields;

static void
add_text(Fields *fields, const char *name, const char *value)
{
    if (value != NULL)
        fields->list[fields->count++] = (PhHookField){ name, value, strlen(value) };
}

static void
add_number(Fields *fields, const char *name, int64_t value)
{
    char *text = fields->numbers[fields->count];
    g_snprintf(text, sizeof(fields->numbers[0]), "%" G_GINT64_FORMAT, value);
    add_text(fields, name, text);
}

static void
add_copy(Fields *fields, const SmtpCopy *copy, const char *domain)
{
    add_text(fields, "recipient", copy->recipient);
    add_text(fields, "domain", domain);
    if (copy->tenant_id >= 0)
        add_number(fields, "tenant_id", copy->tenant_id);
    if (copy->account_id != 0)
        add_number(fields, "account_id", copy->account_id);
    if (copy->headers == NULL)
        return;
    add_number(fields, "size", (int64_t)copy->size);
    fields->list[fields->count++] = (PhHookField){ "headers", copy->headers, copy->headers_length };
}

void
smtp_policy_ask_blocking(const PhHookRow *hook, const SmtpContext *context, const SmtpCopy *copy,
    PhDecision *decision_out)
{
    Fields fields = { .count = 0 };
    const char *at = copy != NULL ? strrchr(copy->recipient, '@') : NULL;
    g_autofree char *domain = at != NULL ? ph_domain_to_ascii(at + 1) : NULL;
    add_text(&fields, "id", context->id);
    add_number(&fields, "time", ph_time_now_us() / G_USEC_PER_SEC);
    add_text(&fields, "listener", context->listener);
    add_text(&fields, "peer.ip", context->peer);
    add_number(&fields, "peer.port", context->peer_port);
    add_text(&fields, "helo", context->helo);
    add_text(&fields, "auth.user", context->login);
    add_text(&fields, "tls.version", context->tls);
    add_text(&fields, "sender", context->sender);
    add_text(&fields, "sender_domain", context->sender_domain);
    add_number(&fields, "recipients", context->recipients);
    if (copy != NULL)
        add_copy(&fields, copy, domain);
    ph_hook_call(hook, fields.list, fields.count, decision_out);
    if (decision_out->kind != PH_DECISION_NONE && decision_out->kind != PH_DECISION_ACCEPT) {
        const char *text = decision_out->text != NULL ? decision_out->text : "";
        g_autofree char *quoted = ph_log_quote(text);
        ph_log(PH_LOG_INFO, "smtp.policy", "id=%s hook=%s from=<%s> to=<%s> answer=%d text=\"%s\"",
            context->id, hook->name, context->sender, copy != NULL ? copy->recipient : "",
            (int)decision_out->kind, quoted);
    }
}

/* -- what an answer means ---------------------------------------------------------------------- */

/* "5.7.1 ": RFC 3463. */
static bool
has_enhanced_code(const char *text, char first)
{
    return text[0] == first && text[1] == '.' && g_ascii_isdigit(text[2]) &&
           strchr(text, ' ') != NULL;
}

char *
smtp_policy_reply(const PhDecision *decision)
{
    bool is_final = decision->kind == PH_DECISION_REJECT;
    int code = is_final ? (decision->code != 0 ? decision->code : 550) : 451;
    char class_digit = is_final ? '5' : '4';
    const char *text = decision->text;
    if (text == NULL || text[0] == '\0')
        text = is_final ? "Refused by policy" : "Try again later";
    g_autofree char *clean = g_strndup(text, 300);
    for (char *at = clean; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    if (has_enhanced_code(clean, class_digit))
        return g_strdup_printf("%d %s", code, clean);
    return g_strdup_printf("%d %c.7.1 %s", code, class_digit, clean);
}

static int64_t
deadline_us(void)
{
    return ph_monotonic_us() + POLICY_DEADLINE_S * (int64_t)G_USEC_PER_SEC;
}

PhRoute *
smtp_policy_redirect_blocking(const PhDecision *decision)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhRoute) route = ph_route_resolve_blocking(decision->target, deadline_us(), &error);
    if (route != NULL && route->kind == PH_ROUTE_LOCAL)
        return g_steal_pointer(&route);
    g_autofree char *quoted = ph_log_quote(decision->target);
    ph_log(PH_LOG_WARNING, "smtp.redirect", "to=\"%s\" %s", quoted,
        error != NULL ? error->message : "policy redirects to a place that is not local");
    return NULL;
}

/* -- targets ----------------------------------------------------------------------------------- */

/* Made when it is not there. 0: neither. */
PH_IN_JOB static int64_t
junk_of(int64_t account_id, GError **error)
{
    g_autoptr(GPtrArray) mailboxes = ph_mailbox_list_blocking(account_id, deadline_us(), error);
    if (mailboxes == NULL)
        return 0;
    for (guint i = 0; i < mailboxes->len; i++) {
        const PhMailbox *mailbox = mailboxes->pdata[i];
        if (mailbox->use == PH_USE_JUNK)
            return mailbox->key.mailbox_id;
    }
    g_autoptr(PhMailbox) made =
        ph_mailbox_create_blocking(account_id, "Junk", PH_USE_JUNK, deadline_us(), error);
    return made != NULL ? made->key.mailbox_id : 0;
}

/* 0: INBOX, also when there is no such mailbox: mail is not lost over a name. */
PH_IN_JOB static int64_t
mailbox_for(int64_t account_id, const PhDecision *decision)
{
    g_autoptr(GError) error = NULL;
    int64_t id = 0;
    if (decision->kind == PH_DECISION_QUARANTINE) {
        id = junk_of(account_id, &error);
    } else if (decision->mailbox != NULL) {
        g_autoptr(PhMailbox) mailbox =
            ph_mailbox_find_blocking(account_id, decision->mailbox, deadline_us(), &error);
        id = mailbox != NULL ? mailbox->key.mailbox_id : 0;
    }
    if (error != NULL)
        ph_log(PH_LOG_WARNING, "smtp.mailbox", "account=%" G_GINT64_FORMAT " kept in INBOX: %s",
            account_id, error->message);
    return id;
}

/* The system flags; what is none is a keyword, and is added to the list. */
static uint32_t
read_flags(char **words, GPtrArray *keywords)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } system_flags[] = {
        { "\\Seen", PH_FLAG_SEEN },
        { "\\Answered", PH_FLAG_ANSWERED },
        { "\\Flagged", PH_FLAG_FLAGGED },
        { "\\Deleted", PH_FLAG_DELETED },
        { "\\Draft", PH_FLAG_DRAFT },
    };
    uint32_t flags = 0;
    for (char **word = words; *word != NULL; word++) {
        bool found = false;
        for (size_t i = 0; i < G_N_ELEMENTS(system_flags); i++)
            if (g_ascii_strcasecmp(*word, system_flags[i].name) == 0) {
                flags |= system_flags[i].flag;
                found = true;
            }
        if (!found && **word != '\0' && **word != '\\')
            g_ptr_array_add(keywords, *word);
    }
    return flags;
}

void
smtp_policy_add_target_blocking(
    PhDelivery *delivery, int64_t account_id, const PhDecision *decision, GArray *targets)
{
    g_auto(GStrv) words = g_strsplit(decision->flags != NULL ? decision->flags : "", " ", -1);
    g_autoptr(GPtrArray) keywords = g_ptr_array_new();
    PhDeliveryTarget target = {
        .mailbox = { .account_id = account_id, .mailbox_id = mailbox_for(account_id, decision) },
        .internal_date_us = INT64_MIN,
        .check_quota = true,
    };
    target.flags = read_flags(words, keywords);
    g_ptr_array_add(keywords, NULL);
    target.keywords = (const char *const *)(void *)keywords->pdata;
    unsigned index = ph_delivery_add_target(delivery, &target);
    g_array_append_val(targets, index);
}
