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
bool ph_log_level_parse(const char *text, PhLogLevel *level_out);
void ph_log_start(const char *program, PhLogFormat format, PhLogLevel level);
void ph_log_set(PhLogFormat format, PhLogLevel level);
/* Writes what waits, then ends the writer thread. Later lines are written at once. */
void ph_log_stop(void);
/* The newest lines kept in memory (at most 1,000), oldest first: an array of text. */
GPtrArray *ph_log_recent(unsigned limit);
