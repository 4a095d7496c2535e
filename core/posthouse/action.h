/* action.h - what management can do, as rows
 *
 * Shape:    an action has a name of two words ("domain.add"), arguments with types, the fields of its
 *           answer, a role that may call it, its place in the HTTP API, and a function. Arguments
 *           are checked against their rows before the function runs. The answer is a set of fields,
 *           and for lists a sequence of items with fields. CLI, its manual and its completion, API
 *           and its OpenAPI document, and the console's forms come from these rows; what changes
 *           something is written to the audit log by the dispatcher.
 * Threads:  functions run on a thread that may block, with the leases of the console's lane.
 * Errors:   of the function; SYNTAX of the dispatcher names the argument.
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhRole {
    PH_ROLE_USER,     /* an account, about itself */
    PH_ROLE_TENANT,   /* a tenant's administrator, about what is the tenant's */
    PH_ROLE_OPERATOR, /* the whole installation */
} PhRole;

typedef enum PhArgumentType {
    PH_ARGUMENT_TEXT,
    PH_ARGUMENT_INT,
    PH_ARGUMENT_BOOL,
    PH_ARGUMENT_SECRET,   /* never shown, logged or written to the audit log */
    PH_ARGUMENT_DOCUMENT, /* a longer text; the CLI reads it from a file, "-" is standard input */
    PH_ARGUMENT_SECRET_DOCUMENT,
} PhArgumentType;

enum {
    PH_ARGUMENT_REQUIRED = 1 << 0,
    PH_ARGUMENT_POSITIONAL =
        1 << 1, /* the CLI takes it without its name, in the order of the rows */
};

typedef struct PhArgumentRow {
    const char *name; /* null ends the table */
    PhArgumentType type;
    unsigned flags;
    const char *help;
    const char *choices; /* TEXT: one of these, divided by "|"; null: any */
    int64_t min;         /* INT: the range, when min < max (else 0 to INT64_MAX); TEXT: max is its
                            length in bytes (0: 4,096) */
    int64_t max;
} PhArgumentRow;

typedef enum PhAnswerType {
    PH_ANSWER_TEXT,
    PH_ANSWER_INT,
    PH_ANSWER_BOOL,
    PH_ANSWER_TIME,
} PhAnswerType;

enum {
    PH_ANSWER_OF_ITEM = 1 << 0, /* in each item of the list, not beside it */
    PH_ANSWER_LONG = 1 << 1,    /* left out where it would not fit: a table of the CLI */
};

typedef struct PhAnswerRow {
    const char *name; /* null ends the table */
    PhAnswerType type;
    unsigned flags;
    const char *help;
} PhAnswerRow;

enum {
    PH_ACTION_CHANGES = 1 << 0, /* goes to the audit log */
};

typedef struct PhActionCall PhActionCall;

struct PhActionRow {
    const char *name; /* null ends the table */
    PhRole role;      /* the least that may call it */
    unsigned flags;
    const PhArgumentRow *arguments; /* null: none */
    const PhAnswerRow *answers;     /* null: none */
    bool (*run)(PhActionCall *call, GError **error);
    const char *route;   /* "DELETE /domains/{name}"; null: "POST /actions/NAME" */
    const char *subject; /* the action that shows what is changed, called before and after for the
                            audit log with those of the arguments that it takes; null: none */
    const char *help;
};
typedef struct PhActionRow PhActionRow;

/* -- rows in short ---------------------------------------------------------------------------- */

enum { PH_LIST_LIMIT = 100, PH_LIST_LIMIT_MAX = 1000 };

// clang-format off
#define PH_ARGUMENT_AFTER  { "after", PH_ARGUMENT_TEXT, 0, "go on behind this, as the last answer said", NULL, 0, 0 }
#define PH_ARGUMENT_LIMIT  { "limit", PH_ARGUMENT_INT, 0, "items at most (100)", NULL, 1, PH_LIST_LIMIT_MAX }
#define PH_ARGUMENT_FILTER { "filter", PH_ARGUMENT_TEXT, 0, "only what contains this text", NULL, 0, 255 }
#define PH_ARGUMENTS_LIST  PH_ARGUMENT_FILTER, PH_ARGUMENT_AFTER, PH_ARGUMENT_LIMIT
#define PH_ARGUMENT_IF_VERSION { "if_version", PH_ARGUMENT_INT, 0, "only if it is still this version", NULL, 0, 0 }
#define PH_NEEDED(name, help)   { name, PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, help, NULL, 0, 0 }
#define PH_OPTION(name, help)   { name, PH_ARGUMENT_TEXT, 0, help, NULL, 0, 0 }
#define PH_NUMBER(name, help)   { name, PH_ARGUMENT_INT, 0, help, NULL, 0, 0 }
#define PH_SWITCH(name, help)   { name, PH_ARGUMENT_BOOL, 0, help, NULL, 0, 0 }
#define PH_CHOICE(name, choices, help) { name, PH_ARGUMENT_TEXT, 0, help, choices, 0, 0 }
#define PH_FIELD(name, type, help) { name, PH_ANSWER_##type, 0, help }
#define PH_ITEM(name, type, help)  { name, PH_ANSWER_##type, PH_ANSWER_OF_ITEM, help }
// clang-format on

/* -- for the function -------------------------------------------------------------------------- */

/* Null, or `fallback`, when the argument was not given. */
PH_API const char *ph_action_text(const PhActionCall *call, const char *name);
PH_API int64_t ph_action_int(const PhActionCall *call, const char *name, int64_t fallback);
PH_API bool ph_action_bool(const PhActionCall *call, const char *name, bool fallback);
PH_API const PhSecret *ph_action_secret(const PhActionCall *call, const char *name);
PH_API int64_t ph_action_deadline_us(const PhActionCall *call);
/* How many items a list may give: the argument "limit", or PH_LIST_LIMIT. */
PH_API unsigned ph_action_limit(const PhActionCall *call);
/* Who calls: an operator's name, or a login. */
PH_API const char *ph_action_actor(const PhActionCall *call);
PH_API PhRole ph_action_role(const PhActionCall *call);
/* May the caller see and change what belongs to this tenant? An operator may everything; others are
 * told NOT_FOUND by the function. */
PH_API bool ph_action_may_tenant(const PhActionCall *call, int64_t tenant_id);
/* The version that a thing must have to be written back: the caller's argument "if_version", or the one
 * that was read. Without the argument the function is run again when the thing was changed in between,
 * so that nobody's change is undone by what another one did not mean to touch. */
PH_API int64_t ph_action_version(PhActionCall *call, int64_t read);
/* Which argument the error is about, when the function fails; otherwise it is the first positional
 * one. */
PH_API void ph_action_blame(PhActionCall *call, const char *argument);
/* The caller's tenant; for an operator 0: the tenant of a new thing, or the filter of a list, where 0 is
 * all of them. */
PH_API int64_t ph_action_tenant(const PhActionCall *call);

/* Fields of the answer; after ph_answer_item() of the newest item. Null text is left out. */
PH_API void ph_answer_text(PhActionCall *call, const char *name, const char *value);
PH_API void ph_answer_int(PhActionCall *call, const char *name, int64_t value);
PH_API void ph_answer_bool(PhActionCall *call, const char *name, bool value);
/* RFC 3339 in UTC; INT64_MIN and INT64_MAX are left out. */
PH_API void ph_answer_time(PhActionCall *call, const char *name, int64_t time_us);
PH_API void ph_answer_item(PhActionCall *call);
/* Where the next page begins: pass it as the argument "after". */
PH_API void ph_answer_next(PhActionCall *call, const char *next);
