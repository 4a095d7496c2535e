/* log-file.h - a file of lines, such as an access log, written by a thread of its own
 *
 * Shape:    lines go to a bounded buffer; a thread writes them to STATE/log/NAME, a few times a
 *           second. What does not fit is dropped and counted, and the file says so. The file is
 *           opened again when somebody renamed or removed it, and on SIGHUP.
 * Units:    bytes; the buffer is 4 MiB.
 * Threads:  _open and _close may block; the rest anywhere, and never blocks on the disk.
 * Errors:   TEMPORARY (the file cannot be opened), UNAVAILABLE (there is no folder for logs).
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhLogFile PhLogFile;

/* `name` has no "/". Opening one name twice gives two that write to the same file. */
PH_API PhLogFile *ph_log_file_open(const char *name, GError **error);
/* Writes what waits. */
PH_API void ph_log_file_close(PhLogFile *file);
/* One line or several, each with its "\n". */
PH_API void ph_log_file_write(PhLogFile *file, const char *lines, size_t length);
/* Lines dropped since it was opened. */
PH_API uint64_t ph_log_file_dropped(const PhLogFile *file);
