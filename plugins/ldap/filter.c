/* filter.c - search filters, from BER to three-valued answers
 *
 * liblber reads; a stack, as deep as the limit, knows what is open. Since each term stands before its
 * own terms, going backwards meets the values of a term's own terms on a stack when it comes to the
 * term: so matching and narrowing are loops, too.
 */
#include "filter.h"

#include "dn.h"

#include <string.h>

/* Tags of the choice (RFC 4511 4.5.1.7). */
typedef enum Test {
    TEST_AND = 0xa0,
    TEST_OR = 0xa1,
    TEST_NOT = 0xa2,
    TEST_EQUAL = 0xa3,
    TEST_SUBSTRINGS = 0xa4,
    TEST_AT_LEAST = 0xa5,
    TEST_AT_MOST = 0xa6,
    TEST_PRESENT = 0x87,
    TEST_APPROX = 0xa8,
    TEST_EXTENSIBLE = 0xa9,
} Test;

/* Parts of a substring assertion, by their tags. */
enum { PART_INITIAL = 0x80, PART_ANY = 0x81, PART_FINAL = 0x82 };

typedef struct Part {
    uint8_t tag;
    LdapSpan raw;
    GString *prepared; /* null: cannot be in any value */
} Part;

typedef struct Term {
    Test test;
    unsigned n_children;
    LdapSpan description; /* of the attribute; null bytes: none (extensible) */
    LdapAttribute attribute;
    LdapSpan raw;
    GString
        *prepared; /* the asserted value in the form that is compared; null: not of that syntax */
    LdapSpan rule; /* extensible */
    bool of_dn;
    unsigned first_part; /* substrings */
    unsigned n_parts;
} Term;

struct LdapFilter {
    GArray *terms; /* Term */
    GArray *parts; /* Part */
    GPtrArray *texts;
};

static Term *
term_at(const LdapFilter *filter, unsigned i)
{
    return &g_array_index(filter->terms, Term, i);
}

static Part *
part_at(const LdapFilter *filter, unsigned i)
{
    return &g_array_index(filter->parts, Part, i);
}

/* -- values in the form that is compared ------------------------------------------------------- */

/* Hyphens and spaces mean nothing in a telephone number (RFC 4518 2.6.3). */
static GString *
fold_telephone(LdapSpan value)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < value.length; i++)
        if (value.bytes[i] != ' ' && value.bytes[i] != '-')
            g_string_append_c(out, g_ascii_tolower((char)value.bytes[i]));
    return out;
}

/* "20261130175107Z", with a fraction that is cut; null for anything else. */
static GString *
fold_time(LdapSpan value)
{
    enum { DIGITS = 14 };
    size_t n = 0;
    while (n < value.length && g_ascii_isdigit((char)value.bytes[n]))
        n++;
    if (n != DIGITS || value.bytes[value.length - 1] != 'Z')
        return NULL;
    if (value.length > DIGITS + 1 && value.bytes[n] != '.' && value.bytes[n] != ',')
        return NULL;
    for (size_t i = n + 1; i + 1 < value.length; i++)
        if (!g_ascii_isdigit((char)value.bytes[i]))
            return NULL;
    return g_string_new_len((const char *)value.bytes, DIGITS);
}

static GString *
fold_dn(LdapSpan value)
{
    g_autofree char *dn = ldap_dn_normalize(value.bytes, value.length);
    return dn != NULL ? g_string_new(dn) : NULL;
}

static GString *
fold_oid(LdapSpan value)
{
    g_autofree char *text = ldap_span_text(value);
    if (text == NULL)
        return NULL;
    const char *name = ldap_class_find(text);
    GString *out = g_string_new(name != NULL ? name : text);
    return g_string_ascii_down(out);
}

