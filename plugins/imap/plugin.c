/* plugin.c - what the host is told: settings, services, counters */
#include "imap.h"

static const PhServiceRow services[] = {
    { "imap", 143, PH_TLS_START, &imap_session_class, NULL, "imap", false },
    { "imaps", 993, PH_TLS_IMPLICIT, &imap_session_class, NULL, "imap", false },
    { 0 },
};

ImapCounters *
imap_counters(const ImapSession *session)
{
    return session->base.plugin_state;
}

static bool
start(void **state_out, GError **error)
{
    (void)error;
    ImapCounters *counters = g_new0(ImapCounters, 1);
    counters->sessions =
        (PhMetric){ "imap_sessions_total", "Sessions opened.", PH_METRIC_COUNTER, 0 };
    counters->commands = (PhMetric){ "imap_commands_total", "Commands run.", PH_METRIC_COUNTER, 0 };
    counters->fetched = (PhMetric){ "imap_messages_fetched_total", "Messages told of by FETCH.",
        PH_METRIC_COUNTER, 0 };
    counters->appended = (PhMetric){ "imap_messages_appended_total", "Messages taken by APPEND.",
        PH_METRIC_COUNTER, 0 };
    ph_metrics_register(&counters->sessions);
    *state_out = counters;
    return true;
}

static void
stop(void *state)
{
    ImapCounters *counters = state;
    ph_metrics_unregister(&counters->sessions);
    g_free(counters);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "imap",
    .summary = "reads mail: IMAP4rev1",
    .services = services,
    .start = start,
    .stop = stop,
};
