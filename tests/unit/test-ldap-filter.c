/* test-ldap-filter.c - filters: reading, matching, narrowing, text; and the entries that they see */
#include "plugins/ldap/filter.h"

#include <string.h>

/* -- filters from text, for the tests only ----------------------------------------------------- */

static void encode(GByteArray *out, const char **at);

static void
append_unescaped(GByteArray *out, uint8_t tag, const char *text, size_t length)
{
    g_autoptr(GString) bytes = g_string_new(NULL);
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\\') {
            g_string_append_c(bytes, text[i]);
            continue;
        }
        g_string_append_c(bytes,
            (char)(g_ascii_xdigit_value(text[i + 1]) << 4 | g_ascii_xdigit_value(text[i + 2])));
        i += 2;
    }
    ldap_append(out, tag, bytes->str, bytes->len);
}

static void
encode_substrings(GByteArray *out, const char *name, const char *value, const char *end)
{
    size_t opened = ldap_append_open(out, 0xa4);
    ldap_append_text(out, LDAP_TAG_OCTETS, name);
    size_t list = ldap_append_open(out, LDAP_TAG_SEQUENCE);
    for (const char *at = value; at <= end;) {
        const char *star = memchr(at, '*', (size_t)(end - at));
        const char *stop = star != NULL ? star : end;
        uint8_t tag = at == value ? 0x80 : star == NULL ? 0x82 : 0x81;
        if (stop > at)
            append_unescaped(out, tag, at, (size_t)(stop - at));
        at = stop + 1;
    }
    ldap_append_close(out, list);
    ldap_append_close(out, opened);
}

static void
encode_extensible(GByteArray *out, const char *name, const char *value, size_t length)
{
    size_t opened = ldap_append_open(out, 0xa9);
    g_auto(GStrv) words = g_strsplit(name, ":", -1);
    bool of_dn = false;
    const char *rule = NULL;
    for (char **word = words + 1; *word != NULL; word++) {
        if (strcmp(*word, "dn") == 0)
            of_dn = true;
        else if ((*word)[0] != '\0')
            rule = *word;
    }
    if (rule != NULL)
        ldap_append_text(out, 0x81, rule);
    if (words[0][0] != '\0')
        ldap_append_text(out, 0x82, words[0]);
    append_unescaped(out, 0x83, value, length);
    if (of_dn)
        ldap_append(out, 0x84, "\xff", 1);
    ldap_append_close(out, opened);
}

static void
encode_leaf(GByteArray *out, const char *text, const char *end)
{
    const char *equals = memchr(text, '=', (size_t)(end - text));
    g_assert_nonnull(equals);
    const char *value = equals + 1;
    size_t length = (size_t)(end - value);
    uint8_t tag = equals[-1] == '>'   ? 0xa5
                  : equals[-1] == '<' ? 0xa6
                  : equals[-1] == '~' ? 0xa8
                                      : 0xa3;
    g_autofree char *name = g_strndup(text, (size_t)(equals - text) - (tag != 0xa3));
    if (equals[-1] == ':') {
        encode_extensible(out, name, value, length);
        return;
    }
    if (tag == 0xa3 && length == 1 && *value == '*') {
        ldap_append_text(out, 0x87, name);
        return;
    }
    if (tag == 0xa3 && memchr(value, '*', length) != NULL) {
        encode_substrings(out, name, value, end);
        return;
    }
    size_t opened = ldap_append_open(out, tag);
    ldap_append_text(out, LDAP_TAG_OCTETS, name);
    append_unescaped(out, LDAP_TAG_OCTETS, value, length);
    ldap_append_close(out, opened);
}

static void
encode(GByteArray *out, const char **at)
{
    g_assert_cmpint(*(*at)++, ==, '(');
    const char *kinds = "&|!";
    const char *kind = strchr(kinds, **at);
    if (kind == NULL) {
        const char *end = strchr(*at, ')');
        encode_leaf(out, *at, end);
        *at = end + 1;
        return;
    }
    (*at)++;
    size_t opened = ldap_append_open(out, (uint8_t)(0xa0 + (kind - kinds)));
    while (**at == '(')
        encode(out, at);
    ldap_append_close(out, opened);
    g_assert_cmpint(*(*at)++, ==, ')');
}

