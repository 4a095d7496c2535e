/* action.c - any action as words, its answer as a table
 *
 * "posthouse domain add example.org" is the action "domain.add" with its first positional argument.
 * The server checks everything; here only the shape of the words is made into JSON, by the rows
 * where they are known.
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

static const PhArgumentRow *
find_argument(const PhActionRow *row, const char *name, size_t length)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (strlen(at->name) == length && strncmp(at->name, name, length) == 0)
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
        if (!g_ascii_string_to_unsigned(value, 10, 0, INT64_MAX, &number, NULL)) {
            fprintf(stderr, "posthouse: \"%s\" takes a number\n", row->name);
            return false;
        }
        json_object_set_int_member(arguments, row->name, (gint64)number);
        return true;
    case PH_ARGUMENT_BOOL:
        json_object_set_boolean_member(arguments, row->name, true);
        return true;
    case PH_ARGUMENT_DOCUMENT:
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
    if (argument->type == PH_ARGUMENT_BOOL && name[length] == '=') {
        fprintf(stderr, "posthouse: \"--%s\" takes no value\n", argument->name);
        return false;
    }
    if (argument->type == PH_ARGUMENT_BOOL)
        return set_argument(arguments, argument, "true");
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

/* The columns of a list: every field that some item has, in order of appearance. */
static GPtrArray *
find_columns(JsonArray *items)
{
    GPtrArray *columns = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < json_array_get_length(items); i++) {
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
print_items(JsonArray *items)
{
    g_autoptr(GPtrArray) columns = find_columns(items);
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
print_answer(JsonObject *answer)
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
        print_items(json_object_get_array_member(answer, "items"));
    if (json_object_has_member(answer, "next"))
        printf("(more: --after %s)\n", json_object_get_string_member(answer, "next"));
}

/* The exit status. */
static int
show(const PhCommonOptions *options, const char *text)
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
        print_answer(json_object_get_object_member(top, "answer"));
    else
        fprintf(stderr, "posthouse: %s\n",
            json_object_get_string_member(json_object_get_object_member(top, "error"), "text"));
    return good ? 0 : 1;
}

/* "status" is short for "server status". The words that are left begin at *used_out. */
static char *
action_name(int argc, char **argv, int *used_out)
{
    if (strcmp(argv[0], "status") == 0) {
        *used_out = 1;
        return g_strdup("server.status");
    }
    *used_out = MIN(argc, 2);
    return argc >= 2 ? g_strdup_printf("%s.%s", argv[0], argv[1]) : g_strdup(argv[0]);
}

int
ph_command_action(const PhCommonOptions *options, int argc, char **argv)
{
    ph_assert_in_job();
    int used;
    g_autofree char *name = action_name(argc, argv, &used);
    const PhActionRow *row = ph_core_action_find(name);
    if (row == NULL) {
        fprintf(stderr, "posthouse: \"%s\" is not known; see posthouse help\n", name);
        return 2;
    }
    g_autoptr(JsonObject) request = json_object_new();
    JsonObject *arguments = json_object_new();
    json_object_set_string_member(request, "action", name);
    json_object_set_object_member(request, "args", arguments);
    if (!take_words(row, arguments, argc - used, argv + used))
        return 2;

    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = ph_config_load(options->config, options->state, &error);
    g_autofree char *path = config != NULL ? ph_config_control_socket(config, &error) : NULL;
    g_autofree char *text = to_text(request);
    g_autofree char *answer = path != NULL ? ph_control_call_blocking(path, text, &error) : NULL;
    if (answer == NULL) {
        fprintf(stderr, "posthouse: %s\n", error->message);
        return 1;
    }
    return show(options, answer);
}
