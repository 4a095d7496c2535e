/* core-actions.c - what the core itself can be asked to do */
#include "identity/login.h"
#include "identity/password.h"
#include "management/actions.h"
#include "management/settings-document.h"
#include "management/settings-sync.h"
#include "posthouse/account.h"
#include "posthouse/mailbox.h"
#include "posthouse/metrics.h"
#include "runtime/connection.h"
#include "runtime/keeper-channel.h"
#include "runtime/log.h"
#include "runtime/plugin-loader.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/settings.h"
#include "store/store.h"

#include <config.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

enum { LIST_LIMIT = 100, LIST_LIMIT_MAX = 1000 };

static unsigned
limit_of(const PhActionCall *call)
{
    return (unsigned)CLAMP(ph_action_int(call, "limit", LIST_LIMIT), 1, LIST_LIMIT_MAX);
}

#define LIST_ARGUMENTS \
    { "filter", PH_ARGUMENT_TEXT, 0, "only what contains this text" }, \
        { "after", PH_ARGUMENT_TEXT, 0, "go on behind this, as the last answer said" }, \
    { \
        "limit", PH_ARGUMENT_INT, 0, "items at most, 1 to 1000 (100)" \
    }

/* -- domains ----------------------------------------------------------------------------------- */

static const PhArgumentRow domain_name_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the domain" },
    { 0 },
};

static const PhArgumentRow list_arguments[] = { LIST_ARGUMENTS, { 0 } };

static bool
domain_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int64_t id;
    if (!ph_domain_add_blocking(
            ph_action_text(call, "name"), 0, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return true;
}

static bool
domain_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_domain_remove_blocking(
        ph_action_text(call, "name"), ph_action_deadline_us(call), error);
}

static bool
domain_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_domain_list_blocking(ph_action_text(call, "filter"),
        ph_action_text(call, "after"), limit_of(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhDomain *domain = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", domain->name);
        ph_answer_int(call, "accounts", domain->n_accounts);
        ph_answer_time(call, "created", domain->created_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* -- accounts ---------------------------------------------------------------------------------- */

static const PhArgumentRow user_add_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address, which is the login" },
    { "password", PH_ARGUMENT_SECRET, 0, "without one nobody can log in" },
    { "name", PH_ARGUMENT_TEXT, 0, "the name to show" },
    { "quota_bytes", PH_ARGUMENT_INT, 0, "0: no limit" },
    { 0 },
};

static const PhArgumentRow address_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { 0 },
};

static const PhArgumentRow user_list_arguments[] = {
    { "domain", PH_ARGUMENT_TEXT, 0, "only of this domain" },
    LIST_ARGUMENTS,
    { 0 },
};

static const PhArgumentRow passwd_arguments[] = {
    { "login", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "a mail address, or an operator's name" },
    { "password", PH_ARGUMENT_SECRET, PH_ARGUMENT_REQUIRED, "the new one" },
    { 0 },
};

static const PhArgumentRow quota_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { "quota_bytes", PH_ARGUMENT_INT, 0, "0: no limit" },
    { "quota_messages", PH_ARGUMENT_INT, 0, "0: no limit" },
    { 0 },
};

static const char *
account_state_name(PhAccountState state)
{
    static const char *const names[] = {
        [PH_ACCOUNT_ACTIVE] = "active",
        [PH_ACCOUNT_SUSPENDED] = "suspended",
        [PH_ACCOUNT_CLOSING] = "closing",
        [PH_ACCOUNT_ERASED] = "erased",
    };
    return names[state];
}

/* Null and true: no password was given. */
PH_IN_JOB static bool
hash_given(PhActionCall *call, char **verifier_out, GError **error)
{
    const PhSecret *password = ph_action_secret(call, "password");
    *verifier_out = NULL;
    if (password == NULL)
        return true;
    if (ph_secret_length(password) < 8) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"password\" needs at least 8 characters");
        return false;
    }
    *verifier_out = ph_password_hash_blocking(password, error);
    return *verifier_out != NULL;
}

