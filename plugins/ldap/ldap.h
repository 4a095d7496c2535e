/* ldap.h - what the files of this plugin share
 *
 * Shape:    a session is a client's connection. Each request becomes an operation, with a task of its
 *           own, so that several are under way at once; it is answered by the local directory
 *           (directory.c, bind.c) or by an upstream (proxy.c), and ended exactly once. An unbind, a
 *           lost client or a farewell ends all.
 * Threads:  sessions, operations and everything of the proxy on the session's reactor; structs named
 *           ...Job in jobs while they run.
 * Limits:   one PDU 256 KiB from a client (32 KiB before its login), 4 MiB from an upstream;
 *           operations under way 64 a session, with 512 KiB of requests (then its input waits);
 *           filters 32 deep, 256 terms.
 * Sources:  RFC 4511, 4512, 4513, 4514, 4515, 4532 (who am I), 3062 (password modify), 2696 (pages),
 *           2891 is not offered.
 */
#pragma once

#include "pdu.h"
#include "posthouse/action.h"
#include "posthouse/directory.h"
#include "posthouse/login.h"
#include "posthouse/metrics.h"
#include "posthouse/plugin.h"
#include "posthouse/timer.h"

typedef struct LdapState LdapState;
typedef struct LdapSession LdapSession;
typedef struct LdapOperation LdapOperation;
typedef struct LdapForward LdapForward; /* proxy.c: what is under way at an upstream */
typedef struct LdapPinned LdapPinned;   /* proxy.c: an upstream connection that is one session's */

/* As whom a session asks. */
typedef enum LdapWho {
    LDAP_WHO_NOBODY,  /* anonymous */
    LDAP_WHO_ACCOUNT, /* a local account: `identity` */
    LDAP_WHO_CLIENT,  /* somebody of an upstream: `client_dn` of `client_upstream` */
} LdapWho;

struct LdapSession {
    PhSession base;
    LdapWho who;
    PhIdentity *identity;
    char *client_dn;         /* as the client gave it */
    int64_t client_upstream; /* PhUpstream.id */
    LdapPinned *pinned;      /* proxy.c; null: none */
    GQueue operations;       /* LdapOperation, under way */
    size_t held_bytes;       /* of their requests */
    LdapOperation *binding;  /* a bind or StartTLS under way: nothing else runs beside it */
    PhSasl *sasl;
    size_t buffered; /* proxy.c: what waits for a client that reads slowly, as it was last seen */
    bool is_leaving;
};

struct LdapOperation {
    LdapSession *session;
    GList link; /* in session->operations */
    PhTask task;
    int32_t id;    /* the client's message id */
    uint8_t tag;   /* of the request, LDAP_REQ_... */
    GBytes *bytes; /* the whole PDU, kept while the operation lives; `pdu` points into it */
    LdapPdu pdu;
    bool is_abandoned;    /* nothing is written for it any more */
    LdapForward *forward; /* proxy.c; null: not there */
    void *data;           /* of the file that answers it; freed by `free_data` at the end */
    GDestroyNotify free_data;
};

typedef struct LdapCounters {
    PhMetric sessions;
    PhMetric operations;
    PhMetric binds;
    PhMetric bind_failures;
    PhMetric forwarded;
    PhMetric cache_hits;
    PhMetric cache_misses;
    PhMetric upstream_failures;
    PhMetric end; /* null name */
} LdapCounters;

/* What start() makes; a session has it in base.plugin_state. */
struct LdapState {
    LdapCounters counters;
    struct LdapProxy *proxy; /* proxy.c */
    PhSecret *cookie_key;    /* of the codes over cookies of pages */
};

extern const PhSessionClass ldap_session_class;
static inline LdapState *
ldap_state(const LdapSession *session)
{
    return session->base.plugin_state;
}

/* -- session.c --------------------------------------------------------------------------------- */

/* Writes a whole PDU for the operation, unless it was abandoned. The bytes are copied. */
PH_ON_REACTOR void ldap_operation_write(LdapOperation *operation, const void *pdu, size_t length);
/* The last answer, with the response's tag that belongs to the request; ends the operation, which is
 * freed. `matched_dn` and `text` may be null. */
