/* directory.c - searches in our own tree
 *
 * A search is a number of jobs, one after the other: each reads one page of the store, or a part of the
 * domains, and gives the answers as bytes, which are written before the next one runs - and the next one
 * runs only when the client has read enough. Where a page of results ends (RFC 2696), the place goes to
 * the client as a cookie: nothing is kept here for clients that may never come back. A code over the
 * cookie binds it to this search and to who asks, so that nobody can make one up.
 */
#include "directory.h"

#include "dn.h"
#include "ldap.h"
#include "local.h"

#include "posthouse/log.h"

#include <string.h>

enum {
    STORE_PAGE = 500,
    OUTPUT_BYTES = 64 * 1024, /* of one job */
    COOKIE_MAX_BYTES = 4096,
};

typedef enum Scope {
    SCOPE_BASE,
    SCOPE_ONE,
    SCOPE_SUBTREE,
    SCOPE_CHILDREN, /* subordinate subtree */
} Scope;

/* Where the search stands. */
typedef struct Place {
    uint32_t container; /* the next one of search->containers */
    char *after;        /* the store's last entry that was looked at; null: none yet */
    uint32_t total;     /* entries given, on all pages of results */
} Place;

typedef struct Container {
    char *domain;
    int64_t created_us;
    int unit; /* PhEntryKind; below 0: the domain itself */
} Container;

typedef struct Search {
    PhRef ref;
    /* what is asked */
    GBytes *bytes; /* the request: spans point into it */
    int32_t id;
    char *dn; /* the base, normalised */
    LdapBase base;
    Scope scope;
    int64_t size_limit; /* of all pages; 0: none */
    int64_t page_limit; /* of this answer */
    bool page_is_asked; /* ending at the limit is no failure */
    bool may_forward;   /* what is not ours is somebody else's */
    LdapFilter *filter;
    LdapSelection selection;
    LdapView view;
    /* where it stands */
    bool is_resolved;
    GPtrArray *containers;
    Place place;
    int64_t given; /* in this answer */
    bool waits;    /* for the client to read */
    /* of the job that ran last */
    BerElement *out;
    bool is_done;
    bool is_elsewhere;
    LdapResult result;
    char *matched;
    bool has_more;
    GError *error;
} Search;

static void
free_container(void *data)
{
    Container *container = data;
    g_free(container->domain);
    g_free(container);
}

static void
unref_search(void *data)
{
    Search *search = data;
    if (!ph_ref_drop(&search->ref))
        return;
    g_bytes_unref(search->bytes);
    g_free(search->dn);
    ldap_base_clear(&search->base);
    ldap_filter_free(search->filter);
    g_ptr_array_unref(search->containers);
    g_free(search->place.after);
    ldap_writer_free(search->out);
    g_free(search->matched);
    g_clear_error(&search->error);
    g_free(search);
}

/* -- in the job: what a search gives ----------------------------------------------------------- */

static void
end_job(Search *search, LdapResult result)
{
    search->is_done = true;
    search->result = result;
}

/* False: the search ends here, before this entry. */
static bool
give(Search *search, LdapEntry *entry)
{
    if (ldap_filter_match(search->filter, entry) != LDAP_TRUE)
        return true;
    bool is_over = search->size_limit > 0 && search->place.total >= search->size_limit;
    if (is_over || search->given >= search->page_limit) {
        search->has_more = !is_over && search->page_is_asked;
        end_job(search, search->has_more ? LDAP_SUCCESS : LDAP_SIZE_LIMIT_EXCEEDED);
        return false;
    }
    ldap_entry_append(search->out, search->id, entry, &search->selection);
    search->given++;
    search->place.total++;
    return true;
}

static bool
is_late(Search *search)
{
    if (ph_monotonic_us() < search->view.deadline_us)
        return false;
    end_job(search, LDAP_TIME_LIMIT_EXCEEDED);
    return true;
}

