/* log-file.h - where files of lines are: for the program that starts and reloads
 *
 * Threads:  _set_folder before the first file is opened; _reopen anywhere.
 */
#pragma once

#include "posthouse/log-file.h"

void ph_log_files_set_folder(const char *folder);
/* Soon: each file is closed and opened by its name. */
void ph_log_files_reopen(void);
/* At the end of the process, when all files are closed. */
void ph_log_files_stop(void);
