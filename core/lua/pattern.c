/* pattern.c - compiling and matching patterns */
#include "lua/pattern.h"

#include "lua/watch.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

/* About a quarter of a second; a pattern that needs more will not end at all. */
static const uint64_t STEPS_MAX = 20 * 1000 * 1000;

enum {
    ITEM_LITERAL,
    ITEM_ANY,
    ITEM_CLASS,
    ITEM_SET,
    ITEM_OPEN,
    ITEM_OPEN_POSITION,
    ITEM_CLOSE,
    ITEM_BACK_REFERENCE,
    ITEM_BALANCE,
    ITEM_FRONTIER,
    ITEM_SUBJECT_END,
    ITEM_DONE,
};

/* -- compiling --------------------------------------------------------------------------------- */

typedef struct Reader {
    PhPattern *pattern;
    const char *at;
    const char *end;
    uint8_t open[PH_PATTERN_CAPTURES_MAX]; /* captures whose ")" has not come */
    unsigned n_open;
} Reader;

static PhPatternItem *
add_item(Reader *reader, unsigned kind)
{
    PhPattern *pattern = reader->pattern;
    if (pattern->n_items >= PH_PATTERN_ITEMS_MAX)
        luaL_error(pattern->lua, "pattern too long");
    PhPatternItem *item = &pattern->items[pattern->n_items++];
    *item = (PhPatternItem){ .kind = (uint8_t)kind };
    return item;
}

/* At the byte behind "[": finds its "]". A "]" that stands first is a member. */
static void
read_set(Reader *reader, PhPatternItem *item)
{
    item->set = reader->at;
    if (reader->at < reader->end && *reader->at == '^')
        reader->at++;
    bool is_first = true;
    while (reader->at < reader->end && (is_first || *reader->at != ']')) {
        reader->at += *reader->at == '%' && reader->end - reader->at > 1 ? 2 : 1;
        is_first = false;
    }
    if (reader->at >= reader->end)
        luaL_error(reader->pattern->lua, "malformed pattern (missing ']')");
    item->set_end = reader->at++;
}

static void
read_escape(Reader *reader)
{
    lua_State *lua = reader->pattern->lua;
    if (reader->at >= reader->end)
        luaL_error(lua, "malformed pattern (ends with '%%')");
    uint8_t byte = (uint8_t)*reader->at++;
    if (byte == 'b') {
        if (reader->end - reader->at < 2)
            luaL_error(lua, "malformed pattern (missing arguments to '%%b')");
        PhPatternItem *item = add_item(reader, ITEM_BALANCE);
        item->byte = (uint8_t)*reader->at++;
        item->other = (uint8_t)*reader->at++;
    } else if (byte == 'f') {
        if (reader->at >= reader->end || *reader->at++ != '[')
            luaL_error(lua, "malformed pattern (missing '[' after '%%f')");
        read_set(reader, add_item(reader, ITEM_FRONTIER));
    } else if (byte >= '0' && byte <= '9') {
        unsigned index = byte - (unsigned)'1';
        bool is_open = memchr(reader->open, (int)index, reader->n_open) != NULL;
        if (byte == '0' || index >= reader->pattern->n_captures || is_open)
            luaL_error(lua, "invalid capture index %%%c in pattern", byte);
        add_item(reader, ITEM_BACK_REFERENCE)->byte = (uint8_t)index;
    } else {
        add_item(reader, isalpha(byte) ? ITEM_CLASS : ITEM_LITERAL)->byte = byte;
    }
}

static void
read_open(Reader *reader)
{
    PhPattern *pattern = reader->pattern;
    bool is_position = reader->at < reader->end && *reader->at == ')';
    if (pattern->n_captures >= PH_PATTERN_CAPTURES_MAX)
        luaL_error(pattern->lua, "too many captures");
    PhPatternItem *item = add_item(reader, is_position ? ITEM_OPEN_POSITION : ITEM_OPEN);
    item->byte = (uint8_t)pattern->n_captures++;
    if (is_position)
        reader->at++;
    else
        reader->open[reader->n_open++] = item->byte;
}

static void
read_close(Reader *reader)
{
    if (reader->n_open == 0)
        luaL_error(reader->pattern->lua, "invalid pattern capture");
    uint8_t index = reader->open[--reader->n_open];
    add_item(reader, ITEM_CLOSE)->byte = index;
}

static bool
is_single(const PhPatternItem *item)
{
    return item->kind == ITEM_LITERAL || item->kind == ITEM_ANY || item->kind == ITEM_CLASS ||
           item->kind == ITEM_SET;
}

