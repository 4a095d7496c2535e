/* select.c - conditions, ranges, encodings, types */
#include "select.h"

#include <string.h>

/* -- dates ------------------------------------------------------------------------------------- */

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* Days since 1970 of a date in the Gregorian calendar, for the years 1 to 9999. */
static int64_t
days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = year - (month <= 2);
    int64_t era = y / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void
two_digits(char *at, int64_t n)
{
    at[0] = (char)('0' + n / 10 % 10);
    at[1] = (char)('0' + n % 10);
}

void
http_format_date(int64_t seconds, char *out)
{
    seconds = CLAMP(seconds, 0, INT64_C(253402300799)); /* the year 9999 */
    int64_t day = seconds / 86400;
    int64_t of_day = seconds % 86400;
    int64_t z = day + 719468;
    int64_t era = z / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * of_year + 2) / 153;
    int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    memcpy(out, "Sun, 00 Jan 0000 00:00:00 GMT", HTTP_DATE_BYTES);
    memcpy(out, days + (day + 4) % 7 * 3, 3);
    two_digits(out + 5, of_year - (153 * shifted + 2) / 5 + 1);
    memcpy(out + 8, months + (month - 1) * 3, 3);
    two_digits(out + 12, year / 100);
    two_digits(out + 14, year % 100);
    two_digits(out + 17, of_day / 3600);
    two_digits(out + 20, of_day / 60 % 60);
    two_digits(out + 23, of_day % 60);
}

