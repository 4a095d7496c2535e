/* page.c - pages: files of a site and stored scripts that answer requests
 *
 * Hard here: what is compiled is kept in each state, by site and path, with inode, size and time of
 * change; when one of them is another, the file is read again. Files of a site run in its tenant's
 * zone.
 */
#include "lua/sandbox.h"
#include "lua/scripts.h"
#include "lua/watch.h"
#include "lua/zone.h"

#include "posthouse/beneath.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGES_MAX = 500, INCLUDED_MAX = 16 };

static const char helpers_key = 'h';
static const char raw_key = 'w';

void
ph_page_response_clear(PhPageResponse *response)
{
    g_clear_pointer(&response->headers, g_ptr_array_unref);
    g_clear_pointer(&response->body, g_bytes_unref);
    g_clear_pointer(&response->send_file, g_free);
    response->status = 0;
}

/* -- what templates write with ----------------------------------------------------------------- */

/* write(text): as it is. */
static int
page_write(lua_State *lua)
{
    size_t length;
    const char *text = luaL_checklstring(lua, 1, &length);
    ph_lua_page_write(lua, text, length);
    return 0;
}

static void
write_escaped(lua_State *lua, const char *text, size_t length)
{
    size_t from = 0;
    for (size_t i = 0; i < length; i++) {
        const char *entity = NULL;
        switch (text[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '"':
            entity = "&quot;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        default:
            continue;
        }
        ph_lua_page_write(lua, text + from, i - from);
        ph_lua_page_write(lua, entity, strlen(entity));
        from = i + 1;
    }
    ph_lua_page_write(lua, text + from, length - from);
}

static bool
is_raw(lua_State *lua, int index)
{
    if (!lua_getmetatable(lua, index))
        return false;
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &raw_key);
    bool same = lua_rawequal(lua, -1, -2) != 0;
    lua_settop(lua, -3);
    return same;
}

/* <%= value %>: nil shows nothing. */
static int
page_show(lua_State *lua)
{
    size_t length;
    lua_settop(lua, 1);
    if (lua_isnil(lua, 1))
        return 0;
    if (lua_isuserdata(lua, 1) && is_raw(lua, 1)) {
        lua_getiuservalue(lua, 1, 1);
        const char *text = lua_tolstring(lua, -1, &length);
        ph_lua_page_write(lua, text, length);
        return 0;
    }
    if (lua_istable(lua, 1) && luaL_getmetafield(lua, 1, "__tostring") == LUA_TNIL)
        return luaL_error(lua, "a table cannot be shown");
    lua_settop(lua, 1);
    ph_lua_tostring(lua);
    const char *text = lua_tolstring(lua, -1, &length);
    write_escaped(lua, text, length);
    return 0;
}

/* raw(text): for <%= %>, not escaped. */
static int
page_raw(lua_State *lua)
{
    luaL_checkstring(lua, 1);
    lua_newuserdatauv(lua, 0, 1);
    lua_pushvalue(lua, 1);
    lua_tostring(lua, -1);
    lua_setiuservalue(lua, -2, 1);
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &raw_key);
    lua_setmetatable(lua, -2);
    return 1;
}

static int
page_include(lua_State *lua)
{
    const char *path = ph_lua_check_text(lua, 1);
    lua_settop(lua, 2);
    ph_lua_run_template(lua, path, 2);
    return 0;
}

static int
raw_text(lua_State *lua)
{
    luaL_argcheck(lua, lua_isuserdata(lua, 1) && is_raw(lua, 1), 1, "raw text expected");
    lua_getiuservalue(lua, 1, 1);
    return 1;
}

/* The functions that every page is given, in a table of the registry. */
static void
push_helpers(lua_State *lua)
{
    if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &helpers_key) != LUA_TNIL)
        return;
    lua_settop(lua, -2);
    lua_createtable(lua, 0, 3);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    ph_lua_set_function(lua, "__tostring", raw_text);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &raw_key);
    static const lua_CFunction functions[] = { page_write, page_show, page_include, page_raw };
    lua_createtable(lua, (int)G_N_ELEMENTS(functions), 0);
    for (size_t i = 0; i < G_N_ELEMENTS(functions); i++) {
        lua_pushcfunction(lua, functions[i]);
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    lua_pushvalue(lua, -1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &helpers_key);
}

