/* password.c - Argon2id behind a semaphore, and SCRAM verifiers */
#include "identity/password.h"

#include "posthouse/login.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium.h>
#include <string.h>

enum {
    SCRAM_ITERATIONS = 4096,
    SCRAM_SALT_BYTES = 16,
    SHA256_BYTES = 32,
};

/* -- the semaphore ----------------------------------------------------------------------------- */

static struct {
    PhMutex mutex;
    GCond cond;
    unsigned running;
} hashing = { .mutex = { .rank = PH_LOCK_IDENTITY } };

static void
enter_hashing(void)
{
    ph_mutex_lock(&hashing.mutex);
    while (hashing.running >= g_get_num_processors())
        ph_mutex_wait(&hashing.mutex, &hashing.cond);
    hashing.running++;
    ph_mutex_unlock(&hashing.mutex);
}

static void
leave_hashing(void)
{
    ph_mutex_lock(&hashing.mutex);
    hashing.running--;
    g_cond_signal(&hashing.cond);
    ph_mutex_unlock(&hashing.mutex);
}

/* -- Argon2id ---------------------------------------------------------------------------------- */

bool
ph_password_check(const PhSecret *password, GError **error)
{
    if (ph_secret_length(password) >= PH_PASSWORD_MIN_BYTES)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a password needs at least %d characters",
        PH_PASSWORD_MIN_BYTES);
    return false;
}

char *
ph_password_hash_blocking(const PhSecret *password, GError **error)
{
    ph_assert_in_job();
    char verifier[crypto_pwhash_STRBYTES];
    enter_hashing();
    int result = crypto_pwhash_str_alg(verifier, ph_secret_bytes(password),
        ph_secret_length(password), crypto_pwhash_OPSLIMIT_INTERACTIVE,
        crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13);
    leave_hashing();
    if (result == 0)
        return g_strdup(verifier);
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "no memory to hash a password");
    return NULL;
}

static bool
verify_argon2(const char *verifier, const PhSecret *password)
{
    enter_hashing();
    int result =
        crypto_pwhash_str_verify(verifier, ph_secret_bytes(password), ph_secret_length(password));
    leave_hashing();
    return result == 0;
}

void
ph_password_waste_blocking(const PhSecret *password)
{
    uint8_t out[SHA256_BYTES];
    static const uint8_t salt[crypto_pwhash_SALTBYTES];
    enter_hashing();
    int result = crypto_pwhash(out, sizeof(out), ph_secret_bytes(password),
        ph_secret_length(password), salt, crypto_pwhash_OPSLIMIT_INTERACTIVE,
        crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13);
    leave_hashing();
    (void)result;
}

/* -- SCRAM ------------------------------------------------------------------------------------- */

/* StoredKey and ServerKey of RFC 5802 section 3. */
static bool
derive_scram(const PhSecret *password, const uint8_t *salt, size_t salt_length, int iterations,
    uint8_t *stored_key, uint8_t *server_key)
{
    uint8_t salted[SHA256_BYTES];
    uint8_t client_key[SHA256_BYTES];
    unsigned length = 0;
    bool good = PKCS5_PBKDF2_HMAC(ph_secret_bytes(password), (int)ph_secret_length(password), salt,
                    (int)salt_length, iterations, EVP_sha256(), SHA256_BYTES, salted) == 1 &&
                HMAC(EVP_sha256(), salted, SHA256_BYTES, (const uint8_t *)"Client Key", 10,
                    client_key, &length) != NULL &&
                EVP_Digest(client_key, SHA256_BYTES, stored_key, NULL, EVP_sha256(), NULL) == 1 &&
                HMAC(EVP_sha256(), salted, SHA256_BYTES, (const uint8_t *)"Server Key", 10,
                    server_key, &length) != NULL;
    ph_wipe(salted, sizeof(salted));
    ph_wipe(client_key, sizeof(client_key));
    return good;
}

static bool
verify_scram(const char *verifier, const PhSecret *password)
{
    /* "SCRAM-SHA-256" "N:SALT" "STORED:SERVER" */
    g_auto(GStrv) parts = g_strsplit(verifier, "$", 3);
    if (g_strv_length(parts) != 3)
        return false;
    g_auto(GStrv) cost = g_strsplit(parts[1], ":", 2);
    g_auto(GStrv) keys = g_strsplit(parts[2], ":", 2);
    guint64 iterations;
    if (g_strv_length(cost) != 2 || g_strv_length(keys) != 2 ||
        !g_ascii_string_to_unsigned(cost[0], 10, 1, 10000000, &iterations, NULL))
        return false;
    gsize salt_length = 0;
    gsize stored_length = 0;
    g_autofree guchar *salt = g_base64_decode(cost[1], &salt_length);
    g_autofree guchar *stored = g_base64_decode(keys[0], &stored_length);
    uint8_t stored_key[SHA256_BYTES];
    uint8_t server_key[SHA256_BYTES];
    return stored_length == SHA256_BYTES &&
           derive_scram(password, salt, salt_length, (int)iterations, stored_key, server_key) &&
           sodium_memcmp(stored, stored_key, SHA256_BYTES) == 0;
}

bool
ph_password_verify_blocking(const char *verifier, const PhSecret *password)
{
    ph_assert_in_job();
    if (g_str_has_prefix(verifier, "$argon2id$"))
        return verify_argon2(verifier, password);
    if (g_str_has_prefix(verifier, "SCRAM-SHA-256$"))
        return verify_scram(verifier, password);
    return false;
}

/* At least 128 random bits as 26 letters and digits without look-alikes, in groups of four. */
static PhSecret *
random_words(void)
{
    static const char digits[] = "abcdefghjkmnpqrstuvwxyz23456789";
    char text[26 + 6 + 1];
    size_t length = 0;
    for (size_t i = 0; i < 26; i++) {
        if (i > 0 && i % 4 == 0)
            text[length++] = '-';
        text[length++] = digits[randombytes_uniform(sizeof(digits) - 1)];
    }
    PhSecret *secret = ph_secret_new(text, length);
    ph_wipe(text, sizeof(text));
    return secret;
}

PhSecret *
ph_app_password_new_blocking(char **verifier_out, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhSecret) password = random_words();
    uint8_t salt[SCRAM_SALT_BYTES];
    uint8_t stored_key[SHA256_BYTES];
    uint8_t server_key[SHA256_BYTES];
    randombytes_buf(salt, sizeof(salt));
    if (!derive_scram(password, salt, sizeof(salt), SCRAM_ITERATIONS, stored_key, server_key)) {
        g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "cannot derive a SCRAM verifier");
        return NULL;
    }
    g_autofree char *salt_text = g_base64_encode(salt, sizeof(salt));
    g_autofree char *stored_text = g_base64_encode(stored_key, sizeof(stored_key));
    g_autofree char *server_text = g_base64_encode(server_key, sizeof(server_key));
    *verifier_out = g_strdup_printf(
        "SCRAM-SHA-256$%d:%s$%s:%s", SCRAM_ITERATIONS, salt_text, stored_text, server_text);
    return g_steal_pointer(&password);
}
