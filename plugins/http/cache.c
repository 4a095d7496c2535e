/* cache.c - what is known of files, per reactor
 *
 * Three things are hard here. (1) A disk may be slow and a reactor may not wait: everything is first
 * tried in ways that only look at the kernel's memory (RESOLVE_CACHED, RWF_NOWAIT), and done in a job
 * when that is not enough. (2) What is sent must be what the disk had at most http.cache.revalidate_ms
 * ago: an entry is opened again by its path after that time, and kept only when it is still the same
 * file, size and time. (3) Memory is bounded, also against somebody who asks for a million names that
 * are not there: every entry has its cost, and the oldest go.
 */
#include "http.h"

#include "posthouse/beneath.h"
#include "posthouse/log.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    ENTRY_COST_BYTES = 1024, /* of what is around the body */
    FILE_COST_BYTES = 8192,  /* so that open files are few, too */
    FILES_MAX = 2000,        /* per reactor */
};

static const char *const index_names[] = { "index.html", "index.lp", "index.lua" };

typedef struct RootSlot {
    char *name;
    HttpRoot *root;
    int64_t checked_us;
} RootSlot;

struct HttpCache {
    HttpLocal *local;
    GHashTable *roots;       /* name -> RootSlot */
    GHashTable *entries;     /* HttpEntry, by root, path and encoding */
    const char *last_folder; /* of the last look-up, by its place in the snapshot of sites ... */
    const char *last_below;
    uint64_t last_sites; /* ... of this generation */
    RootSlot *last_slot;
    HttpEntry *newest;
    HttpEntry *oldest;
    int64_t bytes;
    unsigned n_files;
};

/* -- roots ------------------------------------------------------------------------------------- */

HttpRoot *
http_root_ref(HttpRoot *root)
{
    ph_ref_take(&root->ref);
    return root;
}

void
http_root_unref(HttpRoot *root)
{
    if (root == NULL || !ph_ref_drop(&root->ref))
        return;
    close(root->fd);
    g_free(root->name);
    g_free(root);
}

/* The route's folder is opened below the site's, so that it cannot lead out of it. */
HttpRoot *
http_root_open(const char *folder, const char *below, unsigned flags, GError **error)
{
    int fd = ph_open_folder(folder, flags, error);
    if (fd >= 0 && below[0] != '\0') {
        int outer = fd;
        fd = ph_open_beneath(outer, below, flags, error);
        close(outer);
    }
    if (fd < 0)
        return NULL;
    HttpRoot *root = g_new0(HttpRoot, 1);
    ph_ref_init(&root->ref);
    root->fd = fd;
    root->name = g_strconcat(folder, "\n", below, NULL);
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "\"%s/%s\" is no folder", folder, below);
        http_root_unref(root);
        return NULL;
    }
    root->device = status.st_dev;
    root->inode = status.st_ino;
    return root;
}

static void
free_slot(void *data)
{
    RootSlot *slot = data;
    http_root_unref(slot->root);
    g_free(slot->name);
    g_free(slot);
}

/* -- entries ----------------------------------------------------------------------------------- */

HttpEntry *
http_entry_ref(HttpEntry *entry)
{
    entry->references++;
    return entry;
}

void
http_entry_unref(HttpEntry *entry)
{
    if (entry == NULL || --entry->references > 0)
        return;
    http_root_unref(entry->root);
    ph_file_unref(entry->file);
    if (entry->body != NULL)
        g_bytes_unref(entry->body);
    g_free(entry->path);
    g_free(entry->file_path);
    g_free(entry->head);
    g_free(entry);
}

static unsigned
hash_of(const HttpRoot *root, const char *path, HttpEncoding encoding)
{
    return g_str_hash(path) ^ g_direct_hash(root) ^ (unsigned)encoding;
}

static guint
entry_hash(gconstpointer data)
{
    return ((const HttpEntry *)data)->hash;
}

static gboolean
entry_equal(gconstpointer left, gconstpointer right)
{
    const HttpEntry *a = left;
    const HttpEntry *b = right;
    return a->hash == b->hash && a->root == b->root && a->encoding == b->encoding &&
           strcmp(a->path, b->path) == 0;
}

static void
unlink_entry(HttpCache *cache, HttpEntry *entry)
{
    if (entry->newer != NULL)
        entry->newer->older = entry->older;
    else
        cache->newest = entry->older;
    if (entry->older != NULL)
        entry->older->newer = entry->newer;
    else
        cache->oldest = entry->newer;
    entry->newer = entry->older = NULL;
}

