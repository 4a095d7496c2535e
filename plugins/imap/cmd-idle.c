/* cmd-idle.c - IDLE (RFC 2177) */
#include "imap.h"

#include <string.h>

static void
arm(ImapSession *session)
{
    ph_assert_on_reactor();
    ph_timer_arm_ms(
        &session->delay, ph_connection_reactor(session->base.connection), IMAP_STILL_HERE_MS);
}

/* Keeps networks from forgetting a quiet connection. */
static void
still_here(void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = data;
    imap_untagged(session, "OK Still here");
    arm(session);
}

void
imap_cmd_idle(ImapSession *session, ImapParser *arguments)
{
    if (!imap_parse_end(arguments)) {
        imap_bad(session, "IDLE takes no arguments");
        return;
    }
    /* What is pending comes first: some clients wait for ever for mail that arrived just before. */
    if (session->selected != NULL)
        imap_sync(session, true, NULL);
    if (ph_connection_is_closing(session->base.connection))
        return;
    ph_connection_puts(session->base.connection, "+ idling\r\n");
    session->input = IMAP_INPUT_IDLE;
    imap_session_show_activity(session);
    ph_connection_set_timeout_ms(session->base.connection, IMAP_IDLE_TIMEOUT_MS);
    ph_timer_init(&session->delay, still_here, session);
    arm(session);
}

void
imap_idle_changed(ImapSession *session)
{
    imap_sync(session, true, NULL);
}

void
imap_idle_line(ImapSession *session, const char *line)
{
    ph_timer_disarm(&session->delay);
    session->input = IMAP_INPUT_COMMAND;
    imap_session_show_activity(session);
    if (g_ascii_strcasecmp(line, "DONE") == 0)
        imap_ok(session, "Done");
    else
        imap_bad(session, "IDLE ends with DONE");
}
