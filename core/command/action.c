/* action.c - any action as words, its answer as a table
 *
 * "posthouse domain add example.org" is the action "domain.add" with its first positional argument.
 * The server checks everything; here only the shape of the words is made into JSON, by the rows. Rows
 * of plugins are asked of the server.
 */
#include "command/command.h"

#include "management/actions.h"
#include "management/control.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* -- the request ------------------------------------------------------------------------------- */

/* "--quota-bytes" is quota_bytes as well. */
static bool
same_name(const char *name, const char *word, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != word[i] && !(name[i] == '_' && word[i] == '-'))
            return false;
    return true;
}

static const PhArgumentRow *
find_argument(const PhActionRow *row, const char *name, size_t length)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (same_name(at->name, name, length))
            return at;
    return NULL;
}

static const PhArgumentRow *
next_positional(const PhActionRow *row, unsigned *index)
{
    unsigned seen = 0;
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ARGUMENT_POSITIONAL) != 0 && seen++ == *index) {
            (*index)++;
            return at;
        }
    return NULL;
}

static bool
set_document(JsonObject *arguments, const PhArgumentRow *row, const char *path)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    if (!g_file_get_contents(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, NULL, &error)) {
        fprintf(stderr, "posthouse: %s\n", error->message);
        return false;
    }
    if (!g_utf8_validate(text, -1, NULL)) {
        fprintf(stderr, "posthouse: \"%s\" is no UTF-8 text\n", path);
        return false;
    }
    json_object_set_string_member(arguments, row->name, text);
    return true;
}

/* "10M" where bytes are meant. */
static bool
parse_number(const PhArgumentRow *row, const char *value, guint64 *number_out)
{
    static const char units[] = "KMGT";
    g_autofree char *digits = g_strdup(value);
    size_t length = strlen(digits);
    unsigned shift = 0;
    if (length > 1 && g_str_has_suffix(row->name, "_bytes")) {
        const char *unit = strchr(units, g_ascii_toupper(digits[length - 1]));
        if (unit != NULL) {
            shift = 10 * (unsigned)(unit - units + 1);
            digits[length - 1] = '\0';
        }
    }
    if (!g_ascii_string_to_unsigned(digits, 10, 0, INT64_MAX >> shift, number_out, NULL))
        return false;
    *number_out <<= shift;
    return true;
}

static bool
set_bool(JsonObject *arguments, const PhArgumentRow *row, const char *value)
{
    static const char *const yes[] = { "yes", "true", "on", "1", NULL };
    static const char *const no[] = { "no", "false", "off", "0", NULL };
    bool is_yes = g_strv_contains(yes, value);
    if (!is_yes && !g_strv_contains(no, value)) {
        fprintf(stderr, "posthouse: \"--%s\" takes yes or no\n", row->name);
        return false;
    }
    json_object_set_boolean_member(arguments, row->name, is_yes);
    return true;
}

static bool
set_argument(JsonObject *arguments, const PhArgumentRow *row, const char *value)
{
    guint64 number;
    switch (row->type) {
    case PH_ARGUMENT_TEXT:
    case PH_ARGUMENT_SECRET:
        json_object_set_string_member(arguments, row->name, value);
        return true;
    case PH_ARGUMENT_INT:
        if (!parse_number(row, value, &number)) {
            fprintf(stderr, "posthouse: \"%s\" takes a number\n", row->name);
            return false;
        }
        json_object_set_int_member(arguments, row->name, (gint64)number);
        return true;
    case PH_ARGUMENT_BOOL:
        return set_bool(arguments, row, value);
    case PH_ARGUMENT_DOCUMENT:
    case PH_ARGUMENT_SECRET_DOCUMENT:
        return set_document(arguments, row, value);
    }
    return false;
}

/* From a terminal without echo, from a pipe as it comes; the first line. */
static bool
read_secret(JsonObject *arguments, const PhArgumentRow *row)
{
    char line[1024];
    struct termios before;
    bool terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    if (terminal) {
        struct termios quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
        fprintf(stderr, "%s: ", row->name);
    }
    bool good = fgets(line, sizeof(line), stdin) != NULL;
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        fprintf(stderr, "\n");
    }
    if (!good) {
        fprintf(stderr, "posthouse: no %s on standard input\n", row->name);
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    json_object_set_string_member(arguments, row->name, line);
    ph_wipe(line, sizeof(line));
    return true;
}

