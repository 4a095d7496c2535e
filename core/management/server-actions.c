/* server-actions.c - the server as a whole: how it is, its plugins, sessions, log and audit */
#include "management/actions.h"
#include "management/api.h"
#include "management/configuration.h"
#include "posthouse/metrics.h"
#include "runtime/connection.h"
#include "runtime/keeper-channel.h"
#include "runtime/log.h"
#include "runtime/owner.h"
#include "runtime/plugin-loader.h"
#include "runtime/pool.h"
#include "runtime/reactor.h"
#include "runtime/tls.h"
#include "store/store.h"

#include <config.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

/* -- plugins ----------------------------------------------------------------------------------- */

static const PhArgumentRow plugin_arguments[] = {
    PH_NEEDED("name", "the plugin"),
    PH_OPTION("file", "load it from this file"),
    { 0 },
};

static const PhArgumentRow plugin_stop_arguments[] = {
    PH_NEEDED("name", "the plugin"),
    { "deadline_s", PH_ARGUMENT_INT, 0, "how long its sessions may go on (30)", NULL, 0, 3600 },
    { 0 },
};

static const PhAnswerRow plugin_list_answers[] = {
    PH_ITEM("name", TEXT, "the plugin"),
    PH_ITEM("state", TEXT, "serving, draining (an older generation), stopped or failed"),
    PH_ITEM("generation", INT, "raised by each replacement"),
    PH_ITEM("uses", INT, "its sessions, tasks and jobs"),
    PH_ITEM("error", TEXT, "why it failed"),
    PH_ITEM("summary", TEXT, "what it is"),
    { 0 },
};

static bool
plugin_list(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", info->name);
        ph_answer_text(call, "state", ph_plugin_state_name(info->state));
        ph_answer_int(call, "generation", info->generation);
        ph_answer_int(call, "uses", info->uses);
        ph_answer_text(call, "error", info->error);
        ph_answer_text(call, "summary", info->summary);
    }
    return true;
}

static bool
plugin_start(PhActionCall *call, GError **error)
{
    return ph_plugin_start(ph_action_text(call, "name"), ph_action_text(call, "file"), error);
}

static bool
plugin_replace(PhActionCall *call, GError **error)
{
    return ph_plugin_replace(ph_action_text(call, "name"), ph_action_text(call, "file"), error);
}

static bool
plugin_stop(PhActionCall *call, GError **error)
{
    const PhOwner *caller = ph_owner_current();
    if (caller != NULL && strcmp(caller->name, ph_action_text(call, "name")) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "\"%s\" carries this call, so it cannot be stopped by it: posthouse plugin stop %s",
            caller->name, caller->name);
        return false;
    }
    return ph_plugin_stop(
        ph_action_text(call, "name"), ph_action_int(call, "deadline_s", 30) * 1000, error);
}

/* -- sessions ---------------------------------------------------------------------------------- */

static const PhArgumentRow session_list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };

static const PhArgumentRow session_arguments[] = { PH_NEEDED("id", "as the list says"), { 0 } };

static const PhAnswerRow session_list_answers[] = {
    PH_ITEM("id", TEXT, "its name"),
    PH_ITEM("service", TEXT, "what it is served by"),
    PH_ITEM("peer", TEXT, "the client's address"),
    PH_ITEM("login", TEXT, "who has logged in"),
    PH_ITEM("tls", BOOL, "it is encrypted"),
    PH_ITEM("since", TIME, "when it began"),
    PH_ITEM("bytes_in", INT, "bytes from the client"),
    PH_ITEM("bytes_out", INT, "bytes to the client"),
    PH_ITEM("activity", TEXT, "what it does now"),
    { 0 },
};

static void
collect_sessions(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_list(reactor, data);
}

static gint
by_id(gconstpointer a, gconstpointer b)
{
    return strcmp((*(PhSessionInfo *const *)a)->id, (*(PhSessionInfo *const *)b)->id);
}

static bool
session_fits(const PhSessionInfo *info, const char *filter)
{
    const char *const texts[] = { info->id, info->service, info->peer, info->login,
        info->activity };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        if (filter == NULL || (texts[i] != NULL && strstr(texts[i], filter) != NULL))
            return true;
    return false;
}

