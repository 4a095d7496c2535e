/* ldap-dn.c - fuzz target: names have one normal form, which is a name again; and names as places in our
 * tree */
#include "plugins/ldap/directory.h"
#include "plugins/ldap/dn.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_steps(const char *dn)
{
    unsigned n = 0;
    for (const char *at = dn; at != NULL && *at != '\0'; at = ldap_dn_parent(at)) {
        g_assert_true(ldap_dn_is_below(dn, at));
        g_free(ldap_dn_value(at, "dc"));
        n++;
    }
    g_assert_cmpuint(n, <=, LDAP_DN_MAX_RDNS);
}

static void
check_base(const char *dn)
{
    LdapBase base;
    ldap_base_init(&base, dn);
    g_assert_true((base.kind == LDAP_BASE_ENTRY) == (base.key != NULL));
    g_assert_nonnull(base.domain);
    ldap_base_clear(&base);
}

/* Any bytes as a value come back as they are compared. */
static void
check_value(const uint8_t *data, size_t size)
{
    g_autoptr(GString) text = g_string_new("cn=");
    ldap_dn_append_value(text, (const char *)data, size);
    g_autofree char *dn = ldap_dn_normalize((const uint8_t *)text->str, text->len);
    if (dn == NULL) {
        g_assert_cmpuint(text->len, >, LDAP_DN_MAX_BYTES);
        return;
    }
    g_assert_cmpstr(ldap_dn_parent(dn), ==, "");
    g_autoptr(GString) folded = ldap_fold(data, size);
    g_autofree char *value = ldap_dn_value(dn, "cn");
    if (memchr(folded->str, '\0', folded->len) == NULL)
        g_assert_cmpstr(value, ==, folded->str);
    else
        g_assert_null(value);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_value(data, size);
    g_autofree char *dn = ldap_dn_normalize(data, size);
    if (dn == NULL)
        return 0;
    /* Folding and escapes may have made it longer than is taken. */
    g_autofree char *again = ldap_dn_normalize((const uint8_t *)dn, strlen(dn));
    g_assert_true(again != NULL || strlen(dn) > LDAP_DN_MAX_BYTES);
    if (again != NULL)
        g_assert_cmpstr(again, ==, dn);
    check_steps(dn);
    check_base(dn);
    return 0;
}
