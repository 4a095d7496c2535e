/* cmd-mailbox.c - mailboxes by name */
#include "imap.h"

#include <string.h>

/* Name commands share one job: what to do, with up to two names. */
typedef struct NameJob {
    int64_t actor;
    char *name;
    char *new_name;
    bool (*run)(struct NameJob *job, GError **error);
    GError *error;
} NameJob;

static void
name_job_free(void *data)
{
    NameJob *job = data;
    g_free(job->name);
    g_free(job->new_name);
    g_clear_error(&job->error);
    g_free(job);
}

static void
name_job(void *data)
{
    NameJob *job = data;
    job->run(job, &job->error);
}

static void
name_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const NameJob *job = data;
    if (job->error != NULL)
        imap_no_error(session, job->error);
    else
        imap_ok(session, "Done");
}

static void
run_name(ImapSession *session, ImapParser *arguments, bool two,
    bool (*run)(NameJob *job, GError **error))
{
    ph_assert_on_reactor();
    NameJob *job = g_new0(NameJob, 1);
    job->run = run;
    job->actor = imap_actor(session);
    job->name = imap_parse_mailbox(arguments);
    if (job->name != NULL && two && imap_parse_space(arguments))
        job->new_name = imap_parse_mailbox(arguments);
    if (job->name == NULL || (two && job->new_name == NULL) || !imap_parse_end(arguments)) {
        name_job_free(job);
        imap_bad(session, two ? "Two mailbox names are needed" : "A mailbox name is needed");
        return;
    }
    imap_session_run(session, name_job, name_done, job, name_job_free);
}

static bool
subscribe(NameJob *job, GError **error)
{
    ph_assert_in_job();
    return ph_subscription_set_blocking(job->actor, job->name, true, imap_deadline_us(), error);
}

static bool
unsubscribe(NameJob *job, GError **error)
{
    ph_assert_in_job();
    return ph_subscription_set_blocking(job->actor, job->name, false, imap_deadline_us(), error);
}

static bool
create(NameJob *job, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhMailbox) mailbox =
        ph_mailbox_create_blocking(job->actor, job->name, PH_USE_NONE, imap_deadline_us(), error);
    return mailbox != NULL;
}

static bool delete (NameJob *job, GError **error)
{
    ph_assert_in_job();
    return ph_mailbox_delete_blocking(job->actor, job->name, imap_deadline_us(), error);
}

static bool
rename_(NameJob *job, GError **error)
{
    ph_assert_in_job();
    return ph_mailbox_rename_blocking(
        job->actor, job->name, job->new_name, imap_deadline_us(), error);
}

void
imap_cmd_subscribe(ImapSession *session, ImapParser *arguments)
{
    run_name(session, arguments, false, subscribe);
}

void
imap_cmd_unsubscribe(ImapSession *session, ImapParser *arguments)
{
    run_name(session, arguments, false, unsubscribe);
}

void
imap_cmd_create(ImapSession *session, ImapParser *arguments)
{
    run_name(session, arguments, false, create);
}

void
imap_cmd_delete(ImapSession *session, ImapParser *arguments)
{
    run_name(session, arguments, false, delete);
}

void
imap_cmd_rename(ImapSession *session, ImapParser *arguments)
{
    run_name(session, arguments, true, rename_);
}

void
imap_cmd_namespace(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "NAMESPACE takes no arguments");
        return;
    }
    imap_untagged(session, "NAMESPACE ((\"\" \"/\")) NIL NIL");
    imap_ok(session, "Done");
}

/* -- LIST and LSUB ----------------------------------------------------------------------------- */

typedef struct ListJob {
    int64_t actor;
    bool subscribed; /* LSUB */
    char *pattern;   /* the reference in front */
    GString *lines;
    GError *error;
} ListJob;

static void
list_job_free(void *data)
{
    ListJob *job = data;
    g_free(job->pattern);
    g_string_free(job->lines, TRUE);
    g_clear_error(&job->error);
    g_free(job);
}

static const char *const use_names[] = {
    [PH_USE_NONE] = NULL,
    [PH_USE_INBOX] = NULL,
    [PH_USE_DRAFTS] = "\\Drafts",
    [PH_USE_SENT] = "\\Sent",
    [PH_USE_JUNK] = "\\Junk",
    [PH_USE_TRASH] = "\\Trash",
    [PH_USE_ARCHIVE] = "\\Archive",
    [PH_USE_FLAGGED] = "\\Flagged",
    [PH_USE_ALL] = "\\All",
};

