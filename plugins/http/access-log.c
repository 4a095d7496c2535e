/* access-log.c - one line for each request
 *
 * Lines are made on the reactor, by hand: this runs for every request. Whatever comes from a client is
 * escaped, so that a line is a line and a quote ends where we say.
 */
#include "http.h"

#include <string.h>

enum { TEXT_MAX_BYTES = 2048 };

void
http_append_number(GString *line, int64_t number)
{
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t left = number < 0 ? 0 : (uint64_t)number;
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    g_string_append_len(line, digits + at, (gssize)(sizeof(digits) - at));
}

/* For the combined form: quotes, backslashes, and what is no printable ASCII. */
static void
append_escaped(GString *line, const char *text)
{
    const char *end = text + strnlen(text, TEXT_MAX_BYTES);
    while (text < end) {
        const char *plain = text;
        while (text < end && (uint8_t)*text >= 0x20 && (uint8_t)*text < 0x7f && *text != '"' &&
               *text != '\\')
            text++;
        g_string_append_len(line, plain, text - plain);
        if (text < end)
            g_string_append_printf(line, "\\x%02X", (uint8_t)*text++);
    }
}

static void
append_json(GString *line, const char *name, const char *text)
{
    g_string_append_printf(line, ",\"%s\":\"", name);
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)strnlen(text, TEXT_MAX_BYTES));
    for (const char *at = valid; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            g_string_append_printf(line, "\\%c", *at);
        else if ((uint8_t)*at < 0x20 || *at == 0x7f)
            g_string_append_printf(line, "\\u%04x", (uint8_t)*at);
        else
            g_string_append_c(line, *at);
    }
    g_string_append_c(line, '"');
}

static PH_ON_REACTOR void
append_combined(GString *line, HttpExchange *exchange, int status, int64_t bytes)
{
    const HttpHead *head = &exchange->request->head;
    const char *referer = http_head_field(head, HTTP_FIELD_REFERER);
    const char *agent = http_head_field(head, HTTP_FIELD_USER_AGENT);
    g_string_append(line, ph_connection_peer_address(exchange->session->base.connection));
    g_string_append(line, " - - [");
    g_string_append(line, exchange->local->log_time);
    g_string_append(line, "] \"");
    g_string_append(line, head->method_name);
    g_string_append_c(line, ' ');
    append_escaped(line, head->target);
    g_string_append(line, head->minor_version > 0 ? " HTTP/1.1\" " : " HTTP/1.0\" ");
    http_append_number(line, status);
    g_string_append_c(line, ' ');
    http_append_number(line, bytes);
    g_string_append(line, " \"");
    append_escaped(line, referer != NULL ? referer : "-");
    g_string_append(line, "\" \"");
    append_escaped(line, agent != NULL ? agent : "-");
    g_string_append(line, "\"\n");
}

static void
append_time(GString *line, int64_t now_us)
{
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(now_us / G_USEC_PER_SEC);
    g_autofree char *text = g_date_time_format(time, "%Y-%m-%dT%H:%M:%S");
    g_string_append_printf(line, "{\"time\":\"%s.%06dZ\"", text, (int)(now_us % G_USEC_PER_SEC));
}

static PH_ON_REACTOR void
append_object(GString *line, HttpExchange *exchange, int status, int64_t bytes)
{
    const HttpHead *head = &exchange->request->head;
    const HttpSession *session = exchange->session;
    const PhSite *site = exchange->base.site;
    const char *referer = http_head_field(head, HTTP_FIELD_REFERER);
    const char *agent = http_head_field(head, HTTP_FIELD_USER_AGENT);
    append_time(line, exchange->began_us);
    append_json(line, "session", session->base.id);
    append_json(line, "peer", ph_connection_peer_address(session->base.connection));
    append_json(line, "site", site != NULL ? site->name : "");
    append_json(line, "scheme", session->is_secure ? "https" : "http");
    append_json(line, "host", head->host);
    append_json(line, "method", head->method_name);
    append_json(line, "target", head->target);
    append_json(line, "version", head->minor_version > 0 ? "1.1" : "1.0");
    g_string_append_printf(line,
        ",\"status\":%d,\"bytes\":%" G_GINT64_FORMAT ",\"duration_us\":%" G_GINT64_FORMAT, status,
        bytes, MAX(ph_time_now_us() - exchange->began_us, 0));
    if (referer != NULL)
        append_json(line, "referer", referer);
    if (agent != NULL)
        append_json(line, "user_agent", agent);
    g_string_append(line, "}\n");
}

static PH_ON_REACTOR void
write_line(HttpLocal *local)
{
    uint64_t dropped = ph_log_file_dropped(local->state->log);
    ph_log_file_write(local->state->log, local->log_line->str, local->log_line->len);
    g_string_truncate(local->log_line, 0);
    ph_metric_set(&local->state->counters.log_dropped, (int64_t)dropped);
}

void
http_log_exchange(HttpExchange *exchange, int status, int64_t bytes)
{
    HttpLocal *local = exchange->local;
    HttpCounters *counters = &local->state->counters;
    if (exchange->is_logged)
        return;
    exchange->is_logged = true;
    ph_metric_add(&counters->requests, 1);
    ph_metric_add(&counters->responses[status / 100 < 6 ? status / 100 : 5], 1);
    ph_metric_add(&counters->bytes_sent, bytes);
    if (local->state->log == NULL || local->config.log_format == HTTP_LOG_OFF)
        return;
    /* As other servers write it when the client went away before a response. */
    int shown = status == 0 ? 499 : status;
    if (local->config.log_format == HTTP_LOG_JSON)
        append_object(local->log_line, exchange, shown, bytes);
    else
        append_combined(local->log_line, exchange, shown, bytes);
    write_line(local);
}

/* The first line, as far as it came. */
static PH_ON_REACTOR char *
first_line(HttpSession *session)
{
    size_t length;
    const uint8_t *bytes = ph_connection_input(session->base.connection, &length);
    size_t start = MIN(session->scan.start, length);
    const uint8_t *at = bytes + start;
    size_t n = 0;
    while (n < length - start && n < TEXT_MAX_BYTES && at[n] != '\r' && at[n] != '\n')
        n++;
    char *line = g_strndup(n > 0 ? (const char *)at : "", n);
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\0')
            line[i] = '?';
    return line;
}

void
http_log_problem(HttpSession *session, HttpProblem problem)
{
    HttpLocal *local = session->local;
    int64_t now_us = http_local_refresh(local);
    int status = http_problem_status(problem);
    ph_metric_add(&local->state->counters.requests, 1);
    ph_metric_add(&local->state->counters.responses[status / 100], 1);
    if (local->state->log == NULL || local->config.log_format == HTTP_LOG_OFF)
        return;
    g_autofree char *line = first_line(session);
    const char *peer = ph_connection_peer_address(session->base.connection);
    if (local->config.log_format == HTTP_LOG_JSON) {
        append_time(local->log_line, now_us);
        append_json(local->log_line, "session", session->base.id);
        append_json(local->log_line, "peer", peer);
        append_json(local->log_line, "line", line);
        append_json(local->log_line, "problem", http_problem_text(problem));
        g_string_append_printf(local->log_line, ",\"status\":%d}\n", status);
    } else {
        g_string_append_printf(local->log_line, "%s - - [%s] \"", peer, local->log_time);
        append_escaped(local->log_line, line);
        g_string_append_printf(local->log_line, "\" %d 0 \"-\" \"-\"\n", status);
    }
    write_line(local);
}
