/* match.c - LIST patterns: "*" is anything, "%" anything but "/" (RFC 3501 6.3.8)
 *
 * The pattern is walked once, with the set of all places in the name where its beginning can end.
 * So the cost is pattern times name whatever is in them: going back to try again would cost the
 * cube of it for patterns made to be slow. A pattern with more letters than the name is answered at
 * once, and a run of wildcards is one, so the pattern's length is bounded by the name's.
 */
#include "imap.h"

#include <string.h>

/* "INBOX" is without regard to case, as a name and as the first level of names. */
static bool
same(char pattern, char name, bool fold)
{
    return fold ? g_ascii_toupper(pattern) == g_ascii_toupper(name) : pattern == name;
}

static bool
is_wildcard(char c)
{
    return c == '*' || c == '%';
}

static size_t
count_letters(const char *pattern)
{
    size_t n = 0;
    for (; *pattern != '\0'; pattern++)
        n += !is_wildcard(*pattern);
    return n;
}

/* Moves behind a run of wildcards; "*" is among them. */
static bool
skip_wildcards(const char **pattern)
{
    bool star = false;
    for (; is_wildcard(**pattern); (*pattern)++)
        star |= **pattern == '*';
    return star;
}

/* places[i]: what was walked of the pattern can end before name[i]. */
static void
spread(bool *places, const char *name, size_t length, bool star)
{
    for (size_t i = 0; i < length; i++)
        places[i + 1] |= places[i] && (star || name[i] != '/');
}

/* False: no place is left. */
static bool
step(bool *places, const char *name, size_t length, char letter, bool inbox)
{
    bool left = false;
    for (size_t i = length; i > 0; i--) {
        places[i] = places[i - 1] && same(letter, name[i - 1], inbox && i <= 5);
        left |= places[i];
    }
    places[0] = false;
    return left;
}

bool
imap_list_match(const char *pattern, const char *name)
{
    enum { SHORT_BYTES = 256 };
    size_t length = strlen(name);
    if (count_letters(pattern) > length)
        return false;
    bool inbox = g_ascii_strncasecmp(name, "INBOX", 5) == 0 && (name[5] == '\0' || name[5] == '/');
    bool short_places[SHORT_BYTES];
    g_autofree bool *long_places = length < SHORT_BYTES ? NULL : g_new(bool, length + 1);
    bool *places = long_places != NULL ? long_places : short_places;
    memset(places, 0, (length + 1) * sizeof(bool));
    places[0] = true;
    while (*pattern != '\0') {
        if (is_wildcard(*pattern))
            spread(places, name, length, skip_wildcards(&pattern));
        else if (!step(places, name, length, *pattern++, inbox))
            return false;
    }
    return places[length];
}
