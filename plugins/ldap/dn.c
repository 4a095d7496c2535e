/* dn.c - distinguished names: one pass over the text, part by part
 *
 * A value is first read into bytes, then folded, then written with our escapes; so "\2C", "\," and the
 * like come out the same. Unicode is folded, not normalised: the canonical ordering of combining marks
 * takes quadratic time on hostile text.
 */
#include "dn.h"

#include <string.h>

/* Other names of types that stand in names (RFC 4514 section 3, RFC 4519). */
static const char *const type_names[][2] = {
    { "2.5.4.3", "cn" },
    { "commonname", "cn" },
    { "2.5.4.4", "sn" },
    { "surname", "sn" },
    { "2.5.4.6", "c" },
    { "countryname", "c" },
    { "2.5.4.7", "l" },
    { "localityname", "l" },
    { "2.5.4.8", "st" },
    { "stateorprovincename", "st" },
    { "2.5.4.9", "street" },
    { "streetaddress", "street" },
    { "2.5.4.10", "o" },
    { "organizationname", "o" },
    { "2.5.4.11", "ou" },
    { "organizationalunitname", "ou" },
    { "0.9.2342.19200300.100.1.1", "uid" },
    { "userid", "uid" },
    { "0.9.2342.19200300.100.1.3", "mail" },
    { "rfc822mailbox", "mail" },
    { "0.9.2342.19200300.100.1.25", "dc" },
    { "domaincomponent", "dc" },
};

typedef struct Reader {
    const uint8_t *at;
    const uint8_t *end;
} Reader;

static void
skip_spaces(Reader *reader)
{
    while (reader->at < reader->end && *reader->at == ' ')
        reader->at++;
}

static bool
take(Reader *reader, uint8_t wanted)
{
    if (reader->at == reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

/* A descriptor or an OID with dots (RFC 4512 1.4), in lower case. */
static bool
read_type(Reader *reader, GString *out)
{
    enum { TYPE_MAX_BYTES = 128 };
    const uint8_t *start = reader->at;
    while (reader->at < reader->end &&
           (g_ascii_isalnum(*reader->at) || *reader->at == '-' || *reader->at == '.'))
        reader->at++;
    size_t length = (size_t)(reader->at - start);
    if (length == 0 || length > TYPE_MAX_BYTES)
        return false;
    bool is_oid = g_ascii_isdigit(start[0]);
    if (!is_oid && !g_ascii_isalpha(start[0]))
        return false;
    for (size_t i = 0; i < length; i++) {
        bool good = is_oid ? g_ascii_isdigit(start[i]) || (start[i] == '.' && start[i - 1] != '.')
                           : start[i] != '.';
        if (!good)
            return false;
    }
    if (is_oid && start[length - 1] == '.')
        return false;
    g_autofree char *name = g_ascii_strdown((const char *)start, (gssize)length);
    const char *usual = name;
    for (size_t i = 0; i < G_N_ELEMENTS(type_names); i++)
        if (strcmp(type_names[i][0], name) == 0)
            usual = type_names[i][1];
    g_string_append(out, usual);
    return true;
}

static bool
read_hex_pair(Reader *reader, uint8_t *byte_out)
{
    if (reader->end - reader->at < 2)
        return false;
    int high = g_ascii_xdigit_value((char)reader->at[0]);
    int low = g_ascii_xdigit_value((char)reader->at[1]);
    if (high < 0 || low < 0)
        return false;
    *byte_out = (uint8_t)(high << 4 | low);
    reader->at += 2;
    return true;
}

/* "#" and the BER encoding in hexadecimal: kept like that, since nothing says what is in it. */
static bool
read_hex_string(Reader *reader, GString *out)
{
    uint8_t byte;
    g_string_append_c(out, '#');
    size_t n = 0;
    while (reader->at < reader->end && g_ascii_isxdigit((char)*reader->at)) {
        if (!read_hex_pair(reader, &byte))
            return false;
        g_string_append_printf(out, "%02x", byte);
        n++;
    }
    skip_spaces(reader);
    return n > 0;
}

/* The bytes of a value, up to an unescaped "," or "+" or the end. */
static bool
read_value(Reader *reader, GString *bytes)
{
    while (reader->at < reader->end && *reader->at != ',' && *reader->at != '+') {
        uint8_t byte = *reader->at++;
        switch (byte) {
        case '"':
        case ';':
        case '<':
        case '>':
        case '\0':
            return false;
        case '\\':
            if (reader->at == reader->end)
                return false;
            if (strchr(" \"#+,;<=>\\", *reader->at) != NULL && *reader->at != '\0')
                byte = *reader->at++;
            else if (!read_hex_pair(reader, &byte))
                return false;
            break;
        default:
            break;
        }
        g_string_append_c(bytes, (char)byte);
    }
    return true;
}

GString *
ldap_fold(const void *bytes, size_t length)
{
    g_autofree char *folded = NULL;
    const char *text = bytes;
    size_t n = length;
    bool ascii = true;
    for (size_t i = 0; i < length && ascii; i++)
        ascii = (uint8_t)text[i] < 0x80;
    if (!ascii && g_utf8_validate_len(text, length, NULL)) {
        folded = g_utf8_casefold(text, (gssize)length);
        text = folded;
        n = strlen(folded);
    }
    GString *out = g_string_sized_new(n);
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ')
            g_string_append_c(out, g_ascii_tolower(text[i]));
        else if (out->len > 0 && out->str[out->len - 1] != ' ')
            g_string_append_c(out, ' ');
    }
    if (out->len > 0 && out->str[out->len - 1] == ' ')
        g_string_truncate(out, out->len - 1);
    return out;
}

void
ldap_dn_append_value(GString *out, const char *value, size_t length)
{
    bool is_text = g_utf8_validate_len(value, length, NULL);
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)value[i];
        bool edge = i == 0 || i == length - 1;
        if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text))
            g_string_append_printf(out, "\\%02x", byte);
        else if (strchr(",+\"\\<>;", byte) != NULL || (byte == '#' && i == 0) ||
                 (byte == ' ' && edge))
            g_string_append_printf(out, "\\%c", byte);
        else
            g_string_append_c(out, (char)byte);
    }
}

