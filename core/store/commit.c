/* commit.c - one batch of deliveries in one transaction
 *
 * Hard here: two round trips, whatever the batch holds. The first writes messages and bodies, then
 * locks the mailboxes' state rows and the accounts' usage rows, in order. What was read under these
 * locks decides, in C, who is refused and which UID each message gets. The second writes
 * memberships, changes and counters, and commits. A refusal is never an SQL error: what was written
 * for it is deleted again in the second step.
 *
 * A message id that is there already was committed by an earlier attempt whose answer was lost. The
 * insert waits for a transaction of that attempt that is still running, so a conflict means:
 * delivered.
 */
#include "store/committer.h"
#include "store/frames.h"
#include "store/view.h"

#include <string.h>

/* Bodies above this travel as a parameter of their own, not in an array that the server would
 * copy. */
enum { ALONE_BYTES = 512 * 1024 };

static const uint32_t UID_MAX = UINT32_MAX - 1;

typedef struct MailboxWork {
    PhMailboxKey key;
    uint32_t uid_validity;
    int64_t uid_next; /* before */
    int64_t modseq;   /* before */
    int64_t n_new;
    int64_t n_unseen;
    int64_t n_deleted;
    int64_t bytes;
    GPtrArray *keywords; /* char * or null by bit; null: not asked for */
    uint64_t new_keywords;
    GArray *rows; /* PhViewRow */
} MailboxWork;

typedef struct AccountWork {
    int64_t account_id;
    int64_t bytes; /* before */
    int64_t messages;
    int64_t quota_bytes;
    int64_t quota_messages;
    bool receives;
    int64_t new_bytes;
    int64_t new_messages;
} AccountWork;

typedef struct Work {
    PhLease *lease;
    PhDelivery *const *deliveries;
    unsigned count;
    GPtrArray *mailboxes; /* MailboxWork, in the order of their locks */
    GHashTable *by_key;   /* PhMailboxKey -> MailboxWork */
    GHashTable *inboxes;  /* account id -> mailbox id */
    GHashTable *accounts; /* account id -> AccountWork */
    int64_t now_us;
    bool any_keywords;
    unsigned n_messages;
} Work;

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

static void
mailbox_work_free(void *data)
{
    MailboxWork *work = data;
    g_clear_pointer(&work->keywords, g_ptr_array_unref);
    g_clear_pointer(&work->rows, g_array_unref);
    g_free(work);
}

static void
work_init(Work *work, PhLease *lease, PhDelivery *const *deliveries, unsigned count)
{
    *work = (Work){
        .lease = lease, .deliveries = deliveries, .count = count, .now_us = ph_time_now_us()
    };
    work->mailboxes = g_ptr_array_new_with_free_func(mailbox_work_free);
    work->by_key = g_hash_table_new(hash_key, equal_key);
    work->inboxes = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    work->accounts = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    for (unsigned i = 0; i < count; i++)
        for (unsigned j = 0; j < deliveries[i]->targets->len; j++)
            work->any_keywords =
                work->any_keywords || ph_delivery_target(deliveries[i], j)->keywords != NULL;
}

static void
work_clear(Work *work)
{
    g_hash_table_unref(work->by_key);
    g_hash_table_unref(work->inboxes);
    g_hash_table_unref(work->accounts);
    g_ptr_array_unref(work->mailboxes);
}

/* -- step 1: messages and bodies --------------------------------------------------------------- */

/* $1..$3 say which message row is of which delivery; the rest is one element a delivery. */
static const PhStatement insert_messages = {
    "commit-messages",
    "INSERT INTO message (account_id, message_id, size_bytes, sent_us, frames, envelope,\n"
    "                     bodystructure, outline, headers, message_id_hash, subject_hash,\n"
    "                     header_bytes, traits, preview)\n"
    "SELECT c.account_id, c.message_id, ($4::bigint[])[c.place], ($5::bigint[])[c.place],\n"
    "       ($6::text[])[c.place]::integer[], ($7::bytea[])[c.place], ($8::bytea[])[c.place],\n"
    "       ($9::bytea[])[c.place], ($10::bytea[])[c.place], ($11::bytea[])[c.place],\n"
    "       ($12::bytea[])[c.place], ($13::bigint[])[c.place], ($14::integer[])[c.place],\n"
    "       ($15::text[])[c.place]\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS c (account_id, message_id, place)\n"
    "ON CONFLICT (account_id, message_id) DO NOTHING",
};

static const PhStatement insert_bodies = {
    "commit-bodies",
    "INSERT INTO blob (account_id, message_id, codec, place, data)\n"
    "SELECT c.account_id, c.message_id, $5::smallint, 0, ($4::bytea[])[c.place]\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::integer[]) AS c (account_id, message_id, place)\n"
    "ON CONFLICT (account_id, message_id) DO NOTHING",
};

