/* page.c - pages of lists */
#include "store/internal.h"

void
ph_page_free(PhPage *page)
{
    if (page == NULL)
        return;
    g_clear_pointer(&page->items, g_ptr_array_unref);
    g_free(page->next);
    g_free(page);
}

PhPage *
ph_page_new(GDestroyNotify free_item)
{
    PhPage *page = g_new0(PhPage, 1);
    page->items = g_ptr_array_new_with_free_func(free_item);
    return page;
}

void
ph_page_finish(PhPage *page, unsigned limit, const char *last)
{
    if (limit > 0 && page->items->len >= limit)
        page->next = g_strdup(last);
}

PhPage *
ph_page_read_blocking(
    PhLease *lease, PhBatch *batch, const PhListing *listing, unsigned limit, GError **error)
{
    if (!ph_batch_run_blocking(lease, batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(batch, 0);
    int n = PQntuples(rows);
    PhPage *page = ph_page_new(listing->free_item);
    for (int i = 0; i < n; i++)
        g_ptr_array_add(page->items, listing->read_item(rows, i));
    ph_page_finish(page, limit, n > 0 ? ph_cell_text(rows, n - 1, listing->place) : NULL);
    return page;
}
