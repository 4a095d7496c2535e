/* smtp.h - what the files of this plugin share
 *
 * Threads:  sessions on their reactor; SmtpJob data in jobs.
 */
#pragma once

#include "posthouse/account.h"
#include "posthouse/delivery.h"
#include "posthouse/hook.h"
#include "posthouse/login.h"
#include "posthouse/message-address.h"
#include "posthouse/metrics.h"
#include "posthouse/plugin.h"
#include "posthouse/timer.h"

enum {
    SMTP_LINE_MAX_BYTES = 4096,       /* RFC 5321 4.5.3.1.4 asks for 512; extensions add to it */
    SMTP_AUTH_LINE_MAX_BYTES = 12288, /* RFC 4954 4 */
    SMTP_INPUT_LIMIT_BYTES = 64 * 1024,
    SMTP_SOFT_ERRORS = 10, /* then each error costs a second */
    SMTP_HARD_ERRORS = 20,
    SMTP_NOOPS_MAX = 100, /* commands that bring nothing forward */
    SMTP_HOPS_MAX = 50,
};

/* What differs between the services. */
typedef struct SmtpRole {
    const char *name;
    bool is_lmtp;
    bool is_submission; /* needs AUTH, sends for our users */
} SmtpRole;

/*
 *   START --EHLO--> GREETED --MAIL--> MAIL --RCPT--> RCPT --DATA--> DATA --end--> GREETED
 *                     |  ^              |              |
 *                    AUTH +-----RSET----+--------------+
 */
typedef enum SmtpState {
    SMTP_STATE_START,
    SMTP_STATE_GREETED,
    SMTP_STATE_AUTH, /* the next line is a response */
    SMTP_STATE_MAIL,
    SMTP_STATE_RCPT,
    SMTP_STATE_DATA,
} SmtpState;

enum {
    IN_START = 1 << SMTP_STATE_START,
    IN_GREETED = 1 << SMTP_STATE_GREETED,
    IN_MAIL = 1 << SMTP_STATE_MAIL,
    IN_RCPT = 1 << SMTP_STATE_RCPT,
    IN_ANY = IN_START | IN_GREETED | IN_MAIL | IN_RCPT,
};

typedef struct SmtpRecipient {
    char *address;    /* as the client wrote it */
    GArray *accounts; /* int64_t; none: policy said to discard */
    int64_t tenant_id;
    bool is_junk;  /* policy said to quarantine */
    char *refusal; /* policy refused it after DATA: the reply; or null */
} SmtpRecipient;

/* The transaction under way; null outside of one. */
typedef struct SmtpEnvelope {
    PhPath *sender;
    bool is_utf8;
    GPtrArray *recipients; /* SmtpRecipient */
    char *id;
} SmtpEnvelope;

typedef enum SmtpLineEnds { SMTP_LINE_ENDS_NORMALISE, SMTP_LINE_ENDS_REJECT } SmtpLineEnds;

/* Where the bytes of DATA stand: what was seen last. */
typedef enum SmtpDot { DOT_LINE_START, DOT_DOT, DOT_DOT_CR, DOT_TEXT, DOT_CR } SmtpDot;

/* The message that is coming in; null outside of DATA. */
typedef struct SmtpData {
    PhSpool *spool;
    SmtpDot dot;
    SmtpLineEnds line_ends;
    bool has_lone_line_end;
    GError *error; /* why the rest is only swallowed */
} SmtpData;

typedef struct SmtpSession {
    PhSession base;
    const SmtpRole *role;
    SmtpState state;
    char *helo; /* null before the greeting */
    bool is_extended;
    bool is_leaving; /* a farewell came while a job was under way */
    bool discarding; /* the rest of a line that was too long */
    unsigned errors;
    unsigned noops;
    unsigned transactions;
    PhIdentity *identity; /* null: not logged in */
    PhSasl *sasl;
    SmtpEnvelope *envelope;
    SmtpData *data;
    struct DeliverJob *delivery; /* waits for its commit */
    PhTimer delay;               /* before `delayed` is sent */
    char *delayed;
} SmtpSession;

typedef struct SmtpVerb {
    const char *name;
    void (*run)(SmtpSession *session, const char *rest);
    unsigned states;
    unsigned flags;
    const char *source;
} SmtpVerb;

enum {
    VERB_LMTP = 1 << 0,       /* with LMTP only */
    VERB_NOT_LMTP = 1 << 1,   /* not with LMTP */
    VERB_SUBMISSION = 1 << 2, /* with submission only */
    VERB_NO_PROGRESS = 1 << 3,
};

typedef struct SmtpCounters {
    PhMetric sessions;
    PhMetric received;
    PhMetric refused;
    PhMetric deferred;
    PhMetric bytes;
    PhMetric end; /* null name */
} SmtpCounters;

extern const PhSessionClass smtp_session_class;
extern const SmtpVerb smtp_verbs[];
SmtpCounters *smtp_counters(SmtpSession *session);

/* -- session.c --------------------------------------------------------------------------------- */

