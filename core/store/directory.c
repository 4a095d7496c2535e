/* directory.c - accounts, aliases and contacts as entries of a directory; contacts; upstreams
 *
 * The three kinds of entries come from three tables and are listed as one: by kind, domain and key, and
 * the text of these is the place to go on from. What a client asks for may be any filter; the database is given
 * only what narrows it safely (texts of ASCII letters, compared without their case; names with other letters,
 * which may be folded to such, are left in), so that what it leaves out can never fit.
 */
#include "store/internal.h"
#include "store/web.h"

#include <string.h>

enum {
    TEXTS_MAX = 32,
    TEXT_MIN = 3, /* letters: fewer narrow nothing worth the work */
};

void
ph_entry_free(PhEntry *entry)
{
    if (entry == NULL)
        return;
    g_free(entry->domain);
    g_free(entry->key);
    g_free(entry->name);
    g_free(entry->given_name);
    g_free(entry->surname);
    g_free(entry->organization);
    g_free(entry->telephone);
    g_ptr_array_unref(entry->mail);
    g_ptr_array_unref(entry->accounts);
    g_ptr_array_unref(entry->others);
    g_free(entry->place);
    g_free(entry);
}

void
ph_contact_free(PhContact *contact)
{
    if (contact == NULL)
        return;
    g_free(contact->domain);
    g_free(contact->name);
    g_free(contact->given_name);
    g_free(contact->surname);
    g_free(contact->organization);
    g_free(contact->telephone);
    g_free(contact->mail);
    g_free(contact);
}

void
ph_stored_upstream_free(PhStoredUpstream *stored)
{
    if (stored == NULL)
        return;
    g_clear_pointer(&stored->sealed_password, g_bytes_unref);
    ph_upstream_free(stored->upstream);
    g_free(stored);
}

/* -- entries ----------------------------------------------------------------------------------- */

/* One statement for each kind, with the same parameters and columns: whose ($1), domain ($2, with those
 * below: $3), the domain and key to go on behind ($4, $5), one key ($6), texts ($7), how many ($8). Each
 * domain's rows come from an index in their order and end at the limit, so that a page costs what it holds,
 * not what the tenant has.
 *
 * What leads to one account and nothing else makes it one more address of that account; every other
 * alias is a group. Lists are divided by newlines on their way here: no address has one. */
// clang-format off
#define VISIBLE \
    "WITH theirs AS NOT MATERIALIZED (\n" \
    "    SELECT domain_id, tenant_id, name, name_ascii\n" \
    "    FROM domain\n" \
    "    WHERE $1::bigint < 0 OR tenant_id = $1::bigint\n" \
    "), visible AS (\n" \
    "    SELECT *\n" \
    "    FROM theirs\n" \
    "    WHERE name_ascii >= $4::text\n" \
    "      AND ($2::text IS NULL OR name_ascii = $2::text\n" \
    "           OR ($3::boolean AND right(name_ascii, length($2::text) + 1) = '.' || $2::text))\n" \
    ")\n"

/* Other letters than ASCII may be folded to what is asked for; those of ASCII are the same everywhere. */
#define MAY_HAVE(text) \
    "(octet_length(" text ") <> char_length(" text ")\n" \
    "           OR lower((" text ") COLLATE \"C\") LIKE ANY (string_to_array($7::text, E'\\n')))"

#define CONTACT_TEXT \
    "k.name || ' ' || k.given_name || ' ' || k.surname || ' ' || k.organization || ' ' || k.telephone || ' ' || k.mail || ' ' || k.contact_id::text"

