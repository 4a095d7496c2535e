/* session.c - a connection that speaks HTTP/1: requests one after the other
 *
 * What is hard here is that a handler may finish in its first callback, in a job's end, or in a timer
 * of its own. So the functions of an exchange only set state, and one function, http_session_run(),
 * looks at the state and acts. Requests that a client sends ahead wait in the connection's buffer,
 * which is bounded, so answers keep the order of requests and a client that does not read its answers
 * is not read from either.
 */
#include "http.h"

#include "posthouse/log.h"

#include <string.h>

/* -- timers ------------------------------------------------------------------------------------ */

static PH_ON_REACTOR void
set_timer(HttpSession *session, HttpTimer timer)
{
    const HttpConfig *config = &session->local->config;
    int64_t timeout_ms = 0;
    switch (timer) {
    case HTTP_TIMER_NONE: /* one that is set comes and is not minded: cheaper than to end it */
        session->timer = timer;
        return;
    case HTTP_TIMER_IDLE: /* the first request of a connection should be on its way already */
        timeout_ms = session->requests == 0 ? config->head_timeout_ms : config->idle_timeout_ms;
        break;
    case HTTP_TIMER_HEAD:
        timeout_ms = config->head_timeout_ms;
        break;
    case HTTP_TIMER_BODY:
        timeout_ms = config->body_timeout_ms;
        session->body_mark = session->exchange->body_received;
        break;
    }
    session->timer = timer;
    ph_connection_set_timeout_ms(session->base.connection, timeout_ms);
}

/* -- the end of an exchange -------------------------------------------------------------------- */

static PH_ON_REACTOR void
refuse(HttpSession *session, HttpProblem problem)
{
    HttpExchange *exchange = session->exchange;
    if (exchange != NULL) {
        exchange->status = http_problem_status(problem);
        http_log_exchange(exchange, exchange->status, 0);
    } else {
        http_log_problem(session, problem);
    }
    ph_metric_add(&session->local->state->counters.bad_requests, 1);
    http_write_problem(session, problem);
    ph_connection_close(session->base.connection);
}

/* The response is sent, the request read: the next one may come. */
static PH_ON_REACTOR void
complete_exchange(HttpSession *session)
{
    HttpExchange *exchange = session->exchange;
    bool goes_on = http_exchange_keeps_alive(exchange) && exchange->is_body_complete;
    bool said_last = !exchange->request->head.keep_alive && exchange->is_body_complete;
    http_log_exchange(exchange, exchange->status, exchange->body_sent);
    g_clear_pointer(&session->exchange, http_exchange_free);
    session->requests++;
    session->state = HTTP_STATE_HEAD;
    session->scan = (HttpScan){ 0 };
    if (!goes_on && said_last) {
        ph_connection_finish(session->base.connection);
        return;
    }
    if (!goes_on) {
        ph_connection_close(session->base.connection);
        return;
    }
    set_timer(session, HTTP_TIMER_IDLE);
}

static PH_ON_REACTOR bool
end_exchange(HttpSession *session)
{
    HttpExchange *exchange = session->exchange;
    if (exchange->is_broken) {
        http_log_exchange(exchange, exchange->status, exchange->body_sent);
        ph_connection_abort(session->base.connection);
        return false;
    }
    if (!exchange->is_body_complete && http_exchange_keeps_alive(exchange)) {
        exchange->body_max = exchange->body_received + HTTP_DISCARD_MAX_BYTES;
        session->state = HTTP_STATE_DISCARD;
        return true;
    }
    session->state = HTTP_STATE_SENDING;
    return true;
}

/* -- the request's body ------------------------------------------------------------------------ */

/* How much data of the body is at the front of the input, and how much is said to come with it. False:
 * the session has ended. */
