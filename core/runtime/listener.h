/* listener.h - the listening sockets of a service, one per reactor and address
 *
 * Threads:  in a job, one at a time per service.
 * Errors:   of the keeper: CONFLICT (port in use), DENIED (not allowed), UNAVAILABLE.
 */
#pragma once

#include "posthouse/plugin.h"
#include "runtime/owner.h"

typedef struct PhListeners PhListeners;

/* Accepts for `service` in the name of `owner`. Sockets come from the keeper; in a process without
 * one they are bound here. */
PhListeners *ph_listeners_open(const PhServiceRow *service, PhOwner *owner, GError **error);
/* New connections go to another generation of the same service; none is refused meanwhile. */
void ph_listeners_retarget(PhListeners *listeners, const PhServiceRow *service, PhOwner *owner);
void ph_listeners_close(PhListeners *listeners);
/* Stops accepting, and lets the keeper close the port as well (a plugin is stopped for good). */
void ph_listeners_release(PhListeners *listeners);
int ph_listeners_port(const PhListeners *listeners);
const char *ph_listeners_name(const PhListeners *listeners);

extern const PhSettingRow ph_listener_settings[];
