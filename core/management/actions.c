/* actions.c - from a JSON request to a row's function and back */
#include "management/actions.h"

#include "posthouse/log.h"
#include "posthouse/message-address.h"
#include "runtime/owner.h"
#include "runtime/plugin-loader.h"
#include "store/store.h"

#include <string.h>

enum { ACTION_DEADLINE_S = 30 };

struct PhActionCall {
    const PhActionRow *row;
    const PhCaller *caller;
    const char *blamed; /* an argument's name, or null */
    bool writes_what_it_read;
    int64_t about_tenant_id; /* for the audit log */
    JsonObject *arguments;   /* may be null */
    GHashTable *secrets;     /* name -> PhSecret, made when asked for */
    int64_t deadline_us;
    JsonObject *answer;
    JsonArray *items;    /* null: no list */
    JsonObject *current; /* where fields go */
};

/* -- for the function -------------------------------------------------------------------------- */

static JsonNode *
argument(const PhActionCall *call, const char *name)
{
    if (call->arguments == NULL || !json_object_has_member(call->arguments, name))
        return NULL;
    return json_object_get_member(call->arguments, name);
}

const char *
ph_action_text(const PhActionCall *call, const char *name)
{
    JsonNode *node = argument(call, name);
    return node != NULL ? json_node_get_string(node) : NULL;
}

int64_t
ph_action_int(const PhActionCall *call, const char *name, int64_t fallback)
{
    JsonNode *node = argument(call, name);
    return node != NULL ? json_node_get_int(node) : fallback;
}

bool
ph_action_bool(const PhActionCall *call, const char *name, bool fallback)
{
    JsonNode *node = argument(call, name);
    return node != NULL ? json_node_get_boolean(node) != 0 : fallback;
}

const PhSecret *
ph_action_secret(const PhActionCall *call, const char *name)
{
    PhSecret *secret = g_hash_table_lookup(call->secrets, name);
    const char *text = ph_action_text(call, name);
    if (secret == NULL && text != NULL) {
        secret = ph_secret_new(text, strlen(text));
        g_hash_table_insert(call->secrets, g_strdup(name), secret);
    }
    return secret;
}

int64_t
ph_action_version(PhActionCall *call, int64_t read)
{
    call->writes_what_it_read = argument(call, "if_version") == NULL;
    return ph_action_int(call, "if_version", read);
}

int64_t
ph_action_deadline_us(const PhActionCall *call)
{
    return call->deadline_us;
}

const char *
ph_action_actor(const PhActionCall *call)
{
    return call->caller->actor;
}

PhRole
ph_action_role(const PhActionCall *call)
{
    return call->caller->role;
}

const char *
ph_action_origin(const PhActionCall *call)
{
    return call->caller->origin;
}

bool
ph_action_is_local(const PhActionCall *call)
{
    return strcmp(call->caller->origin, "control") == 0;
}

int64_t
ph_action_account_id(const PhActionCall *call)
{
    return call->caller->account_id;
}

int64_t
ph_action_tenant(const PhActionCall *call)
{
    return call->caller->role == PH_ROLE_OPERATOR ? 0 : call->caller->tenant_id;
}

bool
ph_action_may_tenant(const PhActionCall *call, int64_t tenant_id)
{
    return call->caller->role == PH_ROLE_OPERATOR ||
           (call->caller->role == PH_ROLE_TENANT && call->caller->tenant_id == tenant_id);
}

void
ph_action_about_tenant(PhActionCall *call, int64_t tenant_id)
{
    call->about_tenant_id = tenant_id;
}

void
ph_action_blame(PhActionCall *call, const char *name)
{
    call->blamed = name;
}

unsigned
ph_action_limit(const PhActionCall *call)
{
    return (unsigned)ph_action_int(call, "limit", PH_LIST_LIMIT);
}

/* -- what a caller may touch ------------------------------------------------------------------- */

