/* keeper.c - children, sockets, signals
 *
 * One thread, one poll. Everything that can fail here is written down and tried again: the keeper
 * itself must not end because something else did.
 */
#include "runtime/keeper.h"

#include "posthouse/log.h"
#include "runtime/keeper-channel.h"
#include "runtime/postgres.h"
#include "runtime/process.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DRAIN_MS = 40 * 1000,          /* the daemon's own deadline is 30 s */
    DATABASE_START_MS = 60 * 1000, /* before the daemon is started without it */
    DATABASE_STOP_MS = 60 * 1000,
    OLD_DAEMON_MS = 10 * 1000, /* it leaves within 5 s of its keeper's death */
    YOUNG_MS = 10 * 1000,      /* a child that dies younger is started later */
    FIRST_DELAY_MS = 200,
    LAST_DELAY_MS = 15 * 1000,
};

typedef struct Child {
    const char *name;
    pid_t pid; /* 0: not running */
    int64_t started_us;
    int64_t start_at_us; /* when not running: the next try */
    int64_t delay_ms;
    unsigned starts;
    unsigned ends;
    bool wanted;
    int64_t kill_at_us; /* asked to stop: force it then; 0: not asked */
    int kill_signal;
} Child;

typedef struct Sockets {
    int port;
    GArray *fds;
} Sockets;

typedef enum Phase { PHASE_STARTING, PHASE_SERVING, PHASE_DRAINING, PHASE_STOPPING } Phase;

typedef struct Keeper {
    const PhConfig *config;
    const char *program;
    Phase phase;
    int signals;
    int channel; /* -1: no daemon */
    Child database;
    Child daemon;
    GHashTable *sockets; /* service name -> Sockets */
    int64_t database_until_us;
    int exit_status;
} Keeper;

/* -- systemd ----------------------------------------------------------------------------------- */

/* Type=notify; without systemd there is no NOTIFY_SOCKET and nothing to do. sd_notify(3) describes
 * the protocol. */
static void
notify_manager(const char *text)
{
    const char *path = g_getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (path == NULL || strlen(path) >= sizeof(address.sun_path))
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    ssize_t sent =
        sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&address, size);
    if (sent < 0)
        ph_log(PH_LOG_WARNING, "keeper.notify", "systemd was not told: %s", g_strerror(errno));
    close(fd);
}

/* -- listening sockets ------------------------------------------------------------------------- */

static void
sockets_free(gpointer data)
{
    Sockets *sockets = data;
    for (guint i = 0; i < sockets->fds->len; i++)
        close(g_array_index(sockets->fds, int, i));
    g_array_unref(sockets->fds);
    g_free(sockets);
}

static Sockets *
bind_service(Keeper *keeper, char **words, GError **error)
{
    int port = atoi(words[2]);
    unsigned count = (unsigned)atoi(words[3]);
    if (!ph_config_port_is_allowed(keeper->config, port)) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "port %d is not in allowed_ports of \"%s\"",
            port, keeper->config->path);
        return NULL;
    }
    int base = keeper->config->port_base;
    g_autoptr(GArray) fds = g_array_new(FALSE, FALSE, sizeof(int));
    int bound = base == PH_PORT_BASE_EPHEMERAL ? 0 : base + port;
    if (!ph_bind_sockets(words[4], bound, MAX(count, 1), &bound, fds, error))
        return NULL;
    if (fds->len > PH_CHANNEL_MAX_FDS) {
        for (guint i = 0; i < fds->len; i++)
            close(g_array_index(fds, int, i));
        g_set_error(error, PH_ERROR, PH_ERROR_LIMIT, "too many addresses to listen on");
        return NULL;
    }
    Sockets *sockets = g_new0(Sockets, 1);
    sockets->port = bound;
    sockets->fds = g_steal_pointer(&fds);
    g_hash_table_insert(keeper->sockets, g_strdup(words[1]), sockets);
    return sockets;
}

/* -- the channel ------------------------------------------------------------------------------- */

static char *
answer_listen(Keeper *keeper, char **words, const GArray **fds_out, GError **error)
{
    if (g_strv_length(words) != 5) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "listen takes four words");
        return NULL;
    }
    Sockets *sockets = g_hash_table_lookup(keeper->sockets, words[1]);
    if (sockets == NULL)
        sockets = bind_service(keeper, words, error);
    if (sockets == NULL)
        return NULL;
    *fds_out = sockets->fds;
    return g_strdup_printf("%d", sockets->port);
}

