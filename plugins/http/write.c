/* write.c - responses as HTTP/1 sends them: heads, framing, errors
 *
 * A head is written in one piece before the first byte of the body; how the body ends (a length,
 * chunks, the end of the connection) is decided there. Framing is ours alone: a handler that says a
 * length and does not keep it ends the connection, so that nobody takes the next response for the rest
 * of this one.
 */
#include "http.h"

#include "posthouse/log.h"

#include <string.h>

static const struct {
    int status;
    const char *reason;
} reason_rows[] = {
    { 100, "Continue" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 207, "Multi-Status" },
    { 300, "Multiple Choices" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 423, "Locked" },
    { 428, "Precondition Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 451, "Unavailable For Legal Reasons" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *
http_reason(int status)
{
    for (size_t i = 0; i < G_N_ELEMENTS(reason_rows); i++)
        if (reason_rows[i].status == status)
            return reason_rows[i].reason;
    return "Status";
}

/* -- what a handler may say -------------------------------------------------------------------- */

/* The framing and the connection are the server's. */
static bool
is_ours(const char *name)
{
    if (strchr("CcDdKkSsTtUu", name[0]) == NULL)
        return false;
    static const char *const names[] = { "Connection", "Content-Length", "Date", "Keep-Alive",
        "Server", "TE", "Trailer", "Transfer-Encoding", "Upgrade" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if ((names[i][0] | 0x20) == (name[0] | 0x20) && g_ascii_strcasecmp(names[i], name) == 0)
            return true;
    return false;
}

static bool
is_field(const char *name, const char *value)
{
    if (name[0] == '\0')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!g_ascii_isalnum(*at) && strchr("!#$%&'*+-.^_`|~", *at) == NULL)
            return false;
    for (const char *at = value; *at != '\0'; at++)
        if (((uint8_t)*at < 0x20 && *at != '\t') || *at == 0x7f)
            return false;
    return true;
}

static PH_ON_REACTOR PhConnection *
connection_of(const HttpExchange *exchange)
{
    return exchange->session->base.connection;
}

static void
say_status(PhExchange *base, int status)
{
    HttpExchange *exchange = http_exchange_of(base);
    if (status >= 200 && status <= 599 && !exchange->is_head_sent)
        exchange->status = status;
}

static void
say_header(PhExchange *base, const char *name, const char *value)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    if (exchange->is_head_sent || is_ours(name) || !is_field(name, value)) {
        g_autofree char *quoted = ph_log_quote(name);
        ph_log(PH_LOG_WARNING, "http.field-left-out", "name=\"%.100s\"", quoted);
        return;
    }
    if (exchange->fields == NULL)
        exchange->fields = http_local_take_text(exchange->local);
    g_string_append(exchange->fields, name);
    g_string_append(exchange->fields, ": ");
    g_string_append(exchange->fields, value);
    g_string_append(exchange->fields, "\r\n");
}

static void
say_length(PhExchange *base, int64_t length)
{
    HttpExchange *exchange = http_exchange_of(base);
    if (!exchange->is_head_sent && length >= 0)
        exchange->length = length;
}

/* -- heads ------------------------------------------------------------------------------------- */

/* A body that nobody wants is read when it is little. */
static bool
will_read_body(const HttpExchange *exchange)
{
    if (exchange->is_body_complete)
        return true;
    if (exchange->is_continue_due || !exchange->is_body_wanted)
        return false;
    return exchange->request->head.is_chunked ||
           exchange->session->body_left <= HTTP_DISCARD_MAX_BYTES ||
           (!exchange->is_body_dropped && exchange->handler != NULL &&
               exchange->handler->body != NULL);
}

bool
http_exchange_keeps_alive(const HttpExchange *exchange)
{
    const HttpSession *session = exchange->session;
    return exchange->request->head.keep_alive && !session->is_leaving && !session->is_peer_ended &&
           exchange->framing != HTTP_FRAMING_CLOSE &&
           session->requests + 1 < session->local->config.requests_per_connection &&
           will_read_body(exchange);
}

/* "Connection", where it differs from what the version means by itself. */
static PH_ON_REACTOR void
write_connection(const HttpExchange *exchange)
{
    bool keeps = http_exchange_keeps_alive(exchange);
    if (!keeps)
        ph_connection_puts(connection_of(exchange), "Connection: close\r\n\r\n");
    else if (exchange->request->head.minor_version == 0)
        ph_connection_puts(connection_of(exchange), "Connection: keep-alive\r\n\r\n");
    else
        ph_connection_write(connection_of(exchange), "\r\n", 2);
}

static PH_ON_REACTOR void
write_common(HttpLocal *local, PhConnection *connection)
{
    ph_connection_write(connection, local->date_line, local->date_line_length);
    if (local->config.server_token)
        ph_connection_puts(connection, "Server: Posthouse\r\n");
}

static bool
has_no_body(const HttpExchange *exchange)
{
    return exchange->request->head.method == HTTP_METHOD_HEAD || exchange->status == 204 ||
           exchange->status == 304;
}

void
http_exchange_begin_ready(HttpExchange *exchange, const HttpReady *ready)
{
    ph_assert_on_reactor();
    exchange->status = ready->status;
    exchange->length = ready->body_length;
    exchange->framing = has_no_body(exchange) ? HTTP_FRAMING_NO_BODY : HTTP_FRAMING_LENGTH;
    exchange->is_head_sent = true;
    ph_connection_write(connection_of(exchange), ready->head, ready->head_length);
    write_common(exchange->local, connection_of(exchange));
    write_connection(exchange);
}

static PH_ON_REACTOR void
write_head(HttpExchange *exchange)
{
    PhConnection *connection = connection_of(exchange);
    if (has_no_body(exchange))
        exchange->framing = HTTP_FRAMING_NO_BODY;
    else if (exchange->length >= 0)
        exchange->framing = HTTP_FRAMING_LENGTH;
    else if (exchange->request->head.minor_version > 0)
        exchange->framing = HTTP_FRAMING_CHUNKED;
    else
        exchange->framing = HTTP_FRAMING_CLOSE;
    exchange->is_head_sent = true;
    GString *line = exchange->local->log_line; /* empty between lines of the log */
    g_string_append(line, "HTTP/1.1 ");
    http_append_number(line, exchange->status);
    g_string_append_c(line, ' ');
    g_string_append(line, http_reason(exchange->status));
    g_string_append(line, "\r\n");
    if (exchange->framing == HTTP_FRAMING_CHUNKED) {
        g_string_append(line, "Transfer-Encoding: chunked\r\n");
    } else if (exchange->length >= 0 && exchange->status != 204 && exchange->status != 304) {
        g_string_append(line, "Content-Length: ");
        http_append_number(line, exchange->length);
        g_string_append(line, "\r\n");
    }
    ph_connection_write(connection, line->str, line->len);
    g_string_truncate(line, 0);
    write_common(exchange->local, connection);
    if (exchange->fields != NULL)
        ph_connection_write(connection, exchange->fields->str, exchange->fields->len);
    write_connection(exchange);
}

/* -- bodies ------------------------------------------------------------------------------------ */

/* Before `length` bytes of the body: the head, and the chunk's size. How many of them to send. */
static PH_ON_REACTOR int64_t
begin_part(HttpExchange *exchange, int64_t length)
{
    if (exchange->is_finished)
        return 0;
    if (!exchange->is_head_sent)
        write_head(exchange);
    if (length == 0 || exchange->framing == HTTP_FRAMING_NO_BODY)
        return 0;
    if (exchange->framing == HTTP_FRAMING_LENGTH) {
        int64_t room = exchange->length - exchange->body_sent;
        if (length > room)
            exchange->is_broken = true; /* more than was said */
        length = MIN(length, room);
    }
    if (exchange->framing == HTTP_FRAMING_CHUNKED)
        ph_connection_printf(
            connection_of(exchange), "%" G_GINT64_MODIFIER "x\r\n", (uint64_t)length);
    exchange->body_sent += length;
    return length;
}

static PH_ON_REACTOR void
end_part(HttpExchange *exchange)
{
    if (exchange->framing == HTTP_FRAMING_CHUNKED)
        ph_connection_write(connection_of(exchange), "\r\n", 2);
}

static void
write_part(PhExchange *base, const void *bytes, size_t length)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    int64_t n = begin_part(exchange, (int64_t)length);
    if (n == 0)
        return;
    ph_connection_write(connection_of(exchange), bytes, (size_t)n);
    end_part(exchange);
}

