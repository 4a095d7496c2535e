/* test-store-base.c - migrations, leases, settings rows, audit, node numbers */
#include "store/internal.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <glib/gstdio.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- migrations -------------------------------------------------------------------------------- */

static bool
migrate(const char *conninfo, const char *folder, unsigned *n_applied, GError **error)
{
    ph_assert_in_job();
    return ph_store_migrate_blocking(conninfo, folder, "test", test_deadline(), n_applied, error);
}

static char *
make_folder(void)
{
    char *folder = g_dir_make_tmp("phschema-XXXXXX", NULL);
    g_assert_nonnull(folder);
    return folder;
}

static void
write_file(const char *folder, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
drop_folder(char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_remove(path);
    }
    g_rmdir(folder);
    g_free(folder);
}

static void
test_migrate_once(void)
{
    g_autofree char *conninfo = test_database_new_empty();
    g_autofree char *folder = test_database_schema_folder();
    g_autoptr(GError) error = NULL;
    unsigned n = 0;
    g_assert_true(migrate(conninfo, folder, &n, &error));
    g_assert_cmpuint(n, >=, 1);
    g_assert_true(migrate(conninfo, folder, &n, &error));
    g_assert_cmpuint(n, ==, 0);
    g_autofree char *by =
        test_database_ask(conninfo, "SELECT by FROM schema_version WHERE version = 1");
    g_assert_cmpstr(by, ==, "test");
}

