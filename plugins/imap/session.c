/* session.c - the life of a session: from bytes to commands
 *
 * A command is collected whole in `buffer`, lines and literals as they came, before anything of it
 * is parsed; only the message of an APPEND goes to a spool instead. So no parser ever waits in the
 * middle of something.
 */
#include "imap.h"

#include "posthouse/log.h"

#include <string.h>

enum { JOB_DEADLINE_S = 30 };

static const struct {
    const char *name;
    unsigned successors;
} state_rows[] = {
    [IMAP_STATE_GREETED] = { "not logged in", IN_GREETED | IN_AUTH | 1 << IMAP_STATE_LOGOUT },
    [IMAP_STATE_AUTHENTICATED] = { "logged in", IN_AUTH | IN_SELECTED | 1 << IMAP_STATE_LOGOUT },
    [IMAP_STATE_SELECTED] = { "selected", IN_AUTH | IN_SELECTED | 1 << IMAP_STATE_LOGOUT },
    [IMAP_STATE_LOGOUT] = { "leaving", 0 },
};

void
imap_session_show_activity(ImapSession *session)
{
    const char *login = session->identity != NULL ? session->identity->login : "";
    const char *what =
        session->selected != NULL ? session->selected->name : state_rows[session->state].name;
    g_autofree char *activity = g_strdup_printf("%s%s%s%s", login, login[0] != '\0' ? ", " : "",
        what, session->input == IMAP_INPUT_IDLE ? ", IDLE" : "");
    ph_session_set_activity(&session->base, activity);
}

void
imap_session_set_state(ImapSession *session, ImapState state)
{
    g_assert((state_rows[session->state].successors & (1U << state)) != 0);
    session->state = state;
    imap_session_show_activity(session);
}

ImapSession *
imap_session_of(PhTask *task)
{
    return PH_CONTAINER_OF(task, ImapSession, base.task);
}

int64_t
imap_deadline_us(void)
{
    return ph_monotonic_us() + JOB_DEADLINE_S * G_USEC_PER_SEC;
}

int64_t
imap_actor(const ImapSession *session)
{
    return session->identity->account_id;
}

void
imap_session_pause(ImapSession *session)
{
    ph_connection_pause(session->base.connection);
    ph_connection_set_timeout_ms(session->base.connection, 0);
}

void
imap_session_run(
    ImapSession *session, PhJob job, PhJobDone done, void *data, GDestroyNotify free_data)
{
    imap_session_pause(session);
    ph_task_run(&session->base.task, PH_LANE_MAIL, job, done, data, free_data);
}

void
imap_session_deselect(ImapSession *session)
{
    ImapSelected *selected = g_steal_pointer(&session->selected);
    if (selected == NULL)
        return;
    ph_mailbox_watch_free(selected->watch);
    ph_wake_close(selected->wake);
    ph_view_unref(selected->told);
    g_free(selected->name);
    g_free(selected);
    if (session->state == IMAP_STATE_SELECTED)
        imap_session_set_state(session, IMAP_STATE_AUTHENTICATED);
}

/* -- input ------------------------------------------------------------------------------------- */

static void
clear_command(ImapSession *session)
{
    if (session->buffer == NULL)
        return;
    /* It may have held a password. */
    ph_wipe(session->buffer->str, session->buffer->len);
    g_string_free(g_steal_pointer(&session->buffer), TRUE);
    /* What APPEND did not take. */
    g_clear_pointer(&session->spool, ph_spool_free);
    g_clear_error(&session->spool_error);
    session->is_refused = false;
}

static void
run_command(ImapSession *session)
{
    ph_assert_on_reactor();
    ph_metric_add(&imap_counters(session)->commands, 1);
    imap_dispatch(session);
    clear_command(session);
}

/* Ends a command of which only the beginning was read. */
static void
refuse_command(ImapSession *session, bool bad, const char *code, const char *text)
{
    ph_assert_on_reactor();
    ImapParser parser = { .at = session->buffer->str,
        .end = session->buffer->str + session->buffer->len };
    g_autofree char *tag = imap_parse_atom(&parser);
    clear_command(session);
    session->command = g_new0(ImapCommand, 1);
    session->command->tag = g_strdup(tag != NULL ? tag : "*");
    if (bad)
        imap_bad(session, text);
    else
        imap_no(session, code, text);
}

/* What is left of an endless line cannot be told from a next command: the session ends. */
static void
refuse_long_line(ImapSession *session)
{
    ph_assert_on_reactor();
    ph_log(PH_LOG_INFO, "imap.line-too-long", "peer=%s",
        ph_connection_peer_address(session->base.connection));
    imap_untagged(session, "BYE [TOOBIG] A command line is too long");
    ph_connection_close(session->base.connection);
}

