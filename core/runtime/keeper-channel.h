/* keeper-channel.h - what the daemon asks of the keeper
 *
 * Shape:    a SOCK_SEQPACKET pair; one packet is one message of text, with descriptors beside it
 *           (SCM_RIGHTS). The daemon asks and waits for the answer; a closed channel means that the
 *           other side is gone.
 *
 *             listen NAME PORT COUNT ADDRESSES  ->  ok PORT (+ descriptors: COUNT an address)
 *             release NAME                      ->  ok
 *             ready                             ->  ok
 *             state                             ->  ok TEXT
 *
 *           An answer may also be "error CODE TEXT".
 * Threads:  the daemon's calls are serialised inside; they block for as long as a bind takes.
 * Errors:   what the keeper says; UNAVAILABLE when it is gone.
 */
#pragma once

#include "posthouse/base.h"

enum { PH_CHANNEL_MAX_FDS = 200, PH_CHANNEL_MAX_BYTES = 4096, PH_CHANNEL_FD = 3 };

/* Takes the daemon's end. */
void ph_channel_open(int fd);
int ph_channel_fd(void);
/* The descriptors are the caller's. */
bool ph_channel_listen(const char *name, int port, unsigned count, const char *addresses,
    int *port_out, GArray *fds_out, GError **error);
bool ph_channel_release(const char *name, GError **error);
bool ph_channel_ready(GError **error);
char *ph_channel_state(GError **error);

/* Both ends: one packet. False: gone, or a broken packet. `fds` may be null or a GArray of int. */
bool ph_channel_send(int fd, const char *text, const GArray *fds);
bool ph_channel_receive(int fd, char *text, size_t size, GArray *fds);

/* Binds and listens: `count` sockets for each address, all on one port (0: the kernel's choice).
 * Appended to `fds_out`. */
bool ph_bind_sockets(const char *addresses, int port, unsigned count, int *port_out,
    GArray *fds_out, GError **error);
