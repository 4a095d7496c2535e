/* play.c - plays conversations with the sessions of a plugin, in this process, on loopback
 *
 * A conversation is a file tests/wire/PLUGIN-NAME.conv:
 *
 *   # a comment
 *   service smtp            which of the plugin's services; a new connection
 *   set KEY VALUE           a setting, for this file
 *   C: EHLO example.org     sent with CR LF; \r \n \t \\ \xHH stand for bytes
 *   C- EHLO                 sent without an end
 *   C* 300 a                sent: this text 300 times
 *   S: 250-.* greets .*     the next line is like this (a whole line; Perl's regular expressions)
 *   S* 250 .*               lines up to and with one like this
 *   closed                  the server closes, and says nothing more
 *   shutdown                the end of what the client sends
 *   starttls                the handshake; the certificate must be good
 *   quiet 100               nothing comes for so many ms
 *   file PATH CONTENT       a file below the web server's root; an escape \n is a line's end
 *   site NAME [WORD...]     one site with that root; words: https_only, pages, PREFIX=HANDLER,TARGET
 *   S= TEXT                 exactly these bytes, with the escapes of C-
 *   S# COUNT SHA1           so many bytes, with this digest ("-": any)
 *
 * There is no store here: what needs one is in tests/integration.
 */
#include "identity/local-ca.h"
#include "identity/login.h"
#include "runtime/connection.h"
#include "runtime/listener.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/settings.h"
#include "runtime/site.h"
#include "runtime/tls.h"
#include "store/store.h"

#include "tests/support/test-client.h"

#include <glib/gstdio.h>
#include <string.h>

extern const PhPlugin posthouse_plugin;

/* What the daemon itself declares. */
static const PhSettingRow server_rows[] = {
    { "server.host_name", PH_SETTING_TEXT, "mail.example.test", 0, 255, NULL, PH_SCOPE_GLOBAL,
        "The name of this server." },
    { "server.message.max_bytes", PH_SETTING_SIZE, "50M", 1024, INT64_C(1) << 30, NULL,
        PH_SCOPE_GLOBAL, "Largest message." },
    { 0 },
};

static PhOwner owner = { .name = "wire" };
static GHashTable *ports; /* service -> port */
static GPtrArray *listeners;
static char *ca_path;
static char *web_root;

static void
append_value(GPtrArray *values, const char *key, const char *text)
{
    g_autofree char *canonical = NULL;
    g_autoptr(GError) error = NULL;
    if (!ph_settings_check(key, PH_SCOPE_GLOBAL, text, &canonical, &error))
        g_error("%s", error->message);
    PhSettingValue *value = g_new(PhSettingValue, 1);
    *value = (PhSettingValue){
        .key = g_strdup(key), .scope = PH_SCOPE_GLOBAL, .value = g_steal_pointer(&canonical)
    };
    g_ptr_array_add(values, value);
}

static void
reset_settings(void)
{
    GPtrArray *values = g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
    append_value(values, "net.listen.addresses", "127.0.0.1");
    ph_settings_publish(values, 1);
}

/* -- one line of a conversation ---------------------------------------------------------------- */

/* Bytes of a text with escapes. */
static GString *
unescape(const char *text)
{
    GString *bytes = g_string_new(NULL);
    for (; *text != '\0'; text++) {
        if (*text != '\\') {
            g_string_append_c(bytes, *text);
            continue;
        }
        text++;
        switch (*text) {
        case 'r':
            g_string_append_c(bytes, '\r');
            break;
        case 'n':
            g_string_append_c(bytes, '\n');
            break;
        case 't':
            g_string_append_c(bytes, '\t');
            break;
        case 'x':
            g_string_append_c(
                bytes, (char)(g_ascii_xdigit_value(text[1]) << 4 | g_ascii_xdigit_value(text[2])));
            text += 2;
            break;
        default:
            g_string_append_c(bytes, *text);
        }
    }
    return bytes;
}

