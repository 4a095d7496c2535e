/* message-build.h - making header fields
 *
 * Shape:    fields end with CR LF, are folded at 78 columns where there is white space and never
 *           hold CR, LF or NUL from the values given: those become spaces, so nothing can be
 *           smuggled in.
 * Units:    microseconds since 1970 UTC; zones in minutes east.
 * Threads:  anywhere; pure.
 * Errors:   none.
 * Sources:  RFC 5322 2.2.3, 3.3; RFC 5321 4.4; RFC 3848; RFC 8314 7.4; RFC 2047 5.
 */
#pragma once

#include <posthouse/base.h>
#include <posthouse/message-address.h>

/* Appends "Mon, 30 Nov 2026 12:00:00 +0000". */
PH_API void ph_date_append(GString *out, int64_t time_us, int zone_minutes);
PH_API char *ph_date_format(int64_t time_us, int zone_minutes);

/* Appends "Name: value" folded. `value` is UTF-8 or ASCII and is not encoded. */
PH_API void ph_header_append(GString *out, const char *name, const char *value);
/* The same for text for people (Subject, a display name): bytes over 127 as encoded words. */
PH_API void ph_header_append_text(GString *out, const char *name, const char *text);

/* Appends "Return-Path: <local@domain>", or "<>" for the null path or NULL. */
PH_API void ph_return_path_append(GString *out, const PhPath *path);

typedef struct PhReceived {
    const char *helo;         /* what the client called itself; NULL: unknown */
    const char *peer_name;    /* its name by DNS, or NULL */
    const char *peer_address; /* "192.0.2.1" or "2001:db8::1", or NULL */
    const char *by;           /* this host */
    const char *software;     /* in a comment behind `by`, or NULL */
    bool is_lmtp;
    bool is_extended; /* EHLO: ESMTP; plain HELO gives SMTP */
    bool is_utf8;     /* SMTPUTF8: UTF8SMTP, UTF8SMTPS, ... (RFC 6531 4.3) */
    bool is_tls;
    bool is_authenticated;
    const char *tls; /* "TLS1.3 TLS_AES_256_GCM_SHA384", in a comment, or NULL */
    const char *id;
    const char *recipient; /* the only recipient, without brackets; NULL for none or several */
    int64_t time_us;
    int zone_minutes;
} PhReceived;

PH_API void ph_received_append(GString *out, const PhReceived *received);
/* The protocol keyword alone: "ESMTPSA" and so on. */
PH_API const char *ph_received_protocol(const PhReceived *received);
