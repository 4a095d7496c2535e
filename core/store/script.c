/* script.c - scripts and their versions
 *
 * The row of script_counter is locked by each change, first: so changes are ordered, and a node
 * that reads the counter with the scripts in one snapshot knows what it has.
 */
#include "store/script.h"

#include "store/internal.h"

#include <string.h>

const char *
ph_script_scope_name(PhScriptScope scope)
{
    static const char *const names[] = {
        [PH_SCRIPT_GLOBAL] = "global",
        [PH_SCRIPT_TENANT] = "tenant",
        [PH_SCRIPT_DOMAIN] = "domain",
        [PH_SCRIPT_SITE] = "site",
    };
    return names[scope];
}

void
ph_stored_script_free(PhStoredScript *script)
{
    if (script == NULL)
        return;
    g_free(script->name);
    g_free(script->scope_name);
    g_free(script->hooks);
    g_free(script->changed_by);
    g_free(script->text);
    g_free(script->error_text);
    g_free(script->error_hook);
    g_free(script->error_input);
    g_free(script);
}

void
ph_script_version_free(PhScriptVersion *version)
{
    if (version == NULL)
        return;
    g_free(version->by);
    g_free(version->note);
    g_free(version);
}

/* -- reading ----------------------------------------------------------------------------------- */

#define SCRIPT_COLUMNS \
    "s.script_id, s.tenant_id, s.name, s.scope, s.scope_id, s.sort_order,\n" \
    "       coalesce(s.active_version, 0), s.newest_version, s.hooks, s.version, s.changed_at,\n" \
    "       s.changed_by,\n" \
    "       CASE s.scope WHEN 1 THEN (SELECT t.name FROM tenant t WHERE t.tenant_id = s.scope_id)\n" \
    "                    WHEN 2 THEN (SELECT d.name_ascii FROM domain d WHERE d.domain_id = s.scope_id)\n" \
    "                    WHEN 3 THEN (SELECT w.name FROM site w WHERE w.site_id = s.scope_id) END,\n" \
    "       e.message, e.line, e.hook, e.input, e.at"

static void *
script_from_row(const PGresult *rows, int i)
{
    PhStoredScript *script = g_new0(PhStoredScript, 1);
    script->id = ph_cell_int64(rows, i, 0);
    script->tenant_id = ph_cell_int64(rows, i, 1);
    script->name = ph_cell_dup(rows, i, 2);
    script->scope = (PhScriptScope)ph_cell_int16(rows, i, 3);
    script->scope_id = ph_cell_int64(rows, i, 4);
    script->order = ph_cell_int32(rows, i, 5);
    script->active_version = ph_cell_int32(rows, i, 6);
    script->newest_version = ph_cell_int32(rows, i, 7);
    script->hooks = ph_cell_dup(rows, i, 8);
    script->version = ph_cell_int64(rows, i, 9);
    script->changed_us = ph_cell_timestamp_us(rows, i, 10);
    script->changed_by = ph_cell_dup(rows, i, 11);
    script->scope_name = ph_cell_dup(rows, i, 12);
    if (!PQgetisnull(rows, i, 13)) {
        script->error_text = ph_cell_dup(rows, i, 13);
        script->error_line = ph_cell_int32(rows, i, 14);
        script->error_hook = ph_cell_dup(rows, i, 15);
        script->error_input = ph_cell_dup(rows, i, 16);
        script->error_us = ph_cell_timestamp_us(rows, i, 17);
    }
    return script;
}

/* The two columns behind SCRIPT_COLUMNS. */
static void
take_text(PhStoredScript *script, const PGresult *rows, int i)
{
    script->text_version = ph_cell_int32(rows, i, 18);
    script->text = ph_cell_dup(rows, i, 19);
}

static const PhStatement read_counter = { "script-counter", "SELECT counter FROM script_counter" };

bool
ph_script_counter_blocking(int64_t deadline_us, int64_t *counter_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &read_counter);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    *counter_out = ph_cell_int64(ph_batch_result(&batch, 0), 0, 0);
    return true;
}

static const PhStatement read_active = {
    "script-active",
    "SELECT " SCRIPT_COLUMNS ", v.version, v.text\n"
    "FROM script s\n"
    "JOIN script_version v ON v.script_id = s.script_id AND v.version = s.active_version\n"
    "LEFT JOIN script_error e ON e.script_id = s.script_id\n"
    "ORDER BY s.name",
};