/* Calls the function on the top with what a page is given; `data` is an index or 0. What it gives
 * is left: one value. */
static void
call_with(lua_State *lua, int data)
{
    luaL_checkstack(lua, 12, NULL);
    ph_lua_push_request(lua);
    ph_lua_push_response(lua);
    if (data != 0)
        lua_pushvalue(lua, data);
    else
        lua_pushnil(lua);
    push_helpers(lua);
    int helpers = lua_gettop(lua);
    for (int i = 1; i <= 4; i++)
        lua_rawgeti(lua, helpers, i);
    lua_remove(lua, helpers);
    lua_call(lua, 7, 1);
}

void
ph_lua_call_page(lua_State *lua)
{
    call_with(lua, 0);
    if (lua_isstring(lua, -1)) {
        size_t length;
        const char *text = lua_tolstring(lua, -1, &length);
        ph_lua_page_write(lua, text, length);
    }
    lua_settop(lua, -2);
}

/* -- files ------------------------------------------------------------------------------------- */

typedef struct PageKey {
    int64_t site_id;
    const char *path;
} PageKey;

typedef struct Page {
    PageKey key;
    char *path; /* the key's */
    struct timespec changed;
    ino_t inode;
    off_t size;
    PhLuaLoaded loaded;
} Page;

static guint
hash_key(gconstpointer data)
{
    const PageKey *key = data;
    return g_str_hash(key->path) ^ (guint)((uint64_t)key->site_id * 2654435761U);
}

static gboolean
equal_key(gconstpointer left, gconstpointer right)
{
    const PageKey *a = left;
    const PageKey *b = right;
    return a->site_id == b->site_id && strcmp(a->path, b->path) == 0;
}

static void
page_free(gpointer data)
{
    Page *page = data;
    g_free(page->path);
    g_free(page);
}

static bool
is_same_file(const Page *page, const struct stat *now)
{
    return page->inode == now->st_ino && page->size == now->st_size &&
           page->changed.tv_sec == now->st_mtim.tv_sec &&
           page->changed.tv_nsec == now->st_mtim.tv_nsec;
}

/* Into the call's scratch buffer. */
static void
read_file(lua_State *lua, const char *path, int fd, const struct stat *now)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    if (!S_ISREG(now->st_mode) || now->st_size > PH_LUA_TEXT_MAX_BYTES)
        luaL_error(lua, "%s: a page is a file of at most 256 KiB", path);
    if (call->scratch == NULL)
        call->scratch = g_string_new(NULL);
    g_string_set_size(call->scratch, (gsize)now->st_size);
    size_t got = 0;
    while (got < (size_t)now->st_size) {
        ssize_t n = pread(fd, call->scratch->str + got, (size_t)now->st_size - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            luaL_error(lua, "%s: it cannot be read whole", path);
        got += (size_t)n;
    }
}

static void
forget_pages(lua_State *lua, PhLuaState *state)
{
    GHashTableIter iter;
    gpointer page;
    g_hash_table_iter_init(&iter, state->pages);
    while (g_hash_table_iter_next(&iter, NULL, &page))
        ph_lua_loaded_forget(lua, &((Page *)page)->loaded);
    g_hash_table_remove_all(state->pages);
}

static const Page *
load_page(lua_State *lua, const PageKey *key, int fd, const struct stat *now)
{
    PhLuaState *state = ph_lua_state_of(lua);
    PhLuaCall *call = ph_lua_call_of(lua);
    bool was_spoiled = state->is_spoiled;
    state->is_spoiled = true; /* when it is left half-way */
    read_file(lua, key->path, fd, now);
    PhLuaLoaded loaded = { .version = 0 };
    /* The name in messages is the page's; the script's is for the call. */
    const char *script = call->script;
    call->script = key->path;
    ph_lua_load_script(lua, key->path, call->scratch->str, call->scratch->len);
    call->script = script;
    ph_lua_loaded_keep(lua, &loaded);
    Page *old = g_hash_table_lookup(state->pages, key);
    if (old != NULL)
        ph_lua_loaded_forget(lua, &old->loaded);
    if (old == NULL && g_hash_table_size(state->pages) >= PAGES_MAX)
        forget_pages(lua, state);
    Page *page = g_new0(Page, 1);
    page->path = g_strdup(key->path);
    page->key = (PageKey){ key->site_id, page->path };
    page->changed = now->st_mtim;
    page->inode = now->st_ino;
    page->size = now->st_size;
    page->loaded = loaded;
    g_hash_table_replace(state->pages, &page->key, page);
    state->is_spoiled = was_spoiled;
    return page;
}

