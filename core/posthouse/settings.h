/* settings.h - typed values by key, from the nearest scope, in immutable snapshots
 *
 * Shape:    a row declares a key ("plugin.group.name_unit", lower case), its type, default, range,
 *           the scopes that may set it, and its help. A snapshot holds all values of one moment; a
 *           change makes a new one.
 * Units:    in the key's last word (_bytes, _ms, _s).
 * Threads:  anywhere; take one snapshot per request or command and use it to its end.
 * Errors:   ph_settings_check: SYNTAX, with the key, the value and what is allowed.
 */
#pragma once

#include "posthouse/base.h"

typedef enum PhSettingType {
    PH_SETTING_BOOL,   /* "true", "false" (also on, off, yes, no) */
    PH_SETTING_INT,    /* decimal, within min and max */
    PH_SETTING_SIZE,   /* bytes; also with K, M, G (1024) */
    PH_SETTING_TIME,   /* in the unit of the key; also with ms, s, m, h, d */
    PH_SETTING_TEXT,   /* UTF-8, max is its length in bytes */
    PH_SETTING_CHOICE, /* one of `choices`, divided by "|" */
    PH_SETTING_LIST,   /* words divided by "," */
} PhSettingType;

typedef enum PhScope {
    PH_SCOPE_GLOBAL = 1 << 0,
    PH_SCOPE_NODE = 1 << 1,
    PH_SCOPE_TENANT = 1 << 2,
    PH_SCOPE_DOMAIN = 1 << 3,
    PH_SCOPE_SITE = 1 << 4,
    PH_SCOPE_ACCOUNT = 1 << 5,
} PhScope;

typedef struct PhSettingRow {
    const char *key;
    PhSettingType type;
    const char *default_value;
    int64_t min;
    int64_t max;
    const char *choices;
    unsigned scopes; /* PhScope, or-ed */
    const char *help;
} PhSettingRow;

/* Whom a value is for; null or 0 parts are passed over. The node is always this one. */
typedef struct PhScopeIds {
    int64_t tenant_id;
    int64_t domain_id;
    int64_t site_id;
    int64_t account_id;
} PhScopeIds;

typedef struct PhSettings PhSettings;

/* The current snapshot; a new reference. */
PH_API PhSettings *ph_settings_current(void);
/* Another number when there is another snapshot: what a cache compares. One atomic load. */
PH_API uint64_t ph_settings_generation(void);
PH_API PhSettings *ph_settings_ref(PhSettings *settings);
PH_API void ph_settings_unref(PhSettings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSettings, ph_settings_unref)

/* The key must be declared, with that type (our bug otherwise). `ids` may be null. Strings live as
 * long as the snapshot. */
PH_API bool ph_settings_bool(const PhSettings *settings, const char *key, const PhScopeIds *ids);
PH_API int64_t ph_settings_int(const PhSettings *settings, const char *key, const PhScopeIds *ids);
PH_API const char *ph_settings_text(
    const PhSettings *settings, const char *key, const PhScopeIds *ids);

/* One value of the current snapshot, without a reference to hold: for a single look. */
PH_API bool ph_setting_bool(const char *key);
PH_API int64_t ph_setting_int(const char *key);
