/* test-runtime-plugin.c - loading, serving, replacing under load, stopping; plugins that cannot be
 * taken
 *
 * This program exports the runtime's public functions, so that the plugins it loads find them here.
 */
#include "runtime/connection.h"
#include "runtime/listener.h"
#include "runtime/plugin-loader.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/settings.h"

#include "tests/support/test-client.h"

#include <glib/gstdio.h>
#include <string.h>

/* The example plugin brings libposthouse.so, whose public variables are also here. */
const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
    return "detect_odr_violation=0";
}

static char *folder;     /* where plugins are installed */
static char *run_folder; /* where images are mapped from */

static void
set_addresses(const char *text)
{
    GPtrArray *values = g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
    PhSettingValue *value = g_new(PhSettingValue, 1);
    *value = (PhSettingValue){
        .key = g_strdup("net.listen.addresses"), .scope = PH_SCOPE_GLOBAL, .value = g_strdup(text)
    };
    g_ptr_array_add(values, value);
    ph_settings_publish(values, 1);
}

/* A copy of what was built; `note` makes another file of it. */
static void
install(const char *built, const char *name, const char *note)
{
    g_autofree char *from = g_build_filename(PH_TEST_BUILD, built, NULL);
    g_autofree char *to = g_strdup_printf("%s/%s.so", folder, name);
    g_autoptr(GError) error = NULL;
    char *bytes = NULL;
    gsize length;
    g_file_get_contents(from, &bytes, &length, &error);
    g_assert_no_error(error);
    g_autoptr(GString) text = g_string_new_len(bytes, (gssize)length);
    g_free(bytes);
    g_string_append(text, note);
    g_file_set_contents(to, text->str, (gssize)text->len, &error);
    g_assert_no_error(error);
}

static void
install_example(const char *note)
{
    install("plugins/example/.libs/example.so", "example", note);
}

static void
find_port(const char *name, int port, void *data)
{
    if (strcmp(name, "echo") == 0)
        *(int *)data = port;
}

static int
echo_port(void)
{
    int port = 0;
    ph_plugins_each_service(find_port, &port);
    return port;
}

/* The state and count of generations of one name, newest last: "serving", "draining serving". */
static char *
states(const char *name)
{
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        if (strcmp(info->name, name) == 0)
            g_string_append_printf(
                text, "%s%s", text->len > 0 ? " " : "", ph_plugin_state_name(info->state));
    }
    return g_string_free(text, FALSE);
}

#define expect_states(name, expected) \
    do { \
        g_autofree char *states_ = states(name); \
        g_assert_cmpstr(states_, ==, expected); \
    } while (0)

static void
start_example(void)
{
    g_autoptr(GError) error = NULL;
    install_example("");
    g_assert_true(ph_plugin_start("example", NULL, &error));
    g_assert_no_error(error);
}

static void
stop_example(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_plugin_stop("example", 2000, &error));
    g_assert_no_error(error);
    expect_states("example", "");
    g_assert_cmpint(echo_port(), ==, 0);
}

static unsigned
images(void)
{
    unsigned n = 0;
    g_autoptr(GDir) dir = g_dir_open(run_folder, 0, NULL);
    while (g_dir_read_name(dir) != NULL)
        n++;
    return n;
}

/* -- the life of a good one -------------------------------------------------------------------- */

