/* message-header.c - fuzz target: fields, words, parameters, dates, transfer encodings, HTML */
#include <posthouse/message-build.h>
#include <posthouse/message-header.h>

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_param(const PhMimeValue *value)
{
    if (value == NULL)
        return;
    static const char *const names[] = { "name", "filename", "charset", "boundary" };
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *text = ph_mime_value_param_decoded(value, names[i]);
        g_assert_true(text == NULL || g_utf8_validate(text, -1, NULL));
    }
}

static void
check_value(const char *text, size_t size)
{
    g_autofree char *decoded = ph_header_decode(text, size);
    g_assert_true(g_utf8_validate(decoded, -1, NULL));
    g_assert_null(strpbrk(decoded, "\r\n"));
    g_autofree char *base = ph_subject_base(decoded, NULL);
    g_assert_true(g_utf8_validate(base, -1, NULL));
    g_autoptr(PhMimeValue) type = ph_content_type_parse(text, size);
    check_param(type);
    g_autoptr(PhMimeValue) disposition = ph_content_disposition_parse(text, size);
    check_param(disposition);
    int64_t time_us = 0;
    int64_t again = 0;
    int zone = 0;
    if (ph_date_parse(text, size, &time_us, &zone)) {
        /* Years 1 to 9999 in their zone; at the two ends the clamp of the writer may differ. */
        g_autofree char *date = ph_date_format(time_us, zone);
        if (ph_date_parse(date, strlen(date), &again, NULL) &&
            time_us > -INT64_C(62000000000000000) && time_us < INT64_C(253000000000000000))
            g_assert_cmpint(again, ==, time_us);
    }
}

static void
check_text(const char *text, size_t size)
{
    g_autoptr(GString) out = g_string_new(NULL);
    ph_transfer_decode(PH_ENCODING_BASE64, text, size, out);
    g_assert_cmpuint(out->len, <=, size);
    g_string_truncate(out, 0);
    ph_transfer_decode(PH_ENCODING_QUOTED_PRINTABLE, text, size, out);
    g_assert_cmpuint(out->len, <=, size);
    size_t length = 0;
    g_autofree char *clean = ph_utf8_clean(text, size, &length);
    g_assert_true(g_utf8_validate(clean, (gssize)length, NULL) && strlen(clean) == length);
    g_autofree char *html = ph_html_to_text(clean, length);
    g_assert_true(g_utf8_validate(html, -1, NULL));
    static const char *const charsets[] = { "iso-2022-jp", "utf-7", "shift_jis", "gb18030",
        "utf-16" };
    const char *charset = charsets[size % G_N_ELEMENTS(charsets)];
    g_autofree char *converted = ph_text_to_utf8(charset, text, size, &length);
    g_assert_true(g_utf8_validate(converted, (gssize)length, NULL));
    g_autoptr(GString) field = g_string_new(NULL);
    ph_header_append_text(field, "Subject", clean);
    g_assert_true(g_utf8_validate(field->str, -1, NULL));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    PhHeaderIter iter;
    PhHeaderField field;
    size_t covered = 0;
    ph_header_iter_init(&iter, text, size);
    while (ph_header_iter_next(&iter, &field)) {
        g_assert_true(field.start == text + covered && field.length > 0);
        covered += field.length;
        g_assert_true(field.value >= field.start);
        g_assert_true(field.value + field.value_length <= field.start + field.length);
    }
    static const char *const names[] = { "a", "subject", "x" };
    g_autoptr(GString) with = g_string_new(NULL);
    g_autoptr(GString) without = g_string_new(NULL);
    ph_header_subset(text, size, names, G_N_ELEMENTS(names), false, with);
    ph_header_subset(text, size, names, G_N_ELEMENTS(names), true, without);
    /* Together all fields, each blank line once more, the last line end perhaps added. */
    size_t sum = with->len + without->len - 4;
    g_assert_true(sum == covered || sum == covered + 2);
    check_value(text, size);
    check_text(text, size);
    return 0;
}
