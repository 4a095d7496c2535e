/* test-store-mailbox.c - names, the tree, flags, copy, move, expunge, undelete, purge */
#include "store/internal.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <string.h>

static char *conninfo;

static void
set_up(void)
{
    conninfo = test_store_open(NULL);
}

static void
tear_down(void)
{
    test_store_close(g_steal_pointer(&conninfo));
}

#define refused(call, expected) \
    do { \
        g_autoptr(GError) refusal = NULL; \
        g_assert_false(call); \
        g_assert_error(refusal, PH_ERROR, expected); \
    } while (0)

#define works(call) \
    do { \
        g_autoptr(GError) failure = NULL; \
        bool worked = (call); \
        g_assert_no_error(failure); \
        g_assert_true(worked); \
    } while (0)

/* -- without a database ------------------------------------------------------------------------ */

static void
test_name_normalise(void)
{
    static const struct {
        const char *given;
        const char *normal; /* null: refused */
    } rows[] = {
        { "inbox", "INBOX" },
        { "InBoX/Sub", "INBOX/Sub" },
        { "Inboxes", "Inboxes" },
        { "a/b/", "a/b" },
        { "e\xcc\x81t\xc3\xa9", "\xc3\xa9t\xc3\xa9" },
        { "with space", "with space" },
        { "a/inbox", "a/inbox" },
        { "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20",
            "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20" },
        { "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21", NULL },
        { "", NULL },
        { "/", NULL },
        { "/a", NULL },
        { "a//b", NULL },
        { "a\nb", NULL },
        { "a\x7f", NULL },
        { "a\xc2\x85", NULL },
        { "\xff\xfe", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *normal =
            ph_mailbox_name_normalise(rows[i].given, strlen(rows[i].given), &error);
        g_assert_cmpstr(normal, ==, rows[i].normal);
        if (rows[i].normal == NULL)
            g_assert_error(error, PH_ERROR, PH_ERROR_SYNTAX);
    }
    g_autoptr(GError) error = NULL;
    g_assert_null(ph_mailbox_name_normalise("a\0b", 3, &error));
    g_clear_error(&error);
    g_autofree char *level = g_strnfill(256, 'x');
    g_assert_null(ph_mailbox_name_normalise(level, 256, &error));
    g_autofree char *fits = ph_mailbox_name_normalise(level, 255, NULL);
    g_assert_nonnull(fits);
}

static void
assert_set(const PhUidSet *set, const char *expected)
{
    g_autofree char *text = ph_uid_set_format(set);
    g_assert_cmpstr(text, ==, expected);
}

static void
test_uid_set(void)
{
    g_autoptr(PhUidSet) set = ph_uid_set_new();
    assert_set(set, "");
    ph_uid_set_add(set, 5, 5);
    ph_uid_set_add(set, 6, 6);
    assert_set(set, "5:6");
    ph_uid_set_add(set, 10, 8);
    assert_set(set, "5:6,8:10");
    ph_uid_set_add(set, 1, 2);
    assert_set(set, "1:2,5:6,8:10");
    ph_uid_set_add(set, 3, 4);
    assert_set(set, "1:6,8:10");
    ph_uid_set_add(set, 7, 7);
    assert_set(set, "1:10");
    ph_uid_set_add(set, UINT32_MAX, UINT32_MAX);
    ph_uid_set_add(set, UINT32_MAX - 1, UINT32_MAX - 1);
    assert_set(set, "1:10,4294967294:4294967295");
    g_assert_true(ph_uid_set_contains(set, 10));
    g_assert_false(ph_uid_set_contains(set, 11));
    g_assert_cmpuint(ph_uid_set_count(set), ==, 12);
    ph_uid_set_add(set, 0, UINT32_MAX);
    g_assert_cmpuint(ph_uid_set_count(set), ==, (size_t)UINT32_MAX + 1);
}

/* Against a plain array of bits. */
static void
test_uid_set_random(void)
{
    for (int round = 0; round < 200; round++) {
        bool bits[120] = { false };
        g_autoptr(PhUidSet) set = ph_uid_set_new();
        for (int i = 0; i < 25; i++) {
            uint32_t first = (uint32_t)g_test_rand_int_range(0, 100);
            uint32_t last = first + (uint32_t)g_test_rand_int_range(0, 8);
            ph_uid_set_add(set, first, last);
            for (uint32_t uid = first; uid <= last; uid++)
                bits[uid] = true;
        }
        size_t count = 0;
        for (uint32_t uid = 0; uid < 120; uid++) {
            count += bits[uid] ? 1 : 0;
            g_assert_true(ph_uid_set_contains(set, uid) == bits[uid]);
        }
        g_assert_cmpuint(ph_uid_set_count(set), ==, count);
        for (guint i = 1; i < set->len; i++)
            g_assert_cmpuint(g_array_index(set, PhUidRange, i).first, >,
                g_array_index(set, PhUidRange, i - 1).last + 1);
    }
}

/* -- the tree ---------------------------------------------------------------------------------- */

static char *
names_of(int64_t account)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) list = ph_mailbox_list_blocking(account, test_deadline(), &error);
    g_assert_no_error(error);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < list->len; i++) {
        const PhMailbox *mailbox = list->pdata[i];
        g_string_append_printf(text, "%s%s%s%s", i > 0 ? " " : "", mailbox->name,
            mailbox->selectable ? "" : "!", mailbox->has_children ? "+" : "");
    }
    return g_string_free(text, FALSE);
}

