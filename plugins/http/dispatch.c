/* dispatch.c - from a request to who answers it: site, access, route, handler
 *
 * The order is fixed: which site; is the connection good enough for it (https_only); may the client
 * (http.access, only where somebody decides); which route; does its handler take the method. Each step
 * ends the exchange or goes on.
 */
#include "http.h"

#include "posthouse/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    HTTP_PORT = 80,
    HTTPS_PORT = 443,
    ACCESS_FIELDS = 12,
};

const PhHookRow http_hooks[] = {
    { "http.access",
        1 << PH_DECISION_ACCEPT | 1 << PH_DECISION_REJECT | 1 << PH_DECISION_DEFER |
            1 << PH_DECISION_REDIRECT,
        PH_HOOK_FAIL_DEFER, 1000,
        "May this request go on? A refusal's code is the status (403); with 401, its text is the "
        "realm. A redirection's target is the Location." },
    { "http.content", 1 << PH_DECISION_ACCEPT, PH_HOOK_FAIL_DEFER, 10000,
        "Answers a request: for routes whose handler is \"lua\"." },
    { 0 },
};

/* -- locations --------------------------------------------------------------------------------- */

/* What a path may show unescaped in a Location. */
static void
append_escaped(GString *out, const char *path)
{
    for (; *path != '\0'; path++) {
        if (g_ascii_isalnum(*path) || strchr("-._~!$&'()*+,;=:@/", *path) != NULL)
            g_string_append_c(out, *path);
        else
            g_string_append_printf(out, "%%%02X", (uint8_t)*path);
    }
}

/* The port of https that belongs to the port that the client came to. */
static PH_ON_REACTOR int
https_port(const HttpExchange *exchange)
{
    int set = exchange->local->config.https_port;
    int local = ph_connection_local_port(exchange->session->base.connection);
    if (set != 0)
        return set;
    return local == HTTP_PORT ? HTTPS_PORT : local + HTTPS_PORT - HTTP_PORT;
}

static PH_ON_REACTOR void
redirect_to_https(HttpExchange *exchange)
{
    const HttpHead *head = &exchange->request->head;
    g_autoptr(GString) location = g_string_new("https://");
    g_string_append(location, head->host);
    int port = https_port(exchange);
    if (port != HTTPS_PORT)
        g_string_append_printf(location, ":%d", port);
    append_escaped(location, head->path);
    if (head->query != NULL)
        g_string_append_printf(location, "?%s", head->query);
    bool is_read = head->method == HTTP_METHOD_GET || head->method == HTTP_METHOD_HEAD;
    http_exchange_redirect(exchange, is_read ? 301 : 308, location->str);
}

/* -- handlers of our own ----------------------------------------------------------------------- */

/* "308 https://example.org/" or a location alone, which is 302. Where it ends with "/", the rest of
 * the path and the query are added. */
static void
redirect_begin(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    const HttpHead *head = &exchange->request->head;
    const char *target = base->route->target;
    int status = 302;
    if (strlen(target) > 4 && target[3] == ' ') {
        int said = atoi(target);
        if (said == 301 || said == 302 || said == 303 || said == 307 || said == 308) {
            status = said;
            target += 4;
        }
    }
    g_autoptr(GString) location = g_string_new(target);
    if (g_str_has_suffix(target, "/")) {
        const char *rest = head->path + MIN(strlen(base->route->prefix), head->path_length);
        while (*rest == '/')
            rest++;
        append_escaped(location, rest);
        if (head->query != NULL)
            g_string_append_printf(location, "?%s", head->query);
    }
    http_exchange_redirect(exchange, status, location->str);
}

static const PhWebHandler redirect_handler = { .begin = redirect_begin };

static const struct {
    const char *name;
    const PhWebHandler *handler;
} handler_rows[] = {
    { "static", &http_static_handler },
    { "lua", &http_page_handler },
    { "redirect", &redirect_handler },
};

/* -- route and handler ------------------------------------------------------------------------- */

