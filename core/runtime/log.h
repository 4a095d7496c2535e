/* log.h - where log lines go: for the program that starts and stops the writer
 *
 * Threads:  ph_log_start before other threads; ph_log_stop after them.
 */
#pragma once

#include "posthouse/log.h"

typedef enum PhLogFormat {
    PH_LOG_TEXT,    /* time, level, session, event, text: for a terminal or a file */
    PH_LOG_JOURNAL, /* "<6>" levels and no time: what systemd's journal takes from a pipe */
    PH_LOG_JSON,    /* an object a line */
} PhLogFormat;

bool ph_log_format_parse(const char *text, PhLogFormat *format_out);
const char *ph_log_level_name(PhLogLevel level);
bool ph_log_level_parse(const char *text, PhLogLevel *level_out);
void ph_log_start(const char *program, PhLogFormat format, PhLogLevel level);
void ph_log_set(PhLogFormat format, PhLogLevel level);
/* Writes what waits, then ends the writer thread. Later lines are written at once. */
void ph_log_stop(void);

/* A line that is kept in memory. */
typedef struct PhLogLine {
    uint64_t number; /* ascending, without gaps but for what was not kept */
    int64_t at_us;
    PhLogLevel level;
    char *event;
    char *session; /* null: none */
    char *text;    /* on one line, control characters shown as what they are */
} PhLogLine;

typedef struct PhLogFilter {
    uint64_t after;       /* only those with a greater number; 0: all */
    PhLogLevel level;     /* only those as important or more */
    const char *contains; /* in event, session or text; null: all */
} PhLogFilter;

/* The newest of the lines that are kept (the last 1,000), oldest first: GPtrArray of PhLogLine. */
GPtrArray *ph_log_recent(const PhLogFilter *filter, unsigned limit);