static char *
answer_release(Keeper *keeper, char **words, const GArray **fds_out, GError **error)
{
    (void)fds_out;
    (void)error;
    if (words[1] != NULL)
        g_hash_table_remove(keeper->sockets, words[1]);
    return g_strdup("");
}

static char *
answer_ready(Keeper *keeper, char **words, const GArray **fds_out, GError **error)
{
    (void)words;
    (void)fds_out;
    (void)error;
    if (keeper->phase == PHASE_STARTING)
        keeper->phase = PHASE_SERVING;
    keeper->daemon.delay_ms = 0;
    notify_manager("READY=1");
    return g_strdup("");
}

static void
describe_child(GString *text, const Child *child)
{
    if (child->starts > 0)
        g_string_append_printf(
            text, "%s pid=%d starts=%u ", child->name, (int)child->pid, child->starts);
}

static char *
answer_state(Keeper *keeper, char **words, const GArray **fds_out, GError **error)
{
    (void)words;
    (void)fds_out;
    (void)error;
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "keeper pid=%d ", (int)getpid());
    describe_child(text, &keeper->daemon);
    describe_child(text, &keeper->database);
    return g_string_free(text, FALSE);
}

static const struct {
    const char *verb;
    char *(*answer)(Keeper *keeper, char **words, const GArray **fds_out, GError **error);
} question_rows[] = {
    { "listen", answer_listen },
    { "release", answer_release },
    { "ready", answer_ready },
    { "state", answer_state },
};

static void
close_channel(Keeper *keeper)
{
    if (keeper->channel >= 0)
        close(keeper->channel);
    keeper->channel = -1;
}

static void
answer_question(Keeper *keeper)
{
    char question[PH_CHANNEL_MAX_BYTES];
    if (!ph_channel_receive(keeper->channel, question, sizeof(question), NULL)) {
        close_channel(keeper);
        return;
    }
    g_auto(GStrv) words = g_strsplit(question, " ", 6);
    g_autoptr(GError) error = NULL;
    const GArray *fds = NULL;
    g_autofree char *text = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(question_rows); i++)
        if (g_strcmp0(words[0], question_rows[i].verb) == 0)
            text = question_rows[i].answer(keeper, words, &fds, &error);
    g_autofree char *answer = NULL;
    if (text != NULL)
        answer = g_strdup_printf("ok %s", text);
    else if (error != NULL)
        answer = g_strdup_printf("error %d %s", error->code, error->message);
    else
        answer = g_strdup_printf("error %d unknown question", PH_ERROR_SYNTAX);
    if (!ph_channel_send(keeper->channel, answer, fds))
        close_channel(keeper);
}

/* -- children ---------------------------------------------------------------------------------- */

/* Tests run the daemon inside another program (valgrind); nobody else does. */
static char **
daemon_wrapper(void)
{
#ifdef PH_TEST_POINTS
    const char *wrapper = g_getenv("POSTHOUSE_DAEMON_WRAPPER");
    if (wrapper != NULL)
        return g_strsplit(wrapper, " ", -1);
#endif
    return g_new0(char *, 1);
}

static pid_t
spawn_daemon(Keeper *keeper, GError **error)
{
    unsigned uid;
    unsigned gid;
    int pair[2];
    if (!ph_config_user(keeper->config, &uid, &gid, error))
        return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "make a channel: %s", g_strerror(errno));
        return -1;
    }
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    g_auto(GStrv) wrapper = daemon_wrapper();
    for (char **word = wrapper; *word != NULL; word++)
        g_ptr_array_add(argv, *word);
    const char *const words[] = { keeper->program, "daemon", "--config", keeper->config->path,
        "--state", keeper->config->state, NULL };
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        g_ptr_array_add(argv, (gpointer)(uintptr_t)words[i]);
    PhSpawn spawn = {
        .argv = (const char *const *)argv->pdata, .uid = uid, .gid = gid, .channel_fd = pair[1]
    };
    pid_t pid = ph_process_spawn(&spawn, error);
    close(pair[1]);
    close_channel(keeper);
    if (pid > 0)
        keeper->channel = pair[0];
    else
        close(pair[0]);
    return pid;
}

