/* test-store-view.c - versions of views, watches, and two processes on one database */
#include "store/view.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <string.h>

/* -- versions, without a database -------------------------------------------------------------- */

static PhViewRow
row(uint32_t uid, uint32_t flags)
{
    return (PhViewRow){ .uid = uid, .flags = flags, .modseq = 1, .message_id = uid };
}

static PhViewDelta *
delta_new(int64_t modseq)
{
    PhViewDelta *delta = ph_view_delta_new((PhMailboxKey){ 1, 1 });
    delta->modseq = modseq;
    delta->uid_validity = 1;
    delta->rows = g_array_new(FALSE, FALSE, sizeof(PhViewRow));
    delta->gone = ph_uid_set_new();
    return delta;
}

typedef struct Model {
    int flags[6000]; /* by uid; -1: not there */
} Model;

static void
assert_like_model(const PhView *view, const Model *model)
{
    size_t index = 0;
    size_t unseen = 0;
    for (uint32_t uid = 0; uid < G_N_ELEMENTS(model->flags); uid++) {
        if (model->flags[uid] < 0)
            continue;
        const PhViewRow *at = ph_view_row(view, index);
        g_assert_cmpuint(at->uid, ==, uid);
        g_assert_cmpint((int)at->flags, ==, model->flags[uid]);
        g_assert_cmpuint(ph_view_lower_bound(view, uid), ==, index);
        unseen += (at->flags & PH_FLAG_SEEN) == 0 ? 1 : 0;
        index++;
    }
    g_assert_cmpuint(ph_view_count(view), ==, index);
    g_assert_cmpuint(ph_view_unseen(view), ==, unseen);
}

/* What a client would know after being told the difference. */
typedef struct Told {
    GArray *uids;
    Model *model;
    size_t last_expunged;
    size_t last_index;
} Told;

static void
told_expunged(size_t index, const PhViewRow *at, void *data)
{
    Told *told = data;
    g_assert_cmpuint(index, <, told->last_expunged);
    told->last_expunged = index;
    g_assert_cmpuint(g_array_index(told->uids, uint32_t, index), ==, at->uid);
    g_array_remove_index(told->uids, (guint)index);
    told->model->flags[at->uid] = -1;
}

static void
told_changed(size_t index, const PhViewRow *at, void *data)
{
    Told *told = data;
    g_assert_cmpuint(g_array_index(told->uids, uint32_t, index), ==, at->uid);
    g_assert_cmpint(told->model->flags[at->uid], !=, (int)at->flags);
    told->model->flags[at->uid] = (int)at->flags;
}

static void
told_added(size_t index, const PhViewRow *at, void *data)
{
    Told *told = data;
    g_assert_cmpuint(told->uids->len, ==, index);
    g_array_append_val(told->uids, at->uid);
    told->model->flags[at->uid] = (int)at->flags;
}

static void
random_delta(PhViewDelta *delta, Model *model, uint32_t *uid_next)
{
    int n_new = g_test_rand_int_range(0, 60);
    int n_changed = g_test_rand_int_range(0, 40);
    int n_gone = g_test_rand_int_range(0, 60);
    for (int i = 0; i<n_changed && * uid_next> 1; i++) {
        uint32_t uid = (uint32_t)g_test_rand_int_range(1, (int)*uid_next);
        if (model->flags[uid] >= 0)
            model->flags[uid] = g_test_rand_int_range(0, 32) | 64; /* to be found below */
    }
    for (int i = 0; i<n_gone && * uid_next> 1; i++) {
        uint32_t uid = (uint32_t)g_test_rand_int_range(1, (int)*uid_next);
        ph_uid_set_add(delta->gone, uid, uid);
        model->flags[uid] = -1;
    }
    for (uint32_t uid = 1; uid < *uid_next; uid++) {
        if (model->flags[uid] < 0 || (model->flags[uid] & 64) == 0)
            continue;
        model->flags[uid] &= 31;
        PhViewRow changed = row(uid, (uint32_t)model->flags[uid]);
        g_array_append_val(delta->rows, changed);
    }
    for (int i = 0; i < n_new && *uid_next + 1 < G_N_ELEMENTS(model->flags); i++) {
        PhViewRow fresh = row(*uid_next, (uint32_t)g_test_rand_int_range(0, 32));
        model->flags[*uid_next] = (int)fresh.flags;
        g_array_append_val(delta->rows, fresh);
        *uid_next += (uint32_t)g_test_rand_int_range(1, 3);
    }
}

