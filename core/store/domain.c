/* domain.c - tenants and domains, and addresses as keys of tables */
#include "store/internal.h"

#include "posthouse/message-address.h"

#include <string.h>

void
ph_domain_free(PhDomain *domain)
{
    if (domain == NULL)
        return;
    g_free(domain->name);
    g_free(domain->name_ascii);
    g_free(domain);
}

/* -- addresses --------------------------------------------------------------------------------- */

void
ph_address_key_free(PhAddressKey *key)
{
    if (key == NULL)
        return;
    g_free(key->local);
    g_free(key->domain_ascii);
    g_free(key->whole);
    g_free(key);
}

PhAddressKey *
ph_address_key_new(const char *address, GError **error)
{
    g_autoptr(PhPath) path = NULL;
    g_autoptr(PhAddressKey) key = g_new0(PhAddressKey, 1);
    PhPathStatus status = ph_address_parse(address, strlen(address), &path);
    if (status == PH_PATH_OK && !path->is_literal && path->local[0] != '\0' &&
        path->domain[0] != '\0') {
        key->local = ph_local_normalize(path->local);
        key->domain_ascii = ph_domain_to_ascii(path->domain);
        key->whole = ph_address_normalize(path->local, path->domain);
    }
    if (key->local == NULL || key->domain_ascii == NULL || key->whole == NULL ||
        strlen(key->whole) > 254) {
        g_autofree char *shown = g_strndup(address, 100);
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is not a mail address", shown);
        return NULL;
    }
    return g_steal_pointer(&key);
}

PhAddressKey *
ph_address_key_from_whole(const char *whole)
{
    const char *at = strrchr(whole, '@');
    g_autofree char *ascii = at != NULL && at > whole ? ph_domain_to_ascii(at + 1) : NULL;
    if (ascii == NULL)
        return NULL;
    PhAddressKey *key = g_new0(PhAddressKey, 1);
    key->local = g_strndup(whole, (size_t)(at - whole));
    key->domain_ascii = g_steal_pointer(&ascii);
    key->whole = g_strdup(whole);
    return key;
}

/* -- tenants ----------------------------------------------------------------------------------- */

static const PhStatement add_tenant = {
    "tenant-add",
    "INSERT INTO tenant (name) VALUES ($1::text) ON CONFLICT (name) DO NOTHING RETURNING tenant_id",
};

bool
ph_tenant_add_blocking(
    const char *name, int64_t deadline_us, int64_t *tenant_id_out, GError **error)
{
    if (name[0] == '\0' || strlen(name) > 255) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a tenant's name has 1 to 255 bytes");
        return false;
    }
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &add_tenant), name);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "tenant \"%s\" exists", name);
        return false;
    }
    if (tenant_id_out != NULL)
        *tenant_id_out = ph_cell_int64(rows, 0, 0);
    return true;
}

/* -- domains ----------------------------------------------------------------------------------- */

static const PhStatement add_domain = {
    "domain-add",
    "INSERT INTO domain (tenant_id, name, name_ascii)\n"
    "SELECT tenant_id, $2::text, $3::text FROM tenant WHERE tenant_id = $1::bigint\n"
    "ON CONFLICT (name_ascii) DO NOTHING\n"
    "RETURNING domain_id",
};

static const PhStatement find_domain = {
    "domain-find",
    "SELECT domain_id FROM domain WHERE name_ascii = $1::text",
};

static bool
normalise_domain(const char *name, char **utf8_out, char **ascii_out, GError **error)
{
    g_autofree char *utf8 = ph_domain_normalize(name);
    g_autofree char *ascii = ph_domain_to_ascii(name);
    /* The grammar of a domain in an address is the one to keep. */
    g_autofree char *probe = ascii != NULL ? g_strconcat("x@", ascii, NULL) : NULL;
    g_autoptr(PhPath) path = NULL;
    if (utf8 == NULL || probe == NULL ||
        ph_address_parse(probe, strlen(probe), &path) != PH_PATH_OK || path->is_literal ||
        strlen(ascii) > 253) {
        g_autofree char *shown = g_strndup(name, 100);
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is not a domain name", shown);
        return false;
    }
    *utf8_out = g_steal_pointer(&utf8);
    *ascii_out = g_steal_pointer(&ascii);
    return true;
}

char *
ph_domain_key(const char *name, GError **error)
{
    g_autofree char *utf8 = NULL;
    char *ascii = NULL;
    return normalise_domain(name, &utf8, &ascii, error) ? ascii : NULL;
}