static void
answer_session(PhActionCall *call, const PhSessionInfo *info)
{
    ph_answer_item(call);
    ph_answer_text(call, "id", info->id);
    ph_answer_text(call, "service", info->service);
    ph_answer_text(call, "peer", info->peer);
    ph_answer_text(call, "login", info->login);
    ph_answer_bool(call, "tls", info->secure);
    ph_answer_time(call, "since", info->since_us);
    ph_answer_int(call, "bytes_in", info->bytes_in);
    ph_answer_int(call, "bytes_out", info->bytes_out);
    ph_answer_text(call, "activity", info->activity);
}

static bool
session_list(PhActionCall *call, GError **error)
{
    (void)error;
    const char *after = ph_action_text(call, "after");
    const char *last = NULL;
    unsigned n = 0;
    g_autoptr(GPtrArray) infos =
        g_ptr_array_new_with_free_func((GDestroyNotify)ph_session_info_free);
    ph_reactors_call_blocking(collect_sessions, infos);
    g_ptr_array_sort(infos, by_id);
    for (guint i = 0; i < infos->len; i++) {
        const PhSessionInfo *info = infos->pdata[i];
        if ((after != NULL && strcmp(info->id, after) <= 0) ||
            !session_fits(info, ph_action_text(call, "filter")))
            continue;
        if (n++ == ph_action_limit(call)) {
            ph_answer_next(call, last);
            break;
        }
        answer_session(call, info);
        last = info->id;
    }
    return true;
}

typedef struct Cut {
    const char *id;
    unsigned n;
} Cut;

static void
cut_session(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    Cut *cut = data;
    cut->n += ph_connection_farewell(reactor, NULL, cut->id, PH_FAREWELL_CUT);
}

static bool
session_cut(PhActionCall *call, GError **error)
{
    Cut cut = { .id = ph_action_text(call, "id") };
    ph_reactors_call_blocking(cut_session, &cut);
    if (cut.n > 0)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "there is no session \"%s\"", cut.id);
    return false;
}

/* -- the whole --------------------------------------------------------------------------------- */

static const PhAnswerRow status_answers[] = {
    PH_FIELD("state", TEXT, "available, or what is wrong"),
    PH_FIELD("host_name", TEXT, "the name by which it greets"),
    PH_FIELD("version", TEXT, "of the program"),
    PH_FIELD("process_id", INT, "of the daemon"),
    PH_FIELD("uptime_s", INT, "since the daemon began"),
    PH_FIELD("processes", TEXT, "what the keeper says of its children"),
    PH_FIELD("database", TEXT, "available or away"),
    PH_FIELD("database_error", TEXT, "the last one"),
    PH_FIELD("database_version", INT, "of PostgreSQL"),
    PH_FIELD("schema_version", INT, "the last migration"),
    PH_FIELD("node", INT, "this node's number"),
    PH_FIELD("sessions", INT, "connections now"),
    PH_FIELD("messages_delivered", INT, "since the daemon began"),
    PH_FIELD("open_mailboxes", INT, "held in memory"),
    PH_FIELD("cpu_ms", INT, "used by the daemon"),
    PH_FIELD("heap_bytes", INT, "given out by the allocator"),
    PH_FIELD("memory_bytes", INT, "resident"),
    PH_FIELD("plugin.*", TEXT, "a plugin's generation: state and uses"),
    PH_FIELD("port.*", INT, "where a service listens"),
    PH_FIELD("lane.*", TEXT, "how busy a part of the pool is"),
    { 0 },
};

static void
answer_service(const char *name, int port, void *data)
{
    PhActionCall *call = data;
    g_autofree char *field = g_strdup_printf("port.%s", name);
    ph_answer_int(call, field, port);
}

static void
answer_lanes(PhActionCall *call)
{
    for (PhLane lane = 0; lane < PH_N_LANES; lane++) {
        PhLaneState state;
        ph_pool_lane_state(lane, &state);
        g_autofree char *field = g_strdup_printf("lane.%s", ph_lane_name(lane));
        g_autofree char *text = g_strdup_printf("running=%u/%u queued=%u jobs=%" G_GINT64_FORMAT
                                                " waited_ms=%" G_GINT64_FORMAT,
            state.running, state.most, state.queued, state.jobs, state.waited_us / 1000);
        ph_answer_text(call, field, text);
    }
}

