/* sql.c - batches of statements over libpq's pipeline mode
 *
 * Hard here: a batch may be megabytes out while rows come in, so both directions are pumped
 * together on a socket that never blocks; every wait ends at the lease's deadline; and after a
 * failure the connection must be either clean (rolled back) or thrown away, never in between.
 */
#include "store/sql.h"

#include "store/connect.h"
#include "store/internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

const PhStatement ph_sql_begin = { "begin", "BEGIN" };
const PhStatement ph_sql_begin_snapshot = { "begin-snapshot",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" };
const PhStatement ph_sql_commit = { "commit", "COMMIT" };
const PhStatement ph_sql_rollback = { "rollback", "ROLLBACK" };

/* Microseconds from 1970 to PostgreSQL's epoch, 2000-01-01. */
static const int64_t PG_EPOCH_US = INT64_C(946684800000000);

/* -- parameters -------------------------------------------------------------------------------- */

static int
next_param(PhParams *params)
{
    g_assert(params->count < PH_SQL_MAX_PARAMS);
    return params->count++;
}

static void
put_big_endian(char *out, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        out[i] = (char)(value >> (8 * (width - 1 - i)));
}

static void
add_scratch(PhParams *params, uint64_t value, size_t width)
{
    int i = next_param(params);
    put_big_endian(params->scratch[i], value, width);
    params->values[i] = params->scratch[i];
    params->lengths[i] = (int)width;
    params->formats[i] = 1;
}

void
ph_param_int64(PhParams *params, int64_t value)
{
    add_scratch(params, (uint64_t)value, 8);
}

void
ph_param_int32(PhParams *params, int32_t value)
{
    add_scratch(params, (uint32_t)value, 4);
}

void
ph_param_int16(PhParams *params, int16_t value)
{
    add_scratch(params, (uint16_t)value, 2);
}

void
ph_param_bool(PhParams *params, bool value)
{
    add_scratch(params, value ? 1 : 0, 1);
}

void
ph_param_bytes(PhParams *params, const void *bytes, size_t length)
{
    g_assert(length <= INT32_MAX);
    int i = next_param(params);
    params->values[i] = bytes != NULL ? bytes : "";
    params->lengths[i] = (int)length;
    params->formats[i] = 1;
}

void
ph_param_null(PhParams *params)
{
    int i = next_param(params);
    params->values[i] = NULL;
    params->lengths[i] = 0;
    params->formats[i] = 1;
}

void
ph_param_text(PhParams *params, const char *text)
{
    if (text == NULL)
        ph_param_null(params);
    else
        ph_param_bytes(params, text, strlen(text));
}

/* The binary form of an array: dimensions, has null, type, length, lower bound; then the
 * elements. */
enum { ARRAY_HEAD_BYTES = 20 };

static void
append_int32(GByteArray *bytes, int32_t value)
{
    char raw[4];
    put_big_endian(raw, (uint32_t)value, 4);
    g_byte_array_append(bytes, (const guint8 *)raw, 4);
}

void
ph_sql_array_init(PhSqlArray *array, PhSqlType type)
{
    *array = (PhSqlArray){ .bytes = g_byte_array_sized_new(256), .type = type };
    g_byte_array_set_size(array->bytes, ARRAY_HEAD_BYTES);
}

void
ph_sql_array_clear(PhSqlArray *array)
{
    g_clear_pointer(&array->bytes, g_byte_array_unref);
}

void
ph_sql_array_add_int(PhSqlArray *array, int64_t value)
{
    size_t width = array->type == PH_SQL_INT8 ? 8 : array->type == PH_SQL_INT4 ? 4 : 2;
    g_assert(
        array->type == PH_SQL_INT8 || array->type == PH_SQL_INT4 || array->type == PH_SQL_INT2);
    char raw[8];
    put_big_endian(raw, (uint64_t)value, width);
    append_int32(array->bytes, (int32_t)width);
    g_byte_array_append(array->bytes, (const guint8 *)raw, (guint)width);
    array->count++;
}

void
ph_sql_array_add_bytes(PhSqlArray *array, const void *bytes, size_t length)
{
    g_assert(length <= INT32_MAX);
    append_int32(array->bytes, (int32_t)length);
    if (length > 0)
        g_byte_array_append(array->bytes, bytes, (guint)length);
    array->count++;
}

void
ph_sql_array_add_null(PhSqlArray *array)
{
    append_int32(array->bytes, -1);
    array->has_null = true;
    array->count++;
}

void
ph_sql_array_add_text(PhSqlArray *array, const char *text)
{
    if (text == NULL)
        ph_sql_array_add_null(array);
    else
        ph_sql_array_add_bytes(array, text, strlen(text));
}

static GByteArray *
steal_value(PhSqlArray *array)
{
    GByteArray *bytes = g_steal_pointer(&array->bytes);
    char *head = (char *)bytes->data;
    put_big_endian(head, array->count > 0 ? 1 : 0, 4);
    put_big_endian(head + 4, array->has_null ? 1 : 0, 4);
    put_big_endian(head + 8, (uint64_t)array->type, 4);
    if (array->count == 0) {
        g_byte_array_set_size(bytes, 12);
        return bytes;
    }
    put_big_endian(head + 12, array->count, 4);
    put_big_endian(head + 16, 1, 4);
    return bytes;
}

void
ph_param_array(PhParams *params, PhSqlArray *array)
{
    GByteArray *bytes = steal_value(array);
    int i = next_param(params);
    params->owned[i] = bytes;
    params->values[i] = (const char *)bytes->data;
    params->lengths[i] = (int)bytes->len;
    params->formats[i] = 1;
}

static void
clear_params(PhParams *params)
{
    for (int i = 0; i < params->count; i++)
        g_clear_pointer(&params->owned[i], g_byte_array_unref);
    params->count = 0;
}

/* -- results ----------------------------------------------------------------------------------- */

static uint64_t
read_big_endian(const char *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value = value << 8 | (uint8_t)bytes[i];
    return value;
}

static uint64_t
read_cell(const PGresult *result, int row, int column, int width)
{
    if (PQgetisnull(result, row, column))
        return 0;
    g_assert(PQgetlength(result, row, column) == width);
    return read_big_endian(PQgetvalue(result, row, column), (size_t)width);
}

int64_t
ph_cell_int64(const PGresult *result, int row, int column)
{
    return (int64_t)read_cell(result, row, column, 8);
}

int32_t
ph_cell_int32(const PGresult *result, int row, int column)
{
    return (int32_t)(uint32_t)read_cell(result, row, column, 4);
}

int16_t
ph_cell_int16(const PGresult *result, int row, int column)
{
    return (int16_t)(uint16_t)read_cell(result, row, column, 2);
}

bool
ph_cell_bool(const PGresult *result, int row, int column)
{
    return read_cell(result, row, column, 1) != 0;
}

const char *
ph_cell_text(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

char *
ph_cell_dup(const PGresult *result, int row, int column)
{
    return g_strdup(ph_cell_text(result, row, column));
}

GBytes *
ph_cell_bytes(const PGresult *result, int row, int column)
{
    return g_bytes_new(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

GArray *
ph_cell_int64_array(const PGresult *result, int row, int column)
{
    GArray *numbers = g_array_new(FALSE, FALSE, sizeof(int64_t));
    const char *at = PQgetvalue(result, row, column);
    size_t left = (size_t)PQgetlength(result, row, column);
    if (left < ARRAY_HEAD_BYTES || read_big_endian(at + 8, 4) != PH_SQL_INT8)
        return numbers;
    uint64_t count = read_big_endian(at + 12, 4);
    at += ARRAY_HEAD_BYTES;
    left -= ARRAY_HEAD_BYTES;
    for (uint64_t i = 0; i < count && left >= 4; i++) {
        uint64_t length = read_big_endian(at, 4);
        at += 4;
        left -= 4;
        if (length != 8 || left < 8)
            continue;
        int64_t number = (int64_t)read_big_endian(at, 8);
        g_array_append_val(numbers, number);
        at += 8;
        left -= 8;
    }
    return numbers;
}

int64_t
ph_cell_timestamp_us(const PGresult *result, int row, int column)
{
    int64_t value = ph_cell_int64(result, row, column);
    /* "infinity" and "-infinity" stay what they are. */
    return value == INT64_MAX || value == INT64_MIN ? value : value + PG_EPOCH_US;
}

/* -- errors ------------------------------------------------------------------------------------ */

/* The longest matching prefix of the SQLSTATE decides; what is not here is a defect of ours. */
static const struct {
    const char *sqlstate;
    PhError code;
} sqlstate_codes[] = {
    { "08", PH_ERROR_UNAVAILABLE },    /* connection exception */
    { "22", PH_ERROR_SYNTAX },         /* data that cannot be stored */
    { "23505", PH_ERROR_CONFLICT },    /* unique */
    { "23503", PH_ERROR_CONFLICT },    /* foreign key */
    { "25006", PH_ERROR_UNAVAILABLE }, /* read only: a standby */
    { "40", PH_ERROR_TEMPORARY },      /* deadlock, serialization */
    { "53", PH_ERROR_TEMPORARY },      /* out of disk, memory, connections */
    { "55P03", PH_ERROR_TEMPORARY },   /* lock timeout */
    { "57014", PH_ERROR_TEMPORARY },   /* statement timeout */
    { "57P", PH_ERROR_UNAVAILABLE },   /* shutdown, crash, starting */
    { "58", PH_ERROR_TEMPORARY },      /* input and output of the server */
};

static PhError
code_of_sqlstate(const char *sqlstate)
{
    for (size_t i = 0; sqlstate != NULL && i < G_N_ELEMENTS(sqlstate_codes); i++)
        if (g_str_has_prefix(sqlstate, sqlstate_codes[i].sqlstate))
            return sqlstate_codes[i].code;
    return PH_ERROR_INTERNAL;
}

static void
set_error_from_result(const PhStatement *statement, const PGresult *result, GError **error)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    g_autofree char *text = ph_message_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    g_set_error(error, PH_ERROR, (int)code_of_sqlstate(sqlstate),
        "database: %s (%s, statement \"%s\")", text, sqlstate != NULL ? sqlstate : "no code",
        statement->name);
}

void
ph_lease_set_lost(PhLease *lease, GError **error)
{
    lease->lost = true;
    if (error != NULL && *error == NULL) {
        g_autofree char *text = ph_message_line(PQerrorMessage(lease->conn));
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the database is away: %s",
            text[0] != '\0' ? text : "the connection is lost");
    }
}

/* -- batches ----------------------------------------------------------------------------------- */

void
ph_batch_init(PhBatch *batch)
{
    batch->n_calls = 0;
}

void
ph_batch_restart(PhBatch *batch)
{
    for (unsigned i = 0; i < batch->n_calls; i++) {
        clear_params(&batch->calls[i].params);
        g_clear_pointer(&batch->calls[i].result, PQclear);
    }
    batch->n_calls = 0;
}

void
ph_batch_clear(PhBatch *batch)
{
    ph_batch_restart(batch);
}

PhParams *
ph_batch_add(PhBatch *batch, const PhStatement *statement)
{
    g_assert(batch->n_calls < PH_SQL_MAX_CALLS);
    unsigned i = batch->n_calls++;
    batch->calls[i].statement = statement;
    batch->calls[i].result = NULL;
    memset(&batch->calls[i].params, 0, sizeof batch->calls[i].params);
    return &batch->calls[i].params;
}

const PGresult *
ph_batch_result(const PhBatch *batch, unsigned index)
{
    g_assert(index < batch->n_calls && batch->calls[index].result != NULL);
    return batch->calls[index].result;
}

int64_t
ph_batch_affected(const PhBatch *batch, unsigned index)
{
    return g_ascii_strtoll(PQcmdTuples(batch->calls[index].result), NULL, 10);
}

/* The server's own names must differ for statements that share a name by mistake: the address is
 * unique. */
static void
server_name(const PhStatement *statement, char out[static 64])
{
    g_snprintf(out, 64, "%.40s-%lx", statement->name, (unsigned long)(uintptr_t)statement);
}

static bool
send_call(PhLease *lease, PhBatch *batch, unsigned index, GHashTable *sending)
{
    const PhStatement *statement = batch->calls[index].statement;
    const PhParams *params = &batch->calls[index].params;
    char name[64];
    server_name(statement, name);
    if (!g_hash_table_contains(lease->prepared, statement) &&
        g_hash_table_add(sending, (gpointer)(uintptr_t)statement) &&
        PQsendPrepare(lease->conn, name, statement->sql, 0, NULL) != 1)
        return false;
    return PQsendQueryPrepared(lease->conn, name, params->count, params->values, params->lengths,
               params->formats, 1) == 1;
}

/* Pushes output and takes input until a result can be read without waiting. */
static bool
wait_for_result(PhLease *lease, GError **error)
{
    for (;;) {
        int flushed = PQflush(lease->conn);
        if (flushed < 0)
            return false;
        if (PQisBusy(lease->conn) == 0)
            return true;
        int64_t left_us =
            lease->deadline_us == INT64_MAX ? 3600000000 : lease->deadline_us - ph_monotonic_us();
        if (left_us <= 0) {
            g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the database did not answer in time");
            return false;
        }
        struct pollfd poll_fd = {
            .fd = PQsocket(lease->conn),
            .events = (short)(POLLIN | (flushed > 0 ? POLLOUT : 0)),
        };
        int ready = poll(&poll_fd, 1, (int)MIN(left_us / 1000 + 1, 3600000));
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0 && (poll_fd.revents & (POLLIN | POLLERR | POLLHUP)) != 0 &&
            PQconsumeInput(lease->conn) != 1)
            return false;
    }
}

static PGresult *
next_result(PhLease *lease, bool *failed_out, GError **error)
{
    if (!wait_for_result(lease, error)) {
        *failed_out = true;
        return NULL;
    }
    return PQgetResult(lease->conn);
}

static bool
is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* Reads one command's result and the null that ends it. Null when the connection failed. */
static PGresult *
read_command(PhLease *lease, GError **error)
{
    bool failed = false;
    PGresult *result = next_result(lease, &failed, error);
    if (result == NULL)
        return NULL;
    PGresult *end = next_result(lease, &failed, error);
    while (end != NULL && !failed) {
        PQclear(end);
        end = next_result(lease, &failed, error);
    }
    if (failed)
        g_clear_pointer(&result, PQclear);
    return result;
}

static bool
read_sync(PhLease *lease, GError **error)
{
    bool failed = false;
    PGresult *result = next_result(lease, &failed, error);
    if (result == NULL)
        return false;
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    PQclear(result);
    return is_sync;
}

/* Sends the batch and reads all of its results. False: the connection is lost (`error` may be set).
 * The first statement that failed is in `bad_out`, with its result in `bad_result_out`. */
static bool
exchange(PhLease *lease, PhBatch *batch, const PhStatement **bad_out, PGresult **bad_result_out,
    GError **error)
{
    g_autoptr(GHashTable) sending = g_hash_table_new(NULL, NULL);
    for (unsigned i = 0; i < batch->n_calls; i++)
        if (!send_call(lease, batch, i, sending))
            return false;
    if (PQpipelineSync(lease->conn) != 1)
        return false;
    for (unsigned i = 0; i < batch->n_calls; i++) {
        const PhStatement *statement = batch->calls[i].statement;
        for (bool preparing = g_hash_table_remove(sending, statement);; preparing = false) {
            PGresult *result = read_command(lease, error);
            if (result == NULL)
                return false;
            bool good = is_good(result);
            if (good && preparing)
                g_hash_table_add(lease->prepared, (gpointer)(uintptr_t)statement);
            if (good && !preparing)
                batch->calls[i].result = g_steal_pointer(&result);
            else if (!good && *bad_out == NULL) {
                *bad_out = statement;
                *bad_result_out = g_steal_pointer(&result);
            }
            g_clear_pointer(&result, PQclear);
            if (!preparing)
                break;
        }
    }
    return read_sync(lease, error);
}

static void
drop_results(PhBatch *batch)
{
    for (unsigned i = 0; i < batch->n_calls; i++)
        g_clear_pointer(&batch->calls[i].result, PQclear);
}

static void
roll_back(PhLease *lease)
{
    PhBatch *batch = g_new0(PhBatch, 1);
    ph_batch_add(batch, &ph_sql_rollback);
    const PhStatement *bad = NULL;
    PGresult *bad_result = NULL;
    int64_t deadline_us = lease->deadline_us;
    lease->deadline_us = ph_monotonic_us() + 2000000;
    if (!exchange(lease, batch, &bad, &bad_result, NULL) || bad != NULL)
        lease->lost = true;
    lease->deadline_us = deadline_us;
    g_clear_pointer(&bad_result, PQclear);
    ph_batch_clear(batch);
    g_free(batch);
}

bool
ph_lease_in_transaction(const PhLease *lease)
{
    return !lease->lost && PQtransactionStatus(lease->conn) != PQTRANS_IDLE;
}

void
ph_lease_roll_back(PhLease *lease)
{
    if (ph_lease_in_transaction(lease))
        roll_back(lease);
}

static bool
holds_commit(const PhBatch *batch)
{
    for (unsigned i = 0; i < batch->n_calls; i++)
        if (batch->calls[i].statement == &ph_sql_commit)
            return true;
    return false;
}

static bool
run_once(PhLease *lease, PhBatch *batch, GError **error)
{
    const PhStatement *bad = NULL;
    PGresult *bad_result = NULL;
    lease->commit_sent = holds_commit(batch);
    if (!exchange(lease, batch, &bad, &bad_result, error)) {
        /* A server that shuts down says so in the result before it closes. */
        g_clear_pointer(&bad_result, PQclear);
        bool is_late = ph_monotonic_us() >= lease->deadline_us; /* which is no sign of an end */
        ph_lease_set_lost(lease, error);
        if (!is_late)
            ph_leases_note_lost();
        drop_results(batch);
        return false;
    }
    lease->commit_sent = false;
    if (bad == NULL)
        return true;
    set_error_from_result(bad, bad_result, error);
    PQclear(bad_result);
    drop_results(batch);
    if (PQstatus(lease->conn) != CONNECTION_OK) {
        lease->lost = true;
        return false;
    }
    ph_lease_roll_back(lease);
    return false;
}

bool
ph_batch_run_blocking(PhLease *lease, PhBatch *batch, unsigned flags, GError **error)
{
    if (lease->lost) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the database is away: the connection is lost");
        return false;
    }
    bool may_repeat = (flags & PH_BATCH_SAFE) != 0 && !ph_lease_in_transaction(lease);
    g_autoptr(GError) local = NULL;
    if (run_once(lease, batch, &local))
        return true;
    bool lost = lease->lost && ph_error_code(local) == PH_ERROR_UNAVAILABLE;
    if (!may_repeat || !lost || !ph_lease_reconnect_blocking(lease, NULL)) {
        g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    return run_once(lease, batch, error);
}

char *
ph_sql_like(const char *text)
{
    if (text == NULL)
        return NULL;
    GString *pattern = g_string_new("%");
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '%' || *at == '_' || *at == '\\')
            g_string_append_c(pattern, '\\');
        g_string_append_c(pattern, *at);
    }
    g_string_append_c(pattern, '%');
    return g_string_free(pattern, FALSE);
}
