/* upstream.h - publishing the snapshot of upstreams: for management and tests
 *
 * Threads:  anywhere.
 */
#pragma once

#include "posthouse/directory.h"

/* Takes the array (GPtrArray of PhUpstream) and the description, which says all of it and holds no
 * password in clear. When the description is that of the current snapshot, that one stays. */
void ph_upstreams_publish(GPtrArray *upstreams, GVariant *description);
/* Of the current snapshot; a new reference; null before the first one. */
GVariant *ph_upstreams_description(void);
/* At the end of the process: nobody holds a snapshot. */
void ph_upstreams_forget(void);
