/* imap.h - what the files of this plugin share
 *
 * Threads:  sessions and commands on their reactor; structs named ...Job in jobs while they run.
 */
#pragma once

#include "posthouse/account.h"
#include "posthouse/delivery.h"
#include "posthouse/login.h"
#include "posthouse/mailbox-view.h"
#include "posthouse/mailbox.h"
#include "posthouse/metrics.h"
#include "posthouse/plugin.h"
#include "posthouse/timer.h"

enum {
    IMAP_LINE_BEFORE_LOGIN_BYTES = 8 * 1024, /* a command, its literals included */
    IMAP_LINE_AFTER_LOGIN_BYTES = 128 * 1024,
    IMAP_INPUT_LIMIT_BYTES = 64 * 1024,
    IMAP_BAD_MAX = 20, /* commands in a row that make no sense */
    IMAP_LOGIN_TIMEOUT_MS = 60 * 1000,
    IMAP_IDLE_TIMEOUT_MS = 30 * 60 * 1000, /* RFC 3501 5.4 */
    IMAP_STILL_HERE_MS = 2 * 60 * 1000,    /* phones lose quiet connections */
    IMAP_SLICE_BYTES = 256 * 1024,
    IMAP_SLICE_ROWS = 500,
};

/*
 *   GREETED --LOGIN--> AUTHENTICATED --SELECT--> SELECTED
 *      |                  ^    |  <--CLOSE---------+
 *      +---LOGOUT---------|----+------LOGOUT-------+----> LOGOUT
 */
typedef enum ImapState {
    IMAP_STATE_GREETED,
    IMAP_STATE_AUTHENTICATED,
    IMAP_STATE_SELECTED,
    IMAP_STATE_LOGOUT,
} ImapState;

enum {
    IN_GREETED = 1 << IMAP_STATE_GREETED,
    IN_AUTH = 1 << IMAP_STATE_AUTHENTICATED,
    IN_SELECTED = 1 << IMAP_STATE_SELECTED,
    IN_LOGGED_IN = IN_AUTH | IN_SELECTED,
    IN_ANY = IN_GREETED | IN_LOGGED_IN,
};

/* What the next line is. */
typedef enum ImapInput {
    IMAP_INPUT_COMMAND,
    IMAP_INPUT_LITERAL,  /* bytes into the command */
    IMAP_INPUT_APPEND,   /* bytes into the spool */
    IMAP_INPUT_SWALLOW,  /* bytes of a literal that was refused, then the rest of its line */
    IMAP_INPUT_RESPONSE, /* of AUTHENTICATE */
    IMAP_INPUT_IDLE,     /* DONE */
} ImapInput;

typedef struct ImapSession ImapSession;
typedef struct ImapCommand ImapCommand;

/* A span of a command, and where its reader stands. Pure parsers move `at`. */
typedef struct ImapParser {
    const char *at;
    const char *end;
} ImapParser;

typedef struct ImapVerb {
    const char *name; /* null ends the table */
    void (*run)(ImapSession *session, ImapParser *arguments);
    unsigned states;
    unsigned flags;
    const char *source;
} ImapVerb;

enum {
    VERB_UID = 1 << 0, /* also as "UID name" */
    VERB_KEEPS_SEQUENCE =
        1 << 1, /* no EXPUNGE may be told in its course (RFC 3501 7.4.1), except after UID */
    VERB_WRITES = 1 << 2, /* refused in a mailbox that was EXAMINEd */
};

/* The command under way; null between commands. */
struct ImapCommand {
    char *tag;
    const ImapVerb *verb;
    bool is_uid;
};

/* The mailbox that is selected. */
typedef struct ImapSelected {
    PhMailboxKey key;
    char *name;
    bool read_only;
    PhMailboxWatch *watch;
    PhWake *wake;
    PhView *told; /* the version that the client knows */
    uint32_t first_recent;
    uint64_t told_keywords; /* bits that FLAGS has named */
} ImapSelected;

