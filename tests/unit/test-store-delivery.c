/* test-store-delivery.c - spool, frames, and deliveries by the committers */
#include "runtime/reactor.h"
#include "store/committer.h"
#include "store/frames.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <string.h>

/* -- spool and frames -------------------------------------------------------------------------- */

static void
fill(GByteArray *bytes, size_t length, unsigned seed)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);
    g_byte_array_set_size(bytes, (guint)length);
    for (size_t i = 0; i < length; i++)
        bytes->data[i] = (guint8)(g_rand_int(random) % 64 + 32);
}

static void
test_spool_grows(void)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    fill(bytes, 700000, 1);
    g_autoptr(GError) error = NULL;
    size_t before = ph_spool_bytes_in_flight();
    PhSpool *spool = ph_spool_new(700000);
    for (size_t at = 0; at < bytes->len; at += 7777)
        g_assert_true(ph_spool_append(spool, bytes->data + at, MIN(7777, bytes->len - at), &error));
    g_assert_cmpuint(ph_spool_size(spool), ==, 700000);
    g_assert_cmpuint(ph_spool_bytes_in_flight() - before, ==, 700000);
    g_assert_false(ph_spool_append(spool, "x", 1, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TOO_LARGE);
    char part[5000];
    size_t n = 0;
    g_clear_error(&error);
    g_assert_true(ph_spool_read(spool, 262000, part, sizeof part, &n, &error));
    g_assert_cmpmem(part, (int)n, bytes->data + 262000, 5000);
    g_assert_true(ph_spool_read(spool, 699990, part, sizeof part, &n, &error));
    g_assert_cmpuint(n, ==, 10);
    g_assert_true(ph_spool_read(spool, 800000, part, sizeof part, &n, &error));
    g_assert_cmpuint(n, ==, 0);
    ph_spool_free(spool);
    g_assert_cmpuint(ph_spool_bytes_in_flight(), ==, before);
}

static void
test_frames_round_trip(void)
{
    static const size_t sizes[] = { 0, 1, PH_FRAME_RAW_BYTES - 1, PH_FRAME_RAW_BYTES,
        PH_FRAME_RAW_BYTES + 1, 3 * PH_FRAME_RAW_BYTES + 17 };
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        fill(bytes, sizes[i], (unsigned)i);
        g_autoptr(PhFrameWriter) writer = ph_frame_writer_new();
        g_autoptr(GBytes) data = NULL;
        g_autoptr(GArray) ends = NULL;
        g_autoptr(GError) error = NULL;
        for (size_t at = 0; at < sizes[i]; at += 50001)
            g_assert_true(
                ph_frame_writer_feed(writer, bytes->data + at, MIN(50001, sizes[i] - at), &error));
        g_assert_true(ph_frame_writer_finish(writer, &data, &ends, &error));
        g_assert_cmpuint(ends->len, ==, (sizes[i] + PH_FRAME_RAW_BYTES - 1) / PH_FRAME_RAW_BYTES);
        g_autoptr(GBytes) back = ph_frames_decode(
            g_bytes_get_data(data, NULL), g_bytes_get_size(data), 0, sizes[i] + 100, &error);
        g_assert_no_error(error);
        g_assert_cmpmem(
            g_bytes_get_data(back, NULL), (int)g_bytes_get_size(back), bytes->data, (int)sizes[i]);
    }
}

static void
test_frames_damaged(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) back = ph_frames_decode("this is no frame at all", 23, 0, 100, &error);
    g_assert_null(back);
    g_assert_error(error, PH_ERROR, PH_ERROR_INTERNAL);
}

/* -- delivery ---------------------------------------------------------------------------------- */

