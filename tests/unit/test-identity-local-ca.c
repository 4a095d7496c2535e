/* test-identity-local-ca.c - the first certificate, as openssl(1) sees it */
#include "identity/local-ca.h"

#include "tests/support/test-client.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

static char *folder;

/* Runs a command in the folder; its standard output. */
static char *
run(const char *command, bool *good_out)
{
    g_autofree char *line = g_strdup_printf("cd '%s' && %s 2>&1", folder, command);
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char *argv[] = { shell, option, line, NULL };
    char *output = NULL;
    int status = 0;
    g_autoptr(GError) error = NULL;
    g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &output, NULL, &status, &error);
    g_assert_no_error(error);
    if (good_out != NULL)
        *good_out = status == 0;
    return output;
}

static void
ensure(const char *host)
{
    g_autoptr(GError) error = NULL;
    bool good = ph_local_ca_ensure(folder, host, &error);
    g_assert_no_error(error);
    g_assert_true(good);
}

static char *
content(const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return text;
}

static void
test_verifies(void)
{
    bool good;
    ensure("mail.example.test");
    g_autofree char *verified = run(
        "openssl verify -x509_strict -purpose sslserver -verify_hostname mail.example.test -CAfile ca.pem cert.pem",
        &good);
    g_test_message("%s", verified);
    g_assert_true(good);
    static const char *const checks[] = { "-verify_hostname localhost", "-verify_ip 127.0.0.1",
        "-verify_ip ::1" };
    for (size_t i = 0; i < G_N_ELEMENTS(checks); i++) {
        g_autofree char *command =
            g_strdup_printf("openssl verify %s -CAfile ca.pem cert.pem", checks[i]);
        g_free(run(command, &good));
        g_assert_true(good);
    }
    g_free(
        run("openssl verify -verify_hostname other.example.test -CAfile ca.pem cert.pem", &good));
    g_assert_false(good);
    g_autofree char *text = run("openssl x509 -in cert.pem -noout -text", &good);
    g_assert_true(good);
    g_assert_nonnull(strstr(text, "CA:FALSE"));
    g_assert_nonnull(strstr(text, "TLS Web Server Authentication"));
    g_autofree char *ca = run("openssl x509 -in ca.pem -noout -text", &good);
    g_assert_nonnull(strstr(ca, "CA:TRUE, pathlen:0"));
    /* Leaf and key belong together; the file holds the chain. */
    g_autofree char *public_of_key = run("openssl pkey -in key.pem -pubout", &good);
    g_autofree char *public_of_leaf = run("openssl x509 -in cert.pem -noout -pubkey", &good);
    g_assert_cmpstr(public_of_key, ==, public_of_leaf);
    g_autofree char *chain = content("cert.pem");
    g_assert_nonnull(strstr(strstr(chain, "BEGIN CERTIFICATE") + 1, "BEGIN CERTIFICATE"));
}

static void
test_modes(void)
{
    static const struct {
        const char *name;
        unsigned mode;
    } rows[] = { { "ca.pem", 0644 }, { "cert.pem", 0644 }, { "ca.key", 0600 },
        { "key.pem", 0600 } };
    ensure("mail.example.test");
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct stat info;
        g_autofree char *path = g_build_filename(folder, rows[i].name, NULL);
        g_assert_cmpint(stat(path, &info), ==, 0);
        g_assert_cmpuint(info.st_mode & 0777, ==, rows[i].mode);
    }
}

/* What is good is left alone; what is missing is made again, by the same CA. */
static void
test_kept(void)
{
    bool good;
    ensure("mail.example.test");
    g_autofree char *ca = content("ca.pem");
    g_autofree char *leaf = content("cert.pem");
    ensure("mail.example.test");
    g_autofree char *same = content("cert.pem");
    g_assert_cmpstr(same, ==, leaf);

    g_autofree char *path = g_build_filename(folder, "cert.pem", NULL);
    g_unlink(path);
    ensure("other.example.test");
    g_autofree char *ca_again = content("ca.pem");
    g_assert_cmpstr(ca_again, ==, ca);
    g_free(
        run("openssl verify -verify_hostname other.example.test -CAfile ca.pem cert.pem", &good));
    g_assert_true(good);

    /* A broken CA key: a new CA, and a leaf of it. */
    g_autofree char *key = g_build_filename(folder, "ca.key", NULL);
    g_assert_true(g_file_set_contents(key, "rubbish", -1, NULL));
    g_unlink(path);
    ensure("mail.example.test");
    g_free(run("openssl verify -verify_hostname mail.example.test -CAfile ca.pem cert.pem", &good));
    g_assert_true(good);
}

/* A leaf about to expire is made again. */
static void
test_renewed(void)
{
    bool good;
    ensure("mail.example.test");
    g_free(run("openssl req -new -key key.pem -subj /CN=x -out request.pem", &good));
    g_free(run("openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -days 29 -out cert.pem",
        &good));
    g_assert_true(good);
    ensure("mail.example.test");
    g_autofree char *verified =
        run("openssl verify -verify_hostname mail.example.test -CAfile ca.pem cert.pem", &good);
    g_test_message("%s", verified);
    g_assert_true(good);
}

/* A certificate of somebody else is left alone: about to expire, or not even one. */
static void
test_foreign(void)
{
    bool good;
    ensure("mail.example.test");
    g_autofree char *path = g_build_filename(folder, "cert.pem", NULL);
    g_free(run("openssl req -x509 -key key.pem -subj /CN=x -days 1 -out cert.pem", &good));
    g_assert_true(good);
    g_autofree char *before = content("cert.pem");
    ensure("mail.example.test");
    g_autofree char *after = content("cert.pem");
    g_assert_cmpstr(after, ==, before);
    g_assert_true(g_file_set_contents(path, "rubbish", -1, NULL));
    ensure("mail.example.test");
    g_autofree char *rubbish = content("cert.pem");
    g_assert_cmpstr(rubbish, ==, "rubbish");
    g_unlink(path);
}

/* A host name that does not fit into a common name, and one that would be read as more than a
 * name. */
static void
test_names(void)
{
    g_autofree char *path = g_build_filename(folder, "cert.pem", NULL);
    bool good;
    const char *host =
        "a-host-with-a-long-name.in-a-domain-with-a-long-name-too.in-a-region.example.test";
    g_assert_cmpuint(strlen(host), >, 64);
    g_unlink(path);
    ensure(host);
    g_autofree char *command =
        g_strdup_printf("openssl verify -verify_hostname %s -CAfile ca.pem cert.pem", host);
    g_free(run(command, &good));
    g_assert_true(good);
}

static void
test_nowhere(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(ph_local_ca_ensure("/nowhere/at/all", "mail.example.test", &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/local-ca/ensure/verifies", test_verifies);
    g_test_add_func("/local-ca/ensure/modes", test_modes);
    g_test_add_func("/local-ca/ensure/kept", test_kept);
    g_test_add_func("/local-ca/ensure/renewed", test_renewed);
    g_test_add_func("/local-ca/ensure/foreign", test_foreign);
    g_test_add_func("/local-ca/ensure/names", test_names);
    g_test_add_func("/local-ca/ensure/nowhere", test_nowhere);
    folder = test_folder_new();
    int status = g_test_run();
    test_folder_free(folder);
    return status;
}
