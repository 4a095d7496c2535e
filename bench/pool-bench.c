/* pool-bench.c - what a no-op job to the pool and back costs, in CPU
 *
 * Usage: pool-bench [IN-FLIGHT [SECONDS]]. Prints one line: microseconds of CPU (all threads) per
 *        job.
 */
#include "runtime/pool.h"
#include "runtime/reactor.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct Bench {
    PhTask *tasks;
    unsigned in_flight;
    unsigned left; /* tasks that still go round */
    int64_t until_us;
    int64_t jobs;
    int finished;
} Bench;

static Bench bench;

static void
job(void *data)
{
    (void)data;
}

static void
done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)data;
    bench.jobs++;
    if (ph_monotonic_us() < bench.until_us)
        ph_task_run(task, PH_LANE_MAIL, job, done, NULL, NULL);
    else if (--bench.left == 0)
        __atomic_store_n(&bench.finished, 1, __ATOMIC_SEQ_CST);
}

static void
begin(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    (void)data;
    for (unsigned i = 0; i < bench.in_flight; i++) {
        ph_task_init(&bench.tasks[i], reactor);
        ph_task_run(&bench.tasks[i], PH_LANE_MAIL, job, done, NULL, NULL);
    }
}

static void
end(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    (void)reactor;
    (void)data;
    for (unsigned i = 0; i < bench.in_flight; i++)
        ph_task_clear(&bench.tasks[i]);
}

static double
cpu_us(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (double)spent.tv_sec * 1e6 + (double)spent.tv_nsec / 1e3;
}

int
main(int argc, char **argv)
{
    bench.in_flight = argc > 1 ? (unsigned)atoi(argv[1]) : 64;
    int seconds = argc > 2 ? atoi(argv[2]) : 3;
    bench.left = bench.in_flight;
    bench.tasks = g_new0(PhTask, bench.in_flight);
    ph_pool_start(0);
    if (!ph_reactors_start(1, NULL))
        return 1;
    bench.until_us = ph_monotonic_us() + seconds * G_USEC_PER_SEC;
    double before = cpu_us();
    ph_reactor_call_blocking(ph_reactor_at(0), begin, NULL);
    while (__atomic_load_n(&bench.finished, __ATOMIC_SEQ_CST) == 0)
        g_usleep(10000);
    double spent = cpu_us() - before;
    ph_reactor_call_blocking(ph_reactor_at(0), end, NULL);
    printf("in_flight=%u jobs=%" G_GINT64_FORMAT " cpu_us_per_job=%.2f\n", bench.in_flight,
        bench.jobs, spent / (double)bench.jobs);
    ph_reactors_stop();
    ph_pool_stop();
    g_free(bench.tasks);
    return 0;
}