/* The page's function, with fresh globals. */
static void
push_page(lua_State *lua, const char *path, int fd)
{
    PhLuaState *state = ph_lua_state_of(lua);
    const PhLuaCall *call = ph_lua_call_of(lua);
    PageKey key = { call->request->site_id, path };
    struct stat now;
    if (fstat(fd, &now) != 0)
        luaL_error(lua, "%s: it cannot be looked at", path);
    if (state->pages == NULL)
        state->pages = g_hash_table_new_full(hash_key, equal_key, NULL, page_free);
    const Page *page = g_hash_table_lookup(state->pages, &key);
    if (page == NULL || !is_same_file(page, &now))
        page = load_page(lua, &key, fd, &now);
    ph_lua_loaded_refresh(lua, &page->loaded);
    if (lua_rawgeti(lua, LUA_REGISTRYINDEX, page->loaded.handlers[PH_LUA_HOOK_CONTENT]) == LUA_TNIL)
        luaL_error(lua, "%s: gives no page: return function(req, res) ... end", path);
}

typedef struct Opened {
    const char *path;
    int fd;
} Opened;

static int
push_opened(lua_State *lua)
{
    const Opened *opened = lua_touserdata(lua, 1);
    push_page(lua, opened->path, opened->fd);
    return 1;
}

void
ph_lua_run_template(lua_State *lua, const char *path, int data)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    GError *error = NULL;
    if (*path == '/')
        path++;
    if (!ph_lua_is_template(path))
        luaL_error(lua, "\"%s\" is no template: its name ends in .lp", path);
    if (call->request == NULL || call->request->root_fd < 0)
        luaL_error(lua, "there are no files of a site here");
    if (call->n_included >= INCLUDED_MAX)
        luaL_error(lua, "templates within templates, more than %d deep", INCLUDED_MAX);
    Opened opened = { path, ph_open_beneath(call->request->root_fd, path, 0, &error) };
    if (opened.fd < 0) {
        ph_lua_raise_error(lua, error);
        return;
    }
    lua_pushcfunction(lua, push_opened);
    lua_pushlightuserdata(lua, &opened);
    int status = lua_pcall(lua, 1, 1, 0);
    close(opened.fd);
    if (status != LUA_OK)
        lua_error(lua);
    call->n_included++;
    call_with(lua, data);
    lua_settop(lua, -2);
    call->n_included--;
}

/* -- calls ------------------------------------------------------------------------------------- */

typedef struct PageCall {
    const char *path; /* of a file; or null */
    int fd;
    const PhLuaScript *script; /* or this */
} PageCall;

static int
run_page(lua_State *lua)
{
    const PageCall *page = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    if (page->script != NULL)
        ph_lua_script_push_handler(lua, page->script, PH_LUA_HOOK_CONTENT);
    else
        push_page(lua, page->path, page->fd);
    ph_lua_call_page(lua);
    return 0;
}

static void
begin_response(PhPageResponse *response)
{
    *response = (PhPageResponse){
        .status = 200,
        .headers = g_ptr_array_new_with_free_func(g_free),
    };
}

static void
end_response(PhPageResponse *response, GByteArray *out)
{
    bool has_type = false;
    for (guint i = 0; i < response->headers->len; i += 2)
        has_type |= g_ascii_strcasecmp(response->headers->pdata[i], "content-type") == 0;
    if (!has_type && out->len > 0) {
        g_ptr_array_add(response->headers, g_strdup("Content-Type"));
        g_ptr_array_add(response->headers, g_strdup("text/html; charset=utf-8"));
    }
    response->body = out->len > 0 ? g_byte_array_free_to_bytes(out) : NULL;
    if (response->body == NULL)
        g_byte_array_unref(out);
}

