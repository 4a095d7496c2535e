/* bind-cache.c - binds that a directory accepted a short while ago */
#include "plugins/ldap/bind-cache.h"

#include <string.h>

typedef struct Accepted {
    uint8_t digest[LDAP_BIND_DIGEST_BYTES]; /* first: the table's key */
    GList link;                             /* in the queue, the newest first */
    uint64_t epoch;
    int64_t until_us;
} Accepted;

struct LdapBindCache {
    PhSecret *key;
    GHashTable *accepted; /* Accepted -> Accepted */
    GQueue by_age;
};

static guint
hash_digest(gconstpointer digest)
{
    guint hash;
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

static gboolean
equal_digests(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, LDAP_BIND_DIGEST_BYTES) == 0;
}

LdapBindCache *
ldap_bind_cache_new(const PhSecret *key)
{
    LdapBindCache *cache = g_new0(LdapBindCache, 1);
    cache->key = ph_secret_new(ph_secret_bytes(key), ph_secret_length(key));
    cache->accepted = g_hash_table_new(hash_digest, equal_digests);
    return cache;
}

static void
drop(LdapBindCache *cache, Accepted *accepted)
{
    g_hash_table_remove(cache->accepted, accepted);
    g_queue_unlink(&cache->by_age, &accepted->link);
    g_free(accepted);
}

void
ldap_bind_cache_clear(LdapBindCache *cache)
{
    while (cache->by_age.tail != NULL)
        drop(cache, cache->by_age.tail->data);
}

void
ldap_bind_cache_free(LdapBindCache *cache)
{
    if (cache == NULL)
        return;
    ldap_bind_cache_clear(cache);
    g_hash_table_unref(cache->accepted);
    ph_secret_free(cache->key);
    g_free(cache);
}

/* The name ends with a NUL, which no normalised name has inside: no two triples are the same bytes. */
void
ldap_bind_cache_digest(const LdapBindCache *cache, int64_t upstream, int64_t version,
    const char *dn, const PhSecret *password, uint8_t digest_out[LDAP_BIND_DIGEST_BYTES])
{
    GHmac *hmac =
        g_hmac_new(G_CHECKSUM_SHA256, ph_secret_bytes(cache->key), ph_secret_length(cache->key));
    g_hmac_update(hmac, (const guchar *)&upstream, sizeof(upstream));
    g_hmac_update(hmac, (const guchar *)&version, sizeof(version));
    g_hmac_update(hmac, (const guchar *)dn, (gssize)strlen(dn) + 1);
    g_hmac_update(hmac, ph_secret_bytes(password), (gssize)ph_secret_length(password));
    gsize length = LDAP_BIND_DIGEST_BYTES;
    g_hmac_get_digest(hmac, digest_out, &length);
    g_hmac_unref(hmac);
}

bool
ldap_bind_cache_find(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES],
    uint64_t epoch, int64_t now_us)
{
    Accepted *found = g_hash_table_lookup(cache->accepted, digest);
    if (found == NULL)
        return false;
    if (found->epoch == epoch && now_us < found->until_us)
        return true;
    drop(cache, found);
    return false;
}

void
ldap_bind_cache_remove(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES])
{
    Accepted *found = g_hash_table_lookup(cache->accepted, digest);
    if (found != NULL)
        drop(cache, found);
}

void
ldap_bind_cache_put(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES],
    uint64_t epoch, int64_t until_us)
{
    ldap_bind_cache_remove(cache, digest);
    if (cache->by_age.length >= LDAP_BIND_CACHE_MAX)
        drop(cache, cache->by_age.tail->data);
    Accepted *accepted = g_new0(Accepted, 1);
    memcpy(accepted->digest, digest, LDAP_BIND_DIGEST_BYTES);
    accepted->link.data = accepted;
    accepted->epoch = epoch;
    accepted->until_us = until_us;
    g_queue_push_head_link(&cache->by_age, &accepted->link);
    g_hash_table_add(cache->accepted, accepted);
}

unsigned
ldap_bind_cache_count(const LdapBindCache *cache)
{
    return cache->by_age.length;
}