static void
write_bytes(PhExchange *base, GBytes *bytes)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    int64_t length = (int64_t)g_bytes_get_size(bytes);
    int64_t n = begin_part(exchange, length);
    if (n == 0)
        return;
    if (n == length) {
        ph_connection_write_bytes(connection_of(exchange), bytes);
    } else {
        g_autoptr(GBytes) part = g_bytes_new_from_bytes(bytes, 0, (size_t)n);
        ph_connection_write_bytes(connection_of(exchange), part);
    }
    end_part(exchange);
}

static void
write_file(PhExchange *base, PhFile *file, int64_t offset, int64_t length)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    int64_t n = begin_part(exchange, length);
    if (n == 0)
        return;
    ph_connection_write_file(connection_of(exchange), file, offset, n);
    end_part(exchange);
}

static bool
is_full(const PhExchange *base)
{
    ph_assert_on_reactor();
    return ph_connection_output_is_full(connection_of((const HttpExchange *)base));
}

void
http_exchange_ask_for_body(HttpExchange *exchange)
{
    ph_assert_on_reactor();
    exchange->is_body_wanted = true;
    if (!exchange->is_continue_due || exchange->is_head_sent)
        return;
    ph_connection_puts(connection_of(exchange), "HTTP/1.1 100 Continue\r\n\r\n");
    exchange->is_continue_due = false;
}

