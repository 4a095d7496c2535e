/* settings.c - rows, snapshots, the sealed copy
 *
 * A snapshot is built whole and never changed. Rows are copied at declaration, so that a snapshot
 * never points into a plugin that may be unmapped.
 */
#include "runtime/settings.h"

#include "posthouse/log.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Declared {
    const PhSettingRow *row; /* never changed nor freed: others read it without the lock */
    unsigned count;
} Declared;

typedef struct Scoped {
    PhScope scope;
    int64_t id;
    int64_t number;
    char *text;
} Scoped;

/* One key in a snapshot. */
typedef struct Entry {
    PhSettingType type;
    int64_t number; /* the default */
    char *text;
    GArray *scoped; /* of Scoped; null: nothing set */
} Entry;

struct PhSettings {
    PhRef ref;
    int64_t node_id;
    GHashTable *entries; /* key -> Entry */
    GPtrArray *values;   /* as published */
};

static struct {
    PhMutex mutex;
    GHashTable *declared; /* key -> Declared; never shrinks */
    GPtrArray *replaced;  /* rows of generations before */
    PhSettings *current;
} registry = { .mutex = { .rank = PH_LOCK_SNAPSHOT } };

static uint64_t generation; /* of the current snapshot; read without the lock */

static const struct {
    PhScope scope;
    const char *name;
} scope_rows[] = {
    { PH_SCOPE_GLOBAL, "global" },
    { PH_SCOPE_NODE, "node" },
    { PH_SCOPE_TENANT, "tenant" },
    { PH_SCOPE_DOMAIN, "domain" },
    { PH_SCOPE_SITE, "site" },
    { PH_SCOPE_ACCOUNT, "account" },
};

const char *
ph_scope_name(PhScope scope)
{
    for (size_t i = 0; i < G_N_ELEMENTS(scope_rows); i++)
        if (scope_rows[i].scope == scope)
            return scope_rows[i].name;
    return "unknown";
}

bool
ph_scope_parse(const char *name, PhScope *scope_out)
{
    for (size_t i = 0; i < G_N_ELEMENTS(scope_rows); i++)
        if (strcmp(scope_rows[i].name, name) == 0) {
            *scope_out = scope_rows[i].scope;
            return true;
        }
    return false;
}

void
ph_setting_value_free(PhSettingValue *value)
{
    if (value == NULL)
        return;
    g_free(value->key);
    g_free(value->value);
    g_free(value);
}

static PhSettingValue *
value_copy(const PhSettingValue *value)
{
    PhSettingValue *copy = g_new(PhSettingValue, 1);
    *copy = *value;
    copy->key = g_strdup(value->key);
    copy->value = g_strdup(value->value);
    return copy;
}

/* -- values ------------------------------------------------------------------------------------ */

static const struct {
    const char *word;
    bool value;
} bool_rows[] = {
    { "true", true },
    { "on", true },
    { "yes", true },
    { "false", false },
    { "off", false },
    { "no", false },
};

static const struct {
    const char *unit;
    int64_t factor;
} size_rows[] = {
    {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30},
}, time_rows[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000},
};

static bool
parse_number(const char *text, int64_t *number_out, const char **rest_out)
{
    if (!g_ascii_isdigit(text[0]) && !(text[0] == '-' && g_ascii_isdigit(text[1])))
        return false;
    char *end;
    errno = 0;
    *number_out = g_ascii_strtoll(text, &end, 10);
    *rest_out = end;
    return errno == 0;
}

static bool
multiply(int64_t number, int64_t factor, int64_t *out)
{
    return !__builtin_mul_overflow(number, factor, out);
}

/* The key's own unit, in ms. */
static int64_t
key_unit_ms(const char *key)
{
    const char *unit = strrchr(key, '_');
    for (size_t i = 0; unit != NULL && i < G_N_ELEMENTS(time_rows); i++)
        if (strcmp(unit + 1, time_rows[i].unit) == 0)
            return time_rows[i].factor;
    return 1;
}

