/* resolver.c - libunbound asked with a deadline
 *
 * A question runs in a thread of libunbound's; here its descriptor is waited for, so that a name server
 * that does not answer costs the time that was given and no more.
 */
#include "runtime/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unbound.h>

enum { CLASS_IN = 1, NAME_MAX_BYTES = 255 };

const PhSettingRow ph_resolver_settings[] = {
    { "dns.servers", PH_SETTING_LIST, "", 0, 1024, NULL, PH_SCOPE_GLOBAL | PH_SCOPE_NODE,
        "Name servers to ask, divided by commas: addresses, with \"@PORT\" where it is not 53. Empty: those of "
        "the system." },
    { 0 },
};

struct PhResolver {
    struct ub_ctx *context;
};

static bool
set_servers(struct ub_ctx *context)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    g_auto(GStrv) servers = g_strsplit(ph_settings_text(settings, "dns.servers", NULL), ",", -1);
    bool some = false;
    for (char **server = servers; *server != NULL; server++) {
        if (g_strstrip(*server)[0] == '\0')
            continue;
        if (ub_ctx_set_fwd(context, *server) != 0)
            return false;
        some = true;
    }
    return some || ub_ctx_resolvconf(context, NULL) == 0;
}

PhResolver *
ph_resolver_new(GError **error)
{
    g_autoptr(PhResolver) resolver = g_new0(PhResolver, 1);
    resolver->context = ub_ctx_create();
    if (resolver->context == NULL) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "the resolver cannot be started");
        return NULL;
    }
    ub_ctx_async(resolver->context, 1);
    /* A name server on this host or network is as good as another, and may know such names. */
    static const char *const options[][2] = {
        { "do-not-query-localhost:", "no" },
        { "unblock-lan-zones:", "yes" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        ub_ctx_set_option(resolver->context, options[i][0], options[i][1]);
    if (!set_servers(resolver->context)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_SYNTAX, "\"dns.servers\" holds something that is no address");
        return NULL;
    }
    /* The context is final from here on. */
    ub_ctx_zone_add(resolver->context, "test.", "transparent");
    return g_steal_pointer(&resolver);
}

void
ph_resolver_free(PhResolver *resolver)
{
    if (resolver == NULL)
        return;
    if (resolver->context != NULL)
        ub_ctx_delete(resolver->context);
    g_free(resolver);
}

/* -- asking ------------------------------------------------------------------------------------ */

typedef struct Question {
    bool is_answered;
    int failure;
    struct ub_result *result;
} Question;

static void
answered(void *data, int failure, struct ub_result *result)
{
    Question *question = data;
    question->is_answered = true;
    question->failure = failure;
    question->result = result;
}

static bool
wait_for_answer(PhResolver *resolver, const Question *question, int64_t deadline_us)
{
    while (!question->is_answered) {
        int64_t left_us = deadline_us - ph_monotonic_us();
        if (left_us <= 0)
            return false;
        struct pollfd fd = { .fd = ub_fd(resolver->context), .events = POLLIN };
        if (poll(&fd, 1, (int)(left_us / 1000 + 1)) > 0 && ub_process(resolver->context) != 0)
            return false;
    }
    return true;
}

/* A name of a record, compression resolved by the library; false: it leads out of the data. */
static bool
append_name(GString *out, const uint8_t *data, size_t length)
{
    size_t at = 0;
    size_t start = out->len;
    while (at < length && data[at] != 0) {
        size_t label = data[at];
        if (label > 63 || at + 1 + label > length || out->len - start > NAME_MAX_BYTES)
            return false;
        if (at > 0)
            g_string_append_c(out, '.');
        for (size_t i = 1; i <= label; i++) {
            uint8_t byte = data[at + i];
            if (byte <= ' ' || byte >= 127 || byte == '.' || byte == '\\')
                g_string_append_printf(out, "\\%03u", byte);
            else
                g_string_append_c(out, (char)g_ascii_tolower((char)byte));
        }
        at += 1 + label;
    }
    return at < length;
}

