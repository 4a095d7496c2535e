/* mailent.c - a company's mail users in their busy hour: IMAP sessions and SMTP senders that come when they
 * come
 *
 * Usage: mailent --imap PORT --smtp PORT --password-file FILE --users N [--fill] [OPTION...]
 *
 * With --fill it makes each user's folders and messages and ends. Otherwise sessions and senders arrive
 * at a fixed mean rate whatever the server does (Poisson), first for --warm-up seconds, then for
 * --seconds that are measured. It prints "measuring" and "measured" around those, so that another
 * program can read the server's CPU at both ends, and then the report; --json writes it to a file as
 * well. Progress goes to standard error. Users are u0 ... of --domain, each with an address of 127/8
 * of its own.
 *
 * Five types of session, fourteen operations with a limit, and the tables of model.h: what they stand
 * for is in README.md. --compress makes an hour shorter: rates grow, and times that people take shrink.
 *
 * Exit status: 0 when every operation was within its limit often enough and errors were few.
 */
#include "figures.h"
#include "loop.h"
#include "message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 256 * 1024,
    NEWEST = 20,        /* messages that a client looks at */
    LONG_PER_USER = 2,  /* long-lived sessions */
    TROUBLES_TOLD = 10, /* on standard error */
    FILL_AT_ONCE = 24,
    FOLDERS_MIN = 3,
    FOLDERS_MAX = 60,
};
static const double no_reply_s = 60;

typedef enum Op {
    OP_SMTP_CONNECT,
    OP_SMTP_DATA,
    OP_CONNECT,
    OP_LIST,
    OP_LSUB,
    OP_SELECT_INBOX,
    OP_SELECT_FOLDER,
    OP_FETCH_ENVELOPE,
    OP_UID_FETCH,
    OP_FETCH_BODY,
    OP_STORE,
    OP_UID_STORE,
    OP_EXPUNGE,
    OP_APPEND,
    OPS_WITH_LIMIT,
    OP_LOGIN = OPS_WITH_LIMIT,
    OP_NOOP,
    OP_LOGOUT,
    OP_CREATE,
    OP_SUBSCRIBE,
    OP_PROBE,
    OPS,
} Op;

static const char *const op_names[OPS] = {
    [OP_SMTP_CONNECT] = "smtp connect",
    [OP_SMTP_DATA] = "smtp data",
    [OP_CONNECT] = "imap connect",
    [OP_LIST] = "list",
    [OP_LSUB] = "lsub",
    [OP_SELECT_INBOX] = "select inbox",
    [OP_SELECT_FOLDER] = "select folder",
    [OP_FETCH_ENVELOPE] = "fetch envelopes",
    [OP_UID_FETCH] = "uid fetch headers",
    [OP_FETCH_BODY] = "fetch body",
    [OP_STORE] = "store deleted",
    [OP_UID_STORE] = "uid store deleted",
    [OP_EXPUNGE] = "expunge",
    [OP_APPEND] = "append",
    [OP_LOGIN] = "login",
    [OP_NOOP] = "noop",
    [OP_LOGOUT] = "logout",
    [OP_CREATE] = "create",
    [OP_SUBSCRIBE] = "subscribe",
    [OP_PROBE] = "probe",
};

typedef enum Type {
    TYPE_CHECK,  /* SELECT INBOX */
    TYPE_READER, /* by sequence numbers */
    TYPE_SYNC,   /* by UIDs */
    TYPE_FILING, /* another folder, and a copy of what is sent */
    TYPE_LONG,   /* stays, asks now and then */
    TYPES,
    TYPE_FILL = TYPES,
    TYPE_PROBE,
} Type;

static const char *const type_names[TYPES] = { "check", "reader", "sync", "filing", "long" };

/* Before a step: nothing, a person thinks, a program waits. */
typedef enum Wait { WAIT_NOT, WAIT_THINK, WAIT_PERIOD, WAIT_PROBE } Wait;

typedef struct Step {
    Op op;
    Wait wait;
    int folder; /* of OP_CREATE, OP_SUBSCRIBE, OP_APPEND: of the user's; -1: INBOX, -2: Sent */
} Step;
enum { FOLDER_INBOX = -1, FOLDER_SENT = -2 };

typedef struct User {
    uint32_t uid_seen; /* the highest that a synchroniser knows */
    unsigned n_long;
    unsigned n_probes;
} User;

typedef struct Session {
    Wire wire;
    Timer timer; /* a wait, or the end of patience with the server */
    Type type;
    unsigned user;
    GArray *steps;
    unsigned at;
    Op op;         /* under way, OPS: none */
    bool thinking; /* the timer is a wait */
    bool wrong_password;
    bool over;
    bool first_seen; /* the first byte of the answer */
    bool answered;   /* there was data as asked for */
    double begun_s;
    double first_s;
    double stay_until_s;
    GString *line;
    size_t literal;
    GString *kept; /* bytes of literals, where they are looked at */
    bool keeps;
    uint32_t exists;
    uint32_t uid_next;
    uint32_t highest_uid;
    GArray *uids;       /* that were listed and can be deleted */
    GPtrArray *folders; /* that LIST told */
    unsigned deleted;
    GString *message; /* what APPEND sends */
    char *probe_id;
    double probe_s;
    GString *delimiter;
    GPtrArray *own_folders; /* of TYPE_FILL */
} Session;

typedef enum SendStep {
    SEND_GREETING,
    SEND_HELLO,
    SEND_MAIL,
    SEND_RCPT,
    SEND_DATA,
    SEND_BODY,
    SEND_QUIT,
} SendStep;

typedef struct Sender {
    Wire wire;
    Timer timer;
    SendStep step;
    bool over;
    double begun_s;
    char *from;
    GPtrArray *to;
    unsigned n_said;
    GString *message;
    char *id;
    int probe_user; /* a local recipient, -1: none */
    unsigned n_local;
    GString *in;
} Sender;

static struct {
    int imap;
    int smtp;
    int tls;
    int fill;
    int users;
    int seed;
    char *password_file;
    char *domain;
    char *remote;
    char *json;
    char *shares;
    double seconds;
    double warm_up_s;
    double compress;
    double sessions;
    double sent;
    double local_share;
    double wrong_share;
    double probe_share;
    double think_s;
    double period_s;
    double stay_min_s;
    double stay_max_s;
    double scale;
    double inbox;
    double folders;
    double folder_messages;
    double limit_s;
    double limit_share;
    double error_limit;
    double delivery_limit_s;
    int describe;
    int check_every;
} option = {
    .users = 100,
    .seed = 1,
    .seconds = 60,
    .warm_up_s = 30,
    .compress = 1,
    .sessions = 4.8,
    .sent = 1.5,
    .local_share = 1,
    .wrong_share = 0.002,
    .probe_share = 0.01,
    .think_s = 10,
    .period_s = 300,
    .stay_min_s = 20 * 60,
    .stay_max_s = 60 * 60,
    .scale = 1,
    .inbox = 34,
    .folders = 12,
    .folder_messages = 80,
    .limit_s = 5,
    .limit_share = 0.95,
    .error_limit = 0.01,
    .delivery_limit_s = 60,
    .check_every = 50,
};

