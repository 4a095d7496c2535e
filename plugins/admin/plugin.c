/* plugin.c - the rows of the console, and its connections */
#include "admin.h"

#include "posthouse/log.h"
#include "posthouse/plugin.h"

static const PhSettingRow settings[] = {
    { "admin.base_path", PH_SETTING_TEXT, "/", 1, 255, NULL, PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Where the console is, behind a proxy that passes a part of its paths on: begins and ends "
        "with \"/\"." },
    { "admin.ui.folder", PH_SETTING_TEXT, "", 0, 1024, NULL, PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Pages of the console from this folder instead of those in the plugin: for branding and "
        "development." },
    { 0 },
};

/* -- connections ------------------------------------------------------------------------------- */

typedef struct ConsoleSession {
    PhSession base;
    PhRelay *relay;
} ConsoleSession;

static void
fill_peer(PhConnection *connection, struct sockaddr_storage *peer, socklen_t *length_out)
{
    ph_assert_on_reactor();
    g_autoptr(GSocketAddress) address = g_inet_socket_address_new_from_string(
        ph_connection_peer_address(connection), (guint)ph_connection_peer_port(connection));
    if (address == NULL || !g_socket_address_to_native(address, peer, sizeof(*peer), NULL)) {
        peer->ss_family = AF_UNSPEC;
        *length_out = sizeof(peer->ss_family);
        return;
    }
    *length_out = (socklen_t)g_socket_address_get_native_size(address);
}

static void
opened(PhSession *session)
{
    ph_assert_on_reactor();
    ConsoleSession *console = (ConsoleSession *)session;
    Admin *admin = session->plugin_state;
    struct sockaddr_storage peer = { 0 };
    socklen_t length;
    int fd;
    g_autoptr(GError) error = NULL;
    fill_peer(session->connection, &peer, &length);
    console->relay = ph_relay_new(session, &fd, &error);
    if (console->relay == NULL) {
        ph_log(PH_LOG_ERROR, "admin.no-relay", "%s", error->message);
        ph_connection_abort(session->connection);
        return;
    }
    ph_session_set_activity(session, "console");
    /* A failed call has closed the descriptor, and so the connection. */
    MHD_add_connection(admin->daemon, fd, (const struct sockaddr *)&peer, length);
    admin_http_run(admin);
}

static void
input(PhSession *session)
{
    ph_assert_on_reactor();
    ConsoleSession *console = (ConsoleSession *)session;
    if (console->relay != NULL)
        ph_relay_input(console->relay);
}

static void
drained(PhSession *session)
{
    ph_assert_on_reactor();
    ConsoleSession *console = (ConsoleSession *)session;
    if (console->relay != NULL)
        ph_relay_drained(console->relay);
}

static void
ended(PhSession *session)
{
    ph_assert_on_reactor();
    ConsoleSession *console = (ConsoleSession *)session;
    if (console->relay != NULL)
        ph_relay_ended(console->relay);
}

static void
farewell(PhSession *session, PhFarewell why)
{
    ph_assert_on_reactor();
    (void)why;
    ph_connection_close(session->connection);
}

static void
closed(PhSession *session, PhCloseReason reason)
{
    ph_assert_on_reactor();
    (void)reason;
    ConsoleSession *console = (ConsoleSession *)session;
    ph_relay_free(g_steal_pointer(&console->relay));
}

static const PhSessionClass session_class = {
    .name = "console",
    .size = sizeof(ConsoleSession),
    .opened = opened,
    .input = input,
    .drained = drained,
    .ended = ended,
    .farewell = farewell,
    .closed = closed,
};

static const PhServiceRow services[] = {
    { .name = "console",
        .port = 8443,
        .tls = PH_TLS_IMPLICIT,
        .session_class = &session_class,
        .alpn = "http/1.1",
        .apart = true },
    { 0 },
};

/* -- life -------------------------------------------------------------------------------------- */

static bool
start(void **state_out, GError **error)
{
    Admin *admin = g_new0(Admin, 1);
    if (!admin_http_start(admin, error)) {
        g_free(admin);
        return false;
    }
    *state_out = admin;
    return true;
}

static void
stop(void *state)
{
    Admin *admin = state;
    admin_http_stop(admin);
    g_free(admin);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "admin",
    .summary = "the console, and the API for programs",
    .settings = settings,
    .services = services,
    .start = start,
    .stop = stop,
};
