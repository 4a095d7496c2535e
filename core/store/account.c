/* account.c - accounts: made with their mailboxes, found, listed, suspended, closed, erased
 *
 * Hard here: an address is given out once. The row of `address` is the one place where that is
 * decided, by its primary key, for accounts and aliases alike.
 */
#include "store/internal.h"

#include <string.h>

void
ph_account_free(PhAccount *account)
{
    if (account == NULL)
        return;
    g_free(account->address);
    g_free(account->display_name);
    g_free(account);
}

/* -- making ------------------------------------------------------------------------------------ */

static const PhStatement add_account = {
    "account-add",
    "WITH place AS (\n"
    "    SELECT domain_id, tenant_id FROM domain WHERE name_ascii = $2::text FOR KEY SHARE\n"
    "), made AS (\n"
    "    INSERT INTO account (domain_id, tenant_id, address, display_name)\n"
    "    SELECT domain_id, tenant_id, $3::text, $4::text FROM place\n"
    "    RETURNING account_id, domain_id\n"
    "), named AS (\n"
    "    INSERT INTO address (domain_id, local_part, kind, account_id)\n"
    "    SELECT domain_id, $1::text, 0, account_id FROM made\n"
    ")\n"
    "SELECT account_id FROM made",
};

static const PhStatement add_usage = { "account-usage",
    "INSERT INTO usage (account_id) VALUES ($1::bigint)" };

static const PhStatement add_credential = {
    "account-credential",
    "INSERT INTO credential (account_id, kind, verifier, label, created_us, last_used_us, expires_us)\n"
    "VALUES ($1::bigint, 0, $2::text, '', $3::bigint, $4::bigint, $5::bigint)",
};

static void
explain_conflict(const PhAddressKey *key, GError *cause, GError **error)
{
    if (ph_error_code(cause) != PH_ERROR_CONFLICT) {
        g_propagate_error(error, cause);
        return;
    }
    g_error_free(cause);
    g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "address \"%s\" is in use", key->whole);
}

PH_IN_JOB static bool
fill_account(PhLease *lease, int64_t account_id, const char *verifier, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &add_usage), account_id);
    if (verifier != NULL) {
        PhParams *params = ph_batch_add(&batch, &add_credential);
        ph_param_int64(params, account_id);
        ph_param_text(params, verifier);
        ph_param_int64(params, ph_time_now_us());
        ph_param_int64(params, INT64_MIN);
        ph_param_int64(params, INT64_MAX);
    }
    ph_mailbox_add_standard(&batch, account_id);
    ph_batch_add(&batch, &ph_sql_commit);
    return ph_batch_run_blocking(lease, &batch, 0, error);
}

bool
ph_account_add_blocking(const char *address, const char *display_name, const char *verifier,
    int64_t deadline_us, int64_t *account_id_out, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(address, error);
    if (key == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &add_account);
    ph_param_text(params, key->local);
    ph_param_text(params, key->domain_ascii);
    ph_param_text(params, key->whole);
    ph_param_text(params, display_name != NULL ? display_name : "");
    GError *local = NULL;
    if (!ph_batch_run_blocking(lease, &batch, 0, &local)) {
        explain_conflict(key, local, error);
        return false;
    }
    const PGresult *rows = ph_batch_result(&batch, 1);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "the domain of \"%s\" is not one of this installation", key->whole);
        return false;
    }
    int64_t account_id = ph_cell_int64(rows, 0, 0);
    if (!fill_account(lease, account_id, verifier, error))
        return false;
    if (account_id_out != NULL)
        *account_id_out = account_id;
    return true;
}

/* -- reading ----------------------------------------------------------------------------------- */

#define ACCOUNT_COLUMNS \
    "c.account_id, c.domain_id, c.tenant_id, c.address, c.display_name, c.state, c.version, c.created_at,\n" \
    "       coalesce(u.quota_bytes, 0), coalesce(u.quota_messages, 0), coalesce(u.bytes, 0), coalesce(u.messages, 0)"

PhAccount *
ph_account_from_row(const PGresult *rows, int i)
{
    PhAccount *account = g_new0(PhAccount, 1);
    account->id = ph_cell_int64(rows, i, 0);
    account->domain_id = ph_cell_int64(rows, i, 1);
    account->tenant_id = ph_cell_int64(rows, i, 2);
    account->address = ph_cell_dup(rows, i, 3);
    account->display_name = ph_cell_dup(rows, i, 4);
    account->state = (PhAccountState)ph_cell_int16(rows, i, 5);
    account->version = ph_cell_int64(rows, i, 6);
    account->created_us = ph_cell_timestamp_us(rows, i, 7);
    account->quota_bytes = ph_cell_int64(rows, i, 8);
    account->quota_messages = ph_cell_int64(rows, i, 9);
    account->used_bytes = ph_cell_int64(rows, i, 10);
    account->used_messages = ph_cell_int64(rows, i, 11);
    return account;
}