static bool
user_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autofree char *verifier = NULL;
    int64_t id;
    if (!hash_given(call, &verifier, error) ||
        !ph_account_add_blocking(ph_action_text(call, "address"), ph_action_text(call, "name"),
            verifier, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    int64_t quota = ph_action_int(call, "quota_bytes", 0);
    return quota == 0 ||
           ph_account_set_quota_blocking(id, quota, 0, ph_action_deadline_us(call), error);
}

PH_IN_JOB static bool
set_state(PhActionCall *call, PhAccountState state, GError **error)
{
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    return account != NULL &&
           ph_account_set_state_blocking(account->id, state, ph_action_deadline_us(call), error);
}

static bool
user_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_CLOSING, error);
}

static bool
user_suspend(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_SUSPENDED, error);
}

static bool
user_activate(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_ACTIVE, error);
}

static bool
user_erase(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *address = ph_action_text(call, "address");
    g_autoptr(PhAccount) account =
        ph_account_find_blocking(address, ph_action_deadline_us(call), error);
    if (account == NULL)
        return false;
    if (account->state != PH_ACCOUNT_CLOSING) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "\"%s\" is not closed; close it first: posthouse user remove", address);
        return false;
    }
    return ph_account_set_state_blocking(
        account->id, PH_ACCOUNT_ERASED, ph_action_deadline_us(call), error);
}

static bool
user_quota(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    if (account == NULL)
        return false;
    return ph_account_set_quota_blocking(account->id,
        ph_action_int(call, "quota_bytes", account->quota_bytes),
        ph_action_int(call, "quota_messages", account->quota_messages), ph_action_deadline_us(call),
        error);
}

static bool
user_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page =
        ph_account_list_blocking(ph_action_text(call, "domain"), ph_action_text(call, "filter"),
            ph_action_text(call, "after"), limit_of(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhAccount *account = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "address", account->address);
        ph_answer_text(call, "state", account_state_name(account->state));
        ph_answer_int(call, "messages", account->used_messages);
        ph_answer_int(call, "bytes", account->used_bytes);
        ph_answer_int(call, "quota_bytes", account->quota_bytes);
        ph_answer_time(call, "created", account->created_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

static bool
user_passwd(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autofree char *verifier = NULL;
    return hash_given(call, &verifier, error) &&
           ph_password_set_blocking(
               ph_action_text(call, "login"), verifier, ph_action_deadline_us(call), error);
}

/* -- deleted mail ------------------------------------------------------------------------------ */

static const PhArgumentRow deleted_list_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { "after", PH_ARGUMENT_TEXT, 0, "go on behind this, as the last answer said" },
    { "limit", PH_ARGUMENT_INT, 0, "items at most, 1 to 1000 (100)" },
    { 0 },
};

static const PhArgumentRow deleted_restore_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { "message", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "as the list says" },
    { 0 },
};

static bool
deleted_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    g_autoptr(PhPage) page =
        account != NULL ? ph_expunged_list_blocking(account->id, ph_action_text(call, "after"),
                              limit_of(call), ph_action_deadline_us(call), error)
                        : NULL;
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhExpunged *expunged = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "message", expunged->message_id);
        ph_answer_text(call, "mailbox", expunged->mailbox_name);
        ph_answer_int(call, "bytes", expunged->size_bytes);
        ph_answer_time(call, "deleted", expunged->expunged_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

static bool
deleted_restore(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    return account != NULL &&
           ph_expunged_restore_blocking(
               account->id, ph_action_int(call, "message", 0), ph_action_deadline_us(call), error);
}

/* -- app passwords ----------------------------------------------------------------------------- */

static const PhArgumentRow app_add_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { "label", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "what it is for, such as the device" },
    { "days", PH_ARGUMENT_INT, 0, "ends after so many days (never)" },
    { 0 },
};

static const PhArgumentRow app_remove_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the mail address" },
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says" },
    { 0 },
};

