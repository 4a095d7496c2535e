/* contact-actions.c - people outside whom a domain keeps in its address book */
#include "management/actions.h"
#include "posthouse/directory.h"
#include "posthouse/message-address.h"

#include <string.h>

#define TEXT_OPTION(name, help) \
    { \
        name, PH_ARGUMENT_TEXT, 0, help, NULL, 0, 255 \
    }

#define CONTACT_OPTIONS \
    TEXT_OPTION("given_name", "the given name"), TEXT_OPTION("surname", "the family name"), \
        TEXT_OPTION("organization", "where the person works"), \
        TEXT_OPTION("telephone", "a number to call"), \
    { \
        "mail", PH_ARGUMENT_TEXT, 0, "mail addresses, divided by commas", NULL, 0, 1024 \
    }

static const PhArgumentRow list_arguments[] = {
    PH_OPTION("domain", "only of this domain"),
    PH_ARGUMENTS_LIST,
    { 0 },
};

static const PhArgumentRow id_arguments[] = {
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the contact's number",
        NULL, 0, 0 },
    { 0 },
};

static const PhArgumentRow add_arguments[] = {
    PH_NEEDED("domain", "in whose address book"),
    { "name", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the name to show",
        NULL, 0, 255 },
    CONTACT_OPTIONS,
    { 0 },
};

static const PhArgumentRow change_arguments[] = {
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "the contact's number",
        NULL, 0, 0 },
    TEXT_OPTION("name", "the name to show"),
    CONTACT_OPTIONS,
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

#define CONTACT_ANSWERS(KIND) \
    PH_##KIND("id", INT, "its number"), PH_##KIND("domain", TEXT, "in whose address book"), \
        PH_##KIND("name", TEXT, "the name to show"), \
        PH_##KIND("given_name", TEXT, "the given name"), \
        PH_##KIND("surname", TEXT, "the family name"), \
        PH_##KIND("organization", TEXT, "where the person works"), \
        PH_##KIND("telephone", TEXT, "a number to call"), \
        PH_##KIND("mail", TEXT, "mail addresses, divided by commas"), \
        PH_##KIND("version", INT, "raised by each change"), \
        PH_##KIND("created", TIME, "when it was made")

static const PhAnswerRow contact_answers[] = { CONTACT_ANSWERS(FIELD), { 0 } };
static const PhAnswerRow contact_list_answers[] = { CONTACT_ANSWERS(ITEM), { 0 } };
static const PhAnswerRow id_answers[] = { PH_FIELD("id", INT, "its number"), { 0 } };

static void
answer_contact(PhActionCall *call, const PhContact *contact)
{
    ph_answer_int(call, "id", contact->id);
    ph_answer_text(call, "domain", contact->domain);
    ph_answer_text(call, "name", contact->name);
    ph_answer_text(call, "given_name", contact->given_name);
    ph_answer_text(call, "surname", contact->surname);
    ph_answer_text(call, "organization", contact->organization);
    ph_answer_text(call, "telephone", contact->telephone);
    ph_answer_text(call, "mail", contact->mail);
    ph_answer_int(call, "version", contact->version);
    ph_answer_time(call, "created", contact->created_us);
}

static bool
contact_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const PhListFilter filter = {
        .tenant_id = ph_action_tenant(call),
        .domain = ph_action_text(call, "domain"),
        .text = ph_action_text(call, "filter"),
    };
    g_autoptr(PhPage) page = ph_contact_list_blocking(&filter, ph_action_text(call, "after"),
        ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        ph_answer_item(call);
        answer_contact(call, page->items->pdata[i]);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* The contact, if the caller may see it. */
PH_IN_JOB static PhContact *
find_contact(PhActionCall *call, GError **error)
{
    int64_t id = ph_action_int(call, "id", 0);
    g_autoptr(PhContact) contact = ph_contact_find_blocking(id, ph_action_deadline_us(call), error);
    if (contact == NULL)
        return NULL;
    if (!ph_action_may_tenant(call, contact->tenant_id)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no contact %" G_GINT64_FORMAT, id);
        return NULL;
    }
    ph_action_about_tenant(call, contact->tenant_id);
    return g_steal_pointer(&contact);
}

static bool
contact_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhContact) contact = find_contact(call, error);
    if (contact == NULL)
        return false;
    answer_contact(call, contact);
    return true;
}