static const PhStatement insert_body = {
    "commit-body",
    "INSERT INTO blob (account_id, message_id, codec, place, data)\n"
    "SELECT c.account_id, c.message_id, $4::smallint, 0, $3::bytea\n"
    "FROM unnest($1::bigint[], $2::bigint[]) AS c (account_id, message_id)\n"
    "ON CONFLICT (account_id, message_id) DO NOTHING",
};

static void
add_bytes(PhSqlArray *array, GBytes *bytes)
{
    gsize length = 0;
    const void *data = g_bytes_get_data(bytes, &length);
    ph_sql_array_add_bytes(array, data, length);
}

static char *
frames_text(const GArray *ends)
{
    GString *text = g_string_new("{");
    for (unsigned i = 0; i < ends->len; i++)
        g_string_append_printf(text, "%s%d", i > 0 ? "," : "", g_array_index(ends, int32_t, i));
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

static int32_t
traits_of(const PhSummary *summary)
{
    return (summary->has_attachment ? PH_TRAIT_ATTACHMENT : 0) |
           (summary->has_nul ? PH_TRAIT_NUL : 0) | (summary->has_8bit ? PH_TRAIT_8BIT : 0) |
           (summary->subject_is_reply ? PH_TRAIT_REPLY : 0);
}

static void
add_place(PhSqlArray place[static 3], const PhDelivery *delivery, int64_t number)
{
    for (unsigned i = 0; i < delivery->copies->len; i++) {
        ph_sql_array_add_int(&place[0], ph_delivery_copy(delivery, i)->account_id);
        ph_sql_array_add_int(&place[1], ph_delivery_copy(delivery, i)->message_id);
        ph_sql_array_add_int(&place[2], number);
    }
}

static void
add_arrays(PhParams *params, PhSqlArray *arrays, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ph_param_array(params, &arrays[i]);
}

static void
init_arrays(PhSqlArray *arrays, const PhSqlType *types, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ph_sql_array_init(&arrays[i], types[i]);
}

static void
add_messages(Work *work, PhBatch *batch)
{
    enum { PLACES = 3, VALUES = 12 };
    static const PhSqlType types[PLACES + VALUES] = {
        PH_SQL_INT8,
        PH_SQL_INT8,
        PH_SQL_INT4, /* places */
        PH_SQL_INT8,
        PH_SQL_INT8,
        PH_SQL_TEXT,
        PH_SQL_BYTEA,
        PH_SQL_BYTEA,
        PH_SQL_BYTEA,
        PH_SQL_BYTEA,
        PH_SQL_BYTEA,
        PH_SQL_BYTEA,
        PH_SQL_INT8,
        PH_SQL_INT4,
        PH_SQL_TEXT,
    };
    PhSqlArray arrays[PLACES + VALUES];
    init_arrays(arrays, types, G_N_ELEMENTS(types));
    for (unsigned i = 0; i < work->count; i++) {
        const PhDelivery *delivery = work->deliveries[i];
        const PhSummary *summary = delivery->summary;
        g_autofree char *frames = frames_text(delivery->ends);
        PhSqlArray *value = arrays + PLACES;
        add_place(arrays, delivery, (int64_t)i + 1);
        ph_sql_array_add_int(value++, (int64_t)summary->size);
        if (summary->sent_us == INT64_MIN)
            ph_sql_array_add_null(value++);
        else
            ph_sql_array_add_int(value++, summary->sent_us);
        ph_sql_array_add_text(value++, frames);
        add_bytes(value++, summary->envelope);
        add_bytes(value++, summary->body_structure);
        add_bytes(value++, summary->outline);
        add_bytes(value++, summary->header_cache);
        if (summary->has_message_id)
            ph_sql_array_add_bytes(value++, summary->message_id_hash, PH_SUMMARY_HASH_BYTES);
        else
            ph_sql_array_add_null(value++);
        ph_sql_array_add_bytes(value++, summary->subject_base_hash, PH_SUMMARY_HASH_BYTES);
        ph_sql_array_add_int(value++, (int64_t)summary->header_size);
        ph_sql_array_add_int(value++, traits_of(summary));
        ph_sql_array_add_text(value++, summary->preview);
        work->n_messages += delivery->copies->len;
    }
    add_arrays(ph_batch_add(batch, &insert_messages), arrays, G_N_ELEMENTS(arrays));
}

static void
add_body_alone(PhBatch *batch, const PhDelivery *delivery)
{
    PhSqlArray place[3];
    init_arrays(place, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8 }, 3);
    add_place(place, delivery, 1);
    PhParams *params = ph_batch_add(batch, &insert_body);
    add_arrays(params, place, 2);
    ph_sql_array_clear(&place[2]);
    gsize length = 0;
    const void *data = g_bytes_get_data(delivery->data, &length);
    ph_param_bytes(params, data, length);
    ph_param_int16(params, PH_CODEC_ZSTD);
}

