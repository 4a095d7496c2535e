/* script-db.c - connections with which scripts reach their own schema, and nothing else
 *
 * A script may send any SQL: SET ROLE, or a function with its own search_path, would lead out of any
 * fence that one session can put up in itself (RESET ROLE takes down what SET ROLE put up). So each
 * zone has a role that logs in by itself and owns nothing but its tables: the walls are those of
 * PostgreSQL. The role, its schema, and its password (made from the installation's key, so that all
 * nodes know it) are made at first use. Where our own user may not make roles, scripts have no
 * database, and are told why.
 *
 * What a session keeps (settings, locks, temporary tables, LISTEN) is discarded between two calls,
 * without waiting for it: the next user takes the answer first.
 */
#include "store/script.h"

#include "posthouse/log.h"
#include "store/connect.h"
#include "store/internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum {
    IDLE_PER_ZONE = 4,
    IDLE_MAX = 16, /* of all zones of this node */
    IDLE_US = 60 * 1000 * 1000,
    ROWS_MAX = 10000,
    BYTES_MAX = 4 * 1024 * 1024,
    CELL_BYTES = 16, /* that libpq keeps of each, also of a null */
    END_US = 2 * 1000 * 1000,
    CONNECT_US = 5 * 1000 * 1000,
    NAME_BYTES = 64,
};

struct PhScriptDb {
    int64_t zone_tenant;
    PGconn *conn;
    bool is_clearing; /* DISCARD ALL is under way */
    bool is_lost;
    bool is_given_up;   /* the server may still work on it */
    int64_t timeout_ms; /* that the session has */
    int64_t used_us;    /* when it was given back */
};

struct PhScriptRows {
    PGresult *result;
    int64_t affected;
    GPtrArray *decoded; /* bytes that were made of hexadecimal */
};

static struct {
    GMutex mutex; /* held while a role is made */
    PhMutex idle_mutex;
    GQueue idle;       /* PhScriptDb, the last used first */
    GHashTable *ready; /* int64_t: zones whose role and schema are there */
    char *key;
    size_t key_length;
} dbs = { .idle_mutex = { .rank = PH_LOCK_STORE } };

/* -- names and passwords ----------------------------------------------------------------------- */

static void
zone_schema(int64_t zone_tenant, char name[static NAME_BYTES])
{
    if (zone_tenant == PH_SCRIPT_CORE)
        g_strlcpy(name, "script_core", NAME_BYTES);
    else
        g_snprintf(name, NAME_BYTES, "script_t%" G_GINT64_FORMAT, zone_tenant);
}

/* Roles are of the whole cluster, which may hold more than one installation. */
static void
zone_role(int64_t zone_tenant, const char *database_oid, char name[static NAME_BYTES])
{
    char schema[NAME_BYTES];
    zone_schema(zone_tenant, schema);
    g_snprintf(name, NAME_BYTES, "ph%s_%s", database_oid, schema);
}

void
ph_script_db_configure(const PhSecret *key)
{
    g_mutex_lock(&dbs.mutex);
    g_free(dbs.key);
    dbs.key_length = ph_secret_length(key);
    dbs.key = g_memdup2(ph_secret_bytes(key), dbs.key_length);
    g_mutex_unlock(&dbs.mutex);
}

static char *
role_password(const char *role)
{
    g_autofree char *text = g_strconcat("script database ", role, NULL);
    return g_compute_hmac_for_data(G_CHECKSUM_SHA256,
        (const guchar *)(dbs.key != NULL ? dbs.key : ""), dbs.key_length, (const guchar *)text,
        strlen(text));
}

/* -- making role and schema -------------------------------------------------------------------- */

static const PhStatement read_oid = {
    "script-db-oid",
    "SELECT oid::text, current_user::text, current_database()::text\n"
    "FROM pg_database WHERE datname = current_database()",
};

/* Makes what is missing. The names are ours, the password is hexadecimal: nothing to quote. */
static const PhStatement make_role = {
    "script-db-make-role",
    "SELECT set_config('posthouse.role', $1::text, true), set_config('posthouse.schema', $2::text, true),\n"
    "       set_config('posthouse.password', $3::text, true)",
};

