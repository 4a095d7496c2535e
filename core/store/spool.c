/* spool.c - bytes on their way in
 *
 * Hard here: the sum of all spools of the process has a limit, and a file may only grow while the
 * disk has room left for the rest of the server. An append either takes all of its bytes or none.
 */
#include "posthouse/spool.h"

#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { IN_MEMORY_MAX = 256 * 1024 };

struct PhSpool {
    size_t limit;
    size_t size;
    GByteArray *memory; /* until there is a file */
    int fd;             /* -1: none */
};

/* Set before the first spool is filled. */
static struct {
    char *folder;
    size_t total_max;
} config = { .total_max = 512u << 20 };

static size_t in_flight;

void
ph_spool_configure(const char *folder, size_t total_bytes)
{
    g_free(config.folder);
    config.folder = g_strdup(folder);
    config.total_max = total_bytes;
}

size_t
ph_spool_bytes_in_flight(void)
{
    return __atomic_load_n(&in_flight, __ATOMIC_RELAXED);
}

PhSpool *
ph_spool_new(size_t limit_bytes)
{
    PhSpool *spool = g_new0(PhSpool, 1);
    spool->limit = limit_bytes;
    spool->fd = -1;
    return spool;
}

void
ph_spool_free(PhSpool *spool)
{
    if (spool == NULL)
        return;
    __atomic_fetch_sub(&in_flight, spool->size, __ATOMIC_RELAXED);
    g_clear_pointer(&spool->memory, g_byte_array_unref);
    if (spool->fd >= 0)
        close(spool->fd);
    g_free(spool);
}

size_t
ph_spool_size(const PhSpool *spool)
{
    return spool->size;
}

static int
open_unlinked(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    g_autofree char *path = g_build_filename(folder, "spool-XXXXXX", NULL);
    fd = g_mkstemp_full(path, O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* Less free than the smaller of 5 % and 1 GiB is nearly full. */
static bool
disk_has_room(int fd, size_t more)
{
    struct statvfs disk;
    if (fstatvfs(fd, &disk) != 0)
        return true;
    uint64_t total = (uint64_t)disk.f_blocks * disk.f_frsize;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return free_bytes >= MIN(total / 20, UINT64_C(1) << 30) + more;
}

static bool
write_all(int fd, const char *bytes, size_t length, size_t offset)
{
    while (length > 0) {
        ssize_t n = pwrite(fd, bytes, length, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
        offset += (size_t)n;
    }
    return true;
}

static bool
disk_error(GError **error)
{
    int code = errno;
    bool full = code == ENOSPC || code == EDQUOT;
    g_set_error(
        error, PH_ERROR, full ? PH_ERROR_LIMIT : PH_ERROR_TEMPORARY, "spool: %s", g_strerror(code));
    return false;
}

/* Moves what is in memory to a file. */
static bool
open_file(PhSpool *spool, size_t more, GError **error)
{
    int fd = open_unlinked(config.folder != NULL ? config.folder : g_get_tmp_dir());
    if (fd < 0)
        return disk_error(error);
    if (!disk_has_room(fd, spool->size + more)) {
        close(fd);
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "the disk of the spool is nearly full");
        return false;
    }
    if (spool->memory != NULL &&
        !write_all(fd, (const char *)spool->memory->data, spool->size, 0)) {
        disk_error(error);
        close(fd);
        return false;
    }
    g_clear_pointer(&spool->memory, g_byte_array_unref);
    spool->fd = fd;
    return true;
}

static bool
take_in_flight(size_t length, GError **error)
{
    size_t before = __atomic_fetch_add(&in_flight, length, __ATOMIC_RELAXED);
    if (before + length <= config.total_max)
        return true;
    __atomic_fetch_sub(&in_flight, length, __ATOMIC_RELAXED);
    g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "too many bytes are on their way in");
    return false;
}

static bool
store_bytes(PhSpool *spool, const void *bytes, size_t length, GError **error)
{
    if (spool->fd < 0 && spool->size + length > IN_MEMORY_MAX && !open_file(spool, length, error))
        return false;
    if (spool->fd < 0) {
        if (spool->memory == NULL)
            spool->memory = g_byte_array_new();
        g_byte_array_append(spool->memory, bytes, (guint)length);
        return true;
    }
    /* One look at the disk for each MiB is enough. */
    if (spool->size >> 20 != (spool->size + length) >> 20 && !disk_has_room(spool->fd, length)) {
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "the disk of the spool is nearly full");
        return false;
    }
    return write_all(spool->fd, bytes, length, spool->size) || disk_error(error);
}

bool
ph_spool_append(PhSpool *spool, const void *bytes, size_t length, GError **error)
{
    if (length == 0)
        return true;
    if (length > spool->limit - spool->size) {
        g_set_error(error, PH_ERROR, PH_ERROR_TOO_LARGE, "more than %zu bytes", spool->limit);
        return false;
    }
    if (!take_in_flight(length, error))
        return false;
    if (!store_bytes(spool, bytes, length, error)) {
        __atomic_fetch_sub(&in_flight, length, __ATOMIC_RELAXED);
        return false;
    }
    spool->size += length;
    return true;
}

bool
ph_spool_read(const PhSpool *spool, size_t offset, void *buffer, size_t length, size_t *length_out,
    GError **error)
{
    size_t left = offset < spool->size ? spool->size - offset : 0;
    length = MIN(length, left);
    if (spool->fd < 0) {
        if (length > 0)
            memcpy(buffer, spool->memory->data + offset, length);
        *length_out = length;
        return true;
    }
    for (size_t done = 0; done < length;) {
        ssize_t n = pread(spool->fd, (char *)buffer + done, length - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return disk_error(error);
        }
        done += (size_t)n;
    }
    *length_out = length;
    return true;
}
