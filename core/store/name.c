/* name.c - names of mailboxes in the one form in which they are kept */
#include "store/internal.h"

#include "store/name.h"

#include <string.h>

static bool
is_inbox(const char *level, size_t length)
{
    return length == 5 && g_ascii_strncasecmp(level, "INBOX", 5) == 0;
}

static bool
has_control_character(const char *name)
{
    for (const char *at = name; *at != '\0'; at += g_utf8_skip[(uint8_t)*at])
        if (g_unichar_iscntrl(g_utf8_get_char(at)))
            return true;
    return false;
}

static const char *
what_is_wrong(const char *name)
{
    if (strlen(name) > PH_NAME_MAX_BYTES)
        return "is too long";
    if (has_control_character(name))
        return "has a control character";
    int depth = 0;
    for (const char *level = name;; level++) {
        size_t length = strcspn(level, "/");
        if (length == 0)
            return "has an empty level";
        if (length > 255)
            return "has a level of more than 255 bytes";
        if (++depth > 20)
            return "has more than 20 levels";
        level += length;
        if (*level == '\0')
            return NULL;
    }
}

static char *
refuse(const char *name, size_t length, const char *why, GError **error)
{
    g_autofree char *shown = g_utf8_make_valid(name, (gssize)MIN(length, 100));
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "mailbox name \"%s\" %s", shown, why);
    return NULL;
}

char *
ph_mailbox_name_normalise(const char *name, size_t length, GError **error)
{
    if (length > 0 && name[length - 1] == '/')
        length--;
    if (length == 0 || length > 20000)
        return refuse(name, length, length == 0 ? "is empty" : "is too long", error);
    if (memchr(name, '\0', length) != NULL || !g_utf8_validate(name, (gssize)length, NULL))
        return refuse(name, length, "is not UTF-8", error);
    g_autofree char *normal = g_utf8_normalize(name, (gssize)length, G_NORMALIZE_NFC);
    if (normal == NULL)
        return refuse(name, length, "is not UTF-8", error);
    const char *wrong = what_is_wrong(normal);
    if (wrong != NULL)
        return refuse(name, length, wrong, error);
    if (is_inbox(normal, strcspn(normal, "/")))
        memcpy(normal, "INBOX", 5);
    return g_steal_pointer(&normal);
}

GPtrArray *
ph_name_parents(const char *name)
{
    GPtrArray *parents = g_ptr_array_new_with_free_func(g_free);
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
        g_ptr_array_add(parents, g_strndup(name, (size_t)(slash - name)));
    return parents;
}

bool
ph_name_is_below(const char *name, const char *ancestor)
{
    size_t length = strlen(ancestor);
    return strncmp(name, ancestor, length) == 0 && name[length] == '/';
}

/* A slash sorts before every other character, so that children follow their parent at once. */
static int
rank_of(char byte)
{
    return byte == '\0' ? 0 : byte == '/' ? 1 : (unsigned char)byte + 2;
}

int
ph_name_compare(const char *a, const char *b)
{
    bool a_inbox = strcmp(a, "INBOX") == 0 || ph_name_is_below(a, "INBOX");
    bool b_inbox = strcmp(b, "INBOX") == 0 || ph_name_is_below(b, "INBOX");
    if (a_inbox != b_inbox)
        return a_inbox ? -1 : 1;
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return rank_of(*a) - rank_of(*b);
}
