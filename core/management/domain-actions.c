/* domain-actions.c - tenants, domains and aliases */
#include "management/actions.h"
#include "store/web.h"

/* -- tenants ----------------------------------------------------------------------------------- */

static const PhArgumentRow list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };

static const PhArgumentRow tenant_arguments[] = { PH_NEEDED("name", "the tenant"), { 0 } };

static const PhAnswerRow tenant_list_answers[] = {
    PH_ITEM("name", TEXT, "the tenant"),
    PH_ITEM("domains", INT, "how many domains it has"),
    PH_ITEM("created", TIME, "when it was made"),
    { 0 },
};

static const PhAnswerRow id_answers[] = { PH_FIELD("id", INT, "its number"), { 0 } };

static bool
tenant_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_tenant_list_blocking(ph_action_text(call, "filter"),
        ph_action_text(call, "after"), ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhTenant *tenant = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "name", tenant->name);
        ph_answer_int(call, "domains", tenant->n_domains);
        ph_answer_time(call, "created", tenant->created_us);
    }
    ph_answer_next(call, page->next);
    return true;
}

static bool
tenant_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int64_t id;
    if (!ph_tenant_add_blocking(
            ph_action_text(call, "name"), ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return true;
}

static bool
tenant_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_tenant_remove_blocking(
        ph_action_text(call, "name"), ph_action_deadline_us(call), error);
}

/* -- domains ----------------------------------------------------------------------------------- */

static const PhArgumentRow domain_arguments[] = { PH_NEEDED("name", "the domain"), { 0 } };

static const PhArgumentRow domain_add_arguments[] = {
    PH_NEEDED("name", "the domain"),
    PH_OPTION("tenant", "whose it is (the installation's)"),
    { 0 },
};

#define DOMAIN_ANSWERS(KIND) \
    PH_##KIND("name", TEXT, "the domain"), PH_##KIND("tenant_id", INT, "whose it is"), \
        PH_##KIND("accounts", INT, "how many accounts it has"), \
        PH_##KIND("created", TIME, "when it was added")

static const PhAnswerRow domain_answers[] = { DOMAIN_ANSWERS(FIELD), { 0 } };
static const PhAnswerRow domain_list_answers[] = { DOMAIN_ANSWERS(ITEM), { 0 } };

static void
answer_domain(PhActionCall *call, const PhDomain *domain)
{
    ph_answer_text(call, "name", domain->name);
    ph_answer_int(call, "tenant_id", domain->tenant_id);
    ph_answer_int(call, "accounts", domain->n_accounts);
    ph_answer_time(call, "created", domain->created_us);
}

PH_IN_JOB static bool
tenant_of_new(PhActionCall *call, int64_t *tenant_id_out, GError **error)
{
    const char *tenant = ph_action_text(call, "tenant");
    *tenant_id_out = ph_action_tenant(call);
    if (tenant == NULL || ph_action_role(call) != PH_ROLE_OPERATOR)
        return true;
    ph_action_blame(call, "tenant");
    return ph_tenant_find_blocking(tenant, ph_action_deadline_us(call), tenant_id_out, error);
}

static bool
domain_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    int64_t id;
    int64_t tenant_id;
    if (!tenant_of_new(call, &tenant_id, error))
        return false;
    ph_action_blame(call, "name");
    if (!ph_domain_add_blocking(
            ph_action_text(call, "name"), tenant_id, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return true;
}

static bool
domain_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhDomain) domain = ph_action_domain_blocking(call, "name", error);
    if (domain == NULL)
        return false;
    answer_domain(call, domain);
    return true;
}

static bool
domain_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhDomain) domain = ph_action_domain_blocking(call, "name", error);
    return domain != NULL &&
           ph_domain_remove_blocking(domain->name, ph_action_deadline_us(call), error);
}

static bool
domain_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const PhListFilter filter = {
        .tenant_id = ph_action_tenant(call),
        .text = ph_action_text(call, "filter"),
    };
    g_autoptr(PhPage) page = ph_domain_list_blocking(&filter, ph_action_text(call, "after"),
        ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        ph_answer_item(call);
        answer_domain(call, page->items->pdata[i]);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* -- aliases ----------------------------------------------------------------------------------- */

static const PhArgumentRow alias_arguments[] = {
    PH_NEEDED("address", "the address that people write to"),
    PH_NEEDED("target", "where its mail goes"),
    { 0 },
};

static const PhArgumentRow alias_list_arguments[] = {
    PH_OPTION("domain", "only of this domain"),
    PH_OPTION("target", "only those that lead to this address"),
    PH_ARGUMENTS_LIST,
    { 0 },
};

static const PhAnswerRow alias_list_answers[] = {
    PH_ITEM("address", TEXT, "the address that people write to"),
    PH_ITEM("target", TEXT, "where its mail goes"),
    { 0 },
};

static bool
alias_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_action_may_address_blocking(call, "address", error) &&
           ph_alias_add_blocking(ph_action_text(call, "address"), ph_action_text(call, "target"),
               ph_action_deadline_us(call), error);
}

static bool
alias_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_action_may_address_blocking(call, "address", error) &&
           ph_alias_remove_blocking(ph_action_text(call, "address"), ph_action_text(call, "target"),
               ph_action_deadline_us(call), error);
}

static bool
alias_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const PhListFilter filter = {
        .tenant_id = ph_action_tenant(call),
        .domain = ph_action_text(call, "domain"),
        .target = ph_action_text(call, "target"),
        .text = ph_action_text(call, "filter"),
    };
    g_autoptr(PhPage) page = ph_alias_list_blocking(&filter, ph_action_text(call, "after"),
        ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        const PhAlias *alias = page->items->pdata[i];
        ph_answer_item(call);
        ph_answer_text(call, "address", alias->address);
        ph_answer_text(call, "target", alias->target);
    }
    ph_answer_next(call, page->next);
    return true;
}

// clang-format off
const PhActionRow ph_domain_actions[] = {
    { "tenant.list", PH_ROLE_OPERATOR, 0, list_arguments, tenant_list_answers, tenant_list, "GET /tenants", NULL, "the tenants: customers with domains of their own" },
    { "tenant.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, tenant_arguments, id_answers, tenant_add, "POST /tenants", NULL, "make a tenant" },
    { "tenant.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, tenant_arguments, NULL, tenant_remove, "DELETE /tenants/{name}", NULL, "end one that has nothing left" },
    { "domain.list", PH_ROLE_TENANT, 0, list_arguments, domain_list_answers, domain_list, "GET /domains", NULL, "the domains" },
    { "domain.show", PH_ROLE_TENANT, 0, domain_arguments, domain_answers, domain_show, "GET /domains/{name}", NULL, "one domain" },
    { "domain.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, domain_add_arguments, id_answers, domain_add, "POST /domains", "domain.show", "take mail for a domain" },
    { "domain.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, domain_arguments, NULL, domain_remove, "DELETE /domains/{name}", "domain.show", "give up a domain that has no accounts or aliases" },
    { "alias.list", PH_ROLE_TENANT, 0, alias_list_arguments, alias_list_answers, alias_list, "GET /aliases", NULL, "the aliases" },
    { "alias.add", PH_ROLE_TENANT, PH_ACTION_CHANGES, alias_arguments, NULL, alias_add, "POST /aliases", NULL, "send mail for an address somewhere else" },
    { "alias.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, alias_arguments, NULL, alias_remove, "DELETE /aliases/{address}/{target}", NULL, "end that" },
    { 0 },
};
// clang-format on
