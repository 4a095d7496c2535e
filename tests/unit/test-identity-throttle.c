/* test-identity-throttle.c - scores that decay, by network and by login from a network */
#include "identity/throttle.h"

enum { MINUTE_US = 60 * 1000 * 1000 };

static void
fail(const char *address, const char *login, int times, int64_t now_us)
{
    for (int i = 0; i < times; i++)
        ph_throttle_failed(address, login, now_us);
}

static bool
is_closed(const char *address, const char *login, int64_t now_us)
{
    return ph_throttle_is_closed(address, login, now_us, 20, 5);
}

static void
test_login(void)
{
    ph_throttle_forget_all();
    fail("192.0.2.1", "alice@example.test", 4, 1);
    g_assert_false(is_closed("192.0.2.1", "alice@example.test", 1));
    fail("192.0.2.1", "alice@example.test", 1, 1);
    g_assert_true(is_closed("192.0.2.1", "alice@example.test", 1));
    g_assert_true(is_closed("192.0.2.1", "ALICE@example.TEST", 1));
    /* Others at that address, and she from another one, are not shut out. */
    g_assert_false(is_closed("192.0.2.1", "bob@example.test", 1));
    g_assert_false(is_closed("192.0.2.2", "alice@example.test", 1));
    g_assert_cmpfloat(ph_throttle_score("192.0.2.1", "alice@example.test", 1), ==, 5);
    /* A success forgives. */
    ph_throttle_succeeded("192.0.2.1", "Alice@example.test");
    g_assert_false(is_closed("192.0.2.1", "alice@example.test", 1));
    g_assert_cmpfloat(ph_throttle_score("192.0.2.1", "alice@example.test", 1), ==, 0);
}

/* Many logins from one address: the address closes, and one success does not open it. */
static void
test_address(void)
{
    ph_throttle_forget_all();
    for (int i = 0; i < 20; i++) {
        g_autofree char *login = g_strdup_printf("user%d@example.test", i);
        fail("192.0.2.1", login, 1, 1);
    }
    g_assert_true(is_closed("192.0.2.1", "never-tried@example.test", 1));
    ph_throttle_succeeded("192.0.2.1", "user1@example.test");
    g_assert_true(is_closed("192.0.2.1", "never-tried@example.test", 1));
    g_assert_false(is_closed("192.0.2.2", "never-tried@example.test", 1));
}

static void
test_decay(void)
{
    ph_throttle_forget_all();
    fail("192.0.2.1", "a", 8, 0);
    g_assert_cmpfloat(ph_throttle_score("192.0.2.1", "a", 0), ==, 8);
    g_assert_cmpfloat_with_epsilon(
        ph_throttle_score("192.0.2.1", "a", 5 * (int64_t)MINUTE_US), 4, 0.001);
    g_assert_cmpfloat_with_epsilon(
        ph_throttle_score("192.0.2.1", "a", 10 * (int64_t)MINUTE_US), 2, 0.001);
    g_assert_true(is_closed("192.0.2.1", "a", MINUTE_US));
    g_assert_false(is_closed("192.0.2.1", "a", 5 * (int64_t)MINUTE_US));
    fail("192.0.2.1", "a", 1, 10 * (int64_t)MINUTE_US);
    g_assert_cmpfloat_with_epsilon(
        ph_throttle_score("192.0.2.1", "a", 10 * (int64_t)MINUTE_US), 3, 0.001);
    /* A clock that stands still or goes back does no harm. */
    g_assert_cmpfloat_with_epsilon(ph_throttle_score("192.0.2.1", "a", 0), 3, 0.001);
    g_assert_cmpfloat(ph_throttle_score("192.0.2.1", "a", INT64_MAX), <, 0.001);
}

static void
test_networks(void)
{
    static const struct {
        const char *one;
        const char *two;
        bool same;
    } rows[] = {
        { "2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true },
        { "2001:db8:1:2::1", "2001:0DB8:0001:0002::9", true },
        { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
        { "192.0.2.1", "192.0.2.2", false },
        { "192.0.2.1", "192.0.2.1", true },
        { "local", "local", true },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ph_throttle_forget_all();
        fail(rows[i].one, "a", 30, 1);
        g_assert_true(is_closed(rows[i].one, "b", 1));
        g_assert_cmpint(is_closed(rows[i].two, "b", 1), ==, rows[i].same);
    }
}

/* A flood of new keys: memory is bounded, and who failed most is still known. */
static void
test_bounded(void)
{
    ph_throttle_forget_all();
    fail("198.51.100.1", "target", 50, 1);
    for (int i = 0; i < 150000; i++) {
        char address[32];
        g_snprintf(address, sizeof(address), "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        ph_throttle_failed(address, "x", 1 + i);
    }
    g_assert_true(is_closed("198.51.100.1", "target", 150000));
    /* The newest are known too. */
    g_assert_cmpfloat(ph_throttle_score("10.2.73.239", "x", 150000), >, 0.9);
    ph_throttle_forget_all();
    g_assert_cmpfloat(ph_throttle_score("198.51.100.1", "target", 1), ==, 0);
}

/* Logins as they come from clients. */
static void
test_hostile(void)
{
    ph_throttle_forget_all();
    g_autofree char *endless = g_strnfill(100000, 'a');
    fail("192.0.2.1", endless, 5, 1);
    g_assert_true(is_closed("192.0.2.1", endless, 1));
    fail("192.0.2.3", "", 5, 1);
    g_assert_true(is_closed("192.0.2.3", "", 1));
    /* One pair cannot be made to look like another. */
    fail("192.0.2.4", "a", 5, 1);
    g_assert_false(is_closed("192.0.2.4 a", "", 1));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/throttle/score/login", test_login);
    g_test_add_func("/throttle/score/address", test_address);
    g_test_add_func("/throttle/score/decay", test_decay);
    g_test_add_func("/throttle/key/networks", test_networks);
    g_test_add_func("/throttle/key/bounded", test_bounded);
    g_test_add_func("/throttle/key/hostile", test_hostile);
    return g_test_run();
}
