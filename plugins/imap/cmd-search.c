/* cmd-search.c - SEARCH, in slices
 *
 * Rows that the program decides by itself cost nothing; for the others the store is asked in batches: first what it keeps
 * (dates), then headers, then whole messages, each only while the answer is still open.
 */
#include "search.h"

#include "posthouse/message-header.h"
#include "posthouse/message-outline.h"

#include <string.h>

enum {
    ROWS_PER_SLICE = 100000,
    LOADS_PER_SLICE = 200, /* messages that the store was asked for */
    PART_TEXT_MAX_BYTES = 8 * 1024 * 1024,
};

typedef struct SearchJob {
    int64_t account_id;
    PhView *view;
    ImapSearchNode *root;
    uint32_t first_recent;
    bool is_uid;
    size_t at;          /* the cursor: the next row */
    unsigned loads;
    GString *line;      /* the answer */
    GError *error;
} SearchJob;

static void
search_job_free(void *data)
{
    SearchJob *job = data;
    ph_view_unref(job->view);
    imap_search_node_free(job->root);
    g_string_free(job->line, TRUE);
    g_clear_error(&job->error);
    g_free(job);
}

/* -- loading ---------------------------------------------------------------------------------------------------------- */

/* The header as folded lines "name: value". */
static char *
flatten_headers(const char *block, size_t length)
{
    g_autoptr(GString) lines = g_string_new(NULL);
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, block, length);
    while (ph_header_iter_next(&iter, &field)) {
        if (field.name_length == 0)
            continue;
        g_autofree char *name = ph_utf8_clean(field.name, field.name_length, NULL);
        g_autofree char *value = ph_header_decode(field.value, field.value_length);
        g_string_append_printf(lines, "%s: %s\n", name, value);
    }
    return imap_search_fold(lines->str);
}

PH_IN_JOB static GBytes *
read_range(const SearchJob *job, int64_t message_id, uint64_t offset, uint64_t length, GError **error)
{
    return ph_message_read_blocking(
        job->account_id, message_id, (size_t)offset, (size_t)length, imap_deadline_us(), error);
}

PH_IN_JOB static char *
load_headers(const SearchJob *job, int64_t message_id, const PhOutline *outline, GError **error)
{
    const PhOutlinePart *whole = ph_outline_part(outline, 0);
    uint64_t length = MIN(whole->body_start - whole->header_start, (uint64_t)PH_HEADER_MAX_BYTES);
    g_autoptr(GBytes) bytes = read_range(job, message_id, whole->header_start, length, error);
    if (bytes == NULL)
        return NULL;
    size_t got;
    const char *block = g_bytes_get_data(bytes, &got);
    return flatten_headers(block, got);
}

static void
append_part_text(GString *text, const PhOutlinePart *part, const char *bytes, size_t length)
{
    g_autoptr(GString) decoded = g_string_new(NULL);
    ph_transfer_decode(part->encoding, bytes, length, decoded);
    g_autofree char *utf8 = ph_text_to_utf8(part->charset, decoded->str, decoded->len, NULL);
    if (strcmp(part->subtype, "html") == 0) {
        g_autofree char *plain = ph_html_to_text(utf8, strlen(utf8));
        g_string_append(text, plain);
    } else {
        g_string_append(text, utf8);
    }
    g_string_append_c(text, '\n');
}

/* The text parts, decoded, and the headers of messages within. */
PH_IN_JOB static char *
load_body(const SearchJob *job, int64_t message_id, const PhOutline *outline, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < ph_outline_count(outline); i++) {
        const PhOutlinePart *part = ph_outline_part(outline, i);
        bool inner_header = part->parent != PH_OUTLINE_NONE &&
                            ph_outline_part(outline, part->parent)->kind == PH_PART_MESSAGE;
        if (inner_header && part->body_start > part->header_start) {
            g_autoptr(GBytes) header = read_range(job, message_id, part->header_start,
                MIN(part->body_start - part->header_start, (uint64_t)PH_HEADER_MAX_BYTES), error);
            if (header == NULL)
                return NULL;
            size_t length;
            const char *block = g_bytes_get_data(header, &length);
            g_autofree char *lines = flatten_headers(block, length);
            g_string_append(text, lines);
        }
        if (part->kind != PH_PART_LEAF || strcmp(part->type, "text") != 0)
            continue;
        uint64_t size = MIN(part->body_end - part->body_start, (uint64_t)PART_TEXT_MAX_BYTES);
        g_autoptr(GBytes) bytes = read_range(job, message_id, part->body_start, size, error);
        if (bytes == NULL)
            return NULL;
        size_t length;
        const char *data = g_bytes_get_data(bytes, &length);
        append_part_text(text, part, data, length);
    }
    return imap_search_fold(text->str);
}

