/* task-core.h - what the connection tells its session's task */
#pragma once

#include "posthouse/task.h"

enum { PH_TASK_CONTEXT_BYTES = 16 };

/* The session id that log lines of this task's jobs and callbacks carry. Before the first job. */
void ph_task_set_context(PhTask *task, const char *context);
