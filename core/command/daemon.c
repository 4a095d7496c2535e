/* daemon.c - the unprivileged process that serves
 *
 * The main thread starts everything, then only waits: for signals, for the keeper's channel, for
 * news about settings. With the database away at start, everything is started from the sealed copy
 * of the settings, and the database is tried until it is there.
 */
#include "command/command.h"

#include "identity/local-ca.h"
#include "identity/login.h"
#include "lua/engine.h"
#include "management/configuration.h"
#include "management/console.h"
#include "management/control.h"
#include "posthouse/account.h"
#include "posthouse/mailbox.h"
#include "posthouse/metrics.h"
#include "runtime/connection.h"
#include "runtime/keeper-channel.h"
#include "runtime/keeper.h"
#include "runtime/listener.h"
#include "runtime/log-file.h"
#include "runtime/log.h"
#include "runtime/plugin-loader.h"
#include "runtime/pool.h"
#include "runtime/postgres.h"
#include "runtime/process.h"
#include "runtime/reactor.h"
#include "runtime/resolver.h"
#include "runtime/settings.h"
#include "runtime/site.h"
#include "runtime/tls.h"
#include "runtime/upstream.h"
#include "store/store.h"
#include "store/web.h"

#include <config.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    DATABASE_WAIT_S = 10, /* at start */
    TICK_MS = 500,
    DRAIN_MS = 30 * 1000,
    ORPHAN_DRAIN_MS = 3 * 1000, /* the keeper is gone: a new one waits for us */
    ORPHAN_LAST_S = 5,
    UPKEEP_EVERY_S = 60,
    PURGE_BATCH = 500,
    SETTINGS_EVERY_S = 30, /* should the word of another node's change be lost */
    SYNC_DEADLINE_S = 10,
};

typedef struct Daemon {
    PhConfig *config;
    char *conninfo;
    int signals;
    bool migrated;
    bool settings_loaded;
    uint64_t settings_applied; /* generation */
    int64_t upkeep_at_us;
    int64_t settings_at_us;
    PhJobNode upkeep_node;
    int upkeeping;
} Daemon;

static struct {
    int stale; /* settings changed elsewhere */
    int wake;
    GAsyncQueue *accounts; /* int64_t*: ids whose password or state changed */
} news = { .wake = -1 };

/* The default of server.host_name is this machine's name, known only at run time. */
static PhSettingRow server_settings[] = {
    { "server.host_name", PH_SETTING_TEXT, "localhost", 0, 253, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "The name by which this server greets and signs what it adds to mail." },
    { "server.plugins", PH_SETTING_LIST, "smtp,imap,http,ldap,admin", 0, 1024, NULL,
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Plugins that are started, divided by commas. Read at start." },
    { "server.message.max_bytes", PH_SETTING_SIZE, "52428800", 1024, 2147483647, NULL,
        PH_SCOPE_GLOBAL, "The largest message that is taken; what SIZE and APPENDLIMIT say." },
    { PH_SETTING_DRAIN, PH_SETTING_BOOL, "false", 0, 0, NULL, PH_SCOPE_NODE,
        "Take no new connections on this node but the console's, and ask clients to go elsewhere: "
        "posthouse node drain." },
    { "log.level", PH_SETTING_CHOICE, "info", 0, 0, "error|warning|notice|info|debug",
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE, "The least important lines that are written." },
    { "log.format", PH_SETTING_CHOICE, "auto", 0, 0, "auto|text|journal|json",
        PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "The form of log lines; \"auto\" is \"journal\" under systemd, else \"text\"." },
    { "store.expunged.keep_d", PH_SETTING_TIME, "30", 0, 3650, NULL, PH_SCOPE_GLOBAL,
        "How many days a deleted message can be brought back." },
    { 0 },
};

/* -- settings ---------------------------------------------------------------------------------- */

static void
on_news(PhStoreNews kind, int64_t number, void *data)
{
    (void)data;
    if (kind == PH_NEWS_ACCOUNT)
        g_async_queue_push(news.accounts, g_memdup2(&number, sizeof(number)));
    else if (kind == PH_NEWS_SETTINGS || kind == PH_NEWS_MISSED)
        __atomic_store_n(&news.stale, 1, __ATOMIC_SEQ_CST);
    else
        return;
    uint64_t one = 1;
    ssize_t written = write(news.wake, &one, sizeof(one));
    (void)written;
}

static void
apply_log_settings(void)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *format_name = ph_settings_text(settings, "log.format", NULL);
    PhLogFormat format = g_getenv("JOURNAL_STREAM") != NULL ? PH_LOG_JOURNAL : PH_LOG_TEXT;
    PhLogLevel level = PH_LOG_INFO;
    ph_log_format_parse(format_name, &format);
    ph_log_level_parse(ph_settings_text(settings, "log.level", NULL), &level);
    ph_log_set(format, level);
}