static struct {
    char *password;
    GRand *random;
    GRand *arriving; /* who comes, when and for what: the same whatever the server does */
    SSL_CTX *tls;
    MessageMaker *maker;
    ModelTable *types;
    ModelTable *recipients;
    User *users;
    Timer next_session;
    Timer next_sender;
    Timer progress;
    GHashTable *sessions; /* open, a set */
    GHashTable *senders;
    double begun_s;
    double measure_s; /* when measuring begins */
    double end_s;
    bool arrivals;
    uint32_t n_senders;
    unsigned fill_next;
    unsigned troubles_told;
    uint64_t bodies;
} load;

/* What was measured. */
static struct {
    Samples first[OPS];
    Samples whole[OPS];
    unsigned errors[OPS];
    unsigned gone; /* operations on a message that another session had deleted */
    unsigned sessions[TYPES];
    unsigned wrong_logins;
    unsigned sent;
    unsigned delivered;
    unsigned outbound;
    unsigned deleted;
    unsigned appended;
    unsigned checked;
    Samples delivery;
    unsigned not_delivered;
    double open_sum;
    unsigned open_n;
} figures;

static unsigned appended_in_fill;

/* -- measuring --------------------------------------------------------------------------------- */

static bool
is_measured(double at_s)
{
    return at_s >= load.measure_s && at_s < load.end_s;
}

static void
tell_trouble(const char *where, const char *text)
{
    if (load.troubles_told++ < TROUBLES_TOLD)
        fprintf(stderr, "mailent: %s: %.200s\n", where, text);
}

static void
count_error(Op op, double begun_s, const char *text)
{
    tell_trouble(op_names[op], text);
    if (is_measured(begun_s))
        figures.errors[op]++;
}

static void
count_done(Op op, double begun_s, double first_s)
{
    if (!is_measured(begun_s))
        return;
    samples_add(&figures.first[op], first_s - begun_s);
    samples_add(&figures.whole[op], load_now_s() - begun_s);
}

/* -- IMAP sessions: their plans ---------------------------------------------------------------- */

static void
plan(Session *session, Op op, Wait wait)
{
    Step step = { .op = op, .wait = wait };
    g_array_append_val(session->steps, step);
}

static void
plan_folder(Session *session, Op op, int folder)
{
    Step step = { .op = op, .folder = folder };
    g_array_append_val(session->steps, step);
}

static void
plan_times(Session *session, Op op, unsigned from, unsigned to)
{
    for (unsigned n = model_uniform(load.arriving, from, to); n > 0; n--)
        plan(session, op, WAIT_THINK);
}

/* How many folders this user has, and their names in the server's own notation; the same each time. */
static GPtrArray *
folders_of(unsigned user, const char *delimiter)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((uint32_t)option.seed * 7919 + user);
    unsigned least = MIN(FOLDERS_MIN, (unsigned)option.folders);
    unsigned n = least + model_geometric(random, option.folders - least);
    n = MIN(n, FOLDERS_MAX);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GArray) depths = g_array_new(FALSE, FALSE, sizeof(unsigned));
    for (unsigned i = 0; i < n; i++) {
        double at = g_rand_double(random);
        unsigned depth = i == 0 || at < 0.6 ? 1 : at < 0.9 ? 2 : 3;
        /* Below the last one that is one level higher. */
        int above = (int)i - 1;
        while (above >= 0 && g_array_index(depths, unsigned, (unsigned)above) != depth - 1)
            above--;
        if (above < 0)
            depth = 1;
        g_array_append_val(depths, depth);
        g_ptr_array_add(names,
            depth == 1 ? g_strdup_printf("Project-%02u", i)
                       : g_strdup_printf("%s%sPart-%02u",
                             (char *)g_ptr_array_index(names, (unsigned)above), delimiter, i));
    }
    return names;
}

static void
plan_fill(Session *session)
{
    session->own_folders = folders_of(session->user, session->delimiter->str);
    plan_folder(session, OP_CREATE, FOLDER_SENT);
    plan_folder(session, OP_SUBSCRIBE, FOLDER_SENT);
    for (unsigned i = 0; i < session->own_folders->len; i++) {
        plan_folder(session, OP_CREATE, (int)i);
        plan_folder(session, OP_SUBSCRIBE, (int)i);
        for (unsigned n = model_geometric(load.random, option.folder_messages); n > 0; n--)
            plan_folder(session, OP_APPEND, (int)i);
    }
    for (unsigned n = model_geometric(load.random, option.inbox); n > 0; n--)
        plan_folder(session, OP_APPEND, FOLDER_INBOX);
    plan(session, OP_LOGOUT, WAIT_NOT);
}

static void
plan_session(Session *session)
{
    plan(session, OP_LOGIN, WAIT_NOT);
    switch (session->type) {
    case TYPE_CHECK:
        plan(session, OP_SELECT_INBOX, WAIT_NOT);
        break;
    case TYPE_READER:
        plan(session, OP_LIST, WAIT_NOT);
        plan(session, OP_SELECT_INBOX, WAIT_NOT);
        plan(session, OP_FETCH_ENVELOPE, WAIT_NOT);
        plan_times(session, OP_FETCH_BODY, 1, 2);
        plan_times(session, OP_STORE, 0, 2);
        plan(session, OP_EXPUNGE, WAIT_NOT);
        break;
    case TYPE_SYNC:
        plan(session, OP_LSUB, WAIT_NOT);
        plan(session, OP_SELECT_INBOX, WAIT_NOT);
        plan(session, OP_UID_FETCH, WAIT_NOT);
        plan_times(session, OP_FETCH_BODY, 1, 3);
        plan_times(session, OP_UID_STORE, 0, 3);
        plan(session, OP_EXPUNGE, WAIT_NOT);
        break;
    case TYPE_FILING:
        plan(session, OP_LIST, WAIT_NOT);
        plan(session, OP_SELECT_FOLDER, WAIT_NOT);
        plan(session, OP_UID_FETCH, WAIT_NOT);
        plan_times(session, OP_FETCH_BODY, 0, 2);
        plan_folder(session, OP_APPEND, FOLDER_SENT);
        g_array_index(session->steps, Step, session->steps->len - 1).wait = WAIT_THINK;
        break;
    case TYPE_LONG:
        plan(session, OP_LSUB, WAIT_NOT);
        plan(session, OP_SELECT_INBOX, WAIT_NOT);
        plan(session, OP_UID_FETCH, WAIT_NOT);
        plan_times(session, OP_FETCH_BODY, 0, 2);
        plan_times(session, OP_UID_STORE, 0, 2);
        plan(session, OP_EXPUNGE, WAIT_NOT);
        return; /* more is planned as long as it stays */
    case TYPE_PROBE:
        plan(session, OP_SELECT_INBOX, WAIT_NOT);
        plan(session, OP_PROBE, WAIT_NOT);
        return;
    case TYPE_FILL:
        plan(session, OP_LIST, WAIT_NOT);
        return; /* plan_fill() when it knows the delimiter */
    }
    plan(session, OP_LOGOUT, WAIT_NOT);
}

/* What a long-lived session does next: now and then it asks, and one time in four reads and deletes. */
static void
plan_stay(Session *session)
{
    if (load_now_s() >= session->stay_until_s) {
        plan(session, OP_LOGOUT, WAIT_NOT);
        return;
    }
    plan(session, OP_NOOP, WAIT_PERIOD);
    if (g_rand_double(load.random) < 0.25) {
        plan(session, OP_UID_FETCH, WAIT_NOT);
        plan(session, OP_FETCH_BODY, WAIT_THINK);
        plan(session, OP_UID_STORE, WAIT_THINK);
        plan(session, OP_EXPUNGE, WAIT_NOT);
    }
}