PhAccount *
ph_action_account_blocking(PhActionCall *call, const char *name, GError **error)
{
    const char *address = ph_action_text(call, name);
    g_autoptr(PhAccount) account =
        ph_account_find_blocking(address, ph_action_deadline_us(call), error);
    if (account == NULL)
        return NULL;
    if (!ph_action_may_tenant(call, account->tenant_id) &&
        call->caller->account_id != account->id) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account \"%s\"", address);
        return NULL;
    }
    ph_action_about_tenant(call, account->tenant_id);
    return g_steal_pointer(&account);
}

PH_IN_JOB static PhDomain *
find_domain(PhActionCall *call, const char *name, GError **error)
{
    g_autoptr(PhDomain) domain = ph_domain_find_blocking(name, ph_action_deadline_us(call), error);
    if (domain == NULL)
        return NULL;
    if (!ph_action_may_tenant(call, domain->tenant_id)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no domain \"%s\"", name);
        return NULL;
    }
    ph_action_about_tenant(call, domain->tenant_id);
    return g_steal_pointer(&domain);
}

PhDomain *
ph_action_domain_blocking(PhActionCall *call, const char *name, GError **error)
{
    return find_domain(call, ph_action_text(call, name), error);
}

bool
ph_action_may_address_blocking(PhActionCall *call, const char *name, GError **error)
{
    const char *at = strrchr(ph_action_text(call, name), '@');
    if (at == NULL) {
        ph_action_blame(call, name);
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is not a mail address",
            ph_action_text(call, name));
        return false;
    }
    g_autoptr(PhDomain) domain = find_domain(call, at + 1, error);
    return domain != NULL;
}

/* -- answering --------------------------------------------------------------------------------- */

/* Each field has a row, so that the API's description is the whole truth; "port.*" stands for all
 * that begin so. */
static void
check_field(const PhActionCall *call, const char *name, PhAnswerType type)
{
#ifdef PH_TEST_POINTS
    unsigned flags = call->current != call->answer ? PH_ANSWER_OF_ITEM : 0;
    for (const PhAnswerRow *at = call->row->answers; at != NULL && at->name != NULL; at++) {
        size_t prefix = strcspn(at->name, "*");
        if ((at->flags & PH_ANSWER_OF_ITEM) == flags && at->type == type &&
            (at->name[prefix] == '*' ? strncmp(at->name, name, prefix) == 0
                                     : strcmp(at->name, name) == 0))
            return;
    }
    g_error("%s answers \"%s\", which its rows do not know", call->row->name, name);
#else
    (void)call;
    (void)name;
    (void)type;
#endif
}

void
ph_answer_text(PhActionCall *call, const char *name, const char *value)
{
    if (value == NULL)
        return;
    check_field(call, name, PH_ANSWER_TEXT);
    g_autofree char *valid = g_utf8_make_valid(value, -1);
    json_object_set_string_member(call->current, name, valid);
}

void
ph_answer_int(PhActionCall *call, const char *name, int64_t value)
{
    check_field(call, name, PH_ANSWER_INT);
    json_object_set_int_member(call->current, name, value);
}

void
ph_answer_bool(PhActionCall *call, const char *name, bool value)
{
    check_field(call, name, PH_ANSWER_BOOL);
    json_object_set_boolean_member(call->current, name, value);
}

void
ph_answer_time(PhActionCall *call, const char *name, int64_t time_us)
{
    if (time_us == INT64_MIN || time_us == INT64_MAX)
        return;
    check_field(call, name, PH_ANSWER_TIME);
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(time_us / G_USEC_PER_SEC);
    if (time == NULL)
        return;
    g_autofree char *text = g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ");
    json_object_set_string_member(call->current, name, text);
}

static void
begin_list(PhActionCall *call)
{
    if (call->items != NULL)
        return;
    call->items = json_array_new();
    json_object_set_array_member(call->answer, "items", call->items);
}

void
ph_answer_item(PhActionCall *call)
{
    begin_list(call);
    call->current = json_object_new();
    json_array_add_object_element(call->items, call->current);
}

