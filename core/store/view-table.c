/* view-table.c - the open mailboxes of this process
 *
 * Hard here: what a commit did arrives as a delta from the thread that committed, in any order,
 * while another thread may be reading the same mailbox from the database. A version is only ever
 * replaced by one that was made from it, under the mailbox's lock; a delta that is not the next one
 * is dropped and the gap is read instead. One thread reads at a time, the others wait for it.
 */
#include "store/view.h"

#include <string.h>

enum { PAGE_ROWS = 8192, RELOAD_UIDS = 20000 };

typedef struct OpenMailbox {
    PhMailboxKey key;
    /* under the table's lock */
    unsigned users;
    bool in_table;
    GList idle_link; /* in the table's `idle` while nobody uses it */
    size_t idle_bytes;
    /* under its own lock */
    PhMutex lock;
    GCond changed; /* `reading` or a watch's `calls` went down */
    PhView *latest;
    bool is_loaded;
    bool reading;
    GPtrArray *watches; /* PhMailboxWatch */
} OpenMailbox;

struct PhMailboxWatch {
    OpenMailbox *open;
    PhMailboxChanged changed;
    void *data;
    unsigned calls; /* under way, on other threads */
};

static struct {
    PhMutex lock;
    bool is_open;
    GHashTable *by_key; /* PhMailboxKey -> OpenMailbox */
    GQueue idle;        /* OpenMailbox without users, the latest used first */
    size_t idle_bytes;
    unsigned n_watches;
} table;

/* -- the table --------------------------------------------------------------------------------- */

static unsigned
hash_key(const void *data)
{
    const PhMailboxKey *key = data;
    return (unsigned)((uint64_t)key->account_id * 31 + (uint64_t)key->mailbox_id);
}

static int
equal_key(const void *left, const void *right)
{
    const PhMailboxKey *a = left;
    const PhMailboxKey *b = right;
    return a->account_id == b->account_id && a->mailbox_id == b->mailbox_id;
}

void
ph_view_table_open(void)
{
    memset(&table, 0, sizeof table);
    ph_mutex_init(&table.lock, PH_LOCK_VIEW_TABLE);
    table.by_key = g_hash_table_new(hash_key, equal_key);
    g_queue_init(&table.idle);
    table.is_open = true;
}

static void
destroy(OpenMailbox *open)
{
    ph_view_unref(open->latest);
    g_ptr_array_unref(open->watches);
    ph_mutex_clear(&open->lock);
    g_cond_clear(&open->changed);
    g_free(open);
}

void
ph_view_table_close(void)
{
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, table.by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        OpenMailbox *open = value;
        if (open->users == 0)
            destroy(open);
        else
            open->in_table = false; /* its last user frees it */
    }
    g_clear_pointer(&table.by_key, g_hash_table_unref);
    g_queue_init(&table.idle);
    table.is_open = false;
}

void
ph_view_table_status(PhStoreStatus *status)
{
    ph_mutex_lock(&table.lock);
    status->n_views = g_hash_table_size(table.by_key);
    status->n_watches = table.n_watches;
    status->view_bytes = table.idle_bytes;
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, table.by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        OpenMailbox *open = value;
        if (open->users == 0)
            continue;
        ph_mutex_lock(&open->lock);
        status->view_bytes += ph_view_memory(open->latest);
        ph_mutex_unlock(&open->lock);
    }
    ph_mutex_unlock(&table.lock);
}

static OpenMailbox *
open_new(PhMailboxKey key)
{
    OpenMailbox *open = g_new0(OpenMailbox, 1);
    open->key = key;
    open->idle_link.data = open;
    open->latest = ph_view_new();
    open->watches = g_ptr_array_new();
    ph_mutex_init(&open->lock, PH_LOCK_VIEW);
    g_cond_init(&open->changed);
    return open;
}

/* Counts a user. Null when it is not open and `make` is false. */
static OpenMailbox *
hold(PhMailboxKey key, bool make)
{
    ph_mutex_lock(&table.lock);
    OpenMailbox *open = table.by_key != NULL ? g_hash_table_lookup(table.by_key, &key) : NULL;
    if (open == NULL && make) {
        open = open_new(key);
        open->in_table = true;
        g_hash_table_insert(table.by_key, &open->key, open);
    } else if (open != NULL && open->users == 0) {
        g_queue_unlink(&table.idle, &open->idle_link);
        table.idle_bytes -= open->idle_bytes;
    }
    if (open != NULL)
        open->users++;
    ph_mutex_unlock(&table.lock);
    return open;
}

