/* test-runtime-reactor.c - posts from many threads, timers, blocking calls */
#include "runtime/owner.h"
#include "runtime/reactor.h"

#include "tests/support/test-client.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static PhReactor *reactor;

static void
nothing(PhReactor *here, void *data)
{
    (void)data;
    g_assert_true(ph_reactor_self() == here);
}

/* Returns when what was posted before has run. */
static void
flush(void)
{
    ph_reactor_call_blocking(reactor, nothing, NULL);
}

/* -- posts ------------------------------------------------------------------------------------- */

enum { POSTERS = 8, POSTS = 5000 };

typedef struct Poster {
    int seen; /* of this poster, on the reactor */
    bool disorder;
    GThread *thread;
} Poster;

typedef struct Letter {
    PhPost post;
    Poster *poster;
    int number;
} Letter;

static int letters_seen; /* on the reactor */

static void
letter_arrived(PhPost *post)
{
    Letter *letter = (Letter *)post;
    if (letter->number != letter->poster->seen)
        letter->poster->disorder = true;
    letter->poster->seen++;
    letters_seen++;
    g_free(letter);
}

static void *
poster_main(void *data)
{
    Poster *poster = data;
    for (int i = 0; i < POSTS; i++) {
        Letter *letter = g_new0(Letter, 1);
        letter->post.func = letter_arrived;
        letter->poster = poster;
        letter->number = i;
        ph_reactor_post_node(reactor, &letter->post);
        if (i % 512 == 0)
            g_usleep(200); /* so that the reactor falls asleep now and then */
    }
    return NULL;
}

/* All arrive, once, and those of one thread in its order. */
static void
test_post_threads(void)
{
    Poster posters[POSTERS];
    letters_seen = 0;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (Poster){ .seen = 0 };
        posters[i].thread = g_thread_new("poster", poster_main, &posters[i]);
    }
    for (int i = 0; i < POSTERS; i++)
        g_thread_join(posters[i].thread);
    flush();
    g_assert_cmpint(letters_seen, ==, POSTERS * POSTS);
    for (int i = 0; i < POSTERS; i++) {
        g_assert_cmpint(posters[i].seen, ==, POSTS);
        g_assert_false(posters[i].disorder);
    }
}

/* A wake-up is never lost: one post at a time, each waited for. */
static void
test_post_wakes(void)
{
    for (int i = 0; i < 3000; i++)
        flush();
}

static void
set_flag(void *data)
{
    __atomic_store_n((int *)data, 1, __ATOMIC_RELEASE);
}

static void
test_post_plain(void)
{
    int flag = 0;
    ph_reactor_post(reactor, set_flag, &flag);
    test_wait_for(__atomic_load_n(&flag, __ATOMIC_ACQUIRE) == 1);
}

/* What is posted from a post runs too, and does not keep the reactor from its other work. */
static int chain_left;

static void
chain(void *data)
{
    if (--chain_left > 0)
        ph_reactor_post(reactor, chain, data);
}

static void
test_post_chain(void)
{
    chain_left = 1000;
    ph_reactor_post(reactor, chain, NULL);
    for (int i = 0; i < 1000; i++)
        flush();
    g_assert_cmpint(chain_left, ==, 0);
}

/* -- timers ------------------------------------------------------------------------------------ */

typedef struct Alarm {
    PhTimer timer;
    GString *order;
    char letter;
    int64_t armed_us;
    int64_t delay_ms;
    bool early;
    PhTimer *disarms; /* when it fires */
    PhTimer *arms;
    int again;
    int fired;
} Alarm;

static void
alarm_due(void *data)
{
    ph_assert_on_reactor();
    Alarm *alarm_ = data;
    if (alarm_->order != NULL)
        g_string_append_c(alarm_->order, alarm_->letter);
    alarm_->early = ph_monotonic_us() < alarm_->armed_us + alarm_->delay_ms * 1000;
    g_assert_false(ph_timer_is_armed(&alarm_->timer));
    __atomic_fetch_add(&alarm_->fired, 1, __ATOMIC_RELEASE);
    if (alarm_->disarms != NULL)
        ph_timer_disarm(alarm_->disarms);
    if (alarm_->arms != NULL)
        ph_timer_arm_ms(alarm_->arms, reactor, 1);
    if (alarm_->again > 0) {
        alarm_->again--;
        ph_timer_arm_ms(&alarm_->timer, reactor, 1);
    }
}

