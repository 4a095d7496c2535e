/* actions-json.c - fuzz target: requests of the control socket, up to where an action would ask the
 * store.
 *
 * The caller may call nothing, so that no action runs: what is checked is the dispatcher, its JSON
 * and its answers. No store is open. */
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
    for (const PhActionRow *row = ph_core_actions; row->name != NULL; row++)
        g_assert_cmpint(row->role, >, PH_ROLE_USER);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ph_assert_in_job();
    init_once();
    const PhCaller nobody = { .actor = "nobody", .origin = "fuzz", .role = PH_ROLE_USER };
    g_autofree char *answer = ph_action_dispatch_blocking((const char *)data, size, &nobody);
    g_assert_nonnull(answer);
    g_assert_null(strchr(answer, '\n'));
    g_autoptr(JsonNode) root = json_from_string(answer, NULL);
    g_assert_nonnull(root);
    JsonObject *object = json_node_get_object(root);
    g_assert_false(json_object_get_boolean_member(object, "ok"));
    g_assert_nonnull(json_object_get_object_member(object, "error"));
    return 0;
}
