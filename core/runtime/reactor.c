/* reactor.c - the loop
 *
 * Two things are delicate. (1) A wake-up costs a system call, so other threads write the eventfd
 * only when the reactor has said that it will sleep: it sets `sleeping`, looks at the posts once
 * more, and only then waits. (2) An event of the present turn may name a source that an earlier
 * event of the same turn closed: sources are freed at the end of the turn.
 */
#include "runtime/reactor.h"

#include "runtime/owner.h"

#include "runtime/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_PER_TURN = 256 };

typedef struct Grave {
    void *memory;
    GDestroyNotify func;
} Grave;

struct PhReactor {
    unsigned index;
    int epoll_fd;
    PhSource wake;
    GThread *thread;
    int64_t now_us;
    PhPost *posts; /* newest first; other threads push */
    int sleeping;
    int stopping;
    PhTouch *touched_first;
    PhTouch *touched_last;
    GArray *graves;
    GPtrArray *heap; /* of PhTimer, earliest queued_us first */
    PhConnectionLink connections;
    uint8_t *scratch;
};

static __thread PhReactor *self;

PhReactor *
ph_reactor_self(void)
{
    return self;
}

unsigned
ph_reactor_index(const PhReactor *reactor)
{
    return reactor->index;
}

int64_t
ph_reactor_now_us(const PhReactor *reactor)
{
    return reactor->now_us;
}

uint8_t *
ph_reactor_scratch(PhReactor *reactor)
{
    return reactor->scratch;
}

PhConnectionLink *
ph_reactor_connections(PhReactor *reactor)
{
    return &reactor->connections;
}

/* -- sources ----------------------------------------------------------------------------------- */

bool
ph_reactor_add(PhReactor *reactor, PhSource *source, uint32_t events, GError **error)
{
    struct epoll_event event = { .events = events, .data.ptr = source };
    if (epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) == 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "watch a descriptor: %s", g_strerror(errno));
    return false;
}

