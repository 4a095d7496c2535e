/* search-cache.h - answers to searches that may be given again
 *
 * Shape:    an answer is the rests of its PDUs, without their ids. It is found by its key, in which
 *           equal searches are equal bytes, or by one of the forms in which it was asked (an alias: no
 *           need to make the key again). Fresh for a time, then stale for a time, then gone; gone too
 *           when the epoch, which is raised by each change, is another one.
 * Units:    bytes; microseconds of the monotonic clock.
 * Threads:  those of its owner: one reactor.
 * Limits:   `max_bytes` with all that belongs to it; the least used go. One answer at most an eighth.
 */
#pragma once

#include "plugins/ldap/pdu.h"

typedef struct LdapSearchCache LdapSearchCache;

typedef enum LdapCacheState {
    LDAP_CACHE_MISS,
    LDAP_CACHE_FRESH,
    LDAP_CACHE_STALE, /* may be given, but ask again */
} LdapCacheState;

LdapSearchCache *ldap_search_cache_new(size_t max_bytes);
void ldap_search_cache_free(LdapSearchCache *cache);
void ldap_search_cache_set_max(LdapSearchCache *cache, size_t max_bytes);
/* The most that one answer may have. */
size_t ldap_search_cache_answer_max(const LdapSearchCache *cache);

/* `answer_out` is valid until the next call that is not a find. A key or an alias finds. */
LdapCacheState ldap_search_cache_find(
    LdapSearchCache *cache, LdapSpan key, uint64_t epoch, int64_t now_us, LdapSpan *answer_out);
/* One more form in which the answer of this key is asked for; nothing happens when there is no such
 * answer or it has enough. */
void ldap_search_cache_add_alias(LdapSearchCache *cache, LdapSpan key, LdapSpan alias);
/* In the place of what was there. */
void ldap_search_cache_put(LdapSearchCache *cache, LdapSpan key, LdapSpan answer, uint64_t epoch,
    int64_t fresh_until_us, int64_t stale_until_us);
void ldap_search_cache_clear(LdapSearchCache *cache);
size_t ldap_search_cache_bytes(const LdapSearchCache *cache);
unsigned ldap_search_cache_count(const LdapSearchCache *cache);

/* -- making and reading answers ---------------------------------------------------------------- */

void ldap_answer_append(GByteArray *answer, LdapSpan rest);
/* The next rest; false at the end. `at` begins as the whole answer. */
bool ldap_answer_next(LdapSpan *at, LdapSpan *rest_out);
