/* string.c - the string library: Lua's own for what is simple, ours for what can run away */
#include "lua/pattern.h"
#include "lua/sandbox.h"
#include "lua/watch.h"

#include <lualib.h>
#include <string.h>

/* A position as scripts give it: from 1, or from the end when negative. 0-based here. */
static size_t
start_of(lua_Integer given, size_t length)
{
    if (given > 0)
        return (size_t)given - 1;
    if (given == 0 || given < -(lua_Integer)length)
        return 0;
    return length - (size_t)-given;
}

static void
push_capture(PhPattern *pattern, unsigned index, const char *start, const char *end)
{
    lua_State *lua = pattern->lua;
    if (index >= pattern->n_captures) {
        if (index != 0)
            luaL_error(lua, "invalid capture index %%%d", (int)index + 1);
        lua_pushlstring(lua, start, (size_t)(end - start));
        return;
    }
    ptrdiff_t length = pattern->captures[index].length;
    if (length == PH_CAPTURE_POSITION)
        lua_pushinteger(lua, pattern->captures[index].start - pattern->subject + 1);
    else
        lua_pushlstring(lua, pattern->captures[index].start, (size_t)MAX(length, 0));
}

/* All captures, or the whole match when there are none. */
static int
push_captures(PhPattern *pattern, const char *start, const char *end)
{
    unsigned n = pattern->n_captures == 0 && start != NULL ? 1 : pattern->n_captures;
    luaL_checkstack(pattern->lua, (int)n, "too many captures");
    for (unsigned i = 0; i < n; i++)
        push_capture(pattern, i, start, end);
    return (int)n;
}

/* -- find and match ---------------------------------------------------------------------------- */

static bool
is_plain(const char *pattern, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (memchr("^$*+?.([%-", pattern[i], 10) != NULL)
            return false;
    return true;
}

static int
find_plain(lua_State *lua, const char *text, size_t length, size_t start, const char *wanted,
    size_t wanted_length)
{
    const char *found = wanted_length == 0
                            ? text + start
                            : memmem(text + start, length - start, wanted, wanted_length);
    if (found == NULL) {
        lua_pushnil(lua);
        return 1;
    }
    lua_pushinteger(lua, found - text + 1);
    lua_pushinteger(lua, found - text + (lua_Integer)wanted_length);
    return 2;
}

static int
find_or_match(lua_State *lua, bool is_find)
{
    size_t length;
    size_t pattern_length;
    const char *text = luaL_checklstring(lua, 1, &length);
    const char *pattern_text = luaL_checklstring(lua, 2, &pattern_length);
    size_t start = start_of(luaL_optinteger(lua, 3, 1), length);
    if (start > length) {
        lua_pushnil(lua);
        return 1;
    }
    if (is_find && (lua_toboolean(lua, 4) || is_plain(pattern_text, pattern_length)))
        return find_plain(lua, text, length, start, pattern_text, pattern_length);
    PhPattern pattern;
    ph_pattern_compile(&pattern, lua, pattern_text, pattern_length, true);
    ph_pattern_begin(&pattern, text, length);
    for (const char *at = text + start; at <= text + length; at++) {
        const char *end = ph_pattern_match(&pattern, at);
        if (end != NULL && is_find) {
            lua_pushinteger(lua, at - text + 1);
            lua_pushinteger(lua, end - text);
            return 2 + push_captures(&pattern, NULL, NULL);
        }
        if (end != NULL)
            return push_captures(&pattern, at, end);
        if (pattern.is_anchored)
            break;
    }
    lua_pushnil(lua);
    return 1;
}

static int
string_find(lua_State *lua)
{
    return find_or_match(lua, true);
}

static int
string_match(lua_State *lua)
{
    return find_or_match(lua, false);
}

/* -- gmatch ------------------------------------------------------------------------------------ */

