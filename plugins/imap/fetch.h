/* fetch.h - FETCH: what was asked for, as data
 *
 * Threads:  made on the reactor, read in jobs; never changed after parsing.
 */
#pragma once

#include "imap.h"

#include "posthouse/message-outline.h"

typedef enum ImapFetchKind {
    IMAP_FETCH_FLAGS,
    IMAP_FETCH_UID,
    IMAP_FETCH_INTERNALDATE,
    IMAP_FETCH_SIZE,
    IMAP_FETCH_ENVELOPE,
    IMAP_FETCH_BODY,
    IMAP_FETCH_BODYSTRUCTURE,
    IMAP_FETCH_SECTION,
} ImapFetchKind;

enum { IMAP_SECTION_DEPTH_MAX = 64 };

typedef struct ImapFetchItem {
    ImapFetchKind kind;
    char *label; /* as the answer repeats it: "BODY[HEADER.FIELDS (FROM)]<0>" */
    /* SECTION: */
    PhSectionKind section;
    uint32_t path[IMAP_SECTION_DEPTH_MAX];
    size_t path_length;
    char **fields;   /* HEADER.FIELDS; null: the whole section */
    bool not_fields; /* HEADER.FIELDS.NOT */
    bool is_partial;
    uint32_t first;
    uint32_t count;
} ImapFetchItem;

typedef struct ImapFetchItems {
    GPtrArray *items; /* ImapFetchItem, in the order of the answer */
    bool sets_seen;
    unsigned meta; /* PH_META_* that are needed */
} ImapFetchItems;

/* Null: malformed. With `is_uid`, UID is among the items. */
ImapFetchItems *imap_fetch_items_parse(ImapParser *parser, bool is_uid);
void imap_fetch_items_free(ImapFetchItems *items);