/* Takes a number of exactly so many digits. */
static bool
take_number(const char **at, int digits, int64_t *out)
{
    int64_t n = 0;
    for (int i = 0; i < digits; i++) {
        if (!g_ascii_isdigit((*at)[i]))
            return false;
        n = n * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    *out = n;
    return true;
}

static bool
take_text(const char **at, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool
take_month(const char **at, int64_t *month_out)
{
    for (int i = 0; i < 12; i++)
        if (strncmp(*at, months + (ptrdiff_t)i * 3, 3) == 0) {
            *at += 3;
            *month_out = i + 1;
            return true;
        }
    return false;
}

typedef struct Date {
    int64_t year, month, day, hour, minute, second;
} Date;

static bool
take_time(const char **at, Date *date)
{
    return take_number(at, 2, &date->hour) && take_text(at, ":") &&
           take_number(at, 2, &date->minute) && take_text(at, ":") &&
           take_number(at, 2, &date->second);
}

/* Behind "Sun, ": "06 Nov 1994 08:49:37 GMT". */
static bool
take_imf(const char *at, Date *date)
{
    return take_number(&at, 2, &date->day) && take_text(&at, " ") &&
           take_month(&at, &date->month) && take_text(&at, " ") &&
           take_number(&at, 4, &date->year) && take_text(&at, " ") && take_time(&at, date) &&
           take_text(&at, " GMT") && *at == '\0';
}

/* Behind "Sunday, ": "06-Nov-94 08:49:37 GMT"; a year more than 50 ahead is of the century before. */
static bool
take_rfc850(const char *at, Date *date)
{
    bool good = take_number(&at, 2, &date->day) && take_text(&at, "-") &&
                take_month(&at, &date->month) && take_text(&at, "-") &&
                take_number(&at, 2, &date->year) && take_text(&at, " ") && take_time(&at, date) &&
                take_text(&at, " GMT") && *at == '\0';
    int64_t now_year = 1970 + ph_time_now_us() / G_USEC_PER_SEC / 31556952;
    date->year += now_year / 100 * 100;
    if (date->year > now_year + 50)
        date->year -= 100;
    return good;
}

/* Behind "Sun ": "Nov  6 08:49:37 1994". */
static bool
take_asctime(const char *at, Date *date)
{
    if (!take_month(&at, &date->month) || !take_text(&at, " "))
        return false;
    bool one_digit = take_text(&at, " ");
    return take_number(&at, one_digit ? 1 : 2, &date->day) && take_text(&at, " ") &&
           take_time(&at, date) && take_text(&at, " ") && take_number(&at, 4, &date->year) &&
           *at == '\0';
}

bool
http_parse_date(const char *text, int64_t *seconds_out)
{
    Date date = { 0 };
    const char *comma = strchr(text, ',');
    bool good;
    if (comma == NULL)
        good = strlen(text) > 4 && text[3] == ' ' && take_asctime(text + 4, &date);
    else if (comma[1] != ' ')
        good = false;
    else if (comma - text == 3)
        good = take_imf(comma + 2, &date);
    else
        good = take_rfc850(comma + 2, &date);
    if (!good || date.month < 1 || date.day < 1 || date.day > 31 || date.hour > 23 ||
        date.minute > 59 || date.second > 60 || date.year < 1)
        return false;
    *seconds_out = days_of(date.year, date.month, date.day) * 86400 + date.hour * 3600 +
                   date.minute * 60 + date.second;
    return true;
}

/* -- conditions -------------------------------------------------------------------------------- */

/* Is `etag` (strong) in the list, compared weakly or strongly? "*" fits all. A malformed list fits
 * nothing behind the point where it is malformed. */
static bool
list_has_etag(const char *list, const char *etag, bool weakly)
{
    if (strcmp(list, "*") == 0)
        return true;
    size_t wanted = strlen(etag);
    const char *at = list;
    for (;;) {
        at += strspn(at, " \t,");
        bool weak = strncmp(at, "W/", 2) == 0;
        if (weak)
            at += 2;
        if (*at != '"')
            return false;
        const char *end = strchr(at + 1, '"');
        if (end == NULL)
            return false;
        size_t length = (size_t)(end - at) + 1;
        if ((weakly || !weak) && length == wanted && memcmp(at, etag, length) == 0)
            return true;
        at = end + 1;
    }
}

static bool
any_has_etag(const HttpHead *head, HttpField field, const char *name, const char *etag, bool weakly)
{
    for (size_t i = head->known[field]; i < head->n_fields; i++)
        if (strcmp(head->fields[i].name, name) == 0 &&
            list_has_etag(head->fields[i].value, etag, weakly))
            return true;
    return false;
}

static bool
is_there(const HttpHead *head, HttpField field)
{
    return head->known[field] != HTTP_FIELD_NOT_THERE;
}

HttpCondition
http_check_conditions(const HttpHead *head, const char *etag, int64_t modified_s)
{
    int64_t seconds;
    const char *since = http_head_field(head, HTTP_FIELD_IF_UNMODIFIED_SINCE);
    if (is_there(head, HTTP_FIELD_IF_MATCH)) {
        if (!any_has_etag(head, HTTP_FIELD_IF_MATCH, "if-match", etag, false))
            return HTTP_CONDITION_FAILED;
    } else if (since != NULL && http_parse_date(since, &seconds) && modified_s > seconds) {
        return HTTP_CONDITION_FAILED;
    }
    bool is_read = head->method == HTTP_METHOD_GET || head->method == HTTP_METHOD_HEAD;
    since = http_head_field(head, HTTP_FIELD_IF_MODIFIED_SINCE);
    if (is_there(head, HTTP_FIELD_IF_NONE_MATCH)) {
        if (any_has_etag(head, HTTP_FIELD_IF_NONE_MATCH, "if-none-match", etag, true))
            return is_read ? HTTP_CONDITION_NOT_MODIFIED : HTTP_CONDITION_FAILED;
    } else if (is_read && since != NULL && http_parse_date(since, &seconds) &&
               modified_s <= seconds) {
        return HTTP_CONDITION_NOT_MODIFIED;
    }
    return HTTP_CONDITION_PROCEED;
}

bool
http_check_if_range(const HttpHead *head, const char *etag, int64_t modified_s)
{
    const char *text = http_head_field(head, HTTP_FIELD_IF_RANGE);
    if (text == NULL)
        return true;
    if (text[0] == '"')
        return strcmp(text, etag) == 0;
    int64_t seconds;
    return http_parse_date(text, &seconds) && seconds == modified_s;
}

/* -- ranges ------------------------------------------------------------------------------------ */

/* Digits; a number too large for any file is INT64_MAX. False: none. */
static bool
take_position(const char **at, int64_t *out)
{
    if (!g_ascii_isdigit(**at))
        return false;
    int64_t n = 0;
    for (; g_ascii_isdigit(**at); (*at)++)
        n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + (**at - '0');
    *out = n;
    return true;
}

/* One of the list. False: malformed. `good_out`: it lies in the file. */
static bool
take_range(const char **at, int64_t size, HttpRange *range, bool *good_out)
{
    if (**at == '-') {
        int64_t n;
        (*at)++;
        if (!take_position(at, &n))
            return false;
        *range = (HttpRange){ MAX(size - n, 0), size - 1 };
        *good_out = n > 0 && size > 0;
        return true;
    }
    if (!take_position(at, &range->first) || **at != '-')
        return false;
    (*at)++;
    range->last = INT64_MAX;
    if (g_ascii_isdigit(**at)) {
        if (!take_position(at, &range->last) || range->last < range->first)
            return false;
    }
    *good_out = range->first < size;
    range->last = MIN(range->last, size - 1);
    return true;
}

static bool
overlaps(const HttpRange *ranges, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (ranges[i].first <= ranges[n - 1].last && ranges[n - 1].first <= ranges[i].last)
            return true;
    return false;
}

HttpRangeResult
http_parse_ranges(const char *text, int64_t size, HttpRange *ranges_out, size_t *n_ranges_out)
{
    if (text == NULL || g_ascii_strncasecmp(text, "bytes=", 6) != 0)
        return HTTP_RANGE_NONE;
    const char *at = text + 6;
    size_t n = 0;
    size_t asked = 0;
    bool overlapping = false;
    for (;;) {
        at += strspn(at, " \t,");
        if (*at == '\0')
            break;
        HttpRange range;
        bool good;
        if (++asked > HTTP_RANGES_MAX || !take_range(&at, size, &range, &good))
            return HTTP_RANGE_NONE;
        if (good) {
            ranges_out[n++] = range;
            overlapping = overlapping || overlaps(ranges_out, n);
        }
        at += strspn(at, " \t");
        if (*at != ',' && *at != '\0')
            return HTTP_RANGE_NONE;
    }
    if (asked == 0 || overlapping)
        return HTTP_RANGE_NONE;
    *n_ranges_out = n;
    return n > 0 ? HTTP_RANGE_SOME : HTTP_RANGE_OUTSIDE;
}

/* -- encodings --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *suffix;
} encoding_rows[] = {
    [HTTP_ENCODING_IDENTITY] = { "identity", "" },
    [HTTP_ENCODING_GZIP] = { "gzip", ".gz" },
    [HTTP_ENCODING_BR] = { "br", ".br" },
};

const char *
http_encoding_name(HttpEncoding encoding)
{
    return encoding_rows[encoding].name;
}

const char *
http_encoding_suffix(HttpEncoding encoding)
{
    return encoding_rows[encoding].suffix;
}

/* "0.5" to 500, "1" to 1000; a malformed weight is 0. */
static int
parse_weight(const char *text, size_t length)
{
    if (length == 0 || length > 5 || (text[0] != '0' && text[0] != '1') ||
        (length > 1 && text[1] != '.'))
        return 0;
    int weight = (text[0] - '0') * 1000;
    int unit = 100;
    for (size_t i = 2; i < length; i++, unit /= 10) {
        if (!g_ascii_isdigit(text[i]))
            return 0;
        weight += (text[i] - '0') * unit;
    }
    return weight <= 1000 ? weight : 0;
}

/* The weights of one Accept-Encoding, -1 where nothing is said; [HTTP_N_ENCODINGS] is that of "*". */
static void
read_weights(const char *at, int *weights)
{
    while (*at != '\0') {
        at += strspn(at, " \t,");
        size_t name = strcspn(at, " \t,;");
        if (name == 0)
            return;
        int weight = 1000;
        const char *parameter = at + name + strspn(at + name, " \t");
        if (*parameter == ';') {
            parameter++;
            parameter += strspn(parameter, " \t");
            if ((parameter[0] == 'q' || parameter[0] == 'Q') && parameter[1] == '=')
                weight = parse_weight(parameter + 2, strcspn(parameter + 2, " \t,;"));
        }
        if (name == 1 && *at == '*')
            weights[HTTP_N_ENCODINGS] = weight;
        for (int i = 0; i < HTTP_N_ENCODINGS; i++)
            if (strlen(encoding_rows[i].name) == name &&
                g_ascii_strncasecmp(encoding_rows[i].name, at, name) == 0)
                weights[i] = weight;
        at += strcspn(at, ",");
    }
}

HttpEncoding
http_select_encoding(const HttpHead *head, unsigned offered)
{
    if (offered <= 1U << HTTP_ENCODING_IDENTITY || !is_there(head, HTTP_FIELD_ACCEPT_ENCODING))
        return HTTP_ENCODING_IDENTITY;
    int weights[HTTP_N_ENCODINGS + 1] = { -1, -1, -1, -1 };
    for (size_t i = head->known[HTTP_FIELD_ACCEPT_ENCODING]; i < head->n_fields; i++)
        if (strcmp(head->fields[i].name, "accept-encoding") == 0)
            read_weights(head->fields[i].value, weights);
    HttpEncoding best = HTTP_ENCODING_IDENTITY;
    int best_weight = -1;
    for (int i = HTTP_N_ENCODINGS - 1; i >= 0; i--) {
        if ((offered & 1U << i) == 0 && i != HTTP_ENCODING_IDENTITY)
            continue;
        int weight = weights[i] >= 0 ? weights[i] : weights[HTTP_N_ENCODINGS];
        if (weight < 0) /* nothing said: identity will do, others will not */
            weight = i == HTTP_ENCODING_IDENTITY ? 1 : 0;
        if (weight > best_weight && (weight > 0 || i == HTTP_ENCODING_IDENTITY)) {
            best = (HttpEncoding)i;
            best_weight = weight;
        }
    }
    return best;
}

/* -- types ------------------------------------------------------------------------------------- */

static const struct {
    const char *suffix;
    const char *type;
    bool compressible;
} type_rows[] = {
    { "7z", "application/x-7z-compressed", false },
    { "aac", "audio/aac", false },
    { "atom", "application/atom+xml", true },
    { "avif", "image/avif", false },
    { "bmp", "image/bmp", true },
    { "bz2", "application/x-bzip2", false },
    { "css", "text/css; charset=utf-8", true },
    { "csv", "text/csv; charset=utf-8", true },
    { "doc", "application/msword", false },
    { "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", false },
    { "epub", "application/epub+zip", false },
    { "flac", "audio/flac", false },
    { "gif", "image/gif", false },
    { "gz", "application/gzip", false },
    { "htm", "text/html; charset=utf-8", true },
    { "html", "text/html; charset=utf-8", true },
    { "ico", "image/vnd.microsoft.icon", true },
    { "ics", "text/calendar; charset=utf-8", true },
    { "jpeg", "image/jpeg", false },
    { "jpg", "image/jpeg", false },
    { "js", "text/javascript; charset=utf-8", true },
    { "json", "application/json", true },
    { "jsonld", "application/ld+json", true },
    { "jxl", "image/jxl", false },
    { "m4a", "audio/mp4", false },
    { "map", "application/json", true },
    { "md", "text/markdown; charset=utf-8", true },
    { "mjs", "text/javascript; charset=utf-8", true },
    { "mov", "video/quicktime", false },
    { "mp3", "audio/mpeg", false },
    { "mp4", "video/mp4", false },
    { "mpeg", "video/mpeg", false },
    { "odp", "application/vnd.oasis.opendocument.presentation", false },
    { "ods", "application/vnd.oasis.opendocument.spreadsheet", false },
    { "odt", "application/vnd.oasis.opendocument.text", false },
    { "oga", "audio/ogg", false },
    { "ogg", "audio/ogg", false },
    { "ogv", "video/ogg", false },
    { "opus", "audio/ogg", false },
    { "otf", "font/otf", true },
    { "pdf", "application/pdf", false },
    { "png", "image/png", false },
    { "ppt", "application/vnd.ms-powerpoint", false },
    { "pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation", false },
    { "rss", "application/rss+xml", true },
    { "rtf", "application/rtf", true },
    { "svg", "image/svg+xml", true },
    { "tar", "application/x-tar", false },
    { "tif", "image/tiff", false },
    { "tiff", "image/tiff", false },
    { "ttf", "font/ttf", true },
    { "txt", "text/plain; charset=utf-8", true },
    { "vcf", "text/vcard; charset=utf-8", true },
    { "wasm", "application/wasm", true },
    { "wav", "audio/wav", false },
    { "weba", "audio/webm", false },
    { "webm", "video/webm", false },
    { "webmanifest", "application/manifest+json", true },
    { "webp", "image/webp", false },
    { "woff", "font/woff", false },
    { "woff2", "font/woff2", false },
    { "xhtml", "application/xhtml+xml", true },
    { "xls", "application/vnd.ms-excel", false },
    { "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false },
    { "xml", "application/xml", true },
    { "xz", "application/x-xz", false },
    { "zip", "application/zip", false },
    { "zst", "application/zstd", false },
};

const char *
http_content_type(const char *path)
{
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name != NULL ? name : path, '.');
    if (dot != NULL)
        for (size_t i = 0; i < G_N_ELEMENTS(type_rows); i++)
            if (g_ascii_strcasecmp(type_rows[i].suffix, dot + 1) == 0)
                return type_rows[i].type;
    return "application/octet-stream";
}

bool
http_is_compressible(const char *content_type)
{
    for (size_t i = 0; i < G_N_ELEMENTS(type_rows); i++)
        if (type_rows[i].type == content_type)
            return type_rows[i].compressible;
    return false;
}
