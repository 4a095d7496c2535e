/* throttle.h - failures are remembered, by address and by account from an address
 *
 * Shape:    a score per key that rises with each failure and halves every five minutes. IPv6
 *           addresses count by /64. The account alone is never a key: nobody can lock another
 *           person out.
 * Threads:  anywhere.
 * Limits:   at most 100,000 keys; the coldest go first.
 */
#pragma once

#include "posthouse/base.h"

void ph_throttle_failed(const char *address, const char *login, int64_t now_us);
/* A success forgives what this account failed from this address. */
void ph_throttle_succeeded(const char *address, const char *login);
/* Above the limits: the attempt is answered "no" without a look. */
bool ph_throttle_is_closed(const char *address, const char *login, int64_t now_us,
    double address_limit, double login_limit);
double ph_throttle_score(const char *address, const char *login, int64_t now_us);
void ph_throttle_forget_all(void);
