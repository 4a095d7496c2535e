/* rights.c - the one place where it is decided who may do what to a mailbox */
#include "store/internal.h"

bool
ph_right_check(int64_t actor_id, int64_t owner_id, PhRight right, GError **error)
{
    (void)right; /* the owner has them all; others do not even see the mailbox */
    if (actor_id == owner_id)
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no such mailbox");
    return false;
}
