/* schema.c - the rows, and the subschema entry that is made from them */
#include "schema.h"

#include <string.h>

// clang-format off
static const struct {
    const char *oid;
    const char *description;
} syntaxes[LDAP_N_SYNTAXES] = {
    [LDAP_SYNTAX_OID] = { "1.3.6.1.4.1.1466.115.121.1.38", "OID" },
    [LDAP_SYNTAX_TEXT] = { "1.3.6.1.4.1.1466.115.121.1.15", "Directory String" },
    [LDAP_SYNTAX_IA5] = { "1.3.6.1.4.1.1466.115.121.1.26", "IA5 String" },
    [LDAP_SYNTAX_DN] = { "1.3.6.1.4.1.1466.115.121.1.12", "DN" },
    [LDAP_SYNTAX_TELEPHONE] = { "1.3.6.1.4.1.1466.115.121.1.50", "Telephone Number" },
    [LDAP_SYNTAX_UUID] = { "1.3.6.1.1.16.1", "UUID" },
    [LDAP_SYNTAX_TIME] = { "1.3.6.1.4.1.1466.115.121.1.24", "Generalized Time" },
    [LDAP_SYNTAX_BOOLEAN] = { "1.3.6.1.4.1.1466.115.121.1.7", "Boolean" },
    [LDAP_SYNTAX_INTEGER] = { "1.3.6.1.4.1.1466.115.121.1.27", "INTEGER" },
    [LDAP_SYNTAX_CLASS_DESCRIPTION] = { "1.3.6.1.4.1.1466.115.121.1.37", "Object Class Description" },
    [LDAP_SYNTAX_ATTRIBUTE_DESCRIPTION] = { "1.3.6.1.4.1.1466.115.121.1.3", "Attribute Type Description" },
    [LDAP_SYNTAX_RULE_DESCRIPTION] = { "1.3.6.1.4.1.1466.115.121.1.30", "Matching Rule Description" },
    [LDAP_SYNTAX_SYNTAX_DESCRIPTION] = { "1.3.6.1.4.1.1466.115.121.1.54", "LDAP Syntax Description" },
    [LDAP_SYNTAX_SUBSTRINGS] = { "1.3.6.1.4.1.1466.115.121.1.58", "Substring Assertion" },
};

static const struct {
    const char *name;
    const char *oid;
    LdapSyntax syntax;
} rules[] = {
    { "objectIdentifierMatch", "2.5.13.0", LDAP_SYNTAX_OID },
    { "distinguishedNameMatch", "2.5.13.1", LDAP_SYNTAX_DN },
    { "caseIgnoreMatch", "2.5.13.2", LDAP_SYNTAX_TEXT },
    { "caseIgnoreSubstringsMatch", "2.5.13.4", LDAP_SYNTAX_SUBSTRINGS },
    { "booleanMatch", "2.5.13.13", LDAP_SYNTAX_BOOLEAN },
    { "integerMatch", "2.5.13.14", LDAP_SYNTAX_INTEGER },
    { "telephoneNumberMatch", "2.5.13.20", LDAP_SYNTAX_TELEPHONE },
    { "telephoneNumberSubstringsMatch", "2.5.13.21", LDAP_SYNTAX_SUBSTRINGS },
    { "generalizedTimeMatch", "2.5.13.27", LDAP_SYNTAX_TIME },
    { "generalizedTimeOrderingMatch", "2.5.13.28", LDAP_SYNTAX_TIME },
    { "uuidMatch", "1.3.6.1.1.16.2", LDAP_SYNTAX_UUID },
    { "uuidOrderingMatch", "1.3.6.1.1.16.3", LDAP_SYNTAX_UUID },
    { "caseIgnoreIA5Match", "1.3.6.1.4.1.1466.109.114.2", LDAP_SYNTAX_IA5 },
    { "caseIgnoreIA5SubstringsMatch", "1.3.6.1.4.1.1466.109.114.3", LDAP_SYNTAX_SUBSTRINGS },
};

