/* text.h - pieces of text.c that the neighbours in this folder share */
#pragma once

#include <glib.h>
#include <stddef.h>

void ph_base64_decode(const char *text, size_t length, GString *out);
void ph_utf8_clean_append(GString *out, const char *text, size_t length);
/* Appends the text with runs of white space and control characters as one space, trimmed; stops at
 * `max` bytes of output, be it within a character. */
void ph_text_collapse(const char *text, size_t length, size_t max, GString *out);
