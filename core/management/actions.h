/* actions.h - the table of actions and its dispatcher
 *
 * Shape:    a request is JSON {"action": NAME, "args": {...}}; an answer is {"ok": true, "answer":
 *           {...}} or {"ok": false, "error": {"code": CODE, "text": TEXT}}. Lists are "items" in
 *           the answer, "next" goes on.
 * Threads:  in a job.
 */
#pragma once

#include "posthouse/action.h"

typedef struct PhCaller {
    const char *actor;  /* for the audit log */
    const char *origin; /* "control" or an address */
    PhRole role;
} PhCaller;

/* The rows of the core; plugins' rows are found through the plugin loader. */
extern const PhActionRow ph_core_actions[];

/* The row of a core action, or null. */
const PhActionRow *ph_core_action_find(const char *name);
/* Always gives an answer; free it. */
PH_IN_JOB char *ph_action_dispatch_blocking(
    const char *request, size_t length, const PhCaller *caller);
