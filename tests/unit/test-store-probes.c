/* test-store-probes.c - the promises of the store, under load and through crashes
 *
 * Each probe is the question behind one decision of docs/architecture.md: numbers that clients see
 * come from a row lock; flag changes are heap-only; a delivery notifies nobody in its transaction;
 * a purge may run beside everything; a delivery is there exactly once whatever happens to the
 * database.
 */
#include "store/committer.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <libpq-fe.h>
#include <string.h>

static int stopping;

static bool
is_stopping(void)
{
    return __atomic_load_n(&stopping, __ATOMIC_RELAXED) != 0;
}

static void
set_stopping(int value)
{
    __atomic_store_n(&stopping, value, __ATOMIC_RELAXED);
}

static void
run_for(int64_t us)
{
    set_stopping(0);
    g_usleep((gulong)us);
    set_stopping(1);
}

/* -- a reader that remembers the highest number it has seen ------------------------------------ */

typedef struct Writer {
    int64_t own_account;
    PhMailboxKey hot;
    int count;
} Writer;

/* Its own account is the lowest, so that several committers meet in the hot mailbox. */
static void *
write_hot(void *data)
{
    ph_assert_in_job();
    Writer *writer = data;
    while (!is_stopping()) {
        g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, "hot");
        test_target(delivery, (PhMailboxKey){ writer->own_account, 0 });
        test_target(delivery, writer->hot);
        g_autoptr(GError) error = NULL;
        ph_delivery_run_blocking(delivery, test_deadline(), &error);
        g_assert_no_error(error);
        writer->count++;
    }
    return NULL;
}

static void *
flag_hot(void *data)
{
    ph_assert_in_job();
    Writer *writer = data;
    for (uint32_t i = 0; !is_stopping(); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhUidSet) set = ph_uid_set_new();
        ph_uid_set_add(set, 1, 1 + i % 50);
        PhFlagRequest request = {
            .change = PH_FLAGS_REPLACE, .flags = i % 32, .unchanged_since = INT64_MAX
        };
        ph_mailbox_change_flags_blocking(
            writer->hot.account_id, writer->hot, set, &request, test_deadline(), NULL, &error);
        g_assert_no_error(error);
    }
    return NULL;
}

typedef struct Reader {
    const char *conninfo;
    int64_t mailbox_id;
    int64_t n_uids;
    int64_t n_changes;
    int64_t highest_uid;
    int64_t highest_modseq;
} Reader;

static void
read_above(PGconn *conn, const char *column, const char *table, int64_t mailbox_id,
    int64_t *highest, int64_t *count)
{
    g_autofree char *sql = g_strdup_printf("SELECT %s FROM %s WHERE mailbox_id = %" G_GINT64_FORMAT
                                           " AND %s > %" G_GINT64_FORMAT,
        column, table, mailbox_id, column, *highest);
    PGresult *result = PQexec(conn, sql);
    g_assert_cmpint(PQresultStatus(result), ==, PGRES_TUPLES_OK);
    *count += PQntuples(result);
    for (int i = 0; i < PQntuples(result); i++)
        *highest = MAX(*highest, g_ascii_strtoll(PQgetvalue(result, i, 0), NULL, 10));
    PQclear(result);
}

static void
look(PGconn *conn, Reader *reader)
{
    read_above(
        conn, "uid", "mailbox_message", reader->mailbox_id, &reader->highest_uid, &reader->n_uids);
    read_above(conn, "modseq", "mailbox_change", reader->mailbox_id, &reader->highest_modseq,
        &reader->n_changes);
}

static void *
read_hot(void *data)
{
    Reader *reader = data;
    PGconn *conn = PQconnectdb(reader->conninfo);
    g_assert_cmpint(PQstatus(conn), ==, CONNECTION_OK);
    for (bool last = false;; last = is_stopping()) {
        bool was_last = last;
        look(conn, reader);
        if (was_last)
            break;
    }
    PQfinish(conn);
    return NULL;
}