static void
append_entry(ListJob *job, const char *attributes, const char *name)
{
    g_string_append_printf(
        job->lines, "* %s (%s) \"/\" ", job->subscribed ? "LSUB" : "LIST", attributes);
    imap_append_mailbox(job->lines, name);
    g_string_append(job->lines, "\r\n");
}

static char *
attributes_of(const PhMailbox *mailbox)
{
    GString *text = g_string_new(mailbox->selectable ? NULL : "\\Noselect ");
    g_string_append(text, mailbox->has_children ? "\\HasChildren" : "\\HasNoChildren");
    if (use_names[mailbox->use] != NULL)
        g_string_append_printf(text, " %s", use_names[mailbox->use]);
    return g_string_free(text, FALSE);
}

static const PhMailbox *
find_mailbox(const GPtrArray *mailboxes, const char *name)
{
    for (guint i = 0; i < mailboxes->len; i++) {
        const PhMailbox *mailbox = mailboxes->pdata[i];
        if (strcmp(mailbox->name, name) == 0)
            return mailbox;
    }
    return NULL;
}

/* "a/b" is subscribed and the pattern "%" matches only "a": it is told, as \Noselect (RFC 3501
 * 6.3.9). */
static void
append_parents(ListJob *job, const char *name, GHashTable *told)
{
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        g_autofree char *parent = g_strndup(name, (size_t)(slash - name));
        if (imap_list_match(job->pattern, parent) && g_hash_table_add(told, g_strdup(parent)))
            append_entry(job, "\\Noselect", parent);
    }
}

static void
list_subscribed(ListJob *job, const GPtrArray *mailboxes, const GPtrArray *names)
{
    g_autoptr(GHashTable) told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < names->len; i++)
        if (imap_list_match(job->pattern, names->pdata[i]))
            g_hash_table_add(told, g_strdup(names->pdata[i]));
    for (guint i = 0; i < names->len; i++) {
        const char *name = names->pdata[i];
        if (!imap_list_match(job->pattern, name)) {
            append_parents(job, name, told);
            continue;
        }
        const PhMailbox *mailbox = find_mailbox(mailboxes, name);
        g_autofree char *attributes = mailbox != NULL ? attributes_of(mailbox) : g_strdup("");
        append_entry(job, attributes, name);
    }
}

static void
list_job(void *data)
{
    ph_assert_in_job();
    ListJob *job = data;
    g_autoptr(GPtrArray) mailboxes =
        ph_mailbox_list_blocking(job->actor, imap_deadline_us(), &job->error);
    if (mailboxes == NULL)
        return;
    if (job->subscribed) {
        g_autoptr(GPtrArray) names =
            ph_subscription_list_blocking(job->actor, imap_deadline_us(), &job->error);
        if (names != NULL)
            list_subscribed(job, mailboxes, names);
        return;
    }
    for (guint i = 0; i < mailboxes->len; i++) {
        const PhMailbox *mailbox = mailboxes->pdata[i];
        if (!imap_list_match(job->pattern, mailbox->name))
            continue;
        g_autofree char *attributes = attributes_of(mailbox);
        append_entry(job, attributes, mailbox->name);
    }
}

static void
list_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const ListJob *job = data;
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    ph_connection_write(session->base.connection, job->lines->str, job->lines->len);
    imap_ok(session, "Done");
}

static void
list(ImapSession *session, ImapParser *arguments, bool subscribed)
{
    ph_assert_on_reactor();
    size_t length;
    g_autofree char *raw_reference = imap_parse_astring(arguments, &length);
    g_autofree char *reference =
        raw_reference != NULL ? imap_utf7_decode(raw_reference, length) : NULL;
    g_autofree char *raw_pattern = reference != NULL && imap_parse_space(arguments)
                                       ? imap_parse_list_mailbox(arguments)
                                       : NULL;
    g_autofree char *pattern =
        raw_pattern != NULL ? imap_utf7_decode(raw_pattern, strlen(raw_pattern)) : NULL;
    if (pattern == NULL || !imap_parse_end(arguments)) {
        imap_bad(session, "A reference and a pattern are needed");
        return;
    }
    if (*pattern == '\0' && !subscribed) {
        /* Asks for the separator only (RFC 3501 6.3.8). */
        imap_untagged(session, "LIST (\\Noselect) \"/\" \"\"");
        imap_ok(session, "Done");
        return;
    }
    ListJob *job = g_new0(ListJob, 1);
    job->actor = imap_actor(session);
    job->subscribed = subscribed;
    job->lines = g_string_new(NULL);
    job->pattern = g_strconcat(reference, pattern, NULL);
    imap_session_run(session, list_job, list_done, job, list_job_free);
}