static const PhStatement list_accounts = {
    "entry-accounts",
    VISIBLE
    "SELECT 0::integer, c.account_id, v.domain_id, v.tenant_id, v.name_ascii, c.address, c.display_name, '', '', '', '',\n"
    "       c.address || coalesce((\n"
    "           SELECT string_agg(E'\\n' || t.local_part || '@' || d.name, '' ORDER BY t.local_part || '@' || d.name)\n"
    "           FROM alias_target t\n"
    "           JOIN domain d ON d.domain_id = t.domain_id\n"
    "           WHERE t.target = c.address AND d.tenant_id = v.tenant_id AND NOT EXISTS (\n"
    "               SELECT FROM alias_target o\n"
    "               WHERE o.domain_id = t.domain_id AND o.local_part = t.local_part AND o.target <> t.target\n"
    "           )), ''),\n"
    "       '', '', c.created_at, c.version\n"
    "FROM visible v\n"
    "CROSS JOIN LATERAL (\n"
    "    SELECT *\n"
    "    FROM account a\n"
    "    WHERE a.domain_id = v.domain_id AND a.state = 0\n"
    "      AND a.address > CASE WHEN v.name_ascii = $4::text THEN $5::text ELSE '' END\n"
    "      AND ($6::text IS NULL OR a.address = $6::text)\n"
    "      AND ($7::text IS NULL OR " MAY_HAVE("a.display_name || ' ' || a.address") "\n"
    "           OR a.address IN (\n"
    "               SELECT t.target\n"
    "               FROM theirs d\n"
    "               JOIN alias_target t ON t.domain_id = d.domain_id\n"
    "               WHERE " MAY_HAVE("t.local_part || '@' || d.name") "))\n"
    "    ORDER BY a.address\n"
    "    LIMIT $8::bigint\n"
    ") c\n"
    "ORDER BY v.name_ascii, c.address\n"
    "LIMIT $8::bigint",
};

static const PhStatement list_groups = {
    "entry-groups",
    VISIBLE
    "SELECT 1::integer, 0::bigint, v.domain_id, v.tenant_id, v.name_ascii, g.local_part || '@' || v.name, g.local_part,\n"
    "       '', '', '', '', g.local_part || '@' || v.name, g.accounts, g.others, '2000-01-01Z'::timestamptz, 1::bigint\n"
    "FROM visible v\n"
    "CROSS JOIN LATERAL (\n"
    "    SELECT t.local_part,\n"
    "           coalesce(string_agg(l.address, E'\\n' ORDER BY l.address), '') AS accounts,\n"
    "           coalesce(string_agg(t.target, E'\\n' ORDER BY t.target) FILTER (WHERE l.address IS NULL), '') AS others\n"
    "    FROM alias_target t\n"
    "    LEFT JOIN account l ON l.address = t.target AND l.tenant_id = v.tenant_id AND l.state = 0\n"
    "    WHERE t.domain_id = v.domain_id\n"
    "      AND t.local_part > CASE WHEN v.name_ascii = $4::text THEN left($5::text, -(length(v.name) + 1)) ELSE '' END\n"
    "      AND ($6::text IS NULL OR (t.local_part = left($6::text, -(length(v.name) + 1))\n"
    "           AND right($6::text, length(v.name) + 1) = '@' || v.name))\n"
    "    GROUP BY t.local_part\n"
    "    HAVING (count(l.address) <> 1 OR count(*) <> 1)\n"
    "       AND ($7::text IS NULL OR " MAY_HAVE("t.local_part || '@' || v.name || ' ' || string_agg(t.target, ' ')") ")\n"
    "    ORDER BY t.local_part\n"
    "    LIMIT $8::bigint\n"
    ") g\n"
    "ORDER BY v.name_ascii, g.local_part\n"
    "LIMIT $8::bigint",
};

