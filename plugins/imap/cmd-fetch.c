/* cmd-fetch.c - FETCH, in slices
 *
 * A job fills at most one slice of output and returns, so that no worker waits for a slow client
 * and no answer is held whole in memory. A cursor says where the next slice begins: which message,
 * which item of it, and how much of a literal is still to come.
 */
#include "fetch.h"

#include "posthouse/message-header.h"
#include "posthouse/message-imap.h"

#include <string.h>

enum {
    SMALL_BYTES = 128 * 1024,
    ROWS_FROM_MEMORY = 8 * IMAP_SLICE_ROWS, /* of a slice for which the store is not asked */
};

typedef struct FetchJob {
    int64_t actor;
    PhMailboxKey key;
    PhView *view; /* the version that sequence numbers refer to */
    PhUidSet *uids;
    GArray *rows; /* size_t indexes into the view */
    ImapFetchItems *items;
    uint32_t first_recent;
    bool read_only;

    guint row; /* the cursor */
    guint item;
    uint64_t literal_offset;
    uint64_t literal_left;

    GPtrArray *metas; /* of rows [metas_start, metas_start + len) */
    guint metas_start;
    GPtrArray *raws; /* whole small messages, of rows [raws_start, raws_start + len) */
    guint raws_start;
    PhOutline *outline; /* of the present row, when it was needed */
    guint outline_row;

    /* The flags of the row before, as text: most rows have the same. */
    GString *flags_text;
    uint32_t flags;
    uint64_t keywords;
    bool is_recent;

    GString *out;
    unsigned rows_done;
    bool marked_seen;
    bool row_is_begun; /* an error came when a part of this row was sent already */
    GError *error;
} FetchJob;

static void
fetch_job_free(void *data)
{
    FetchJob *job = data;
    ph_view_unref(job->view);
    ph_uid_set_free(job->uids);
    g_array_unref(job->rows);
    imap_fetch_items_free(job->items);
    g_clear_pointer(&job->metas, g_ptr_array_unref);
    g_clear_pointer(&job->raws, g_ptr_array_unref);
    ph_outline_free(job->outline);
    if (job->out != NULL)
        g_string_free(job->out, TRUE);
    if (job->flags_text != NULL)
        g_string_free(job->flags_text, TRUE);
    g_clear_error(&job->error);
    g_free(job);
}

static const PhViewRow *
present_row(const FetchJob *job)
{
    return ph_view_row(job->view, g_array_index(job->rows, size_t, job->row));
}

/* -- what the store keeps ---------------------------------------------------------------------- */

/* Null: the message is gone. */
PH_IN_JOB static const PhMessageMeta *
present_meta(FetchJob *job, GError **error)
{
    if (job->metas == NULL || job->row < job->metas_start ||
        job->row >= job->metas_start + job->metas->len) {
        int64_t ids[IMAP_SLICE_ROWS];
        size_t n = MIN((size_t)IMAP_SLICE_ROWS, job->rows->len - job->row);
        for (size_t i = 0; i < n; i++)
            ids[i] =
                ph_view_row(job->view, g_array_index(job->rows, size_t, job->row + i))->message_id;
        g_clear_pointer(&job->metas, g_ptr_array_unref);
        job->metas = ph_message_meta_blocking(
            job->key.account_id, ids, n, job->items->meta, imap_deadline_us(), error);
        job->metas_start = job->row;
        if (job->metas == NULL)
            return NULL;
    }
    return job->metas->pdata[job->row - job->metas_start];
}

PH_IN_JOB static const PhOutline *
present_outline(FetchJob *job, GError **error)
{
    if (job->outline != NULL && job->outline_row == job->row)
        return job->outline;
    g_clear_pointer(&job->outline, ph_outline_free);
    const PhMessageMeta *meta = present_meta(job, error);
    if (meta == NULL || meta->outline == NULL)
        return NULL;
    size_t length;
    const void *bytes = g_bytes_get_data(meta->outline, &length);
    job->outline = ph_outline_read(bytes, length);
    job->outline_row = job->row;
    return job->outline;
}

/* Small messages are read many at a time, as far as a slice goes. Null without an error: this one
 * is not small. */
PH_IN_JOB static GBytes *
present_raw(FetchJob *job, GError **error)
{
    if (job->raws != NULL && job->row >= job->raws_start &&
        job->row < job->raws_start + job->raws->len)
        return job->raws->pdata[job->row - job->raws_start];
    if (present_row(job)->size_bytes > SMALL_BYTES)
        return NULL;
    int64_t ids[IMAP_SLICE_ROWS];
    size_t n = 0;
    size_t total = 0;
    for (guint row = job->row; row < job->rows->len && n < IMAP_SLICE_ROWS; row++, n++) {
        const PhViewRow *next = ph_view_row(job->view, g_array_index(job->rows, size_t, row));
        total += next->size_bytes;
        if (next->size_bytes > SMALL_BYTES || (n > 0 && total > IMAP_SLICE_BYTES))
            break;
        ids[n] = next->message_id;
    }
    g_clear_pointer(&job->raws, g_ptr_array_unref);
    job->raws_start = job->row;
    job->raws =
        ph_message_read_many_blocking(job->key.account_id, ids, n, imap_deadline_us(), error);
    if (job->raws == NULL)
        return NULL;
    if (job->raws->pdata[0] == NULL)
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the message is gone");
    return job->raws->pdata[0];
}