void
imap_cmd_list(ImapSession *session, ImapParser *arguments)
{
    list(session, arguments, false);
}

void
imap_cmd_lsub(ImapSession *session, ImapParser *arguments)
{
    list(session, arguments, true);
}

/* -- STATUS ------------------------------------------------------------------------------------ */

typedef struct StatusJob {
    int64_t actor;
    char *name;
    unsigned items; /* bits: rows of status_rows */
    PhMailbox *mailbox;
    uint32_t first_recent;
    GError *error;
} StatusJob;

static void
status_job_free(void *data)
{
    StatusJob *job = data;
    g_free(job->name);
    ph_mailbox_free(job->mailbox);
    g_clear_error(&job->error);
    g_free(job);
}

static int64_t
status_messages(const StatusJob *job)
{
    return job->mailbox->n_messages;
}

static int64_t
status_recent(const StatusJob *job)
{
    uint32_t above =
        job->mailbox->uid_next > job->first_recent ? job->mailbox->uid_next - job->first_recent : 0;
    return MIN(above, job->mailbox->n_messages);
}

static int64_t
status_uid_next(const StatusJob *job)
{
    return job->mailbox->uid_next;
}

static int64_t
status_uid_validity(const StatusJob *job)
{
    return job->mailbox->uid_validity;
}

static int64_t
status_unseen(const StatusJob *job)
{
    return job->mailbox->n_unseen;
}

static int64_t
status_size(const StatusJob *job)
{
    return job->mailbox->size_bytes;
}

static const struct {
    const char *name;
    int64_t (*value)(const StatusJob *job);
} status_rows[] = {
    { "MESSAGES", status_messages },
    { "RECENT", status_recent },
    { "UIDNEXT", status_uid_next },
    { "UIDVALIDITY", status_uid_validity },
    { "UNSEEN", status_unseen },
    { "SIZE", status_size },
};

static void
status_job(void *data)
{
    ph_assert_in_job();
    StatusJob *job = data;
    job->mailbox = ph_mailbox_find_blocking(job->actor, job->name, imap_deadline_us(), &job->error);
    if (job->mailbox != NULL)
        ph_mailbox_take_recent_blocking(
            job->mailbox->key, true, imap_deadline_us(), &job->first_recent, &job->error);
}

static void
status_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    const StatusJob *job = data;
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    g_autoptr(GString) line = g_string_new("* STATUS ");
    imap_append_mailbox(line, job->name);
    const char *before = " (";
    for (size_t i = 0; i < G_N_ELEMENTS(status_rows); i++) {
        if ((job->items & (1U << i)) == 0)
            continue;
        g_string_append_printf(
            line, "%s%s %" G_GINT64_FORMAT, before, status_rows[i].name, status_rows[i].value(job));
        before = " ";
    }
    g_string_append(line, ")\r\n");
    ph_connection_write(session->base.connection, line->str, line->len);
    imap_ok(session, "Done");
}

static bool
parse_status_items(ImapParser *arguments, unsigned *items_out)
{
    unsigned items = 0;
    if (!imap_parse_char(arguments, '('))
        return false;
    do {
        bool found = false;
        for (size_t i = 0; i < G_N_ELEMENTS(status_rows) && !found; i++)
            if (imap_parse_word(arguments, status_rows[i].name)) {
                items |= 1U << i;
                found = true;
            }
        if (!found)
            return false;
    } while (imap_parse_space(arguments));
    *items_out = items;
    return imap_parse_char(arguments, ')') && imap_parse_end(arguments);
}

void
imap_cmd_status(ImapSession *session, ImapParser *arguments)
{
    unsigned items;
    g_autofree char *name = imap_parse_mailbox(arguments);
    if (name == NULL || !imap_parse_space(arguments) || !parse_status_items(arguments, &items)) {
        imap_bad(session, "STATUS takes a mailbox and a list of items");
        return;
    }
    StatusJob *job = g_new0(StatusJob, 1);
    job->actor = imap_actor(session);
    job->name = g_steal_pointer(&name);
    job->items = items;
    imap_session_run(session, status_job, status_done, job, status_job_free);
}