static void
link_newest(HttpCache *cache, HttpEntry *entry)
{
    entry->older = cache->newest;
    if (cache->newest != NULL)
        cache->newest->newer = entry;
    else
        cache->oldest = entry;
    cache->newest = entry;
}

static void
touch_entry(HttpCache *cache, HttpEntry *entry)
{
    if (cache->newest == entry)
        return;
    unlink_entry(cache, entry);
    link_newest(cache, entry);
}

static void
drop_entry(HttpCache *cache, HttpEntry *entry)
{
    g_hash_table_remove(cache->entries, entry);
    unlink_entry(cache, entry);
    cache->bytes -= (int64_t)entry->cost;
    cache->n_files -= entry->file != NULL;
    entry->is_listed = false;
    http_entry_unref(entry);
}

/* Takes the entry. It may leave at once, when the budget is small. */
static void
add_entry(HttpCache *cache, HttpEntry *entry)
{
    HttpEntry *old = g_hash_table_lookup(cache->entries, entry);
    if (old != NULL)
        drop_entry(cache, old);
    entry->cost = ENTRY_COST_BYTES + 2 * strlen(entry->path) +
                  (entry->body != NULL ? g_bytes_get_size(entry->body) : 0) +
                  (entry->file != NULL ? FILE_COST_BYTES : 0);
    entry->is_listed = true;
    g_hash_table_add(cache->entries, entry);
    link_newest(cache, entry);
    cache->bytes += (int64_t)entry->cost;
    cache->n_files += entry->file != NULL;
    while (cache->oldest != NULL &&
           (cache->bytes > cache->local->config.cache_bytes || cache->n_files > FILES_MAX))
        drop_entry(cache, cache->oldest);
}

/* What was known below a folder that another one has taken the place of. */
static void
drop_entries_of(HttpCache *cache, const HttpRoot *root)
{
    for (HttpEntry *entry = cache->oldest; entry != NULL;) {
        HttpEntry *next = entry->newer;
        if (entry->root == root)
            drop_entry(cache, entry);
        entry = next;
    }
}

/* Takes the root. */
static void
replace_root(HttpCache *cache, RootSlot *slot, HttpRoot *root)
{
    if (slot->root != NULL)
        drop_entries_of(cache, slot->root);
    http_root_unref(slot->root);
    slot->root = root;
}

/* -- looking at the disk: on a reactor with what is in memory, or in a job ---------------------- */

typedef struct Lookup {
    HttpExchange *exchange;
    HttpFound found;
    /* In. */
    HttpRoot *root; /* null: to be opened */
    char *folder;
    char *below;
    char *path;
    HttpEncoding encoding;
    HttpEntry *previous; /* to compare with; null: none. Not touched in a job */
    struct stat previous_status;
    bool has_previous;
    /* Out. */
    HttpRoot *opened_root;
    HttpEntryKind kind;
    char *file_path;
    PhFile *file;
    struct stat status;
    GBytes *body;
    unsigned offered;
    bool is_same; /* as `previous_status`: nothing was read */
    GError *error;
} Lookup;

typedef enum LookResult { LOOK_DONE, LOOK_NOT_IN_MEMORY, LOOK_FAILED } LookResult;

static LookResult
look_failed(Lookup *lookup, GError **cause)
{
    PhError code = ph_error_code(*cause);
    if (code == PH_ERROR_UNAVAILABLE) {
        g_clear_error(cause);
        return LOOK_NOT_IN_MEMORY;
    }
    if (code == PH_ERROR_NOT_FOUND || code == PH_ERROR_DENIED) {
        lookup->kind = code == PH_ERROR_DENIED ? HTTP_ENTRY_DENIED : HTTP_ENTRY_MISSING;
        g_clear_error(cause);
        return LOOK_DONE;
    }
    lookup->error = g_steal_pointer(cause);
    return LOOK_FAILED;
}

/* Does this file exist, as old as the original or younger? Then it is offered. */
static LookResult
look_for_variant(Lookup *lookup, const HttpRoot *root, HttpEncoding encoding, unsigned flags)
{
    g_autofree char *path = g_strconcat(lookup->file_path, http_encoding_suffix(encoding), NULL);
    g_autoptr(GError) cause = NULL;
    int fd = ph_open_beneath(root->fd, path, flags, &cause);
    if (fd < 0)
        return ph_error_code(cause) == PH_ERROR_UNAVAILABLE ? LOOK_NOT_IN_MEMORY : LOOK_DONE;
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_mtime >= lookup->status.st_mtime)
        lookup->offered |= 1U << encoding;
    close(fd);
    return LOOK_DONE;
}