static PH_ON_REACTOR const PhWebHandler *
find_handler(HttpExchange *exchange)
{
    const char *name = exchange->base.route->handler;
    for (size_t i = 0; i < G_N_ELEMENTS(handler_rows); i++)
        if (strcmp(handler_rows[i].name, name) == 0)
            return handler_rows[i].handler;
    g_autofree char *service = g_strconcat(PH_WEB_HANDLER_PREFIX, name, NULL);
    exchange->hold = ph_service_hold(service, PH_WEB_HANDLER_VERSION);
    if (exchange->hold == NULL)
        return NULL;
    http_exchange_page_request(exchange);
    return ph_service_table(exchange->hold);
}

static bool
takes_method(const PhWebHandler *handler, const char *method)
{
    if (handler->methods == NULL)
        return true;
    size_t length = strlen(method);
    for (const char *at = handler->methods; *at != '\0';) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, method, n) == 0)
            return true;
        at += n;
        at += strspn(at, ", ");
    }
    return false;
}

void
http_exchange_refuse_method(HttpExchange *exchange, const char *methods)
{
    g_autofree char *allow = g_strdup_printf("Allow: %s, OPTIONS", methods);
    if (exchange->request->head.method != HTTP_METHOD_OPTIONS) {
        http_exchange_error(exchange, 405, NULL, allow);
        return;
    }
    exchange->status = 204;
    ph_exchange_header(&exchange->base, "Allow", allow + strlen("Allow: "));
    ph_exchange_finish(&exchange->base);
}

static PH_ON_REACTOR void
begin_handler(HttpExchange *exchange)
{
    const PhWebHandler *handler = exchange->handler;
    const HttpHead *head = &exchange->request->head;
    if (!takes_method(handler, head->method_name)) {
        exchange->handler = NULL;
        http_exchange_refuse_method(exchange, handler->methods);
        return;
    }
    if (head->content_length > exchange->body_max) {
        exchange->is_body_wanted = false;
        exchange->handler = NULL;
        http_exchange_error(exchange, 413, NULL, NULL);
        return;
    }
    exchange->is_dispatched = true;
    handler->begin(&exchange->base);
    if (exchange->is_finished)
        return;
    if (exchange->is_body_wanted && handler->body != NULL)
        http_exchange_ask_for_body(exchange);
    if (exchange->is_body_complete && handler->complete != NULL)
        handler->complete(&exchange->base);
}

static PH_ON_REACTOR void
dispatch_route(HttpExchange *exchange)
{
    const HttpHead *head = &exchange->request->head;
    const PhSiteRoute *route = ph_site_route(exchange->base.site, head->path, head->path_length);
    if (route == NULL) {
        http_exchange_error(exchange, 404, NULL, NULL);
        return;
    }
    exchange->base.route = route;
    exchange->handler = find_handler(exchange);
    if (exchange->handler == NULL) {
        http_exchange_error(exchange, 503, "What answers here is not running.", NULL);
        return;
    }
    begin_handler(exchange);
}

/* -- access ------------------------------------------------------------------------------------ */

typedef struct Access {
    HttpRequest *request;
    PhDecision decision;
} Access;

static void
add_field(PhHookField *fields, size_t *n, const char *name, const char *value)
{
    if (value != NULL)
        fields[(*n)++] = (PhHookField){ .name = name, .value = value, .length = strlen(value) };
}

static void
access_job(void *data)
{
    ph_assert_in_job();
    Access *access = data;
    const PhPageRequest *page = &access->request->page;
    const HttpHead *head = &access->request->head;
    char site_id[24];
    char tenant_id[24];
    g_snprintf(site_id, sizeof(site_id), "%" G_GINT64_FORMAT, page->site_id);
    g_snprintf(tenant_id, sizeof(tenant_id), "%" G_GINT64_FORMAT, page->tenant_id);
    PhHookField fields[ACCESS_FIELDS];
    size_t n = 0;
    add_field(fields, &n, "id", page->id);
    add_field(fields, &n, "site", page->site_name);
    add_field(fields, &n, "site_id", site_id);
    add_field(fields, &n, "tenant_id", tenant_id);
    add_field(fields, &n, "method", page->method);
    add_field(fields, &n, "path", page->path);
    add_field(fields, &n, "query", page->query);
    add_field(fields, &n, "host", page->host);
    add_field(fields, &n, "peer.ip", page->peer_address);
    add_field(fields, &n, "user_agent", http_head_field(head, HTTP_FIELD_USER_AGENT));
    add_field(fields, &n, "referer", http_head_field(head, HTTP_FIELD_REFERER));
    add_field(fields, &n, "login", page->login);
    ph_hook_call(&http_hooks[0], fields, n, &access->decision);
}

