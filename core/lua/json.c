/* json.c - posthouse.json
 *
 * Written for strangers' text: depth and sizes are bounded, numbers are read by g_ascii_strtod on a
 * checked span, strings must be UTF-8. Arrays keep that they are arrays through a metatable, so that
 * an empty one comes back as "[]".
 */
#include "lua/sandbox.h"
#include "lua/watch.h"

#include <math.h>
#include <string.h>

static const char array_key = 'a';
static const char null_key = 'n';

static void
push_null(lua_State *lua)
{
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &null_key);
}

static void
mark_array(lua_State *lua)
{
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &array_key);
    lua_setmetatable(lua, -2);
}

/* -- decoding ---------------------------------------------------------------------------------- */

typedef struct Reader {
    lua_State *lua;
    const char *start;
    const char *at;
    const char *end;
    unsigned depth;
} Reader;

static void
fail(Reader *reader, const char *what)
{
    luaL_error(reader->lua, "no JSON: %s at byte %d", what, (int)(reader->at - reader->start) + 1);
}

static void
skip_blanks(Reader *reader)
{
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4) != NULL)
        reader->at++;
}

static bool
take(Reader *reader, char byte)
{
    skip_blanks(reader);
    if (reader->at >= reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static unsigned
read_hex4(Reader *reader)
{
    unsigned value = 0;
    if (reader->end - reader->at < 4)
        fail(reader, "a short escape");
    for (int i = 0; i < 4; i++) {
        int digit = g_ascii_xdigit_value(*reader->at++);
        if (digit < 0)
            fail(reader, "a bad escape");
        value = value * 16 + (unsigned)digit;
    }
    return value;
}

static void
read_unicode(Reader *reader, luaL_Buffer *out)
{
    char bytes[6];
    unsigned character = read_hex4(reader);
    if (character >= 0xd800 && character < 0xdc00 && reader->end - reader->at >= 6 &&
        reader->at[0] == '\\' && reader->at[1] == 'u') {
        reader->at += 2;
        unsigned low = read_hex4(reader);
        if (low < 0xdc00 || low > 0xdfff)
            fail(reader, "half a character");
        character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
    }
    if (character >= 0xd800 && character <= 0xdfff)
        fail(reader, "half a character");
    luaL_addlstring(out, bytes, (size_t)g_unichar_to_utf8(character, bytes));
}

static void
read_escape(Reader *reader, luaL_Buffer *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (reader->at >= reader->end)
        fail(reader, "a string without an end");
    char byte = *reader->at++;
    const char *found = byte != '\0' ? strchr(from, byte) : NULL;
    if (byte == 'u')
        read_unicode(reader, out);
    else if (found != NULL)
        luaL_addchar(out, to[found - from]);
    else
        fail(reader, "a bad escape");
}

/* Behind the opening quote; the string is pushed. */
static void
read_string(Reader *reader)
{
    luaL_Buffer out;
    luaL_buffinit(reader->lua, &out);
    for (;;) {
        const char *run = reader->at;
        while (reader->at < reader->end && *reader->at != '"' && *reader->at != '\\' &&
               (unsigned char)*reader->at >= ' ')
            reader->at++;
        luaL_addlstring(&out, run, (size_t)(reader->at - run));
        if (reader->at >= reader->end)
            fail(reader, "a string without an end");
        char byte = *reader->at++;
        if (byte == '"')
            break;
        if (byte != '\\')
            fail(reader, "a control character in a string");
        read_escape(reader, &out);
    }
    luaL_pushresult(&out);
}

static void
skip_digits(Reader *reader)
{
    const char *from = reader->at;
    while (reader->at < reader->end && g_ascii_isdigit(*reader->at))
        reader->at++;
    if (reader->at == from)
        fail(reader, "a bad number");
}

static void
read_number(Reader *reader)
{
    const char *from = reader->at;
    bool is_integer = true;
    if (*reader->at == '-')
        reader->at++;
    if (reader->at < reader->end && *reader->at == '0')
        reader->at++;
    else
        skip_digits(reader);
    if (reader->at < reader->end && *reader->at == '.') {
        is_integer = false;
        reader->at++;
        skip_digits(reader);
    }
    if (reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        is_integer = false;
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
            reader->at++;
        skip_digits(reader);
    }
    char text[64];
    size_t length = (size_t)(reader->at - from);
    if (length >= sizeof(text))
        fail(reader, "a number that is too long");
    memcpy(text, from, length);
    text[length] = '\0';
    gint64 integer;
    if (is_integer && g_ascii_string_to_signed(text, 10, INT64_MIN, INT64_MAX, &integer, NULL))
        lua_pushinteger(reader->lua, integer);
    else
        lua_pushnumber(reader->lua, g_ascii_strtod(text, NULL));
}

static bool
read_word(Reader *reader, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static void read_value(Reader *reader);

static void
read_array(Reader *reader)
{
    lua_newtable(reader->lua);
    mark_array(reader->lua);
    if (take(reader, ']'))
        return;
    for (lua_Integer i = 1;; i++) {
        read_value(reader);
        lua_rawseti(reader->lua, -2, i);
        if (take(reader, ']'))
            return;
        if (!take(reader, ','))
            fail(reader, "a \",\" or \"]\" is missing");
    }
}

static void
read_object(Reader *reader)
{
    lua_newtable(reader->lua);
    if (take(reader, '}'))
        return;
    for (;;) {
        if (!take(reader, '"'))
            fail(reader, "a name is missing");
        read_string(reader);
        if (!take(reader, ':'))
            fail(reader, "a \":\" is missing");
        read_value(reader);
        lua_rawset(reader->lua, -3);
        if (take(reader, '}'))
            return;
        if (!take(reader, ','))
            fail(reader, "a \",\" or \"}\" is missing");
    }
}

static void
read_value(Reader *reader)
{
    lua_State *lua = reader->lua;
    ph_lua_tick(lua);
    skip_blanks(reader);
    if (reader->at >= reader->end)
        fail(reader, "it ends too early");
    if (++reader->depth > PH_LUA_JSON_DEPTH)
        fail(reader, "it is nested too deeply");
    luaL_checkstack(lua, 8, "JSON");
    if (take(reader, '{'))
        read_object(reader);
    else if (take(reader, '['))
        read_array(reader);
    else if (take(reader, '"'))
        read_string(reader);
    else if (read_word(reader, "true"))
        lua_pushboolean(lua, 1);
    else if (read_word(reader, "false"))
        lua_pushboolean(lua, 0);
    else if (read_word(reader, "null"))
        push_null(lua);
    else if (*reader->at == '-' || g_ascii_isdigit(*reader->at))
        read_number(reader);
    else
        fail(reader, "something unexpected");
    reader->depth--;
}

/* Raises an error that says where. */
int
ph_lua_json_decode(lua_State *lua)
{
    size_t length;
    const char *text = luaL_checklstring(lua, 1, &length);
    Reader reader = { lua, text, text, text + length, 0 };
    if (!g_utf8_validate_len(text, length, NULL))
        return luaL_error(lua, "no JSON: the text is no UTF-8");
    read_value(&reader);
    skip_blanks(&reader);
    if (reader.at != reader.end)
        fail(&reader, "something follows the value");
    return 1;
}

/* -- encoding ---------------------------------------------------------------------------------- */

static void
write_string(lua_State *lua, GString *out, const char *text, size_t length)
{
    if (!g_utf8_validate_len(text, length, NULL)) {
        luaL_error(lua, "a string that is no UTF-8 cannot be JSON");
        return;
    }
    g_string_append_c(out, '"');
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\')
            g_string_append_c(out, '\\');
        if (byte < ' ')
            g_string_append_printf(out, "\\u%04x", byte);
        else if (byte == '<' || byte == '>' || byte == '&')
            g_string_append_printf(out, "\\u%04x", byte); /* safe within HTML */
        else
            g_string_append_c(out, (char)byte);
    }
    g_string_append_c(out, '"');
}

static void write_value(lua_State *lua, GString *out, int index, unsigned depth);

/* Grown by at most what the budget allows: the text is not on the state's own memory. */
static void
check_size(lua_State *lua, const GString *out)
{
    ph_lua_tick(lua);
    if (out->len > ph_lua_budget_limit(ph_lua_state_of(lua)->budget) / 2)
        luaL_error(lua, "the JSON is too large");
}

static bool
is_array(lua_State *lua, int index)
{
    if (lua_getmetatable(lua, index)) {
        lua_rawgetp(lua, LUA_REGISTRYINDEX, &array_key);
        bool marked = lua_rawequal(lua, -1, -2) != 0;
        lua_settop(lua, -3);
        if (marked)
            return true;
    }
    return lua_rawlen(lua, index) > 0;
}

static void
write_array(lua_State *lua, GString *out, int index, unsigned depth)
{
    lua_Integer n = (lua_Integer)lua_rawlen(lua, index);
    g_string_append_c(out, '[');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1)
            g_string_append_c(out, ',');
        lua_rawgeti(lua, index, i);
        write_value(lua, out, lua_gettop(lua), depth);
        lua_settop(lua, -2);
    }
    g_string_append_c(out, ']');
}

