/* actions-json.c - fuzz target: requests of the control socket, up to where an action would run
 *
 * What would run is only checked: no store is open. What would not is dispatched: its answer is a refusal,
 * and JSON of one line. */
#include "management/actions.h"
#include "runtime/plugin-loader.h"

#include <json-glib/json-glib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
init_once(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    ph_plugins_init(g_get_tmp_dir(), g_get_tmp_dir());
}

static bool
would_run(const char *text, size_t length, const PhCaller *caller)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    JsonNode *root = ph_json_parse(parser, text, length, NULL);
    if (root == NULL)
        return false;
    JsonObject *request = json_node_get_object(root);
    JsonNode *name = json_object_get_member(request, "action");
    JsonNode *arguments = json_object_get_member(request, "args");
    if (name == NULL || !JSON_NODE_HOLDS_VALUE(name) || json_node_get_string(name) == NULL)
        return false;
    return ph_action_check(json_node_get_string(name),
        arguments != NULL && JSON_NODE_HOLDS_OBJECT(arguments) ? json_node_get_object(arguments)
                                                               : NULL,
        caller, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ph_assert_in_job();
    init_once();
    static const PhRole roles[] = { PH_ROLE_USER, PH_ROLE_TENANT, PH_ROLE_OPERATOR };
    for (size_t i = 0; i < G_N_ELEMENTS(roles); i++) {
        const PhCaller caller = { .actor = "somebody", .origin = "fuzz", .role = roles[i] };
        if (would_run((const char *)data, size, &caller))
            continue;
        g_autofree char *answer = ph_action_dispatch_blocking((const char *)data, size, &caller);
        g_assert_nonnull(answer);
        g_assert_null(strchr(answer, '\n'));
        g_autoptr(JsonNode) root = json_from_string(answer, NULL);
        g_assert_nonnull(root);
        JsonObject *object = json_node_get_object(root);
        g_assert_false(json_object_get_boolean_member(object, "ok"));
        g_assert_nonnull(json_object_get_object_member(object, "error"));
    }
    return 0;
}
