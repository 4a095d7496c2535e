/* config.c - posthouse.conf */
#include "runtime/config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOCKET_PATH_MAX_BYTES = 80 };

static bool
set_text(char **member, const char *value, GError **error)
{
    (void)error;
    g_free(*member);
    *member = g_strdup(value);
    return true;
}

static bool
set_state(PhConfig *config, const char *value, GError **error)
{
    if (value[0] == '/')
        return set_text(&config->state, value, error);
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "it must begin with \"/\"");
    return false;
}

static bool
set_run_as(PhConfig *config, const char *value, GError **error)
{
    return set_text(&config->run_as, value, error);
}

static bool
set_database(PhConfig *config, const char *value, GError **error)
{
    return set_text(&config->database, value, error);
}

static bool
set_allowed_ports(PhConfig *config, const char *value, GError **error)
{
    g_auto(GStrv) words = g_strsplit(value, ",", -1);
    for (char **word = words; *word != NULL; word++) {
        guint64 number;
        if (!g_ascii_string_to_unsigned(g_strstrip(*word), 10, 1, 65535, &number, NULL)) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
                "it takes port numbers, 1 to 65535, divided by commas");
            return false;
        }
    }
    return set_text(&config->allowed_ports, value, error);
}

static bool
set_port_base(PhConfig *config, const char *value, GError **error)
{
    guint64 number;
    if (strcmp(value, "ephemeral") == 0) {
        config->port_base = PH_PORT_BASE_EPHEMERAL;
        return true;
    }
    if (!g_ascii_string_to_unsigned(value, 10, 0, 60000, &number, NULL)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "it takes 0 to 60000, or \"ephemeral\"");
        return false;
    }
    config->port_base = (int)number;
    return true;
}

static bool
set_control_socket(PhConfig *config, const char *value, GError **error)
{
    return set_text(&config->control_socket, value, error);
}

static bool
set_node_name(PhConfig *config, const char *value, GError **error)
{
    if (strlen(value) > 63) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "it takes at most 63 bytes");
        return false;
    }
    return set_text(&config->node_name, value, error);
}

static const struct {
    const char *key;
    bool (*set)(PhConfig *config, const char *value, GError **error);
} key_rows[] = {
    { "state", set_state },
    { "run_as", set_run_as },
    { "database", set_database },
    { "allowed_ports", set_allowed_ports },
    { "port_base", set_port_base },
    { "control_socket", set_control_socket },
    { "node_name", set_node_name },
};

static bool
parse_line(PhConfig *config, char *line, GError **error)
{
    g_strstrip(line);
    if (line[0] == '\0' || line[0] == '#')
        return true;
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "there is no \"=\" in \"%s\"", line);
        return false;
    }
    *equals = '\0';
    const char *key = g_strstrip(line);
    const char *value = g_strstrip(equals + 1);
    for (size_t i = 0; i < G_N_ELEMENTS(key_rows); i++) {
        if (strcmp(key, key_rows[i].key) != 0)
            continue;
        if (value[0] == '\0') {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" has no value", key);
            return false;
        }
        if (key_rows[i].set(config, value, error))
            return true;
        g_prefix_error(error, "\"%s\" cannot be \"%s\": ", key, value);
        return false;
    }
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
        "\"%s\" is not known here; all other settings are in the database, see posthouse config",
        key);
    return false;
}

static void
set_defaults(PhConfig *config)
{
    config->database = g_strdup("managed");
    config->allowed_ports = g_strdup("24,25,80,110,143,389,443,465,587,636,993,995,4190,8443");
    config->node_name = g_strdup(g_get_host_name());
    if (geteuid() == 0)
        config->run_as = g_strdup("posthouse");
}

static void
set_unreadable(const char *path, const GError *cause, GError **error)
{
    if (g_error_matches(cause, G_FILE_ERROR, G_FILE_ERROR_ACCES))
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED,
            "\"%s\" cannot be read by user \"%s\": it is for root and for the server's user", path,
            g_get_user_name());
    else if (g_error_matches(cause, G_FILE_ERROR, G_FILE_ERROR_NOENT))
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "there is no \"%s\"; make it with: posthouse init --state FOLDER", path);
    else
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "%s", cause->message);
}

