/* structure.c - BODYSTRUCTURE, and BODY made from it
 *
 * What is hard here: clients parse this with small parsers, so it must be right for mail that is
 * not: a multipart always has a part, a message always has an envelope, every odd string is quoted
 * or a literal. Nesting is walked with a stack of our own, never by recursion.
 */
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include "ascii.h"
#include "outline.h"

#define LANGUAGES_MAX 32

/* -- a part's header --------------------------------------------------------------------------- */

typedef enum Field {
    FIELD_TYPE,
    FIELD_ENCODING,
    FIELD_DISPOSITION,
    FIELD_ID,
    FIELD_DESCRIPTION,
    FIELD_MD5,
    FIELD_LANGUAGE,
    FIELD_LOCATION,
    FIELD_COUNT,
} Field;

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_TYPE] = "Content-Type",
    [FIELD_ENCODING] = "Content-Transfer-Encoding",
    [FIELD_DISPOSITION] = "Content-Disposition",
    [FIELD_ID] = "Content-ID",
    [FIELD_DESCRIPTION] = "Content-Description",
    [FIELD_MD5] = "Content-MD5",
    [FIELD_LANGUAGE] = "Content-Language",
    [FIELD_LOCATION] = "Content-Location",
};

static void
find_fields(const char *header, size_t length, PhHeaderField fields[FIELD_COUNT])
{
    memset(fields, 0, sizeof(PhHeaderField) * FIELD_COUNT);
    PhHeaderIter iter;
    PhHeaderField field;
    ph_header_iter_init(&iter, header, length);
    while (ph_header_iter_next(&iter, &field)) {
        if (field.name_length < 8 || g_ascii_strncasecmp(field.name, "Content-", 8) != 0)
            continue;
        for (unsigned i = 0; i < FIELD_COUNT; i++) {
            if (fields[i].start == NULL && ph_header_field_is(&field, field_names[i]))
                fields[i] = field;
        }
    }
}

static void
append_nstring(GString *out, const char *text)
{
    ph_imap_append_string(out, text, text != NULL ? strlen(text) : 0);
}

static void
append_field(GString *out, const PhHeaderField *field)
{
    g_autofree char *line =
        field->start != NULL ? ph_header_unfold(field->value, field->value_length) : NULL;
    append_nstring(out, line);
}

static void
append_params(GString *out, const PhMimeValue *value)
{
    if (value->param_count == 0) {
        g_string_append(out, "NIL");
        return;
    }
    for (size_t i = 0; i < value->param_count; i++) {
        g_string_append_c(out, i == 0 ? '(' : ' ');
        append_nstring(out, value->params[i].name);
        g_string_append_c(out, ' ');
        append_nstring(out, value->params[i].value);
    }
    g_string_append_c(out, ')');
}

/* body-fld-lang: one string, or a list of them. */
static void
append_languages(GString *out, const PhHeaderField *field)
{
    if (field->start == NULL) {
        g_string_append(out, "NIL");
        return;
    }
    g_autofree char *line = ph_header_unfold(field->value, field->value_length);
    g_auto(GStrv) tags = g_strsplit(line, ",", LANGUAGES_MAX);
    g_autoptr(GString) list = g_string_new(NULL);
    unsigned count = 0;
    for (char **tag = tags; *tag != NULL; tag++) {
        g_strstrip(*tag);
        if (**tag == '\0')
            continue;
        if (count++ > 0)
            g_string_append_c(list, ' ');
        append_nstring(list, *tag);
    }
    if (count == 0)
        g_string_append(out, "NIL");
    else if (count == 1)
        g_string_append(out, list->str);
    else
        g_string_append_printf(out, "(%s)", list->str);
}

