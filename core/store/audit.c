/* audit.c - the log of what was done */
#include "store/internal.h"

void
ph_audit_entry_free(PhAuditEntry *entry)
{
    if (entry == NULL)
        return;
    g_free(entry->actor);
    g_free(entry->origin);
    g_free(entry->action);
    g_free(entry->target);
    g_free(entry->outcome);
    g_free(entry->detail);
    g_free(entry->before);
    g_free(entry->after);
    g_free(entry);
}

static const PhStatement write_entry = {
    "audit-write",
    "INSERT INTO audit_log (actor, origin, action, target, outcome, detail, before, after, tenant_id)\n"
    "VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::bigint)",
};

static const char *
or_empty(const char *text)
{
    return text != NULL ? text : "";
}

bool
ph_audit_write_blocking(const PhAuditNote *note, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &write_entry);
    const char *const texts[] = { note->actor, note->origin, note->action, note->target,
        note->outcome, note->detail, note->before, note->after };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        ph_param_text(params, or_empty(texts[i]));
    ph_param_int64(params, note->tenant_id);
    return ph_batch_run_blocking(lease, &batch, 0, error);
}

static const PhStatement list_entries = {
    "audit-list",
    "SELECT audit_id, at, actor, origin, action, target, outcome, detail, before, after, tenant_id, audit_id::text AS place\n"
    "FROM audit_log\n"
    "WHERE audit_id < $1::bigint\n"
    "  AND ($2::text IS NULL OR actor = $2::text)\n"
    "  AND ($3::text IS NULL OR action = $3::text)\n"
    "  AND ($5::bigint = 0 OR tenant_id = $5::bigint)\n"
    "  AND ($6::text IS NULL OR action LIKE $6::text OR target LIKE $6::text OR actor LIKE $6::text OR outcome LIKE $6::text)\n"
    "ORDER BY audit_id DESC\n"
    "LIMIT $4::bigint",
};

static void *
entry_from_row(const PGresult *rows, int i)
{
    PhAuditEntry *entry = g_new0(PhAuditEntry, 1);
    entry->id = ph_cell_int64(rows, i, 0);
    entry->at_us = ph_cell_timestamp_us(rows, i, 1);
    entry->actor = ph_cell_dup(rows, i, 2);
    entry->origin = ph_cell_dup(rows, i, 3);
    entry->action = ph_cell_dup(rows, i, 4);
    entry->target = ph_cell_dup(rows, i, 5);
    entry->outcome = ph_cell_dup(rows, i, 6);
    entry->detail = ph_cell_dup(rows, i, 7);
    entry->before = ph_cell_dup(rows, i, 8);
    entry->after = ph_cell_dup(rows, i, 9);
    entry->tenant_id = ph_cell_int64(rows, i, 10);
    return entry;
}

static const PhListing audit_listing = {
    .read_item = entry_from_row,
    .free_item = (GDestroyNotify)ph_audit_entry_free,
    .place = 11,
};

PhPage *
ph_audit_list_blocking(const PhAuditFilter *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_entries);
    ph_param_int64(params, after != NULL ? g_ascii_strtoll(after, NULL, 10) : INT64_MAX);
    g_autofree char *pattern = ph_sql_like(filter->text);
    ph_param_text(params, filter->actor);
    ph_param_text(params, filter->action);
    ph_param_int64(params, limit);
    ph_param_int64(params, filter->tenant_id);
    ph_param_text(params, pattern);
    return ph_page_read_blocking(lease, &batch, &audit_listing, limit, error);
}
