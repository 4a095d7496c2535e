/* login.c - credentials of accounts and operators
 *
 * Every change raises the version of its account or operator in the same transaction, so that a
 * cache that compares versions can never be right for long with an old password.
 */
#include "store/internal.h"

#include <string.h>

void
ph_credential_free(PhCredential *credential)
{
    if (credential == NULL)
        return;
    if (credential->verifier != NULL)
        ph_wipe(credential->verifier, strlen(credential->verifier));
    g_free(credential->verifier);
    g_free(credential->label);
    g_free(credential);
}

void
ph_login_record_free(PhLoginRecord *record)
{
    if (record == NULL)
        return;
    ph_account_free(record->account);
    g_free(record->operator_name);
    g_clear_pointer(&record->credentials, g_ptr_array_unref);
    g_free(record);
}

/* -- reading ----------------------------------------------------------------------------------- */

static const PhStatement find_credentials = {
    "login-credentials",
    "SELECT k.credential_id, k.kind, k.verifier, k.label, k.created_us, k.last_used_us, k.expires_us\n"
    "FROM domain d\n"
    "JOIN address a ON a.domain_id = d.domain_id AND a.local_part = $1::text\n"
    "JOIN credential k ON k.account_id = a.account_id\n"
    "WHERE d.name_ascii = $2::text\n"
    "ORDER BY k.kind, k.credential_id",
};

static const PhStatement find_operator = {
    "login-operator",
    "SELECT name, verifier, version, tenant_id FROM operator WHERE name = $1::text",
};

static PhLoginRecord *
record_new(void)
{
    PhLoginRecord *record = g_new0(PhLoginRecord, 1);
    record->credentials = g_ptr_array_new_with_free_func((GDestroyNotify)ph_credential_free);
    return record;
}

static PhLoginRecord *
not_found(const char *login, GError **error)
{
    g_autofree char *shown = g_strndup(login, 100);
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no login \"%s\"", shown);
    return NULL;
}

PH_IN_JOB static PhLoginRecord *
read_account(PhLease *lease, const char *login, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(login, NULL);
    if (key == NULL)
        return not_found(login, error);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin_snapshot);
    const PhStatement *const steps[] = { &ph_sql_find_account, &find_credentials };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        PhParams *params = ph_batch_add(&batch, steps[i]);
        ph_param_text(params, key->local);
        ph_param_text(params, key->domain_ascii);
    }
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 1)) == 0)
        return not_found(login, error);
    PhLoginRecord *record = record_new();
    record->account = ph_account_from_row(ph_batch_result(&batch, 1), 0);
    record->version = record->account->version;
    const PGresult *rows = ph_batch_result(&batch, 2);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhCredential *credential = g_new0(PhCredential, 1);
        credential->id = ph_cell_int64(rows, i, 0);
        credential->kind = (PhCredentialKind)ph_cell_int16(rows, i, 1);
        credential->verifier = ph_cell_dup(rows, i, 2);
        credential->label = ph_cell_dup(rows, i, 3);
        credential->created_us = ph_cell_int64(rows, i, 4);
        credential->last_used_us = ph_cell_int64(rows, i, 5);
        credential->expires_us = ph_cell_int64(rows, i, 6);
        g_ptr_array_add(record->credentials, credential);
    }
    return record;
}

PH_IN_JOB static PhLoginRecord *
read_operator(PhLease *lease, const char *login, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &find_operator), login);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0)
        return not_found(login, error);
    PhLoginRecord *record = record_new();
    record->operator_name = ph_cell_dup(rows, 0, 0);
    record->version = ph_cell_int64(rows, 0, 2);
    record->operator_tenant_id = ph_cell_int64(rows, 0, 3);
    PhCredential *credential = g_new0(PhCredential, 1);
    credential->id = 1; /* its only one; 0 would be none */
    credential->kind = PH_CREDENTIAL_PASSWORD;
    credential->verifier = ph_cell_dup(rows, 0, 1);
    credential->label = g_strdup("");
    credential->last_used_us = INT64_MIN;
    credential->expires_us = INT64_MAX;
    g_ptr_array_add(record->credentials, credential);
    return record;
}

/* What cannot be text in the database cannot be a login there. */
static bool
is_plausible(const char *login)
{
    return g_utf8_validate(login, -1, NULL) && strlen(login) <= 320;
}

PhLoginRecord *
ph_login_record_blocking(const char *login, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    if (!is_plausible(login))
        return not_found(login, error);
    return strchr(login, '@') != NULL ? read_account(lease, login, error)
                                      : read_operator(lease, login, error);
}

/* -- passwords --------------------------------------------------------------------------------- */

static const PhStatement raise_by_address = {
    "login-raise",
    "UPDATE account c SET version = version + 1\n"
    "FROM domain d, address a\n"
    "WHERE d.name_ascii = $2::text AND a.domain_id = d.domain_id AND a.local_part = $1::text\n"
    "  AND c.account_id = a.account_id AND c.state < 3\n"
    "RETURNING c.account_id",
};

static const PhStatement put_password = {
    "login-password",
    "INSERT INTO credential (account_id, kind, verifier, label, created_us, last_used_us, expires_us)\n"
    "VALUES ($1::bigint, 0, $2::text, '', $3::bigint, $4::bigint, $5::bigint)\n"
    "ON CONFLICT (account_id) WHERE kind = 0 DO UPDATE\n"
    "SET verifier = excluded.verifier, created_us = excluded.created_us",
};

static const PhStatement put_operator_password = {
    "login-operator-password",
    "UPDATE operator SET verifier = $2::text, version = version + 1 WHERE name = $1::text",
};

