/* summary.c - everything about a message in one go */
#include <posthouse/message-header.h>
#include <posthouse/message-summary.h>

#include "ascii.h"
#include "outline.h"
#include "text.h"

#define MESSAGE_ID_MAX 998
/* Holds all characters of a preview, and the next one perhaps in part. */
#define PREVIEW_MAX_BYTES ((size_t)PH_SUMMARY_PREVIEW_CHARS * 4 + 1)

static void
hash_short(const char *bytes, size_t length, uint8_t hash_out[PH_SUMMARY_HASH_BYTES])
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    guint8 digest[32];
    gsize digest_length = sizeof(digest);
    g_checksum_update(checksum, (const guchar *)bytes, (gssize)length);
    g_checksum_get_digest(checksum, digest, &digest_length);
    memcpy(hash_out, digest, PH_SUMMARY_HASH_BYTES);
}

/* The id within `text`: what is in the first pair of brackets, else the first word. */
static size_t
message_id_span(const char **text, size_t length)
{
    const char *end = *text + length;
    const char *open = memchr(*text, '<', length);
    const char *close = open != NULL ? memchr(open, '>', (size_t)(end - open)) : NULL;
    const char *at = close != NULL ? open + 1 : *text;
    const char *stop = close != NULL ? close : end;
    while (at < stop && ascii_is_fws(*at))
        at++;
    const char *p = at;
    if (close == NULL) {
        while (p < stop && !ascii_is_fws(*p))
            p++;
    } else {
        p = stop;
        while (p > at && ascii_is_fws(p[-1]))
            p--;
    }
    *text = at;
    return (size_t)(p - at);
}

void
ph_message_id_hash(const char *id, size_t length, uint8_t hash_out[PH_SUMMARY_HASH_BYTES])
{
    const char *at = id;
    size_t span = message_id_span(&at, length);
    hash_short(at, MIN(span, (size_t)MESSAGE_ID_MAX), hash_out);
}

/* Adds the hashes of all ids in the field that are not there yet. Only the last ones of a long list
 * are looked at, so that looking for one that is there stays cheap. */
static void
references_add(GArray *hashes, const char *text, size_t length)
{
    const char *end = text + length;
    const char *at = text;
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(const char *));
    while (at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        g_array_append_val(starts, at);
        at++;
    }
    guint first = starts->len - MIN(starts->len, (guint)PH_SUMMARY_REFERENCES_MAX);
    for (guint i = first; i < starts->len; i++) {
        at = g_array_index(starts, const char *, i);
        const char *stop = i + 1 < starts->len ? g_array_index(starts, const char *, i + 1) : end;
        if (memchr(at, '>', (size_t)(stop - at)) == NULL)
            continue;
        uint8_t hash[PH_SUMMARY_HASH_BYTES];
        ph_message_id_hash(at, (size_t)(stop - at), hash);
        guint seen = 0;
        while (seen < hashes->len &&
               memcmp(hashes->data + seen * sizeof(hash), hash, sizeof(hash)) != 0)
            seen++;
        if (seen == hashes->len)
            g_array_append_vals(hashes, hash, 1);
    }
}

static void
read_references(PhSummary *summary, const char *header, size_t length)
{
    GArray *hashes = g_array_new(FALSE, FALSE, PH_SUMMARY_HASH_BYTES);
    PhHeaderField field;
    if (ph_header_find(header, length, "References", &field))
        references_add(hashes, field.value, field.value_length);
    if (ph_header_find(header, length, "In-Reply-To", &field))
        references_add(hashes, field.value, field.value_length);
    if (hashes->len > PH_SUMMARY_REFERENCES_MAX)
        g_array_remove_range(hashes, 0, hashes->len - PH_SUMMARY_REFERENCES_MAX);
    summary->reference_count = hashes->len;
    summary->reference_hashes =
        (uint8_t(*)[PH_SUMMARY_HASH_BYTES])(void *)g_array_free(hashes, FALSE);
}

/* -- preview ----------------------------------------------------------------------------------- */

/* Appends text without the lines that quote another mail; stops at the signature. */
static void
append_unquoted(GString *out, const char *text)
{
    const char *at = text;
    while (*at != '\0') {
        const char *lf = strchr(at, '\n');
        size_t length = lf != NULL ? (size_t)(lf - at) + 1 : strlen(at);
        if (strncmp(at, "-- \n", 4) == 0 || strncmp(at, "-- \r\n", 5) == 0)
            return;
        if (*at != '>')
            g_string_append_len(out, at, (gssize)length);
        at += length;
    }
}

static char *
capture_text(const PhOutlineBuilder *builder, const Capture *capture)
{
    if (capture->index == PH_OUTLINE_NONE)
        return g_strdup("");
    const PhOutlinePart *part = outline_part(builder->outline, capture->index);
    g_autoptr(GString) decoded = g_string_new(NULL);
    ph_transfer_decode(part->encoding, capture->bytes->str, capture->bytes->len, decoded);
    return ph_text_to_utf8(part->charset, decoded->str, decoded->len, NULL);
}

static char *
cut_chars(const GString *text, size_t max)
{
    const char *end = text->str;
    for (size_t i = 0; i < max && *end != '\0'; i++)
        end = g_utf8_find_next_char(end, NULL);
    return g_strndup(text->str, (gsize)(end - text->str));
}

