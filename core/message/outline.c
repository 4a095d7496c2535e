/* outline.c - the outline of a message, and its builder
 *
 * What is hard here: boundaries of all open multiparts are live at once, in headers too; the line
 * end before a boundary belongs to it; and input comes in pieces that end anywhere. So the builder
 * works by lines, keeps of a line only what can be a boundary, and never looks back into the
 * message.
 */
#include "outline.h"

#include "ascii.h"
#include "text.h"

/* -- the outline ------------------------------------------------------------------------------- */

PhOutline *
ph_outline_alloc(void)
{
    PhOutline *outline = g_new0(PhOutline, 1);
    outline->parts = g_array_new(FALSE, TRUE, sizeof(PhOutlinePart));
    outline->text = g_string_chunk_new(256);
    return outline;
}

void
ph_outline_free(PhOutline *outline)
{
    if (outline == NULL)
        return;
    g_array_free(outline->parts, TRUE);
    g_string_chunk_free(outline->text);
    g_free(outline);
}

const char *
ph_outline_intern(PhOutline *outline, const char *text, size_t max)
{
    size_t length = 0;
    g_autofree char *clean = ph_utf8_clean(text, strnlen(text, max + 4), &length);
    if (length > max) {
        const char *end = g_utf8_find_prev_char(clean, clean + max + 1);
        length = (size_t)(end - clean);
        clean[length] = '\0';
    }
    return g_string_chunk_insert_const(outline->text, clean);
}

uint64_t
ph_outline_size(const PhOutline *outline)
{
    return outline->size;
}

size_t
ph_outline_count(const PhOutline *outline)
{
    return outline->parts->len;
}

const PhOutlinePart *
ph_outline_part(const PhOutline *outline, size_t index)
{
    g_return_val_if_fail(index < outline->parts->len, NULL);
    return outline_part(outline, index);
}

/* -- the builder's parts ----------------------------------------------------------------------- */

PhOutlineBuilder *
ph_outline_builder_new(void)
{
    PhOutlineBuilder *builder = g_new0(PhOutlineBuilder, 1);
    builder->outline = ph_outline_alloc();
    builder->details = g_array_new(FALSE, TRUE, sizeof(PartDetail));
    builder->arena = g_string_new(NULL);
    builder->header = g_string_new(NULL);
    builder->nested = g_string_new(NULL);
    builder->plain = (Capture){ .bytes = g_string_new(NULL), .index = PH_OUTLINE_NONE };
    builder->html = (Capture){ .bytes = g_string_new(NULL), .index = PH_OUTLINE_NONE };
    return builder;
}

void
ph_outline_builder_free(PhOutlineBuilder *builder)
{
    if (builder == NULL)
        return;
    for (size_t i = 0; i < builder->open_count; i++)
        g_free(builder->open[i].boundary);
    ph_outline_free(builder->outline);
    g_array_free(builder->details, TRUE);
    g_string_free(builder->arena, TRUE);
    g_string_free(builder->header, TRUE);
    g_string_free(builder->nested, TRUE);
    g_string_free(builder->plain.bytes, TRUE);
    g_string_free(builder->html.bytes, TRUE);
    g_free(builder);
}

static OpenPart *
current_part(PhOutlineBuilder *builder)
{
    return &builder->open[builder->open_count - 1];
}

/* The header block that is being read. */
static GString *
current_header(PhOutlineBuilder *builder)
{
    return builder->open_count == 1 ? builder->header : builder->nested;
}

/* Adds a part below the current one (or the message itself) and makes it current, its header to
 * come. */
static void
part_begin(PhOutlineBuilder *builder, uint64_t header_start, bool is_synthetic)
{
    PhOutline *outline = builder->outline;
    uint32_t index = outline->parts->len;
    bool is_root = builder->open_count == 0;
    OpenPart *parent = is_root ? NULL : current_part(builder);
    PhOutlinePart part = {
        .header_start = header_start,
        .body_start = header_start,
        .body_end = header_start,
        .parent = is_root ? PH_OUTLINE_NONE : parent->index,
        .first_child = PH_OUTLINE_NONE,
        .next_sibling = PH_OUTLINE_NONE,
        .depth = (uint32_t)builder->open_count,
    };
    g_array_append_val(outline->parts, part);
    PartDetail detail = { .front = { 0 } };
    g_array_append_val(builder->details, detail);
    if (!is_root) {
        if (parent->last_child == PH_OUTLINE_NONE)
            outline_part(outline, parent->index)->first_child = index;
        else
            outline_part(outline, parent->last_child)->next_sibling = index;
        parent->last_child = index;
    }
    bool is_last = !is_synthetic && index + 1 >= PH_OUTLINE_PARTS_MAX;
    builder->sealed = builder->sealed || is_last;
    builder->open[builder->open_count++] = (OpenPart){
        .index = index,
        .last_child = PH_OUTLINE_NONE,
        .is_opaque = is_last,
        .is_synthetic = is_synthetic,
    };
    builder->in_header = true;
    builder->header_mark = 0;
    g_string_truncate(builder->nested, 0);
}

