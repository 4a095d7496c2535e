/* message-address.h - addresses in headers and in SMTP commands
 *
 * Shape:    header lists: tolerant, in order, groups as markers, NUL shown as '?'.
 *           SMTP paths: strict, by the grammar.
 * Units:    bytes.
 * Threads:  anywhere; pure.
 * Errors:   the header parser has none; the path parser tells syntax from length.
 * Sources:  RFC 5322 3.4 and 4.4; RFC 6532; RFC 5321 4.1.2, 4.1.3, 4.5.3.1; RFC 6531 3.3.
 */
#pragma once

#include <posthouse/base.h>

/* Addresses of one header that are looked at; the rest is left out. */
#define PH_ADDRESS_LIST_MAX 2000

typedef enum PhAddressKind {
    PH_ADDRESS_MAILBOX,
    PH_ADDRESS_GROUP_BEGIN, /* `name` is the group's name */
    PH_ADDRESS_GROUP_END,
} PhAddressKind;

typedef struct PhAddress {
    PhAddressKind kind;
    const char *name;    /* display name or comment, quotes resolved, encoded words not; or NULL */
    const char *route;   /* obsolete source route "@a,@b", or NULL */
    const char *mailbox; /* local part, quotes resolved; "" when missing; NULL for a group marker */
    const char *host;    /* domain as written; "" when missing; NULL for a group marker */
} PhAddress;

typedef struct PhAddressList {
    PhAddress *items;
    size_t count;
    bool truncated; /* more than `max` were there */
    GStringChunk *text;
} PhAddressList;

/* Parses the (folded) value of an address field. Takes anything; each entry stands for something
 * that was written. Never NULL. At most `max` entries, 0 for PH_ADDRESS_LIST_MAX. */
PH_API PhAddressList *ph_address_list_parse(const char *value, size_t length, size_t max);
PH_API void ph_address_list_free(PhAddressList *list);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhAddressList, ph_address_list_free)

/* -- SMTP -------------------------------------------------------------------------------------- */

typedef enum PhPathFlags {
    PH_PATH_NULL_OK = 1 << 0,       /* "<>" is a path (MAIL FROM) */
    PH_PATH_POSTMASTER_OK = 1 << 1, /* "<Postmaster>" without a domain is a path (RCPT TO) */
    PH_PATH_BARE_OK = 1 << 2,       /* the angle brackets may be missing */
    PH_PATH_UTF8_OK = 1 << 3,       /* SMTPUTF8 was asked for */
} PhPathFlags;

typedef enum PhPathStatus {
    PH_PATH_OK,
    PH_PATH_SYNTAX,   /* 501 5.1.3 (5.1.7 for the sender) */
    PH_PATH_TOO_LONG, /* local part over 64, domain over 255, path over 254 bytes within brackets */
    PH_PATH_UTF8,     /* bytes over 127 without PH_PATH_UTF8_OK: 553 5.6.7 */
} PhPathStatus;

typedef struct PhPath {
    char *local;     /* quotes resolved; "" for the null path */
    char *domain;    /* as written, "[...]" for a literal; "" for the null path and Postmaster */
    bool is_null;    /* "<>" */
    bool is_literal; /* the domain is an address literal */
    bool is_utf8;    /* has bytes over 127: needs SMTPUTF8 onwards */
} PhPath;

/* Parses a path at the start of `text` (after "FROM:" or "TO:", no white space before it). A source
 * route is checked and dropped. `used_out` (may be NULL) is the length of the path; what follows is
 * the caller's. `path_out` is freed with ph_path_free(), and is untouched on failure. */
PH_API PhPathStatus ph_address_parse_path(
    const char *text, size_t length, PhPathFlags flags, PhPath **path_out, size_t *used_out);
/* A whole "local@domain" without brackets, as in settings and forms: nothing may follow. */
PH_API PhPathStatus ph_address_parse(const char *text, size_t length, PhPath **path_out);
PH_API void ph_path_free(PhPath *path);
/* "local@domain" with the local part quoted where the grammar needs it; "" for the null path. */
PH_API char *ph_path_format(const PhPath *path);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhPath, ph_path_free)

/* -- comparison -------------------------------------------------------------------------------- */

/* The form under which an address is looked up: lower case, NFC, the domain with its A-labels
 * ("xn--...") shown as UTF-8, a trailing dot dropped. Two addresses are the same exactly when these
 * are. NULL when a part is no valid UTF-8. `local` is without quotes. */
PH_API char *ph_address_normalize(const char *local, const char *domain);
PH_API char *ph_local_normalize(const char *local);
PH_API char *ph_domain_normalize(const char *domain);
/* The domain in ASCII (A-labels), lower case, for DNS; NULL when it has no such form. */
PH_API char *ph_domain_to_ascii(const char *domain);

/* Cuts the suffix of "name+suffix": true when `delimiter` is in `local` after at least one byte;
 * then `base_length_out` is the length before it and `suffix_out` points behind it. */
PH_API bool ph_local_split(
    const char *local, char delimiter, size_t *base_length_out, const char **suffix_out);