static const PhStatement list_contact_entries = {
    "entry-contacts",
    VISIBLE
    "SELECT 2::integer, c.contact_id, v.domain_id, v.tenant_id, v.name_ascii, c.contact_id::text, c.name, c.given_name,\n"
    "       c.surname, c.organization, c.telephone, replace(c.mail, ',', E'\\n'), '', '', c.created_at, c.version\n"
    "FROM visible v\n"
    "CROSS JOIN LATERAL (\n"
    "    SELECT *\n"
    "    FROM contact k\n"
    "    WHERE k.domain_id = v.domain_id\n"
    "      AND k.contact_id > CASE WHEN v.name_ascii = $4::text THEN $5::text::bigint ELSE 0 END\n"
    "      AND ($6::text IS NULL OR k.contact_id::text = $6::text)\n"
    "      AND ($7::text IS NULL OR " MAY_HAVE(CONTACT_TEXT) ")\n"
    "    ORDER BY k.contact_id\n"
    "    LIMIT $8::bigint\n"
    ") c\n"
    "ORDER BY v.name_ascii, c.contact_id\n"
    "LIMIT $8::bigint",
};
// clang-format on

static const PhStatement *const entry_statements[] = {
    [PH_ENTRY_ACCOUNT] = &list_accounts,
    [PH_ENTRY_GROUP] = &list_groups,
    [PH_ENTRY_CONTACT] = &list_contact_entries,
};

static GPtrArray *
split_list(char *text)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) words = g_strsplit(text, "\n", -1);
    for (char **word = words; *word != NULL; word++)
        if ((*word)[0] != '\0')
            g_ptr_array_add(list, g_strdup(*word));
    g_free(text);
    return list;
}

static PhEntry *
entry_from_row(const PGresult *rows, int i)
{
    PhEntry *entry = g_new0(PhEntry, 1);
    entry->kind = (PhEntryKind)ph_cell_int32(rows, i, 0);
    entry->id = ph_cell_int64(rows, i, 1);
    entry->domain_id = ph_cell_int64(rows, i, 2);
    entry->tenant_id = ph_cell_int64(rows, i, 3);
    entry->domain = ph_cell_dup(rows, i, 4);
    entry->key = ph_cell_dup(rows, i, 5);
    entry->name = ph_cell_dup(rows, i, 6);
    entry->given_name = ph_cell_dup(rows, i, 7);
    entry->surname = ph_cell_dup(rows, i, 8);
    entry->organization = ph_cell_dup(rows, i, 9);
    entry->telephone = ph_cell_dup(rows, i, 10);
    entry->mail = split_list(ph_cell_dup(rows, i, 11));
    entry->accounts = split_list(ph_cell_dup(rows, i, 12));
    entry->others = split_list(ph_cell_dup(rows, i, 13));
    entry->created_us = ph_cell_timestamp_us(rows, i, 14);
    entry->version = ph_cell_int64(rows, i, 15);
    entry->place = g_strdup_printf("%d %s %s", (int)entry->kind, entry->domain, entry->key);
    if (entry->name[0] == '\0') {
        g_free(entry->name);
        entry->name = g_strdup(entry->mail->len > 0 ? entry->mail->pdata[0] : entry->key);
    }
    return entry;
}

/* The runs of ASCII letters and digits in lower case, anything between them: what a database of any
 * locale finds as we do. False: too short to narrow anything. */
static bool
append_pattern(GString *patterns, const char *text)
{
    size_t letters = 0;
    bool in_run = false;
    for (const char *at = text; *at != '\0'; at++) {
        if (g_ascii_isalnum(*at)) {
            if (!in_run)
                g_string_append_c(patterns, '%');
            g_string_append_c(patterns, g_ascii_tolower(*at));
            letters++;
        }
        in_run = g_ascii_isalnum(*at);
    }
    g_string_append_c(patterns, '%');
    return letters >= TEXT_MIN;
}

/* Patterns divided by newlines, or null: nothing can be left out. */
static char *
patterns_of(const char *const *texts)
{
    if (texts == NULL)
        return NULL;
    g_autoptr(GString) patterns = g_string_new(NULL);
    for (size_t i = 0; texts[i] != NULL; i++) {
        if (i > 0)
            g_string_append_c(patterns, '\n');
        if (i >= TEXTS_MAX || !append_pattern(patterns, texts[i]))
            return NULL;
    }
    return g_string_free(g_steal_pointer(&patterns), FALSE);
}

