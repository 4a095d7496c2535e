/* login.c - the three answers
 *
 * Every login reads the account's record (one round trip), so a new password, a suspended account
 * or a database that is away is known at once, on every node. The cache only spares the password
 * hash: it remembers, under a key that nobody outside this process knows, which credential a
 * (login, password) pair matched at which version of the account.
 */
#include "identity/login.h"

#include "identity/password.h"
#include "identity/throttle.h"
#include "posthouse/account.h"
#include "posthouse/log.h"
#include "posthouse/metrics.h"
#include "store/store.h"

#include <math.h>
#include <sodium.h>
#include <string.h>

const PhSettingRow ph_identity_settings[] = {
    { "identity.cache.lifetime_s", PH_SETTING_TIME, "3600", 0, 86400, NULL, PH_SCOPE_GLOBAL,
        "How long a checked password spares the next login its hash; 0 checks each time." },
    { "identity.cache.max_entries", PH_SETTING_INT, "20000", 0, 1000000, NULL, PH_SCOPE_GLOBAL,
        "Passwords remembered as checked." },
    { "identity.throttle.address_failures", PH_SETTING_INT, "100", 5, 1000000, NULL,
        PH_SCOPE_GLOBAL,
        "Failed logins from one address (IPv6: one /64) before it is refused; the count halves "
        "every five minutes." },
    { "identity.throttle.login_failures", PH_SETTING_INT, "20", 3, 1000000, NULL, PH_SCOPE_GLOBAL,
        "Failed logins to one account from one address before that pair is refused." },
    { "identity.plaintext.allow_loopback", PH_SETTING_BOOL, "false", 0, 0, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE, "Take passwords without TLS from clients on this host." },
    { 0 },
};

enum { CACHE_KEY_BYTES = 32 };

typedef struct Remembered {
    uint8_t key[CACHE_KEY_BYTES];
    int64_t credential_id; /* 0: none matched */
    int64_t version;
    int64_t until_us;
} Remembered;

static struct {
    PhMutex mutex;
    GHashTable *entries; /* Remembered by its key */
    uint8_t secret[crypto_generichash_KEYBYTES];
    bool has_secret;
} cache = { .mutex = { .rank = PH_LOCK_IDENTITY } };

void
ph_identity_free(PhIdentity *identity)
{
    if (identity == NULL)
        return;
    g_free(identity->login);
    g_free(identity);
}

/* -- the cache --------------------------------------------------------------------------------- */

static guint
remembered_hash(gconstpointer data)
{
    guint hash;
    memcpy(&hash, ((const Remembered *)data)->key, sizeof(hash));
    return hash;
}

static gboolean
remembered_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(((const Remembered *)a)->key, ((const Remembered *)b)->key, CACHE_KEY_BYTES) == 0;
}

static void
make_key_locked(const PhLoginRequest *request, uint8_t *key_out)
{
    if (!cache.has_secret) {
        randombytes_buf(cache.secret, sizeof(cache.secret));
        cache.has_secret = true;
    }
    crypto_generichash_state state;
    crypto_generichash_init(&state, cache.secret, sizeof(cache.secret), CACHE_KEY_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)request->login, strlen(request->login) + 1);
    crypto_generichash_update(
        &state, ph_secret_bytes(request->password), ph_secret_length(request->password));
    crypto_generichash_final(&state, key_out, CACHE_KEY_BYTES);
}

static bool
recall(const PhLoginRequest *request, int64_t version, int64_t *credential_id_out)
{
    Remembered wanted;
    ph_mutex_lock(&cache.mutex);
    make_key_locked(request, wanted.key);
    const Remembered *found =
        cache.entries != NULL ? g_hash_table_lookup(cache.entries, &wanted) : NULL;
    bool known = found != NULL && found->version == version && found->until_us > ph_monotonic_us();
    if (known)
        *credential_id_out = found->credential_id;
    ph_mutex_unlock(&cache.mutex);
    return known;
}

static void
remember(const PhLoginRequest *request, int64_t version, int64_t credential_id)
{
    int64_t lifetime_s = ph_setting_int("identity.cache.lifetime_s");
    int64_t most = ph_setting_int("identity.cache.max_entries");
    if (lifetime_s == 0 || most == 0)
        return;
    Remembered *entry = g_new0(Remembered, 1);
    entry->credential_id = credential_id;
    entry->version = version;
    entry->until_us = ph_monotonic_us() + lifetime_s * G_USEC_PER_SEC;
    ph_mutex_lock(&cache.mutex);
    make_key_locked(request, entry->key);
    if (cache.entries == NULL)
        cache.entries = g_hash_table_new_full(remembered_hash, remembered_equal, NULL, g_free);
    /* Full: start anew. Rare, and costs each person one hash. */
    if (g_hash_table_size(cache.entries) >= (guint)most)
        g_hash_table_remove_all(cache.entries);
    g_hash_table_replace(cache.entries, entry, entry);
    ph_mutex_unlock(&cache.mutex);
}

void
ph_login_cache_clear(void)
{
    ph_mutex_lock(&cache.mutex);
    g_clear_pointer(&cache.entries, g_hash_table_unref);
    ph_mutex_unlock(&cache.mutex);
}

