/* log-file.c - files of lines, and the thread that writes them
 *
 * What is hard is to cost a reactor almost nothing. A line is one copy under a lock that is held for
 * no longer; the thread is woken only when it sleeps without a deadline, which it does only while no
 * line is there. With lines coming it looks every 100 ms, takes the whole buffer, and writes it
 * without the lock.
 */
#include "runtime/log-file.h"

#include "posthouse/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_MAX_BYTES = 4 * 1024 * 1024,
    COLLECT_MS = 100,
    LOOK_EVERY_US = 1000 * 1000, /* was the file renamed? */
};

struct PhLogFile {
    char *path;
    GString *lines;   /* under the lock */
    uint64_t dropped; /* changed under the lock, read without */
    /* The thread's own. */
    int fd;
    dev_t device;
    ino_t inode;
    int64_t looked_us;
    GString *writing;
    uint64_t told;
    bool is_broken; /* said so already */
};

static struct {
    PhMutex mutex;
    GCond wake;
    GCond written;
    char *folder;
    GPtrArray *files;
    GThread *thread;
    unsigned rounds; /* of the thread, for who waits for one */
    bool idle;       /* the thread sleeps until it is woken */
    bool stopping;
    bool reopen;
} logs = { .mutex = { .rank = PH_LOCK_LOG } };

void
ph_log_files_set_folder(const char *folder)
{
    ph_mutex_lock(&logs.mutex);
    g_free(logs.folder);
    logs.folder = g_strdup(folder);
    ph_mutex_unlock(&logs.mutex);
}

void
ph_log_files_reopen(void)
{
    ph_mutex_lock(&logs.mutex);
    logs.reopen = true;
    g_cond_signal(&logs.wake);
    ph_mutex_unlock(&logs.mutex);
}

/* -- the thread -------------------------------------------------------------------------------- */

static bool
open_path(PhLogFile *file)
{
    file->fd = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
    struct stat status;
    if (file->fd < 0 || fstat(file->fd, &status) != 0)
        return false;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->looked_us = ph_monotonic_us();
    return true;
}

static void
close_path(PhLogFile *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static void
look_again(PhLogFile *file, bool reopen)
{
    struct stat status;
    int64_t now_us = ph_monotonic_us();
    if (file->fd >= 0 && !reopen && now_us - file->looked_us < LOOK_EVERY_US)
        return;
    file->looked_us = now_us;
    if (!reopen && file->fd >= 0 && stat(file->path, &status) == 0 &&
        status.st_dev == file->device && status.st_ino == file->inode)
        return;
    close_path(file);
    open_path(file);
}

static void
write_lines(PhLogFile *file, bool reopen)
{
    if (file->writing->len > 0 || reopen)
        look_again(file, reopen);
    const char *at = file->writing->str;
    size_t left = file->writing->len;
    while (left > 0) {
        ssize_t n = file->fd >= 0 ? write(file->fd, at, left) : -1;
        if (n < 0 && errno == EINTR && file->fd >= 0)
            continue;
        if (n <= 0) {
            if (!file->is_broken)
                ph_log(PH_LOG_ERROR, "log-file.lost", "file=\"%s\" lines are lost: %s", file->path,
                    g_strerror(errno));
            file->is_broken = true;
            break;
        }
        at += n;
        left -= (size_t)n;
    }
    if (left == 0 && file->writing->len > 0)
        file->is_broken = false;
    g_string_truncate(file->writing, 0);
}

/* Takes what waits. True when there was something. */
static bool
collect_locked(PhLogFile *file)
{
    GString *taken = file->lines;
    file->lines = file->writing;
    file->writing = taken;
    if (file->dropped != file->told)
        g_string_append_printf(
            taken, "# %" G_GUINT64_FORMAT " lines were dropped here\n", file->dropped - file->told);
    file->told = file->dropped;
    return taken->len > 0;
}

static void *
thread_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_mutex_lock(&logs.mutex);
    while (!logs.stopping) {
        bool some = false;
        for (guint i = 0; i < logs.files->len; i++)
            some = collect_locked(logs.files->pdata[i]) || some;
        bool reopen = logs.reopen;
        logs.reopen = false;
        if (some || reopen) {
            /* _close waits for the round, so the files of this list stay. */
            g_autoptr(GPtrArray) files = g_ptr_array_copy(logs.files, NULL, NULL);
            ph_mutex_unlock(&logs.mutex);
            for (guint i = 0; i < files->len; i++)
                write_lines(files->pdata[i], reopen);
            ph_mutex_lock(&logs.mutex);
        }
        logs.rounds++;
        g_cond_broadcast(&logs.written);
        if (logs.stopping)
            break;
        if (some) {
            ph_mutex_wait_until(&logs.mutex, &logs.wake, ph_monotonic_us() + COLLECT_MS * 1000);
        } else {
            logs.idle = true;
            ph_mutex_wait(&logs.mutex, &logs.wake);
            logs.idle = false;
        }
    }
    ph_mutex_unlock(&logs.mutex);
    return NULL;
}

