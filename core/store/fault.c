/* fault.c - points at which test builds fail on purpose */
#include "store/internal.h"

#ifdef PH_TEST_POINTS

#include <stdlib.h>
#include <string.h>

static PhMutex fault_lock;
static GHashTable *faults; /* point -> passages left before it fails */

static void
arm_locked(const char *point, unsigned passage)
{
    g_hash_table_replace(faults, g_strdup(point), GUINT_TO_POINTER(passage));
}

static void
read_environment_locked(void)
{
    faults = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const char *spec = g_getenv("PH_FAULT");
    g_auto(GStrv) parts = g_strsplit(spec != NULL ? spec : "", ",", -1);
    for (char **part = parts; *part != NULL; part++) {
        char *colon = strchr(*part, ':');
        if (colon == NULL)
            continue;
        *colon = '\0';
        arm_locked(*part, (unsigned)g_ascii_strtoull(colon + 1, NULL, 10));
    }
}

static void
lock_faults(void)
{
    static gsize once;
    if (g_once_init_enter(&once)) {
        ph_mutex_init(&fault_lock, PH_LOCK_STORE);
        g_once_init_leave(&once, 1);
    }
    ph_mutex_lock(&fault_lock);
}

void
ph_fault_arm(const char *point, unsigned passage)
{
    lock_faults();
    if (faults == NULL)
        read_environment_locked();
    arm_locked(point, passage);
    ph_mutex_unlock(&fault_lock);
}

bool
ph_fault(const char *point)
{
    lock_faults();
    if (faults == NULL)
        read_environment_locked();
    unsigned left = GPOINTER_TO_UINT(g_hash_table_lookup(faults, point));
    if (left > 0)
        arm_locked(point, left - 1);
    ph_mutex_unlock(&fault_lock);
    return left == 1;
}

#endif
