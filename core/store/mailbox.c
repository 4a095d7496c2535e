/* mailbox.c - the tree of mailboxes: list, find, create, delete, rename, subscriptions
 *
 * Hard here: changes of the tree take several steps that belong together. Each locks the account's
 * row first, then mailbox_state rows, so that two of them never interleave; deliveries do not touch
 * the account's row and are not held up.
 */
#include "store/name.h"
#include "store/view.h"

#include <string.h>

enum { MAILBOXES_MAX = 10000 };

void
ph_mailbox_free(PhMailbox *mailbox)
{
    if (mailbox == NULL)
        return;
    g_free(mailbox->name);
    g_free(mailbox);
}

/* -- the standard mailboxes -------------------------------------------------------------------- */

static const PhStatement add_standard = {
    "mailbox-standard",
    "WITH made AS (\n"
    "    INSERT INTO mailbox (account_id, name, special_use)\n"
    "    SELECT $1::bigint, name, use\n"
    "    FROM (VALUES ('INBOX', 1), ('Drafts', 2), ('Sent', 3), ('Junk', 4), ('Trash', 5), ('Archive', 6)) AS s (name, use)\n"
    "    RETURNING mailbox_id, name\n"
    "), subscribed AS (\n"
    "    INSERT INTO subscription (account_id, name) SELECT $1::bigint, name FROM made\n"
    ")\n"
    "INSERT INTO mailbox_state (account_id, mailbox_id, uid_validity)\n"
    "SELECT $1::bigint, mailbox_id, $2::bigint FROM made",
};

static int64_t
now_s(void)
{
    return ph_time_now_us() / 1000000;
}

void
ph_mailbox_add_standard(PhBatch *batch, int64_t account_id)
{
    PhParams *params = ph_batch_add(batch, &add_standard);
    ph_param_int64(params, account_id);
    ph_param_int64(params, now_s());
}

/* -- reading ----------------------------------------------------------------------------------- */

#define MAILBOX_COLUMNS \
    "m.mailbox_id, m.name, m.special_use, s.mailbox_id IS NOT NULL,\n" \
    "       EXISTS (SELECT FROM subscription b WHERE b.account_id = m.account_id AND b.name = m.name),\n" \
    "       s.uid_validity, s.uid_next, s.modseq, s.n_messages, s.n_unseen, s.n_deleted, s.size_bytes"

/* '0' is the character behind '/'. */
#define HAS_CHILDREN \
    "EXISTS (SELECT FROM mailbox c\n" \
    "        WHERE c.account_id = m.account_id AND c.name > m.name || '/' AND c.name < m.name || '0')"

static PhMailbox *
mailbox_from_row(int64_t account_id, const PGresult *rows, int i)
{
    PhMailbox *mailbox = g_new0(PhMailbox, 1);
    mailbox->key.account_id = account_id;
    mailbox->key.mailbox_id = ph_cell_int64(rows, i, 0);
    mailbox->name = ph_cell_dup(rows, i, 1);
    mailbox->use = (PhSpecialUse)ph_cell_int16(rows, i, 2);
    mailbox->selectable = ph_cell_bool(rows, i, 3);
    mailbox->subscribed = ph_cell_bool(rows, i, 4);
    mailbox->uid_validity = (uint32_t)ph_cell_int64(rows, i, 5);
    mailbox->uid_next = (uint32_t)ph_cell_int64(rows, i, 6);
    mailbox->highest_modseq = ph_cell_int64(rows, i, 7);
    mailbox->n_messages = (uint32_t)ph_cell_int32(rows, i, 8);
    mailbox->n_unseen = (uint32_t)ph_cell_int32(rows, i, 9);
    mailbox->n_deleted = (uint32_t)ph_cell_int32(rows, i, 10);
    mailbox->size_bytes = ph_cell_int64(rows, i, 11);
    return mailbox;
}

static const PhStatement list_mailboxes = {
    "mailbox-list",
    "SELECT " MAILBOX_COLUMNS "\n"
    "FROM mailbox m\n"
    "LEFT JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "WHERE m.account_id = $1::bigint",
};

static int
by_name(const void *left, const void *right)
{
    const PhMailbox *const *a = left;
    const PhMailbox *const *b = right;
    return ph_name_compare((*a)->name, (*b)->name);
}

