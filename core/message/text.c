/* text.c - transfer encodings, character sets and HTML
 *
 * What is hard here: none of it may fail or grow without bound on hostile bytes. Names of character
 * sets come from the sender, so they are checked before iconv sees them ("/" would choose
 * transliteration, and a path), and one text opens one converter.
 */
#include <posthouse/message-text.h>

#include "ascii.h"
#include "text.h"

#include <errno.h>

#define REPLACEMENT "\xef\xbf\xbd"
#define CHARSET_NAME_MAX 40

PhTransferEncoding
ph_transfer_encoding_parse(const char *name, size_t length)
{
    static const struct {
        const char *name;
        PhTransferEncoding encoding;
    } names[] = {
        { "7bit", PH_ENCODING_7BIT },
        { "8bit", PH_ENCODING_8BIT },
        { "binary", PH_ENCODING_BINARY },
        { "quoted-printable", PH_ENCODING_QUOTED_PRINTABLE },
        { "base64", PH_ENCODING_BASE64 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (ascii_equal(name, length, names[i].name))
            return names[i].encoding;
    }
    return PH_ENCODING_OTHER;
}

static int
base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

void
ph_base64_decode(const char *text, size_t length, GString *out)
{
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < length; i++) {
        int value = base64_value(text[i]);
        if (value < 0) {
            /* Padding ends a run; some senders join several runs. */
            if (text[i] == '=') {
                bits = 0;
                count = 0;
            }
            continue;
        }
        bits = (bits << 6) | (uint32_t)value;
        count++;
        if (count == 1)
            continue;
        unsigned shift = (4 - count) * 2;
        g_string_append_c(out, (char)((bits >> shift) & 0xff));
        if (count == 4) {
            bits = 0;
            count = 0;
        }
    }
}

/* Spaces at the end of a line were added on the way (RFC 2045 6.7 rule 3). */
static void
quoted_printable_trim(GString *out, size_t line_start)
{
    size_t end = out->len;
    while (end > line_start && ascii_is_space(out->str[end - 1]))
        end--;
    g_string_truncate(out, end);
}

static void
quoted_printable_decode(const char *text, size_t length, GString *out)
{
    size_t i = 0;
    /* Decoded bytes before this are not trimmed: "=20" at a line's end stays. */
    size_t kept = out->len;
    while (i < length) {
        char c = text[i];
        if (c == '\n' || (c == '\r' && i + 1 < length && text[i + 1] == '\n')) {
            quoted_printable_trim(out, kept);
            g_string_append(out, c == '\n' ? "\n" : "\r\n");
            i += c == '\n' ? 1 : 2;
            kept = out->len;
            continue;
        }
        if (c != '=') {
            g_string_append_c(out, c);
            i++;
            continue;
        }
        if (i + 2 < length && g_ascii_isxdigit(text[i + 1]) && g_ascii_isxdigit(text[i + 2])) {
            int value = g_ascii_xdigit_value(text[i + 1]) * 16 + g_ascii_xdigit_value(text[i + 2]);
            g_string_append_c(out, (char)value);
            kept = out->len;
            i += 3;
            continue;
        }
        size_t after = i + 1;
        while (after < length && after - i < 80 &&
               (ascii_is_space(text[after]) || text[after] == '\r'))
            after++;
        if (after >= length || text[after] == '\n') {
            kept = out->len; /* soft line break: what is before it was meant */
            i = after < length ? after + 1 : length;
            continue;
        }
        g_string_append_c(out, '=');
        i++;
    }
}

void
ph_transfer_decode(PhTransferEncoding encoding, const void *bytes, size_t length, GString *out)
{
    switch (encoding) {
    case PH_ENCODING_BASE64:
        ph_base64_decode(bytes, length, out);
        return;
    case PH_ENCODING_QUOTED_PRINTABLE:
        quoted_printable_decode(bytes, length, out);
        return;
    case PH_ENCODING_7BIT:
    case PH_ENCODING_8BIT:
    case PH_ENCODING_BINARY:
    case PH_ENCODING_OTHER:
        g_string_append_len(out, bytes, (gssize)length);
        return;
    }
}

/* -- UTF-8 ------------------------------------------------------------------------------------- */

void
ph_utf8_clean_append(GString *out, const char *text, size_t length)
{
    const char *at = text;
    const char *end = text + length;
    while (at < end) {
        const char *bad = NULL;
        /* Stops at NUL, too. */
        g_utf8_validate(at, (gssize)(end - at), &bad);
        g_string_append_len(out, at, (gssize)(bad - at));
        if (bad == end)
            break;
        g_string_append(out, REPLACEMENT);
        at = bad + 1;
    }
}