typedef struct Play {
    const char *file;
    unsigned line;
    TestClient *client;
} Play;

#define play_assert(play, condition, ...) \
    do { \
        if (!(condition)) { \
            g_autofree char *text_ = g_strdup_printf(__VA_ARGS__); \
            g_test_message("%s, line %u: %s", (play)->file, (play)->line, text_); \
            g_test_fail(); \
            return false; \
        } \
    } while (0)

static bool
connect_to(Play *play, const char *service)
{
    g_clear_pointer(&play->client, test_client_free);
    int port = GPOINTER_TO_INT(g_hash_table_lookup(ports, service));
    play_assert(play, port > 0, "no service \"%s\"", service);
    play->client = test_client_new(port);
    return true;
}

static bool
set(Play *play, const char *rest)
{
    g_auto(GStrv) words = g_strsplit(rest, " ", 2);
    play_assert(play, g_strv_length(words) == 2, "set KEY VALUE");
    GPtrArray *values = ph_settings_values();
    append_value(values, words[0], words[1]);
    ph_settings_publish(values, 1);
    return true;
}

static bool
send_line(Play *play, const char *rest)
{
    g_autoptr(GString) bytes = unescape(rest);
    g_string_append(bytes, "\r\n");
    test_client_send(play->client, bytes->str, bytes->len);
    return true;
}

static bool
send_bytes(Play *play, const char *rest)
{
    g_autoptr(GString) bytes = unescape(rest);
    test_client_send(play->client, bytes->str, bytes->len);
    return true;
}

static bool
send_often(Play *play, const char *rest)
{
    char *text;
    guint64 times = g_ascii_strtoull(rest, &text, 10);
    play_assert(play, *text == ' ', "C* COUNT TEXT");
    g_autoptr(GString) bytes = unescape(text + 1);
    g_autoptr(GString) all = g_string_new(NULL);
    for (guint64 i = 0; i < times; i++)
        g_string_append_len(all, bytes->str, (gssize)bytes->len);
    test_client_send(play->client, all->str, all->len);
    return true;
}

static bool
expect(Play *play, const char *rest)
{
    g_autofree char *line = test_client_line(play->client);
    g_autofree char *pattern = g_strdup_printf("^(?:%s)$", rest);
    play_assert(play, line != NULL, "closed instead of \"%s\"", rest);
    play_assert(
        play, g_regex_match_simple(pattern, line, 0, 0), "\"%s\" is not like \"%s\"", line, rest);
    return true;
}

static bool
expect_last(Play *play, const char *rest)
{
    g_autofree char *pattern = g_strdup_printf("^(?:%s)$", rest);
    for (;;) {
        g_autofree char *line = test_client_line(play->client);
        play_assert(play, line != NULL, "closed before \"%s\"", rest);
        if (g_regex_match_simple(pattern, line, 0, 0))
            return true;
    }
}

static bool
expect_closed(Play *play, const char *rest)
{
    (void)rest;
    play_assert(play, test_client_is_closed(play->client), "more comes");
    play_assert(play, !play->client->is_reset, "reset instead of closed");
    return true;
}

static bool
shut_down(Play *play, const char *rest)
{
    (void)rest;
    test_client_shutdown(play->client);
    return true;
}

static bool
start_tls(Play *play, const char *rest)
{
    (void)rest;
    play_assert(play, test_client_start_tls(play->client, ca_path, NULL), "the handshake failed");
    return true;
}

static bool
expect_quiet(Play *play, const char *rest)
{
    int ms = (int)g_ascii_strtoll(rest, NULL, 10);
    play_assert(play, test_client_is_quiet(play->client, ms), "something came");
    return true;
}

