/* expunge.c - expunging, undelete, and erasing for good
 *
 * Hard here: a body may only go when nothing refers to its message, while COPY, undelete and
 * delivery go on beside. The purge first locks the message rows: whoever adds a reference holds a
 * share lock on the row (the foreign key's), so a look for references after that lock sees all of
 * them. The foreign keys would refuse a mistake.
 */
#include "store/view.h"

#include <string.h>

/* -- expunge ----------------------------------------------------------------------------------- */

/* 8 is \Deleted. The modseq is read in the statement, which runs after the lock. `which` deletes
 * rows of mailbox_message as `t`. */
#define EXPUNGE(which) \
    "WITH state AS (\n" \
    "    SELECT modseq + 1 AS modseq, uid_validity, uid_next FROM mailbox_state\n" \
    "    WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n" \
    "), gone AS (\n" \
    "    DELETE FROM mailbox_message t\n" which \
    "    RETURNING t.uid, t.message_id, t.flags, t.keywords, t.internal_date_us, t.size_bytes\n" \
    "), kept AS (\n" \
    "    INSERT INTO expunged (account_id, mailbox_id, uid, message_id, flags, keywords,\n" \
    "                          internal_date_us, size_bytes, mailbox_name)\n" \
    "    SELECT $1::bigint, $2::bigint, g.uid, g.message_id, g.flags, g.keywords,\n" \
    "           g.internal_date_us, g.size_bytes, b.name\n" \
    "    FROM gone g\n" \
    "    JOIN mailbox b ON b.account_id = $1::bigint AND b.mailbox_id = $2::bigint\n" \
    "), log AS (\n" \
    "    INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n" \
    "    SELECT $1::bigint, $2::bigint, (SELECT modseq FROM state), 3, uid_runs(array_agg(uid))\n" \
    "    FROM gone HAVING count(*) > 0\n" \
    "), sums AS (\n" \
    "    SELECT count(*) AS n, count(*) FILTER (WHERE flags & 1 = 0) AS unseen,\n" \
    "           coalesce(sum(size_bytes), 0) AS bytes\n" \
    "    FROM gone\n" \
    "), counted AS (\n" \
    "    UPDATE mailbox_state s\n" \
    "    SET modseq = s.modseq + 1, n_messages = s.n_messages - d.n::integer,\n" \
    "        n_unseen = s.n_unseen - d.unseen::integer, n_deleted = s.n_deleted - d.n::integer,\n" \
    "        size_bytes = s.size_bytes - d.bytes\n" \
    "    FROM sums d\n" \
    "    WHERE s.account_id = $1::bigint AND s.mailbox_id = $2::bigint AND d.n > 0\n" \
    "), used AS (\n" \
    "    UPDATE usage u SET bytes = u.bytes - d.bytes, messages = u.messages - d.n\n" \
    "    FROM sums d\n" \
    "    WHERE u.account_id = $1::bigint AND d.n > 0\n" \
    ")\n" \
    "SELECT g.uid, s.modseq, s.uid_validity, s.uid_next FROM gone g, state s ORDER BY g.uid"

static const PhStatement expunge_all = {
    "expunge-all",
    EXPUNGE(
        "    WHERE t.account_id = $1::bigint AND t.mailbox_id = $2::bigint AND t.flags & 8 <> 0\n"),
};

static const PhStatement expunge_set = {
    "expunge-set",
    EXPUNGE("    USING " PH_SQL_MESSAGES_OF_SET("$2", "$3", "$4") //
        "    WHERE t.ctid = m.ctid AND m.flags & 8 <> 0\n"),
};

PH_IN_JOB static void
tell_gone(PhMailboxKey mailbox, const PGresult *rows, PhLease *lease)
{
    PhViewDelta *delta = ph_view_delta_new(mailbox);
    delta->modseq = ph_cell_int64(rows, 0, 1);
    delta->uid_validity = (uint32_t)ph_cell_int64(rows, 0, 2);
    delta->uid_next = (uint32_t)ph_cell_int64(rows, 0, 3);
    delta->gone = ph_uid_set_new();
    for (int i = 0; i < PQntuples(rows); i++) {
        uint32_t uid = (uint32_t)ph_cell_int64(rows, i, 0);
        ph_uid_set_add(delta->gone, uid, uid);
    }
    ph_views_apply_blocking(delta, lease);
}

