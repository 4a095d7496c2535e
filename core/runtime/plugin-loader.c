/* plugin-loader.c - generations of plugins
 *
 * An image is mapped from a copy whose name holds a digest of its bytes, because the dynamic loader
 * gives the old image when the same path is opened again. An image is unmapped only when nothing is
 * counted for its owner; never under a sanitizer, which could not name its frames any more.
 */
#include "runtime/plugin-loader.h"

#include "posthouse/log.h"
#include "runtime/connection.h"
#include "runtime/listener.h"
#include "runtime/owner.h"
#include "runtime/settings.h"

#include <config.h>
#include <errno.h>
#include <glib/gstdio.h>
#include <gmodule.h>
#include <string.h>
#include <unistd.h>

typedef struct Generation {
    PhOwner owner;
    char *name;
    char *file;
    char *image; /* the copy */
    char *error;
    unsigned number;
    PhPluginState state;
    GModule *module;
    const PhPlugin *plugin;
    bool stopping; /* ph_plugin_stop() waits for its sessions, without the lock */
    GPtrArray *listeners;
    bool started;
} Generation;

static struct {
    PhMutex mutex;
    char *folder;
    char *run_folder;
    GPtrArray *generations; /* in order of start */
    bool is_drained;
    bool is_incomplete; /* a service could not be opened again: tried until it can */
    unsigned last_number;
} loader = { .mutex = { .rank = PH_LOCK_PLUGIN } };

const char *
ph_plugin_state_name(PhPluginState state)
{
    static const char *const names[] = {
        [PH_PLUGIN_STOPPED] = "stopped",
        [PH_PLUGIN_SERVING] = "serving",
        [PH_PLUGIN_DRAINING] = "draining",
        [PH_PLUGIN_FAILED] = "failed",
    };
    return names[state];
}

void
ph_plugin_info_free(PhPluginInfo *info)
{
    g_free(info->name);
    g_free(info->summary);
    g_free(info->file);
    g_free(info->error);
    g_free(info);
}

static void
generation_free(Generation *generation)
{
#ifndef PH_SANITIZED
    if (generation->module != NULL)
        g_module_close(generation->module);
#endif
    if (generation->image != NULL)
        g_unlink(generation->image);
    g_ptr_array_unref(generation->listeners);
    g_free(generation->name);
    g_free(generation->file);
    g_free(generation->image);
    g_free(generation->error);
    g_free(generation);
}

void
ph_plugins_init(const char *folder, const char *run_folder)
{
    loader.folder = g_strdup(folder);
    loader.run_folder = g_strdup(run_folder);
    loader.generations = g_ptr_array_new();
    g_mkdir_with_parents(run_folder, 0700);
}

static Generation *
find_locked(const char *name, PhPluginState state)
{
    for (guint i = 0; i < loader.generations->len; i++) {
        Generation *generation = loader.generations->pdata[i];
        if (generation->state == state && strcmp(generation->name, name) == 0)
            return generation;
    }
    return NULL;
}

/* -- loading ----------------------------------------------------------------------------------- */

static bool
copy_image(Generation *generation, GError **error)
{
    g_autofree char *bytes = NULL;
    size_t length;
    g_autoptr(GError) cause = NULL;
    if (!g_file_get_contents(generation->file, &bytes, &length, &cause)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "plugin \"%s\": %s", generation->name,
            cause->message);
        return false;
    }
    g_autofree char *digest =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)bytes, length);
    generation->image = g_strdup_printf(
        "%s/%s-%.16s-%u.so", loader.run_folder, generation->name, digest, generation->number);
    if (!g_file_set_contents_full(
            generation->image, bytes, (gssize)length, G_FILE_SET_CONTENTS_NONE, 0700, &cause)) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "plugin \"%s\": %s", generation->name,
            cause->message);
        return false;
    }
    return true;
}