/* What a visitor's server is told: a script's own limits and words are defects of the script. */
static void
as_page_error(GError **error)
{
    if (error == NULL || *error == NULL)
        return;
    PhError code = ph_error_code(*error);
    if (code != PH_ERROR_TEMPORARY && code != PH_ERROR_TOO_LARGE && code != PH_ERROR_NOT_FOUND)
        (*error)->code = PH_ERROR_INTERNAL;
}

PH_IN_JOB static bool
run_call(PageCall *page, int64_t zone_tenant, const char *name, const PhPageRequest *request,
    PhPageResponse *response_out, PhLuaCall *call, GError **error)
{
    PhLuaZone *zone;
    PhLuaState *state = ph_lua_zone_take_blocking(zone_tenant, request->deadline_us, &zone, error);
    if (state == NULL)
        return false;
    PhPageResponse response;
    begin_response(&response);
    *call = (PhLuaCall){
        .script = name,
        .tenant_id = zone_tenant,
        .deadline_us = request->deadline_us,
        .cpu_us = ph_lua_limit(&ph_lua_limits.cpu_us),
        .request = request,
        .response = &response,
        .out = g_byte_array_new(),
        .out_max_bytes = (size_t)ph_lua_limit(&ph_lua_limits.output_bytes),
    };
    bool good = ph_lua_state_run(state, call, run_page, page, error);
    ph_lua_zone_give(zone, state);
    if (good) {
        end_response(&response, call->out);
        *response_out = response;
    } else {
        g_byte_array_unref(call->out);
        ph_page_response_clear(&response);
    }
    return good;
}

bool
ph_page_run_file_blocking(const char *path, int fd, const PhPageRequest *request,
    PhPageResponse *response_out, GError **error)
{
    ph_assert_in_job();
    PhLuaCall call = { .line = 0 };
    GError *failure = NULL;
    PageCall page = { .path = path, .fd = fd };
    if (*path == '/')
        page.path = path + 1;
    if (run_call(&page, request->tenant_id, page.path, request, response_out, &call, &failure))
        return true;
    as_page_error(&failure);
    g_propagate_error(error, failure);
    return false;
}

static char *
describe_request(const PhPageRequest *request)
{
    const PhHookField fields[] = {
        { "method", request->method, strlen(request->method) },
        { "host", request->host, request->host != NULL ? strlen(request->host) : 0 },
        { "path", request->path, strlen(request->path) },
        { "peer.ip", request->peer_address,
            request->peer_address != NULL ? strlen(request->peer_address) : 0 },
    };
    return ph_lua_fields_describe(fields, G_N_ELEMENTS(fields));
}

bool
ph_page_run_script_blocking(
    const char *name, const PhPageRequest *request, PhPageResponse *response_out, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhLuaScripts) scripts = ph_lua_scripts_current();
    if (scripts == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the scripts could not be read yet");
        return false;
    }
    PhLuaScript *script = ph_lua_scripts_find(scripts, name);
    if (script == NULL || !ph_lua_script_takes(script, PH_LUA_HOOK_CONTENT) ||
        !ph_lua_script_is_for_site(script, request->tenant_id, request->site_id)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "no script \"%s\" answers requests of this site", name);
        return false;
    }
    if (!ph_lua_script_may_run(script, error))
        return false;
    PhLuaCall call = { .line = 0 };
    GError *failure = NULL;
    PageCall page = { .script = script };
    bool good =
        run_call(&page, ph_lua_script_zone(script), name, request, response_out, &call, &failure);
    g_autofree char *input = good ? NULL : describe_request(request);
    ph_lua_script_ran_blocking(script, PH_LUA_HOOK_CONTENT, &call, input, failure);
    as_page_error(&failure);
    if (!good)
        g_propagate_error(error, failure);
    return good;
}

/* -- tests ------------------------------------------------------------------------------------- */

enum { TRY_HEADERS_MAX = 50 };

