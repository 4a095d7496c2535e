/* tree.c - which names are ours, and what is there */
#include "directory.h"

#include "dn.h"

#include <string.h>

enum {
    DOMAINS_PAGE = 500,
    DOMAINS_MAX = 20000,
    MATCHED_MAX_LABELS = 8, /* of a name that is not there: each costs a question */
};

/* -- names ------------------------------------------------------------------------------------- */

/* The labels at the name's end; `n_others_out` is how many RDNs stand before them. */
static char *
find_domain(const GPtrArray *rdns, unsigned *n_others_out)
{
    g_autoptr(GString) domain = g_string_new(NULL);
    unsigned n = rdns->len;
    while (n > 0) {
        g_autofree char *label = ldap_dn_value(rdns->pdata[n - 1], "dc");
        if (label == NULL || label[0] == '\0' || strchr(label, '.') != NULL)
            break;
        g_string_prepend(domain, domain->len > 0 ? "." : "");
        g_string_prepend(domain, label);
        n--;
    }
    *n_others_out = n;
    return g_string_free(g_steal_pointer(&domain), FALSE);
}

static bool
find_unit(const char *rdn, PhEntryKind *unit_out)
{
    g_autofree char *name = ldap_dn_value(rdn, "ou");
    for (PhEntryKind kind = PH_ENTRY_ACCOUNT; name != NULL && kind <= PH_ENTRY_CONTACT; kind++)
        if (strcmp(ldap_unit_name(kind), name) == 0) {
            *unit_out = kind;
            return true;
        }
    return false;
}

void
ldap_base_init(LdapBase *base, const char *dn)
{
    *base = (LdapBase){ .kind = LDAP_BASE_OTHER };
    g_autoptr(GPtrArray) rdns = g_ptr_array_new(); /* each with what follows it */
    for (const char *at = dn; at != NULL && *at != '\0'; at = ldap_dn_parent(at))
        g_ptr_array_add(rdns, (void *)(uintptr_t)at);
    unsigned n;
    base->domain = find_domain(rdns, &n);
    if (rdns->len == 0)
        base->kind = LDAP_BASE_ROOT;
    if (base->domain[0] == '\0')
        return;
    base->has_unit = n > 0 && find_unit(rdns->pdata[n - 1], &base->unit);
    if (n == 0)
        base->kind = LDAP_BASE_DOMAIN;
    else if (n == 1 && base->has_unit)
        base->kind = LDAP_BASE_UNIT;
    else if (n == 2 && base->has_unit)
        base->key = ldap_dn_value(rdns->pdata[0], ldap_unit_rdn_type(base->unit));
    if (base->key != NULL)
        base->kind = LDAP_BASE_ENTRY;
}

void
ldap_base_clear(LdapBase *base)
{
    g_clear_pointer(&base->domain, g_free);
    g_clear_pointer(&base->key, g_free);
}

/* -- what is there ----------------------------------------------------------------------------- */

static bool
is_visible(const LdapView *view, const PhDomain *domain)
{
    return view->tenant_id < 0 || domain->tenant_id == view->tenant_id;
}

static bool
is_below(const char *name, const char *domain)
{
    size_t length = strlen(name);
    size_t domain_length = strlen(domain);
    return domain_length == 0 || strcmp(name, domain) == 0 ||
           (length > domain_length && name[length - domain_length - 1] == '.' &&
               strcmp(name + length - domain_length, domain) == 0);
}

static int
compare_domains(const void *a, const void *b)
{
    return strcmp((*(PhDomain *const *)a)->name_ascii, (*(PhDomain *const *)b)->name_ascii);
}

GPtrArray *
ldap_domains_blocking(const LdapView *view, const char *domain, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func((GDestroyNotify)ph_domain_free);
    PhListFilter filter = {
        .tenant_id = MAX(view->tenant_id, 0),
        .text = domain[0] != '\0' ? domain : NULL,
    };
    g_autofree char *after = NULL;
    do {
        g_autoptr(PhPage) page =
            ph_domain_list_blocking(&filter, after, DOMAINS_PAGE, view->deadline_us, error);
        if (page == NULL)
            return NULL;
        g_ptr_array_set_free_func(page->items, NULL);
        for (unsigned i = 0; i < page->items->len; i++) {
            PhDomain *item = page->items->pdata[i];
            if (is_visible(view, item) && is_below(item->name_ascii, domain))
                g_ptr_array_add(found, item);
            else
                ph_domain_free(item);
        }
        g_free(after);
        after = g_steal_pointer(&page->next);
    } while (after != NULL && found->len < DOMAINS_MAX);
    g_ptr_array_sort(found, compare_domains);
    return g_steal_pointer(&found);
}