static GString *
prepare(LdapSyntax syntax, LdapSpan value)
{
    switch (syntax) {
    case LDAP_SYNTAX_OID:
        return fold_oid(value);
    case LDAP_SYNTAX_DN:
        return fold_dn(value);
    case LDAP_SYNTAX_TELEPHONE:
        return fold_telephone(value);
    case LDAP_SYNTAX_TIME:
        return fold_time(value);
    case LDAP_SYNTAX_BOOLEAN:
        return ldap_span_is(value, "TRUE") || ldap_span_is(value, "FALSE")
                   ? ldap_fold(value.bytes, value.length)
                   : NULL;
    case LDAP_SYNTAX_TEXT:
    case LDAP_SYNTAX_IA5:
    case LDAP_SYNTAX_UUID:
    case LDAP_SYNTAX_INTEGER:
    case LDAP_SYNTAX_CLASS_DESCRIPTION:
    case LDAP_SYNTAX_ATTRIBUTE_DESCRIPTION:
    case LDAP_SYNTAX_RULE_DESCRIPTION:
    case LDAP_SYNTAX_SYNTAX_DESCRIPTION:
    case LDAP_SYNTAX_SUBSTRINGS:
    case LDAP_N_SYNTAXES:
        break;
    }
    return ldap_fold(value.bytes, value.length);
}

/* A part may begin or end between words: its spaces there count. */
static GString *
prepare_part(LdapSyntax syntax, const Part *part)
{
    if (syntax == LDAP_SYNTAX_TELEPHONE)
        return fold_telephone(part->raw);
    GString *out = ldap_fold(part->raw.bytes, part->raw.length);
    if (part->raw.length == 0)
        return out;
    bool starts = part->raw.bytes[0] == ' ';
    bool ends = part->raw.bytes[part->raw.length - 1] == ' ';
    if (out->len == 0)
        return g_string_append_c(out, ' ');
    if (starts && part->tag != PART_INITIAL)
        g_string_prepend_c(out, ' ');
    if (ends && part->tag != PART_FINAL)
        g_string_append_c(out, ' ');
    return out;
}

static LdapSpan
span_of(const char *text)
{
    return (LdapSpan){ .bytes = (const uint8_t *)text, .length = strlen(text) };
}

/* -- reading ----------------------------------------------------------------------------------- */

static void
clear_term(void *data)
{
    Term *term = data;
    if (term->prepared != NULL)
        g_string_free(term->prepared, TRUE);
}

static void
clear_part(void *data)
{
    Part *part = data;
    if (part->prepared != NULL)
        g_string_free(part->prepared, TRUE);
}

void
ldap_filter_free(LdapFilter *filter)
{
    if (filter == NULL)
        return;
    g_array_unref(filter->terms);
    g_array_unref(filter->parts);
    g_ptr_array_unref(filter->texts);
    g_free(filter);
}

static LdapSyntax
syntax_of(const Term *term)
{
    return ldap_attributes[term->attribute].syntax;
}

static LdapParse
read_parts(LdapFilter *filter, Term *term, LdapReader *reader)
{
    while (ldap_reader_left(reader) > 0) {
        Part part = { 0 };
        if (!ldap_read_any(reader, &part.tag, &part.raw) || part.tag < PART_INITIAL ||
            part.tag > PART_FINAL)
            return LDAP_PARSE_BAD;
        if ((part.tag == PART_INITIAL && term->n_parts > 0) ||
            (part.tag == PART_FINAL && ldap_reader_left(reader) > 0))
            return LDAP_PARSE_BAD;
        if (filter->terms->len + filter->parts->len + 1 >= LDAP_FILTER_MAX_TERMS)
            return LDAP_PARSE_TOO_LARGE;
        if (term->attribute != LDAP_ATTR_NONE)
            part.prepared = prepare_part(syntax_of(term), &part);
        g_array_append_val(filter->parts, part);
        term->n_parts++;
    }
    return term->n_parts > 0 ? LDAP_PARSE_DONE : LDAP_PARSE_BAD;
}

static LdapParse
read_substrings(LdapFilter *filter, Term *term, LdapReader *reader)
{
    size_t length;
    if (!ldap_read(reader, LDAP_TAG_OCTETS, &term->description) ||
        !ldap_read_into(reader, LDAP_TAG_SEQUENCE, &length) || length != ldap_reader_left(reader))
        return LDAP_PARSE_BAD;
    term->attribute = ldap_attribute_find(term->description);
    term->first_part = filter->parts->len;
    return read_parts(filter, term, reader);
}

