/* service.h - how plugins meet: named, versioned tables of functions
 *
 * Shape:    a provider publishes a constant table; a user holds it by name and least version. A
 *           held service keeps its provider mapped; ph_service_hold() gives null after the
 *           provider's stop began.
 * Threads:  anywhere.
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhServiceHold PhServiceHold;

/* CONFLICT when the name is published by another. A new generation of the same plugin takes the
 * place of the old one; holders of the old table keep it. */
PH_API bool ph_service_publish(
    const char *name, unsigned version, const void *table, GError **error);
/* Waits for nobody: holders keep the table until they release it. */
PH_API void ph_service_withdraw(const char *name, const void *table);
/* Null when nobody offers it in this version or a later one. */
PH_API PhServiceHold *ph_service_hold(const char *name, unsigned version);
/* One more hold on the same table, also when it is not offered any more. */
PH_API PhServiceHold *ph_service_hold_again(const PhServiceHold *hold);
PH_API const void *ph_service_table(const PhServiceHold *hold);
PH_API void ph_service_release(PhServiceHold *hold);
/* How many hold this table now. */
PH_API unsigned ph_service_holders(const char *name, const void *table);
