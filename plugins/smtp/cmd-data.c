/* cmd-data.c - DATA: from bytes with dots to a durable message
 *
 * The end mark is CR LF "." CR LF and nothing else: a server that also takes LF "." LF can be made
 * to see a second message where its neighbour saw one. A lone LF inside is a line end (or, by a
 * setting, a reason to refuse), never part of the mark.
 *
 * After the mark: a job reads the header block, adds what is missing, and prepares the message; the
 * delivery is then queued without a worker, and its commit decides the reply.
 */
#include "smtp.h"

#include "posthouse/log.h"
#include "posthouse/message-build.h"
#include "posthouse/message-header.h"

#include <string.h>

enum { HEADER_LOOK_BYTES = 256 * 1024 };

void
smtp_data_free(SmtpData *data)
{
    if (data == NULL)
        return;
    ph_spool_free(data->spool);
    g_clear_error(&data->error);
    g_free(data);
}

/* -- unstuffing -------------------------------------------------------------------------------- */

/* The state after a byte that is part of a line's text. */
static SmtpDot
after_text(uint8_t byte)
{
    return byte == '\r' ? DOT_CR : DOT_TEXT;
}

/* One byte. True when it ends the message. What it adds to the message is appended to `out`. */
static bool
decode_byte(SmtpDot *dot, uint8_t byte, bool *lone, GByteArray *out)
{
    static const uint8_t cr_lf[] = { '\r', '\n' };
    switch (*dot) {
    case DOT_LINE_START:
        if (byte == '.') {
            *dot = DOT_DOT;
            return false;
        }
        break;
    case DOT_DOT: /* the dot of stuffing, or the first byte of the mark */
        *dot = DOT_TEXT;
        if (byte == '\r') {
            *dot = DOT_DOT_CR;
            return false;
        }
        break;
    case DOT_DOT_CR:
        if (byte == '\n')
            return true;
        /* ". CR x": a stuffed dot before a lone CR. */
        *lone = true;
        g_byte_array_append(out, cr_lf, 1);
        *dot = DOT_TEXT;
        break;
    case DOT_CR:
        if (byte == '\n') {
            g_byte_array_append(out, cr_lf, 2);
            *dot = DOT_LINE_START;
            return false;
        }
        *lone = true;
        g_byte_array_append(out, cr_lf, 1);
        *dot = DOT_TEXT;
        break;
    case DOT_TEXT:
        break;
    }
    if (byte == '\n') {
        /* A lone LF is a line end of the message, but not one before which the mark may stand. */
        *lone = true;
        g_byte_array_append(out, cr_lf, 2);
        *dot = DOT_TEXT;
        return false;
    }
    *dot = after_text(byte);
    if (byte != '\r')
        g_byte_array_append(out, &byte, 1);
    return false;
}

/* Runs of plain bytes are taken at once: only CR, LF and a dot at the start of a line are looked at
 * one by one. */
bool
smtp_data_decode(SmtpDot *dot, const uint8_t *bytes, size_t length, size_t *used_out,
    bool *lone_line_end_out, GByteArray *out)
{
    size_t at = 0;
    while (at < length) {
        if (*dot == DOT_TEXT) {
            const uint8_t *cr = memchr(bytes + at, '\r', length - at);
            size_t run = cr != NULL ? (size_t)(cr - bytes) - at : length - at;
            const uint8_t *lf = memchr(bytes + at, '\n', run);
            if (lf != NULL)
                run = (size_t)(lf - bytes) - at;
            g_byte_array_append(out, bytes + at, (guint)run);
            at += run;
            if (at == length)
                break;
        }
        if (decode_byte(dot, bytes[at++], lone_line_end_out, out)) {
            *used_out = at;
            return true;
        }
    }
    *used_out = at;
    return false;
}

bool
smtp_data_take(SmtpSession *session, const uint8_t *bytes, size_t length, size_t *used_out)
{
    SmtpData *data = session->data;
    g_autoptr(GByteArray) out = g_byte_array_sized_new((guint)length + 2);
    bool finished =
        smtp_data_decode(&data->dot, bytes, length, used_out, &data->has_lone_line_end, out);
    if (data->error == NULL)
        ph_spool_append(data->spool, out->data, out->len, &data->error);
    return finished;
}

/* -- DATA -------------------------------------------------------------------------------------- */

static SmtpLineEnds
line_ends_setting(void)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *choice = ph_settings_text(settings, "smtp.receive.line_ends", NULL);
    return strcmp(choice, "reject") == 0 ? SMTP_LINE_ENDS_REJECT : SMTP_LINE_ENDS_NORMALISE;
}

