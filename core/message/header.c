/* header.c - fields of a header block
 *
 * What is hard here: a header is whatever arrived. A line without a colon is a field without a
 * name, so that "all but these fields" still gives back every byte.
 */
#include <posthouse/message-header.h>

#include "ascii.h"

void
ph_header_iter_init(PhHeaderIter *iter, const void *block, size_t length)
{
    iter->at = block != NULL ? block : "";
    iter->end = iter->at + length;
}

/* Behind the LF of the line at `at`, or the end. */
static const char *
line_end(const char *at, const char *end)
{
    const char *lf = memchr(at, '\n', (size_t)(end - at));
    return lf != NULL ? lf + 1 : end;
}

static bool
line_is_blank(const char *at, const char *end)
{
    return *at == '\n' || (*at == '\r' && end - at >= 2 && at[1] == '\n');
}

bool
ph_header_iter_next(PhHeaderIter *iter, PhHeaderField *field_out)
{
    const char *start = iter->at;
    if (start >= iter->end || line_is_blank(start, iter->end))
        return false;
    const char *first_end = line_end(start, iter->end);
    const char *end = first_end;
    while (end < iter->end && ascii_is_space(*end))
        end = line_end(end, iter->end);
    iter->at = end;

    *field_out = (PhHeaderField){ .start = start, .length = (size_t)(end - start) };
    const char *value_end = end;
    if (value_end > start && value_end[-1] == '\n')
        value_end--;
    if (value_end > start && value_end < end && value_end[-1] == '\r')
        value_end--;
    const char *colon = memchr(start, ':', (size_t)(first_end - start));
    field_out->name = start;
    if (colon == NULL || colon > value_end) {
        field_out->value = start;
        field_out->value_length = (size_t)(value_end - start);
        return true;
    }
    const char *name_end = colon;
    while (name_end > start && ascii_is_space(name_end[-1]))
        name_end--;
    field_out->name_length = (size_t)(name_end - start);
    field_out->value = colon + 1;
    field_out->value_length = value_end > colon + 1 ? (size_t)(value_end - colon - 1) : 0;
    return true;
}

bool
ph_header_field_is(const PhHeaderField *field, const char *name)
{
    return ascii_equal(field->name, field->name_length, name);
}

bool
ph_header_find(const void *block, size_t length, const char *name, PhHeaderField *field_out)
{
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, block, length);
    while (ph_header_iter_next(&iter, &field)) {
        if (ph_header_field_is(&field, name)) {
            *field_out = field;
            return true;
        }
    }
    return false;
}

char *
ph_header_unfold(const char *value, size_t length)
{
    GString *out = g_string_sized_new(length + 1);
    for (size_t i = 0; i < length; i++) {
        char c = value[i];
        if (c == '\r' && i + 1 < length && value[i + 1] == '\n')
            continue;
        if (c == '\n')
            continue;
        if (c == '\r')
            c = ' ';
        if (c == '\0')
            c = '?';
        if (out->len > 0 || !ascii_is_space(c))
            g_string_append_c(out, c);
    }
    size_t end = out->len;
    while (end > 0 && ascii_is_space(out->str[end - 1]))
        end--;
    g_string_truncate(out, end);
    return g_string_free(out, FALSE);
}

/* -- sets of names ----------------------------------------------------------------------------- */

typedef struct NameKey {
    const char *name;
    size_t length;
} NameKey;

static guint
name_key_hash(gconstpointer pointer)
{
    const NameKey *key = pointer;
    guint hash = 2166136261u;
    for (size_t i = 0; i < key->length; i++)
        hash = (hash ^ (guchar)g_ascii_tolower(key->name[i])) * 16777619u;
    return hash;
}

static gboolean
name_key_equal(gconstpointer a_pointer, gconstpointer b_pointer)
{
    const NameKey *a = a_pointer;
    const NameKey *b = b_pointer;
    return a->length == b->length && g_ascii_strncasecmp(a->name, b->name, a->length) == 0;
}

void
ph_header_subset(const void *block, size_t length, const char *const *names, size_t name_count,
    bool invert, GString *out)
{
    g_autofree NameKey *keys = g_new0(NameKey, name_count + 1);
    g_autoptr(GHashTable) set = g_hash_table_new(name_key_hash, name_key_equal);
    for (size_t i = 0; i < name_count; i++) {
        keys[i] = (NameKey){ .name = names[i], .length = strlen(names[i]) };
        /* A name that is empty would match lines that are no field. */
        if (keys[i].length > 0)
            g_hash_table_add(set, &keys[i]);
    }
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, block, length);
    while (ph_header_iter_next(&iter, &field)) {
        NameKey key = { .name = field.name, .length = field.name_length };
        if ((g_hash_table_lookup(set, &key) != NULL) == invert)
            continue;
        g_string_append_len(out, field.start, (gssize)field.length);
        if (field.start[field.length - 1] != '\n')
            g_string_append(out, "\r\n");
    }
    g_string_append(out, "\r\n");
}