/* MatchingRuleAssertion: [1] rule, [2] type, [3] value, [4] dnAttributes. */
static LdapParse
read_extensible(Term *term, LdapReader *reader)
{
    (void)ldap_read(reader, 0x81, &term->rule);
    (void)ldap_read(reader, 0x82, &term->description);
    if (!ldap_read(reader, 0x83, &term->raw))
        return LDAP_PARSE_BAD;
    (void)ldap_read_bool(reader, 0x84, &term->of_dn);
    if (ldap_reader_left(reader) > 0 ||
        (term->rule.bytes == NULL && term->description.bytes == NULL))
        return LDAP_PARSE_BAD;
    if (term->description.bytes != NULL)
        term->attribute = ldap_attribute_find(term->description);
    return LDAP_PARSE_DONE;
}

static LdapParse
read_assertion(Term *term, LdapReader *reader)
{
    if (!ldap_read(reader, LDAP_TAG_OCTETS, &term->description) ||
        !ldap_read(reader, LDAP_TAG_OCTETS, &term->raw) || ldap_reader_left(reader) > 0)
        return LDAP_PARSE_BAD;
    term->attribute = ldap_attribute_find(term->description);
    if (term->attribute != LDAP_ATTR_NONE)
        term->prepared = prepare(syntax_of(term), term->raw);
    return LDAP_PARSE_DONE;
}

static bool
is_composite(Test test)
{
    return test == TEST_AND || test == TEST_OR || test == TEST_NOT;
}

/* What is no composite; `inner` is for its contents. */
static LdapParse
read_leaf(LdapFilter *filter, Term *term, LdapSpan contents, LdapReader *inner)
{
    ldap_reader_set(inner, contents);
    switch (term->test) {
    case TEST_EQUAL:
    case TEST_AT_LEAST:
    case TEST_AT_MOST:
    case TEST_APPROX:
        return read_assertion(term, inner);
    case TEST_SUBSTRINGS:
        return read_substrings(filter, term, inner);
    case TEST_PRESENT:
        term->description = contents;
        term->attribute = ldap_attribute_find(contents);
        return LDAP_PARSE_DONE;
    case TEST_EXTENSIBLE:
        return read_extensible(term, inner);
    case TEST_AND:
    case TEST_OR:
    case TEST_NOT:
        break;
    }
    return LDAP_PARSE_BAD;
}

/* A composite that is open: which, and how much is left of the whole filter where it ends. */
typedef struct Open {
    unsigned term;
    size_t end;
} Open;

typedef struct Nesting {
    Open open[LDAP_FILTER_MAX_DEPTH];
    unsigned depth;
} Nesting;

/* liblber knows where the whole filter ends, not where a composite does: that is looked at here. */
static LdapParse
read_one(LdapFilter *filter, Nesting *nesting, LdapReader *reader, LdapReader *inner)
{
    Term term = { .test = (Test)ldap_reader_peek(reader), .attribute = LDAP_ATTR_NONE };
    size_t end = nesting->depth > 0 ? nesting->open[nesting->depth - 1].end : 0;
    uint8_t tag;
    size_t length;
    LdapSpan contents;
    LdapParse read = LDAP_PARSE_DONE;
    if (filter->terms->len + filter->parts->len >= LDAP_FILTER_MAX_TERMS)
        return LDAP_PARSE_TOO_LARGE;
    if (is_composite(term.test)) {
        if (nesting->depth == LDAP_FILTER_MAX_DEPTH)
            return LDAP_PARSE_TOO_LARGE;
        if (!ldap_read_into(reader, (uint8_t)term.test, &length) ||
            ldap_reader_left(reader) - length < end)
            return LDAP_PARSE_BAD;
        nesting->open[nesting->depth++] =
            (Open){ .term = filter->terms->len, .end = ldap_reader_left(reader) - length };
    } else {
        if (!ldap_read_any(reader, &tag, &contents) || ldap_reader_left(reader) < end)
            return LDAP_PARSE_BAD;
        read = read_leaf(filter, &term, contents, inner);
    }
    g_array_append_val(filter->terms, term);
    return read;
}

/* Ends the composites that end here. */
static bool
close_all(LdapFilter *filter, Nesting *nesting, size_t left)
{
    while (nesting->depth > 0 && nesting->open[nesting->depth - 1].end == left) {
        const Term *ended = term_at(filter, nesting->open[nesting->depth - 1].term);
        if (ended->test == TEST_NOT && ended->n_children != 1)
            return false;
        nesting->depth--;
    }
    return true;
}

