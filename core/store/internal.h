/* internal.h - what the files of core/store share with each other and with nobody else
 *
 * Shape:    the settings of the open store, the pool's inner side, message ids, news for other
 *           nodes, faults.
 * Threads:  as each group says.
 */
#pragma once

#include <config.h>

#include "posthouse/mailbox.h"
#include "store/sql.h"

/* -- the open store (store.c) ------------------------------------------------------------------ */

typedef struct PhStoreSettings {
    char *conninfo;
    char *node_name;
    char *schema_folder;
    char *spool_folder;
    char *holder; /* random: names this process */
    unsigned reserved[PH_N_LANES];
    unsigned shared;
    unsigned committers;
    int64_t commit_patience_us;
    int64_t poll_us;
    size_t views_kept_bytes;
    size_t spool_total_bytes;
    bool without_batching;
} PhStoreSettings;

/* Null while no store is open. Constant while one is. */
const PhStoreSettings *ph_store_settings(void);

/* -- pool (pool.c) ----------------------------------------------------------------------------- */

void ph_leases_open(const PhStoreSettings *settings);
void ph_leases_close(void);
/* A connection broke: idle ones are probably dead too. */
void ph_leases_note_lost(void);
void ph_leases_status(PhStoreStatus *status);
/* The database answered a thread of the store's own: leases need not wait for their back-off. */
void ph_leases_note_back(void);
void ph_leases_note_error(const char *message);
/* A new connection in the place of a lost one, for the same lease. */
PH_IN_JOB bool ph_lease_reconnect_blocking(PhLease *lease, GError **error);
void ph_lease_roll_back(PhLease *lease);

/* -- node (node.c) ----------------------------------------------------------------------------- */

void ph_node_open(void);
/* Makes sure that this process has a node number and that its lease runs on. */
PH_IN_JOB bool ph_node_keep_blocking(PhLease *lease, GError **error);
PH_IN_JOB void ph_node_release_blocking(PhLease *lease);
int ph_node_id(void);
/* 0 while there is no node number. */
int64_t ph_message_id_draw(void);

/* -- notifier and listener (notifier.c) -------------------------------------------------------- */

void ph_notifier_start(void);
void ph_notifier_stop(void);
/* Another node may want to know: merged and sent within 50 ms. */
void ph_notifier_tell_mailbox(PhMailboxKey mailbox, int64_t modseq);
void ph_notifier_tell(PhStoreNews news, int64_t number);
/* A view lags behind a commit of this process and no caller waits for it. */
void ph_notifier_refresh(PhMailboxKey mailbox);

/* -- rights (rights.c) ------------------------------------------------------------------------- */

typedef enum PhRight {
    PH_RIGHT_SEE,    /* that it exists, its counts */
    PH_RIGHT_READ,   /* messages */
    PH_RIGHT_FLAGS,  /* change flags */
    PH_RIGHT_INSERT, /* copy into it */
    PH_RIGHT_EXPUNGE,
    PH_RIGHT_ADMIN, /* create below it, rename, delete */
} PhRight;

/* The one function that decides. NOT_FOUND for what the actor may not see, DENIED for the rest. */
bool ph_right_check(int64_t actor_id, int64_t owner_id, PhRight right, GError **error);

/* -- keywords (keyword.c) ---------------------------------------------------------------------- */

/* An IMAP atom of at most PH_KEYWORD_MAX_BYTES bytes. */
bool ph_keyword_is_valid(const char *name);
/* The bit of a name, without regard to case, in an array by bit; a free bit is given to a new one.
 * -1: malformed, or no room. */
int ph_keyword_bit(GPtrArray *keywords, const char *name, bool *is_new_out);

bool ph_keyword_is_known(const GPtrArray *keywords, const char *name);

/* -- pieces of changes (flags.c) --------------------------------------------------------------- */

/* FROM items: the messages of a set of UIDs ($first and $last are parameters), as `m`. Range by
 * range, whatever the planner believes: LATERAL and OFFSET 0 leave it no other way. */
#define PH_SQL_MESSAGES_OF_SET(mailbox, first, last) \
    "unnest(" first "::bigint[], " last "::bigint[]) AS r (first_uid, last_uid)\n" \
    "CROSS JOIN LATERAL (\n" \
    "    SELECT o.ctid, o.* FROM mailbox_message o\n" \
    "    WHERE o.account_id = $1::bigint AND o.mailbox_id = " mailbox "::bigint\n" \
    "      AND o.uid BETWEEN r.first_uid AND r.last_uid\n" \
    "    OFFSET 0\n" \
    ") AS m\n"