static PH_ON_REACTOR bool
next_data(HttpSession *session, size_t *length_out, int64_t *said_out)
{
    HttpExchange *exchange = session->exchange;
    size_t length;
    const uint8_t *bytes = ph_connection_input(session->base.connection, &length);
    if (!exchange->request->head.is_chunked) {
        *length_out = (size_t)MIN((int64_t)length, session->body_left);
        *said_out = session->body_left;
        exchange->is_body_complete = session->body_left == 0;
        return true;
    }
    size_t used = 0;
    size_t data = 0;
    HttpProblem problem = HTTP_PROBLEM_NONE;
    HttpParse parsed = http_chunks_next(&session->chunks, bytes, length, &used, &data, &problem);
    if (parsed == HTTP_PARSE_BAD) {
        if (exchange->is_head_sent)
            ph_connection_abort(session->base.connection);
        else
            refuse(session, problem);
        return false;
    }
    ph_connection_consume(session->base.connection, used);
    *length_out = MIN(data, length - used);
    *said_out = (int64_t)MIN(data, (size_t)INT64_MAX / 2);
    exchange->is_body_complete = parsed == HTTP_PARSE_DONE;
    return true;
}

static PH_ON_REACTOR void
body_taken(HttpSession *session, size_t length)
{
    ph_connection_consume(session->base.connection, length);
    session->exchange->body_received += (int64_t)length;
    if (session->exchange->request->head.is_chunked) {
        if (length > 0)
            http_chunks_taken(&session->chunks, length);
    } else {
        session->body_left -= (int64_t)length;
    }
}

/* Shows the handler what is there. True: something happened. */
static PH_ON_REACTOR bool
feed_body(HttpSession *session)
{
    HttpExchange *exchange = session->exchange;
    const PhWebHandler *handler = exchange->handler;
    size_t length = 0;
    int64_t said = 0;
    if (!next_data(session, &length, &said))
        return false;
    if (exchange->body_received + said > exchange->body_max) {
        exchange->is_body_wanted = false;
        ph_exchange_fail(&exchange->base, 413, NULL);
        return true;
    }
    if (length > 0) {
        size_t left;
        const uint8_t *bytes = ph_connection_input(session->base.connection, &left);
        size_t taken = length;
        if (handler->body != NULL && !exchange->is_finished)
            taken = MIN(handler->body(&exchange->base, bytes, length), length);
        body_taken(session, taken);
        if (taken < length)
            exchange->is_body_wanted = false;
        return true;
    }
    if (!exchange->is_body_complete) {
        if (session->is_peer_ended)
            ph_connection_abort(session->base.connection);
        return false;
    }
    if (handler->complete != NULL && !exchange->is_finished)
        handler->complete(&exchange->base);
    return true;
}

/* The same for a body that nobody wants. */
static PH_ON_REACTOR bool
discard_body(HttpSession *session)
{
    HttpExchange *exchange = session->exchange;
    size_t length = 0;
    int64_t said = 0;
    if (!next_data(session, &length, &said))
        return false;
    body_taken(session, length);
    if (exchange->is_body_complete || exchange->body_received > exchange->body_max ||
        session->is_peer_ended) {
        session->state = HTTP_STATE_SENDING;
        return true;
    }
    return length > 0;
}

/* -- heads ------------------------------------------------------------------------------------- */

static PH_ON_REACTOR bool
begin_exchange(HttpSession *session, const uint8_t *bytes, size_t length)
{
    size_t start = session->scan.start;
    HttpRequest *request = http_request_new(length - start, session->scan.lines + 1);
    HttpProblem problem = HTTP_PROBLEM_NONE;
    HttpParse parsed =
        http_parse_head(bytes + start, length - start, request->memory, &request->head, &problem);
    if (parsed != HTTP_PARSE_DONE) {
        http_request_unref(request);
        refuse(session, problem);
        return false;
    }
    ph_connection_consume(session->base.connection, length);
    HttpExchange *exchange = http_exchange_new(session, request);
    session->exchange = exchange;
    session->state = HTTP_STATE_EXCHANGE;
    session->chunks = (HttpChunks){ 0 };
    session->body_left = MAX(request->head.content_length, 0);
    exchange->is_body_complete = !request->head.is_chunked && session->body_left == 0;
    exchange->is_continue_due = request->head.expects_continue;
    http_dispatch(exchange);
    return true;
}