PhConfig *
ph_config_load(const char *path, const char *state, GError **error)
{
    g_autoptr(PhConfig) config = g_new0(PhConfig, 1);
    set_defaults(config);
    if (path != NULL)
        config->path = g_strdup(path);
    else if (state != NULL)
        config->path = g_build_filename(state, "posthouse.conf", NULL);
    else
        config->path = g_build_filename(PH_SYSCONF_DIR, "posthouse.conf", NULL);
    config->state = g_strdup(state != NULL ? state : PH_STATE_DIR);

    g_autofree char *text = NULL;
    g_autoptr(GError) cause = NULL;
    if (!g_file_get_contents(config->path, &text, NULL, &cause)) {
        set_unreadable(config->path, cause, error);
        return NULL;
    }
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i] != NULL; i++)
        if (!parse_line(config, lines[i], error)) {
            g_prefix_error(error, "%s, line %u: ", config->path, i + 1);
            return NULL;
        }
    return g_steal_pointer(&config);
}

void
ph_config_free(PhConfig *config)
{
    if (config == NULL)
        return;
    g_free(config->path);
    g_free(config->state);
    g_free(config->run_as);
    g_free(config->database);
    g_free(config->allowed_ports);
    g_free(config->control_socket);
    g_free(config->node_name);
    g_free(config);
}

bool
ph_config_is_managed(const PhConfig *config)
{
    return strcmp(config->database, "managed") == 0;
}

bool
ph_config_port_is_allowed(const PhConfig *config, int port)
{
    g_auto(GStrv) words = g_strsplit(config->allowed_ports, ",", -1);
    for (char **word = words; *word != NULL; word++)
        if (atoi(g_strstrip(*word)) == port)
            return true;
    return false;
}

char *
ph_config_file(const PhConfig *config, const char *name)
{
    return g_build_filename(config->state, name, NULL);
}

bool
ph_config_user(const PhConfig *config, unsigned *uid_out, unsigned *gid_out, GError **error)
{
    if (geteuid() != 0 || config->run_as == NULL) {
        *uid_out = geteuid();
        *gid_out = getegid();
        return true;
    }
    const struct passwd *user = getpwnam(config->run_as);
    if (user == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "there is no user \"%s\" (run_as in \"%s\")", config->run_as, config->path);
        return false;
    }
    if (user->pw_uid == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED,
            "run_as in \"%s\" must not be root: PostgreSQL and the daemon run without rights",
            config->path);
        return false;
    }
    *uid_out = user->pw_uid;
    *gid_out = user->pw_gid;
    return true;
}

/* The folder below /tmp, made for us alone. */
static char *
make_short_folder(const PhConfig *config, const char *note, GError **error)
{
    unsigned uid;
    unsigned gid;
    if (!ph_config_user(config, &uid, &gid, error))
        return NULL;
    char folder[] = "/tmp/posthouse-XXXXXX";
    g_autoptr(GError) cause = NULL;
    if (g_mkdtemp_full(folder, 0700) == NULL) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_TEMPORARY, "make a folder in /tmp: %s", g_strerror(errno));
        return NULL;
    }
    if (chown(folder, uid, gid) != 0 || !g_file_set_contents(note, folder, -1, &cause) ||
        chmod(note, 0644) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "write \"%s\": %s", note,
            cause != NULL ? cause->message : g_strerror(errno));
        return NULL;
    }
    return g_strdup(folder);
}

/* Below /tmp anybody may have put a folder of that name: it must be ours, and closed. */
static bool
is_ours(const PhConfig *config, const char *folder)
{
    struct stat info;
    unsigned uid;
    unsigned gid;
    return lstat(folder, &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & 0077) == 0 &&
           ph_config_user(config, &uid, &gid, NULL) && info.st_uid == uid;
}

char *
ph_config_socket_folder(const PhConfig *config, GError **error)
{
    g_autofree char *run = ph_config_file(config, "run");
    if (strlen(run) <= SOCKET_PATH_MAX_BYTES)
        return g_steal_pointer(&run);
    g_autofree char *note = g_build_filename(run, "sockets", NULL);
    g_autofree char *folder = NULL;
    if (g_file_get_contents(note, &folder, NULL, NULL) && is_ours(config, g_strstrip(folder)))
        return g_steal_pointer(&folder);
    return make_short_folder(config, note, error);
}

char *
ph_config_control_socket(const PhConfig *config, GError **error)
{
    if (config->control_socket != NULL)
        return g_strdup(config->control_socket);
    g_autofree char *folder = ph_config_socket_folder(config, error);
    return folder != NULL ? g_build_filename(folder, "control.sock", NULL) : NULL;
}
