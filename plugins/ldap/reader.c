/* reader.c - liblber with the checks that it leaves to its callers */
#include "reader.h"

void
ldap_reader_set(LdapReader *reader, LdapSpan span)
{
    struct berval bytes = {
        .bv_len = span.length, .bv_val = (char *)(uintptr_t)span.bytes, /* is only read */
    };
    ber_init2(reader, &bytes, 0);
}

LdapReader *
ldap_reader_new(LdapSpan span)
{
    LdapReader *reader = ber_alloc_t(0);
    g_assert(reader != NULL);
    ldap_reader_set(reader, span);
    return reader;
}

size_t
ldap_reader_left(const LdapReader *reader)
{
    return (size_t)ber_remaining((void *)(uintptr_t)reader);
}

/* ber_peek_tag stops at a reader that has nothing left; ber_peek_element also checks the length. */
uint8_t
ldap_reader_peek(LdapReader *reader)
{
    struct berval contents;
    if (ldap_reader_left(reader) < 2)
        return 0;
    ber_tag_t tag = ber_peek_element(reader, &contents);
    return tag != LBER_DEFAULT && tag <= 0xff ? (uint8_t)tag : 0;
}

bool
ldap_read_any(LdapReader *reader, uint8_t *tag_out, LdapSpan *contents_out)
{
    struct berval contents;
    if (ldap_reader_peek(reader) == 0)
        return false;
    *tag_out = (uint8_t)ber_skip_element(reader, &contents);
    *contents_out =
        (LdapSpan){ .bytes = (const uint8_t *)contents.bv_val, .length = contents.bv_len };
    return true;
}

bool
ldap_read(LdapReader *reader, uint8_t tag, LdapSpan *contents_out)
{
    uint8_t found;
    return ldap_reader_peek(reader) == tag && ldap_read_any(reader, &found, contents_out);
}

bool
ldap_read_int(LdapReader *reader, uint8_t tag, int32_t *number_out)
{
    struct berval contents;
    ber_int_t number;
    /* ber_get_int takes one of no bytes as 0, and has stepped over one that is too long. */
    if (ldap_reader_peek(reader) != tag || ber_peek_element(reader, &contents) == LBER_DEFAULT ||
        contents.bv_len == 0 || contents.bv_len > sizeof(number) ||
        ber_get_int(reader, &number) == LBER_DEFAULT)
        return false;
    *number_out = number;
    return true;
}

/* ber_get_boolean takes a BOOLEAN of up to four bytes, and of none. */
bool
ldap_read_bool(LdapReader *reader, uint8_t tag, bool *value_out)
{
    struct berval contents;
    ber_int_t value;
    if (ldap_reader_peek(reader) != tag || ber_peek_element(reader, &contents) == LBER_DEFAULT ||
        contents.bv_len != 1 || ber_get_boolean(reader, &value) == LBER_DEFAULT)
        return false;
    *value_out = value != 0;
    return true;
}

bool
ldap_read_into(LdapReader *reader, uint8_t tag, size_t *length_out)
{
    ber_len_t length;
    if (ldap_reader_peek(reader) != tag || ber_skip_tag(reader, &length) == LBER_DEFAULT)
        return false;
    *length_out = length;
    return true;
}

LdapSpan
ldap_writer_bytes(BerElement *writer)
{
    struct berval bytes = { 0 };
    int failed = ber_flatten2(writer, &bytes, 0);
    g_assert(failed == 0); /* something was opened and not closed */
    return (LdapSpan){ .bytes = (const uint8_t *)bytes.bv_val, .length = bytes.bv_len };
}

size_t
ldap_writer_length(BerElement *writer)
{
    ber_len_t length = 0;
    ber_get_option(writer, LBER_OPT_BER_BYTES_TO_WRITE, &length);
    return length;
}

/* -- controls ---------------------------------------------------------------------------------- */

static bool
read_control(LdapReader *reader, LdapControl *control)
{
    if (!ldap_read(reader, LDAP_TAG_OCTETS, &control->oid))
        return false;
    (void)ldap_read_bool(reader, LDAP_TAG_BOOLEAN, &control->is_critical);
    (void)ldap_read(reader, LDAP_TAG_OCTETS, &control->value);
    return ldap_reader_left(reader) == 0;
}

LdapParse
ldap_control_next(LdapSpan *at, LdapControl *control_out)
{
    if (at->bytes == NULL || at->length == 0)
        return LDAP_PARSE_MORE;
    LdapControl control = { 0 };
    LdapSpan fields;
    g_autoptr(LdapReader) reader = ldap_reader_new(*at);
    if (!ldap_read(reader, LDAP_TAG_SEQUENCE, &fields))
        return LDAP_PARSE_BAD;
    at->bytes += at->length - ldap_reader_left(reader);
    at->length = ldap_reader_left(reader);
    ldap_reader_set(reader, fields);
    if (!read_control(reader, &control))
        return LDAP_PARSE_BAD;
    *control_out = control;
    return LDAP_PARSE_DONE;
}
