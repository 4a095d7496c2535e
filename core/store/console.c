/* console.c - who is logged in to the console, API keys, operators and tenants
 *
 * A session ends with its password: the version of its account or operator is compared each time.
 */
#include "store/internal.h"
#include "store/web.h"

#include <string.h>

void
ph_stored_login_free(PhStoredLogin *login)
{
    if (login == NULL)
        return;
    g_free(login->login);
    g_free(login->csrf);
    g_free(login->peer);
    g_free(login);
}

void
ph_api_key_free(PhApiKey *key)
{
    if (key == NULL)
        return;
    g_free(key->label);
    g_free(key->created_by);
    g_free(key);
}

void
ph_operator_free(PhOperator *operator)
{
    if (operator== NULL)
        return;
    g_free(operator->name);
    g_free(operator->tenant);
    g_free(operator);
}

void
ph_tenant_free(PhTenant *tenant)
{
    if (tenant == NULL)
        return;
    g_free(tenant->name);
    g_free(tenant);
}

/* -- sessions ---------------------------------------------------------------------------------- */

static const PhStatement add_session = {
    "console-session-add",
    "INSERT INTO console_session (token_hash, login, role, tenant_id, account_id, csrf, peer, version, expires_at)\n"
    "VALUES ($1::bytea, $2::text, $3::smallint, $4::bigint, $5::bigint, $6::text, $7::text, $8::bigint,\n"
    "        to_timestamp($9::bigint / 1000000.0))",
};

bool
ph_console_session_add_blocking(const uint8_t hash[PH_TOKEN_HASH_BYTES], const PhStoredLogin *login,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &add_session);
    ph_param_bytes(params, hash, PH_TOKEN_HASH_BYTES);
    ph_param_text(params, login->login);
    ph_param_int16(params, (int16_t)login->role);
    ph_param_int64(params, login->tenant_id);
    ph_param_int64(params, login->account_id);
    ph_param_text(params, login->csrf);
    ph_param_text(params, login->peer);
    ph_param_int64(params, login->version);
    ph_param_int64(params, login->expires_us);
    return ph_batch_run_blocking(lease, &batch, 0, error);
}

static const PhStatement find_session = {
    "console-session-find",
    "SELECT s.login, s.role, s.tenant_id, s.account_id, s.csrf, s.peer, s.version, s.expires_at\n"
    "FROM console_session s\n"
    "LEFT JOIN account c ON c.account_id = s.account_id AND s.account_id <> 0\n"
    "LEFT JOIN operator o ON o.name = s.login AND s.account_id = 0\n"
    "WHERE s.token_hash = $1::bytea AND s.expires_at > now()\n"
    "  AND (CASE WHEN s.account_id <> 0 THEN c.version = s.version AND c.state = 0\n"
    "            ELSE o.version = s.version AND o.tenant_id = s.tenant_id END)",
};

PhStoredLogin *
ph_console_session_find_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_bytes(ph_batch_add(&batch, &find_session), hash, PH_TOKEN_HASH_BYTES);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the session is over");
        return NULL;
    }
    PhStoredLogin *login = g_new0(PhStoredLogin, 1);
    login->login = ph_cell_dup(rows, 0, 0);
    login->role = ph_cell_int16(rows, 0, 1);
    login->tenant_id = ph_cell_int64(rows, 0, 2);
    login->account_id = ph_cell_int64(rows, 0, 3);
    login->csrf = ph_cell_dup(rows, 0, 4);
    login->peer = ph_cell_dup(rows, 0, 5);
    login->version = ph_cell_int64(rows, 0, 6);
    login->expires_us = ph_cell_timestamp_us(rows, 0, 7);
    return login;
}

static const PhStatement remove_session = {
    "console-session-remove",
    "DELETE FROM console_session WHERE token_hash = $1::bytea",
};

bool
ph_console_session_remove_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_bytes(ph_batch_add(&batch, &remove_session), hash, PH_TOKEN_HASH_BYTES);
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error);
}

