/* http.c - libmicrohttpd, driven by our reactor
 *
 * libmicrohttpd calls answer() for the head, for each piece of the body, and once more at its end. An
 * answer may be queued only from there: what a job found out waits in the request until libmicrohttpd,
 * resumed, asks again.
 */
#include "admin-ui/admin-ui-resources.h"
#include "admin.h"

#include "posthouse/log.h"

#include <arpa/inet.h>
#include <string.h>

/* -- running ----------------------------------------------------------------------------------- */

void
admin_http_run(Admin *admin)
{
    ph_assert_on_reactor();
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    MHD_run(admin->daemon);
    ph_timer_disarm(&admin->timer);
    if (MHD_get_timeout(admin->daemon, &timeout_ms) == MHD_YES)
        ph_timer_arm_ms(&admin->timer, ph_reactor_apart(), (int64_t)MIN(timeout_ms, 60000));
}

static void
run(void *data)
{
    ph_assert_on_reactor();
    admin_http_run(data);
}

G_GNUC_PRINTF(2, 0) static void log_message(void *data, const char *format, va_list arguments)
{
    (void)data;
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    /* Each answer on a socket pair makes two of these: it has no TCP options to set. */
    if (strstr(text, "TCP_") == NULL && strstr(text, "socket option") == NULL)
        ph_log(PH_LOG_DEBUG, "admin.microhttpd", "%s", g_strchomp(text));
}

/* -- requests ---------------------------------------------------------------------------------- */

static Request *
request_new(Admin *admin, struct MHD_Connection *connection)
{
    Request *request = g_new0(Request, 1);
    request->admin = admin;
    request->connection = connection;
    request->body = g_byte_array_new();
    request->texts = g_ptr_array_new_with_free_func(g_free);
    return request;
}

static void
request_free(void *data)
{
    Request *request = data;
    g_byte_array_unref(request->body);
    g_ptr_array_unref(request->texts);
    ph_api_response_clear(&request->answer);
    g_free(request->base);
    g_free(request);
}

/* A copy that lives as long as the request; null stays null. */
static const char *
keep(Request *request, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = g_strdup(text);
    g_ptr_array_add(request->texts, copy);
    return copy;
}

