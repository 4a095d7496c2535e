/* url.c - where a server of an upstream directory is
 *
 * Of RFC 4516 only the scheme, host and port: the rest of such a URL is a search.
 */
#include "plugins/ldap/url.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    DEFAULT_PORT = 389,
    DEFAULT_TLS_PORT = 636,
    HOST_MAX_BYTES = 253,
};

static bool
parse_port(const char *text, int *port_out)
{
    guint64 port;
    if (text[0] == '\0')
        return true;
    if (!g_ascii_string_to_unsigned(text, 10, 1, 65535, &port, NULL))
        return false;
    *port_out = (int)port;
    return true;
}

static bool
is_host(const char *host)
{
    size_t length = strlen(host);
    if (length == 0 || length > HOST_MAX_BYTES)
        return false;
    for (const char *at = host; *at != '\0'; at++)
        if (!g_ascii_isalnum(*at) && *at != '-' && *at != '.' && *at != '_')
            return false;
    return true;
}

bool
ldap_url_parse(const char *url, char **host_out, int *port_out, bool *tls_out, GError **error)
{
    bool tls = g_ascii_strncasecmp(url, "ldaps://", 8) == 0;
    int port = tls ? DEFAULT_TLS_PORT : DEFAULT_PORT;
    struct in6_addr ignored;
    g_autofree char *host = NULL;
    bool good = tls || g_ascii_strncasecmp(url, "ldap://", 7) == 0;
    if (good) {
        g_autofree char *rest = g_strdup(url + (tls ? 8 : 7));
        size_t length = strlen(rest);
        if (length > 0 && rest[length - 1] == '/')
            rest[length - 1] = '\0';
        char *end = rest[0] == '[' ? strchr(rest, ']') : strchr(rest, ':');
        if (rest[0] == '[') {
            good = end != NULL && (end[1] == '\0' || (end[1] == ':' && parse_port(end + 2, &port)));
            host = good ? g_strndup(rest + 1, (gsize)(end - rest - 1)) : NULL;
            good = good && inet_pton(AF_INET6, host, &ignored) == 1;
        } else {
            good = end == NULL || parse_port(end + 1, &port);
            host = g_strndup(rest, end != NULL ? (gsize)(end - rest) : length);
            good = good && is_host(host);
        }
    }
    if (!good) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "\"%s\" is not like ldap://HOST or ldaps://HOST:PORT", url);
        return false;
    }
    *host_out = g_steal_pointer(&host);
    *port_out = port;
    *tls_out = tls;
    return true;
}
