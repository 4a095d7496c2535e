/* connection.h - the byte stream under every session, and the session's class
 *
 * Shape:    a session is a struct of the plugin that begins with PhSession. Bytes in:
 *           ph_connection_input(), a contiguous span that grows until the session consumes it.
 *           Bytes out: appended, and sent when the callback returns. TLS, PROXY protocol, timeouts
 *           and back-pressure are done below.
 * Units:    bytes, milliseconds.
 * Threads:  everything here on the session's reactor, except where a function says "anywhere".
 * Limits:   input stops being read while `input_limit` bytes are unconsumed; output above 256 KiB
 *           ends `input` callbacks until it is below 64 KiB (then `drained`). An idle connection
 *           holds no buffers.
 * Sources:  RFC 9293; RFC 8446; RFC 3207 section 5 and RFC 9051 6.2.1 (plain bytes behind STARTTLS
 *           are an attack); the PROXY protocol, versions 1 and 2.
 */
#pragma once

#include "posthouse/base.h"
#include "posthouse/task.h"

typedef struct PhConnection PhConnection;
typedef struct PhSession PhSession;
typedef struct PhServiceRow PhServiceRow;

enum {
    PH_OUTPUT_HIGH_BYTES = 256 * 1024,
    PH_OUTPUT_LOW_BYTES = 64 * 1024,
    PH_SESSION_ID_BYTES = 16, /* with the NUL */
};

typedef enum PhCloseReason {
    PH_CLOSE_LOCAL,    /* the session asked for it */
    PH_CLOSE_PEER,     /* the peer closed, in order */
    PH_CLOSE_ERROR,    /* reset, broken TLS */
    PH_CLOSE_TIMEOUT,  /* the peer did not read, or the session has no timed_out */
    PH_CLOSE_STOPPING, /* the deadline of a stop passed */
    PH_CLOSE_REFUSED,  /* outgoing: no connection was made */
} PhCloseReason;

typedef enum PhFarewell {
    PH_FAREWELL_STOPPING, /* the server or plugin stops: say 421, BYE ... and close soon */
    PH_FAREWELL_CUT,      /* an administrator cuts this session */
} PhFarewell;

/* All callbacks run on the reactor. Only `size`, `name`, `input` and `closed` are required. */
typedef struct PhSessionClass {
    const char *name;
    size_t
        size; /* of the plugin's struct, whose first member is PhSession; zeroed before `opened` */
    /* Once, when bytes can flow (TCP accepted and PROXY header read; with implicit TLS after the
     * handshake). */
    void (*opened)(PhSession *session);
    /* New input, or input was resumed with bytes left. Consume what is complete; what is left is
     * kept. */
    void (*input)(PhSession *session);
    /* Output fell below PH_OUTPUT_LOW_BYTES after it had been above PH_OUTPUT_HIGH_BYTES. */
    void (*drained)(PhSession *session);
    /* The timeout of ph_connection_set_timeout_ms passed. Null: the connection is closed. */
    void (*timed_out)(PhSession *session);
    /* STARTTLS is done; forget what was learned in plain text. */
    void (*secured)(PhSession *session);
    /* The peer sent its last byte; `input` was called for what came before. Null: close. */
    void (*ended)(PhSession *session);
    void (*farewell)(PhSession *session, PhFarewell why);
    /* The last call, once for each `opened` (and for an outgoing connection that was refused). Free
     * what the session's fields own; the struct itself is freed by the caller. The connection takes
     * no more output. */
    void (*closed)(PhSession *session, PhCloseReason reason);
    /* When somebody asks for a list of sessions: what this one does now, in the place of
     * ph_session_set_activity(). */
    void (*describe)(PhSession *session, char *text, size_t size);
} PhSessionClass;

struct PhSession {
    PhConnection *connection;
    const PhSessionClass *session_class;
    const PhServiceRow *service; /* null on outgoing connections */
    void *plugin_state;          /* as start() of the plugin returned it */
    PhTask task;                 /* the session's only task, for line protocols */
    char id[PH_SESSION_ID_BYTES];
};

/* -- input ------------------------------------------------------------------------------------- */

/* Unconsumed bytes; valid until the next call that consumes, or the return of the callback. */
PH_API PH_ON_REACTOR const uint8_t *ph_connection_input(
    PhConnection *connection, size_t *length_out);
PH_API PH_ON_REACTOR void ph_connection_consume(PhConnection *connection, size_t length);
/* The most that is held unconsumed (default 16 KiB). */
PH_API PH_ON_REACTOR void ph_connection_set_input_limit(PhConnection *connection, size_t bytes);
/* No `input` until resumed: while a job runs. Pausing twice is one pause. After a resume, `input`
 * is called again (soon, not inside the call) when bytes are there. */
PH_API PH_ON_REACTOR void ph_connection_pause(PhConnection *connection);
PH_API PH_ON_REACTOR void ph_connection_resume(PhConnection *connection);

/* -- output ------------------------------------------------------------------------------------ */

/* Copied. After close or abort these do nothing. */
PH_API PH_ON_REACTOR void ph_connection_write(
    PhConnection *connection, const void *bytes, size_t length);
PH_API PH_ON_REACTOR void ph_connection_puts(PhConnection *connection, const char *text);
PH_API PH_ON_REACTOR void ph_connection_printf(PhConnection *connection, const char *format, ...)
    PH_PRINTF(2, 3);