/* Upvalues: text, pattern, the next place, the end of the last match (0-based; -1: none). */
static int
next_match(lua_State *lua)
{
    size_t length;
    size_t pattern_length;
    const char *text = lua_tolstring(lua, lua_upvalueindex(1), &length);
    const char *pattern_text = lua_tolstring(lua, lua_upvalueindex(2), &pattern_length);
    const char *at = text + lua_tointeger(lua, lua_upvalueindex(3));
    lua_Integer last = lua_tointeger(lua, lua_upvalueindex(4));
    PhPattern pattern;
    ph_pattern_compile(&pattern, lua, pattern_text, pattern_length, false);
    ph_pattern_begin(&pattern, text, length);
    for (; at <= text + length; at++) {
        const char *end = ph_pattern_match(&pattern, at);
        if (end == NULL || end - text == last)
            continue;
        lua_pushinteger(lua, end - text);
        lua_copy(lua, -1, lua_upvalueindex(3));
        lua_replace(lua, lua_upvalueindex(4));
        return push_captures(&pattern, at, end);
    }
    return 0;
}

static int
string_gmatch(lua_State *lua)
{
    size_t length;
    luaL_checklstring(lua, 1, &length);
    luaL_checkstring(lua, 2);
    size_t start = start_of(luaL_optinteger(lua, 3, 1), length);
    lua_settop(lua, 2);
    lua_pushinteger(lua, (lua_Integer)MIN(start, length + 1));
    lua_pushinteger(lua, -1);
    lua_pushcclosure(lua, next_match, 4);
    return 1;
}

/* -- gsub -------------------------------------------------------------------------------------- */

/* "%1" and the like in a replacement. */
static void
add_template(PhPattern *pattern, luaL_Buffer *out, const char *start, const char *end)
{
    size_t length;
    const char *text = lua_tolstring(pattern->lua, 3, &length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '%') {
            luaL_addchar(out, text[i]);
            continue;
        }
        i++;
        if (i < length && text[i] == '%') {
            luaL_addchar(out, '%');
        } else if (i < length && text[i] == '0') {
            luaL_addlstring(out, start, (size_t)(end - start));
        } else if (i < length && text[i] >= '1' && text[i] <= '9') {
            push_capture(pattern, (unsigned)(text[i] - '1'), start, end);
            luaL_tolstring(pattern->lua, -1, NULL);
            lua_remove(pattern->lua, -2);
            luaL_addvalue(out);
        } else {
            luaL_error(pattern->lua, "invalid use of '%%' in replacement string");
        }
    }
}

/* True when something else was put in the match's place. */
static bool
add_replacement(PhPattern *pattern, luaL_Buffer *out, const char *start, const char *end)
{
    lua_State *lua = pattern->lua;
    switch (lua_type(lua, 3)) {
    case LUA_TFUNCTION: {
        lua_pushvalue(lua, 3);
        int n = push_captures(pattern, start, end);
        lua_call(lua, n, 1);
        break;
    }
    case LUA_TTABLE:
        push_capture(pattern, 0, start, end);
        lua_gettable(lua, 3);
        break;
    default:
        add_template(pattern, out, start, end);
        return true;
    }
    if (!lua_toboolean(lua, -1)) {
        lua_settop(lua, -2);
        luaL_addlstring(out, start, (size_t)(end - start));
        return false;
    }
    if (!lua_isstring(lua, -1))
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    luaL_addvalue(out);
    return true;
}

