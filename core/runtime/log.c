/* log.c - one writer thread between everybody and a stderr that may block
 *
 * Lines are formatted by the caller, queued (bounded; what does not fit is counted and reported),
 * and written by one thread. Before the writer starts and after it stops, lines are written by the
 * caller.
 */
#include "runtime/log.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE_MAX_LINES = 20000, RECENT_MAX_LINES = 1000, TEXT_MAX_BYTES = 2048 };

static const struct {
    const char *name;
    int syslog;
} level_rows[] = {
    [PH_LOG_ERROR] = { "error", 3 },
    [PH_LOG_WARNING] = { "warning", 4 },
    [PH_LOG_NOTICE] = { "notice", 5 },
    [PH_LOG_INFO] = { "info", 6 },
    [PH_LOG_DEBUG] = { "debug", 7 },
};

static struct {
    PhMutex mutex;
    GCond cond;
    GThread *thread;
    GQueue lines;  /* of char*, each with its newline */
    GQueue recent; /* of PhLogLine */
    uint64_t last_number;
    unsigned dropped;
    bool stopping;
    const char *program;
    int format; /* these two are read without the lock */
    int level;
} writer = { .level = PH_LOG_NOTICE, .program = "posthouse", .mutex = { .rank = PH_LOCK_LOG } };

static __thread const char *context;

void
ph_log_set_context(const char *session_id)
{
    context = session_id;
}

const char *
ph_log_context(void)
{
    return context != NULL && context[0] != '\0' ? context : NULL;
}

bool
ph_log_enabled(PhLogLevel level)
{
    return (int)level <= __atomic_load_n(&writer.level, __ATOMIC_RELAXED);
}

const char *
ph_log_level_name(PhLogLevel level)
{
    return level_rows[level].name;
}

bool
ph_log_level_parse(const char *text, PhLogLevel *level_out)
{
    for (size_t i = 0; i < G_N_ELEMENTS(level_rows); i++)
        if (strcmp(text, level_rows[i].name) == 0) {
            *level_out = (PhLogLevel)i;
            return true;
        }
    return false;
}

bool
ph_log_format_parse(const char *text, PhLogFormat *format_out)
{
    static const char *const names[] = { "text", "journal", "json" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *format_out = (PhLogFormat)i;
            return true;
        }
    return false;
}

/* Strings from strangers stay on one line and show what they are. */
static void
append_clean(GString *line, const char *text, bool json)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at < 0x20 || *at == 0x7f)
            g_string_append_printf(line, json ? "\\u%04x" : "\\x%02x", *at);
        else if (json && (*at == '"' || *at == '\\'))
            g_string_append_printf(line, "\\%c", *at);
        else
            g_string_append_c(line, (char)*at);
    }
}

char *
ph_log_quote(const char *text)
{
    GString *quoted = g_string_new(NULL);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            g_string_append_c(quoted, '\\');
        g_string_append_c(quoted, *text);
    }
    return g_string_free(quoted, FALSE);
}

static void
append_time(GString *line, int64_t now_us)
{
    time_t seconds = (time_t)(now_us / G_USEC_PER_SEC);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    g_string_append_printf(line, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", parts.tm_year + 1900,
        parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
        (int)(now_us % G_USEC_PER_SEC));
}

static char *
format_line(const PhLogLine *kept, const char *text)
{
    GString *line = g_string_sized_new(160);
    const char *session = kept->session;
    const char *event = kept->event;
    PhLogLevel level = kept->level;
    PhLogFormat format = (PhLogFormat)__atomic_load_n(&writer.format, __ATOMIC_RELAXED);
    bool json = format == PH_LOG_JSON;
    if (json) {
        g_string_append(line, "{\"time\":\"");
        append_time(line, kept->at_us);
        g_string_append_printf(line, "\",\"level\":\"%s\",\"program\":\"%s\",\"event\":\"%s\"",
            level_rows[level].name, writer.program, event);
        if (session != NULL)
            g_string_append_printf(line, ",\"session\":\"%s\"", session);
        g_string_append(line, ",\"text\":\"");
        append_clean(line, text, true);
        g_string_append(line, "\"}\n");
        return g_string_free(line, FALSE);
    }
    if (format == PH_LOG_JOURNAL) {
        g_string_append_printf(line, "<%d>", level_rows[level].syslog);
    } else {
        append_time(line, kept->at_us);
        g_string_append_printf(line, " %s %s ", writer.program, level_rows[level].name);
    }
    g_string_append_printf(line, "[%s] %s: ", session != NULL ? session : "-", event);
    g_string_append(line, kept->text);
    g_string_append_c(line, '\n');
    return g_string_free(line, FALSE);
}

static void
free_kept(gpointer data)
{
    PhLogLine *line = data;
    g_free(line->event);
    g_free(line->session);
    g_free(line->text);
    g_free(line);
}