/* Locks the state row: uid_validity, uid_next, modseq. */
extern const PhStatement ph_sql_lock_state;
/* bit, name */
extern const PhStatement ph_sql_read_keywords;
/* Account and mailbox as the next two parameters. */
void ph_param_mailbox(PhParams *params, PhMailboxKey mailbox);
/* NOT_FOUND when there is no row. */
bool ph_check_mailbox_row(const PGresult *rows, GError **error);
/* Writes the keywords of `bits`, which are new. */
void ph_batch_add_keywords(
    PhBatch *batch, PhMailboxKey mailbox, const GPtrArray *keywords, uint64_t bits);

/* -- faults (fault.c) -------------------------------------------------------------------------- */

#ifdef PH_TEST_POINTS
/* True when the named point is to fail now. PH_FAULT="point:n[,point:n]" in the environment: the
 * n-th passage. */
bool ph_fault(const char *point);
void ph_fault_arm(const char *point, unsigned passage);
#else
#define ph_fault(point) false
#endif

/* -- small things ------------------------------------------------------------------------------ */

/* Two arrays for `unnest(first, last)`. */
void ph_param_uid_set(PhParams *params, const PhUidSet *set);
bool ph_uid_set_overlaps(const PhUidSet *set, uint32_t first, uint32_t last);
/* UIDs from pairs (first, last, ...), as mailbox_change holds them. */
void ph_uid_set_add_pairs(PhUidSet *set, const GArray *pairs);

/* -- committers (committer.c) ------------------------------------------------------------------ */

void ph_committers_start(void);
/* Waits until what was submitted has its result. */
void ph_committers_stop(void);
void ph_committers_status(PhStoreStatus *status);

/* -- open mailboxes (view-table.c) ------------------------------------------------------------- */

void ph_view_table_open(void);
void ph_view_table_close(void);
void ph_view_table_status(PhStoreStatus *status);
/* A mailbox of this name and UIDVALIDITY is no more: sessions must leave it, here and on other
 * nodes. */
void ph_views_gone(PhMailboxKey mailbox);

/* -- spool (spool.c) --------------------------------------------------------------------------- */

void ph_spool_configure(const char *folder, size_t total_bytes);

/* -- addresses (domain.c) ---------------------------------------------------------------------- */

/* An address as the tables know it. */
typedef struct PhAddressKey {
    char *local;
    char *domain_ascii;
    char *whole; /* normalised: local@domain, the domain in UTF-8 */
} PhAddressKey;

PhAddressKey *ph_address_key_new(const char *address, GError **error);
/* From a `whole` that a key had before. Null when it is none. */
PhAddressKey *ph_address_key_from_whole(const char *whole);
void ph_address_key_free(PhAddressKey *key);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhAddressKey, ph_address_key_free)

/* A domain's name as the tables know it. */
char *ph_domain_key(const char *name, GError **error);
/* The columns of ph_sql_find_account, from row `i`; its parameters: local part, domain. */
PhAccount *ph_account_from_row(const PGresult *rows, int i);
extern const PhStatement ph_sql_find_account;

/* -- lists (page.c) ---------------------------------------------------------------------------- */

/* How rows become the items of a page. */
typedef struct PhListing {
    void *(*read_item)(const PGresult *rows, int i);
    GDestroyNotify free_item;
    int place; /* the column with the text behind which the list goes on */
} PhListing;

/* Runs the batch, whose one statement lists, and reads its rows. */
PH_IN_JOB PhPage *ph_page_read_blocking(
    PhLease *lease, PhBatch *batch, const PhListing *listing, unsigned limit, GError **error);
/* For lists of several statements. */
PhPage *ph_page_new(GDestroyNotify free_item);
/* Sets `next` of a page that is full, from the place of its last item. */
void ph_page_finish(PhPage *page, unsigned limit, const char *last);

/* Raises the version of the configuration and commits what was done on this lease; tells the others. */
PH_IN_JOB bool ph_configuration_commit_blocking(PhLease *lease, GError **error);

/* -- making accounts (mailbox.c) --------------------------------------------------------------- */

/* Adds what makes the standard mailboxes of the account of parameter 1. */
void ph_mailbox_add_standard(PhBatch *batch, int64_t account_id);
