/* copy.c - COPY and MOVE
 *
 * A copy is a row of membership; the message and its body are shared. Both mailboxes' state rows
 * are locked in order before anything is read, then the usage row of the account that gains.
 */
#include "store/view.h"

#include <string.h>

static const uint32_t UID_MAX = UINT32_MAX - 1;

void
ph_copy_result_free(PhCopyResult *result)
{
    if (result == NULL)
        return;
    g_clear_pointer(&result->source, ph_uid_set_free);
    g_clear_pointer(&result->target, ph_uid_set_free);
    g_free(result);
}

static const PhStatement lock_states = {
    "copy-states",
    "SELECT s.mailbox_id, s.uid_validity, s.uid_next, s.modseq\n"
    "FROM mailbox_state s\n"
    "WHERE s.account_id = $1::bigint AND s.mailbox_id IN ($2::bigint, $3::bigint)\n"
    "ORDER BY s.mailbox_id\n"
    "FOR UPDATE",
};

static const PhStatement measure = {
    "copy-measure",
    "SELECT count(*), coalesce(sum(m.size_bytes), 0)::bigint, coalesce(bit_or(m.keywords), 0)\n"
    "FROM " PH_SQL_MESSAGES_OF_SET("$2", "$3", "$4"),
};

static const PhStatement lock_usage = {
    "copy-usage",
    "SELECT bytes, messages, quota_bytes, quota_messages FROM usage WHERE account_id = $1::bigint FOR UPDATE",
};

/* $6 and $7: keyword bits of the source and what they are in the target. $8: first UID, $9: modseq
 * of the target. */
static const PhStatement copy_rows = {
    "copy-rows",
    "WITH source AS (\n"
    "    SELECT m.uid AS old_uid, $8::bigint - 1 + row_number() OVER (ORDER BY m.uid) AS uid,\n"
    "           m.message_id, m.flags, m.internal_date_us, m.size_bytes,\n"
    "           CASE WHEN m.keywords = 0 THEN 0 ELSE (\n"
    "               SELECT coalesce(bit_or(1::bigint << b.target), 0)\n"
    "               FROM unnest($6::integer[], $7::integer[]) AS b (source, target)\n"
    "               WHERE (m.keywords >> b.source) & 1 = 1\n"
    "           ) END AS keywords\n"
    "    FROM " PH_SQL_MESSAGES_OF_SET("$2", "$4",
        "$5") "), put AS (\n"
              "    INSERT INTO mailbox_message (account_id, mailbox_id, uid, message_id, modseq, keywords,\n"
              "                                 internal_date_us, saved_us, size_bytes, flags)\n"
              "    SELECT $1::bigint, $3::bigint, uid, message_id, $9::bigint, keywords, internal_date_us,\n"
              "           $10::bigint, size_bytes, flags\n"
              "    FROM source\n"
              "), log AS (\n"
              "    INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
              "    SELECT $1::bigint, $3::bigint, $9::bigint, 1, ARRAY[min(uid), max(uid)] FROM source\n"
              "), state AS (\n"
              "    UPDATE mailbox_state s\n"
              "    SET uid_next = s.uid_next + d.n, modseq = $9::bigint,\n"
              "        n_messages = s.n_messages + d.n::integer, n_unseen = s.n_unseen + d.unseen::integer,\n"
              "        n_deleted = s.n_deleted + d.deleted::integer, size_bytes = s.size_bytes + d.bytes\n"
              "    FROM (\n"
              "        SELECT count(*) AS n, count(*) FILTER (WHERE flags & 1 = 0) AS unseen,\n"
              "               count(*) FILTER (WHERE flags & 8 <> 0) AS deleted,\n"
              "               coalesce(sum(size_bytes), 0) AS bytes\n"
              "        FROM source\n"
              "    ) AS d\n"
              "    WHERE s.account_id = $1::bigint AND s.mailbox_id = $3::bigint\n"
              ")\n"
              "SELECT uid, message_id, $9::bigint, keywords, internal_date_us, size_bytes, flags, old_uid\n"
              "FROM source ORDER BY uid",
};

