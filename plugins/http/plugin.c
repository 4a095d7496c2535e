/* plugin.c - what the host is told: settings, services, hooks, counters; what each reactor has */
#include "http.h"

#include "posthouse/log.h"

#include <string.h>

#define GLOBAL PH_SCOPE_GLOBAL

static const PhSettingRow settings[] = {
    { "http.limits.request_line_bytes", PH_SETTING_SIZE, "8192", 256, 65536, NULL, GLOBAL,
        "The longest request line; longer ones get 414." },
    { "http.limits.head_bytes", PH_SETTING_SIZE, "32768", 1024, 262144, NULL, GLOBAL,
        "The largest head of a request; larger ones get 431." },
    { "http.limits.fields", PH_SETTING_INT, "100", 10, 1000, NULL, GLOBAL,
        "The most fields in a request; more get 431." },
    { "http.limits.body_bytes", PH_SETTING_SIZE, "64M", 0, INT64_C(1) << 40, NULL, GLOBAL,
        "The largest body that a handler is given; larger ones get 413." },
    { "http.page.body_bytes", PH_SETTING_SIZE, "8M", 0, INT64_C(1) << 30, NULL, GLOBAL,
        "The largest body for a Lua page, which is given it as a whole." },
    { "http.page.timeout_ms", PH_SETTING_TIME, "10000", 100, 600000, NULL, GLOBAL,
        "How long a Lua page may take." },
    { "http.timeout.head_s", PH_SETTING_TIME, "20", 1, 3600, NULL, GLOBAL,
        "From the first byte of a request to the end of its head; then 408." },
    { "http.timeout.body_s", PH_SETTING_TIME, "30", 1, 3600, NULL, GLOBAL,
        "In each such time at least 1 KiB of a body must come, else 408." },
    { "http.timeout.idle_s", PH_SETTING_TIME, "60", 1, 86400, NULL, GLOBAL,
        "How long a connection is kept between requests." },
    { "http.timeout.write_s", PH_SETTING_TIME, "60", 1, 3600, NULL, GLOBAL,
        "How long a client may take nothing of a response." },
    { "http.connection.max_requests", PH_SETTING_INT, "1000", 1, 100000000, NULL, GLOBAL,
        "Requests on one connection; then it is closed." },
    { "http.cache.max_bytes", PH_SETTING_SIZE, "64M", 0, INT64_C(1) << 40, NULL, GLOBAL,
        "Memory for ready responses, for all reactors together." },
    { "http.cache.revalidate_ms", PH_SETTING_TIME, "1000", 0, 3600000, NULL, GLOBAL,
        "How long a response is sent from memory before the file is looked at again." },
    { "http.https.port", PH_SETTING_INT, "0", 0, 65535, NULL, GLOBAL | PH_SCOPE_NODE,
        "The port that redirections to https name; 0: the one that belongs to the http port." },
    { "http.response.server_token", PH_SETTING_BOOL, "false", 0, 0, NULL, GLOBAL,
        "Whether responses name this server (without its version)." },
    { "http.log.format", PH_SETTING_CHOICE, "combined", 0, 0, "combined|json|off", GLOBAL,
        "The form of STATE/log/access.log." },
    { 0 },
};

static const PhServiceRow services[] = {
    { "http", 80, PH_TLS_NONE, &http_session_class, NULL, NULL, false },
    { "https", 443, PH_TLS_IMPLICIT, &http_session_class, NULL, "http/1.1", false },
    { 0 },
};

/* -- what each reactor has --------------------------------------------------------------------- */

static void
read_config(HttpLocal *local)
{
    g_autoptr(PhSettings) values = ph_settings_current();
    HttpConfig *config = &local->config;
    config->limits.request_line_bytes =
        (size_t)ph_settings_int(values, "http.limits.request_line_bytes", NULL);
    config->limits.head_bytes = (size_t)ph_settings_int(values, "http.limits.head_bytes", NULL);
    config->limits.fields = (size_t)ph_settings_int(values, "http.limits.fields", NULL);
    config->body_max_bytes = ph_settings_int(values, "http.limits.body_bytes", NULL);
    config->page_body_max_bytes = ph_settings_int(values, "http.page.body_bytes", NULL);
    config->page_timeout_ms = ph_settings_int(values, "http.page.timeout_ms", NULL);
    config->head_timeout_ms = ph_settings_int(values, "http.timeout.head_s", NULL) * 1000;
    config->body_timeout_ms = ph_settings_int(values, "http.timeout.body_s", NULL) * 1000;
    config->idle_timeout_ms = ph_settings_int(values, "http.timeout.idle_s", NULL) * 1000;
    config->write_timeout_ms = ph_settings_int(values, "http.timeout.write_s", NULL) * 1000;
    config->requests_per_connection =
        (unsigned)ph_settings_int(values, "http.connection.max_requests", NULL);
    config->cache_bytes =
        ph_settings_int(values, "http.cache.max_bytes", NULL) / (int64_t)g_get_num_processors();
    config->revalidate_us = ph_settings_int(values, "http.cache.revalidate_ms", NULL) * 1000;
    config->https_port = (int)ph_settings_int(values, "http.https.port", NULL);
    config->server_token = ph_settings_bool(values, "http.response.server_token", NULL);
    const char *format = ph_settings_text(values, "http.log.format", NULL);
    config->log_format = strcmp(format, "json") == 0  ? HTTP_LOG_JSON
                         : strcmp(format, "off") == 0 ? HTTP_LOG_OFF
                                                      : HTTP_LOG_COMBINED;
}