static const char *
header(const Request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static const char *
peer_of(const Request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    char text[INET6_ADDRSTRLEN] = "unknown";
    const struct sockaddr *address = info != NULL ? info->client_addr : NULL;
    if (address != NULL && address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, text,
            sizeof(text));
    else if (address != NULL && address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, text,
            sizeof(text));
    g_ptr_array_add(request->texts, g_strdup(text));
    return request->texts->pdata[request->texts->len - 1];
}

/* `target` is the request's target as it came, so that nobody decodes twice. */
static void
take_head(Request *request, const char *method, const char *target, const char *base)
{
    const char *path = admin_below_base(target, base);
    const char *query = strchr(path, '?');
    static const char prefix[] = "/api/v1";
    g_autofree char *bare = g_strndup(path, query != NULL ? (size_t)(query - path) : strlen(path));
    request->asked = (PhApiRequest){
        .method = keep(request, strcmp(method, "HEAD") == 0 ? "GET" : method),
        .path = keep(request, bare + strlen(prefix)),
        .query = keep(request, query != NULL ? query + 1 : NULL),
        .content_type = keep(request, header(request, "Content-Type")),
        .authorization = keep(request, header(request, "Authorization")),
        .token = keep(request,
            MHD_lookup_connection_value(request->connection, MHD_COOKIE_KIND, PH_CONSOLE_COOKIE)),
        .csrf = keep(request, header(request, "X-CSRF-Token")),
        .peer_address = peer_of(request),
    };
}

/* -- answers ----------------------------------------------------------------------------------- */

void
admin_add_common_headers(struct MHD_Response *response)
{
    static const char *const rows[][2] = {
        { "X-Content-Type-Options", "nosniff" },
        { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Opener-Policy", "same-origin" },
        { "Cross-Origin-Resource-Policy", "same-origin" },
        { "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        MHD_add_response_header(response, rows[i][0], rows[i][1]);
}

static enum MHD_Result
send_answer(Request *request)
{
    const PhApiResponse *answer = &request->answer;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(answer->body), answer->body, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    admin_add_common_headers(response);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Content-Type", answer->content_type);
    if (answer->allow != NULL)
        MHD_add_response_header(response, "Allow", answer->allow);
    if (answer->set_cookie != NULL)
        MHD_add_response_header(response, "Set-Cookie", answer->set_cookie);
    if (answer->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (answer->retry_after_s > 0) {
        g_autofree char *seconds = g_strdup_printf("%" G_GINT64_FORMAT, answer->retry_after_s);
        MHD_add_response_header(response, "Retry-After", seconds);
    }
    enum MHD_Result result =
        MHD_queue_response(request->connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result
refuse_too_large(Request *request)
{
    request->answer = (PhApiResponse){
        .status = MHD_HTTP_CONTENT_TOO_LARGE,
        .content_type = g_strdup("application/problem+json"),
        .body = g_strdup("{\"type\":\"about:blank\",\"title\":\"Content Too Large\",\"status\":413,"
                         "\"code\":\"too-large\",\"detail\":\"the body is too large\"}"),
    };
    return send_answer(request);
}

/* -- jobs -------------------------------------------------------------------------------------- */

static void
handle_job(void *data)
{
    ph_assert_in_job();
    Request *request = data;
    ph_api_handle_blocking(&request->asked, &request->answer);
}

static void
handle_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)task;
    Request *request = data;
    request->answered = true;
    MHD_resume_connection(request->connection);
    admin_http_run(request->admin);
}

/* libmicrohttpd keeps a suspended request, whatever its client does, until it is resumed: so the
 * request outlives its job. */
static enum MHD_Result
begin_job(Request *request)
{
    ph_assert_on_reactor();
    request->asked.body = request->body->data;
    request->asked.length = request->body->len;
    request->has_task = true;
    ph_task_init(&request->task, ph_reactor_apart());
    MHD_suspend_connection(request->connection);
    /* Logins wait for the hashing of passwords: a flood of them must not hold the console's workers. */
    bool is_login = strcmp(request->asked.method, "POST") == 0 &&
                    g_str_has_prefix(request->asked.path, "/session");
    ph_task_run(&request->task, is_login ? PH_LANE_SLOW : PH_LANE_CONSOLE, handle_job, handle_done,
        request, NULL);
    return MHD_YES;
}

/* -- what libmicrohttpd calls ------------------------------------------------------------------ */

const char *
admin_below_base(const char *path, const char *base)
{
    size_t length = strlen(base);
    if (length < 2)
        return path;
    return strncmp(path, base, length) == 0 ? path + length - 1 : NULL;
}

static bool
is_api(const char *path)
{
    static const char prefix[] = "/api/v1/";
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

static enum MHD_Result
take_piece(Request *request, const char *bytes, size_t *length)
{
    if (request->body->len + *length > BODY_MAX)
        request->too_large = true;
    else
        g_byte_array_append(request->body, (const uint8_t *)bytes, (guint)*length);
    *length = 0;
    return MHD_YES;
}

static char *
base_path(void)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *base = ph_settings_text(settings, "admin.base_path", NULL);
    /* A wrong one must not lock everybody out. */
    bool good = base[0] == '/' && g_str_has_suffix(base, "/") && strpbrk(base, "?#%\"<>") == NULL;
    return g_strdup(good ? base : "/");
}

/* The target of the head arrives here, before anything is decoded. */
static void *
begin_request(void *data, const char *target, struct MHD_Connection *connection)
{
    Request *request = request_new(data, connection);
    keep(request, target);
    return request;
}

static enum MHD_Result
answer(void *data, struct MHD_Connection *connection, const char *url, const char *method,
    const char *version, const char *bytes, size_t *length, void **request_place)
{
    ph_assert_on_reactor();
    (void)data;
    (void)connection;
    (void)url;
    (void)version;
    Request *request = *request_place;
    if (request->answered && request->is_stream && request->answer.status == MHD_HTTP_OK)
        return admin_begin_events(request);
    if (request->answered)
        return send_answer(request);
    const char *target = request->texts->pdata[0];
    if (!request->seen) {
        request->seen = true;
        request->base = base_path();
        const char *path = admin_below_base(target, request->base);
        request->is_api = path != NULL && is_api(path);
        if (request->is_api)
            take_head(request, method, target, request->base);
        return MHD_YES;
    }
    if (*length > 0)
        return take_piece(request, bytes, length);
    if (request->too_large)
        return refuse_too_large(request);
    if (!request->is_api)
        return admin_serve_asset(request, method, target, request->base);
    if (strcmp(request->asked.path, "/events") == 0 && strcmp(method, "GET") == 0) {
        /* First of all: who is it? */
        request->is_stream = true;
        request->asked.path = "/session";
    }
    return begin_job(request);
}

static void
request_ended(void *data, struct MHD_Connection *connection, void **request_place,
    enum MHD_RequestTerminationCode code)
{
    ph_assert_on_reactor();
    (void)data;
    (void)connection;
    (void)code;
    Request *request = *request_place;
    if (request == NULL)
        return;
    *request_place = NULL;
    admin_end_events(request->events);
    if (request->has_task)
        ph_task_clear(&request->task);
    request_free(request);
}

/* -- life -------------------------------------------------------------------------------------- */

static void
forget_resource(Admin *admin)
{
    g_resource_unref(admin->resource);
    ph_admin_ui_unregister_resource();
}

bool
admin_http_start(Admin *admin, GError **error)
{
    ph_timer_init(&admin->timer, run, admin);
    ph_admin_ui_register_resource();
    admin->resource = g_resource_ref(ph_admin_ui_get_resource());
    admin->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, answer, admin,                                        //
        MHD_OPTION_EXTERNAL_LOGGER, log_message, NULL,                    //
        MHD_OPTION_URI_LOG_CALLBACK, begin_request, admin,                //
        MHD_OPTION_NOTIFY_COMPLETED, request_ended, NULL,                 //
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,           //
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_OF_ONE, //
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        admin->daemon != NULL ? MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "libmicrohttpd does not start");
        if (admin->daemon != NULL)
            MHD_stop_daemon(admin->daemon);
        forget_resource(admin);
        return false;
    }
    admin->watch = ph_watch_new(ph_reactor_apart(), info->epoll_fd, run, admin, error);
    if (admin->watch != NULL)
        return true;
    MHD_stop_daemon(admin->daemon);
    forget_resource(admin);
    return false;
}

static void
stop_on_reactor(void *data)
{
    ph_assert_on_reactor();
    Admin *admin = data;
    ph_timer_disarm(&admin->timer);
    MHD_stop_daemon(admin->daemon);
}

void
admin_http_stop(Admin *admin)
{
    /* The watch goes first: its descriptor's number may be another's as soon as it is closed. */
    ph_watch_free(admin->watch);
    ph_reactor_run_blocking(ph_reactor_apart(), stop_on_reactor, admin);
    forget_resource(admin);
}
