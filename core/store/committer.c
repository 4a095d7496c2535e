/* committer.c - the threads that write deliveries, what waits in one transaction
 *
 * Hard here: an answer must never be wrong. A batch that failed with an SQL error was rolled back,
 * so its deliveries are run again, each alone. A batch whose connection broke is run again on a new
 * one, with the same message ids, until the database answers or the patience of its deliveries has
 * passed; then they are told UNAVAILABLE, or, when a COMMIT was on its way, TEMPORARY, because
 * nobody knows.
 */
#include "store/committer.h"

#include <string.h>

enum {
    BATCH_DELIVERIES = 64,
    BATCH_BYTES = 8 * 1024 * 1024,
    DEADLOCK_TRIES = 5,
    STATEMENT_US = 60000000,
    RETRY_FIRST_US = 50000,
    RETRY_MOST_US = 500000,
};

typedef struct Committer {
    GThread *thread;
    PhMutex lock;
    GCond arrived;
    GQueue waiting; /* PhDelivery */
    bool stopping;
    PhLease *lease;
    uint64_t n_delivered;
    uint64_t n_batches;
} Committer;

static Committer *committers;
static unsigned n_committers;

static void
count_batch(Committer *committer, unsigned n_delivered)
{
    ph_mutex_lock(&committer->lock);
    committer->n_batches++;
    committer->n_delivered += n_delivered;
    ph_mutex_unlock(&committer->lock);
}

/* -- giving up --------------------------------------------------------------------------------- */

static bool
is_overdue(const PhDelivery *delivery)
{
    return ph_monotonic_us() - delivery->submitted_us > ph_store_settings()->commit_patience_us;
}

static void
give_up(PhDelivery *delivery)
{
    if (delivery->outcome_unknown)
        ph_delivery_refuse_all(delivery, PH_ERROR_TEMPORARY,
            "the database went away during the commit: whether the message is stored is not known");
    else
        ph_delivery_refuse_all(delivery, PH_ERROR_UNAVAILABLE, "the database is away");
    ph_delivery_finish(delivery);
}

static void
drop_overdue(GPtrArray *batch)
{
    for (unsigned i = batch->len; i-- > 0;) {
        PhDelivery *delivery = batch->pdata[i];
        if (!is_overdue(delivery))
            continue;
        g_ptr_array_remove_index(batch, i);
        give_up(delivery);
    }
}

static void
drop_overdue_waiting(Committer *committer)
{
    for (;;) {
        ph_mutex_lock(&committer->lock);
        PhDelivery *delivery = g_queue_peek_head(&committer->waiting);
        if (delivery != NULL && is_overdue(delivery))
            g_queue_pop_head(&committer->waiting);
        else
            delivery = NULL;
        ph_mutex_unlock(&committer->lock);
        if (delivery == NULL)
            return;
        give_up(delivery);
    }
}

/* -- connection -------------------------------------------------------------------------------- */

static bool
draw_ids(PhDelivery *delivery)
{
    for (unsigned i = 0; i < delivery->copies->len; i++) {
        PhMessageCopy *copy = ph_delivery_copy(delivery, i);
        if (copy->message_id == 0)
            copy->message_id = ph_message_id_draw();
        if (copy->message_id == 0)
            return false;
    }
    return true;
}

/* A working connection and ids for the whole batch. */
PH_IN_JOB static bool
make_ready(Committer *committer, GPtrArray *batch)
{
    g_autoptr(GError) error = NULL;
    if (committer->lease != NULL && committer->lease->lost)
        g_clear_pointer(&committer->lease, ph_lease_free);
    if (committer->lease == NULL) {
        committer->lease = ph_lease_new_private_blocking(
            ph_store_settings()->conninfo, ph_monotonic_us() + 2000000, &error);
        if (committer->lease == NULL) {
            ph_leases_note_error(error->message);
            return false;
        }
        ph_leases_note_back();
    }
    committer->lease->deadline_us = ph_monotonic_us() + STATEMENT_US;
    if (ph_node_id() < 0 && !ph_node_keep_blocking(committer->lease, &error)) {
        ph_leases_note_error(error->message);
        return false;
    }
    for (unsigned i = 0; i < batch->len; i++)
        if (!draw_ids(batch->pdata[i]))
            return false;
    return true;
}

/* -- a batch ----------------------------------------------------------------------------------- */

static void
finish_batch(GPtrArray *batch)
{
    for (unsigned i = 0; i < batch->len; i++)
        ph_delivery_finish(batch->pdata[i]);
    g_ptr_array_set_size(batch, 0);
}

static void
refuse_batch(GPtrArray *batch, const GError *error)
{
    for (unsigned i = 0; i < batch->len; i++)
        ph_delivery_refuse_all(batch->pdata[i], ph_error_code(error), error->message);
    finish_batch(batch);
}

typedef enum Attempt {
    ATTEMPT_DONE,
    ATTEMPT_LOST,     /* the connection: try again later */
    ATTEMPT_DEADLOCK, /* try again now */
    ATTEMPT_REFUSED,  /* an SQL error; rolled back */
} Attempt;

PH_IN_JOB static Attempt
attempt(Committer *committer, GPtrArray *batch, GError **error)
{
    if (!make_ready(committer, batch))
        return ATTEMPT_LOST;
    if (ph_batch_commit_blocking(
            committer->lease, (PhDelivery *const *)batch->pdata, batch->len, error)) {
        count_batch(committer, batch->len);
        return ATTEMPT_DONE;
    }
    if (committer->lease->lost) {
        for (unsigned i = 0; i < batch->len && committer->lease->commit_sent; i++)
            ((PhDelivery *)batch->pdata[i])->outcome_unknown = true;
        return ATTEMPT_LOST;
    }
    /* The server itself may say that it shuts down, and be rolled back: that is an absence, not a
     * refusal. */
    if (g_error_matches(*error, PH_ERROR, PH_ERROR_UNAVAILABLE)) {
        committer->lease->lost = true;
        return ATTEMPT_LOST;
    }
    return g_error_matches(*error, PH_ERROR, PH_ERROR_TEMPORARY) ? ATTEMPT_DEADLOCK
                                                                 : ATTEMPT_REFUSED;
}

