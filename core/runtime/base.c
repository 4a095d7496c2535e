/* base.c - errors, secrets, ranked locks, clocks */
#include "posthouse/base.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

PhThreadRole ph_role_reactor;
PhThreadRole ph_role_job;

static __thread PhThreadKind thread_kind;

void
ph_thread_set_kind(PhThreadKind kind)
{
    thread_kind = kind;
}

PhThreadKind
ph_thread_kind(void)
{
    return thread_kind;
}

void
ph_assert_on_reactor(void)
{
    g_assert(thread_kind != PH_THREAD_WORKER);
}

void
ph_assert_in_job(void)
{
    g_assert(thread_kind != PH_THREAD_REACTOR);
}

/* -- errors ------------------------------------------------------------------------------------ */

GQuark
ph_error_quark(void)
{
    static GQuark quark;
    GQuark known = __atomic_load_n(&quark, __ATOMIC_RELAXED);
    if (known == 0) {
        known = g_quark_from_static_string("ph-error-quark");
        __atomic_store_n(&quark, known, __ATOMIC_RELAXED);
    }
    return known;
}

const char *
ph_error_name(PhError code)
{
    static const char *const names[] = {
        [PH_ERROR_SYNTAX] = "syntax",
        [PH_ERROR_DENIED] = "denied",
        [PH_ERROR_NOT_FOUND] = "not-found",
        [PH_ERROR_CONFLICT] = "conflict",
        [PH_ERROR_TOO_LARGE] = "too-large",
        [PH_ERROR_LIMIT] = "limit",
        [PH_ERROR_TEMPORARY] = "temporary",
        [PH_ERROR_UNAVAILABLE] = "unavailable",
        [PH_ERROR_ABI] = "abi",
        [PH_ERROR_INTERNAL] = "internal",
    };
    return (size_t)code < G_N_ELEMENTS(names) ? names[code] : "internal";
}

PhError
ph_error_code(const GError *error)
{
    if (error != NULL && error->domain == PH_ERROR)
        return (PhError)error->code;
    return PH_ERROR_INTERNAL;
}

/* -- secrets ----------------------------------------------------------------------------------- */

struct PhSecret {
    size_t length;
    char bytes[];
};

static PhSecret *
secret_alloc(size_t length)
{
    PhSecret *secret = g_malloc(sizeof(PhSecret) + length + 1);
    secret->length = length;
    secret->bytes[length] = '\0';
    return secret;
}

PhSecret *
ph_secret_new(const void *bytes, size_t length)
{
    PhSecret *secret = secret_alloc(length);
    if (length > 0)
        memcpy(secret->bytes, bytes, length);
    return secret;
}

PhSecret *
ph_secret_new_random(size_t length)
{
    PhSecret *secret = secret_alloc(length);
    randombytes_buf(secret->bytes, length);
    return secret;
}

void
ph_secret_free(PhSecret *secret)
{
    if (secret == NULL)
        return;
    ph_wipe(secret->bytes, secret->length);
    g_free(secret);
}

size_t
ph_secret_length(const PhSecret *secret)
{
    return secret->length;
}

const void *
ph_secret_bytes(const PhSecret *secret)
{
    return secret->bytes;
}

bool
ph_secret_equal(const PhSecret *a, const PhSecret *b)
{
    return a->length == b->length && sodium_memcmp(a->bytes, b->bytes, a->length) == 0;
}

void
ph_wipe(void *bytes, size_t length)
{
    sodium_memzero(bytes, length);
}

/* -- locks ------------------------------------------------------------------------------------- */

static const char *const lock_names[] = {
#define PH_LOCK(name, guards) #name,
#include "posthouse/locks.def"
#undef PH_LOCK
};

/* Bit r is set while this thread holds a lock of rank r. */
static __thread uint64_t held_ranks;

G_STATIC_ASSERT(G_N_ELEMENTS(lock_names) <= 64);

static void
rank_take(PhLockRank rank)
{
    uint64_t same_or_later = held_ranks & ~((UINT64_C(1) << rank) - 1);
    if (G_UNLIKELY(same_or_later != 0)) {
        int held = __builtin_ctzll(same_or_later);
        g_error("lock order: %s is taken while %s is held", lock_names[rank], lock_names[held]);
    }
    held_ranks |= UINT64_C(1) << rank;
}

static void
rank_leave(PhLockRank rank)
{
    held_ranks &= ~(UINT64_C(1) << rank);
}

void
ph_mutex_init(PhMutex *mutex, PhLockRank rank)
{
    g_mutex_init(&mutex->mutex);
    mutex->rank = rank;
}

void
ph_mutex_clear(PhMutex *mutex)
{
    g_mutex_clear(&mutex->mutex);
}

void
ph_mutex_lock(PhMutex *mutex)
{
    rank_take(mutex->rank);
    g_mutex_lock(&mutex->mutex);
    ph_handover_take(mutex);
}

void
ph_mutex_unlock(PhMutex *mutex)
{
    rank_leave(mutex->rank);
    ph_handover_give(mutex);
    g_mutex_unlock(&mutex->mutex);
}

void
ph_mutex_wait(PhMutex *mutex, GCond *cond)
{
    ph_handover_give(mutex);
    g_cond_wait(cond, &mutex->mutex);
    ph_handover_take(mutex);
}

bool
ph_mutex_wait_until(PhMutex *mutex, GCond *cond, int64_t until_us)
{
    ph_handover_give(mutex);
    bool in_time = g_cond_wait_until(cond, &mutex->mutex, until_us);
    ph_handover_take(mutex);
    return in_time;
}

/* -- time -------------------------------------------------------------------------------------- */

#ifdef PH_TEST_POINTS
/* A step of the clock, as a test makes it: microseconds in the file that POSTHOUSE_CLOCK_STEP names. */
static int64_t
clock_step_us(void)
{
    static const int64_t *step;
    static gsize once;
    if (g_once_init_enter(&once)) {
        const char *path = g_getenv("POSTHOUSE_CLOCK_STEP");
        int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *page =
            fd >= 0 ? mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
        step = page != MAP_FAILED ? page : NULL;
        if (fd >= 0)
            close(fd);
        g_once_init_leave(&once, 1);
    }
    return step != NULL ? __atomic_load_n(step, __ATOMIC_RELAXED) : 0;
}
#endif

int64_t
ph_time_now_us(void)
{
#ifdef PH_TEST_POINTS
    return g_get_real_time() + clock_step_us();
#else
    return g_get_real_time();
#endif
}

int64_t
ph_monotonic_us(void)
{
    return g_get_monotonic_time();
}