static void
answer_plugins(PhActionCall *call)
{
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        g_autofree char *field = g_strdup_printf("plugin.%s.%u", info->name, info->generation);
        g_autofree char *text = g_strdup_printf("%s uses=%d%s%s", ph_plugin_state_name(info->state),
            info->uses, info->error != NULL ? ": " : "", info->error != NULL ? info->error : "");
        ph_answer_text(call, field, text);
    }
}

/* What the allocator has given out and not got back, and what the kernel counts as resident. */
static void
answer_memory(PhActionCall *call)
{
    struct mallinfo2 heap = mallinfo2();
    ph_answer_int(call, "heap_bytes", (int64_t)(heap.uordblks + heap.hblkhd));
    g_autofree char *text = NULL;
    if (!g_file_get_contents("/proc/self/statm", &text, NULL, NULL))
        return;
    const char *resident = strchr(text, ' ');
    if (resident != NULL)
        ph_answer_int(
            call, "memory_bytes", g_ascii_strtoll(resident, NULL, 10) * sysconf(_SC_PAGESIZE));
}

static void
answer_process(PhActionCall *call)
{
    struct rusage usage;
    static const int64_t thousand = 1000;
    getrusage(RUSAGE_SELF, &usage);
    ph_answer_int(call, "process_id", getpid());
    ph_answer_int(call, "uptime_s", ph_configuration_age_us() / G_USEC_PER_SEC);
    ph_answer_int(call, "cpu_ms",
        (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * thousand +
            (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / thousand);
}

static bool
status(PhActionCall *call, GError **error)
{
    (void)error;
    PhStoreStatus store;
    ph_store_status(&store);
    g_autofree char *keeper = ph_channel_fd() >= 0 ? ph_channel_state(NULL) : NULL;
    g_autoptr(PhSettings) settings = ph_settings_current();
    ph_answer_text(call, "state", store.available ? "available" : "database away");
    ph_answer_text(call, "host_name", ph_settings_text(settings, "server.host_name", NULL));
    ph_answer_text(call, "version", PH_VERSION);
    ph_answer_text(call, "database", store.available ? "available" : "away");
    if (ph_action_role(call) != PH_ROLE_OPERATOR)
        return true; /* the rest is about the host */
    answer_process(call);
    ph_answer_text(call, "processes", keeper);
    if (store.last_error[0] != '\0')
        ph_answer_text(call, "database_error", store.last_error);
    ph_answer_int(call, "database_version", store.server_version);
    ph_answer_int(call, "schema_version", store.schema_version);
    ph_answer_int(call, "node", store.node_id);
    ph_answer_int(call, "sessions", ph_connection_count());
    ph_answer_int(call, "messages_delivered", (int64_t)store.n_delivered);
    ph_answer_int(call, "open_mailboxes", store.n_views);
    answer_memory(call);
    answer_plugins(call);
    ph_plugins_each_service(answer_service, call);
    answer_lanes(call);
    return true;
}

static const PhAnswerRow text_answers[] = { PH_FIELD("text", TEXT, "the text"), { 0 } };

static bool
metrics(PhActionCall *call, GError **error)
{
    (void)error;
    g_autoptr(GString) text = g_string_new(NULL);
    ph_metrics_format(text);
    ph_answer_text(call, "text", text->str);
    return true;
}

/* -- nodes ------------------------------------------------------------------------------------- */

static const PhAnswerRow node_list_answers[] = {
    PH_ITEM("name", TEXT, "as posthouse.conf calls it"),
    PH_ITEM("node", INT, "its number"),
    PH_ITEM("state", TEXT,
        "serving, draining (no new connections, some are left), drained, or away (not seen for "
        "20 s)"),
    PH_ITEM("this", BOOL, "the one that answers"),
    PH_ITEM("sessions", INT, "clients that are connected, when it was last seen"),
    PH_ITEM("version", TEXT, "of the program"),
    PH_ITEM("started", TIME, "since when it serves"),
    PH_ITEM("seen", TIME, "when it last renewed its lease"),
    { 0 },
};

static const PhArgumentRow node_arguments[] = {
    PH_NEEDED("name", "the node, as posthouse.conf calls it"),
    { 0 },
};

/* Names of the nodes that are drained: the keys of a set. */
PH_IN_JOB static GHashTable *
drained_nodes(PhActionCall *call, GError **error)
{
    int64_t version;
    g_autoptr(GPtrArray) rows =
        ph_stored_settings_blocking(ph_action_deadline_us(call), &version, error);
    if (rows == NULL)
        return NULL;
    GHashTable *names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredSetting *row = rows->pdata[i];
        if (row->scope_kind == PH_SCOPE_NODE && strcmp(row->key, PH_SETTING_DRAIN) == 0 &&
            strcmp(row->value, "true") == 0)
            g_hash_table_add(names, g_strdup(row->scope_id));
    }
    return names;
}

static const char *
node_state(const PhNodeInfo *node, bool is_drained)
{
    if (!node->is_alive)
        return "away";
    if (!is_drained)
        return "serving";
    return node->sessions > 0 ? "draining" : "drained";
}

static bool
node_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) nodes = ph_node_list_blocking(ph_action_deadline_us(call), error);
    g_autoptr(GHashTable) drained = nodes != NULL ? drained_nodes(call, error) : NULL;
    if (drained == NULL)
        return false;
    for (guint i = 0; i < nodes->len; i++) {
        const PhNodeInfo *node = nodes->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", node->name);
        ph_answer_int(call, "node", node->id);
        ph_answer_text(call, "state", node_state(node, g_hash_table_contains(drained, node->name)));
        ph_answer_bool(call, "this", strcmp(node->name, ph_configuration_node_name()) == 0);
        ph_answer_int(call, "sessions", node->sessions);
        ph_answer_text(call, "version", node->version);
        ph_answer_time(call, "started", node->started_us);
        ph_answer_time(call, "seen", node->seen_us);
    }
    return true;
}