static LdapParse
read_all(LdapFilter *filter, LdapReader *reader, LdapReader *inner)
{
    Nesting nesting = { .depth = 0 };
    do {
        if (nesting.depth > 0)
            term_at(filter, nesting.open[nesting.depth - 1].term)->n_children++;
        LdapParse read = read_one(filter, &nesting, reader, inner);
        if (read != LDAP_PARSE_DONE)
            return read;
        if (!close_all(filter, &nesting, ldap_reader_left(reader)))
            return LDAP_PARSE_BAD;
    } while (nesting.depth > 0);
    return ldap_reader_left(reader) == 0 ? LDAP_PARSE_DONE : LDAP_PARSE_BAD;
}

LdapParse
ldap_filter_parse(LdapSpan span, LdapFilter **filter_out)
{
    g_autoptr(LdapFilter) filter = g_new0(LdapFilter, 1);
    filter->terms = g_array_new(FALSE, FALSE, sizeof(Term));
    g_array_set_clear_func(filter->terms, clear_term);
    filter->parts = g_array_new(FALSE, FALSE, sizeof(Part));
    g_array_set_clear_func(filter->parts, clear_part);
    filter->texts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(LdapReader) reader = ldap_reader_new(span);
    g_autoptr(LdapReader) inner = ldap_reader_new((LdapSpan){ 0 });
    LdapParse read = read_all(filter, reader, inner);
    if (read == LDAP_PARSE_DONE)
        *filter_out = g_steal_pointer(&filter);
    return read;
}

/* -- matching ---------------------------------------------------------------------------------- */

static bool
contains_parts(const LdapFilter *filter, const Term *term, const GString *value)
{
    size_t at = 0;
    for (unsigned i = 0; i < term->n_parts; i++) {
        const Part *part = part_at(filter, term->first_part + i);
        size_t length = part->prepared->len;
        if (length > value->len - at)
            return false;
        if (part->tag == PART_INITIAL) {
            if (memcmp(value->str, part->prepared->str, length) != 0)
                return false;
            at = length;
        } else if (part->tag == PART_FINAL) {
            return memcmp(value->str + value->len - length, part->prepared->str, length) == 0;
        } else {
            const char *found =
                memmem(value->str + at, value->len - at, part->prepared->str, length);
            if (found == NULL)
                return false;
            at = (size_t)(found - value->str) + length;
        }
    }
    return true;
}

/* A value of the entry in the form that is compared. */
static bool
value_fits(const LdapFilter *filter, const Term *term, const GString *value)
{
    if (term->test == TEST_SUBSTRINGS)
        return contains_parts(filter, term, value);
    int order = strcmp(value->str, term->prepared->str);
    if (term->test == TEST_AT_LEAST)
        return order >= 0;
    if (term->test == TEST_AT_MOST)
        return order <= 0;
    return value->len == term->prepared->len && order == 0;
}

static bool
is_undefined(const Term *term)
{
    if (term->attribute == LDAP_ATTR_NONE)
        return true;
    const LdapAttributeRow *row = &ldap_attributes[term->attribute];
    switch (term->test) {
    case TEST_EQUAL:
    case TEST_APPROX:
        return row->equality == NULL || term->prepared == NULL;
    case TEST_AT_LEAST:
    case TEST_AT_MOST:
        return row->ordering == NULL || term->prepared == NULL;
    case TEST_SUBSTRINGS:
        return row->substrings == NULL;
    case TEST_PRESENT:
        return false;
    case TEST_AND:
    case TEST_OR:
    case TEST_NOT:
    case TEST_EXTENSIBLE:
        break;
    }
    return true;
}

static bool
attribute_fits(
    const LdapFilter *filter, const Term *term, const GPtrArray *values, LdapSyntax syntax)
{
    if (term->test == TEST_PRESENT)
        return true;
    for (unsigned i = 0; i < values->len; i++) {
        GString *value = prepare(syntax, span_of(values->pdata[i]));
        bool fits = value != NULL && value_fits(filter, term, value);
        if (value != NULL)
            g_string_free(value, TRUE);
        if (fits)
            return true;
    }
    return false;
}

