/* help.c - help, the manual and bash's completion, all made from the rows */
#include "command/command.h"

#include "management/actions.h"

#include <config.h>
#include <stdio.h>
#include <string.h>

/* -- help -------------------------------------------------------------------------------------- */

static bool
is_secret(const PhArgumentRow *row)
{
    return row->type == PH_ARGUMENT_SECRET;
}

static bool
is_positional(const PhArgumentRow *row)
{
    return (row->flags & PH_ARGUMENT_POSITIONAL) != 0;
}

static const char *
value_name(const PhArgumentRow *row)
{
    static const char *const names[] = {
        [PH_ARGUMENT_TEXT] = "TEXT",
        [PH_ARGUMENT_INT] = "NUMBER",
        [PH_ARGUMENT_BOOL] = "yes|no",
        [PH_ARGUMENT_SECRET] = "",
        [PH_ARGUMENT_DOCUMENT] = "FILE",
        [PH_ARGUMENT_SECRET_DOCUMENT] = "FILE",
    };
    return row->choices != NULL ? row->choices : names[row->type];
}

/* "domain.add" to "domain add". */
static char *
words_of(const char *action)
{
    return g_strdelimit(g_strdup(action), ".", ' ');
}

static char *
upper(const char *name)
{
    return g_ascii_strup(name, -1);
}

static void
print_usage(const PhActionRow *row)
{
    g_autofree char *words = words_of(row->name);
    printf("  %s", words);
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        g_autofree char *name = upper(at->name);
        if (is_positional(at))
            printf((at->flags & PH_ARGUMENT_REQUIRED) != 0 ? " %s" : " [%s]", name);
    }
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (is_secret(at))
            printf(" [--%s-stdin]", at->name);
        else if (!is_positional(at))
            printf(" [--%s%s%s]", at->name, at->type == PH_ARGUMENT_BOOL ? "" : " ",
                at->type == PH_ARGUMENT_BOOL ? "" : value_name(at));
    printf("\n      %s\n", row->help);
}

static void
print_argument(const PhArgumentRow *row)
{
    g_autofree char *name = is_positional(row) ? upper(row->name)
                            : is_secret(row)   ? g_strdup_printf("--%s-stdin", row->name)
                            : row->type == PH_ARGUMENT_BOOL
                                ? g_strdup_printf("--%s", row->name)
                                : g_strdup_printf("--%s %s", row->name, value_name(row));
    printf("  %-28s %s", name, row->help);
    if (row->type == PH_ARGUMENT_INT && row->min < row->max)
        printf("; %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, row->min, row->max);
    printf("\n");
}

void
ph_print_action(const PhActionRow *row)
{
    print_usage(row);
    printf("\n");
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        print_argument(at);
}

typedef struct Group {
    const char *word;
    unsigned n;
} Group;

static void
print_of_group(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    Group *group = data;
    size_t length = strlen(group->word);
    if (strncmp(row->name, group->word, length) != 0 || row->name[length] != '.')
        return;
    print_usage(row);
    group->n++;
}

bool
ph_print_group(const char *word)
{
    Group group = { .word = word };
    ph_actions_each(print_of_group, &group);
    return group.n > 0;
}

static void
print_row(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    (void)data;
    print_usage(row);
}

static void
print_help(void)
{
    printf("posthouse [--state FOLDER | --config FILE] [--json] COMMAND ...\n\n");
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++)
        if (row->help != NULL)
            printf("  %-13s %s\n", row->name, row->help);
    printf("  %-13s how the server is\n", "status");
    printf("  %-13s what is wrong, and what to do about it\n", "checks");
    printf("  %-13s a login to the console that works once\n", "console-link");
    printf("\nCommands to a running server:\n\n");
    ph_actions_each(print_row, NULL);
}

static void
print_command(const PhCommandRow *row)
{
    printf("  %-13s %s\n", row->name, row->help);
    for (const PhOptionRow *at = row->options; at != NULL && at->name != NULL; at++) {
        g_autofree char *option = g_strdup_printf("%s %s", at->name, at->value);
        printf("      %-26s %s\n", option, at->help);
    }
}

/* -- the manual -------------------------------------------------------------------------------- */

/* Text for roff: no line begins with a control character, backslashes and dashes are themselves. */
static void
print_roff(const char *text)
{
    for (bool at_start = true; *text != '\0'; text++, at_start = false) {
        if (at_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
}

static void
print_manual_action(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    (void)data;
    g_autofree char *words = words_of(row->name);
    printf(".TP\n.B ");
    print_roff(words);
    printf("\n");
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        g_autofree char *name = upper(at->name);
        g_autofree char *option = g_strdup_printf("[--%s%s%s%s]", at->name,
            is_secret(at) ? "-stdin" : "", is_secret(at) || at->type == PH_ARGUMENT_BOOL ? "" : " ",
            is_secret(at) || at->type == PH_ARGUMENT_BOOL ? "" : value_name(at));
        printf(".I \"");
        print_roff(is_positional(at) ? name : option);
        printf("\"\n");
    }
    printf(".br\n");
    print_roff(row->help);
    printf(".\n");
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        printf(".br\n");
        g_autofree char *line = g_strdup_printf("%s: %s", at->name, at->help);
        print_roff(line);
        printf("\n");
    }
}

