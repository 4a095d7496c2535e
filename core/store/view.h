/* view.h - the inner side of mailbox views: making versions, and telling views of what was
 * committed
 *
 * Shape:    a delta is what one commit did to one mailbox. Deltas are applied in modseq order; one
 *           that does not follow the view at once stands for a gap, which is read from
 *           mailbox_change.
 * Threads:  versions: made by one thread, then shared. ph_views_*: anywhere.
 */
#pragma once

#include "posthouse/mailbox-view.h"
#include "store/internal.h"

/* -- versions (view.c) ------------------------------------------------------------------------- */

typedef struct PhViewDelta {
    PhMailboxKey mailbox;
    uint32_t uid_validity;
    uint32_t uid_next;
    int64_t modseq;      /* after this commit */
    GArray *rows;        /* PhViewRow, whole, ascending: new or changed; null: none */
    PhUidSet *gone;      /* null: none */
    GPtrArray *keywords; /* char * or null by bit; null array: as before */
} PhViewDelta;

PhViewDelta *ph_view_delta_new(PhMailboxKey mailbox);
void ph_view_delta_free(PhViewDelta *delta);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhViewDelta, ph_view_delta_free)

/* An empty version. */
PhView *ph_view_new(void);
/* A version with the delta applied. */
PhView *ph_view_with(const PhView *view, const PhViewDelta *delta);
/* The same, gone. */
PhView *ph_view_with_gone(const PhView *view);
size_t ph_view_memory(const PhView *view);

/* The columns of PH_VIEW_COLUMNS, from row `i`. */
#define PH_VIEW_COLUMNS "uid, message_id, modseq, keywords, internal_date_us, size_bytes, flags"
PhViewRow ph_view_row_from(const PGresult *rows, int i);
GArray *ph_view_rows_from(const PGresult *rows);

/* Rows of `bit, name`: by bit. */
GPtrArray *ph_keywords_from(const PGresult *rows);
GPtrArray *ph_keywords_new(void);

/* -- telling open views (view-table.c) --------------------------------------------------------- */

/* Takes the delta; tells other nodes too. With a lease (not in a transaction) a gap is read at
 * once, so that the view is not older than this commit when the call returns; without, the
 * notifier's thread reads it soon. */
PH_IN_JOB void ph_views_apply_blocking(PhViewDelta *delta, PhLease *lease);
/* Reads what is missing when a view is open and older than `modseq`. False only on a database
 * error. */
PH_IN_JOB bool ph_views_catch_up_blocking(
    PhLease *lease, PhMailboxKey mailbox, int64_t modseq, GError **error);
/* ph_mailbox_watch_refresh_blocking() with a lease that is there. */
PH_IN_JOB bool ph_mailbox_watch_refresh_with_blocking(
    PhMailboxWatch *watch, PhLease *lease, GError **error);
/* Compares all watched views with the database. */
PH_IN_JOB bool ph_views_poll_blocking(PhLease *lease, GError **error);
/* Marks an open view as gone, without telling other nodes. */
void ph_views_gone_here(PhMailboxKey mailbox);
