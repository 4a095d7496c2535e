/* outline-form.c - the stored form of an outline, and sections
 *
 * What is hard here: the stored form comes back from a database, so it is believed only after every
 * range and link was checked. Links are not stored: depths in preorder give the tree.
 *
 * Form, numbers in base 128 with the lowest first: 'O' 1, size, number of parts, then per part:
 * depth; one byte kind, one byte encoding, one byte disposition; header start counted from the
 * parent's body start; length of the header; length of the body; lines; four texts (type, subtype,
 * charset, file name), each its length plus one (0: none) and the bytes.
 */
#include "outline.h"

#include "ascii.h"

#define FORM_MAGIC 'O'
#define FORM_VERSION 1

/* -- writing ----------------------------------------------------------------------------------- */

static void
put_number(GByteArray *out, uint64_t value)
{
    guint8 bytes[10];
    guint count = 0;
    do {
        bytes[count] = (guint8)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        count++;
        value >>= 7;
    } while (value != 0);
    g_byte_array_append(out, bytes, count);
}

static void
put_text(GByteArray *out, const char *text)
{
    if (text == NULL) {
        put_number(out, 0);
        return;
    }
    size_t length = strlen(text);
    put_number(out, length + 1);
    g_byte_array_append(out, (const guint8 *)text, (guint)length);
}

GBytes *
ph_outline_serialize(const PhOutline *outline)
{
    GByteArray *out = g_byte_array_new();
    const guint8 start[2] = { FORM_MAGIC, FORM_VERSION };
    g_byte_array_append(out, start, sizeof(start));
    put_number(out, outline->size);
    put_number(out, outline->parts->len);
    for (size_t i = 0; i < outline->parts->len; i++) {
        const PhOutlinePart *part = outline_part(outline, i);
        uint64_t base = i == 0 ? 0 : outline_part(outline, part->parent)->body_start;
        put_number(out, part->depth);
        const guint8 kinds[3] = { (guint8)part->kind, (guint8)part->encoding,
            (guint8)part->disposition };
        g_byte_array_append(out, kinds, sizeof(kinds));
        put_number(out, part->header_start - base);
        put_number(out, part->body_start - part->header_start);
        put_number(out, part->body_end - part->body_start);
        put_number(out, part->body_lines);
        put_text(out, part->type);
        put_text(out, part->subtype);
        put_text(out, part->charset);
        put_text(out, part->filename);
    }
    return g_byte_array_free_to_bytes(out);
}

/* -- reading ----------------------------------------------------------------------------------- */

typedef struct Reader {
    const unsigned char *at;
    const unsigned char *end;
    bool bad;
} Reader;

static uint64_t
get_number(Reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        if (reader->at >= reader->end)
            break;
        unsigned char byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            /* Only the shortest form is valid, so that equal outlines are equal bytes. */
            if (byte == 0 && shift > 0)
                break;
            return value;
        }
    }
    reader->bad = true;
    return 0;
}

static unsigned
get_byte(Reader *reader, unsigned max)
{
    if (reader->at >= reader->end || *reader->at > max) {
        reader->bad = true;
        return 0;
    }
    return *reader->at++;
}

static const char *
get_text(Reader *reader, PhOutline *outline, size_t max)
{
    uint64_t stored = get_number(reader);
    if (reader->bad || stored == 0)
        return NULL;
    size_t length = (size_t)(stored - 1);
    if (stored - 1 > max || (size_t)(reader->end - reader->at) < length ||
        !g_utf8_validate((const char *)reader->at, (gssize)length, NULL)) {
        reader->bad = true;
        return NULL;
    }
    g_autofree char *text = g_strndup((const char *)reader->at, length);
    reader->at += length;
    return g_string_chunk_insert_const(outline->text, text);
}

/* Where the next child of an open part may start. */
typedef struct OpenRange {
    uint32_t index;
    uint32_t last_child;
    uint64_t next_start;
} OpenRange;

