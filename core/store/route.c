/* route.c - where the mail for an address goes
 *
 * Hard here: aliases may lead in circles and fan out. One level is one statement; each address is
 * looked at once, to a depth of 10 and at most ROUTE_MAX addresses.
 */
#include "store/internal.h"

#include "posthouse/message-address.h"

#include <string.h>

enum { DEPTH_MAX = 10, ROUTE_MAX = 1000 };

void
ph_route_free(PhRoute *route)
{
    if (route == NULL)
        return;
    g_clear_pointer(&route->accounts, g_array_unref);
    g_clear_pointer(&route->outside, g_ptr_array_unref);
    g_free(route);
}

/* The whole local part wins over the part before the plus. */
static const PhStatement look_up = {
    "route",
    "SELECT w.address, d.domain_id IS NOT NULL, a.kind, a.account_id, u.receives,\n"
    "       coalesce((u.quota_bytes > 0 AND u.bytes >= u.quota_bytes)\n"
    "                OR (u.quota_messages > 0 AND u.messages >= u.quota_messages), false),\n"
    "       t.target, d.tenant_id\n"
    "FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY\n"
    "     AS w (address, domain, whole, base, place)\n"
    "LEFT JOIN domain d ON d.name_ascii = w.domain\n"
    "LEFT JOIN LATERAL (\n"
    "    SELECT * FROM address x\n"
    "    WHERE x.domain_id = d.domain_id AND x.local_part IN (w.whole, w.base)\n"
    "    ORDER BY x.local_part = w.whole DESC\n"
    "    LIMIT 1\n"
    ") AS a ON true\n"
    "LEFT JOIN usage u ON u.account_id = a.account_id\n"
    "LEFT JOIN alias_target t ON t.domain_id = a.domain_id AND t.local_part = a.local_part\n"
    "ORDER BY w.place, t.target",
};

/* The installation's postmaster: that of its oldest domain that has one. */
static const PhStatement find_postmaster = {
    "route-postmaster",
    "SELECT 'postmaster@' || d.name\n"
    "FROM domain d\n"
    "JOIN address a ON a.domain_id = d.domain_id AND a.local_part = 'postmaster'\n"
    "ORDER BY d.domain_id\n"
    "LIMIT 1",
};

static void
add_level(PhParams *params, const GPtrArray *keys)
{
    g_auto(PhSqlArray) addresses;
    g_auto(PhSqlArray) domains;
    g_auto(PhSqlArray) wholes;
    g_auto(PhSqlArray) bases;
    ph_sql_array_init(&addresses, PH_SQL_TEXT);
    ph_sql_array_init(&domains, PH_SQL_TEXT);
    ph_sql_array_init(&wholes, PH_SQL_TEXT);
    ph_sql_array_init(&bases, PH_SQL_TEXT);
    for (unsigned i = 0; i < keys->len; i++) {
        const PhAddressKey *key = keys->pdata[i];
        const char *plus = strchr(key->local, '+');
        size_t base =
            plus != NULL && plus > key->local ? (size_t)(plus - key->local) : strlen(key->local);
        ph_sql_array_add_text(&addresses, key->whole);
        ph_sql_array_add_text(&domains, key->domain_ascii);
        ph_sql_array_add_text(&wholes, key->local);
        ph_sql_array_add_bytes(&bases, key->local, base);
    }
    ph_param_array(params, &addresses);
    ph_param_array(params, &domains);
    ph_param_array(params, &wholes);
    ph_param_array(params, &bases);
}

static void
add_account(PhRoute *route, int64_t account_id)
{
    for (unsigned i = 0; i < route->accounts->len; i++)
        if (g_array_index(route->accounts, int64_t, i) == account_id)
            return;
    g_array_append_val(route->accounts, account_id);
}

