/* figures.c - times that were measured, and the report as text and as JSON */
#include "figures.h"

#include "load.h"

#include <math.h>
#include <stdio.h>

void
samples_add(Samples *samples, double seconds)
{
    if (samples->seconds == NULL)
        samples->seconds = g_array_new(FALSE, FALSE, sizeof(float));
    float value = (float)seconds;
    g_array_append_val(samples->seconds, value);
    samples->sum += seconds;
    samples->sorted = false;
}

unsigned
samples_count(const Samples *samples)
{
    return samples->seconds != NULL ? samples->seconds->len : 0;
}

static int
compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x > y) - (x < y);
}

static const float *
sorted(Samples *samples)
{
    if (!samples->sorted)
        g_array_sort(samples->seconds, compare_floats);
    samples->sorted = true;
    return (const float *)(void *)samples->seconds->data;
}

double
samples_at(Samples *samples, double share)
{
    unsigned n = samples_count(samples);
    if (n == 0)
        return 0;
    unsigned place = (unsigned)ceil(share * n);
    return (double)sorted(samples)[CLAMP(place, 1, n) - 1];
}

double
samples_mean(const Samples *samples)
{
    unsigned n = samples_count(samples);
    return n > 0 ? samples->sum / n : 0;
}

double
samples_within(Samples *samples, double limit_s)
{
    unsigned n = samples_count(samples);
    if (n == 0)
        return 1;
    const float *values = sorted(samples);
    unsigned low = 0;
    unsigned high = n;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if ((double)values[middle] <= limit_s)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)low / n;
}

void
samples_clear(Samples *samples)
{
    if (samples->seconds != NULL)
        g_array_unref(samples->seconds);
    *samples = (Samples){ .seconds = NULL };
}

/* -- JSON -------------------------------------------------------------------------------------- */

/* Names and texts are the generators' own words: letters, digits and plain punctuation. */
static void
put_name(Json *json, const char *name)
{
    if (!json->first)
        g_string_append_c(json->text, ',');
    json->first = false;
    if (name != NULL)
        g_string_append_printf(json->text, "\"%s\":", name);
}

void
json_begin(Json *json, const char *name)
{
    if (json->text == NULL) {
        json->text = g_string_new(NULL);
        json->first = true;
    }
    put_name(json, name);
    g_string_append_c(json->text, '{');
    json->first = true;
}

void
json_end(Json *json)
{
    g_string_append_c(json->text, '}');
    json->first = false;
}

void
json_number(Json *json, const char *name, double value)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    put_name(json, name);
    g_string_append(
        json->text, g_ascii_formatd(digits, sizeof(digits), "%.10g", isfinite(value) ? value : 0));
}

void
json_text(Json *json, const char *name, const char *value)
{
    g_autofree char *escaped = g_strescape(value, NULL);
    put_name(json, name);
    g_string_append_printf(json->text, "\"%s\"", escaped);
}

void
json_samples(Json *json, const char *name, Samples *samples)
{
    json_begin(json, name);
    json_number(json, "count", samples_count(samples));
    json_number(json, "mean_ms", samples_mean(samples) * 1000);
    json_number(json, "p50_ms", samples_at(samples, 0.50) * 1000);
    json_number(json, "p95_ms", samples_at(samples, 0.95) * 1000);
    json_number(json, "p99_ms", samples_at(samples, 0.99) * 1000);
    json_number(json, "max_ms", samples_at(samples, 1) * 1000);
    json_end(json);
}

void
json_write(Json *json, const char *file)
{
    g_string_append_c(json->text, '\n');
    g_autoptr(GError) error = NULL;
    if (g_str_equal(file, "-"))
        fputs(json->text->str, stdout);
    else if (!g_file_set_contents(file, json->text->str, -1, &error))
        load_die("%s", error->message);
    g_string_free(g_steal_pointer(&json->text), TRUE);
}
