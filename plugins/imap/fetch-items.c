/* fetch-items.c - the items of a FETCH (RFC 3501 6.4.5), pure */
#include "fetch.h"

#include "posthouse/message-imap.h"

#include <string.h>

enum { ITEMS_MAX = 200, FIELDS_MAX = 200 };

static void
item_free(gpointer data)
{
    ImapFetchItem *item = data;
    g_free(item->label);
    g_strfreev(item->fields);
    g_free(item);
}

void
imap_fetch_items_free(ImapFetchItems *items)
{
    if (items == NULL)
        return;
    g_ptr_array_unref(items->items);
    g_free(items);
}

static ImapFetchItem *
add_item(ImapFetchItems *items, ImapFetchKind kind, const char *label)
{
    ImapFetchItem *item = g_new0(ImapFetchItem, 1);
    item->kind = kind;
    item->label = g_strdup(label);
    g_ptr_array_add(items->items, item);
    return item;
}

static const struct {
    const char *name;
    ImapFetchKind kind;
    unsigned meta;
} simple_rows[] = {
    { "FLAGS", IMAP_FETCH_FLAGS, 0 },
    { "UID", IMAP_FETCH_UID, 0 },
    { "INTERNALDATE", IMAP_FETCH_INTERNALDATE, 0 },
    { "RFC822.SIZE", IMAP_FETCH_SIZE, 0 },
    { "ENVELOPE", IMAP_FETCH_ENVELOPE, PH_META_ENVELOPE },
    { "BODYSTRUCTURE", IMAP_FETCH_BODYSTRUCTURE, PH_META_BODYSTRUCTURE },
};

static const struct {
    const char *name;
    const char *items;
} macro_rows[] = {
    { "ALL", "FLAGS INTERNALDATE RFC822.SIZE ENVELOPE" },
    { "FAST", "FLAGS INTERNALDATE RFC822.SIZE" },
    { "FULL", "FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY" },
};

/* The old names of sections. */
static const struct {
    const char *name;
    PhSectionKind section;
    bool sets_seen;
} old_rows[] = {
    { "RFC822.HEADER", PH_SECTION_HEADER, false },
    { "RFC822.TEXT", PH_SECTION_TEXT, true },
    { "RFC822", PH_SECTION_WHOLE, true },
};

/* -- sections ---------------------------------------------------------------------------------- */

static bool
parse_fields(ImapParser *parser, ImapFetchItem *item, GString *label)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    if (!imap_parse_space(parser) || !imap_parse_char(parser, '('))
        return false;
    g_string_append(label, " (");
    do {
        size_t length;
        char *name = imap_parse_astring(parser, &length);
        if (name == NULL)
            return false;
        g_ptr_array_add(names, name);
        if (names->len > FIELDS_MAX)
            return false;
        if (names->len > 1)
            g_string_append_c(label, ' ');
        ImapParser rest = { .at = name, .end = name + length };
        g_autofree char *atom = imap_parse_atom(&rest);
        if (atom != NULL && imap_parse_end(&rest))
            g_string_append(label, name);
        else
            ph_imap_append_string(label, name, length);
    } while (imap_parse_space(parser));
    if (!imap_parse_char(parser, ')'))
        return false;
    g_string_append_c(label, ')');
    g_ptr_array_add(names, NULL);
    g_ptr_array_set_free_func(names, NULL);
    item->fields = (char **)g_ptr_array_free(g_steal_pointer(&names), FALSE);
    return true;
}

