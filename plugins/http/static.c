/* static.c - files: conditions, ranges, encodings
 *
 * A file in memory is answered from ready bytes: the head of its 200, the date, the body. Everything
 * that differs from that (304, 206, 416) makes its own head from what the entry knows.
 */
#include "http.h"

#include "posthouse/log.h"

#include <string.h>

bool
http_path_is_hidden(const char *path)
{
    static const char well_known[] = "/.well-known";
    if (strstr(path, "/.") == NULL)
        return false;
    if (strncmp(path, well_known, sizeof(well_known) - 1) == 0 &&
        (path[sizeof(well_known) - 1] == '/' || path[sizeof(well_known) - 1] == '\0'))
        path += sizeof(well_known) - 1;
    return strstr(path, "/.") != NULL;
}

/* -- bodies ------------------------------------------------------------------------------------ */

static PH_ON_REACTOR void
write_slice(HttpExchange *exchange, const HttpEntry *entry, int64_t first, int64_t length)
{
    if (entry->file != NULL) {
        ph_exchange_write_file(&exchange->base, entry->file, first, length);
        return;
    }
    const char *bytes = g_bytes_get_data(entry->body, NULL);
    ph_exchange_write(&exchange->base, bytes + first, (size_t)length);
}

static PH_ON_REACTOR void
send_whole(HttpExchange *exchange, const HttpEntry *entry)
{
    HttpReady ready = {
        .status = 200,
        .head = entry->head,
        .head_length = entry->head_length,
        .body_length = entry->status.st_size,
    };
    http_exchange_begin_ready(exchange, &ready);
    if (entry->body != NULL)
        ph_exchange_write_bytes(&exchange->base, entry->body);
    else
        ph_exchange_write_file(&exchange->base, entry->file, 0, entry->status.st_size);
    ph_exchange_finish(&exchange->base);
}

/* -- heads that are made now ------------------------------------------------------------------- */

static PH_ON_REACTOR void
say_validators(HttpExchange *exchange, const HttpEntry *entry)
{
    char date[HTTP_DATE_BYTES];
    http_format_date(entry->status.st_mtim.tv_sec, date);
    ph_exchange_header(&exchange->base, "Last-Modified", date);
    ph_exchange_header(&exchange->base, "ETag", entry->etag);
    if (entry->offered > 1U << HTTP_ENCODING_IDENTITY || entry->encoding != HTTP_ENCODING_IDENTITY)
        ph_exchange_header(&exchange->base, "Vary", "Accept-Encoding");
}

static PH_ON_REACTOR void
send_not_modified(HttpExchange *exchange, const HttpEntry *entry)
{
    ph_exchange_status(&exchange->base, 304);
    say_validators(exchange, entry);
    ph_exchange_finish(&exchange->base);
}

static PH_ON_REACTOR void
say_partial(HttpExchange *exchange, const HttpEntry *entry)
{
    ph_exchange_status(&exchange->base, 206);
    say_validators(exchange, entry);
    ph_exchange_header(&exchange->base, "Accept-Ranges", "bytes");
    ph_exchange_header(&exchange->base, "X-Content-Type-Options", "nosniff");
    if (entry->encoding != HTTP_ENCODING_IDENTITY)
        ph_exchange_header(
            &exchange->base, "Content-Encoding", http_encoding_name(entry->encoding));
}

static void
format_range(char *out, size_t size, const HttpRange *range, int64_t of)
{
    g_snprintf(out, size, "bytes %" G_GINT64_FORMAT "-%" G_GINT64_FORMAT "/%" G_GINT64_FORMAT,
        range->first, range->last, of);
}

