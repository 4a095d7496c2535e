/* settings.h - declaring, checking and publishing settings: for the daemon and management
 *
 * Shape:    rows are declared by core and plugins; values come from the store (or its sealed local
 *           copy); publishing makes a new snapshot of both. Values of undeclared keys are kept, for
 *           plugins that are not loaded.
 * Threads:  anywhere.
 * Errors:   SYNTAX with the key, the value and what is allowed; NOT_FOUND for an undeclared key.
 */
#pragma once

#include "posthouse/settings.h"

typedef struct PhSettingValue {
    char *key;
    PhScope scope;
    int64_t scope_id; /* 0 for global; the node's id for node */
    char *value;      /* canonical, see ph_settings_check */
} PhSettingValue;

void ph_setting_value_free(PhSettingValue *value);

/* The table ends with a null key; it is copied. CONFLICT never: a later declaration of the same key
 * (a new generation of a plugin) takes its place. Republishes. */
void ph_settings_declare(const PhSettingRow *rows);
/* Ends one declaration of each key. */
void ph_settings_undeclare(const PhSettingRow *rows);
/* The declared row, or null. It stays until the process ends. */
const PhSettingRow *ph_settings_row(const char *key);
/* All declared rows by key: GPtrArray of const PhSettingRow*. */
GPtrArray *ph_settings_rows(void);

/* Is this value allowed for this key in this scope? Gives its canonical form (numbers without
 * units). */
bool ph_settings_check(
    const char *key, PhScope scope, const char *value, char **canonical_out, GError **error);

/* Takes the array (GPtrArray of PhSettingValue). Values that their row does not allow are logged
 * and passed over. */
void ph_settings_publish(GPtrArray *values, int64_t node_id);
/* The values of the current snapshot: a new array that shares nothing. */
GPtrArray *ph_settings_values(void);

const char *ph_scope_name(PhScope scope);
bool ph_scope_parse(const char *name, PhScope *scope_out);

/* -- for the sealed local copy ----------------------------------------------------------------- */

#define PH_SETTINGS_VARIANT "a(sixs)"
GVariant *ph_settings_to_variant(void);
GPtrArray *ph_settings_from_variant(GVariant *variant);