/* "--name value", "--name=value", "--flag", "--secret-stdin". */
static bool
take_option(const PhActionRow *row, JsonObject *arguments, int argc, char **argv, int *index)
{
    const char *name = argv[*index] + 2;
    size_t length = strcspn(name, "=");
    const PhArgumentRow *argument = find_argument(row, name, length);
    if (argument == NULL && g_str_has_suffix(name, "-stdin"))
        argument = find_argument(row, name, length - strlen("-stdin"));
    if (argument == NULL) {
        fprintf(stderr, "posthouse: %s does not take \"--%s\"\n", row->name, name);
        return false;
    }
    (*index)++;
    if (argument->type == PH_ARGUMENT_SECRET && name[length] == '=') {
        fprintf(stderr, "posthouse: a %s on the command line is seen by others; use --%s-stdin\n",
            argument->name, argument->name);
        return false;
    }
    if (argument->type == PH_ARGUMENT_SECRET)
        return read_secret(arguments, argument);
    if (argument->type == PH_ARGUMENT_BOOL && name[length] != '=')
        return set_bool(arguments, argument, "yes");
    if (name[length] == '=')
        return set_argument(arguments, argument, name + length + 1);
    if (*index >= argc) {
        fprintf(stderr, "posthouse: \"--%s\" lacks its value\n", argument->name);
        return false;
    }
    return set_argument(arguments, argument, argv[(*index)++]);
}

static bool
take_words(const PhActionRow *row, JsonObject *arguments, int argc, char **argv)
{
    unsigned positional = 0;
    for (int i = 0; i < argc;) {
        if (g_str_has_prefix(argv[i], "--")) {
            if (!take_option(row, arguments, argc, argv, &i))
                return false;
            continue;
        }
        const PhArgumentRow *argument = next_positional(row, &positional);
        if (argument == NULL) {
            fprintf(stderr, "posthouse: %s does not take \"%s\"\n", row->name, argv[i]);
            return false;
        }
        if (!set_argument(arguments, argument, argv[i++]))
            return false;
    }
    /* A secret that must be given and was not is asked for. */
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (at->type == PH_ARGUMENT_SECRET && (at->flags & PH_ARGUMENT_REQUIRED) != 0 &&
            !json_object_has_member(arguments, at->name) && !read_secret(arguments, at))
            return false;
    return true;
}

static char *
to_text(JsonObject *object)
{
    g_autoptr(JsonNode) root = json_node_alloc();
    json_node_init_object(root, object);
    return json_to_string(root, FALSE);
}

/* -- the answer -------------------------------------------------------------------------------- */

static char *
value_text(JsonNode *node)
{
    if (node == NULL || !JSON_NODE_HOLDS_VALUE(node))
        return g_strdup("");
    if (json_node_get_value_type(node) == G_TYPE_STRING)
        return g_strdup(json_node_get_string(node));
    return json_to_string(node, FALSE);
}

static bool
some_item_has(JsonArray *items, const char *name)
{
    for (guint i = 0; i < json_array_get_length(items); i++)
        if (json_object_has_member(json_array_get_object_element(items, i), name))
            return true;
    return false;
}

/* The columns of a list: every field that some item has, in the order of the rows; fields of a
 * plugin's action in order of appearance. */
static GPtrArray *
find_columns(const PhActionRow *row, JsonArray *items)
{
    GPtrArray *columns = g_ptr_array_new_with_free_func(g_free);
    for (const PhAnswerRow *at = row->answers; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ANSWER_OF_ITEM) != 0 && (at->flags & PH_ANSWER_LONG) == 0 &&
            some_item_has(items, at->name))
            g_ptr_array_add(columns, g_strdup(at->name));
    for (guint i = 0; row->answers == NULL && i < json_array_get_length(items); i++) {
        g_autoptr(GList) names = json_object_get_members(json_array_get_object_element(items, i));
        for (GList *name = names; name != NULL; name = name->next)
            if (!g_ptr_array_find_with_equal_func(columns, name->data, g_str_equal, NULL))
                g_ptr_array_add(columns, g_strdup(name->data));
    }
    return columns;
}

static glong
cell_width(JsonArray *items, guint row, const char *column)
{
    JsonObject *item = json_array_get_object_element(items, row);
    g_autofree char *text = json_object_has_member(item, column)
                                ? value_text(json_object_get_member(item, column))
                                : g_strdup("");
    return g_utf8_strlen(text, -1);
}

static void
print_cell(const char *text, glong width, bool last)
{
    fputs(text, stdout);
    for (glong n = g_utf8_strlen(text, -1); !last && n < width + 2; n++)
        putchar(' ');
    if (last)
        putchar('\n');
}

