/* path.c - addresses of SMTP commands, and the form under which addresses are compared
 *
 * What is hard here: this decides who gets a mail, so it follows the grammar to the letter. Host
 * names come from Unicode in two spellings; both lead to one.
 */
#include <posthouse/message-address.h>

#include "ascii.h"

#include <arpa/inet.h>

#define LOCAL_MAX 64
#define DOMAIN_MAX 255
#define DOMAIN_UTF8_MAX 1024
#define LABEL_MAX 63
#define PATH_MAX_BYTES 254

typedef struct Scan {
    const char *at;
    const char *end;
} Scan;

static bool
next_is(const Scan *scan, char c)
{
    return scan->at < scan->end && *scan->at == c;
}

static bool
take(Scan *scan, char c)
{
    if (!next_is(scan, c))
        return false;
    scan->at++;
    return true;
}

/* Dot-string. */
static bool
take_dot_string(Scan *scan, GString *out)
{
    const char *start = scan->at;
    char before = '.';
    while (scan->at < scan->end) {
        char c = *scan->at;
        if (c == '.' && before == '.')
            return false;
        if (c != '.' && !ascii_is_atext(c) && !ascii_is_high(c))
            break;
        before = c;
        scan->at++;
    }
    g_string_append_len(out, start, (gssize)(scan->at - start));
    return scan->at > start && before != '.';
}