const PhStatement ph_sql_find_account = {
    "account-find",
    "SELECT " ACCOUNT_COLUMNS "\n"
    "FROM domain d\n"
    "JOIN address a ON a.domain_id = d.domain_id AND a.local_part = $1::text\n"
    "JOIN account c ON c.account_id = a.account_id\n"
    "LEFT JOIN usage u ON u.account_id = c.account_id\n"
    "WHERE d.name_ascii = $2::text AND c.state < 3",
};

PhAccount *
ph_account_find_blocking(const char *address, int64_t deadline_us, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(address, error);
    if (key == NULL)
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &ph_sql_find_account);
    ph_param_text(params, key->local);
    ph_param_text(params, key->domain_ascii);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account \"%s\"", key->whole);
        return NULL;
    }
    return ph_account_from_row(rows, 0);
}

static const PhStatement list_accounts = {
    "account-list",
    "SELECT " ACCOUNT_COLUMNS "\n"
    "FROM account c\n"
    "LEFT JOIN usage u ON u.account_id = c.account_id\n"
    "WHERE c.address > $1::text COLLATE \"C\" AND c.state < 3\n"
    "  AND ($2::text IS NULL OR c.domain_id = (SELECT domain_id FROM domain WHERE name_ascii = $2::text))\n"
    "  AND ($3::text IS NULL OR c.address LIKE $3::text OR c.display_name ILIKE $3::text)\n"
    "  AND ($5::bigint = 0 OR c.tenant_id = $5::bigint)\n"
    "  AND ($6::bigint = 0 OR $6::bigint & (1 << c.state) <> 0)\n"
    "ORDER BY c.address\n"
    "LIMIT $4::bigint",
};

static void *
read_account(const PGresult *rows, int i)
{
    return ph_account_from_row(rows, i);
}

static const PhListing account_listing = {
    .read_item = read_account,
    .free_item = (GDestroyNotify)ph_account_free,
    .place = 3,
};

PhPage *
ph_account_list_blocking(const PhListFilter *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autofree char *ascii = NULL;
    if (filter->domain != NULL && (ascii = ph_domain_key(filter->domain, error)) == NULL)
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter->text);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_accounts);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, ascii);
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    ph_param_int64(params, filter->tenant_id);
    ph_param_int64(params, filter->states);
    return ph_page_read_blocking(lease, &batch, &account_listing, limit, error);
}

/* -- changing ---------------------------------------------------------------------------------- */

static const PhStatement set_state = {
    "account-state",
    "UPDATE account SET state = $2::smallint, version = version + 1\n"
    "WHERE account_id = $1::bigint AND (state < 3 OR $2::smallint = 3)",
};

/* The lock on this row waits for deliveries under way; later ones see it. */
static const PhStatement set_receives = {
    "account-receives",
    "UPDATE usage SET receives = $2::boolean WHERE account_id = $1::bigint",
};

static const PhStatement erase_credentials = {
    "account-erase-credentials",
    "DELETE FROM credential WHERE account_id = $1::bigint",
};

static const PhStatement erase_names = {
    "account-erase-names",
    "WITH subscriptions AS (DELETE FROM subscription WHERE account_id = $1::bigint),\n"
    "     memory AS (DELETE FROM mailbox_name_memory WHERE account_id = $1::bigint)\n"
    "UPDATE account SET display_name = '' WHERE account_id = $1::bigint",
};

static const PhStatement lock_all_states = {
    "account-lock-states",
    "SELECT mailbox_id FROM mailbox_state WHERE account_id = $1::bigint ORDER BY mailbox_id FOR UPDATE",
};

static const PhStatement erase_mailboxes = {
    "account-erase-mailboxes",
    "WITH changes AS (DELETE FROM mailbox_change WHERE account_id = $1::bigint)\n"
    "DELETE FROM mailbox WHERE account_id = $1::bigint\n"
    "RETURNING mailbox_id",
};

static const PhStatement erase_memberships = {
    "account-erase-memberships",
    "DELETE FROM mailbox_message WHERE account_id = $1::bigint",
};

static const PhStatement erase_expunged = {
    "account-erase-expunged",
    "DELETE FROM expunged WHERE account_id = $1::bigint",
};

static const PhStatement erase_usage = {
    "account-erase-usage",
    "DELETE FROM usage WHERE account_id = $1::bigint",
};