GPtrArray *
ph_scripts_active_blocking(int64_t deadline_us, int64_t *counter_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin_snapshot);
    ph_batch_add(&batch, &read_counter);
    ph_batch_add(&batch, &read_active);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    *counter_out = ph_cell_int64(ph_batch_result(&batch, 1), 0, 0);
    const PGresult *rows = ph_batch_result(&batch, 2);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_stored_script_free);
    for (int i = 0; i < PQntuples(rows); i++) {
        PhStoredScript *script = script_from_row(rows, i);
        take_text(script, rows, i);
        g_ptr_array_add(list, script);
    }
    return list;
}

static const PhStatement list_scripts = {
    "script-list",
    "SELECT " SCRIPT_COLUMNS "\n"
    "FROM script s\n"
    "LEFT JOIN script_error e ON e.script_id = s.script_id\n"
    "WHERE ($1::bigint < 0 OR (s.tenant_id = $1::bigint AND s.scope <> 0))\n"
    "  AND s.name > $2::text COLLATE \"C\"\n"
    "  AND ($3::text IS NULL OR s.name LIKE $3::text OR s.hooks LIKE $3::text)\n"
    "ORDER BY s.name\n"
    "LIMIT $4::bigint",
};

static const PhListing script_listing = {
    .read_item = script_from_row,
    .free_item = (GDestroyNotify)ph_stored_script_free,
    .place = 2,
};

PhPage *
ph_script_list_blocking(int64_t tenant_id, const char *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_scripts);
    ph_param_int64(params, tenant_id);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &script_listing, limit, error);
}

static const PhStatement find_script = {
    "script-find",
    "SELECT " SCRIPT_COLUMNS ", v.version, v.text\n"
    "FROM script s\n"
    "LEFT JOIN script_version v ON v.script_id = s.script_id\n"
    "     AND v.version = CASE WHEN $2::integer > 0 THEN $2::integer\n"
    "                          ELSE coalesce(s.active_version, s.newest_version) END\n"
    "LEFT JOIN script_error e ON e.script_id = s.script_id\n"
    "WHERE s.name = $1::text",
};

PhStoredScript *
ph_script_find_blocking(const char *name, int version, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &find_script);
    ph_param_text(params, name);
    ph_param_int32(params, version);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no script \"%s\"", name);
        return NULL;
    }
    if (PQgetisnull(rows, 0, 18)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_NOT_FOUND, "script \"%s\" has no version %d", name, version);
        return NULL;
    }
    PhStoredScript *script = script_from_row(rows, 0);
    take_text(script, rows, 0);
    return script;
}

static const PhStatement list_versions = {
    "script-versions",
    "SELECT v.version, v.made_at, v.made_by, v.note,\n"
    "       coalesce(v.version = s.active_version, false), octet_length(v.text)::bigint,\n"
    "       v.version::text\n"
    "FROM script_version v\n"
    "JOIN script s ON s.script_id = v.script_id\n"
    "WHERE v.script_id = $1::bigint AND ($2::integer = 0 OR v.version < $2::integer)\n"
    "ORDER BY v.version DESC\n"
    "LIMIT $3::bigint",
};

static void *
read_version(const PGresult *rows, int i)
{
    PhScriptVersion *version = g_new0(PhScriptVersion, 1);
    version->version = ph_cell_int32(rows, i, 0);
    version->at_us = ph_cell_timestamp_us(rows, i, 1);
    version->by = ph_cell_dup(rows, i, 2);
    version->note = ph_cell_dup(rows, i, 3);
    version->is_active = ph_cell_bool(rows, i, 4);
    version->bytes = ph_cell_int64(rows, i, 5);
    return version;
}

static const PhListing version_listing = {
    .read_item = read_version,
    .free_item = (GDestroyNotify)ph_script_version_free,
    .place = 6,
};

PhPage *
ph_script_versions_blocking(
    int64_t script_id, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    guint64 before = 0;
    if (after != NULL && !g_ascii_string_to_unsigned(after, 10, 1, INT32_MAX, &before, NULL)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"after\" is a version's number");
        return NULL;
    }
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_versions);
    ph_param_int64(params, script_id);
    ph_param_int32(params, (int32_t)before);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &version_listing, limit, error);
}

static const PhStatement find_tenant = {
    "script-tenant",
    "SELECT tenant_id, tenant_id FROM tenant WHERE name = $1::text",
};

static const PhStatement find_domain = {
    "script-domain",
    "SELECT domain_id, tenant_id FROM domain WHERE name_ascii = $1::text",
};

static const PhStatement find_site = {
    "script-site",
    "SELECT site_id, tenant_id FROM site WHERE name = $1::text",
};