static void
test_nothing_is_missed(void)
{
    ph_assert_in_job();
    enum { WRITERS = 6 };
    PhStoreConfig config = { .committers = 4 };
    char *conninfo = test_store_open(&config);
    Writer writers[WRITERS] = { { 0 } };
    for (int i = 0; i < WRITERS; i++) {
        char name[16];
        g_snprintf(name, sizeof name, "own%d", i);
        writers[i].own_account = test_account(name);
    }
    PhMailboxKey hot = test_mailbox(test_account("hot"), "INBOX");
    Reader reader = { .conninfo = conninfo, .mailbox_id = hot.mailbox_id };
    GThread *threads[WRITERS];
    set_stopping(0);
    GThread *reading = g_thread_new("reader", read_hot, &reader);
    for (int i = 0; i < WRITERS; i++) {
        writers[i].hot = hot;
        threads[i] = g_thread_new("writer", write_hot, &writers[i]);
    }
    GThread *flagging = g_thread_new("flags", flag_hot, &writers[0]);
    run_for(2500000);
    int count = 0;
    for (int i = 0; i < WRITERS; i++) {
        g_thread_join(threads[i]);
        count += writers[i].count;
    }
    g_thread_join(flagging);
    /* The reader's last look was begun after the stop: what was committed meanwhile is looked for
     * once more. */
    g_thread_join(reading);
    PGconn *conn = PQconnectdb(conninfo);
    look(conn, &reader);
    PQfinish(conn);
    g_test_message("%d messages, %d changes", count, (int)reader.n_changes);
    g_assert_cmpint(count, >, 20);
    g_assert_cmpint(reader.n_uids, ==, count);
    g_assert_cmpint(reader.highest_uid, ==, count);
    g_autofree char *sql = g_strdup_printf(
        "SELECT count(*) FROM mailbox_change WHERE mailbox_id = %" G_GINT64_FORMAT, hot.mailbox_id);
    g_assert_cmpint(reader.n_changes, ==, test_database_ask_number(conninfo, sql));
    /* And no number is left out: each commit raised the modseq by one. */
    g_assert_cmpint(reader.highest_modseq, ==, reader.n_changes + 1);
    test_store_close(conninfo);
}

/* -- heap-only updates ------------------------------------------------------------------------- */

static int64_t
wait_for_updates(const char *conninfo, const char *table, int64_t least)
{
    g_autofree char *sql =
        g_strdup_printf("SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = '%s'", table);
    int64_t n = 0;
    for (int i = 0; i < 100 && n < least; i++) {
        g_usleep(50000);
        n = test_database_ask_number(conninfo, sql);
    }
    return n;
}

/* With ThreadSanitizer our own looks at the mailbox last long, and a snapshot keeps old rows in their pages. */
#ifdef PH_TSAN
enum { HEAP_ONLY_PERCENT = 50 };
#else
enum { HEAP_ONLY_PERCENT = 97 };
#endif

/* An ANALYZE that runs meanwhile has one, too. */
static bool
was_analyzed(const char *conninfo)
{
    return test_database_ask_number(conninfo,
               "SELECT (SELECT count(*) FROM pg_stat_all_tables WHERE last_autoanalyze IS NOT NULL)\n"
               "     + (SELECT count(*) FROM pg_stat_activity\n"
               "        WHERE backend_type = 'autovacuum worker' AND datname = current_database())") >
           0;
}

/* False: it cannot be told, something else ran in this database. */
PH_IN_JOB static bool
check_heap_only_updates(void)
{
    g_autofree char *conninfo = test_store_open(NULL);
    PhMailboxKey inbox = test_mailbox(test_account("alice"), "INBOX");
    for (int i = 0; i < 20; i++)
        test_deliver(inbox, "mail");
    g_free(test_database_ask(conninfo, "SELECT pg_stat_reset()"));
    enum { ROUNDS = 300 };
    for (uint32_t i = 0; i < ROUNDS; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhUidSet) set = ph_uid_set_new();
        ph_uid_set_add(set, 1 + i % 20, 1 + i % 20);
        PhFlagRequest request = {
            .change = PH_FLAGS_REPLACE, .flags = 1 + i / 20, .unchanged_since = INT64_MAX
        };
        ph_mailbox_change_flags_blocking(
            inbox.account_id, inbox, set, &request, test_deadline(), NULL, &error);
        g_assert_no_error(error);
    }
    ph_store_close_blocking(); /* its connections hand in their statistics */
    static const char *const tables[] = { "mailbox_message", "mailbox_state" };
    int64_t hots[G_N_ELEMENTS(tables)];
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
        int64_t n = wait_for_updates(conninfo, tables[i], ROUNDS);
        g_autofree char *sql = g_strdup_printf(
            "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '%s'", tables[i]);
        hots[i] = test_database_ask_number(conninfo, sql);
        g_test_message("%s: %d of %d updates heap-only", tables[i], (int)hots[i], (int)n);
        g_assert_cmpint(n, >=, ROUNDS);
    }
    if (was_analyzed(conninfo))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++)
        g_assert_cmpint(hots[i] * 100, >=, ROUNDS * HEAP_ONLY_PERCENT);
    return true;
}

