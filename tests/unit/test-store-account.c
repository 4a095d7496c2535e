/* test-store-account.c - tenants, domains, accounts, aliases, logins, routes */
#include "store/store.h"

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

static void
test_domain(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t tenant = 0;
    int64_t domain = 0;
    g_assert_true(ph_tenant_add_blocking("Umbrella", test_deadline(), &tenant, &error));
    refused(ph_tenant_add_blocking("Umbrella", test_deadline(), NULL, &refusal), PH_ERROR_CONFLICT);
    g_assert_true(ph_domain_add_blocking("B\xc3\xbc"
                                         "cher.Example",
        tenant, test_deadline(), &domain, &error));
    g_assert_no_error(error);
    refused(ph_domain_add_blocking("xn--bcher-kva.example", 0, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    refused(ph_domain_add_blocking("other.example", 4711, test_deadline(), NULL, &refusal),
        PH_ERROR_NOT_FOUND);
    static const char *const bad[] = { "", "a..b", "[127.0.0.1]", "a b", "-", "a@b", "a,b" };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        refused(
            ph_domain_add_blocking(bad[i], 0, test_deadline(), NULL, &refusal), PH_ERROR_SYNTAX);
    test_account("alice");
    refused(
        ph_domain_remove_blocking("example.test", test_deadline(), &refusal), PH_ERROR_CONFLICT);
    refused(
        ph_domain_remove_blocking("missing.test", test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    g_autoptr(PhPage) page =
        ph_domain_list_blocking(&(PhListFilter){ 0 }, NULL, 10, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(page->items->len, ==, 2);
    const PhDomain *first = page->items->pdata[0];
    const PhDomain *second = page->items->pdata[1];
    g_assert_cmpstr(first->name, ==,
        "b\xc3\xbc"
        "cher.example");
    g_assert_cmpstr(first->name_ascii, ==, "xn--bcher-kva.example");
    g_assert_cmpint(first->tenant_id, ==, tenant);
    g_assert_cmpint(second->n_accounts, ==, 1);
    g_assert_true(ph_domain_remove_blocking("xn--bcher-kva.example", test_deadline(), &error));
    tear_down();
}

static void
test_account_life(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t alice = test_account("Alice");
    refused(
        ph_account_add_blocking("alice@EXAMPLE.test", NULL, NULL, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    refused(ph_account_add_blocking("x@missing.test", NULL, NULL, test_deadline(), NULL, &refusal),
        PH_ERROR_NOT_FOUND);
    refused(ph_account_add_blocking("not an address", NULL, NULL, test_deadline(), NULL, &refusal),
        PH_ERROR_SYNTAX);
    g_autoptr(GPtrArray) boxes = ph_mailbox_list_blocking(alice, test_deadline(), &error);
    static const char *const names[] = { "INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash" };
    static const PhSpecialUse uses[] = { PH_USE_INBOX, PH_USE_ARCHIVE, PH_USE_DRAFTS, PH_USE_JUNK,
        PH_USE_SENT, PH_USE_TRASH };
    g_assert_cmpuint(boxes->len, ==, 6);
    for (unsigned i = 0; i < 6; i++) {
        const PhMailbox *mailbox = boxes->pdata[i];
        g_assert_cmpstr(mailbox->name, ==, names[i]);
        g_assert_cmpint(mailbox->use, ==, uses[i]);
        g_assert_true(mailbox->subscribed && mailbox->selectable && !mailbox->has_children);
        g_assert_cmpuint(mailbox->uid_validity, >, 0);
        g_assert_cmpuint(mailbox->uid_next, ==, 1);
    }
    g_autoptr(PhAccount) account =
        ph_account_find_blocking("ALICE@example.test", test_deadline(), &error);
    g_assert_cmpint(account->id, ==, alice);
    g_assert_cmpint(account->state, ==, PH_ACCOUNT_ACTIVE);
    int64_t version = account->version;
    g_assert_true(
        ph_account_set_state_blocking(alice, PH_ACCOUNT_SUSPENDED, test_deadline(), &error));
    g_assert_true(ph_account_change_blocking(alice,
        &(PhAccountChange){ .quota_bytes = 1000, .quota_messages = 10, .if_version = -1 },
        test_deadline(), &error));
    g_clear_pointer(&account, ph_account_free);
    account = ph_account_find_blocking("alice@example.test", test_deadline(), &error);
    g_assert_cmpint(account->version, >, version);
    g_assert_cmpint(account->state, ==, PH_ACCOUNT_SUSPENDED);
    g_assert_cmpint(account->quota_bytes, ==, 1000);
    g_assert_cmpint(account->quota_messages, ==, 10);
    refused(ph_account_set_state_blocking(99999, PH_ACCOUNT_ACTIVE, test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    tear_down();
}

static void
test_account_erased(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t alice = test_account("alice");
    test_deliver((PhMailboxKey){ alice, 0 }, "soon gone");
    ph_account_set_state_blocking(alice, PH_ACCOUNT_ERASED, test_deadline(), &error);
    g_assert_no_error(error);
    static const char *const tables[] = { "message", "blob", "mailbox", "mailbox_message",
        "mailbox_change", "usage", "expunged", "credential" };
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
        g_autofree char *sql = g_strdup_printf("SELECT count(*) FROM %s", tables[i]);
        g_assert_cmpint(test_database_ask_number(conninfo, sql), ==, 0);
    }
    refused(
        ph_account_add_blocking("alice@example.test", NULL, NULL, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    refused(ph_account_set_state_blocking(alice, PH_ACCOUNT_ACTIVE, test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    refused(ph_account_find_blocking("alice@example.test", test_deadline(), &refusal) != NULL,
        PH_ERROR_NOT_FOUND);
    tear_down();
}

static void
test_account_pages(void)
{
    ph_assert_in_job();
    set_up();
    for (int i = 0; i < 7; i++) {
        char name[16];
        g_snprintf(name, sizeof name, "user%d", i);
        test_account(name);
    }
    test_account("per_cent");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhPage) first =
        ph_account_list_blocking(&(PhListFilter){ .domain = "example.test", .text = "user" }, NULL,
            4, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(first->items->len, ==, 4);
    g_assert_nonnull(first->next);
    g_autoptr(PhPage) second = ph_account_list_blocking(
        &(PhListFilter){ .text = "user" }, first->next, 4, test_deadline(), &error);
    g_assert_cmpuint(second->items->len, ==, 3);
    g_assert_null(second->next);
    g_autoptr(PhPage) literal = ph_account_list_blocking(
        &(PhListFilter){ .text = "r_c" }, NULL, 10, test_deadline(), &error);
    g_assert_cmpuint(literal->items->len, ==, 1);
    tear_down();
}

static void
test_logins(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t alice = test_account("alice");
    g_autoptr(PhLoginRecord) empty =
        ph_login_record_blocking("Alice@Example.TEST", test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(empty->credentials->len, ==, 0);
    g_assert_true(
        ph_password_set_blocking("alice@example.test", "verifier-1", test_deadline(), &error));
    g_assert_true(
        ph_password_set_blocking("alice@example.test", "verifier-2", test_deadline(), &error));
    int64_t app = 0;
    g_assert_true(ph_app_password_add_blocking(
        alice, "phone", "verifier-3", INT64_MAX, test_deadline(), &app, &error));
    g_assert_true(ph_credential_used_blocking(alice, app, test_deadline(), &error));
    g_autoptr(PhLoginRecord) full =
        ph_login_record_blocking("alice@example.test", test_deadline(), &error);
    g_assert_cmpint(full->version, >, empty->version);
    g_assert_cmpint(full->account->id, ==, alice);
    g_assert_cmpuint(full->credentials->len, ==, 2);
    const PhCredential *password = full->credentials->pdata[0];
    const PhCredential *phone = full->credentials->pdata[1];
    g_assert_cmpstr(password->verifier, ==, "verifier-2");
    g_assert_cmpint(password->last_used_us, ==, INT64_MIN);
    g_assert_cmpint(password->expires_us, ==, INT64_MAX);
    g_assert_cmpint(phone->kind, ==, PH_CREDENTIAL_APP);
    g_assert_cmpstr(phone->label, ==, "phone");
    g_assert_cmpint(phone->last_used_us, >, 0);
    g_assert_true(ph_app_password_remove_blocking(alice, app, test_deadline(), &error));
    refused(
        ph_app_password_remove_blocking(alice, app, test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    static const char *const nobody[] = { "bob@example.test", "alice@other.test", "@", "", "\xff@x",
        "nobody", "alice+x@example.test" };
    for (size_t i = 0; i < G_N_ELEMENTS(nobody); i++)
        refused(ph_login_record_blocking(nobody[i], test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    tear_down();
}

static void
test_operators(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_operator_add_blocking("admin", "v1", 0, test_deadline(), &error));
    refused(
        ph_operator_add_blocking("admin", "v1", 0, test_deadline(), &refusal), PH_ERROR_CONFLICT);
    refused(ph_operator_add_blocking("a@b", "v1", 0, test_deadline(), &refusal), PH_ERROR_SYNTAX);
    g_assert_true(ph_password_set_blocking("admin", "v2", test_deadline(), &error));
    g_autoptr(PhLoginRecord) record = ph_login_record_blocking("admin", test_deadline(), &error);
    g_assert_cmpstr(record->operator_name, ==, "admin");
    g_assert_null(record->account);
    g_assert_cmpstr(((PhCredential *)record->credentials->pdata[0])->verifier, ==, "v2");
    g_assert_true(ph_operator_remove_blocking("admin", test_deadline(), &error));
    refused(ph_password_set_blocking("admin", "v3", test_deadline(), &refusal), PH_ERROR_NOT_FOUND);
    tear_down();
}

/* -- routes ------------------------------------------------------------------------------------ */

static PhRoute *
route(const char *address)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    PhRoute *found = ph_route_resolve_blocking(address, test_deadline(), &error);
    g_assert_no_error(error);
    return found;
}

static void
alias(const char *address, const char *target)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    ph_alias_add_blocking(address, target, test_deadline(), &error);
    g_assert_no_error(error);
}

static void
assert_route(const char *address, PhRouteKind kind, unsigned n_accounts, unsigned n_outside)
{
    g_autoptr(PhRoute) found = route(address);
    g_assert_cmpint(found->kind, ==, kind);
    g_assert_cmpuint(found->accounts->len, ==, n_accounts);
    g_assert_cmpuint(found->outside->len, ==, n_outside);
}

static void
test_routes(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    int64_t alice = test_account("alice");
    int64_t bob = test_account("bob");
    int64_t carol = test_account("carol");
    test_account("with+plus");
    alias("team@example.test", "alice@example.test");
    alias("team@example.test", "bob@example.test");
    alias("team@example.test", "inner@example.test");
    alias("inner@example.test", "alice@example.test");
    alias("inner@example.test", "team@example.test"); /* a circle */
    alias("away@example.test", "someone@elsewhere.example");
    alias("away@example.test", "bob@example.test");
    assert_route("alice@example.test", PH_ROUTE_LOCAL, 1, 0);
    assert_route("ALICE+lists@Example.Test", PH_ROUTE_LOCAL, 1, 0);
    assert_route("with+plus@example.test", PH_ROUTE_LOCAL, 1, 0);
    assert_route("team+x@example.test", PH_ROUTE_LOCAL, 2, 0);
    assert_route("away@example.test", PH_ROUTE_OUTSIDE, 1, 1);
    assert_route("nobody@example.test", PH_ROUTE_UNKNOWN, 0, 0);
    assert_route("+x@example.test", PH_ROUTE_UNKNOWN, 0, 0);
    assert_route("x@elsewhere.example", PH_ROUTE_OUTSIDE, 0, 1);
    assert_route("x@[192.0.2.1]", PH_ROUTE_OUTSIDE, 0, 1);
    assert_route("nonsense", PH_ROUTE_UNKNOWN, 0, 0);
    assert_route("", PH_ROUTE_UNKNOWN, 0, 0);
    g_autoptr(PhRoute) team = route("team@example.test");
    g_assert_cmpint(g_array_index(team->accounts, int64_t, 0), ==, alice);
    g_assert_cmpint(g_array_index(team->accounts, int64_t, 1), ==, bob);
    g_assert_true(team->domain_is_local);
    /* postmaster */
    assert_route("postmaster", PH_ROUTE_UNKNOWN, 0, 0);
    alias("postmaster@example.test", "carol@example.test");
    assert_route("Postmaster", PH_ROUTE_LOCAL, 1, 0);
    assert_route("POSTMASTER@example.test", PH_ROUTE_LOCAL, 1, 0);
    /* states and quota */
    g_assert_true(
        ph_account_set_state_blocking(carol, PH_ACCOUNT_SUSPENDED, test_deadline(), &error));
    assert_route("carol@example.test", PH_ROUTE_LOCAL, 1, 0);
    g_assert_true(
        ph_account_set_state_blocking(carol, PH_ACCOUNT_CLOSING, test_deadline(), &error));
    assert_route("carol@example.test", PH_ROUTE_UNKNOWN, 0, 0);
    g_assert_true(ph_account_change_blocking(bob,
        &(PhAccountChange){ .quota_bytes = 0, .quota_messages = 1, .if_version = -1 },
        test_deadline(), &error));
    g_autoptr(PhRoute) before = route("bob@example.test");
    g_assert_false(before->over_quota);
    test_deliver((PhMailboxKey){ bob, 0 }, "fills");
    g_autoptr(PhRoute) after = route("bob@example.test");
    g_assert_true(after->over_quota);
    tear_down();
}

static void
test_route_depth(void)
{
    ph_assert_in_job();
    set_up();
    test_account("end");
    for (int i = 0; i < 20; i++) {
        char from[32];
        char to[32];
        g_snprintf(from, sizeof from, "a%d@example.test", i);
        g_snprintf(to, sizeof to, "a%d@example.test", i + 1);
        alias(from, i == 19 ? "end@example.test" : to);
    }
    assert_route("a19@example.test", PH_ROUTE_LOCAL, 1, 0);
    assert_route("a10@example.test", PH_ROUTE_LOCAL, 1, 0);
    assert_route("a0@example.test", PH_ROUTE_UNKNOWN, 0, 0); /* deeper than 10 */
    tear_down();
}

static void
test_aliases(void)
{
    ph_assert_in_job();
    set_up();
    g_autoptr(GError) error = NULL;
    test_account("alice");
    alias("b@example.test", "alice@example.test");
    alias("b@example.test", "x@elsewhere.example");
    alias("a@example.test", "alice@example.test");
    refused(
        ph_alias_add_blocking("a@example.test", "ALICE@example.test", test_deadline(), &refusal),
        PH_ERROR_CONFLICT);
    refused(
        ph_alias_add_blocking("alice@example.test", "a@example.test", test_deadline(), &refusal),
        PH_ERROR_CONFLICT);
    refused(ph_alias_add_blocking("a@missing.test", "a@example.test", test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    refused(ph_alias_add_blocking("a@example.test", "nonsense", test_deadline(), &refusal),
        PH_ERROR_SYNTAX);
    refused(ph_account_add_blocking("a@example.test", NULL, NULL, test_deadline(), NULL, &refusal),
        PH_ERROR_CONFLICT);
    g_autoptr(PhPage) page = ph_alias_list_blocking(
        &(PhListFilter){ .domain = "example.test" }, NULL, 2, test_deadline(), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(page->items->len, ==, 2);
    g_assert_cmpstr(((PhAlias *)page->items->pdata[0])->address, ==, "a@example.test");
    g_autoptr(PhPage) rest =
        ph_alias_list_blocking(&(PhListFilter){ 0 }, page->next, 2, test_deadline(), &error);
    g_assert_cmpuint(rest->items->len, ==, 1);
    g_assert_cmpstr(((PhAlias *)rest->items->pdata[0])->target, ==, "x@elsewhere.example");
    g_assert_true(
        ph_alias_remove_blocking("a@example.test", "alice@example.test", test_deadline(), &error));
    refused(
        ph_alias_remove_blocking("a@example.test", "alice@example.test", test_deadline(), &refusal),
        PH_ERROR_NOT_FOUND);
    /* The address is free again. */
    test_account("a");
    tear_down();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    test_database_start();
    g_test_add_func("/store/domain/life", test_domain);
    g_test_add_func("/store/account/life", test_account_life);
    g_test_add_func("/store/account/erased", test_account_erased);
    g_test_add_func("/store/account/pages", test_account_pages);
    g_test_add_func("/store/login/credentials", test_logins);
    g_test_add_func("/store/login/operators", test_operators);
    g_test_add_func("/store/route/all", test_routes);
    g_test_add_func("/store/route/depth", test_route_depth);
    g_test_add_func("/store/alias/life", test_aliases);
    int status = g_test_run();
    test_database_stop();
    return status;
}