static void
begin_literal(ImapSession *session, uint64_t size, bool synchronising)
{
    ph_assert_on_reactor();
    bool append = session->spool == NULL && session->state != IMAP_STATE_GREETED &&
                  imap_is_append_message(session->buffer->str, session->buffer->len);
    uint64_t room = append ? (uint64_t)ph_setting_int("server.message.max_bytes")
                           : imap_command_limit(session) -
                                 MIN(imap_command_limit(session), session->buffer->len);
    session->literal_left = size;
    if (size > room) {
        if (synchronising) {
            refuse_command(session, false, "TOOBIG", "That literal is too large");
            return;
        }
        if (session->state == IMAP_STATE_GREETED) {
            /* Nobody we know: gigabytes are not read to be polite (RFC 7888 section 4). */
            refuse_long_line(session);
            return;
        }
        session->is_refused = true;
        session->input = IMAP_INPUT_SWALLOW;
        return;
    }
    if (append)
        session->spool = ph_spool_new((size_t)room);
    session->input = append ? IMAP_INPUT_APPEND : IMAP_INPUT_LITERAL;
    if (synchronising)
        ph_connection_puts(session->base.connection, "+ OK\r\n");
}

/* The rest of a command that is refused for its literal: more literals may be in it, and they are
 * no commands. */
static void
take_refused_line(ImapSession *session, const char *line, size_t length)
{
    ph_assert_on_reactor();
    uint64_t size;
    bool synchronising;
    if (imap_line_ends_with_literal(line, length, &size, &synchronising) && !synchronising) {
        session->literal_left = size;
        session->input = IMAP_INPUT_SWALLOW;
        return;
    }
    refuse_command(session, false, "TOOBIG", "That literal is too large");
}

/* A whole line with its end is in `line`. */
static void
take_command_line(ImapSession *session, const char *line, size_t length)
{
    ph_assert_on_reactor();
    if (session->is_refused) {
        take_refused_line(session, line, length);
        return;
    }
    if (session->buffer == NULL)
        session->buffer = g_string_sized_new(length + 1);
    g_string_append_len(session->buffer, line, (gssize)length);
    uint64_t size;
    bool synchronising;
    if (imap_line_ends_with_literal(line, length, &size, &synchronising)) {
        begin_literal(session, size, synchronising);
        return;
    }
    GString *buffer = session->buffer;
    g_string_truncate(buffer, buffer->len - 1);
    if (buffer->len > 0 && buffer->str[buffer->len - 1] == '\r')
        g_string_truncate(buffer, buffer->len - 1);
    if (buffer->len == 0) {
        /* An empty line between commands is nobody's command; some clients send one. */
        clear_command(session);
        return;
    }
    run_command(session);
}

static void
take_line(ImapSession *session, const char *line, size_t length)
{
    ph_assert_on_reactor();
    if (session->input == IMAP_INPUT_COMMAND) {
        take_command_line(session, line, length);
        return;
    }
    size_t text_length = length - 1;
    if (text_length > 0 && line[text_length - 1] == '\r')
        text_length--;
    g_autofree char *text = g_strndup(line, text_length);
    if (session->input == IMAP_INPUT_IDLE)
        imap_idle_line(session, text);
    else if (session->input == IMAP_INPUT_RESPONSE)
        imap_auth_response(session, text);
    ph_wipe(text, text_length);
}

size_t
imap_command_limit(const ImapSession *session)
{
    return session->state == IMAP_STATE_GREETED ? IMAP_LINE_BEFORE_LOGIN_BYTES
                                                : IMAP_LINE_AFTER_LOGIN_BYTES;
}

/* False: more bytes are needed. A line stays in the connection until its end is there; its limit is
 * that of a command. */
static bool
step_line(ImapSession *session, const char *bytes, size_t length)
{
    ph_assert_on_reactor();
    const char *end = memchr(bytes, '\n', length);
    size_t have = session->buffer != NULL ? session->buffer->len : 0;
    size_t line_length = end != NULL ? (size_t)(end - bytes) + 1 : length;
    if (have + line_length > imap_command_limit(session) + 2) {
        refuse_long_line(session);
        return false;
    }
    if (end == NULL)
        return false;
    /* Copied, and consumed before it is acted on: STARTTLS must find nothing behind it. */
    char *line = g_memdup2(bytes, line_length);
    ph_connection_consume(session->base.connection, line_length);
    take_line(session, line, line_length);
    ph_wipe(line, line_length);
    g_free(line);
    return true;
}

