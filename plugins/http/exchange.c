/* exchange.c - requests and exchanges: their memory, and work for them */
#include "http.h"

#include <string.h>

/* -- requests ---------------------------------------------------------------------------------- */

HttpRequest *
http_request_new(size_t head_length, size_t lines)
{
    HttpRequest *request = g_malloc(sizeof(HttpRequest) + http_head_memory(head_length, lines));
    ph_ref_init(&request->ref);
    request->sites = NULL;
    request->is_page_ready = false;
    return request;
}

HttpRequest *
http_request_ref(HttpRequest *request)
{
    ph_ref_take(&request->ref);
    return request;
}

void
http_request_unref(HttpRequest *request)
{
    if (request == NULL || !ph_ref_drop(&request->ref))
        return;
    if (request->sites != NULL)
        ph_sites_unref(request->sites);
    g_free(request);
}

/* -- exchanges --------------------------------------------------------------------------------- */

HttpExchange *
http_exchange_new(HttpSession *session, HttpRequest *request)
{
    HttpExchange *exchange = g_new0(HttpExchange, 1);
    exchange->base.functions = &http_exchange_functions;
    exchange->base.request = &request->page;
    exchange->session = session;
    exchange->local = session->local;
    exchange->request = request;
    exchange->status = 200;
    exchange->length = -1;
    exchange->is_body_wanted = true;
    exchange->began_us = http_local_refresh(session->local);
    exchange->body_max = session->local->config.body_max_bytes;
    request->sites = ph_sites_ref(session->local->sites);
    return exchange;
}

void
http_exchange_free(HttpExchange *exchange)
{
    if (exchange->handler != NULL && exchange->handler->closed != NULL)
        exchange->handler->closed(&exchange->base);
    ph_task_clear(&exchange->task);
    ph_service_release(exchange->hold);
    http_request_unref(exchange->request);
    http_local_give_text(exchange->local, exchange->fields);
    g_free(exchange);
}

/* -- work -------------------------------------------------------------------------------------- */

typedef struct Work {
    HttpExchange *exchange;
    PhJob job;
    PhExchangeDone done;
    void *data;
    GDestroyNotify free_data;
    PhServiceHold *hold; /* keeps the code of job and free_data mapped */
} Work;

static void
work_job(void *data)
{
    ph_assert_in_job();
    Work *work = data;
    work->job(work->data);
}

static void
work_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)task;
    Work *work = data;
    HttpSession *session = work->exchange->session;
    session->is_running = true;
    work->done(&work->exchange->base, work->data);
    session->is_running = false;
    http_session_run(session);
}

static void
work_free(void *data)
{
    Work *work = data;
    if (work->free_data != NULL)
        work->free_data(work->data);
    ph_service_release(work->hold);
    g_free(work);
}

/* A further hold on the service that the exchange holds. */
static PhServiceHold *
hold_again(const HttpExchange *exchange)
{
    if (exchange->hold == NULL)
        return NULL;
    return ph_service_hold_again(exchange->hold);
}

void
http_exchange_run(HttpExchange *exchange, PhLane lane, PhJob job, PhExchangeDone done, void *data,
    GDestroyNotify free_data)
{
    if (exchange->task.core == NULL)
        ph_task_init(&exchange->task, exchange->local->reactor);
    Work *work = g_new(Work, 1);
    *work = (Work){ .exchange = exchange,
        .job = job,
        .done = done,
        .data = data,
        .free_data = free_data,
        .hold = hold_again(exchange) };
    ph_task_run(&exchange->task, lane, work_job, work_done, work, work_free);
}

/* -- what handlers see ------------------------------------------------------------------------- */

/* The session's id and the request's number in it. */
static void
make_id(const HttpSession *session, char *id)
{
    char digits[12];
    size_t n = 0;
    unsigned number = session->requests;
    size_t length = strlen(session->base.id);
    memcpy(id, session->base.id, length);
    id[length++] = '-';
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        id[length++] = digits[--n];
    id[length] = '\0';
}

const PhPageRequest *
http_exchange_page_request(HttpExchange *exchange)
{
    HttpRequest *request = exchange->request;
    HttpSession *session = exchange->session;
    const HttpHead *head = &request->head;
    const PhSite *site = exchange->base.site;
    if (request->is_page_ready)
        return &request->page;
    request->is_page_ready = true;
    make_id(session, request->id);
    g_strlcpy(
        request->peer, ph_connection_peer_address(session->base.connection), sizeof(request->peer));
    request->page = (PhPageRequest){
        .id = request->id,
        .method = head->method_name,
        .scheme = session->is_secure ? "https" : "http",
        .host = head->host,
        .path = head->path,
        .query = head->query,
        .headers = head->fields,
        .n_headers = head->n_fields,
        .peer_address = request->peer,
        .peer_port = ph_connection_peer_port(session->base.connection),
        .tenant_id = site != NULL ? site->tenant_id : 0,
        .site_id = site != NULL ? site->id : 0,
        .site_name = site != NULL ? site->name : "",
        .root_fd = -1,
    };
    return &request->page;
}