static void
add_container(Search *search, const char *domain, int64_t created_us, int unit)
{
    Container *container = g_new0(Container, 1);
    container->domain = g_strdup(domain);
    container->created_us = created_us;
    container->unit = unit;
    g_ptr_array_add(search->containers, container);
}

/* The node itself and, when it is a domain, its units - as far as the scope has them. */
static void
add_node(Search *search, const char *domain, const PhDomain *found)
{
    const char *base = search->base.domain;
    bool is_base = strcmp(domain, base) == 0;
    const char *dot = strchr(domain, '.');
    bool is_child = strcmp(dot != NULL ? dot + 1 : "", base) == 0;
    bool itself = search->scope == SCOPE_SUBTREE || (search->scope == SCOPE_BASE && is_base) ||
                  (search->scope == SCOPE_ONE && is_child) ||
                  (search->scope == SCOPE_CHILDREN && !is_base);
    bool units =
        found != NULL && (search->scope == SCOPE_SUBTREE || search->scope == SCOPE_CHILDREN ||
                             (search->scope == SCOPE_ONE && is_base));
    if (itself)
        add_container(search, domain, found != NULL ? found->created_us : INT64_MIN, -1);
    for (PhEntryKind kind = PH_ENTRY_ACCOUNT; units && kind <= PH_ENTRY_CONTACT; kind++)
        add_container(search, domain, INT64_MIN, (int)kind);
}

/* The domains that were found, and what lies between the base and them, by name. */
static void
add_nodes(Search *search, const GPtrArray *domains)
{
    g_autoptr(GHashTable) nodes = g_hash_table_new(g_str_hash, g_str_equal);
    size_t base_length = strlen(search->base.domain);
    for (unsigned i = 0; i < domains->len; i++) {
        const PhDomain *domain = domains->pdata[i];
        const char *name = domain->name_ascii;
        while (name != NULL && strlen(name) >= MAX(base_length, 1)) {
            if (!g_hash_table_contains(nodes, name))
                g_hash_table_insert(nodes, (void *)(uintptr_t)name, NULL);
            name = strchr(name, '.') != NULL ? strchr(name, '.') + 1 : NULL;
        }
    }
    for (unsigned i = 0; i < domains->len; i++) {
        PhDomain *domain = domains->pdata[i];
        g_hash_table_replace(nodes, domain->name_ascii, domain);
    }
    g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(nodes), (GCompareFunc)strcmp);
    for (GList *link = names; link != NULL; link = link->next)
        add_node(search, link->data, g_hash_table_lookup(nodes, link->data));
}

/* Is the base there, and which containers does the search pass? A base that is an entry is given at
 * once: nothing is below it. False: it is not there, or the error is set. */
static bool
resolve(Search *search)
{
    ph_assert_in_job();
    g_autoptr(LdapEntry) entry = NULL;
    g_autoptr(GPtrArray) domains = NULL;
    switch (search->base.kind) {
    case LDAP_BASE_OTHER:
        return false;
    case LDAP_BASE_ROOT:
    case LDAP_BASE_DOMAIN:
        domains = ldap_domains_blocking(&search->view, search->base.domain, &search->error);
        if (domains == NULL || (domains->len == 0 && search->base.kind == LDAP_BASE_DOMAIN))
            return false;
        add_nodes(search, domains);
        return true;
    case LDAP_BASE_UNIT:
    case LDAP_BASE_ENTRY:
        entry = ldap_find_blocking(&search->view, &search->base, &search->error);
        break;
    }
    if (entry == NULL)
        return false;
    bool itself = search->scope == SCOPE_BASE || search->scope == SCOPE_SUBTREE;
    if (itself && search->base.kind == LDAP_BASE_UNIT)
        add_container(search, search->base.domain, INT64_MIN, (int)search->base.unit);
    if (search->base.kind == LDAP_BASE_ENTRY && (!itself || give(search, entry)))
        end_job(search, LDAP_SUCCESS);
    return true;
}