/* Appends what is left of one kind, as far as the limit goes. */
PH_IN_JOB static bool
list_kind(PhLease *lease, const PhEntryQuery *query, PhEntryKind kind, const char *const *place,
    unsigned limit, GPtrArray *items, GError **error)
{
    bool is_begun = place != NULL && kind == (PhEntryKind)(place[0][0] - '0');
    g_autofree char *patterns = patterns_of(query->texts);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, entry_statements[kind]);
    ph_param_int64(params, query->tenant_id);
    ph_param_text(params, query->domain);
    ph_param_bool(params, query->domains_below);
    ph_param_text(params, is_begun ? place[1] : "");
    ph_param_text(params, is_begun ? place[2] : kind == PH_ENTRY_CONTACT ? "0" : "");
    ph_param_text(params, query->key);
    ph_param_text(params, patterns);
    ph_param_int64(params, limit - items->len);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 0);
    for (int i = 0; i < PQntuples(rows); i++)
        g_ptr_array_add(items, entry_from_row(rows, i));
    return true;
}

PhPage *
ph_entry_list_blocking(const PhEntryQuery *query, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    enum { KIND, DOMAIN, KEY, N_PARTS };
    g_auto(GStrv) place = after != NULL ? g_strsplit(after, " ", N_PARTS) : NULL;
    if (place != NULL && (g_strv_length(place) != N_PARTS || place[KIND][0] < '0' ||
                             place[KIND][0] > '0' + PH_ENTRY_CONTACT)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no place of a list", after);
        return NULL;
    }
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autoptr(PhPage) page = ph_page_new((GDestroyNotify)ph_entry_free);
    PhEntryKind first = place != NULL ? (PhEntryKind)(place[KIND][0] - '0') : PH_ENTRY_ACCOUNT;
    for (PhEntryKind kind = first; kind <= PH_ENTRY_CONTACT && page->items->len < limit; kind++)
        if ((query->kinds & 1U << kind) != 0 &&
            !list_kind(lease, query, kind, (const char *const *)place, limit, page->items, error))
            return NULL;
    const PhEntry *last = page->items->len > 0 ? page->items->pdata[page->items->len - 1] : NULL;
    ph_page_finish(page, limit, last != NULL ? last->place : NULL);
    return g_steal_pointer(&page);
}

/* -- contacts ---------------------------------------------------------------------------------- */

#define CONTACT_COLUMNS \
    "k.contact_id, k.tenant_id, d.name_ascii, k.name, k.given_name, k.surname, k.organization, k.telephone,\n" \
    "       k.mail, k.version, k.created_at, k.name || ' ' || k.contact_id::text\n" \
    "FROM contact k JOIN domain d ON d.domain_id = k.domain_id\n"

static const PhStatement find_contact = {
    "contact-find",
    "SELECT " CONTACT_COLUMNS "WHERE k.contact_id = $1::bigint",
};

static const PhStatement list_contacts = {
    "contact-list",
    "SELECT " CONTACT_COLUMNS
    "WHERE (k.name || ' ' || k.contact_id::text) COLLATE \"C\" > $1::text\n"
    "  AND ($2::bigint = 0 OR k.tenant_id = $2::bigint)\n"
    "  AND ($3::text IS NULL OR d.name_ascii = $3::text)\n"
    "  AND ($4::text IS NULL OR k.name ILIKE $4::text OR k.mail ILIKE $4::text OR k.organization ILIKE $4::text)\n"
    "ORDER BY (k.name || ' ' || k.contact_id::text) COLLATE \"C\"\n"
    "LIMIT $5::bigint",
};

