/* keyword.c - the keywords of a mailbox, by bit */
#include "store/view.h"

#include <string.h>

bool
ph_keyword_is_valid(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > PH_KEYWORD_MAX_BYTES)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~' || strchr("(){%*\"\\]", name[i]) != NULL)
            return false;
    return true;
}

GPtrArray *
ph_keywords_new(void)
{
    GPtrArray *keywords = g_ptr_array_new_full(PH_KEYWORDS_MAX, g_free);
    g_ptr_array_set_size(keywords, PH_KEYWORDS_MAX);
    return keywords;
}

GPtrArray *
ph_keywords_from(const PGresult *rows)
{
    GPtrArray *keywords = ph_keywords_new();
    for (int i = 0; i < PQntuples(rows); i++) {
        int bit = ph_cell_int16(rows, i, 0);
        g_free(keywords->pdata[bit]);
        keywords->pdata[bit] = ph_cell_dup(rows, i, 1);
    }
    return keywords;
}

int
ph_keyword_bit(GPtrArray *keywords, const char *name, bool *is_new_out)
{
    *is_new_out = false;
    int free_bit = -1;
    for (int bit = 0; bit < PH_KEYWORDS_MAX; bit++) {
        const char *known = keywords->pdata[bit];
        if (known != NULL && g_ascii_strcasecmp(known, name) == 0)
            return bit;
        if (known == NULL && free_bit < 0)
            free_bit = bit;
    }
    if (free_bit < 0 || !ph_keyword_is_valid(name))
        return -1;
    keywords->pdata[free_bit] = g_strdup(name);
    *is_new_out = true;
    return free_bit;
}

bool
ph_keyword_is_known(const GPtrArray *keywords, const char *name)
{
    for (guint bit = 0; bit < keywords->len; bit++)
        if (keywords->pdata[bit] != NULL && g_ascii_strcasecmp(keywords->pdata[bit], name) == 0)
            return true;
    return false;
}
