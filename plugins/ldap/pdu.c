/* pdu.c - LDAP messages: framing, the envelope, elements, answers
 *
 * Framing looks at six bytes. Elements are stepped over in place and without an allocation, which
 * liblber cannot: its BerElement is only to be had from the heap, and its steps look at the byte behind
 * an element, which may not be ours. It is the referee: tests/unit/test-ldap-pdu.c and the fuzz target
 * compare each step with it.
 */
#include "pdu.h"

#include <string.h>

LdapParse
ldap_pdu_frame(const uint8_t *bytes, size_t length, size_t max, size_t *length_out)
{
    *length_out = 0;
    if (length == 0)
        return LDAP_PARSE_MORE;
    if (bytes[0] != LDAP_TAG_SEQUENCE)
        return LDAP_PARSE_BAD;
    if (length == 1)
        return LDAP_PARSE_MORE;
    size_t head = 2;
    size_t contents = bytes[1];
    if (bytes[1] >= 0x80) {
        /* 0x80 would be the indefinite form, which LDAP has not (RFC 4511 5.1). */
        size_t n = bytes[1] & 0x7f;
        if (n == 0 || n > 4)
            return LDAP_PARSE_BAD;
        if (length < 2 + n)
            return LDAP_PARSE_MORE;
        contents = 0;
        for (size_t i = 0; i < n; i++)
            contents = contents << 8 | bytes[2 + i];
        head = 2 + n;
    }
    if (contents > max - head)
        return LDAP_PARSE_TOO_LARGE;
    *length_out = head + contents;
    return *length_out <= length ? LDAP_PARSE_DONE : LDAP_PARSE_MORE;
}

/* -- elements ---------------------------------------------------------------------------------- */

bool
ldap_element_next(LdapSpan *at, uint8_t *tag_out, LdapSpan *contents_out)
{
    if (at->bytes == NULL)
        return false;
    /* Tags of one byte (LDAP has no others), definite lengths. */
    if (at->length < 2 || (at->bytes[0] & 0x1f) == 0x1f)
        return false;
    size_t head = 2;
    size_t length = at->bytes[1];
    if (length >= 0x80) {
        size_t n = length & 0x7f;
        if (n == 0 || n > 4 || n > at->length - 2)
            return false;
        length = 0;
        for (size_t i = 0; i < n; i++)
            length = length << 8 | at->bytes[2 + i];
        head = 2 + n;
    }
    if (length > at->length - head)
        return false;
    *tag_out = at->bytes[0];
    *contents_out = (LdapSpan){ .bytes = at->bytes + head, .length = length };
    size_t used = head + length;
    at->bytes += used;
    at->length -= used;
    return true;
}

bool
ldap_element_take(LdapSpan *at, uint8_t tag, LdapSpan *contents_out)
{
    if (at->bytes == NULL || at->length == 0 || at->bytes[0] != tag)
        return false;
    uint8_t found;
    return ldap_element_next(at, &found, contents_out);
}

bool
ldap_span_int(LdapSpan contents, int32_t *number_out)
{
    if (contents.length == 0 || contents.length > 4)
        return false;
    uint32_t number = (contents.bytes[0] & 0x80) != 0 ? UINT32_MAX : 0;
    for (size_t i = 0; i < contents.length; i++)
        number = number << 8 | contents.bytes[i];
    *number_out = (int32_t)number;
    return true;
}

bool
ldap_span_bool(LdapSpan contents, bool *value_out)
{
    if (contents.length != 1)
        return false;
    *value_out = contents.bytes[0] != 0;
    return true;
}

char *
ldap_span_text(LdapSpan span)
{
    if (span.length > 0 && memchr(span.bytes, '\0', span.length) != NULL)
        return NULL;
    return g_strndup((const char *)span.bytes, span.length);
}

bool
ldap_span_is(LdapSpan span, const char *text)
{
    size_t length = strlen(text);
    return span.bytes != NULL && span.length == length && memcmp(span.bytes, text, length) == 0;
}

/* -- the envelope ------------------------------------------------------------------------------ */