void
ph_answer_next(PhActionCall *call, const char *next)
{
    if (next != NULL)
        json_object_set_string_member(call->answer, "next", next);
}

/* -- the tables -------------------------------------------------------------------------------- */

static const PhActionRow *const core_tables[] = {
    ph_domain_actions,
    ph_dns_actions,
    ph_account_actions,
    ph_contact_actions,
    ph_site_actions,
    ph_lua_actions,
    ph_setting_actions,
    ph_server_actions,
    ph_operator_actions,
};

static const PhActionRow *
find_in(const PhActionRow *rows, const char *name)
{
    for (const PhActionRow *row = rows; row->name != NULL; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

const PhActionRow *
ph_core_action_find(const char *name)
{
    const PhActionRow *found = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(core_tables) && found == NULL; i++)
        found = find_in(core_tables[i], name);
    return found;
}

typedef struct Walk {
    PhActionRowFunc func;
    void *data;
} Walk;

static void
walk_rows(const char *plugin, const PhActionRow *rows, void *data)
{
    const Walk *walk = data;
    for (const PhActionRow *row = rows; row->name != NULL; row++)
        walk->func(plugin, row, walk->data);
}

void
ph_actions_each(PhActionRowFunc func, void *data)
{
    Walk walk = { .func = func, .data = data };
    for (size_t i = 0; i < G_N_ELEMENTS(core_tables); i++)
        walk_rows("core", core_tables[i], &walk);
    ph_plugins_each_actions(walk_rows, &walk);
}

const char *
ph_role_name(PhRole role)
{
    static const char *const names[] = {
        [PH_ROLE_USER] = "user",
        [PH_ROLE_TENANT] = "tenant",
        [PH_ROLE_OPERATOR] = "operator",
    };
    return names[role];
}

/* -- checking ---------------------------------------------------------------------------------- */

static bool
has_type(JsonNode *node, PhArgumentType type)
{
    if (!JSON_NODE_HOLDS_VALUE(node))
        return false;
    GType value_type = json_node_get_value_type(node);
    switch (type) {
    case PH_ARGUMENT_TEXT:
    case PH_ARGUMENT_SECRET:
    case PH_ARGUMENT_DOCUMENT:
    case PH_ARGUMENT_SECRET_DOCUMENT:
        return value_type == G_TYPE_STRING;
    case PH_ARGUMENT_INT:
        return value_type == G_TYPE_INT64;
    case PH_ARGUMENT_BOOL:
        return value_type == G_TYPE_BOOLEAN;
    }
    return false;
}

static const char *
type_name(PhArgumentType type)
{
    static const char *const names[] = {
        [PH_ARGUMENT_TEXT] = "text",
        [PH_ARGUMENT_INT] = "a number",
        [PH_ARGUMENT_BOOL] = "true or false",
        [PH_ARGUMENT_SECRET] = "text",
        [PH_ARGUMENT_DOCUMENT] = "text",
        [PH_ARGUMENT_SECRET_DOCUMENT] = "text",
    };
    return names[type];
}

const PhArgumentRow *
ph_action_argument(const PhActionRow *row, const char *name)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (strcmp(at->name, name) == 0)
            return at;
    return NULL;
}

static bool
is_choice(const char *choices, const char *value)
{
    g_auto(GStrv) words = g_strsplit(choices, "|", -1);
    return g_strv_contains((const char *const *)words, value);
}

