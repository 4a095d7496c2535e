/* settings-document.h - all settings as one text that people can read, compare and keep
 *
 * Shape:    "key = value" lines; those before the first section are global, those behind "[node
 *           NAME]" hold for that node. "#" begins a comment at the start of a line. Applying a
 *           document makes the settings exactly what it says.
 * Errors:   SYNTAX with the line's number; and what ph_settings_check says. Nothing is half
 *           applied.
 */
#pragma once

#include "store/store.h"

/* One line of a document, or a stored row. */
typedef struct PhDocumentSetting {
    char *key;
    int scope_kind;
    char *scope_id;
    char *value;
} PhDocumentSetting;

/* From the stored rows (GPtrArray of PhStoredSetting). */
char *ph_settings_document_format(const GPtrArray *rows, int64_t version);
/* GPtrArray of PhDocumentSetting with canonical values. */
GPtrArray *ph_settings_document_parse(const char *text, GError **error);
/* What has to change for the rows to become the document: GArray of PhSettingChange, whose texts
 * belong to both. */
GArray *ph_settings_document_changes(const GPtrArray *rows, const GPtrArray *document);
