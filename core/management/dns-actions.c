/* dns-actions.c - the records that a mail domain needs, and what the DNS says of them
 *
 * Each record is a row: its name, what it should hold, the line to paste, and how what is found is judged.
 */
#include "management/actions.h"
#include "runtime/resolver.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

typedef enum Verdict {
    VERDICT_OK,
    VERDICT_MISSING,
    VERDICT_WRONG,
    VERDICT_OPTIONAL, /* missing, and many do without */
    VERDICT_UNKNOWN,  /* could not ask */
} Verdict;

static const char *const verdict_names[] = {
    [VERDICT_OK] = "ok",
    [VERDICT_MISSING] = "missing",
    [VERDICT_WRONG] = "wrong",
    [VERDICT_OPTIONAL] = "optional",
    [VERDICT_UNKNOWN] = "unknown",
};

static const PhArgumentRow arguments[] = { PH_NEEDED("name", "the domain"), { 0 } };

static const PhAnswerRow answers[] = {
    PH_ITEM("type", TEXT, "MX, TXT, A ..."),
    PH_ITEM("name", TEXT, "where it stands"),
    PH_ITEM("state", TEXT,
        "ok, missing, wrong, optional (missing, and many do without) or unknown (could not ask)"),
    PH_ITEM("why", TEXT, "what it is for, or what is wrong with it"),
    PH_ITEM(
        "line", TEXT, "to paste into the zone; of a host with several addresses, several lines"),
    PH_ITEM("found", TEXT, "what the DNS says now, divided by \" | \""),
    { 0 },
};

typedef struct Look {
    PhActionCall *call;
    PhResolver *resolver;
    const char *domain; /* A-labels */
    const char *host;   /* server.host_name */
} Look;

/* One record: what was found (null: could not ask), and what is thought of it. */
static void
answer_record(const Look *look, const char *type, const char *name, Verdict verdict,
    const char *why, const char *line, const GPtrArray *found)
{
    g_autoptr(GString) all = g_string_new(NULL);
    for (guint i = 0; found != NULL && i < found->len; i++)
        g_string_append_printf(all, "%s%s", i > 0 ? " | " : "", (const char *)found->pdata[i]);
    ph_answer_item(look->call);
    ph_answer_text(look->call, "type", type);
    ph_answer_text(look->call, "name", name);
    ph_answer_text(look->call, "state", verdict_names[verdict]);
    ph_answer_text(look->call, "why", why);
    ph_answer_text(look->call, "line", line);
    ph_answer_text(look->call, "found", all->str);
}

PH_IN_JOB static GPtrArray *
ask(const Look *look, const char *name, PhRecordType type)
{
    g_autoptr(GError) ignored = NULL;
    return ph_resolver_ask_blocking(
        look->resolver, name, type, ph_action_deadline_us(look->call), &ignored);
}

/* -- judging ----------------------------------------------------------------------------------- */

static bool
ends_with_host(const GPtrArray *found, const char *host)
{
    for (guint i = 0; i < found->len; i++) {
        const char *text = found->pdata[i];
        const char *last = strrchr(text, ' ');
        if (g_ascii_strcasecmp(last != NULL ? last + 1 : text, host) == 0)
            return true;
    }
    return false;
}

static unsigned
count_beginning(const GPtrArray *found, const char *beginning)
{
    unsigned n = 0;
    for (guint i = 0; i < found->len; i++)
        n += g_ascii_strncasecmp(found->pdata[i], beginning, strlen(beginning)) == 0 ? 1 : 0;
    return n;
}

/* -- the records ------------------------------------------------------------------------------- */

PH_IN_JOB static void
look_at_mx(const Look *look)
{
    g_autoptr(GPtrArray) found = ask(look, look->domain, PH_RECORD_MX);
    g_autofree char *line = g_strdup_printf("%s. IN MX 10 %s.", look->domain, look->host);
    Verdict verdict = found == NULL                       ? VERDICT_UNKNOWN
                      : found->len == 0                   ? VERDICT_MISSING
                      : ends_with_host(found, look->host) ? VERDICT_OK
                                                          : VERDICT_WRONG;
    answer_record(look, "MX", look->domain, verdict,
        verdict == VERDICT_WRONG ? "mail for the domain goes elsewhere"
                                 : "where mail for the domain is taken",
        line, found);
}

/* Addresses that nobody outside can reach: RFC 1918, 6598, 3927; RFC 4193, 4291 2.5.6. */
static bool
is_private(int family, const void *bytes)
{
    const uint8_t *b = bytes;
    if (family == AF_INET6)
        return (b[0] & 0xfe) == 0xfc || (b[0] == 0xfe && (b[1] & 0xc0) == 0x80);
    return b[0] == 10 || b[0] == 127 || (b[0] == 172 && (b[1] & 0xf0) == 16) ||
           (b[0] == 192 && b[1] == 168) || (b[0] == 100 && (b[1] & 0xc0) == 64) ||
           (b[0] == 169 && b[1] == 254);
}