/* -- IMAP sessions: commands ------------------------------------------------------------------- */

static void session_step(Session *session);
static void start_sender(unsigned user);

static void
session_free(Session *session)
{
    g_hash_table_remove(load.sessions, session);
    timer_clear(&session->timer);
    wire_close(&session->wire);
    if (session->type == TYPE_LONG)
        load.users[session->user].n_long--;
    if (session->type == TYPE_PROBE)
        load.users[session->user].n_probes--;
    g_array_unref(session->steps);
    g_array_unref(session->uids);
    g_ptr_array_unref(session->folders);
    g_clear_pointer(&session->own_folders, g_ptr_array_unref);
    g_string_free(session->line, TRUE);
    g_string_free(session->kept, TRUE);
    g_string_free(session->message, TRUE);
    g_string_free(session->delimiter, TRUE);
    g_free(session->probe_id);
    g_free(session);
}

static const char *
folder_name(const Session *session, int folder)
{
    if (folder == FOLDER_INBOX)
        return "INBOX";
    if (folder == FOLDER_SENT)
        return "Sent";
    return g_ptr_array_index(session->own_folders, (unsigned)folder);
}

static void say(Session *session, Op op, const char *format, ...) PH_PRINTF(3, 4);

/* Sends a command, and times it. */
static void
say(Session *session, Op op, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *line = g_strdup_printf("a %s\r\n", text);
    session->op = op;
    session->first_seen = false;
    session->answered = false;
    session->begun_s = load_now_s();
    session->thinking = false;
    timer_set(&session->timer, session->begun_s + no_reply_s);
    wire_send(&session->wire, line, strlen(line));
}

static uint32_t
newest_from(const Session *session)
{
    return session->exists > NEWEST ? session->exists - NEWEST + 1 : 1;
}

/* A message's number: one of the newest of the inbox, any of another folder. */
static uint32_t
draw_message(const Session *session)
{
    uint32_t from = session->type == TYPE_FILING ? 1 : newest_from(session);
    return model_uniform(load.random, from, session->exists);
}

static void
say_append(Session *session, int folder)
{
    static const double seen_shares[] = { 0.80, 0.98 };
    bool seen = folder == FOLDER_SENT ||
                g_rand_double(load.random) < seen_shares[folder == FOLDER_INBOX ? 0 : 1];
    g_autofree char *from = g_strdup_printf(
        "u%u@%s", model_uniform(load.random, 0, (unsigned)option.users - 1), option.domain);
    g_autofree char *to = g_strdup_printf("u%u@%s", session->user, option.domain);
    g_string_truncate(session->message, 0);
    g_free(message_make(load.maker, load.random, option.scale, from, to, session->message));
    say(session, OP_APPEND, "APPEND \"%s\" %s{%zu}", folder_name(session, folder),
        seen ? "(\\Seen) " : "", session->message->len);
    g_string_append(session->message, "\r\n");
}

/* False: there is nothing to do it with. */
static bool
say_store(Session *session, Op op)
{
    if (op == OP_STORE) {
        if (session->exists == 0)
            return false;
        say(session, op, "STORE %u +FLAGS (\\Deleted)",
            model_uniform(load.random, 1, session->exists));
        return true;
    }
    if (session->uids->len == 0)
        return false;
    unsigned place = model_uniform(load.random, 0, session->uids->len - 1);
    uint32_t uid = g_array_index(session->uids, uint32_t, place);
    g_array_remove_index_fast(session->uids, place);
    say(session, op, "UID STORE %u +FLAGS (\\Deleted)", uid);
    return true;
}

/* What this user's programs have not seen, and the newest in any case. */
static bool
say_uid_fetch(Session *session)
{
    if (session->exists == 0)
        return false;
    uint32_t from = session->uid_next > NEWEST ? session->uid_next - NEWEST : 1;
    uint32_t seen = load.users[session->user].uid_seen;
    if (session->type != TYPE_FILING && seen > 0)
        from = MIN(from, seen + 1);
    g_array_set_size(session->uids, 0);
    say(session, OP_UID_FETCH,
        "UID FETCH %u:* (UID BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT DATE MESSAGE-ID)] FLAGS "
        "RFC822.SIZE)",
        from);
    return true;
}

static bool
perform(Session *session, const Step *step)
{
    switch (step->op) {
    case OP_LOGIN:
        say(session, step->op, "LOGIN \"u%u@%s\" \"%s%s\"", session->user, option.domain,
            load.password, session->wrong_password ? "-wrong" : "");
        return true;
    case OP_LIST:
        say(session, step->op, "LIST \"\" \"*\"");
        return true;
    case OP_LSUB:
        say(session, step->op, "LSUB \"\" \"*\"");
        return true;
    case OP_SELECT_INBOX:
        say(session, step->op, "SELECT INBOX");
        return true;
    case OP_SELECT_FOLDER: {
        unsigned n = session->folders->len;
        if (n == 0)
            return false;
        const char *name =
            g_ptr_array_index(session->folders, model_uniform(load.random, 0, n - 1));
        say(session, step->op, "SELECT \"%s\"", name);
        return true;
    }
    case OP_FETCH_ENVELOPE:
        if (session->exists == 0)
            return false;
        say(session, step->op,
            "FETCH %u:%u (ENVELOPE BODY.PEEK[HEADER.FIELDS (X-PRIORITY REFERENCES)] FLAGS "
            "INTERNALDATE RFC822.SIZE UID)",
            newest_from(session), session->exists);
        return true;
    case OP_UID_FETCH:
        return say_uid_fetch(session);
    case OP_FETCH_BODY:
        if (session->exists == 0)
            return false;
        session->keeps = load.bodies++ % (unsigned)option.check_every == 0;
        g_string_truncate(session->kept, 0);
        say(session, step->op, "FETCH %u BODY[]", draw_message(session));
        return true;
    case OP_STORE:
    case OP_UID_STORE:
        return say_store(session, step->op);
    case OP_EXPUNGE:
        if (session->deleted == 0)
            return false;
        session->deleted = 0;
        say(session, step->op, "EXPUNGE");
        return true;
    case OP_APPEND:
        say_append(session, step->folder);
        return true;
    case OP_NOOP:
        say(session, step->op, "NOOP");
        return true;
    case OP_LOGOUT:
        say(session, step->op, "LOGOUT");
        return true;
    case OP_CREATE:
        say(session, step->op, "CREATE \"%s\"", folder_name(session, step->folder));
        return true;
    case OP_SUBSCRIBE:
        say(session, step->op, "SUBSCRIBE \"%s\"", folder_name(session, step->folder));
        return true;
    case OP_PROBE:
        session->keeps = true;
        g_string_truncate(session->kept, 0);
        say(session, step->op, "UID FETCH %u:* (UID BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])",
            session->uid_next > 2 * NEWEST ? session->uid_next - 2 * NEWEST : 1);
        return true;
    case OP_SMTP_CONNECT:
    case OP_SMTP_DATA:
    case OP_CONNECT:
    case OPS:
        break;
    }
    return false;
}

