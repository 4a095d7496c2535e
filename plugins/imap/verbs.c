/* verbs.c - the table of commands and of capabilities, and who runs what when */
#include "imap.h"

#include <string.h>

// clang-format off
const ImapVerb imap_verbs[] = {
    {"CAPABILITY", imap_cmd_capability, IN_ANY, 0, "3501 6.1.1"},
    {"NOOP", imap_cmd_noop, IN_ANY, 0, "3501 6.1.2"},
    {"LOGOUT", imap_cmd_logout, IN_ANY, 0, "3501 6.1.3"},
    {"ID", imap_cmd_id, IN_ANY, 0, "2971 3.1"},
    {"STARTTLS", imap_cmd_starttls, IN_GREETED, 0, "3501 6.2.1"},
    {"AUTHENTICATE", imap_cmd_authenticate, IN_GREETED, 0, "3501 6.2.2, 4959"},
    {"LOGIN", imap_cmd_login, IN_GREETED, 0, "3501 6.2.3"},
    {"NAMESPACE", imap_cmd_namespace, IN_LOGGED_IN, 0, "2342 5"},
    {"LIST", imap_cmd_list, IN_LOGGED_IN, 0, "3501 6.3.8"},
    {"LSUB", imap_cmd_lsub, IN_LOGGED_IN, 0, "3501 6.3.9"},
    {"SUBSCRIBE", imap_cmd_subscribe, IN_LOGGED_IN, 0, "3501 6.3.6"},
    {"UNSUBSCRIBE", imap_cmd_unsubscribe, IN_LOGGED_IN, 0, "3501 6.3.7"},
    {"CREATE", imap_cmd_create, IN_LOGGED_IN, 0, "3501 6.3.3"},
    {"DELETE", imap_cmd_delete, IN_LOGGED_IN, 0, "3501 6.3.4"},
    {"RENAME", imap_cmd_rename, IN_LOGGED_IN, 0, "3501 6.3.5"},
    {"STATUS", imap_cmd_status, IN_LOGGED_IN, 0, "3501 6.3.10"},
    {"SELECT", imap_cmd_select, IN_LOGGED_IN, 0, "3501 6.3.1"},
    {"EXAMINE", imap_cmd_examine, IN_LOGGED_IN, 0, "3501 6.3.2"},
    {"APPEND", imap_cmd_append, IN_LOGGED_IN, 0, "3501 6.3.11"},
    {"IDLE", imap_cmd_idle, IN_LOGGED_IN, 0, "2177"},
    {"CHECK", imap_cmd_check, IN_SELECTED, 0, "3501 6.4.1"},
    {"CLOSE", imap_cmd_close, IN_SELECTED, 0, "3501 6.4.2"},
    {"UNSELECT", imap_cmd_unselect, IN_SELECTED, 0, "3691 2"},
    {"EXPUNGE", imap_cmd_expunge, IN_SELECTED, VERB_UID | VERB_WRITES, "3501 6.4.3, 4315 2.1"},
    {"SEARCH", imap_cmd_search, IN_SELECTED, VERB_UID | VERB_KEEPS_SEQUENCE, "3501 6.4.4"},
    {"FETCH", imap_cmd_fetch, IN_SELECTED, VERB_UID | VERB_KEEPS_SEQUENCE, "3501 6.4.5"},
    {"STORE", imap_cmd_store, IN_SELECTED, VERB_UID | VERB_KEEPS_SEQUENCE | VERB_WRITES, "3501 6.4.6"},
    {"COPY", imap_cmd_copy, IN_SELECTED, VERB_UID, "3501 6.4.7"},
    {"MOVE", imap_cmd_move, IN_SELECTED, VERB_UID | VERB_WRITES, "6851 3.1"},
    {0},
};
// clang-format on

/* -- capabilities ------------------------------------------------------------------------------ */

static bool
always(const ImapSession *session)
{
    (void)session;
    return true;
}

static PH_ON_REACTOR bool
can_start_tls(const ImapSession *session)
{
    return session->state == IMAP_STATE_GREETED && session->base.service->tls == PH_TLS_START &&
           ph_tls_is_available() && !ph_connection_is_secure(session->base.connection);
}

static PH_ON_REACTOR bool
can_log_in(const ImapSession *session)
{
    return session->state == IMAP_STATE_GREETED &&
           ph_login_may_send_password(session->base.connection);
}

static PH_ON_REACTOR bool
cannot_log_in(const ImapSession *session)
{
    return session->state == IMAP_STATE_GREETED &&
           !ph_login_may_send_password(session->base.connection);
}

