/* notifier.c - telling other nodes what changed, and hearing it from them
 *
 * Two threads, a connection each. The notifier merges what the last 30 ms changed into one NOTIFY:
 * a NOTIFY in the transactions themselves would make their commits queue up behind one lock. The
 * listener hears, reads what watched views lack, renews the lease of the node number, and polls as
 * a safety net. Nothing depends on a word getting through.
 *
 * A payload is lines: the sender's name, then "m ACCOUNT MAILBOX MODSEQ", "s VERSION", "a ACCOUNT",
 * "o", or "?" for more than fits: then the hearer polls.
 */
#include "store/view.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    MERGE_US = 30000,
    PAYLOAD_MAX = 7800,
    STATEMENT_US = 30000000,
    RECONNECT_US = 250000,
    RENEW_US = 5000000, /* a node that is not seen for some of these is shown as away */
};

static struct {
    PhMutex lock;
    GCond arrived;
    bool is_open;
    bool stopping;
    GThread *notifier;
    GThread *listener;
    int wake_fd;              /* ends the listener's wait */
    GHashTable *mailboxes;    /* PhMailboxKey -> int64_t modseq, to be told */
    GHashTable *lagging;      /* PhMailboxKey: local views to be read */
    GHashTable *accounts;     /* int64_t, to be told */
    int64_t settings_version; /* to be told; 0: no */
    bool operators;
    PhStoreNewsFunc func;
    void *func_data;
} news;

void
ph_store_set_news_func(PhStoreNewsFunc func, void *data)
{
    news.func = func;
    news.func_data = data;
}

static void
call_func(PhStoreNews what, int64_t number)
{
    if (news.func != NULL)
        news.func(what, number, news.func_data);
}

static unsigned
hash_key(const void *data)
{
    const PhMailboxKey *key = data;
    return (unsigned)((uint64_t)key->account_id * 31 + (uint64_t)key->mailbox_id);
}

static int
equal_key(const void *left, const void *right)
{
    const PhMailboxKey *a = left;
    const PhMailboxKey *b = right;
    return a->account_id == b->account_id && a->mailbox_id == b->mailbox_id;
}

/* -- what is to be told ------------------------------------------------------------------------ */

void
ph_notifier_tell_mailbox(PhMailboxKey mailbox, int64_t modseq)
{
    if (!news.is_open)
        return;
    ph_mutex_lock(&news.lock);
    int64_t *known = g_hash_table_lookup(news.mailboxes, &mailbox);
    if (known != NULL)
        *known = MAX(*known, modseq);
    else
        g_hash_table_insert(
            news.mailboxes, g_memdup2(&mailbox, sizeof mailbox), g_memdup2(&modseq, sizeof modseq));
    g_cond_signal(&news.arrived);
    ph_mutex_unlock(&news.lock);
}

void
ph_notifier_refresh(PhMailboxKey mailbox)
{
    if (!news.is_open)
        return;
    ph_mutex_lock(&news.lock);
    g_hash_table_add(news.lagging, g_memdup2(&mailbox, sizeof mailbox));
    g_cond_signal(&news.arrived);
    ph_mutex_unlock(&news.lock);
}

void
ph_notifier_tell(PhStoreNews what, int64_t number)
{
    if (!news.is_open)
        return;
    ph_mutex_lock(&news.lock);
    switch (what) {
    case PH_NEWS_SETTINGS:
        news.settings_version = MAX(news.settings_version, number);
        break;
    case PH_NEWS_ACCOUNT:
        g_hash_table_add(news.accounts, g_memdup2(&number, sizeof number));
        break;
    case PH_NEWS_OPERATOR:
        news.operators = true;
        break;
    case PH_NEWS_MISSED:
        break;
    }
    g_cond_signal(&news.arrived);
    ph_mutex_unlock(&news.lock);
    call_func(what, number);
}

static GHashTable *
mailboxes_new(void)
{
    return g_hash_table_new_full(hash_key, equal_key, g_free, g_free);
}

static GHashTable *
lagging_new(void)
{
    return g_hash_table_new_full(hash_key, equal_key, g_free, NULL);
}

static GHashTable *
accounts_new(void)
{
    return g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
}

typedef struct Parcel {
    GHashTable *mailboxes;
    GHashTable *lagging;
    GHashTable *accounts;
    int64_t settings_version;
    bool operators;
} Parcel;

static void
parcel_clear(Parcel *parcel)
{
    g_hash_table_unref(parcel->mailboxes);
    g_hash_table_unref(parcel->lagging);
    g_hash_table_unref(parcel->accounts);
}

static bool
is_empty_locked(void)
{
    return g_hash_table_size(news.mailboxes) == 0 && g_hash_table_size(news.lagging) == 0 &&
           g_hash_table_size(news.accounts) == 0 && news.settings_version == 0 && !news.operators;
}