static bool
step_literal(ImapSession *session, const char *bytes, size_t length)
{
    ph_assert_on_reactor();
    size_t n = (size_t)MIN((uint64_t)length, session->literal_left);
    if (session->input == IMAP_INPUT_LITERAL)
        g_string_append_len(session->buffer, bytes, (gssize)n);
    else if (session->input == IMAP_INPUT_APPEND && session->spool_error == NULL)
        ph_spool_append(session->spool, bytes, n, &session->spool_error);
    ph_connection_consume(session->base.connection, n);
    session->literal_left -= n;
    if (session->literal_left > 0)
        return n > 0;
    /* The rest of the command's line follows. */
    session->input = IMAP_INPUT_COMMAND;
    return true;
}

static bool
wants_input(const ImapSession *session)
{
    ph_assert_on_reactor();
    return !ph_task_is_busy(&session->base.task) && session->delayed == NULL &&
           session->fetch == NULL && !ph_connection_is_closing(session->base.connection) &&
           !ph_connection_output_is_full(session->base.connection);
}

static bool
step(ImapSession *session)
{
    ph_assert_on_reactor();
    size_t length;
    const char *bytes = (const char *)ph_connection_input(session->base.connection, &length);
    bool literal = session->input == IMAP_INPUT_LITERAL || session->input == IMAP_INPUT_APPEND ||
                   session->input == IMAP_INPUT_SWALLOW;
    if (length == 0 && !(literal && session->literal_left == 0))
        return false;
    return literal ? step_literal(session, bytes, length) : step_line(session, bytes, length);
}

/* -- callbacks --------------------------------------------------------------------------------- */

static void
opened(PhSession *base)
{
    ph_assert_on_reactor();
    ImapSession *session = (ImapSession *)base;
    ph_metric_add(&imap_counters(session)->sessions, 1);
    ph_connection_set_input_limit(
        base->connection, IMAP_LINE_AFTER_LOGIN_BYTES + IMAP_INPUT_LIMIT_BYTES);
    g_autofree char *capabilities = imap_capabilities(session);
    imap_untagged(session, "OK [CAPABILITY %s] Posthouse is ready", capabilities);
    ph_connection_set_timeout_ms(base->connection, IMAP_LOGIN_TIMEOUT_MS);
}

static void
input(PhSession *base)
{
    ph_assert_on_reactor();
    ImapSession *session = (ImapSession *)base;
    while (wants_input(session) && step(session))
        continue;
    if (wants_input(session) && session->input != IMAP_INPUT_IDLE)
        ph_connection_set_timeout_ms(base->connection,
            session->state == IMAP_STATE_GREETED ? IMAP_LOGIN_TIMEOUT_MS : IMAP_IDLE_TIMEOUT_MS);
}

static void
drained(PhSession *base)
{
    ph_assert_on_reactor();
    ImapSession *session = (ImapSession *)base;
    imap_fetch_go_on(session);
    if (session->input == IMAP_INPUT_IDLE && session->selected != NULL)
        imap_idle_changed(session);
}

static void
secured(PhSession *base)
{
    ph_assert_on_reactor();
    ph_connection_set_timeout_ms(base->connection, IMAP_LOGIN_TIMEOUT_MS);
}

static void
timed_out(PhSession *base)
{
    ph_assert_on_reactor();
    imap_untagged((ImapSession *)base, "BYE You have been silent for too long");
    ph_connection_close(base->connection);
}

/* A command that waits for the store is owed its answer first. */
static void
farewell(PhSession *base, PhFarewell why)
{
    ph_assert_on_reactor();
    ImapSession *session = (ImapSession *)base;
    session->is_leaving = true;
    if (why == PH_FAREWELL_STOPPING && (ph_task_is_busy(&base->task) || session->fetch != NULL))
        return;
    imap_untagged(session,
        why == PH_FAREWELL_CUT ? "BYE Ended by an administrator" : "BYE The service is ending");
    ph_connection_close(base->connection);
}

static void
closed(PhSession *base, PhCloseReason reason)
{
    ph_assert_on_reactor();
    ImapSession *session = (ImapSession *)base;
    ph_log(PH_LOG_DEBUG, "imap.closed", "reason=%d", reason);
    ph_timer_disarm(&session->delay);
    imap_session_deselect(session);
    imap_fetch_abandon(session);
    clear_command(session);
    if (session->command != NULL)
        g_free(session->command->tag);
    g_free(session->command);
    g_clear_pointer(&session->identity, ph_identity_free);
    g_clear_pointer(&session->sasl, ph_sasl_free);
    g_clear_pointer(&session->spool, ph_spool_free);
    g_clear_error(&session->spool_error);
    g_free(session->delayed);
}

const PhSessionClass imap_session_class = {
    .name = "imap",
    .size = sizeof(ImapSession),
    .opened = opened,
    .input = input,
    .drained = drained,
    .timed_out = timed_out,
    .secured = secured,
    .farewell = farewell,
    .closed = closed,
};
