/* message-stored.c - fuzz target: readers of what the store keeps */
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_outline(const uint8_t *data, size_t size)
{
    g_autoptr(PhOutline) outline = ph_outline_read(data, size);
    if (outline == NULL)
        return;
    uint64_t total = ph_outline_size(outline);
    for (size_t i = 0; i < ph_outline_count(outline); i++) {
        const PhOutlinePart *part = ph_outline_part(outline, i);
        g_assert_true(part->header_start <= part->body_start);
        g_assert_true(part->body_start <= part->body_end && part->body_end <= total);
        g_assert_true((part->kind == PH_PART_LEAF) == (part->first_child == PH_OUTLINE_NONE));
    }
    static const uint32_t path[] = { 1, 2, 1, 1 };
    for (size_t length = 0; length <= G_N_ELEMENTS(path); length++) {
        uint64_t offset = 0;
        uint64_t count = 0;
        if (ph_outline_section(outline, path, length, PH_SECTION_HEADER, &offset, &count))
            g_assert_true(offset <= total && count <= total - offset);
    }
    /* There is one form of each outline. */
    g_autoptr(GBytes) form = ph_outline_serialize(outline);
    gsize length = 0;
    const void *bytes = g_bytes_get_data(form, &length);
    g_assert_true(length == size && memcmp(bytes, data, size) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_outline(data, size);
    g_autoptr(GString) out = g_string_new(NULL);
    if (ph_imap_body_from_structure((const char *)data, size, out)) {
        /* BODY of BODY is the same. */
        g_assert_cmpuint(out->len, <=, size);
        g_autoptr(GString) again = g_string_new(NULL);
        g_assert_true(ph_imap_body_from_structure(out->str, out->len, again));
        g_assert_true(g_string_equal(out, again));
    }
    static const char *const names[] = { "From", "X-Gmail-Labels" };
    ph_header_cache_covers(data, size, "Subject");
    ph_header_cache_fields(data, size, names, G_N_ELEMENTS(names), out);
    return 0;
}