static LdapTruth
match_attribute(const LdapFilter *filter, const Term *term, const LdapEntry *entry)
{
    if (is_undefined(term))
        return LDAP_UNDEFINED;
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++)
        if (entry->values[i] != NULL && ldap_attribute_is_a(i, term->attribute) &&
            attribute_fits(filter, term, entry->values[i], ldap_attributes[i].syntax))
            return LDAP_TRUE;
    return LDAP_FALSE;
}

/* Rules for equality are ours; those about parts of the name are not (RFC 4511 4.5.1.7.7: what is not
 * implemented is undefined). */
static LdapTruth
match_extensible(const Term *term, const LdapEntry *entry)
{
    bool by_type = term->description.bytes != NULL;
    if (term->of_dn || (by_type && term->attribute == LDAP_ATTR_NONE))
        return LDAP_UNDEFINED;
    bool asked = false;
    for (LdapAttribute i = 0; i < LDAP_N_ATTRIBUTES; i++) {
        if (by_type && !ldap_attribute_is_a(i, term->attribute))
            continue;
        const char *rule = ldap_attributes[i].equality;
        if (rule == NULL || (term->rule.bytes != NULL && !ldap_rule_is(term->rule, rule)))
            continue;
        LdapTruth truth = ldap_value_match(entry, i, term->raw);
        if (truth == LDAP_TRUE)
            return LDAP_TRUE;
        asked |= truth == LDAP_FALSE;
    }
    return asked ? LDAP_FALSE : LDAP_UNDEFINED;
}

LdapTruth
ldap_value_match(const LdapEntry *entry, LdapAttribute attribute, LdapSpan value)
{
    Term term = { .test = TEST_EQUAL, .attribute = attribute };
    term.prepared = prepare(ldap_attributes[attribute].syntax, value);
    LdapTruth truth = match_attribute(NULL, &term, entry);
    clear_term(&term);
    return truth;
}

LdapTruth
ldap_filter_match(const LdapFilter *filter, const LdapEntry *entry)
{
    LdapTruth stack[LDAP_FILTER_MAX_TERMS + 1];
    unsigned n = 0;
    for (unsigned i = filter->terms->len; i-- > 0;) {
        const Term *term = term_at(filter, i);
        LdapTruth truth;
        if (is_composite(term->test)) {
            truth = term->test == TEST_OR ? LDAP_FALSE : LDAP_TRUE;
            for (unsigned child = 0; child < term->n_children; child++) {
                LdapTruth own = stack[--n];
                truth = term->test == TEST_OR ? MAX(truth, own) : MIN(truth, own);
            }
            if (term->test == TEST_NOT)
                truth = LDAP_TRUE - truth;
        } else if (term->test == TEST_EXTENSIBLE) {
            truth = match_extensible(term, entry);
        } else {
            truth = match_attribute(filter, term, entry);
        }
        stack[n++] = truth;
    }
    return stack[0];
}

/* -- narrowing --------------------------------------------------------------------------------- */

enum { ALL_KINDS = 1 << PH_ENTRY_ACCOUNT | 1 << PH_ENTRY_GROUP | 1 << PH_ENTRY_CONTACT };

/* The longest run of visible ASCII in a value: case outside of ASCII and the number of spaces are
 * matched differently in the database. Null where it is too short to be of use. */
static const char *
find_text(const LdapFilter *filter, LdapSpan value)
{
    enum { TEXT_MIN_BYTES = 3 };
    size_t best = 0;
    size_t best_length = 0;
    size_t start = 0;
    for (size_t i = 0; i <= value.length; i++) {
        if (i < value.length && value.bytes[i] > ' ' && value.bytes[i] < 0x7f)
            continue;
        if (i - start > best_length) {
            best = start;
            best_length = i - start;
        }
        start = i + 1;
    }
    if (best_length < TEXT_MIN_BYTES)
        return NULL;
    char *text = g_strndup((const char *)value.bytes + best, best_length);
    g_ptr_array_add(filter->texts, text);
    return text;
}

/* Is what the attribute holds in the names or addresses of an entry of the store? A contact's uid is
 * its number. */
