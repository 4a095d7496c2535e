/* envelope.c - ENVELOPE
 *
 * What is hard here: the size. A list of thousands of short addresses grows tenfold on its way into
 * an envelope, so addresses stop at a limit in number and the envelope at one in bytes.
 */
#include <posthouse/message-address.h>
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include "ascii.h"

#define ENVELOPE_MAX_BYTES ((size_t)1024 * 1024)

typedef enum Item {
    ITEM_DATE,
    ITEM_SUBJECT,
    ITEM_FROM,
    ITEM_SENDER,
    ITEM_REPLY_TO,
    ITEM_TO,
    ITEM_CC,
    ITEM_BCC,
    ITEM_IN_REPLY_TO,
    ITEM_MESSAGE_ID,
    ITEM_COUNT,
} Item;

/* In the order of the ENVELOPE. */
static const struct {
    const char *name;
    bool is_list;
} items[ITEM_COUNT] = {
    [ITEM_DATE] = { "Date", false },
    [ITEM_SUBJECT] = { "Subject", false },
    [ITEM_FROM] = { "From", true },
    [ITEM_SENDER] = { "Sender", true },
    [ITEM_REPLY_TO] = { "Reply-To", true },
    [ITEM_TO] = { "To", true },
    [ITEM_CC] = { "Cc", true },
    [ITEM_BCC] = { "Bcc", true },
    [ITEM_IN_REPLY_TO] = { "In-Reply-To", false },
    [ITEM_MESSAGE_ID] = { "Message-ID", false },
};

typedef struct Value {
    GString *text; /* of a list: "(...)(...)" so far; NULL: not there */
    size_t address_count;
} Value;

static void
append_nstring(GString *out, const char *text)
{
    ph_imap_append_string(out, text, text != NULL ? strlen(text) : 0);
}

static void
append_address(GString *out, const PhAddress *address)
{
    g_string_append_c(out, '(');
    switch (address->kind) {
    case PH_ADDRESS_GROUP_BEGIN:
        g_string_append(out, "NIL NIL ");
        append_nstring(out, address->name);
        g_string_append(out, " NIL");
        break;
    case PH_ADDRESS_GROUP_END:
        g_string_append(out, "NIL NIL NIL NIL");
        break;
    case PH_ADDRESS_MAILBOX:
        append_nstring(out, address->name);
        g_string_append_c(out, ' ');
        append_nstring(out, address->route);
        g_string_append_c(out, ' ');
        append_nstring(out, address->mailbox);
        g_string_append_c(out, ' ');
        append_nstring(out, address->host);
        break;
    }
    g_string_append_c(out, ')');
}

static void
value_add_list(Value *value, const PhHeaderField *field, size_t *budget)
{
    size_t max = PH_ADDRESS_LIST_MAX - MIN(value->address_count, (size_t)PH_ADDRESS_LIST_MAX);
    if (max == 0)
        return;
    g_autoptr(PhAddressList) list = ph_address_list_parse(field->value, field->value_length, max);
    if (value->text == NULL)
        value->text = g_string_new(NULL);
    bool in_group = false;
    for (size_t i = 0; i < list->count; i++) {
        const PhAddress *address = &list->items[i];
        size_t before = value->text->len;
        /* Over the budget a group that is open is still ended. */
        if (*budget == 0 && !(in_group && address->kind == PH_ADDRESS_GROUP_END))
            continue;
        append_address(value->text, address);
        if (address->kind == PH_ADDRESS_GROUP_BEGIN)
            in_group = true;
        if (address->kind == PH_ADDRESS_GROUP_END)
            in_group = false;
        *budget -= MIN(*budget, value->text->len - before);
    }
    value->address_count += list->count;
}

static void
append_list(GString *out, const Value *value)
{
    if (value->text == NULL || value->text->len == 0)
        g_string_append(out, "NIL");
    else
        g_string_append_printf(out, "(%s)", value->text->str);
}

/* Sender and Reply-To stand for From when they are not there, or empty (RFC 3501 7.4.2). */
static const Value *
list_value(const Value *values, unsigned item)
{
    const Value *value = &values[item];
    bool empty = value->text == NULL || value->text->len == 0;
    return empty && (item == ITEM_SENDER || item == ITEM_REPLY_TO) ? &values[ITEM_FROM] : value;
}

void
ph_imap_envelope(const void *header, size_t length, GString *out)
{
    Value values[ITEM_COUNT] = { { .text = NULL } };
    size_t budget = ENVELOPE_MAX_BYTES;
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, header, MIN(length, PH_HEADER_MAX_BYTES));
    while (ph_header_iter_next(&iter, &field)) {
        for (unsigned i = 0; i < ITEM_COUNT; i++) {
            if (!ph_header_field_is(&field, items[i].name))
                continue;
            if (items[i].is_list) {
                value_add_list(&values[i], &field, &budget);
            } else if (values[i].text == NULL) {
                g_autofree char *line = ph_header_unfold(field.value, field.value_length);
                values[i].text = g_string_new(line);
            }
            break;
        }
    }
    g_string_append_c(out, '(');
    for (unsigned i = 0; i < ITEM_COUNT; i++) {
        if (i > 0)
            g_string_append_c(out, ' ');
        if (items[i].is_list)
            append_list(out, list_value(values, i));
        else
            append_nstring(out, values[i].text != NULL ? values[i].text->str : NULL);
    }
    g_string_append_c(out, ')');
    for (unsigned i = 0; i < ITEM_COUNT; i++) {
        if (values[i].text != NULL)
            g_string_free(values[i].text, TRUE);
    }
}