bool
ph_mailbox_expunge_blocking(int64_t actor_id, PhMailboxKey mailbox, const PhUidSet *uids,
    int64_t deadline_us, GError **error)
{
    if (!ph_right_check(actor_id, mailbox.account_id, PH_RIGHT_EXPUNGE, error))
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_mailbox(ph_batch_add(&batch, &ph_sql_lock_state), mailbox);
    PhParams *params = ph_batch_add(&batch, uids != NULL ? &expunge_set : &expunge_all);
    ph_param_mailbox(params, mailbox);
    if (uids != NULL)
        ph_param_uid_set(params, uids);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error) ||
        !ph_check_mailbox_row(ph_batch_result(&batch, 1), error))
        return false;
    const PGresult *gone = ph_batch_result(&batch, 2);
    if (PQntuples(gone) > 0)
        tell_gone(mailbox, gone, lease);
    return true;
}

/* -- undelete ---------------------------------------------------------------------------------- */

void
ph_expunged_free(PhExpunged *expunged)
{
    if (expunged == NULL)
        return;
    g_free(expunged->mailbox_name);
    g_free(expunged);
}

static const PhStatement list_expunged = {
    "expunged-list",
    "SELECT e.message_id, e.expunged_at, e.uid, coalesce(m.name, e.mailbox_name), e.size_bytes,\n"
    "       (extract(epoch FROM e.expunged_at) * 1000000)::bigint || ':' || e.mailbox_id || ':' || e.uid\n"
    "FROM expunged e\n"
    "LEFT JOIN mailbox m ON m.account_id = e.account_id AND m.mailbox_id = e.mailbox_id\n"
    "WHERE e.account_id = $1::bigint\n"
    "  AND ($2::bigint IS NULL OR (e.expunged_at, e.mailbox_id, e.uid)\n"
    "       < (to_timestamp(0) + $2::bigint * interval '1 microsecond', $3::bigint, $4::bigint))\n"
    "ORDER BY e.expunged_at DESC, e.mailbox_id DESC, e.uid DESC\n"
    "LIMIT $5::bigint",
};

/* "time:mailbox:uid" */
static void
add_place(PhParams *params, const char *after)
{
    g_auto(GStrv) parts = after != NULL ? g_strsplit(after, ":", 3) : NULL;
    bool whole = parts != NULL && g_strv_length(parts) == 3;
    for (int i = 0; i < 3; i++) {
        if (whole)
            ph_param_int64(params, g_ascii_strtoll(parts[i], NULL, 10));
        else
            ph_param_null(params);
    }
}

static void *
read_expunged(const PGresult *rows, int i)
{
    PhExpunged *expunged = g_new0(PhExpunged, 1);
    expunged->message_id = ph_cell_int64(rows, i, 0);
    expunged->expunged_us = ph_cell_timestamp_us(rows, i, 1);
    expunged->uid = (uint32_t)ph_cell_int64(rows, i, 2);
    expunged->mailbox_name = ph_cell_dup(rows, i, 3);
    expunged->size_bytes = ph_cell_int32(rows, i, 4);
    return expunged;
}

static const PhListing expunged_listing = {
    .read_item = read_expunged,
    .free_item = (GDestroyNotify)ph_expunged_free,
    .place = 5,
};

PhPage *
ph_expunged_list_blocking(
    int64_t account_id, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_expunged);
    ph_param_int64(params, account_id);
    add_place(params, after);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &expunged_listing, limit, error);
}

/* Where it goes: its mailbox, or INBOX. The newest, when it was expunged from several. */
static const PhStatement find_target = {
    "expunged-target",
    "SELECT e.mailbox_id, e.uid, coalesce(s.mailbox_id, i.mailbox_id)\n"
    "FROM expunged e\n"
    "LEFT JOIN mailbox_state s ON s.account_id = e.account_id AND s.mailbox_id = e.mailbox_id\n"
    "LEFT JOIN mailbox i ON i.account_id = e.account_id AND i.name = 'INBOX'\n"
    "WHERE e.account_id = $1::bigint AND e.message_id = $2::bigint\n"
    "ORDER BY e.expunged_at DESC\n"
    "LIMIT 1",
};

