/* delivery.h - messages into mailboxes, durably
 *
 * Shape:    a prepared message (compressed frames, outline, envelope ...) and targets (account,
 *           mailbox, flags). Committer threads write what waits in one transaction; `done` is
 *           called after the commit.
 * Units:    bytes; microseconds since 1970 UTC.
 * Threads:  ph_delivery_prepare_blocking in a job; ph_delivery_submit on the reactor of the task;
 *           `done` on that reactor, only while the task lives (the delivery itself goes on and is
 *           freed in any case).
 * Errors:   per target: NOT_FOUND (mailbox or account gone), LIMIT (quota), UNAVAILABLE, TEMPORARY,
 *           INTERNAL.
 * Promise:  a target without error is durable: the commit that holds body, membership and change
 *           row is done.
 * Sources:  RFC 5321 6.1; RFC 2033 4.2; RFC 3501 6.3.11.
 */
#pragma once

#include "posthouse/mailbox.h"
#include "posthouse/spool.h"
#include "posthouse/task.h"

typedef struct PhDelivery PhDelivery;

typedef enum PhDeliveryMode {
    PH_DELIVERY_ALL_OR_NONE, /* one refusal refuses all (SMTP, APPEND) */
    PH_DELIVERY_EACH,        /* each target has its own answer (LMTP) */
} PhDeliveryMode;

/* Reads the spool, makes what the store keeps of it, compresses it. The spool is the caller's
 * still. */
PH_API PH_IN_JOB PhDelivery *ph_delivery_prepare_blocking(
    const PhSpool *spool, PhDeliveryMode mode, GError **error);
PH_API void ph_delivery_free(PhDelivery *delivery);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhDelivery, ph_delivery_free)

typedef struct PhDeliveryTarget {
    PhMailboxKey mailbox;        /* mailbox_id 0: the account's INBOX */
    uint32_t flags;              /* PH_FLAG_* */
    const char *const *keywords; /* null-terminated or null; copied */
    int64_t internal_date_us;    /* INT64_MIN: the time of delivery */
    bool check_quota;
} PhDeliveryTarget;

/* An account that is added twice with the same mailbox gets one copy; the index is the same. */
PH_API unsigned ph_delivery_add_target(PhDelivery *delivery, const PhDeliveryTarget *target);

typedef struct PhDeliveryResult {
    bool delivered;
    PhError code;     /* when not delivered */
    const char *text; /* when not delivered */
    uint32_t uid_validity;
    uint32_t uid;
} PhDeliveryResult;

typedef void (*PhDeliveryDone)(PhTask *task, PhDelivery *delivery, void *data);

/* Takes the delivery. It is freed after `done` returned, or when the task is gone. */
PH_API void ph_delivery_submit(PhDelivery *delivery, PhTask *task, PhDeliveryDone done, void *data);
PH_API unsigned ph_delivery_target_count(const PhDelivery *delivery);
/* In `done` only. */
PH_API const PhDeliveryResult *ph_delivery_result(const PhDelivery *delivery, unsigned index);
/* For jobs and tools that may wait (imports, tests): submits and waits for the commit. The delivery
 * stays the caller's, who may ask for the results afterwards. False with the first refusal;
 * TEMPORARY when the deadline passed first (the delivery then goes on). */
PH_API PH_IN_JOB bool ph_delivery_run_blocking(
    PhDelivery *delivery, int64_t deadline_us, GError **error);
