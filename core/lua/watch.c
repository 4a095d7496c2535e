/* watch.c - the watchdog
 *
 * Hard here: lua_sethook is safe only on the thread that runs the state, in a signal handler or
 * not, so the watchdog may not call it itself; and the call may end, and another begin, between the
 * look and the signal. So a call has a number: the watchdog notes the number of the late one, and
 * the handler acts only when that is the call under way. A signal that comes too early or too late
 * does nothing; the next look sends another.
 *
 * Setting the hook walks the whole stack of calls, which can be a hundred thousand deep: longer than
 * the time between two looks, on a busy machine, and then the thread would do nothing else. So the
 * handler sets it once for a Lua thread, and again only for each SIGNALS_BETWEEN-th signal.
 *
 * A hook at interval 1 is kept until the call has ended, because a script may catch the error
 * (pcall in a loop): each instruction after that raises it again.
 *
 * ThreadSanitizer holds signals back until the next library call, which a script's loop never
 * makes: in such builds a hook that looks at the number is always set.
 */
#include "lua/watch.h"

#include <lauxlib.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum {
    LOOK_US = 10000,
    LOOKS_BEFORE_SLEEP = 100,
    LATE_INTERVAL = 1,
    POLL_INTERVAL = 1000,
    SIGNALS_BETWEEN = 64,
};

typedef struct Place {
    pthread_t thread;
    clockid_t cpu_clock;
    bool has_cpu_clock;
    /* Written by the thread, read by the watchdog. */
    uint64_t call; /* its number; 0: none under way */
    int64_t deadline_us;
    int64_t cpu_us;
    /* Written by the watchdog: the number of the call that must end. */
    uint64_t overdue;
    /* The thread's own. */
    uint64_t last_call;
    lua_State *volatile running;
    volatile unsigned n_signals; /* that came for this call */
    /* The watchdog's own. */
    uint64_t seen;
    int64_t cpu_at_seen_us;
} Place;

static struct {
    PhMutex mutex;
    GCond wake;
    GPtrArray *places;
    int asleep; /* the watchdog waits for a call to begin */
    int signal;
} watch = { .mutex = { .rank = PH_LOCK_LUA_WATCH } };

__thread volatile sig_atomic_t ph_lua_is_over;
static __thread Place *own_place;

static void
late_hook(lua_State *lua, lua_Debug *where)
{
    if (ph_lua_is_over == 0) {
        lua_sethook(lua, NULL, 0, 0);
        return;
    }
    lua_getinfo(lua, "Sl", where);
    lua_pushfstring(lua, "%s:%d: " PH_LUA_OVER_TEXT, where->short_src, where->currentline);
    lua_error(lua);
}

void
ph_lua_watch_raise(lua_State *lua)
{
    luaL_error(lua, PH_LUA_OVER_TEXT);
}

static bool
must_end(const Place *place)
{
    uint64_t call = __atomic_load_n(&place->call, __ATOMIC_RELAXED);
    return call != 0 && __atomic_load_n(&place->overdue, __ATOMIC_ACQUIRE) == call;
}

static void
on_signal(int number)
{
    (void)number;
    Place *place = own_place;
    if (place == NULL || place->running == NULL || !must_end(place))
        return;
    ph_lua_is_over = 1;
    bool is_set = lua_gethook(place->running) == late_hook;
    if (!is_set || ++place->n_signals % SIGNALS_BETWEEN == 0)
        lua_sethook(place->running, late_hook, LUA_MASKCOUNT, LATE_INTERVAL);
}

#ifdef PH_TSAN
void
ph_lua_watch_look(void)
{
    Place *place = own_place;
    if (ph_lua_is_over != 0 || place == NULL || place->running == NULL || !must_end(place))
        return;
    ph_lua_is_over = 1;
    lua_sethook(place->running, late_hook, LUA_MASKCOUNT, LATE_INTERVAL);
}

static void
poll_hook(lua_State *lua, lua_Debug *where)
{
    ph_lua_watch_look();
    if (ph_lua_is_over != 0)
        late_hook(lua, where);
}
#endif

/* -- the watchdog's thread --------------------------------------------------------------------- */

/* False: this thread's clock cannot be read. */
static bool
read_cpu_us(const Place *place, int64_t *cpu_us_out)
{
    struct timespec time;
    if (!place->has_cpu_clock || clock_gettime(place->cpu_clock, &time) != 0)
        return false;
    *cpu_us_out = (int64_t)time.tv_sec * G_USEC_PER_SEC + time.tv_nsec / 1000;
    return true;
}

/* The CPU time of a call is counted from the first look at it. */
static bool
is_over_cpu(Place *place, uint64_t call)
{
    int64_t limit_us = __atomic_load_n(&place->cpu_us, __ATOMIC_RELAXED);
    int64_t cpu_us;
    if (limit_us == 0 || !read_cpu_us(place, &cpu_us))
        return false;
    if (place->seen != call) {
        place->seen = call;
        place->cpu_at_seen_us = cpu_us;
    }
    return cpu_us - place->cpu_at_seen_us > limit_us;
}