static LookResult
look_for_variants(Lookup *lookup, const HttpRoot *root, unsigned flags)
{
    lookup->offered = 1U << HTTP_ENCODING_IDENTITY;
    if (lookup->encoding != HTTP_ENCODING_IDENTITY ||
        !http_is_compressible(http_content_type(lookup->file_path)))
        return LOOK_DONE;
    LookResult result = look_for_variant(lookup, root, HTTP_ENCODING_GZIP, flags);
    if (result == LOOK_DONE)
        result = look_for_variant(lookup, root, HTTP_ENCODING_BR, flags);
    return result;
}

static bool
is_same_status(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static LookResult
read_body(Lookup *lookup, unsigned flags)
{
    size_t size = (size_t)lookup->status.st_size;
    g_autofree uint8_t *bytes = g_malloc(MAX(size, 1));
    size_t got = 0;
    while (got < size) {
        struct iovec part = { .iov_base = bytes + got, .iov_len = size - got };
        ssize_t n = preadv2(ph_file_fd(lookup->file), &part, 1, (off_t)got,
            (flags & PH_BENEATH_CACHED) != 0 ? RWF_NOWAIT : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EOPNOTSUPP) && (flags & PH_BENEATH_CACHED) != 0)
            return LOOK_NOT_IN_MEMORY;
        if (n <= 0) {
            g_set_error(&lookup->error, PH_ERROR, PH_ERROR_TEMPORARY, "read \"%s\": %s",
                lookup->file_path, n < 0 ? g_strerror(errno) : "it became shorter");
            return LOOK_FAILED;
        }
        got += (size_t)n;
    }
    lookup->body = g_bytes_new_take(g_steal_pointer(&bytes), size);
    return LOOK_DONE;
}

static bool
is_page_path(const char *path)
{
    return g_str_has_suffix(path, ".lua") || g_str_has_suffix(path, ".lp");
}

/* The file is open: what is it? */
static LookResult
look_at_file(Lookup *lookup, const HttpRoot *root, unsigned flags)
{
    if (fstat(ph_file_fd(lookup->file), &lookup->status) != 0) {
        g_set_error(&lookup->error, PH_ERROR, PH_ERROR_TEMPORARY, "look at \"%s\": %s",
            lookup->file_path, g_strerror(errno));
        return LOOK_FAILED;
    }
    if (S_ISDIR(lookup->status.st_mode)) {
        lookup->kind = HTTP_ENTRY_FOLDER;
        return LOOK_DONE;
    }
    if (!S_ISREG(lookup->status.st_mode)) {
        lookup->kind = HTTP_ENTRY_MISSING;
        return LOOK_DONE;
    }
    if (is_page_path(lookup->file_path) && lookup->encoding == HTTP_ENCODING_IDENTITY) {
        lookup->kind = HTTP_ENTRY_PAGE;
        return LOOK_DONE;
    }
    lookup->kind = HTTP_ENTRY_FILE;
    LookResult result = look_for_variants(lookup, root, flags);
    if (result != LOOK_DONE)
        return result;
    if (lookup->has_previous && is_same_status(&lookup->status, &lookup->previous_status)) {
        lookup->is_same = true;
        return LOOK_DONE;
    }
    return lookup->status.st_size <= HTTP_INLINE_MAX_BYTES ? read_body(lookup, flags) : LOOK_DONE;
}

static LookResult
open_file(Lookup *lookup, const HttpRoot *root, const char *path, unsigned flags)
{
    g_autoptr(GError) cause = NULL;
    g_free(lookup->file_path);
    lookup->file_path = g_strdup(path);
    int fd = ph_open_beneath(root->fd, path[0] != '\0' ? path : ".", flags, &cause);
    if (fd < 0)
        return look_failed(lookup, &cause);
    lookup->file = ph_file_new(fd);
    return look_at_file(lookup, root, flags);
}

static void
forget_result(Lookup *lookup)
{
    g_clear_pointer(&lookup->file, ph_file_unref);
    g_clear_pointer(&lookup->body, g_bytes_unref);
    g_clear_pointer(&lookup->file_path, g_free);
    g_clear_error(&lookup->error);
    lookup->is_same = false;
    lookup->kind = HTTP_ENTRY_MISSING;
}