static const PhStatement run_make_role = {
    "script-db-run-make-role",
    "DO $$\n"
    "DECLARE\n"
    "    role text := current_setting('posthouse.role');\n"
    "    own text := current_setting('posthouse.schema');\n"
    "BEGIN\n"
    "    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN\n"
    "        EXECUTE format('CREATE ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT', role);\n"
    "    END IF;\n"
    "    EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', role,\n"
    "                   current_setting('posthouse.password'));\n"
    "    EXECUTE format('CREATE SCHEMA IF NOT EXISTS %I', own);\n"
    "    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', own, role);\n"
    "    IF NOT pg_has_role(current_user, role, 'USAGE') THEN\n"
    "        EXECUTE format('GRANT %I TO CURRENT_USER', role);\n" /* may end its sessions */
    "    END IF;\n"
    "END\n"
    "$$",
};

/* One at a time in the whole installation: two nodes may come at once. No advisory lock, which any
 * script could take. */
static const PhStatement lock_making = {
    "script-db-lock",
    "LOCK TABLE script_counter IN SHARE UPDATE EXCLUSIVE MODE",
};

typedef struct ZoneNames {
    char schema[NAME_BYTES];
    char role[NAME_BYTES];
    char *password;
} ZoneNames;

PH_IN_JOB static bool
read_names(PhLease *lease, int64_t zone_tenant, ZoneNames *names, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &read_oid);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    zone_schema(zone_tenant, names->schema);
    zone_role(zone_tenant, ph_cell_text(ph_batch_result(&batch, 0), 0, 0), names->role);
    names->password = role_password(names->role);
    return true;
}

PH_IN_JOB static bool
make_zone(PhLease *lease, const ZoneNames *names, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &lock_making);
    PhParams *params = ph_batch_add(&batch, &make_role);
    ph_param_text(params, names->role);
    ph_param_text(params, names->schema);
    ph_param_text(params, names->password);
    ph_batch_add(&batch, &run_make_role);
    ph_batch_add(&batch, &ph_sql_commit);
    g_autoptr(GError) cause = NULL;
    if (ph_batch_run_blocking(lease, &batch, 0, &cause))
        return true;
    if (ph_error_code(cause) == PH_ERROR_UNAVAILABLE ||
        ph_error_code(cause) == PH_ERROR_TEMPORARY) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED,
        "scripts have no database here: the role \"%s\" and the schema \"%s\" cannot be made (%s); "
        "let our database user create roles and schemas",
        names->role, names->schema, cause->message);
    return false;
}

PH_IN_JOB static bool
prepare_zone(int64_t zone_tenant, int64_t deadline_us, ZoneNames *names, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_mutex_lock(&dbs.mutex);
    if (dbs.ready == NULL)
        dbs.ready = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    bool good = read_names(lease, zone_tenant, names, error);
    if (good && !g_hash_table_contains(dbs.ready, &zone_tenant)) {
        good = make_zone(lease, names, error);
        if (good)
            g_hash_table_add(dbs.ready, g_memdup2(&zone_tenant, sizeof(zone_tenant)));
    }
    g_mutex_unlock(&dbs.mutex);
    return good;
}

/* -- connecting -------------------------------------------------------------------------------- */

static void
db_free(PhScriptDb *db)
{
    PQfinish(db->conn);
    g_free(db);
}

