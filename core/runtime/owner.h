/* owner.h - whose code is running: the generation of a plugin that sessions, tasks and jobs belong
 * to
 *
 * Shape:    an owner counts what still needs its code. The runtime enters it around each callback
 *           and job, so that what is made meanwhile (tasks, outgoing connections) is counted for it
 *           too.
 * Threads:  anywhere; the current owner is the thread's.
 */
#pragma once

#include "posthouse/base.h"

typedef struct PhOwner {
    int uses;
    const char *name;
    void *state; /* given to sessions as plugin_state */
} PhOwner;

/* Returns what was current, for ph_owner_leave(). `owner` may be null: the core. */
PhOwner *ph_owner_enter(PhOwner *owner);
void ph_owner_leave(PhOwner *previous);
PhOwner *ph_owner_current(void);
void ph_owner_use(PhOwner *owner);
void ph_owner_unuse(PhOwner *owner);
int ph_owner_uses(const PhOwner *owner);
/* The services that this owner published are offered no more: before its sessions end, so that nobody
 * new takes hold of code that is to be unmapped. In service.c. */
void ph_services_withdraw_all(const PhOwner *owner);