/* Waits for the first piece, then for what comes with it. False: the end. */
static bool
take_parcel(Parcel *parcel)
{
    ph_mutex_lock(&news.lock);
    while (is_empty_locked() && !news.stopping)
        ph_mutex_wait(&news.lock, &news.arrived);
    bool is_end = is_empty_locked();
    int64_t until_us = ph_monotonic_us() + MERGE_US;
    while (!news.stopping && ph_mutex_wait_until(&news.lock, &news.arrived, until_us))
        continue;
    *parcel = (Parcel){ news.mailboxes, news.lagging, news.accounts, news.settings_version,
        news.operators };
    news.mailboxes = mailboxes_new();
    news.lagging = lagging_new();
    news.accounts = accounts_new();
    news.settings_version = 0;
    news.operators = false;
    ph_mutex_unlock(&news.lock);
    return !is_end;
}

static char *
payload_from(const Parcel *parcel)
{
    GString *text = g_string_new(ph_store_settings()->holder);
    GHashTableIter iter;
    void *key;
    void *value;
    if (parcel->settings_version != 0)
        g_string_append_printf(text, "\ns %" G_GINT64_FORMAT, parcel->settings_version);
    if (parcel->operators)
        g_string_append(text, "\no");
    g_hash_table_iter_init(&iter, parcel->accounts);
    while (g_hash_table_iter_next(&iter, &key, NULL) && text->len < PAYLOAD_MAX)
        g_string_append_printf(text, "\na %" G_GINT64_FORMAT, *(const int64_t *)key);
    g_hash_table_iter_init(&iter, parcel->mailboxes);
    while (g_hash_table_iter_next(&iter, &key, &value) && text->len < PAYLOAD_MAX) {
        const PhMailboxKey *mailbox = key;
        g_string_append_printf(text,
            "\nm %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, mailbox->account_id,
            mailbox->mailbox_id, *(const int64_t *)value);
    }
    if (text->len >= PAYLOAD_MAX)
        g_string_append(text, "\n?");
    return g_string_free(text, FALSE);
}

/* -- the notifier ------------------------------------------------------------------------------ */

static const PhStatement send_notify = { "notify", "SELECT pg_notify('posthouse', $1::text)" };

PH_IN_JOB static bool
make_lease(PhLease **lease)
{
    if (*lease != NULL && (*lease)->lost)
        g_clear_pointer(lease, ph_lease_free);
    if (*lease == NULL) {
        g_autoptr(GError) error = NULL;
        *lease = ph_lease_new_private_blocking(
            ph_store_settings()->conninfo, ph_monotonic_us() + 2000000, &error);
        if (*lease == NULL) {
            ph_leases_note_error(error->message);
            return false;
        }
        ph_leases_note_back();
    }
    (*lease)->deadline_us = ph_monotonic_us() + STATEMENT_US;
    return true;
}

static bool
is_for_others(const Parcel *parcel)
{
    return g_hash_table_size(parcel->mailboxes) > 0 || g_hash_table_size(parcel->accounts) > 0 ||
           parcel->settings_version != 0 || parcel->operators;
}

/* What cannot be sent now is lost: the poll finds it. */
PH_IN_JOB static void
send_parcel(PhLease *lease, const Parcel *parcel)
{
    if (is_for_others(parcel)) {
        g_autofree char *payload = payload_from(parcel);
        g_auto(PhBatch) batch;
        ph_batch_init(&batch);
        ph_param_text(ph_batch_add(&batch, &send_notify), payload);
        ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, NULL);
    }
    GHashTableIter iter;
    void *key;
    g_hash_table_iter_init(&iter, parcel->lagging);
    while (g_hash_table_iter_next(&iter, &key, NULL) && !lease->lost)
        ph_views_catch_up_blocking(lease, *(const PhMailboxKey *)key, INT64_MAX, NULL);
}

static void *
notifier_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_assert_in_job();
    PhLease *lease = NULL;
    Parcel parcel;
    while (take_parcel(&parcel)) {
        if (make_lease(&lease))
            send_parcel(lease, &parcel);
        parcel_clear(&parcel);
    }
    parcel_clear(&parcel);
    ph_lease_free(lease);
    return NULL;
}

/* -- the listener ------------------------------------------------------------------------------ */

static const PhStatement listen = { "listen", "LISTEN posthouse" };

PH_IN_JOB static bool
hear_line(PhLease *lease, const char *line)
{
    char *at = NULL;
    const char *rest = line[0] != '\0' && line[1] == ' ' ? line + 2 : "";
    switch (line[0]) {
    case 'm': {
        PhMailboxKey key;
        key.account_id = g_ascii_strtoll(rest, &at, 10);
        key.mailbox_id = g_ascii_strtoll(at, &at, 10);
        return ph_views_catch_up_blocking(lease, key, g_ascii_strtoll(at, NULL, 10), NULL);
    }
    case 's':
        call_func(PH_NEWS_SETTINGS, g_ascii_strtoll(rest, NULL, 10));
        return true;
    case 'a':
        call_func(PH_NEWS_ACCOUNT, g_ascii_strtoll(rest, NULL, 10));
        return true;
    case 'o':
        call_func(PH_NEWS_OPERATOR, 0);
        return true;
    case '?':
        call_func(PH_NEWS_MISSED, 0);
        return ph_views_poll_blocking(lease, NULL);
    default:
        return true;
    }
}