/* A move within a mailbox's own rows: those that were copied are below $6, the first new UID. */
static const PhStatement take_away = {
    "copy-take-away",
    "WITH gone AS (\n"
    "    DELETE FROM mailbox_message t\n"
    "    USING " PH_SQL_MESSAGES_OF_SET("$2", "$3",
        "$4") "    WHERE t.ctid = m.ctid AND m.uid < $6::bigint\n"
              "    RETURNING t.uid, t.flags, t.size_bytes\n"
              "), log AS (\n"
              "    INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
              "    SELECT $1::bigint, $2::bigint, $5::bigint, 3, uid_runs(array_agg(uid)) FROM gone\n"
              ")\n"
              "UPDATE mailbox_state s\n"
              "SET modseq = $5::bigint, n_messages = s.n_messages - d.n::integer,\n"
              "    n_unseen = s.n_unseen - d.unseen::integer, n_deleted = s.n_deleted - d.deleted::integer,\n"
              "    size_bytes = s.size_bytes - d.bytes\n"
              "FROM (\n"
              "    SELECT count(*) AS n, count(*) FILTER (WHERE flags & 1 = 0) AS unseen,\n"
              "           count(*) FILTER (WHERE flags & 8 <> 0) AS deleted,\n"
              "           coalesce(sum(size_bytes), 0) AS bytes\n"
              "    FROM gone\n"
              ") AS d\n"
              "WHERE s.account_id = $1::bigint AND s.mailbox_id = $2::bigint",
};

static const PhStatement add_usage = {
    "copy-add-usage",
    "UPDATE usage SET bytes = bytes + $2::bigint, messages = messages + $3::bigint WHERE account_id = $1::bigint",
};

typedef struct Copy {
    PhLease *lease;
    PhMailboxKey source;
    PhMailboxKey target;
    const PhUidSet *uids;
    bool move;
    bool same; /* source and target are one mailbox */
    /* as locked */
    uint32_t source_validity;
    uint32_t source_uid_next;
    int64_t source_modseq;
    uint32_t target_validity;
    int64_t target_uid_next;
    int64_t target_modseq;
    int64_t count;
    int64_t bytes;
    uint64_t used_bits;
    GPtrArray *source_keywords;
    GPtrArray *target_keywords;
    uint64_t new_bits;
} Copy;

static bool
take_states(Copy *copy, const PGresult *rows, GError **error)
{
    bool source = false;
    bool target = false;
    for (int i = 0; i < PQntuples(rows); i++) {
        int64_t id = ph_cell_int64(rows, i, 0);
        if (id == copy->source.mailbox_id) {
            source = true;
            copy->source_validity = (uint32_t)ph_cell_int64(rows, i, 1);
            copy->source_uid_next = (uint32_t)ph_cell_int64(rows, i, 2);
            copy->source_modseq = ph_cell_int64(rows, i, 3);
        }
        if (id == copy->target.mailbox_id) {
            target = true;
            copy->target_validity = (uint32_t)ph_cell_int64(rows, i, 1);
            copy->target_uid_next = ph_cell_int64(rows, i, 2);
            copy->target_modseq = ph_cell_int64(rows, i, 3);
        }
    }
    if (!source || !target)
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            source ? "the target mailbox is missing" : "no such mailbox");
    return source && target;
}

static bool
check_quota(const Copy *copy, const PGresult *rows, GError **error)
{
    if (PQntuples(rows) == 0 || copy->move)
        return true;
    int64_t quota_bytes = ph_cell_int64(rows, 0, 2);
    int64_t quota_messages = ph_cell_int64(rows, 0, 3);
    bool over = (quota_bytes > 0 && ph_cell_int64(rows, 0, 0) + copy->bytes > quota_bytes) ||
                (quota_messages > 0 && ph_cell_int64(rows, 0, 1) + copy->count > quota_messages);
    if (over)
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "the account is over its quota");
    return !over;
}

