/* test-message-address.c - address lists, SMTP paths, comparison */
#include <posthouse/message-address.h>

#include <string.h>

static void
append(GString *out, const char *text)
{
    g_string_append_printf(out, "%s|", text != NULL ? text : "-");
}

/* name|route|mailbox|host| per address, "{name" and "}" around groups. */
static char *
dump(const PhAddressList *list)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < list->count; i++) {
        const PhAddress *address = &list->items[i];
        switch (address->kind) {
        case PH_ADDRESS_GROUP_BEGIN:
            g_string_append_printf(out, "{%s ", address->name);
            break;
        case PH_ADDRESS_GROUP_END:
            g_string_append(out, "} ");
            break;
        case PH_ADDRESS_MAILBOX:
            append(out, address->name);
            append(out, address->route);
            append(out, address->mailbox);
            append(out, address->host);
            g_string_append_c(out, ' ');
            break;
        }
    }
    return g_string_free(out, FALSE);
}

static void
test_list(void)
{
    static const struct {
        const char *text;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "", "", "2" },
        { " ,, ; ,", "", "2" },
        { "a@example.org", "-|-|a|example.org| ", "2" },
        { "<a@example.org>", "-|-|a|example.org| ", "2" },
        { "A B <a@example.org>", "A B|-|a|example.org| ", "2" },
        { "\"A, B\" <a@b>, c@d", "A, B|-|a|b| -|-|c|d| ", "2" },
        { "\"A \\\"q\\\" \\\\ B\"<a@b>", "A \"q\" \\ B|-|a|b| ", "2" },
        { "a@b (Comment)", "Comment|-|a|b| ", "2" },
        { "a@b (nested (c\\) d) e)", "nested (c) d) e|-|a|b| ", "2" },
        { "(first) a@b (last)", "last|-|a|b| ", "2" },
        { "Name <a@b> (ignored)", "Name|-|a|b| ", "2" },
        { "<a@b> (taken)", "taken|-|a|b| ", "2" },
        { "\"a b\"@c", "-|-|a b|c| ", "2" },
        { "\"\"@c", "-|-||c| ", "2" },
        { "\"a\".b@c", "-|-|a.b|c| ", "2" },
        { "a . b @ c . d", "-|-|a.b|c.d| ", "2" },
        { "a@[192.0.2.1]", "-|-|a|[192.0.2.1]| ", "2" },
        { "a@[IPv6:2001:db8::1]", "-|-|a|[IPv6:2001:db8::1]| ", "2" },
        { "<@x,@y:a@b>", "-|@x,@y|a|b| ", "2" },
        { "N <@x:a@b>", "N|@x|a|b| ", "2" },
        { "<@a@b>", "-|-|@a|b| ", "2" },
        { "undisclosed-recipients:;", "{undisclosed-recipients } ", "2" },
        { "Undisclosed recipients:;", "{Undisclosed recipients } ", "2" },
        { "G: a@b, C <c@d>; e@f", "{G -|-|a|b| C|-|c|d| } -|-|e|f| ", "2" },
        { "G: a@b", "{G -|-|a|b| } ", "2" },
        { ":;", "{ } ", "2" },
        { "a:b:c;", "{a -|-|b:c|| } ", "2" },
        { "\"G, H\": a@b;", "{G, H -|-|a|b| } ", "2" },
        { "a@b; c@d", "-|-|a|b| -|-|c|d| ", "2" },
        { "alice", "-|-|alice|| ", "2" },
        { "John Doe", "John Doe|-||| ", "2" },
        { "a b@c", "a|-|b|c| ", "2" },
        { "<>", "-|-||| ", "2" },
        { "Name <>", "Name|-||| ", "2" },
        { "<> <a@b>", "-|-|a|b| ", "2" },
        { "<<a@b>>", "-|-|<a|b| ", "2" },
        { "a@b@c", "-|-|a@b|c| ", "2" },
        { "a@b <c@d>", "a@b|-|c|d| ", "2" },
        { "\"a@b\" <c@d>", "a@b|-|c|d| ", "2" },
        { "Name <a@b", "Name|-|a|b| ", "2" },
        { "\"unclosed <a@b>", "-|-|unclosed <a@b>|| ", "2" },
        { "(unclosed", "", "2" },
        { "a@b, (only a comment), c@d", "-|-|a|b| -|-|c|d| ", "2" },
        { "Jos\xc3\xa9 <jos\xc3\xa9@ex\xc3\xa4mple.test>", "José|-|josé|exämple.test| ", "2" },
        { "=?utf-8?q?A?= =?utf-8?q?B?= <a@b>", "=?utf-8?q?A?= =?utf-8?q?B?=|-|a|b| ", "2" },
        { "A\r\n B\r\n <a@b>,\r\n\tc@d\r\n", "A B|-|a|b| -|-|c|d| ", "2" },
        { "A. B. C <a@b>", "A. B. C|-|a|b| ", "2" },
        { "a@b c@d", "-|-|a|b| ", "2" },
        { "> a@b", ">|-|a|b| ", "2" },
        { "\\", "-|-||| ", "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhAddressList) list =
            ph_address_list_parse(rows[i].text, strlen(rows[i].text), 0);
        g_autofree char *text = dump(list);
        g_test_message("row %zu", i);
        g_assert_cmpstr(text, ==, rows[i].expected);
        g_assert_false(list->truncated);
    }
}

