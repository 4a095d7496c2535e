/* api.c - requests to actions, actions to an OpenAPI document */
#include "management/api.h"

#include "runtime/owner.h"

#include <config.h>
#include <string.h>

static const struct {
    PhError code;
    int status;
    const char *title;
} statuses[] = {
    { PH_ERROR_SYNTAX, 400, "Bad Request" },
    { PH_ERROR_DENIED, 403, "Forbidden" },
    { PH_ERROR_NOT_FOUND, 404, "Not Found" },
    { PH_ERROR_CONFLICT, 409, "Conflict" },
    { PH_ERROR_TOO_LARGE, 413, "Content Too Large" },
    { PH_ERROR_LIMIT, 429, "Too Many Requests" },
    { PH_ERROR_TEMPORARY, 503, "Service Unavailable" },
    { PH_ERROR_UNAVAILABLE, 503, "Service Unavailable" },
};

/* -- answers ----------------------------------------------------------------------------------- */

void
ph_api_response_clear(PhApiResponse *response)
{
    g_free(response->content_type);
    g_free(response->body);
    g_free(response->allow);
    g_free(response->set_cookie);
    *response = (PhApiResponse){ 0 };
}

void
ph_api_answer(PhApiResponse *response, JsonObject *answer)
{
    response->status = 200;
    response->content_type = g_strdup("application/json");
    response->body = ph_json_format(answer);
}

static const char *
title_of(int status)
{
    static const struct {
        int status;
        const char *title;
    } others[] = {
        { 401, "Unauthorized" },
        { 405, "Method Not Allowed" },
        { 415, "Unsupported Media Type" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].title;
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (others[i].status == status)
            return others[i].title;
    return "Internal Server Error";
}

/* RFC 9457, with our code, the argument that is to blame, and the thing as it is now. */
static void
fail(PhApiResponse *response, int status, const PhActionFailure *failure)
{
    g_autoptr(JsonObject) problem = json_object_new();
    g_autofree char *detail = g_utf8_make_valid(failure->error->message, -1);
    json_object_set_string_member(problem, "type", "about:blank");
    json_object_set_string_member(problem, "title", title_of(status));
    json_object_set_int_member(problem, "status", status);
    json_object_set_string_member(problem, "detail", detail);
    json_object_set_string_member(problem, "code", ph_error_name(ph_error_code(failure->error)));
    if (failure->argument != NULL)
        json_object_set_string_member(problem, "argument", failure->argument);
    if (failure->current != NULL)
        json_object_set_object_member(problem, "current", json_object_ref(failure->current));
    response->status = status;
    response->content_type = g_strdup("application/problem+json");
    response->body = ph_json_format(problem);
}

void
ph_api_fail(PhApiResponse *response, int status, GError *error)
{
    PhActionFailure failure = { .error = error };
    fail(response, status, &failure);
    ph_action_failure_clear(&failure);
}

static int
status_of(const GError *error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(statuses); i++)
        if (statuses[i].code == ph_error_code(error))
            return statuses[i].status;
    return 500;
}

/* -- routes ------------------------------------------------------------------------------------ */

char *
ph_api_route(const PhActionRow *row)
{
    return row->route != NULL ? g_strdup(row->route)
                              : g_strconcat("POST /actions/", row->name, NULL);
}

/* Fits the segments of a path to those of a route; `arguments` (may be null) gets what stands for
 * its "{names}". */
static bool
fits(const char *route_path, char **segments, GHashTable *arguments)
{
    g_auto(GStrv) parts = g_strsplit(route_path + 1, "/", -1);
    if (g_strv_length(parts) != g_strv_length(segments))
        return false;
    for (unsigned i = 0; parts[i] != NULL; i++) {
        size_t length = strlen(parts[i]);
        bool is_argument = parts[i][0] == '{';
        if (!is_argument && strcmp(parts[i], segments[i]) != 0)
            return false;
        if (is_argument && segments[i][0] == '\0')
            return false;
        if (is_argument && arguments != NULL)
            g_hash_table_insert(
                arguments, g_strndup(parts[i] + 1, length - 2), g_strdup(segments[i]));
    }
    return true;
}