static char *
append_limit(void)
{
    return g_strdup_printf(
        "APPENDLIMIT=%" G_GINT64_FORMAT, ph_setting_int("server.message.max_bytes"));
}

/* "AUTH=PLAIN AUTH=LOGIN" */
static char *
mechanisms(void)
{
    g_auto(GStrv) names = g_strsplit(ph_sasl_mechanisms(), " ", -1);
    g_autofree char *joined = g_strjoinv(" AUTH=", names);
    return g_strdup_printf("AUTH=%s", joined);
}

static const struct {
    const char *name;
    bool (*offered)(const ImapSession *session);
    char *(*text)(void); /* instead of the name */
    const char *source;
} capability_rows[] = {
    { "IMAP4rev1", always, NULL, "3501" },
    { "STARTTLS", can_start_tls, NULL, "3501 6.2.1" },
    { "LOGINDISABLED", cannot_log_in, NULL, "3501 6.2.3" },
    { "AUTH=", can_log_in, mechanisms, "3501 6.2.2" },
    { "SASL-IR", always, NULL, "4959" },
    { "LITERAL+", always, NULL, "7888" },
    { "ID", always, NULL, "2971" },
    { "IDLE", always, NULL, "2177" },
    { "NAMESPACE", always, NULL, "2342" },
    { "CHILDREN", always, NULL, "3348" },
    { "UNSELECT", always, NULL, "3691" },
    { "UIDPLUS", always, NULL, "4315" },
    { "MOVE", always, NULL, "6851" },
    { "SPECIAL-USE", always, NULL, "6154" },
    { "STATUS=SIZE", always, NULL, "8438" },
    { "APPENDLIMIT", always, append_limit, "7889" },
};

char *
imap_capabilities(const ImapSession *session)
{
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(capability_rows); i++) {
        if (!capability_rows[i].offered(session))
            continue;
        g_autofree char *value = capability_rows[i].text != NULL
                                     ? capability_rows[i].text()
                                     : g_strdup(capability_rows[i].name);
        g_string_append_printf(text, "%s%s", text->len > 0 ? " " : "", value);
    }
    return g_string_free(text, FALSE);
}

/* -- dispatch ---------------------------------------------------------------------------------- */

static const ImapVerb *
find_verb(const char *name)
{
    for (const ImapVerb *verb = imap_verbs; verb->name != NULL; verb++)
        if (g_ascii_strcasecmp(verb->name, name) == 0)
            return verb;
    return NULL;
}

/* "UID FETCH": the second word is the verb. */
static const ImapVerb *
parse_verb(ImapParser *parser, bool *is_uid)
{
    g_autofree char *name = imap_parse_atom(parser);
    *is_uid = name != NULL && g_ascii_strcasecmp(name, "UID") == 0;
    if (*is_uid) {
        g_free(name);
        name = imap_parse_space(parser) ? imap_parse_atom(parser) : NULL;
    }
    const ImapVerb *verb = name != NULL ? find_verb(name) : NULL;
    return verb != NULL && *is_uid && (verb->flags & VERB_UID) == 0 ? NULL : verb;
}

static const char *
wrong_state_text(const ImapSession *session, const ImapVerb *verb)
{
    if (session->state == IMAP_STATE_GREETED)
        return "Log in first";
    return (verb->states & IN_SELECTED) != 0 ? "Select a mailbox first"
                                             : "You are logged in already";
}

void
imap_dispatch(ImapSession *session)
{
    ImapParser parser = { .at = session->buffer->str,
        .end = session->buffer->str + session->buffer->len };
    ImapCommand *command = g_new0(ImapCommand, 1);
    command->tag = imap_parse_atom(&parser);
    session->command = command;
    if (command->tag == NULL || strchr(command->tag, '+') != NULL) {
        g_free(command->tag);
        command->tag = g_strdup("*");
        imap_bad(session, "A command begins with a tag");
        return;
    }
    if (!imap_parse_space(&parser)) {
        imap_bad(session, "A command has a name");
        return;
    }
    command->verb = parse_verb(&parser, &command->is_uid);
    if (command->verb == NULL) {
        imap_bad(session, "That command is not known");
        return;
    }
    if ((command->verb->states & (1U << session->state)) == 0) {
        imap_bad(session, wrong_state_text(session, command->verb));
        return;
    }
    if ((command->verb->flags & VERB_WRITES) != 0 && session->selected->read_only) {
        imap_no(session, "NOPERM", "The mailbox is open for reading only");
        return;
    }
    imap_parse_space(&parser);
    command->verb->run(session, &parser);
}
