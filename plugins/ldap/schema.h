/* schema.h - the attributes and classes that local entries are made of, and entries themselves
 *
 * Shape:    rows; the subschema entry is made from them, so it describes what is used and nothing else.
 *           An entry is a name and, for each attribute, its values as text.
 * Threads:  pure: anywhere.
 * Sources:  RFC 4512 4 (descriptions), 4517 (syntaxes, rules), 4519, 4524, 2798, 4530 (entryUUID),
 *           5020 (entryDN), 3045 (vendorName), 3674 (features).
 */
#pragma once

#include "reader.h"

#include "posthouse/directory.h"

typedef enum LdapAttribute {
    LDAP_ATTR_OBJECT_CLASS,
    LDAP_ATTR_NAME,
    LDAP_ATTR_CN,
    LDAP_ATTR_SN,
    LDAP_ATTR_GIVEN_NAME,
    LDAP_ATTR_DISPLAY_NAME,
    LDAP_ATTR_UID,
    LDAP_ATTR_MAIL,
    LDAP_ATTR_O,
    LDAP_ATTR_OU,
    LDAP_ATTR_DC,
    LDAP_ATTR_TELEPHONE_NUMBER,
    LDAP_ATTR_DISTINGUISHED_NAME,
    LDAP_ATTR_MEMBER,
    LDAP_ATTR_RFC822_MAIL_MEMBER,
    LDAP_ATTR_STRUCTURAL_OBJECT_CLASS, /* from here on operational */
    LDAP_ATTR_ENTRY_UUID,
    LDAP_ATTR_CREATE_TIMESTAMP,
    LDAP_ATTR_ENTRY_DN,
    LDAP_ATTR_HAS_SUBORDINATES,
    LDAP_ATTR_SUBSCHEMA_SUBENTRY,
    LDAP_ATTR_OBJECT_CLASSES,
    LDAP_ATTR_ATTRIBUTE_TYPES,
    LDAP_ATTR_MATCHING_RULES,
    LDAP_ATTR_LDAP_SYNTAXES,
    LDAP_ATTR_NAMING_CONTEXTS,
    LDAP_ATTR_SUPPORTED_LDAP_VERSION,
    LDAP_ATTR_SUPPORTED_CONTROL,
    LDAP_ATTR_SUPPORTED_EXTENSION,
    LDAP_ATTR_SUPPORTED_FEATURES,
    LDAP_ATTR_SUPPORTED_SASL_MECHANISMS,
    LDAP_ATTR_VENDOR_NAME,
    LDAP_N_ATTRIBUTES,
    LDAP_ATTR_NONE = -1,
} LdapAttribute;

typedef enum LdapSyntax {
    LDAP_SYNTAX_OID,
    LDAP_SYNTAX_TEXT, /* Directory String */
    LDAP_SYNTAX_IA5,
    LDAP_SYNTAX_DN,
    LDAP_SYNTAX_TELEPHONE,
    LDAP_SYNTAX_UUID,
    LDAP_SYNTAX_TIME,
    LDAP_SYNTAX_BOOLEAN,
    LDAP_SYNTAX_INTEGER,
    LDAP_SYNTAX_CLASS_DESCRIPTION,
    LDAP_SYNTAX_ATTRIBUTE_DESCRIPTION,
    LDAP_SYNTAX_RULE_DESCRIPTION,
    LDAP_SYNTAX_SYNTAX_DESCRIPTION,
    LDAP_SYNTAX_SUBSTRINGS, /* of assertions only */
    LDAP_N_SYNTAXES,
} LdapSyntax;

typedef struct LdapAttributeRow {
    const char *name;
    const char *other_name; /* or null */
    const char *oid;
    LdapAttribute super; /* LDAP_ATTR_NONE: none */
    LdapSyntax syntax;
    const char *equality; /* names of matching rules; null: none */
    const char *ordering;
    const char *substrings;
    const char *usage; /* null: userApplications */
    bool is_single;
    bool is_fixed; /* NO-USER-MODIFICATION */
} LdapAttributeRow;

extern const LdapAttributeRow ldap_attributes[LDAP_N_ATTRIBUTES];

/* By name or OID, without regard to case and to options (";lang-de"). LDAP_ATTR_NONE: not ours. */
LdapAttribute ldap_attribute_find(LdapSpan description);
/* Is it that attribute or one of its subtypes? */
bool ldap_attribute_is_a(LdapAttribute attribute, LdapAttribute super);
bool ldap_attribute_is_operational(LdapAttribute attribute);
/* The name of a class of ours from its name or OID; null: none. */
const char *ldap_class_find(const char *text);
/* Is this the attribute's rule for equality, by name or OID? */
bool ldap_rule_is(LdapSpan text, const char *rule);

/* -- entries ----------------------------------------------------------------------------------- */

typedef struct LdapEntry {
    char *dn;                             /* as it is shown */
    GPtrArray *values[LDAP_N_ATTRIBUTES]; /* char *; null: the entry has not got it */
} LdapEntry;

/* Takes the name. */
LdapEntry *ldap_entry_new(char *dn);
void ldap_entry_free(LdapEntry *entry);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LdapEntry, ldap_entry_free)
/* Copied; null and "" are passed over. */
void ldap_entry_add(LdapEntry *entry, LdapAttribute attribute, const char *value);
/* The same for several, the last one null. */
void ldap_entry_add_all(LdapEntry *entry, LdapAttribute attribute, const char *const *values);

/* The name of a domain's entry: "dc=example,dc=test". */
void ldap_append_domain_dn(GString *out, const char *domain);
/* The name of an account's entry. */
char *ldap_account_dn(const char *address);
LdapEntry *ldap_entry_from_store(const PhEntry *entry);
/* "example.test", and one of the three units below it. `is_ours`: there is such a domain; else it is
 * only above some. `time_us` INT64_MIN: not known. */
LdapEntry *ldap_entry_for_domain(const char *domain, int64_t created_us);
LdapEntry *ldap_entry_for_unit(const char *domain, PhEntryKind kind);
/* "people", "groups", "contacts"; the type of the RDN below it. */
const char *ldap_unit_name(PhEntryKind kind);
const char *ldap_unit_rdn_type(PhEntryKind kind);

/* Which attributes a search wants. */
typedef struct LdapSelection {
    bool wanted[LDAP_N_ATTRIBUTES];
    bool types_only;
} LdapSelection;

/* AttributeSelection of a search (RFC 4511 4.5.1.8), the contents of the SEQUENCE. False: malformed. */
bool ldap_selection_parse(LdapSpan attributes, bool types_only, LdapSelection *selection_out);
/* A SearchResultEntry as a whole PDU, appended. */
void ldap_entry_append(
    BerElement *out, int32_t id, const LdapEntry *entry, const LdapSelection *selection);

#define LDAP_SUBSCHEMA_DN "cn=Subschema"
/* cn=Subschema, made from the rows. */
LdapEntry *ldap_subschema_entry(void);
