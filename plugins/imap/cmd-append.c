/* cmd-append.c - APPEND: the message is in the spool when the command is run */
#include "imap.h"

#include <string.h>

typedef struct AppendJob {
    int64_t actor;
    char *name;
    uint32_t flags;
    char **keywords;
    int64_t internal_date_us;
    PhSpool *spool;
    PhDelivery *delivery;
    GError *error;
} AppendJob;

static void
append_job_free(void *data)
{
    AppendJob *job = data;
    g_free(job->name);
    g_strfreev(job->keywords);
    ph_spool_free(job->spool);
    ph_delivery_free(job->delivery);
    g_clear_error(&job->error);
    g_free(job);
}

static void
append_job(void *data)
{
    ph_assert_in_job();
    AppendJob *job = data;
    g_autoptr(PhMailbox) mailbox =
        ph_mailbox_find_blocking(job->actor, job->name, imap_deadline_us(), &job->error);
    if (mailbox == NULL)
        return;
    if (!mailbox->selectable) {
        g_set_error(
            &job->error, PH_ERROR, PH_ERROR_NOT_FOUND, "\"%s\" holds mailboxes only", job->name);
        return;
    }
    job->delivery = ph_delivery_prepare_blocking(job->spool, PH_DELIVERY_ALL_OR_NONE, &job->error);
    if (job->delivery == NULL)
        return;
    PhDeliveryTarget target = {
        .mailbox = mailbox->key,
        .flags = job->flags,
        .keywords = (const char *const *)job->keywords,
        .internal_date_us = job->internal_date_us,
        .check_quota = true,
    };
    ph_delivery_add_target(job->delivery, &target);
}

static void
delivery_done(PhTask *task, PhDelivery *delivery, void *data)
{
    ph_assert_on_reactor();
    (void)data;
    ImapSession *session = imap_session_of(task);
    const PhDeliveryResult *result = ph_delivery_result(delivery, 0);
    if (!result->delivered) {
        g_autoptr(GError) error = g_error_new_literal(PH_ERROR, (int)result->code, result->text);
        imap_no_target(session, error);
        return;
    }
    ph_metric_add(&imap_counters(session)->appended, 1);
    g_autofree char *code = g_strdup_printf("APPENDUID %u %u", result->uid_validity, result->uid);
    imap_ok_code(session, code, "Done");
}

static void
append_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    AppendJob *job = data;
    if (job->error != NULL) {
        imap_no_target(session, job->error);
        return;
    }
    ph_delivery_submit(g_steal_pointer(&job->delivery), task, delivery_done, NULL);
}

/* The head of the literal, which the session has taken out. */
static bool
parse_message_head(ImapParser *arguments)
{
    uint64_t size;
    bool synchronising;
    const char *end = memchr(arguments->at, '\n', (size_t)(arguments->end - arguments->at));
    size_t length =
        end != NULL ? (size_t)(end - arguments->at) + 1 : (size_t)(arguments->end - arguments->at);
    if (!imap_line_ends_with_literal(arguments->at, length, &size, &synchronising) ||
        *arguments->at != '{')
        return false;
    arguments->at += length;
    return size > 0;
}

void
imap_cmd_append(ImapSession *session, ImapParser *arguments)
{
    g_autoptr(PhSpool) spool = g_steal_pointer(&session->spool);
    g_autoptr(GError) spool_error = g_steal_pointer(&session->spool_error);
    AppendJob *job = g_new0(AppendJob, 1);
    job->internal_date_us = INT64_MIN;
    job->name = imap_parse_mailbox(arguments);
    bool good = job->name != NULL && imap_parse_space(arguments);
    if (good && arguments->at < arguments->end && *arguments->at == '(')
        good = imap_parse_flags(arguments, true, &job->flags, &job->keywords) &&
               imap_parse_space(arguments);
    if (good && arguments->at < arguments->end && *arguments->at == '"')
        good =
            imap_parse_date_time(arguments, &job->internal_date_us) && imap_parse_space(arguments);
    if (!good || spool == NULL || !parse_message_head(arguments) || !imap_parse_end(arguments)) {
        append_job_free(job);
        imap_bad(session, "APPEND takes a mailbox, flags, a date and a literal");
        return;
    }
    if (spool_error != NULL) {
        append_job_free(job);
        imap_no_error(session, spool_error);
        return;
    }
    job->actor = imap_actor(session);
    job->spool = g_steal_pointer(&spool);
    imap_session_run(session, append_job, append_done, job, append_job_free);
}
