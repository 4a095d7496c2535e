/* message-outline.c - fuzz target: a whole message in pieces, and all that is made of it */
#include <posthouse/message-header.h>
#include <posthouse/message-summary.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feeds in pieces whose size changes with the first byte. */
static PhOutlineBuilder *
build(const uint8_t *data, size_t size, size_t piece)
{
    PhOutlineBuilder *builder = ph_outline_builder_new();
    for (size_t at = 0; at < size; at += piece)
        ph_outline_builder_feed(builder, data + at, MIN(piece, size - at));
    return builder;
}

static void
check_sections(const PhOutline *outline, uint64_t size)
{
    static const uint32_t paths[][4] = { { 1, 1, 1, 1 }, { 2, 1, 2, 1 }, { 1, 2, 1, 3 } };
    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        for (size_t length = 0; length <= 4; length++) {
            for (unsigned kind = PH_SECTION_WHOLE; kind <= PH_SECTION_MIME; kind++) {
                uint64_t offset = 0;
                uint64_t count = 0;
                if (ph_outline_section(
                        outline, paths[i], length, (PhSectionKind)kind, &offset, &count))
                    g_assert_true(offset <= size && count <= size - offset);
            }
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t piece = size > 0 ? 1 + data[0] % 61 : 1;
    g_autoptr(PhOutlineBuilder) builder = build(data, size, piece);
    g_autoptr(PhSummary) summary = ph_summary_new(builder);
    g_autoptr(PhOutline) whole = ph_outline_new(data, size);
    g_autoptr(GBytes) form = ph_outline_serialize(whole);
    g_assert_true(g_bytes_equal(form, summary->outline));

    gsize length = 0;
    const void *bytes = g_bytes_get_data(form, &length);
    g_autoptr(PhOutline) read = ph_outline_read(bytes, length);
    g_assert_nonnull(read);
    check_sections(read, size);

    const char *structure = g_bytes_get_data(summary->body_structure, &length);
    g_assert_null(memchr(structure, '\0', length));
    g_autoptr(GString) body = g_string_new(NULL);
    g_assert_true(ph_imap_body_from_structure(structure, length, body));
    const char *envelope = g_bytes_get_data(summary->envelope, &length);
    g_assert_null(memchr(envelope, '\0', length));
    g_assert_true(g_utf8_validate(summary->preview, -1, NULL));
    g_assert_true(g_utf8_validate(summary->subject, -1, NULL));
    g_assert_true(summary->message_id == NULL || g_utf8_validate(summary->message_id, -1, NULL));

    static const char *const names[] = { "From", "To", "Received", "Subject" };
    size_t header_length = 0;
    const char *header = ph_outline_builder_header(builder, &header_length);
    bytes = g_bytes_get_data(summary->header_cache, &length);
    g_autoptr(GString) cached = g_string_new(NULL);
    g_autoptr(GString) direct = g_string_new(NULL);
    if (ph_header_cache_fields(bytes, length, names, G_N_ELEMENTS(names), cached)) {
        ph_header_subset(header, header_length, names, G_N_ELEMENTS(names), false, direct);
        g_assert_true(g_string_equal(cached, direct));
    }
    return 0;
}
