/* actions.c - from a JSON request to a row's function and back */
#include "management/actions.h"

#include "posthouse/log.h"
#include "runtime/plugin-loader.h"
#include "store/store.h"

#include <json-glib/json-glib.h>
#include <string.h>

enum { ACTION_DEADLINE_S = 30 };

struct PhActionCall {
    const PhActionRow *row;
    const PhCaller *caller;
    JsonObject *arguments; /* may be null */
    GHashTable *secrets;   /* name -> PhSecret, made when asked for */
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
ph_action_deadline_us(const PhActionCall *call)
{
    return call->deadline_us;
}

const char *
ph_action_actor(const PhActionCall *call)
{
    return call->caller->actor;
}

void
ph_answer_text(PhActionCall *call, const char *name, const char *value)
{
    if (value == NULL)
        return;
    g_autofree char *valid = g_utf8_make_valid(value, -1);
    json_object_set_string_member(call->current, name, valid);
}

void
ph_answer_int(PhActionCall *call, const char *name, int64_t value)
{
    json_object_set_int_member(call->current, name, value);
}

void
ph_answer_bool(PhActionCall *call, const char *name, bool value)
{
    json_object_set_boolean_member(call->current, name, value);
}

void
ph_answer_time(PhActionCall *call, const char *name, int64_t time_us)
{
    if (time_us == INT64_MIN || time_us == INT64_MAX)
        return;
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(time_us / G_USEC_PER_SEC);
    if (time == NULL)
        return;
    g_autofree char *text = g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ");
    json_object_set_string_member(call->current, name, text);
}

void
ph_answer_item(PhActionCall *call)
{
    if (call->items == NULL) {
        call->items = json_array_new();
        json_object_set_array_member(call->answer, "items", call->items);
    }
    call->current = json_object_new();
    json_array_add_object_element(call->items, call->current);
}

void
ph_answer_next(PhActionCall *call, const char *next)
{
    if (next != NULL)
        json_object_set_string_member(call->answer, "next", next);
}

/* -- finding and checking ---------------------------------------------------------------------- */

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
    return find_in(ph_core_actions, name);
}

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
    };
    return names[type];
}

static const PhArgumentRow *
find_argument(const PhActionRow *row, const char *name)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (strcmp(at->name, name) == 0)
            return at;
    return NULL;
}

static bool
check_arguments(const PhActionCall *call, GError **error)
{
    const PhActionRow *row = call->row;
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ARGUMENT_REQUIRED) != 0 && argument(call, at->name) == NULL) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "%s needs \"%s\"", row->name, at->name);
            return false;
        }
    if (call->arguments == NULL)
        return true;
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;
    json_object_iter_init(&iter, call->arguments);
    while (json_object_iter_next(&iter, &name, &node)) {
        const PhArgumentRow *at = find_argument(row, name);
        if (at == NULL) {
            g_set_error(
                error, PH_ERROR, PH_ERROR_SYNTAX, "%s does not take \"%s\"", row->name, name);
            return false;
        }
        if (!has_type(node, at->type)) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "%s: \"%s\" takes %s", row->name, name,
                type_name(at->type));
            return false;
        }
    }
    return true;
}

/* -- audit ------------------------------------------------------------------------------------- */

