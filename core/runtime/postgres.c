/* postgres.c - initdb, start, and a server that was left behind
 *
 * Who may connect is decided by the socket's folder (0700, our user), so local connections are
 * trusted and there are no others.
 */
#include "runtime/postgres.h"

#include "posthouse/log.h"
#include "runtime/process.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEAST_VERSION = 15, STOP_WAIT_MS = 30 * 1000 };

/* The newest installed bin folder. */
static char *
find_bin_folder(GError **error)
{
    static const char *const roots[] = { "/usr/lib/postgresql", "/usr/pgsql-%d", "/usr/bin" };
    for (int version = 30; version >= LEAST_VERSION; version--) {
        g_autofree char *debian = g_strdup_printf("%s/%d/bin", roots[0], version);
        g_autofree char *initdb = g_build_filename(debian, "initdb", NULL);
        if (g_file_test(initdb, G_FILE_TEST_IS_EXECUTABLE))
            return g_steal_pointer(&debian);
        g_autofree char *rpm = g_strdup_printf("/usr/pgsql-%d/bin", version);
        g_autofree char *rpm_initdb = g_build_filename(rpm, "initdb", NULL);
        if (g_file_test(rpm_initdb, G_FILE_TEST_IS_EXECUTABLE))
            return g_steal_pointer(&rpm);
    }
    if (g_file_test("/usr/bin/initdb", G_FILE_TEST_IS_EXECUTABLE))
        return g_strdup(roots[2]);
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
        "PostgreSQL %d or later is not installed (Debian: postgresql-15, Fedora: "
        "postgresql-server)",
        LEAST_VERSION);
    return NULL;
}

static char *
data_folder(const PhConfig *config)
{
    return ph_config_file(config, "postgres/data");
}

static bool
make_folder(const PhConfig *config, const char *name, GError **error)
{
    unsigned uid;
    unsigned gid;
    g_autofree char *path = ph_config_file(config, name);
    if (!ph_config_user(config, &uid, &gid, error))
        return false;
    if (g_mkdir_with_parents(path, 0700) == 0 && (geteuid() != 0 || chown(path, uid, gid) == 0))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", path, g_strerror(errno));
    return false;
}

/* -- a server that was left behind ------------------------------------------------------------- */

/* The process id in postmaster.pid, when that process is a server in our data folder. */
static pid_t
find_left_running(const char *data)
{
    g_autofree char *pid_path = g_build_filename(data, "postmaster.pid", NULL);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(pid_path, &text, NULL, NULL))
        return 0;
    pid_t pid = atoi(text);
    g_autofree char *link = g_strdup_printf("/proc/%d/cwd", (int)pid);
    g_autofree char *cwd = pid > 1 ? g_file_read_link(link, NULL) : NULL;
    char *real = realpath(data, NULL);
    bool ours = cwd != NULL && real != NULL && strcmp(cwd, real) == 0;
    free(real);
    return ours ? pid : 0;
}

static void
stop_left_running(const char *data)
{
    pid_t pid = find_left_running(data);
    if (pid == 0)
        return;
    ph_log(PH_LOG_WARNING, "postgres.left-running", "pid=%d it is stopped", (int)pid);
    kill(pid, SIGINT);
    int64_t until_us = ph_monotonic_us() + STOP_WAIT_MS * 1000;
    while (kill(pid, 0) == 0 && find_left_running(data) == pid) {
        if (ph_monotonic_us() > until_us) {
            kill(pid, SIGQUIT);
            return;
        }
        g_usleep(50000);
    }
}

/* By PostgreSQL's single-user mode: nothing listens yet. */
static bool
create_database(
    const PhConfig *config, const char *bin, const char *data, PhSpawn *spawn, GError **error)
{
    g_autofree char *program = g_build_filename(bin, "postgres", NULL);
    g_autofree char *input = ph_config_file(config, "postgres/create.sql");
    g_autoptr(GError) cause = NULL;
    if (!g_file_set_contents(input, "CREATE DATABASE posthouse\n", -1, &cause) ||
        chmod(input, 0644) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "%s",
            cause != NULL ? cause->message : g_strerror(errno));
        return false;
    }
    const char *const argv[] = { program, "--single", "-D", data, "postgres", NULL };
    spawn->argv = argv;
    spawn->input_path = input;
    bool good = ph_process_run(spawn, error);
    spawn->argv = NULL;
    g_unlink(input);
    return good;
}

/* -- making and starting ----------------------------------------------------------------------- */

