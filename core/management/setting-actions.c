/* setting-actions.c - settings: reading, changing, their history, all of them as a document */
#include "management/actions.h"
#include "management/configuration.h"
#include "management/settings-document.h"
#include "runtime/settings.h"
#include "store/store.h"

#include <string.h>

/* -- settings ---------------------------------------------------------------------------------- */

#define SCOPE_ARGUMENTS \
    PH_OPTION("domain", "for this domain"), PH_OPTION("account", "for this mail address"), \
        PH_SWITCH("node", "for this node")

static const PhArgumentRow config_key_arguments[] = {
    PH_NEEDED("key", "the setting"),
    SCOPE_ARGUMENTS,
    { 0 },
};

static const PhArgumentRow config_unset_arguments[] = {
    PH_NEEDED("key", "the setting"),
    SCOPE_ARGUMENTS,
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

static const PhArgumentRow config_set_arguments[] = {
    PH_NEEDED("key", "the setting"),
    { "value", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the new value",
        NULL, 0, 65536 },
    SCOPE_ARGUMENTS,
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

static const PhArgumentRow config_list_arguments[] = {
    PH_OPTION("plugin", "only those of this plugin, or of a part of the core"),
    PH_SWITCH("changed", "only those that are set"),
    PH_ARGUMENTS_LIST,
    { 0 },
};

static const PhArgumentRow config_history_arguments[] = {
    { "key", PH_ARGUMENT_TEXT, PH_ARGUMENT_POSITIONAL, "only this setting", NULL, 0, 255 },
    PH_ARGUMENT_LIMIT,
    { 0 },
};

#define SETTING_ANSWERS(KIND) \
    PH_##KIND("key", TEXT, "the setting"), PH_##KIND("value", TEXT, "what holds now"), \
        PH_##KIND("default", TEXT, "what holds where nothing is set"), \
        PH_##KIND("set", BOOL, "it is set in the scope that was asked for"), \
        PH_##KIND("type", TEXT, "bool, int, size, time, text, choice or list"), \
        PH_##KIND("min", INT, "the least number, or length"), \
        PH_##KIND("max", INT, "the greatest number, or length"), \
        PH_##KIND("choices", TEXT, "of a choice, divided by |"), \
        PH_##KIND("scopes", TEXT, "where it can be set, divided by spaces"), \
        PH_##KIND("help", TEXT, "what it does")

static const PhAnswerRow config_list_answers[] = { SETTING_ANSWERS(ITEM), { 0 } };

static const PhAnswerRow config_answers[] = {
    SETTING_ANSWERS(FIELD),
    PH_FIELD("version", INT, "of the last change in this scope; 0: never set"),
    PH_FIELD("changed", TIME, "when"),
    PH_FIELD("by", TEXT, "by whom"),
    { 0 },
};

static const PhAnswerRow config_history_answers[] = {
    PH_ITEM("version", INT, "orders all changes of settings"),
    PH_ITEM("key", TEXT, "the setting"),
    PH_ITEM("scope", TEXT, "where it was set"),
    PH_ITEM("value", TEXT, "what it was set to; missing: unset"),
    PH_ITEM("changed", TIME, "when"),
    PH_ITEM("by", TEXT, "by whom"),
    { 0 },
};

static const PhAnswerRow config_change_answers[] = {
    PH_ITEM("key", TEXT, "the setting"),
    PH_ITEM("node", TEXT, "of this node"),
    PH_ITEM("from", TEXT, "what holds now"),
    PH_ITEM("to", TEXT, "what would hold"),
    { 0 },
};

static const PhAnswerRow text_answers[] = { PH_FIELD("text", TEXT, "the document"), { 0 } };

typedef struct ScopeChoice {
    PhScope scope;
    int64_t id;
    PhScopeIds ids; /* for a look-up from that place */
} ScopeChoice;

PH_IN_JOB static bool
choose_scope(PhActionCall *call, ScopeChoice *choice, GError **error)
{
    const char *domain = ph_action_text(call, "domain");
    const char *address = ph_action_text(call, "account");
    bool node = ph_action_bool(call, "node", false);
    *choice = (ScopeChoice){ .scope = PH_SCOPE_GLOBAL };
    if ((domain != NULL) + (address != NULL) + node > 1) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a setting has one scope at a time");
        return false;
    }
    if (domain != NULL) {
        ph_action_blame(call, "domain");
        g_autoptr(PhDomain) found = ph_action_domain_blocking(call, "domain", error);
        if (found == NULL)
            return false;
        *choice = (ScopeChoice){ .scope = PH_SCOPE_DOMAIN, .id = found->id };
        choice->ids = (PhScopeIds){ .tenant_id = found->tenant_id, .domain_id = found->id };
    }
    if (address != NULL) {
        ph_action_blame(call, "account");
        g_autoptr(PhAccount) account = ph_action_account_blocking(call, "account", error);
        if (account == NULL)
            return false;
        *choice = (ScopeChoice){ .scope = PH_SCOPE_ACCOUNT, .id = account->id };
        choice->ids = (PhScopeIds){ .tenant_id = account->tenant_id,
            .domain_id = account->domain_id,
            .account_id = account->id };
    } else if (node) {
        *choice = (ScopeChoice){ .scope = PH_SCOPE_NODE, .id = PH_SETTINGS_THIS_NODE };
    }
    return true;
}

/* As it stands in the rows. */
static char *
scope_id_text(const ScopeChoice *choice)
{
    if (choice->scope == PH_SCOPE_GLOBAL)
        return g_strdup("");
    if (choice->scope == PH_SCOPE_NODE)
        return g_strdup(ph_configuration_node_name());
    return g_strdup_printf("%" G_GINT64_FORMAT, choice->id);
}

/* The version of what is stored for this key and scope, 0 when nothing is; that of all settings. */
PH_IN_JOB static bool
stored_version(PhActionCall *call, const char *key, const ScopeChoice *choice, int64_t *version_out,
    int64_t *all_out, GError **error)
{
    g_autoptr(GPtrArray) rows =
        ph_stored_settings_blocking(ph_action_deadline_us(call), all_out, error);
    if (rows == NULL)
        return false;
    g_autofree char *id = scope_id_text(choice);
    *version_out = 0;
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSetting *row = rows->pdata[i];
        if (strcmp(row->key, key) == 0 && row->scope_kind == (int)choice->scope &&
            strcmp(row->scope_id, id) == 0)
            *version_out = row->version;
    }
    return true;
}