static bool
is_searched(LdapAttribute attribute, LdapSpan value)
{
    if (attribute == LDAP_ATTR_UID)
        return value.length > 0 && memchr(value.bytes, '@', value.length) != NULL;
    return attribute == LDAP_ATTR_CN || attribute == LDAP_ATTR_SN ||
           attribute == LDAP_ATTR_GIVEN_NAME || attribute == LDAP_ATTR_DISPLAY_NAME ||
           attribute == LDAP_ATTR_MAIL;
}

static unsigned
kinds_of_class(const GString *name)
{
    enum {
        PERSONS = 1 << PH_ENTRY_ACCOUNT | 1 << PH_ENTRY_CONTACT,
        GROUPS = 1 << PH_ENTRY_GROUP,
    };
    static const struct {
        const char *name;
        unsigned kinds;
    } rows[] = {
        { "top", ALL_KINDS },
        { "person", PERSONS },
        { "organizationalperson", PERSONS },
        { "inetorgperson", PERSONS },
        { "groupofnames", GROUPS },
        { "nismailalias", GROUPS },
        { "extensibleobject", GROUPS },
    };
    for (size_t i = 0; name != NULL && i < G_N_ELEMENTS(rows); i++)
        if (strcmp(rows[i].name, name->str) == 0)
            return rows[i].kinds;
    return 0;
}

static LdapNarrowing
narrow_leaf(const LdapFilter *filter, const Term *term)
{
    LdapNarrowing out = { .kinds = ALL_KINDS };
    if (term->test == TEST_EXTENSIBLE)
        return out;
    if (is_undefined(term)) {
        out.kinds = 0;
        return out;
    }
    const char *text = NULL;
    if (term->test == TEST_EQUAL || term->test == TEST_APPROX) {
        if (term->attribute == LDAP_ATTR_OBJECT_CLASS)
            out.kinds = kinds_of_class(term->prepared);
        else if (is_searched(term->attribute, term->raw))
            text = find_text(filter, term->raw);
    }
    for (unsigned i = 0; term->test == TEST_SUBSTRINGS && i < term->n_parts; i++) {
        const Part *part = part_at(filter, term->first_part + i);
        if (!is_searched(term->attribute, part->raw))
            continue;
        const char *other = find_text(filter, part->raw);
        if (other != NULL && (text == NULL || strlen(other) > strlen(text)))
            text = other;
    }
    if (text != NULL)
        out.texts[out.n_texts++] = text;
    return out;
}

/* The better of two is that whose shortest text is longer. */
static size_t
worth(const LdapNarrowing *narrowing)
{
    size_t shortest = narrowing->n_texts > 0 ? SIZE_MAX : 0;
    for (unsigned i = 0; i < narrowing->n_texts; i++)
        shortest = MIN(shortest, strlen(narrowing->texts[i]));
    return shortest;
}

static void
narrow_both(LdapNarrowing *all, const LdapNarrowing *other)
{
    unsigned kinds = all->kinds & other->kinds;
    if (worth(other) > worth(all))
        *all = *other;
    all->kinds = kinds;
}

/* `is_any`: some term of this "or" has no texts. */
static void
narrow_either(LdapNarrowing *any, const LdapNarrowing *other, bool *is_any)
{
    if (other->kinds == 0)
        return;
    any->kinds |= other->kinds;
    *is_any |= other->n_texts == 0 || any->n_texts + other->n_texts > LDAP_FILTER_MAX_TEXTS;
    for (unsigned i = 0; !*is_any && i < other->n_texts; i++)
        any->texts[any->n_texts++] = other->texts[i];
}

void
ldap_filter_narrow(const LdapFilter *filter, LdapNarrowing *narrowing_out)
{
    g_autofree LdapNarrowing *stack = g_new(LdapNarrowing, LDAP_FILTER_MAX_TERMS + 1);
    unsigned n = 0;
    for (unsigned i = filter->terms->len; i-- > 0;) {
        const Term *term = term_at(filter, i);
        LdapNarrowing out = { .kinds = ALL_KINDS };
        bool is_any = false;
        if (!is_composite(term->test))
            out = narrow_leaf(filter, term);
        else if (term->test == TEST_OR)
            out.kinds = 0;
        for (unsigned child = 0; child < term->n_children; child++) {
            const LdapNarrowing *own = &stack[--n];
            if (term->test == TEST_AND)
                narrow_both(&out, own);
            else if (term->test == TEST_OR)
                narrow_either(&out, own, &is_any);
        }
        if (is_any)
            out.n_texts = 0;
        stack[n++] = out;
    }
    *narrowing_out = stack[0];
    narrowing_out->texts[narrowing_out->n_texts] = NULL;
}