static const PhStatement purge_sessions = {
    "console-session-purge",
    "DELETE FROM console_session WHERE expires_at <= now()",
};

bool
ph_console_session_purge_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &purge_sessions);
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error);
}

/* -- API keys ---------------------------------------------------------------------------------- */

/* timestamptz knows infinity; ph_cell_timestamp_us gives INT64_MAX for it. */
#define KEY_COLUMNS \
    "api_key_id, label, role, tenant_id, created_by, created_at, coalesce(used_at, '-infinity'), expires_at"

static PhApiKey *
key_from_row(const PGresult *rows, int i)
{
    PhApiKey *key = g_new0(PhApiKey, 1);
    key->id = ph_cell_int64(rows, i, 0);
    key->label = ph_cell_dup(rows, i, 1);
    key->role = ph_cell_int16(rows, i, 2);
    key->tenant_id = ph_cell_int64(rows, i, 3);
    key->created_by = ph_cell_dup(rows, i, 4);
    key->created_us = ph_cell_timestamp_us(rows, i, 5);
    key->used_us = ph_cell_timestamp_us(rows, i, 6);
    key->expires_us = ph_cell_timestamp_us(rows, i, 7);
    return key;
}

static const PhStatement add_key = {
    "api-key-add",
    "INSERT INTO api_key (key_hash, label, role, tenant_id, created_by, expires_at)\n"
    "VALUES ($1::bytea, $2::text, $3::smallint, $4::bigint, $5::text,\n"
    "        CASE WHEN $6::bigint = 9223372036854775807 THEN 'infinity' ELSE to_timestamp($6::bigint / 1000000.0) END)\n"
    "RETURNING api_key_id",
};

bool
ph_api_key_add_blocking(const uint8_t hash[PH_TOKEN_HASH_BYTES], const PhApiKey *key,
    int64_t deadline_us, int64_t *id_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &add_key);
    ph_param_bytes(params, hash, PH_TOKEN_HASH_BYTES);
    ph_param_text(params, key->label);
    ph_param_int16(params, (int16_t)key->role);
    ph_param_int64(params, key->tenant_id);
    ph_param_text(params, key->created_by);
    ph_param_int64(params, key->expires_us);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    *id_out = ph_cell_int64(ph_batch_result(&batch, 0), 0, 0);
    return true;
}

static const PhStatement find_key = {
    "api-key-find",
    "SELECT " KEY_COLUMNS " FROM api_key WHERE key_hash = $1::bytea AND expires_at > now()",
};

static const PhStatement note_key = {
    "api-key-used",
    "UPDATE api_key SET used_at = now()\n"
    "WHERE key_hash = $1::bytea AND (used_at IS NULL OR used_at < now() - interval '1 minute')",
};

PhApiKey *
ph_api_key_find_blocking(
    const uint8_t hash[PH_TOKEN_HASH_BYTES], int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_bytes(ph_batch_add(&batch, &find_key), hash, PH_TOKEN_HASH_BYTES);
    ph_param_bytes(ph_batch_add(&batch, &note_key), hash, PH_TOKEN_HASH_BYTES);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such API key");
        return NULL;
    }
    return key_from_row(ph_batch_result(&batch, 0), 0);
}

static const PhStatement list_keys = {
    "api-key-list",
    "SELECT " KEY_COLUMNS "\n"
    "FROM api_key\n"
    "WHERE api_key_id > $1::bigint AND ($2::text IS NULL OR label LIKE $2::text)\n"
    "ORDER BY api_key_id\n"
    "LIMIT $3::bigint",
};

PhPage *
ph_api_key_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_keys);
    ph_param_int64(params, after != NULL ? g_ascii_strtoll(after, NULL, 10) : 0);
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    PhPage *page = g_new0(PhPage, 1);
    page->items = g_ptr_array_new_with_free_func((GDestroyNotify)ph_api_key_free);
    for (int i = 0; i < PQntuples(rows); i++)
        g_ptr_array_add(page->items, key_from_row(rows, i));
    if (limit > 0 && page->items->len == limit) {
        const PhApiKey *last = page->items->pdata[page->items->len - 1];
        page->next = g_strdup_printf("%" G_GINT64_FORMAT, last->id);
    }
    return page;
}

