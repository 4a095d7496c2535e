/* mailbox.h - the mailboxes of an account and what is done to the messages in them
 *
 * Shape:    mailbox (account, id, name, special use, uid_validity, uid_next, highest_modseq,
 *           counts). Names are UTF-8 in NFC, levels divided by "/", a level 1 to 255 bytes, depth
 *           at most 20, no control characters; INBOX without regard to case.
 * Units:    bytes; microseconds since 1970 UTC; `deadline_us` is of the monotonic clock.
 * Threads:  *_blocking in a job; the rest anywhere.
 * Errors:   SYNTAX (a bad name), NOT_FOUND, CONFLICT (exists), DENIED, LIMIT, UNAVAILABLE.
 * Rights:   each call names the actor (an account); one function inside the store decides. A
 *           mailbox the actor may not see is NOT_FOUND.
 * Sources:  RFC 9051 2.3.1, 6.3; RFC 3501; RFC 6154; RFC 4315; RFC 6851; RFC 7162 3.1.
 */
#pragma once

#include "posthouse/base.h"

/* -- sets of UIDs ------------------------------------------------------------------------------ */

typedef struct PhUidRange {
    uint32_t first;
    uint32_t last; /* inclusive */
} PhUidRange;

/* Ascending, disjoint, not adjacent. A GArray of PhUidRange. */
typedef GArray PhUidSet;

PH_API PhUidSet *ph_uid_set_new(void);
PH_API void ph_uid_set_free(PhUidSet *set);
/* Any order; merges. Appending in ascending order is O(1). */
PH_API void ph_uid_set_add(PhUidSet *set, uint32_t first, uint32_t last);
PH_API bool ph_uid_set_contains(const PhUidSet *set, uint32_t uid);
PH_API size_t ph_uid_set_count(const PhUidSet *set);
/* "1:3,7" */
PH_API char *ph_uid_set_format(const PhUidSet *set);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhUidSet, ph_uid_set_free)

/* -- flags ------------------------------------------------------------------------------------- */

enum {
    PH_FLAG_SEEN = 1 << 0,
    PH_FLAG_ANSWERED = 1 << 1,
    PH_FLAG_FLAGGED = 1 << 2,
    PH_FLAG_DELETED = 1 << 3,
    PH_FLAG_DRAFT = 1 << 4,
    PH_FLAGS_ALL = (1 << 5) - 1,
};

/* A mailbox has at most this many keywords; each is a bit of a message's `keywords`. */
enum { PH_KEYWORDS_MAX = 63, PH_KEYWORD_MAX_BYTES = 255 };

typedef enum PhFlagChange {
    PH_FLAGS_ADD,
    PH_FLAGS_REMOVE,
    PH_FLAGS_REPLACE,
} PhFlagChange;

/* -- mailboxes --------------------------------------------------------------------------------- */

typedef struct PhMailboxKey {
    int64_t account_id;
    int64_t mailbox_id;
} PhMailboxKey;

typedef enum PhSpecialUse {
    PH_USE_NONE,
    PH_USE_INBOX,
    PH_USE_DRAFTS,
    PH_USE_SENT,
    PH_USE_JUNK,
    PH_USE_TRASH,
    PH_USE_ARCHIVE,
    PH_USE_FLAGGED,
    PH_USE_ALL,
} PhSpecialUse;

typedef struct PhMailbox {
    PhMailboxKey key;
    char *name; /* the full path */
    PhSpecialUse use;
    bool subscribed;
    bool has_children;
    bool selectable; /* false: only a name that holds children (its messages are gone) */
    uint32_t uid_validity;
    uint32_t uid_next;
    int64_t highest_modseq;
    uint32_t n_messages;
    uint32_t n_unseen;
    uint32_t n_deleted;
    int64_t size_bytes;
} PhMailbox;

PH_API void ph_mailbox_free(PhMailbox *mailbox);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhMailbox, ph_mailbox_free)

/* NFC, INBOX in capitals, checked. Null with SYNTAX. A trailing "/" is cut (Thunderbird sends
 * one). */
PH_API char *ph_mailbox_name_normalise(const char *name, size_t length, GError **error);

/* All mailboxes that the actor sees, in name order, INBOX first: GPtrArray of PhMailbox. */
PH_API PH_IN_JOB GPtrArray *ph_mailbox_list_blocking(
    int64_t actor_id, int64_t deadline_us, GError **error);
/* Names subscribed to, existing or not (RFC 9051 6.3.9.1): GPtrArray of char*. */
PH_API PH_IN_JOB GPtrArray *ph_subscription_list_blocking(
    int64_t actor_id, int64_t deadline_us, GError **error);
