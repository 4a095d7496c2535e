/* cmd-select.c - opening and leaving a mailbox; EXPUNGE */
#include "imap.h"

#include <string.h>

/* -- SELECT and EXAMINE ------------------------------------------------------------------------ */

typedef struct SelectJob {
    int64_t actor;
    char *name;
    bool read_only;
    PhWake *wake; /* the watch signals it from other threads */
    PhMailbox *mailbox;
    PhMailboxWatch *watch;
    uint32_t first_recent;
    GError *error;
} SelectJob;

static void
select_job_free(void *data)
{
    ph_assert_on_reactor();
    SelectJob *job = data;
    ph_mailbox_watch_free(job->watch);
    ph_wake_close(job->wake);
    ph_mailbox_free(job->mailbox);
    g_free(job->name);
    g_clear_error(&job->error);
    g_free(job);
}

/* Any thread: passes the word on. */
static void
mailbox_changed(void *data)
{
    ph_wake_signal(data);
}

/* On the reactor: only an idle client may be told without a command. One that does not read is told
 * when it has read what is waiting for it: many changes are then one difference, and memory stays
 * bounded. */
static void
woken(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)data;
    ImapSession *session = imap_session_of(task);
    if (session->input == IMAP_INPUT_IDLE && session->selected != NULL &&
        !ph_connection_output_is_full(session->base.connection))
        imap_idle_changed(session);
}

static void
select_job(void *data)
{
    ph_assert_in_job();
    SelectJob *job = data;
    job->mailbox = ph_mailbox_find_blocking(job->actor, job->name, imap_deadline_us(), &job->error);
    if (job->mailbox == NULL)
        return;
    if (!job->mailbox->selectable) {
        g_set_error(
            &job->error, PH_ERROR, PH_ERROR_NOT_FOUND, "\"%s\" holds mailboxes only", job->name);
        return;
    }
    if (!ph_mailbox_take_recent_blocking(
            job->mailbox->key, job->read_only, imap_deadline_us(), &job->first_recent, &job->error))
        return;
    job->watch = ph_mailbox_watch_blocking(
        job->actor, job->mailbox->key, mailbox_changed, job->wake, imap_deadline_us(), &job->error);
}

/* The first message without \Seen; 0: none. */
static size_t
find_unseen(const PhView *view)
{
    if (ph_view_unseen(view) == 0)
        return 0;
    for (size_t i = 0; i < ph_view_count(view); i++)
        if ((ph_view_row(view, i)->flags & PH_FLAG_SEEN) == 0)
            return i + 1;
    return 0;
}

static void
tell_mailbox(ImapSession *session)
{
    ph_assert_on_reactor();
    ImapSelected *selected = session->selected;
    const PhView *view = selected->told;
    g_autoptr(GString) keywords = g_string_new(NULL);
    imap_append_keyword_names(keywords, view);
    selected->told_keywords = UINT64_MAX;
    for (unsigned bit = 0; bit < 64; bit++)
        if (ph_view_keyword(view, bit) == NULL)
            selected->told_keywords &= ~(UINT64_C(1) << bit);

    size_t n = ph_view_count(view);
    size_t unseen = find_unseen(view);
    imap_untagged(
        session, "FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft%s)", keywords->str);
    if (selected->read_only)
        imap_untagged(session, "OK [PERMANENTFLAGS ()] No flags can be kept");
    else
        imap_untagged(session,
            "OK [PERMANENTFLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft%s \\*)] Flags are kept",
            keywords->str);
    imap_untagged(session, "%zu EXISTS", n);
    imap_untagged(session, "%zu RECENT", n - ph_view_lower_bound(view, selected->first_recent));
    if (unseen > 0)
        imap_untagged(session, "OK [UNSEEN %zu] The first unseen message", unseen);
    imap_untagged(session, "OK [UIDVALIDITY %u] UIDs are valid", ph_view_uid_validity(view));
    imap_untagged(session, "OK [UIDNEXT %u] The next UID", ph_view_uid_next(view));
}