static char *
make_preview(const PhOutlineBuilder *builder)
{
    g_autoptr(GString) out = g_string_new(NULL);
    g_autofree char *plain = capture_text(builder, &builder->plain);
    g_autoptr(GString) own = g_string_new(NULL);
    append_unquoted(own, plain);
    ph_text_collapse(own->str, own->len, PREVIEW_MAX_BYTES, out);
    if (out->len == 0)
        ph_text_collapse(plain, strlen(plain), PREVIEW_MAX_BYTES, out);
    if (out->len == 0) {
        g_autofree char *html = capture_text(builder, &builder->html);
        g_autofree char *text = ph_html_to_text(html, strlen(html));
        g_string_append(out, text);
    }
    return cut_chars(out, PH_SUMMARY_PREVIEW_CHARS);
}

/* -- attachments ------------------------------------------------------------------------------- */

static bool
is_signature(const PhOutlinePart *part)
{
    static const char *const subtypes[] = { "pgp-signature", "pkcs7-signature", "x-pkcs7-signature",
        "pgp-encrypted" };
    for (size_t i = 0; i < G_N_ELEMENTS(subtypes); i++) {
        if (strcmp(part->type, "application") == 0 && strcmp(part->subtype, subtypes[i]) == 0)
            return true;
    }
    return false;
}

/* Whether people would call this part an attachment: not the text, not its pictures, not a
 * signature. */
static bool
is_attachment(const PhOutline *outline, const PhOutlinePart *part)
{
    if (part->kind == PH_PART_MULTIPART || is_signature(part))
        return false;
    if (part->parent == PH_OUTLINE_NONE && part->kind == PH_PART_LEAF &&
        strcmp(part->type, "text") == 0 && part->disposition != PH_DISPOSITION_ATTACHMENT)
        return false;
    if (part->disposition == PH_DISPOSITION_ATTACHMENT || part->kind == PH_PART_MESSAGE)
        return true;
    if (part->disposition == PH_DISPOSITION_INLINE)
        return false;
    if (strcmp(part->type, "text") == 0)
        return part->filename != NULL;
    const PhOutlinePart *parent =
        part->parent != PH_OUTLINE_NONE ? outline_part(outline, part->parent) : NULL;
    return parent == NULL || strcmp(parent->subtype, "related") != 0;
}

static bool
find_attachment(const PhOutline *outline)
{
    for (size_t i = 0; i < outline->parts->len; i++) {
        if (is_attachment(outline, outline_part(outline, i)))
            return true;
    }
    return false;
}

/* -- the whole --------------------------------------------------------------------------------- */

static void
read_header(PhSummary *summary, const char *header, size_t length)
{
    PhHeaderField field;
    summary->sent_us = INT64_MIN;
    if (ph_header_find(header, length, "Date", &field))
        ph_date_parse(
            field.value, field.value_length, &summary->sent_us, &summary->sent_zone_minutes);
    if (ph_header_find(header, length, "Message-ID", &field)) {
        const char *at = field.value;
        size_t span = message_id_span(&at, field.value_length);
        span = MIN(span, (size_t)MESSAGE_ID_MAX);
        summary->has_message_id = span > 0;
        if (span > 0) {
            summary->message_id = ph_utf8_clean(at, span, NULL);
            hash_short(at, span, summary->message_id_hash);
        }
    }
    read_references(summary, header, length);
    summary->subject =
        ph_header_find(header, length, "Subject", &field)
            ? ph_header_decode(field.value, MIN(field.value_length, PH_SUMMARY_SUBJECT_MAX))
            : g_strdup("");
    g_autofree char *base = ph_subject_base(summary->subject, &summary->subject_is_reply);
    g_autofree char *folded = g_utf8_casefold(base, -1);
    hash_short(folded, strlen(folded), summary->subject_base_hash);
}

PhSummary *
ph_summary_new(PhOutlineBuilder *builder)
{
    const PhOutline *outline = ph_outline_builder_finish(builder);
    const PhOutlinePart *root = outline_part(outline, 0);
    size_t header_length = 0;
    const char *header = ph_outline_builder_header(builder, &header_length);

    PhSummary *summary = g_new0(PhSummary, 1);
    summary->size = outline->size;
    summary->header_size = root->body_start;
    summary->line_count = root->body_lines;
    read_header(summary, header, header_length);

    GString *envelope = g_string_new(NULL);
    ph_imap_envelope(header, header_length, envelope);
    summary->envelope = g_string_free_to_bytes(envelope);
    GString *structure = g_string_new(NULL);
    ph_imap_body_structure(builder, structure);
    summary->body_structure = g_string_free_to_bytes(structure);
    summary->outline = ph_outline_serialize(outline);
    summary->header_cache = ph_header_cache_new(header, header_length);
    summary->preview = make_preview(builder);
    summary->has_attachment = find_attachment(outline);
    summary->has_nul = builder->has_nul;
    summary->has_8bit = builder->has_8bit;
    return summary;
}

void
ph_summary_free(PhSummary *summary)
{
    if (summary == NULL)
        return;
    g_bytes_unref(summary->envelope);
    g_bytes_unref(summary->body_structure);
    g_bytes_unref(summary->outline);
    g_bytes_unref(summary->header_cache);
    g_free(summary->message_id);
    g_free(summary->reference_hashes);
    g_free(summary->subject);
    g_free(summary->preview);
    g_free(summary);
}
