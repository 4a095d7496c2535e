/* request.c - "req": what a page is asked, each part read when it is asked for
 *
 * One object a state. What was made of the request (tables of query, headers ...) is kept in its user
 * values until the next request.
 */
#include "lua/sandbox.h"
#include "lua/scripts.h"
#include "lua/watch.h"

#include <string.h>

enum { PAIRS_MAX = 1000 };

static const char request_key = 'r';

typedef enum Part {
    PART_QUERY = 1,
    PART_HEADERS,
    PART_COOKIES,
    PART_FORM,
    PART_JSON,
    PART_PEER,
    N_PARTS,
} Part;

typedef struct Request {
    unsigned made; /* 1 << Part, or-ed */
} Request;

const char *
ph_page_request_header(const PhPageRequest *request, const char *name)
{
    for (size_t i = 0; i < request->n_headers; i++)
        if (strcmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

/* -- names and values -------------------------------------------------------------------------- */

/* Decodes in place of the buffer: "%41" and, in forms, "+". */
static void
push_decoded(lua_State *lua, const char *text, size_t length, bool is_form)
{
    luaL_Buffer out;
    char *to = luaL_buffinitsize(lua, &out, length);
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '+' && is_form) {
            to[n++] = ' ';
        } else if (text[i] == '%' && i + 2 < length && g_ascii_isxdigit(text[i + 1]) &&
                   g_ascii_isxdigit(text[i + 2])) {
            to[n++] =
                (char)(g_ascii_xdigit_value(text[i + 1]) * 16 + g_ascii_xdigit_value(text[i + 2]));
            i += 2;
        } else {
            to[n++] = text[i];
        }
    }
    luaL_pushresultsize(&out, n);
}

/* Name and value are on the top; of a name that comes twice the first counts. */
static void
set_first(lua_State *lua, int table)
{
    lua_pushvalue(lua, -2);
    if (lua_rawget(lua, table) != LUA_TNIL) {
        lua_settop(lua, -4);
        return;
    }
    lua_settop(lua, -2);
    lua_rawset(lua, table);
}

static void
push_form(lua_State *lua, const char *text, size_t length)
{
    const char *end = text + length;
    lua_newtable(lua);
    int table = lua_gettop(lua);
    for (unsigned n = 0; text < end && n < PAIRS_MAX; n++) {
        ph_lua_tick(lua);
        const char *stop = memchr(text, '&', (size_t)(end - text));
        if (stop == NULL)
            stop = end;
        const char *equals = memchr(text, '=', (size_t)(stop - text));
        const char *name_end = equals != NULL ? equals : stop;
        if (name_end > text) {
            push_decoded(lua, text, (size_t)(name_end - text), true);
            if (equals != NULL)
                push_decoded(lua, equals + 1, (size_t)(stop - equals - 1), true);
            else
                lua_pushliteral(lua, "");
            set_first(lua, table);
        }
        text = stop < end ? stop + 1 : end;
    }
}

static void
push_cookies(lua_State *lua, const PhPageRequest *request)
{
    const char *at = ph_page_request_header(request, "cookie");
    lua_newtable(lua);
    int table = lua_gettop(lua);
    for (unsigned n = 0; at != NULL && *at != '\0' && n < PAIRS_MAX; n++) {
        at += strspn(at, " \t;");
        size_t length = strcspn(at, ";");
        const char *equals = memchr(at, '=', length);
        if (equals != NULL && equals > at) {
            lua_pushlstring(lua, at, (size_t)(equals - at));
            push_decoded(lua, equals + 1, length - (size_t)(equals + 1 - at), false);
            set_first(lua, table);
        }
        at += length;
    }
}

/* A name that comes twice: the values divided by ", ", as RFC 9110 5.2 has it. */
static void
push_headers(lua_State *lua, const PhPageRequest *request)
{
    lua_createtable(lua, 0, (int)request->n_headers);
    for (size_t i = 0; i < request->n_headers; i++) {
        const PhPageHeader *header = &request->headers[i];
        lua_pushstring(lua, header->name);
        lua_pushvalue(lua, -1);
        if (lua_rawget(lua, -3) == LUA_TNIL) {
            lua_settop(lua, -2);
            lua_pushstring(lua, header->value);
        } else {
            lua_pushfstring(lua, "%s, %s", lua_tostring(lua, -1), header->value);
            lua_remove(lua, -2);
        }
        lua_rawset(lua, -3);
    }
}

static bool
has_type(const PhPageRequest *request, const char *wanted)
{
    const char *type = ph_page_request_header(request, "content-type");
    size_t length = strlen(wanted);
    return type != NULL && g_ascii_strncasecmp(type, wanted, length) == 0 &&
           (type[length] == '\0' || type[length] == ';' || type[length] == ' ');
}

static const char *
body_of(const PhPageRequest *request, size_t *length_out)
{
    *length_out = 0;
    const char *body = request->body != NULL ? g_bytes_get_data(request->body, length_out) : NULL;
    return body != NULL ? body : "";
}

