/* sync.c - what a session tells of a mailbox that changed
 *
 * The client knows one version of the mailbox. The difference to the latest is told in the order
 * that keeps sequence numbers true: what is gone (from the highest down), how many there are, what
 * changed.
 */
#include "imap.h"

#include <string.h>

typedef struct Telling {
    ImapSession *session;
    const PhView *view; /* the later version */
    const PhUidSet *silent;
    unsigned expunged;
    unsigned added;
} Telling;

static void
count_expunged(size_t index, const PhViewRow *row, void *data)
{
    (void)index;
    (void)row;
    ((Telling *)data)->expunged++;
}

static void
count_added(size_t index, const PhViewRow *row, void *data)
{
    (void)index;
    (void)row;
    ((Telling *)data)->added++;
}

static void
tell_expunged(size_t index, const PhViewRow *row, void *data)
{
    ph_assert_on_reactor();
    (void)row;
    imap_untagged(((Telling *)data)->session, "%zu EXPUNGE", index + 1);
}

static void
tell_changed(size_t index, const PhViewRow *row, void *data)
{
    ph_assert_on_reactor();
    Telling *telling = data;
    if (telling->silent != NULL && ph_uid_set_contains(telling->silent, row->uid))
        return;
    g_autoptr(GString) flags = g_string_new(NULL);
    imap_append_flags(
        flags, telling->view, row, row->uid >= telling->session->selected->first_recent);
    imap_untagged(telling->session, "%zu FETCH (UID %u FLAGS %s)", index + 1, row->uid, flags->str);
}

static size_t
count_recent(const ImapSelected *selected)
{
    return ph_view_count(selected->told) -
           ph_view_lower_bound(selected->told, selected->first_recent);
}

/* A keyword that this client has not heard of is named before it is used. */
void
imap_tell_flag_names(ImapSession *session, const PhView *view)
{
    ImapSelected *selected = session->selected;
    uint64_t named = 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if (ph_view_keyword(view, bit) != NULL)
            named |= UINT64_C(1) << bit;
    if ((named & ~selected->told_keywords) == 0)
        return;
    selected->told_keywords |= named;
    g_autoptr(GString) names = g_string_new(NULL);
    imap_append_keyword_names(names, view);
    imap_untagged(session, "FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft%s)", names->str);
}

bool
imap_selected_is_gone(const ImapSession *session)
{
    if (session->selected == NULL)
        return false;
    g_autoptr(PhView) latest = ph_mailbox_watch_latest(session->selected->watch);
    return ph_view_is_gone(latest);
}

void
imap_leave_gone(ImapSession *session)
{
    ph_assert_on_reactor();
    imap_untagged(session, "BYE The mailbox is gone");
    ph_connection_close(session->base.connection);
}

void
imap_sync(ImapSession *session, bool may_expunge, const PhUidSet *silent)
{
    ImapSelected *selected = session->selected;
    g_autoptr(PhView) latest = ph_mailbox_watch_latest(selected->watch);
    if (latest == selected->told)
        return;
    if (ph_view_is_gone(latest)) {
        imap_leave_gone(session);
        return;
    }
    static const PhViewDiff counting = { .expunged = count_expunged, .added = count_added };
    static const PhViewDiff expunging = { .expunged = tell_expunged };
    static const PhViewDiff changing = { .changed = tell_changed };
    Telling telling = { .session = session, .view = latest, .silent = silent };
    ph_view_diff(selected->told, latest, &counting, &telling);
    if (telling.expunged > 0 && !may_expunge)
        return;
    if (telling.expunged > 0)
        ph_view_diff(selected->told, latest, &expunging, &telling);
    g_autoptr(PhView) before = g_steal_pointer(&selected->told);
    selected->told = ph_view_ref(latest);
    imap_tell_flag_names(session, latest);
    if (telling.added > 0) {
        imap_untagged(session, "%zu EXISTS", ph_view_count(latest));
        imap_untagged(session, "%zu RECENT", count_recent(selected));
    }
    ph_view_diff(before, latest, &changing, &telling);
}

/* The flags of these messages as they are now, by the client's numbers. */
void
imap_tell_flags(ImapSession *session, const PhUidSet *uids, bool with_uid)
{
    const ImapSelected *selected = session->selected;
    g_autoptr(PhView) latest = ph_mailbox_watch_latest(selected->watch);
    imap_tell_flag_names(session, latest);
    for (guint i = 0; i < uids->len; i++) {
        PhUidRange range = g_array_index(uids, PhUidRange, i);
        size_t n = ph_view_count(selected->told);
        for (size_t at = ph_view_lower_bound(selected->told, range.first); at < n; at++) {
            const PhViewRow *row = ph_view_row(selected->told, at);
            if (row->uid > range.last)
                break;
            size_t now = ph_view_lower_bound(latest, row->uid);
            if (now < ph_view_count(latest) && ph_view_row(latest, now)->uid == row->uid)
                row = ph_view_row(latest, now);
            g_autoptr(GString) flags = g_string_new(NULL);
            imap_append_flags(flags, latest, row, row->uid >= selected->first_recent);
            if (with_uid)
                imap_untagged(session, "%zu FETCH (UID %u FLAGS %s)", at + 1, row->uid, flags->str);
            else
                imap_untagged(session, "%zu FETCH (FLAGS %s)", at + 1, flags->str);
        }
    }
}

/* -- sets -------------------------------------------------------------------------------------- */

/* UIDs of rows [first, last] of the told version: runs become ranges. */
static void
add_rows(PhUidSet *uids, const PhView *view, size_t first, size_t last)
{
    for (size_t at = first; at <= last; at++) {
        uint32_t uid = ph_view_row(view, at)->uid;
        ph_uid_set_add(uids, uid, uid);
    }
}

/* The last message's number, for "*"; 0 in an empty mailbox. */
static uint32_t
star(const PhView *view, bool is_uid)
{
    size_t n = ph_view_count(view);
    if (n == 0)
        return 0;
    return is_uid ? ph_view_row(view, n - 1)->uid : (uint32_t)n;
}

bool
imap_resolve_set(const ImapSession *session, const GArray *set, bool is_uid, PhUidSet **uids_out)
{
    const PhView *view = session->selected->told;
    size_t n = ph_view_count(view);
    uint32_t last_number = star(view, is_uid);
    /* "1:*,1:*,..." must not visit each row thousands of times: ranges that overlap become one
     * first. */
    g_autoptr(PhUidSet) wanted = ph_uid_set_new();
    for (guint i = 0; i < set->len; i++) {
        PhUidRange range = g_array_index(set, PhUidRange, i);
        uint32_t one = range.first == IMAP_SET_STAR ? last_number : range.first;
        uint32_t other = range.last == IMAP_SET_STAR ? last_number : range.last;
        /* "*" in an empty mailbox names nothing; a number beyond the last is an error (RFC 3501 9,
         * seq-number). */
        if (n == 0 && MIN(one, other) == 0)
            continue;
        if (!is_uid && MAX(one, other) > n)
            return false;
        ph_uid_set_add(wanted, one, other);
    }
    g_autoptr(PhUidSet) uids = ph_uid_set_new();
    for (guint i = 0; i < wanted->len; i++) {
        PhUidRange range = g_array_index(wanted, PhUidRange, i);
        size_t from = is_uid ? ph_view_lower_bound(view, range.first) : range.first - 1;
        size_t to = range.last;
        if (is_uid)
            to = range.last == UINT32_MAX ? n : ph_view_lower_bound(view, range.last + 1);
        if (to > from)
            add_rows(uids, view, from, to - 1);
    }
    *uids_out = g_steal_pointer(&uids);
    return true;
}
