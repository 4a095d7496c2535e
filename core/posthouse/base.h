/* base.h - what every file of Posthouse may rely on
 *
 * Shape:    export and thread annotations, error codes, secrets, counted references, ranked locks.
 * Threads:  each function says; those without a word may be called anywhere.
 * Errors:   a code says what the caller does next, the message says what happened: lower case, no
 *           full stop, names in double quotes, no function names.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PH_API __attribute__((visibility("default")))
#define PH_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define PH_USE_RESULT __attribute__((warn_unused_result))

/* The struct that `member_pointer` is a member of. */
#define PH_CONTAINER_OF(member_pointer, Type, member) \
    ((Type *)(void *)((char *)(member_pointer)-offsetof(Type, member)))

/* Which thread may run a function. clang checks direct calls (-Wthread-safety); calls through a
 * pointer are outside its sight, so callbacks begin with ph_assert_on_reactor() or
 * ph_assert_in_job(), which also check at run time. */
#if defined(__clang__)
#define PH_ATTRIBUTE_CAPABILITY(name) __attribute__((capability(name)))
#define PH_REQUIRES_ROLE(role) __attribute__((requires_capability(role)))
#define PH_ASSERTS_ROLE(role) __attribute__((assert_capability(role)))
#else
#define PH_ATTRIBUTE_CAPABILITY(name)
#define PH_REQUIRES_ROLE(role)
#define PH_ASSERTS_ROLE(role)
#endif

typedef struct PH_ATTRIBUTE_CAPABILITY("role") PhThreadRole {
    char unused;
} PhThreadRole;

extern PH_API PhThreadRole ph_role_reactor;
extern PH_API PhThreadRole ph_role_job;

#define PH_ON_REACTOR PH_REQUIRES_ROLE(ph_role_reactor)
#define PH_IN_JOB PH_REQUIRES_ROLE(ph_role_job)

/* What this thread is, as the runtime set it when it started the thread. */
typedef enum PhThreadKind {
    PH_THREAD_OTHER, /* program start, tests: may do anything */
    PH_THREAD_REACTOR,
    PH_THREAD_WORKER, /* also committers, the notifier, the logger: threads that may block */
} PhThreadKind;

PH_API void ph_thread_set_kind(PhThreadKind kind);
PH_API PhThreadKind ph_thread_kind(void);
PH_API void ph_assert_on_reactor(void) PH_ASSERTS_ROLE(ph_role_reactor);
PH_API void ph_assert_in_job(void) PH_ASSERTS_ROLE(ph_role_job);

/* -- errors ------------------------------------------------------------------------------------ */

#define PH_ERROR (ph_error_quark())
PH_API GQuark ph_error_quark(void);

typedef enum PhError {
    PH_ERROR_SYNTAX,      /* the words are wrong: tell the sender, do not retry */
    PH_ERROR_DENIED,      /* not allowed to this person */
    PH_ERROR_NOT_FOUND,   /* no such thing */
    PH_ERROR_CONFLICT,    /* exists already, or changed meanwhile */
    PH_ERROR_TOO_LARGE,   /* over a size limit; smaller would do */
    PH_ERROR_LIMIT,       /* over a quota or rate; later or elsewhere would do */
    PH_ERROR_TEMPORARY,   /* try again */
    PH_ERROR_UNAVAILABLE, /* something we depend on is away: "could not ask" */
    PH_ERROR_ABI,         /* a plugin of another binary interface */
    PH_ERROR_INTERNAL,    /* a defect of ours */
} PhError;

PH_API const char *ph_error_name(PhError code);
/* The PhError in an error of this domain; PH_ERROR_INTERNAL for any other domain. */
PH_API PhError ph_error_code(const GError *error);

/* -- secrets ----------------------------------------------------------------------------------- */

/* Bytes that must not linger: wiped on free, no printf form, compared in constant time. */
typedef struct PhSecret PhSecret;

PH_API PhSecret *ph_secret_new(const void *bytes, size_t length);
PH_API PhSecret *ph_secret_new_random(size_t length);
PH_API void ph_secret_free(PhSecret *secret);
PH_API size_t ph_secret_length(const PhSecret *secret);
/* The bytes, followed by a NUL; valid until the free. */
PH_API const void *ph_secret_bytes(const PhSecret *secret);
PH_API bool ph_secret_equal(const PhSecret *a, const PhSecret *b);
/* Overwrites `length` bytes in a way the compiler keeps. */
PH_API void ph_wipe(void *bytes, size_t length);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSecret, ph_secret_free)

/* -- hand-over between threads ----------------------------------------------------------------- */

/* Where ownership of `object` passes between threads by a way that ThreadSanitizer cannot see (GLib
 * is not instrumented). Nothing in other builds. */
#if defined(__SANITIZE_THREAD__)
#define PH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PH_TSAN 1
#endif
#endif
#ifdef PH_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define ph_handover_give(object) __tsan_release((void *)(object))
#define ph_handover_take(object) __tsan_acquire((void *)(object))
#else
#define ph_handover_give(object) ((void)(object))
#define ph_handover_take(object) ((void)(object))
#endif

/* A reference count; starts at 1. */
typedef struct PhRef {
    int count;
} PhRef;

static inline void
ph_ref_init(PhRef *ref)
{
    __atomic_store_n(&ref->count, 1, __ATOMIC_RELAXED);
}

static inline void
ph_ref_take(PhRef *ref)
{
    __atomic_fetch_add(&ref->count, 1, __ATOMIC_RELAXED);
}

/* True when this was the last reference: the caller frees. */
static inline bool
ph_ref_drop(PhRef *ref)
{
    return __atomic_fetch_sub(&ref->count, 1, __ATOMIC_ACQ_REL) == 1;
}

/* -- locks ------------------------------------------------------------------------------------- */

/* Ranks are listed in posthouse/locks.def, outermost first. A thread that holds a lock may take
 * only a later rank; debug builds abort with both names on a breach. */
typedef enum PhLockRank {
#define PH_LOCK(name, guards) PH_LOCK_##name,
#include "posthouse/locks.def"
#undef PH_LOCK
} PhLockRank;

typedef struct PhMutex {
    GMutex mutex;
    PhLockRank rank;
} PhMutex;

PH_API void ph_mutex_init(PhMutex *mutex, PhLockRank rank);
PH_API void ph_mutex_clear(PhMutex *mutex);
PH_API void ph_mutex_lock(PhMutex *mutex);
PH_API void ph_mutex_unlock(PhMutex *mutex);
PH_API void ph_mutex_wait(PhMutex *mutex, GCond *cond);
/* False when the monotonic time `until_us` passed first. */
PH_API bool ph_mutex_wait_until(PhMutex *mutex, GCond *cond, int64_t until_us);

/* -- time -------------------------------------------------------------------------------------- */

/* Microseconds since 1970 UTC. */
PH_API int64_t ph_time_now_us(void);
/* Microseconds of the monotonic clock: for deadlines. */
PH_API int64_t ph_monotonic_us(void);
