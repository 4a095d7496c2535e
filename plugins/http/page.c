/* page.c - Lua pages: files of a site, and stored scripts
 *
 * The whole request is there before the job begins, and the whole response when it ends; neither
 * waits for a client. The body is collected in a spool, so large ones lie in a file meanwhile.
 */
#include "http.h"

#include "posthouse/beneath.h"
#include "posthouse/log.h"

#include <string.h>
#include <unistd.h>

/* What the job has. */
typedef struct PageJob {
    HttpExchange *exchange; /* on the reactor only */
    HttpRequest *request;
    PhPageRequest page;
    HttpRoot *root;     /* null: to be opened */
    const char *folder; /* the site's; `request` keeps it */
    PhFile *file;       /* null: `script` is to be run */
    char *path;         /* or the script's name */
    PhSpool *spool;
    PhPageResponse response;
    PhFile *send_file;
    int64_t send_length;
    GError *error;
} PageJob;

/* -- the job ----------------------------------------------------------------------------------- */

static bool
read_spool(PageJob *job)
{
    if (job->spool == NULL)
        return true;
    size_t size = ph_spool_size(job->spool);
    g_autofree char *bytes = g_malloc(MAX(size, 1));
    size_t got = 0;
    if (!ph_spool_read(job->spool, 0, bytes, size, &got, &job->error))
        return false;
    job->page.body = g_bytes_new_take(g_steal_pointer(&bytes), got);
    return true;
}

/* The file that the page wants sent is opened here, where a disk may be waited for. */
static bool
open_send_file(PageJob *job)
{
    const char *path = job->response.send_file;
    if (path == NULL)
        return true;
    while (*path == '/')
        path++;
    struct stat status;
    int fd = job->root != NULL ? ph_open_beneath(job->root->fd, path, 0, &job->error) : -1;
    if (fd < 0) {
        if (job->error == NULL)
            g_set_error(&job->error, PH_ERROR, PH_ERROR_NOT_FOUND, "the site has no folder");
        g_prefix_error(&job->error, "file to send: ");
        return false;
    }
    job->send_file = ph_file_new(fd);
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        g_set_error(
            &job->error, PH_ERROR, PH_ERROR_NOT_FOUND, "file to send: \"%s\" is none", path);
        return false;
    }
    job->send_length = status.st_size;
    return true;
}

static void
page_job(void *data)
{
    ph_assert_in_job();
    PageJob *job = data;
    if (!read_spool(job))
        return;
    if (job->root == NULL) /* a script can do without */
        job->root = http_root_open(job->folder, "", 0, NULL);
    job->page.root_fd = job->root != NULL ? job->root->fd : -1;
    bool good = job->file != NULL ? ph_page_run_file_blocking(job->path, ph_file_fd(job->file),
                                        &job->page, &job->response, &job->error)
                                  : ph_page_run_script_blocking(
                                        job->path, &job->page, &job->response, &job->error);
    if (good)
        open_send_file(job);
}

static void
page_job_free(void *data)
{
    PageJob *job = data;
    if (job->page.body != NULL)
        g_bytes_unref(job->page.body);
    ph_page_response_clear(&job->response);
    http_request_unref(job->request);
    http_root_unref(job->root);
    ph_file_unref(job->file);
    ph_file_unref(job->send_file);
    ph_spool_free(job->spool);
    g_clear_error(&job->error);
    g_free(job->path);
    g_free(job);
}

/* -- the response ------------------------------------------------------------------------------ */

static PH_ON_REACTOR void
answer_error(HttpExchange *exchange, const char *what, const GError *error)
{
    PhError code = ph_error_code(error);
    if (code == PH_ERROR_NOT_FOUND) {
        http_exchange_error(exchange, 404, "There is nothing under this address.", NULL);
        return;
    }
    bool later =
        code == PH_ERROR_TEMPORARY || code == PH_ERROR_UNAVAILABLE || code == PH_ERROR_LIMIT;
    ph_log(later ? PH_LOG_WARNING : PH_LOG_ERROR, "http.page", "page=\"%s\" id=%s %s", what,
        exchange->request->id, error->message);
    /* The request's id finds the reason in the log. */
    g_autofree char *text = g_strdup_printf(
        later ? "This page cannot be made just now (%s)." : "This page failed (%s).",
        exchange->request->id);
    http_exchange_error(exchange, later ? 503 : 500, text, NULL);
}