GPtrArray *
ph_mailbox_list_blocking(int64_t actor_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &list_mailboxes), actor_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *list = g_ptr_array_new_with_free_func((GDestroyNotify)ph_mailbox_free);
    for (int i = 0; i < PQntuples(rows); i++)
        g_ptr_array_add(list, mailbox_from_row(actor_id, rows, i));
    g_ptr_array_sort(list, by_name);
    for (unsigned i = 0; i + 1 < list->len; i++) {
        PhMailbox *mailbox = list->pdata[i];
        const PhMailbox *next = list->pdata[i + 1];
        mailbox->has_children = ph_name_is_below(next->name, mailbox->name);
    }
    return list;
}

static const PhStatement find_mailbox = {
    "mailbox-find",
    "SELECT " MAILBOX_COLUMNS ", " HAS_CHILDREN "\n"
    "FROM mailbox m\n"
    "LEFT JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "WHERE m.account_id = $1::bigint AND m.name = $2::text",
};

static PhMailbox *
not_found(const char *name, GError **error)
{
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no mailbox \"%s\"", name);
    return NULL;
}

/* `name` is normalised. */
PH_IN_JOB static PhMailbox *
find(PhLease *lease, int64_t actor_id, const char *name, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &find_mailbox);
    ph_param_int64(params, actor_id);
    ph_param_text(params, name);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    if (PQntuples(rows) == 0)
        return not_found(name, error);
    PhMailbox *mailbox = mailbox_from_row(actor_id, rows, 0);
    mailbox->has_children = ph_cell_bool(rows, 0, 12);
    return mailbox;
}

PhMailbox *
ph_mailbox_find_blocking(int64_t actor_id, const char *name, int64_t deadline_us, GError **error)
{
    g_autofree char *normal = ph_mailbox_name_normalise(name, strlen(name), error);
    if (normal == NULL)
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    return find(lease, actor_id, normal, error);
}

/* -- subscriptions ----------------------------------------------------------------------------- */

static const PhStatement list_subscriptions = {
    "subscription-list",
    "SELECT name FROM subscription WHERE account_id = $1::bigint",
};

static int
by_text(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return ph_name_compare(*a, *b);
}

GPtrArray *
ph_subscription_list_blocking(int64_t actor_id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &list_subscriptions), actor_id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    for (int i = 0; i < PQntuples(rows); i++)
        g_ptr_array_add(names, ph_cell_dup(rows, i, 0));
    g_ptr_array_sort(names, by_text);
    return names;
}

static const PhStatement subscribe = {
    "subscription-add",
    "INSERT INTO subscription (account_id, name)\n"
    "SELECT $1::bigint, $2::text\n"
    "WHERE (SELECT count(*) FROM subscription WHERE account_id = $1::bigint) < $3::bigint\n"
    "ON CONFLICT DO NOTHING",
};

static const PhStatement unsubscribe = {
    "subscription-remove",
    "DELETE FROM subscription WHERE account_id = $1::bigint AND name = $2::text",
};

bool
ph_subscription_set_blocking(
    int64_t actor_id, const char *name, bool subscribed, int64_t deadline_us, GError **error)
{
    g_autofree char *normal = ph_mailbox_name_normalise(name, strlen(name), error);
    if (normal == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, subscribed ? &subscribe : &unsubscribe);
    ph_param_int64(params, actor_id);
    ph_param_text(params, normal);
    if (subscribed)
        ph_param_int64(params, MAILBOXES_MAX);
    return ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error);
}

/* -- the tree, under the account's lock -------------------------------------------------------- */

static const PhStatement lock_account = {
    "tree-lock",
    "SELECT state FROM account WHERE account_id = $1::bigint FOR NO KEY UPDATE",
};

/* What is there of some names, and how many mailboxes the account has. */
static const PhStatement look_at_names = {
    "tree-names",
    "SELECT m.name, m.mailbox_id, s.mailbox_id IS NOT NULL, " HAS_CHILDREN "\n"
    "FROM mailbox m\n"
    "LEFT JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "WHERE m.account_id = $1::bigint AND m.name = ANY ($2::text[])",
};

static const PhStatement count_mailboxes = {
    "tree-count",
    "SELECT count(*) FROM mailbox WHERE account_id = $1::bigint",
};

typedef struct Tree {
    PhLease *lease;
    int64_t account_id;
    PhBatch batch; /* of the look: results 2 and 3 */
} Tree;

