/* test-runtime-config.c - posthouse.conf, the folder of sockets */
#include "runtime/config.h"

#include "tests/support/test-client.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static PhConfig *
load(const char *text, GError **error)
{
    g_autofree char *path = g_build_filename(folder, "posthouse.conf", NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return ph_config_load(NULL, folder, error);
}

static void
test_load_all(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = load(
        "# a comment\n\n  state=/srv/mail  \r\nrun_as = nobody\ndatabase = host=db.example.org user=x\n"
        "allowed_ports = 25, 143\nport_base = 20000\ncontrol_socket = /run/x.sock\nnode_name = one",
        &error);
    g_assert_no_error(error);
    g_assert_cmpstr(config->state, ==, "/srv/mail");
    g_assert_cmpstr(config->run_as, ==, "nobody");
    g_assert_cmpstr(config->database, ==, "host=db.example.org user=x");
    g_assert_false(ph_config_is_managed(config));
    g_assert_cmpint(config->port_base, ==, 20000);
    g_assert_cmpstr(config->node_name, ==, "one");
    g_assert_true(ph_config_port_is_allowed(config, 25));
    g_assert_true(ph_config_port_is_allowed(config, 143));
    g_assert_false(ph_config_port_is_allowed(config, 1));
    g_assert_false(ph_config_port_is_allowed(config, 0));
    g_autofree char *control = ph_config_control_socket(config, &error);
    g_assert_cmpstr(control, ==, "/run/x.sock");
    g_autofree char *file = ph_config_file(config, "tls");
    g_assert_cmpstr(file, ==, "/srv/mail/tls");
}

static void
test_load_defaults(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = load("", &error);
    g_assert_no_error(error);
    g_assert_cmpstr(config->state, ==, folder);
    g_assert_true(ph_config_is_managed(config));
    g_assert_cmpint(config->port_base, ==, 0);
    g_assert_true(ph_config_port_is_allowed(config, 993));
    g_autoptr(PhConfig) ephemeral = load("port_base = ephemeral\n", &error);
    g_assert_cmpint(ephemeral->port_base, ==, PH_PORT_BASE_EPHEMERAL);
}

static void
test_load_bad(void)
{
    static const struct {
        const char *text;
        const char *told;
    } rows[] = {
        { "state\n", "line 1" },
        { "\n# x\nrubbish = 1\n", "line 3" },
        { "state =\n", "has no value" },
        { "= /x\n", "not known" },
        { "state = relative\n", "\"/\"" },
        { "port_base = 60001\n", "60000" },
        { "port_base = -1\n", "60000" },
        { "port_base = 1x\n", "60000" },
        { "allowed_ports = 25,x\n", "65535" },
        { "allowed_ports = 25,,26\n", "65535" },
        { "allowed_ports = 0\n", "65535" },
        { "smtp.receive.timeout_s = 5\n", "posthouse config" },
        { "node_name = 1234567890123456789012345678901234567890123456789012345678901234\n", "63" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_test_message("%s", rows[i].text);
        g_assert_null(load(rows[i].text, &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
        g_assert_nonnull(strstr(error->message, "posthouse.conf, line "));
        g_assert_nonnull(strstr(error->message, rows[i].told));
    }
    g_autoptr(GError) error = NULL;
    g_assert_null(ph_config_load("/nowhere/posthouse.conf", NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
}

static void
test_user(void)
{
    g_autoptr(GError) error = NULL;
    unsigned uid = 12345;
    unsigned gid = 12345;
    if (geteuid() != 0) {
        g_autoptr(PhConfig) any = load("run_as = nobody\n", &error);
        g_assert_true(ph_config_user(any, &uid, &gid, &error));
        g_assert_cmpuint(uid, ==, geteuid());
        return;
    }
    g_autoptr(PhConfig) nobody = load("run_as = nobody\n", &error);
    g_assert_true(ph_config_user(nobody, &uid, &gid, &error));
    g_assert_cmpuint(uid, >, 0);
    g_autoptr(PhConfig) root = load("run_as = root\n", &error);
    g_assert_false(ph_config_user(root, &uid, &gid, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_DENIED);
    g_clear_error(&error);
    g_autoptr(PhConfig) missing = load("run_as = no-such-user-here\n", &error);
    g_assert_false(ph_config_user(missing, &uid, &gid, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
}

static void
test_sockets_short(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = load("", &error);
    g_autofree char *run = ph_config_socket_folder(config, &error);
    g_assert_no_error(error);
    g_autofree char *expected = g_build_filename(folder, "run", NULL);
    g_assert_cmpstr(run, ==, expected);
    g_autofree char *control = ph_config_control_socket(config, &error);
    g_assert_true(g_str_has_suffix(control, "/run/control.sock"));
}

/* A deep state: the sockets are elsewhere, in one folder that stays the same - unless it is not
 * ours alone any more. */
static void
test_sockets_long(void)
{
    g_autofree char *deep = g_build_filename(folder,
        "a-rather-long-name-for-a-folder-that-is-deep-inside-of-others-to-be-too-long", NULL);
    g_autofree char *run = g_build_filename(deep, "run", NULL);
    g_assert_cmpint(g_mkdir_with_parents(run, 0755), ==, 0);
    g_autofree char *text =
        g_strdup_printf("state = %s\n%s", deep, geteuid() == 0 ? "run_as = nobody\n" : "");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = load(text, &error);
    g_autofree char *first = ph_config_socket_folder(config, &error);
    g_assert_no_error(error);
    g_assert_true(g_str_has_prefix(first, "/tmp/posthouse-"));
    struct stat info;
    g_assert_cmpint(stat(first, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0700);
    g_autofree char *again = ph_config_socket_folder(config, &error);
    g_assert_cmpstr(again, ==, first);
    g_assert_cmpint(chmod(first, 0777), ==, 0);
    g_autofree char *other = ph_config_socket_folder(config, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(other, !=, first);
    g_rmdir(first);
    g_rmdir(other);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/config/load/all", test_load_all);
    g_test_add_func("/config/load/defaults", test_load_defaults);
    g_test_add_func("/config/load/bad", test_load_bad);
    g_test_add_func("/config/user/names", test_user);
    g_test_add_func("/config/sockets/short", test_sockets_short);
    g_test_add_func("/config/sockets/long", test_sockets_long);
    folder = test_folder_new();
    int status = g_test_run();
    test_folder_free(folder);
    return status;
}
