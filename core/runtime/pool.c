/* pool.c - workers
 *
 * One lock, one condition, and the one-waker rule: a push signals a sleeper only when no signal is
 * under way, and a woken worker that leaves jobs behind signals the next. So a burst wakes as many
 * workers as it keeps busy. What a reactor pushes in one turn is pushed together at the turn's end, for
 * one lock and one signal.
 */
#include "runtime/pool.h"

#include "runtime/reactor.h"

typedef struct Lane {
    PhJobNode *first;
    PhJobNode *last;
    unsigned queued;
    unsigned running;
    unsigned most;
    int64_t jobs;
    int64_t waited_us;
} Lane;

static const struct {
    const char *name;
    unsigned reserved; /* of each eight workers */
} lane_rows[PH_N_LANES] = {
    [PH_LANE_CONSOLE] = { "console", 1 },
    [PH_LANE_MAIL] = { "mail", 2 },
    [PH_LANE_WEB] = { "web", 2 },
    [PH_LANE_SLOW] = { "slow", 1 },
};

static struct {
    PhMutex mutex;
    GCond cond;
    Lane lanes[PH_N_LANES];
    GPtrArray *threads;
    unsigned idle;
    bool waking; /* a signal is under way */
    bool stopping;
    unsigned next_lane; /* where the next search begins: no lane has precedence */
} pool;

static __thread PhLane current_lane = PH_LANE_MAIL;

/* What this thread, a reactor, pushes in this turn. */
typedef struct Batch {
    PhJobNode *first;
    PhJobNode *last;
    unsigned length;
} Batch;

static __thread Batch batches[PH_N_LANES];
static __thread bool has_batch;

PhLane
ph_lane_current(void)
{
    return current_lane;
}

void
ph_lane_set_current(PhLane lane)
{
    current_lane = lane;
}

const char *
ph_lane_name(PhLane lane)
{
    return lane_rows[lane].name;
}

/* A lane that may run a job now, or null. */
static Lane *
pick_locked(void)
{
    for (unsigned i = 0; i < PH_N_LANES; i++) {
        unsigned index = (pool.next_lane + i) % PH_N_LANES;
        Lane *lane = &pool.lanes[index];
        if (lane->first != NULL && lane->running < lane->most) {
            pool.next_lane = (index + 1) % PH_N_LANES;
            return lane;
        }
    }
    return NULL;
}

static bool
has_work_locked(void)
{
    for (unsigned i = 0; i < PH_N_LANES; i++)
        if (pool.lanes[i].first != NULL && pool.lanes[i].running < pool.lanes[i].most)
            return true;
    return false;
}

static void
wake_one_locked(void)
{
    if (pool.idle == 0 || pool.waking)
        return;
    pool.waking = true;
    g_cond_signal(&pool.cond);
}

static void *
worker_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_mutex_lock(&pool.mutex);
    for (;;) {
        Lane *lane = pick_locked();
        if (lane == NULL) {
            if (pool.stopping)
                break;
            pool.idle++;
            ph_mutex_wait(&pool.mutex, &pool.cond);
            pool.idle--;
            pool.waking = false;
            continue;
        }
        PhJobNode *node = lane->first;
        lane->first = node->next;
        if (lane->first == NULL)
            lane->last = NULL;
        lane->queued--;
        lane->running++;
        if (has_work_locked())
            wake_one_locked();
        ph_mutex_unlock(&pool.mutex);

        int64_t waited_us = ph_monotonic_us() - node->pushed_us;
        ph_handover_take(node);
        current_lane = (PhLane)(lane - pool.lanes);
        node->run(node);

        ph_mutex_lock(&pool.mutex);
        lane->running--;
        lane->jobs++;
        lane->waited_us += waited_us;
    }
    /* The others have the same news to hear. */
    g_cond_broadcast(&pool.cond);
    ph_mutex_unlock(&pool.mutex);
    return NULL;
}

void
ph_pool_start(unsigned n_workers)
{
    g_assert(pool.threads == NULL);
    if (n_workers == 0)
        n_workers = MAX(8, 4 * g_get_num_processors());
    n_workers = MAX(n_workers, 8);
    ph_mutex_init(&pool.mutex, PH_LOCK_POOL);
    g_cond_init(&pool.cond);
    pool.stopping = false;

    unsigned reserved_all = 0;
    for (unsigned i = 0; i < PH_N_LANES; i++)
        reserved_all += lane_rows[i].reserved * n_workers / 8;
    for (unsigned i = 0; i < PH_N_LANES; i++)
        pool.lanes[i] = (Lane){
            .most = n_workers - (reserved_all - lane_rows[i].reserved * n_workers / 8),
        };

    pool.threads = g_ptr_array_new();
    for (unsigned i = 0; i < n_workers; i++) {
        char name[16];
        g_snprintf(name, sizeof(name), "worker-%u", i);
        g_ptr_array_add(pool.threads, g_thread_new(name, worker_main, NULL));
    }
}

void
ph_pool_stop(void)
{
    if (pool.threads == NULL)
        return;
    ph_mutex_lock(&pool.mutex);
    pool.stopping = true;
    g_cond_broadcast(&pool.cond);
    ph_mutex_unlock(&pool.mutex);
    for (guint i = 0; i < pool.threads->len; i++)
        g_thread_join(pool.threads->pdata[i]);
    g_ptr_array_free(g_steal_pointer(&pool.threads), TRUE);
    g_cond_clear(&pool.cond);
    ph_mutex_clear(&pool.mutex);
}

static void
append_locked(Lane *lane, const Batch *batch)
{
    if (lane->last != NULL)
        lane->last->next = batch->first;
    else
        lane->first = batch->first;
    lane->last = batch->last;
    lane->queued += batch->length;
    if (lane->running < lane->most)
        wake_one_locked();
}

void
ph_pool_push(PhLane lane_index, PhJobNode *node)
{
    node->next = NULL;
    node->pushed_us = ph_monotonic_us();
    ph_handover_give(node);
    if (ph_reactor_self() != NULL) {
        Batch *batch = &batches[lane_index];
        if (batch->last != NULL)
            batch->last->next = node;
        else
            batch->first = node;
        batch->last = node;
        batch->length++;
        has_batch = true;
        return;
    }
    const Batch single = { .first = node, .last = node, .length = 1 };
    ph_mutex_lock(&pool.mutex);
    append_locked(&pool.lanes[lane_index], &single);
    ph_mutex_unlock(&pool.mutex);
}

void
ph_pool_flush(void)
{
    if (!has_batch)
        return;
    has_batch = false;
    ph_mutex_lock(&pool.mutex);
    for (unsigned i = 0; i < PH_N_LANES; i++) {
        if (batches[i].first != NULL)
            append_locked(&pool.lanes[i], &batches[i]);
        batches[i] = (Batch){ 0 };
    }
    ph_mutex_unlock(&pool.mutex);
}

void
ph_pool_lane_state(PhLane lane_index, PhLaneState *state_out)
{
    ph_mutex_lock(&pool.mutex);
    const Lane *lane = &pool.lanes[lane_index];
    *state_out = (PhLaneState){
        .queued = lane->queued,
        .running = lane->running,
        .most = lane->most,
        .jobs = lane->jobs,
        .waited_us = lane->waited_us,
    };
    ph_mutex_unlock(&pool.mutex);
}