static void
test_delivery_reaches_inbox(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    g_assert_cmpuint(test_deliver((PhMailboxKey){ alice, 0 }, "first"), ==, 1);
    g_assert_cmpuint(test_deliver(inbox, "second"), ==, 2);
    g_autoptr(PhMailbox) mailbox = test_mailbox_find(alice, "inbox");
    g_assert_cmpuint(mailbox->n_messages, ==, 2);
    g_assert_cmpuint(mailbox->n_unseen, ==, 2);
    g_assert_cmpuint(mailbox->uid_next, ==, 3);
    g_assert_cmpint(mailbox->highest_modseq, ==, 3);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhAccount) account =
        ph_account_find_blocking("alice@example.test", test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpint(account->used_messages, ==, 2);
    g_assert_cmpint(account->used_bytes, ==, mailbox->size_bytes);
    test_store_close(conninfo);
}

static int64_t
message_id_at(PhMailboxKey mailbox, uint32_t uid)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhMailboxWatch) watch =
        ph_mailbox_watch_blocking(mailbox.account_id, mailbox, NULL, NULL, test_deadline(), &error);
    g_assert_no_error(error);
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    size_t at = ph_view_lower_bound(view, uid);
    g_assert_cmpuint(at, <, ph_view_count(view));
    g_assert_cmpuint(ph_view_row(view, at)->uid, ==, uid);
    return ph_view_row(view, at)->message_id;
}

static void
test_delivery_bytes_come_back(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    static const size_t sizes[] = { 0, 10, 5000, 131072, 400000, 1500000 };
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        fill(bytes, sizes[i], (unsigned)i + 7);
        g_byte_array_append(bytes, (const guint8 *)"", 1);
        g_byte_array_set_size(bytes, (guint)sizes[i]);
        if (sizes[i] > 100)
            bytes->data[50] = '\0';
        g_autoptr(PhDelivery) delivery =
            test_message_of_bytes(PH_DELIVERY_EACH, bytes->data, bytes->len);
        test_target(delivery, inbox);
        g_autoptr(GError) error = NULL;
        ph_delivery_run_blocking(delivery, test_deadline(), &error);
        g_assert_no_error(error);
        int64_t id = message_id_at(inbox, ph_delivery_result(delivery, 0)->uid);
        g_autoptr(GBytes) all =
            ph_message_read_blocking(alice, id, 0, SIZE_MAX, test_deadline(), &error);
        g_assert_no_error(error);
        g_assert_cmpmem(
            g_bytes_get_data(all, NULL), (int)g_bytes_get_size(all), bytes->data, (int)bytes->len);
        for (size_t from = 0; from <= sizes[i] + 10; from += sizes[i] / 7 + 1) {
            size_t length = MIN(140000, from < sizes[i] ? sizes[i] - from : 0);
            g_autoptr(GBytes) part =
                ph_message_read_blocking(alice, id, from, 140000, test_deadline(), &error);
            g_assert_no_error(error);
            g_assert_cmpmem(g_bytes_get_data(part, NULL), (int)g_bytes_get_size(part),
                bytes->data + from, (int)length);
        }
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) none = ph_message_read_blocking(alice, 12345, 0, 10, test_deadline(), &error);
    g_assert_null(none);
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    test_store_close(conninfo);
}

static void
test_delivery_meta(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    test_deliver(inbox, "hello");
    const int64_t ids[3] = { 99, message_id_at(inbox, 1), 98 };
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) list = ph_message_meta_blocking(
        alice, ids, 3, PH_META_ENVELOPE | PH_META_BODYSTRUCTURE, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(list->len, ==, 3);
    g_assert_null(list->pdata[0]);
    g_assert_null(list->pdata[2]);
    const PhMessageMeta *meta = list->pdata[1];
    g_assert_nonnull(meta->envelope);
    g_assert_nonnull(g_strstr_len(
        g_bytes_get_data(meta->envelope, NULL), (gssize)g_bytes_get_size(meta->envelope), "hello"));
    g_assert_nonnull(meta->bodystructure);
    g_assert_null(meta->outline);
    g_assert_cmpint(meta->sent_us, ==, INT64_C(1672653600000000));
    test_store_close(conninfo);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void
test_delivery_all_or_none(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    int64_t bob = test_account("bob");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, "both");
    unsigned to_alice = test_target(delivery, (PhMailboxKey){ alice, 0 });
    unsigned to_nobody = test_target(delivery, (PhMailboxKey){ bob, 999999 });
    g_assert_false(ph_delivery_run_blocking(delivery, test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    g_assert_false(ph_delivery_result(delivery, to_alice)->delivered);
    g_assert_false(ph_delivery_result(delivery, to_nobody)->delivered);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM message"), ==, 0);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM blob"), ==, 0);
    test_store_close(conninfo);
}

