/* test-database.c - starting PostgreSQL for tests
 *
 * Hard here: PostgreSQL refuses to run as root, and must be stopped whatever the test does. As root
 * its programs run as the user "postgres" (or "nobody"). The kernel sends the server a signal when
 * this program is gone.
 */
#include "tests/support/test-database.h"

#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    char *admin; /* conninfo of the maintenance database */
    char *template_name;
    char *bin;
    char *folder;
    pid_t server;
    unsigned n_made;
    GPtrArray *made;
    char *shared;
} cluster;

G_GNUC_NORETURN static void
fail(const char *what, const char *why)
{
    fprintf(stderr, "test database: %s: %s\n", what, why);
    if (cluster.server > 0)
        kill(cluster.server, SIGQUIT);
    _exit(99);
}

/* -- PostgreSQL's programs --------------------------------------------------------------------- */

static char *
find_bin(void)
{
    g_autofree char *asked = NULL;
    if (g_spawn_command_line_sync("pg_config --bindir", &asked, NULL, NULL, NULL) &&
        asked != NULL) {
        g_strstrip(asked);
        g_autofree char *initdb = g_build_filename(asked, "initdb", NULL);
        if (g_file_test(initdb, G_FILE_TEST_IS_EXECUTABLE))
            return g_steal_pointer(&asked);
    }
    static const char *const known[] = { "/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin",
        "/usr/lib/postgresql/15/bin", "/usr/pgsql-17/bin", "/usr/pgsql-16/bin", "/usr/pgsql-15/bin",
        "/usr/bin" };
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        g_autofree char *initdb = g_build_filename(known[i], "initdb", NULL);
        if (g_file_test(initdb, G_FILE_TEST_IS_EXECUTABLE))
            return g_strdup(known[i]);
    }
    fail("PostgreSQL", "initdb was not found");
}

static const struct passwd *
server_user(void)
{
    const struct passwd *user = getpwnam("postgres");
    return user != NULL ? user : getpwnam("nobody");
}

/* In the child: no rights, no signals of ours, quiet. */
static void
become_server_user(void)
{
    if (geteuid() != 0)
        return;
    const struct passwd *user = server_user();
    if (user == NULL || setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0)
        _exit(98);
}

static void
quiet(const char *log)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dup2(fd, 1);
        dup2(fd, 2);
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        dup2(null, 0);
}

static pid_t
run(const char *const *arguments)
{
    g_autofree char *log = g_build_filename(cluster.folder, "server.log", NULL);
    pid_t test = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    become_server_user();
    /* A fast shutdown when the test program is gone. */
    prctl(PR_SET_PDEATHSIG, SIGINT);
    if (getppid() != test)
        _exit(97);
    quiet(log);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(96);
}

static void
run_to_end(const char *const *arguments)
{
    int status = 0;
    pid_t pid = run(arguments);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0)
        fail(arguments[0], "it failed; see server.log");
}

/* -- asking ------------------------------------------------------------------------------------ */

char *
test_database_ask(const char *conninfo, const char *sql)
{
    PGconn *conn = PQconnectdb(conninfo);
    if (PQstatus(conn) != CONNECTION_OK)
        fail(sql, PQerrorMessage(conn));
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail(sql, PQerrorMessage(conn));
    bool has_value =
        status == PGRES_TUPLES_OK && PQntuples(result) > 0 && !PQgetisnull(result, 0, 0);
    char *value = has_value ? g_strdup(PQgetvalue(result, 0, 0)) : NULL;
    PQclear(result);
    PQfinish(conn);
    return value;
}

int64_t
test_database_ask_number(const char *conninfo, const char *sql)
{
    g_autofree char *text = test_database_ask(conninfo, sql);
    return text != NULL ? g_ascii_strtoll(text, NULL, 10) : 0;
}

/* -- the private cluster ----------------------------------------------------------------------- */

/* False: it ended at its start. */
static bool
await_server(void)
{
    for (int i = 0; i < 1500; i++) {
        if (PQping(cluster.admin) == PQPING_OK)
            return true;
        if (waitpid(cluster.server, NULL, WNOHANG) == cluster.server) {
            cluster.server = 0;
            return false;
        }
        g_usleep(20000);
    }
    fail("PostgreSQL", "it did not come up in 30 s");
}

static bool
start_server(void)
{
    g_autofree char *program = g_build_filename(cluster.bin, "postgres", NULL);
    g_autofree char *data = g_build_filename(cluster.folder, "data", NULL);
    const char *const arguments[] = {
        program,
        "-D",
        data,
        "-k",
        cluster.folder,
        "-c",
        "listen_addresses=",
        "-c",
        "fsync=off",
        "-c",
        "max_connections=80",
        "-c",
        "shared_buffers=64MB",
        NULL,
    };
    cluster.server = run(arguments);
    return await_server();
}

static void
remove_tree(const char *path)
{
    g_autoptr(GDir) dir =
        g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
    const char *name;
    while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        remove_tree(child);
    }
    remove(path);
}

/* What test programs left behind that crashed. */
static void
remove_leftovers(void)
{
    g_autoptr(GDir) dir = g_dir_open(g_get_tmp_dir(), 0, NULL);
    const char *name;
    while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
        int pid = 0;
        if (sscanf(name, "phtest-%d-", &pid) != 1 || pid <= 0 || kill(pid, 0) == 0 ||
            errno != ESRCH)
            continue;
        g_autofree char *path = g_build_filename(g_get_tmp_dir(), name, NULL);
        remove_tree(path);
    }
}