void
ph_reactor_remove(PhReactor *reactor, PhSource *source)
{
    epoll_ctl(reactor->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}

static void
wake_ready(PhSource *source, uint32_t events)
{
    (void)events;
    uint64_t count;
    ssize_t got = read(source->fd, &count, sizeof(count));
    (void)got;
}

void
ph_reactor_free_later(PhReactor *reactor, void *memory, GDestroyNotify func)
{
    Grave grave = { .memory = memory, .func = func };
    g_array_append_val(reactor->graves, grave);
}

static void
bury(PhReactor *reactor)
{
    for (guint i = 0; i < reactor->graves->len; i++) {
        Grave grave = g_array_index(reactor->graves, Grave, i);
        grave.func(grave.memory);
    }
    g_array_set_size(reactor->graves, 0);
}

/* -- posts ------------------------------------------------------------------------------------- */

void
ph_reactor_post_node(PhReactor *reactor, PhPost *post)
{
    ph_handover_give(post);
    PhPost *head = __atomic_load_n(&reactor->posts, __ATOMIC_RELAXED);
    do
        post->next = head;
    while (!__atomic_compare_exchange_n(
        &reactor->posts, &head, post, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));

    int expected = 1;
    if (__atomic_load_n(&reactor->sleeping, __ATOMIC_SEQ_CST) &&
        __atomic_compare_exchange_n(
            &reactor->sleeping, &expected, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        uint64_t one = 1;
        ssize_t written = write(reactor->wake.fd, &one, sizeof(one));
        (void)written;
    }
}

typedef struct PlainPost {
    PhPost post;
    void (*func)(void *data);
    void *data;
} PlainPost;

static void
plain_post_run(PhPost *post)
{
    PlainPost *plain = (PlainPost *)post;
    plain->func(plain->data);
    g_free(plain);
}

void
ph_reactor_post(PhReactor *reactor, void (*func)(void *data), void *data)
{
    PlainPost *plain = g_new(PlainPost, 1);
    plain->post.func = plain_post_run;
    plain->func = func;
    plain->data = data;
    ph_reactor_post_node(reactor, &plain->post);
}

/* Runs what was posted up to now, oldest first. */
static void
run_posts(PhReactor *reactor)
{
    PhPost *newest = __atomic_exchange_n(&reactor->posts, NULL, __ATOMIC_SEQ_CST);
    PhPost *oldest = NULL;
    while (newest != NULL) {
        PhPost *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        PhPost *next = oldest->next;
        ph_handover_take(oldest);
        oldest->func(oldest);
        oldest = next;
    }
}

typedef struct BlockingCall {
    PhPost post;
    PhReactor *reactor;
    void (*func)(PhReactor *reactor, void *data);
    void *data;
    GMutex mutex;
    GCond cond;
    bool done;
} BlockingCall;

static void
blocking_call_run(PhPost *post)
{
    BlockingCall *call = (BlockingCall *)post;
    call->func(call->reactor, call->data);
    g_mutex_lock(&call->mutex);
    call->done = true;
    ph_handover_give(call);
    g_cond_signal(&call->cond);
    g_mutex_unlock(&call->mutex);
}

void
ph_reactor_call_blocking(
    PhReactor *reactor, void (*func)(PhReactor *reactor, void *data), void *data)
{
    g_assert(self != reactor);
    BlockingCall call = {
        .post.func = blocking_call_run, .reactor = reactor, .func = func, .data = data
    };
    g_mutex_init(&call.mutex);
    g_cond_init(&call.cond);
    ph_reactor_post_node(reactor, &call.post);
    g_mutex_lock(&call.mutex);
    while (!call.done)
        g_cond_wait(&call.cond, &call.mutex);
    g_mutex_unlock(&call.mutex);
    ph_handover_take(&call);
    g_cond_clear(&call.cond);
    g_mutex_clear(&call.mutex);
}

typedef struct PlainCall {
    void (*func)(void *data);
    void *data;
} PlainCall;

static void
plain_call_run(PhReactor *reactor, void *data)
{
    (void)reactor;
    const PlainCall *call = data;
    call->func(call->data);
}

void
ph_reactor_run_blocking(PhReactor *reactor, void (*func)(void *data), void *data)
{
    PlainCall call = { .func = func, .data = data };
    if (self == reactor)
        func(data);
    else
        ph_reactor_call_blocking(reactor, plain_call_run, &call);
}

void
ph_reactor_touch(PhReactor *reactor, PhTouch *touch)
{
    if (touch->queued)
        return;
    touch->queued = true;
    touch->next = NULL;
    if (reactor->touched_last != NULL)
        reactor->touched_last->next = touch;
    else
        reactor->touched_first = touch;
    reactor->touched_last = touch;
}

/* Looks at what was touched up to now; what is touched meanwhile is for the next turn, so that no
 * connection starves the others. */
static void
run_touched(PhReactor *reactor)
{
    PhTouch *touch = reactor->touched_first;
    reactor->touched_first = NULL;
    reactor->touched_last = NULL;
    while (touch != NULL) {
        PhTouch *next = touch->next;
        touch->queued = false;
        touch->func(touch);
        touch = next;
    }
}

/* -- timers: a binary heap that is mended lazily ----------------------------------------------- */

static PhTimer *
heap_at(PhReactor *reactor, size_t index)
{
    return reactor->heap->pdata[index];
}

static void
heap_put(PhReactor *reactor, size_t index, PhTimer *timer)
{
    reactor->heap->pdata[index] = timer;
    timer->index = index;
}

static void
heap_up(PhReactor *reactor, PhTimer *timer)
{
    size_t index = timer->index;
    while (index > 0) {
        PhTimer *parent = heap_at(reactor, (index - 1) / 2);
        if (parent->queued_us <= timer->queued_us)
            break;
        heap_put(reactor, index, parent);
        index = (index - 1) / 2;
    }
    heap_put(reactor, index, timer);
}

static void
heap_down(PhReactor *reactor, PhTimer *timer)
{
    size_t index = timer->index;
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= reactor->heap->len)
            break;
        if (child + 1 < reactor->heap->len &&
            heap_at(reactor, child + 1)->queued_us < heap_at(reactor, child)->queued_us)
            child++;
        if (heap_at(reactor, child)->queued_us >= timer->queued_us)
            break;
        heap_put(reactor, index, heap_at(reactor, child));
        index = child;
    }
    heap_put(reactor, index, timer);
}