static void
add_bodies(Work *work, PhBatch *batch)
{
    PhSqlArray arrays[4];
    init_arrays(
        arrays, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT4, PH_SQL_BYTEA }, 4);
    for (unsigned i = 0; i < work->count; i++) {
        const PhDelivery *delivery = work->deliveries[i];
        if (g_bytes_get_size(delivery->data) > ALONE_BYTES) {
            add_body_alone(batch, delivery);
            continue;
        }
        add_bytes(&arrays[3], delivery->data);
        add_place(arrays, delivery, arrays[3].count);
    }
    PhParams *params = ph_batch_add(batch, &insert_bodies);
    add_arrays(params, arrays, G_N_ELEMENTS(arrays));
    ph_param_int16(params, PH_CODEC_ZSTD);
}

/* -- step 2: locks ----------------------------------------------------------------------------- */

/* Mailbox 0 is INBOX. Materialized: when a row lock had to wait, PostgreSQL looks at the joined row
 * again, and does not find it behind a UNION that was merged into the query. */
#define WANTED_MAILBOXES \
    "WITH asked AS (\n" \
    "    SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS a (account_id, mailbox_id)\n" \
    "), wanted AS MATERIALIZED (\n" \
    "    SELECT account_id, mailbox_id, false AS is_inbox FROM asked WHERE mailbox_id <> 0\n" \
    "    UNION ALL\n" \
    "    SELECT m.account_id, m.mailbox_id, true\n" \
    "    FROM asked JOIN mailbox m ON m.account_id = asked.account_id AND m.name = 'INBOX'\n" \
    "    WHERE asked.mailbox_id = 0\n" \
    ")\n"

static const PhStatement lock_states = {
    "commit-states",
    WANTED_MAILBOXES
    "SELECT s.account_id, s.mailbox_id, w.is_inbox, s.uid_validity, s.uid_next, s.modseq\n"
    "FROM wanted w\n"
    "JOIN mailbox_state s ON s.account_id = w.account_id AND s.mailbox_id = w.mailbox_id\n"
    "ORDER BY s.account_id, s.mailbox_id\n"
    "FOR UPDATE OF s",
};

static const PhStatement read_keywords = {
    "commit-keywords",
    WANTED_MAILBOXES
    "SELECT DISTINCT k.account_id, k.mailbox_id, k.bit, k.name\n"
    "FROM wanted w\n"
    "JOIN keyword k ON k.account_id = w.account_id AND k.mailbox_id = w.mailbox_id",
};

static const PhStatement lock_usage = {
    "commit-usage",
    "SELECT account_id, bytes, messages, quota_bytes, quota_messages, receives\n"
    "FROM usage\n"
    "WHERE account_id = ANY ($1::bigint[])\n"
    "ORDER BY account_id\n"
    "FOR UPDATE",
};

/* The mailboxes of all targets, each once. */
static void
add_targets(Work *work, PhParams *params)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(hash_key, equal_key);
    PhSqlArray arrays[2];
    init_arrays(arrays, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8 }, 2);
    for (unsigned i = 0; i < work->count; i++) {
        for (unsigned j = 0; j < work->deliveries[i]->targets->len; j++) {
            PhMailboxKey *key = &ph_delivery_target(work->deliveries[i], j)->mailbox;
            if (!g_hash_table_add(seen, key))
                continue;
            ph_sql_array_add_int(&arrays[0], key->account_id);
            ph_sql_array_add_int(&arrays[1], key->mailbox_id);
        }
    }
    add_arrays(params, arrays, 2);
}

static void
add_accounts(Work *work, PhParams *params)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_auto(PhSqlArray) ids;
    ph_sql_array_init(&ids, PH_SQL_INT8);
    for (unsigned i = 0; i < work->count; i++)
        for (unsigned j = 0; j < work->deliveries[i]->copies->len; j++) {
            int64_t *id = &ph_delivery_copy(work->deliveries[i], j)->account_id;
            if (g_hash_table_add(seen, id))
                ph_sql_array_add_int(&ids, *id);
        }
    ph_param_array(params, &ids);
}

static int64_t *
number_new(int64_t number)
{
    int64_t *copy = g_new(int64_t, 1);
    *copy = number;
    return copy;
}