static void
test_serve(void)
{
    g_autoptr(GError) error = NULL;
    start_example();
    expect_states("example", "serving");
    g_autoptr(TestClient) client = test_client_new(echo_port());
    test_client_puts(client, "hello\nagain\n");
    test_client_expect(client, "hello");
    test_client_expect(client, "again");

    g_autoptr(GPtrArray) infos = ph_plugins_list();
    g_assert_cmpuint(infos->len, ==, 1);
    const PhPluginInfo *info = infos->pdata[0];
    g_assert_nonnull(info->summary);
    g_assert_cmpint(info->uses, ==, 2); /* the connection, and its session's task */
    g_assert_null(info->error);
    g_assert_nonnull(ph_settings_row("example.echo.timeout_ms"));

    g_assert_false(ph_plugin_start("example", NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    expect_states("example", "serving");

    stop_example();
    test_client_expect(client, "stopping");
    g_assert_true(test_client_is_closed(client));
    g_assert_null(ph_settings_row("example.echo.timeout_ms"));
    g_assert_cmpuint(images(), ==, 0);
    g_clear_error(&error);
    g_assert_false(ph_plugin_stop("example", 0, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
}

/* A session of the old generation goes on, new ones go to the new one, and the old one leaves when
 * it is done. */
static void
test_replace_session(void)
{
    g_autoptr(GError) error = NULL;
    start_example();
    int port = echo_port();
    TestClient *old = test_client_new(port);
    test_client_puts(old, "before\n");
    test_client_expect(old, "before");
    install_example("a later build");
    g_assert_true(ph_plugin_replace("example", NULL, &error));
    g_assert_no_error(error);
    expect_states("example", "draining serving");
    g_assert_cmpint(echo_port(), ==, port);
    test_client_puts(old, "after\n");
    test_client_expect(old, "after");
    g_autoptr(TestClient) new_ = test_client_new(port);
    test_client_puts(new_, "new\n");
    test_client_expect(new_, "new");
    ph_plugins_reap();
    expect_states("example", "draining serving");
    g_assert_cmpuint(images(), ==, 2);
    test_client_free(old);
    test_wait_for(ph_connection_count() == 1);
    ph_plugins_reap();
    expect_states("example", "serving");
    g_assert_cmpuint(images(), ==, 1);
    test_client_puts(new_, "still\n");
    test_client_expect(new_, "still");
    g_assert_nonnull(ph_settings_row("example.echo.timeout_ms"));
    stop_example();
    g_assert_cmpuint(images(), ==, 0);
}

typedef struct Load {
    int port;
    int stop;
    int answered;
} Load;

static void *
load_main(void *data)
{
    Load *load = data;
    while (__atomic_load_n(&load->stop, __ATOMIC_ACQUIRE) == 0) {
        g_autoptr(TestClient) client = test_client_new(load->port);
        for (int i = 0; i < 3; i++) {
            test_client_puts(client, "under load\n");
            test_client_expect(client, "under load");
        }
        g_assert_false(client->is_reset);
        __atomic_fetch_add(&load->answered, 1, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

/* Twenty generations while clients come and go: each is answered. */
static void
test_replace_load(void)
{
    start_example();
    Load load = { .port = echo_port() };
    GThread *threads[3];
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = g_thread_new("load", load_main, &load);
    for (int i = 0; i < 20; i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *note = g_strdup_printf("build %d", i);
        install_example(note);
        g_assert_true(ph_plugin_replace("example", NULL, &error));
        g_assert_no_error(error);
        int before = __atomic_load_n(&load.answered, __ATOMIC_ACQUIRE);
        test_wait_for(__atomic_load_n(&load.answered, __ATOMIC_ACQUIRE) > before + 5);
        ph_plugins_reap();
    }
    __atomic_store_n(&load.stop, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
    test_wait_for(ph_connection_count() == 0);
    ph_plugins_reap();
    expect_states("example", "serving");
    stop_example();
    g_assert_cmpuint(images(), ==, 0);
}

/* A new file that cannot be taken: the old generation serves on. */
static void
test_replace_bad(void)
{
    g_autoptr(GError) error = NULL;
    start_example();
    g_autofree char *path = g_build_filename(folder, "example.so", NULL);
    g_assert_true(g_file_set_contents(path, "no program at all", -1, NULL));
    g_assert_false(ph_plugin_replace("example", NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_ABI);
    g_clear_error(&error);
    g_unlink(path);
    g_assert_false(ph_plugin_replace("example", NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    expect_states("example", "serving");
    g_autoptr(TestClient) client = test_client_new(echo_port());
    test_client_puts(client, "hello\n");
    test_client_expect(client, "hello");
    stop_example();
}

/* Replacing what is not there starts it. */
static void
test_replace_absent(void)
{
    g_autoptr(GError) error = NULL;
    install_example("");
    g_assert_true(ph_plugin_replace("example", NULL, &error));
    expect_states("example", "serving");
    stop_example();
}

static void
test_stop_all(void)
{
    g_autoptr(GError) error = NULL;
    start_example();
    g_autoptr(TestClient) old = test_client_new(echo_port());
    test_client_puts(old, "hello\n");
    test_client_expect(old, "hello");
    g_assert_true(ph_plugin_replace("example", NULL, &error));
    g_autoptr(TestClient) new_ = test_client_new(echo_port());
    test_client_puts(new_, "hello\n");
    test_client_expect(new_, "hello");
    ph_plugins_stop_all(2000);
    test_client_expect(old, "stopping");
    test_client_expect(new_, "stopping");
    expect_states("example", "");
}

/* -- what cannot be taken ---------------------------------------------------------------------- */

static void
expect_refused(const char *name, const char *path, PhError code, const char *text)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(ph_plugin_start(name, path, &error));
    g_assert_error(error, PH_ERROR, (int)code);
    g_assert_nonnull(strstr(error->message, text));
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    g_assert_cmpuint(infos->len, ==, 1);
    const PhPluginInfo *info = infos->pdata[0];
    g_assert_cmpint(info->state, ==, PH_PLUGIN_FAILED);
    g_assert_cmpstr(info->error, ==, error->message);
    g_assert_cmpint(echo_port(), ==, 0);
}

static void
test_refuse_odd(void)
{
    static const struct {
        const char *file;
        PhError code;
        const char *text;
    } rows[] = {
        { "abi", PH_ERROR_ABI, "plugin \"odd\" speaks ABI 2.7, this server speaks 1.0" },
        { "size", PH_ERROR_ABI, "plugin \"odd\" speaks ABI 1.0" },
        { "symbol", PH_ERROR_ABI, "plugin \"odd\" has no posthouse_plugin" },
        { "start", PH_ERROR_DENIED, "plugin \"odd\": the moon is full" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *built = g_strdup_printf("tests/unit/.libs/odd-%s.so", rows[i].file);
        install(built, "odd", "");
        expect_refused("odd", NULL, rows[i].code, rows[i].text);
    }
    ph_plugins_stop_all(0);
}

static void
test_refuse_files(void)
{
    g_autofree char *path = g_build_filename(folder, "missing.so", NULL);
    g_unlink(path);
    expect_refused("missing", NULL, PH_ERROR_NOT_FOUND, "missing.so");
    g_assert_true(g_file_set_contents(path, "", -1, NULL));
    expect_refused("missing", NULL, PH_ERROR_ABI, "plugin \"missing\"");
    ph_plugins_stop_all(0);
    /* The file of another plugin. */
    install_example("");
    g_autofree char *example = g_build_filename(folder, "example.so", NULL);
    expect_refused("missing", example, PH_ERROR_CONFLICT, "holds the plugin \"example\"");
    ph_plugins_stop_all(0);
    expect_states("missing", "");
    g_assert_cmpuint(images(), ==, 0);
}

/* It starts, and cannot listen: it is stopped again, and can be tried again. */
static void
test_refuse_listen(void)
{
    install_example("");
    set_addresses("rubbish");
    expect_refused("example", NULL, PH_ERROR_SYNTAX, "service \"echo\": \"rubbish\" is no address");
    g_assert_null(ph_settings_row("example.echo.timeout_ms"));
    set_addresses("127.0.0.1");
    start_example();
    expect_states("example", "serving");
    stop_example();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/plugin/serve/life", test_serve);
    g_test_add_func("/plugin/replace/session", test_replace_session);
    g_test_add_func("/plugin/replace/load", test_replace_load);
    g_test_add_func("/plugin/replace/bad", test_replace_bad);
    g_test_add_func("/plugin/replace/absent", test_replace_absent);
    g_test_add_func("/plugin/stop/all", test_stop_all);
    g_test_add_func("/plugin/refuse/odd", test_refuse_odd);
    g_test_add_func("/plugin/refuse/files", test_refuse_files);
    g_test_add_func("/plugin/refuse/listen", test_refuse_listen);
    g_autoptr(GError) error = NULL;
    folder = test_folder_new();
    run_folder = g_build_filename(folder, "run", NULL);
    ph_settings_declare(ph_listener_settings);
    set_addresses("127.0.0.1");
    ph_reactors_start(2, &error);
    g_assert_no_error(error);
    ph_pool_start(0);
    ph_plugins_init(folder, run_folder);
    int status = g_test_run();
    ph_pool_stop();
    ph_reactors_stop();
    g_free(run_folder);
    test_folder_free(folder);
    return status;
}