/* "/a/": the first index file that is there. */
static LookResult
look_for_index(Lookup *lookup, const HttpRoot *root, unsigned flags)
{
    for (size_t i = 0; i < G_N_ELEMENTS(index_names); i++) {
        g_autofree char *path = g_strconcat(lookup->path + 1, index_names[i], NULL);
        forget_result(lookup);
        LookResult result = open_file(lookup, root, path, flags);
        if (result != LOOK_DONE || lookup->kind == HTTP_ENTRY_FILE ||
            lookup->kind == HTTP_ENTRY_PAGE || lookup->kind == HTTP_ENTRY_DENIED)
            return result;
    }
    lookup->kind = HTTP_ENTRY_MISSING;
    return LOOK_DONE;
}

static LookResult
look(Lookup *lookup, unsigned flags)
{
    HttpRoot *root = lookup->root;
    forget_result(lookup);
    if (root == NULL) {
        g_autoptr(GError) cause = NULL;
        g_clear_pointer(&lookup->opened_root, http_root_unref);
        root = lookup->opened_root = http_root_open(lookup->folder, lookup->below, flags, &cause);
        if (root == NULL)
            return look_failed(lookup, &cause);
    }
    if (g_str_has_suffix(lookup->path, "/"))
        return look_for_index(lookup, root, flags);
    g_autofree char *path =
        g_strconcat(lookup->path + 1, http_encoding_suffix(lookup->encoding), NULL);
    return open_file(lookup, root, path, flags);
}

/* -- from what was seen to an entry ------------------------------------------------------------ */

static void
make_head(HttpEntry *entry)
{
    char date[HTTP_DATE_BYTES];
    http_format_date(entry->status.st_mtim.tv_sec, date);
    g_snprintf(entry->etag, sizeof(entry->etag),
        "\"%" G_GINT64_MODIFIER "x-%" G_GINT64_MODIFIER "x%s\"",
        (uint64_t)(entry->status.st_mtim.tv_sec * G_GINT64_CONSTANT(1000000000) +
                   entry->status.st_mtim.tv_nsec),
        (uint64_t)entry->status.st_size, http_encoding_suffix(entry->encoding));
    GString *head = g_string_sized_new(384);
    g_string_append_printf(head,
        "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %" G_GINT64_FORMAT
        "\r\nLast-Modified: %s\r\nETag: %s\r\nAccept-Ranges: bytes\r\n"
        "X-Content-Type-Options: nosniff\r\n",
        entry->content_type, (int64_t)entry->status.st_size, date, entry->etag);
    if (entry->offered > 1U << HTTP_ENCODING_IDENTITY)
        g_string_append(head, "Vary: Accept-Encoding\r\n");
    if (entry->encoding != HTTP_ENCODING_IDENTITY)
        g_string_append_printf(head, "Vary: Accept-Encoding\r\nContent-Encoding: %s\r\n",
            http_encoding_name(entry->encoding));
    entry->head_length = head->len;
    entry->head = g_string_free(head, FALSE);
}

/* Takes over what the lookup has. */
static HttpEntry *
entry_new(Lookup *lookup, HttpRoot *root)
{
    HttpEntry *entry = g_new0(HttpEntry, 1);
    entry->references = 1;
    entry->kind = lookup->kind;
    entry->encoding = lookup->encoding;
    entry->offered = lookup->offered;
    entry->root = http_root_ref(root);
    entry->path = g_steal_pointer(&lookup->path);
    entry->file_path = g_steal_pointer(&lookup->file_path);
    entry->hash = hash_of(root, entry->path, entry->encoding);
    entry->status = lookup->status;
    entry->checked_us = ph_monotonic_us();
    if (entry->kind == HTTP_ENTRY_FILE || entry->kind == HTTP_ENTRY_PAGE) {
        entry->body = g_steal_pointer(&lookup->body);
        if (entry->body == NULL)
            entry->file = g_steal_pointer(&lookup->file);
    }
    if (entry->kind == HTTP_ENTRY_FILE) {
        size_t suffix = strlen(http_encoding_suffix(entry->encoding));
        g_autofree char *plain = g_strndup(entry->file_path, strlen(entry->file_path) - suffix);
        entry->content_type = http_content_type(plain);
        make_head(entry);
    }
    return entry;
}

