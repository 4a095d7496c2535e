/* build.c - header fields of our own
 *
 * What is hard here: values come from clients (the name in HELO, addresses), and must not be able
 * to end a line or a comment.
 */
#include <posthouse/message-build.h>

#include "ascii.h"

#define LINE_WIDTH 78
#define WORD_BYTES 45 /* of text in one encoded word: 60 characters of base64 */

void
ph_header_append(GString *out, const char *name, const char *value)
{
    g_autofree char *line = g_strdup(value);
    g_strdelimit(line, "\r\n", ' ');
    g_strstrip(line);
    g_string_append_printf(out, "%s:", name);
    size_t column = strlen(name) + 1;
    const char *at = line;
    bool first = true;
    while (*at != '\0') {
        size_t spaces = strspn(at, " \t");
        size_t length = spaces + strcspn(at + spaces, " \t");
        if (first)
            g_string_append_c(out, ' ');
        column += first ? 1 : 0;
        if (!first && column + length > LINE_WIDTH) {
            g_string_append(out, "\r\n");
            column = 0;
        }
        g_string_append_len(out, at, (gssize)length);
        column += length;
        at += length;
        first = false;
    }
    g_string_append(out, "\r\n");
}

static bool
needs_encoding(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (ascii_is_high(*p) || (p[0] == '=' && p[1] == '?'))
            return true;
    }
    return false;
}

void
ph_header_append_text(GString *out, const char *name, const char *text)
{
    if (!needs_encoding(text)) {
        ph_header_append(out, name, text);
        return;
    }
    g_autofree char *clean = g_utf8_make_valid(text, -1);
    g_strdelimit(clean, "\r\n", ' ');
    g_strstrip(clean);
    g_autoptr(GString) words = g_string_new(NULL);
    const char *at = clean;
    while (*at != '\0') {
        size_t length = strnlen(at, WORD_BYTES);
        while (((unsigned char)at[length] & 0xc0) == 0x80) /* not within a character */
            length--;
        g_autofree char *coded = g_base64_encode((const guchar *)at, length);
        g_string_append_printf(words, "%s=?utf-8?B?%s?=", words->len > 0 ? " " : "", coded);
        at += length;
    }
    ph_header_append(out, name, words->str);
}

void
ph_return_path_append(GString *out, const PhPath *path)
{
    g_autofree char *address = path != NULL ? ph_path_format(path) : g_strdup("");
    g_string_append_printf(out, "Return-Path: <%s>\r\n", address);
}

/* -- Received ---------------------------------------------------------------------------------- */

const char *
ph_received_protocol(const PhReceived *received)
{
    /* By UTF-8, LMTP, TLS and authentication. */
    static const char *const names[2][2][2][2] = {
        { { { "ESMTP", "ESMTPA" }, { "ESMTPS", "ESMTPSA" } },
            { { "LMTP", "LMTPA" }, { "LMTPS", "LMTPSA" } } },
        { { { "UTF8SMTP", "UTF8SMTPA" }, { "UTF8SMTPS", "UTF8SMTPSA" } },
            { { "UTF8LMTP", "UTF8LMTPA" }, { "UTF8LMTPS", "UTF8LMTPSA" } } },
    };
    if (!received->is_extended && !received->is_lmtp)
        return "SMTP";
    return names[received->is_utf8][received->is_lmtp][received->is_tls]
                [received->is_authenticated];
}

/* A name as it may stand outside of a comment; "unknown" for one that may not. */
static const char *
safe_domain(const char *name)
{
    if (name == NULL || name[0] == '\0' || strlen(name) > 255)
        return "unknown";
    for (const char *p = name; *p != '\0'; p++) {
        if (!g_ascii_isalnum(*p) && !ascii_is_high(*p) && strchr(".-_:[]", *p) == NULL)
            return "unknown";
    }
    return name;
}

static void
append_comment_text(GString *out, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '(' || *p == ')' || *p == '\\')
            g_string_append_c(out, '\\');
        g_string_append_c(out, (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : *p);
    }
}

static void
append_literal(GString *out, const char *address)
{
    bool is_v6 = strchr(address, ':') != NULL;
    g_string_append_printf(out, "[%s%s]", is_v6 ? "IPv6:" : "", address);
}

void
ph_received_append(GString *out, const PhReceived *received)
{
    g_autoptr(GString) value = g_string_new("from ");
    g_string_append(value, safe_domain(received->helo));
    if (received->peer_name != NULL || received->peer_address != NULL) {
        g_string_append(value, " (");
        if (received->peer_name != NULL)
            g_string_append(value, safe_domain(received->peer_name));
        if (received->peer_name != NULL && received->peer_address != NULL)
            g_string_append_c(value, ' ');
        if (received->peer_address != NULL)
            append_literal(value, received->peer_address);
        g_string_append_c(value, ')');
    }
    g_string_append_printf(value, " by %s", safe_domain(received->by));
    if (received->software != NULL) {
        g_string_append(value, " (");
        append_comment_text(value, received->software);
        g_string_append_c(value, ')');
    }
    g_string_append_printf(value, " with %s", ph_received_protocol(received));
    if (received->tls != NULL) {
        g_string_append(value, " (");
        append_comment_text(value, received->tls);
        g_string_append_c(value, ')');
    }
    if (received->id != NULL)
        g_string_append_printf(value, " id %s", safe_domain(received->id));
    if (received->recipient != NULL)
        g_string_append_printf(value, " for <%s>", received->recipient);
    g_string_append(value, "; ");
    ph_date_append(value, received->time_us, received->zone_minutes);
    ph_header_append(out, "Received", value->str);
}