static void
arm(Alarm *alarm_, int64_t delay_ms)
{
    ph_assert_on_reactor();
    alarm_->armed_us = ph_monotonic_us();
    alarm_->delay_ms = delay_ms;
    ph_timer_arm_ms(&alarm_->timer, reactor, delay_ms);
}

static int
fired(Alarm *alarm_)
{
    return __atomic_load_n(&alarm_->fired, __ATOMIC_ACQUIRE);
}

static const int64_t order_ms[] = { 30, 10, 50, 20, 40, 0, 10, 25 };

static void
arm_in_order(PhReactor *here, void *data)
{
    (void)here;
    Alarm *alarms = data;
    for (size_t i = 0; i < G_N_ELEMENTS(order_ms); i++)
        arm(&alarms[i], order_ms[i]);
}

static void
test_timer_order(void)
{
    g_autoptr(GString) order = g_string_new(NULL);
    Alarm alarms[G_N_ELEMENTS(order_ms)];
    for (size_t i = 0; i < G_N_ELEMENTS(order_ms); i++) {
        alarms[i] = (Alarm){ .order = order, .letter = (char)('a' + i) };
        ph_timer_init(&alarms[i].timer, alarm_due, &alarms[i]);
    }
    ph_reactor_call_blocking(reactor, arm_in_order, alarms);
    test_wait_for(fired(&alarms[2]) == 1);
    flush();
    g_assert_cmpuint(order->len, ==, G_N_ELEMENTS(order_ms));
    g_assert_cmpint(order->str[0], ==, 'f');
    g_assert_true(strchr("bg", order->str[1]) != NULL && strchr("bg", order->str[2]) != NULL);
    g_assert_cmpstr(order->str + 3, ==, "dhaec");
    for (size_t i = 0; i < G_N_ELEMENTS(order_ms); i++)
        g_assert_false(alarms[i].early);
    flush(); /* the callback has returned */
}

typedef struct Arming {
    Alarm *alarm;
    int64_t delay_ms; /* -1: disarm */
} Arming;

static void
arm_one(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    (void)here;
    const Arming *arming = data;
    if (arming->delay_ms < 0)
        ph_timer_disarm(&arming->alarm->timer);
    else
        arm(arming->alarm, arming->delay_ms);
}

static void
arm_from_here(Alarm *alarm_, int64_t delay_ms)
{
    Arming arming = { .alarm = alarm_, .delay_ms = delay_ms };
    ph_reactor_call_blocking(reactor, arm_one, &arming);
}

/* Moved later while its old place in the heap stands: it fires once, at the later moment. */
typedef struct Owned {
    PhTimer timer;
    PhOwner *seen;
    int fired;
} Owned;

static void
owned_due(void *data)
{
    Owned *owned = data;
    owned->seen = ph_owner_current();
    __atomic_store_n(&owned->fired, 1, __ATOMIC_RELEASE);
}

static void
arm_owned(PhReactor *on, void *data)
{
    ph_assert_on_reactor();
    Owned *owned = data;
    ph_timer_arm_ms(&owned->timer, on, 1);
}

/* What a timer's function makes counts for the plugin that made the timer. */
static void
test_timer_owner(void)
{
    PhOwner owner = { .name = "test" };
    Owned owned = { .seen = NULL };
    PhOwner *previous = ph_owner_enter(&owner);
    ph_timer_init(&owned.timer, owned_due, &owned);
    ph_owner_leave(previous);
    ph_reactor_call_blocking(reactor, arm_owned, &owned);
    test_wait_for(__atomic_load_n(&owned.fired, __ATOMIC_ACQUIRE) == 1);
    g_assert_true(owned.seen == &owner);
    flush(); /* the callback has returned */
}

static void
test_timer_later(void)
{
    Alarm one = { .order = NULL };
    ph_timer_init(&one.timer, alarm_due, &one);
    arm_from_here(&one, 5);
    arm_from_here(&one, 60);
    g_usleep(30000);
    g_assert_cmpint(fired(&one), ==, 0);
    test_wait_for(fired(&one) == 1);
    g_assert_false(one.early);
    g_usleep(80000);
    g_assert_cmpint(fired(&one), ==, 1);
    flush(); /* the callback has returned */
}

static void
test_timer_sooner(void)
{
    Alarm one = { .order = NULL };
    ph_timer_init(&one.timer, alarm_due, &one);
    int64_t begin_us = ph_monotonic_us();
    arm_from_here(&one, 60000);
    arm_from_here(&one, 5);
    test_wait_for(fired(&one) == 1);
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 5 * G_USEC_PER_SEC);
    flush(); /* the callback has returned */
}

