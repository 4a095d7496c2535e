/* console.c - who calls the API: sessions, API keys, one-time links
 *
 * Hard here: while the database is away, those who were logged in stay so. What it last said of a
 * session is remembered for a quarter of an hour; the sessions of links are only in memory.
 */
#include "management/console.h"

#include "management/api.h"
#include "posthouse/log.h"
#include "posthouse/login.h"

#include <sodium.h>
#include <string.h>

enum {
    SESSION_S = 12 * 3600,
    LINK_S = 600,
    REMEMBERED_S = 900,
    REMEMBERED_MAX = 10000,
    DEADLINE_S = 10,
    TOKEN_BYTES = 32,
};

/* What is known of a session. */
typedef struct Known {
    uint8_t hash[PH_TOKEN_HASH_BYTES]; /* the key */
    PhStoredLogin *login;
    int64_t until_us; /* of the monotonic clock */
    bool only_here;   /* no row: a link's session */
} Known;

static struct {
    PhMutex mutex;
    GHashTable *sessions; /* Known */
    GHashTable *links;    /* Known: logins that wait to be taken */
} console = { .mutex = { .rank = PH_LOCK_IDENTITY } };

/* -- tokens ------------------------------------------------------------------------------------ */

void
ph_token_hash(const char *token, uint8_t hash_out[PH_TOKEN_HASH_BYTES])
{
    crypto_generichash(
        hash_out, PH_TOKEN_HASH_BYTES, (const uint8_t *)token, strlen(token), NULL, 0);
}

char *
ph_token_new(uint8_t hash_out[PH_TOKEN_HASH_BYTES])
{
    uint8_t bytes[TOKEN_BYTES];
    char text[sodium_base64_ENCODED_LEN(TOKEN_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING)];
    randombytes_buf(bytes, sizeof(bytes));
    sodium_bin2base64(
        text, sizeof(text), bytes, sizeof(bytes), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    if (hash_out != NULL)
        ph_token_hash(text, hash_out);
    return g_strdup(text);
}

/* -- what is remembered ------------------------------------------------------------------------ */

static guint
hash_of(gconstpointer key)
{
    guint hash;
    memcpy(&hash, key, sizeof(hash)); /* the key is a hash */
    return hash;
}

static gboolean
same_hash(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, PH_TOKEN_HASH_BYTES) == 0;
}

static void
free_known(gpointer data)
{
    Known *known = data;
    ph_stored_login_free(known->login);
    g_free(known);
}

static void
init_locked(void)
{
    if (console.sessions != NULL)
        return;
    console.sessions = g_hash_table_new_full(hash_of, same_hash, NULL, free_known);
    console.links = g_hash_table_new_full(hash_of, same_hash, NULL, free_known);
}

static PhStoredLogin *
copy_login(const PhStoredLogin *login)
{
    PhStoredLogin *copy = g_new(PhStoredLogin, 1);
    *copy = *login;
    copy->login = g_strdup(login->login);
    copy->csrf = g_strdup(login->csrf);
    copy->peer = g_strdup(login->peer);
    return copy;
}

static gboolean
is_over(gpointer key, gpointer value, gpointer now_us)
{
    (void)key;
    return ((const Known *)value)->until_us <= *(const int64_t *)now_us;
}

static void
remember(GHashTable *table, const uint8_t *hash, const PhStoredLogin *login, int64_t seconds,
    bool only_here)
{
    int64_t now_us = ph_monotonic_us();
    Known *known = g_new(Known, 1);
    *known = (Known){
        .login = copy_login(login),
        .until_us = now_us + seconds * G_USEC_PER_SEC,
        .only_here = only_here,
    };
    memcpy(known->hash, hash, PH_TOKEN_HASH_BYTES);
    if (g_hash_table_size(table) >= REMEMBERED_MAX)
        g_hash_table_foreach_remove(table, is_over, &now_us);
    if (g_hash_table_size(table) < REMEMBERED_MAX)
        g_hash_table_replace(table, known->hash, known);
    else
        free_known(known);
}

static void
remember_session(const uint8_t *hash, const PhStoredLogin *login, int64_t seconds, bool only_here)
{
    ph_mutex_lock(&console.mutex);
    init_locked();
    remember(console.sessions, hash, login, seconds, only_here);
    ph_mutex_unlock(&console.mutex);
}