static void
test_nul(void)
{
    g_autoptr(PhAddressList) list = ph_address_list_parse("A\0 <b\0@c\0>", 10, 0);
    g_autofree char *text = dump(list);
    g_assert_cmpstr(text, ==, "A?|-|b?|c?| ");
}

static void
test_bounds(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (int i = 0; i < 100000; i++)
        g_string_append(text, "a,");
    g_autoptr(PhAddressList) list = ph_address_list_parse(text->str, text->len, 0);
    g_assert_cmpuint(list->count, ==, PH_ADDRESS_LIST_MAX);
    g_assert_true(list->truncated);

    /* Groups are ended, even where the list is full. */
    g_autoptr(PhAddressList) full = ph_address_list_parse("G: a, b, c; d", 13, 2);
    g_autofree char *dumped = dump(full);
    g_assert_cmpstr(dumped, ==, "{G -|-|a|| } ");
    g_assert_true(full->truncated);

    static const char *const patterns[] = { "(", "<", "@", "\"", "\\", ":", "<@", "a@", "[", "<>",
        "a:", "a;" };
    for (size_t i = 0; i < G_N_ELEMENTS(patterns); i++) {
        g_string_truncate(text, 0);
        while (text->len < 1000000)
            g_string_append(text, patterns[i]);
        g_autoptr(PhAddressList) odd = ph_address_list_parse(text->str, text->len, 0);
        g_assert_cmpuint(odd->count, <=, 2 * PH_ADDRESS_LIST_MAX);
    }
}

/* -- SMTP -------------------------------------------------------------------------------------- */

#define A10 "aaaaaaaaaa"
#define A60 A10 A10 A10 A10 A10 A10
#define D60 "." A10 A10 A10 A10 A10 "aaaaaaaaa"

