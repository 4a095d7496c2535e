/* template.c - from a template to Lua
 *
 *   <%= expression %>   its value, escaped for HTML; raw(x) within it is shown as it is
 *   <% code %>          Lua
 *   <%-- comment --%>   nothing
 *   <%%                 "<%" itself
 *
 * Lines stay where they are: text becomes a string whose line ends are escaped line ends, so an error
 * in Lua names the template's line. A line end directly behind "%>" of code is kept.
 */
#include "lua/scripts.h"

#include <string.h>

/* Locals, on the first line: nothing here is looked up by name at run time. */
#define PREFIX "local req,res,data,__write,__show,include,raw=...;"

typedef struct Reader {
    const char *at;
    const char *end;
    int line;
    GString *out;
} Reader;

static void
append_text(Reader *reader, const char *text, size_t length)
{
    if (length == 0)
        return;
    g_string_append(reader->out, "__write\"");
    for (size_t i = 0; i < length; i++) {
        switch (text[i]) {
        case '\n':
            g_string_append(reader->out, "\\\n");
            reader->line++;
            break;
        case '\r':
            g_string_append(reader->out, "\\r");
            break;
        case '"':
        case '\\':
            g_string_append_c(reader->out, '\\');
            g_string_append_c(reader->out, text[i]);
            break;
        case '\0':
            g_string_append(reader->out, "\\0");
            /* A digit that follows would be part of the escape. */
            if (i + 1 < length && g_ascii_isdigit(text[i + 1]))
                g_string_append(reader->out, "00");
            break;
        default:
            g_string_append_c(reader->out, text[i]);
        }
    }
    g_string_append(reader->out, "\";");
}

static void
append_line_ends(Reader *reader, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\n') {
            g_string_append_c(reader->out, '\n');
            reader->line++;
        }
}

/* Lua takes CR LF as one line end, and a lone CR as one too, which would move the lines. */
static void
append_code(Reader *reader, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n')
            reader->line++;
        g_string_append_c(reader->out, text[i] == '\r' ? ' ' : text[i]);
    }
}

static const char *
find(const char *at, const char *end, const char *wanted)
{
    return memmem(at, (size_t)(end - at), wanted, strlen(wanted));
}

/* At a tag. Null: it has no end. */
static const char *
read_tag(Reader *reader)
{
    const char *at = reader->at + 2;
    size_t left = (size_t)(reader->end - at);
    if (left >= 3 && memcmp(at, "--", 2) == 0) {
        const char *end = find(at + 2, reader->end, "--%>");
        if (end != NULL)
            append_line_ends(reader, at, (size_t)(end - at));
        return end != NULL ? end + 4 : NULL;
    }
    const char *end = find(at, reader->end, "%>");
    if (end == NULL)
        return NULL;
    bool is_shown = at < end && *at == '=';
    if (is_shown) {
        g_string_append(reader->out, "__show(");
        append_code(reader, at + 1, (size_t)(end - at - 1));
        g_string_append(reader->out, ");");
    } else {
        g_string_append_c(reader->out, ' ');
        append_code(reader, at, (size_t)(end - at));
        g_string_append_c(reader->out, ' ');
    }
    return end + 2;
}

bool
ph_template_compile(
    const char *text, size_t length, GString *out, int *line_out, const char **reason_out)
{
    Reader reader = { text, text + length, 1, out };
    g_string_append(out, PREFIX);
    while (reader.at < reader.end) {
        const char *tag = find(reader.at, reader.end, "<%");
        const char *text_end = tag != NULL ? tag : reader.end;
        append_text(&reader, reader.at, (size_t)(text_end - reader.at));
        if (tag == NULL)
            break;
        reader.at = tag;
        if (reader.end - tag > 2 && tag[2] == '%') {
            append_text(&reader, "<%", 2);
            reader.at = tag + 3;
            continue;
        }
        const char *next = read_tag(&reader);
        if (next == NULL) {
            *line_out = reader.line;
            *reason_out = "a tag \"<%\" has no end";
            return false;
        }
        reader.at = next;
    }
    return true;
}

void
ph_lua_push_template(lua_State *lua, const char *name, const char *text, size_t length)
{
    PhLuaCall *call = ph_lua_call_of(lua);
    int line = 0;
    const char *reason = NULL;
    GString *before = call->scratch; /* the text may be there */
    call->scratch = NULL;
    GString *code = g_string_sized_new(length + length / 8);
    if (!ph_template_compile(text, length, code, &line, &reason)) {
        g_string_free(code, TRUE);
        call->scratch = before;
        call->is_wrong_words = true;
        luaL_error(lua, "%s:%d: %s", name, line, reason);
        return;
    }
    if (before != NULL)
        g_string_free(before, TRUE);
    call->scratch = code;
    ph_lua_push_chunk(lua, name, code->str, code->len);
    g_string_free(g_steal_pointer(&call->scratch), TRUE);
}
