/* committer.h - a delivery from the inside
 *
 * Shape:    one PhDelivery is one message and its targets. It has a message row in each account
 *           that it goes to; the ids of these rows are drawn once, before the first attempt, and
 *           tell a later one what was committed.
 * Threads:  the submitter's until it is submitted, then the committer's until its results are
 *           there.
 */
#pragma once

#include "posthouse/delivery.h"
#include "posthouse/message-summary.h"
#include "store/internal.h"

typedef struct PhTargetState {
    PhMailboxKey mailbox; /* mailbox_id 0: INBOX */
    uint32_t flags;
    char **keywords;
    int64_t internal_date_us;
    bool check_quota;
    PhDeliveryResult result;
    char *text; /* of the result */
    /* while a batch runs */
    struct MailboxWork *mailbox_work; /* of an accepted one */
    struct AccountWork *account_work;
    uint64_t keyword_bits;
    bool accepted;
} PhTargetState;

typedef struct PhMessageCopy {
    int64_t account_id;
    int64_t message_id; /* 0: not drawn */
    bool kept;          /* while a batch runs: some target of this account takes it */
} PhMessageCopy;

struct PhDelivery {
    PhRef ref;
    PhDeliveryMode mode;
    PhSummary *summary;
    GBytes *data;         /* frames */
    GArray *ends;         /* int32_t */
    GArray *targets;      /* PhTargetState */
    GArray *copies;       /* PhMessageCopy, one an account, ascending */
    int64_t submitted_us; /* monotonic */
    bool outcome_unknown; /* a COMMIT was sent and its answer did not arrive */

    /* Who waits: a task, or a thread. */
    PhPending *pending;
    PhDeliveryDone done;
    void *done_data;
    PhMutex lock;
    GCond finished;
    bool is_finished;
};

static inline PhTargetState *
ph_delivery_target(const PhDelivery *delivery, unsigned index)
{
    return &g_array_index(delivery->targets, PhTargetState, index);
}

static inline PhMessageCopy *
ph_delivery_copy(const PhDelivery *delivery, unsigned index)
{
    return &g_array_index(delivery->copies, PhMessageCopy, index);
}

PhMessageCopy *ph_delivery_copy_of(const PhDelivery *delivery, int64_t account_id);
PhDelivery *ph_delivery_ref(PhDelivery *delivery);
/* Bytes that a batch counts. */
size_t ph_delivery_weight(const PhDelivery *delivery);
/* Writes the result of one target. */
void ph_delivery_refuse(PhDelivery *delivery, unsigned index, PhError code, const char *text);
/* As if it had not been tried. */
void ph_delivery_forget_results(PhDelivery *delivery);
/* All targets without a result get this one. */
void ph_delivery_refuse_all(PhDelivery *delivery, PhError code, const char *text);
/* Hands the results to who waits. */
void ph_delivery_finish(PhDelivery *delivery);

/* Waits until the results are there. False at the deadline. */
bool ph_delivery_wait_blocking(PhDelivery *delivery, int64_t deadline_us);

/* Queues for a committer. */
void ph_committers_submit(PhDelivery *delivery);

/* Runs a batch in one transaction and writes the results of its deliveries. False: an error is set
 * and no result is written (see `lease->lost`, `lease->commit_sent`). */
PH_IN_JOB bool ph_batch_commit_blocking(
    PhLease *lease, PhDelivery *const *deliveries, unsigned count, GError **error);
