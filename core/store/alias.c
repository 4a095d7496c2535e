/* alias.c - addresses that stand for other addresses */
#include "store/internal.h"

void
ph_alias_free(PhAlias *alias)
{
    if (alias == NULL)
        return;
    g_free(alias->address);
    g_free(alias->target);
    g_free(alias);
}

/* The row of `address` is locked by the insert or update, so that a remove beside us cannot take it
 * away. */
static const PhStatement claim_address = {
    "alias-claim",
    "INSERT INTO address (domain_id, local_part, kind)\n"
    "SELECT domain_id, $1::text, 1 FROM domain WHERE name_ascii = $2::text\n"
    "ON CONFLICT (domain_id, local_part) DO UPDATE SET kind = address.kind\n"
    "RETURNING domain_id, kind",
};

static const PhStatement add_target = {
    "alias-target",
    "INSERT INTO alias_target (domain_id, local_part, target)\n"
    "VALUES ($1::bigint, $2::text, $3::text)\n"
    "ON CONFLICT DO NOTHING",
};

bool
ph_alias_add_blocking(const char *address, const char *target, int64_t deadline_us, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(address, error);
    g_autoptr(PhAddressKey) to = key != NULL ? ph_address_key_new(target, error) : NULL;
    if (to == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &claim_address);
    ph_param_text(params, key->local);
    ph_param_text(params, key->domain_ascii);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 1);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "the domain of \"%s\" is not one of this installation", key->whole);
        return false;
    }
    if (ph_cell_int16(rows, 0, 1) != 1) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "address \"%s\" is an account", key->whole);
        return false;
    }
    int64_t domain_id = ph_cell_int64(rows, 0, 0);
    ph_batch_restart(&batch);
    params = ph_batch_add(&batch, &add_target);
    ph_param_int64(params, domain_id);
    ph_param_text(params, key->local);
    ph_param_text(params, to->whole);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "alias \"%s\" to \"%s\" exists", key->whole,
            to->whole);
        return false;
    }
    return true;
}

static const PhStatement lock_address = {
    "alias-lock",
    "SELECT a.domain_id\n"
    "FROM address a\n"
    "WHERE a.domain_id = (SELECT domain_id FROM domain WHERE name_ascii = $2::text) AND a.local_part = $1::text\n"
    "  AND a.kind = 1\n"
    "FOR UPDATE",
};

static const PhStatement remove_target = {
    "alias-remove",
    "DELETE FROM alias_target t\n"
    "WHERE t.domain_id = (SELECT domain_id FROM domain WHERE name_ascii = $2::text) AND t.local_part = $1::text\n"
    "  AND t.target = $3::text",
};

static const PhStatement remove_unused = {
    "alias-remove-unused",
    "DELETE FROM address a\n"
    "WHERE a.domain_id = (SELECT domain_id FROM domain WHERE name_ascii = $2::text) AND a.local_part = $1::text\n"
    "  AND a.kind = 1\n"
    "  AND NOT EXISTS (SELECT FROM alias_target t WHERE t.domain_id = a.domain_id AND t.local_part = a.local_part)",
};

bool
ph_alias_remove_blocking(
    const char *address, const char *target, int64_t deadline_us, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(address, error);
    g_autoptr(PhAddressKey) to = key != NULL ? ph_address_key_new(target, error) : NULL;
    if (to == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    const PhStatement *const steps[] = { &lock_address, &remove_target, &remove_unused };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        PhParams *params = ph_batch_add(&batch, steps[i]);
        ph_param_text(params, key->local);
        ph_param_text(params, key->domain_ascii);
        if (steps[i] == &remove_target)
            ph_param_text(params, to->whole);
    }
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 2) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no alias \"%s\" to \"%s\"", key->whole,
            to->whole);
        return false;
    }
    return true;
}

/* The place to go on from is "address target", and the order is that of this text. */
static const PhStatement list_aliases = {
    "alias-list",
    "SELECT l.address, l.target, l.place\n"
    "FROM (\n"
    "    SELECT t.local_part || '@' || d.name AS address, t.target, t.local_part || '@' || d.name || ' ' || t.target AS place\n"
    "    FROM alias_target t\n"
    "    JOIN domain d ON d.domain_id = t.domain_id\n"
    "    WHERE ($1::text IS NULL OR d.name_ascii = $1::text) AND ($5::bigint = 0 OR d.tenant_id = $5::bigint)\n"
    ") AS l\n"
    "WHERE l.place COLLATE \"C\" > $3::text\n"
    "  AND ($6::text IS NULL OR l.target = $6::text)\n"
    "  AND ($2::text IS NULL OR l.address LIKE $2::text OR l.target LIKE $2::text)\n"
    "ORDER BY l.place COLLATE \"C\"\n"
    "LIMIT $4::bigint",
};

static void *
read_alias(const PGresult *rows, int i)
{
    PhAlias *alias = g_new0(PhAlias, 1);
    alias->address = ph_cell_dup(rows, i, 0);
    alias->target = ph_cell_dup(rows, i, 1);
    return alias;
}

static const PhListing alias_listing = {
    .read_item = read_alias,
    .free_item = (GDestroyNotify)ph_alias_free,
    .place = 2,
};

PhPage *
ph_alias_list_blocking(const PhListFilter *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autofree char *ascii = NULL;
    if (filter->domain != NULL && (ascii = ph_domain_key(filter->domain, error)) == NULL)
        return NULL;
    g_autoptr(PhAddressKey) target = NULL;
    if (filter->target != NULL && (target = ph_address_key_new(filter->target, error)) == NULL)
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter->text);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_aliases);
    ph_param_text(params, ascii);
    ph_param_text(params, pattern);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_int64(params, limit);
    ph_param_int64(params, filter->tenant_id);
    ph_param_text(params, target != NULL ? target->whole : NULL);
    return ph_page_read_blocking(lease, &batch, &alias_listing, limit, error);
}
