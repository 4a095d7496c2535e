/* response.c - "res": what a page answers
 *
 * Everything that goes into the head is checked here: a name is a token, a value holds no control
 * character, and what the server says itself (lengths, connection, date) is not taken.
 */
#include "lua/sandbox.h"
#include "lua/scripts.h"
#include "lua/watch.h"

#include <string.h>

enum { HEADERS_MAX = 100, HEADER_BYTES = 16 * 1024 };

static const char response_key = 's';

static PhLuaCall *
check_response(lua_State *lua)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    if (call->response == NULL)
        luaL_error(lua, "there is no response under way");
    return call;
}

void
ph_lua_page_write(lua_State *lua, const char *text, size_t length)
{
    PhLuaCall *call = check_response(lua);
    ph_lua_tick(lua);
    if (call->out->len + length > call->out_max_bytes) {
        call->is_too_large = true;
        luaL_error(lua, "the page writes more than %d bytes", (int)call->out_max_bytes);
    }
    g_byte_array_append(call->out, (const guint8 *)text, (guint)length);
}

/* -- head -------------------------------------------------------------------------------------- */

static bool
is_token(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (!g_ascii_isalnum(*at) && strchr("!#$%&'*+-.^_`|~", *at) == NULL)
            return false;
    return text[0] != '\0';
}

static bool
has_control(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == 0x7f)
            return true;
    return false;
}