/* -- files ------------------------------------------------------------------------------------- */

static void
file_free(PhLogFile *file)
{
    close_path(file);
    g_string_free(file->lines, TRUE);
    g_string_free(file->writing, TRUE);
    g_free(file->path);
    g_free(file);
}

PhLogFile *
ph_log_file_open(const char *name, GError **error)
{
    ph_mutex_lock(&logs.mutex);
    g_autofree char *folder = g_strdup(logs.folder);
    ph_mutex_unlock(&logs.mutex);
    if (folder == NULL) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_UNAVAILABLE, "log \"%s\": there is no folder for logs", name);
        return NULL;
    }
    PhLogFile *file = g_new0(PhLogFile, 1);
    file->path = g_build_filename(folder, name, NULL);
    file->lines = g_string_new(NULL);
    file->writing = g_string_new(NULL);
    if (!open_path(file)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_TEMPORARY, "log \"%s\": %s", file->path, g_strerror(errno));
        file_free(file);
        return NULL;
    }
    ph_mutex_lock(&logs.mutex);
    if (logs.files == NULL)
        logs.files = g_ptr_array_new();
    g_ptr_array_add(logs.files, file);
    if (logs.thread == NULL)
        logs.thread = g_thread_new("log-files", thread_main, NULL);
    ph_mutex_unlock(&logs.mutex);
    return file;
}

void
ph_log_file_close(PhLogFile *file)
{
    if (file == NULL)
        return;
    ph_mutex_lock(&logs.mutex);
    /* Two ends of a round: the second one began after this call, and took all lines. */
    unsigned until = logs.rounds + 2;
    while ((int)(logs.rounds - until) < 0) {
        g_cond_signal(&logs.wake);
        ph_mutex_wait_until(&logs.mutex, &logs.written, ph_monotonic_us() + COLLECT_MS * 1000);
    }
    g_ptr_array_remove(logs.files, file);
    ph_mutex_unlock(&logs.mutex);
    file_free(file);
}

void
ph_log_files_stop(void)
{
    ph_mutex_lock(&logs.mutex);
    logs.stopping = true;
    g_cond_signal(&logs.wake);
    GThread *thread = g_steal_pointer(&logs.thread);
    ph_mutex_unlock(&logs.mutex);
    if (thread != NULL)
        g_thread_join(thread);
    ph_mutex_lock(&logs.mutex);
    logs.stopping = false;
    g_clear_pointer(&logs.files, g_ptr_array_unref);
    g_clear_pointer(&logs.folder, g_free);
    ph_mutex_unlock(&logs.mutex);
}

void
ph_log_file_write(PhLogFile *file, const char *lines, size_t length)
{
    ph_mutex_lock(&logs.mutex);
    if (file->lines->len + length > BUFFER_MAX_BYTES)
        __atomic_fetch_add(&file->dropped, 1, __ATOMIC_RELAXED);
    else
        g_string_append_len(file->lines, lines, (gssize)length);
    if (logs.idle || file->lines->len > BUFFER_MAX_BYTES / 2) {
        logs.idle = false;
        g_cond_signal(&logs.wake);
    }
    ph_mutex_unlock(&logs.mutex);
}

uint64_t
ph_log_file_dropped(const PhLogFile *file)
{
    return __atomic_load_n(&file->dropped, __ATOMIC_RELAXED);
}