static const PhStatement remove_key = {
    "api-key-remove",
    "DELETE FROM api_key WHERE api_key_id = $1::bigint",
};

bool
ph_api_key_remove_blocking(int64_t id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &remove_key), id);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no API key %" G_GINT64_FORMAT, id);
        return false;
    }
    return true;
}

/* -- operators --------------------------------------------------------------------------------- */

static const PhStatement list_operators = {
    "operator-list",
    "SELECT o.name, o.tenant_id, t.name, o.created_at\n"
    "FROM operator o JOIN tenant t ON t.tenant_id = o.tenant_id\n"
    "WHERE o.name > $1::text COLLATE \"C\" AND ($2::text IS NULL OR o.name LIKE $2::text)\n"
    "ORDER BY o.name\n"
    "LIMIT $3::bigint",
};

static void *
read_operator(const PGresult *rows, int i)
{
    PhOperator *operator= g_new0(PhOperator, 1);
    operator->name = ph_cell_dup(rows, i, 0);
    operator->tenant_id = ph_cell_int64(rows, i, 1);
    operator->tenant = ph_cell_dup(rows, i, 2);
    operator->created_us = ph_cell_timestamp_us(rows, i, 3);
    return operator;
}

static const PhListing operator_listing = {
    .read_item = read_operator,
    .free_item = (GDestroyNotify)ph_operator_free,
    .place = 0,
};

PhPage *
ph_operator_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_operators);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &operator_listing, limit, error);
}

/* -- tenants ----------------------------------------------------------------------------------- */

static const PhStatement list_tenants = {
    "tenant-list",
    "SELECT t.tenant_id, t.name, (SELECT count(*) FROM domain d WHERE d.tenant_id = t.tenant_id), t.created_at\n"
    "FROM tenant t\n"
    "WHERE t.name > $1::text AND ($2::text IS NULL OR t.name LIKE $2::text)\n"
    "ORDER BY t.name\n"
    "LIMIT $3::bigint",
};

static void *
read_tenant(const PGresult *rows, int i)
{
    PhTenant *tenant = g_new0(PhTenant, 1);
    tenant->id = ph_cell_int64(rows, i, 0);
    tenant->name = ph_cell_dup(rows, i, 1);
    tenant->n_domains = ph_cell_int64(rows, i, 2);
    tenant->created_us = ph_cell_timestamp_us(rows, i, 3);
    return tenant;
}

static const PhListing tenant_listing = {
    .read_item = read_tenant,
    .free_item = (GDestroyNotify)ph_tenant_free,
    .place = 1,
};

PhPage *
ph_tenant_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_tenants);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &tenant_listing, limit, error);
}

static const PhStatement find_tenant = {
    "tenant-find",
    "SELECT tenant_id FROM tenant WHERE name = $1::text",
};

bool
ph_tenant_find_blocking(const char *name, int64_t deadline_us, int64_t *id_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &find_tenant), name);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no tenant \"%s\"", name);
        return false;
    }
    *id_out = ph_cell_int64(ph_batch_result(&batch, 0), 0, 0);
    return true;
}

static const PhStatement remove_tenant = {
    "tenant-remove",
    "DELETE FROM tenant WHERE name = $1::text AND tenant_id <> 0",
};

bool
ph_tenant_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &remove_tenant), name);
    g_autoptr(GError) cause = NULL;
    if (!ph_batch_run_blocking(lease, &batch, 0, &cause)) {
        if (ph_error_code(cause) == PH_ERROR_CONFLICT)
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
                "tenant \"%s\" still has domains, sites, scripts, operators or API keys", name);
        else
            g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    if (ph_batch_affected(&batch, 0) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no tenant \"%s\" to remove", name);
        return false;
    }
    return true;
}
