/* site.c - posthouse.site: files of the site that a page belongs to */
#include "lua/sandbox.h"
#include "posthouse/beneath.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MAX_BYTES = 16 * 1024 * 1024, PATH_MAX_BYTES = 1024 };

bool
ph_lua_is_site_file(const char *path)
{
    if (path[0] == '\0' || strlen(path) > PATH_MAX_BYTES || g_str_has_suffix(path, ".lua") ||
        g_str_has_suffix(path, ".lp") || g_str_has_suffix(path, "/"))
        return false;
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        if (*at == '/')
            at++;
        if (*at == '.' || *at == '/')
            return false;
    }
    return true;
}

typedef struct Reading {
    int fd;
    size_t size;
} Reading;

/* Protected, so that the descriptor is closed when memory runs out. */
static int
push_bytes(lua_State *lua)
{
    const Reading *reading = lua_touserdata(lua, 1);
    luaL_Buffer out;
    char *to = luaL_buffinitsize(lua, &out, reading->size);
    size_t done = 0;
    while (done < reading->size) {
        ssize_t n = pread(reading->fd, to + done, reading->size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return luaL_error(lua, "the file cannot be read: %s", g_strerror(errno));
        if (n == 0)
            break; /* it became shorter */
        done += (size_t)n;
    }
    luaL_pushresultsize(&out, done);
    return 1;
}

/* site.read(path): the bytes of a file below the site's root; nil: there is none */
static int
site_read(lua_State *lua)
{
    ph_assert_in_job();
    const PhLuaCall *call = ph_lua_call_outside(lua, "posthouse.site");
    const char *path = ph_lua_check_text(lua, 1);
    if (*path == '/')
        path++;
    if (call->request == NULL)
        return luaL_error(lua, "posthouse.site is there for pages only");
    luaL_argcheck(
        lua, ph_lua_is_site_file(path), 1, "a file of the site that may be sent expected");
    Reading reading = { .fd = ph_open_beneath(call->request->root_fd, path, 0, NULL) };
    struct stat status;
    if (reading.fd < 0 || fstat(reading.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        if (reading.fd >= 0)
            close(reading.fd);
        lua_pushnil(lua);
        return 1;
    }
    if (status.st_size > READ_MAX_BYTES) {
        close(reading.fd);
        return luaL_error(lua, "a file of more than 16 MiB is for res:sendfile()");
    }
    reading.size = (size_t)status.st_size;
    lua_pushcfunction(lua, push_bytes);
    lua_pushlightuserdata(lua, &reading);
    int result = lua_pcall(lua, 1, 1, 0);
    close(reading.fd);
    return result == LUA_OK ? 1 : lua_error(lua);
}

void
ph_lua_push_site(lua_State *lua)
{
    lua_createtable(lua, 0, 1);
    ph_lua_set_function(lua, "read", site_read);
}
