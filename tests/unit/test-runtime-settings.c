/* test-runtime-settings.c - values by type, scopes, snapshots, the sealed copy */
#include "runtime/seal.h"
#include "runtime/settings.h"

#include "tests/support/test-client.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

static const PhSettingRow rows[] = {
    { "test.switch", PH_SETTING_BOOL, "off", 0, 0, NULL, PH_SCOPE_GLOBAL, "A switch." },
    { "test.number", PH_SETTING_INT, "7", -5, 100, NULL, PH_SCOPE_GLOBAL | PH_SCOPE_DOMAIN,
        "A number." },
    { "test.max_bytes", PH_SETTING_SIZE, "10K", 1, INT64_C(1) << 40, NULL, PH_SCOPE_GLOBAL,
        "A size." },
    { "test.wait_ms", PH_SETTING_TIME, "1500", 0, INT64_MAX, NULL, PH_SCOPE_GLOBAL, "A time." },
    { "test.wait_s", PH_SETTING_TIME, "90", 1, 86400, NULL, PH_SCOPE_GLOBAL, "A time in seconds." },
    { "test.name", PH_SETTING_TEXT, "default", 0, 20, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE | PH_SCOPE_TENANT | PH_SCOPE_DOMAIN | PH_SCOPE_SITE |
            PH_SCOPE_ACCOUNT,
        "A text." },
    { "test.colour", PH_SETTING_CHOICE, "red", 0, 0, "red|green", PH_SCOPE_GLOBAL, "A choice." },
    { "test.words", PH_SETTING_LIST, "a,b", 0, 30, NULL, PH_SCOPE_GLOBAL, "Words." },
    { 0 },
};

/* -- checking ---------------------------------------------------------------------------------- */