PH_API PH_IN_JOB bool ph_subscription_set_blocking(
    int64_t actor_id, const char *name, bool subscribed, int64_t deadline_us, GError **error);

PH_API PH_IN_JOB PhMailbox *ph_mailbox_find_blocking(
    int64_t actor_id, const char *name, int64_t deadline_us, GError **error);
/* Makes missing parents too (as real mailboxes). The UIDVALIDITY is above any earlier one of that
 * name. */
PH_API PH_IN_JOB PhMailbox *ph_mailbox_create_blocking(
    int64_t actor_id, const char *name, PhSpecialUse use, int64_t deadline_us, GError **error);
/* Its messages go to `expunged`. With children it stays as a name that cannot be selected; INBOX
 * cannot be deleted (DENIED). */
PH_API PH_IN_JOB bool ph_mailbox_delete_blocking(
    int64_t actor_id, const char *name, int64_t deadline_us, GError **error);
/* Children move along. INBOX: its messages move to a new mailbox of that name, INBOX stays, empty
 * (RFC 9051 6.3.6). */
PH_API PH_IN_JOB bool ph_mailbox_rename_blocking(
    int64_t actor_id, const char *name, const char *new_name, int64_t deadline_us, GError **error);

/* -- messages in a mailbox --------------------------------------------------------------------- */

/* Each of these commits, then brings the local view up to date before it returns, so that
 * ph_mailbox_watch_latest() of the caller already shows it. */

typedef struct PhFlagRequest {
    PhFlagChange change;
    uint32_t flags;
    const char *const
        *keywords;           /* null-terminated or null; unknown ones are added to the mailbox */
    int64_t unchanged_since; /* INT64_MAX: no condition (RFC 7162 3.1.3) */
} PhFlagRequest;

/* Changes flags where they differ; a row that would not change keeps its modseq. UIDs that are not
 * there are passed over. `modified_out` (may be null) gets the UIDs that `unchanged_since` left
 * out. LIMIT when the mailbox has no room for another keyword. */
PH_API PH_IN_JOB bool ph_mailbox_change_flags_blocking(int64_t actor_id, PhMailboxKey mailbox,
    const PhUidSet *uids, const PhFlagRequest *request, int64_t deadline_us,
    PhUidSet **modified_out, GError **error);

/* The pairs of a COPY or MOVE, in order of the source (RFC 4315 COPYUID). */
typedef struct PhCopyResult {
    uint32_t uid_validity;
    PhUidSet *source;
    PhUidSet *target;
} PhCopyResult;

PH_API void ph_copy_result_free(PhCopyResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhCopyResult, ph_copy_result_free)

/* Flags, keywords and internal date go along. All or nothing. NOT_FOUND: the target is missing.
 * LIMIT: quota. The copy shares the message row; with `move` it is one transaction that also takes
 * the source away. */
PH_API PH_IN_JOB PhCopyResult *ph_mailbox_copy_blocking(int64_t actor_id, PhMailboxKey source,
    const PhUidSet *uids, PhMailboxKey target, bool move, int64_t deadline_us, GError **error);

/* Takes away what is \Deleted (re-read in the transaction) and, when `uids` is not null, in the
 * set. */
PH_API PH_IN_JOB bool ph_mailbox_expunge_blocking(int64_t actor_id, PhMailboxKey mailbox,
    const PhUidSet *uids, int64_t deadline_us, GError **error);

/* -- undelete ---------------------------------------------------------------------------------- */

typedef struct PhExpunged {
    int64_t message_id;
    int64_t expunged_us;
    uint32_t uid;
    char *mailbox_name; /* as it was called, or is now */
    int64_t size_bytes;
} PhExpunged;

PH_API void ph_expunged_free(PhExpunged *expunged);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhExpunged, ph_expunged_free)

/* Newest first; items of the page are PhExpunged (see account.h for PhPage). */
struct PhPage;
PH_API PH_IN_JOB struct PhPage *ph_expunged_list_blocking(
    int64_t account_id, const char *after, unsigned limit, int64_t deadline_us, GError **error);
/* Back into its mailbox (or INBOX when that is gone), with a new UID. */
PH_API PH_IN_JOB bool ph_expunged_restore_blocking(
    int64_t account_id, int64_t message_id, int64_t deadline_us, GError **error);
/* Erases what was expunged before `before_us`, at most `limit` messages; says how many. Bodies
 * whose last membership is gone are deleted with their message row. */
PH_API PH_IN_JOB bool ph_purge_blocking(
    int64_t before_us, unsigned limit, int64_t deadline_us, unsigned *n_out, GError **error);
