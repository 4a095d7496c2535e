/* settings-document.c - settings as text, and the difference between a text and the rows */
#include "management/settings-document.h"

#include "runtime/settings.h"

#include <string.h>

/* -- writing ----------------------------------------------------------------------------------- */

static int
compare_rows(gconstpointer a, gconstpointer b)
{
    const PhStoredSetting *left = *(const PhStoredSetting *const *)a;
    const PhStoredSetting *right = *(const PhStoredSetting *const *)b;
    if (left->scope_kind != right->scope_kind)
        return left->scope_kind - right->scope_kind;
    int order = strcmp(left->scope_id, right->scope_id);
    return order != 0 ? order : strcmp(left->key, right->key);
}

char *
ph_settings_document_format(const GPtrArray *rows, int64_t version)
{
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "# Posthouse settings, version %" G_GINT64_FORMAT "\n", version);
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    for (guint i = 0; i < rows->len; i++)
        g_ptr_array_add(sorted, rows->pdata[i]);
    g_ptr_array_sort(sorted, compare_rows);
    const char *section = "";
    for (guint i = 0; i < sorted->len; i++) {
        const PhStoredSetting *row = sorted->pdata[i];
        if (strcmp(row->scope_id, section) != 0)
            g_string_append_printf(
                text, "\n[%s %s]\n", ph_scope_name((PhScope)row->scope_kind), row->scope_id);
        section = row->scope_id;
        g_string_append_printf(text, "%s = %s\n", row->key, row->value);
    }
    return g_string_free(text, FALSE);
}

/* -- reading ----------------------------------------------------------------------------------- */

static void
setting_free(gpointer data)
{
    PhDocumentSetting *setting = data;
    g_free(setting->key);
    g_free(setting->scope_id);
    g_free(setting->value);
    g_free(setting);
}

typedef struct Section {
    PhScope scope;
    char *id;
} Section;

/* "[node NAME]" */
static bool
parse_section(char *line, Section *section, GError **error)
{
    size_t length = strlen(line);
    char *space = strchr(line, ' ');
    PhScope scope = PH_SCOPE_GLOBAL;
    bool good = line[length - 1] == ']' && space != NULL;
    if (good) {
        line[length - 1] = '\0';
        *space = '\0';
        good = ph_scope_parse(line + 1, &scope) && scope == PH_SCOPE_NODE && space[1] != '\0';
    }
    if (!good) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a section is \"[node NAME]\"");
        return false;
    }
    section->scope = scope;
    g_free(section->id);
    section->id = g_strdup(g_strstrip(space + 1));
    return true;
}

static bool
is_there(const GPtrArray *settings, const char *key, const Section *section)
{
    for (guint i = 0; i < settings->len; i++) {
        const PhDocumentSetting *setting = settings->pdata[i];
        if (strcmp(setting->key, key) == 0 && strcmp(setting->scope_id, section->id) == 0)
            return true;
    }
    return false;
}

static bool
parse_setting(char *line, const Section *section, GPtrArray *settings, GError **error)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "there is no \"=\" in \"%s\"", line);
        return false;
    }
    *equals = '\0';
    const char *key = g_strstrip(line);
    g_autofree char *value = NULL;
    if (is_there(settings, key, section)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is there twice", key);
        return false;
    }
    if (!ph_settings_check(key, section->scope, g_strstrip(equals + 1), &value, error))
        return false;
    PhDocumentSetting *setting = g_new0(PhDocumentSetting, 1);
    setting->key = g_strdup(key);
    setting->scope_kind = (int)section->scope;
    setting->scope_id = g_strdup(section->id);
    setting->value = g_steal_pointer(&value);
    g_ptr_array_add(settings, setting);
    return true;
}

GPtrArray *
ph_settings_document_parse(const char *text, GError **error)
{
    g_autoptr(GPtrArray) settings = g_ptr_array_new_with_free_func(setting_free);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    Section section = { .scope = PH_SCOPE_GLOBAL, .id = g_strdup("") };
    bool good = true;
    for (unsigned i = 0; good && lines[i] != NULL; i++) {
        char *line = g_strstrip(lines[i]);
        if (line[0] == '\0' || line[0] == '#')
            continue;
        good = line[0] == '[' ? parse_section(line, &section, error)
                              : parse_setting(line, &section, settings, error);
        if (!good)
            g_prefix_error(error, "line %u: ", i + 1);
    }
    g_free(section.id);
    return good ? g_steal_pointer(&settings) : NULL;
}

/* -- the difference ---------------------------------------------------------------------------- */

static const PhStoredSetting *
find_row(const GPtrArray *rows, const PhDocumentSetting *setting)
{
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSetting *row = rows->pdata[i];
        if (row->scope_kind == setting->scope_kind &&
            strcmp(row->scope_id, setting->scope_id) == 0 && strcmp(row->key, setting->key) == 0)
            return row;
    }
    return NULL;
}

static bool
is_in_document(const GPtrArray *document, const PhStoredSetting *row)
{
    for (guint i = 0; i < document->len; i++) {
        const PhDocumentSetting *setting = document->pdata[i];
        if (row->scope_kind == setting->scope_kind &&
            strcmp(row->scope_id, setting->scope_id) == 0 && strcmp(row->key, setting->key) == 0)
            return true;
    }
    return false;
}

GArray *
ph_settings_document_changes(const GPtrArray *rows, const GPtrArray *document)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(PhSettingChange));
    for (guint i = 0; i < document->len; i++) {
        const PhDocumentSetting *setting = document->pdata[i];
        const PhStoredSetting *row = find_row(rows, setting);
        if (row != NULL && strcmp(row->value, setting->value) == 0)
            continue;
        PhSettingChange change = { setting->key, setting->scope_kind, setting->scope_id,
            setting->value };
        g_array_append_val(changes, change);
    }
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSetting *row = rows->pdata[i];
        if (is_in_document(document, row))
            continue;
        PhSettingChange change = { row->key, row->scope_kind, row->scope_id, NULL };
        g_array_append_val(changes, change);
    }
    return changes;
}
