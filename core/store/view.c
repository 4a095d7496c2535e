/* view.c - versions of an open mailbox
 *
 * Shape of a version: a spine of chunks of at most 512 rows; `starts` holds the index of each
 * chunk's first row. A later version has a spine of its own and shares the chunks that did not
 * change. Everything is immutable once made.
 */
#include "store/view.h"

#include <string.h>

enum { CHUNK_ROWS = 512 };

typedef struct Chunk {
    PhRef ref;
    unsigned count;
    unsigned unseen;
    PhViewRow rows[];
} Chunk;

struct PhView {
    PhRef ref;
    uint32_t uid_validity;
    uint32_t uid_next;
    int64_t modseq;
    bool is_gone;
    size_t unseen;
    size_t count;
    size_t n_chunks;
    Chunk **chunks;
    size_t *starts;
    GPtrArray *keywords; /* shared; never changed */
};

/* -- chunks ------------------------------------------------------------------------------------ */

static void
chunk_unref(Chunk *chunk)
{
    if (ph_ref_drop(&chunk->ref))
        g_free(chunk);
}

static Chunk *
chunk_new(const PhViewRow *rows, unsigned count)
{
    Chunk *chunk = g_malloc(sizeof(Chunk) + count * sizeof(PhViewRow));
    ph_ref_init(&chunk->ref);
    chunk->count = count;
    chunk->unseen = 0;
    memcpy(chunk->rows, rows, count * sizeof(PhViewRow));
    for (unsigned i = 0; i < count; i++)
        chunk->unseen += (rows[i].flags & PH_FLAG_SEEN) == 0 ? 1 : 0;
    return chunk;
}

/* -- versions ---------------------------------------------------------------------------------- */

PhView *
ph_view_new(void)
{
    PhView *view = g_new0(PhView, 1);
    ph_ref_init(&view->ref);
    view->keywords = ph_keywords_new();
    return view;
}

PhView *
ph_view_ref(PhView *view)
{
    ph_ref_take(&view->ref);
    return view;
}

void
ph_view_unref(PhView *view)
{
    if (view == NULL || !ph_ref_drop(&view->ref))
        return;
    for (size_t i = 0; i < view->n_chunks; i++)
        chunk_unref(view->chunks[i]);
    g_free(view->chunks);
    g_free(view->starts);
    g_ptr_array_unref(view->keywords);
    g_free(view);
}

size_t
ph_view_memory(const PhView *view)
{
    return sizeof *view + view->n_chunks * (sizeof(Chunk) + sizeof(Chunk *) + sizeof(size_t)) +
           view->count * sizeof(PhViewRow);
}