static void
test_delivery_each(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    int64_t bob = test_account("bob");
    int64_t carol = test_account("carol");
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_account_change_blocking(bob,
        &(PhAccountChange){ .quota_bytes = 50, .quota_messages = 0, .if_version = -1 },
        test_deadline(), &error));
    g_assert_true(
        ph_account_set_state_blocking(carol, PH_ACCOUNT_CLOSING, test_deadline(), &error));
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_EACH, "each");
    PhDeliveryTarget over = {
        .mailbox = { bob, 0 }, .internal_date_us = INT64_MIN, .check_quota = true
    };
    unsigned to_alice = test_target(delivery, (PhMailboxKey){ alice, 0 });
    unsigned to_bob = ph_delivery_add_target(delivery, &over);
    unsigned to_carol = test_target(delivery, (PhMailboxKey){ carol, 0 });
    g_assert_cmpuint(ph_delivery_add_target(delivery, &over), ==, to_bob);
    ph_delivery_run_blocking(delivery, test_deadline(), &error);
    g_assert_true(ph_delivery_result(delivery, to_alice)->delivered);
    g_assert_cmpint(ph_delivery_result(delivery, to_bob)->code, ==, PH_ERROR_LIMIT);
    g_assert_cmpint(ph_delivery_result(delivery, to_carol)->code, ==, PH_ERROR_NOT_FOUND);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM message"), ==, 1);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM blob"), ==, 1);
    test_store_close(conninfo);
}

static void
test_delivery_flags_and_keywords(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey drafts = test_mailbox(alice, "Drafts");
    static const char *const keywords[] = { "$Label1", "Work", "work", NULL };
    PhDeliveryTarget target = {
        .mailbox = drafts,
        .flags = PH_FLAG_SEEN | PH_FLAG_DRAFT,
        .keywords = keywords,
        .internal_date_us = INT64_C(1000000000000000),
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, "draft");
    ph_delivery_add_target(delivery, &target);
    ph_delivery_run_blocking(delivery, test_deadline(), &error);
    g_assert_no_error(error);
    g_autoptr(PhMailboxWatch) watch =
        ph_mailbox_watch_blocking(alice, drafts, NULL, NULL, test_deadline(), &error);
    g_assert_no_error(error);
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    g_assert_cmpuint(ph_view_count(view), ==, 1);
    const PhViewRow *row = ph_view_row(view, 0);
    g_assert_cmpuint(row->flags, ==, PH_FLAG_SEEN | PH_FLAG_DRAFT);
    g_assert_cmpuint(row->keywords, ==, 3);
    g_assert_cmpint(row->internal_date_us, ==, INT64_C(1000000000000000));
    g_assert_cmpstr(ph_view_keyword(view, 0), ==, "$Label1");
    g_assert_cmpstr(ph_view_keyword(view, 1), ==, "Work");
    g_assert_cmpuint(ph_view_unseen(view), ==, 0);
    g_clear_pointer(&watch, ph_mailbox_watch_free);
    test_store_close(conninfo);
}

/* -- batches ----------------------------------------------------------------------------------- */

typedef struct Sender {
    int64_t account_id;
    int count;
    int delivered;
} Sender;