static bool
write_web_file(Play *play, const char *rest)
{
    g_auto(GStrv) words = g_strsplit(rest, " ", 2);
    play_assert(play, words[0] != NULL, "file PATH CONTENT");
    g_autofree char *path = g_build_filename(web_root, words[0], NULL);
    g_autofree char *folder = g_path_get_dirname(path);
    g_autoptr(GString) bytes = unescape(words[1] != NULL ? words[1] : "");
    play_assert(play, g_mkdir_with_parents(folder, 0700) == 0, "no folder \"%s\"", folder);
    play_assert(play, g_file_set_contents(path, bytes->str, (gssize)bytes->len, NULL),
        "cannot write \"%s\"", path);
    return true;
}

static bool
publish_site(Play *play, const char *rest)
{
    g_auto(GStrv) words = g_strsplit(rest, " ", -1);
    play_assert(play, words[0] != NULL, "site NAME");
    PhSite *site = ph_site_new(words[0], web_root);
    site->id = 1;
    for (char **word = words + 1; *word != NULL; word++) {
        g_auto(GStrv) route = g_strsplit_set(*word, "=,", 3);
        if (strcmp(*word, "https_only") == 0)
            site->https_only = true;
        else if (strcmp(*word, "pages") == 0)
            site->pages = true;
        else if (g_strv_length(route) == 3)
            ph_site_add_route(
                site, word - words, route[0], route[1], g_strdelimit(route[2], "_", ' '));
        else
            play_assert(play, false, "\"%s\" is no word of a site", *word);
    }
    GPtrArray *sites = g_ptr_array_new_with_free_func((GDestroyNotify)ph_site_free);
    g_ptr_array_add(sites, site);
    ph_sites_publish(sites);
    return true;
}

static bool
expect_bytes(Play *play, const char *rest)
{
    g_auto(GStrv) words = g_strsplit(rest, " ", 2);
    play_assert(play, g_strv_length(words) == 2, "S# COUNT SHA1");
    size_t length = (size_t)g_ascii_strtoull(words[0], NULL, 10);
    g_autofree char *bytes = test_client_bytes(play->client, length);
    g_autofree char *digest =
        g_compute_checksum_for_data(G_CHECKSUM_SHA1, (const guchar *)bytes, length);
    play_assert(play, strcmp(words[1], "-") == 0 || strcmp(words[1], digest) == 0,
        "%zu bytes with the digest %s", length, digest);
    return true;
}

static bool
expect_exactly(Play *play, const char *rest)
{
    g_autoptr(GString) expected = unescape(rest);
    g_autofree char *bytes = test_client_bytes(play->client, expected->len);
    for (size_t i = 0; i < expected->len; i++)
        play_assert(play, bytes[i] == expected->str[i], "byte %zu is %02x, not %02x", i,
            (uint8_t)bytes[i], (uint8_t)expected->str[i]);
    return true;
}

static const struct {
    const char *word;
    bool (*run)(Play *play, const char *rest);
} step_rows[] = {
    { "service", connect_to },
    { "set", set },
    { "C:", send_line },
    { "C-", send_bytes },
    { "C*", send_often },
    { "S:", expect },
    { "S*", expect_last },
    { "closed", expect_closed },
    { "shutdown", shut_down },
    { "starttls", start_tls },
    { "quiet", expect_quiet },
    { "file", write_web_file },
    { "site", publish_site },
    { "S=", expect_exactly },
    { "S#", expect_bytes },
};

static bool
run_step(Play *play, const char *line)
{
    size_t length = strcspn(line, " ");
    const char *rest = line[length] == ' ' ? line + length + 1 : line + length;
    for (size_t i = 0; i < G_N_ELEMENTS(step_rows); i++)
        if (strlen(step_rows[i].word) == length && strncmp(step_rows[i].word, line, length) == 0)
            return step_rows[i].run(play, rest);
    play_assert(play, false, "\"%s\" is no step", line);
    return false;
}

