/* login.h - who is this? Three answers
 *
 * Shape:    credentials in, an identity out: yes, no, or "could not ask". An outage is
 *           never cached. SASL is a small state machine fed with decoded responses.
 * Threads:  *_blocking in a job (password hashing takes tens of ms and has a semaphore of its own);
 *           the rest anywhere.
 * Errors:   none: the answer says it. The reason is for the log, never for the client.
 * Sources:  RFC 4422; RFC 4616 (PLAIN); draft-murchison-sasl-login (LOGIN).
 */
#pragma once

#include "posthouse/connection.h"

typedef enum PhLoginAnswer {
    PH_LOGIN_YES,
    PH_LOGIN_NO,          /* wrong, unknown, suspended or throttled: the client is told one thing */
    PH_LOGIN_UNAVAILABLE, /* could not ask: try again later */
} PhLoginAnswer;

typedef struct PhIdentity {
    int64_t account_id; /* 0 for an operator */
    int64_t domain_id;
    int64_t tenant_id;
    int64_t version; /* of the account or operator: another one after each change of its password */
    char *login;     /* the primary address, or the operator's name */
    bool is_operator; /* with a tenant_id other than 0: an administrator of that tenant */
} PhIdentity;

PH_API void ph_identity_free(PhIdentity *identity);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhIdentity, ph_identity_free)

typedef struct PhLoginRequest {
    const char *login;
    const PhSecret *password;
    const char *peer_address; /* textual, for the throttle (IPv6 counts by /64) */
    const char *service;      /* "imap", "smtp": for the log */
    int64_t deadline_us;
} PhLoginRequest;

/* `identity_out` is set with YES only; `reason_out` (may be null) gets a short constant text for
 * the log. Operators are answered NO unless `service` is "console" or "control". */
PH_API PH_IN_JOB PhLoginAnswer ph_login_blocking(
    const PhLoginRequest *request, PhIdentity **identity_out, const char **reason_out);

/* The same for a session: runs the job on the task's pool lane and gives the answer on its reactor.
 * `identity` is the callee's, and null unless the answer is YES; `delay_ms` is how long a NO should
 * wait. All arguments are copied. */
typedef void (*PhLoginDone)(
    PhTask *task, PhLoginAnswer answer, PhIdentity *identity, int64_t delay_ms);
PH_API PH_ON_REACTOR void ph_login_run(PhTask *task, const char *login, const PhSecret *password,
    const char *peer_address, const char *service, PhLoginDone done);

/* Gives an account a new password, which holds on every node at once, and notes it in the audit log as
 * its own doing from `origin` (an address). SYNTAX when it is too short: `PH_PASSWORD_MIN_BYTES`. Asks
 * for no old one: check that by ph_login_blocking with the service "password", which takes no app
 * password. */
enum { PH_PASSWORD_MIN_BYTES = 8 };
PH_API PH_IN_JOB bool ph_password_change_blocking(const PhIdentity *whose, const char *origin,
    const PhSecret *password, int64_t deadline_us, GError **error);

/* For passwords that somebody else checks (a directory behind ours), which are counted with the others.
 * May one be tried? Not after too many failures: it is refused without a look, which the log tells. */
PH_API bool ph_login_may_try(const char *peer_address, const char *login, const char *service);
/* What came of it, for the count and the log. */
PH_API void ph_login_note(const char *peer_address, const char *login, const char *service,
    PhLoginAnswer answer, const char *reason);
/* How long the client should be kept waiting before the next answer, because of failures before
 * (ms, 0 to 15000). */
PH_API int64_t ph_login_delay_ms(const char *peer_address, const char *login);

/* May a password be sent on this connection? With TLS, or from this host where
 * identity.plaintext.allow_loopback says so. */
PH_API PH_ON_REACTOR bool ph_login_may_send_password(const PhConnection *connection);

/* -- SASL -------------------------------------------------------------------------------------- */

/* Mechanisms that a server offers, divided by spaces ("PLAIN LOGIN"). Both need TLS (or the
 * loopback exception). */
PH_API const char *ph_sasl_mechanisms(void);

typedef enum PhSaslStep {
    PH_SASL_CHALLENGE, /* send `challenge_out`, feed the answer */
    PH_SASL_READY,     /* ask ph_sasl_login and ph_sasl_password, then ph_login_blocking */
    PH_SASL_BAD,       /* malformed */
} PhSaslStep;

typedef struct PhSasl PhSasl;

/* Null for a mechanism that is not offered. The name is compared without case. */
PH_API PhSasl *ph_sasl_new(const char *mechanism);
PH_API void ph_sasl_free(PhSasl *sasl);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSasl, ph_sasl_free)

/* `response` is decoded; null at the start without an initial response. `challenge_out` (not yet
 * base64) is valid until the next call. */
PH_API PhSaslStep ph_sasl_step(
    PhSasl *sasl, const void *response, size_t length, const char **challenge_out);
/* The same for base64 text as it stands in a line ("=" is an empty response, RFC 4959). BAD for
 * broken base64. */
PH_API PhSaslStep ph_sasl_step_base64(
    PhSasl *sasl, const char *text, size_t length, char **challenge_base64_out);
PH_API const char *ph_sasl_login(const PhSasl *sasl);
PH_API const PhSecret *ph_sasl_password(const PhSasl *sasl);
