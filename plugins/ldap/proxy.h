/* proxy.h - what the files of the proxy share
 *
 * Shape:    each reactor has a pool. A pool has the upstreams of the current snapshot; an upstream has
 *           its servers; a server has links, which are connections to it: shared ones (requests of
 *           many clients), ones for binds (one bind at a time) and pinned ones (one session's own).
 *           What is under way is a forward; it waits in a queue of its upstream or pin, or is on one
 *           link under an id there, and ends once: by its last answer, a failure, or because nobody
 *           wants it any more.
 *
 *             proxy.c     who may, caches, answers to clients
 *               | ldap_upstream_submit, ldap_forward_drop     ^ ldap_forward_answered, _failed
 *               v                                             |
 *             upstream.c  what is under way, where it goes, fail-over
 *             server.c    servers, their health; pool.c  which upstreams there are
 *             link.c      connections: getting ready, ids, what comes
 *
 * Threads:  everything on the pool's reactor; nothing here has a lock. ldap_pool_get walks a list that
 *           only grows.
 * Units:    microseconds of the monotonic clock.
 */
#pragma once

#include "plugins/ldap/bind-cache.h"
#include "plugins/ldap/ldap.h"
#include "plugins/ldap/request-check.h"
#include "plugins/ldap/search-cache.h"
#include "plugins/ldap/url.h"
#include "posthouse/settings.h"

typedef struct LdapProxy LdapProxy;
typedef struct LdapPool LdapPool;
typedef struct LdapUpstream LdapUpstream;
typedef struct LdapServer LdapServer;
typedef struct LdapLink LdapLink;
typedef struct LdapPin LdapPin;
typedef struct LdapFill LdapFill;
typedef struct LdapResolve LdapResolve;

/* In the plugin's table of settings. */
// clang-format off
#define LDAP_PROXY_SETTINGS \
    { "ldap.cache.max_bytes", PH_SETTING_SIZE, "32M", 0, INT64_C(1) << 40, NULL, PH_SCOPE_GLOBAL, \
        "Memory for answers of upstream directories, for all reactors together; 0: none." }, \
    { "ldap.cache.binds", PH_SETTING_BOOL, "true", 0, 0, NULL, PH_SCOPE_GLOBAL, \
        "Whether a bind that an upstream accepted is accepted again for the upstream's cache time." }, \
    { "ldap.upstream.idle_s", PH_SETTING_TIME, "120", 5, 86400, NULL, PH_SCOPE_GLOBAL, \
        "How long a connection to an upstream directory is kept without use." }, \
    { "ldap.upstream.pinned", PH_SETTING_INT, "256", 1, 65536, NULL, PH_SCOPE_GLOBAL, \
        "The most connections to one server that belong to one client each, for each reactor." }, \
    { "ldap.upstream.slow_client_bytes", PH_SETTING_SIZE, "8M", 262144, INT64_C(1) << 30, NULL, \
        PH_SCOPE_GLOBAL, \
        "What may wait for a client that reads too slowly; then its search ends (adminLimitExceeded)." },
// clang-format on

enum {
    LDAP_EPOCHS = 64,
    LDAP_PINS_MAX = 4, /* of one session */
};

/* One for each generation of the plugin. */
struct LdapProxy {
    LdapState *state;
    LdapPool *pools; /* grows at its head, atomically */
    PhSecret *bind_key;
    /* Raised by each change of an upstream through us, by its number: what was kept before is not
     * given any more, on no reactor. */
    uint64_t epochs[LDAP_EPOCHS];
};

typedef struct LdapProxyConfig {
    size_t cache_bytes; /* of this reactor */
    bool cache_binds;
    int64_t idle_ms;
    unsigned pinned;
    size_t slow_client_bytes;
} LdapProxyConfig;

struct LdapPool {
    LdapPool *next;
    LdapProxy *proxy;
    PhReactor *reactor;
    PhUpstreams *snapshot;
    uint64_t snapshot_generation;
    uint64_t settings_generation;
    LdapProxyConfig config;
    GPtrArray *upstreams; /* LdapUpstream, of the snapshot; counted */
    LdapSearchCache *answers;
    GHashTable *fills; /* proxy.c: GBytes of the key -> LdapFill */
    LdapBindCache *binds;
    GByteArray *scratch; /* within one call */
    GByteArray *key;     /* within one call */
    LdapForward *spare;
    unsigned n_spare;
    unsigned n_links;     /* their callbacks may come */
    unsigned n_resolving; /* likewise */
    size_t filling;       /* bytes of answers that are being fetched for the cache */
    size_t buffered;      /* for slow clients, all together */
    bool is_leaving;      /* nothing new is asked */
};