typedef struct Match {
    const char *method;
    char **segments;
    const PhActionRow *row;
    GString *allow; /* other methods of this path */
    PhOwner *owner; /* of the row, held; null: the core's */
} Match;

static void
match_row(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    Match *match = data;
    g_autofree char *route = ph_api_route(row);
    char *path = strchr(route, ' ');
    *path++ = '\0';
    if (!fits(path, match->segments, NULL))
        return;
    if (strcmp(route, match->method) == 0 && match->row == NULL) {
        match->row = row;
        match->owner = ph_owner_current();
        ph_owner_use(match->owner);
    } else if (strstr(match->allow->str, route) == NULL) {
        g_string_append_printf(match->allow, "%s%s", match->allow->len > 0 ? ", " : "", route);
    }
}

/* The segments of a path, decoded. Null for broken escapes and NUL. */
static GStrv
split_path(const char *path)
{
    g_auto(GStrv) raw = g_strsplit(path[0] == '/' ? path + 1 : path, "/", -1);
    g_autoptr(GStrvBuilder) segments = g_strv_builder_new();
    for (char **at = raw; *at != NULL; at++) {
        g_autofree char *text = g_uri_unescape_string(*at, NULL);
        if (text == NULL || !g_utf8_validate(text, -1, NULL))
            return NULL;
        g_strv_builder_add(segments, text);
    }
    return g_strv_builder_end(segments);
}

/* -- arguments --------------------------------------------------------------------------------- */

/* Text of a path or query in the argument's type. What does not fit stays text: the check says
 * so. */
