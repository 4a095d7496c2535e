/* write.c - responses */
#include "imap.h"

#include "posthouse/log.h"
#include "posthouse/message-imap.h"

#include <string.h>

void
imap_untagged(ImapSession *session, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    ph_connection_printf(session->base.connection, "* %s\r\n", text);
}

/* -- the end of a command ---------------------------------------------------------------------- */

static void
command_free(ImapCommand *command)
{
    if (command == NULL)
        return;
    g_free(command->tag);
    g_free(command);
}

static bool
may_expunge(const ImapCommand *command)
{
    return command->verb == NULL || command->is_uid ||
           (command->verb->flags & VERB_KEEPS_SEQUENCE) == 0;
}

static void
finish(ImapSession *session, const char *line)
{
    ph_assert_on_reactor();
    ImapCommand *command = g_steal_pointer(&session->command);
    /* The answer to the command that deleted the selected mailbox, or came too late for it, goes
     * before the farewell. */
    bool is_gone = imap_selected_is_gone(session);
    if (session->selected != NULL && !is_gone)
        imap_sync(session, command == NULL || may_expunge(command), NULL);
    ph_connection_printf(
        session->base.connection, "%s %s\r\n", command != NULL ? command->tag : "*", line);
    command_free(command);
    session->input = IMAP_INPUT_COMMAND;
    if (is_gone) {
        imap_leave_gone(session);
        return;
    }
    if (session->is_leaving) {
        imap_untagged(session, "BYE The service is ending");
        ph_connection_close(session->base.connection);
        return;
    }
    if (session->state == IMAP_STATE_LOGOUT) {
        ph_connection_close(session->base.connection);
        return;
    }
    ph_connection_set_timeout_ms(session->base.connection,
        session->state == IMAP_STATE_GREETED ? IMAP_LOGIN_TIMEOUT_MS : IMAP_IDLE_TIMEOUT_MS);
    ph_connection_resume(session->base.connection);
}

static void
finishf(ImapSession *session, const char *word, const char *code, const char *text)
{
    ph_assert_on_reactor();
    g_autofree char *line = code != NULL ? g_strdup_printf("%s [%s] %s", word, code, text)
                                         : g_strdup_printf("%s %s", word, text);
    finish(session, line);
}

void
imap_ok(ImapSession *session, const char *text)
{
    session->bad = 0;
    finishf(session, "OK", NULL, text);
}

void
imap_ok_code(ImapSession *session, const char *code, const char *text)
{
    session->bad = 0;
    finishf(session, "OK", code, text);
}

void
imap_no(ImapSession *session, const char *code, const char *text)
{
    finishf(session, "NO", code, text);
}

static void
send_delayed(void *data)
{
    ph_assert_on_reactor();
    ImapSession *session = data;
    g_autofree char *line = g_steal_pointer(&session->delayed);
    finish(session, line);
}

void
imap_no_later(ImapSession *session, const char *code, const char *text, int64_t delay_ms)
{
    if (delay_ms == 0) {
        imap_no(session, code, text);
        return;
    }
    session->delayed = g_strdup_printf("NO [%s] %s", code, text);
    ph_connection_pause(session->base.connection);
    ph_timer_init(&session->delay, send_delayed, session);
    ph_timer_arm_ms(&session->delay, ph_connection_reactor(session->base.connection), delay_ms);
}

void
imap_bad(ImapSession *session, const char *text)
{
    if (++session->bad >= IMAP_BAD_MAX) {
        imap_untagged(session, "BYE Too many commands that make no sense");
        ph_connection_close(session->base.connection);
        return;
    }
    finishf(session, "BAD", NULL, text);
}

/* The conventions' table. */
static const struct {
    const char *code; /* null: BAD */
    const char *text; /* null: the error's own */
} error_rows[] = {
    [PH_ERROR_SYNTAX] = { "CANNOT", NULL },
    [PH_ERROR_DENIED] = { "NOPERM", NULL },
    [PH_ERROR_NOT_FOUND] = { "NONEXISTENT", NULL },
    [PH_ERROR_CONFLICT] = { "ALREADYEXISTS", NULL },
    [PH_ERROR_TOO_LARGE] = { "TOOBIG", NULL },
    [PH_ERROR_LIMIT] = { "OVERQUOTA", NULL },
    [PH_ERROR_TEMPORARY] = { "UNAVAILABLE", "Try again later" },
    [PH_ERROR_UNAVAILABLE] = { "UNAVAILABLE", "Try again later" },
    [PH_ERROR_ABI] = { "SERVERBUG", "Internal error" },
    [PH_ERROR_INTERNAL] = { "SERVERBUG", "Internal error" },
};

static char *
clean_text(const char *text)
{
    char *clean = g_strndup(text, 300);
    for (char *at = clean; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    return clean;
}

static void
no_error(ImapSession *session, const GError *error, const char *not_found)
{
    ph_assert_on_reactor();
    PhError code = ph_error_code(error);
    if (error_rows[code].text != NULL)
        ph_log(code == PH_ERROR_INTERNAL ? PH_LOG_ERROR : PH_LOG_WARNING, "imap.cannot", "%s",
            error->message);
    g_autofree char *text =
        error_rows[code].text != NULL
            ? g_strdup_printf("%s (%s)", error_rows[code].text, session->base.id)
            : clean_text(error->message);
    imap_no(session, code == PH_ERROR_NOT_FOUND ? not_found : error_rows[code].code, text);
}

void
imap_no_error(ImapSession *session, const GError *error)
{
    no_error(session, error, "NONEXISTENT");
}

void
imap_no_target(ImapSession *session, const GError *error)
{
    no_error(session, error, "TRYCREATE");
}

/* -- values ------------------------------------------------------------------------------------ */

void
imap_append_mailbox(GString *out, const char *name)
{
    g_autoptr(GString) encoded = g_string_new(NULL);
    imap_utf7_encode(encoded, name);
    ph_imap_append_string(out, encoded->str, encoded->len);
}

static const struct {
    uint32_t flag;
    const char *name;
} flag_rows[] = {
    { PH_FLAG_ANSWERED, "\\Answered" },
    { PH_FLAG_FLAGGED, "\\Flagged" },
    { PH_FLAG_DELETED, "\\Deleted" },
    { PH_FLAG_SEEN, "\\Seen" },
    { PH_FLAG_DRAFT, "\\Draft" },
};

void
imap_append_number(GString *out, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    g_string_append_len(out, digits + at, (gssize)(sizeof(digits) - at));
}

static void
append_word(GString *out, const char *word)
{
    g_string_append_c(out, ' ');
    g_string_append(out, word);
}

void
imap_append_flags(GString *out, const PhView *view, const PhViewRow *row, bool recent)
{
    size_t start = out->len;
    for (size_t i = 0; i < G_N_ELEMENTS(flag_rows); i++)
        if ((row->flags & flag_rows[i].flag) != 0)
            append_word(out, flag_rows[i].name);
    for (unsigned bit = 0; bit < 64 && row->keywords >> bit != 0; bit++) {
        const char *name = (row->keywords >> bit & 1) != 0 ? ph_view_keyword(view, bit) : NULL;
        if (name != NULL)
            append_word(out, name);
    }
    if (recent)
        g_string_append(out, " \\Recent");
    if (out->len == start)
        g_string_append_c(out, '(');
    else
        out->str[start] = '(';
    g_string_append_c(out, ')');
}

void
imap_append_keyword_names(GString *out, const PhView *view)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        const char *name = ph_view_keyword(view, bit);
        if (name != NULL)
            append_word(out, name);
    }
}