/* The version of all settings that must still hold when the change is written; -1: any. */
PH_IN_JOB static bool
check_version(PhActionCall *call, const char *key, const ScopeChoice *choice, int64_t *expected_out,
    GError **error)
{
    int64_t wanted = ph_action_int(call, "if_version", -1);
    int64_t version;
    *expected_out = -1;
    if (wanted < 0)
        return true;
    if (!stored_version(call, key, choice, &version, expected_out, error))
        return false;
    if (version == wanted)
        return true;
    ph_action_blame(call, "value");
    g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "\"%s\" was changed meanwhile", key);
    return false;
}

PH_IN_JOB static bool
change_setting(PhActionCall *call, const char *key, const ScopeChoice *choice, const char *value,
    GError **error)
{
    g_autofree char *id = scope_id_text(choice);
    const PhSettingChange change = {
        .key = key,
        .scope_kind = (int)choice->scope,
        .scope_id = id,
        .value = value,
    };
    int64_t version;
    return check_version(call, key, choice, &version, error) &&
           ph_stored_settings_change_blocking(&change, 1, ph_action_actor(call), version,
               ph_action_deadline_us(call), &version, error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
config_set(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    g_autofree char *canonical = NULL;
    const char *key = ph_action_text(call, "key");
    if (!choose_scope(call, &choice, error))
        return false;
    ph_action_blame(call, ph_settings_row(key) != NULL ? "value" : "key");
    return ph_settings_check(key, choice.scope, ph_action_text(call, "value"), &canonical, error) &&
           change_setting(call, key, &choice, canonical, error);
}

static const PhSettingRow *
find_row(PhActionCall *call, GError **error)
{
    const char *key = ph_action_text(call, "key");
    const PhSettingRow *row = ph_settings_row(key);
    if (row == NULL)
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no setting \"%s\"", key);
    return row;
}

static bool
config_unset(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    const PhSettingRow *row = find_row(call, error);
    return row != NULL && choose_scope(call, &choice, error) &&
           change_setting(call, row->key, &choice, NULL, error);
}

static bool
is_set(const GPtrArray *values, const char *key, const ScopeChoice *choice)
{
    for (guint i = 0; i < values->len; i++) {
        const PhSettingValue *value = values->pdata[i];
        if (value->scope == choice->scope && value->scope_id == choice->id &&
            strcmp(value->key, key) == 0)
            return true;
    }
    return false;
}

static void
answer_setting(PhActionCall *call, const PhSettingRow *row, const PhSettings *settings,
    const GPtrArray *values, const ScopeChoice *choice)
{
    static const char *const types[] = {
        [PH_SETTING_BOOL] = "bool",
        [PH_SETTING_INT] = "int",
        [PH_SETTING_SIZE] = "size",
        [PH_SETTING_TIME] = "time",
        [PH_SETTING_TEXT] = "text",
        [PH_SETTING_CHOICE] = "choice",
        [PH_SETTING_LIST] = "list",
    };
    g_autoptr(GString) scopes = g_string_new(NULL);
    for (unsigned scope = PH_SCOPE_GLOBAL; scope <= PH_SCOPE_ACCOUNT; scope <<= 1)
        if ((row->scopes & scope) != 0)
            g_string_append_printf(
                scopes, "%s%s", scopes->len > 0 ? " " : "", ph_scope_name((PhScope)scope));
    ph_answer_text(call, "key", row->key);
    ph_answer_text(call, "value", ph_settings_text(settings, row->key, &choice->ids));
    ph_answer_text(call, "default", row->default_value);
    ph_answer_bool(call, "set", is_set(values, row->key, choice));
    ph_answer_text(call, "type", types[row->type]);
    if (row->type != PH_SETTING_BOOL && row->type != PH_SETTING_CHOICE) {
        ph_answer_int(call, "min", row->min);
        ph_answer_int(call, "max", row->max);
    }
    ph_answer_text(call, "choices", row->choices);
    ph_answer_text(call, "scopes", scopes->str);
    ph_answer_text(call, "help", row->help);
}

/* Who changed it last in this scope; nothing when it was never changed. */
PH_IN_JOB static void
answer_last_change(PhActionCall *call, const PhSettingRow *row, const ScopeChoice *choice)
{
    g_autofree char *id = scope_id_text(choice);
    g_autoptr(GError) away = NULL;
    g_autoptr(GPtrArray) changes = ph_stored_setting_history_blocking(
        row->key, PH_LIST_LIMIT_MAX, ph_action_deadline_us(call), &away);
    int64_t version;
    int64_t all;
    if (changes == NULL || !stored_version(call, row->key, choice, &version, &all, &away))
        return;
    ph_answer_int(call, "version", version);
    for (guint i = 0; i < changes->len; i++) {
        const PhStoredSettingChange *change = changes->pdata[i];
        if (change->scope_kind != (int)choice->scope || strcmp(change->scope_id, id) != 0)
            continue;
        ph_answer_time(call, "changed", change->changed_us);
        ph_answer_text(call, "by", change->changed_by);
        return;
    }
}

static bool
config_get(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    const PhSettingRow *row = find_row(call, error);
    if (row == NULL || !choose_scope(call, &choice, error))
        return false;
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_autoptr(GPtrArray) values = ph_settings_values();
    answer_setting(call, row, settings, values, &choice);
    answer_last_change(call, row, &choice);
    return true;
}

static bool
belongs_to(const char *key, const char *plugin)
{
    size_t length = strlen(plugin);
    return strncmp(key, plugin, length) == 0 && key[length] == '.';
}

static bool
config_list(PhActionCall *call, GError **error)
{
    (void)error;
    const char *filter = ph_action_text(call, "filter");
    const char *plugin = ph_action_text(call, "plugin");
    const char *after = ph_action_text(call, "after");
    const ScopeChoice global = { .scope = PH_SCOPE_GLOBAL };
    const char *last = NULL;
    unsigned n = 0;
    g_autoptr(GPtrArray) rows = ph_settings_rows();
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_autoptr(GPtrArray) values = ph_settings_values();
    for (guint i = 0; i < rows->len; i++) {
        const PhSettingRow *row = rows->pdata[i];
        if ((after != NULL && strcmp(row->key, after) <= 0) ||
            (plugin != NULL && !belongs_to(row->key, plugin)) ||
            (filter != NULL && strstr(row->key, filter) == NULL &&
                strstr(row->help, filter) == NULL) ||
            (ph_action_bool(call, "changed", false) && !is_set(values, row->key, &global)))
            continue;
        if (n++ == ph_action_limit(call)) {
            ph_answer_next(call, last);
            break;
        }
        ph_answer_item(call);
        answer_setting(call, row, settings, values, &global);
        last = row->key;
    }
    return true;
}

static bool
config_history(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) rows = ph_stored_setting_history_blocking(
        ph_action_text(call, "key"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (rows == NULL)
        return false;
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSettingChange *change = rows->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "version", change->version);
        ph_answer_text(call, "key", change->key);
        ph_answer_text(call, "scope", ph_scope_name((PhScope)change->scope_kind));
        ph_answer_text(call, "value", change->value);
        ph_answer_time(call, "changed", change->changed_us);
        ph_answer_text(call, "by", change->changed_by);
    }
    return true;
}