static void
remove_locked(OpenMailbox *open)
{
    g_hash_table_remove(table.by_key, &open->key);
    open->in_table = false;
}

/* Drops views that nobody uses, oldest first, until they are few enough. */
static GSList *
evict_locked(void)
{
    GSList *evicted = NULL;
    const PhStoreSettings *settings = ph_store_settings();
    while (table.idle.tail != NULL && table.idle_bytes > settings->views_kept_bytes) {
        OpenMailbox *open = table.idle.tail->data;
        g_queue_unlink(&table.idle, &open->idle_link);
        table.idle_bytes -= open->idle_bytes;
        remove_locked(open);
        evicted = g_slist_prepend(evicted, open);
    }
    return evicted;
}

static void
let_go(OpenMailbox *open)
{
    GSList *evicted = NULL;
    bool dead = false;
    ph_mutex_lock(&table.lock);
    if (--open->users == 0) {
        if (open->in_table && open->is_loaded) {
            open->idle_bytes = ph_view_memory(open->latest);
            table.idle_bytes += open->idle_bytes;
            g_queue_push_head_link(&table.idle, &open->idle_link);
            evicted = evict_locked();
        } else {
            if (open->in_table)
                remove_locked(open);
            dead = true;
        }
    }
    ph_mutex_unlock(&table.lock);
    if (dead)
        destroy(open);
    g_slist_free_full(evicted, (GDestroyNotify)destroy);
}

/* -- versions and watches ---------------------------------------------------------------------- */

/* Takes `next`. Returns the watches to call, each marked as being called. */
static GPtrArray *
install_locked(OpenMailbox *open, PhView *next)
{
    ph_view_unref(open->latest);
    open->latest = next;
    open->is_loaded = true;
    GPtrArray *calls = g_ptr_array_sized_new(open->watches->len);
    for (guint i = 0; i < open->watches->len; i++) {
        PhMailboxWatch *watch = open->watches->pdata[i];
        watch->calls++;
        g_ptr_array_add(calls, watch);
    }
    return calls;
}

static void
call_watches(OpenMailbox *open, GPtrArray *calls)
{
    for (guint i = 0; i < calls->len; i++) {
        PhMailboxWatch *watch = calls->pdata[i];
        if (watch->changed != NULL)
            watch->changed(watch->data);
    }
    ph_mutex_lock(&open->lock);
    for (guint i = 0; i < calls->len; i++)
        ((PhMailboxWatch *)calls->pdata[i])->calls--;
    g_cond_broadcast(&open->changed);
    ph_mutex_unlock(&open->lock);
    g_ptr_array_unref(calls);
}

/* Sessions of this mailbox must leave it; the next one to open it gets a new entry. */
static void
set_gone(OpenMailbox *open)
{
    ph_mutex_lock(&table.lock);
    if (open->in_table)
        remove_locked(open);
    ph_mutex_unlock(&table.lock);
    ph_mutex_lock(&open->lock);
    GPtrArray *calls = ph_view_is_gone(open->latest)
                           ? g_ptr_array_new()
                           : install_locked(open, ph_view_with_gone(open->latest));
    ph_mutex_unlock(&open->lock);
    call_watches(open, calls);
}

void
ph_views_gone_here(PhMailboxKey mailbox)
{
    OpenMailbox *open = hold(mailbox, false);
    if (open == NULL)
        return;
    set_gone(open);
    let_go(open);
}

void
ph_views_gone(PhMailboxKey mailbox)
{
    ph_views_gone_here(mailbox);
    ph_notifier_tell_mailbox(mailbox, INT64_MAX);
}

/* -- reading from the database ----------------------------------------------------------------- */