static PH_ON_REACTOR bool
read_head(HttpSession *session)
{
    PhConnection *connection = session->base.connection;
    if (session->is_leaving) {
        ph_connection_close(connection);
        return false;
    }
    size_t length;
    const uint8_t *bytes = ph_connection_input(connection, &length);
    if (ph_connection_output_is_full(connection))
        return false;
    if (length == 0) {
        if (session->is_peer_ended)
            ph_connection_close(connection);
        return false;
    }
    size_t head_length = 0;
    HttpProblem problem = HTTP_PROBLEM_NONE;
    HttpParse parsed = http_scan_head(
        &session->scan, bytes, length, &session->local->config.limits, &head_length, &problem);
    switch (parsed) {
    case HTTP_PARSE_DONE:
        return begin_exchange(session, bytes, head_length);
    case HTTP_PARSE_BAD:
        refuse(session, problem);
        return false;
    case HTTP_PARSE_MORE:
        break;
    }
    if (session->is_peer_ended)
        ph_connection_close(connection);
    else if (session->timer != HTTP_TIMER_HEAD)
        set_timer(session, HTTP_TIMER_HEAD);
    return false;
}

/* -- the one function that acts ---------------------------------------------------------------- */

/* True: something changed, look again. */
static PH_ON_REACTOR bool
step(HttpSession *session)
{
    HttpExchange *exchange = session->exchange;
    if (ph_connection_is_closing(session->base.connection))
        return false;
    switch (session->state) {
    case HTTP_STATE_HEAD:
        return read_head(session);
    case HTTP_STATE_EXCHANGE:
        if (exchange->is_finished)
            return end_exchange(session);
        return exchange->is_dispatched && exchange->is_body_wanted && !exchange->is_body_complete &&
               feed_body(session);
    case HTTP_STATE_DISCARD:
        return discard_body(session);
    case HTTP_STATE_SENDING:
        if (ph_connection_output_is_full(session->base.connection))
            return false; /* `drained` follows */
        complete_exchange(session);
        return true;
    }
    return false;
}

static bool
reads_body(const HttpSession *session)
{
    if (session->state == HTTP_STATE_DISCARD)
        return true;
    return session->state == HTTP_STATE_EXCHANGE && session->exchange->is_dispatched &&
           session->exchange->is_body_wanted && !session->exchange->is_body_complete;
}

/* After the steps: is input wanted, and until when? */
static PH_ON_REACTOR void
settle(HttpSession *session)
{
    PhConnection *connection = session->base.connection;
    if (ph_connection_is_closing(connection))
        return;
    bool body = reads_body(session);
    bool wants_input = session->state == HTTP_STATE_HEAD || body;
    if (!wants_input && !session->is_paused) {
        ph_connection_pause(connection);
        session->is_paused = true;
    } else if (wants_input && session->is_paused) {
        ph_connection_resume(connection);
        session->is_paused = false;
    }
    if (body && session->timer != HTTP_TIMER_BODY)
        set_timer(session, HTTP_TIMER_BODY);
    else if (!wants_input && session->timer != HTTP_TIMER_NONE)
        set_timer(session, HTTP_TIMER_NONE);
}

void
http_session_run(HttpSession *session)
{
    if (session->is_running)
        return;
    session->is_running = true;
    unsigned last = session->requests + HTTP_REQUESTS_PER_RUN;
    while (step(session))
        if (session->requests >= last && session->state == HTTP_STATE_HEAD) {
            /* The rest when others had their turn. */
            ph_connection_pause(session->base.connection);
            ph_connection_resume(session->base.connection);
            session->is_paused = false;
            break;
        }
    session->is_running = false;
    settle(session);
}

/* -- callbacks --------------------------------------------------------------------------------- */