static bool
check_range(const PhArgumentRow *row, JsonNode *node, GError **error)
{
    enum { TEXT_MAX = 4096, DOCUMENT_MAX = 1024 * 1024 };
    if (row->type == PH_ARGUMENT_INT) {
        int64_t value = json_node_get_int(node);
        bool ranged = row->min < row->max;
        int64_t max = ranged ? row->max : INT64_MAX;
        if (value >= (ranged ? row->min : 0) && value <= max)
            return true;
        if (ranged)
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
                "\"%s\" is a number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, row->name,
                row->min, row->max);
        else
            g_set_error(
                error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is a number, 0 or more", row->name);
        return false;
    }
    if (row->type == PH_ARGUMENT_BOOL)
        return true;
    const char *text = json_node_get_string(node);
    int64_t max = row->max > 0                        ? row->max
                  : row->type >= PH_ARGUMENT_DOCUMENT ? (int64_t)DOCUMENT_MAX
                                                      : (int64_t)TEXT_MAX;
    if ((int64_t)strlen(text) > max) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "\"%s\" is at most %" G_GINT64_FORMAT " bytes long", row->name, max);
        return false;
    }
    if (!g_utf8_validate(text, -1, NULL)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no UTF-8 text", row->name);
        return false;
    }
    if (row->choices != NULL && !is_choice(row->choices, text)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is one of %s", row->name, row->choices);
        return false;
    }
    return true;
}

static bool
check_argument(PhActionCall *call, const char *name, JsonNode *node, GError **error)
{
    const PhActionRow *row = call->row;
    const PhArgumentRow *at = ph_action_argument(row, name);
    if (at == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "%s does not take \"%s\"", row->name, name);
        return false;
    }
    call->blamed = at->name;
    if (!has_type(node, at->type)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "%s: \"%s\" takes %s", row->name, name,
            type_name(at->type));
        return false;
    }
    if (!check_range(at, node, error))
        return false;
    call->blamed = NULL;
    return true;
}

static bool
check_arguments(PhActionCall *call, GError **error)
{
    const PhActionRow *row = call->row;
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ARGUMENT_REQUIRED) != 0 && argument(call, at->name) == NULL) {
            call->blamed = at->name;
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "%s needs \"%s\"", row->name, at->name);
            return false;
        }
    if (call->arguments == NULL)
        return true;
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;
    json_object_iter_init(&iter, call->arguments);
    while (json_object_iter_next(&iter, &name, &node))
        if (!check_argument(call, name, node, error))
            return false;
    return true;
}

/* -- audit ------------------------------------------------------------------------------------- */

/* As JSON; a long text (a script, a document) by its length and its hash: what it was is kept
 * elsewhere, in versions. */
static char *
describe_object(JsonObject *object)
{
    enum { SHOWN_BYTES = 2048 };
    g_autoptr(JsonObject) shown = json_object_new();
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;
    json_object_iter_init(&iter, object);
    while (json_object_iter_next(&iter, &name, &node)) {
        const char *text = JSON_NODE_HOLDS_VALUE(node) ? json_node_get_string(node) : NULL;
        if (text == NULL || strlen(text) <= SHOWN_BYTES) {
            json_object_set_member(shown, name, json_node_copy(node));
            continue;
        }
        g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
        g_autofree char *brief =
            g_strdup_printf("(%" G_GSIZE_FORMAT " bytes, SHA-256 %s)", strlen(text), hash);
        json_object_set_string_member(shown, name, brief);
    }
    return ph_json_format(shown);
}

/* The arguments as JSON, without secrets. */
static char *
describe_arguments(const PhActionCall *call)
{
    g_autoptr(JsonObject) shown = json_object_new();
    for (const PhArgumentRow *at = call->row->arguments; at != NULL && at->name != NULL; at++) {
        JsonNode *node = argument(call, at->name);
        if (node == NULL)
            continue;
        if (at->type == PH_ARGUMENT_SECRET || at->type == PH_ARGUMENT_SECRET_DOCUMENT)
            json_object_set_string_member(shown, at->name, "(secret)");
        else
            json_object_set_member(shown, at->name, json_node_copy(node));
    }
    return describe_object(shown);
}

/* The first positional argument: what the action is about. */
static const char *
target_of(const PhActionCall *call)
{
    const PhArgumentRow *at = call->row->arguments;
    return at != NULL && at->name != NULL && at->type == PH_ARGUMENT_TEXT
               ? ph_action_text(call, at->name)
               : NULL;
}

