/* upstream-actions.c - directories behind ours, and how they are: what management can do
 *
 * An action is not a session and knows no state of the plugin: it finds the proxy by the service's name
 * "ldap.proxy".
 */
#include "plugins/ldap/dn.h"
#include "plugins/ldap/proxy.h"

#include "posthouse/action.h"
#include "posthouse/service.h"

#include <string.h>

enum {
    URLS_MAX = 16,
    CONNECTIONS = 4,
    CONNECTIONS_MAX = 64,
    TIMEOUT_MS = 5000,
    TIMEOUT_MIN_MS = 100,
    TIMEOUT_MAX_MS = 600 * 1000,
    CACHE_MAX_S = 86400,
    TEXT_MAX_BYTES = 4096,
    NAME_MAX_BYTES = 64,
};

static const char identities[] = "client|service|for-client";

// clang-format off
#define OPTIONS \
    { "start_tls", PH_ARGUMENT_BOOL, 0, "begin TLS on ldap:// before anything else (no)", NULL, 0, 0 }, \
    { "ca", PH_ARGUMENT_DOCUMENT, 0, "certificates (PEM) to trust for it (the system's)", NULL, 0, 256 * 1024 }, \
    { "bind_dn", PH_ARGUMENT_TEXT, 0, "as whom its shared connections log in (nobody)", NULL, 0, TEXT_MAX_BYTES }, \
    { "password", PH_ARGUMENT_SECRET, 0, "with this password", NULL, 0, 0 }, \
    { "identity", PH_ARGUMENT_TEXT, 0, "reads are asked as the client on a connection of its own, as the service, or by the service for the client (client)", identities, 0, 0 }, \
    { "anonymous", PH_ARGUMENT_BOOL, 0, "who has not logged in may read (no)", NULL, 0, 0 }, \
    { "read_only", PH_ARGUMENT_BOOL, 0, "refuse changes (yes)", NULL, 0, 0 }, \
    { "connections", PH_ARGUMENT_INT, 0, "shared connections to each server, for each reactor (4)", NULL, 1, CONNECTIONS_MAX }, \
    { "timeout_ms", PH_ARGUMENT_INT, 0, "how long a request may wait for its answer (5000)", NULL, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS }, \
    { "cache_s", PH_ARGUMENT_INT, 0, "how long an answer is given again; 0: never (0)", NULL, 0, CACHE_MAX_S }

static const PhArgumentRow list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };
static const PhArgumentRow name_arguments[] = { PH_NEEDED("name", "the upstream"), { 0 } };

static const PhArgumentRow add_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "what to call it", NULL, 0, NAME_MAX_BYTES },
    { "suffix", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the name below which it answers; \"\": whatever nobody else answers for", NULL, 0, TEXT_MAX_BYTES },
    { "urls", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "its servers, the preferred first, divided by spaces or commas: ldap://HOST:PORT or ldaps://HOST", NULL, 0, TEXT_MAX_BYTES },
    OPTIONS,
    { 0 },
};

