/* pdu.h - LDAP messages: framing, the envelope, answers
 *
 * Shape:    a PDU is SEQUENCE { messageID, protocolOp, [0] controls }. Framing looks at the tag and
 *           length only; decoding is in place: spans point into the given bytes.
 * Threads:  pure: anywhere.
 * Errors:   an enum; nothing is logged. No length is believed before it was compared with the limit.
 * Sources:  RFC 4511 4.1.1, 4.1.9, 4.1.11, 5.1 (definite lengths only); X.690.
 */
#pragma once

#include "posthouse/base.h"

enum {
    LDAP_PDU_CLIENT_MAX = 256 * 1024,
    LDAP_PDU_STRANGER_MAX = 32 * 1024, /* before a login */
    LDAP_PDU_UPSTREAM_MAX = 4 * 1024 * 1024,
};

/* Protocol operations (RFC 4511 4.2 ff). */
typedef enum LdapTag {
    LDAP_REQ_BIND = 0x60,
    LDAP_RES_BIND = 0x61,
    LDAP_REQ_UNBIND = 0x42,
    LDAP_REQ_SEARCH = 0x63,
    LDAP_RES_ENTRY = 0x64,
    LDAP_RES_SEARCH_DONE = 0x65,
    LDAP_RES_REFERENCE = 0x73,
    LDAP_REQ_MODIFY = 0x66,
    LDAP_RES_MODIFY = 0x67,
    LDAP_REQ_ADD = 0x68,
    LDAP_RES_ADD = 0x69,
    LDAP_REQ_DELETE = 0x4a,
    LDAP_RES_DELETE = 0x6b,
    LDAP_REQ_RENAME = 0x6c,
    LDAP_RES_RENAME = 0x6d,
    LDAP_REQ_COMPARE = 0x6e,
    LDAP_RES_COMPARE = 0x6f,
    LDAP_REQ_ABANDON = 0x50,
    LDAP_REQ_EXTENDED = 0x77,
    LDAP_RES_EXTENDED = 0x78,
    LDAP_RES_INTERMEDIATE = 0x79,
} LdapTag;

/* RFC 4511 appendix A. */
typedef enum LdapResult {
    LDAP_SUCCESS = 0,
    LDAP_OPERATIONS_ERROR = 1,
    LDAP_PROTOCOL_ERROR = 2,
    LDAP_TIME_LIMIT_EXCEEDED = 3,
    LDAP_SIZE_LIMIT_EXCEEDED = 4,
    LDAP_COMPARE_FALSE = 5,
    LDAP_COMPARE_TRUE = 6,
    LDAP_AUTH_METHOD_NOT_SUPPORTED = 7,
    LDAP_STRONGER_AUTH_REQUIRED = 8,
    LDAP_ADMIN_LIMIT_EXCEEDED = 11,
    LDAP_UNAVAILABLE_CRITICAL_EXTENSION = 12,
    LDAP_CONFIDENTIALITY_REQUIRED = 13,
    LDAP_SASL_BIND_IN_PROGRESS = 14,
    LDAP_NO_SUCH_ATTRIBUTE = 16,
    LDAP_UNDEFINED_ATTRIBUTE_TYPE = 17,
    LDAP_INAPPROPRIATE_MATCHING = 18,
    LDAP_CONSTRAINT_VIOLATION = 19,
    LDAP_NO_SUCH_OBJECT = 32,
    LDAP_INVALID_DN_SYNTAX = 34,
    LDAP_INAPPROPRIATE_AUTH = 48,
    LDAP_INVALID_CREDENTIALS = 49,
    LDAP_INSUFFICIENT_ACCESS = 50,
    LDAP_BUSY = 51,
    LDAP_UNAVAILABLE = 52,
    LDAP_UNWILLING_TO_PERFORM = 53,
    LDAP_ENTRY_ALREADY_EXISTS = 68,
    LDAP_OTHER = 80,
    LDAP_CANCELED = 118, /* RFC 3909 3 */
    LDAP_NO_SUCH_OPERATION = 119,
    LDAP_CANNOT_CANCEL = 121,
} LdapResult;

typedef enum LdapParse {
    LDAP_PARSE_DONE,
    LDAP_PARSE_MORE,
    LDAP_PARSE_BAD,       /* not LDAP: the connection ends with a notice of disconnection */
    LDAP_PARSE_TOO_LARGE, /* likewise */
} LdapParse;

typedef struct LdapSpan {
    const uint8_t *bytes; /* null: not there */
    size_t length;
} LdapSpan;