/* Disposition, language and location: the end of both kinds of extension data. */
static void
append_back(GString *out, const PartFacts *facts, const PhHeaderField *fields)
{
    if (facts->disposition != NULL) {
        g_string_append_c(out, '(');
        append_nstring(out, facts->disposition->type);
        g_string_append_c(out, ' ');
        append_params(out, facts->disposition);
        g_string_append_c(out, ')');
    } else {
        g_string_append(out, "NIL");
    }
    g_string_append_c(out, ' ');
    append_languages(out, &fields[FIELD_LANGUAGE]);
    g_string_append_c(out, ' ');
    append_field(out, &fields[FIELD_LOCATION]);
}

/* The word of Content-Transfer-Encoding, lower case; "7bit" when nothing is said. */
static char *
encoding_word(const PhHeaderField *field)
{
    g_autofree char *line =
        field->start != NULL ? ph_header_unfold(field->value, field->value_length) : g_strdup("");
    size_t length = 0;
    while (ascii_is_token(line[length]))
        length++;
    return length > 0 ? g_ascii_strdown(line, (gssize)MIN(length, (size_t)TYPE_NAME_MAX))
                      : g_strdup("7bit");
}

/* The text that stands for the boundary, or NULL when there is none that could match. */
static char *
boundary_of(const PhMimeValue *type)
{
    const char *raw = ph_mime_value_param(type, "boundary");
    g_autofree char *decoded = raw == NULL ? ph_mime_value_param_decoded(type, "boundary") : NULL;
    const char *text = raw != NULL ? raw : decoded;
    if (text == NULL)
        return NULL;
    size_t length = strlen(text);
    while (length > 0 && ascii_is_space(text[length - 1]))
        length--;
    return length > 0 && length <= BOUNDARY_MAX ? g_strndup(text, length) : NULL;
}

static bool
type_is(const PhMimeValue *type, const char *name, const char *subtype)
{
    return strcmp(type->type, name) == 0 &&
           (subtype == NULL || strcmp(type->subtype, subtype) == 0);
}

static void
set_type(PartFacts *facts, const char *text)
{
    ph_mime_value_free(facts->type);
    facts->type = ph_content_type_parse(text, strlen(text));
}

static void
decide_type(PartFacts *facts, const PhHeaderField *field, PartDescribeFlags flags)
{
    if (field->start != NULL)
        facts->type = ph_content_type_parse(field->value, field->value_length);
    if (facts->type == NULL)
        set_type(facts, (flags & DESCRIBE_IN_DIGEST) != 0 && field->start == NULL
                            ? "message/rfc822"
                            : "text/plain; charset=us-ascii");
    bool is_multipart = type_is(facts->type, "multipart", NULL);
    bool is_message =
        type_is(facts->type, "message", "rfc822") || type_is(facts->type, "message", "global");
    if ((flags & DESCRIBE_OPAQUE) != 0 ||
        ((flags & DESCRIBE_NO_CHILDREN) != 0 && (is_multipart || is_message))) {
        set_type(facts, "application/octet-stream");
        return;
    }
    if (is_message)
        facts->kind = PH_PART_MESSAGE;
    if (!is_multipart)
        return;
    facts->boundary = boundary_of(facts->type);
    if (facts->boundary != NULL)
        facts->kind = PH_PART_MULTIPART;
    else
        set_type(facts, "text/plain; charset=us-ascii");
}

static void
write_detail(const PartFacts *facts, const PhHeaderField *fields, const char *encoding,
    GString *arena, PartDetail *detail_out)
{
    size_t start = arena->len;
    if (facts->kind != PH_PART_MULTIPART) {
        append_nstring(arena, facts->type->type);
        g_string_append_c(arena, ' ');
    }
    ph_imap_append_string(arena, facts->type->subtype, strlen(facts->type->subtype));
    if (facts->kind != PH_PART_MULTIPART) {
        g_string_append_c(arena, ' ');
        append_params(arena, facts->type);
        g_string_append_c(arena, ' ');
        append_field(arena, &fields[FIELD_ID]);
        g_string_append_c(arena, ' ');
        append_field(arena, &fields[FIELD_DESCRIPTION]);
        g_string_append_c(arena, ' ');
        append_nstring(arena, encoding);
    }
    size_t back = arena->len;
    if (facts->kind == PH_PART_MULTIPART)
        append_params(arena, facts->type);
    else
        append_field(arena, &fields[FIELD_MD5]);
    g_string_append_c(arena, ' ');
    append_back(arena, facts, fields);
    detail_out->front = (ArenaSpan){ .start = start, .length = back - start };
    detail_out->back = (ArenaSpan){ .start = back, .length = arena->len - back };
}