/* A line for each address of this host that others could reach. */
static char *
host_lines(const char *host, int family)
{
    const char *type = family == AF_INET ? "A" : "AAAA";
    g_autoptr(GString) lines = g_string_new(NULL);
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        all = NULL;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        char address[INET6_ADDRSTRLEN];
        if (at->ifa_addr == NULL || at->ifa_addr->sa_family != family ||
            (at->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        const struct sockaddr_in *in = (const struct sockaddr_in *)(void *)at->ifa_addr;
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(void *)at->ifa_addr;
        const void *bytes = family == AF_INET ? (const void *)&in->sin_addr : &in6->sin6_addr;
        if (!is_private(family, bytes) &&
            inet_ntop(family, bytes, address, sizeof(address)) != NULL)
            g_string_append_printf(
                lines, "%s%s. IN %s %s", lines->len > 0 ? "\n" : "", host, type, address);
    }
    if (all != NULL)
        freeifaddrs(all);
    if (lines->len == 0)
        g_string_printf(lines, "%s. IN %s (the address of this server)", host, type);
    return g_string_free(g_steal_pointer(&lines), FALSE);
}

PH_IN_JOB static void
look_at_reverse(const Look *look, const char *address)
{
    g_autofree char *name = ph_resolver_reverse_name(address);
    g_autoptr(GPtrArray) found = ask(look, name, PH_RECORD_PTR);
    g_autofree char *line = g_strdup_printf("%s. IN PTR %s.", name, look->host);
    Verdict verdict = found == NULL                       ? VERDICT_UNKNOWN
                      : found->len == 0                   ? VERDICT_MISSING
                      : ends_with_host(found, look->host) ? VERDICT_OK
                                                          : VERDICT_WRONG;
    answer_record(look, "PTR", name, verdict,
        "many refuse mail from an address that does not lead back to its host; ask who gave you the "
        "address",
        line, found);
}

PH_IN_JOB static void
look_at_host(const Look *look, PhRecordType type)
{
    bool v4 = type == PH_RECORD_A;
    g_autoptr(GPtrArray) found = ask(look, look->host, type);
    g_autofree char *line = host_lines(look->host, v4 ? AF_INET : AF_INET6);
    Verdict verdict = found == NULL    ? VERDICT_UNKNOWN
                      : found->len > 0 ? VERDICT_OK
                      : v4             ? VERDICT_MISSING
                                       : VERDICT_OPTIONAL;
    answer_record(
        look, v4 ? "A" : "AAAA", look->host, verdict, "where this server is", line, found);
    for (guint i = 0; found != NULL && i < found->len; i++)
        look_at_reverse(look, found->pdata[i]);
}

PH_IN_JOB static void
look_at_spf(const Look *look)
{
    g_autoptr(GPtrArray) found = ask(look, look->domain, PH_RECORD_TXT);
    g_autofree char *line = g_strdup_printf("%s. IN TXT \"v=spf1 mx -all\"", look->domain);
    unsigned n = found != NULL ? count_beginning(found, "v=spf1") : 0;
    Verdict verdict = found == NULL ? VERDICT_UNKNOWN
                      : n == 0      ? VERDICT_MISSING
                      : n == 1      ? VERDICT_OK
                                    : VERDICT_WRONG;
    answer_record(look, "TXT", look->domain, verdict,
        n > 1 ? "SPF: more than one is as none (RFC 7208 4.5)"
              : "SPF: which servers may send mail of the domain",
        line, found);
}

PH_IN_JOB static void
look_at_dmarc(const Look *look)
{
    g_autofree char *name = g_strconcat("_dmarc.", look->domain, NULL);
    g_autoptr(GPtrArray) found = ask(look, name, PH_RECORD_TXT);
    g_autofree char *line = g_strdup_printf(
        "%s. IN TXT \"v=DMARC1; p=none; rua=mailto:postmaster@%s\"", name, look->domain);
    unsigned n = found != NULL ? count_beginning(found, "v=DMARC1") : 0;
    Verdict verdict = found == NULL ? VERDICT_UNKNOWN
                      : n == 0      ? VERDICT_MISSING
                      : n == 1      ? VERDICT_OK
                                    : VERDICT_WRONG;
    answer_record(look, "TXT", name, verdict,
        n > 1 ? "DMARC: more than one is as none (RFC 7489 6.6.3)"
              : "DMARC: what others do with mail that is not really of the domain",
        line, found);
}

PH_IN_JOB static void
look_at_service(const Look *look, const char *service, int port)
{
    g_autofree char *name = g_strdup_printf("_%s._tcp.%s", service, look->domain);
    g_autoptr(GPtrArray) found = ask(look, name, PH_RECORD_SRV);
    g_autofree char *line = g_strdup_printf("%s. IN SRV 0 1 %d %s.", name, port, look->host);
    Verdict verdict = found == NULL                       ? VERDICT_UNKNOWN
                      : found->len == 0                   ? VERDICT_OPTIONAL
                      : ends_with_host(found, look->host) ? VERDICT_OK
                                                          : VERDICT_WRONG;
    answer_record(look, "SRV", name, verdict,
        verdict == VERDICT_WRONG ? "mail programs are led elsewhere"
                                 : "mail programs find the server by it (RFC 6186)",
        line, found);
}

static bool
domain_records(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhDomain) domain = ph_action_domain_blocking(call, "name", error);
    if (domain == NULL)
        return false;
    g_autoptr(PhResolver) resolver = ph_resolver_new(error);
    if (resolver == NULL)
        return false;
    g_autoptr(PhSettings) settings = ph_settings_current();
    const Look look = {
        .call = call,
        .resolver = resolver,
        .domain = domain->name_ascii,
        .host = ph_settings_text(settings, "server.host_name", NULL),
    };
    look_at_mx(&look);
    look_at_host(&look, PH_RECORD_A);
    look_at_host(&look, PH_RECORD_AAAA);
    look_at_spf(&look);
    look_at_dmarc(&look);
    look_at_service(&look, "imaps", 993);
    look_at_service(&look, "submissions", 465);
    return true;
}

// clang-format off
const PhActionRow ph_dns_actions[] = {
    { "domain.records", PH_ROLE_TENANT, 0, arguments, answers, domain_records, "GET /domains/{name}/records", NULL, "the DNS records that a domain needs, and what the DNS says of them" },
    { 0 },
};
// clang-format on
