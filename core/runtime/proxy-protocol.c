/* proxy-protocol.c - both versions of the header */
#include "runtime/proxy-protocol.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const uint8_t signature[12] = { 0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49,
    0x54, 0x0a };

static bool
parse_address(int family, const char *text, const char *port, struct sockaddr_storage *out)
{
    guint64 number;
    if (!g_ascii_string_to_unsigned(port, 10, 0, 65535, &number, NULL))
        return false;
    memset(out, 0, sizeof(*out));
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)number);
        return inet_pton(AF_INET, text, &in->sin_addr) == 1;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons((uint16_t)number);
    return inet_pton(AF_INET6, text, &in6->sin6_addr) == 1;
}

/* "PROXY TCP4 192.0.2.1 192.0.2.2 56324 25\r\n" */
static PhProxyParse
parse_line(const uint8_t *bytes, size_t length, PhProxyHeader *header)
{
    enum { LINE_MAX_BYTES = 107 };
    const uint8_t *end = memchr(bytes, '\n', MIN(length, LINE_MAX_BYTES));
    if (end == NULL)
        return length < LINE_MAX_BYTES ? PH_PROXY_MORE : PH_PROXY_BAD;
    size_t line_length = (size_t)(end - bytes);
    if (line_length < 1 || bytes[line_length - 1] != '\r' ||
        memchr(bytes, '\0', line_length) != NULL)
        return PH_PROXY_BAD;
    header->length = line_length + 1;

    g_autofree char *line = g_strndup((const char *)bytes, line_length - 1);
    g_auto(GStrv) words = g_strsplit(line, " ", 7);
    guint n = g_strv_length(words);
    if (n >= 2 && strcmp(words[1], "UNKNOWN") == 0) {
        header->is_proxied = false;
        return PH_PROXY_DONE;
    }
    if (n != 6)
        return PH_PROXY_BAD;
    int family = strcmp(words[1], "TCP4") == 0   ? AF_INET
                 : strcmp(words[1], "TCP6") == 0 ? AF_INET6
                                                 : AF_UNSPEC;
    header->is_proxied = true;
    return family != AF_UNSPEC && parse_address(family, words[2], words[4], &header->source) &&
                   parse_address(family, words[3], words[5], &header->destination)
               ? PH_PROXY_DONE
               : PH_PROXY_BAD;
}

static void
take_address(int family, const uint8_t *address, const uint8_t *port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, address, 4);
        memcpy(&in->sin_port, port, 2);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, address, 16);
        memcpy(&in6->sin6_port, port, 2);
    }
}

static PhProxyParse
parse_binary(const uint8_t *bytes, size_t length, PhProxyHeader *header)
{
    enum { FIXED_BYTES = 16 };
    if (length < FIXED_BYTES)
        return PH_PROXY_MORE;
    unsigned version = bytes[12] >> 4;
    unsigned command = bytes[12] & 0x0f;
    size_t rest = (size_t)bytes[14] << 8 | bytes[15];
    if (version != 2 || command > 1 || FIXED_BYTES + rest > PH_PROXY_HEADER_MAX_BYTES)
        return PH_PROXY_BAD;
    if (length < FIXED_BYTES + rest)
        return PH_PROXY_MORE;
    header->length = FIXED_BYTES + rest;
    header->is_proxied = false;
    if (command == 0)
        return PH_PROXY_DONE;

    const uint8_t *addresses = bytes + FIXED_BYTES;
    switch (bytes[13]) {
    case 0x11: /* TCP over IPv4 */
        if (rest < 12)
            return PH_PROXY_BAD;
        take_address(AF_INET, addresses, addresses + 8, &header->source);
        take_address(AF_INET, addresses + 4, addresses + 10, &header->destination);
        break;
    case 0x21: /* TCP over IPv6 */
        if (rest < 36)
            return PH_PROXY_BAD;
        take_address(AF_INET6, addresses, addresses + 32, &header->source);
        take_address(AF_INET6, addresses + 16, addresses + 34, &header->destination);
        break;
    case 0x00: /* unspecified: keep what accept() said */
        return PH_PROXY_DONE;
    default:
        return PH_PROXY_BAD;
    }
    header->is_proxied = true;
    return PH_PROXY_DONE;
}

PhProxyParse
ph_proxy_parse(const uint8_t *bytes, size_t length, PhProxyHeader *header_out)
{
    static const char word[] = "PROXY ";
    *header_out = (PhProxyHeader){ .length = 0 };
    if (memcmp(bytes, signature, MIN(length, sizeof(signature))) == 0)
        return length < sizeof(signature) ? PH_PROXY_MORE : parse_binary(bytes, length, header_out);
    size_t n = MIN(length, sizeof(word) - 1);
    if (memcmp(bytes, word, n) != 0)
        return PH_PROXY_BAD;
    return n < sizeof(word) - 1 ? PH_PROXY_MORE : parse_line(bytes, length, header_out);
}