static void
capture_begin(
    PhOutlineBuilder *builder, Capture *capture, const PhOutlinePart *part, const char *subtype)
{
    if (capture->index == PH_OUTLINE_NONE && part->disposition != PH_DISPOSITION_ATTACHMENT &&
        strcmp(part->type, "text") == 0 && strcmp(part->subtype, subtype) == 0) {
        capture->index = current_part(builder)->index;
        capture->running = true;
    }
}

static void
part_set_names(PhOutline *outline, PhOutlinePart *part, const PartFacts *facts)
{
    part->type = ph_outline_intern(outline, facts->type->type, TYPE_NAME_MAX);
    part->subtype = ph_outline_intern(outline, facts->type->subtype, TYPE_NAME_MAX);
    part->encoding = facts->encoding;
    g_autofree char *charset = ph_mime_value_param_decoded(facts->type, "charset");
    if (charset != NULL && charset[0] != '\0') {
        g_autofree char *lower = g_ascii_strdown(charset, -1);
        part->charset = ph_outline_intern(outline, lower, TYPE_NAME_MAX);
    }
    g_autofree char *filename = NULL;
    if (facts->disposition != NULL) {
        part->disposition = strcmp(facts->disposition->type, "inline") == 0
                                ? PH_DISPOSITION_INLINE
                                : PH_DISPOSITION_ATTACHMENT;
        filename = ph_mime_value_param_decoded(facts->disposition, "filename");
    }
    if (filename == NULL)
        filename = ph_mime_value_param_decoded(facts->type, "name");
    if (filename != NULL && filename[0] != '\0')
        part->filename = ph_outline_intern(outline, filename, FILENAME_MAX_BYTES);
}

/* The header of the current part ends before `body_start`, of which `lines_before` lines are behind
 * us. A message within opens at once, with its header still to come. */
static void
header_end(PhOutlineBuilder *builder, uint64_t body_start, uint64_t lines_before)
{
    OpenPart *open = current_part(builder);
    PhOutlinePart *part = outline_part(builder->outline, open->index);
    OpenPart *parent = builder->open_count > 1 ? open - 1 : NULL;
    GString *header = current_header(builder);
    bool is_deepest = part->depth + 1 >= PH_OUTLINE_DEPTH_MAX;

    PartDescribeFlags flags = 0;
    if (open->is_opaque)
        flags |= DESCRIBE_OPAQUE;
    if (parent != NULL && parent->is_digest && !open->is_synthetic)
        flags |= DESCRIBE_IN_DIGEST;
    if (parent != NULL && outline_part(builder->outline, parent->index)->kind == PH_PART_MESSAGE)
        flags |= DESCRIBE_WITH_ENVELOPE;
    if (is_deepest)
        flags |= DESCRIBE_NO_CHILDREN;
    if (builder->arena_full)
        flags |= DESCRIBE_FACTS_ONLY;
    PartFacts facts;
    PartDetail *detail = &g_array_index(builder->details, PartDetail, open->index);
    ph_structure_describe(header->str, header->len, flags, builder->arena, &facts, detail);
    builder->arena_full = detail->front.length == 0;

    part->body_start = body_start;
    part->kind = facts.kind;
    part_set_names(builder->outline, part, &facts);
    open->body_lines_before = lines_before;
    builder->in_header = false;
    if (part->kind == PH_PART_MULTIPART) {
        open->boundary = g_steal_pointer(&facts.boundary);
        open->boundary_length = strlen(open->boundary);
        open->is_digest = strcmp(part->subtype, "digest") == 0;
    } else if (part->kind == PH_PART_LEAF && !open->is_synthetic) {
        capture_begin(builder, &builder->plain, part, "plain");
        capture_begin(builder, &builder->html, part, "html");
    }
    bool has_message = part->kind == PH_PART_MESSAGE;
    bool is_encoded =
        facts.encoding == PH_ENCODING_BASE64 || facts.encoding == PH_ENCODING_QUOTED_PRINTABLE;
    ph_part_facts_clear(&facts);
    if (has_message && !is_encoded)
        part_begin(builder, body_start, false);
}