/* $3, $4: the row of `expunged`; the target's state row is locked. \Deleted does not come back.
 * Keywords only mean something in the mailbox that they were given in. */
static const PhStatement restore = {
    "expunged-restore",
    "WITH back AS (\n"
    "    DELETE FROM expunged WHERE account_id = $1::bigint AND mailbox_id = $3::bigint AND uid = $4::bigint\n"
    "    RETURNING message_id, flags & ~8 AS flags, CASE WHEN mailbox_id = $2::bigint THEN keywords ELSE 0 END AS keywords,\n"
    "              internal_date_us, size_bytes\n"
    "), state AS (\n"
    "    UPDATE mailbox_state s\n"
    "    SET uid_next = s.uid_next + 1, modseq = s.modseq + 1, n_messages = s.n_messages + 1,\n"
    "        n_unseen = s.n_unseen + CASE WHEN b.flags & 1 = 0 THEN 1 ELSE 0 END, size_bytes = s.size_bytes + b.size_bytes\n"
    "    FROM back b\n"
    "    WHERE s.account_id = $1::bigint AND s.mailbox_id = $2::bigint\n"
    "    RETURNING s.uid_next - 1 AS uid, s.modseq, s.uid_validity\n"
    "), put AS (\n"
    "    INSERT INTO mailbox_message (account_id, mailbox_id, uid, message_id, modseq, keywords, internal_date_us, saved_us,\n"
    "                                 size_bytes, flags)\n"
    "    SELECT $1::bigint, $2::bigint, s.uid, b.message_id, s.modseq, b.keywords, b.internal_date_us, $5::bigint, b.size_bytes,\n"
    "           b.flags\n"
    "    FROM back b, state s\n"
    "), log AS (\n"
    "    INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
    "    SELECT $1::bigint, $2::bigint, s.modseq, 1, ARRAY[s.uid, s.uid] FROM state s\n"
    "), used AS (\n"
    "    UPDATE usage u SET bytes = u.bytes + b.size_bytes, messages = u.messages + 1 FROM back b WHERE u.account_id = $1::bigint\n"
    ")\n"
    "SELECT s.uid, b.message_id, s.modseq, b.keywords, b.internal_date_us, b.size_bytes, b.flags, s.uid_validity\n"
    "FROM back b, state s",
};

static bool
no_such_message(GError **error)
{
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such expunged message");
    return false;
}

PH_IN_JOB static void
tell_back(PhMailboxKey mailbox, const PGresult *rows, PhLease *lease)
{
    PhViewDelta *delta = ph_view_delta_new(mailbox);
    delta->rows = ph_view_rows_from(rows);
    delta->modseq = ph_cell_int64(rows, 0, 2);
    delta->uid_next = (uint32_t)ph_cell_int64(rows, 0, 0) + 1;
    delta->uid_validity = (uint32_t)ph_cell_int64(rows, 0, 7);
    ph_views_apply_blocking(delta, lease);
}

bool
ph_expunged_restore_blocking(
    int64_t account_id, int64_t message_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &find_target);
    ph_param_int64(params, account_id);
    ph_param_int64(params, message_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *found = ph_batch_result(&batch, 0);
    if (PQntuples(found) == 0 || PQgetisnull(found, 0, 2))
        return no_such_message(error);
    int64_t from = ph_cell_int64(found, 0, 0);
    int64_t uid = ph_cell_int64(found, 0, 1);
    PhMailboxKey target = { account_id, ph_cell_int64(found, 0, 2) };
    ph_batch_restart(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_mailbox(ph_batch_add(&batch, &ph_sql_lock_state), target);
    params = ph_batch_add(&batch, &restore);
    ph_param_mailbox(params, target);
    ph_param_int64(params, from);
    ph_param_int64(params, uid);
    ph_param_int64(params, ph_time_now_us());
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    /* Without the target's row nothing was put anywhere: do not commit. */
    if (PQntuples(ph_batch_result(&batch, 2)) == 0)
        return no_such_message(error);
    g_auto(PhBatch) end;
    ph_batch_init(&end);
    ph_batch_add(&end, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &end, 0, error))
        return false;
    tell_back(target, ph_batch_result(&batch, 2), lease);
    return true;
}

