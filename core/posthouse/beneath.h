/* beneath.h - files below a folder, and nowhere else
 *
 * Shape:    a relative path is opened below a folder's descriptor; "..", absolute symbolic links and
 *           mount tricks that lead out of it fail, whatever the path says.
 * Threads:  anywhere that may touch a disk; with PH_BENEATH_CACHED also on a reactor (nothing is
 *           read from the disk).
 * Errors:   NOT_FOUND (not there, or leads out), DENIED, TEMPORARY (out of descriptors),
 *           UNAVAILABLE (CACHED: not in the kernel's cache; ask in a job).
 * Sources:  openat2(2): RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_CACHED.
 */
#pragma once

#include "posthouse/base.h"

enum {
    PH_BENEATH_CACHED = 1 << 0,
};

/* For reading, CLOEXEC and NONBLOCK; -1 with an error. `path` has no leading "/". */
PH_API int ph_open_beneath(int folder_fd, const char *path, unsigned flags, GError **error);
/* The folder itself, by its absolute path, for the function above: not for reading (O_PATH). */
PH_API int ph_open_folder(const char *path, unsigned flags, GError **error);