typedef enum LdapServerState {
    LDAP_SERVER_IDLE,   /* nobody asked yet */
    LDAP_SERVER_TRYING, /* the first attempt is under way: requests wait for it */
    LDAP_SERVER_UP,
    LDAP_SERVER_DOWN, /* tried in the background; nobody waits for it */
} LdapServerState;

typedef enum LdapLinkKind {
    LDAP_LINK_SHARED,
    LDAP_LINK_BINDING,
    LDAP_LINK_PINNED,
    LDAP_N_LINK_KINDS,
} LdapLinkKind;

struct LdapServer {
    LdapUpstream *upstream; /* that it is a part of */
    char *url;
    char *host;
    int port;
    bool tls;
    bool is_address; /* the host needs no resolving */
    LdapServerState state;
    bool is_degraded; /* slower than the others by far: used last */
    GStrv addresses;  /* null: not known yet */
    unsigned address; /* the one to try next */
    unsigned refused; /* addresses, one after the other */
    int64_t resolved_us;
    LdapResolve *resolving;
    GPtrArray *links[LDAP_N_LINK_KINDS];
    unsigned failures;  /* in a row */
    int64_t retry_us;   /* not before, when it is down */
    int64_t renewed_us; /* when it was last given a connection for one that worked and ended */
    PhTimer retry_timer;
    PhTimer tick_timer;
    int64_t canary_us; /* when a degraded one was given a request last */
    /* for ldap.status */
    unsigned in_flight;
    int64_t answered;
    int64_t failed;
    int64_t mean_us; /* moving, from the request to the first answer */
    unsigned samples;
    char *error;      /* the last one */
    int64_t error_us; /* since 1970 */
    int64_t since_us; /* since 1970: in its state */
};

/* Counted: by the pool while it is current, and by servers' links, forwards and pins. */
struct LdapUpstream {
    unsigned references;
    LdapPool *pool;
    PhUpstreams *snapshot;
    const PhUpstream *config;
    char *suffix; /* normalised */
    bool is_retired;
    LdapServer *servers;
    size_t n_servers;
    GQueue waiting;       /* forwards for shared links */
    GQueue waiting_binds; /* for links for binds */
    GQueue by_age;        /* all that have a deadline, the nearest first */
    GQueue pins;
    PhTimer age_timer;
    bool is_pumping;
    bool pump_again;
};

typedef enum LdapLinkState {
    LDAP_LINK_CONNECTING,
    LDAP_LINK_STARTING_TLS, /* asked for, or in the handshake */
    LDAP_LINK_INTRODUCING,  /* the bind that makes it somebody's is under way */
    LDAP_LINK_READY,
    LDAP_LINK_DRAINING, /* what is under way is answered, nothing new is sent */
    LDAP_LINK_ENDED,    /* being closed */
} LdapLinkState;

struct LdapLink {
    PhSession base;
    LdapServer *server;
    LdapLinkKind kind;
    LdapLinkState state;
    LdapPin *pin;        /* of a pinned one; null: its session is gone */
    LdapForward **slots; /* by id & mask */
    unsigned mask;
    unsigned in_flight;
    int32_t last_id;
    int32_t setup_id; /* StartTLS or bind; 0: none */
    int32_t ping_id;  /* 0: none */
    bool wants_tls;   /* within input */
    bool is_paused;   /* a pinned one whose client reads slowly */
    bool was_ready;
    bool was_silent; /* it was given up, not ended by the server */
    int64_t ping_us;
    int64_t input_us; /* when something came, or was first waited for */
    int64_t used_us;
    char *failure; /* why it ended; null: in order */
};

/* A connection of one session to one upstream. */
struct LdapPin {
    LdapPinned *owner;
    LdapUpstream *upstream;
    GList link_in_upstream;
    bool as_client; /* bound with what the client bound with */
    LdapLink *link; /* null: none yet, or it was lost */
    GQueue waiting;
};

struct LdapPinned {
    LdapSession *session;
    PhSecret *password; /* that the client bound with; null: none */
    LdapPin pins[LDAP_PINS_MAX];
    unsigned n_pins;
};