static PH_ON_REACTOR void
answer(HttpExchange *exchange, PageJob *job)
{
    PhExchange *base = &exchange->base;
    if (job->error != NULL) {
        answer_error(exchange, job->path, job->error);
        return;
    }
    PhPageResponse *response = &job->response;
    ph_exchange_status(base, response->status);
    for (guint i = 0; response->headers != NULL && i + 1 < response->headers->len; i += 2)
        ph_exchange_header(base, response->headers->pdata[i], response->headers->pdata[i + 1]);
    if (job->send_file != NULL) {
        ph_exchange_length(base, job->send_length);
        ph_exchange_write_file(base, job->send_file, 0, job->send_length);
    } else {
        ph_exchange_length(
            base, response->body != NULL ? (int64_t)g_bytes_get_size(response->body) : 0);
        if (response->body != NULL)
            ph_exchange_write_bytes(base, response->body);
    }
    ph_exchange_finish(base);
}

static void
page_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)task;
    PageJob *job = data;
    HttpSession *session = job->exchange->session;
    session->is_running = true;
    answer(job->exchange, job);
    session->is_running = false;
    http_session_run(session);
}

/* -- the request's body, then the job ---------------------------------------------------------- */

static PH_ON_REACTOR void
run_page(HttpExchange *exchange, HttpPage *page)
{
    PageJob *job = g_new0(PageJob, 1);
    const HttpEntry *entry = page->entry;
    http_exchange_page_request(exchange);
    job->exchange = exchange;
    job->request = http_request_ref(exchange->request);
    job->page = exchange->request->page;
    job->page.deadline_us = ph_monotonic_us() + exchange->local->config.page_timeout_ms * 1000;
    job->root = http_cache_site_root(exchange->local->cache, exchange->base.site->root);
    job->folder = exchange->base.site->root;
    job->spool = g_steal_pointer(&page->spool);
    if (entry != NULL) {
        job->file = ph_file_ref(entry->file);
        job->path = g_strdup(entry->file_path);
    } else {
        job->path = g_strdup(exchange->base.route->target);
    }
    page->is_running = true;
    ph_task_run(
        ph_exchange_task(&exchange->base), PH_LANE_WEB, page_job, page_done, job, page_job_free);
}

size_t
http_page_body(PhExchange *base, const uint8_t *bytes, size_t length)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    HttpPage *page = base->data;
    g_autoptr(GError) error = NULL;
    if (page == NULL)
        return length; /* answered already, the rest is dropped */
    if (page->spool == NULL)
        page->spool = ph_spool_new((size_t)exchange->body_max);
    if (!page->is_failed && !ph_spool_append(page->spool, bytes, length, &error)) {
        page->is_failed = true;
        PhError code = ph_error_code(error);
        ph_log(PH_LOG_WARNING, "http.body", "%s", error->message);
        ph_exchange_fail(base, code == PH_ERROR_TOO_LARGE ? 413 : 503, NULL);
    }
    return length;
}

void
http_page_complete(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpPage *page = base->data;
    if (page != NULL && !page->is_running && !page->is_failed)
        run_page(http_exchange_of(base), page);
}

void
http_page_closed(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpPage *page = base->data;
    if (page == NULL)
        return;
    http_entry_unref(page->entry);
    ph_spool_free(page->spool);
    base->data = NULL;
}

static PH_ON_REACTOR HttpPage *
page_new(HttpExchange *exchange)
{
    HttpPage *page = &exchange->page;
    exchange->base.data = page;
    exchange->body_max = MIN(exchange->body_max, exchange->local->config.page_body_max_bytes);
    return page;
}

static PH_ON_REACTOR bool
is_body_too_large(const HttpExchange *exchange)
{
    return exchange->request->head.content_length > exchange->body_max;
}

void
http_page_begin_file(HttpExchange *exchange, HttpEntry *entry)
{
    ph_assert_on_reactor();
    HttpPage *page = page_new(exchange);
    if (is_body_too_large(exchange)) {
        exchange->is_body_wanted = false;
        http_exchange_error(exchange, 413, NULL, NULL);
        return;
    }
    page->entry = http_entry_ref(entry);
    if (exchange->is_body_complete)
        run_page(exchange, page);
    else
        http_exchange_ask_for_body(exchange);
}

static void
script_begin(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    page_new(exchange);
    if (is_body_too_large(exchange)) {
        exchange->is_body_wanted = false;
        http_exchange_error(exchange, 413, NULL, NULL);
    }
}

/* A script takes every method. */
const PhWebHandler http_page_handler = {
    .begin = script_begin,
    .body = http_page_body,
    .complete = http_page_complete,
    .closed = http_page_closed,
};
