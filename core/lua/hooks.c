/* hooks.c - the context that a hook's handler is given, and the answers that it gives
 *
 * The context is a userdata; a field is looked up among the call's when it is asked for. An answer is
 * a table that only accept(), reject() and the like make; what is in it is checked again when it is
 * read.
 */
#include "lua/hooks.h"

#include "lua/sandbox.h"
#include "posthouse/message-header.h"

#include <string.h>

#define MAIL_ANSWERS \
    (1U << PH_DECISION_ACCEPT | 1U << PH_DECISION_REJECT | 1U << PH_DECISION_DEFER | \
        1U << PH_DECISION_DISCARD | 1U << PH_DECISION_QUARANTINE | 1U << PH_DECISION_REDIRECT)

const PhLuaHookRow ph_lua_hooks[PH_LUA_N_HOOKS] = {
    [PH_LUA_HOOK_MAIL] = { "smtp.mail",
        1U << PH_DECISION_ACCEPT | 1U << PH_DECISION_REJECT | 1U << PH_DECISION_DEFER, 500, 599 },
    [PH_LUA_HOOK_RCPT] = { "smtp.rcpt", MAIL_ANSWERS, 500, 599 },
    [PH_LUA_HOOK_DELIVER] = { "deliver", MAIL_ANSWERS, 500, 599 },
    [PH_LUA_HOOK_ACCESS] = { "http.access",
        1U << PH_DECISION_ACCEPT | 1U << PH_DECISION_REJECT | 1U << PH_DECISION_DEFER |
            1U << PH_DECISION_REDIRECT,
        400, 599 },
    [PH_LUA_HOOK_CONTENT] = { "http.content", 0, 0, 0 },
};

static const char answer_key = 'a';
static const char context_key = 'c';
static const char part_key = 'p';

int
ph_lua_hook_find(const char *name)
{
    for (int i = 0; i < PH_LUA_N_HOOKS; i++)
        if (strcmp(ph_lua_hooks[i].name, name) == 0)
            return i;
    return -1;
}

/* -- context ----------------------------------------------------------------------------------- */

static bool
is_number(const char *name)
{
    static const char *const numbers[] = { "size", "peer.port", "tenant_id", "site_id",
        "account_id", "recipients", "time" };
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        if (strcmp(numbers[i], name) == 0)
            return true;
    return false;
}

static void
push_field(lua_State *lua, const PhHookField *field)
{
    if (field->value == NULL)
        lua_pushnil(lua);
    else if (!is_number(field->name) || lua_stringtonumber(lua, field->value) == 0)
        lua_pushlstring(lua, field->value, field->length);
}

/* The field of that whole name; or, where names begin so and a dot follows, a part of the
 * context. */
static void
push_named(lua_State *lua, const char *name)
{
    const PhLuaCall *call = ph_lua_call_of(lua);
    size_t length = strlen(name);
    bool is_part = false;
    for (size_t i = 0; i < call->n_fields; i++) {
        const PhHookField *field = &call->fields[i];
        if (strncmp(field->name, name, length) != 0)
            continue;
        if (field->name[length] == '\0') {
            push_field(lua, field);
            return;
        }
        is_part |= field->name[length] == '.';
    }
    if (!is_part) {
        lua_pushnil(lua);
        return;
    }
    char *prefix = lua_newuserdatauv(lua, length + 2, 0);
    g_snprintf(prefix, length + 2, "%s.", name);
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &part_key);
    lua_setmetatable(lua, -2);
}

static int
part_index(lua_State *lua)
{
    char name[128];
    const char *prefix = lua_touserdata(lua, 1);
    const char *last = luaL_checkstring(lua, 2);
    g_snprintf(name, sizeof(name), "%s%s", prefix, last);
    push_named(lua, name);
    return 1;
}