/* Quoted-string, resolved. An empty one is legal. */
static bool
take_quoted(Scan *scan, GString *out)
{
    scan->at++;
    while (scan->at < scan->end) {
        char c = *scan->at++;
        if (c == '"')
            return true;
        if (c == '\\') {
            if (scan->at >= scan->end || ascii_is_high(*scan->at))
                return false;
            c = *scan->at++;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return false;
        g_string_append_c(out, c);
    }
    return false;
}

/* Domain: labels of letters, digits and hyphens, or bytes over 127; also a host name with
 * underscores, which is no host name but is in use. */
static bool
take_domain(Scan *scan)
{
    size_t label = 0;
    char before = '.';
    const char *start = scan->at;
    while (scan->at < scan->end) {
        char c = *scan->at;
        if (c == '.') {
            if (before == '.' || before == '-')
                return false;
            label = 0;
        } else if (g_ascii_isalnum(c) || c == '_' || ascii_is_high(c) || c == '-') {
            if (c == '-' && before == '.')
                return false;
            /* A label in UTF-8 is measured by the whole domain only. */
            label += ascii_is_high(c) ? 0 : 1;
            if (label > LABEL_MAX)
                return false;
        } else {
            break;
        }
        before = c;
        scan->at++;
    }
    return scan->at > start && before != '.' && before != '-';
}

/* "[192.0.2.1]", "[IPv6:2001:db8::1]". */
static bool
take_literal(Scan *scan)
{
    const char *open = scan->at;
    const char *close = memchr(open, ']', (size_t)(scan->end - open));
    if (close == NULL || close - open > 64)
        return false;
    char text[64];
    size_t length = (size_t)(close - open - 1);
    memcpy(text, open + 1, length);
    text[length] = '\0';
    if (strlen(text) != length)
        return false;
    unsigned char address[16];
    bool is_v6 = g_ascii_strncasecmp(text, "IPv6:", 5) == 0;
    scan->at = close + 1;
    return is_v6 ? inet_pton(AF_INET6, text + 5, address) == 1
                 : inet_pton(AF_INET, text, address) == 1;
}

/* "@a,@b:", checked and dropped. */
static bool
take_route(Scan *scan)
{
    while (take(scan, '@')) {
        bool good = next_is(scan, '[') ? take_literal(scan) : take_domain(scan);
        if (!good)
            return false;
        if (take(scan, ':'))
            return true;
        if (!take(scan, ','))
            return false;
    }
    return false;
}

static PhPathStatus
take_mailbox(Scan *scan, PhPathFlags flags, PhPath *path)
{
    const char *start = scan->at;
    g_autoptr(GString) local = g_string_new(NULL);
    bool quoted = next_is(scan, '"');
    bool good = quoted ? take_quoted(scan, local) : take_dot_string(scan, local);
    if (!good)
        return PH_PATH_SYNTAX;
    size_t local_length = (size_t)(scan->at - start);
    size_t domain_length = 0;
    if (take(scan, '@')) {
        const char *domain = scan->at;
        path->is_literal = next_is(scan, '[');
        if (path->is_literal ? !take_literal(scan) : !take_domain(scan))
            return PH_PATH_SYNTAX;
        domain_length = (size_t)(scan->at - domain);
        path->domain = g_strndup(domain, domain_length);
    } else {
        if ((flags & PH_PATH_POSTMASTER_OK) == 0 ||
            g_ascii_strcasecmp(local->str, "postmaster") != 0)
            return PH_PATH_SYNTAX;
        path->domain = g_strdup("");
    }
    /* The limit is on the local part as written; without its quotes it is shorter yet. */
    if (local_length > LOCAL_MAX + (quoted ? 2u : 0u) || domain_length > DOMAIN_MAX ||
        (size_t)(scan->at - start) > PATH_MAX_BYTES)
        return PH_PATH_TOO_LONG;
    path->local = g_strdup(local->str);
    for (const char *p = start; p < scan->at; p++)
        path->is_utf8 = path->is_utf8 || ascii_is_high(*p);
    if (!path->is_utf8)
        return PH_PATH_OK;
    if ((flags & PH_PATH_UTF8_OK) == 0)
        return PH_PATH_UTF8;
    return g_utf8_validate(start, (gssize)(scan->at - start), NULL) ? PH_PATH_OK : PH_PATH_SYNTAX;
}

PhPathStatus
ph_address_parse_path(
    const char *text, size_t length, PhPathFlags flags, PhPath **path_out, size_t *used_out)
{
    Scan scan = { .at = text, .end = text + length };
    g_autoptr(PhPath) path = g_new0(PhPath, 1);
    bool angle = take(&scan, '<');
    if (!angle && (flags & PH_PATH_BARE_OK) == 0)
        return PH_PATH_SYNTAX;
    if (angle && next_is(&scan, '>')) {
        if ((flags & PH_PATH_NULL_OK) == 0)
            return PH_PATH_SYNTAX;
        path->local = g_strdup("");
        path->domain = g_strdup("");
        path->is_null = true;
    } else {
        if (angle && next_is(&scan, '@') && !take_route(&scan))
            return PH_PATH_SYNTAX;
        PhPathStatus status = take_mailbox(&scan, flags, path);
        if (status != PH_PATH_OK)
            return status;
    }
    if (angle && !take(&scan, '>'))
        return PH_PATH_SYNTAX;
    if (used_out != NULL)
        *used_out = (size_t)(scan.at - text);
    *path_out = g_steal_pointer(&path);
    return PH_PATH_OK;
}

PhPathStatus
ph_address_parse(const char *text, size_t length, PhPath **path_out)
{
    g_autoptr(PhPath) path = NULL;
    size_t used = 0;
    if (length == 0 || *text == '<')
        return PH_PATH_SYNTAX;
    PhPathStatus status =
        ph_address_parse_path(text, length, PH_PATH_BARE_OK | PH_PATH_UTF8_OK, &path, &used);
    if (status != PH_PATH_OK)
        return status;
    if (used != length)
        return PH_PATH_SYNTAX;
    *path_out = g_steal_pointer(&path);
    return PH_PATH_OK;
}

void
ph_path_free(PhPath *path)
{
    if (path == NULL)
        return;
    g_free(path->local);
    g_free(path->domain);
    g_free(path);
}

char *
ph_path_format(const PhPath *path)
{
    if (path->is_null)
        return g_strdup("");
    GString *out = g_string_new(NULL);
    Scan scan = { .at = path->local, .end = path->local + strlen(path->local) };
    bool plain = take_dot_string(&scan, out) && scan.at == scan.end;
    if (!plain) {
        g_string_assign(out, "\"");
        for (const char *p = path->local; *p != '\0'; p++) {
            if (*p == '"' || *p == '\\')
                g_string_append_c(out, '\\');
            g_string_append_c(out, *p);
        }
        g_string_append_c(out, '"');
    }
    if (path->domain[0] != '\0')
        g_string_append_printf(out, "@%s", path->domain);
    return g_string_free(out, FALSE);
}

/* -- comparison -------------------------------------------------------------------------------- */

/* Lower case by character, not by language: the Turkish i must not depend on who started us. */
static char *
lower_nfc(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return NULL;
    g_autofree char *composed = g_utf8_normalize(text, -1, G_NORMALIZE_NFC);
    GString *out = g_string_new(NULL);
    for (char *p = composed; *p != '\0'; p = g_utf8_next_char(p))
        g_string_append_unichar(out, g_unichar_tolower(g_utf8_get_char(p)));
    char *lower = g_string_free(out, FALSE);
    /* Lowering can take letters apart from their marks. */
    char *result = g_utf8_normalize(lower, -1, G_NORMALIZE_NFC);
    g_free(lower);
    return result;
}

char *
ph_local_normalize(const char *local)
{
    return lower_nfc(local);
}

static char *
ascii_to_letters(const char *ascii)
{
    g_autofree char *unicode = ascii != NULL ? g_hostname_to_unicode(ascii) : NULL;
    return unicode != NULL ? lower_nfc(unicode) : NULL;
}

/* One label through ASCII and back: mapping of the letters is then the same for both spellings. A
 * label that does not come back as the same ASCII, or is mapped to yet another one, is left as it is,
 * or two names would be taken for one. */
static char *
label_normalize(const char *label)
{
    g_autofree char *ascii = g_hostname_to_ascii(label);
    g_autofree char *mapped = ascii_to_letters(ascii);
    g_autofree char *again = mapped != NULL ? g_hostname_to_ascii(mapped) : NULL;
    g_autofree char *settled = ascii_to_letters(again);
    bool same =
        settled != NULL && g_ascii_strcasecmp(ascii, again) == 0 && strcmp(mapped, settled) == 0;
    return same ? g_steal_pointer(&mapped) : g_strdup(label);
}

/* The other characters that IDNA takes for a dot (RFC 3490 3.1). */
static void
replace_dots(GString *domain)
{
    static const char *const dots[] = { "\xe3\x80\x82", "\xef\xbc\x8e", "\xef\xbd\xa1" };
    for (size_t i = 0; i < G_N_ELEMENTS(dots); i++)
        g_string_replace(domain, dots[i], ".", 0);
}

char *
ph_domain_normalize(const char *domain)
{
    g_autofree char *lower = lower_nfc(domain);
    if (lower == NULL || lower[0] == '[' || strlen(lower) > DOMAIN_UTF8_MAX)
        return g_steal_pointer(&lower);
    g_autoptr(GString) dotted = g_string_new(lower);
    replace_dots(dotted);
    while (dotted->len > 1 && dotted->str[dotted->len - 1] == '.')
        g_string_truncate(dotted, dotted->len - 1);
    g_auto(GStrv) labels = g_strsplit(dotted->str, ".", -1);
    for (char **label = labels; *label != NULL; label++) {
        char *normal = label_normalize(*label);
        g_free(*label);
        *label = normal;
    }
    return g_strjoinv(".", labels);
}

char *
ph_domain_to_ascii(const char *domain)
{
    g_autofree char *unicode = ph_domain_normalize(domain);
    if (unicode == NULL)
        return NULL;
    g_autofree char *ascii = g_hostname_to_ascii(unicode);
    if (ascii == NULL || strlen(ascii) > DOMAIN_MAX)
        return NULL;
    for (const char *p = ascii; *p != '\0'; p++) {
        if (ascii_is_high(*p))
            return NULL;
    }
    /* What does not lead back is not a spelling of this name. */
    char *lower = g_ascii_strdown(ascii, -1);
    g_autofree char *back = ph_domain_normalize(lower);
    if (g_strcmp0(back, unicode) == 0)
        return lower;
    g_free(lower);
    return NULL;
}

char *
ph_address_normalize(const char *local, const char *domain)
{
    g_autofree char *left = ph_local_normalize(local);
    g_autofree char *right = ph_domain_normalize(domain);
    if (left == NULL || right == NULL)
        return NULL;
    return g_strdup_printf("%s@%s", left, right);
}

bool
ph_local_split(const char *local, char delimiter, size_t *base_length_out, const char **suffix_out)
{
    const char *at = delimiter != '\0' ? strchr(local, delimiter) : NULL;
    if (at == NULL || at == local)
        return false;
    *base_length_out = (size_t)(at - local);
    if (suffix_out != NULL)
        *suffix_out = at + 1;
    return true;
}