#define NO LDAP_ATTR_NONE
#define TEXT_RULES "caseIgnoreMatch", NULL, "caseIgnoreSubstringsMatch"
#define IA5_RULES "caseIgnoreIA5Match", NULL, "caseIgnoreIA5SubstringsMatch"
#define DN_RULES "distinguishedNameMatch", NULL, NULL
#define OID_RULES "objectIdentifierMatch", NULL, NULL
#define NO_RULES NULL, NULL, NULL
#define ENTRY "directoryOperation"
#define SERVER "dSAOperation"
const LdapAttributeRow ldap_attributes[LDAP_N_ATTRIBUTES] = {
    [LDAP_ATTR_OBJECT_CLASS] = { "objectClass", NULL, "2.5.4.0", NO, LDAP_SYNTAX_OID, OID_RULES, NULL, false, false },
    [LDAP_ATTR_NAME] = { "name", NULL, "2.5.4.41", NO, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_CN] = { "cn", "commonName", "2.5.4.3", LDAP_ATTR_NAME, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_SN] = { "sn", "surname", "2.5.4.4", LDAP_ATTR_NAME, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_GIVEN_NAME] = { "givenName", "gn", "2.5.4.42", LDAP_ATTR_NAME, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_DISPLAY_NAME] = { "displayName", NULL, "2.16.840.1.113730.3.1.241", NO, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, true, false },
    [LDAP_ATTR_UID] = { "uid", "userid", "0.9.2342.19200300.100.1.1", NO, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_MAIL] = { "mail", "rfc822Mailbox", "0.9.2342.19200300.100.1.3", NO, LDAP_SYNTAX_IA5, IA5_RULES, NULL, false, false },
    [LDAP_ATTR_O] = { "o", "organizationName", "2.5.4.10", LDAP_ATTR_NAME, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_OU] = { "ou", "organizationalUnitName", "2.5.4.11", LDAP_ATTR_NAME, LDAP_SYNTAX_TEXT, TEXT_RULES, NULL, false, false },
    [LDAP_ATTR_DC] = { "dc", "domainComponent", "0.9.2342.19200300.100.1.25", NO, LDAP_SYNTAX_IA5, IA5_RULES, NULL, true, false },
    [LDAP_ATTR_TELEPHONE_NUMBER] = { "telephoneNumber", NULL, "2.5.4.20", NO, LDAP_SYNTAX_TELEPHONE, "telephoneNumberMatch", NULL, "telephoneNumberSubstringsMatch", NULL, false, false },
    [LDAP_ATTR_DISTINGUISHED_NAME] = { "distinguishedName", NULL, "2.5.4.49", NO, LDAP_SYNTAX_DN, DN_RULES, NULL, false, false },
    [LDAP_ATTR_MEMBER] = { "member", NULL, "2.5.4.31", LDAP_ATTR_DISTINGUISHED_NAME, LDAP_SYNTAX_DN, DN_RULES, NULL, false, false },
    [LDAP_ATTR_RFC822_MAIL_MEMBER] = { "rfc822MailMember", NULL, "1.3.6.1.4.1.42.2.27.2.1.15", NO, LDAP_SYNTAX_IA5, IA5_RULES, NULL, false, false },
    [LDAP_ATTR_STRUCTURAL_OBJECT_CLASS] = { "structuralObjectClass", NULL, "2.5.21.9", NO, LDAP_SYNTAX_OID, OID_RULES, ENTRY, true, true },
    [LDAP_ATTR_ENTRY_UUID] = { "entryUUID", NULL, "1.3.6.1.1.16.4", NO, LDAP_SYNTAX_UUID, "uuidMatch", "uuidOrderingMatch", NULL, ENTRY, true, true },
    [LDAP_ATTR_CREATE_TIMESTAMP] = { "createTimestamp", NULL, "2.5.18.1", NO, LDAP_SYNTAX_TIME, "generalizedTimeMatch", "generalizedTimeOrderingMatch", NULL, ENTRY, true, true },
    [LDAP_ATTR_ENTRY_DN] = { "entryDN", NULL, "1.3.6.1.1.20", NO, LDAP_SYNTAX_DN, DN_RULES, ENTRY, true, true },
    [LDAP_ATTR_HAS_SUBORDINATES] = { "hasSubordinates", NULL, "2.5.18.9", NO, LDAP_SYNTAX_BOOLEAN, "booleanMatch", NULL, NULL, ENTRY, true, true },
    [LDAP_ATTR_SUBSCHEMA_SUBENTRY] = { "subschemaSubentry", NULL, "2.5.18.10", NO, LDAP_SYNTAX_DN, DN_RULES, ENTRY, true, true },
    [LDAP_ATTR_OBJECT_CLASSES] = { "objectClasses", NULL, "2.5.21.6", NO, LDAP_SYNTAX_CLASS_DESCRIPTION, NO_RULES, ENTRY, false, false },
    [LDAP_ATTR_ATTRIBUTE_TYPES] = { "attributeTypes", NULL, "2.5.21.5", NO, LDAP_SYNTAX_ATTRIBUTE_DESCRIPTION, NO_RULES, ENTRY, false, false },
    [LDAP_ATTR_MATCHING_RULES] = { "matchingRules", NULL, "2.5.21.4", NO, LDAP_SYNTAX_RULE_DESCRIPTION, NO_RULES, ENTRY, false, false },
    [LDAP_ATTR_LDAP_SYNTAXES] = { "ldapSyntaxes", NULL, "1.3.6.1.4.1.1466.101.120.16", NO, LDAP_SYNTAX_SYNTAX_DESCRIPTION, NO_RULES, ENTRY, false, false },
    [LDAP_ATTR_NAMING_CONTEXTS] = { "namingContexts", NULL, "1.3.6.1.4.1.1466.101.120.5", NO, LDAP_SYNTAX_DN, NO_RULES, SERVER, false, false },
    [LDAP_ATTR_SUPPORTED_LDAP_VERSION] = { "supportedLDAPVersion", NULL, "1.3.6.1.4.1.1466.101.120.15", NO, LDAP_SYNTAX_INTEGER, "integerMatch", NULL, NULL, SERVER, false, false },
    [LDAP_ATTR_SUPPORTED_CONTROL] = { "supportedControl", NULL, "1.3.6.1.4.1.1466.101.120.13", NO, LDAP_SYNTAX_OID, OID_RULES, SERVER, false, false },
    [LDAP_ATTR_SUPPORTED_EXTENSION] = { "supportedExtension", NULL, "1.3.6.1.4.1.1466.101.120.7", NO, LDAP_SYNTAX_OID, OID_RULES, SERVER, false, false },
    [LDAP_ATTR_SUPPORTED_FEATURES] = { "supportedFeatures", NULL, "1.3.6.1.4.1.4203.1.3.5", NO, LDAP_SYNTAX_OID, OID_RULES, SERVER, false, false },
    [LDAP_ATTR_SUPPORTED_SASL_MECHANISMS] = { "supportedSASLMechanisms", NULL, "1.3.6.1.4.1.1466.101.120.14", NO, LDAP_SYNTAX_TEXT, TEXT_RULES, SERVER, false, false },
    [LDAP_ATTR_VENDOR_NAME] = { "vendorName", NULL, "1.3.6.1.1.4", NO, LDAP_SYNTAX_TEXT, TEXT_RULES, SERVER, true, true },
};