static void
plan_start(Child *child)
{
    bool young =
        child->started_us != 0 && ph_monotonic_us() - child->started_us < (int64_t)YOUNG_MS * 1000;
    child->delay_ms = young ? CLAMP(child->delay_ms * 2, FIRST_DELAY_MS, LAST_DELAY_MS) : 0;
    child->start_at_us = ph_monotonic_us() + child->delay_ms * 1000;
}

static void
start_child(Keeper *keeper, Child *child)
{
    g_autoptr(GError) error = NULL;
    pid_t pid = child == &keeper->daemon ? spawn_daemon(keeper, &error)
                                         : ph_postgres_spawn(keeper->config, &error);
    child->started_us = ph_monotonic_us();
    if (pid < 0) {
        ph_log(PH_LOG_ERROR, "keeper.cannot-start", "%s: %s", child->name, error->message);
        plan_start(child);
        return;
    }
    child->pid = pid;
    child->starts++;
    ph_log(PH_LOG_NOTICE, "keeper.started", "%s pid=%d", child->name, (int)pid);
}

static void
stop_child(Child *child, int polite, int force, int64_t deadline_ms)
{
    child->wanted = false;
    if (child->pid == 0 || child->kill_at_us != 0)
        return;
    kill(child->pid, polite);
    child->kill_signal = force;
    child->kill_at_us = ph_monotonic_us() + deadline_ms * 1000;
}

static void
child_ended(Keeper *keeper, Child *child, int status)
{
    bool by_signal = WIFSIGNALED(status);
    int code = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    ph_log(child->wanted ? PH_LOG_ERROR : PH_LOG_NOTICE, "keeper.ended", "%s pid=%d %s=%d",
        child->name, (int)child->pid, by_signal ? "signal" : "status", code);
    child->pid = 0;
    child->ends++;
    child->kill_at_us = 0;
    if (child != &keeper->daemon) {
        plan_start(child);
        return;
    }
    close_channel(keeper);
    if (!by_signal && code == PH_EXIT_CONFIG && child->wanted) {
        child->wanted = false;
        keeper->exit_status = PH_EXIT_CONFIG;
        keeper->phase = PHASE_DRAINING;
        return;
    }
    plan_start(child);
}

static void
reap(Keeper *keeper)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == keeper->daemon.pid)
            child_ended(keeper, &keeper->daemon, status);
        else if (pid == keeper->database.pid)
            child_ended(keeper, &keeper->database, status);
    }
}

static void
run_child(Keeper *keeper, Child *child, int64_t now_us)
{
    if (child->pid == 0 && child->wanted && now_us >= child->start_at_us)
        start_child(keeper, child);
    if (child->pid != 0 && child->kill_at_us != 0 && now_us >= child->kill_at_us) {
        ph_log(PH_LOG_ERROR, "keeper.forced", "%s pid=%d did not stop in time", child->name,
            (int)child->pid);
        kill(child->pid, child->kill_signal);
        child->kill_at_us = now_us + 5 * G_USEC_PER_SEC;
        child->kill_signal = SIGKILL;
    }
}

/* -- phases ------------------------------------------------------------------------------------ */

static void
take_signals(Keeper *keeper)
{
    struct signalfd_siginfo info;
    while (read(keeper->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
        case SIGINT:
            if (keeper->phase < PHASE_DRAINING) {
                ph_log(PH_LOG_NOTICE, "keeper.stopping", "signal=%u", info.ssi_signo);
                notify_manager("STOPPING=1");
                keeper->phase = PHASE_DRAINING;
            }
            break;
        case SIGHUP:
            if (keeper->daemon.pid != 0)
                kill(keeper->daemon.pid, SIGHUP);
            break;
        default:
            break;
        }
    }
    reap(keeper);
}

/* The daemon needs no database to start, but starts better with it: it is given a while, unless it
 * keeps failing. */
static bool
is_time_for_daemon(const Keeper *keeper, int64_t now_us)
{
    enum { FAILURES_ENOUGH = 4 };
    const Child *database = &keeper->database;
    return !database->wanted || now_us > keeper->database_until_us ||
           database->ends >= FAILURES_ENOUGH ||
           (database->pid != 0 && ph_postgres_is_ready(keeper->config, database->pid));
}

