/* throttle.c - decaying scores */
#include "identity/throttle.h"

#include <arpa/inet.h>
#include <math.h>
#include <string.h>

enum { KEYS_MAX = 100000 };
static const double half_life_us = 300e6;

typedef struct Score {
    double value;
    int64_t at_us;
} Score;

static struct {
    PhMutex mutex;
    GHashTable *scores; /* text -> Score */
} table = { .mutex = { .rank = PH_LOCK_IDENTITY } };

/* An IPv6 customer has a whole /64. */
static char *
network_of(const char *address)
{
    struct in6_addr in6;
    char text[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET6, address, &in6) != 1)
        return g_strdup(address);
    memset(in6.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &in6, text, sizeof(text));
    return g_strdup_printf("%s/64", text);
}

static char *
pair_key(const char *network, const char *login)
{
    g_autofree char *folded = g_utf8_casefold(login, -1);
    return g_strdup_printf("%s %.254s", network, folded);
}

static double
value_at(const Score *score, int64_t now_us)
{
    if (score == NULL)
        return 0;
    return score->value * exp2(-(double)MAX(0, now_us - score->at_us) / half_life_us);
}

/* Drops what has cooled down; if that is not enough, everything below the mean. */
static void
shrink_locked(int64_t now_us)
{
    double limit = 0.5;
    while (g_hash_table_size(table.scores) >= KEYS_MAX) {
        GHashTableIter iter;
        gpointer score;
        g_hash_table_iter_init(&iter, table.scores);
        while (g_hash_table_iter_next(&iter, NULL, &score))
            if (value_at(score, now_us) < limit)
                g_hash_table_iter_remove(&iter);
        limit *= 2;
    }
}

static void
raise_locked(const char *key, int64_t now_us)
{
    if (table.scores == NULL)
        table.scores = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    Score *score = g_hash_table_lookup(table.scores, key);
    double before = value_at(score, now_us);
    if (score == NULL) {
        shrink_locked(now_us);
        score = g_new(Score, 1);
        g_hash_table_insert(table.scores, g_strdup(key), score);
    }
    *score = (Score){ .value = before + 1, .at_us = now_us };
}

static double
lookup_locked(const char *key, int64_t now_us)
{
    return table.scores != NULL ? value_at(g_hash_table_lookup(table.scores, key), now_us) : 0;
}

void
ph_throttle_failed(const char *address, const char *login, int64_t now_us)
{
    g_autofree char *network = network_of(address);
    g_autofree char *pair = pair_key(network, login);
    ph_mutex_lock(&table.mutex);
    raise_locked(network, now_us);
    raise_locked(pair, now_us);
    ph_mutex_unlock(&table.mutex);
}

void
ph_throttle_succeeded(const char *address, const char *login)
{
    g_autofree char *network = network_of(address);
    g_autofree char *pair = pair_key(network, login);
    ph_mutex_lock(&table.mutex);
    if (table.scores != NULL)
        g_hash_table_remove(table.scores, pair);
    ph_mutex_unlock(&table.mutex);
}

bool
ph_throttle_is_closed(const char *address, const char *login, int64_t now_us, double address_limit,
    double login_limit)
{
    g_autofree char *network = network_of(address);
    g_autofree char *pair = pair_key(network, login);
    ph_mutex_lock(&table.mutex);
    /* Scores have always cooled a little: rounded, three failures in a minute are three. */
    bool closed = lookup_locked(network, now_us) + 0.5 >= address_limit ||
                  lookup_locked(pair, now_us) + 0.5 >= login_limit;
    ph_mutex_unlock(&table.mutex);
    return closed;
}

double
ph_throttle_score(const char *address, const char *login, int64_t now_us)
{
    g_autofree char *network = network_of(address);
    g_autofree char *pair = pair_key(network, login);
    ph_mutex_lock(&table.mutex);
    double score = lookup_locked(pair, now_us);
    ph_mutex_unlock(&table.mutex);
    return score;
}

void
ph_throttle_forget_all(void)
{
    ph_mutex_lock(&table.mutex);
    g_clear_pointer(&table.scores, g_hash_table_unref);
    ph_mutex_unlock(&table.mutex);
}