typedef struct Fixture {
    GByteArray *bytes;
    LdapFilter *filter;
} Fixture;

static void
fixture_clear(Fixture *fixture)
{
    ldap_filter_free(fixture->filter);
    g_byte_array_unref(fixture->bytes);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, fixture_clear)

static Fixture
parse(const char *text)
{
    Fixture fixture = { .bytes = g_byte_array_new() };
    encode(fixture.bytes, &text);
    LdapSpan span = { .bytes = fixture.bytes->data, .length = fixture.bytes->len };
    g_assert_cmpint(ldap_filter_parse(span, &fixture.filter), ==, LDAP_PARSE_DONE);
    return fixture;
}

/* -- an entry ---------------------------------------------------------------------------------- */

static LdapEntry *
new_entry(void)
{
    g_autoptr(GPtrArray) mail = g_ptr_array_new();
    g_ptr_array_add(mail, (void *)(uintptr_t) "alice@example.test");
    g_ptr_array_add(mail, (void *)(uintptr_t) "office@example.test");
    PhEntry entry = {
        .kind = PH_ENTRY_ACCOUNT,
        .id = 7,
        .domain = (char *)(uintptr_t) "example.test",
        .key = (char *)(uintptr_t) "alice@example.test",
        .name = (char *)(uintptr_t) "Alice  Zo\xc3\xab Example",
        .telephone = (char *)(uintptr_t) "+1 555-0100",
        .mail = mail,
        .created_us = INT64_C(1796061067) * G_USEC_PER_SEC,
    };
    return ldap_entry_from_store(&entry);
}

