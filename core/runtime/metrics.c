/* metrics.c - the list of metric tables */
#include "posthouse/metrics.h"

static struct {
    PhMutex mutex;
    GPtrArray *tables;
} registry = { .mutex = { .rank = PH_LOCK_METRIC } };

void
ph_metrics_register(PhMetric *metrics)
{
    ph_mutex_lock(&registry.mutex);
    if (registry.tables == NULL)
        registry.tables = g_ptr_array_new();
    g_ptr_array_add(registry.tables, metrics);
    ph_mutex_unlock(&registry.mutex);
}

void
ph_metrics_unregister(PhMetric *metrics)
{
    ph_mutex_lock(&registry.mutex);
    if (registry.tables != NULL)
        g_ptr_array_remove(registry.tables, metrics);
    ph_mutex_unlock(&registry.mutex);
}

void
ph_metrics_format(GString *out)
{
    ph_mutex_lock(&registry.mutex);
    for (guint i = 0; registry.tables != NULL && i < registry.tables->len; i++) {
        for (const PhMetric *metric = registry.tables->pdata[i]; metric->name != NULL; metric++) {
            const char *kind = metric->kind == PH_METRIC_COUNTER ? "counter" : "gauge";
            int64_t value = __atomic_load_n(&metric->value, __ATOMIC_RELAXED);
            /* OpenMetrics: a counter's family is its sample's name without "_total". */
            g_autofree char *family = g_strdup(metric->name);
            if (g_str_has_suffix(family, "_total"))
                family[strlen(family) - strlen("_total")] = '\0';
            g_string_append_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" G_GINT64_FORMAT "\n",
                family, metric->help, family, kind, metric->name, value);
        }
    }
    ph_mutex_unlock(&registry.mutex);
    g_string_append(out, "# EOF\n");
}
