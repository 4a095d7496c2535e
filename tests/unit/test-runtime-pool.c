/* test-runtime-pool.c - lanes, the one-waker rule */
#include "runtime/pool.h"

#include "tests/support/test-client.h"

#include <string.h>

/* A gate that jobs wait at. */
typedef struct Gate {
    GMutex mutex;
    GCond cond;
    bool open;
} Gate;

static void
gate_open(Gate *gate)
{
    g_mutex_lock(&gate->mutex);
    gate->open = true;
    g_cond_broadcast(&gate->cond);
    g_mutex_unlock(&gate->mutex);
}

static void
gate_wait(Gate *gate)
{
    g_mutex_lock(&gate->mutex);
    while (!gate->open)
        g_cond_wait(&gate->cond, &gate->mutex);
    g_mutex_unlock(&gate->mutex);
}

typedef struct Job {
    PhJobNode node;
    int *count;
    Gate *gate;
} Job;

static void
job_run(PhJobNode *node)
{
    Job *job = PH_CONTAINER_OF(node, Job, node);
    g_assert_cmpint(ph_thread_kind(), ==, PH_THREAD_WORKER);
    if (job->gate != NULL)
        gate_wait(job->gate);
    __atomic_fetch_add(job->count, 1, __ATOMIC_ACQ_REL);
    g_free(job);
}

static void
push(PhLane lane, int *count, Gate *gate)
{
    Job *job = g_new0(Job, 1);
    job->node.run = job_run;
    job->count = count;
    job->gate = gate;
    ph_pool_push(lane, &job->node);
}