static void
set_date(HttpLocal *local, int64_t seconds)
{
    char date[HTTP_DATE_BYTES];
    http_format_date(seconds, date);
    local->date_s = seconds;
    local->date_line_length =
        (size_t)g_snprintf(local->date_line, sizeof(local->date_line), "Date: %s\r\n", date);
    /* "Sun, 06 Nov 1994 08:49:37 GMT" to "06/Nov/1994:08:49:37 +0000" */
    g_snprintf(local->log_time, sizeof(local->log_time), "%.2s/%.3s/%.4s:%.8s +0000", date + 5,
        date + 8, date + 12, date + 17);
}

int64_t
http_local_refresh(HttpLocal *local)
{
    uint64_t generation = ph_settings_generation();
    if (generation != local->settings_generation) {
        local->settings_generation = generation;
        read_config(local);
    }
    generation = ph_sites_generation();
    if (local->sites == NULL || generation != local->sites_generation) {
        local->sites_generation = generation;
        g_clear_pointer(&local->sites, ph_sites_unref);
        local->sites = ph_sites_current();
    }
    int64_t now_us = ph_time_now_us();
    if (now_us / G_USEC_PER_SEC != local->date_s)
        set_date(local, now_us / G_USEC_PER_SEC);
    return now_us;
}

HttpLocal *
http_local_get(HttpState *state, PhReactor *reactor)
{
    HttpLocal *found = NULL;
    g_mutex_lock(&state->mutex);
    ph_handover_take(state);
    for (guint i = 0; i < state->locals->len && found == NULL; i++) {
        HttpLocal *local = state->locals->pdata[i];
        if (local->reactor == reactor)
            found = local;
    }
    if (found == NULL) {
        found = g_new0(HttpLocal, 1);
        found->state = state;
        found->reactor = reactor;
        found->log_line = g_string_sized_new(1024);
        found->cache = http_cache_new(found);
        g_ptr_array_add(state->locals, found);
    }
    ph_handover_give(state);
    g_mutex_unlock(&state->mutex);
    return found;
}

GString *
http_local_take_text(HttpLocal *local)
{
    GString *text = g_steal_pointer(&local->spare);
    return text != NULL ? text : g_string_sized_new(512);
}

void
http_local_give_text(HttpLocal *local, GString *text)
{
    if (text == NULL)
        return;
    if (local->spare != NULL || text->allocated_len > 4096) {
        g_string_free(text, TRUE);
        return;
    }
    local->spare = g_string_truncate(text, 0);
}

void
http_local_free(HttpLocal *local)
{
    if (local->spare != NULL)
        g_string_free(local->spare, TRUE);
    http_cache_free(local->cache);
    g_clear_pointer(&local->sites, ph_sites_unref);
    g_string_free(local->log_line, TRUE);
    g_free(local);
}

/* -- start and stop ---------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *help;
    PhMetricKind kind;
} counter_rows[] = {
    { "http_connections_total", "Connections opened.", PH_METRIC_COUNTER },
    { "http_requests_total", "Requests answered, malformed ones included.", PH_METRIC_COUNTER },
    { "http_requests_abandoned_total", "Requests whose client left before the response.",
        PH_METRIC_COUNTER },
    { "http_responses_1xx_total", "Interim responses.", PH_METRIC_COUNTER },
    { "http_responses_2xx_total", "Responses: success.", PH_METRIC_COUNTER },
    { "http_responses_3xx_total", "Responses: redirections and not modified.", PH_METRIC_COUNTER },
    { "http_responses_4xx_total", "Responses: the client's errors.", PH_METRIC_COUNTER },
    { "http_responses_5xx_total", "Responses: the server's errors.", PH_METRIC_COUNTER },
    { "http_requests_malformed_total", "Requests that were refused unread.", PH_METRIC_COUNTER },
    { "http_body_bytes_sent_total", "Bytes of bodies sent.", PH_METRIC_COUNTER },
    { "http_cache_hits_total", "Files answered from memory.", PH_METRIC_COUNTER },
    { "http_cache_misses_total", "Files looked up.", PH_METRIC_COUNTER },
    { "http_log_dropped_lines", "Lines of the access log that were dropped.", PH_METRIC_GAUGE },
};

G_STATIC_ASSERT(G_N_ELEMENTS(counter_rows) == offsetof(HttpCounters, end) / sizeof(PhMetric));

static bool
start(void **state_out, GError **error)
{
    (void)error;
    HttpState *state = g_new0(HttpState, 1);
    g_mutex_init(&state->mutex);
    state->locals = g_ptr_array_new();
    PhMetric *metrics = &state->counters.connections;
    for (size_t i = 0; i < G_N_ELEMENTS(counter_rows); i++)
        metrics[i] =
            (PhMetric){ counter_rows[i].name, counter_rows[i].help, counter_rows[i].kind, 0 };
    ph_metrics_register(metrics);
    g_autoptr(GError) cause = NULL;
    state->log = ph_log_file_open("access.log", &cause);
    if (state->log == NULL)
        ph_log(PH_LOG_WARNING, "http.no-access-log", "%s", cause->message);
    *state_out = state;
    return true;
}

static void
stop(void *data)
{
    HttpState *state = data;
    ph_metrics_unregister(&state->counters.connections);
    ph_handover_take(state);
    for (guint i = 0; i < state->locals->len; i++)
        http_local_free(state->locals->pdata[i]);
    g_ptr_array_unref(state->locals);
    ph_log_file_close(state->log);
    g_mutex_clear(&state->mutex);
    g_free(state);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "http",
    .summary = "web server: HTTP/1.1, sites, static files, Lua pages",
    .settings = settings,
    .services = services,
    .hooks = http_hooks,
    .start = start,
    .stop = stop,
};