bool
ldap_pdu_parse(const uint8_t *bytes, size_t length, LdapPdu *pdu_out)
{
    LdapSpan all = { .bytes = bytes, .length = length };
    LdapSpan message;
    LdapSpan id;
    LdapPdu pdu = { .length = length };
    if (!ldap_element_take(&all, LDAP_TAG_SEQUENCE, &message) || all.length > 0)
        return false;
    if (!ldap_element_take(&message, LDAP_TAG_INTEGER, &id) || !ldap_span_int(id, &pdu.id) ||
        pdu.id < 0)
        return false;
    pdu.rest = message;
    if (!ldap_element_next(&message, &pdu.tag, &pdu.op))
        return false;
    bool has_controls = message.length > 0 && message.bytes[0] == 0xa0;
    if (has_controls && !ldap_element_take(&message, 0xa0, &pdu.controls))
        return false;
    while (message.length > 0) {
        uint8_t tag;
        LdapSpan unknown;
        if (!ldap_element_next(&message, &tag, &unknown))
            return false;
    }
    *pdu_out = pdu;
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

static size_t
put_length(uint8_t *out, size_t length)
{
    if (length < 0x80) {
        out[0] = (uint8_t)length;
        return 1;
    }
    size_t n = length <= 0xff ? 1 : length <= 0xffff ? 2 : length <= 0xffffff ? 3 : 4;
    out[0] = (uint8_t)(0x80 | n);
    for (size_t i = 0; i < n; i++)
        out[1 + i] = (uint8_t)(length >> (8 * (n - 1 - i)));
    return 1 + n;
}

/* An INTEGER with its tag, in as few bytes as it has. */
static size_t
put_int(uint8_t *out, uint8_t tag, int32_t number)
{
    uint32_t bits = (uint32_t)number;
    size_t n = 4;
    while (n > 1) {
        /* The first nine bits alike: the first byte says nothing. */
        int32_t top = (int32_t)(bits << (8 * (4 - n))) >> 23;
        if (top != 0 && top != -1)
            break;
        n--;
    }
    out[0] = tag;
    out[1] = (uint8_t)n;
    for (size_t i = 0; i < n; i++)
        out[2 + i] = (uint8_t)(bits >> (8 * (n - 1 - i)));
    return 2 + n;
}

size_t
ldap_pdu_head(uint8_t *out, int32_t id, size_t rest_length)
{
    uint8_t number[6];
    size_t number_length = put_int(number, LDAP_TAG_INTEGER, id);
    out[0] = LDAP_TAG_SEQUENCE;
    size_t used = 1 + put_length(out + 1, number_length + rest_length);
    memcpy(out + used, number, number_length);
    return used + number_length;
}

void
ldap_append(GByteArray *out, uint8_t tag, const void *bytes, size_t length)
{
    uint8_t head[6] = { tag };
    g_byte_array_append(out, head, 1 + (guint)put_length(head + 1, length));
    if (length > 0)
        g_byte_array_append(out, bytes, (guint)length);
}

void
ldap_append_text(GByteArray *out, uint8_t tag, const char *text)
{
    ldap_append(out, tag, text, strlen(text));
}

void
ldap_append_int(GByteArray *out, uint8_t tag, int32_t number)
{
    uint8_t bytes[6];
    g_byte_array_append(out, bytes, (guint)put_int(bytes, tag, number));
}

size_t
ldap_append_open(GByteArray *out, uint8_t tag)
{
    uint8_t head[6] = { tag, 0x84 };
    g_byte_array_append(out, head, sizeof(head));
    return out->len;
}

void
ldap_append_close(GByteArray *out, size_t opened)
{
    size_t length = out->len - opened;
    for (size_t i = 0; i < 4; i++)
        out->data[opened - 4 + i] = (uint8_t)(length >> (8 * (3 - i)));
}

uint8_t
ldap_response_tag(uint8_t request_tag)
{
    static const uint8_t pairs[][2] = {
        { LDAP_REQ_BIND, LDAP_RES_BIND },
        { LDAP_REQ_SEARCH, LDAP_RES_SEARCH_DONE },
        { LDAP_REQ_MODIFY, LDAP_RES_MODIFY },
        { LDAP_REQ_ADD, LDAP_RES_ADD },
        { LDAP_REQ_DELETE, LDAP_RES_DELETE },
        { LDAP_REQ_RENAME, LDAP_RES_RENAME },
        { LDAP_REQ_COMPARE, LDAP_RES_COMPARE },
        { LDAP_REQ_EXTENDED, LDAP_RES_EXTENDED },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(pairs); i++)
        if (pairs[i][0] == request_tag)
            return pairs[i][1];
    return 0;
}

int
ldap_pdu_result(LdapSpan op)
{
    LdapSpan code;
    int32_t number;
    if (!ldap_element_take(&op, LDAP_TAG_ENUMERATED, &code) || !ldap_span_int(code, &number) ||
        number < 0)
        return -1;
    return number;
}

bool
ldap_result_is_no(int result)
{
    return result == LDAP_INVALID_CREDENTIALS || result == LDAP_NO_SUCH_OBJECT ||
           result == LDAP_INAPPROPRIATE_AUTH || result == LDAP_INVALID_DN_SYNTAX ||
           result == LDAP_INSUFFICIENT_ACCESS || result == LDAP_UNWILLING_TO_PERFORM;
}