PH_IN_JOB static bool
tree_begin(Tree *tree, PhLease *lease, int64_t account_id, const GPtrArray *names, GError **error)
{
    tree->lease = lease;
    tree->account_id = account_id;
    PhBatch *batch = &tree->batch;
    ph_batch_restart(batch);
    ph_batch_add(batch, &ph_sql_begin);
    ph_param_int64(ph_batch_add(batch, &lock_account), account_id);
    PhParams *params = ph_batch_add(batch, &look_at_names);
    ph_param_int64(params, account_id);
    g_auto(PhSqlArray) list;
    ph_sql_array_init(&list, PH_SQL_TEXT);
    for (unsigned i = 0; i < names->len; i++)
        ph_sql_array_add_text(&list, names->pdata[i]);
    ph_param_array(params, &list);
    ph_param_int64(ph_batch_add(batch, &count_mailboxes), account_id);
    if (!ph_batch_run_blocking(lease, batch, 0, error))
        return false;
    const PGresult *account = ph_batch_result(batch, 1);
    if (PQntuples(account) == 1 && ph_cell_int16(account, 0, 0) != PH_ACCOUNT_ERASED)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no account %" G_GINT64_FORMAT, account_id);
    return false;
}

static int
tree_row(const Tree *tree, const char *name)
{
    const PGresult *rows = ph_batch_result(&tree->batch, 2);
    for (int i = 0; i < PQntuples(rows); i++)
        if (strcmp(ph_cell_text(rows, i, 0), name) == 0)
            return i;
    return -1;
}

static int64_t
tree_id(const Tree *tree, int row)
{
    return ph_cell_int64(ph_batch_result(&tree->batch, 2), row, 1);
}

static bool
tree_selectable(const Tree *tree, int row)
{
    return ph_cell_bool(ph_batch_result(&tree->batch, 2), row, 2);
}

static bool
tree_has_children(const Tree *tree, int row)
{
    return ph_cell_bool(ph_batch_result(&tree->batch, 2), row, 3);
}

static bool
tree_has_room(const Tree *tree, unsigned n_new, GError **error)
{
    if (ph_cell_int64(ph_batch_result(&tree->batch, 3), 0, 0) + n_new <= MAILBOXES_MAX)
        return true;
    g_set_error(
        error, PH_ERROR, PH_ERROR_LIMIT, "an account has at most %d mailboxes", MAILBOXES_MAX);
    return false;
}

static const PhStatement insert_mailboxes = {
    "tree-insert",
    "INSERT INTO mailbox (account_id, name, special_use)\n"
    "SELECT $1::bigint, w.name, w.use FROM unnest($2::text[], $3::smallint[]) AS w (name, use)\n"
    "ON CONFLICT (account_id, name) DO UPDATE SET special_use = excluded.special_use",
};

static const PhStatement insert_states = {
    "tree-states",
    "INSERT INTO mailbox_state (account_id, mailbox_id, uid_validity)\n"
    "SELECT m.account_id, m.mailbox_id, greatest($3::bigint, r.uid_validity + 1)\n"
    "FROM mailbox m\n"
    "LEFT JOIN mailbox_name_memory r ON r.account_id = m.account_id AND r.name = m.name\n"
    "WHERE m.account_id = $1::bigint AND m.name = ANY ($2::text[])",
};

/* Adds to `batch` what makes the mailbox `name` with the parents that are missing. */
static bool
add_creation(Tree *tree, PhBatch *batch, const char *name, PhSpecialUse use, GError **error)
{
    g_autoptr(GPtrArray) parents = ph_name_parents(name);
    g_auto(PhSqlArray) names;
    g_auto(PhSqlArray) again;
    g_auto(PhSqlArray) uses;
    ph_sql_array_init(&names, PH_SQL_TEXT);
    ph_sql_array_init(&again, PH_SQL_TEXT);
    ph_sql_array_init(&uses, PH_SQL_INT2);
    for (unsigned i = 0; i <= parents->len; i++) {
        const char *one = i < parents->len ? parents->pdata[i] : name;
        if (i < parents->len && tree_row(tree, one) >= 0)
            continue;
        ph_sql_array_add_text(&names, one);
        ph_sql_array_add_text(&again, one);
        ph_sql_array_add_int(&uses, i < parents->len ? PH_USE_NONE : (int64_t)use);
    }
    if (!tree_has_room(tree, names.count, error))
        return false;
    PhParams *params = ph_batch_add(batch, &insert_mailboxes);
    ph_param_int64(params, tree->account_id);
    ph_param_array(params, &names);
    ph_param_array(params, &uses);
    params = ph_batch_add(batch, &insert_states);
    ph_param_int64(params, tree->account_id);
    ph_param_array(params, &again);
    ph_param_int64(params, now_s());
    return true;
}