static void
print_items(const PhActionRow *row, JsonArray *items)
{
    g_autoptr(GPtrArray) columns = find_columns(row, items);
    g_autofree glong *widths = g_new0(glong, columns->len);
    for (guint c = 0; c < columns->len; c++) {
        widths[c] = g_utf8_strlen(columns->pdata[c], -1);
        for (guint i = 0; i < json_array_get_length(items); i++)
            widths[c] = MAX(widths[c], cell_width(items, i, columns->pdata[c]));
    }
    if (columns->len > 1)
        for (guint c = 0; c < columns->len; c++)
            print_cell(columns->pdata[c], widths[c], c + 1 == columns->len);
    for (guint i = 0; i < json_array_get_length(items); i++) {
        JsonObject *item = json_array_get_object_element(items, i);
        for (guint c = 0; c < columns->len; c++) {
            g_autofree char *text =
                json_object_has_member(item, columns->pdata[c])
                    ? value_text(json_object_get_member(item, columns->pdata[c]))
                    : g_strdup("");
            print_cell(text, widths[c], c + 1 == columns->len);
        }
    }
}

static void
print_answer(const PhActionRow *row, JsonObject *answer)
{
    g_autoptr(GList) names = json_object_get_members(answer);
    glong width = 0;
    /* A single text is what was asked for: it is printed as it is. */
    if (json_object_get_size(answer) == 1 && json_object_has_member(answer, "text")) {
        fputs(json_object_get_string_member(answer, "text"), stdout);
        return;
    }
    for (GList *name = names; name != NULL; name = name->next)
        width = MAX(width, g_utf8_strlen(name->data, -1));
    for (GList *name = names; name != NULL; name = name->next) {
        if (strcmp(name->data, "items") == 0 || strcmp(name->data, "next") == 0)
            continue;
        g_autofree char *text = value_text(json_object_get_member(answer, name->data));
        print_cell(name->data, width, false);
        print_cell(text, 0, true);
    }
    if (json_object_has_member(answer, "items"))
        print_items(row, json_object_get_array_member(answer, "items"));
    if (json_object_has_member(answer, "next"))
        printf("(more: --after %s)\n", json_object_get_string_member(answer, "next"));
}

/* The exit status. */
static int
show(const PhCommonOptions *options, const PhActionRow *row, const char *text)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    if (!json_parser_load_from_data(parser, text, -1, NULL) ||
        !JSON_NODE_HOLDS_OBJECT(json_parser_get_root(parser))) {
        fprintf(stderr, "posthouse: the server's answer cannot be read\n");
        return 1;
    }
    JsonObject *top = json_node_get_object(json_parser_get_root(parser));
    bool good = json_object_get_boolean_member(top, "ok");
    if (options->json)
        printf("%s\n", text);
    else if (good)
        print_answer(row, json_object_get_object_member(top, "answer"));
    else
        fprintf(stderr, "posthouse: %s\n",
            json_object_get_string_member(json_object_get_object_member(top, "error"), "text"));
    /* What was only to be looked at may have been found bad (lua check, lua test). */
    if (good)
        good = json_object_get_boolean_member_with_default(
            json_object_get_object_member(top, "answer"), "ok", TRUE);
    return good ? 0 : 1;
}

/* -- rows -------------------------------------------------------------------------------------- */

