/* operator-actions.c - who may manage: operators, tenants' administrators, API keys */
#include "management/actions.h"
#include "management/console.h"
#include "posthouse/settings.h"
#include "runtime/plugin-loader.h"
#include "store/web.h"

#include <string.h>

/* -- operators --------------------------------------------------------------------------------- */

static const PhArgumentRow list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };

static const PhArgumentRow operator_add_arguments[] = {
    PH_NEEDED("name", "a login without \"@\""),
    { "password", PH_ARGUMENT_SECRET, PH_ARGUMENT_REQUIRED, "at least 8 characters", NULL, 0,
        1024 },
    PH_OPTION("tenant", "an administrator of this tenant only"),
    { 0 },
};

static const PhArgumentRow operator_passwd_arguments[] = {
    PH_NEEDED("name", "the operator"),
    { "password", PH_ARGUMENT_SECRET, PH_ARGUMENT_REQUIRED, "the new one", NULL, 0, 1024 },
    { 0 },
};

static const PhArgumentRow operator_arguments[] = { PH_NEEDED("name", "the operator"), { 0 } };

static const PhAnswerRow operator_list_answers[] = {
    PH_ITEM("name", TEXT, "the login"),
    PH_ITEM("tenant", TEXT, "an administrator of this tenant only"),
    PH_ITEM("created", TIME, "when it was made"),
    { 0 },
};

static bool
operator_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_operator_list_blocking(ph_action_text(call, "filter"),
        ph_action_text(call, "after"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhOperator *operator= page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", operator->name);
        if (operator->tenant_id != 0)
            ph_answer_text(call, "tenant", operator->tenant);
        ph_answer_time(call, "created", operator->created_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* Who manages the installation's own tenant manages the whole installation. */
PH_IN_JOB static bool
find_customer(PhActionCall *call, const char *name, int64_t *tenant_id_out, GError **error)
{
    if (!ph_tenant_find_blocking(name, ph_action_deadline_us(call), tenant_id_out, error))
        return false;
    if (*tenant_id_out != 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
        "\"%s\" is the installation itself: leave the tenant out", name);
    return false;
}

static bool
operator_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *tenant = ph_action_text(call, "tenant");
    int64_t tenant_id = 0;
    if (tenant != NULL) {
        ph_action_blame(call, "tenant");
        if (!find_customer(call, tenant, &tenant_id, error))
            return false;
        ph_action_blame(call, "name");
    }
    g_autofree char *verifier =
        ph_action_hash_blocking(call, ph_action_secret(call, "password"), error);
    return verifier != NULL && ph_operator_add_blocking(ph_action_text(call, "name"), verifier,
                                   tenant_id, ph_action_deadline_us(call), error);
}

static bool
operator_passwd(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *name = ph_action_text(call, "name");
    if (strchr(name, '@') != NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no operator \"%s\"", name);
        return false;
    }
    g_autofree char *verifier =
        ph_action_hash_blocking(call, ph_action_secret(call, "password"), error);
    return verifier != NULL &&
           ph_password_set_blocking(name, verifier, ph_action_deadline_us(call), error);
}

static bool
operator_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *name = ph_action_text(call, "name");
    if (strcmp(name, ph_action_actor(call)) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "you cannot remove yourself");
        return false;
    }
    return ph_operator_remove_blocking(name, ph_action_deadline_us(call), error);
}

/* -- API keys ---------------------------------------------------------------------------------- */

static const PhArgumentRow key_add_arguments[] = {
    { "label", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "what uses it",
        NULL, 0, 100 },
    { "days", PH_ARGUMENT_INT, 0, "ends after so many days (never)", NULL, 1, 36500 },
    PH_OPTION("tenant", "may do what an administrator of this tenant may"),
    { 0 },
};

static const PhArgumentRow key_remove_arguments[] = {
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says",
        NULL, 0, 0 },
    { 0 },
};

static const PhAnswerRow key_add_answers[] = {
    PH_FIELD("id", INT, "its number"),
    PH_FIELD("key", TEXT, "the key: it is not shown again"),
    { 0 },
};

static const PhAnswerRow key_list_answers[] = {
    PH_ITEM("id", INT, "its number"),
    PH_ITEM("label", TEXT, "what uses it"),
    PH_ITEM("role", TEXT, "operator, or tenant"),
    PH_ITEM("by", TEXT, "who made it"),
    PH_ITEM("created", TIME, "when it was made"),
    PH_ITEM("last_used", TIME, "when it was last used"),
    PH_ITEM("expires", TIME, "when it ends"),
    { 0 },
};

