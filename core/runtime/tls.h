/* tls.h - the server's certificates and what OpenSSL is told
 *
 * Shape:    one current server context, replaced as a whole; connections keep the one they began
 *           with.
 * Threads:  ph_tls_use_files in a job or at start; the rest anywhere.
 * Errors:   SYNTAX (a file that is no certificate or key, or they do not belong together),
 *           NOT_FOUND.
 * Sources:  RFC 8446; RFC 7301 (ALPN); RFC 9325 (which versions and ciphers).
 */
#pragma once

#include "posthouse/base.h"

bool ph_tls_use_files(const char *certificate_path, const char *key_path, GError **error);
void ph_tls_forget(void);