static void
set_text_argument(
    const PhActionRow *row, JsonObject *arguments, const char *name, const char *value)
{
    const PhArgumentRow *at = ph_action_argument(row, name);
    gint64 number;
    if (at != NULL && at->type == PH_ARGUMENT_INT &&
        g_ascii_string_to_signed(value, 10, INT64_MIN, INT64_MAX, &number, NULL))
        json_object_set_int_member(arguments, name, number);
    else if (at != NULL && at->type == PH_ARGUMENT_BOOL &&
             (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
        json_object_set_boolean_member(arguments, name, strcmp(value, "true") == 0);
    else
        json_object_set_string_member(arguments, name, value);
}

static bool
take_query(const PhActionRow *row, const char *query, JsonObject *arguments, GError **error)
{
    if (query == NULL || query[0] == '\0')
        return true;
    g_auto(GStrv) pairs = g_strsplit(query, "&", -1);
    for (char **pair = pairs; *pair != NULL; pair++) {
        if ((*pair)[0] == '\0')
            continue;
        g_strdelimit(*pair, "+", ' ');
        char *equals = strchr(*pair, '=');
        if (equals != NULL)
            *equals++ = '\0';
        g_autofree char *name = g_uri_unescape_string(*pair, NULL);
        g_autofree char *value = g_uri_unescape_string(equals != NULL ? equals : "", NULL);
        if (name == NULL || value == NULL || !g_utf8_validate(name, -1, NULL) ||
            !g_utf8_validate(value, -1, NULL)) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the query cannot be read");
            return false;
        }
        /* What was left empty in a form is not given. */
        if (value[0] != '\0')
            set_text_argument(row, arguments, name, value);
    }
    return true;
}

static bool
take_body(const PhApiRequest *request, JsonObject *arguments, GError **error)
{
    if (request->length == 0)
        return true;
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    JsonNode *root = ph_json_parse(parser, request->body, request->length, error);
    if (root == NULL)
        return false;
    JsonObjectIter iter;
    const char *name;
    JsonNode *node;
    json_object_iter_init(&iter, json_node_get_object(root));
    while (json_object_iter_next(&iter, &name, &node))
        if (!JSON_NODE_HOLDS_NULL(node))
            json_object_set_member(arguments, name, json_node_copy(node));
    return true;
}

/* -- calls ------------------------------------------------------------------------------------- */

PH_IN_JOB static void
call_row(const PhApiRequest *request, const PhActionRow *row, char **segments,
    const PhCaller *caller, PhApiResponse *response)
{
    g_autoptr(JsonObject) arguments = json_object_new();
    g_autoptr(GHashTable) in_path = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_autofree char *route = ph_api_route(row);
    PhActionFailure failure = { 0 };
    bool in_query = strcmp(request->method, "GET") == 0 || strcmp(request->method, "DELETE") == 0;
    JsonObject *answer = NULL;
    fits(strchr(route, ' ') + 1, segments, in_path);
    if (in_query ? take_query(row, request->query, arguments, &failure.error)
                 : take_body(request, arguments, &failure.error)) {
        GHashTableIter iter;
        gpointer name;
        gpointer value;
        g_hash_table_iter_init(&iter, in_path);
        while (g_hash_table_iter_next(&iter, &name, &value))
            set_text_argument(row, arguments, name, value);
        answer = ph_action_call_blocking(row->name, arguments, caller, &failure);
    }
    if (answer != NULL) {
        ph_api_answer(response, answer);
        json_object_unref(answer);
    } else {
        fail(response, status_of(failure.error), &failure);
    }
    ph_action_failure_clear(&failure);
}

void
ph_api_call_blocking(const PhApiRequest *request, const PhCaller *caller, PhApiResponse *response)
{
    g_auto(GStrv) segments = split_path(request->path);
    g_autoptr(GString) allow = g_string_new(NULL);
    Match match = { .method = request->method, .segments = segments, .allow = allow };
    if (segments != NULL)
        ph_actions_each(match_row, &match);
    if (match.row != NULL) {
        call_row(request, match.row, segments, caller, response);
        ph_owner_unuse(match.owner);
    } else if (allow->len > 0) {
        response->allow = g_strdup(allow->str);
        ph_api_fail(response, 405,
            g_error_new(PH_ERROR, PH_ERROR_SYNTAX, "this path takes %s", allow->str));
    } else {
        ph_api_fail(response, 404,
            g_error_new(PH_ERROR, PH_ERROR_NOT_FOUND, "there is nothing at this path"));
    }
}

/* -- description ------------------------------------------------------------------------------- */

static const char *
argument_type_name(PhArgumentType type)
{
    static const char *const names[] = {
        [PH_ARGUMENT_TEXT] = "text",
        [PH_ARGUMENT_INT] = "int",
        [PH_ARGUMENT_BOOL] = "bool",
        [PH_ARGUMENT_SECRET] = "secret",
        [PH_ARGUMENT_DOCUMENT] = "document",
        [PH_ARGUMENT_SECRET_DOCUMENT] = "secret-document",
    };
    return names[type];
}

char *
ph_api_describe_arguments(const PhActionRow *row)
{
    g_autoptr(JsonArray) list = json_array_new();
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        JsonObject *shown = json_object_new();
        json_object_set_string_member(shown, "name", at->name);
        json_object_set_string_member(shown, "type", argument_type_name(at->type));
        json_object_set_boolean_member(shown, "required", (at->flags & PH_ARGUMENT_REQUIRED) != 0);
        json_object_set_boolean_member(
            shown, "positional", (at->flags & PH_ARGUMENT_POSITIONAL) != 0);
        json_object_set_string_member(shown, "help", at->help);
        if (at->choices != NULL)
            json_object_set_string_member(shown, "choices", at->choices);
        json_array_add_object_element(list, shown);
    }
    g_autoptr(JsonNode) root = json_node_alloc();
    json_node_init_array(root, list);
    return json_to_string(root, FALSE);
}

static JsonArray *
words_array(const char *words, const char *separator)
{
    g_auto(GStrv) list = g_strsplit(words, separator, -1);
    JsonArray *array = json_array_new();
    for (char **word = list; *word != NULL; word++)
        json_array_add_string_element(array, *word);
    return array;
}

static JsonObject *
argument_schema(const PhArgumentRow *row)
{
    JsonObject *schema = json_object_new();
    bool is_int = row->type == PH_ARGUMENT_INT;
    json_object_set_string_member(schema, "type",
        is_int                          ? "integer"
        : row->type == PH_ARGUMENT_BOOL ? "boolean"
                                        : "string");
    json_object_set_string_member(schema, "description", row->help);
    if (is_int && row->min < row->max) {
        json_object_set_int_member(schema, "minimum", row->min);
        json_object_set_int_member(schema, "maximum", row->max);
    }
    if (!is_int && row->max > 0)
        json_object_set_int_member(schema, "maxLength", row->max);
    if (row->choices != NULL)
        json_object_set_array_member(schema, "enum", words_array(row->choices, "|"));
    if (row->type == PH_ARGUMENT_SECRET || row->type == PH_ARGUMENT_SECRET_DOCUMENT)
        json_object_set_boolean_member(schema, "writeOnly", true);
    return schema;
}