/* What may be in an entry beyond what is here is left out: nothing of ours has it. */
static const struct {
    const char *name;
    const char *oid;
    const char *super;
    const char *kind;
    const char *must;
    const char *may;
} classes[] = {
    { "top", "2.5.6.0", NULL, "ABSTRACT", "objectClass", NULL },
    { "domain", "0.9.2342.19200300.100.4.13", "top", "STRUCTURAL", "dc", NULL },
    { "organizationalUnit", "2.5.6.5", "top", "STRUCTURAL", "ou", NULL },
    { "person", "2.5.6.6", "top", "STRUCTURAL", "( sn $ cn )", "telephoneNumber" },
    { "organizationalPerson", "2.5.6.7", "person", "STRUCTURAL", NULL, "telephoneNumber" },
    { "inetOrgPerson", "2.16.840.1.113730.3.2.2", "organizationalPerson", "STRUCTURAL", NULL, "( displayName $ givenName $ mail $ o $ uid )" },
    { "groupOfNames", "2.5.6.9", "top", "STRUCTURAL", "( member $ cn )", "( ou $ o )" },
    { "nisMailAlias", "1.3.6.1.4.1.42.2.27.1.2.5", "top", "STRUCTURAL", "cn", "rfc822MailMember" },
    { "extensibleObject", "1.3.6.1.4.1.1466.101.120.111", "top", "AUXILIARY", NULL, NULL },
    { "subentry", "2.5.17.0", "top", "STRUCTURAL", "cn", NULL },
    { "subschema", "2.5.20.1", "top", "AUXILIARY", NULL, "( objectClasses $ attributeTypes $ matchingRules $ ldapSyntaxes )" },
};
// clang-format on

static bool
span_is_text(LdapSpan span, const char *text)
{
    return text != NULL && span.length == strlen(text) &&
           g_ascii_strncasecmp((const char *)span.bytes, text, span.length) == 0;
}