/* The field of the table at `input` as text; it stays on the stack, so that it lives. */
static const char *
input_text(lua_State *lua, int input, const char *name, const char *fallback)
{
    lua_getfield(lua, input, name);
    return lua_isstring(lua, -1) ? lua_tostring(lua, -1) : fallback;
}

/* Names are to be in lower case, as the server gives them. */
static size_t
input_headers(lua_State *lua, int input, PhPageHeader headers[static TRY_HEADERS_MAX])
{
    size_t n = 0;
    if (lua_getfield(lua, input, "headers") != LUA_TTABLE)
        return 0;
    int table = lua_gettop(lua);
    luaL_checkstack(lua, 2 * TRY_HEADERS_MAX + 4, NULL);
    lua_pushnil(lua);
    while (n < TRY_HEADERS_MAX && lua_next(lua, table) != 0) {
        if (lua_type(lua, -2) != LUA_TSTRING || !lua_isstring(lua, -1))
            luaL_error(lua, "headers are texts by name");
        headers[n++] = (PhPageHeader){ lua_tostring(lua, -2), lua_tostring(lua, -1) };
        lua_pushvalue(lua, -2);
    }
    return n;
}

static void
push_response_table(lua_State *lua, const PhPageResponse *response, const GByteArray *out)
{
    lua_createtable(lua, 0, 4);
    lua_pushinteger(lua, response->status);
    lua_setfield(lua, -2, "status");
    lua_pushlstring(lua, (const char *)out->data, out->len);
    lua_setfield(lua, -2, "body");
    lua_pushstring(lua, response->send_file);
    lua_setfield(lua, -2, "send_file");
    lua_newtable(lua);
    for (guint i = 0; i < response->headers->len; i += 2) {
        g_autofree char *name = g_ascii_strdown(response->headers->pdata[i], -1);
        char copy[128];
        g_strlcpy(copy, name, sizeof(copy));
        lua_pushstring(lua, response->headers->pdata[i + 1]);
        lua_setfield(lua, -2, copy);
    }
    lua_setfield(lua, -2, "headers");
}

typedef struct Trial {
    PhPageResponse response;
    GByteArray *out;
} Trial;

static int
run_trial(lua_State *lua)
{
    const Trial *trial = lua_touserdata(lua, 2);
    lua_pushvalue(lua, 1);
    ph_lua_call_page(lua);
    push_response_table(lua, &trial->response, trial->out);
    return 1;
}

void
ph_lua_try_page(lua_State *lua, int input)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    int function = lua_gettop(lua);
    PhPageHeader headers[TRY_HEADERS_MAX];
    PhPageRequest request = {
        .id = "test",
        .method = input_text(lua, input, "method", "GET"),
        .scheme = input_text(lua, input, "scheme", "https"),
        .host = input_text(lua, input, "host", "www.example.test"),
        .path = input_text(lua, input, "path", "/"),
        .query = input_text(lua, input, "query", NULL),
        .peer_address = input_text(lua, input, "peer", "192.0.2.1"),
        .login = input_text(lua, input, "user", NULL),
        .site_name = "test",
        .root_fd = -1,
        .deadline_us = call->deadline_us,
    };
    const char *body = input_text(lua, input, "body", NULL);
    request.headers = headers;
    request.n_headers = input_headers(lua, input, headers);
    Trial trial = { .out = g_byte_array_new() };
    begin_response(&trial.response);
    request.body = body != NULL ? g_bytes_new(body, strlen(body)) : NULL;
    call->request = &request;
    call->response = &trial.response;
    call->out = trial.out;
    luaL_checkstack(lua, 5, NULL);
    lua_pushcfunction(lua, run_trial);
    lua_pushvalue(lua, function);
    lua_pushlightuserdata(lua, &trial);
    int status = lua_pcall(lua, 2, 1, 0);
    call->request = NULL;
    call->response = NULL;
    call->out = NULL;
    g_byte_array_unref(trial.out);
    ph_page_response_clear(&trial.response);
    g_clear_pointer(&request.body, g_bytes_unref);
    if (status != LUA_OK)
        lua_error(lua);
    lua_replace(lua, function);
    lua_settop(lua, function);
}
