/* console.h - who is logged in to the console
 *
 * Shape:    a token of 256 random bits in a cookie; its hash is a row of console_session. What was
 *           seen of the database lately is remembered, so that those who are logged in stay so while
 *           it is away. A one-time link lets an operator in without it.
 * Threads:  anywhere; *_blocking in a job.
 */
#pragma once

#include "posthouse/base.h"
#include "store/web.h"

/* A random token, and the hash that is kept of it. Free it. */
char *ph_token_new(uint8_t hash_out[PH_TOKEN_HASH_BYTES]);
void ph_token_hash(const char *token, uint8_t hash_out[PH_TOKEN_HASH_BYTES]);

/* A login that works once, in this process, within ten minutes. */
char *ph_console_link_new(const char *actor, int64_t *expires_us_out);
/* Ends all logins that are only in memory. */
void ph_console_forget(void);