static void
take_states(Work *work, const PGresult *rows)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        PhMailboxKey key = { ph_cell_int64(rows, i, 0), ph_cell_int64(rows, i, 1) };
        if (ph_cell_bool(rows, i, 2))
            g_hash_table_replace(
                work->inboxes, number_new(key.account_id), number_new(key.mailbox_id));
        if (g_hash_table_contains(work->by_key, &key))
            continue;
        MailboxWork *mailbox = g_new0(MailboxWork, 1);
        mailbox->key = key;
        mailbox->uid_validity = (uint32_t)ph_cell_int64(rows, i, 3);
        mailbox->uid_next = ph_cell_int64(rows, i, 4);
        mailbox->modseq = ph_cell_int64(rows, i, 5);
        mailbox->rows = g_array_new(FALSE, TRUE, sizeof(PhViewRow));
        if (work->any_keywords)
            mailbox->keywords = ph_keywords_new();
        g_ptr_array_add(work->mailboxes, mailbox);
        g_hash_table_insert(work->by_key, &mailbox->key, mailbox);
    }
}

static void
take_keywords(Work *work, const PGresult *rows)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        PhMailboxKey key = { ph_cell_int64(rows, i, 0), ph_cell_int64(rows, i, 1) };
        MailboxWork *mailbox = g_hash_table_lookup(work->by_key, &key);
        int bit = ph_cell_int16(rows, i, 2);
        if (mailbox == NULL || mailbox->keywords->pdata[bit] != NULL)
            continue;
        mailbox->keywords->pdata[bit] = ph_cell_dup(rows, i, 3);
    }
}

static void
take_usage(Work *work, const PGresult *rows)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        AccountWork *account = g_new0(AccountWork, 1);
        account->account_id = ph_cell_int64(rows, i, 0);
        account->bytes = ph_cell_int64(rows, i, 1);
        account->messages = ph_cell_int64(rows, i, 2);
        account->quota_bytes = ph_cell_int64(rows, i, 3);
        account->quota_messages = ph_cell_int64(rows, i, 4);
        account->receives = ph_cell_bool(rows, i, 5);
        g_hash_table_insert(work->accounts, &account->account_id, account);
    }
}

/* -- judging: who is refused ------------------------------------------------------------------- */

static MailboxWork *
mailbox_of(Work *work, const PhTargetState *target)
{
    PhMailboxKey key = target->mailbox;
    if (key.mailbox_id == 0) {
        const int64_t *inbox = g_hash_table_lookup(work->inboxes, &key.account_id);
        if (inbox == NULL)
            return NULL;
        key.mailbox_id = *inbox;
    }
    return g_hash_table_lookup(work->by_key, &key);
}

static bool
is_over_quota(const AccountWork *account, int64_t size)
{
    if (account->quota_bytes > 0 &&
        account->bytes + account->new_bytes + size > account->quota_bytes)
        return true;
    return account->quota_messages > 0 &&
           account->messages + account->new_messages + 1 > account->quota_messages;
}

/* A negative sign takes back. */
static void
count_target(const PhTargetState *target, int64_t size, int sign)
{
    MailboxWork *mailbox = target->mailbox_work;
    AccountWork *account = target->account_work;
    mailbox->n_new += sign;
    mailbox->bytes += sign * size;
    mailbox->n_unseen += (target->flags & PH_FLAG_SEEN) == 0 ? sign : 0;
    mailbox->n_deleted += (target->flags & PH_FLAG_DELETED) != 0 ? sign : 0;
    account->new_bytes += sign * size;
    account->new_messages += sign;
}

static bool
give_keywords(MailboxWork *mailbox, PhTargetState *target, const char **why_out)
{
    target->keyword_bits = 0;
    for (char **name = target->keywords; name != NULL && *name != NULL; name++) {
        bool is_new = false;
        int bit = ph_keyword_bit(mailbox->keywords, *name, &is_new);
        if (bit < 0) {
            *why_out = ph_keyword_is_valid(*name) ? "the mailbox has no room for another keyword"
                                                  : "a keyword is malformed";
            return false;
        }
        target->keyword_bits |= UINT64_C(1) << bit;
        mailbox->new_keywords |= is_new ? UINT64_C(1) << bit : 0;
    }
    return true;
}

