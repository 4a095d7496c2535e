/* search-cache.c - answers to searches that may be given again
 *
 * Keys and aliases are in one table, each a small struct that leads to its entry; an entry owns them.
 */
#include "plugins/ldap/search-cache.h"

#include <string.h>

enum {
    ALIASES_MAX = 4,
    ALIAS_MAX_BYTES = 4096,
    ANSWER_SHARE = 8, /* of the whole, for one answer */
};

typedef struct Entry Entry;

typedef struct Key {
    LdapSpan span;
    guint hash;
    Entry *entry;
    uint8_t bytes[];
} Key;

struct Entry {
    GList link; /* in the queue, the last used first */
    Key *keys[1 + ALIASES_MAX];
    unsigned n_keys;
    size_t size; /* with its keys */
    uint64_t epoch;
    int64_t fresh_until_us;
    int64_t stale_until_us;
    size_t length;
    uint8_t *answer;
};

struct LdapSearchCache {
    GHashTable *keys; /* Key -> Key */
    GQueue used;
    size_t max_bytes;
    size_t bytes;
};

static guint
hash_bytes(LdapSpan span)
{
    uint64_t hash = 0x9e3779b97f4a7c15U ^ span.length;
    const uint8_t *at = span.bytes;
    size_t left = span.length;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        hash = (hash ^ word) * 0xff51afd7ed558ccdU;
        hash ^= hash >> 29;
    }
    for (; left > 0; left--, at++)
        hash = (hash ^ *at) * 0xc4ceb9fe1a85ec53U;
    return (guint)(hash ^ hash >> 32);
}

static guint
hash_key(gconstpointer key)
{
    return ((const Key *)key)->hash;
}

static gboolean
equal_keys(gconstpointer a, gconstpointer b)
{
    const Key *one = a;
    const Key *other = b;
    return one->hash == other->hash && one->span.length == other->span.length &&
           memcmp(one->span.bytes, other->span.bytes, one->span.length) == 0;
}

LdapSearchCache *
ldap_search_cache_new(size_t max_bytes)
{
    LdapSearchCache *cache = g_new0(LdapSearchCache, 1);
    cache->keys = g_hash_table_new(hash_key, equal_keys);
    cache->max_bytes = max_bytes;
    return cache;
}

static void
drop(LdapSearchCache *cache, Entry *entry)
{
    for (unsigned i = 0; i < entry->n_keys; i++) {
        g_hash_table_remove(cache->keys, entry->keys[i]);
        g_free(entry->keys[i]);
    }
    g_queue_unlink(&cache->used, &entry->link);
    cache->bytes -= entry->size;
    g_free(entry->answer);
    g_free(entry);
}

static void
make_room(LdapSearchCache *cache)
{
    while (cache->bytes > cache->max_bytes && cache->used.tail != NULL)
        drop(cache, cache->used.tail->data);
}

void
ldap_search_cache_clear(LdapSearchCache *cache)
{
    while (cache->used.tail != NULL)
        drop(cache, cache->used.tail->data);
}

void
ldap_search_cache_free(LdapSearchCache *cache)
{
    if (cache == NULL)
        return;
    ldap_search_cache_clear(cache);
    g_hash_table_unref(cache->keys);
    g_free(cache);
}

void
ldap_search_cache_set_max(LdapSearchCache *cache, size_t max_bytes)
{
    cache->max_bytes = max_bytes;
    make_room(cache);
}

size_t
ldap_search_cache_answer_max(const LdapSearchCache *cache)
{
    return cache->max_bytes / ANSWER_SHARE;
}

static Entry *
find(LdapSearchCache *cache, LdapSpan span)
{
    Key wanted = { .span = span, .hash = hash_bytes(span) };
    const Key *found = g_hash_table_lookup(cache->keys, &wanted);
    return found != NULL ? found->entry : NULL;
}

LdapCacheState
ldap_search_cache_find(
    LdapSearchCache *cache, LdapSpan key, uint64_t epoch, int64_t now_us, LdapSpan *answer_out)
{
    if (cache->used.head == NULL)
        return LDAP_CACHE_MISS;
    Entry *entry = find(cache, key);
    if (entry == NULL)
        return LDAP_CACHE_MISS;
    if (entry->epoch != epoch || now_us >= entry->stale_until_us) {
        drop(cache, entry);
        return LDAP_CACHE_MISS;
    }
    if (cache->used.head != &entry->link) {
        g_queue_unlink(&cache->used, &entry->link);
        g_queue_push_head_link(&cache->used, &entry->link);
    }
    *answer_out = (LdapSpan){ .bytes = entry->answer, .length = entry->length };
    return now_us < entry->fresh_until_us ? LDAP_CACHE_FRESH : LDAP_CACHE_STALE;
}

static void
add_key(LdapSearchCache *cache, Entry *entry, LdapSpan span)
{
    Key *key = g_malloc(sizeof(Key) + span.length);
    memcpy(key->bytes, span.bytes, span.length);
    key->span = (LdapSpan){ .bytes = key->bytes, .length = span.length };
    key->hash = hash_bytes(span);
    key->entry = entry;
    entry->keys[entry->n_keys++] = key;
    size_t size = sizeof(Key) + span.length;
    entry->size += size;
    cache->bytes += size;
    g_hash_table_add(cache->keys, key);
}

void
ldap_search_cache_add_alias(LdapSearchCache *cache, LdapSpan key, LdapSpan alias)
{
    Entry *entry = find(cache, key);
    if (entry == NULL || entry->n_keys > ALIASES_MAX || alias.length > ALIAS_MAX_BYTES ||
        find(cache, alias) != NULL)
        return;
    add_key(cache, entry, alias);
    make_room(cache);
}

void
ldap_search_cache_put(LdapSearchCache *cache, LdapSpan key, LdapSpan answer, uint64_t epoch,
    int64_t fresh_until_us, int64_t stale_until_us)
{
    Entry *old = find(cache, key);
    if (old != NULL)
        drop(cache, old);
    if (answer.length > ldap_search_cache_answer_max(cache))
        return;
    Entry *entry = g_new0(Entry, 1);
    entry->link.data = entry;
    entry->epoch = epoch;
    entry->fresh_until_us = fresh_until_us;
    entry->stale_until_us = stale_until_us;
    entry->length = answer.length;
    entry->answer = g_memdup2(answer.bytes, answer.length);
    entry->size = sizeof(Entry) + answer.length;
    cache->bytes += entry->size;
    g_queue_push_head_link(&cache->used, &entry->link);
    add_key(cache, entry, key);
    make_room(cache);
}

size_t
ldap_search_cache_bytes(const LdapSearchCache *cache)
{
    return cache->bytes;
}

unsigned
ldap_search_cache_count(const LdapSearchCache *cache)
{
    return cache->used.length;
}

/* -- making and reading answers ---------------------------------------------------------------- */

void
ldap_answer_append(GByteArray *answer, LdapSpan rest)
{
    uint32_t length = (uint32_t)rest.length;
    g_byte_array_append(answer, (const guint8 *)&length, sizeof(length));
    g_byte_array_append(answer, rest.bytes, length);
}

bool
ldap_answer_next(LdapSpan *at, LdapSpan *rest_out)
{
    uint32_t length;
    if (at->length < sizeof(length))
        return false;
    memcpy(&length, at->bytes, sizeof(length));
    g_assert(length <= at->length - sizeof(length));
    *rest_out = (LdapSpan){ .bytes = at->bytes + sizeof(length), .length = length };
    at->bytes += sizeof(length) + length;
    at->length -= sizeof(length) + length;
    return true;
}