static bool
parse_size(const char *text, int64_t *number_out)
{
    const char *rest;
    if (!parse_number(text, number_out, &rest))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(size_rows); i++)
        if (g_ascii_strcasecmp(rest, size_rows[i].unit) == 0)
            return multiply(*number_out, size_rows[i].factor, number_out);
    return false;
}

static bool
parse_time(const char *key, const char *text, int64_t *number_out)
{
    const char *rest;
    if (!parse_number(text, number_out, &rest))
        return false;
    if (*rest == '\0')
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(time_rows); i++) {
        int64_t ms;
        if (strcmp(rest, time_rows[i].unit) != 0)
            continue;
        if (!multiply(*number_out, time_rows[i].factor, &ms) || ms % key_unit_ms(key) != 0)
            return false;
        *number_out = ms / key_unit_ms(key);
        return true;
    }
    return false;
}

static bool
is_choice(const char *choices, const char *value)
{
    g_auto(GStrv) words = g_strsplit(choices, "|", -1);
    return g_strv_contains((const char *const *)words, value);
}

/* A number for the numeric types; the text otherwise. */
static bool
parse_value(const PhSettingRow *row, const char *value, int64_t *number_out)
{
    const char *rest;
    bool numeric = true;
    bool good = false;
    switch (row->type) {
    case PH_SETTING_BOOL:
        for (size_t i = 0; i < G_N_ELEMENTS(bool_rows); i++)
            if (g_ascii_strcasecmp(value, bool_rows[i].word) == 0) {
                *number_out = bool_rows[i].value;
                return true;
            }
        return false;
    case PH_SETTING_INT:
        good = parse_number(value, number_out, &rest) && *rest == '\0';
        break;
    case PH_SETTING_SIZE:
        good = parse_size(value, number_out);
        break;
    case PH_SETTING_TIME:
        good = parse_time(row->key, value, number_out);
        break;
    case PH_SETTING_CHOICE:
        numeric = false;
        good = is_choice(row->choices, value);
        break;
    case PH_SETTING_TEXT:
    case PH_SETTING_LIST:
        numeric = false;
        *number_out = (int64_t)strlen(value);
        good = g_utf8_validate(value, -1, NULL) && (row->max == 0 || *number_out <= row->max);
        break;
    }
    if (good && numeric)
        good = *number_out >= row->min && (row->max == 0 || *number_out <= row->max);
    return good;
}

static char *
describe_allowed(const PhSettingRow *row)
{
    static const char *const nouns[] = {
        [PH_SETTING_BOOL] = "\"true\" or \"false\"",
        [PH_SETTING_INT] = "a number",
        [PH_SETTING_SIZE] = "a size in bytes, or with K, M or G",
        [PH_SETTING_TIME] = "a time in the key's unit, or with ms, s, m, h or d",
        [PH_SETTING_TEXT] = "text",
        [PH_SETTING_CHOICE] = "one of",
        [PH_SETTING_LIST] = "words divided by commas",
    };
    GString *text = g_string_new(nouns[row->type]);
    if (row->type == PH_SETTING_CHOICE)
        g_string_append_printf(text, " %s", row->choices);
    else if (row->type == PH_SETTING_TEXT || row->type == PH_SETTING_LIST)
        g_string_append_printf(text, " of at most %" G_GINT64_FORMAT " bytes", row->max);
    else if (row->type != PH_SETTING_BOOL)
        g_string_append_printf(
            text, ", %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, row->min, row->max);
    return g_string_free(text, FALSE);
}

bool
ph_settings_check(
    const char *key, PhScope scope, const char *value, char **canonical_out, GError **error)
{
    const PhSettingRow *row = ph_settings_row(key);
    if (row == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no setting \"%s\"", key);
        return false;
    }
    if ((row->scopes & scope) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" cannot be set for scope \"%s\"", key,
            ph_scope_name(scope));
        return false;
    }
    int64_t number = 0;
    if (!parse_value(row, value, &number)) {
        g_autofree char *allowed = describe_allowed(row);
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" cannot be \"%s\": it takes %s", key,
            value, allowed);
        return false;
    }
    switch (row->type) {
    case PH_SETTING_BOOL:
        *canonical_out = g_strdup(number != 0 ? "true" : "false");
        break;
    case PH_SETTING_INT:
    case PH_SETTING_SIZE:
    case PH_SETTING_TIME:
        *canonical_out = g_strdup_printf("%" G_GINT64_FORMAT, number);
        break;
    case PH_SETTING_TEXT:
    case PH_SETTING_CHOICE:
    case PH_SETTING_LIST:
        *canonical_out = g_strdup(value);
        break;
    }
    return true;
}

