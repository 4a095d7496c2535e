/* command.c - which subcommand, and the options of all of them */
#include "command/command.h"

#include <config.h>
#include <locale.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

const PhCommandRow ph_commands[] = {
    { "serve", ph_command_serve, "serve until a signal ends it", NULL },
    { "init", ph_command_init, "make a state folder with its posthouse.conf", ph_init_options },
    { "doctor", ph_command_doctor,
        "doctor [DOMAIN...]: what is wrong here, and what to do about it; DNS records with the line to paste",
        NULL },
    { "help", ph_command_help, "this text; help COMMAND; help man; help bash-completion", NULL },
    { "daemon", ph_command_daemon, NULL, NULL },
    { 0 },
};

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
    if (argc == 0 || strcmp(argv[0], "--help") == 0)
        return ph_command_help(options, 0, NULL);
    if (strcmp(argv[0], "--version") == 0) {
        printf("posthouse %s\n", PH_VERSION);
        return 0;
    }
    for (const PhCommandRow *row = ph_commands; row->name != NULL; row++)
        if (strcmp(argv[0], row->name) == 0)
            return row->run(options, argc - 1, argv + 1);
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