static const PhStatement read_state = {
    "view-state",
    "SELECT uid_validity, uid_next, modseq FROM mailbox_state WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

static const PhStatement read_changes = {
    "view-changes",
    "SELECT kind, uids FROM mailbox_change\n"
    "WHERE account_id = $1::bigint AND mailbox_id = $2::bigint AND modseq > $3::bigint\n"
    "ORDER BY modseq, kind",
};

static const PhStatement read_page = {
    "view-page",
    "SELECT " PH_VIEW_COLUMNS "\n"
    "FROM mailbox_message\n"
    "WHERE account_id = $1::bigint AND mailbox_id = $2::bigint AND uid > $3::bigint\n"
    "ORDER BY uid\n"
    "LIMIT $4::bigint",
};

static const PhStatement read_rows = {
    "view-rows",
    "SELECT " PH_VIEW_COLUMNS "\n"
    "FROM " PH_SQL_MESSAGES_OF_SET("$2", "$3", "$4") "ORDER BY uid",
};

PH_IN_JOB static GArray *
load_rows(PhLease *lease, PhMailboxKey key, GError **error)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(PhViewRow));
    int64_t last = 0;
    for (;;) {
        g_auto(PhBatch) batch;
        ph_batch_init(&batch);
        PhParams *params = ph_batch_add(&batch, &read_page);
        ph_param_mailbox(params, key);
        ph_param_int64(params, last);
        ph_param_int64(params, PAGE_ROWS);
        if (!ph_batch_run_blocking(lease, &batch, 0, error))
            return NULL;
        const PGresult *rows = ph_batch_result(&batch, 0);
        int count = PQntuples(rows);
        for (int i = 0; i < count; i++) {
            PhViewRow row = ph_view_row_from(rows, i);
            g_array_append_val(all, row);
            last = row.uid;
        }
        if (count < PAGE_ROWS)
            return g_steal_pointer(&all);
    }
}

/* What changed since the version, or everything. */
PH_IN_JOB static bool
read_difference(PhLease *lease, const PhView *base, const PGresult *changes, PhViewDelta *delta,
    bool *all_out, GError **error)
{
    g_autoptr(PhUidSet) touched = ph_uid_set_new();
    delta->gone = ph_uid_set_new();
    for (int i = 0; i < PQntuples(changes); i++) {
        g_autoptr(GArray) pairs = ph_cell_int64_array(changes, i, 1);
        ph_uid_set_add_pairs(ph_cell_int16(changes, i, 0) == 3 ? delta->gone : touched, pairs);
    }
    *all_out = ph_view_highest_modseq(base) == 0 || ph_uid_set_count(touched) > RELOAD_UIDS;
    if (*all_out) {
        delta->rows = load_rows(lease, delta->mailbox, error);
        return delta->rows != NULL;
    }
    if (touched->len == 0)
        return true;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &read_rows);
    ph_param_mailbox(params, delta->mailbox);
    ph_param_uid_set(params, touched);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    delta->rows = ph_view_rows_from(ph_batch_result(&batch, 0));
    return true;
}

static PhView *
version_from(const PhView *base, PhViewDelta *delta, bool all)
{
    if (!all)
        return ph_view_with(base, delta);
    g_clear_pointer(&delta->gone, ph_uid_set_free);
    g_autoptr(PhView) empty = ph_view_new();
    return ph_view_with(empty, delta);
}

/* The next version, in one snapshot of the database. Null in `next_out`: the mailbox is gone. */
PH_IN_JOB static bool
read_version(
    PhLease *lease, PhMailboxKey key, const PhView *base, PhView **next_out, GError **error)
{
    bool is_cold = ph_view_highest_modseq(base) == 0;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin_snapshot);
    ph_param_mailbox(ph_batch_add(&batch, &read_state), key);
    PhParams *params = ph_batch_add(&batch, &read_changes);
    ph_param_mailbox(params, key);
    ph_param_int64(params, is_cold ? INT64_MAX : ph_view_highest_modseq(base));
    ph_param_mailbox(ph_batch_add(&batch, &ph_sql_read_keywords), key);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *state = ph_batch_result(&batch, 1);
    *next_out = NULL;
    bool worked = true;
    if (PQntuples(state) == 1 &&
        (is_cold || (uint32_t)ph_cell_int64(state, 0, 0) == ph_view_uid_validity(base))) {
        g_autoptr(PhViewDelta) delta = ph_view_delta_new(key);
        bool all = false;
        delta->uid_validity = (uint32_t)ph_cell_int64(state, 0, 0);
        delta->uid_next = (uint32_t)ph_cell_int64(state, 0, 1);
        delta->modseq = ph_cell_int64(state, 0, 2);
        delta->keywords = ph_keywords_from(ph_batch_result(&batch, 3));
        worked = read_difference(lease, base, ph_batch_result(&batch, 2), delta, &all, error);
        if (worked)
            *next_out = version_from(base, delta, all);
    }
    if (!worked)
        return false;
    g_auto(PhBatch) end;
    ph_batch_init(&end);
    ph_batch_add(&end, &ph_sql_commit);
    if (ph_batch_run_blocking(lease, &end, 0, error))
        return true;
    g_clear_pointer(next_out, ph_view_unref);
    return false;
}

/* Waits until nobody else reads. False at the deadline. */
static bool
begin_reading_locked(OpenMailbox *open, int64_t deadline_us)
{
    while (open->reading) {
        if (deadline_us == INT64_MAX)
            ph_mutex_wait(&open->lock, &open->changed);
        else if (!ph_mutex_wait_until(&open->lock, &open->changed, deadline_us))
            return false;
    }
    open->reading = true;
    return true;
}

