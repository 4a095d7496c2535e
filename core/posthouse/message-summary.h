/* message-summary.h - all that the store keeps about a message beside its bytes
 *
 * Shape:    made once, from a builder that was fed the whole message.
 * Units:    bytes; microseconds since 1970 UTC.
 * Threads:  anywhere; pure. Costs time in proportion to the header, so large mail belongs in a job.
 * Errors:   none.
 * Sources:  RFC 3501, RFC 5256 2.1, RFC 8970.
 */
#pragma once

#include <posthouse/base.h>
#include <posthouse/message-imap.h>
#include <posthouse/message-outline.h>

#define PH_SUMMARY_HASH_BYTES 16
#define PH_SUMMARY_PREVIEW_CHARS 200
#define PH_SUMMARY_REFERENCES_MAX 100
#define PH_SUMMARY_SUBJECT_MAX ((size_t)16 * 1024)

typedef struct PhSummary {
    uint64_t size;
    uint64_t header_size;  /* blank line included */
    uint64_t line_count;   /* of the body */
    int64_t sent_us;       /* the Date field; INT64_MIN when there is none */
    int sent_zone_minutes; /* 0 without a date */
    GBytes *envelope;
    GBytes *body_structure;
    GBytes *outline;
    GBytes *header_cache;
    char *message_id;                               /* without brackets, clean UTF-8, or NULL */
    uint8_t message_id_hash[PH_SUMMARY_HASH_BYTES]; /* zero without a message id */
    bool has_message_id;
    /* The messages this one answers, by the hash of their ids: those of References in their order,
     * then of In-Reply-To what is not among them; the last PH_SUMMARY_REFERENCES_MAX of them. */
    uint8_t (*reference_hashes)[PH_SUMMARY_HASH_BYTES];
    size_t reference_count;
    char *subject; /* decoded, of at most PH_SUMMARY_SUBJECT_MAX raw bytes; never NULL */
    uint8_t subject_base_hash[PH_SUMMARY_HASH_BYTES]; /* of the base subject in folded case */
    bool subject_is_reply; /* the subject had a reply or forward marker */
    char *preview;         /* at most PH_SUMMARY_PREVIEW_CHARS characters, never NULL */
    bool has_attachment;
    bool has_nul; /* the raw message has NUL bytes: sending it takes literal8 or replacing */
    bool has_8bit;
} PhSummary;

/* Finishes the builder if that was not done. */
PH_API PhSummary *ph_summary_new(PhOutlineBuilder *builder);
PH_API void ph_summary_free(PhSummary *summary);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhSummary, ph_summary_free)

/* The hash of a message id, with or without brackets, as in `message_id_hash`: for threads and
 * duplicate checks over References and In-Reply-To. */
PH_API void ph_message_id_hash(
    const char *id, size_t length, uint8_t hash_out[PH_SUMMARY_HASH_BYTES]);
