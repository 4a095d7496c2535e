/* command.h - the program's subcommands
 *
 * Shape:    each takes the words behind its name and gives the exit status: 0 done, 1 it failed
 *           (the reason is on standard error), 2 the words are wrong, PH_EXIT_CONFIG where starting
 *           again cannot help.
 */
#pragma once

#include "posthouse/action.h"
#include "runtime/config.h"

/* Options that every subcommand takes, taken out of argv. */
typedef struct PhCommonOptions {
    char *state;  /* --state DIR */
    char *config; /* --config FILE */
    bool json;    /* --json */
} PhCommonOptions;

/* An option of one subcommand. */
typedef struct PhOptionRow {
    const char *name;  /* "--run-as"; null ends the table */
    const char *key;   /* of posthouse.conf */
    const char *value; /* "USER" */
    const char *help;
} PhOptionRow;

typedef struct PhCommandRow {
    const char *name; /* null ends the table */
    int (*run)(const PhCommonOptions *options, int argc, char **argv);
    const char *help;           /* null: not for people */
    const PhOptionRow *options; /* null: none */
} PhCommandRow;

extern const PhCommandRow ph_commands[];

/* "help [COMMAND]", "help man", "help bash-completion": all from the rows. */
int ph_command_help(const PhCommonOptions *options, int argc, char **argv);
/* The action that these words name: "domain add", or a short name such as "status". The words that
 * are left begin at *used_out. Free it. */
char *ph_action_name(int argc, char **argv, int *used_out);
/* How an action is called, with each of its arguments. */
void ph_print_action(const PhActionRow *row);
/* The actions whose names begin with this word. False when there is none. */
bool ph_print_group(const char *word);

extern const PhOptionRow ph_init_options[];
int ph_command_init(const PhCommonOptions *options, int argc, char **argv);
int ph_command_serve(const PhCommonOptions *options, int argc, char **argv);
/* Started by the keeper only. */
int ph_command_daemon(const PhCommonOptions *options, int argc, char **argv);
/* Checks of the server and of the DNS records of its domains; 1 when something is bad. */
int ph_command_doctor(const PhCommonOptions *options, int argc, char **argv);
/* Any action, through the control socket of a running server. */
int ph_command_action(const PhCommonOptions *options, int argc, char **argv);
/* "NAME VALUE" or "NAME=VALUE" at argv[*index]; moves the index past it. Null: something else
 * stands there. */
const char *ph_command_option(const char *name, int argc, char **argv, int *index);
PH_API int ph_main(int argc, char **argv);