static void run_batch(Committer *committer, GPtrArray *batch);

/* The one that is broken is found by running each alone. */
static void
run_each_alone(Committer *committer, GPtrArray *batch)
{
    g_autoptr(GPtrArray) one = g_ptr_array_new();
    for (unsigned i = 0; i < batch->len; i++) {
        g_ptr_array_add(one, batch->pdata[i]);
        run_batch(committer, one);
    }
    g_ptr_array_set_size(batch, 0);
}

/* Ends with all deliveries finished and the batch empty. */
PH_IN_JOB static void
run_batch(Committer *committer, GPtrArray *batch)
{
    int64_t wait_us = RETRY_FIRST_US;
    for (int tries = 0; batch->len > 0;) {
        g_autoptr(GError) error = NULL;
        switch (attempt(committer, batch, &error)) {
        case ATTEMPT_DONE:
            finish_batch(batch);
            return;
        case ATTEMPT_LOST:
            drop_overdue(batch);
            drop_overdue_waiting(committer);
            if (batch->len > 0)
                g_usleep((gulong)wait_us);
            wait_us = MIN(wait_us * 2, RETRY_MOST_US);
            break;
        case ATTEMPT_DEADLOCK:
            if (++tries <= DEADLOCK_TRIES)
                break;
            if (batch->len > 1)
                run_each_alone(committer, batch);
            else
                refuse_batch(batch, error);
            return;
        case ATTEMPT_REFUSED:
            if (batch->len > 1)
                run_each_alone(committer, batch);
            else
                refuse_batch(batch, error);
            return;
        }
    }
}

/* What waits, up to the limits of a batch; never waits for more. */
static bool
take_batch(Committer *committer, GPtrArray *batch)
{
    unsigned most = ph_store_settings()->without_batching ? 1 : BATCH_DELIVERIES;
    size_t bytes = 0;
    ph_mutex_lock(&committer->lock);
    while (g_queue_is_empty(&committer->waiting) && !committer->stopping)
        ph_mutex_wait(&committer->lock, &committer->arrived);
    while (batch->len < most) {
        PhDelivery *next = g_queue_peek_head(&committer->waiting);
        if (next == NULL || (batch->len > 0 && bytes + ph_delivery_weight(next) > BATCH_BYTES))
            break;
        bytes += ph_delivery_weight(next);
        g_ptr_array_add(batch, g_queue_pop_head(&committer->waiting));
        ph_handover_take(next);
    }
    ph_mutex_unlock(&committer->lock);
    return batch->len > 0;
}

static void *
committer_main(void *data)
{
    Committer *committer = data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_assert_in_job();
    g_autoptr(GPtrArray) batch = g_ptr_array_new();
    while (take_batch(committer, batch))
        run_batch(committer, batch);
    g_clear_pointer(&committer->lease, ph_lease_free);
    return NULL;
}

/* -- from outside ------------------------------------------------------------------------------ */

void
ph_committers_submit(PhDelivery *delivery)
{
    delivery->submitted_us = ph_monotonic_us();
    if (committers == NULL) {
        ph_delivery_refuse_all(delivery, PH_ERROR_UNAVAILABLE, "the store is not open");
        ph_delivery_finish(delivery);
        return;
    }
    if (delivery->targets->len == 0) {
        ph_delivery_finish(delivery);
        return;
    }
    uint64_t lowest = (uint64_t)ph_delivery_copy(delivery, 0)->account_id;
    Committer *committer = &committers[lowest % n_committers];
    ph_mutex_lock(&committer->lock);
    g_queue_push_tail(&committer->waiting, delivery);
    g_cond_signal(&committer->arrived);
    ph_mutex_unlock(&committer->lock);
}

void
ph_committers_start(void)
{
    n_committers = ph_store_settings()->committers;
    committers = g_new0(Committer, n_committers);
    for (unsigned i = 0; i < n_committers; i++) {
        ph_mutex_init(&committers[i].lock, PH_LOCK_COMMITTER);
        g_cond_init(&committers[i].arrived);
        g_queue_init(&committers[i].waiting);
        committers[i].thread = g_thread_new("committer", committer_main, &committers[i]);
    }
}

void
ph_committers_stop(void)
{
    for (unsigned i = 0; i < n_committers; i++) {
        ph_mutex_lock(&committers[i].lock);
        committers[i].stopping = true;
        g_cond_signal(&committers[i].arrived);
        ph_mutex_unlock(&committers[i].lock);
    }
    for (unsigned i = 0; i < n_committers; i++) {
        g_thread_join(committers[i].thread);
        ph_mutex_clear(&committers[i].lock);
        g_cond_clear(&committers[i].arrived);
    }
    g_clear_pointer(&committers, g_free);
    n_committers = 0;
}

void
ph_committers_status(PhStoreStatus *status)
{
    for (unsigned i = 0; i < n_committers; i++) {
        ph_mutex_lock(&committers[i].lock);
        status->n_deliveries_waiting += g_queue_get_length(&committers[i].waiting);
        status->n_delivered += committers[i].n_delivered;
        status->n_batches += committers[i].n_batches;
        ph_mutex_unlock(&committers[i].lock);
    }
}