void
ph_structure_describe(const char *header, size_t length, PartDescribeFlags flags, GString *arena,
    PartFacts *facts_out, PartDetail *detail_out)
{
    PhHeaderField fields[FIELD_COUNT];
    find_fields(header, length, fields);
    PartFacts facts = { .kind = PH_PART_LEAF };
    decide_type(&facts, &fields[FIELD_TYPE], flags);
    if (fields[FIELD_DISPOSITION].start != NULL)
        facts.disposition = ph_content_disposition_parse(
            fields[FIELD_DISPOSITION].value, fields[FIELD_DISPOSITION].value_length);
    g_autofree char *encoding = encoding_word(&fields[FIELD_ENCODING]);
    facts.encoding = ph_transfer_encoding_parse(encoding, strlen(encoding));

    size_t start = arena->len;
    *detail_out = (PartDetail){ .front = { 0 } };
    if ((flags & DESCRIBE_FACTS_ONLY) == 0)
        write_detail(&facts, fields, encoding, arena, detail_out);
    size_t envelope = arena->len;
    if ((flags & DESCRIBE_WITH_ENVELOPE) != 0 && (flags & DESCRIBE_FACTS_ONLY) == 0)
        ph_imap_envelope(header, length, arena);
    detail_out->envelope = (ArenaSpan){ .start = envelope, .length = arena->len - envelope };
    if (arena->len > PH_IMAP_STRUCTURE_MAX) {
        g_string_truncate(arena, start);
        *detail_out = (PartDetail){ .front = { 0 } };
    }
    *facts_out = facts;
}

void
ph_part_facts_clear(PartFacts *facts)
{
    ph_mime_value_free(facts->type);
    ph_mime_value_free(facts->disposition);
    g_free(facts->boundary);
    *facts = (PartFacts){ .kind = PH_PART_LEAF };
}

/* -- putting it together ----------------------------------------------------------------------- */

static const char *const encoding_names[] = {
    [PH_ENCODING_7BIT] = "7bit",
    [PH_ENCODING_8BIT] = "8bit",
    [PH_ENCODING_BINARY] = "binary",
    [PH_ENCODING_QUOTED_PRINTABLE] = "quoted-printable",
    [PH_ENCODING_BASE64] = "base64",
    [PH_ENCODING_OTHER] = "x-unknown",
};

static void
append_span(GString *out, const GString *arena, ArenaSpan span)
{
    g_string_append_len(out, arena->str + span.start, (gssize)span.length);
}

static void
append_front(GString *out, const PhOutlineBuilder *builder, size_t index)
{
    const PartDetail *detail = &g_array_index(builder->details, PartDetail, index);
    const PhOutlinePart *part = outline_part(builder->outline, index);
    if (detail->front.length > 0) {
        append_span(out, builder->arena, detail->front);
        return;
    }
    /* Over PH_IMAP_STRUCTURE_MAX. */
    if (part->kind != PH_PART_MULTIPART) {
        append_nstring(out, part->type);
        g_string_append_c(out, ' ');
    }
    append_nstring(out, part->subtype);
    if (part->kind != PH_PART_MULTIPART)
        g_string_append_printf(out, " NIL NIL NIL \"%s\"", encoding_names[part->encoding]);
}