bool
ph_script_scope_find_blocking(PhScriptScope scope, const char *name, int64_t deadline_us,
    int64_t *id_out, int64_t *tenant_id_out, GError **error)
{
    static const PhStatement *const statements[] = {
        [PH_SCRIPT_TENANT] = &find_tenant,
        [PH_SCRIPT_DOMAIN] = &find_domain,
        [PH_SCRIPT_SITE] = &find_site,
    };
    g_assert(scope != PH_SCRIPT_GLOBAL);
    g_autofree char *domain = scope == PH_SCRIPT_DOMAIN ? ph_domain_key(name, error) : NULL;
    if (scope == PH_SCRIPT_DOMAIN && domain == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, statements[scope]), domain != NULL ? domain : name);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_NOT_FOUND, "no %s \"%s\"", ph_script_scope_name(scope), name);
        return false;
    }
    *id_out = ph_cell_int64(rows, 0, 0);
    *tenant_id_out = ph_cell_int64(rows, 0, 1);
    return true;
}

/* -- changing ---------------------------------------------------------------------------------- */

static const PhStatement raise_counter = {
    "script-raise",
    "UPDATE script_counter SET counter = counter + 1 RETURNING counter",
};

/* For another node the word is the same as for settings: look again. */
static void
tell(void)
{
    ph_notifier_tell(PH_NEWS_SETTINGS, 1);
}

static const PhStatement add_script = {
    "script-add",
    "INSERT INTO script (tenant_id, name, scope, scope_id, sort_order, changed_by)\n"
    "VALUES ($1::bigint, $2::text, $3::smallint, $4::bigint, $5::integer, $6::text)\n"
    "ON CONFLICT (name) DO NOTHING\n"
    "RETURNING script_id",
};

static const PhStatement lock_script = {
    "script-lock",
    "SELECT version FROM script WHERE script_id = $1::bigint FOR UPDATE",
};

static const PhStatement add_version = {
    "script-version-add",
    "INSERT INTO script_version (script_id, version, text, hooks, note, made_by)\n"
    "SELECT s.script_id, s.newest_version + 1, $2::text, $3::text, $4::text, $5::text\n"
    "FROM script s\n"
    "WHERE s.script_id = $1::bigint\n"
    "  AND NOT EXISTS (SELECT FROM script_version v\n"
    "                  WHERE v.script_id = s.script_id AND v.version = s.newest_version\n"
    "                    AND v.text = $2::text)",
};

static const PhStatement change_script = {
    "script-change",
    "UPDATE script s\n"
    "SET tenant_id = $2::bigint, scope = $3::smallint, scope_id = $4::bigint,\n"
    "    sort_order = $5::integer, changed_by = $6::text, changed_at = now(), version = s.version + 1,\n"
    "    newest_version = n.newest,\n"
    "    hooks = CASE WHEN $7::boolean OR s.active_version IS NULL THEN $8::text ELSE s.hooks END,\n"
    "    previous_version = CASE WHEN $7::boolean AND s.active_version <> n.newest\n"
    "                            THEN s.active_version ELSE s.previous_version END,\n"
    "    active_version = CASE WHEN $7::boolean THEN n.newest ELSE s.active_version END\n"
    "FROM (SELECT max(v.version) AS newest FROM script_version v\n"
    "      WHERE v.script_id = $1::bigint) AS n\n"
    "WHERE s.script_id = $1::bigint\n"
    "RETURNING s.newest_version",
};

static const PhStatement forget_error = {
    "script-error-forget",
    "DELETE FROM script_error WHERE script_id = $1::bigint",
};

/* In the open transaction; the id of the row that is to be changed. */
PH_IN_JOB static bool
begin_put(PhLease *lease, const PhScriptPut *put, int64_t *id_out, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &raise_counter);
    if (put->id == 0) {
        PhParams *params = ph_batch_add(&batch, &add_script);
        ph_param_int64(params, put->tenant_id);
        ph_param_text(params, put->name);
        ph_param_int16(params, (int16_t)put->scope);
        ph_param_int64(params, put->scope_id);
        ph_param_int32(params, put->order);
        ph_param_text(params, put->by);
    } else {
        ph_param_int64(ph_batch_add(&batch, &lock_script), put->id);
    }
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 2);
    if (PQntuples(rows) == 0) {
        if (put->id == 0)
            g_set_error(
                error, PH_ERROR, PH_ERROR_CONFLICT, "a script \"%s\" exists already", put->name);
        else
            g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no script \"%s\"", put->name);
        return false;
    }
    int64_t number = ph_cell_int64(rows, 0, 0);
    if (put->id != 0 && put->if_version >= 0 && number != put->if_version) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "script \"%s\" was changed meanwhile: version %" G_GINT64_FORMAT
            ", not %" G_GINT64_FORMAT,
            put->name, number, put->if_version);
        return false;
    }
    *id_out = put->id != 0 ? put->id : number;
    return true;
}