static void
judge_target(Work *work, PhDelivery *delivery, unsigned index)
{
    PhTargetState *target = ph_delivery_target(delivery, index);
    MailboxWork *mailbox = mailbox_of(work, target);
    AccountWork *account = g_hash_table_lookup(work->accounts, &target->mailbox.account_id);
    int64_t size = (int64_t)delivery->summary->size;
    const char *why = NULL;
    target->accepted = false;
    if (account == NULL || !account->receives)
        ph_delivery_refuse(delivery, index, PH_ERROR_NOT_FOUND, "no such account");
    else if (mailbox == NULL)
        ph_delivery_refuse(delivery, index, PH_ERROR_NOT_FOUND, "no such mailbox");
    else if (target->check_quota && is_over_quota(account, size))
        ph_delivery_refuse(delivery, index, PH_ERROR_LIMIT, "the account is over its quota");
    else if (mailbox->uid_next + mailbox->n_new > UID_MAX)
        ph_delivery_refuse(
            delivery, index, PH_ERROR_LIMIT, "the mailbox has no more numbers for messages");
    else if (!give_keywords(mailbox, target, &why))
        ph_delivery_refuse(delivery, index, PH_ERROR_LIMIT, why);
    else {
        target->accepted = true;
        target->mailbox_work = mailbox;
        target->account_work = account;
        count_target(target, size, 1);
    }
}

static void
refuse_others(PhDelivery *delivery, const PhTargetState *refused)
{
    PhError code = refused->result.code;
    g_autofree char *text = g_strdup(refused->result.text);
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        PhTargetState *target = ph_delivery_target(delivery, i);
        if (!target->accepted)
            continue;
        count_target(target, (int64_t)delivery->summary->size, -1);
        target->accepted = false;
        ph_delivery_refuse(delivery, i, code, text);
    }
}

static void
judge(Work *work, PhDelivery *delivery)
{
    const PhTargetState *refused = NULL;
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        judge_target(work, delivery, i);
        if (refused == NULL && !ph_delivery_target(delivery, i)->accepted)
            refused = ph_delivery_target(delivery, i);
    }
    if (refused != NULL && delivery->mode == PH_DELIVERY_ALL_OR_NONE)
        refuse_others(delivery, refused);
    for (unsigned i = 0; i < delivery->copies->len; i++)
        ph_delivery_copy(delivery, i)->kept = false;
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        const PhTargetState *target = ph_delivery_target(delivery, i);
        if (target->accepted)
            ph_delivery_copy_of(delivery, target->mailbox.account_id)->kept = true;
    }
}

/* UIDs, in the order of the batch. */
static void
number_messages(Work *work, PhDelivery *delivery)
{
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        PhTargetState *target = ph_delivery_target(delivery, i);
        if (!target->accepted)
            continue;
        MailboxWork *mailbox = target->mailbox_work;
        PhViewRow row = {
            .uid = (uint32_t)(mailbox->uid_next + mailbox->rows->len),
            .size_bytes = (uint32_t)delivery->summary->size,
            .flags = target->flags,
            .keywords = target->keyword_bits,
            .modseq = mailbox->modseq + 1,
            .message_id = ph_delivery_copy_of(delivery, target->mailbox.account_id)->message_id,
            .internal_date_us =
                target->internal_date_us != INT64_MIN ? target->internal_date_us : work->now_us,
        };
        g_array_append_val(mailbox->rows, row);
        g_free(target->text);
        target->text = NULL;
        target->result = (PhDeliveryResult){
            .delivered = true,
            .uid_validity = mailbox->uid_validity,
            .uid = row.uid,
        };
    }
}

/* -- step 3: memberships, changes, counters ---------------------------------------------------- */

static const PhStatement drop_bodies = {
    "commit-drop-bodies",
    "DELETE FROM blob b USING unnest($1::bigint[], $2::bigint[]) AS d (account_id, message_id)\n"
    "WHERE b.account_id = d.account_id AND b.message_id = d.message_id",
};

static const PhStatement drop_messages = {
    "commit-drop-messages",
    "DELETE FROM message m USING unnest($1::bigint[], $2::bigint[]) AS d (account_id, message_id)\n"
    "WHERE m.account_id = d.account_id AND m.message_id = d.message_id",
};

static const PhStatement update_states = {
    "commit-update-states",
    "UPDATE mailbox_state s\n"
    "SET uid_next = s.uid_next + n.n_new, modseq = s.modseq + 1, n_messages = s.n_messages + n.n_new::integer,\n"
    "    n_unseen = s.n_unseen + n.n_unseen::integer, n_deleted = s.n_deleted + n.n_deleted::integer,\n"
    "    size_bytes = s.size_bytes + n.bytes\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])\n"
    "     AS n (account_id, mailbox_id, n_new, n_unseen, n_deleted, bytes)\n"
    "WHERE s.account_id = n.account_id AND s.mailbox_id = n.mailbox_id",
};

static const PhStatement insert_changes = {
    "commit-changes",
    "INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
    "SELECT account_id, mailbox_id, modseq, 1, ARRAY[first_uid, last_uid]\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])\n"
    "     AS n (account_id, mailbox_id, modseq, first_uid, last_uid)",
};

