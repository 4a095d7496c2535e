/* smtp-line.c - fuzz target: the words of SMTP commands, as MAIL, RCPT and EHLO take them apart */
#include "plugins/smtp/smtp.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
take(const char *name, const char *value, void *data)
{
    unsigned *count = data;
    g_assert_true(g_ascii_isalnum(name[0]));
    g_assert_true(value == NULL || (value[0] != '\0' && strpbrk(value, " \r\n=") == NULL));
    return ++*count < 100;
}

static void
check_path(const char *line, const char *keyword, PhPathFlags flags)
{
    const char *text = smtp_parse_keyword(line, keyword);
    if (text == NULL)
        return;
    g_assert_true(text > line && *text != ' ');
    g_autoptr(PhPath) path = NULL;
    size_t used = 0;
    if (ph_address_parse_path(text, strlen(text), flags, &path, &used) != PH_PATH_OK)
        return;
    g_assert_cmpuint(used, <=, strlen(text));
    unsigned count = 0;
    smtp_parse_parameters(text + used, take, &count);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *line = g_strndup((const char *)data, size);
    check_path(line, "FROM:", PH_PATH_NULL_OK | PH_PATH_UTF8_OK);
    check_path(line, "TO:", PH_PATH_POSTMASTER_OK);
    unsigned count = 0;
    smtp_parse_parameters(line, take, &count);
    g_autofree char *helo = NULL;
    if (smtp_parse_helo(line, &helo)) {
        g_assert_true(helo[0] != '\0' && strlen(helo) <= 255 && g_utf8_validate(helo, -1, NULL));
        g_assert_null(strpbrk(helo, " \t\r\n()<>\\\""));
    }
    return 0;
}
