/* init.c - posthouse init: a state folder that serve can start from */
#include "command/command.h"

#include "identity/local-ca.h"
#include "management/configuration.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// clang-format off
const PhOptionRow ph_init_options[] = {
    { "--run-as", "run_as", "USER", "who the server and its database run as, when started by root: posthouse" },
    { "--database", "database", "CONNECTION", "a PostgreSQL of yours, as libpq writes it; \"managed\", the default, is one of its own" },
    { "--port-base", "port_base", "NUMBER", "added to each port: with 20000 mail comes in at 20025; \"ephemeral\" takes free ones" },
    { "--allowed-ports", "allowed_ports", "NUMBER,...", "the ports, without the base, that may be bound at all" },
    { "--control-socket", "control_socket", "FILE", "where commands reach the server; in the state folder" },
    { "--node-name", "node_name", "NAME", "what this server is called among those on one database; the host's name" },
    { 0 },
};
// clang-format on

static const char *const folders[] = { "run", "spool", "sites", "tls", "log", "backup" };

static bool
parse_options(int argc, char **argv, GString *text)
{
    for (int i = 0; i < argc;) {
        const char *value = NULL;
        for (const PhOptionRow *row = ph_init_options; row->name != NULL && value == NULL; row++) {
            value = ph_command_option(row->name, argc, argv, &i);
            if (value != NULL)
                g_string_append_printf(text, "%s = %s\n", row->key, value);
        }
        if (value == NULL) {
            fprintf(stderr,
                "posthouse init: \"%s\" is not known, or lacks its value; see posthouse help init\n",
                argv[i]);
            return false;
        }
    }
    return true;
}

/* Writes the file once: it is the administrator's afterwards. */
static bool
write_config(const char *path, const char *text, GError **error)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (fd < 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", path, g_strerror(errno));
        return false;
    }
    bool good = write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fsync(fd) == 0;
    close(fd);
    if (!good)
        g_set_error(
            error, PH_ERROR, PH_ERROR_TEMPORARY, "write \"%s\": %s", path, g_strerror(errno));
    return good;
}

static bool
give_away(const char *path, unsigned uid, unsigned gid, GError **error)
{
    if (geteuid() != 0 || lchown(path, uid, gid) == 0)
        return true;
    g_set_error(
        error, PH_ERROR, PH_ERROR_DENIED, "give \"%s\" to its user: %s", path, g_strerror(errno));
    return false;
}

static bool
make_folders(const PhConfig *config, unsigned uid, unsigned gid, GError **error)
{
    if (!give_away(config->state, uid, gid, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *path = ph_config_file(config, folders[i]);
        if (g_mkdir_with_parents(path, 0700) != 0) {
            g_set_error(
                error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", path, g_strerror(errno));
            return false;
        }
        if (!give_away(path, uid, gid, error))
            return false;
    }
    return true;
}

static bool
make_secrets(const PhConfig *config, unsigned uid, unsigned gid, GError **error)
{
    static const char *const made[] = { "secret.key", "tls/ca.pem", "tls/ca.key", "tls/cert.pem",
        "tls/key.pem" };
    g_autofree char *tls = ph_config_file(config, "tls");
    if (!ph_configuration_init(config->state, config->node_name, error) ||
        !ph_local_ca_ensure(tls, g_get_host_name(), error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(made); i++) {
        g_autofree char *path = ph_config_file(config, made[i]);
        if (!give_away(path, uid, gid, error))
            return false;
    }
    return true;
}

static bool
make_parent(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    if (g_mkdir_with_parents(folder, 0755) == 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", folder, g_strerror(errno));
    return false;
}

static bool
init_state(const char *state, const char *path, const char *text, bool *is_new_out, GError **error)
{
    unsigned uid;
    unsigned gid;
    if (g_mkdir_with_parents(state, 0711) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", state, g_strerror(errno));
        return false;
    }
    *is_new_out = !g_file_test(path, G_FILE_TEST_EXISTS);
    if (*is_new_out && (!make_parent(path, error) || !write_config(path, text, error)))
        return false;
    g_autoptr(PhConfig) config = ph_config_load(path, state, error);
    if (config == NULL || !ph_config_user(config, &uid, &gid, error)) {
        if (*is_new_out)
            g_unlink(path);
        return false;
    }
    /* It may hold the database's password. */
    if (*is_new_out && geteuid() == 0 && chown(path, 0, gid) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "give \"%s\" to its group: %s", path,
            g_strerror(errno));
        return false;
    }
    return make_folders(config, uid, gid, error) && make_secrets(config, uid, gid, error);
}

/* Beside the state that was named; else where serve looks for it. */
static char *
config_path(const PhCommonOptions *options)
{
    if (options->config != NULL)
        return g_strdup(options->config);
    if (options->state != NULL)
        return g_build_filename(options->state, "posthouse.conf", NULL);
    return g_build_filename(PH_SYSCONF_DIR, "posthouse.conf", NULL);
}

int
ph_command_init(const PhCommonOptions *options, int argc, char **argv)
{
    g_autoptr(GString) text =
        g_string_new("# What Posthouse needs to start. All other settings are in the "
                     "database: posthouse config list\n");
    g_autofree char *state = g_strdup(options->state != NULL ? options->state : PH_STATE_DIR);
    g_string_append_printf(text, "state = %s\n", state);
    if (!parse_options(argc, argv, text))
        return 2;
    g_autoptr(GError) error = NULL;
    g_autofree char *path = config_path(options);
    bool is_new;
    if (!init_state(state, path, text->str, &is_new, &error)) {
        fprintf(stderr, "posthouse init: %s\n", error->message);
        return 1;
    }
    printf("\"%s\" is %s; start it with: posthouse%s%s%s%s serve\n", state,
        is_new ? "ready" : "there already", options->config != NULL ? " --config " : "",
        options->config != NULL ? options->config : "", options->state != NULL ? " --state " : "",
        options->state != NULL ? options->state : "");
    return 0;
}