static void
test_updates_are_heap_only(void)
{
    ph_assert_in_job();
    enum { ATTEMPTS = 20 };
    int attempt = 0;
    while (!check_heap_only_updates())
        g_assert_cmpint(++attempt, <, ATTEMPTS);
}

/* The rule behind it: no index on a column that an update touches. */
static void
test_no_index_on_hot_columns(void)
{
    g_autofree char *conninfo = test_database_shared();
    g_autofree char *found = test_database_ask(conninfo,
        "SELECT string_agg(i.indexrelid::regclass::text, ' ')\n"
        "FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)\n"
        "WHERE (i.indrelid = 'mailbox_message'::regclass AND a.attname IN ('flags', 'keywords', 'modseq'))\n"
        "   OR (i.indrelid = 'mailbox_state'::regclass AND a.attname NOT IN ('account_id', 'mailbox_id'))\n"
        "   OR (i.indrelid = 'usage'::regclass AND a.attname <> 'account_id')");
    g_assert_null(found);
}

/* -- notifications ----------------------------------------------------------------------------- */

static void
test_no_notify_in_delivery(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    PhMailboxKey inbox = test_mailbox(test_account("alice"), "INBOX");
    g_usleep(200000); /* what came before is told */
    PGconn *conn = PQconnectdb(conninfo);
    PQclear(PQexec(conn, "LISTEN posthouse"));
    enum { COUNT = 100 };
    for (int i = 0; i < COUNT; i++)
        test_deliver(inbox, "mail");
    int n = 0;
    int pid = 0;
    for (int i = 0; i < 40; i++) {
        g_usleep(10000);
        PQclear(PQexec(conn, "SELECT 1"));
        PGnotify *notify;
        while ((notify = PQnotifies(conn)) != NULL) {
            /* One backend says it all. */
            g_assert_true(pid == 0 || pid == notify->be_pid);
            pid = notify->be_pid;
            n++;
            PQfreemem(notify);
        }
    }
    g_test_message("%d deliveries, %d notifications", COUNT, n);
    g_assert_cmpint(n, >, 0);
    g_assert_cmpint(n, <, COUNT);
    PQfinish(conn);
    /* And it is not one that writes: its last statement is the notification. */
    g_autofree char *sql =
        g_strdup_printf("SELECT query FROM pg_stat_activity WHERE pid = %d", pid);
    g_autofree char *query = test_database_ask(conninfo, sql);
    g_assert_cmpstr(query, ==, "SELECT pg_notify('posthouse', $1::text)");
    test_store_close(conninfo);
}

/* -- purge beside everything ------------------------------------------------------------------- */

typedef struct Stress {
    int64_t account;
    PhMailboxKey inbox;
    PhMailboxKey archive;
    int n_delivered;
    int n_copied;
    int n_purged;
    int n_restored;
    int n_bad; /* an error that nobody should see */
} Stress;

static void
note_error_in(const char *what, Stress *stress, const GError *error, PhError expected)
{
    if (error == NULL || g_error_matches(error, PH_ERROR, (int)expected))
        return;
    g_test_message("unexpected in %s: %s", what, error->message);
    __atomic_fetch_add(&stress->n_bad, 1, __ATOMIC_RELAXED);
}

