/* flags.c - changing flags and keywords
 *
 * The lock on the state row is held before the rows are read, so what is read is the latest and
 * nobody else changes it. Only rows that differ are written; a request that changes nothing leaves
 * the modseq alone.
 */
#include "store/view.h"

#include <string.h>

const PhStatement ph_sql_lock_state = {
    "mailbox-lock",
    "SELECT uid_validity, uid_next, modseq FROM mailbox_state\n"
    "WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "FOR UPDATE",
};

const PhStatement ph_sql_read_keywords = {
    "mailbox-keywords",
    "SELECT bit, name FROM keyword WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

static const PhStatement add_keywords = {
    "mailbox-keyword-add",
    "INSERT INTO keyword (account_id, mailbox_id, bit, name)\n"
    "SELECT $1::bigint, $2::bigint, bit, name FROM unnest($3::smallint[], $4::text[]) AS n (bit, name)",
};

/* Those of the set that are newer than the client knows. */
static const PhStatement find_modified = {
    "flags-modified",
    "SELECT m.uid\n"
    "FROM " PH_SQL_MESSAGES_OF_SET("$2", "$3", "$4") "WHERE m.modseq > $5::bigint\n"
                                                     "ORDER BY m.uid",
};

/* $6 clears and $7 sets flags, $8 and $9 keywords; $10 is the new modseq. 1 is \Seen, 8 is
 * \Deleted. Under the state row's lock nobody moves a row, so that ctid finds it again. */
static const PhStatement change = {
    "flags-change",
    "WITH changed AS (\n"
    "    UPDATE mailbox_message t\n"
    "    SET flags = n.new_flags, keywords = n.new_keywords, modseq = $10::bigint\n"
    "    FROM (\n"
    "        SELECT m.ctid, m.flags, (m.flags & ~$6::integer) | $7::integer AS new_flags,\n"
    "               (m.keywords & ~$8::bigint) | $9::bigint AS new_keywords\n"
    "        FROM " PH_SQL_MESSAGES_OF_SET("$2", "$3",
        "$4") "        WHERE m.modseq <= $5::bigint\n"
              "          AND ((m.flags & ~$6::integer) | $7::integer <> m.flags\n"
              "               OR (m.keywords & ~$8::bigint) | $9::bigint <> m.keywords)\n"
              "    ) AS n\n"
              "    WHERE t.ctid = n.ctid\n"
              "    RETURNING t.uid, t.message_id, t.modseq, t.keywords, t.internal_date_us, t.size_bytes,\n"
              "              t.flags, n.flags AS old_flags\n"
              "), log AS (\n"
              "    INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
              "    SELECT $1::bigint, $2::bigint, $10::bigint, 2, uid_runs(array_agg(uid))\n"
              "    FROM changed HAVING count(*) > 0\n"
              "), state AS (\n"
              "    UPDATE mailbox_state s\n"
              "    SET modseq = $10::bigint, n_unseen = s.n_unseen + d.unseen,\n"
              "        n_deleted = s.n_deleted + d.deleted\n"
              "    FROM (\n"
              "        SELECT count(*) AS n, coalesce(sum((old_flags & 1) - (flags & 1)), 0)::integer AS unseen,\n"
              "               coalesce(sum(((flags & 8) - (old_flags & 8)) / 8), 0)::integer AS deleted\n"
              "        FROM changed\n"
              "    ) AS d\n"
              "    WHERE s.account_id = $1::bigint AND s.mailbox_id = $2::bigint AND d.n > 0\n"
              ")\n"
              "SELECT " PH_VIEW_COLUMNS " FROM changed ORDER BY uid",
};

void
ph_param_mailbox(PhParams *params, PhMailboxKey mailbox)
{
    ph_param_int64(params, mailbox.account_id);
    ph_param_int64(params, mailbox.mailbox_id);
}

bool
ph_check_mailbox_row(const PGresult *rows, GError **error)
{
    if (PQntuples(rows) > 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such mailbox");
    return false;
}

/* Bits of the named keywords. When flags are taken away, unknown names are passed over. */
static bool
find_bits(GPtrArray *keywords, const PhFlagRequest *request, uint64_t *bits_out, uint64_t *new_out,
    GError **error)
{
    uint64_t bits = 0;
    uint64_t new_bits = 0;
    for (const char *const *name = request->keywords; name != NULL && *name != NULL; name++) {
        bool is_new = false;
        if (!ph_keyword_is_valid(*name)) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a keyword is malformed");
            return false;
        }
        if (request->change == PH_FLAGS_REMOVE && !ph_keyword_is_known(keywords, *name))
            continue;
        int bit = ph_keyword_bit(keywords, *name, &is_new);
        if (bit < 0) {
            g_set_error(
                error, PH_ERROR, PH_ERROR_LIMIT, "the mailbox has no room for another keyword");
            return false;
        }
        bits |= UINT64_C(1) << bit;
        new_bits |= is_new ? UINT64_C(1) << bit : 0;
    }
    *bits_out = bits;
    *new_out = new_bits;
    return true;
}

void
ph_batch_add_keywords(
    PhBatch *batch, PhMailboxKey mailbox, const GPtrArray *keywords, uint64_t bits)
{
    g_auto(PhSqlArray) numbers;
    g_auto(PhSqlArray) names;
    ph_sql_array_init(&numbers, PH_SQL_INT2);
    ph_sql_array_init(&names, PH_SQL_TEXT);
    for (int bit = 0; bit < PH_KEYWORDS_MAX; bit++) {
        if ((bits >> bit & 1) == 0)
            continue;
        ph_sql_array_add_int(&numbers, bit);
        ph_sql_array_add_text(&names, keywords->pdata[bit]);
    }
    PhParams *params = ph_batch_add(batch, &add_keywords);
    ph_param_mailbox(params, mailbox);
    ph_param_array(params, &numbers);
    ph_param_array(params, &names);
}

static void
add_change(PhBatch *batch, PhMailboxKey mailbox, const PhUidSet *uids, const PhFlagRequest *request,
    uint64_t bits, int64_t modseq)
{
    const uint32_t flags = request->flags & PH_FLAGS_ALL;
    uint32_t clear = 0;
    uint64_t clear_bits = 0;
    switch (request->change) {
    case PH_FLAGS_ADD:
        break;
    case PH_FLAGS_REMOVE:
        clear = flags;
        clear_bits = bits;
        break;
    case PH_FLAGS_REPLACE:
        clear = PH_FLAGS_ALL;
        clear_bits = UINT64_MAX >> 1;
        break;
    }
    bool sets = request->change != PH_FLAGS_REMOVE;
    PhParams *params = ph_batch_add(batch, &change);
    ph_param_mailbox(params, mailbox);
    ph_param_uid_set(params, uids);
    ph_param_int64(params, request->unchanged_since);
    ph_param_int32(params, (int32_t)clear);
    ph_param_int32(params, sets ? (int32_t)flags : 0);
    ph_param_int64(params, (int64_t)clear_bits);
    ph_param_int64(params, sets ? (int64_t)bits : 0);
    ph_param_int64(params, modseq);
}

static PhUidSet *
uids_from(const PGresult *rows)
{
    PhUidSet *set = ph_uid_set_new();
    for (int i = 0; i < PQntuples(rows); i++) {
        uint32_t uid = (uint32_t)ph_cell_int64(rows, i, 0);
        ph_uid_set_add(set, uid, uid);
    }
    return set;
}

PH_IN_JOB static void
tell(PhMailboxKey mailbox, const PGresult *state, const PGresult *changed, GPtrArray *new_keywords,
    PhLease *lease)
{
    PhViewDelta *delta = ph_view_delta_new(mailbox);
    delta->uid_validity = (uint32_t)ph_cell_int64(state, 0, 0);
    delta->uid_next = (uint32_t)ph_cell_int64(state, 0, 1);
    delta->modseq = ph_cell_int64(state, 0, 2) + 1;
    delta->rows = ph_view_rows_from(changed);
    delta->keywords = new_keywords;
    ph_views_apply_blocking(delta, lease);
}

bool
ph_mailbox_change_flags_blocking(int64_t actor_id, PhMailboxKey mailbox, const PhUidSet *uids,
    const PhFlagRequest *request, int64_t deadline_us, PhUidSet **modified_out, GError **error)
{
    if (!ph_right_check(actor_id, mailbox.account_id, PH_RIGHT_FLAGS, error))
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) look;
    ph_batch_init(&look);
    ph_batch_add(&look, &ph_sql_begin);
    ph_param_mailbox(ph_batch_add(&look, &ph_sql_lock_state), mailbox);
    ph_param_mailbox(ph_batch_add(&look, &ph_sql_read_keywords), mailbox);
    if (!ph_batch_run_blocking(lease, &look, 0, error) ||
        !ph_check_mailbox_row(ph_batch_result(&look, 1), error))
        return false;
    const PGresult *state = ph_batch_result(&look, 1);
    g_autoptr(GPtrArray) keywords = ph_keywords_from(ph_batch_result(&look, 2));
    uint64_t bits = 0;
    uint64_t new_bits = 0;
    if (!find_bits(keywords, request, &bits, &new_bits, error))
        return false;

    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    if (new_bits != 0)
        ph_batch_add_keywords(&batch, mailbox, keywords, new_bits);
    unsigned modified = batch.n_calls;
    bool is_conditional = request->unchanged_since != INT64_MAX;
    if (is_conditional) {
        PhParams *params = ph_batch_add(&batch, &find_modified);
        ph_param_mailbox(params, mailbox);
        ph_param_uid_set(params, uids);
        ph_param_int64(params, request->unchanged_since);
    }
    unsigned changed = batch.n_calls;
    add_change(&batch, mailbox, uids, request, bits, ph_cell_int64(state, 0, 2) + 1);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (modified_out != NULL)
        *modified_out =
            is_conditional ? uids_from(ph_batch_result(&batch, modified)) : ph_uid_set_new();
    const PGresult *rows = ph_batch_result(&batch, changed);
    if (PQntuples(rows) > 0)
        tell(mailbox, state, rows, new_bits != 0 ? g_steal_pointer(&keywords) : NULL, lease);
    return true;
}
