/* lua-template.c - any text as a template, as JSON, or as a pattern and a subject
 *
 * The first byte chooses. What is made of a template keeps its lines; what is read as JSON can be
 * written again; a pattern (up to the first NUL) on the rest ends, one way or the other.
 */
#include "lua/sandbox.h"
#include "lua/scripts.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t
count_lines(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += text[i] == '\n';
    return n;
}

static void
try_template(const char *text, size_t length)
{
    int line = 0;
    const char *reason = NULL;
    g_autoptr(GString) out = g_string_new(NULL);
    if (ph_template_compile(text, length, out, &line, &reason)) {
        g_assert_cmpuint(count_lines(out->str, out->len), ==, count_lines(text, length));
        return;
    }
    g_assert_nonnull(reason);
    g_assert_cmpint(line, >=, 1);
    g_assert_cmpuint((size_t)line, <=, count_lines(text, length) + 1);
}

typedef struct Input {
    const char *text;
    size_t length;
    bool is_json;
} Input;

static int
run_input(lua_State *lua)
{
    const Input *input = lua_touserdata(lua, 1);
    const char *nul = memchr(input->text, '\0', input->length);
    size_t first = nul != NULL ? (size_t)(nul - input->text) : input->length;
    if (input->is_json) {
        lua_pushcfunction(lua, ph_lua_json_decode);
        lua_pushlstring(lua, input->text, input->length);
        lua_call(lua, 1, 1);
        lua_pushcfunction(lua, ph_lua_json_encode);
        lua_insert(lua, -2);
        lua_call(lua, 1, 1);
        return 0;
    }
    ph_lua_push_string_library(lua);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "find", "match", "gsub" };
        lua_getfield(lua, 2, names[i]);
        lua_pushlstring(lua, input->text + first, input->length - first);
        lua_pushlstring(lua, input->text, first);
        lua_pushliteral(lua, "<%0>");
        if (lua_pcall(lua, i == 2 ? 3 : 2, 1, 0) != LUA_OK)
            break; /* malformed, or too long: the others say the same */
        lua_settop(lua, 2);
    }
    return 0;
}

static void
try_in_lua(const char *text, size_t length, bool is_json)
{
    ph_assert_in_job();
    static PhLuaBudget budget = { .limit = 32 * 1024 * 1024 };
    static PhLuaState *state;
    if (state == NULL || state->is_spoiled) {
        ph_lua_state_free(state);
        state = ph_lua_state_new(&budget, NULL);
    }
    Input input = { text, length, is_json };
    PhLuaCall call = { .script = "fuzz", .deadline_us = ph_monotonic_us() + 500000 };
    g_autoptr(GError) error = NULL;
    ph_lua_state_run(state, &call, run_input, &input, &error);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0 || size > 64 * 1024)
        return 0;
    const char *text = (const char *)bytes + 1;
    if (bytes[0] % 3 == 0)
        try_template(text, size - 1);
    else
        try_in_lua(text, size - 1, bytes[0] % 3 == 1);
    return 0;
}
