/* subject.c - the base subject of RFC 5256 2.1
 *
 * The text is a window that shrinks from both ends; each function names the grammar rule it
 * removes.
 */
#include <posthouse/message-text.h>

#include "ascii.h"
#include "text.h"

#define SUBJECT_MAX_BYTES 4096

typedef struct Window {
    const char *start;
    const char *end;
} Window;

static bool
window_starts(const Window *window, const char *lower)
{
    size_t length = strlen(lower);
    return (size_t)(window->end - window->start) >= length &&
           g_ascii_strncasecmp(window->start, lower, length) == 0;
}

static const char *
skip_spaces(const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    return at;
}

/* subj-blob: "[", text without brackets, "]", spaces. Where it ends, or `at` when it is none. */
static const char *
blob_end(const char *at, const char *end)
{
    if (at >= end || *at != '[')
        return at;
    const char *p = at + 1;
    while (p < end && *p != '[' && *p != ']')
        p++;
    return p < end && *p == ']' ? skip_spaces(p + 1, end) : at;
}

/* subj-refwd: "re", "fw" or "fwd", spaces, a blob, ":". */
static const char *
refwd_end(const char *at, const char *end)
{
    Window rest = { .start = at, .end = end };
    size_t length = window_starts(&rest, "fwd")                                ? 3
                    : window_starts(&rest, "re") || window_starts(&rest, "fw") ? 2
                                                                               : 0;
    if (length == 0)
        return at;
    const char *p = skip_spaces(at + length, end);
    p = blob_end(p, end);
    return p < end && *p == ':' ? p + 1 : at;
}

static bool
remove_trailer(Window *window, bool *is_reply)
{
    const char *before = window->end;
    while (window->end > window->start && window->end[-1] == ' ')
        window->end--;
    if (window->end - window->start >= 5 && g_ascii_strncasecmp(window->end - 5, "(fwd)", 5) == 0) {
        window->end -= 5;
        *is_reply = true;
    }
    return window->end != before;
}

static bool
remove_leader(Window *window, bool *is_reply)
{
    const char *start = skip_spaces(window->start, window->end);
    const char *p = start;
    for (const char *next = blob_end(p, window->end); next != p; next = blob_end(p, window->end))
        p = next;
    const char *after = refwd_end(p, window->end);
    if (after != p) {
        *is_reply = true;
        start = after;
    }
    bool removed = start != window->start;
    window->start = start;
    return removed;
}

static bool
remove_blob(Window *window)
{
    const char *after = blob_end(window->start, window->end);
    if (after == window->start || after == window->end)
        return false;
    window->start = after;
    return true;
}

static bool
remove_forward_frame(Window *window)
{
    if (!window_starts(window, "[fwd:") || window->end[-1] != ']')
        return false;
    window->start += 5;
    window->end--;
    return true;
}

char *
ph_subject_base(const char *subject, bool *is_reply_out)
{
    g_autoptr(GString) text = g_string_new(NULL);
    ph_text_collapse(subject, strnlen(subject, SUBJECT_MAX_BYTES), SIZE_MAX, text);
    Window window = { .start = text->str, .end = text->str + text->len };
    bool is_reply = false;
    bool framed = false;
    do {
        while (remove_trailer(&window, &is_reply))
            continue;
        while (remove_leader(&window, &is_reply) || remove_blob(&window))
            continue;
        framed = remove_forward_frame(&window);
        is_reply = is_reply || framed;
    } while (framed);
    if (is_reply_out != NULL)
        *is_reply_out = is_reply;
    return ph_utf8_clean(window.start, (size_t)(window.end - window.start), NULL);
}
