/* test-ldap-dn.c - distinguished names */
#include "plugins/ldap/dn.h"

#include <string.h>

static char *
normalize(const char *text)
{
    return ldap_dn_normalize((const uint8_t *)text, strlen(text));
}

static void
test_table(void)
{
    static const struct {
        const char *name;
        const char *normal; /* null: malformed */
    } rows[] = {
        { "", "" },
        { "   ", "" },
        { "cn=a", "cn=a" },
        { "CN=Alice Example,DC=Example,DC=Test", "cn=alice example,dc=example,dc=test" },
        { " cn = alice   example , dc=test ", "cn=alice example,dc=test" },
        { "cn=", "cn=" },
        { "cn=,dc=test", "cn=,dc=test" },
        { "commonName=a,2.5.4.11=b,userid=c", "cn=a,ou=b,uid=c" },
        { "1.2.3=a", "1.2.3=a" },
        { "cn=a\\,b", "cn=a\\,b" },
        { "cn=a\\2Cb", "cn=a\\,b" },
        { "cn=a\\2cb", "cn=a\\,b" },
        { "cn=\\41", "cn=a" },
        { "cn=a\\=b", "cn=a=b" },
        { "cn=a=b", "cn=a=b" },
        { "cn=\\#a", "cn=\\#a" },
        { "cn=a#b", "cn=a#b" },
        { "cn=\\ a\\ ", "cn=a" },
        { "cn=a\\00b", "cn=a\\00b" },
        { "cn=\\ff", "cn=\\ff" },
        { "cn=#0401FF", "cn=#0401ff" },
        { "cn=\xc3\x9c"
          "ber",
            "cn=\xc3\xbc"
            "ber" },
        { "cn=\\C3\\9Cber", "cn=\xc3\xbc"
                            "ber" },
        { "ou=b+cn=a,dc=x", "cn=a+ou=b,dc=x" },
        { "cn=a+ou=b,dc=x", "cn=a+ou=b,dc=x" },
        { "cn=\"a\"", NULL },
        { "cn=a;dc=b", NULL },
        { "cn=a<", NULL },
        { "cn=a\\", NULL },
        { "cn=a\\g", NULL },
        { "cn=a\\4", NULL },
        { "cn=a,", NULL },
        { ",cn=a", NULL },
        { "cn=a,,dc=b", NULL },
        { "cn", NULL },
        { "=a", NULL },
        { "-cn=a", NULL },
        { "c n=a", NULL },
        { "1..2=a", NULL },
        { "1.2.=a", NULL },
        { "1.a=a", NULL },
        { "cn=#", NULL },
        { "cn=#4", NULL },
        { "cn=#44x", NULL },
        { "cn=a+", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *normal = normalize(rows[i].name);
        if (g_strcmp0(normal, rows[i].normal) != 0)
            g_error("\"%s\" gives \"%s\"", rows[i].name, normal);
        g_autofree char *again = normal != NULL ? normalize(normal) : NULL;
        g_assert_cmpstr(again, ==, normal);
    }
    g_assert_null(ldap_dn_normalize((const uint8_t *)"cn=a\0b", 6));
}

static void
test_limits(void)
{
    g_autoptr(GString) many = g_string_new("dc=a");
    for (unsigned i = 1; i < LDAP_DN_MAX_RDNS; i++)
        g_string_append(many, ",dc=a");
    g_autofree char *good = normalize(many->str);
    g_assert_cmpstr(good, ==, many->str);
    g_string_append(many, ",dc=a");
    g_assert_null(normalize(many->str));
    g_autofree char *a = g_strnfill(LDAP_DN_MAX_BYTES, 'a');
    memcpy(a, "cn=", 3);
    g_autofree char *longest = normalize(a);
    g_assert_cmpstr(longest, ==, a);
    g_autofree char *longer = g_strconcat(a, "a", NULL);
    g_assert_null(normalize(longer));
    g_autoptr(GString) parts = g_string_new("cn=a");
    for (unsigned i = 1; i < LDAP_RDN_MAX_PARTS; i++)
        g_string_append(parts, "+cn=a");
    g_autofree char *wide = normalize(parts->str);
    g_assert_nonnull(wide);
    g_string_append(parts, "+cn=a");
    g_assert_null(normalize(parts->str));
}

static void
test_below(void)
{
    static const struct {
        const char *dn;
        const char *suffix;
        bool is_below;
    } rows[] = {
        { "dc=example,dc=test", "dc=example,dc=test", true },
        { "cn=a,dc=example,dc=test", "dc=example,dc=test", true },
        { "cn=a,dc=example,dc=test", "", true },
        { "", "", true },
        { "", "dc=test", false },
        { "dc=test", "dc=example,dc=test", false },
        { "xdc=test", "dc=test", false },
        { "cn=a+dc=test", "dc=test", false },
        { "cn=a\\,dc=test", "dc=test", false },
        { "cn=a\\\\,dc=test", "dc=test", true },
        { "cn=a\\\\\\,dc=test", "dc=test", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (ldap_dn_is_below(rows[i].dn, rows[i].suffix) != rows[i].is_below)
            g_error("\"%s\" below \"%s\"", rows[i].dn, rows[i].suffix);
}

static void
test_parts(void)
{
    g_assert_null(ldap_dn_parent(""));
    g_assert_cmpstr(ldap_dn_parent("dc=test"), ==, "");
    g_assert_cmpstr(ldap_dn_parent("cn=a\\,b,dc=test"), ==, "dc=test");
    static const struct {
        const char *dn;
        const char *type;
        const char *value;
    } rows[] = {
        { "mail=a@example.test,ou=people", "mail", "a@example.test" },
        { "mail=a@example.test,ou=people", "ou", NULL },
        { "mail=a\\+b\\00,x=y", "mail", NULL },
        { "mail=a\\+b@example.test", "mail", "a+b@example.test" },
        { "cn=a+ou=b,dc=test", "cn", NULL },
        { "cn=#0401,dc=test", "cn", NULL },
        { "cn=,dc=test", "cn", "" },
        { "cnx=a", "cn", NULL },
        { "", "cn", NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *value = ldap_dn_value(rows[i].dn, rows[i].type);
        g_assert_cmpstr(value, ==, rows[i].value);
    }
}

/* Whatever a value is, it comes back. */
static void
test_values(void)
{
    static const char *const values[] = { "a,b", "a+b@x", "\"q\"", " a", "a ", "#a", "a\\b",
        "<>;=", "\xc3\xbc", "a\nb", "\x7f" };
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        g_autoptr(GString) dn = g_string_new("cn=");
        ldap_dn_append_value(dn, values[i], strlen(values[i]));
        g_string_append(dn, ",dc=test");
        g_autofree char *normal = normalize(dn->str);
        g_assert_nonnull(normal);
        g_assert_true(ldap_dn_is_below(normal, "dc=test"));
        g_autofree char *value = ldap_dn_value(normal, "cn");
        g_autoptr(GString) folded = ldap_fold(values[i], strlen(values[i]));
        g_assert_cmpstr(value, ==, folded->str);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ldap-dn/normalize/table", test_table);
    g_test_add_func("/ldap-dn/normalize/limits", test_limits);
    g_test_add_func("/ldap-dn/is-below/table", test_below);
    g_test_add_func("/ldap-dn/value/table", test_parts);
    g_test_add_func("/ldap-dn/value/round-trip", test_values);
    return g_test_run();
}