static bool
app_password_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    g_autofree char *verifier = NULL;
    g_autoptr(PhSecret) password =
        account != NULL ? ph_app_password_new_blocking(&verifier, error) : NULL;
    if (password == NULL)
        return false;
    int64_t days = ph_action_int(call, "days", 0);
    int64_t expires_us =
        days > 0 ? ph_time_now_us() + days * 24 * 3600 * G_USEC_PER_SEC : INT64_MAX;
    int64_t id;
    if (!ph_app_password_add_blocking(account->id, ph_action_text(call, "label"), verifier,
            expires_us, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    /* Shown this once; only its verifier is kept. */
    ph_answer_text(call, "password", ph_secret_bytes(password));
    return true;
}

static bool
app_password_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    return account != NULL && ph_app_password_remove_blocking(account->id,
                                  ph_action_int(call, "id", 0), ph_action_deadline_us(call), error);
}

static bool
app_password_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhLoginRecord) record = ph_login_record_blocking(
        ph_action_text(call, "address"), ph_action_deadline_us(call), error);
    if (record == NULL)
        return false;
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        if (credential->kind != PH_CREDENTIAL_APP)
            continue;
        ph_answer_item(call);
        ph_answer_int(call, "id", credential->id);
        ph_answer_text(call, "label", credential->label);
        ph_answer_time(call, "created", credential->created_us);
        ph_answer_time(call, "last_used", credential->last_used_us);
        ph_answer_time(call, "expires", credential->expires_us);
    }
    return true;
}

/* -- operators --------------------------------------------------------------------------------- */

static const PhArgumentRow operator_add_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "a login without \"@\"" },
    { "password", PH_ARGUMENT_SECRET, PH_ARGUMENT_REQUIRED, "at least 8 characters" },
    { 0 },
};

static const PhArgumentRow operator_name_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the operator" },
    { 0 },
};

static bool
operator_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autofree char *verifier = NULL;
    return hash_given(call, &verifier, error) &&
           ph_operator_add_blocking(
               ph_action_text(call, "name"), verifier, ph_action_deadline_us(call), error);
}

static bool
operator_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_operator_remove_blocking(
        ph_action_text(call, "name"), ph_action_deadline_us(call), error);
}

/* -- aliases ----------------------------------------------------------------------------------- */

static const PhArgumentRow alias_arguments[] = {
    { "address", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "the address that people write to" },
    { "target", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "where its mail goes" },
    { 0 },
};

static bool
alias_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_alias_add_blocking(ph_action_text(call, "address"), ph_action_text(call, "target"),
        ph_action_deadline_us(call), error);
}

static bool
alias_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_alias_remove_blocking(ph_action_text(call, "address"), ph_action_text(call, "target"),
        ph_action_deadline_us(call), error);
}