static const PhArgumentRow change_arguments[] = {
    PH_NEEDED("name", "the upstream"),
    { "suffix", PH_ARGUMENT_TEXT, 0, "the name below which it answers", NULL, 0, TEXT_MAX_BYTES },
    { "urls", PH_ARGUMENT_TEXT, 0, "its servers, the preferred first, divided by spaces or commas", NULL, 0, TEXT_MAX_BYTES },
    OPTIONS,
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

#define ANSWERS(KIND) \
    PH_##KIND("name", TEXT, "what it is called"), \
    PH_##KIND("suffix", TEXT, "the name below which it answers"), \
    PH_##KIND("urls", TEXT, "its servers, the preferred first"), \
    PH_##KIND("start_tls", BOOL, "TLS is begun on ldap://"), \
    PH_##KIND("bind_dn", TEXT, "as whom its shared connections log in"), \
    PH_##KIND("identity", TEXT, "as whom it is asked: client, service, for-client"), \
    PH_##KIND("anonymous", BOOL, "who has not logged in may read"), \
    PH_##KIND("read_only", BOOL, "changes are refused"), \
    PH_##KIND("connections", INT, "shared connections to each server, for each reactor"), \
    PH_##KIND("timeout_ms", INT, "how long a request may wait for its answer"), \
    PH_##KIND("cache_s", INT, "how long an answer is given again"), \
    PH_##KIND("created", TIME, "when it was made"), \
    PH_##KIND("version", INT, "raised by each change")

static const PhAnswerRow show_answers[] = {
    ANSWERS(FIELD),
    { "ca", PH_ANSWER_TEXT, PH_ANSWER_LONG, "certificates to trust for it; none: the system's" },
    { 0 },
};
static const PhAnswerRow list_answers[] = { ANSWERS(ITEM), { 0 } };
static const PhAnswerRow add_answers[] = { PH_FIELD("id", INT, "its number"), { 0 } };

static const PhAnswerRow status_answers[] = {
    PH_ITEM("upstream", TEXT, "the upstream"),
    PH_ITEM("url", TEXT, "one of its servers"),
    PH_ITEM("state", TEXT, "up, degraded (far slower than the others), trying, down, or idle (not asked yet)"),
    PH_ITEM("since", TIME, "since when"),
    PH_ITEM("connections", INT, "connections to it"),
    PH_ITEM("in_flight", INT, "requests under way there"),
    PH_ITEM("answered", INT, "requests that it answered"),
    PH_ITEM("failures", INT, "connections and requests that failed"),
    PH_ITEM("mean_ms", TEXT, "time to an answer, the last ones"),
    PH_ITEM("error", TEXT, "the last failure"),
    PH_ITEM("error_at", TIME, "when that was"),
    PH_FIELD("cached_answers", INT, "answers that are kept"),
    PH_FIELD("cached_bytes", INT, "memory for them"),
    PH_FIELD("cached_binds", INT, "logins that are kept"),
    { 0 },
};
// clang-format on

/* -- upstreams --------------------------------------------------------------------------------- */

static const char *const identity_names[] = {
    [PH_UPSTREAM_AS_CLIENT] = "client",
    [PH_UPSTREAM_AS_SERVICE] = "service",
    [PH_UPSTREAM_FOR_CLIENT] = "for-client",
};

static void
answer_upstream(PhActionCall *call, const PhUpstream *upstream)
{
    ph_answer_text(call, "name", upstream->name);
    ph_answer_text(call, "suffix", upstream->suffix);
    ph_answer_text(call, "urls", upstream->urls);
    ph_answer_bool(call, "start_tls", upstream->start_tls);
    ph_answer_text(call, "bind_dn", upstream->bind_dn);
    ph_answer_text(call, "identity", identity_names[upstream->identity]);
    ph_answer_bool(call, "anonymous", upstream->anonymous);
    ph_answer_bool(call, "read_only", upstream->read_only);
    ph_answer_int(call, "connections", upstream->connections);
    ph_answer_int(call, "timeout_ms", upstream->timeout_ms);
    ph_answer_int(call, "cache_s", upstream->cache_s);
    ph_answer_time(call, "created", upstream->created_us);
    ph_answer_int(call, "version", upstream->version);
}

static bool
upstream_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_upstream_list_blocking(ph_action_text(call, "filter"),
        ph_action_text(call, "after"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        ph_answer_item(call);
        answer_upstream(call, page->items->pdata[i]);
    }
    ph_answer_next(call, page->next);
    return true;
}

PH_IN_JOB static PhUpstream *
find_upstream(PhActionCall *call, GError **error)
{
    return ph_upstream_find_blocking(
        ph_action_text(call, "name"), ph_action_deadline_us(call), error);
}

static bool
upstream_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhUpstream) upstream = find_upstream(call, error);
    if (upstream == NULL)
        return false;
    answer_upstream(call, upstream);
    ph_answer_text(call, "ca", upstream->ca);
    return true;
}

static void
take_text(PhActionCall *call, const char *name, char **value)
{
    const char *text = ph_action_text(call, name);
    if (text == NULL)
        return;
    g_free(*value);
    *value = g_strstrip(g_strdup(text));
}

static bool
wrong(PhActionCall *call, GError **error, const char *argument, const char *text)
{
    ph_action_blame(call, argument);
    g_set_error_literal(error, PH_ERROR, PH_ERROR_SYNTAX, text);
    return false;
}

static bool
is_dn(const char *text)
{
    g_autofree char *name = ldap_dn_normalize((const uint8_t *)text, strlen(text));
    return name != NULL;
}