static void
read_item(Reader *reader)
{
    char byte = *reader->at++;
    switch (byte) {
    case '(':
        read_open(reader);
        break;
    case ')':
        read_close(reader);
        break;
    case '.':
        add_item(reader, ITEM_ANY);
        break;
    case '%':
        read_escape(reader);
        break;
    case '[':
        read_set(reader, add_item(reader, ITEM_SET));
        break;
    default:
        if (byte == '$' && reader->at == reader->end)
            add_item(reader, ITEM_SUBJECT_END);
        else
            add_item(reader, ITEM_LITERAL)->byte = (uint8_t)byte;
    }
    PhPatternItem *last = &reader->pattern->items[reader->pattern->n_items - 1];
    if (is_single(last) && reader->at < reader->end && strchr("*+-?", *reader->at) != NULL &&
        *reader->at != '\0')
        last->repeat = (uint8_t)*reader->at++;
}

void
ph_pattern_compile(PhPattern *pattern, lua_State *lua, const char *text, size_t length, bool anchor)
{
    Reader reader = { .pattern = pattern, .at = text, .end = text + length };
    pattern->lua = lua;
    pattern->n_items = pattern->n_captures = 0;
    pattern->is_anchored = anchor && length > 0 && text[0] == '^';
    if (pattern->is_anchored)
        reader.at++;
    while (reader.at < reader.end)
        read_item(&reader);
    if (reader.n_open > 0)
        luaL_error(lua, "unfinished capture");
    add_item(&reader, ITEM_DONE);
}

/* -- single bytes ------------------------------------------------------------------------------ */

static bool
in_class(uint8_t byte, uint8_t letter)
{
    bool found;
    switch (letter | 0x20) {
    case 'a':
        found = isalpha(byte);
        break;
    case 'c':
        found = iscntrl(byte);
        break;
    case 'd':
        found = isdigit(byte);
        break;
    case 'g':
        found = isgraph(byte);
        break;
    case 'l':
        found = islower(byte);
        break;
    case 'p':
        found = ispunct(byte);
        break;
    case 's':
        found = isspace(byte);
        break;
    case 'u':
        found = isupper(byte);
        break;
    case 'w':
        found = isalnum(byte);
        break;
    case 'x':
        found = isxdigit(byte);
        break;
    default:
        return letter == byte;
    }
    return isupper(letter) ? !found : found;
}

static bool
in_set(uint8_t byte, const char *at, const char *end)
{
    bool is_inverse = at < end && *at == '^';
    if (is_inverse)
        at++;
    while (at < end) {
        uint8_t first = (uint8_t)*at++;
        if (first == '%' && at < end) {
            uint8_t letter = (uint8_t)*at++;
            if (isalpha(letter) ? in_class(byte, letter) : byte == letter)
                return !is_inverse;
        } else if (end - at >= 2 && *at == '-') {
            if (byte >= first && byte <= (uint8_t)at[1])
                return !is_inverse;
            at += 2;
        } else if (byte == first) {
            return !is_inverse;
        }
    }
    return is_inverse;
}

static void
step(PhPattern *pattern)
{
    if (--pattern->steps_left == 0)
        luaL_error(pattern->lua, "the pattern takes too long on this text");
    ph_lua_tick(pattern->lua);
}

static bool
fits(PhPattern *pattern, const PhPatternItem *item, const char *at)
{
    step(pattern);
    if (at >= pattern->end)
        return false;
    uint8_t byte = (uint8_t)*at;
    switch (item->kind) {
    case ITEM_ANY:
        return true;
    case ITEM_CLASS:
        return in_class(byte, item->byte);
    case ITEM_SET:
        return in_set(byte, item->set, item->set_end);
    default:
        return byte == item->byte;
    }
}

/* -- matching ---------------------------------------------------------------------------------- */

static const char *match_from(PhPattern *pattern, unsigned index, const char *at);

/* As many as there are, then fewer. */
static const char *
match_most(PhPattern *pattern, unsigned index, const char *at, size_t least)
{
    size_t n = 0;
    while (fits(pattern, &pattern->items[index], at + n))
        n++;
    for (; n >= least; n--) {
        const char *end = match_from(pattern, index + 1, at + n);
        if (end != NULL || n == 0)
            return end;
    }
    return NULL;
}