/* The end of a part, after its children. */
static void
append_part_end(GString *out, const PhOutlineBuilder *builder, size_t index)
{
    const PartDetail *detail = &g_array_index(builder->details, PartDetail, index);
    const PhOutlinePart *part = outline_part(builder->outline, index);
    if (part->kind == PH_PART_MULTIPART) {
        g_string_append_c(out, ' ');
        append_front(out, builder, index);
    } else if (part->kind == PH_PART_MESSAGE) {
        g_string_append_printf(out, " %" G_GUINT64_FORMAT, part->body_lines);
    }
    g_string_append_c(out, ' ');
    if (detail->back.length > 0)
        append_span(out, builder->arena, detail->back);
    else
        g_string_append(out, "NIL NIL NIL NIL");
    g_string_append_c(out, ')');
}

static void
append_part_begin(GString *out, const PhOutlineBuilder *builder, size_t index)
{
    const PhOutlinePart *part = outline_part(builder->outline, index);
    g_string_append_c(out, '(');
    if (part->kind == PH_PART_MULTIPART)
        return;
    append_front(out, builder, index);
    g_string_append_printf(out, " %" G_GUINT64_FORMAT, part->body_end - part->body_start);
    if (part->kind == PH_PART_LEAF) {
        if (strcmp(part->type, "text") == 0)
            g_string_append_printf(out, " %" G_GUINT64_FORMAT, part->body_lines);
        return;
    }
    const PartDetail *child = &g_array_index(builder->details, PartDetail, part->first_child);
    g_string_append_c(out, ' ');
    if (child->envelope.length > 0)
        append_span(out, builder->arena, child->envelope);
    else
        g_string_append(out, "(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)");
    g_string_append_c(out, ' ');
}

void
ph_imap_body_structure(PhOutlineBuilder *builder, GString *out)
{
    const PhOutline *outline = ph_outline_builder_finish(builder);
    uint32_t open[PH_OUTLINE_DEPTH_MAX + 2];
    size_t open_count = 0;
    for (size_t i = 0; i < outline->parts->len; i++) {
        const PhOutlinePart *part = outline_part(outline, i);
        while (open_count > part->depth)
            append_part_end(out, builder, open[--open_count]);
        append_part_begin(out, builder, i);
        open[open_count++] = (uint32_t)i;
    }
    while (open_count > 0)
        append_part_end(out, builder, open[--open_count]);
}

/* -- BODY from BODYSTRUCTURE ------------------------------------------------------------------- */

typedef struct Reader {
    const char *at;
    const char *end;
} Reader;

/* Moves behind one string. */
static bool
skip_quoted(Reader *reader)
{
    reader->at++;
    while (reader->at < reader->end) {
        char c = *reader->at++;
        if (c == '"')
            return true;
        if (c == '\\')
            reader->at++;
    }
    return false;
}

static bool
skip_literal(Reader *reader)
{
    uint64_t length = 0;
    unsigned digits = 0;
    reader->at++;
    while (reader->at < reader->end && ascii_is_digit(*reader->at) && digits++ < 9)
        length = length * 10 + (uint64_t)(*reader->at++ - '0');
    if (digits == 0 || reader->end - reader->at < 3 || memcmp(reader->at, "}\r\n", 3) != 0)
        return false;
    reader->at += 3;
    if ((uint64_t)(reader->end - reader->at) < length)
        return false;
    reader->at += length;
    return true;
}

/* Moves behind one element: an atom, a string, or a list with all it holds. */
static bool
skip_element(Reader *reader)
{
    unsigned depth = 0;
    do {
        if (reader->at >= reader->end)
            return false;
        char c = *reader->at;
        if (c == '(') {
            depth++;
            reader->at++;
        } else if (c == ')') {
            if (depth == 0)
                return false;
            depth--;
            reader->at++;
        } else if (c == ' ') {
            if (depth == 0)
                return false;
            reader->at++;
        } else if (c == '"') {
            if (!skip_quoted(reader))
                return false;
        } else if (c == '{') {
            if (!skip_literal(reader))
                return false;
        } else {
            while (reader->at < reader->end && strchr(" ()\"{", *reader->at) == NULL)
                reader->at++;
            if (reader->at < reader->end && *reader->at == '\0')
                return false;
        }
    } while (depth > 0);
    return true;
}