/* ctx:header(name): the first field of that name, decoded; nil: there is none. */
static int
context_header(lua_State *lua)
{
    const PhLuaCall *call = ph_lua_call_of(lua);
    const char *name = ph_lua_check_text(lua, 2);
    for (size_t i = 0; i < call->n_fields; i++) {
        PhHeaderField found;
        const PhHookField *field = &call->fields[i];
        if (strcmp(field->name, "headers") != 0 ||
            !ph_header_find(field->value, field->length, name, &found))
            continue;
        char *text = ph_header_decode(found.value, found.value_length);
        lua_pushstring(lua, text);
        g_free(text);
        return 1;
    }
    lua_pushnil(lua);
    return 1;
}

static int
context_index(lua_State *lua)
{
    const char *name = luaL_checkstring(lua, 2);
    if (strcmp(name, "header") == 0)
        lua_pushcfunction(lua, context_header);
    else
        push_named(lua, name);
    return 1;
}

static int
context_pairs_next(lua_State *lua)
{
    const PhLuaCall *call = ph_lua_call_of(lua);
    size_t i = (size_t)lua_tointeger(lua, lua_upvalueindex(1));
    if (i >= call->n_fields)
        return 0;
    lua_pushinteger(lua, (lua_Integer)i + 1);
    lua_replace(lua, lua_upvalueindex(1));
    lua_pushstring(lua, call->fields[i].name);
    push_field(lua, &call->fields[i]);
    return 2;
}

/* All fields by their whole names. */
static int
context_pairs(lua_State *lua)
{
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, context_pairs_next, 1);
    return 1;
}

static int
context_refuse(lua_State *lua)
{
    return luaL_error(lua, "the context is read-only");
}

static void
push_context_metatable(lua_State *lua, lua_CFunction index)
{
    lua_createtable(lua, 0, 5);
    ph_lua_set_function(lua, "__index", index);
    ph_lua_set_function(lua, "__newindex", context_refuse);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_pushliteral(lua, "context");
    lua_setfield(lua, -2, "__name");
}

void
ph_lua_push_context(lua_State *lua)
{
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &context_key);
}

/* -- answers ----------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [PH_DECISION_NONE] = "none",
    [PH_DECISION_ACCEPT] = "accept",
    [PH_DECISION_REJECT] = "reject",
    [PH_DECISION_DEFER] = "tempfail",
    [PH_DECISION_DISCARD] = "discard",
    [PH_DECISION_QUARANTINE] = "quarantine",
    [PH_DECISION_REDIRECT] = "redirect",
};

static void
push_answer(lua_State *lua, PhDecisionKind kind)
{
    lua_createtable(lua, 0, 3);
    lua_pushstring(lua, kind_names[kind]);
    lua_setfield(lua, -2, "kind");
    lua_rawgetp(lua, LUA_REGISTRYINDEX, &answer_key);
    lua_setmetatable(lua, -2);
}

static void
set_from_argument(lua_State *lua, const char *name, int argument)
{
    lua_pushvalue(lua, argument);
    lua_setfield(lua, -2, name);
}

/* accept(), accept { mailbox = "Lists", flags = { "\\Seen" } } */
static int
answer_accept(lua_State *lua)
{
    lua_settop(lua, 1);
    if (!lua_isnil(lua, 1))
        luaL_checktype(lua, 1, LUA_TTABLE);
    push_answer(lua, PH_DECISION_ACCEPT);
    if (lua_isnil(lua, 1))
        return 1;
    for (lua_pushnil(lua); lua_next(lua, 1) != 0; lua_settop(lua, -2)) {
        const char *name = lua_type(lua, -2) == LUA_TSTRING ? lua_tostring(lua, -2) : "";
        luaL_argcheck(lua, strcmp(name, "mailbox") == 0 || strcmp(name, "flags") == 0, 1,
            "only \"mailbox\" and \"flags\" are taken");
        lua_pushvalue(lua, -2);
        lua_pushvalue(lua, -2);
        lua_rawset(lua, 2);
    }
    return 1;
}

