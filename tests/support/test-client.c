/* test-client.c - blocking sockets with poll() in front */
#include "test-client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestClient *
test_client_new_small(int port, int buffer_bytes)
{
    TestClient *client = g_new0(TestClient, 1);
    client->input = g_string_new(NULL);
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(client->fd, >=, 0);
    if (buffer_bytes > 0)
        setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (connect(client->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        g_error("connect to port %d: %s", port, g_strerror(errno));
    int one = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return client;
}

TestClient *
test_client_new(int port)
{
    return test_client_new_small(port, 0);
}

void
test_client_free(TestClient *client)
{
    if (client == NULL)
        return;
    SSL_free(client->ssl);
    close(client->fd);
    g_string_free(client->input, TRUE);
    g_free(client);
}

/* False: nothing happened in this time. */
static bool
wait_fd(int fd, short events, int timeout_ms)
{
    struct pollfd polled = { .fd = fd, .events = events };
    return poll(&polled, 1, timeout_ms) > 0;
}

void
test_client_send(TestClient *client, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        g_assert_true(wait_fd(client->fd, POLLOUT, TEST_PATIENCE_MS));
        ssize_t n = client->ssl != NULL ? SSL_write(client->ssl, from, (int)length)
                                        : send(client->fd, from, length, MSG_NOSIGNAL);
        if (n <= 0) {
            client->is_reset = true;
            return;
        }
        from += n;
        length -= (size_t)n;
    }
}

void
test_client_puts(TestClient *client, const char *text)
{
    test_client_send(client, text, strlen(text));
}

size_t
test_client_send_some(TestClient *client, const void *bytes, size_t length)
{
    size_t sent = 0;
    while (sent < length && wait_fd(client->fd, POLLOUT, 300)) {
        ssize_t n = send(
            client->fd, (const char *)bytes + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    return sent;
}

/* Appends what comes; false at the end of the stream. */
static bool
fill(TestClient *client)
{
    char bytes[16384];
    if (client->ssl == NULL || SSL_pending(client->ssl) == 0) {
        if (!wait_fd(client->fd, POLLIN, TEST_PATIENCE_MS))
            g_error("nothing came for %d ms; before: \"%s\"", TEST_PATIENCE_MS, client->input->str);
    }
    ssize_t n = client->ssl != NULL ? SSL_read(client->ssl, bytes, sizeof(bytes))
                                    : recv(client->fd, bytes, sizeof(bytes), 0);
    if (n < 0)
        client->is_reset = true;
    if (n <= 0)
        return false;
    g_string_append_len(client->input, bytes, n);
    return true;
}

char *
test_client_line(TestClient *client)
{
    const char *end;
    while ((end = memchr(client->input->str, '\n', client->input->len)) == NULL)
        if (!fill(client))
            return NULL;
    size_t length = (size_t)(end - client->input->str);
    size_t text = length > 0 && end[-1] == '\r' ? length - 1 : length;
    char *line = g_strndup(client->input->str, text);
    g_string_erase(client->input, 0, (gssize)length + 1);
    return line;
}

char *
test_client_rest(TestClient *client, size_t *length_out)
{
    while (fill(client))
        continue;
    if (length_out != NULL)
        *length_out = client->input->len;
    char *rest = g_memdup2(client->input->str, client->input->len + 1);
    g_string_truncate(client->input, 0);
    return rest;
}

char *
test_client_bytes(TestClient *client, size_t length)
{
    while (client->input->len < length)
        if (!fill(client))
            g_error("the stream ended after %zu of %zu bytes", client->input->len, length);
    char *bytes = g_malloc(length + 1);
    memcpy(bytes, client->input->str, length);
    bytes[length] = '\0';
    g_string_erase(client->input, 0, (gssize)length);
    return bytes;
}

bool
test_client_is_closed(TestClient *client)
{
    size_t length;
    g_autofree char *rest = test_client_rest(client, &length);
    if (length > 0)
        g_test_message("came before the end: \"%s\"", rest);
    return length == 0;
}

bool
test_client_is_quiet(TestClient *client, int for_ms)
{
    return client->input->len == 0 && !wait_fd(client->fd, POLLIN, for_ms);
}

void
test_client_shutdown(TestClient *client)
{
    if (client->ssl != NULL)
        SSL_shutdown(client->ssl);
    shutdown(client->fd, SHUT_WR);
}

bool
test_client_start_tls(TestClient *client, const char *ca_path, const char *alpn)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    g_assert_cmpint(SSL_CTX_load_verify_locations(context, ca_path, NULL), ==, 1);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL *ssl = SSL_new(context);
    SSL_CTX_free(context);
    SSL_set1_host(ssl, "localhost");
    char name[] = "localhost";
    SSL_set_tlsext_host_name(ssl, name);
    if (alpn != NULL) {
        g_autoptr(GByteArray) list = g_byte_array_new();
        uint8_t length = (uint8_t)strlen(alpn);
        g_byte_array_append(list, &length, 1);
        g_byte_array_append(list, (const uint8_t *)alpn, length);
        SSL_set_alpn_protos(ssl, list->data, list->len);
    }
    SSL_set_fd(ssl, client->fd);
    struct timeval patience = { .tv_sec = TEST_PATIENCE_MS / 1000 };
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (SSL_connect(ssl) != 1) {
        g_test_message("handshake: %s", ERR_reason_error_string(ERR_peek_error()));
        ERR_clear_error();
        SSL_free(ssl);
        return false;
    }
    client->ssl = ssl;
    return true;
}

/* -- folders ----------------------------------------------------------------------------------- */

char *
test_folder_new(void)
{
    g_autoptr(GError) error = NULL;
    char *folder = g_dir_make_tmp("posthouse-test-XXXXXX", &error);
    g_assert_no_error(error);
    return folder;
}

void
test_folder_free(char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;
    while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_DIR) && !g_file_test(path, G_FILE_TEST_IS_SYMLINK))
            test_folder_free(g_steal_pointer(&path));
        else
            g_unlink(path);
    }
    g_rmdir(folder);
    g_free(folder);
}