static void
give_containers(Search *search)
{
    while (search->place.container < search->containers->len && !search->is_done &&
           ldap_writer_length(search->out) < OUTPUT_BYTES && !is_late(search)) {
        const Container *container = search->containers->pdata[search->place.container];
        g_autoptr(LdapEntry) entry =
            container->unit < 0
                ? ldap_entry_for_domain(container->domain, container->created_us)
                : ldap_entry_for_unit(container->domain, (PhEntryKind)container->unit);
        if (give(search, entry))
            search->place.container++;
    }
}

/* Which entries of the store lie in the search; false: none. */
static bool
make_query(const Search *search, const LdapNarrowing *narrowing, PhEntryQuery *query_out)
{
    bool deep = search->scope == SCOPE_SUBTREE || search->scope == SCOPE_CHILDREN;
    PhEntryQuery query = { .tenant_id = search->view.tenant_id, .kinds = narrowing->kinds };
    if (narrowing->n_texts > 0)
        query.texts = narrowing->texts;
    switch (search->base.kind) {
    case LDAP_BASE_ROOT:
        if (!deep)
            return false;
        break;
    case LDAP_BASE_DOMAIN:
        if (!deep)
            return false;
        query.domain = search->base.domain;
        query.domains_below = true;
        break;
    case LDAP_BASE_UNIT:
        if (search->scope == SCOPE_BASE)
            return false;
        query.domain = search->base.domain;
        query.kinds &= 1U << search->base.unit;
        break;
    case LDAP_BASE_ENTRY: /* was given when it was found */
    case LDAP_BASE_OTHER:
        return false;
    }
    *query_out = query;
    return query.kinds != 0;
}

static void
give_page(Search *search, const PhPage *page)
{
    for (guint i = 0; i < page->items->len; i++) {
        const PhEntry *stored = page->items->pdata[i];
        g_autoptr(LdapEntry) entry = ldap_entry_from_store(stored);
        if (!give(search, entry))
            return;
        g_free(search->place.after);
        search->place.after = g_strdup(stored->place);
        if (is_late(search))
            return;
    }
    if (page->next == NULL)
        end_job(search, LDAP_SUCCESS);
}

static void
give_entries(Search *search)
{
    ph_assert_in_job();
    LdapNarrowing narrowing;
    PhEntryQuery query;
    ldap_filter_narrow(search->filter, &narrowing);
    if (!make_query(search, &narrowing, &query)) {
        end_job(search, LDAP_SUCCESS);
        return;
    }
    g_autoptr(PhPage) page = ph_entry_list_blocking(
        &query, search->place.after, STORE_PAGE, search->view.deadline_us, &search->error);
    if (page != NULL)
        give_page(search, page);
}

static void
run_search(void *data)
{
    ph_assert_in_job();
    Search *search = data;
    if (is_late(search))
        return;
    if (!search->is_resolved && !resolve(search)) {
        search->is_elsewhere = search->error == NULL && search->may_forward;
        if (search->error == NULL && !search->is_elsewhere)
            search->matched = ldap_matched_blocking(&search->view, &search->base, &search->error);
        if (search->error == NULL)
            end_job(search, LDAP_NO_SUCH_OBJECT);
    } else {
        search->is_resolved = true;
        give_containers(search);
        /* A cookie may be behind what is there by now. */
        if (!search->is_done && search->place.container >= search->containers->len)
            give_entries(search);
    }
    /* A database that is slow is the limit passed, one that is away is not. */
    if (search->error != NULL && is_late(search))
        g_clear_error(&search->error);
}

/* -- pages of results (RFC 2696) --------------------------------------------------------------- */

