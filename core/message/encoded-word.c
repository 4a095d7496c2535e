/* encoded-word.c - RFC 2047
 *
 * What is hard here: senders split characters between words, so words of one character set that
 * follow each other are joined as bytes before they are converted; and the number of converters
 * opened for one value is bounded, because the names come from the sender.
 */
#include <posthouse/message-header.h>

#include "ascii.h"
#include "text.h"

#define CHARSET_MAX 40
/* Of one value: conversions, and changes from one character set to another. */
#define CONVERSIONS_MAX 4096
#define CHANGES_MAX 64

typedef struct Decoder {
    GString *out;
    GString *pending; /* decoded bytes in `charset`, not yet converted */
    char charset[CHARSET_MAX + 1];
    char converted[CHARSET_MAX + 1]; /* the set of the last conversion */
    unsigned conversions;
    unsigned changes;
} Decoder;

static void
decoder_flush(Decoder *decoder)
{
    if (decoder->pending->len == 0)
        return;
    if (g_ascii_strcasecmp(decoder->charset, decoder->converted) != 0) {
        decoder->changes++;
        g_strlcpy(decoder->converted, decoder->charset, sizeof(decoder->converted));
    }
    decoder->conversions++;
    bool allowed = decoder->conversions <= CONVERSIONS_MAX && decoder->changes <= CHANGES_MAX;
    size_t length = 0;
    g_autofree char *text = ph_text_to_utf8(
        allowed ? decoder->charset : NULL, decoder->pending->str, decoder->pending->len, &length);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' || text[i] == '\n' || text[i] == '\t')
            text[i] = ' ';
    }
    g_string_append_len(decoder->out, text, (gssize)length);
    g_string_truncate(decoder->pending, 0);
}

typedef struct EncodedWord {
    const char *charset;
    size_t charset_length;
    char encoding;
    const char *text;
    size_t text_length;
    size_t length; /* of the whole word */
} EncodedWord;

/* Whether an encoded word starts at `at`. Each look stops at the next "?", so that a run of "=?"
 * costs linear time. */
static bool
encoded_word_scan(const char *at, const char *end, EncodedWord *word)
{
    if (end - at < 6 || at[0] != '=' || at[1] != '?')
        return false;
    const char *p = at + 2;
    while (p < end && p - at < CHARSET_MAX + 20 && *p != '?' && *p != '*' && ascii_is_token(*p))
        p++;
    word->charset = at + 2;
    word->charset_length = (size_t)(p - word->charset);
    if (p < end && *p == '*') {
        while (p < end && p - at < CHARSET_MAX + 40 && *p != '?' && *p != ' ')
            p++;
    }
    if (word->charset_length == 0 || word->charset_length > CHARSET_MAX || end - p < 4 ||
        *p != '?' || p[2] != '?')
        return false;
    word->encoding = g_ascii_toupper(p[1]);
    if (word->encoding != 'B' && word->encoding != 'Q')
        return false;
    word->text = p + 3;
    /* Spaces are not allowed within, yet sent; they end the word only where no "?=" comes. */
    const char *question = memchr(word->text, '?', (size_t)(end - word->text));
    if (question == NULL || question + 1 >= end || question[1] != '=')
        return false;
    word->text_length = (size_t)(question - word->text);
    word->length = (size_t)(question + 2 - at);
    return true;
}

static void
q_decode(const EncodedWord *word, GString *out)
{
    for (size_t i = 0; i < word->text_length; i++) {
        char c = word->text[i];
        if (c == '_') {
            g_string_append_c(out, ' ');
        } else if (c == '=' && i + 2 < word->text_length && g_ascii_isxdigit(word->text[i + 1]) &&
                   g_ascii_isxdigit(word->text[i + 2])) {
            int value = g_ascii_xdigit_value(word->text[i + 1]) * 16 +
                        g_ascii_xdigit_value(word->text[i + 2]);
            g_string_append_c(out, (char)value);
            i += 2;
        } else {
            g_string_append_c(out, c);
        }
    }
}

static void
decoder_word(Decoder *decoder, const EncodedWord *word)
{
    if (!ascii_equal(word->charset, word->charset_length, decoder->charset)) {
        decoder_flush(decoder);
        memcpy(decoder->charset, word->charset, word->charset_length);
        decoder->charset[word->charset_length] = '\0';
    }
    if (word->encoding == 'B')
        ph_base64_decode(word->text, word->text_length, decoder->pending);
    else
        q_decode(word, decoder->pending);
}

char *
ph_header_decode(const char *value, size_t length)
{
    g_autofree char *line = ph_header_unfold(value, length);
    const char *end = line + strlen(line);
    g_autoptr(GString) pending = g_string_new(NULL);
    Decoder decoder = { .out = g_string_sized_new(length + 1), .pending = pending };
    const char *at = line;
    bool after_word = false;
    while (at < end) {
        EncodedWord word;
        if (*at == '=' && encoded_word_scan(at, end, &word)) {
            decoder_word(&decoder, &word);
            at += word.length;
            after_word = true;
            continue;
        }
        if (after_word && ascii_is_space(*at)) {
            /* White space between two words is not shown. */
            const char *next = at;
            while (next < end && ascii_is_space(*next))
                next++;
            if (next < end && encoded_word_scan(next, end, &word)) {
                at = next;
                continue;
            }
        }
        decoder_flush(&decoder);
        after_word = false;
        const char *stop = at + 1;
        while (stop < end && *stop != '=')
            stop++;
        ph_utf8_clean_append(decoder.out, at, (size_t)(stop - at));
        at = stop;
    }
    decoder_flush(&decoder);
    for (size_t i = 0; i < decoder.out->len; i++) {
        if ((unsigned char)decoder.out->str[i] < 0x20)
            decoder.out->str[i] = ' ';
    }
    return g_string_free(decoder.out, FALSE);
}