PH_IN_JOB static void
hear(PhLease *lease, const char *payload)
{
    g_auto(GStrv) lines = g_strsplit(payload, "\n", -1);
    if (lines[0] == NULL || strcmp(lines[0], ph_store_settings()->holder) == 0)
        return;
    for (char **line = lines + 1; *line != NULL && !lease->lost; line++)
        hear_line(lease, *line);
}

static bool
is_stopping(void)
{
    ph_mutex_lock(&news.lock);
    bool stopping = news.stopping;
    ph_mutex_unlock(&news.lock);
    return stopping;
}

/* Waits for a notification, the end or the time. False: the connection is lost. */
static bool
wait_for_news(PhLease *lease, int64_t until_us)
{
    struct pollfd fds[2] = {
        { .fd = news.wake_fd, .events = POLLIN },
        { .fd = PQsocket(lease->conn), .events = POLLIN },
    };
    int64_t left_us = MAX(until_us - ph_monotonic_us(), 0);
    int ready = poll(fds, 2, (int)(left_us / 1000 + 1));
    if (ready < 0)
        return errno == EINTR;
    return fds[1].revents == 0 ||
           (PQconsumeInput(lease->conn) == 1 && PQstatus(lease->conn) == CONNECTION_OK);
}

PH_IN_JOB static void
hear_all(PhLease *lease)
{
    PGnotify *notify;
    while (!lease->lost && (notify = PQnotifies(lease->conn)) != NULL) {
        lease->deadline_us = ph_monotonic_us() + STATEMENT_US;
        hear(lease, notify->extra);
        PQfreemem(notify);
    }
}

/* Listens first, then looks: nothing falls between. */
PH_IN_JOB static bool
begin_listening(PhLease *lease, bool *was_away)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &listen);
    if (!ph_batch_run_blocking(lease, &batch, 0, NULL) || !ph_node_keep_blocking(lease, NULL) ||
        !ph_views_poll_blocking(lease, NULL))
        return false;
    if (*was_away)
        call_func(PH_NEWS_MISSED, 0);
    *was_away = false;
    return true;
}

PH_IN_JOB static void
stay_listening(PhLease *lease)
{
    int64_t next_renew_us = ph_monotonic_us() + RENEW_US;
    int64_t next_poll_us = ph_monotonic_us() + ph_store_settings()->poll_us;
    while (!is_stopping() && !lease->lost) {
        if (!wait_for_news(lease, MIN(next_renew_us, next_poll_us))) {
            lease->lost = true;
            return;
        }
        hear_all(lease);
        int64_t now_us = ph_monotonic_us();
        lease->deadline_us = now_us + STATEMENT_US;
        if (now_us >= next_renew_us) {
            ph_node_keep_blocking(lease, NULL);
            next_renew_us = now_us + RENEW_US;
        }
        if (now_us >= next_poll_us) {
            ph_views_poll_blocking(lease, NULL);
            next_poll_us = now_us + ph_store_settings()->poll_us;
        }
    }
}

static void
pause_until_wake(int64_t us)
{
    struct pollfd poll_fd = { .fd = news.wake_fd, .events = POLLIN };
    (void)poll(&poll_fd, 1, (int)(us / 1000));
}

static void *
listener_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ph_assert_in_job();
    PhLease *lease = NULL;
    bool was_away = false;
    while (!is_stopping()) {
        if (!make_lease(&lease) || !begin_listening(lease, &was_away)) {
            was_away = true;
            pause_until_wake(RECONNECT_US);
            continue;
        }
        stay_listening(lease);
        was_away = true;
    }
    ph_lease_free(lease);
    return NULL;
}

/* -- start and stop ---------------------------------------------------------------------------- */

void
ph_notifier_start(void)
{
    ph_mutex_init(&news.lock, PH_LOCK_NOTIFIER);
    g_cond_init(&news.arrived);
    news.stopping = false;
    news.mailboxes = mailboxes_new();
    news.lagging = lagging_new();
    news.accounts = accounts_new();
    news.settings_version = 0;
    news.operators = false;
    news.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    news.is_open = true;
    news.notifier = g_thread_new("notifier", notifier_main, NULL);
    news.listener = g_thread_new("listener", listener_main, NULL);
}

void
ph_notifier_stop(void)
{
    ph_mutex_lock(&news.lock);
    news.stopping = true;
    g_cond_broadcast(&news.arrived);
    ph_mutex_unlock(&news.lock);
    uint64_t one = 1;
    (void)!write(news.wake_fd, &one, sizeof one);
    g_thread_join(news.notifier);
    g_thread_join(news.listener);
    news.is_open = false;
    close(news.wake_fd);
    g_hash_table_unref(news.mailboxes);
    g_hash_table_unref(news.lagging);
    g_hash_table_unref(news.accounts);
    ph_mutex_clear(&news.lock);
    g_cond_clear(&news.arrived);
}