static bool
alias_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page =
        ph_alias_list_blocking(ph_action_text(call, "domain"), ph_action_text(call, "filter"),
            ph_action_text(call, "after"), limit_of(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhAlias *alias = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "address", alias->address);
        ph_answer_text(call, "target", alias->target);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* -- settings ---------------------------------------------------------------------------------- */

#define SCOPE_ARGUMENTS \
    { "domain", PH_ARGUMENT_TEXT, 0, "for this domain" }, \
        { "account", PH_ARGUMENT_TEXT, 0, "for this mail address" }, \
    { \
        "node", PH_ARGUMENT_BOOL, 0, "for this node" \
    }

static const PhArgumentRow config_key_arguments[] = {
    { "key", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the setting" },
    SCOPE_ARGUMENTS,
    { 0 },
};

static const PhArgumentRow config_set_arguments[] = {
    { "key", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the setting" },
    { "value", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the new value" },
    SCOPE_ARGUMENTS,
    { 0 },
};

static const PhArgumentRow config_history_arguments[] = {
    { "key", PH_ARGUMENT_TEXT, PH_ARGUMENT_POSITIONAL, "only this setting" },
    { "limit", PH_ARGUMENT_INT, 0, "items at most, 1 to 1000 (100)" },
    { 0 },
};

typedef struct ScopeChoice {
    PhScope scope;
    int64_t id;
    PhScopeIds ids; /* for a look-up from that place */
} ScopeChoice;

PH_IN_JOB static bool
choose_domain(PhActionCall *call, const char *name, ScopeChoice *choice, GError **error)
{
    g_autoptr(PhPage) page =
        ph_domain_list_blocking(name, NULL, LIST_LIMIT_MAX, ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhDomain *domain = page->items->pdata[i];
        if (g_ascii_strcasecmp(domain->name, name) != 0 &&
            g_ascii_strcasecmp(domain->name_ascii, name) != 0)
            continue;
        *choice = (ScopeChoice){ .scope = PH_SCOPE_DOMAIN, .id = domain->id };
        choice->ids = (PhScopeIds){ .tenant_id = domain->tenant_id, .domain_id = domain->id };
        return true;
    }
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no domain \"%s\"", name);
    return false;
}

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
    if (domain != NULL)
        return choose_domain(call, domain, choice, error);
    if (address != NULL) {
        g_autoptr(PhAccount) account =
            ph_account_find_blocking(address, ph_action_deadline_us(call), error);
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
        return g_strdup(ph_settings_node_name());
    return g_strdup_printf("%" G_GINT64_FORMAT, choice->id);
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
    return ph_stored_settings_change_blocking(&change, 1, ph_action_actor(call), -1,
               ph_action_deadline_us(call), &version, error) &&
           ph_settings_sync_blocking(ph_action_deadline_us(call), error);
}

static bool
config_set(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    g_autofree char *canonical = NULL;
    const char *key = ph_action_text(call, "key");
    return choose_scope(call, &choice, error) &&
           ph_settings_check(key, choice.scope, ph_action_text(call, "value"), &canonical, error) &&
           change_setting(call, key, &choice, canonical, error);
}

static bool
config_unset(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    const char *key = ph_action_text(call, "key");
    if (ph_settings_row(key) == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no setting \"%s\"", key);
        return false;
    }
    return choose_scope(call, &choice, error) && change_setting(call, key, &choice, NULL, error);
}

static bool
config_get(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    ScopeChoice choice;
    const char *key = ph_action_text(call, "key");
    const PhSettingRow *row = ph_settings_row(key);
    if (row == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no setting \"%s\"", key);
        return false;
    }
    if (!choose_scope(call, &choice, error))
        return false;
    g_autoptr(PhSettings) settings = ph_settings_current();
    ph_answer_text(call, "value", ph_settings_text(settings, key, &choice.ids));
    ph_answer_text(call, "default", row->default_value);
    ph_answer_text(call, "help", row->help);
    return true;
}

static bool
config_list(PhActionCall *call, GError **error)
{
    (void)error;
    const char *filter = ph_action_text(call, "filter");
    g_autoptr(GPtrArray) rows = ph_settings_rows();
    g_autoptr(PhSettings) settings = ph_settings_current();
    for (guint i = 0; i < rows->len; i++) {
        const PhSettingRow *row = rows->pdata[i];
        if (filter != NULL && strstr(row->key, filter) == NULL)
            continue;
        ph_answer_item(call);
        ph_answer_text(call, "key", row->key);
        ph_answer_text(call, "value", ph_settings_text(settings, row->key, NULL));
        ph_answer_text(call, "default", row->default_value);
        ph_answer_text(call, "help", row->help);
    }
    return true;
}

static bool
config_history(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) rows = ph_stored_setting_history_blocking(
        ph_action_text(call, "key"), limit_of(call), ph_action_deadline_us(call), error);
    if (rows == NULL)
        return false;
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSettingChange *change = rows->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "version", change->version);
        ph_answer_text(call, "key", change->key);
        ph_answer_text(call, "scope", ph_scope_name((PhScope)change->scope_kind));
        ph_answer_text(call, "value", change->value != NULL ? change->value : "(unset)");
        ph_answer_time(call, "changed", change->changed_us);
        ph_answer_text(call, "by", change->changed_by);
    }
    return true;
}

