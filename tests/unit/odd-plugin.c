/* odd-plugin.c - plugins that must not be taken, for test-runtime-plugin: ODD says what is wrong
 * with this one */
#include "posthouse/plugin.h"

#define ODD_ABI 1
#define ODD_SIZE 2
#define ODD_SYMBOL 3
#define ODD_START 4

#if ODD == ODD_START
static bool
start(void **state_out, GError **error)
{
    (void)state_out;
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "the moon is full");
    return false;
}
#endif

#if ODD == ODD_SYMBOL
#define posthouse_plugin some_other_symbol
#endif

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
#if ODD == ODD_ABI
    .abi = 2 << 16 | 7,
#else
    .abi = PH_PLUGIN_ABI,
#endif
#if ODD == ODD_SIZE
    .size = offsetof(PhPlugin, actions),
#else
    .size = sizeof(PhPlugin),
#endif
    .name = "odd",
    .summary = "must not be taken",
#if ODD == ODD_START
    .start = start,
#endif
};
