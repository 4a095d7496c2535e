/* test-client.h - the other end of a connection, for tests: blocking, on loopback, never waiting
 * for ever
 *
 * Threads:  the test's.
 * Errors:   a test that waits for 10 s has failed.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEST_PATIENCE_MS = 10000 };

typedef struct TestClient {
    int fd;
    void *ssl;      /* SSL, after test_client_start_tls() */
    GString *input; /* read, not yet taken */
    bool is_reset;  /* the peer reset the connection */
} TestClient;

/* To 127.0.0.1. */
TestClient *test_client_new(int port);
/* With a small receive buffer, for tests of back-pressure. */
TestClient *test_client_new_small(int port, int buffer_bytes);
void test_client_free(TestClient *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(TestClient, test_client_free)

void test_client_send(TestClient *client, const void *bytes, size_t length);
void test_client_puts(TestClient *client, const char *text);
/* As much as the kernel takes now; less than `length` when the peer does not read. */
size_t test_client_send_some(TestClient *client, const void *bytes, size_t length);
/* A line without its end (LF or CR LF); null at the end of the stream. */
char *test_client_line(TestClient *client);
/* All that comes until the peer closes. */
char *test_client_rest(TestClient *client, size_t *length_out);
/* Exactly so many bytes; fails the test when there are fewer. */
char *test_client_bytes(TestClient *client, size_t length);
/* True: the peer closed, and sent nothing more than what was taken. */
bool test_client_is_closed(TestClient *client);
/* Nothing comes for so long. */
bool test_client_is_quiet(TestClient *client, int for_ms);
/* The end of what we send (with TLS after close_notify). */
void test_client_shutdown(TestClient *client);
/* Handshake; verifies against `ca_path` for "localhost". False when it fails. `alpn` (may be null)
 * is what is offered. */
bool test_client_start_tls(TestClient *client, const char *ca_path, const char *alpn);

/* Asserts that the next line is this. */
#define test_client_expect(client, expected) \
    do { \
        g_autofree char *line_ = test_client_line(client); \
        g_assert_cmpstr(line_, ==, expected); \
    } while (0)

/* Waits until `condition` is true, at most TEST_PATIENCE_MS; fails the test otherwise. */
#define test_wait_for(condition) \
    do { \
        int64_t until_ = g_get_monotonic_time() + TEST_PATIENCE_MS * INT64_C(1000); \
        while (!(condition)) { \
            g_assert_cmpint(g_get_monotonic_time(), <, until_); \
            g_usleep(1000); \
        } \
    } while (0)

/* A new folder below the temporary one; test_folder_free() removes it with all that is in it. */
char *test_folder_new(void);
void test_folder_free(char *folder);
