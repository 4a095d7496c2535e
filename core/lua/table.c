/* table.c - the table library, on tables as they are
 *
 * Lua's own goes through metamethods, and through as many places as "#" says: with a length of
 * 2^53 it loops in C for days. Here nothing calls a metamethod (but for concat's and sort's
 * elements), and every loop ends with its call.
 */
#include "lua/sandbox.h"
#include "lua/watch.h"

#include <lualib.h>

static lua_Integer
check_table(lua_State *lua, int argument)
{
    luaL_checktype(lua, argument, LUA_TTABLE);
    return (lua_Integer)lua_rawlen(lua, argument);
}

static int
table_insert(lua_State *lua)
{
    lua_Integer end = check_table(lua, 1) + 1;
    lua_Integer at = end;
    switch (lua_gettop(lua)) {
    case 2:
        break;
    case 3:
        at = luaL_checkinteger(lua, 2);
        luaL_argcheck(lua, at >= 1 && at <= end, 2, "position out of bounds");
        break;
    default:
        return luaL_error(lua, "wrong number of arguments to 'insert'");
    }
    for (lua_Integer i = end; i > at; i--) {
        ph_lua_tick(lua);
        lua_rawgeti(lua, 1, i - 1);
        lua_rawseti(lua, 1, i);
    }
    lua_rawseti(lua, 1, at);
    return 0;
}

static int
table_remove(lua_State *lua)
{
    lua_Integer size = check_table(lua, 1);
    lua_Integer at = luaL_optinteger(lua, 2, size);
    if (!lua_isnoneornil(lua, 2))
        luaL_argcheck(lua, (at >= 1 && at <= size + 1) || (size == 0 && (at == 0 || at == size)), 2,
            "position out of bounds");
    lua_rawgeti(lua, 1, at);
    for (; at < size; at++) {
        ph_lua_tick(lua);
        lua_rawgeti(lua, 1, at + 1);
        lua_rawseti(lua, 1, at);
    }
    lua_pushnil(lua);
    lua_rawseti(lua, 1, at);
    return 1;
}

static int
table_move(lua_State *lua)
{
    lua_Integer first = luaL_checkinteger(lua, 2);
    lua_Integer last = luaL_checkinteger(lua, 3);
    lua_Integer to = luaL_checkinteger(lua, 4);
    int target = lua_isnoneornil(lua, 5) ? 1 : 5;
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, target, LUA_TTABLE);
    if (last >= first) {
        luaL_argcheck(
            lua, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
        lua_Integer n = last - first + 1;
        luaL_argcheck(lua, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
        bool forward = to > last || to <= first || target != 1;
        for (lua_Integer i = 0; i < n; i++) {
            lua_Integer step = forward ? i : n - 1 - i;
            ph_lua_tick(lua);
            lua_rawgeti(lua, 1, first + step);
            lua_rawseti(lua, target, to + step);
        }
    }
    lua_pushvalue(lua, target);
    return 1;
}

static int
table_concat(lua_State *lua)
{
    size_t between_length;
    lua_Integer last = check_table(lua, 1);
    const char *between = luaL_optlstring(lua, 2, "", &between_length);
    lua_Integer first = luaL_optinteger(lua, 3, 1);
    last = luaL_optinteger(lua, 4, last);
    luaL_Buffer out;
    luaL_buffinit(lua, &out);
    for (lua_Integer i = first; i <= last; i++) {
        ph_lua_tick(lua);
        lua_rawgeti(lua, 1, i);
        if (!lua_isstring(lua, -1))
            return luaL_error(
                lua, "invalid value (at index %I) in table for 'concat'", (LUAI_UACINT)i);
        luaL_addvalue(&out);
        if (i == last) /* also the largest integer has an end */
            break;
        luaL_addlstring(&out, between, between_length);
    }
    luaL_pushresult(&out);
    return 1;
}

/* -- sort: a heap, in place: no recursion, and no bad case ------------------------------------- */

/* Is the element at `a` before that at `b` (indexes on the stack)? */
static bool
is_before(lua_State *lua, int a, int b)
{
    if (lua_isnil(lua, 2))
        return lua_compare(lua, a, b, LUA_OPLT) != 0;
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, a - 1);
    lua_pushvalue(lua, b - 2);
    lua_call(lua, 2, 1);
    bool before = lua_toboolean(lua, -1) != 0;
    lua_settop(lua, -2);
    return before;
}

/* The value on the top of the stack goes into the heap 1..n at `at` or below; it is taken. */
static void
sift(lua_State *lua, lua_Integer at, lua_Integer n)
{
    while (at <= n / 2) {
        ph_lua_tick(lua);
        lua_Integer child = 2 * at;
        lua_rawgeti(lua, 1, child);
        if (child < n) {
            lua_rawgeti(lua, 1, child + 1);
            if (is_before(lua, -2, -1)) {
                lua_remove(lua, -2);
                child++;
            } else {
                lua_settop(lua, -2);
            }
        }
        if (!is_before(lua, -2, -1)) {
            lua_settop(lua, -2);
            break;
        }
        lua_rawseti(lua, 1, at);
        at = child;
    }
    lua_rawseti(lua, 1, at);
}

int
ph_lua_sort(lua_State *lua)
{
    lua_Integer n = check_table(lua, 1);
    luaL_argcheck(lua, n < INT32_MAX, 1, "array too big");
    if (!lua_isnoneornil(lua, 2))
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    luaL_checkstack(lua, 10, NULL);
    for (lua_Integer at = n / 2; at >= 1; at--) {
        lua_rawgeti(lua, 1, at);
        sift(lua, at, n);
    }
    for (lua_Integer last = n; last > 1; last--) {
        lua_rawgeti(lua, 1, last);
        lua_rawgeti(lua, 1, 1);
        lua_rawseti(lua, 1, last);
        sift(lua, 1, last - 1);
    }
    return 0;
}

void
ph_lua_push_table_library(lua_State *lua)
{
    static const char *const kept[] = { "pack", "unpack" };
    lua_pushcfunction(lua, luaopen_table);
    lua_call(lua, 0, 1);
    lua_createtable(lua, 0, 8);
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++) {
        lua_getfield(lua, -2, kept[i]);
        lua_setfield(lua, -2, kept[i]);
    }
    lua_remove(lua, -2);
    ph_lua_set_function(lua, "concat", table_concat);
    ph_lua_set_function(lua, "insert", table_insert);
    ph_lua_set_function(lua, "move", table_move);
    ph_lua_set_function(lua, "remove", table_remove);
    ph_lua_set_function(lua, "sort", ph_lua_sort);
}
