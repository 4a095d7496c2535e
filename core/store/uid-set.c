/* uid-set.c - sets of UIDs as ranges */
#include "store/internal.h"

PhUidSet *
ph_uid_set_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(PhUidRange));
}

void
ph_uid_set_free(PhUidSet *set)
{
    if (set != NULL)
        g_array_unref(set);
}

static PhUidRange *
range_at(const PhUidSet *set, size_t index)
{
    return &g_array_index(set, PhUidRange, index);
}

/* The first range that ends at `uid` or behind it. */
static size_t
find(const PhUidSet *set, uint64_t uid)
{
    size_t low = 0;
    size_t high = set->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (range_at(set, middle)->last < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
ph_uid_set_add(PhUidSet *set, uint32_t first, uint32_t last)
{
    if (first > last) {
        uint32_t swap = first;
        first = last;
        last = swap;
    }
    PhUidRange range = { first, last };
    if (set->len > 0) {
        PhUidRange *tail = range_at(set, set->len - 1);
        if (first > tail->last && first - tail->last == 1) {
            tail->last = last;
            return;
        }
    }
    /* All ranges that touch the new one become one. */
    size_t from = find(set, first > 0 ? (uint64_t)first - 1 : 0);
    size_t to = from;
    while (to < set->len && range_at(set, to)->first <= (uint64_t)last + 1) {
        range.first = MIN(range.first, range_at(set, to)->first);
        range.last = MAX(range.last, range_at(set, to)->last);
        to++;
    }
    if (to == from) {
        g_array_insert_val(set, (guint)from, range);
        return;
    }
    *range_at(set, from) = range;
    if (to - from > 1)
        g_array_remove_range(set, (guint)(from + 1), (guint)(to - from - 1));
}

bool
ph_uid_set_contains(const PhUidSet *set, uint32_t uid)
{
    size_t at = find(set, uid);
    return at < set->len && range_at(set, at)->first <= uid;
}

bool
ph_uid_set_overlaps(const PhUidSet *set, uint32_t first, uint32_t last)
{
    size_t at = find(set, first);
    return at < set->len && range_at(set, at)->first <= last;
}

size_t
ph_uid_set_count(const PhUidSet *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->len; i++)
        count += (size_t)range_at(set, i)->last - range_at(set, i)->first + 1;
    return count;
}

char *
ph_uid_set_format(const PhUidSet *set)
{
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < set->len; i++) {
        const PhUidRange *range = range_at(set, i);
        if (i > 0)
            g_string_append_c(text, ',');
        g_string_append_printf(text, "%u", range->first);
        if (range->last != range->first)
            g_string_append_printf(text, ":%u", range->last);
    }
    return g_string_free(text, FALSE);
}

void
ph_param_uid_set(PhParams *params, const PhUidSet *set)
{
    g_auto(PhSqlArray) firsts;
    g_auto(PhSqlArray) lasts;
    ph_sql_array_init(&firsts, PH_SQL_INT8);
    ph_sql_array_init(&lasts, PH_SQL_INT8);
    for (size_t i = 0; i < set->len; i++) {
        ph_sql_array_add_int(&firsts, range_at(set, i)->first);
        ph_sql_array_add_int(&lasts, range_at(set, i)->last);
    }
    ph_param_array(params, &firsts);
    ph_param_array(params, &lasts);
}

void
ph_uid_set_add_pairs(PhUidSet *set, const GArray *pairs)
{
    for (guint i = 0; i + 1 < pairs->len; i += 2)
        ph_uid_set_add(set, (uint32_t)g_array_index(pairs, int64_t, i),
            (uint32_t)g_array_index(pairs, int64_t, i + 1));
}