/* Offsets of a forwarded PDU: only the header and the message id are written anew, `rest` is sent as
 * it came. */
typedef struct LdapPdu {
    int32_t id;
    uint8_t tag;       /* of the protocolOp: any, known or not */
    LdapSpan op;       /* contents of the protocolOp */
    LdapSpan controls; /* contents of [0]; null bytes: none */
    LdapSpan rest;     /* from the protocolOp's tag to the end of the PDU */
    size_t length;     /* of the whole PDU */
} LdapPdu;

/* How long is the PDU that begins here? DONE: all of it is there. MORE: it is not; `length_out` is the
 * length of the whole then, or 0 while that cannot be told. */
LdapParse ldap_pdu_frame(const uint8_t *bytes, size_t length, size_t max, size_t *length_out);
/* The envelope of a whole PDU. False: malformed. What follows the controls is passed over, as RFC 4511
 * section 4 wants, but has to be elements. */
bool ldap_pdu_parse(const uint8_t *bytes, size_t length, LdapPdu *pdu_out);

/* Header and message id for a PDU whose rest has this length; at most LDAP_HEAD_BYTES. Gives the
 * number of bytes. */
enum { LDAP_HEAD_BYTES = 12 };
size_t ldap_pdu_head(uint8_t *out, int32_t id, size_t rest_length);

/* The tag of the last answer to a request, or 0: it has none. */
uint8_t ldap_response_tag(uint8_t request_tag);
/* resultCode of a LDAPResult's contents; -1: malformed. */
int ldap_pdu_result(LdapSpan op);
/* Does the result of a bind say something about the name or the password? */
bool ldap_result_is_no(int result);

/* -- elements ---------------------------------------------------------------------------------- */

/* The element that `at` begins with, which is moved behind it: its tag and contents. False: there is
 * none, or it does not end inside `at`. */
bool ldap_element_next(LdapSpan *at, uint8_t *tag_out, LdapSpan *contents_out);
/* The same where only this tag may stand; false leaves `at` where it is. */
bool ldap_element_take(LdapSpan *at, uint8_t tag, LdapSpan *contents_out);
/* Contents of an INTEGER or ENUMERATED of at most four bytes, of a BOOLEAN. */
bool ldap_span_int(LdapSpan contents, int32_t *number_out);
bool ldap_span_bool(LdapSpan contents, bool *value_out);
/* A copy with a NUL; null when there is a NUL inside. */
char *ldap_span_text(LdapSpan span);

/* Tags of elements (X.690 8). */
enum {
    LDAP_TAG_BOOLEAN = 0x01,
    LDAP_TAG_INTEGER = 0x02,
    LDAP_TAG_OCTETS = 0x04,
    LDAP_TAG_ENUMERATED = 0x0a,
    LDAP_TAG_SEQUENCE = 0x30,
    LDAP_TAG_SET = 0x31,
    LDAP_TAG_CONTROLS = 0xa0, /* RFC 4511 4.1.1 */
    LDAP_TAG_SIMPLE = 0x80,   /* of a bind, 4.2 */
    LDAP_TAG_SASL = 0xa3,
    LDAP_TAG_SASL_CHALLENGE = 0x87, /* of its answer */
    LDAP_TAG_REQUEST_NAME = 0x80,   /* of an extended request, 4.12 */
    LDAP_TAG_REQUEST_VALUE = 0x81,
    LDAP_TAG_RESPONSE_NAME = 0x8a,
    LDAP_TAG_RESPONSE_VALUE = 0x8b,
};

/* -- controls ---------------------------------------------------------------------------------- */

typedef struct LdapControl {
    LdapSpan oid;
    bool is_critical;
    LdapSpan value; /* null bytes: none */
} LdapControl;

/* Walks the controls of a PDU; `at` begins as pdu.controls. DONE: one was read; MORE: there is no
 * other; BAD. */
LdapParse ldap_control_next(LdapSpan *at, LdapControl *control_out);
bool ldap_span_is(LdapSpan span, const char *text);

/* An element is appended and closed later, when its contents are there: lengths are written with five
 * bytes, which BER allows. */
size_t ldap_append_open(GByteArray *out, uint8_t tag);
void ldap_append_close(GByteArray *out, size_t opened);
void ldap_append(GByteArray *out, uint8_t tag, const void *bytes, size_t length);
void ldap_append_text(GByteArray *out, uint8_t tag, const char *text);
void ldap_append_int(GByteArray *out, uint8_t tag, int32_t number);