void
smtp_cmd_data(SmtpSession *session, const char *rest)
{
    ph_assert_on_reactor();
    if (*rest != '\0') {
        smtp_refuse(session, "501 5.5.4 DATA takes no words");
        return;
    }
    if (session->envelope->recipients->len == 0) {
        smtp_refuse(session, "554 5.5.1 No valid recipients");
        return;
    }
    SmtpData *data = g_new0(SmtpData, 1);
    data->spool = ph_spool_new((size_t)ph_setting_int("server.message.max_bytes"));
    data->line_ends = line_ends_setting();
    session->data = data;
    smtp_session_set_state(session, SMTP_STATE_DATA);
    smtp_reply(session, "354 End with a dot on a line of its own");
}

/* -- after the end mark ------------------------------------------------------------------------ */

/* All that the job needs; nothing of the session. */
typedef struct DeliverJob {
    SmtpEnvelope *envelope;
    SmtpData *data;
    bool is_lmtp;
    bool is_submission;
    size_t max_bytes;
    char *host;
    char *helo;
    char *peer;
    char *tls;
    bool is_extended;
    bool is_authenticated;
    SmtpContext *context; /* policy is to be asked; or null */
    PhDelivery *delivery;
    GArray *
        first_target; /* guint: of each recipient, the first of its accounts' targets (indexes into `targets`) */
    GArray *targets; /* unsigned: targets of the recipients, in order */
    GError *error;
} DeliverJob;

void
smtp_delivery_free(DeliverJob *job)
{
    if (job == NULL)
        return;
    smtp_envelope_free(job->envelope);
    smtp_data_free(job->data);
    smtp_context_free(job->context);
    ph_delivery_free(job->delivery);
    g_array_unref(job->first_target);
    g_array_unref(job->targets);
    g_clear_error(&job->error);
    g_free(job->host);
    g_free(job->helo);
    g_free(job->peer);
    g_free(job->tls);
    g_free(job);
}

static void
append_trace(const DeliverJob *job, GString *out)
{
    const SmtpEnvelope *envelope = job->envelope;
    const SmtpRecipient *first = envelope->recipients->pdata[0];
    PhReceived received = {
        .helo = job->helo,
        .peer_address = job->peer,
        .by = job->host,
        .software = "Posthouse",
        .is_lmtp = job->is_lmtp,
        .is_extended = job->is_extended,
        .is_utf8 = envelope->is_utf8,
        .is_tls = job->tls != NULL,
        .is_authenticated = job->is_authenticated,
        .tls = job->tls,
        .id = envelope->id,
        .recipient = envelope->recipients->len == 1 ? first->address : NULL,
        .time_us = ph_time_now_us(),
    };
    ph_return_path_append(out, envelope->sender);
    ph_received_append(out, &received);
}

typedef struct HeaderLook {
    unsigned hops;
    bool has_date;
    bool has_message_id;
    bool has_from;
} HeaderLook;

static void
look_at_header(const uint8_t *block, size_t length, HeaderLook *look)
{
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, block, length);
    while (ph_header_iter_next(&iter, &field)) {
        if (ph_header_field_is(&field, "Received"))
            look->hops++;
        else if (ph_header_field_is(&field, "Date"))
            look->has_date = true;
        else if (ph_header_field_is(&field, "Message-ID"))
            look->has_message_id = true;
        else if (ph_header_field_is(&field, "From"))
            look->has_from = true;
    }
}

/* RFC 6409 8: what a submitted message lacks is added. */
static void
append_missing(const DeliverJob *job, const HeaderLook *look, GString *out)
{
    if (!look->has_date) {
        g_autofree char *date = ph_date_format(ph_time_now_us(), 0);
        ph_header_append(out, "Date", date);
    }
    if (!look->has_message_id) {
        g_autofree char *id = g_strdup_printf("<%s@%s>", job->envelope->id, job->host);
        ph_header_append(out, "Message-ID", id);
    }
    if (!look->has_from) {
        g_autofree char *from = ph_path_format(job->envelope->sender);
        ph_header_append(out, "From", from);
    }
}

