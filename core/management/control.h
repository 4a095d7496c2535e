/* control.h - the control socket: actions by line, for the CLI of this host
 *
 * Shape:    a Unix stream socket; a line of JSON in, a line of JSON out (see actions.h). Callers
 *           are root and the user we run as (peer credentials), both operators.
 * Threads:  a thread accepts, one more for each caller, at most 16: it answers while reactors and
 *           pool are busy.
 * Errors:   DENIED, CONFLICT (a path that cannot be bound).
 */
#pragma once

#include "posthouse/base.h"

bool ph_control_start(const char *path, GError **error);
void ph_control_stop(void);

/* The client's side: connects, sends one request, gives the answer. UNAVAILABLE when nobody
 * listens. */
char *ph_control_call_blocking(const char *path, const char *request, GError **error);