static PH_ON_REACTOR void
send_one_range(HttpExchange *exchange, const HttpEntry *entry, const HttpRange *range)
{
    char text[80];
    format_range(text, sizeof(text), range, entry->status.st_size);
    say_partial(exchange, entry);
    ph_exchange_header(&exchange->base, "Content-Type", entry->content_type);
    ph_exchange_header(&exchange->base, "Content-Range", text);
    ph_exchange_length(&exchange->base, range->last - range->first + 1);
    write_slice(exchange, entry, range->first, range->last - range->first + 1);
    ph_exchange_finish(&exchange->base);
}

/* multipart/byteranges (RFC 9110 14.6). */
static PH_ON_REACTOR void
send_ranges(HttpExchange *exchange, const HttpEntry *entry, const HttpRange *ranges, size_t n)
{
    char boundary[40];
    g_snprintf(boundary, sizeof(boundary), "ph%08x%08x%08x", g_random_int(), g_random_int(),
        g_random_int());
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
    int64_t length = 0;
    for (size_t i = 0; i < n; i++) {
        char text[80];
        format_range(text, sizeof(text), &ranges[i], entry->status.st_size);
        char *part = g_strdup_printf("%s--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
            i > 0 ? "\r\n" : "", boundary, entry->content_type, text);
        g_ptr_array_add(parts, part);
        length += (int64_t)strlen(part) + ranges[i].last - ranges[i].first + 1;
    }
    g_autofree char *end = g_strdup_printf("\r\n--%s--\r\n", boundary);
    g_autofree char *type = g_strdup_printf("multipart/byteranges; boundary=%s", boundary);
    say_partial(exchange, entry);
    ph_exchange_header(&exchange->base, "Content-Type", type);
    ph_exchange_length(&exchange->base, length + (int64_t)strlen(end));
    for (size_t i = 0; i < n; i++) {
        const char *part = parts->pdata[i];
        ph_exchange_write(&exchange->base, part, strlen(part));
        write_slice(exchange, entry, ranges[i].first, ranges[i].last - ranges[i].first + 1);
    }
    ph_exchange_write(&exchange->base, end, strlen(end));
    ph_exchange_finish(&exchange->base);
}

/* -- which answer ------------------------------------------------------------------------------ */

static PH_ON_REACTOR void
send_file(HttpExchange *exchange, const HttpEntry *entry)
{
    const HttpHead *head = &exchange->request->head;
    int64_t modified_s = entry->status.st_mtim.tv_sec;
    switch (http_check_conditions(head, entry->etag, modified_s)) {
    case HTTP_CONDITION_FAILED:
        http_exchange_error(exchange, 412, NULL, NULL);
        return;
    case HTTP_CONDITION_NOT_MODIFIED:
        send_not_modified(exchange, entry);
        return;
    case HTTP_CONDITION_PROCEED:
        break;
    }
    const char *wanted = http_head_field(head, HTTP_FIELD_RANGE);
    if (wanted == NULL || head->method != HTTP_METHOD_GET ||
        !http_check_if_range(head, entry->etag, modified_s)) {
        send_whole(exchange, entry);
        return;
    }
    HttpRange ranges[HTTP_RANGES_MAX];
    size_t n = 0;
    switch (http_parse_ranges(wanted, entry->status.st_size, ranges, &n)) {
    case HTTP_RANGE_NONE:
        send_whole(exchange, entry);
        break;
    case HTTP_RANGE_SOME:
        if (n == 1)
            send_one_range(exchange, entry, &ranges[0]);
        else
            send_ranges(exchange, entry, ranges, n);
        break;
    case HTTP_RANGE_OUTSIDE: {
        char field[64];
        g_snprintf(field, sizeof(field), "Content-Range: bytes */%" G_GINT64_FORMAT,
            (int64_t)entry->status.st_size);
        http_exchange_error(exchange, 416, NULL, field);
        break;
    }
    }
}

static PH_ON_REACTOR void
redirect_to_folder(HttpExchange *exchange)
{
    const HttpHead *head = &exchange->request->head;
    /* As it came, but for what the normalised path does not have: "//" at its start would be read as
     * a host. */
    g_autofree char *escaped = g_uri_escape_string(head->path, "/!$&'()*+,;=:@", FALSE);
    g_autofree char *location =
        g_strconcat(escaped, "/", head->query != NULL ? "?" : "", head->query, NULL);
    http_exchange_redirect(exchange, 301, location);
}