static size_t
chunk_of(const PhView *view, size_t index)
{
    size_t low = 0;
    size_t high = view->n_chunks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (view->starts[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t
ph_view_count(const PhView *view)
{
    return view->count;
}

const PhViewRow *
ph_view_row(const PhView *view, size_t index)
{
    g_return_val_if_fail(index < view->count, NULL);
    size_t chunk = chunk_of(view, index);
    return &view->chunks[chunk]->rows[index - view->starts[chunk]];
}

/* The first chunk whose last row has this UID or a greater one. */
static size_t
chunk_for_uid(const PhView *view, uint32_t uid)
{
    size_t low = 0;
    size_t high = view->n_chunks;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const Chunk *chunk = view->chunks[middle];
        if (chunk->rows[chunk->count - 1].uid < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static unsigned
row_for_uid(const PhViewRow *rows, unsigned count, uint32_t uid)
{
    unsigned low = 0;
    unsigned high = count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (rows[middle].uid < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t
ph_view_lower_bound(const PhView *view, uint32_t uid)
{
    size_t at = chunk_for_uid(view, uid);
    if (at == view->n_chunks)
        return view->count;
    const Chunk *chunk = view->chunks[at];
    return view->starts[at] + row_for_uid(chunk->rows, chunk->count, uid);
}

uint32_t
ph_view_uid_validity(const PhView *view)
{
    return view->uid_validity;
}

uint32_t
ph_view_uid_next(const PhView *view)
{
    return view->uid_next;
}

int64_t
ph_view_highest_modseq(const PhView *view)
{
    return view->modseq;
}

size_t
ph_view_unseen(const PhView *view)
{
    return view->unseen;
}

size_t
ph_view_keyword_count(const PhView *view)
{
    size_t count = 0;
    for (guint i = 0; i < view->keywords->len; i++)
        count += view->keywords->pdata[i] != NULL ? 1 : 0;
    return count;
}

const char *
ph_view_keyword(const PhView *view, unsigned bit)
{
    return bit < view->keywords->len ? view->keywords->pdata[bit] : NULL;
}

bool
ph_view_is_gone(const PhView *view)
{
    return view->is_gone;
}

/* -- making the next version ------------------------------------------------------------------- */

PhViewDelta *
ph_view_delta_new(PhMailboxKey mailbox)
{
    PhViewDelta *delta = g_new0(PhViewDelta, 1);
    delta->mailbox = mailbox;
    return delta;
}

void
ph_view_delta_free(PhViewDelta *delta)
{
    if (delta == NULL)
        return;
    g_clear_pointer(&delta->rows, g_array_unref);
    g_clear_pointer(&delta->gone, ph_uid_set_free);
    g_clear_pointer(&delta->keywords, g_ptr_array_unref);
    g_free(delta);
}

typedef struct Builder {
    GPtrArray *chunks;
    GArray *rows; /* PhViewRow, not yet in a chunk */
} Builder;

static void
flush_rows(Builder *builder)
{
    unsigned count = builder->rows->len;
    for (unsigned from = 0; from < count;) {
        unsigned take = MIN(count - from, (unsigned)CHUNK_ROWS);
        g_ptr_array_add(
            builder->chunks, chunk_new(&g_array_index(builder->rows, PhViewRow, from), take));
        from += take;
    }
    g_array_set_size(builder->rows, 0);
}

static void
share_chunk(Builder *builder, Chunk *chunk)
{
    flush_rows(builder);
    ph_ref_take(&chunk->ref);
    g_ptr_array_add(builder->chunks, chunk);
}

static const PhViewRow *
delta_row(const PhViewDelta *delta, unsigned index)
{
    return delta->rows != NULL && index < delta->rows->len
               ? &g_array_index(delta->rows, PhViewRow, index)
               : NULL;
}

static bool
is_gone(const PhViewDelta *delta, uint32_t uid)
{
    return delta->gone != NULL && ph_uid_set_contains(delta->gone, uid);
}

static bool
any_gone(const PhViewDelta *delta, const Chunk *chunk)
{
    return delta->gone != NULL &&
           ph_uid_set_overlaps(delta->gone, chunk->rows[0].uid, chunk->rows[chunk->count - 1].uid);
}

/* Merges the rows of a chunk with those of the delta up to `last`; `next` is the place in the
 * delta. */
static void
merge_chunk(
    Builder *builder, const Chunk *chunk, const PhViewDelta *delta, unsigned *next, uint32_t last)
{
    unsigned at = 0;
    const PhViewRow *fresh = delta_row(delta, *next);
    while (at < chunk->count || (fresh != NULL && fresh->uid <= last)) {
        bool take_fresh = fresh != NULL && fresh->uid <= last &&
                          (at == chunk->count || fresh->uid <= chunk->rows[at].uid);
        const PhViewRow *row = take_fresh ? fresh : &chunk->rows[at];
        if (take_fresh && at < chunk->count && chunk->rows[at].uid == fresh->uid)
            at++;
        if (take_fresh)
            fresh = delta_row(delta, ++*next);
        else
            at++;
        if (!is_gone(delta, row->uid))
            g_array_append_vals(builder->rows, row, 1);
    }
}

static void
merge(Builder *builder, const PhView *view, const PhViewDelta *delta)
{
    unsigned next = 0;
    for (size_t i = 0; i < view->n_chunks; i++) {
        Chunk *chunk = view->chunks[i];
        bool is_last = i + 1 == view->n_chunks;
        /* Fresh rows between this chunk and the next one belong here; those at the end extend a
         * last chunk with room. */
        uint32_t last = is_last ? UINT32_MAX : view->chunks[i + 1]->rows[0].uid - 1;
        const PhViewRow *fresh = delta_row(delta, next);
        bool loses = any_gone(delta, chunk);
        bool gains = fresh != NULL && fresh->uid <= last;
        bool only_behind = fresh != NULL && fresh->uid > chunk->rows[chunk->count - 1].uid;
        if (!loses && (!gains || (only_behind && chunk->count == CHUNK_ROWS))) {
            share_chunk(builder, chunk);
            continue;
        }
        merge_chunk(builder, chunk, delta, &next, last);
        /* A chunk that became small is joined with what follows. */
        if (builder->rows->len >= CHUNK_ROWS / 2)
            flush_rows(builder);
    }
    for (const PhViewRow *fresh; (fresh = delta_row(delta, next)) != NULL; next++)
        if (!is_gone(delta, fresh->uid))
            g_array_append_vals(builder->rows, fresh, 1);
    flush_rows(builder);
}

/* Many expunges leave chunks of a few rows: when they are too many, all are made anew. */
static void
join_small_chunks(Builder *builder)
{
    size_t count = 0;
    for (guint i = 0; i < builder->chunks->len; i++)
        count += ((Chunk *)builder->chunks->pdata[i])->count;
    if (builder->chunks->len <= 4 * (count / CHUNK_ROWS) + 16)
        return;
    GPtrArray *small = builder->chunks;
    builder->chunks = g_ptr_array_new();
    for (guint i = 0; i < small->len; i++) {
        Chunk *chunk = small->pdata[i];
        g_array_append_vals(builder->rows, chunk->rows, chunk->count);
        chunk_unref(chunk);
    }
    g_ptr_array_unref(small);
    flush_rows(builder);
}

static PhView *
copy_head(const PhView *view)
{
    PhView *next = g_new0(PhView, 1);
    ph_ref_init(&next->ref);
    next->uid_validity = view->uid_validity;
    next->uid_next = view->uid_next;
    next->modseq = view->modseq;
    next->is_gone = view->is_gone;
    next->keywords = g_ptr_array_ref(view->keywords);
    return next;
}

static void
take_chunks(PhView *view, GPtrArray *chunks)
{
    view->n_chunks = chunks->len;
    view->starts = g_new(size_t, chunks->len);
    for (guint i = 0; i < chunks->len; i++) {
        const Chunk *chunk = chunks->pdata[i];
        view->starts[i] = view->count;
        view->count += chunk->count;
        view->unseen += chunk->unseen;
    }
    view->chunks = (Chunk **)g_ptr_array_free(chunks, FALSE);
}

PhView *
ph_view_with(const PhView *view, const PhViewDelta *delta)
{
    Builder builder = {
        .chunks = g_ptr_array_new(),
        .rows = g_array_new(FALSE, FALSE, sizeof(PhViewRow)),
    };
    merge(&builder, view, delta);
    join_small_chunks(&builder);
    g_array_unref(builder.rows);
    PhView *next = copy_head(view);
    take_chunks(next, builder.chunks);
    next->uid_validity = delta->uid_validity;
    next->uid_next = MAX(delta->uid_next, view->uid_next);
    next->modseq = delta->modseq;
    if (delta->keywords != NULL) {
        g_ptr_array_unref(next->keywords);
        next->keywords = g_ptr_array_ref(delta->keywords);
    }
    return next;
}

PhView *
ph_view_with_gone(const PhView *view)
{
    PhView *next = copy_head(view);
    GPtrArray *chunks = g_ptr_array_new();
    for (size_t i = 0; i < view->n_chunks; i++) {
        ph_ref_take(&view->chunks[i]->ref);
        g_ptr_array_add(chunks, view->chunks[i]);
    }
    take_chunks(next, chunks);
    next->is_gone = true;
    return next;
}

/* -- difference -------------------------------------------------------------------------------- */

typedef struct Cursor {
    const PhView *view;
    size_t chunk;
    unsigned row;
    size_t index;
} Cursor;

static const PhViewRow *
cursor_row(const Cursor *cursor)
{
    return cursor->chunk < cursor->view->n_chunks
               ? &cursor->view->chunks[cursor->chunk]->rows[cursor->row]
               : NULL;
}

static void
cursor_step(Cursor *cursor)
{
    cursor->index++;
    if (++cursor->row == cursor->view->chunks[cursor->chunk]->count) {
        cursor->row = 0;
        cursor->chunk++;
    }
}

static bool
skip_shared(Cursor *a, Cursor *b)
{
    if (a->row != 0 || b->row != 0 || a->chunk >= a->view->n_chunks ||
        b->chunk >= b->view->n_chunks || a->view->chunks[a->chunk] != b->view->chunks[b->chunk])
        return false;
    unsigned count = a->view->chunks[a->chunk]->count;
    a->index += count;
    b->index += count;
    a->chunk++;
    b->chunk++;
    return true;
}

typedef struct Event {
    size_t index;
    const PhViewRow *row;
    bool is_new;
} Event;

static void
add_event(GArray *events, size_t index, const PhViewRow *row, bool is_new)
{
    Event event = { index, row, is_new };
    g_array_append_val(events, event);
}

static void
tell_events(const GArray *expunged, const GArray *events, const PhViewDiff *diff, void *data)
{
    for (guint i = expunged->len; diff->expunged != NULL && i-- > 0;) {
        const Event *event = &g_array_index(expunged, Event, i);
        diff->expunged(event->index, event->row, data);
    }
    for (guint i = 0; i < events->len; i++) {
        const Event *event = &g_array_index(events, Event, i);
        if (event->is_new && diff->added != NULL)
            diff->added(event->index, event->row, data);
        if (!event->is_new && diff->changed != NULL)
            diff->changed(event->index, event->row, data);
    }
}

void
ph_view_diff(const PhView *from, const PhView *to, const PhViewDiff *diff, void *data)
{
    g_autoptr(GArray) expunged = g_array_new(FALSE, FALSE, sizeof(Event));
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(Event));
    Cursor old = { .view = from };
    Cursor new = { .view = to };
    for (;;) {
        if (skip_shared(&old, &new))
            continue;
        const PhViewRow *was = cursor_row(&old);
        const PhViewRow *is = cursor_row(&new);
        if (was == NULL && is == NULL)
            break;
        if (is == NULL || (was != NULL && was->uid < is->uid)) {
            add_event(expunged, old.index, was, false);
            cursor_step(&old);
        } else if (was == NULL || is->uid < was->uid) {
            add_event(events, new.index, is, true);
            cursor_step(&new);
        } else {
            if (was->flags != is->flags || was->keywords != is->keywords)
                add_event(events, new.index, is, false);
            cursor_step(&old);
            cursor_step(&new);
        }
    }
    tell_events(expunged, events, diff, data);
}

/* -- from the database ------------------------------------------------------------------------- */

PhViewRow
ph_view_row_from(const PGresult *rows, int i)
{
    return (PhViewRow){
        .uid = (uint32_t)ph_cell_int64(rows, i, 0),
        .message_id = ph_cell_int64(rows, i, 1),
        .modseq = ph_cell_int64(rows, i, 2),
        .keywords = (uint64_t)ph_cell_int64(rows, i, 3),
        .internal_date_us = ph_cell_int64(rows, i, 4),
        .size_bytes = (uint32_t)ph_cell_int32(rows, i, 5),
        .flags = (uint32_t)ph_cell_int32(rows, i, 6),
    };
}

GArray *
ph_view_rows_from(const PGresult *rows)
{
    int count = PQntuples(rows);
    GArray *array = g_array_sized_new(FALSE, FALSE, sizeof(PhViewRow), (guint)count);
    for (int i = 0; i < count; i++) {
        PhViewRow row = ph_view_row_from(rows, i);
        g_array_append_val(array, row);
    }
    return array;
}
