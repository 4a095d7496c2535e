/* plugin.c - what the host is told: settings, services, counters */
#include "smtp.h"

static const PhSettingRow settings[] = {
    { "smtp.receive.max_recipients", PH_SETTING_INT, "1000", 100, 100000, NULL, PH_SCOPE_GLOBAL,
        "Recipients of one message (RFC 5321 asks for at least 100)." },
    { "smtp.receive.timeout_s", PH_SETTING_TIME, "300", 10, 3600, NULL, PH_SCOPE_GLOBAL,
        "A client that sends nothing for so long is let go." },
    { "smtp.receive.line_ends", PH_SETTING_CHOICE, "normalise", 0, 0, "normalise|reject",
        PH_SCOPE_GLOBAL, "A lone LF: made CR LF, or a reason to refuse. It never ends a message." },
    { 0 },
};

static const SmtpRole mx = { .name = "mx" };
static const SmtpRole submission = { .name = "submission", .is_submission = true };
static const SmtpRole lmtp = { .name = "lmtp", .is_lmtp = true };

static const PhServiceRow services[] = {
    { "smtp", 25, PH_TLS_START, &smtp_session_class, &mx, NULL, false },
    { "submission", 587, PH_TLS_START, &smtp_session_class, &submission, NULL, false },
    { "submissions", 465, PH_TLS_IMPLICIT, &smtp_session_class, &submission, NULL, false },
    { "lmtp", 24, PH_TLS_NONE, &smtp_session_class, &lmtp, NULL, false },
    { 0 },
};

SmtpCounters *
smtp_counters(SmtpSession *session)
{
    return session->base.plugin_state;
}

static bool
start(void **state_out, GError **error)
{
    (void)error;
    SmtpCounters *counters = g_new0(SmtpCounters, 1);
    counters->sessions =
        (PhMetric){ "smtp_sessions_total", "Sessions opened.", PH_METRIC_COUNTER, 0 };
    counters->received =
        (PhMetric){ "smtp_messages_received_total", "Messages taken.", PH_METRIC_COUNTER, 0 };
    counters->refused =
        (PhMetric){ "smtp_refused_total", "Commands refused for good.", PH_METRIC_COUNTER, 0 };
    counters->deferred =
        (PhMetric){ "smtp_deferred_total", "Commands put off.", PH_METRIC_COUNTER, 0 };
    counters->bytes =
        (PhMetric){ "smtp_bytes_received_total", "Bytes of messages.", PH_METRIC_COUNTER, 0 };
    ph_metrics_register(&counters->sessions);
    *state_out = counters;
    return true;
}

static void
stop(void *state)
{
    SmtpCounters *counters = state;
    ph_metrics_unregister(&counters->sessions);
    g_free(counters);
}

PH_PLUGIN_EXPORT extern const PhPlugin posthouse_plugin;
const PhPlugin posthouse_plugin = {
    .abi = PH_PLUGIN_ABI,
    .size = sizeof(PhPlugin),
    .name = "smtp",
    .summary = "receives mail: SMTP, submission, LMTP",
    .settings = settings,
    .services = services,
    .hooks = smtp_hooks,
    .start = start,
    .stop = stop,
};