static double
wait_s(Wait wait)
{
    switch (wait) {
    case WAIT_THINK:
        return model_exponential(load.random, option.think_s) / option.compress;
    case WAIT_PERIOD:
        return option.period_s / option.compress;
    case WAIT_PROBE:
        return 0.2;
    case WAIT_NOT:
        break;
    }
    return 0;
}

/* The next step, at once or after its wait. */
static void
session_step(Session *session)
{
    session->op = OPS;
    for (;;) {
        if (session->at == session->steps->len && session->type == TYPE_LONG)
            plan_stay(session);
        g_assert(session->at < session->steps->len);
        Step *step = &g_array_index(session->steps, Step, session->at);
        if (step->wait != WAIT_NOT) {
            double at_s = load_now_s() + wait_s(step->wait);
            step->wait = WAIT_NOT;
            session->thinking = true;
            timer_set(&session->timer, at_s);
            return;
        }
        session->at++;
        if (perform(session, step))
            return;
    }
}

static void
session_timer(Timer *timer)
{
    Session *session = LOOP_OWNER(Session, timer, timer);
    if (session->thinking) {
        session_step(session);
        return;
    }
    count_error(session->op, session->begun_s, "no reply");
    session_free(session);
}

/* -- IMAP sessions: answers -------------------------------------------------------------------- */

/* "* LIST (flags) "/" name": the name of a folder that can be selected. */
static void
take_list(Session *session, const char *line)
{
    const char *flags_end = strstr(line, ") ");
    if (flags_end == NULL)
        return;
    const char *at = flags_end + 2;
    if (at[0] == '"' && at[1] != '\0' && at[2] == '"') {
        g_string_truncate(session->delimiter, 0);
        g_string_append_c(session->delimiter, at[1]);
        at += 4;
    } else {
        return;
    }
    const char *noselect = g_strstr_len(line, flags_end - line, "\\Noselect");
    g_autofree char *name = g_strdup(at);
    g_strdelimit(name, "\"", ' ');
    g_strstrip(name);
    session->answered = true;
    if (noselect == NULL && g_str_has_prefix(name, "Project-"))
        g_ptr_array_add(session->folders, g_steal_pointer(&name));
}

static void
take_fetch(Session *session, const char *line)
{
    session->answered = true;
    if (session->op != OP_UID_FETCH)
        return;
    const char *uid_text = strstr(line, "UID ");
    if (uid_text == NULL)
        return;
    uint32_t uid = (uint32_t)strtoul(uid_text + 4, NULL, 10);
    g_array_append_val(session->uids, uid);
    session->highest_uid = MAX(session->highest_uid, uid);
}

static void
take_untagged(Session *session, const char *line)
{
    char *word;
    uint32_t number = (uint32_t)strtoul(line + 2, &word, 10);
    if (word != line + 2 && *word == ' ') {
        word++;
        if (g_str_has_prefix(word, "FETCH"))
            take_fetch(session, word);
        else if (g_str_has_prefix(word, "EXISTS"))
            session->exists = number;
        else if (g_str_has_prefix(word, "EXPUNGE") && session->exists > 0)
            session->exists--;
    } else if (g_str_has_prefix(line, "* LIST ") || g_str_has_prefix(line, "* LSUB ")) {
        take_list(session, line);
    } else if (g_str_has_prefix(line, "* OK [UIDNEXT ")) {
        session->uid_next = (uint32_t)strtoul(line + strlen("* OK [UIDNEXT "), NULL, 10);
    } else if (g_str_has_prefix(line, "* BYE") && session->op != OP_LOGOUT) {
        count_error(session->op, session->begun_s, line);
    }
}

static void
check_body(Session *session)
{
    if (!session->keeps)
        return;
    session->keeps = false;
    if (session->kept->len == 0)
        return;
    if (!message_is_whole(session->kept->str, session->kept->len))
        count_error(OP_FETCH_BODY, session->begun_s, "the message is not what was sent");
    else if (is_measured(session->begun_s))
        figures.checked++;
}

static void
take_probe(Session *session)
{
    double now_s = load_now_s();
    session->keeps = false;
    bool found = strstr(session->kept->str, session->probe_id) != NULL;
    bool late = now_s - session->probe_s > option.delivery_limit_s;
    if (found && is_measured(session->probe_s))
        samples_add(&figures.delivery, now_s - session->probe_s);
    if (!found && late)
        figures.not_delivered += is_measured(session->probe_s);
    if (found || late) {
        plan(session, OP_LOGOUT, WAIT_NOT);
    } else {
        plan(session, OP_NOOP, WAIT_PROBE);
        plan(session, OP_PROBE, WAIT_NOT);
    }
}

/* The command was done; what follows from it. */
static void
take_ok(Session *session)
{
    bool measured = is_measured(session->begun_s);
    switch (session->op) {
    case OP_FETCH_BODY:
        if (!session->answered)
            figures.gone += measured;
        check_body(session);
        break;
    case OP_LIST:
    case OP_LSUB:
        if (!session->answered)
            count_error(session->op, session->begun_s, "no folder was told");
        if (session->type == TYPE_FILL)
            plan_fill(session);
        break;
    case OP_UID_FETCH: {
        User *user = &load.users[session->user];
        if (session->type != TYPE_FILING)
            user->uid_seen = MAX(user->uid_seen, session->highest_uid);
        break;
    }
    case OP_STORE:
    case OP_UID_STORE:
        session->deleted++;
        if (session->answered)
            figures.deleted += measured;
        break;
    case OP_APPEND:
        figures.appended += measured;
        appended_in_fill++;
        /* A copy was filed: it is sent as well. */
        if (session->type == TYPE_FILING && load.arrivals)
            start_sender(session->user);
        break;
    case OP_PROBE:
        take_probe(session);
        break;
    case OP_SMTP_CONNECT:
    case OP_SMTP_DATA:
    case OP_CONNECT:
    case OP_SELECT_INBOX:
    case OP_SELECT_FOLDER:
    case OP_FETCH_ENVELOPE:
    case OP_EXPUNGE:
    case OP_LOGIN:
    case OP_NOOP:
    case OP_LOGOUT:
    case OP_CREATE:
    case OP_SUBSCRIBE:
    case OPS:
        break;
    }
}

/* Another session of the same user may have expunged it. */
static bool
is_gone(const Session *session, const char *line)
{
    bool of_message = session->op == OP_FETCH_BODY || session->op == OP_STORE ||
                      session->op == OP_FETCH_ENVELOPE || session->op == OP_UID_FETCH;
    return of_message && strstr(line, "[EXPUNGEISSUED]") != NULL;
}

static void
take_tagged(Session *session, const char *line)
{
    bool ok = g_str_has_prefix(line, "a OK");
    bool no = g_str_has_prefix(line, "a NO");
    if (session->op == OP_LOGIN && session->wrong_password) {
        if (no)
            figures.wrong_logins += is_measured(session->begun_s);
        else
            count_error(OP_LOGIN, session->begun_s, "a wrong password was taken");
        g_array_set_size(session->steps, session->at);
        plan(session, OP_LOGOUT, WAIT_NOT);
        session_step(session);
        return;
    }
    /* A folder may be there before. */
    if (session->op == OP_CREATE && no)
        ok = true;
    if (ok) {
        count_done(session->op, session->begun_s, session->first_s);
        take_ok(session);
    } else if (is_gone(session, line)) {
        figures.gone += is_measured(session->begun_s);
        session->keeps = false;
    } else {
        count_error(session->op, session->begun_s, line);
        session->over = true;
        return;
    }
    if (session->op == OP_LOGOUT) {
        if (session->type < TYPES && is_measured(load_now_s()))
            figures.sessions[session->type]++;
        session->over = true;
        return;
    }
    session_step(session);
}

