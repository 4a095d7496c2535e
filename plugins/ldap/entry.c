/* entry.c - entries of the store as entries of a directory, and on their way out */
#include "dn.h"
#include "schema.h"

#include "posthouse/message-address.h"

#include <string.h>

LdapEntry *
ldap_entry_new(char *dn)
{
    LdapEntry *entry = g_new0(LdapEntry, 1);
    entry->dn = dn;
    ldap_entry_add(entry, LDAP_ATTR_ENTRY_DN, dn);
    ldap_entry_add(entry, LDAP_ATTR_SUBSCHEMA_SUBENTRY, LDAP_SUBSCHEMA_DN);
    return entry;
}

void
ldap_entry_free(LdapEntry *entry)
{
    if (entry == NULL)
        return;
    for (size_t i = 0; i < LDAP_N_ATTRIBUTES; i++)
        if (entry->values[i] != NULL)
            g_ptr_array_unref(entry->values[i]);
    g_free(entry->dn);
    g_free(entry);
}

void
ldap_entry_add(LdapEntry *entry, LdapAttribute attribute, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    if (entry->values[attribute] == NULL)
        entry->values[attribute] = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(entry->values[attribute], g_strdup(value));
}

void
ldap_entry_add_all(LdapEntry *entry, LdapAttribute attribute, const char *const *values)
{
    for (; *values != NULL; values++)
        ldap_entry_add(entry, attribute, *values);
}

/* -- names ------------------------------------------------------------------------------------- */

static const struct {
    const char *unit;
    const char *rdn_type;
} kinds[] = {
    [PH_ENTRY_ACCOUNT] = { "people", "mail" },
    [PH_ENTRY_GROUP] = { "groups", "cn" },
    [PH_ENTRY_CONTACT] = { "contacts", "uid" },
};

const char *
ldap_unit_name(PhEntryKind kind)
{
    return kinds[kind].unit;
}

const char *
ldap_unit_rdn_type(PhEntryKind kind)
{
    return kinds[kind].rdn_type;
}

void
ldap_append_domain_dn(GString *out, const char *domain)
{
    for (const char *at = domain; *at != '\0';) {
        size_t length = strcspn(at, ".");
        g_string_append(out, at == domain ? "dc=" : ",dc=");
        ldap_dn_append_value(out, at, length);
        at += length;
        at += *at == '.';
    }
}

static char *
make_dn(PhEntryKind kind, const char *key, const char *domain)
{
    GString *dn = g_string_new(kinds[kind].rdn_type);
    g_string_append_c(dn, '=');
    ldap_dn_append_value(dn, key, strlen(key));
    g_string_append_printf(dn, ",ou=%s,", kinds[kind].unit);
    ldap_append_domain_dn(dn, domain);
    return g_string_free(dn, FALSE);
}

/* Domains of addresses are shown in UTF-8; names have A-labels. */
char *
ldap_account_dn(const char *address)
{
    const char *at = strrchr(address, '@');
    g_autofree char *ascii = at != NULL ? ph_domain_to_ascii(at + 1) : NULL;
    return make_dn(PH_ENTRY_ACCOUNT, address, ascii != NULL ? ascii : "");
}

/* -- entries of the store ---------------------------------------------------------------------- */

/* The same for the same thing on every node and at all times; the layout is that of version 8 (RFC
 * 9562 5.8), which leaves the bits to us. */
static void
add_uuid(LdapEntry *out, const PhEntry *entry)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    g_autofree char *name = g_strdup_printf("%s:%" G_GINT64_FORMAT ":%s:%s",
        kinds[entry->kind].unit, entry->id, entry->domain, entry->key);
    g_checksum_update(checksum, (const guchar *)name, -1);
    const char *hex = g_checksum_get_string(checksum);
    static const char variant[] = "89ab";
    g_autofree char *uuid = g_strdup_printf("%.8s-%.4s-8%.3s-%c%.3s-%.12s", hex, hex + 8, hex + 12,
        variant[g_ascii_xdigit_value(hex[15]) & 3], hex + 16, hex + 20);
    ldap_entry_add(out, LDAP_ATTR_ENTRY_UUID, uuid);
}

