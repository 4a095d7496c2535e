/* task.h - work that belongs to a reactor and is done on the pool
 *
 * Shape:    a task lives on one reactor and has at most one job under way. The job runs on a
 *           worker, may block, and touches its data and immutable, counted things, never a session
 *           or connection. `done` runs on the reactor, unless the task is gone by then; then only
 *           `free_data` runs.
 * Threads:  as each function says.
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhReactor PhReactor;
typedef struct PhTask PhTask;
typedef struct PhTaskCore PhTaskCore; /* the counted part that outlives the task */

struct PhTask {
    PhTaskCore *core;
};

/* Lanes of the pool, each with reserved workers and reserved database connections. */
typedef enum PhLane {
    PH_LANE_CONSOLE, /* console, CLI, control */
    PH_LANE_MAIL,
    PH_LANE_WEB,
    PH_LANE_SLOW, /* waits for other hosts, long scans */
    PH_N_LANES,
} PhLane;

typedef void (*PhJob)(void *data);                   /* in a job */
typedef void (*PhJobDone)(PhTask *task, void *data); /* on the reactor */

PH_API PH_ON_REACTOR void ph_task_init(PhTask *task, PhReactor *reactor);
/* The task is gone: a job under way goes on, its `done` will not be called. */
PH_API PH_ON_REACTOR void ph_task_clear(PhTask *task);
PH_API PH_ON_REACTOR bool ph_task_is_busy(const PhTask *task);
PH_API PH_ON_REACTOR PhReactor *ph_task_reactor(const PhTask *task);

/* Asserts that no job is under way. `free_data` (may be null) runs on the reactor after `done`, or
 * instead of it. */
PH_API PH_ON_REACTOR void ph_task_run(
    PhTask *task, PhLane lane, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data);

/* The same for work that waits without a worker (a delivery in a committer): ph_task_begin() makes
 * the task busy and gives a token; ph_pending_finish(), once, from any thread, ends it and runs
 * `done` on the reactor. */
typedef struct PhPending PhPending;
PH_API PH_ON_REACTOR PhPending *ph_task_begin(
    PhTask *task, PhJobDone done, void *data, GDestroyNotify free_data);
PH_API void ph_pending_finish(PhPending *pending);

/* A word to a task from any thread, merged while it has not arrived: `func` runs on the reactor. */
typedef struct PhWake PhWake;
typedef void (*PhWakeFunc)(PhTask *task, void *data);
PH_API PH_ON_REACTOR PhWake *ph_wake_new(PhTask *task, PhWakeFunc func, void *data);
PH_API void ph_wake_signal(PhWake *wake);
/* `func` is not called again. Other threads may still signal while they hold a reference. */
PH_API PH_ON_REACTOR void ph_wake_close(PhWake *wake);
PH_API PhWake *ph_wake_ref(PhWake *wake);
PH_API void ph_wake_unref(PhWake *wake);

/* The reactor that serves nothing but the services that are apart (see plugin.h). Anywhere. */
PH_API PhReactor *ph_reactor_apart(void);
/* Runs `func` on the reactor and waits for it; at once on the reactor itself. From any thread that
 * may wait. */
PH_API void ph_reactor_run_blocking(PhReactor *reactor, void (*func)(void *data), void *data);
/* Runs `func` on the reactor, soon. From any thread. */
PH_API void ph_reactor_post(PhReactor *reactor, void (*func)(void *data), void *data);