/* False: all is done. */
static bool
advance(Keeper *keeper)
{
    int64_t now_us = ph_monotonic_us();
    if (keeper->phase == PHASE_STARTING && is_time_for_daemon(keeper, now_us))
        keeper->daemon.wanted = true;
    if (keeper->phase == PHASE_DRAINING) {
        stop_child(&keeper->daemon, SIGTERM, SIGKILL, DRAIN_MS);
        if (keeper->daemon.pid == 0)
            keeper->phase = PHASE_STOPPING;
    }
    if (keeper->phase == PHASE_STOPPING)
        stop_child(&keeper->database, SIGINT, SIGQUIT, DATABASE_STOP_MS);
    run_child(keeper, &keeper->database, now_us);
    run_child(keeper, &keeper->daemon, now_us);
    return keeper->phase != PHASE_STOPPING || keeper->database.pid != 0;
}

static int
next_look_ms(const Keeper *keeper)
{
    bool waiting = keeper->phase != PHASE_SERVING || keeper->daemon.pid == 0 ||
                   (keeper->database.wanted && keeper->database.pid == 0);
    return waiting ? 50 : -1;
}

static void
serve(Keeper *keeper)
{
    while (advance(keeper)) {
        struct pollfd polled[2] = {
            { .fd = keeper->signals, .events = POLLIN },
            { .fd = keeper->channel, .events = POLLIN },
        };
        if (poll(polled, G_N_ELEMENTS(polled), next_look_ms(keeper)) < 0 && errno != EINTR)
            g_usleep(50000);
        if (polled[0].revents != 0)
            take_signals(keeper);
        if (polled[1].revents != 0 && keeper->channel == polled[1].fd && keeper->channel >= 0)
            answer_question(keeper);
    }
}

static int
open_signals(void)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGHUP);
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* We are alone with this state folder, and no daemon of an earlier keeper is left. */
static bool
take_state(const PhConfig *config, GError **error)
{
    unsigned uid;
    unsigned gid;
    g_autofree char *run = ph_config_file(config, "run");
    g_autofree char *keeper_lock = ph_config_file(config, "run/keeper.lock");
    g_autofree char *daemon_lock = ph_config_file(config, "run/daemon.lock");
    g_autofree char *ports = ph_config_file(config, "run/ports.json");
    if (!ph_config_user(config, &uid, &gid, error))
        return false;
    if (g_mkdir_with_parents(run, 0700) != 0 || (geteuid() == 0 && chown(run, uid, gid) != 0)) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "make \"%s\": %s", run, g_strerror(errno));
        return false;
    }
    if (!ph_process_lock(keeper_lock, 0, error)) {
        g_prefix_error(error, "another posthouse serves \"%s\": ", config->state);
        return false;
    }
    int64_t until_us = ph_monotonic_us() + (int64_t)OLD_DAEMON_MS * 1000;
    while (!ph_process_is_unlocked(daemon_lock)) {
        if (ph_monotonic_us() > until_us) {
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
                "a daemon of an earlier keeper still serves \"%s\"", config->state);
            return false;
        }
        g_usleep(50000);
    }
    g_unlink(ports);
    return true;
}

int
ph_keeper_run(const PhConfig *config, const char *program)
{
    g_autoptr(GError) error = NULL;
    Keeper keeper = {
        .config = config,
        .program = program,
        .channel = -1,
        .database = { .name = "database" },
        .daemon = { .name = "daemon" },
    };
    umask(0027);
    keeper.signals = open_signals();
    ph_process_raise_limits();
    bool managed = ph_config_is_managed(config);
    if (!take_state(config, &error) || (managed && !ph_postgres_prepare(config, &error))) {
        ph_log(PH_LOG_ERROR, "keeper.failed", "%s", error->message);
        return PH_EXIT_CONFIG;
    }
    keeper.sockets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, sockets_free);
    keeper.database.wanted = managed;
    keeper.database_until_us = ph_monotonic_us() + (int64_t)DATABASE_START_MS * 1000;

    serve(&keeper);

    g_hash_table_unref(keeper.sockets);
    close(keeper.signals);
    ph_log(PH_LOG_NOTICE, "keeper.stopped", "all is stopped");
    return keeper.exit_status;
}
