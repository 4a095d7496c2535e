/* process.c - spawning with nothing of ours left behind */
#include "runtime/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rlimit found_files;
static bool limits_raised;

void
ph_process_raise_limits(void)
{
    if (getrlimit(RLIMIT_NOFILE, &found_files) != 0)
        return;
    struct rlimit wanted = found_files;
    if (geteuid() == 0 && wanted.rlim_max < 1048576)
        wanted.rlim_max = 1048576;
    wanted.rlim_cur = wanted.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &wanted) != 0) {
        wanted.rlim_cur = wanted.rlim_max = found_files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &wanted) != 0)
            return;
    }
    limits_raised = true;
}

/* In the child, between fork and exec: only calls that are safe there. */
static void
become_child(const PhSpawn *spawn)
{
    setsid();
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* The daemon needs the raised limit; PostgreSQL and others get back what we found. */
    if (limits_raised && spawn->channel_fd < 0) {
        struct rlimit files;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
            files.rlim_cur = MIN(found_files.rlim_cur, files.rlim_max);
            setrlimit(RLIMIT_NOFILE, &files);
        }
    }
    if (spawn->log_path != NULL) {
        int log = open(spawn->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
            _exit(126);
    }
    int input =
        open(spawn->input_path != NULL ? spawn->input_path : "/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0 || dup2(input, STDIN_FILENO) < 0)
        _exit(126);
    if (geteuid() == 0 && spawn->uid != 0 &&
        (setgroups(0, NULL) != 0 || setgid(spawn->gid) != 0 || setuid(spawn->uid) != 0))
        _exit(126);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (chdir(spawn->folder != NULL ? spawn->folder : "/") != 0)
        _exit(126);
    if (spawn->channel_fd >= 0 && dup2(spawn->channel_fd, 3) != 3)
        _exit(126);
}

pid_t
ph_process_spawn(const PhSpawn *spawn, GError **error)
{
    if (spawn->log_path != NULL) {
        /* Made by us, so that the child may write where it may not make files. */
        int log =
            open(spawn->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640);
        if (log >= 0) {
            if (geteuid() == 0 && fchown(log, spawn->uid, spawn->gid) != 0)
                errno = 0;
            close(log);
        }
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_child(spawn);
        /* execv() does not change the strings; its type is older than const. */
        execv(spawn->argv[0], (char *const *)(uintptr_t)spawn->argv);
        _exit(127);
    }
    if (pid < 0)
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "start \"%s\": %s", spawn->argv[0],
            g_strerror(errno));
    return pid;
}

bool
ph_process_run(const PhSpawn *spawn, GError **error)
{
    pid_t pid = ph_process_spawn(spawn, error);
    if (pid < 0)
        return false;
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "\"%s\" failed with status %d%s%s",
        spawn->argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
        spawn->log_path != NULL ? "; see " : "", spawn->log_path != NULL ? spawn->log_path : "");
    return false;
}

bool
ph_process_lock(const char *path, int64_t wait_ms, GError **error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "open \"%s\": %s", path, g_strerror(errno));
        return false;
    }
    int64_t until_us = ph_monotonic_us() + wait_ms * 1000;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (ph_monotonic_us() >= until_us) {
            close(fd);
            g_set_error(
                error, PH_ERROR, PH_ERROR_CONFLICT, "\"%s\" is held by a running process", path);
            return false;
        }
        g_usleep(20000);
    }
    return true; /* the descriptor stays open, and the lock with it */
}

bool
ph_process_is_unlocked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return true;
    bool unlocked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return unlocked;
}