PH_IN_JOB static void
write_audit(const PhActionCall *call, JsonObject *before, JsonObject *after, const GError *failure)
{
    g_autofree char *detail = describe_arguments(call);
    g_autofree char *was = before != NULL ? describe_object(before) : NULL;
    g_autofree char *is = after != NULL ? describe_object(after) : NULL;
    const PhAuditNote note = {
        .tenant_id = call->about_tenant_id,
        .actor = call->caller->actor,
        .origin = call->caller->origin,
        .action = call->row->name,
        .target = target_of(call),
        .outcome = failure != NULL ? failure->message : "done",
        .detail = detail,
        .before = was,
        .after = is,
    };
    g_autoptr(GError) error = NULL;
    ph_log(PH_LOG_NOTICE, "action.done", "action=%s actor=%s target=\"%s\" outcome=\"%s\"",
        note.action, note.actor, note.target != NULL ? note.target : "", note.outcome);
    if (!ph_audit_write_blocking(&note, call->deadline_us, &error))
        ph_log(PH_LOG_ERROR, "action.not-audited", "action=%s %s", note.action, error->message);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* A row, and a hold on the plugin that it belongs to: without it, its code could be unmapped. */
typedef struct Found {
    const char *name;
    const PhActionRow *row;
    PhOwner *owner; /* null: the core's */
} Found;

static void
found_clear(Found *found)
{
    ph_owner_unuse(found->owner);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Found, found_clear)

static void
search_rows(const char *plugin, const PhActionRow *rows, void *data)
{
    (void)plugin;
    Found *found = data;
    if (found->row != NULL || (found->row = find_in(rows, found->name)) == NULL)
        return;
    found->owner = ph_owner_current();
    ph_owner_use(found->owner);
}

static Found
find_action(const char *name)
{
    Found found = { .name = name, .row = ph_core_action_find(name) };
    if (found.row == NULL)
        ph_plugins_each_actions(search_rows, &found);
    return found;
}

static void
free_secret(gpointer secret)
{
    ph_secret_free(secret);
}

static void
call_init(PhActionCall *call, const PhActionRow *row, JsonObject *arguments, const PhCaller *caller)
{
    *call = (PhActionCall){
        .row = row,
        .caller = caller,
        .arguments = arguments,
        .about_tenant_id = caller->tenant_id,
        .secrets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_secret),
        .deadline_us = ph_monotonic_us() + ACTION_DEADLINE_S * G_USEC_PER_SEC,
        .answer = json_object_new(),
    };
    call->current = call->answer;
}

static void
call_clear(PhActionCall *call)
{
    json_object_unref(call->answer);
    g_hash_table_unref(call->secrets);
}

/* How the thing that is changed looks now; null when it is not there, or nobody can tell. */
PH_IN_JOB static JsonObject *
look_at_subject(const PhActionCall *call)
{
    if (call->row->subject == NULL || call->arguments == NULL)
        return NULL;
    g_auto(Found) subject = find_action(call->row->subject);
    const PhActionRow *row = subject.row;
    if (row == NULL)
        return NULL;
    g_autoptr(JsonObject) arguments = json_object_new();
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        JsonNode *node = argument(call, at->name);
        if (node != NULL)
            json_object_set_member(arguments, at->name, json_node_copy(node));
    }
    PhActionCall look;
    g_autoptr(GError) ignored = NULL;
    call_init(&look, row, arguments, call->caller);
    JsonObject *found = check_arguments(&look, &ignored) && row->run(&look, &ignored)
                            ? json_object_ref(look.answer)
                            : NULL;
    call_clear(&look);
    return found;
}

static bool
may_call(const PhActionCall *call, GError **error)
{
    if (call->caller->role >= call->row->role)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "%s is not allowed to you", call->row->name);
    return false;
}

/* Read, altered and written: begun anew when somebody else wrote meanwhile. `before_out` is how the subject
 * was at the last beginning. */