static void
test_migrate_changed_file(void)
{
    g_autofree char *conninfo = test_database_new_empty();
    char *folder = make_folder();
    g_autoptr(GError) error = NULL;
    write_file(folder, "0001-one.sql", "CREATE TABLE one (a integer);");
    g_assert_true(migrate(conninfo, folder, NULL, &error));
    write_file(folder, "0001-one.sql", "CREATE TABLE one (a bigint);");
    g_assert_false(migrate(conninfo, folder, NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    drop_folder(folder);
}

/* A file that fails leaves nothing; those before it stay. */
static void
test_migrate_broken_file(void)
{
    g_autofree char *conninfo = test_database_new_empty();
    char *folder = make_folder();
    g_autoptr(GError) error = NULL;
    write_file(folder, "0001-one.sql", "CREATE TABLE one (a integer);");
    write_file(folder, "0002-two.sql", "CREATE TABLE two (a integer); CREATE TABLE nonsense;");
    g_assert_false(migrate(conninfo, folder, NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_INTERNAL);
    g_assert_cmpint(test_database_ask_number(
                        conninfo, "SELECT count(*) FROM pg_class WHERE relname IN ('one', 'two')"),
        ==, 1);
    g_clear_error(&error);
    write_file(folder, "0002-two.sql", "CREATE TABLE two (a integer);");
    unsigned n = 0;
    g_assert_true(migrate(conninfo, folder, &n, &error));
    g_assert_cmpuint(n, ==, 1);
    drop_folder(folder);
}

static void
test_migrate_gap_and_newer(void)
{
    g_autofree char *conninfo = test_database_new_empty();
    char *folder = make_folder();
    g_autoptr(GError) error = NULL;
    write_file(folder, "0001-one.sql", "CREATE TABLE one (a integer);");
    write_file(folder, "0003-three.sql", "CREATE TABLE three (a integer);");
    g_assert_false(migrate(conninfo, folder, NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    g_clear_error(&error);
    write_file(folder, "0002-two.sql", "CREATE TABLE two (a integer);");
    g_assert_true(migrate(conninfo, folder, NULL, &error));
    g_autofree char *last = g_build_filename(folder, "0003-three.sql", NULL);
    g_remove(last);
    g_assert_false(migrate(conninfo, folder, NULL, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    drop_folder(folder);
}

static void *
migrate_thread(void *data)
{
    g_autofree char *folder = test_database_schema_folder();
    unsigned n = 0;
    return GINT_TO_POINTER(migrate(data, folder, &n, NULL) ? 1 + (int)n : 0);
}

static void
test_migrate_together(void)
{
    g_autofree char *conninfo = test_database_new_empty();
    GThread *threads[4];
    int sum = 0;
    for (int i = 0; i < 4; i++)
        threads[i] = g_thread_new("migrate", migrate_thread, conninfo);
    for (int i = 0; i < 4; i++) {
        int got = GPOINTER_TO_INT(g_thread_join(threads[i]));
        g_assert_cmpint(got, >, 0);
        sum += got - 1;
    }
    g_assert_cmpint(
        sum, ==, test_database_ask_number(conninfo, "SELECT count(*) FROM schema_version"));
}

/* -- batches ----------------------------------------------------------------------------------- */

static const PhStatement echo = {
    "test-echo",
    "SELECT $1::bigint, $2::integer, $3::smallint, $4::boolean, $5::text, $6::bytea, $7::bigint[], $8::text[]",
};

static void
test_sql_types(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLease) lease = ph_lease_take_blocking(PH_LANE_WEB, test_deadline(), &error);
    g_assert_no_error(error);
    for (int i = 0; i < 3; i++) {
        g_auto(PhBatch) batch;
        ph_batch_init(&batch);
        PhParams *params = ph_batch_add(&batch, &echo);
        ph_param_int64(params, INT64_MIN);
        ph_param_int32(params, -7);
        ph_param_int16(params, 1023);
        ph_param_bool(params, true);
        ph_param_text(params, "h\xc3\xa9");
        ph_param_bytes(params, "\0\1\377", 3);
        g_auto(PhSqlArray) numbers;
        g_auto(PhSqlArray) texts;
        ph_sql_array_init(&numbers, PH_SQL_INT8);
        ph_sql_array_init(&texts, PH_SQL_TEXT);
        for (int64_t n = 0; n < i; n++)
            ph_sql_array_add_int(&numbers, n * 1000000007);
        ph_sql_array_add_null(&texts);
        ph_sql_array_add_text(&texts, "x");
        ph_param_array(params, &numbers);
        ph_param_array(params, &texts);
        ph_batch_run_blocking(lease, &batch, 0, &error);
        g_assert_no_error(error);
        const PGresult *row = ph_batch_result(&batch, 0);
        g_assert_cmpint(ph_cell_int64(row, 0, 0), ==, INT64_MIN);
        g_assert_cmpint(ph_cell_int32(row, 0, 1), ==, -7);
        g_assert_cmpint(ph_cell_int16(row, 0, 2), ==, 1023);
        g_assert_true(ph_cell_bool(row, 0, 3));
        g_assert_cmpstr(ph_cell_text(row, 0, 4), ==, "h\xc3\xa9");
        g_autoptr(GBytes) bytes = ph_cell_bytes(row, 0, 5);
        g_assert_cmpmem(g_bytes_get_data(bytes, NULL), (int)g_bytes_get_size(bytes), "\0\1\377", 3);
        g_autoptr(GArray) array = ph_cell_int64_array(row, 0, 6);
        g_assert_cmpuint(array->len, ==, (guint)i);
        for (int n = 0; n < i; n++)
            g_assert_cmpint(g_array_index(array, int64_t, n), ==, n * INT64_C(1000000007));
    }
    g_clear_pointer(&lease, ph_lease_free);
    test_store_close(conninfo);
}

static const PhStatement divide = { "test-divide", "SELECT 1 / $1::bigint" };
static const PhStatement put = { "test-put",
    "INSERT INTO operator (name, verifier) VALUES ($1::text, 'x')" };
static const PhStatement slow = { "test-slow", "SELECT 1::bigint FROM pg_sleep(5)" };

/* A statement that fails takes the whole batch back, and the connection is clean afterwards. */
static void
test_sql_error_rolls_back(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLease) lease = ph_lease_take_blocking(PH_LANE_WEB, test_deadline(), &error);
    for (int i = 0; i < 2; i++) {
        g_auto(PhBatch) batch;
        ph_batch_init(&batch);
        ph_batch_add(&batch, &ph_sql_begin);
        ph_param_text(ph_batch_add(&batch, &put), "nobody");
        ph_param_int64(ph_batch_add(&batch, &divide), i == 0 ? 0 : 1);
        ph_batch_add(&batch, &ph_sql_commit);
        bool worked = ph_batch_run_blocking(lease, &batch, 0, &error);
        g_assert_true(worked == (i == 1));
        g_assert_false(ph_lease_in_transaction(lease));
        g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM operator"), ==, i);
        g_clear_error(&error);
    }
    g_clear_pointer(&lease, ph_lease_free);
    test_store_close(conninfo);
}

static void
test_sql_deadline(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    int64_t begin_us = ph_monotonic_us();
    PhLease *lease = ph_lease_take_blocking(PH_LANE_WEB, begin_us + 200000, &error);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &slow);
    g_assert_false(ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 2000000);
    ph_lease_free(lease);
    g_clear_error(&error);
    g_assert_true(ph_store_ping_blocking(test_deadline(), &error));
    test_store_close(conninfo);
}

/* -- leases ------------------------------------------------------------------------------------ */

static void
test_lease_lanes(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .reserved = { 1, 1, 1, 1 }, .shared = 1 };
    char *conninfo = test_store_open(&config);
    g_autoptr(GError) error = NULL;
    PhLease *mail = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    PhLease *shared = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    g_assert_no_error(error);
    /* Who has no time left is told so, and the database is no worse for it. */
    g_assert_null(ph_lease_take_blocking(PH_LANE_WEB, ph_monotonic_us() - 1, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    g_clear_error(&error);
    g_assert_null(ph_lease_take_blocking(PH_LANE_MAIL, ph_monotonic_us() + 100000, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    g_clear_error(&error);
    /* A flood in one lane does not stop another. */
    PhLease *console = ph_lease_take_blocking(PH_LANE_CONSOLE, ph_monotonic_us() + 5000000, &error);
    g_assert_no_error(error);
    ph_lease_free(shared);
    shared = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    g_assert_no_error(error);
    ph_lease_free(mail);
    ph_lease_free(shared);
    ph_lease_free(console);
    test_store_close(conninfo);
}

static const PhStatement own_pid = { "test-pid", "SELECT pg_backend_pid()" };

/* A connection that died while idle is not given out. */
static void
test_lease_dead_connection(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    PhLease *lease = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &own_pid);
    ph_batch_run_blocking(lease, &batch, 0, &error);
    g_assert_no_error(error);
    g_autofree char *sql = g_strdup_printf(
        "SELECT pg_terminate_backend(%d, 5000)", ph_cell_int32(ph_batch_result(&batch, 0), 0, 0));
    ph_lease_free(lease);
    g_free(test_database_ask(conninfo, sql));
    for (int i = 0; i < 3; i++) {
        g_assert_true(ph_store_ping_blocking(test_deadline(), &error));
        g_assert_no_error(error);
    }
    /* And one that dies while it is held: a look is repeated, nobody notices. */
    lease = ph_lease_take_blocking(PH_LANE_MAIL, test_deadline(), &error);
    ph_batch_restart(&batch);
    ph_batch_add(&batch, &own_pid);
    ph_batch_run_blocking(lease, &batch, 0, &error);
    g_autofree char *again = g_strdup_printf(
        "SELECT pg_terminate_backend(%d, 5000)", ph_cell_int32(ph_batch_result(&batch, 0), 0, 0));
    g_free(test_database_ask(conninfo, again));
    ph_batch_restart(&batch);
    ph_batch_add(&batch, &own_pid);
    g_assert_true(ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, &error));
    ph_lease_free(lease);
    test_store_close(conninfo);
}

static void
test_lease_database_away(void)
{
    ph_assert_in_job();
    if (!test_database_is_private()) {
        g_test_skip("not our own server");
        return;
    }
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_store_ping_blocking(test_deadline(), &error));
    test_database_crash();
    /* A backend ends when it notices that its postmaster is gone. */
    int64_t begin_us = ph_monotonic_us();
    while (ph_store_ping_blocking(test_deadline(), NULL) && ph_monotonic_us() - begin_us < 10000000)
        g_usleep(1000);
    begin_us = ph_monotonic_us();
    for (int i = 0; i < 20; i++) {
        g_clear_error(&error);
        g_assert_false(ph_store_ping_blocking(test_deadline(), &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE);
    }
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 2000000);
    PhStoreStatus status;
    ph_store_status(&status);
    g_assert_false(status.available);
    g_assert_cmpstr(status.last_error, !=, "");
    test_database_restart();
    begin_us = ph_monotonic_us();
    while (
        !ph_store_ping_blocking(test_deadline(), NULL) && ph_monotonic_us() - begin_us < 10000000)
        g_usleep(20000);
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 5000000);
    test_store_close(conninfo);
}

/* A host that answers nothing at all: its queue of connections is full. */
static int
open_silent_port(int fds[static 4])
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000009) };
    socklen_t size = sizeof address;
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_no_errno(bind(fds[0], (struct sockaddr *)&address, size));
    g_assert_no_errno(listen(fds[0], 0));
    g_assert_no_errno(getsockname(fds[0], (struct sockaddr *)&address, &size));
    for (int i = 1; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&address, size);
    }
    g_usleep(100000);
    return ntohs(address.sin_port);
}