bool
ph_domain_add_blocking(const char *name, int64_t tenant_id, int64_t deadline_us,
    int64_t *domain_id_out, GError **error)
{
    g_autofree char *utf8 = NULL;
    g_autofree char *ascii = NULL;
    if (!normalise_domain(name, &utf8, &ascii, error))
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &add_domain);
    ph_param_int64(params, tenant_id);
    ph_param_text(params, utf8);
    ph_param_text(params, ascii);
    ph_param_text(ph_batch_add(&batch, &find_domain), ascii);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        bool exists = PQntuples(ph_batch_result(&batch, 1)) > 0;
        if (exists)
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "domain \"%s\" exists", utf8);
        else
            g_set_error(
                error, PH_ERROR, PH_ERROR_NOT_FOUND, "no tenant %" G_GINT64_FORMAT, tenant_id);
        return false;
    }
    if (domain_id_out != NULL)
        *domain_id_out = ph_cell_int64(ph_batch_result(&batch, 0), 0, 0);
    return true;
}

/* An erased account keeps its address from being given to someone else, as long as the domain is
 * here. One whose data is still being erased keeps the domain. */
static const PhStatement remove_erased = {
    "domain-remove-erased",
    "WITH gone AS (\n"
    "    DELETE FROM account a USING domain d\n"
    "    WHERE d.name_ascii = $1::text AND a.domain_id = d.domain_id AND a.state = 3\n"
    "      AND NOT EXISTS (SELECT FROM message m WHERE m.account_id = a.account_id)\n"
    "      AND NOT EXISTS (SELECT FROM mailbox b WHERE b.account_id = a.account_id)\n"
    "    RETURNING a.account_id\n"
    ")\n"
    "DELETE FROM address x USING domain d\n"
    "WHERE d.name_ascii = $1::text AND x.domain_id = d.domain_id AND x.account_id IN (SELECT account_id FROM gone)",
};

static const PhStatement remove_domain = {
    "domain-remove",
    "DELETE FROM domain WHERE name_ascii = $1::text",
};

bool
ph_domain_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autofree char *utf8 = NULL;
    g_autofree char *ascii = NULL;
    if (!normalise_domain(name, &utf8, &ascii, error))
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_text(ph_batch_add(&batch, &remove_erased), ascii);
    ph_param_text(ph_batch_add(&batch, &remove_domain), ascii);
    ph_batch_add(&batch, &ph_sql_commit);
    g_autoptr(GError) local = NULL;
    if (!ph_batch_run_blocking(lease, &batch, 0, &local)) {
        if (ph_error_code(local) == PH_ERROR_CONFLICT)
            g_set_error(
                error, PH_ERROR, PH_ERROR_CONFLICT, "domain \"%s\" still has addresses", utf8);
        else
            g_propagate_error(error, g_steal_pointer(&local));
        return false;
    }
    if (ph_batch_affected(&batch, 2) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no domain \"%s\"", utf8);
        return false;
    }
    return true;
}

#define DOMAIN_COLUMNS \
    "d.domain_id, d.tenant_id, d.name, d.name_ascii, d.created_at,\n" \
    "       (SELECT count(*) FROM account a WHERE a.domain_id = d.domain_id AND a.state < 3)\n" \
    "FROM domain d\n"

static const PhStatement list_domains = {
    "domain-list",
    "SELECT " DOMAIN_COLUMNS "WHERE d.name > $1::text COLLATE \"C\"\n"
    "  AND ($2::text IS NULL OR d.name LIKE $2::text OR d.name_ascii LIKE $2::text)\n"
    "  AND ($4::bigint = 0 OR d.tenant_id = $4::bigint)\n"
    "ORDER BY d.name\n"
    "LIMIT $3::bigint",
};

static const PhStatement show_domain = {
    "domain-show",
    "SELECT " DOMAIN_COLUMNS "WHERE d.name_ascii = $1::text",
};

static void *
domain_from_row(const PGresult *rows, int i)
{
    PhDomain *domain = g_new0(PhDomain, 1);
    domain->id = ph_cell_int64(rows, i, 0);
    domain->tenant_id = ph_cell_int64(rows, i, 1);
    domain->name = ph_cell_dup(rows, i, 2);
    domain->name_ascii = ph_cell_dup(rows, i, 3);
    domain->created_us = ph_cell_timestamp_us(rows, i, 4);
    domain->n_accounts = ph_cell_int64(rows, i, 5);
    return domain;
}

PhDomain *
ph_domain_find_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autofree char *utf8 = NULL;
    g_autofree char *ascii = NULL;
    if (!normalise_domain(name, &utf8, &ascii, error))
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &show_domain), ascii);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no domain \"%s\"", utf8);
        return NULL;
    }
    return domain_from_row(ph_batch_result(&batch, 0), 0);
}

static const PhListing domain_listing = {
    .read_item = domain_from_row,
    .free_item = (GDestroyNotify)ph_domain_free,
    .place = 2,
};

PhPage *
ph_domain_list_blocking(const PhListFilter *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter->text);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_domains);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    ph_param_int64(params, filter->tenant_id);
    return ph_page_read_blocking(lease, &batch, &domain_listing, limit, error);
}
