/* serve.c - posthouse serve: the keeper */
#include "command/command.h"

#include "runtime/keeper.h"
#include "runtime/log.h"

#include <stdio.h>

int
ph_command_serve(const PhCommonOptions *options, int argc, char **argv)
{
    if (argc > 0) {
        fprintf(stderr, "posthouse serve: \"%s\" is not known\n", argv[0]);
        return 2;
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = ph_config_load(options->config, options->state, &error);
    if (config == NULL) {
        fprintf(stderr, "posthouse serve: %s\n", error->message);
        return PH_EXIT_CONFIG;
    }
    /* By its path, so that an upgraded file is what the next daemon runs. */
    g_autofree char *program = g_file_read_link("/proc/self/exe", &error);
    if (program == NULL) {
        fprintf(stderr, "posthouse serve: %s\n", error->message);
        return 1;
    }
    ph_log_set(g_getenv("JOURNAL_STREAM") != NULL ? PH_LOG_JOURNAL : PH_LOG_TEXT, PH_LOG_NOTICE);
    return ph_keeper_run(config, program);
}
