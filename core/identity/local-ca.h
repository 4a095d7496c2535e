/* local-ca.h - the first certificate: a CA of this installation and a leaf signed by it
 *
 * Shape:    FOLDER/ca.pem, ca.key, cert.pem, key.pem. The leaf names the host, "localhost",
 *           127.0.0.1 and ::1. Keys are 0600. What exists and is still good for 30 days is left
 *           alone.
 *           A cert.pem that this CA did not issue is never replaced.
 * Errors:   TEMPORARY (cannot write), INTERNAL.
 * Sources:  RFC 5280; RFC 6125.
 */
#pragma once

#include "posthouse/base.h"

bool ph_local_ca_ensure(const char *folder, const char *host_name, GError **error);
