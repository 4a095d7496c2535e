/* migrate.c - bringing the schema up to date
 *
 * Hard here: several nodes may start at once, and a file of many statements is one transaction. The
 * connection is plain (no pipeline), because a file is run by the simple query protocol; the
 * advisory lock belongs to the session, so it is gone with it whatever happens.
 */
#include "posthouse/log.h"
#include "store/connect.h"
#include "store/store.h"

#include <string.h>

/* "posthouse" in a number: any constant would do, it must never change. */
#define ADVISORY_LOCK "5786341187293445221"

typedef struct Migration {
    int version;
    char *path;
    char *sql;
    char *checksum;
} Migration;

static void
migration_free(Migration *migration)
{
    g_free(migration->path);
    g_free(migration->sql);
    g_free(migration->checksum);
    g_free(migration);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PGconn, PQfinish)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PGresult, PQclear)

static int
by_version(const void *left, const void *right)
{
    const Migration *const *a = left;
    const Migration *const *b = right;
    return ((*a)->version > (*b)->version) - ((*a)->version < (*b)->version);
}

static Migration *
read_file(const char *folder, const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *sql = NULL;
    gsize length = 0;
    g_autoptr(GError) local = NULL;
    if (!g_file_get_contents(path, &sql, &length, &local)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_INTERNAL, "read migration \"%s\": %s", path, local->message);
        return NULL;
    }
    Migration *migration = g_new0(Migration, 1);
    migration->version = (int)g_ascii_strtoull(name, NULL, 10);
    migration->checksum =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)sql, length);
    migration->path = g_steal_pointer(&path);
    migration->sql = g_steal_pointer(&sql);
    return migration;
}

static bool
is_migration_name(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits == 4 && name[4] == '-' && g_str_has_suffix(name, ".sql");
}

/* In order, numbered 1, 2, 3 ... without a gap. */
static GPtrArray *
read_folder(const char *folder, GError **error)
{
    g_autoptr(GError) local = NULL;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, &local);
    if (dir == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "open the schema folder \"%s\": %s",
            folder, local->message);
        return NULL;
    }
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func((GDestroyNotify)migration_free);
    const char *name;
    while ((name = g_dir_read_name(dir)) != NULL) {
        if (!is_migration_name(name))
            continue;
        Migration *migration = read_file(folder, name, error);
        if (migration == NULL)
            return NULL;
        g_ptr_array_add(files, migration);
    }
    g_ptr_array_sort(files, by_version);
    for (unsigned i = 0; i < files->len; i++) {
        const Migration *migration = files->pdata[i];
        if (migration->version != (int)i + 1) {
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
                "migration %04u is missing or doubled in \"%s\"", i + 1, folder);
            return NULL;
        }
    }
    if (files->len == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no migrations in \"%s\"", folder);
        return NULL;
    }
    return g_steal_pointer(&files);
}

static bool
set_error(PGconn *conn, const char *doing, GError **error)
{
    g_autofree char *text = ph_message_line(PQerrorMessage(conn));
    bool away = PQstatus(conn) != CONNECTION_OK;
    g_set_error(
        error, PH_ERROR, away ? PH_ERROR_UNAVAILABLE : PH_ERROR_INTERNAL, "%s: %s", doing, text);
    return false;
}

static bool
run(PGconn *conn, const char *sql, const char *doing, GError **error)
{
    g_autoptr(PGresult) result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return true;
    return set_error(conn, doing, error);
}