/* A leaf without header bytes below the current part, which has none yet. */
static void
part_add_synthetic(PhOutlineBuilder *builder, uint64_t start, uint64_t end, uint64_t lines)
{
    part_begin(builder, start, true);
    header_end(builder, start, 0);
    OpenPart *open = current_part(builder);
    PhOutlinePart *part = outline_part(builder->outline, open->index);
    part->body_end = end;
    part->body_lines = lines;
    builder->open_count--;
}

/* -- the end of parts -------------------------------------------------------------------------- */

static void
capture_end(Capture *capture, uint32_t index, const PhOutlinePart *part)
{
    if (!capture->running || capture->index != index)
        return;
    capture->running = false;
    uint64_t length = part->body_end - part->body_start;
    if (length < capture->bytes->len)
        g_string_truncate(capture->bytes, (gsize)length);
}

/* Closes the current part; its body ends at `end`, before which there are `lines` lines of the
 * message. */
static void
part_end(PhOutlineBuilder *builder, uint64_t end, uint64_t lines)
{
    OpenPart *open = current_part(builder);
    PhOutlinePart *part = outline_part(builder->outline, open->index);
    part->body_end = end;
    part->body_lines = lines - open->body_lines_before;
    capture_end(&builder->plain, open->index, part);
    capture_end(&builder->html, open->index, part);
    bool childless = open->last_child == PH_OUTLINE_NONE;
    if (part->kind == PH_PART_MULTIPART && childless)
        part_add_synthetic(builder, part->body_start, end, part->body_lines);
    else if (part->kind == PH_PART_MESSAGE && childless)
        part_add_synthetic(builder, end, end, 0);
    open = current_part(builder);
    g_free(open->boundary);
    open->boundary = NULL;
    builder->open_count--;
}

/* Closes parts until `keep` are open. They end before the current line, and without its
 * predecessor's line end, as far as that is within the part. */
static void
parts_end_at_line(PhOutlineBuilder *builder, size_t keep)
{
    uint64_t wanted = builder->line_start - builder->previous_eol;
    uint64_t wanted_lines = builder->lines;
    if (builder->previous_eol > 0 && builder->previous_empty)
        wanted_lines--;
    uint64_t end = wanted;
    while (builder->open_count > keep) {
        uint64_t body_start =
            outline_part(builder->outline, current_part(builder)->index)->body_start;
        /* A header without a body keeps its line end, and so do the parts around it. */
        if (end < body_start)
            end = body_start;
        part_end(builder, end, end == wanted ? wanted_lines : builder->lines);
    }
}

/* -- lines ------------------------------------------------------------------------------------- */

/* What the current line is: the number of open parts that its boundary leaves open, 0 when it is no
 * boundary. */
static size_t
match_boundary(const PhOutlineBuilder *builder, bool *closing_out)
{
    const char *text = builder->line + 2;
    size_t length = builder->line_kept;
    while (length > 0 && ascii_is_fws(builder->line[length - 1]))
        length--;
    if (length < 3 || builder->line[1] != '-')
        return 0;
    length -= 2;
    bool dashes = length > 2 && text[length - 1] == '-' && text[length - 2] == '-';
    for (size_t i = builder->open_count; i > 0; i--) {
        const OpenPart *open = &builder->open[i - 1];
        if (open->boundary == NULL)
            continue;
        size_t wanted = open->boundary_length;
        bool closing = dashes && wanted == length - 2;
        if ((wanted == length || closing) && memcmp(open->boundary, text, wanted) == 0) {
            *closing_out = closing;
            return i;
        }
    }
    return 0;
}

static void
boundary_line(PhOutlineBuilder *builder, size_t keep, bool closing)
{
    GString *header = current_header(builder);
    if (builder->in_header && header->len > builder->header_mark)
        g_string_truncate(header, builder->header_mark);
    while (builder->in_header)
        header_end(builder, builder->line_start, builder->lines);
    parts_end_at_line(builder, keep);
    if (closing) {
        OpenPart *open = current_part(builder);
        g_free(open->boundary);
        open->boundary = NULL;
        return;
    }
    part_begin(builder, builder->line_start + builder->line_length, false);
}