static PhMailboxKey
make(int64_t account, const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhMailbox) mailbox =
        ph_mailbox_create_blocking(account, name, PH_USE_NONE, test_deadline(), &error);
    g_assert_no_error(error);
    return mailbox->key;
}

static void
test_tree(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    make(alice, "a/b/c");
    make(alice, "a-b");
    make(alice, "inbox/sub");
    g_autofree char *names = names_of(alice);
    g_assert_cmpstr(names, ==, "INBOX+ INBOX/sub Archive Drafts Junk Sent Trash a+ a/b+ a/b/c a-b");
    refused(
        ph_mailbox_create_blocking(alice, "a/b", PH_USE_NONE, test_deadline(), &refusal) != NULL,
        PH_ERROR_CONFLICT);
    refused(
        ph_mailbox_create_blocking(alice, "Inbox", PH_USE_NONE, test_deadline(), &refusal) != NULL,
        PH_ERROR_CONFLICT);
    refused(
        ph_mailbox_create_blocking(alice, "x//y", PH_USE_NONE, test_deadline(), &refusal) != NULL,
        PH_ERROR_SYNTAX);
    refused(ph_mailbox_create_blocking(4711, "x", PH_USE_NONE, test_deadline(), &refusal) != NULL,
        PH_ERROR_NOT_FOUND);
    refused(ph_mailbox_find_blocking(alice, "nope", test_deadline(), &refusal) != NULL,
        PH_ERROR_NOT_FOUND);
    g_autoptr(PhMailbox) b = test_mailbox_find(alice, "a/b");
    g_assert_true(b->has_children && b->selectable && !b->subscribed);
    tear_down();
}