static bool
read_part(Reader *reader, PhOutline *outline, OpenRange *open, size_t *open_count)
{
    uint32_t index = outline->parts->len;
    uint64_t depth = get_number(reader);
    if (reader->bad || depth > *open_count || (depth == 0) != (index == 0))
        return false;
    *open_count = (size_t)depth;
    OpenRange *above = index == 0 ? NULL : &open[depth - 1];
    const PhOutlinePart *parent = above == NULL ? NULL : outline_part(outline, above->index);
    if (parent != NULL &&
        (parent->kind == PH_PART_LEAF ||
            (parent->kind == PH_PART_MESSAGE && above->last_child != PH_OUTLINE_NONE)))
        return false;

    PhOutlinePart part = {
        .parent = above == NULL ? PH_OUTLINE_NONE : above->index,
        .first_child = PH_OUTLINE_NONE,
        .next_sibling = PH_OUTLINE_NONE,
        .depth = (uint32_t)depth,
    };
    part.kind = (PhPartKind)get_byte(reader, PH_PART_MESSAGE);
    part.encoding = (PhTransferEncoding)get_byte(reader, PH_ENCODING_OTHER);
    part.disposition = (PhPartDisposition)get_byte(reader, PH_DISPOSITION_ATTACHMENT);
    uint64_t start = get_number(reader);
    uint64_t header_length = get_number(reader);
    uint64_t body_length = get_number(reader);
    part.body_lines = get_number(reader);
    part.type = get_text(reader, outline, TYPE_NAME_MAX);
    part.subtype = get_text(reader, outline, TYPE_NAME_MAX);
    part.charset = get_text(reader, outline, TYPE_NAME_MAX);
    part.filename = get_text(reader, outline, FILENAME_MAX_BYTES);
    if (reader->bad || part.type == NULL || part.subtype == NULL)
        return false;

    uint64_t base = parent == NULL ? 0 : parent->body_start;
    uint64_t limit = parent == NULL ? outline->size : parent->body_end;
    uint64_t earliest = above == NULL ? 0 : above->next_start;
    /* Each is compared with what is left, so that no sum can run over. */
    if (start > limit - base || header_length > limit - base - start ||
        body_length > limit - base - start - header_length || part.body_lines > body_length)
        return false;
    part.header_start = base + start;
    part.body_start = part.header_start + header_length;
    part.body_end = part.body_start + body_length;
    if (part.header_start < earliest)
        return false;
    if (index == 0 && (part.header_start != 0 || part.body_end != outline->size))
        return false;

    if (above != NULL) {
        if (above->last_child == PH_OUTLINE_NONE)
            outline_part(outline, above->index)->first_child = index;
        else
            outline_part(outline, above->last_child)->next_sibling = index;
        above->last_child = index;
        above->next_start = part.body_end;
    }
    if (depth >= PH_OUTLINE_DEPTH_MAX)
        return false;
    open[depth] = (OpenRange){
        .index = index,
        .last_child = PH_OUTLINE_NONE,
        .next_start = part.body_start,
    };
    *open_count = (size_t)depth + 1;
    g_array_append_val(outline->parts, part);
    return true;
}

PhOutline *
ph_outline_read(const void *bytes, size_t length)
{
    Reader reader = { .at = bytes };
    reader.end = reader.at + length;
    if (length < 2 || reader.at[0] != FORM_MAGIC || reader.at[1] != FORM_VERSION)
        return NULL;
    reader.at += 2;
    g_autoptr(PhOutline) outline = ph_outline_alloc();
    outline->size = get_number(&reader);
    uint64_t count = get_number(&reader);
    if (reader.bad || count == 0 || count > PARTS_HARD_MAX)
        return NULL;
    OpenRange open[PH_OUTLINE_DEPTH_MAX + 1];
    size_t open_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!read_part(&reader, outline, open, &open_count))
            return NULL;
    }
    for (size_t i = 0; i < outline->parts->len; i++) {
        const PhOutlinePart *part = outline_part(outline, i);
        if (part->kind != PH_PART_LEAF && part->first_child == PH_OUTLINE_NONE)
            return NULL;
    }
    return reader.at == reader.end ? g_steal_pointer(&outline) : NULL;
}

/* -- sections ---------------------------------------------------------------------------------- */

/* Child `number` (from 1), or NULL. */
static const PhOutlinePart *
child_part(const PhOutline *outline, const PhOutlinePart *part, uint32_t number)
{
    uint32_t index = part->first_child;
    for (uint32_t i = 1; i < number && index != PH_OUTLINE_NONE; i++)
        index = outline_part(outline, index)->next_sibling;
    return number > 0 && index != PH_OUTLINE_NONE ? outline_part(outline, index) : NULL;
}

const PhOutlinePart *
ph_outline_find(const PhOutline *outline, const uint32_t *path, size_t path_length)
{
    const PhOutlinePart *part = outline_part(outline, 0);
    /* Whether `part` stands for a whole message, whose body the next number counts in. */
    bool is_message = true;
    for (size_t i = 0; i < path_length && part != NULL; i++) {
        if (!is_message && part->kind == PH_PART_MESSAGE) {
            part = child_part(outline, part, 1);
            is_message = true;
        }
        if (part != NULL && part->kind == PH_PART_MULTIPART)
            part = child_part(outline, part, path[i]);
        else if (!is_message || path[i] != 1)
            part = NULL;
        is_message = false;
    }
    return part;
}

bool
ph_outline_section(const PhOutline *outline, const uint32_t *path, size_t path_length,
    PhSectionKind kind, uint64_t *offset_out, uint64_t *length_out)
{
    const PhOutlinePart *part = ph_outline_find(outline, path, path_length);
    if (part == NULL)
        return false;
    uint64_t start = 0;
    uint64_t end = 0;
    bool is_root = path_length == 0;
    if (!is_root && (kind == PH_SECTION_HEADER || kind == PH_SECTION_TEXT)) {
        part = part->kind == PH_PART_MESSAGE ? child_part(outline, part, 1) : NULL;
        if (part == NULL)
            return false;
    }
    switch (kind) {
    case PH_SECTION_WHOLE:
        start = is_root ? 0 : part->body_start;
        end = part->body_end;
        break;
    case PH_SECTION_TEXT:
        start = part->body_start;
        end = part->body_end;
        break;
    case PH_SECTION_MIME:
        if (is_root)
            return false;
        start = part->header_start;
        end = part->body_start;
        break;
    case PH_SECTION_HEADER:
        start = part->header_start;
        end = part->body_start;
        break;
    }
    *offset_out = start;
    *length_out = end - start;
    return true;
}

bool
ph_section_partial(uint64_t *offset, uint64_t *length, uint64_t first, uint64_t count)
{
    uint64_t skipped = MIN(first, *length);
    *offset += skipped;
    *length = MIN(count, *length - skipped);
    return *length > 0;
}