static void
add_created(LdapEntry *out, int64_t created_us)
{
    g_autoptr(GDateTime) time = g_date_time_new_from_unix_utc(created_us / G_USEC_PER_SEC);
    if (time == NULL)
        return;
    g_autofree char *text = g_date_time_format(time, "%Y%m%d%H%M%SZ");
    ldap_entry_add(out, LDAP_ATTR_CREATE_TIMESTAMP, text);
}

static void
add_array(LdapEntry *out, LdapAttribute attribute, const GPtrArray *values)
{
    for (unsigned i = 0; values != NULL && i < values->len; i++)
        ldap_entry_add(out, attribute, values->pdata[i]);
}

/* cn, sn, givenName, displayName of a person; sn must be there (RFC 4519 3.12), so it is taken from
 * the name where nothing else is known. */
static void
add_names(LdapEntry *out, const PhEntry *entry)
{
    g_autofree char *name = g_strstrip(g_strdup(entry->name));
    const char *space = strrchr(name, ' ');
    ldap_entry_add(out, LDAP_ATTR_CN, name);
    ldap_entry_add(out, LDAP_ATTR_DISPLAY_NAME, name);
    if (entry->surname != NULL && entry->surname[0] != '\0')
        ldap_entry_add(out, LDAP_ATTR_SN, entry->surname);
    else
        ldap_entry_add(out, LDAP_ATTR_SN, space != NULL ? space + 1 : name);
    if (entry->given_name != NULL && entry->given_name[0] != '\0') {
        ldap_entry_add(out, LDAP_ATTR_GIVEN_NAME, entry->given_name);
    } else if (space != NULL) {
        g_autofree char *given = g_strchomp(g_strndup(name, (size_t)(space - name)));
        ldap_entry_add(out, LDAP_ATTR_GIVEN_NAME, given);
    }
}

static void
add_person(LdapEntry *out, const PhEntry *entry)
{
    ldap_entry_add_all(out, LDAP_ATTR_OBJECT_CLASS,
        (const char *const[]){ "top", "person", "organizationalPerson", "inetOrgPerson", NULL });
    ldap_entry_add(out, LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, "inetOrgPerson");
    add_names(out, entry);
    ldap_entry_add(out, LDAP_ATTR_UID, entry->key);
    add_array(out, LDAP_ATTR_MAIL, entry->mail);
    ldap_entry_add(out, LDAP_ATTR_O, entry->organization);
    ldap_entry_add(out, LDAP_ATTR_TELEPHONE_NUMBER, entry->telephone);
}

/* groupOfNames has to have a member (RFC 4519 3.5): a group that leads only outside is an alias. */
static void
add_group(LdapEntry *out, const PhEntry *entry)
{
    bool has_members = entry->accounts != NULL && entry->accounts->len > 0;
    const char *class_name = has_members ? "groupOfNames" : "nisMailAlias";
    ldap_entry_add_all(out, LDAP_ATTR_OBJECT_CLASS,
        (const char *const[]){ "top", class_name, "extensibleObject", NULL });
    ldap_entry_add(out, LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, class_name);
    ldap_entry_add(out, LDAP_ATTR_CN, entry->key);
    if (strcmp(entry->name, entry->key) != 0)
        ldap_entry_add(out, LDAP_ATTR_CN, entry->name);
    add_array(out, LDAP_ATTR_MAIL, entry->mail);
    for (unsigned i = 0; has_members && i < entry->accounts->len; i++) {
        g_autofree char *dn = ldap_account_dn(entry->accounts->pdata[i]);
        ldap_entry_add(out, LDAP_ATTR_MEMBER, dn);
    }
    add_array(out, LDAP_ATTR_RFC822_MAIL_MEMBER, entry->others);
}