/* Brings the view to `modseq` or later; INT64_MAX: to what the database has. */
PH_IN_JOB static bool
catch_up(OpenMailbox *open, PhLease *lease, int64_t modseq, GError **error)
{
    for (;;) {
        ph_mutex_lock(&open->lock);
        if (!begin_reading_locked(open, lease->deadline_us)) {
            ph_mutex_unlock(&open->lock);
            g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the mailbox was not read in time");
            return false;
        }
        bool is_done = ph_view_is_gone(open->latest) ||
                       (open->is_loaded && ph_view_highest_modseq(open->latest) >= modseq);
        g_autoptr(PhView) base = ph_view_ref(open->latest);
        ph_mutex_unlock(&open->lock);

        PhView *next = NULL;
        bool worked = is_done || read_version(lease, open->key, base, &next, error);
        bool is_missing = worked && !is_done && next == NULL;
        GPtrArray *calls = NULL;

        ph_mutex_lock(&open->lock);
        open->reading = false;
        g_cond_broadcast(&open->changed);
        bool overtaken = next != NULL && open->latest != base;
        bool is_news =
            next != NULL && !overtaken &&
            (!open->is_loaded || ph_view_highest_modseq(next) > ph_view_highest_modseq(base));
        if (is_news)
            calls = install_locked(open, g_steal_pointer(&next));
        ph_mutex_unlock(&open->lock);

        g_clear_pointer(&next, ph_view_unref);
        if (calls != NULL)
            call_watches(open, calls);
        if (is_missing)
            set_gone(open);
        if (!worked)
            return false;
        /* Overtaken: deltas were applied meanwhile. Look again whether that was enough. */
        if (!overtaken)
            return true;
    }
}

bool
ph_views_catch_up_blocking(PhLease *lease, PhMailboxKey mailbox, int64_t modseq, GError **error)
{
    OpenMailbox *open = hold(mailbox, false);
    if (open == NULL)
        return true;
    ph_mutex_lock(&open->lock);
    bool is_watched = open->watches->len > 0;
    ph_mutex_unlock(&open->lock);
    bool worked = !is_watched || catch_up(open, lease, modseq, error);
    let_go(open);
    return worked;
}

/* -- deltas ------------------------------------------------------------------------------------ */

typedef enum Fit {
    FIT_OLD,
    FIT_NEXT,
    FIT_GAP,
} Fit;

static Fit
fit_locked(const OpenMailbox *open, const PhViewDelta *delta)
{
    int64_t modseq = ph_view_highest_modseq(open->latest);
    if (open->watches->len == 0 || ph_view_is_gone(open->latest) ||
        (open->is_loaded && delta->modseq <= modseq))
        return FIT_OLD;
    if (open->is_loaded && delta->modseq == modseq + 1 &&
        delta->uid_validity == ph_view_uid_validity(open->latest))
        return FIT_NEXT;
    return FIT_GAP;
}

void
ph_views_apply_blocking(PhViewDelta *delta, PhLease *lease)
{
    PhMailboxKey key = delta->mailbox;
    int64_t modseq = delta->modseq;
    OpenMailbox *open = hold(key, false);
    if (open != NULL) {
        GPtrArray *calls = NULL;
        ph_mutex_lock(&open->lock);
        Fit fit = fit_locked(open, delta);
        if (fit == FIT_NEXT)
            calls = install_locked(open, ph_view_with(open->latest, delta));
        ph_mutex_unlock(&open->lock);
        if (calls != NULL)
            call_watches(open, calls);
        if (fit == FIT_GAP && (lease == NULL || !catch_up(open, lease, modseq, NULL)))
            ph_notifier_refresh(key);
        let_go(open);
    }
    ph_view_delta_free(delta);
    ph_notifier_tell_mailbox(key, modseq);
}

/* -- watching ---------------------------------------------------------------------------------- */

