/* upstream.c - the snapshot of upstreams */
#include "runtime/upstream.h"

struct PhUpstreams {
    gatomicrefcount references;
    GPtrArray *list;
    GVariant
        *description; /* to tell whether something changed; null: before the first publishing */
};

static struct {
    PhMutex mutex;
    PhUpstreams *current;
    uint64_t generation;
} published = { .mutex = { .rank = PH_LOCK_SNAPSHOT } };

void
ph_upstream_free(PhUpstream *upstream)
{
    if (upstream == NULL)
        return;
    g_free(upstream->name);
    g_free(upstream->suffix);
    g_free(upstream->urls);
    g_free(upstream->ca);
    g_free(upstream->bind_dn);
    ph_secret_free(upstream->password);
    g_free(upstream);
}

static PhUpstreams *
upstreams_new(GPtrArray *list, GVariant *description)
{
    PhUpstreams *upstreams = g_new(PhUpstreams, 1);
    *upstreams = (PhUpstreams){ .list = list, .description = description };
    g_atomic_ref_count_init(&upstreams->references);
    return upstreams;
}

void
ph_upstreams_publish(GPtrArray *list, GVariant *description)
{
    PhUpstreams *made = upstreams_new(list, g_variant_ref_sink(description));
    ph_mutex_lock(&published.mutex);
    PhUpstreams *old = published.current;
    if (old != NULL && old->description != NULL && g_variant_equal(old->description, description)) {
        old = made;
    } else {
        published.current = made;
        __atomic_add_fetch(&published.generation, 1, __ATOMIC_RELEASE);
    }
    ph_mutex_unlock(&published.mutex);
    ph_upstreams_unref(old);
}

PhUpstreams *
ph_upstreams_current(void)
{
    ph_mutex_lock(&published.mutex);
    if (published.current == NULL)
        published.current =
            upstreams_new(g_ptr_array_new_with_free_func((GDestroyNotify)ph_upstream_free), NULL);
    PhUpstreams *upstreams = ph_upstreams_ref(published.current);
    ph_mutex_unlock(&published.mutex);
    return upstreams;
}

PhUpstreams *
ph_upstreams_ref(PhUpstreams *upstreams)
{
    g_atomic_ref_count_inc(&upstreams->references);
    return upstreams;
}

void
ph_upstreams_unref(PhUpstreams *upstreams)
{
    if (upstreams == NULL || !g_atomic_ref_count_dec(&upstreams->references))
        return;
    g_clear_pointer(&upstreams->description, g_variant_unref);
    g_ptr_array_unref(upstreams->list);
    g_free(upstreams);
}

void
ph_upstreams_forget(void)
{
    ph_mutex_lock(&published.mutex);
    PhUpstreams *old = g_steal_pointer(&published.current);
    ph_mutex_unlock(&published.mutex);
    ph_upstreams_unref(old);
}

uint64_t
ph_upstreams_generation(void)
{
    return __atomic_load_n(&published.generation, __ATOMIC_ACQUIRE);
}

size_t
ph_upstreams_count(const PhUpstreams *upstreams)
{
    return upstreams->list->len;
}

const PhUpstream *
ph_upstreams_at(const PhUpstreams *upstreams, size_t index)
{
    return index < upstreams->list->len ? upstreams->list->pdata[index] : NULL;
}

GVariant *
ph_upstreams_description(void)
{
    g_autoptr(PhUpstreams) upstreams = ph_upstreams_current();
    return upstreams->description != NULL ? g_variant_ref(upstreams->description) : NULL;
}