LdapEntry *
ldap_entry_from_store(const PhEntry *entry)
{
    LdapEntry *out = ldap_entry_new(make_dn(entry->kind, entry->key, entry->domain));
    switch (entry->kind) {
    case PH_ENTRY_ACCOUNT:
    case PH_ENTRY_CONTACT:
        add_person(out, entry);
        break;
    case PH_ENTRY_GROUP:
        add_group(out, entry);
        break;
    }
    add_uuid(out, entry);
    add_created(out, entry->created_us);
    ldap_entry_add(out, LDAP_ATTR_HAS_SUBORDINATES, "FALSE");
    return out;
}

LdapEntry *
ldap_entry_for_domain(const char *domain, int64_t created_us)
{
    GString *dn = g_string_new(NULL);
    ldap_append_domain_dn(dn, domain);
    LdapEntry *out = ldap_entry_new(g_string_free(dn, FALSE));
    ldap_entry_add_all(out, LDAP_ATTR_OBJECT_CLASS, (const char *const[]){ "top", "domain", NULL });
    ldap_entry_add(out, LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, "domain");
    g_autofree char *label = g_strndup(domain, strcspn(domain, "."));
    ldap_entry_add(out, LDAP_ATTR_DC, label);
    if (created_us != INT64_MIN)
        add_created(out, created_us);
    ldap_entry_add(out, LDAP_ATTR_HAS_SUBORDINATES, "TRUE");
    return out;
}

LdapEntry *
ldap_entry_for_unit(const char *domain, PhEntryKind kind)
{
    GString *dn = g_string_new(NULL);
    g_string_append_printf(dn, "ou=%s,", kinds[kind].unit);
    ldap_append_domain_dn(dn, domain);
    LdapEntry *out = ldap_entry_new(g_string_free(dn, FALSE));
    ldap_entry_add_all(
        out, LDAP_ATTR_OBJECT_CLASS, (const char *const[]){ "top", "organizationalUnit", NULL });
    ldap_entry_add(out, LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, "organizationalUnit");
    ldap_entry_add(out, LDAP_ATTR_OU, kinds[kind].unit);
    return out;
}

/* -- on their way out -------------------------------------------------------------------------- */

bool
ldap_selection_parse(LdapSpan attributes, bool types_only, LdapSelection *selection_out)
{
    LdapSelection selection = { .types_only = types_only };
    bool all = attributes.length == 0;
    bool operational = false;
    g_autoptr(LdapReader) reader = ldap_reader_new(attributes);
    while (ldap_reader_left(reader) > 0) {
        LdapSpan name;
        if (!ldap_read(reader, LDAP_TAG_OCTETS, &name))
            return false;
        all |= ldap_span_is(name, "*");
        operational |= ldap_span_is(name, "+");
        LdapAttribute wanted = ldap_attribute_find(name);
        if (wanted == LDAP_ATTR_NONE)
            continue; /* "1.1" among them: no attributes */
        for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++)
            selection.wanted[i] |= ldap_attribute_is_a(i, wanted);
    }
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++)
        selection.wanted[i] |= ldap_attribute_is_operational(i) ? operational : all;
    *selection_out = selection;
    return true;
}

void
ldap_entry_append(
    BerElement *out, int32_t id, const LdapEntry *entry, const LdapSelection *selection)
{
    ber_printf(out, "{it{s{", (int)id, (ber_tag_t)LDAP_RES_ENTRY, entry->dn);
    for (size_t i = 0; i < LDAP_N_ATTRIBUTES; i++) {
        const GPtrArray *values = entry->values[i];
        if (values == NULL || !selection->wanted[i])
            continue;
        ber_printf(out, "{s[", ldap_attributes[i].name);
        for (unsigned j = 0; !selection->types_only && j < values->len; j++)
            ber_printf(out, "s", (const char *)values->pdata[j]);
        ber_printf(out, "]}");
    }
    ber_printf(out, "}}}");
}