static void
test_timer_disarm(void)
{
    Alarm one = { .order = NULL };
    ph_timer_init(&one.timer, alarm_due, &one);
    arm_from_here(&one, 10);
    arm_from_here(&one, -1);
    arm_from_here(&one, -1); /* twice is once */
    g_usleep(40000);
    g_assert_cmpint(fired(&one), ==, 0);
    g_assert_false(ph_timer_is_armed(&one.timer));
    flush(); /* the callback has returned */
}

/* A callback may disarm others that are due in the same turn, arm them, and arm itself again. */
static void
test_timer_callbacks(void)
{
    Alarm killer = { .order = NULL };
    Alarm victim = { .order = NULL };
    Alarm child = { .order = NULL };
    ph_timer_init(&killer.timer, alarm_due, &killer);
    ph_timer_init(&victim.timer, alarm_due, &victim);
    ph_timer_init(&child.timer, alarm_due, &child);
    killer.disarms = &victim.timer;
    killer.arms = &child.timer;
    killer.again = 3;
    Arming both[] = { { &killer, 5 }, { &victim, 6 } };
    ph_reactor_call_blocking(reactor, arm_one, &both[0]);
    ph_reactor_call_blocking(reactor, arm_one, &both[1]);
    test_wait_for(fired(&killer) == 4);
    test_wait_for(fired(&child) >= 1);
    g_usleep(20000);
    g_assert_cmpint(fired(&killer), ==, 4);
    g_assert_cmpint(fired(&victim), <=, 1); /* a slow machine may see it first */
    arm_from_here(&child, -1);
    flush(); /* the callback has returned */
}

enum { CROWD = 2000 };

static void
arm_crowd(PhReactor *here, void *data)
{
    ph_assert_on_reactor();
    (void)here;
    Alarm *crowd = data;
    for (int i = 0; i < CROWD; i++)
        arm(&crowd[i], g_test_rand_int_range(0, 40));
    for (int i = 0; i < CROWD; i += 3)
        ph_timer_disarm(&crowd[i].timer);
    for (int i = 1; i < CROWD; i += 3)
        arm(&crowd[i], g_test_rand_int_range(0, 60));
}

/* Many, moved and removed at random: each that stays fires once, none early. */
static void
test_timer_crowd(void)
{
    Alarm *crowd = g_new0(Alarm, CROWD);
    for (int i = 0; i < CROWD; i++)
        ph_timer_init(&crowd[i].timer, alarm_due, &crowd[i]);
    ph_reactor_call_blocking(reactor, arm_crowd, crowd);
    g_usleep(150000);
    flush();
    for (int i = 0; i < CROWD; i++) {
        test_wait_for(fired(&crowd[i]) == (i % 3 == 0 ? 0 : 1));
        g_assert_false(crowd[i].early);
    }
    flush();
    g_free(crowd);
}

/* -- sources and graves ------------------------------------------------------------------------ */

typedef struct Pipe {
    PhSource source; /* first */
    int write_fd;
    int events;
    struct Pipe *kills; /* when it is ready */
    bool *freed;
} Pipe;

static void
pipe_free(void *data)
{
    Pipe *pipe_ = data;
    *pipe_->freed = true;
    g_free(pipe_);
}

static void
pipe_end(Pipe *pipe_)
{
    ph_reactor_remove(reactor, &pipe_->source);
    close(pipe_->source.fd);
    close(pipe_->write_fd);
    ph_reactor_free_later(reactor, pipe_, pipe_free);
}

static void
pipe_ready(PhSource *source, uint32_t events)
{
    Pipe *pipe_ = (Pipe *)source;
    g_assert_true((events & EPOLLIN) != 0);
    pipe_->events++;
    if (pipe_->kills != NULL) {
        g_assert_false(*pipe_->kills->freed);
        pipe_end(g_steal_pointer(&pipe_->kills));
        pipe_end(pipe_);
    }
}

static Pipe *
pipe_new(bool *freed)
{
    int fds[2];
    g_assert_cmpint(pipe(fds), ==, 0);
    Pipe *pipe_ = g_new0(Pipe, 1);
    pipe_->source = (PhSource){ .fd = fds[0], .ready = pipe_ready };
    pipe_->write_fd = fds[1];
    pipe_->freed = freed;
    g_assert_cmpint(write(fds[1], "x", 1), ==, 1);
    return pipe_;
}