static void
write_object(lua_State *lua, GString *out, int index, unsigned depth)
{
    bool is_first = true;
    g_string_append_c(out, '{');
    for (lua_pushnil(lua); lua_next(lua, index) != 0; lua_settop(lua, -2)) {
        if (lua_type(lua, -2) != LUA_TSTRING && lua_type(lua, -2) != LUA_TNUMBER)
            luaL_error(lua, "a name that is a %s cannot be JSON", luaL_typename(lua, -2));
        if (!is_first)
            g_string_append_c(out, ',');
        is_first = false;
        size_t length;
        lua_pushvalue(lua, -2);
        const char *name = lua_tolstring(lua, -1, &length);
        write_string(lua, out, name, length);
        g_string_append_c(out, ':');
        lua_settop(lua, -2);
        write_value(lua, out, lua_gettop(lua), depth);
    }
    g_string_append_c(out, '}');
}

static void
write_number(lua_State *lua, GString *out, int index)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];
    if (lua_isinteger(lua, index)) {
        g_string_append_printf(out, "%" G_GINT64_FORMAT, (gint64)lua_tointeger(lua, index));
        return;
    }
    lua_Number number = lua_tonumber(lua, index);
    if (!isfinite(number))
        luaL_error(lua, "a number without end cannot be JSON");
    g_string_append(out, g_ascii_formatd(text, sizeof(text), "%.17g", number));
}