static int
value(int *count)
{
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static PhLaneState
state_of(PhLane lane)
{
    PhLaneState state;
    ph_pool_lane_state(lane, &state);
    return state;
}

/* Each lane is flooded in turn with jobs that hang; every other lane still answers. */
static void
test_lane_flood(void)
{
    enum { FLOOD = 200 };
    for (PhLane flooded = 0; flooded < PH_N_LANES; flooded++) {
        ph_pool_start(8);
        Gate gate = { .open = false };
        int hung = 0;
        for (int i = 0; i < FLOOD; i++)
            push(flooded, &hung, &gate);
        test_wait_for(state_of(flooded).running == state_of(flooded).most);
        g_assert_cmpuint(state_of(flooded).most, <, 8);
        g_assert_cmpuint(state_of(flooded).queued, ==, FLOOD - state_of(flooded).most);
        for (PhLane lane = 0; lane < PH_N_LANES; lane++) {
            int done = 0;
            if (lane == flooded)
                continue;
            for (int i = 0; i < 20; i++)
                push(lane, &done, NULL);
            test_wait_for(value(&done) == 20);
        }
        g_assert_cmpint(value(&hung), ==, 0);
        gate_open(&gate);
        test_wait_for(value(&hung) == FLOOD);
        ph_pool_stop();
    }
}

/* All lanes are flooded at once: none takes the reserved workers of another. */
static void
test_lane_all(void)
{
    ph_pool_start(16);
    Gate gate = { .open = false };
    int done = 0;
    for (int i = 0; i < 50; i++)
        for (PhLane lane = 0; lane < PH_N_LANES; lane++)
            push(lane, &done, &gate);
    test_wait_for(state_of(PH_LANE_CONSOLE).running + state_of(PH_LANE_MAIL).running +
                      state_of(PH_LANE_WEB).running + state_of(PH_LANE_SLOW).running ==
                  16);
    for (PhLane lane = 0; lane < PH_N_LANES; lane++)
        g_assert_cmpuint(state_of(lane).running, >=, 1);
    gate_open(&gate);
    test_wait_for(value(&done) == 50 * PH_N_LANES);
    ph_pool_stop();
}

static void
test_lane_names(void)
{
    g_assert_cmpstr(ph_lane_name(PH_LANE_CONSOLE), ==, "console");
    g_assert_cmpstr(ph_lane_name(PH_LANE_MAIL), ==, "mail");
    g_assert_cmpstr(ph_lane_name(PH_LANE_WEB), ==, "web");
    g_assert_cmpstr(ph_lane_name(PH_LANE_SLOW), ==, "slow");
}

/* One job, waited for, again and again: each time a sleeper must be woken. */
static void
test_wake_single(void)
{
    ph_pool_start(0);
    for (int i = 1; i <= 3000; i++) {
        int done = 0;
        push(PH_LANE_MAIL, &done, NULL);
        int64_t until_us = g_get_monotonic_time() + 10 * G_USEC_PER_SEC;
        while (value(&done) == 0)
            g_assert_cmpint(g_get_monotonic_time(), <, until_us);
    }
    ph_pool_stop();
}

/* A burst wakes more than one: jobs that wait for each other all run at the same time. */
static void
test_wake_burst(void)
{
    ph_pool_start(8);
    for (int round = 0; round < 200; round++) {
        unsigned most = state_of(PH_LANE_MAIL).most;
        Gate gate = { .open = false };
        int done = 0;
        for (unsigned i = 0; i < most; i++)
            push(PH_LANE_MAIL, &done, &gate);
        test_wait_for(state_of(PH_LANE_MAIL).running == most);
        gate_open(&gate);
        test_wait_for(value(&done) == (int)most);
    }
    ph_pool_stop();
}

/* -- 64 in flight ------------------------------------------------------------------------------ */

enum { IN_FLIGHT = 64, ROUNDS = 300 };

typedef struct Runner {
    PhJobNode node;
    int left;
    int *finished;
    int *total;
} Runner;

static void
runner_run(PhJobNode *node)
{
    Runner *runner = PH_CONTAINER_OF(node, Runner, node);
    __atomic_fetch_add(runner->total, 1, __ATOMIC_RELAXED);
    if (--runner->left > 0)
        ph_pool_push(runner->left % 2 != 0 ? PH_LANE_MAIL : PH_LANE_WEB, node);
    else
        __atomic_fetch_add(runner->finished, 1, __ATOMIC_ACQ_REL);
}

static void
test_wake_in_flight(void)
{
    ph_pool_start(8);
    Runner runners[IN_FLIGHT];
    int finished = 0;
    int total = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        runners[i] = (Runner){
            .node.run = runner_run, .left = ROUNDS, .finished = &finished, .total = &total
        };
        ph_pool_push(PH_LANE_MAIL, &runners[i].node);
    }
    test_wait_for(value(&finished) == IN_FLIGHT);
    g_assert_cmpint(value(&total), ==, IN_FLIGHT * ROUNDS);
    int64_t jobs = 0;
    test_wait_for(
        (jobs = state_of(PH_LANE_MAIL).jobs + state_of(PH_LANE_WEB).jobs) == IN_FLIGHT * ROUNDS);
    ph_pool_stop();
}

/* -- stopping ---------------------------------------------------------------------------------- */

/* What is queued still runs. */
static void
test_stop_queued(void)
{
    for (int round = 0; round < 20; round++) {
        int done = 0;
        ph_pool_start(8);
        for (int i = 0; i < 500; i++)
            push((PhLane)(i % PH_N_LANES), &done, NULL);
        ph_pool_stop();
        g_assert_cmpint(value(&done), ==, 500);
    }
}

static void
test_stop_idle(void)
{
    ph_pool_start(0);
    g_usleep(5000);
    ph_pool_stop();
    ph_pool_stop();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pool/lane/flood", test_lane_flood);
    g_test_add_func("/pool/lane/all", test_lane_all);
    g_test_add_func("/pool/lane/names", test_lane_names);
    g_test_add_func("/pool/wake/single", test_wake_single);
    g_test_add_func("/pool/wake/burst", test_wake_burst);
    g_test_add_func("/pool/wake/in-flight", test_wake_in_flight);
    g_test_add_func("/pool/stop/queued", test_stop_queued);
    g_test_add_func("/pool/stop/idle", test_stop_idle);
    return g_test_run();
}
