/* metrics.h - counters and gauges by name
 *
 * Shape:    a metric is made once (static storage of the core, or the plugin's state) and counted
 *           without locks. Names: "smtp_messages_received_total"; the text form is that of
 *           OpenMetrics.
 * Threads:  ph_metric_add, _set: anywhere. _register, _unregister: start and stop.
 * Source:   OpenMetrics 1.0 (names, HELP, TYPE, units in names).
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhMetricKind { PH_METRIC_COUNTER, PH_METRIC_GAUGE } PhMetricKind;

typedef struct PhMetric {
    const char *name;
    const char *help;
    PhMetricKind kind;
    int64_t value;
} PhMetric;

static inline void
ph_metric_add(PhMetric *metric, int64_t n)
{
    __atomic_fetch_add(&metric->value, n, __ATOMIC_RELAXED);
}

static inline void
ph_metric_set(PhMetric *metric, int64_t value)
{
    __atomic_store_n(&metric->value, value, __ATOMIC_RELAXED);
}

/* `metrics` is an array that ends with a row whose name is null; it must stay until it is
 * unregistered. */
PH_API void ph_metrics_register(PhMetric *metrics);
PH_API void ph_metrics_unregister(PhMetric *metrics);
/* All of them, in text. */
PH_API void ph_metrics_format(GString *out);
