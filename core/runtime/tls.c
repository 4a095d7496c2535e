/* tls.c - contexts, our BIO, ALPN
 *
 * The BIO is our own because OpenSSL's socket BIO uses write(), which raises SIGPIPE in programs
 * that forgot to ignore it, and because memory BIOs copy everything twice.
 */
#include "runtime/tls.h"
#include "runtime/tls-handshake.h"

#include "posthouse/log.h"
#include "posthouse/plugin.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    GMutex mutex;
    SSL_CTX *server;         /* the default */
    GHashTable *by_name;     /* name -> SSL_CTX; null: none */
    GPtrArray *certificates; /* what by_name was made of */
    SSL_CTX *client;
    BIO_METHOD *bio;
    int available; /* read without the lock */
} tls;

/* -- the BIO ----------------------------------------------------------------------------------- */

static int
bio_fd(BIO *bio)
{
    return GPOINTER_TO_INT(BIO_get_data(bio));
}

static int
bio_write(BIO *bio, const char *bytes, int length)
{
    BIO_clear_retry_flags(bio);
    ssize_t n = send(bio_fd(bio), bytes, (size_t)length, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static int
bio_read(BIO *bio, char *bytes, int length)
{
    BIO_clear_retry_flags(bio);
    ssize_t n = recv(bio_fd(bio), bytes, (size_t)length, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)n;
}

static long
bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

static bool
attach_bio(SSL *ssl, int fd)
{
    BIO *bio = BIO_new(tls.bio);
    if (bio == NULL)
        return false;
    BIO_set_data(bio, GINT_TO_POINTER(fd));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return true;
}

/* -- contexts ---------------------------------------------------------------------------------- */

const char *
ph_tls_take_error(void)
{
    unsigned long code = ERR_get_error();
    const char *reason = ERR_reason_error_string(code);
    ERR_clear_error();
    return reason != NULL ? reason : "connection closed";
}

/* A client that offers protocols must offer ours: bytes meant for another protocol stay out
 * (ALPACA). */
static int
select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length,
    const unsigned char *offered, unsigned offered_length, void *data)
{
    (void)data;
    const PhServiceRow *service = SSL_get_ex_data(ssl, 0);
    if (service == NULL || service->alpn == NULL)
        return SSL_TLSEXT_ERR_NOACK;
    size_t want = strlen(service->alpn);
    for (unsigned at = 0; at < offered_length; at += 1U + offered[at]) {
        if (at + 1U + offered[at] > offered_length)
            break;
        if (offered[at] == want && memcmp(offered + at + 1, service->alpn, want) == 0) {
            *out = offered + at + 1;
            *out_length = (unsigned char)want;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *
context_new(const SSL_METHOD *method)
{
    SSL_CTX *context = SSL_CTX_new(method);
    if (context == NULL)
        return NULL;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM");
    return context;
}

static void
init_locked(void)
{
    if (tls.bio != NULL)
        return;
    tls.bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "posthouse socket");
    BIO_meth_set_write(tls.bio, bio_write);
    BIO_meth_set_read(tls.bio, bio_read);
    BIO_meth_set_ctrl(tls.bio, bio_ctrl);
    tls.client = context_new(TLS_client_method());
    if (tls.client != NULL)
        SSL_CTX_set_default_verify_paths(tls.client);
}

/* The context for a name (lower case), or null. A reference of the caller's. */
static SSL_CTX *
find_context(const char *name)
{
    g_autofree char *lower = g_ascii_strdown(name, -1);
    const char *dot = strchr(lower, '.');
    g_autofree char *wildcard = dot != NULL && dot > lower ? g_strconcat("*", dot, NULL) : NULL;
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    SSL_CTX *context = tls.by_name != NULL ? g_hash_table_lookup(tls.by_name, lower) : NULL;
    if (context == NULL && tls.by_name != NULL && wildcard != NULL)
        context = g_hash_table_lookup(tls.by_name, wildcard);
    if (context != NULL)
        SSL_CTX_up_ref(context);
    g_mutex_unlock(&tls.mutex);
    return context;
}

/* Whoever asks for a name that has no certificate gets the default one: its owner sees what is
 * missing, and clients that do not verify go on. */
static int
select_certificate(SSL *ssl, int *alert, void *data)
{
    (void)alert;
    (void)data;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    SSL_CTX *context = name != NULL ? find_context(name) : NULL;
    if (context != NULL) {
        SSL_set_SSL_CTX(ssl, context);
        SSL_CTX_free(context);
    }
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *
server_context_new(void)
{
    SSL_CTX *context = context_new(TLS_server_method());
    if (context == NULL)
        return NULL;
    SSL_CTX_set_alpn_select_cb(context, select_alpn, NULL);
    SSL_CTX_set_tlsext_servername_callback(context, select_certificate);
    static const unsigned char session_context[] = "posthouse";
    SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context) - 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets need no cache */
    return context;
}

bool
ph_tls_use_files(const char *certificate_path, const char *key_path, GError **error)
{
    SSL_CTX *context = server_context_new();
    ERR_clear_error();
    bool good = context != NULL &&
                SSL_CTX_use_certificate_chain_file(context, certificate_path) == 1 &&
                SSL_CTX_use_PrivateKey_file(context, key_path, SSL_FILETYPE_PEM) == 1 &&
                SSL_CTX_check_private_key(context) == 1;
    if (!good) {
        PhError code = g_file_test(certificate_path, G_FILE_TEST_EXISTS) ? PH_ERROR_SYNTAX
                                                                         : PH_ERROR_NOT_FOUND;
        g_set_error(error, PH_ERROR, (int)code, "certificate \"%s\": %s", certificate_path,
            ph_tls_take_error());
        SSL_CTX_free(context);
        return false;
    }
    g_mutex_lock(&tls.mutex);
    init_locked();
    SSL_CTX *old = tls.server;
    tls.server = context;
    __atomic_store_n(&tls.available, 1, __ATOMIC_RELEASE);
    ph_handover_give(&tls);
    g_mutex_unlock(&tls.mutex);
    SSL_CTX_free(old);
    return true;
}

/* -- certificates by name ---------------------------------------------------------------------- */

PhTlsCertificate *
ph_tls_certificate_new(const char *chain, const PhSecret *key)
{
    PhTlsCertificate *certificate = g_new(PhTlsCertificate, 1);
    *certificate = (PhTlsCertificate){
        .chain = g_strdup(chain),
        .key = ph_secret_new(ph_secret_bytes(key), ph_secret_length(key)),
    };
    return certificate;
}

void
ph_tls_certificate_free(PhTlsCertificate *certificate)
{
    if (certificate == NULL)
        return;
    g_free(certificate->chain);
    ph_secret_free(certificate->key);
    g_free(certificate);
}

void
ph_tls_certificate_info_clear(PhTlsCertificateInfo *info)
{
    g_free(info->names);
    g_free(info->issuer);
    *info = (PhTlsCertificateInfo){ 0 };
}

static int64_t
time_of(const ASN1_TIME *time)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(time, &parts) != 1)
        return 0;
    return (int64_t)timegm(&parts) * G_USEC_PER_SEC;
}

static char *
common_name(const X509_NAME *name)
{
    char text[256] = "";
    X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof(text));
    return g_utf8_make_valid(text, -1);
}