static void
add_put(PhBatch *batch, const PhScriptPut *put, int64_t id)
{
    PhParams *params = ph_batch_add(batch, &add_version);
    ph_param_int64(params, id);
    ph_param_text(params, put->text);
    ph_param_text(params, put->hooks);
    ph_param_text(params, put->note != NULL ? put->note : "");
    ph_param_text(params, put->by);
    params = ph_batch_add(batch, &change_script);
    ph_param_int64(params, id);
    ph_param_int64(params, put->tenant_id);
    ph_param_int16(params, (int16_t)put->scope);
    ph_param_int64(params, put->scope_id);
    ph_param_int32(params, put->order);
    ph_param_text(params, put->by);
    ph_param_bool(params, put->activate);
    ph_param_text(params, put->hooks);
    if (put->activate)
        ph_param_int64(ph_batch_add(batch, &forget_error), id);
    ph_batch_add(batch, &ph_sql_commit);
}

bool
ph_script_put_blocking(
    const PhScriptPut *put, int64_t deadline_us, int *version_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    int64_t id;
    if (lease == NULL || !begin_put(lease, put, &id, error))
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    add_put(&batch, put, id);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (version_out != NULL)
        *version_out = ph_cell_int32(ph_batch_result(&batch, 1), 0, 0);
    tell();
    return true;
}

static const PhStatement activate_script = {
    "script-activate",
    "UPDATE script s\n"
    "SET previous_version = CASE WHEN s.active_version <> $2::integer THEN s.active_version\n"
    "                            ELSE s.previous_version END,\n"
    "    active_version = nullif($2::integer, 0), version = s.version + 1,\n"
    "    hooks = coalesce($3::text, (SELECT v.hooks FROM script_version v\n"
    "                                WHERE v.script_id = $1::bigint AND v.version = $2::integer),\n"
    "                     s.hooks),\n"
    "    changed_by = $4::text, changed_at = now()\n"
    "WHERE s.script_id = $1::bigint\n"
    "  AND ($2::integer = 0 OR EXISTS (SELECT FROM script_version v\n"
    "                                  WHERE v.script_id = $1::bigint AND v.version = $2::integer))",
};

bool
ph_script_activate_blocking(int64_t script_id, int version, const char *hooks, const char *by,
    int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &raise_counter);
    PhParams *params = ph_batch_add(&batch, &activate_script);
    ph_param_int64(params, script_id);
    ph_param_int32(params, version);
    ph_param_text(params, hooks);
    ph_param_text(params, by);
    ph_param_int64(ph_batch_add(&batch, &forget_error), script_id);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 2) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the script has no version %d", version);
        return false;
    }
    tell();
    return true;
}

static const PhStatement find_previous = {
    "script-previous",
    "SELECT coalesce(previous_version, 0) FROM script WHERE script_id = $1::bigint",
};

bool
ph_script_previous_blocking(
    int64_t script_id, int64_t deadline_us, int *version_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &find_previous), script_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    int version = PQntuples(rows) > 0 ? ph_cell_int32(rows, 0, 0) : 0;
    if (version == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND,
            "no other version of the script was active before");
        return false;
    }
    *version_out = version;
    return true;
}

static const PhStatement remove_script = {
    "script-remove",
    "DELETE FROM script WHERE script_id = $1::bigint",
};

bool
ph_script_remove_blocking(int64_t script_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &raise_counter);
    ph_param_int64(ph_batch_add(&batch, &remove_script), script_id);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 2) == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the script is no more");
        return false;
    }
    tell();
    return true;
}

/* A script that was removed meanwhile has no error to keep. */
static const PhStatement note_error = {
    "script-error",
    "INSERT INTO script_error (script_id, version, message, line, hook, input)\n"
    "SELECT script_id, $2::integer, $3::text, $4::integer, $5::text, $6::text\n"
    "FROM script WHERE script_id = $1::bigint\n"
    "ON CONFLICT (script_id) DO UPDATE\n"
    "SET version = excluded.version, at = now(), message = excluded.message, line = excluded.line,\n"
    "    hook = excluded.hook, input = excluded.input",
};

bool
ph_script_note_error_blocking(int64_t script_id, int version, const char *text, int line,
    const char *hook, const char *input, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &note_error);
    ph_param_int64(params, script_id);
    ph_param_int32(params, version);
    ph_param_text(params, text);
    ph_param_int32(params, line);
    ph_param_text(params, hook);
    ph_param_text(params, input);
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error);
}