static void
test_check_table(void)
{
    static const struct {
        const char *key;
        const char *value;
        const char *canonical; /* null: refused */
    } cases[] = {
        { "test.switch", "on", "true" },
        { "test.switch", "YES", "true" },
        { "test.switch", "true", "true" },
        { "test.switch", "no", "false" },
        { "test.switch", "Off", "false" },
        { "test.switch", "1", NULL },
        { "test.switch", "", NULL },
        { "test.switch", "truely", NULL },
        { "test.number", "0", "0" },
        { "test.number", "-5", "-5" },
        { "test.number", "100", "100" },
        { "test.number", "101", NULL },
        { "test.number", "-6", NULL },
        { "test.number", "5K", NULL },
        { "test.number", " 5", NULL },
        { "test.number", "5 ", NULL },
        { "test.number", "0x10", NULL },
        { "test.number", "99999999999999999999", NULL },
        { "test.number", "", NULL },
        { "test.number", "-", NULL },
        { "test.number", "007", "7" },
        { "test.number", "+5", NULL },
        { "test.max_bytes", "1", "1" },
        { "test.max_bytes", "2K", "2048" },
        { "test.max_bytes", "3m", "3145728" },
        { "test.max_bytes", "1G", "1073741824" },
        { "test.max_bytes", "0", NULL },
        { "test.max_bytes", "1T", NULL },
        { "test.max_bytes", "1KB", NULL },
        { "test.max_bytes", "9223372036854775807G", NULL },
        { "test.max_bytes", "K", NULL },
        { "test.wait_ms", "5", "5" },
        { "test.wait_ms", "5s", "5000" },
        { "test.wait_ms", "2m", "120000" },
        { "test.wait_ms", "1h", "3600000" },
        { "test.wait_ms", "1d", "86400000" },
        { "test.wait_ms", "7ms", "7" },
        { "test.wait_ms", "7 s", NULL },
        { "test.wait_ms", "5S", NULL },
        { "test.wait_ms", "9223372036854775807d", NULL },
        { "test.wait_s", "5", "5" },
        { "test.wait_s", "5000ms", "5" },
        { "test.wait_s", "5001ms", NULL },
        { "test.wait_s", "2m", "120" },
        { "test.wait_s", "1d", "86400" },
        { "test.wait_s", "25h", NULL },
        { "test.wait_s", "0", NULL },
        { "test.name", "", "" },
        { "test.name", "any text", "any text" },
        { "test.name", "123456789012345678901", NULL },
        { "test.name", "\xff", NULL },
        { "test.name", "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
        { "test.colour", "green", "green" },
        { "test.colour", "Green", NULL },
        { "test.colour", "red|green", NULL },
        { "test.colour", "", NULL },
        { "test.words", "x, y", "x, y" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *canonical = NULL;
        g_autoptr(GError) error = NULL;
        bool good =
            ph_settings_check(cases[i].key, PH_SCOPE_GLOBAL, cases[i].value, &canonical, &error);
        g_test_message("%s \"%s\"", cases[i].key, cases[i].value);
        g_assert_cmpstr(canonical, ==, cases[i].canonical);
        g_assert_cmpint(good, ==, cases[i].canonical != NULL);
        if (!good) {
            g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
            g_assert_nonnull(strstr(error->message, cases[i].key));
        }
    }
}

static void
test_check_refusals(void)
{
    g_autofree char *canonical = NULL;
    g_autoptr(GError) error = NULL;
    g_assert_false(ph_settings_check("test.none", PH_SCOPE_GLOBAL, "1", &canonical, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_false(ph_settings_check("test.switch", PH_SCOPE_DOMAIN, "on", &canonical, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
    g_assert_nonnull(strstr(error->message, "domain"));
    g_clear_error(&error);
    g_assert_false(ph_settings_check("test.colour", PH_SCOPE_GLOBAL, "blue", &canonical, &error));
    g_assert_nonnull(strstr(error->message, "red|green"));
    g_assert_null(canonical);
}

static void
test_check_scopes(void)
{
    static const PhScope scopes[] = { PH_SCOPE_GLOBAL, PH_SCOPE_NODE, PH_SCOPE_TENANT,
        PH_SCOPE_DOMAIN, PH_SCOPE_SITE, PH_SCOPE_ACCOUNT };
    for (size_t i = 0; i < G_N_ELEMENTS(scopes); i++) {
        PhScope scope = 0;
        g_assert_true(ph_scope_parse(ph_scope_name(scopes[i]), &scope));
        g_assert_cmpint(scope, ==, scopes[i]);
    }
    PhScope scope = PH_SCOPE_SITE;
    g_assert_false(ph_scope_parse("Global", &scope));
    g_assert_cmpint(scope, ==, PH_SCOPE_SITE);
}

/* -- snapshots --------------------------------------------------------------------------------- */

static GPtrArray *
values_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
}

static void
append(GPtrArray *values, const char *key, PhScope scope, int64_t id, const char *text)
{
    PhSettingValue *value = g_new(PhSettingValue, 1);
    *value = (PhSettingValue){
        .key = g_strdup(key), .scope = scope, .scope_id = id, .value = g_strdup(text)
    };
    g_ptr_array_add(values, value);
}

static void
publish_nothing(void)
{
    ph_settings_publish(values_new(), 1);
}

static void
test_snapshot_defaults(void)
{
    publish_nothing();
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_assert_false(ph_settings_bool(settings, "test.switch", NULL));
    g_assert_cmpint(ph_settings_int(settings, "test.number", NULL), ==, 7);
    g_assert_cmpint(ph_settings_int(settings, "test.max_bytes", NULL), ==, 10240);
    g_assert_cmpint(ph_settings_int(settings, "test.wait_s", NULL), ==, 90);
    g_assert_cmpstr(ph_settings_text(settings, "test.name", NULL), ==, "default");
    g_assert_cmpstr(ph_settings_text(settings, "test.colour", NULL), ==, "red");
    g_assert_cmpint(ph_setting_int("test.number"), ==, 7);
    g_assert_false(ph_setting_bool("test.switch"));
}

/* The nearest scope wins. */
static void
test_snapshot_scopes(void)
{
    GPtrArray *values = values_new();
    append(values, "test.name", PH_SCOPE_GLOBAL, 0, "global");
    append(values, "test.name", PH_SCOPE_NODE, 5, "node");
    append(values, "test.name", PH_SCOPE_NODE, 6, "other node");
    append(values, "test.name", PH_SCOPE_TENANT, 10, "tenant");
    append(values, "test.name", PH_SCOPE_DOMAIN, 20, "domain");
    append(values, "test.name", PH_SCOPE_SITE, 25, "site");
    append(values, "test.name", PH_SCOPE_ACCOUNT, 30, "account");
    ph_settings_publish(values, 5);
    static const struct {
        PhScopeIds ids;
        const char *expected;
    } cases[] = {
        { { 0, 0, 0, 0 }, "node" },
        { { 11, 21, 26, 31 }, "node" },
        { { 10, 0, 0, 0 }, "tenant" },
        { { 10, 20, 0, 0 }, "domain" },
        { { 10, 21, 0, 0 }, "tenant" },
        { { 10, 20, 25, 0 }, "site" },
        { { 10, 20, 25, 30 }, "account" },
        { { 0, 0, 0, 30 }, "account" },
        { { 10, 20, 0, 31 }, "domain" },
    };
    g_autoptr(PhSettings) settings = ph_settings_current();
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        g_assert_cmpstr(
            ph_settings_text(settings, "test.name", &cases[i].ids), ==, cases[i].expected);
    g_assert_cmpstr(ph_settings_text(settings, "test.name", NULL), ==, "node");
    g_autoptr(GPtrArray) again = ph_settings_values();
    ph_settings_publish(g_steal_pointer(&again), 7);
    g_autoptr(PhSettings) elsewhere = ph_settings_current();
    g_assert_cmpstr(ph_settings_text(elsewhere, "test.name", NULL), ==, "global");
}

/* Who holds a snapshot sees no change; values that are wrong or of nobody's key are passed over,
 * and kept. */
static void
test_snapshot_immutable(void)
{
    publish_nothing();
    g_autoptr(PhSettings) before = ph_settings_current();
    const char *name = ph_settings_text(before, "test.name", NULL);
    GPtrArray *values = values_new();
    append(values, "test.name", PH_SCOPE_GLOBAL, 0, "changed");
    append(values, "test.number", PH_SCOPE_GLOBAL, 0, "1000000");
    append(values, "test.colour", PH_SCOPE_GLOBAL, 0, "mauve");
    append(values, "absent.plugin.key", PH_SCOPE_GLOBAL, 0, "kept");
    ph_settings_publish(values, 1);
    g_assert_cmpstr(name, ==, "default");
    g_assert_cmpstr(ph_settings_text(before, "test.name", NULL), ==, "default");
    g_autoptr(PhSettings) after = ph_settings_current();
    g_assert_cmpstr(ph_settings_text(after, "test.name", NULL), ==, "changed");
    g_assert_cmpint(ph_settings_int(after, "test.number", NULL), ==, 7);
    g_assert_cmpstr(ph_settings_text(after, "test.colour", NULL), ==, "red");
    g_autoptr(GPtrArray) kept = ph_settings_values();
    g_assert_cmpuint(kept->len, ==, 4);

    static const PhSettingRow late[] = { { "absent.plugin.key", PH_SETTING_TEXT, "default", 0, 20,
                                             NULL, PH_SCOPE_GLOBAL, "Declared later." },
        { 0 } };
    ph_settings_declare(late);
    g_autoptr(PhSettings) declared = ph_settings_current();
    g_assert_cmpstr(ph_settings_text(declared, "absent.plugin.key", NULL), ==, "kept");
    ph_settings_undeclare(late);
    publish_nothing();
}

/* -- declaring --------------------------------------------------------------------------------- */

static void
test_declare_generations(void)
{
    static const PhSettingRow first[] = {
        { "gen.key_s", PH_SETTING_TIME, "5", 1, 10, NULL, PH_SCOPE_GLOBAL, "First." }, { 0 }
    };
    static const PhSettingRow second[] = {
        { "gen.key_s", PH_SETTING_TIME, "50", 1, 100, NULL, PH_SCOPE_GLOBAL, "Second." }, { 0 }
    };
    g_assert_null(ph_settings_row("gen.key_s"));
    ph_settings_declare(first);
    const PhSettingRow *row = ph_settings_row("gen.key_s");
    g_assert_true(row != first);
    g_assert_cmpint(ph_setting_int("gen.key_s"), ==, 5);
    ph_settings_declare(second);
    g_assert_cmpint(ph_setting_int("gen.key_s"), ==, 50);
    /* Who looked it up before still reads the same row. */
    g_assert_cmpstr(row->help, ==, "First.");
    g_assert_cmpint(row->max, ==, 10);
    g_assert_cmpint(ph_settings_row("gen.key_s")->max, ==, 100);
    ph_settings_undeclare(first);
    g_assert_nonnull(ph_settings_row("gen.key_s"));
    ph_settings_undeclare(second);
    g_assert_null(ph_settings_row("gen.key_s"));
    g_assert_cmpint(
        ph_setting_int("gen.key_s"), ==, 50); /* sessions of the old generation may still ask */
}

static void
test_declare_rows(void)
{
    g_autoptr(GPtrArray) all = ph_settings_rows();
    g_assert_cmpuint(all->len, ==, G_N_ELEMENTS(rows) - 1);
    for (guint i = 1; i < all->len; i++)
        g_assert_cmpstr(((const PhSettingRow *)all->pdata[i - 1])->key, <,
            ((const PhSettingRow *)all->pdata[i])->key);
}

/* Publishing, declaring and reading at once. */
typedef struct Rivals {
    int stop;
} Rivals;

static void *
publisher_main(void *data)
{
    Rivals *rivals = data;
    for (int i = 0; __atomic_load_n(&rivals->stop, __ATOMIC_ACQUIRE) == 0; i++) {
        GPtrArray *values = values_new();
        g_autofree char *text = g_strdup_printf("%d", i % 100);
        for (int k = 0; k < 50; k++)
            append(values, "test.number", PH_SCOPE_DOMAIN, k, text);
        append(values, "test.number", PH_SCOPE_GLOBAL, 0, text);
        append(values, "test.name", PH_SCOPE_GLOBAL, 0, text);
        ph_settings_publish(values, 1);
    }
    return NULL;
}

static void *
declarer_main(void *data)
{
    static const PhSettingRow even[] = {
        { "race.key", PH_SETTING_INT, "1", 0, 10, NULL, PH_SCOPE_GLOBAL, "Even." }, { 0 }
    };
    static const PhSettingRow odd[] = {
        { "race.key", PH_SETTING_INT, "2", 0, 20, NULL, PH_SCOPE_GLOBAL, "Odd." }, { 0 }
    };
    Rivals *rivals = data;
    for (int i = 0; __atomic_load_n(&rivals->stop, __ATOMIC_ACQUIRE) == 0 && i < 300; i++) {
        ph_settings_declare(i % 2 == 0 ? even : odd);
        const PhSettingRow *row = ph_settings_row("race.key");
        g_assert_true(row->max == 10 || row->max == 20);
        ph_settings_undeclare(i % 2 == 0 ? even : odd);
    }
    return NULL;
}

static void
test_snapshot_rivals(void)
{
    Rivals rivals = { 0 };
    GThread *threads[] = { g_thread_new("publisher", publisher_main, &rivals),
        g_thread_new("publisher", publisher_main, &rivals),
        g_thread_new("declarer", declarer_main, &rivals) };
    int64_t until_us = g_get_monotonic_time() + 400 * 1000;
    while (g_get_monotonic_time() < until_us) {
        g_autoptr(PhSettings) settings = ph_settings_current();
        g_autofree char *number =
            g_strdup_printf("%" G_GINT64_FORMAT, ph_settings_int(settings, "test.number", NULL));
        const char *name = ph_settings_text(settings, "test.name", NULL);
        /* Both from one moment. */
        if (strcmp(name, "default") != 0)
            g_assert_cmpstr(name, ==, number);
    }
    __atomic_store_n(&rivals.stop, 1, __ATOMIC_RELEASE);
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
    publish_nothing();
}

/* -- the sealed copy --------------------------------------------------------------------------- */

static char *folder;

static bool
write_sealed(const char *path, const PhSecret *key, GError **error)
{
    g_autoptr(GVariant) values = ph_settings_to_variant();
    return ph_seal_write(path, key, values, error);
}

static GPtrArray *
read_sealed(const char *path, const PhSecret *key, GError **error)
{
    g_autoptr(GVariant) values =
        ph_seal_read(path, key, G_VARIANT_TYPE(PH_SETTINGS_VARIANT), error);
    return values != NULL ? ph_settings_from_variant(values) : NULL;
}

static char *
path_of(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void
test_cache_key(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = path_of("secret.key");
    g_autoptr(PhSecret) made = ph_seal_key_load(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(ph_secret_length(made), ==, 32);
    struct stat info;
    g_assert_cmpint(stat(path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0600);
    g_autoptr(PhSecret) read = ph_seal_key_load(path, &error);
    g_assert_no_error(error);
    g_assert_true(ph_secret_equal(made, read));

    g_autofree char *broken = path_of("broken.key");
    g_assert_true(g_file_set_contents(broken, "short", -1, NULL));
    g_assert_null(ph_seal_key_load(broken, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
    g_clear_error(&error);
    g_autofree char *nowhere = path_of("no/such/folder.key");
    g_assert_null(ph_seal_key_load(nowhere, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
}

static void
test_cache_round_trip(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = path_of("settings.cache");
    g_autoptr(PhSecret) key = ph_secret_new_random(32);
    g_assert_null(read_sealed(path, key, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    g_clear_error(&error);

    publish_nothing();
    g_assert_true(write_sealed(path, key, &error));
    g_autoptr(GPtrArray) empty = read_sealed(path, key, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(empty->len, ==, 0);

    GPtrArray *values = values_new();
    append(values, "test.name", PH_SCOPE_ACCOUNT, INT64_MAX, "gr\xc3\xbc\xc3\x9f");
    append(values, "plugin.secret", PH_SCOPE_GLOBAL, 0, "hidden words");
    ph_settings_publish(values, 1);
    g_assert_true(write_sealed(path, key, &error));
    g_assert_no_error(error);
    g_autoptr(GPtrArray) back = read_sealed(path, key, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(back->len, ==, 2);
    const PhSettingValue *first = back->pdata[0];
    g_assert_cmpstr(first->key, ==, "test.name");
    g_assert_cmpint(first->scope, ==, PH_SCOPE_ACCOUNT);
    g_assert_cmpint(first->scope_id, ==, INT64_MAX);
    g_assert_cmpstr(first->value, ==, "gr\xc3\xbc\xc3\x9f");

    struct stat info;
    g_assert_cmpint(stat(path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0600);
    g_autofree char *bytes = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(path, &bytes, &length, NULL));
    g_assert_null(memmem(bytes, length, "hidden", 6));
    publish_nothing();
}

/* Any byte changed, any length cut, another key: refused. */
static void
test_cache_tampered(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = path_of("tampered.cache");
    g_autoptr(PhSecret) key = ph_secret_new_random(32);
    GPtrArray *values = values_new();
    append(values, "test.name", PH_SCOPE_GLOBAL, 0, "value");
    ph_settings_publish(values, 1);
    g_assert_true(write_sealed(path, key, &error));
    g_autofree char *bytes = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(path, &bytes, &length, NULL));
    for (gsize i = 0; i < length; i++) {
        bytes[i] = (char)(bytes[i] ^ 0x20);
        g_assert_true(g_file_set_contents(path, bytes, (gssize)length, NULL));
        g_assert_null(read_sealed(path, key, &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
        g_clear_error(&error);
        bytes[i] = (char)(bytes[i] ^ 0x20);
    }
    for (gsize cut = 0; cut < length; cut++) {
        g_assert_true(g_file_set_contents(path, bytes, (gssize)cut, NULL));
        g_assert_null(read_sealed(path, key, &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
        g_clear_error(&error);
    }
    g_assert_true(g_file_set_contents(path, bytes, (gssize)length, NULL));
    g_autoptr(PhSecret) other = ph_secret_new_random(32);
    g_assert_null(read_sealed(path, other, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
    g_clear_error(&error);
    g_autoptr(GPtrArray) good = read_sealed(path, key, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(good->len, ==, 1);
    publish_nothing();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/settings/check/table", test_check_table);
    g_test_add_func("/settings/check/refusals", test_check_refusals);
    g_test_add_func("/settings/check/scopes", test_check_scopes);
    g_test_add_func("/settings/declare/rows", test_declare_rows);
    g_test_add_func("/settings/declare/generations", test_declare_generations);
    g_test_add_func("/settings/snapshot/defaults", test_snapshot_defaults);
    g_test_add_func("/settings/snapshot/scopes", test_snapshot_scopes);
    g_test_add_func("/settings/snapshot/immutable", test_snapshot_immutable);
    g_test_add_func("/settings/snapshot/rivals", test_snapshot_rivals);
    g_test_add_func("/settings/cache/key", test_cache_key);
    g_test_add_func("/settings/cache/round-trip", test_cache_round_trip);
    g_test_add_func("/settings/cache/tampered", test_cache_tampered);
    ph_settings_declare(rows);
    folder = test_folder_new();
    int status = g_test_run();
    test_folder_free(folder);
    return status;
}