static void *
stress_deliver(void *data)
{
    ph_assert_in_job();
    Stress *stress = data;
    while (!is_stopping()) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhDelivery) delivery =
            test_message(PH_DELIVERY_ALL_OR_NONE, "the body of a message under stress");
        test_target(delivery, stress->inbox);
        if (g_random_boolean())
            test_target(delivery, stress->archive);
        ph_delivery_run_blocking(delivery, test_deadline(), &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_INTERNAL + 1);
        __atomic_fetch_add(&stress->n_delivered, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static PhUidSet *
some_uids(PhMailboxKey mailbox)
{
    g_autoptr(PhMailbox) found = test_mailbox_find(mailbox.account_id, "INBOX");
    PhUidSet *set = ph_uid_set_new();
    uint32_t from = (uint32_t)g_random_int_range(1, (gint32)found->uid_next + 1);
    ph_uid_set_add(set, from, from + 3);
    return set;
}

static void *
stress_copy(void *data)
{
    ph_assert_in_job();
    Stress *stress = data;
    for (int i = 0; !is_stopping(); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhUidSet) set = some_uids(stress->inbox);
        bool back = i % 3 == 0;
        g_autoptr(PhCopyResult) result =
            ph_mailbox_copy_blocking(stress->account, back ? stress->archive : stress->inbox, set,
                back ? stress->inbox : stress->archive, i % 2 == 0, test_deadline(), &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_INTERNAL + 1);
        if (result != NULL)
            __atomic_fetch_add(
                &stress->n_copied, (int)ph_uid_set_count(result->target), __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *
stress_expunge(void *data)
{
    ph_assert_in_job();
    Stress *stress = data;
    for (int i = 0; !is_stopping(); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhUidSet) set = some_uids(stress->inbox);
        PhMailboxKey mailbox = i % 2 == 0 ? stress->inbox : stress->archive;
        PhFlagRequest request = {
            .change = PH_FLAGS_ADD, .flags = PH_FLAG_DELETED, .unchanged_since = INT64_MAX
        };
        ph_mailbox_change_flags_blocking(
            stress->account, mailbox, set, &request, test_deadline(), NULL, &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_INTERNAL + 1);
        g_clear_error(&error);
        ph_mailbox_expunge_blocking(stress->account, mailbox, NULL, test_deadline(), &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_INTERNAL + 1);
    }
    return NULL;
}

static void *
stress_purge(void *data)
{
    ph_assert_in_job();
    Stress *stress = data;
    while (!is_stopping()) {
        g_autoptr(GError) error = NULL;
        unsigned n = 0;
        ph_purge_blocking(ph_time_now_us() + 1000000, 20, test_deadline(), &n, &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_INTERNAL + 1);
        __atomic_fetch_add(&stress->n_purged, (int)n, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *
stress_restore(void *data)
{
    ph_assert_in_job();
    Stress *stress = data;
    while (!is_stopping()) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhPage) page =
            ph_expunged_list_blocking(stress->account, NULL, 1, test_deadline(), &error);
        g_assert_no_error(error);
        if (page->items->len == 0)
            continue;
        const PhExpunged *newest = page->items->pdata[0];
        bool back = ph_expunged_restore_blocking(
            stress->account, newest->message_id, test_deadline(), &error);
        note_error_in(G_STRFUNC, stress, error, PH_ERROR_NOT_FOUND);
        __atomic_fetch_add(&stress->n_restored, back ? 1 : 0, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void
assert_all_readable(const char *conninfo, const Stress *stress)
{
    ph_assert_in_job();
    PGconn *conn = PQconnectdb(conninfo);
    PGresult *result = PQexec(conn, "SELECT DISTINCT message_id FROM mailbox_message");
    for (int i = 0; i < PQntuples(result); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GBytes) bytes = ph_message_read_blocking(stress->account,
            g_ascii_strtoll(PQgetvalue(result, i, 0), NULL, 10), 0, SIZE_MAX, test_deadline(),
            &error);
        g_assert_no_error(error);
        g_assert_nonnull(g_strstr_len(
            g_bytes_get_data(bytes, NULL), (gssize)g_bytes_get_size(bytes), "under stress"));
    }
    PQclear(result);
    PQfinish(conn);
}

static void
test_purge_loses_nothing(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    Stress stress = { .account = test_account("alice") };
    stress.inbox = test_mailbox(stress.account, "INBOX");
    stress.archive = test_mailbox(stress.account, "Archive");
    static const GThreadFunc jobs[] = { stress_deliver, stress_deliver, stress_copy, stress_copy,
        stress_expunge, stress_purge, stress_purge, stress_restore };
    GThread *threads[G_N_ELEMENTS(jobs)];
    set_stopping(0);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++)
        threads[i] = g_thread_new("stress", jobs[i], &stress);
    run_for(4000000);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++)
        g_thread_join(threads[i]);
    g_test_message("%d delivered, %d copied, %d purged, %d restored", stress.n_delivered,
        stress.n_copied, stress.n_purged, stress.n_restored);
    g_assert_cmpint(stress.n_bad, ==, 0);
    g_assert_cmpint(stress.n_delivered, >, 10);
    g_assert_cmpint(stress.n_copied, >, 10);
    g_assert_cmpint(stress.n_purged, >, 0);
    assert_all_readable(conninfo, &stress);
    /* Every body belongs to a message, every message to somebody, and the counters are right. */
    g_assert_cmpint(test_database_ask_number(conninfo,
                        "SELECT (SELECT count(*) FROM message) - (SELECT count(*) FROM blob)"),
        ==, 0);
    g_assert_cmpint(
        test_database_ask_number(conninfo,
            "SELECT count(*) FROM message m\n"
            "WHERE NOT EXISTS (SELECT FROM mailbox_message r WHERE r.message_id = m.message_id)\n"
            "  AND NOT EXISTS (SELECT FROM expunged r WHERE r.message_id = m.message_id)"),
        ==, 0);
    g_assert_cmpint(
        test_database_ask_number(conninfo,
            "SELECT count(*) FROM mailbox_state s\n"
            "WHERE n_messages <> (SELECT count(*) FROM mailbox_message m WHERE m.mailbox_id = s.mailbox_id)\n"
            "   OR n_deleted <> (SELECT count(*) FROM mailbox_message m\n"
            "                    WHERE m.mailbox_id = s.mailbox_id AND flags & 8 <> 0)"),
        ==, 0);
    g_assert_cmpint(
        test_database_ask_number(conninfo,
            "SELECT count(*) FROM usage WHERE messages <> (SELECT count(*) FROM mailbox_message)\n"
            "   OR bytes <> (SELECT coalesce(sum(size_bytes), 0) FROM mailbox_message)"),
        ==, 0);
    test_store_close(conninfo);
}

/* -- through crashes --------------------------------------------------------------------------- */

typedef struct Sender {
    int number;
    int64_t account;
    GArray *delivered; /* bool by message: it was acknowledged */
    int n_unknown;
} Sender;

static void *
send_through(void *data)
{
    ph_assert_in_job();
    Sender *sender = data;
    while (!is_stopping()) {
        char text[40];
        g_snprintf(text, sizeof text, "probe-%d-%u", sender->number, sender->delivered->len);
        g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, text);
        test_target(delivery, (PhMailboxKey){ sender->account, 0 });
        g_autoptr(GError) error = NULL;
        bool delivered = ph_delivery_run_blocking(delivery, test_deadline(), &error);
        sender->n_unknown +=
            !delivered && g_error_matches(error, PH_ERROR, PH_ERROR_TEMPORARY) ? 1 : 0;
        g_array_append_val(sender->delivered, delivered);
    }
    return NULL;
}

enum { SENDERS = 12 };

static void
start_senders(Sender *senders, GThread **threads)
{
    set_stopping(0);
    for (int i = 0; i < SENDERS; i++) {
        char name[16];
        g_snprintf(name, sizeof name, "user%d", i % 4);
        senders[i] = (Sender){ .number = i, .delivered = g_array_new(FALSE, FALSE, sizeof(bool)) };
        senders[i].account = i < 4 ? test_account(name) : senders[i % 4].account;
    }
    for (int i = 0; i < SENDERS; i++)
        threads[i] = g_thread_new("sender", send_through, &senders[i]);
}

/* Acknowledged: there exactly once. Refused: not there. */
static void
check_senders(const char *conninfo, Sender *senders, GThread **threads)
{
    g_autoptr(GHashTable) found = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (int i = 0; i < SENDERS; i++)
        g_thread_join(threads[i]);
    PGconn *conn = PQconnectdb(conninfo);
    PGresult *result = PQexec(conn,
        "SELECT g.preview, count(*) FROM message g\n"
        "JOIN mailbox_message m ON m.account_id = g.account_id AND m.message_id = g.message_id\n"
        "JOIN blob b ON b.account_id = g.account_id AND b.message_id = g.message_id GROUP BY 1");
    g_assert_cmpint(PQresultStatus(result), ==, PGRES_TUPLES_OK);
    for (int i = 0; i < PQntuples(result); i++) {
        char *text = g_strstrip(g_strdup(PQgetvalue(result, i, 0)));
        g_hash_table_insert(
            found, text, GINT_TO_POINTER((int)g_ascii_strtoll(PQgetvalue(result, i, 1), NULL, 10)));
    }
    PQclear(result);
    PQfinish(conn);
    int n_delivered = 0;
    for (int i = 0; i < SENDERS; i++) {
        g_assert_cmpint(senders[i].n_unknown, ==, 0);
        for (guint j = 0; j < senders[i].delivered->len; j++) {
            char text[40];
            g_snprintf(text, sizeof text, "probe-%d-%u", i, j);
            bool delivered = g_array_index(senders[i].delivered, bool, j);
            g_assert_cmpint(
                GPOINTER_TO_INT(g_hash_table_lookup(found, text)), ==, delivered ? 1 : 0);
            n_delivered += delivered ? 1 : 0;
        }
        g_array_unref(senders[i].delivered);
    }
    g_test_message("%d acknowledged", n_delivered);
    g_assert_cmpint(n_delivered, >, 0);
}

static void
test_server_crash(void)
{
    ph_assert_in_job();
    if (!test_database_is_private()) {
        g_test_skip("not our own server");
        return;
    }
    char *conninfo = test_store_open(NULL);
    Sender senders[SENDERS];
    GThread *threads[SENDERS];
    start_senders(senders, threads);
    for (int i = 0; i < 2; i++) {
        g_usleep(500000);
        test_database_crash();
        g_usleep(200000);
        test_database_restart();
    }
    g_usleep(1500000);
    set_stopping(1);
    check_senders(conninfo, senders, threads);
    test_store_close(conninfo);
}

static void
test_backends_killed(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    Sender senders[SENDERS];
    GThread *threads[SENDERS];
    start_senders(senders, threads);
    for (int i = 0; i < 15; i++) {
        g_usleep(150000);
        g_free(test_database_ask(conninfo,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity\n"
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"));
    }
    g_usleep(300000);
    set_stopping(1);
    check_senders(conninfo, senders, threads);
    test_store_close(conninfo);
}

#ifdef PH_TEST_POINTS
/* The connection breaks at every few commits, before and after. */
static void
test_commits_lost(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    Sender senders[SENDERS];
    GThread *threads[SENDERS];
    start_senders(senders, threads);
    for (int i = 0; i < 40; i++) {
        ph_fault_arm(i % 2 == 0 ? "commit-after" : "commit-before", 1);
        g_usleep(50000);
    }
    ph_fault_arm("commit-after", 0);
    ph_fault_arm("commit-before", 0);
    set_stopping(1);
    check_senders(conninfo, senders, threads);
    test_store_close(conninfo);
}
#endif

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/probe/nothing-is-missed", test_nothing_is_missed);
    g_test_add_func("/store/probe/updates-are-heap-only", test_updates_are_heap_only);
    g_test_add_func("/store/probe/no-index-on-hot-columns", test_no_index_on_hot_columns);
    g_test_add_func("/store/probe/no-notify-in-delivery", test_no_notify_in_delivery);
    g_test_add_func("/store/probe/purge-loses-nothing", test_purge_loses_nothing);
    g_test_add_func("/store/probe/backends-killed", test_backends_killed);
#ifdef PH_TEST_POINTS
    g_test_add_func("/store/probe/commits-lost", test_commits_lost);
#endif
    g_test_add_func("/store/probe/server-crash", test_server_crash);
    int status = g_test_run();
    test_database_stop();
    return status;
}