/* -- snapshots --------------------------------------------------------------------------------- */

static void
entry_free(gpointer data)
{
    Entry *entry = data;
    g_free(entry->text);
    for (guint i = 0; entry->scoped != NULL && i < entry->scoped->len; i++)
        g_free(g_array_index(entry->scoped, Scoped, i).text);
    if (entry->scoped != NULL)
        g_array_free(entry->scoped, TRUE);
    g_free(entry);
}

PhSettings *
ph_settings_ref(PhSettings *settings)
{
    ph_ref_take(&settings->ref);
    return settings;
}

void
ph_settings_unref(PhSettings *settings)
{
    if (settings == NULL || !ph_ref_drop(&settings->ref))
        return;
    g_hash_table_unref(settings->entries);
    g_ptr_array_unref(settings->values);
    g_free(settings);
}

static void
add_default(PhSettings *settings, const PhSettingRow *row)
{
    Entry *entry = g_new0(Entry, 1);
    entry->type = row->type;
    entry->text = g_strdup(row->default_value);
    if (!parse_value(row, row->default_value, &entry->number))
        g_error("setting \"%s\" has a default that it does not allow", row->key);
    g_hash_table_insert(settings->entries, g_strdup(row->key), entry);
}

static void
add_value(PhSettings *settings, const PhSettingValue *value)
{
    const Declared *declared = g_hash_table_lookup(registry.declared, value->key);
    Entry *entry = g_hash_table_lookup(settings->entries, value->key);
    Scoped scoped = { .scope = value->scope, .id = value->scope_id };
    if (declared == NULL || entry == NULL)
        return;
    if (!parse_value(declared->row, value->value, &scoped.number))
        return;
    scoped.text = g_strdup(value->value);
    if (entry->scoped == NULL)
        entry->scoped = g_array_new(FALSE, FALSE, sizeof(Scoped));
    g_array_append_val(entry->scoped, scoped);
}

/* Takes `values`. */
static PhSettings *
snapshot_new_locked(GPtrArray *values, int64_t node_id)
{
    PhSettings *settings = g_new0(PhSettings, 1);
    ph_ref_init(&settings->ref);
    settings->node_id = node_id;
    settings->values = values;
    settings->entries = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, entry_free);
    GHashTableIter iter;
    gpointer declared;
    g_hash_table_iter_init(&iter, registry.declared);
    while (g_hash_table_iter_next(&iter, NULL, &declared))
        add_default(settings, ((Declared *)declared)->row);
    for (guint i = 0; i < values->len; i++)
        add_value(settings, values->pdata[i]);
    return settings;
}

static GPtrArray *
values_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
}

static void
init_locked(void)
{
    if (registry.declared != NULL)
        return;
    registry.declared = g_hash_table_new(g_str_hash, g_str_equal);
    registry.current = snapshot_new_locked(values_new(), 0);
}

static PhSettings *
replace_locked(GPtrArray *values, int64_t node_id)
{
    PhSettings *old = registry.current;
    registry.current = snapshot_new_locked(values, node_id);
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    return old;
}

static GPtrArray *
copy_values(const GPtrArray *values)
{
    GPtrArray *copy = values_new();
    for (guint i = 0; i < values->len; i++)
        g_ptr_array_add(copy, value_copy(values->pdata[i]));
    return copy;
}

