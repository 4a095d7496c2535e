/* delivery.c - preparing a message for the store, its targets, and handing back the results */
#include "store/committer.h"

#include "store/frames.h"

#include <string.h>

/* -- preparing --------------------------------------------------------------------------------- */

static bool
read_spool(const PhSpool *spool, PhOutlineBuilder *builder, PhFrameWriter *writer, GError **error)
{
    g_autofree char *buffer = g_malloc(PH_FRAME_RAW_BYTES);
    size_t size = ph_spool_size(spool);
    for (size_t offset = 0; offset < size;) {
        size_t n = 0;
        if (!ph_spool_read(spool, offset, buffer, PH_FRAME_RAW_BYTES, &n, error))
            return false;
        ph_outline_builder_feed(builder, buffer, n);
        if (!ph_frame_writer_feed(writer, buffer, n, error))
            return false;
        offset += n;
    }
    return true;
}

static void
clear_target(void *data)
{
    PhTargetState *target = data;
    g_strfreev(target->keywords);
    g_free(target->text);
}

static PhDelivery *
delivery_new(PhDeliveryMode mode)
{
    PhDelivery *delivery = g_new0(PhDelivery, 1);
    ph_ref_init(&delivery->ref);
    delivery->mode = mode;
    delivery->targets = g_array_new(FALSE, TRUE, sizeof(PhTargetState));
    g_array_set_clear_func(delivery->targets, clear_target);
    delivery->copies = g_array_new(FALSE, TRUE, sizeof(PhMessageCopy));
    ph_mutex_init(&delivery->lock, PH_LOCK_COMMITTER);
    g_cond_init(&delivery->finished);
    return delivery;
}

PhDelivery *
ph_delivery_prepare_blocking(const PhSpool *spool, PhDeliveryMode mode, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    g_autoptr(PhFrameWriter) writer = ph_frame_writer_new();
    if (!read_spool(spool, builder, writer, error))
        return NULL;
    g_autoptr(PhDelivery) delivery = delivery_new(mode);
    if (!ph_frame_writer_finish(writer, &delivery->data, &delivery->ends, error))
        return NULL;
    delivery->summary = ph_summary_new(builder);
    return g_steal_pointer(&delivery);
}

PhDelivery *
ph_delivery_ref(PhDelivery *delivery)
{
    ph_ref_take(&delivery->ref);
    return delivery;
}

void
ph_delivery_free(PhDelivery *delivery)
{
    if (delivery == NULL || !ph_ref_drop(&delivery->ref))
        return;
    ph_summary_free(delivery->summary);
    g_clear_pointer(&delivery->data, g_bytes_unref);
    g_clear_pointer(&delivery->ends, g_array_unref);
    g_clear_pointer(&delivery->targets, g_array_unref);
    g_clear_pointer(&delivery->copies, g_array_unref);
    ph_mutex_clear(&delivery->lock);
    g_cond_clear(&delivery->finished);
    g_free(delivery);
}

size_t
ph_delivery_weight(const PhDelivery *delivery)
{
    return g_bytes_get_size(delivery->data) * MAX(delivery->copies->len, 1);
}

/* -- targets ----------------------------------------------------------------------------------- */