static const PhStatement insert_keywords = {
    "commit-new-keywords",
    "INSERT INTO keyword (account_id, mailbox_id, bit, name)\n"
    "SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::text[])",
};

static const PhStatement insert_memberships = {
    "commit-memberships",
    "INSERT INTO mailbox_message (account_id, mailbox_id, uid, message_id, modseq, keywords, internal_date_us, saved_us,\n"
    "                             size_bytes, flags)\n"
    "SELECT account_id, mailbox_id, uid, message_id, modseq, keywords, internal_date_us, $10::bigint, size_bytes, flags\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],\n"
    "            $8::integer[], $9::integer[])\n"
    "     AS n (account_id, mailbox_id, uid, message_id, modseq, keywords, internal_date_us, size_bytes, flags)",
};

static const PhStatement update_usage = {
    "commit-update-usage",
    "UPDATE usage u\n"
    "SET bytes = u.bytes + n.bytes, messages = u.messages + n.messages\n"
    "FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS n (account_id, bytes, messages)\n"
    "WHERE u.account_id = n.account_id",
};

/* Takes back the rows of messages that nobody took. */
static void
add_drops(Work *work, PhBatch *batch)
{
    const PhStatement *const steps[] = { &drop_bodies, &drop_messages };
    for (size_t step = 0; step < G_N_ELEMENTS(steps); step++) {
        PhSqlArray arrays[2];
        init_arrays(arrays, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8 }, 2);
        for (unsigned i = 0; i < work->count; i++)
            for (unsigned j = 0; j < work->deliveries[i]->copies->len; j++) {
                const PhMessageCopy *copy = ph_delivery_copy(work->deliveries[i], j);
                if (copy->kept)
                    continue;
                ph_sql_array_add_int(&arrays[0], copy->account_id);
                ph_sql_array_add_int(&arrays[1], copy->message_id);
            }
        if (arrays[0].count > 0)
            add_arrays(ph_batch_add(batch, steps[step]), arrays, 2);
        ph_sql_array_clear(&arrays[0]);
        ph_sql_array_clear(&arrays[1]);
    }
}

static void
add_states_and_changes(Work *work, PhBatch *batch)
{
    PhSqlArray states[6];
    PhSqlArray changes[5];
    for (int i = 0; i < 6; i++)
        ph_sql_array_init(&states[i], PH_SQL_INT8);
    for (int i = 0; i < 5; i++)
        ph_sql_array_init(&changes[i], PH_SQL_INT8);
    for (unsigned i = 0; i < work->mailboxes->len; i++) {
        const MailboxWork *mailbox = work->mailboxes->pdata[i];
        if (mailbox->n_new == 0)
            continue;
        const int64_t state[6] = { mailbox->key.account_id, mailbox->key.mailbox_id, mailbox->n_new,
            mailbox->n_unseen, mailbox->n_deleted, mailbox->bytes };
        const int64_t change[5] = { mailbox->key.account_id, mailbox->key.mailbox_id,
            mailbox->modseq + 1, mailbox->uid_next, mailbox->uid_next + mailbox->n_new - 1 };
        for (int j = 0; j < 6; j++)
            ph_sql_array_add_int(&states[j], state[j]);
        for (int j = 0; j < 5; j++)
            ph_sql_array_add_int(&changes[j], change[j]);
    }
    add_arrays(ph_batch_add(batch, &update_states), states, 6);
    add_arrays(ph_batch_add(batch, &insert_changes), changes, 5);
}

static void
add_new_keywords(Work *work, PhBatch *batch)
{
    PhSqlArray arrays[4];
    init_arrays(
        arrays, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT2, PH_SQL_TEXT }, 4);
    for (unsigned i = 0; i < work->mailboxes->len; i++) {
        const MailboxWork *mailbox = work->mailboxes->pdata[i];
        for (unsigned bit = 0; bit < PH_KEYWORDS_MAX; bit++) {
            if ((mailbox->new_keywords >> bit & 1) == 0)
                continue;
            ph_sql_array_add_int(&arrays[0], mailbox->key.account_id);
            ph_sql_array_add_int(&arrays[1], mailbox->key.mailbox_id);
            ph_sql_array_add_int(&arrays[2], bit);
            ph_sql_array_add_text(&arrays[3], mailbox->keywords->pdata[bit]);
        }
    }
    if (arrays[0].count > 0)
        add_arrays(ph_batch_add(batch, &insert_keywords), arrays, 4);
    for (int i = 0; i < 4; i++)
        ph_sql_array_clear(&arrays[i]);
}