void
ph_timer_init(PhTimer *timer, void (*func)(void *data), void *data)
{
    *timer = (PhTimer){ .func = func, .data = data, .owner = ph_owner_current() };
}

bool
ph_timer_is_armed(const PhTimer *timer)
{
    return timer->reactor != NULL;
}

void
ph_timer_arm_ms(PhTimer *timer, PhReactor *reactor, int64_t delay_ms)
{
    ph_assert_on_reactor();
    int64_t due_us = ph_monotonic_us() + MAX(delay_ms, 0) * 1000;
    timer->due_us = due_us;
    if (timer->reactor == NULL) {
        timer->reactor = reactor;
        timer->queued_us = due_us;
        timer->index = reactor->heap->len;
        g_ptr_array_add(reactor->heap, timer);
        heap_up(reactor, timer);
    } else if (due_us < timer->queued_us) {
        timer->queued_us = due_us;
        heap_up(reactor, timer);
    }
}

void
ph_timer_disarm(PhTimer *timer)
{
    PhReactor *reactor = timer->reactor;
    if (reactor == NULL)
        return;
    size_t index = timer->index;
    PhTimer *last = g_ptr_array_remove_index_fast(reactor->heap, reactor->heap->len - 1);
    timer->reactor = NULL;
    if (last == timer)
        return;
    heap_put(reactor, index, last);
    heap_up(reactor, last);
    heap_down(reactor, last);
}

static void
run_timers(PhReactor *reactor)
{
    ph_assert_on_reactor();
    while (reactor->heap->len > 0) {
        PhTimer *timer = heap_at(reactor, 0);
        if (timer->queued_us > reactor->now_us)
            return;
        if (timer->due_us > reactor->now_us) {
            timer->queued_us = timer->due_us;
            heap_down(reactor, timer);
            continue;
        }
        ph_timer_disarm(timer);
        /* What the function makes (tasks, connections) counts for the code that it belongs to. */
        PhOwner *previous = ph_owner_enter(timer->owner);
        timer->func(timer->data);
        ph_owner_leave(previous);
    }
}

/* -1: no deadline. Rounded up, so that a timer is due when we wake. */
static int
sleep_ms(PhReactor *reactor)
{
    if (reactor->touched_first != NULL)
        return 0;
    if (reactor->heap->len == 0)
        return -1;
    int64_t left_us = heap_at(reactor, 0)->queued_us - ph_monotonic_us();
    return left_us <= 0 ? 0 : (int)MIN((left_us + 999) / 1000, INT32_MAX);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static int
wait_for_events(PhReactor *reactor, struct epoll_event *events)
{
    int timeout_ms = sleep_ms(reactor);
    if (timeout_ms != 0) {
        __atomic_store_n(&reactor->sleeping, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&reactor->posts, __ATOMIC_SEQ_CST) != NULL)
            timeout_ms = 0;
    }
    int n = epoll_wait(reactor->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);
    __atomic_store_n(&reactor->sleeping, 0, __ATOMIC_SEQ_CST);
    return n;
}

static void *
reactor_main(void *data)
{
    PhReactor *reactor = data;
    self = reactor;
    ph_thread_set_kind(PH_THREAD_REACTOR);
    reactor->scratch = g_malloc(PH_SCRATCH_BYTES);
    struct epoll_event events[EVENTS_PER_TURN];

    while (!__atomic_load_n(&reactor->stopping, __ATOMIC_ACQUIRE)) {
        int n = wait_for_events(reactor, events);
        reactor->now_us = ph_monotonic_us();
        for (int i = 0; i < n; i++) {
            PhSource *source = events[i].data.ptr;
            if (source->fd >= 0)
                source->ready(source, events[i].events);
        }
        run_posts(reactor);
        run_timers(reactor);
        run_touched(reactor);
        ph_pool_flush();
        bury(reactor);
    }
    run_posts(reactor);
    run_touched(reactor);
    ph_pool_flush();
    bury(reactor);
    g_free(g_steal_pointer(&reactor->scratch));
    self = NULL;
    return NULL;
}

