/* tls.h - the server's certificates and what OpenSSL is told
 *
 * Shape:    a default certificate from files (the local authority's, at first), and any number of
 *           others, chosen by the name that the client asks for (SNI): the exact name, then "*." for
 *           its first label, then the default. All are replaced as a whole; connections keep the
 *           one they began with.
 * Threads:  ph_tls_use_files and ph_tls_publish in a job or at start; the rest anywhere.
 * Errors:   SYNTAX (a file that is no certificate or key, or they do not belong together),
 *           NOT_FOUND.
 * Sources:  RFC 8446; RFC 7301 (ALPN); RFC 6066 3 (SNI); RFC 9325 (which versions and ciphers); RFC
 *           6125 6.4.3 (wildcards).
 */
#pragma once

#include "posthouse/base.h"

bool ph_tls_use_files(const char *certificate_path, const char *key_path, GError **error);
void ph_tls_forget(void);

/* -- certificates by name ---------------------------------------------------------------------- */

typedef struct PhTlsCertificate {
    char *chain;   /* PEM, leaf first */
    PhSecret *key; /* PEM */
} PhTlsCertificate;

PhTlsCertificate *ph_tls_certificate_new(const char *chain, const PhSecret *key);
void ph_tls_certificate_free(PhTlsCertificate *certificate);

/* GPtrArray of PhTlsCertificate. One that cannot be used is logged and passed over. Of two for one
 * name the one that is valid longer is taken. */
void ph_tls_publish(const GPtrArray *certificates);

/* For the sealed local copy. */
#define PH_TLS_VARIANT "a(ss)"
GVariant *ph_tls_to_variant(void);
GPtrArray *ph_tls_from_variant(GVariant *variant);

typedef struct PhTlsCertificateInfo {
    char *names; /* of the leaf, divided by "," */
    char *issuer;
    int64_t not_before_us;
    int64_t not_after_us;
    bool is_local; /* the default one, from files */
} PhTlsCertificateInfo;

void ph_tls_certificate_info_clear(PhTlsCertificateInfo *info);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PhTlsCertificateInfo, ph_tls_certificate_info_clear)

/* What a chain is; with `key` (not null) also that they belong together. */
bool ph_tls_inspect(
    const char *chain, const PhSecret *key, PhTlsCertificateInfo *info_out, GError **error);
/* The one that a client asking for this name is given. False when there is none at all. */
bool ph_tls_certificate_for(const char *name, PhTlsCertificateInfo *info_out);
