/* parse.c - the words of commands */
#include "smtp.h"

#include <string.h>

const char *
smtp_parse_keyword(const char *text, const char *keyword)
{
    size_t length = strlen(keyword);
    if (g_ascii_strncasecmp(text, keyword, length) != 0)
        return NULL;
    text += length;
    /* "MAIL FROM: <a@b>" is not in the grammar and is everywhere. */
    while (*text == ' ')
        text++;
    return text;
}

static bool
is_esmtp_keyword(const char *name)
{
    if (!g_ascii_isalnum(name[0]))
        return false;
    for (; *name != '\0'; name++)
        if (!g_ascii_isalnum(*name) && *name != '-')
            return false;
    return true;
}

/* esmtp-value: any byte except "=", space and control characters. */
static bool
is_esmtp_value(const char *value)
{
    for (; *value != '\0'; value++)
        if (*value == '=' || (unsigned char)*value <= ' ' || *value == 0x7f)
            return false;
    return true;
}

bool
smtp_parse_parameters(const char *text, SmtpTakeParameter take, void *data)
{
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    for (char **word = words; *word != NULL; word++) {
        if (**word == '\0')
            continue;
        char *value = strchr(*word, '=');
        if (value != NULL)
            *value++ = '\0';
        if (!is_esmtp_keyword(*word) ||
            (value != NULL && (*value == '\0' || !is_esmtp_value(value))))
            return false;
        if (!take(*word, value, data))
            return false;
    }
    return true;
}

bool
smtp_parse_helo(const char *text, char **helo_out)
{
    enum { HELO_MAX_BYTES = 255 };
    while (*text == ' ')
        text++;
    size_t length = strcspn(text, " ");
    if (length == 0 || length > HELO_MAX_BYTES || !g_utf8_validate(text, (gssize)length, NULL))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f || strchr("()<>\\\"", text[i]) != NULL)
            return false;
    *helo_out = g_strndup(text, length);
    return true;
}