static void *
send_many(void *data)
{
    ph_assert_in_job();
    Sender *sender = data;
    for (int i = 0; i < sender->count; i++) {
        g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, "load");
        test_target(delivery, (PhMailboxKey){ sender->account_id, 0 });
        if (ph_delivery_run_blocking(delivery, test_deadline(), NULL))
            sender->delivered++;
    }
    return NULL;
}

static void
test_delivery_batches(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .committers = 1 };
    char *conninfo = test_store_open(&config);
    int64_t alice = test_account("alice");
    enum { SENDERS = 16, EACH = 20 };
    Sender senders[SENDERS];
    GThread *threads[SENDERS];
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (Sender){ .account_id = alice, .count = EACH };
        threads[i] = g_thread_new("sender", send_many, &senders[i]);
    }
    int delivered = 0;
    for (int i = 0; i < SENDERS; i++) {
        g_thread_join(threads[i]);
        delivered += senders[i].delivered;
    }
    g_assert_cmpint(delivered, ==, SENDERS * EACH);
    PhStoreStatus status;
    ph_store_status(&status);
    g_assert_cmpuint(status.n_delivered, ==, SENDERS * EACH);
    g_test_message("%u deliveries in %u transactions", (unsigned)status.n_delivered,
        (unsigned)status.n_batches);
    g_assert_cmpuint(status.n_batches, <, SENDERS * EACH / 2);
    g_autoptr(PhMailbox) inbox = test_mailbox_find(alice, "INBOX");
    g_assert_cmpuint(inbox->n_messages, ==, SENDERS * EACH);
    g_assert_cmpint(
        test_database_ask_number(conninfo, "SELECT count(DISTINCT uid) FROM mailbox_message"), ==,
        SENDERS * EACH);
    test_store_close(conninfo);
}