static void
take_line(Session *session, char *line, size_t length)
{
    if (length > 0 && line[length - 1] == '\r')
        line[--length] = '\0';
    if (length > 0 && line[length - 1] == '}') {
        const char *open = g_strrstr_len(line, (gssize)length, "{");
        session->literal = open != NULL ? strtoul(open + 1, NULL, 10) : 0;
    }
    if (session->op == OP_CONNECT) {
        if (g_str_has_prefix(line, "* OK")) {
            count_done(OP_CONNECT, session->begun_s, session->first_s);
            session_step(session);
        } else {
            count_error(OP_CONNECT, session->begun_s, line);
            session->over = true;
        }
    } else if (g_str_has_prefix(line, "a ")) {
        take_tagged(session, line);
    } else if (line[0] == '+' && session->op == OP_APPEND) {
        /* The answer that counts is the one to the message. */
        session->first_seen = false;
        wire_send(&session->wire, session->message->str, session->message->len);
    } else if (line[0] == '*' && line[1] == ' ') {
        take_untagged(session, line);
    }
}

static void
take_bytes(Session *session, char *bytes, size_t length)
{
    while (length > 0 && !session->over) {
        if (session->literal > 0) {
            size_t n = MIN(session->literal, length);
            if (session->keeps)
                g_string_append_len(session->kept, bytes, (gssize)n);
            session->literal -= n;
            bytes += n;
            length -= n;
            continue;
        }
        char *end = memchr(bytes, '\n', length);
        size_t n = end != NULL ? (size_t)(end - bytes) : length;
        g_string_append_len(session->line, bytes, (gssize)n);
        if (session->line->len > LINE_MAX_BYTES)
            load_die("a line has no end");
        if (end == NULL)
            return;
        take_line(session, session->line->str, session->line->len);
        g_string_truncate(session->line, 0);
        bytes += n + 1;
        length -= n + 1;
    }
}

static Session *
session_of(Wire *wire)
{
    return LOOP_OWNER(Session, wire, wire);
}

static void
session_input(Wire *wire)
{
    Session *session = session_of(wire);
    char bytes[64 * 1024];
    ssize_t n;
    while (!session->over && (n = wire_receive(wire, bytes, sizeof(bytes))) != 0) {
        if (n < 0) {
            wire_end(wire, "closed by the server");
            return;
        }
        if (!session->first_seen) {
            session->first_seen = true;
            session->first_s = load_now_s();
        }
        take_bytes(session, bytes, (size_t)n);
    }
    if (session->over)
        session_free(session);
}

static void
session_ended(Wire *wire, const char *why)
{
    Session *session = session_of(wire);
    if (session->op != OPS)
        count_error(session->op, session->begun_s, why);
    else
        tell_trouble("a session that waited", why);
    session_free(session);
}

static Session *
start_session(Type type, unsigned user)
{
    Session *session = g_new0(Session, 1);
    session->wire.fd = -1;
    session->wire.input = session_input;
    session->wire.ended = session_ended;
    session->timer.fire = session_timer;
    session->type = type;
    session->user = user;
    session->steps = g_array_new(FALSE, FALSE, sizeof(Step));
    session->uids = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    session->folders = g_ptr_array_new_with_free_func(g_free);
    session->line = g_string_new(NULL);
    session->kept = g_string_new(NULL);
    session->message = g_string_new(NULL);
    session->delimiter = g_string_new("/");
    session->op = OP_CONNECT;
    session->begun_s = load_now_s();
    session->stay_until_s =
        session->begun_s +
        (option.stay_min_s + g_rand_double(load.random) * (option.stay_max_s - option.stay_min_s)) /
            option.compress;
    if (type == TYPE_LONG)
        load.users[user].n_long++;
    if (type == TYPE_PROBE)
        load.users[user].n_probes++;
    plan_session(session);
    g_hash_table_add(load.sessions, session);
    timer_set(&session->timer, session->begun_s + no_reply_s);
    wire_open(&session->wire, option.imap, 0x10000 + user, load.tls, NULL);
    return session;
}

/* -- SMTP senders ------------------------------------------------------------------------------ */

static void
sender_free(Sender *sender)
{
    g_hash_table_remove(load.senders, sender);
    timer_clear(&sender->timer);
    wire_close(&sender->wire);
    g_ptr_array_unref(sender->to);
    g_string_free(sender->message, TRUE);
    g_string_free(sender->in, TRUE);
    g_free(sender->from);
    g_free(sender->id);
    g_free(sender);
}

static Sender *
sender_of(Wire *wire)
{
    return LOOP_OWNER(Sender, wire, wire);
}

static Op
sender_op(const Sender *sender)
{
    return sender->step == SEND_GREETING ? OP_SMTP_CONNECT : OP_SMTP_DATA;
}

static void
sender_say(Sender *sender, SendStep step, const char *text, const char *argument)
{
    sender->step = step;
    g_autofree char *line = g_strdup_printf("%s%s\r\n", text, argument);
    timer_set(&sender->timer, load_now_s() + no_reply_s);
    wire_send(&sender->wire, line, strlen(line));
}

static void
say_recipient(Sender *sender)
{
    g_autofree char *argument =
        g_strdup_printf("<%s>", (char *)g_ptr_array_index(sender->to, sender->n_said++));
    sender_say(sender, SEND_RCPT, "RCPT TO:", argument);
}

static void
sender_delivered(Sender *sender)
{
    if (is_measured(sender->begun_s)) {
        figures.sent++;
        figures.delivered += sender->n_local;
        figures.outbound += sender->to->len - sender->n_local;
    }
    if (sender->probe_user >= 0 && g_rand_double(load.random) < option.probe_share) {
        Session *probe = start_session(TYPE_PROBE, (unsigned)sender->probe_user);
        probe->probe_id = g_strdup(sender->id);
        probe->probe_s = load_now_s();
    }
}

/* A whole reply came. */
static void
sender_answer(Sender *sender, int code, const char *text)
{
    bool good = code / 100 == (sender->step == SEND_DATA ? 3 : 2);
    double now_s = load_now_s();
    if (!good) {
        count_error(sender_op(sender), sender->begun_s, text);
        sender->over = true;
        return;
    }
    g_autofree char *from = NULL;
    switch (sender->step) {
    case SEND_GREETING:
        count_done(OP_SMTP_CONNECT, sender->begun_s, now_s);
        sender_say(sender, SEND_HELLO, "EHLO ", "load.example.org");
        break;
    case SEND_HELLO:
        from = g_strdup_printf("<%s>", sender->from);
        sender_say(sender, SEND_MAIL, "MAIL FROM:", from);
        break;
    case SEND_MAIL:
        say_recipient(sender);
        break;
    case SEND_RCPT:
        if (sender->n_said < sender->to->len) {
            say_recipient(sender);
        } else {
            sender->begun_s = now_s;
            sender_say(sender, SEND_DATA, "DATA", "");
        }
        break;
    case SEND_DATA:
        sender->step = SEND_BODY;
        timer_set(&sender->timer, now_s + no_reply_s);
        wire_send(&sender->wire, sender->message->str, sender->message->len);
        break;
    case SEND_BODY:
        count_done(OP_SMTP_DATA, sender->begun_s, now_s);
        sender_delivered(sender);
        sender_say(sender, SEND_QUIT, "QUIT", "");
        break;
    case SEND_QUIT:
        sender->over = true;
        break;
    }
}