static void
test_match(void)
{
    static const struct {
        const char *filter;
        LdapTruth truth;
    } rows[] = {
        { "(objectClass=*)", LDAP_TRUE },
        { "(objectclass=PERSON)", LDAP_TRUE },
        { "(objectClass=2.5.6.6)", LDAP_TRUE },
        { "(2.5.4.0=person)", LDAP_TRUE },
        { "(objectClass=groupOfNames)", LDAP_FALSE },
        { "(objectClass=nonsense)", LDAP_FALSE },
        { "(cn=alice zo\\c3\\ab example)", LDAP_TRUE },
        { "(cn=ALICE ZO\\c3\\8b   EXAMPLE )", LDAP_TRUE },
        { "(commonName=alice*)", LDAP_TRUE },
        { "(cn=*example)", LDAP_TRUE },
        { "(cn=*e*e*e*)", LDAP_TRUE },
        { "(cn=alice *example)", LDAP_TRUE },
        { "(cn=a*ce zo\\c3\\ab* ex*e)", LDAP_TRUE },
        { "(cn=*exampleexample*)", LDAP_FALSE },
        { "(cn=alice*alice*)", LDAP_FALSE },
        { "(cn=*Alice Zo\\c3\\ab Example*x)", LDAP_FALSE },
        { "(cn;lang-de=alice*)", LDAP_TRUE },
        { "(sn=example)", LDAP_TRUE },
        { "(givenName=alice zo\\c3\\ab)", LDAP_TRUE },
        { "(name=example)", LDAP_TRUE },
        { "(mail=OFFICE@example.test)", LDAP_TRUE },
        { "(mail~=office@example.test)", LDAP_TRUE },
        { "(mail=*@example.org)", LDAP_FALSE },
        { "(telephoneNumber=+15550100)", LDAP_TRUE },
        { "(telephoneNumber=*5550*)", LDAP_TRUE },
        { "(telephoneNumber=+15550101)", LDAP_FALSE },
        { "(member=x)", LDAP_UNDEFINED },
        { "(member=cn=x)", LDAP_FALSE },
        { "(entryDN=MAIL=alice@example.test , ou=people,dc=example,dc=test)", LDAP_TRUE },
        { "(foo=bar)", LDAP_UNDEFINED },
        { "(!(foo=bar))", LDAP_UNDEFINED },
        { "(!(mail=x))", LDAP_TRUE },
        { "(&(foo=bar)(mail=x))", LDAP_FALSE },
        { "(&(foo=bar)(mail=*))", LDAP_UNDEFINED },
        { "(|(foo=bar)(mail=*))", LDAP_TRUE },
        { "(|(foo=bar)(mail=x))", LDAP_UNDEFINED },
        { "(&)", LDAP_TRUE },
        { "(|)", LDAP_FALSE },
        { "(!(&))", LDAP_FALSE },
        { "(&(|(cn=x)(sn=example))(!(|(cn=x)(cn=y))))", LDAP_TRUE },
        { "(cn>=a)", LDAP_UNDEFINED },
        { "(createTimestamp=20261130175107Z)", LDAP_TRUE },
        { "(createTimestamp=20261130175107.5Z)", LDAP_TRUE },
        { "(createTimestamp>=20261130175107Z)", LDAP_TRUE },
        { "(createTimestamp>=20261130175108Z)", LDAP_FALSE },
        { "(createTimestamp<=20261130175107Z)", LDAP_TRUE },
        { "(createTimestamp>=yesterday)", LDAP_UNDEFINED },
        { "(createTimestamp>=20261130175107)", LDAP_UNDEFINED },
        { "(hasSubordinates=FALSE)", LDAP_TRUE },
        { "(hasSubordinates=perhaps)", LDAP_UNDEFINED },
        { "(objectClass=*son)", LDAP_UNDEFINED },
        { "(cn:caseIgnoreMatch:=alice zo\\c3\\ab example)", LDAP_TRUE },
        { "(cn:2.5.13.2:=x)", LDAP_FALSE },
        { "(:caseIgnoreMatch:=example)", LDAP_TRUE },
        { "(mail:=office@example.test)", LDAP_TRUE },
        { "(cn:dn:=example)", LDAP_UNDEFINED },
        { "(cn:9.9.9:=example)", LDAP_UNDEFINED },
    };
    g_autoptr(LdapEntry) entry = new_entry();
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_auto(Fixture) fixture = parse(rows[i].filter);
        LdapTruth truth = ldap_filter_match(fixture.filter, entry);
        if (truth != rows[i].truth)
            g_error("%s is %d", rows[i].filter, truth);
    }
}

