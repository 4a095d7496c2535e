/* script.h - scripts with their versions, and the databases of scripts
 *
 * Shape:    script (id, tenant, name, scope, order, active version, last error); each text is kept
 *           as a numbered version. A database of scripts is a schema of its own with a login role
 *           of its own, one for the core and one for each tenant: what a script may reach is decided
 *           by PostgreSQL, not by us looking at its SQL.
 * Units:    bytes; microseconds since 1970 UTC; `deadline_us` is of the monotonic clock.
 * Threads:  in a job.
 * Errors:   SYNTAX, NOT_FOUND, CONFLICT (changed meanwhile, name in use), UNAVAILABLE, TEMPORARY;
 *           DENIED when PostgreSQL would not let us make the role.
 */
#pragma once

#include "store/store.h"

/* In place of a tenant: the core's own scripts. */
#define PH_SCRIPT_CORE INT64_C(-1)

typedef enum PhScriptScope {
    PH_SCRIPT_GLOBAL,
    PH_SCRIPT_TENANT,
    PH_SCRIPT_DOMAIN,
    PH_SCRIPT_SITE,
} PhScriptScope;

const char *ph_script_scope_name(PhScriptScope scope);

typedef struct PhStoredScript {
    int64_t id;
    int64_t tenant_id;
    char *name;
    PhScriptScope scope;
    int64_t scope_id; /* of the tenant, domain or site; 0: global */
    char *scope_name; /* a domain in A-labels; null: global, or it is no more */
    int order;
    int active_version; /* 0: none */
    int newest_version;
    char *hooks;     /* words of the active version, else of the newest */
    int64_t version; /* raised by each change */
    int64_t changed_us;
    char *changed_by;
    int text_version; /* which version `text` is */
    char *text;       /* null in lists */
    /* The last error; `error_text` null: none since the activation. */
    char *error_text;
    int error_line;
    char *error_hook;
    char *error_input;
    int64_t error_us;
} PhStoredScript;

void ph_stored_script_free(PhStoredScript *script);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhStoredScript, ph_stored_script_free)

typedef struct PhScriptVersion {
    int version;
    int64_t at_us;
    char *by;
    char *note;
    bool is_active;
    int64_t bytes;
} PhScriptVersion;

void ph_script_version_free(PhScriptVersion *version);

/* Raised by each change of any script. */
PH_IN_JOB bool ph_script_counter_blocking(
    int64_t deadline_us, int64_t *counter_out, GError **error);
/* All that are active, with their text, as of one counter: GPtrArray of PhStoredScript. */
PH_IN_JOB GPtrArray *ph_scripts_active_blocking(
    int64_t deadline_us, int64_t *counter_out, GError **error);
/* `tenant_id` below 0: of all tenants. Items are PhStoredScript without text, by name. */
PH_IN_JOB PhPage *ph_script_list_blocking(int64_t tenant_id, const char *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);
/* With the text of `version`; 0: the active one, or where none is active the newest. */
PH_IN_JOB PhStoredScript *ph_script_find_blocking(
    const char *name, int version, int64_t deadline_us, GError **error);
/* Items are PhScriptVersion, the newest first. */
PH_IN_JOB PhPage *ph_script_versions_blocking(
    int64_t script_id, const char *after, unsigned limit, int64_t deadline_us, GError **error);

/* The id and the tenant of a tenant, domain or site by its name. */
PH_IN_JOB bool ph_script_scope_find_blocking(PhScriptScope scope, const char *name,
    int64_t deadline_us, int64_t *id_out, int64_t *tenant_id_out, GError **error);

typedef struct PhScriptPut {
    int64_t id; /* 0: a new one */
    const char *name;
    int64_t tenant_id;
    PhScriptScope scope;
    int64_t scope_id;
    int order;
    const char *text;
    const char *hooks;
    const char *note;
    const char *by;
    bool activate;
    int64_t if_version; /* below 0: whatever it is */
} PhScriptPut;

/* A new version of the text, and where it is for. A text that is the newest version's makes no new
 * one. */
PH_IN_JOB bool ph_script_put_blocking(
    const PhScriptPut *put, int64_t deadline_us, int *version_out, GError **error);
/* `version` 0: none is active any more. `hooks` of that version, null: as
 * they were found when it was installed. */
PH_IN_JOB bool ph_script_activate_blocking(int64_t script_id, int version, const char *hooks,
    const char *by, int64_t deadline_us, GError **error);
/* The version that was active before the present one; NOT_FOUND when there is none. */
PH_IN_JOB bool ph_script_previous_blocking(
    int64_t script_id, int64_t deadline_us, int *version_out, GError **error);
PH_IN_JOB bool ph_script_remove_blocking(int64_t script_id, int64_t deadline_us, GError **error);
/* Keeps the last error; told to nobody. */
PH_IN_JOB bool ph_script_note_error_blocking(int64_t script_id, int version, const char *text,
    int line, const char *hook, const char *input, int64_t deadline_us, GError **error);

/* -- databases of scripts ---------------------------------------------------------------------- */

/* A connection with the rights of one zone, for one call. */
typedef struct PhScriptDb PhScriptDb;

/* Passwords of the roles are made from it, so that all nodes know them: call at start. */
void ph_script_db_configure(const PhSecret *key);
/* Ends connections that nobody has used for a minute. */
void ph_script_db_tend(void);
/* Ends all that are idle. */
void ph_script_db_close_all(void);

PH_IN_JOB PhScriptDb *ph_script_db_take_blocking(
    int64_t zone_tenant, int64_t deadline_us, GError **error);
/* Rolls back what is open. */
void ph_script_db_release(PhScriptDb *db);

typedef enum PhScriptCellKind {
    PH_SCRIPT_CELL_NULL,
    PH_SCRIPT_CELL_BOOL,
    PH_SCRIPT_CELL_INT,
    PH_SCRIPT_CELL_NUMBER,
    PH_SCRIPT_CELL_TEXT,
    PH_SCRIPT_CELL_BYTES,
} PhScriptCellKind;

typedef struct PhScriptCell {
    PhScriptCellKind kind;
    bool truth;
    int64_t integer;
    double number;
    const char *text; /* TEXT, and BYTES decoded; lives as long as the rows */
    size_t length;
} PhScriptCell;

typedef struct PhScriptRows PhScriptRows;

/* One statement; parameters are text, null is SQL's null. LIMIT: more rows or bytes than allowed;
 * TEMPORARY: the deadline passed, the connection is then of no use. `rows_out` may be null. */
PH_IN_JOB bool ph_script_db_run_blocking(PhScriptDb *db, const char *sql, unsigned n_parameters,
    const char *const *parameters, int64_t deadline_us, PhScriptRows **rows_out, GError **error);
/* Is a transaction open, good or failed? */
bool ph_script_db_in_transaction(const PhScriptDb *db);

unsigned ph_script_rows_count(const PhScriptRows *rows);
unsigned ph_script_rows_columns(const PhScriptRows *rows);
/* Rows that the statement changed. */
int64_t ph_script_rows_affected(const PhScriptRows *rows);
const char *ph_script_rows_name(const PhScriptRows *rows, unsigned column);
void ph_script_rows_cell(PhScriptRows *rows, unsigned row, unsigned column, PhScriptCell *cell_out);
void ph_script_rows_free(PhScriptRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhScriptRows, ph_script_rows_free)