static void *
contact_from_row(const PGresult *rows, int i)
{
    PhContact *contact = g_new0(PhContact, 1);
    contact->id = ph_cell_int64(rows, i, 0);
    contact->tenant_id = ph_cell_int64(rows, i, 1);
    contact->domain = ph_cell_dup(rows, i, 2);
    contact->name = ph_cell_dup(rows, i, 3);
    contact->given_name = ph_cell_dup(rows, i, 4);
    contact->surname = ph_cell_dup(rows, i, 5);
    contact->organization = ph_cell_dup(rows, i, 6);
    contact->telephone = ph_cell_dup(rows, i, 7);
    contact->mail = ph_cell_dup(rows, i, 8);
    contact->version = ph_cell_int64(rows, i, 9);
    contact->created_us = ph_cell_timestamp_us(rows, i, 10);
    return contact;
}

static void
set_no_contact(int64_t id, GError **error)
{
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no contact %" G_GINT64_FORMAT, id);
}

PhContact *
ph_contact_find_blocking(int64_t id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &find_contact), id);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        set_no_contact(id, error);
        return NULL;
    }
    return contact_from_row(ph_batch_result(&batch, 0), 0);
}

static const PhListing contact_listing = {
    .read_item = contact_from_row,
    .free_item = (GDestroyNotify)ph_contact_free,
    .place = 11,
};

PhPage *
ph_contact_list_blocking(const PhListFilter *filter, const char *after, unsigned limit,
    int64_t deadline_us, GError **error)
{
    g_autofree char *ascii = NULL;
    if (filter->domain != NULL && (ascii = ph_domain_key(filter->domain, error)) == NULL)
        return NULL;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter->text);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_contacts);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_int64(params, filter->tenant_id);
    ph_param_text(params, ascii);
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &contact_listing, limit, error);
}

static const PhStatement add_contact = {
    "contact-add",
    "INSERT INTO contact (tenant_id, domain_id, name, given_name, surname, organization, telephone, mail)\n"
    "SELECT tenant_id, domain_id, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text\n"
    "FROM domain\n"
    "WHERE name_ascii = $1::text\n"
    "RETURNING contact_id",
};

static const PhStatement change_contact = {
    "contact-change",
    "UPDATE contact SET name = $2::text, given_name = $3::text, surname = $4::text, organization = $5::text,\n"
    "       telephone = $6::text, mail = $7::text, version = version + 1\n"
    "WHERE contact_id = $1::bigint AND ($8::bigint < 0 OR version = $8::bigint)\n"
    "RETURNING contact_id",
};

bool
ph_contact_put_blocking(const PhContact *contact, int64_t if_version, int64_t deadline_us,
    int64_t *id_out, GError **error)
{
    g_autofree char *ascii = NULL;
    if (contact->id == 0 && (ascii = ph_domain_key(contact->domain, error)) == NULL)
        return false;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, contact->id == 0 ? &add_contact : &change_contact);
    if (contact->id == 0)
        ph_param_text(params, ascii);
    else
        ph_param_int64(params, contact->id);
    const char *const texts[] = { contact->name, contact->given_name, contact->surname,
        contact->organization, contact->telephone, contact->mail };
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        ph_param_text(params, texts[i]);
    if (contact->id != 0)
        ph_param_int64(params, if_version);
    ph_batch_add(&batch, &ph_sql_commit);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    const PGresult *rows = ph_batch_result(&batch, 1);
    if (PQntuples(rows) == 0) {
        if (contact->id == 0)
            g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no domain \"%s\"", contact->domain);
        else
            g_set_error(
                error, PH_ERROR, PH_ERROR_CONFLICT, "the contact was changed or removed meanwhile");
        return false;
    }
    if (id_out != NULL)
        *id_out = ph_cell_int64(rows, 0, 0);
    return true;
}

static const PhStatement remove_contact = {
    "contact-remove",
    "DELETE FROM contact WHERE contact_id = $1::bigint",
};

bool
ph_contact_remove_blocking(int64_t id, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_int64(ph_batch_add(&batch, &remove_contact), id);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 0) == 0) {
        set_no_contact(id, error);
        return false;
    }
    return true;
}