/* A copy of what is remembered, or null. */
static PhStoredLogin *
recall(const uint8_t *hash, bool *only_here_out)
{
    ph_mutex_lock(&console.mutex);
    init_locked();
    const Known *known = g_hash_table_lookup(console.sessions, hash);
    PhStoredLogin *login = NULL;
    *only_here_out = false;
    if (known != NULL && known->until_us > ph_monotonic_us() &&
        known->login->expires_us > ph_time_now_us()) {
        login = copy_login(known->login);
        *only_here_out = known->only_here;
    }
    ph_mutex_unlock(&console.mutex);
    return login;
}

static void
forget(const uint8_t *hash)
{
    ph_mutex_lock(&console.mutex);
    init_locked();
    g_hash_table_remove(console.sessions, hash);
    ph_mutex_unlock(&console.mutex);
}

void
ph_console_forget(void)
{
    ph_mutex_lock(&console.mutex);
    g_clear_pointer(&console.sessions, g_hash_table_unref);
    g_clear_pointer(&console.links, g_hash_table_unref);
    ph_mutex_unlock(&console.mutex);
}

/* -- one-time links ---------------------------------------------------------------------------- */

char *
ph_console_link_new(const char *actor, int64_t *expires_us_out)
{
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    char *token = ph_token_new(hash);
    g_autoptr(PhStoredLogin) login = g_new(PhStoredLogin, 1);
    *login = (PhStoredLogin){
        .login = g_strdup(actor),
        .role = PH_ROLE_OPERATOR,
        .peer = g_strdup("link"),
        .expires_us = ph_time_now_us() + (int64_t)LINK_S * G_USEC_PER_SEC,
    };
    *expires_us_out = login->expires_us;
    ph_mutex_lock(&console.mutex);
    init_locked();
    remember(console.links, hash, login, LINK_S, true);
    ph_mutex_unlock(&console.mutex);
    return token;
}

/* The login of a link, which is used up. */
static PhStoredLogin *
take_link(const char *token)
{
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    ph_token_hash(token, hash);
    ph_mutex_lock(&console.mutex);
    init_locked();
    const Known *known = g_hash_table_lookup(console.links, hash);
    PhStoredLogin *login =
        known != NULL && known->until_us > ph_monotonic_us() ? copy_login(known->login) : NULL;
    g_hash_table_remove(console.links, hash);
    ph_mutex_unlock(&console.mutex);
    return login;
}

/* -- sessions ---------------------------------------------------------------------------------- */

static int64_t
deadline(void)
{
    return ph_monotonic_us() + (int64_t)DEADLINE_S * G_USEC_PER_SEC;
}

static void
answer_login(PhApiResponse *response, const PhStoredLogin *login)
{
    g_autoptr(JsonObject) answer = json_object_new();
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(login->expires_us / G_USEC_PER_SEC);
    g_autofree char *expires = g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ");
    json_object_set_string_member(answer, "login", login->login);
    json_object_set_string_member(answer, "role", ph_role_name((PhRole)login->role));
    if (login->csrf != NULL)
        json_object_set_string_member(answer, "csrf", login->csrf);
    json_object_set_string_member(answer, "expires", expires);
    ph_api_answer(response, answer);
}

/* A cookie for a new session of this login, which is completed. */
static char *
begin_session(PhStoredLogin *login, uint8_t hash_out[PH_TOKEN_HASH_BYTES])
{
    g_autofree char *token = ph_token_new(hash_out);
    g_free(login->csrf);
    login->csrf = ph_token_new(NULL);
    login->expires_us = ph_time_now_us() + (int64_t)SESSION_S * G_USEC_PER_SEC;
    return g_strdup_printf(PH_CONSOLE_COOKIE "=%s; Path=/; Max-Age=%d; Secure; HttpOnly; "
                                             "SameSite=Strict",
        token, (int)SESSION_S);
}

static PhRole
role_of(const PhIdentity *identity)
{
    if (!identity->is_operator)
        return PH_ROLE_USER;
    return identity->tenant_id == 0 ? PH_ROLE_OPERATOR : PH_ROLE_TENANT;
}

/* What is no text is none: JSON-GLib's own getter gives null for a number. */
static const char *
text_member(JsonObject *body, const char *name)
{
    JsonNode *node = json_object_get_member(body, name);
    const char *text =
        node != NULL && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_string(node) : NULL;
    return text != NULL ? text : "";
}