/* By reference, not copied. */
PH_API PH_ON_REACTOR void ph_connection_write_bytes(PhConnection *connection, GBytes *bytes);
/* A descriptor that several may send from, counted. */
typedef struct PhFile PhFile;
/* Takes the descriptor. Anywhere, as the three below. */
PH_API PhFile *ph_file_new(int fd);
PH_API PhFile *ph_file_ref(PhFile *file);
PH_API void ph_file_unref(PhFile *file);
PH_API int ph_file_fd(const PhFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhFile, ph_file_unref)
/* A part of a file, not read before it is sent: sendfile on a plain connection, slices with TLS; what
 * is not in memory is read in a job. A file that turns out to be shorter breaks the connection. */
PH_API PH_ON_REACTOR void ph_connection_write_file(
    PhConnection *connection, PhFile *file, int64_t offset, int64_t length);
/* Bytes not yet taken by the kernel. */
PH_API PH_ON_REACTOR size_t ph_connection_output_pending(const PhConnection *connection);
/* Above the high mark: stop producing, wait for `drained`. */
PH_API PH_ON_REACTOR bool ph_connection_output_is_full(const PhConnection *connection);

/* -- life -------------------------------------------------------------------------------------- */

/* One deadline, counted from now; 0 ends it. It is one-shot: `timed_out`, then none. */
PH_API PH_ON_REACTOR void ph_connection_set_timeout_ms(
    PhConnection *connection, int64_t timeout_ms);
/* How long the peer may take nothing of what is pending (default 120 s). */
PH_API PH_ON_REACTOR void ph_connection_set_stall_timeout_ms(
    PhConnection *connection, int64_t timeout_ms);
/* Sends what is pending, then closes (with TLS close_notify); it is broken off when the peer takes
 * nothing for 10 s. `closed` follows, later. */
PH_API PH_ON_REACTOR void ph_connection_close(PhConnection *connection);
/* The same where the peer has said that it sends nothing more: nobody waits for its end. */
PH_API PH_ON_REACTOR void ph_connection_finish(PhConnection *connection);
/* At once, without sending what is pending. */
PH_API PH_ON_REACTOR void ph_connection_abort(PhConnection *connection);
PH_API PH_ON_REACTOR bool ph_connection_is_closing(const PhConnection *connection);
PH_API PH_ON_REACTOR PhReactor *ph_connection_reactor(const PhConnection *connection);

/* -- TLS --------------------------------------------------------------------------------------- */

/* Call after writing the "go ahead" reply and consuming the command; on an outgoing connection, after
 * consuming the peer's "go ahead". False when plain bytes are already behind it: the session must refuse and close. Input is paused until
 * `secured`. */
PH_API PH_ON_REACTOR bool ph_connection_start_tls(PhConnection *connection);
PH_API PH_ON_REACTOR bool ph_connection_is_secure(const PhConnection *connection);
/* For a Received line: "TLSv1.3", "TLS_AES_256_GCM_SHA384", 256. Null and 0 on a plain
 * connection. */
PH_API PH_ON_REACTOR const char *ph_connection_tls_version(const PhConnection *connection);
PH_API PH_ON_REACTOR const char *ph_connection_tls_cipher(
    const PhConnection *connection, int *bits_out);
/* The name that the client asked for (SNI), or null. */
PH_API PH_ON_REACTOR const char *ph_connection_tls_server_name(const PhConnection *connection);
/* STARTTLS can be offered: a certificate is there. Anywhere. */
PH_API bool ph_tls_is_available(void);

/* -- who --------------------------------------------------------------------------------------- */

/* Textual address ("192.0.2.1", "2001:db8::1"; IPv4-mapped is shown as IPv4). */
PH_API PH_ON_REACTOR const char *ph_connection_peer_address(PhConnection *connection);
PH_API PH_ON_REACTOR int ph_connection_peer_port(const PhConnection *connection);
PH_API PH_ON_REACTOR const char *ph_connection_local_address(PhConnection *connection);
PH_API PH_ON_REACTOR int ph_connection_local_port(PhConnection *connection);
PH_API PH_ON_REACTOR bool ph_connection_peer_is_loopback(const PhConnection *connection);

/* -- outgoing ---------------------------------------------------------------------------------- */

typedef struct PhConnectSpec {
    const char *address; /* textual IPv4 or IPv6 address */
    int port;
    bool tls; /* handshake at once */
    const char
        *server_name;   /* for SNI and verification, with STARTTLS too; a name or an address; null:
                                no verification (opportunistic) */
    const char *ca;     /* PEM: whom to trust; null: the system's */
    int64_t timeout_ms; /* for connect and handshake */
} PhConnectSpec;

/* The session's `opened` follows when bytes can flow, or `closed` with PH_CLOSE_REFUSED. Null only
 * for a malformed address (SYNTAX). */
PH_API PH_ON_REACTOR PhSession *ph_connection_connect(PhReactor *reactor, const PhConnectSpec *spec,
    const PhSessionClass *session_class, void *plugin_state, GError **error);

/* -- sessions of this process, for lists and cuts ---------------------------------------------- */

/* A short text about what the session does now ("alice@example.test, INBOX, IDLE"); shown by the
 * console. Copied. */
PH_API PH_ON_REACTOR void ph_session_set_activity(PhSession *session, const char *activity);
/* Who has logged in: the session is cut when the account is suspended or closed. Copied. */
PH_API PH_ON_REACTOR void ph_session_set_account(
    PhSession *session, int64_t account_id, const char *login);
