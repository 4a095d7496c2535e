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
} Decider;

/* How many deciders a point has, for those who only want to know whether there are any. Points are
 * never taken out of the list, so it is read without a lock. */
typedef struct Point {
    struct Point *next;
    unsigned n_deciders;
    char name[];
} Point;

static struct {
    PhMutex mutex;
    GCond idle;
    GPtrArray *deciders; /* by ascending order */
    unsigned last_id;
    unsigned n_removing; /* who waits for calls to end: a word to them costs a system call */
    Point *points;       /* the newest first */
} registry = { .mutex = { .rank = PH_LOCK_REGISTRY } };

enum { BUDGET_DEFAULT_MS = 5000, HELD_AT_ONCE = 16 };

static Point *
find_point(const char *name)
{
    Point *point = __atomic_load_n(&registry.points, __ATOMIC_ACQUIRE);
    while (point != NULL && strcmp(point->name, name) != 0)
        point = point->next;
    return point;
}

static void
count_locked(const char *name, int change)
{
    Point *point = find_point(name);
    if (point == NULL) {
        size_t length = strlen(name);
        point = g_malloc0(sizeof(Point) + length + 1);
        memcpy(point->name, name, length);
        point->next = registry.points;
        __atomic_store_n(&registry.points, point, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&point->n_deciders, (unsigned)change, __ATOMIC_RELEASE);
}

void
ph_decision_clear(PhDecision *decision)
{
    g_free(decision->text);
    g_free(decision->target);
    g_free(decision->mailbox);
    g_free(decision->flags);
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
    count_locked(point, 1);
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
        count_locked(found->point, -1);
        registry.n_removing++;
        while (found->calls > 0)
            ph_mutex_wait(&registry.mutex, &registry.idle);
        registry.n_removing--;
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
    const Point *found = find_point(point);
    return found != NULL && __atomic_load_n(&found->n_deciders, __ATOMIC_ACQUIRE) > 0;
}

/* What the point's row says for a call that failed. */
static void
apply_failure(const PhHookRow *row, PhDecision *decision)
{
    ph_decision_clear(decision);
    if (row->failure == PH_HOOK_FAIL_DEFER)
        decision->kind = PH_DECISION_DEFER;
}

/* The deciders of a point, each marked as called; at most `most`. End with release_deciders(). */
static unsigned
hold_deciders(const char *point, Decider **held_out, unsigned most)
{
    unsigned n = 0;
    ph_mutex_lock(&registry.mutex);
    for (guint i = 0; registry.deciders != NULL && i < registry.deciders->len && n < most; i++) {
        Decider *decider = registry.deciders->pdata[i];
        if (strcmp(decider->point, point) == 0) {
            decider->calls++;
            held_out[n++] = decider;
        }
    }
    ph_mutex_unlock(&registry.mutex);
    return n;
}

static void
release_deciders(Decider **held, unsigned n)
{
    ph_mutex_lock(&registry.mutex);
    for (unsigned i = 0; i < n; i++)
        held[i]->calls--;
    if (registry.n_removing > 0)
        g_cond_broadcast(&registry.idle);
    ph_mutex_unlock(&registry.mutex);
}

/* True when there is an opinion (or a failure, which the row's policy made one). */
static bool
ask(const Decider *decider, const PhHookRow *row, const PhHookField *fields, size_t n_fields,
    int64_t deadline_us, PhDecision *decision)
{
    g_autoptr(GError) error = NULL;
    if (!decider->func(row, fields, n_fields, deadline_us, decision, decider->data, &error)) {
        ph_log(PH_LOG_WARNING, "hook.failed", "point=\"%s\" %s", row->name,
            error != NULL ? error->message : "no reason was given");
        apply_failure(row, decision);
        return true;
    }
    if (decision->kind == PH_DECISION_NONE)
        return false;
    if ((row->answers & (1U << decision->kind)) == 0) {
        ph_log(PH_LOG_WARNING, "hook.failed", "point=\"%s\" the answer is not allowed here",
            row->name);
        apply_failure(row, decision);
    }
    return true;
}

void
ph_hook_call(
    const PhHookRow *row, const PhHookField *fields, size_t n_fields, PhDecision *decision_out)
{
    ph_assert_in_job();
    *decision_out = (PhDecision){ .kind = PH_DECISION_NONE };
    if (!ph_hook_has_deciders(row->name))
        return;
    int64_t budget_ms = row->budget_ms > 0 ? row->budget_ms : BUDGET_DEFAULT_MS;
    int64_t deadline_us = ph_monotonic_us() + budget_ms * 1000;
    Decider *held[HELD_AT_ONCE];
    unsigned n = hold_deciders(row->name, held, G_N_ELEMENTS(held));
    for (unsigned i = 0; i < n; i++)
        if (ask(held[i], row, fields, n_fields, deadline_us, decision_out))
            break;
    release_deciders(held, n);
}