static void
test_path(void)
{
    static const struct {
        const char *text;
        PhPathFlags flags;
        PhPathStatus status;
        const char *local;
        const char *domain;
        size_t used;
        const char *issue;
    } rows[] = {
        { "<a@example.org>", 0, PH_PATH_OK, "a", "example.org", 15, "2" },
        { "<a@example.org> SIZE=1", 0, PH_PATH_OK, "a", "example.org", 15, "2" },
        { "<a.b+c@example.org>", 0, PH_PATH_OK, "a.b+c", "example.org", 19, "2" },
        { "<\"a b\"@example.org>", 0, PH_PATH_OK, "a b", "example.org", 19, "2" },
        { "<\"a\\\"b\\\\\"@example.org>", 0, PH_PATH_OK, "a\"b\\", "example.org", 22, "2" },
        { "<\"\"@example.org>", 0, PH_PATH_OK, "", "example.org", 16, "2" },
        { "<\"a@b>\"@example.org>", 0, PH_PATH_OK, "a@b>", "example.org", 20, "2" },
        { "<@x.test,@y.test:a@b>", 0, PH_PATH_OK, "a", "b", 21, "2" },
        { "<@x.test a@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<@x.test:>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@[192.0.2.1]>", 0, PH_PATH_OK, "a", "[192.0.2.1]", 15, "2" },
        { "<a@[IPv6:2001:db8::1]>", 0, PH_PATH_OK, "a", "[IPv6:2001:db8::1]", 22, "2" },
        { "<a@[2001:db8::1]>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@[192.0.2.256]>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@[192.0.2.1>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<>", PH_PATH_NULL_OK, PH_PATH_OK, "", "", 2, "2" },
        { "<>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<Postmaster>", PH_PATH_POSTMASTER_OK, PH_PATH_OK, "Postmaster", "", 12, "2" },
        { "<postmaster>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<alice>", PH_PATH_POSTMASTER_OK, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "a@b", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "a@b SIZE=1", PH_PATH_BARE_OK, PH_PATH_OK, "a", "b", 3, "2" },
        { "<a@b", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b>>", 0, PH_PATH_OK, "a", "b", 5, "2" },
        { "< a@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b >", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a b@c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b@c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<.a@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a.@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a..b@c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@.b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b.>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b..c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@-b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b->", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b-.c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<a@b%c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<\"a@b>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<\"a\tb\"@c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<\"a\rb\"@c>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "", PH_PATH_BARE_OK, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<" A60 "aaaa@b>", 0, PH_PATH_OK, A60 "aaaa", "b", 68, "2" },
        { "<" A60 "aaaaa@b>", 0, PH_PATH_TOO_LONG, NULL, NULL, 0, "2" },
        { "<a@b" D60 D60 D60 D60 ">", 0, PH_PATH_OK, "a", "b" D60 D60 D60 D60, 245, "2" },
        { "<" A60 "@b" D60 D60 D60 D60 ">", 0, PH_PATH_TOO_LONG, NULL, NULL, 0, "2" },
        { "<a@b" D60 D60 D60 D60 D60 ">", 0, PH_PATH_TOO_LONG, NULL, NULL, 0, "2" },
        { "<a@" A60 "aaaa.test>", 0, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
        { "<jos\xc3\xa9@example.org>", PH_PATH_UTF8_OK, PH_PATH_OK, "josé", "example.org", 19,
            "2" },
        { "<a@ex\xc3\xa4mple.test>", PH_PATH_UTF8_OK, PH_PATH_OK, "a", "exämple.test", 17, "2" },
        { "<jos\xc3\xa9@example.org>", 0, PH_PATH_UTF8, NULL, NULL, 0, "2" },
        { "<jos\xe9@example.org>", PH_PATH_UTF8_OK, PH_PATH_SYNTAX, NULL, NULL, 0, "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(PhPath) path = NULL;
        size_t used = 0;
        size_t length = strlen(rows[i].text);
        g_test_message("row %zu", i);
        PhPathStatus status =
            ph_address_parse_path(rows[i].text, length, rows[i].flags, &path, &used);
        g_assert_cmpint(status, ==, rows[i].status);
        if (status != PH_PATH_OK) {
            g_assert_null(path);
            continue;
        }
        g_assert_cmpstr(path->local, ==, rows[i].local);
        g_assert_cmpstr(path->domain, ==, rows[i].domain);
        g_assert_cmpuint(used, ==, rows[i].used);
        /* Written again, it is read as the same. */
        g_autofree char *text = ph_path_format(path);
        g_autofree char *angled = g_strdup_printf("<%s>", text);
        g_autoptr(PhPath) again = NULL;
        g_assert_cmpint(ph_address_parse_path(
                            angled, strlen(angled), rows[i].flags | PH_PATH_NULL_OK, &again, NULL),
            ==, PH_PATH_OK);
        g_assert_cmpstr(again->local, ==, path->local);
        g_assert_cmpstr(again->domain, ==, path->domain);
    }
}

static void
test_path_nul(void)
{
    g_autoptr(PhPath) path = NULL;
    g_assert_cmpint(
        ph_address_parse_path("<a\0@b>", 6, PH_PATH_UTF8_OK, &path, NULL), ==, PH_PATH_SYNTAX);
    g_assert_cmpint(
        ph_address_parse_path("<\"\0\"@b>", 7, PH_PATH_UTF8_OK, &path, NULL), ==, PH_PATH_SYNTAX);
    g_assert_cmpint(
        ph_address_parse_path("<a@[127.0.0.1\0]>", 16, 0, &path, NULL), ==, PH_PATH_SYNTAX);
}

static void
test_address(void)
{
    g_autoptr(PhPath) path = NULL;
    g_assert_cmpint(ph_address_parse("alice@example.test", 18, &path), ==, PH_PATH_OK);
    g_assert_cmpstr(path->local, ==, "alice");
    static const char *const bad[] = { "alice@example.test ", "<alice@example.test>", "alice", "",
        "alice@example.test,b@c" };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(PhPath) none = NULL;
        g_assert_cmpint(ph_address_parse(bad[i], strlen(bad[i]), &none), ==, PH_PATH_SYNTAX);
    }
}

/* -- comparison -------------------------------------------------------------------------------- */

static void
test_normalize(void)
{
    static const struct {
        const char *local;
        const char *domain;
        const char *expected;
        const char *issue;
    } rows[] = {
        { "Alice", "EXAMPLE.Test", "alice@example.test", "2" },
        { "alice", "example.test.", "alice@example.test", "2" },
        { "JOS\xc3\x89", "example.test", "josé@example.test", "2" },
        { "jose\xcc\x81", "example.test", "josé@example.test", "2" },
        { "a",
            "b\xc3\xbc"
            "cher.test",
            "a@bücher.test", "2" },
        { "a", "xn--bcher-kva.test", "a@bücher.test", "2" },
        { "a", "XN--BCHER-KVA.TEST", "a@bücher.test", "2" },
        { "a",
            "B\xc3\x9c"
            "CHER.test",
            "a@bücher.test", "2" },
        { "a", "xn--.test", "a@xn--.test", "2" },
        { "a", "[IPv6:2001:DB8::1]", "a@[ipv6:2001:db8::1]", "2" },
        { "a", "under_score.test", "a@under_score.test", "2" },
        /* Found by fuzzing: a label that is no A-label beside one that is. */
        { "a", "b\xc3\xbc\x63her.xn--test", "a@bücher.xn--test", "2" },
        { "a", "xn--bcher-kva.xn--test", "a@bücher.xn--test", "2" },
        { "a", "b\xc3\xbc\x63her\xe3\x80\x82test", "a@bücher.test", "2" },
        { "a", "l\xe3\x80\x82\xe3\x80\x82", "a@l", "2" },
        { "a\xff", "example.test", NULL, "2" },
        { "a", "ex\xff", NULL, "2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = ph_address_normalize(rows[i].local, rows[i].domain);
        g_assert_cmpstr(text, ==, rows[i].expected);
    }
    g_autofree char *ascii = ph_domain_to_ascii("B\xc3\xbc"
                                                "cher.Test");
    g_assert_cmpstr(ascii, ==, "xn--bcher-kva.test");
    g_autofree char *plain = ph_domain_to_ascii("Example.TEST.");
    g_assert_cmpstr(plain, ==, "example.test");
}

static void
test_split(void)
{
    size_t base = 0;
    const char *suffix = NULL;
    g_assert_true(ph_local_split("alice+lists+x", '+', &base, &suffix));
    g_assert_cmpuint(base, ==, 5);
    g_assert_cmpstr(suffix, ==, "lists+x");
    g_assert_true(ph_local_split("alice+", '+', &base, &suffix));
    g_assert_cmpstr(suffix, ==, "");
    g_assert_false(ph_local_split("alice", '+', &base, &suffix));
    g_assert_false(ph_local_split("+alice", '+', &base, &suffix));
    g_assert_false(ph_local_split("alice+x", '\0', &base, &suffix));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message-address/list/rows", test_list);
    g_test_add_func("/message-address/list/nul", test_nul);
    g_test_add_func("/message-address/list/bounds", test_bounds);
    g_test_add_func("/message-address/path/rows", test_path);
    g_test_add_func("/message-address/path/nul", test_path_nul);
    g_test_add_func("/message-address/address/rows", test_address);
    g_test_add_func("/message-address/normalize/rows", test_normalize);
    g_test_add_func("/message-address/split/rows", test_split);
    return g_test_run();
}
