/* imap-fetch-items.c - fuzz target: the items of a FETCH */
#include "plugins/imap/fetch.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int is_uid = 0; is_uid < 2; is_uid++) {
        ImapParser parser = { .at = (const char *)data, .end = (const char *)data + size };
        ImapFetchItems *items = imap_fetch_items_parse(&parser, is_uid != 0);
        if (items == NULL)
            continue;
        g_assert_cmpuint(items->items->len, >, 0);
        g_assert_cmpuint(items->items->len, <=, 201);
        for (guint i = 0; i < items->items->len; i++) {
            const ImapFetchItem *item = items->items->pdata[i];
            g_assert_nonnull(item->label);
            g_assert_cmpuint(item->path_length, <=, IMAP_SECTION_DEPTH_MAX);
            for (size_t k = 0; k < item->path_length; k++)
                g_assert_cmpuint(item->path[k], >, 0);
            g_assert_true(!item->is_partial || item->count > 0);
        }
        imap_fetch_items_free(items);
    }
    return 0;
}