/* reject(text), reject(code, text), reject(code) */
static int
answer_reject(lua_State *lua)
{
    lua_settop(lua, 2);
    bool has_code = lua_type(lua, 1) == LUA_TNUMBER;
    lua_Integer code = has_code ? luaL_checkinteger(lua, 1) : 0;
    int text = has_code ? 2 : 1;
    if (!lua_isnil(lua, text))
        ph_lua_check_text(lua, text);
    push_answer(lua, PH_DECISION_REJECT);
    if (has_code) {
        lua_pushinteger(lua, code);
        lua_setfield(lua, -2, "code");
    }
    set_from_argument(lua, "text", text);
    return 1;
}

static int
answer_with_text(lua_State *lua, PhDecisionKind kind, const char *name, bool is_needed)
{
    lua_settop(lua, 1);
    if (is_needed || !lua_isnil(lua, 1))
        ph_lua_check_text(lua, 1);
    push_answer(lua, kind);
    set_from_argument(lua, name, 1);
    return 1;
}

static int
answer_tempfail(lua_State *lua)
{
    return answer_with_text(lua, PH_DECISION_DEFER, "text", false);
}

static int
answer_discard(lua_State *lua)
{
    push_answer(lua, PH_DECISION_DISCARD);
    return 1;
}

static int
answer_quarantine(lua_State *lua)
{
    return answer_with_text(lua, PH_DECISION_QUARANTINE, "text", false);
}

static int
answer_redirect(lua_State *lua)
{
    return answer_with_text(lua, PH_DECISION_REDIRECT, "target", true);
}

void
ph_lua_add_answers(lua_State *lua)
{
    lua_createtable(lua, 0, 2);
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_pushliteral(lua, "answer");
    lua_setfield(lua, -2, "__name");
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &answer_key);

    push_context_metatable(lua, part_index);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &part_key);
    lua_newuserdatauv(lua, 0, 0);
    push_context_metatable(lua, context_index);
    ph_lua_set_function(lua, "__pairs", context_pairs);
    lua_setmetatable(lua, -2);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &context_key);

    ph_lua_set_function(lua, "accept", answer_accept);
    ph_lua_set_function(lua, "reject", answer_reject);
    ph_lua_set_function(lua, "tempfail", answer_tempfail);
    ph_lua_set_function(lua, "discard", answer_discard);
    ph_lua_set_function(lua, "quarantine", answer_quarantine);
    ph_lua_set_function(lua, "redirect", answer_redirect);
    /* The web's words for the same. */
    ph_lua_set_function(lua, "allow", answer_accept);
    ph_lua_set_function(lua, "deny", answer_reject);
}

/* -- reading an answer ------------------------------------------------------------------------- */

enum { ANSWER_TEXT_MAX = 500 };