struct ImapSession {
    PhSession base;
    ImapState state;
    ImapInput input;
    GString *buffer; /* the command as it comes in, literals included */
    uint64_t literal_left;
    bool
        is_refused; /* the command under way holds a literal that is too large: the rest of it is only read */
    unsigned bad;
    bool is_leaving; /* a farewell came while a job was under way */
    ImapCommand *command;
    PhIdentity *identity;
    PhSasl *sasl;
    ImapSelected *selected;
    PhSpool *spool; /* of an APPEND */
    GError *spool_error;
    PhTimer delay; /* before `delayed` is sent, or of IDLE */
    char *delayed;
    struct FetchJob *fetch; /* waits for the client to read what it has */
};

typedef struct ImapCounters {
    PhMetric sessions;
    PhMetric commands;
    PhMetric fetched;
    PhMetric appended;
    PhMetric end; /* null name */
} ImapCounters;

extern const PhSessionClass imap_session_class;
extern const ImapVerb imap_verbs[];
ImapCounters *imap_counters(const ImapSession *session);

/* -- session.c --------------------------------------------------------------------------------- */

PH_ON_REACTOR void imap_session_set_state(ImapSession *session, ImapState state);
PH_ON_REACTOR void imap_session_show_activity(ImapSession *session);
/* No input and no timeout while work is under way. */
PH_ON_REACTOR void imap_session_pause(ImapSession *session);
/* Runs a job of the command with input paused. `done` ends the command, or runs the next job. */
PH_ON_REACTOR void imap_session_run(
    ImapSession *session, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data);
ImapSession *imap_session_of(PhTask *task);
int64_t imap_deadline_us(void);
int64_t imap_actor(const ImapSession *session);
PH_ON_REACTOR void imap_session_deselect(ImapSession *session);

/* -- verbs.c ----------------------------------------------------------------------------------- */

/* The capabilities as they are now, divided by spaces. Free it. */
PH_ON_REACTOR char *imap_capabilities(const ImapSession *session);
/* Runs the command in the buffer. */
PH_ON_REACTOR void imap_dispatch(ImapSession *session);
/* How many bytes a command may have now. */
size_t imap_command_limit(const ImapSession *session);

/* -- write.c ----------------------------------------------------------------------------------- */

PH_ON_REACTOR void imap_untagged(ImapSession *session, const char *format, ...) PH_PRINTF(2, 3);
/* Each ends the command: tells what changed in the mailbox, writes the tagged line, and goes on
 * with the input. */
PH_ON_REACTOR void imap_ok(ImapSession *session, const char *text);
PH_ON_REACTOR void imap_ok_code(ImapSession *session, const char *code, const char *text);
PH_ON_REACTOR void imap_no(ImapSession *session, const char *code, const char *text);
PH_ON_REACTOR void imap_bad(ImapSession *session, const char *text);
PH_ON_REACTOR void imap_no_error(ImapSession *session, const GError *error);
/* The same for a missing target of APPEND, COPY, MOVE: [TRYCREATE]. */
PH_ON_REACTOR void imap_no_target(ImapSession *session, const GError *error);
PH_ON_REACTOR void imap_no_later(
    ImapSession *session, const char *code, const char *text, int64_t delay_ms);
/* A mailbox name as it goes over the wire: modified UTF-7, quoted where needed. */
void imap_append_mailbox(GString *out, const char *name);
/* In decimal digits. */
void imap_append_number(GString *out, uint64_t number);
/* "(\Seen $Forwarded)". `recent`: with \Recent. */
void imap_append_flags(GString *out, const PhView *view, const PhViewRow *row, bool recent);
void imap_append_keyword_names(GString *out, const PhView *view);

/* -- parse.c: each returns false without moving when the grammar is not met -------------------- */

bool imap_parse_char(ImapParser *parser, char wanted);
bool imap_parse_space(ImapParser *parser);
bool imap_parse_end(const ImapParser *parser);
/* Without regard to case; what follows must not be an atom character. */
bool imap_parse_word(ImapParser *parser, const char *word);
char *imap_parse_atom(ImapParser *parser);
char *imap_parse_astring(ImapParser *parser, size_t *length_out);
/* A quoted string or literal. */
char *imap_parse_string(ImapParser *parser, size_t *length_out);
/* As astring, with "%" and "*" allowed in atoms. */
char *imap_parse_list_mailbox(ImapParser *parser);
/* An astring that is a mailbox name, from modified UTF-7 to UTF-8; null also when it is
 * malformed. */