static void
test_tree_delete(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey b = make(alice, "a/b");
    make(alice, "a/b/c");
    test_deliver(b, "kept for undelete");
    g_autoptr(PhMailbox) before = test_mailbox_find(alice, "a/b");
    refused(ph_mailbox_delete_blocking(alice, "inbox", test_deadline(), &refusal), PH_ERROR_DENIED);
    refused(
        ph_mailbox_delete_blocking(alice, "nope", test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    works(ph_mailbox_delete_blocking(alice, "a/b", test_deadline(), &failure));
    g_autofree char *names = names_of(alice);
    g_assert_cmpstr(names, ==, "INBOX Archive Drafts Junk Sent Trash a+ a/b!+ a/b/c");
    refused(ph_mailbox_delete_blocking(alice, "a/b", test_deadline(), &refusal), PH_ERROR_DENIED);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM expunged"), ==, 1);
    g_assert_cmpint(
        test_database_ask_number(conninfo, "SELECT messages + bytes FROM usage"), ==, 0);
    /* The name comes back as a mailbox, with an UIDVALIDITY that it never had. */
    make(alice, "a/b");
    g_autoptr(PhMailbox) after = test_mailbox_find(alice, "a/b");
    g_assert_cmpuint(after->uid_validity, >, before->uid_validity);
    g_assert_cmpuint(after->n_messages, ==, 0);
    g_assert_cmpint(after->key.mailbox_id, !=, b.mailbox_id);
    works(ph_mailbox_delete_blocking(alice, "a/b/c", test_deadline(), &failure));
    works(ph_mailbox_delete_blocking(alice, "a/b", test_deadline(), &failure));
    works(ph_mailbox_delete_blocking(alice, "a", test_deadline(), &failure));
    g_autofree char *rest = names_of(alice);
    g_assert_cmpstr(rest, ==, "INBOX Archive Drafts Junk Sent Trash");
    tear_down();
}

static void
test_tree_rename(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey key = make(alice, "a");
    make(alice, "a/b/c");
    make(alice, "ab");
    test_deliver(key, "comes along");
    g_autoptr(PhMailbox) before = test_mailbox_find(alice, "a");
    works(ph_mailbox_rename_blocking(alice, "a", "x/y", test_deadline(), &failure));
    g_autofree char *names = names_of(alice);
    g_assert_cmpstr(names, ==, "INBOX Archive Drafts Junk Sent Trash ab x+ x/y+ x/y/b+ x/y/b/c");
    g_autoptr(PhMailbox) after = test_mailbox_find(alice, "x/y");
    g_assert_cmpint(after->key.mailbox_id, ==, key.mailbox_id);
    g_assert_cmpuint(after->uid_validity, ==, before->uid_validity);
    g_assert_cmpuint(after->n_messages, ==, 1);
    refused(ph_mailbox_rename_blocking(alice, "x", "x/y/z", test_deadline(), &refusal),
        PH_ERROR_DENIED);
    refused(
        ph_mailbox_rename_blocking(alice, "x", "ab", test_deadline(), &refusal), PH_ERROR_CONFLICT);
    refused(ph_mailbox_rename_blocking(alice, "nope", "z", test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    refused(
        ph_mailbox_rename_blocking(alice, "x", "a//b", test_deadline(), &refusal), PH_ERROR_SYNTAX);
    tear_down();
}

/* A mailbox that takes a name which another one had gets an UIDVALIDITY above that one's. */
static void
test_tree_rename_validity(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    make(alice, "one");
    make(alice, "two");
    g_free(test_database_ask(conninfo,
        "UPDATE mailbox_state SET uid_validity = 4000000000\n"
        "WHERE mailbox_id = (SELECT mailbox_id FROM mailbox WHERE name = 'two')"));
    works(ph_mailbox_delete_blocking(alice, "two", test_deadline(), &failure));
    works(ph_mailbox_rename_blocking(alice, "one", "two", test_deadline(), &failure));
    g_autoptr(PhMailbox) two = test_mailbox_find(alice, "two");
    g_assert_cmpuint(two->uid_validity, ==, 4000000001u);
    tear_down();
}

static void
test_tree_rename_inbox(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    for (int i = 0; i < 3; i++)
        test_deliver(inbox, "old mail");
    works(ph_mailbox_rename_blocking(alice, "INBOX", "old/2023", test_deadline(), &failure));
    g_autoptr(PhMailbox) empty = test_mailbox_find(alice, "INBOX");
    g_autoptr(PhMailbox) full = test_mailbox_find(alice, "old/2023");
    g_assert_cmpuint(empty->n_messages, ==, 0);
    g_assert_cmpuint(empty->uid_next, ==, 4);
    g_assert_cmpint(empty->key.mailbox_id, ==, inbox.mailbox_id);
    g_assert_cmpuint(full->n_messages, ==, 3);
    g_assert_cmpuint(full->uid_next, ==, 4);
    g_assert_cmpuint(test_deliver(inbox, "new mail"), ==, 4);
    refused(ph_mailbox_rename_blocking(alice, "INBOX", "old", test_deadline(), &refusal),
        PH_ERROR_CONFLICT);
    tear_down();
}

static void
test_subscriptions(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    works(ph_subscription_set_blocking(alice, "does/not/exist", true, test_deadline(), &failure));
    works(ph_subscription_set_blocking(alice, "does/not/exist", true, test_deadline(), &failure));
    works(ph_subscription_set_blocking(alice, "Junk", false, test_deadline(), &failure));
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) names = ph_subscription_list_blocking(alice, test_deadline(), &error);
    g_assert_no_error(error);
    g_ptr_array_add(names, NULL);
    g_autofree char *text = g_strjoinv(" ", (char **)names->pdata);
    g_assert_cmpstr(text, ==, "INBOX Archive Drafts Sent Trash does/not/exist");
    tear_down();
}

/* -- flags ------------------------------------------------------------------------------------- */

typedef struct Opened {
    PhMailboxWatch *watch;
    PhMailboxKey key;
    int64_t account;
} Opened;

static void
open_mailbox(Opened *opened, int64_t account, const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    opened->account = account;
    opened->key = test_mailbox(account, name);
    opened->watch =
        ph_mailbox_watch_blocking(account, opened->key, NULL, NULL, test_deadline(), &error);
    g_assert_no_error(error);
}

/* "uid:flags/keywords@modseq ..." as the view shows it, checked against the counters. */
static char *
shown(const Opened *opened)
{
    g_autoptr(PhView) view = ph_mailbox_watch_latest(opened->watch);
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < ph_view_count(view); i++) {
        const PhViewRow *row = ph_view_row(view, i);
        g_string_append_printf(text, "%s%u:%u/%u@%d", i > 0 ? " " : "", row->uid, row->flags,
            (unsigned)row->keywords, (int)row->modseq);
    }
    g_autofree char *sql = g_strdup_printf(
        "SELECT count(*) FROM mailbox_state s WHERE mailbox_id = %" G_GINT64_FORMAT "\n"
        "AND n_messages = (SELECT count(*) FROM mailbox_message m WHERE m.mailbox_id = s.mailbox_id)\n"
        "AND n_unseen = (SELECT count(*) FROM mailbox_message m WHERE m.mailbox_id = s.mailbox_id AND flags & 1 = 0)\n"
        "AND n_deleted = (SELECT count(*) FROM mailbox_message m WHERE m.mailbox_id = s.mailbox_id AND flags & 8 <> 0)\n"
        "AND size_bytes = (SELECT coalesce(sum(size_bytes), 0) FROM mailbox_message m WHERE m.mailbox_id = s.mailbox_id)\n"
        "AND modseq = %" G_GINT64_FORMAT " AND n_unseen = %d AND n_messages = %d",
        opened->key.mailbox_id, ph_view_highest_modseq(view), (int)ph_view_unseen(view),
        (int)ph_view_count(view));
    g_assert_cmpint(test_database_ask_number(conninfo, sql), ==, 1);
    return g_string_free(text, FALSE);
}

#define assert_shown(opened, expected) \
    do { \
        g_autofree char *text = shown(opened); \
        g_assert_cmpstr(text, ==, expected); \
    } while (0)

static void
assert_usage(int64_t account)
{
    g_autofree char *sql = g_strdup_printf(
        "SELECT count(*) FROM usage u WHERE account_id = %" G_GINT64_FORMAT "\n"
        "AND messages = (SELECT count(*) FROM mailbox_message m WHERE m.account_id = u.account_id)\n"
        "AND bytes = (SELECT coalesce(sum(size_bytes), 0) FROM mailbox_message m\n"
        "             WHERE m.account_id = u.account_id)",
        account);
    g_assert_cmpint(test_database_ask_number(conninfo, sql), ==, 1);
}

static PhUidSet *
uids(const char *text)
{
    PhUidSet *set = ph_uid_set_new();
    g_auto(GStrv) parts = g_strsplit(text, ",", -1);
    for (char **part = parts; *part != NULL; part++) {
        char *end = NULL;
        uint32_t first = (uint32_t)g_ascii_strtoull(*part, &end, 10);
        uint32_t last = *end == ':' ? (uint32_t)g_ascii_strtoull(end + 1, NULL, 10) : first;
        ph_uid_set_add(set, first, last);
    }
    return set;
}

static void
store(const Opened *opened, const char *set, PhFlagChange change, uint32_t flags,
    const char *const *keywords)
{
    ph_assert_in_job();
    g_autoptr(PhUidSet) which = uids(set);
    PhFlagRequest request = {
        .change = change, .flags = flags, .keywords = keywords, .unchanged_since = INT64_MAX
    };
    works(ph_mailbox_change_flags_blocking(
        opened->account, opened->key, which, &request, test_deadline(), NULL, &failure));
}

static void
test_flags(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    Opened inbox;
    open_mailbox(&inbox, alice, "INBOX");
    for (int i = 0; i < 4; i++)
        test_deliver(inbox.key, "mail");
    assert_shown(&inbox, "1:0/0@2 2:0/0@3 3:0/0@4 4:0/0@5");
    store(&inbox, "1:3", PH_FLAGS_ADD, PH_FLAG_SEEN, NULL);
    assert_shown(&inbox, "1:1/0@6 2:1/0@6 3:1/0@6 4:0/0@5");
    /* Only what differs changes; what changes nothing has no modseq. */
    store(&inbox, "1:4", PH_FLAGS_ADD, PH_FLAG_SEEN, NULL);
    store(&inbox, "1:4", PH_FLAGS_ADD, PH_FLAG_SEEN, NULL);
    assert_shown(&inbox, "1:1/0@6 2:1/0@6 3:1/0@6 4:1/0@7");
    static const char *const keywords[] = { "$Forwarded", "Work", NULL };
    static const char *const work[] = { "WORK", "Unknown", NULL };
    store(&inbox, "2,4,77", PH_FLAGS_ADD, 0, keywords);
    assert_shown(&inbox, "1:1/0@6 2:1/3@8 3:1/0@6 4:1/3@8");
    store(&inbox, "1:99", PH_FLAGS_REMOVE, PH_FLAG_SEEN, work);
    assert_shown(&inbox, "1:0/0@9 2:0/1@9 3:0/0@9 4:0/1@9");
    store(&inbox, "4", PH_FLAGS_REPLACE, PH_FLAG_DELETED | PH_FLAG_FLAGGED, work);
    assert_shown(&inbox, "1:0/0@9 2:0/1@9 3:0/0@9 4:12/6@10");
    g_autoptr(PhView) view = ph_mailbox_watch_latest(inbox.watch);
    g_assert_cmpuint(ph_view_keyword_count(view), ==, 3);
    g_assert_cmpstr(ph_view_keyword(view, 2), ==, "Unknown");
    ph_mailbox_watch_free(inbox.watch);
    tear_down();
}

static void
test_flags_unchanged_since(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    Opened inbox;
    open_mailbox(&inbox, alice, "INBOX");
    for (int i = 0; i < 3; i++)
        test_deliver(inbox.key, "mail");
    store(&inbox, "2", PH_FLAGS_ADD, PH_FLAG_FLAGGED, NULL);
    assert_shown(&inbox, "1:0/0@2 2:4/0@5 3:0/0@4");
    g_autoptr(PhUidSet) all = uids("1:3");
    g_autoptr(PhUidSet) modified = NULL;
    PhFlagRequest request = { .change = PH_FLAGS_ADD, .flags = PH_FLAG_SEEN, .unchanged_since = 4 };
    works(ph_mailbox_change_flags_blocking(
        alice, inbox.key, all, &request, test_deadline(), &modified, &failure));
    assert_set(modified, "2");
    assert_shown(&inbox, "1:1/0@6 2:4/0@5 3:1/0@6");
    ph_mailbox_watch_free(inbox.watch);
    tear_down();
}

static void
test_flags_refused(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    int64_t bob = test_account("bob");
    Opened inbox;
    open_mailbox(&inbox, alice, "INBOX");
    test_deliver(inbox.key, "mail");
    g_autoptr(PhUidSet) one = uids("1");
    PhFlagRequest request = {
        .change = PH_FLAGS_ADD, .flags = PH_FLAG_SEEN, .unchanged_since = INT64_MAX
    };
    refused(ph_mailbox_change_flags_blocking(
                bob, inbox.key, one, &request, test_deadline(), NULL, &refusal),
        PH_ERROR_NOT_FOUND);
    PhMailboxKey missing = { alice, 4711 };
    refused(ph_mailbox_change_flags_blocking(
                alice, missing, one, &request, test_deadline(), NULL, &refusal),
        PH_ERROR_NOT_FOUND);
    static const char *const bad[] = { "not an atom", NULL };
    request.keywords = bad;
    refused(ph_mailbox_change_flags_blocking(
                alice, inbox.key, one, &request, test_deadline(), NULL, &refusal),
        PH_ERROR_SYNTAX);
    char names[PH_KEYWORDS_MAX + 1][8];
    const char *list[PH_KEYWORDS_MAX + 2] = { NULL };
    for (int i = 0; i <= PH_KEYWORDS_MAX; i++) {
        g_snprintf(names[i], sizeof names[i], "k%d", i);
        list[i] = names[i];
    }
    request.keywords = list;
    refused(ph_mailbox_change_flags_blocking(
                alice, inbox.key, one, &request, test_deadline(), NULL, &refusal),
        PH_ERROR_LIMIT);
    list[PH_KEYWORDS_MAX] = NULL;
    works(ph_mailbox_change_flags_blocking(
        alice, inbox.key, one, &request, test_deadline(), NULL, &failure));
    g_autoptr(PhView) view = ph_mailbox_watch_latest(inbox.watch);
    g_assert_cmpuint(ph_view_row(view, 0)->keywords, ==, UINT64_MAX >> 1);
    ph_mailbox_watch_free(inbox.watch);
    tear_down();
}

/* -- copy, move, expunge ----------------------------------------------------------------------- */

static void
test_copy_and_move(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    Opened inbox;
    Opened archive;
    open_mailbox(&inbox, alice, "INBOX");
    open_mailbox(&archive, alice, "Archive");
    for (int i = 0; i < 4; i++)
        test_deliver(inbox.key, "mail");
    test_deliver(archive.key, "was here");
    static const char *const first[] = { "zero", "one", NULL };
    static const char *const other[] = { "other", NULL };
    store(&inbox, "2", PH_FLAGS_ADD, PH_FLAG_SEEN | PH_FLAG_DELETED, first);
    store(&archive, "1", PH_FLAGS_ADD, 0, other);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhUidSet) some = uids("2:3,50");
    g_autoptr(PhCopyResult) copied = ph_mailbox_copy_blocking(
        alice, inbox.key, some, archive.key, false, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(copied->source, "2:3");
    assert_set(copied->target, "2:3");
    assert_shown(&inbox, "1:0/0@2 2:9/3@6 3:0/0@4 4:0/0@5");
    assert_shown(&archive, "1:0/1@3 2:9/6@4 3:0/0@4");
    assert_usage(alice);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM message"), ==, 5);
    g_autoptr(PhUidSet) ends = uids("1,4");
    g_autoptr(PhCopyResult) moved = ph_mailbox_copy_blocking(
        alice, inbox.key, ends, archive.key, true, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(moved->source, "1,4");
    assert_set(moved->target, "4:5");
    assert_shown(&inbox, "2:9/3@6 3:0/0@4");
    assert_shown(&archive, "1:0/1@3 2:9/6@4 3:0/0@4 4:0/0@5 5:0/0@5");
    assert_usage(alice);
    /* Into itself: new UIDs. */
    g_autoptr(PhUidSet) two = uids("2");
    g_autoptr(PhCopyResult) itself =
        ph_mailbox_copy_blocking(alice, inbox.key, two, inbox.key, true, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(itself->target, "5");
    assert_shown(&inbox, "3:0/0@4 5:9/3@8");
    /* Nothing there: nothing happens. */
    g_autoptr(PhUidSet) none = uids("77");
    g_autoptr(PhCopyResult) nothing = ph_mailbox_copy_blocking(
        alice, inbox.key, none, archive.key, true, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(nothing->target, "");
    PhMailboxKey missing = { alice, 4711 };
    refused(ph_mailbox_copy_blocking(
                alice, inbox.key, two, missing, false, test_deadline(), &refusal) != NULL,
        PH_ERROR_NOT_FOUND);
    works(ph_account_change_blocking(alice,
        &(PhAccountChange){ .quota_bytes = 0, .quota_messages = 7, .if_version = -1 },
        test_deadline(), &failure));
    g_autoptr(PhUidSet) three = uids("3");
    refused(ph_mailbox_copy_blocking(
                alice, inbox.key, three, archive.key, false, test_deadline(), &refusal) != NULL,
        PH_ERROR_LIMIT);
    g_autoptr(PhCopyResult) still = ph_mailbox_copy_blocking(
        alice, inbox.key, three, archive.key, true, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(still->source, "3");
    assert_usage(alice);
    ph_mailbox_watch_free(inbox.watch);
    ph_mailbox_watch_free(archive.watch);
    tear_down();
}

static void
test_expunge_and_undelete(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    Opened inbox;
    open_mailbox(&inbox, alice, "INBOX");
    for (int i = 0; i < 5; i++)
        test_deliver(inbox.key, "mail");
    static const char *const keywords[] = { "kept", NULL };
    store(&inbox, "2:4", PH_FLAGS_ADD, PH_FLAG_DELETED, keywords);
    g_autoptr(PhUidSet) some = uids("1:2");
    works(ph_mailbox_expunge_blocking(alice, inbox.key, some, test_deadline(), &failure));
    assert_shown(&inbox, "1:0/0@2 3:8/1@7 4:8/1@7 5:0/0@6");
    works(ph_mailbox_expunge_blocking(alice, inbox.key, some, test_deadline(), &failure));
    assert_shown(&inbox, "1:0/0@2 3:8/1@7 4:8/1@7 5:0/0@6");
    works(ph_mailbox_expunge_blocking(alice, inbox.key, NULL, test_deadline(), &failure));
    assert_shown(&inbox, "1:0/0@2 5:0/0@6");
    assert_usage(alice);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhPage) first = ph_expunged_list_blocking(alice, NULL, 2, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(first->items->len, ==, 2);
    g_autoptr(PhPage) second =
        ph_expunged_list_blocking(alice, first->next, 2, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(second->items->len, ==, 1);
    const PhExpunged *oldest = second->items->pdata[0];
    g_assert_cmpuint(oldest->uid, ==, 2);
    g_assert_cmpstr(oldest->mailbox_name, ==, "INBOX");
    works(ph_expunged_restore_blocking(alice, oldest->message_id, test_deadline(), &failure));
    assert_shown(&inbox, "1:0/0@2 5:0/0@6 6:0/1@10");
    assert_usage(alice);
    refused(ph_expunged_restore_blocking(alice, oldest->message_id, test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    ph_mailbox_watch_free(inbox.watch);
    tear_down();
}

/* From a mailbox that is gone it goes to INBOX. */
static void
test_undelete_from_deleted_mailbox(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey gone = make(alice, "gone");
    test_deliver(gone, "mail");
    works(ph_mailbox_delete_blocking(alice, "gone", test_deadline(), &failure));
    int64_t id = test_database_ask_number(conninfo, "SELECT message_id FROM expunged");
    works(ph_expunged_restore_blocking(alice, id, test_deadline(), &failure));
    g_autoptr(PhMailbox) inbox = test_mailbox_find(alice, "INBOX");
    g_assert_cmpuint(inbox->n_messages, ==, 1);
    tear_down();
}

static void
test_purge(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    Opened inbox;
    open_mailbox(&inbox, alice, "INBOX");
    PhMailboxKey archive = test_mailbox(alice, "Archive");
    for (int i = 0; i < 3; i++)
        test_deliver(inbox.key, "mail");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhUidSet) one = uids("1");
    g_autoptr(PhCopyResult) copy =
        ph_mailbox_copy_blocking(alice, inbox.key, one, archive, false, test_deadline(), &error);
    g_assert_no_error(error);
    assert_set(copy->target, "1");
    store(&inbox, "1:2", PH_FLAGS_ADD, PH_FLAG_DELETED, NULL);
    works(ph_mailbox_expunge_blocking(alice, inbox.key, NULL, test_deadline(), &failure));
    unsigned n = 99;
    works(ph_purge_blocking(ph_time_now_us() - 3600000000, 100, test_deadline(), &n, &failure));
    g_assert_cmpuint(n, ==, 0);
    works(ph_purge_blocking(ph_time_now_us() + 3600000000, 1, test_deadline(), &n, &failure));
    g_assert_cmpuint(n, ==, 1);
    works(ph_purge_blocking(ph_time_now_us() + 3600000000, 100, test_deadline(), &n, &failure));
    g_assert_cmpuint(n, ==, 1);
    /* The copy keeps the first one's message; the second one's is gone with its body. */
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM message"), ==, 2);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM blob"), ==, 2);
    g_assert_cmpint(test_database_ask_number(conninfo, "SELECT count(*) FROM expunged"), ==, 0);
    ph_mailbox_watch_free(inbox.watch);
    tear_down();
}

static void
test_recent(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    test_deliver(inbox, "mail");
    test_deliver(inbox, "mail");
    uint32_t first = 0;
    works(ph_mailbox_take_recent_blocking(inbox, true, test_deadline(), &first, &failure));
    g_assert_cmpuint(first, ==, 1);
    works(ph_mailbox_take_recent_blocking(inbox, false, test_deadline(), &first, &failure));
    g_assert_cmpuint(first, ==, 1);
    works(ph_mailbox_take_recent_blocking(inbox, false, test_deadline(), &first, &failure));
    g_assert_cmpuint(first, ==, 3);
    tear_down();
}

static void
test_uid_limit(void)
{
    ph_assert_in_job();
    set_up();
    int64_t alice = test_account("alice");
    PhMailboxKey inbox = test_mailbox(alice, "INBOX");
    PhMailboxKey archive = test_mailbox(alice, "Archive");
    g_free(test_database_ask(conninfo, "UPDATE mailbox_state SET uid_next = 4294967294"));
    g_assert_cmpuint(test_deliver(inbox, "the last one"), ==, 4294967294u);
    g_autoptr(GError) error = NULL;
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_EACH, "one too many");
    test_target(delivery, inbox);
    g_assert_false(ph_delivery_run_blocking(delivery, test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_LIMIT);
    test_deliver(archive, "the last one here");
    g_autoptr(PhUidSet) last = uids("4294967294");
    refused(ph_mailbox_copy_blocking(
                alice, inbox, last, archive, false, test_deadline(), &refusal) != NULL,
        PH_ERROR_LIMIT);
    tear_down();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/name/normalise", test_name_normalise);
    g_test_add_func("/store/uid-set/add", test_uid_set);
    g_test_add_func("/store/uid-set/random", test_uid_set_random);
    g_test_add_func("/store/tree/create", test_tree);
    g_test_add_func("/store/tree/delete", test_tree_delete);
    g_test_add_func("/store/tree/rename", test_tree_rename);
    g_test_add_func("/store/tree/rename-validity", test_tree_rename_validity);
    g_test_add_func("/store/tree/rename-inbox", test_tree_rename_inbox);
    g_test_add_func("/store/tree/subscriptions", test_subscriptions);
    g_test_add_func("/store/flags/change", test_flags);
    g_test_add_func("/store/flags/unchanged-since", test_flags_unchanged_since);
    g_test_add_func("/store/flags/refused", test_flags_refused);
    g_test_add_func("/store/copy/and-move", test_copy_and_move);
    g_test_add_func("/store/expunge/and-undelete", test_expunge_and_undelete);
    g_test_add_func("/store/expunge/undelete-from-deleted", test_undelete_from_deleted_mailbox);
    g_test_add_func("/store/purge/shared-message", test_purge);
    g_test_add_func("/store/recent/taken-once", test_recent);
    g_test_add_func("/store/uid/limit", test_uid_limit);
    int status = g_test_run();
    test_database_stop();
    return status;
}