PH_IN_JOB static void
log_in(const PhApiRequest *request, JsonObject *body, PhApiResponse *response)
{
    const char *name = text_member(body, "login");
    const char *text = text_member(body, "password");
    g_autoptr(PhSecret) password = ph_secret_new(text, strlen(text));
    g_autoptr(PhIdentity) identity = NULL;
    const PhLoginRequest ask = {
        .login = name,
        .password = password,
        .peer_address = request->peer_address,
        .service = "console",
        .deadline_us = deadline(),
    };
    PhLoginAnswer answer = ph_login_blocking(&ask, &identity, NULL);
    if (answer == PH_LOGIN_UNAVAILABLE) {
        ph_api_fail(response, 503,
            g_error_new(PH_ERROR, PH_ERROR_UNAVAILABLE,
                "the database is away; an operator can log in by \"posthouse console-link\""));
        return;
    }
    if (answer == PH_LOGIN_NO) {
        int64_t delay_ms = ph_login_delay_ms(request->peer_address, name);
        response->retry_after_s = (delay_ms + 999) / 1000;
        ph_api_fail(
            response, 401, g_error_new(PH_ERROR, PH_ERROR_DENIED, "login or password is wrong"));
        return;
    }
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    g_autoptr(PhStoredLogin) login = g_new(PhStoredLogin, 1);
    *login = (PhStoredLogin){
        .login = g_strdup(identity->login),
        .role = (int)role_of(identity),
        .tenant_id = identity->tenant_id,
        .account_id = identity->account_id,
        .peer = g_strdup(request->peer_address),
        .version = identity->version,
    };
    GError *error = NULL;
    char *cookie = begin_session(login, hash);
    if (!ph_console_session_add_blocking(hash, login, deadline(), &error)) {
        g_free(cookie);
        ph_api_fail(response, 503, error);
        return;
    }
    remember_session(hash, login, REMEMBERED_S, false);
    response->set_cookie = cookie;
    answer_login(response, login);
}

static void
log_in_by_link(const PhApiRequest *request, JsonObject *body, PhApiResponse *response)
{
    const char *token = text_member(body, "token");
    g_autoptr(PhStoredLogin) login = take_link(token);
    if (login == NULL) {
        ph_api_fail(response, 401,
            g_error_new(PH_ERROR, PH_ERROR_DENIED, "this link was used, or is too old"));
        return;
    }
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    response->set_cookie = begin_session(login, hash);
    remember_session(hash, login, SESSION_S, true);
    ph_log(PH_LOG_NOTICE, "console.link-used", "login=%s peer=%s", login->login,
        request->peer_address);
    answer_login(response, login);
}

PH_IN_JOB static PhStoredLogin *
find_session(const char *token, GError **error)
{
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    bool only_here;
    ph_token_hash(token, hash);
    g_autoptr(PhStoredLogin) known = recall(hash, &only_here);
    if (known != NULL && only_here)
        return g_steal_pointer(&known);
    g_autoptr(GError) cause = NULL;
    PhStoredLogin *login = ph_console_session_find_blocking(hash, deadline(), &cause);
    if (login != NULL) {
        remember_session(hash, login, REMEMBERED_S, false);
        return login;
    }
    if (ph_error_code(cause) != PH_ERROR_NOT_FOUND && known != NULL)
        return g_steal_pointer(&known); /* could not ask: what was known lately holds */
    if (ph_error_code(cause) == PH_ERROR_NOT_FOUND)
        forget(hash);
    g_propagate_error(error, g_steal_pointer(&cause));
    return NULL;
}

PH_IN_JOB static PhStoredLogin *
find_key(const char *authorization, GError **error)
{
    static const char scheme[] = "Bearer ";
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    if (g_ascii_strncasecmp(authorization, scheme, strlen(scheme)) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "Authorization takes \"Bearer KEY\"");
        return NULL;
    }
    ph_token_hash(authorization + strlen(scheme), hash);
    g_autoptr(PhApiKey) key = ph_api_key_find_blocking(hash, deadline(), error);
    if (key == NULL)
        return NULL;
    PhStoredLogin *login = g_new(PhStoredLogin, 1);
    *login = (PhStoredLogin){
        .login = g_strdup_printf("key:%s", key->label),
        .role = key->role,
        .tenant_id = key->tenant_id,
        .expires_us = key->expires_us,
    };
    return login;
}