static bool
check_abi(const char *name, const PhPlugin *plugin, GError **error)
{
    unsigned major = plugin->abi >> 16;
    unsigned minor = plugin->abi & 0xffff;
    if (major == PH_PLUGIN_ABI_MAJOR && minor <= PH_PLUGIN_ABI_MINOR &&
        plugin->size >= offsetof(PhPlugin, start) && PH_HAS(plugin, stop))
        return true;
    g_set_error(error, PH_ERROR, PH_ERROR_ABI,
        "plugin \"%s\" speaks ABI %u.%u, this server speaks %d.%d", name, major, minor,
        PH_PLUGIN_ABI_MAJOR, PH_PLUGIN_ABI_MINOR);
    return false;
}

static bool
map_image(Generation *generation, GError **error)
{
    generation->module = g_module_open(generation->image, G_MODULE_BIND_LOCAL);
    if (generation->module == NULL) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_ABI, "plugin \"%s\": %s", generation->name, g_module_error());
        return false;
    }
    gpointer symbol;
    if (!g_module_symbol(generation->module, "posthouse_plugin", &symbol)) {
        g_set_error(error, PH_ERROR, PH_ERROR_ABI, "plugin \"%s\" has no posthouse_plugin",
            generation->name);
        return false;
    }
    const PhPlugin *plugin = symbol;
    if (!check_abi(generation->name, plugin, error))
        return false;
    if (strcmp(plugin->name, generation->name) != 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "\"%s\" holds the plugin \"%s\"",
            generation->file, plugin->name);
        return false;
    }
    generation->plugin = plugin;
    return true;
}

/* Maps and starts; no listener yet. */
static bool
start_code(Generation *generation, GError **error)
{
    if (!copy_image(generation, error) || !map_image(generation, error))
        return false;
    const PhPlugin *plugin = generation->plugin;
    if (plugin->settings != NULL)
        ph_settings_declare(plugin->settings);
    PhOwner *previous = ph_owner_enter(&generation->owner);
    generation->started = plugin->start == NULL || plugin->start(&generation->owner.state, error);
    ph_owner_leave(previous);
    if (generation->started)
        return true;
    if (plugin->settings != NULL)
        ph_settings_undeclare(plugin->settings);
    g_prefix_error(error, "plugin \"%s\": ", generation->name);
    return false;
}

static void
stop_code(Generation *generation)
{
    const PhPlugin *plugin = generation->plugin;
    if (!generation->started)
        return;
    generation->started = false;
    PhOwner *previous = ph_owner_enter(&generation->owner);
    if (plugin->stop != NULL)
        plugin->stop(generation->owner.state);
    ph_owner_leave(previous);
    if (plugin->settings != NULL)
        ph_settings_undeclare(plugin->settings);
}

static Generation *
generation_new(const char *name, const char *path)
{
    Generation *generation = g_new0(Generation, 1);
    generation->name = g_strdup(name);
    generation->owner.name = generation->name;
    generation->number = ++loader.last_number;
    generation->file =
        path != NULL ? g_strdup(path) : g_strdup_printf("%s/%s.so", loader.folder, name);
    generation->listeners = g_ptr_array_new();
    return generation;
}

static bool
is_open(const Generation *generation, const PhServiceRow *service)
{
    for (guint i = 0; i < generation->listeners->len; i++)
        if (strcmp(ph_listeners_name(generation->listeners->pdata[i]), service->name) == 0)
            return true;
    return false;
}

/* A service with implicit TLS waits for a certificate. */
static bool
is_offered(const PhServiceRow *service)
{
    if (service->tls != PH_TLS_IMPLICIT || ph_tls_is_available())
        return true;
    ph_log(PH_LOG_WARNING, "plugin.no-certificate", "service=%s is not offered: it needs TLS",
        service->name);
    return false;
}

/* Those that are not open yet. */
static bool
open_services_locked(Generation *generation, GError **error)
{
    const PhServiceRow *service = generation->plugin->services;
    for (; service != NULL && service->name != NULL; service++) {
        if (is_open(generation, service) || (loader.is_drained && !service->apart) ||
            !is_offered(service))
            continue;
        PhListeners *listeners = ph_listeners_open(service, &generation->owner, error);
        if (listeners == NULL)
            return false;
        g_ptr_array_add(generation->listeners, listeners);
    }
    return true;
}

static void
close_services(Generation *generation, void (*close_one)(PhListeners *listeners))
{
    for (guint i = 0; i < generation->listeners->len; i++)
        close_one(generation->listeners->pdata[i]);
    g_ptr_array_set_size(generation->listeners, 0);
}