/* A range of the present message. */
PH_IN_JOB static GBytes *
read_range(FetchJob *job, uint64_t offset, uint64_t length, GError **error)
{
    g_autoptr(GError) cause = NULL;
    GBytes *raw = present_raw(job, &cause);
    if (cause != NULL) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return NULL;
    }
    if (raw != NULL && offset + length <= g_bytes_get_size(raw))
        return g_bytes_new_from_bytes(raw, (size_t)offset, (size_t)length);
    return ph_message_read_blocking(job->key.account_id, present_row(job)->message_id,
        (size_t)offset, (size_t)length, imap_deadline_us(), error);
}

/* -- sections ---------------------------------------------------------------------------------- */

static void
append_literal_head(FetchJob *job, const ImapFetchItem *item, uint64_t length)
{
    g_string_append(job->out, item->label);
    g_string_append_len(job->out, " {", 2);
    imap_append_number(job->out, length);
    g_string_append_len(job->out, "}\r\n", 3);
}

/* A text that is whole in memory, or the partial of it. */
static void
append_text_section(FetchJob *job, const ImapFetchItem *item, const GString *text)
{
    uint64_t offset = 0;
    uint64_t length = text->len;
    if (item->is_partial)
        ph_section_partial(&offset, &length, item->first, item->count);
    append_literal_head(job, item, length);
    g_string_append_len(job->out, text->str + offset, (gssize)length);
}

/* HEADER.FIELDS: from the cache where it covers the names, else from the header. */
PH_IN_JOB static bool
append_fields_section(
    FetchJob *job, const ImapFetchItem *item, uint64_t offset, uint64_t length, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const PhMessageMeta *meta = present_meta(job, error);
    if (meta == NULL)
        return false;
    const char *const *names = (const char *const *)item->fields;
    size_t n_names = g_strv_length(item->fields);
    size_t cache_length = 0;
    const void *cache =
        meta->headers != NULL ? g_bytes_get_data(meta->headers, &cache_length) : NULL;
    if (cache == NULL || item->not_fields || item->path_length > 0 ||
        !ph_header_cache_fields(cache, cache_length, names, n_names, text)) {
        g_autoptr(GBytes) header =
            read_range(job, offset, MIN(length, (uint64_t)PH_HEADER_MAX_BYTES), error);
        if (header == NULL)
            return false;
        size_t header_length;
        const void *block = g_bytes_get_data(header, &header_length);
        ph_header_subset(block, header_length, names, n_names, item->not_fields, text);
    }
    append_text_section(job, item, text);
    return true;
}

/* Small sections are read here; of a large one only the head is written, and the cursor enters its
 * literal. */
PH_IN_JOB static bool
append_section(FetchJob *job, const ImapFetchItem *item, GError **error)
{
    uint64_t offset;
    uint64_t length;
    const PhOutline *outline = present_outline(job, error);
    if (outline == NULL)
        return false;
    if (!ph_outline_section(
            outline, item->path, item->path_length, item->section, &offset, &length)) {
        g_string_append_printf(job->out, "%s NIL", item->label);
        return true;
    }
    if (item->fields != NULL)
        return append_fields_section(job, item, offset, length, error);
    if (item->is_partial)
        ph_section_partial(&offset, &length, item->first, item->count);
    append_literal_head(job, item, length);
    job->literal_offset = offset;
    job->literal_left = length;
    return true;
}

PH_IN_JOB static bool
append_literal_bytes(FetchJob *job, GError **error)
{
    uint64_t n = MIN(job->literal_left, (uint64_t)IMAP_SLICE_BYTES);
    g_autoptr(GBytes) bytes = read_range(job, job->literal_offset, n, error);
    if (bytes == NULL)
        return false;
    size_t length;
    const void *data = g_bytes_get_data(bytes, &length);
    if (length != n) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_INTERNAL, "a message is shorter than its outline says");
        return false;
    }
    g_string_append_len(job->out, data, (gssize)length);
    job->literal_offset += n;
    job->literal_left -= n;
    return true;
}

/* -- items ------------------------------------------------------------------------------------- */

