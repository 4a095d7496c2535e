/* test-runtime-task.c - jobs and their tasks, pending work, wake-ups, owners */
#include "runtime/owner.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/task-core.h"

#include "posthouse/log.h"
#include "tests/support/test-client.h"

static PhReactor *reactor;

/* What a job works on, and what became of it. */
typedef struct Work {
    PhTask task;
    PhOwner *owner;
    GThread *job_thread;
    int jobs;
    int done;
    int freed;
    int repeat; /* further jobs that done() starts */
    bool clear_in_done;
    bool slow;
    char context[PH_TASK_CONTEXT_BYTES];
    PhPending *pending;
    PhWake *wake;
    int wakes;
} Work;

static int
value(int *count)
{
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static void
add(int *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
}

static void
nothing(PhReactor *here, void *data)
{
    (void)here;
    (void)data;
}

static void
flush(void)
{
    ph_reactor_call_blocking(reactor, nothing, NULL);
}

/* What log lines should belong to now. */
static const char *
context_of(const Work *work)
{
    return work->context[0] != '\0' ? work->context : NULL;
}

static void
work_job(void *data)
{
    ph_assert_in_job();
    Work *work = data;
    g_assert_cmpint(ph_thread_kind(), ==, PH_THREAD_WORKER);
    g_assert_true(ph_owner_current() == work->owner);
    g_assert_cmpstr(ph_log_context(), ==, context_of(work));
    if (work->slow)
        g_usleep(30000);
    work->job_thread = g_thread_self();
    add(&work->jobs);
}

static void work_done(PhTask *task, void *data);

static void
work_free(void *data)
{
    Work *work = data;
    g_assert_true(ph_reactor_self() == reactor);
    add(&work->freed);
}

static void
work_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    Work *work = data;
    g_assert_true(task == &work->task);
    g_assert_true(ph_reactor_self() == reactor);
    g_assert_true(ph_owner_current() == work->owner);
    g_assert_cmpstr(ph_log_context(), ==, context_of(work));
    g_assert_false(ph_task_is_busy(task));
    add(&work->done);
    if (work->repeat > 0) {
        work->repeat--;
        ph_task_run(task, PH_LANE_MAIL, work_job, work_done, work, work_free);
    } else if (work->clear_in_done) {
        ph_task_clear(task);
    }
}

static void
start(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    Work *work = data;
    PhOwner *previous = ph_owner_enter(work->owner);
    ph_task_init(&work->task, here);
    ph_owner_leave(previous);
    ph_task_set_context(&work->task, work->context);
    g_assert_true(ph_task_reactor(&work->task) == here);
    ph_task_run(&work->task, PH_LANE_MAIL, work_job, work_done, work, work_free);
    g_assert_true(ph_task_is_busy(&work->task));
}

static void
clear(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    (void)here;
    Work *work = data;
    ph_task_clear(&work->task);
    ph_task_clear(&work->task); /* twice is once */
}

static void
test_run_done(void)
{
    PhOwner owner = { .name = "test" };
    Work work = { .owner = &owner, .context = "0123456789abc", .repeat = 9 };
    ph_reactor_call_blocking(reactor, start, &work);
    test_wait_for(value(&work.freed) == 10);
    g_assert_cmpint(value(&work.jobs), ==, 10);
    g_assert_cmpint(value(&work.done), ==, 10);
    g_assert_true(work.job_thread != g_thread_self());
    g_assert_cmpint(ph_owner_uses(&owner), ==, 1);
    ph_reactor_call_blocking(reactor, clear, &work);
    g_assert_cmpint(ph_owner_uses(&owner), ==, 0);
}

/* The task is gone while its job runs: `done` is dropped, the data is freed on the reactor, the
 * owner is free only then. */