static void
opened(PhSession *base)
{
    ph_assert_on_reactor();
    HttpSession *session = (HttpSession *)base;
    HttpState *state = base->plugin_state;
    session->local = http_local_get(state, ph_connection_reactor(base->connection));
    http_local_refresh(session->local);
    session->is_secure = ph_connection_is_secure(base->connection);
    ph_metric_add(&state->counters.connections, 1);
    ph_connection_set_input_limit(base->connection,
        MAX(HTTP_INPUT_LIMIT_BYTES, session->local->config.limits.head_bytes + 1024));
    ph_connection_set_stall_timeout_ms(base->connection, session->local->config.write_timeout_ms);
    set_timer(session, HTTP_TIMER_IDLE);
}

static void
input(PhSession *base)
{
    ph_assert_on_reactor();
    http_session_run((HttpSession *)base);
}

static void
drained(PhSession *base)
{
    ph_assert_on_reactor();
    HttpSession *session = (HttpSession *)base;
    HttpExchange *exchange = session->exchange;
    if (exchange != NULL && !exchange->is_finished && exchange->handler != NULL &&
        exchange->handler->drained != NULL) {
        session->is_running = true;
        exchange->handler->drained(&exchange->base);
        session->is_running = false;
    }
    http_session_run(session);
}

static void
timed_out(PhSession *base)
{
    ph_assert_on_reactor();
    HttpSession *session = (HttpSession *)base;
    HttpTimer timer = session->timer;
    session->timer = HTTP_TIMER_NONE;
    switch (timer) {
    case HTTP_TIMER_HEAD:
        refuse(session, HTTP_PROBLEM_HEAD_LATE);
        break;
    case HTTP_TIMER_BODY:
        if (session->exchange->body_received - session->body_mark >= HTTP_BODY_PROGRESS_BYTES)
            set_timer(session, HTTP_TIMER_BODY);
        else if (session->exchange->is_head_sent)
            ph_connection_close(base->connection);
        else
            refuse(session, HTTP_PROBLEM_BODY_LATE);
        break;
    case HTTP_TIMER_IDLE:
        ph_connection_close(base->connection);
        break;
    case HTTP_TIMER_NONE:
        break;
    }
}

static void
ended(PhSession *base)
{
    ph_assert_on_reactor();
    HttpSession *session = (HttpSession *)base;
    session->is_peer_ended = true;
    http_session_run(session);
}

/* A request under way is answered; who is idle is let go. */
static void
farewell(PhSession *base, PhFarewell why)
{
    ph_assert_on_reactor();
    HttpSession *session = (HttpSession *)base;
    session->is_leaving = true;
    if (why == PH_FAREWELL_CUT || session->exchange == NULL)
        ph_connection_close(base->connection);
}

static void
closed(PhSession *base, PhCloseReason reason)
{
    ph_assert_on_reactor();
    (void)reason;
    HttpSession *session = (HttpSession *)base;
    HttpExchange *exchange = session->exchange;
    if (exchange == NULL)
        return;
    int64_t pending = (int64_t)ph_connection_output_pending(base->connection);
    int64_t sent = MAX(exchange->body_sent - pending, 0);
    http_log_exchange(exchange, exchange->is_head_sent ? exchange->status : 0, sent);
    g_clear_pointer(&session->exchange, http_exchange_free);
}

static void
describe(PhSession *base, char *text, size_t size)
{
    ph_assert_on_reactor();
    const HttpSession *session = (HttpSession *)base;
    if (session->exchange == NULL) {
        g_snprintf(text, size, "idle after %u requests", session->requests);
        return;
    }
    const HttpHead *head = &session->exchange->request->head;
    g_snprintf(text, size, "%s %s%s", head->method_name, head->host, head->path);
}

const PhSessionClass http_session_class = {
    .name = "http",
    .size = sizeof(HttpSession),
    .opened = opened,
    .input = input,
    .drained = drained,
    .timed_out = timed_out,
    .ended = ended,
    .farewell = farewell,
    .closed = closed,
    .describe = describe,
};
