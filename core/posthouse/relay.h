/* relay.h - for a library that wants sockets: descriptors on a reactor, a connection as a socket
 *
 * Shape:    a watch calls a function while a descriptor is readable. A relay gives the plain side of
 *           a connection, TLS and all done, as one end of a socket pair, and moves bytes both ways
 *           with back-pressure.
 * Threads:  on the reactor, but ph_watch_free() anywhere.
 * Errors:   TEMPORARY (out of descriptors).
 */
#pragma once

#include "posthouse/connection.h"

typedef struct PhWatch PhWatch;

/* Level-triggered: `func` is called each turn while there is something to read. The descriptor stays
 * the caller's. Anywhere. */
PH_API PhWatch *ph_watch_new(
    PhReactor *reactor, int fd, void (*func)(void *data), void *data, GError **error);
/* When it returns, `func` is not running and will not be called. */
PH_API void ph_watch_free(PhWatch *watch);

typedef struct PhRelay PhRelay;

/* `fd_out` is the library's end: non-blocking, CLOEXEC, its own to close. When the library closes
 * it, the connection is closed after what was written. */
PH_API PH_ON_REACTOR PhRelay *ph_relay_new(PhSession *session, int *fd_out, GError **error);
/* What the session's callbacks of the same names pass on. */
PH_API PH_ON_REACTOR void ph_relay_input(PhRelay *relay);
PH_API PH_ON_REACTOR void ph_relay_drained(PhRelay *relay);
PH_API PH_ON_REACTOR void ph_relay_ended(PhRelay *relay);
/* In `closed`; null is nothing. */
PH_API PH_ON_REACTOR void ph_relay_free(PhRelay *relay);
