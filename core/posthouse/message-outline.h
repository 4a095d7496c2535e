/* message-outline.h - where the parts of a MIME message are
 *
 * Shape:    a tree of parts in preorder, part 0 is the message itself. Offsets are from the start
 *           of the raw message, which stays as it is: a part is read by reading its range.
 *           multipart: at least one child. message/rfc822: exactly one child, the message within.
 *           Anything else: no child. Broken mail has an outline too, the last resort is one leaf:
 *           - multipart without a boundary parameter: a text/plain leaf;
 *           - multipart whose boundary never appears: one text/plain child with the whole body;
 *           - encoded message/rfc822 (not allowed, but sent): the child is empty;
 *           - deeper than PH_OUTLINE_DEPTH_MAX: an application/octet-stream leaf;
 *           - the part that reaches PH_OUTLINE_PARTS_MAX: the rest of the message is one such leaf.
 * Units:    bytes and lines (LF ends a line; a last line without one counts).
 * Threads:  a builder belongs to one thread at a time; a finished outline may be read by many.
 * Errors:   building has none. Reading a serialised form refuses what is not exactly valid.
 * Sources:  RFC 2045, RFC 2046 5.1, RFC 3501 6.4.5, RFC 9051 6.4.5, RFC 6532 3.7.
 */
#pragma once

#include <posthouse/base.h>
#include <posthouse/message-text.h>

#define PH_OUTLINE_DEPTH_MAX 100
#define PH_OUTLINE_PARTS_MAX 10000
#define PH_OUTLINE_NONE UINT32_MAX

typedef enum PhPartKind {
    PH_PART_LEAF,
    PH_PART_MULTIPART,
    PH_PART_MESSAGE, /* message/rfc822 or message/global with the message within as its child */
} PhPartKind;

typedef enum PhPartDisposition {
    PH_DISPOSITION_NONE,
    PH_DISPOSITION_INLINE,
    PH_DISPOSITION_ATTACHMENT, /* also any word we do not know (RFC 2183 2.8) */
} PhPartDisposition;

typedef struct PhOutlinePart {
    uint64_t header_start;
    uint64_t body_start; /* end of the header, its blank line included */
    uint64_t body_end;   /* the line end before a boundary belongs to the boundary */
    uint64_t body_lines;
    uint32_t parent;       /* PH_OUTLINE_NONE for part 0 */
    uint32_t first_child;  /* PH_OUTLINE_NONE: none */
    uint32_t next_sibling; /* PH_OUTLINE_NONE: the last */
    uint32_t depth;        /* 0 for part 0 */
    PhPartKind kind;
    PhTransferEncoding encoding;
    PhPartDisposition disposition;
    const char *type; /* lower case */
    const char *subtype;
    const char *charset;  /* lower case, or NULL */
    const char *filename; /* decoded UTF-8, or NULL */
} PhOutlinePart;

typedef struct PhOutline PhOutline;
typedef struct PhOutlineBuilder PhOutlineBuilder;

/* -- building: feed the raw message in pieces of any size, then finish once -------------------- */

PH_API PhOutlineBuilder *ph_outline_builder_new(void);
PH_API void ph_outline_builder_feed(PhOutlineBuilder *builder, const void *bytes, size_t length);
/* Ends the message; no feed after it. The outline belongs to the builder. Calling it again gives
 * the same outline. */
PH_API const PhOutline *ph_outline_builder_finish(PhOutlineBuilder *builder);
/* The header block of the message, blank line included, at most PH_HEADER_MAX_BYTES of it; valid as
 * long as the builder, complete once a byte of the body was fed. */
PH_API const char *ph_outline_builder_header(const PhOutlineBuilder *builder, size_t *length_out);
PH_API void ph_outline_builder_free(PhOutlineBuilder *builder);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhOutlineBuilder, ph_outline_builder_free)

/* The outline of a message that is in memory as a whole. */
PH_API PhOutline *ph_outline_new(const void *bytes, size_t length);
PH_API void ph_outline_free(PhOutline *outline);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhOutline, ph_outline_free)

/* -- the form in which the store keeps it ------------------------------------------------------ */

PH_API GBytes *ph_outline_serialize(const PhOutline *outline);
/* Checks everything that the other functions rely on: the tree, that each range lies within its
 * parent's, order of siblings, text. NULL when anything is wrong. */
PH_API PhOutline *ph_outline_read(const void *bytes, size_t length);

/* -- looking ----------------------------------------------------------------------------------- */

PH_API uint64_t ph_outline_size(const PhOutline *outline);
PH_API size_t ph_outline_count(const PhOutline *outline);
/* Part `index` below the count. */
PH_API const PhOutlinePart *ph_outline_part(const PhOutline *outline, size_t index);

typedef enum PhSectionKind {
    PH_SECTION_WHOLE,  /* BODY[], BODY[1.2] */
    PH_SECTION_HEADER, /* BODY[HEADER], BODY[2.HEADER]; the range to take fields from, too */
    PH_SECTION_TEXT,   /* BODY[TEXT], BODY[2.TEXT] */
    PH_SECTION_MIME,   /* BODY[2.MIME] */
} PhSectionKind;

/* The range of an IMAP section. `path` holds `path_length` part numbers counted from 1. False when
 * there is no such section (answer NIL): no such part, HEADER or TEXT of a part that is no
 * message/rfc822, MIME without a part number. */
PH_API bool ph_outline_section(const PhOutline *outline, const uint32_t *path, size_t path_length,
    PhSectionKind kind, uint64_t *offset_out, uint64_t *length_out);
/* The part that `path` names, or NULL: part 1 of a message that is not multipart is its body,
 * numbers behind a message/rfc822 count within it. With an empty path, part 0. */
PH_API const PhOutlinePart *ph_outline_find(
    const PhOutline *outline, const uint32_t *path, size_t path_length);
/* The range that a partial <first.count> takes of a section of `length` bytes: false, and a range
 * of no bytes, when it starts at or behind the end (answer ""). */
PH_API bool ph_section_partial(uint64_t *offset, uint64_t *length, uint64_t first, uint64_t count);
