/* local-ca.c - two certificates by OpenSSL's X509 functions */
#include "identity/local-ca.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

enum { CA_DAYS = 3650, LEAF_DAYS = 397, RENEW_DAYS = 30, DAY_S = 24 * 3600 };

G_DEFINE_AUTOPTR_CLEANUP_FUNC(EVP_PKEY, EVP_PKEY_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(X509, X509_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BIO, BIO_free_all)

static bool
add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool good = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return good;
}

static bool
set_basics(X509 *certificate, EVP_PKEY *key, const char *common_name, int days)
{
    g_autofree char *name = g_strndup(common_name, 64);
    BIGNUM *serial = BN_new();
    bool good = serial != NULL && BN_rand(serial, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
                BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate)) != NULL;
    BN_free(serial);
    return good && X509_set_version(certificate, X509_VERSION_3) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), (long)days * DAY_S) != NULL &&
           X509_set_pubkey(certificate, key) == 1 &&
           X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
               (const unsigned char *)name, -1, -1, 0) == 1;
}

static X509 *
make_ca(EVP_PKEY *key, const char *host_name)
{
    g_autoptr(X509) certificate = X509_new();
    g_autofree char *name = g_strdup_printf("Posthouse CA of %s", host_name);
    if (certificate == NULL || !set_basics(certificate, key, name, CA_DAYS) ||
        X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
        !add_extension(
            certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
        !add_extension(certificate, certificate, NID_subject_key_identifier, "hash") ||
        X509_sign(certificate, key, EVP_sha256()) == 0)
        return NULL;
    return g_steal_pointer(&certificate);
}

static X509 *
make_leaf(EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const char *host_name)
{
    g_autoptr(X509) certificate = X509_new();
    g_autofree char *names = g_strdup_printf("DNS:%s,DNS:localhost,IP:127.0.0.1,IP:::1", host_name);
    if (certificate == NULL || !set_basics(certificate, key, host_name, LEAF_DAYS) ||
        X509_set_issuer_name(certificate, X509_get_subject_name(ca)) != 1 ||
        !add_extension(certificate, ca, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(certificate, ca, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(certificate, ca, NID_ext_key_usage, "serverAuth,clientAuth") ||
        !add_extension(certificate, ca, NID_subject_key_identifier, "hash") ||
        !add_extension(certificate, ca, NID_authority_key_identifier, "keyid") ||
        !add_extension(certificate, ca, NID_subject_alt_name, names) ||
        X509_sign(certificate, ca_key, EVP_sha256()) == 0)
        return NULL;
    return g_steal_pointer(&certificate);
}

/* -- files ------------------------------------------------------------------------------------- */

static bool
write_file(const char *folder, const char *name, BIO *bio, int mode, GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autoptr(GError) cause = NULL;
    char *text;
    long length = BIO_get_mem_data(bio, &text);
    if (g_file_set_contents_full(path, text, length,
            G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE, mode, &cause))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "%s", cause->message);
    return false;
}

static bool
write_key(const char *folder, const char *name, EVP_PKEY *key, GError **error)
{
    g_autoptr(BIO) bio = BIO_new(BIO_s_mem());
    return PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1 &&
           write_file(folder, name, bio, 0600, error);
}

static bool
write_certificates(const char *folder, const char *name, X509 *first, X509 *second, GError **error)
{
    g_autoptr(BIO) bio = BIO_new(BIO_s_mem());
    return PEM_write_bio_X509(bio, first) == 1 &&
           (second == NULL || PEM_write_bio_X509(bio, second) == 1) &&
           write_file(folder, name, bio, 0644, error);
}

static BIO *
open_file(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    BIO *bio = BIO_new_file(path, "r");
    ERR_clear_error();
    return bio;
}

/* Null when missing, broken or about to expire. */
static X509 *
read_certificate(const char *folder, const char *name)
{
    g_autoptr(BIO) bio = open_file(folder, name);
    g_autoptr(X509) certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    time_t soon = time(NULL) + (time_t)RENEW_DAYS * DAY_S;
    if (certificate == NULL || X509_cmp_time(X509_get0_notAfter(certificate), &soon) < 0)
        return NULL;
    return g_steal_pointer(&certificate);
}

static EVP_PKEY *
read_key(const char *folder, const char *name)
{
    g_autoptr(BIO) bio = open_file(folder, name);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    return key;
}

static void
set_openssl_error(const char *what, GError **error)
{
    if (error != NULL && *error != NULL)
        return;
    const char *reason = ERR_reason_error_string(ERR_get_error());
    ERR_clear_error();
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "%s: %s", what,
        reason != NULL ? reason : "unknown reason");
}

static X509 *
read_any(const char *folder, const char *name)
{
    g_autoptr(BIO) bio = open_file(folder, name);
    X509 *certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    return certificate;
}

/* A certificate that our CA did not issue is the administrator's: whatever its age, and even when
 * it cannot be read, it is not ours to replace. */
static bool
is_somebody_elses(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, "cert.pem", NULL);
    if (!g_file_test(path, G_FILE_TEST_EXISTS))
        return false;
    g_autoptr(X509) leaf = read_any(folder, "cert.pem");
    g_autoptr(X509) ca = read_any(folder, "ca.pem");
    bool ours = leaf != NULL && ca != NULL && X509_verify(leaf, X509_get0_pubkey(ca)) == 1;
    ERR_clear_error();
    return !ours;
}

bool
ph_local_ca_ensure(const char *folder, const char *host_name, GError **error)
{
    g_autoptr(X509) ca = read_certificate(folder, "ca.pem");
    g_autoptr(EVP_PKEY) ca_key = read_key(folder, "ca.key");
    g_autoptr(X509) leaf = read_certificate(folder, "cert.pem");
    g_autoptr(EVP_PKEY) leaf_key = read_key(folder, "key.pem");
    if ((leaf != NULL && leaf_key != NULL) || is_somebody_elses(folder))
        return true;

    if (ca == NULL || ca_key == NULL) {
        g_clear_pointer(&ca, X509_free);
        g_clear_pointer(&ca_key, EVP_PKEY_free);
        ca_key = EVP_EC_gen("P-256");
        ca = ca_key != NULL ? make_ca(ca_key, host_name) : NULL;
        if (ca == NULL || !write_key(folder, "ca.key", ca_key, error) ||
            !write_certificates(folder, "ca.pem", ca, NULL, error)) {
            set_openssl_error("make the local CA", error);
            return false;
        }
    }
    g_clear_pointer(&leaf, X509_free);
    g_clear_pointer(&leaf_key, EVP_PKEY_free);
    leaf_key = EVP_EC_gen("P-256");
    leaf = leaf_key != NULL ? make_leaf(leaf_key, ca, ca_key, host_name) : NULL;
    if (leaf == NULL || !write_key(folder, "key.pem", leaf_key, error) ||
        !write_certificates(folder, "cert.pem", leaf, ca, error)) {
        set_openssl_error("make a certificate", error);
        return false;
    }
    return true;
}