PH_ON_REACTOR void ldap_operation_finish(
    LdapOperation *operation, LdapResult result, const char *matched_dn, const char *text);
/* Ends the operation after its last answer was written otherwise; it is freed. Input that waited for
 * a place goes on. */
PH_ON_REACTOR void ldap_operation_end(LdapOperation *operation);
/* The same for an error of the store. */
PH_ON_REACTOR void ldap_operation_fail(LdapOperation *operation, const GError *error);
LdapOperation *ldap_operation_of(PhTask *task);
/* Ends the session's operation of that id with the answer that it was canceled (RFC 3909); or
 * NO_SUCH_OPERATION, or CANNOT_CANCEL: a change goes on whatever one says. */
PH_ON_REACTOR LdapResult ldap_operation_cancel(LdapOperation *operation, int32_t id);
/* May more be written now, or does the client read too slowly? `drained` of session.c calls
 * ldap_proxy_drained and ldap_directory_drained. */
PH_ON_REACTOR bool ldap_session_is_full(const LdapSession *session);
/* A bind is over: who the session is from now on; takes both. The activity text and the account of
 * the session are set here. LDAP_WHO_NOBODY after each bind that fails (RFC 4511 4.2.1). */
PH_ON_REACTOR void ldap_session_become(
    LdapSession *session, LdapWho who, PhIdentity *identity, char *client_dn, int64_t upstream_id);

/* -- bind.c, directory.c, extended.c, root-dse.c: local answers; each takes the operation ------- */

PH_ON_REACTOR void ldap_bind(LdapOperation *operation);
/* Refuses a bind once the time that a failed login of this name costs is over. `rest` is the answer, a PDU
 * without its head; null: ours. */
PH_ON_REACTOR void ldap_bind_refuse(LdapOperation *operation, const char *login, GBytes *rest);
PH_ON_REACTOR void ldap_search(
    LdapOperation *operation); /* routes: root DSE, schema, local, proxy */
PH_ON_REACTOR void ldap_compare(LdapOperation *operation);
PH_ON_REACTOR void ldap_change(LdapOperation *operation); /* add, delete, modify, rename */
PH_ON_REACTOR void ldap_extended(LdapOperation *operation);
PH_ON_REACTOR void ldap_abandon(LdapOperation *operation);
PH_ON_REACTOR void ldap_directory_drained(LdapSession *session);

/* -- proxy.c ----------------------------------------------------------------------------------- */

/* The upstream whose suffix is the longest that the name ends with, or null. `dn` is normalised
 * (dn.h). Valid until the reactor's next turn. */
PH_ON_REACTOR const PhUpstream *ldap_proxy_route(
    LdapState *state, PhReactor *reactor, const char *dn);
/* The upstream of this number (of a session that is LDAP_WHO_CLIENT), or null: it is gone. */
PH_ON_REACTOR const PhUpstream *ldap_proxy_by_id(
    LdapState *state, PhReactor *reactor, int64_t upstream_id);
/* Forwards any request but bind, unbind, abandon, StartTLS; answers and ends the operation, from the
 * cache where it may. It has checked nothing before: anonymous, read-only ... are refused here. */
PH_ON_REACTOR void ldap_proxy_forward(LdapOperation *operation, const PhUpstream *upstream);
/* A simple bind below the upstream's suffix: asked on connections for binds, or answered by the bind
 * cache; calls ldap_session_become and finishes the operation. */
PH_ON_REACTOR void ldap_proxy_bind(
    LdapOperation *operation, const PhUpstream *upstream, const char *dn, const PhSecret *password);
/* The client does not want the answer any more. The operation stays until its end comes: nothing is
 * written for it. */
PH_ON_REACTOR void ldap_proxy_abandon(LdapOperation *operation);
/* The session binds anew or is gone: what was its own at an upstream ends. */
PH_ON_REACTOR void ldap_proxy_release(LdapSession *session);
PH_ON_REACTOR void ldap_proxy_drained(LdapSession *session);

/* In start and stop of the plugin. */
struct LdapProxy *ldap_proxy_new(LdapState *state);
void ldap_proxy_free(struct LdapProxy *proxy);

/* upstream-actions.c: rows that the plugin brings (upstream.*, ldap.*). */
extern const PhActionRow ldap_actions[];
