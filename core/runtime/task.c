/* task.c - tasks, pending work and wake-ups
 *
 * A task and its core are two things because the task (inside a session) can be gone before its job
 * is: the core is counted and lives until the last of both. Only the reactor reads core->task.
 */
#include "posthouse/task.h"

#include "posthouse/log.h"
#include "runtime/owner.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/task-core.h"

#include <string.h>

struct PhTaskCore {
    PhRef ref;
    PhReactor *reactor;
    PhTask *task; /* null: gone */
    PhPending *current;
    PhOwner *owner;
    char context[PH_TASK_CONTEXT_BYTES];
};

struct PhPending {
    PhPost post;
    PhJobNode node;
    PhTaskCore *core;
    PhJob job;
    PhJobDone done;
    void *data;
    GDestroyNotify free_data;
};

struct PhWake {
    PhPost post;
    PhRef ref;
    int signalled;
    PhTaskCore *core;
    PhWakeFunc func; /* null: closed */
    void *data;
};

/* -- owners ------------------------------------------------------------------------------------ */

static __thread PhOwner *current_owner;

PhOwner *
ph_owner_enter(PhOwner *owner)
{
    PhOwner *previous = current_owner;
    current_owner = owner;
    return previous;
}

void
ph_owner_leave(PhOwner *previous)
{
    current_owner = previous;
}

PhOwner *
ph_owner_current(void)
{
    return current_owner;
}

void
ph_owner_use(PhOwner *owner)
{
    if (owner != NULL)
        __atomic_fetch_add(&owner->uses, 1, __ATOMIC_RELAXED);
}

void
ph_owner_unuse(PhOwner *owner)
{
    if (owner != NULL)
        __atomic_fetch_sub(&owner->uses, 1, __ATOMIC_ACQ_REL);
}

int
ph_owner_uses(const PhOwner *owner)
{
    return __atomic_load_n(&owner->uses, __ATOMIC_ACQUIRE);
}

/* -- tasks ------------------------------------------------------------------------------------- */

static PhTaskCore *
core_ref(PhTaskCore *core)
{
    ph_ref_take(&core->ref);
    return core;
}

static void
core_unref(PhTaskCore *core)
{
    if (!ph_ref_drop(&core->ref))
        return;
    ph_owner_unuse(core->owner);
    g_free(core);
}

void
ph_task_init(PhTask *task, PhReactor *reactor)
{
    ph_assert_on_reactor();
    PhTaskCore *core = g_new0(PhTaskCore, 1);
    ph_ref_init(&core->ref);
    core->reactor = reactor;
    core->task = task;
    core->owner = ph_owner_current();
    ph_owner_use(core->owner);
    task->core = core;
}

void
ph_task_set_context(PhTask *task, const char *context)
{
    g_strlcpy(task->core->context, context, sizeof(task->core->context));
}

void
ph_task_clear(PhTask *task)
{
    if (task->core == NULL)
        return;
    task->core->task = NULL;
    core_unref(g_steal_pointer(&task->core));
}

bool
ph_task_is_busy(const PhTask *task)
{
    return task->core->current != NULL;
}

PhReactor *
ph_task_reactor(const PhTask *task)
{
    return task->core->reactor;
}

/* -- pending work ------------------------------------------------------------------------------ */

/* On the reactor: the work is over. */
static void
pending_arrived(PhPost *post)
{
    PhPending *pending = (PhPending *)post;
    PhTaskCore *core = pending->core;
    PhOwner *previous = ph_owner_enter(core->owner);
    PhTask *task = core->task;
    core->current = NULL;
    if (task != NULL) {
        ph_log_set_context(core->context);
        pending->done(task, pending->data);
        ph_log_set_context(NULL);
    }
    if (pending->free_data != NULL)
        pending->free_data(pending->data);
    ph_owner_leave(previous);
    g_free(pending);
    core_unref(core);
}

PhPending *
ph_task_begin(PhTask *task, PhJobDone done, void *data, GDestroyNotify free_data)
{
    ph_assert_on_reactor();
    PhTaskCore *core = task->core;
    g_assert(core->current == NULL);
    PhPending *pending = g_new0(PhPending, 1);
    pending->post.func = pending_arrived;
    pending->core = core_ref(core);
    pending->done = done;
    pending->data = data;
    pending->free_data = free_data;
    core->current = pending;
    return pending;
}

void
ph_pending_finish(PhPending *pending)
{
    ph_reactor_post_node(pending->core->reactor, &pending->post);
}

static void
job_run(PhJobNode *node)
{
    PhPending *pending = PH_CONTAINER_OF(node, PhPending, node);
    PhOwner *previous = ph_owner_enter(pending->core->owner);
    ph_log_set_context(pending->core->context);
    pending->job(pending->data);
    ph_log_set_context(NULL);
    ph_owner_leave(previous);
    ph_pending_finish(pending);
}

void
ph_task_run(
    PhTask *task, PhLane lane, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data)
{
    PhPending *pending = ph_task_begin(task, done, data, free_data);
    pending->job = job;
    pending->node.run = job_run;
    ph_pool_push(lane, &pending->node);
}

/* -- wake-ups ---------------------------------------------------------------------------------- */

static void
wake_arrived(PhPost *post)
{
    PhWake *wake = (PhWake *)post;
    __atomic_store_n(&wake->signalled, 0, __ATOMIC_SEQ_CST);
    PhTask *task = wake->core->task;
    if (wake->func != NULL && task != NULL) {
        PhOwner *previous = ph_owner_enter(wake->core->owner);
        ph_log_set_context(wake->core->context);
        wake->func(task, wake->data);
        ph_log_set_context(NULL);
        ph_owner_leave(previous);
    }
    ph_wake_unref(wake);
}

PhWake *
ph_wake_new(PhTask *task, PhWakeFunc func, void *data)
{
    ph_assert_on_reactor();
    PhWake *wake = g_new0(PhWake, 1);
    ph_ref_init(&wake->ref);
    wake->post.func = wake_arrived;
    wake->core = core_ref(task->core);
    wake->func = func;
    wake->data = data;
    return wake;
}

void
ph_wake_signal(PhWake *wake)
{
    if (__atomic_exchange_n(&wake->signalled, 1, __ATOMIC_SEQ_CST) != 0)
        return;
    ph_reactor_post_node(wake->core->reactor, &ph_wake_ref(wake)->post);
}

void
ph_wake_close(PhWake *wake)
{
    if (wake == NULL)
        return;
    wake->func = NULL;
    ph_wake_unref(wake);
}

PhWake *
ph_wake_ref(PhWake *wake)
{
    ph_ref_take(&wake->ref);
    return wake;
}

void
ph_wake_unref(PhWake *wake)
{
    if (!ph_ref_drop(&wake->ref))
        return;
    core_unref(wake->core);
    g_free(wake);
}