/* Kept as a setting of that node, so that it holds over a restart; every node reads it at once. */
PH_IN_JOB static bool
set_drained(PhActionCall *call, bool drained, GError **error)
{
    const char *name = ph_action_text(call, "name");
    g_autoptr(GPtrArray) nodes = ph_node_list_blocking(ph_action_deadline_us(call), error);
    bool found = false;
    for (guint i = 0; nodes != NULL && i < nodes->len; i++)
        found = found || strcmp(((const PhNodeInfo *)nodes->pdata[i])->name, name) == 0;
    if (nodes == NULL)
        return false;
    if (!found) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no node \"%s\"", name);
        return false;
    }
    const PhSettingChange change = {
        .key = PH_SETTING_DRAIN,
        .scope_kind = PH_SCOPE_NODE,
        .scope_id = name,
        .value = drained ? "true" : NULL,
    };
    int64_t version;
    return ph_stored_settings_change_blocking(&change, 1, ph_action_actor(call), -1,
               ph_action_deadline_us(call), &version, error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
node_drain(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_drained(call, true, error);
}

static bool
node_resume(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_drained(call, false, error);
}

/* -- checks ------------------------------------------------------------------------------------ */

static const PhAnswerRow check_answers[] = {
    PH_ITEM("name", TEXT, "which check"),
    PH_ITEM("title", TEXT, "for people"),
    PH_ITEM("state", TEXT, "ok, warn or bad"),
    PH_ITEM("text", TEXT, "what was found"),
    PH_ITEM("advice", TEXT, "what to do"),
    { 0 },
};

static void
answer_check(PhActionCall *call, const char *name, const char *title, const char *state,
    const char *text, const char *advice)
{
    ph_answer_item(call);
    ph_answer_text(call, "name", name);
    ph_answer_text(call, "title", title);
    ph_answer_text(call, "state", state);
    ph_answer_text(call, "text", text);
    ph_answer_text(call, "advice", advice);
}

static void
check_database(PhActionCall *call)
{
    PhStoreStatus store;
    ph_store_status(&store);
    answer_check(call, "database", "Database", store.available ? "ok" : "bad",
        store.available ? "It answers." : store.last_error,
        store.available
            ? NULL
            : "Nothing is lost: mail is told to try again. Look at the database's log.");
}

static void
check_plugins(PhActionCall *call)
{
    g_autoptr(GPtrArray) infos = ph_plugins_list();
    g_autoptr(GString) failed = g_string_new(NULL);
    unsigned serving = 0;
    for (guint i = 0; i < infos->len; i++) {
        const PhPluginInfo *info = infos->pdata[i];
        serving += info->state == PH_PLUGIN_SERVING ? 1 : 0;
        if (info->state == PH_PLUGIN_FAILED)
            g_string_append_printf(failed, "%s%s: %s", failed->len > 0 ? "; " : "", info->name,
                info->error != NULL ? info->error : "failed");
    }
    g_autofree char *good = g_strdup_printf("%u serve.", serving);
    answer_check(call, "plugins", "Plugins", failed->len > 0 ? "bad" : "ok",
        failed->len > 0 ? failed->str : good,
        failed->len > 0 ? "Mend what it says, then start it under System, Plugins." : NULL);
}

static void
check_disk(PhActionCall *call)
{
    struct statvfs disk;
    if (statvfs(ph_configuration_state_folder(), &disk) != 0 || disk.f_blocks == 0)
        return;
    static const uint64_t low_bytes = UINT64_C(1) << 30;
    uint64_t total = (uint64_t)disk.f_blocks * disk.f_frsize;
    uint64_t available = (uint64_t)disk.f_bavail * disk.f_frsize;
    bool low = available < MIN(total / 20, low_bytes);
    bool near = available < MIN(total / 10, 4 * low_bytes);
    g_autofree char *size = g_format_size_full(available, G_FORMAT_SIZE_IEC_UNITS);
    g_autofree char *text = g_strdup_printf("%s are free.", size);
    answer_check(call, "disk", "Room on the disk",
        low    ? "bad"
        : near ? "warn"
               : "ok",
        text, near ? "Make room, or move the state folder to a larger disk." : NULL);
}

PH_IN_JOB static void
check_domains(PhActionCall *call)
{
    enum { LOOKED_AT = 50 };
    g_autoptr(GError) away = NULL;
    const PhListFilter all = { 0 };
    g_autoptr(PhPage) page =
        ph_domain_list_blocking(&all, NULL, LOOKED_AT, ph_action_deadline_us(call), &away);
    if (page == NULL)
        return;
    if (page->items->len == 0) {
        answer_check(call, "domains", "Mail domains", "warn", "There is none yet.",
            "Add the domain that you want to receive mail for.");
        return;
    }
    g_autoptr(GString) without = g_string_new(NULL);
    for (guint i = 0; i < page->items->len; i++) {
        const PhDomain *domain = page->items->pdata[i];
        g_autofree char *address = g_strconcat("postmaster@", domain->name, NULL);
        g_autoptr(PhRoute) route =
            ph_route_resolve_blocking(address, ph_action_deadline_us(call), &away);
        if (route != NULL && route->kind == PH_ROUTE_UNKNOWN)
            g_string_append_printf(without, "%s%s", without->len > 0 ? ", " : "", domain->name);
    }
    g_autofree char *bad = g_strdup_printf("Nobody reads postmaster of %s.", without->str);
    answer_check(call, "postmaster", "Postmaster addresses", without->len > 0 ? "warn" : "ok",
        without->len > 0 ? bad : "Each domain has one.",
        without->len > 0 ? "Add an alias: other servers write there when something is wrong."
                         : NULL);
}

static void
check_certificate(PhActionCall *call)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *host = ph_settings_text(settings, "server.host_name", NULL);
    g_auto(PhTlsCertificateInfo) info = { 0 };
    if (!ph_tls_certificate_for(host, &info)) {
        answer_check(call, "certificate", "Certificate", "bad", "There is none.",
            "Look at the log: without one no client can use TLS.");
        return;
    }
    static const int64_t day_us = INT64_C(86400) * G_USEC_PER_SEC;
    int64_t days = (info.not_after_us - ph_time_now_us()) / day_us;
    g_autofree char *text =
        info.is_local ? g_strdup_printf("%s has one of this server's own authority.", host)
                      : g_strdup_printf("%s has one for %" G_GINT64_FORMAT " days.", host, days);
    g_auto(GStrv) names = g_strsplit(info.names, ",", -1);
    if (info.is_local && !g_strv_contains((const char *const *)names, host)) {
        g_autofree char *list = g_strjoinv(", ", names);
        g_autofree char *other =
            g_strdup_printf("None is for %s; its clients are given the one for %s.", host, list);
        answer_check(call, "certificate", "Certificate", "bad", other,
            "Add a certificate for this name under Certificates, or set server.host_name.");
        return;
    }
    bool bad = days < 3;
    bool warn = info.is_local || days < 15;
    answer_check(call, "certificate", "Certificate",
        bad    ? "bad"
        : warn ? "warn"
               : "ok",
        text,
        info.is_local ? "Other people's programs do not know it: add a certificate from a public "
                        "authority under Certificates."
        : warn        ? "Add its successor under Certificates."
                      : NULL);
}

