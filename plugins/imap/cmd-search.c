/* cmd-search.c - SEARCH, in slices
 *
 * Rows that the program decides by itself cost nothing; for the others the store is asked in
 * batches: first what it keeps (dates), then headers, then whole messages, each only while the
 * answer is still open.
 */
#include "search.h"

#include "posthouse/message-header.h"
#include "posthouse/message-imap.h"
#include "posthouse/message-outline.h"

#include <string.h>

enum {
    ROWS_PER_SLICE = 100000,
    ROWS_PER_LOAD = 100,   /* messages that the store is asked for at once */
    LOADS_PER_SLICE = 200, /* headers and bodies that were read */
    PART_TEXT_MAX_BYTES = 8 * 1024 * 1024,
    WINDOW_BYTES = 256 * 1024,
};

typedef struct SearchJob {
    int64_t account_id;
    PhView *view;
    ImapSearchNode *root;
    GPtrArray *names; /* of the headers that the program looks at */
    uint32_t first_recent;
    bool is_uid;
    size_t at; /* the cursor: the next row */
    unsigned loads;
    GString *line; /* the answer */
    GError *error;
} SearchJob;

static void
search_job_free(void *data)
{
    SearchJob *job = data;
    ph_view_unref(job->view);
    g_ptr_array_unref(job->names);
    imap_search_node_free(job->root);
    g_string_free(job->line, TRUE);
    g_clear_error(&job->error);
    g_free(job);
}

/* -- loading ----------------------------------------------------------------------------------- */

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
read_range(
    const SearchJob *job, int64_t message_id, uint64_t offset, uint64_t length, GError **error)
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

/* A piece of a message that was read. Parts follow each other, and a small mail can have ten
 * thousand of them: they are cut from what was read last, not asked for one by one. */
typedef struct Window {
    GBytes *bytes;
    uint64_t start;
    uint64_t message_end;
} Window;