/* The root that a lookup had to open becomes the cache's, unless it is the one that is there. */
static HttpRoot *
settle_root(HttpCache *cache, Lookup *lookup)
{
    if (lookup->root != NULL)
        return lookup->root;
    HttpRoot *opened = lookup->opened_root;
    if (opened == NULL)
        return NULL;
    RootSlot *slot = g_hash_table_lookup(cache->roots, opened->name);
    if (slot == NULL) {
        slot = g_new0(RootSlot, 1);
        slot->name = g_strdup(opened->name);
        g_hash_table_insert(cache->roots, slot->name, slot);
    }
    slot->checked_us = ph_monotonic_us();
    if (slot->root != NULL && slot->root->device == opened->device &&
        slot->root->inode == opened->inode)
        return slot->root;
    replace_root(cache, slot, http_root_ref(opened));
    return slot->root;
}

static bool
is_unchanged(const Lookup *lookup, const HttpEntry *previous)
{
    return previous != NULL && lookup->is_same && previous->kind == HTTP_ENTRY_FILE &&
           lookup->kind == HTTP_ENTRY_FILE && previous->offered == lookup->offered &&
           strcmp(previous->file_path, lookup->file_path) == 0;
}

/* On the reactor, with the result in hand. */
static PH_ON_REACTOR void
finish_lookup(HttpCache *cache, Lookup *lookup, LookResult result)
{
    HttpExchange *exchange = lookup->exchange;
    if (result == LOOK_FAILED) {
        lookup->found(exchange, NULL, lookup->error);
        return;
    }
    HttpRoot *root = settle_root(cache, lookup);
    if (root == NULL) { /* the folder itself is not there */
        HttpEntry missing = { .references = 2, .kind = lookup->kind, .path = lookup->path };
        lookup->found(exchange, &missing, NULL);
        return;
    }
    if (is_unchanged(lookup, lookup->previous) && lookup->previous->root == root) {
        lookup->previous->checked_us = ph_monotonic_us();
        lookup->found(exchange, lookup->previous, NULL);
        return;
    }
    /* The same file, but something around it changed: its bytes are known. */
    if (lookup->is_same && lookup->previous->body != NULL)
        lookup->body = g_bytes_ref(lookup->previous->body);
    HttpEntry *entry = entry_new(lookup, root);
    http_entry_ref(entry);
    add_entry(cache, entry);
    lookup->found(exchange, entry, NULL);
    http_entry_unref(entry);
}

static void
lookup_free(void *data)
{
    Lookup *lookup = data;
    forget_result(lookup);
    http_root_unref(lookup->root);
    http_root_unref(lookup->opened_root);
    g_free(lookup->folder);
    g_free(lookup->below);
    g_free(lookup->path);
    g_free(lookup);
}

typedef struct LookJob {
    Lookup *lookup;
    LookResult result;
} LookJob;

static void
look_job(void *data)
{
    ph_assert_in_job();
    LookJob *job = data;
    job->result = look(job->lookup, 0);
}

static void
look_done(PhExchange *base, void *data)
{
    ph_assert_on_reactor();
    LookJob *job = data;
    finish_lookup(http_exchange_of(base)->local->cache, job->lookup, job->result);
}

static void
look_job_free(void *data)
{
    LookJob *job = data;
    http_entry_unref(job->lookup->previous);
    lookup_free(job->lookup);
    g_free(job);
}

/* -- finding ----------------------------------------------------------------------------------- */

/* Roots that nobody asked for lately: those of sites that are no more, above all. A look under way has
 * asked within this time. */
static gboolean
is_old_root(gpointer key, gpointer value, gpointer data)
{
    enum { KEPT_S = 120 };
    (void)key;
    HttpCache *cache = data;
    RootSlot *slot = value;
    if (ph_monotonic_us() - slot->checked_us < (int64_t)KEPT_S * G_USEC_PER_SEC)
        return FALSE;
    replace_root(cache, slot, NULL);
    return TRUE;
}

/* The same route is asked for again and again, and its texts stay where they are as long as the snapshot
 * of sites does. */