static bool
take_char(Reader *reader, char c)
{
    if (reader->at >= reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

/* Copies `count` elements and the spaces between them. */
static bool
copy_elements(Reader *reader, unsigned count, GString *out)
{
    const char *start = reader->at;
    for (unsigned i = 0; i < count; i++) {
        if ((i > 0 && !take_char(reader, ' ')) || !skip_element(reader))
            return false;
    }
    g_string_append_len(out, start, (gssize)(reader->at - start));
    return true;
}

/* Passes over the extension data and the parenthesis that ends the part. */
static bool
end_part(Reader *reader, GString *out)
{
    while (!take_char(reader, ')')) {
        if (!take_char(reader, ' ') || !skip_element(reader))
            return false;
    }
    g_string_append_c(out, ')');
    return true;
}

static bool
starts_with(const char *at, const char *end, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(end - at) >= length && memcmp(at, text, length) == 0;
}

typedef enum Step {
    STEP_BAD,
    STEP_LEAF,    /* the part is done */
    STEP_MESSAGE, /* its envelope is copied, its body comes */
} Step;

static Step
copy_single(Reader *reader, GString *out)
{
    const char *start = reader->at;
    if (!copy_elements(reader, 7, out))
        return STEP_BAD;
    bool is_message = starts_with(start, reader->end, "\"message\" \"rfc822\" ") ||
                      starts_with(start, reader->end, "\"message\" \"global\" ");
    if (is_message || starts_with(start, reader->end, "\"text\" ")) {
        if (!take_char(reader, ' '))
            return STEP_BAD;
        g_string_append_c(out, ' ');
        if (!copy_elements(reader, 1, out))
            return STEP_BAD;
    }
    if (!is_message)
        return end_part(reader, out) ? STEP_LEAF : STEP_BAD;
    if (!take_char(reader, ' '))
        return STEP_BAD;
    g_string_append_c(out, ' ');
    return STEP_MESSAGE;
}

/* Ends the parts that are complete after a child was. */
static bool
unwind(Reader *reader, bool *is_multipart, size_t *depth, GString *out)
{
    while (*depth > 0) {
        bool multipart = is_multipart[*depth - 1];
        if (multipart && reader->at < reader->end && *reader->at == '(')
            return true;
        if (!take_char(reader, ' '))
            return false;
        g_string_append_c(out, ' ');
        /* The subtype, or the number of lines. */
        if (!copy_elements(reader, 1, out) || !end_part(reader, out))
            return false;
        (*depth)--;
    }
    return true;
}

static bool
copy_body(Reader *reader, GString *out)
{
    bool is_multipart[PH_OUTLINE_DEPTH_MAX + 2];
    size_t depth = 0;
    do {
        if (depth >= G_N_ELEMENTS(is_multipart) || !take_char(reader, '('))
            return false;
        g_string_append_c(out, '(');
        if (reader->at < reader->end && *reader->at == '(') {
            is_multipart[depth++] = true;
            continue;
        }
        switch (copy_single(reader, out)) {
        case STEP_BAD:
            return false;
        case STEP_MESSAGE:
            is_multipart[depth++] = false;
            break;
        case STEP_LEAF:
            if (!unwind(reader, is_multipart, &depth, out))
                return false;
            break;
        }
    } while (depth > 0);
    return reader->at == reader->end;
}

bool
ph_imap_body_from_structure(const char *structure, size_t length, GString *out)
{
    Reader reader = { .at = structure, .end = structure + length };
    size_t before = out->len;
    if (copy_body(&reader, out))
        return true;
    g_string_truncate(out, before);
    return false;
}