/* A delivery that the database refuses fails alone; the others of its batch are delivered. */
static void
test_delivery_broken_one(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .committers = 1 };
    char *conninfo = test_store_open(&config);
    int64_t alice = test_account("alice");
    int64_t bob = test_account("bob");
    g_autofree char *sql = g_strdup_printf(
        "ALTER TABLE message ADD CONSTRAINT broken CHECK (account_id <> %" G_GINT64_FORMAT ")",
        bob);
    g_free(test_database_ask(conninfo, sql));
    enum { COUNT = 12 };
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLease) lease = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    g_assert_no_error(error);
    PhDelivery *deliveries[COUNT];
    for (int i = 0; i < COUNT; i++) {
        deliveries[i] = test_message(PH_DELIVERY_ALL_OR_NONE, "one of many");
        test_target(deliveries[i], (PhMailboxKey){ i == 5 ? bob : alice, 0 });
        ph_committers_submit(ph_delivery_ref(deliveries[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        g_assert_true(ph_delivery_wait_blocking(deliveries[i], test_deadline()));
        g_assert_true(ph_delivery_result(deliveries[i], 0)->delivered == (i != 5));
        ph_delivery_free(deliveries[i]);
    }
    g_assert_cmpint(
        test_database_ask_number(conninfo, "SELECT count(*) FROM mailbox_message"), ==, COUNT - 1);
    g_free(test_database_ask(conninfo, "ALTER TABLE message DROP CONSTRAINT broken"));
    g_clear_pointer(&lease, ph_lease_free);
    test_store_close(conninfo);
}

/* -- from a reactor ---------------------------------------------------------------------------- */

typedef struct Sending {
    PhReactor *reactor;
    PhTask task;
    PhDelivery *delivery;
    bool clear_at_once;
    uint32_t uid;
    int n_done;
    int n_ended;
} Sending;

static void
sending_done(PhTask *task, PhDelivery *delivery, void *data)
{
    ph_assert_on_reactor();
    Sending *sending = data;
    g_assert_true(task == &sending->task);
    sending->uid = ph_delivery_result(delivery, 0)->uid;
    ph_task_clear(&sending->task);
    __atomic_store_n(&sending->n_done, 1, __ATOMIC_RELEASE);
}

static void
sending_begin(void *data)
{
    ph_assert_on_reactor();
    Sending *sending = data;
    ph_task_init(&sending->task, sending->reactor);
    ph_delivery_submit(g_steal_pointer(&sending->delivery), &sending->task, sending_done, sending);
    if (!sending->clear_at_once)
        return;
    ph_task_clear(&sending->task);
    __atomic_store_n(&sending->n_ended, 1, __ATOMIC_RELEASE);
}

static void
wait_until(const int *flag)
{
    for (int i = 0; i < 1000 && __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0; i++)
        g_usleep(10000);
    g_assert_cmpint(__atomic_load_n(flag, __ATOMIC_ACQUIRE), ==, 1);
}

/* A task is told on its reactor; one that is gone by then is not, and its message is stored all the
 * same. */
static void
test_delivery_submit(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    PhMailboxKey inbox = test_mailbox(test_account("alice"), "INBOX");
    PhReactor *reactor = ph_reactor_new(0, &error);
    g_assert_no_error(error);
    ph_reactor_start(reactor);
    Sending stays = { .reactor = reactor, .delivery = test_message(PH_DELIVERY_EACH, "stays") };
    Sending goes = { .reactor = reactor,
        .delivery = test_message(PH_DELIVERY_EACH, "goes"),
        .clear_at_once = true };
    test_target(stays.delivery, inbox);
    test_target(goes.delivery, inbox);
    ph_reactor_post(reactor, sending_begin, &goes);
    wait_until(&goes.n_ended);
    ph_reactor_post(reactor, sending_begin, &stays);
    wait_until(&stays.n_done);
    g_assert_cmpuint(stays.uid, ==, 2);
    g_autoptr(PhMailbox) mailbox = test_mailbox_find(inbox.account_id, "INBOX");
    g_assert_cmpuint(mailbox->n_messages, ==, 2);
    g_assert_cmpint(goes.n_done, ==, 0);
    ph_reactor_stop(reactor);
    ph_reactor_free(reactor);
    test_store_close(conninfo);
}

/* -- lost connections -------------------------------------------------------------------------- */

#ifdef PH_TEST_POINTS
static void
test_delivery_lost_commit(const void *data)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    test_deliver(inbox, "before");
    ph_fault_arm(data, 1);
    g_assert_cmpuint(test_deliver(inbox, "through a broken connection"), ==, 2);
    ph_fault_arm(data, 0);
    g_autoptr(PhMailbox) mailbox = test_mailbox_find(alice, "INBOX");
    g_assert_cmpuint(mailbox->n_messages, ==, 2);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM message"), ==, 2);
    test_store_close(conninfo);
}
#endif

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/spool/grows", test_spool_grows);
    g_test_add_func("/store/frames/round-trip", test_frames_round_trip);
    g_test_add_func("/store/frames/damaged", test_frames_damaged);
    g_test_add_func("/store/delivery/reaches-inbox", test_delivery_reaches_inbox);
    g_test_add_func("/store/delivery/bytes-come-back", test_delivery_bytes_come_back);
    g_test_add_func("/store/delivery/meta", test_delivery_meta);
    g_test_add_func("/store/delivery/all-or-none", test_delivery_all_or_none);
    g_test_add_func("/store/delivery/each", test_delivery_each);
    g_test_add_func("/store/delivery/flags-and-keywords", test_delivery_flags_and_keywords);
    g_test_add_func("/store/delivery/batches", test_delivery_batches);
    g_test_add_func("/store/delivery/submit", test_delivery_submit);
    g_test_add_func("/store/delivery/broken-one", test_delivery_broken_one);
#ifdef PH_TEST_POINTS
    g_test_add_data_func(
        "/store/delivery/lost-before-commit", "commit-before", test_delivery_lost_commit);
    g_test_add_data_func(
        "/store/delivery/lost-after-commit", "commit-after", test_delivery_lost_commit);
#endif
    int status = g_test_run();
    test_database_stop();
    return status;
}
