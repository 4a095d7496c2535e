/* header-cache.c - the fields that clients list messages by
 *
 * What is hard here: an answer from the cache must be the same, byte for byte, as one from the
 * header. So the cache says of each name whether it tells all about it. Names are only ever added
 * at the end of the table: an older cache then covers fewer.
 *
 * Form: 'H' 1, number of names known when it was made, one bit per name (1: covered) in bytes with
 *       the lowest bit first, then the raw fields.
 */
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include "ascii.h"

#define CACHE_MAGIC 'H'
#define CACHE_VERSION 1

static const char *const cache_names[] = {
    "Date",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Subject",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Content-Disposition",
    "Content-Description",
    "Content-Language",
    "Content-Class",
    "MIME-Version",
    "Received",
    "Return-Path",
    "Delivered-To",
    "X-Original-To",
    "Envelope-To",
    "Lines",
    "Newsgroups",
    "Followup-To",
    "Xref",
    "Priority",
    "X-Priority",
    "Importance",
    "X-MSMail-Priority",
    "Sensitivity",
    "Precedence",
    "Auto-Submitted",
    "List-Id",
    "List-Post",
    "List-Help",
    "List-Archive",
    "List-Owner",
    "List-Subscribe",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Mail-Followup-To",
    "Mail-Reply-To",
    "Disposition-Notification-To",
    "Return-Receipt-To",
    "X-Confirm-Reading-To",
    "Resent-Date",
    "Resent-From",
    "Resent-To",
    "Resent-Message-ID",
    "Thread-Topic",
    "Thread-Index",
    "User-Agent",
    "X-Mailer",
    "X-Label",
    "X-Status",
    "X-Keywords",
    "Keywords",
    "Comments",
    "Organization",
    "X-Spam-Status",
    "X-Spam-Flag",
    "X-Spam-Level",
    "X-Spam-Score",
    "X-Draft-Info",
    "X-Identity-Key",
    "X-K9mail-Identity",
    "X-TUID",
    "X-OfflineIMAP",
    "X-Uniform-Type-Identifier",
    "X-Universally-Unique-Identifier",
    "Authentication-Results",
    "Received-SPF",
    "BIMI-Indicator",
    "BIMI-Location",
    "Autocrypt",
    "Chat-Version",
    "Archived-At",
    "X-MS-Has-Attach",
    "X-Microsoft-Original-Message-ID",
    "X-Gmail-Labels",
};

#define NAME_COUNT G_N_ELEMENTS(cache_names)
#define MAP_BYTES ((NAME_COUNT + 7) / 8)
G_STATIC_ASSERT(NAME_COUNT < 256);

typedef struct NameHashes {
    unsigned names[NAME_COUNT];
    bool is_used[256]; /* by the last byte of a hash */
} NameHashes;

static unsigned
name_hash(const char *name, size_t length)
{
    unsigned hash = (unsigned)length;
    for (size_t i = 0; i < length; i++)
        hash = hash * 31 + (unsigned char)g_ascii_tolower(name[i]);
    return hash;
}

/* Index of the name in the table, or NAME_COUNT. A header may have millions of fields, so most are
 * turned away by their hash. */
static size_t
name_index(const char *name, size_t length, const NameHashes *hashes)
{
    if (length > 40)
        return NAME_COUNT;
    unsigned hash = name_hash(name, length);
    if (!hashes->is_used[hash % 256])
        return NAME_COUNT;
    size_t i = 0;
    while (
        i < NAME_COUNT && !(hashes->names[i] == hash && ascii_equal(name, length, cache_names[i])))
        i++;
    return i;
}

static void
hashes_init(NameHashes *hashes)
{
    memset(hashes, 0, sizeof(*hashes));
    for (size_t i = 0; i < NAME_COUNT; i++) {
        hashes->names[i] = name_hash(cache_names[i], strlen(cache_names[i]));
        hashes->is_used[hashes->names[i] % 256] = true;
    }
}

GBytes *
ph_header_cache_new(const void *header, size_t length)
{
    NameHashes hashes;
    size_t sizes[NAME_COUNT + 1] = { 0 };
    hashes_init(&hashes);
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, header, MIN(length, PH_HEADER_MAX_BYTES));
    while (ph_header_iter_next(&iter, &field)) {
        size_t i = name_index(field.name, field.name_length, &hashes);
        sizes[i] += MIN(field.length, PH_HEADER_CACHE_MAX + 1);
    }
    unsigned char map[MAP_BYTES] = { 0 };
    size_t total = 0;
    /* What was cut off may hold any name. */
    bool whole = length < PH_HEADER_MAX_BYTES;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        bool fits =
            sizes[i] <= PH_HEADER_CACHE_FIELD_MAX && total + sizes[i] <= PH_HEADER_CACHE_MAX;
        if (!fits || !whole)
            continue;
        total += sizes[i];
        map[i / 8] = (unsigned char)(map[i / 8] | 1u << (i % 8));
    }
    GByteArray *out = g_byte_array_new();
    const unsigned char start[3] = { CACHE_MAGIC, CACHE_VERSION, (unsigned char)NAME_COUNT };
    g_byte_array_append(out, start, sizeof(start));
    g_byte_array_append(out, map, sizeof(map));
    ph_header_iter_init(&iter, header, MIN(length, PH_HEADER_MAX_BYTES));
    while (ph_header_iter_next(&iter, &field)) {
        size_t i = name_index(field.name, field.name_length, &hashes);
        if (i >= NAME_COUNT || (map[i / 8] >> (i % 8) & 1) == 0)
            continue;
        g_byte_array_append(out, (const guint8 *)field.start, (guint)field.length);
        if (field.start[field.length - 1] != '\n')
            g_byte_array_append(out, (const guint8 *)"\r\n", 2);
    }
    return g_byte_array_free_to_bytes(out);
}

/* Length of what is before the fields; 0 when this is no cache. */
static size_t
cache_prefix(const unsigned char *cache, size_t length)
{
    if (length < 3 || cache[0] != CACHE_MAGIC || cache[1] != CACHE_VERSION)
        return 0;
    size_t prefix = 3 + ((size_t)cache[2] + 7) / 8;
    return length >= prefix ? prefix : 0;
}

bool
ph_header_cache_covers(const void *cache, size_t length, const char *name)
{
    const unsigned char *bytes = cache;
    if (cache_prefix(bytes, length) == 0)
        return false;
    size_t known = MIN((size_t)bytes[2], NAME_COUNT);
    for (size_t i = 0; i < known; i++) {
        if (g_ascii_strcasecmp(cache_names[i], name) == 0)
            return (bytes[3 + i / 8] >> (i % 8) & 1) != 0;
    }
    return false;
}

bool
ph_header_cache_fields(
    const void *cache, size_t length, const char *const *names, size_t name_count, GString *out)
{
    for (size_t i = 0; i < name_count; i++) {
        if (!ph_header_cache_covers(cache, length, names[i]))
            return false;
    }
    size_t block_length = 0;
    const char *block = ph_header_cache_block(cache, length, &block_length);
    if (block == NULL)
        return false;
    ph_header_subset(block, block_length, names, name_count, false, out);
    return true;
}

const char *
ph_header_cache_block(const void *cache, size_t length, size_t *block_length_out)
{
    size_t prefix = cache_prefix(cache, length);
    if (prefix == 0)
        return NULL;
    *block_length_out = length - prefix;
    return (const char *)cache + prefix;
}
