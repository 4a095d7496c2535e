/* meta.c - reading what is kept of messages, and slices of their bytes */
#include "posthouse/mailbox-view.h"

#include "store/frames.h"
#include "store/internal.h"

enum { IDS_MAX = 500 };

void
ph_message_meta_free(PhMessageMeta *meta)
{
    if (meta == NULL)
        return;
    g_clear_pointer(&meta->envelope, g_bytes_unref);
    g_clear_pointer(&meta->bodystructure, g_bytes_unref);
    g_clear_pointer(&meta->outline, g_bytes_unref);
    g_clear_pointer(&meta->headers, g_bytes_unref);
    g_free(meta);
}

/* What is not asked for is not read (a null costs nothing, a long value may be out of line). */
static const PhStatement read_meta = {
    "message-meta",
    "SELECT message_id, size_bytes, sent_us, traits,\n"
    "       CASE WHEN $3::integer & 1 <> 0 THEN envelope END,\n"
    "       CASE WHEN $3::integer & 2 <> 0 THEN bodystructure END,\n"
    "       CASE WHEN $3::integer & 4 <> 0 THEN outline END,\n"
    "       CASE WHEN $3::integer & 8 <> 0 THEN headers END\n"
    "FROM message\n"
    "WHERE account_id = $1::bigint AND message_id = ANY ($2::bigint[])",
};

static GBytes *
bytes_or_null(const PGresult *rows, int row, int column)
{
    return PQgetisnull(rows, row, column) ? NULL : ph_cell_bytes(rows, row, column);
}

static PhMessageMeta *
meta_from_row(const PGresult *rows, int i)
{
    PhMessageMeta *meta = g_new0(PhMessageMeta, 1);
    meta->message_id = ph_cell_int64(rows, i, 0);
    meta->size_bytes = ph_cell_int64(rows, i, 1);
    meta->sent_us = PQgetisnull(rows, i, 2) ? INT64_MIN : ph_cell_int64(rows, i, 2);
    meta->traits = (unsigned)ph_cell_int32(rows, i, 3);
    meta->envelope = bytes_or_null(rows, i, 4);
    meta->bodystructure = bytes_or_null(rows, i, 5);
    meta->outline = bytes_or_null(rows, i, 6);
    meta->headers = bytes_or_null(rows, i, 7);
    return meta;
}

/* A statement whose first parameters are the account and an array of ids, which lives in
 * `wanted`. */
static PhParams *
ask_for(PhBatch *batch, const PhStatement *statement, int64_t account_id, PhSqlArray *wanted,
    const int64_t *ids, size_t n_ids)
{
    ph_sql_array_init(wanted, PH_SQL_INT8);
    for (size_t i = 0; i < n_ids; i++)
        ph_sql_array_add_int(wanted, ids[i]);
    PhParams *params = ph_batch_add(batch, statement);
    ph_param_int64(params, account_id);
    ph_param_array(params, wanted);
    return params;
}

/* From the id in the first column to the row's number, from 1. */
static GHashTable *
index_rows(const PGresult *rows)
{
    GHashTable *row_of = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    for (int i = 0; i < PQntuples(rows); i++) {
        int64_t *id = g_new(int64_t, 1);
        *id = ph_cell_int64(rows, i, 0);
        g_hash_table_insert(row_of, id, GINT_TO_POINTER(i + 1));
    }
    return row_of;
}

/* An element may be null, which a plain free function must bear. */
static void
free_meta(void *data)
{
    ph_message_meta_free(data);
}

GPtrArray *
ph_message_meta_blocking(int64_t account_id, const int64_t *ids, size_t n_ids, unsigned what,
    int64_t deadline_us, GError **error)
{
    g_return_val_if_fail(n_ids <= IDS_MAX, NULL);
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhSqlArray) wanted;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ask_for(&batch, &read_meta, account_id, &wanted, ids, n_ids);
    ph_param_int32(params, (int32_t)what);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    g_autoptr(GHashTable) row_of = index_rows(rows);
    GPtrArray *list = g_ptr_array_new_with_free_func(free_meta);
    for (size_t i = 0; i < n_ids; i++) {
        int row = GPOINTER_TO_INT(g_hash_table_lookup(row_of, &ids[i]));
        g_ptr_array_add(list, row > 0 ? meta_from_row(rows, row - 1) : NULL);
    }
    return list;
}

