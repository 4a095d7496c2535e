/* login.h - settings and upkeep of logins, for the daemon
 *
 * Threads:  anywhere.
 */
#pragma once

#include "posthouse/login.h"
#include "posthouse/settings.h"

extern const PhSettingRow ph_identity_settings[];
/* Entries of the login cache are checked against the account's version at each login, so forgetting
 * is only about memory. */
void ph_login_cache_clear(void);