/* "a, b" to "a b", each checked. */
static bool
take_urls(PhActionCall *call, PhUpstream *upstream, GError **error)
{
    const char *given = ph_action_text(call, "urls");
    if (given == NULL)
        return true;
    ph_action_blame(call, "urls");
    g_autoptr(GString) urls = g_string_new(NULL);
    g_auto(GStrv) words = g_strsplit_set(given, " ,\t\n", -1);
    unsigned n = 0;
    for (char **word = words; *word != NULL; word++) {
        g_autofree char *host = NULL;
        int port;
        bool tls;
        if ((*word)[0] == '\0')
            continue;
        if (!ldap_url_parse(*word, &host, &port, &tls, error))
            return false;
        g_string_append_printf(urls, "%s%s", urls->len > 0 ? " " : "", *word);
        n++;
    }
    if (n == 0 || n > URLS_MAX)
        return wrong(call, error, "urls", "an upstream has 1 to 16 servers");
    g_free(upstream->urls);
    upstream->urls = g_string_free(g_steal_pointer(&urls), FALSE);
    return true;
}

static bool
take_identity(PhActionCall *call, PhUpstream *upstream)
{
    const char *given = ph_action_text(call, "identity");
    for (size_t i = 0; given != NULL && i < G_N_ELEMENTS(identity_names); i++)
        if (strcmp(given, identity_names[i]) == 0)
            upstream->identity = (PhUpstreamIdentity)i;
    return true;
}

/* Two names for one place would make it a matter of luck who answers. */
PH_IN_JOB static bool
is_suffix_free(PhActionCall *call, const PhUpstream *upstream, GError **error)
{
    g_autofree char *suffix =
        ldap_dn_normalize((const uint8_t *)upstream->suffix, strlen(upstream->suffix));
    g_autoptr(PhPage) page = ph_upstream_list_blocking(
        NULL, NULL, PH_LIST_LIMIT_MAX, ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhUpstream *other = page->items->pdata[i];
        g_autofree char *taken =
            ldap_dn_normalize((const uint8_t *)other->suffix, strlen(other->suffix));
        if (other->id == upstream->id || g_strcmp0(taken, suffix) != 0)
            continue;
        ph_action_blame(call, "suffix");
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "upstream \"%s\" answers for \"%s\"",
            other->name, other->suffix);
        return false;
    }
    return true;
}

/* What was given takes the place of what was there. */
PH_IN_JOB static bool
take_fields(PhActionCall *call, PhUpstream *upstream, GError **error)
{
    take_text(call, "suffix", &upstream->suffix);
    take_text(call, "bind_dn", &upstream->bind_dn);
    take_text(call, "ca", &upstream->ca);
    upstream->start_tls = ph_action_bool(call, "start_tls", upstream->start_tls);
    upstream->anonymous = ph_action_bool(call, "anonymous", upstream->anonymous);
    upstream->read_only = ph_action_bool(call, "read_only", upstream->read_only);
    upstream->connections = (int)ph_action_int(call, "connections", upstream->connections);
    upstream->timeout_ms = ph_action_int(call, "timeout_ms", upstream->timeout_ms);
    upstream->cache_s = ph_action_int(call, "cache_s", upstream->cache_s);
    if (!take_urls(call, upstream, error) || !take_identity(call, upstream))
        return false;
    const PhSecret *password = ph_action_secret(call, "password");
    if (password != NULL) {
        ph_secret_free(upstream->password);
        upstream->password = ph_secret_new(ph_secret_bytes(password), ph_secret_length(password));
    }
    if (!is_dn(upstream->suffix))
        return wrong(call, error, "suffix", "the suffix is no distinguished name");
    if (!is_dn(upstream->bind_dn))
        return wrong(call, error, "bind_dn", "this is no distinguished name");
    if (upstream->ca[0] != '\0' && strstr(upstream->ca, "-----BEGIN CERTIFICATE-----") == NULL)
        return wrong(call, error, "ca", "there is no certificate (PEM) in it");
    if (upstream->bind_dn[0] == '\0' && upstream->identity == PH_UPSTREAM_FOR_CLIENT)
        return wrong(call, error, "identity", "who asks for clients needs a bind_dn of its own");
    return is_suffix_free(call, upstream, error);
}

static bool
upstream_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhUpstream) upstream = g_new0(PhUpstream, 1);
    upstream->name = g_strstrip(g_strdup(ph_action_text(call, "name")));
    upstream->suffix = g_strdup("");
    upstream->urls = g_strdup("");
    upstream->ca = g_strdup("");
    upstream->bind_dn = g_strdup("");
    upstream->read_only = true;
    upstream->connections = CONNECTIONS;
    upstream->timeout_ms = TIMEOUT_MS;
    if (upstream->name[0] == '\0')
        return wrong(call, error, "name", "an upstream needs a name");
    int64_t id;
    if (!take_fields(call, upstream, error))
        return false;
    ph_action_blame(call, "name");
    if (!ph_upstream_put_blocking(upstream, -1, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return true;
}

static bool
upstream_change(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhUpstream) upstream = find_upstream(call, error);
    if (upstream == NULL)
        return false;
    /* Null keeps what is stored. */
    g_clear_pointer(&upstream->password, ph_secret_free);
    if (!take_fields(call, upstream, error))
        return false;
    ph_action_blame(call, "name");
    return ph_upstream_put_blocking(upstream, ph_action_version(call, upstream->version),
        ph_action_deadline_us(call), NULL, error);
}