/* Null without an error: there is none, or it is somebody else's. */
static PhDomain *
find_visible(const LdapView *view, const char *name, GError **error)
{
    ph_assert_in_job();
    GError *failure = NULL;
    g_autoptr(PhDomain) domain = ph_domain_find_blocking(name, view->deadline_us, &failure);
    if (domain != NULL)
        return is_visible(view, domain) && strcmp(domain->name_ascii, name) == 0
                   ? g_steal_pointer(&domain)
                   : NULL;
    PhError code = ph_error_code(failure);
    if (code == PH_ERROR_NOT_FOUND || code == PH_ERROR_SYNTAX)
        g_clear_error(&failure);
    else
        g_propagate_error(error, failure);
    return NULL;
}

static LdapEntry *
find_domain_entry(const LdapView *view, const char *name, GError **error)
{
    ph_assert_in_job();
    GError *failure = NULL;
    g_autoptr(PhDomain) domain = find_visible(view, name, &failure);
    if (failure != NULL) {
        g_propagate_error(error, failure);
        return NULL;
    }
    if (domain != NULL)
        return ldap_entry_for_domain(name, domain->created_us);
    g_autoptr(GPtrArray) below = ldap_domains_blocking(view, name, error);
    return below != NULL && below->len > 0 ? ldap_entry_for_domain(name, INT64_MIN) : NULL;
}

static LdapEntry *
find_store_entry(const LdapView *view, const LdapBase *base, GError **error)
{
    ph_assert_in_job();
    PhEntryQuery query = {
        .tenant_id = view->tenant_id,
        .domain = base->domain,
        .kinds = 1U << base->unit,
        .key = base->key,
    };
    g_autoptr(PhPage) page = ph_entry_list_blocking(&query, NULL, 1, view->deadline_us, error);
    if (page == NULL || page->items->len == 0)
        return NULL;
    return ldap_entry_from_store(page->items->pdata[0]);
}

LdapEntry *
ldap_find_blocking(const LdapView *view, const LdapBase *base, GError **error)
{
    switch (base->kind) {
    case LDAP_BASE_DOMAIN:
        return find_domain_entry(view, base->domain, error);
    case LDAP_BASE_UNIT: {
        g_autoptr(PhDomain) domain = find_visible(view, base->domain, error);
        return domain != NULL ? ldap_entry_for_unit(base->domain, base->unit) : NULL;
    }
    case LDAP_BASE_ENTRY:
        return find_store_entry(view, base, error);
    case LDAP_BASE_ROOT:
    case LDAP_BASE_OTHER:
        break;
    }
    return NULL;
}

char *
ldap_matched_blocking(const LdapView *view, const LdapBase *base, GError **error)
{
    ph_assert_in_job();
    g_auto(GStrv) labels = g_strsplit(base->domain, ".", -1);
    unsigned n_labels = g_strv_length(labels);
    for (unsigned i = n_labels - MIN(n_labels, MATCHED_MAX_LABELS); i < n_labels; i++) {
        GError *failure = NULL;
        LdapBase above = { .kind = LDAP_BASE_DOMAIN };
        bool in_unit = base->has_unit && base->kind != LDAP_BASE_UNIT && i == 0;
        above.domain = g_strjoinv(".", labels + i);
        above.unit = base->unit;
        above.kind = in_unit ? LDAP_BASE_UNIT : LDAP_BASE_DOMAIN;
        g_autoptr(LdapEntry) entry = ldap_find_blocking(view, &above, &failure);
        if (entry == NULL && failure == NULL && in_unit) {
            above.kind = LDAP_BASE_DOMAIN;
            entry = ldap_find_blocking(view, &above, &failure);
        }
        ldap_base_clear(&above);
        if (failure != NULL) {
            g_propagate_error(error, failure);
            return NULL;
        }
        if (entry != NULL)
            return g_strdup(entry->dn);
    }
    return g_strdup("");
}