/* A spool with the trace fields in front. */
static PhSpool *
assemble(DeliverJob *job, GError **error)
{
    const PhSpool *body = job->data->spool;
    g_autofree uint8_t *buffer = g_malloc(HEADER_LOOK_BYTES);
    size_t length;
    if (!ph_spool_read(body, 0, buffer, HEADER_LOOK_BYTES, &length, error))
        return NULL;
    HeaderLook look = { .hops = 0 };
    look_at_header(buffer, length, &look);
    if (look.hops >= SMTP_HOPS_MAX) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "too many hops: the mail goes in circles");
        return NULL;
    }
    g_autoptr(GString) head = g_string_new(NULL);
    append_trace(job, head);
    if (job->is_submission)
        append_missing(job, &look, head);

    g_autoptr(PhSpool) whole = ph_spool_new(job->max_bytes + head->len);
    if (!ph_spool_append(whole, head->str, head->len, error))
        return NULL;
    size_t offset = 0;
    while (length > 0) {
        if (!ph_spool_append(whole, buffer, length, error))
            return NULL;
        offset += length;
        if (!ph_spool_read(body, offset, buffer, HEADER_LOOK_BYTES, &length, error))
            return NULL;
    }
    return g_steal_pointer(&whole);
}

/* -- policy ------------------------------------------------------------------------------------ */

/* The header block of what is to be stored, for policy to look at. */
typedef struct Header {
    uint8_t *bytes;
    size_t length;
    size_t size; /* of the whole message */
} Header;

static bool
read_header(const PhSpool *whole, Header *header, GError **error)
{
    header->bytes = g_malloc(HEADER_LOOK_BYTES);
    header->size = ph_spool_size(whole);
    if (!ph_spool_read(whole, 0, header->bytes, HEADER_LOOK_BYTES, &header->length, error))
        return false;
    const uint8_t *end = memmem(header->bytes, header->length, "\r\n\r\n", 4);
    if (end != NULL)
        header->length = (size_t)(end - header->bytes) + 4;
    return true;
}

PH_IN_JOB static void
redirect_copy(DeliverJob *job, int64_t account_id, const PhDecision *decision)
{
    const PhDecision plain = { .kind = PH_DECISION_ACCEPT };
    g_autoptr(PhRoute) route = smtp_policy_redirect_blocking(decision);
    if (route == NULL) {
        smtp_policy_add_target_blocking(job->delivery, account_id, &plain, job->targets);
        return;
    }
    for (guint i = 0; i < route->accounts->len; i++)
        smtp_policy_add_target_blocking(
            job->delivery, g_array_index(route->accounts, int64_t, i), &plain, job->targets);
}

PH_IN_JOB static void
ask_and_add(DeliverJob *job, SmtpRecipient *recipient, int64_t account_id, const Header *header)
{
    PhDecision decision = { .kind = PH_DECISION_NONE };
    SmtpCopy copy = {
        .recipient = recipient->address,
        .tenant_id = recipient->tenant_id,
        .account_id = account_id,
        .headers = (const char *)header->bytes,
        .headers_length = header->length,
        .size = header->size,
    };
    if (job->context != NULL)
        smtp_policy_ask_blocking(smtp_hook_deliver, job->context, &copy, &decision);
    switch (decision.kind) {
    case PH_DECISION_NONE:
        if (recipient->is_junk)
            decision.kind = PH_DECISION_QUARANTINE;
        smtp_policy_add_target_blocking(job->delivery, account_id, &decision, job->targets);
        break;
    case PH_DECISION_ACCEPT:
    case PH_DECISION_QUARANTINE:
        smtp_policy_add_target_blocking(job->delivery, account_id, &decision, job->targets);
        break;
    case PH_DECISION_REJECT:
    case PH_DECISION_DEFER:
        if (recipient->refusal == NULL)
            recipient->refusal = smtp_policy_reply(&decision);
        break;
    case PH_DECISION_DISCARD:
        break;
    case PH_DECISION_REDIRECT:
        redirect_copy(job, account_id, &decision);
        break;
    }
    ph_decision_clear(&decision);
}

PH_IN_JOB static void
add_targets(DeliverJob *job, const Header *header)
{
    for (guint i = 0; i < job->envelope->recipients->len; i++) {
        SmtpRecipient *recipient = job->envelope->recipients->pdata[i];
        g_array_append_val(job->first_target, job->targets->len);
        for (guint k = 0; k < recipient->accounts->len && recipient->refusal == NULL; k++)
            ask_and_add(job, recipient, g_array_index(recipient->accounts, int64_t, k), header);
    }
}

static void
prepare_job(void *data)
{
    ph_assert_in_job();
    DeliverJob *job = data;
    Header header = { .bytes = NULL };
    g_autoptr(PhSpool) whole = assemble(job, &job->error);
    if (whole == NULL)
        return;
    g_clear_pointer(&job->data->spool, ph_spool_free);
    if (job->context == NULL || read_header(whole, &header, &job->error))
        job->delivery = ph_delivery_prepare_blocking(
            whole, job->is_lmtp ? PH_DELIVERY_EACH : PH_DELIVERY_ALL_OR_NONE, &job->error);
    if (job->delivery != NULL)
        add_targets(job, &header);
    g_free(header.bytes);
}