/* A copy that outlives the plugin. */
static PhSettingRow *
row_copy(const PhSettingRow *row)
{
    PhSettingRow *copy = g_new(PhSettingRow, 1);
    *copy = *row;
    copy->key = g_intern_string(row->key);
    copy->default_value = g_intern_string(row->default_value);
    copy->choices = g_intern_string(row->choices);
    copy->help = g_intern_string(row->help);
    return copy;
}

static bool
rows_equal(const PhSettingRow *a, const PhSettingRow *b)
{
    return a->key == b->key && a->type == b->type && a->default_value == b->default_value &&
           a->min == b->min && a->max == b->max && a->choices == b->choices &&
           a->scopes == b->scopes && a->help == b->help;
}

static void
declare_locked(const PhSettingRow *row)
{
    PhSettingRow *copy = row_copy(row);
    Declared *declared = g_hash_table_lookup(registry.declared, row->key);
    if (declared == NULL) {
        declared = g_new0(Declared, 1);
        g_hash_table_insert(registry.declared, g_strdup(row->key), declared);
    }
    declared->count++;
    if (declared->row != NULL && rows_equal(declared->row, copy)) {
        g_free(copy);
        return;
    }
    /* A row that was replaced stays: somebody may be reading it. */
    if (declared->row != NULL) {
        if (registry.replaced == NULL)
            registry.replaced = g_ptr_array_new();
        g_ptr_array_add(registry.replaced, (gpointer)(uintptr_t)declared->row);
    }
    declared->row = copy;
}

void
ph_settings_declare(const PhSettingRow *rows)
{
    ph_mutex_lock(&registry.mutex);
    init_locked();
    for (const PhSettingRow *row = rows; row->key != NULL; row++)
        declare_locked(row);
    PhSettings *old =
        replace_locked(copy_values(registry.current->values), registry.current->node_id);
    ph_mutex_unlock(&registry.mutex);
    ph_settings_unref(old);
}

void
ph_settings_undeclare(const PhSettingRow *rows)
{
    ph_mutex_lock(&registry.mutex);
    for (const PhSettingRow *row = rows; row->key != NULL; row++) {
        Declared *declared = g_hash_table_lookup(registry.declared, row->key);
        if (declared != NULL && declared->count > 0)
            declared->count--;
    }
    ph_mutex_unlock(&registry.mutex);
}

const PhSettingRow *
ph_settings_row(const char *key)
{
    ph_mutex_lock(&registry.mutex);
    init_locked();
    const Declared *declared = g_hash_table_lookup(registry.declared, key);
    const PhSettingRow *row = declared != NULL && declared->count > 0 ? declared->row : NULL;
    ph_mutex_unlock(&registry.mutex);
    return row;
}

static int
compare_rows(gconstpointer a, gconstpointer b)
{
    const PhSettingRow *const *left = a;
    const PhSettingRow *const *right = b;
    return strcmp((*left)->key, (*right)->key);
}

GPtrArray *
ph_settings_rows(void)
{
    GPtrArray *rows = g_ptr_array_new();
    ph_mutex_lock(&registry.mutex);
    init_locked();
    GHashTableIter iter;
    gpointer data;
    g_hash_table_iter_init(&iter, registry.declared);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        const Declared *declared = data;
        if (declared->count > 0)
            g_ptr_array_add(rows, (gpointer)(uintptr_t)declared->row);
    }
    ph_mutex_unlock(&registry.mutex);
    g_ptr_array_sort(rows, compare_rows);
    return rows;
}

void
ph_settings_publish(GPtrArray *values, int64_t node_id)
{
    ph_mutex_lock(&registry.mutex);
    init_locked();
    PhSettings *old = replace_locked(values, node_id);
    /* `values` belongs to the snapshot, which another thread may replace at once. */
    g_autoptr(PhSettings) published = ph_settings_ref(registry.current);
    ph_mutex_unlock(&registry.mutex);
    ph_settings_unref(old);

    for (guint i = 0; i < published->values->len; i++) {
        const PhSettingValue *value = published->values->pdata[i];
        g_autofree char *canonical = NULL;
        g_autoptr(GError) error = NULL;
        if (ph_settings_row(value->key) != NULL &&
            !ph_settings_check(value->key, value->scope, value->value, &canonical, &error))
            ph_log(PH_LOG_WARNING, "settings.passed-over", "%s", error->message);
    }
}