static bool
wait_for(PGconn *conn, bool to_write, int64_t deadline_us)
{
    for (;;) {
        int64_t left_us = deadline_us - ph_monotonic_us();
        if (left_us <= 0)
            return false;
        struct pollfd poll_fd = {
            .fd = PQsocket(conn),
            .events = (short)(POLLIN | (to_write ? POLLOUT : 0)),
        };
        int ready = poll(&poll_fd, 1, (int)MIN(left_us / 1000 + 1, 60000));
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

/* The store's own way to the server, as another user. */
PH_IN_JOB static PhScriptDb *
connect_db(int64_t zone_tenant, const ZoneNames *names, int64_t deadline_us, GError **error)
{
    g_autofree char *options = g_strdup_printf("-c search_path=%s -c timezone=UTC", names->schema);
    const PhConnectOption overrides[] = {
        { "fallback_application_name", "posthouse scripts" },
        { "user", names->role },
        { "password", names->password },
        { "options", options },
        { NULL, NULL },
    };
    PGconn *conn = ph_connect_blocking(ph_store_settings()->conninfo, overrides,
        MIN(deadline_us, ph_monotonic_us() + CONNECT_US), error);
    if (conn != NULL && PQsetnonblocking(conn, 1) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "no memory");
        g_clear_pointer(&conn, PQfinish);
    }
    if (conn == NULL) {
        g_prefix_error(error, "the scripts' database cannot be reached as \"%s\": ", names->role);
        return NULL;
    }
    PhScriptDb *db = g_new0(PhScriptDb, 1);
    db->zone_tenant = zone_tenant;
    db->conn = conn;
    return db;
}

/* -- statements -------------------------------------------------------------------------------- */

static bool
flush(PhScriptDb *db, int64_t deadline_us)
{
    for (;;) {
        int left = PQflush(db->conn);
        if (left <= 0)
            return left == 0;
        if (!wait_for(db->conn, true, deadline_us) || PQconsumeInput(db->conn) != 1)
            return false;
    }
}

/* Null: the last was taken (*good_out true), or the connection or the time is gone. */
static PGresult *
next_result(PhScriptDb *db, int64_t deadline_us, bool *good_out)
{
    *good_out = false;
    while (PQisBusy(db->conn)) {
        if (!wait_for(db->conn, false, deadline_us) || PQconsumeInput(db->conn) != 1)
            return NULL;
    }
    *good_out = true;
    return PQgetResult(db->conn);
}

/* The server goes on with what we gave up: it is told to stop, and the connection is not used
 * again. SQL can hide from this (PL/pgSQL catches query_canceled), so end_session() follows. */
#define TOOK_TOO_LONG "the database took too long"

static void
give_up(PhScriptDb *db)
{
    char ignored[256];
    PGcancel *cancel = PQgetCancel(db->conn);
    if (cancel != NULL)
        PQcancel(cancel, ignored, (int)sizeof(ignored));
    PQfreeCancel(cancel);
    db->is_lost = db->is_given_up = true;
}

static void
set_lost(PhScriptDb *db, int64_t deadline_us, GError **error)
{
    if (ph_monotonic_us() >= deadline_us) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, TOOK_TOO_LONG);
        give_up(db);
        return;
    }
    g_autofree char *text = ph_message_line(PQerrorMessage(db->conn));
    g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the scripts' database is away: %s", text);
    db->is_lost = true;
}

static size_t
row_bytes(const PGresult *row)
{
    size_t bytes = (size_t)PQnfields(row) * CELL_BYTES;
    for (int i = 0; i < PQnfields(row); i++)
        bytes += (size_t)PQgetlength(row, 0, i);
    return bytes;
}

static bool
add_row(PGresult *all, const PGresult *row)
{
    int at = PQntuples(all);
    for (int i = 0; i < PQnfields(row); i++) {
        bool is_null = PQgetisnull(row, 0, i) == 1;
        char *value = is_null ? NULL : PQgetvalue(row, 0, i);
        if (PQsetvalue(all, at, i, value, is_null ? -1 : PQgetlength(row, 0, i)) == 0)
            return false;
    }
    return true;
}

static void
set_error_from(const PGresult *result, GError **error)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    g_autofree char *text = ph_message_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    if (g_strcmp0(state, "57014") == 0) {
        /* Whichever looks at the clock first, the server or we. */
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, TOOK_TOO_LONG);
        return;
    }
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "database: %s (%s)",
        text[0] != '\0' ? text : PQresultErrorMessage(result), state != NULL ? state : "no code");
}

typedef struct Collected {
    PGresult *rows; /* what came row by row */
    PGresult *last; /* the end: its status and count */
    size_t bytes;
    bool is_failed; /* an error is set; the rest is only taken from the line */
} Collected;