/* The arguments as JSON, without secrets. */
static char *
describe_arguments(const PhActionCall *call)
{
    g_autoptr(JsonObject) shown = json_object_new();
    for (const PhArgumentRow *at = call->row->arguments; at != NULL && at->name != NULL; at++) {
        JsonNode *node = argument(call, at->name);
        if (node == NULL)
            continue;
        if (at->type == PH_ARGUMENT_SECRET)
            json_object_set_string_member(shown, at->name, "(secret)");
        else
            json_object_set_member(shown, at->name, json_node_copy(node));
    }
    g_autoptr(JsonNode) root = json_node_alloc();
    json_node_init_object(root, shown);
    return json_to_string(root, FALSE);
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
write_audit(const PhActionCall *call, const GError *failure)
{
    g_autofree char *detail = describe_arguments(call);
    const char *actor = call->caller->actor;
    const char *action = call->row->name;
    const char *target = target_of(call);
    const char *outcome = failure != NULL ? failure->message : "done";
    g_autoptr(GError) error = NULL;
    ph_log(PH_LOG_NOTICE, "action.done", "action=%s actor=%s target=\"%s\" outcome=\"%s\"", action,
        actor, target != NULL ? target : "", outcome);
    if (!ph_audit_write_blocking(actor, call->caller->origin, action, target, outcome, detail,
            call->deadline_us, &error))
        ph_log(PH_LOG_ERROR, "action.not-audited", "action=%s %s", action, error->message);
}

/* -- dispatch ---------------------------------------------------------------------------------- */

typedef struct Search {
    const char *name;
    const PhActionRow *found;
} Search;

static void
search_rows(const char *plugin, const PhActionRow *rows, void *data)
{
    (void)plugin;
    Search *search = data;
    if (search->found == NULL)
        search->found = find_in(rows, search->name);
}

static const PhActionRow *
find_action(const char *name)
{
    const PhActionRow *row = ph_core_action_find(name);
    if (row != NULL)
        return row;
    Search search = { .name = name };
    ph_plugins_each_actions(search_rows, &search);
    return search.found;
}

PH_IN_JOB static bool
run_call(PhActionCall *call, JsonObject *request, GError **error)
{
    JsonNode *name_node = json_object_get_member(request, "action");
    JsonNode *arguments_node = json_object_get_member(request, "args");
    const char *name = name_node != NULL && has_type(name_node, PH_ARGUMENT_TEXT)
                           ? json_node_get_string(name_node)
                           : NULL;
    if (name == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the request names no action");
        return false;
    }
    if (arguments_node != NULL && !JSON_NODE_HOLDS_OBJECT(arguments_node)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"args\" takes an object");
        return false;
    }
    call->row = find_action(name);
    if (call->row == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no action \"%s\"", name);
        return false;
    }
    if (call->caller->role < call->row->role) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "%s is not allowed to you", name);
        return false;
    }
    call->arguments = arguments_node != NULL ? json_node_get_object(arguments_node) : NULL;
    if (!check_arguments(call, error))
        return false;
    g_autoptr(GError) failure = NULL;
    bool good = call->row->run(call, &failure);
    if ((call->row->flags & PH_ACTION_CHANGES) != 0)
        write_audit(call, failure);
    if (!good)
        g_propagate_error(error, g_steal_pointer(&failure));
    return good;
}

static char *
format_answer(JsonObject *answer, const GError *error)
{
    g_autoptr(JsonObject) top = json_object_new();
    json_object_set_boolean_member(top, "ok", error == NULL);
    if (error == NULL) {
        json_object_set_object_member(top, "answer", json_object_ref(answer));
    } else {
        JsonObject *shown = json_object_new();
        g_autofree char *text = g_utf8_make_valid(error->message, -1);
        json_object_set_string_member(shown, "code", ph_error_name(ph_error_code(error)));
        json_object_set_string_member(shown, "text", text);
        json_object_set_object_member(top, "error", shown);
    }
    g_autoptr(JsonNode) root = json_node_alloc();
    json_node_init_object(root, top);
    return json_to_string(root, FALSE);
}

static void
free_secret(gpointer secret)
{
    ph_secret_free(secret);
}

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

char *
ph_action_dispatch_blocking(const char *request, size_t length, const PhCaller *caller)
{
    ph_assert_in_job();
    PhLane lane = ph_store_lane();
    ph_store_set_lane(PH_LANE_CONSOLE);
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    g_autoptr(GError) error = NULL;
    PhActionCall call = {
        .caller = caller,
        .secrets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_secret),
        .deadline_us = ph_monotonic_us() + ACTION_DEADLINE_S * G_USEC_PER_SEC,
        .answer = json_object_new(),
    };
    call.current = call.answer;
    g_autoptr(GError) cause = NULL;
    JsonNode *root = NULL;
    if (!is_too_deep(request, length) &&
        json_parser_load_from_data(parser, request, (gssize)length, &cause))
        root = json_parser_get_root(parser);
    if (root != NULL && JSON_NODE_HOLDS_OBJECT(root))
        run_call(&call, json_node_get_object(root), &error);
    else
        g_set_error(&error, PH_ERROR, PH_ERROR_SYNTAX, "the request is no JSON object%s%s",
            cause != NULL ? ": " : "", cause != NULL ? cause->message : "");
    char *answer = format_answer(call.answer, error);
    json_object_unref(call.answer);
    g_hash_table_unref(call.secrets);
    ph_store_set_lane(lane);
    return answer;
}