/* -- checking ---------------------------------------------------------------------------------- */

/* The id of the credential that the password matches; 0: none. */
PH_IN_JOB static int64_t
match(const PhLoginRequest *request, const PhLoginRecord *record)
{
    int64_t now_us = ph_time_now_us();
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        if (credential->expires_us > now_us &&
            ph_password_verify_blocking(credential->verifier, request->password))
            return credential->id;
    }
    return 0;
}

static bool
is_expired(const PhLoginRecord *record, int64_t credential_id)
{
    int64_t now_us = ph_time_now_us();
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        if (credential->id == credential_id)
            return credential->expires_us <= now_us;
    }
    return true;
}

/* Why this login is refused whatever its password; null: it is not. */
static const char *
refusal(const PhLoginRequest *request, const PhLoginRecord *record)
{
    bool manages =
        strcmp(request->service, "console") == 0 || strcmp(request->service, "control") == 0;
    if (record->account == NULL)
        return manages ? NULL : "an operator has no mailbox";
    if (record->account->state != PH_ACCOUNT_ACTIVE)
        return "the account is not active";
    return NULL;
}

static PhIdentity *
identity_of(const PhLoginRecord *record)
{
    PhIdentity *identity = g_new0(PhIdentity, 1);
    identity->version = record->version;
    if (record->account != NULL) {
        identity->account_id = record->account->id;
        identity->domain_id = record->account->domain_id;
        identity->tenant_id = record->account->tenant_id;
        identity->login = g_strdup(record->account->address);
    } else {
        identity->login = g_strdup(record->operator_name);
        identity->tenant_id = record->operator_tenant_id;
        identity->is_operator = true;
    }
    return identity;
}

/* The credential that matches, from the cache or by hashing; 0: none. */
PH_IN_JOB static int64_t
check_password(const PhLoginRequest *request, const PhLoginRecord *record)
{
    int64_t credential_id = 0;
    if (recall(request, record->version, &credential_id)) {
        if (credential_id == 0 || !is_expired(record, credential_id))
            return credential_id;
        return 0;
    }
    credential_id = match(request, record);
    if (record->credentials->len == 0)
        ph_password_waste_blocking(request->password);
    if (credential_id == 0)
        return 0; /* not remembered: guessing would push out what is good */
    remember(request, record->version, credential_id);
    if (record->account != NULL) {
        /* When it was last used is for people to read: losing it is no reason to refuse. */
        g_autoptr(GError) error = NULL;
        if (!ph_credential_used_blocking(
                record->account->id, credential_id, request->deadline_us, &error))
            ph_log(PH_LOG_DEBUG, "login.use-not-noted", "%s", error->message);
    }
    return credential_id;
}

static bool
is_app_password(const PhLoginRecord *record, int64_t credential_id)
{
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        if (credential->id == credential_id && credential->kind == PH_CREDENTIAL_APP)
            return true;
    }
    return false;
}

static PhLoginAnswer
answer_no(const PhLoginRequest *request, const char *reason, const char **reason_out)
{
    ph_throttle_failed(request->peer_address, request->login, ph_monotonic_us());
    *reason_out = reason;
    return PH_LOGIN_NO;
}

static const char too_many[] = "too many failures";

static bool
is_closed(const char *peer_address, const char *login)
{
    return ph_throttle_is_closed(peer_address, login, ph_monotonic_us(),
        (double)ph_setting_int("identity.throttle.address_failures"),
        (double)ph_setting_int("identity.throttle.login_failures"));
}

PH_IN_JOB static PhLoginAnswer
ask(const PhLoginRequest *request, PhIdentity **identity_out, const char **reason_out)
{
    if (is_closed(request->peer_address, request->login)) {
        /* Not counted again: who stops guessing is let in after a while. */
        *reason_out = too_many;
        return PH_LOGIN_NO;
    }

    g_autoptr(GError) error = NULL;
    g_autoptr(PhLoginRecord) record =
        ph_login_record_blocking(request->login, request->deadline_us, &error);
    if (record == NULL) {
        PhError code = ph_error_code(error);
        if (code == PH_ERROR_NOT_FOUND || code == PH_ERROR_SYNTAX) {
            ph_password_waste_blocking(request->password);
            return answer_no(request, "no such login", reason_out);
        }
        ph_log(PH_LOG_WARNING, "login.unavailable", "%s", error->message);
        *reason_out = "could not ask";
        return PH_LOGIN_UNAVAILABLE;
    }
    int64_t credential_id = check_password(request, record);
    if (credential_id == 0)
        return answer_no(request, "wrong password", reason_out);
    /* A lost device must not be able to change the account. */
    bool is_for_change =
        strcmp(request->service, "console") == 0 || strcmp(request->service, "password") == 0;
    if (is_for_change && is_app_password(record, credential_id))
        return answer_no(request, "an app password does not change the account", reason_out);
    const char *refused = refusal(request, record);
    if (refused != NULL)
        return answer_no(request, refused, reason_out);
    ph_throttle_succeeded(request->peer_address, request->login);
    *identity_out = identity_of(record);
    *reason_out = "good";
    return PH_LOGIN_YES;
}