/* -- upstreams --------------------------------------------------------------------------------- */

#define UPSTREAM_COLUMNS \
    "SELECT upstream_id, name, suffix, urls, start_tls, ca, bind_dn, sealed_password, identity, anonymous, read_only,\n" \
    "       connections, timeout_ms, cache_s, version, created_at\n" \
    "FROM ldap_upstream\n"

static const PhStatement list_upstreams = {
    "upstream-list",
    UPSTREAM_COLUMNS
    "WHERE name > $1::text COLLATE \"C\"\n"
    "  AND ($2::text IS NULL OR name LIKE $2::text OR suffix LIKE $2::text OR urls LIKE $2::text)\n"
    "ORDER BY name\n"
    "LIMIT $3::bigint",
};

static const PhStatement find_upstream = {
    "upstream-find",
    UPSTREAM_COLUMNS "WHERE name = $1::text",
};

static void *
upstream_from_row(const PGresult *rows, int i)
{
    PhStoredUpstream *stored = g_new0(PhStoredUpstream, 1);
    PhUpstream *upstream = stored->upstream = g_new0(PhUpstream, 1);
    upstream->id = ph_cell_int64(rows, i, 0);
    upstream->name = ph_cell_dup(rows, i, 1);
    upstream->suffix = ph_cell_dup(rows, i, 2);
    upstream->urls = ph_cell_dup(rows, i, 3);
    upstream->start_tls = ph_cell_bool(rows, i, 4);
    upstream->ca = ph_cell_dup(rows, i, 5);
    upstream->bind_dn = ph_cell_dup(rows, i, 6);
    if (!PQgetisnull(rows, i, 7))
        stored->sealed_password = ph_cell_bytes(rows, i, 7);
    upstream->identity = (PhUpstreamIdentity)ph_cell_int16(rows, i, 8);
    upstream->anonymous = ph_cell_bool(rows, i, 9);
    upstream->read_only = ph_cell_bool(rows, i, 10);
    upstream->connections = ph_cell_int32(rows, i, 11);
    upstream->timeout_ms = ph_cell_int64(rows, i, 12);
    upstream->cache_s = ph_cell_int64(rows, i, 13);
    upstream->version = ph_cell_int64(rows, i, 14);
    upstream->created_us = ph_cell_timestamp_us(rows, i, 15);
    return stored;
}

static const PhListing upstream_listing = {
    .read_item = upstream_from_row,
    .free_item = (GDestroyNotify)ph_stored_upstream_free,
    .place = 1,
};

PhPage *
ph_stored_upstream_list_blocking(
    const char *filter, const char *after, unsigned limit, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_autofree char *pattern = ph_sql_like(filter);
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    PhParams *params = ph_batch_add(&batch, &list_upstreams);
    ph_param_text(params, after != NULL ? after : "");
    ph_param_text(params, pattern);
    ph_param_int64(params, limit);
    return ph_page_read_blocking(lease, &batch, &upstream_listing, limit, error);
}

static void
set_no_upstream(const char *name, GError **error)
{
    g_autofree char *shown = g_strndup(name, 100);
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no upstream \"%s\"", shown);
}

PhStoredUpstream *
ph_stored_upstream_find_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return NULL;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_param_text(ph_batch_add(&batch, &find_upstream), name);
    if (!ph_batch_run_blocking(lease, &batch, PH_BATCH_SAFE, error))
        return NULL;
    if (PQntuples(ph_batch_result(&batch, 0)) == 0) {
        set_no_upstream(name, error);
        return NULL;
    }
    return upstream_from_row(ph_batch_result(&batch, 0), 0);
}