static void
add_memberships(Work *work, PhBatch *batch)
{
    static const PhSqlType types[9] = { PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8,
        PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT4, PH_SQL_INT4 };
    PhSqlArray arrays[9];
    init_arrays(arrays, types, 9);
    for (unsigned i = 0; i < work->mailboxes->len; i++) {
        const MailboxWork *mailbox = work->mailboxes->pdata[i];
        for (unsigned j = 0; j < mailbox->rows->len; j++) {
            const PhViewRow *row = &g_array_index(mailbox->rows, PhViewRow, j);
            const int64_t values[9] = { mailbox->key.account_id, mailbox->key.mailbox_id, row->uid,
                row->message_id, row->modseq, (int64_t)row->keywords, row->internal_date_us,
                row->size_bytes, row->flags };
            for (int k = 0; k < 9; k++)
                ph_sql_array_add_int(&arrays[k], values[k]);
        }
    }
    PhParams *params = ph_batch_add(batch, &insert_memberships);
    add_arrays(params, arrays, 9);
    ph_param_int64(params, work->now_us);
}

static void
add_usage(Work *work, PhBatch *batch)
{
    PhSqlArray arrays[3];
    init_arrays(arrays, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8 }, 3);
    GHashTableIter iter;
    void *value;
    g_hash_table_iter_init(&iter, work->accounts);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const AccountWork *account = value;
        if (account->new_messages == 0)
            continue;
        ph_sql_array_add_int(&arrays[0], account->account_id);
        ph_sql_array_add_int(&arrays[1], account->new_bytes);
        ph_sql_array_add_int(&arrays[2], account->new_messages);
    }
    add_arrays(ph_batch_add(batch, &update_usage), arrays, 3);
}

/* -- an earlier attempt was committed ---------------------------------------------------------- */

static const PhStatement find_committed = {
    "commit-find",
    "SELECT c.account_id, c.message_id, m.mailbox_id, m.uid, s.uid_validity, b.name = 'INBOX'\n"
    "FROM unnest($1::bigint[], $2::bigint[]) AS c (account_id, message_id)\n"
    "JOIN message g ON g.account_id = c.account_id AND g.message_id = c.message_id\n"
    "LEFT JOIN mailbox_message m ON m.account_id = c.account_id AND m.message_id = c.message_id\n"
    "LEFT JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "LEFT JOIN mailbox b ON b.account_id = m.account_id AND b.mailbox_id = m.mailbox_id",
};

static bool
is_in_row(const PhTargetState *target, const PGresult *rows, int i)
{
    if (PQgetisnull(rows, i, 2) || ph_cell_int64(rows, i, 0) != target->mailbox.account_id)
        return false;
    return target->mailbox.mailbox_id == 0
               ? ph_cell_bool(rows, i, 5)
               : ph_cell_int64(rows, i, 2) == target->mailbox.mailbox_id;
}

/* Where the message is there but not in the mailbox, it was moved or expunged since: delivered, its
 * UID is gone. */
static void
take_committed(PhDelivery *delivery, const PGresult *rows)
{
    for (unsigned i = 0; i < delivery->targets->len; i++) {
        PhTargetState *target = ph_delivery_target(delivery, i);
        const PhMessageCopy *copy = ph_delivery_copy_of(delivery, target->mailbox.account_id);
        for (int row = 0; row < PQntuples(rows); row++) {
            if (ph_cell_int64(rows, row, 1) != copy->message_id)
                continue;
            target->result.delivered = true;
            if (!is_in_row(target, rows, row))
                continue;
            target->result.uid = (uint32_t)ph_cell_int64(rows, row, 3);
            target->result.uid_validity = (uint32_t)ph_cell_int64(rows, row, 4);
        }
    }
}

PH_IN_JOB static bool
find_earlier(PhLease *lease, PhDelivery *delivery, bool *found_out, GError **error)
{
    PhSqlArray place[3];
    init_arrays(place, (const PhSqlType[]){ PH_SQL_INT8, PH_SQL_INT8, PH_SQL_INT8 }, 3);
    add_place(place, delivery, 1);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    add_arrays(ph_batch_add(&batch, &find_committed), place, 2);
    ph_sql_array_clear(&place[2]);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    *found_out = PQntuples(rows) > 0;
    if (*found_out) {
        take_committed(delivery, rows);
        ph_delivery_refuse_all(delivery, PH_ERROR_NOT_FOUND, "no such mailbox");
    }
    return true;
}

/* Of what was found only this server may know: a COMMIT that waits for a synchronous replica shows when
 * the server is started again, copied or not. The COMMIT of a record behind it waits for both. */