static void
window_clear(Window *window)
{
    g_clear_pointer(&window->bytes, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Window, window_clear)

PH_IN_JOB static GBytes *
read_through(const SearchJob *job, int64_t message_id, Window *window, uint64_t offset,
    uint64_t length, GError **error)
{
    if (length >= WINDOW_BYTES || offset + length > window->message_end)
        return read_range(job, message_id, offset, length, error);
    if (window->bytes == NULL || offset < window->start ||
        offset + length > window->start + g_bytes_get_size(window->bytes)) {
        window_clear(window);
        window->start = offset;
        window->bytes = read_range(job, message_id, offset,
            MIN((uint64_t)WINDOW_BYTES, window->message_end - offset), error);
        if (window->bytes == NULL)
            return NULL;
    }
    size_t have = g_bytes_get_size(window->bytes);
    size_t at = MIN((size_t)(offset - window->start), have);
    return g_bytes_new_from_bytes(window->bytes, at, MIN((size_t)length, have - at));
}

/* The text parts, decoded, and the headers of messages within. */
PH_IN_JOB static char *
load_body(const SearchJob *job, int64_t message_id, const PhOutline *outline, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_auto(Window) window = { .message_end = ph_outline_part(outline, 0)->body_end };
    for (size_t i = 0; i < ph_outline_count(outline); i++) {
        const PhOutlinePart *part = ph_outline_part(outline, i);
        bool inner_header = part->parent != PH_OUTLINE_NONE &&
                            ph_outline_part(outline, part->parent)->kind == PH_PART_MESSAGE;
        if (inner_header && part->body_start > part->header_start) {
            g_autoptr(GBytes) header = read_through(job, message_id, &window, part->header_start,
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
        g_autoptr(GBytes) bytes =
            read_through(job, message_id, &window, part->body_start, size, error);
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

/* The header, flattened: from the cache where it covers all names that the program asks for, else
 * read. */
PH_IN_JOB static char *
find_headers(SearchJob *job, const PhMessageMeta *meta, const PhOutline *outline, GError **error)
{
    size_t length;
    const void *cache = g_bytes_get_data(meta->headers, &length);
    bool covered = !imap_search_needs(job->root, IMAP_KEY_TEXT);
    for (guint i = 0; covered && i < job->names->len; i++)
        covered = ph_header_cache_covers(cache, length, job->names->pdata[i]);
    size_t block_length;
    const char *block = covered ? ph_header_cache_block(cache, length, &block_length) : NULL;
    if (block != NULL)
        return flatten_headers(block, block_length);
    job->loads++;
    return load_headers(job, meta->message_id, outline, error);
}

/* UNKNOWN only with an error. A message that is gone is no hit. */
PH_IN_JOB static ImapAnswer
evaluate_loaded(SearchJob *job, ImapSearchSubject *subject)
{
    if (subject->meta == NULL)
        return IMAP_NO;
    ImapAnswer found = imap_search_evaluate(job->root, subject);
    if (found != IMAP_UNKNOWN)
        return found;
    g_autoptr(PhOutline) outline = outline_of(subject->meta);
    if (outline == NULL)
        return IMAP_NO;
    g_autofree char *headers = find_headers(job, subject->meta, outline, &job->error);
    subject->headers = headers;
    found = headers != NULL ? imap_search_evaluate(job->root, subject) : IMAP_UNKNOWN;
    if (found != IMAP_UNKNOWN || headers == NULL)
        return found;
    job->loads++;
    g_autofree char *body = load_body(job, subject->meta->message_id, outline, &job->error);
    subject->body = body;
    return body != NULL ? imap_search_evaluate(job->root, subject) : IMAP_UNKNOWN;
}

/* -- slices ------------------------------------------------------------------------------------ */

/* Rows that are hits, or that must be loaded to know. */
typedef struct Candidate {
    size_t index;
    bool is_open;
} Candidate;

static ImapSearchSubject
subject_of(const SearchJob *job, size_t index)
{
    return (ImapSearchSubject){
        .view = job->view,
        .row = ph_view_row(job->view, index),
        .first_recent = job->first_recent,
    };
}

/* From the cursor on, until enough are open. Gives their number. */
static size_t
collect(SearchJob *job, GArray *candidates, int64_t *ids)
{
    size_t n = ph_view_count(job->view);
    size_t stop = MIN(n, job->at + ROWS_PER_SLICE);
    size_t n_open = 0;
    for (; job->at < stop && n_open < ROWS_PER_LOAD; job->at++) {
        ImapSearchSubject subject = subject_of(job, job->at);
        ImapAnswer found = imap_search_evaluate(job->root, &subject);
        if (found == IMAP_NO)
            continue;
        Candidate candidate = { .index = job->at, .is_open = found == IMAP_UNKNOWN };
        g_array_append_val(candidates, candidate);
        if (candidate.is_open)
            ids[n_open++] = subject.row->message_id;
    }
    return n_open;
}

/* Whether an open row is a hit. False with the error. */
PH_IN_JOB static bool
close_candidate(SearchJob *job, size_t index, const PhMessageMeta *meta, bool *is_hit_out)
{
    ImapSearchSubject subject = subject_of(job, index);
    subject.meta = meta;
    *is_hit_out = evaluate_loaded(job, &subject) == IMAP_YES;
    if (job->error == NULL)
        return true;
    if (job->error->code != PH_ERROR_NOT_FOUND)
        return false;
    g_clear_error(&job->error);
    *is_hit_out = false;
    return true;
}

static void
append_hit(SearchJob *job, size_t index)
{
    size_t number = job->is_uid ? (size_t)ph_view_row(job->view, index)->uid : index + 1;
    g_string_append_c(job->line, ' ');
    imap_append_number(job->line, number);
}

/* One batch: what the rows decide, then what the store tells of the others. */
PH_IN_JOB static bool
run_batch(SearchJob *job)
{
    int64_t ids[ROWS_PER_LOAD];
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
    size_t n_open = collect(job, candidates, ids);
    g_autoptr(GPtrArray) metas = NULL;
    if (n_open > 0) {
        metas = ph_message_meta_blocking(job->account_id, ids, n_open,
            PH_META_OUTLINE | PH_META_SENT_DATE | PH_META_HEADERS, imap_deadline_us(), &job->error);
        if (metas == NULL)
            return false;
    }
    for (guint i = 0, open = 0; i < candidates->len; i++) {
        Candidate candidate = g_array_index(candidates, Candidate, i);
        bool is_hit = true;
        if (candidate.is_open &&
            !close_candidate(job, candidate.index, metas->pdata[open++], &is_hit))
            return false;
        if (is_hit)
            append_hit(job, candidate.index);
    }
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
    size_t start = job->at;
    job->loads = 0;
    while (job->at < ph_view_count(job->view) && job->at - start < ROWS_PER_SLICE &&
           job->loads < LOADS_PER_SLICE)
        if (!run_batch(job))
            return;
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
    job->names = g_ptr_array_new();
    imap_search_header_names(root, job->names);
    job->first_recent = session->selected->first_recent;
    job->is_uid = session->command->is_uid;
    job->line = g_string_new("* SEARCH");
    run_slice(session, job);
}