/* The names of the leaf that a client may ask for: lower case, no NUL, no comma. */
static GPtrArray *
names_of(X509 *leaf)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    GENERAL_NAMES *list = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; list != NULL && i < sk_GENERAL_NAME_num(list); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(list, i);
        if (name->type != GEN_DNS)
            continue;
        const char *text = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
        size_t length = (size_t)ASN1_STRING_length(name->d.dNSName);
        if (length > 0 && strnlen(text, length) == length && memchr(text, ',', length) == NULL)
            g_ptr_array_add(names, g_ascii_strdown(text, (gssize)length));
    }
    GENERAL_NAMES_free(list);
    return names;
}

static void
describe_leaf(X509 *leaf, PhTlsCertificateInfo *info)
{
    g_autoptr(GPtrArray) names = names_of(leaf);
    g_ptr_array_add(names, NULL);
    *info = (PhTlsCertificateInfo){
        .names = g_strjoinv(",", (char **)names->pdata),
        .issuer = common_name(X509_get_issuer_name(leaf)),
        .not_before_us = time_of(X509_get0_notBefore(leaf)),
        .not_after_us = time_of(X509_get0_notAfter(leaf)),
    };
}

/* The chain's certificates, leaf first, and the key into a context. Null is a failure that OpenSSL
 * explains. */