/* -- purge ------------------------------------------------------------------------------------- */

/* Rows that an undelete has under way are passed over. */
static const PhStatement forget_expunged = {
    "purge-expunged",
    "DELETE FROM expunged e\n"
    "USING (\n"
    "    SELECT account_id, mailbox_id, uid FROM expunged\n"
    "    WHERE expunged_at < to_timestamp(0) + $1::bigint * interval '1 microsecond'\n"
    "    ORDER BY expunged_at\n"
    "    LIMIT $2::bigint\n"
    "    FOR UPDATE SKIP LOCKED\n"
    ") AS old\n"
    "WHERE e.account_id = old.account_id AND e.mailbox_id = old.mailbox_id AND e.uid = old.uid\n"
    "RETURNING e.account_id, e.message_id",
};

static const PhStatement lock_messages = {
    "purge-lock",
    "SELECT m.message_id\n"
    "FROM unnest($1::bigint[], $2::bigint[]) AS p (account_id, message_id)\n"
    "JOIN message m ON m.account_id = p.account_id AND m.message_id = p.message_id\n"
    "ORDER BY m.account_id, m.message_id\n"
    "FOR UPDATE OF m",
};

#define UNREFERENCED(table) \
    "  AND NOT EXISTS (SELECT FROM mailbox_message r\n" \
    "                  WHERE r.account_id = " table ".account_id AND r.message_id = " table \
    ".message_id)\n" \
    "  AND NOT EXISTS (SELECT FROM expunged r\n" \
    "                  WHERE r.account_id = " table ".account_id AND r.message_id = " table \
    ".message_id)"

static const PhStatement erase_bodies = {
    "purge-bodies",
    "DELETE FROM blob b USING unnest($1::bigint[], $2::bigint[]) AS p (account_id, message_id)\n"
    "WHERE b.account_id = p.account_id AND b.message_id = p.message_id\n" UNREFERENCED("b"),
};

static const PhStatement erase_messages = {
    "purge-messages",
    "DELETE FROM message m USING unnest($1::bigint[], $2::bigint[]) AS p (account_id, message_id)\n"
    "WHERE m.account_id = p.account_id AND m.message_id = p.message_id\n" UNREFERENCED("m"),
};

static void
add_ids(PhParams *params, const PGresult *rows)
{
    g_auto(PhSqlArray) accounts;
    g_auto(PhSqlArray) messages;
    ph_sql_array_init(&accounts, PH_SQL_INT8);
    ph_sql_array_init(&messages, PH_SQL_INT8);
    for (int i = 0; i < PQntuples(rows); i++) {
        ph_sql_array_add_int(&accounts, ph_cell_int64(rows, i, 0));
        ph_sql_array_add_int(&messages, ph_cell_int64(rows, i, 1));
    }
    ph_param_array(params, &accounts);
    ph_param_array(params, &messages);
}

bool
ph_purge_blocking(
    int64_t before_us, unsigned limit, int64_t deadline_us, unsigned *n_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) first;
    ph_batch_init(&first);
    ph_batch_add(&first, &ph_sql_begin);
    PhParams *params = ph_batch_add(&first, &forget_expunged);
    ph_param_int64(params, before_us);
    ph_param_int64(params, limit);
    if (!ph_batch_run_blocking(lease, &first, 0, error))
        return false;
    const PGresult *forgotten = ph_batch_result(&first, 1);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    add_ids(ph_batch_add(&batch, &lock_messages), forgotten);
    add_ids(ph_batch_add(&batch, &erase_bodies), forgotten);
    add_ids(ph_batch_add(&batch, &erase_messages), forgotten);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (n_out != NULL)
        *n_out = (unsigned)PQntuples(forgotten);
    return true;
}
