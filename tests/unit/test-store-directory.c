/* test-store-directory.c - entries of the directory, contacts, upstreams */
#include "store/web.h"

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

/* The store only reads it. */
#define TEXT(text) ((char *)(uintptr_t)(text))

enum { ALL = 1 << PH_ENTRY_ACCOUNT | 1 << PH_ENTRY_GROUP | 1 << PH_ENTRY_CONTACT };

PH_IN_JOB static void
alias(const char *address, const char *target)
{
    g_autoptr(GError) error = NULL;
    ph_alias_add_blocking(address, target, test_deadline(), &error);
    g_assert_no_error(error);
}

PH_IN_JOB static int64_t
contact(const char *domain, const char *name, const char *mail)
{
    g_autoptr(GError) error = NULL;
    int64_t id = 0;
    char *const none = TEXT("");
    const PhContact row = {
        .domain = TEXT(domain),
        .name = TEXT(name),
        .given_name = none,
        .surname = none,
        .organization = TEXT("Umbrella"),
        .telephone = none,
        .mail = TEXT(mail),
    };
    ph_contact_put_blocking(&row, -1, test_deadline(), &id, &error);
    g_assert_no_error(error);
    return id;
}

static char *
joined(const GPtrArray *list)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < list->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "," : "", (const char *)list->pdata[i]);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* "kind:key" of each, in order. */
PH_IN_JOB static void
assert_entries(const PhEntryQuery *query, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) found = g_string_new(NULL);
    g_autofree char *after = NULL;
    /* In pages of two, so that going on is tested everywhere. */
    do {
        g_autoptr(PhPage) page = ph_entry_list_blocking(query, after, 2, test_deadline(), &error);
        g_assert_no_error(error);
        for (guint i = 0; i < page->items->len; i++) {
            const PhEntry *entry = page->items->pdata[i];
            g_string_append_printf(
                found, "%s%d:%s", found->len > 0 ? " " : "", entry->kind, entry->key);
        }
        g_free(after);
        after = g_strdup(page->next);
    } while (after != NULL);
    g_assert_cmpstr(found->str, ==, expected);
}

