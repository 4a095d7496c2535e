/* pattern.h - Lua's patterns, with a budget of steps
 *
 * Shape:    a pattern is compiled into items, then matched at one place after the other. Matching
 *           tries alternatives by calling itself once for each repeated item, so its depth is
 *           bounded by the pattern's length.
 * Threads:  anywhere; pure but for the error it raises on the Lua thread.
 * Limits:   256 items, 32 captures, a budget of steps; a late call ends it too.
 * Sources:  Lua 5.4 manual, 6.4.1.
 */
#pragma once

#include "posthouse/base.h"

#include <lua.h>

enum { PH_PATTERN_ITEMS_MAX = 256, PH_PATTERN_CAPTURES_MAX = 32 };

typedef struct PhPatternItem {
    uint8_t kind;
    uint8_t repeat;      /* '\0', '*', '+', '-', '?' */
    uint8_t byte;        /* a literal, a class letter, a capture's index, or the opening of %b */
    uint8_t other;       /* the closing of %b */
    const char *set;     /* behind the "[" */
    const char *set_end; /* at the "]" */
} PhPatternItem;

typedef struct PhPattern {
    lua_State *lua;
    PhPatternItem items[PH_PATTERN_ITEMS_MAX];
    unsigned n_items;
    unsigned n_captures;
    bool is_anchored;
    /* Of a match. */
    const char *subject;
    const char *end;
    uint64_t steps_left;
    struct {
        const char *start;
        ptrdiff_t length; /* PH_CAPTURE_POSITION, or PH_CAPTURE_OPEN */
    } captures[PH_PATTERN_CAPTURES_MAX];
} PhPattern;

enum { PH_CAPTURE_POSITION = -1, PH_CAPTURE_OPEN = -2 };

/* Raises an error for a malformed pattern. `anchor` false: a "^" at the start stands for itself. */
void ph_pattern_compile(
    PhPattern *pattern, lua_State *lua, const char *text, size_t length, bool anchor);
void ph_pattern_begin(PhPattern *pattern, const char *subject, size_t length);
/* Matches at `at`; the end of the match, or null. Raises an error when the budget is used up. */
const char *ph_pattern_match(PhPattern *pattern, const char *at);