char *
ph_action_name(int argc, char **argv, int *used_out)
{
    static const char *const short_names[][2] = {
        { "status", "server.status" },
        { "checks", "server.checks" },
        { "console-link", "console.link" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(short_names); i++)
        if (strcmp(argv[0], short_names[i][0]) == 0) {
            *used_out = 1;
            return g_strdup(short_names[i][1]);
        }
    *used_out = MIN(argc, 2);
    return argc >= 2 ? g_strdup_printf("%s.%s", argv[0], argv[1]) : g_strdup(argv[0]);
}

typedef struct Call {
    const PhCommonOptions *options;
    char *socket;
    GArray *arguments; /* PhArgumentRow of a plugin's action */
    GPtrArray *texts;
    PhActionRow row; /* of a plugin's action */
} Call;

static char *
ask_server(Call *call, JsonObject *request, GError **error)
{
    if (call->socket == NULL) {
        g_autoptr(PhConfig) config =
            ph_config_load(call->options->config, call->options->state, error);
        call->socket = config != NULL ? ph_config_control_socket(config, error) : NULL;
    }
    g_autofree char *text = to_text(request);
    return call->socket != NULL ? ph_control_call_blocking(call->socket, text, error) : NULL;
}

static const char *
keep(Call *call, const char *text)
{
    g_ptr_array_add(call->texts, g_strdup(text));
    return call->texts->pdata[call->texts->len - 1];
}

static PhArgumentRow
argument_of(Call *call, JsonObject *described)
{
    static const char *const types[] = {
        [PH_ARGUMENT_TEXT] = "text",
        [PH_ARGUMENT_INT] = "int",
        [PH_ARGUMENT_BOOL] = "bool",
        [PH_ARGUMENT_SECRET] = "secret",
        [PH_ARGUMENT_DOCUMENT] = "document",
        [PH_ARGUMENT_SECRET_DOCUMENT] = "secret-document",
    };
    PhArgumentRow row = {
        .name = keep(call, json_object_get_string_member(described, "name")),
        .help = keep(call, json_object_get_string_member(described, "help")),
    };
    const char *type = json_object_get_string_member(described, "type");
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (strcmp(types[i], type) == 0)
            row.type = (PhArgumentType)i;
    if (json_object_get_boolean_member(described, "required"))
        row.flags |= PH_ARGUMENT_REQUIRED;
    if (json_object_get_boolean_member(described, "positional"))
        row.flags |= PH_ARGUMENT_POSITIONAL;
    return row;
}

/* The first item of the server's answer about an action, or null. */
static JsonObject *
described_action(JsonParser *parser, const char *answer)
{
    if (!json_parser_load_from_data(parser, answer, -1, NULL))
        return NULL;
    JsonObject *top = json_node_get_object(json_parser_get_root(parser));
    if (!json_object_get_boolean_member_with_default(top, "ok", FALSE))
        return NULL;
    JsonArray *items =
        json_object_get_array_member(json_object_get_object_member(top, "answer"), "items");
    return json_array_get_length(items) > 0 ? json_array_get_object_element(items, 0) : NULL;
}

/* What the server says of an action that is not the core's. */
static const PhActionRow *
plugin_row(Call *call, const char *name, GError **error)
{
    g_autoptr(JsonObject) request = json_object_new();
    JsonObject *arguments = json_object_new();
    json_object_set_string_member(arguments, "name", name);
    json_object_set_string_member(request, "action", "server.actions");
    json_object_set_object_member(request, "args", arguments);
    g_autofree char *answer = ask_server(call, request, error);
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(JsonParser) list_parser = json_parser_new();
    JsonObject *action = answer != NULL ? described_action(parser, answer) : NULL;
    if (action == NULL || !json_parser_load_from_data(list_parser,
                              json_object_get_string_member(action, "arguments"), -1, NULL))
        return NULL;
    JsonArray *list = json_node_get_array(json_parser_get_root(list_parser));
    for (guint i = 0; i < json_array_get_length(list); i++) {
        PhArgumentRow row = argument_of(call, json_array_get_object_element(list, i));
        g_array_append_val(call->arguments, row);
    }
    call->row = (PhActionRow){
        .name = keep(call, name),
        .help = keep(call, json_object_get_string_member(action, "help")),
        .arguments = (const PhArgumentRow *)(void *)call->arguments->data,
    };
    return &call->row;
}

static bool
wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

static int
run_row(Call *call, const PhActionRow *row, int argc, char **argv)
{
    g_autoptr(JsonObject) request = json_object_new();
    JsonObject *arguments = json_object_new();
    json_object_set_string_member(request, "action", row->name);
    json_object_set_object_member(request, "args", arguments);
    if (wants_help(argc, argv)) {
        ph_print_action(row);
        return 0;
    }
    if (!take_words(row, arguments, argc, argv))
        return 2;
    g_autoptr(GError) error = NULL;
    g_autofree char *answer = ask_server(call, request, &error);
    if (answer == NULL) {
        fprintf(stderr, "posthouse: %s\n", error->message);
        return 1;
    }
    return show(call->options, row, answer);
}

int
ph_command_action(const PhCommonOptions *options, int argc, char **argv)
{
    ph_assert_in_job();
    int used;
    g_autofree char *name = ph_action_name(argc, argv, &used);
    Call call = {
        .options = options,
        .arguments = g_array_new(TRUE, TRUE, sizeof(PhArgumentRow)),
        .texts = g_ptr_array_new_with_free_func(g_free),
    };
    g_autoptr(GError) error = NULL;
    const PhActionRow *row = ph_core_action_find(name);
    if (row == NULL && strchr(name, '.') != NULL && !wants_help(argc, argv))
        row = plugin_row(&call, name, &error);
    int status = 2;
    if (row != NULL)
        status = run_row(&call, row, argc - used, argv + used);
    else if ((argc == 1 || wants_help(argc, argv)) && ph_print_group(argv[0]))
        status = 0;
    else
        fprintf(stderr, "posthouse: \"%s%s%s\" is not known%s%s; see posthouse help\n", argv[0],
            argc > 1 ? " " : "", argc > 1 ? argv[1] : "", error != NULL ? ", and " : "",
            error != NULL ? error->message : "");
    g_array_unref(call.arguments);
    g_ptr_array_unref(call.texts);
    g_free(call.socket);
    return status;
}