PH_IN_JOB static bool
look(Copy *copy, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &lock_states);
    ph_param_mailbox(params, copy->source);
    ph_param_int64(params, copy->target.mailbox_id);
    params = ph_batch_add(&batch, &measure);
    ph_param_mailbox(params, copy->source);
    ph_param_uid_set(params, copy->uids);
    ph_param_mailbox(ph_batch_add(&batch, &ph_sql_read_keywords), copy->source);
    ph_param_mailbox(ph_batch_add(&batch, &ph_sql_read_keywords), copy->target);
    ph_param_int64(ph_batch_add(&batch, &lock_usage), copy->target.account_id);
    if (!ph_batch_run_blocking(copy->lease, &batch, 0, error) ||
        !take_states(copy, ph_batch_result(&batch, 1), error))
        return false;
    const PGresult *measured = ph_batch_result(&batch, 2);
    copy->count = ph_cell_int64(measured, 0, 0);
    copy->bytes = ph_cell_int64(measured, 0, 1);
    copy->used_bits = (uint64_t)ph_cell_int64(measured, 0, 2);
    copy->source_keywords = ph_keywords_from(ph_batch_result(&batch, 3));
    copy->target_keywords = ph_keywords_from(ph_batch_result(&batch, 4));
    if (copy->target_uid_next + copy->count > UID_MAX) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_LIMIT, "the mailbox has no more numbers for messages");
        return false;
    }
    return check_quota(copy, ph_batch_result(&batch, 5), error);
}

/* Keywords for which the target has no room stay behind. */
static void
add_keyword_map(Copy *copy, PhSqlArray *from, PhSqlArray *to)
{
    for (int bit = 0; bit < PH_KEYWORDS_MAX; bit++) {
        const char *name = copy->source_keywords->pdata[bit];
        if ((copy->used_bits >> bit & 1) == 0 || name == NULL)
            continue;
        bool is_new = false;
        int target = ph_keyword_bit(copy->target_keywords, name, &is_new);
        if (target < 0)
            continue;
        copy->new_bits |= is_new ? UINT64_C(1) << target : 0;
        ph_sql_array_add_int(from, bit);
        ph_sql_array_add_int(to, target);
    }
}

/* When both are one mailbox, a move is two changes of it, with two modseqs. */
static int64_t
taken_modseq(const Copy *copy)
{
    return copy->same ? copy->target_modseq + 2 : copy->source_modseq + 1;
}

static unsigned
add_writes(Copy *copy, PhBatch *batch)
{
    g_auto(PhSqlArray) from;
    g_auto(PhSqlArray) to;
    ph_sql_array_init(&from, PH_SQL_INT4);
    ph_sql_array_init(&to, PH_SQL_INT4);
    add_keyword_map(copy, &from, &to);
    if (copy->new_bits != 0)
        ph_batch_add_keywords(batch, copy->target, copy->target_keywords, copy->new_bits);
    unsigned rows = batch->n_calls;
    PhParams *params = ph_batch_add(batch, &copy_rows);
    ph_param_mailbox(params, copy->source);
    ph_param_int64(params, copy->target.mailbox_id);
    ph_param_uid_set(params, copy->uids);
    ph_param_array(params, &from);
    ph_param_array(params, &to);
    ph_param_int64(params, copy->target_uid_next);
    ph_param_int64(params, copy->target_modseq + 1);
    ph_param_int64(params, ph_time_now_us());
    if (copy->move) {
        params = ph_batch_add(batch, &take_away);
        ph_param_mailbox(params, copy->source);
        ph_param_uid_set(params, copy->uids);
        ph_param_int64(params, taken_modseq(copy));
        ph_param_int64(params, copy->same ? copy->target_uid_next : INT64_MAX);
    } else {
        params = ph_batch_add(batch, &add_usage);
        ph_param_int64(params, copy->target.account_id);
        ph_param_int64(params, copy->bytes);
        ph_param_int64(params, copy->count);
    }
    ph_batch_add(batch, &ph_sql_commit);
    return rows;
}