/* What the code of a cookie is made over: who asks, what is asked, and the place. */
static void
sign(const LdapSession *session, const Search *search, const uint8_t *place, size_t length,
    uint8_t *code_out)
{
    const PhSecret *key = ldap_state(session)->cookie_key;
    g_autoptr(GHmac) hmac =
        g_hmac_new(G_CHECKSUM_SHA256, ph_secret_bytes(key), ph_secret_length(key));
    g_autofree char *filter = ldap_filter_text(search->filter);
    int64_t account = session->identity != NULL ? session->identity->account_id : 0;
    g_autofree char *what = g_strdup_printf("%" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %d %s",
        account, search->view.tenant_id, (int)search->scope, filter);
    g_hmac_update(hmac, (const guchar *)search->dn, (gssize)strlen(search->dn) + 1);
    g_hmac_update(hmac, (const guchar *)what, (gssize)strlen(what) + 1);
    g_hmac_update(hmac, place, (gssize)length);
    size_t code_length = LDAP_COOKIE_CODE_BYTES;
    g_hmac_get_digest(hmac, code_out, &code_length);
}

static void
append_cookie(BerElement *out, const LdapSession *session, const Search *search)
{
    const Place *place = &search->place;
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    const uint32_t numbers[] = { place->container, place->total, place->after != NULL };
    g_byte_array_append(bytes, (const guint8 *)numbers, sizeof(numbers));
    if (place->after != NULL)
        g_byte_array_append(bytes, (const guint8 *)place->after, (guint)strlen(place->after));
    uint8_t code[LDAP_COOKIE_CODE_BYTES];
    sign(session, search, bytes->data, bytes->len, code);
    g_byte_array_prepend(bytes, code, sizeof(code));
    ber_printf(out, "o", (const char *)bytes->data, (ber_len_t)bytes->len);
}

/* False: not one of ours, or of another search. */
static bool
take_cookie(LdapSession *session, Search *search, LdapSpan cookie)
{
    uint32_t numbers[3];
    uint8_t code[LDAP_COOKIE_CODE_BYTES];
    if (cookie.length < sizeof(code) + sizeof(numbers) || cookie.length > COOKIE_MAX_BYTES)
        return false;
    const uint8_t *place = cookie.bytes + sizeof(code);
    size_t length = cookie.length - sizeof(code);
    sign(session, search, place, length, code);
    g_autoptr(PhSecret) ours = ph_secret_new(code, sizeof(code));
    g_autoptr(PhSecret) theirs = ph_secret_new(cookie.bytes, sizeof(code));
    if (!ph_secret_equal(ours, theirs))
        return false;
    memcpy(numbers, place, sizeof(numbers));
    search->place = (Place){ .container = numbers[0], .total = numbers[1] };
    if (numbers[2] != 0)
        search->place.after =
            g_strndup((const char *)place + sizeof(numbers), length - sizeof(numbers));
    return true;
}

static void
append_page_control(BerElement *answer, const LdapSession *session, const Search *search)
{
    BerElement *list = ldap_writer_new();
    ber_printf(list, "{i", 0); /* how many there are is not known */
    if (search->has_more)
        append_cookie(list, session, search);
    else
        ber_printf(list, "s", "");
    ber_printf(list, "}");
    LdapSpan value = ldap_writer_bytes(list);
    ber_printf(answer, "t{{so}}", (ber_tag_t)LDAP_TAG_CONTROLS, LDAP_OID_PAGES,
        (const char *)value.bytes, (ber_len_t)value.length);
    ldap_writer_free(list);
}

/* -- on the reactor ---------------------------------------------------------------------------- */

static void
finish(LdapOperation *operation, const Search *search)
{
    ph_assert_on_reactor();
    if (!search->page_is_asked) {
        ldap_operation_finish(operation, search->result, search->matched, NULL);
        return;
    }
    BerElement *answer = ldap_writer_new();
    ber_printf(answer, "{it{ess}", (int)operation->id, (ber_tag_t)LDAP_RES_SEARCH_DONE,
        (int)search->result, search->matched != NULL ? search->matched : "", "");
    append_page_control(answer, operation->session, search);
    ber_printf(answer, "}");
    ldap_operation_answer(operation, answer);
    ldap_operation_end(operation);
}