/* Takes the result. False: it is of no use any more, give up. */
static bool
collect(Collected *collected, PGresult *result, GError **error)
{
    ExecStatusType status = PQresultStatus(result);
    if (collected->is_failed) {
        PQclear(result);
        return true;
    }
    if (status == PGRES_SINGLE_TUPLE) {
        if (collected->rows == NULL)
            collected->rows = PQcopyResult(result, PG_COPYRES_ATTRS);
        collected->bytes += row_bytes(result);
        bool fits = collected->rows != NULL && PQntuples(collected->rows) < ROWS_MAX &&
                    collected->bytes <= BYTES_MAX && add_row(collected->rows, result);
        PQclear(result);
        if (!fits)
            g_set_error(error, PH_ERROR, PH_ERROR_LIMIT,
                "the answer has more than %d rows or %d MiB: ask for less", ROWS_MAX,
                BYTES_MAX / 1024 / 1024);
        return fits;
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
        PQclear(collected->last);
        collected->last = result;
        return true;
    }
    collected->is_failed = true;
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "COPY is not offered");
        PQclear(result);
        return false;
    }
    set_error_from(result, error);
    PQclear(result);
    return true;
}

static bool
run(PhScriptDb *db, const char *sql, unsigned n_parameters, const char *const *parameters,
    int64_t deadline_us, Collected *collected, GError **error)
{
    if (PQsendQueryParams(db->conn, sql, (int)n_parameters, NULL, parameters, NULL, NULL, 0) != 1 ||
        PQsetSingleRowMode(db->conn) != 1 || !flush(db, deadline_us)) {
        set_lost(db, deadline_us, error);
        return false;
    }
    bool good;
    PGresult *result;
    while ((result = next_result(db, deadline_us, &good)) != NULL) {
        if (!collect(collected, result, error)) {
            give_up(db);
            return false;
        }
    }
    if (!good && !collected->is_failed)
        set_lost(db, deadline_us, error);
    else if (!good)
        db->is_lost = true;
    return good && !collected->is_failed;
}

/* The session's own limit is kept near the time that is left, so that the server stops by itself. */
static bool
set_timeout(PhScriptDb *db, int64_t deadline_us, GError **error)
{
    int64_t left_ms = (deadline_us - ph_monotonic_us()) / 1000;
    if (left_ms <= 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "no time is left for the database");
        return false;
    }
    /* Not for each statement: while it is at most what is left and a second, ours ends it first. */
    if (db->timeout_ms > 0 && db->timeout_ms <= left_ms + 1000)
        return true;
    char sql[64];
    Collected collected = { .bytes = 0 };
    g_snprintf(sql, sizeof(sql), "SET statement_timeout = %d", (int)MIN(left_ms + 500, INT32_MAX));
    bool good = run(db, sql, 0, NULL, deadline_us, &collected, error);
    PQclear(collected.last);
    PQclear(collected.rows);
    db->timeout_ms = left_ms + 500;
    return good;
}

bool
ph_script_db_in_transaction(const PhScriptDb *db)
{
    PGTransactionStatusType status = PQtransactionStatus(db->conn);
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

bool
ph_script_db_run_blocking(PhScriptDb *db, const char *sql, unsigned n_parameters,
    const char *const *parameters, int64_t deadline_us, PhScriptRows **rows_out, GError **error)
{
    ph_assert_in_job();
    if (db->is_lost) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the scripts' database is away");
        return false;
    }
    Collected collected = { .bytes = 0 };
    bool in_failed = PQtransactionStatus(db->conn) == PQTRANS_INERROR;
    bool good = (in_failed || set_timeout(db, deadline_us, error)) &&
                run(db, sql, n_parameters, parameters, deadline_us, &collected, error);
    if (!good || rows_out == NULL) {
        PQclear(collected.rows);
        PQclear(collected.last);
        return good;
    }
    PhScriptRows *rows = g_new0(PhScriptRows, 1);
    rows->decoded = g_ptr_array_new_with_free_func(g_free);
    if (collected.last != NULL)
        rows->affected = g_ascii_strtoll(PQcmdTuples(collected.last), NULL, 10);
    rows->result = collected.rows != NULL ? collected.rows : g_steal_pointer(&collected.last);
    PQclear(collected.last);
    *rows_out = rows;
    return true;
}