static PhOutline *
outline_of(const PhMessageMeta *meta)
{
    size_t length;
    const void *bytes = g_bytes_get_data(meta->outline, &length);
    return ph_outline_read(bytes, length);
}

/* UNKNOWN only with an error. A message that is gone is no hit. */
PH_IN_JOB static ImapAnswer
evaluate_loaded(SearchJob *job, ImapSearchSubject *subject)
{
    int64_t id = subject->row->message_id;
    g_autoptr(GPtrArray) metas = ph_message_meta_blocking(
        job->account_id, &id, 1, PH_META_OUTLINE | PH_META_SENT_DATE, imap_deadline_us(), &job->error);
    job->loads++;
    if (metas == NULL)
        return IMAP_UNKNOWN;
    subject->meta = metas->pdata[0];
    if (subject->meta == NULL)
        return IMAP_NO;
    ImapAnswer found = imap_search_evaluate(job->root, subject);
    if (found != IMAP_UNKNOWN)
        return found;
    g_autoptr(PhOutline) outline = outline_of(subject->meta);
    if (outline == NULL)
        return IMAP_NO;
    g_autofree char *headers = load_headers(job, id, outline, &job->error);
    subject->headers = headers;
    found = headers != NULL ? imap_search_evaluate(job->root, subject) : IMAP_UNKNOWN;
    if (found != IMAP_UNKNOWN || headers == NULL)
        return found;
    g_autofree char *body = load_body(job, id, outline, &job->error);
    subject->body = body;
    return body != NULL ? imap_search_evaluate(job->root, subject) : IMAP_UNKNOWN;
}

/* -- slices -------------------------------------------------------------------------------------------------------------- */

PH_IN_JOB static bool
look_at(SearchJob *job, size_t index)
{
    ImapSearchSubject subject = {
        .view = job->view,
        .row = ph_view_row(job->view, index),
        .first_recent = job->first_recent,
    };
    ImapAnswer found = imap_search_evaluate(job->root, &subject);
    if (found == IMAP_UNKNOWN)
        found = evaluate_loaded(job, &subject);
    if (job->error != NULL) {
        if (job->error->code != PH_ERROR_NOT_FOUND)
            return false;
        g_clear_error(&job->error);
        found = IMAP_NO;
    }
    if (found == IMAP_YES)
        g_string_append_printf(job->line, " %zu", job->is_uid ? (size_t)subject.row->uid : index + 1);
    return true;
}

typedef struct SearchHolder {
    SearchJob *job;
} SearchHolder;

static void
holder_free(void *data)
{
    SearchHolder *holder = data;
    if (holder->job != NULL)
        search_job_free(holder->job);
    g_free(holder);
}

static void
search_slice(void *data)
{
    ph_assert_in_job();
    SearchJob *job = ((SearchHolder *)data)->job;
    size_t n = ph_view_count(job->view);
    size_t stop = MIN(n, job->at + ROWS_PER_SLICE);
    job->loads = 0;
    while (job->at < stop && job->loads < LOADS_PER_SLICE) {
        if (!look_at(job, job->at))
            return;
        job->at++;
    }
}

static PH_ON_REACTOR void run_slice(ImapSession *session, SearchJob *job);

static void
slice_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    SearchHolder *holder = data;
    SearchJob *job = holder->job;
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    if (job->at < ph_view_count(job->view)) {
        holder->job = NULL;
        run_slice(session, job);
        return;
    }
    g_string_append(job->line, "\r\n");
    ph_connection_write(session->base.connection, job->line->str, job->line->len);
    imap_ok(session, "Done");
}

static void
run_slice(ImapSession *session, SearchJob *job)
{
    SearchHolder *holder = g_new(SearchHolder, 1);
    holder->job = job;
    imap_session_run(session, search_slice, slice_done, holder, holder_free);
}

void
imap_cmd_search(ImapSession *session, ImapParser *arguments)
{
    ImapSearchNode *root = NULL;
    switch (imap_search_parse(session, arguments, &root)) {
    case IMAP_SEARCH_OK:
        break;
    case IMAP_SEARCH_SYNTAX:
        imap_bad(session, "SEARCH takes search keys");
        return;
    case IMAP_SEARCH_CHARSET:
        imap_no(session, "BADCHARSET (US-ASCII UTF-8)", "That character set is not understood");
        return;
    case IMAP_SEARCH_NO_MESSAGE:
        imap_bad(session, "There is no such message");
        return;
    }
    SearchJob *job = g_new0(SearchJob, 1);
    job->account_id = session->selected->key.account_id;
    job->view = ph_view_ref(session->selected->told);
    job->root = root;
    job->first_recent = session->selected->first_recent;
    job->is_uid = session->command->is_uid;
    job->line = g_string_new("* SEARCH");
    run_slice(session, job);
}