typedef enum LdapForwardKind {
    LDAP_FORWARD_REQUEST,
    LDAP_FORWARD_BIND,
} LdapForwardKind;

struct LdapForward {
    LdapUpstream *upstream;
    LdapForwardKind kind;
    LdapOperation *operation; /* null: nobody waits for it, it fills the cache */
    LdapPin *pin;             /* it goes over this connection only */
    LdapLink *link;           /* null: it waits */
    int32_t id;               /* there */
    uint8_t tag;              /* of the request */
    uint8_t final_tag;        /* of the last answer */
    bool is_read;             /* may be asked again elsewhere while nothing came */
    bool is_started;          /* something of its answer was passed on */
    bool has_answer;          /* for the mean: the first answer came */
    bool is_endless;          /* has no deadline: it waits for changes */
    unsigned tries;
    LdapServer *avoid; /* that failed it */
    GQueue *queue;     /* that it waits in: for a link, or for the answer to another's */
    GList queued;
    GList aged;
    bool is_aged;
    int64_t began_us;
    int64_t deadline_us;
    int64_t sent_us;    /* or when the last part of its answer came */
    GBytes *bytes;      /* the request's, counted */
    LdapSpan request;   /* operation and controls, as the client wrote them */
    LdapSpan op;        /* the operation, with its tag */
    LdapSpan controls;  /* contents */
    char *authorize;    /* as whom (RFC 4370); null: as whom the link is bound */
    LdapFill *fill;     /* its answer is for the cache, too; null: it is not */
    char *dn;           /* a bind's, as the client wrote it */
    char *name;         /* the same, normalised */
    char *peer;         /* whose bind it is: an address */
    PhSecret *password; /* a bind's */
    uint8_t digest[LDAP_BIND_DIGEST_BYTES];
    uint64_t epoch; /* a bind's: when it was asked */
    LdapForward *next_spare;
};

/* -- pool.c ------------------------------------------------------------------------------------ */

/* This reactor's, with the current upstreams and settings. */
PH_ON_REACTOR LdapPool *ldap_pool_get(LdapProxy *proxy, PhReactor *reactor);
PH_ON_REACTOR LdapUpstream *ldap_pool_upstream(LdapPool *pool, const PhUpstream *config);
/* Waits until no callback of the pool's links can come any more. */
void ldap_pool_free_blocking(LdapPool *pool);

/* For one request. */
static inline int64_t
ldap_upstream_timeout_us(const LdapUpstream *upstream)
{
    return upstream->config->timeout_ms * 1000;
}

static inline uint64_t *
ldap_epoch_of(LdapProxy *proxy, int64_t upstream_id)
{
    return &proxy->epochs[(uint64_t)upstream_id % LDAP_EPOCHS];
}

static inline uint64_t
ldap_epoch(LdapProxy *proxy, int64_t upstream_id)
{
    return __atomic_load_n(ldap_epoch_of(proxy, upstream_id), __ATOMIC_ACQUIRE);
}

static inline void
ldap_epoch_raise(LdapProxy *proxy, int64_t upstream_id)
{
    __atomic_fetch_add(ldap_epoch_of(proxy, upstream_id), 1, __ATOMIC_ACQ_REL);
}

/* -- upstream.c: forwards ---------------------------------------------------------------------- */

PH_ON_REACTOR LdapForward *ldap_forward_new(LdapUpstream *upstream);
/* Sends it, or lets it wait for a link, or fails it before it returns. */
PH_ON_REACTOR void ldap_upstream_submit(LdapForward *forward);
/* A deadline without being sent: it waits for another's answer. */
PH_ON_REACTOR void ldap_forward_age(LdapForward *forward);
/* The timer of an upstream's deadlines is due. */
void ldap_upstream_age_due(void *upstream);
/* Nobody wants it any more: abandons it at the upstream, and frees it. */
PH_ON_REACTOR void ldap_forward_drop(LdapForward *forward);
/* After its end: it is on no link and in no queue. */
PH_ON_REACTOR void ldap_forward_free(LdapForward *forward);

/* In and out of the queue that it waits in. */
void ldap_forward_queue(LdapForward *forward, GQueue *queue);
void ldap_forward_unqueue(LdapForward *forward);

/* -- upstream.c: pins -------------------------------------------------------------------------- */

