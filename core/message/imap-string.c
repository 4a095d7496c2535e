/* imap-string.c - strings as IMAP sends them */
#include <posthouse/message-imap.h>

#include "ascii.h"

#define QUOTED_MAX 1000

void
ph_imap_append_string(GString *out, const char *bytes, size_t length)
{
    if (bytes == NULL) {
        g_string_append(out, "NIL");
        return;
    }
    if (length > PH_IMAP_STRING_MAX) {
        length = PH_IMAP_STRING_MAX;
        /* Not in the middle of a character, if it is UTF-8. */
        for (unsigned i = 0; i < 3 && ((unsigned char)bytes[length] & 0xc0) == 0x80; i++)
            length--;
    }
    bool literal = length > QUOTED_MAX;
    for (size_t i = 0; i < length && !literal; i++)
        literal = ascii_is_high(bytes[i]);
    if (literal)
        g_string_append_printf(out, "{%zu}\r\n", length);
    else
        g_string_append_c(out, '"');
    for (size_t i = 0; i < length; i++) {
        char c = bytes[i];
        if (c == '\0')
            c = '?';
        if (c == '\r' || c == '\n')
            c = ' ';
        if (!literal && (c == '"' || c == '\\'))
            g_string_append_c(out, '\\');
        g_string_append_c(out, c);
    }
    if (!literal)
        g_string_append_c(out, '"');
}