static bool
read_part(Reader *reader, GString *out)
{
    skip_spaces(reader);
    if (!read_type(reader, out))
        return false;
    skip_spaces(reader);
    if (!take(reader, '='))
        return false;
    g_string_append_c(out, '=');
    skip_spaces(reader);
    if (take(reader, '#'))
        return read_hex_string(reader, out);
    g_autoptr(GString) bytes = g_string_new(NULL);
    if (!read_value(reader, bytes))
        return false;
    g_autoptr(GString) folded = ldap_fold(bytes->str, bytes->len);
    ldap_dn_append_value(out, folded->str, folded->len);
    return true;
}

static int
compare_parts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool
read_rdn(Reader *reader, GString *out)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
    do {
        g_autoptr(GString) part = g_string_new(NULL);
        if (parts->len == LDAP_RDN_MAX_PARTS || !read_part(reader, part))
            return false;
        g_ptr_array_add(parts, g_strdup(part->str));
    } while (take(reader, '+'));
    if (parts->len > 1)
        g_ptr_array_sort(parts, compare_parts);
    for (unsigned i = 0; i < parts->len; i++)
        g_string_append_printf(out, "%s%s", i > 0 ? "+" : "", (char *)parts->pdata[i]);
    return true;
}

char *
ldap_dn_normalize(const uint8_t *bytes, size_t length)
{
    if (length > LDAP_DN_MAX_BYTES)
        return NULL;
    g_autoptr(GString) out = g_string_sized_new(length);
    Reader reader = { .at = bytes, .end = bytes + length };
    skip_spaces(&reader);
    if (reader.at == reader.end)
        return g_strdup("");
    for (unsigned n = 0; n < LDAP_DN_MAX_RDNS; n++) {
        if (!read_rdn(&reader, out))
            return NULL;
        if (reader.at == reader.end)
            return g_string_free(g_steal_pointer(&out), FALSE);
        if (!take(&reader, ','))
            return NULL;
        g_string_append_c(out, ',');
    }
    return NULL;
}

/* -- over normal forms ------------------------------------------------------------------------- */

bool
ldap_dn_is_below(const char *dn, const char *suffix)
{
    size_t length = strlen(dn);
    size_t suffix_length = strlen(suffix);
    if (suffix_length == 0)
        return true;
    if (suffix_length > length || strcmp(dn + length - suffix_length, suffix) != 0)
        return false;
    if (suffix_length == length)
        return true;
    /* The comma before it divides RDNs unless it is escaped. */
    size_t at = length - suffix_length - 1;
    if (dn[at] != ',')
        return false;
    size_t backslashes = 0;
    while (backslashes < at && dn[at - 1 - backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 0;
}

/* The end of the first RDN, or of its first part. */
static const char *
find_end(const char *dn, bool of_part)
{
    const char *at = dn;
    while (*at != '\0' && *at != ',' && !(of_part && *at == '+'))
        at += *at == '\\' && at[1] != '\0' ? 2 : 1;
    return at;
}

const char *
ldap_dn_parent(const char *dn)
{
    if (dn[0] == '\0')
        return NULL;
    const char *end = find_end(dn, false);
    return *end == ',' ? end + 1 : end;
}

char *
ldap_dn_value(const char *dn, const char *type)
{
    size_t type_length = strlen(type);
    const char *end = find_end(dn, true);
    if (strncmp(dn, type, type_length) != 0 || dn[type_length] != '=' || *end == '+')
        return NULL;
    Reader reader = { .at = (const uint8_t *)dn + type_length + 1, .end = (const uint8_t *)end };
    if (reader.at < reader.end && *reader.at == '#')
        return NULL;
    g_autoptr(GString) bytes = g_string_new(NULL);
    if (!read_value(&reader, bytes) || memchr(bytes->str, '\0', bytes->len) != NULL)
        return NULL;
    return g_strdup(bytes->str);
}