/* Where the account's copy is, or would be. */
static unsigned
place_of(const PhDelivery *delivery, int64_t account_id)
{
    unsigned low = 0;
    unsigned high = delivery->copies->len;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (ph_delivery_copy(delivery, middle)->account_id < account_id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

PhMessageCopy *
ph_delivery_copy_of(const PhDelivery *delivery, int64_t account_id)
{
    unsigned place = place_of(delivery, account_id);
    g_assert(place < delivery->copies->len);
    return ph_delivery_copy(delivery, place);
}

static void
add_copy(PhDelivery *delivery, int64_t account_id)
{
    unsigned place = place_of(delivery, account_id);
    if (place < delivery->copies->len &&
        ph_delivery_copy(delivery, place)->account_id == account_id)
        return;
    PhMessageCopy copy = { .account_id = account_id };
    g_array_insert_val(delivery->copies, place, copy);
}

unsigned
ph_delivery_add_target(PhDelivery *delivery, const PhDeliveryTarget *target)
{
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        const PhMailboxKey *known = &ph_delivery_target(delivery, i)->mailbox;
        if (known->account_id == target->mailbox.account_id &&
            known->mailbox_id == target->mailbox.mailbox_id)
            return i;
    }
    PhTargetState state = {
        .mailbox = target->mailbox,
        .flags = target->flags & PH_FLAGS_ALL,
        .keywords = g_strdupv((char **)(uintptr_t)target->keywords),
        .internal_date_us = target->internal_date_us,
        .check_quota = target->check_quota,
    };
    g_array_append_val(delivery->targets, state);
    add_copy(delivery, target->mailbox.account_id);
    return delivery->targets->len - 1;
}

unsigned
ph_delivery_target_count(const PhDelivery *delivery)
{
    return delivery->targets->len;
}

/* -- results ----------------------------------------------------------------------------------- */

const PhDeliveryResult *
ph_delivery_result(const PhDelivery *delivery, unsigned index)
{
    g_return_val_if_fail(index < delivery->targets->len, NULL);
    return &ph_delivery_target(delivery, index)->result;
}

void
ph_delivery_refuse(PhDelivery *delivery, unsigned index, PhError code, const char *text)
{
    PhTargetState *target = ph_delivery_target(delivery, index);
    g_free(target->text);
    target->text = g_strdup(text);
    target->result = (PhDeliveryResult){ .delivered = false, .code = code, .text = target->text };
}

void
ph_delivery_forget_results(PhDelivery *delivery)
{
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        PhTargetState *target = ph_delivery_target(delivery, i);
        g_clear_pointer(&target->text, g_free);
        target->result = (PhDeliveryResult){ .delivered = false };
    }
}

void
ph_delivery_refuse_all(PhDelivery *delivery, PhError code, const char *text)
{
    for (unsigned i = 0; i < delivery->targets->len; i++)
        if (!ph_delivery_target(delivery, i)->result.delivered)
            ph_delivery_refuse(delivery, i, code, text);
}

static void
done_on_reactor(PhTask *task, void *data)
{
    PhDelivery *delivery = data;
    ph_handover_take(delivery);
    delivery->done(task, delivery, delivery->done_data);
}

static void
free_on_reactor(void *data)
{
    ph_delivery_free(data);
}

void
ph_delivery_finish(PhDelivery *delivery)
{
    PhPending *pending = delivery->pending;
    ph_mutex_lock(&delivery->lock);
    delivery->is_finished = true;
    ph_handover_give(delivery);
    g_cond_broadcast(&delivery->finished);
    ph_mutex_unlock(&delivery->lock);
    if (pending != NULL)
        ph_pending_finish(pending);
    ph_delivery_free(delivery);
}

/* -- submitting -------------------------------------------------------------------------------- */

void
ph_delivery_submit(PhDelivery *delivery, PhTask *task, PhDeliveryDone done, void *data)
{
    ph_assert_on_reactor();
    delivery->done = done;
    delivery->done_data = data;
    /* The caller's reference goes to the pending work, this one to the committer. */
    ph_delivery_ref(delivery);
    delivery->pending = ph_task_begin(task, done_on_reactor, delivery, free_on_reactor);
    ph_handover_give(delivery);
    ph_committers_submit(delivery);
}

bool
ph_delivery_wait_blocking(PhDelivery *delivery, int64_t deadline_us)
{
    ph_mutex_lock(&delivery->lock);
    bool in_time = true;
    while (!delivery->is_finished && in_time) {
        if (deadline_us == INT64_MAX)
            ph_mutex_wait(&delivery->lock, &delivery->finished);
        else
            in_time = ph_mutex_wait_until(&delivery->lock, &delivery->finished, deadline_us);
    }
    bool finished = delivery->is_finished;
    ph_mutex_unlock(&delivery->lock);
    ph_handover_take(delivery);
    return finished;
}

bool
ph_delivery_run_blocking(PhDelivery *delivery, int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    ph_delivery_ref(delivery);
    ph_handover_give(delivery);
    ph_committers_submit(delivery);
    if (!ph_delivery_wait_blocking(delivery, deadline_us)) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the message was not stored in time");
        return false;
    }
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        const PhDeliveryResult *result = ph_delivery_result(delivery, i);
        if (!result->delivered) {
            g_set_error(error, PH_ERROR, (int)result->code, "%s", result->text);
            return false;
        }
    }
    return true;
}