static void
add_pipes(PhReactor *here, void *data)
{
    Pipe **pipes = data;
    g_assert_true(ph_reactor_add(here, &pipes[0]->source, EPOLLIN | EPOLLET, NULL));
    g_assert_true(ph_reactor_add(here, &pipes[1]->source, EPOLLIN | EPOLLET, NULL));
}

/* Both are ready in one turn; the first frees the second, whose event still comes. */
static void
test_source_freed(void)
{
    for (int i = 0; i < 50; i++) {
        bool freed[2] = { false, false };
        Pipe *pipes[] = { pipe_new(&freed[0]), pipe_new(&freed[1]) };
        pipes[0]->kills = pipes[1];
        ph_reactor_call_blocking(reactor, add_pipes, pipes);
        flush();
        flush();
        flush();
        g_assert_true(freed[0] && freed[1]);
    }
}

static void
test_source_refused(void)
{
    g_autoptr(GError) error = NULL;
    PhSource none = { .fd = -1, .ready = pipe_ready };
    g_assert_false(ph_reactor_add(reactor, &none, EPOLLIN, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
}

/* -- touches ----------------------------------------------------------------------------------- */

typedef struct Touched {
    PhTouch touch;
    int runs;
    bool again;
} Touched;

static void
touch_run(PhTouch *touch)
{
    Touched *touched = (Touched *)touch;
    touched->runs++;
    if (touched->again) {
        touched->again = false;
        ph_reactor_touch(reactor, touch);
    }
}

static void
touch_thrice(PhReactor *here, void *data)
{
    Touched *touched = data;
    for (int i = 0; i < 3; i++)
        ph_reactor_touch(here, &touched->touch);
}

static void
test_touch(void)
{
    Touched touched = { .touch.func = touch_run, .again = true };
    ph_reactor_call_blocking(reactor, touch_thrice, &touched);
    flush();
    flush();
    flush();
    g_assert_cmpint(touched.runs, ==, 2);
}

/* -- life -------------------------------------------------------------------------------------- */

static int late;

static void
count_late(void *data)
{
    (void)data;
    late++;
}

/* What was posted before the stop runs, even when the loop has ended. */
static void
test_life_stop(void)
{
    for (int i = 0; i < 50; i++) {
        g_autoptr(GError) error = NULL;
        PhReactor *other = ph_reactor_new(7, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(ph_reactor_index(other), ==, 7);
        late = 0;
        ph_reactor_post(other, count_late, NULL);
        ph_reactor_start(other);
        for (int k = 0; k < 100; k++)
            ph_reactor_post(other, count_late, NULL);
        ph_reactor_stop(other);
        ph_reactor_free(other);
        g_assert_cmpint(late, ==, 101);
    }
}

static void
test_life_several(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_reactors_start(3, &error));
    g_assert_cmpuint(ph_reactors_count(), ==, 3);
    for (unsigned i = 0; i < 3; i++)
        g_assert_cmpuint(ph_reactor_index(ph_reactor_at(i)), ==, i);
    ph_reactors_call_blocking(nothing, NULL);
    ph_reactors_stop();
    g_assert_cmpuint(ph_reactors_count(), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/reactor/post/threads", test_post_threads);
    g_test_add_func("/reactor/post/wakes", test_post_wakes);
    g_test_add_func("/reactor/post/plain", test_post_plain);
    g_test_add_func("/reactor/post/chain", test_post_chain);
    g_test_add_func("/reactor/timer/order", test_timer_order);
    g_test_add_func("/reactor/timer/owner", test_timer_owner);
    g_test_add_func("/reactor/timer/later", test_timer_later);
    g_test_add_func("/reactor/timer/sooner", test_timer_sooner);
    g_test_add_func("/reactor/timer/disarm", test_timer_disarm);
    g_test_add_func("/reactor/timer/callbacks", test_timer_callbacks);
    g_test_add_func("/reactor/timer/crowd", test_timer_crowd);
    g_test_add_func("/reactor/source/freed", test_source_freed);
    g_test_add_func("/reactor/source/refused", test_source_refused);
    g_test_add_func("/reactor/touch/once", test_touch);
    g_test_add_func("/reactor/life/stop", test_life_stop);
    g_test_add_func("/reactor/life/several", test_life_several);
    g_autoptr(GError) error = NULL;
    reactor = ph_reactor_new(0, &error);
    g_assert_no_error(error);
    ph_reactor_start(reactor);
    int status = g_test_run();
    ph_reactor_free(reactor);
    return status;
}