static RootSlot *
find_slot(HttpCache *cache, const char *folder, const char *below)
{
    if (cache->last_slot != NULL && cache->last_folder == folder && cache->last_below == below &&
        cache->last_sites == cache->local->sites_generation)
        return cache->last_slot;
    if (cache->last_sites != cache->local->sites_generation)
        g_hash_table_foreach_remove(cache->roots, is_old_root, cache);
    char name[1024];
    int length = g_snprintf(name, sizeof(name), "%s\n%s", folder, below);
    if (length < 0 || (size_t)length >= sizeof(name))
        return NULL;
    RootSlot *slot = g_hash_table_lookup(cache->roots, name);
    cache->last_slot = slot;
    cache->last_folder = folder;
    cache->last_below = below;
    cache->last_sites = cache->local->sites_generation;
    return slot;
}

/* The root that this name stands for, while it is fresh. */
static HttpRoot *
fresh_root(HttpCache *cache, const char *folder, const char *below, int64_t now_us)
{
    RootSlot *slot = find_slot(cache, folder, below);
    if (slot == NULL)
        return NULL;
    if (now_us - slot->checked_us <= cache->local->config.revalidate_us)
        return slot->root;
    HttpRoot *opened = http_root_open(folder, below, PH_BENEATH_CACHED, NULL);
    if (opened == NULL)
        return NULL;
    slot->checked_us = now_us;
    if (opened->device != slot->root->device || opened->inode != slot->root->inode) {
        replace_root(cache, slot, opened);
    } else {
        http_root_unref(opened);
    }
    return slot->root;
}

static HttpEntry *
find_entry(HttpCache *cache, HttpRoot *root, const char *path, HttpEncoding encoding)
{
    HttpEntry key = { .hash = hash_of(root, path, encoding), .encoding = encoding, .root = root };
    key.path = (char *)(uintptr_t)path; /* only compared */
    return g_hash_table_lookup(cache->entries, &key);
}

void
http_cache_find(HttpExchange *exchange, const char *folder, const char *below, const char *path,
    HttpEncoding encoding, HttpFound found)
{
    ph_assert_on_reactor();
    HttpCache *cache = exchange->local->cache;
    HttpCounters *counters = &exchange->local->state->counters;
    int64_t now_us = ph_monotonic_us();
    HttpRoot *root = fresh_root(cache, folder, below, now_us);
    HttpEntry *entry = root != NULL ? find_entry(cache, root, path, encoding) : NULL;
    if (entry != NULL) {
        touch_entry(cache, entry);
        if (now_us - entry->checked_us <= cache->local->config.revalidate_us) {
            ph_metric_add(&counters->cache_hits, 1);
            http_entry_ref(entry);
            found(exchange, entry, NULL);
            http_entry_unref(entry);
            return;
        }
    }
    ph_metric_add(&counters->cache_misses, 1);
    Lookup *lookup = g_new0(Lookup, 1);
    lookup->exchange = exchange;
    lookup->found = found;
    lookup->root = root != NULL ? http_root_ref(root) : NULL;
    lookup->folder = g_strdup(folder);
    lookup->below = g_strdup(below);
    lookup->path = g_strdup(path);
    lookup->encoding = encoding;
    if (entry != NULL && entry->kind == HTTP_ENTRY_FILE) {
        lookup->previous = http_entry_ref(entry);
        lookup->previous_status = entry->status;
        lookup->has_previous = true;
    }
    LookResult result = look(lookup, PH_BENEATH_CACHED);
    if (result == LOOK_NOT_IN_MEMORY) {
        LookJob *job = g_new(LookJob, 1);
        *job = (LookJob){ .lookup = lookup };
        http_exchange_run(exchange, PH_LANE_WEB, look_job, look_done, job, look_job_free);
        return;
    }
    HttpEntry *previous = lookup->previous;
    finish_lookup(cache, lookup, result);
    http_entry_unref(previous);
    lookup_free(lookup);
}

HttpRoot *
http_cache_site_root(HttpCache *cache, const char *folder)
{
    HttpRoot *root = fresh_root(cache, folder, "", ph_monotonic_us());
    return root != NULL ? http_root_ref(root) : NULL;
}

/* -- making ------------------------------------------------------------------------------------ */

HttpCache *
http_cache_new(HttpLocal *local)
{
    HttpCache *cache = g_new0(HttpCache, 1);
    cache->local = local;
    cache->roots = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_slot);
    cache->entries = g_hash_table_new(entry_hash, entry_equal);
    return cache;
}

void
http_cache_free(HttpCache *cache)
{
    while (cache->oldest != NULL)
        drop_entry(cache, cache->oldest);
    g_hash_table_unref(cache->entries);
    g_hash_table_unref(cache->roots);
    g_free(cache);
}