/* True: a call is under way. */
static bool
look_at_locked(Place *place, int64_t now_us)
{
    uint64_t call = __atomic_load_n(&place->call, __ATOMIC_SEQ_CST);
    if (call == 0)
        return false;
    int64_t deadline_us = __atomic_load_n(&place->deadline_us, __ATOMIC_RELAXED);
    if (now_us > deadline_us || is_over_cpu(place, call)) {
        __atomic_store_n(&place->overdue, call, __ATOMIC_RELEASE);
        pthread_kill(place->thread, watch.signal);
    }
    return true;
}

static bool
look_locked(void)
{
    bool any = false;
    int64_t now_us = ph_monotonic_us();
    for (guint i = 0; i < watch.places->len; i++)
        any |= look_at_locked(watch.places->pdata[i], now_us);
    return any;
}

/* Said to be asleep before the last look, so that a call that begins now is either seen or sees
 * it. */
static void
sleep_locked(void)
{
    __atomic_store_n(&watch.asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&watch.asleep, __ATOMIC_SEQ_CST) != 0 && !look_locked())
        ph_mutex_wait(&watch.mutex, &watch.wake);
    __atomic_store_n(&watch.asleep, 0, __ATOMIC_SEQ_CST);
}

static void *
watch_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_OTHER);
    unsigned quiet = 0;
    for (;;) {
        g_usleep(LOOK_US);
        ph_mutex_lock(&watch.mutex);
        quiet = look_locked() ? 0 : quiet + 1;
        if (quiet >= LOOKS_BEFORE_SLEEP) {
            sleep_locked();
            quiet = 0;
        }
        ph_mutex_unlock(&watch.mutex);
    }
    return NULL;
}

/* -- places ------------------------------------------------------------------------------------ */

static void
start_once(void)
{
    static gsize once;
    if (!g_once_init_enter(&once))
        return;
    watch.signal = SIGRTMIN + 5;
    watch.places = g_ptr_array_new();
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(watch.signal, &action, NULL);
    g_thread_unref(g_thread_new("lua-watchdog", watch_main, NULL));
    g_once_init_leave(&once, 1);
}

/* The thread ends. */
static void
leave_place(gpointer data)
{
    Place *place = data;
    own_place = NULL;
    ph_mutex_lock(&watch.mutex);
    g_ptr_array_remove_fast(watch.places, place);
    ph_mutex_unlock(&watch.mutex);
    g_free(place);
}

static GPrivate place_of_thread = G_PRIVATE_INIT(leave_place);

static Place *
take_place(void)
{
    start_once();
    Place *place = g_new0(Place, 1);
    place->thread = pthread_self();
    place->has_cpu_clock = pthread_getcpuclockid(place->thread, &place->cpu_clock) == 0;
    /* Touched here, so that the handler's look at it allocates nothing. */
    ph_lua_is_over = 0;
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, watch.signal);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    ph_mutex_lock(&watch.mutex);
    g_ptr_array_add(watch.places, place);
    ph_mutex_unlock(&watch.mutex);
    g_private_set(&place_of_thread, place);
    own_place = place;
    return place;
}

static void
wake_watchdog(void)
{
    ph_mutex_lock(&watch.mutex);
    __atomic_store_n(&watch.asleep, 0, __ATOMIC_SEQ_CST);
    g_cond_signal(&watch.wake);
    ph_mutex_unlock(&watch.mutex);
}

void
ph_lua_watch_begin(lua_State *lua, int64_t deadline_us, int64_t cpu_us)
{
    Place *place = own_place != NULL ? own_place : take_place();
    g_assert(place->running == NULL);
    ph_lua_is_over = 0;
    place->n_signals = 0;
    place->running = lua;
    __atomic_store_n(&place->deadline_us, deadline_us, __ATOMIC_RELAXED);
    __atomic_store_n(&place->cpu_us, cpu_us, __ATOMIC_RELAXED);
    __atomic_store_n(&place->call, ++place->last_call, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&watch.asleep, __ATOMIC_SEQ_CST) != 0)
        wake_watchdog();
#ifdef PH_TSAN
    lua_sethook(lua, poll_hook, LUA_MASKCOUNT, POLL_INTERVAL);
#endif
}

bool
ph_lua_watch_end(void)
{
    Place *place = own_place;
    lua_State *lua = place->running;
    place->running = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&place->call, 0, __ATOMIC_RELEASE);
    bool was_over = ph_lua_is_over != 0;
    ph_lua_is_over = 0;
    if (was_over)
        lua_sethook(lua, NULL, 0, 0);
    return was_over;
}

lua_State *
ph_lua_watch_switch(lua_State *lua)
{
    Place *place = own_place;
    lua_State *before = place->running;
    place->running = lua;
    /* A coroutine ended late, and its error may be caught: the one that goes on is late as well. */
    if (ph_lua_is_over != 0)
        lua_sethook(lua, late_hook, LUA_MASKCOUNT, LATE_INTERVAL);
    return before;
}
