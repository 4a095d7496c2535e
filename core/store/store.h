/* store.h - the store's own side for the rest of the core: opening, migrations, leases, settings
 * rows, audit
 *
 * Shape:    one store a process. A lease is one database connection for one job; a lane has leases
 *           reserved for it.
 * Units:    bytes; microseconds; `deadline_us` is of the monotonic clock.
 * Threads:  *_blocking in a job; the rest anywhere.
 * Errors:   UNAVAILABLE (the database is away; a lease then fails at once), TEMPORARY, CONFLICT,
 *           NOT_FOUND, INTERNAL.
 * Sources:  design "Store".
 */
#pragma once

#include "posthouse/account.h"
#include "posthouse/base.h"
#include "posthouse/task.h"

/* -- opening ----------------------------------------------------------------------------------- */

typedef struct PhStoreConfig {
    const char *conninfo; /* libpq */
    const char *node_name;
    const char *schema_folder; /* numbered *.sql */
    const char *spool_folder;
    unsigned reserved[PH_N_LANES]; /* leases that only this lane may take; 0: the default 2 */
    unsigned shared;               /* leases for any lane; 0: the default 4 */
    unsigned committers;           /* 0: the default 2 */
    unsigned
        commit_patience_ms;   /* how long a delivery waits for a database that is away; 0: 20 s */
    unsigned poll_ms;         /* safety net of the views; 0: 30 s */
    size_t views_kept_bytes;  /* views without a session; 0: 64 MiB */
    size_t spool_total_bytes; /* bytes in flight of this node; 0: 512 MiB */
    bool without_batching;    /* tests: each delivery is a transaction of its own */
} PhStoreConfig;

/* Copies the configuration. Succeeds also while the database is away (see ph_store_status): its
 * threads keep trying. False only when the configuration cannot be right. */
PH_IN_JOB bool ph_store_open_blocking(const PhStoreConfig *config, GError **error);
/* Waits for the deliveries under way. Nobody may hold a lease, a watch or a task by then. */
PH_IN_JOB void ph_store_close_blocking(void);

/* Brings the schema up to date: all files in order, each in a transaction, under one advisory lock.
 * An applied file that has changed since is CONFLICT. `by` is noted. Needs no open store. */
PH_IN_JOB bool ph_store_migrate_blocking(const char *conninfo, const char *schema_folder,
    const char *by, int64_t deadline_us, unsigned *n_applied_out, GError **error);

typedef struct PhStoreStatus {
    bool available;
    int server_version; /* as libpq counts: 150004; 0 before the first connection */
    int schema_version; /* the last file applied; 0: unknown */
    int node_id;        /* -1: none yet */
    unsigned n_connections;
    unsigned n_leases;  /* taken now */
    unsigned n_waiting; /* jobs that wait for a lease */
    unsigned n_deliveries_waiting;
    uint64_t n_delivered;
    uint64_t n_batches;
    unsigned n_views; /* open mailboxes in memory */
    unsigned n_watches;
    size_t view_bytes;
    char last_error[200]; /* of the database; "" when there was none */
} PhStoreStatus;

void ph_store_status(PhStoreStatus *status_out);
/* Asks the database something small. */
PH_IN_JOB bool ph_store_ping_blocking(int64_t deadline_us, GError **error);

/* -- leases ------------------------------------------------------------------------------------ */

typedef struct PhLease PhLease;

/* The lane whose leases the calling thread takes; PH_LANE_MAIL for threads that never said. Workers
 * say it. */
void ph_store_set_lane(PhLane lane);
PhLane ph_store_lane(void);

/* Waits for a free lease of the lane, at most to the deadline (then TEMPORARY). */
PH_IN_JOB PhLease *ph_lease_take_blocking(PhLane lane, int64_t deadline_us, GError **error);
/* Rolls back what was not committed. */
void ph_lease_free(PhLease *lease);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhLease, ph_lease_free)

/* -- rows of settings (core/runtime gives them types) ------------------------------------------ */

typedef struct PhStoredSetting {
    char *key;
    int scope_kind; /* PhScope of settings.h */
    char *scope_id; /* "" in the global scope */
    char *value;
    int64_t version;
} PhStoredSetting;

void ph_stored_setting_free(PhStoredSetting *row);

typedef struct PhSettingChange {
    const char *key;
    int scope_kind;
    const char *scope_id; /* null: "" */
    const char *value;    /* null: unset */
} PhSettingChange;

