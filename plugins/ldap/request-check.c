/* request-check.c - is a request sound enough to be passed on over a shared connection?
 *
 * A filter nests. It is walked with a small stack of the ends of what encloses the present element, so
 * its depth costs no stack of ours and is bounded.
 */
#include "plugins/ldap/request-check.h"

#include <string.h>

enum {
    TAG_SIMPLE_NAME = 0x80, /* [0] of an extended request */
    TAG_SIMPLE_VALUE = 0x81,
    TAG_NEW_SUPERIOR = 0x80,
    MODIFY_INCREMENT = 3, /* RFC 4525 */
    SCOPE_MAX = 3,        /* subordinates, a draft that directories know */
    DEREF_MAX = 3,
};

typedef enum FilterTag {
    FILTER_AND = 0xa0,
    FILTER_OR = 0xa1,
    FILTER_NOT = 0xa2,
    FILTER_EQUAL = 0xa3,
    FILTER_SUBSTRINGS = 0xa4,
    FILTER_GREATER = 0xa5,
    FILTER_LESS = 0xa6,
    FILTER_PRESENT = 0x87,
    FILTER_APPROX = 0xa8,
    FILTER_EXTENSIBLE = 0xa9,
} FilterTag;

/* -- small pieces ------------------------------------------------------------------------------ */

static bool
take_octets(LdapSpan *at, LdapSpan *out)
{
    return ldap_element_take(at, LDAP_TAG_OCTETS, out);
}

static bool
take_int(LdapSpan *at, uint8_t tag, int32_t *number_out)
{
    LdapSpan contents;
    return ldap_element_take(at, tag, &contents) && ldap_span_int(contents, number_out);
}

static bool
take_bool(LdapSpan *at, uint8_t tag, bool *value_out)
{
    LdapSpan contents;
    return ldap_element_take(at, tag, &contents) && ldap_span_bool(contents, value_out);
}

/* Nothing but octet strings. */
static bool
are_octets(LdapSpan list, size_t *n_out)
{
    LdapSpan item;
    for (*n_out = 0; list.length > 0; (*n_out)++)
        if (!take_octets(&list, &item))
            return false;
    return true;
}

/* PartialAttribute ::= SEQUENCE { type, vals SET OF value } */
static bool
is_attribute(LdapSpan attribute)
{
    LdapSpan type;
    LdapSpan values;
    size_t n;
    return take_octets(&attribute, &type) && type.length > 0 &&
           ldap_element_take(&attribute, LDAP_TAG_SET, &values) && are_octets(values, &n) &&
           attribute.length == 0;
}

/* AttributeValueAssertion, its contents */
static bool
is_assertion(LdapSpan assertion)
{
    LdapSpan part;
    return take_octets(&assertion, &part) && part.length > 0 && take_octets(&assertion, &part) &&
           assertion.length == 0;
}

/* -- filters ----------------------------------------------------------------------------------- */

/* SubstringFilter: type, then at least one of initial [0], any [1], final [2], in their order. */
static bool
is_substrings(LdapSpan contents)
{
    LdapSpan type;
    LdapSpan parts;
    if (!take_octets(&contents, &type) || type.length == 0 ||
        !ldap_element_take(&contents, LDAP_TAG_SEQUENCE, &parts) || contents.length > 0 ||
        parts.length == 0)
        return false;
    uint8_t last = 0;
    while (parts.length > 0) {
        uint8_t tag;
        LdapSpan part;
        if (!ldap_element_next(&parts, &tag, &part) || tag < 0x80 || tag > 0x82 ||
            part.length == 0 || tag < last || (tag == last && tag != 0x81))
            return false;
        last = tag;
    }
    return true;
}

/* MatchingRuleAssertion: rule [1], type [2], value [3], dnAttributes [4]; rule or type must be. */
static bool
is_extensible(LdapSpan contents)
{
    uint8_t last = 0;
    unsigned seen = 0;
    while (contents.length > 0) {
        uint8_t tag;
        LdapSpan part;
        bool value;
        if (!ldap_element_next(&contents, &tag, &part) || tag < 0x81 || tag > 0x84 || tag <= last ||
            (tag == 0x84 && !ldap_span_bool(part, &value)) || (tag < 0x83 && part.length == 0))
            return false;
        last = tag;
        seen |= 1U << (tag - 0x80);
    }
    return (seen & 1U << 3) != 0 && (seen & (1U << 1 | 1U << 2)) != 0;
}

static bool
is_term(uint8_t tag, LdapSpan contents)
{
    switch (tag) {
    case FILTER_EQUAL:
    case FILTER_GREATER:
    case FILTER_LESS:
    case FILTER_APPROX:
        return is_assertion(contents);
    case FILTER_SUBSTRINGS:
        return is_substrings(contents);
    case FILTER_PRESENT:
        return contents.length > 0;
    case FILTER_EXTENSIBLE:
        return is_extensible(contents);
    default:
        return false;
    }
}

