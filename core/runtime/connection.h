/* connection.h - how connections come to be, and lists of them: for listeners and management
 *
 * Threads:  _accept on the reactor; the rest as they say.
 */
#pragma once

#include "posthouse/connection.h"
#include "posthouse/plugin.h"
#include "runtime/owner.h"
#include "runtime/reactor.h"

#include <sys/socket.h>

/* Takes the descriptor. With `proxied`, the first bytes must be a PROXY header. */
void ph_connection_accept(PhReactor *reactor, int fd, const struct sockaddr_storage *peer,
    const PhServiceRow *service, PhOwner *owner, bool proxied);

/* What a list shows of a session. */
typedef struct PhSessionInfo {
    char id[PH_SESSION_ID_BYTES];
    char *service;
    char *peer;
    char *login;    /* may be null */
    char *activity; /* may be null */
    bool secure;
    int64_t since_us;
    int64_t bytes_in;
    int64_t bytes_out;
} PhSessionInfo;

void ph_session_info_free(PhSessionInfo *info);

/* Appends a PhSessionInfo for each session. */
PH_ON_REACTOR void ph_connection_list(PhReactor *reactor, GPtrArray *infos);
/* The login of a session of this account; null: it has none here. Free it. */
PH_ON_REACTOR char *ph_connection_find_login(PhReactor *reactor, int64_t account_id);
/* Cuts the sessions of an account. The count. */
PH_ON_REACTOR unsigned ph_connection_cut_account(PhReactor *reactor, int64_t account_id);
/* Says farewell to the sessions of an owner (null: all), or to the one with this id (null: all).
 * The count. */
PH_ON_REACTOR unsigned ph_connection_farewell(
    PhReactor *reactor, const PhOwner *owner, const char *id, PhFarewell why);
/* Aborts what is left. */
PH_ON_REACTOR void ph_connection_abort_all(PhReactor *reactor, const PhOwner *owner);
/* Connections of this process, lingering ones included. */
int ph_connection_count(void);
/* Without those of services that are apart (the console's), and without outgoing ones. */
int ph_connection_client_count(void);