/* "HEADER.FIELDS (...)", "HEADER", "TEXT", "MIME" behind the part numbers. */
static bool
parse_section_text(ImapParser *parser, ImapFetchItem *item, GString *label)
{
    if (imap_parse_word(parser, "HEADER.FIELDS.NOT")) {
        g_string_append(label, "HEADER.FIELDS.NOT");
        item->section = PH_SECTION_HEADER;
        item->not_fields = true;
        return parse_fields(parser, item, label);
    }
    if (imap_parse_word(parser, "HEADER.FIELDS")) {
        g_string_append(label, "HEADER.FIELDS");
        item->section = PH_SECTION_HEADER;
        return parse_fields(parser, item, label);
    }
    static const struct {
        const char *name;
        PhSectionKind section;
    } rows[] = {
        { "HEADER", PH_SECTION_HEADER },
        { "TEXT", PH_SECTION_TEXT },
        { "MIME", PH_SECTION_MIME },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (imap_parse_word(parser, rows[i].name)) {
            g_string_append(label, rows[i].name);
            item->section = rows[i].section;
            return item->section != PH_SECTION_MIME || item->path_length > 0;
        }
    return false;
}

static bool
parse_section(ImapParser *parser, ImapFetchItem *item, GString *label)
{
    bool dot = false;
    while (parser->at < parser->end && g_ascii_isdigit(*parser->at)) {
        uint32_t number;
        if (item->path_length == IMAP_SECTION_DEPTH_MAX || !imap_parse_number(parser, &number) ||
            number == 0)
            return false;
        g_string_append_printf(label, "%s%u", dot ? "." : "", number);
        item->path[item->path_length++] = number;
        dot = imap_parse_char(parser, '.');
        if (!dot)
            break;
    }
    item->section = PH_SECTION_WHOLE;
    if (item->path_length > 0 && !dot)
        return true;
    if (item->path_length == 0 && parser->at < parser->end && *parser->at == ']')
        return true;
    if (dot)
        g_string_append_c(label, '.');
    return parse_section_text(parser, item, label);
}

/* "<0.1000>": in the answer only the first number. */
static bool
parse_partial(ImapParser *parser, ImapFetchItem *item, GString *label)
{
    if (!imap_parse_char(parser, '<'))
        return true;
    item->is_partial = true;
    if (!imap_parse_number(parser, &item->first) || !imap_parse_char(parser, '.') ||
        !imap_parse_number(parser, &item->count) || item->count == 0 ||
        !imap_parse_char(parser, '>'))
        return false;
    g_string_append_printf(label, "<%u>", item->first);
    return true;
}

/* Behind "BODY" or "BODY.PEEK", at "[". */
static bool
parse_body_section(ImapFetchItems *items, ImapParser *parser)
{
    g_autoptr(GString) label = g_string_new("BODY[");
    ImapFetchItem *item = add_item(items, IMAP_FETCH_SECTION, NULL);
    if (!imap_parse_char(parser, '[') || !parse_section(parser, item, label) ||
        !imap_parse_char(parser, ']'))
        return false;
    g_string_append_c(label, ']');
    if (!parse_partial(parser, item, label))
        return false;
    item->label = g_strdup(label->str);
    items->meta |= PH_META_OUTLINE;
    if (item->fields != NULL && !item->not_fields && item->path_length == 0)
        items->meta |= PH_META_HEADERS;
    return true;
}

/* -- items ------------------------------------------------------------------------------------- */

static bool
parse_item(ImapFetchItems *items, ImapParser *parser)
{
    for (size_t i = 0; i < G_N_ELEMENTS(simple_rows); i++)
        if (imap_parse_word(parser, simple_rows[i].name)) {
            add_item(items, simple_rows[i].kind, simple_rows[i].name);
            items->meta |= simple_rows[i].meta;
            return true;
        }
    for (size_t i = 0; i < G_N_ELEMENTS(old_rows); i++)
        if (imap_parse_word(parser, old_rows[i].name)) {
            add_item(items, IMAP_FETCH_SECTION, old_rows[i].name)->section = old_rows[i].section;
            items->sets_seen |= old_rows[i].sets_seen;
            items->meta |= PH_META_OUTLINE;
            return true;
        }
    if (imap_parse_word(parser, "BODY.PEEK"))
        return parse_body_section(items, parser);
    if (!imap_parse_word(parser, "BODY"))
        return false;
    if (parser->at < parser->end && *parser->at == '[') {
        items->sets_seen = true;
        return parse_body_section(items, parser);
    }
    add_item(items, IMAP_FETCH_BODY, "BODY");
    items->meta |= PH_META_BODYSTRUCTURE;
    return true;
}

static bool
parse_list(ImapFetchItems *items, ImapParser *parser)
{
    do {
        if (items->items->len >= ITEMS_MAX || !parse_item(items, parser))
            return false;
    } while (imap_parse_space(parser));
    return true;
}

static bool
parse_all(ImapFetchItems *items, ImapParser *parser)
{
    if (imap_parse_char(parser, '('))
        return parse_list(items, parser) && imap_parse_char(parser, ')');
    for (size_t i = 0; i < G_N_ELEMENTS(macro_rows); i++)
        if (imap_parse_word(parser, macro_rows[i].name)) {
            ImapParser macro = { .at = macro_rows[i].items };
            macro.end = macro.at + strlen(macro.at);
            return parse_list(items, &macro);
        }
    return parse_item(items, parser);
}

static bool
has_uid(const ImapFetchItems *items)
{
    for (guint i = 0; i < items->items->len; i++)
        if (((const ImapFetchItem *)items->items->pdata[i])->kind == IMAP_FETCH_UID)
            return true;
    return false;
}

ImapFetchItems *
imap_fetch_items_parse(ImapParser *parser, bool is_uid)
{
    ImapFetchItems *items = g_new0(ImapFetchItems, 1);
    items->items = g_ptr_array_new_with_free_func(item_free);
    if (!parse_all(items, parser) || !imap_parse_end(parser)) {
        imap_fetch_items_free(items);
        return NULL;
    }
    /* Nextcloud and others stop when a UID FETCH answers without UID. */
    if (is_uid && !has_uid(items)) {
        add_item(items, IMAP_FETCH_UID, "UID");
        gpointer uid = g_ptr_array_steal_index(items->items, items->items->len - 1);
        g_ptr_array_insert(items->items, 0, uid);
    }
    return items;
}