static void
found_variant(HttpExchange *exchange, HttpEntry *entry, const GError *error)
{
    ph_assert_on_reactor();
    if (error != NULL || entry->kind != HTTP_ENTRY_FILE)
        http_exchange_error(exchange, 503, NULL, NULL); /* it went away in this moment */
    else
        send_file(exchange, entry);
}

/* The folder that the route names, below the site's, and the path in it. With a folder of its own, the
 * route's prefix is not part of that. */
static const char *
path_in_folder(const HttpExchange *exchange)
{
    const PhSiteRoute *route = exchange->base.route;
    const char *path = exchange->request->head.path;
    size_t prefix = strlen(route->prefix);
    if (route->target == NULL || route->target[0] == '\0' || prefix <= 1)
        return path;
    while (prefix > 0 && route->prefix[prefix - 1] == '/')
        prefix--;
    path += MIN(prefix, exchange->request->head.path_length);
    return path[0] == '/' ? path : "/";
}

static bool
is_reading(const HttpExchange *exchange)
{
    HttpMethod method = exchange->request->head.method;
    return method == HTTP_METHOD_GET || method == HTTP_METHOD_HEAD;
}

static void
found(HttpExchange *exchange, HttpEntry *entry, const GError *error)
{
    ph_assert_on_reactor();
    exchange->is_body_wanted = true;
    exchange->is_body_dropped = entry == NULL || entry->kind != HTTP_ENTRY_PAGE;
    if (error != NULL) {
        ph_log(PH_LOG_WARNING, "http.file", "%s", error->message);
        http_exchange_error(exchange, 503, NULL, NULL);
        return;
    }
    switch (entry->kind) {
    case HTTP_ENTRY_MISSING:
        http_exchange_error(exchange, 404, "There is nothing under this address.", NULL);
        break;
    case HTTP_ENTRY_DENIED:
        http_exchange_error(exchange, 403, "This is not to be read.", NULL);
        break;
    case HTTP_ENTRY_FOLDER:
        redirect_to_folder(exchange);
        break;
    case HTTP_ENTRY_PAGE:
        if (exchange->base.site->pages)
            http_page_begin_file(exchange, entry);
        else
            http_exchange_error(exchange, 404, "There is nothing under this address.", NULL);
        break;
    case HTTP_ENTRY_FILE: {
        if (!is_reading(exchange)) {
            http_exchange_refuse_method(exchange, "GET, HEAD");
            break;
        }
        HttpEncoding encoding = http_select_encoding(&exchange->request->head, entry->offered);
        if (encoding == HTTP_ENCODING_IDENTITY) {
            send_file(exchange, entry);
            break;
        }
        /* An index file's variants are found by the file's own name. */
        g_autofree char *path = g_strconcat("/", entry->file_path, NULL);
        http_cache_find(exchange, exchange->base.site->root, exchange->base.route->target, path,
            encoding, found_variant);
        break;
    }
    }
}

static void
begin(PhExchange *base)
{
    ph_assert_on_reactor();
    HttpExchange *exchange = http_exchange_of(base);
    const char *path = path_in_folder(exchange);
    if (http_path_is_hidden(path)) {
        http_exchange_error(exchange, 404, "There is nothing under this address.", NULL);
        return;
    }
    /* Whether the body is wanted is known when it is known what this is. */
    exchange->is_body_wanted = false;
    http_cache_find(
        exchange, base->site->root, base->route->target, path, HTTP_ENCODING_IDENTITY, found);
}

const PhWebHandler http_static_handler = {
    .begin = begin,
    .body = http_page_body,
    .complete = http_page_complete,
    .closed = http_page_closed,
};