static bool
is_servers_own(const char *name)
{
    static const char *const names[] = { "content-length", "transfer-encoding", "connection",
        "date", "keep-alive", "upgrade", "trailer", "te" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (g_ascii_strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static bool
may_come_twice(const char *name)
{
    static const char *const names[] = { "set-cookie", "link", "vary", "www-authenticate",
        "cache-control", "content-security-policy", "warning" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (g_ascii_strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

/* The place of the header of that name, or the length. */
static guint
find_header(const GPtrArray *headers, const char *name)
{
    guint i = 0;
    while (i < headers->len && g_ascii_strcasecmp(headers->pdata[i], name) != 0)
        i += 2;
    return i;
}

void
ph_lua_page_header(lua_State *lua, const char *name, const char *value)
{
    GPtrArray *headers = check_response(lua)->response->headers;
    if (!is_token(name))
        luaL_error(lua, "\"%s\" is no name of a header", name);
    if (is_servers_own(name))
        luaL_error(lua, "the server itself says \"%s\"", name);
    if (has_control(value))
        luaL_error(lua, "the value of \"%s\" holds a control character", name);
    if (strlen(value) > HEADER_BYTES || headers->len >= (guint)(2 * HEADERS_MAX))
        luaL_error(lua, "the head of the response is too large");
    guint at = find_header(headers, name);
    if (at < headers->len && !may_come_twice(name)) {
        g_free(headers->pdata[at + 1]);
        headers->pdata[at + 1] = g_strdup(value);
        return;
    }
    g_ptr_array_add(headers, g_strdup(name));
    g_ptr_array_add(headers, g_strdup(value));
}

static int
response_header(lua_State *lua)
{
    const char *name = ph_lua_check_text(lua, 2);
    luaL_checkany(lua, 3);
    ph_lua_page_header(lua, name, ph_lua_check_text(lua, 3));
    lua_settop(lua, 1);
    return 1;
}

static void
set_status(lua_State *lua, lua_Integer status, int argument)
{
    luaL_argcheck(lua, status >= 200 && status <= 599, argument, "a status is from 200 to 599");
    check_response(lua)->response->status = (int)status;
}

/* res:redirect(url [, status]) */
static int
response_redirect(lua_State *lua)
{
    const char *url = ph_lua_check_text(lua, 2);
    lua_Integer status = luaL_optinteger(lua, 3, 302);
    luaL_argcheck(lua, url[0] != '\0' && !has_control(url) && strchr(url, ' ') == NULL, 2,
        "a URL without blanks expected");
    luaL_argcheck(lua, (status >= 301 && status <= 303) || status == 307 || status == 308, 3,
        "301, 302, 303, 307 or 308 expected");
    set_status(lua, status, 3);
    ph_lua_page_header(lua, "Location", url);
    return 0;
}

/* -- cookies ----------------------------------------------------------------------------------- */

static void
append_encoded(GString *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte <= ' ' || byte >= 0x7f || strchr("\"%,;\\", (char)byte) != NULL)
            g_string_append_printf(out, "%%%02X", byte);
        else
            g_string_append_c(out, (char)byte);
    }
}

/* A field of the options at 4 as text without ";", or null. */
static const char *
option_text(lua_State *lua, const char *name)
{
    if (lua_isnoneornil(lua, 4) || lua_getfield(lua, 4, name) == LUA_TNIL)
        return NULL;
    const char *text = ph_lua_check_text(lua, -1);
    if (has_control(text) || strchr(text, ';') != NULL)
        luaL_error(lua, "\"%s\" of a cookie holds what it may not", name);
    return text;
}

static bool
option_flag(lua_State *lua, const char *name, bool fallback)
{
    if (lua_isnoneornil(lua, 4) || lua_getfield(lua, 4, name) == LUA_TNIL)
        return fallback;
    return lua_toboolean(lua, -1) != 0;
}

/* res:cookie(name, value [, { path, domain, max_age, secure, http_only, same_site }]) */
static int
response_cookie(lua_State *lua)
{
    size_t length;
    PhLuaCall *call = check_response(lua);
    const char *name = ph_lua_check_text(lua, 2);
    const char *value = luaL_checklstring(lua, 3, &length);
    lua_settop(lua, 4);
    if (!lua_isnil(lua, 4))
        luaL_checktype(lua, 4, LUA_TTABLE);
    luaL_argcheck(lua, is_token(name), 2, "a name of letters, digits and the like expected");
    luaL_argcheck(lua, length <= 4096, 3, "a cookie has at most 4096 bytes");
    const char *path = option_text(lua, "path");
    const char *domain = option_text(lua, "domain");
    const char *age = option_text(lua, "max_age");
    const char *same_site = option_text(lua, "same_site");
    bool is_secure = option_flag(
        lua, "secure", call->request != NULL && g_strcmp0(call->request->scheme, "https") == 0);
    bool is_http_only = option_flag(lua, "http_only", true);
    if (same_site != NULL && strcmp(same_site, "Lax") != 0 && strcmp(same_site, "Strict") != 0 &&
        strcmp(same_site, "None") != 0)
        return luaL_error(lua, "\"same_site\" is Lax, Strict or None");

    if (call->scratch == NULL)
        call->scratch = g_string_new(NULL);
    GString *text = call->scratch;
    g_string_assign(text, "");
    g_string_append_printf(text, "%s=", name);
    append_encoded(text, value, length);
    g_string_append_printf(text, "; Path=%s", path != NULL ? path : "/");
    if (domain != NULL)
        g_string_append_printf(text, "; Domain=%s", domain);
    if (age != NULL)
        g_string_append_printf(text, "; Max-Age=%s", age);
    g_string_append_printf(text, "; SameSite=%s", same_site != NULL ? same_site : "Lax");
    if (is_secure)
        g_string_append(text, "; Secure");
    if (is_http_only)
        g_string_append(text, "; HttpOnly");
    ph_lua_page_header(lua, "Set-Cookie", text->str);
    lua_settop(lua, 1);
    return 1;
}

/* -- body -------------------------------------------------------------------------------------- */

static int
response_write(lua_State *lua)
{
    int n = lua_gettop(lua);
    for (int i = 2; i <= n; i++) {
        size_t length;
        const char *text = luaL_checklstring(lua, i, &length);
        ph_lua_page_write(lua, text, length);
    }
    lua_settop(lua, 1);
    return 1;
}

/* res:json(value) */
static int
response_json(lua_State *lua)
{
    size_t length;
    luaL_checkany(lua, 2);
    ph_lua_page_header(lua, "Content-Type", "application/json");
    lua_pushcfunction(lua, ph_lua_json_encode);
    lua_pushvalue(lua, 2);
    lua_call(lua, 1, 1);
    const char *text = lua_tolstring(lua, -1, &length);
    ph_lua_page_write(lua, text, length);
    return 0;
}

/* res:sendfile(path): below the site's root */
static int
response_sendfile(lua_State *lua)
{
    PhLuaCall *call = check_response(lua);
    const char *path = ph_lua_check_text(lua, 2);
    if (*path == '/')
        path++;
    luaL_argcheck(lua, ph_lua_is_site_file(path), 2, "a file of the site that may be sent expected");
    g_free(call->response->send_file);
    call->response->send_file = g_strdup(path);
    return 0;
}

/* res:render(template [, data]) */
static int
response_render(lua_State *lua)
{
    check_response(lua);
    const char *path = ph_lua_check_text(lua, 2);
    lua_settop(lua, 3);
    ph_lua_run_template(lua, path, 3);
    return 0;
}

/* -- the object -------------------------------------------------------------------------------- */

static int
response_index(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 2);
    if (strcmp(name, "status") == 0) {
        lua_pushinteger(lua, check_response(lua)->response->status);
        return 1;
    }
    lua_settop(lua, 2);
    lua_rawget(lua, lua_upvalueindex(1));
    return 1;
}

static int
response_newindex(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 2);
    if (strcmp(name, "status") != 0)
        return luaL_error(lua, "only \"status\" of a response can be set; use res:header()");
    set_status(lua, luaL_checkinteger(lua, 3), 3);
    return 0;
}

static void
make_response(lua_State *lua)
{
    lua_newuserdatauv(lua, 0, 0);
    lua_createtable(lua, 0, 4);
    lua_createtable(lua, 0, 8);
    ph_lua_set_function(lua, "write", response_write);
    ph_lua_set_function(lua, "header", response_header);
    ph_lua_set_function(lua, "redirect", response_redirect);
    ph_lua_set_function(lua, "cookie", response_cookie);
    ph_lua_set_function(lua, "json", response_json);
    ph_lua_set_function(lua, "sendfile", response_sendfile);
    ph_lua_set_function(lua, "render", response_render);
    lua_pushcclosure(lua, response_index, 1);
    lua_setfield(lua, -2, "__index");
    ph_lua_set_function(lua, "__newindex", response_newindex);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_pushliteral(lua, "response");
    lua_setfield(lua, -2, "__name");
    lua_setmetatable(lua, -2);
    lua_pushvalue(lua, -1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &response_key);
}

void
ph_lua_push_response(lua_State *lua)
{
    if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &response_key) == LUA_TNIL) {
        lua_settop(lua, -2);
        make_response(lua);
    }
}
