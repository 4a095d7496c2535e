/* test-identity-sasl.c - PLAIN and LOGIN, well formed and not */
#include "posthouse/login.h"

#include <string.h>

/* One step with a response of exactly this size. */
static PhSaslStep
step(PhSasl *sasl, const char *response, size_t length, const char **challenge)
{
    g_autofree char *copy = response != NULL ? g_memdup2(response, MAX(length, 1)) : NULL;
    return ph_sasl_step(sasl, copy, length, challenge);
}

static void
expect_ready(const PhSasl *sasl, const char *login, const char *password)
{
    const PhSecret *secret = ph_sasl_password(sasl);
    g_assert_cmpstr(ph_sasl_login(sasl), ==, login);
    g_assert_nonnull(secret);
    g_assert_cmpmem(
        ph_secret_bytes(secret), (int)ph_secret_length(secret), password, (int)strlen(password));
}

static void
test_names(void)
{
    g_auto(GStrv) names = g_strsplit(ph_sasl_mechanisms(), " ", -1);
    g_assert_cmpuint(g_strv_length(names), >=, 2);
    for (char **name = names; *name != NULL; name++) {
        g_autofree char *lower = g_ascii_strdown(*name, -1);
        g_autoptr(PhSasl) one = ph_sasl_new(*name);
        g_autoptr(PhSasl) two = ph_sasl_new(lower);
        g_assert_nonnull(one);
        g_assert_nonnull(two);
    }
    static const char *const others[] = { "", "PLAI", "PLAINX", "EXTERNAL", "CRAM-MD5",
        "PLAIN LOGIN" };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        g_assert_null(ph_sasl_new(others[i]));
    ph_sasl_free(NULL);
}

/* RFC 4616 section 4, and around it. */
static void
test_plain_table(void)
{
    static const struct {
        const char *bytes;
        size_t size;       /* with the NUL of the literal */
        const char *login; /* null: refused */
        const char *password;
    } rows[] = {
#define ROW(bytes, login, password) { bytes, sizeof(bytes), login, password }
        ROW("\0tim\0tanstaaftanstaaf", "tim", "tanstaaftanstaaf"),
        ROW("Kurt\0Kurt\0xipj3plmq", "Kurt", "xipj3plmq"),
        ROW("Ursel\0Kurt\0xipj3plmq", NULL, NULL), /* acting for somebody else */
        ROW("kurt\0Kurt\0xipj3plmq", NULL, NULL),
        ROW("\0gr\xc3\xbc\xc3\x9f@example.org\0p\xc3\xa4ss", "gr\xc3\xbc\xc3\x9f@example.org",
            "p\xc3\xa4ss"),
        ROW("\0a\0 ", "a", " "),
        ROW("", NULL, NULL),
        ROW("\0", NULL, NULL),
        ROW("\0\0", NULL, NULL),
        ROW("\0\0x", NULL, NULL),
        ROW("\0a", NULL, NULL),
        ROW("\0a\0", NULL, NULL),
        ROW("\0a\0b\0", NULL, NULL),
        ROW("\0a\0b\0c", NULL, NULL),
        ROW("a\0b", NULL, NULL),
        ROW("tim", NULL, NULL),
        ROW("\0\xff\xfe\0x", NULL, NULL),
        ROW("\0a\xc3\0x", NULL, NULL),
#undef ROW
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhSasl) sasl = ph_sasl_new("PLAIN");
        const char *challenge = NULL;
        g_test_message("row %zu", i);
        PhSaslStep result = step(sasl, rows[i].bytes, rows[i].size - 1, &challenge);
        g_assert_cmpint(result, ==, rows[i].login != NULL ? PH_SASL_READY : PH_SASL_BAD);
        if (rows[i].login != NULL) {
            expect_ready(sasl, rows[i].login, rows[i].password);
            /* Nothing after the end. */
            g_assert_cmpint(
                step(sasl, rows[i].bytes, rows[i].size - 1, &challenge), ==, PH_SASL_BAD);
        }
    }
}

