/* reader.h - requests taken apart, and answers built, by liblber
 *
 * Shape:    a reader is a BerElement over bytes that stay where they are; what it gives points into them.
 *           liblber takes any tag where a value is asked for: here each says which it has to be.
 *           A writer is a BerElement that grows; ber_printf fills it.
 * Threads:  pure: anywhere.
 * Rule:     the byte behind what is read must be there: liblber looks at it when it steps over an
 *           element. Requests are kept with one more byte for that (session.c).
 * Source:   lber-decode(3), lber-encode(3).
 */
#pragma once

#include "pdu.h"

#include <lber.h>

static inline void
ldap_reader_free(BerElement *reader)
{
    ber_free(reader, 0);
}

typedef BerElement LdapReader;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LdapReader, ldap_reader_free)

LdapReader *ldap_reader_new(LdapSpan span);
/* The reader goes on with these bytes. */
void ldap_reader_set(LdapReader *reader, LdapSpan span);
size_t ldap_reader_left(const LdapReader *reader);
/* The next element's tag, or 0: there is none that is whole, or its tag has several bytes. */
uint8_t ldap_reader_peek(LdapReader *reader);
/* The next element's contents, whatever its tag is. */
bool ldap_read_any(LdapReader *reader, uint8_t *tag_out, LdapSpan *contents_out);
/* Each reads one element of this tag; false leaves the reader where it is. */
bool ldap_read(LdapReader *reader, uint8_t tag, LdapSpan *contents_out);
bool ldap_read_int(LdapReader *reader, uint8_t tag, int32_t *number_out);
bool ldap_read_bool(LdapReader *reader, uint8_t tag, bool *value_out);
/* Steps into an element; what was inside is read next, `length_out` bytes of it. */
bool ldap_read_into(LdapReader *reader, uint8_t tag, size_t *length_out);

static inline void
ldap_writer_free(BerElement *writer)
{
    ber_free(writer, 1);
}

static inline BerElement *
ldap_writer_new(void)
{
    return ber_alloc_t(LBER_USE_DER);
}

/* What was written; valid until it is freed. */
LdapSpan ldap_writer_bytes(BerElement *writer);
size_t ldap_writer_length(BerElement *writer);