/* -- create ------------------------------------------------------------------------------------ */

PhMailbox *
ph_mailbox_create_blocking(
    int64_t actor_id, const char *name, PhSpecialUse use, int64_t deadline_us, GError **error)
{
    g_autofree char *normal = ph_mailbox_name_normalise(name, strlen(name), error);
    if (normal == NULL || !ph_right_check(actor_id, actor_id, PH_RIGHT_ADMIN, error))
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autoptr(GPtrArray) names = ph_name_parents(normal);
    g_ptr_array_add(names, g_strdup(normal));
    g_autofree Tree *tree = g_new0(Tree, 1);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    bool done = tree_begin(tree, lease, actor_id, names, error);
    int row = done ? tree_row(tree, normal) : -1;
    if (row >= 0 && tree_selectable(tree, row)) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "mailbox \"%s\" exists", normal);
        done = false;
    }
    done = done && add_creation(tree, &batch, normal, use, error);
    if (done) {
        ph_batch_add(&batch, &ph_sql_commit);
        done = ph_batch_run_blocking(lease, &batch, 0, error);
    }
    ph_batch_clear(&tree->batch);
    return done ? find(lease, actor_id, normal, error) : NULL;
}

/* -- delete ------------------------------------------------------------------------------------ */

static const PhStatement lock_state = {
    "tree-lock-state",
    "SELECT uid_validity FROM mailbox_state\n"
    "WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "FOR UPDATE",
};

static const PhStatement remember_name = {
    "tree-remember",
    "INSERT INTO mailbox_name_memory (account_id, name, uid_validity)\n"
    "SELECT m.account_id, m.name, s.uid_validity\n"
    "FROM mailbox m\n"
    "JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "WHERE m.account_id = $1::bigint AND m.mailbox_id = $2::bigint\n"
    "ON CONFLICT (account_id, name) DO UPDATE\n"
    "SET uid_validity = greatest(mailbox_name_memory.uid_validity, excluded.uid_validity)",
};

static const PhStatement expunge_all = {
    "tree-expunge-all",
    "WITH gone AS (\n"
    "    DELETE FROM mailbox_message WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "    RETURNING uid, message_id, flags, internal_date_us, size_bytes\n"
    "), kept AS (\n"
    "    INSERT INTO expunged (account_id, mailbox_id, uid, message_id, flags, keywords, internal_date_us, size_bytes, mailbox_name)\n"
    "    SELECT $1::bigint, $2::bigint, uid, message_id, flags, 0, internal_date_us, size_bytes, $3::text FROM gone\n"
    "), log AS (\n"
    "    DELETE FROM mailbox_change WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    ")\n"
    "UPDATE usage\n"
    "SET bytes = bytes - (SELECT coalesce(sum(size_bytes), 0) FROM gone),\n"
    "    messages = messages - (SELECT count(*) FROM gone)\n"
    "WHERE account_id = $1::bigint",
};

static const PhStatement delete_mailbox = {
    "tree-delete",
    "DELETE FROM mailbox WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

/* Only a name, for its children. */
static const PhStatement insert_bare_name = {
    "tree-bare-name",
    "INSERT INTO mailbox (account_id, name) VALUES ($1::bigint, $2::text)",
};

static bool
may_delete(const Tree *tree, const char *name, GError **error)
{
    int row = tree_row(tree, name);
    if (row < 0) {
        not_found(name, error);
        return false;
    }
    if (!tree_selectable(tree, row) && tree_has_children(tree, row)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_DENIED, "mailbox \"%s\" is a name that holds others", name);
        return false;
    }
    return true;
}