PH_IN_JOB static bool
load_settings(Daemon *daemon, GError **error)
{
    int64_t deadline_us = ph_monotonic_us() + SYNC_DEADLINE_S * G_USEC_PER_SEC;
    /* The ping tells the status which schema this is. */
    if (!ph_configuration_load_blocking(deadline_us, error) ||
        !ph_lua_sync_blocking(deadline_us, error) || !ph_store_ping_blocking(deadline_us, error))
        return false;
    daemon->settings_loaded = true;
    daemon->settings_at_us = ph_monotonic_us() + SETTINGS_EVERY_S * G_USEC_PER_SEC;
    return true;
}

/* -- the database ------------------------------------------------------------------------------ */

PH_IN_JOB static bool
migrate(Daemon *daemon, int64_t wait_s, GError **error)
{
    unsigned n_applied;
    int64_t deadline_us = ph_monotonic_us() + wait_s * G_USEC_PER_SEC;
    daemon->migrated = ph_store_migrate_blocking(
        daemon->conninfo, PH_SCHEMA_DIR, "posthouse " PH_VERSION, deadline_us, &n_applied, error);
    if (daemon->migrated && n_applied > 0)
        ph_log(PH_LOG_NOTICE, "store.migrated", "files=%u", n_applied);
    return daemon->migrated;
}

/* False with UNAVAILABLE is worth another try; anything else is not. */
PH_IN_JOB static bool
reach_database(Daemon *daemon, int64_t wait_s, GError **error)
{
    return (daemon->migrated || migrate(daemon, wait_s, error)) &&
           (daemon->settings_loaded || load_settings(daemon, error));
}

static bool
is_worth_waiting(const GError *error)
{
    PhError code = ph_error_code(error);
    return code == PH_ERROR_UNAVAILABLE || code == PH_ERROR_TEMPORARY;
}

PH_IN_JOB static bool
open_store(Daemon *daemon, GError **error)
{
    g_autofree char *spool = ph_config_file(daemon->config, "spool");
    PhStoreConfig store = {
        .conninfo = daemon->conninfo,
        .node_name = daemon->config->node_name,
        .schema_folder = PH_SCHEMA_DIR,
        .spool_folder = spool,
#ifdef PH_TEST_POINTS
        .without_batching = g_getenv("POSTHOUSE_WITHOUT_BATCHING") != NULL,
        .commit_patience_ms =
            (unsigned)g_ascii_strtoull(g_getenv("POSTHOUSE_COMMIT_PATIENCE_MS") != NULL
                                           ? g_getenv("POSTHOUSE_COMMIT_PATIENCE_MS")
                                           : "0",
                NULL, 10),
#endif
    };
    ph_store_set_news_func(on_news, NULL);
    return ph_store_open_blocking(&store, error);
}

PH_IN_JOB static bool
start_store(Daemon *daemon, GError **error)
{
    g_autoptr(GError) cause = NULL;
    if (ph_config_is_managed(daemon->config))
        daemon->conninfo = ph_postgres_conninfo(daemon->config, error);
    else
        daemon->conninfo = g_strdup(daemon->config->database);
    if (daemon->conninfo == NULL)
        return false;

    /* The schema first: the store's threads read it as soon as they start. */
    if (!migrate(daemon, DATABASE_WAIT_S, &cause) && !is_worth_waiting(cause)) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    if (!open_store(daemon, error))
        return false;
    if (daemon->migrated && load_settings(daemon, &cause))
        return true;
    ph_log(PH_LOG_ERROR, "store.away", "%s", cause->message);
    g_clear_error(&cause);
    if (ph_configuration_load_sealed(&cause)) {
        ph_log(
            PH_LOG_WARNING, "settings.from-cache", "the database is away: the last settings hold");
    } else {
        ph_log(PH_LOG_WARNING, "settings.defaults", "%s", cause->message);
    }
    return true;
}