static void
play_file(gconstpointer data)
{
    const char *path = data;
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    reset_settings();
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    Play play = { .file = path };
    bool good = true;
    while (good && lines[play.line] != NULL) {
        const char *line = lines[play.line++];
        if (line[0] != '\0' && line[0] != '#')
            good = run_step(&play, line);
    }
    g_clear_pointer(&play.client, test_client_free);
    test_wait_for(ph_connection_count() == 0);
    test_wait_for(ph_owner_uses(&owner) == 0);
}

/* -- the program ------------------------------------------------------------------------------- */

static void
use_certificate(const char *folder)
{
    g_autoptr(GError) error = NULL;
    ph_local_ca_ensure(folder, "mail.example.test", &error);
    g_assert_no_error(error);
    g_autofree char *certificate = g_build_filename(folder, "cert.pem", NULL);
    g_autofree char *key = g_build_filename(folder, "key.pem", NULL);
    ph_tls_use_files(certificate, key, &error);
    g_assert_no_error(error);
    ca_path = g_build_filename(folder, "ca.pem", NULL);
    web_root = g_build_filename(folder, "www", NULL);
    g_assert_cmpint(g_mkdir(web_root, 0700), ==, 0);
}

static void
open_services(void)
{
    ports = g_hash_table_new(g_str_hash, g_str_equal);
    listeners = g_ptr_array_new_with_free_func((GDestroyNotify)ph_listeners_close);
    for (const PhServiceRow *row = posthouse_plugin.services; row->name != NULL; row++) {
        g_autoptr(GError) error = NULL;
        PhListeners *opened = ph_listeners_open(row, &owner, &error);
        g_assert_no_error(error);
        g_ptr_array_add(listeners, opened);
        g_hash_table_insert(
            ports, (gpointer)(uintptr_t)row->name, GINT_TO_POINTER(ph_listeners_port(opened)));
    }
}

static int
compare_paths(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A test for each conversation with this plugin. */
static void
add_tests(GPtrArray *paths)
{
    g_autoptr(GDir) dir = g_dir_open(PH_TEST_SOURCE "/tests/wire", 0, NULL);
    g_assert_nonnull(dir);
    g_autofree char *prefix = g_strdup_printf("%s-", posthouse_plugin.name);
    const char *name;
    while ((name = g_dir_read_name(dir)) != NULL)
        if (g_str_has_prefix(name, prefix) && g_str_has_suffix(name, ".conv"))
            g_ptr_array_add(paths, g_build_filename(PH_TEST_SOURCE "/tests/wire", name, NULL));
    g_ptr_array_sort(paths, compare_paths);
    for (guint i = 0; i < paths->len; i++) {
        g_autofree char *base = g_path_get_basename(paths->pdata[i]);
        g_autofree char *test = g_strdup_printf("/wire/%s/%.*s", posthouse_plugin.name,
            (int)(strlen(base) - strlen(prefix) - strlen(".conv")), base + strlen(prefix));
        g_test_add_data_func(test, paths->pdata[i], play_file);
    }
    g_assert_cmpuint(paths->len, >, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    add_tests(paths);
    g_autoptr(GError) error = NULL;
    char *folder = test_folder_new();
    use_certificate(folder);
    ph_settings_declare(server_rows);
    ph_settings_declare(ph_listener_settings);
    ph_settings_declare(ph_identity_settings);
    if (posthouse_plugin.settings != NULL)
        ph_settings_declare(posthouse_plugin.settings);
    reset_settings();
    ph_reactors_start(2, &error);
    g_assert_no_error(error);
    ph_pool_start(0);
    g_assert_true(posthouse_plugin.start(&owner.state, &error));
    open_services();
    int status = g_test_run();
    g_ptr_array_unref(listeners);
    posthouse_plugin.stop(owner.state);
    ph_pool_stop();
    ph_reactors_stop();
    ph_tls_forget();
    g_hash_table_unref(ports);
    ph_sites_forget();
    g_free(ca_path);
    g_free(web_root);
    test_folder_free(folder);
    return status;
}