static void
append_stored(GString *out, const char *label, GBytes *bytes)
{
    size_t length;
    const char *data = g_bytes_get_data(bytes, &length);
    g_string_append(out, label);
    g_string_append_c(out, ' ');
    g_string_append_len(out, data, (gssize)length);
}

PH_IN_JOB static bool
append_meta_item(FetchJob *job, const ImapFetchItem *item, GError **error)
{
    const PhMessageMeta *meta = present_meta(job, error);
    if (meta == NULL)
        return false;
    if (item->kind == IMAP_FETCH_ENVELOPE) {
        append_stored(job->out, item->label, meta->envelope);
        return true;
    }
    if (item->kind == IMAP_FETCH_BODYSTRUCTURE) {
        append_stored(job->out, item->label, meta->bodystructure);
        return true;
    }
    size_t length;
    const char *structure = g_bytes_get_data(meta->bodystructure, &length);
    g_string_append_printf(job->out, "%s ", item->label);
    return ph_imap_body_from_structure(structure, length, job->out);
}

static void
append_flags_item(FetchJob *job, const PhViewRow *row)
{
    bool is_recent = row->uid >= job->first_recent;
    if (job->flags_text == NULL || job->flags != row->flags || job->keywords != row->keywords ||
        job->is_recent != is_recent) {
        if (job->flags_text == NULL)
            job->flags_text = g_string_new(NULL);
        g_string_assign(job->flags_text, "FLAGS ");
        imap_append_flags(job->flags_text, job->view, row, is_recent);
        job->flags = row->flags;
        job->keywords = row->keywords;
        job->is_recent = is_recent;
    }
    g_string_append_len(job->out, job->flags_text->str, (gssize)job->flags_text->len);
}

PH_IN_JOB static bool
append_item(FetchJob *job, const ImapFetchItem *item, GError **error)
{
    const PhViewRow *row = present_row(job);
    switch (item->kind) {
    case IMAP_FETCH_FLAGS:
        append_flags_item(job, row);
        return true;
    case IMAP_FETCH_UID:
        g_string_append_len(job->out, "UID ", 4);
        imap_append_number(job->out, row->uid);
        return true;
    case IMAP_FETCH_INTERNALDATE:
        g_string_append(job->out, "INTERNALDATE ");
        ph_imap_append_date_time(job->out, row->internal_date_us, 0);
        return true;
    case IMAP_FETCH_SIZE:
        g_string_append_len(job->out, "RFC822.SIZE ", 12);
        imap_append_number(job->out, row->size_bytes);
        return true;
    case IMAP_FETCH_ENVELOPE:
    case IMAP_FETCH_BODY:
    case IMAP_FETCH_BODYSTRUCTURE:
        return append_meta_item(job, item, error);
    case IMAP_FETCH_SECTION:
        return append_section(job, item, error);
    }
    return false;
}

/* -- slices ------------------------------------------------------------------------------------ */

/* A message that was purged meanwhile gives no answer; what was begun is taken back. */
static void
drop_row(FetchJob *job, size_t row_start)
{
    g_string_truncate(job->out, row_start);
    job->row++;
    job->item = 0;
}