bool
ldap_request_check_filter(LdapSpan filter)
{
    struct {
        LdapSpan rest; /* what is left of its contents */
        bool is_not;
        bool is_full; /* a "not" has its one filter */
    } above[LDAP_FILTER_DEPTH_MAX];
    size_t depth = 0;
    size_t terms = 0;
    LdapSpan at = filter;
    for (;;) {
        while (depth > 0 && at.length == 0) {
            if (above[depth - 1].is_not && !above[depth - 1].is_full)
                return false;
            at = above[--depth].rest;
        }
        if (depth == 0 && terms > 0)
            return at.length == 0;
        if (depth > 0 && above[depth - 1].is_not && above[depth - 1].is_full)
            return false;
        uint8_t tag;
        LdapSpan contents;
        if (++terms > LDAP_FILTER_TERMS_MAX || !ldap_element_next(&at, &tag, &contents))
            return false;
        if (depth > 0)
            above[depth - 1].is_full = true;
        if (tag == FILTER_AND || tag == FILTER_OR || tag == FILTER_NOT) {
            if (depth == LDAP_FILTER_DEPTH_MAX)
                return false;
            above[depth].rest = at;
            above[depth].is_not = tag == FILTER_NOT;
            above[depth++].is_full = false;
            at = contents;
        } else if (!is_term(tag, contents)) {
            return false;
        }
    }
}

/* -- operations -------------------------------------------------------------------------------- */

static bool
check_search(LdapSpan op, LdapSearchParts *parts)
{
    size_t n;
    if (!take_octets(&op, &parts->base) || !take_int(&op, LDAP_TAG_ENUMERATED, &parts->scope) ||
        !take_int(&op, LDAP_TAG_ENUMERATED, &parts->deref) ||
        !take_int(&op, LDAP_TAG_INTEGER, &parts->size_limit) ||
        !take_int(&op, LDAP_TAG_INTEGER, &parts->time_limit) ||
        !take_bool(&op, LDAP_TAG_BOOLEAN, &parts->types_only))
        return false;
    uint8_t tag;
    LdapSpan contents;
    parts->filter = op;
    if (!ldap_element_next(&op, &tag, &contents))
        return false;
    parts->filter.length -= op.length;
    return ldap_element_take(&op, LDAP_TAG_SEQUENCE, &parts->attributes) && op.length == 0 &&
           are_octets(parts->attributes, &n) && parts->scope >= 0 && parts->scope <= SCOPE_MAX &&
           parts->deref >= 0 && parts->deref <= DEREF_MAX && parts->size_limit >= 0 &&
           parts->time_limit >= 0 && ldap_request_check_filter(parts->filter);
}

static bool
check_compare(LdapSpan op)
{
    LdapSpan name;
    LdapSpan assertion;
    return take_octets(&op, &name) && ldap_element_take(&op, LDAP_TAG_SEQUENCE, &assertion) &&
           op.length == 0 && is_assertion(assertion);
}

static bool
check_add(LdapSpan op)
{
    LdapSpan name;
    LdapSpan attributes;
    LdapSpan attribute;
    if (!take_octets(&op, &name) || !ldap_element_take(&op, LDAP_TAG_SEQUENCE, &attributes) ||
        op.length > 0)
        return false;
    while (attributes.length > 0)
        if (!ldap_element_take(&attributes, LDAP_TAG_SEQUENCE, &attribute) ||
            !is_attribute(attribute))
            return false;
    return true;
}

static bool
check_modify(LdapSpan op)
{
    LdapSpan name;
    LdapSpan changes;
    if (!take_octets(&op, &name) || !ldap_element_take(&op, LDAP_TAG_SEQUENCE, &changes) ||
        op.length > 0)
        return false;
    while (changes.length > 0) {
        LdapSpan change;
        LdapSpan attribute;
        int32_t what;
        if (!ldap_element_take(&changes, LDAP_TAG_SEQUENCE, &change) ||
            !take_int(&change, LDAP_TAG_ENUMERATED, &what) || what < 0 || what > MODIFY_INCREMENT ||
            !ldap_element_take(&change, LDAP_TAG_SEQUENCE, &attribute) || change.length > 0 ||
            !is_attribute(attribute))
            return false;
    }
    return true;
}

static bool
check_rename(LdapSpan op)
{
    LdapSpan part;
    bool delete_old;
    return take_octets(&op, &part) && take_octets(&op, &part) &&
           take_bool(&op, LDAP_TAG_BOOLEAN, &delete_old) &&
           (op.length == 0 || ldap_element_take(&op, TAG_NEW_SUPERIOR, &part)) && op.length == 0;
}

static bool
check_extended(LdapSpan op)
{
    LdapSpan part;
    return ldap_element_take(&op, TAG_SIMPLE_NAME, &part) && part.length > 0 &&
           (op.length == 0 || ldap_element_take(&op, TAG_SIMPLE_VALUE, &part)) && op.length == 0;
}