static void
select_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    SelectJob *job = data;
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    ImapSelected *selected = g_new0(ImapSelected, 1);
    selected->key = job->mailbox->key;
    selected->name = g_strdup(job->mailbox->name);
    selected->read_only = job->read_only;
    selected->watch = g_steal_pointer(&job->watch);
    selected->wake = g_steal_pointer(&job->wake);
    selected->first_recent = job->first_recent;
    selected->told = ph_mailbox_watch_latest(selected->watch);
    session->selected = selected;
    imap_session_set_state(session, IMAP_STATE_SELECTED);
    tell_mailbox(session);
    imap_ok_code(session, job->read_only ? "READ-ONLY" : "READ-WRITE", "Done");
}

static void
select_mailbox(ImapSession *session, ImapParser *arguments, bool read_only)
{
    ph_assert_on_reactor();
    g_autofree char *name = imap_parse_mailbox(arguments);
    if (name == NULL || !imap_parse_end(arguments)) {
        imap_bad(session, "A mailbox name is needed");
        return;
    }
    /* Whether it succeeds or not, the earlier mailbox is left (RFC 3501 6.3.1). */
    imap_session_deselect(session);
    SelectJob *job = g_new0(SelectJob, 1);
    job->actor = imap_actor(session);
    job->name = g_steal_pointer(&name);
    job->read_only = read_only;
    job->wake = ph_wake_new(&session->base.task, woken, NULL);
    imap_session_run(session, select_job, select_done, job, select_job_free);
}

void
imap_cmd_select(ImapSession *session, ImapParser *arguments)
{
    select_mailbox(session, arguments, false);
}

void
imap_cmd_examine(ImapSession *session, ImapParser *arguments)
{
    select_mailbox(session, arguments, true);
}

/* -- CHECK, UNSELECT, CLOSE, EXPUNGE ----------------------------------------------------------- */

void
imap_cmd_check(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "CHECK takes no arguments");
        return;
    }
    imap_ok(session, "Everything is on disk already");
}

void
imap_cmd_unselect(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "UNSELECT takes no arguments");
        return;
    }
    imap_session_deselect(session);
    imap_ok(session, "Done");
}

typedef struct ExpungeJob {
    int64_t actor;
    PhMailboxKey key;
    PhUidSet *uids; /* null: all that are \Deleted */
    bool closes;
    GError *error;
} ExpungeJob;

static void
expunge_job_free(void *data)
{
    ExpungeJob *job = data;
    ph_uid_set_free(job->uids);
    g_clear_error(&job->error);
    g_free(job);
}

static void
expunge_job(void *data)
{
    ph_assert_in_job();
    ExpungeJob *job = data;
    ph_mailbox_expunge_blocking(job->actor, job->key, job->uids, imap_deadline_us(), &job->error);
}

static void
expunge_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const ExpungeJob *job = data;
    /* CLOSE leaves without a word about what went. */
    if (job->closes)
        imap_session_deselect(session);
    if (job->error != NULL)
        imap_no_error(session, job->error);
    else
        imap_ok(session, "Done");
}

static void
expunge(ImapSession *session, PhUidSet *uids, bool closes)
{
    ph_assert_on_reactor();
    ExpungeJob *job = g_new0(ExpungeJob, 1);
    job->actor = imap_actor(session);
    job->key = session->selected->key;
    job->uids = uids;
    job->closes = closes;
    imap_session_run(session, expunge_job, expunge_done, job, expunge_job_free);
}

void
imap_cmd_close(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "CLOSE takes no arguments");
        return;
    }
    if (session->selected->read_only) {
        imap_session_deselect(session);
        imap_ok(session, "Done");
        return;
    }
    expunge(session, NULL, true);
}

void
imap_cmd_expunge(ImapSession *session, ImapParser *arguments)
{
    g_autoptr(PhUidSet) uids = NULL;
    if (session->command->is_uid) {
        g_autoptr(GArray) set = imap_parse_set(arguments);
        if (set == NULL || !imap_parse_end(arguments) ||
            !imap_resolve_set(session, set, true, &uids)) {
            imap_bad(session, "UID EXPUNGE takes a set of UIDs");
            return;
        }
    } else if (!imap_parse_end(arguments)) {
        imap_bad(session, "EXPUNGE takes no arguments");
        return;
    }
    expunge(session, g_steal_pointer(&uids), false);
}