/* Each address in its normal form, without blanks. Null with SYNTAX. */
static char *
normal_mail(PhActionCall *call, const char *text, GError **error)
{
    g_autoptr(GString) mail = g_string_new(NULL);
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    for (char **word = words; *word != NULL; word++) {
        const char *address = g_strstrip(*word);
        if (address[0] == '\0')
            continue;
        const char *at = strrchr(address, '@');
        g_autofree char *local = at != NULL ? g_strndup(address, (gsize)(at - address)) : NULL;
        g_autofree char *normal = local != NULL ? ph_address_normalize(local, at + 1) : NULL;
        if (normal == NULL) {
            ph_action_blame(call, "mail");
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no mail address", address);
            return NULL;
        }
        g_string_append_printf(mail, "%s%s", mail->len > 0 ? "," : "", normal);
    }
    return g_string_free(g_steal_pointer(&mail), FALSE);
}

static void
take(PhActionCall *call, const char *name, char **value)
{
    const char *text = ph_action_text(call, name);
    if (text == NULL && *value != NULL)
        return;
    g_free(*value);
    *value = g_strstrip(g_strdup(text != NULL ? text : ""));
}

/* What was given takes the place of what was there. */
static bool
take_fields(PhActionCall *call, PhContact *contact, GError **error)
{
    take(call, "name", &contact->name);
    take(call, "given_name", &contact->given_name);
    take(call, "surname", &contact->surname);
    take(call, "organization", &contact->organization);
    take(call, "telephone", &contact->telephone);
    take(call, "mail", &contact->mail);
    if (contact->name[0] == '\0') {
        ph_action_blame(call, "name");
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a contact needs a name");
        return false;
    }
    char *mail = normal_mail(call, contact->mail, error);
    if (mail == NULL)
        return false;
    g_free(contact->mail);
    contact->mail = mail;
    return true;
}

static bool
contact_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhDomain) domain = ph_action_domain_blocking(call, "domain", error);
    g_autoptr(PhContact) contact = g_new0(PhContact, 1);
    int64_t id;
    if (domain == NULL || !take_fields(call, contact, error))
        return false;
    contact->domain = g_strdup(domain->name);
    if (!ph_contact_put_blocking(contact, -1, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return true;
}

static bool
contact_change(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhContact) contact = find_contact(call, error);
    return contact != NULL && take_fields(call, contact, error) &&
           ph_contact_put_blocking(contact, ph_action_version(call, contact->version),
               ph_action_deadline_us(call), NULL, error);
}

static bool
contact_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhContact) contact = find_contact(call, error);
    return contact != NULL &&
           ph_contact_remove_blocking(contact->id, ph_action_deadline_us(call), error);
}

// clang-format off
const PhActionRow ph_contact_actions[] = {
    { "contact.list", PH_ROLE_TENANT, 0, list_arguments, contact_list_answers, contact_list, "GET /contacts", NULL, "people outside, in the address books of domains" },
    { "contact.show", PH_ROLE_TENANT, 0, id_arguments, contact_answers, contact_show, "GET /contacts/{id}", NULL, "one contact" },
    { "contact.add", PH_ROLE_TENANT, PH_ACTION_CHANGES, add_arguments, id_answers, contact_add, "POST /contacts", NULL, "put a person into a domain's address book" },
    { "contact.change", PH_ROLE_TENANT, PH_ACTION_CHANGES, change_arguments, NULL, contact_change, "PATCH /contacts/{id}", "contact.show", "change what is known of a person" },
    { "contact.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, id_arguments, NULL, contact_remove, "DELETE /contacts/{id}", "contact.show", "take a person out of the address book" },
    { 0 },
};
// clang-format on
