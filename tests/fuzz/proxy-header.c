/* proxy-header.c - fuzz target: the PROXY protocol's header. A header that is whole is found at its
 * last byte, not before */
#include "runtime/proxy-protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PhProxyHeader header;
    PhProxyParse parsed = ph_proxy_parse(data, size, &header);
    if (parsed == PH_PROXY_MORE)
        g_assert_cmpuint(size, <, PH_PROXY_HEADER_MAX_BYTES);
    if (parsed != PH_PROXY_DONE)
        return 0;
    g_assert_true(
        header.length > 0 && header.length <= size && header.length <= PH_PROXY_HEADER_MAX_BYTES);
    if (header.is_proxied)
        g_assert_true(header.source.ss_family == header.destination.ss_family &&
                      header.source.ss_family != AF_UNSPEC);
    PhProxyHeader again;
    g_assert_cmpint(ph_proxy_parse(data, header.length, &again), ==, PH_PROXY_DONE);
    g_assert_cmpint(ph_proxy_parse(data, header.length - 1, &again), ==, PH_PROXY_MORE);
    return 0;
}