LdapAttribute
ldap_attribute_find(LdapSpan description)
{
    const uint8_t *options =
        description.length > 0 ? memchr(description.bytes, ';', description.length) : NULL;
    if (options != NULL)
        description.length = (size_t)(options - description.bytes);
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++) {
        const LdapAttributeRow *row = &ldap_attributes[i];
        if (span_is_text(description, row->name) || span_is_text(description, row->other_name) ||
            span_is_text(description, row->oid))
            return i;
    }
    return LDAP_ATTR_NONE;
}

bool
ldap_attribute_is_a(LdapAttribute attribute, LdapAttribute super)
{
    while (attribute != LDAP_ATTR_NONE && attribute != super)
        attribute = ldap_attributes[attribute].super;
    return attribute == super;
}

bool
ldap_attribute_is_operational(LdapAttribute attribute)
{
    return ldap_attributes[attribute].usage != NULL;
}

const char *
ldap_class_find(const char *text)
{
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++)
        if (g_ascii_strcasecmp(classes[i].name, text) == 0 || strcmp(classes[i].oid, text) == 0)
            return classes[i].name;
    return NULL;
}

bool
ldap_rule_is(LdapSpan text, const char *rule)
{
    for (size_t i = 0; rule != NULL && i < G_N_ELEMENTS(rules); i++)
        if (strcmp(rules[i].name, rule) == 0)
            return span_is_text(text, rule) || span_is_text(text, rules[i].oid);
    return false;
}

/* -- the subschema entry ----------------------------------------------------------------------- */

static void
add_optional(GString *out, const char *word, const char *text)
{
    if (text != NULL)
        g_string_append_printf(out, " %s %s", word, text);
}

static void
describe_attribute(LdapEntry *entry, const LdapAttributeRow *row)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(text, "( %s NAME ", row->oid);
    if (row->other_name != NULL)
        g_string_append_printf(text, "( '%s' '%s' )", row->name, row->other_name);
    else
        g_string_append_printf(text, "'%s'", row->name);
    if (row->super != LDAP_ATTR_NONE)
        add_optional(text, "SUP", ldap_attributes[row->super].name);
    add_optional(text, "EQUALITY", row->equality);
    add_optional(text, "ORDERING", row->ordering);
    add_optional(text, "SUBSTR", row->substrings);
    add_optional(text, "SYNTAX", syntaxes[row->syntax].oid);
    g_string_append(text, row->is_single ? " SINGLE-VALUE" : "");
    g_string_append(text, row->is_fixed ? " NO-USER-MODIFICATION" : "");
    add_optional(text, "USAGE", row->usage);
    g_string_append(text, " )");
    ldap_entry_add(entry, LDAP_ATTR_ATTRIBUTE_TYPES, text->str);
}

LdapEntry *
ldap_subschema_entry(void)
{
    LdapEntry *entry = ldap_entry_new(g_strdup(LDAP_SUBSCHEMA_DN));
    ldap_entry_add_all(entry, LDAP_ATTR_OBJECT_CLASS,
        (const char *const[]){ "top", "subentry", "subschema", NULL });
    ldap_entry_add(entry, LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, "subentry");
    ldap_entry_add(entry, LDAP_ATTR_CN, "Subschema");
    for (size_t i = 0; i < G_N_ELEMENTS(ldap_attributes); i++)
        describe_attribute(entry, &ldap_attributes[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++) {
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_append_printf(text, "( %s NAME '%s'", classes[i].oid, classes[i].name);
        add_optional(text, "SUP", classes[i].super);
        g_string_append_printf(text, " %s", classes[i].kind);
        add_optional(text, "MUST", classes[i].must);
        add_optional(text, "MAY", classes[i].may);
        g_string_append(text, " )");
        ldap_entry_add(entry, LDAP_ATTR_OBJECT_CLASSES, text->str);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(syntaxes); i++) {
        g_autofree char *text =
            g_strdup_printf("( %s DESC '%s' )", syntaxes[i].oid, syntaxes[i].description);
        ldap_entry_add(entry, LDAP_ATTR_LDAP_SYNTAXES, text);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(rules); i++) {
        g_autofree char *text = g_strdup_printf("( %s NAME '%s' SYNTAX %s )", rules[i].oid,
            rules[i].name, syntaxes[rules[i].syntax].oid);
        ldap_entry_add(entry, LDAP_ATTR_MATCHING_RULES, text);
    }
    return entry;
}