/* -- text -------------------------------------------------------------------------------------- */

static void
append_value(GString *out, LdapSpan value)
{
    for (size_t i = 0; i < value.length; i++) {
        uint8_t byte = value.bytes[i];
        if (byte < 0x20 || byte >= 0x7f || byte == '(' || byte == ')' || byte == '*' ||
            byte == '\\')
            g_string_append_printf(out, "\\%02x", byte);
        else
            g_string_append_c(out, (char)byte);
    }
}

/* RFC 4512 2.5: letters, digits and these. Anything else is escaped, so that no name can look like a name
 * with what stands behind it: two filters of one text are one filter. */
static void
append_name(GString *out, LdapSpan name)
{
    for (size_t i = 0; i < name.length; i++) {
        char byte = (char)name.bytes[i];
        if (g_ascii_isalnum(byte) || byte == '-' || byte == '.' || byte == ';' || byte == '_')
            g_string_append_c(out, g_ascii_tolower(byte));
        else
            g_string_append_printf(out, "\\%02x", name.bytes[i]);
    }
}

static void
append_parts(GString *out, const LdapFilter *filter, const Term *term)
{
    for (unsigned i = 0; i < term->n_parts; i++) {
        const Part *part = part_at(filter, term->first_part + i);
        if (part->tag != PART_INITIAL)
            g_string_append_c(out, '*');
        append_value(out, part->raw);
    }
    if (part_at(filter, term->first_part + term->n_parts - 1)->tag != PART_FINAL)
        g_string_append_c(out, '*');
}

static void
append_extensible(GString *out, const Term *term)
{
    append_name(out, term->description);
    g_string_append(out, term->of_dn ? ":dn" : "");
    if (term->rule.bytes != NULL) {
        g_string_append_c(out, ':');
        append_name(out, term->rule);
    }
    g_string_append(out, ":=");
    append_value(out, term->raw);
}

static void
append_leaf(GString *out, const LdapFilter *filter, const Term *term)
{
    if (term->test == TEST_EXTENSIBLE) {
        append_extensible(out, term);
        return;
    }
    append_name(out, term->description);
    g_string_append(out, term->test == TEST_AT_LEAST  ? ">="
                         : term->test == TEST_AT_MOST ? "<="
                         : term->test == TEST_APPROX  ? "~="
                                                      : "=");
    if (term->test == TEST_PRESENT)
        g_string_append_c(out, '*');
    else if (term->test == TEST_SUBSTRINGS)
        append_parts(out, filter, term);
    else
        append_value(out, term->raw);
}

char *
ldap_filter_text(const LdapFilter *filter)
{
    GString *out = g_string_new(NULL);
    unsigned left[LDAP_FILTER_MAX_DEPTH]; /* terms to come of each that is open */
    unsigned depth = 0;
    for (unsigned i = 0; i < filter->terms->len; i++) {
        const Term *term = term_at(filter, i);
        g_string_append_c(out, '(');
        if (is_composite(term->test)) {
            g_string_append_c(out, "&|!"[term->test - TEST_AND]);
            left[depth++] = term->n_children;
        } else {
            append_leaf(out, filter, term);
            g_string_append_c(out, ')');
        }
        while (depth > 0 && left[depth - 1] == 0) {
            g_string_append_c(out, ')');
            depth--;
        }
        if (depth > 0)
            left[depth - 1]--;
    }
    return g_string_free(out, FALSE);
}

char *
ldap_filter_key(LdapSpan span)
{
    g_autoptr(LdapFilter) filter = NULL;
    return ldap_filter_parse(span, &filter) == LDAP_PARSE_DONE ? ldap_filter_text(filter) : NULL;
}
