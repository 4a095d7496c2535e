/* command.c - which subcommand, and help */
#include "command/command.h"

#include "management/actions.h"

#include <config.h>
#include <locale.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(const PhCommonOptions *options, int argc, char **argv);
    const char *help; /* null: not for people */
} command_rows[] = {
    { "serve", ph_command_serve, "serve until a signal ends it" },
    { "init", ph_command_init, "make a state folder with its posthouse.conf" },
    { "daemon", ph_command_daemon, NULL },
};

static void
print_arguments(const PhActionRow *row)
{
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if ((at->flags & PH_ARGUMENT_POSITIONAL) != 0)
            printf(" %s", at->name);
    for (const PhArgumentRow *at = row->arguments; at != NULL && at->name != NULL; at++)
        if (at->type == PH_ARGUMENT_SECRET)
            printf(" [--%s-stdin]", at->name);
        else if ((at->flags & PH_ARGUMENT_POSITIONAL) == 0)
            printf(" [--%s%s]", at->name, at->type == PH_ARGUMENT_BOOL ? "" : " ...");
}

static int
print_help(void)
{
    printf("posthouse [--state FOLDER | --config FILE] [--json] COMMAND ...\n\n");
    for (size_t i = 0; i < G_N_ELEMENTS(command_rows); i++)
        if (command_rows[i].help != NULL)
            printf("  %-10s %s\n", command_rows[i].name, command_rows[i].help);
    printf("  %-10s how the server is\n", "status");
    printf("\nCommands to a running server:\n\n");
    for (const PhActionRow *row = ph_core_actions; row->name != NULL; row++) {
        g_auto(GStrv) words = g_strsplit(row->name, ".", 2);
        printf("  %s %s", words[0], words[1]);
        print_arguments(row);
        printf("\n      %s\n", row->help);
    }
    return 0;
}

const char *
ph_command_option(const char *name, int argc, char **argv, int *index)
{
    const char *word = argv[*index];
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0)
        return NULL;
    if (word[length] == '=') {
        *index += 1;
        return word + length + 1;
    }
    if (word[length] != '\0' || *index + 1 >= argc)
        return NULL;
    *index += 2;
    return argv[*index - 1];
}

/* Takes the common options out; what is left is moved to the front. */
static int
take_options(PhCommonOptions *options, int argc, char **argv)
{
    int left = 0;
    for (int i = 0; i < argc;) {
        const char *value;
        if ((value = ph_command_option("--state", argc, argv, &i)) != NULL) {
            g_free(options->state);
            options->state = g_canonicalize_filename(value, NULL);
        } else if ((value = ph_command_option("--config", argc, argv, &i)) != NULL) {
            g_free(options->config);
            options->config = g_canonicalize_filename(value, NULL);
        } else if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
            i++;
        } else {
            argv[left++] = argv[i++];
        }
    }
    return left;
}

static int
run_command(const PhCommonOptions *options, int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0)
        return print_help();
    if (strcmp(argv[0], "--version") == 0) {
        printf("posthouse %s\n", PH_VERSION);
        return 0;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(command_rows); i++)
        if (strcmp(argv[0], command_rows[i].name) == 0)
            return command_rows[i].run(options, argc - 1, argv + 1);
    return ph_command_action(options, argc, argv);
}

int
ph_main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    if (sodium_init() < 0) {
        fprintf(stderr, "posthouse: libsodium cannot be used\n");
        return 1;
    }
    PhCommonOptions options = { .state = NULL };
    int left = take_options(&options, argc - 1, argv + 1);
    int status = run_command(&options, left, argv + 1);
    g_free(options.state);
    g_free(options.config);
    return status;
}
