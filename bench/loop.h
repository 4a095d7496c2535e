/* loop.h - connections and timers of a load generator, on epoll
 *
 * Shape:    one loop a process. A Wire is one connection to this host, plain or TLS; its owner embeds
 *           it and is called when there may be input, and once when it is over. Timers are embedded
 *           too.
 * Units:    seconds of the monotonic clock as double.
 * Threads:  one.
 * Errors:   what is a peer's doing ends the wire, with words; what is this host's ends the process.
 */
#pragma once

#include "load.h"

#include <openssl/ssl.h>

/* What a part (a Wire, a Timer) is embedded in. */
#define LOOP_OWNER(type, member, part) ((type *)(void *)((char *)(part)-offsetof(type, member)))

typedef struct Timer Timer;
struct Timer {
    double at_s;
    size_t place; /* in the heap, from 1; 0: not set */
    void (*fire)(Timer *timer);
};

typedef struct Wire Wire;
struct Wire {
    int fd; /* -1: closed */
    SSL *ssl;
    GString *out;
    size_t sent;
    bool connected;                             /* TCP, and TLS where there is some */
    void (*input)(Wire *wire);                  /* it connected, or there may be input */
    void (*ended)(Wire *wire, const char *why); /* closed before; may free the owner */
};

void loop_init(void);
/* Runs until the time comes or loop_stop() was called. */
void loop_run(double until_s);
void loop_stop(void);

/* Sets or moves it. A timer that fired is no longer set. */
void timer_set(Timer *timer, double at_s);
void timer_clear(Timer *timer);

/* How many bytes the kernel keeps for each wire that is opened from now on; 0: its own choice. */
void wire_receive_buffer(int bytes);
/* From 127.0.0.0 + `from` (0: whatever). `tls` may be null, and so may the session to resume. The
 * calls must be set. */
void wire_open(Wire *wire, int port, uint32_t from, SSL_CTX *tls, SSL_SESSION *session);
/* Sends now what fits, the rest later. */
void wire_send(Wire *wire, const char *bytes, size_t length);
/* > 0: so many bytes; 0: nothing now; < 0: the wire is over (and `ended` was not called). */
ssize_t wire_receive(Wire *wire, char *bytes, size_t size);
/* Without calling anybody. */
void wire_close(Wire *wire);
/* Closes it and tells its owner. */
void wire_end(Wire *wire, const char *why);

/* A context of a client that trusts everybody: what is measured is the server. Versions and ciphers
 * as OpenSSL names them; null is its own choice. */
SSL_CTX *wire_tls_new(const char *ciphers);