static int
string_gsub(lua_State *lua)
{
    size_t length;
    size_t pattern_length;
    const char *text = luaL_checklstring(lua, 1, &length);
    const char *pattern_text = luaL_checklstring(lua, 2, &pattern_length);
    int type = lua_type(lua, 3);
    luaL_argexpected(lua,
        type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE,
        3, "string/function/table");
    lua_Integer most = luaL_optinteger(lua, 4, (lua_Integer)length + 1);
    PhPattern pattern;
    ph_pattern_compile(&pattern, lua, pattern_text, pattern_length, true);
    ph_pattern_begin(&pattern, text, length);
    luaL_Buffer out;
    luaL_buffinit(lua, &out);
    lua_Integer n = 0;
    bool changed = false;
    const char *at = text;
    const char *last = NULL;
    while (n < most) {
        const char *end = ph_pattern_match(&pattern, at);
        if (end != NULL && end != last) {
            n++;
            changed |= add_replacement(&pattern, &out, at, end);
            at = last = end;
        } else if (at < text + length) {
            luaL_addchar(&out, *at++);
        } else {
            break;
        }
        if (pattern.is_anchored)
            break;
    }
    if (changed) {
        luaL_addlstring(&out, at, (size_t)(text + length - at));
        luaL_pushresult(&out);
    } else {
        luaL_pushresult(&out);
        lua_pushvalue(lua, 1);
    }
    lua_pushinteger(lua, n);
    return 2;
}

/* -- rep and format ---------------------------------------------------------------------------- */

static int
string_rep(lua_State *lua)
{
    size_t length;
    size_t between_length;
    const char *text = luaL_checklstring(lua, 1, &length);
    lua_Integer n = luaL_checkinteger(lua, 2);
    const char *between = luaL_optlstring(lua, 3, "", &between_length);
    if (n <= 0 || length + between_length == 0) {
        lua_pushliteral(lua, "");
        return 1;
    }
    /* What is larger than the budget will not be had anyway. */
    size_t limit = ph_lua_budget_limit(ph_lua_state_of(lua)->budget);
    if ((size_t)n > limit / (length + between_length))
        return luaL_error(lua, "the resulting string is too large");
    luaL_Buffer out;
    luaL_buffinit(lua, &out);
    for (lua_Integer i = 0; i < n; i++) {
        if (i % 1024 == 0)
            ph_lua_tick(lua);
        if (i > 0)
            luaL_addlstring(&out, between, between_length);
        luaL_addlstring(&out, text, length);
    }
    luaL_pushresult(&out);
    return 1;
}

/* Without "%p", which tells where things are; the rest is Lua's. */
static int
string_format(lua_State *lua)
{
    const char *format = luaL_checkstring(lua, 1);
    for (const char *at = strchr(format, '%'); at != NULL; at = strchr(at, '%')) {
        at++;
        at += strspn(at, "-+ #0123456789.");
        if (*at == 'p')
            return luaL_error(lua, "\"%%p\" is not offered");
        if (*at != '\0')
            at++;
    }
    int n = lua_gettop(lua);
    for (int i = 2; i <= n; i++)
        if (!lua_isnoneornil(lua, i) && !lua_isboolean(lua, i) && !lua_isstring(lua, i)) {
            lua_pushcfunction(lua, ph_lua_tostring);
            lua_pushvalue(lua, i);
            lua_call(lua, 1, 1);
            lua_replace(lua, i);
        }
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, 1);
    return 1;
}

void
ph_lua_push_string_library(lua_State *lua)
{
    static const char *const kept[] = { "byte", "char", "len", "lower", "pack", "packsize",
        "reverse", "sub", "unpack", "upper" };
    lua_pushcfunction(lua, luaopen_string);
    lua_call(lua, 0, 1);
    lua_createtable(lua, 0, 20);
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++) {
        lua_getfield(lua, -2, kept[i]);
        lua_setfield(lua, -2, kept[i]);
    }
    lua_getfield(lua, -2, "format");
    lua_pushcclosure(lua, string_format, 1);
    lua_setfield(lua, -2, "format");
    lua_remove(lua, -2);
    ph_lua_set_function(lua, "find", string_find);
    ph_lua_set_function(lua, "match", string_match);
    ph_lua_set_function(lua, "gmatch", string_gmatch);
    ph_lua_set_function(lua, "gsub", string_gsub);
    ph_lua_set_function(lua, "rep", string_rep);
    /* Methods of strings are these; the metatable itself is shown to nobody. */
    lua_pushliteral(lua, "");
    lua_getmetatable(lua, -1);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_settop(lua, -3);
}