PhMailboxWatch *
ph_mailbox_watch_blocking(int64_t actor_id, PhMailboxKey mailbox, PhMailboxChanged changed,
    void *data, int64_t deadline_us, GError **error)
{
    if (!ph_right_check(actor_id, mailbox.account_id, PH_RIGHT_READ, error))
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    PhMailboxWatch *watch = g_new0(PhMailboxWatch, 1);
    watch->changed = changed;
    watch->data = data;
    watch->open = hold(mailbox, true);
    ph_mutex_lock(&table.lock);
    table.n_watches++;
    ph_mutex_unlock(&table.lock);
    ph_mutex_lock(&watch->open->lock);
    g_ptr_array_add(watch->open->watches, watch);
    ph_mutex_unlock(&watch->open->lock);
    bool worked = ph_mailbox_watch_refresh_with_blocking(watch, lease, error);
    if (worked) {
        g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
        worked = !ph_view_is_gone(view);
        if (!worked)
            g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such mailbox");
    }
    if (!worked)
        g_clear_pointer(&watch, ph_mailbox_watch_free);
    return watch;
}

void
ph_mailbox_watch_free(PhMailboxWatch *watch)
{
    if (watch == NULL)
        return;
    OpenMailbox *open = watch->open;
    ph_mutex_lock(&open->lock);
    g_ptr_array_remove_fast(open->watches, watch);
    while (watch->calls > 0)
        ph_mutex_wait(&open->lock, &open->changed);
    ph_mutex_unlock(&open->lock);
    ph_mutex_lock(&table.lock);
    table.n_watches--;
    ph_mutex_unlock(&table.lock);
    let_go(open);
    g_free(watch);
}

PhView *
ph_mailbox_watch_latest(PhMailboxWatch *watch)
{
    ph_mutex_lock(&watch->open->lock);
    PhView *view = ph_view_ref(watch->open->latest);
    ph_mutex_unlock(&watch->open->lock);
    return view;
}

/* One small look first: an open mailbox that is up to date costs no more. */
bool
ph_mailbox_watch_refresh_with_blocking(PhMailboxWatch *watch, PhLease *lease, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_mailbox(ph_batch_add(&batch, &read_state), watch->open->key);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *state = ph_batch_result(&batch, 0);
    if (PQntuples(state) == 0) {
        set_gone(watch->open);
        return true;
    }
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    bool renumbered = ph_view_highest_modseq(view) != 0 &&
                      (uint32_t)ph_cell_int64(state, 0, 0) != ph_view_uid_validity(view);
    return catch_up(watch->open, lease, renumbered ? INT64_MAX : ph_cell_int64(state, 0, 2), error);
}

bool
ph_mailbox_watch_refresh_blocking(PhMailboxWatch *watch, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    return lease != NULL && ph_mailbox_watch_refresh_with_blocking(watch, lease, error);
}

/* -- the safety net ---------------------------------------------------------------------------- */

static const PhStatement poll_states = {
    "view-poll",
    "SELECT w.account_id, w.mailbox_id, s.uid_validity, s.modseq\n"
    "FROM unnest($1::bigint[], $2::bigint[]) AS w (account_id, mailbox_id)\n"
    "LEFT JOIN mailbox_state s ON s.account_id = w.account_id AND s.mailbox_id = w.mailbox_id",
};

static GArray *
used_keys(void)
{
    GArray *keys = g_array_new(FALSE, FALSE, sizeof(PhMailboxKey));
    ph_mutex_lock(&table.lock);
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, table.by_key);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const OpenMailbox *open = value;
        if (open->users > 0)
            g_array_append_val(keys, open->key);
    }
    ph_mutex_unlock(&table.lock);
    return keys;
}

PH_IN_JOB static bool
poll_some(PhLease *lease, const PhMailboxKey *keys, guint count, GError **error)
{
    g_auto(PhSqlArray) accounts;
    g_auto(PhSqlArray) mailboxes;
    ph_sql_array_init(&accounts, PH_SQL_INT8);
    ph_sql_array_init(&mailboxes, PH_SQL_INT8);
    for (guint i = 0; i < count; i++) {
        ph_sql_array_add_int(&accounts, keys[i].account_id);
        ph_sql_array_add_int(&mailboxes, keys[i].mailbox_id);
    }
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &poll_states);
    ph_param_array(params, &accounts);
    ph_param_array(params, &mailboxes);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhMailboxKey key = { ph_cell_int64(rows, i, 0), ph_cell_int64(rows, i, 1) };
        if (PQgetisnull(rows, i, 3))
            ph_views_gone_here(key);
        else if (!ph_views_catch_up_blocking(lease, key, ph_cell_int64(rows, i, 3), error))
            return false;
    }
    return true;
}

bool
ph_views_poll_blocking(PhLease *lease, GError **error)
{
    g_autoptr(GArray) keys = used_keys();
    for (guint from = 0; from < keys->len; from += 1000) {
        guint count = MIN(keys->len - from, 1000);
        if (!poll_some(lease, &g_array_index(keys, PhMailboxKey, from), count, error))
            return false;
    }
    return true;
}
