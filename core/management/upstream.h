/* upstream.h - upstreams as a part of the node's configuration
 *
 * Threads:  in a job.
 */
#pragma once

#include "store/web.h"

#define PH_UPSTREAMS_VARIANT "a(xsssbssayubbixxxx)"

/* Reads them and publishes the snapshot. */
PH_IN_JOB bool ph_upstreams_load_blocking(int64_t deadline_us, GError **error);
/* The same from the sealed local copy. */
void ph_upstreams_load_variant(GVariant *variant);
/* For the sealed local copy; an empty one before the first load. Free it. */
GVariant *ph_upstreams_to_variant(void);
