/* outline.h - the inside of an outline and of its builder, for the files of this folder
 *
 * While the builder reads a part's header it also makes that part's share of BODYSTRUCTURE and
 * keeps it in `arena`; so headers of nested parts need not be kept.
 */
#pragma once

#include <posthouse/message-header.h>
#include <posthouse/message-outline.h>

/* The longest boundary that is looked for; RFC 2046 allows 70. */
#define BOUNDARY_MAX 512
/* As much of a line as can be a boundary: with "--" at both ends and some white space. */
#define LINE_KEEP_MAX 1024
#define NESTED_HEADER_MAX ((size_t)1024 * 1024)
#define TYPE_NAME_MAX 127
#define FILENAME_MAX_BYTES 255
#define PLAIN_CAPTURE_MAX ((size_t)4 * 1024)
#define HTML_CAPTURE_MAX ((size_t)32 * 1024)
/* Parts of a valid outline: an open multipart without parts gets a child when all is closed. */
#define PARTS_HARD_MAX (PH_OUTLINE_PARTS_MAX + PH_OUTLINE_DEPTH_MAX + 2)

struct PhOutline {
    GArray *parts; /* of PhOutlinePart, preorder */
    GStringChunk *text;
    uint64_t size;
};

typedef struct ArenaSpan {
    size_t start;
    size_t length;
} ArenaSpan;

/* What BODYSTRUCTURE says of a part, ready but for sizes and children. */
typedef struct PartDetail {
    ArenaSpan front;    /* leaf: type to encoding; multipart: the subtype */
    ArenaSpan back;     /* leaf: md5 to location; multipart: parameters to location */
    ArenaSpan envelope; /* of the message that starts here */
} PartDetail;

typedef struct OpenPart {
    uint32_t index;
    uint32_t last_child;
    uint64_t body_lines_before; /* lines of the message before the body */
    char *boundary;             /* NULL: none, or its closing line was seen */
    size_t boundary_length;
    bool is_opaque;
    bool is_synthetic; /* stands for a part that is not there */
    bool is_digest;
} OpenPart;

typedef struct Capture {
    GString *bytes;
    uint32_t index; /* the part, PH_OUTLINE_NONE: none yet */
    bool running;
} Capture;

struct PhOutlineBuilder {
    PhOutline *outline;
    GArray *details; /* of PartDetail, one per part */
    GString *arena;
    bool arena_full; /* PH_IMAP_STRUCTURE_MAX was reached: later parts have no detail */
    GString *header; /* of the message */
    GString *nested; /* of the part whose header is being read */

    OpenPart open[PH_OUTLINE_DEPTH_MAX + 1]; /* from the message to the current part */
    size_t open_count;
    bool in_header;
    bool sealed; /* no boundary is looked for any more */
    bool finished;

    uint64_t line_start;   /* offset of the current line */
    uint64_t line_length;  /* bytes of it so far */
    uint64_t lines;        /* complete lines before it */
    size_t header_mark;    /* length of the current header block at its start */
    unsigned previous_eol; /* bytes of the line end before it */
    bool previous_empty;
    bool is_candidate; /* starts with "-" */
    char last_byte;
    char line[LINE_KEEP_MAX];
    size_t line_kept;

    Capture plain;
    Capture html;
    bool has_nul;
    bool has_8bit;
};

PhOutline *ph_outline_alloc(void);
static inline PhOutlinePart *
outline_part(const PhOutline *outline, size_t index)
{
    return &g_array_index(outline->parts, PhOutlinePart, index);
}

/* Interns at most `max` bytes of the text, whole characters, clean. */
const char *ph_outline_intern(PhOutline *outline, const char *text, size_t max);

/* -- structure.c ------------------------------------------------------------------------------- */

/* What a part's header says, as far as the builder has to know. */
typedef struct PartFacts {
    PhMimeValue *type; /* never NULL */
    PhMimeValue *disposition;
    PhTransferEncoding encoding;
    PhPartKind kind;
    char *boundary; /* of a multipart, which always has one */
} PartFacts;

typedef enum PartDescribeFlags {
    DESCRIBE_OPAQUE = 1 << 0,    /* shown as application/octet-stream */
    DESCRIBE_IN_DIGEST = 1 << 1, /* message/rfc822 when nothing is said */
    DESCRIBE_WITH_ENVELOPE = 1 << 2,
    DESCRIBE_NO_CHILDREN = 1 << 3, /* what would have children is opaque */
    DESCRIBE_FACTS_ONLY = 1 << 4,  /* `detail_out` stays empty */
} PartDescribeFlags;

/* Reads the header block of a part, fills `facts_out` (to be cleared) and `detail_out`. */
void ph_structure_describe(const char *header, size_t length, PartDescribeFlags flags,
    GString *arena, PartFacts *facts_out, PartDetail *detail_out);
void ph_part_facts_clear(PartFacts *facts);