static void
write_entries(LdapOperation *operation, Search *search)
{
    ph_assert_on_reactor();
    ldap_operation_answer(operation, search->out);
    search->out = ldap_writer_new();
}

static void search_done(PhTask *task, void *data);

static void
go_on(LdapOperation *operation)
{
    ph_assert_on_reactor();
    Search *search = operation->data;
    search->waits = ldap_session_is_full(operation->session);
    if (search->waits)
        return;
    ph_ref_take(&search->ref);
    ph_task_run(&operation->task, PH_LANE_WEB, run_search, search_done, search, unref_search);
}

static void
search_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    Search *search = data;
    LdapOperation *operation = ldap_operation_of(task);
    if (ldap_writer_length(search->out) > 0)
        write_entries(operation, search);
    if (search->error != NULL)
        ldap_operation_fail(operation, search->error);
    else if (search->is_elsewhere)
        ldap_forward_elsewhere(operation, search->dn);
    else if (search->is_done)
        finish(operation, search);
    else
        go_on(operation);
}

void
ldap_directory_drained(LdapSession *session)
{
    GList *next;
    for (GList *link = session->operations.head; link != NULL; link = next) {
        next = link->next;
        LdapOperation *operation = link->data;
        if (operation->free_data != unref_search)
            continue;
        Search *search = operation->data;
        if (search->waits)
            go_on(operation);
    }
}

/* -- the request ------------------------------------------------------------------------------- */

typedef struct Request {
    LdapSpan base;
    int32_t scope;
    int32_t size_limit;
    int32_t time_limit;
    bool types_only;
    LdapSpan filter;
    LdapSpan attributes;
} Request;

static bool
read_int(LdapReader *reader, uint8_t tag, int32_t max, int32_t *number_out)
{
    return ldap_read_int(reader, tag, number_out) && *number_out >= 0 && *number_out <= max;
}

static bool
read_request(LdapSpan op, Request *request)
{
    int32_t deref;
    struct berval filter;
    g_autoptr(LdapReader) reader = ldap_reader_new(op);
    if (!ldap_read(reader, LDAP_TAG_OCTETS, &request->base) ||
        !read_int(reader, LDAP_TAG_ENUMERATED, SCOPE_CHILDREN, &request->scope) ||
        !read_int(reader, LDAP_TAG_ENUMERATED, 3, &deref) ||
        !read_int(reader, LDAP_TAG_INTEGER, INT32_MAX, &request->size_limit) ||
        !read_int(reader, LDAP_TAG_INTEGER, INT32_MAX, &request->time_limit) ||
        !ldap_read_bool(reader, LDAP_TAG_BOOLEAN, &request->types_only) ||
        ldap_reader_peek(reader) == 0 || ber_skip_raw(reader, &filter) == LBER_DEFAULT)
        return false;
    request->filter =
        (LdapSpan){ .bytes = (const uint8_t *)filter.bv_val, .length = filter.bv_len };
    return ldap_read(reader, LDAP_TAG_SEQUENCE, &request->attributes);
}

static Search *
new_search(LdapOperation *operation, char *dn)
{
    Search *search = g_new0(Search, 1);
    ph_ref_init(&search->ref);
    search->bytes = g_bytes_ref(operation->bytes);
    search->id = operation->id;
    search->dn = dn;
    ldap_base_init(&search->base, dn);
    search->containers = g_ptr_array_new_with_free_func(free_container);
    search->out = ldap_writer_new();
    operation->data = search;
    operation->free_data = unref_search;
    return search;
}