static JsonObject *
answer_schema(const PhAnswerRow *row)
{
    static const char *const types[] = {
        [PH_ANSWER_TEXT] = "string",
        [PH_ANSWER_INT] = "integer",
        [PH_ANSWER_BOOL] = "boolean",
        [PH_ANSWER_TIME] = "string",
    };
    JsonObject *schema = json_object_new();
    json_object_set_string_member(schema, "type", types[row->type]);
    if (row->type == PH_ANSWER_TIME)
        json_object_set_string_member(schema, "format", "date-time");
    json_object_set_string_member(schema, "description", row->help);
    return schema;
}

/* The fields of the answer, or those of its items. */
static JsonObject *
fields_schema(const PhActionRow *row, unsigned flags)
{
    JsonObject *schema = json_object_new();
    JsonObject *properties = json_object_new();
    json_object_set_string_member(schema, "type", "object");
    for (const PhAnswerRow *at = row->answers; at != NULL && at->name != NULL; at++) {
        if ((at->flags & PH_ANSWER_OF_ITEM) != flags)
            continue;
        if (strchr(at->name, '*') != NULL)
            json_object_set_boolean_member(schema, "additionalProperties", true);
        else
            json_object_set_object_member(properties, at->name, answer_schema(at));
    }
    json_object_set_object_member(schema, "properties", properties);
    return schema;
}

static bool
is_list(const PhActionRow *row)
{
    for (const PhAnswerRow *at = row->answers; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ANSWER_OF_ITEM) != 0)
            return true;
    return false;
}

static JsonObject *
content_of(const char *type, JsonObject *schema)
{
    JsonObject *content = json_object_new();
    JsonObject *media = json_object_new();
    json_object_set_object_member(media, "schema", schema);
    json_object_set_object_member(content, type, media);
    return content;
}

static JsonObject *
good_response(const PhActionRow *row)
{
    JsonObject *schema = fields_schema(row, 0);
    if (is_list(row)) {
        JsonObject *properties = json_object_get_object_member(schema, "properties");
        JsonObject *items = json_object_new();
        JsonObject *next = json_object_new();
        json_object_set_string_member(items, "type", "array");
        json_object_set_object_member(items, "items", fields_schema(row, PH_ANSWER_OF_ITEM));
        json_object_set_object_member(properties, "items", items);
        json_object_set_string_member(next, "type", "string");
        json_object_set_string_member(next, "description", "more: pass it as \"after\"");
        json_object_set_object_member(properties, "next", next);
    }
    JsonObject *response = json_object_new();
    json_object_set_string_member(response, "description", "done");
    json_object_set_object_member(response, "content", content_of("application/json", schema));
    return response;
}

static JsonObject *
reference(const char *target)
{
    JsonObject *object = json_object_new();
    json_object_set_string_member(object, "$ref", target);
    return object;
}

static bool
is_in_path(const char *route, const char *name)
{
    g_autofree char *place = g_strconcat("{", name, "}", NULL);
    return strstr(route, place) != NULL;
}

