/* bind-cache.h - binds that a directory accepted a short while ago
 *
 * Shape:    a keyed digest of the upstream, the name and the password leads to the moment until which
 *           it counts. Only what was accepted is kept; "no" and "could not ask" change nothing, except
 *           that a "no" to a digest that is there takes it away. The password itself is not kept.
 * Units:    microseconds of the monotonic clock.
 * Threads:  those of its owner: one reactor.
 * Limits:   LDAP_BIND_CACHE_MAX of them, the oldest go.
 */
#pragma once

#include "posthouse/base.h"

typedef struct LdapBindCache LdapBindCache;

enum {
    LDAP_BIND_CACHE_MAX = 8192,
    LDAP_BIND_DIGEST_BYTES = 32,
};

/* `key` is random and the same for the caches of a process; it is copied. */
LdapBindCache *ldap_bind_cache_new(const PhSecret *key);
void ldap_bind_cache_free(LdapBindCache *cache);
/* `dn` is normalised; `upstream` and `version` say whose it is. */
void ldap_bind_cache_digest(const LdapBindCache *cache, int64_t upstream, int64_t version,
    const char *dn, const PhSecret *password, uint8_t digest_out[LDAP_BIND_DIGEST_BYTES]);
bool ldap_bind_cache_find(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES],
    uint64_t epoch, int64_t now_us);
void ldap_bind_cache_put(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES],
    uint64_t epoch, int64_t until_us);
void ldap_bind_cache_remove(LdapBindCache *cache, const uint8_t digest[LDAP_BIND_DIGEST_BYTES]);
void ldap_bind_cache_clear(LdapBindCache *cache);
unsigned ldap_bind_cache_count(const LdapBindCache *cache);
