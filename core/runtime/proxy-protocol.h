/* proxy-protocol.h - the header that a trusted proxy sends before a connection's first byte
 *
 * Shape:    a span in, what it says out. Version 1 is a line of at most 107 bytes; version 2 is
 *           binary, at most 536 bytes here (longer extension lists are refused).
 * Threads:  anywhere; pure.
 * Source:   the PROXY protocol specification, versions 1 and 2 (sections 2.1, 2.2).
 */
#pragma once

#include "posthouse/base.h"

#include <sys/socket.h>

enum { PH_PROXY_HEADER_MAX_BYTES = 536 };

typedef enum PhProxyParse {
    PH_PROXY_DONE,
    PH_PROXY_MORE,
    PH_PROXY_BAD,
} PhProxyParse;

typedef struct PhProxyHeader {
    size_t length;   /* of the header */
    bool is_proxied; /* false: the proxy's own connection (health check); keep the addresses */
    struct sockaddr_storage source;
    struct sockaddr_storage destination;
} PhProxyHeader;

PhProxyParse ph_proxy_parse(const uint8_t *bytes, size_t length, PhProxyHeader *header_out);