/* -- taking and giving back -------------------------------------------------------------------- */

static PhScriptDb *
take_idle(int64_t zone_tenant)
{
    PhScriptDb *found = NULL;
    ph_mutex_lock(&dbs.idle_mutex);
    for (GList *at = dbs.idle.head; at != NULL && found == NULL; at = at->next) {
        PhScriptDb *db = at->data;
        if (db->zone_tenant == zone_tenant) {
            found = db;
            g_queue_delete_link(&dbs.idle, at);
            break;
        }
    }
    ph_mutex_unlock(&dbs.idle_mutex);
    if (found != NULL)
        ph_handover_take(found);
    return found;
}

/* Takes the answer to what was sent when it was given back. */
static bool
finish_clearing(PhScriptDb *db, int64_t deadline_us)
{
    bool good;
    bool was_done = true;
    PGresult *result;
    if (!flush(db, deadline_us))
        return false;
    while ((result = next_result(db, deadline_us, &good)) != NULL) {
        was_done = was_done && PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
    }
    db->is_clearing = false;
    return good && was_done;
}

PhScriptDb *
ph_script_db_take_blocking(int64_t zone_tenant, int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    PhScriptDb *db;
    while ((db = take_idle(zone_tenant)) != NULL) {
        if (!db->is_clearing || finish_clearing(db, deadline_us))
            return db;
        db_free(db);
    }
    ZoneNames names = { .password = NULL };
    bool good = prepare_zone(zone_tenant, deadline_us, &names, error);
    db = good ? connect_db(zone_tenant, &names, deadline_us, error) : NULL;
    g_free(names.password);
    return db;
}

static bool
begin_clearing(PhScriptDb *db)
{
    if (ph_script_db_in_transaction(db)) {
        /* What is open is taken back; DISCARD ALL is refused within a transaction. */
        Collected collected = { .bytes = 0 };
        int64_t deadline_us = ph_monotonic_us() + G_USEC_PER_SEC;
        bool good = run(db, "ROLLBACK", 0, NULL, deadline_us, &collected, NULL);
        PQclear(collected.rows);
        PQclear(collected.last);
        if (!good)
            return false;
    }
    db->timeout_ms = 0;
    db->is_clearing = true;
    return PQsendQuery(db->conn, "DISCARD ALL") == 1 && PQflush(db->conn) >= 0;
}

static unsigned
count_idle_locked(int64_t zone_tenant)
{
    unsigned n = 0;
    for (GList *at = dbs.idle.head; at != NULL; at = at->next)
        n += ((PhScriptDb *)at->data)->zone_tenant == zone_tenant;
    return n;
}

/* The longest unused, when more than `most` wait or it waits since before `since_us`. Takes it from
 * the queue. */
static PhScriptDb *
take_surplus(unsigned most, int64_t since_us)
{
    PhScriptDb *surplus = NULL;
    ph_mutex_lock(&dbs.idle_mutex);
    PhScriptDb *last = g_queue_peek_tail(&dbs.idle);
    if (last != NULL && (dbs.idle.length > most || last->used_us < since_us))
        surplus = g_queue_pop_tail(&dbs.idle);
    ph_mutex_unlock(&dbs.idle_mutex);
    if (surplus != NULL)
        ph_handover_take(surplus);
    return surplus;
}

static void
close_surplus(unsigned most, int64_t since_us)
{
    PhScriptDb *surplus;
    while ((surplus = take_surplus(most, since_us)) != NULL)
        db_free(surplus);
}

static const PhStatement end_backend = {
    "script-db-end",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity\n"
    "WHERE pid = $1::integer AND usename = $2::text",
};

/* What was given up must not go on: it holds locks, and one of the server's connections. */
PH_IN_JOB static void
end_session(PhScriptDb *db)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(ph_monotonic_us() + END_US, NULL);
    if (lease == NULL)
        return;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &end_backend);
    ph_param_int32(params, PQbackendPID(db->conn));
    ph_param_text(params, PQuser(db->conn));
    g_autoptr(GError) error = NULL;
    if (!ph_batch_run_blocking(lease, &batch, 0, &error))
        ph_log(PH_LOG_WARNING, "script-db.end", "user=%s %s", PQuser(db->conn), error->message);
}