PH_IN_JOB static bool
delete_in_tree(Tree *tree, const char *name, GError **error)
{
    int row = tree_row(tree, name);
    int64_t mailbox_id = tree_id(tree, row);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    const PhStatement *const steps[] = { &lock_state, &remember_name, &expunge_all,
        &delete_mailbox };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        PhParams *params = ph_batch_add(&batch, steps[i]);
        ph_param_int64(params, tree->account_id);
        ph_param_int64(params, mailbox_id);
        if (steps[i] == &expunge_all)
            ph_param_text(params, name);
    }
    if (tree_has_children(tree, row)) {
        PhParams *params = ph_batch_add(&batch, &insert_bare_name);
        ph_param_int64(params, tree->account_id);
        ph_param_text(params, name);
    }
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(tree->lease, &batch, 0, error))
        return false;
    ph_views_gone((PhMailboxKey){ tree->account_id, mailbox_id });
    return true;
}

bool
ph_mailbox_delete_blocking(int64_t actor_id, const char *name, int64_t deadline_us, GError **error)
{
    g_autofree char *normal = ph_mailbox_name_normalise(name, strlen(name), error);
    if (normal == NULL || !ph_right_check(actor_id, actor_id, PH_RIGHT_ADMIN, error))
        return false;
    if (strcmp(normal, "INBOX") == 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "INBOX cannot be deleted");
        return false;
    }
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_ptr_array_add(names, normal);
    g_autofree Tree *tree = g_new0(Tree, 1);
    bool done = tree_begin(tree, lease, actor_id, names, error) &&
                may_delete(tree, normal, error) && delete_in_tree(tree, normal, error);
    ph_batch_clear(&tree->batch);
    return done;
}

/* -- rename ------------------------------------------------------------------------------------ */

static const PhStatement lock_subtree = {
    "tree-lock-subtree",
    "SELECT s.mailbox_id, m.name\n"
    "FROM mailbox_state s\n"
    "JOIN mailbox m ON m.account_id = s.account_id AND m.mailbox_id = s.mailbox_id\n"
    "WHERE s.account_id = $1::bigint AND (m.name = $2::text OR (m.name > $2::text || '/' AND m.name < $2::text || '0'))\n"
    "ORDER BY s.mailbox_id\n"
    "FOR UPDATE OF s",
};

static const PhStatement remember_subtree = {
    "tree-remember-subtree",
    "INSERT INTO mailbox_name_memory (account_id, name, uid_validity)\n"
    "SELECT m.account_id, m.name, s.uid_validity\n"
    "FROM mailbox m\n"
    "JOIN mailbox_state s ON s.account_id = m.account_id AND s.mailbox_id = m.mailbox_id\n"
    "WHERE m.account_id = $1::bigint AND (m.name = $2::text OR (m.name > $2::text || '/' AND m.name < $2::text || '0'))\n"
    "ON CONFLICT (account_id, name) DO UPDATE\n"
    "SET uid_validity = greatest(mailbox_name_memory.uid_validity, excluded.uid_validity)",
};

static const PhStatement rename_subtree = {
    "tree-rename",
    "UPDATE mailbox m\n"
    "SET name = $3::text || substr(m.name, length($2::text) + 1)\n"
    "WHERE m.account_id = $1::bigint AND (m.name = $2::text OR (m.name > $2::text || '/' AND m.name < $2::text || '0'))",
};

/* A name that was used before must not come back with an UIDVALIDITY that it had. */
static const PhStatement raise_validity = {
    "tree-raise-validity",
    "UPDATE mailbox_state s\n"
    "SET uid_validity = r.uid_validity + 1, modseq = s.modseq + 1\n"
    "FROM mailbox m, mailbox_name_memory r\n"
    "WHERE s.account_id = $1::bigint AND m.account_id = $1::bigint AND m.mailbox_id = s.mailbox_id\n"
    "  AND (m.name = $2::text OR (m.name > $2::text || '/' AND m.name < $2::text || '0'))\n"
    "  AND r.account_id = $1::bigint AND r.name = m.name AND r.uid_validity >= s.uid_validity\n"
    "RETURNING s.mailbox_id",
};

static bool
may_rename(const Tree *tree, const char *name, const char *new_name, GError **error)
{
    if (tree_row(tree, name) < 0) {
        not_found(name, error);
        return false;
    }
    if (tree_row(tree, new_name) >= 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "mailbox \"%s\" exists", new_name);
        return false;
    }
    if (ph_name_is_below(new_name, name)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_DENIED, "mailbox \"%s\" cannot move below itself", name);
        return false;
    }
    return true;
}