static bool
append_strings(GString *out, const uint8_t *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        size_t n = data[at++];
        if (at + n > length)
            return false;
        g_string_append_len(out, (const char *)data + at, (gssize)n);
        at += n;
    }
    return true;
}

static unsigned
number16(const uint8_t *data)
{
    return (unsigned)(data[0] << 8 | data[1]);
}

/* Null: the record is malformed. */
static char *
record_text(PhRecordType type, const uint8_t *data, size_t length)
{
    char address[INET6_ADDRSTRLEN];
    g_autoptr(GString) text = g_string_new(NULL);
    bool good = false;
    switch (type) {
    case PH_RECORD_A:
    case PH_RECORD_AAAA:
        good = length == (type == PH_RECORD_A ? 4U : 16U) &&
               inet_ntop(type == PH_RECORD_A ? AF_INET : AF_INET6, data, address,
                   sizeof(address)) != NULL;
        g_string_assign(text, good ? address : "");
        break;
    case PH_RECORD_PTR:
        good = append_name(text, data, length);
        break;
    case PH_RECORD_MX:
        if (length < 3)
            return NULL;
        g_string_append_printf(text, "%u ", number16(data));
        good = append_name(text, data + 2, length - 2);
        break;
    case PH_RECORD_SRV:
        if (length < 7)
            return NULL;
        g_string_append_printf(
            text, "%u %u %u ", number16(data), number16(data + 2), number16(data + 4));
        good = append_name(text, data + 6, length - 6);
        break;
    case PH_RECORD_TXT:
        good = append_strings(text, data, length);
        break;
    }
    return good ? g_utf8_make_valid(text->str, (gssize)text->len) : NULL;
}

static GPtrArray *
records_of(const struct ub_result *result, PhRecordType type)
{
    GPtrArray *records = g_ptr_array_new_with_free_func(g_free);
    for (size_t i = 0; result->havedata && result->data[i] != NULL; i++) {
        char *text = record_text(type, (const uint8_t *)result->data[i], (size_t)result->len[i]);
        if (text != NULL)
            g_ptr_array_add(records, text);
    }
    return records;
}

GPtrArray *
ph_resolver_ask_blocking(
    PhResolver *resolver, const char *name, PhRecordType type, int64_t deadline_us, GError **error)
{
    ph_assert_in_job();
    enum { NO_SUCH_NAME = 3, NO_ERROR = 0 };
    Question question = { .is_answered = false };
    int id = 0;
    int failure =
        ub_resolve_async(resolver->context, name, (int)type, CLASS_IN, &question, answered, &id);
    if (failure == 0 && !wait_for_answer(resolver, &question, deadline_us)) {
        ub_cancel(resolver->context, id);
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "no name server answers");
        return NULL;
    }
    failure = failure != 0 ? failure : question.failure;
    const struct ub_result *result = question.result;
    GPtrArray *records = NULL;
    if (failure != 0)
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "%s", ub_strerror(failure));
    else if (result->rcode != NO_ERROR && result->rcode != NO_SUCH_NAME)
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "the name servers fail");
    else
        records = records_of(result, type);
    ub_resolve_free(question.result);
    return records;
}

char *
ph_resolver_reverse_name(const char *address)
{
    uint8_t bytes[16];
    if (inet_pton(AF_INET, address, bytes) == 1)
        return g_strdup_printf("%u.%u.%u.%u.in-addr.arpa", bytes[3], bytes[2], bytes[1], bytes[0]);
    if (inet_pton(AF_INET6, address, bytes) != 1)
        return NULL;
    g_autoptr(GString) name = g_string_new(NULL);
    for (int i = 15; i >= 0; i--)
        g_string_append_printf(name, "%x.%x.", bytes[i] & 15U, bytes[i] >> 4U);
    g_string_append(name, "ip6.arpa");
    return g_string_free(g_steal_pointer(&name), FALSE);
}
