/* settings-value.c - fuzz target: a value for a setting of each type; its canonical form is its own
 * canonical form */
#include "runtime/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const PhSettingRow rows[] = {
    { "fuzz.switch", PH_SETTING_BOOL, "off", 0, 0, NULL, PH_SCOPE_GLOBAL, "A switch." },
    { "fuzz.number", PH_SETTING_INT, "7", INT64_MIN, INT64_MAX, NULL, PH_SCOPE_GLOBAL,
        "A number." },
    { "fuzz.max_bytes", PH_SETTING_SIZE, "10K", 1, INT64_MAX, NULL, PH_SCOPE_GLOBAL, "A size." },
    { "fuzz.wait_ms", PH_SETTING_TIME, "15", 0, INT64_MAX, NULL, PH_SCOPE_GLOBAL, "A time." },
    { "fuzz.wait_d", PH_SETTING_TIME, "9", 1, 1000, NULL, PH_SCOPE_GLOBAL, "A time in days." },
    { "fuzz.name", PH_SETTING_TEXT, "default", 0, 20, NULL, PH_SCOPE_GLOBAL, "A text." },
    { "fuzz.colour", PH_SETTING_CHOICE, "red", 0, 0, "red|green", PH_SCOPE_GLOBAL, "A choice." },
    { "fuzz.words", PH_SETTING_LIST, "a,b", 0, 30, NULL, PH_SCOPE_GLOBAL, "Words." },
    { 0 },
};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (ph_settings_row(rows[0].key) == NULL)
        ph_settings_declare(rows);
    g_autofree char *value = g_strndup((const char *)data, size);
    for (const PhSettingRow *row = rows; row->key != NULL; row++) {
        g_autofree char *canonical = NULL;
        g_autofree char *again = NULL;
        g_autoptr(GError) error = NULL;
        if (!ph_settings_check(row->key, PH_SCOPE_GLOBAL, value, &canonical, &error)) {
            g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
            continue;
        }
        g_assert_true(ph_settings_check(row->key, PH_SCOPE_GLOBAL, canonical, &again, &error));
        g_assert_cmpstr(again, ==, canonical);
    }
    PhScope scope;
    if (ph_scope_parse(value, &scope))
        g_assert_cmpstr(ph_scope_name(scope), ==, value);
    return 0;
}