static const PhStatement write_record = {
    "commit-record",
    "SELECT pg_logical_emit_message(true, 'posthouse', 'found')",
};

PH_IN_JOB static bool
commit_what_was_found(PhLease *lease, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_batch_add(&batch, &write_record);
    ph_batch_add(&batch, &ph_sql_commit);
    return ph_batch_run_blocking(lease, &batch, 0, error);
}

/* Some message ids are there already: those deliveries are done, the others are run again. */
PH_IN_JOB static bool
commit_rest(Work *work, GError **error)
{
    ph_lease_roll_back(work->lease);
    g_autoptr(GPtrArray) rest = g_ptr_array_new();
    for (unsigned i = 0; i < work->count; i++) {
        bool found = false;
        if (!find_earlier(work->lease, work->deliveries[i], &found, error))
            return false;
        if (!found)
            g_ptr_array_add(rest, work->deliveries[i]);
    }
    if (rest->len == work->count) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "a message id is in use");
        return false;
    }
    if (rest->len == 0)
        return commit_what_was_found(work->lease, error);
    return ph_batch_commit_blocking(
        work->lease, (PhDelivery *const *)rest->pdata, rest->len, error);
}

/* -- the whole --------------------------------------------------------------------------------- */

PH_IN_JOB static bool
write_and_lock(Work *work, PhBatch *batch, bool *conflict_out, GError **error)
{
    ph_batch_add(batch, &ph_sql_begin);
    add_messages(work, batch);
    add_bodies(work, batch);
    unsigned states = batch->n_calls;
    add_targets(work, ph_batch_add(batch, &lock_states));
    add_accounts(work, ph_batch_add(batch, &lock_usage));
    if (work->any_keywords)
        add_targets(work, ph_batch_add(batch, &read_keywords));
    if (!ph_batch_run_blocking(work->lease, batch, 0, error))
        return false;
    *conflict_out = ph_batch_affected(batch, 1) != work->n_messages;
    take_states(work, ph_batch_result(batch, states));
    take_usage(work, ph_batch_result(batch, states + 1));
    if (work->any_keywords)
        take_keywords(work, ph_batch_result(batch, states + 2));
    return true;
}

PH_IN_JOB static bool
finish_and_commit(Work *work, PhBatch *batch, GError **error)
{
    ph_batch_restart(batch);
    add_drops(work, batch);
    add_states_and_changes(work, batch);
    if (work->any_keywords)
        add_new_keywords(work, batch);
    add_memberships(work, batch);
    add_usage(work, batch);
    ph_batch_add(batch, &ph_sql_commit);
    if (ph_fault("commit-before")) {
        ph_lease_set_lost(work->lease, error);
        return false;
    }
    if (!ph_batch_run_blocking(work->lease, batch, 0, error))
        return false;
    if (ph_fault("commit-after")) {
        work->lease->commit_sent = true;
        ph_lease_set_lost(work->lease, error);
        return false;
    }
    return true;
}

PH_IN_JOB static void
tell_views(Work *work)
{
    for (unsigned i = 0; i < work->mailboxes->len; i++) {
        MailboxWork *mailbox = work->mailboxes->pdata[i];
        if (mailbox->n_new == 0)
            continue;
        PhViewDelta *delta = ph_view_delta_new(mailbox->key);
        delta->uid_validity = mailbox->uid_validity;
        delta->uid_next = (uint32_t)(mailbox->uid_next + mailbox->n_new);
        delta->modseq = mailbox->modseq + 1;
        delta->rows = g_steal_pointer(&mailbox->rows);
        delta->keywords = mailbox->new_keywords != 0 ? g_steal_pointer(&mailbox->keywords) : NULL;
        ph_views_apply_blocking(delta, NULL);
    }
}

bool
ph_batch_commit_blocking(
    PhLease *lease, PhDelivery *const *deliveries, unsigned count, GError **error)
{
    Work work;
    work_init(&work, lease, deliveries, count);
    PhBatch *batch = g_new(PhBatch, 1);
    ph_batch_init(batch);
    bool conflict = false;
    bool committed = write_and_lock(&work, batch, &conflict, error);
    if (committed && conflict) {
        committed = commit_rest(&work, error);
    } else if (committed) {
        for (unsigned i = 0; i < count; i++) {
            judge(&work, deliveries[i]);
            number_messages(&work, deliveries[i]);
        }
        committed = finish_and_commit(&work, batch, error);
        if (committed)
            tell_views(&work);
    }
    for (unsigned i = 0; i < count && !committed; i++)
        ph_delivery_forget_results(deliveries[i]);
    ph_batch_clear(batch);
    g_free(batch);
    work_clear(&work);
    return committed;
}
