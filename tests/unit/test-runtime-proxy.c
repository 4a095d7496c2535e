/* test-runtime-proxy.c - the PROXY protocol's header, both versions */
#include "runtime/proxy-protocol.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define LONG_15 "AAAAAAAAAAAAAAA"
#define LONG_90 LONG_15 LONG_15 LONG_15 LONG_15 LONG_15 LONG_15
#define V2 "\r\n\r\n\0\r\nQUIT\n"

/* "192.0.2.1 5" */
static char *
endpoint(const struct sockaddr_storage *address)
{
    char text[INET6_ADDRSTRLEN];
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        return g_strdup_printf("%s %d", text, ntohs(in->sin_port));
    }
    g_assert_cmpint(address->ss_family, ==, AF_INET6);
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
    return g_strdup_printf("%s %d", text, ntohs(in6->sin6_port));
}

typedef struct Row {
    const char *bytes;
    size_t size;        /* with the NUL of the literal */
    const char *source; /* null: not proxied */
    const char *destination;
    size_t behind; /* bytes of the session that follow */
} Row;

#define ROW(bytes, source, destination, behind) \
    { \
        bytes, sizeof(bytes), source, destination, behind \
    }

static const Row good_rows[] = {
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 56324 25\r\n", "192.0.2.1 56324", "198.51.100.2 25", 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 0 65535\r\nEHLO", "192.0.2.1 0", "198.51.100.2 65535",
        4),
    ROW("PROXY TCP6 2001:db8::1 2001:db8::2 5 25\r\n", "2001:db8::1 5", "2001:db8::2 25", 0),
    ROW("PROXY UNKNOWN\r\n", NULL, NULL, 0),
    ROW("PROXY UNKNOWN ffff::1 whatever 1 2 and more\r\nx", NULL, NULL, 1),
    ROW(V2 "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", "192.0.2.1 5",
        "198.51.100.2 25", 0),
    ROW(V2 "\x21\x11\x00\x0f\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19\x04\x00\x00"
           "a001",
        "192.0.2.1 5", "198.51.100.2 25", 4),
    ROW(V2
        "\x21\x21\x00\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\0\x05\0\x19",
        "2001:db8::1 5", "2001:db8::2 25", 0),
    ROW(V2 "\x20\x00\x00\x00", NULL, NULL, 0),
    ROW(V2 "\x20\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL,
        0), /* LOCAL: addresses are ignored */
    ROW(V2 "\x21\x00\x00\x03xyz!", NULL, NULL, 1),
};

static const Row bad_rows[] = {
    ROW("HELO", NULL, NULL, 0), ROW("proxy TCP4", NULL, NULL, 0),
    ROW("PROXY\tTCP4 192.0.2.1 198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 5 25\n", NULL, NULL, 0), ROW("PROXY \n", NULL, NULL, 0),
    ROW("PROXY \r\n", NULL, NULL, 0),
    ROW("PROXY TCP5 192.0.2.1 198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 5\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 5 25 6\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 5 65536\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 -5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1 198.51.100.2 +5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.256 198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1  198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 2001:db8::1 2001:db8::2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP6 192.0.2.1 198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY TCP4 192.0.2.1\0 198.51.100.2 5 25\r\n", NULL, NULL, 0),
    ROW("PROXY UNKNOWN " LONG_90 "AAA\r\n", NULL, NULL, 0), /* 108 bytes */
    ROW(V2 "\x11\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL,
        0), /* version 1 in binary */
    ROW(V2 "\x22\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL,
        0), /* an unknown command */
    ROW(V2 "\x21\x11\x00\x0b\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL,
        0), /* too short for its family */
    ROW(V2 "\x21\x21\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL, 0),
    ROW(V2 "\x21\x12\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x00\x05\x00\x19", NULL, NULL,
        0),                                    /* UDP */
    ROW(V2 "\x21\x31\x00\x00", NULL, NULL, 0), /* a Unix socket */
    ROW(V2 "\x21\x11\xff\xff", NULL, NULL, 0), /* longer than we take */
    ROW(V2 "\x21\x11\x02\x09", NULL, NULL, 0), /* 537 bytes */
};

/* A copy of exactly this size, so that a sanitizer sees a read behind it. */
static PhProxyParse
parse(const char *bytes, size_t length, PhProxyHeader *header)
{
    g_autofree uint8_t *copy = g_malloc(length + (length == 0));
    memcpy(copy, bytes, length);
    return ph_proxy_parse(copy, length, header);
}

static void
test_good(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(good_rows); i++) {
        const Row *row = &good_rows[i];
        PhProxyHeader header;
        size_t length = row->size - 1;
        g_test_message("row %zu", i);
        g_assert_cmpint(parse(row->bytes, length, &header), ==, PH_PROXY_DONE);
        g_assert_cmpuint(header.length, ==, length - row->behind);
        g_assert_cmpint(header.is_proxied, ==, row->source != NULL);
        if (row->source == NULL)
            continue;
        g_autofree char *source = endpoint(&header.source);
        g_autofree char *destination = endpoint(&header.destination);
        g_assert_cmpstr(source, ==, row->source);
        g_assert_cmpstr(destination, ==, row->destination);
    }
}