/* -- starting ---------------------------------------------------------------------------------- */

static void
start_tls(const Daemon *daemon)
{
    g_autofree char *folder = ph_config_file(daemon->config, "tls");
    g_autofree char *certificate = ph_config_file(daemon->config, "tls/cert.pem");
    g_autofree char *key = ph_config_file(daemon->config, "tls/key.pem");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *host = ph_settings_text(settings, "server.host_name", NULL);
    if (!ph_local_ca_ensure(folder, host, &error) || !ph_tls_use_files(certificate, key, &error))
        ph_log(PH_LOG_ERROR, "tls.unavailable", "%s", error->message);
}

PH_IN_JOB static void
start_plugins(const Daemon *daemon)
{
    g_autofree char *run = ph_config_file(daemon->config, "run/plugins");
    ph_plugins_init(PH_PLUGIN_DIR, run);
    ph_plugins_set_drained(ph_setting_bool(PH_SETTING_DRAIN));
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_auto(GStrv) names = g_strsplit(ph_settings_text(settings, "server.plugins", NULL), ",", -1);
    for (char **name = names; *name != NULL; name++) {
        /* The reason of a failure is in the log and in the status; the others serve. */
        if (g_strstrip(*name)[0] != '\0')
            ph_plugin_start(*name, NULL, NULL);
    }
}

static void
append_port(const char *name, int port, void *data)
{
    GString *text = data;
    g_string_append_printf(text, "%s\n  \"%s\": %d", text->len > 1 ? "," : "", name, port);
}

static bool
write_ports(const Daemon *daemon, GError **error)
{
    g_autofree char *path = ph_config_file(daemon->config, "run/ports.json");
    g_autoptr(GString) text = g_string_new("{");
    ph_plugins_each_service(append_port, text);
    g_string_append(text, "\n}\n");
    return g_file_set_contents(path, text->str, (gssize)text->len, error);
}

/* What holds by a setting, whoever changed it on which node. */
PH_IN_JOB static void
apply_settings(Daemon *daemon)
{
    uint64_t generation = ph_settings_generation();
    if (generation == daemon->settings_applied)
        return;
    daemon->settings_applied = generation;
    apply_log_settings();
    g_autoptr(GError) error = NULL;
    /* Ports may be others after a drain. */
    if (ph_plugins_set_drained(ph_setting_bool(PH_SETTING_DRAIN)) && !write_ports(daemon, &error))
        ph_log(PH_LOG_WARNING, "daemon.ports", "%s", error->message);
}

PH_IN_JOB static bool
start(Daemon *daemon, GError **error)
{
    g_autofree char *lock = ph_config_file(daemon->config, "run/daemon.lock");
    g_autofree char *control = NULL;
    g_autofree char *scripts = ph_config_file(daemon->config, "scripts.cache");
    g_autofree char *logs = ph_config_file(daemon->config, "log");
    ph_log_files_set_folder(logs);
    server_settings[0].default_value = g_get_host_name();
    ph_settings_declare(server_settings);
    ph_settings_declare(ph_listener_settings);
    ph_settings_declare(ph_identity_settings);
    ph_settings_declare(ph_lua_settings);
    ph_settings_declare(ph_resolver_settings);
    if (!ph_process_lock(lock, 2000, error) ||
        !ph_configuration_init(daemon->config->state, daemon->config->node_name, error))
        return false;
    ph_pool_start(0); /* how many calls a tenant may make depends on its size */
    ph_lua_start(scripts);
    if (!start_store(daemon, error))
        return false;
    start_tls(daemon);
    control = ph_config_control_socket(daemon->config, error);
    if (control == NULL || !ph_reactors_start(0, error) || !ph_control_start(control, error))
        return false;
    apply_log_settings();
    start_plugins(daemon);
    return write_ports(daemon, error) && ph_channel_ready(error);
}

