/* test-http-select.c - dates, conditions, ranges, encodings, types */
#include "plugins/http/select.h"

#include <string.h>

/* A head with these fields, the first of each name known. */
static HttpHead
head_of(char **memory, const char *method, const char *fields)
{
    g_autofree char *text =
        g_strdup_printf("%s / HTTP/1.1\r\nHost: a.test\r\n%s\r\n", method, fields);
    HttpScan scan = { 0 };
    HttpLimits limits = { 1000, 10000, 100 };
    HttpHead head;
    HttpProblem problem;
    size_t length;
    g_assert_cmpint(
        http_scan_head(&scan, (const uint8_t *)text, strlen(text), &limits, &length, &problem), ==,
        HTTP_PARSE_DONE);
    *memory = g_malloc(http_head_memory(length, scan.lines + 1));
    g_assert_cmpint(http_parse_head((const uint8_t *)text, length, *memory, &head, &problem), ==,
        HTTP_PARSE_DONE);
    return head;
}

static void
test_dates(void)
{
    static const struct {
        const char *text;
        int64_t seconds; /* -1: none */
    } rows[] = {
        { "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
        { "Sunday, 06-Nov-94 08:49:37 GMT", 784111777 },
        { "Sun Nov  6 08:49:37 1994", 784111777 },
        { "Sun Nov 06 08:49:37 1994", 784111777 },
        { "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
        { "Tue, 29 Feb 2000 12:00:00 GMT", 951825600 },
        { "Sun, 06 Nov 1994 08:49:37", -1 },
        { "Sun, 06 Nov 1994 08:49:37 UTC", -1 },
        { "Sun, 06 Nov 1994 24:00:00 GMT", -1 },
        { "Sun, 32 Nov 1994 08:49:37 GMT", -1 },
        { "Sun, 06 Foo 1994 08:49:37 GMT", -1 },
        { "Sun, 06 Nov 1994 08:49:37 GMT ", -1 },
        { "784111777", -1 },
        { "", -1 },
        { ",", -1 },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        int64_t seconds = -1;
        g_assert_cmpint(http_parse_date(rows[i].text, &seconds), ==, rows[i].seconds >= 0);
        g_assert_cmpint(seconds, ==, rows[i].seconds);
    }
}

static void
test_dates_round_trip(void)
{
    char text[HTTP_DATE_BYTES];
    http_format_date(784111777, text);
    g_assert_cmpstr(text, ==, "Sun, 06 Nov 1994 08:49:37 GMT");
    for (int64_t day = 0; day < 60000; day++) {
        int64_t seconds = day * 86400 + day * 7919 % 86400;
        int64_t back = 0;
        http_format_date(seconds, text);
        g_assert_true(http_parse_date(text, &back));
        g_assert_cmpint(back, ==, seconds);
    }
}

#define D1 "Sun, 06 Nov 1994 08:49:37 GMT" /* when it was changed */
#define D0 "Sat, 05 Nov 1994 08:49:37 GMT"
#define D2 "Mon, 07 Nov 1994 08:49:37 GMT"

static void
test_conditions(void)
{
    static const struct {
        const char *method;
        const char *fields;
        HttpCondition condition;
    } rows[] = {
        { "GET", "", HTTP_CONDITION_PROCEED },
        { "GET", "If-None-Match: \"e\"\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-None-Match: \"x\", W/\"e\"\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-None-Match: \"x\"\r\nIf-None-Match: \"e\"\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-None-Match: *\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-None-Match: \"x\"\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-None-Match: e\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-None-Match: \"e\r\n", HTTP_CONDITION_PROCEED },
        { "HEAD", "If-None-Match: \"e\"\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "POST", "If-None-Match: \"e\"\r\n", HTTP_CONDITION_FAILED },
        { "GET", "If-Modified-Since: " D1 "\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-Modified-Since: " D2 "\r\n", HTTP_CONDITION_NOT_MODIFIED },
        { "GET", "If-Modified-Since: " D0 "\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Modified-Since: yesterday\r\n", HTTP_CONDITION_PROCEED },
        { "POST", "If-Modified-Since: " D2 "\r\n", HTTP_CONDITION_PROCEED },
        /* If-None-Match takes the place of If-Modified-Since. */
        { "GET", "If-None-Match: \"x\"\r\nIf-Modified-Since: " D2 "\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Match: \"e\"\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Match: *\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Match: W/\"e\"\r\n", HTTP_CONDITION_FAILED },
        { "GET", "If-Match: \"x\"\r\n", HTTP_CONDITION_FAILED },
        { "GET", "If-Unmodified-Since: " D1 "\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Unmodified-Since: " D0 "\r\n", HTTP_CONDITION_FAILED },
        /* If-Match takes the place of If-Unmodified-Since, and comes before If-None-Match. */
        { "GET", "If-Match: \"e\"\r\nIf-Unmodified-Since: " D0 "\r\n", HTTP_CONDITION_PROCEED },
        { "GET", "If-Match: \"x\"\r\nIf-None-Match: \"e\"\r\n", HTTP_CONDITION_FAILED },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *memory = NULL;
        HttpHead head = head_of(&memory, rows[i].method, rows[i].fields);
        HttpCondition condition = http_check_conditions(&head, "\"e\"", 784111777);
        if (condition != rows[i].condition)
            g_test_message("%s %s", rows[i].method, rows[i].fields);
        g_assert_cmpint(condition, ==, rows[i].condition);
    }
}

static void
test_if_range(void)
{
    static const struct {
        const char *fields;
        bool good;
    } rows[] = {
        { "", true },
        { "If-Range: \"e\"\r\n", true },
        { "If-Range: W/\"e\"\r\n", false },
        { "If-Range: \"x\"\r\n", false },
        { "If-Range: " D1 "\r\n", true },
        { "If-Range: " D2 "\r\n", false },
        { "If-Range: x\r\n", false },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *memory = NULL;
        HttpHead head = head_of(&memory, "GET", rows[i].fields);
        g_assert_cmpint(http_check_if_range(&head, "\"e\"", 784111777), ==, rows[i].good);
    }
}

static void
test_ranges(void)
{
    static const struct {
        const char *text;
        int64_t size;
        const char *ranges; /* null: passed over; "": outside */
    } rows[] = {
        { "bytes=0-9", 100, "0-9" },
        { "Bytes=90-", 100, "90-99" },
        { "bytes=-10", 100, "90-99" },
        { "bytes=-1000", 100, "0-99" },
        { "bytes=0-1000", 100, "0-99" },
        { "bytes=0-0,-1", 100, "0-0 99-99" },
        { "bytes=0-1 , 5-6", 100, "0-1 5-6" },
        { "bytes=5-6,0-1", 100, "5-6 0-1" },
        { "bytes=0-1,200-", 100, "0-1" },
        { "bytes=100-", 100, "" },
        { "bytes=200-300", 100, "" },
        { "bytes=-0", 100, "" },
        { "bytes=0-", 0, "" },
        { "bytes=-5", 0, "" },
        { "bytes=99999999999999999999999-", 100, "" },
        { "bytes=5-1", 100, NULL },
        { "bytes=a-b", 100, NULL },
        { "bytes=", 100, NULL },
        { "bytes=1", 100, NULL },
        { "bytes=1-2 3-4", 100, NULL },
        { "bytes=--1", 100, NULL },
        { "lines=0-1", 100, NULL },
        { "bytes=0-50,50-", 100, NULL },
        { "bytes=0-,0-,0-", 100, NULL },
        { "bytes=1-1,3-3,5-5,7-7,9-9,11-11,13-13,15-15,17-17,19-19,21-21,23-23,25-25,27-27,29-29,"
          "31-31,33-33",
            100, NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        HttpRange ranges[HTTP_RANGES_MAX];
        size_t n = 0;
        HttpRangeResult result = http_parse_ranges(rows[i].text, rows[i].size, ranges, &n);
        HttpRangeResult wanted = rows[i].ranges == NULL      ? HTTP_RANGE_NONE
                                 : rows[i].ranges[0] == '\0' ? HTTP_RANGE_OUTSIDE
                                                             : HTTP_RANGE_SOME;
        if (result != wanted)
            g_test_message("%s", rows[i].text);
        g_assert_cmpint(result, ==, wanted);
        if (result != HTTP_RANGE_SOME)
            continue;
        g_autoptr(GString) text = g_string_new(NULL);
        for (size_t k = 0; k < n; k++)
            g_string_append_printf(text, "%s%" G_GINT64_FORMAT "-%" G_GINT64_FORMAT,
                k > 0 ? " " : "", ranges[k].first, ranges[k].last);
        g_assert_cmpstr(text->str, ==, rows[i].ranges);
    }
}

static void
test_encodings(void)
{
    enum { ALL = 1 << HTTP_ENCODING_IDENTITY | 1 << HTTP_ENCODING_GZIP | 1 << HTTP_ENCODING_BR };
    enum { GZIP = 1 << HTTP_ENCODING_IDENTITY | 1 << HTTP_ENCODING_GZIP };
    static const struct {
        const char *fields;
        unsigned offered;
        HttpEncoding encoding;
    } rows[] = {
        { "", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding:\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: gzip, deflate, br\r\n", ALL, HTTP_ENCODING_BR },
        { "Accept-Encoding: gzip, deflate, br\r\n", GZIP, HTTP_ENCODING_GZIP },
        { "Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n", ALL, HTTP_ENCODING_BR },
        { "Accept-Encoding: br;q=0.5, gzip;q=0.8\r\n", ALL, HTTP_ENCODING_GZIP },
        { "Accept-Encoding: br;q=0, gzip\r\n", ALL, HTTP_ENCODING_GZIP },
        { "Accept-Encoding: br ; Q=0.001\r\n", ALL, HTTP_ENCODING_BR },
        { "Accept-Encoding: *\r\n", ALL, HTTP_ENCODING_BR },
        { "Accept-Encoding: *;q=0\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: identity, br;q=0.5\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: br;q=2\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: br;q=x\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: zstd\r\n", ALL, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: br\r\n", 1, HTTP_ENCODING_IDENTITY },
        { "Accept-Encoding: ,;,=,br\r\n", ALL, HTTP_ENCODING_IDENTITY },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *memory = NULL;
        HttpHead head = head_of(&memory, "GET", rows[i].fields);
        HttpEncoding encoding = http_select_encoding(&head, rows[i].offered);
        if (encoding != rows[i].encoding)
            g_test_message("%s", rows[i].fields);
        g_assert_cmpint(encoding, ==, rows[i].encoding);
    }
}

static void
test_types(void)
{
    g_assert_cmpstr(http_content_type("/a/b.html"), ==, "text/html; charset=utf-8");
    g_assert_cmpstr(http_content_type("/a/b.HTML"), ==, "text/html; charset=utf-8");
    g_assert_cmpstr(http_content_type("/a.js/b"), ==, "application/octet-stream");
    g_assert_cmpstr(http_content_type("x.unknown"), ==, "application/octet-stream");
    g_assert_true(http_is_compressible(http_content_type("x.svg")));
    g_assert_false(http_is_compressible(http_content_type("x.png")));
    g_assert_false(http_is_compressible(http_content_type("x")));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http-select/date/parse", test_dates);
    g_test_add_func("/http-select/date/round-trip", test_dates_round_trip);
    g_test_add_func("/http-select/conditions/table", test_conditions);
    g_test_add_func("/http-select/if-range/table", test_if_range);
    g_test_add_func("/http-select/ranges/table", test_ranges);
    g_test_add_func("/http-select/encodings/table", test_encodings);
    g_test_add_func("/http-select/types/table", test_types);
    return g_test_run();
}
