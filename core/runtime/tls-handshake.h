/* tls-handshake.h - what connections need of OpenSSL
 *
 * Threads:  anywhere; an SSL belongs to its connection.
 */
#pragma once

#include "posthouse/connection.h"

#include <openssl/ssl.h>

/* New handshakes; null when there is no certificate. The BIO works on `fd`, without SIGPIPE. */
SSL *ph_tls_server_new(int fd, const PhServiceRow *service);
/* `ca` (PEM) takes the place of the system's authorities. Null: it holds none. */
SSL *ph_tls_client_new(int fd, const char *server_name, const char *ca);
/* The oldest error of OpenSSL in this thread, as text; empties the queue. */
const char *ph_tls_take_error(void);