static bool
run_with(PGconn *conn, const char *sql, int count, const char *const *values, const char *doing,
    GError **error)
{
    g_autoptr(PGresult) result = PQexecParams(conn, sql, count, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return true;
    return set_error(conn, doing, error);
}

/* Scripts may take any advisory lock, and their sessions outlive a daemon that was killed. */
static void
end_scripts(PGconn *conn)
{
    g_autoptr(PGresult) result = PQexec(conn,
        "SELECT pg_terminate_backend(a.pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)\n"
        "WHERE l.locktype = 'advisory' AND a.datname = current_database()\n"
        "  AND a.usename ~ '^ph[0-9]+_script_'");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        ph_log(PH_LOG_WARNING, "store.scripts", "%s", PQerrorMessage(conn));
}

static bool
take_lock(PGconn *conn, int64_t deadline_us, GError **error)
{
    for (bool again = false;; again = true) {
        g_autoptr(PGresult) result = PQexec(conn, "SELECT pg_try_advisory_lock(" ADVISORY_LOCK ")");
        if (PQresultStatus(result) != PGRES_TUPLES_OK)
            return set_error(conn, "lock the schema", error);
        if (strcmp(PQgetvalue(result, 0, 0), "t") == 0)
            return true;
        if (ph_monotonic_us() >= deadline_us) {
            g_set_error(
                error, PH_ERROR, PH_ERROR_TEMPORARY, "another process is changing the schema");
            return false;
        }
        if (!again)
            end_scripts(conn);
        g_usleep(50000);
    }
}

static bool
apply(PGconn *conn, const Migration *migration, const char *by, GError **error)
{
    g_autofree char *doing = g_strdup_printf("migration \"%s\"", migration->path);
    char version[16];
    g_snprintf(version, sizeof version, "%d", migration->version);
    const char *const values[] = { version, migration->checksum, by };
    bool applied =
        run(conn, "BEGIN", doing, error) && run(conn, migration->sql, doing, error) &&
        run_with(conn, "INSERT INTO schema_version (version, checksum, by) VALUES ($1, $2, $3)", 3,
            values, doing, error) &&
        run(conn, "COMMIT", doing, error);
    if (!applied)
        run(conn, "ROLLBACK", doing, NULL);
    return applied;
}

/* -1: an error is set; 0: not applied yet; 1: applied, with this content. */
static int
is_applied(PGconn *conn, const Migration *migration, GError **error)
{
    char version[16];
    g_snprintf(version, sizeof version, "%d", migration->version);
    const char *const values[] = { version };
    g_autoptr(PGresult) result = PQexecParams(conn,
        "SELECT checksum FROM schema_version WHERE version = $1", 1, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        set_error(conn, "read the schema's version", error);
        return -1;
    }
    if (PQntuples(result) == 0)
        return 0;
    if (strcmp(PQgetvalue(result, 0, 0), migration->checksum) == 0)
        return 1;
    g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
        "migration \"%s\" was applied and has changed since", migration->path);
    return -1;
}

static bool
check_not_newer(PGconn *conn, unsigned n_files, GError **error)
{
    g_autoptr(PGresult) result =
        PQexec(conn, "SELECT coalesce(max(version), 0) FROM schema_version");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return set_error(conn, "read the schema's version", error);
    uint64_t version = g_ascii_strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    if (version <= n_files)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
        "the database has schema %" G_GUINT64_FORMAT ", this server knows %u", version, n_files);
    return false;
}

static bool
apply_all(
    PGconn *conn, const GPtrArray *files, const char *by, unsigned *n_applied_out, GError **error)
{
    unsigned n_applied = 0;
    for (unsigned i = 0; i < files->len; i++) {
        int known = is_applied(conn, files->pdata[i], error);
        if (known < 0 || (known == 0 && !apply(conn, files->pdata[i], by, error)))
            return false;
        n_applied += known == 0 ? 1 : 0;
    }
    if (!check_not_newer(conn, files->len, error))
        return false;
    if (n_applied_out != NULL)
        *n_applied_out = n_applied;
    return true;
}

bool
ph_store_migrate_blocking(const char *conninfo, const char *schema_folder, const char *by,
    int64_t deadline_us, unsigned *n_applied_out, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) files = read_folder(schema_folder, error);
    if (files == NULL)
        return false;
    /* The files are UTF-8, whatever else the sessions are. */
    static const PhConnectOption overrides[] = { { "client_encoding", "UTF8" }, { NULL, NULL } };
    g_autoptr(PGconn) conn = ph_connect_blocking(conninfo, overrides, deadline_us, error);
    if (conn == NULL) {
        g_prefix_error(error, "the database is away: ");
        return false;
    }
    return run(conn, "SET search_path = public; SET timezone = 'UTC'", "set up the session",
               error) &&
           take_lock(conn, deadline_us, error) &&
           run(conn,
               "CREATE TABLE IF NOT EXISTS schema_version (\n"
               "    version    integer     NOT NULL PRIMARY KEY,\n"
               "    checksum   text        NOT NULL,\n"
               "    applied_at timestamptz NOT NULL DEFAULT now(),\n"
               "    by         text        NOT NULL\n"
               ")",
               "make the table of versions", error) &&
           apply_all(conn, files, by, n_applied_out, error);
}