static bool
load_chain(SSL_CTX *context, const char *chain)
{
    BIO *bio = BIO_new_mem_buf(chain, -1);
    X509 *leaf = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool good = leaf != NULL && SSL_CTX_use_certificate(context, leaf) == 1;
    X509_free(leaf);
    X509 *next;
    while (good && (next = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
        if (SSL_CTX_add0_chain_cert(context, next) != 1) {
            X509_free(next);
            good = false;
        }
    if (good)
        ERR_clear_error(); /* the end of the text is an error to the reader */
    BIO_free(bio);
    return good;
}

static bool
load_key(SSL_CTX *context, const PhSecret *key)
{
    BIO *bio = BIO_new_mem_buf(ph_secret_bytes(key), (int)ph_secret_length(key));
    /* An empty passphrase, or OpenSSL would ask at a terminal. */
    static char no_passphrase[] = "";
    EVP_PKEY *pkey = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, no_passphrase) : NULL;
    bool good = pkey != NULL && SSL_CTX_use_PrivateKey(context, pkey) == 1 &&
                SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(pkey);
    BIO_free(bio);
    return good;
}

static SSL_CTX *
context_of(const char *chain, const PhSecret *key, GError **error)
{
    SSL_CTX *context = server_context_new();
    ERR_clear_error();
    if (context != NULL && !load_chain(context, chain))
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the certificate cannot be read: %s",
            ph_tls_take_error());
    else if (context != NULL && key != NULL && !load_key(context, key))
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "the key cannot be read, or belongs to another certificate: %s", ph_tls_take_error());
    else
        return context;
    SSL_CTX_free(context);
    return NULL;
}

bool
ph_tls_inspect(
    const char *chain, const PhSecret *key, PhTlsCertificateInfo *info_out, GError **error)
{
    SSL_CTX *context = context_of(chain, key, error);
    if (context == NULL)
        return false;
    describe_leaf(SSL_CTX_get0_certificate(context), info_out);
    SSL_CTX_free(context);
    return true;
}

static void
free_context(gpointer context)
{
    SSL_CTX_free(context);
}

static int64_t
end_of(const SSL_CTX *context)
{
    return time_of(X509_get0_notAfter(SSL_CTX_get0_certificate(context)));
}

static void
add_names(GHashTable *by_name, SSL_CTX *context)
{
    g_autoptr(GPtrArray) names = names_of(SSL_CTX_get0_certificate(context));
    for (guint i = 0; i < names->len; i++) {
        const SSL_CTX *other = g_hash_table_lookup(by_name, names->pdata[i]);
        if (other != NULL && end_of(other) >= end_of(context))
            continue;
        SSL_CTX_up_ref(context);
        g_hash_table_replace(by_name, g_strdup(names->pdata[i]), context);
    }
}

void
ph_tls_publish(const GPtrArray *certificates)
{
    GHashTable *by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_context);
    GPtrArray *kept = g_ptr_array_new_with_free_func((GDestroyNotify)ph_tls_certificate_free);
    g_mutex_lock(&tls.mutex);
    init_locked();
    g_mutex_unlock(&tls.mutex);
    for (guint i = 0; i < certificates->len; i++) {
        const PhTlsCertificate *certificate = certificates->pdata[i];
        g_autoptr(GError) error = NULL;
        SSL_CTX *context = context_of(certificate->chain, certificate->key, &error);
        if (context == NULL) {
            ph_log(PH_LOG_ERROR, "tls.unusable", "%s", error->message);
            continue;
        }
        add_names(by_name, context);
        SSL_CTX_free(context);
        g_ptr_array_add(kept, ph_tls_certificate_new(certificate->chain, certificate->key));
    }
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    GHashTable *old = tls.by_name;
    GPtrArray *old_kept = tls.certificates;
    tls.by_name = by_name;
    tls.certificates = kept;
    ph_handover_give(&tls);
    g_mutex_unlock(&tls.mutex);
    g_clear_pointer(&old, g_hash_table_unref);
    g_clear_pointer(&old_kept, g_ptr_array_unref);
}