static void
test_run_gone(void)
{
    for (int i = 0; i < 20; i++) {
        PhOwner owner = { .name = "test" };
        Work work = { .owner = &owner, .slow = i % 4 == 0 };
        ph_reactor_call_blocking(reactor, start, &work);
        ph_reactor_call_blocking(reactor, clear, &work);
        if (value(&work.freed) == 0 && work.slow)
            g_assert_cmpint(ph_owner_uses(&owner), ==, 1);
        test_wait_for(value(&work.freed) == 1);
        flush();
        g_assert_cmpint(value(&work.jobs), ==, 1);
        g_assert_cmpint(ph_owner_uses(&owner), ==, 0);
    }
}

static void
test_run_cleared_in_done(void)
{
    PhOwner owner = { .name = "test" };
    Work work = { .owner = &owner, .clear_in_done = true };
    ph_reactor_call_blocking(reactor, start, &work);
    test_wait_for(value(&work.freed) == 1);
    flush();
    g_assert_cmpint(value(&work.done), ==, 1);
    g_assert_cmpint(ph_owner_uses(&owner), ==, 0);
}

enum { CROWD = 64 };

static void
start_crowd(PhReactor *here, void *data)
{
    Work *crowd = data;
    for (int i = 0; i < CROWD; i++)
        start(here, &crowd[i]);
}

static void
clear_half(PhReactor *here, void *data)
{
    Work *crowd = data;
    for (int i = 0; i < CROWD; i += 2)
        clear(here, &crowd[i]);
}

static void
clear_rest(PhReactor *here, void *data)
{
    Work *crowd = data;
    for (int i = 1; i < CROWD; i += 2)
        clear(here, &crowd[i]);
}

/* 64 tasks at once, half of them gone on the way. */
static void
test_run_crowd(void)
{
    PhOwner owner = { .name = "test" };
    Work *crowd = g_new0(Work, CROWD);
    for (int i = 0; i < CROWD; i++) {
        crowd[i].owner = &owner;
        crowd[i].repeat = 50;
    }
    ph_reactor_call_blocking(reactor, start_crowd, crowd);
    ph_reactor_call_blocking(reactor, clear_half, crowd);
    for (int i = 0; i < CROWD; i++) {
        test_wait_for(i % 2 == 0 ? value(&crowd[i].freed) == value(&crowd[i].jobs)
                                 : value(&crowd[i].freed) == 51);
        if (i % 2 != 0)
            g_assert_cmpint(value(&crowd[i].done), ==, 51);
    }
    ph_reactor_call_blocking(reactor, clear_rest, crowd);
    test_wait_for(ph_owner_uses(&owner) == 0);
    flush();
    g_free(crowd);
}

/* -- pending work ------------------------------------------------------------------------------ */

static void
begin(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    Work *work = data;
    ph_task_init(&work->task, here);
    work->pending = ph_task_begin(&work->task, work_done, work, work_free);
    g_assert_true(ph_task_is_busy(&work->task));
}

static void *
finish_main(void *data)
{
    ph_pending_finish(data);
    return NULL;
}

static void
test_pending_finish(void)
{
    Work work = { .clear_in_done = true };
    ph_reactor_call_blocking(reactor, begin, &work);
    g_usleep(2000);
    g_assert_cmpint(value(&work.done), ==, 0);
    g_thread_join(g_thread_new("finisher", finish_main, work.pending));
    test_wait_for(value(&work.freed) == 1);
    g_assert_cmpint(value(&work.done), ==, 1);
}

static void
test_pending_gone(void)
{
    Work work = { 0 };
    ph_reactor_call_blocking(reactor, begin, &work);
    ph_reactor_call_blocking(reactor, clear, &work);
    g_assert_cmpint(value(&work.freed), ==, 0);
    g_thread_join(g_thread_new("finisher", finish_main, work.pending));
    test_wait_for(value(&work.freed) == 1);
    g_assert_cmpint(value(&work.done), ==, 0);
}

/* -- wake-ups ---------------------------------------------------------------------------------- */

