/* message.h - messages of an exact size and structure, that tell whether they came through whole
 *
 * Shape:    a header of MESSAGE_HEADER_BYTES, then a body from a small stock that is made when first
 *           needed. The Message-ID holds a sum of the body: what a server adds to the header does not
 *           matter.
 * Threads:  one.
 */
#pragma once

#include "model.h"

enum { MESSAGE_HEADER_BYTES = 512 };

typedef struct MessageMaker MessageMaker;

MessageMaker *message_maker_new(unsigned seed);
void message_maker_free(MessageMaker *maker);
/* Draws size and structure and appends the message, CRLF and all, without a dot line at its end; gives
 * its id, without brackets. `scale` multiplies the drawn size. */
char *message_make(MessageMaker *maker, GRand *random, double scale, const char *from,
    const char *to, GString *text);
/* Is a whole message what was made, as its Message-ID says? */
bool message_is_whole(const char *text, size_t length);