PhReactor *
ph_reactor_new(unsigned index, GError **error)
{
    PhReactor *reactor = g_new0(PhReactor, 1);
    reactor->index = index;
    reactor->now_us = ph_monotonic_us();
    reactor->graves = g_array_new(FALSE, FALSE, sizeof(Grave));
    reactor->heap = g_ptr_array_new();
    reactor->connections.next = reactor->connections.previous = &reactor->connections;
    reactor->wake.ready = wake_ready;
    reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    reactor->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reactor->epoll_fd < 0 || reactor->wake.fd < 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "make a reactor: %s", g_strerror(errno));
        ph_reactor_free(reactor);
        return NULL;
    }
    if (!ph_reactor_add(reactor, &reactor->wake, EPOLLIN, error)) {
        ph_reactor_free(reactor);
        return NULL;
    }
    return reactor;
}

void
ph_reactor_start(PhReactor *reactor)
{
    char name[16];
    g_snprintf(name, sizeof(name), "reactor-%u", reactor->index);
    reactor->thread = g_thread_new(name, reactor_main, reactor);
}

static void
do_nothing(void *data)
{
    (void)data;
}

void
ph_reactor_stop(PhReactor *reactor)
{
    if (reactor->thread == NULL)
        return;
    __atomic_store_n(&reactor->stopping, 1, __ATOMIC_RELEASE);
    ph_reactor_post(reactor, do_nothing, NULL);
    g_thread_join(g_steal_pointer(&reactor->thread));
}

void
ph_reactor_free(PhReactor *reactor)
{
    if (reactor == NULL)
        return;
    ph_reactor_stop(reactor);
    run_posts(reactor);
    if (reactor->epoll_fd >= 0)
        close(reactor->epoll_fd);
    if (reactor->wake.fd >= 0)
        close(reactor->wake.fd);
    g_array_free(reactor->graves, TRUE);
    g_ptr_array_free(reactor->heap, TRUE);
    g_free(reactor);
}

/* -- the reactors of this process -------------------------------------------------------------- */

static GPtrArray *reactors; /* the last one is apart */

bool
ph_reactors_start(unsigned n, GError **error)
{
    if (n == 0)
        n = g_get_num_processors();
    reactors = g_ptr_array_new_with_free_func((GDestroyNotify)ph_reactor_free);
    for (unsigned i = 0; i <= n; i++) {
        PhReactor *reactor = ph_reactor_new(i, error);
        if (reactor == NULL) {
            ph_reactors_stop();
            return false;
        }
        g_ptr_array_add(reactors, reactor);
    }
    for (unsigned i = 0; i <= n; i++)
        ph_reactor_start(ph_reactor_at(i));
    return true;
}

void
ph_reactors_stop(void)
{
    if (reactors == NULL)
        return;
    for (guint i = 0; i < reactors->len; i++)
        ph_reactor_stop(reactors->pdata[i]);
    g_ptr_array_unref(g_steal_pointer(&reactors));
}

unsigned
ph_reactors_count(void)
{
    return reactors != NULL ? reactors->len - 1 : 0;
}

PhReactor *
ph_reactor_apart(void)
{
    return ph_reactor_at(ph_reactors_count());
}

PhReactor *
ph_reactor_at(unsigned index)
{
    return reactors->pdata[index];
}

void
ph_reactors_call_blocking(void (*func)(PhReactor *reactor, void *data), void *data)
{
    for (unsigned i = 0; reactors != NULL && i < reactors->len; i++)
        ph_reactor_call_blocking(ph_reactor_at(i), func, data);
}
