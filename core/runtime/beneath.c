/* beneath.c - files below a folder, by openat2
 *
 * The kernel resolves the path and holds the rule: a check of our own on the text of a path would
 * race with whoever may write below the folder.
 */
#include "posthouse/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RACES_MAX = 8 };

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

static PhError
code_of(int number, unsigned flags)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
    case EXDEV:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case ENODEV:
        return PH_ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
        return PH_ERROR_DENIED;
    case EAGAIN:
    case EINVAL: /* a kernel that cannot tell what is cached */
        return (flags & PH_BENEATH_CACHED) != 0 ? PH_ERROR_UNAVAILABLE : PH_ERROR_TEMPORARY;
    default:
        return PH_ERROR_TEMPORARY;
    }
}

static int
open_how(int folder_fd, const char *path, uint64_t open_flags, uint64_t resolve, unsigned flags,
    GError **error)
{
    struct open_how how = { .flags = open_flags | O_CLOEXEC, .resolve = resolve };
    if ((flags & PH_BENEATH_CACHED) != 0)
        how.resolve |= RESOLVE_CACHED;
    long fd = -1;
    /* Without CACHED the kernel says EAGAIN when a rename came between; with it, at once. */
    for (int i = 0; i < RACES_MAX; i++) {
        fd = syscall(SYS_openat2, folder_fd, path, &how, sizeof(how));
        if (fd >= 0 || (errno != EINTR && (errno != EAGAIN || (flags & PH_BENEATH_CACHED) != 0)))
            break;
    }
    if (fd < 0)
        g_set_error(error, PH_ERROR, (int)code_of(errno, flags), "open \"%s\": %s", path,
            g_strerror(errno));
    return (int)fd;
}

int
ph_open_beneath(int folder_fd, const char *path, unsigned flags, GError **error)
{
    return open_how(folder_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
        RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, flags, error);
}

int
ph_open_folder(const char *path, unsigned flags, GError **error)
{
    return open_how(AT_FDCWD, path, O_PATH | O_DIRECTORY, RESOLVE_NO_MAGICLINKS, flags, error);
}