static const PhArgumentRow config_document_arguments[] = {
    { "document", PH_ARGUMENT_DOCUMENT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "as export writes it", NULL, 0, 0 },
    { 0 },
};

static bool
config_export(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int64_t version;
    g_autoptr(GPtrArray) rows =
        ph_stored_settings_blocking(ph_action_deadline_us(call), &version, error);
    if (rows == NULL)
        return false;
    g_autofree char *text = ph_settings_document_format(rows, version);
    ph_answer_text(call, "text", text);
    return true;
}

static const char *
stored_value(const GPtrArray *rows, const PhSettingChange *change)
{
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSetting *row = rows->pdata[i];
        if (strcmp(row->key, change->key) == 0 && row->scope_kind == change->scope_kind &&
            strcmp(row->scope_id, change->scope_id) == 0)
            return row->value;
    }
    return "(unset)";
}

/* What a document would change; with `apply`, as one version or not at all. */
PH_IN_JOB static bool
run_document(PhActionCall *call, bool apply, GError **error)
{
    int64_t version;
    g_autoptr(GPtrArray) document =
        ph_settings_document_parse(ph_action_text(call, "document"), error);
    g_autoptr(GPtrArray) rows =
        document != NULL ? ph_stored_settings_blocking(ph_action_deadline_us(call), &version, error)
                         : NULL;
    if (rows == NULL)
        return false;
    g_autoptr(GArray) changes = ph_settings_document_changes(rows, document);
    for (guint i = 0; i < changes->len; i++) {
        const PhSettingChange *change = &g_array_index(changes, PhSettingChange, i);
        ph_answer_item(call);
        ph_answer_text(call, "key", change->key);
        if (change->scope_id[0] != '\0')
            ph_answer_text(call, "node", change->scope_id);
        ph_answer_text(call, "from", stored_value(rows, change));
        ph_answer_text(call, "to", change->value != NULL ? change->value : "(unset)");
    }
    if (!apply || changes->len == 0)
        return true;
    return ph_stored_settings_change_blocking((const PhSettingChange *)(void *)changes->data,
               changes->len, ph_action_actor(call), version, ph_action_deadline_us(call), &version,
               error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
config_diff(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return run_document(call, false, error);
}

static bool
config_apply(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return run_document(call, true, error);
}

// clang-format off
const PhActionRow ph_setting_actions[] = {
    { "config.list", PH_ROLE_OPERATOR, 0, config_list_arguments, config_list_answers, config_list, "GET /settings", NULL, "the settings, as they hold in the global scope" },
    { "config.get", PH_ROLE_OPERATOR, 0, config_key_arguments, config_answers, config_get, "GET /settings/{key}", NULL, "a setting as it holds in a scope" },
    { "config.set", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_set_arguments, NULL, config_set, "PUT /settings/{key}", "config.get", "change a setting, at once and on every node" },
    { "config.unset", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_unset_arguments, NULL, config_unset, "DELETE /settings/{key}", "config.get", "go back to the wider scope or the default" },
    { "config.history", PH_ROLE_OPERATOR, 0, config_history_arguments, config_history_answers, config_history, "GET /setting-history", NULL, "who changed what, newest first" },
    { "config.export", PH_ROLE_OPERATOR, 0, NULL, text_answers, config_export, "GET /settings-document", NULL, "everything that is set, as a document" },
    { "config.diff", PH_ROLE_OPERATOR, 0, config_document_arguments, config_change_answers, config_diff, "POST /settings-document/diff", NULL, "what a document would change" },
    { "config.apply", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_document_arguments, config_change_answers, config_apply, "PUT /settings-document", NULL, "make the settings what a document says, all of them or none" },
    { 0 },
};
// clang-format on
