/* seal.h - secrets at rest
 *
 * Shape:    XSalsa20-Poly1305 with a random nonce in front (libsodium's secretbox). The key is a file
 *           of 32 random bytes that only the run user can read.
 * Threads:  anywhere.
 * Errors:   SYNTAX (changed, or sealed with another key; no key), NOT_FOUND (no file), TEMPORARY
 *           (cannot write).
 */
#pragma once

#include "posthouse/base.h"

/* STATE/secret.key: made when missing (0600). */
PhSecret *ph_seal_key_load(const char *path, GError **error);

GBytes *ph_seal(const PhSecret *key, const void *plain, size_t length);
PhSecret *ph_unseal(const PhSecret *key, GBytes *sealed, GError **error);

/* A value as a sealed file, replaced as a whole. */
bool ph_seal_write(const char *path, const PhSecret *key, GVariant *value, GError **error);
/* A new reference. A file of another type is SYNTAX. */
GVariant *ph_seal_read(
    const char *path, const PhSecret *key, const GVariantType *type, GError **error);