/* The names of the children must be names at their new place too. */
static bool
check_subtree_names(const PGresult *rows, const char *name, const char *new_name, GError **error)
{
    for (int i = 0; i < PQntuples(rows); i++) {
        g_autofree char *moved =
            g_strconcat(new_name, ph_cell_text(rows, i, 1) + strlen(name), NULL);
        g_autofree char *normal = ph_mailbox_name_normalise(moved, strlen(moved), error);
        if (normal == NULL)
            return false;
    }
    return true;
}

static const char *
parent_or_null(const char *name, char **parent_out)
{
    const char *slash = strrchr(name, '/');
    *parent_out = slash != NULL ? g_strndup(name, (size_t)(slash - name)) : NULL;
    return *parent_out;
}

PH_IN_JOB static bool
rename_in_tree(Tree *tree, const char *name, const char *new_name, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &lock_subtree);
    ph_param_int64(params, tree->account_id);
    ph_param_text(params, name);
    if (!ph_batch_run_blocking(tree->lease, &batch, 0, error) ||
        !check_subtree_names(ph_batch_result(&batch, 0), name, new_name, error))
        return false;
    ph_batch_restart(&batch);
    g_autofree char *parent = NULL;
    if (parent_or_null(new_name, &parent) != NULL && tree_row(tree, parent) < 0 &&
        !add_creation(tree, &batch, parent, PH_USE_NONE, error))
        return false;
    params = ph_batch_add(&batch, &remember_subtree);
    ph_param_int64(params, tree->account_id);
    ph_param_text(params, name);
    params = ph_batch_add(&batch, &rename_subtree);
    ph_param_int64(params, tree->account_id);
    ph_param_text(params, name);
    ph_param_text(params, new_name);
    unsigned raised = batch.n_calls;
    params = ph_batch_add(&batch, &raise_validity);
    ph_param_int64(params, tree->account_id);
    ph_param_text(params, new_name);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(tree->lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, raised);
    for (int i = 0; i < PQntuples(rows); i++)
        ph_views_gone((PhMailboxKey){ tree->account_id, ph_cell_int64(rows, i, 0) });
    return true;
}

/* -- rename of INBOX: its messages move -------------------------------------------------------- */

static const PhStatement lock_both = {
    "inbox-lock",
    "SELECT s.mailbox_id, m.name, s.uid_validity, s.uid_next, s.modseq\n"
    "FROM mailbox_state s\n"
    "JOIN mailbox m ON m.account_id = s.account_id AND m.mailbox_id = s.mailbox_id\n"
    "WHERE s.account_id = $1::bigint AND m.name IN ('INBOX', $2::text)\n"
    "ORDER BY s.mailbox_id\n"
    "FOR UPDATE OF s",
};