static void
print_manual(void)
{
    printf(".TH POSTHOUSE 1 \"\" \"posthouse %s\"\n", PH_VERSION);
    printf(".SH NAME\nposthouse \\- mail and web for an organisation, in one service\n");
    printf(".SH SYNOPSIS\n.B posthouse\n[\\fB\\-\\-state\\fR FOLDER | \\fB\\-\\-config\\fR FILE]\n"
           "[\\fB\\-\\-json\\fR] COMMAND ...\n");
    printf(".SH COMMANDS\n");
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++) {
        if (row->help == NULL)
            continue;
        printf(".TP\n.B %s\n", row->name);
        print_roff(row->help);
        printf("\n");
        for (const PhOptionRow *at = row->options; at != NULL && at->name != NULL; at++) {
            printf(".br\n");
            g_autofree char *line = g_strdup_printf("%s %s: %s", at->name, at->value, at->help);
            print_roff(line);
            printf("\n");
        }
    }
    printf(".SH COMMANDS TO A RUNNING SERVER\n");
    printf("They go through the control socket, which root and the server's user may use, and are "
           "the same\nthat the console and the API call. Plugins may bring more: "
           "\\fBposthouse server actions\\fR.\n");
    ph_actions_each(print_manual_action, NULL);
    printf(".SH OPTIONS\n"
           ".TP\n\\fB\\-\\-state\\fR FOLDER\nthe state folder, with posthouse.conf in it\n"
           ".TP\n\\fB\\-\\-config\\fR FILE\na posthouse.conf elsewhere\n"
           ".TP\n\\fB\\-\\-json\\fR\nthe server's answer as it is\n");
    printf(".SH EXIT STATUS\n0: done. 1: it failed, and why is on standard error. 2: the words are "
           "wrong.\n");
    printf(".SH FILES\n.TP\n.I /etc/posthouse/posthouse.conf\nwhat is needed to start\n"
           ".TP\n.I /var/lib/posthouse\nthe state folder\n");
}

/* -- completion -------------------------------------------------------------------------------- */

static void
add_word(GString *words, const char *word)
{
    if (words->len > 0)
        g_string_append_c(words, ' ');
    g_string_append(words, word);
}

static void
collect_groups(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    GHashTable *groups = data;
    const char *dot = strchr(row->name, '.');
    g_autofree char *group = g_strndup(row->name, (size_t)(dot - row->name));
    GString *words = g_hash_table_lookup(groups, group);
    if (words == NULL) {
        words = g_string_new(NULL);
        g_hash_table_insert(groups, g_strdup(group), words);
    }
    add_word(words, dot + 1);
}

static void
print_options(const char *plugin, const PhActionRow *row, void *data)
{
    (void)plugin;
    (void)data;
    g_autoptr(GString) options = g_string_new(NULL);
    g_autofree char *words = words_of(row->name);
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++) {
        if (is_positional(at))
            continue;
        g_autofree char *option =
            g_strdup_printf("--%s%s", at->name, is_secret(at) ? "-stdin" : "");
        add_word(options, option);
    }
    if (options->len > 0)
        printf("        \"%s\") options=\"%s\" ;;\n", words, options->str);
}

static void
print_command_options(const PhCommandRow *row)
{
    g_autoptr(GString) options = g_string_new(NULL);
    for (const PhOptionRow *at = row->options; at != NULL && at->name != NULL; at++)
        add_word(options, at->name);
    if (options->len > 0)
        printf("        %s) options=\"%s\" ;;\n", row->name, options->str);
}

static void
free_words(gpointer words)
{
    g_string_free(words, TRUE);
}

static void
print_completion(void)
{
    g_autoptr(GHashTable) groups =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_words);
    ph_actions_each(collect_groups, groups);
    g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(groups), (GCompareFunc)strcmp);
    printf("# bash completion for posthouse: made by posthouse help bash-completion\n"
           "_posthouse()\n{\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} words=() options= i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case ${COMP_WORDS[i]} in\n"
           "        --state | --config) i=$((i + 1)) ;;\n"
           "        -*) ;;\n"
           "        *) words+=(\"${COMP_WORDS[i]}\") ;;\n"
           "        esac\n"
           "    done\n"
           "    if ((${#words[@]} == 0)); then\n        options=\"");
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++)
        if (row->help != NULL)
            printf("%s ", row->name);
    printf("status checks console-link");
    for (GList *name = names; name != NULL; name = name->next)
        printf(" %s", (const char *)name->data);
    printf(" --state --config --json\"\n"
           "    elif ((${#words[@]} == 1)); then\n        case ${words[0]} in\n");
    for (GList *name = names; name != NULL; name = name->next)
        printf("        %s) options=\"%s\" ;;\n", (const char *)name->data,
            ((GString *)g_hash_table_lookup(groups, name->data))->str);
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++)
        print_command_options(row);
    printf("        esac\n    else\n        case \"${words[0]} ${words[1]}\" in\n");
    ph_actions_each(print_options, NULL);
    printf("        esac\n    fi\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$current\")\n"
           "    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
           "}\n"
           "complete -o filenames -F _posthouse posthouse\n");
}

int
ph_command_help(const PhCommonOptions *options, int argc, char **argv)
{
    (void)options;
    if (argc == 0) {
        print_help();
        return 0;
    }
    if (strcmp(argv[0], "man") == 0) {
        print_manual();
        return 0;
    }
    if (strcmp(argv[0], "bash-completion") == 0) {
        print_completion();
        return 0;
    }
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++)
        if (row->help != NULL && strcmp(argv[0], row->name) == 0) {
            print_command(row);
            return 0;
        }
    int used;
    g_autofree char *name = ph_action_name(argc, argv, &used);
    const PhActionRow *row = ph_core_action_find(name);
    if (row != NULL)
        ph_print_action(row);
    else if (!ph_print_group(argv[0])) {
        fprintf(stderr, "posthouse: \"%s\" is not known; see posthouse help\n", argv[0]);
        return 2;
    }
    return 0;
}
