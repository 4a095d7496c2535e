/* ldap-filter.c - fuzz target: filters are read, matched, narrowed and written; and lists of attributes */
#include "plugins/ldap/filter.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static LdapEntry *
make_entry(PhEntryKind kind)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(list, g_strdup("alice@example.test"));
    PhEntry entry = {
        .kind = kind,
        .id = 1,
        .domain = (char *)(uintptr_t) "example.test",
        .key = (char *)(uintptr_t) "alice@example.test",
        .name = (char *)(uintptr_t) "Alice Example",
        .organization = (char *)(uintptr_t) "Example",
        .telephone = (char *)(uintptr_t) "+1 555 0100",
        .mail = list,
        .accounts = list,
    };
    LdapEntry *out = ldap_entry_from_store(&entry);
    g_ptr_array_unref(list);
    return out;
}

/* What matches must not have been left out: the entry's kind is among the kinds, and one of the texts is
 * in one of its values. */
static void
check_narrowing(const LdapNarrowing *narrowing, PhEntryKind kind, const LdapEntry *entry)
{
    g_assert_true((narrowing->kinds & 1U << kind) != 0);
    bool found = narrowing->n_texts == 0;
    for (unsigned i = 0; i < narrowing->n_texts && !found; i++) {
        g_autofree char *text = g_ascii_strdown(narrowing->texts[i], -1);
        for (LdapAttribute a = 0; a < LDAP_N_ATTRIBUTES && !found; a++)
            for (unsigned j = 0; entry->values[a] != NULL && j < entry->values[a]->len; j++) {
                g_autofree char *value = g_ascii_strdown(entry->values[a]->pdata[j], -1);
                found |= strstr(value, text) != NULL;
            }
    }
    g_assert_true(found);
}

static void
check_filter(const LdapFilter *filter)
{
    LdapNarrowing narrowing;
    ldap_filter_narrow(filter, &narrowing);
    g_assert_true(narrowing.n_texts <= LDAP_FILTER_MAX_TEXTS);
    g_assert_null(narrowing.texts[narrowing.n_texts]);
    for (PhEntryKind kind = PH_ENTRY_ACCOUNT; kind <= PH_ENTRY_CONTACT; kind++) {
        g_autoptr(LdapEntry) entry = make_entry(kind);
        if (ldap_filter_match(filter, entry) == LDAP_TRUE)
            check_narrowing(&narrowing, kind, entry);
    }
    g_autofree char *text = ldap_filter_text(filter);
    g_assert_true(text[0] == '(' && text[strlen(text) - 1] == ')');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* With a byte behind it, as reader.h wants. */
    g_autofree uint8_t *bytes_kept = g_malloc0(size + 1);
    if (size > 0)
        memcpy(bytes_kept, data, size);
    LdapSpan span = { .bytes = bytes_kept, .length = size };
    g_autoptr(LdapFilter) filter = NULL;
    if (ldap_filter_parse(span, &filter) == LDAP_PARSE_DONE)
        check_filter(filter);
    else
        g_assert_null(filter);
    LdapSelection selection;
    if (ldap_selection_parse(span, size % 2 == 1, &selection)) {
        g_autoptr(LdapEntry) entry = make_entry(PH_ENTRY_GROUP);
        BerElement *out = ldap_writer_new();
        ldap_entry_append(out, 1, entry, &selection);
        LdapSpan bytes = ldap_writer_bytes(out);
        LdapPdu pdu;
        g_assert_true(ldap_pdu_parse(bytes.bytes, bytes.length, &pdu));
        ldap_writer_free(out);
    }
    return 0;
}