/* Takes one row of a level; targets go to `next` when they were not seen yet. */
static void
take_row(PhRoute *route, const PGresult *rows, int i, GHashTable *seen, GPtrArray *next)
{
    bool is_local = ph_cell_bool(rows, i, 1);
    if (!is_local) {
        g_ptr_array_add(route->outside, ph_cell_dup(rows, i, 0));
        return;
    }
    if (PQgetisnull(rows, i, 2))
        return; /* unknown */
    if (!PQgetisnull(rows, i, 3)) {
        if (!ph_cell_bool(rows, i, 4))
            return; /* closed */
        add_account(route, ph_cell_int64(rows, i, 3));
        route->over_quota = route->over_quota || ph_cell_bool(rows, i, 5);
        return;
    }
    const char *target = ph_cell_text(rows, i, 6);
    if (target == NULL || g_hash_table_size(seen) >= ROUTE_MAX)
        return;
    PhAddressKey *key = ph_address_key_from_whole(target);
    if (key == NULL)
        return;
    if (g_hash_table_add(seen, g_strdup(key->whole)))
        g_ptr_array_add(next, key);
    else
        ph_address_key_free(key);
}

static GPtrArray *
keys_new(void)
{
    return g_ptr_array_new_with_free_func((GDestroyNotify)ph_address_key_free);
}

static int
by_number(const void *left, const void *right)
{
    const int64_t *a = left;
    const int64_t *b = right;
    return (*a > *b) - (*a < *b);
}

PH_IN_JOB static bool
expand(PhLease *lease, PhRoute *route, PhAddressKey *first, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) level = keys_new();
    g_hash_table_add(seen, g_strdup(first->whole));
    g_ptr_array_add(level, first);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    for (int depth = 0; level->len > 0 && depth <= DEPTH_MAX; depth++) {
        ph_batch_restart(&batch);
        add_level(ph_batch_add(&batch, &look_up), level);
        if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
            return false;
        const PGresult *rows = ph_batch_result(&batch, 0);
        if (depth == 0) {
            route->domain_is_local = ph_cell_bool(rows, 0, 1);
            if (route->domain_is_local)
                route->tenant_id = ph_cell_int64(rows, 0, 7);
        }
        GPtrArray *next = keys_new();
        for (int i = 0; i < PQntuples(rows); i++)
            take_row(route, rows, i, seen, next);
        g_ptr_array_unref(level);
        level = next;
    }
    return true;
}

/* Null without an error: there is none. */
PH_IN_JOB static char *
read_postmaster(PhLease *lease, GError **error)
{
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &find_postmaster);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    const PGresult *rows = ph_batch_result(&batch, 0);
    return PQntuples(rows) > 0 ? ph_cell_dup(rows, 0, 0) : NULL;
}

static PhRoute *
route_new(void)
{
    PhRoute *route = g_new0(PhRoute, 1);
    route->kind = PH_ROUTE_UNKNOWN;
    route->tenant_id = -1;
    route->accounts = g_array_new(FALSE, FALSE, sizeof(int64_t));
    route->outside = g_ptr_array_new_with_free_func(g_free);
    return route;
}

/* An address literal is outside; what is no address at all is unknown. */
static PhRoute *
no_key(PhRoute *route, const char *address)
{
    g_autoptr(PhPath) path = NULL;
    if (ph_address_parse(address, strlen(address), &path) == PH_PATH_OK && path->is_literal) {
        route->kind = PH_ROUTE_OUTSIDE;
        g_ptr_array_add(route->outside, g_strdup(address));
    }
    return route;
}

PhRoute *
ph_route_resolve_blocking(const char *address, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autoptr(PhRoute) route = route_new();
    g_autofree char *postmaster = NULL;
    if (g_ascii_strcasecmp(address, "postmaster") == 0) {
        GError *local = NULL;
        postmaster = read_postmaster(lease, &local);
        if (local != NULL) {
            g_propagate_error(error, local);
            return NULL;
        }
        route->domain_is_local = true;
        if (postmaster == NULL)
            return g_steal_pointer(&route);
    }
    PhAddressKey *key = ph_address_key_new(postmaster != NULL ? postmaster : address, NULL);
    if (key == NULL)
        return no_key(g_steal_pointer(&route), address);
    if (!expand(lease, route, key, error))
        return NULL;
    g_array_sort(route->accounts, by_number);
    if (route->outside->len > 0)
        route->kind = PH_ROUTE_OUTSIDE;
    else if (route->accounts->len > 0)
        route->kind = PH_ROUTE_LOCAL;
    return g_steal_pointer(&route);
}