/* One step of the cursor. False: an error that ends the command. */
PH_IN_JOB static bool
step(FetchJob *job, size_t *row_start, GError **error)
{
    if (job->literal_left > 0) {
        if (!append_literal_bytes(job, error))
            return false;
        if (job->literal_left == 0)
            job->item++;
        return true;
    }
    if (job->item == 0) {
        *row_start = job->out->len;
        g_string_append_len(job->out, "* ", 2);
        imap_append_number(job->out, g_array_index(job->rows, size_t, job->row) + 1);
        g_string_append_len(job->out, " FETCH (", 8);
    }
    if (job->item == job->items->items->len) {
        g_string_append_len(job->out, ")\r\n", 3);
        job->row++;
        job->item = 0;
        job->rows_done++;
        return true;
    }
    if (job->item > 0)
        g_string_append_c(job->out, ' ');
    g_autoptr(GError) cause = NULL;
    if (!append_item(job, job->items->items->pdata[job->item], &cause)) {
        if ((cause == NULL || cause->code == PH_ERROR_NOT_FOUND) && *row_start != SIZE_MAX) {
            drop_row(job, *row_start);
            return true;
        }
        if (cause == NULL)
            g_set_error(
                &cause, PH_ERROR, PH_ERROR_INTERNAL, "what is kept of a message cannot be read");
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    if (job->literal_left == 0)
        job->item++;
    return true;
}

PH_IN_JOB static void
mark_seen(FetchJob *job)
{
    job->marked_seen = true;
    if (!job->items->sets_seen || job->read_only)
        return;
    PhFlagRequest request = {
        .change = PH_FLAGS_ADD, .flags = PH_FLAG_SEEN, .unchanged_since = INT64_MAX
    };
    ph_mailbox_change_flags_blocking(
        job->actor, job->key, job->uids, &request, imap_deadline_us(), NULL, &job->error);
}

static void
fetch_job(void *data)
{
    ph_assert_in_job();
    FetchJob *job = data;
    size_t row_start = SIZE_MAX; /* a row that began in an earlier slice is on its way already */
    /* What is read by many rows fills the slice; room at once, instead of growing into it. */
    bool many = job->rows->len - job->row > 100;
    job->out = g_string_sized_new(many ? IMAP_SLICE_BYTES + 1024 : 4096);
    job->rows_done = 0;
    unsigned rows_max = job->items->meta == 0 ? ROWS_FROM_MEMORY : IMAP_SLICE_ROWS;
    if (!job->marked_seen)
        mark_seen(job);
    while (job->error == NULL && job->row < job->rows->len && job->rows_done < rows_max &&
           job->out->len < IMAP_SLICE_BYTES)
        if (!step(job, &row_start, &job->error))
            break;
    if (job->error == NULL)
        return;
    job->row_is_begun = row_start == SIZE_MAX && (job->item > 0 || job->literal_left > 0);
    if (row_start != SIZE_MAX)
        g_string_truncate(job->out, row_start);
}

static PH_ON_REACTOR void run_slice(ImapSession *session, FetchJob *job);

/* The job's data lives on until the last slice. */
typedef struct FetchHolder {
    FetchJob *job;
} FetchHolder;

static void
holder_free(void *data)
{
    FetchHolder *holder = data;
    if (holder->job != NULL)
        fetch_job_free(holder->job);
    g_free(holder);
}

static void
holder_run(void *data)
{
    fetch_job(((FetchHolder *)data)->job);
}

static void
slice_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = imap_session_of(task);
    FetchHolder *holder = data;
    FetchJob *job = holder->job;
    GString *out = g_steal_pointer(&job->out);
    g_autoptr(GBytes) bytes = g_string_free_to_bytes(out);
    ph_connection_write_bytes(session->base.connection, bytes);
    ph_metric_add(&imap_counters(session)->fetched, job->rows_done);
    if (job->error != NULL && job->row_is_begun) {
        /* In the middle of a message there is no way to say so. */
        imap_untagged(session, "BYE [UNAVAILABLE] The rest cannot be read now");
        ph_connection_abort(session->base.connection);
        return;
    }
    if (job->error != NULL) {
        imap_no_error(session, job->error);
        return;
    }
    if (job->row == job->rows->len) {
        imap_ok(session, "Done");
        return;
    }
    holder->job = NULL;
    session->fetch = job;
    if (!ph_connection_output_is_full(session->base.connection))
        imap_fetch_go_on(session);
}

static void
run_slice(ImapSession *session, FetchJob *job)
{
    FetchHolder *holder = g_new(FetchHolder, 1);
    holder->job = job;
    imap_session_run(session, holder_run, slice_done, holder, holder_free);
}

void
imap_fetch_go_on(ImapSession *session)
{
    FetchJob *job = g_steal_pointer(&session->fetch);
    if (job != NULL)
        run_slice(session, job);
}

void
imap_fetch_abandon(ImapSession *session)
{
    g_clear_pointer(&session->fetch, fetch_job_free);
}

/* The rows of the told version that the UIDs name. */
static GArray *
find_rows(const PhView *view, const PhUidSet *uids)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(size_t));
    size_t n = ph_view_count(view);
    for (guint i = 0; i < uids->len; i++) {
        PhUidRange range = g_array_index(uids, PhUidRange, i);
        for (size_t at = ph_view_lower_bound(view, range.first); at < n; at++) {
            if (ph_view_row(view, at)->uid > range.last)
                break;
            g_array_append_val(rows, at);
        }
    }
    return rows;
}

void
imap_cmd_fetch(ImapSession *session, ImapParser *arguments)
{
    bool is_uid = session->command->is_uid;
    g_autoptr(GArray) set = imap_parse_set(arguments);
    ImapFetchItems *items = set != NULL && imap_parse_space(arguments)
                                ? imap_fetch_items_parse(arguments, is_uid)
                                : NULL;
    if (items == NULL) {
        imap_bad(session, "FETCH takes a set and items");
        return;
    }
    PhUidSet *uids = NULL;
    if (!imap_resolve_set(session, set, is_uid, &uids)) {
        imap_fetch_items_free(items);
        imap_bad(session, "There is no such message");
        return;
    }
    FetchJob *job = g_new0(FetchJob, 1);
    job->actor = imap_actor(session);
    job->key = session->selected->key;
    job->view = ph_view_ref(session->selected->told);
    job->uids = uids;
    job->rows = find_rows(job->view, uids);
    job->items = items;
    job->first_recent = session->selected->first_recent;
    job->read_only = session->selected->read_only;
    run_slice(session, job);
}
