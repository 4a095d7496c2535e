/* figures.h - times that were measured, and the report as text and as JSON
 *
 * Units:    seconds in, milliseconds and shares out.
 * Threads:  one.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

/* Every single time is kept, so that a percentile is one of them. */
typedef struct Samples {
    GArray *seconds; /* of float */
    double sum;
    bool sorted;
} Samples;

void samples_add(Samples *samples, double seconds);
unsigned samples_count(const Samples *samples);
/* `share` 0.5: the median; 0 without any. */
double samples_at(Samples *samples, double share);
double samples_mean(const Samples *samples);
/* The share of them that is not above the limit; 1 without any. */
double samples_within(Samples *samples, double limit_s);
void samples_clear(Samples *samples);

/* JSON: one object, written as it comes. */
typedef struct Json {
    GString *text;
    bool first;
} Json;

void json_begin(Json *json, const char *name); /* an object; the outermost has no name */
void json_end(Json *json);
void json_number(Json *json, const char *name, double value);
void json_text(Json *json, const char *name, const char *value);
/* Times of an operation as an object: count, mean_ms, p50_ms, p95_ms, p99_ms, max_ms. */
void json_samples(Json *json, const char *name, Samples *samples);
/* Writes the file ("-": standard output) and frees the text; ends the process when it cannot. */
void json_write(Json *json, const char *file);