GVariant *
ph_tls_to_variant(void)
{
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE(PH_TLS_VARIANT));
    g_mutex_lock(&tls.mutex);
    for (guint i = 0; tls.certificates != NULL && i < tls.certificates->len; i++) {
        const PhTlsCertificate *certificate = tls.certificates->pdata[i];
        g_variant_builder_add(
            &builder, "(ss)", certificate->chain, ph_secret_bytes(certificate->key));
    }
    g_mutex_unlock(&tls.mutex);
    return g_variant_ref_sink(g_variant_builder_end(&builder));
}

GPtrArray *
ph_tls_from_variant(GVariant *variant)
{
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_tls_certificate_free);
    GVariantIter iter;
    const char *chain;
    const char *text;
    g_variant_iter_init(&iter, variant);
    while (g_variant_iter_next(&iter, "(&s&s)", &chain, &text)) {
        g_autoptr(PhSecret) key = ph_secret_new(text, strlen(text));
        g_ptr_array_add(list, ph_tls_certificate_new(chain, key));
    }
    return list;
}

bool
ph_tls_certificate_for(const char *name, PhTlsCertificateInfo *info_out)
{
    SSL_CTX *context = find_context(name);
    bool is_local = context == NULL;
    if (is_local) {
        g_mutex_lock(&tls.mutex);
        ph_handover_take(&tls);
        context = tls.server;
        if (context != NULL)
            SSL_CTX_up_ref(context);
        g_mutex_unlock(&tls.mutex);
    }
    if (context == NULL)
        return false;
    describe_leaf(SSL_CTX_get0_certificate(context), info_out);
    info_out->is_local = is_local;
    SSL_CTX_free(context);
    return true;
}

void
ph_tls_forget(void)
{
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    SSL_CTX_free(g_steal_pointer(&tls.server));
    g_clear_pointer(&tls.by_name, g_hash_table_unref);
    g_clear_pointer(&tls.certificates, g_ptr_array_unref);
    SSL_CTX_free(g_steal_pointer(&tls.client));
    if (tls.bio != NULL)
        BIO_meth_free(g_steal_pointer(&tls.bio));
    __atomic_store_n(&tls.available, 0, __ATOMIC_RELEASE);
    g_mutex_unlock(&tls.mutex);
}

bool
ph_tls_is_available(void)
{
    return __atomic_load_n(&tls.available, __ATOMIC_ACQUIRE) != 0;
}

SSL *
ph_tls_server_new(int fd, const PhServiceRow *service)
{
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    SSL *ssl = tls.server != NULL ? SSL_new(tls.server) : NULL;
    g_mutex_unlock(&tls.mutex);
    if (ssl == NULL)
        return NULL;
    /* OpenSSL keeps the pointer only to hand it back to select_alpn(). */
    SSL_set_ex_data(ssl, 0, (void *)(uintptr_t)service);
    SSL_set_accept_state(ssl);
    if (!attach_bio(ssl, fd)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

/* Whom this connection trusts, in the place of the system's authorities. */
static bool
trust_only(SSL *ssl, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509_STORE *store = X509_STORE_new();
    X509 *certificate;
    int n = 0;
    while (bio != NULL && store != NULL &&
           (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        n += X509_STORE_add_cert(store, certificate);
        X509_free(certificate);
    }
    ERR_clear_error(); /* the end of the text is one */
    BIO_free(bio);
    /* Takes the store. */
    return n > 0 ? SSL_set0_verify_cert_store(ssl, store) == 1 : (X509_STORE_free(store), false);
}

SSL *
ph_tls_client_new(int fd, const char *server_name, const char *ca)
{
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    init_locked();
    SSL *ssl = tls.client != NULL ? SSL_new(tls.client) : NULL;
    ph_handover_give(&tls);
    g_mutex_unlock(&tls.mutex);
    if (ssl == NULL)
        return NULL;
    SSL_set_connect_state(ssl);
    if (server_name != NULL) {
        g_autofree char *name = g_strdup(server_name); /* the macro below takes no const */
        bool is_address = g_hostname_is_ip_address(name);
        if (is_address)
            X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
        else
            SSL_set1_host(ssl, name);
        if (!is_address) /* RFC 6066 section 3: no addresses */
            SSL_set_tlsext_host_name(ssl, name);
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    }
    if ((ca != NULL && !trust_only(ssl, ca)) || !attach_bio(ssl, fd)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