/* As few as will do. */
static const char *
match_least(PhPattern *pattern, unsigned index, const char *at)
{
    for (;;) {
        const char *end = match_from(pattern, index + 1, at);
        if (end != NULL)
            return end;
        if (!fits(pattern, &pattern->items[index], at))
            return NULL;
        at++;
    }
}

static const char *
match_optional(PhPattern *pattern, unsigned index, const char *at)
{
    if (fits(pattern, &pattern->items[index], at)) {
        const char *end = match_from(pattern, index + 1, at + 1);
        if (end != NULL)
            return end;
    }
    return match_from(pattern, index + 1, at);
}

static const char *
match_balance(PhPattern *pattern, const PhPatternItem *item, const char *at)
{
    if (at >= pattern->end || (uint8_t)*at != item->byte)
        return NULL;
    size_t depth = 1;
    for (at++; at < pattern->end; at++) {
        step(pattern);
        if ((uint8_t)*at == item->other) {
            if (--depth == 0)
                return at + 1;
        } else if ((uint8_t)*at == item->byte) {
            depth++;
        }
    }
    return NULL;
}

/* Between a byte outside of the set and one in it; the ends of the subject count as NUL. */
static bool
is_frontier(const PhPattern *pattern, const PhPatternItem *item, const char *at)
{
    uint8_t before = at > pattern->subject ? (uint8_t)at[-1] : 0;
    uint8_t after = at < pattern->end ? (uint8_t)*at : 0;
    return !in_set(before, item->set, item->set_end) && in_set(after, item->set, item->set_end);
}

static const char *
match_back_reference(PhPattern *pattern, unsigned capture, const char *at)
{
    ptrdiff_t length = MAX(pattern->captures[capture].length, 0);
    for (ptrdiff_t done = 0; done < length; done += 4096)
        step(pattern);
    if (pattern->end - at < length ||
        memcmp(pattern->captures[capture].start, at, (size_t)length) != 0)
        return NULL;
    return at + length;
}

static const char *
match_capture_start(PhPattern *pattern, unsigned index, const char *at)
{
    const PhPatternItem *item = &pattern->items[index];
    pattern->captures[item->byte].start = at;
    pattern->captures[item->byte].length =
        item->kind == ITEM_OPEN_POSITION ? PH_CAPTURE_POSITION : PH_CAPTURE_OPEN;
    return match_from(pattern, index + 1, at);
}

/* A later try may have to find the capture open again. */
static const char *
match_capture_end(PhPattern *pattern, unsigned index, const char *at)
{
    unsigned capture = pattern->items[index].byte;
    ptrdiff_t before = pattern->captures[capture].length;
    pattern->captures[capture].length = at - pattern->captures[capture].start;
    const char *end = match_from(pattern, index + 1, at);
    if (end == NULL)
        pattern->captures[capture].length = before;
    return end;
}

/* Single items one after the other; what may go several ways is tried by a call. */
static const char *
match_from(PhPattern *pattern, unsigned index, const char *at)
{
    for (;; index++) {
        const PhPatternItem *item = &pattern->items[index];
        switch (item->repeat) {
        case '*':
            return match_most(pattern, index, at, 0);
        case '+':
            return match_most(pattern, index, at, 1);
        case '-':
            return match_least(pattern, index, at);
        case '?':
            return match_optional(pattern, index, at);
        default:
            break;
        }
        switch (item->kind) {
        case ITEM_DONE:
            return at;
        case ITEM_SUBJECT_END:
            if (at != pattern->end)
                return NULL;
            break;
        case ITEM_OPEN:
        case ITEM_OPEN_POSITION:
            return match_capture_start(pattern, index, at);
        case ITEM_CLOSE:
            return match_capture_end(pattern, index, at);
        case ITEM_BACK_REFERENCE:
            at = match_back_reference(pattern, item->byte, at);
            break;
        case ITEM_BALANCE:
            at = match_balance(pattern, item, at);
            break;
        case ITEM_FRONTIER:
            if (!is_frontier(pattern, item, at))
                return NULL;
            break;
        default:
            at = fits(pattern, item, at) ? at + 1 : NULL;
        }
        if (at == NULL)
            return NULL;
    }
}

void
ph_pattern_begin(PhPattern *pattern, const char *subject, size_t length)
{
    pattern->subject = subject;
    pattern->end = subject + length;
    pattern->steps_left = STEPS_MAX;
}

const char *
ph_pattern_match(PhPattern *pattern, const char *at)
{
    step(pattern);
    return match_from(pattern, 0, at);
}