PH_IN_JOB static bool
run_change(PhActionCall *call, JsonObject **before_out, GError **error)
{
    enum { TRIES_MAX = 5 };
    *before_out = NULL;
    for (int tries = 1;; tries++) {
        g_autoptr(GError) failure = NULL;
        g_clear_pointer(before_out, json_object_unref);
        *before_out = look_at_subject(call);
        call->writes_what_it_read = false;
        call->blamed = NULL;
        if (call->row->run(call, &failure))
            return true;
        if (ph_error_code(failure) != PH_ERROR_CONFLICT || !call->writes_what_it_read ||
            tries == TRIES_MAX) {
            g_propagate_error(error, g_steal_pointer(&failure));
            return false;
        }
    }
}

PH_IN_JOB static bool
run_call(PhActionCall *call, GError **error)
{
    if (!may_call(call, error) || !check_arguments(call, error))
        return false;
    /* A list without items is a list. */
    for (const PhAnswerRow *at = call->row->answers; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ANSWER_OF_ITEM) != 0)
            begin_list(call);
    if ((call->row->flags & PH_ACTION_CHANGES) == 0)
        return call->row->run(call, error);
    g_autoptr(GError) failure = NULL;
    g_autoptr(JsonObject) before = NULL;
    bool good = run_change(call, &before, &failure);
    g_autoptr(JsonObject) after = good ? look_at_subject(call) : NULL;
    write_audit(call, before, after, failure);
    if (!good)
        g_propagate_error(error, g_steal_pointer(&failure));
    return good;
}

static const char *
first_positional(const PhActionRow *row)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ARGUMENT_POSITIONAL) != 0)
            return at->name;
    return NULL;
}

PH_IN_JOB static void
describe_failure(const PhActionCall *call, PhActionFailure *failure)
{
    PhError code = ph_error_code(failure->error);
    bool is_input = code == PH_ERROR_SYNTAX || code == PH_ERROR_CONFLICT;
    const char *blamed = call->blamed != NULL ? call->blamed
                         : is_input           ? first_positional(call->row)
                                              : NULL;
    failure->argument = g_strdup(blamed);
    if (code == PH_ERROR_CONFLICT && argument(call, "if_version") != NULL)
        failure->current = look_at_subject(call);
}

void
ph_action_failure_clear(PhActionFailure *failure)
{
    g_clear_error(&failure->error);
    g_clear_pointer(&failure->argument, g_free);
    g_clear_pointer(&failure->current, json_object_unref);
}

JsonObject *
ph_action_call_blocking(
    const char *name, JsonObject *arguments, const PhCaller *caller, PhActionFailure *failure_out)
{
    ph_assert_in_job();
    *failure_out = (PhActionFailure){ 0 };
    g_auto(Found) found = find_action(name);
    const PhActionRow *row = found.row;
    if (row == NULL) {
        g_set_error(
            &failure_out->error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no action \"%s\"", name);
        return NULL;
    }
    PhLane lane = ph_store_lane();
    ph_store_set_lane(PH_LANE_CONSOLE);
    /* A row of the core is run for whoever asks. */
    PhOwner *previous = ph_owner_enter(found.owner != NULL ? found.owner : ph_owner_current());
    PhActionCall call;
    call_init(&call, row, arguments, caller);
    JsonObject *answer = NULL;
    if (run_call(&call, &failure_out->error))
        answer = json_object_ref(call.answer);
    else
        describe_failure(&call, failure_out);
    call_clear(&call);
    ph_owner_leave(previous);
    ph_store_set_lane(lane);
    return answer;
}

bool
ph_action_check(const char *name, JsonObject *arguments, const PhCaller *caller, GError **error)
{
    g_auto(Found) found = find_action(name);
    if (found.row == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no action \"%s\"", name);
        return false;
    }
    PhActionCall call;
    call_init(&call, found.row, arguments, caller);
    bool good = may_call(&call, error) && check_arguments(&call, error);
    call_clear(&call);
    return good;
}

