/* tls.c - contexts, our BIO, ALPN
 *
 * The BIO is our own because OpenSSL's socket BIO uses write(), which raises SIGPIPE in programs
 * that forgot to ignore it, and because memory BIOs copy everything twice.
 */
#include "runtime/tls.h"
#include "runtime/tls-handshake.h"

#include "posthouse/plugin.h"

#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    GMutex mutex;
    SSL_CTX *server;
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

bool
ph_tls_use_files(const char *certificate_path, const char *key_path, GError **error)
{
    SSL_CTX *context = context_new(TLS_server_method());
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
    SSL_CTX_set_alpn_select_cb(context, select_alpn, NULL);
    static const unsigned char session_context[] = "posthouse";
    SSL_CTX_set_session_id_context(context, session_context, sizeof(session_context) - 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets need no cache */

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

void
ph_tls_forget(void)
{
    g_mutex_lock(&tls.mutex);
    ph_handover_take(&tls);
    SSL_CTX_free(g_steal_pointer(&tls.server));
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

SSL *
ph_tls_client_new(int fd, const char *server_name)
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
        SSL_set_tlsext_host_name(ssl, name);
        SSL_set1_host(ssl, name);
        SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    }
    if (!attach_bio(ssl, fd)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