/* -- upkeep ------------------------------------------------------------------------------------ */

PH_IN_JOB static bool
purge_expunged(int64_t deadline_us, GError **error)
{
    int64_t keep_us = ph_setting_int("store.expunged.keep_d") * 24 * 3600 * G_USEC_PER_SEC;
    unsigned n = PURGE_BATCH;
    while (n == PURGE_BATCH && ph_monotonic_us() < deadline_us)
        if (!ph_purge_blocking(ph_time_now_us() - keep_us, PURGE_BATCH, deadline_us, &n, error))
            return false;
    return true;
}

static void
upkeep_job(PhJobNode *node)
{
    ph_assert_in_job();
    Daemon *daemon = PH_CONTAINER_OF(node, Daemon, upkeep_node);
    int64_t deadline_us = ph_monotonic_us() + UPKEEP_EVERY_S * G_USEC_PER_SEC;
    g_autoptr(GError) error = NULL;
    ph_store_set_lane(PH_LANE_SLOW);
    if (!purge_expunged(deadline_us, &error) ||
        !ph_console_session_purge_blocking(deadline_us, &error) ||
        !ph_account_erase_rest_blocking(deadline_us, &error))
        ph_log(PH_LOG_WARNING, "store.upkeep", "%s", error->message);
    ph_store_set_lane(PH_LANE_MAIL);
    __atomic_store_n(&daemon->upkeeping, 0, __ATOMIC_RELEASE);
}