/* Nil when there is no JSON in the body. */
static void
push_json_body(lua_State *lua, const PhPageRequest *request)
{
    size_t length;
    const char *body = body_of(request, &length);
    if (!has_type(request, "application/json") || length == 0) {
        lua_pushnil(lua);
        return;
    }
    lua_pushcfunction(lua, ph_lua_json_decode);
    lua_pushlstring(lua, body, length);
    if (lua_pcall(lua, 1, 1, 0) != LUA_OK) {
        ph_lua_tick(lua);
        lua_settop(lua, -2);
        lua_pushnil(lua);
    }
}

static void
make_part(lua_State *lua, const PhPageRequest *request, Part part)
{
    size_t length;
    const char *body;
    switch (part) {
    case PART_QUERY:
        push_form(lua, request->query != NULL ? request->query : "",
            request->query != NULL ? strlen(request->query) : 0);
        break;
    case PART_HEADERS:
        push_headers(lua, request);
        break;
    case PART_COOKIES:
        push_cookies(lua, request);
        break;
    case PART_FORM:
        body = body_of(request, &length);
        if (has_type(request, "application/x-www-form-urlencoded"))
            push_form(lua, body, length);
        else
            lua_newtable(lua);
        break;
    case PART_JSON:
        push_json_body(lua, request);
        break;
    case PART_PEER:
        lua_createtable(lua, 0, 2);
        lua_pushstring(lua, request->peer_address);
        lua_setfield(lua, -2, "ip");
        lua_pushinteger(lua, request->peer_port);
        lua_setfield(lua, -2, "port");
        break;
    case N_PARTS:
        break;
    }
}

static void
push_part(lua_State *lua, const PhPageRequest *request, Part part)
{
    Request *own = lua_touserdata(lua, 1);
    if ((own->made & (1U << part)) != 0) {
        lua_getiuservalue(lua, 1, (int)part);
        return;
    }
    make_part(lua, request, part);
    lua_pushvalue(lua, -1);
    lua_setiuservalue(lua, 1, (int)part);
    own->made |= 1U << part;
}

/* -- the object -------------------------------------------------------------------------------- */

static const PhPageRequest *
check_request(lua_State *lua)
{
    const PhLuaCall *call = ph_lua_call_of(lua);
    if (call->request == NULL)
        luaL_error(lua, "there is no request under way");
    return call->request;
}

/* req:header(name) */
static int
request_header(lua_State *lua)
{
    const PhPageRequest *request = check_request(lua);
    char name[128];
    g_strlcpy(name, ph_lua_check_text(lua, 2), sizeof(name));
    for (char *at = name; *at != '\0'; at++)
        *at = g_ascii_tolower(*at);
    lua_pushstring(lua, ph_page_request_header(request, name));
    return 1;
}

static int
request_index(lua_State *lua)
{
    static const struct {
        const char *name;
        Part part;
    } parts[] = {
        { "query", PART_QUERY },
        { "headers", PART_HEADERS },
        { "cookies", PART_COOKIES },
        { "form", PART_FORM },
        { "json", PART_JSON },
        { "peer", PART_PEER },
    };
    static const struct {
        const char *name;
        size_t offset;
    } texts[] = {
        { "method", offsetof(PhPageRequest, method) },
        { "path", offsetof(PhPageRequest, path) },
        { "query_string", offsetof(PhPageRequest, query) },
        { "user", offsetof(PhPageRequest, login) },
        { "host", offsetof(PhPageRequest, host) },
        { "scheme", offsetof(PhPageRequest, scheme) },
        { "site", offsetof(PhPageRequest, site_name) },
        { "id", offsetof(PhPageRequest, id) },
    };
    const PhPageRequest *request = check_request(lua);
    const char *name = luaL_checkstring(lua, 2);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        if (strcmp(texts[i].name, name) == 0) {
            const void *member = (const char *)request + texts[i].offset;
            lua_pushstring(lua, *(const char *const *)member);
            return 1;
        }
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (strcmp(parts[i].name, name) == 0) {
            push_part(lua, request, parts[i].part);
            return 1;
        }
    if (strcmp(name, "header") == 0) {
        lua_pushcfunction(lua, request_header);
    } else if (strcmp(name, "body") == 0) {
        size_t length;
        const char *body = body_of(request, &length);
        lua_pushlstring(lua, body, length);
    } else {
        lua_pushnil(lua);
    }
    return 1;
}

static int
request_refuse(lua_State *lua)
{
    return luaL_error(lua, "the request is read-only");
}

static void
make_request(lua_State *lua)
{
    Request *own = lua_newuserdatauv(lua, sizeof(Request), N_PARTS);
    own->made = 0;
    lua_createtable(lua, 0, 4);
    ph_lua_set_function(lua, "__index", request_index);
    ph_lua_set_function(lua, "__newindex", request_refuse);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_pushliteral(lua, "request");
    lua_setfield(lua, -2, "__name");
    lua_setmetatable(lua, -2);
    lua_pushvalue(lua, -1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &request_key);
}

void
ph_lua_push_request(lua_State *lua)
{
    if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &request_key) == LUA_TNIL) {
        lua_settop(lua, -2);
        make_request(lua);
        return;
    }
    Request *own = lua_touserdata(lua, -1);
    for (int part = 1; own->made != 0 && part < N_PARTS; part++)
        if ((own->made & (1U << part)) != 0) {
            lua_pushnil(lua);
            lua_setiuservalue(lua, -2, part);
        }
    own->made = 0;
}