static void
sender_lines(Sender *sender)
{
    while (!sender->over) {
        char *end = strchr(sender->in->str, '\n');
        if (end == NULL) {
            if (sender->in->len > LINE_MAX_BYTES)
                load_die("a reply has no end");
            return;
        }
        size_t length = (size_t)(end - sender->in->str) + 1;
        g_autofree char *line = g_strndup(sender->in->str, length);
        g_string_erase(sender->in, 0, (gssize)length);
        if (length < 4 || line[3] != '-')
            sender_answer(sender, atoi(line), g_strchomp(line));
    }
}

static void
sender_input(Wire *wire)
{
    Sender *sender = sender_of(wire);
    char bytes[4096];
    ssize_t n;
    while (!sender->over && (n = wire_receive(wire, bytes, sizeof(bytes))) != 0) {
        if (n < 0) {
            wire_end(wire, "closed by the server");
            return;
        }
        g_string_append_len(sender->in, bytes, n);
        sender_lines(sender);
    }
    if (sender->over)
        sender_free(sender);
}

static void
sender_ended(Wire *wire, const char *why)
{
    Sender *sender = sender_of(wire);
    if (sender->step != SEND_QUIT)
        count_error(sender_op(sender), sender->begun_s, why);
    sender_free(sender);
}

static void
sender_timer(Timer *timer)
{
    Sender *sender = LOOP_OWNER(Sender, timer, timer);
    count_error(sender_op(sender), sender->begun_s, "no reply");
    sender_free(sender);
}

static bool
has_name(GPtrArray *names, const char *name)
{
    for (unsigned i = 0; i < names->len; i++) {
        if (g_str_equal(g_ptr_array_index(names, i), name))
            return true;
    }
    return false;
}

static void
draw_recipients(Sender *sender, GRand *random)
{
    unsigned n = model_table_draw(load.recipients, random) + 1;
    sender->probe_user = -1;
    sender->to = g_ptr_array_new_with_free_func(g_free);
    while (sender->to->len < MIN(n, (unsigned)option.users)) {
        unsigned user = model_uniform(random, 0, (unsigned)option.users - 1);
        bool local = g_rand_double(random) < option.local_share;
        g_autofree char *address =
            g_strdup_printf("u%u@%s", user, local ? option.domain : option.remote);
        if (has_name(sender->to, address))
            continue;
        g_ptr_array_add(sender->to, g_steal_pointer(&address));
        sender->n_local += local;
        if (local)
            sender->probe_user = (int)user;
    }
}

static void
start_sender(unsigned user)
{
    Sender *sender = g_new0(Sender, 1);
    sender->wire.fd = -1;
    sender->wire.input = sender_input;
    sender->wire.ended = sender_ended;
    sender->timer.fire = sender_timer;
    sender->in = g_string_new(NULL);
    sender->message = g_string_new(NULL);
    sender->from = g_strdup_printf("u%u@%s", user, option.domain);
    /* The n-th message is the same whatever the server does. */
    g_autoptr(GRand) random =
        g_rand_new_with_seed((uint32_t)option.seed * 1000003u + load.n_senders++);
    draw_recipients(sender, random);
    sender->id = message_make(load.maker, random, option.scale, sender->from,
        g_ptr_array_index(sender->to, 0), sender->message);
    g_string_append(sender->message, ".\r\n");
    sender->begun_s = load_now_s();
    g_hash_table_add(load.senders, sender);
    timer_set(&sender->timer, sender->begun_s + no_reply_s);
    wire_open(&sender->wire, option.smtp, 0x10000 + user, NULL, NULL);
}

/* -- arrivals ---------------------------------------------------------------------------------- */

static unsigned
draw_user(Type type)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        unsigned user = model_uniform(load.arriving, 0, (unsigned)option.users - 1);
        bool full = type == TYPE_LONG && load.users[user].n_long >= LONG_PER_USER;
        if (!full && load.users[user].n_probes == 0)
            return user;
    }
    load_die("too few users for this load");
}

/* A second. */
static double
session_rate(void)
{
    return option.users * option.sessions * option.compress / 3600;
}

/* Messages that are not sent by a session that files a copy as well. */
static double
sender_rate(void)
{
    double filing = load.types->upto[TYPE_FILING] - load.types->upto[TYPE_FILING - 1];
    double own = option.sent - option.sessions * filing;
    return MAX(own, 0) * option.users * option.compress / 3600;
}

static void
session_arrives(Timer *timer)
{
    if (!load.arrivals)
        return;
    Type type = (Type)model_table_draw(load.types, load.arriving);
    Session *session = start_session(type, draw_user(type));
    session->wrong_password = g_rand_double(load.arriving) < option.wrong_share;
    /* From when it was due, so that a busy generator does not thin the load out. */
    timer_set(timer, timer->at_s + model_exponential(load.arriving, 1 / session_rate()));
}

static void
sender_arrives(Timer *timer)
{
    if (!load.arrivals)
        return;
    start_sender(model_uniform(load.arriving, 0, (unsigned)option.users - 1));
    timer_set(timer, timer->at_s + model_exponential(load.arriving, 1 / sender_rate()));
}

static void
tell_progress(Timer *timer)
{
    double now_s = load_now_s();
    unsigned sessions = 0;
    unsigned errors = 0;
    for (unsigned i = 0; i < TYPES; i++)
        sessions += figures.sessions[i];
    for (unsigned i = 0; i < OPS; i++)
        errors += figures.errors[i];
    if (option.fill)
        fprintf(stderr, "mailent: %.0f s, %u of %d users, %u messages\n", now_s - load.begun_s,
            load.fill_next, option.users, appended_in_fill);
    else
        fprintf(stderr,
            "mailent: %.0f s, %s, %u open, %u sessions done, %u messages sent, %u errors\n",
            now_s - load.begun_s, now_s < load.measure_s ? "warming up" : "measuring",
            g_hash_table_size(load.sessions), sessions, figures.sent, errors);
    if (is_measured(now_s)) {
        figures.open_sum += g_hash_table_size(load.sessions);
        figures.open_n++;
    }
    timer_set(timer, now_s + 5);
}

/* -- the report -------------------------------------------------------------------------------- */

static unsigned
all_sessions(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < TYPES; i++)
        n += figures.sessions[i];
    return n;
}

static double
error_rate(void)
{
    unsigned errors = 0;
    unsigned n = 0;
    for (unsigned i = 0; i < OPS; i++) {
        errors += figures.errors[i];
        n += samples_count(&figures.whole[i]);
    }
    return errors + n > 0 ? (double)errors / (errors + n) : 1;
}

static bool
is_within(Op op)
{
    return samples_count(&figures.first[op]) > 0 &&
           samples_within(&figures.first[op], option.limit_s) > option.limit_share;
}

static bool
all_within(void)
{
    bool good = error_rate() < option.error_limit && figures.not_delivered == 0;
    for (unsigned i = 0; i < OPS_WITH_LIMIT; i++)
        good = good && is_within(i);
    return good;
}