static void
log_answer(const char *peer_address, const char *login, const char *service, PhLoginAnswer answer,
    const char *reason)
{
    static const char *const events[] = {
        [PH_LOGIN_YES] = "login.yes",
        [PH_LOGIN_NO] = "login.no",
        [PH_LOGIN_UNAVAILABLE] = "login.unavailable",
    };
    g_autofree char *quoted = ph_log_quote(login);
    ph_log(PH_LOG_INFO, events[answer], "login=\"%s\" peer=%s service=%s reason=\"%s\"", quoted,
        peer_address, service, reason);
}

PhLoginAnswer
ph_login_blocking(const PhLoginRequest *request, PhIdentity **identity_out, const char **reason_out)
{
    ph_assert_in_job();
    const char *reason = NULL;
    PhLoginAnswer answer = ask(request, identity_out, &reason);
    log_answer(request->peer_address, request->login, request->service, answer, reason);
    if (reason_out != NULL)
        *reason_out = reason;
    return answer;
}

bool
ph_login_may_try(const char *peer_address, const char *login, const char *service)
{
    bool closed = is_closed(peer_address, login);
    if (closed)
        log_answer(peer_address, login, service, PH_LOGIN_NO, too_many);
    return !closed;
}

void
ph_login_note(const char *peer_address, const char *login, const char *service,
    PhLoginAnswer answer, const char *reason)
{
    if (answer == PH_LOGIN_NO)
        ph_throttle_failed(peer_address, login, ph_monotonic_us());
    else if (answer == PH_LOGIN_YES)
        ph_throttle_succeeded(peer_address, login);
    log_answer(peer_address, login, service, answer, reason);
}

int64_t
ph_login_delay_ms(const char *peer_address, const char *login)
{
    enum { FIRST_MS = 250, MOST_MS = 15000 };
    double score = ph_throttle_score(peer_address, login, ph_monotonic_us());
    if (score < 1)
        return 0;
    return (int64_t)MIN((double)MOST_MS, FIRST_MS * exp2(score - 1));
}

bool
ph_login_may_send_password(const PhConnection *connection)
{
    return ph_connection_is_secure(connection) ||
           (ph_connection_peer_is_loopback(connection) &&
               ph_setting_bool("identity.plaintext.allow_loopback"));
}

/* -- for sessions ------------------------------------------------------------------------------ */

enum { LOGIN_DEADLINE_S = 30 };

typedef struct LoginJob {
    char *login;
    PhSecret *password;
    char *peer;
    char *service;
    PhLoginDone done;
    PhLoginAnswer answer;
    PhIdentity *identity;
} LoginJob;

static void
login_job_free(void *data)
{
    LoginJob *job = data;
    ph_secret_free(job->password);
    ph_identity_free(job->identity);
    g_free(job->login);
    g_free(job->peer);
    g_free(job->service);
    g_free(job);
}

static void
login_job(void *data)
{
    ph_assert_in_job();
    LoginJob *job = data;
    PhLoginRequest request = {
        .login = job->login,
        .password = job->password,
        .peer_address = job->peer,
        .service = job->service,
        .deadline_us = ph_monotonic_us() + LOGIN_DEADLINE_S * G_USEC_PER_SEC,
    };
    job->answer = ph_login_blocking(&request, &job->identity, NULL);
}

static void
login_job_done(PhTask *task, void *data)
{
    LoginJob *job = data;
    int64_t delay_ms = job->answer == PH_LOGIN_NO ? ph_login_delay_ms(job->peer, job->login) : 0;
    job->done(task, job->answer, g_steal_pointer(&job->identity), delay_ms);
}

void
ph_login_run(PhTask *task, const char *login, const PhSecret *password, const char *peer_address,
    const char *service, PhLoginDone done)
{
    LoginJob *job = g_new0(LoginJob, 1);
    job->login = g_strdup(login);
    job->password = ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    job->peer = g_strdup(peer_address);
    job->service = g_strdup(service);
    job->done = done;
    /* Hashing waits for its semaphore: a flood of logins must not hold the workers that mail needs. */
    ph_task_run(task, PH_LANE_SLOW, login_job, login_job_done, job, login_job_free);
}

bool
ph_password_change_blocking(const PhIdentity *whose, const char *origin, const PhSecret *password,
    int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    if (!ph_password_check(password, error))
        return false;
    g_autofree char *verifier = ph_password_hash_blocking(password, error);
    if (verifier == NULL || !ph_password_set_blocking(whose->login, verifier, deadline_us, error))
        return false;
    const PhAuditNote note = {
        .tenant_id = whose->tenant_id,
        .actor = whose->login,
        .origin = origin,
        .action = "user.passwd",
        .target = whose->login,
        .outcome = "done",
        .detail = "{}",
    };
    g_autoptr(GError) cause = NULL;
    if (!ph_audit_write_blocking(&note, deadline_us, &cause))
        ph_log(PH_LOG_ERROR, "action.not-audited", "action=user.passwd %s", cause->message);
    return true;
}
