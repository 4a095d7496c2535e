/* test-store.c - see test-store.h */
#include "tests/support/test-store.h"

#include "tests/support/test-database.h"

#include <string.h>

int64_t
test_deadline(void)
{
    return ph_monotonic_us() + 60000000;
}

char *
test_store_open(const PhStoreConfig *config)
{
    ph_assert_in_job();
    PhStoreConfig full = config != NULL ? *config : (PhStoreConfig){ 0 };
    char *conninfo = test_database_shared();
    g_autofree char *schema = test_database_schema_folder();
    full.conninfo = conninfo;
    full.schema_folder = schema;
    full.spool_folder = g_get_tmp_dir();
    full.node_name = full.node_name != NULL ? full.node_name : "test";
    g_autoptr(GError) error = NULL;
    ph_store_open_blocking(&full, &error);
    g_assert_no_error(error);
    return conninfo;
}

void
test_store_close(char *conninfo)
{
    ph_assert_in_job();
    ph_store_close_blocking();
    g_free(conninfo);
}

int64_t
test_account(const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autofree char *address = g_strconcat(name, "@example.test", NULL);
    ph_domain_add_blocking("example.test", 0, test_deadline(), NULL, NULL);
    int64_t id = 0;
    ph_account_add_blocking(address, name, NULL, test_deadline(), &id, &error);
    g_assert_no_error(error);
    return id;
}

PhMailbox *
test_mailbox_find(int64_t account_id, const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    PhMailbox *mailbox = ph_mailbox_find_blocking(account_id, name, test_deadline(), &error);
    g_assert_no_error(error);
    return mailbox;
}

PhMailboxKey
test_mailbox(int64_t account_id, const char *name)
{
    g_autoptr(PhMailbox) mailbox = test_mailbox_find(account_id, name);
    return mailbox->key;
}

PhDelivery *
test_message_of_bytes(PhDeliveryMode mode, const void *bytes, size_t length)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhSpool) spool = ph_spool_new(64u << 20);
    ph_spool_append(spool, bytes, length, &error);
    g_assert_no_error(error);
    PhDelivery *delivery = ph_delivery_prepare_blocking(spool, mode, &error);
    g_assert_no_error(error);
    return delivery;
}

PhDelivery *
test_message(PhDeliveryMode mode, const char *text)
{
    g_autofree char *message = g_strdup_printf("From: Ada <ada@example.org>\r\n"
                                               "To: bob@example.test\r\n"
                                               "Subject: %.40s\r\n"
                                               "Date: Mon, 2 Jan 2023 10:00:00 +0000\r\n"
                                               "Message-ID: <%.40s@example.org>\r\n"
                                               "\r\n"
                                               "%s\r\n",
        text, text, text);
    return test_message_of_bytes(mode, message, strlen(message));
}

unsigned
test_target(PhDelivery *delivery, PhMailboxKey mailbox)
{
    PhDeliveryTarget target = { .mailbox = mailbox, .internal_date_us = INT64_MIN };
    return ph_delivery_add_target(delivery, &target);
}

uint32_t
test_deliver(PhMailboxKey mailbox, const char *text)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhDelivery) delivery = test_message(PH_DELIVERY_ALL_OR_NONE, text);
    unsigned index = test_target(delivery, mailbox);
    ph_delivery_run_blocking(delivery, test_deadline(), &error);
    g_assert_no_error(error);
    return ph_delivery_result(delivery, index)->uid;
}