/* Arguments of the path and query as parameters, those of the body as a schema. */
static void
describe_input(const PhActionRow *row, const char *route, bool in_query, JsonObject *operation)
{
    JsonArray *parameters = json_array_new();
    JsonObject *properties = json_object_new();
    JsonArray *required = json_array_new();
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        bool in_path = is_in_path(route, at->name);
        bool needed = in_path || (at->flags & PH_ARGUMENT_REQUIRED) != 0;
        if (!in_path && !in_query) {
            json_object_set_object_member(properties, at->name, argument_schema(at));
            if (needed)
                json_array_add_string_element(required, at->name);
            continue;
        }
        JsonObject *parameter = json_object_new();
        json_object_set_string_member(parameter, "name", at->name);
        json_object_set_string_member(parameter, "in", in_path ? "path" : "query");
        json_object_set_boolean_member(parameter, "required", needed);
        json_object_set_string_member(parameter, "description", at->help);
        json_object_set_object_member(parameter, "schema", argument_schema(at));
        json_array_add_object_element(parameters, parameter);
    }
    json_object_set_array_member(operation, "parameters", parameters);
    if (json_object_get_size(properties) == 0) {
        json_object_unref(properties);
        json_array_unref(required);
        return;
    }
    JsonObject *schema = json_object_new();
    JsonObject *body = json_object_new();
    json_object_set_string_member(schema, "type", "object");
    json_object_set_boolean_member(schema, "additionalProperties", false);
    json_object_set_object_member(schema, "properties", properties);
    json_object_set_boolean_member(body, "required", json_array_get_length(required) > 0);
    json_object_set_array_member(schema, "required", required);
    json_object_set_object_member(body, "content", content_of("application/json", schema));
    json_object_set_object_member(operation, "requestBody", body);
}

static void
describe_row(const char *plugin, const PhActionRow *row, void *data)
{
    JsonObject *paths = data;
    g_autofree char *route = ph_api_route(row);
    char *path = strchr(route, ' ');
    *path++ = '\0';
    g_autofree char *method = g_ascii_strdown(route, -1);
    JsonObject *operation = json_object_new();
    JsonObject *responses = json_object_new();
    g_autofree char *area = g_strndup(row->name, strcspn(row->name, "."));
    json_object_set_string_member(operation, "operationId", row->name);
    json_object_set_string_member(operation, "summary", row->help);
    json_object_set_array_member(operation, "tags", words_array(area, "|"));
    json_object_set_string_member(operation, "x-role", ph_role_name(row->role));
    json_object_set_string_member(operation, "x-plugin", plugin);
    describe_input(
        row, path, strcmp(method, "get") == 0 || strcmp(method, "delete") == 0, operation);
    json_object_set_object_member(responses, "200", good_response(row));
    json_object_set_object_member(
        responses, "default", reference("#/components/responses/Problem"));
    json_object_set_object_member(operation, "responses", responses);
    if (!json_object_has_member(paths, path))
        json_object_set_object_member(paths, path, json_object_new());
    json_object_set_object_member(json_object_get_object_member(paths, path), method, operation);
}

/* What is not made from rows: the problem, and how a caller says who it is. */
static const char fixed_components[] =
    "{\"responses\":{\"Problem\":{\"description\":\"it was not done\",\"content\":"
    "{\"application/problem+json\":{\"schema\":{\"$ref\":\"#/components/schemas/Problem\"}}}}},"
    "\"schemas\":{\"Problem\":{\"type\":\"object\",\"required\":[\"status\",\"code\",\"detail\"],"
    "\"properties\":{\"type\":{\"type\":\"string\"},\"title\":{\"type\":\"string\"},"
    "\"status\":{\"type\":\"integer\"},\"detail\":{\"type\":\"string\"},"
    "\"code\":{\"type\":\"string\"},\"argument\":{\"type\":\"string\"},"
    "\"current\":{\"type\":\"object\"}}}},"
    "\"securitySchemes\":{\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\",\"name\":\"" PH_CONSOLE_COOKIE
    "\"},\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}}}";

char *
ph_api_document(void)
{
    g_autoptr(JsonObject) document = json_object_new();
    JsonObject *info = json_object_new();
    JsonObject *paths = json_object_new();
    JsonArray *servers = json_array_new();
    JsonObject *server = json_object_new();
    g_autoptr(JsonParser) parser = json_parser_new();
    json_object_set_string_member(document, "openapi", "3.1.0");
    json_object_set_string_member(info, "title", "Posthouse");
    json_object_set_string_member(info, "version", PH_VERSION);
    json_object_set_object_member(document, "info", info);
    json_object_set_string_member(server, "url", "/api/v1");
    json_array_add_object_element(servers, server);
    json_object_set_array_member(document, "servers", servers);
    ph_actions_each(describe_row, paths);
    json_object_set_object_member(document, "paths", paths);
    if (json_parser_load_from_data(parser, fixed_components, -1, NULL))
        json_object_set_member(
            document, "components", json_node_copy(json_parser_get_root(parser)));
    return ph_json_format(document);
}