/* What PostgreSQL promises with a COMMIT: without it a 250 is no promise either. */
PH_IN_JOB static void
check_durability(PhActionCall *call)
{
    g_autoptr(GError) away = NULL;
    g_autofree char *off = ph_store_durability_blocking(ph_action_deadline_us(call), &away);
    if (off == NULL)
        return;
    g_autofree char *text = g_strdup_printf("PostgreSQL runs with %s.", off);
    answer_check(call, "durability", "What is kept over a power cut", off[0] != '\0' ? "bad" : "ok",
        off[0] != '\0' ? text : "All that was acknowledged.",
        off[0] != '\0' ? "Set it to on in postgresql.conf: acknowledged mail may be lost." : NULL);
}

static void
add_service(const char *name, int port, void *data)
{
    g_string_append_printf(data, " %s=%d", name, port);
}

static void
check_ports(PhActionCall *call)
{
    g_autoptr(GString) ports = g_string_new("");
    ph_plugins_each_service(add_service, ports);
    bool drained = ph_setting_bool(PH_SETTING_DRAIN);
    bool takes_mail = strstr(ports->str, " smtp=") != NULL;
    bool is_known =
        strstr(ports->str, " smtp=25 ") != NULL || g_str_has_suffix(ports->str, " smtp=25");
    answer_check(call, "ports", "Ports",
        drained                   ? "warn"
        : takes_mail && !is_known ? "warn"
                                  : "ok",
        ports->len > 0 ? ports->str + 1 : "none",
        drained                   ? "This node is drained: posthouse node resume."
        : takes_mail && !is_known ? "Other servers deliver to port 25: have it lead here, or set "
                                    "port_base and allowed_ports in posthouse.conf."
                                  : NULL);
}