static const PhStatement add_upstream = {
    "upstream-add",
    "INSERT INTO ldap_upstream (name, suffix, urls, start_tls, ca, bind_dn, sealed_password, identity, anonymous,\n"
    "                           read_only, connections, timeout_ms, cache_s)\n"
    "VALUES ($1::text, $2::text, $3::text, $4::boolean, $5::text, $6::text, $7::bytea, $8::smallint, $9::boolean,\n"
    "        $10::boolean, $11::integer, $12::bigint, $13::bigint)\n"
    "ON CONFLICT DO NOTHING\n"
    "RETURNING upstream_id",
};

static const PhStatement change_upstream = {
    "upstream-change",
    "UPDATE ldap_upstream SET suffix = $2::text, urls = $3::text, start_tls = $4::boolean, ca = $5::text,\n"
    "       bind_dn = $6::text, sealed_password = $7::bytea, identity = $8::smallint, anonymous = $9::boolean,\n"
    "       read_only = $10::boolean, connections = $11::integer, timeout_ms = $12::bigint, cache_s = $13::bigint,\n"
    "       version = version + 1\n"
    "WHERE name = $1::text AND ($14::bigint < 0 OR version = $14::bigint)\n"
    "RETURNING upstream_id",
};

bool
ph_stored_upstream_put_blocking(const PhStoredUpstream *stored, int64_t if_version,
    int64_t deadline_us, int64_t *id_out, GError **error)
{
    const PhUpstream *upstream = stored->upstream;
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    PhParams *params = ph_batch_add(&batch, upstream->id == 0 ? &add_upstream : &change_upstream);
    ph_param_text(params, upstream->name);
    ph_param_text(params, upstream->suffix);
    ph_param_text(params, upstream->urls);
    ph_param_bool(params, upstream->start_tls);
    ph_param_text(params, upstream->ca);
    ph_param_text(params, upstream->bind_dn);
    if (stored->sealed_password != NULL) {
        gsize length;
        const void *bytes = g_bytes_get_data(stored->sealed_password, &length);
        ph_param_bytes(params, bytes, length);
    } else {
        ph_param_null(params);
    }
    ph_param_int16(params, (int16_t)upstream->identity);
    ph_param_bool(params, upstream->anonymous);
    ph_param_bool(params, upstream->read_only);
    ph_param_int32(params, upstream->connections);
    ph_param_int64(params, upstream->timeout_ms);
    ph_param_int64(params, upstream->cache_s);
    if (upstream->id != 0)
        ph_param_int64(params, if_version);
    g_autoptr(GError) cause = NULL;
    bool good = ph_batch_run_blocking(lease, &batch, 0, &cause);
    const PGresult *rows = good ? ph_batch_result(&batch, 1) : NULL;
    if (good && PQntuples(rows) > 0) {
        if (id_out != NULL)
            *id_out = ph_cell_int64(rows, 0, 0);
        return ph_configuration_commit_blocking(lease, error);
    }
    if (good && upstream->id != 0)
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "upstream \"%s\" was changed or removed meanwhile", upstream->name);
    else if (good || ph_error_code(cause) == PH_ERROR_CONFLICT)
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "there is an upstream \"%s\", or one for the suffix \"%s\", already", upstream->name,
            upstream->suffix);
    else
        g_propagate_error(error, g_steal_pointer(&cause));
    return false;
}

static const PhStatement remove_upstream = {
    "upstream-remove",
    "DELETE FROM ldap_upstream WHERE name = $1::text",
};

bool
ph_stored_upstream_remove_blocking(const char *name, int64_t deadline_us, GError **error)
{
    g_autoptr(PhLease) lease = ph_store_lease_blocking(deadline_us, error);
    if (lease == NULL)
        return false;
    g_auto(PhBatch) batch;
    ph_batch_init(&batch);
    ph_batch_add(&batch, &ph_sql_begin);
    ph_param_text(ph_batch_add(&batch, &remove_upstream), name);
    if (!ph_batch_run_blocking(lease, &batch, 0, error))
        return false;
    if (ph_batch_affected(&batch, 1) == 0) {
        set_no_upstream(name, error);
        return false;
    }
    return ph_configuration_commit_blocking(lease, error);
}