GPtrArray *
ph_settings_values(void)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    return copy_values(settings->values);
}

uint64_t
ph_settings_generation(void)
{
    return __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
}

PhSettings *
ph_settings_current(void)
{
    ph_mutex_lock(&registry.mutex);
    init_locked();
    PhSettings *settings = ph_settings_ref(registry.current);
    ph_mutex_unlock(&registry.mutex);
    return settings;
}

/* The nearest value, or null for the default. */
static const Scoped *
find_scoped(const PhSettings *settings, const Entry *entry, const PhScopeIds *ids)
{
    if (entry->scoped == NULL)
        return NULL;
    static const PhScopeIds nobody;
    if (ids == NULL)
        ids = &nobody;
    const struct {
        PhScope scope;
        int64_t id;
    } order[] = {
        { PH_SCOPE_ACCOUNT, ids->account_id },
        { PH_SCOPE_SITE, ids->site_id },
        { PH_SCOPE_DOMAIN, ids->domain_id },
        { PH_SCOPE_TENANT, ids->tenant_id },
        { PH_SCOPE_NODE, settings->node_id },
        { PH_SCOPE_GLOBAL, 0 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(order); i++)
        for (guint k = 0; k < entry->scoped->len; k++) {
            const Scoped *scoped = &g_array_index(entry->scoped, Scoped, k);
            if (scoped->scope == order[i].scope && scoped->id == order[i].id)
                return scoped;
        }
    return NULL;
}

static const Entry *
find_entry(const PhSettings *settings, const char *key)
{
    const Entry *entry = g_hash_table_lookup(settings->entries, key);
    if (entry == NULL)
        g_error("setting \"%s\" is not declared", key);
    return entry;
}

int64_t
ph_settings_int(const PhSettings *settings, const char *key, const PhScopeIds *ids)
{
    const Entry *entry = find_entry(settings, key);
    const Scoped *scoped = find_scoped(settings, entry, ids);
    return scoped != NULL ? scoped->number : entry->number;
}

bool
ph_settings_bool(const PhSettings *settings, const char *key, const PhScopeIds *ids)
{
    return ph_settings_int(settings, key, ids) != 0;
}

const char *
ph_settings_text(const PhSettings *settings, const char *key, const PhScopeIds *ids)
{
    const Entry *entry = find_entry(settings, key);
    const Scoped *scoped = find_scoped(settings, entry, ids);
    return scoped != NULL ? scoped->text : entry->text;
}

int64_t
ph_setting_int(const char *key)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    return ph_settings_int(settings, key, NULL);
}

bool
ph_setting_bool(const char *key)
{
    return ph_setting_int(key) != 0;
}

/* -- for the sealed copy ----------------------------------------------------------------------- */

GVariant *
ph_settings_to_variant(void)
{
    g_autoptr(GPtrArray) values = ph_settings_values();
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE(PH_SETTINGS_VARIANT));
    for (guint i = 0; i < values->len; i++) {
        const PhSettingValue *value = values->pdata[i];
        g_variant_builder_add(&builder, "(sixs)", value->key, (gint32)value->scope,
            (gint64)value->scope_id, value->value);
    }
    return g_variant_ref_sink(g_variant_builder_end(&builder));
}

GPtrArray *
ph_settings_from_variant(GVariant *variant)
{
    GPtrArray *values = values_new();
    GVariantIter iter;
    g_variant_iter_init(&iter, variant);
    const char *name;
    const char *text;
    gint32 scope;
    gint64 scope_id;
    while (g_variant_iter_next(&iter, "(&six&s)", &name, &scope, &scope_id, &text)) {
        PhSettingValue *value = g_new(PhSettingValue, 1);
        *value = (PhSettingValue){ .key = g_strdup(name),
            .scope = (PhScope)scope,
            .scope_id = scope_id,
            .value = g_strdup(text) };
        g_ptr_array_add(values, value);
    }
    return values;
}