/* -- text -------------------------------------------------------------------------------------- */

/* JSON-GLib calls itself for each level: a request of brackets alone would use up the stack. It
 * also takes comments and other quotes, which are no JSON, and among which brackets could hide from
 * this count. */
static bool
is_too_deep(const char *request, size_t length)
{
    enum { REQUEST_DEPTH_MAX = 64 };
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char byte = request[i];
        if (in_string && byte == '\\')
            i++;
        else if (byte == '"')
            in_string = !in_string;
        else if (in_string)
            continue;
        else if (byte == '\'' || byte == '/' || byte == '#')
            return true;
        else if ((byte == '[' || byte == '{') && ++depth > REQUEST_DEPTH_MAX)
            return true;
        else if ((byte == ']' || byte == '}') && depth > 0)
            depth--;
    }
    return false;
}

JsonNode *
ph_json_parse(JsonParser *parser, const char *text, size_t length, GError **error)
{
    g_autoptr(GError) cause = NULL;
    JsonNode *root = NULL;
    if (!is_too_deep(text, length) &&
        json_parser_load_from_data(parser, text, (gssize)length, &cause))
        root = json_parser_get_root(parser);
    if (root != NULL && JSON_NODE_HOLDS_OBJECT(root))
        return root;
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the request is no JSON object%s%s",
        cause != NULL ? ": " : "", cause != NULL ? cause->message : "");
    return NULL;
}

char *
ph_json_format(JsonObject *object)
{
    g_autoptr(JsonNode) root = json_node_alloc();
    json_node_init_object(root, object);
    return json_to_string(root, FALSE);
}

static char *
format_answer(JsonObject *answer, const PhActionFailure *failure)
{
    g_autoptr(JsonObject) top = json_object_new();
    json_object_set_boolean_member(top, "ok", answer != NULL);
    if (answer != NULL) {
        json_object_set_object_member(top, "answer", json_object_ref(answer));
        return ph_json_format(top);
    }
    JsonObject *shown = json_object_new();
    g_autofree char *text = g_utf8_make_valid(failure->error->message, -1);
    json_object_set_string_member(shown, "code", ph_error_name(ph_error_code(failure->error)));
    json_object_set_string_member(shown, "text", text);
    if (failure->argument != NULL)
        json_object_set_string_member(shown, "argument", failure->argument);
    if (failure->current != NULL)
        json_object_set_object_member(shown, "current", json_object_ref(failure->current));
    json_object_set_object_member(top, "error", shown);
    return ph_json_format(top);
}

PH_IN_JOB static JsonObject *
run_request(JsonObject *request, const PhCaller *caller, PhActionFailure *failure)
{
    JsonNode *name = json_object_get_member(request, "action");
    JsonNode *arguments = json_object_get_member(request, "args");
    if (name == NULL || !has_type(name, PH_ARGUMENT_TEXT)) {
        g_set_error(&failure->error, PH_ERROR, PH_ERROR_SYNTAX, "the request names no action");
        return NULL;
    }
    if (arguments != NULL && !JSON_NODE_HOLDS_OBJECT(arguments)) {
        g_set_error(&failure->error, PH_ERROR, PH_ERROR_SYNTAX, "\"args\" takes an object");
        return NULL;
    }
    return ph_action_call_blocking(json_node_get_string(name),
        arguments != NULL ? json_node_get_object(arguments) : NULL, caller, failure);
}

char *
ph_action_dispatch_blocking(const char *request, size_t length, const PhCaller *caller)
{
    ph_assert_in_job();
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    PhActionFailure failure = { 0 };
    JsonNode *root = ph_json_parse(parser, request, length, &failure.error);
    JsonObject *answer =
        root != NULL ? run_request(json_node_get_object(root), caller, &failure) : NULL;
    char *text = format_answer(answer, &failure);
    if (answer != NULL)
        json_object_unref(answer);
    ph_action_failure_clear(&failure);
    return text;
}