static bool
key_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_api_key_list_blocking(ph_action_text(call, "filter"),
        ph_action_text(call, "after"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhApiKey *key = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "id", key->id);
        ph_answer_text(call, "label", key->label);
        ph_answer_text(call, "role", ph_role_name((PhRole)key->role));
        ph_answer_text(call, "by", key->created_by);
        ph_answer_time(call, "created", key->created_us);
        ph_answer_time(call, "last_used", key->used_us);
        ph_answer_time(call, "expires", key->expires_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

static bool
key_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *tenant = ph_action_text(call, "tenant");
    int64_t days = ph_action_int(call, "days", 0);
    g_autoptr(PhApiKey) key = g_new(PhApiKey, 1);
    *key = (PhApiKey){
        .label = g_strdup(ph_action_text(call, "label")),
        .role = tenant != NULL ? PH_ROLE_TENANT : PH_ROLE_OPERATOR,
        .created_by = g_strdup(ph_action_actor(call)),
        .expires_us =
            days > 0 ? ph_time_now_us() + days * INT64_C(86400) * G_USEC_PER_SEC : INT64_MAX,
    };
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    if (tenant != NULL) {
        ph_action_blame(call, "tenant");
        if (!find_customer(call, tenant, &key->tenant_id, error))
            return false;
    }
    int64_t id;
    g_autofree char *text = ph_token_new(hash);
    if (!ph_api_key_add_blocking(hash, key, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    ph_answer_text(call, "key", text);
    return true;
}

static bool
key_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_api_key_remove_blocking(
        ph_action_int(call, "id", 0), ph_action_deadline_us(call), error);
}

/* -- one-time logins --------------------------------------------------------------------------- */

static const PhAnswerRow link_answers[] = {
    PH_FIELD("url", TEXT, "what to open in a browser"),
    PH_FIELD("expires", TIME, "until when; it works once"),
    { 0 },
};

static void
find_port(const char *name, int port, void *data)
{
    if (strcmp(name, "console") == 0)
        *(int *)data = port;
}

static bool
console_link(PhActionCall *call, GError **error)
{
    int64_t expires_us;
    int port = 0;
    /* Its session outlives the password and even the operator: whoever is on the server may. */
    if (!ph_action_is_local(call)) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED,
            "a link is made on the server itself: posthouse console-link");
        return false;
    }
    ph_plugins_each_service(find_port, &port);
    if (port == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE,
            "the console is not served: posthouse plugin start admin");
        return false;
    }
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_autofree char *token = ph_console_link_new(ph_action_actor(call), &expires_us);
    g_autofree char *url = g_strdup_printf("https://%s:%d%s#/link/%s",
        ph_settings_text(settings, "server.host_name", NULL), port,
        ph_settings_text(settings, "admin.base_path", NULL), token);
    ph_answer_text(call, "url", url);
    ph_answer_time(call, "expires", expires_us);
    return true;
}

// clang-format off
const PhActionRow ph_operator_actions[] = {
    { "operator.list", PH_ROLE_OPERATOR, 0, list_arguments, operator_list_answers, operator_list, "GET /operators", NULL, "who may manage this installation" },
    { "operator.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, operator_add_arguments, NULL, operator_add, "POST /operators", NULL, "make an operator, or an administrator of one tenant" },
    { "operator.passwd", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, operator_passwd_arguments, NULL, operator_passwd, "PUT /operators/{name}/password", NULL, "set an operator's password" },
    { "operator.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, operator_arguments, NULL, operator_remove, "DELETE /operators/{name}", NULL, "end one" },
    { "api-key.list", PH_ROLE_OPERATOR, 0, list_arguments, key_list_answers, key_list, "GET /api-keys", NULL, "what programs may call the API" },
    { "api-key.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, key_add_arguments, key_add_answers, key_add, "POST /api-keys", NULL, "make a key for a program; it is shown once" },
    { "api-key.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, key_remove_arguments, NULL, key_remove, "DELETE /api-keys/{id}", NULL, "end one" },
    { "console.link", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, NULL, link_answers, console_link, NULL, NULL, "a login to the console that works once, also while the database is away" },
    { 0 },
};
// clang-format on