static void
test_plain_prompted(void)
{
    g_autoptr(PhSasl) sasl = ph_sasl_new("PLAIN");
    const char *challenge = NULL;
    g_assert_cmpint(step(sasl, NULL, 0, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(challenge, ==, "");
    g_assert_cmpint(step(sasl, "\0tim\0secret", 11, &challenge), ==, PH_SASL_READY);
    expect_ready(sasl, "tim", "secret");
    g_autoptr(PhSasl) twice = ph_sasl_new("PLAIN");
    g_assert_cmpint(step(twice, NULL, 0, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpint(step(twice, NULL, 0, &challenge), ==, PH_SASL_BAD);
}

static void
test_login(void)
{
    const char *challenge = NULL;
    g_autoptr(PhSasl) prompted = ph_sasl_new("LOGIN");
    g_assert_cmpint(step(prompted, NULL, 0, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(challenge, ==, "Username:");
    g_assert_cmpint(step(prompted, "tim", 3, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(challenge, ==, "Password:");
    g_assert_cmpint(step(prompted, "secret", 6, &challenge), ==, PH_SASL_READY);
    expect_ready(prompted, "tim", "secret");

    g_autoptr(PhSasl) initial = ph_sasl_new("LOGIN");
    g_assert_cmpint(step(initial, "tim", 3, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(challenge, ==, "Password:");
    g_assert_cmpint(step(initial, "", 0, &challenge), ==, PH_SASL_BAD);

    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = { { "", 0 }, { "a\0b", 3 }, { "\xff", 1 } };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(PhSasl) sasl = ph_sasl_new("LOGIN");
        g_assert_cmpint(step(sasl, bad[i].bytes, bad[i].length, &challenge), ==, PH_SASL_BAD);
        g_autoptr(PhSasl) second = ph_sasl_new("LOGIN");
        g_assert_cmpint(step(second, "tim", 3, &challenge), ==, PH_SASL_CHALLENGE);
        bool is_text = bad[i].length == 1; /* a password may be any bytes */
        g_assert_cmpint(step(second, bad[i].bytes, bad[i].length, &challenge), ==,
            is_text ? PH_SASL_READY : PH_SASL_BAD);
    }
}

static void
test_limits(void)
{
    const char *challenge = NULL;
    g_autofree char *endless = g_strnfill(5000, 'a');
    g_autoptr(PhSasl) login = ph_sasl_new("LOGIN");
    g_assert_cmpint(step(login, endless, 5000, &challenge), ==, PH_SASL_BAD);
    g_assert_cmpint(step(login, endless, 255, &challenge), ==, PH_SASL_BAD);
    g_assert_cmpint(step(login, endless, 254, &challenge), ==, PH_SASL_CHALLENGE);
    g_assert_cmpint(step(login, endless, 4096, &challenge), ==, PH_SASL_READY);
}

static void
test_base64_table(void)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        { "AHRpbQB0YW5zdGFhZnRhbnN0YWFm", true }, /* RFC 4616's first example */
        { "AHRpbQB0YW5zdGFhZnRhbnN0YWFm=", false },
        { "AHRpbQB0YW5zdGFhZnRhbnN0YWF", false },
        { "AHRpbQB0YW5zdGFhZnRhbnN0YWFm\r", false },
        { " AHRpbQB0YW5zdGFhZnRhbnN0YWFm", false },
        { "AHRpbQB0YW5z-GFhZnRhbnN0YWFm", false },
        { "AHRpbQB0YW5z=GFhZnRhbnN0YWFm", false },
        { "AHRp\xc3\xbc", false },
        { "=", false },
        { "==", false },
        { "====", false },
        { "===", false },
        { "", false },
        { "A===", false },
        { "AGEAYg==", true },
        { "AGEAYmM=", true },
        { "AGEAYg=A", false },
        { "*", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhSasl) sasl = ph_sasl_new("PLAIN");
        g_autofree char *challenge = NULL;
        size_t length = strlen(rows[i].text);
        g_autofree char *copy = g_memdup2(rows[i].text, MAX(length, 1));
        g_test_message("row %zu", i);
        PhSaslStep result = ph_sasl_step_base64(sasl, copy, length, &challenge);
        g_assert_cmpint(result, ==, rows[i].good ? PH_SASL_READY : PH_SASL_BAD);
        g_assert_null(challenge);
    }
}

static void
test_base64_prompts(void)
{
    g_autoptr(PhSasl) sasl = ph_sasl_new("LOGIN");
    g_autofree char *one = NULL;
    g_autofree char *two = NULL;
    g_autofree char *three = NULL;
    g_assert_cmpint(ph_sasl_step_base64(sasl, NULL, 0, &one), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(one, ==, "VXNlcm5hbWU6");
    g_assert_cmpint(ph_sasl_step_base64(sasl, "dGlt", 4, &two), ==, PH_SASL_CHALLENGE);
    g_assert_cmpstr(two, ==, "UGFzc3dvcmQ6");
    g_assert_cmpint(ph_sasl_step_base64(sasl, "c2VjcmV0", 8, &three), ==, PH_SASL_READY);
    expect_ready(sasl, "tim", "secret");
    g_autofree char *endless = g_strnfill(8196, 'A');
    g_autoptr(PhSasl) other = ph_sasl_new("LOGIN");
    g_autofree char *four = NULL;
    g_assert_cmpint(ph_sasl_step_base64(other, endless, 8196, &four), ==, PH_SASL_BAD);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sasl/new/names", test_names);
    g_test_add_func("/sasl/plain/table", test_plain_table);
    g_test_add_func("/sasl/plain/prompted", test_plain_prompted);
    g_test_add_func("/sasl/login/steps", test_login);
    g_test_add_func("/sasl/step/limits", test_limits);
    g_test_add_func("/sasl/base64/table", test_base64_table);
    g_test_add_func("/sasl/base64/prompts", test_base64_prompts);
    return g_test_run();
}