/* Calls `each` with every operation that began in time and is not answered yet; gives how many. */
static unsigned
unanswered(void (*each)(Op op, double begun_s, double first_s))
{
    unsigned n = 0;
    GHashTableIter iter;
    void *key;
    double now_s = load_now_s();
    g_hash_table_iter_init(&iter, load.sessions);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        Session *session = key;
        if (session->op == OPS || session->thinking || !is_measured(session->begun_s))
            continue;
        n++;
        if (each != NULL)
            each(session->op, session->begun_s, now_s);
    }
    g_hash_table_iter_init(&iter, load.senders);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        Sender *sender = key;
        bool timed =
            sender->step == SEND_GREETING || sender->step == SEND_DATA || sender->step == SEND_BODY;
        if (!timed || !is_measured(sender->begun_s))
            continue;
        n++;
        if (each != NULL)
            each(sender_op(sender), sender->begun_s, now_s);
    }
    return n;
}

static void
report_text(void)
{
    unsigned n = all_sessions();
    printf("mail-ent-like: seed %d, %d users, time compressed %g times, %.0f s measured\n",
        option.seed, option.users, option.compress, option.seconds);
    printf("  %u sessions (%.1f a second, %.1f meant)", n, n / option.seconds, session_rate());
    for (unsigned i = 0; i < TYPES; i++)
        printf(", %s %u", type_names[i], figures.sessions[i]);
    printf("\n  %u messages sent, %u delivered here, %u outbound, %u deleted, %u appended; %.0f "
           "sessions open\n",
        figures.sent, figures.delivered, figures.outbound, figures.deleted, figures.appended,
        figures.open_n > 0 ? figures.open_sum / figures.open_n : 0);
    printf("  %-18s %8s %9s %9s %9s %9s %9s %7s\n", "operation", "count", "% < limit", "p50 ms",
        "p95 ms", "p99 ms", "whole p95", "errors");
    for (unsigned i = 0; i < OPS; i++) {
        if (samples_count(&figures.first[i]) + figures.errors[i] == 0 && i >= OPS_WITH_LIMIT)
            continue;
        printf("  %-18s %8u %9.2f %9.1f %9.1f %9.1f %9.1f %7u%s\n", op_names[i],
            samples_count(&figures.first[i]),
            samples_within(&figures.first[i], option.limit_s) * 100,
            samples_at(&figures.first[i], 0.50) * 1000, samples_at(&figures.first[i], 0.95) * 1000,
            samples_at(&figures.first[i], 0.99) * 1000, samples_at(&figures.whole[i], 0.95) * 1000,
            figures.errors[i], i < OPS_WITH_LIMIT && !is_within(i) ? "  MISSED" : "");
    }
    printf("  delivery: %u probed, p95 %.0f ms, %u not seen within %.0f s; %u bodies checked, %u "
           "messages gone meanwhile, %u wrong passwords refused\n",
        samples_count(&figures.delivery), samples_at(&figures.delivery, 0.95) * 1000,
        figures.not_delivered, option.delivery_limit_s, figures.checked, figures.gone,
        figures.wrong_logins);
    bool balanced = fabs((double)figures.deleted - figures.delivered) <= 0.1 * figures.delivered;
    printf("  error rate %.3f %%; deletions %s deliveries; generator: %.2f s of CPU\n",
        error_rate() * 100, balanced ? "balance" : "do not balance", load_cpu_s());
}

static void
report_json(void)
{
    Json json = { .text = NULL };
    json_begin(&json, NULL);
    json_text(&json, "kind", "mail-ent-like");
    json_number(&json, "seed", option.seed);
    json_number(&json, "users", option.users);
    json_number(&json, "compress", option.compress);
    json_number(&json, "seconds", option.seconds);
    json_number(&json, "local_share", option.local_share);
    json_number(&json, "sessions", all_sessions());
    json_number(&json, "sessions_an_hour", all_sessions() * 3600.0 / option.seconds);
    json_begin(&json, "types");
    for (unsigned i = 0; i < TYPES; i++)
        json_number(&json, type_names[i], figures.sessions[i]);
    json_end(&json);
    unsigned operations = 0;
    json_begin(&json, "operations");
    for (unsigned i = 0; i < OPS; i++) {
        operations += samples_count(&figures.first[i]);
        json_begin(&json, op_names[i]);
        json_number(&json, "limit", i < OPS_WITH_LIMIT);
        json_number(&json, "within", samples_within(&figures.first[i], option.limit_s));
        json_number(&json, "errors", figures.errors[i]);
        json_samples(&json, "first", &figures.first[i]);
        json_samples(&json, "whole", &figures.whole[i]);
        json_end(&json);
    }
    json_end(&json);
    json_number(&json, "operations_count", operations);
    json_samples(&json, "delivery", &figures.delivery);
    json_number(&json, "not_delivered", figures.not_delivered);
    json_number(&json, "sent", figures.sent);
    json_number(&json, "delivered", figures.delivered);
    json_number(&json, "outbound", figures.outbound);
    json_number(&json, "deleted", figures.deleted);
    json_number(&json, "appended", figures.appended);
    json_number(&json, "gone", figures.gone);
    json_number(&json, "checked", figures.checked);
    json_number(&json, "wrong_passwords", figures.wrong_logins);
    json_number(&json, "open_sessions", figures.open_n > 0 ? figures.open_sum / figures.open_n : 0);
    json_number(&json, "error_rate", error_rate());
    json_number(&json, "within_limits", all_within());
    json_number(&json, "generator_cpu_s", load_cpu_s());
    json_end(&json);
    json_write(&json, option.json);
}

/* -- filling, describing, running -------------------------------------------------------------- */

static int
fill(void)
{
    double last_s = load_now_s();
    while (load.fill_next < (unsigned)option.users || g_hash_table_size(load.sessions) > 0) {
        while (load.fill_next < (unsigned)option.users &&
               g_hash_table_size(load.sessions) < FILL_AT_ONCE)
            start_session(TYPE_FILL, load.fill_next++);
        loop_run(load_now_s() + 0.02);
    }
    unsigned errors = 0;
    for (unsigned i = 0; i < OPS; i++)
        errors += figures.errors[i];
    printf("users=%d messages=%u elapsed_s=%.2f errors=%u\n", option.users, appended_in_fill,
        load_now_s() - last_s, load.troubles_told);
    return load.troubles_told + errors > 0 ? 1 : 0;
}

/* Draws many times what a run draws, and tells what came. */
static int
describe(void)
{
    unsigned n = (unsigned)option.describe;
    double types[TYPES] = { 0 };
    double recipients = 0;
    double one = 0;
    double bytes = 0;
    unsigned whole = 0;
    g_autoptr(GString) text = g_string_new(NULL);
    for (unsigned i = 0; i < n; i++) {
        types[model_table_draw(load.types, load.random)]++;
        unsigned to = model_table_draw(load.recipients, load.random) + 1;
        recipients += to;
        one += to == 1;
        g_string_truncate(text, 0);
        g_free(message_make(
            load.maker, load.random, option.scale, "a@example.org", "b@example.test", text));
        bytes += (double)text->len;
        whole += i % 100 == 0 && message_is_whole(text->str, text->len);
    }
    double inbox = 0;
    double folders = 0;
    for (unsigned i = 0; i < n; i++) {
        inbox += model_geometric(load.random, option.inbox);
        g_autoptr(GPtrArray) names = folders_of(i, "/");
        folders += names->len;
    }
    Json json = { .text = NULL };
    json_begin(&json, NULL);
    for (unsigned i = 0; i < TYPES; i++)
        json_number(&json, type_names[i], types[i] / n);
    json_number(&json, "recipients", recipients / n);
    json_number(&json, "one_recipient", one / n);
    json_number(&json, "message_bytes", bytes / n);
    json_number(&json, "whole", whole);
    json_number(&json, "inbox", inbox / n);
    json_number(&json, "folders", folders / n);
    json_end(&json);
    json_write(&json, "-");
    return 0;
}

