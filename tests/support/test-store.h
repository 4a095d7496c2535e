/* test-store.h - an open store with a domain and accounts, for tests
 *
 * Threads:  as store.h. Errors end the test.
 */
#pragma once

#include "posthouse/delivery.h"
#include "posthouse/mailbox-view.h"
#include "store/store.h"

/* An empty database and a store open on it. The rest of `config` is taken; conninfo and folders are
 * filled in. */
char *test_store_open(const PhStoreConfig *config);
/* Closes, waits, and forgets the database's name. */
void test_store_close(char *conninfo);

/* The monotonic deadline of a step of a test. */
int64_t test_deadline(void);

/* "NAME@example.test"; the domain is made when missing. */
int64_t test_account(const char *name);
PhMailboxKey test_mailbox(int64_t account_id, const char *name);
PhMailbox *test_mailbox_find(int64_t account_id, const char *name);

/* A message with this text in its body. */
PhDelivery *test_message(PhDeliveryMode mode, const char *text);
PhDelivery *test_message_of_bytes(PhDeliveryMode mode, const void *bytes, size_t length);
/* Adds an INBOX, or a mailbox. */
unsigned test_target(PhDelivery *delivery, PhMailboxKey mailbox);
/* Delivers one message; gives its UID. */
uint32_t test_deliver(PhMailboxKey mailbox, const char *text);