/* In pieces: nobody refers to these messages any more, and one transaction need not be long. */
static const PhStatement erase_some_messages = {
    "account-erase-messages",
    "WITH part AS (\n"
    "    SELECT message_id FROM message WHERE account_id = $1::bigint ORDER BY message_id LIMIT 500\n"
    "), bodies AS (\n"
    "    DELETE FROM blob WHERE account_id = $1::bigint AND message_id IN (SELECT message_id FROM part)\n"
    ")\n"
    "DELETE FROM message WHERE account_id = $1::bigint AND message_id IN (SELECT message_id FROM part)",
};

PH_IN_JOB static bool
erase_data(PhLease *lease, int64_t account_id, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    const PhStatement *const steps[] = {
        &lock_all_states,
        &erase_credentials,
        &erase_names,
        &erase_memberships,
        &erase_expunged,
        &erase_mailboxes,
        &erase_usage,
    };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
        ph_param_int64(ph_batch_add(&batch, steps[i]), account_id);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *gone = ph_batch_result(&batch, 6);
    for (int i = 0; i < PQntuples(gone); i++)
        ph_views_gone((PhMailboxKey){ account_id, ph_cell_int64(gone, i, 0) });
    for (int64_t n = 1; n > 0;) {
        ph_batch_restart(&batch);
        ph_param_int64(ph_batch_add(&batch, &erase_some_messages), account_id);
        if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
            return false;
        n = ph_batch_affected(&batch, 0);
    }
    return true;
}

static const PhStatement find_unerased = {
    "account-unerased",
    "SELECT a.account_id FROM account a\n"
    "WHERE a.state = 3\n"
    "  AND (EXISTS (SELECT FROM usage u WHERE u.account_id = a.account_id)\n"
    "       OR EXISTS (SELECT FROM message m WHERE m.account_id = a.account_id))\n"
    "ORDER BY a.account_id\n"
    "LIMIT 100",
};

bool
ph_account_erase_rest_blocking(int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &find_unerased);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    for (int i = 0; i < PQntuples(rows); i++)
        if (!erase_data(lease, ph_cell_int64(rows, i, 0), error))
            return false;
    return true;
}

bool
ph_account_set_state_blocking(
    int64_t account_id, PhAccountState state, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    bool receives = state == PH_ACCOUNT_ACTIVE || state == PH_ACCOUNT_SUSPENDED;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &set_state);
    ph_param_int64(params, account_id);
    ph_param_int16(params, (int16_t)state);
    params = ph_batch_add(&batch, &set_receives);
    ph_param_int64(params, account_id);
    ph_param_bool(params, receives);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 1) == 0) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account %" G_GINT64_FORMAT, account_id);
        return false;
    }
    ph_notifier_tell(PH_NEWS_ACCOUNT, account_id);
    return state != PH_ACCOUNT_ERASED || erase_data(lease, account_id, error);
}

static const PhStatement change_account = {
    "account-change",
    "WITH changed AS (\n"
    "    UPDATE account SET display_name = coalesce($2::text, display_name), version = version + 1\n"
    "    WHERE account_id = $1::bigint AND state < 3 AND ($3::bigint < 0 OR version = $3::bigint)\n"
    "    RETURNING account_id, version\n"
    "), kept AS (\n" /* a new name or quota logs nobody out */
    "    UPDATE console_session s SET version = c.version\n"
    "    FROM changed c WHERE s.account_id = c.account_id AND s.version = c.version - 1\n"
    ")\n"
    "SELECT account_id FROM changed",
};

static const PhStatement set_quota = {
    "account-quota",
    "UPDATE usage\n"
    "SET quota_bytes = CASE WHEN $2::bigint < 0 THEN quota_bytes ELSE $2::bigint END,\n"
    "    quota_messages = CASE WHEN $3::bigint < 0 THEN quota_messages ELSE $3::bigint END\n"
    "WHERE account_id = $1::bigint",
};

bool
ph_account_change_blocking(
    int64_t account_id, const PhAccountChange *change, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &change_account);
    ph_param_int64(params, account_id);
    ph_param_text(params, change->display_name);
    ph_param_int64(params, change->if_version);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (PQntuples(ph_batch_result(&batch, 1)) == 0) {
        if (change->if_version < 0)
            g_set_error(
                error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account %" G_GINT64_FORMAT, account_id);
        else
            g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "the account was changed meanwhile");
        return false;
    }
    ph_batch_restart(&batch);
    params = ph_batch_add(&batch, &set_quota);
    ph_param_int64(params, account_id);
    ph_param_int64(params, change->quota_bytes);
    ph_param_int64(params, change->quota_messages);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    ph_notifier_tell(PH_NEWS_ACCOUNT, account_id);
    return true;
}