static void
test_bad(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(bad_rows); i++) {
        PhProxyHeader header;
        g_test_message("row %zu", i);
        g_assert_cmpint(parse(bad_rows[i].bytes, bad_rows[i].size - 1, &header), ==, PH_PROXY_BAD);
    }
}

/* Every beginning of a good header asks for more; no beginning of a bad one is taken for good. */
static void
test_bytes(void)
{
    PhProxyHeader header;
    for (size_t i = 0; i < G_N_ELEMENTS(good_rows); i++) {
        size_t header_length = good_rows[i].size - 1 - good_rows[i].behind;
        for (size_t length = 0; length < header_length; length++) {
            g_test_message("row %zu, %zu bytes", i, length);
            g_assert_cmpint(parse(good_rows[i].bytes, length, &header), ==, PH_PROXY_MORE);
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad_rows); i++) {
        bool bad = false;
        for (size_t length = 0; length < bad_rows[i].size; length++) {
            PhProxyParse parsed = parse(bad_rows[i].bytes, length, &header);
            g_test_message("row %zu, %zu bytes", i, length);
            g_assert_cmpint(parsed, !=, PH_PROXY_DONE);
            g_assert_false(bad && parsed == PH_PROXY_MORE); /* once bad is bad */
            bad = parsed == PH_PROXY_BAD;
        }
    }
}

/* The longest line there can be, and one without end. */
static void
test_long(void)
{
    PhProxyHeader header;
    g_autofree char *longest = g_strdup_printf("PROXY UNKNOWN " LONG_90 "A\r\n");
    g_assert_cmpuint(strlen(longest), ==, 107);
    g_assert_cmpint(parse(longest, 107, &header), ==, PH_PROXY_DONE);
    g_autofree char *endless = g_strnfill(PH_PROXY_HEADER_MAX_BYTES, 'A');
    memcpy(endless, "PROXY ", 6);
    g_assert_cmpint(parse(endless, 106, &header), ==, PH_PROXY_MORE);
    g_assert_cmpint(parse(endless, 107, &header), ==, PH_PROXY_BAD);
    g_assert_cmpint(parse(endless, PH_PROXY_HEADER_MAX_BYTES, &header), ==, PH_PROXY_BAD);
    /* The longest binary one. */
    g_autofree char *binary = g_malloc0(PH_PROXY_HEADER_MAX_BYTES);
    memcpy(binary, V2 "\x21\x11\x02\x08", 16);
    g_assert_cmpint(parse(binary, PH_PROXY_HEADER_MAX_BYTES - 1, &header), ==, PH_PROXY_MORE);
    g_assert_cmpint(parse(binary, PH_PROXY_HEADER_MAX_BYTES, &header), ==, PH_PROXY_DONE);
    g_assert_cmpuint(header.length, ==, PH_PROXY_HEADER_MAX_BYTES);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/proxy/parse/good", test_good);
    g_test_add_func("/proxy/parse/bad", test_bad);
    g_test_add_func("/proxy/parse/bytes", test_bytes);
    g_test_add_func("/proxy/parse/long", test_long);
    return g_test_run();
}