char *imap_parse_mailbox(ImapParser *parser);
bool imap_parse_number(ImapParser *parser, uint32_t *number_out);
/* A sequence set; "*" is this, which no message can have. At most 20,000 ranges. */
enum { IMAP_SET_STAR = 0 };
GArray *imap_parse_set(ImapParser *parser);
/* "(\Seen foo)" or, without parentheses, flags divided by spaces. \Recent is passed over. Null:
 * malformed. `keywords_out` gets a null-terminated array. */
bool imap_parse_flags(
    ImapParser *parser, bool parentheses, uint32_t *flags_out, char ***keywords_out);
/* "17-Jul-1996 02:44:25 -0700" in quotes. */
bool imap_parse_date_time(ImapParser *parser, int64_t *time_us_out);
/* "1-Feb-1994", quoted or not, as days since 1970. */
bool imap_parse_date(ImapParser *parser, int64_t *day_out);
/* Does a line (its end included) end with "{n}" or "{n+}"? */
bool imap_line_ends_with_literal(
    const char *line, size_t length, uint64_t *size_out, bool *synchronising_out);
/* Is what comes behind this buffer, which ends with a literal's head, the message of an APPEND? */
bool imap_is_append_message(const char *buffer, size_t length);

/* -- utf7.c, match.c --------------------------------------------------------------------------- */

/* Null when malformed. */
char *imap_utf7_decode(const char *text, size_t length);
void imap_utf7_encode(GString *out, const char *utf8);
bool imap_list_match(const char *pattern, const char *name);

/* -- sets -------------------------------------------------------------------------------------- */

/* The UIDs of the told version that a set names, by sequence number or UID. Null with false: a
 * sequence number that does not exist (BAD). */
PH_ON_REACTOR bool imap_resolve_set(
    const ImapSession *session, const GArray *set, bool is_uid, PhUidSet **uids_out);

/* -- sync.c ------------------------------------------------------------------------------------ */

/* Tells what changed and moves to the latest version. Without `may_expunge` nothing is told while
 * messages are gone. `silent` (may be null): UIDs whose flags the client knows already. */
PH_ON_REACTOR void imap_sync(ImapSession *session, bool may_expunge, const PhUidSet *silent);
/* True when a mailbox is selected and somebody deleted it. */
bool imap_selected_is_gone(const ImapSession *session);
/* Says so, and ends the session. */
PH_ON_REACTOR void imap_leave_gone(ImapSession *session);
PH_ON_REACTOR void imap_tell_flags(ImapSession *session, const PhUidSet *uids, bool with_uid);
PH_ON_REACTOR void imap_tell_flag_names(ImapSession *session, const PhView *view);

/* -- commands ---------------------------------------------------------------------------------- */

typedef void ImapHandler(ImapSession *session, ImapParser *arguments);
PH_ON_REACTOR ImapHandler imap_cmd_capability, imap_cmd_noop, imap_cmd_logout, imap_cmd_id,
    imap_cmd_starttls, imap_cmd_login, imap_cmd_authenticate, imap_cmd_namespace, imap_cmd_list,
    imap_cmd_lsub, imap_cmd_subscribe, imap_cmd_unsubscribe, imap_cmd_create, imap_cmd_delete,
    imap_cmd_rename, imap_cmd_status, imap_cmd_select, imap_cmd_examine, imap_cmd_close,
    imap_cmd_unselect, imap_cmd_check, imap_cmd_expunge, imap_cmd_fetch, imap_cmd_store,
    imap_cmd_copy, imap_cmd_move, imap_cmd_search, imap_cmd_append, imap_cmd_idle;
PH_ON_REACTOR void imap_auth_response(ImapSession *session, const char *line);
PH_ON_REACTOR void imap_idle_line(ImapSession *session, const char *line);
PH_ON_REACTOR void imap_idle_changed(ImapSession *session);
/* The next slice of a FETCH that waited for its client. */
PH_ON_REACTOR void imap_fetch_go_on(ImapSession *session);
PH_ON_REACTOR void imap_fetch_abandon(ImapSession *session);
