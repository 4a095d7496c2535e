/* date.c - dates of RFC 5322, read and written
 *
 * What is hard here: the obsolete forms are all still sent. The scanner takes words and numbers
 * apart and looks at what each can be, rather than following one grammar.
 */
#include <posthouse/message-build.h>
#include <posthouse/message-header.h>
#include <posthouse/message-imap.h>

#include "ascii.h"

#define US_PER_SECOND INT64_C(1000000)
#define DATE_MAX_BYTES 256

static const char month_names[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
    "Sep", "Oct", "Nov", "Dec" };
static const char day_names[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };

static const struct {
    const char *name;
    int minutes;
} zone_names[] = {
    { "UT", 0 },
    { "GMT", 0 },
    { "UTC", 0 },
    { "Z", 0 },
    { "EST", -300 },
    { "EDT", -240 },
    { "CST", -360 },
    { "CDT", -300 },
    { "MST", -420 },
    { "MDT", -360 },
    { "PST", -480 },
    { "PDT", -420 },
    { "BST", 60 },
    { "CET", 60 },
    { "MET", 60 },
    { "CEST", 120 },
    { "MEST", 120 },
    { "EET", 120 },
    { "EEST", 180 },
    { "MSK", 180 },
    { "JST", 540 },
};

typedef struct Scan {
    const char *at;
    const char *end;
} Scan;

typedef struct Fields {
    int64_t year;
    int month; /* 0: not seen */
    int day;   /* 0: not seen */
    int hour;
    int minute;
    int second;
    int zone;
    bool has_year;
    bool has_time;
} Fields;

static void
skip_space(Scan *scan)
{
    unsigned depth = 0;
    while (scan->at < scan->end) {
        char c = *scan->at;
        if (c == '(')
            depth++;
        else if (c == ')' && depth > 0)
            depth--;
        else if (c == '\\' && depth > 0 && scan->at + 1 < scan->end)
            scan->at++;
        else if (depth == 0 && !ascii_is_fws(c) && c != ',')
            return;
        scan->at++;
    }
}

/* Up to nine digits; the number of digits, 0 when there is none. */
static unsigned
take_number(Scan *scan, int *value_out)
{
    unsigned digits = 0;
    int value = 0;
    while (scan->at < scan->end && ascii_is_digit(*scan->at) && digits < 9) {
        value = value * 10 + (*scan->at++ - '0');
        digits++;
    }
    *value_out = value;
    return digits;
}

/* Days since 1970 of a day in the Gregorian calendar. Years are counted from March, so that the day
 * that comes and goes is the last. */
