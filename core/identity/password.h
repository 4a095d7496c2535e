/* password.h - verifiers: what is kept instead of a password
 *
 * Shape:    "$argon2id$..." for passwords that people choose; "SCRAM-SHA-256$N:SALT$STORED:SERVER"
 *           (the form PostgreSQL uses) for app passwords, which are 128 random bits, so that a slow
 *           hash would add nothing.
 * Threads:  in a job. Argon2id takes 64 MiB and tens of milliseconds: a semaphore lets as many run
 *           as there are CPUs.
 * Errors:   INTERNAL (no memory).
 * Sources:  RFC 9106; RFC 5802, RFC 7677; libsodium's crypto_pwhash.
 */
#pragma once

#include "posthouse/base.h"

/* May it be a password? SYNTAX says why not. */
bool ph_password_check(const PhSecret *password, GError **error);
PH_IN_JOB char *ph_password_hash_blocking(const PhSecret *password, GError **error);
PH_IN_JOB bool ph_password_verify_blocking(const char *verifier, const PhSecret *password);
/* A new app password, as people copy it ("abcd-efgh-..."), and its verifier. */
PH_IN_JOB PhSecret *ph_app_password_new_blocking(char **verifier_out, GError **error);
/* Same cost as a verification that fails: for logins that do not exist. */
PH_IN_JOB void ph_password_waste_blocking(const PhSecret *password);