/* -- the end of sessions ----------------------------------------------------------------------- */

static void
say_farewell(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_farewell(reactor, data, NULL, PH_FAREWELL_STOPPING);
}

static void
abort_sessions(PhReactor *reactor, void *data)
{
    ph_assert_on_reactor();
    ph_connection_abort_all(reactor, data);
}

static bool
wait_unused(const PhOwner *owner, int64_t deadline_ms)
{
    int64_t until_us = ph_monotonic_us() + deadline_ms * 1000;
    while (ph_owner_uses(owner) > 0) {
        if (ph_monotonic_us() >= until_us)
            return false;
        g_usleep(5000);
    }
    return true;
}

/* False: something still needs the code of this generation, which must stay mapped. */
static bool
end_sessions(Generation *generation, int64_t deadline_ms)
{
    enum { ABORT_WAIT_MS = 30 * 1000 };
    ph_services_withdraw_all(&generation->owner);
    ph_reactors_call_blocking(say_farewell, &generation->owner);
    if (wait_unused(&generation->owner, deadline_ms))
        return true;
    ph_reactors_call_blocking(abort_sessions, &generation->owner);
    if (wait_unused(&generation->owner, ABORT_WAIT_MS))
        return true;
    ph_log(PH_LOG_ERROR, "plugin.stuck", "plugin=%s uses=%d it stays mapped", generation->name,
        ph_owner_uses(&generation->owner));
    return false;
}

/* -- starting ---------------------------------------------------------------------------------- */

static void
forget_failed_locked(const char *name)
{
    Generation *failed = find_locked(name, PH_PLUGIN_FAILED);
    if (failed == NULL)
        return;
    g_ptr_array_remove(loader.generations, failed);
    generation_free(failed);
}

static void
remember_failure_locked(Generation *generation, PhPluginState state, const GError *error)
{
    generation->state = state;
    generation->error = g_strdup(error->message);
    g_ptr_array_add(loader.generations, generation);
    ph_log(PH_LOG_ERROR, "plugin.failed", "%s", error->message);
}

static bool
start_locked(const char *name, const char *path, GError **error)
{
    if (find_locked(name, PH_PLUGIN_SERVING) != NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT, "plugin \"%s\" is serving already", name);
        return false;
    }
    forget_failed_locked(name);
    Generation *generation = generation_new(name, path);
    g_autoptr(GError) cause = NULL;
    if (!start_code(generation, &cause) || !open_services_locked(generation, &cause)) {
        close_services(generation, ph_listeners_release);
        /* A service that was open for a moment may have a session already. */
        PhPluginState state = PH_PLUGIN_DRAINING;
        if (end_sessions(generation, 0)) {
            stop_code(generation);
            state = PH_PLUGIN_FAILED;
        }
        remember_failure_locked(generation, state, cause);
        g_propagate_error(error, g_steal_pointer(&cause));
        return false;
    }
    generation->state = PH_PLUGIN_SERVING;
    g_ptr_array_add(loader.generations, generation);
    ph_log(PH_LOG_NOTICE, "plugin.serving", "plugin=%s generation=%u", name, generation->number);
    return true;
}

bool
ph_plugin_start(const char *name, const char *path, GError **error)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    bool good = start_locked(name, path, error);
    ph_mutex_unlock(&loader.mutex);
    return good;
}

/* -- replacing --------------------------------------------------------------------------------- */