static guint
end_of_targets(const DeliverJob *job, guint recipient)
{
    return recipient + 1 < job->first_target->len
               ? g_array_index(job->first_target, guint, recipient + 1)
               : job->targets->len;
}

/* The worst of a recipient's accounts; null: all have it. */
static const PhDeliveryResult *
recipient_failure(const DeliverJob *job, const PhDelivery *delivery, guint recipient)
{
    guint begin = g_array_index(job->first_target, guint, recipient);
    guint end = end_of_targets(job, recipient);
    for (guint i = begin; i < end; i++) {
        const PhDeliveryResult *result =
            ph_delivery_result(delivery, g_array_index(job->targets, unsigned, i));
        if (!result->delivered)
            return result;
    }
    return NULL;
}

static char *
failure_line(const SmtpSession *session, const PhDeliveryResult *failure)
{
    if (failure->code == PH_ERROR_LIMIT)
        return g_strdup("452 4.2.2 Mailbox full");
    /* Gone since RCPT: the client is told again at its next try, by RCPT. */
    if (failure->code == PH_ERROR_NOT_FOUND && !session->role->is_lmtp)
        return g_strdup("451 4.2.0 A mailbox has gone, try again later");
    return smtp_error_line(session, failure->code, failure->text);
}

/* One reply for the whole (SMTP). */
static void
answer_once(SmtpSession *session, const DeliverJob *job, const PhDelivery *delivery)
{
    ph_assert_on_reactor();
    for (guint i = 0; i < job->first_target->len; i++) {
        const PhDeliveryResult *failure = recipient_failure(job, delivery, i);
        if (failure == NULL)
            continue;
        g_autofree char *line = failure_line(session, failure);
        smtp_refuse(session, line);
        return;
    }
    ph_metric_add(&smtp_counters(session)->received, 1);
    session->noops = session->errors = 0;
    smtp_replyf(session, "250 2.0.0 Ok: %s", job->envelope->id);
    smtp_session_go_on(session);
}

/* One reply for each recipient, in order (LMTP, RFC 2033 4.2). */
static void
answer_each(SmtpSession *session, const DeliverJob *job, const PhDelivery *delivery)
{
    ph_assert_on_reactor();
    for (guint i = 0; i < job->first_target->len; i++) {
        const SmtpRecipient *recipient = job->envelope->recipients->pdata[i];
        const PhDeliveryResult *failure =
            recipient->refusal == NULL ? recipient_failure(job, delivery, i) : NULL;
        if (recipient->refusal == NULL && failure == NULL) {
            ph_metric_add(&smtp_counters(session)->received, 1);
            smtp_replyf(session, "250 2.0.0 Ok: %s", job->envelope->id);
            continue;
        }
        g_autofree char *line = recipient->refusal != NULL ? g_strdup(recipient->refusal)
                                                           : failure_line(session, failure);
        ph_metric_add(
            line[0] == '4' ? &smtp_counters(session)->deferred : &smtp_counters(session)->refused,
            1);
        smtp_reply(session, line);
    }
    session->noops = 0;
    smtp_session_go_on(session);
}

static const char *
outcome_of(const DeliverJob *job, const PhDelivery *delivery, guint i)
{
    const SmtpRecipient *recipient = job->envelope->recipients->pdata[i];
    if (recipient->refusal != NULL)
        return recipient->refusal;
    const PhDeliveryResult *failure = recipient_failure(job, delivery, i);
    if (failure != NULL)
        return failure->text;
    return end_of_targets(job, i) > g_array_index(job->first_target, guint, i) ? "stored"
                                                                               : "discarded";
}

static void
log_outcome(const DeliverJob *job, const PhDelivery *delivery)
{
    g_autofree char *sender = ph_path_format(job->envelope->sender);
    for (guint i = 0; i < job->first_target->len; i++) {
        const SmtpRecipient *recipient = job->envelope->recipients->pdata[i];
        ph_log(PH_LOG_INFO, "smtp.delivered", "id=%s from=<%s> to=<%s> outcome=\"%s\"",
            job->envelope->id, sender, recipient->address, outcome_of(job, delivery, i));
    }
}

/* Takes the job. */
static void
answer(SmtpSession *session, DeliverJob *job, const PhDelivery *delivery)
{
    ph_assert_on_reactor();
    log_outcome(job, delivery);
    if (job->is_lmtp)
        answer_each(session, job, delivery);
    else
        answer_once(session, job, delivery);
    smtp_delivery_free(job);
}