PH_ON_REACTOR void smtp_session_set_state(SmtpSession *session, SmtpState state);
/* Ends the transaction, if any. */
PH_ON_REACTOR void smtp_session_reset(SmtpSession *session);
/* No input and no timeout while work is under way. */
PH_ON_REACTOR void smtp_session_pause(SmtpSession *session);
/* Runs a job with input paused; `done` ends with smtp_session_go_on(). */
PH_ON_REACTOR void smtp_session_run(
    SmtpSession *session, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data);
PH_ON_REACTOR void smtp_session_go_on(SmtpSession *session);
int64_t smtp_deadline_us(void);

/* -- reply.c ----------------------------------------------------------------------------------- */

/* One line, code and enhanced code included: "250 2.1.0 Sender ok". */
PH_ON_REACTOR void smtp_reply(SmtpSession *session, const char *line);
PH_ON_REACTOR void smtp_replyf(SmtpSession *session, const char *format, ...) PH_PRINTF(2, 3);
/* A refusal: counted, slowed down after some, the last one closes. Input goes on when it has been
 * sent. */
PH_ON_REACTOR void smtp_refuse(SmtpSession *session, const char *line);
PH_ON_REACTOR void smtp_refuse_after(SmtpSession *session, const char *line, int64_t delay_ms);
/* The reply for an error: "451 4.3.0 ...". Free it. */
char *smtp_error_line(const SmtpSession *session, PhError code, const char *text);
PH_ON_REACTOR void smtp_refuse_error(SmtpSession *session, const GError *error);

/* -- parse.c ----------------------------------------------------------------------------------- */

/* "SIZE=1000 BODY=8BITMIME": calls `take` for each; false at the first that is malformed or not
 * taken. */
typedef bool (*SmtpTakeParameter)(const char *name, const char *value, void *data);
bool smtp_parse_parameters(const char *text, SmtpTakeParameter take, void *data);
/* The argument of EHLO and HELO: a domain or an address literal, cleaned for use in a trace field.
 * False when empty, too long, or with control characters. */
bool smtp_parse_helo(const char *text, char **helo_out);
/* "FROM:<...> ..." without regard to case: the rest behind "FROM:". Null: it is not there. */
const char *smtp_parse_keyword(const char *text, const char *keyword);

/* -- policy.c: what scripts say ---------------------------------------------------------------- */

extern const PhHookRow smtp_hooks[];
extern const PhHookRow *const smtp_hook_mail;
extern const PhHookRow *const smtp_hook_rcpt;
extern const PhHookRow *const smtp_hook_deliver;

/* What hooks are told of the session and its transaction; a copy, for jobs. */
typedef struct SmtpContext SmtpContext;

/* Null when nobody is to be asked at this point. */
PH_ON_REACTOR SmtpContext *smtp_context_new(const SmtpSession *session, const PhHookRow *hook);
void smtp_context_free(SmtpContext *context);
void smtp_context_set_sender(SmtpContext *context, const PhPath *sender);

/* One message for one account, as the hook "deliver" sees it. */
typedef struct SmtpCopy {
    const char *recipient;
    int64_t tenant_id;
    int64_t account_id;  /* 0: none yet */
    const char *headers; /* or null */
    size_t headers_length;
    size_t size;
} SmtpCopy;

/* `copy` null: the sender is asked about. */
PH_IN_JOB void smtp_policy_ask_blocking(const PhHookRow *hook, const SmtpContext *context,
    const SmtpCopy *copy, PhDecision *decision_out);
/* The reply for REJECT and DEFER. Free it. */
char *smtp_policy_reply(const PhDecision *decision);
/* Where REDIRECT leads: local accounts, or null (it is logged). */
PH_IN_JOB PhRoute *smtp_policy_redirect_blocking(const PhDecision *decision);
/* A target of the delivery, as ACCEPT and QUARANTINE have it. */
PH_IN_JOB void smtp_policy_add_target_blocking(
    PhDelivery *delivery, int64_t account_id, const PhDecision *decision, GArray *targets);

/* -- commands ---------------------------------------------------------------------------------- */

PH_ON_REACTOR void smtp_cmd_mail(SmtpSession *session, const char *rest);
PH_ON_REACTOR void smtp_cmd_rcpt(SmtpSession *session, const char *rest);
PH_ON_REACTOR void smtp_cmd_data(SmtpSession *session, const char *rest);
PH_ON_REACTOR void smtp_cmd_auth(SmtpSession *session, const char *rest);
PH_ON_REACTOR void smtp_auth_response(SmtpSession *session, const char *line);
PH_ON_REACTOR void smtp_auth_end(SmtpSession *session, const char *reply);
/* Takes bytes of the message. True when its end was among them; the count of bytes used is set
 * either way. */
PH_ON_REACTOR bool smtp_data_take(
    SmtpSession *session, const uint8_t *bytes, size_t length, size_t *used_out);
PH_ON_REACTOR void smtp_data_finish(SmtpSession *session);

SmtpEnvelope *smtp_envelope_new(PhPath *sender);
void smtp_envelope_free(SmtpEnvelope *envelope);
void smtp_data_free(SmtpData *data);
void smtp_delivery_free(struct DeliverJob *delivery);
/* Pure: unstuffs and finds the end (for tests and fuzzing). Appends to `out`. */
bool smtp_data_decode(SmtpDot *dot, const uint8_t *bytes, size_t length, size_t *used_out,
    bool *lone_line_end_out, GByteArray *out);