char *
ph_utf8_clean(const void *bytes, size_t length, size_t *length_out)
{
    GString *out = g_string_sized_new(length + 1);
    ph_utf8_clean_append(out, bytes, length);
    if (length_out != NULL)
        *length_out = out->len;
    return g_string_free(out, FALSE);
}

static bool
charset_name_is_sane(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > CHARSET_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isalnum(name[i]) && strchr("-_.:+", name[i]) == NULL)
            return false;
    }
    return true;
}

static bool
charset_is_plain(const char *charset)
{
    return charset == NULL || g_ascii_strcasecmp(charset, "utf-8") == 0 ||
           g_ascii_strcasecmp(charset, "us-ascii") == 0 ||
           g_ascii_strcasecmp(charset, "utf8") == 0 || g_ascii_strcasecmp(charset, "ascii") == 0;
}

/* What is meant by names that senders use more loosely than their registration: the sets that
 * browsers take for them, which hold all of the named one. */
static const char *
charset_meant(const char *name)
{
    static const struct {
        const char *name;
        const char *meant;
    } names[] = {
        { "iso-8859-1", "windows-1252" },
        { "latin1", "windows-1252" },
        { "gb2312", "gb18030" },
        { "gbk", "gb18030" },
        { "euc-kr", "cp949" },
        { "ks_c_5601-1987", "cp949" },
        { "shift_jis", "cp932" },
        { "x-sjis", "cp932" },
        { "unicode-1-1-utf-7", "utf-7" },
        { "iso-8859-8-i", "iso-8859-8" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (g_ascii_strcasecmp(name, names[i].name) == 0)
            return names[i].meant;
    }
    return name;
}

/* Runs the converter over all bytes; what it refuses becomes U+FFFD, a byte at a time. */
static void
convert_append(GIConv converter, const char *bytes, size_t length, GString *out)
{
    char buffer[1024];
    char *in = (char *)(uintptr_t)bytes;
    gsize in_left = length;
    bool flushing = false;
    while (true) {
        char *to = buffer;
        gsize to_left = sizeof(buffer);
        gsize in_before = in_left;
        gsize done = g_iconv(converter, flushing ? NULL : &in, &in_left, &to, &to_left);
        bool failed = done == (gsize)-1;
        int why = failed ? errno : 0;
        g_string_append_len(out, buffer, (gssize)(sizeof(buffer) - to_left));
        if (!failed) {
            if (flushing)
                return;
            flushing = true;
            continue;
        }
        if (why == E2BIG && (to_left != sizeof(buffer) || in_left != in_before))
            continue;
        if (flushing || in_left == 0)
            return;
        g_string_append(out, REPLACEMENT);
        in++;
        in_left--;
        if (why == EINVAL && in_left == 0)
            return;
    }
}

char *
ph_text_to_utf8(const char *charset, const void *bytes, size_t length, size_t *length_out)
{
    if (charset_is_plain(charset) || !charset_name_is_sane(charset))
        return ph_utf8_clean(bytes, length, length_out);
    GIConv converter = g_iconv_open("UTF-8", charset_meant(charset));
    if (converter == (GIConv)-1)
        converter = g_iconv_open("UTF-8", charset);
    if (converter == (GIConv)-1)
        return ph_utf8_clean(bytes, length, length_out);
    g_autoptr(GString) raw = g_string_sized_new(length + 16);
    convert_append(converter, bytes, length, raw);
    g_iconv_close(converter);
    return ph_utf8_clean(raw->str, raw->len, length_out);
}

/* -- HTML -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *text;
} entities[] = {
    { "amp", "&" },
    { "lt", "<" },
    { "gt", ">" },
    { "quot", "\"" },
    { "apos", "'" },
    { "nbsp", " " },
    { "copy", "\xc2\xa9" },
    { "reg", "\xc2\xae" },
    { "euro", "\xe2\x82\xac" },
    { "ndash", "\xe2\x80\x93" },
    { "mdash", "\xe2\x80\x94" },
    { "lsquo", "\xe2\x80\x98" },
    { "rsquo", "\xe2\x80\x99" },
    { "ldquo", "\xe2\x80\x9c" },
    { "rdquo", "\xe2\x80\x9d" },
    { "hellip", "\xe2\x80\xa6" },
    { "auml", "\xc3\xa4" },
    { "ouml", "\xc3\xb6" },
    { "uuml", "\xc3\xbc" },
    { "Auml", "\xc3\x84" },
    { "Ouml", "\xc3\x96" },
    { "Uuml", "\xc3\x9c" },
    { "szlig", "\xc3\x9f" },
    { "eacute", "\xc3\xa9" },
    { "egrave", "\xc3\xa8" },
    { "agrave", "\xc3\xa0" },
    { "ccedil", "\xc3\xa7" },
    { "zwnj", "" },
    { "shy", "" },
};

/* Appends what "&...;" stands for; gives the length of the entity, 0 when it is none. */
static size_t
entity_append(const char *at, const char *end, GString *out)
{
    size_t length = 1;
    size_t max = MIN((size_t)(end - at), (size_t)12);
    while (length < max && (g_ascii_isalnum(at[length]) || at[length] == '#'))
        length++;
    if (length >= max || at[length] != ';')
        return 0;
    const char *name = at + 1;
    size_t name_length = length - 1;
    if (name_length > 1 && name[0] == '#') {
        bool hex = name[1] == 'x' || name[1] == 'X';
        uint32_t code = 0;
        for (size_t i = hex ? 2 : 1; i < name_length; i++) {
            int digit = hex ? g_ascii_xdigit_value(name[i]) : g_ascii_digit_value(name[i]);
            if (digit < 0 || code > 0x110000)
                return 0;
            code = code * (hex ? 16 : 10) + (uint32_t)digit;
        }
        if (code == 0xa0)
            code = ' ';
        if (code >= 0x20 && g_unichar_validate(code) && code != 0x200c && code != 0xad)
            g_string_append_unichar(out, code);
        return length + 1;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(entities); i++) {
        if (strlen(entities[i].name) == name_length &&
            memcmp(entities[i].name, name, name_length) == 0) {
            g_string_append(out, entities[i].text);
            return length + 1;
        }
    }
    return 0;
}

/* Elements whose content is not text. */
static const char *const html_hidden[] = { "script", "style", "head", "title", "template" };

typedef struct HtmlScan {
    const char *at;
    const char *end;
    const char *hidden; /* the element being skipped, or NULL */
} HtmlScan;

/* Moves behind the ">" of the tag at `at`. Quotes are not looked into: an unclosed one would hide
 * the rest of the text. */
static void
html_tag(HtmlScan *scan)
{
    const char *name = scan->at + 1;
    if (scan->end - scan->at >= 4 && memcmp(scan->at, "<!--", 4) == 0) {
        const char *close = g_strstr_len(scan->at + 4, (gssize)(scan->end - scan->at - 4), "-->");
        scan->at = close != NULL ? close + 3 : scan->end;
        return;
    }
    bool closing = name < scan->end && *name == '/';
    if (closing)
        name++;
    size_t length = 0;
    while (name + length < scan->end && g_ascii_isalnum(name[length]))
        length++;
    const char *close = memchr(name, '>', (size_t)(scan->end - name));
    scan->at = close != NULL ? close + 1 : scan->end;
    for (size_t i = 0; i < G_N_ELEMENTS(html_hidden); i++) {
        if (!ascii_equal(name, length, html_hidden[i]))
            continue;
        if (closing && scan->hidden == html_hidden[i])
            scan->hidden = NULL;
        else if (!closing && scan->hidden == NULL)
            scan->hidden = html_hidden[i];
    }
}

/* Whether the "<" here begins a tag; in an element whose content is hidden, only its own end
 * does. */
static bool
html_is_tag(const HtmlScan *scan)
{
    const char *next = scan->at + 1;
    if (next >= scan->end)
        return false;
    if (scan->hidden == NULL)
        return g_ascii_isalpha(*next) || strchr("/!?", *next) != NULL;
    size_t length = strlen(scan->hidden);
    return *next == '/' && (size_t)(scan->end - next) > length &&
           g_ascii_strncasecmp(next + 1, scan->hidden, length) == 0;
}

char *
ph_html_to_text(const char *html, size_t length)
{
    g_autoptr(GString) text = g_string_new(NULL);
    HtmlScan scan = { .at = html, .end = html + length, .hidden = NULL };
    while (scan.at < scan.end) {
        char c = *scan.at;
        if (c == '<' && html_is_tag(&scan)) {
            html_tag(&scan);
            g_string_append_c(text, ' ');
            continue;
        }
        if (scan.hidden != NULL) {
            scan.at++;
            continue;
        }
        size_t used = c == '&' ? entity_append(scan.at, scan.end, text) : 0;
        if (used == 0) {
            g_string_append_c(text, c);
            used = 1;
        }
        scan.at += used;
    }
    GString *out = g_string_new(NULL);
    ph_text_collapse(text->str, text->len, SIZE_MAX, out);
    return g_string_free(out, FALSE);
}

void
ph_text_collapse(const char *text, size_t length, size_t max, GString *out)
{
    bool space = false;
    for (size_t i = 0; i < length && out->len < max; i++) {
        char c = text[i];
        if ((unsigned char)c <= 0x20 || c == 0x7f) {
            space = out->len > 0;
            continue;
        }
        if (space)
            g_string_append_c(out, ' ');
        space = false;
        g_string_append_c(out, c);
    }
}