/* Many random changes: each version is what a plain model says, and the difference tells a client
 * all of it. */
static void
test_versions_random(void)
{
    Model *model = g_new(Model, 1);
    Model *client = g_new(Model, 1);
    memset(model, 0xff, sizeof *model);
    memset(client, 0xff, sizeof *client);
    g_autoptr(PhView) view = ph_view_new();
    g_autoptr(PhView) told_of = ph_view_ref(view);
    g_autoptr(GArray) uids = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t uid_next = 1;
    for (int i = 1; i < 160; i++) {
        g_autoptr(PhViewDelta) delta = delta_new(i);
        random_delta(delta, model, &uid_next);
        PhView *next = ph_view_with(view, delta);
        ph_view_unref(view);
        view = next;
        assert_like_model(view, model);
        if (i % 3 != 0)
            continue;
        static const PhViewDiff diff = { told_expunged, told_changed, told_added };
        Told told = { .uids = uids, .model = client, .last_expunged = SIZE_MAX };
        ph_view_diff(told_of, view, &diff, &told);
        g_assert_cmpmem(client, (int)sizeof *client, model, (int)sizeof *model);
        ph_view_unref(told_of);
        told_of = ph_view_ref(view);
    }
    g_free(model);
    g_free(client);
}

static void
count_rows(size_t index, const PhViewRow *at, void *data)
{
    (void)index;
    (void)at;
    ++*(int *)data;
}

static void
test_versions_share_chunks(void)
{
    g_autoptr(PhView) empty = ph_view_new();
    g_autoptr(PhViewDelta) many = delta_new(1);
    for (uint32_t uid = 1; uid <= 100000; uid++) {
        PhViewRow fresh = row(uid, 0);
        g_array_append_val(many->rows, fresh);
    }
    g_autoptr(PhView) big = ph_view_with(empty, many);
    g_autoptr(PhViewDelta) small = delta_new(2);
    PhViewRow one = row(50000, PH_FLAG_SEEN);
    g_array_append_val(small->rows, one);
    int64_t begin_us = ph_monotonic_us();
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++) {
        g_autoptr(PhView) next = ph_view_with(big, small);
        int changed = 0;
        const PhViewDiff diff = {
            .expunged = count_rows, .changed = count_rows, .added = count_rows
        };
        ph_view_diff(big, next, &diff, &changed);
        g_assert_cmpint(changed, ==, 1);
    }
    /* Walking all rows would take some hundred times longer than this. */
    g_test_message(
        "%d us a version and its difference", (int)((ph_monotonic_us() - begin_us) / ROUNDS));
    g_assert_cmpint((ph_monotonic_us() - begin_us) / ROUNDS, <, 5000);
}

/* -- watches ----------------------------------------------------------------------------------- */

static void
bump(void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_RELAXED);
}

static int
count_of(const int *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void
set_count(int *counter, int value)
{
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static void
set_flags(int64_t account, PhMailboxKey mailbox, uint32_t uid, uint32_t flags)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhUidSet) set = ph_uid_set_new();
    ph_uid_set_add(set, uid, uid);
    PhFlagRequest request = {
        .change = PH_FLAGS_REPLACE, .flags = flags, .unchanged_since = INT64_MAX
    };
    ph_mailbox_change_flags_blocking(
        account, mailbox, set, &request, test_deadline(), NULL, &error);
    g_assert_no_error(error);
}