static int
run(void)
{
    load.begun_s = load_now_s();
    load.measure_s = load.begun_s + option.warm_up_s;
    load.end_s = load.measure_s + option.seconds;
    load.arrivals = true;
    load.next_session = (Timer){ .fire = session_arrives };
    load.next_sender = (Timer){ .fire = sender_arrives };
    timer_set(&load.next_session, load.begun_s);
    if (sender_rate() > 0)
        timer_set(&load.next_sender, load.begun_s);
    loop_run(load.measure_s);
    printf("measuring\n");
    fflush(stdout);
    loop_run(load.end_s);
    printf("measured\n");
    fflush(stdout);
    /* What began in time may end; what does not is as slow as it has been so far. */
    load.arrivals = false;
    while (unanswered(NULL) > 0 && load_now_s() < load.end_s + option.limit_s)
        loop_run(load_now_s() + 0.1);
    unanswered(count_done);
    report_text();
    if (option.json != NULL)
        report_json();
    return all_within() ? 0 : 1;
}

static ModelTable *
parse_shares(void)
{
    double shares[TYPES] = { 45, 20, 20, 10, 5 };
    if (option.shares != NULL) {
        g_auto(GStrv) parts = g_strsplit(option.shares, ",", -1);
        if (g_strv_length(parts) != TYPES)
            load_die("--shares has %d numbers", TYPES);
        for (unsigned i = 0; i < TYPES; i++)
            shares[i] = g_ascii_strtod(parts[i], NULL);
    }
    return model_table_new(shares, TYPES);
}

static void
prepare(void)
{
    load.random = g_rand_new_with_seed((uint32_t)option.seed);
    load.arriving = g_rand_new_with_seed((uint32_t)option.seed + 1);
    load.maker = message_maker_new((unsigned)option.seed);
    load.types = parse_shares();
    load.recipients = model_recipients_new();
    load.users = g_new0(User, (unsigned)option.users);
    load.sessions = g_hash_table_new(NULL, NULL);
    load.senders = g_hash_table_new(NULL, NULL);
    load.begun_s = load_now_s();
    load.progress.fire = tell_progress;
    loop_init();
}

int
main(int argc, char **argv)
{
    const GOptionEntry entries[] = {
        { "imap", 0, 0, G_OPTION_ARG_INT, &option.imap, "port of 127.0.0.1", "N" },
        { "smtp", 0, 0, G_OPTION_ARG_INT, &option.smtp, "port of 127.0.0.1", "N" },
        { "tls", 0, 0, G_OPTION_ARG_NONE, &option.tls, "IMAP over TLS from the first byte", NULL },
        { "fill", 0, 0, G_OPTION_ARG_NONE, &option.fill, "make folders and messages, and end",
            NULL },
        { "users", 0, 0, G_OPTION_ARG_INT, &option.users, "u0 ... (100)", "N" },
        { "seed", 0, 0, G_OPTION_ARG_INT, &option.seed, "of all that is drawn (1)", "N" },
        { "password-file", 0, 0, G_OPTION_ARG_FILENAME, &option.password_file, "of all users",
            "FILE" },
        { "domain", 0, 0, G_OPTION_ARG_STRING, &option.domain, "(example.test)", "NAME" },
        { "remote", 0, 0, G_OPTION_ARG_STRING, &option.remote, "domain elsewhere (example.org)",
            "NAME" },
        { "json", 0, 0, G_OPTION_ARG_FILENAME, &option.json, "the report (-: standard output)",
            "FILE" },
        { "shares", 0, 0, G_OPTION_ARG_STRING, &option.shares, "of session types (45,20,20,10,5)",
            "N,..." },
        { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &option.seconds, "that are measured (60)", "N" },
        { "warm-up", 0, 0, G_OPTION_ARG_DOUBLE, &option.warm_up_s, "seconds before (30)", "N" },
        { "compress", 0, 0, G_OPTION_ARG_DOUBLE, &option.compress, "an hour, so many times (1)",
            "N" },
        { "sessions", 0, 0, G_OPTION_ARG_DOUBLE, &option.sessions, "of a user in an hour (4.8)",
            "N" },
        { "sent", 0, 0, G_OPTION_ARG_DOUBLE, &option.sent, "messages of a user in an hour (1.5)",
            "N" },
        { "local-share", 0, 0, G_OPTION_ARG_DOUBLE, &option.local_share, "of recipients (1)", "N" },
        { "wrong-share", 0, 0, G_OPTION_ARG_DOUBLE, &option.wrong_share, "of passwords (0.002)",
            "N" },
        { "probe-share", 0, 0, G_OPTION_ARG_DOUBLE, &option.probe_share, "of messages (0.01)",
            "N" },
        { "think", 0, 0, G_OPTION_ARG_DOUBLE, &option.think_s, "seconds, mean (10)", "N" },
        { "scale", 0, 0, G_OPTION_ARG_DOUBLE, &option.scale, "of message sizes (1)", "N" },
        { "inbox", 0, 0, G_OPTION_ARG_DOUBLE, &option.inbox, "messages, mean (34)", "N" },
        { "folders", 0, 0, G_OPTION_ARG_DOUBLE, &option.folders, "of a user, mean (12)", "N" },
        { "folder-messages", 0, 0, G_OPTION_ARG_DOUBLE, &option.folder_messages, "mean (80)", "N" },
        { "limit", 0, 0, G_OPTION_ARG_DOUBLE, &option.limit_s, "seconds of an operation (5)", "N" },
        { "check-every", 0, 0, G_OPTION_ARG_INT, &option.check_every,
            "bodies, one is compared (50)", "N" },
        { "describe", 0, 0, G_OPTION_ARG_INT, &option.describe, "draw so often and tell", "N" },
        { NULL, 0, 0, 0, NULL, NULL, NULL },
    };
    load_parse(argc, argv, entries, "A company's mail users: IMAP sessions and SMTP senders.");
    if (option.domain == NULL)
        option.domain = g_strdup("example.test");
    if (option.remote == NULL)
        option.remote = g_strdup("example.org");
    if (option.check_every < 1 || option.users < 2 || option.compress <= 0 ||
        option.sessions <= 0 || option.seconds <= 0)
        load_die("at least two users, and rates above 0");
    prepare();
    if (option.describe > 0)
        return describe();
    if (option.imap <= 0 || (option.smtp <= 0 && !option.fill) || option.password_file == NULL)
        load_die("--imap, --smtp and --password-file are needed");
    g_autoptr(GError) error = NULL;
    if (!g_file_get_contents(option.password_file, &load.password, NULL, &error))
        load_die("%s", error->message);
    g_strchomp(load.password);
    if (option.tls)
        load.tls = wire_tls_new(NULL);
    load_raise_limits(4000);
    timer_set(&load.progress, load.begun_s + 5);
    return option.fill ? fill() : run();
}
