/* db.c - posthouse.db: the script's own schema
 *
 * A call takes a connection at its first statement and gives it back when it ends. PostgreSQL holds
 * the walls: the connection's role can reach the schema of its zone and nothing else. Here are the
 * limits, the types, and transactions.
 */
#include "lua/sandbox.h"
#include "lua/watch.h"

#include <string.h>

enum { PARAMETERS_MAX = 100, SQL_MAX_BYTES = 64 * 1024, DEPTH_MAX = 8 };

static void
take_connection(lua_State *lua, PhLuaCall *call)
{
    ph_assert_in_job();
    GError *error = NULL;
    if (call->db != NULL)
        return;
    call->db = ph_script_db_take_blocking(call->tenant_id, call->deadline_us, &error);
    if (call->db == NULL)
        ph_lua_raise_error(lua, error);
    /* One transaction for a whole test, so that it can be taken back. */
    if (call->is_test &&
        !ph_script_db_run_blocking(call->db, "BEGIN", 0, NULL, call->deadline_us, NULL, &error))
        ph_lua_raise_error(lua, error);
}

void
ph_lua_db_end(PhLuaCall *call)
{
    ph_script_db_release(g_steal_pointer(&call->db));
    call->db_depth = 0;
}

/* -- rows -------------------------------------------------------------------------------------- */

static void
push_cell(lua_State *lua, const PhScriptCell *cell)
{
    switch (cell->kind) {
    case PH_SCRIPT_CELL_NULL:
        lua_pushnil(lua);
        break;
    case PH_SCRIPT_CELL_BOOL:
        lua_pushboolean(lua, cell->truth);
        break;
    case PH_SCRIPT_CELL_INT:
        lua_pushinteger(lua, cell->integer);
        break;
    case PH_SCRIPT_CELL_NUMBER:
        lua_pushnumber(lua, cell->number);
        break;
    case PH_SCRIPT_CELL_TEXT:
    case PH_SCRIPT_CELL_BYTES:
        lua_pushlstring(lua, cell->text, cell->length);
        break;
    }
}

