/* utf7.c - mailbox names on the wire: modified UTF-7 (RFC 3501 5.1.3)
 *
 * Printable ASCII stands for itself, "&" is "&-", everything else is UTF-16 in base64 with "," for
 * "/" and no padding, between "&" and "-". Clients that send UTF-8 as it is are understood.
 */
#include "imap.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";

/* One "&...-" run: base64 into UTF-16, UTF-16 into UTF-8. False: malformed. */
static bool
decode_run(const char *text, size_t length, GString *out)
{
    g_autoptr(GArray) units = g_array_new(FALSE, FALSE, sizeof(gunichar2));
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = strchr(digits, text[i]);
        if (digit == NULL || text[i] == '\0')
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        n_bits += 6;
        if (n_bits >= 16) {
            n_bits -= 16;
            gunichar2 unit = (gunichar2)(bits >> n_bits & 0xffff);
            if (unit == 0)
                return false;
            g_array_append_val(units, unit);
        }
    }
    /* What is left over is padding: fewer than six bits, all zero. */
    if (n_bits >= 6 || (bits & ((1U << n_bits) - 1)) != 0)
        return false;
    glong used;
    g_autofree char *utf8 =
        g_utf16_to_utf8((const gunichar2 *)(void *)units->data, units->len, &used, NULL, NULL);
    if (utf8 == NULL || used != (glong)units->len)
        return false;
    g_string_append(out, utf8);
    return true;
}

char *
imap_utf7_decode(const char *text, size_t length)
{
    g_autoptr(GString) out = g_string_sized_new(length);
    const char *end = text + length;
    for (const char *at = text; at < end;) {
        if (*at != '&') {
            g_string_append_c(out, *at++);
            continue;
        }
        const char *stop = memchr(at, '-', (size_t)(end - at));
        if (stop == NULL)
            return NULL;
        if (stop == at + 1)
            g_string_append_c(out, '&');
        else if (!decode_run(at + 1, (size_t)(stop - at) - 1, out))
            return NULL;
        at = stop + 1;
    }
    if (!g_utf8_validate(out->str, (gssize)out->len, NULL))
        return NULL;
    return g_string_free(g_steal_pointer(&out), FALSE);
}

static void
encode_run(GString *out, const char *utf8, glong length)
{
    glong n_units = 0;
    g_autofree gunichar2 *units = g_utf8_to_utf16(utf8, length, NULL, &n_units, NULL);
    if (units == NULL)
        return;
    uint32_t bits = 0;
    unsigned n_bits = 0;
    g_string_append_c(out, '&');
    for (glong i = 0; i < n_units; i++) {
        bits = bits << 16 | units[i];
        n_bits += 16;
        while (n_bits >= 6) {
            n_bits -= 6;
            g_string_append_c(out, digits[bits >> n_bits & 63]);
        }
        bits &= (1U << n_bits) - 1;
    }
    if (n_bits > 0)
        g_string_append_c(out, digits[bits << (6 - n_bits) & 63]);
    g_string_append_c(out, '-');
}

void
imap_utf7_encode(GString *out, const char *utf8)
{
    while (*utf8 != '\0') {
        if (*utf8 >= ' ' && *utf8 < 0x7f) {
            g_string_append_c(out, *utf8);
            if (*utf8 == '&')
                g_string_append_c(out, '-');
            utf8++;
            continue;
        }
        const char *start = utf8;
        while (*utf8 != '\0' && (*utf8 < ' ' || *utf8 >= 0x7f))
            utf8++;
        encode_run(out, start, utf8 - start);
    }
}