static PhCopyResult *
result_from(const Copy *copy, const PGresult *rows)
{
    PhCopyResult *result = g_new0(PhCopyResult, 1);
    result->uid_validity = copy->target_validity;
    result->source = ph_uid_set_new();
    result->target = ph_uid_set_new();
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        uint32_t uid = (uint32_t)ph_cell_int64(rows, i, 0);
        uint32_t old_uid = (uint32_t)ph_cell_int64(rows, i, 7);
        ph_uid_set_add(result->target, uid, uid);
        ph_uid_set_add(result->source, old_uid, old_uid);
    }
    return result;
}

static PhUidSet *
set_copy(const PhUidSet *set)
{
    PhUidSet *copy = ph_uid_set_new();
    g_array_append_vals(copy, set->data, set->len);
    return copy;
}

PH_IN_JOB static void
tell(Copy *copy, const PGresult *rows, const PhCopyResult *result)
{
    PhViewDelta *delta = ph_view_delta_new(copy->target);
    delta->uid_validity = copy->target_validity;
    delta->uid_next = (uint32_t)(copy->target_uid_next + copy->count);
    delta->modseq = copy->target_modseq + 1;
    delta->rows = ph_view_rows_from(rows);
    delta->keywords = copy->new_bits != 0 ? g_steal_pointer(&copy->target_keywords) : NULL;
    uint32_t target_uid_next = delta->uid_next;
    ph_views_apply_blocking(delta, copy->lease);
    if (!copy->move)
        return;
    delta = ph_view_delta_new(copy->source);
    delta->uid_validity = copy->source_validity;
    delta->uid_next = copy->same ? target_uid_next : copy->source_uid_next;
    delta->modseq = taken_modseq(copy);
    delta->gone = set_copy(result->source);
    ph_views_apply_blocking(delta, copy->lease);
}

PH_IN_JOB static PhCopyResult *
run(Copy *copy, GError **error)
{
    if (!look(copy, error))
        return NULL;
    if (copy->count == 0)
        return result_from(copy, NULL);
    PhBatch *batch = g_new(PhBatch, 1);
    ph_batch_init(batch);
    unsigned rows = add_writes(copy, batch);
    PhCopyResult *result = NULL;
    if (ph_batch_run_blocking(copy->lease, batch, 0, error)) {
        result = result_from(copy, ph_batch_result(batch, rows));
        tell(copy, ph_batch_result(batch, rows), result);
    }
    ph_batch_clear(batch);
    g_free(batch);
    return result;
}

PhCopyResult *
ph_mailbox_copy_blocking(int64_t actor_id, PhMailboxKey source, const PhUidSet *uids,
    PhMailboxKey target, bool move, int64_t deadline_us, GError **error)
{
    if (!ph_right_check(actor_id, source.account_id, PH_RIGHT_READ, error) ||
        !ph_right_check(actor_id, target.account_id, PH_RIGHT_INSERT, error) ||
        (move && !ph_right_check(actor_id, source.account_id, PH_RIGHT_EXPUNGE, error)))
        return NULL;
    /* The rights allow one account only, so that the message row is shared. */
    g_assert(source.account_id == target.account_id);
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    Copy copy = {
        .lease = lease,
        .source = source,
        .target = target,
        .uids = uids,
        .move = move,
        .same = source.mailbox_id == target.mailbox_id,
    };
    PhCopyResult *result = run(&copy, error);
    g_clear_pointer(&copy.source_keywords, g_ptr_array_unref);
    g_clear_pointer(&copy.target_keywords, g_ptr_array_unref);
    return result;
}