static void
delivery_done(PhTask *task, PhDelivery *delivery, void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    (void)data;
    answer(session, g_steal_pointer(&session->delivery), delivery);
}

/* What policy refuses for one recipient it refuses for all, where there is one reply; null:
 * nothing. */
static const char *
refusal_of_all(const DeliverJob *job)
{
    for (guint i = 0; !job->is_lmtp && i < job->envelope->recipients->len; i++) {
        const SmtpRecipient *recipient = job->envelope->recipients->pdata[i];
        if (recipient->refusal != NULL)
            return recipient->refusal;
    }
    return NULL;
}

/* A refusal of the whole message: once, or (LMTP) once for each recipient. */
static void
refuse_message(SmtpSession *session, const SmtpEnvelope *envelope, const GError *error)
{
    ph_assert_on_reactor();
    if (!session->role->is_lmtp) {
        smtp_refuse_error(session, error);
        return;
    }
    g_autofree char *line = smtp_error_line(session, ph_error_code(error), error->message);
    for (guint i = 1; i < envelope->recipients->len; i++)
        smtp_reply(session, line);
    smtp_refuse_error(session, error);
}

static void
prepare_done(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    SmtpSession *session = PH_CONTAINER_OF(task, SmtpSession, base.task);
    DeliverJob *job = *(DeliverJob **)data;
    if (job->delivery == NULL) {
        refuse_message(session, job->envelope, job->error);
        return;
    }
    const char *refusal = refusal_of_all(job);
    if (refusal != NULL) {
        smtp_refuse(session, refusal);
        return;
    }
    *(DeliverJob **)data = NULL;
    if (job->targets->len == 0) {
        answer(session, job, job->delivery);
        return;
    }
    session->delivery = job;
    ph_delivery_submit(g_steal_pointer(&job->delivery), task, delivery_done, NULL);
}

static char *
describe_tls(PhConnection *connection)
{
    ph_assert_on_reactor();
    int bits;
    const char *cipher = ph_connection_tls_cipher(connection, &bits);
    if (cipher == NULL)
        return NULL;
    return g_strdup_printf("%s %s", ph_connection_tls_version(connection), cipher);
}

static DeliverJob *
deliver_job_new(SmtpSession *session)
{
    ph_assert_on_reactor();
    g_autoptr(PhSettings) settings = ph_settings_current();
    DeliverJob *job = g_new0(DeliverJob, 1);
    job->context = smtp_context_new(session, smtp_hook_deliver);
    job->envelope = g_steal_pointer(&session->envelope);
    job->data = g_steal_pointer(&session->data);
    job->is_lmtp = session->role->is_lmtp;
    job->is_submission = session->role->is_submission;
    job->max_bytes = (size_t)ph_settings_int(settings, "server.message.max_bytes", NULL);
    job->host = g_strdup(ph_settings_text(settings, "server.host_name", NULL));
    job->helo = g_strdup(session->helo);
    job->peer = g_strdup(ph_connection_peer_address(session->base.connection));
    job->tls = describe_tls(session->base.connection);
    job->is_extended = session->is_extended;
    job->is_authenticated = session->identity != NULL;
    job->first_target = g_array_new(FALSE, FALSE, sizeof(guint));
    job->targets = g_array_new(FALSE, FALSE, sizeof(unsigned));
    return job;
}

/* Until the delivery is queued the job belongs to the task, then to the session: when that is gone,
 * nobody calls back. */
static void
holder_free(void *data)
{
    DeliverJob **holder = data;
    smtp_delivery_free(*holder);
    g_free(holder);
}

static void
prepare_held(void *data)
{
    prepare_job(*(DeliverJob **)data);
}

void
smtp_data_finish(SmtpSession *session)
{
    ph_assert_on_reactor();
    DeliverJob *job = deliver_job_new(session);
    smtp_session_set_state(session, SMTP_STATE_GREETED);
    ph_metric_add(&smtp_counters(session)->bytes, (int64_t)ph_spool_size(job->data->spool));
    if (job->data->error == NULL && job->data->has_lone_line_end &&
        job->data->line_ends == SMTP_LINE_ENDS_REJECT)
        g_set_error(&job->data->error, PH_ERROR, PH_ERROR_DENIED, "lines of mail end with CR LF");
    if (job->data->error != NULL) {
        refuse_message(session, job->envelope, job->data->error);
        smtp_delivery_free(job);
        return;
    }
    DeliverJob **holder = g_new(DeliverJob *, 1);
    *holder = job;
    smtp_session_run(session, prepare_held, prepare_done, holder, holder_free);
}