static bool
upstream_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_upstream_remove_blocking(
        ph_action_text(call, "name"), ph_action_deadline_us(call), error);
}

/* -- how they are ------------------------------------------------------------------------------ */

static PhServiceHold *
hold_proxy(GError **error)
{
    PhServiceHold *hold = ph_service_hold("ldap.proxy", 1);
    if (hold == NULL)
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the plugin \"ldap\" is being stopped");
    return hold;
}

/* A held service is what was published, which here is no constant. */
static LdapProxy *
held_proxy(const PhServiceHold *hold)
{
    return (LdapProxy *)(uintptr_t)ph_service_table(hold);
}

static const char *
state_name(const LdapServerInfo *server)
{
    switch (server->state) {
    case LDAP_SERVER_IDLE:
        return "idle";
    case LDAP_SERVER_TRYING:
        return "trying";
    case LDAP_SERVER_UP:
        return server->is_degraded ? "degraded" : "up";
    case LDAP_SERVER_DOWN:
        return "down";
    }
    return NULL;
}

static bool
ldap_status(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    PhServiceHold *hold = hold_proxy(error);
    if (hold == NULL)
        return false;
    g_autoptr(LdapProxyInfo) info = ldap_proxy_look_blocking(held_proxy(hold));
    ph_service_release(hold);
    ph_answer_int(call, "cached_answers", info->cached_answers);
    ph_answer_int(call, "cached_bytes", info->cached_bytes);
    ph_answer_int(call, "cached_binds", info->cached_binds);
    for (guint i = 0; i < info->servers->len; i++) {
        const LdapServerInfo *server = info->servers->pdata[i];
        g_autofree char *mean_ms =
            server->answered > 0 ? g_strdup_printf("%.2f", (double)server->mean_us / 1000) : NULL;
        ph_answer_item(call);
        ph_answer_text(call, "upstream", server->upstream);
        ph_answer_text(call, "url", server->url);
        ph_answer_text(call, "state", state_name(server));
        ph_answer_time(call, "since", server->since_us);
        ph_answer_int(call, "connections", server->connections);
        ph_answer_int(call, "in_flight", server->in_flight);
        ph_answer_int(call, "answered", server->answered);
        ph_answer_int(call, "failures", server->failed);
        ph_answer_text(call, "mean_ms", mean_ms);
        ph_answer_text(call, "error", server->error);
        ph_answer_time(call, "error_at", server->error_us);
    }
    return true;
}

static bool
ldap_flush(PhActionCall *call, GError **error)
{
    (void)call;
    ph_assert_in_job();
    PhServiceHold *hold = hold_proxy(error);
    if (hold == NULL)
        return false;
    ldap_proxy_flush_blocking(held_proxy(hold));
    ph_service_release(hold);
    return true;
}

// clang-format off
const PhActionRow ldap_actions[] = {
    { "upstream.list", PH_ROLE_OPERATOR, 0, list_arguments, list_answers, upstream_list, "GET /directory/upstreams", NULL, "directories elsewhere that answer for a part of the tree" },
    { "upstream.show", PH_ROLE_OPERATOR, 0, name_arguments, show_answers, upstream_show, "GET /directory/upstreams/{name}", NULL, "one of them" },
    { "upstream.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, add_arguments, add_answers, upstream_add, "POST /directory/upstreams", NULL, "let a directory elsewhere answer for a part of the tree" },
    { "upstream.change", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, change_arguments, NULL, upstream_change, "PATCH /directory/upstreams/{name}", "upstream.show", "change how it is asked" },
    { "upstream.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, name_arguments, NULL, upstream_remove, "DELETE /directory/upstreams/{name}", "upstream.show", "ask it no more" },
    { "ldap.status", PH_ROLE_OPERATOR, 0, NULL, status_answers, ldap_status, "GET /directory/status", NULL, "how the servers of upstream directories are, as this node sees them" },
    { "ldap.flush", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, NULL, NULL, ldap_flush, "POST /directory/flush", NULL, "forget what was kept of answers and logins" },
    { 0 },
};
// clang-format on
