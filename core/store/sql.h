/* sql.h - statements, parameters and results over one database connection
 *
 * Shape:    a batch is a list of statements that travel together (pipeline mode): one round trip.
 *           Parameters and results are binary; the types come from casts in the SQL ($1::bigint).
 * Threads:  a lease belongs to one thread at a time.
 * Errors:   as store.h; the SQLSTATE decides (see ph_sql_error_code in sql.c).
 * Sources:  PostgreSQL 15, "libpq - Pipeline Mode".
 */
#pragma once

#include "store/store.h"

#include <libpq-fe.h>

/* Prepared once a connection, under its own address; so it must be static. */
typedef struct PhStatement {
    const char *name;
    const char *sql;
} PhStatement;

struct PhLease {
    PGconn *conn;
    GHashTable *prepared; /* PhStatement, that the server knows on this connection */
    int64_t deadline_us;
    int64_t used_us;  /* when it was given back */
    int slot;         /* the lane whose reserve it counts on; -1 shared; -2 not of the pool */
    bool lost;        /* the connection is dead or in an unknown state: throw it away */
    bool commit_sent; /* the last batch held a COMMIT that may or may not have happened */
};

extern const PhStatement ph_sql_begin;
extern const PhStatement ph_sql_begin_snapshot; /* repeatable read, read only */
extern const PhStatement ph_sql_commit;
extern const PhStatement ph_sql_rollback;

/* -- parameters -------------------------------------------------------------------------------- */

enum { PH_SQL_MAX_PARAMS = 16, PH_SQL_MAX_CALLS = 32 };

typedef struct PhParams {
    int count;
    const char *values[PH_SQL_MAX_PARAMS];
    int lengths[PH_SQL_MAX_PARAMS];
    int formats[PH_SQL_MAX_PARAMS];
    char scratch[PH_SQL_MAX_PARAMS][8];
    GByteArray *owned[PH_SQL_MAX_PARAMS];
} PhParams;

void ph_param_int64(PhParams *params, int64_t value);
void ph_param_int32(PhParams *params, int32_t value);
void ph_param_int16(PhParams *params, int16_t value);
void ph_param_bool(PhParams *params, bool value);
/* Null is SQL's null. The text must live until the batch has run. */
void ph_param_text(PhParams *params, const char *text);
void ph_param_bytes(PhParams *params, const void *bytes, size_t length);
void ph_param_null(PhParams *params);

typedef enum PhSqlType {
    PH_SQL_BYTEA = 17,
    PH_SQL_INT8 = 20,
    PH_SQL_INT2 = 21,
    PH_SQL_INT4 = 23,
    PH_SQL_TEXT = 25,
} PhSqlType;

/* An array in the making. */
typedef struct PhSqlArray {
    GByteArray *bytes;
    PhSqlType type;
    uint32_t count;
    bool has_null;
} PhSqlArray;

void ph_sql_array_init(PhSqlArray *array, PhSqlType type);
void ph_sql_array_clear(PhSqlArray *array);
void ph_sql_array_add_int(PhSqlArray *array, int64_t value); /* of the array's width */
void ph_sql_array_add_text(PhSqlArray *array, const char *text);
void ph_sql_array_add_bytes(PhSqlArray *array, const void *bytes, size_t length);
void ph_sql_array_add_null(PhSqlArray *array);
/* Takes what the array holds. */
void ph_param_array(PhParams *params, PhSqlArray *array);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PhSqlArray, ph_sql_array_clear)

/* -- batches ----------------------------------------------------------------------------------- */

typedef struct PhBatch {
    unsigned n_calls;
    struct {
        const PhStatement *statement;
        PhParams params;
        PGresult *result;
    } calls[PH_SQL_MAX_CALLS];
} PhBatch;

enum {
    PH_BATCH_SAFE = 1 << 0, /* may be sent twice: it reads, or repeating it is harmless */
};

void ph_batch_init(PhBatch *batch);
void ph_batch_clear(PhBatch *batch);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PhBatch, ph_batch_clear)

/* The parameters are to be filled by the caller. */
PhParams *ph_batch_add(PhBatch *batch, const PhStatement *statement);
/* Runs all; on an error what was not committed is rolled back. Results stay valid until the batch
 * is cleared or run anew. A batch that ran is emptied by the next ph_batch_restart(). */
PH_IN_JOB bool ph_batch_run_blocking(
    PhLease *lease, PhBatch *batch, unsigned flags, GError **error);
/* Drops calls and results, to use the storage again. */
void ph_batch_restart(PhBatch *batch);
const PGresult *ph_batch_result(const PhBatch *batch, unsigned index);
/* Rows that call `index` changed (or returned). */
int64_t ph_batch_affected(const PhBatch *batch, unsigned index);

/* -- results ----------------------------------------------------------------------------------- */

int64_t ph_cell_int64(const PGresult *result, int row, int column);
int32_t ph_cell_int32(const PGresult *result, int row, int column);
int16_t ph_cell_int16(const PGresult *result, int row, int column);
bool ph_cell_bool(const PGresult *result, int row, int column);
char *ph_cell_dup(const PGresult *result, int row, int column); /* null for null */
const char *ph_cell_text(
    const PGresult *result, int row, int column); /* lives as long as the result */
GBytes *ph_cell_bytes(const PGresult *result, int row, int column);
/* Elements of a bigint[]; null elements are passed over. GArray of int64_t. */
GArray *ph_cell_int64_array(const PGresult *result, int row, int column);
int64_t ph_cell_timestamp_us(
    const PGresult *result, int row, int column); /* timestamptz, as since 1970 */

/* -- connections (pool.c) ---------------------------------------------------------------------- */

/* A connection outside of the pool's counts, for a thread of the store's own. Does not fail at once
 * while the database is away: it tries. */
PH_IN_JOB PhLease *ph_lease_new_private_blocking(
    const char *conninfo, int64_t deadline_us, GError **error);
/* Waits for results or output up to the lease's deadline; the descriptor of the connection is
 * readable or so. */
bool ph_lease_in_transaction(const PhLease *lease);
/* A lease of the calling thread's lane with the deadline set; SQL may follow. */
PH_IN_JOB PhLease *ph_store_lease_blocking(int64_t deadline_us, GError **error);
/* Sets `error` from the connection's last message and marks the lease as lost. */
void ph_lease_set_lost(PhLease *lease, GError **error);
/* Escapes % _ and \ and puts % around: a substring for LIKE. Null stays null. */
char *ph_sql_like(const char *text);