static void
test_text(void)
{
    static const struct {
        const char *filter;
        const char *text;
    } rows[] = {
        { "(cn=a)", "(cn=a)" },
        { "(CN=A)", "(cn=A)" },
        { "(&(a=1)(|(b=2)(c=*))(!(d=3)))", "(&(a=1)(|(b=2)(c=*))(!(d=3)))" },
        { "(&)", "(&)" },
        { "(|(&)(|))", "(|(&)(|))" },
        { "(cn=a*b*c)", "(cn=a*b*c)" },
        { "(cn=*b*)", "(cn=*b*)" },
        { "(cn=a*)", "(cn=a*)" },
        { "(cn=*c)", "(cn=*c)" },
        { "(cn=\\2a\\28\\29\\5c\\00\\ff)", "(cn=\\2a\\28\\29\\5c\\00\\ff)" },
        { "(a>=1)", "(a>=1)" },
        { "(a<=1)", "(a<=1)" },
        { "(a~=1)", "(a~=1)" },
        { "(a:dn:1.2:=x)", "(a:dn:1.2:=x)" },
        { "(:1.2:=x)", "(:1.2:=x)" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_auto(Fixture) fixture = parse(rows[i].filter);
        g_autofree char *text = ldap_filter_text(fixture.filter);
        g_assert_cmpstr(text, ==, rows[i].text);
        g_autofree char *key = ldap_filter_key(
            (LdapSpan){ .bytes = fixture.bytes->data, .length = fixture.bytes->len });
        g_assert_cmpstr(key, ==, text);
    }
    g_assert_null(ldap_filter_key((LdapSpan){ .bytes = (const uint8_t *)"\x30\x00", .length = 2 }));
    /* A name that looks like a name with its value has another key: answers are found by it. */
    static const uint8_t name[] = { 0xa3, 8, 4, 3, 'a', '=', 'b', 4, 1, 'c' };
    static const uint8_t value[] = { 0xa3, 8, 4, 1, 'a', 4, 3, 'b', '=', 'c' };
    g_autofree char *name_key = ldap_filter_key((LdapSpan){ .bytes = name, .length = sizeof name });
    g_autofree char *value_key =
        ldap_filter_key((LdapSpan){ .bytes = value, .length = sizeof value });
    g_assert_cmpstr(name_key, ==, "(a\\3db=c)");
    g_assert_cmpstr(value_key, ==, "(a=b=c)");
}

enum {
    ACCOUNTS = 1 << PH_ENTRY_ACCOUNT,
    GROUPS = 1 << PH_ENTRY_GROUP,
    CONTACTS = 1 << PH_ENTRY_CONTACT,
    ALL = ACCOUNTS | GROUPS | CONTACTS,
};

static void
test_narrow(void)
{
    static const struct {
        const char *filter;
        unsigned kinds;
        const char *texts;
    } rows[] = {
        { "(objectClass=*)", ALL, "" },
        { "(mail=*)", ALL, "" },
        { "(objectClass=person)", ACCOUNTS | CONTACTS, "" },
        { "(objectClass=groupOfNames)", GROUPS, "" },
        { "(objectClass=nonsense)", 0, "" },
        { "(foo=bar)", 0, "" },
        { "(!(foo=bar))", ALL, "" },
        { "(cn=alice)", ALL, "alice" },
        { "(cn=al)", ALL, "" },
        { "(cn=*al*bobby*x)", ALL, "bobby" },
        { "(cn=al   example)", ALL, "example" },
        { "(cn=Zo\\c3\\ab Outside)", ALL, "Outside" },
        { "(uid=alice@example.test)", ALL, "alice@example.test" },
        { "(uid=12345)", ALL, "" },
        { "(o=Example)", ALL, "" },
        { "(|(cn=alice)(sn=bobby))", ALL, "alice bobby" },
        { "(|(cn=alice)(o=bobby))", ALL, "" },
        { "(|(cn=alice)(foo=bobby))", ALL, "alice" },
        { "(&(objectClass=person)(|(mail=*alice*)(cn=*alice*)))", ACCOUNTS | CONTACTS,
            "alice alice" },
        { "(&(cn=bob)(mail=alice*))", ALL, "alice" },
        { "(&(objectClass=person)(objectClass=groupOfNames))", 0, "" },
        { "(|(objectClass=person)(objectClass=groupOfNames))", ALL, "" },
        { "(!(cn=alice))", ALL, "" },
        { "(&)", ALL, "" },
        { "(|)", 0, "" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_auto(Fixture) fixture = parse(rows[i].filter);
        LdapNarrowing narrowing;
        ldap_filter_narrow(fixture.filter, &narrowing);
        g_autofree char *texts = g_strjoinv(" ", (char **)(uintptr_t)narrowing.texts);
        if (narrowing.kinds != rows[i].kinds ||
            (narrowing.kinds != 0 && strcmp(texts, rows[i].texts) != 0))
            g_error("%s: kinds %u, texts \"%s\"", rows[i].filter, narrowing.kinds, texts);
        g_assert_cmpuint(g_strv_length((char **)(uintptr_t)narrowing.texts), ==, narrowing.n_texts);
    }
    /* More texts than are worth asking for. */
    g_autoptr(GString) many = g_string_new("(|");
    for (unsigned i = 0; i <= LDAP_FILTER_MAX_TEXTS; i++)
        g_string_append_printf(many, "(cn=name%u)", i);
    g_string_append_c(many, ')');
    g_auto(Fixture) fixture = parse(many->str);
    LdapNarrowing narrowing;
    ldap_filter_narrow(fixture.filter, &narrowing);
    g_assert_cmpuint(narrowing.n_texts, ==, 0);
    g_assert_cmpuint(narrowing.kinds, ==, ALL);
}

static LdapParse
parse_bytes(const GByteArray *bytes)
{
    g_autoptr(LdapFilter) filter = NULL;
    LdapSpan span = { .bytes = bytes->data, .length = bytes->len };
    return ldap_filter_parse(span, &filter);
}

static void
test_limits(void)
{
    for (unsigned depth = LDAP_FILTER_MAX_DEPTH; depth <= 10000;
         depth = depth == 10000 ? 10001 : 10000) {
        g_autoptr(GString) text = g_string_new(NULL);
        for (unsigned i = 0; i < depth; i++)
            g_string_append(text, "(!");
        g_string_append(text, "(cn=a)");
        for (unsigned i = 0; i < depth; i++)
            g_string_append_c(text, ')');
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        const char *at = text->str;
        encode(bytes, &at);
        g_assert_cmpint(parse_bytes(bytes), ==,
            depth == LDAP_FILTER_MAX_DEPTH ? LDAP_PARSE_DONE : LDAP_PARSE_TOO_LARGE);
    }
    for (unsigned n = LDAP_FILTER_MAX_TERMS - 1; n <= LDAP_FILTER_MAX_TERMS; n++) {
        g_autoptr(GString) text = g_string_new("(|");
        for (unsigned i = 0; i < n; i++)
            g_string_append(text, "(cn=a)");
        g_string_append_c(text, ')');
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        const char *at = text->str;
        encode(bytes, &at);
        g_assert_cmpint(parse_bytes(bytes), ==,
            n < LDAP_FILTER_MAX_TERMS ? LDAP_PARSE_DONE : LDAP_PARSE_TOO_LARGE);
    }
    g_autoptr(GString) parts = g_string_new("(cn=*");
    for (unsigned i = 0; i < LDAP_FILTER_MAX_TERMS; i++)
        g_string_append(parts, "a*");
    g_string_append_c(parts, ')');
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    const char *at = parts->str;
    encode(bytes, &at);
    g_assert_cmpint(parse_bytes(bytes), ==, LDAP_PARSE_TOO_LARGE);
}

static void
test_malformed(void)
{
    static const struct {
        const char *bytes;
        size_t length;
    } rows[] = {
        { "", 0 }, { "\x30\x00", 2 }, { "\xac\x00", 2 }, { "\xa2\x00", 2 }, /* not of nothing */
        { "\xa2\x06\x87\x01x\x87\x01y", 8 },                                /* not of two */
        { "\xa3\x00", 2 }, { "\xa3\x03\x04\x01x", 5 },
        { "\xa3\x09\x04\x01x\x04\x01y\x04\x01z", 11 },
        { "\xa4\x05\x04\x01x\x30\x00", 7 },                    /* no parts */
        { "\xa4\x08\x04\x01x\x30\x03\x83\x01y", 10 },          /* an unknown part */
        { "\xa4\x0b\x04\x01x\x30\x06\x82\x01y\x81\x01z", 13 }, /* the last one first */
        { "\xa4\x0b\x04\x01x\x30\x06\x81\x01y\x80\x01z", 13 }, /* the first one last */
        { "\xa9\x03\x83\x01x", 5 },                            /* neither rule nor type */
        { "\xa9\x03\x81\x01x", 5 },                            /* no value */
        { "\xa0\x03\x87\x05x", 5 },                            /* ends outside */
        { "\x87\x01x\x00", 4 },                                /* bytes behind */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(LdapFilter) filter = NULL;
        LdapSpan span = { .bytes = (const uint8_t *)rows[i].bytes, .length = rows[i].length };
        if (ldap_filter_parse(span, &filter) != LDAP_PARSE_BAD)
            g_error("row %zu", i);
    }
}

/* Each beginning of a filter is malformed; none is read beyond. */
static void
test_cut(void)
{
    const char *text = "(&(objectClass=person)(|(cn=a*b*c)(mail=x)(!(sn=y)))(cn:dn:1.2:=z))";
    g_auto(Fixture) fixture = parse(text);
    for (size_t length = 0; length < fixture.bytes->len; length++) {
        g_autofree uint8_t *bytes = g_memdup2(fixture.bytes->data, length);
        g_autoptr(LdapFilter) filter = NULL;
        LdapSpan span = { .bytes = bytes, .length = length };
        g_assert_cmpint(ldap_filter_parse(span, &filter), ==, LDAP_PARSE_BAD);
    }
}

/* -- entries and the schema -------------------------------------------------------------------- */

static void
test_entry(void)
{
    g_autoptr(LdapEntry) one = new_entry();
    g_autoptr(LdapEntry) again = new_entry();
    g_assert_cmpstr(one->dn, ==, "mail=alice@example.test,ou=people,dc=example,dc=test");
    g_assert_cmpstr(one->values[LDAP_ATTR_ENTRY_UUID]->pdata[0], ==,
        again->values[LDAP_ATTR_ENTRY_UUID]->pdata[0]);
    g_assert_cmpuint(strlen(one->values[LDAP_ATTR_ENTRY_UUID]->pdata[0]), ==, 36);
    LdapSelection selection;
    g_assert_true(ldap_selection_parse((LdapSpan){ 0 }, false, &selection));
    BerElement *out = ldap_writer_new();
    ldap_entry_append(out, 5, one, &selection);
    LdapSpan bytes = ldap_writer_bytes(out);
    LdapPdu pdu;
    g_assert_true(ldap_pdu_parse(bytes.bytes, bytes.length, &pdu));
    g_assert_cmpint(pdu.id, ==, 5);
    g_assert_cmpint(pdu.tag, ==, LDAP_RES_ENTRY);
    ldap_writer_free(out);
}

/* Rows are found by each of their names, and supertypes end. */
static void
test_schema(void)
{
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++) {
        const LdapAttributeRow *row = &ldap_attributes[i];
        const char *names[] = { row->name, row->other_name, row->oid };
        g_assert_nonnull(row->name);
        for (size_t j = 0; j < G_N_ELEMENTS(names); j++) {
            if (names[j] == NULL)
                continue;
            LdapSpan span = { .bytes = (const uint8_t *)names[j], .length = strlen(names[j]) };
            g_assert_cmpint(ldap_attribute_find(span), ==, i);
        }
        const char *rules[] = { row->equality, row->ordering, row->substrings };
        for (size_t j = 0; j < G_N_ELEMENTS(rules); j++) {
            if (rules[j] == NULL)
                continue;
            LdapSpan span = { .bytes = (const uint8_t *)rules[j], .length = strlen(rules[j]) };
            g_assert_true(ldap_rule_is(span, rules[j]));
        }
        g_assert_true(ldap_attribute_is_a(i, i));
        g_assert_true(ldap_attribute_is_a(i, LDAP_ATTR_MEMBER) == (i == LDAP_ATTR_MEMBER));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/ldap-filter/match/table", test_match);
    g_test_add_func("/ldap-filter/text/table", test_text);
    g_test_add_func("/ldap-filter/narrow/table", test_narrow);
    g_test_add_func("/ldap-filter/parse/limits", test_limits);
    g_test_add_func("/ldap-filter/parse/malformed", test_malformed);
    g_test_add_func("/ldap-filter/parse/cut", test_cut);
    g_test_add_func("/ldap-filter/entry/form", test_entry);
    g_test_add_func("/ldap-filter/schema/rows", test_schema);
    return g_test_run();
}