static void
test_entries(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t tenant = 0;
    g_assert_true(ph_tenant_add_blocking("Umbrella", test_deadline(), &tenant, &error));
    test_account("alice");
    test_account("bob");
    g_assert_true(ph_domain_add_blocking("sub.example.test", 0, test_deadline(), NULL, &error));
    g_assert_true(ph_domain_add_blocking("xample.test", tenant, test_deadline(), NULL, &error));
    g_assert_true(
        ph_account_add_blocking("carol@xample.test", "Carol", NULL, test_deadline(), NULL, &error));
    alias("alice.smith@example.test", "alice@example.test");
    alias("al@sub.example.test", "alice@example.test");
    alias("team@example.test", "alice@example.test");
    alias("team@example.test", "bob@example.test");
    alias("team@example.test", "dora@elsewhere.example");
    alias("out@example.test", "dora@elsewhere.example");
    int64_t id = contact("example.test", "D\xc3\x96RA Fox", "dora@elsewhere.example,d@fox.example");
    g_autofree char *key = g_strdup_printf("%" G_GINT64_FORMAT, id);

    g_autofree char *all = g_strdup_printf(
        "0:alice@example.test 0:bob@example.test 1:out@example.test 1:team@example.test 2:%s", key);
    assert_entries(&(PhEntryQuery){ .kinds = ALL }, all);
    assert_entries(&(PhEntryQuery){ .kinds = ALL, .tenant_id = tenant }, "0:carol@xample.test");
    assert_entries(&(PhEntryQuery){ .kinds = 1 << PH_ENTRY_ACCOUNT, .tenant_id = -1 },
        "0:alice@example.test 0:bob@example.test 0:carol@xample.test");
    assert_entries(&(PhEntryQuery){ .kinds = ALL, .domain = "sub.example.test" }, "");
    assert_entries(&(PhEntryQuery){ .kinds = ALL,
                       .domain = "test",
                       .domains_below = true,
                       .tenant_id = -1,
                       .key = "carol@xample.test" },
        "0:carol@xample.test");
    assert_entries(
        &(PhEntryQuery){ .kinds = ALL, .key = "team@example.test" }, "1:team@example.test");
    /* What narrows: the letters of any locale are passed by, short texts narrow nothing. */
    const char *const dora[] = { "\xc3\xb6RA", NULL };
    assert_entries(&(PhEntryQuery){ .kinds = ALL, .texts = dora }, all);
    const char *const fox[] = { "nothing", "d@FOX.example", NULL };
    g_autofree char *only = g_strdup_printf("2:%s", key);
    assert_entries(&(PhEntryQuery){ .kinds = ALL, .texts = fox }, only);
    /* An address that may be folded to what is asked for. */
    alias("stra\xc3\x9f"
          "e@example.test",
        "alice@example.test");
    const char *const strasse[] = { "strasse", NULL };
    assert_entries(&(PhEntryQuery){ .kinds = 1 << PH_ENTRY_ACCOUNT, .texts = strasse },
        "0:alice@example.test");
    const char *const percent[] = { "a%", NULL };
    assert_entries(&(PhEntryQuery){ .kinds = ALL, .texts = percent }, all);

    g_autoptr(PhPage) page =
        ph_entry_list_blocking(&(PhEntryQuery){ .kinds = ALL }, NULL, 10, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_null(page->next);
    const PhEntry *alice = page->items->pdata[0];
    g_autofree char *mail = joined(alice->mail);
    g_assert_cmpstr(mail, ==,
        "alice@example.test,al@sub.example.test,alice.smith@example.test,stra\xc3\x9f"
        "e@example.test");
    g_assert_cmpstr(alice->name, ==, "alice");
    g_assert_cmpstr(alice->domain, ==, "example.test");
    const PhEntry *team = page->items->pdata[3];
    g_autofree char *members = joined(team->accounts);
    g_autofree char *others = joined(team->others);
    g_assert_cmpstr(members, ==, "alice@example.test,bob@example.test");
    g_assert_cmpstr(others, ==, "dora@elsewhere.example");
    const PhEntry *fox_entry = page->items->pdata[4];
    g_assert_cmpuint(fox_entry->mail->len, ==, 2);
    g_assert_cmpstr(fox_entry->organization, ==, "Umbrella");

    /* A suspended account is not there, and no member. */
    g_autoptr(PhAccount) bob =
        ph_account_find_blocking("bob@example.test", test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_true(
        ph_account_set_state_blocking(bob->id, PH_ACCOUNT_SUSPENDED, test_deadline(), &error));
    assert_entries(&(PhEntryQuery){ .kinds = 1 << PH_ENTRY_ACCOUNT }, "0:alice@example.test");
    tear_down();
}

static void
test_contacts(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    test_account("alice");
    int64_t id = contact("EXAMPLE.test", "Dora Fox", "");
    contact("example.test", "Dora Fox", "");
    contact("example.test", "Adam", "adam@elsewhere.example");
    refused(ph_contact_put_blocking(&(PhContact){ .domain = TEXT("missing.test"),
                                        .name = TEXT("x"),
                                        .given_name = TEXT(""),
                                        .surname = TEXT(""),
                                        .organization = TEXT(""),
                                        .telephone = TEXT(""),
                                        .mail = TEXT("") },
                -1, test_deadline(), NULL, &refusal),
        PH_ERROR_NOT_FOUND);
    g_autoptr(PhContact) dora = ph_contact_find_blocking(id, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpstr(dora->domain, ==, "example.test");
    g_free(dora->telephone);
    dora->telephone = g_strdup("+1 555 0100");
    g_assert_true(ph_contact_put_blocking(dora, dora->version, test_deadline(), NULL, &error));
    refused(ph_contact_put_blocking(dora, dora->version, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    const PhListFilter filter = { .text = "fOX" };
    g_autoptr(PhPage) page = ph_contact_list_blocking(&filter, NULL, 1, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(page->items->len, ==, 1);
    g_autoptr(PhPage) rest =
        ph_contact_list_blocking(&filter, page->next, 5, test_deadline(), &error);
    g_assert_cmpuint(rest->items->len, ==, 1);
    g_assert_true(ph_contact_remove_blocking(id, test_deadline(), &error));
    refused(ph_contact_remove_blocking(id, test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    refused(ph_contact_find_blocking(id, test_deadline(), &refusal) != NULL, PH_ERROR_NOT_FOUND);
    tear_down();
}

static void
test_upstreams(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) sealed = g_bytes_new_static("sealed", 6);
    PhUpstream row = {
        .name = TEXT("corp"),
        .suffix = TEXT("dc=corp,dc=example"),
        .urls = TEXT("ldap://192.0.2.1 ldap://192.0.2.2"),
        .ca = TEXT(""),
        .bind_dn = TEXT("cn=reader,dc=corp,dc=example"),
        .identity = PH_UPSTREAM_AS_SERVICE,
        .connections = 4,
        .timeout_ms = 5000,
        .cache_s = 60,
    };
    const PhStoredUpstream stored = { .upstream = &row, .sealed_password = sealed };
    g_assert_true(ph_stored_upstream_put_blocking(&stored, -1, test_deadline(), &row.id, &error));
    g_assert_no_error(error);
    int64_t id = row.id;
    row.id = 0;
    refused(ph_stored_upstream_put_blocking(&stored, -1, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    row.name = TEXT("other");
    refused(ph_stored_upstream_put_blocking(&stored, -1, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    row.suffix = TEXT("");
    g_assert_true(ph_stored_upstream_put_blocking(&stored, -1, test_deadline(), NULL, &error));
    row.id = id;
    row.name = TEXT("corp");
    row.suffix = TEXT("dc=corp,dc=example");
    row.read_only = true;
    g_assert_true(ph_stored_upstream_put_blocking(&stored, 1, test_deadline(), NULL, &error));
    refused(ph_stored_upstream_put_blocking(&stored, 1, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    g_autoptr(PhStoredUpstream) found =
        ph_stored_upstream_find_blocking("corp", test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_true(g_bytes_equal(found->sealed_password, sealed));
    g_assert_cmpint(found->upstream->identity, ==, PH_UPSTREAM_AS_SERVICE);
    g_assert_true(found->upstream->read_only);
    g_assert_cmpint(found->upstream->version, ==, 2);
    g_autoptr(PhPage) page =
        ph_stored_upstream_list_blocking(NULL, NULL, 10, test_deadline(), &error);
    g_assert_cmpuint(page->items->len, ==, 2);
    g_assert_true(ph_stored_upstream_remove_blocking("corp", test_deadline(), &error));
    refused(
        ph_stored_upstream_remove_blocking("corp", test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    tear_down();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/directory/entries", test_entries);
    g_test_add_func("/store/directory/contacts", test_contacts);
    g_test_add_func("/store/directory/upstreams", test_upstreams);
    int status = g_test_run();
    test_database_stop();
    return status;
}