/* Text that goes to a client's line: nothing in it can end the line. */
static char *
clean(const char *text, size_t length)
{
    char *copy = g_utf8_make_valid(text, (gssize)MIN(length, ANSWER_TEXT_MAX));
    for (char *at = copy; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    return copy;
}

static void
read_text(lua_State *lua, const char *name, char **text_out)
{
    size_t length;
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    const char *text = lua_type(lua, -1) == LUA_TSTRING ? lua_tolstring(lua, -1, &length) : NULL;
    if (text != NULL)
        *text_out = clean(text, length);
    else if (!lua_isnil(lua, -1))
        luaL_error(lua, "\"%s\" of an answer is text, not a %s", name, luaL_typename(lua, -1));
    lua_settop(lua, -2);
}

/* A list of words, or words divided by blanks. */
static void
read_flags(lua_State *lua, char **flags_out)
{
    enum { FLAGS_MAX = 64 };
    lua_pushliteral(lua, "flags");
    lua_rawget(lua, -2);
    if (!lua_istable(lua, -1)) {
        lua_settop(lua, -2);
        read_text(lua, "flags", flags_out);
        return;
    }
    luaL_Buffer words;
    int list = lua_gettop(lua);
    luaL_buffinit(lua, &words);
    for (lua_Integer i = 1; i <= FLAGS_MAX; i++) {
        lua_rawgeti(lua, list, i);
        if (lua_isnil(lua, -1)) {
            lua_settop(lua, -2);
            break;
        }
        if (lua_type(lua, -1) != LUA_TSTRING)
            luaL_error(lua, "a flag is text, not a %s", luaL_typename(lua, -1));
        luaL_addvalue(&words);
        luaL_addchar(&words, ' ');
    }
    luaL_pushresult(&words);
    size_t length;
    const char *text = lua_tolstring(lua, -1, &length);
    *flags_out = g_strchomp(clean(text, length));
    lua_settop(lua, list - 1);
}

static PhDecisionKind
read_kind(lua_State *lua, const PhLuaHookRow *row)
{
    lua_pushliteral(lua, "kind");
    lua_rawget(lua, -2);
    const char *name = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : "";
    int found = PH_DECISION_NONE;
    for (int i = PH_DECISION_ACCEPT; i < (int)G_N_ELEMENTS(kind_names); i++)
        if (strcmp(kind_names[i], name) == 0)
            found = i;
    if ((row->answers & (1U << found)) == 0)
        luaL_error(lua, "\"%s\" is no answer of %s", name, row->name);
    lua_settop(lua, -2);
    return (PhDecisionKind)found;
}

static int
read_code(lua_State *lua, const PhLuaHookRow *row)
{
    lua_pushliteral(lua, "code");
    lua_rawget(lua, -2);
    int is_integer = 0;
    lua_Integer code = lua_tointegerx(lua, -1, &is_integer);
    if (lua_isnil(lua, -1))
        code = 0;
    else if (!is_integer || code < row->reject_min || code > row->reject_max)
        luaL_error(
            lua, "%s takes codes from %d to %d", row->name, row->reject_min, row->reject_max);
    lua_settop(lua, -2);
    return (int)code;
}

void
ph_lua_read_answer(lua_State *lua, PhLuaHook hook, PhDecision *decision)
{
    const PhLuaHookRow *row = &ph_lua_hooks[hook];
    if (lua_isnil(lua, -1))
        return;
    bool is_answer = lua_istable(lua, -1) && lua_getmetatable(lua, -1);
    if (is_answer) {
        lua_rawgetp(lua, LUA_REGISTRYINDEX, &answer_key);
        is_answer = lua_rawequal(lua, -1, -2) != 0;
        lua_settop(lua, -3);
    }
    if (!is_answer)
        luaL_error(lua, "%s was answered with a %s: use accept(), reject() and the like, or nil",
            row->name, luaL_typename(lua, -1));
    PhDecisionKind kind = read_kind(lua, row);
    decision->code = read_code(lua, row);
    read_text(lua, "text", &decision->text);
    read_text(lua, "target", &decision->target);
    read_text(lua, "mailbox", &decision->mailbox);
    read_flags(lua, &decision->flags);
    if (kind == PH_DECISION_REDIRECT && (decision->target == NULL || decision->target[0] == '\0'))
        luaL_error(lua, "redirect() needs an address");
    decision->kind = kind;
}

static void
set_optional(lua_State *lua, const char *name, const char *text)
{
    if (text == NULL)
        return;
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, name);
}

void
ph_lua_push_decision(lua_State *lua, const PhDecision *decision)
{
    if (decision->kind == PH_DECISION_NONE) {
        lua_pushnil(lua);
        return;
    }
    lua_createtable(lua, 0, 6);
    set_optional(lua, "kind", kind_names[decision->kind]);
    if (decision->code != 0) {
        lua_pushinteger(lua, decision->code);
        lua_setfield(lua, -2, "code");
    }
    set_optional(lua, "text", decision->text);
    set_optional(lua, "target", decision->target);
    set_optional(lua, "mailbox", decision->mailbox);
    set_optional(lua, "flags", decision->flags);
}

/* -- fields ------------------------------------------------------------------------------------ */

enum { FIELDS_MAX = 100, FIELD_DEPTH_MAX = 3 };