static const PhServiceRow *
find_service(const PhPlugin *plugin, const char *name)
{
    for (const PhServiceRow *row = plugin->services; row != NULL && row->name != NULL; row++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

/* Listeners of services that both have are handed over; the others are closed or opened. */
static bool
take_over_services(Generation *old, Generation *new_, GError **error)
{
    for (guint i = 0; i < old->listeners->len; i++) {
        PhListeners *listeners = old->listeners->pdata[i];
        const PhServiceRow *service = find_service(new_->plugin, ph_listeners_name(listeners));
        if (service == NULL) {
            ph_listeners_release(listeners);
            continue;
        }
        ph_listeners_retarget(listeners, service, &new_->owner);
        g_ptr_array_add(new_->listeners, listeners);
    }
    g_ptr_array_set_size(old->listeners, 0);

    return open_services_locked(new_, error);
}

static bool
replace_locked(const char *name, const char *path, GError **error)
{
    Generation *old = find_locked(name, PH_PLUGIN_SERVING);
    if (old == NULL)
        return start_locked(name, path, error);
    Generation *generation = generation_new(name, path != NULL ? path : old->file);
    if (!start_code(generation, error)) {
        generation_free(generation);
        return false;
    }
    /* A new service that cannot listen does not undo the rest: it is told, and can be tried
     * again. */
    g_autoptr(GError) cause = NULL;
    if (!take_over_services(old, generation, &cause))
        ph_log(PH_LOG_ERROR, "plugin.service-failed", "%s", cause->message);
    ph_services_withdraw_all(&old->owner);
    old->state = PH_PLUGIN_DRAINING;
    generation->state = PH_PLUGIN_SERVING;
    g_ptr_array_add(loader.generations, generation);
    ph_log(PH_LOG_NOTICE, "plugin.replaced", "plugin=%s generation=%u old=%u sessions=%d", name,
        generation->number, old->number, ph_owner_uses(&old->owner));
    return true;
}

bool
ph_plugin_replace(const char *name, const char *path, GError **error)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    bool good = replace_locked(name, path, error);
    ph_mutex_unlock(&loader.mutex);
    return good;
}

/* -- stopping ---------------------------------------------------------------------------------- */

/* Nothing needs its code any more. */
static void
forget_generation_locked(Generation *generation)
{
    stop_code(generation);
    ph_log(PH_LOG_NOTICE, "plugin.stopped", "plugin=%s generation=%u", generation->name,
        generation->number);
    g_ptr_array_remove(loader.generations, generation);
    generation_free(generation);
}

static void
end_generation_locked(
    Generation *generation, int64_t deadline_ms, void (*close_one)(PhListeners *listeners))
{
    close_services(generation, close_one);
    if (!end_sessions(generation, deadline_ms)) {
        generation->state = PH_PLUGIN_DRAINING;
        return;
    }
    forget_generation_locked(generation);
}

bool
ph_plugin_stop(const char *name, int64_t deadline_ms, GError **error)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    Generation *generation = find_locked(name, PH_PLUGIN_SERVING);
    if (generation == NULL) {
        /* One that failed to start is put away. */
        bool had_failed = find_locked(name, PH_PLUGIN_FAILED) != NULL;
        forget_failed_locked(name);
        ph_mutex_unlock(&loader.mutex);
        if (!had_failed)
            g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "plugin \"%s\" is not serving", name);
        return had_failed;
    }
    close_services(generation, ph_listeners_release);
    generation->state = PH_PLUGIN_DRAINING;
    generation->stopping = true;
    ph_mutex_unlock(&loader.mutex);
    /* Its sessions may take long: nobody else waits for them. */
    bool ended = end_sessions(generation, deadline_ms);
    ph_mutex_lock(&loader.mutex);
    generation->stopping = false;
    if (ended)
        forget_generation_locked(generation);
    ph_mutex_unlock(&loader.mutex);
    return true;
}

void
ph_plugins_stop_all(int64_t deadline_ms)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    /* All stop listening and say farewell first, then each is waited for: one deadline, not one
     * each. */
    int64_t until_us = ph_monotonic_us() + deadline_ms * 1000;
    for (guint i = 0; i < loader.generations->len; i++) {
        Generation *generation = loader.generations->pdata[i];
        close_services(generation, ph_listeners_close);
        ph_reactors_call_blocking(say_farewell, &generation->owner);
    }
    for (guint i = loader.generations->len; i > 0; i--) {
        int64_t left_ms = MAX(0, (until_us - ph_monotonic_us()) / 1000);
        end_generation_locked(loader.generations->pdata[i - 1], left_ms, ph_listeners_close);
    }
    ph_mutex_unlock(&loader.mutex);
}

/* -- draining the node ------------------------------------------------------------------------- */

static bool
is_apart(const Generation *generation)
{
    const PhServiceRow *service = generation->plugin->services;
    return service == NULL || service->name == NULL || service->apart;
}