/* The session's connection to this upstream, made when it is not there; null: it has too many. */
PH_ON_REACTOR LdapPin *ldap_pin_get(LdapSession *session, LdapUpstream *upstream, bool as_client);
PH_ON_REACTOR void ldap_pinned_free(LdapPinned *pinned);

/* -- link.c: connections ----------------------------------------------------------------------- */

/* A connection to the server; its end, also when it never came about, is told by
 * ldap_server_lost. Null: no attempt could be made. */
PH_ON_REACTOR LdapLink *ldap_link_open(
    LdapServer *server, LdapLinkKind kind, LdapPin *pin, const char *address, GError **error);
/* How many more requests it takes now. */
unsigned ldap_link_room(const LdapLink *link);
PH_ON_REACTOR void ldap_link_send(LdapLink *link, LdapForward *forward);
/* The forward is on no link after it; the upstream is told that nobody waits. */
PH_ON_REACTOR void ldap_link_abandon(LdapForward *forward);
/* Asks for something small, whose answer says that the server lives. */
PH_ON_REACTOR void ldap_link_ping(LdapLink *link);
/* Broken: `why` is for the log, and a constant. What was under way is told by ldap_forward_lost. */
PH_ON_REACTOR void ldap_link_break(LdapLink *link, const char *why);
/* It ends when what is under way is answered. */
PH_ON_REACTOR void ldap_link_drain(LdapLink *link);
PH_ON_REACTOR void ldap_link_set_paused(LdapLink *link, bool paused);

/* -- server.c ---------------------------------------------------------------------------------- */

/* `url` was parsed into host, port and tls already. */
void ldap_server_init(LdapServer *server, LdapUpstream *upstream, const char *url);
PH_ON_REACTOR void ldap_server_clear(LdapServer *server);
/* A link for one more request; null: none now. */
PH_ON_REACTOR LdapLink *ldap_server_pick_link(
    LdapUpstream *upstream, LdapLinkKind kind, const LdapServer *avoid);
/* The server for a connection of its own; null: none is well. */
PH_ON_REACTOR LdapServer *ldap_server_pick(LdapUpstream *upstream, const LdapServer *avoid);
/* Will a link come for what waits? */
PH_ON_REACTOR bool ldap_server_has_hope(LdapUpstream *upstream, LdapLinkKind kind);
/* False: no attempt is under way, and none will be by itself. */
PH_ON_REACTOR bool ldap_server_open_link(LdapServer *server, LdapLinkKind kind, LdapPin *pin);
unsigned ldap_server_most_links(const LdapServer *server, LdapLinkKind kind);

/* -- server.c, upstream.c, pool.c: what link.c tells --------------------------------------------- */

PH_ON_REACTOR void ldap_server_ready(LdapLink *link);
PH_ON_REACTOR void ldap_server_answered(LdapServer *server, int64_t took_us);
/* After a farewell that was none: those that are down are tried again. */
PH_ON_REACTOR void ldap_server_come_back(LdapServer *server);
/* It answers: well again, unless it is known to be down. */
PH_ON_REACTOR void ldap_server_lives(LdapServer *server);
/* The link is gone. `failure`: the server's fault; null: it ended in order. */
PH_ON_REACTOR void ldap_server_lost(LdapLink *link, const char *failure);
/* The upstream refused what the client is bound with. */
PH_ON_REACTOR void ldap_pin_refused(LdapPin *pin);
/* Asked again elsewhere, or failed. */
PH_ON_REACTOR void ldap_forward_lost(LdapForward *forward, LdapServer *server);
/* What waits goes on. */
PH_ON_REACTOR void ldap_upstream_pump(LdapUpstream *upstream);
PH_ON_REACTOR void ldap_pin_pump(LdapPin *pin);
PH_ON_REACTOR void ldap_upstream_pump_pins(LdapUpstream *upstream);
PH_ON_REACTOR void ldap_server_watch(LdapServer *server);
LdapUpstream *ldap_upstream_ref(LdapUpstream *upstream);
PH_ON_REACTOR void ldap_upstream_unref(LdapUpstream *upstream);

/* -- proxy.c: how a request goes ---------------------------------------------------------------- */

/* LdapProxyWho the session is to this upstream. */
typedef enum LdapProxyWho { LDAP_PROXY_NOBODY, LDAP_PROXY_ACCOUNT, LDAP_PROXY_CLIENT } LdapProxyWho;