/* The value of the control for pages. LDAP_SUCCESS: taken. */
static LdapResult
take_pages(LdapOperation *operation, Search *search, LdapSpan value)
{
    ph_assert_on_reactor();
    size_t length;
    LdapSpan cookie;
    int32_t size;
    g_autoptr(LdapReader) reader = ldap_reader_new(value);
    if (!ldap_read_into(reader, LDAP_TAG_SEQUENCE, &length) || length != ldap_reader_left(reader) ||
        !read_int(reader, LDAP_TAG_INTEGER, INT32_MAX, &size) ||
        !ldap_read(reader, LDAP_TAG_OCTETS, &cookie) || ldap_reader_left(reader) > 0)
        return LDAP_PROTOCOL_ERROR;
    search->page_is_asked = true;
    if (cookie.length > 0 && !take_cookie(operation->session, search, cookie))
        return LDAP_UNWILLING_TO_PERFORM;
    if (size > 0)
        search->page_limit = MIN(search->page_limit, size);
    else if (cookie.length > 0)
        search->is_done = true; /* the client has seen enough */
    return LDAP_SUCCESS;
}

static LdapResult
take_controls(LdapOperation *operation, Search *search)
{
    ph_assert_on_reactor();
    LdapSpan at = operation->pdu.controls;
    LdapControl control;
    LdapParse parse;
    while ((parse = ldap_control_next(&at, &control)) == LDAP_PARSE_DONE) {
        LdapResult result = LDAP_SUCCESS;
        if (ldap_span_is(control.oid, LDAP_OID_PAGES))
            result = search->page_is_asked ? LDAP_PROTOCOL_ERROR
                                           : take_pages(operation, search, control.value);
        else if (control.is_critical && !ldap_span_is(control.oid, LDAP_OID_MANAGE_DSA_IT))
            result = LDAP_UNAVAILABLE_CRITICAL_EXTENSION;
        if (result != LDAP_SUCCESS)
            return result;
    }
    return parse == LDAP_PARSE_BAD ? LDAP_PROTOCOL_ERROR : LDAP_SUCCESS;
}

/* Fills the search from the request; false: the operation is over. */
static bool
prepare(LdapOperation *operation, Search *search, const Request *request)
{
    ph_assert_on_reactor();
    switch (ldap_filter_parse(request->filter, &search->filter)) {
    case LDAP_PARSE_DONE:
        break;
    case LDAP_PARSE_TOO_LARGE:
        ldap_operation_finish(
            operation, LDAP_ADMIN_LIMIT_EXCEEDED, NULL, "that filter is too deep or too long");
        return false;
    case LDAP_PARSE_MORE:
    case LDAP_PARSE_BAD:
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed filter");
        return false;
    }
    if (!ldap_selection_parse(request->attributes, request->types_only, &search->selection)) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "malformed attributes");
        return false;
    }
    search->scope = (Scope)request->scope;
    search->size_limit = request->size_limit;
    search->page_limit = ph_setting_int("ldap.search.max_entries");
    int64_t seconds = ph_setting_int("ldap.search.max_seconds");
    if (request->time_limit > 0)
        seconds = MIN(seconds, request->time_limit);
    search->view.deadline_us = ph_monotonic_us() + seconds * G_USEC_PER_SEC;
    search->view.tenant_id = ldap_visible_tenant(operation->session);
    LdapResult result = take_controls(operation, search);
    if (result != LDAP_SUCCESS) {
        ldap_operation_finish(operation, result, NULL,
            result == LDAP_UNAVAILABLE_CRITICAL_EXTENSION ? "a critical control is not known"
            : result == LDAP_UNWILLING_TO_PERFORM         ? "that cookie is of another search"
                                                          : "a malformed control");
        return false;
    }
    return true;
}