PH_IN_JOB static bool
set_account_password(PhLease *lease, const char *login, const char *verifier, GError **error)
{
    g_autoptr(PhAddressKey) key = ph_address_key_new(login, error);
    if (key == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &raise_by_address);
    ph_param_text(params, key->local);
    ph_param_text(params, key->domain_ascii);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (PQntuples(ph_batch_result(&batch, 1)) == 0) {
        not_found(login, error);
        return false;
    }
    int64_t account_id = ph_cell_int64(ph_batch_result(&batch, 1), 0, 0);
    ph_batch_restart(&batch);
    params = ph_batch_add(&batch, &put_password);
    ph_param_int64(params, account_id);
    ph_param_text(params, verifier);
    ph_param_int64(params, ph_time_now_us());
    ph_param_int64(params, INT64_MIN);
    ph_param_int64(params, INT64_MAX);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    ph_notifier_tell(PH_NEWS_ACCOUNT, account_id);
    return true;
}

PH_IN_JOB static bool
set_operator_password(PhLease *lease, const char *login, const char *verifier, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &put_operator_password);
    ph_param_text(params, login);
    ph_param_text(params, verifier);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        not_found(login, error);
        return false;
    }
    ph_notifier_tell(PH_NEWS_OPERATOR, 0);
    return true;
}

bool
ph_password_set_blocking(
    const char *login, const char *verifier, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    return strchr(login, '@') != NULL ? set_account_password(lease, login, verifier, error)
                                      : set_operator_password(lease, login, verifier, error);
}

/* -- app passwords ----------------------------------------------------------------------------- */

static const PhStatement add_app = {
    "login-app-add",
    "INSERT INTO credential (account_id, kind, verifier, label, created_us, last_used_us, expires_us)\n"
    "SELECT account_id, 1, $2::text, $3::text, $4::bigint, $5::bigint, $6::bigint\n"
    "FROM account WHERE account_id = $1::bigint AND state < 3\n"
    "RETURNING credential_id",
};

static const PhStatement remove_app = {
    "login-app-remove",
    "DELETE FROM credential WHERE account_id = $1::bigint AND credential_id = $2::bigint AND kind = 1",
};

/* Who is logged in to the console stays so: his own password is as it was. */
static const PhStatement raise_by_id = {
    "login-raise-id",
    "WITH raised AS (\n"
    "    UPDATE account SET version = version + 1 WHERE account_id = $1::bigint\n"
    "    RETURNING account_id, version)\n"
    "UPDATE console_session s SET version = r.version\n"
    "FROM raised r\n"
    "WHERE s.account_id = r.account_id AND s.version = r.version - 1",
};

bool
ph_app_password_add_blocking(int64_t account_id, const char *label, const char *verifier,
    int64_t expires_us, int64_t deadline_us, int64_t *id_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_int64(ph_batch_add(&batch, &raise_by_id), account_id);
    PhParams *params = ph_batch_add(&batch, &add_app);
    ph_param_int64(params, account_id);
    ph_param_text(params, verifier);
    ph_param_text(params, label != NULL ? label : "");
    ph_param_int64(params, ph_time_now_us());
    ph_param_int64(params, INT64_MIN);
    ph_param_int64(params, expires_us);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 2);
    if (PQntuples(rows) == 0) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account %" G_GINT64_FORMAT, account_id);
        return false;
    }
    ph_notifier_tell(PH_NEWS_ACCOUNT, account_id);
    if (id_out != NULL)
        *id_out = ph_cell_int64(rows, 0, 0);
    return true;
}

bool
ph_app_password_remove_blocking(int64_t account_id, int64_t id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, &remove_app);
    ph_param_int64(params, account_id);
    ph_param_int64(params, id);
    ph_param_int64(ph_batch_add(&batch, &raise_by_id), account_id);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 1) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no app password %" G_GINT64_FORMAT, id);
        return false;
    }
    ph_notifier_tell(PH_NEWS_ACCOUNT, account_id);
    return true;
}

static const PhStatement mark_used = {
    "login-used",
    "UPDATE credential SET last_used_us = greatest(last_used_us, $3::bigint)\n"
    "WHERE account_id = $1::bigint AND credential_id = $2::bigint",
};

bool
ph_credential_used_blocking(
    int64_t account_id, int64_t credential_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &mark_used);
    ph_param_int64(params, account_id);
    ph_param_int64(params, credential_id);
    ph_param_int64(params, ph_time_now_us());
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error);
}

/* -- operators --------------------------------------------------------------------------------- */

static const PhStatement add_operator = {
    "operator-add",
    "INSERT INTO operator (name, verifier, tenant_id) VALUES ($1::text, $2::text, $3::bigint) ON CONFLICT DO NOTHING",
};

/* Another operator of this name must not find its sessions. */
static const PhStatement remove_operator = {
    "operator-remove",
    "WITH sessions AS (DELETE FROM console_session WHERE login = $1::text AND account_id = 0)\n"
    "DELETE FROM operator WHERE name = $1::text",
};

static bool
is_operator_name(const char *name)
{
    size_t length = strlen(name);
    return length >= 1 && length <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length;
}

bool
ph_operator_add_blocking(
    const char *name, const char *verifier, int64_t tenant_id, int64_t deadline_us, GError **error)
{
    if (!is_operator_name(name)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "an operator's name has 1 to 64 letters, digits, dots, dashes or underscores");
        return false;
    }
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &add_operator);
    ph_param_text(params, name);
    ph_param_text(params, verifier);
    ph_param_int64(params, tenant_id);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "operator \"%s\" exists", name);
        return false;
    }
    return true;
}

bool
ph_operator_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &remove_operator), name);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no operator \"%s\"", name);
        return false;
    }
    ph_notifier_tell(PH_NEWS_OPERATOR, 0);
    return true;
}
