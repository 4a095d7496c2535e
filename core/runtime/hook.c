/* hook.c - who is asked at a point, and what happens when asking fails */
#include "posthouse/hook.h"

#include "posthouse/log.h"

#include <string.h>

typedef struct Decider {
    unsigned id;
    char *point;
    int order;
    PhHookDecider func;
    void *data;
    unsigned calls; /* under way */
    bool removed;
} Decider;

static struct {
    PhMutex mutex;
    GCond idle;
    GPtrArray *deciders; /* by ascending order */
    unsigned last_id;
} registry = { .mutex = { .rank = PH_LOCK_REGISTRY } };

void
ph_decision_clear(PhDecision *decision)
{
    g_free(decision->text);
    g_free(decision->target);
    *decision = (PhDecision){ .kind = PH_DECISION_NONE };
}

unsigned
ph_hook_add_decider(const char *point, int order, PhHookDecider func, void *data)
{
    Decider *decider = g_new0(Decider, 1);
    decider->point = g_strdup(point);
    decider->order = order;
    decider->func = func;
    decider->data = data;

    ph_mutex_lock(&registry.mutex);
    if (registry.deciders == NULL)
        registry.deciders = g_ptr_array_new();
    unsigned id = decider->id = ++registry.last_id;
    guint at = 0;
    while (at < registry.deciders->len && ((Decider *)registry.deciders->pdata[at])->order <= order)
        at++;
    g_ptr_array_insert(registry.deciders, (gint)at, decider);
    ph_mutex_unlock(&registry.mutex);
    return id;
}

void
ph_hook_remove_decider(unsigned id)
{
    ph_mutex_lock(&registry.mutex);
    Decider *found = NULL;
    for (guint i = 0; registry.deciders != NULL && i < registry.deciders->len; i++) {
        Decider *decider = registry.deciders->pdata[i];
        if (decider->id == id) {
            found = decider;
            g_ptr_array_remove_index(registry.deciders, i);
            break;
        }
    }
    if (found != NULL) {
        found->removed = true;
        while (found->calls > 0)
            ph_mutex_wait(&registry.mutex, &registry.idle);
    }
    ph_mutex_unlock(&registry.mutex);
    if (found != NULL) {
        g_free(found->point);
        g_free(found);
    }
}

bool
ph_hook_has_deciders(const char *point)
{
    bool found = false;
    ph_mutex_lock(&registry.mutex);
    for (guint i = 0; registry.deciders != NULL && i < registry.deciders->len && !found; i++)
        found = strcmp(((Decider *)registry.deciders->pdata[i])->point, point) == 0;
    ph_mutex_unlock(&registry.mutex);
    return found;
}

/* What the point's row says for a call that failed. */
static void
apply_failure(const PhHookRow *row, PhDecision *decision)
{
    ph_decision_clear(decision);
    if (row->failure == PH_HOOK_FAIL_DEFER)
        decision->kind = PH_DECISION_DEFER;
}

/* The deciders of a point, each marked as called. Free with release_deciders(). */
static GPtrArray *
hold_deciders(const char *point)
{
    GPtrArray *held = g_ptr_array_new();
    ph_mutex_lock(&registry.mutex);
    for (guint i = 0; registry.deciders != NULL && i < registry.deciders->len; i++) {
        Decider *decider = registry.deciders->pdata[i];
        if (strcmp(decider->point, point) == 0) {
            decider->calls++;
            g_ptr_array_add(held, decider);
        }
    }
    ph_mutex_unlock(&registry.mutex);
    return held;
}

static void
release_deciders(GPtrArray *held)
{
    ph_mutex_lock(&registry.mutex);
    for (guint i = 0; i < held->len; i++)
        ((Decider *)held->pdata[i])->calls--;
    g_cond_broadcast(&registry.idle);
    ph_mutex_unlock(&registry.mutex);
    g_ptr_array_free(held, TRUE);
}

void
ph_hook_call(
    const PhHookRow *row, const PhHookField *fields, size_t n_fields, PhDecision *decision_out)
{
    ph_assert_in_job();
    *decision_out = (PhDecision){ .kind = PH_DECISION_NONE };
    GPtrArray *held = hold_deciders(row->name);
    for (guint i = 0; i < held->len; i++) {
        const Decider *decider = held->pdata[i];
        g_autoptr(GError) error = NULL;
        if (!decider->func(row, fields, n_fields, decision_out, decider->data, &error)) {
            ph_log(PH_LOG_WARNING, "hook.failed", "point=\"%s\" %s", row->name, error->message);
            apply_failure(row, decision_out);
            break;
        }
        if (decision_out->kind == PH_DECISION_NONE)
            continue;
        if ((row->answers & (1U << decision_out->kind)) == 0) {
            ph_log(PH_LOG_WARNING, "hook.failed", "point=\"%s\" the answer is not allowed here",
                row->name);
            apply_failure(row, decision_out);
        }
        break;
    }
    release_deciders(held);
}