static void
make_cluster(void)
{
    remove_leftovers();
    cluster.bin = find_bin();
    g_autofree char *pattern = g_strdup_printf("phtest-%d-XXXXXX", (int)getpid());
    cluster.folder = g_dir_make_tmp(pattern, NULL);
    if (cluster.folder == NULL)
        fail("a temporary folder", g_strerror(errno));
    if (geteuid() == 0 && (server_user() == NULL || chown(cluster.folder, server_user()->pw_uid,
                                                        server_user()->pw_gid) != 0))
        fail(cluster.folder, "cannot be given to an unprivileged user");
    cluster.admin = g_strdup_printf("host=%s dbname=postgres user=postgres", cluster.folder);
    g_autofree char *initdb = g_build_filename(cluster.bin, "initdb", NULL);
    g_autofree char *data = g_build_filename(cluster.folder, "data", NULL);
    const char *const arguments[] = {
        initdb,
        "-D",
        data,
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
        NULL,
    };
    run_to_end(arguments);
    if (!start_server())
        fail("PostgreSQL", "it ended at its start; see server.log");
}

bool
test_database_is_private(void)
{
    return cluster.folder != NULL;
}

void
test_database_crash(void)
{
    if (cluster.server <= 0)
        return;
    /* The postmaster's children notice and go. */
    kill(cluster.server, SIGKILL);
    waitpid(cluster.server, NULL, 0);
    cluster.server = 0;
}

void
test_database_restart(void)
{
    /* While children of the old server hold its shared memory, a new one ends at once. */
    for (int i = 0; i < 100; i++) {
        if (start_server())
            return;
        g_usleep(100000);
    }
    fail("PostgreSQL", "it does not start again");
}

/* -- databases --------------------------------------------------------------------------------- */

static char *
conninfo_of(const char *name)
{
    /* A later dbname wins. */
    return g_strdup_printf("%s dbname=%s", cluster.admin, name);
}

static char *
create(const char *template_name)
{
    char *name = g_strdup_printf("phtest_%d_%u", (int)getpid(), ++cluster.n_made);
    g_autofree char *sql = g_strdup_printf("CREATE DATABASE %s TEMPLATE %s", name, template_name);
    g_free(test_database_ask(cluster.admin, sql));
    g_ptr_array_add(cluster.made, name);
    return conninfo_of(name);
}

char *
test_database_schema_folder(void)
{
    const char *source = g_getenv("PH_TEST_SOURCE_DIR");
    return g_build_filename(source != NULL ? source : PH_TEST_SOURCE, "schema", NULL);
}

void
test_database_start(void)
{
    const char *given = g_getenv("PH_TEST_PG");
    cluster.made = g_ptr_array_new_with_free_func(g_free);
    atexit(test_database_stop);
    if (given != NULL && given[0] != '\0')
        cluster.admin = g_strdup(given);
    else
        make_cluster();
}

char *
test_database_new_empty(void)
{
    return create("template0");
}

static void
make_template(void)
{
    g_autofree char *conninfo = create("template0");
    cluster.template_name = g_strdup(cluster.made->pdata[cluster.made->len - 1]);
    g_autofree char *folder = test_database_schema_folder();
    g_autoptr(GError) error = NULL;
    ph_assert_in_job();
    if (!ph_store_migrate_blocking(
            conninfo, folder, "test", ph_monotonic_us() + 60000000, NULL, &error))
        fail("the schema", error->message);
}

/* The rows that the schema itself makes stay. */
static const char clean_sql[] =
    "SET session_replication_role = replica;\n"
    "DO $$\n"
    "DECLARE t text;\n"
    "BEGIN\n"
    "    FOR t IN SELECT c.oid::regclass FROM pg_class c\n"
    "             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition\n"
    "               AND c.relname NOT IN ('schema_version', 'tenant', 'setting_version', 'script_counter') LOOP\n"
    "        EXECUTE 'DELETE FROM ' || t;\n"
    "    END LOOP;\n"
    "    DELETE FROM tenant WHERE tenant_id <> 0;\n"
    "    UPDATE setting_version SET version = 0;\n"
    "END\n"
    "$$";

char *
test_database_shared(void)
{
    if (cluster.shared == NULL) {
        cluster.shared = test_database_new();
        return g_strdup(cluster.shared);
    }
    g_free(test_database_ask(cluster.shared, clean_sql));
    return g_strdup(cluster.shared);
}

char *
test_database_new(void)
{
    if (cluster.template_name == NULL)
        make_template();
    return create(cluster.template_name);
}

void
test_database_stop(void)
{
    if (cluster.admin == NULL)
        return;
    if (cluster.folder == NULL) {
        for (guint i = cluster.made->len; i-- > 0;) {
            g_autofree char *sql = g_strdup_printf(
                "DROP DATABASE IF EXISTS %s WITH (FORCE)", (char *)cluster.made->pdata[i]);
            g_free(test_database_ask(cluster.admin, sql));
        }
    }
    if (cluster.server > 0) {
        kill(cluster.server, SIGINT);
        waitpid(cluster.server, NULL, 0);
        cluster.server = 0;
    }
    if (cluster.folder != NULL)
        remove_tree(cluster.folder);
    g_clear_pointer(&cluster.admin, g_free);
    g_clear_pointer(&cluster.folder, g_free);
    g_clear_pointer(&cluster.shared, g_free);
    g_clear_pointer(&cluster.bin, g_free);
    g_clear_pointer(&cluster.template_name, g_free);
    g_clear_pointer(&cluster.made, g_ptr_array_unref);
}
