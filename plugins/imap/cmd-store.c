/* cmd-store.c - STORE, COPY and MOVE */
#include "imap.h"

#include <string.h>

/* -- STORE ------------------------------------------------------------------------------------- */

typedef struct StoreJob {
    int64_t actor;
    PhMailboxKey key;
    PhUidSet *uids;
    PhFlagRequest request;
    char **keywords;
    bool silent;
    GError *error;
} StoreJob;

static void
store_job_free(void *data)
{
    StoreJob *job = data;
    ph_uid_set_free(job->uids);
    g_strfreev(job->keywords);
    g_clear_error(&job->error);
    g_free(job);
}

static void
store_job(void *data)
{
    ph_assert_in_job();
    StoreJob *job = data;
    ph_mailbox_change_flags_blocking(
        job->actor, job->key, job->uids, &job->request, imap_deadline_us(), NULL, &job->error);
}

static void
store_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const StoreJob *job = data;
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    /* Told once, here; moving to the later version then says nothing more about these. */
    bool is_uid = session->command->is_uid;
    if (!job->silent)
        imap_tell_flags(session, job->uids, is_uid);
    imap_sync(session, is_uid, job->uids);
    imap_ok(session, "Done");
}

/* "+FLAGS.SILENT" */
static bool
parse_change(ImapParser *arguments, PhFlagChange *change_out, bool *silent_out)
{
    *change_out = PH_FLAGS_REPLACE;
    if (imap_parse_char(arguments, '+'))
        *change_out = PH_FLAGS_ADD;
    else if (imap_parse_char(arguments, '-'))
        *change_out = PH_FLAGS_REMOVE;
    *silent_out = imap_parse_word(arguments, "FLAGS.SILENT");
    return *silent_out || imap_parse_word(arguments, "FLAGS");
}

void
imap_cmd_store(ImapSession *session, ImapParser *arguments)
{
    StoreJob *job = g_new0(StoreJob, 1);
    g_autoptr(GArray) set = imap_parse_set(arguments);
    if (set == NULL || !imap_parse_space(arguments) ||
        !parse_change(arguments, &job->request.change, &job->silent) ||
        !imap_parse_space(arguments) ||
        !imap_parse_flags(arguments, false, &job->request.flags, &job->keywords) ||
        !imap_parse_end(arguments)) {
        store_job_free(job);
        imap_bad(session, "STORE takes a set, FLAGS and a list of flags");
        return;
    }
    if (!imap_resolve_set(session, set, session->command->is_uid, &job->uids)) {
        store_job_free(job);
        imap_bad(session, "There is no such message");
        return;
    }
    job->actor = imap_actor(session);
    job->key = session->selected->key;
    job->request.keywords = (const char *const *)job->keywords;
    job->request.unchanged_since = INT64_MAX;
    imap_session_run(session, store_job, store_done, job, store_job_free);
}

/* -- COPY and MOVE ----------------------------------------------------------------------------- */

typedef struct CopyJob {
    int64_t actor;
    PhMailboxKey key;
    PhUidSet *uids;
    char *target;
    bool moves;
    PhCopyResult *result;
    GError *error;
} CopyJob;

static void
copy_job_free(void *data)
{
    CopyJob *job = data;
    ph_uid_set_free(job->uids);
    ph_copy_result_free(job->result);
    g_free(job->target);
    g_clear_error(&job->error);
    g_free(job);
}

static void
copy_job(void *data)
{
    ph_assert_in_job();
    CopyJob *job = data;
    g_autoptr(PhMailbox) target =
        ph_mailbox_find_blocking(job->actor, job->target, imap_deadline_us(), &job->error);
    if (target != NULL)
        job->result = ph_mailbox_copy_blocking(job->actor, job->key, job->uids, target->key,
            job->moves, imap_deadline_us(), &job->error);
}

static void
copy_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const CopyJob *job = data;
    if (job->error != NULL) {
        imap_no_target(session, job->error);
        return;
    }
    if (ph_uid_set_count(job->result->source) == 0) {
        imap_ok(session, "There was nothing to do");
        return;
    }
    g_autofree char *source = ph_uid_set_format(job->result->source);
    g_autofree char *target = ph_uid_set_format(job->result->target);
    g_autofree char *code =
        g_strdup_printf("COPYUID %u %s %s", job->result->uid_validity, source, target);
    if (!job->moves) {
        imap_ok_code(session, code, "Done");
        return;
    }
    /* RFC 6851 4.3: the code comes before the EXPUNGEs. */
    imap_untagged(session, "OK [%s] Moved", code);
    imap_ok(session, "Done");
}

static void
copy(ImapSession *session, ImapParser *arguments, bool moves)
{
    ph_assert_on_reactor();
    CopyJob *job = g_new0(CopyJob, 1);
    g_autoptr(GArray) set = imap_parse_set(arguments);
    if (set != NULL && imap_parse_space(arguments))
        job->target = imap_parse_mailbox(arguments);
    if (job->target == NULL || !imap_parse_end(arguments)) {
        copy_job_free(job);
        imap_bad(session, "A set and a mailbox name are needed");
        return;
    }
    if (!imap_resolve_set(session, set, session->command->is_uid, &job->uids)) {
        copy_job_free(job);
        imap_bad(session, "There is no such message");
        return;
    }
    job->actor = imap_actor(session);
    job->key = session->selected->key;
    job->moves = moves;
    imap_session_run(session, copy_job, copy_done, job, copy_job_free);
}

void
imap_cmd_copy(ImapSession *session, ImapParser *arguments)
{
    copy(session, arguments, false);
}

void
imap_cmd_move(ImapSession *session, ImapParser *arguments)
{
    copy(session, arguments, true);
}