static const PhArgumentRow config_document_arguments[] = {
    { "document", PH_ARGUMENT_DOCUMENT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "as export writes it" },
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
           ph_settings_sync_blocking(ph_action_deadline_us(call), error);
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

/* -- plugins ----------------------------------------------------------------------------------- */

static const PhArgumentRow plugin_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the plugin" },
    { "file", PH_ARGUMENT_TEXT, 0, "load it from this file" },
    { 0 },
};

static const PhArgumentRow plugin_stop_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the plugin" },
    { "deadline_s", PH_ARGUMENT_INT, 0, "how long its sessions may go on (30)" },
    { 0 },
};

static bool
plugin_list(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", info->name);
        ph_answer_text(call, "state", ph_plugin_state_name(info->state));
        ph_answer_int(call, "generation", info->generation);
        ph_answer_int(call, "uses", info->uses);
        ph_answer_text(call, "error", info->error);
        ph_answer_text(call, "summary", info->summary);
    }
    return true;
}

static bool
plugin_start(PhActionCall *call, GError **error)
{
    return ph_plugin_start(ph_action_text(call, "name"), ph_action_text(call, "file"), error);
}

static bool
plugin_replace(PhActionCall *call, GError **error)
{
    return ph_plugin_replace(ph_action_text(call, "name"), ph_action_text(call, "file"), error);
}

static bool
plugin_stop(PhActionCall *call, GError **error)
{
    return ph_plugin_stop(
        ph_action_text(call, "name"), ph_action_int(call, "deadline_s", 30) * 1000, error);
}

/* -- sessions ---------------------------------------------------------------------------------- */

static const PhArgumentRow session_arguments[] = {
    { "id", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says" },
    { 0 },
};

static void
collect_sessions(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_list(reactor, data);
}

static bool
session_list(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GPtrArray) infos =
        g_ptr_array_new_with_free_func((GDestroyNotify)ph_session_info_free);
    ph_reactors_call_blocking(collect_sessions, infos);
    for (guint i = 0; i < infos->len; i++) {
        const PhSessionInfo *info = infos->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "id", info->id);
        ph_answer_text(call, "service", info->service);
        ph_answer_text(call, "peer", info->peer);
        ph_answer_bool(call, "tls", info->secure);
        ph_answer_time(call, "since", info->since_us);
        ph_answer_int(call, "bytes_in", info->bytes_in);
        ph_answer_int(call, "bytes_out", info->bytes_out);
        ph_answer_text(call, "activity", info->activity);
    }
    return true;
}

typedef struct Cut {
    const char *id;
    unsigned n;
} Cut;

static void
cut_session(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    Cut *cut = data;
    cut->n += ph_connection_farewell(reactor, NULL, cut->id, PH_FAREWELL_CUT);
}

static bool
session_cut(PhActionCall *call, GError **error)
{
    Cut cut = { .id = ph_action_text(call, "id") };
    ph_reactors_call_blocking(cut_session, &cut);
    if (cut.n > 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no session \"%s\"", cut.id);
    return false;
}

/* -- the whole --------------------------------------------------------------------------------- */

static void
answer_service(const char *name, int port, void *data)
{
    PhActionCall *call = data;
    g_autofree char *field = g_strdup_printf("port.%s", name);
    ph_answer_int(call, field, port);
}

static void
answer_lanes(PhActionCall *call)
{
    for (PhLane lane = 0; lane < PH_N_LANES; lane++) {
        PhLaneState state;
        ph_pool_lane_state(lane, &state);
        g_autofree char *field = g_strdup_printf("lane.%s", ph_lane_name(lane));
        g_autofree char *text = g_strdup_printf("running=%u/%u queued=%u jobs=%" G_GINT64_FORMAT
                                                " waited_ms=%" G_GINT64_FORMAT,
            state.running, state.most, state.queued, state.jobs, state.waited_us / 1000);
        ph_answer_text(call, field, text);
    }
}

