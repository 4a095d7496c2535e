/* resolver.h - questions to the DNS
 *
 * Shape:    a resolver asks the name servers of the setting dns.servers, or those of the system; it keeps
 *           what it learned as long as it lives. Records are given as the texts of a zone file.
 * Threads:  one job at a time for a resolver.
 * Errors:   UNAVAILABLE: could not ask, which never means "there is none".
 * Sources:  RFC 1035 3.3 (the texts), libunbound(3).
 */
#pragma once

#include "posthouse/settings.h"

typedef enum PhRecordType {
    PH_RECORD_A = 1,
    PH_RECORD_PTR = 12,
    PH_RECORD_MX = 15,
    PH_RECORD_TXT = 16,
    PH_RECORD_AAAA = 28,
    PH_RECORD_SRV = 33,
} PhRecordType;

typedef struct PhResolver PhResolver;

PhResolver *ph_resolver_new(GError **error);
void ph_resolver_free(PhResolver *resolver);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhResolver, ph_resolver_free)

/* The records of a name as texts ("10 mail.example.org", without final dots; TXT without its quotes);
 * empty when there are none. */
PH_IN_JOB GPtrArray *ph_resolver_ask_blocking(
    PhResolver *resolver, const char *name, PhRecordType type, int64_t deadline_us, GError **error);
/* The name under which an address is looked up for its PTR; null: no address. */
char *ph_resolver_reverse_name(const char *address);

extern const PhSettingRow ph_resolver_settings[];