static bool
check_controls(LdapSpan controls)
{
    while (controls.length > 0) {
        LdapSpan control;
        LdapSpan part;
        bool is_critical;
        if (!ldap_element_take(&controls, LDAP_TAG_SEQUENCE, &control) ||
            !take_octets(&control, &part) || part.length == 0)
            return false;
        if (control.length > 0 && control.bytes[0] == LDAP_TAG_BOOLEAN &&
            !take_bool(&control, LDAP_TAG_BOOLEAN, &is_critical))
            return false;
        if (control.length > 0 && !take_octets(&control, &part))
            return false;
        if (control.length > 0)
            return false;
    }
    return true;
}

/* -- values of controls ------------------------------------------------------------------------ */

static bool
is_list_of_octets(LdapSpan value)
{
    LdapSpan list;
    size_t n;
    return ldap_element_take(&value, LDAP_TAG_SEQUENCE, &list) && value.length == 0 &&
           are_octets(list, &n);
}

/* ValuesReturnFilter (RFC 3876): filters that do not nest. */
static bool
is_list_of_terms(LdapSpan value)
{
    LdapSpan list;
    uint8_t tag;
    LdapSpan contents;
    size_t n = 0;
    if (!ldap_element_take(&value, LDAP_TAG_SEQUENCE, &list) || value.length > 0)
        return false;
    while (list.length > 0)
        if (++n > LDAP_FILTER_TERMS_MAX || !ldap_element_next(&list, &tag, &contents) ||
            !is_term(tag, contents))
            return false;
    return n > 0;
}

static bool
is_bool(LdapSpan value)
{
    bool is_set;
    return take_bool(&value, LDAP_TAG_BOOLEAN, &is_set) && value.length == 0;
}

/* One list of numbers, truths and texts, none of which has parts. */
static bool
is_plain_list(LdapSpan value)
{
    LdapSpan list;
    uint8_t tag;
    LdapSpan contents;
    if (!ldap_element_take(&value, LDAP_TAG_SEQUENCE, &list) || value.length > 0)
        return false;
    while (list.length > 0)
        if (!ldap_element_next(&list, &tag, &contents) ||
            (tag != LDAP_TAG_INTEGER && tag != LDAP_TAG_BOOLEAN && tag != LDAP_TAG_OCTETS &&
                tag != LDAP_TAG_ENUMERATED))
            return false;
    return true;
}

/* DerefSpec (a draft): lists of a name with a list of attributes. */
static bool
is_dereference(LdapSpan value)
{
    LdapSpan list;
    LdapSpan spec;
    LdapSpan part;
    size_t n;
    if (!ldap_element_take(&value, LDAP_TAG_SEQUENCE, &list) || value.length > 0)
        return false;
    while (list.length > 0)
        if (!ldap_element_take(&list, LDAP_TAG_SEQUENCE, &spec) || !take_octets(&spec, &part) ||
            part.length == 0 || !ldap_element_take(&spec, LDAP_TAG_SEQUENCE, &part) ||
            spec.length > 0 || !are_octets(part, &n))
            return false;
    return true;
}

bool
ldap_request_check_value(LdapSpan value, LdapValueForm form)
{
    bool is_there = value.bytes != NULL;
    switch (form) {
    case LDAP_VALUE_NONE:
        return !is_there || value.length == 0;
    case LDAP_VALUE_BOOL:
        return is_there && is_bool(value);
    case LDAP_VALUE_FILTER:
        return is_there && ldap_request_check_filter(value);
    case LDAP_VALUE_TERMS:
        return is_there && is_list_of_terms(value);
    case LDAP_VALUE_NAMES:
        return is_there && is_list_of_octets(value);
    case LDAP_VALUE_PLAIN:
        return !is_there || is_plain_list(value);
    case LDAP_VALUE_DEREFERENCE:
        return is_there && is_dereference(value);
    case LDAP_VALUE_ANY:
        return true;
    }
    return false;
}

static bool
check_op(const LdapPdu *pdu, LdapSearchParts *search)
{
    switch (pdu->tag) {
    case LDAP_REQ_SEARCH:
        return check_search(pdu->op, search);
    case LDAP_REQ_COMPARE:
        return check_compare(pdu->op);
    case LDAP_REQ_ADD:
        return check_add(pdu->op);
    case LDAP_REQ_MODIFY:
        return check_modify(pdu->op);
    case LDAP_REQ_DELETE:
        return true; /* its contents are a name */
    case LDAP_REQ_RENAME:
        return check_rename(pdu->op);
    case LDAP_REQ_EXTENDED:
        return check_extended(pdu->op);
    default:
        return false; /* nothing else is passed on */
    }
}

bool
ldap_request_check(const LdapPdu *pdu, LdapSearchParts *search_out)
{
    LdapSearchParts unused;
    return check_op(pdu, search_out != NULL ? search_out : &unused) &&
           check_controls(pdu->controls);
}

bool
ldap_request_extended_name(const LdapPdu *pdu, LdapSpan *name_out)
{
    LdapSpan op = pdu->op;
    return ldap_element_take(&op, TAG_SIMPLE_NAME, name_out) && name_out->length > 0;
}