static PhLogLine *
line_new(PhLogLevel level, const char *event, const char *text)
{
    GString *clean = g_string_sized_new(strlen(text));
    append_clean(clean, text, false);
    PhLogLine *line = g_new(PhLogLine, 1);
    *line = (PhLogLine){
        .at_us = ph_time_now_us(),
        .level = level,
        .event = g_strdup(event),
        .session = g_strdup(ph_log_context()),
        .text = g_string_free(clean, FALSE),
    };
    return line;
}

static void
write_all(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        length -= (size_t)n;
    }
}

void
ph_log(PhLogLevel level, const char *event, const char *format, ...)
{
    if (!ph_log_enabled(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *raw = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    if (strlen(raw) > TEXT_MAX_BYTES)
        memcpy(raw + TEXT_MAX_BYTES - 3, "...", 4);
    g_autofree char *text = g_utf8_make_valid(raw, -1);
    PhLogLine *kept = line_new(level, event, text);
    char *line = format_line(kept, text);

    ph_mutex_lock(&writer.mutex);
    kept->number = ++writer.last_number;
    g_queue_push_tail(&writer.recent, kept);
    if (writer.recent.length > RECENT_MAX_LINES)
        free_kept(g_queue_pop_head(&writer.recent));
    if (writer.thread == NULL) {
        write_all(line, strlen(line));
        g_free(line);
    } else if (writer.lines.length >= QUEUE_MAX_LINES) {
        writer.dropped++;
        g_free(line);
    } else {
        g_queue_push_tail(&writer.lines, line);
        if (writer.lines.length == 1)
            g_cond_signal(&writer.cond);
    }
    ph_mutex_unlock(&writer.mutex);
}

static void *
writer_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    GString *batch = g_string_new(NULL);
    ph_mutex_lock(&writer.mutex);
    for (;;) {
        while (writer.lines.length == 0 && !writer.stopping)
            ph_mutex_wait(&writer.mutex, &writer.cond);
        if (writer.lines.length == 0)
            break;
        while (writer.lines.length > 0 && batch->len < 64 * 1024) {
            g_autofree char *line = g_queue_pop_head(&writer.lines);
            g_string_append(batch, line);
        }
        if (writer.dropped > 0) {
            g_string_append_printf(batch, "... %u lines were dropped here\n", writer.dropped);
            writer.dropped = 0;
        }
        ph_mutex_unlock(&writer.mutex);
        write_all(batch->str, batch->len);
        g_string_truncate(batch, 0);
        ph_mutex_lock(&writer.mutex);
    }
    ph_mutex_unlock(&writer.mutex);
    g_string_free(batch, TRUE);
    return NULL;
}

void
ph_log_set(PhLogFormat format, PhLogLevel level)
{
    __atomic_store_n(&writer.format, (int)format, __ATOMIC_RELAXED);
    __atomic_store_n(&writer.level, (int)level, __ATOMIC_RELAXED);
}

void
ph_log_start(const char *program, PhLogFormat format, PhLogLevel level)
{
    writer.program = program;
    ph_log_set(format, level);
    writer.stopping = false;
    writer.thread = g_thread_new("log", writer_main, NULL);
}

void
ph_log_stop(void)
{
    if (writer.thread == NULL)
        return;
    ph_mutex_lock(&writer.mutex);
    writer.stopping = true;
    g_cond_signal(&writer.cond);
    ph_mutex_unlock(&writer.mutex);
    g_thread_join(writer.thread);
    ph_mutex_lock(&writer.mutex);
    writer.thread = NULL;
    g_queue_clear_full(&writer.recent, free_kept);
    ph_mutex_unlock(&writer.mutex);
}

static bool
is_wanted(const PhLogLine *line, const PhLogFilter *filter)
{
    return line->number > filter->after && line->level <= filter->level &&
           (filter->contains == NULL || strstr(line->text, filter->contains) != NULL ||
               strstr(line->event, filter->contains) != NULL ||
               (line->session != NULL && strstr(line->session, filter->contains) != NULL));
}

static PhLogLine *
copy_kept(const PhLogLine *line)
{
    PhLogLine *copy = g_new(PhLogLine, 1);
    *copy = *line;
    copy->event = g_strdup(line->event);
    copy->session = g_strdup(line->session);
    copy->text = g_strdup(line->text);
    return copy;
}

GPtrArray *
ph_log_recent(const PhLogFilter *filter, unsigned limit)
{
    GQueue found = G_QUEUE_INIT;
    ph_mutex_lock(&writer.mutex);
    for (GList *link = writer.recent.tail; link != NULL && found.length < limit; link = link->prev)
        if (is_wanted(link->data, filter))
            g_queue_push_head(&found, copy_kept(link->data));
    ph_mutex_unlock(&writer.mutex);
    GPtrArray *lines = g_ptr_array_new_with_free_func(free_kept);
    while (found.length > 0)
        g_ptr_array_add(lines, g_queue_pop_head(&found));
    return lines;
}
