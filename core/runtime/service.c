/* service.c - published tables by name */
#include "posthouse/service.h"

#include "runtime/owner.h"

#include <string.h>

typedef struct Service {
    PhRef ref;
    char *name;
    unsigned version;
    const void *table;
    PhOwner *owner;
    unsigned holders;
} Service;

struct PhServiceHold {
    Service *service;
};

static struct {
    PhMutex mutex;
    GPtrArray *services; /* published now */
} registry = { .mutex = { .rank = PH_LOCK_REGISTRY } };

static void
service_unref(Service *service)
{
    if (!ph_ref_drop(&service->ref))
        return;
    g_free(service->name);
    g_free(service);
}

/* The newest of this name, and with this table where one is given. */
static Service *
find_locked(const char *name, const void *table)
{
    for (guint i = registry.services != NULL ? registry.services->len : 0; i > 0; i--) {
        Service *service = registry.services->pdata[i - 1];
        if (strcmp(service->name, name) == 0 && (table == NULL || service->table == table))
            return service;
    }
    return NULL;
}

/* A new generation of a plugin offers what the old one still does, and takes its place. */
static bool
is_same_plugin(const PhOwner *a, const PhOwner *b)
{
    return a != NULL && b != NULL && a != b && strcmp(a->name, b->name) == 0;
}

bool
ph_service_publish(const char *name, unsigned version, const void *table, GError **error)
{
    ph_mutex_lock(&registry.mutex);
    const Service *present = find_locked(name, NULL);
    bool taken = present != NULL && !is_same_plugin(present->owner, ph_owner_current());
    if (!taken) {
        Service *service = g_new0(Service, 1);
        ph_ref_init(&service->ref);
        service->name = g_strdup(name);
        service->version = version;
        service->table = table;
        service->owner = ph_owner_current();
        if (registry.services == NULL)
            registry.services = g_ptr_array_new();
        g_ptr_array_add(registry.services, service);
    }
    ph_mutex_unlock(&registry.mutex);
    if (taken)
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "service \"%s\" is offered already", name);
    return !taken;
}

void
ph_service_withdraw(const char *name, const void *table)
{
    ph_mutex_lock(&registry.mutex);
    Service *service = find_locked(name, table);
    if (service != NULL)
        g_ptr_array_remove(registry.services, service);
    ph_mutex_unlock(&registry.mutex);
    if (service != NULL)
        service_unref(service);
}

PhServiceHold *
ph_service_hold(const char *name, unsigned version)
{
    PhServiceHold *hold = NULL;
    ph_mutex_lock(&registry.mutex);
    Service *service = find_locked(name, NULL);
    if (service != NULL && service->version >= version) {
        ph_ref_take(&service->ref);
        service->holders++;
        ph_owner_use(service->owner);
        hold = g_new(PhServiceHold, 1);
        hold->service = service;
    }
    ph_mutex_unlock(&registry.mutex);
    return hold;
}

PhServiceHold *
ph_service_hold_again(const PhServiceHold *hold)
{
    PhServiceHold *again = g_new(PhServiceHold, 1);
    again->service = hold->service;
    ph_mutex_lock(&registry.mutex);
    ph_ref_take(&hold->service->ref);
    hold->service->holders++;
    ph_owner_use(hold->service->owner);
    ph_mutex_unlock(&registry.mutex);
    return again;
}

void
ph_services_withdraw_all(const PhOwner *owner)
{
    g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func((GDestroyNotify)service_unref);
    ph_mutex_lock(&registry.mutex);
    for (guint i = registry.services != NULL ? registry.services->len : 0; i > 0; i--) {
        Service *service = registry.services->pdata[i - 1];
        if (service->owner != owner)
            continue;
        g_ptr_array_remove_index(registry.services, i - 1);
        g_ptr_array_add(gone, service);
    }
    ph_mutex_unlock(&registry.mutex);
}

const void *
ph_service_table(const PhServiceHold *hold)
{
    return hold->service->table;
}

void
ph_service_release(PhServiceHold *hold)
{
    if (hold == NULL)
        return;
    Service *service = hold->service;
    ph_mutex_lock(&registry.mutex);
    service->holders--;
    ph_mutex_unlock(&registry.mutex);
    ph_owner_unuse(service->owner);
    service_unref(service);
    g_free(hold);
}

unsigned
ph_service_holders(const char *name, const void *table)
{
    ph_mutex_lock(&registry.mutex);
    const Service *service = find_locked(name, table);
    unsigned holders = service != NULL ? service->holders : 0;
    ph_mutex_unlock(&registry.mutex);
    return holders;
}