static void
check_clock(PhActionCall *call)
{
    struct timex clock = { .modes = 0 };
    int state = adjtimex(&clock);
    if (state < 0)
        return;
    bool good = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
    answer_check(call, "clock", "Clock", good ? "ok" : "warn",
        good ? "The kernel says that it is kept right." : "Nothing keeps it right.",
        good
            ? NULL
            : "Run a time daemon (chrony, systemd-timesyncd): certificates, tickets and the dates of "
              "mail depend on it.");
}

static void
check_limits(PhActionCall *call)
{
    struct rlimit files;
    enum { NEEDED_FILES = 10000 };
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    uint64_t wanted = (uint64_t)ph_setting_int("net.listen.max_connections");
    bool low = files.rlim_cur < NEEDED_FILES;
    g_autofree char *text = g_strdup_printf(
        "%" G_GUINT64_FORMAT " files may be open, %" G_GUINT64_FORMAT " connections are allowed.",
        (guint64)files.rlim_cur, (guint64)wanted);
    answer_check(call, "limits", "Limits", low ? "warn" : "ok", text,
        low ? "Raise LimitNOFILE of the service, or ulimit -n." : NULL);
}

static bool
checks(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    (void)error;
    check_database(call);
    check_durability(call);
    check_plugins(call);
    check_ports(call);
    check_clock(call);
    check_limits(call);
    check_certificate(call);
    check_disk(call);
    check_domains(call);
    return true;
}