void
ph_lua_fields_init(PhLuaFields *fields)
{
    fields->fields = g_array_new(FALSE, FALSE, sizeof(PhHookField));
    fields->texts = g_ptr_array_new_with_free_func(g_free);
}

void
ph_lua_fields_clear(PhLuaFields *fields)
{
    g_array_unref(fields->fields);
    g_ptr_array_unref(fields->texts);
}

static void
add_field(
    PhLuaFields *fields, const char *prefix, const char *name, const char *value, size_t length)
{
    char *whole = g_strconcat(prefix, name, NULL);
    char *text = g_malloc(length + 1);
    memcpy(text, value, length);
    text[length] = '\0';
    g_ptr_array_add(fields->texts, whole);
    g_ptr_array_add(fields->texts, text);
    PhHookField field = { .name = whole, .value = text, .length = length };
    g_array_append_val(fields->fields, field);
}

static void
read_fields(lua_State *lua, PhLuaFields *fields, const char *prefix, int depth)
{
    int table = lua_gettop(lua);
    luaL_checkstack(lua, 8, NULL);
    for (lua_pushnil(lua); lua_next(lua, table) != 0; lua_settop(lua, table + 1)) {
        if (lua_type(lua, -2) != LUA_TSTRING)
            luaL_error(lua, "fields of a context have names");
        if (fields->fields->len >= FIELDS_MAX)
            luaL_error(lua, "a context has at most %d fields", FIELDS_MAX);
        const char *name = lua_tostring(lua, -2);
        size_t length;
        if (lua_istable(lua, -1)) {
            if (depth >= FIELD_DEPTH_MAX)
                luaL_error(lua, "a context is not nested so deeply");
            char inner[128];
            g_snprintf(inner, sizeof(inner), "%s%s.", prefix, name);
            read_fields(lua, fields, inner, depth + 1);
        } else if (lua_isboolean(lua, -1)) {
            const char *word = lua_toboolean(lua, -1) ? "true" : "false";
            add_field(fields, prefix, name, word, strlen(word));
        } else if (lua_isstring(lua, -1)) {
            const char *text = lua_tolstring(lua, -1, &length);
            add_field(fields, prefix, name, text, length);
        }
    }
}

void
ph_lua_fields_read(lua_State *lua, PhLuaFields *fields)
{
    read_fields(lua, fields, "", 0);
}

const char *
ph_lua_field(const PhHookField *fields, size_t n_fields, const char *name)
{
    for (size_t i = 0; i < n_fields; i++)
        if (strcmp(fields[i].name, name) == 0)
            return fields[i].value;
    return NULL;
}

static void
append_json_text(GString *out, const char *text, size_t length)
{
    enum { SHOWN_BYTES = 200 };
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)MIN(length, SHOWN_BYTES));
    g_string_append_c(out, '"');
    for (const char *at = valid; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            g_string_append_c(out, '\\');
        if ((unsigned char)*at < ' ')
            g_string_append_printf(out, "\\u%04x", (unsigned)*at);
        else
            g_string_append_c(out, *at);
    }
    g_string_append_c(out, '"');
}

/* What may hold a message, a password or a session. */
static bool
is_private(const char *name)
{
    static const char *const words[] = { "header", "body", "cookie", "password", "secret", "token",
        "authorization", "query", "subject" };
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strstr(name, words[i]) != NULL)
            return true;
    return false;
}

char *
ph_lua_fields_describe(const PhHookField *fields, size_t n_fields)
{
    GString *out = g_string_new("{");
    for (size_t i = 0; i < n_fields; i++) {
        if (fields[i].value == NULL || is_private(fields[i].name))
            continue;
        if (out->len > 1)
            g_string_append(out, ", ");
        append_json_text(out, fields[i].name, strlen(fields[i].name));
        g_string_append(out, ": ");
        append_json_text(out, fields[i].value, fields[i].length);
    }
    g_string_append_c(out, '}');
    return g_string_free(out, FALSE);
}