static void
answer_plugins(PhActionCall *call)
{
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        g_autofree char *field = g_strdup_printf("plugin.%s.%u", info->name, info->generation);
        g_autofree char *text = g_strdup_printf("%s uses=%d%s%s", ph_plugin_state_name(info->state),
            info->uses, info->error != NULL ? ": " : "", info->error != NULL ? info->error : "");
        ph_answer_text(call, field, text);
    }
}

/* What the allocator has given out and not got back, and what the kernel counts as resident. */
static void
answer_memory(PhActionCall *call)
{
    struct mallinfo2 heap = mallinfo2();
    ph_answer_int(call, "heap_bytes", (int64_t)(heap.uordblks + heap.hblkhd));
    g_autofree char *text = NULL;
    if (!g_file_get_contents("/proc/self/statm", &text, NULL, NULL))
        return;
    const char *resident = strchr(text, ' ');
    if (resident != NULL)
        ph_answer_int(
            call, "resident_bytes", g_ascii_strtoll(resident, NULL, 10) * sysconf(_SC_PAGESIZE));
}

static bool
status(PhActionCall *call, GError **error)
{
    (void)error;
    PhStoreStatus store;
    ph_store_status(&store);
    g_autofree char *keeper = ph_channel_fd() >= 0 ? ph_channel_state(NULL) : NULL;
    ph_answer_text(call, "version", PH_VERSION);
    ph_answer_text(call, "processes", keeper);
    ph_answer_text(call, "database", store.available ? "available" : "away");
    if (store.last_error[0] != '\0')
        ph_answer_text(call, "database_error", store.last_error);
    ph_answer_int(call, "database_version", store.server_version);
    ph_answer_int(call, "schema_version", store.schema_version);
    ph_answer_int(call, "node", store.node_id);
    ph_answer_int(call, "connections", ph_connection_count());
    ph_answer_int(call, "delivered", (int64_t)store.n_delivered);
    ph_answer_int(call, "open_mailboxes", store.n_views);
    answer_memory(call);
    answer_plugins(call);
    ph_plugins_each_service(answer_service, call);
    answer_lanes(call);
    return true;
}

static bool
metrics(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GString) text = g_string_new(NULL);
    ph_metrics_format(text);
    ph_answer_text(call, "text", text->str);
    return true;
}

static const PhArgumentRow log_arguments[] = {
    { "limit", PH_ARGUMENT_INT, 0, "lines at most, 1 to 1000 (100)" },
    { 0 },
};

static bool
log_recent(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GPtrArray) lines = ph_log_recent(limit_of(call));
    for (guint i = 0; i < lines->len; i++) {
        ph_answer_item(call);
        ph_answer_text(call, "line", g_strchomp(lines->pdata[i]));
    }
    return true;
}

static const PhArgumentRow audit_arguments[] = {
    { "actor", PH_ARGUMENT_TEXT, 0, "only what this one did" },
    { "action", PH_ARGUMENT_TEXT, 0, "only this action" },
    { "after", PH_ARGUMENT_TEXT, 0, "go on behind this, as the last answer said" },
    { "limit", PH_ARGUMENT_INT, 0, "items at most, 1 to 1000 (100)" },
    { 0 },
};

static bool
audit_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page =
        ph_audit_list_blocking(ph_action_text(call, "actor"), ph_action_text(call, "action"),
            ph_action_text(call, "after"), limit_of(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhAuditEntry *entry = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_time(call, "at", entry->at_us);
        ph_answer_text(call, "actor", entry->actor);
        ph_answer_text(call, "action", entry->action);
        ph_answer_text(call, "target", entry->target);
        ph_answer_text(call, "outcome", entry->outcome);
        ph_answer_text(call, "detail", entry->detail);
    }
    ph_answer_next(call, page->next);
    return true;
}