static void
write_value(lua_State *lua, GString *out, int index, unsigned depth)
{
    size_t length;
    check_size(lua, out);
    if (depth >= PH_LUA_JSON_DEPTH)
        luaL_error(lua, "what is nested so deeply cannot be JSON");
    luaL_checkstack(lua, 8, "JSON");
    push_null(lua);
    bool is_null = lua_rawequal(lua, index, -1) != 0;
    lua_settop(lua, -2);
    switch (lua_type(lua, index)) {
    case LUA_TNIL:
        g_string_append(out, "null");
        break;
    case LUA_TBOOLEAN:
        g_string_append(out, lua_toboolean(lua, index) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        write_number(lua, out, index);
        break;
    case LUA_TSTRING: {
        const char *text = lua_tolstring(lua, index, &length);
        write_string(lua, out, text, length);
        break;
    }
    case LUA_TTABLE:
        if (is_array(lua, index))
            write_array(lua, out, index, depth + 1);
        else
            write_object(lua, out, index, depth + 1);
        break;
    default:
        if (!is_null)
            luaL_error(lua, "a %s cannot be JSON", luaL_typename(lua, index));
        g_string_append(out, "null");
    }
}

/* Both steps may fail for want of memory, so both are within the protected call. */
static int
run_encode(lua_State *lua)
{
    GString *out = lua_touserdata(lua, 1);
    write_value(lua, out, 2, 0);
    lua_pushlstring(lua, out->str, out->len);
    return 1;
}

/* The text grows outside of Lua, so errors pass through here to free it. */
int
ph_lua_json_encode(lua_State *lua)
{
    luaL_checkany(lua, 1);
    lua_settop(lua, 1);
    GString *out = g_string_new(NULL);
    lua_pushcfunction(lua, run_encode);
    lua_pushlightuserdata(lua, out);
    lua_pushvalue(lua, 1);
    int status = lua_pcall(lua, 2, 1, 0);
    g_string_free(out, TRUE);
    return status == LUA_OK ? 1 : lua_error(lua);
}

static int
json_array(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 1);
    if (luaL_getmetafield(lua, 1, "__metatable") != LUA_TNIL)
        return luaL_error(lua, "cannot change a protected metatable");
    mark_array(lua);
    return 1;
}

static int
null_text(lua_State *lua)
{
    lua_pushliteral(lua, "null");
    return 1;
}

void
ph_lua_push_json(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    lua_pushliteral(lua, "array");
    lua_setfield(lua, -2, "__name");
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &array_key);

    lua_newuserdatauv(lua, 0, 0);
    lua_createtable(lua, 0, 2);
    ph_lua_set_function(lua, "__tostring", null_text);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_setmetatable(lua, -2);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &null_key);

    lua_createtable(lua, 0, 4);
    ph_lua_set_function(lua, "encode", ph_lua_json_encode);
    ph_lua_set_function(lua, "decode", ph_lua_json_decode);
    ph_lua_set_function(lua, "array", json_array);
    push_null(lua);
    lua_setfield(lua, -2, "null");
}
