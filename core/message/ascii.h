/* ascii.h - small predicates of the mail grammars, free of the locale */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool
ascii_is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* White space as it may stand between tokens: folding included. */
static inline bool
ascii_is_fws(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static inline bool
ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool
ascii_is_high(char c)
{
    return ((unsigned char)c & 0x80) != 0;
}

/* atext of RFC 5322, without the bytes over 127. */
static inline bool
ascii_is_atext(char c)
{
    return g_ascii_isalnum(c) || (c != '\0' && strchr("!#$%&'*+-/=?^_`{|}~", c) != NULL);
}

/* token of RFC 2045. */
static inline bool
ascii_is_token(char c)
{
    return (unsigned char)c > 0x20 && (unsigned char)c < 0x7f &&
           strchr("()<>@,;:\\\"/[]?=", c) == NULL;
}

static inline bool
ascii_equal(const char *a, size_t a_length, const char *b)
{
    return strlen(b) == a_length && g_ascii_strncasecmp(a, b, a_length) == 0;
}
