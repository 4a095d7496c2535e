/* message-address.c - fuzz target: address lists, SMTP paths, comparison */
#include <posthouse/message-address.h>
#include <posthouse/message-imap.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_list(const char *text, size_t size)
{
    g_autoptr(PhAddressList) list = ph_address_list_parse(text, size, 0);
    bool in_group = false;
    for (size_t i = 0; i < list->count; i++) {
        const PhAddress *address = &list->items[i];
        switch (address->kind) {
        case PH_ADDRESS_GROUP_BEGIN:
            g_assert_true(!in_group && address->name != NULL);
            in_group = true;
            break;
        case PH_ADDRESS_GROUP_END:
            g_assert_true(in_group);
            in_group = false;
            break;
        case PH_ADDRESS_MAILBOX:
            g_assert_true(address->mailbox != NULL && address->host != NULL);
            break;
        }
    }
    g_assert_false(in_group);
}

static void
check_path(const char *text, size_t size, PhPathFlags flags)
{
    g_autoptr(PhPath) path = NULL;
    size_t used = 0;
    if (ph_address_parse_path(text, size, flags, &path, &used) != PH_PATH_OK)
        return;
    g_assert_cmpuint(used, <=, size);
    g_autofree char *format = ph_path_format(path);
    g_autofree char *angled = g_strdup_printf("<%s>", format);
    g_assert_null(strpbrk(angled, "\r\n"));
    g_autoptr(PhPath) again = NULL;
    PhPathStatus status = ph_address_parse_path(angled, strlen(angled), flags, &again, NULL);
    g_assert_cmpint(status, ==, PH_PATH_OK);
    g_assert_cmpstr(path->local, ==, again->local);
    g_assert_cmpstr(path->domain, ==, again->domain);

    /* The form for comparison is its own form. */
    g_autofree char *domain = ph_domain_normalize(path->domain);
    g_assert_nonnull(domain);
    g_autofree char *twice = ph_domain_normalize(domain);
    g_assert_cmpstr(domain, ==, twice);
    g_autofree char *local = ph_local_normalize(path->local);
    g_autofree char *local_twice = ph_local_normalize(local);
    g_assert_cmpstr(local, ==, local_twice);
    g_autofree char *ascii = ph_domain_to_ascii(path->domain);
    if (ascii != NULL) {
        g_autofree char *back = ph_domain_normalize(ascii);
        g_assert_cmpstr(back, ==, domain);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    check_list(text, size);
    check_path(
        text, size, PH_PATH_NULL_OK | PH_PATH_POSTMASTER_OK | PH_PATH_BARE_OK | PH_PATH_UTF8_OK);
    check_path(text, size, 0);
    g_autoptr(GString) header = g_string_new("To:");
    g_string_append_len(header, text, (gssize)size);
    g_autoptr(GString) envelope = g_string_new(NULL);
    ph_imap_envelope(header->str, header->len, envelope);
    g_assert_null(memchr(envelope->str, '\0', envelope->len));
    return 0;
}