/* The current line is complete, with its LF. */
static void
line_end(PhOutlineBuilder *builder, bool has_cr)
{
    unsigned eol = has_cr ? 2 : 1;
    bool empty = builder->line_length == eol;
    bool closing = false;
    size_t keep = 0;
    if (builder->is_candidate && !builder->sealed && builder->line_length <= LINE_KEEP_MAX)
        keep = match_boundary(builder, &closing);
    uint64_t next = builder->line_start + builder->line_length;
    if (keep > 0)
        boundary_line(builder, keep, closing);
    else if (builder->in_header && empty)
        header_end(builder, next, builder->lines + 1);

    builder->line_start = next;
    builder->line_length = 0;
    builder->line_kept = 0;
    builder->lines++;
    builder->previous_eol = eol;
    builder->previous_empty = empty;
    builder->is_candidate = false;
    if (builder->in_header)
        builder->header_mark = current_header(builder)->len;
}

static void
append_bounded(GString *out, const char *bytes, size_t length, size_t max)
{
    size_t room = max > out->len ? max - out->len : 0;
    g_string_append_len(out, bytes, (gssize)MIN(length, room));
}

/* A piece of the current line. */
static void
line_piece(PhOutlineBuilder *builder, const char *bytes, size_t length)
{
    if (builder->line_length == 0)
        builder->is_candidate = bytes[0] == '-';
    if (builder->is_candidate && builder->line_kept < LINE_KEEP_MAX) {
        size_t kept = MIN(length, LINE_KEEP_MAX - builder->line_kept);
        memcpy(builder->line + builder->line_kept, bytes, kept);
        builder->line_kept += kept;
    }
    builder->line_length += length;
    if (builder->in_header)
        append_bounded(current_header(builder), bytes, length,
            builder->open_count == 1 ? PH_HEADER_MAX_BYTES : NESTED_HEADER_MAX);
    else if (builder->plain.running)
        append_bounded(builder->plain.bytes, bytes, length, PLAIN_CAPTURE_MAX);
    else if (builder->html.running)
        append_bounded(builder->html.bytes, bytes, length, HTML_CAPTURE_MAX);
}

static bool
has_high_bytes(const unsigned char *bytes, size_t length)
{
    size_t i = 0;
    uint64_t all = 0;
    for (; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        all |= word;
    }
    for (; i < length; i++)
        all |= bytes[i];
    return (all & UINT64_C(0x8080808080808080)) != 0;
}

void
ph_outline_builder_feed(PhOutlineBuilder *builder, const void *bytes, size_t length)
{
    g_return_if_fail(!builder->finished);
    if (builder->open_count == 0)
        part_begin(builder, 0, false);
    if (!builder->has_nul)
        builder->has_nul = memchr(bytes, '\0', length) != NULL;
    if (!builder->has_8bit)
        builder->has_8bit = has_high_bytes(bytes, length);
    const char *at = bytes;
    const char *end = at + length;
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const char *stop = lf != NULL ? lf + 1 : end;
        line_piece(builder, at, (size_t)(stop - at));
        if (lf != NULL)
            line_end(builder,
                (lf > at ? lf[-1] : builder->last_byte) == '\r' && builder->line_length >= 2);
        builder->last_byte = stop[-1];
        at = stop;
    }
}

const PhOutline *
ph_outline_builder_finish(PhOutlineBuilder *builder)
{
    if (builder->finished)
        return builder->outline;
    if (builder->open_count == 0)
        part_begin(builder, 0, false);
    bool closing = false;
    size_t keep = 0;
    if (builder->is_candidate && !builder->sealed && builder->line_length <= LINE_KEEP_MAX)
        keep = match_boundary(builder, &closing);
    if (keep > 0)
        boundary_line(builder, keep, closing);
    builder->finished = true;
    uint64_t size = builder->line_start + builder->line_length;
    uint64_t lines = builder->lines + (builder->line_length > 0 ? 1 : 0);
    while (builder->in_header)
        header_end(builder, size, lines);
    while (builder->open_count > 0)
        part_end(builder, size, lines);
    builder->outline->size = size;
    return builder->outline;
}

const char *
ph_outline_builder_header(const PhOutlineBuilder *builder, size_t *length_out)
{
    *length_out = builder->header->len;
    return builder->header->str;
}

PhOutline *
ph_outline_new(const void *bytes, size_t length)
{
    g_autoptr(PhOutlineBuilder) builder = ph_outline_builder_new();
    ph_outline_builder_feed(builder, bytes, length);
    ph_outline_builder_finish(builder);
    return g_steal_pointer(&builder->outline);
}