/* How a request goes. */
typedef struct LdapPlan {
    LdapUpstream *upstream;
    LdapProxyWho who;
    bool is_read;
    bool is_pinned;
    bool as_client; /* on a connection that is bound as the client */
    bool is_endless;
    bool has_controls;
    bool leaves_out; /* some of them */
    LdapSearchParts search;
} LdapPlan;

PH_ON_REACTOR LdapForward *ldap_proxy_forward_new(LdapOperation *operation, const LdapPlan *plan);
/* The operation waits for it. */
void ldap_proxy_belong(LdapForward *forward, LdapOperation *operation);
/* A PDU of the operation's answer, without its head. */
PH_ON_REACTOR void ldap_proxy_write(LdapOperation *operation, LdapSpan rest);
/* Has the client left so much unread that it gets no more of an answer? */
PH_ON_REACTOR bool ldap_proxy_is_too_slow(LdapPool *pool, LdapSession *session);
PH_ON_REACTOR void ldap_proxy_refuse_slow(LdapOperation *operation);

/* -- fill.c: answers for the cache --------------------------------------------------------------- */

struct LdapFill {
    LdapPool *pool;
    GBytes *key;
    GBytes *alias;
    GByteArray *answer;
    uint64_t epoch;
    unsigned n_parts;
    LdapForward *leader;
    GQueue followers;
};

/* True: answered, or it waits for the answer to another's. When `cacheable_out` says so its answer may be
 * kept: the pool's key is the search's then, and `scratch` the form in which it was asked. */
PH_ON_REACTOR bool ldap_cache_answer(
    LdapPool *pool, LdapOperation *operation, const LdapPlan *plan, bool *cacheable_out);
/* Fetched by this forward, for the pool's key. `alias` may have no bytes. */
PH_ON_REACTOR LdapFill *ldap_fill_new(
    LdapPool *pool, LdapUpstream *upstream, LdapForward *leader, LdapSpan alias);
/* One PDU of its answer; it may be gone after it. */
PH_ON_REACTOR void ldap_fill_add(LdapFill *fill, LdapSpan rest);
/* The answer is complete: it is kept, and given to the followers. */
PH_ON_REACTOR void ldap_fill_end(LdapFill *fill, int result);
/* Nobody can follow it any more. Its followers are the caller's to take. */
void ldap_fill_free(LdapFill *fill, GQueue *followers_out);
/* Null: there is none left. */
LdapForward *ldap_fill_take_follower(GQueue *followers);

/* -- proxy.c: what upstream.c tells ------------------------------------------------------------ */

/* One PDU of its answer. With the last one it is on no link any more; proxy.c frees it. */
PH_ON_REACTOR void ldap_forward_answered(LdapForward *forward, const LdapPdu *pdu, bool is_last);
/* No answer will come; it is on no link and in no queue. proxy.c frees it. */
PH_ON_REACTOR void ldap_forward_failed(LdapForward *forward, LdapResult result, const char *text);
/* Does it wait for a client that reads slowly? Then its deadline is put off. */
PH_ON_REACTOR bool ldap_forward_is_held_up(const LdapForward *forward);

/* -- for the actions: by name "ldap.proxy", version 1 of posthouse/service.h --------------------- */

typedef struct LdapServerInfo {
    char *upstream;
    int64_t upstream_id;
    char *url;
    LdapServerState state; /* the best of all reactors */
    bool is_degraded;
    unsigned connections;
    unsigned in_flight;
    int64_t answered;
    int64_t failed;
    int64_t mean_us;
    char *error; /* the newest; null: none */
    int64_t error_us;
    int64_t since_us;
} LdapServerInfo;

typedef struct LdapProxyInfo {
    GPtrArray *servers; /* LdapServerInfo, in the order of the snapshot */
    int64_t cached_answers;
    int64_t cached_bytes;
    int64_t cached_binds;
} LdapProxyInfo;

/* Looks at each pool on its reactor. */
PH_IN_JOB LdapProxyInfo *ldap_proxy_look_blocking(LdapProxy *proxy);
void ldap_proxy_info_free(LdapProxyInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LdapProxyInfo, ldap_proxy_info_free)
/* Forgets the answers and logins of all pools. */
PH_IN_JOB void ldap_proxy_flush_blocking(LdapProxy *proxy);