/* Who calls; null when the answer is already given. */
PH_IN_JOB static PhStoredLogin *
authenticate(const PhApiRequest *request, PhApiResponse *response)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhStoredLogin) login = NULL;
    if (request->authorization != NULL)
        login = find_key(request->authorization, &error);
    else if (request->token != NULL)
        login = find_session(request->token, &error);
    else
        g_set_error(&error, PH_ERROR, PH_ERROR_NOT_FOUND, "log in first");
    if (login == NULL) {
        bool is_no = ph_error_code(error) == PH_ERROR_NOT_FOUND;
        if (is_no)
            error->code = PH_ERROR_DENIED;
        ph_api_fail(response, is_no ? 401 : 503, g_steal_pointer(&error));
        return NULL;
    }
    bool reads = strcmp(request->method, "GET") == 0;
    if (reads || login->csrf == NULL)
        return g_steal_pointer(&login);
    size_t length = strlen(login->csrf);
    if (request->csrf != NULL && strlen(request->csrf) == length &&
        sodium_memcmp(request->csrf, login->csrf, length) == 0)
        return g_steal_pointer(&login);
    ph_api_fail(response, 403,
        g_error_new(PH_ERROR, PH_ERROR_DENIED, "the header X-CSRF-Token is missing or wrong"));
    return NULL;
}

PH_IN_JOB static void
log_out(const PhApiRequest *request, PhApiResponse *response)
{
    uint8_t hash[PH_TOKEN_HASH_BYTES];
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) nothing = json_object_new();
    if (request->token != NULL) {
        ph_token_hash(request->token, hash);
        forget(hash);
        if (!ph_console_session_remove_blocking(hash, deadline(), &error)) {
            ph_api_fail(response, 503, g_steal_pointer(&error));
            return;
        }
    }
    response->set_cookie =
        g_strdup(PH_CONSOLE_COOKIE "=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict");
    ph_api_answer(response, nothing);
}

/* -- requests ---------------------------------------------------------------------------------- */

/* A form of another site cannot send this type. */
static bool
check_type(const PhApiRequest *request, PhApiResponse *response)
{
    if (request->length == 0 ||
        (request->content_type != NULL &&
            g_ascii_strncasecmp(request->content_type, "application/json", 16) == 0))
        return true;
    ph_api_fail(
        response, 415, g_error_new(PH_ERROR, PH_ERROR_SYNTAX, "the body must be application/json"));
    return false;
}

PH_IN_JOB static void
begin(const PhApiRequest *request, bool by_link, PhApiResponse *response)
{
    g_autoptr(JsonParser) parser = json_parser_new_immutable();
    GError *error = NULL;
    JsonNode *root = ph_json_parse(parser, request->body, request->length, &error);
    if (root == NULL)
        ph_api_fail(response, 400, error);
    else if (by_link)
        log_in_by_link(request, json_node_get_object(root), response);
    else
        log_in(request, json_node_get_object(root), response);
}

static void
answer_document(PhApiResponse *response)
{
    response->status = 200;
    response->content_type = g_strdup("application/json");
    response->body = ph_api_document();
}

void
ph_api_handle_blocking(const PhApiRequest *request, PhApiResponse *response)
{
    ph_assert_in_job();
    *response = (PhApiResponse){ 0 };
    bool is_session = strcmp(request->path, "/session") == 0;
    PhLane lane = ph_store_lane();
    ph_store_set_lane(PH_LANE_CONSOLE);
    if (!check_type(request, response)) {
        /* answered */
    } else if (is_session && strcmp(request->method, "POST") == 0) {
        begin(request, false, response);
    } else if (strcmp(request->path, "/session/link") == 0 &&
               strcmp(request->method, "POST") == 0) {
        begin(request, true, response);
    } else {
        g_autoptr(PhStoredLogin) login = authenticate(request, response);
        const PhCaller caller = {
            .actor = login != NULL ? login->login : NULL,
            .origin = request->peer_address,
            .role = login != NULL ? (PhRole)login->role : PH_ROLE_USER,
            .tenant_id = login != NULL ? login->tenant_id : 0,
            .account_id = login != NULL ? login->account_id : 0,
        };
        if (login == NULL) {
            /* answered */
        } else if (is_session && strcmp(request->method, "GET") == 0) {
            answer_login(response, login);
        } else if (is_session && strcmp(request->method, "DELETE") == 0) {
            log_out(request, response);
        } else if (strcmp(request->path, "/openapi.json") == 0) {
            answer_document(response);
        } else {
            ph_api_call_blocking(request, &caller, response);
        }
    }
    ph_store_set_lane(lane);
}