static void
woken(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    Work *work = data;
    g_assert_true(task == &work->task);
    add(&work->wakes);
}

static void
wake_begin(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    Work *work = data;
    ph_task_init(&work->task, here);
    work->wake = ph_wake_new(&work->task, woken, work);
}

static void
wake_end(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    (void)here;
    Work *work = data;
    ph_wake_close(g_steal_pointer(&work->wake));
    ph_task_clear(&work->task);
}

/* Signals while the reactor is busy are one. */
static void
signal_often(PhReactor *here, void *data)
{
    (void)here;
    Work *work = data;
    for (int i = 0; i < 100; i++)
        ph_wake_signal(work->wake);
    g_assert_cmpint(value(&work->wakes), ==, 0);
}

static void
test_wake_merged(void)
{
    Work work = { 0 };
    ph_reactor_call_blocking(reactor, wake_begin, &work);
    ph_reactor_call_blocking(reactor, signal_often, &work);
    flush();
    g_assert_cmpint(value(&work.wakes), ==, 1);
    ph_wake_signal(work.wake);
    flush();
    g_assert_cmpint(value(&work.wakes), ==, 2);
    ph_reactor_call_blocking(reactor, wake_end, &work);
}

typedef struct Signaller {
    PhWake *wake; /* a reference */
    int *stop;
} Signaller;

static void *
signaller_main(void *data)
{
    Signaller *signaller = data;
    while (value(signaller->stop) == 0)
        ph_wake_signal(signaller->wake);
    ph_wake_signal(signaller->wake);
    ph_wake_unref(signaller->wake);
    return NULL;
}

/* Others signal on while it is closed and its task goes: nothing is called any more. */
static void
test_wake_closed(void)
{
    Work work = { 0 };
    int stop = 0;
    ph_reactor_call_blocking(reactor, wake_begin, &work);
    Signaller signallers[3];
    GThread *threads[3];
    for (int i = 0; i < 3; i++) {
        signallers[i] = (Signaller){ .wake = ph_wake_ref(work.wake), .stop = &stop };
        threads[i] = g_thread_new("signaller", signaller_main, &signallers[i]);
    }
    test_wait_for(value(&work.wakes) > 10);
    ph_reactor_call_blocking(reactor, wake_end, &work);
    int seen = value(&work.wakes);
    g_usleep(5000);
    add(&stop);
    for (int i = 0; i < 3; i++)
        g_thread_join(threads[i]);
    flush();
    g_assert_cmpint(value(&work.wakes), ==, seen);
}

/* A signal after the last look is never lost. */
static void
test_wake_last(void)
{
    Work work = { 0 };
    ph_reactor_call_blocking(reactor, wake_begin, &work);
    for (int i = 1; i <= 2000; i++) {
        ph_wake_signal(work.wake);
        int64_t until_us = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;
        while (value(&work.wakes) < i)
            g_assert_cmpint(g_get_monotonic_time(), <, until_us);
    }
    ph_reactor_call_blocking(reactor, wake_end, &work);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/task/run/done", test_run_done);
    g_test_add_func("/task/run/gone", test_run_gone);
    g_test_add_func("/task/run/cleared-in-done", test_run_cleared_in_done);
    g_test_add_func("/task/run/crowd", test_run_crowd);
    g_test_add_func("/task/pending/finish", test_pending_finish);
    g_test_add_func("/task/pending/gone", test_pending_gone);
    g_test_add_func("/task/wake/merged", test_wake_merged);
    g_test_add_func("/task/wake/closed", test_wake_closed);
    g_test_add_func("/task/wake/last", test_wake_last);
    g_autoptr(GError) error = NULL;
    reactor = ph_reactor_new(0, &error);
    g_assert_no_error(error);
    ph_reactor_start(reactor);
    ph_pool_start(0);
    int status = g_test_run();
    ph_pool_stop();
    ph_reactor_free(reactor);
    return status;
}