typedef struct PhStoredSettingChange {
    int64_t version;
    char *key;
    int scope_kind;
    char *scope_id;
    char *value; /* null: it was unset */
    int64_t changed_us;
    char *changed_by;
} PhStoredSettingChange;

void ph_stored_setting_change_free(PhStoredSettingChange *row);

/* All rows as of one version: GPtrArray of PhStoredSetting, by key and scope. */
PH_IN_JOB GPtrArray *ph_stored_settings_blocking(
    int64_t deadline_us, int64_t *version_out, GError **error);
/* All of them or none, as one version. `expected_version` below 0: whatever it is now; else
 * CONFLICT when it is another. What would not change anything is left out; when nothing is left the
 * version stays. Other nodes are told. */
PH_IN_JOB bool ph_stored_settings_change_blocking(const PhSettingChange *changes, size_t n_changes,
    const char *changed_by, int64_t expected_version, int64_t deadline_us, int64_t *version_out,
    GError **error);
/* Newest first; `key` null: all keys. GPtrArray of PhStoredSettingChange. */
PH_IN_JOB GPtrArray *ph_stored_setting_history_blocking(
    const char *key, unsigned limit, int64_t deadline_us, GError **error);

/* -- upkeep ------------------------------------------------------------------------------------ */

/* Goes on with the data of erased accounts, where the call that erased one ran out of time. */
PH_IN_JOB bool ph_account_erase_rest_blocking(int64_t deadline_us, GError **error);

/* The settings of PostgreSQL with which a COMMIT is no promise, as "fsync = off", divided by ", "; "": none. */
PH_IN_JOB char *ph_store_durability_blocking(int64_t deadline_us, GError **error);

/* -- nodes ------------------------------------------------------------------------------------- */

typedef struct PhNodeInfo {
    int id;
    char *name;
    bool is_alive; /* was seen lately */
    char *version;
    int64_t sessions;
    int64_t started_us;
    int64_t seen_us;
} PhNodeInfo;

void ph_node_info_free(PhNodeInfo *node);
/* Those whose lease runs, or ended less than a day ago: GPtrArray of PhNodeInfo, by name. */
PH_IN_JOB GPtrArray *ph_node_list_blocking(int64_t deadline_us, GError **error);

/* -- words from other nodes -------------------------------------------------------------------- */

typedef enum PhStoreNews {
    PH_NEWS_SETTINGS, /* number: the new version */
    PH_NEWS_ACCOUNT,  /* number: account id whose version was raised */
    PH_NEWS_OPERATOR, /* number: 0 */
    PH_NEWS_MISSED,   /* the listener was away: anything may have changed */
} PhStoreNews;

/* Called on the store's listener thread for what another process did, and on the thread that did it
 * here. Set before ph_store_open_blocking(), or null. */
typedef void (*PhStoreNewsFunc)(PhStoreNews news, int64_t number, void *data);
void ph_store_set_news_func(PhStoreNewsFunc func, void *data);

/* -- audit ------------------------------------------------------------------------------------- */

typedef struct PhAuditEntry {
    int64_t id;
    int64_t at_us;
    char *actor;
    char *origin;
    char *action;
    char *target;
    char *outcome;
    char *detail;
    int64_t tenant_id;
    char *before; /* the thing as JSON; "": not known */
    char *after;
} PhAuditEntry;

void ph_audit_entry_free(PhAuditEntry *entry);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhAuditEntry, ph_audit_entry_free)

/* An entry to be; null texts are written as "". */
typedef struct PhAuditNote {
    int64_t tenant_id;
    const char *actor;
    const char *origin;
    const char *action;
    const char *target;
    const char *outcome;
    const char *detail;
    const char *before;
    const char *after;
} PhAuditNote;

PH_IN_JOB bool ph_audit_write_blocking(
    const PhAuditNote *note, int64_t deadline_us, GError **error);

/* Zeroed members do not matter. */
typedef struct PhAuditFilter {
    int64_t tenant_id;
    const char *actor;
    const char *action;
    const char *text; /* a substring of action, target, actor or outcome */
} PhAuditFilter;

/* Newest first. Items are PhAuditEntry. */
PH_IN_JOB PhPage *ph_audit_list_blocking(const PhAuditFilter *filter, const char *after,
    unsigned limit, int64_t deadline_us, GError **error);