static PH_ON_REACTOR void
reject(HttpExchange *exchange, const PhDecision *decision)
{
    int status = decision->code >= 400 && decision->code <= 599 ? decision->code : 403;
    if (status != 401) {
        http_exchange_error(exchange, status, decision->text, NULL);
        return;
    }
    GString *field = g_string_new("WWW-Authenticate: Basic realm=\"");
    for (const char *at = decision->text != NULL ? decision->text : "login"; *at != '\0'; at++)
        if (*at != '"' && *at != '\\' && (uint8_t)*at >= 0x20 && *at != 0x7f)
            g_string_append_c(field, *at);
    g_string_append(field, "\", charset=\"UTF-8\"");
    http_exchange_error(exchange, 401, NULL, field->str);
    g_string_free(field, TRUE);
}

static void
access_done(PhExchange *base, void *data)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    const Access *access = data;
    const PhDecision *decision = &access->decision;
    switch (decision->kind) {
    case PH_DECISION_NONE:
    case PH_DECISION_ACCEPT:
        dispatch_route(exchange);
        break;
    case PH_DECISION_REDIRECT:
        http_exchange_redirect(exchange, 302, decision->target != NULL ? decision->target : "/");
        break;
    case PH_DECISION_REJECT:
    case PH_DECISION_DISCARD:
    case PH_DECISION_QUARANTINE:
        reject(exchange, decision);
        break;
    case PH_DECISION_DEFER:
        http_exchange_error(exchange, 503, decision->text, NULL);
        break;
    }
}

static void
access_free(void *data)
{
    Access *access = data;
    ph_decision_clear(&access->decision);
    http_request_unref(access->request);
    g_free(access);
}

/* -- sites ------------------------------------------------------------------------------------- */

/* A name that nobody has: on a connection that was made for another name, the client is told to make
 * one for this (RFC 9110 15.5.20). */
static PH_ON_REACTOR void
refuse_unknown_site(HttpExchange *exchange)
{
    const char *asked = ph_connection_tls_server_name(exchange->session->base.connection);
    bool other = asked != NULL && g_ascii_strcasecmp(asked, exchange->request->head.host) != 0;
    if (other)
        http_exchange_error(exchange, 421, "This connection was made for another name.", NULL);
    else
        http_exchange_error(exchange, 404, "No site has this name.", NULL);
}

void
http_dispatch(HttpExchange *exchange)
{
    ph_assert_on_reactor();
    const HttpHead *head = &exchange->request->head;
    bool secure = exchange->session->is_secure;
    if (head->scheme != NULL && (strcmp(head->scheme, "https") == 0) != secure) {
        http_exchange_error(exchange, 421, "This connection is for the other scheme.", NULL);
        return;
    }
    const PhSite *site = ph_sites_find(exchange->request->sites, head->host, strlen(head->host));
    exchange->base.site = site;
    if (site == NULL) {
        refuse_unknown_site(exchange);
        return;
    }
    if (head->is_asterisk) {
        exchange->status = 204;
        ph_exchange_header(
            &exchange->base, "Allow", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
        ph_exchange_finish(&exchange->base);
        return;
    }
    if (site->https_only && !secure) {
        redirect_to_https(exchange);
        return;
    }
    if (!ph_hook_has_deciders("http.access")) {
        dispatch_route(exchange);
        return;
    }
    Access *access = g_new0(Access, 1);
    http_exchange_page_request(exchange);
    access->request = http_request_ref(exchange->request);
    http_exchange_run(exchange, PH_LANE_WEB, access_job, access_done, access, access_free);
}
