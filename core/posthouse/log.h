/* log.h - one event, its fields, one line
 *
 * Shape:    an event name and printf-formatted text; the session id of the calling callback or job
 *           is added by the writer. Control bytes are escaped, long values cut.
 * Levels:   error: someone must act; warning: we went on differently; notice: life cycle; info: one
 *           line per transaction; debug: for developers.
 * Threads:  anywhere; never blocks on the terminal or disk (a writer thread does).
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhLogLevel {
    PH_LOG_ERROR,
    PH_LOG_WARNING,
    PH_LOG_NOTICE,
    PH_LOG_INFO,
    PH_LOG_DEBUG,
} PhLogLevel;

PH_API bool ph_log_enabled(PhLogLevel level);
/* `event` is a constant like "smtp.received"; the text is for people: key="value" pairs after a few
 * words. */
PH_API void ph_log(PhLogLevel level, const char *event, const char *format, ...) PH_PRINTF(3, 4);

/* Text from a stranger for use between quotes in a line: `"` and `\\` are escaped, so that it cannot
 * look like other fields. Free it. */
PH_API char *ph_log_quote(const char *text);

/* What lines written by this thread belong to, until the next call; null ends it. The runtime calls
 * it around each callback and job; the string must live as long. */
PH_API void ph_log_set_context(const char *session_id);
PH_API const char *ph_log_context(void);
