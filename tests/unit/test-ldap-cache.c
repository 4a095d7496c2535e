/* test-ldap-cache.c - what is kept of upstream directories' answers, and of logins there */
#include "plugins/ldap/bind-cache.h"
#include "plugins/ldap/search-cache.h"

#include <string.h>

enum { SECOND_US = 1000 * 1000 };

static LdapSpan
span(const char *text)
{
    return (LdapSpan){ .bytes = (const uint8_t *)text, .length = strlen(text) };
}

static bool
is_text(LdapSpan found, const char *text)
{
    return found.length == strlen(text) && memcmp(found.bytes, text, found.length) == 0;
}

static void
put(LdapSearchCache *cache, const char *key, const char *answer, uint64_t epoch)
{
    ldap_search_cache_put(cache, span(key), span(answer), epoch, 10 * SECOND_US, 20 * SECOND_US);
}

static void
check(LdapSearchCache *cache, const char *key, uint64_t epoch, int64_t now_us, LdapCacheState state,
    const char *answer)
{
    LdapSpan found = { 0 };
    g_assert_cmpint(ldap_search_cache_find(cache, span(key), epoch, now_us, &found), ==, state);
    if (answer != NULL)
        g_assert_true(is_text(found, answer));
}

static void
test_time(void)
{
    LdapSearchCache *cache = ldap_search_cache_new(65536);
    check(cache, "one", 1, 0, LDAP_CACHE_MISS, NULL);
    put(cache, "one", "first", 1);
    put(cache, "two", "second", 1);
    check(cache, "one", 1, 9 * SECOND_US, LDAP_CACHE_FRESH, "first");
    check(cache, "two", 1, 9 * SECOND_US, LDAP_CACHE_FRESH, "second");
    check(cache, "one", 1, 10 * SECOND_US, LDAP_CACHE_STALE, "first");
    check(cache, "one", 1, 20 * SECOND_US, LDAP_CACHE_MISS, NULL);
    g_assert_cmpuint(ldap_search_cache_count(cache), ==, 1);
    check(cache, "on", 1, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "", 1, 0, LDAP_CACHE_MISS, NULL);
    put(cache, "two", "renewed", 1);
    check(cache, "two", 1, 0, LDAP_CACHE_FRESH, "renewed");
    g_assert_cmpuint(ldap_search_cache_count(cache), ==, 1);
    ldap_search_cache_free(cache);
}

static void
test_epoch(void)
{
    LdapSearchCache *cache = ldap_search_cache_new(65536);
    put(cache, "one", "before", 1);
    check(cache, "one", 2, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "one", 1, 0, LDAP_CACHE_MISS, NULL); /* gone for good */
    put(cache, "one", "after", 2);
    check(cache, "one", 2, 0, LDAP_CACHE_FRESH, "after");
    ldap_search_cache_free(cache);
}

static void
test_aliases(void)
{
    LdapSearchCache *cache = ldap_search_cache_new(65536);
    ldap_search_cache_add_alias(cache, span("one"), span("uno"));
    check(cache, "uno", 1, 0, LDAP_CACHE_MISS, NULL);
    put(cache, "one", "answer", 1);
    size_t bare = ldap_search_cache_bytes(cache);
    for (int i = 0; i < 10; i++) {
        g_autofree char *alias = g_strdup_printf("alias-%d", i);
        ldap_search_cache_add_alias(cache, span("one"), span(alias));
        ldap_search_cache_add_alias(cache, span("one"), span(alias));
        check(cache, alias, 1, 0, i < 4 ? LDAP_CACHE_FRESH : LDAP_CACHE_MISS, NULL);
    }
    g_assert_cmpuint(ldap_search_cache_bytes(cache), >, bare);
    g_autofree char *huge = g_strnfill(5000, 'x');
    put(cache, "two", "answer", 1);
    ldap_search_cache_add_alias(cache, span("two"), span(huge));
    check(cache, huge, 1, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "two", 2, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "alias-3", 2, 0, LDAP_CACHE_MISS, NULL); /* another epoch: all go with it */
    check(cache, "one", 1, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "alias-0", 1, 0, LDAP_CACHE_MISS, NULL);
    g_assert_cmpuint(ldap_search_cache_bytes(cache), ==, 0);
    ldap_search_cache_free(cache);
}

static void
test_bounded(void)
{
    enum { MAX_BYTES = 16384 };
    LdapSearchCache *cache = ldap_search_cache_new(MAX_BYTES);
    g_autofree char *large = g_strnfill(MAX_BYTES / 8 + 1, 'x');
    put(cache, "large", large, 1);
    check(cache, "large", 1, 0, LDAP_CACHE_MISS, NULL);
    put(cache, "kept", "answer", 1);
    for (int i = 0; i < 1000; i++) {
        g_autofree char *key = g_strdup_printf("key-%d", i);
        put(cache, key, "some answer that takes its place", 1);
        g_assert_cmpuint(ldap_search_cache_bytes(cache), <=, MAX_BYTES);
        check(cache, "kept", 1, 0, LDAP_CACHE_FRESH, "answer"); /* it is used all the time */
    }
    check(cache, "key-0", 1, 0, LDAP_CACHE_MISS, NULL);
    check(cache, "key-999", 1, 0, LDAP_CACHE_FRESH, NULL);
    g_assert_cmpuint(ldap_search_cache_count(cache), >, 10);
    ldap_search_cache_set_max(cache, 0);
    g_assert_cmpuint(ldap_search_cache_count(cache), ==, 0);
    put(cache, "none", "", 1);
    check(cache, "none", 1, 0, LDAP_CACHE_MISS, NULL);
    ldap_search_cache_free(cache);
}

