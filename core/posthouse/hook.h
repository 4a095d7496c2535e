/* hook.h - points where policy decides
 *
 * Shape:    a plugin declares points as rows; deciders (the Lua engine, other C code) register for
 *           a point by name. A decider answers with a decision, "no opinion", or an error; an error
 *           is turned into the point's declared failure policy, never into a decision by chance.
 * Threads:  ph_hook_call in a job. Registration anywhere.
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhDecisionKind {
    PH_DECISION_NONE, /* no opinion */
    PH_DECISION_ACCEPT,
    PH_DECISION_REJECT, /* for good; code and text may be given */
    PH_DECISION_DEFER,  /* for now */
    PH_DECISION_DISCARD,
    PH_DECISION_QUARANTINE, /* mail: to the account's Junk */
    PH_DECISION_REDIRECT,
} PhDecisionKind;

typedef enum PhHookFailure {
    PH_HOOK_FAIL_OPEN,  /* as if no opinion */
    PH_HOOK_FAIL_DEFER, /* try again later */
} PhHookFailure;

struct PhHookRow {
    const char *name;      /* "smtp.rcpt" */
    unsigned answers;      /* 1 << PhDecisionKind, or-ed: what may be answered */
    PhHookFailure failure; /* when a decider fails */
    int budget_ms;         /* wall time for all deciders together; 0: 5,000 */
    const char *help;
};
typedef struct PhHookRow PhHookRow;

typedef struct PhDecision {
    PhDecisionKind kind;
    int code;      /* a protocol's reply code, 0: the default */
    char *text;    /* owned; null: the default */
    char *target;  /* owned; for REDIRECT */
    char *mailbox; /* owned; with ACCEPT of a delivery: where to, null: INBOX */
    char *flags;   /* owned; with ACCEPT of a delivery: flags divided by spaces, null: none */
} PhDecision;

PH_API void ph_decision_clear(PhDecision *decision);

/* One input of a call: a name and a value as text. Who is asked depends on "tenant_id", "domain" and
 * "site" where they are given: a script is asked only inside its scope. */
typedef struct PhHookField {
    const char *name;
    const char *value;
    size_t length;
} PhHookField;

/* `deadline_us`, of the monotonic clock, is where the point's budget ends: who waits, waits no
 * longer. False without an error is a failure too. */
typedef bool (*PhHookDecider)(const PhHookRow *row, const PhHookField *fields, size_t n_fields,
    int64_t deadline_us, PhDecision *decision_out, void *data, GError **error);

/* Deciders of a point are asked by ascending order; the first opinion wins. The id ends it. */
PH_API unsigned ph_hook_add_decider(
    const char *point, int order, PhHookDecider decider, void *data);
/* Returns when no call of it is under way. */
PH_API void ph_hook_remove_decider(unsigned id);
/* Is somebody there to ask? Takes no lock; without one a caller need not start a job. Anywhere. */
PH_API bool ph_hook_has_deciders(const char *point);
/* Always gives a decision; clear it after use. */
PH_API PH_IN_JOB void ph_hook_call(
    const PhHookRow *row, const PhHookField *fields, size_t n_fields, PhDecision *decision_out);
