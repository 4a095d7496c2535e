/* seal.c - secrets at rest */
#include "runtime/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8 };
static const char magic[MAGIC_BYTES + 1] = "PHSEAL01";
static const size_t head_bytes = MAGIC_BYTES + crypto_secretbox_NONCEBYTES;

PhSecret *
ph_seal_key_load(const char *path, GError **error)
{
    char *bytes = NULL;
    size_t length;
    if (g_file_get_contents(path, &bytes, &length, NULL) && length == crypto_secretbox_KEYBYTES) {
        PhSecret *key = ph_secret_new(bytes, length);
        ph_wipe(bytes, length);
        g_free(bytes);
        return key;
    }
    if (bytes != NULL || g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_free(bytes);
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is not a readable key", path);
        return NULL;
    }
    g_autoptr(PhSecret) key = ph_secret_new_random(crypto_secretbox_KEYBYTES);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, ph_secret_bytes(key), crypto_secretbox_KEYBYTES) ==
                               crypto_secretbox_KEYBYTES;
    good = good && fsync(fd) == 0;
    int failure = errno;
    if (fd >= 0)
        close(fd);
    if (!good) {
        if (fd >= 0)
            unlink(path); /* half a key would be refused at each start */
        g_set_error(
            error, PH_ERROR, PH_ERROR_TEMPORARY, "write \"%s\": %s", path, g_strerror(failure));
        return NULL;
    }
    return g_steal_pointer(&key);
}

GBytes *
ph_seal(const PhSecret *key, const void *plain, size_t length)
{
    size_t sealed_length = head_bytes + crypto_secretbox_MACBYTES + length;
    uint8_t *sealed = g_malloc(sealed_length);
    memcpy(sealed, magic, MAGIC_BYTES);
    randombytes_buf(sealed + MAGIC_BYTES, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(sealed + head_bytes, plain, length, sealed + MAGIC_BYTES,
        (const uint8_t *)ph_secret_bytes(key));
    return g_bytes_new_take(sealed, sealed_length);
}

/* Null when it was changed or sealed with another key. */
static uint8_t *
open_sealed(const PhSecret *key, const uint8_t *sealed, size_t length, size_t *plain_length_out)
{
    if (length < head_bytes + crypto_secretbox_MACBYTES || memcmp(sealed, magic, MAGIC_BYTES) != 0)
        return NULL;
    *plain_length_out = length - head_bytes - crypto_secretbox_MACBYTES;
    uint8_t *plain = g_malloc(*plain_length_out + 1);
    if (crypto_secretbox_open_easy(plain, sealed + head_bytes, length - head_bytes,
            sealed + MAGIC_BYTES, (const uint8_t *)ph_secret_bytes(key)) == 0)
        return plain;
    g_free(plain);
    return NULL;
}

PhSecret *
ph_unseal(const PhSecret *key, GBytes *sealed, GError **error)
{
    gsize length;
    size_t plain_length;
    const uint8_t *bytes = g_bytes_get_data(sealed, &length);
    uint8_t *plain = open_sealed(key, bytes, length, &plain_length);
    if (plain == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "the sealed secret was changed, or belongs to another STATE/secret.key");
        return NULL;
    }
    PhSecret *secret = ph_secret_new(plain, plain_length);
    ph_wipe(plain, plain_length);
    g_free(plain);
    return secret;
}

bool
ph_seal_write(const char *path, const PhSecret *key, GVariant *value, GError **error)
{
    size_t length = g_variant_get_size(value);
    g_autofree uint8_t *plain = g_malloc(length + 1);
    g_variant_store(value, plain);
    g_autoptr(GBytes) sealed = ph_seal(key, plain, length);
    ph_wipe(plain, length);
    gsize sealed_length;
    const char *bytes = g_bytes_get_data(sealed, &sealed_length);
    g_autoptr(GError) cause = NULL;
    if (g_file_set_contents_full(path, bytes, (gssize)sealed_length,
            G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE, 0600, &cause))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "%s", cause->message);
    return false;
}

GVariant *
ph_seal_read(const char *path, const PhSecret *key, const GVariantType *type, GError **error)
{
    g_autofree char *bytes = NULL;
    gsize length;
    if (!g_file_get_contents(path, &bytes, &length, NULL)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no \"%s\"", path);
        return NULL;
    }
    size_t plain_length = 0;
    uint8_t *plain = open_sealed(key, (const uint8_t *)bytes, length, &plain_length);
    if (plain == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "\"%s\" was changed, or sealed with another key", path);
        return NULL;
    }
    g_autoptr(GBytes) opened = g_bytes_new_take(plain, plain_length);
    GVariant *value = g_variant_ref_sink(g_variant_new_from_bytes(type, opened, FALSE));
    if (g_variant_is_normal_form(value))
        return value;
    g_variant_unref(value);
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is of another version", path);
    return NULL;
}