static void
test_lease_silent_host(void)
{
    ph_assert_in_job();
    int fds[4];
    int port = open_silent_port(fds);
    g_autofree char *conninfo = test_database_new();
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    g_autoptr(GString) both = g_string_new(NULL);
    const char *host = NULL;
    const char *own_port = "5432";
    for (const PQconninfoOption *at = options; at->keyword != NULL; at++)
        if (at->val != NULL && strcmp(at->keyword, "host") == 0)
            host = at->val;
        else if (at->val != NULL && strcmp(at->keyword, "port") == 0)
            own_port = at->val;
        else if (at->val != NULL)
            g_string_append_printf(both, "%s='%s' ", at->keyword, at->val);
    g_string_append_printf(both, "host=127.0.0.9,%s port=%d,%s", host, port, own_port);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLease) lease = ph_lease_new_private_blocking(both->str, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_nonnull(lease);
    PQconninfoFree(options);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

/* The server comes up without its database. */
static void
test_open_while_away(void)
{
    ph_assert_in_job();
    PhStoreConfig config = { .conninfo = "host=/nonexistent dbname=nothing",
        .commit_patience_ms = 300 };
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_store_open_blocking(&config, &error));
    g_assert_false(ph_store_ping_blocking(test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE);
    g_clear_error(&error);
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, "into the void");
    test_target(delivery, (PhMailboxKey){ 1, 0 });
    g_assert_false(ph_delivery_run_blocking(delivery, test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE);
    ph_store_close_blocking();
    g_clear_error(&error);
    config.conninfo = "host='";
    g_assert_false(ph_store_open_blocking(&config, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
}

/* -- settings and audit ------------------------------------------------------------------------ */

static void
test_settings_rows(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    int64_t version = -1;
    const PhSettingChange two[] = {
        { .key = "smtp.receive.max_message_bytes", .scope_kind = 1, .value = "1000" },
        { .key = "smtp.receive.max_message_bytes",
            .scope_kind = 8,
            .scope_id = "1",
            .value = "2000" },
    };
    g_assert_true(
        ph_stored_settings_change_blocking(two, 2, "admin", 0, test_deadline(), &version, &error));
    g_assert_cmpint(version, ==, 1);
    /* The same again changes nothing. */
    g_assert_true(
        ph_stored_settings_change_blocking(two, 2, "admin", -1, test_deadline(), &version, &error));
    g_assert_cmpint(version, ==, 1);
    g_assert_false(
        ph_stored_settings_change_blocking(two, 2, "admin", 0, test_deadline(), &version, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    g_clear_error(&error);
    const PhSettingChange unset = { .key = "smtp.receive.max_message_bytes", .scope_kind = 1 };
    g_assert_true(ph_stored_settings_change_blocking(
        &unset, 1, "alice", 1, test_deadline(), &version, &error));
    g_autoptr(GPtrArray) rows = ph_stored_settings_blocking(test_deadline(), &version, &error);
    g_assert_no_error(error);
    g_assert_cmpint(version, ==, 2);
    g_assert_cmpuint(rows->len, ==, 1);
    const PhStoredSetting *row = rows->pdata[0];
    g_assert_cmpstr(row->scope_id, ==, "1");
    g_assert_cmpstr(row->value, ==, "2000");
    g_autoptr(GPtrArray) history = ph_stored_setting_history_blocking(
        "smtp.receive.max_message_bytes", 10, test_deadline(), &error);
    g_assert_cmpuint(history->len, ==, 3);
    const PhStoredSettingChange *last = history->pdata[0];
    g_assert_null(last->value);
    g_assert_cmpstr(last->changed_by, ==, "alice");
    test_store_close(conninfo);
}

static void
test_audit(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    g_autoptr(GError) error = NULL;
    for (int i = 0; i < 5; i++) {
        char target[16];
        g_snprintf(target, sizeof target, "t%d", i);
        const PhAuditNote note = {
            .tenant_id = i % 2,
            .actor = i % 2 == 0 ? "admin" : "alice",
            .origin = "cli",
            .action = "user.add",
            .target = target,
            .outcome = "done",
            .after = "{}",
        };
        g_assert_true(ph_audit_write_blocking(&note, test_deadline(), &error));
    }
    const PhAuditFilter all = { 0 };
    const PhAuditFilter of_alice = { .tenant_id = 1, .actor = "alice", .action = "user.add" };
    g_autoptr(PhPage) first = ph_audit_list_blocking(&all, NULL, 3, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(first->items->len, ==, 3);
    g_assert_cmpstr(((PhAuditEntry *)first->items->pdata[0])->target, ==, "t4");
    g_autoptr(PhPage) second =
        ph_audit_list_blocking(&all, first->next, 3, test_deadline(), &error);
    g_assert_cmpuint(second->items->len, ==, 2);
    g_assert_null(second->next);
    g_autoptr(PhPage) alice = ph_audit_list_blocking(&of_alice, NULL, 10, test_deadline(), &error);
    g_assert_cmpuint(alice->items->len, ==, 2);
    const PhAuditEntry *entry = alice->items->pdata[0];
    g_assert_cmpint(entry->tenant_id, ==, 1);
    g_assert_cmpstr(entry->before, ==, "");
    g_assert_cmpstr(entry->after, ==, "{}");
    g_autoptr(PhPage) found =
        ph_audit_list_blocking(&(PhAuditFilter){ .text = "t3" }, NULL, 10, test_deadline(), &error);
    g_assert_cmpuint(found->items->len, ==, 1);
    test_store_close(conninfo);
}

/* -- node numbers ------------------------------------------------------------------------------ */

static void
test_node_ids(void)
{
    ph_assert_in_job();
    char *conninfo = test_store_open(NULL);
    int first = ph_node_id();
    g_assert_cmpint(first, >=, 0);
    int64_t last = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t id = ph_message_id_draw();
        g_assert_cmpint(id, >, last);
        g_assert_cmpint(id >> 12 & 1023, ==, first);
        last = id;
    }
    /* After a clean end the number is free, and its ids go on from where they were. */
    ph_store_close_blocking();
    PhStoreConfig config = { .conninfo = conninfo, .node_name = "test" };
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_store_open_blocking(&config, &error));
    g_assert_cmpint(ph_node_id(), ==, first);
    g_assert_cmpint(ph_message_id_draw(), >, last);
    ph_store_close_blocking();
    /* While another process holds it, another number is taken; also after the clock went back. */
    g_free(test_database_ask(conninfo, "UPDATE node SET lease_until = now() + interval '1 hour'"));
    g_assert_true(ph_store_open_blocking(&config, &error));
    g_assert_cmpint(ph_node_id(), !=, first);
    int second = ph_node_id();
    ph_store_close_blocking();
    int64_t ahead_ms = ph_time_now_us() / 1000 + 3600000;
    g_autofree char *sql = g_strdup_printf("UPDATE node SET last_ms = %" G_GINT64_FORMAT, ahead_ms);
    g_free(test_database_ask(conninfo, sql));
    g_assert_true(ph_store_open_blocking(&config, &error));
    g_assert_cmpint(ph_node_id(), ==, second);
    last = ph_message_id_draw();
    g_assert_cmpint((last >> 22) + INT64_C(1577836800000), >=, ahead_ms);
    /* The clock is behind the ids: a clean end and a start must not begin again in the same
     * millisecond. */
    ph_store_close_blocking();
    g_autofree char *ask =
        g_strdup_printf("SELECT last_ms > %" G_GINT64_FORMAT " FROM node WHERE node_id = %d",
            (last >> 22) + INT64_C(1577836800000), second);
    g_autofree char *beyond = test_database_ask(conninfo, ask);
    g_assert_cmpstr(beyond, ==, "t");
    g_assert_true(ph_store_open_blocking(&config, &error));
    g_assert_cmpint(ph_node_id(), ==, second);
    g_assert_cmpint(ph_message_id_draw(), >, last);
    test_store_close(conninfo);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/migrate/once", test_migrate_once);
    g_test_add_func("/store/migrate/changed-file", test_migrate_changed_file);
    g_test_add_func("/store/migrate/broken-file", test_migrate_broken_file);
    g_test_add_func("/store/migrate/gap-and-newer", test_migrate_gap_and_newer);
    g_test_add_func("/store/migrate/together", test_migrate_together);
    g_test_add_func("/store/sql/types", test_sql_types);
    g_test_add_func("/store/sql/error-rolls-back", test_sql_error_rolls_back);
    g_test_add_func("/store/sql/deadline", test_sql_deadline);
    g_test_add_func("/store/lease/lanes", test_lease_lanes);
    g_test_add_func("/store/lease/dead-connection", test_lease_dead_connection);
    g_test_add_func("/store/lease/database-away", test_lease_database_away);
    g_test_add_func("/store/lease/silent-host", test_lease_silent_host);
    g_test_add_func("/store/open/while-away", test_open_while_away);
    g_test_add_func("/store/settings/rows", test_settings_rows);
    g_test_add_func("/store/audit/pages", test_audit);
    g_test_add_func("/store/node/ids", test_node_ids);
    int status = g_test_run();
    test_database_stop();
    return status;
}