static int64_t
days_from_date(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int
days_in_month(int64_t year, int month)
{
    static const int days[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

static int
month_of(const char *word, size_t length)
{
    for (int i = 0; i < 12; i++) {
        if (length >= 3 && g_ascii_strncasecmp(word, month_names[i], 3) == 0)
            return i + 1;
    }
    return 0;
}

static bool
zone_of(const char *word, size_t length, int *zone_out)
{
    for (size_t i = 0; i < G_N_ELEMENTS(zone_names); i++) {
        if (ascii_equal(word, length, zone_names[i].name)) {
            *zone_out = zone_names[i].minutes;
            return true;
        }
    }
    return false;
}

/* Whether `c` comes next, white space and comments passed over. */
static bool
next_is(const Scan *scan, char c)
{
    Scan ahead = *scan;
    skip_space(&ahead);
    return ahead.at < ahead.end && *ahead.at == c;
}

/* "12:34", "12:34:56", also with dots, with the hour already taken. */
static bool
take_time(Scan *scan, int hour, Fields *fields)
{
    skip_space(scan);
    char separator = *scan->at++;
    int minute = 0;
    int second = 0;
    skip_space(scan);
    if (take_number(scan, &minute) == 0)
        return false;
    if (next_is(scan, separator)) {
        skip_space(scan);
        scan->at++;
        skip_space(scan);
        if (take_number(scan, &second) == 0)
            return false;
        if (scan->at < scan->end && *scan->at == '.') { /* fractions, sent by some */
            int fraction = 0;
            scan->at++;
            take_number(scan, &fraction);
        }
    }
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    fields->hour = hour;
    fields->minute = minute;
    fields->second = MIN(second, 59);
    fields->has_time = true;
    return true;
}

static void
set_year(Fields *fields, int value, unsigned digits)
{
    fields->year = value;
    if (digits <= 2) /* RFC 5322 4.3 */
        fields->year += value < 50 ? 2000 : 1900;
    else if (digits == 3)
        fields->year += 1900;
    fields->has_year = true;
}

static bool
take_numeric_zone(Scan *scan, Fields *fields)
{
    int sign = *scan->at++ == '-' ? -1 : 1;
    int value = 0;
    unsigned digits = take_number(scan, &value);
    if (digits == 2 && scan->at < scan->end && *scan->at == ':') {
        int minutes = 0;
        scan->at++;
        take_number(scan, &minutes);
        value = value * 100 + minutes;
        digits = 4;
    }
    if (digits == 1 || digits == 2)
        value *= 100;
    else if (digits != 3 && digits != 4)
        return false;
    if (value % 100 < 60 && value / 100 <= 24)
        fields->zone = sign * (value / 100 * 60 + value % 100);
    return true;
}

static bool
take_item(Scan *scan, Fields *fields)
{
    char c = *scan->at;
    if (ascii_is_digit(c)) {
        int value = 0;
        unsigned digits = take_number(scan, &value);
        bool colon = next_is(scan, ':');
        bool dot = scan->at < scan->end && *scan->at == '.';
        if (!fields->has_time && (colon || (dot && fields->day > 0 && fields->has_year)))
            return take_time(scan, value, fields);
        if (fields->day == 0 && digits <= 2)
            fields->day = value;
        else if (!fields->has_year)
            set_year(fields, value, digits);
        return true;
    }
    if ((c == '+' || c == '-') && fields->has_time)
        return take_numeric_zone(scan, fields);
    if (g_ascii_isalpha(c)) {
        const char *word = scan->at;
        while (scan->at < scan->end && g_ascii_isalpha(*scan->at))
            scan->at++;
        size_t length = (size_t)(scan->at - word);
        if (fields->month == 0 && (fields->month = month_of(word, length)) != 0)
            return true;
        if (fields->has_time)
            zone_of(word, length, &fields->zone);
        return true;
    }
    scan->at++;
    return true;
}

bool
ph_date_parse(const char *text, size_t length, int64_t *time_us_out, int *zone_minutes_out)
{
    Scan scan = { .at = text, .end = text + MIN(length, (size_t)DATE_MAX_BYTES) };
    Fields fields = { .year = 0 };
    while (true) {
        skip_space(&scan);
        if (scan.at >= scan.end)
            break;
        if (!take_item(&scan, &fields))
            return false;
    }
    if (!fields.has_year || fields.month == 0 || fields.year < 1 || fields.year > 9999 ||
        fields.day < 1 || fields.day > days_in_month(fields.year, fields.month))
        return false;
    int64_t minutes = days_from_date(fields.year, fields.month, fields.day) * 1440 +
                      fields.hour * 60 + fields.minute - fields.zone;
    *time_us_out = (minutes * 60 + fields.second) * US_PER_SECOND;
    if (zone_minutes_out != NULL)
        *zone_minutes_out = fields.zone;
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

typedef struct Calendar {
    int year;
    int month; /* 1 to 12 */
    int day;
    int weekday; /* 0: Sunday */
    int hour;
    int minute;
    int second;
    char zone[8]; /* "+0100" */
} Calendar;

/* The calendar in that zone; times outside of the years 1 to 9999 are moved to their ends. */
static Calendar
calendar_of(int64_t time_us, int zone_minutes)
{
    int zone = CLAMP(zone_minutes, -99 * 60 - 59, 99 * 60 + 59);
    int64_t limit = INT64_C(253402300799) * US_PER_SECOND; /* the end of year 9999 */
    int64_t us = CLAMP(time_us, -INT64_C(62135596800) * US_PER_SECOND, limit);
    int64_t local = us / US_PER_SECOND - (us % US_PER_SECOND < 0 ? 1 : 0) + (int64_t)zone * 60;
    int64_t days = local / 86400 - (local % 86400 < 0 ? 1 : 0);
    int second = (int)(local - days * 86400);

    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_index = (5 * day_of_year + 2) / 153;
    int month = (int)(month_index < 10 ? month_index + 3 : month_index - 9);
    Calendar calendar = {
        .year = (int)(year_of_era + era * 400 + (month <= 2 ? 1 : 0)),
        .month = month,
        .day = (int)(day_of_year - (153 * month_index + 2) / 5 + 1),
        .weekday = (int)(((days + 4) % 7 + 7) % 7),
        .hour = second / 3600,
        .minute = second / 60 % 60,
        .second = second % 60,
    };
    int offset = zone < 0 ? -zone : zone;
    g_snprintf(calendar.zone, sizeof(calendar.zone), "%c%02d%02d", zone < 0 ? '-' : '+',
        offset / 60, offset % 60);
    return calendar;
}

void
ph_date_append(GString *out, int64_t time_us, int zone_minutes)
{
    Calendar c = calendar_of(time_us, zone_minutes);
    g_string_append_printf(out, "%s, %d %s %04d %02d:%02d:%02d %s", day_names[c.weekday], c.day,
        month_names[c.month - 1], c.year, c.hour, c.minute, c.second, c.zone);
}

void
ph_imap_append_date_time(GString *out, int64_t time_us, int zone_minutes)
{
    Calendar c = calendar_of(time_us, zone_minutes);
    g_string_append_printf(out, "\"%2d-%s-%04d %02d:%02d:%02d %s\"", c.day,
        month_names[c.month - 1], c.year, c.hour, c.minute, c.second, c.zone);
}

char *
ph_date_format(int64_t time_us, int zone_minutes)
{
    GString *out = g_string_new(NULL);
    ph_date_append(out, time_us, zone_minutes);
    return g_string_free(out, FALSE);
}