static const PhStatement copy_keywords = {
    "inbox-keywords",
    "INSERT INTO keyword (account_id, mailbox_id, bit, name)\n"
    "SELECT account_id, $3::bigint, bit, name FROM keyword WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

static const PhStatement move_all = {
    "inbox-move",
    "WITH moved AS (\n"
    "    UPDATE mailbox_message SET mailbox_id = $3::bigint, modseq = 2\n"
    "    WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "    RETURNING uid\n"
    "), runs AS (\n"
    "    SELECT uid_runs(array_agg(uid)) AS uids FROM moved HAVING count(*) > 0\n"
    ")\n"
    "INSERT INTO mailbox_change (account_id, mailbox_id, modseq, kind, uids)\n"
    "SELECT $1::bigint, $3::bigint, 2, 1, uids FROM runs\n"
    "UNION ALL\n"
    "SELECT $1::bigint, $2::bigint, $4::bigint, 3, uids FROM runs",
};

static const PhStatement hand_over_state = {
    "inbox-states",
    "WITH old AS (\n"
    "    SELECT * FROM mailbox_state WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "), target AS (\n"
    "    UPDATE mailbox_state s\n"
    "    SET uid_next = old.uid_next, modseq = 2, n_messages = old.n_messages, n_unseen = old.n_unseen,\n"
    "        n_deleted = old.n_deleted, size_bytes = old.size_bytes\n"
    "    FROM old\n"
    "    WHERE s.account_id = $1::bigint AND s.mailbox_id = $3::bigint\n"
    ")\n"
    "UPDATE mailbox_state\n"
    "SET modseq = $4::bigint, n_messages = 0, n_unseen = 0, n_deleted = 0, size_bytes = 0\n"
    "WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

PH_IN_JOB static bool
empty_inbox_into(Tree *tree, const char *new_name, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    if (!add_creation(tree, &batch, new_name, PH_USE_NONE, error))
        return false;
    unsigned locked = batch.n_calls;
    PhParams *params = ph_batch_add(&batch, &lock_both);
    ph_param_int64(params, tree->account_id);
    ph_param_text(params, new_name);
    if (!ph_batch_run_blocking(tree->lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, locked);
    int64_t ids[2] = { 0, 0 };
    int64_t modseq = 0;
    for (int i = 0; i < PQntuples(rows); i++) {
        bool is_inbox = strcmp(ph_cell_text(rows, i, 1), "INBOX") == 0;
        ids[is_inbox ? 0 : 1] = ph_cell_int64(rows, i, 0);
        modseq = is_inbox ? ph_cell_int64(rows, i, 4) : modseq;
    }
    ph_batch_restart(&batch);
    const PhStatement *const steps[] = { &copy_keywords, &move_all, &hand_over_state };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        params = ph_batch_add(&batch, steps[i]);
        ph_param_int64(params, tree->account_id);
        ph_param_int64(params, ids[0]);
        ph_param_int64(params, ids[1]);
        if (steps[i] != &copy_keywords)
            ph_param_int64(params, modseq + 1);
    }
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(tree->lease, &batch, 0, error))
        return false;
    PhMailboxKey inbox = { tree->account_id, ids[0] };
    ph_notifier_tell_mailbox(inbox, modseq + 1);
    ph_views_catch_up_blocking(tree->lease, inbox, modseq + 1, NULL);
    return true;
}

bool
ph_mailbox_rename_blocking(
    int64_t actor_id, const char *name, const char *new_name, int64_t deadline_us, GError **error)
{
    g_autofree char *from = ph_mailbox_name_normalise(name, strlen(name), error);
    g_autofree char *to =
        from != NULL ? ph_mailbox_name_normalise(new_name, strlen(new_name), error) : NULL;
    if (to == NULL || !ph_right_check(actor_id, actor_id, PH_RIGHT_ADMIN, error))
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    bool is_inbox = strcmp(from, "INBOX") == 0;
    g_autoptr(GPtrArray) names = ph_name_parents(to);
    g_ptr_array_add(names, g_strdup(from));
    g_ptr_array_add(names, g_strdup(to));
    g_autofree Tree *tree = g_new0(Tree, 1);
    bool done = tree_begin(tree, lease, actor_id, names, error);
    if (done && is_inbox && tree_row(tree, to) < 0)
        done = empty_inbox_into(tree, to, error);
    else if (done)
        done = may_rename(tree, from, to, error) && rename_in_tree(tree, from, to, error);
    ph_batch_clear(&tree->batch);
    return done;
}

/* -- \Recent ----------------------------------------------------------------------------------- */

static const PhStatement read_recent = {
    "recent-read",
    "SELECT first_recent, uid_next FROM mailbox_state WHERE account_id = $1::bigint AND mailbox_id = $2::bigint",
};

static const PhStatement take_recent = {
    "recent-take",
    "UPDATE mailbox_state s\n"
    "SET first_recent = s.uid_next\n"
    "FROM (\n"
    "    SELECT first_recent FROM mailbox_state\n"
    "    WHERE account_id = $1::bigint AND mailbox_id = $2::bigint\n"
    "    FOR UPDATE\n"
    ") AS old\n"
    "WHERE s.account_id = $1::bigint AND s.mailbox_id = $2::bigint\n"
    "RETURNING old.first_recent, s.uid_next",
};

bool
ph_mailbox_take_recent_blocking(PhMailboxKey mailbox, bool keep, int64_t deadline_us,
    uint32_t *first_recent_out, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    const PhStatement *const steps[] = { &read_recent, &take_recent };
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        ph_batch_restart(&batch);
        PhParams *params = ph_batch_add(&batch, steps[i]);
        ph_param_int64(params, mailbox.account_id);
        ph_param_int64(params, mailbox.mailbox_id);
        if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
            return false;
        const PGresult *rows = ph_batch_result(&batch, 0);
        if (PQntuples(rows) == 0) {
            g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such mailbox");
            return false;
        }
        int64_t first = ph_cell_int64(rows, 0, 0);
        bool nothing_new = first >= ph_cell_int64(rows, 0, 1);
        if (first_recent_out != NULL)
            *first_recent_out = (uint32_t)first;
        if (keep || nothing_new)
            return true;
    }
    return true;
}