/* An entry that stands alone: the root DSE or the schema. */
static void
answer_alone(LdapOperation *operation, Search *search, LdapEntry *entry)
{
    ph_assert_on_reactor();
    bool in_scope = search->scope == SCOPE_BASE || search->scope == SCOPE_SUBTREE;
    search->result = LDAP_SUCCESS;
    if (in_scope && ldap_filter_match(search->filter, entry) == LDAP_TRUE) {
        ldap_entry_append(search->out, search->id, entry, &search->selection);
        write_entries(operation, search);
    }
    finish(operation, search);
}

/* The domains that are not below another one. */
static void
find_contexts(void *data)
{
    ph_assert_in_job();
    Search *search = data;
    g_autoptr(GPtrArray) domains = ldap_domains_blocking(&search->view, "", &search->error);
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
    for (unsigned i = 0; domains != NULL && i < domains->len; i++)
        g_hash_table_add(names, ((PhDomain *)domains->pdata[i])->name_ascii);
    for (unsigned i = 0; domains != NULL && i < domains->len; i++) {
        const char *domain = ((PhDomain *)domains->pdata[i])->name_ascii;
        const char *above = strchr(domain, '.');
        while (above != NULL && !g_hash_table_contains(names, above + 1))
            above = strchr(above + 1, '.');
        if (above == NULL)
            add_container(search, domain, INT64_MIN, -1);
    }
}

static void
contexts_found(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    Search *search = data;
    LdapOperation *operation = ldap_operation_of(task);
    g_autoptr(LdapEntry) entry = ldap_root_dse(operation->session);
    for (unsigned i = 0; i < search->containers->len; i++) {
        g_autoptr(GString) dn = g_string_new(NULL);
        ldap_append_domain_dn(dn, ((Container *)search->containers->pdata[i])->domain);
        ldap_entry_add(entry, LDAP_ATTR_NAMING_CONTEXTS, dn->str);
    }
    answer_alone(operation, search, entry);
}

/* With the domains that the client may see; while they cannot be asked, without. */
static void
answer_root_dse(LdapOperation *operation, Search *search)
{
    ph_assert_on_reactor();
    if (!ldap_may_read(operation->session) ||
        !search->selection.wanted[LDAP_ATTR_NAMING_CONTEXTS]) {
        contexts_found(&operation->task, search);
        return;
    }
    ph_ref_take(&search->ref);
    ph_task_run(&operation->task, PH_LANE_WEB, find_contexts, contexts_found, search, unref_search);
}

void
ldap_search(LdapOperation *operation)
{
    Request request = { 0 };
    LdapSession *session = operation->session;
    if (!read_request(operation->pdu.op, &request)) {
        ldap_operation_finish(operation, LDAP_PROTOCOL_ERROR, NULL, "a malformed search");
        return;
    }
    g_autofree char *dn = ldap_dn_normalize(request.base.bytes, request.base.length);
    if (dn == NULL) {
        ldap_operation_finish(operation, LDAP_INVALID_DN_SYNTAX, NULL, "a malformed name");
        return;
    }
    bool is_root_dse = dn[0] == '\0' && request.scope == SCOPE_BASE;
    bool is_schema = strcmp(dn, LDAP_SUBSCHEMA_NORMAL_DN) == 0;
    LdapRoute route = is_root_dse || is_schema ? LDAP_ROUTE_LOCAL : ldap_route(operation, dn);
    if (route == LDAP_ROUTE_TAKEN)
        return;
    Search *search = new_search(operation, g_steal_pointer(&dn));
    if (!prepare(operation, search, &request))
        return;
    search->may_forward = route == LDAP_ROUTE_LOCAL_FIRST;
    if (is_root_dse) {
        answer_root_dse(operation, search);
    } else if (is_schema) {
        g_autoptr(LdapEntry) entry = ldap_subschema_entry();
        answer_alone(operation, search, entry);
    } else if (!ldap_may_read(session)) {
        ldap_operation_finish(operation, LDAP_INSUFFICIENT_ACCESS, NULL, "log in first");
    } else if (search->is_done) {
        finish(operation, search);
    } else {
        go_on(operation);
    }
}