static void
want_body(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    http_exchange_ask_for_body(exchange);
    http_session_run(exchange->session);
}

static void
finish(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    if (exchange->is_finished)
        return;
    if (!exchange->is_head_sent) {
        exchange->length = MAX(exchange->length, 0);
        write_head(exchange);
    }
    if (exchange->framing == HTTP_FRAMING_CHUNKED)
        ph_connection_puts(connection_of(exchange), "0\r\n\r\n");
    if (exchange->framing == HTTP_FRAMING_LENGTH && exchange->body_sent < exchange->length)
        exchange->is_broken = true;
    exchange->is_finished = true;
    http_session_run(exchange->session);
}

/* -- errors ------------------------------------------------------------------------------------ */

/* `text` is ours or a handler's, for people; it is escaped. */
static GString *
error_page(int status, const char *text)
{
    const char *reason = http_reason(status);
    g_autofree char *escaped = g_markup_escape_text(text != NULL ? text : "", -1);
    GString *page = g_string_sized_new(512);
    g_string_append_printf(page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%d %s</title>\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        "<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:32em;margin:15vh auto;padding:0 "
        "1em;color:#222;background:#fff}@media(prefers-color-scheme:dark){body{color:#ddd;"
        "background:#181818}}</style></head>\n<body><h1>%d %s</h1>",
        status, reason, status, reason);
    if (escaped[0] != '\0')
        g_string_append_printf(page, "<p>%s</p>", escaped);
    g_string_append(page, "</body></html>\n");
    return page;
}

void
http_exchange_error(HttpExchange *exchange, int status, const char *text, const char *field)
{
    ph_assert_on_reactor();
    if (exchange->is_head_sent) {
        exchange->is_broken = true;
        exchange->is_finished = true;
        http_session_run(exchange->session);
        return;
    }
    g_autoptr(GString) page = error_page(status, text);
    exchange->is_body_dropped = true;
    exchange->status = status;
    exchange->length = (int64_t)page->len;
    if (exchange->fields != NULL)
        g_string_truncate(exchange->fields, 0);
    else
        exchange->fields = http_local_take_text(exchange->local);
    g_string_append(exchange->fields, "Content-Type: text/html; charset=utf-8\r\n"
                                      "X-Content-Type-Options: nosniff\r\n");
    if (status == 503)
        g_string_append(exchange->fields, "Retry-After: 5\r\n");
    if (field != NULL)
        g_string_append_printf(exchange->fields, "%s\r\n", field);
    write_part(&exchange->base, page->str, page->len);
    finish(&exchange->base);
}

static void
fail(PhExchange *base, int status, const char *text)
{
    ph_assert_on_reactor();
    http_exchange_error(
        http_exchange_of(base), status >= 400 && status <= 599 ? status : 500, text, NULL);
}

void
http_exchange_redirect(HttpExchange *exchange, int status, const char *location)
{
    ph_assert_on_reactor();
    ph_exchange_status(&exchange->base, status);
    ph_exchange_header(&exchange->base, "Location", location);
    ph_exchange_length(&exchange->base, 0);
    ph_exchange_finish(&exchange->base);
}

void
http_write_problem(HttpSession *session, HttpProblem problem)
{
    ph_assert_on_reactor();
    PhConnection *connection = session->base.connection;
    int status = http_problem_status(problem);
    g_autoptr(GString) page = error_page(status, http_problem_text(problem));
    http_local_refresh(session->local);
    ph_connection_printf(connection, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
    write_common(session->local, connection);
    ph_connection_printf(connection,
        "Content-Type: text/html; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
        page->len);
    ph_connection_write(connection, page->str, page->len);
}

/* -- work -------------------------------------------------------------------------------------- */

static void
run(PhExchange *base, PhJob job, PhExchangeDone done, void *data, GDestroyNotify free_data)
{
    ph_assert_on_reactor();
    http_exchange_run(http_exchange_of(base), PH_LANE_WEB, job, done, data, free_data);
}

static PhTask *
task(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    if (exchange->task.core == NULL)
        ph_task_init(&exchange->task, exchange->local->reactor);
    return &exchange->task;
}

const PhExchangeFunctions http_exchange_functions = {
    .status = say_status,
    .header = say_header,
    .length = say_length,
    .write = write_part,
    .write_bytes = write_bytes,
    .write_file = write_file,
    .is_full = is_full,
    .want_body = want_body,
    .finish = finish,
    .fail = fail,
    .run = run,
    .task = task,
};