static void
test_answers(void)
{
    g_autoptr(GByteArray) answer = g_byte_array_new();
    ldap_answer_append(answer, span("entry"));
    ldap_answer_append(answer, span(""));
    ldap_answer_append(answer, span("done"));
    LdapSpan at = { .bytes = answer->data, .length = answer->len };
    static const char *const parts[] = { "entry", "", "done" };
    LdapSpan rest;
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        g_assert_true(ldap_answer_next(&at, &rest));
        g_assert_true(is_text(rest, parts[i]));
    }
    g_assert_false(ldap_answer_next(&at, &rest));
}

/* -- binds ------------------------------------------------------------------------------------- */

static LdapBindCache *
bind_cache_new(void)
{
    g_autoptr(PhSecret) key = ph_secret_new_random(32);
    return ldap_bind_cache_new(key);
}

static void
digest(const LdapBindCache *cache, int64_t upstream, int64_t version, const char *dn,
    const char *password, uint8_t *out)
{
    g_autoptr(PhSecret) secret = ph_secret_new(password, strlen(password));
    ldap_bind_cache_digest(cache, upstream, version, dn, secret, out);
}

static void
test_bind(void)
{
    LdapBindCache *cache = bind_cache_new();
    uint8_t accepted[LDAP_BIND_DIGEST_BYTES];
    uint8_t other[LDAP_BIND_DIGEST_BYTES];
    digest(cache, 1, 1, "cn=a", "secret", accepted);
    g_assert_false(ldap_bind_cache_find(cache, accepted, 1, 0));
    ldap_bind_cache_put(cache, accepted, 1, SECOND_US);
    g_assert_true(ldap_bind_cache_find(cache, accepted, 1, SECOND_US - 1));
    static const struct {
        int64_t upstream;
        int64_t version;
        const char *dn;
        const char *password;
    } others[] = {
        { 2, 1, "cn=a", "secret" },
        { 1, 2, "cn=a", "secret" },
        { 1, 1, "cn=b", "secret" },
        { 1, 1, "cn=a", "Secret" },
        { 1, 1, "cn=a", "secret " },
        { 1, 1, "cn=a", "" },
        { 1, 1, "cn=as", "ecret" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        digest(
            cache, others[i].upstream, others[i].version, others[i].dn, others[i].password, other);
        g_assert_false(ldap_bind_cache_find(cache, other, 1, 0));
    }
    g_assert_true(ldap_bind_cache_find(cache, accepted, 1, 0));
    g_assert_false(ldap_bind_cache_find(cache, accepted, 1, SECOND_US)); /* its time is over */
    g_assert_cmpuint(ldap_bind_cache_count(cache), ==, 0);
    ldap_bind_cache_put(cache, accepted, 1, SECOND_US);
    g_assert_false(ldap_bind_cache_find(cache, accepted, 2, 0)); /* something was changed */
    ldap_bind_cache_put(cache, accepted, 2, SECOND_US);
    ldap_bind_cache_remove(cache, accepted);
    ldap_bind_cache_remove(cache, accepted);
    g_assert_false(ldap_bind_cache_find(cache, accepted, 2, 0));
    ldap_bind_cache_free(cache);
}

/* Two processes do not know each other's digests. */
static void
test_bind_key(void)
{
    LdapBindCache *one = bind_cache_new();
    LdapBindCache *two = bind_cache_new();
    uint8_t a[LDAP_BIND_DIGEST_BYTES];
    uint8_t b[LDAP_BIND_DIGEST_BYTES];
    digest(one, 1, 1, "cn=a", "secret", a);
    digest(two, 1, 1, "cn=a", "secret", b);
    g_assert_true(memcmp(a, b, sizeof(a)) != 0);
    ldap_bind_cache_free(one);
    ldap_bind_cache_free(two);
}

static void
test_bind_bounded(void)
{
    LdapBindCache *cache = bind_cache_new();
    uint8_t first[LDAP_BIND_DIGEST_BYTES] = { 0 };
    uint8_t one[LDAP_BIND_DIGEST_BYTES] = { 0 };
    for (unsigned i = 0; i < LDAP_BIND_CACHE_MAX + 5; i++) {
        memcpy(one, &i, sizeof(i));
        ldap_bind_cache_put(cache, one, 1, SECOND_US);
    }
    g_assert_cmpuint(ldap_bind_cache_count(cache), ==, LDAP_BIND_CACHE_MAX);
    g_assert_false(ldap_bind_cache_find(cache, first, 1, 0));
    g_assert_true(ldap_bind_cache_find(cache, one, 1, 0));
    ldap_bind_cache_clear(cache);
    g_assert_cmpuint(ldap_bind_cache_count(cache), ==, 0);
    ldap_bind_cache_free(cache);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ldap-search-cache/time", test_time);
    g_test_add_func("/ldap-search-cache/epoch", test_epoch);
    g_test_add_func("/ldap-search-cache/aliases", test_aliases);
    g_test_add_func("/ldap-search-cache/bounded", test_bounded);
    g_test_add_func("/ldap-search-cache/answers", test_answers);
    g_test_add_func("/ldap-bind-cache/find", test_bind);
    g_test_add_func("/ldap-bind-cache/key", test_bind_key);
    g_test_add_func("/ldap-bind-cache/bounded", test_bind_bounded);
    return g_test_run();
}