bool
ph_plugins_set_drained(bool drained)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    bool changed = loader.is_drained != drained;
    loader.is_drained = drained;
    for (guint i = 0; changed && loader.generations != NULL && i < loader.generations->len; i++) {
        Generation *generation = loader.generations->pdata[i];
        if (generation->state != PH_PLUGIN_SERVING || is_apart(generation))
            continue;
        g_autoptr(GError) error = NULL;
        if (drained) {
            close_services(generation, ph_listeners_release);
            ph_reactors_call_blocking(say_farewell, &generation->owner);
        } else if (!open_services_locked(generation, &error)) {
            ph_log(PH_LOG_ERROR, "plugin.not-open", "%s", error->message);
            loader.is_incomplete = true;
        }
    }
    ph_mutex_unlock(&loader.mutex);
    if (changed)
        ph_log(PH_LOG_NOTICE, drained ? "node.drained" : "node.serving", "%s",
            drained ? "no new connections; sessions were asked to go elsewhere"
                    : "connections are welcome");
    return changed;
}

static void
open_what_is_missing_locked(void)
{
    loader.is_incomplete = false;
    for (guint i = 0; !loader.is_drained && i < loader.generations->len; i++) {
        Generation *generation = loader.generations->pdata[i];
        if (generation->state == PH_PLUGIN_SERVING && !open_services_locked(generation, NULL))
            loader.is_incomplete = true;
    }
}

void
ph_plugins_reap(void)
{
    ph_assert_in_job();
    ph_mutex_lock(&loader.mutex);
    if (loader.is_incomplete)
        open_what_is_missing_locked();
    for (guint i = loader.generations->len; i > 0; i--) {
        Generation *generation = loader.generations->pdata[i - 1];
        if (generation->state == PH_PLUGIN_DRAINING && !generation->stopping &&
            ph_owner_uses(&generation->owner) == 0)
            end_generation_locked(generation, 0, ph_listeners_close);
    }
    ph_mutex_unlock(&loader.mutex);
}

/* -- lists ------------------------------------------------------------------------------------- */

GPtrArray *
ph_plugins_list(void)
{
    GPtrArray *infos = g_ptr_array_new_with_free_func((GDestroyNotify)ph_plugin_info_free);
    ph_mutex_lock(&loader.mutex);
    for (guint i = 0; i < loader.generations->len; i++) {
        const Generation *generation = loader.generations->pdata[i];
        PhPluginInfo *info = g_new0(PhPluginInfo, 1);
        info->name = g_strdup(generation->name);
        info->summary = generation->plugin != NULL ? g_strdup(generation->plugin->summary) : NULL;
        info->file = g_strdup(generation->file);
        info->error = g_strdup(generation->error);
        info->state = generation->state;
        info->generation = generation->number;
        info->uses = ph_owner_uses(&generation->owner);
        g_ptr_array_add(infos, info);
    }
    ph_mutex_unlock(&loader.mutex);
    return infos;
}

void
ph_plugins_each_service(void (*func)(const char *name, int port, void *data), void *data)
{
    ph_mutex_lock(&loader.mutex);
    for (guint i = 0; loader.generations != NULL && i < loader.generations->len; i++) {
        const Generation *generation = loader.generations->pdata[i];
        for (guint k = 0; k < generation->listeners->len; k++) {
            const PhListeners *listeners = generation->listeners->pdata[k];
            func(ph_listeners_name(listeners), ph_listeners_port(listeners), data);
        }
    }
    ph_mutex_unlock(&loader.mutex);
}

void
ph_plugins_each_actions(
    void (*func)(const char *plugin, const PhActionRow *rows, void *data), void *data)
{
    ph_mutex_lock(&loader.mutex);
    for (guint i = 0; loader.generations != NULL && i < loader.generations->len; i++) {
        Generation *generation = loader.generations->pdata[i];
        if (generation->state != PH_PLUGIN_SERVING || generation->plugin->actions == NULL)
            continue;
        PhOwner *previous = ph_owner_enter(&generation->owner);
        func(generation->name, generation->plugin->actions, data);
        ph_owner_leave(previous);
    }
    ph_mutex_unlock(&loader.mutex);
}
