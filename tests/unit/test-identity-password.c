/* test-identity-password.c - verifiers of passwords and app passwords */
#include "identity/password.h"

#include <string.h>
#include <time.h>

static PhSecret *
secret(const char *text)
{
    return ph_secret_new(text, strlen(text));
}

static bool
verify(const char *verifier, const char *text)
{
    ph_assert_in_job();
    g_autoptr(PhSecret) password = secret(text);
    return ph_password_verify_blocking(verifier, password);
}

static void
test_argon2_round_trip(void)
{
    ph_assert_in_job();
    static const char *const rows[] = { "correct-horse-7", "", "gr\xc3\xbc\xc3\x9f",
        "a very long pass phrase with many words in it, and more of them" };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhSecret) password = secret(rows[i]);
        g_autofree char *one = ph_password_hash_blocking(password, &error);
        g_autofree char *two = ph_password_hash_blocking(password, &error);
        g_assert_no_error(error);
        g_assert_true(g_str_has_prefix(one, "$argon2id$v=19$m=65536,"));
        g_assert_cmpstr(one, !=, two); /* salted */
        g_assert_true(verify(one, rows[i]));
        g_assert_true(verify(two, rows[i]));
        g_assert_false(verify(one, "wrong"));
        g_autofree char *longer = g_strconcat(rows[i], "x", NULL);
        g_assert_false(verify(one, longer));
    }
}

/* A NUL is a byte like others. */
static void
test_argon2_bytes(void)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhSecret) one = ph_secret_new("a\0b", 3);
    g_autoptr(PhSecret) two = ph_secret_new("a\0c", 3);
    g_autofree char *verifier = ph_password_hash_blocking(one, &error);
    g_assert_true(ph_password_verify_blocking(verifier, one));
    g_assert_false(ph_password_verify_blocking(verifier, two));
}

/* RFC 7677 section 3: user "user", password "pencil"; stored and server key derived from its salt
 * and 4096 rounds. */
static void
test_scram_vector(void)
{
    static const char verifier[] =
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"
        "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    g_assert_true(verify(verifier, "pencil"));
    g_assert_false(verify(verifier, "Pencil"));
    g_assert_false(verify(verifier, ""));
}

static void
test_verify_malformed(void)
{
    static const char *const rows[] = {
        "",
        "pencil",
        "$argon2id$",
        "$argon2id$v=19$m=65536,t=2,p=1$$",
        "$argon2i$v=19$m=65536,t=2,p=1$AAAA$AAAA",
        "$argon2id$v=19$m=4294967295,t=2,p=1$c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAA",
        "{PLAIN}pencil",
        "SCRAM-SHA-256$",
        "SCRAM-SHA-256$4096",
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==",
        "SCRAM-SHA-256$0:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:x",
        "SCRAM-SHA-256$99999999:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:x",
        "SCRAM-SHA-256$x:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:x",
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$:",
        "SCRAM-SHA-256$4096:$AAAA:AAAA",
        "SCRAM-SHA-256$4096:????$????:????",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_test_message("%s", rows[i]);
        g_assert_false(verify(rows[i], "pencil"));
        g_assert_false(verify(rows[i], ""));
    }
}

static void
test_app_password(void)
{
    ph_assert_in_job();
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (int i = 0; i < 10; i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *verifier = NULL;
        g_autoptr(PhSecret) password = ph_app_password_new_blocking(&verifier, &error);
        g_assert_no_error(error);
        const char *text = ph_secret_bytes(password);
        g_assert_cmpuint(ph_secret_length(password), ==, 32);
        for (size_t k = 0; k < 32; k++)
            g_assert_true(k % 5 == 4 ? text[k] == '-'
                                     : strchr("abcdefghjkmnpqrstuvwxyz23456789", text[k]) != NULL);
        g_assert_true(g_hash_table_add(seen, g_strdup(text)));
        g_assert_true(g_str_has_prefix(verifier, "SCRAM-SHA-256$4096:"));
        g_assert_null(strstr(verifier, text));
        g_assert_true(ph_password_verify_blocking(verifier, password));
        g_assert_false(verify(verifier, "abcd-efgh-jkmn-pqrs-tuvw-xyz2-34"));
    }
}

/* More at once than the semaphore lets in: all get through. */
static void *
hash_main(void *data)
{
    ph_thread_set_kind(PH_THREAD_WORKER);
    g_assert_true(verify(data, "crowd"));
    return NULL;
}

static void
test_argon2_crowd(void)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhSecret) password = secret("crowd");
    g_autofree char *verifier = ph_password_hash_blocking(password, &error);
    GThread *threads[10];
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = g_thread_new("hash", hash_main, verifier);
    for (size_t i = 0; i < G_N_ELEMENTS(threads); i++)
        g_thread_join(threads[i]);
}

/* CPU time of this thread. */
static int64_t
cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000;
}

/* A login that does not exist costs what a wrong password costs. */
static void
test_waste(void)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhSecret) password = secret("some password");
    g_autofree char *verifier = ph_password_hash_blocking(password, &error);
    int64_t verify_us = INT64_MAX;
    int64_t waste_us = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t begin_us = cpu_us();
        verify(verifier, "wrong password");
        int64_t middle_us = cpu_us();
        ph_password_waste_blocking(password);
        verify_us = MIN(verify_us, middle_us - begin_us);
        waste_us = MIN(waste_us, cpu_us() - middle_us);
    }
    g_test_message(
        "verify %" G_GINT64_FORMAT " us, waste %" G_GINT64_FORMAT " us", verify_us, waste_us);
    g_assert_cmpint(waste_us, >, verify_us / 3);
    g_assert_cmpint(waste_us, <, verify_us * 3);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/password/argon2/round-trip", test_argon2_round_trip);
    g_test_add_func("/password/argon2/bytes", test_argon2_bytes);
    g_test_add_func("/password/argon2/crowd", test_argon2_crowd);
    g_test_add_func("/password/scram/vector", test_scram_vector);
    g_test_add_func("/password/verify/malformed", test_verify_malformed);
    g_test_add_func("/password/app/new", test_app_password);
    g_test_add_func("/password/waste/cost", test_waste);
    return g_test_run();
}