static void
test_watch_local(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    test_deliver(inbox, "before");
    g_autoptr(GError) error = NULL;
    int calls_a = 0;
    int calls_b = 0;
    PhMailboxWatch *a =
        ph_mailbox_watch_blocking(alice, inbox, bump, &calls_a, test_deadline(), &error);
    PhMailboxWatch *b =
        ph_mailbox_watch_blocking(alice, inbox, bump, &calls_b, test_deadline(), &error);
    g_assert_no_error(error);
    g_autoptr(PhView) first = ph_mailbox_watch_latest(a);
    g_autoptr(PhView) shared = ph_mailbox_watch_latest(b);
    g_assert_true(first == shared);
    g_assert_cmpuint(ph_view_count(first), ==, 1);
    g_assert_cmpuint(ph_view_uid_next(first), ==, 2);
    set_count(&calls_a, 0);
    set_count(&calls_b, 0);
    test_deliver(inbox, "after");
    set_flags(alice, inbox, 1, PH_FLAG_SEEN);
    g_assert_cmpint(count_of(&calls_a), ==, 2);
    g_assert_cmpint(count_of(&calls_b), ==, 2);
    g_autoptr(PhView) second = ph_mailbox_watch_latest(a);
    g_assert_cmpuint(ph_view_count(first), ==, 1);
    g_assert_cmpuint(ph_view_count(second), ==, 2);
    g_assert_cmpint(ph_view_highest_modseq(second), ==, ph_view_highest_modseq(first) + 2);
    ph_mailbox_watch_free(a);
    test_deliver(inbox, "only b hears");
    g_assert_cmpint(count_of(&calls_a), ==, 2);
    g_assert_cmpint(count_of(&calls_b), ==, 3);
    ph_mailbox_watch_free(b);
    /* Nobody watches: the view is kept, and caught up with when it is opened again. */
    test_deliver(inbox, "nobody hears");
    PhStoreStatus status;
    ph_store_status(&status);
    g_assert_cmpuint(status.n_views, ==, 1);
    g_assert_cmpuint(status.n_watches, ==, 0);
    PhMailboxWatch *again =
        ph_mailbox_watch_blocking(alice, inbox, NULL, NULL, test_deadline(), &error);
    g_autoptr(PhView) fourth = ph_mailbox_watch_latest(again);
    g_assert_cmpuint(ph_view_count(fourth), ==, 4);
    ph_mailbox_watch_free(again);
    PhMailboxKey missing = { alice, 4711 };
    g_assert_null(ph_mailbox_watch_blocking(alice, missing, NULL, NULL, test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_null(ph_mailbox_watch_blocking(alice + 1, inbox, NULL, NULL, test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    test_store_close(conninfo);
}

static void
test_watch_gone(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    g_autoptr(GError) error = NULL;
    PhMailboxKey junk = test_mailbox(alice, "Junk");
    int calls = 0;
    PhMailboxWatch *watch =
        ph_mailbox_watch_blocking(alice, junk, bump, &calls, test_deadline(), &error);
    set_count(&calls, 0);
    ph_mailbox_delete_blocking(alice, "Junk", test_deadline(), &error);
    g_assert_no_error(error);
    /* Once more, when the listener's look falls between. */
    g_assert_cmpint(count_of(&calls), >=, 1);
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    g_assert_true(ph_view_is_gone(view));
    ph_mailbox_watch_free(watch);
    test_store_close(conninfo);
}

static void
test_watch_evicted(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .views_kept_bytes = 1 };
    char *conninfo = test_store_open(&config);
    int64_t alice = test_account("alice");
    g_autoptr(GError) error = NULL;
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    PhMailboxWatch *watch =
        ph_mailbox_watch_blocking(alice, inbox, NULL, NULL, test_deadline(), &error);
    PhStoreStatus status;
    ph_store_status(&status);
    g_assert_cmpuint(status.n_views, ==, 1);
    ph_mailbox_watch_free(watch);
    /* The store's own threads may still be looking at it. */
    for (int i = 0; i < 100 && status.n_views > 0; i++) {
        g_usleep(10000);
        ph_store_status(&status);
    }
    g_assert_cmpuint(status.n_views, ==, 0);
    test_store_close(conninfo);
}

typedef struct Changer {
    int64_t account;
    PhMailboxKey mailbox;
    int count;
} Changer;

static void *
change_many(void *data)
{
    const Changer *changer = data;
    for (int i = 0; i < changer->count; i++)
        if (i % 3 == 0)
            test_deliver(changer->mailbox, "mail");
        else
            set_flags(changer->account, changer->mailbox, 1 + (uint32_t)i % 7, (uint32_t)i % 32);
    return NULL;
}

/* Many threads change one mailbox; the view ends as the database has it, without a poll. */
static void
test_watch_concurrent(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    g_autoptr(GError) error = NULL;
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    int calls = 0;
    PhMailboxWatch *watch =
        ph_mailbox_watch_blocking(alice, inbox, bump, &calls, test_deadline(), &error);
    g_assert_no_error(error);
    Changer changer = { alice, inbox, 30 };
    GThread *threads[6];
    for (int i = 0; i < 6; i++)
        threads[i] = g_thread_new("changer", change_many, &changer);
    for (int i = 0; i < 6; i++)
        g_thread_join(threads[i]);
    int64_t modseq = test_database_ask_number(conninfo, "SELECT max(modseq) FROM mailbox_state");
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    for (int i = 0; i < 100 && ph_view_highest_modseq(view) < modseq; i++) {
        g_usleep(10000);
        ph_view_unref(view);
        view = ph_mailbox_watch_latest(watch);
    }
    g_assert_cmpint(ph_view_highest_modseq(view), ==, modseq);
    g_assert_cmpuint(ph_view_count(view), ==, 60);
    g_autofree char *sum = g_strdup_printf("SELECT sum(flags * uid)::bigint FROM mailbox_message");
    int64_t expected = test_database_ask_number(conninfo, sum);
    int64_t got = 0;
    for (size_t i = 0; i < ph_view_count(view); i++)
        got += (int64_t)ph_view_row(view, i)->flags * ph_view_row(view, i)->uid;
    g_assert_cmpint(got, ==, expected);
    ph_mailbox_watch_free(watch);
    test_store_close(conninfo);
}

/* -- two processes ----------------------------------------------------------------------------- */

static const char *program;

/* What the other process does, by the words on its command line: CONNINFO ACCOUNT WHAT. */
static int
be_other_process(char **argv)
{
    ph_assert_in_job();
    PhStoreConfig config = {
        .conninfo = argv[2], .node_name = "other", .spool_folder = g_get_tmp_dir()
    };
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_store_open_blocking(&config, &error));
    int64_t account = g_ascii_strtoll(argv[3], NULL, 10);
    PhMailboxKey inbox = test_mailbox(account, "INBOX");
    if (strcmp(argv[4], "deliver") == 0)
        test_deliver(inbox, "from the other process");
    else if (strcmp(argv[4], "flag") == 0)
        set_flags(account, inbox, 1, PH_FLAG_FLAGGED);
    else if (strcmp(argv[4], "delete") == 0)
        g_assert_true(ph_mailbox_delete_blocking(account, "Junk", test_deadline(), &error));
    else if (strcmp(argv[4], "password") == 0)
        g_assert_true(
            ph_password_set_blocking("alice@example.test", "other", test_deadline(), &error));
    ph_store_close_blocking();
    return 0;
}

static void
run_other(const char *conninfo, int64_t account, const char *what)
{
    g_autofree char *number = g_strdup_printf("%" G_GINT64_FORMAT, account);
    const char *const words[] = { program, "--other", conninfo, number, what, NULL };
    int status = -1;
    g_autoptr(GError) error = NULL;
    g_spawn_sync(NULL, (char **)(uintptr_t)words, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL, NULL,
        &status, &error);
    g_assert_no_error(error);
    g_assert_cmpint(status, ==, 0);
}

typedef struct Heard {
    int settings;
    int account;
    int missed;
} Heard;

static void
hear(PhStoreNews news, int64_t number, void *data)
{
    (void)number;
    Heard *heard = data;
    switch (news) {
    case PH_NEWS_SETTINGS:
        __atomic_fetch_add(&heard->settings, 1, __ATOMIC_RELAXED);
        break;
    case PH_NEWS_ACCOUNT:
        __atomic_fetch_add(&heard->account, 1, __ATOMIC_RELAXED);
        break;
    case PH_NEWS_MISSED:
        __atomic_fetch_add(&heard->missed, 1, __ATOMIC_RELAXED);
        break;
    case PH_NEWS_OPERATOR:
        break;
    }
}

static bool
wait_for(const int *counter, int least)
{
    for (int i = 0; i < 100; i++) {
        if (__atomic_load_n(counter, __ATOMIC_RELAXED) >= least)
            return true;
        g_usleep(10000);
    }
    return false;
}

/* Each wait is at most a second, after the other process has ended. */
static void
test_two_processes(void)
{
    ph_assert_in_job();
    Heard heard = { 0 };
    ph_store_set_news_func(hear, &heard);
    char *conninfo = test_store_open(NULL);
    int64_t alice = test_account("alice");
    g_autoptr(GError) error = NULL;
    int inbox_calls = 0;
    int junk_calls = 0;
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    PhMailboxKey junk = test_mailbox(alice, "Junk");
    PhMailboxWatch *watch =
        ph_mailbox_watch_blocking(alice, inbox, bump, &inbox_calls, test_deadline(), &error);
    PhMailboxWatch *doomed =
        ph_mailbox_watch_blocking(alice, junk, bump, &junk_calls, test_deadline(), &error);
    g_assert_no_error(error);
    set_count(&inbox_calls, 0);
    set_count(&junk_calls, 0);
    run_other(conninfo, alice, "deliver");
    g_assert_true(wait_for(&inbox_calls, 1));
    run_other(conninfo, alice, "flag");
    g_assert_true(wait_for(&inbox_calls, 2));
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    g_assert_cmpuint(ph_view_count(view), ==, 1);
    g_assert_cmpuint(ph_view_row(view, 0)->flags, ==, PH_FLAG_FLAGGED);
    run_other(conninfo, alice, "delete");
    g_assert_true(wait_for(&junk_calls, 1));
    g_autoptr(PhView) gone = ph_mailbox_watch_latest(doomed);
    g_assert_true(ph_view_is_gone(gone));
    int before = count_of(&heard.account);
    run_other(conninfo, alice, "password");
    g_assert_true(wait_for(&heard.account, before + 1));
    ph_mailbox_watch_free(watch);
    ph_mailbox_watch_free(doomed);
    test_store_close(conninfo);
    ph_store_set_news_func(NULL, NULL);
}

/* A change that no notification told of is found by the poll. */
static void
test_poll(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .poll_ms = 100 };
    char *conninfo = test_store_open(&config);
    int64_t alice = test_account("alice");
    g_autoptr(GError) error = NULL;
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    test_deliver(inbox, "mail");
    int calls = 0;
    PhMailboxWatch *watch =
        ph_mailbox_watch_blocking(alice, inbox, bump, &calls, test_deadline(), &error);
    set_count(&calls, 0);
    g_free(test_database_ask(conninfo,
        "BEGIN; UPDATE mailbox_state SET modseq = modseq + 1 WHERE n_messages > 0;\n"
        "UPDATE mailbox_message SET flags = 1, modseq = modseq + 1;\n"
        "INSERT INTO mailbox_change SELECT account_id, mailbox_id, modseq, 2, '{1,1}' FROM mailbox_message; COMMIT"));
    g_assert_true(wait_for(&calls, 1));
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    g_assert_cmpuint(ph_view_row(view, 0)->flags, ==, PH_FLAG_SEEN);
    ph_mailbox_watch_free(watch);
    test_store_close(conninfo);
}

int
main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--other") == 0)
        return be_other_process(argv);
    program = argv[0];
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/view/random", test_versions_random);
    g_test_add_func("/store/view/share-chunks", test_versions_share_chunks);
    g_test_add_func("/store/watch/local", test_watch_local);
    g_test_add_func("/store/watch/gone", test_watch_gone);
    g_test_add_func("/store/watch/evicted", test_watch_evicted);
    g_test_add_func("/store/watch/concurrent", test_watch_concurrent);
    g_test_add_func("/store/watch/two-processes", test_two_processes);
    g_test_add_func("/store/watch/poll", test_poll);
    int status = g_test_run();
    test_database_stop();
    return status;
}