static int
push_rows(lua_State *lua)
{
    PhScriptRows *rows = lua_touserdata(lua, 1);
    unsigned n_rows = ph_script_rows_count(rows);
    unsigned n_columns = ph_script_rows_columns(rows);
    lua_createtable(lua, (int)n_rows, 0);
    for (unsigned i = 0; i < n_rows; i++) {
        ph_lua_tick(lua);
        lua_createtable(lua, 0, (int)n_columns);
        for (unsigned k = 0; k < n_columns; k++) {
            PhScriptCell cell;
            ph_script_rows_cell(rows, i, k, &cell);
            lua_pushstring(lua, ph_script_rows_name(rows, k));
            push_cell(lua, &cell);
            lua_rawset(lua, -3);
        }
        lua_rawseti(lua, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int
push_affected(lua_State *lua)
{
    lua_pushinteger(lua, ph_script_rows_affected(lua_touserdata(lua, 1)));
    return 1;
}

/* The text of a parameter; it stays on the stack at its place. */
static const char *
parameter_text(lua_State *lua, int argument)
{
    switch (lua_type(lua, argument)) {
    case LUA_TNIL:
        return NULL;
    case LUA_TBOOLEAN:
        return lua_toboolean(lua, argument) ? "t" : "f";
    case LUA_TNUMBER:
    case LUA_TSTRING:
        return ph_lua_check_text(lua, argument);
    default:
        luaL_argerror(lua, argument, "a parameter is nil, a boolean, a number or text");
        return NULL;
    }
}

static int
run_statement(lua_State *lua, lua_CFunction push)
{
    ph_assert_in_job();
    PhLuaCall *call = ph_lua_call_outside(lua, "posthouse.db");
    const char *sql = ph_lua_check_text(lua, 1);
    int n = lua_gettop(lua) - 1;
    const char *parameters[PARAMETERS_MAX];
    luaL_argcheck(lua, strlen(sql) <= SQL_MAX_BYTES, 1, "a statement has at most 64 KiB");
    luaL_argcheck(lua, n <= PARAMETERS_MAX, PARAMETERS_MAX + 1, "too many parameters");
    for (int i = 0; i < n; i++)
        parameters[i] = parameter_text(lua, i + 2);
    take_connection(lua, call);
    GError *error = NULL;
    PhScriptRows *rows = NULL;
    if (!ph_script_db_run_blocking(
            call->db, sql, (unsigned)n, parameters, call->deadline_us, &rows, &error))
        return ph_lua_raise_error(lua, error);
    luaL_checkstack(lua, 4, NULL);
    lua_pushcfunction(lua, push);
    lua_pushlightuserdata(lua, rows);
    int status = lua_pcall(lua, 1, 1, 0);
    ph_script_rows_free(rows);
    return status == LUA_OK ? 1 : lua_error(lua);
}

/* query(sql, ...): rows as tables by column. */
static int
db_query(lua_State *lua)
{
    return run_statement(lua, push_rows);
}

/* exec(sql, ...): how many rows were changed. */
static int
db_exec(lua_State *lua)
{
    return run_statement(lua, push_affected);
}

/* -- transactions ------------------------------------------------------------------------------ */

static void
run_word(lua_State *lua, PhLuaCall *call, const char *word, const char *savepoint)
{
    ph_assert_in_job();
    GError *error = NULL;
    char sql[80];
    g_snprintf(sql, sizeof(sql), "%s%s", word, savepoint);
    if (!ph_script_db_run_blocking(call->db, sql, 0, NULL, call->deadline_us, NULL, &error))
        ph_lua_raise_error(lua, error);
}

static int
roll_back(lua_State *lua)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    const char *savepoint = lua_touserdata(lua, 1);
    if (savepoint[0] == '\0')
        run_word(lua, call, "ROLLBACK", "");
    else
        run_word(lua, call, "ROLLBACK TO ", savepoint);
    return 0;
}

/* transaction(func): what it gives; rolled back when it raises an error. Within another (and within
 * a test) it is a savepoint. */
static int
db_transaction(lua_State *lua)
{
    PhLuaCall *call = ph_lua_call_outside(lua, "posthouse.db");
    char savepoint[32] = "";
    luaL_checktype(lua, 1, LUA_TFUNCTION);
    lua_settop(lua, 1);
    if (call->db_depth >= DEPTH_MAX)
        return luaL_error(lua, "transactions within transactions, more than %d deep", DEPTH_MAX);
    take_connection(lua, call);
    if (call->db_depth > 0 || call->is_test)
        g_snprintf(savepoint, sizeof(savepoint), "posthouse_%u", call->db_depth);
    run_word(lua, call, savepoint[0] == '\0' ? "BEGIN" : "SAVEPOINT ", savepoint);
    call->db_depth++;
    lua_pushvalue(lua, 1);
    int status = lua_pcall(lua, 0, LUA_MULTRET, 0);
    call->db_depth--;
    if (status == LUA_OK) {
        run_word(lua, call, savepoint[0] == '\0' ? "COMMIT" : "RELEASE ", savepoint);
        return lua_gettop(lua) - 1;
    }
    /* The error that counts is the function's. */
    lua_pushcfunction(lua, roll_back);
    lua_pushlightuserdata(lua, savepoint);
    if (lua_pcall(lua, 1, 0, 0) != LUA_OK)
        lua_settop(lua, 2);
    return lua_error(lua);
}

void
ph_lua_push_db(lua_State *lua)
{
    lua_createtable(lua, 0, 3);
    ph_lua_set_function(lua, "query", db_query);
    ph_lua_set_function(lua, "exec", db_exec);
    ph_lua_set_function(lua, "transaction", db_transaction);
}