static void
plan_upkeep(Daemon *daemon)
{
    int64_t now_us = ph_monotonic_us();
    if (!daemon->migrated || now_us < daemon->upkeep_at_us ||
        __atomic_exchange_n(&daemon->upkeeping, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    daemon->upkeep_at_us = now_us + UPKEEP_EVERY_S * G_USEC_PER_SEC;
    daemon->upkeep_node.run = upkeep_job;
    ph_pool_push(PH_LANE_SLOW, &daemon->upkeep_node);
}

/* -- accounts that may not go on ------------------------------------------------------------------ */

typedef struct AccountLook {
    int64_t id;
    char *login; /* null: no session */
    unsigned n_cut;
} AccountLook;

static void
find_login(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    AccountLook *look = data;
    if (look->login == NULL)
        look->login = ph_connection_find_login(reactor, look->id);
}

static void
cut_sessions(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    AccountLook *look = data;
    look->n_cut += ph_connection_cut_account(reactor, look->id);
}

/* Sessions of an account that is no longer active end; a new password alone cuts nobody. */
PH_IN_JOB static void
look_at_account(int64_t id)
{
    AccountLook look = { .id = id };
    ph_reactors_call_blocking(find_login, &look);
    if (look.login == NULL)
        return;
    g_autofree char *login = look.login;
    g_autoptr(GError) error = NULL;
    g_autoptr(PhAccount) account = ph_account_find_blocking(
        login, ph_monotonic_us() + SYNC_DEADLINE_S * G_USEC_PER_SEC, &error);
    bool gone = account == NULL && ph_error_code(error) == PH_ERROR_NOT_FOUND;
    if (account != NULL ? account->state == PH_ACCOUNT_ACTIVE : !gone)
        return;
    ph_reactors_call_blocking(cut_sessions, &look);
    ph_log(PH_LOG_NOTICE, "account.cut", "login=\"%s\" sessions=%u", login, look.n_cut);
}

PH_IN_JOB static void
look_at_accounts(void)
{
    int64_t *id;
    while ((id = g_async_queue_try_pop(news.accounts)) != NULL) {
        look_at_account(*id);
        g_free(id);
    }
}

PH_IN_JOB static void
tick(Daemon *daemon)
{
    g_autoptr(GError) error = NULL;
    ph_plugins_reap();
    apply_settings(daemon);
    if (!daemon->migrated || !daemon->settings_loaded) {
        if (!reach_database(daemon, 1, &error) && !is_worth_waiting(error))
            ph_log(PH_LOG_ERROR, "store.cannot-use", "%s", error->message);
        return;
    }
    bool is_time = ph_monotonic_us() >= daemon->settings_at_us;
    if ((__atomic_exchange_n(&news.stale, 0, __ATOMIC_SEQ_CST) != 0 || is_time) &&
        !load_settings(daemon, &error)) {
        __atomic_store_n(&news.stale, 1, __ATOMIC_SEQ_CST);
        ph_log(PH_LOG_WARNING, "settings.stale", "%s", error->message);
    }
    look_at_accounts();
    plan_upkeep(daemon);
}

static void
reload(Daemon *daemon)
{
    ph_log(PH_LOG_NOTICE, "daemon.reload", "certificates and settings are read again");
    start_tls(daemon);
    ph_log_files_reopen();
    __atomic_store_n(&news.stale, 1, __ATOMIC_SEQ_CST);
}

/* -- stopping ---------------------------------------------------------------------------------- */

PH_IN_JOB static void
stop(Daemon *daemon, int64_t drain_ms)
{
    g_autofree char *ports = ph_config_file(daemon->config, "run/ports.json");
    g_unlink(ports);
    ph_control_stop();
    ph_plugins_stop_all(drain_ms);
    ph_pool_stop();
    ph_reactors_stop();
    ph_lua_stop_blocking();
    ph_store_close_blocking();
    ph_login_cache_clear();
    ph_console_forget();
    ph_sites_forget();
    ph_upstreams_forget();
    ph_log_files_stop();
    ph_tls_forget();
}

/* Signals, the keeper's end, news. True: drain in peace; false: the keeper is gone. */
PH_IN_JOB static bool
wait_for_end(Daemon *daemon)
{
    for (;;) {
        struct pollfd polled[] = {
            { .fd = daemon->signals, .events = POLLIN },
            { .fd = ph_channel_fd(), .events = 0 },
            { .fd = news.wake, .events = POLLIN },
        };
        poll(polled, G_N_ELEMENTS(polled), TICK_MS);
        if (polled[1].revents & (POLLHUP | POLLERR))
            return false;
        if (polled[0].revents != 0) {
            struct signalfd_siginfo info;
            while (read(daemon->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
                if (info.ssi_signo != SIGHUP)
                    return true;
                reload(daemon);
            }
        }
        if (polled[2].revents != 0) {
            uint64_t count;
            ssize_t got = read(news.wake, &count, sizeof(count));
            (void)got;
        }
        tick(daemon);
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
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

int
ph_command_daemon(const PhCommonOptions *options, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    if (fcntl(PH_CHANNEL_FD, F_SETFD, FD_CLOEXEC) != 0) {
        fprintf(stderr, "posthouse daemon: it is started by posthouse serve\n");
        return 2;
    }
    Daemon daemon = { .signals = open_signals() };
    daemon.config = ph_config_load(options->config, options->state, &error);
    if (daemon.config == NULL) {
        fprintf(stderr, "posthouse daemon: %s\n", error->message);
        return PH_EXIT_CONFIG;
    }
    news.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    news.accounts = g_async_queue_new_full(g_free);
    ph_channel_open(PH_CHANNEL_FD);
    ph_log_start("posthouse", g_getenv("JOURNAL_STREAM") != NULL ? PH_LOG_JOURNAL : PH_LOG_TEXT,
        PH_LOG_INFO);

    int status = 0;
    if (!start(&daemon, &error)) {
        ph_log(PH_LOG_ERROR, "daemon.failed", "%s", error->message);
        status = is_worth_waiting(error) ? 1 : PH_EXIT_CONFIG;
        ph_log_stop();
        _exit(status);
    }
    ph_log(PH_LOG_NOTICE, "daemon.serving", "version=%s pid=%d", PH_VERSION, (int)getpid());
    bool peaceful = wait_for_end(&daemon);
    ph_log(PH_LOG_NOTICE, "daemon.stopping", "%s", peaceful ? "asked to" : "the keeper is gone");
    if (!peaceful)
        alarm(ORPHAN_LAST_S);
    stop(&daemon, peaceful ? DRAIN_MS : ORPHAN_DRAIN_MS);
    ph_log(PH_LOG_NOTICE, "daemon.stopped", "status=%d", status);
    ph_log_stop();
    close(news.wake);
    g_async_queue_unref(news.accounts);
    close(daemon.signals);
    g_free(daemon.conninfo);
    ph_config_free(daemon.config);
    return status;
}
