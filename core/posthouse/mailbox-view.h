/* mailbox-view.h - an open mailbox in memory, shared by all sessions of this process
 *
 * Shape:    a version is immutable: rows in UID order behind a spine of counted chunks of 512. A
 *           later version shares the chunks that did not change. A session keeps the version it has
 *           told its client of and moves to a later one where the protocol lets it.
 * Threads:  versions: anywhere, by reference. Watches: ph_mailbox_watch_blocking in a job, the rest
 *           anywhere.
 * Errors:   NOT_FOUND, UNAVAILABLE.
 * Sources:  design "Mailbox view in memory"; RFC 9051 7.4.1 (when EXPUNGE may be told).
 */
#pragma once

#include "posthouse/mailbox.h"

typedef struct PhViewRow {
    uint32_t uid;
    uint32_t size_bytes;
    uint32_t flags; /* PH_FLAG_* */
    uint32_t reserved;
    uint64_t keywords; /* bits, named by ph_view_keyword */
    int64_t modseq;
    int64_t message_id;
    int64_t internal_date_us;
} PhViewRow;

typedef struct PhView PhView;

PH_API PhView *ph_view_ref(PhView *view);
PH_API void ph_view_unref(PhView *view);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhView, ph_view_unref)

PH_API size_t ph_view_count(const PhView *view);
PH_API const PhViewRow *ph_view_row(const PhView *view, size_t index);
/* The index of the first row with this UID or a greater one; ph_view_count() when there is none. */
PH_API size_t ph_view_lower_bound(const PhView *view, uint32_t uid);
PH_API uint32_t ph_view_uid_validity(const PhView *view);
PH_API uint32_t ph_view_uid_next(const PhView *view);
PH_API int64_t ph_view_highest_modseq(const PhView *view);
PH_API size_t ph_view_unseen(const PhView *view);
/* How many bits have a name; the bits need not be adjacent. */
PH_API size_t ph_view_keyword_count(const PhView *view);
/* The name of a bit; null when unused. */
PH_API const char *ph_view_keyword(const PhView *view, unsigned bit);
/* The mailbox is deleted, or renamed away under its UIDVALIDITY: the session must leave it. */
PH_API bool ph_view_is_gone(const PhView *view);

/* Walks the difference between two versions of one mailbox, passing over shared chunks. Order:
 * `expunged` by descending index in `from`, then `changed` (flags or keywords differ) and `added`
 * by ascending index in `to`. Any callback may be null. */
typedef struct PhViewDiff {
    void (*expunged)(size_t index, const PhViewRow *row, void *data);
    void (*changed)(size_t index, const PhViewRow *row, void *data);
    void (*added)(size_t index, const PhViewRow *row, void *data);
} PhViewDiff;

PH_API void ph_view_diff(const PhView *from, const PhView *to, const PhViewDiff *diff, void *data);

/* -- watching ---------------------------------------------------------------------------------- */

/* Holds the mailbox open. `changed` (may be null) is called on any thread, without locks held,
 * after a later version exists; it must only pass the word on (ph_wake_signal). Not called again
 * after ph_mailbox_watch_free() returned. */
typedef struct PhMailboxWatch PhMailboxWatch;
typedef void (*PhMailboxChanged)(void *data);

PH_API PH_IN_JOB PhMailboxWatch *ph_mailbox_watch_blocking(int64_t actor_id, PhMailboxKey mailbox,
    PhMailboxChanged changed, void *data, int64_t deadline_us, GError **error);
PH_API void ph_mailbox_watch_free(PhMailboxWatch *watch);
/* A new reference to the latest version. */
PH_API PhView *ph_mailbox_watch_latest(PhMailboxWatch *watch);
/* Asks the database at once whether there is more, instead of waiting for the slow poll. */
PH_API PH_IN_JOB bool ph_mailbox_watch_refresh_blocking(
    PhMailboxWatch *watch, int64_t deadline_us, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhMailboxWatch, ph_mailbox_watch_free)

/* First UID that was not yet told to any session as \Recent; raised to the current uid_next (not
 * for EXAMINE). */
PH_API PH_IN_JOB bool ph_mailbox_take_recent_blocking(PhMailboxKey mailbox, bool keep,
    int64_t deadline_us, uint32_t *first_recent_out, GError **error);

/* -- what is kept of a message ----------------------------------------------------------------- */

enum {
    PH_META_ENVELOPE = 1 << 0,      /* as IMAP sends it */
    PH_META_BODYSTRUCTURE = 1 << 1, /* as IMAP sends it */
    PH_META_OUTLINE = 1 << 2,       /* serialised, see message-outline.h */
    PH_META_HEADERS = 1 << 3,       /* header cache, see message-imap.h */
    PH_META_SENT_DATE = 1 << 4,
};

enum {
    PH_TRAIT_ATTACHMENT = 1 << 0,
    PH_TRAIT_NUL =
        1 << 1, /* the raw message has NUL bytes: sending it takes literal8 or replacing */
    PH_TRAIT_8BIT = 1 << 2,
    PH_TRAIT_REPLY = 1 << 3, /* the subject had a reply or forward marker */
};

/* What was not asked for is null. */
typedef struct PhMessageMeta {
    int64_t message_id;
    int64_t size_bytes;
    int64_t sent_us; /* INT64_MIN: none */
    unsigned traits; /* PH_TRAIT_* */
    GBytes *envelope;
    GBytes *bodystructure;
    GBytes *outline;
    GBytes *headers;
} PhMessageMeta;

PH_API void ph_message_meta_free(PhMessageMeta *meta);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhMessageMeta, ph_message_meta_free)

/* At most 500 ids a call. In the order of `ids`; null where a message is gone. GPtrArray of
 * PhMessageMeta. */
PH_API PH_IN_JOB GPtrArray *ph_message_meta_blocking(int64_t account_id, const int64_t *ids,
    size_t n_ids, unsigned what, int64_t deadline_us, GError **error);

/* Bytes of the raw message, as it was received: `length` from `offset`, cut at its end. Reads only
 * the frames that cover the slice. NOT_FOUND when the message was purged. */
PH_API PH_IN_JOB GBytes *ph_message_read_blocking(int64_t account_id, int64_t message_id,
    size_t offset, size_t length, int64_t deadline_us, GError **error);

/* Whole messages at once, for small ones: at most 500 ids a call; their raw sizes together are the
 * caller's to bound. In the order of `ids`; null where a message is gone. GPtrArray of GBytes. */
PH_API PH_IN_JOB GPtrArray *ph_message_read_many_blocking(
    int64_t account_id, const int64_t *ids, size_t n_ids, int64_t deadline_us, GError **error);
