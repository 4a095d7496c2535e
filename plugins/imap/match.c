/* match.c - LIST patterns: "*" is anything, "%" anything but "/" (RFC 3501 6.3.8)
 *
 * One pass with one place to come back to, so a pattern full of stars costs pattern times name, not more. A "%" comes back
 * only within its level.
 */
#include "imap.h"

#include <string.h>

/* "INBOX" is without regard to case, as a name and as the first level of names. */
static bool
same(char pattern, char name, bool fold)
{
    return fold ? g_ascii_toupper(pattern) == g_ascii_toupper(name) : pattern == name;
}

bool
imap_list_match(const char *pattern, const char *name)
{
    const char *start = name;
    bool inbox = g_ascii_strncasecmp(name, "INBOX", 5) == 0 && (name[5] == '\0' || name[5] == '/');
    const char *star = NULL; /* the last "*", and where it began to match */
    const char *star_name = NULL;
    const char *percent = NULL; /* the last "%" behind it */
    const char *percent_name = NULL;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
            percent = NULL;
            continue;
        }
        if (*pattern == '%') {
            percent = ++pattern;
            percent_name = name;
            continue;
        }
        if (*name == '\0' && *pattern == '\0')
            return true;
        if (*name != '\0' && *pattern != '\0' && same(*pattern, *name, inbox && name - start < 5)) {
            pattern++;
            name++;
            continue;
        }
        if (percent != NULL && *percent_name != '\0' && *percent_name != '/') {
            name = ++percent_name;
            pattern = percent;
            continue;
        }
        if (star != NULL && *star_name != '\0') {
            name = ++star_name;
            pattern = star;
            percent = NULL;
            continue;
        }
        return false;
    }
}