/* -- what can be called ------------------------------------------------------------------------ */

static const PhArgumentRow actions_arguments[] = {
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_POSITIONAL, "only this one", NULL, 0, 64 },
    { 0 },
};

static const PhAnswerRow actions_answers[] = {
    PH_ITEM("name", TEXT, "the action"),
    PH_ITEM("plugin", TEXT, "who brings it"),
    PH_ITEM("role", TEXT, "the least that may call it"),
    PH_ITEM("route", TEXT, "its place in the API"),
    PH_ITEM("changes", BOOL, "it goes to the audit log"),
    PH_ITEM("help", TEXT, "what it does"),
    { "arguments", PH_ANSWER_TEXT, PH_ANSWER_OF_ITEM | PH_ANSWER_LONG, "its arguments, as JSON" },
    { 0 },
};

static void
answer_action(const char *plugin, const PhActionRow *row, void *data)
{
    PhActionCall *call = data;
    const char *wanted = ph_action_text(call, "name");
    if (row->role > ph_action_role(call) || (wanted != NULL && strcmp(wanted, row->name) != 0))
        return;
    g_autofree char *route = ph_api_route(row);
    g_autofree char *arguments = ph_api_describe_arguments(row);
    ph_answer_item(call);
    ph_answer_text(call, "name", row->name);
    ph_answer_text(call, "plugin", plugin);
    ph_answer_text(call, "role", ph_role_name(row->role));
    ph_answer_text(call, "route", route);
    ph_answer_bool(call, "changes", (row->flags & PH_ACTION_CHANGES) != 0);
    ph_answer_text(call, "help", row->help);
    ph_answer_text(call, "arguments", arguments);
}

static bool
list_actions(PhActionCall *call, GError **error)
{
    (void)error;
    ph_actions_each(answer_action, call);
    return true;
}

/* -- log and audit ----------------------------------------------------------------------------- */

static const PhArgumentRow log_arguments[] = {
    PH_ARGUMENT_FILTER,
    PH_CHOICE("level", "error|warning|notice|info|debug", "as important as this, or more (debug)"),
    PH_NUMBER("after", "only lines with a greater number"),
    PH_ARGUMENT_LIMIT,
    { 0 },
};

static const PhAnswerRow log_answers[] = {
    PH_ITEM("number", INT, "ascending"),
    PH_ITEM("at", TIME, "when"),
    PH_ITEM("level", TEXT, "error, warning, notice, info or debug"),
    PH_ITEM("event", TEXT, "what happened, in one word"),
    PH_ITEM("session", TEXT, "in which session"),
    PH_ITEM("text", TEXT, "the details"),
    { 0 },
};

static bool
log_recent(PhActionCall *call, GError **error)
{
    (void)error;
    PhLogFilter filter = {
        .after = (uint64_t)ph_action_int(call, "after", 0),
        .level = PH_LOG_DEBUG,
        .contains = ph_action_text(call, "filter"),
    };
    const char *level = ph_action_text(call, "level");
    if (level != NULL)
        ph_log_level_parse(level, &filter.level);
    g_autoptr(GPtrArray) lines = ph_log_recent(&filter, ph_action_limit(call));
    for (guint i = 0; i < lines->len; i++) {
        const PhLogLine *line = lines->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "number", (int64_t)line->number);
        ph_answer_time(call, "at", line->at_us);
        ph_answer_text(call, "level", ph_log_level_name(line->level));
        ph_answer_text(call, "event", line->event);
        ph_answer_text(call, "session", line->session);
        ph_answer_text(call, "text", line->text);
    }
    return true;
}

static const PhArgumentRow audit_arguments[] = {
    PH_OPTION("actor", "only what this one did"),
    PH_OPTION("action", "only this action"),
    PH_ARGUMENTS_LIST,
    { 0 },
};