void
ph_script_db_release(PhScriptDb *db)
{
    ph_assert_in_job();
    if (db == NULL)
        return;
    if (db->is_given_up)
        end_session(db);
    bool keep =
        !db->is_lost && PQtransactionStatus(db->conn) != PQTRANS_ACTIVE && begin_clearing(db);
    db->used_us = ph_monotonic_us();
    ph_mutex_lock(&dbs.idle_mutex);
    keep = keep && count_idle_locked(db->zone_tenant) < IDLE_PER_ZONE;
    if (keep) {
        ph_handover_give(db);
        g_queue_push_head(&dbs.idle, db);
    }
    ph_mutex_unlock(&dbs.idle_mutex);
    if (!keep)
        db_free(db);
    close_surplus(IDLE_MAX, INT64_MIN);
}

void
ph_script_db_tend(void)
{
    close_surplus(IDLE_MAX, ph_monotonic_us() - IDLE_US);
}

void
ph_script_db_close_all(void)
{
    close_surplus(0, INT64_MAX);
    g_mutex_lock(&dbs.mutex);
    g_clear_pointer(&dbs.ready, g_hash_table_unref);
    g_mutex_unlock(&dbs.mutex);
}

/* -- rows -------------------------------------------------------------------------------------- */

unsigned
ph_script_rows_count(const PhScriptRows *rows)
{
    return (unsigned)PQntuples(rows->result);
}

unsigned
ph_script_rows_columns(const PhScriptRows *rows)
{
    return (unsigned)PQnfields(rows->result);
}

int64_t
ph_script_rows_affected(const PhScriptRows *rows)
{
    return rows->affected;
}

const char *
ph_script_rows_name(const PhScriptRows *rows, unsigned column)
{
    return PQfname(rows->result, (int)column);
}

/* The types that are no text in Lua. */
enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_OID = 26,
    OID_FLOAT4 = 700,
    OID_FLOAT8 = 701
};

static void
decode_bytes(PhScriptRows *rows, PhScriptCell *cell)
{
    size_t length;
    unsigned char *bytes = PQunescapeBytea((const unsigned char *)cell->text, &length);
    char *copy = g_memdup2(bytes, length);
    PQfreemem(bytes);
    g_ptr_array_add(rows->decoded, copy);
    cell->kind = PH_SCRIPT_CELL_BYTES;
    cell->text = length > 0 ? copy : "";
    cell->length = length;
}

void
ph_script_rows_cell(PhScriptRows *rows, unsigned row, unsigned column, PhScriptCell *cell)
{
    int i = (int)row;
    int k = (int)column;
    *cell = (PhScriptCell){ .kind = PH_SCRIPT_CELL_NULL };
    if (PQgetisnull(rows->result, i, k))
        return;
    cell->text = PQgetvalue(rows->result, i, k);
    cell->length = (size_t)PQgetlength(rows->result, i, k);
    cell->kind = PH_SCRIPT_CELL_TEXT;
    switch (PQftype(rows->result, k)) {
    case OID_BOOL:
        cell->kind = PH_SCRIPT_CELL_BOOL;
        cell->truth = cell->text[0] == 't';
        break;
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_OID:
        cell->kind = PH_SCRIPT_CELL_INT;
        cell->integer = g_ascii_strtoll(cell->text, NULL, 10);
        break;
    case OID_FLOAT4:
    case OID_FLOAT8:
        cell->kind = PH_SCRIPT_CELL_NUMBER;
        cell->number = g_ascii_strtod(cell->text, NULL);
        break;
    case OID_BYTEA:
        decode_bytes(rows, cell);
        break;
    default:
        break;
    }
}

void
ph_script_rows_free(PhScriptRows *rows)
{
    if (rows == NULL)
        return;
    PQclear(rows->result);
    g_ptr_array_unref(rows->decoded);
    g_free(rows);
}