bool
ph_postgres_prepare(const PhConfig *config, GError **error)
{
    g_autofree char *bin = find_bin_folder(error);
    unsigned uid;
    unsigned gid;
    if (bin == NULL || !ph_config_user(config, &uid, &gid, error) ||
        !make_folder(config, "postgres", error) || !make_folder(config, "log", error))
        return false;

    g_autofree char *data = data_folder(config);
    g_autofree char *version = g_build_filename(data, "PG_VERSION", NULL);
    if (g_file_test(version, G_FILE_TEST_EXISTS)) {
        stop_left_running(data);
        return true;
    }
    /* Into a folder beside it, renamed when whole: an interrupted initdb leaves nothing that looks
     * finished. */
    g_autofree char *making = g_strconcat(data, ".making", NULL);
    const char *const remove[] = { "/bin/rm", "-rf", making, NULL };
    g_autofree char *initdb = g_build_filename(bin, "initdb", NULL);
    const char *const argv[] = { initdb, "--pgdata", making, "--username", "posthouse",
        "--encoding", "UTF8", "--locale", "C", "--auth-local", "trust", "--auth-host", "reject",
        "--data-checksums", NULL };
    g_autofree char *log = ph_config_file(config, "log/postgres.log");
    PhSpawn spawn = { .argv = remove, .uid = uid, .gid = gid, .channel_fd = -1, .log_path = log };
    if (!ph_process_run(&spawn, error))
        return false;
    spawn.argv = argv;
    ph_log(PH_LOG_NOTICE, "postgres.init", "a new database cluster is made in \"%s\"", data);
    if (!ph_process_run(&spawn, error) || !create_database(config, bin, making, &spawn, error))
        return false;
    if (g_rename(making, data) == 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "rename \"%s\": %s", making, g_strerror(errno));
    return false;
}

/* What differs from PostgreSQL's defaults. */
static const char *const server_settings[] = {
    "listen_addresses=",
    "max_connections=120",
    "shared_buffers=256MB",
    "wal_compression=on",
    "max_wal_size=2GB",
    "checkpoint_completion_target=0.9",
    "autovacuum_naptime=20s",
    "log_timezone=UTC",
    "timezone=UTC",
};

pid_t
ph_postgres_spawn(const PhConfig *config, GError **error)
{
    unsigned uid;
    unsigned gid;
    g_autofree char *bin = find_bin_folder(error);
    g_autofree char *sockets = bin != NULL ? ph_config_socket_folder(config, error) : NULL;
    if (sockets == NULL || !ph_config_user(config, &uid, &gid, error))
        return -1;
    g_autofree char *program = g_build_filename(bin, "postgres", NULL);
    g_autofree char *data = data_folder(config);
    g_autofree char *log = ph_config_file(config, "log/postgres.log");

    g_autoptr(GPtrArray) argv = g_ptr_array_new_with_free_func(g_free);
    const char *const fixed[] = { program, "-D", data, "-k", sockets };
    for (size_t i = 0; i < G_N_ELEMENTS(fixed); i++)
        g_ptr_array_add(argv, g_strdup(fixed[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(server_settings); i++) {
        g_ptr_array_add(argv, g_strdup("-c"));
        g_ptr_array_add(argv, g_strdup(server_settings[i]));
    }
    g_ptr_array_add(argv, NULL);
    PhSpawn spawn = {
        .argv = (const char *const *)argv->pdata,
        .uid = uid,
        .gid = gid,
        .channel_fd = -1,
        .log_path = log,
    };
    return ph_process_spawn(&spawn, error);
}

bool
ph_postgres_is_ready(const PhConfig *config, pid_t pid)
{
    enum { STATUS_LINE = 7 };
    g_autofree char *data = data_folder(config);
    g_autofree char *path = g_build_filename(data, "postmaster.pid", NULL);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL) || atoi(text) != pid)
        return false;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    return g_strv_length(lines) > STATUS_LINE && g_str_has_prefix(lines[STATUS_LINE], "ready");
}

char *
ph_postgres_conninfo(const PhConfig *config, GError **error)
{
    g_autofree char *sockets = ph_config_socket_folder(config, error);
    if (sockets == NULL)
        return NULL;
    GString *text = g_string_new("host='");
    for (const char *at = sockets; *at != '\0'; at++) {
        if (*at == '\'' || *at == '\\')
            g_string_append_c(text, '\\');
        g_string_append_c(text, *at);
    }
    g_string_append(text, "' user=posthouse dbname=posthouse");
    return g_string_free(text, FALSE);
}