/* $3 and $4: the first and the last frame wanted, from 0. `frames` holds where each one ends. */
static const PhStatement read_slice = {
    "message-slice",
    "SELECT m.size_bytes,\n"
    "       substr(b.data, coalesce(m.frames[$3::integer], 0) + 1,\n"
    "              coalesce(m.frames[least($4::integer + 1, cardinality(m.frames))], 0)\n"
    "              - coalesce(m.frames[$3::integer], 0))\n"
    "FROM message m\n"
    "JOIN blob b ON b.account_id = m.account_id AND b.message_id = m.message_id\n"
    "WHERE m.account_id = $1::bigint AND m.message_id = $2::bigint\n"
    "  AND $3::integer < greatest(cardinality(m.frames), 1)",
};

static const PhStatement find_message = {
    "message-find",
    "SELECT size_bytes FROM message WHERE account_id = $1::bigint AND message_id = $2::bigint",
};

static GBytes *
not_found(GError **error)
{
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the message is gone");
    return NULL;
}

GBytes *
ph_message_read_blocking(int64_t account_id, int64_t message_id, size_t offset, size_t length,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    /* No message is that long; this keeps the arithmetic within its types. */
    offset = MIN(offset, (size_t)INT32_MAX);
    length = MIN(length, (size_t)INT32_MAX - offset);
    size_t first = offset / PH_FRAME_RAW_BYTES;
    size_t last = length > 0 ? (offset + length - 1) / PH_FRAME_RAW_BYTES : first;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &read_slice);
    ph_param_int64(params, account_id);
    ph_param_int64(params, message_id);
    ph_param_int32(params, (int32_t)first);
    ph_param_int32(params, (int32_t)last);
    params = ph_batch_add(&batch, &find_message);
    ph_param_int64(params, account_id);
    ph_param_int64(params, message_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(ph_batch_result(&batch, 1)) == 0)
        return not_found(error);
    if (PQntuples(rows) == 0 || length == 0)
        return g_bytes_new(NULL, 0); /* behind the end */
    size_t size = (size_t)ph_cell_int64(rows, 0, 0);
    size_t left = offset < size ? size - offset : 0;
    return ph_frames_decode(PQgetvalue(rows, 0, 1), (size_t)PQgetlength(rows, 0, 1),
        offset - first * PH_FRAME_RAW_BYTES, MIN(length, left), error);
}

static const PhStatement read_many = {
    "message-many",
    "SELECT m.message_id, m.size_bytes, b.data\n"
    "FROM message m\n"
    "JOIN blob b ON b.account_id = m.account_id AND b.message_id = m.message_id\n"
    "WHERE m.account_id = $1::bigint AND m.message_id = ANY ($2::bigint[])",
};

static void
free_bytes(void *data)
{
    if (data != NULL)
        g_bytes_unref(data);
}

static GBytes *
whole_from_row(const PGresult *rows, int row, GError **error)
{
    return ph_frames_decode(PQgetvalue(rows, row, 2), (size_t)PQgetlength(rows, row, 2), 0,
        (size_t)ph_cell_int64(rows, row, 1), error);
}

GPtrArray *
ph_message_read_many_blocking(
    int64_t account_id, const int64_t *ids, size_t n_ids, int64_t deadline_us, GError **error)
{
    g_return_val_if_fail(n_ids <= IDS_MAX, NULL);
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhSqlArray) wanted;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ask_for(&batch, &read_many, account_id, &wanted, ids, n_ids);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    g_autoptr(GHashTable) row_of = index_rows(rows);
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(free_bytes);
    for (size_t i = 0; i < n_ids; i++) {
        int row = GPOINTER_TO_INT(g_hash_table_lookup(row_of, &ids[i]));
        GBytes *bytes = row > 0 ? whole_from_row(rows, row - 1, error) : NULL;
        if (row > 0 && bytes == NULL)
            return NULL;
        g_ptr_array_add(list, bytes);
    }
    return g_steal_pointer(&list);
}
