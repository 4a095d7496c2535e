/* search.h - SEARCH: the program, as a tree
 *
 * Threads:  made on the reactor, read in jobs; never changed after parsing.
 * Limits:   depth 32, 2,000 nodes.
 */
#pragma once

#include "imap.h"

typedef enum ImapKey {
    IMAP_KEY_AND, /* all children; none is true */
    IMAP_KEY_OR,
    IMAP_KEY_NOT,
    IMAP_KEY_FLAG,    /* `flag` is set */
    IMAP_KEY_KEYWORD, /* `text` */
    IMAP_KEY_RECENT,
    IMAP_KEY_SET,    /* `uids` */
    IMAP_KEY_BEFORE, /* internal date, by day */
    IMAP_KEY_ON,
    IMAP_KEY_SINCE,
    IMAP_KEY_SENT_BEFORE,
    IMAP_KEY_SENT_ON,
    IMAP_KEY_SENT_SINCE,
    IMAP_KEY_LARGER,
    IMAP_KEY_SMALLER,
    IMAP_KEY_HEADER, /* `name` holds `text` */
    IMAP_KEY_BODY,
    IMAP_KEY_TEXT,
} ImapKey;

typedef struct ImapSearchNode ImapSearchNode;
struct ImapSearchNode {
    ImapKey key;
    GPtrArray *children; /* ImapSearchNode; AND, OR, NOT */
    uint32_t flag;
    int64_t number; /* a day since 1970, or a size */
    char *name;
    char *text; /* folded for comparison, except a keyword's */
    PhUidSet *uids;
};

typedef enum ImapSearchError {
    IMAP_SEARCH_OK,
    IMAP_SEARCH_SYNTAX,
    IMAP_SEARCH_CHARSET,
    IMAP_SEARCH_NO_MESSAGE, /* a sequence number that does not exist */
} ImapSearchError;

/* Sets are resolved against the told version, so this runs on the reactor. */
PH_ON_REACTOR ImapSearchError imap_search_parse(
    const ImapSession *session, ImapParser *parser, ImapSearchNode **root_out);
void imap_search_node_free(ImapSearchNode *node);

/* What is known of a message without and with the store's help. */
typedef struct ImapSearchSubject {
    const PhView *view;
    const PhViewRow *row;
    uint32_t first_recent;
    const PhMessageMeta *meta; /* null: not loaded */
    const char *headers; /* the header as clean, folded lines "name: value\n"; null: not loaded */
    const char *body;    /* the decoded text of the body, folded; null: not loaded */
} ImapSearchSubject;

typedef enum ImapAnswer { IMAP_NO, IMAP_YES, IMAP_UNKNOWN } ImapAnswer;

/* UNKNOWN: something that is not loaded decides. */
ImapAnswer imap_search_evaluate(const ImapSearchNode *node, const ImapSearchSubject *subject);
/* Does the program ever look at this? */
bool imap_search_needs(const ImapSearchNode *node, ImapKey key);
/* The names of headers that the program looks at; they belong to the program. */
void imap_search_header_names(const ImapSearchNode *node, GPtrArray *names);
/* The form in which texts are compared. */
char *imap_search_fold(const char *utf8);