// clang-format off
const PhActionRow ph_core_actions[] = {
    {"domain.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, domain_name_arguments, domain_add, "take mail for a domain"},
    {"domain.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, domain_name_arguments, domain_remove, "give up a domain that has no accounts or aliases"},
    {"domain.list", PH_ROLE_OPERATOR, 0, list_arguments, domain_list, "the domains"},
    {"user.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, user_add_arguments, user_add, "make an account"},
    {"user.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, address_arguments, user_remove, "close an account; its data is kept until it is erased"},
    {"user.erase", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, address_arguments, user_erase, "erase the data of a closed account at once, for good"},
    {"user.suspend", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, address_arguments, user_suspend, "let an account receive, but not log in"},
    {"user.activate", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, address_arguments, user_activate, "open a suspended or closing account again"},
    {"user.quota", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, quota_arguments, user_quota, "limit what an account may hold"},
    {"user.list", PH_ROLE_OPERATOR, 0, user_list_arguments, user_list, "the accounts"},
    {"user.passwd", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, passwd_arguments, user_passwd, "set a password"},
    {"deleted.list", PH_ROLE_OPERATOR, 0, deleted_list_arguments, deleted_list, "mail of an account that was deleted and can be brought back"},
    {"deleted.restore", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, deleted_restore_arguments, deleted_restore, "bring one back into its mailbox"},
    {"app-password.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, app_add_arguments, app_password_add, "make a password for one device; it is shown once"},
    {"app-password.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, app_remove_arguments, app_password_remove, "end one"},
    {"app-password.list", PH_ROLE_OPERATOR, 0, address_arguments, app_password_list, "those of an account"},
    {"operator.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, operator_add_arguments, operator_add, "make an operator of this installation"},
    {"operator.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, operator_name_arguments, operator_remove, "end one"},
    {"alias.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, alias_arguments, alias_add, "send mail for an address somewhere else"},
    {"alias.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, alias_arguments, alias_remove, "end that"},
    {"alias.list", PH_ROLE_OPERATOR, 0, user_list_arguments, alias_list, "the aliases"},
    {"config.get", PH_ROLE_OPERATOR, 0, config_key_arguments, config_get, "a setting as it holds in a scope"},
    {"config.set", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_set_arguments, config_set, "change a setting, at once and on every node"},
    {"config.unset", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_key_arguments, config_unset, "go back to the wider scope or the default"},
    {"config.list", PH_ROLE_OPERATOR, 0, list_arguments, config_list, "all settings"},
    {"config.history", PH_ROLE_OPERATOR, 0, config_history_arguments, config_history, "who changed what, newest first"},
    {"config.export", PH_ROLE_OPERATOR, 0, NULL, config_export, "everything that is set, as a document"},
    {"config.diff", PH_ROLE_OPERATOR, 0, config_document_arguments, config_diff, "what a document would change"},
    {"config.apply", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, config_document_arguments, config_apply, "make the settings what a document says, all of them or none"},
    {"plugin.list", PH_ROLE_OPERATOR, 0, NULL, plugin_list, "the plugins and how they are"},
    {"plugin.start", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_arguments, plugin_start, "load and start one"},
    {"plugin.replace", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_arguments, plugin_replace, "load its file again; sessions go on in the old one"},
    {"plugin.stop", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_stop_arguments, plugin_stop, "end its sessions and unload it"},
    {"session.list", PH_ROLE_OPERATOR, 0, NULL, session_list, "who is connected"},
    {"session.cut", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, session_arguments, session_cut, "end a session"},
    {"server.status", PH_ROLE_OPERATOR, 0, NULL, status, "how the server is"},
    {"server.metrics", PH_ROLE_OPERATOR, 0, NULL, metrics, "counters, in the form of OpenMetrics"},
    {"server.log", PH_ROLE_OPERATOR, 0, log_arguments, log_recent, "the newest lines of the log"},
    {"audit.list", PH_ROLE_OPERATOR, 0, audit_arguments, audit_list, "what was done by whom, newest first"},
    {0},
};
// clang-format on