static const PhAnswerRow audit_answers[] = {
    PH_ITEM("id", INT, "ascending"),
    PH_ITEM("at", TIME, "when"),
    PH_ITEM("actor", TEXT, "by whom"),
    PH_ITEM("origin", TEXT, "from where: control, or an address"),
    PH_ITEM("action", TEXT, "what"),
    PH_ITEM("target", TEXT, "to what"),
    PH_ITEM("outcome", TEXT, "done, or the error"),
    PH_ITEM("detail", TEXT, "the arguments, as JSON, without secrets"),
    { "before", PH_ANSWER_TEXT, PH_ANSWER_OF_ITEM | PH_ANSWER_LONG, "the thing before, as JSON" },
    { "after", PH_ANSWER_TEXT, PH_ANSWER_OF_ITEM | PH_ANSWER_LONG, "the thing after, as JSON" },
    { 0 },
};

static void
answer_entry(PhActionCall *call, const PhAuditEntry *entry)
{
    ph_answer_item(call);
    ph_answer_int(call, "id", entry->id);
    ph_answer_time(call, "at", entry->at_us);
    ph_answer_text(call, "actor", entry->actor);
    ph_answer_text(call, "origin", entry->origin);
    ph_answer_text(call, "action", entry->action);
    ph_answer_text(call, "target", entry->target);
    ph_answer_text(call, "outcome", entry->outcome);
    ph_answer_text(call, "detail", entry->detail);
    if (entry->before[0] != '\0')
        ph_answer_text(call, "before", entry->before);
    if (entry->after[0] != '\0')
        ph_answer_text(call, "after", entry->after);
}

static bool
audit_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const PhAuditFilter filter = {
        .tenant_id = ph_action_tenant(call),
        .actor = ph_action_text(call, "actor"),
        .action = ph_action_text(call, "action"),
        .text = ph_action_text(call, "filter"),
    };
    g_autoptr(PhPage) page = ph_audit_list_blocking(&filter, ph_action_text(call, "after"),
        ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++)
        answer_entry(call, page->items->pdata[i]);
    ph_answer_next(call, page->next);
    return true;
}

// clang-format off
const PhActionRow ph_server_actions[] = {
    { "server.status", PH_ROLE_USER, 0, NULL, status_answers, status, "GET /status", NULL, "how the server is" },
    { "server.checks", PH_ROLE_OPERATOR, 0, NULL, check_answers, checks, "GET /checks", NULL, "what is wrong, and what to do about it" },
    { "server.metrics", PH_ROLE_OPERATOR, 0, NULL, text_answers, metrics, "GET /metrics", NULL, "counters, in the form of OpenMetrics" },
    { "server.actions", PH_ROLE_USER, 0, actions_arguments, actions_answers, list_actions, "GET /actions", NULL, "what can be called" },
    { "server.log", PH_ROLE_OPERATOR, 0, log_arguments, log_answers, log_recent, "GET /log", NULL, "the newest lines of the log" },
    { "node.list", PH_ROLE_OPERATOR, 0, NULL, node_list_answers, node_list, "GET /nodes", NULL, "the servers on this database" },
    { "node.drain", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, node_arguments, NULL, node_drain, "POST /nodes/{name}/drain", NULL, "no new connections there but the console's; sessions are asked to go elsewhere" },
    { "node.resume", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, node_arguments, NULL, node_resume, "POST /nodes/{name}/resume", NULL, "serve there again" },
    { "plugin.list", PH_ROLE_OPERATOR, 0, NULL, plugin_list_answers, plugin_list, "GET /plugins", NULL, "the plugins and how they are" },
    { "plugin.start", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_arguments, NULL, plugin_start, "POST /plugins/{name}/start", NULL, "load and start one" },
    { "plugin.replace", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_arguments, NULL, plugin_replace, "POST /plugins/{name}/replace", NULL, "load its file again; sessions go on in the old one" },
    { "plugin.stop", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, plugin_stop_arguments, NULL, plugin_stop, "POST /plugins/{name}/stop", NULL, "end its sessions and unload it" },
    { "session.list", PH_ROLE_OPERATOR, 0, session_list_arguments, session_list_answers, session_list, "GET /sessions", NULL, "who is connected" },
    { "session.cut", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, session_arguments, NULL, session_cut, "DELETE /sessions/{id}", NULL, "end a session" },
    { "audit.list", PH_ROLE_TENANT, 0, audit_arguments, audit_answers, audit_list, "GET /audit", NULL, "what was done by whom, newest first" },
    { 0 },
};
// clang-format on
